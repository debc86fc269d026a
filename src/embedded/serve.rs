//! The thread of an embedded node: one loop over the listener and the connections.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::mem;
use std::net::{self, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket, sockopt};

use crate::clock;
use crate::time::Instant;

use super::connection::{Connection, Served};
use super::store::{Memory, Store};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// The first number for connections. No number is used twice.
const FIRST: usize = 2;

const CONNECTIONS_MAX: usize = 1024;
const BACKLOG: i32 = 511;

/// The pause after a failed accept (when no descriptor was left, for example).
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// The pause between two looks for keys whose time is over, while pushes depend on it: the same as a server's default.
const EXPIRE_EVERY: Duration = Duration::from_millis(100);

/// The orders of the handle. Each is answered when it has been carried out.
#[derive(Debug)]
pub(super) enum Order {
    Stop,
    Restart(u64, Memory),
    Pause,
    Resume,
}

pub(super) type Orders = Receiver<(Order, Sender<io::Result<()>>)>;

pub(super) struct Server {
    poll: Poll,
    orders: Orders,
    store: Arc<Mutex<Store>>,
    address: SocketAddrV4,
    /// The address of a stopped node, bound without a listener. Connections are refused, but the system gives the port
    /// to no other program that asks for any free port.
    reserved: Option<OwnedFd>,
    listener: Option<TcpListener>,
    connections: BTreeMap<usize, Connection>,
    next: usize,
    /// Whether a connection may be waiting to be accepted.
    acceptable: bool,
    paused: bool,
    /// The time of the next look for keys whose time is over, if pushes depend on it.
    expire: Option<Instant>,
}

impl Server {
    pub(super) fn new(store: Arc<Mutex<Store>>, orders: Orders) -> io::Result<Self> {
        let port = reserve(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = match SocketAddr::try_from(getsockname(&port)?)? {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let mut server = Self {
            poll: Poll::new()?,
            orders,
            store,
            address,
            reserved: Some(port),
            listener: None,
            connections: BTreeMap::new(),
            next: FIRST,
            acceptable: false,
            paused: false,
            expire: None,
        };
        server.open()?;
        Ok(server)
    }

    pub(super) const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Returns a waker that ends the wait of the thread when there is an order.
    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Serves until the handle is gone. Each turn ends with at most one order.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut again = false;
        loop {
            let wait = match again {
                true => Some(Duration::ZERO),
                false if self.paused => None,
                false => self.wait(),
            };
            match self.poll.poll(&mut events, wait) {
                Ok(()) => (),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Without events the thread can serve no client; the clients see their connections end.
                Err(_) => return,
            }
            self.note(&events);
            again = !self.paused && self.turn();
            match self.orders.try_recv() {
                Ok((order, done)) => {
                    // A caller that does not wait for the answer does not need it.
                    let _ = done.send(self.obey(order));
                    again = true;
                }
                Err(TryRecvError::Empty) => (),
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Returns how long the thread may wait for events.
    fn wait(&self) -> Option<Duration> {
        let accept = self.acceptable.then_some(ACCEPT_AGAIN);
        let expire = self.expire.map(|at| at.saturating_since(clock::now()));
        accept.into_iter().chain(expire).min()
    }

    /// Records the events. Nothing else is done yet, because the node may be paused.
    fn note(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                LISTENER => self.acceptable = true,
                WAKER => (),
                Token(number) => {
                    if let Some(connection) = self.connections.get_mut(&number) {
                        connection.ready(event.is_readable(), event.is_writable());
                    }
                }
            }
        }
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Stop => self.close(),
            Order::Restart(seed, memory) => return self.restart(seed, memory),
            Order::Pause => self.paused = true,
            Order::Resume => self.paused = false,
        }
        Ok(())
    }

    /// Serves each connection once. Returns `true` if there may be more to do at once.
    fn turn(&mut self) -> bool {
        self.accept();
        let mut store = lock(&self.store);
        let mut again = false;
        let mut next = FIRST;
        while let Some((&number, connection)) = self.connections.range_mut(next..).next() {
            next = number + 1;
            let served = connection.serve(&mut store, clock::now);
            if served == Served::Ended {
                store.disconnect(connection.session());
                self.connections.remove(&number);
            }
            // This comes before the commands of the next connection, so that pushes and replies stay in their order.
            again |= served == Served::Again;
            again |= deliver(&mut store, &mut self.connections);
        }
        self.expire = expire(&mut store, self.expire, clock::now());
        again | deliver(&mut store, &mut self.connections)
    }

    /// Accepts all waiting connections. If an accept fails, the rest wait for another attempt soon.
    fn accept(&mut self) {
        while self.acceptable {
            let Some(listener) = &self.listener else {
                self.acceptable = false;
                return;
            };
            match listener.accept() {
                // A connection that cannot be registered is closed.
                Ok((stream, _)) => drop(self.admit(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.acceptable = false,
                Err(_) => return,
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream) -> io::Result<()> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return stream.write_all(b"-ERR max number of clients reached\r\n");
        }
        stream.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(&mut stream, Token(self.next), both)?;
        let session = lock(&self.store).session_of(self.next as u64);
        self.connections
            .insert(self.next, Connection::new(stream, session));
        self.next += 1;
        Ok(())
    }

    /// Stops as a killed process does: closes the connections and the listener, and keeps the port.
    fn close(&mut self) {
        let mut store = lock(&self.store);
        for (_, connection) in mem::take(&mut self.connections) {
            store.disconnect(connection.session());
        }
        drop(store);
        self.acceptable = false;
        // The listener must be closed before its port can be bound again.
        if self.listener.take().is_some() {
            self.reserved = reserve(self.address).ok();
        }
    }

    fn restart(&mut self, seed: u64, memory: Memory) -> io::Result<()> {
        self.close();
        lock(&self.store).restart(seed, clock::now(), memory);
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
        let registry = self.poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        self.listener = Some(listener);
        Ok(())
    }
}

/// Removes keys whose time is over, if it is time to look. Returns the time of the next look, if any push depends on
/// it.
fn expire(store: &mut Store, due: Option<Instant>, now: Instant) -> Option<Instant> {
    let is_due = due.is_some_and(|due| due <= now);
    if is_due {
        store.expire(now);
    }
    let next = due.filter(|_| !is_due);
    let next = next.unwrap_or_else(|| now.saturating_add(EXPIRE_EVERY));
    store.has_registrations().then_some(next)
}

/// Passes the pushes to their connections. Returns `true` if there was one.
fn deliver(store: &mut Store, connections: &mut BTreeMap<usize, Connection>) -> bool {
    let mut any = false;
    while let Some((connection, push)) = store.poll_push() {
        let number = usize::try_from(connection).ok();
        if let Some(connection) = number.and_then(|number| connections.get_mut(&number)) {
            connection.push(&push);
            any = true;
        }
    }
    any
}

/// Binds the address (any port, if it has none) without listening.
fn reserve(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    // Without this option, connections that a stopped node has closed would block the port for a minute.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Locks the store. After a panic under the mutex the store is as consistent as before.
pub(super) fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
