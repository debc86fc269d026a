//! Looking up a host name without ever blocking the loop.
//!
//! The system's resolver can take many seconds and cannot be interrupted, so each look-up has a
//! thread of its own, which stores its result, wakes the loop and ends. No thread waits for it: a
//! look-up that is not needed any more is dropped, and so is its result. It holds nothing of the driver
//! but a weak pointer to its waker.

use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::thread;

use mio::Waker;

use crate::error::LinkFault;

/// Most addresses of one name that are tried. The name of one server has fewer.
const ADDRESSES_MAX: usize = 16;

/// The addresses of a name; at least one.
pub(super) type Addresses = Vec<SocketAddr>;

type Found = Result<Addresses, LinkFault>;

/// A look-up under way or done.
#[derive(Debug)]
pub(super) struct Lookup {
    slot: Arc<Mutex<Option<Found>>>,
}

impl Lookup {
    /// Begins to look up `name`, and calls `waker` when that is done.
    pub(super) fn start(name: &str, port: u16, waker: &Arc<Waker>) -> Result<Self, LinkFault> {
        let name = String::from(name);
        Self::run(waker, move || {
            Ok((name.as_str(), port).to_socket_addrs()?.collect())
        })
    }

    /// Runs `work` on a thread of its own.
    pub(super) fn run(
        waker: &Arc<Waker>,
        work: impl FnOnce() -> io::Result<Addresses> + Send + 'static,
    ) -> Result<Self, LinkFault> {
        let slot = Arc::new(Mutex::new(None));
        let (theirs, waker) = (Arc::clone(&slot), Arc::downgrade(waker));
        thread::Builder::new()
            .name("shearline-lookup".into())
            .spawn(move || post(&theirs, &waker, found(work())))
            .map_err(|error| {
                error
                    .raw_os_error()
                    .map_or(LinkFault::Unresolved, LinkFault::Os)
            })?;
        Ok(Self { slot })
    }

    /// Takes the result, if there is one.
    pub(super) fn take(&self) -> Option<Found> {
        // No code panics under this mutex, so it is never poisoned.
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

fn post(slot: &Mutex<Option<Found>>, waker: &Weak<Waker>, found: Found) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    // The driver may be gone. If it is not, waking it cannot fail.
    if let Some(waker) = waker.upgrade() {
        let _ = waker.wake();
    }
}

fn found(result: io::Result<Addresses>) -> Found {
    let mut addresses = Addresses::new();
    for address in result.map_err(|_| LinkFault::Unresolved)? {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        Err(LinkFault::Unresolved)
    } else {
        Ok(addresses)
    }
}
