//! How many system calls a cycle takes, counted by strace.
//!
//! This program runs itself under `strace -c -f` with one client, once for a single cycle and once
//! for many; the difference is what cycles cost. The servers are not traced: they were started by the
//! parent, and the child gets their addresses.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::{self, Command, Stdio};

use clap::Args;
use shearline_peers::Failure;
use shearline_peers::cycle::{Log, Until};
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::servers;
use shearline_peers::table::Table;

use crate::who::Who;
use crate::world;

const NODES: usize = 5;

/// So many cycles more than one.
const CYCLES: u64 = 1000;

/// By how many hundredths a count may be larger: from time to time a connection needs work, and the
/// number of waits depends on when answers come.
const TOLERANCE: f64 = 5.0;

/// The arguments of the child.
#[derive(Args, Debug)]
pub(crate) struct Alone {
    /// Runs this client alone and measures nothing: for strace, perf and the like.
    #[arg(long, requires = "nodes")]
    pub(crate) who: Option<Who>,

    /// Runs it on these nodes, urls separated by commas.
    #[arg(long, value_delimiter = ',', requires = "who")]
    nodes: Vec<String>,

    /// Runs it for so many cycles.
    #[arg(long, default_value_t = CYCLES, requires = "who")]
    cycles: u64,

    /// Runs it with so many locks at once.
    #[arg(long, default_value_t = 1, requires = "who")]
    callers: usize,
}

/// Runs one client and nothing else.
pub(crate) fn run_alone(who: Who, alone: &Alone) -> Result<(), Failure> {
    let mut client = world::client(&alone.nodes, alone.callers, false, who)?;
    client.run(Until::Cycles(alone.cycles), &mut Log::default())?;
    client.settle()
}

/// The counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Write,
    Read,
    Wait,
    Other,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Write, Self::Read, Self::Wait, Self::Other];

    fn of(name: &str) -> Self {
        match name {
            "write" | "writev" | "sendto" | "sendmsg" => Self::Write,
            "read" | "readv" | "recvfrom" | "recvmsg" => Self::Read,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" => Self::Wait,
            _ => Self::Other,
        }
    }
}

type Counts = BTreeMap<String, f64>;

/// Counts for all clients and prints a table. Returns whether the bounds are met.
pub(crate) fn count() -> Result<bool, Failure> {
    const WHO: [Who; 7] = [
        Who::Floor,
        Who::FloorAll,
        Who::Local,
        Who::LocalSpinning,
        Who::Redlock,
        Who::RslockCurrent,
        Who::MultiplexedCurrent,
    ];
    let servers = servers::start(NODES)?;
    let urls: Vec<String> = servers.iter().map(servers::Server::url).collect();
    let urls = urls.join(",");
    let mut table = Table::new(&[
        "client",
        "writes",
        "reads",
        "waits",
        "others",
        "which others",
    ]);
    let mut judgement = Judgement::default();
    let mut bounds = Table::new(&["client", "what", "bound", "for each cycle"]);
    let mut floor_waits = 0.0;
    for who in WHO {
        eprintln!("{who}");
        let counts = difference(who, &urls)?;
        let sums = Kind::ALL.map(|kind| sum(&counts, kind));
        let [writes, reads, waits, others] = sums.map(|sum| format!("{sum:.2}"));
        let row = [who.to_string(), writes, reads, waits, others, list(&counts)];
        table.row(row);
        if who == Who::Floor {
            floor_waits = sums[2];
        }
        if who == Who::Local || who == Who::Redlock {
            // Acquire and release, each once to every node.
            let each = 2.0 * NODES as f64;
            for (what, sum, most) in [
                ("writes", sums[0], each),
                ("reads", sums[1], each),
                ("waits", sums[2], floor_waits),
            ] {
                let bound = Bound::AtMost((most * (100.0 + TOLERANCE)).round() / 100.0);
                let verdict = judgement.note_exact((sum * 100.0).round() / 100.0, bound);
                bounds.row([who.to_string(), what.into(), bound.to_string(), verdict]);
            }
        }
    }
    println!("### System calls for each cycle\n\n{bounds}\n{judgement}\n\n{table}");
    Ok(judgement.good())
}

/// For each cycle.
fn difference(who: Who, urls: &str) -> Result<Counts, Failure> {
    let few = trace(who, urls, 1)?;
    let mut counts = trace(who, urls, CYCLES + 1)?;
    for (name, count) in &mut counts {
        *count -= few.get(name).copied().unwrap_or_default();
        *count /= CYCLES as f64;
    }
    Ok(counts)
}

fn trace(who: Who, urls: &str, cycles: u64) -> Result<Counts, Failure> {
    let file = env::temp_dir().join(format!("shearline-strace-{}", process::id()));
    let status = Command::new("strace")
        .args(["-c", "-f", "-o"])
        .arg(&file)
        .arg(env::current_exe()?)
        .args(["--who", &kebab(who)?, "--nodes", urls])
        .args(["--cycles", &cycles.to_string()])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("strace cannot be run ({error}): apt-get install strace"))?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    // Counts only our own.
    let _ = fs::remove_file(&file);
    if !status.success() {
        return Err(format!("{who} under strace ended with {status}").into());
    }
    Ok(parse(&text))
}

fn kebab(who: Who) -> Result<String, Failure> {
    let value = clap::ValueEnum::to_possible_value(&who).ok_or("no such client")?;
    Ok(value.get_name().to_string())
}

/// `% time, seconds, usecs/call, calls, errors or nothing, name`.
fn parse(text: &str) -> Counts {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let calls = words.get(3)?.parse().ok()?;
        let name = words.last().filter(|name| **name != "total")?;
        Some(((*name).to_string(), calls))
    };
    text.lines().filter_map(line).collect()
}

fn sum(counts: &Counts, kind: Kind) -> f64 {
    let of_kind = counts.iter().filter(|(name, _)| Kind::of(name) == kind);
    of_kind.map(|(_, count)| count).sum()
}

fn list(counts: &Counts) -> String {
    let others = counts
        .iter()
        .filter(|(name, count)| Kind::of(name) == Kind::Other && 0.005 < **count);
    let words: Vec<String> = others
        .map(|(name, count)| format!("{name} {count:.2}"))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_strace_is_read() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           sendto
 30.00    0.000300           3        90        10 recvfrom
 10.00    0.000100           5        20           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           4       210        10 total
";
        let counts = parse(text);
        assert_eq!(counts.len(), 3);
        assert_eq!(counts["recvfrom"], 90.0);
        assert_eq!(sum(&counts, Kind::Write), 100.0);
        assert_eq!(sum(&counts, Kind::Other), 0.0);
    }
}
