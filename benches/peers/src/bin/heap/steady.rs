//! The clients that lock and release without pause.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use futures::executor::block_on;
use futures::future::try_join_all;
use shearline_peers::clients::crowd::crowd;
use shearline_peers::clients::shearline::{Local, Shared, patient};
use shearline_peers::cycle::{Caller, Futures};
use shearline_peers::measure::Failure;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;

use crate::record::{Profile, Record};

/// A client and its interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Who {
    Local,
    Redlock,
    Futures,
}

impl Who {
    pub(crate) const ALL: [Self; 3] = [Self::Local, Self::Redlock, Self::Futures];

    /// How many locks at once.
    pub(crate) const fn callers(self) -> usize {
        match self {
            Self::Local | Self::Redlock => 1,
            Self::Futures => 64,
        }
    }

    /// The bound on allocations for a cycle. A handle that many share may take two; the twentieth
    /// is for stragglers' answers.
    pub(crate) const fn allocations_at_most(self) -> f64 {
        match self {
            Self::Local => 0.0,
            Self::Redlock | Self::Futures => 2.05,
        }
    }
}

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How long two servers are frozen together while the client warms up, and then one of them
    /// alone.
    pub(crate) lag: Duration,
    /// The pause after that.
    pub(crate) rest: Duration,
    /// How long it is recorded.
    pub(crate) seconds: u64,
}

/// Locks until enough is recorded.
///
/// How much is open at once depends on how late the slowest servers are, and room that was needed
/// once is kept. So in the warm-up two of them are as late as servers can be without being given
/// up.
pub(crate) fn lock(
    who: Who,
    servers: &[Server],
    plan: Plan,
    progress: &Progress,
) -> Result<Profile, Failure> {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let warm = AtomicBool::new(false);
    thread::scope(|scope| {
        let record = Record::new(&warm, plan.rest, plan.seconds, progress);
        let lagging = scope.spawn(|| {
            let lagged = let_lag(servers, plan.lag);
            warm.store(true, Ordering::Release);
            lagged
        });
        run(who, &urls, &record)?;
        lagging.join().map_err(|_| "a thread panicked")??;
        Ok(record.profile())
    })
}

/// Freezes every server, each for a while together with the one before it.
fn let_lag(servers: &[Server], lag: Duration) -> Result<(), Failure> {
    let mut frozen: Option<&Server> = None;
    for server in servers {
        thread::sleep(lag);
        server.freeze()?;
        thread::sleep(lag);
        if let Some(before) = frozen.replace(server) {
            before.thaw()?;
        }
    }
    frozen.map_or(Ok(()), Server::thaw)
}

fn run(who: Who, urls: &[String], record: &Record<'_>) -> Result<(), Failure> {
    let builder = patient(urls);
    match who {
        Who::Local => calls(&mut Local::build(&builder, "local")?, record),
        Who::Redlock => calls(&mut Shared::build(&builder, "redlock")?, record),
        Who::Futures => {
            let callers = crowd(&Shared::build(&builder, "")?, "futures", who.callers());
            let futures = callers.iter().map(|caller| cycles(caller, record));
            block_on(try_join_all(futures)).map(|_| ())
        }
    }
}

fn calls(caller: &mut impl Caller, record: &Record<'_>) -> Result<(), Failure> {
    while record.goes_on() {
        let lock = caller.acquire()?;
        caller.release(lock)?;
        record.cycle();
    }
    Ok(())
}

async fn cycles(caller: &impl Futures, record: &Record<'_>) -> Result<(), Failure> {
    while record.goes_on() {
        let lock = caller.acquire().await?;
        caller.release(lock).await?;
        record.cycle();
    }
    Ok(())
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "`LocalRedlock`",
            Self::Redlock => "`Redlock`, one caller",
            Self::Futures => "`Redlock`, 64 futures joined on a thread",
        })
    }
}

#[cfg(test)]
mod tests {
    use shearline_peers::servers;

    use super::*;

    #[test]
    fn every_client_locks_for_a_second_and_reports_progress() {
        let servers = servers::start(5).unwrap();
        let progress = Progress::new(1);
        let plan = Plan {
            lag: Duration::from_millis(20),
            rest: Duration::ZERO,
            seconds: 1,
        };
        for who in Who::ALL {
            let profile = lock(who, &servers, plan, &progress).unwrap();
            assert!(0 < profile.cycles, "{who}");
        }
        for server in &servers {
            assert_eq!(server.ask(&["PING"]).unwrap(), "+PONG");
        }
    }
}
