//! Many callers at once, each with a lock of its own.

use std::sync::Mutex;
use std::thread;

use futures::executor::block_on;
use futures::future::try_join_all;
use tokio::runtime::Runtime;

use crate::Failure;
use crate::cycle::{Caller, Client, Futures, Log, PAUSE, Until, run_calls, run_futures};

/// Threads that call and block. They are started for each turn, which costs about a hundredth of
/// it, the same for all.
#[derive(Debug)]
pub struct Threads<C> {
    /// One for each thread.
    pub callers: Vec<C>,
    /// Kept alive for them.
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

/// Room for the cycles of a caller in a turn.
const ROOM: usize = 4096;

/// Tasks on a runtime.
#[derive(Debug)]
pub struct Tasks<F> {
    /// The runtime.
    pub runtime: Runtime,
    /// One for each task.
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
        // It goes on only while it runs.
        self.runtime
            .block_on(async { tokio::time::sleep(PAUSE).await });
        Ok(())
    }
}

/// Futures on one thread without a runtime: it parks when none can go on.
#[derive(Debug)]
pub struct Joined<F> {
    /// One for each future.
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

/// Returns names for so many locks of one client.
#[must_use]
pub fn names(client: &str, count: usize) -> Vec<String> {
    (0..count).map(|lock| format!("{client}:{lock}")).collect()
}

/// Returns so many callers like this one, each with its own lock.
#[must_use]
pub fn crowd<F: Futures>(one: &F, client: &str, count: usize) -> Vec<F> {
    let names = names(client, count);
    names.iter().map(|name| one.named(name)).collect()
}
