//! Extensions: confirmed, unconfirmed, lost, expired, limited.

use std::time::Duration;

use shearline::{ExtendError, InvalidRequest, LockOptions, NodeOutcome};

use crate::face::{Face, Which, await_ready, over, shared};
use crate::servers::{self, BRIEF, LONG, PATIENCE, SILENT, eventually};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn an_extension_raises_the_expiry_on_every_node() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("raise");
        let mut face = which.build(over(&cluster));
        let mut lock = face.try_lock(&key, MINUTE / 2).expect("free");
        face.extend(&mut lock, LONG).expect("held");
        for raw in &mut cluster.raws() {
            eventually("the expiry is raised", || {
                face.settle();
                (raw.pttl(key.as_bytes()) > 60_000).then_some(())
            });
        }
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
    let redlock = shared(&cluster);
    let mut guard = redlock.try_lock("validity", MINUTE / 2).expect("free");
    assert!(guard.validity() < MINUTE / 2);
    guard.extend(LONG).expect("held");
    assert!(
        MINUTE < guard.validity() && guard.validity() < LONG,
        "{:?}",
        guard.validity()
    );
}

#[test]
fn an_extension_never_shortens() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("shorten");
        let mut face = which.build(over(&cluster));
        let mut lock = face.try_lock(&key, LONG).expect("free");
        face.extend(&mut lock, Duration::from_secs(1))
            .expect("what remains is longer");
        for raw in &mut cluster.raws() {
            let pttl = raw.pttl(key.as_bytes());
            // The third node may not have had the lock yet.
            assert!(pttl > 60_000 || pttl == -2, "{pttl}");
        }
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
    let redlock = shared(&cluster);
    let mut guard = redlock.try_lock("validity", LONG).expect("free");
    guard
        .extend(Duration::from_secs(1))
        .expect("what remains is longer");
    assert!(MINUTE < guard.validity());
}

#[test]
fn a_failed_extension_leaves_the_lock_as_it_was() {
    let cluster = servers::three();
    let builder = over(&cluster).node_timeout(SILENT);
    let redlock = builder.build().expect("valid");
    await_ready(|| redlock.nodes());
    Face::Shared(redlock.clone()).ask_all();
    let mut guard = redlock.try_lock("failed", LONG).expect("free");
    let token = guard.token().to_vec();
    eventually("all three have it", || {
        (cluster.copies("failed") == 3).then_some(())
    });
    cluster[0].freeze();
    cluster[1].freeze();
    let result = guard.extend(2 * LONG);
    let Err(ExtendError::Unconfirmed(report)) = result else {
        panic!("two of three are silent, but: {result:?}");
    };
    assert_eq!((report.nodes().len(), report.quorum()), (3, 2));
    assert!(guard.is_valid());
    assert!(
        MINUTE < guard.validity() && guard.validity() < LONG,
        "{:?}",
        guard.validity()
    );
    cluster[0].thaw();
    cluster[1].thaw();
    assert_eq!(cluster.values("failed"), vec![Some(token); 3]);
    guard.extend(2 * LONG).expect("they answer again");
    guard.unlock().expect("they answer again");
    cluster.assert_gone("failed");
}

/// The same on the caller's own thread.
#[test]
fn a_failed_extension_leaves_the_local_lock_as_it_was() {
    let cluster = servers::three();
    let builder = over(&cluster).node_timeout(SILENT);
    let mut local = builder.build_local().expect("valid");
    let mut lock = local.try_lock("failed", LONG).expect("free");
    let until = lock.valid_until();
    cluster[0].freeze();
    cluster[1].freeze();
    let result = local.extend(&mut lock, 2 * LONG);
    assert!(
        matches!(result, Err(ExtendError::Unconfirmed(_))),
        "{result:?}"
    );
    assert_eq!(lock.valid_until(), until);
    cluster[0].thaw();
    cluster[1].thaw();
    local
        .extend(&mut lock, 2 * LONG)
        .expect("they answer again");
    assert!(until < lock.valid_until());
    local.unlock(lock).expect("they answer again");
}

#[test]
fn an_expired_lock_is_not_revived() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let mut guard = redlock.try_lock("expired", BRIEF).expect("free");
    assert!(guard.lost().wait(PATIENCE), "the loss is reported");
    // The signal comes up to a tick early.
    eventually("the end of the validity", || {
        (!guard.is_valid()).then_some(())
    });
    assert_eq!(guard.validity(), Duration::ZERO);
    let result = guard.extend(LONG);
    assert!(matches!(result, Err(ExtendError::Expired)), "{result:?}");
    eventually("it expires on the nodes", || {
        (cluster.copies("expired") == 0).then_some(())
    });
    drop(guard);
    cluster.assert_empty();
}

#[test]
fn an_expired_local_lock_is_not_revived() {
    let cluster = servers::three();
    let mut local = over(&cluster).build_local().expect("valid");
    let mut lock = local.try_lock("expired", BRIEF).expect("free");
    // The key lives longer than the validity, by the drift.
    eventually("it expires on the nodes", || {
        (cluster.copies("expired") == 0).then_some(())
    });
    let result = local.extend(&mut lock, LONG);
    assert!(matches!(result, Err(ExtendError::Expired)), "{result:?}");
    cluster.assert_empty();
}

#[test]
fn a_lock_that_is_missing_on_a_majority_is_lost() {
    for (foreign, outcome) in [(true, NodeOutcome::Held), (false, NodeOutcome::Missing)] {
        let cluster = servers::three();
        for which in Which::BOTH {
            let key = which.key("lost");
            let builder = over(&cluster);
            let mut face = which.build(builder);
            face.await_ready();
            let mut lock = face.try_lock(&key, LONG).expect("free");
            eventually("all three have it", || {
                face.settle();
                (cluster.copies(&key) == 3).then_some(())
            });
            for server in &cluster[..2] {
                assert!(server.raw().del(key.as_bytes()));
                if foreign {
                    server.raw().set_px(key.as_bytes(), b"foreign", LONG);
                }
            }
            let result = face.extend(&mut lock, 2 * LONG);
            let Err(ExtendError::Lost(report)) = result else {
                panic!("a majority lost it, but: {result:?}");
            };
            let lost = report
                .nodes()
                .iter()
                .filter(|node| node.outcome == outcome)
                .count();
            assert_eq!(lost, 2, "{report}");
            let again = face.extend(&mut lock, LONG);
            assert!(
                matches!(again, Err(ExtendError::Expired)),
                "it is over: {again:?}"
            );
            // The remaining copy is released; the stranger's copies are not touched.
            let value = foreign.then(|| b"foreign".to_vec());
            eventually("the remaining copy is released", || {
                face.settle();
                (cluster.values(&key) == [value.clone(), value.clone(), None]).then_some(())
            });
            if foreign {
                let pttl = cluster[0].raw().pttl(key.as_bytes());
                assert!(pttl <= 120_000, "its expiry was raised to {pttl}");
            }
        }
    }
}

#[test]
fn a_lost_guard_is_not_valid_and_its_signal_fires() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let mut guard = redlock.try_lock("lost", LONG).expect("free");
    for raw in &mut cluster.raws() {
        raw.run("FLUSHALL");
    }
    let lost = guard.lost();
    assert!(!lost.wait(Duration::ZERO), "the nodes were not asked");
    let result = guard.extend(LONG);
    assert!(matches!(result, Err(ExtendError::Lost(_))), "{result:?}");
    assert!(lost.wait(PATIENCE));
    assert!(!guard.is_valid());
}

#[test]
fn one_foreign_node_of_three_does_not_end_a_lock() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("minority");
        let mut face = which.build(over(&cluster));
        face.await_ready();
        let mut lock = face.try_lock(&key, MINUTE).expect("free");
        eventually("all three have it", || {
            face.settle();
            (cluster.copies(&key) == 3).then_some(())
        });
        cluster[0].raw().set_px(key.as_bytes(), b"foreign", LONG);
        face.extend(&mut lock, LONG).expect("two of three");
        assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
        assert_eq!(
            cluster.values(&key),
            [Some(b"foreign".to_vec()), None, None]
        );
    }
}

#[test]
fn extensions_can_be_limited() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("limit");
        let mut face = which.build(over(&cluster));
        let options = LockOptions::new(MINUTE).extensions(1);
        let mut lock = face.lock_with(&key, &options).expect("free");
        face.extend(&mut lock, MINUTE).expect("the first one");
        let result = face.extend(&mut lock, MINUTE);
        assert!(matches!(result, Err(ExtendError::Limit)), "{result:?}");
        face.unlock(lock).expect("it stands");
    }
}

#[test]
fn an_extension_by_nothing_is_invalid_and_the_lock_stands() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("nothing");
        let mut face = which.build(over(&cluster));
        let mut lock = face.try_lock(&key, MINUTE).expect("free");
        let result = face.extend(&mut lock, Duration::ZERO);
        assert!(
            matches!(
                result,
                Err(ExtendError::Invalid(InvalidRequest::TtlTooShort { .. }))
            ),
            "{result:?}"
        );
        face.unlock(lock).expect("it stands");
    }
}
