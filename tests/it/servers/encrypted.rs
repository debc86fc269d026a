//! Servers with a TLS port in addition to the plain port, through which tests inspect them.
//!
//! With `SHEARLINE_TEST_TLS=1` every server has a TLS port, and every URL of a server, a relay or a link is `rediss://`
//! with the file of the authority.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::{env, fs};

use super::authority::{Authority, Issued, Span};

/// How far the TLS port of a server is above its plain one.
pub(super) const ABOVE: u16 = 10_000;

/// The names in the certificate of [`usual`].
const NAMES: [&str; 5] = ["127.0.0.1", "::1", "localhost", "10.77.0.2", "twofold.test"];

/// The certificate and the key of a server, and the authority whose clients it trusts, as files.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The value of `tls-auth-clients`.
    clients: &'static str,
    /// The value of `tls-protocols`.
    protocols: &'static str,
}

static USUAL: LazyLock<Option<Arc<Encryption>>> = LazyLock::new(|| {
    let asked = env::var_os("SHEARLINE_TEST_TLS").is_some_and(|value| value == "1");
    asked.then(|| {
        if cfg!(not(feature = "tls")) {
            panic!("build the tests with the feature `tls`");
        }
        Arc::new(usual())
    })
});

/// Returns `true` if every server has TLS.
pub(crate) fn is_usual() -> bool {
    USUAL.is_some()
}

impl Encryption {
    /// Writes the files to `directory`.
    pub(crate) fn new(directory: &Path, ca: &str, issued: &Issued) -> Self {
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        Self {
            ca: write("ca.pem", ca),
            certificate: write("server.pem", &issued.certificate),
            key: write("server.key", &issued.key),
            clients: "no",
            protocols: "TLSv1.2 TLSv1.3",
        }
    }

    /// Demands a certificate of each client.
    #[cfg(feature = "tls")]
    pub(crate) fn of_known_clients(mut self) -> Self {
        self.clients = "yes";
        self
    }

    /// Speaks only TLS 1.2.
    #[cfg(feature = "tls")]
    pub(crate) fn old(mut self) -> Self {
        self.protocols = "TLSv1.2";
        self
    }

    pub(super) fn configure(&self, command: &mut Command, port: u16) {
        command
            .args(["--tls-port", &(port + ABOVE).to_string()])
            .arg("--tls-cert-file")
            .arg(&self.certificate)
            .arg("--tls-key-file")
            .arg(&self.key)
            .arg("--tls-ca-cert-file")
            .arg(&self.ca)
            .args(["--tls-auth-clients", self.clients])
            .args(["--tls-protocols", self.protocols]);
    }

    /// Returns the end of a URL, which names the authority of the server.
    pub(super) fn query(&self) -> String {
        format!("?ca={}", self.ca.display())
    }
}

/// Returns the TLS settings of every server, if the tests run with TLS.
pub(super) fn of_all() -> Option<Arc<Encryption>> {
    USUAL.clone()
}

/// Returns the URL of a server with this plain port, or of something that passes bytes on to it.
pub(super) fn url(credentials: &str, address: &str) -> String {
    match of_all() {
        Some(encryption) => format!("rediss://{credentials}{address}{}", encryption.query()),
        None => format!("redis://{credentials}{address}"),
    }
}

/// Returns the port to which clients of the server with this plain port connect.
pub(super) fn port(plain: u16) -> u16 {
    match of_all() {
        Some(_) if super::ports::is_plain(plain) => plain + ABOVE,
        _ => plain,
    }
}

/// Returns a certificate and its authority, which are made once and kept: test processes that run side by side share
/// them.
fn usual() -> Encryption {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("encryption");
    if !directory.is_dir() {
        let parent = directory.parent().expect("it has one");
        let new = tempfile::tempdir_in(parent).expect("a directory");
        let authority = Authority::new("shearline tests");
        Encryption::new(
            new.path(),
            &authority.pem(),
            &authority.server(&NAMES, Span::Now),
        );
        // Another process may have made it meanwhile.
        let _ = fs::rename(new.path(), &directory);
    }
    let file = |name| directory.join(name);
    Encryption {
        ca: file("ca.pem"),
        certificate: file("server.pem"),
        key: file("server.key"),
        clients: "no",
        protocols: "TLSv1.2 TLSv1.3",
    }
}
