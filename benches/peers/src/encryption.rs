//! A certificate for servers with TLS, made for one run.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::Failure;

/// The files of a certificate for `127.0.0.1`, of its key and of its authority. Dropping it removes them.
#[derive(Debug)]
pub struct Encryption(TempDir);

impl Encryption {
    /// Makes the files.
    ///
    /// # Errors
    ///
    /// No file can be written.
    pub fn new() -> Result<Self, Failure> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["127.0.0.1".into()])?;
        let certificate = params.signed_by(&key, &authority)?;
        let files = Self(tempfile::tempdir()?);
        fs::write(files.path("ca.pem"), authority.pem())?;
        fs::write(files.path("server.pem"), certificate.pem())?;
        fs::write(files.path("server.key"), key.serialize_pem())?;
        Ok(files)
    }

    /// Returns the path of one of the files: `ca.pem`, `server.pem` or `server.key`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
