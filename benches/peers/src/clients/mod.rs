//! The clients: the floor, shearline and others.
//!
//! * [`shearline`](self::shearline) are the faces of this library.
//! * [`rslock`](self::rslock) is a library, [`multiplexed`] what a user of `redis` would write.
//! * [`crowd`] is many callers at once: threads, tasks, futures.

pub mod crowd;
pub mod multiplexed;
pub mod rslock;
pub mod shearline;

use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::cycle::{Caller, Client, Futures, Log, Until, run_calls, run_futures};

/// One caller of blocking calls.
#[derive(Debug)]
pub struct Alone<C>(pub C);

impl<C: Caller> Client for Alone<C> {
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        run_calls(&mut self.0, until, log)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.0.settle()
    }
}

/// One task that awaits futures, on a runtime.
#[derive(Debug)]
pub struct Awaiting<F> {
    /// The runtime.
    pub runtime: Runtime,
    /// The client.
    pub caller: F,
}

impl<F: Futures> Client for Awaiting<F> {
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        let mut own = std::mem::take(log);
        let caller = self.caller.clone();
        // As a task: on a multi-threaded runtime the main thread is not one of its workers.
        let task = async move {
            let ran = run_futures(&caller, until, &mut own).await;
            ran.map(|()| own)
        };
        *log = self.runtime.block_on(self.runtime.spawn(task))??;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        settle(&self.runtime);
        Ok(())
    }
}

/// Lets the tasks of a runtime finish: it does so only while it runs.
fn settle(runtime: &Runtime) {
    runtime.block_on(async { tokio::time::sleep(crate::cycle::PAUSE).await });
}

/// Returns a tokio on this thread, or on as many threads as there are processors.
///
/// # Errors
///
/// The operating system gives no descriptor or thread.
pub fn runtime(threads: bool) -> Result<Runtime, Failure> {
    let mut builder = match threads {
        true => Builder::new_multi_thread(),
        false => Builder::new_current_thread(),
    };
    Ok(builder.enable_all().build()?)
}
