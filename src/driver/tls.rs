//! A TCP connection with TLS.
//!
//! A [`Session`] has the methods of a plain stream. A session differs from a plain stream in these ways:
//!
//! * A session is connected when the TLS handshake is done. A session sends no data before the end of the handshake.
//! * Bytes that [`Session::write`] has accepted are encrypted and cannot be taken back. A session accepts at most 16
//!   KiB, and no more until the kernel has accepted these bytes. Until then, [`Session::has_unsent`] returns `true`.
//! * [`Session::is_drained`] returns `true` if nothing is left to read. A short read of the socket does not mean that
//!   the session is drained.
//! * Dropping or aborting a session writes nothing. Only an orderly close sends `close_notify`.
//!
//! A [`Connector`] contains the parts that the connections to one node share: the trusted authorities, the client
//! certificate, the name of the node, and the resumable sessions.
//!
//! rustls allocates a buffer for each record that it writes, and for the plaintext of each record that it reads. A
//! session allocates no other memory.
//!
//! # Not here
//!
//! `settings` reads certificates and keys from files. `verifier` decides whether to trust a certificate. `reason`
//! explains the errors of rustls.

#[cfg(test)]
pub(super) mod peer;
mod reason;
mod settings;
#[cfg(test)]
mod tests;
mod verifier;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use self::settings::{Settings, System};
use super::tcp::{self, Received};
use crate::clock;
use crate::config::Config;
use crate::error::{ConfigError, LinkFault};
use crate::time::Instant;

/// The maximum number of plaintext bytes that are encrypted in one step: one record.
const CHUNK_BYTES: usize = 16 << 10;

/// How long sessions may be resumed after a node's certificate was checked. A resumed session does not check the
/// certificate again, so this time is limited.
const SESSIONS_MAX: Duration = Duration::from_secs(3600);

/// The parts that the connections to one node share. See the [module](self).
pub(super) struct Connector {
    settings: Settings,
    terms: Terms,
    /// The time at which the store of resumable sessions was last emptied.
    sessions_since: Instant,
}

/// The parts that one connection needs.
#[derive(Clone)]
pub(super) struct Terms {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Returns the connector of each node, or `None` for a node without TLS.
pub(super) fn connectors(config: &Config) -> Result<Vec<Option<Connector>>, ConfigError> {
    let mut system = System::default();
    let nodes = config.nodes().iter();
    nodes
        .map(|node| {
            let settings = Settings::of(node, config.tls(), &mut system)?;
            settings.map(Connector::new).transpose()
        })
        .collect()
}

impl Connector {
    fn new(mut settings: Settings) -> Result<Self, ConfigError> {
        let config = settings.read().map_err(|fault| settings.error(fault))?;
        let name = settings.name().map_err(|fault| settings.error(fault))?;
        let mut connector = Self {
            settings,
            terms: Terms {
                config: Arc::new(config),
                name,
            },
            sessions_since: Instant::ZERO,
        };
        connector.forget_sessions();
        Ok(connector)
    }

    /// Prepares the next connection. Reads the files again, and forgets old sessions.
    pub(super) fn refresh(&mut self) -> Result<(), LinkFault> {
        self.refresh_at(clock::now())
    }

    fn refresh_at(&mut self, now: Instant) -> Result<(), LinkFault> {
        let old = self.sessions_since.saturating_add(SESSIONS_MAX) <= now;
        match self.settings.read_changed() {
            Ok(Some(config)) => {
                self.terms.config = Arc::new(config);
                self.forget_sessions();
            }
            Ok(None) if old => self.forget_sessions(),
            Ok(None) => {}
            Err((part, problem)) => {
                self.forget_sessions();
                return Err(reason::of_setting(part, problem));
            }
        }
        Ok(())
    }

    /// Forgets the resumable sessions, so that the next handshake checks the certificate again.
    pub(super) fn forget_sessions(&mut self) {
        let mut config = ClientConfig::clone(&self.terms.config);
        config.resumption = Resumption::in_memory_sessions(1);
        self.terms.config = Arc::new(config);
        self.sessions_since = clock::now();
    }

    pub(super) fn terms(&self) -> Terms {
        self.terms.clone()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.terms.fmt(f)
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}

/// A connection. See the [module](self).
#[derive(Debug)]
pub(super) struct Session {
    stream: TcpStream,
    tls: ClientConnection,
    /// `true` if the TCP connection is up.
    is_open: bool,
    /// `true` if the last read has drained the socket.
    is_drained: bool,
    /// The reason why reading has ended, or `None` if reading continues.
    end: Option<Received>,
}

impl Session {
    /// Begins a TCP connection. Call [`Self::is_connected`] after each event of the connection.
    pub(super) fn connect(address: SocketAddr, terms: Terms) -> Result<Self, LinkFault> {
        let stream = TcpStream::connect(address).map_err(|error| tcp::opening_error(&error))?;
        let tls = ClientConnection::new(terms.config, terms.name)
            .map_err(|error| reason::of(&error, None))?;
        Ok(Self {
            stream,
            tls,
            is_open: false,
            is_drained: false,
            end: None,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Continues the handshake. Returns `true` if the handshake is done.
    pub(super) fn is_connected(&mut self) -> Result<bool, LinkFault> {
        if !self.is_open {
            let open = tcp::is_connected(&self.stream);
            self.is_open = open.map_err(|error| tcp::opening_error(&error))?;
            if !self.is_open {
                return Ok(false);
            }
        }
        loop {
            self.flush()?;
            if !self.tls.is_handshaking() {
                return Ok(true);
            }
            match self.receive() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(Received::Failed(reason)) => return Err(reason),
                Err(_) => return Err(LinkFault::Closed),
            }
        }
    }

    /// Fills `buffer` with the available bytes. Reads the socket at least once, unless the buffer is already full.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Received {
        let mut filled = 0;
        self.is_drained = false;
        loop {
            let plaintext = self.tls.reader().read(&mut buffer[filled..]);
            filled += plaintext.unwrap_or(0); // An error means that there is no plaintext.
            if filled == buffer.len() {
                return Received::Bytes(filled);
            }
            let end = match self.end {
                Some(end) => end,
                None if filled != 0 && self.is_drained => return Received::Bytes(filled),
                None => match self.receive() {
                    Ok(true) => continue,
                    Ok(false) => Received::Nothing,
                    Err(end) => {
                        self.end = Some(end);
                        continue; // Plaintext may precede the end.
                    }
                },
            };
            return match filled {
                0 => end,
                _ => Received::Bytes(filled),
            };
        }
    }

    /// Returns `true` if neither data nor the end of the stream is left to read, after a read that returned `len` of at
    /// most `room` bytes.
    pub(super) fn is_drained(&self, len: usize, room: usize) -> bool {
        len < room && self.end.is_none()
    }

    /// Encrypts and writes as many of `bytes` as fit, and returns their number. Call [`flush`](Self::flush) to write
    /// the encrypted bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, LinkFault> {
        let mut taken = 0;
        loop {
            match self.flush() {
                Ok(true) if taken < bytes.len() => {}
                Ok(_) => return Ok(taken),
                // Returns no error yet, because the bytes that were accepted may still arrive. A later event reports
                // that the connection has ended.
                Err(_) if taken != 0 => return Ok(taken),
                Err(reason) => return Err(reason),
            }
            let rest = &bytes[taken..];
            let chunk = &rest[..rest.len().min(CHUNK_BYTES)];
            let len = self.tls.writer().write(chunk);
            match len.map_err(|error| tcp::link_error(&error))? {
                0 => return Err(LinkFault::Closed),
                len => taken += len,
            }
        }
    }

    /// Returns `true` if the kernel has not accepted all encrypted bytes.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Writes the encrypted bytes, sends `close_notify`, and closes the direction to the node.
    pub(super) fn shut_down(&mut self) {
        // Bytes that the kernel does not accept now are lost, as on a connection without TLS. If the connection has
        // failed, no `close_notify` is sent.
        if self.flush() == Ok(true) {
            self.tls.send_close_notify();
            let _ = self.flush();
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Writes the encrypted bytes. Returns `true` if the kernel has accepted all encrypted bytes.
    pub(super) fn flush(&mut self) -> Result<bool, LinkFault> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(0) => return Err(LinkFault::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(tcp::link_error(&error)),
            }
        }
        Ok(true)
    }

    /// Reads the socket once, and decrypts the bytes. Returns `false` if there was no data, and an error if no more
    /// data will come.
    fn receive(&mut self) -> Result<bool, Received> {
        let mut tap = Tap {
            stream: &mut self.stream,
            is_short: false,
        };
        match self.tls.read_tls(&mut tap) {
            Ok(0) => return Err(Received::End),
            Ok(_) => self.is_drained = tap.is_short,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_drained = true;
                return Ok(false);
            }
            Err(error) => return Err(Received::Failed(tcp::link_error(&error))),
        }
        let processed = self.tls.process_new_packets();
        // TLS may have its own records to send, such as a key update or an alert. Records that cannot be written now
        // are sent with the next write. If the write fails, the next read reports the failure.
        let _ = self.flush();
        match processed {
            Ok(state) => {
                if state.peer_has_closed() {
                    // The node has sent `close_notify`, which counts as the end, because the node may leave the TCP
                    // connection open.
                    self.end = Some(Received::End);
                }
                Ok(true)
            }
            Err(error) => Err(Received::Failed(reason::of(&error, Some(&self.tls)))),
        }
    }
}

/// Records whether a read returned fewer bytes than requested.
struct Tap<'a> {
    stream: &'a mut TcpStream,
    is_short: bool,
}

impl Read for Tap<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    self.is_short = matches!(result, Ok(len) if len < buffer.len());
                    return result;
                }
            }
        }
    }
}
