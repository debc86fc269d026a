//! The clients: the floor, shearline and others.
//!
//! * [`shearline`](self::shearline) are the faces of this library.
//! * [`rslock`](self::rslock) is a library, [`multiplexed`] what a user of `redis` would write.
//! * [`crowd`] is one caller or many at once: threads, tasks, futures.

pub mod crowd;
pub mod multiplexed;
pub mod rslock;
pub mod shearline;

use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::cycle::{Caller, Client, Log, Until, run_calls};

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

/// Returns a tokio runtime on this thread, or on as many threads as there are processors.
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
