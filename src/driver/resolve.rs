//! Looking up a host name without ever blocking the loop.
//!
//! The system's resolver can take many seconds and cannot be interrupted, so each look-up has a
//! thread of its own, which leaves its result behind, wakes the loop and ends. Nobody waits for
//! that thread: a look-up that is no longer wanted is simply dropped, and what it finds later is
//! lost with it. It holds nothing of the driver but a weak pointer to its waker.

use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::thread;

use mio::Waker;

use crate::error::LinkError;

/// Most addresses of one name that are tried. More than a name of one server ever has.
const ADDRESSES_MAX: usize = 16;

/// What a name stands for; at least one address.
pub(super) type Addresses = Vec<SocketAddr>;

type Found = Result<Addresses, LinkError>;

/// A look-up under way or done.
#[derive(Debug)]
pub(super) struct Lookup {
    slot: Arc<Mutex<Option<Found>>>,
}

impl Lookup {
    /// Begins to look up `name`; `waker` is woken when that is done.
    pub(super) fn start(name: &str, port: u16, waker: &Arc<Waker>) -> Result<Self, LinkError> {
        let name = String::from(name);
        Self::run(waker, move || {
            Ok((name.as_str(), port).to_socket_addrs()?.collect())
        })
    }

    /// Runs `work` on a thread of its own.
    pub(super) fn run(
        waker: &Arc<Waker>,
        work: impl FnOnce() -> io::Result<Addresses> + Send + 'static,
    ) -> Result<Self, LinkError> {
        let slot = Arc::new(Mutex::new(None));
        let (theirs, waker) = (Arc::clone(&slot), Arc::downgrade(waker));
        thread::Builder::new()
            .name("shearline-lookup".into())
            .spawn(move || post(&theirs, &waker, found(work())))
            .map_err(|error| {
                error
                    .raw_os_error()
                    .map_or(LinkError::Unresolved, LinkError::Os)
            })?;
        Ok(Self { slot })
    }

    /// The result, once, when there is one.
    pub(super) fn take(&self) -> Option<Found> {
        // Nothing that could panic is ever done under this lock, so poison means nothing.
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

fn post(slot: &Mutex<Option<Found>>, waker: &Weak<Waker>, found: Found) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    // A driver that is gone wants nothing any more. Waking one that is there cannot fail.
    if let Some(waker) = waker.upgrade() {
        let _ = waker.wake();
    }
}

fn found(result: io::Result<Addresses>) -> Found {
    let mut addresses = Addresses::new();
    for address in result.map_err(|_| LinkError::Unresolved)? {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        Err(LinkError::Unresolved)
    } else {
        Ok(addresses)
    }
}
