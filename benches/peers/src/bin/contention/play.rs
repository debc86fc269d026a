//! The parts of the processes that this program starts: to wait, to contend, or to run many waiting tasks.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use rslock::LockManager;
use shearline_peers::Failure;
use shearline_peers::allocations::{keep_counting, live};
use shearline_peers::clients::runtime;
use shearline_peers::clients::shearline::patient;
use shearline_peers::cycle::{TTL, process_time};
use tokio::sync::Semaphore;

use crate::hands::{Hands, Who, options, stamp, urls};

/// The part that such a process has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Part {
    /// Waits for locks that this program holds.
    Waiter,
    /// Contends, with several threads.
    Contender,
    /// Has many waiters.
    Many,
}

/// The name of the lock that all contenders want.
pub(crate) const WANTED: &str = "wanted";

pub(crate) fn play(part: Part, who: Who, nodes: &[SocketAddr]) -> Result<(), Failure> {
    let (input, output) = (io::stdin().lock(), io::stdout());
    match part {
        Part::Waiter => wait(who.connect(nodes)?, input, output),
        Part::Contender => contend(&*who.connect(nodes)?, input, output),
        Part::Many => many(who, nodes, input, output),
    }
}

/// For each line `wait NAME`, prints that it waits, takes the lock, releases it and prints when it was granted.
pub(crate) fn wait(
    mut hands: Box<dyn Hands>,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Failure> {
    writeln!(output, "ready")?;
    for line in input.lines() {
        let line = line?;
        let name = line.strip_prefix("wait ").ok_or("told something else")?;
        let granted = hands.wait(name, &mut || Ok(writeln!(output, "waiting")?))?;
        hands.release()?;
        writeln!(output, "got {granted}")?;
    }
    Ok(())
}

/// Reads one line: the number of threads, the microseconds of holding, and when to begin and to end. Prints for each
/// lock when it was wanted, granted and about to be released.
fn contend(hands: &dyn Hands, input: impl BufRead, mut output: impl Write) -> Result<(), Failure> {
    // The cost of a first lock is not part of the comparison.
    let mut first = hands.twin()?;
    first.lock(&format!("own of {}", std::process::id()))?;
    first.release()?;
    writeln!(output, "ready")?;
    for line in input.lines() {
        let line = line?;
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        let [threads, hold, begin, end] = numbers?[..] else {
            return Err("told something else".into());
        };
        let hold = Duration::from_micros(hold);
        let threads: Result<Vec<_>, Failure> = (0..threads)
            .map(|_| {
                let hands = hands.twin()?;
                Ok(thread::spawn(move || one(hands, hold, begin, end)))
            })
            .collect();
        let mut said = String::from("locks");
        for thread in threads? {
            let locks = thread.join().map_err(|_| "a contender panicked")??;
            for [wanted, granted, released] in locks {
                said.push_str(&format!(" {wanted}:{granted}:{released}"));
            }
        }
        writeln!(output, "{said}")?;
    }
    Ok(())
}

fn one(
    mut hands: Box<dyn Hands>,
    hold: Duration,
    begin: u64,
    end: u64,
) -> Result<Vec<[u64; 3]>, Failure> {
    let mut locks = Vec::new();
    thread::sleep(Duration::from_nanos(begin.saturating_sub(stamp())));
    loop {
        let wanted = stamp();
        // Each thread takes one lock, even if the machine is so busy that the thread begins after the end.
        if end <= wanted && !locks.is_empty() {
            return Ok(locks);
        }
        let granted = hands.lock(WANTED)?;
        thread::sleep(hold);
        let released = stamp();
        hands.release()?;
        locks.push([wanted, granted, released]);
    }
}

/// Runs many tasks that want the same lock. Lines ask for their state.
fn many(
    who: Who,
    nodes: &[SocketAddr],
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Failure> {
    keep_counting();
    let runtime = runtime(true)?;
    let (locks, failures) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let handle = patient(&urls(nodes)).build()?;
    let manager = LockManager::new(urls(nodes));
    // Everything that exists once: connections, buffers.
    match who {
        Who::Rslock => runtime.block_on(lock_other(&manager))?,
        Who::Redlock | Who::Floor => runtime.block_on(lock_own(&handle))?,
    }
    // The gate is opened when all tasks exist, so that their memory is known before any of them waits.
    let gate = Arc::new(Semaphore::new(0));
    let waiter = || {
        let gate = Arc::clone(&gate);
        let (locks, failures) = (Arc::clone(&locks), Arc::clone(&failures));
        let (handle, manager) = (handle.clone(), manager.clone());
        async move {
            let _ = gate.acquire().await;
            let locked = match who {
                Who::Rslock => lock_other(&manager).await,
                Who::Redlock | Who::Floor => lock_own(&handle).await,
            };
            let count = if locked.is_ok() { &locks } else { &failures };
            if count.fetch_add(1, Ordering::SeqCst) == 0
                && let Err(error) = locked
            {
                eprintln!("one of many: {error}");
            }
        }
    };
    writeln!(output, "ready")?;
    let (mut before, mut tasks) = (0, 0);
    for line in input.lines() {
        let line = line?;
        let answer = match line.split_once(' ') {
            Some(("wait", count)) => {
                before = live();
                for _ in 0..count.parse()? {
                    runtime.spawn(waiter());
                }
                tasks = live();
                gate.close();
                0
            }
            _ if line == "tasks" => u64::try_from(tasks - before)?,
            _ if line == "bytes" => u64::try_from(live() - tasks)?,
            _ if line == "cpu" => process_time().as_nanos() as u64,
            _ if line == "failures" => failures.load(Ordering::SeqCst),
            _ => locks.load(Ordering::SeqCst),
        };
        let word = line.split(' ').next().unwrap_or_default();
        writeln!(output, "{word} {answer}")?;
    }
    // The rest of the tasks is not awaited.
    std::process::exit(0)
}

async fn lock_own(handle: &shearline::Redlock) -> Result<(), Failure> {
    let guard = handle.lock_with_async(WANTED, &options()).await?;
    guard.unlock_async().await?;
    Ok(())
}

async fn lock_other(manager: &LockManager) -> Result<(), Failure> {
    let guard = manager.acquire(WANTED.as_bytes(), TTL).await?;
    guard.release().await;
    Ok(())
}
