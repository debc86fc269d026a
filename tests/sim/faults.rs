//! The faults.

use shearline::internals::limits::PUSHES_MAX;
use shearline::internals::{BARRIER_KEY, LinkFault, MARKER_KEY, Store};

use crate::clock::{MILLI, NEVER, SECOND, Time};
use crate::link::Way;
use crate::plan::Guard;
use crate::server::{MOODS, Mood};
use crate::trace::{self, Place};
use crate::world::{Event, World};

/// Declares the faults, and lists them in this order.
macro_rules! faults {
    ($($(#[$about:meta])* $fault:ident,)*) => {
        /// A fault.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum Fault {
            $($(#[$about])* $fault,)*
        }

        pub(crate) const FAULTS: [Fault; [$(Fault::$fault),*].len()] = [$(Fault::$fault),*];

        /// Their names, as they are counted.
        pub(crate) const NAMES: [&str; FAULTS.len()] = [$(stringify!($fault)),*];
    };
}

// Exclusion has to hold in spite of the faults before `Amnesia`. The faults from `Flush` on concern what servers report
// about themselves.
faults! {
    /// A connection is reset; some of the bytes on their way arrive.
    Reset,
    /// A connection goes dark: nothing arrives any more, and no end is notified.
    Dark,
    /// Nothing arrives in one direction between a client and a node, for a while.
    Partition,
    /// A server stands still, for a while.
    Stall,
    /// A server is killed, and restarted with all its keys.
    Restart,
    /// A machine is suspended: its clients are stopped, its clock goes on.
    Suspend,
    /// A server forgets its scripts.
    Unload,
    /// A server answers with errors, for a while.
    Mood,
    /// A client is killed, and another replaces it.
    Kill,
    /// A server executes no writes, for a while.
    Pause,
    /// A server accepts no more clients, for a while.
    Crowd,
    /// A server is far away, for a while.
    Slow,
    /// A clock runs at another speed, within its bound.
    Drift,
    /// A server sends an invalid reply.
    Garbage,
    /// A server sends a push, once or again and again.
    Push,
    /// A server is killed, and restarted without its keys, or with those of a second ago.
    ///
    /// Uncovered, except in worlds in which all contenders quarantine the server: see
    /// [`Plan::is_guarded`](crate::plan::Plan::is_guarded).
    Amnesia,
    /// A virtual machine stands still, and its clock with it.
    Freeze,
    /// The clock of a server jumps forward.
    Jump,
    /// An operator deletes a key.
    Delete,
    /// An operator lets a key expire soon.
    Expire,
    /// All keys of a server are deleted, and no connection ends. Like the faults that follow, it is uncovered except in
    /// worlds in which the servers carry markers: see [`Plan::is_marked`](crate::plan::Plan::is_marked).
    Flush,
    /// A server is replaced, at the same address, by its replica, which has a long uptime and lags behind.
    Promote,
    /// A server is told to follow another, from which it gets the marker and no lock, and soon to stop following. No
    /// connection ends.
    Follow,
    /// An operator deletes a marker and nothing else.
    Unmark,
    /// An operator deletes a barrier. Exclusion is never expected to survive this.
    Unbar,
    /// An operator trusts a node for a good reason, which is not a fault.
    Trust,
    /// An operator calls `reinit` for nodes that belong to this group already.
    Reinit,
}

/// Replies that no server should ever send.
const GARBAGE: [&[u8]; 4] = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\0\0\0\0",
    b"$-7\r\n",
    b":one\r\n",
];

/// The push that a server sends to clients that track a key.
const INVALIDATION: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$9\r\nresource0\r\n";
const PUSH: &[u8] = b">1\r\n+x\r\n";

/// The value by which an operator replaces a lock.
const OTHERS: &[u8] = b"another's, no lock's";

/// The longest distance of a server that is far away.
const FAR: Time = 100 * MILLI;

impl Fault {
    /// Returns `true` if exclusion has to hold in spite of this fault.
    pub(crate) fn is_covered(self) -> bool {
        FAULTS[..Self::Amnesia as usize].contains(&self)
    }

    /// Returns `true` if the fault is about what servers say about themselves.
    pub(crate) fn is_of_markers(self) -> bool {
        FAULTS[Self::Flush as usize..].contains(&self)
    }
}

impl World {
    /// Causes a fault, and schedules the next one.
    pub(crate) fn fault(&mut self) {
        if self.calm || self.entropy.is_spent() {
            return;
        }
        let weights = self.plan.faults;
        let total: u32 = weights.iter().sum();
        if total == 0 {
            return;
        }
        // Zero means no fault this time.
        let mut drawn = self.entropy.below(total + 1);
        let chosen = FAULTS.iter().zip(weights).find(|(_, weight)| {
            let here = drawn > 0 && drawn <= *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        if let Some((fault, _)) = chosen {
            self.strike(*fault);
        }
        let gap = 1 + self.plan.shortest_gap + self.entropy.rest(self.plan.gap);
        self.at(self.now + gap, Event::Fault);
    }

    fn strike(&mut self, fault: Fault) {
        use Fault::*;
        let node = self.entropy.below(self.plan.nodes as u32) as usize;
        let peer = self.entropy.below(self.plan.peers() as u32) as usize;
        let span = MILLI + self.plan.shortest_fault + self.entropy.span(self.plan.longest_fault);
        self.oracle.counts.sights.note(NAMES[fault as usize]);
        let place = self.place_of(peer);
        self.say(Place::World, || trace::fault(fault, place, node, span));
        self.trouble(fault, peer, node, span);
        self.oracle.deleted.disturb(fault, self.now + span);
        match fault {
            Reset | Dark | Partition | Garbage | Push => {
                self.strike_link(fault, peer, node, span);
            }
            Kill | Suspend | Freeze => {
                self.strike_client(fault, peer % self.plan.clients, span);
            }
            Drift => self.drift(peer, node),
            Delete | Expire => self.operate(self.plan.server_of(node), fault),
            Trust => self.ask_to_trust(peer % self.plan.clients, node),
            Reinit => self.ask_to_reinit(peer % self.plan.clients),
            Amnesia | Flush | Promote | Follow | Unmark => {
                self.strike_server(fault, self.forgetful(node), span);
            }
            Stall | Restart | Unload | Mood | Pause | Crowd | Slow | Unbar | Jump => {
                self.strike_server(fault, self.plan.server_of(node), span)
            }
        }
    }

    fn strike_link(&mut self, fault: Fault, peer: usize, node: usize, span: Time) {
        if fault == Fault::Partition {
            let way = self.entropy.pick(&[Way::ToServer, Way::ToClient]);
            self.partitions[peer][node][way as usize] = true;
            self.at(self.now + span, Event::Heal(peer, node, way));
            return;
        }
        // The connections of strangers are chosen too.
        let link = match self.clients.get(peer) {
            Some(client) => client.links[node],
            None => self.strangers[peer - self.plan.clients].link(node),
        };
        match link {
            Some(conn) if fault == Fault::Reset => self.reset(conn, LinkFault::Reset),
            Some(conn) if fault == Fault::Garbage => {
                let garbage = self.entropy.pick(&GARBAGE);
                self.utter(conn, garbage, true);
            }
            Some(conn) if fault == Fault::Push => self.push(conn),
            Some(conn) => self.darken(conn),
            None => {}
        }
    }

    fn strike_client(&mut self, fault: Fault, client: usize, span: Time) {
        let host = self.clients[client].host;
        if fault == Fault::Kill {
            self.kill_client(client, span);
        } else if fault == Fault::Freeze {
            self.suspend_exclusion(None, span);
            self.frozen += 1;
            self.sleep(host, span, true);
        } else {
            self.sleep(host, span, self.plan.switches.monotonic);
        }
    }

    fn strike_server(&mut self, fault: Fault, server: usize, span: Time) {
        use Fault::*;
        let over = Event::Over(server, fault);
        let there = &mut self.servers[server];
        if fault.is_of_markers() && !there.up {
            return;
        }
        match fault {
            Restart => self.kill(server, span, None),
            Amnesia => {
                let memory = self.entropy.pick(&[SECOND, 0]);
                let away = span.max(self.plan.switches.restart_delay);
                self.kill(server, away, Some(memory));
            }
            Promote => {
                // The lag of the replica. A replica without lag takes over at once.
                let behind = span.min(SECOND);
                self.servers[server].promoted = true;
                self.kill(server, MILLI, Some(behind));
            }
            Unload => {
                self.command(server, &[b"SCRIPT", b"FLUSH"]);
            }
            Flush => {
                self.flush(server);
            }
            Follow => self.follow(server, span),
            Unmark => {
                self.command(server, &[b"DEL", MARKER_KEY]);
            }
            Unbar => {
                let shown = there.clock.show(self.now);
                if there.store.get(shown, BARRIER_KEY).is_some() {
                    self.suspend_exclusion(None, 0);
                }
                self.command(server, &[b"DEL", BARRIER_KEY]);
            }
            Mood => {
                let mood = self.entropy.pick(&MOODS);
                self.vex(server, mood, span);
            }
            Jump => self.jump(server, span),
            Stall => {
                there.stalled = true;
                self.at(self.now + span, over);
            }
            Pause => {
                there.paused = true;
                self.at(self.now + span, over);
            }
            Crowd => {
                there.crowded = true;
                there.crowds += 1;
                self.at(self.now + span, over);
            }
            Slow => {
                there.slow = span.min(FAR);
                self.at(self.now + span, over);
            }
            // Faults of clients and machines.
            Reset | Dark | Partition | Suspend | Kill | Drift | Garbage | Push | Freeze
            | Delete | Expire | Trust | Reinit => {}
        }
    }

    /// Sets the clock of a server forward: keys end early.
    pub(crate) fn jump(&mut self, server: usize, by: Time) {
        let there = &mut self.servers[server];
        there.clock.jump(self.now, by);
        there.jumps += 1;
        there.jumped += by;
        self.oracle.jumped(server, self.now);
        self.suspend_exclusion(None, 0);
    }

    /// Returns the server at a node, or one that may forget.
    fn forgetful(&self, node: usize) -> usize {
        self.plan.server_of(node) % self.plan.forgetful().max(1)
    }

    /// Lets a server lose everything and keep running. Returns whether it did.
    fn flush(&mut self, server: usize) -> bool {
        if !self.command(server, &[b"FLUSHALL"]) {
            return false; // The server wants a password.
        }
        let life = self.servers[server].starts;
        self.oracle.forgot(server, self.now, life);
        self.servers[server].fenced = true;
        if !self.plan.is_marked() {
            self.suspend_exclusion(None, 0);
        }
        true
    }

    /// Replaces all data of a server by another's marker, and lets it refuse writes for a while.
    fn follow(&mut self, server: usize, span: Time) {
        let other = (server + 1) % self.plan.servers;
        let there = &self.servers[other];
        let marker = there.store.get(there.clock.show(self.now), MARKER_KEY);
        // A server's own marker is not noticed, even if it returns from other servers: this is known.
        let marker = marker.filter(|marker| !self.servers[server].has_written(self.now, marker));
        let marker = marker.map(<[u8]>::to_vec);
        if self.flush(server) {
            if let Some(marker) = marker {
                self.command(server, &[b"SET", MARKER_KEY, &marker]);
            }
            self.servers[server].followed = true;
            self.vex(server, Mood::ReadOnly, span);
        }
    }

    /// Lets an operator who knows that a node has forgotten no live lock tell a client to trust it.
    fn ask_to_trust(&mut self, client: usize, node: usize) {
        let server = self.plan.server_of(node);
        let there = &mut self.clients[client];
        let joined =
            there.alive && there.links[node].is_some() && there.paths[node].ready_at < NEVER;
        if joined && self.plan.guard == Guard::Strict && self.oracle.knows_all(server, self.now) {
            there.trusted.push(node);
            self.wake_client(client, self.plan.lag);
        }
    }

    /// Lets a server that speaks RESP3 send a push to a client: once, or too often.
    fn push(&mut self, conn: usize) {
        let link = &self.conns[conn];
        if self.servers[link.server].old || link.talk == 0 {
            return;
        }
        if self.entropy.below(4) != 3 {
            self.utter(conn, INVALIDATION, false);
        } else {
            let flood = PUSH.repeat(PUSHES_MAX as usize + 2);
            self.utter(conn, &flood, true);
        }
    }

    /// Lets an operator call `reinit` on a client whose nodes belong to its group already.
    fn ask_to_reinit(&mut self, client: usize) {
        let there = &mut self.clients[client];
        if there.alive && self.plan.guard == Guard::Strict && there.reinit.is_none() {
            there.to_reinit = true;
            self.wake_client(client, self.plan.lag);
        }
    }

    /// Runs a command that no peer sent, with the usual password. Returns whether it ran.
    pub(crate) fn command(&mut self, server: usize, words: &[&[u8]]) -> bool {
        let there = &mut self.servers[server];
        let shown = there.clock.show(self.now);
        let mut session = Store::session();
        let mut reply = Vec::new();
        if let Some(password) = self.plan.password() {
            let words: &[&[u8]] = &[b"AUTH", password];
            there.store.execute(&mut session, shown, words, &mut reply);
            reply.clear();
        }
        there.store.execute(&mut session, shown, words, &mut reply);
        self.push_changes(server);
        !reply.starts_with(b"-")
    }

    fn vex(&mut self, server: usize, mood: Mood, span: Time) {
        let there = &mut self.servers[server];
        there.mood = mood;
        there.mood_number += 1;
        if mood == Mood::Locked {
            there.store.set_password(Some(b"another"));
        }
        let number = there.mood_number;
        self.at(self.now + span, Event::Cheer(server, number));
    }

    /// Changes the speed of the clock of a machine, a stranger or a server.
    fn drift(&mut self, peer: usize, node: usize) {
        let now = self.now;
        if self.entropy.below(2) == 0 {
            let fast = self.plan.server_skew(&mut self.entropy);
            let server = self.plan.server_of(node);
            self.servers[server].clock.retune(now, fast);
            return;
        }
        let fast = self.plan.client_skew(&mut self.entropy);
        let Some(client) = self.clients.get(peer) else {
            let first = self.plan.clients;
            self.strangers[peer - first].clock.retune(now, fast);
            return;
        };
        let host = client.host;
        self.hosts[host].clock.retune(now, fast);
        // Sleeps are measured by this clock.
        for client in 0..self.clients.len() {
            if self.clients[client].host == host && self.clients[client].stopped_until <= now {
                self.sleep_until_needed(client);
            }
        }
    }

    /// Lets an operator delete or shorten a key, on one server or on all.
    fn operate(&mut self, server: usize, fault: Fault) {
        if self.plan.raids {
            let most = self.plan.servers - self.plan.quorum() + 1;
            let servers = self.plan.quorum() + self.entropy.below(most as u32) as usize;
            return self.operate_on(0..servers, fault);
        }
        if self.entropy.below(4) != 3 {
            self.operate_on(server..server + 1, fault);
        } else {
            self.operate_on(0..self.plan.servers, fault);
        }
    }

    fn operate_on(&mut self, servers: std::ops::Range<usize>, fault: Fault) {
        let resource = self.entropy.below(self.plan.names() as u32) as usize;
        self.suspend_exclusion(Some(resource), 0);
        let key = self.names[resource];
        let left = 5 + self.entropy.span(self.plan.longest_ttl);
        let left = shearline::internals::resp::Decimal::from(left);
        let words: &[&[u8]] =
            if fault == Fault::Delete && self.plan.raids && self.entropy.below(2) == 0 {
                &[b"SET", &key, OTHERS, b"PX", left.as_bytes()]
            } else if fault == Fault::Delete {
                &[b"DEL", &key]
            } else {
                &[b"PEXPIRE", &key, left.as_bytes(), b"LT"]
            };
        let keepers = self.watched_keepers(resource);
        for server in servers {
            self.command(server, words);
        }
        self.changed_by_others(resource, &keepers);
        self.note_change(resource);
    }

    /// Ends the process of a server. `memory` says how much of the newest past is missing after the restart: `None` for
    /// nothing, zero for everything.
    pub(crate) fn kill(&mut self, server: usize, span: Time, memory: Option<Time>) {
        let there = &mut self.servers[server];
        if !there.up {
            return;
        }
        there.up = false;
        there.killed_at = self.now;
        there.ready.clear();
        there.postponed.clear();
        let open = std::mem::take(&mut there.open);
        let backlog = std::mem::take(&mut there.backlog);
        match memory {
            None => {}
            Some(0) => there.snapshots.clear(),
            Some(missing) => {
                let then = self.now.saturating_sub(missing);
                there.snapshots.retain(|(at, _)| *at <= then);
            }
        }
        for conn in open.into_iter().chain(backlog) {
            self.reset_from_far(conn);
        }
        let lost = memory.is_some();
        if lost && !self.plan.is_guarded() {
            self.suspend_exclusion(None, 0);
        }
        self.at(self.now + span, Event::Start(server, lost));
    }

    /// Stops the clients of a machine for a while.
    fn sleep(&mut self, host: usize, span: Time, clock_stops: bool) {
        let until = self.now + span;
        let machine = &mut self.hosts[host];
        if machine.asleep_until > self.now {
            return;
        }
        machine.asleep_until = until;
        if clock_stops {
            machine.clock.stop(self.now, until);
        }
    }
}
