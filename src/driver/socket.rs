//! A non-blocking stream socket, with its system calls and the meaning of their results.
//!
//! * A read or a write never blocks and is never interrupted by a signal.
//! * A socket with TLS has the same methods as a socket without TLS. A TLS socket counts as connected only after the
//!   TLS handshake.
//! * A socket can be closed in two ways. A reset ([`Socket::abort`]) discards the bytes that the kernel has not sent
//!   yet, and an orderly close ([`Socket::close`]) sends them. Dropping a socket only closes the descriptor, because a
//!   forked child must do no more.
//!
//! # Not here
//!
//! `link` decides when to read and write. `tcp` interprets the states and the errors of TCP sockets. `tls` encrypts.

use alloc::boxed::Box;
use alloc::sync::Arc;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token, Waker};
use rustix::net::{connect_unspec, sockopt};

use super::inbox::Inbox;
use super::tcp::{self, Received, link_error, opening_error};
use super::tls::{Session, Terms};
use crate::error::LinkFault;

const READ: Interest = Interest::READABLE;
const READ_AND_WRITE: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// The parts of the wire that a connection borrows while it works.
pub(super) struct Tools<'a> {
    pub(super) registry: &'a Registry,
    pub(super) waker: &'a Arc<Waker>,
    pub(super) buffer: &'a mut [u8],
    pub(super) inbox: &'a mut Inbox,
}

#[derive(Debug)]
pub(super) struct Socket(Stream);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Session>),
}

impl Socket {
    /// Begins a TCP connection. Afterwards, call [`Self::is_connected`] when the socket becomes writable, or with TLS
    /// after each event of the socket.
    pub(super) fn connect(
        address: SocketAddr,
        terms: Option<Terms>,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, LinkFault> {
        let stream = match terms {
            None => {
                Stream::Tcp(TcpStream::connect(address).map_err(|error| opening_error(&error))?)
            }
            Some(terms) => Stream::Tls(Box::new(Session::connect(address, terms)?)),
        };
        // Registers for reading and writing together, in one call. TCP events are edge-triggered, so an interest in
        // writing causes no repeated wake-ups.
        Self(stream).registered(READ_AND_WRITE, registry, token)
    }

    /// Connects to a unix socket. The connection is up immediately.
    pub(super) fn connect_unix(
        path: &str,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, LinkFault> {
        let stream = UnixStream::connect(path).map_err(|error| opening_error(&error))?;
        Self(Stream::Unix(stream)).registered(READ, registry, token)
    }

    fn registered(
        mut self,
        interest: Interest,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, LinkFault> {
        let registered = registry.register(self.source(), token, interest);
        registered.map_err(|error| opening_error(&error))?;
        Ok(self)
    }

    /// Returns `true` if the connection is up, with its options set and its TLS handshake done. Returns `false` while
    /// the connection is being opened.
    pub(super) fn is_connected(&mut self) -> Result<bool, LinkFault> {
        let connected = match &mut self.0 {
            Stream::Tcp(stream) => tcp::is_connected(stream),
            Stream::Unix(_) => Ok(true),
            Stream::Tls(session) => return session.is_connected(),
        };
        connected.map_err(|error| opening_error(&error))
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            let result = match &mut self.0 {
                Stream::Tcp(stream) => stream.read(buffer),
                Stream::Unix(stream) => stream.read(buffer),
                Stream::Tls(session) => return session.read(buffer),
            };
            return match result {
                Ok(0) => Received::End,
                Ok(len) => Received::Bytes(len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
                Err(error) => Received::Failed(link_error(&error)),
            };
        }
    }

    /// Returns `true` if nothing is left to read, after a read that returned `len` of at most `room` bytes.
    pub(super) fn is_drained(&self, len: usize, room: usize) -> bool {
        match &self.0 {
            Stream::Tcp(_) | Stream::Unix(_) => len < room,
            Stream::Tls(session) => session.is_drained(len, room),
        }
    }

    /// Writes as many of `bytes` as the kernel accepts, and returns their number. If bytes are left, the kernel's
    /// buffer is full, and an event reports when it has space again. With TLS, call [`flush`](Self::flush) to write the
    /// encrypted bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, LinkFault> {
        match &mut self.0 {
            Stream::Tcp(stream) => write(stream, bytes),
            Stream::Unix(stream) => write(stream, bytes),
            Stream::Tls(session) => session.write(bytes),
        }
    }

    /// Returns `true` if encrypted bytes still wait for the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        match &self.0 {
            Stream::Tcp(_) | Stream::Unix(_) => false,
            Stream::Tls(session) => session.has_unsent(),
        }
    }

    /// Writes the encrypted bytes. Returns `true` if the kernel has accepted all encrypted bytes.
    pub(super) fn flush(&mut self) -> Result<bool, LinkFault> {
        match &mut self.0 {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(true),
            Stream::Tls(session) => session.flush(),
        }
    }

    /// Returns `true` if the socket may contain received bytes that no event will report.
    pub(super) fn reads_ahead(&self) -> bool {
        matches!(self.0, Stream::Tls(_))
    }

    /// Sets whether an event reports when a full socket becomes writable again.
    ///
    /// A unix socket reports the event each time its peer reads, so the link requests the event only while it has bytes
    /// to write. TCP sockets ignore this call, and always report the event.
    pub(super) fn watch_writable(
        &mut self,
        watch: bool,
        registry: &Registry,
        token: Token,
    ) -> Result<(), LinkFault> {
        let Stream::Unix(stream) = &mut self.0 else {
            return Ok(());
        };
        let interest = if watch { READ_AND_WRITE } else { READ };
        registry
            .reregister(stream, token, interest)
            .map_err(|error| link_error(&error))
    }

    /// Closes with a reset. The kernel discards the bytes that it has not sent yet.
    pub(super) fn abort(mut self, registry: &Registry) {
        // Ignores the errors of both calls, because the drop closes the descriptor even if a call fails.
        if !matches!(self.0, Stream::Unix(_)) {
            let _ = sockopt::set_socket_linger(&self, Some(Duration::ZERO));
            // Closing a descriptor resets the connection only if no forked child has a copy. A `connect` with
            // `AF_UNSPEC` always resets the connection.
            let _ = connect_unspec(&self);
        }
        let _ = registry.deregister(self.source());
    }

    /// Closes the connection in an orderly way. The kernel still sends all written bytes.
    pub(super) fn close(mut self, registry: &Registry) {
        // `shutdown` fails if the other side has closed the connection, which does no harm.
        let _ = match &mut self.0 {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(session) => {
                session.shut_down();
                Ok(())
            }
        };
        let _ = registry.deregister(self.source());
    }

    #[cfg(test)]
    pub(super) fn from_std(stream: std::net::TcpStream) -> Self {
        Self(Stream::Tcp(TcpStream::from_std(stream)))
    }

    fn source(&mut self) -> &mut dyn Source {
        match &mut self.0 {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
            Stream::Tls(session) => session.stream_mut(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(session) => session.stream().as_fd(),
        }
    }
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> Result<usize, LinkFault> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(len) if len != 0 => sent += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Returns no error yet, because the bytes that the kernel has accepted may still arrive. A later event
            // reports that the connection has ended.
            Ok(_) | Err(_) if sent != 0 => break,
            Ok(_) => return Err(LinkFault::Closed),
            Err(error) => return Err(link_error(&error)),
        }
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// A stream whose writes accept these numbers of bytes, one after the other, and then fail with a reset.
    struct Reset(&'static [usize]);

    impl Write for Reset {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (len, rest) = self.0.split_first().ok_or(Errno::CONNRESET)?;
            self.0 = rest;
            Ok((*len).min(bytes.len()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Bytes that the kernel has accepted before the failure may arrive and be executed, so they count as sent.
    #[test]
    fn what_was_taken_in_front_of_a_failure_has_left() {
        assert_eq!(write(&mut Reset(&[]), b"SET"), Err(LinkFault::Reset));
        assert_eq!(write(&mut Reset(&[2]), b"SET"), Ok(2));
        assert_eq!(write(&mut Reset(&[2, 0]), b"SET"), Ok(2));
        assert_eq!(write(&mut Reset(&[3]), b"SET"), Ok(3));
    }

    /// A forked child has a copy of the descriptor. After an abort, unsent bytes must not be sent, even while the child
    /// lives.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn an_abort_resets_also_when_another_descriptor_is_open() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let copy = client.try_clone().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let patience = Some(Duration::from_secs(60));
        server.set_read_timeout(patience).unwrap();
        let poll = mio::Poll::new().unwrap();
        Socket::from_std(client).abort(poll.registry());
        let end = server.read(&mut [0; 8]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
        drop(copy);
    }
}
