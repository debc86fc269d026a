//! The floor: the same bytes over plain sockets, and nothing else.
//!
//! It writes what the library writes, in the same number of writes, and counts the lines of the answers of a
//! majority. It has no algorithm, no clock, no parser and no limits, so nothing that takes a lock on these
//! nodes from this machine is faster.
//!
//! # Not here
//!
//! TLS: a floor without it would be another's.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use shearline::engine::ReleaseWay;
use shearline::resp::command;
use shearline::{Address, Config, Host, NodeConfig};

/// How long a connection, and an answer while it is prepared, may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The token of every lock: as long as that of the library.
const TOKEN: &[u8] = b"twenty bytes, random";

/// Compares the token and deletes the key: so that the nodes do the same work.
const SCRIPT: &[u8] = b"local v=redis.call('get',KEYS[1]) \
                        if v==ARGV[1] then return redis.call('del',KEYS[1]) end \
                        if v then return -1 end return 0";

/// What is written at once, and how many lines the answer has.
#[derive(Debug, Default)]
struct Step {
    bytes: Vec<u8>,
    lines: usize,
}

/// One node.
struct Socket {
    stream: Box<dyn Stream>,
    /// Taking and releasing the locks.
    steps: Vec<Step>,
    /// Lines of answers that are not read yet.
    owed: usize,
}

trait Stream: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Stream for T {}

/// Connections to the nodes.
pub(super) struct Floor {
    sockets: Vec<Socket>,
    quorum: usize,
    buffer: Box<[u8]>,
}

impl Floor {
    /// Connects to the nodes of `config`, which release locks so. `names` are taken together.
    pub(super) fn connect(
        config: &Config,
        releasing: &[ReleaseWay],
        names: &[Vec<u8>],
        ttl: Duration,
    ) -> io::Result<Self> {
        let mut sockets = Vec::new();
        let mut why = io::Error::other("no node is there");
        for (node, releasing) in config.nodes().iter().zip(releasing) {
            match Socket::connect(node, *releasing, names, ttl) {
                Ok(socket) => sockets.push(socket),
                Err(error) => why = error,
            }
        }
        match config.quorum() <= sockets.len() {
            true => Ok(Self {
                sockets,
                quorum: config.quorum(),
                buffer: vec![0; 1 << 16].into(),
            }),
            false => Err(why),
        }
    }

    /// Takes and releases every lock, each by a majority.
    pub(super) fn cycle(&mut self) -> io::Result<()> {
        let steps = self.sockets.iter().map(|socket| socket.steps.len());
        for step in 0..steps.max().unwrap_or(0) {
            for socket in &mut self.sockets {
                if let Some(step) = socket.steps.get(step) {
                    socket.stream.write_all(&step.bytes)?;
                    socket.owed += step.lines;
                }
            }
            self.await_answers_of(self.quorum)?;
        }
        Ok(())
    }

    /// Reads until so many nodes have answered everything. The others are read with the next answers.
    fn await_answers_of(&mut self, nodes: usize) -> io::Result<()> {
        while self.sockets.iter().filter(|it| it.owed == 0).count() < nodes {
            let fds = self.sockets.iter().map(|socket| socket.stream.as_fd());
            let readable = readable(fds.collect())?;
            for (socket, _) in self.sockets.iter_mut().zip(readable).filter(|(_, is)| *is) {
                let read = socket.stream.read(&mut self.buffer)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                socket.owed = socket.owed.saturating_sub(lines(&self.buffer[..read])?);
            }
        }
        Ok(())
    }
}

/// A server that finds its client gone drops what it has not read yet, releases included. So all are heard.
impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.await_answers_of(self.sockets.len()); // What is left ends with its ttl.
    }
}

fn readable(fds: Vec<BorrowedFd<'_>>) -> io::Result<Vec<bool>> {
    let fd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds: Vec<_> = fds.into_iter().map(fd).collect();
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&patience)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(error) => Err(error.into()),
    }
}

/// Counts lines. An error in place of an answer ends it all: it would be too fast.
fn lines(bytes: &[u8]) -> io::Result<usize> {
    let is_error = |line: &[u8]| line.first() == Some(&b'-');
    match bytes
        .split_inclusive(|byte| *byte == b'\n')
        .find(|line| is_error(line))
    {
        Some(line) => Err(io::Error::other(
            String::from_utf8_lossy(line).trim().to_owned(),
        )),
        None => Ok(bytes.iter().filter(|byte| **byte == b'\n').count()),
    }
}

impl Socket {
    fn connect(
        node: &NodeConfig,
        releasing: ReleaseWay,
        names: &[Vec<u8>],
        ttl: Duration,
    ) -> io::Result<Self> {
        let mut stream = open(node.address())?;
        if let Some(password) = node.password() {
            let user = node.user().unwrap_or("default");
            ask(
                &mut stream,
                &[b"AUTH", user.as_bytes(), password.as_bytes()],
            )?;
        }
        if node.database() != 0 {
            ask(
                &mut stream,
                &[b"SELECT", node.database().to_string().as_bytes()],
            )?;
        }
        let by_script = matches!(releasing, ReleaseWay::Unasked | ReleaseWay::Script);
        let digest = match by_script {
            true => digest(&mut stream)?,
            false => Vec::new(),
        };
        let ttl = ttl.as_millis().to_string();
        let mut steps = vec![Step::default()];
        for name in names {
            steps[0].add(&[b"SET", name, TOKEN, b"NX", b"PX", ttl.as_bytes()], 1);
        }
        let releases = 1 + usize::from(releasing == ReleaseWay::Transaction);
        steps.extend((0..releases).map(|_| Step::default()));
        for name in names {
            release(&mut steps[1..], releasing, name, &digest);
        }
        Ok(Self {
            stream,
            steps,
            owed: 0,
        })
    }
}

fn release(steps: &mut [Step], releasing: ReleaseWay, name: &[u8], digest: &[u8]) {
    match (releasing, steps) {
        (ReleaseWay::DelIfEq, [step]) => step.add(&[b"DELIFEQ", name, TOKEN], 1),
        (ReleaseWay::DelEx, [step]) => step.add(&[b"DELEX", name, b"IFEQ", TOKEN], 1),
        (ReleaseWay::SetIfEq, [step]) => {
            step.add(&[b"SET", name, TOKEN, b"IFEQ", TOKEN, b"PXAT", b"1"], 1);
        }
        (ReleaseWay::Transaction, [look, delete]) => {
            look.add(&[b"WATCH", name], 1);
            look.add(&[b"GET", name], 2);
            delete.add(&[b"MULTI"], 1);
            delete.add(&[b"PEXPIRE", name, b"0"], 1);
            delete.add(&[b"EXEC"], 2);
        }
        (_, steps) => {
            for step in steps.iter_mut().take(1) {
                step.add(&[b"EVALSHA", digest, b"1", name, TOKEN], 1);
            }
        }
    }
}

impl Step {
    fn add(&mut self, words: &[&[u8]], lines: usize) {
        command(&mut self.bytes, words);
        self.lines += lines;
    }
}

/// Teaches the script, and returns its digest.
fn digest(stream: &mut Box<dyn Stream>) -> io::Result<Vec<u8>> {
    let answer = ask(stream, &[b"SCRIPT", b"LOAD", SCRIPT])?;
    // "$40", and the digest in the next line.
    let digest = answer.split(|byte| *byte == b'\n').nth(1);
    Ok(digest.unwrap_or_default().trim_ascii().to_vec())
}

/// Asks one question, and returns its answer.
fn ask(stream: &mut Box<dyn Stream>, words: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    command(&mut bytes, words);
    stream.write_all(&bytes)?;
    let (mut answer, mut part) = (Vec::new(), [0; 512]);
    // A bulk has a second line.
    while lines(&answer)? < 1 + usize::from(answer.first() == Some(&b'$')) {
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&part[..read]);
    }
    Ok(answer)
}

fn open(address: &Address) -> io::Result<Box<dyn Stream>> {
    let tcp = |stream: TcpStream| -> io::Result<Box<dyn Stream>> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Box::new(stream))
    };
    match address {
        Address::Tcp { host, port } => {
            let mut found = match host {
                Host::Ip(ip) => vec![(*ip, *port).into()],
                Host::Name(name) => (name.as_str(), *port).to_socket_addrs()?.collect(),
            };
            found.truncate(1);
            let address = found.first().ok_or(io::ErrorKind::NotFound)?;
            tcp(TcpStream::connect_timeout(address, PATIENCE)?)
        }
        Address::Unix { path } => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
