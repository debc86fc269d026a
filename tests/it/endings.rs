//! Programs that end right after they dropped their locks: no key is left on any node.
//!
//! Each program is this test binary again, told by its environment which [`ENDINGS`] to play. Most
//! keep their handle in a `static`, which is never dropped, and leave by `process::exit`, which
//! gives no other thread time for anything.
//!
//! `SHEARLINE_TEST_ENDING_RUNS` says how often each is played; the default is enough to notice a
//! drop that leaves its release to another thread and does not wait for it.

use std::cell::RefCell;
use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process::{self, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;

use shearline::{LockGuard, Redlock};

use crate::executor::{all, block_on};
use crate::face::at;
use crate::servers::{Cluster, LONG, Mischief, Proxy, Raw, Server, Way, within_patience};

const ENDING: &str = "SHEARLINE_TEST_ENDING";
const NODES: &str = "SHEARLINE_TEST_ENDING_NODES";
const RUNS: &str = "SHEARLINE_TEST_ENDING_RUNS";

/// How a program ends: a name, and what it does with its handle. Returning means that `main`
/// returns next.
type Ending = (&'static str, fn(Redlock));

const ENDINGS: [Ending; 11] = [
    ("a static handle, blocking", |handle| {
        drop(blocking(forever(handle)));
        process::exit(0);
    }),
    ("a static handle, a future", |handle| {
        drop(future(forever(handle)));
        process::exit(0);
    }),
    ("a static handle, main returns", |handle| {
        drop(future(forever(handle)));
    }),
    ("a static handle, eight threads", |handle| {
        eight_threads(forever(handle));
        process::exit(0);
    }),
    ("a static handle, many futures", |handle| {
        many_futures(forever(handle));
        process::exit(0);
    }),
    ("unlocked, then exit", |handle| {
        let _ = future(forever(handle)).unlock().expect("held");
        process::exit(0);
    }),
    ("the last handle is dropped", |handle| {
        let guard = future(&handle);
        drop(handle);
        drop(guard);
        process::exit(0);
    }),
    ("a panic unwinds out of main", |handle| {
        let handle = forever(handle);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = future(handle);
            panic!("expected: the story of this program");
        }));
        assert!(unwound.is_err());
        process::exit(0);
    }),
    ("a guard in a thread-local", |handle| {
        thread_local!(static GUARD: RefCell<Option<LockGuard>> = const { RefCell::new(None) });
        let handle = forever(handle);
        let keeping = thread::spawn(|| GUARD.set(Some(future(handle))));
        keeping.join().expect("it only locks");
        process::exit(0);
    }),
    ("dropped on another thread", |handle| {
        let handle = forever(handle);
        let (guards, theirs) = mpsc::channel::<LockGuard>();
        let dropping = thread::spawn(move || theirs.into_iter().for_each(drop));
        for key in 0..8 {
            let guard = block_on(handle.lock_async(format!("sent:{key}"), LONG)).expect("free");
            guards.send(guard).expect("it listens");
        }
        drop(guards);
        dropping.join().expect("it only drops");
        process::exit(0);
    }),
    ("futures that are given up", |handle| {
        let handle = forever(handle);
        // Somebody else is served at the same time.
        drop(future(handle));
        for key in 0..8 {
            let mut locking = pin!(handle.lock_async(format!("given up:{key}"), LONG));
            let mut context = Context::from_waker(Waker::noop());
            let _ = locking.as_mut().poll(&mut context);
            thread::yield_now();
        }
        process::exit(0);
    }),
];

/// Says that it has its locks, and drops them once its input ends.
const BURST: Ending = ("many guards at once", |handle| {
    let handle = forever(handle);
    let lock = |key| handle.lock(format!("one of many:{key}"), LONG);
    let guards: Result<Vec<_>, _> = (0..32).map(lock).collect();
    println!("{HELD}");
    io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
    drop(guards.expect("free"));
    process::exit(0);
});

/// What [`BURST`] says.
const HELD: &str = "it has its locks";

#[test]
fn program() {
    let Ok(name) = env::var(ENDING) else {
        return;
    };
    let nodes = env::var(NODES).expect("the nodes are told");
    let handle = at(nodes.split(',')).build().expect("a good configuration");
    let mut endings = ENDINGS.into_iter().chain([BURST]);
    let (_, play) = endings
        .find(|(known, _)| *known == name)
        .expect("one of the endings");
    play(handle);
}

#[test]
fn no_program_that_drops_its_locks_and_ends_leaves_a_key() {
    let runs: usize = env::var(RUNS).map_or(2, |runs| runs.parse().expect("a number"));
    let mut left = Vec::new();
    for nodes in [3, 5] {
        let cluster = Cluster::start(nodes);
        for (name, _) in ENDINGS {
            for _ in 0..runs {
                let output = ending(name, cluster.urls()).output();
                assert_ended_well(name, &output.expect("this binary starts"));
                left.extend(keys_of(&cluster).map(|keys| format!("{name}: {keys:?}")));
            }
        }
    }
    assert!(left.is_empty(), "keys were left by: {left:#?}");
}

/// The kernel resets the connection of a program that ends with answers unread, and what was written last
/// may then be lost on its way (seen in 15 of 1,000 such programs on a busy machine: up to 21 of 32 keys
/// stay on one node or two). So the answers are held up here, and what was written is what arrives.
#[test]
fn the_release_of_each_of_many_guards_is_written_before_the_program_ends() {
    let runs: usize = env::var(RUNS).map_or(2, |runs| runs.parse().expect("a number"));
    let cluster = Cluster::start(3);
    let (name, _) = BURST;
    for _ in 0..runs {
        let proxies: Vec<Proxy> = (cluster.iter().map(Server::address).map(Proxy::to)).collect();
        let mut program = ending(name, proxies.iter().map(Proxy::url).collect())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this binary starts");
        let mut lines = BufReader::new(program.stdout.take().expect("piped")).lines();
        let held = lines.any(|line| line.expect("text").contains(HELD));
        for proxy in &proxies {
            proxy.set(Mischief::Hold(Way::ToClient));
        }
        drop(program.stdin.take());
        assert_ended_well(name, &program.wait_with_output().expect("it ends"));
        assert!(held, "it had its locks");
        assert_eq!(keys_of(&cluster), None, "keys were left");
    }
}

/// This test binary, told to play an ending.
fn ending(name: &str, nodes: Vec<String>) -> Command {
    let mut program = Command::new(env::current_exe().expect("this binary"));
    program
        .args(["endings::program", "--exact", "--nocapture"])
        .env(ENDING, name)
        .env(NODES, nodes.join(","))
        .stdin(Stdio::null());
    program
}

fn assert_ended_well(name: &str, output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
}

/// How many keys stay on each node behind a program that has ended, if any. They are removed.
fn keys_of(cluster: &Cluster) -> Option<Vec<i64>> {
    let mut raws = cluster.raws();
    let mut keys = || -> Vec<i64> { raws.iter_mut().map(Raw::keys).collect() };
    // What it wrote is on its way to the servers.
    let gone = within_patience(|| keys().iter().all(|keys| *keys == 0).then_some(()));
    if gone.is_some() {
        return None;
    }
    let left = keys();
    for raw in &mut cluster.raws() {
        raw.run("FLUSHALL");
    }
    Some(left)
}

/// Keeps the handle for as long as the program lives, as a `static` does.
fn forever(handle: Redlock) -> &'static Redlock {
    static HANDLE: OnceLock<Redlock> = OnceLock::new();
    HANDLE.get_or_init(|| handle)
}

fn blocking(handle: &Redlock) -> LockGuard {
    handle.lock("blocking", LONG).expect("free")
}

fn future(handle: &Redlock) -> LockGuard {
    block_on(handle.lock_async("future", LONG)).expect("free")
}

fn eight_threads(handle: &'static Redlock) {
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for turn in 0..5 {
                    let key = format!("{thread}:{turn}");
                    drop(handle.lock(key, LONG).expect("free"));
                }
            });
        }
    });
}

fn many_futures(handle: &'static Redlock) {
    let tasks = (0..16).map(|task| async move {
        let guard = handle.lock_async(format!("task:{task}"), LONG).await;
        drop(guard.expect("free"));
    });
    block_on(all(tasks));
}
