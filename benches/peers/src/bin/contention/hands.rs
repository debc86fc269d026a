//! Clients that take a lock and release it: raw sockets, shearline and `rslock`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use rslock::LockManager;
use rustix::time::ClockId;
use shearline::{LockGuard, LockOptions, Redlock};
use shearline_peers::Failure;
use shearline_peers::clients::runtime;
use shearline_peers::clients::shearline::patient;
use shearline_peers::cycle::{TTL, of_clock};
use tokio::runtime::Runtime;

use crate::raw::Raw;

/// The longest wait: anyone that waits for longer shows that something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A library, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Who {
    /// Raw sockets, which `CLIENT TRACKING` notifies of the release.
    Floor,
    /// This library.
    Redlock,
    /// The other library.
    Rslock,
}

/// The libraries, which every table shows side by side.
pub(crate) const LIBRARIES: [Who; 2] = [Who::Redlock, Who::Rslock];

/// Takes one lock at a time.
pub(crate) trait Hands: Send {
    /// Calls `waiting` as late as possible before it waits, and takes the lock. Returns when that was, by [`stamp`].
    fn wait(
        &mut self,
        name: &str,
        waiting: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<u64, Failure>;

    /// Releases the lock.
    fn release(&mut self) -> Result<(), Failure>;

    /// Returns another client on the same connections.
    fn twin(&self) -> Result<Box<dyn Hands>, Failure>;

    /// Takes the lock.
    fn lock(&mut self, name: &str) -> Result<u64, Failure> {
        self.wait(name, &mut || Ok(()))
    }
}

/// Returns nanoseconds of the monotonic clock, which is the same for all processes of a machine.
pub(crate) fn stamp() -> u64 {
    of_clock(ClockId::Monotonic).as_nanos() as u64
}

impl Who {
    pub(crate) fn connect(self, nodes: &[SocketAddr]) -> Result<Box<dyn Hands>, Failure> {
        Ok(match self {
            Self::Floor => Box::new(Raw::tracking(nodes)?),
            Self::Redlock => Box::new(Own {
                handle: patient(&urls(nodes)).build()?,
                held: None,
            }),
            Self::Rslock => Box::new(Other {
                runtime: Arc::new(runtime(true)?),
                manager: LockManager::new(urls(nodes)),
                held: None,
            }),
        })
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Redlock => "`Redlock`",
            Self::Rslock => "`rslock`",
        }
    }
}

pub(crate) fn urls(nodes: &[SocketAddr]) -> Vec<String> {
    nodes.iter().map(|node| format!("redis://{node}")).collect()
}

pub(crate) fn options() -> LockOptions {
    LockOptions::new(TTL).wait(PATIENCE)
}

struct Own {
    handle: Redlock,
    held: Option<LockGuard>,
}

impl Hands for Own {
    fn wait(
        &mut self,
        name: &str,
        waiting: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        waiting()?;
        self.held = Some(self.handle.lock_with(name, &options())?);
        Ok(stamp())
    }

    fn release(&mut self) -> Result<(), Failure> {
        let held = self.held.take().ok_or("nothing is held")?;
        held.unlock()?;
        Ok(())
    }

    fn twin(&self) -> Result<Box<dyn Hands>, Failure> {
        let handle = self.handle.clone();
        Ok(Box::new(Self { handle, held: None }))
    }
}

/// `rslock` with its defaults, by the call that tries until the lock is granted.
struct Other {
    runtime: Arc<Runtime>,
    manager: LockManager,
    held: Option<rslock::LockGuard>,
}

impl Hands for Other {
    fn wait(
        &mut self,
        name: &str,
        waiting: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        waiting()?;
        let lock = self.manager.acquire(name.as_bytes(), TTL);
        self.held = Some(self.runtime.block_on(lock)?);
        Ok(stamp())
    }

    fn release(&mut self) -> Result<(), Failure> {
        let held = self.held.take().ok_or("nothing is held")?;
        self.runtime.block_on(held.release());
        Ok(())
    }

    fn twin(&self) -> Result<Box<dyn Hands>, Failure> {
        Ok(Box::new(Self {
            runtime: Arc::clone(&self.runtime),
            manager: self.manager.clone(),
            held: None,
        }))
    }
}
