//! `rslock`, with its defaults.

use ::rslock::{Lock, LockManager};

use crate::Failure;
use crate::cycle::{Futures, TTL};

/// The manager of `rslock`, for one name.
#[derive(Clone, Debug)]
pub struct Rslock {
    manager: LockManager,
    name: String,
}

impl Rslock {
    /// Returns a client for the lock of this name. It connects with its first lock.
    #[must_use]
    pub fn new(urls: &[String], name: &str) -> Self {
        Self {
            manager: LockManager::new(urls.to_vec()),
            name: name.into(),
        }
    }
}

impl Futures for Rslock {
    type Lock = Lock;

    fn named(&self, name: &str) -> Self {
        Self {
            manager: self.manager.clone(),
            name: name.into(),
        }
    }

    async fn acquire(&self) -> Result<Lock, Failure> {
        Ok(self.manager.lock(self.name.as_bytes(), TTL).await?)
    }

    async fn release(&self, lock: Lock) -> Result<(), Failure> {
        // The library does not report whether anything was deleted.
        self.manager.unlock(&lock).await;
        Ok(())
    }
}
