//! Two workers count orders in a store. One worker is stopped for longer than its lock lasts, like a paused
//! machine, and writes when it continues.
//!
//! No lock can prevent this write: the worker saw that its lock was valid, and was stopped after that. The store must
//! check the fencing token and refuse the write. The program shows both cases:
//!
//! * **without tokens** the late write is accepted, and the other worker's write is lost;
//! * **with tokens** the store refuses the late write, because the other worker has used a larger token. The late
//!   worker takes the lock again and reads again, so that both orders are counted.
//!
//! The workers are processes, and the first is stopped by `SIGSTOP`.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use shearline::{LockOptions, Redlock};

use crate::store::Store;

#[path = "../../nodes/mod.rs"]
mod nodes;
mod store;

const TTL: Duration = Duration::from_secs(1);
const COUNTER: &str = "orders";
/// The fencing token of a reader that does not write afterwards.
const LARGEST: u64 = u64::MAX;
const FENCED: &str = "with tokens";
const PLAIN: &str = "without tokens";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [urls, file, resource, manner] = &arguments[..] {
        work(urls, Path::new(file), resource, manner == FENCED)?;
        return Ok(ExitCode::SUCCESS);
    }
    let nodes = nodes::nodes();
    let urls = nodes.urls.join(",");
    give_floors(&nodes.urls)?;
    let (plain, fenced) = (play(&urls, PLAIN)?, play(&urls, FENCED)?);
    println!("two orders; counted without tokens: {plain}, with tokens: {fenced}");
    Ok(match (plain, fenced) {
        (1, 2) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Counts one order in the store, under the lock.
fn work(urls: &str, file: &Path, resource: &str, fenced: bool) -> Result<(), Box<dyn Error>> {
    let redlock = Redlock::connect(urls.split(','))?;
    let store = Store::open(file)?;
    let mut options = LockOptions::new(TTL).wait(Duration::from_secs(60));
    if fenced {
        options = options.fenced();
    }
    loop {
        let lock = redlock.lock_with(resource, &options)?;
        let token = lock.fencing_token().unwrap_or(0);
        let Some(orders) = store.read(COUNTER, token)? else {
            continue; // Another worker came with a larger token.
        };
        if !lock.is_valid() {
            continue; // This machine was busy for longer than the lock lasted.
        }
        println!("read {orders}");
        // A worker may pause here for any length of time. In this program, the first worker is stopped here.
        io::stdin().read_line(&mut String::new())?;
        let written = store.write(COUNTER, orders + 1, token)?;
        // The outcome of the release does not matter, because the store has already accepted or refused the write.
        let _ = lock.unlock();
        if written {
            println!("wrote {}", orders + 1);
            return Ok(());
        }
        println!("was refused: another worker came with a larger token");
    }
}

/// Stops the first worker between its read and its write until another worker has counted an order. Returns the
/// number of orders in the store at the end.
fn play(urls: &str, manner: &str) -> Result<i64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("store.sqlite");
    let resource = format!("{COUNTER}:{}:{manner}", std::process::id());
    let worker = || Worker::start([urls, &file.to_string_lossy(), &resource, manner]);

    let mut first = worker()?;
    // The worker prints this line when it has the lock.
    let read = first.next_line()?.ok_or("it says what it has read")?;
    println!("{manner}: the first worker {read}");
    first.signal(Signal::STOP)?;
    worker()?.finish(&format!("{manner}: the second worker"))?;
    first.signal(Signal::CONT)?;
    first.finish(&format!("{manner}: the first worker"))?;
    let orders = Store::open(&file)?.read(COUNTER, LARGEST)?;
    Ok(orders.ok_or("no token is larger")?)
}

/// Gives every node its counter floor for fencing tokens, as an operator does once for new nodes.
fn give_floors(urls: &[String]) -> Result<(), Box<dyn Error>> {
    let redlock = Redlock::connect(urls)?;
    let once = LockOptions::new(TTL).tries(1).fenced();
    let name = format!("{COUNTER}:{}", std::process::id());
    // New nodes give no fencing tokens, so this request fails. After the failure, the handle knows that the nodes need
    // counter floors.
    if redlock.lock_with(&name, &once).is_err() {
        redlock.trust_nodes();
    }
    Ok(())
}

/// A process that counts one order.
struct Worker {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Worker {
    fn start(arguments: [&str; 4]) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = process.stdout.take().ok_or("its output is piped")?;
        let lines = BufReader::new(lines);
        Ok(Self { process, lines })
    }

    /// Returns the next line that the worker prints, or `None` at the end of its output.
    fn next_line(&mut self) -> io::Result<Option<String>> {
        self.lines.by_ref().lines().next().transpose()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), signal)?)
    }

    /// Lets the worker continue, and prints its output until it ends.
    fn finish(mut self, who: &str) -> Result<(), Box<dyn Error>> {
        drop(self.process.stdin.take()); // The worker waits for a line, or for the end of its input.
        while let Some(line) = self.next_line()? {
            println!("{who} {line}");
        }
        match self.process.wait()?.success() {
            true => Ok(()),
            false => Err(format!("{who} has failed").into()),
        }
    }
}
