//! Releases of many tasks, which go to a server in few commands.

use std::cell::RefCell;
use std::slice;

use shearline::{LockGuard, NodeStatus, Redlock, UnlockError};

use crate::acl::acl_line;
use crate::executor::{all, block_on};
use crate::face::{at, shared};
use crate::servers::{Cluster, LONG, eventually, three};

const TASKS: usize = 24;

/// Returns how many commands have run scripts on the first server: by digest, and by text.
fn scripts(cluster: &Cluster) -> [u64; 2] {
    let mut raw = cluster[0].raw();
    ["evalsha", "eval"].map(|command| raw.calls(command))
}

/// Takes a lock on each of `names` on all servers.
fn take(cluster: &Cluster, redlock: &Redlock, names: &[String]) -> Vec<LockGuard> {
    let take = |name| redlock.lock(name, LONG).expect("free");
    let guards = names.iter().map(take).collect();
    names.iter().for_each(|name| cluster.await_copies(name));
    guards
}

/// Releases all locks at once, each in a task of its own. Returns the names of those that were no longer held.
fn release(guards: Vec<LockGuard>) -> Vec<String> {
    let lost: RefCell<Vec<String>> = RefCell::default();
    let tasks = guards.into_iter().map(async |guard: LockGuard| {
        let name = String::from_utf8_lossy(guard.resource()).into_owned();
        match guard.unlock_async().await {
            Ok(_) => (),
            Err(UnlockError::NotHeld(_)) => lost.borrow_mut().push(name),
            Err(error) => panic!("{name}: {error}"),
        }
    });
    block_on(all(tasks));
    lost.into_inner()
}

/// Returns `true` if the servers have a native command for a release. They get one for each lock.
fn is_native(nodes: &[NodeStatus]) -> bool {
    nodes.iter().all(|node| node.releasing != Some("a script"))
}

/// A release that is too late for the others is sent alone, so this is tried until all of them are sent together once.
#[test]
fn a_row_of_releases_leaves_the_key_of_another_client() {
    not_with!(NoScripts, "releases by scripts");
    let cluster = three();
    let redlock = shared(&cluster);
    let names: Vec<_> = (0..TASKS).map(|task| format!("lock:{task}")).collect();
    eventually("releases of one turn are one command", || {
        let guards = take(&cluster, &redlock, &names);
        if is_native(&redlock.nodes()) {
            return Some(());
        }
        let stolen = &names[TASKS / 2];
        for raw in &mut cluster.raws() {
            raw.set_px(stolen.as_bytes(), b"foreign", LONG);
        }
        let [before, _] = scripts(&cluster);
        assert_eq!(release(guards), slice::from_ref(stolen));
        for name in names.iter().filter(|name| *name != stolen) {
            cluster.assert_gone(name);
        }
        assert_eq!(cluster.values(stolen), vec![Some(b"foreign".to_vec()); 3]);
        cluster.delete(stolen);
        let [after, _] = scripts(&cluster);
        (after - before <= TASKS as u64 / 2).then_some(())
    });
}

/// The server refuses the whole row, and then each release is sent alone. The forbidden one waits until it is
/// permitted.
#[test]
fn a_key_that_is_forbidden_keeps_no_release_of_its_row_back() {
    not_with!(Acl | NoScripts, "has a user of its own");
    let cluster = three();
    let permit = |keys: &str| {
        let line = acl_line().replace("SETUSER locker on", "SETUSER some reset on");
        cluster.run(&line.replace("~lock:*", keys));
    };
    let names: Vec<_> = (0..TASKS).map(|task| format!("lock:a{task}")).collect();
    let forbidden = String::from("lock:b");
    eventually("a row is refused", || {
        permit("~lock:*");
        let urls = cluster.iter().map(|server| server.url_with("some:secret"));
        let redlock = at(urls).build().expect("a good configuration");
        let mut guards = take(&cluster, &redlock, &names);
        if is_native(&redlock.nodes()) {
            return Some(());
        }
        guards.extend(take(&cluster, &redlock, slice::from_ref(&forbidden)));
        guards.swap(TASKS / 2, TASKS); // In the midst of the others.
        permit("~lock:a*");
        let [_, before] = scripts(&cluster);
        let tasks = guards.into_iter().map(async |guard: LockGuard| {
            let is_forbidden = guard.resource() == forbidden.as_bytes();
            let released = guard.unlock_async().await;
            assert_eq!(released.is_err(), is_forbidden, "{released:?}");
        });
        block_on(all(tasks));
        names.iter().for_each(|name| cluster.assert_gone(name));
        assert!(cluster.has_copies(&forbidden));
        let [_, after] = scripts(&cluster);
        permit("~lock:*");
        cluster.assert_gone(&forbidden);
        (before + 2 <= after).then_some(())
    });
}
