//! Elections on real servers: the leaders, the reports of observers, and the death of a leader.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use shearline::{
    Leader, Leadership, LockError, LockOptions, Observation, Observer, OperatorError, Redlock,
};

use crate::executor::block_on;
use crate::face::{over, shared};
use crate::fencing::trusted;
use crate::processes::{start, tell_and_hang};
use crate::scene::clusters;
use crate::servers::{Cluster, LONG, eventually};

const MINUTE: Duration = Duration::from_secs(60);

/// A ttl that is long enough for a busy machine to extend it, and short enough to wait for its end.
const TTL: Duration = Duration::from_secs(2);

const NAME: &str = "election";

/// Plays the part of a process that leads until it is killed. It writes its term into `file`.
pub(crate) fn lead(redlock: &Redlock, file: &Path) {
    let leadership = redlock.campaign(NAME, "the first", TTL).expect("elected");
    tell_and_hang(file, &leadership.term().to_string());
}

/// Returns the next leader that the observer reports, and skips other reports. Asserts that terms do not fall.
#[track_caller]
fn next_leader(observer: &mut Observer, after: u64) -> Leader {
    loop {
        if let Some(leader) = observer.next(MINUTE).expect("it changes") {
            assert!(after < leader.term, "{leader:?} after term {after}");
            return leader;
        }
    }
}

#[track_caller]
fn leads(observer: &mut Observer, owner: &str, leadership: &Leadership, after: u64) -> u64 {
    let leader = next_leader(observer, after);
    assert_eq!(
        (&*leader.owner, leader.term),
        (owner.as_bytes(), leadership.term())
    );
    leader.term
}

#[test]
fn a_leader_that_is_killed_is_followed_by_the_next_one() {
    not_with!(NoScripts, "elections need scripts");
    let cluster = Cluster::start(3);
    let redlock = trusted(&cluster);
    let mut observer = redlock.observe(NAME).expect("a good name");
    assert_eq!(observer.next(MINUTE), Some(None));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("term");
    let mut process = start("campaign", &cluster, file.to_str().expect("a plain path"));
    let first = next_leader(&mut observer, 0);
    let term = eventually("it knows its term", || fs::read_to_string(&file).ok());
    assert_eq!(
        (&*first.owner, first.term.to_string()),
        (&b"the first"[..], term)
    );

    let next = redlock.clone();
    let campaign = thread::spawn(move || next.campaign(NAME, "the second", TTL));
    assert_eq!(observer.next(TTL), None, "the first is still there");
    process.kill().expect("our own child");
    process.wait().expect("it is dead");
    let second = campaign
        .join()
        .expect("it does not panic")
        .expect("elected");
    let term = leads(&mut observer, "the second", &second, first.term);

    // One node is gone, and nothing changes for observers.
    second.resign().expect("held");
    assert_eq!(observer.next(MINUTE), Some(None));
    let third = redlock.campaign(NAME, "the third", LONG).expect("elected");
    leads(&mut observer, "the third", &third, term);
    drop(third);
    assert_eq!(observer.next(MINUTE), Some(None));
}

#[test]
fn leaders_follow_each_other_through_every_face() {
    not_with!(NoScripts, "elections need scripts");
    for cluster in clusters() {
        let redlock = trusted(&cluster);
        let other = shared(&cluster);
        let mut observer = other.observe(NAME).expect("a good name");
        assert_eq!(block_on(observer.changed()), Some(None));

        let first = block_on(redlock.campaign_async(NAME, "a", LONG)).expect("elected");
        let term = leads(&mut observer, "a", &first, 0);
        let once = LockOptions::new(LONG).tries(1);
        let refused = other.campaign_with(NAME, "b", &once);
        assert_matches!(refused, Err(LockError::Held(_)));
        assert!(!first.lost().is_lost() && !first.at_risk().is_at_risk());
        assert!(first.health().validity <= LONG);
        block_on(first.unlock_async()).expect("held");
        assert_eq!(observer.next(MINUTE), Some(None));

        let mut local = over(&cluster).build_local().expect("a good configuration");
        let lock = local.campaign(NAME, "", LONG).expect("elected");
        assert_eq!(
            lock.fencing_token(),
            Some(next_leader(&mut observer, term).term)
        );
        local.unlock(lock).expect("held");
        assert_eq!(observer.next(MINUTE), Some(None));
    }
}

/// An observer without a thread learns what has changed since its last call, and keeps its own locks meanwhile.
#[test]
fn an_observer_without_a_thread_is_told_the_same() {
    not_with!(NoScripts, "elections need scripts");
    for cluster in clusters() {
        let redlock = trusted(&cluster);
        let mut local = over(&cluster).build_local().expect("a good configuration");
        let mut seen = Observation::of(NAME);
        assert_eq!(local.observe(&mut seen, MINUTE).expect("asked"), Some(None));
        let first = redlock.campaign(NAME, "a", LONG).expect("elected");
        let told = local.observe(&mut seen, MINUTE).expect("asked");
        let leader = |owner: &str, term| {
            let owner = owner.as_bytes().to_vec();
            Some(Some(Leader { owner, term }))
        };
        assert_eq!(told, leader("a", first.term()));
        let kept = LockOptions::new(TTL).keep();
        let own = local.lock_with("its own", &kept).expect("free");
        assert_eq!(local.observe(&mut seen, 2 * TTL).expect("asked"), None);
        assert!(own.is_valid(), "it was extended meanwhile");
        local.unlock(own).expect("held");

        // The observer learns of a change while it waits.
        let next = thread::spawn(move || {
            first.resign().expect("held");
            thread::sleep(TTL / 2);
            redlock.campaign(NAME, "b", LONG).expect("elected")
        });
        assert_eq!(local.observe(&mut seen, MINUTE).expect("asked"), Some(None));
        let told = local.observe(&mut seen, MINUTE).expect("asked");
        let second = next.join().expect("it does not panic");
        assert_eq!(told, leader("b", second.term()));

        // Too few nodes answer, so nothing changes. Then there is no leader.
        (0..2).for_each(|node| cluster[node].freeze());
        assert_eq!(local.observe(&mut seen, TTL / 2).expect("asked"), None);
        (0..2).for_each(|node| cluster[node].thaw());
        second.resign().expect("held");
        assert_eq!(local.observe(&mut seen, MINUTE).expect("asked"), Some(None));
        let invalid = local.observe(&mut Observation::of(""), MINUTE);
        assert_matches!(invalid, Err(OperatorError::Invalid(_)));
    }
}
