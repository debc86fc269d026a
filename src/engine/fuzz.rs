//! The body of the engine's fuzz target: any inputs, in any order, at any time.
//!
//! The engine must never panic, whatever a server, a driver or a user does. The engine must never leave a lock valid
//! for longer than the caller requested, or leave a caller waiting for ever.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Engine, Event, Input, NodeId, Output, Request, RoundId};
use crate::config::{Config, LockOptions, RestartGuard};
use crate::error::LinkFault;
use crate::quorum::Lock;
use crate::time::Instant;

const NODES: u8 = 3;

/// Server replies that the fuzzer can choose instead of its own bytes.
const REPLIES: [&[u8]; 16] = [
    b"+OK\r\n",
    b"$-1\r\n",
    b"_\r\n",
    b":1\r\n",
    b":0\r\n",
    b":-1\r\n",
    b"%2\r\n+role\r\n+master\r\n+mode\r\n+standalone\r\n",
    b"%2\r\n+server\r\n+valkey\r\n+version\r\n+9.1.2\r\n",
    b"$-1\r\n$-1\r\n$-1\r\n",
    b"$40\r\n4453c08d4b7260dfec522c1d9be6140ee00157cb\r\n",
    // The hashes of the other scripts, which the server returns when it loads them.
    b"$40\r\n861c16b0751b430a3233aad3e2ab867202584ef5\r\n\
      $40\r\nab45eed4405dc0e1a96a226b5088d35bf5f4512a\r\n\
      $40\r\nd69605c5805009ab0e3862a8ef1a0ec74af88a05\r\n",
    b"-NOSCRIPT No matching script.\r\n",
    b"-LOADING Redis is loading\r\n",
    b"-MISCONF no disk\r\n",
    b"-ERR unknown command\r\n",
    b">2\r\n+invalidate\r\n*1\r\n+k\r\n",
];

/// Server replies for the strict restart guard.
const STRICT_REPLIES: [&[u8]; 16] = [
    b"*2\r\n:1\r\n:0\r\n",
    b"*2\r\n:1\r\n:0\r\n*2\r\n:1\r\n:0\r\n",
    b"*2\r\n:0\r\n:0\r\n",
    b"*2\r\n:1\r\n:700\r\n",
    b"*2\r\n:1\r\n:-1\r\n",
    b":1\r\n",
    b"%2\r\n+role\r\n+master\r\n+mode\r\n+standalone\r\n",
    b"*2\r\n:-1\r\n:9223372036854775807\r\n",
    b"+run_id:r\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
    b"*3\r\n:1\r\n:0\r\n+1 r 60000 3 2 0 default\r\n",
    b"*3\r\n:1\r\n:300\r\n+1 r 90000 3 2 0 default\r\n",
    b"-NOSCRIPT No matching script.\r\n",
    b"-LOADING Redis is loading\r\n",
    b"*3\r\n:0\r\n:0\r\n+1 r 60000 5 3 0 default\r\n",
    b"-ERR unknown command\r\n",
    b"-WRONGTYPE Operation against a key\r\n",
];

/// The bytes that decide the next choices.
struct Entropy<'a>(&'a [u8]);

impl<'a> Entropy<'a> {
    fn below(&mut self, bound: u8) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first % bound)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.below(16)?).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(bytes)
    }
}

/// An engine, and the locks and operations of its user.
struct Bench {
    engine: Engine,
    now: Instant,
    rounds: Vec<RoundId>,
    locks: Vec<Lock>,
    /// The number of bytes that a socket accepts at a time.
    window: usize,
    replies: &'static [&'static [u8]; 16],
}

/// Runs an engine over the inputs that `bytes` encode.
#[doc(hidden)]
pub fn fuzz_engine(bytes: &[u8]) {
    fuzz_guarded(bytes, RestartGuard::Observed);
    fuzz_guarded(bytes, RestartGuard::Strict);
}

fn fuzz_guarded(bytes: &[u8], guard: RestartGuard) {
    // The last byte also decides the lock delay, so that older corpus files keep their meaning.
    let odd = bytes.last().is_some_and(|last| last % 2 == 1);
    let delay = Duration::from_millis(if odd { 990 } else { 0 });
    let builder = Config::builder().nodes(["a", "b", "c"]).lock_delay(delay);
    let Ok(config) = builder.restart_guard(guard).config() else {
        unreachable!("three names and a second are a configuration")
    };
    let replies = match guard {
        RestartGuard::Strict => &STRICT_REPLIES,
        RestartGuard::Off | RestartGuard::Observed => &REPLIES,
    };
    let now = Instant::from_millis(1);
    let mut bench = Bench {
        engine: Engine::new(&config, [1; 32], now),
        now,
        rounds: Vec::new(),
        locks: Vec::new(),
        window: usize::MAX,
        replies,
    };
    let mut entropy = Entropy(bytes);
    while bench.step(&mut entropy).is_some() {}
    bench.settle();
}

impl Bench {
    fn step(&mut self, entropy: &mut Entropy<'_>) -> Option<()> {
        let node = NodeId::new(entropy.below(NODES)?.into());
        match entropy.below(14)? {
            0 => self.acquire(entropy)?,
            1..4 => self.use_lock(entropy)?,
            4 => {
                if let Some(round) = self.rounds.pop() {
                    self.engine.cancel(self.now, round);
                }
            }
            5..8 => {
                let reply = self.replies[usize::from(entropy.below(16)?)];
                self.input(Input::Received { node, bytes: reply });
            }
            8 => {
                let bytes = entropy.bytes()?;
                self.input(Input::Received { node, bytes });
            }
            9 => self.input(Input::Connected { node }),
            10 => {
                let reason = LinkFault::Reset.into();
                self.input(Input::Disconnected { node, reason });
            }
            11 => {
                self.window = usize::from(entropy.below(80)?);
                self.input(Input::Writable { node });
            }
            12 => self.pass(Duration::from_millis(u64::from(entropy.below(255)?))),
            _ => {
                self.window = usize::MAX;
                self.drain();
            }
        }
        Some(())
    }

    fn acquire(&mut self, entropy: &mut Entropy<'_>) -> Option<()> {
        let ttl = Duration::from_millis(1 << entropy.below(20)?);
        let mut options = LockOptions::new(ttl);
        match entropy.below(4)? {
            0 => options = options.tries(2),
            1 => options = options.wait(Duration::from_millis(300)),
            2 => options = options.extensions(1),
            _ => {}
        }
        let which = entropy.below(3)?;
        let resource = [b'k', which];
        let both: [&[u8]; 2] = [b"k\x01", b"k\0"];
        let request = match which {
            2 => Request::all(&both, &options),
            _ => Request::new(&resource, &options),
        };
        self.rounds
            .extend(self.engine.acquire(self.now, &request).ok());
        Some(())
    }

    fn use_lock(&mut self, entropy: &mut Entropy<'_>) -> Option<()> {
        let choice = entropy.below(6)?;
        let Some(mut lock) = self.locks.pop() else {
            return Some(());
        };
        let now = self.now;
        match choice {
            0 => self.rounds.push(self.engine.release(now, lock)),
            1 => self.engine.give_back(now, lock),
            2 => self.locks.push(self.engine.detach(now, lock)),
            3 => {
                lock = self.engine.adopt(now, lock);
                // `keep` fails if the lock has ended.
                _ = self.engine.keep(now, &mut lock, Duration::from_secs(100));
                self.locks.push(lock);
            }
            _ => {
                let ttl = Duration::from_millis(1 << entropy.below(20)?);
                self.rounds.extend(match choice {
                    5 => self.engine.confirm(now, &lock).ok(),
                    _ => self.engine.extend(now, &lock, ttl).ok(),
                });
                self.locks.push(lock);
            }
        }
        Some(())
    }

    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input);
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        self.input(Input::Tick);
        self.drain();
    }

    fn drain(&mut self) {
        let now = self.now;
        let mut steps = 0;
        while let Some(output) = self.engine.poll(now) {
            steps += 1;
            assert!(steps < 100_000, "it never comes to rest");
            match output {
                Output::Transmit { node, bytes } => {
                    let len = bytes.len().min(self.window);
                    self.engine.handle(now, Input::Transmitted { node, len });
                }
                Output::Event(event) => self.event(event),
                Output::Connect { .. }
                | Output::Disconnect { .. }
                | Output::Probe { .. }
                | Output::CloseProbe { .. } => {}
            }
        }
        let sleeps = self.engine.poll_timeout().is_none();
        let open = self.engine.load().rounds;
        assert!(!sleeps || open == 0, "asleep with a round open");
    }

    fn event(&mut self, event: Event) {
        let ended = event.round();
        self.rounds.retain(|open| Some(*open) != ended);
        if let Event::Acquired { result, .. } = event {
            if let Ok(lock) = result {
                assert!(lock.is_valid_at(self.now), "a dead lock was handed out");
                let longest = self.now.saturating_add(Duration::from_millis(1 << 19));
                assert!(lock.valid_until() < longest, "valid for longer than asked");
                self.locks.push(lock);
            }
        } else if let Event::Extended { result, .. } | Event::Confirmed { result, .. } = event
            && let Ok(extension) = result
        {
            for lock in &mut self.locks {
                extension.apply(lock);
            }
        }
    }

    /// Checks that every caller gets an answer if only time passes.
    fn settle(&mut self) {
        self.window = usize::MAX;
        for _ in 0..200 {
            self.drain();
            self.pass(Duration::from_secs(1));
        }
        assert!(self.rounds.is_empty(), "a caller waits for ever");
        assert_eq!(self.engine.load().rounds, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::effort;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_fuzz_corpus_is_replayed() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/engine");
        let files: Vec<_> = std::fs::read_dir(corpus)
            .expect("it is committed")
            .collect();
        assert!(files.len() > 50);
        for file in files {
            let path = file.expect("readable").path();
            fuzz_engine(&std::fs::read(path).expect("readable"));
        }
    }

    #[test]
    fn random_inputs_find_nothing() {
        let mut random = StdRng::from_seed([3; 32]);
        let mut bytes = [0; 1500];
        for _ in 0..effort(80, 300) {
            random.fill_bytes(&mut bytes);
            fuzz_engine(&bytes);
        }
    }
}
