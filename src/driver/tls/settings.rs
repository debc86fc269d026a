//! Turns the TLS settings of a node into a configuration for rustls. Reads files.
//!
//! This module finds every mistake before a connection is opened, and reports the setting and the file. No report
//! contains any part of a private key.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the errors of others have many kinds, of which few are told apart here"
)]

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::fs::{self, File};
use std::io::{self, Read};

use memchr::memmem;
use rustls::client::ResolvesClientCert;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, Error, InconsistentKeys, RootCertStore};

use super::verifier::Verifier;
use crate::config::{Address, Host, NodeConfig, NodeTls, Pem, TlsOptions};
use crate::error::{ConfigError, ConfigFault, TlsPart, TlsProblem, TlsSetting};

/// The faulty setting, and its problem.
pub(super) type Fault = (TlsPart, TlsProblem);

/// The size of the largest file that is read. A file with all certificate authorities of a system takes about 250 KB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The certificate authorities of the system, which are loaded when a node first needs them.
#[derive(Default)]
pub(super) struct System(Option<Arc<RootCertStore>>);

impl System {
    fn authorities(&mut self) -> Arc<RootCertStore> {
        let load = || {
            let mut roots = RootCertStore::empty();
            // Skips certificates that cannot be parsed, and trusts the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        };
        Arc::clone(self.0.get_or_insert_with(load))
    }
}

/// The TLS settings of one node, and the contents of its files at the last read.
pub(super) struct Settings {
    label: String,
    host: String,
    tls: NodeTls,
    /// The certificate authorities of the system, if the settings name no others. The system's authorities are read
    /// only once.
    system: Option<Arc<RootCertStore>>,
    files: Contents,
}

/// The contents of the PEM files.
#[derive(Default, Eq, PartialEq)]
struct Contents {
    authorities: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Settings {
    /// Returns the settings of `node`, or `None` if the node does not use TLS.
    pub(super) fn of(
        node: &NodeConfig,
        options: &TlsOptions,
        system: &mut System,
    ) -> Result<Option<Self>, ConfigError> {
        let (Some(own), Address::Tcp { host, .. }) = (node.tls(), node.address()) else {
            return Ok(None);
        };
        let tls = own.or(options);
        let of_system = tls.authorities.is_none().then(|| system.authorities());
        let settings = Self {
            label: (**node.label()).to_owned(),
            host: match host {
                Host::Ip(ip) => ip.to_string(),
                Host::Name(name) => name.clone(),
            },
            tls,
            system: of_system,
            files: Contents::default(),
        };
        match settings
            .system
            .as_ref()
            .is_some_and(|roots| roots.is_empty())
        {
            true => Err(settings.error((TlsPart::Authorities, TlsProblem::NoneInstalled))),
            false => Ok(Some(settings)),
        }
    }

    /// Returns the name that the certificate of the node must have.
    pub(super) fn name(&self) -> Result<ServerName<'static>, Fault> {
        let name = self.tls.name.as_ref().unwrap_or(&self.host);
        ServerName::try_from(name.clone()).map_err(|_| (TlsPart::ServerName, TlsProblem::NotAName))
    }

    /// Reads the files, and returns a configuration with their contents.
    pub(super) fn read(&mut self) -> Result<ClientConfig, Fault> {
        let files = self.contents()?;
        let config = self.config(&files)?;
        self.files = files;
        Ok(config)
    }

    /// Reads the files again. Returns a new configuration if they have changed.
    pub(super) fn read_changed(&mut self) -> Result<Option<ClientConfig>, Fault> {
        match self.contents()? == self.files {
            true => Ok(None),
            false => self.read().map(Some),
        }
    }

    pub(super) fn error(&self, (part, problem): Fault) -> ConfigError {
        let own = self.tls.identity.as_ref();
        let pem = match part {
            TlsPart::Authorities => self.tls.authorities.as_ref(),
            TlsPart::Certificate => own.map(|own| &own.certificate),
            TlsPart::Key => own.map(|own| &own.key),
            TlsPart::ServerName => None,
        };
        let file = pem.and_then(|pem| match pem {
            Pem::File(path) => Some(path.clone()),
            Pem::Content(_) => None,
        });
        let setting = TlsSetting {
            node: self.label.clone(),
            part,
            file,
            problem,
        };
        ConfigFault::Tls(setting).into()
    }

    fn contents(&self) -> Result<Contents, Fault> {
        let of = |part, pem: Option<&Pem>| {
            let read = pem.map_or(Ok(Vec::new()), content);
            read.map_err(|problem| (part, problem))
        };
        let own = self.tls.identity.as_ref();
        Ok(Contents {
            authorities: of(TlsPart::Authorities, self.tls.authorities.as_ref())?,
            certificate: of(TlsPart::Certificate, own.map(|own| &own.certificate))?,
            key: of(TlsPart::Key, own.map(|own| &own.key))?,
        })
    }

    fn config(&self, files: &Contents) -> Result<ClientConfig, Fault> {
        let provider = Arc::new(ring::default_provider());
        let of_authorities = |problem| (TlsPart::Authorities, problem);
        let (roots, named) = match &self.system {
            Some(roots) => (Arc::clone(roots), Vec::new()),
            None => authorities(&files.authorities).map_err(of_authorities)?,
        };
        let verifier = Verifier::new(roots, named, &provider);
        let verifier = verifier.ok_or(of_authorities(TlsProblem::Empty))?;
        let identity = match &self.tls.identity {
            Some(_) => Some(identity(files, &provider)?),
            None => None,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| of_authorities(TlsProblem::Malformed))? // `ring` supports all versions.
            .dangerous() // The verifier keeps all checks of webpki.
            .with_custom_certificate_verifier(verifier);
        Ok(match identity {
            Some(identity) => builder.with_client_cert_resolver(identity),
            None => builder.with_no_client_auth(),
        })
    }
}

fn content(pem: &Pem) -> Result<Vec<u8>, TlsProblem> {
    match pem {
        Pem::File(path) => read_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TlsProblem::Missing,
            io::ErrorKind::PermissionDenied => TlsProblem::Forbidden,
            _ => TlsProblem::Unreadable,
        }),
        Pem::Content(text) => Ok(text.clone()),
    }
}

fn read_file(path: &str) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    // Refuses a pipe, because opening it would block until another process opens its other end.
    if !metadata.is_file() || FILE_BYTES_MAX < metadata.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn authorities(
    pem: &[u8],
) -> Result<(Arc<RootCertStore>, Vec<CertificateDer<'static>>), TlsProblem> {
    let named = certificates(pem)?;
    let mut roots = RootCertStore::empty();
    for certificate in &named {
        let added = roots.add(certificate.clone());
        added.map_err(|_| TlsProblem::Malformed)?;
    }
    Ok((Arc::new(roots), named))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsProblem::Empty),
        Ok(found) => Ok(found),
        Err(_) => Err(TlsProblem::Malformed),
    }
}

fn identity(
    files: &Contents,
    provider: &CryptoProvider,
) -> Result<Arc<dyn ResolvesClientCert>, Fault> {
    let of_certificate = |problem| (TlsPart::Certificate, problem);
    let of_key = |problem| (TlsPart::Key, problem);
    let chain = certificates(&files.certificate).map_err(of_certificate)?;
    let key = private_key(&files.key).map_err(of_key)?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|_| of_key(TlsProblem::Malformed))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(Error::InconsistentKeys(_)) => return Err(of_key(TlsProblem::KeyMismatch)),
        Err(_) => return Err(of_certificate(TlsProblem::Malformed)),
    }
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    // In PKCS #8, encrypted keys have their own label. The older form (`BEGIN RSA PRIVATE KEY`) marks an encrypted key
    // in the line after the label.
    let labels: [&[u8]; 2] = [
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----",
        b"Proc-Type: 4,ENCRYPTED",
    ];
    if labels
        .iter()
        .any(|label| memmem::find(pem, label).is_some())
    {
        return Err(TlsProblem::Password);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsProblem::Empty,
        _ => TlsProblem::Malformed,
    })
}
