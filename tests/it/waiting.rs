//! Waiting on real servers: what wakes a waiter, and what it costs.
//!
//! On a busy machine, times show nothing. So the tests look at the commands that servers have run: a waiter that a
//! server has notified of a release asks for the lock at once; any other waiter has looked at every node again before
//! it asks. When and how often a waiter looks is checked by the stories of the engine (`engine::tests::wake`,
//! `unwoken`, `waits`, `queue`).

mod guards;
mod memory;

use std::thread;
use std::time::{Duration, Instant};

use shearline::{Builder, LockError, LockOptions, Waking};

use crate::face::{Face, Which, over};
use crate::scene::{FOREIGN, clusters};
use crate::servers::{Cluster, LONG, Options, Raw, until};

/// Waits for as long as a story lasts.
const PATIENT: LockOptions = LockOptions::new(LONG).wait(Duration::from_secs(60));

/// Makes a builder for a handle that sends nothing by itself that these stories would count.
fn quiet(cluster: &Cluster) -> Builder {
    over(cluster).watch_clocks(false)
}

// ----- what servers have run ------------------------------------------------------------------

/// Returns how often the server was asked for the remaining time of a key, and to notify the client of the key's next
/// change.
fn looked(raw: &mut Raw) -> u64 {
    match raw.calls("client") {
        0 => raw.calls("client|caching"),
        all => all - 1, // Redis 6.2 counts all of `CLIENT` together: once for `TRACKING`.
    }
}

fn each_looked(raws: &mut [Raw]) -> Vec<u64> {
    raws.iter_mut().map(looked).collect()
}

/// Returns the sum of [`looked`] over all servers.
fn looks(raws: &mut [Raw]) -> u64 {
    each_looked(raws).iter().sum()
}

/// Waits until every node has been looked at more often than in `before`, and so would notify a waiter of the next
/// change.
fn await_told(raws: &mut [Raw], before: &[u64]) {
    for (raw, before) in raws.iter_mut().zip(before) {
        until("the waiter has asked to be told", || {
            let told = raw.info("clients", "tracking_clients").as_deref() == Some("1");
            told && *before < looked(raw)
        });
    }
}

/// Waits for the lock with `options`, and releases it.
fn wait(waiter: &mut Face, key: &str, options: &LockOptions) -> Result<(), LockError> {
    let lock = waiter.lock_with(key, options)?;
    waiter.unlock(lock).expect("held");
    Ok(())
}

/// The most rounds of a story. It ends when [`TOLD`] rounds have shown that a server notified the waiter. On a busy
/// machine many rounds take so long that a waiter looks by itself.
const ROUNDS: usize = 40;

/// In how many rounds a server has to notify the waiter.
const TOLD: usize = 2;

/// A caller waits for the lock that `begin` takes. `end` ends that lock; it is called when all nodes have been asked to
/// notify the waiter.
///
/// A waiter that is not notified looks at all three nodes again before it asks for the lock. `end` itself makes `again`
/// looks, at all nodes together.
fn woken<T>(again: u64, begin: impl Fn(&Cluster, &str) -> T, end: impl Fn(T, &mut [Raw], &str)) {
    for cluster in clusters() {
        for which in Which::ALL {
            let mut raws = cluster.raws();
            let mut waiter = which.build(quiet(&cluster));
            let mut looked = Vec::new();
            while looked.iter().filter(|looked| **looked <= again + 2).count() < TOLD {
                assert!(looked.len() < ROUNDS, "{which:?} looks again: {looked:?}");
                let key = which.key(&looked.len().to_string());
                let lock = begin(&cluster, &key);
                let before = each_looked(&mut raws);
                thread::scope(|scope| {
                    let waiting = scope.spawn(|| wait(&mut waiter, &key, &PATIENT));
                    await_told(&mut raws, &before);
                    let before = looks(&mut raws);
                    end(lock, &mut raws, &key);
                    let result = waiting.join().expect("no panic");
                    result.unwrap_or_else(|error| panic!("{which:?}: {error}"));
                    looked.push(looks(&mut raws) - before);
                });
                for raw in &mut raws {
                    if raw.get(key.as_bytes()).as_deref() == Some(FOREIGN) {
                        raw.del(key.as_bytes());
                    }
                }
                waiter.await_quiet();
                cluster.assert_gone(&key);
            }
            for node in waiter.nodes() {
                assert_eq!(node.waking, Waking::Push, "{which:?}");
            }
        }
    }
}

/// Another client, with any library, holds `key`.
fn foreign(cluster: &Cluster, key: &str) {
    for raw in &mut cluster.raws() {
        raw.set_px(key.as_bytes(), FOREIGN, LONG);
    }
}

#[test]
fn a_waiter_is_woken_by_an_unlock_of_another_handle() {
    woken(
        0,
        |cluster, key| {
            let mut holder = Which::Shared.build(quiet(cluster));
            let lock = holder.try_lock(key, LONG).expect("free");
            holder.await_ready();
            (holder, lock)
        },
        |(mut holder, lock), _, _| _ = holder.unlock(lock).expect("held"),
    );
}

#[test]
fn a_waiter_is_woken_when_a_foreign_client_deletes_the_key() {
    for command in ["DEL KEY", "FLUSHALL"] {
        woken(0, foreign, |(), raws, key| {
            for raw in raws {
                raw.run(&command.replace("KEY", key));
            }
        });
    }
}

/// A lost connection also loses its requests for notification.
#[test]
fn a_waiter_is_told_on_its_next_connections_too() {
    not_with!(
        Redis62,
        "counts looks, which are not counted by themselves there"
    );
    woken(3, foreign, |(), raws, key| {
        let before = each_looked(raws);
        for raw in raws.iter_mut() {
            raw.run("CLIENT KILL TYPE normal SKIPME yes");
        }
        await_told(raws, &before);
        for raw in raws {
            assert!(raw.del(key.as_bytes()));
        }
    });
}

/// The key expires on each node. Servers report an expiry late, or never.
#[test]
fn a_waiter_is_woken_by_the_end_of_the_ttl() {
    const TTL: Duration = Duration::from_millis(500);
    for cluster in clusters() {
        let mut waiters = Which::ALL.map(|which| which.build(quiet(&cluster)));
        // The remaining time counts from before the question, so the keys do not end earlier.
        let begin = Instant::now();
        for raw in &mut cluster.raws() {
            raw.set_px(b"expires", FOREIGN, TTL);
        }
        thread::scope(|scope| {
            for waiter in &mut waiters {
                scope.spawn(move || {
                    wait(waiter, "expires", &PATIENT).expect("it has expired");
                    assert!(TTL <= begin.elapsed(), "a majority still has it");
                });
            }
        });
    }
}

// ----- where servers do not tell --------------------------------------------------------------

/// Deletes `key`, which is another client's, while `face` waits for it. The handle learns of that by looking from time
/// to time. Returns how each node's status says that waiters are woken. With `LocalRedlock` the key has no expiry.
pub(crate) fn learned_by_looking(cluster: &Cluster, face: &mut Face, key: &str) -> Vec<Waking> {
    let mut raws = cluster.raws();
    for raw in &mut raws {
        raw.set_px(key.as_bytes(), FOREIGN, LONG);
        if matches!(face, Face::Local(_)) {
            assert_eq!(raw.integer(&[b"PERSIST", key.as_bytes()]), 1);
        }
    }
    let before: Vec<u64> = raws.iter_mut().map(|raw| raw.calls("pttl")).collect();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = face.lock_with(key, &PATIENT).expect("it is deleted");
            face.unlock(lock).expect("held");
        });
        for (raw, before) in raws.iter_mut().zip(before) {
            until("it looks again and again", || {
                before + 3 <= raw.calls("pttl")
            });
        }
        cluster.delete(key);
        waiting.join().expect("no panic");
    });
    face.assert_gone(cluster, key);
    face.nodes().iter().map(|node| node.waking).collect()
}

/// Checks that the handle looks at servers without `command` from time to time, and that the status gives this reason.
fn are_looked_at(command: &str, is_why: fn(&Waking) -> bool) {
    for options in [Options::redis(), Options::valkey()] {
        let options = options.arguments(["--rename-command", command, ""]);
        let cluster = Cluster::with(3, &options);
        for which in Which::BOTH {
            let mut face = which.build(quiet(&cluster));
            let waking = learned_by_looking(&cluster, &mut face, &which.key(command));
            assert!(waking.iter().all(is_why), "{waking:?}");
        }
    }
}

#[test]
fn a_server_that_speaks_only_resp2_is_looked_at_from_time_to_time() {
    are_looked_at("HELLO", |waking| *waking == Waking::Resp2);
}

/// Google's Memorystore for Redis answers so: it blocks `CLIENT`.
#[test]
fn a_server_that_does_not_know_client_is_looked_at_from_time_to_time() {
    are_looked_at(
        "CLIENT",
        |waking| matches!(waking, Waking::Refused(error) if error.code() == "ERR"),
    );
}
