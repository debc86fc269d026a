//! A process forks, and the child cannot use its parent's handle, and does the parent no harm.
//!
//! The child is what `Command::pre_exec` runs between `fork` and `exec`: a process of one thread,
//! with a copy of all memory of the parent.

use std::future::Future as _;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
#[cfg(feature = "embedded")]
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::Wake,
};

use shearline::{ExtendError, LockError, LockGuard, LockOptions, Redlock, UnlockError, Watch};

use crate::face::{over, shared};
use crate::servers::{self, LONG, Raw, until};

/// Runs `story` in a forked child, which must succeed. Then runs `after`, while the parent still
/// has its handles.
#[track_caller]
pub(crate) fn in_child(
    mut story: impl FnMut() -> Result<(), &'static str> + Send + Sync + 'static,
    after: impl FnOnce(),
) {
    let mut command = Command::new("true");
    // SAFETY: The child runs no other thread. Another thread may have held locks at the fork. Of those, the child takes
    // only the allocator's, which the C library handles.
    unsafe {
        // Of an error, only its number comes back to the parent.
        command.pre_exec(move || {
            story()
                .inspect_err(|why| eprintln!("{why}"))
                .map_err(io::Error::other)
        });
    }
    let mut child = command
        .spawn()
        .expect("the child found all as it should be");
    assert!(child.wait().expect("our own child").success());
    after();
}

fn calls_are_refused(
    redlock: &Redlock,
    watch: &mut Watch,
    guards: &mut Vec<LockGuard>,
) -> Result<(), &'static str> {
    if !watch.is_closed() || watch.next(LONG).is_some() {
        return Err("a child is told of no change");
    }
    if !matches!(redlock.try_lock("child", LONG), Err(LockError::Forked)) {
        return Err("a child may not lock");
    }
    let mut guard = guards.pop().ok_or("two guards")?;
    if !matches!(guard.extend(LONG), Err(ExtendError::Forked)) {
        return Err("a child may not extend");
    }
    if !matches!(guard.confirm(), Err(ExtendError::Forked)) {
        return Err("a child may not confirm");
    }
    if !guard.lost().is_lost() || !guard.lost().wait(LONG) {
        return Err("to a child, a lock is lost");
    }
    if !guard.at_risk().is_at_risk() || !guard.at_risk().wait(LONG) {
        return Err("to a child, a lock is at risk");
    }
    if !guard.health().validity.is_zero() || !guard.health().confirmed_by.is_empty() {
        return Err("a child knows nothing of a lock");
    }
    if !matches!(guard.unlock(), Err(UnlockError::Forked)) {
        return Err("a child may not unlock");
    }
    Ok(())
}

#[test]
fn a_forked_child_is_refused_and_releases_no_lock_of_its_parent() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let keys = ["fork:0", "fork:1"];
    let mut guards: Vec<_> = keys
        .iter()
        .map(|key| redlock.try_lock(key, LONG).expect("free"))
        .collect();
    let watch = redlock.watch("fork:0").expect("asked");
    assert!(!watch.is_closed());
    let mut handles = Some((redlock.clone(), watch));
    let story = move || {
        let (redlock, mut watch) = handles.take().ok_or("a handle")?;
        calls_are_refused(&redlock, &mut watch, &mut guards)?;
        // The child drops its copies here: a guard, and two handles.
        drop((guards.pop(), redlock, watch));
        Ok(())
    };
    in_child(story, || {
        for key in keys {
            assert!(cluster.copies(key) >= 2, "the child released nothing");
        }
        let guard = redlock.try_lock("parent", LONG).expect("it goes on");
        guard.unlock().expect("held");
    });
    // The parent's copies were dropped with the story.
    cluster.assert_empty();
}

/// The child drops its copies of the last handles, without waiting for a thread and without sending anything.
#[test]
fn a_forked_child_drops_the_last_handles_without_waiting() {
    let cluster = servers::three();
    for _ in 0..5 {
        let guard = shared(&cluster).try_lock("shared", LONG).expect("free");
        let mut local = over(&cluster).build_local().expect("valid");
        let lock = local.try_lock("local", LONG).expect("free");
        let lost = guard.lost();
        let mut building = over(&cluster).build_async();
        let mut context = Context::from_waker(Waker::noop());
        assert!(building.as_mut().poll(&mut context).is_pending());
        let mut all = Some((guard, local, building));
        let story = move || {
            let (_, _, building) = all.as_mut().ok_or("a future")?;
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(Err(_)) = building.as_mut().poll(&mut context) else {
                return Err("a child may not wait for a handle of its parent");
            };
            drop(all.take());
            Ok(())
        };
        in_child(story, || {
            assert!(cluster.copies("shared") >= 2, "the child released nothing");
            assert!(!lost.is_lost());
        });
        // The parent's copies were dropped with the story: the guard released, the plain lock did
        // not.
        cluster.assert_gone("shared");
        assert!(cluster.copies("local") >= 2, "plain locks stay");
        let mut local = over(&cluster).build_local().expect("valid");
        local.unlock(lock).expect("held");
    }
    cluster.assert_empty();
}

/// A child drops its copy of a lock. This drop ends no lock, and the parent continues to extend its own lock. A lock
/// that the parent has released is gone.
#[test]
fn a_forked_child_neither_keeps_nor_ends_a_lock_that_its_parent_keeps() {
    /// The lock is extended when half of it is over; the other half is a reserve for busy machines.
    const TTL: Duration = Duration::from_secs(6);
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let kept = LockOptions::new(TTL).keep();
    let guard = redlock.lock_with("kept", &kept).expect("free");
    let mut copy = Some(redlock.lock_with("copy", &kept).expect("free"));
    let addresses: Vec<_> = cluster.iter().map(servers::Server::address).collect();
    let story = move || {
        let connect = |address: &_| Raw::connect(*address).map_err(|_| "a server listens");
        let mut raws = addresses
            .iter()
            .map(connect)
            .collect::<Result<Vec<_>, _>>()?;
        let mut are_extended = |key: &[u8]| {
            let mut left = vec![i64::MAX; raws.len()];
            until("it is extended", || {
                let before = left.clone();
                left = raws.iter_mut().map(|raw| raw.pttl(key)).collect();
                let later = before
                    .iter()
                    .zip(&left)
                    .filter(|(before, left)| before < left);
                2 <= later.count()
            });
        };
        are_extended(b"kept");
        drop(copy.take());
        Ok(())
    };
    in_child(story, || {
        assert!(cluster.copies("kept") >= 2 && cluster.copies("copy") >= 2);
        guard.unlock().expect("held");
    });
    // The parent's copy was dropped with the story, and the child has ended.
    cluster.assert_gone("copy");
    cluster.assert_empty();
}

/// A waker that records a call in a forked child. In the parent it blocks until the gate opens.
#[cfg(feature = "embedded")]
struct Gate {
    parent: u32,
    begun: AtomicBool,
    open: AtomicBool,
    called_in_child: AtomicBool,
}

#[cfg(feature = "embedded")]
impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        if std::process::id() != self.parent {
            // A waker of an executor locks a mutex here, which a thread of the parent may have locked at the fork.
            self.called_in_child.store(true, SeqCst);
            return;
        }
        self.begun.store(true, SeqCst);
        while !self.open.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The other tasks belong to executors of the parent, whose threads do not exist in the child.
#[cfg(feature = "embedded")]
#[test]
fn a_task_that_is_polled_in_a_forked_child_wakes_no_task_of_its_parent() {
    let node = shearline::embedded::EmbeddedNode::spawn().expect("it starts");
    let patience = Duration::from_secs(10);
    let builder = Redlock::builder().node(node.url()).node_timeout(patience);
    let redlock = builder.build().expect("valid");
    drop(redlock.try_lock("ready", LONG).expect("free"));
    let gate = |_| Gate {
        parent: std::process::id(),
        begun: AtomicBool::new(false),
        open: AtomicBool::new(false),
        called_in_child: AtomicBool::new(false),
    };
    let gates: Vec<_> = (0..40).map(gate).map(Arc::new).collect();
    node.pause().expect("it pauses");
    let begin = |(place, gate): (usize, &Arc<Gate>)| {
        let mut task = Box::pin(redlock.lock_async(format!("task:{place}"), LONG));
        let waker = Waker::from(Arc::clone(gate));
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        task
    };
    let mut tasks: Vec<_> = gates.iter().enumerate().map(begin).collect();
    // All outcomes come together, so the I/O thread wakes the first task, and leaves the others to the relay.
    node.resume().expect("it resumes");
    let has_begun = || gates.iter().any(|gate| gate.begun.load(SeqCst));
    until("the I/O thread wakes a task", has_begun);
    let (mut task, all) = (tasks.pop(), gates.clone());
    let story = move || {
        let mut task = task.take().ok_or("a task")?;
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if !matches!(polled, Poll::Ready(Err(LockError::Forked))) {
            return Err("a child may not lock");
        }
        match all.iter().any(|gate| gate.called_in_child.load(SeqCst)) {
            true => Err("the child has called the wakers of its parent's tasks"),
            false => Ok(()),
        }
    };
    let checked = catch_unwind(AssertUnwindSafe(|| in_child(story, || {})));
    gates.iter().for_each(|gate| gate.open.store(true, SeqCst));
    drop(tasks);
    assert!(checked.is_ok(), "the child failed");
}
