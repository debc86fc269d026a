//! Calls the credentials provider and looks up a host name, without blocking the loop.
//!
//! A credentials provider and the system's resolver can take many seconds and cannot be interrupted. So each look-up
//! runs on a separate thread, which stores the result, wakes the loop and ends. No thread waits for a look-up. A
//! look-up that is no longer needed is dropped with its result. The thread of a look-up has only a weak pointer to the
//! waker of the driver.

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::thread;

use mio::Waker;

use crate::config::{Address, Credentials, Host, NodeConfig, Provider};
use crate::error::LinkFault;

/// The maximum number of addresses of one name that the link tries. The host name of one server usually has fewer
/// addresses.
const ADDRESSES_MAX: usize = 16;

/// The addresses of a name. The list is never empty.
pub(super) type Addresses = Vec<SocketAddr>;

type Found = Result<Addresses, LinkFault>;

/// The credentials, if the handle has a provider, and the result of the look-up.
type Answer = (Option<Given>, Found);

/// The credentials for a connection, or the reason why the provider has none.
pub(super) type Given = Result<Credentials, Arc<str>>;

/// The credentials provider, and the node for which it is called.
pub(super) type Login = (Provider, NodeConfig);

/// A look-up that is running or done.
#[derive(Debug)]
pub(super) struct Lookup {
    slot: Arc<Mutex<Option<Answer>>>,
}

impl Lookup {
    /// Starts a thread that calls the provider in `login`, if there is one, and then looks up the name in `address`, if
    /// it is a name. The thread calls `waker` when both are done.
    pub(super) fn start(
        login: Option<&Login>,
        address: &Address,
        waker: &Arc<Waker>,
    ) -> Result<Self, LinkFault> {
        let (login, address) = (login.cloned(), address.clone());
        Self::run(login, waker, move || match address {
            Address::Tcp { host, port } => match host {
                Host::Name(name) => Ok((name.as_str(), port).to_socket_addrs()?.collect()),
                Host::Ip(ip) => Ok([(ip, port).into()].into()),
            },
            Address::Unix { .. } => Ok(Addresses::new()),
        })
    }

    /// Starts a thread that calls the provider and then runs `work`.
    pub(super) fn run(
        login: Option<Login>,
        waker: &Arc<Waker>,
        work: impl FnOnce() -> io::Result<Addresses> + Send + 'static,
    ) -> Result<Self, LinkFault> {
        let slot = Arc::new(Mutex::new(None));
        let (theirs, waker) = (Arc::clone(&slot), Arc::downgrade(waker));
        thread::Builder::new()
            .name("shearline-lookup".into())
            .spawn(move || {
                let answer = (login.map(ask), found(work()));
                *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                // The driver may have been dropped. Waking a driver that still exists cannot fail.
                if let Some(waker) = waker.upgrade() {
                    let _ = waker.wake();
                }
            })
            .map_err(|error| match error.raw_os_error() {
                Some(errno) => LinkFault::Os(errno),
                None => LinkFault::Unresolved,
            })?;
        Ok(Self { slot })
    }

    /// Takes the result, if there is one.
    pub(super) fn take(&self) -> Option<Answer> {
        // No code panics under this mutex, so it is never poisoned.
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    }
}

/// Calls a provider. Catches a panic of the provider, so that the thread always ends with an answer.
fn ask((provider, node): Login) -> Given {
    let asked = panic::catch_unwind(AssertUnwindSafe(|| provider.ask(&node)));
    asked.unwrap_or_else(|_| Err("the provider has panicked".into()))
}

fn found(result: io::Result<Addresses>) -> Found {
    let mut addresses = Addresses::new();
    for address in result.map_err(|_| LinkFault::Unresolved)? {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(LinkFault::Unresolved),
        false => Ok(addresses),
    }
}
