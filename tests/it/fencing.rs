//! Fencing tokens on real servers of both kinds. The tokens grow from lock to lock, through every handle and process,
//! and a node that may have lost its counters gives no token.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use shearline::{Lock, LockError, LockOptions, NodeOutcome, Redlock, RestartGuard, Unusable};

use crate::effort::times;
use crate::executor::block_on;
use crate::face::{Which, over, shared};
use crate::processes::written_by_two;
use crate::scene::clusters;
use crate::servers::{Cluster, LONG, Options, Reply, SILENT, eventually, until};

/// How many tokens each of two processes takes.
fn takes() -> usize {
    times(20, 100)
}

fn fenced() -> LockOptions {
    fenced_for(LONG)
}

fn fenced_for(ttl: Duration) -> LockOptions {
    LockOptions::new(ttl).wait(Duration::from_secs(60)).fenced()
}

const IN_REPAIR: NodeOutcome = NodeOutcome::Unusable(Unusable::InRepair);

fn once() -> LockOptions {
    LockOptions::new(LONG).tries(1).fenced()
}

/// Three servers whose floors an operator has given.
pub(crate) fn trusted(cluster: &Cluster) -> Redlock {
    let redlock = shared(cluster);
    assert_eq!(redlock.trust_nodes().len(), 3);
    redlock
}

#[track_caller]
fn token(lock: &Lock) -> u64 {
    lock.fencing_token().expect("it was asked for")
}

#[test]
fn tokens_rise_through_every_face_and_stay_with_their_lock() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for cluster in clusters() {
        let redlock = trusted(&cluster);
        let mut guard = redlock.lock_with("f", &fenced()).expect("free");
        let first = guard.fencing_token().expect("it was asked for");
        guard.extend(LONG).expect("held");
        guard.confirm().expect("held");
        assert_eq!(guard.fencing_token(), Some(first));
        let shown = format!("{guard:?}");
        assert!(
            shown.contains(&format!(", fencing_token: {first}, ")),
            "{shown}"
        );
        let lock = Lock::from_bytes(&guard.into_lock().to_bytes()).expect("whole");
        assert_eq!(token(&lock), first);
        let adopted = redlock.adopt(lock);
        assert_eq!(adopted.fencing_token(), Some(first));
        adopted.unlock().expect("held");

        let plain = redlock.lock("f", LONG).expect("free");
        assert_eq!(plain.fencing_token(), None);
        assert!(!format!("{plain:?}").contains("fencing_token"));
        plain.unlock().expect("held");

        let mut local = over(&cluster).build_local().expect("a good configuration");
        let lock = local.lock_with("f", &fenced()).expect("free");
        let second = token(&lock);
        assert!(first < second);
        local.unlock(lock).expect("held");

        let guard = block_on(redlock.lock_with_async("f", &fenced())).expect("free");
        let third = guard.fencing_token().expect("it was asked for");
        assert!(second < third);
        guard.unlock().expect("held");

        let all = redlock.lock_all_with(["g", "f"], &fenced()).expect("free");
        let fourth = all.fencing_token().expect("it was asked for");
        assert!(third < fourth);
        all.unlock().expect("held");
        let guard = redlock.lock_with("g", &fenced()).expect("free");
        assert!(Some(fourth) < guard.fencing_token());
    }
}

#[test]
fn the_numbers_of_a_slot_rise_from_holder_to_holder() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    for cluster in clusters() {
        let redlock = trusted(&cluster);
        let mut local = over(&cluster).build_local().expect("a good configuration");
        let mut last = [None; 2];
        for _ in 0..4 {
            let permit = redlock.permit_with("gpu", 2, &fenced()).expect("free");
            let before = last[usize::from(permit.slot())].replace(permit.fencing_token());
            assert!(
                before < Some(permit.fencing_token()),
                "{before:?}: {permit:?}"
            );
            let mut lock = local.permit_with("gpu", 2, &fenced()).expect("free");
            let (number, slot) = (token(&lock), lock.slot().expect("a permit"));
            let before = last[usize::from(slot)].replace(Some(number));
            assert!(before < Some(Some(number)), "{before:?}: {lock:?}");
            local.extend(&mut lock, LONG).expect("held");
            local.confirm(&mut lock).expect("held");
            let bytes = local.detach(lock).to_bytes();
            let lock = local.adopt(Lock::from_bytes(&bytes).expect("whole"));
            assert_eq!((lock.slot(), token(&lock)), (Some(slot), number));
            permit.unlock().expect("held");
            local.unlock(lock).expect("held");
        }
    }
}

/// A restarted node gives no fencing token, even if it has its data, because no client can know what the node has lost.
/// The process that asks has not seen the restart.
#[test]
fn a_server_that_was_restarted_gives_no_token() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let on_disk = ["--appendonly", "yes", "--appendfsync", "always"];
    for options in [Options::redis(), Options::redis().arguments(on_disk)] {
        let mut cluster = Cluster::with(3, &options);
        let guard = trusted(&cluster).lock_with("f", &fenced()).expect("free");
        let first = guard.fencing_token();
        guard.unlock().expect("held");
        cluster.assert_gone("f");
        cluster[1].restart();
        cluster[2].kill();
        let fresh = over(&cluster).restart_guard(RestartGuard::Off);
        let fresh = fresh.build().expect("a good configuration");
        let report = eventually("the two have said what they have", || {
            match fresh.lock_with("f", &once()) {
                Err(LockError::NoQuorum(report)) => Some(report),
                other => panic!("{other:?}"),
            }
            .filter(|report| report.nodes()[1].outcome == IN_REPAIR)
        });
        assert!(!report.needs_operator(), "{report}");
        // An operator knows what the node has lost.
        let status = fresh.nodes().swap_remove(1);
        let run_id = status.run_id.expect("it says who it is");
        fresh
            .trust_node(status.address.as_ref(), run_id)
            .expect("that one");
        let guard = fresh.lock_with("f", &fenced()).expect("free");
        assert!(first < guard.fencing_token());
    }
}

/// The handle that repairs the node is not called meanwhile. (`engine::tests::fencing` checks when a node is repaired,
/// and by which handle.)
#[test]
fn a_server_that_has_lost_its_data_is_repaired_from_the_others() {
    not_with!(NoScripts, "fencing tokens need scripts");
    thread::scope(|scope| {
        for options in [Options::redis(), Options::valkey()] {
            scope.spawn(move || lost_and_repaired(Cluster::with(3, &options)));
        }
    });
}

fn lost_and_repaired(mut cluster: Cluster) {
    const LONGEST: Duration = Duration::from_secs(1);
    let once = LockOptions::new(LONGEST).tries(1).fenced();
    let handle = |cluster: &Cluster| {
        // One of the two nodes that answer is stopped below: each attempt waits for this long.
        let builder = over(cluster).max_ttl(LONGEST).node_timeout(LONGEST / 4);
        let builder = builder.connect_timeout(SILENT);
        builder.build().expect("a good configuration")
    };
    let (witness, stranger) = (handle(&cluster), handle(&cluster));
    let refused = witness.lock_with("f", &once);
    refused.expect_err("none has a floor");
    until("all have floors", || witness.trust_nodes().len() == 3);
    let take = || {
        let guard = eventually("it is free", || {
            witness.lock_with("f", &fenced_for(LONGEST)).ok()
        });
        guard.fencing_token()
    };
    let first = take();
    cluster.assert_gone("f");

    cluster[0].freeze();
    cluster[1].restart();
    let await_refused = |handle: &Redlock| {
        eventually("it is refused", || match handle.lock_with("f", &once) {
            Err(LockError::NoQuorum(report)) => {
                (report.nodes()[1].outcome == IN_REPAIR).then_some(())
            }
            Err(LockError::TooSlow(_)) => None,
            other => panic!("{other:?}"),
        });
    };
    await_refused(&witness);
    await_refused(&stranger);
    // Every earlier lock is over by now, and the process is new.
    thread::sleep(2 * LONGEST);
    let fresh = handle(&cluster);
    await_refused(&fresh);
    drop((stranger, fresh));

    cluster[0].thaw();
    eventually("it is repaired", || {
        let floor = cluster[1].raw().run("GET shearline:floor");
        let Reply::Bulk(floor) = floor else {
            panic!("{floor:?}");
        };
        (!floor.contains(&b'?')).then_some(())
    });
    cluster[0].kill();
    assert!(first < take());
}

/// The store is a file: the holder of the lock reads the last token in it, and writes its own.
#[test]
fn two_processes_get_tokens_in_the_order_of_their_locks() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for cluster in clusters() {
        drop(trusted(&cluster));
        let written = written_by_two("fenced", &cluster);
        assert_eq!(written.lines().count(), 1 + 2 * takes());
    }
}

/// What each of the two processes does.
pub(crate) fn take(redlock: &Redlock, file: &Path) {
    for _ in 0..takes() {
        let guard = redlock.lock_with("f", &fenced()).expect("within a minute");
        let token = guard.fencing_token().expect("it was asked for");
        let before = fs::read_to_string(file).expect("the store");
        let last = before.lines().last().expect("a token");
        assert!(
            last.parse::<u64>().expect("a number") < token,
            "{last} {token}"
        );
        fs::write(file, format!("{before}\n{token}")).expect("the file can be written");
        assert!(guard.is_valid());
        guard.unlock().expect("held");
    }
}

// ----- counters -------------------------------------------------------------------------------

/// There are more keys than a node examines in one command, and most of them are not counters.
#[test]
fn the_counters_of_each_node_are_counted_by_every_face_that_blocks() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        let mut raws = cluster.raws();
        raws[0].fill("other:", 25_000);
        raws[0].fill("shearline:fence:", 2_500);
        raws[1].fill("shearline:fence:", 1);
        for name in [
            "shearline:fence",
            "shearline:fences:a",
            "a:shearline:fence:a",
        ] {
            raws[1].fill(name, 1);
        }
        for which in Which::BOTH {
            let mut face = which.build(over(&cluster));
            let asked = || {
                cluster
                    .raws()
                    .iter_mut()
                    .map(|raw| raw.calls("scan"))
                    .collect()
            };
            let before: Vec<u64> = asked();
            let counted = face.count_counters();
            assert_eq!(counted, [(2_500, None), (1, None), (0, None)], "{which:?}");
            let after: Vec<u64> = asked();
            let steps: Vec<u64> = after
                .iter()
                .zip(before)
                .map(|(one, other)| one - other)
                .collect();
            assert!(10 < steps[0], "{steps:?}");
            assert_eq!(steps[1..], [1, 1], "{which:?}");
        }
    }
}
