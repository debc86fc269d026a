//! Confirmations: how long a majority keeps a lock, also one that another process took, or that was
//! written down before the last boot.

use std::time::Duration;

use shearline::{ConfirmError, ExtendError, Lock, NodeOutcome, Redlock};

use crate::executor::block_on;
use crate::face::{Face, Held, Which, await_ready, over, shared};
use crate::processes::{finish, hex, start, unhex};
use crate::servers::{self, BRIEF, Cluster, LONG, PATIENCE, SILENT, eventually};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_confirmation_finds_how_long_a_majority_keeps_the_lock() {
    story(&servers::three());
}

pub(crate) fn story(cluster: &Cluster) {
    for which in Which::BOTH {
        let key = which.key("keeps");
        let mut face = which.build(over(cluster));
        face.await_ready();
        let mut lock = face.try_lock(&key, LONG).expect("free");
        all_have(cluster, &mut face, &key, 3);
        face.confirm(&mut lock).expect("held");
        assert!(MINUTE < lock.validity() && lock.validity() < LONG);
        // One copy that ends earlier shortens nothing. Two copies without an expiry prolong
        // nothing.
        let shorten = |node: usize, millis: &str| {
            let command = [b"PEXPIRE", key.as_bytes(), millis.as_bytes()];
            assert_eq!(cluster[node].raw().integer(&command), 1);
        };
        shorten(0, "30000");
        for server in &cluster[1..] {
            let command = [&b"PERSIST"[..], key.as_bytes()];
            assert_eq!(server.raw().integer(&command), 1);
        }
        face.confirm(&mut lock).expect("held");
        assert!(MINUTE < lock.validity() && lock.validity() < LONG);
        // A majority that ends earlier ends the lock earlier.
        shorten(1, "30000");
        face.confirm(&mut lock).expect("held");
        assert!(lock.is_valid() && lock.validity() < MINUTE / 2);
        face.extend(&mut lock, LONG).expect("held");
        assert!(MINUTE < lock.validity());
        face.unlock(lock).expect("held");
        face.assert_gone(cluster, &key);
    }
}

#[test]
fn the_loss_is_reported_at_the_end_that_was_confirmed() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    await_ready(|| redlock.nodes());
    let mut guard = redlock.try_lock("earlier", LONG).expect("free");
    eventually("all three have it", || {
        (cluster.copies("earlier") == 3).then_some(())
    });
    let lost = guard.lost();
    let millis = BRIEF.as_millis().to_string();
    for raw in &mut cluster.raws() {
        let command = [&b"PEXPIRE"[..], b"earlier", millis.as_bytes()];
        assert_eq!(raw.integer(&command), 1);
    }
    assert!(!lost.is_lost(), "the nodes were not asked");
    let waiting = lost.clone();
    let waiter = std::thread::spawn(move || waiting.wait(LONG));
    block_on(guard.confirm_async()).expect("held");
    block_on(lost);
    assert!(waiter.join().expect("reported"));
    let result = guard.confirm();
    assert!(matches!(result, Err(ConfirmError::Expired)), "{result:?}");
}

#[test]
fn a_lock_that_a_majority_misses_is_lost() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("missed");
        let mut face = which.build(over(&cluster));
        face.await_ready();
        let mut lock = face.try_lock(&key, LONG).expect("free");
        all_have(&cluster, &mut face, &key, 3);
        assert!(cluster[0].raw().del(key.as_bytes()));
        cluster[1].raw().set_px(key.as_bytes(), b"foreign", LONG);
        let result = face.confirm(&mut lock);
        let Err(ConfirmError::Lost(report)) = result else {
            panic!("a majority lost it, but: {result:?}");
        };
        assert_eq!(report.nodes()[0].outcome, NodeOutcome::Missing);
        assert_eq!(report.nodes()[1].outcome, NodeOutcome::Held);
        assert!(!lock.is_valid());
        let again = face.confirm(&mut lock);
        assert!(matches!(again, Err(ConfirmError::Expired)), "{again:?}");
        // The remaining copy is released; the stranger's is not touched.
        let foreign = Some(b"foreign".to_vec());
        eventually("the remaining copy is released", || {
            face.settle();
            (cluster.values(&key) == [None, foreign.clone(), None]).then_some(())
        });
    }
}

#[test]
fn too_few_answers_leave_the_lock_as_it_was() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("few");
        let mut face = which.build(over(&cluster).node_timeout(SILENT));
        face.await_ready();
        let mut lock = face.try_lock(&key, LONG).expect("free");
        all_have(&cluster, &mut face, &key, 3);
        cluster[2].freeze();
        face.confirm(&mut lock).expect("two of three");
        cluster[1].freeze();
        let result = face.confirm(&mut lock);
        assert!(
            matches!(result, Err(ConfirmError::Unconfirmed(_))),
            "{result:?}"
        );
        assert!(MINUTE < lock.validity(), "it stands");
        cluster[1].thaw();
        cluster[2].thaw();
        face.unlock(lock).expect("they answer again");
        face.assert_gone(&cluster, &key);
    }
}

#[test]
fn a_lock_from_before_the_last_boot_is_valid_again() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("boot");
        let mut face = which.build(over(&cluster));
        let lock = handed_over(&shared(&cluster), &key);
        let mut lock = face.adopt(lock);
        if let Held::Guard(guard) = &lock {
            assert!(!guard.lost().wait(Duration::ZERO), "the end is not known");
        }
        assert!(!lock.is_valid());
        let result = face.extend(&mut lock, LONG);
        assert!(matches!(result, Err(ExtendError::Expired)), "{result:?}");
        face.confirm(&mut lock).expect("a majority has it");
        assert!(MINUTE < lock.validity() && lock.validity() < LONG);
        face.extend(&mut lock, 2 * LONG).expect("held");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}

#[test]
fn a_lock_from_before_the_last_boot_that_is_gone_is_lost() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let mut guard = redlock.adopt(handed_over(&redlock, "gone"));
    let lost = guard.lost();
    for raw in &mut cluster.raws() {
        raw.run("FLUSHALL");
    }
    let result = block_on(guard.confirm_async());
    assert!(matches!(result, Err(ConfirmError::Lost(_))), "{result:?}");
    assert!(lost.wait(PATIENCE));
    // A detached lock behaves the same.
    let mut local = over(&cluster).build_local().expect("valid");
    let mut lock = handed_over(&redlock, "gone");
    for raw in &mut cluster.raws() {
        raw.run("FLUSHALL");
    }
    let result = local.confirm(&mut lock);
    assert!(matches!(result, Err(ConfirmError::Lost(_))), "{result:?}");
    let result = local.confirm(&mut lock);
    assert!(matches!(result, Err(ConfirmError::Expired)), "{result:?}");
}

#[test]
fn the_process_that_a_lock_was_handed_to_confirms_it() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let lock = redlock.try_lock("handed", LONG).expect("free").into_lock();
    finish(start("confirm", &cluster, &hex(&lock.to_bytes())));
    let bytes = under_another_boot(lock.to_bytes());
    finish(start("confirm", &cluster, &hex(&bytes)));
    assert!(2 <= cluster.copies("handed"), "it was handed on");
    redlock.adopt(lock).unlock().expect("held");
    cluster.assert_gone("handed");
}

/// The part of the other process.
pub(crate) fn second_process(redlock: &Redlock, input: &str) {
    let lock = Lock::from_bytes(&unhex(input)).expect("the parent's lock");
    let mut guard = redlock.adopt(lock);
    guard.confirm().expect("held");
    assert!(MINUTE < guard.validity());
    guard.extend(LONG).expect("held");
    drop(guard.into_lock()); // The lock stays the parent's.
}

/// A lock that was written down before the last boot.
fn handed_over(redlock: &Redlock, key: &str) -> Lock {
    let lock = redlock.try_lock(key, LONG).expect("free").into_lock();
    let lock = Lock::from_bytes(&under_another_boot(lock.to_bytes())).expect("whole");
    assert!(!lock.is_valid());
    lock
}

/// The same bytes under another boot id, with a matching checksum (FNV-1a).
fn under_another_boot(mut bytes: Vec<u8>) -> Vec<u8> {
    const BOOT_ID: usize = 6;
    bytes[BOOT_ID] ^= 1;
    bytes.truncate(bytes.len() - 8);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes
}

fn all_have(cluster: &Cluster, face: &mut Face, key: &str, all: usize) {
    eventually("all have it", || {
        face.settle();
        (cluster.copies(key) == all).then_some(())
    });
}
