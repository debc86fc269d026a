//! A machine is suspended: when it runs again, its boot clock (`CLOCK_BOOTTIME`) has jumped, while `CLOCK_MONOTONIC`
//! and every sleep have stood still.
//!
//! The clocks are the kernel's own. In a time namespace the boot clock is shifted against the
//! machine's, and a process of a single thread may change its namespace while it runs: for it, the
//! boot clock jumps by an hour, and no other clock does.
//!
//! A process with an I/O thread cannot do that. Its threads sleep for as long as the driver says, which is tested here,
//! or the lost signal. Unit tests show that neither sleeps for more than 100 ms.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use shearline::engine::Event;
use shearline::{Driver, ExtendError, LocalRedlock, Lock, LockOptions, NodeState};

use crate::face::{at, over};
use crate::fork;
use crate::namespaces::{Namespaces, PROBE, story_to_play};
use crate::processes::{hex, unhex};
use crate::servers::{self, LONG, eventually, until};

const HOUR: Duration = Duration::from_secs(3600);

/// No sleep is longer while a lock is held.
const SLEEP_MAX: Duration = Duration::from_millis(100);

const AHEAD_BY: Duration = Duration::from_secs(100_000);

/// A namespace in which the boot clock is ahead of the machine's by [`AHEAD_BY`].
const AHEAD: Namespaces = Namespaces {
    arguments: &["--time", "--boottime", "100000", "--fork", "--kill-child"],
    inside: "suspend::inside",
};

#[test]
fn validity_uses_a_clock_that_runs_while_the_machine_is_suspended() {
    if !AHEAD.can_be_had() {
        return;
    }
    AHEAD.play("suspend", "");
    handed_over_between_clocks();
}

/// The part of the process in the namespace. Without a story it does nothing.
#[test]
#[ignore = "a part of another test"]
fn inside() {
    let Some((story, input)) = story_to_play() else {
        return;
    };
    match story.as_str() {
        PROBE => in_child(|later| later.begin()),
        "suspend" => suspend(),
        "hand over" => hand_over(&input),
        other => panic!("no such story: {other}"),
    }
}

/// Locks end with the jump, although no timer has fired and no node has answered.
fn suspend() {
    let cluster = servers::three();
    let builder = over(&cluster);
    in_child(move |later| {
        let mut local = builder.build_local().expect("valid");
        let mut driver = builder.build_driver().expect("valid");
        let mut lock = local.lock("local", LONG).expect("free");
        let driven = acquired(&mut driver, "driven");
        let sleep = local.until_deadline().expect("a lock is held");
        let host_sleep = driver.until_deadline().expect("a lock is held");
        assert!(sleep <= SLEEP_MAX && host_sleep <= SLEEP_MAX);
        assert!(lock.is_valid() && driven.is_valid());
        // An answer that is still to come would be an hour late.
        await_answers(&mut local, &mut driver);

        let monotonic = Instant::now();
        later.begin();

        assert!(!lock.is_valid() && !driven.is_valid());
        assert_eq!(lock.validity(), Duration::ZERO);
        let result = local.extend(&mut lock, LONG);
        assert_matches!(result, Err(ExtendError::Expired));
        let result = driver.extend(&driven, LONG);
        assert_matches!(result, Err(ExtendError::Expired));
        // A sleep that was under way at the jump lasts until the end that was computed before.
        thread::sleep(sleep.max(host_sleep));
        let event = local.poll(Some(Duration::ZERO)).expect("the loop turns");
        assert_matches!(event, Some(Event::Expired { lock: id }) if id == lock.id());
        driver.turn(Some(Duration::ZERO)).expect("the loop turns");
        let event = driver.poll_event();
        assert_matches!(event, Some(Event::Expired { lock: id }) if id == driven.id());
        assert!(
            monotonic.elapsed() < LONG,
            "by CLOCK_MONOTONIC it lasts, so this has shown nothing"
        );
        // The nodes measure time by their own clocks, and still have both locks.
        local.unlock(lock).expect("the nodes have it");
        driver.release(driven).expect("the driver is open");
    });
    cluster.assert_empty();
}

/// Takes turns of both until every node has answered everything.
fn await_answers(local: &mut LocalRedlock, driver: &mut Driver) {
    until("all is answered", || {
        let turn = Some(Duration::from_millis(1));
        assert!(local.poll(turn).expect("the loop turns").is_none());
        driver.turn(turn).expect("the loop turns");
        let mut nodes = local.nodes().into_iter().chain(driver.nodes());
        nodes.all(|node| node.state == NodeState::Ready && node.in_flight == 0)
    });
}

/// A lock comes as text from another process, whose clock is ahead: its deadline means nothing here.
fn handed_over_between_clocks() {
    let cluster = servers::three();
    let redlock = over(&cluster).build().expect("valid");
    let file = cluster[0].directory().join("lock");
    let path = file.to_str().expect("a plain path");
    AHEAD.play("hand over", &format!("{} {path}", cluster.urls().join(",")));
    let bytes = unhex(&fs::read_to_string(&file).expect("written"));
    let lock = Lock::from_bytes(&bytes).expect("whole");
    assert_eq!(lock.validity(), Duration::ZERO, "of another clock");
    let mut guard = redlock.adopt(lock);
    guard.confirm().expect("a majority has it");
    assert!(guard.is_valid() && guard.validity() < LONG);
    guard.unlock().expect("held");
    cluster.assert_gone("ahead");
}

/// In its own process the lock is valid, until that process gets another clock.
fn hand_over(input: &str) {
    let (nodes, path) = input.split_once(' ').expect("nodes, and a path");
    let mut local = at(nodes.split(',')).build_local().expect("valid");
    let lock = local.lock("ahead", LONG).expect("free");
    let lock = local.detach(lock);
    let bytes = lock.to_bytes();
    let again = Lock::from_bytes(&bytes).expect("whole");
    assert!(again.is_valid(), "of the same clock");
    fs::write(path, hex(&bytes)).expect("written");
    in_child(move |later| {
        later.begin();
        let again = Lock::from_bytes(&bytes).expect("whole");
        assert_eq!(again.validity(), Duration::ZERO, "of another clock");
    });
}

#[track_caller]
fn acquired(driver: &mut Driver, resource: &str) -> Lock {
    let options = LockOptions::new(LONG);
    let round = driver.acquire(resource.as_bytes(), &options);
    round.expect("there is room");
    eventually("an outcome", || {
        let limit = Some(Duration::from_millis(1));
        driver.turn(limit).expect("the loop turns");
        match driver.poll_event()? {
            Event::Acquired { result, .. } => Some(result.expect("free")),
            other => panic!("{other:?}"),
        }
    })
}

/// A time namespace whose boot clock is an hour ahead of this process's.
struct Later {
    namespace: File,
}

impl Later {
    /// Moves this process, which has one thread, into it.
    #[track_caller]
    fn begin(&self) {
        let clocks = || (read(ClockId::Boottime), read(ClockId::Monotonic));
        let before = clocks();
        let kind = Some(LinkNameSpaceType::Time);
        move_into_link_name_space(self.namespace.as_fd(), kind).expect("one thread, and the right");
        let after = clocks();
        assert!(before.0 + HOUR <= after.0, "the boot clock has jumped");
        assert!(after.1 < before.1 + HOUR, "and no other");
    }
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).expect("since the boot");
    Duration::new(
        seconds,
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

/// Runs `story` in a forked child, which has one thread. A panic there ends the child, and fails
/// the test.
#[track_caller]
fn in_child(mut story: impl FnMut(&Later) + Send + Sync + 'static) {
    let (mut holder, namespace) = hold();
    let later = Later { namespace };
    let story = move || {
        story(&later);
        Ok(())
    };
    fork::in_child(story, || ());
    drop(holder.stdin.take());
    holder.wait().expect("our own child");
}

/// Starts a process that holds such a namespace until its input ends. Returns it and the namespace.
fn hold() -> (Child, File) {
    // The offset counts from the machine's clock, also in a namespace within a namespace.
    let ahead = AHEAD_BY + HOUR;
    let mut holder = Command::new("unshare")
        .args(["--time", "--boottime", &ahead.as_secs().to_string(), "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it was there before");
    let directory = PathBuf::from(format!("/proc/{}", holder.id()));
    eventually("the namespace is made and its clock is set", || {
        let ended = holder.try_wait().expect("our own child");
        assert!(ended.is_none(), "unshare has ended: {ended:?}");
        let name = fs::read_to_string(directory.join("comm")).ok()?;
        (name == "cat\n").then_some(())
    });
    // Kernels differ in whether the program itself is in it.
    let namespace = File::open(directory.join("ns/time_for_children"));
    (holder, namespace.expect("our own child's"))
}
