//! Locks and unlocks on command, with the version of the library that the player was built with.
//!
//! `shearline-player WAY CALLERS URL...` says `ready` when it has connected. For each line `turn MILLIS` it runs
//! cycles of lock and unlock for that long, and says `CYCLES NANOS CPU_NANOS P50_NANOS P99_NANOS`: the cycles, how long
//! they and the processor took altogether, and the latency of one. It ends with its standard input.
//!
//! The player uses only names that all compared versions have.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use rustix::time::{ClockId, clock_gettime};
use shearline::{LocalRedlock, LockOptions, Redlock};

type Failure = Box<dyn Error + Send + Sync>;

/// How long each cycle took, in nanoseconds.
type Times = Vec<u32>;

/// The same ttl as in `benches/peers`, which has the floors.
const TTL: Duration = Duration::from_secs(10);

/// On a busy machine a server may get no processor for longer than the default of 50 ms.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a contender waits at most.
const WAIT: Duration = Duration::from_secs(10);

/// A pause that is long enough for a late answer.
const PAUSE: Duration = Duration::from_millis(2);

/// How many cycles of a caller fit into the record of a turn.
const ROOM: usize = 4096;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [way, callers, urls @ ..] = &arguments[..] else {
        return Err("usage: shearline-player WAY CALLERS URL...".into());
    };
    let mut load = Load::new(way, callers.parse()?, urls)?;
    let mut output = io::stdout();
    writeln!(output, "ready")?;
    for line in io::stdin().lines() {
        let line = line?;
        let millis = line.strip_prefix("turn ").ok_or("told something else")?;
        let slot = Duration::from_millis(millis.parse()?);
        writeln!(output, "{}", turn(&mut load, slot)?)?;
    }
    Ok(())
}

fn turn(load: &mut Load, slot: Duration) -> Result<String, Failure> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let begin = now();
    let mut times = load.run(begin + slot)?;
    let (mut cycles, mut elapsed) = (times.len(), begin.elapsed());
    if matches!(load.way, Way::Contention(_)) {
        // After the end of the turn, each thread still waits for one more lock, with fewer and fewer contenders.
        (cycles, elapsed) = (cycles - load.names.len(), slot);
    }
    let spent = clock_gettime(ClockId::ProcessCPUTime) - cpu;
    let spent = spent.tv_sec * 1_000_000_000 + spent.tv_nsec;
    load.settle()?;
    let [p50, p99] = [50, 99].map(|hundredths| {
        // The nearest rank: this many hundredths of the times are not larger.
        let place = (times.len() * hundredths).div_ceil(100).max(1) - 1;
        *times.select_nth_unstable(place).1
    });
    let elapsed = elapsed.as_nanos();
    Ok(format!("{cycles} {elapsed} {spent} {p50} {p99}"))
}

/// Callers, and what they call.
struct Load {
    way: Way,
    names: Vec<String>,
}

#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Way {
    /// One caller of a handle on its own thread.
    Local(LocalRedlock),
    /// Threads that call and block; one is this thread.
    Threads(Redlock),
    /// Threads that all want the same lock, and wait for it.
    Contention(Redlock),
    /// Futures on this thread, without a runtime.
    Joined(Redlock),
}

impl Load {
    fn new(way: &str, callers: usize, urls: &[String]) -> Result<Self, Failure> {
        let builder = Redlock::builder().nodes(urls).node_timeout(NODE_TIMEOUT);
        let own = std::process::id();
        Ok(Self {
            way: match way {
                "local" => Way::Local(builder.build_local()?),
                "threads" => Way::Threads(builder.build()?),
                "contention" => Way::Contention(builder.build()?),
                "joined" => Way::Joined(builder.build()?),
                _ => return Err(format!("there is no way {way}").into()),
            },
            names: (0..callers)
                .map(|caller| format!("player:{own}:{caller}"))
                .collect(),
        })
    }

    fn run(&mut self, until: Instant) -> Result<Times, Failure> {
        let names = &self.names;
        let each = match &mut self.way {
            Way::Local(handle) => {
                return cycles(until, || {
                    let lock = handle.lock(&names[0], TTL)?;
                    Ok(handle.unlock(lock)?)
                });
            }
            Way::Threads(handle) => threads(names, |name| {
                cycles(until, || Ok(handle.lock(name, TTL)?.unlock()?))
            })?,
            Way::Contention(handle) => threads(names, |_| {
                let options = LockOptions::new(TTL).wait(WAIT);
                cycles(until, || {
                    Ok(handle.lock_with(&names[0], &options)?.unlock()?)
                })
            })?,
            Way::Joined(handle) => {
                let futures = names
                    .iter()
                    .map(|name| awaited(handle.clone(), name.clone(), until));
                futures::executor::block_on(try_join_all(futures))?
            }
        };
        Ok(each.concat())
    }

    /// Lets open work finish, so that the next contestant does not pay for it.
    fn settle(&mut self) -> Result<(), Failure> {
        if let Way::Local(handle) = &mut self.way {
            handle.poll(Some(PAUSE))?;
        } else {
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Calls `cycle` until the time is over, at least once.
fn cycles<T>(
    until: Instant,
    mut cycle: impl FnMut() -> Result<T, Failure>,
) -> Result<Times, Failure> {
    let mut times = Vec::with_capacity(ROOM);
    let mut begun = now();
    loop {
        cycle()?;
        let end = now();
        times.push(nanos(end - begun));
        begun = end;
        if until <= end {
            return Ok(times);
        }
    }
}

/// Does the same as [`cycles`] for calls that are awaited.
async fn awaited(handle: Redlock, name: String, until: Instant) -> Result<Times, Failure> {
    let mut times = Vec::with_capacity(ROOM);
    let mut begun = now();
    loop {
        handle.lock_async(&name, TTL).await?.unlock_async().await?;
        let end = now();
        times.push(nanos(end - begun));
        begun = end;
        if until <= end {
            return Ok(times);
        }
    }
}

/// Runs a caller for each name, on a thread of its own; a single one runs on this thread.
fn threads(
    names: &[String],
    one: impl Fn(&str) -> Result<Times, Failure> + Sync,
) -> Result<Vec<Times>, Failure> {
    if let [name] = names {
        return Ok(vec![one(name)?]);
    }
    thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(move || one(name)))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?);
        joined.collect()
    })
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "to read the clock is what a benchmark is for"
)]
fn now() -> Instant {
    Instant::now()
}
