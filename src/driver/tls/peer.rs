//! TLS servers for the tests of the driver, with certificates of a test authority.

use crate::config::TlsOptions;
use crate::driver::authority::{Authority, Span};
use alloc::sync::Arc;
use alloc::vec;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub(in crate::driver) type Stream<S> = StreamOwned<ServerConnection, S>;

/// A server with a certificate of one authority.
pub(in crate::driver) struct Peer {
    config: Arc<ServerConfig>,
    authority: Authority,
}

impl Peer {
    pub(in crate::driver) fn new(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let authority = Authority::new("of this test");
        let issued = authority.server(&["127.0.0.1"], Span::Now);
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        change(&mut config);
        Self {
            config: Arc::new(config),
            authority,
        }
    }

    /// The settings of a client that trusts this server.
    pub(in crate::driver) fn options(&self) -> TlsOptions {
        TlsOptions::new().authorities_pem(self.authority.pem())
    }

    /// The server's end of one connection.
    pub(in crate::driver) fn accept(&self) -> ServerConnection {
        ServerConnection::new(Arc::clone(&self.config)).unwrap()
    }
}
