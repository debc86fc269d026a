//! One server process: where its binary is, how it starts, and the ways to disturb it.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::encrypted::{self, ABOVE, Encryption};
use super::permitted::{credentials, rules_of_user};
use super::raw::{Raw, Reply};
use super::{PATIENCE, eventually, ports, until};

/// The kind of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Redis,
    Valkey,
}

impl Kind {
    /// Returns the path of the binary: the one that the environment names, the one that `tests/run.sh` has installed,
    /// or the one in the `PATH`.
    pub(crate) fn binary(self) -> PathBuf {
        let (variable, name) = match self {
            Self::Redis => ("SHEARLINE_REDIS_SERVER", "redis-server"),
            Self::Valkey => ("SHEARLINE_VALKEY_SERVER", "valkey-server"),
        };
        if let Some(path) = env::var_os(variable) {
            return path.into();
        }
        // This package may be the command's, whose folder is inside the library's.
        let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let tool = folders.find_map(|folder| {
            let tool = folder.join("target/tools").join(name);
            tool.is_file().then_some(tool)
        });
        tool.unwrap_or_else(|| name.into())
    }
}

/// The options of a server.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    kind: Kind,
    password: Option<String>,
    arguments: Vec<String>,
    encryption: Option<Arc<Encryption>>,
}

impl Options {
    pub(crate) fn redis() -> Self {
        Self {
            kind: Kind::Redis,
            password: None,
            arguments: Vec::new(),
            encryption: encrypted::of_all(),
        }
    }

    pub(crate) fn valkey() -> Self {
        Self {
            kind: Kind::Valkey,
            // The binary that tests get is built without TLS.
            encryption: None,
            ..Self::redis()
        }
    }

    /// The options of both kinds, for servers behind relays. The `valkey-server` that tests get is built without TLS.
    pub(crate) fn behind_relays() -> Vec<Self> {
        match encrypted::is_usual() {
            true => vec![Self::redis()],
            false => vec![Self::redis(), Self::valkey()],
        }
    }

    /// Gives the server a TLS port with this certificate. Its URLs name that port.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypted(mut self, encryption: &Encryption) -> Self {
        self.encryption = Some(Arc::new(encryption.clone()));
        self
    }

    /// Demands this password of the default user.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds further arguments after the usual ones, so that they override those.
    pub(crate) fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }
}

/// A running (or stopped, or killed) server on a loopback port, without persistence unless its
/// options say otherwise. Dropping it kills exactly its process.
#[derive(Debug)]
pub(crate) struct Server {
    options: Options,
    port: u16,
    directory: TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts a `redis-server` with the usual options.
    pub(crate) fn start() -> Self {
        Self::with(&Options::redis())
    }

    /// Starts a server with these options, and waits until it answers.
    pub(crate) fn with(options: &Options) -> Self {
        let mut server = Self {
            options: options.clone(),
            port: ports::free(),
            directory: tempfile::Builder::new()
                .prefix("shearline-")
                .tempdir()
                .expect("a temporary directory"),
            child: None,
        };
        for _ in 0..50 {
            if server.launch() {
                return server;
            }
            server.port = ports::free();
        }
        panic!("the port was taken, fifty times");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns `redis://127.0.0.1:port`, with the credentials of the user that has the manual's permissions if the
    /// tests run with one.
    pub(crate) fn url(&self) -> String {
        self.url_as(&credentials())
    }

    /// Returns `redis://127.0.0.1:port`, without credentials.
    pub(crate) fn url_without(&self) -> String {
        self.url_as("")
    }

    /// Returns `redis://credentials@127.0.0.1:port`, with `user:password` or `:password`.
    pub(crate) fn url_with(&self, credentials: &str) -> String {
        self.url_as(&format!("{credentials}@"))
    }

    fn url_as(&self, credentials: &str) -> String {
        let address = self.address_for_clients();
        match &self.options.encryption {
            Some(encryption) => format!("rediss://{credentials}{address}{}", encryption.query()),
            None => format!("redis://{credentials}{address}"),
        }
    }

    /// Returns the address in the URLs of the server: that of its TLS port, if it has one.
    pub(crate) fn address_for_clients(&self) -> SocketAddr {
        let above = self.options.encryption.as_ref().map_or(0, |_| ABOVE);
        (Ipv4Addr::LOCALHOST, self.port + above).into()
    }

    /// Returns `unix:///path`.
    pub(crate) fn unix_url(&self) -> String {
        format!("unix://{}{}", credentials(), self.socket_path().display())
    }

    /// Opens a new connection from outside, authenticated as the default user.
    #[track_caller]
    pub(crate) fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self.address()).expect("the server listens");
        if let Some(password) = &self.options.password {
            let reply = raw.command(&[b"AUTH", password.as_bytes()]);
            assert_eq!(reply, Reply::Simple("OK".into()));
        }
        raw
    }

    /// Sends SIGSTOP: the process does nothing, but the kernel still accepts connections and buffers bytes for it.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        // The signal is sent, but may not have arrived; the server could still run a command that is sent right after
        // it.
        eventually("the process stops", || (self.state()? == 'T').then_some(()));
    }

    /// Sends SIGCONT: the server runs the commands that were buffered.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends SIGKILL, and waits for the end of the process. Its memory is lost.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
    }

    /// Starts again on the same port, with the same directory; kills first what still runs.
    pub(crate) fn restart(&mut self) {
        self.kill();
        until("the port is free again", || self.launch());
    }

    /// Starts again with further arguments for this one time, and does not wait for its data.
    pub(crate) fn restart_with(&mut self, arguments: &[&str]) {
        self.kill();
        let usual = self.options.arguments.clone();
        let further = arguments.iter().map(|argument| (*argument).to_owned());
        self.options.arguments.extend(further);
        self.child = Some(self.spawn(&self.directory.path().join("log")));
        self.options.arguments = usual;
        eventually("the process answers", || {
            Raw::connect(self.address())
                .ok()?
                .info("server", "process_id")
        });
    }

    /// Waits until the server has loaded its data.
    pub(crate) fn await_loaded(&self) {
        until("the data is loaded", || self.answers());
    }

    /// The directory of its files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the process and waits until it answers. Returns `false` if another process has taken the port.
    fn launch(&mut self) -> bool {
        let log = self.directory.path().join("log");
        self.child = Some(self.spawn(&log));
        let start = Instant::now();
        let log = || fs::read_to_string(&log).unwrap_or_default();
        loop {
            if self.answers() {
                return true;
            }
            let child = self.child.as_mut().expect("just started");
            if let Some(status) = child.try_wait().expect("our own child") {
                self.child = None;
                let log = log();
                assert!(
                    log.contains("already in use"),
                    "the server ended with {status}:\n{log}"
                );
                return false;
            }
            if start.elapsed() > PATIENCE {
                panic!("the server does not answer after {PATIENCE:?}:\n{}", log());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn spawn(&self, log: &PathBuf) -> Child {
        let binary = self.options.kind.binary();
        let log = File::create(log).expect("the log can be made");
        let errors = log.try_clone().expect("one more descriptor");
        let mut command = Command::new(&binary);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.directory.path())
            .arg("--unixsocket")
            .arg(self.socket_path());
        if let Some(encryption) = &self.options.encryption {
            encryption.configure(&mut command, self.port);
        }
        if let Some(password) = &self.options.password {
            command.args(["--requirepass", password]);
        }
        if let Some(rules) = rules_of_user() {
            command.arg("--user").args(rules);
        }
        command
            .args(&self.options.arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| {
                let binary = binary.display();
                panic!("{binary} cannot be started ({error}); `bash tests/run.sh` installs it")
            })
    }

    /// Returns `true` if this process itself answers, not another that has taken the port.
    fn answers(&self) -> bool {
        let Ok(mut raw) = Raw::connect(self.address()) else {
            return false;
        };
        if let Some(password) = &self.options.password {
            let _ = raw.try_command(&[b"AUTH", password.as_bytes()]);
        }
        let own = self.child.as_ref().map(|child| child.id().to_string());
        // `INFO` answers while the data is still being loaded; nothing else does.
        raw.info("server", "process_id") == own
            && raw.info("persistence", "loading").as_deref() == Some("0")
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server runs");
        kill_process(Pid::from_child(child), signal).expect("our own child");
    }

    /// Returns the letter of the process's state in `/proc`, which follows its name in parentheses.
    fn state(&self) -> Option<char> {
        let child = self.child.as_ref()?;
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", child.id())) else {
            // No `/proc` here: assume that the signal has arrived.
            return Some('T');
        };
        stat.rsplit(')').next()?.trim_start().chars().next()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No `expect` in here: a panic in a drop during a panic would hide the first one.
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
