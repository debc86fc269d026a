//! The floor of a hand-over: `DEL` on raw sockets, a push to the waiter's sockets, then `SET`.
//!
//! It counts the lines of the replies, as [`Sockets`] do, and has no parser.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::cycle::{TTL, now};
use shearline_peers::floor::Sockets;
use shearline_peers::servers::command;

use crate::hands::{Hands, stamp};

const TOKEN: &str = "twenty bytes, random";

/// How many lines a push has that names one key.
const PUSH: usize = 6;

/// How long after the last answer to the first commands no more answers are expected. These are not counted.
const GREETING: Duration = Duration::from_millis(100);

/// Connections to all nodes.
pub(crate) struct Raw {
    sockets: Sockets,
    nodes: Vec<SocketAddr>,
    /// How many lines each node has to send in all.
    due: usize,
    /// How many lines each node has sent.
    got: Vec<usize>,
    name: String,
}

impl Raw {
    /// Connects without pushes. A lock that is not free is an error.
    pub(crate) fn connect(nodes: &[SocketAddr]) -> Result<Self, Failure> {
        let (sockets, _) = Sockets::connect(nodes)?;
        Ok(Self {
            due: 0,
            got: vec![0; sockets.nodes()],
            nodes: nodes.to_vec(),
            sockets,
            name: String::new(),
        })
    }

    /// Connects with pushes.
    pub(crate) fn tracking(nodes: &[SocketAddr]) -> Result<Self, Failure> {
        let mut raw = Self::connect(nodes)?;
        let greeting = [
            command(&["HELLO", "3"]),
            command(&["CLIENT", "TRACKING", "ON", "NOLOOP"]),
        ];
        raw.sockets.write(&greeting.concat())?;
        let mut answered = vec![false; nodes.len()];
        let mut latest = now();
        while answered.contains(&false) || latest.elapsed() < GREETING {
            raw.sockets.wait(true, |node, _| {
                answered[node] = true;
                latest = now();
            })?;
        }
        Ok(raw)
    }

    /// Takes a lock that is free at all nodes, for this long.
    pub(crate) fn hold(&mut self, name: &str, ttl: Duration) -> Result<(), Failure> {
        name.clone_into(&mut self.name);
        self.sockets.write(&set(name, ttl))?;
        self.await_all(1)
    }

    /// Returns how long a majority takes to answer one command after such a rest, in microseconds.
    pub(crate) fn round_trip(&mut self, rest: Duration) -> Result<f64, Failure> {
        let ttl = TTL.as_millis().to_string();
        let bytes = command(&["SET", "round trip", TOKEN, "PX", &ttl]);
        self.timed(&bytes, 1, rest)
    }

    /// Returns how long a hand-over takes on the same connections after such a rest, in microseconds.
    pub(crate) fn inside(&mut self, name: &str, rest: Duration) -> Result<f64, Failure> {
        self.hold(name, TTL)?;
        let bytes = [command(&["DEL", name]), set(name, TTL)].concat();
        let time = self.timed(&bytes, 2, rest)?;
        self.release()?;
        Ok(time)
    }

    fn timed(&mut self, bytes: &[u8], lines: usize, rest: Duration) -> Result<f64, Failure> {
        thread::sleep(rest);
        let begin = stamp();
        self.sockets.write(bytes)?;
        self.await_lines(lines, self.sockets.majority())?;
        let time = stamp() - begin;
        self.await_all(0)?;
        Ok(time as f64 / 1e3)
    }

    /// Waits for this many more lines of all nodes.
    fn await_all(&mut self, lines: usize) -> Result<(), Failure> {
        self.await_lines(lines, self.sockets.nodes())
    }

    /// Adds this number to the lines that every node has to send. Waits until `needed` nodes have sent all.
    fn await_lines(&mut self, lines: usize, needed: usize) -> Result<(), Failure> {
        self.due += lines;
        let Self {
            sockets, due, got, ..
        } = self;
        while got.iter().filter(|got| *due <= **got).count() < needed {
            sockets.wait(false, |node, lines| {
                if let Some(got) = got.get_mut(node) {
                    *got += lines;
                }
            })?;
        }
        Ok(())
    }
}

fn set(name: &str, ttl: Duration) -> Vec<u8> {
    let millis = ttl.as_millis().to_string();
    command(&["SET", name, TOKEN, "NX", "PX", &millis])
}

impl Hands for Raw {
    /// Waits for the lock, which is held at all nodes when this begins.
    fn wait(
        &mut self,
        name: &str,
        waiting: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        name.clone_into(&mut self.name);
        let set = set(name, TTL);
        // The server registers keys that are read. One line of the answers says that the lock is held, two say by whom.
        self.sockets
            .write(&[set.clone(), command(&["GET", name])].concat())?;
        self.await_all(3)?;
        waiting()?;
        self.await_lines(PUSH, self.sockets.majority())?;
        self.sockets.write(&set)?;
        self.await_lines(1, self.sockets.majority())?;
        let granted = stamp();
        // Wait for the pushes that are still to come: if our own `DEL` came first, there would be none.
        self.await_all(0)?;
        Ok(granted)
    }

    fn lock(&mut self, name: &str) -> Result<u64, Failure> {
        self.hold(name, TTL)?;
        Ok(stamp())
    }

    fn release(&mut self) -> Result<(), Failure> {
        self.sockets.write(&command(&["DEL", &self.name]))?;
        self.await_all(1)
    }

    fn twin(&self) -> Result<Box<dyn Hands>, Failure> {
        Ok(Box::new(Self::tracking(&self.nodes)?))
    }
}
