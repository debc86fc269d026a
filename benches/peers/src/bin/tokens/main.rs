//! Fencing tokens: how often one round trip is enough, and what they cost the servers.
//!
//! Prints two tables in Markdown, which go into `README.md` beside this file unchanged. What a figure means is
//! explained there.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use shearline::{LockOptions, Redlock};
use shearline_peers::Failure;
use shearline_peers::clients::shearline::patient;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::{Judgement, status};
use shearline_peers::servers::{self, Server};
use shearline_peers::table::Table;

const NAME: &str = "tokens";
const TTL: Duration = Duration::from_secs(10);

/// For how long a contender holds the lock.
const HOLD: Duration = Duration::from_micros(500);

/// How many cycles each makes before anything is counted: every server knows the scripts then.
const WARM: u32 = 50;

/// How many turns plain and fenced locks take, and how many cycles each has.
const TURNS: usize = 9;
const CYCLES: u64 = 2_000;

/// Counts round trips of locks with fencing tokens on servers that it starts itself.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long each number of contenders goes on.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    status(run(&Arguments::parse()))
}

/// Returns whether the status is zero.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let mut judgement = Judgement::default();
    let mut shares = Table::new(&[
        "nodes",
        "contenders",
        "locks",
        "with a second round trip",
        "by one round trip",
    ]);
    for nodes in [3, 5] {
        for contenders in [1, 2, 8] {
            let (locks, twice) = contend(nodes, contenders, arguments.seconds)?;
            let share = 1.0 - twice as f64 / locks.max(1) as f64;
            let bound = Bound::AtLeast(0.99);
            shares.row([
                nodes.to_string(),
                contenders.to_string(),
                locks.to_string(),
                twice.to_string(),
                format!("{}, {bound}", judgement.note_exact(round(share), bound)),
            ]);
        }
    }
    println!("{shares}\n{}\n{judgement}", costs()?);
    Ok(!arguments.check || judgement.good())
}

/// Rounds to a hundredth of a percent, downwards.
fn round(share: f64) -> f64 {
    (share * 1e4).floor() / 1e4
}

fn options() -> LockOptions {
    LockOptions::new(TTL).wait(Duration::from_secs(60))
}

/// A handle on these servers, that has warmed up. No other program uses them, so they are trusted.
fn handle(servers: &[Server], options: &LockOptions) -> Result<Redlock, Failure> {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let redlock = patient(&urls).build()?;
    // New nodes give no token, until a handle knows that one was asked for.
    if options.is_fenced() && redlock.lock_with(NAME, &options.tries(1)).is_err() {
        redlock.trust_nodes();
    }
    for _ in 0..WARM {
        redlock.lock_with(NAME, options)?.unlock()?;
    }
    Ok(redlock)
}

/// Contends for one lock. Returns how often it was had, and how often that took a second round trip.
fn contend(nodes: usize, contenders: usize, seconds: u64) -> Result<(u64, u64), Failure> {
    let servers = servers::start(nodes)?;
    let options = options().fenced();
    let handles = (0..contenders).map(|_| handle(&servers, &options));
    let handles = handles.collect::<Result<Vec<_>, _>>()?;
    let (locks, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let twice = || {
        handles
            .iter()
            .map(|redlock| redlock.stats().second_round_trips)
            .sum::<u64>()
    };
    let before = twice();
    thread::scope(|scope| {
        for redlock in &handles {
            let (locks, ended, options) = (&locks, &ended, &options);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let Ok(guard) = redlock.lock_with(NAME, options) else {
                        continue;
                    };
                    locks.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(HOLD);
                    drop(guard);
                }
            });
        }
        thread::sleep(Duration::from_secs(seconds));
        ended.store(true, Ordering::Relaxed);
    });
    Ok((locks.into_inner(), twice() - before))
}

/// What servers say of a command.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    calls: u64,
    usec: u64,
}

fn reset(servers: &[Server]) -> Result<(), Failure> {
    for server in servers {
        server.ask(&["CONFIG", "RESETSTAT"])?;
    }
    Ok(())
}

fn total(servers: &[Server], command: &str) -> Result<Spent, Failure> {
    let mut total = Spent::default();
    let name = format!("cmdstat_{command}:");
    for server in servers {
        let said = server.info("commandstats")?;
        let line = said.lines().find_map(|line| line.strip_prefix(&name));
        for (field, number) in line
            .unwrap_or_default()
            .split(',')
            .filter_map(|part| part.split_once('='))
        {
            match field {
                "calls" => total.calls += number.parse::<u64>()?,
                "usec" => total.usec += number.parse::<u64>()?,
                _ => {}
            }
        }
    }
    Ok(total)
}

/// What a lock costs each server, in microseconds: to take it, and to take and release it.
#[derive(Clone, Copy, Debug)]
struct Cost {
    take: f64,
    cycle: f64,
}

/// Plain and fenced locks, in turns on the same servers.
fn costs() -> Result<Table, Failure> {
    let servers = servers::start(3)?;
    let (plain, fenced) = (options(), options().fenced());
    let handles = [handle(&servers, &plain)?, handle(&servers, &fenced)?];
    let mut costs: [Vec<Cost>; 2] = Default::default();
    for _ in 0..TURNS {
        let [one, other] = &handles;
        let (cost, release) = turn(&servers, one, &plain, None)?;
        costs[0].push(cost);
        costs[1].push(turn(&servers, other, &fenced, Some(release))?.0);
    }
    let mut table = Table::new(&["lock", "taken, µs of each server", "taken and released, µs"]);
    for (name, costs) in ["plain", "with a token"].into_iter().zip(costs) {
        let middle = |of: fn(&Cost) -> f64| {
            let mut all: Vec<f64> = costs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            format!("{:.2}", all[all.len() / 2])
        };
        let (take, cycle) = (middle(|cost| cost.take), middle(|cost| cost.cycle));
        table.row([name.to_owned(), take, cycle]);
    }
    Ok(table)
}

/// One turn. What a release costs is known from a turn of plain locks: with a token both are scripts, which servers
/// count as one. Returns it too.
fn turn(
    servers: &[Server],
    redlock: &Redlock,
    options: &LockOptions,
    release: Option<f64>,
) -> Result<(Cost, f64), Failure> {
    reset(servers)?;
    for _ in 0..CYCLES {
        redlock.lock_with(NAME, options)?.unlock()?;
    }
    let each = |spent: Spent, calls: u64| spent.usec as f64 / calls.max(1) as f64;
    let locks = CYCLES * servers.len() as u64;
    let scripts = total(servers, "evalsha")?;
    Ok(match release {
        None => {
            let set = total(servers, "set")?;
            let (take, release) = (each(set, set.calls), each(scripts, scripts.calls));
            let cycle = take + release;
            (Cost { take, cycle }, release)
        }
        Some(release) => {
            let cycle = each(scripts, locks);
            let take = cycle - release;
            (Cost { take, cycle }, release)
        }
    })
}
