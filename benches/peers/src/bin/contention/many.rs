//! Very many callers wait for one key in one process. Measures their cost while nothing happens, and how fast the lock
//! is then handed from one caller to the next.

use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::figure::Bound;
use shearline_peers::mate::Mate;
use shearline_peers::progress::load;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::hands::{Hands, LIBRARIES, Who, stamp};
use crate::mate;
use crate::play::{Part, WANTED};
use crate::raw::Raw;
use crate::statistics::Statistics;
use crate::{Report, addresses};

/// The ttl of the key, which is longer than the measurement.
const LONG: Duration = Duration::from_secs(600);

/// The pause between the last waiter and the first look.
const REST: Duration = Duration::from_secs(1);

/// The pause between two questions how many waiters have had the lock.
const LOOK: Duration = Duration::from_millis(5);

/// The bound on messages to a node in a second while nothing happens: the waiters look for safety.
const MESSAGES: f64 = 1.0;

/// The bound on processor time, in hundredths of a processor.
const PROCESSOR: f64 = 1.0;

/// The figures while nothing happens, for each second.
struct Idle {
    client: f64,
    nodes: f64,
    messages: f64,
}

/// Returns the processor time that the nodes have used together, in seconds.
fn cpu(servers: &[Server]) -> Result<f64, Failure> {
    let times = servers.iter().map(Server::processor_time);
    Ok(times.sum::<Result<Duration, _>>()?.as_secs_f64())
}

impl Idle {
    fn watch(mate: &mut Mate, servers: &[Server], time: Duration) -> Result<Self, Failure> {
        let (client, nodes) = (mate.ask("cpu")?, cpu(servers)?);
        let before = Statistics::of(servers)?;
        thread::sleep(time);
        let messages = Statistics::of(servers)?.since(&before);
        let seconds = time.as_secs_f64();
        Ok(Self {
            client: (mate.ask("cpu")? - client) as f64 / 1e7 / seconds,
            nodes: (cpu(servers)? - nodes) * 100.0 / seconds,
            messages: messages.divided(seconds).messages(),
        })
    }
}

pub(crate) fn measure(
    servers: &[Server],
    waiters: u64,
    time: Duration,
    report: &mut Report,
) -> Result<(), Failure> {
    for (index, who) in LIBRARIES.into_iter().enumerate() {
        let mut mate = mate::process(Part::Many, who, &addresses(servers))?;
        let none = Idle::watch(&mut mate, servers, time)?;
        let mut holder = Raw::connect(&addresses(servers))?;
        holder.hold(WANTED, LONG)?;
        mate.tell(&format!("wait {waiters}"))?;
        mate.hear("wait")?;
        thread::sleep(REST);
        let [bytes, task] = [mate.ask("bytes")?, mate.ask("tasks")?];
        let idle = Idle::watch(&mut mate, servers, time)?;
        holder.release()?;
        let (locks, rate) = handed_over(&mut mate, waiters, time)?;
        let failures = mate.ask("failures")?;
        let mut judged = |number: f64, most: f64| match who {
            Who::Redlock => {
                let number = (number * 100.0).round() / 100.0;
                let judgement = &mut report.judgement;
                judgement.exact_with_bound(number, Bound::AtMost(most))
            }
            Who::Floor | Who::Rslock => format!("{number:.0}"),
        };
        let row = [
            servers.len().to_string(),
            who.title().to_owned(),
            (bytes / waiters).to_string(),
            (task / waiters).to_string(),
            judged(idle.client - none.client, PROCESSOR),
            judged(idle.nodes - none.nodes, PROCESSOR),
            judged(idle.messages, MESSAGES),
            format!("{rate:.0}"),
            locks.to_string(),
            failures.to_string(),
            load(),
        ];
        report.many.row(row);
        report.progress.round(index + 1);
        drop(mate);
        // Remove what the process left.
        for server in servers {
            server.ask(&["DEL", WANTED])?;
        }
    }
    Ok(())
}

/// Returns how many waiters had the lock, and how many in a second, until the last one or until `time` is over.
fn handed_over(mate: &mut Mate, waiters: u64, time: Duration) -> Result<(u64, f64), Failure> {
    let begin = stamp();
    let end = begin + time.as_nanos() as u64;
    loop {
        let (locks, now) = (mate.ask("locks")?, stamp());
        if waiters <= locks || end <= now {
            return Ok((locks, locks as f64 / ((now - begin) as f64 / 1e9)));
        }
        thread::sleep(LOOK);
    }
}

pub(crate) fn table() -> Table {
    Table::new(&[
        "nodes",
        "client",
        "bytes a waiter",
        "and its task",
        "% of a processor while nothing happens, client",
        "nodes together",
        "messages per node and second",
        "hand-overs/s",
        "had the lock",
        "failed",
        "load",
    ])
}
