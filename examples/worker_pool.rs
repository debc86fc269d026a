//! Jobs of several programs share three machines. Each job needs a permit. Each permit has a slot with its own number.
//!
//! At most three jobs run at the same time. A job runs on the machine with the number of its slot, so no other job runs
//! there at the same time. In this example, two handles with several threads stand for the programs. The handle keeps a
//! permit for as long as its job takes. A job stops if its permit is lost.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use shearline::{LockError, LockOptions, Redlock};

mod nodes;

const MACHINES: usize = 3;
const WORKERS: usize = 8;
const JOBS: u64 = 5;

#[derive(Default)]
struct Machine {
    is_busy: AtomicBool,
    jobs: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let pool = format!("machines:{}", std::process::id());
    let machines: [Machine; MACHINES] = Default::default();
    let handles = [
        Redlock::connect(&nodes.urls)?,
        Redlock::connect(&nodes.urls)?,
    ];
    let ends: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .zip(handles.iter().cycle())
            .map(|(_, redlock)| scope.spawn(|| work(redlock, &pool, &machines)))
            .collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    for end in ends {
        end.map_err(|_| "two jobs were on one machine")??;
    }
    let jobs = machines.each_ref().map(|machine| machine.jobs.load(SeqCst));
    println!("jobs of each machine: {jobs:?}");
    match jobs.iter().sum::<u64>() == WORKERS as u64 * JOBS {
        true => Ok(()),
        false => Err("jobs were stopped, because their permits were lost".into()),
    }
}

fn work(redlock: &Redlock, pool: &str, machines: &[Machine]) -> Result<(), LockError> {
    let options = LockOptions::new(Duration::from_secs(10)).keep();
    let options = options.wait(Duration::from_secs(60));
    for _ in 0..JOBS {
        // All programs must use the same number of permits.
        let permit = redlock.permit_with(pool, machines.len() as u16, &options)?;
        let machine = &machines[usize::from(permit.slot())];
        let was_busy = machine.is_busy.swap(true, SeqCst);
        assert!(!was_busy, "another job is on this machine");
        // The job takes two milliseconds, and stops earlier if its permit is lost.
        let is_lost = permit.lost().wait(Duration::from_millis(2));
        machine.jobs.fetch_add(u64::from(!is_lost), SeqCst);
        machine.is_busy.store(false, SeqCst);
    }
    Ok(())
}
