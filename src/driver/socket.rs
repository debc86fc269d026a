//! A non-blocking stream socket: system calls, and what their results mean.
//!
//! * A read or a write never blocks and is never cut short by a signal.
//! * Every error becomes a [`LinkError`], by one table.
//! * A TCP connection that is up has `TCP_NODELAY`, and ends with an error after 5 s of
//!   unacknowledged bytes (`TCP_USER_TIMEOUT`) or 8 s of silence (keepalive).
//! * There are two ways to close: by a reset ([`Socket::abort`]), which discards what the kernel has not
//!   sent yet, and in order ([`Socket::close`]), which sends it. Dropping the value closes the
//!   descriptor and does nothing else: that is what a forked child may do.
//!
//! # Not here
//!
//! When to read and write, and why: `link`.

use alloc::sync::Arc;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token, Waker};
use rustix::io::Errno;
use rustix::net::{connect_unspec, sockopt};

use super::inbox::Inbox;
use crate::error::LinkError;

/// How long sent bytes may stay unacknowledged before the connection is dead. Shorter than most
/// ttls, so that a `SET` from before a partition does not run long after it.
const USER_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 3;

const READ: Interest = Interest::READABLE;
const READ_AND_WRITE: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// What a connection borrows from the wire while it works.
pub(super) struct Tools<'a> {
    pub(super) registry: &'a Registry,
    pub(super) waker: &'a Arc<Waker>,
    pub(super) buffer: &'a mut [u8],
    pub(super) inbox: &'a mut Inbox,
}

/// What a read has returned.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Received {
    /// The number of bytes, at least one.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The other side has sent all it will send.
    End,
    /// The connection is broken.
    Failed(LinkError),
}

#[derive(Debug)]
pub(super) struct Socket(Stream);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Begins a TCP connection. Call [`Self::is_connected`] when the socket becomes writable.
    pub(super) fn connect_tcp(
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, LinkError> {
        let stream = TcpStream::connect(address).map_err(|error| opening_error(&error))?;
        let mut socket = Self(Stream::Tcp(stream));
        // Both interests once: events of TCP are edges, so a writability that is not waited for
        // costs no wake-up.
        registry
            .register(socket.source(), token, READ_AND_WRITE)
            .map_err(|error| opening_error(&error))?;
        Ok(socket)
    }

    /// Connects to a unix socket. The connection is up at once.
    pub(super) fn connect_unix(
        path: &str,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, LinkError> {
        let stream = UnixStream::connect(path).map_err(|error| opening_error(&error))?;
        let mut socket = Self(Stream::Unix(stream));
        registry
            .register(socket.source(), token, READ)
            .map_err(|error| opening_error(&error))?;
        Ok(socket)
    }

    /// Returns `true` if the connection is up, with its options set; `false` if it is still being opened.
    pub(super) fn is_connected(&self) -> Result<bool, LinkError> {
        let connected = match &self.0 {
            Stream::Tcp(stream) => finish_tcp(stream),
            Stream::Unix(_) => Ok(true),
        };
        connected.map_err(|error| opening_error(&error))
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            let result = match &mut self.0 {
                Stream::Tcp(stream) => stream.read(buffer),
                Stream::Unix(stream) => stream.read(buffer),
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

    /// Writes as much of `bytes` as the kernel takes, and returns how much. Less than all means that
    /// its buffer is full; an event reports when it is not.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, LinkError> {
        match &mut self.0 {
            Stream::Tcp(stream) => write(stream, bytes),
            Stream::Unix(stream) => write(stream, bytes),
        }
    }

    /// Sets whether an event reports that a full socket takes bytes again.
    ///
    /// A unix socket would report that each time its peer reads, so it is set only while there is
    /// something to write. TCP reports it always.
    pub(super) fn watch_writable(
        &mut self,
        watch: bool,
        registry: &Registry,
        token: Token,
    ) -> Result<(), LinkError> {
        let Stream::Unix(stream) = &mut self.0 else {
            return Ok(());
        };
        let interest = if watch { READ_AND_WRITE } else { READ };
        registry
            .reregister(stream, token, interest)
            .map_err(|error| link_error(&error))
    }

    /// Closes by a reset: the kernel discards what it has not sent yet.
    pub(super) fn abort(mut self, registry: &Registry) {
        // If the system refuses one of these, the others are enough; the descriptor is closed anyway.
        if let Stream::Tcp(stream) = &self.0 {
            let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
            // Closing resets only if no other process has the socket, and a forked child has a copy of
            // the descriptor. Dissolving the connection resets it all the same.
            let _ = connect_unspec(stream);
        }
        let _ = registry.deregister(self.source());
    }

    /// Closes in order: the kernel still sends everything that was written.
    pub(super) fn close(mut self, registry: &Registry) {
        // It fails if the other side has closed the connection, which does no harm.
        let _ = match &self.0 {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
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
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> Result<usize, LinkError> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(len) if len != 0 => sent += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // What was taken may arrive. That the connection has ended is reported by an event.
            Ok(_) | Err(_) if sent != 0 => break,
            Ok(_) => return Err(LinkError::Closed),
            Err(error) => return Err(link_error(&error)),
        }
    }
    Ok(sent)
}

fn finish_tcp(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    let peer = match stream.peer_addr() {
        Ok(peer) => peer,
        Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
        Err(error) => return Err(error),
    };
    // A connection to a port of this machine on which no server listens may get that port as its own,
    // and be connected to itself. It would keep the server from listening there again.
    if stream.local_addr()? == peer {
        return Err(Errno::CONNREFUSED.into());
    }
    set_options(stream)?;
    Ok(true)
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(not(target_os = "openbsd"))]
    {
        sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let millis = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    Ok(())
}

/// What an error means while a connection is being opened.
fn opening_error(error: &io::Error) -> LinkError {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => LinkError::NotFound,
        Some(Errno::TIMEDOUT) => LinkError::ConnectTimeout,
        Some(_) | None => link_error(error),
    }
}

/// What an error means on a connection that was up.
fn link_error(error: &io::Error) -> LinkError {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => LinkError::Refused,
        Some(Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE) => LinkError::Reset,
        // `TCP_USER_TIMEOUT` and keepalive end a connection so.
        Some(Errno::TIMEDOUT) => LinkError::Silent,
        Some(Errno::NOTCONN) | None => LinkError::Closed,
        Some(other) => LinkError::Os(other.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes at a time, and is then reset.
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

    /// What the kernel has taken before may arrive and be run: it has left.
    #[test]
    fn what_was_taken_in_front_of_a_failure_has_left() {
        assert_eq!(write(&mut Reset(&[]), b"SET"), Err(LinkError::Reset));
        assert_eq!(write(&mut Reset(&[2]), b"SET"), Ok(2));
        assert_eq!(write(&mut Reset(&[2, 0]), b"SET"), Ok(2));
        assert_eq!(write(&mut Reset(&[3]), b"SET"), Ok(3));
    }

    // The numbers are those of Linux.
    #[cfg(target_os = "linux")]
    #[test]
    fn every_error_has_its_reason() {
        use LinkError::{Closed, ConnectTimeout, NotFound, Os, Refused, Reset, Silent};
        for (errno, opening, up) in [
            (Errno::CONNREFUSED, Refused, Refused),
            (Errno::NOENT, NotFound, Os(2)),
            (Errno::TIMEDOUT, ConnectTimeout, Silent),
            (Errno::CONNRESET, Reset, Reset),
            (Errno::PIPE, Reset, Reset),
            (Errno::CONNABORTED, Reset, Reset),
            (Errno::NOTCONN, Closed, Closed),
            (Errno::HOSTUNREACH, Os(113), Os(113)),
            (Errno::MFILE, Os(24), Os(24)),
            (Errno::ACCESS, Os(13), Os(13)),
        ] {
            let error = io::Error::from(errno);
            assert_eq!(
                (opening_error(&error), link_error(&error)),
                (opening, up),
                "{error}"
            );
        }
        assert_eq!(link_error(&io::ErrorKind::UnexpectedEof.into()), Closed);
        assert_eq!(link_error(&io::Error::other("no number")), Closed);
    }

    /// A child that was forked has one. What was written and not sent must not be sent for as long
    /// as that child lives.
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
