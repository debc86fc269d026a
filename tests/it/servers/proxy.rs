//! A TCP relay in front of a server, which disturbs connections as networks do, and in worse ways.
//!
//! One thread with one `poll` serves all connections of a proxy. Its [`Mischief`] can be changed at any time, and
//! applies to open connections from the next piece of data on. With [`Mischief::None`] the proxy passes on everything
//! at once and in order, also the bytes that it held back before.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType};

use super::encrypted;
use super::permitted::credentials;

/// How a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// By `close`.
    Fin,
    /// By a reset.
    Rst,
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// Commands.
    ToServer,
    /// Answers.
    ToClient,
}

/// What a proxy does to the bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Mischief {
    #[default]
    None,
    /// Answers wait this long.
    Delay(Duration),
    /// Answers wait for up to this long, each piece for another share of it, in their order.
    Jitter(Duration),
    /// No more than this many bytes pass in a second, in each direction.
    Bandwidth(u32),
    /// Answers come byte by byte, this far apart.
    Drip(Duration),
    /// No bytes pass in this direction. They are kept, as a network's retransmission would, and
    /// pass afterwards. If it is the direction to the server, new connections stay in the queue of
    /// the kernel.
    Hold(Way),
    /// The connection ends on both sides after this many bytes of answers.
    Cut(usize, End),
    /// The server's side is gone, but the client does not know it: whatever the client sends is lost. Afterwards the
    /// connections are reset.
    HalfOpen,
    /// Every answer comes twice.
    Twice,
    /// After every piece of answers come these bytes.
    Extra(&'static [u8]),
    /// These bytes come in place of every piece of answers.
    Instead(&'static [u8]),
    /// The second bytes replace each line of an answer that begins with the first. A piece consists of whole lines.
    Reword(&'static [u8], &'static [u8]),
    /// These bytes come endlessly in place of answers, as fast as they are read.
    Flood(&'static [u8]),
}

/// Relays to one server.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<(Mutex<Shared>, Condvar)>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    mischief: Mischief,
    server: SocketAddr,
    /// The address from which the proxy connects to the server.
    source: Option<Ipv4Addr>,
    /// `Some` if all connections must end now.
    cut: Option<End>,
    closed: bool,
    /// `true` if there is a change that the thread has not seen yet.
    changed: bool,
    /// `true` if a client has reset a connection.
    was_reset: bool,
    /// How many connections are open.
    open: usize,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket option");
        let (wake, woken) = UnixStream::pair().expect("two descriptors");
        for stream in [&wake, &woken] {
            stream.set_nonblocking(true).expect("a socket option");
        }
        let shared = Mutex::new(Shared {
            mischief: Mischief::None,
            server,
            source: None,
            cut: None,
            closed: false,
            changed: false,
            was_reset: false,
            open: 0,
        });
        let shared = Arc::new((shared, Condvar::new()));
        let relay = Relay {
            listener,
            woken,
            shared: Arc::clone(&shared),
            mischief: Mischief::None,
            connections: Vec::new(),
            random: StdRng::seed_from_u64(1),
        };
        let thread = thread::spawn(move || relay.run());
        Self {
            address,
            shared,
            wake,
            thread: Some(thread),
        }
    }

    /// Sets the mischief.
    pub(crate) fn set(&self, mischief: Mischief) {
        self.change(|shared| shared.mischief = mischief);
    }

    /// Delays answers that arrive from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.set(Mischief::Delay(delay));
    }

    /// Ends every connection that is open, on both sides.
    pub(crate) fn cut(&self, end: End) {
        self.change(|shared| shared.cut = Some(end));
    }

    /// Sets another server for later connections.
    pub(crate) fn redirect(&self, server: SocketAddr) {
        self.change(|shared| shared.server = server);
    }

    /// Sets the source address of later connections to the server.
    pub(crate) fn come_from(&self, source: Option<Ipv4Addr>) {
        self.change(|shared| shared.source = source);
    }

    /// Returns `true` if a client has reset a connection.
    pub(crate) fn was_reset(&self) -> bool {
        lock(&self.shared).was_reset
    }

    /// Returns `true` if every connection has ended on both sides.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.shared).open == 0
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        encrypted::url(&credentials(), &self.address.to_string())
    }

    /// Returns the URL with `user:password` in it.
    pub(crate) fn url_with(&self, credentials: &str) -> String {
        encrypted::url(&format!("{credentials}@"), &self.address.to_string())
    }

    /// Makes a change and waits until it applies to all connections.
    fn change(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = lock(&self.shared);
        change(&mut shared);
        shared.changed = true;
        // A full pipe wakes the thread too.
        let _ = (&self.wake).write(&[0]);
        let shared = self.shared.1.wait_while(shared, |shared| shared.changed);
        drop(shared.expect("no thread panics while it holds this"));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        lock(&self.shared).closed = true;
        let _ = (&self.wake).write(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(shared: &(Mutex<Shared>, Condvar)) -> MutexGuard<'_, Shared> {
    shared
        .0
        .lock()
        .expect("no thread panics while it holds this")
}

/// The most bytes that wait in one direction. The proxy reads no more until some have passed.
const FULL: usize = 1 << 20;

struct Relay {
    listener: TcpListener,
    woken: UnixStream,
    shared: Arc<(Mutex<Shared>, Condvar)>,
    mischief: Mischief,
    connections: Vec<Connection>,
    random: StdRng,
}

struct Connection {
    client: TcpStream,
    /// `None` if the server's side is gone and the client does not know it.
    server: Option<TcpStream>,
    commands: Pipe,
    answers: Pipe,
    over: Option<End>,
}

/// Bytes that were read on one side and not yet written to the other.
struct Pipe {
    way: Way,
    pieces: VecDeque<(Instant, Vec<u8>)>,
    waiting: usize,
    /// How many bytes were written since the mischief was set.
    passed: usize,
    /// When the last piece is due.
    last: Instant,
    /// Set when nothing more will be read: how this side ended.
    ended: Option<End>,
    /// The end was passed on.
    closed: bool,
    /// `true` if the other side is gone, so that received bytes are dropped.
    is_unheard: bool,
}

impl Relay {
    fn run(mut self) {
        loop {
            self.wait();
            let _ = (&self.woken).read(&mut [0; 64]);
            let (mischief, cut, is_changed) = {
                let mut shared = lock(&self.shared);
                if shared.closed {
                    return;
                }
                (shared.mischief, shared.cut.take(), shared.changed)
            };
            if self.mischief != mischief {
                self.begin(mischief);
            }
            self.accept();
            let now = Instant::now();
            let mut shared = lock(&self.shared);
            for connection in &mut self.connections {
                match cut {
                    Some(end) => connection.over = Some(end),
                    None => connection.turn(mischief, &mut self.random, now),
                }
                shared.was_reset |= connection.commands.ended == Some(End::Rst);
                if let Some(End::Rst) = connection.over {
                    connection.reset();
                }
            }
            self.connections
                .retain(|connection| connection.over.is_none() && !connection.is_done());
            shared.open = self.connections.len();
            if is_changed {
                shared.changed = false;
                self.shared.1.notify_all();
            }
        }
    }

    fn begin(&mut self, mischief: Mischief) {
        let before = mem::replace(&mut self.mischief, mischief);
        for connection in &mut self.connections {
            connection.commands.passed = 0;
            connection.answers.passed = 0;
            connection.hurry();
            match mischief {
                Mischief::HalfOpen => connection.server = None,
                _ if before == Mischief::HalfOpen => connection.over = Some(End::Rst),
                _ => {}
            }
        }
    }

    /// Waits for something to do: a readable or writable socket, or a due time.
    fn wait(&self) {
        let now = Instant::now();
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if self.mischief != Mischief::Hold(Way::ToServer) {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let mut due: Option<Instant> = None;
        for connection in &self.connections {
            let (commands, answers) = (&connection.commands, &connection.answers);
            let (client, server) = (Some(&connection.client), connection.server.as_ref());
            for (stream, reads, writes) in
                [(client, commands, answers), (server, answers, commands)]
            {
                let mut wanted = PollFlags::empty();
                if reads.wants_more() {
                    wanted |= PollFlags::IN;
                }
                if let Some(at) = writes.due(self.mischief) {
                    if at <= now {
                        wanted |= PollFlags::OUT;
                    } else {
                        due = Some(due.map_or(at, |due| due.min(at)));
                    }
                }
                if let Some(stream) = stream.filter(|_| !wanted.is_empty()) {
                    fds.push(PollFd::new(stream, wanted));
                }
            }
        }
        let left = due.map(|due| due.saturating_duration_since(now));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().expect("a short wait"),
            tv_nsec: left.subsec_nanos().into(),
        });
        let _ = rustix::event::poll(&mut fds, left.as_ref());
    }

    fn accept(&mut self) {
        if self.mischief == Mischief::Hold(Way::ToServer) {
            return;
        }
        while let Ok((client, _)) = self.listener.accept() {
            let (server, source) = {
                let shared = lock(&self.shared);
                (shared.server, shared.source)
            };
            // A missing server refuses, so the client's connection ends at once.
            let Ok(server) = connect(server, source) else {
                set_socket_linger(&client, Some(Duration::ZERO)).expect("a socket option");
                continue;
            };
            for stream in [&client, &server] {
                stream.set_nodelay(true).expect("a socket option");
                stream.set_nonblocking(true).expect("a socket option");
            }
            let gone = self.mischief == Mischief::HalfOpen;
            self.connections.push(Connection {
                client,
                server: (!gone).then_some(server),
                commands: Pipe::new(Way::ToServer),
                answers: Pipe::new(Way::ToClient),
                over: None,
            });
        }
    }
}

fn connect(mut server: SocketAddr, source: Option<Ipv4Addr>) -> io::Result<TcpStream> {
    server.set_port(encrypted::port(server.port()));
    let Some(source) = source else {
        return TcpStream::connect(server);
    };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
    rustix::net::connect(&socket, &server)?;
    Ok(socket.into())
}

impl Connection {
    fn turn(&mut self, mischief: Mischief, random: &mut StdRng, now: Instant) {
        self.commands.fill(&mut self.client, |_| now);
        let Some(server) = &mut self.server else {
            return self.commands.discard();
        };
        self.answers
            .fill(server, |pipe| pipe.due_for(mischief, random, now));
        match self.commands.drain(server, mischief, now) {
            Ok(end) => self.over = self.over.or(end),
            // A side that reads no more may have sent the reason.
            Err(_) => self.commands.close(),
        }
        match self.answers.drain(&mut self.client, mischief, now) {
            Ok(end) => self.over = self.over.or(end),
            // The server still runs what the client has sent before.
            Err(_) => {
                self.answers.is_unheard = true;
                self.answers.discard();
            }
        }
    }

    /// Lets all delayed pieces pass.
    fn hurry(&mut self) {
        let now = Instant::now();
        for pipe in [&mut self.commands, &mut self.answers] {
            for piece in &mut pipe.pieces {
                piece.0 = piece.0.min(now);
            }
            pipe.last = now;
        }
    }

    fn reset(&self) {
        for stream in [&self.client].into_iter().chain(&self.server) {
            let _ = set_socket_linger(stream, Some(Duration::ZERO));
        }
    }

    fn is_done(&self) -> bool {
        self.commands.closed && self.answers.closed
    }
}

impl Pipe {
    fn new(way: Way) -> Self {
        Self {
            way,
            pieces: VecDeque::new(),
            waiting: 0,
            passed: 0,
            last: Instant::now(),
            ended: None,
            closed: false,
            is_unheard: false,
        }
    }

    fn wants_more(&self) -> bool {
        self.ended.is_none() && self.waiting < FULL
    }

    fn discard(&mut self) {
        self.pieces.clear();
        self.waiting = 0;
        // If the client ends, the whole connection ends.
        self.closed |= self.ended.is_some();
    }

    /// Nothing more can be written.
    fn close(&mut self) {
        self.ended = self.ended.or(Some(End::Fin));
        self.discard();
    }

    /// Returns when something can be written next; `None` if there is nothing, or it may not pass.
    fn due(&self, mischief: Mischief) -> Option<Instant> {
        if self.closed || self.is_unheard || mischief == Mischief::Hold(self.way) {
            return None;
        }
        if self.floods(mischief).is_some() {
            return Some(self.last);
        }
        match self.pieces.front() {
            Some((due, _)) => Some(*due),
            None => self.ended.map(|_| self.last),
        }
    }

    fn floods(&self, mischief: Mischief) -> Option<&'static [u8]> {
        match mischief {
            Mischief::Flood(bytes) if self.way == Way::ToClient => Some(bytes),
            _ => None,
        }
    }

    /// Returns when a piece that was read `now` may pass.
    fn due_for(&self, mischief: Mischief, random: &mut StdRng, now: Instant) -> Instant {
        let delay = match mischief {
            Mischief::Delay(delay) => delay,
            Mischief::Jitter(most) => most.mul_f64(random.random()),
            _ => Duration::ZERO,
        };
        self.last.max(now + delay)
    }

    /// Reads what there is.
    fn fill(&mut self, from: &mut TcpStream, mut due: impl FnMut(&Self) -> Instant) {
        let mut buffer = [0; 16 << 10];
        while self.wants_more() {
            match from.read(&mut buffer) {
                Ok(0) => self.ended = Some(End::Fin),
                Ok(len) => {
                    self.last = due(self);
                    self.waiting += len;
                    self.pieces.push_back((self.last, buffer[..len].to_vec()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The bytes before the reset are passed on first.
                Err(_) => self.ended = Some(End::Rst),
            }
        }
    }

    /// Writes what is due. Returns whether the connection has to end now.
    fn drain(
        &mut self,
        to: &mut TcpStream,
        mischief: Mischief,
        now: Instant,
    ) -> io::Result<Option<End>> {
        if self.is_unheard {
            self.discard();
            return Ok(None);
        }
        if let Some(bytes) = self.floods(mischief) {
            self.discard();
            return flood(to, bytes).map(|()| None);
        }
        while let Some(due) = self.due(mischief) {
            if now < due {
                break;
            }
            let Some((_, mut piece)) = self.pieces.pop_front() else {
                if self.ended == Some(End::Rst) {
                    return Ok(Some(End::Rst));
                }
                to.shutdown(Shutdown::Write).or_else(gone_is_good)?;
                self.closed = true;
                break;
            };
            let answers = self.way == Way::ToClient;
            // How much of the piece passes, and when the rest is due.
            let (most, again) = match mischief {
                Mischief::Drip(pause) if answers => (1, pause),
                Mischief::Bandwidth(rate) => {
                    let share = (rate / 50).max(1);
                    (share as usize, Duration::from_millis(20))
                }
                Mischief::Cut(at, _) if answers => (at.saturating_sub(self.passed), Duration::ZERO),
                _ => (usize::MAX, Duration::ZERO),
            };
            let rest = piece.split_off(piece.len().min(most));
            let taken = self.write(to, &piece, mischief)?;
            self.waiting -= taken;
            self.passed += taken;
            if let Mischief::Cut(at, end) = mischief
                && answers
                && at <= self.passed
            {
                return Ok(Some(end));
            }
            let unsent = piece.split_off(taken);
            if !unsent.is_empty() {
                self.pieces.push_front((due, [unsent, rest].concat()));
                break;
            }
            if !rest.is_empty() {
                self.pieces.push_front((now + again, rest));
            } else if let Some(next) = self.pieces.front_mut() {
                next.0 = next.0.max(now + again);
            }
        }
        Ok(None)
    }

    /// Writes a piece, or its replacement. Returns how much of the piece is done.
    fn write(&self, to: &mut TcpStream, piece: &[u8], mischief: Mischief) -> io::Result<usize> {
        let changed = match mischief {
            _ if self.way == Way::ToServer => None,
            Mischief::Twice => Some([piece, piece].concat()),
            Mischief::Extra(bytes) => Some([piece, bytes].concat()),
            Mischief::Instead(bytes) => Some(bytes.to_vec()),
            Mischief::Reword(from, to) => Some(reworded(piece, from, to)),
            _ => None,
        };
        if let Some(bytes) = changed {
            // Bytes that do not fit are dropped, because they are garbage.
            return to.write(&bytes).map(|_| piece.len());
        }
        match to.write(piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }
}

/// Returns `piece` with `to` in place of each line that begins with `from`.
fn reworded(piece: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let lines = piece.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.map(|line| if line.starts_with(from) { to } else { line });
    lines.collect::<Vec<_>>().concat()
}

/// Writes as much as the socket takes, at most a few megabytes at once. The last repetition may be
/// cut.
fn flood(to: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let piece = bytes.repeat((64 << 10) / bytes.len());
    for _ in 0..64 {
        match to.write(&piece) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn gone_is_good(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotConnected {
        return Ok(());
    }
    Err(error)
}
