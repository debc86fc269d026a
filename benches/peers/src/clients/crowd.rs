//! Many callers at once, each with a lock of its own.

use std::sync::Mutex;
use std::thread;

use futures::executor::block_on;
use futures::future::try_join_all;
use tokio::runtime::Runtime;

use crate::Failure;
use crate::cycle::{Caller, Client, Futures, Log, PAUSE, Until, run_calls, run_futures};

/// Threads that call and block. They are started for each turn. That costs about a hundredth of the turn, the same for
/// all clients.
#[derive(Debug)]
pub struct Threads<C> {
    /// One caller for each thread.
    pub callers: Vec<C>,
    /// A value that the callers need to stay alive.
    pub keep: Option<crate::floor::threads::Post>,
}

impl<C: Caller + Send> Client for Threads<C> {
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        let share = until.share(self.callers.len() as u64);
        let all = Mutex::new(log);
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .callers
                .iter_mut()
                .map(|caller| {
                    let all = &all;
                    scope.spawn(move || {
                        let mut log = Log::with_capacity(ROOM);
                        run_calls(caller, share, &mut log)?;
                        all.lock().map_err(|_| "another panicked")?.merge(&log);
                        Ok::<_, Failure>(())
                    })
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })
    }
}

/// How many cycles of a caller fit into the record of a turn.
const ROOM: usize = 4096;

/// Tasks on a runtime.
#[derive(Debug)]
pub struct Tasks<F> {
    /// The runtime.
    pub runtime: Runtime,
    /// One caller for each task.
    pub callers: Vec<F>,
}

impl<F: Futures> Client for Tasks<F> {
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        let share = until.share(self.callers.len() as u64);
        let tasks: Vec<_> = self
            .callers
            .iter()
            .map(|caller| {
                let caller = caller.clone();
                self.runtime.spawn(async move {
                    let mut log = Log::with_capacity(ROOM);
                    let ran = run_futures(&caller, share, &mut log).await;
                    ran.map(|()| log)
                })
            })
            .collect();
        self.runtime.block_on(async {
            for task in tasks {
                log.merge(&task.await??);
            }
            Ok(())
        })
    }

    fn settle(&mut self) -> Result<(), Failure> {
        // The runtime makes progress only while it runs.
        self.runtime
            .block_on(async { tokio::time::sleep(PAUSE).await });
        Ok(())
    }
}

/// Futures on one thread without a runtime: it parks when none can make progress.
#[derive(Debug)]
pub struct Joined<F> {
    /// One caller for each future.
    pub callers: Vec<F>,
}

impl<F: Futures> Client for Joined<F> {
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        let share = until.share(self.callers.len() as u64);
        let futures = self.callers.iter().map(|caller| async move {
            let mut log = Log::with_capacity(ROOM);
            let ran = run_futures(caller, share, &mut log).await;
            ran.map(|()| log)
        });
        for own in block_on(try_join_all(futures))? {
            log.merge(&own);
        }
        Ok(())
    }
}

/// Returns names for this many locks of one client.
#[must_use]
pub fn names(client: &str, count: usize) -> Vec<String> {
    (0..count).map(|lock| format!("{client}:{lock}")).collect()
}

/// Returns this many callers like this one, each with its own lock.
#[must_use]
pub fn crowd<F: Futures>(one: &F, client: &str, count: usize) -> Vec<F> {
    let names = names(client, count);
    names.iter().map(|name| one.named(name)).collect()
}
