//! TLS against real servers: what a right certificate gives, and what each wrong one is called.
//!
//! The stories of other files run over TLS too, by `SHEARLINE_TEST_TLS=1`
//! (`servers/encrypted.rs`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use shearline::{
    BuildError, ConfigError, Day, LinkError, NodeOutcome, NodeState, Redlock, TlsFailure,
    TlsOptions, TlsPart, TlsProblem, Unusable, UrlProblem,
};
use tempfile::TempDir;

use crate::canary::PASSWORD;
use crate::face::{Face, Which, at, no_quorum};
use crate::fork::in_child;
use crate::servers::authority::{Authority, Issued, Span};
use crate::servers::{
    Cluster, Encryption, LONG, Mischief, Options, Proxy, Server, eventually, within_patience,
};

/// An authority, and a directory for files.
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

    /// The right certificate of a server here.
    fn right(&self) -> Issued {
        self.authority.server(&["127.0.0.1"], Span::Now)
    }

    /// The files of a server, of which `ca` is what it trusts and what its URL names.
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

/// Asserts that no lock can be had over `url`, because of this.
#[track_caller]
fn refused(url: &str, failure: TlsFailure) {
    for which in Which::BOTH {
        let mut face = which.build(at([url]));
        let report = no_quorum(face.try_lock("refused", LONG));
        let expected = NodeOutcome::Unusable(Unusable::Tls(failure));
        assert_eq!(report.nodes()[0].outcome, expected, "{report}");
        let said = failure.to_string();
        assert!(report.to_string().contains(&said), "{report}: {said}");
        assert_eq!(
            face.nodes()[0].state,
            NodeState::Unusable(Unusable::Tls(failure))
        );
    }
}

#[test]
fn a_right_certificate_gives_locks() {
    let scene = Scene::new();
    let names = ["127.0.0.1", "localhost", "db.example"];
    let issued = scene.authority.server(&names, Span::Now);
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
fn a_server_that_wants_a_password_gets_it() {
    let scene = Scene::new();
    let options = Options::redis().encrypted(&scene.encryption(&scene.right()));
    let server = Server::with(&options.password(PASSWORD));
    let url = server.url_with(&format!(":{}", crate::canary::ESCAPED));
    works(&mut Which::Shared.build(at([url])), "password");
}

#[test]
fn wrong_certificates_are_called_by_what_is_wrong() {
    let scene = Scene::new();
    let name = &["127.0.0.1"];
    let day = |year, month, day| Day { year, month, day };
    let expired = TlsFailure::Expired(day(2001, 12, 31));
    for (issued, failure) in [
        (scene.authority.server(name, Span::Past), expired),
        (
            scene.authority.server(name, Span::Future),
            TlsFailure::NotYetValid(day(2190, 1, 1)),
        ),
        (
            scene
                .authority
                .server(&["db.example", "127.0.0.2"], Span::Now),
            TlsFailure::WrongName,
        ),
        (
            Authority::new("another").server(name, Span::Now),
            TlsFailure::UnknownAuthority,
        ),
        (
            scene.authority.client(Span::Now),
            TlsFailure::BadCertificate,
        ),
    ] {
        refused(&scene.server(&issued).url(), failure);
    }
    let server = scene.server(&scene.right());
    refused(
        &format!("{}&name=db.example", server.url()),
        TlsFailure::WrongName,
    );
    let text = expired.to_string();
    assert!(
        text.starts_with("its certificate expired on 2001-12-31;"),
        "{text}"
    );
}

/// The certificate is none of an authority that the system trusts.
#[test]
fn by_default_the_authorities_of_the_system_are_trusted() {
    let server = Scene::new();
    let server = server.server(&server.right());
    let url = format!("rediss://{}", server.address_for_clients());
    match Redlock::builder().node(&url).build() {
        Ok(_) => refused(&url, TlsFailure::UnknownAuthority),
        // A system without any.
        Err(BuildError::Tls(error)) => assert_eq!(error.problem, TlsProblem::NoneInstalled),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_server_may_want_a_certificate_of_its_clients() {
    let scene = Scene::new();
    let encryption = scene.encryption(&scene.right()).of_known_clients();
    let server = Server::with(&Options::redis().encrypted(&encryption));
    let url = server.url();
    refused(&url, TlsFailure::ClientCertificateMissing);
    let identity = |name, issued| format!("{url}{}", scene.identity(name, &issued));
    works(
        &mut Which::Local.build(at([identity("right", scene.authority.client(Span::Now))])),
        "client",
    );
    let foreign = Authority::new("another").client(Span::Now);
    const UNKNOWN_CA: u8 = 48;
    const CERTIFICATE_EXPIRED: u8 = 45;
    for (name, issued, alert) in [
        ("foreign", foreign, UNKNOWN_CA),
        (
            "expired",
            scene.authority.client(Span::Past),
            CERTIFICATE_EXPIRED,
        ),
    ] {
        refused(
            &identity(name, issued),
            TlsFailure::ClientCertificateRefused(alert),
        );
    }
}

#[test]
fn a_plain_client_on_a_tls_port_is_told_to_use_tls() {
    let scene = Scene::new();
    let server = scene.server(&scene.right());
    let mut face = Which::Shared.build(at([format!("redis://{}", server.address_for_clients())]));
    let report = no_quorum(face.try_lock("plain", LONG));
    let expected = NodeOutcome::Unreachable(LinkError::HandshakeReset);
    assert_eq!(report.nodes()[0].outcome, expected, "{report}");
    assert!(report.to_string().contains("TLS"), "{report}");
}

/// A server answers nothing to what is no command.
#[test]
fn a_tls_client_on_a_plain_port_gets_no_answer() {
    let scene = Scene::new();
    let server = scene.server(&scene.right());
    let url = format!("rediss://{}", server.address());
    let builder = Redlock::builder()
        .node(&url)
        .connect_timeout(Duration::from_millis(200))
        .tls(TlsOptions::new().authorities_pem(scene.authority.pem()));
    let mut face = Which::Shared.build(builder);
    let report = no_quorum(face.try_lock("tls", LONG));
    let expected = NodeOutcome::Unreachable(LinkError::ConnectTimeout);
    assert_eq!(report.nodes()[0].outcome, expected, "{report}");
}

/// What a server says that knows neither.
#[test]
fn what_is_no_tls_is_called_so() {
    let scene = Scene::new();
    let stranger = crate::servers::Stranger::new(crate::servers::Manner::Http);
    let ca = scene.file("own.pem", &scene.authority.pem());
    let url = stranger.url().replace("redis://", "rediss://");
    refused(&format!("{url}?ca={ca}"), TlsFailure::NotTls);
}

/// A wrong certificate does not become right by trying often.
#[test]
fn a_wrong_certificate_is_not_tried_hot() {
    let scene = Scene::new();
    let server = scene.server(&scene.authority.server(&["127.0.0.1"], Span::Past));
    let connections = || {
        let count = server.raw().info("stats", "total_connections_received");
        count.expect("a number").parse::<u32>().expect("a number")
    };
    let mut face = Which::Shared.build(at([server.url()]));
    let (before, start) = (connections(), Instant::now());
    while start.elapsed() < Duration::from_secs(1) {
        no_quorum(face.try_lock("hot", LONG));
        thread::sleep(Duration::from_millis(5));
    }
    let seconds = start.elapsed().as_secs_f64();
    // One is the look from outside. Calls that need the node have it tried every 250 ms, besides the
    // back-off, which begins with 25 to 50 ms and doubles.
    let tries = f64::from(connections() - before - 1);
    assert!(tries <= 6.0 + 5.0 * seconds, "{tries} in {seconds} s");
}

/// Each record in pieces of one byte, in either direction.
#[test]
fn torn_records_are_put_together() {
    let scene = Scene::new();
    let server = scene.server(&scene.right());
    let proxy = Proxy::to(server.address_for_clients());
    let ca = scene.encryption(&scene.right()).ca;
    let url = format!("rediss://{}?ca={}", proxy.address(), ca.display());
    let mut face = Which::Shared.build(at([url]));
    proxy.set(Mischief::Drip(Duration::from_micros(100)));
    works(&mut face, "torn");
}

#[test]
fn settings_that_cannot_be_used_are_found_when_a_handle_is_built() {
    let scene = Scene::new();
    let [own, other] = [(); 2].map(|()| scene.authority.client(Span::Now));
    let ca = scene.file("ca", &scene.authority.pem());
    let certificate = scene.file("certificate", &own.certificate);
    let key = scene.file("key", &own.key);
    let foreign = scene.file("other", &other.key);
    let empty = scene.file("empty", "nothing");
    let broken = scene.file(
        "broken",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let broken_key = scene
        .file(
            "broken key",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        )
        .replace(' ', "%20");
    let directory = scene.directory.path().display();
    let missing = format!("{directory}/missing");
    let protected = protect(&scene, &key);
    use TlsPart as Part;
    use TlsProblem as Problem;
    for (query, part, file, problem) in [
        (
            format!("ca={missing}"),
            Part::Authorities,
            &missing,
            Problem::Missing,
        ),
        (
            format!("ca={empty}"),
            Part::Authorities,
            &empty,
            Problem::Empty,
        ),
        (
            format!("ca={broken}"),
            Part::Authorities,
            &broken,
            Problem::Malformed,
        ),
        (
            format!("ca={directory}"),
            Part::Authorities,
            &directory.to_string(),
            Problem::Unreadable,
        ),
        (format!("ca={key}"), Part::Authorities, &key, Problem::Empty),
        (
            format!("cert={missing}&key={key}"),
            Part::Certificate,
            &missing,
            Problem::Missing,
        ),
        (
            format!("cert={key}&key={key}"),
            Part::Certificate,
            &key,
            Problem::Empty,
        ),
        (
            format!("cert={broken}&key={key}"),
            Part::Certificate,
            &broken,
            Problem::Malformed,
        ),
        (
            format!("cert={certificate}&key={missing}"),
            Part::Key,
            &missing,
            Problem::Missing,
        ),
        (
            format!("cert={certificate}&key={certificate}"),
            Part::Key,
            &certificate,
            Problem::Empty,
        ),
        (
            format!("cert={certificate}&key={broken_key}"),
            Part::Key,
            &broken_key.replace("%20", " "),
            Problem::Malformed,
        ),
        (
            format!("cert={certificate}&key={foreign}"),
            Part::Key,
            &foreign,
            Problem::KeyMismatch,
        ),
        (
            format!("cert={certificate}&key={}", protected[0]),
            Part::Key,
            &protected[0],
            Problem::Password,
        ),
        (
            format!("cert={certificate}&key={}", protected[1]),
            Part::Key,
            &protected[1],
            Problem::Password,
        ),
    ] {
        let ca = if query.contains("ca=") {
            String::new()
        } else {
            format!("&ca={ca}")
        };
        let builder = Redlock::builder().node(format!("rediss://127.0.0.1:1?{query}{ca}"));
        let results = [
            builder.build().map(drop),
            builder.build_local().map(drop),
            builder.build_driver().map(drop),
            pollster::block_on(builder.build_async()).map(drop),
        ];
        for result in results {
            let Err(BuildError::Tls(error)) = result else {
                panic!("{query}: {result:?}")
            };
            let found = (error.part, error.file.as_ref(), error.problem);
            assert_eq!(found, (part, Some(file), problem), "{query}");
            let text = error.to_string();
            assert!(
                text.contains("127.0.0.1:1 ") && text.contains(file.as_str()),
                "{text}"
            );
            assert!(!text.contains("PRIVATE KEY-----\n"), "{text}");
            assert_eq!(
                text.contains("openssl pkey"),
                problem == Problem::Password,
                "{text}"
            );
        }
    }
    let name = Redlock::builder().node(format!("rediss://127.0.0.1:1?ca={ca}&name=no%20name"));
    let Err(BuildError::Tls(error)) = name.build() else {
        panic!("it is no name")
    };
    assert_eq!(
        (error.part, error.problem),
        (Part::ServerName, Problem::NotAName)
    );
    let unused = Redlock::builder()
        .node("redis://h")
        .tls(TlsOptions::new().server_name("h"));
    assert_eq!(unused.config().err(), Some(ConfigError::TlsUnused));
    let half = Redlock::builder().node("rediss://h?cert=c").config();
    let problem = UrlProblem::Identity;
    assert_eq!(half.err(), Some(ConfigError::Url { index: 0, problem }));
}

/// Returns the paths of the key with a password, in both forms.
fn protect(scene: &Scene, key: &str) -> [String; 2] {
    let directory = scene.directory.path().display();
    let paths = [format!("{directory}/pkcs8"), format!("{directory}/older")];
    let common = ["-in", key, "-aes256", "-passout", "pass:canary", "-out"];
    for (path, form) in paths.iter().zip([
        vec!["pkcs8", "-topk8", "-v2", "aes256"],
        vec!["ec", "-aes256"],
    ]) {
        let rest = if form[0] == "ec" {
            &common[..]
        } else {
            &["-in", key, "-passout", "pass:canary", "-out"]
        };
        let output = Command::new("openssl")
            .args(form)
            .args(rest)
            .arg(path)
            .output();
        let output = output.expect("`openssl` is here");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let labels = paths
        .each_ref()
        .map(|path| fs::read_to_string(path).expect("a key"));
    assert!(labels[0].starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
    assert!(labels[1].contains("Proc-Type: 4,ENCRYPTED"));
    paths
}

/// A certificate that is renewed on the server needs nothing here; one of another authority needs
/// that authority's file, which is read again for the next connection.
#[test]
fn changed_files_are_read_for_the_next_connection() {
    let scene = Scene::new();
    let encryption = scene.encryption(&scene.right()).of_known_clients();
    let mut server = Server::with(&Options::redis().encrypted(&encryption));
    let own = scene.directory.path().join("own");
    fs::create_dir(&own).expect("a directory");
    let file = |name: &str, text: &str| write(&own.join(name), text);
    let client = scene.authority.client(Span::Now);
    let ca = file("ca", &scene.authority.pem());
    let certificate = file("certificate", &client.certificate);
    let key = file("key", &client.key);
    let address = server.address_for_clients();
    let url = format!("rediss://{address}?ca={ca}&cert={certificate}&key={key}");
    let mut face = Which::Shared.build(at([url]).max_ttl(LONG));
    face.trust();
    works(&mut face, "before");

    // The server gets everything of another authority.
    let next = Authority::new("next");
    let issued = next.server(&["127.0.0.1"], Span::Now);
    Encryption::new(scene.directory.path(), &next.pem(), &issued);
    server.restart();
    let state = |face: &Face| face.nodes()[0].state;
    let is = |face: &Face, failure| state(face) == NodeState::Unusable(Unusable::Tls(failure));
    eventually("the new authority is unknown", || {
        is(&face, TlsFailure::UnknownAuthority).then_some(())
    });
    file("ca", &next.pem());
    eventually("it refuses the old client certificate", || {
        is(&face, TlsFailure::ClientCertificateRefused(48)).then_some(())
    });
    fs::remove_file(&key).expect("a file");
    let missing = TlsFailure::Setting {
        part: TlsPart::Key,
        problem: TlsProblem::Missing,
    };
    eventually("the missing key is named", || {
        is(&face, missing).then_some(())
    });
    let client = next.client(Span::Now);
    file("certificate", &client.certificate);
    file("key", &client.key);
    eventually("the node is back", || {
        face.trust();
        (state(&face) == NodeState::Ready).then_some(())
    });
    works(&mut face, "after");
}

/// A child of a fork has copies of the sockets, and of the keys. If it wrote anything, a farewell for
/// example, the parent's connections would be broken: records are numbered.
#[test]
fn a_forked_child_writes_nothing() {
    let scene = Scene::new();
    let options = Options::redis().encrypted(&scene.encryption(&scene.right()));
    let cluster = Cluster::with(3, &options);
    let redlock = at(cluster.urls()).build().expect("good settings");
    let local = at(cluster.urls()).build_local().expect("good settings");
    let mut faces = [Face::Shared(redlock.clone()), Face::Local(Box::new(local))];
    for face in &mut faces {
        face.await_ready();
    }
    let guard = redlock.try_lock("fork", LONG).expect("free");
    let connections = |cluster: &Cluster| -> Vec<String> {
        let count = |server: &Server| server.raw().info("stats", "total_error_replies");
        cluster.iter().filter_map(count).collect()
    };
    let errors = connections(&cluster);
    let ids = |cluster: &Cluster| -> Vec<Vec<String>> { cluster.iter().map(clients).collect() };
    let before = ids(&cluster);
    let mut copies = Some((guard, redlock.clone()));
    let faces = std::cell::RefCell::new(faces);
    in_child(
        move || {
            drop(copies.take());
            Ok(())
        },
        || {
            for face in faces.borrow_mut().iter_mut() {
                let lock = face.try_lock("after", LONG).expect("free");
                assert!(face.unlock(lock).expect("held").deleted >= 2);
            }
        },
    );
    assert_eq!(ids(&cluster), before, "the same connections");
    assert_eq!(connections(&cluster), errors);
}

/// The ids of the clients of a server over its TLS port.
fn clients(server: &Server) -> Vec<String> {
    let list = server.raw().run("CLIENT LIST").into_text();
    let port = format!("laddr={}", server.address_for_clients());
    let ours = list.lines().filter(|line| line.contains(&port));
    let ids = ours.filter_map(|line| line.split(' ').next());
    ids.map(str::to_owned).collect()
}

/// A program that ends right after its last call: the releases are written, and the ends of the
/// connections announced.
#[test]
fn a_handle_that_is_dropped_leaves_no_key() {
    let scene = Scene::new();
    let options = Options::redis().encrypted(&scene.encryption(&scene.right()));
    let cluster = Cluster::with(3, &options);
    for which in Which::BOTH {
        for turn in 0..20 {
            let mut face = which.build(at(cluster.urls()));
            let lock = face.try_lock(format!("end:{turn}"), LONG).expect("free");
            match lock {
                // Dropping it writes the release.
                crate::face::Held::Guard(guard) if turn % 2 == 0 => drop(guard),
                lock => drop(face.unlock(lock).expect("held")),
            }
            drop(face);
        }
    }
    let empty = within_patience(|| {
        (0..20)
            .all(|turn| cluster.copies(format!("end:{turn}")) == 0)
            .then_some(())
    });
    assert!(empty.is_some(), "keys are left");
    eventually("all connections are closed", || {
        cluster
            .iter()
            .all(|server| clients(server).is_empty())
            .then_some(())
    });
}

/// The block of the manual with the `openssl` lines, for a server of this test.
fn commands_of_the_manual() -> String {
    let page = fs::read_to_string("src/manual/tls.rs").expect("the page");
    let lines = page.lines().map(|line| line.trim_start_matches("//!"));
    let block: Vec<&str> = lines
        .skip_while(|line| !line.starts_with(" openssl ecparam"))
        .take_while(|line| !line.contains("```"))
        .collect();
    let commands = block.join("\n");
    assert!(commands.contains("IP:10.0.0.1"), "{commands}");
    commands.replace("IP:10.0.0.1", "IP:127.0.0.1")
}

#[test]
fn the_commands_of_the_manual_make_certificates_that_work() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut shell = Command::new("sh");
    let output = shell
        .args(["-ec", &commands_of_the_manual()])
        .current_dir(directory.path())
        .output()
        .expect("a shell");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("a file");
    let issued = Issued {
        certificate: read("db1.pem"),
        key: read("db1.key"),
    };
    let files = tempfile::tempdir().expect("a directory");
    let encryption = Encryption::new(files.path(), &read("ca.pem"), &issued);
    let server = Server::with(&Options::redis().encrypted(&encryption));
    works(&mut Which::Shared.build(at([server.url()])), "manual");
    let named = format!("{}&name=db1.example", server.url());
    works(&mut Which::Local.build(at([named])), "manual");
}
