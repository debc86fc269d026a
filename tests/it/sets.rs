//! Locks on several resources at once, all or none, with every kind of handle, on servers of both kinds.

pub(crate) mod msetex;

use std::time::Duration;

use shearline::internals::limits;
use shearline::{Lock, LockError, LockOptions, NodeOutcome, Redlock};

use crate::face::{Face, Held, Which, held, over, ready, shared};
use crate::processes::{finish, hex, start, unhex};
use crate::scene::{FOREIGN, clusters};
use crate::servers::{self, Cluster, LONG, Options, eventually, until};

/// The keys of a story for one of the faces.
fn keys<const N: usize>(which: Which, names: [&str; N]) -> [String; N] {
    names.map(|name| which.key(name))
}

/// Plays `story` with every face on servers of both kinds, each with keys of its own.
fn each<const N: usize>(names: [&str; N], story: impl Fn(&Cluster, &mut Face, [String; N])) {
    for cluster in clusters() {
        for which in Which::ALL {
            let mut face = which.build(over(&cluster));
            face.await_ready();
            story(&cluster, &mut face, keys(which, names));
        }
    }
}

/// Takes all of `keys`, and waits until every node has them.
#[track_caller]
fn take_on_all(cluster: &Cluster, face: &mut Face, keys: &[String], ttl: Duration) -> Held {
    let lock = face.try_lock_all(keys, ttl).expect("free");
    for key in keys {
        face.await_copies(cluster, key);
    }
    lock
}

#[track_caller]
fn is_free(cluster: &Cluster, face: &mut Face, keys: &[String]) {
    for key in keys {
        face.assert_gone(cluster, key);
    }
}

fn lose(cluster: &Cluster, node: usize, key: &str) {
    assert!(cluster[node].raw().del(key.as_bytes()));
}

fn steal(cluster: &Cluster, node: usize, key: &str) {
    cluster[node].raw().set_px(key.as_bytes(), FOREIGN, LONG);
}

#[test]
fn a_set_is_taken_extended_confirmed_and_released_as_a_whole() {
    each(["b", "a", "c"], |cluster, face, keys| {
        let mut lock = take_on_all(cluster, face, &keys, LONG / 2);
        let token = Some(lock.token());
        for key in &keys {
            assert_eq!(cluster.values(key), vec![token.clone(); 3]);
        }
        face.extend(&mut lock, LONG).expect("held");
        assert!(LONG / 2 < lock.validity());
        face.until("every name lives as long", |_| {
            let mut left = keys.iter().flat_map(|key| {
                let raws = cluster.raws().into_iter();
                raws.map(|mut raw| raw.pttl(key.as_bytes()))
            });
            let least = (LONG / 2).as_millis() as i64;
            left.all(|left| least < left)
        });
        // The set ends when its first name ends.
        for raw in &mut cluster.raws() {
            let shorten = [b"PEXPIRE", keys[1].as_bytes(), b"30000"];
            assert_eq!(raw.integer(&shorten), 1);
        }
        face.confirm(&mut lock).expect("held");
        assert!(lock.validity() < LONG / 4);
        face.unlock(lock).expect("held");
        is_free(cluster, face, &keys);
    });
}

#[test]
fn a_plain_lock_on_one_name_keeps_a_set_out_and_leaves_the_others_free() {
    each(["x", "y", "z"], |cluster, face, keys| {
        let plain = ready(over(cluster).owner("plain"));
        let single = plain.try_lock(&keys[1], LONG).expect("free");
        face.await_copies(cluster, &keys[1]);
        let report = held(face.try_lock_all(&keys, LONG));
        assert_eq!(report.held_resource(), Some(keys[1].as_bytes()));
        for node in report.nodes() {
            match node.outcome {
                NodeOutcome::Held => {
                    assert_eq!(node.resource.as_deref(), Some(keys[1].as_bytes()));
                }
                NodeOutcome::Pending => assert_eq!(node.resource, None),
                other => panic!("{other:?}"),
            }
        }
        // No key of the set is left.
        for key in [&keys[0], &keys[2]] {
            assert_eq!(cluster.copies(key), 0);
        }
        single.unlock().expect("held");
        let options = LockOptions::new(LONG);
        let lock = face.lock_all_with(&keys, &options).expect("free");
        for key in &keys {
            assert_matches!(plain.try_lock(key, LONG), Err(LockError::Held(_)));
        }
        face.unlock(lock).expect("held");
        is_free(cluster, face, &keys);
        let single = plain.try_lock(&keys[2], LONG).expect("free");
        single.unlock().expect("held");
    });
}

#[test]
fn as_many_and_as_long_names_as_there_may_be() {
    each([""], |cluster, face, [own]| {
        let names: Vec<Vec<u8>> = (0..limits::RESOURCES_MAX)
            .map(|at| {
                let mut name = format!("{own}{at}").into_bytes();
                name.extend(0..=u8::MAX);
                name.resize(limits::RESOURCE_BYTES_MAX, b'.');
                name
            })
            .collect();
        let mut lock = face.try_lock_all(&names, LONG / 2).expect("free");
        face.extend(&mut lock, LONG).expect("held");
        face.confirm(&mut lock).expect("held");
        let token = lock.token();
        for name in [&names[0], &names[63]] {
            let copies = cluster.values(name).into_iter().flatten();
            assert!(2 <= copies.filter(|copy| *copy == token).count());
        }
        face.unlock(lock).expect("held");
        let mut raws = cluster.raws();
        face.until("no node has any of them", |_| {
            raws.iter_mut().all(|raw| raw.keys() == 0)
        });
    });
}

#[test]
fn a_node_that_has_lost_one_name_gets_it_again_and_counts_again() {
    each(["kept", "lost"], |cluster, face, keys| {
        let mut lock = take_on_all(cluster, face, &keys, LONG / 2);
        lose(cluster, 2, &keys[1]);
        until("it has all again", || {
            face.extend(&mut lock, LONG / 2).expect("two of three");
            face.settle();
            cluster[2].raw().exists(keys[1].as_bytes())
        });
        assert_eq!(cluster[2].raw().get(keys[1].as_bytes()), Some(lock.token()));
        cluster[0].freeze();
        face.extend(&mut lock, LONG).expect("the two others");
        cluster[0].thaw();
        face.unlock(lock).expect("held");
        is_free(cluster, face, &keys);
    });
}

#[test]
fn a_name_that_is_another_s_is_never_written_over() {
    each(["ours", "theirs"], |cluster, face, keys| {
        let mut lock = take_on_all(cluster, face, &keys, LONG);
        steal(cluster, 2, &keys[1]);
        lose(cluster, 2, &keys[0]);
        for _ in 0..4 {
            face.extend(&mut lock, LONG).expect("two of three");
            face.settle();
        }
        face.unlock(lock).expect("held by two");
        let theirs = [None, None, Some(FOREIGN.to_vec())];
        face.until("ours are gone", |_| {
            let ours = cluster.copies(&keys[0]) == 0;
            ours && cluster.values(&keys[1]) == theirs
        });
        lose(cluster, 2, &keys[1]);
    });
}

#[test]
fn a_set_goes_to_another_process() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let both = redlock.lock_all(["handed", "over"], LONG).expect("free");
    for key in ["handed", "over"] {
        cluster.await_copies(key);
    }
    let bytes = both.into_lock().to_bytes();
    finish(start("take-over", &cluster, &hex(&bytes)));
    ["handed", "over"]
        .iter()
        .for_each(|key| cluster.assert_gone(key));
}

pub(crate) fn take_over(redlock: &Redlock, input: &str) {
    let lock = Lock::from_bytes(&unhex(input)).expect("the parent's lock");
    assert_eq!(
        lock.resources().collect::<Vec<_>>(),
        [&b"handed"[..], b"over"]
    );
    assert!(redlock.try_lock("over", LONG).is_err(), "it is held");
    let mut guard = redlock.adopt(lock);
    assert!(guard.is_valid(), "the same boot, the same clock");
    guard.confirm().expect("held");
    guard.extend(2 * LONG).expect("held");
    assert!(2 <= guard.unlock().expect("held").deleted);
}

/// A key of another type is never released. The handle waits for it as for a lock without an expiry, and the report
/// names it.
#[test]
fn a_name_that_is_of_another_type_is_the_one_that_is_held() {
    let cluster = servers::three();
    for server in &*cluster {
        let command = [&b"LPUSH"[..], b"list", b"x"];
        assert_eq!(server.raw().integer(&command), 1);
    }
    let redlock = shared(&cluster);
    let options = LockOptions::new(LONG).wait(Duration::from_millis(500));
    for names in [["free", "list"], ["list", "free"]] {
        let report = eventually("a list is no lock of ours", || {
            match redlock.lock_all_with(names, &options) {
                Err(LockError::Held(report)) => Some(report),
                Err(LockError::NoQuorum(_)) => None,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(report.held_resource(), Some(&b"list"[..]), "{report}");
        assert_eq!(report.tries(), 1, "{report}");
    }
}
