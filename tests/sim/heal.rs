//! Ends faults one by one, or all at once when the world is healed.

use shearline::Instant;
use shearline::embedded::Memory;

use crate::clock::NEVER;
use crate::faults::Fault;
use crate::link::Way;
use crate::server::Mood;
use crate::trace::Place;
use crate::world::World;

impl World {
    /// Starts the process of a server again.
    pub(crate) fn start(&mut self, server: usize, lost: bool) {
        let there = &mut self.servers[server];
        if there.up || there.lost {
            return;
        }
        let number = self.entropy.below(u32::MAX);
        let shown = there.clock.show(self.now);
        let memory = match (lost, there.snapshots.pop_back()) {
            (false, _) => Memory::Kept,
            (true, None) => Memory::Lost,
            (true, Some((_, store))) => {
                there.store = store;
                Memory::Kept
            }
        };
        there.starts += 1;
        // This is never the id of a first start, which is the number of a server.
        let own = (server as u64 + 1) << 16 | u64::from(there.starts);
        let seed = u64::from(number) << 32 | own;
        let promoted = std::mem::take(&mut there.promoted);
        let since = if promoted { Instant::ZERO } else { shown };
        there.store.restart(seed, since, memory);
        if there.mood == Mood::Locked {
            there.mood = Mood::Fine;
        }
        there.store.set_password(self.plan.password());
        there.up = true;
        there.stalled = false;
        there.paused = false;
        there.crowded = false;
        if lost {
            let (killed_at, life) = (there.killed_at, there.starts);
            self.oracle.forgot(server, killed_at, life);
            self.brought_back(server);
        }
        self.say(Place::Server(server), || {
            format!("starts again, memory {memory:?}")
        });
    }

    /// Ends a mood, if the server is still in it.
    pub(crate) fn cheer(&mut self, server: usize, number: u32) {
        let there = &mut self.servers[server];
        if there.mood_number == number {
            there.mood = Mood::Fine;
            there.store.set_password(self.plan.password());
        }
    }

    /// Ends the fault of a server.
    pub(crate) fn over(&mut self, server: usize, fault: Fault) {
        let there = &mut self.servers[server];
        if there.lost {
            return;
        }
        if fault == Fault::Crowd {
            there.crowded = false;
        } else if fault == Fault::Slow {
            there.slow = 0;
        } else {
            there.paused &= fault != Fault::Pause;
            there.stalled &= fault != Fault::Stall;
            self.wake_server(server);
        }
    }

    /// Ends all faults, except that lost servers and connections that died without a notice stay so.
    pub(crate) fn heal(&mut self) {
        self.calm = true;
        self.plan.delay_tail = 0;
        self.say(Place::World, || "all faults end".into());
        for server in self.plan.servers - self.plan.losses..self.plan.servers {
            if self.plan.silent && self.servers[server].up {
                self.servers[server].stalled = true;
            } else {
                self.kill(server, NEVER, None);
            }
            self.servers[server].lost = true;
        }
        for peer in 0..self.plan.peers() {
            for node in 0..self.plan.nodes {
                self.heal_partition(peer, node, Way::ToServer);
                self.heal_partition(peer, node, Way::ToClient);
            }
        }
        for server in 0..self.plan.servers {
            self.set_right(server);
            self.start(server, false);
            let number = self.servers[server].mood_number;
            self.cheer(server, number);
            for fault in [Fault::Stall, Fault::Pause, Fault::Crowd, Fault::Slow] {
                self.over(server, fault);
            }
        }
        for client in 0..self.plan.clients {
            self.bear_client(client);
        }
    }

    /// Lets every user end what it does and begin nothing more, except for those that take each lock once more.
    pub(crate) fn finish(&mut self) {
        self.let_take();
        for client in 0..self.plan.clients {
            let now = self.now;
            let there = &mut self.clients[client];
            there.finishing = true;
            for user in &mut there.users {
                user.finish(now);
            }
            self.wake_client(client, 0);
        }
        for peer in self.plan.clients..self.plan.peers() {
            self.strangers[peer - self.plan.clients].finish();
            self.wake_stranger(peer);
        }
    }
}
