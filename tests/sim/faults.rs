//! What goes wrong, and how it ends.

use shearline::LinkError;
use shearline::embedded::Memory;

use crate::clock::{MILLI, SECOND, Time};
use crate::link::{FarState, Way};
use crate::server::{MOODS, Mood};
use crate::trace::{self, Place};
use crate::world::{Event, World};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// A connection is reset; of what is on its way, some arrives.
    Reset,
    /// A connection goes dark: nothing arrives any more, and nobody is told.
    Dark,
    /// Between a client and a node nothing arrives in one direction, for a while.
    Partition,
    /// A server stands still, for a while.
    Stall,
    /// A server is killed, and comes back with all its keys.
    Restart,
    /// A machine sleeps: its clients do not run, its clock does.
    Suspend,
    ForgetScripts,
    /// A server answers with errors, for a while.
    Mood,
    /// A server is killed, and comes back without its keys, or with those of a second ago.
    Amnesia,
    /// A virtual machine stands still, and its clock with it.
    Freeze,
    /// The clock of a server jumps forward.
    Jump,
    /// An operator deletes a key.
    Delete,
    /// An operator lets a key expire soon.
    Expire,
}

pub(crate) const FAULTS: [Fault; 13] = [
    Fault::Reset,
    Fault::Dark,
    Fault::Partition,
    Fault::Stall,
    Fault::Restart,
    Fault::Suspend,
    Fault::ForgetScripts,
    Fault::Mood,
    Fault::Amnesia,
    Fault::Freeze,
    Fault::Jump,
    Fault::Delete,
    Fault::Expire,
];

impl Fault {
    /// Whether exclusion has to hold all the same.
    pub(crate) fn is_covered(self) -> bool {
        match self {
            Self::Reset
            | Self::Dark
            | Self::Partition
            | Self::Stall
            | Self::Restart
            | Self::Suspend
            | Self::ForgetScripts
            | Self::Mood => true,
            Self::Amnesia | Self::Freeze | Self::Jump | Self::Delete | Self::Expire => false,
        }
    }
}

impl World {
    /// Lets something go wrong, and arranges for the next time.
    pub(crate) fn fault(&mut self) {
        if self.calm || self.entropy.is_spent() {
            return;
        }
        let weights = self.plan.faults;
        let total: u32 = weights.iter().sum();
        if total == 0 {
            return;
        }
        // Zero: this time nothing.
        let mut drawn = self.entropy.below(total + 1);
        let chosen = FAULTS.iter().zip(weights).find(|(_, weight)| {
            let here = drawn > 0 && drawn <= *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        if let Some((fault, _)) = chosen {
            self.strike(*fault);
        }
        let gap = 1 + self.entropy.rest(self.plan.gap);
        self.at(self.now + gap, Event::Fault);
    }

    fn strike(&mut self, fault: Fault) {
        let node = self.entropy.below(self.plan.nodes as u32) as usize;
        let client = self.entropy.below(self.plan.clients as u32) as usize;
        let host = self.clients[client].host;
        let span = MILLI + self.entropy.span(self.plan.longest_fault);
        self.struck[fault as usize] += 1;
        self.say(Place::World, || {
            let span = trace::millis(span);
            format!("{fault:?}: client {client}, node {node}, {span} ms")
        });
        match fault {
            Fault::Reset => {
                if let Some(conn) = self.clients[client].links[node] {
                    self.reset(conn, LinkError::Reset);
                }
            }
            Fault::Dark => {
                if let Some(conn) = self.clients[client].links[node] {
                    self.conns[conn].dark = true;
                }
            }
            Fault::Partition => {
                let way = self.entropy.pick(&[Way::ToServer, Way::ToClient]);
                self.partitions[client][node][way as usize] = true;
                self.at(self.now + span, Event::Heal(client, node, way));
            }
            Fault::Stall => {
                self.servers[node].stalled = true;
                self.at(self.now + span, Event::Continue(node));
            }
            Fault::Restart => self.kill(node, span, None),
            Fault::Amnesia => {
                let memory = self.entropy.pick(&[SECOND, 0]);
                let away = span.max(self.plan.switches.restart_delay);
                self.kill(node, away, Some(memory));
            }
            Fault::Suspend => {
                self.sleep(host, span, self.plan.switches.monotonic);
            }
            Fault::Freeze => {
                self.suspend_exclusion(None, span);
                self.sleep(host, span, true);
            }
            Fault::ForgetScripts => {
                let now = self.servers[node].clock.show(self.now);
                let store = &mut self.servers[node].store;
                let mut session = store.session();
                store.execute(&mut session, now, &[b"SCRIPT", b"FLUSH"], &mut Vec::new());
            }
            Fault::Mood => {
                let mood = self.entropy.pick(&MOODS);
                let server = &mut self.servers[node];
                server.mood = mood;
                server.mood_number += 1;
                let number = server.mood_number;
                if mood == Mood::Locked {
                    server.store.set_password(Some(b"secret"));
                }
                self.at(self.now + span, Event::Cheer(node, number));
            }
            Fault::Jump => {
                self.suspend_exclusion(None, 0);
                self.servers[node].clock.jump(self.now, span);
            }
            Fault::Delete | Fault::Expire => self.operate(node, fault),
        }
    }

    /// An operator's hand on a key.
    fn operate(&mut self, node: usize, fault: Fault) {
        let resource = self.entropy.below(self.plan.resources as u32) as usize;
        self.suspend_exclusion(Some(resource), 0);
        let key = crate::world::resource_name(resource);
        let now = self.servers[node].clock.show(self.now);
        let store = &mut self.servers[node].store;
        let mut session = store.session();
        let words: &[&[u8]] = if fault == Fault::Delete {
            &[b"DEL", &key]
        } else {
            &[b"PEXPIRE", &key, b"5"]
        };
        store.execute(&mut session, now, words, &mut Vec::new());
    }

    /// The process of a server ends. `memory`: how much of the newest past is missing when it
    /// comes back, zero for all of it; `None` if nothing is.
    fn kill(&mut self, node: usize, span: Time, memory: Option<Time>) {
        if !self.servers[node].up {
            return;
        }
        if memory.is_some() {
            self.suspend_exclusion(None, 0);
        }
        self.servers[node].up = false;
        let conns = std::mem::take(&mut self.servers[node].open);
        let backlog = std::mem::take(&mut self.servers[node].backlog);
        self.servers[node].ready.clear();
        for conn in conns.into_iter().chain(backlog) {
            self.reset_from_far(conn);
        }
        let server = &mut self.servers[node];
        match memory {
            None => {}
            Some(0) => server.snapshots.clear(),
            Some(missing) => {
                let then = self.now.saturating_sub(missing);
                server.snapshots.retain(|(at, _)| *at <= then);
            }
        }
        let lost = memory.is_some();
        self.at(self.now + span, Event::Start(node, lost));
    }

    /// The process of a server begins again.
    pub(crate) fn start(&mut self, node: usize, lost: bool) {
        let number = self.entropy.below(u32::MAX);
        let now = self.now;
        let server = &mut self.servers[node];
        let shown = server.clock.show(now);
        let memory = match (lost, server.snapshots.pop_back()) {
            (false, _) => Memory::Kept,
            (true, None) => Memory::Lost,
            (true, Some((_, store))) => {
                server.store = store;
                Memory::Kept
            }
        };
        server.starts += 1;
        let seed = u64::from(number) << 32 | (node as u64) << 16 | server.starts;
        server.store.restart(seed, shown, memory);
        if lost {
            self.oracle.brought_back(node, &server.store, shown);
        }
        if server.mood == Mood::Locked {
            server.store.set_password(None);
            server.mood = Mood::Fine;
        }
        server.up = true;
        server.stalled = false;
        self.say(Place::Node(node), || {
            format!("starts again, memory {memory:?}")
        });
    }

    /// A mood is over, if it is still that one.
    pub(crate) fn cheer(&mut self, node: usize, number: u32) {
        let server = &mut self.servers[node];
        if server.mood_number == number {
            server.mood = Mood::Fine;
            server.store.set_password(None);
        }
    }

    /// The clients of a machine do not run for a while.
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

    /// Everything that is wrong ends, and nothing more goes wrong.
    pub(crate) fn heal(&mut self) {
        self.calm = true;
        self.say(Place::World, || "all faults end".into());
        for client in 0..self.plan.clients {
            for node in 0..self.plan.nodes {
                for way in [Way::ToServer, Way::ToClient] {
                    self.heal_partition(client, node, way);
                }
                if let Some(conn) = self.clients[client].links[node]
                    && self.conns[conn].dark
                {
                    let link = &mut self.conns[conn];
                    link.dark = false;
                    link.up.keep(0);
                    link.down.keep(0);
                    self.reset(conn, LinkError::Reset);
                }
            }
        }
        for node in 0..self.plan.nodes {
            if !self.servers[node].up {
                self.start(node, false);
            }
            let number = self.servers[node].mood_number;
            self.cheer(node, number);
            self.proceed(node);
        }
    }

    pub(crate) fn heal_partition(&mut self, client: usize, node: usize, way: Way) {
        self.partitions[client][node][way as usize] = false;
        for conn in 0..self.conns.len() {
            let link = &self.conns[conn];
            if link.client != client || link.node.index() != node || link.dark {
                continue;
            }
            let delay = self.delay();
            let at = self.now + delay;
            let link = &mut self.conns[conn];
            let pipe = match way {
                Way::ToServer => &mut link.up,
                Way::ToClient => &mut link.down,
            };
            if pipe.is_held() {
                pipe.heal(at);
                self.at(at, Event::Arrive(conn, way));
            }
        }
    }

    /// A stalled server goes on.
    pub(crate) fn proceed(&mut self, node: usize) {
        self.servers[node].stalled = false;
        self.wake_server(node);
    }

    /// Both ends learn that the connection is gone, after some of what was on its way.
    fn reset(&mut self, conn: usize, reason: LinkError) {
        let (up, down) = (
            self.conns[conn].up.segments(),
            self.conns[conn].down.segments(),
        );
        let kept_up = self.entropy.below(up as u32 + 1) as usize;
        let kept_down = self.entropy.below(down as u32 + 1) as usize;
        self.conns[conn].cut = true;
        self.conns[conn].up.keep(kept_up);
        self.conns[conn].down.keep(kept_down);
        if !self.conns[conn].up.is_held() {
            self.hurry(conn);
        }
        self.end_far_later(conn);
        self.end_near_later(conn, reason);
    }

    /// The server's end is gone with its process.
    fn reset_from_far(&mut self, conn: usize) {
        let down = self.conns[conn].down.segments();
        let kept = self.entropy.below(down as u32 + 1) as usize;
        self.conns[conn].cut = true;
        self.conns[conn].down.keep(kept);
        self.conns[conn].forget_far();
        self.end_near_later(conn, LinkError::Reset);
    }

    /// The server's end sees the end behind what still arrives.
    pub(crate) fn end_far_later(&mut self, conn: usize) {
        let link = &self.conns[conn];
        if link.far.state == FarState::Gone || link.up.is_held() || link.dark {
            return;
        }
        let delay = self.delay();
        let at = self.conns[conn].up.last().max(self.now) + delay;
        self.at(at, Event::EndFar(conn));
    }

    fn end_near_later(&mut self, conn: usize, reason: LinkError) {
        let link = &self.conns[conn];
        if link.near.gone || link.down.is_held() || link.dark {
            return;
        }
        let delay = self.delay();
        let at = self.conns[conn].down.last().max(self.now) + delay;
        self.at(at, Event::EndNear(conn, reason));
    }
}
