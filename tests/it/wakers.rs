//! A lost signal whose waker blocks delays only its own task. (Those of calls are told by
//! `shared::tests::batches`.)

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use shearline::{LockGuard, Redlock, Retry};

use crate::executor::{all, block_on};
use crate::face::over;
use crate::servers::{self, Cluster, LONG, eventually};

/// The ttl of a lock whose end is waited for, which begins in time on any machine.
const BRIEF: Duration = Duration::from_millis(1_500);

/// A waker that does not return before its gate is opened.
#[derive(Default)]
struct Blocks {
    called: AtomicUsize,
    gate: Mutex<()>,
}

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.called.fetch_add(1, Ordering::SeqCst);
        drop(
            self.gate
                .lock()
                .expect("no thread panics while it holds this"),
        );
    }
}

impl Blocks {
    fn await_called(&self) {
        eventually("the waker is called", || {
            (self.called.load(Ordering::SeqCst) != 0).then_some(())
        });
    }
}

fn handle(cluster: &Cluster) -> Redlock {
    let delay = Duration::from_millis(1)..=Duration::from_millis(3);
    let builder = over(cluster).retry(Retry::new(u32::MAX, delay));
    builder.build().expect("a good configuration")
}

/// All work of others with the handle ends, while the waker still blocks.
fn others_go_on(redlock: &Redlock, held: LockGuard) {
    let lost = eventually("it is free", || redlock.try_lock("short", BRIEF).ok());
    let (signal, done) = (lost.lost(), Arc::new(AtomicBool::new(false)));
    let work = {
        let (redlock, done) = (redlock.clone(), Arc::clone(&done));
        move || {
            thread::scope(|scope| {
                for key in 0..4 {
                    let redlock = &redlock;
                    scope.spawn(move || {
                        for _ in 0..10 {
                            let mut guard = redlock.lock(format!("{key}"), LONG).expect("free");
                            guard.extend(LONG).expect("held");
                            let _ = guard.unlock().expect("held");
                        }
                    });
                }
                scope.spawn(|| {
                    let tasks = (0..20).map(|task| {
                        let redlock = &redlock;
                        async move {
                            let name = format!("task {task}");
                            let guard = redlock.lock_async(name, LONG).await.expect("free");
                            let _ = guard.unlock_async().await.expect("held");
                        }
                    });
                    block_on(all(tasks));
                });
                scope.spawn(|| block_on(signal));
            });
            drop(held);
            done.store(true, Ordering::SeqCst);
        }
    };
    let working = thread::spawn(work);
    eventually("the others go on", || {
        done.load(Ordering::SeqCst).then_some(())
    });
    working.join().expect("all was as it should be");
    drop(lost);
}

/// A blocking call of another thread, which has nothing to do with the task, delivers the signal
/// and calls its waker.
#[test]
fn a_lost_signal_whose_waker_blocks_does_not_delay_the_call_that_delivers_it() {
    let cluster = servers::three();
    let redlock = handle(&cluster);
    let held = redlock.try_lock("held", LONG).expect("free");
    let blocks = Arc::new(Blocks::default());
    let gate = blocks
        .gate
        .lock()
        .expect("no thread panics while it holds this");
    let waker = Waker::from(Arc::clone(&blocks));
    let short = eventually("it is free", || redlock.try_lock("signal", BRIEF).ok());
    let mut signal = pin!(short.lost());
    let polled = signal.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending(), "it is held");
    // This thread drives, and so finds that the other lock is lost.
    let waiting = {
        let redlock = redlock.clone();
        thread::spawn(move || drop(redlock.lock("held", LONG).expect("in its turn")))
    };
    blocks.await_called();
    others_go_on(&redlock, held);
    eventually("the caller has its lock", || {
        waiting.is_finished().then_some(())
    });
    drop(gate);
    drop(short);
    drop(redlock);
    cluster.assert_empty();
}
