//! The interface of both handles of the library in this program.

use std::fmt;
use std::thread;
use std::time::Duration;

use shearline::{Builder, Lock, LockError, LockGuard, LockOptions, NodeState, NodeStatus, Redlock};
use shearline_peers::Failure;
use shearline_peers::clients::shearline::{Local, Shared};
use shearline_peers::cycle::{Caller, Log, TTL, now};

/// How long all nodes may take to recover: more than the longest back-off.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The ttl that an extension asks for.
const LONGER: Duration = Duration::from_secs(TTL.as_secs() + 1);

/// A handle of the library.
pub(crate) trait Face: Caller + fmt::Debug + Sized {
    const NAME: &'static str;

    /// Builds the handle with the defaults.
    fn connect(urls: &[String]) -> Result<Self, Failure>;

    /// Lets time pass, and returns the status of the nodes.
    fn look(&mut self) -> Result<Vec<NodeStatus>, Failure>;

    /// Takes a lock and releases it. The inner result is that of the lock.
    fn lock_within(&mut self, wait: Duration) -> Result<Result<(), LockError>, Failure>;

    /// Extends the lock, for longer than before: otherwise the servers would have nothing to do.
    fn extend(&mut self, lock: &mut Self::Lock) -> Result<(), Failure>;

    /// Takes the lock, extends it and releases it.
    fn cycle(&mut self, log: &mut Log) -> Result<(), Failure> {
        let begun = now();
        let mut lock = self.acquire()?;
        let acquired = now();
        let outcome = self.extend(&mut lock);
        let extended = now();
        // Release in any case: the lock would block the next cycle.
        self.release(lock)?;
        outcome?;
        log.note(begun, acquired, extended, now());
        Ok(())
    }

    /// Waits until every node is ready.
    fn await_ready(&mut self) -> Result<(), Failure> {
        let begin = now();
        loop {
            let nodes = self.look()?;
            if nodes
                .iter()
                .all(|node| node.state == NodeState::Ready && node.in_flight == 0)
            {
                return Ok(());
            }
            if PATIENCE < begin.elapsed() {
                return Err(format!("not every node is well again: {nodes:?}").into());
            }
        }
    }
}

fn builder(urls: &[String]) -> Builder {
    Redlock::builder().nodes(urls)
}

fn options(wait: Duration) -> LockOptions {
    LockOptions::new(TTL).wait(wait)
}

impl Face for Local {
    const NAME: &'static str = "`LocalRedlock`";

    fn connect(urls: &[String]) -> Result<Self, Failure> {
        Self::build(&builder(urls), "local")
    }

    fn look(&mut self) -> Result<Vec<NodeStatus>, Failure> {
        self.handle.poll(Some(LOOK))?;
        Ok(self.handle.nodes())
    }

    fn extend(&mut self, lock: &mut Lock) -> Result<(), Failure> {
        Ok(self.handle.extend(lock, LONGER)?)
    }

    fn lock_within(&mut self, wait: Duration) -> Result<Result<(), LockError>, Failure> {
        match self.handle.lock_with("majority-local", &options(wait)) {
            Ok(lock) => Ok(Ok(self.handle.unlock(lock).map(drop)?)),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl Face for Shared {
    const NAME: &'static str = "`Redlock`";

    fn connect(urls: &[String]) -> Result<Self, Failure> {
        Self::build(&builder(urls), "shared")
    }

    fn look(&mut self) -> Result<Vec<NodeStatus>, Failure> {
        thread::sleep(LOOK);
        Ok(self.handle.nodes())
    }

    fn extend(&mut self, lock: &mut LockGuard) -> Result<(), Failure> {
        Ok(lock.extend(LONGER)?)
    }

    fn lock_within(&mut self, wait: Duration) -> Result<Result<(), LockError>, Failure> {
        match self.handle.lock_with("majority-shared", &options(wait)) {
            Ok(lock) => Ok(Ok(lock.unlock().map(drop)?)),
            Err(error) => Ok(Err(error)),
        }
    }
}
