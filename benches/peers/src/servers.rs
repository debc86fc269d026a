//! Real servers, started for one comparison: `redis-server` from the `PATH`, or the program that
//! `SHEARLINE_REDIS_SERVER` names.
//!
//! # Guarantees
//!
//! * The servers listen on free ports of the loopback interface and write no file.
//! * The servers end with this process, however it ends, even if they are frozen.
//! * Signals go to processes that were started here, by their ids.

#![expect(
    unsafe_code,
    reason = "only between fork and exec can a child ask to be ended with its parent"
)]

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::Failure;
use crate::cycle::now;
use crate::encryption::Encryption;

/// How long a server may take to start or to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often another port is tried if it was taken meanwhile.
const TRIES: usize = 20;

/// A `redis-server` of this program. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// The URL over TLS, if the server has a TLS port.
    encrypted: Option<String>,
}

/// Starts this many servers, which know nothing of each other.
///
/// # Errors
///
/// There is no `redis-server`, or it does not answer.
pub fn start(count: usize) -> Result<Vec<Server>, Failure> {
    (0..count).map(|_| Server::start(None)).collect()
}

/// Starts this many servers, which have a TLS port too.
///
/// # Errors
///
/// There is no `redis-server`, or it does not answer.
pub fn start_encrypted(count: usize, encryption: &Encryption) -> Result<Vec<Server>, Failure> {
    let server = |_| Server::start(Some(encryption));
    (0..count).map(server).collect()
}

impl Server {
    fn start(encryption: Option<&Encryption>) -> Result<Self, Failure> {
        for _ in 0..TRIES {
            let (port, other) = free_ports()?;
            let encryption = encryption.map(|files| (other, files));
            let mut server = Self {
                child: spawn(port, encryption)?,
                address: (Ipv4Addr::LOCALHOST, port).into(),
                encrypted: encryption.map(|(port, files)| {
                    format!(
                        "rediss://127.0.0.1:{port}?ca={}",
                        files.path("ca.pem").display()
                    )
                }),
            };
            if server.await_answer()? {
                return Ok(server);
            }
        }
        Err("no redis-server could be started: every port was taken meanwhile".into())
    }

    /// Returns the address at which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Returns `rediss://127.0.0.1:port?ca=..`, or the URL without TLS if the server has no TLS port.
    #[must_use]
    pub fn url_over_tls(&self) -> String {
        self.encrypted.clone().unwrap_or_else(|| self.url())
    }

    /// Stops the process: the kernel still accepts connections and buffers bytes for it.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn freeze(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        let begin = now();
        // The signal is sent, but may not have arrived; the server could still run a command that is sent right after
        // it.
        while self.state() != Some('T') {
            if PATIENCE < begin.elapsed() {
                return Err("a server does not stop".into());
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Lets the process continue.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn thaw(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    /// Sends one command on its own connection, and returns the first line of the answer.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn ask(&self, words: &[&str]) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        ask(&mut stream, words)
    }

    /// Returns a section of what the server says about itself.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn info(&self, section: &str) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // The server ends the connection after the answer.
        let commands = [command(&["INFO", section]), command(&["QUIT"])];
        stream.write_all(&commands.concat())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Returns the processor time that all threads of the process have used.
    ///
    /// # Errors
    ///
    /// The process has ended, or this system is not Linux.
    pub fn processor_time(&self) -> Result<Duration, Failure> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let line = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let time = line.split(' ').next().unwrap_or_default();
            nanos += time.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Returns the letter of the process's state, which follows its name in parentheses.
    fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        stat.rsplit(')').next()?.trim_start().chars().next()
    }

    /// Waits until the server answers. Returns `false` if it has ended, because another process has the port.
    fn await_answer(&mut self) -> Result<bool, Failure> {
        let begin = now();
        while begin.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            if self.ask(&["PING"]).is_ok_and(|answer| answer == "+PONG") {
                // If the port was taken, another server would answer for it, and this one would end
                // soon.
                thread::sleep(Duration::from_millis(20));
                return Ok(self.child.try_wait()?.is_none());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err("a redis-server was started and does not answer".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_ports() -> Result<(u16, u16), Failure> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (listen()?, listen()?);
    Ok((one.local_addr()?.port(), other.local_addr()?.port()))
}

fn spawn(port: u16, encryption: Option<(u16, &Encryption)>) -> Result<Child, Failure> {
    let binary = env::var_os("SHEARLINE_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let mut command = Command::new(&binary);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .args(["--dir", "/tmp"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some((port, files)) = encryption {
        command
            .args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"])
            .arg("--tls-ca-cert-file")
            .arg(files.path("ca.pem"))
            .arg("--tls-cert-file")
            .arg(files.path("server.pem"))
            .arg("--tls-key-file")
            .arg(files.path("server.key"));
    }
    ends_with_us(&mut command).spawn().map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return error.into();
        }
        let binary = binary.display();
        format!(
            "there is no {binary}: install redis-server (apt-get install redis-server), or name \
             one with SHEARLINE_REDIS_SERVER"
        )
        .into()
    })
}

/// Makes the process of the command end with the thread that starts it, even if that thread is killed.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) }
}

/// Sends one command and returns the first line of the answer.
///
/// # Errors
///
/// The server is gone or silent.
pub fn ask(stream: &mut TcpStream, words: &[&str]) -> Result<String, Failure> {
    stream.write_all(&command(words))?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => return Err("the server closed the connection".into()),
            len => answer.extend_from_slice(&piece[..len]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.lines().next().unwrap_or_default().to_string())
}

/// Returns the bytes of a command.
#[must_use]
pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}
