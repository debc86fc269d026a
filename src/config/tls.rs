//! The TLS settings of a node: certificate authorities, client certificate and name.
//!
//! This module stores only paths and PEM texts. The driver reads the files when a handle is built.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Certificates or a key in PEM form: the path of a file, or the content. `Debug` output never shows the content.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Pem {
    File(String),
    Content(Vec<u8>),
}

/// A client certificate and its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

/// The TLS settings in the URL of one node. `None` means that [`TlsOptions`] applies.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct NodeTls {
    pub(crate) authorities: Option<Pem>,
    pub(crate) identity: Option<Identity>,
    pub(crate) name: Option<String>,
}

/// The TLS options for nodes with a `rediss://` URL: the certificate authorities to trust, and the client certificate.
/// Pass these options to [`Builder::tls`](crate::Builder::tls).
///
/// Settings in a URL (`rediss://host?ca=..&cert=..&key=..&name=..`) have precedence. By default, a node needs a
/// certificate from an authority that the system trusts, for the host in its URL, and the handle sends no client
/// certificate.
///
/// All certificates and keys are in PEM form. Files are read when the handle is built, and again for each later
/// connection, so new connections use a changed file. See [`manual::tls`](crate::manual::tls).
///
/// `Debug` output shows paths and names, but no key.
///
/// ```no_run
/// use shearline::{Redlock, TlsOptions};
///
/// let tls = TlsOptions::new()
///     .authorities_file("/etc/shearline/ca.pem")
///     .identity_files("/etc/shearline/client.pem", "/etc/shearline/client.key");
/// let redlock = Redlock::builder()
///     .nodes(["rediss://db1.example", "rediss://db2.example", "rediss://db3.example"])
///     .tls(tls)
///     .build()?;
/// # Ok::<(), shearline::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use = "options do nothing until `Builder::tls` gets them"]
pub struct TlsOptions(pub(crate) NodeTls);

impl TlsOptions {
    /// Returns the default options: the system's certificate authorities, no client certificate, and the host of each
    /// URL as the name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only the authorities in this PEM file. If the file contains the certificate of a node itself, that
    /// certificate is trusted too, even if its issuer is unknown.
    pub fn authorities_file(mut self, path: impl Into<String>) -> Self {
        self.0.authorities = Some(Pem::File(path.into()));
        self
    }

    /// Trusts only the authorities in this PEM text.
    pub fn authorities_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.0.authorities = Some(Pem::Content(pem.into()));
        self
    }

    /// If a node asks for a client certificate, sends the certificate in the first PEM file, and signs with the key in
    /// the second file. The first file also contains the intermediate certificates, after the client certificate. The
    /// key must not be protected by a password.
    pub fn identity_files(
        mut self,
        certificate: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        self.0.identity = Some(Identity {
            certificate: Pem::File(certificate.into()),
            key: Pem::File(key.into()),
        });
        self
    }

    /// Like [`Self::identity_files`], but takes PEM texts instead of paths.
    pub fn identity_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.0.identity = Some(Identity {
            certificate: Pem::Content(certificate.into()),
            key: Pem::Content(key.into()),
        });
        self
    }

    /// Requires that the certificates of the nodes are for this name or IP address, instead of the host of their URL.
    /// The handshake also sends the name to the nodes (SNI).
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }
}

/// The output does not show PEM texts, because they may contain a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Content(_) => f.write_str("given as text"),
        }
    }
}

impl NodeTls {
    /// Returns these settings, with missing settings taken from `options`.
    pub(crate) fn or(&self, options: &TlsOptions) -> Self {
        let (own, other) = (self.clone(), options.0.clone());
        Self {
            authorities: own.authorities.or(other.authorities),
            identity: own.identity.or(other.identity),
            name: own.name.or(other.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn no_key_is_shown() {
        let options = TlsOptions::new()
            .authorities_pem("canary")
            .identity_pem("canary", "canary")
            .server_name("db");
        assert_eq!(
            format!("{options:?}"),
            "TlsOptions(NodeTls { authorities: Some(given as text), identity: Some(Identity { certificate: given as \
             text, key: given as text }), name: Some(\"db\") })"
        );
    }

    #[test]
    fn what_a_url_names_comes_first() {
        let file = |path: &str| Some(Pem::File(path.into()));
        let options = TlsOptions::new().authorities_file("all").server_name("one");
        let own = NodeTls {
            authorities: file("own"),
            ..NodeTls::default()
        };
        let both = own.or(&options);
        assert!(both.authorities == file("own") && both.name.as_deref() == Some("one"));
        assert!(NodeTls::default().or(&options).authorities == file("all"));
    }
}
