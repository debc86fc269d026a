//! Renewals on raw sockets: a thread that knows what is due, sends it in each millisecond, and waits for the
//! answers. To one node after the other, as the handle does, or to all at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::cycle::now;
use shearline_peers::floor::{Commands, Sockets, Step, extend_together};

use crate::kept;

const TICK: Duration = Duration::from_millis(1);

/// To which nodes it sends at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    AllAtOnce,
    OneByOne,
}

/// Locks are taken and released this many at a time.
const WAVE: usize = 1_000;

/// A thread that extends locks until it is told to end.
#[derive(Debug)]
pub(crate) struct Renewals {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<f64, String>>,
}

impl Renewals {
    /// Takes so many locks, and begins to extend so many of them in a second.
    pub(crate) fn begin(
        addresses: &[SocketAddr],
        locks: usize,
        rate: f64,
        order: Order,
    ) -> Result<Self, Failure> {
        let (mut sockets, scripts) = Sockets::connect(addresses)?;
        // As long as those that a handle keeps.
        let names = (0..locks).map(|index| kept::name(index).replace("account", "renewal"));
        let names: Vec<String> = names.collect();
        let locks = names.iter().map(|name| Commands::new(&scripts, name));
        let locks: Vec<Commands> = locks.collect();
        each(&mut sockets, &locks, Step::Acquire)?;
        let together = (rate * TICK.as_secs_f64()) as usize;
        let batches = names.chunks_exact(together);
        let commands: Vec<_> = batches
            .map(|names| extend_together(&scripts, names))
            .collect();
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let rate = extend(&mut sockets, &commands, together, order, &ended);
            let released = each(&mut sockets, &locks, Step::Release);
            rate.and_then(|rate| released.map(|()| rate))
                .map_err(|error| error.to_string())
        });
        Ok(Self { over, thread })
    }

    /// Ends and releases them, and returns how many there were in a second.
    pub(crate) fn end(self) -> Result<f64, Failure> {
        self.over.store(true, Ordering::Relaxed);
        let rate = self.thread.join().map_err(|_| "the bare loop panicked")?;
        Ok(rate?)
    }
}

/// Sends one command after another, of so many locks each, and returns how many were extended in a second.
fn extend(
    sockets: &mut Sockets,
    commands: &[Vec<u8>],
    together: usize,
    order: Order,
    over: &AtomicBool,
) -> Result<f64, Failure> {
    let (begin, mut sent) = (now(), 0);
    while !over.load(Ordering::Relaxed) {
        thread::sleep(TICK);
        let due = (begin.elapsed().as_secs_f64() / TICK.as_secs_f64()) as usize;
        let bytes: Vec<_> = (sent..due)
            .flat_map(|turn| commands[turn % commands.len()].clone())
            .collect();
        let lines = (due - sent) * (together + 1);
        match order {
            Order::AllAtOnce => send(sockets, &bytes, lines)?,
            Order::OneByOne => send_one_by_one(sockets, &bytes, lines)?,
        }
        sent = due;
    }
    Ok((sent * together) as f64 / begin.elapsed().as_secs_f64())
}

/// Does this with each of the locks.
fn each(sockets: &mut Sockets, locks: &[Commands], step: Step) -> Result<(), Failure> {
    for wave in locks.chunks(WAVE) {
        let bytes: Vec<_> = wave.iter().map(|lock| lock.bytes(step).to_vec()).collect();
        send(sockets, &bytes.concat(), wave.len())?;
    }
    Ok(())
}

/// Sends this to one node, waits for so many lines, and sends it to the next.
fn send_one_by_one(sockets: &mut Sockets, bytes: &[u8], lines: usize) -> Result<(), Failure> {
    for node in 0..sockets.len() {
        sockets.write_to(node, bytes)?;
        let mut open = lines;
        while open != 0 {
            sockets.wait(false, |_, answers| open -= answers)?;
        }
    }
    Ok(())
}

/// Sends this to each node in one write, and waits for so many lines of each.
fn send(sockets: &mut Sockets, bytes: &[u8], lines: usize) -> Result<(), Failure> {
    sockets.write(bytes)?;
    let mut open = lines * sockets.len();
    while open != 0 {
        sockets.wait(false, |_, answers| open -= answers)?;
    }
    Ok(())
}
