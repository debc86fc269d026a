//! Certain: a call ends in the turn in which its outcome becomes certain, and waits for no further node.
//!
//! At the end of a turn no call is open if a majority has given the same answer, or if the answers that may still come
//! could not make one. Nodes that have answered, and nodes whose connection was lost since the call, do not count as
//! open. A call for a lock is not open either if a node has said that it belongs to another group.
//! # What it does not see
//!
//! Answers that are read after the shortest node timeout, and calls for a lock that may try again or that comes with a
//! fencing token. A node that could not be asked at all, or whose nil or error may lead to another request, counts here
//! as one that may still answer. So does a node that was ever restarted or refused, if there is a guard. The oracle
//! also ignores extensions and releases of locks that were handed over, because not every answer counts; and releases
//! of locks that were lost, because the remaining copies were released before, and the answers to both releases cannot
//! be distinguished.

use super::ledger::{Code, Entry};
use super::report::TOO_SOON;
use super::{Release, Said, TokenId, Verb};
use crate::clock::NEVER;
use crate::plan::Guard;
use crate::user::{Call, Task};
use crate::world::World;

/// The answers of the nodes to one call.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    yes: usize,
    no: usize,
    /// Nodes that will not answer.
    abstained: usize,
    open: usize,
}

impl World {
    /// Checks a client that has finished its turn.
    pub(crate) fn certain(&mut self, client: usize) {
        for user in 0..self.clients[client].users.len() {
            let task = &self.clients[client].users[user].task;
            let waits = matches!(task, Task::Acquiring { .. });
            let refused = waits && self.oracle.shut_out[client] < NEVER;
            self.object_of(client, refused, "settling", "waits for another group");
            let what = self.is_certain(client, user);
            let what = what.or_else(|| self.is_confirmed(client, user));
            if let Some(count) = what.or_else(|| self.is_certain_beside(client, user)) {
                let text = format!("client {client} waits, though {count:?} leaves one outcome");
                self.object("settling", text);
            }
        }
    }

    /// Returns the answers to the open call of a user if they make its outcome certain.
    fn is_certain(&self, client: usize, user: usize) -> Option<Count> {
        let quorum = self.plan.quorum();
        let (count, certain) = match &self.clients[client].users[user].task {
            Task::Acquiring { call, .. }
                if call.limits.tries == Some(1)
                    && !self.plan.is_crowded()
                    && !self.clients[client].users[user].asks_twice =>
            {
                let [token] = self.oracle.asked[client][user % self.plan.resources][..] else {
                    return None; // No server has executed it yet, or only after another call's.
                };
                if !self.has_asked(client, user, token) {
                    return None;
                }
                let count = self.count(client, call, token, Verb::Set);
                let reachable = count.yes + count.open;
                (count, quorum <= count.yes || reachable < quorum)
            }
            Task::Extending { call, hold } => {
                let token = self.own(client, self.oracle.id_of(&hold.lock)?)?;
                let count = self.count(client, call, token, Verb::Extend);
                let most = count.yes.max(count.no);
                (count, quorum <= most || most + count.open < quorum)
            }
            Task::Releasing { call, release } => {
                let token = self.own(client, release.token?)?;
                let record = self.oracle.ledger.record(token);
                if record.lost || record.permits != 0 {
                    // Its copies were released before, or given back in other slots, so those answers do not count.
                    return None;
                }
                let count = self.count(client, call, token, Verb::Release);
                (count, is_released(count, *release, quorum))
            }
            Task::Acquiring { .. } | Task::Holding(_) | Task::Idle => return None,
        };
        certain.then_some(count)
    }

    /// Returns the answers to a confirmation if they make its outcome certain: a majority misses the lock, none can keep
    /// it, or all have said for how long.
    fn is_confirmed(&self, client: usize, user: usize) -> Option<Count> {
        let quorum = self.plan.quorum();
        let hold = self.clients[client].users[user].task.hold()?;
        let asked = hold.confirming.as_ref()?;
        let token = self.oracle.id_of(&hold.lock)?;
        let count = self.count(client, &asked.call, self.own(client, token)?, Verb::Confirm);
        let most = count.yes.max(count.no) + count.open;
        let certain = quorum <= count.no || most < quorum || count.open == 0;
        certain.then_some(count)
    }

    /// Returns the answers to a second extension of a lock if they make its outcome certain.
    fn is_certain_beside(&self, client: usize, user: usize) -> Option<Count> {
        let quorum = self.plan.quorum();
        let hold = self.clients[client].users[user].task.hold()?;
        let token = self.oracle.id_of(&hold.lock)?;
        let token = self.own(client, token)?;
        let count = self.count(client, hold.beside.as_ref()?, token, Verb::Beside);
        let most = count.yes.max(count.no);
        let certain = quorum <= most || most + count.open < quorum;
        certain.then_some(count)
    }

    /// Returns the token if it was made by this process and never belonged to another.
    fn own(&self, client: usize, token: TokenId) -> Option<TokenId> {
        let record = self.oracle.ledger.record(token);
        let own = record.owner == self.clients[client].process && record.heirs.is_empty();
        own.then_some(token)
    }

    fn count(&self, client: usize, call: &Call, token: TokenId, verb: Verb) -> Count {
        let there = &self.clients[client];
        let mut count = Count::default();
        for (node, cell) in self.oracle.ledger.cells(token).iter().enumerate() {
            let entry = cell.asked(verb);
            let lost = there.paths[node].lost_at;
            let answers = entry.answers(there.process, call.since) && entry.is_read();
            // An answer that was read later may have come too late.
            let soon = entry.read_shown < call.begun.saturating_add(TOO_SOON).min(call.ends);
            // A release does not wait for a node that was not connected at the call, or that has refused it. If several
            // are sent again, it is not known which of them was answered.
            let was_ready = there.paths[node].ready_at < call.since;
            let known = cell.releases.refused == 0 && !cell.releases.are_mixed_up();
            let waited_for = verb != Verb::Release || was_ready && known;
            // A request that waited for room may be the rest of an earlier one.
            let waited_for = waited_for
                && (!matches!(verb, Verb::Extend | Verb::Beside | Verb::Confirm)
                    || entry.sent == call.since);
            let place = if !answers && call.since < lost {
                &mut count.abstained
            } else if !answers
                || !soon
                || !waited_for
                || self.may_not_count(node)
                || may_be_asked_again(entry, verb)
            {
                &mut count.open
            } else {
                match entry.said {
                    // A connection that was lost after its answer takes the answer with it, but for
                    // a release.
                    Said::Ok | Said::One if verb != Verb::Release && entry.read <= lost => {
                        &mut count.abstained
                    }
                    Said::Ok | Said::One => &mut count.yes,
                    Said::Nil | Said::Zero | Said::Foreign => &mut count.no,
                    Said::Refused(_) | Said::Nothing | Said::Else => &mut count.abstained,
                }
            };
            *place += 1;
        }
        count
    }

    /// Returns `true` if the restart guard of a client may keep a node from voting.
    pub(super) fn may_not_count(&self, node: usize) -> bool {
        let server = &self.servers[self.plan.server_of(node)];
        let set = self.plan.watch && (server.jumps > 0 || self.frozen > 0);
        let doubted = server.is_doubted() || set;
        self.plan.guard != Guard::Off && (doubted || self.plan.are_raised())
    }
}

/// Returns `true` if no later answer can change the outcome of a release.
fn is_released(count: Count, release: Release, quorum: usize) -> bool {
    let Count { yes, no, open, .. } = count;
    let enough = quorum <= yes + no;
    let certain = match release.valid {
        true => no + open < quorum,
        false => yes + open < quorum,
    };
    !release.twice
        && (quorum <= yes || quorum <= no || yes + no + open < quorum || enough && certain)
}

/// Returns `true` if there may be another answer: a nil may be caused by a key of the client's own,
/// a script may be forgotten, and a command unknown.
fn may_be_asked_again(entry: &Entry, verb: Verb) -> bool {
    // For a lock that is held, the client asks which permission was missing.
    let again = |code: Code| code.is_no_script() || verb != Verb::Set && code.is_any_error();
    match entry.said {
        Said::Nil => true,
        Said::Refused(code) => again(code),
        Said::Nothing | Said::Ok | Said::One | Said::Zero | Said::Foreign | Said::Else => false,
    }
}
