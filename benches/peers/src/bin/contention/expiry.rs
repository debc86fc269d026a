//! Measures the time from the expiry of a key, by the clock of the nodes, until a waiting client has the lock.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::figure::{Bound, Figure};
use shearline_peers::mate::Mate;
use shearline_peers::progress::load;
use shearline_peers::random::Random;
use shearline_peers::servers::{Server, ask};
use shearline_peers::table::Table;

use crate::hands::{LIBRARIES, Who, stamp};
use crate::mate;
use crate::play::Part;
use crate::raw::Raw;
use crate::{Report, addresses};

/// How long a key lives at least, and how many milliseconds more it may live.
const LIFE: u64 = 150;
const MORE: usize = 50;

/// A script that returns `TIME` as one number of microseconds.
const TIME: &str = "local t=redis.call('TIME') return t[1]*1000000+t[2]";

/// The bound in milliseconds.
const MOST: f64 = 3.0;

/// Returns when the key ends at this node, by our clock.
fn end(node: SocketAddr, name: &str) -> Result<u64, Failure> {
    let mut stream = TcpStream::connect(node)?;
    let mut number = |words: &[&str]| -> Result<u64, Failure> {
        let answer = ask(&mut stream, words)?;
        let number = answer.strip_prefix(':').and_then(|it| it.parse().ok());
        number.ok_or_else(|| format!("{words:?} gave {answer}").into())
    };
    let end = number(&["PEXPIRETIME", name])? * 1_000_000;
    let before = stamp();
    let time = number(&["EVAL", TIME, "0"])? * 1_000;
    let now = u64::midpoint(before, stamp());
    Ok(now + end.saturating_sub(time))
}

/// Returns the milliseconds since a majority of the nodes was free.
fn late(
    holder: &mut Raw,
    mate: &mut Mate,
    nodes: &[SocketAddr],
    name: &str,
    life: Duration,
) -> Result<f64, Failure> {
    holder.hold(name, life)?;
    let ends = nodes.iter().map(|node| end(*node, name));
    let mut ends = ends.collect::<Result<Vec<_>, _>>()?;
    ends.sort_unstable();
    mate.tell(&format!("wait {name}"))?;
    mate.hear("waiting")?;
    let granted: u64 = mate.hear("got")?.parse()?;
    Ok((granted as f64 - ends[nodes.len() / 2] as f64) / 1e6)
}

pub(crate) fn measure(
    servers: &[Server],
    rounds: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let nodes = addresses(servers);
    let mut holder = Raw::connect(&nodes)?;
    let mut random = Random::new(3);
    let connect = |who| mate::process(Part::Waiter, who, &nodes);
    let mut mates = [connect(Who::Redlock)?, connect(Who::Rslock)?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (index, mate) in mates.iter_mut().enumerate() {
            let life = Duration::from_millis(LIFE + random.below(MORE) as u64);
            let name = format!("expires {index} {round}");
            times[index].push(late(&mut holder, mate, &nodes, &name, life)?);
        }
        report.progress.round(round + 1);
    }
    for (who, times) in LIBRARIES.into_iter().zip(times) {
        let figure = Figure::of(&times);
        let judged = match who {
            Who::Redlock => report.judgement.with_bound(figure, Bound::AtMost(MOST)),
            Who::Floor | Who::Rslock => figure.to_string(),
        };
        let longest = times.into_iter().fold(0.0, f64::max);
        let count = nodes.len().to_string();
        report.expiry.row([
            count,
            who.title().to_owned(),
            judged,
            format!("{longest:.1}"),
            load(),
        ]);
    }
    Ok(())
}

pub(crate) fn table() -> Table {
    Table::new(&["nodes", "client", "behind the end, ms", "longest", "load"])
}
