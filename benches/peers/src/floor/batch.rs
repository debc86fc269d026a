//! Many locks at once on one thread.
//!
//! Commands between two waits go to each node in one write, and the answers of a node are taken with one read. All
//! nodes get the same commands, so one list says to which command an answer belongs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use super::{Commands, Sockets, Step};
use crate::Failure;
use crate::cycle::{Client, Log, PAUSE, Until, now};

/// Steps of many locks, on their way to all nodes.
#[derive(Debug)]
pub struct Batch {
    sockets: Sockets,
    commands: Vec<Commands>,
    needed: u8,
    /// Commands since the last write.
    out: Vec<u8>,
    /// Commands that not all nodes have answered, in order.
    open: VecDeque<Asked>,
    /// How many commands were sent before those.
    closed: usize,
    /// How many commands each node has answered.
    got: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    lock: u16,
    votes: u8,
}

impl Batch {
    /// Connects to all nodes. A step of a lock is done when `needed` nodes have answered, or a majority if that is
    /// `None`.
    ///
    /// # Errors
    ///
    /// A server does not answer.
    pub fn connect(
        addresses: &[SocketAddr],
        names: &[String],
        needed: Option<usize>,
    ) -> Result<Self, Failure> {
        let (sockets, scripts) = Sockets::connect(addresses)?;
        Ok(Self {
            commands: names
                .iter()
                .map(|name| Commands::new(&scripts, name))
                .collect(),
            needed: u8::try_from(needed.unwrap_or(sockets.majority()))?,
            out: Vec::new(),
            open: VecDeque::new(),
            closed: 0,
            got: vec![0; sockets.nodes()],
            sockets,
        })
    }

    /// Returns the connections, which wake the wait.
    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Records a step of a lock, to be written with the next [`flush`](Self::flush).
    pub fn ask(&mut self, lock: u16, step: Step) {
        let bytes = self.commands[usize::from(lock)].bytes(step);
        self.out.extend_from_slice(bytes);
        self.open.push_back(Asked { lock, votes: 0 });
    }

    /// Writes the recorded steps.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn flush(&mut self) -> Result<(), Failure> {
        if !self.out.is_empty() {
            self.sockets.write(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Waits, and reports the locks whose open step is done.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn wait(&mut self, mut done: impl FnMut(u16)) -> Result<(), Failure> {
        let Self {
            sockets,
            open,
            got,
            closed,
            needed,
            ..
        } = self;
        sockets.wait(false, |node, answers| {
            let from = got[node] - *closed;
            got[node] += answers;
            for asked in open.range_mut(from..from + answers) {
                asked.votes += 1;
                if asked.votes == *needed {
                    done(asked.lock);
                }
            }
        })?;
        let everybody = sockets.nodes();
        while open
            .front()
            .is_some_and(|asked| usize::from(asked.votes) == everybody)
        {
            open.pop_front();
            *closed += 1;
        }
        Ok(())
    }

    /// Returns `true` if every node has answered everything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }
}

/// Many locks at once on one thread, as a client.
#[derive(Debug)]
pub struct Outstanding {
    batch: Batch,
    cycles: Vec<Cycle>,
    done: Vec<u16>,
}

/// The current part of the cycle of one lock.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    begun: Instant,
    /// When the lock was granted.
    acquired: Option<Instant>,
}

impl Outstanding {
    /// Makes a client for all locks of this batch.
    #[must_use]
    pub fn new(batch: Batch) -> Self {
        let cycle = Cycle {
            begun: now(),
            acquired: None,
        };
        Self {
            cycles: vec![cycle; batch.commands.len()],
            done: Vec::with_capacity(batch.commands.len()),
            batch,
        }
    }
}

impl Client for Outstanding {
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        let Self {
            batch,
            cycles,
            done,
        } = self;
        let mut time = now();
        let mut begun = 0;
        for (lock, cycle) in (0..).zip(&mut *cycles) {
            cycle.begun = time;
            batch.ask(lock, Step::Acquire);
            begun += 1;
        }
        let mut active = cycles.len();
        while active > 0 {
            batch.flush()?;
            batch.wait(|lock| done.push(lock))?;
            time = now();
            for lock in done.drain(..) {
                let cycle = &mut cycles[usize::from(lock)];
                if let Some(acquired) = cycle.acquired.take() {
                    log.note(cycle.begun, acquired, acquired, time);
                    if until.reached(time, begun) {
                        active -= 1;
                        continue;
                    }
                    begun += 1;
                    cycle.begun = time;
                    batch.ask(lock, Step::Acquire);
                } else {
                    cycle.acquired = Some(time);
                    batch.ask(lock, Step::Release);
                }
            }
        }
        batch.flush()
    }

    fn settle(&mut self) -> Result<(), Failure> {
        while !self.batch.is_idle() {
            self.batch.wait(|_| ())?;
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}
