//! Locks that are only held, compared with a bare loop that sends as many extensions.

use std::thread;
use std::time::Duration;

use rustix::time::ClockId;
use shearline_peers::Failure;
use shearline_peers::clients::shearline::patient;
use shearline_peers::cycle::{now, of_clock, process_time};
use shearline_peers::figure::{Bound, Figure};
use shearline_peers::floor::{Commands, Sockets, Step};
use shearline_peers::judgement::Judgement;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::Plan;
use crate::gauges::Gauges;
use crate::kept::KeptLocks;

/// The tick of the bare loop: that of the engine.
const TICK: Duration = Duration::from_millis(1);

/// The bare loop: it knows which extensions are due, sends them in each tick, and waits for the answers.
struct Bare {
    sockets: Sockets,
    commands: Commands,
    /// How many extensions are due in a second.
    rate: f64,
}

pub(crate) fn measure(
    plan: &Plan,
    progress: &mut Progress,
    judgement: &mut Judgement,
) -> Result<Table, Failure> {
    let (locks, ttl) = plan.idle;
    progress.next(format!("{locks} locks, held and idle"));
    let (servers, urls) = crate::start()?;
    let handle = patient(&urls).build()?;
    let kept = KeptLocks::take(&handle, locks, ttl, Some(ttl / 2))?;
    // From their second extension on, locks that are due at about the same time are extended together.
    thread::sleep(ttl / 2);
    let (mut shares, mut bares, mut rates, mut bytes) = (vec![], vec![], vec![], vec![]);
    let mut bare = Bare::connect(&servers, locks as f64 / (ttl / 2).as_secs_f64())?;
    for round in 0..plan.rounds {
        let (ends, gauges) = (kept.ends(), Gauges::read(&servers)?);
        let cpu = process_time();
        thread::sleep(plan.look);
        let cpu = process_time() - cpu;
        let grown = gauges.grown(&servers)?;
        let renewals = kept.extended_since(&ends) as f64;
        shares.push(100.0 * cpu.as_secs_f64() / plan.look.as_secs_f64());
        rates.push(renewals / grown.time.as_secs_f64());
        bytes.push(grown.received as f64 / servers.len() as f64 / renewals);
        bares.push(100.0 * bare.run(plan.look)?);
        progress.round(round + 1);
    }
    let lost = kept.state().lost.max(kept.release()?);
    let mut table = Table::new(&[
        "",
        "renewals a second",
        "bytes to a server for each",
        "CPU, % of a core",
        "times the bare loop",
        "lost",
    ]);
    let pairs = shares.iter().zip(&bares).map(|(share, bare)| share / bare);
    let ratio = Figure::of(pairs);
    let (twice, none) = (Bound::AtMost(2.0), Bound::AtMost(0.0));
    table.row([
        "`Redlock`".into(),
        Figure::of(&rates).to_string(),
        Figure::of(&bytes).to_string(),
        judgement.with_bound(Figure::of(&shares), twice),
        judgement.with_bound(ratio, twice),
        judgement.exact_with_bound(lost as f64, none),
    ]);
    table.row([
        "bare loop".into(),
        format!("{:.0}", bare.rate),
        bare.commands.bytes(Step::Extend).len().to_string(),
        Figure::of(&bares).to_string(),
        "1".into(),
        String::new(),
    ]);
    Ok(table)
}

impl Bare {
    fn connect(servers: &[Server], rate: f64) -> Result<Self, Failure> {
        let addresses: Vec<_> = servers.iter().map(Server::address).collect();
        let (sockets, scripts) = Sockets::connect(&addresses)?;
        Ok(Self {
            sockets,
            commands: Commands::new(&scripts, "account:bare000"),
            rate,
        })
    }

    /// Runs the loop. Returns the share of a core that it takes.
    fn run(&mut self, time: Duration) -> Result<f64, Failure> {
        // The key may have expired since the last turn.
        self.send(Step::Release, 1)?;
        self.send(Step::Acquire, 1)?;
        let (begin, cpu) = (now(), thread_time());
        let mut sent = 0;
        while begin.elapsed() < time {
            thread::sleep(TICK);
            let due = (begin.elapsed().as_secs_f64() * self.rate) as usize;
            if sent < due {
                self.send(Step::Extend, due - sent)?;
                sent = due;
            }
        }
        Ok((thread_time() - cpu).as_secs_f64() / begin.elapsed().as_secs_f64())
    }

    /// Sends one command this many times in one write to each node, and waits for all answers.
    fn send(&mut self, step: Step, count: usize) -> Result<(), Failure> {
        self.sockets
            .write(&self.commands.bytes(step).repeat(count))?;
        let mut open = count * self.sockets.nodes();
        while open != 0 {
            self.sockets.wait(false, |_, answers| open -= answers)?;
        }
        Ok(())
    }
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    of_clock(ClockId::ThreadCPUTime)
}
