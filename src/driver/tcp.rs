//! Reads the state of TCP sockets, and interprets their errors.
//!
//! * One table turns every error into a [`LinkError`].
//! * Every TCP connection has `TCP_NODELAY`. A connection ends with an error after 5 s of unacknowledged bytes
//!   (`TCP_USER_TIMEOUT`) or 8 s of silence (keepalive).

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::error::{LinkError, LinkFault};

/// The time after which unacknowledged bytes end a connection. This time is shorter than most ttls. So a `SET` that was
/// sent before a network partition cannot run long after it.
const USER_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 3;

/// The result of a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Received {
    /// The number of bytes, at least one.
    Bytes(usize),
    /// There is nothing to read now.
    Nothing,
    /// The other side will send no more bytes.
    End,
    /// The connection is broken.
    Failed(LinkFault),
}

/// Returns `true` if the connection is up, with its options set. Returns `false` while the connection is being opened.
pub(super) fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    let peer = match stream.peer_addr() {
        Ok(peer) => peer,
        Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
        Err(error) => return Err(error),
    };
    // If no server listens on a local port, the kernel may choose that port as the client's own, and the socket
    // connects to itself. A socket that is connected to itself would prevent the server from listening again.
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

/// Interprets an error that occurred while a connection was being opened.
pub(super) fn opening_error(error: &io::Error) -> LinkFault {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => LinkFault::NotFound,
        Some(Errno::TIMEDOUT) => LinkFault::ConnectTimeout,
        Some(_) | None => link_error(error),
    }
}

/// Interprets an error that occurred on an open connection.
pub(super) fn link_error(error: &io::Error) -> LinkFault {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => LinkFault::Refused,
        Some(Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE) => LinkFault::Reset,
        // `TCP_USER_TIMEOUT` and keepalive end a connection with `ETIMEDOUT`.
        Some(Errno::TIMEDOUT) => LinkFault::Silent,
        Some(Errno::NOTCONN) | None => LinkFault::Closed,
        Some(other) => LinkFault::Os(other.raw_os_error()),
    }
}

/// Interprets an error on a connection that was up.
impl From<&io::Error> for LinkError {
    fn from(error: &io::Error) -> Self {
        link_error(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The error numbers in the table are those of Linux.
    #[cfg(target_os = "linux")]
    #[test]
    fn every_error_has_its_reason() {
        use LinkFault::{Closed, ConnectTimeout, NotFound, Os, Refused, Reset, Silent};
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
}
