//! Histories of losses, drawn at random: nodes that forget all, or come back as another server, or are away, answers
//! that come late, clients that end. No client has a clock, so tokens are what the nodes say: one that rests on a
//! floor that is too low is seen.

use super::super::strict::net::Net;
use super::*;
use crate::config::{Builder, RestartGuard};
use crate::embedded::Memory;
use crate::engine::RoundId;
use crate::resource::FLOOR_KEY;
use alloc::collections::BTreeSet;

const TTL: Duration = Duration::from_secs(1);

const CLIENTS: usize = 3;

struct History {
    net: Net,
    nodes: usize,
    builder: Builder,
    random: StdRng,
    /// What each client has asked for, and the largest token when it did.
    open: Vec<Option<(RoundId, u64)>>,
    held: Vec<Vec<Lock>>,
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
        let _ = net.lock_with(0, &once()); // None has a floor.
        let now = net.now;
        assert_eq!(net.clients[0].engine.trust_all(now).len(), nodes);
        net.pump();
        Self {
            net,
            nodes,
            builder,
            random: StdRng::from_seed([seed; 32]),
            open: vec![None; CLIENTS],
            held: (0..CLIENTS).map(|_| Vec::new()).collect(),
            tokens: BTreeSet::new(),
            name: format!("history {seed} of {nodes} nodes, {guard:?}"),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.next_u32() as usize % end
    }

    /// The nodes whose floor is not known to be theirs.
    fn unsound(&self) -> usize {
        let engine = &self.net.clients[0].engine;
        let statuses = engine.node_statuses(self.net.now).enumerate();
        let is_sound = |node: usize, run_id: Option<String>| {
            let floor = self.net.value(node, FLOOR_KEY).unwrap_or_default();
            let run_id = run_id.unwrap_or_else(|| "unknown".into());
            floor.starts_with(&run_id) && !floor.contains('?')
        };
        statuses
            .filter(|(node, status)| !is_sound(*node, status.run_id.clone()))
            .count()
    }

    fn may_lose(&mut self) -> bool {
        self.unsound() + 1 < self.nodes / 2 + 1 || self.below(3_000) == 0
    }

    /// All is well for a while.
    fn heal(&mut self) {
        for node in 0..self.nodes {
            self.net.unreachable(node, false);
            for client in 0..CLIENTS {
                self.net.let_through(client, node);
            }
        }
        self.pass(7 * TTL);
    }

    fn step(&mut self) {
        let (node, client) = (self.below(self.nodes), self.below(CLIENTS));
        match self.below(36) {
            0 if self.may_lose() => self.net.admin(node, "FLUSHALL"),
            1 if self.may_lose() => self.net.restart(node, Memory::Lost),
            2 if self.may_lose() => self.net.restart(node, Memory::Kept),
            3 if self.may_lose() => self.net.admin(node, "DEL shearline:floor"),
            4 => self.net.admin(node, "DEL shearline:fence:k"),
            5 => self.net.admin(node, "DEL k"),
            6 => self.net.unreachable(node, true),
            7..10 => self.net.unreachable(node, false),
            10 | 11 => self.net.hold(client, node),
            12..15 => self.net.let_through(client, node),
            15 => self.net.reconnect(node),
            16 => self.replace(client),
            17 => {
                if let Some(lock) = self.held[client].pop() {
                    self.net.release(client, lock);
                }
            }
            18 => {
                let long = self.below(1_500) as u32;
                self.pass(long * MS);
            }
            _ => self.ask(client),
        }
        let span = 1 + self.below(4) as u32;
        self.pass(span * 10 * MS);
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

    /// Asks for a lock, unless the client has.
    fn ask(&mut self, client: usize) {
        if self.open[client].is_some() {
            return;
        }
        let names: [&[u8]; 2] = [b"k", b"other"];
        let options = once();
        let request = match self.below(4) {
            0 => Request::all(&names, &options),
            _ => Request::new(b"k", &options),
        };
        let before = self.tokens.last().copied().unwrap_or(0);
        let engine = &mut self.net.clients[client].engine;
        let round = engine.acquire(self.net.now, &request).ok();
        self.open[client] = round.map(|round| (round, before));
    }

    /// A process ends, and another begins.
    fn replace(&mut self, client: usize) {
        self.open[client] = None;
        self.held[client].clear();
        let last = self.net.client(self.builder.clone());
        self.net.clients.swap_remove(client);
        assert_eq!(last, CLIENTS);
    }

    /// Each lock has a token that no other has had, and a larger one than all that were there when it was asked for.
    fn listen(&mut self) {
        for client in 0..CLIENTS {
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
                    assert!(
                        is_new && before < token,
                        "{name}: {before}, {token} at {now:?}"
                    );
                    self.held[client].push(lock);
                }
            }
        }
    }
}

fn once() -> LockOptions {
    LockOptions::new(TTL).tries(1).fenced()
}

/// So many histories for each number of nodes and each guard.
const HISTORIES: u8 = 2;

#[test]
fn tokens_are_in_order_whatever_is_lost() {
    let mut tokens = 0;
    for seed in 0..HISTORIES {
        for nodes in 1..=5 {
            for guard in [
                RestartGuard::Off,
                RestartGuard::Observed,
                RestartGuard::Strict,
            ] {
                let mut history = History::new(seed, nodes, guard);
                for _ in 0..16 {
                    (0..25).for_each(|_| history.step());
                    history.heal();
                }
                tokens += history.tokens.len();
            }
        }
    }
    assert!(300 * usize::from(HISTORIES) < tokens, "{tokens}");
}
