//! One caller over TLS: rustls on the sockets, and nothing else.
//!
//! One record, one write and one read for each command and node, as in [`solo`](super::solo). What TLS costs
//! a server is in it too.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::event::epoll;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

use super::{Commands, Scripts, Step, add, count, ready};
use crate::Failure;
use crate::cycle::{Caller, PAUSE};

/// One lock, taken again and again.
pub struct Encrypted {
    nodes: Vec<Node>,
    epoll: OwnedFd,
    commands: Commands,
    /// How many commands each node got.
    sent: usize,
}

struct Node {
    stream: TcpStream,
    tls: ClientConnection,
    /// How many commands it has answered.
    got: usize,
}

impl Encrypted {
    /// Connects to the nodes at `rediss://address?ca=file`; the lock has this name.
    ///
    /// # Errors
    ///
    /// A server does not answer, or a URL is of another kind.
    pub fn connect(urls: &[String], name: &str) -> Result<Self, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (mut nodes, mut scripts) = (Vec::new(), None);
        for (index, url) in urls.iter().enumerate() {
            let (mut node, known) = Node::connect(url)?;
            node.stream.set_nonblocking(true)?;
            add(&epoll, &node.stream, index)?;
            // Tickets for later sessions may have come with the last answer.
            node.answers()?;
            nodes.push(node);
            scripts = Some(known);
        }
        Ok(Self {
            commands: Commands::new(&scripts.ok_or("there is no node")?, name),
            nodes,
            epoll,
            sent: 0,
        })
    }

    fn step(&mut self, step: Step) -> Result<(), Failure> {
        for node in &mut self.nodes {
            node.write(self.commands.bytes(step))?;
        }
        self.sent += 1;
        self.wait(self.nodes.len() / 2 + 1)
    }

    /// Waits until so many have answered everything.
    fn wait(&mut self, needed: usize) -> Result<(), Failure> {
        let done = |nodes: &[Node], sent| nodes.iter().filter(|node| node.got == sent).count();
        while done(&self.nodes, self.sent) < needed {
            let nodes = &mut self.nodes;
            ready(&self.epoll, false, |index| {
                nodes[index].got += nodes[index].answers()?;
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Node {
    fn connect(url: &str) -> Result<(Self, Scripts), Failure> {
        let url = url.strip_prefix("rediss://").ok_or("not over TLS")?;
        let (address, ca) = url.split_once("?ca=").ok_or("without an authority")?;
        let address: SocketAddr = address.parse()?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca)?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tls = ClientConnection::new(Arc::new(config), address.ip().into())?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let scripts = Scripts::load(&mut Stream::new(&mut tls, &mut stream))?;
        let got = 0;
        Ok((Self { stream, tls, got }, scripts))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.tls.writer().write_all(bytes)?;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                result => _ = result?,
            }
        }
        Ok(())
    }

    /// Reads what is there, and counts. A read that does not fill its buffer has drained the socket.
    fn answers(&mut self) -> Result<usize, Failure> {
        let mut answers = 0;
        loop {
            let mut tap = Tap {
                stream: &mut self.stream,
                is_short: true,
            };
            match self.tls.read_tls(&mut tap) {
                Ok(0) => return Err("a server closed its connection".into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            let is_short = tap.is_short;
            let plain = self.tls.process_new_packets()?.plaintext_bytes_to_read();
            let mut buffer = [0; 4 << 10];
            let buffer = buffer.get_mut(..plain).ok_or("more than answers")?;
            self.tls.reader().read_exact(buffer)?;
            answers += count(buffer)?;
            if is_short {
                return Ok(answers);
            }
        }
    }
}

/// Remembers whether a read got less than it asked for.
struct Tap<'a> {
    stream: &'a mut TcpStream,
    is_short: bool,
}

impl Read for Tap<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(buffer)?;
        self.is_short = len < buffer.len();
        Ok(len)
    }
}

impl Caller for Encrypted {
    type Lock = ();

    fn acquire(&mut self) -> Result<(), Failure> {
        self.step(Step::Acquire)
    }

    fn release(&mut self, (): ()) -> Result<(), Failure> {
        self.step(Step::Release)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.wait(self.nodes.len())?;
        thread::sleep(PAUSE);
        Ok(())
    }
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").finish_non_exhaustive()
    }
}
