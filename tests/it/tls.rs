//! TLS against real servers. A right certificate works, and for each wrong certificate the error names the fault.
//!
//! With `SHEARLINE_TEST_TLS=1` the stories of other files run over TLS too (`servers/encrypted.rs`).

mod life;
mod settings;

use std::fs;
use std::path::Path;
use std::process::Command;

use shearline::internals::LinkFault;
use shearline::{BuildError, NodeOutcome, NodeState, Redlock, TlsOptions, Unusable};
use tempfile::TempDir;

use crate::face::{Face, Which, at, no_quorum};
use crate::refusal::HTTP;
use crate::servers::authority::Span::{Future, Now, Past};
use crate::servers::authority::{Authority, Issued};
use crate::servers::{Encryption, LONG, Mischief, Options, Proxy, SILENT, Server};

/// An authority and a directory for files.
struct Scene {
    authority: Authority,
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self {
            authority: Authority::new("ours"),
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Issues a right certificate for a server here.
    fn right(&self) -> Issued {
        self.authority.server(&["127.0.0.1"], Now)
    }

    /// Writes the files of a server. It trusts `ca`, and its URL names that too.
    fn encryption(&self, issued: &Issued) -> Encryption {
        Encryption::new(self.directory.path(), &self.authority.pem(), issued)
    }

    fn server(&self, issued: &Issued) -> Server {
        Server::with(&Options::redis().encrypted(&self.encryption(issued)))
    }

    /// Writes a file, and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        write(&self.directory.path().join(name), text)
    }

    /// Writes a client certificate and its key, and returns the part of a URL that names them.
    fn identity(&self, name: &str, issued: &Issued) -> String {
        let certificate = self.file(&format!("{name}.pem"), &issued.certificate);
        let key = self.file(&format!("{name}.key"), &issued.key);
        format!("&cert={certificate}&key={key}")
    }
}

fn write(path: &Path, text: &str) -> String {
    fs::write(path, text).expect("a file");
    path.to_str().expect("text").to_owned()
}

/// Takes a lock, extends it and releases it.
#[track_caller]
fn works(face: &mut Face, key: &str) {
    let mut lock = face
        .try_lock(key, LONG)
        .unwrap_or_else(|error| panic!("no lock: {error}"));
    face.extend(&mut lock, LONG).expect("held");
    assert_eq!(face.unlock(lock).expect("held").deleted, 1);
}

/// Asserts that `url` gives no lock, for the reason that `said` names.
#[track_caller]
fn refused(url: &str, said: &str) {
    for which in Which::BOTH {
        let mut face = which.build(at([url]));
        let report = no_quorum(face.try_lock("refused", LONG));
        let NodeOutcome::Unusable(reason @ Unusable::Tls(_)) = report.nodes()[0].outcome else {
            panic!("{report}");
        };
        assert!(reason.to_string().contains(said), "{reason}: {said}");
        assert!(report.to_string().contains(said), "{report}: {said}");
        assert_eq!(face.nodes()[0].state, NodeState::Unusable(reason));
    }
}

#[test]
fn a_right_certificate_gives_locks() {
    let scene = Scene::new();
    let names = ["127.0.0.1", "localhost", "db.example"];
    let issued = scene.authority.server(&names, Now);
    let encryption = scene.encryption(&issued);
    for encryption in [encryption.clone(), encryption.old()] {
        let server = Server::with(&Options::redis().encrypted(&encryption));
        let url = server.url();
        let port = server.address_for_clients().port();
        let ca = encryption.ca.display();
        for url in [
            url.clone(),
            format!("{url}&name=db.example"),
            format!("rediss://localhost:{port}?ca={ca}"),
            format!("valkeys://127.0.0.1:{port}/0?name=127.0.0.1&ca={ca}"),
        ] {
            for which in Which::BOTH {
                works(&mut which.build(at([&url])), "right");
            }
        }
        let options = TlsOptions::new().authorities_pem(scene.authority.pem());
        let bare = format!("rediss://127.0.0.1:{port}");
        for options in [options.clone(), options.server_name("localhost")] {
            works(&mut Which::Shared.build(at([&bare]).tls(options)), "right");
        }
    }
}

#[test]
fn wrong_certificates_are_called_by_what_is_wrong() {
    let scene = Scene::new();
    let (ours, name) = (&scene.authority, &["127.0.0.1"]);
    let [another, namesake] = ["another", "ours"].map(Authority::new);
    let others = ["db.example", "127.0.0.2"];
    for (issued, failure) in [
        (ours.server(name, Past), "expired on 2001-12-31;"),
        (ours.server(name, Future), "not valid before 2190-01-01;"),
        (ours.server(&others, Now), "is for another name"),
        (another.server(name, Now), "comes from an unknown authority"),
        (
            namesake.server(name, Now),
            "by another authority of the same name",
        ),
        (ours.client(Now), "not for a server"),
        (ours.server(&[], Now), "it has no subjectAltName"),
        (Authority::alone(name, false, Now), "is self-signed; if it"),
        (
            Authority::alone(name, true, Now),
            "is the certificate of an authority",
        ),
        (first_version(), "has version 1 of X.509"),
    ] {
        refused(&scene.server(&issued).url(), failure);
    }
    let server = scene.server(&scene.right());
    refused(
        &format!("{}&name=db.example", server.url()),
        "is for another name",
    );
}

/// Runs commands in a directory, which must succeed.
#[track_caller]
fn shell(commands: &str, directory: &Path) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).current_dir(directory);
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
}

/// Makes a certificate as the shortest commands do. It names no server.
fn first_version() -> Issued {
    let directory = tempfile::tempdir().expect("a directory");
    let commands =
        "openssl req -new -newkey rsa:2048 -nodes -keyout key -subj /CN=127.0.0.1 -out csr
        openssl x509 -req -in csr -signkey key -days 365 -out certificate
        openssl x509 -in certificate -noout -text | grep -q 'Version: 1 '";
    shell(commands, directory.path());
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("a file");
    Issued {
        certificate: read("certificate"),
        key: read("key"),
    }
}

/// The certificate is trusted whichever authority has issued it, but only for its own name and its own time. Other
/// certificates of that authority are not trusted.
#[test]
fn a_certificate_that_is_named_itself_is_trusted() {
    let scene = Scene::new();
    let name = &["127.0.0.1"];
    let other = Authority::new("another");
    let namesake = Authority::new("ours");
    let own = |is_authority, span| Authority::alone(name, is_authority, span);
    for issued in [
        own(false, Now),
        own(true, Now),
        other.server(name, Now),
        namesake.server(name, Now),
    ] {
        let server = scene.server(&issued);
        let address = server.address_for_clients();
        let ca = scene.file("named.pem", &(scene.authority.pem() + &issued.certificate));
        let url = format!("rediss://{address}?ca={ca}");
        works(&mut Which::Shared.build(at([&url])), "named");
        refused(&format!("{url}&name=db.example"), "is for another name");
        let besides = scene.server(&other.server(name, Now));
        let besides = besides.address_for_clients();
        refused(
            &format!("rediss://{besides}?ca={ca}"),
            "comes from an unknown authority",
        );
    }
    for (issued, said) in [
        (own(true, Past), "expired on 2001-12-31"),
        (own(false, Past), "expired on 2001-12-31"),
        (namesake.server(name, Past), "expired on 2001-12-31"),
        (Authority::alone(&[], true, Now), "names no host"),
        (other.client(Now), "not for a server"),
        (first_version(), "has version 1 of X.509"),
    ] {
        let server = scene.server(&issued);
        for others in [String::new(), scene.authority.pem()] {
            let ca = scene.file("named.pem", &(others + &issued.certificate));
            let url = format!("rediss://{}?ca={ca}", server.address_for_clients());
            refused(&url, said);
        }
    }
}

/// Whatever else a server sends is ignored, such as an intermediate authority that has expired.
#[test]
fn a_certificate_that_is_named_itself_is_trusted_whatever_comes_with_it() {
    let scene = Scene::new();
    let between = scene.authority.expired("between");
    let own = between.server(&["127.0.0.1"], Now);
    let sent = Issued {
        certificate: own.certificate.clone() + &between.pem(),
        ..own.clone()
    };
    let server = scene.server(&sent);
    refused(&server.url(), "certificate expired on 2001-12-31;");
    for others in [String::new(), scene.authority.pem()] {
        let ca = scene.file("named.pem", &(others + &own.certificate));
        let url = format!("rediss://{}?ca={ca}", server.address_for_clients());
        works(&mut Which::Shared.build(at([&url])), "between");
    }
}

/// The certificate is none of an authority that the system trusts.
#[test]
fn by_default_the_authorities_of_the_system_are_trusted() {
    let server = Scene::new();
    let server = server.server(&server.right());
    let url = format!("rediss://{}", server.address_for_clients());
    match Redlock::builder().node(&url).build() {
        Ok(_) => refused(&url, "comes from an unknown authority"),
        // The system has no authorities.
        Err(BuildError::Config(error)) => {
            assert!(error.to_string().contains("the system has none"), "{error}");
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_server_may_want_a_certificate_of_its_clients() {
    let scene = Scene::new();
    let encryption = scene.encryption(&scene.right()).of_known_clients();
    let server = Server::with(&Options::redis().encrypted(&encryption));
    let url = server.url();
    refused(&url, "requires a client certificate");
    let with = |name, issued| format!("{url}{}", scene.identity(name, &issued));
    let right = with("right", scene.authority.client(Now));
    works(&mut Which::Local.build(at([right])), "client");
    const UNKNOWN_CA: u8 = 48;
    const CERTIFICATE_EXPIRED: u8 = 45;
    let foreign = Authority::new("another").client(Now);
    let expired = scene.authority.client(Past);
    for (name, issued, alert) in [
        ("foreign", foreign, UNKNOWN_CA),
        ("expired", expired, CERTIFICATE_EXPIRED),
    ] {
        let said = format!("refuses the client certificate (TLS alert {alert})");
        refused(&with(name, issued), &said);
    }
}

#[test]
fn a_plain_client_on_a_tls_port_is_told_to_use_tls() {
    let scene = Scene::new();
    let server = scene.server(&scene.right());
    let mut face = Which::Shared.build(at([format!("redis://{}", server.address_for_clients())]));
    let report = no_quorum(face.try_lock("plain", LONG));
    let expected = NodeOutcome::Unreachable(LinkFault::HandshakeReset.into());
    assert_eq!(report.nodes()[0].outcome, expected, "{report}");
    assert!(report.to_string().contains("TLS"), "{report}");
}

/// A server does not answer bytes that are no command.
#[test]
fn a_tls_client_on_a_plain_port_gets_no_answer() {
    let scene = Scene::new();
    let server = scene.server(&scene.right());
    let url = format!("rediss://{}", server.address());
    let builder = Redlock::builder()
        .node(&url)
        .connect_timeout(SILENT)
        .tls(TlsOptions::new().authorities_pem(scene.authority.pem()));
    let mut face = Which::Shared.build(builder);
    let report = no_quorum(face.try_lock("tls", LONG));
    let expected = NodeOutcome::Unreachable(LinkFault::ConnectTimeout.into());
    assert_eq!(report.nodes()[0].outcome, expected, "{report}");
}

/// Servers that speak neither protocol answer this.
#[test]
fn what_is_no_tls_is_called_so() {
    let scene = Scene::new();
    let server = Server::start();
    let stranger = Proxy::to(server.address());
    stranger.set(Mischief::Flood(HTTP));
    let ca = scene.file("own.pem", &scene.authority.pem());
    let url = format!("rediss://{}", stranger.address());
    refused(&format!("{url}?ca={ca}"), "does not speak TLS");
}
