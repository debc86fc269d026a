//! Locks that several clients may hold at once, by every face, on servers of both kinds: shared locks and permits.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use shearline::{ExtendError, Lock, LockError, LockOptions, NodeOutcome, NodeReport};

use crate::executor::block_on;
use crate::face::{Face, Held, held, over, shared};
use crate::scene::{FOREIGN, Scene};
use crate::servers::{LONG, Reply, eventually, three};

/// Takes a shared lock in one attempt.
fn read(face: &mut Face, key: &str) -> Result<Held, LockError> {
    face.lock_shared_with(key, &LockOptions::new(LONG).tries(1))
}

/// Waits until the set of the scene has so many holders on each node.
#[track_caller]
fn stand(scene: &mut Scene<'_>, holders: i64) {
    let (key, mut raws) = (scene.key.as_bytes(), scene.cluster.raws());
    scene.face.until(&format!("{holders} on all nodes"), |_| {
        let mut counts = raws.iter_mut().map(|raw| raw.integer(&[b"ZCARD", key]));
        counts.all(|count| count == holders)
    });
}

#[test]
fn readers_share_a_lock_that_a_writer_has_alone() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    Scene::each(|scene| {
        let (key, mut raws) = (scene.key.clone(), scene.cluster.raws());
        let mut other = Face::Shared(shared(scene.cluster));
        let mut one = read(&mut scene.face, &key).expect("free");
        let two = read(&mut other, &key).expect("readers may come");
        stand(scene, 2);
        held(scene.face.try_lock(&key, LONG));
        held(other.try_lock(&key, LONG));
        scene.face.extend(&mut one, LONG * 2).expect("held");
        scene.face.confirm(&mut one).expect("held");
        // A shared lock goes to another handle as what it is.
        let lock = Lock::from_bytes(&other.detach(two).to_bytes()).expect("as it was written");
        assert!(lock.is_shared());
        let mut two = scene.face.adopt(lock);
        scene.face.confirm(&mut two).expect("held");
        scene.face.unlock(two).expect("held");
        // The other holder's lock did not become shorter.
        stand(scene, 1);
        let longer = LONG.as_millis() as i64;
        let lives_on = raws.iter_mut().map(|raw| longer < raw.pttl(key.as_bytes()));
        assert!(2 <= lives_on.filter(|it| *it).count());
        held(other.try_lock(&key, LONG));
        scene.face.unlock(one).expect("held");
        scene.face.assert_gone(scene.cluster, &key);
        let writer = other.try_lock(&key, LONG).expect("free");
        held(read(&mut scene.face, &key));
        other.unlock(writer).expect("held");
        other.assert_gone(scene.cluster, &key);
    });
}

/// Locks of other libraries are plain keys.
#[test]
fn readers_exclude_locks_of_other_libraries_and_are_excluded() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    Scene::each(|scene| {
        let (key, mut raws) = (scene.key.clone(), scene.cluster.raws());
        let reader = read(&mut scene.face, &key).expect("free");
        stand(scene, 1);
        let foreign = [b"SET", key.as_bytes(), FOREIGN, b"NX", b"PX", b"60000"];
        for raw in &mut raws {
            assert_eq!(raw.command(&foreign), Reply::Nil);
        }
        scene.face.unlock(reader).expect("held");
        scene.face.assert_gone(scene.cluster, &key);
        for raw in &mut raws[..2] {
            raw.command(&foreign);
        }
        held(read(&mut scene.face, &key));
        // The release of the refused reader may still be on its way to the other nodes.
        scene.face.until("the reader is gone", |_| {
            let mut others = raws.iter_mut().skip(2);
            others.all(|raw| raw.pttl(key.as_bytes()) == -2)
        });
        for raw in &mut raws[..2] {
            let value = raw.get(key.as_bytes());
            assert_eq!(value.as_deref(), Some(FOREIGN), "it is not touched");
            assert!(raw.del(key.as_bytes()));
        }
    });
}

/// The writer changes two numbers one after the other; readers must see both changes or neither.
#[test]
fn no_reader_sees_half_of_what_a_writer_does() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let numbers = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let handles = [shared(&cluster), shared(&cluster)];
    thread::scope(|scope| {
        for (index, handle) in handles.iter().enumerate() {
            for caller in 0..6 {
                let numbers = &numbers;
                scope.spawn(move || {
                    let patient = LockOptions::new(LONG).wait(LONG);
                    for _ in 0..10 {
                        if caller == index {
                            let guard = handle.lock_with("doc", &patient).expect("it comes");
                            numbers[0].fetch_add(1, SeqCst);
                            thread::yield_now();
                            numbers[1].fetch_add(1, SeqCst);
                            guard.unlock().expect("held");
                        } else {
                            let guard = handle.lock_shared_with("doc", &patient).expect("it comes");
                            let first = numbers[0].load(SeqCst);
                            thread::yield_now();
                            assert_eq!(numbers[1].load(SeqCst), first);
                            guard.unlock().expect("held");
                        }
                    }
                });
            }
        }
    });
    assert_eq!(numbers.map(AtomicUsize::into_inner), [20, 20]);
}

#[test]
fn a_lock_becomes_a_shared_one_without_a_gap() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let [redlock, other] = [shared(&cluster), shared(&cluster)];
    let patient = LockOptions::new(LONG).wait(LONG);
    for keeps in [false, true] {
        let options = LockOptions::new(LONG);
        let options = if keeps { options.keep() } else { options };
        let writer = redlock.lock_with("doc", &options).expect("free");
        thread::scope(|scope| {
            let waits = scope.spawn(|| other.lock_shared_with("doc", &patient).expect("it comes"));
            let mut reader = writer.downgrade().expect("held");
            assert!(LONG / 2 < reader.validity());
            let beside = waits.join().expect("it comes");
            held(other.try_lock("doc", LONG));
            reader.extend(LONG).expect("held");
            reader.confirm().expect("held");
            beside.unlock().expect("held");
            held(redlock.try_lock("doc", LONG));
            reader.unlock().expect("held");
        });
        cluster.assert_gone("doc");
    }
    let writer = block_on(redlock.lock_async("doc", LONG)).expect("free");
    let reader = block_on(writer.downgrade_async()).expect("held");
    drop(reader);
    cluster.assert_gone("doc");
    let mut local = over(&cluster).build_local().expect("it connects");
    let mut lock = local.lock("doc", LONG).expect("free");
    local.downgrade(&mut lock).expect("held");
    assert!(lock.is_shared());
    drop(
        redlock
            .try_lock_shared("doc", LONG)
            .expect("readers may come"),
    );
    local.unlock(lock).expect("held");
    cluster.assert_gone("doc");
    let set = redlock.lock_all(["a", "b"], LONG).expect("free");
    let refused = set.downgrade().expect_err("of several names");
    assert_eq!(
        refused.to_string(),
        "only an exclusive lock on one resource can become a shared lock"
    );
}

/// Takes one of three permits in one attempt.
fn permit(face: &mut Face, key: &str) -> Result<Held, LockError> {
    face.permit_with(key, 3, &LockOptions::new(LONG).tries(1))
}

#[test]
fn as_many_hold_as_there_are_permits_and_each_has_its_own_number() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    Scene::each(|scene| {
        let key = scene.key.clone();
        let mut other = Face::Shared(shared(scene.cluster));
        let mut one = permit(&mut scene.face, &key).expect("free");
        let two = permit(&mut other, &key).expect("two are free");
        let three = permit(&mut scene.face, &key).expect("one is free");
        let mut slots = [&one, &two, &three].map(|held| held.slot().expect("a permit"));
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2]);
        held(permit(&mut other, &key));
        held(permit(&mut scene.face, &key));
        held(other.try_lock(&key, LONG));
        held(read(&mut other, &key));
        let options = LockOptions::new(LONG).tries(1);
        let report = held(other.permit_with(&key, 4, &options));
        let says = |node: &NodeReport| node.outcome == NodeOutcome::OtherPermits(3);
        assert!(2 <= report.nodes().iter().filter(|node| says(node)).count());
        scene.face.extend(&mut one, LONG).expect("held");
        scene.face.confirm(&mut one).expect("held");
        let slot = two.slot();
        other.unlock(two).expect("held");
        let again = eventually("one is free", || permit(&mut scene.face, &key).ok());
        assert_eq!(again.slot(), slot);
        let lock = scene.face.detach(again);
        let lock = Lock::from_bytes(&lock.to_bytes()).expect("as it was written");
        let mut again = other.adopt(lock);
        assert_eq!(again.slot(), slot);
        other.confirm(&mut again).expect("held");
        other.unlock(again).expect("held");
        scene.face.unlock(one).expect("held");
        scene.face.unlock(three).expect("held");
        scene.face.assert_gone(scene.cluster, &key);
    });
}

/// Each caller writes its name where its number points to, and finds it there at the end.
#[test]
fn callers_of_many_handles_share_few_permits() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let handles = [shared(&cluster), shared(&cluster), shared(&cluster)];
    let (desks, most) = ([0, 0, 0].map(AtomicUsize::new), AtomicUsize::new(0));
    let working = AtomicUsize::new(0);
    thread::scope(|scope| {
        for caller in 1..=12 {
            let (handle, desks, most, working) = (&handles[caller % 3], &desks, &most, &working);
            scope.spawn(move || {
                let patient = LockOptions::new(LONG).wait(LONG);
                for _ in 0..8 {
                    let permit = handle.permit_with("desks", 3, &patient).expect("it comes");
                    let desk = &desks[usize::from(permit.slot())];
                    assert_eq!(desk.swap(caller, SeqCst), 0, "nobody sits there");
                    most.fetch_max(working.fetch_add(1, SeqCst) + 1, SeqCst);
                    thread::yield_now();
                    working.fetch_sub(1, SeqCst);
                    assert_eq!(desk.swap(0, SeqCst), caller);
                    permit.unlock().expect("held");
                }
            });
        }
    });
    assert!((1..=3).contains(&most.into_inner()));
    cluster.assert_gone("desks");
}

#[test]
fn a_lock_that_is_adopted_as_another_kind_is_lost_and_released_with_its_guard() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    Scene::each(|scene| {
        let redlock = shared(scene.cluster);
        let lock = redlock.try_lock(&scene.key, LONG).expect("free");
        let mut permit = redlock.adopt_permit(lock.into_lock());
        assert!(permit.lost().is_lost() && !permit.is_valid());
        assert_eq!(permit.slot(), 0);
        // The lock has no permit, so no node is asked about it.
        for refused in [permit.extend(LONG), permit.confirm(), permit.keep()] {
            let refused = refused.expect_err("it is no permit");
            assert_matches!(refused, ExtendError::Invalid(_));
            let text = format!("{refused:#}");
            assert!(text.ends_with("any other lock with `adopt`"), "{text}");
        }
        drop(permit);
        Face::Shared(redlock.clone()).assert_gone(scene.cluster, &scene.key);
        let permit = redlock.permit(&scene.key, 4, LONG).expect("free");
        let mut lock = redlock.adopt(permit.into_lock());
        assert!(lock.lost().is_lost() && !lock.is_valid());
        let refused = lock.extend(LONG).expect_err("it is a permit");
        assert!(
            format!("{refused:#}").contains("`adopt_permit`"),
            "{refused:#}"
        );
        drop(lock);
        Face::Shared(redlock).assert_gone(scene.cluster, &scene.key);
    });
}
