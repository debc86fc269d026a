//! What is to be done next.

use crate::error::{ExtendError, LockError, ReinitError, Released, UnlockError};
use crate::node::HELLO;
use crate::quorum::{Lock, Majority};
use crate::slab::Key;
use crate::time::Instant;

use super::claim::Stage;
use super::contract::{Event, Extension, NodeId, Output, RoundId, random_part};
use super::round::{Decision, Kind, Question, Refusal, State};
use super::{Due, Engine};

impl Engine {
    /// What is to be done next; to be asked until `None`. `now` is read anew: a lock whose
    /// validity has run out since it was granted is given back here, and not handed out.
    #[must_use]
    pub fn poll(&mut self, now: Instant) -> Option<Output<'_>> {
        if let Some(node) = self.probes.to_close.iter().next() {
            self.probes.to_close.remove(node);
            return Some(Output::CloseProbe { node: id(node) });
        }
        if let Some(node) = self.to_disconnect.iter().next() {
            self.to_disconnect.remove(node);
            return Some(Output::Disconnect { node: id(node) });
        }
        if let Some(node) = self.to_connect.iter().next() {
            self.to_connect.remove(node);
            return Some(Output::Connect { node: id(node) });
        }
        if let Some(node) = self.probes.to_open.iter().next() {
            self.probes.to_open.remove(node);
            return Some(Output::Probe {
                node: id(node),
                bytes: HELLO,
            });
        }
        let mut node = self.next_to_write();
        if node.is_none() {
            if let Some(event) = self.next_event(now) {
                return Some(Output::Event(event));
            }
            // Looking for an event may have caused something to be written: a lock that has run
            // out is released.
            node = self.next_to_write();
        }
        let node = node?;
        self.to_write.remove(node);
        let bytes = self.nodes[node].offer()?;
        Some(Output::Transmit {
            node: id(node),
            bytes,
        })
    }

    fn next_to_write(&mut self) -> Option<usize> {
        for node in self.to_write.iter() {
            if self.nodes[node].offer().is_some() {
                return Some(node);
            }
            self.to_write.remove(node);
        }
        None
    }

    /// The next event. Entries of rounds that were cancelled, or that try again after all, are
    /// passed over.
    fn next_event(&mut self, now: Instant) -> Option<Event> {
        while let Some(due) = self.due.pop_front() {
            let event = match due {
                Due::Expired(lock) => Some(Event::Expired { lock }),
                Due::Round(key) => self.tell(now, key),
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn tell(&mut self, now: Instant, key: Key) -> Option<Event> {
        let round = self.rounds.get_mut(key)?;
        if let State::Decided(Decision::Granted(_, valid_until)) = round.state
            && valid_until <= now
            && !mutant!(StaleNow | ValidityUnchecked)
        {
            self.fail(now, key, Refusal::TooSlow);
            return None;
        }
        let decision = round.take_decision()?;
        let event = self.event(now, key, decision);
        mutant!(RoundsKept => (), else self.close_round(key));
        event
    }

    fn event(&mut self, now: Instant, key: Key, decision: Decision) -> Option<Event> {
        let round = RoundId(key);
        let report = |engine: &Self| {
            let round = engine.rounds.get(key)?;
            Some(round.report(now, &engine.settings.labels))
        };
        Some(match decision {
            Decision::Granted(majority, valid_until) => Event::Acquired {
                round,
                result: Ok(self.hand_out(key, &majority, valid_until)?),
            },
            Decision::Refused(refusal) => Event::Acquired {
                round,
                result: Err(match refusal {
                    Refusal::Held => LockError::Held(report(self)?),
                    Refusal::NoQuorum => {
                        let labels = &self.settings.labels;
                        LockError::NoQuorum(self.rounds.get(key)?.report_causes(now, labels))
                    }
                    Refusal::TooSlow => LockError::TooSlow(report(self)?),
                    Refusal::Saturated => LockError::Saturated,
                    Refusal::OtherCluster => LockError::OtherCluster(report(self)?),
                }),
            },
            Decision::Extended(majority, valid_until) => Event::Extended {
                round,
                result: Ok(self.extension(key, majority, valid_until)?),
            },
            Decision::ExtensionLost => Event::Extended {
                round,
                result: Err(ExtendError::Lost(report(self)?)),
            },
            Decision::ExtensionUnconfirmed => Event::Extended {
                round,
                result: Err(ExtendError::Unconfirmed(report(self)?)),
            },
            Decision::ExtensionClosed => Event::Extended {
                round,
                result: Err(ExtendError::Closed),
            },
            Decision::Released => Event::Released {
                round,
                result: Ok(Released {
                    deleted: self
                        .rounds
                        .get(key)
                        .map_or(0, |round| round.tally.yes().len())
                        as u8,
                }),
            },
            Decision::NotHeld => Event::Released {
                round,
                result: Err(UnlockError::NotHeld(report(self)?)),
            },
            Decision::ReleaseUnconfirmed => Event::Released {
                round,
                result: Err(UnlockError::Unconfirmed(report(self)?)),
            },
            Decision::Reinitialised => Event::Reinitialised {
                round,
                result: Ok(()),
            },
            Decision::ReinitIncomplete => Event::Reinitialised {
                round,
                result: Err(ReinitError::Incomplete(report(self)?)),
            },
        })
    }

    /// The lock that a round has won goes out; its claim stays and is watched.
    fn hand_out(&mut self, key: Key, majority: &Majority, valid_until: Instant) -> Option<Lock> {
        let Kind::Acquire {
            claim, extensions, ..
        } = &self.rounds.get(key)?.kind
        else {
            return None;
        };
        let (claim_key, extensions) = ((*claim)?, *extensions);
        let id = self.lock_id(claim_key);
        let claim = self.claims.get_mut(claim_key)?;
        let entry = claim.entry.take()?;
        mutant!(StragglerForgotten => claim.may_hold = majority.nodes());
        claim.stage = Stage::Held { told: false };
        claim.valid_until = valid_until;
        claim.told_until = valid_until;
        let ttl = claim.ttl;
        self.watch(claim_key);
        Some(Lock::granted(
            majority,
            entry,
            id,
            valid_until,
            ttl,
            extensions,
        ))
    }

    fn extension(
        &mut self,
        key: Key,
        majority: Majority,
        valid_until: Instant,
    ) -> Option<Extension> {
        let round = self.rounds.get(key)?;
        let Kind::Extend {
            lock,
            claim,
            entry,
            question,
            ..
        } = &round.kind
        else {
            return None;
        };
        let exact = matches!(question, Question::HowLong(_));
        if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim)) {
            mutant!(CancelledExtensionUndoesOthers => (), else claim.told_until = match exact {
                true => valid_until,
                false => valid_until.max(claim.told_until),
            });
        }
        Some(Extension {
            exact,
            lock: *lock,
            token: random_part(entry.token()),
            majority,
            valid_until,
            ttl: round.ttl,
        })
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as u8)
}
