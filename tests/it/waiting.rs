//! Waiting on real servers: what wakes a waiter, what it sends, and what is left of it.
//!
//! Time shows nothing on a busy machine. What wakes is told from the commands that servers have run: a
//! waiter that is told of a release asks for the lock at once, and one that is not has looked at every
//! node again before that.

mod guards;
mod memory;
mod reports;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use shearline::engine::Event;
use shearline::{
    Builder, Driver, Lock, LockError, LockOptions, NodeStatus, Redlock, Retry, ServerError, Waking,
};

use crate::executor::block_on;
use crate::face::{Face, Which, at, held, over};
use crate::servers::{self, Cluster, LONG, Options, Proxy, Raw, eventually};

/// For as long as a story lasts.
const PATIENT: LockOptions = LockOptions::new(LONG).wait(Duration::from_secs(60));

/// The servers of all stories here.
fn clusters() -> impl Iterator<Item = Cluster> {
    let kinds = [Options::redis(), Options::valkey()].into_iter();
    kinds.map(|options| Cluster::with(3, &options))
}

/// Sends nothing by itself that these stories would count.
fn quiet(cluster: &Cluster) -> Builder {
    over(cluster).watch_clocks(false)
}

// ----- who waits ------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Kind {
    Blocking,
    Local,
    Future,
    Driver,
}

const KINDS: [Kind; 4] = [Kind::Blocking, Kind::Local, Kind::Future, Kind::Driver];

/// A handle of any kind that can wait.
#[derive(Debug)]
enum Waiter {
    Face(Face),
    Future(Redlock),
    Driver(Box<Driver>),
}

impl Waiter {
    fn new(kind: Kind, builder: Builder) -> Self {
        match kind {
            Kind::Blocking => Self::Face(Which::Shared.build(builder)),
            Kind::Local => Self::Face(Which::Local.build(builder)),
            Kind::Future => match Which::Shared.build(builder) {
                Face::Shared(redlock) => Self::Future(redlock),
                other @ Face::Local(_) => panic!("{other:?}"),
            },
            Kind::Driver => {
                let mut driver = builder.build_driver().expect("a good configuration");
                driver.wait_until_ready().expect("a majority is there");
                Self::Driver(Box::new(driver))
            }
        }
    }

    /// Waits as `options` say, and gives back what it gets.
    fn wait(&mut self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        match self {
            Self::Face(face) => {
                let lock = face.lock_with(key, options)?;
                face.unlock(lock).expect("held");
            }
            Self::Future(redlock) => {
                let lock = block_on(redlock.lock_with_async(key, options))?;
                block_on(lock.unlock_async()).expect("held");
            }
            Self::Driver(driver) => {
                driver.acquire(key.as_bytes(), options)?;
                let lock = acquired(driver)?;
                driver.release(lock).expect("asked");
                while driver.engine().load().rounds != 0 {
                    driver.turn(None).expect("it turns");
                }
                while driver.poll_event().is_some() {}
            }
        }
        Ok(())
    }

    /// Reads what is still to come: a handle without a thread of its own pays nothing while it is idle.
    /// A release that a user may not send natively is sent again by a script.
    fn settle(&mut self) {
        eventually("nothing is owed", || {
            let turn = Some(Duration::from_millis(1));
            match self {
                Self::Face(Face::Local(local)) => drop(local.poll(turn).expect("it turns")),
                Self::Driver(driver) => driver.turn(turn).expect("it turns"),
                Self::Face(Face::Shared(_)) | Self::Future(_) => {}
            }
            let open = |node: &NodeStatus| node.in_flight + node.owed != 0;
            (!self.nodes().iter().any(open)).then_some(())
        });
    }

    fn nodes(&self) -> Vec<NodeStatus> {
        match self {
            Self::Face(face) => face.nodes(),
            Self::Future(redlock) => redlock.nodes(),
            Self::Driver(driver) => driver.nodes(),
        }
    }
}

fn acquired(driver: &mut Driver) -> Result<Lock, LockError> {
    loop {
        match driver.poll_event() {
            Some(Event::Acquired { result, .. }) => return result,
            Some(other) => panic!("{other:?}"),
            None => driver.turn(None).expect("it turns"),
        }
    }
}

// ----- what servers have run ------------------------------------------------------------------

/// How often a server was asked to run `command`.
fn calls(raw: &mut Raw, command: &str) -> u64 {
    let stat = raw.info("commandstats", &format!("cmdstat_{command}"));
    let Some(stat) = stat else {
        return 0;
    };
    let calls = stat.strip_prefix("calls=").expect("the first field");
    let (calls, _) = calls.split_once(',').expect("more fields");
    calls.parse().expect("a number")
}

/// How often a server was asked to tell of the next change of a key, and what is left of it.
fn looked(raw: &mut Raw) -> u64 {
    match calls(raw, "client") {
        0 => calls(raw, "client|caching"),
        all => all - 1, // Redis 6.2 counts all of `CLIENT` together: once for `TRACKING`.
    }
}

fn each_looked(raws: &mut [Raw]) -> Vec<u64> {
    raws.iter_mut().map(looked).collect()
}

/// The same of all servers together.
fn looks(raws: &mut [Raw]) -> u64 {
    each_looked(raws).iter().sum()
}

/// Waits until every node would tell a waiter of the next change, of more than `before` looks.
fn await_told(raws: &mut [Raw], before: &[u64]) {
    for (raw, before) in raws.iter_mut().zip(before) {
        eventually("the waiter has asked to be told", || {
            let told = raw.info("clients", "tracking_clients").as_deref() == Some("1");
            (told && *before < looked(raw)).then_some(())
        });
    }
}

/// How often a story is told at most until [`TOLD`] of its rounds show that the waiter was told. On a busy
/// machine many rounds take so long that a waiter looks by itself.
const ROUNDS: usize = 40;

/// In how many rounds the waiter has to be told.
const TOLD: usize = 2;

/// Somebody waits for a lock that ends by `end`, which is called when all nodes have been asked to tell
/// of that. `begin` takes the lock.
///
/// A waiter that is not told looks at all three nodes again before it asks for the lock. `end` has the
/// nodes asked `again` so often, all together.
fn woken<T>(again: u64, begin: impl Fn(&Cluster, &str) -> T, end: impl Fn(T, &mut [Raw], &str)) {
    woken_with(quiet, again, begin, end);
}

/// The same with the handles that `build` configures.
fn woken_with<T>(
    build: fn(&Cluster) -> Builder,
    again: u64,
    begin: impl Fn(&Cluster, &str) -> T,
    end: impl Fn(T, &mut [Raw], &str),
) {
    for cluster in clusters() {
        for kind in KINDS {
            let mut raws = cluster.raws();
            let mut waiter = Waiter::new(kind, build(&cluster));
            let mut looked = Vec::new();
            while looked.iter().filter(|looked| **looked <= again + 2).count() < TOLD {
                assert!(looked.len() < ROUNDS, "{kind:?} looks again: {looked:?}");
                let key = format!("{kind:?}:{}", looked.len());
                let lock = begin(&cluster, &key);
                let before = each_looked(&mut raws);
                thread::scope(|scope| {
                    let waiting = scope.spawn(|| waiter.wait(&key, &PATIENT));
                    await_told(&mut raws, &before);
                    let before = looks(&mut raws);
                    end(lock, &mut raws, &key);
                    let result = waiting.join().expect("no panic");
                    result.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                    looked.push(looks(&mut raws) - before);
                });
                for raw in &mut raws {
                    if raw.get(key.as_bytes()).as_deref() == Some(FOREIGN) {
                        raw.del(key.as_bytes());
                    }
                }
                waiter.settle();
                cluster.assert_gone(&key);
            }
            for node in waiter.nodes() {
                assert_eq!(node.waking, Waking::Push, "{kind:?}");
            }
        }
    }
}

/// The token of another client.
const FOREIGN: &[u8] = b"foreign";

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
    woken(0, foreign, |(), raws, key| {
        for raw in raws {
            assert!(raw.del(key.as_bytes()));
        }
    });
}

#[test]
fn a_waiter_is_woken_when_a_majority_of_the_keys_is_deleted() {
    woken(0, foreign, |(), raws, key| {
        for raw in &mut raws[1..] {
            assert!(raw.del(key.as_bytes()));
        }
    });
}

#[test]
fn a_waiter_is_woken_by_flushall() {
    woken(0, foreign, |(), raws, _| {
        for raw in raws {
            raw.run("FLUSHALL");
        }
    });
}

/// Connections that are lost take along what was asked on them.
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

/// Each node ends its key by itself. Servers tell of that late, or never.
#[test]
fn a_waiter_is_woken_by_the_end_of_the_ttl() {
    for cluster in clusters() {
        for kind in KINDS {
            let mut raws = cluster.raws();
            let mut waiter = Waiter::new(kind, quiet(&cluster));
            // Before the keys are there: what is counted below is also allowed where they take a moment.
            let begin = Instant::now();
            for raw in &mut raws {
                raw.set_px(b"expires", FOREIGN, Duration::from_millis(500));
            }
            waiter.wait("expires", &PATIENT).expect("it has expired");
            // Each waiter looks once, and after half a second for the first time again.
            let looks = looks(&mut raws);
            let most = 3 + 3 * (begin.elapsed().as_millis() as u64 / 500);
            assert!(looks <= most, "{kind:?} has looked {looks} times");
            raws.iter_mut()
                .for_each(|raw| _ = raw.run("CONFIG RESETSTAT"));
        }
    }
}

// ----- where servers do not tell --------------------------------------------------------------

/// `key`, which is another client's, is deleted while `face` waits for it. The handle learns of that by
/// looking from time to time. Returns how each node says that it wakes. With `LocalRedlock` the key has
/// no expiry.
pub(crate) fn learned_by_looking(cluster: &Cluster, face: &mut Face, key: &str) -> Vec<Waking> {
    let mut raws = cluster.raws();
    for raw in &mut raws {
        raw.set_px(key.as_bytes(), FOREIGN, LONG);
        if matches!(face, Face::Local(_)) {
            assert_eq!(raw.integer(&[b"PERSIST", key.as_bytes()]), 1);
        }
    }
    let before: Vec<u64> = raws.iter_mut().map(|raw| calls(raw, "pttl")).collect();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = face.lock_with(key, &PATIENT).expect("it is deleted");
            face.unlock(lock).expect("held");
        });
        for (raw, before) in raws.iter_mut().zip(before) {
            eventually("it looks again and again", || {
                (before + 3 <= calls(raw, "pttl")).then_some(())
            });
        }
        for raw in &mut raws {
            assert!(raw.del(key.as_bytes()));
        }
        waiting.join().expect("no panic");
    });
    face.assert_gone(cluster, key);
    face.nodes().iter().map(|node| node.waking).collect()
}

#[test]
fn a_server_that_speaks_only_resp2_is_looked_at_from_time_to_time() {
    for options in [Options::redis(), Options::valkey()] {
        let options = options.arguments(["--rename-command", "HELLO", ""]);
        let cluster = Cluster::with(3, &options);
        for which in Which::BOTH {
            let mut face = which.build(quiet(&cluster));
            let waking = learned_by_looking(&cluster, &mut face, &which.key("resp2"));
            assert_eq!(waking, [Waking::Resp2; 3]);
        }
    }
}

/// As Google's Memorystore for Redis answers: it blocks `CLIENT`.
#[test]
fn a_server_that_does_not_know_client_is_looked_at_from_time_to_time() {
    for options in [Options::redis(), Options::valkey()] {
        let options = options.arguments(["--rename-command", "CLIENT", ""]);
        let cluster = Cluster::with(3, &options);
        for which in Which::BOTH {
            let mut face = which.build(quiet(&cluster));
            let waking = learned_by_looking(&cluster, &mut face, &which.key("client"));
            let unknown = Waking::Refused(ServerError::from_line(b"ERR"));
            assert_eq!(waking, [unknown; 3]);
        }
    }
}

// ----- a queue --------------------------------------------------------------------------------

/// Futures that wait for `key`, each polled once: in this order.
fn queued(redlock: &Redlock, key: &str, count: usize) -> Vec<Pin<Box<shearline::Acquiring>>> {
    let mut context = Context::from_waker(Waker::noop());
    let waiting = (0..count).map(|_| {
        let mut future = Box::pin(redlock.lock_with_async(key, &PATIENT));
        match future.as_mut().poll(&mut context) {
            Poll::Pending => future,
            Poll::Ready(result) => panic!("{result:?}"),
        }
    });
    waiting.collect()
}

/// The release of a lock and the request for the next go to each node in one piece.
#[test]
fn a_lock_that_is_handed_over_inside_a_program_takes_one_write_for_each_node() {
    not_with!(
        Tls | NoScripts,
        "a transaction takes two writes, and Valkey has no TLS here"
    );
    const HAND_OVERS: usize = 100;
    for cluster in clusters() {
        let proxies: Vec<Proxy> = cluster
            .iter()
            .map(|server| Proxy::to(server.address()))
            .collect();
        let builder = at(proxies.iter().map(Proxy::url)).watch_clocks(false);
        let Face::Shared(redlock) = Which::Shared.build(builder) else {
            panic!("it was asked for");
        };
        let mut lock = redlock.try_lock("handed over", LONG).expect("free");
        let waiting = queued(&redlock, "handed over", HAND_OVERS);
        eventually("all has arrived", || {
            (cluster.copies("handed over") == 3).then_some(())
        });
        let before: Vec<usize> = proxies.iter().map(Proxy::pieces).collect();
        let begin = Instant::now();
        for next in waiting {
            lock.unlock().expect("held");
            lock = block_on(next).expect("it is the next");
        }
        let took = begin.elapsed();
        // From time to time it leaves the lock to others: then it looks first.
        let pauses = 1 + took.as_millis() as usize / 100;
        let pieces = proxies.iter().zip(before);
        let pieces: Vec<_> = pieces
            .map(|(proxy, before)| proxy.pieces() - before)
            .collect();
        // A majority has each piece before the next is sent. A node that is slower may get two as one.
        assert!(2 * HAND_OVERS <= pieces.iter().sum(), "{pieces:?}");
        let most = HAND_OVERS + 4 * pauses;
        assert!(
            pieces.iter().all(|pieces| *pieces <= most),
            "{pieces:?} in {took:?}"
        );
        lock.unlock().expect("held");
    }
}

/// Commands that were run on all nodes since their numbers were reset.
fn total(raws: &mut [Raw]) -> u64 {
    let commands = [
        "set",
        "pttl",
        "client|caching",
        "client|tracking",
        "evalsha",
        "get",
    ];
    let counts = raws
        .iter_mut()
        .flat_map(|raw| commands.map(|command| calls(raw, command)));
    counts.sum()
}

#[test]
fn ten_thousand_waiters_of_one_handle_send_nothing_while_nothing_happens() {
    not_with!(NoScripts, "counts SETs, and one asks for a way to release");
    for cluster in clusters() {
        let mut raws = cluster.raws();
        let Face::Shared(redlock) = Which::Shared.build(quiet(&cluster)) else {
            panic!("it was asked for");
        };
        // The handle itself has the lock: no one has to look.
        let lock = redlock.try_lock("own", LONG).expect("free");
        eventually("it is everywhere", || {
            (cluster.copies("own") == 3).then_some(())
        });
        let before = total(&mut raws);
        let waiting = queued(&redlock, "own", 10_000);
        thread::sleep(Duration::from_secs(1));
        assert_eq!(total(&mut raws), before);
        drop(waiting);
        lock.unlock().expect("held");
        assert_eq!(calls(&mut raws[0], "set"), 1, "they have left no trace");
        // Another has it: the first of them looks.
        foreign(&cluster, "foreign");
        let (before, told) = (total(&mut raws), each_looked(&mut raws));
        let begin = Instant::now();
        let waiting = queued(&redlock, "foreign", 10_000);
        await_told(&mut raws, &told);
        thread::sleep(Duration::from_secs(1));
        let now = total(&mut raws) - before;
        let most = 16 + 12 * (begin.elapsed().as_secs() / 2 + 1);
        assert!(now <= most, "{now} commands");
        drop(waiting);
        // None of them asks for it later.
        let sets = calls(&mut raws[0], "set");
        for raw in &mut raws {
            assert!(raw.del(b"foreign"));
        }
        redlock
            .try_lock("foreign", LONG)
            .expect("free")
            .unlock()
            .expect("held");
        // A majority is enough for both: this node may be the last to run it.
        eventually("it has run one SET", || {
            (calls(&mut raws[0], "set") == sets + 1).then_some(())
        });
    }
}

/// A caller that gives up leaves nothing behind, and the next one gets the lock.
#[test]
fn waiters_that_give_up_leave_no_operation() {
    for cluster in clusters() {
        foreign(&cluster, "given up");
        let mut driver = quiet(&cluster)
            .build_driver()
            .expect("a good configuration");
        let brief = LockOptions::new(LONG).wait(Duration::from_millis(100));
        for _ in 0..10 {
            driver.acquire(b"given up", &brief).expect("asked");
            let round = driver.acquire(b"given up", &PATIENT).expect("asked");
            driver.turn(Some(Duration::ZERO)).expect("it turns");
            driver.cancel(round);
        }
        for _ in 0..10 {
            drop(held(acquired(&mut driver)));
        }
        eventually("all is answered", || {
            driver
                .turn(Some(Duration::from_millis(1)))
                .expect("it turns");
            let load = driver.engine().load();
            let all = [
                load.rounds,
                load.claims,
                load.owed,
                load.in_flight,
                load.unsent,
            ];
            (all == [0; 5]).then_some(())
        });
        cluster
            .raws()
            .iter_mut()
            .for_each(|raw| assert!(raw.del(b"given up")));
        driver.acquire(b"given up", &PATIENT).expect("asked");
        let lock = acquired(&mut driver).expect("free");
        driver.give_back(lock);
    }
}

// ----- for how long ---------------------------------------------------------------------------

/// Each kind of call has its own clock. How long it waits exactly is told in the stories of the engine.
#[test]
fn every_kind_of_call_waits_for_five_seconds_by_default() {
    let cluster = servers::three();
    foreign(&cluster, "held");
    thread::scope(|scope| {
        for kind in KINDS {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut waiter = Waiter::new(kind, quiet(cluster));
                let begin = Instant::now();
                held(waiter.wait("held", &LockOptions::new(LONG)));
                let waited = begin.elapsed();
                assert!(Duration::from_secs(4) < waited, "{kind:?}: {waited:?}");
                assert!(waited < Duration::from_secs(50), "{kind:?}: {waited:?}");
                let retry = Retry::new(2, Duration::ZERO..=Duration::from_millis(100));
                let mut waiter = Waiter::new(kind, quiet(cluster).retry(retry));
                let begin = Instant::now();
                held(waiter.wait("held", &LockOptions::new(LONG)));
                assert!(begin.elapsed() < Duration::from_secs(4), "{kind:?}");
            });
        }
    });
}

/// What a waiter was told by the nodes is in its error.
#[test]
fn a_call_that_gives_up_says_who_holds_the_lock_and_for_how_long() {
    for cluster in clusters() {
        foreign(&cluster, "held");
        let cluster = &cluster;
        thread::scope(|scope| {
            for kind in KINDS {
                scope.spawn(move || {
                    let mut waiter = Waiter::new(kind, quiet(cluster));
                    let options = LockOptions::new(LONG).wait(Duration::from_secs(1));
                    let report = held(waiter.wait("held", &options));
                    let left = report.held_for().expect("a majority has said so");
                    assert!(LONG / 2 < left && left <= LONG, "{kind:?}: {left:?}");
                    assert!(!report.is_held_here(), "{kind:?}");
                });
            }
        });
        for which in Which::BOTH {
            let mut face = which.build(quiet(cluster).owner("billing-7"));
            let lock = face.try_lock(which.key("own"), LONG).expect("free");
            let report = held(face.try_lock(which.key("own"), LONG));
            assert_eq!(report.holder(), Some(&b"billing-7"[..]));
            assert!(report.is_held_here());
            let left = report.held_for().expect("its own");
            assert!(LONG / 2 < left && left <= LONG, "{left:?}");
            face.unlock(lock).expect("held");
        }
    }
}
