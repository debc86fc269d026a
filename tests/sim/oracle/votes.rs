//! Votes and validity: the answers that a lock and an extension need.
//!
//! A majority of the *configured* nodes, each a server of its own, has executed the `SET` or the
//! extension of exactly this token. It was sent after the call began, its answer was read before
//! the lock was reported, and over a connection that was not lost in between; for an extension,
//! also before the old validity was over. On each of them the key lasts until the true time at
//! which the client's clock shows the end of the validity, and for the lock delay after that.
//!
//! No engine reports a lock whose validity is over at the time of the poll, and no user gets one
//! that is over by then.
//!
//! The end of the validity is `t1 + ttl - drift` to the nanosecond, and `t1` lies between the call
//! and the first byte that was sent.
//!
//! # What it does not see
//!
//! If an attempt is not the first of its call, `t1` is only known to lie after the first byte of
//! the one before, and where writes are cut short after the call.

use std::collections::BTreeSet;
use std::time::Duration;

use shearline::engine::Event as Told;
use shearline::{Instant, Lock};

use super::ledger::Entry;
use super::{Said, TokenId, Verb};
use crate::client::Path;
use crate::clock::{MILLI, NEVER, Time};
use crate::plan::Guard;
use crate::user::{Call, Hold};
use crate::world::World;

/// Returns what is subtracted for drifting clocks by default: a hundredth of the ttl and 2 ms.
pub(super) fn drift(ttl: u64) -> Duration {
    let hundredth = ttl.saturating_mul(MILLI).div_ceil(100);
    Duration::from_nanos(hundredth + 2 * MILLI)
}

/// Returns how long a lock of `ttl` may be trusted at most.
pub(super) fn longest_validity(ttl: u64) -> Duration {
    Duration::from_millis(ttl).saturating_sub(drift(ttl))
}

/// When a request was made, also by the client's clock, and for which ttl.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) since: Time,
    pub(super) begun: Instant,
    pub(super) ttl: u64,
}

impl From<&Call> for Asked {
    fn from(call: &Call) -> Self {
        let Call {
            since, begun, ttl, ..
        } = *call;
        Self { since, begun, ttl }
    }
}

/// The servers of some votes, and in which life: a restarted server is another.
pub(super) type Servers = BTreeSet<(usize, u32)>;

impl World {
    /// Returns the token of a lock. Objects if no node has seen it.
    pub(super) fn seen(&mut self, lock: &Lock) -> Option<TokenId> {
        let id = self.oracle.id_of(lock);
        if id.is_none() {
            self.object("votes", "a lock whose token no node has seen");
        }
        id
    }

    /// Checks a lock that a call has returned.
    pub(crate) fn check_grant(&mut self, client: usize, user: usize, lock: &Lock, call: &Call) {
        let asked =
            self.is_asked_for(client, user, lock) && lock.ttl() == Duration::from_millis(call.ttl);
        self.object_if(!asked, "votes", || {
            format!("client {client} got {lock:?} for another")
        });
        let Some(id) = self.seen(lock) else {
            return;
        };
        let until = lock.valid_until();
        let record = self.oracle.ledger.record_mut(id);
        (record.granted, record.ttl) = (self.inputs, call.ttl);
        self.check_votes(client, id, Verb::Set, call.since, until, true, Instant::MAX);
        self.check_validity(client, id, Verb::Set, call.into(), until);
    }

    /// Checks that no engine reports a lock that is already over at the time that the engine was given.
    pub(crate) fn alive_when_told(&mut self, client: usize, told: &Told) {
        self.elapsed_when_told(client, told);
        if let Told::Acquired {
            result: Ok(lock), ..
        } = told
            && !lock.is_valid_at(self.clients[client].shown)
        {
            let text = format!("client {client} is told of a lock that is over");
            self.object("validity", text);
        }
    }

    /// Checks that no user gets a lock that is over.
    pub(crate) fn alive_when_handed_out(&mut self, client: usize, lock: &Lock) {
        let over = !lock.is_valid_at(self.clock_of(client).show(self.now));
        self.object_of(client, over, "validity", "is handed a lock that is over");
    }

    /// Checks an extension that a call has returned. It lasts `until` then; the validity of the lock ended `before`,
    /// and its longest ttl was `ttl`.
    pub(crate) fn check_extension(
        &mut self,
        client: usize,
        (hold, until): (&Hold, Instant),
        verb: Verb,
        call: &Call,
        (before, ttl): (Instant, Duration),
    ) {
        let lock = &hold.lock;
        let Some(id) = self.seen(lock) else {
            return;
        };
        if lock.ttl() != ttl.max(Duration::from_millis(call.ttl)) {
            let text = format!("client {client} has a lock of {:?}", lock.ttl());
            self.object("validity", text);
        }
        // If the extension was shorter than the remaining time, the lock ends as before, and by its old votes. A
        // cancelled confirmation may have given it this end.
        let explained = |asked| self.explains(client, id, asked, until);
        let known = match hold.unasked.as_ref().is_some_and(explained) {
            true => before.max(until),
            false => before,
        };
        let longer = known < until;
        self.check_votes(client, id, verb, call.since, until, longer, before);
        // A confirmation may have found an earlier end since.
        let shortened = hold.asked && lock.valid_until() <= until;
        if longer {
            let mut asked = Asked::from(call);
            if shortened {
                asked.begun = Instant::ZERO;
            }
            self.check_validity(client, id, verb, asked, until);
        } else if shortened {
            // The lock may end as early as the confirmation has found.
        } else if until < known {
            self.object("validity", "an extension has shortened a lock");
        } else if known < self.least_end(id, verb, call.into())
            && !self.ends_now(client, id, lock.valid_until())
        {
            self.object("validity", "an extension has not made a lock longer");
        }
    }

    /// Checks that enough servers have said yes, and that enough keys last `until`: on the same servers if the two are
    /// `bound` together.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the promise")]
    pub(super) fn check_votes(
        &mut self,
        client: usize,
        id: TokenId,
        verb: Verb,
        since: Time,
        until: Instant,
        bound: bool,
        within: Instant,
    ) {
        let resource = self.oracle.ledger.record(id).resource;
        let end = self.clock_of(client).when(until);
        let gone = (end + self.plan.lock_delay * MILLI).min(NEVER);
        // A lock that is reported after its end promises nothing.
        let excused = self.oracle.is_excused(self.now, resource) || end <= self.now;
        let record = self.oracle.ledger.record(id);
        let doubted = if verb == Verb::Set { 0 } else { record.doubted };
        // The next extension by its engine may be executed before the outcome of this one is reported.
        let next = self.oracle.calls[client][resource].keep.next;
        let next = next.filter(|_| verb == Verb::Keep);
        let said: Vec<_> = (self.oracle.ledger.cells(id).iter().enumerate())
            .map(|(node, cell)| {
                let mut entry = cell.asked(verb);
                let older = (verb != Verb::Set).then_some(&cell.set);
                if next.is_some_and(|(_, since, _)| since <= entry.sent) && !entry.is_read() {
                    entry = &cell.keep_before;
                }
                let said = entry.read_shown < within
                    && self.is_vote(client, node, entry, since)
                    && (excused
                        || doubted & 1 << node == 0
                            && !self.oracle.quarantine.silences(client, node, entry, older));
                let named = self.oracle.quarantine.named(client, node, entry);
                (cell, entry, said, named.filter(|_| said))
            })
            .collect();
        // The longest ttl that the markers of these servers named. A server whose marker named a
        // shorter one has to say yes again.
        let most = said.iter().filter_map(|(.., named)| *named).max();
        let (mut yes, mut stand) = (Servers::default(), Servers::default());
        for (node, (cell, entry, said, named)) in said.iter().enumerate() {
            let server = self.plan.server_of(node);
            let said = *said && *named == most;
            let lasts = self.servers[server].clock.show(gone) <= cell.until;
            let stands = !cell.gone && (lasts || excused);
            if said {
                yes.insert((server, entry.life));
            }
            if stands && (said || !bound) {
                stand.insert((server, entry.life));
            }
        }
        let quorum = self.plan.quorum();
        if yes.len() < quorum || stand.len() < quorum && !excused {
            let (yes, stand) = (yes.len(), stand.len());
            let text = format!(
                "client {client} told of {verb:?}: {yes} servers said yes, {stand} keep the key as \
                 long as promised, {quorum} are needed"
            );
            self.object("votes", text);
        }
        let own = self.plan.max_life_of(client);
        if self.plan.guard == Guard::Strict && most.is_none_or(|most| most < own) {
            let text =
                format!("client {client} told of {verb:?} by markers of {most:?}, not {own}");
            self.object("votes", text);
        }
    }

    /// Returns `true` if the newest answers to such a request count on a majority of servers.
    pub(super) fn has_quorum(
        &self,
        id: TokenId,
        verb: Verb,
        counts: impl Fn(usize, &Entry) -> bool,
    ) -> bool {
        let mut yes = Servers::default();
        for (node, cell) in self.oracle.ledger.cells(id).iter().enumerate() {
            let entry = cell.asked(verb);
            if counts(node, entry) {
                yes.insert((self.plan.server_of(node), entry.life));
            }
        }
        self.plan.quorum() <= yes.len()
    }

    /// Returns `true` if `node` has said yes to a request of `since` or later, and nothing has taken it
    /// back.
    pub(super) fn is_vote(&self, client: usize, node: usize, entry: &Entry, since: Time) -> bool {
        let client = &self.clients[client];
        // A connection that is lost in the turn of the decision may be lost after it.
        let lost = client.paths[node].lost_at;
        let lost = entry.read <= lost && lost < client.turn_began;
        entry.answers(client.process, since)
            && matches!(entry.said, Said::Ok | Said::One)
            && entry.is_read()
            && !lost
    }

    /// Returns how long a lock may be trusted at least. An extension by the engine subtracts the drift of the longest
    /// ttl, and any extension subtracts a twelfth if a clock was set, or stood still with its machine.
    pub(super) fn least_validity(&self, id: TokenId, verb: Verb, ttl: u64) -> Duration {
        let given = self.oracle.ledger.record(id).ttl;
        let longest = match verb == Verb::Keep {
            true => given.max(ttl),
            false => ttl,
        };
        let was_set = 0 < self.frozen || self.servers.iter().any(|server| server.jumps != 0);
        let was_set = was_set && verb != Verb::Set;
        let slews = if was_set { ttl.div_ceil(12) } else { 0 };
        Duration::from_millis(ttl - slews).saturating_sub(drift(longest))
    }

    /// Returns when a lock ends at the earliest after such a call.
    fn least_end(&self, id: TokenId, verb: Verb, call: Asked) -> Instant {
        let least = self.least_validity(id, verb, call.ttl);
        call.begun.saturating_add(least)
    }

    /// Checks that the validity counts from before the first byte, and not from before the call.
    pub(super) fn check_validity(
        &mut self,
        client: usize,
        id: TokenId,
        verb: Verb,
        call: Asked,
        until: Instant,
    ) {
        let began = until.saturating_sub(longest_validity(call.ttl));
        let cells = self.oracle.ledger.cells(id).iter();
        let entries = cells.map(|cell| cell.asked(verb));
        let process = self.clients[client].process;
        // A transaction of the last extension may have gone on after its end, to a node that is lost since.
        let asked = entries.filter(|entry| {
            entry.answers(process, call.since) && (verb != Verb::Keep || entry.is_read())
        });
        let Some(sent) = asked.map(|entry| entry.sent).min() else {
            return; // Then no node has voted.
        };
        let clock = self.clock_of(client);
        let late = clock.since() <= sent && clock.show(sent) < began;
        let early = verb == Verb::Set && began < self.begun_after(client, id, call);
        let least = self.least_end(id, verb, call);
        self.object_if(until < least || early || late, "validity", || {
            format!("client {client}: valid until {until:?} by {verb:?}")
        });
    }

    /// Returns the time by the client's clock after which an attempt has begun: the time of the call, and of the first
    /// bytes of all earlier attempts, if each was written at once.
    pub(super) fn begun_after(&self, client: usize, id: TokenId, call: Asked) -> Instant {
        let there = &self.clients[client];
        let clock = self.clock_of(client);
        // Without scripts, a request for several resources waits until no transaction is open.
        let waits = self.plan.is_bare() && self.plan.sets != 0;
        if waits || there.paths.iter().any(Path::was_full) {
            return call.begun;
        }
        let ledger = &self.oracle.ledger;
        let (resource, sent) = (ledger.record(id).resource, ledger.record(id).sent);
        let others = self.oracle.asked[client][resource].iter();
        let before = others.map(|other| ledger.record(*other).sent);
        let before = before.filter(|before| *before < sent && clock.since() <= *before);
        let newest = before.max().map(|before| clock.show(before));
        newest.unwrap_or(call.begun).max(call.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::{Entropy, Tape};
    use crate::oracle::{Fence, ledger::Entry};
    use crate::plan::Plan;

    /// The longest ttl of the client.
    const LONGEST: u64 = 500;
    /// The end of the lock: by true time, and by the client's clock.
    const END: Time = 300 * MILLI;
    const UNTIL: Instant = Instant::from_millis(1_300);

    /// Makes a world whose client has a lock on all three nodes. Their markers named these longest ttls when they said
    /// yes. The yes of node `n` was deed `n + 1`, and executed after `n + 1` ms.
    fn granted(named: [u64; 3]) -> (World, TokenId) {
        let plan = |_: &mut Entropy| Plan {
            guard: Guard::Strict,
            longest_ttl: LONGEST,
            ..Plan::tame(1)
        };
        let mut world = World::new(plan, Entropy::of_tape(Tape::default(), None), false);
        let process = world.clients[0].process;
        let id = world.oracle.ledger.enter([7; 20], process, 0, 0);
        for (node, longest) in named.into_iter().enumerate() {
            let number = node as u64 + 1;
            let executed = number * MILLI;
            let cell = world.oracle.ledger.cell_mut(id, node);
            cell.until = Instant::MAX;
            cell.set = Entry {
                number,
                by: process,
                said: Said::Ok,
                fence: Fence::Open(longest),
                executed,
                read: executed,
                read_shown: Instant::from_millis(1_000 + number),
                ..Entry::default()
            };
        }
        (world, id)
    }

    /// Returns `true` if the oracle objects to the report of the lock at `now`.
    fn objects((mut world, id): (World, TokenId), now: Time) -> bool {
        world.now = now;
        world.check_votes(0, id, Verb::Set, 0, UNTIL, true, Instant::MAX);
        world.oracle.violation.is_some()
    }

    /// The nodes' answers to it are not known yet.
    #[test]
    fn votes_for_an_extension_count_also_when_the_next_one_was_executed_before_it_is_told() {
        for (is_next, objects) in [(false, true), (true, false)] {
            let (mut world, id) = granted([LONGEST; 3]);
            let sent = 200 * MILLI;
            for node in 0..3 {
                let cell = world.oracle.ledger.cell_mut(id, node);
                cell.keep_before = Entry {
                    said: Said::One,
                    ..cell.set
                };
                cell.keep = Entry {
                    sent,
                    read: NEVER,
                    read_shown: Instant::MAX,
                    ..cell.keep_before
                };
            }
            let calls = &mut world.oracle.calls[0][0].keep;
            calls.next = is_next.then(|| (Default::default(), sent, UNTIL));
            world.now = sent + MILLI;
            world.check_votes(0, id, Verb::Keep, 0, UNTIL, true, Instant::MAX);
            assert_eq!(world.oracle.violation.is_some(), objects);
        }
    }

    #[test]
    fn votes_of_servers_that_forgot_are_missed_until_the_end_of_the_lock() {
        let forgetful = || {
            let (mut world, id) = granted([LONGEST; 3]);
            world.oracle.forgot(0, 0, 0);
            world.oracle.forgot(1, 0, 0);
            (world, id)
        };
        assert!(objects(forgetful(), END - 1));
        // A lock that is reported after its end promises nothing,
        assert!(!objects(forgetful(), END));
        // but it still needs the answers of a majority.
        let (mut world, id) = forgetful();
        for node in 0..2 {
            world.oracle.ledger.cell_mut(id, node).set.said = Said::Nil;
        }
        assert!(objects((world, id), END));
    }

    #[test]
    fn confirmations_of_servers_that_forgot_count_after_the_end_of_the_lock() {
        let (mut world, id) = granted([LONGEST; 3]);
        world.oracle.forgot(0, 0, 0);
        for node in 0..3 {
            let cell = world.oracle.ledger.cell_mut(id, node);
            cell.confirm = Entry {
                said: Said::One,
                kept: 1_000,
                kept_at: world.servers[node].clock.show(0),
                ..cell.set
            };
        }
        world.now = END - 1;
        assert_eq!(world.keepers(0, id, 0, UNTIL), (2, 2));
        world.now = END;
        assert_eq!(world.keepers(0, id, 0, UNTIL), (3, 3));
    }

    /// Returns `true` if the oracle objects to a confirmation that was requested after 1 ms and reports this end. An
    /// extension by 500 ms was requested after 2 ms, confirmed by the nodes before `confirmed`, and cancelled.
    fn objects_to_confirmed(until: Instant, confirmed: u64) -> bool {
        let (mut world, id) = granted([LONGEST; 3]);
        let process = world.clients[0].process;
        let options = shearline::LockOptions::new(Duration::from_millis(LONGEST));
        let request = shearline::engine::Request::new(b"resource0", &options);
        let engine = &mut world.clients[0].engine;
        let round = engine.acquire(Instant::from_millis(1_000), &request);
        let call = |after: u64| Call {
            ends: Instant::MAX,
            number: 0,
            limits: Default::default(),
            round: round.clone().expect("there is room"),
            since: after * MILLI,
            begun: Instant::from_millis(1_000 + after),
            ttl: LONGEST,
        };
        for node in 0..3 {
            let cell = world.oracle.ledger.cell_mut(id, node as usize);
            let answer = Entry {
                by: process,
                sent: 2 * MILLI,
                said: Said::One,
                read: 3 * MILLI,
                read_shown: Instant::from_millis(1_003),
                ..cell.set
            };
            cell.confirm = Entry {
                kept: 20,
                kept_at: world.servers[node as usize].clock.show(0),
                ..answer
            };
            if node < confirmed {
                cell.extend = answer;
            }
        }
        world.now = 10 * MILLI;
        let asked = crate::user::Confirming {
            call: call(1),
            within: UNTIL,
            overtaken: true,
        };
        let cancelled = [(Verb::Extend, Some(call(2))), (Verb::Beside, None)];
        world.check_confirmed(0, id, &asked, (UNTIL, until), cancelled);
        world.oracle.violation.is_some()
    }

    #[test]
    fn a_confirmation_tells_of_an_extension_that_was_cancelled_when_a_majority_had_confirmed_it() {
        let end = Instant::from_millis(1_002).saturating_add(longest_validity(LONGEST));
        assert!(!objects_to_confirmed(end, 2));
        assert!(objects_to_confirmed(end, 1));
        let later = end.saturating_add(Duration::from_nanos(1));
        assert!(objects_to_confirmed(later, 2));
    }

    #[test]
    fn a_yes_under_a_shorter_marker_counts_if_its_server_was_vouched_for_since() {
        let longer = 2 * LONGEST;
        let opened = |number, longest| {
            let (mut world, id) = granted([longer, LONGEST, LONGEST]);
            world.oracle.quarantine.opened(0, 1, number, longest);
            objects((world, id), 10 * MILLI)
        };
        assert!(!objects(granted([longer; 3]), 10 * MILLI));
        assert!(objects(granted([longer, LONGEST, LONGEST]), 10 * MILLI));
        // Node 1 said yes in deed 2.
        assert!(opened(1, longer));
        assert!(!opened(3, longer));
        assert!(opened(3, longer - 1));
        // Another process of the client knows nothing of it.
        let (mut world, id) = granted([longer, LONGEST, LONGEST]);
        world.oracle.quarantine.opened(0, 1, 3, longer);
        world.oracle.quarantine.born(0);
        assert!(objects((world, id), 10 * MILLI));
    }
}
