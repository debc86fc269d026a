//! Loopback ports that are free, and one that stays closed.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self, UnixListener};
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::net::{AddressFamily, SocketType};

use super::encrypted::ABOVE;

/// The first port. All ports are below the range from which systems take the ports of outgoing connections, so that no
/// client occupies the port of a server that is killed and restarted.
// The TLS ports of servers are `ABOVE` these.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// Returns a loopback port on which no process listens now, and which was not given out before in
/// this process or in another test process that runs: clients of a server that was killed connect to its port again,
/// and would meet a server of another test there.
///
/// A process that is no test may take it in the meantime; a caller that cannot bind it has to ask again.
pub(crate) fn free() -> u16 {
    /// Names that the kernel gives to one process, until that ends.
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run side by side begin at different places.
    let offset = process::id().wrapping_mul(211) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let place = (offset + step) % u32::from(COUNT);
        let port = FIRST + u16::try_from(place).expect("below COUNT");
        let name = net::SocketAddr::from_abstract_name(format!("shearline-test-port-{port}"));
        let Ok(reserved) = UnixListener::bind_addr(&name.expect("a short name")) else {
            continue;
        };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            RESERVED.lock().expect("no thread panicked").push(reserved);
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}

/// Returns `true` if `port` is one of those that this module gives out, and not a client's.
pub(crate) fn is_of_a_server(port: u16) -> bool {
    (FIRST..FIRST + COUNT + ABOVE).contains(&port)
}

/// Returns `true` if `port` may be the plain port of a server.
pub(super) fn is_plain(port: u16) -> bool {
    (FIRST..FIRST + COUNT).contains(&port)
}

/// A port that is taken, but on which no process listens: every connection is refused, and no other test's server can
/// get the port.
#[derive(Debug)]
pub(crate) struct ClosedPort {
    port: u16,
    _bound: OwnedFd,
}

impl ClosedPort {
    pub(crate) fn new() -> Self {
        for _ in 0..100 {
            let port = free();
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
                .expect("a socket");
            if rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Self {
                    port,
                    _bound: socket,
                };
            }
        }
        panic!("no port could be bound");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }
}
