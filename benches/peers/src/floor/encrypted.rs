//! One caller over TLS: rustls on the sockets, and nothing else.
//!
//! One record, one write and one read for each command and node, as in [`solo`](super::solo). The time includes the
//! cost of TLS on the servers.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::solo::{Manner, Solo};
use super::{Scripts, Sockets, Stream, count};
use crate::Failure;

/// A connection over TLS.
pub struct Encrypted {
    stream: TcpStream,
    tls: ClientConnection,
}

impl Solo<Encrypted> {
    /// Connects to the nodes at `rediss://address?ca=file`; the lock has this name.
    ///
    /// # Errors
    ///
    /// A server does not answer, or a URL is of another kind.
    pub fn over_tls(urls: &[String], name: &str) -> Result<Self, Failure> {
        let sockets = Sockets::of(urls.iter().map(|url| Encrypted::connect(url)))?;
        Ok(Self::new(sockets, name, Manner::Majority))
    }
}

impl Encrypted {
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
        let scripts = Scripts::load(&mut rustls::Stream::new(&mut tls, &mut stream))?;
        stream.set_nonblocking(true)?;
        let mut encrypted = Self { stream, tls };
        // Read the tickets for later sessions, which may have come with the last answer.
        encrypted.answers(&mut [0; 64])?;
        Ok((encrypted, scripts))
    }
}

impl Stream for Encrypted {
    fn socket(&self) -> &TcpStream {
        &self.stream
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.tls.writer().write_all(bytes)?;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                result => _ = result?,
            }
        }
        Ok(())
    }

    fn answers(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
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
            let plain = buffer.get_mut(..plain).ok_or("more than answers")?;
            self.tls.reader().read_exact(plain)?;
            answers += count(plain)?;
            if is_short {
                return Ok(answers);
            }
        }
    }
}

/// A stream that remembers whether a read got fewer bytes than it asked for.
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

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").finish_non_exhaustive()
    }
}
