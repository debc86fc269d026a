//! The guarantees of a lock, with every kind of handle, on servers of both kinds. Each story of the engine
//! (`engine::tests::extend`, `confirm`, `inspect`, `release`, `handover`) is played again over the wire.
//!
//! `restart`, `sets` and `deadlines` have the stories about servers that restart or stall, and about several names.

use std::thread;
use std::time::Duration;

use shearline::{
    Breaking, ExtendError, Found, Inspection, Lock, LockError, NodeOutcome, OperatorError, Report,
    UnlockError,
};

use crate::face::{Face, Held, Which, held, no_quorum, over, shared};
use crate::scene::{FOREIGN, Scene, clusters, freeze, thaw};
use crate::servers::{self, LONG, Raw, eventually};

const MINUTE: Duration = Duration::from_secs(60);

/// A ttl that is long enough to get a lock, and not much longer.
const SHORT: Duration = Duration::from_millis(300);

// ----- extensions -----------------------------------------------------------------------------

#[test]
fn an_extension_never_shortens() {
    Scene::each(|scene| {
        let mut lock = scene.take(MINUTE / 2);
        scene.face.extend(&mut lock, LONG).expect("held");
        assert!(MINUTE < lock.validity() && lock.validity() < LONG);
        for node in 0..3 {
            eventually("the expiry is raised", || {
                scene.face.settle();
                (60_000 < scene.pttl(node)).then_some(())
            });
        }
        let extended = scene.face.extend(&mut lock, Duration::from_secs(1));
        extended.expect("what remains is longer");
        assert!(MINUTE < lock.validity());
        for node in 0..3 {
            let pttl = scene.pttl(node);
            assert!(60_000 < pttl, "{pttl}");
        }
        scene.face.unlock(lock).expect("held");
        scene.await_gone();
    });
}

#[test]
fn a_lock_that_has_expired_is_not_revived_and_the_next_one_is_not_touched() {
    Scene::each(|scene| {
        // A lock that comes too late is not granted.
        let mut lock = eventually("it is taken in time", || {
            scene.face.try_lock(&scene.key, SHORT).ok()
        });
        let mut next = Which::Shared.build(over(scene.cluster));
        let guard = eventually("it expires", || next.try_lock(&scene.key, LONG).ok());
        let result = scene.face.extend(&mut lock, LONG);
        assert_matches!(result, Err(ExtendError::Expired));
        let result = scene.face.confirm(&mut lock);
        assert_matches!(result, Err(ExtendError::Expired));
        assert_eq!(lock.validity(), Duration::ZERO);
        let result = scene.face.unlock(lock);
        assert_matches!(result, Err(UnlockError::NotHeld(_)));
        next.unlock(guard).expect("still held by the next one");
        scene.await_gone();
    });
}

// ----- a majority that has lost it --------------------------------------------------------------

/// A call that asks the nodes for a lock that they have lost. Returns their answers.
type Asking = fn(&mut Face, &mut Option<Held>) -> Report;

/// The last call is the release. Most ways of releasing cannot distinguish another client's key from a missing key.
const ASKING: [Asking; 3] = [
    |face, lock| match face.extend(lock.as_mut().expect("a lock"), 2 * LONG) {
        Err(ExtendError::Lost(report)) => report,
        other => panic!("a majority lost it, but: {other:?}"),
    },
    |face, lock| match face.confirm(lock.as_mut().expect("a lock")) {
        Err(ExtendError::Lost(report)) => report,
        other => panic!("a majority lost it, but: {other:?}"),
    },
    |face, lock| match face.unlock(lock.take().expect("a lock")) {
        Err(UnlockError::NotHeld(report)) => report,
        other => panic!("a majority lost it, but: {other:?}"),
    },
];

/// The remaining copies of the lock are released, and the keys of other clients do not change.
#[test]
fn a_lock_that_a_majority_misses_is_lost() {
    Scene::each(|scene| {
        for (ask, is_stolen) in ASKING
            .into_iter()
            .flat_map(|ask| [(ask, true), (ask, false)])
        {
            let mut lock = Some(scene.take(LONG));
            let signal = match &lock {
                Some(Held::Guard(guard)) => Some(guard.lost()),
                _ => None,
            };
            scene.lose(0);
            scene.lose(1);
            if is_stolen {
                scene.steal(0);
                scene.steal(1);
            }
            let report = ask(&mut scene.face, &mut lock);
            let said = |outcome| {
                let nodes = report.nodes().iter();
                nodes.filter(|node| node.outcome == outcome).count()
            };
            let (held, missing) = (said(NodeOutcome::Held), said(NodeOutcome::Missing));
            assert_eq!(held + missing, 2, "{report}");
            assert!(held == 0 || is_stolen, "{report}");
            assert!(missing == 0 || !is_stolen || lock.is_none(), "{report}");
            if let Some(mut lock) = lock {
                if let Some(signal) = signal {
                    assert!(signal.wait(LONG) && !lock.is_valid());
                }
                let again = scene.face.extend(&mut lock, LONG);
                assert_matches!(again, Err(ExtendError::Expired));
                let again = scene.face.confirm(&mut lock);
                assert_matches!(again, Err(ExtendError::Expired));
            }
            let foreign = is_stolen.then_some(FOREIGN);
            scene.await_values([foreign, foreign, None]);
            assert!(scene.pttl(0) <= 120_000, "its expiry was raised");
            scene.clear();
        }
    });
}

// ----- confirmations and inspections --------------------------------------------------------------

#[test]
fn a_lock_from_before_the_last_boot_is_valid_again_if_a_majority_has_it() {
    Scene::each(|scene| {
        let lock = scene.take(LONG);
        let lock = from_another_boot(scene.face.detach(lock));
        let mut lock = scene.face.adopt(lock);
        if let Held::Guard(guard) = &lock {
            assert!(!guard.lost().wait(Duration::ZERO), "the end is not known");
        }
        let result = scene.face.extend(&mut lock, LONG);
        assert_matches!(result, Err(ExtendError::Expired));
        scene.face.confirm(&mut lock).expect("a majority has it");
        assert!(MINUTE < lock.validity() && lock.validity() < LONG);
        scene.face.extend(&mut lock, 2 * LONG).expect("held");
        let lock = from_another_boot(scene.face.detach(lock));
        let mut lock = scene.face.adopt(lock);
        scene.clear();
        let result = scene.face.confirm(&mut lock);
        assert_matches!(result, Err(ExtendError::Lost(_)));
    });
}

/// Returns the lock as if it had been serialized before the last boot: with another boot id, and a matching checksum
/// (FNV-1a).
#[track_caller]
fn from_another_boot(lock: Lock) -> Lock {
    let lock = Lock::from_bytes(&under_another_boot(lock.to_bytes())).expect("whole");
    assert!(!lock.is_valid());
    lock
}

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

/// An example of another client's token.
pub(crate) const OTHERS: &[u8] = b"\x01oreign-foreign-foreanother";

#[test]
fn an_inspection_says_who_holds_a_resource_and_which_nodes_disagree() {
    for cluster in clusters() {
        for which in Which::ALL {
            let builder = over(&cluster).owner("billing-7");
            inspected(&mut Scene::new(&cluster, which, builder));
        }
    }
}

/// The holder finds the break at its next extension, and other clients are kept out until the keys of the holder have
/// expired.
#[test]
fn a_lock_is_broken_by_one_who_does_not_hold_it() {
    Scene::each(|scene| {
        let key = scene.key.clone();
        let free = scene.face.inspect(&key).expect("all answer");
        let refused = scene.face.break_seen(&key, &free, Breaking::KeepOut);
        assert_matches!(refused, Err(OperatorError::NotHeld(_)));

        let mut lock = scene.take(LONG);
        let mut other = Which::Shared.build(over(scene.cluster));
        other.ask_all();
        let seen = scene.face.inspect(&key).expect("all answer");
        let before: Vec<i64> = (0..3).map(|node| scene.pttl(node)).collect();
        let broken = scene.face.break_seen(&key, &seen, Breaking::KeepOut);
        let broken = broken.expect("all nodes do it");
        assert_eq!(broken.nodes, 3);
        assert!((MINUTE..=LONG).contains(&broken.free_in), "{broken:?}");
        for (node, before) in before.into_iter().enumerate() {
            assert!((60_000..=before).contains(&scene.pttl(node)));
        }
        let refused = other.try_lock(&key, LONG);
        assert_matches!(refused, Err(LockError::Held(_)));
        let extended = scene.face.extend(&mut lock, LONG);
        assert_matches!(extended, Err(ExtendError::Lost(_)));
        // The inspected lock has ended. The keys that replaced it can be broken again at once.
        let told = scene.face.inspect(&key).expect("all answer");
        let holder = told.holder().expect("others are kept out");
        assert!(holder.owner.starts_with(b"(broken)"), "{holder}");
        assert!(!told.same_holder(&seen));
        let again = scene.face.break_seen(&key, &told, Breaking::KeepOut);
        assert_eq!(again.expect("it stays broken").nodes, 3);
        drop(scene.face.break_seen(&key, &told, Breaking::AtOnce));
        scene.await_gone();
        // An earlier inspection does not break another client's lock either.
        let next = other.try_lock(&key, LONG).expect("free");
        let refused = scene.face.break_seen(&key, &seen, Breaking::KeepOut);
        assert_matches!(refused, Err(OperatorError::Changed(_)));
        other.unlock(next).expect("held");
        drop(scene.face.unlock(lock));
        scene.await_gone();
    });
}

fn inspected(scene: &mut Scene<'_>) {
    let key = scene.key.clone();
    let told = scene.face.inspect(&key).expect("all answer");
    assert!(told.is_free() && told.holder().is_none());
    assert_eq!(found(&told), [Found::Free, Found::Free, Found::Free]);

    let lock = scene.take(LONG);
    let told = scene.face.inspect(&key).expect("all answer");
    assert_held(&told, b"billing-7", 3);
    // Another handle gets the same report.
    let other = shared(scene.cluster).inspect(&key).expect("all answer");
    assert_held(&other, b"billing-7", 3);

    // One node has lost the key, or has another client's.
    scene.lose(0);
    let told = scene.face.inspect(&key).expect("all answer");
    assert_held(&told, b"billing-7", 2);
    assert_eq!(found(&told)[0], Found::Free);
    let mut first = scene.cluster[0].raw();
    first.set_px(key.as_bytes(), OTHERS, MINUTE / 2);
    let told = scene.face.inspect(&key).expect("all answer");
    assert_held(&told, b"billing-7", 2);
    let Found::Copy { owner, token, left } = &found(&told)[0] else {
        panic!("it has another token: {told}");
    };
    assert_eq!((&**owner, *token), (&b"another"[..], 0));
    assert!(!left.is_zero() && *left <= MINUTE / 2);

    // Two nodes have the key without an expiry.
    for server in &scene.cluster[1..] {
        let command = [&b"PERSIST"[..], key.as_bytes()];
        assert_eq!(server.raw().integer(&command), 1);
    }
    let told = scene.face.inspect(&key).expect("all answer");
    assert_eq!(told.holder().expect("held").valid_for, Duration::MAX);

    // None of these calls has changed anything.
    let token = lock.token();
    scene.await_values([Some(OTHERS), Some(&token), Some(&token)]);
    assert_eq!(scene.pttl(1), -1);

    // One node has a key that cannot be a lock, and the lock is gone.
    drop(scene.face.unlock(lock));
    scene.lose(0);
    scene.await_gone();
    let command = [&b"LPUSH"[..], key.as_bytes(), b"x"];
    assert_eq!(scene.cluster[1].raw().integer(&command), 1);
    let told = scene.face.inspect(&key).expect("all answer");
    assert!(told.is_free());
    assert_eq!(found(&told)[1], Found::OtherType);
    scene.lose(1);
}

#[track_caller]
pub(crate) fn assert_held(told: &Inspection, owner: &[u8], nodes: usize) {
    let holder = told.holder().expect("held");
    assert_eq!((&*holder.owner, holder.nodes), (owner, nodes), "{told}");
    assert!((MINUTE..LONG).contains(&holder.valid_for), "{told}");
    let same = found(told).into_iter();
    let same = same.filter(|found| matches!(found, Found::Holder { left } if MINUTE < *left));
    assert_eq!(same.count(), nodes, "{told}");
    assert!(!told.is_free());
}

fn found(told: &Inspection) -> Vec<Found> {
    told.nodes().iter().map(|node| node.found.clone()).collect()
}

// ----- handing over -----------------------------------------------------------------------------

/// The lock is handed from each kind of handle to the next, as bytes. The lock stays while no handle has it, and is
/// complete at the end.
#[test]
fn a_lock_that_is_detached_stays_until_a_face_adopts_it() {
    for cluster in clusters() {
        let mut faces = Which::ALL.map(|which| which.build(over(&cluster)));
        let mut held = faces[0].try_lock("handed on", LONG).expect("free");
        for from in 0..faces.len() {
            let token = held.token();
            let bytes = faces[from].detach(held).to_bytes();
            let to = &mut faces[(from + 1) % Which::ALL.len()];
            assert!(to.try_lock("handed on", LONG).is_err(), "it is held");
            // The refused attempt releases the copy that it has taken on a third node.
            to.until("its copies alone are there", |_| {
                let copies: Vec<_> = cluster.values("handed on").into_iter().flatten().collect();
                let ours = copies.iter().all(|copy| *copy == token);
                2 <= copies.len() && ours
            });
            held = to.adopt(Lock::from_bytes(&bytes).expect("a lock"));
            assert!(held.is_valid(), "the same boot, the same clock");
            to.extend(&mut held, LONG).expect("held");
        }
        // A guard that has adopted a lock releases it like any other guard.
        assert_matches!(held, Held::Guard(_));
        drop(held);
        faces[0].assert_gone(&cluster, "handed on");
    }
}

// ----- a silent majority ------------------------------------------------------------------------

/// The node timeout. If a busy machine needs longer, the question is repeated.
const TIMEOUT: Duration = Duration::from_millis(1_500);

/// Each outcome says that too few nodes answered, and changes nothing. Releases are sent later.
#[test]
fn a_silent_majority_leaves_every_lock_as_it_was() {
    let cluster = servers::three();
    let mut scenes = Which::ALL.map(|which| {
        let mut scene = Scene::new(&cluster, which, over(&cluster).node_timeout(TIMEOUT));
        let locks = [0, 1].map(|number| {
            scene.key = which.key(&format!("silent:{number}"));
            scene.take(LONG)
        });
        (scene, locks)
    });
    freeze(&cluster[2..]);
    thread::scope(|scope| {
        for (scene, [first, _]) in &mut scenes {
            scope.spawn(|| asked_of_two_of_three(&mut scene.face, first));
        }
    });
    freeze(&cluster[1..2]);
    let scenes = thread::scope(|scope| {
        let silent =
            scenes.map(|(scene, locks)| scope.spawn(|| asked_of_one_of_three(scene, locks)));
        silent.map(|silent| silent.join().expect("it said so"))
    });
    thaw(&cluster[1..]);
    for (mut scene, mut lock) in scenes {
        eventually("they answer again", || {
            match scene.face.extend(&mut lock, 2 * LONG) {
                Ok(()) => Some(()),
                Err(ExtendError::Unconfirmed(_)) => None,
                other => panic!("{other:?}"),
            }
        });
        let result = scene.face.unlock(lock);
        assert_matches!(result, Ok(_) | Err(UnlockError::Unconfirmed(_)));
        for number in [0, 1] {
            scene.key = scene.which.key(&format!("silent:{number}"));
            scene.await_gone();
        }
    }
    cluster.assert_empty();
}

/// Checks calls that two of three nodes answer, which is a majority.
fn asked_of_two_of_three(face: &mut Face, lock: &mut Held) {
    eventually("it is confirmed", || match face.confirm(lock) {
        Ok(()) => Some(()),
        Err(ExtendError::Unconfirmed(_)) => None,
        other => panic!("two of three: {other:?}"),
    });
    let told = eventually("it is inspected", || match face.inspect("nobody's") {
        Ok(told) => Some(told),
        Err(OperatorError::NoQuorum(_)) => None,
        other => panic!("two of three: {other:?}"),
    });
    assert!(told.is_free());
    assert_matches!(found(&told)[2], Found::Unknown(_), "{told}");
}

/// Checks calls that only one of three nodes answers. Returns a lock that is still valid.
fn asked_of_one_of_three(mut scene: Scene<'_>, locks: [Held; 2]) -> (Scene<'_>, Held) {
    let (face, [mut lock, other]) = (&mut scene.face, locks);
    let until = lock.valid_until();
    let result = face.extend(&mut lock, 2 * LONG);
    let Err(ExtendError::Unconfirmed(report)) = result else {
        panic!("{result:?}");
    };
    assert_eq!((report.nodes().len(), report.quorum()), (3, 2));
    let result = face.confirm(&mut lock);
    assert_matches!(result, Err(ExtendError::Unconfirmed(_)));
    assert!(lock.is_valid() && lock.valid_until() == until, "it stands");
    let key = scene.which.key("nobody's");
    let result = face.inspect(&key);
    assert_matches!(result, Err(OperatorError::NoQuorum(_)));
    no_quorum(face.try_lock(&key, LONG));
    let result = face.unlock(other);
    assert_matches!(result, Err(UnlockError::Unconfirmed(_)));
    (scene, lock)
}

// ----- keys of others -------------------------------------------------------------------------

#[test]
fn a_large_value_of_others_keeps_out_and_costs_no_connection() {
    a_large_value_keeps_out(true);
}

#[test]
fn a_large_value_of_others_costs_no_connection_without_scripts() {
    not_with!(Acl, "a user with this line may not use WATCH");
    a_large_value_keeps_out(false);
}

/// Plays a story of another client's key with a value of 70 kB, next to a lock of this handle, with scripts or without.
fn a_large_value_keeps_out(scripts: bool) {
    for cluster in clusters() {
        for which in Which::BOTH {
            let mut raws = cluster.raws();
            let mut scene = Scene::new(&cluster, which, over(&cluster).without_scripts(!scripts));
            let connections = |raws: &mut Vec<Raw>| -> Vec<_> {
                let count = |raw: &mut Raw| raw.info("stats", "total_connections_received");
                raws.iter_mut().map(count).collect()
            };
            let mut lock = scene.take(LONG);
            let before = connections(&mut raws);
            let large = vec![b'x'; 70_000];
            for raw in &mut raws {
                raw.set_px(b"large", &large, LONG);
            }
            held(scene.face.try_lock("large", LONG));
            let inspection = scene.face.inspect("large").expect("the nodes answer");
            let holder = inspection.holder().expect("held");
            assert_eq!((holder.nodes, inspection.is_free()), (3, false));
            scene.face.extend(&mut lock, LONG).expect("held");
            for raw in &mut raws {
                assert_eq!(raw.get(b"large").as_deref(), Some(&large[..]));
                raw.del(b"large");
            }
            assert_eq!(connections(&mut raws), before);
            scene.face.unlock(lock).expect("held");
            scene.await_gone();
        }
    }
}
