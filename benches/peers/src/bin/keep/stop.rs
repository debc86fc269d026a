//! One of the nodes is stopped for as long as the ttl, and goes on.

use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::clients::shearline::patient;
use shearline_peers::cycle::now;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::Plan;
use crate::gauges::{process_time, received};
use crate::kept::{KeptLocks, name};

/// Of so many keys it is asked whether they are there: as many as one question is about.
const SAMPLE: usize = 1_000;

/// How much longer than usual a busy machine may take.
const BUSY: Duration = Duration::from_secs(60);

/// How often it is looked.
const STEP: Duration = Duration::from_millis(10);

pub(crate) fn measure(
    plan: &Plan,
    progress: &mut Progress,
    judgement: &mut Judgement,
) -> Result<Table, Failure> {
    let Plan { stopped, pause, .. } = *plan;
    let ttl = pause.max(Duration::from_secs(2));
    progress.next(format!("{stopped} locks, a node stopped for {pause:?}"));
    let (servers, urls) = crate::start()?;
    let handle = patient(&urls).build()?;
    let kept = KeptLocks::take(&handle, stopped, ttl, Some(ttl / 2))?;
    let cpu = process_time();
    servers[0].freeze()?;
    let during = kept.watch(now() + pause, || ());
    let cpu = (process_time() - cpu).as_secs_f64() / pause.as_secs_f64();
    servers[0].thaw()?;
    let begin = now();
    let (mut most, mut before) = (0, received(&servers[0])?);
    let back = loop {
        thread::sleep(STEP);
        let bytes = received(&servers[0])?;
        most = most.max(bytes - before);
        before = bytes;
        if there(&servers[0], kept.len())? == SAMPLE.min(kept.len()) {
            break begin.elapsed();
        }
        // Two halves of the ttl suffice, but not on a machine that is busy.
        if ttl * 4 + BUSY < begin.elapsed() {
            return Err("a node that went on does not have the locks again".into());
        }
    };
    let after = kept.watch(now() + ttl / 2, || ());
    let gone = kept.release()?;
    let mut table = Table::new(&[
        "locks",
        "ttl",
        "stopped for",
        "lost",
        "late at once while it stood",
        "late at once afterwards",
        "least validity left",
        "client's CPU while it stood, of a core",
        "all there again after",
        "most that it received in 10 ms then, bytes",
    ]);
    let none = Bound::AtMost(0.0);
    let worst = during.worse(after);
    table.row([
        stopped.to_string(),
        format!("{ttl:?}"),
        format!("{pause:?}"),
        format!(
            "{}, {none}",
            judgement.note_exact(worst.lost.max(gone) as f64, none)
        ),
        during.late.to_string(),
        after.late.to_string(),
        format!(
            "{:.0} %",
            100.0 * worst.least.as_secs_f64() / ttl.as_secs_f64()
        ),
        format!("{:.1} %", 100.0 * cpu),
        format!("{:.2} s", back.as_secs_f64()),
        most.to_string(),
    ]);
    Ok(table)
}

/// Returns how many of the sample are there.
fn there(server: &Server, locks: usize) -> Result<usize, Failure> {
    let sample = SAMPLE.min(locks);
    let names: Vec<String> = (0..sample)
        .map(|index| name(index * locks / sample))
        .collect();
    let mut words = vec!["EXISTS"];
    words.extend(names.iter().map(String::as_str));
    let answer = server.ask(&words)?;
    let number = answer
        .strip_prefix(':')
        .ok_or("a server does not tell what it has")?;
    Ok(number.parse()?)
}
