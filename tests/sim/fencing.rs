//! Worlds in which some locks come with fencing tokens, and others are plain.
//!
//! Clients propose numbers by clocks of their own: right ones, some that are ahead or behind, or none. The clocks of
//! servers are set back, set right again, and set forward. No step of a clock excuses a violation, because keys and
//! counters may end at any time, and the numbers that a server gives need not follow its clock. Where keys end early,
//! exclusion is excused, as for every clock that jumps. One world in four has a strict guard.
//!
//! Counters end at any time. A node that was never used, or has restarted, gives no number until it is repaired from
//! the others, or an operator trusts it. The operator knows that no earlier lock is left there, and that the floor will
//! be at least every number that the node has ever given. If that depends on the time, the operator makes sure that the
//! clock is no longer set back. `oracle::fencing` judges the tokens.

use std::time::Duration;

use shearline::internals::FLOOR_KEY;
use shearline::{Instant, Lock, LockOptions};

use crate::case::Kind;
use crate::clock::{MICRO, MILLI, NEVER, SECOND, Time};
use crate::entropy::Entropy;
use crate::faults::Fault::*;
use crate::kinds::kind;
use crate::plan::{Guard, Kinds, Plan};
use crate::trace::Place;
use crate::world::World;

/// The time since 1970 that servers report when their clocks show zero.
const EPOCH: Duration = Duration::from_millis(1_790_000_000_000);

/// What the clocks of servers show when those of machines show zero.
const APART: Duration = Duration::from_secs(999);

/// How often an operator looks for a node that gives no tokens, and how often a counter ends, in each tenth of a
/// second.
const LOOKS: u32 = 500_000;
/// How often the operator looks while a majority has floors: the others are mostly repaired.
const SELDOM: u32 = 20_000;
const ENDS: u32 = 100_000;

/// How often the wall clock of a machine is set, forward or back, in each tenth of a second.
const SETS: u32 = 20_000;

/// How far the clock of a server is set back, until it is set right again.
const BACK: [Time; 4] = [20 * MILLI, 300 * MILLI, 3 * SECOND, 60 * SECOND];

/// How far the clock of a server is set forward.
const FORWARD: [Time; 3] = [300 * MILLI, 3 * SECOND, 60 * SECOND];

/// By how many microseconds a wall clock may be ahead; `None` for no wall clock.
const WALLS: [Option<i64>; 6] = [
    Some(0),
    Some(0),
    None,
    Some(500_000),
    Some(-3_000_000),
    Some(3_600_000_000),
];

/// Tokens of few resources, singly and in sets, while servers restart with and without their data, clocks are
/// set and messages are lost.
pub(crate) const FENCED: Kind = kind("fenced", |entropy| {
    let nodes = entropy.pick(&[3, 3, 5, 4, 1]);
    let clients = 2 + entropy.below(4) as usize;
    let sets = entropy.pick(&[0, 0, 1]);
    let ttl = entropy.pick(&[100, 300, 1_000]);
    let plan = Plan {
        nodes,
        servers: nodes,
        hosts: 1 + entropy.below(clients as u32) as usize,
        resources: 1 + entropy.below(2) as usize + 2 * sets,
        sets,
        fenced: entropy.pick(&[900_000, 500_000, 1_000_000]),
        clock_steps: entropy.pick(&[0, 0, 20_000, 100_000]),
        guard: entropy.pick(&[Guard::Observed, Guard::Observed, Guard::Off]),
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Mixed]),
        length: 5 * SECOND,
        delay: entropy.pick(&[50, 500]) * MICRO,
        delay_tail: entropy.pick(&[0, 1, 10]) * MILLI,
        server_drift: entropy.pick(&[0, 4_000_000]),
        client_drift: entropy.pick(&[0, 4_000_000]),
        node_timeout: entropy.pick(&[None, Some(50)]),
        shortest_ttl: ttl,
        longest_ttl: ttl * entropy.pick(&[1, 3]),
        work: entropy.pick(&[5, 50]) * MILLI,
        rest: entropy.pick(&[5, 50]) * MILLI,
        wait: entropy.pick(&[300, 20, 1_000]) * MILLI,
        habits: [4, 1, 2, 1, 1, 1],
        keeps: entropy.pick(&[0, 0, 500_000]),
        cancels: entropy.pick(&[0, 50_000, 300_000]),
        second_thoughts: entropy.pick(&[0, 100_000]),
        pause: entropy.pick(&[0, 1_000]),
        longest_pause: 300 * MILLI,
        gap: entropy.pick(&[20, 100, 300]) * MILLI,
        longest_fault: entropy.pick(&[10, 100, 500]) * MILLI,
        faults: Plan::only(&[
            Reset, Dark, Partition, Stall, Pause, Slow, Restart, Unload, Kill, Suspend, Jump,
            Delete, Expire,
        ])
        .map(|weight| weight * entropy.pick(&[0, 0, 1, 2])),
        ..Plan::tame(clients)
    };
    match entropy.below(4) {
        0 => plan.marked(entropy),
        _ => plan.losing(entropy),
    }
});

impl Plan {
    /// Lets servers lose their data in worlds whose clients know what follows from that.
    fn losing(mut self, entropy: &mut Entropy) -> Self {
        if self.guard == Guard::Observed {
            self.shortest_ttl = self.shortest_ttl.min(300);
            self.longest_ttl = self.longest_ttl.min(300);
            self.faults[Amnesia as usize] = entropy.pick(&[1, 0, 4]);
        }
        self
    }

    /// Returns by how many microseconds the wall clock of each machine is ahead. `None` means that it has no wall
    /// clock.
    pub(crate) fn draw_walls(&self, entropy: &mut Entropy) -> Vec<Option<i64>> {
        if self.fenced == 0 {
            return Vec::new();
        }
        let any = entropy.below(2) == 0;
        let draw = |_| any.then(|| entropy.pick(&WALLS)).flatten();
        (0..self.hosts).map(draw).collect()
    }
}

/// Worlds like [`FENCED`] in which tokens name the numbers, and clients look who leads.
pub(crate) const LEADERS: Kind = kind("leaders", |entropy| Plan {
    leads: true,
    inspects: 100_000,
    ..(FENCED.draw)(entropy)
});

/// Worlds like [`FENCED`] in which most calls are for permits: each slot has tokens of its own.
pub(crate) const FENCED_PERMITS: Kind = kind("fenced-permits", |entropy| Plan {
    permits: (800_000, entropy.pick(&[2, 1, 3])),
    ..(FENCED.draw)(entropy)
});

/// Returns the owner text of the locks of a client that leads.
pub(crate) fn owner_of(client: usize) -> String {
    format!("client {client}")
}

/// Returns a time since 1970 in microseconds.
pub(crate) fn micros(since: Duration) -> u64 {
    u64::try_from(since.as_micros()).expect("no world lasts so long")
}

impl World {
    /// Returns the options of a call of `client`, whose lock may come with a fencing token.
    pub(crate) fn fencing(&mut self, client: usize, options: LockOptions) -> LockOptions {
        match (self.entropy.chance(self.plan.fenced), self.plan.leads) {
            (true, true) => options.fenced().owner(owner_of(client)),
            (true, false) => options.fenced(),
            (false, _) => options,
        }
    }

    /// Returns what the wall clock of a client says, if it has one.
    fn wall(&self, client: usize, shown: Instant) -> Option<Duration> {
        let ahead = (*self.walls.get(self.clients[client].host)?)?;
        let right = EPOCH + APART + Duration::from_nanos(shown.as_nanos());
        let by = Duration::from_micros(ahead.unsigned_abs());
        Some(if ahead < 0 { right - by } else { right + by })
    }

    /// Returns the time of a server since 1970.
    pub(crate) fn time_of(&self, server: usize) -> Duration {
        let shown = self.servers[server].clock.show(self.now);
        EPOCH + Duration::from_nanos(shown.as_nanos())
    }

    /// A client tells its engine the time.
    pub(crate) fn tell_wall(&mut self, client: usize, shown: Instant) {
        if let Some(since) = self.wall(client, shown) {
            self.clients[client].engine.set_wall_clock(shown, since);
        }
    }

    /// Is called ten times a second: a counter may end, a clock may be set, and an operator may find a node that gives
    /// no tokens.
    pub(crate) fn tend_floors(&mut self) {
        if self.plan.fenced == 0 {
            return;
        }
        let server = self.entropy.below(self.plan.servers as u32) as usize;
        if !self.calm && self.entropy.chance(ENDS) {
            let name = self.entropy.below(self.plan.names() as u32) as usize;
            let key = [b"shearline:fence:", &self.names[name][..]].concat();
            self.command(server, &[b"DEL", &key]);
        }
        if self.entropy.chance(SETS) {
            let host = self.entropy.below(self.walls.len() as u32) as usize;
            let ahead = self.entropy.pick(&WALLS);
            // A machine without a clock gets none.
            self.walls[host] = self.walls[host].and(ahead);
        }
        if !self.calm && self.entropy.chance(self.plan.clock_steps) {
            self.set_clock(server);
        }
        let client = self.entropy.below(self.plan.clients as u32) as usize;
        let floors = (0..self.plan.servers).filter(|server| self.has_floor(*server));
        let looks = match self.plan.servers < 2 * floors.count() {
            true => SELDOM,
            false => LOOKS,
        };
        let there = &mut self.clients[client];
        let ready = there.alive && there.links[server].is_some();
        if ready && there.paths[server].ready_at < NEVER && self.entropy.chance(looks) {
            there.trusted.push(server);
            self.wake_client(client, self.plan.lag);
        }
    }

    /// Sets the clock of a server back, right again, or forward. While it is behind, keys live longer. Once it is
    /// right, no key is kept beyond the true end of its ttl.
    fn set_clock(&mut self, server: usize) {
        if self.servers[server].behind != 0 {
            return self.set_right(server);
        }
        if self.entropy.below(3) == 0 || self.servers[server].vouched {
            let by = self.entropy.pick(&FORWARD);
            self.say(Place::Server(server), || "is set forward".into());
            return self.jump(server, by);
        }
        let by = self.entropy.pick(&BACK);
        self.say(Place::Server(server), || "is set back".into());
        let there = &mut self.servers[server];
        there.clock.set_back(self.now, by);
        there.jumps += 1;
        there.behind = by;
        there.was_behind = true;
    }

    /// Sets a clock right that was set back.
    pub(crate) fn set_right(&mut self, server: usize) {
        let behind = std::mem::take(&mut self.servers[server].behind);
        if behind != 0 {
            self.say(Place::Server(server), || "is set right".into());
            self.jump(server, behind);
        }
    }

    /// Returns `true` if the server has a floor, perhaps of an earlier start, that is not in repair.
    fn has_floor(&self, server: usize) -> bool {
        let there = &self.servers[server];
        let floor = there.store.get(there.clock.show(self.now), FLOOR_KEY);
        floor.is_some_and(|floor| !floor.contains(&b'?'))
    }

    /// Returns `true` if an operator of this client would trust a node with this `run_id` because of its tokens: it has
    /// no floor, and the floor that it would get is at least every number that it has given.
    pub(crate) fn would_lift(&mut self, client: usize, server: usize, run_id: &str) -> bool {
        let there = &self.servers[server];
        let floor = there.store.get(there.clock.show(self.now), FLOOR_KEY);
        let has_one = floor.is_some_and(|floor| floor.starts_with(run_id.as_bytes()))
            && self.has_floor(server);
        let own = self.wall(client, self.clients[client].shown);
        let least = own.unwrap_or_default().min(self.time_of(server)) + Duration::from_secs(1);
        let process = self.clients[client].process;
        let lifts = |least| {
            let fencing = &self.oracle.fencing;
            fencing.would_be_lifted(server, process, micros(least))
        };
        let (by_time, by_tokens) = (lifts(least), lifts(Duration::ZERO));
        self.servers[server].vouched |= !has_one && by_time && !by_tokens;
        !has_one && by_time
    }

    /// Checks, before a user does something with a lock, that the lock's token is still the first one.
    pub(crate) fn keeps_its_token(&mut self, client: usize, lock: &Lock) {
        if let Err(text) = self.oracle.same_token(lock) {
            self.object("fence", format!("client {client}: {text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::effort;
    use crate::sights::Sights;
    use crate::sweep::keep_their_promises;

    /// Plays the histories of a kind, and checks that each event of `seen` happens in them.
    fn keep_promises_of_tokens(kind: Kind, seen: &[&str]) -> Sights {
        let histories = effort(20, 60);
        let sights = keep_their_promises(kind, histories).counts.sights;
        for name in seen {
            let times = sights.of(name);
            assert!(
                effort(0, histories) < times,
                "{name} {times} times in {histories} histories"
            );
        }
        sights
    }

    #[test]
    fn a_leader_is_shown_with_the_number_that_it_has() {
        keep_promises_of_tokens(LEADERS, &["Fenced", "LeaderSeen"]);
    }

    #[test]
    fn permits_have_tokens_that_rise_in_each_slot() {
        keep_promises_of_tokens(FENCED_PERMITS, &["Fenced", "Raised"]);
    }

    #[test]
    fn worlds_keep_their_promises_of_fencing_tokens() {
        let seen = ["Fenced", "FloorSet", "FencedStrictly", "FencedBehind"];
        let sights = keep_promises_of_tokens(FENCED, &seen);
        assert!(0 < sights.of("Raised") && 0 < sights.of("FloorRepaired"));
    }
}
