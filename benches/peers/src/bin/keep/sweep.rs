//! Memory, renewals and processor time by the number of locks.

use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::allocations::live;
use shearline_peers::clients::shearline::patient;
use shearline_peers::cycle::now;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::gauges::{Gauges, Grown, resident, used};
use crate::kept::{KeptLocks, NAME_AND_TOKEN, State};

/// The figures of one number of locks.
#[derive(Debug)]
pub(crate) struct Row {
    locks: usize,
    ttl: Duration,
    /// How long it took until all locks were held.
    taken_in: Duration,
    /// Bytes on the heap for each lock, name and token included.
    client: f64,
    /// Resident bytes for each lock.
    resident: f64,
    /// Bytes that a server has allocated for each lock.
    server: f64,
    /// How many locks were extended in the window.
    renewals: usize,
    window: Grown,
    state: State,
    /// How many were missing when they were released.
    gone: usize,
}

pub(crate) fn measure(sizes: &[usize], progress: &mut Progress) -> Result<Vec<Row>, Failure> {
    sizes.iter().map(|size| row(*size, progress)).collect()
}

/// Returns the ttl with which a million locks need some 30,000 renewals a second: no server that shares two cores does
/// many more.
fn ttl(locks: usize) -> Duration {
    match locks {
        0..=20_000 => Duration::from_secs(4),
        20_001..=150_000 => Duration::from_secs(10),
        _ => Duration::from_secs(60),
    }
}

fn row(locks: usize, progress: &mut Progress) -> Result<Row, Failure> {
    progress.next(format!("{locks} locks"));
    let ttl = ttl(locks);
    let (servers, urls) = crate::start()?;
    let handle = patient(&urls).build()?;
    // The buffers of the first wave must not be counted as locks.
    KeptLocks::take(&handle, locks.min(1_000), ttl, None)?.release()?;
    let before = (live(), resident()?, server_memory(&servers)?);
    let begin = now();
    let kept = KeptLocks::take(&handle, locks, ttl, None)?;
    let taken_in = begin.elapsed();
    let after = (live(), resident()?, server_memory(&servers)?);
    let each = |before: f64, after: f64| (after - before) / locks as f64;
    let tell = || progress.second(begin.elapsed().as_secs() as usize);
    // All locks are extended once between 0.45 and 0.9 of the ttl, if they were taken faster than that.
    let first = kept.watch(begin + ttl.mul_f64(0.45), tell);
    let (ends, gauges) = (kept.ends(), Gauges::read(&servers)?);
    thread::sleep((begin + ttl.mul_f64(0.9)).saturating_duration_since(now()));
    let window = gauges.grown(&servers)?;
    let renewals = kept.extended_since(&ends);
    let state = first.worse(kept.watch(begin + ttl, tell));
    let gone = kept.release()?;
    Ok(Row {
        locks,
        ttl,
        taken_in,
        client: each(before.0 as f64, after.0 as f64),
        resident: each(before.1 as f64, after.1 as f64),
        server: each(before.2, after.2),
        renewals,
        window,
        state,
        gone,
    })
}

/// Returns the mean of the servers.
fn server_memory(servers: &[Server]) -> Result<f64, Failure> {
    let mut sum = 0;
    for server in servers {
        sum += used(server)?;
    }
    Ok(sum as f64 / servers.len() as f64)
}

/// Makes the table of the memory of a lock, and of the time until all are held.
pub(crate) fn memory(rows: &[Row], judgement: &mut Judgement) -> Table {
    let mut table = Table::new(&[
        "locks",
        "all held after",
        "locks a second",
        "heap for each, bytes",
        "besides name and token",
        "resident for each",
        "memory of a server for each",
    ]);
    let bound = Bound::AtMost(300.0);
    for row in rows {
        let besides = (row.client - NAME_AND_TOKEN as f64).round();
        table.row([
            row.locks.to_string(),
            format!("{:.2} s", row.taken_in.as_secs_f64()),
            format!("{:.0}", row.locks as f64 / row.taken_in.as_secs_f64()),
            format!("{:.0}", row.client),
            judgement.exact_with_bound(besides, bound),
            format!("{:.0}", row.resident),
            format!("{:.0}", row.server),
        ]);
    }
    table
}

/// Makes the table of the cost of extending them all.
pub(crate) fn renewals(rows: &[Row], judgement: &mut Judgement) -> Table {
    let mut table = Table::new(&[
        "locks",
        "ttl",
        "renewals a second",
        "client's CPU for each, us",
        "renewals a second and core of the client",
        "a server's CPU for each, us",
        "bytes to a server for each",
        "late at once",
        "lost",
        "least validity left",
    ]);
    let (rate, none) = (Bound::AtLeast(100_000.0), Bound::AtMost(0.0));
    for row in rows {
        let renewals = row.renewals as f64;
        let nodes = crate::NODES as f64;
        let client = row.window.client.as_secs_f64() / renewals;
        table.row([
            row.locks.to_string(),
            format!("{:?}", row.ttl),
            format!("{:.0}", renewals / row.window.time.as_secs_f64()),
            format!("{:.2}", client * 1e6),
            judgement.exact_with_bound((1.0 / client).round(), rate),
            format!(
                "{:.2}",
                row.window.servers.as_secs_f64() * 1e6 / nodes / renewals
            ),
            format!("{:.0}", row.window.received as f64 / nodes / renewals),
            row.state.late.to_string(),
            judgement.exact_with_bound(row.state.lost.max(row.gone) as f64, none),
            format!(
                "{:.0} %",
                100.0 * row.state.least.as_secs_f64() / row.ttl.as_secs_f64()
            ),
        ]);
    }
    table
}
