//! Outcome truth: what a call returns agrees with what the nodes did.
//!
//! The rules are those of the outcomes' documentation, judged by the [`report`](super::report) and the ledger. *Held*
//! and *no quorum* are certain when they are reported. *Too slow* means that a majority granted, or that a majority is
//! too slow. An error comes when the tries or the time are used up, and not before. *Lost* means that a majority lacks
//! the key, *unconfirmed* that there is no majority either way. The outcome of an unlock follows from the answers to
//! the releases, and from whether the lock was valid at the call. From the first node on that says so, a client of
//! another group gets *other group* and nothing else, with the name of such a node. No other client ever gets it.
//!
//! Without scripts a release may wait for a transaction after another release of the same token, which the engine has
//! requested when the lock was lost: the answer to that one is not the answer to the caller's.
//!
//! # What it does not see
//!
//! If an attempt is not the first of its call, it is not known when it began, so its *too slow* is not compared with
//! the clock. A lock that a client has handed over to itself is released twice on some nodes, and the answers cannot be
//! distinguished: its outcome is not checked. If a node has refused several releases of one token, as it does when it
//! has forgotten the script, the report that it has not answered yet is not checked either.

use std::fmt::Debug;
use std::time::Duration;

use shearline::{
    ExtendError, Instant, LockError, NodeOutcome, NodeReport, NodeState, Released, Report,
    UnlockError, Unusable,
};

use super::ledger::Entry;
use super::report::{Checked, Question, TOO_SOON, Votes};
use super::votes::longest_validity;
use super::{Said, TokenId, Verb};
use crate::clock::NEVER;
use crate::plan::{LONGEST_REST, Members};
use crate::user::{Call, Hold};
use crate::world::World;

/// No further attempt begins less than this and two round trips before the caller's deadline.
const LAST_CHANCE: Duration = Duration::from_millis(2);

/// How a call for a lock may end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) tries: Option<u32>,
    pub(crate) deadline: Option<Instant>,
}

/// A release with a waiting caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub(crate) token: Option<TokenId>,
    /// The lock was valid at the call.
    pub(crate) valid: bool,
    /// The process has handed the lock over to itself before, and so releases some of its copies twice.
    pub(crate) twice: bool,
}

impl World {
    // ----- locks ----------------------------------------------------------------------------

    /// Checks a call for a lock that has failed.
    pub(crate) fn check_refusal(
        &mut self,
        client: usize,
        user: usize,
        call: &Call,
        error: &LockError,
    ) {
        self.oracle.counts.sights.note("Refused");
        if let LockError::Held(report) | LockError::NoQuorum(report) | LockError::TooSlow(report) =
            error
        {
            // With a fencing token the call may have found other keys before.
            let fenced = self.clients[client].users[user].asks_twice;
            if matches!(error, LockError::NoQuorum(_)) && call.limits.tries.is_some() && !fenced {
                self.random_rests(report);
            }
            if report.tries() == 0 {
                self.oracle.counts.sights.note("Unattempted");
                self.clients[client].called = None; // It needed no node.
            }
        }
        if Self::is_saturated(error) {
            return; // It had no room for another try.
        }
        // In this turn the call may have failed for another reason before that was read.
        let before = self.oracle.shut_out[client] < self.clients[client].turn_began;
        let what = if let LockError::OtherGroup(report) = error {
            self.shut_out(client, report)
        } else if before {
            Err("it is of another group".into())
        } else {
            self.refusal(client, user, call, error)
        };
        self.object_to(client, error, what);
    }

    /// Objects to the outcome that a client `got` if something is wrong with it.
    pub(crate) fn object_to(&mut self, client: usize, got: &impl Debug, wrong: Result<(), String>) {
        if let Err(what) = wrong {
            self.object("outcome", format!("client {client} got {got:?}: {what}"));
        }
    }

    /// Checks the report that a node belongs to another group, and which: it comes at once.
    fn shut_out(&self, client: usize, report: &Report) -> Checked {
        let other = Unusable::OtherGroup {
            nodes: self.plan.nodes as u16,
            quorum: self.plan.quorum() as u16,
            name: self.plan.members == Members::OtherName,
        };
        let says = |node: &&NodeReport| node.outcome == NodeOutcome::Unusable(other);
        if !self.plan.is_outsider(client) || self.oracle.shut_out[client] == NEVER {
            Err("no node has said so".into())
        } else if report.nodes().iter().find(says).is_none() {
            Err("no node is said to say so".into())
        } else {
            Ok(())
        }
    }

    fn refusal(&self, client: usize, user: usize, call: &Call, error: &LockError) -> Checked {
        let (LockError::Held(report) | LockError::NoQuorum(report) | LockError::TooSlow(report)) =
            error
        else {
            return Err("nothing here leads to it".into());
        };
        self.is_over(client, call.limits, report)?;
        if self.plan.is_crowded() || self.clients[client].users[user].asks_twice {
            return Ok(()); // A grant alone is no vote for a lock with a fencing token.
        }
        let waits = call.limits.tries != Some(1) || report.tries() == 0;
        if self.plan.sets != 0 && waits {
            return Ok(()); // The report may contain what nodes have said to another user of its client.
        }
        if matches!(error, LockError::NoQuorum(_)) && self.is_left_alone(client, report) {
            return Ok(());
        }
        let votes = self.check_attempt(client, user, call, report)?;
        let quorum = self.plan.nodes_of(client) / 2 + 1;
        let (yes, no, pending) = (votes.yes, votes.no, votes.pending);
        let certain = match error {
            // It has waited for a lock or a waiter of its own handle, and asked no node.
            LockError::Held(report) if report.tries() == 0 => true,
            // Some of the pending nodes may still have been open, and others no longer.
            LockError::Held(_) => {
                yes < quorum && quorum <= yes + no + pending.min(quorum - 1 - yes)
            }
            LockError::NoQuorum(_) => yes + no < quorum,
            LockError::TooSlow(_) if quorum <= yes => self.is_too_late(client, call, report),
            LockError::TooSlow(_)
            | LockError::Invalid(_)
            | LockError::Saturated
            | LockError::Forked
            | LockError::Closed
            | _ => yes + no < quorum && quorum <= yes + no + pending + votes.timed_out,
        };
        votes.make(certain)
    }

    /// Returns `true` if a call has waited until too few nodes could be asked, as its report says: no
    /// node has answered.
    fn is_left_alone(&self, client: usize, report: &Report) -> bool {
        let there = &self.clients[client];
        let states = there.engine.node_statuses(there.shown);
        let away = |state| !matches!(state, NodeState::Ready);
        let mut ready = 0;
        let agree = report.nodes().iter().zip(states).all(|(node, status)| {
            ready += usize::from(!away(status.state));
            let said = !matches!(node.outcome, NodeOutcome::Granted | NodeOutcome::Held);
            node.latency.is_none() && said
        });
        agree && ready < report.quorum()
    }

    /// Checks that the tries or the time are used up.
    fn is_over(&self, client: usize, limits: Limits, report: &Report) -> Result<(), &'static str> {
        let there = &self.clients[client];
        let longest = Duration::from_millis(LONGEST_REST);
        let used = |tries| report.tries() == tries || longest * tries <= report.elapsed();
        let tried = limits.tries.is_some_and(used);
        // The client itself held the lock: no node was asked.
        let tried = tried || limits.tries == Some(1) && report.tries() == 0;
        let round_trips = Duration::from_nanos(2 * there.worst_trip());
        let least = LAST_CHANCE.saturating_add(round_trips);
        let usable = |node: &&NodeReport| !matches!(node.outcome, NodeOutcome::Unusable(why) if is_lasting(why));
        let out_of_reach = report.nodes().iter().filter(usable).count() < report.quorum();
        let others = |node: &&NodeReport| matches!(node.outcome, NodeOutcome::OtherPermits(_));
        let others = report.nodes().iter().filter(others).count();
        // It is not known how long those keys will last.
        let out_of_reach = out_of_reach || report.nodes().len() - others < report.quorum();
        let late = |deadline| deadline <= there.shown.saturating_add(least);
        if limits.tries.is_some_and(|tries| tries < report.tries()) {
            Err("there were more tries than allowed")
        } else if tried || out_of_reach || limits.deadline.is_some_and(late) {
            Ok(())
        } else {
            Err("there were tries and time left")
        }
    }

    /// Returns `true` if a granted lock could have no validity left.
    fn is_too_late(&self, client: usize, call: &Call, report: &Report) -> bool {
        let end = call.begun.saturating_add(longest_validity(call.ttl));
        report.tries() > 1 || end <= self.clients[client].shown
    }

    /// Compares the report with the last attempt. If writes were cut short, the order of a call's
    /// attempts is not known: one of them has to fit.
    fn check_attempt(
        &self,
        client: usize,
        user: usize,
        call: &Call,
        report: &Report,
    ) -> Checked<Votes> {
        let mut question = Question {
            client,
            call,
            verb: Verb::Set,
            token: None,
            first: report.tries() == 1,
            at_once: call.limits.tries == Some(report.tries()),
        };
        let answered = report.nodes().iter().any(|node| node.latency.is_some());
        if !answered {
            // Nothing is known about an attempt that no server has executed.
            return self.check_report(&question, report);
        }
        let mut verdict = Err("no node has executed it".into());
        for token in self.oracle.asked[client][user].iter().rev() {
            question.token = Some(*token);
            match self.check_report(&question, report) {
                Ok(votes) => return Ok(votes),
                // The error of the newest attempt is the best guess.
                Err(what) if verdict.is_err() && question.first => verdict = Err(what),
                Err(_) => {}
            }
        }
        // The attempt may have ended before any `SET` was written.
        question.token = None;
        self.check_report(&question, report).or(verdict)
    }

    // ----- extensions -----------------------------------------------------------------------

    /// Checks an extension that was refused.
    pub(crate) fn check_unbegun(&mut self, client: usize, hold: &Hold, error: &ExtendError) {
        let valid = hold.lock.is_valid_at(self.clients[client].shown);
        let expired = matches!(error, ExtendError::Expired) && (!valid || hold.told);
        let used_up = matches!(error, ExtendError::Limit) && hold.extensions == Some(0);
        let right = expired || used_up;
        self.object_if(!right, "outcome", || {
            format!("client {client} got {error:?} for a valid lock")
        });
    }

    /// Checks an extension that was begun.
    pub(crate) fn check_begun(&mut self, client: usize, hold: &Hold) {
        let valid = hold.lock.is_valid_at(self.clients[client].shown);
        let over = !valid || hold.extensions == Some(0);
        self.object_of(client, over, "outcome", "extends what it cannot extend");
    }

    /// Checks an extension that has failed.
    pub(crate) fn unextended(
        &self,
        client: usize,
        hold: &Hold,
        verb: Verb,
        call: &Call,
        error: &ExtendError,
    ) -> Checked {
        // Of two requests about a lock that is over, the engine ends the newer one as expired.
        if (hold.asked || hold.doubled) && hold.told && matches!(error, ExtendError::Closed) {
            return Ok(());
        }
        // Its engine has made the last one meanwhile.
        let used_up = hold.keep.is_some() && hold.extensions == Some(0);
        if used_up && matches!(error, ExtendError::Limit) {
            return Ok(());
        }
        let (ExtendError::Lost(report) | ExtendError::Unconfirmed(report)) = error else {
            return Err("nothing here leads to it".into());
        };
        let token = self.oracle.id_of(&hold.lock);
        let question = Question::about(client, call, verb, token);
        let votes = self.check_report(&question, report)?;
        let quorum = self.plan.quorum();
        let (yes, no, pending) = (votes.yes, votes.no, votes.pending);
        // A confirmation may have found a later end since, but that gives the extension no more time.
        let resource = token.map(|id| self.oracle.ledger.record(id).resource);
        let calls = &self.oracle.calls[client];
        let within = resource.map_or(Instant::ZERO, |resource| calls[resource].of(verb).within);
        let certain = if matches!(error, ExtendError::Lost(_)) {
            let by_other = |id| self.other_misses_it(client, id, verb);
            quorum <= no || token.is_some_and(by_other)
        } else if hold.told || within <= self.clients[client].shown {
            // If the end was reported meanwhile, the holder does not learn that the lock is still valid.
            no < quorum
        } else {
            yes.max(no) + pending < quorum
        };
        votes.make(certain)
    }

    // ----- releases -------------------------------------------------------------------------

    /// Checks the outcome of a release.
    pub(crate) fn check_release(
        &mut self,
        client: usize,
        call: &Call,
        release: Release,
        result: &Result<Released, UnlockError>,
    ) {
        self.oracle.counts.sights.note("Released");
        if release.twice {
            return;
        }
        let wrong = self.release_outcome(client, call, release, result);
        self.object_to(client, result, wrong);
    }

    fn release_outcome(
        &self,
        client: usize,
        call: &Call,
        release: Release,
        result: &Result<Released, UnlockError>,
    ) -> Checked {
        // An answer of this turn may have been read before or after the decision, an answer later than a node timeout
        // may not have counted, and the call did not wait for a node without a ready connection.
        let surely = |node: usize, entry: &Entry| {
            let there = &self.clients[client];
            let soon = call.begun.saturating_add(TOO_SOON);
            let waited_for = there.paths[node].ready_at < call.since;
            // A node that refused before has voted, or is asked again for more than one release.
            let refused = release.token.is_some_and(|id| {
                let releases = &self.oracle.ledger.cell(id, node).releases;
                releases.refused > 0 || releases.are_mixed_up()
            });
            let early = entry.read < there.turn_began && entry.read_shown < soon;
            waited_for && early && !refused && call.since <= entry.asked
        };
        let before = self.answers_to(client, call, release, surely);
        // The lock was lost just before, and its remaining copies were released: that answer counts too.
        let read = |node: usize, entry: &Entry| {
            let cell = release.token.map(|id| self.oracle.ledger.cell(id, node));
            let before = cell.is_some_and(|cell| call.since <= cell.releases.denied);
            entry.is_read() || before
        };
        let now = self.answers_to(client, call, release, read);
        let quorum = self.plan.quorum();
        let question = Question::about(client, call, Verb::Release, release.token);
        let right = match result {
            Ok(Released { deleted, .. }) => {
                let deleted = usize::from(*deleted);
                let counted = before.0 <= deleted && deleted <= now.0;
                let enough = release.valid && quorum <= now.0 + now.1 && before.1 < quorum;
                counted && (quorum <= deleted || enough)
            }
            Err(UnlockError::NotHeld(report)) => {
                self.check_report(&question, report)?;
                let few = !release.valid && quorum <= now.0 + now.1 && before.0 < quorum;
                quorum <= now.1 || few
            }
            Err(UnlockError::Unconfirmed(report)) => {
                let votes = self.check_report(&question, report)?;
                votes.yes + votes.no + votes.pending < quorum
            }
            Err(_) => false,
        };
        let wrong = || format!("{before:?} to {now:?} said that it is gone now, or was before");
        right.then_some(()).ok_or_else(wrong)
    }

    /// Returns how many nodes have deleted the key, and how many missed it, by the answers that
    /// count.
    fn answers_to(
        &self,
        client: usize,
        call: &Call,
        release: Release,
        counts: impl Fn(usize, &Entry) -> bool,
    ) -> (usize, usize) {
        let process = self.clients[client].process;
        let cells = release.token.map(|id| self.oracle.ledger.cells(id));
        let cells = cells.into_iter().flatten().enumerate();
        let answers = cells.map(|(node, cell)| (node, &cell.release));
        let answers = answers
            .filter(|(node, entry)| entry.answers(process, call.since) && counts(*node, entry));
        answers.fold((0, 0), |(yes, no), (_, entry)| match entry.said {
            Said::One => (yes + 1, no),
            Said::Zero | Said::Foreign => (yes, no + 1),
            Said::Nothing | Said::Ok | Said::Nil | Said::Refused(_) | Said::Else => (yes, no),
        })
    }
}

/// Returns `true` if only an operator can repair the node, so that no later try can succeed.
fn is_lasting(why: Unusable) -> bool {
    !matches!(
        why,
        Unusable::TooManyClients | Unusable::InRepair | Unusable::Refused(_)
    )
}
