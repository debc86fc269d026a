//! Signals that ask a command to end while it waits.
//!
//! A command that dies at once would leave what its last attempt has written on the nodes until it
//! expires. So the wait ends, what was taken is released, and then the command ends by that signal.
//! A signal that was ignored when the program was started stays ignored (`nohup`).

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::status::Status;

/// A signal is seen this late at most. It does not end a wait by itself.
const LOOK: Duration = Duration::from_millis(50);

/// The signals that came.
#[derive(Debug)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGHUP, SIGINT, SIGTERM]
            .into_iter()
            .filter(|signal| !is_ignored(*signal))
        {
            let number = usize::try_from(signal).unwrap_or_default();
            let caught = signal_hook::flag::register_usize(signal, Arc::clone(&last), number);
            caught
                .map_err(|error| Failure::new(Status::Failure, format_args!("signals: {error}")))?;
        }
        Ok(Self(last))
    }

    /// Returns the failure of a command that was asked to end, if it was.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.load(SeqCst) {
            0 => Ok(()),
            number => Err(Failure::by_signal(u8::try_from(number).unwrap_or_default())),
        }
    }

    /// Waits for the future, or for a signal: then the future is dropped.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            self.check()?;
            thread::park_timeout(LOOK);
        }
    }
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns `true` if the signal is ignored: before a handler is registered, if this process was started so.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let place = u32::try_from(signal - 1).ok();
    let bit = place.and_then(|place| 1_u64.checked_shl(place));
    bits.unwrap_or_default() & bit.unwrap_or_default() != 0
}
