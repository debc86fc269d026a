//! Building a driver and waiting for its nodes.

use core::time::Duration;
use std::io;

use super::{BuildError, Driver, clock};
use crate::config::Builder;
use crate::engine::{Engine, NodeId, NodeState};
use crate::time::Instant;

/// How long the nodes that have not answered are waited for when a majority is ready.
const LAGGARDS: Duration = Duration::from_millis(50);

impl Builder {
    /// A [`Driver`], as soon as a majority of the nodes is ready and the others have answered or
    /// 50 ms more have passed; after the connect timeout in any case, also with nodes down.
    /// [`Driver::new`] does not wait.
    ///
    /// # Errors
    ///
    /// [`BuildError::Config`] for the first mistake in what was set, before any I/O;
    /// [`BuildError::Io`] if the operating system gives no descriptor or random bytes.
    pub fn build_driver(&self) -> Result<Driver, BuildError> {
        let mut driver = Driver::new(&self.config()?)?;
        driver.wait_until_ready()?;
        Ok(driver)
    }
}

impl Driver {
    /// Takes turns until a majority of the nodes is ready, and the others have answered or 50 ms
    /// more have passed. Returns when the connect timeout has passed in any case, and at once when a
    /// majority cannot serve (wrong credentials, for one); that nodes are down is no error. Events stay where they are.
    ///
    /// # Errors
    ///
    /// As [`Self::turn`].
    pub fn wait_until_ready(&mut self) -> io::Result<()> {
        let mut readiness = Readiness::new(clock::now(), self.connect_timeout);
        loop {
            let now = clock::now();
            let until = readiness.wait_until(now, &self.engine);
            if until <= now {
                return Ok(());
            }
            self.turn(Some(until.saturating_since(now)))?;
        }
    }
}

/// How long a new driver waits for its nodes.
struct Readiness {
    /// The nodes that have answered, by their places.
    answered: u32,
    end: Instant,
    majority_seen: bool,
}

impl Readiness {
    fn new(now: Instant, connect_timeout: Duration) -> Self {
        Self {
            answered: 0,
            end: now.saturating_add(connect_timeout),
            majority_seen: false,
        }
    }

    /// Until when to wait, by how the nodes stand `now`.
    fn wait_until(&mut self, now: Instant, engine: &Engine) -> Instant {
        let nodes = engine.nodes();
        let (mut ready, mut unusable) = (0, 0);
        for node in (0..).take(nodes) {
            match engine.node_state(now, NodeId(node)) {
                NodeState::New | NodeState::Connecting => continue,
                NodeState::Ready | NodeState::Quarantined { .. } => ready += 1,
                NodeState::Unusable(_) => unusable += 1,
                NodeState::Suspect | NodeState::Down(_) => {}
            }
            self.answered |= 1 << node;
        }
        if nodes - unusable < engine.quorum() {
            return now; // What an operator has to mend is not mended by waiting.
        }
        if engine.quorum() <= ready {
            if self.answered.count_ones() as usize == nodes {
                return now;
            }
            if !self.majority_seen {
                self.majority_seen = true;
                self.end = self.end.min(now.saturating_add(LAGGARDS));
            }
        }
        self.end
    }
}
