//! Reports: what an error says about each node is compared with what the node did.
//!
//! *Granted*, *held*, *missing* and *refused*: the node answered so, and the client has read it. *Timed out*: no answer
//! was read within the shortest node timeout. *Unreachable*: during the call there was a time without a ready
//! connection, and the reason is one that the client got. *Unusable*: the server was in such a mood, or belongs to
//! another node too. *Pending*: no answer was read before the turn of the verdict. *Quarantined*: there is a guard, the
//! server was restarted or had a mood, and the end was still to come at the call; where servers carry markers, it has
//! said that an answer does not count, or there was a longer ttl.
//!
//! # What it does not see
//!
//! How long a node timeout was, beyond its shortest. For an attempt that no node executed and that is not the first of
//! its call, *timed out* and *pending* are not checked. Neither are both after a nil, because the client may have asked
//! again after a release of its own; nor *pending* if the deadline may have ended a delay, because the decision is then
//! older than the outcome.

use std::time::Duration;

use shearline::engine::Event as Told;
use shearline::internals::LinkFault;
use shearline::{
    ExtendError, Instant, LockError, NodeOutcome, NodeReport, Report, ServerError, UnlockError,
    Unusable,
};

use super::ledger::{Cell, Code, Entry};
use super::{Fence, Said, TokenId, Verb};
use crate::clock::NEVER;
use crate::plan::Guard;
use crate::user::Call;
use crate::world::World;

/// The shortest node timeout: no vote times out within this time by the client's clock.
pub(super) const TOO_SOON: Duration = Duration::from_millis(5);

/// What something is, or what is wrong with it.
pub(super) type Checked<T = (), E = String> = Result<T, E>;

/// Whether a reported outcome is an answer to the request, or what is wrong with it.
type Judged = Checked<bool, &'static str>;

/// The request, and its client.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) client: usize,
    pub(super) call: &'a Call,
    pub(super) verb: Verb,
    /// The token of the request, if that is known.
    pub(super) token: Option<TokenId>,
    /// The request is the first attempt of the call.
    pub(super) first: bool,
    /// The outcome is reported in the turn of the decision: there is no delay that a deadline can end.
    pub(super) at_once: bool,
}

/// The answers of the nodes, in the words of a report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Votes {
    pub(super) yes: usize,
    pub(super) no: usize,
    pub(super) pending: usize,
    pub(super) timed_out: usize,
    /// The number of nodes with any other outcome.
    pub(super) abstained: usize,
}

impl World {
    /// Compares a report with the ledger. Returns the answers of the nodes, or what is wrong with
    /// it.
    pub(super) fn check_report(&self, question: &Question<'_>, report: &Report) -> Checked<Votes> {
        let nodes = self.plan.nodes_of(question.client);
        if report.quorum() != nodes / 2 + 1 || report.nodes().len() != nodes {
            return Err("it is about other nodes".into());
        }
        let shown = self.clients[question.client].shown;
        if report.elapsed() > shown.saturating_since(question.call.begun) {
            return Err("it took longer than the call".into());
        }
        let mut votes = Votes::default();
        for (node, said) in report.nodes().iter().enumerate() {
            let counts = self.check_node(question, node, said).map_err(|what| {
                let outcome = &said.outcome;
                format!("node {node} is said to be `{outcome}`: {what}")
            })?;
            votes.add(said.outcome, counts);
        }
        Ok(votes)
    }

    /// Checks that the time since the call is as long as the report says.
    pub(super) fn elapsed_when_told(&mut self, client: usize, told: &Told) {
        let (round, report) = match told {
            Told::Acquired {
                round,
                result:
                    Err(
                        LockError::Held(report)
                        | LockError::NoQuorum(report)
                        | LockError::TooSlow(report)
                        | LockError::OtherGroup(report),
                    ),
            } => (round, report),
            Told::Extended {
                round,
                result: Err(ExtendError::Lost(report) | ExtendError::Unconfirmed(report)),
            } => (round, report),
            Told::Released {
                round,
                result: Err(UnlockError::NotHeld(report) | UnlockError::Unconfirmed(report)),
            } => (round, report),
            Told::Acquired { .. }
            | Told::Extended { .. }
            | Told::Released { .. }
            | Told::Expired { .. }
            | _ => return,
        };
        let there = &self.clients[client];
        let calls = there.users.iter().flat_map(|user| user.task.calls());
        let call = calls.into_iter().find(|call| call.round == *round);
        let elapsed = call.map(|call| there.shown.saturating_since(call.begun));
        if elapsed.is_some_and(|elapsed| elapsed != report.elapsed()) {
            let said = report.elapsed();
            let text = format!("client {client}: {elapsed:?} are said to be {said:?}");
            self.object("outcome", text);
        }
    }

    /// Returns whether the reported outcome is an answer to the request, or what is wrong with it.
    fn check_node(&self, question: &Question<'_>, node: usize, said: &NodeReport) -> Judged {
        if *said.address != *format!("node{node}:6379") {
            return Err("under another address");
        }
        let cell = question.token.map(|id| self.oracle.ledger.cell(id, node));
        let entry = cell.map(|cell| cell.asked(question.verb));
        let by = self.clients[question.client].process;
        // If a release was requested before, and waited for a transaction, its answer belongs to another call.
        let own =
            |entry: &&Entry| question.verb != Verb::Release || question.call.since <= entry.asked;
        let asked = entry.filter(|entry| entry.answers(by, question.call.since));
        let asked = asked.filter(own);
        // The answer to a script that the node has forgotten is still to come, and so is that to a
        // release whose command the node refuses.
        let again =
            |code: Code| code.is_no_script() || question.verb != Verb::Set && code.is_any_error();
        let repaired = |entry: &&Entry| !matches!(entry.said, Said::Refused(code) if again(code));
        let read = asked.filter(|entry| entry.is_read()).filter(repaired);
        let age = self.age(question);
        if said.latency.is_some_and(|latency| latency > age) {
            return Err("its answer took longer than the call");
        }
        // The first of two releases was refused, and was sent again after the second, which was answered.
        let repeated = cell.filter(|cell| {
            question.verb == Verb::Release && 0 < cell.releases.refused + cell.releases.repairs
        });
        let denied = repeated.is_some_and(|cell| question.call.since <= cell.releases.denied);
        let answered = match said.outcome {
            NodeOutcome::Granted if repeated.is_some_and(|cell| cell.releases.deleted) => true,
            NodeOutcome::Held | NodeOutcome::Missing if denied => true,
            NodeOutcome::Granted => {
                let counts = |entry: &Entry| !matches!(entry.fence, Fence::Shut);
                let deleted = question.verb == Verb::Release
                    && cell.is_some_and(|cell| cell.releases.deleted);
                let is_yes = |entry: &Entry| {
                    entry.said == question.yes() || deleted && entry.said == Said::Zero
                };
                read.is_some_and(|entry| is_yes(entry) && counts(entry))
            }
            NodeOutcome::Held | NodeOutcome::OtherPermits(_) => {
                read.is_some_and(|entry| question.is_held(entry))
            }
            NodeOutcome::Missing if read.is_none() => {
                return self.check_unasked(question, node, cell);
            }
            NodeOutcome::Missing if self.is_uncounted(question, read) => return Ok(false),
            NodeOutcome::Missing => read.is_some_and(|entry| entry.said == Said::Zero),
            // An earlier attempt was refused so, and in the last one the node did not answer.
            NodeOutcome::Refused(error)
                if said.latency.is_none()
                    && !question.first
                    && self.was_refused(question, node, error) =>
            {
                return Ok(false);
            }
            NodeOutcome::Refused(error) => {
                let refused =
                    |entry: &Entry| matches!(entry.said, Said::Refused(code) if code.is(error));
                // A refused release is repeated, and gets another answer.
                let before = cell.is_some_and(|cell| cell.releases.refusals.contain(error));
                // A `SET` is not repeated as text for lack of room, nor twice. Another error to an extension may be
                // final after the client has asked which permission is missing.
                let stays = question.verb == Verb::Set
                    || question.verb != Verb::Release && error.code() != "NOSCRIPT";
                let read = read.or(asked.filter(|entry| entry.is_read() && stays));
                // The node may have said so when it was asked whether a release is permitted: then there is no `SET`.
                let unset = cell.is_none_or(|cell| cell.sets == 0) && question.verb == Verb::Set;
                let probed = unset && self.oracle.refused[question.client][node].contain(error);
                if probed {
                    return Ok(false);
                }
                read.is_some_and(refused) || question.verb == Verb::Release && before
            }
            NodeOutcome::TimedOut
            | NodeOutcome::Unreachable(_)
            | NodeOutcome::Quarantined { .. }
            | NodeOutcome::Unusable(_)
            | NodeOutcome::Pending
            | _ => {
                let read = read.map(|entry| (entry, is_final(question, cell, entry)));
                return self.check_silence(question, node, said.outcome, read, said.latency);
            }
        };
        match (answered, said.latency) {
            (false, _) => Err("it did not answer so, or that was not read"),
            // A key of another type is an error, which does not say whether it counts.
            (true, None) if self.plan.guard == Guard::Strict && read.is_some_and(is_unmarked) => {
                Ok(false)
            }
            (true, None) => Err("its answer took no time"),
            (true, Some(latency)) if self.is_older(question, read, latency) => {
                Err("its answer took longer than the attempt")
            }
            (true, Some(_)) if said.outcome == NodeOutcome::Held => {
                self.check_own_key(question, node).map(|()| true)
            }
            (true, Some(_)) => Ok(true),
        }
    }

    /// Returns `true` if a node has refused an attempt of the client with this error.
    fn was_refused(&self, question: &Question<'_>, node: usize, error: ServerError) -> bool {
        let asked = self.oracle.asked[question.client].iter().flatten();
        let mut cells = asked.map(|id| self.oracle.ledger.cell(*id, node));
        let first = self.oracle.refused[question.client][node].contain(error);
        first || cells.any(|cell| matches!(cell.set.said, Said::Refused(code) if code.is(error)))
    }

    /// Returns `true` for a yes to an extension of a lock that was handed over, from a node that does not count for it.
    fn is_uncounted(&self, question: &Question<'_>, read: Option<&Entry>) -> bool {
        let record = question.token.map(|id| self.oracle.ledger.record(id));
        let inherited = record.is_some_and(|record| !record.heirs.is_empty());
        let yes = read.is_some_and(|entry| entry.said == Said::One);
        inherited && yes && matches!(question.verb, Verb::Extend | Verb::Beside | Verb::Confirm)
    }

    /// Returns `true` if an answer would belong to a request from before the attempt began.
    fn is_older(&self, question: &Question<'_>, read: Option<&Entry>, latency: Duration) -> bool {
        let (Some(id), Some(entry), Verb::Set) = (question.token, read, question.verb) else {
            return false;
        };
        let begun = self.begun_after(question.client, id, question.call.into());
        entry.read_shown.saturating_since(begun) < latency
    }

    fn age(&self, question: &Question<'_>) -> Duration {
        let shown = self.clients[question.client].shown;
        shown.saturating_since(question.call.begun)
    }

    /// Checks that a node that could not have the token is not asked to release it.
    fn check_unasked(&self, question: &Question<'_>, node: usize, cell: Option<&Cell>) -> Judged {
        let has_it = cell.is_some_and(|cell| cell.was_set && !cell.gone);
        // The server may have forgotten it.
        let server = self.plan.server_of(node);
        let there = question.token.is_some_and(|id| self.has_all(server, id));
        if question.verb != Verb::Release {
            Err("it did not answer so, or that was not read")
        } else {
            let fits = !(has_it && there);
            fits.then_some(false)
                .ok_or("it has the key and was not asked")
        }
    }

    /// Checks that a key of the client's own, whose release is open, does not count as another client's.
    fn check_own_key(&self, question: &Question<'_>, node: usize) -> Result<(), &'static str> {
        let ledger = &self.oracle.ledger;
        let token = question.token;
        let blocked_by = token.and_then(|id| ledger.cell(id, node).blocked_by);
        let Some(other) = blocked_by.filter(|_| question.verb == Verb::Set) else {
            return Ok(());
        };
        let (record, cell) = (ledger.record(other), ledger.cell(other, node));
        let asker = question.token.map(|id| ledger.record(id).resource);
        if asker != Some(record.resource) {
            return Ok(()); // The key may belong to another user that wants one of several resources.
        }
        let server = self.plan.server_of(node);
        let own = record.owner == self.clients[question.client].process
            && record.heirs.is_empty()
            && cell.was_set;
        let back = self.oracle.revenants.contains(&(server, other));
        // The owner knows when the key has expired, and may know it before it reads a yes. A server whose clock was set
        // back keeps the key longer.
        let there = &self.servers[server];
        let expired = there.behind != 0 || cell.until < there.clock.show(self.now);
        // A server that executes no writes runs the commands of a connection that died without a notice long after the
        // next handshake. The release is no longer due then, because the ttl is over.
        // Members of others may be in the same set.
        let members = there.members_at(there.clock.show(self.now), &self.names[record.resource]);
        let is_alone = members.len() < 2;
        if own && !back && !expired && !cell.astray && is_alone {
            return Err("it was held by a key of the client's own");
        }
        Ok(())
    }

    /// Checks the report about a node without a vote. `read` is its answer, and whether that is the last.
    fn check_silence(
        &self,
        question: &Question<'_>,
        node: usize,
        outcome: NodeOutcome,
        read: Option<(&Entry, bool)>,
        latency: Option<Duration>,
    ) -> Judged {
        let client = &self.clients[question.client];
        let path = &client.paths[node];
        let since = question.call.since;
        // It may have said yes before its connection was lost, or the old validity was over.
        let answers = latency.is_some() && !matches!(outcome, NodeOutcome::Unusable(_));
        if answers && read.is_none() {
            return Err("an answer that did not come took some time");
        }
        let soon = question.call.begun.saturating_add(TOO_SOON);
        match outcome {
            NodeOutcome::TimedOut => {
                // A yes to an extension after the old end does not count.
                let counts = |(entry, last): (&Entry, bool)| entry.read_shown < soon && last;
                let early = question.first && latency.is_none() && read.is_some_and(counts);
                (!early).then_some(()).ok_or("it answered in time")
            }
            NodeOutcome::Pending => {
                let counts = |(entry, last): (&Entry, bool)| entry.read < client.turn_began && last;
                // The copies of a lost lock are released before its holder asks for that: perhaps this is that answer.
                let lost = |id| self.oracle.ledger.record(id).lost;
                let another = question.verb == Verb::Release && question.token.is_some_and(lost);
                let before = question.at_once && !another && read.is_some_and(counts);
                (!before).then_some(()).ok_or("it has answered")
            }
            NodeOutcome::Unreachable(reason) => {
                let down =
                    path.ready_at == NEVER || since <= path.ready_at || since <= path.lost_at;
                let fault = reason.fault();
                let known = path.was_told(fault) || engine_knows(fault);
                let why = "it was reachable, or for another reason";
                (down && known).then_some(()).ok_or(why)
            }
            NodeOutcome::Unusable(reason) => {
                let could_be = self.could_be(question.client, node, reason);
                could_be.then_some(()).ok_or("it is not")
            }
            NodeOutcome::Quarantined { until } => {
                // A yes that was taken back took some time.
                let silent =
                    latency.is_none() || self.plan.guard == Guard::Strict || self.plan.watch;
                let kept = silent && self.could_be_kept(question, node, until);
                kept.then_some(()).ok_or("nothing keeps it from voting")
            }
            NodeOutcome::Granted
            | NodeOutcome::Held
            | NodeOutcome::Missing
            | NodeOutcome::Refused(_)
            | _ => Err("nothing makes it so"),
        }
        .map(|()| false)
    }

    /// Returns `true` if a node may have been kept from voting until then.
    fn could_be_kept(&self, question: &Question<'_>, node: usize, until: Instant) -> bool {
        let asked = question.verb != Verb::Release;
        // Until now: the node has to join again, or is joining.
        let ahead = match self.plan.guard == Guard::Strict {
            true => question.call.begun <= until,
            false => question.call.begun < until,
        };
        asked && self.may_not_count(node) && ahead
    }

    /// Returns `true` if the server of a node may have been unusable for this reason.
    fn could_be(&self, client: usize, node: usize, reason: Unusable) -> bool {
        let server = &self.servers[self.plan.server_of(node)];
        match reason {
            Unusable::SameServer(twin) => {
                let twin = usize::from(twin);
                twin != node && self.plan.server_of(twin) == self.plan.server_of(node)
            }
            Unusable::TooManyClients => server.crowds > 0,
            Unusable::NoCredentials
            | Unusable::WrongCredentials
            | Unusable::Replica
            | Unusable::Mode
            | Unusable::Refused(_) => server.mood_number > 0,
            Unusable::NotRedis => server.uttered,
            Unusable::Permission { .. } | Unusable::KeyPermission => {
                self.oracle.refused[client][node].contain_no_permission()
            }
            Unusable::NoFloor | Unusable::InRepair => self.plan.fenced != 0,
            Unusable::NoPermission | Unusable::NoDatabase | Unusable::Protected | _ => false,
        }
    }
}

impl<'a> Question<'a> {
    /// Returns the only request of a call about a lock.
    pub(super) fn about(client: usize, call: &'a Call, verb: Verb, token: Option<TokenId>) -> Self {
        Self {
            client,
            call,
            verb,
            token,
            first: true,
            at_once: true,
        }
    }

    fn yes(&self) -> Said {
        match self.verb == Verb::Set {
            true => Said::Ok,
            false => Said::One,
        }
    }

    fn is_held(&self, entry: &Entry) -> bool {
        let held = match self.verb == Verb::Set {
            true => Said::Nil,
            false => Said::Foreign,
        };
        entry.said == held
    }
}

impl Votes {
    /// Returns what is wrong unless these answers make the outcome `certain`.
    pub(super) fn make(self, certain: bool) -> Checked {
        let wrong = || format!("that is not what {self:?} makes");
        certain.then_some(()).ok_or_else(wrong)
    }

    fn add(&mut self, outcome: NodeOutcome, answered: bool) {
        let count = match outcome {
            NodeOutcome::Granted => &mut self.yes,
            NodeOutcome::Held | NodeOutcome::Missing | NodeOutcome::OtherPermits(_) if answered => {
                &mut self.no
            }
            NodeOutcome::Pending => &mut self.pending,
            NodeOutcome::TimedOut => &mut self.timed_out,
            NodeOutcome::Held
            | NodeOutcome::Missing
            | NodeOutcome::Refused(_)
            | NodeOutcome::Unreachable(_)
            | NodeOutcome::Quarantined { .. }
            | NodeOutcome::Unusable(_)
            | _ => &mut self.abstained,
        };
        *count += 1;
    }
}

/// Returns `true` if no request can be repeated. Requests are repeated after a nil that may be due to a key of the
/// client's own, and after an error about a held lock, when the client asks which permission is missing; and if several
/// releases are repeated, another one may have been answered.
fn is_final(question: &Question<'_>, cell: Option<&Cell>, entry: &Entry) -> bool {
    let mixed_up = cell.is_some_and(|cell| cell.releases.are_mixed_up());
    if question.verb == Verb::Release && mixed_up || entry.is_over {
        return false;
    }
    match entry.said {
        Said::Nil => false,
        Said::Refused(code) => question.verb == Verb::Set || !code.is_any_error(),
        Said::Nothing | Said::Ok | Said::One | Said::Zero | Said::Foreign | Said::Else => true,
    }
}

/// Reasons that an engine finds by itself, or knows from the beginning.
fn engine_knows(reason: LinkFault) -> bool {
    matches!(
        reason,
        LinkFault::NotYet
            | LinkFault::ConnectTimeout
            | LinkFault::Silent
            | LinkFault::HandshakeReset
    )
}
/// Returns `true` if a node has said that the key belongs to another client, and nothing about its marker.
fn is_unmarked(entry: &Entry) -> bool {
    entry.said == Said::Foreign && entry.fence == Fence::None
}
