//! A relay in front of a server, which can make it look slow, silent or dead.
//!
//! The server behind the relay keeps running, with the same identity, so that it can be back at once. Each connection
//! has three threads, which is simple, but slower than the loopback interface. So only nodes with faults have a relay.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::cycle::now;

/// How much later answers come through a slow relay.
pub const DELAY: Duration = Duration::from_millis(20);

/// How long a port may stay taken after it was closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the relay does with the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Pass,
    Slow,
    Swallow,
    Closed,
}

/// Relays to one server. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    mode: Mutex<Mode>,
    /// Both sides of every connection, to close them.
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Makes a relay to this server.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub fn to(server: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let shared = Arc::new(Shared {
            server,
            mode: Mutex::new(Mode::Pass),
            streams: Mutex::new(Vec::new()),
        });
        Ok(Self {
            address: listener.local_addr()?,
            listening: Some(listen(&shared, listener)),
            shared,
        })
    }

    /// Returns `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Delays answers by [`DELAY`] from now on.
    pub fn slow(&self) {
        self.shared.set(Mode::Slow);
    }

    /// Drops all later bytes; connections stay open.
    pub fn swallow(&self) {
        self.shared.set(Mode::Swallow);
    }

    /// Ends all connections and refuses new ones.
    pub fn close(&mut self) {
        self.shared.set(Mode::Closed);
        // A last connection makes the thread stop; it may have stopped already.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.listening.take() {
            let _ = thread.join();
        }
        self.shared.cut();
    }

    /// Passes everything on again. Connections that lost bytes are closed.
    ///
    /// # Errors
    ///
    /// Another process has taken the port of one that was closed.
    pub fn recover(&mut self) -> Result<(), Failure> {
        if self.shared.set(Mode::Pass) == Mode::Swallow {
            self.shared.cut();
        }
        let begin = now();
        while self.listening.is_none() {
            match TcpListener::bind(self.address) {
                Ok(listener) => self.listening = Some(listen(&self.shared, listener)),
                Err(error) if PATIENCE < begin.elapsed() => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn is(&self, mode: Mode) -> bool {
        *guard(&self.mode) == mode
    }

    /// Sets the mode, and returns the one before.
    fn set(&self, mode: Mode) -> Mode {
        std::mem::replace(&mut *guard(&self.mode), mode)
    }

    fn cut(&self) {
        for stream in guard(&self.streams).drain(..) {
            // The connection may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(shared: &Arc<Shared>, listener: TcpListener) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if shared.is(Mode::Closed) {
                return;
            }
            // A connection that cannot be relayed is closed.
            drop(relay(&shared, client));
        }
    })
}

fn relay(shared: &Arc<Shared>, client: TcpStream) -> Result<(), Failure> {
    let server = TcpStream::connect(shared.server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let own = [client.try_clone()?, server.try_clone()?];
    guard(&shared.streams).extend(own);
    let commands = (client.try_clone()?, server.try_clone()?);
    let (pieces, late) = channel();
    let own = Arc::clone(shared);
    thread::spawn(move || {
        let (client, mut server) = commands;
        pump(client, |piece| {
            own.is(Mode::Swallow) || server.write_all(piece).is_ok()
        });
    });
    let own = Arc::clone(shared);
    thread::spawn(move || {
        pump(server, |piece| {
            let delay = if own.is(Mode::Slow) {
                DELAY
            } else {
                Duration::ZERO
            };
            pieces.send((now() + delay, piece.to_vec())).is_ok()
        });
    });
    thread::spawn(move || deliver(client, &late));
    Ok(())
}

/// Passes on the bytes that it reads until one side has closed.
fn pump(mut from: TcpStream, mut to: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if !to(&buffer[..len]) {
            break;
        }
    }
}

/// Writes every piece when it is due, and closes the connection after the last.
fn deliver(mut client: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>) {
    for (due, piece) in pieces {
        let left = due.saturating_duration_since(now());
        if !left.is_zero() {
            thread::sleep(left);
        }
        if client.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
