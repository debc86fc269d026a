//! Random histories of losses: nodes forget everything, come back as another server, or are away, and answers come
//! late. Each lock is taken by a client that has seen nothing and has no clock. So its token comes from the nodes
//! alone, and the history shows a floor that is too low. One client stays, and repairs.

use super::super::net::Net;
use super::*;
use crate::config::{Builder, RestartGuard};
use crate::effort::effort;
use crate::embedded::Memory;
use crate::engine::RoundId;
use crate::resource::FLOOR_KEY;
use alloc::collections::BTreeSet;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TTL: Duration = Duration::from_secs(1);

/// The first client repairs.
const CLIENTS: usize = 4;

const KEYS: [&str; 3] = ["shearline:floor", COUNTER, "shearline:fence:other"];
const COUNTER: &str = "shearline:fence:k";

struct History {
    net: Net,
    builder: Builder,
    random: StdRng,
    /// The open operation of each client, and the largest token when it began.
    open: [Option<(RoundId, u64)>; CLIENTS],
    /// The floor that each node had when it was restarted.
    before: Vec<String>,
    /// The data that each node had a while ago, as on its disk.
    on_disk: Vec<[Option<String>; KEYS.len()]>,
    tokens: BTreeSet<u64>,
    name: String,
}

impl History {
    fn new(seed: u8, nodes: usize, guard: RestartGuard) -> Self {
        let builder = named(nodes)
            .watch_clocks(false)
            .max_ttl(TTL)
            .node_timeout(700 * MS)
            .restart_guard(guard);
        let mut net = Net::new(nodes as u64);
        for _ in 0..CLIENTS {
            net.client(builder.clone());
        }
        net.pass(3 * TTL);
        let refused = net.lock_with(0, &LockOptions::new(TTL).tries(1).fenced());
        refused.expect_err("none has a floor");
        let now = net.now;
        assert_eq!(net.clients[0].engine.trust_all(now).0.len(), nodes);
        net.pump();
        Self {
            net,
            builder,
            random: StdRng::from_seed([seed; 32]),
            open: [None; CLIENTS],
            before: vec![String::new(); nodes],
            on_disk: vec![[const { None }; KEYS.len()]; nodes],
            tokens: BTreeSet::new(),
            name: format!("history {seed} of {nodes} nodes, {guard:?}"),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.next_u32() as usize % end
    }

    fn nodes(&self) -> usize {
        self.before.len()
    }

    fn owner(&self, node: usize) -> String {
        let floor = self.net.value(node, FLOOR_KEY).unwrap_or_default();
        floor.split(':').next().unwrap_or_default().into()
    }

    fn is_sound(&self, node: usize) -> bool {
        let floor = self.net.value(node, FLOOR_KEY).unwrap_or_default();
        !floor.is_empty() && !floor.contains('?') && self.owner(node) != self.before[node]
    }

    fn step(&mut self) {
        match self.below(17) {
            0..3 => self.part(),
            3 => (0..self.nodes()).for_each(|node| self.net.unreachable(node, false)),
            4 | 5 => self.lose(),
            6 => {
                let (node, client) = (self.below(self.nodes()), self.below(CLIENTS));
                self.net.hold(client, node);
            }
            7 | 8 => self.let_all_through(),
            9 => {
                let long = self.below(2_500) as u32;
                self.pass(long * MS);
            }
            10 => {
                let node = self.below(self.nodes());
                self.net.admin(node, "DEL shearline:fence:k");
            }
            11 => self.save(),
            _ => self.ask(),
        }
        let span = self.below(4) as u32;
        self.pass(span * 10 * MS);
    }

    /// Makes some nodes unreachable. The others are a majority.
    fn part(&mut self) {
        let mut away = (self.nodes() - 1) / 2;
        for node in 0..self.nodes() {
            let is_away = away != 0 && self.below(2) == 0;
            away -= usize::from(is_away);
            self.net.unreachable(node, is_away);
        }
    }

    /// Makes one more node lose its data, if it can still be repaired.
    fn lose(&mut self) {
        let node = self.below(self.nodes());
        let others = (0..self.nodes()).filter(|other| *other != node && self.is_sound(*other));
        let quorum = self.nodes() / 2 + 1;
        if others.count() < self.nodes() - quorum + 1 {
            return;
        }
        match self.below(5) {
            0 => self.net.admin(node, "FLUSHALL"),
            1 => self.net.admin(node, "DEL shearline:floor"),
            2 => self.restart(node, Memory::Lost),
            3 => self.restart(node, Memory::Kept),
            _ => {
                for (key, value) in KEYS.iter().zip(self.on_disk[node].clone()) {
                    match value {
                        Some(value) => self.net.set(node, key.as_bytes(), value.as_bytes()),
                        None => self.net.admin(node, &format!("DEL {key}")),
                    }
                }
                self.restart(node, Memory::Kept);
            }
        }
    }

    fn restart(&mut self, node: usize, memory: Memory) {
        self.before[node] = self.owner(node);
        self.net.restart(node, memory);
    }

    /// Makes a node write to its disk.
    fn save(&mut self) {
        let node = self.below(self.nodes());
        self.on_disk[node] = KEYS.map(|key| self.net.value(node, key.as_bytes()));
    }

    fn let_all_through(&mut self) {
        for client in 0..CLIENTS {
            (0..self.nodes()).for_each(|node| self.net.let_through(client, node));
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.net.now.saturating_add(span);
        self.net.pump();
        self.listen();
        while self.net.now < end {
            self.net.pass(10 * MS);
            self.listen();
        }
    }

    /// Ends a process and begins another, which asks for a lock.
    fn ask(&mut self) {
        let client = 1 + self.below(CLIENTS - 1);
        self.net.client(self.builder.clone());
        self.net.clients.swap_remove(client);
        let names: [&[u8]; 2] = [b"k", b"other"];
        let ttl = [30 * MS, TTL][self.below(2)];
        let options = LockOptions::new(ttl).tries(1).fenced();
        let request = match self.below(4) {
            0 => Request::all(&names, &options),
            _ => Request::new(b"k", &options),
        };
        let before = self.tokens.last().copied().unwrap_or(0);
        let engine = &mut self.net.clients[client].engine;
        let round = engine.acquire(self.net.now, &request).ok();
        self.open[client] = round.map(|round| (round, before));
    }

    /// Checks that each lock has a new token, larger than all tokens that existed when the lock was asked for.
    fn listen(&mut self) {
        for client in 1..CLIENTS {
            while let Some(event) = self.net.event(client) {
                let Event::Acquired { round, result } = event else {
                    continue;
                };
                let (asked, before) = self.open[client].take().expect("it has asked");
                assert_eq!(asked, round);
                if let Ok(lock) = result {
                    let token = lock.fencing_token().expect("it was asked for");
                    let is_new = self.tokens.insert(token);
                    let (name, now) = (&self.name, self.net.now);
                    let told = format!("{name}: {before}, {token} at {now:?}");
                    assert!(is_new && before < token, "{told}");
                    self.net.release(client, lock);
                }
            }
        }
    }
}

#[test]
fn tokens_are_in_order_whatever_is_lost() {
    use RestartGuard::{Observed, Off, Strict};
    // The number of histories for each number of nodes and each guard, and their length.
    let (histories, steps) = (effort(1, 2), effort(160, 400));
    let mut tokens = 0;
    for seed in 0..histories {
        for nodes in 1..=5 {
            for guard in [Off, Observed, Strict] {
                let mut history = History::new(seed, nodes, guard);
                (0..steps).for_each(|_| history.step());
                tokens += history.tokens.len();
            }
        }
    }
    assert!(usize::from(histories) * steps < tokens, "{tokens}");
}
