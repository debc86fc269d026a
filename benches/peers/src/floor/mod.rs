//! The floor is the cost of a lock on raw sockets, without anything else.
//!
//! The floor sends the same bytes as a client, computed beforehand, on non-blocking sockets with epoll. It counts
//! replies; it has no parser, no algorithm, no clock, no limits and no error handling. A lock on N servers costs at
//! least that.
//!
//! * [`solo`] is one caller: it returns when a majority has answered, or when all have.
//! * [`encrypted`] is the same over TLS.
//! * [`batch`] is many locks at once on one thread, with one write and one read for each node and
//!   turn.
//! * [`threads`] is the same with a queue in front of it, for callers on threads of their own.
//!
//! Like every client, the floor does not wait for slow nodes, and reads their answers with the next answers.

pub mod batch;
pub mod encrypted;
pub mod solo;
pub mod threads;

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::Failure;
use crate::cycle::TTL;
use crate::servers::command;

/// The script that compares the token and deletes the key: like the client's own, so that the servers do the same work.
const RELEASE: &str = "local v=redis.call('get',KEYS[1]) \
                       if v==ARGV[1] then return redis.call('del',KEYS[1]) end \
                       if v then return -1 end return 0";

/// The script that compares the token and raises the expiry.
const EXTEND: &str = "local v=redis.call('get',KEYS[1]) \
                      if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
                      if p>=0 and p<tonumber(ARGV[2]) \
                      then redis.call('pexpire',KEYS[1],ARGV[2]) end \
                      return 1 end \
                      if v then return -1 end return 0";

/// The token of every lock.
const TOKEN: &str = "twenty bytes, random";

/// More than the number of sources of events.
const EVENTS: usize = 32;

/// The steps of a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// `SET key token NX PX ttl`.
    Acquire,
    /// The script that raises the expiry.
    Extend,
    /// The script that deletes the key.
    Release,
}

/// The commands about one lock, as bytes.
#[derive(Clone, Debug)]
pub struct Commands {
    acquire: Vec<u8>,
    extend: Vec<u8>,
    release: Vec<u8>,
}

impl Commands {
    /// Makes the commands for the lock of this name.
    #[must_use]
    pub fn new(scripts: &Scripts, name: &str) -> Self {
        let ttl = TTL.as_millis().to_string();
        Self {
            acquire: command(&["SET", name, TOKEN, "NX", "PX", &ttl]),
            extend: command(&["EVALSHA", &scripts.extend, "1", name, TOKEN, &ttl]),
            release: command(&["EVALSHA", &scripts.release, "1", name, TOKEN]),
        }
    }

    /// Returns the bytes of a step.
    #[must_use]
    pub fn bytes(&self, step: Step) -> &[u8] {
        match step {
            Step::Acquire => &self.acquire,
            Step::Extend => &self.extend,
            Step::Release => &self.release,
        }
    }
}

/// The digests of the scripts.
#[derive(Clone, Debug)]
pub struct Scripts {
    extend: String,
    release: String,
}

impl Scripts {
    fn load(stream: &mut (impl Read + Write)) -> Result<Self, Failure> {
        Ok(Self {
            extend: digest(stream, EXTEND)?,
            release: digest(stream, RELEASE)?,
        })
    }
}

/// A connection to a node, which does not block.
pub trait Stream {
    /// Returns the socket for which the poll waits.
    fn socket(&self) -> &TcpStream;

    /// Writes all bytes. Waits while the socket is full.
    ///
    /// # Errors
    ///
    /// The node is gone.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Reads what is there, and counts the answers. A read that does not fill the buffer has drained the socket.
    ///
    /// # Errors
    ///
    /// The node is gone, or answered something else than `+OK` and `:1`.
    fn answers(&mut self, buffer: &mut [u8]) -> Result<usize, Failure>;
}

/// Connections to all nodes, and their poll.
pub struct Sockets<S = TcpStream> {
    streams: Vec<S>,
    epoll: OwnedFd,
    buffer: Box<[u8]>,
}

impl Sockets {
    /// Connects to all servers, and loads the scripts.
    ///
    /// # Errors
    ///
    /// A server does not answer.
    pub fn connect(addresses: &[SocketAddr]) -> Result<(Self, Scripts), Failure> {
        Self::of(addresses.iter().map(|address| {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            let scripts = Scripts::load(&mut stream)?;
            stream.set_nonblocking(true)?;
            Ok((stream, scripts))
        }))
    }
}

impl<S: Stream> Sockets<S> {
    /// Takes these connections, whose servers have the scripts.
    fn of(
        connected: impl Iterator<Item = Result<(S, Scripts), Failure>>,
    ) -> Result<(Self, Scripts), Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (mut streams, mut scripts) = (Vec::new(), None);
        for (index, stream) in connected.enumerate() {
            let (stream, known) = stream?;
            add(&epoll, stream.socket(), index)?;
            streams.push(stream);
            scripts = Some(known);
        }
        let sockets = Self {
            epoll,
            buffer: vec![0; 64 << 10].into(),
            streams,
        };
        Ok((sockets, scripts.ok_or("there is no node")?))
    }

    /// Returns how many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.streams.len()
    }

    /// Returns how many nodes are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.nodes() / 2 + 1
    }

    /// Makes `source` wake the wait too.
    pub(crate) fn add(&self, source: impl AsFd) -> Result<(), Failure> {
        add(&self.epoll, source, self.nodes())
    }

    /// Writes the same bytes to all nodes. Waits while a socket is full.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut streams = self.streams.iter_mut();
        streams.try_for_each(|stream| stream.send(bytes))
    }

    /// Waits, asleep or spinning, and reports how many answers each node gave.
    ///
    /// # Errors
    ///
    /// A node is gone, or answered something else than `+OK` and `:1`.
    pub fn wait(
        &mut self,
        spin: bool,
        mut answered: impl FnMut(usize, usize),
    ) -> Result<(), Failure> {
        ready(&self.epoll, spin, |index| {
            // Sources beyond the nodes only wake.
            if let Some(stream) = self.streams.get_mut(index) {
                answered(index, stream.answers(&mut self.buffer)?);
            }
            Ok(())
        })
    }
}

impl<S> fmt::Debug for Sockets<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").finish_non_exhaustive()
    }
}

/// Waits, asleep or spinning, and reports which sources are ready.
fn ready(
    epoll: &OwnedFd,
    spin: bool,
    mut then: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut room = [const { MaybeUninit::uninit() }; EVENTS];
    match epoll::wait(epoll, &mut room[..], spin.then_some(&AT_ONCE)) {
        Ok((events, _)) => events
            .iter()
            .try_for_each(|event| then(event.data.u64() as usize)),
        Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn answers(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut answers = 0;
        loop {
            let len = match self.read(buffer) {
                Ok(0) => return Err("a server closed its connection".into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error.into()),
            };
            answers += count(&buffer[..len])?;
            if len < buffer.len() {
                return Ok(answers);
            }
        }
    }
}

/// Counts answers: every expected one is one line without a minus; nil and errors have one.
fn count(read: &[u8]) -> Result<usize, Failure> {
    if read.contains(&b'-') {
        let read = String::from_utf8_lossy(read);
        return Err(format!("the floor got another answer: {read}").into());
    }
    Ok(read.iter().filter(|byte| **byte == b'\n').count())
}

fn add(epoll: &OwnedFd, source: impl AsFd, index: usize) -> Result<(), Failure> {
    let data = epoll::EventData::new_u64(index as u64);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    Ok(epoll::add(epoll, source, data, flags)?)
}

fn digest(stream: &mut (impl Read + Write), script: &str) -> Result<String, Failure> {
    stream.write_all(&command(&["SCRIPT", "LOAD", script]))?;
    let mut answer = [0; 47];
    stream.read_exact(&mut answer)?;
    let digest = std::str::from_utf8(&answer)?.lines().nth(1);
    Ok(digest.ok_or("a server did not take a script")?.to_string())
}
