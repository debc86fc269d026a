//! One caller, one step after another.

use std::net::{SocketAddr, TcpStream};

use super::{Commands, Scripts, Sockets, Step, Stream};
use crate::Failure;
use crate::cycle::{Caller, PAUSE};

/// How many answers a caller waits for, and how.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Manner {
    /// Asleep, until a majority has answered.
    Majority,
    /// Asleep, until all have answered.
    All,
    /// Until a majority has answered, without ever sleeping.
    Spinning,
}

/// One lock, taken again and again.
#[derive(Debug)]
pub struct Solo<S = TcpStream> {
    sockets: Sockets<S>,
    commands: Commands,
    needed: usize,
    spin: bool,
    /// How many commands were sent to each node.
    sent: usize,
    /// How many commands each node has answered.
    got: Vec<usize>,
}

impl Solo {
    /// Connects to all nodes; the lock has this name.
    ///
    /// # Errors
    ///
    /// A server does not answer.
    pub fn connect(addresses: &[SocketAddr], name: &str, manner: Manner) -> Result<Self, Failure> {
        Ok(Self::new(Sockets::connect(addresses)?, name, manner))
    }
}

impl<S: Stream> Solo<S> {
    pub(super) fn new(
        (sockets, scripts): (Sockets<S>, Scripts),
        name: &str,
        manner: Manner,
    ) -> Self {
        let needed = match manner {
            Manner::All => sockets.nodes(),
            Manner::Majority | Manner::Spinning => sockets.majority(),
        };
        Self {
            commands: Commands::new(&scripts, name),
            needed,
            spin: manner == Manner::Spinning,
            sent: 0,
            got: vec![0; sockets.nodes()],
            sockets,
        }
    }

    fn step(&mut self, step: Step) -> Result<(), Failure> {
        let Self { sockets, got, .. } = self;
        sockets.write(self.commands.bytes(step))?;
        self.sent += 1;
        let (sent, mut votes) = (self.sent, 0);
        while votes < self.needed {
            sockets.wait(self.spin, |node, answers| {
                got[node] += answers;
                votes += usize::from(answers != 0 && got[node] == sent);
            })?;
        }
        Ok(())
    }
}

impl<S: Stream> Caller for Solo<S> {
    type Lock = ();

    fn acquire(&mut self) -> Result<(), Failure> {
        self.step(Step::Acquire)
    }

    fn release(&mut self, (): ()) -> Result<(), Failure> {
        self.step(Step::Release)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let Self { sockets, got, .. } = self;
        while got.iter().any(|got| *got < self.sent) {
            sockets.wait(false, |node, answers| got[node] += answers)?;
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}
