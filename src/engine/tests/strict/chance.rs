//! Random worlds: nodes restart with and without memory, are flushed, and are away for a while. Clients take, extend
//! and release locks. No two clients hold one at the same time.

use super::*;
use crate::effort::effort;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CLIENTS: usize = 3;
const SHORT: Duration = Duration::from_millis(400);

struct World {
    net: Net,
    random: StdRng,
    held: [Option<Lock>; CLIENTS],
    taken: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut net = Net::new(3);
        // The client with the longer ttl comes first, because a client that comes later with a longer ttl makes all
        // others wait.
        for halves in [2, random.random_range(1..=2), random.random_range(1..=2)] {
            net.client(builder(3).max_ttl(SHORT * halves));
        }
        net.pass(SHORT * 3);
        Self {
            net,
            random,
            held: [const { None }; CLIENTS],
            taken: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn step(&mut self) {
        let (client, node) = (self.below(CLIENTS), self.below(3));
        match self.below(100) {
            0 => self.net.restart(node, Memory::Lost),
            1 => self.net.restart(node, Memory::Kept),
            2 => self.net.admin(node, "FLUSHALL"),
            3 => self.net.admin(node, "SCRIPT FLUSH"),
            4 => self.net.unreachable(node, true),
            5..8 => self.net.unreachable(node, false),
            8 => self.net.hold(client, node),
            9..20 => self.net.let_through(client, node),
            20..60 => self.use_lock(client),
            _ => {
                let span = self.below(60) as u32 * MS;
                self.net.pass(span);
            }
        }
        let valid = |lock: &&Lock| lock.is_valid_at(self.net.now);
        let valid = self.held.iter().flatten().filter(valid).count();
        assert!(valid <= 1, "{valid} holders");
    }

    fn use_lock(&mut self, client: usize) {
        self.held[client] = match self.held[client].take() {
            None => {
                let lock = self.net.try_lock(client, SHORT).ok();
                let lock = lock.filter(|lock| lock.is_valid_at(self.net.now));
                self.taken += usize::from(lock.is_some());
                lock
            }
            Some(lock) if self.below(3) == 0 => {
                self.net.release(client, lock);
                None
            }
            Some(mut lock) => {
                drop(self.net.extend(client, &mut lock, SHORT));
                Some(lock)
            }
        };
    }
}

#[test]
fn nodes_that_forget_at_any_time_never_make_two_holders() {
    let mut taken = 0;
    let worlds = effort(30, 200);
    for seed in 0..worlds {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        taken += world.taken;
    }
    assert!(5 * worlds < taken as u64, "{taken} locks");
}
