//! The faces of this library.

use std::time::Duration;

use shearline::{Builder, LocalRedlock, Lock, LockGuard, LockOptions, Redlock};

use crate::Failure;
use crate::cycle::{Caller, Futures, PAUSE, TTL};

/// Returns a builder with the defaults, but a longer timeout: on a shared machine a server may get no processor for
/// longer than 50 ms. The clients on `redis` wait for 500 ms.
pub fn patient(urls: &[String]) -> Builder {
    Redlock::builder()
        .nodes(urls)
        .node_timeout(Duration::from_millis(500))
}

/// A [`LocalRedlock`].
#[derive(Debug)]
pub struct Local {
    /// The handle.
    pub handle: LocalRedlock,
    name: String,
    options: LockOptions,
    kind: Kind,
}

/// The kind of lock that a [`Local`] takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The lock.
    Exclusive,
    /// A shared lock.
    Shared,
    /// One of this many permits.
    Permit(u16),
}

impl Local {
    /// Returns a client for the lock of this name.
    ///
    /// # Errors
    ///
    /// That of the builder.
    pub fn build(builder: &Builder, name: &str) -> Result<Self, Failure> {
        Ok(Self {
            handle: builder.build_local()?,
            name: name.into(),
            options: LockOptions::new(TTL),
            kind: Kind::Exclusive,
        })
    }

    /// Returns the client for a lock of this kind.
    #[must_use]
    pub fn of(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns a client for the lock of this name with a fencing token. No other program uses the nodes, so they are
    /// trusted.
    ///
    /// # Errors
    ///
    /// That of the builder.
    pub fn fenced(builder: &Builder, name: &str) -> Result<Self, Failure> {
        let mut local = Self::build(builder, name)?;
        local.options = local.options.fenced();
        // New nodes give no token, and the handle only trusts them for tokens when it knows that one was requested.
        if let Ok(lock) = local.handle.lock_with(name, &local.options.tries(1)) {
            local.handle.unlock(lock)?;
        } else {
            local.handle.trust_nodes();
        }
        Ok(local)
    }
}

impl Caller for Local {
    type Lock = Lock;

    fn acquire(&mut self) -> Result<Lock, Failure> {
        let (handle, name, options) = (&mut self.handle, &self.name, &self.options);
        Ok(match self.kind {
            Kind::Exclusive => handle.lock_with(name, options)?,
            Kind::Shared => handle.lock_shared_with(name, options)?,
            Kind::Permit(permits) => handle.permit_with(name, permits, options)?,
        })
    }

    fn release(&mut self, lock: Lock) -> Result<(), Failure> {
        self.handle.unlock(lock)?;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.handle.poll(Some(PAUSE))?;
        Ok(())
    }
}

/// A [`Redlock`], as blocking calls and as futures.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The handle.
    pub handle: Redlock,
    name: String,
}

impl Shared {
    /// Returns a client for the lock of this name.
    ///
    /// # Errors
    ///
    /// That of the builder.
    pub fn build(builder: &Builder, name: &str) -> Result<Self, Failure> {
        Ok(Self {
            handle: builder.build()?,
            name: name.into(),
        })
    }
}

impl Caller for Shared {
    type Lock = LockGuard;

    fn acquire(&mut self) -> Result<LockGuard, Failure> {
        Ok(self.handle.lock(&self.name, TTL)?)
    }

    fn release(&mut self, lock: LockGuard) -> Result<(), Failure> {
        lock.unlock()?;
        Ok(())
    }
}

impl Futures for Shared {
    type Lock = LockGuard;

    fn named(&self, name: &str) -> Self {
        Self {
            handle: self.handle.clone(),
            name: name.into(),
        }
    }

    async fn acquire(&self) -> Result<LockGuard, Failure> {
        Ok(self.handle.lock_async(&self.name, TTL).await?)
    }

    async fn release(&self, lock: LockGuard) -> Result<(), Failure> {
        lock.unlock_async().await?;
        Ok(())
    }
}
