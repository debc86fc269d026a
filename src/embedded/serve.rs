//! The thread of an embedded node, which is one loop over the listener and the connections.
//!
//! The thread and the handle share the [`Server`]. The handle changes the server and wakes the thread.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::{self, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket, sockopt};

use crate::clock;
use crate::time::Instant;

use super::connection::Connection;
use super::store::{Memory, Store};

const LISTENER: Token = Token(0);
pub(super) const WAKER: Token = Token(1);
/// The number of the first connection. No number is used twice.
const FIRST: usize = 2;

const BACKLOG: i32 = 511;

/// The pause between two searches for expired keys, which is also a server's default. The thread searches only while a
/// key is registered for a push. After a failed accept, the thread tries again after at most this time.
const TICK: Duration = Duration::from_millis(100);

/// The server, which its thread and the handle share.
pub(super) struct Shared {
    /// A thread locks this mutex before it locks the server. So a thread that has just unlocked the server cannot lock
    /// it again before a waiting thread.
    pub(super) turn: Mutex<()>,
    pub(super) server: Mutex<Server>,
}

impl Shared {
    /// Locks the server. Ignores a poisoned mutex, because no panic can leave the store inconsistent.
    pub(super) fn lock(&self) -> MutexGuard<'_, Server> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Server {
    pub(super) store: Store,
    pub(super) address: SocketAddr,
    pub(super) paused: bool,
    /// `true` if the handle was dropped.
    pub(super) ended: bool,
    registry: Registry,
    /// A socket that is bound to the address of the stopped node, but does not listen. So the system refuses
    /// connections, but does not give the port to a program that asks for any free port.
    reserved: Option<OwnedFd>,
    listener: Option<TcpListener>,
    connections: BTreeMap<usize, Connection>,
    next: usize,
    /// `true` if a connection may be waiting to be accepted.
    acceptable: bool,
    /// The time when the next [`TICK`] is due.
    tick: Instant,
}

/// Serves until the handle is dropped.
pub(super) fn run(shared: &Shared, mut poll: Poll) {
    let mut events = Events::with_capacity(256);
    let mut wait = None;
    loop {
        let polled = poll.poll(&mut events, wait);
        let mut server = shared.lock();
        match polled {
            _ if server.ended => return,
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Without events the thread can serve no client, so it closes all connections.
            Err(_) => return drop(server.stop()),
        }
        server.note(&events);
        wait = server.turn();
    }
}

impl Server {
    pub(super) fn new(store: Store, registry: Registry) -> io::Result<Self> {
        let port = reserve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let mut server = Self {
            store,
            address: getsockname(&port)?.try_into()?,
            paused: false,
            ended: false,
            registry,
            reserved: Some(port),
            listener: None,
            connections: BTreeMap::new(),
            next: FIRST,
            acceptable: false,
            tick: Instant::ZERO,
        };
        server.open()?;
        Ok(server)
    }

    /// Records the events. Does nothing else, because the node may be paused.
    fn note(&mut self, events: &Events) {
        for event in events {
            let Token(number) = event.token();
            self.acceptable |= event.token() == LISTENER;
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.ready = true;
            }
        }
    }

    /// Serves each connection once. Returns how long the thread may wait for the next event.
    fn turn(&mut self) -> Option<Duration> {
        if self.paused {
            return None;
        }
        self.accept();
        let mut next = FIRST;
        while let Some((&number, connection)) = self.connections.range_mut(next..).next() {
            next = number + 1;
            if connection.ready && !connection.serve(&mut self.store, clock::now()) {
                self.store.disconnect(connection.session());
                self.connections.remove(&number);
            }
            // Pushes are delivered before the commands of the next connection, so that pushes and replies stay in
            // order.
            self.deliver();
        }
        let now = clock::now();
        if self.tick <= now {
            self.tick = now.saturating_add(TICK);
            if self.store.has_registrations() {
                self.store.expire(now);
                self.deliver();
            }
        }
        if self.connections.values().any(|connection| connection.ready) {
            return Some(Duration::ZERO);
        }
        let ticks = self.acceptable || self.store.has_registrations();
        ticks.then(|| self.tick.saturating_since(now))
    }

    /// Passes the pushes to their connections.
    fn deliver(&mut self) {
        while let Some((connection, push)) = self.store.poll_push() {
            let number = usize::try_from(connection).ok();
            if let Some(connection) = number.and_then(|number| self.connections.get_mut(&number)) {
                connection.push(&push);
            }
        }
    }

    /// Accepts all waiting connections. If an accept fails, the thread soon tries again to accept the remaining
    /// connections.
    fn accept(&mut self) {
        while self.acceptable
            && let Some(listener) = &self.listener
        {
            match listener.accept() {
                // A connection that cannot be registered is closed.
                Ok((stream, _)) => drop(self.admit(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.acceptable = false,
                Err(_) => return,
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.registry
            .register(&mut stream, Token(self.next), both)?;
        let session = Store::session_of(self.next as u64);
        self.connections
            .insert(self.next, Connection::new(stream, session));
        self.next += 1;
        Ok(())
    }

    /// Stops as a killed process does: closes the connections and the listener, and keeps the port.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        for (_, connection) in mem::take(&mut self.connections) {
            self.store.disconnect(connection.session());
        }
        self.acceptable = false;
        // The listener must be closed before its port can be bound again.
        if self.listener.take().is_some() {
            self.reserved = Some(reserve(self.address)?);
        }
        Ok(())
    }

    pub(super) fn restart(&mut self, seed: u64, memory: Memory) -> io::Result<()> {
        self.stop()?;
        self.store.restart(seed, clock::now(), memory);
        self.paused = false;
        self.open()
    }

    fn open(&mut self) -> io::Result<()> {
        let port = match self.reserved.take() {
            Some(port) => port,
            None => reserve(self.address)?,
        };
        listen(&port, BACKLOG)?;
        let listener = net::TcpListener::from(port);
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        self.registry
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        self.listener = Some(listener);
        Ok(())
    }
}

/// Binds the address without listening. If the address has no port, binds any port.
fn reserve(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    // Without this option, connections that a stopped node has closed would block the port for a minute.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}
