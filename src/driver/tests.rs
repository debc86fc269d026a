//! A driver with its real engine, against nodes that answer from a script, each on a thread of its own.

use super::*;
use crate::Token;
use crate::config::Builder;
use crate::error::{ConfigError, ConfigFault};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::string::ToString;
use std::sync::Mutex;
use std::thread::{self, JoinHandle};
use std::vec;

#[cfg(feature = "tls")]
mod tls;

/// A long ttl, which also gives nodes a long time to answer, so that no test fails because the machine is busy.
const TTL: Duration = Duration::from_secs(100);
/// Never reached unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// The `run_id` of the next node.
static IDENTITY: AtomicU32 = AtomicU32::new(0);

/// A node that serves one connection: it completes the handshake, grants every lock and confirms every
/// release.
struct Node {
    url: String,
    /// The first words of its commands after the handshake.
    asked: Arc<Mutex<Vec<String>>>,
    /// Returns how the connection ended.
    end: JoinHandle<io::Result<()>>,
}

impl Node {
    fn start() -> Self {
        Self::answering(|word| match word {
            "SET" => Some("+OK\r\n"),
            _ => Some(":1\r\n"),
        })
    }

    /// Starts a node that answers lock commands as `answer` says, or not at all.
    fn answering(answer: fn(&str) -> Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&asked);
        let end = thread::spawn(move || {
            serve(listener.accept()?.0, |word, _| {
                log.lock().unwrap().push(word.into());
                answer(word)
            })
        });
        Self { url, asked, end }
    }

    /// Returns all its commands after the connection has ended, and asserts that the connection ended in order.
    fn whole(self) -> Vec<String> {
        self.end.join().unwrap().unwrap();
        Arc::into_inner(self.asked).unwrap().into_inner().unwrap()
    }
}

/// Completes the handshake, and answers lock commands as `answer` says, or not at all. `answer` gets the first word of
/// each command, and all words.
fn serve(
    peer: impl Read + Write,
    mut answer: impl FnMut(&str, &[String]) -> Option<&'static str>,
) -> io::Result<()> {
    let identity = IDENTITY.fetch_add(1, Ordering::Relaxed);
    let mut peer = BufReader::new(peer);
    while let Some(words) = read_command(&mut peer)? {
        let text = format!("run_id:{identity}\r\n");
        let reply = match words[0].as_str() {
            "HELLO" => Some("%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n".into()),
            "INFO" => Some(format!("${}\r\n{text}\r\n", text.len())),
            "SCRIPT" => Some("+OK\r\n".into()),
            // The first `SET` is a script, with more arguments than a release, and answers a number.
            "EVAL" if 6 < words.len() => {
                answer("SET", &words).map(|said| said.replace("+OK", ":1"))
            }
            word => answer(word, &words).map(String::from),
        };
        if let Some(reply) = reply {
            peer.get_mut().write_all(reply.as_bytes())?;
        }
    }
    Ok(())
}

fn read_command(reader: &mut impl BufRead) -> io::Result<Option<Vec<String>>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = vec![];
    for _ in 0..line[1..].trim_end().parse::<usize>().unwrap() {
        line.clear();
        reader.read_line(&mut line)?;
        let mut word = vec![0; line[1..].trim_end().parse::<usize>().unwrap() + 2];
        reader.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Ok(Some(words))
}

fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn driver_of(nodes: &[Node]) -> Driver {
    patient(nodes.iter().map(|node| node.url.clone()))
        .build_driver()
        .unwrap()
}

/// Returns `N` nodes, and a driver that is connected to them.
fn driven<const N: usize>() -> ([Node; N], Driver) {
    let nodes = [(); N].map(|()| Node::start());
    let driver = driver_of(&nodes);
    (nodes, driver)
}

fn patient(urls: impl IntoIterator<Item = String>) -> Builder {
    // These servers do not report their time.
    let builder = Builder::default()
        .nodes(urls)
        .shutdown_timeout(PATIENCE)
        .watch_clocks(false);
    builder.connect_timeout(PATIENCE).node_timeout(PATIENCE)
}

/// Takes turns until there is an event.
fn next_event(driver: &mut Driver) -> Event {
    loop {
        if let Some(event) = driver.poll_event() {
            return event;
        }
        driver.turn(Some(PATIENCE)).unwrap();
    }
}

fn take_lock(driver: &mut Driver) -> Lock {
    let round = driver.acquire(b"name", &LockOptions::new(TTL)).unwrap();
    let Event::Acquired { round: of, result } = next_event(driver) else {
        panic!("another event");
    };
    assert_eq!(of, round);
    result.unwrap()
}

fn kinds(asked: &[String]) -> Vec<&str> {
    asked
        .iter()
        .map(|word| if word == "SET" { "SET" } else { "release" })
        .collect()
}

#[test]
fn a_driver_is_built_and_locks_with_a_node_down() {
    let nodes = [Node::start(), Node::start()];
    let urls = [nodes[0].url.clone(), nodes[1].url.clone(), unused_address()];
    let start = clock::now();
    let mut driver = patient(urls).build_driver().unwrap();
    let waited = clock::now().saturating_since(start);
    assert!(waited < PATIENCE, "for the node that is down");
    let lock = take_lock(&mut driver);
    driver.give_back(lock);
}

#[test]
fn with_every_node_down_building_ends_with_the_connect_timeout() {
    let limit = Duration::from_millis(60);
    let start = clock::now();
    let builder = Builder::default()
        .nodes([unused_address(), unused_address(), unused_address()])
        .connect_timeout(limit);
    let driver = builder.build_driver().unwrap();
    assert!(start.saturating_add(limit) <= clock::now());
    for node in (0..3).map(crate::engine::NodeId::new) {
        let state = driver.engine().nodes()[node].state(clock::now());
        assert_ne!(state, crate::engine::NodeState::Ready);
    }
}

#[test]
fn a_mistake_in_the_configuration_is_found_before_any_io() {
    let error = Builder::default().build_driver().unwrap_err();
    assert_matches!(error, BuildError::Config(ConfigError(ConfigFault::NoNodes)));
    assert_eq!(error.to_string(), ConfigFault::NoNodes.to_string());
}

#[test]
fn a_host_waits_for_the_descriptor_in_a_loop_of_its_own() {
    let (_nodes, mut driver) = driven::<3>();
    let mut host = Poll::new().unwrap();
    let source = driver.as_raw_fd();
    host.registry()
        .register(&mut SourceFd(&source), mio::Token(0), Interest::READABLE)
        .unwrap();
    let mut events = Events::with_capacity(4);
    // Each attempt has its own name. With one name, the driver would leave the lock to other clients after a second,
    // until a deadline.
    for name in 0..20 {
        driver.acquire(&[name], &LockOptions::new(TTL)).unwrap();
        driver.flush();
        let lock = loop {
            if let Some(Event::Acquired { result, .. }) = driver.poll_event() {
                break result.unwrap();
            }
            match host.poll(&mut events, Some(PATIENCE)) {
                // This process was stopped and continued.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.unwrap(),
            }
            assert!(
                !events.is_empty(),
                "the answers did not make the descriptor readable"
            );
            driver.turn(Some(Duration::ZERO)).unwrap();
        };
        driver.give_back(lock);
        driver.flush();
    }
}

#[test]
fn a_waker_ends_a_turn_that_sleeps_or_the_next_one() {
    let (_nodes, mut driver) = driven::<1>();
    let start = clock::now();
    let waker = driver.waker();
    waker.wake_by_ref();
    driver.turn(Some(PATIENCE)).unwrap();
    let waking = thread::spawn(move || waker.wake());
    driver.turn(Some(PATIENCE)).unwrap();
    waking.join().unwrap();
    assert!(clock::now() < start.saturating_add(PATIENCE));
    let waker = driver.waker();
    drop(driver);
    waker.wake();
}

/// The parent has the same eventfd.
#[test]
fn a_waker_in_a_forked_child_does_not_wake_the_parent() {
    let (_nodes, mut driver) = driven::<1>();
    let is_ready = |driver: &Driver| {
        let mut descriptors = [PollFd::new(driver, PollFlags::IN)];
        rustix::event::poll(&mut descriptors, Some(&Timespec::default())).unwrap() == 1
    };
    while is_ready(&driver) {
        driver.turn(Some(Duration::ZERO)).unwrap();
    }
    let waker = driver.waker();
    driver.process.pretend(true);
    waker.wake_by_ref();
    assert!(!is_ready(&driver));
    driver.process.pretend(false);
    waker.wake();
    assert!(is_ready(&driver));
}

#[test]
fn a_socket_with_more_to_read_asks_for_another_turn() {
    let (_nodes, mut driver) = driven::<1>();
    driver.inner.wire.read_in_pieces_of(1);
    driver.acquire(b"name", &LockOptions::new(TTL)).unwrap();
    driver.flush();
    // The answer has five bytes. A turn reads four of them, and no event reports the last.
    while driver.until_deadline() != Some(Duration::ZERO) {
        assert!(driver.inner.events.is_empty());
        driver.turn(Some(PATIENCE)).unwrap();
    }
    driver.turn(None).unwrap();
    let Some(Event::Acquired { result, .. }) = driver.poll_event() else {
        panic!("the rest was not read");
    };
    driver.give_back(result.unwrap());
}

/// The timeout of a sleep does not run while the machine is suspended, but locks and rounds may end meanwhile.
#[test]
fn no_sleep_is_long_while_a_lock_is_held_or_a_round_is_open() {
    let (_nodes, mut driver) = driven::<2>();
    assert!(!only_naps(&mut driver), "there is nothing to watch");
    let lock = take_lock(&mut driver);
    assert!(only_naps(&mut driver), "its end is far away");
    let lock = driver.detach(lock);
    assert!(!only_naps(&mut driver), "it is watched by another");
    let lock = driver.adopt(lock);
    assert!(only_naps(&mut driver), "by this one again");
    driver.release(lock).unwrap();
    assert_matches!(next_event(&mut driver), Event::Released { .. });
    assert!(!only_naps(&mut driver), "it is over");

    let grants = Node::answering(|word| (word == "SET").then_some("+OK\r\n"));
    let builder = patient([grants.url.clone()]).shutdown_timeout(Duration::ZERO);
    let mut driver = builder.build_driver().unwrap();
    let lock = take_lock(&mut driver);
    let lock = driver.detach(lock);
    assert!(!only_naps(&mut driver), "it is watched by another");
    driver.extend(&lock, TTL).unwrap();
    assert!(only_naps(&mut driver), "a round is open");
}

/// Returns `true` if the driver would sleep for at most 100 ms although no timer is due so soon.
fn only_naps(driver: &mut Driver) -> bool {
    const NAP: Duration = Duration::from_millis(100);
    loop {
        let timer = driver.engine().poll_timeout();
        let left = timer.map(|(at, _)| at.saturating_since(clock::now()));
        if left.is_none_or(|left| 20 * NAP < left) {
            return driver.until_deadline().is_some_and(|sleep| sleep <= NAP);
        }
        driver.turn(Some(NAP)).unwrap();
    }
}

/// When a process is stopped and continued, its waiting ends, as after a signal that it handles. This would disturb the
/// other tests, so the test runs in a process of its own.
#[test]
fn an_interrupted_turn_is_an_empty_one() {
    const NAME: &str = "driver::tests::an_interrupted_turn_is_an_empty_one";
    const ALONE: &str = "SHEARLINE_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return interrupted_turn();
    }
    let mut alone = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(ALONE, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = Pid::from_child(&alone);
    let status = loop {
        if let Some(status) = alone.try_wait().unwrap() {
            break status;
        }
        for signal in [Signal::STOP, Signal::CONT] {
            kill_process(process, signal).unwrap();
        }
        thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success());
}

fn interrupted_turn() {
    let (_nodes, mut driver) = driven::<1>();
    while driver.until_deadline().is_some() {
        driver.turn(Some(PATIENCE)).unwrap();
    }
    let start = clock::now();
    driver.turn(Some(PATIENCE)).unwrap();
    assert!(
        clock::now() < start.saturating_add(PATIENCE),
        "it was not interrupted"
    );
    let lock = take_lock(&mut driver);
    driver.give_back(lock);
}

#[test]
fn a_dropped_driver_writes_the_release_and_closes_in_order() {
    let (nodes, mut driver) = driven::<3>();
    let lock = take_lock(&mut driver);
    driver.release(lock).unwrap();
    drop(driver);
    for node in nodes {
        assert_eq!(kinds(&node.whole()), ["SET", "release"]);
    }
}

#[test]
fn a_dropped_driver_gives_back_locks_that_were_not_taken() {
    let (nodes, mut driver) = driven::<1>();
    driver.acquire(b"name", &LockOptions::new(TTL)).unwrap();
    while driver.inner.events.is_empty() {
        driver.turn(Some(PATIENCE)).unwrap();
    }
    drop(driver);
    let [node] = nodes;
    assert_eq!(kinds(&node.whole()), ["SET", "release"]);
}

#[test]
fn a_dropped_driver_cancels_what_is_open() {
    let nodes = [Node::answering(|_| None)];
    let mut driver = driver_of(&nodes);
    driver.acquire(b"name", &LockOptions::new(TTL)).unwrap();
    driver.flush();
    driver.shut_down(Duration::from_millis(1));
    let [node] = nodes;
    assert_eq!(kinds(&node.whole()), ["SET", "release"]);
}

#[test]
fn a_closed_driver_does_nothing_any_more() {
    let (nodes, mut driver) = driven::<1>();
    let lock = take_lock(&mut driver);
    driver.shut_down(Duration::ZERO);
    let error = driver.acquire(b"name", &LockOptions::new(TTL)).unwrap_err();
    assert_matches!(error, LockError::Closed);
    assert_matches!(driver.extend(&lock, TTL), Err(ExtendError::Closed));
    assert_matches!(driver.release(lock), Err(UnlockError::Closed));
    assert_matches!(inner(driver.turn(None)), LockError::Closed);
    drop(driver);
    let [node] = nodes;
    assert_eq!(kinds(&node.whole()), ["SET"]);
}

/// Returns the error in an error of I/O.
fn inner(result: io::Result<()>) -> LockError {
    let inner = result.unwrap_err().into_inner().expect("an inner error");
    *inner.downcast().expect("an error of a lock")
}

/// The child of a fork has a copy of everything.
#[test]
fn a_forked_child_can_use_nothing_and_writes_nothing() {
    let (nodes, mut driver) = driven::<1>();
    let lock = take_lock(&mut driver);
    let round = driver.acquire(b"other", &LockOptions::new(TTL)).unwrap();
    driver.process.pretend(true);
    let error = driver.acquire(b"name", &LockOptions::new(TTL)).unwrap_err();
    assert_matches!(error, LockError::Forked);
    assert_matches!(driver.extend(&lock, TTL), Err(ExtendError::Forked));
    assert_matches!(inner(driver.turn(None)), LockError::Forked);
    assert_matches!(inner(driver.read()), LockError::Forked);
    driver.cancel(round);
    driver.flush();
    driver.shut_down(PATIENCE);
    let lock = driver.detach(lock);
    let lock = driver.adopt(lock);
    assert_matches!(driver.release(lock), Err(UnlockError::Forked));
    drop(driver);
    let [node] = nodes;
    assert_eq!(kinds(&node.whole()), ["SET"]);
}

/// The two copies are machines that were restored from one snapshot without connections, or processes that get their
/// seeds from the operating system.
#[test]
fn two_copies_of_a_process_draw_different_tokens() {
    type Build = fn(&Config) -> io::Result<Driver>;
    let builds: [Build; 2] = [|config| Driver::seeded(config, [7; 32]), Driver::new];
    for build in builds {
        let nodes = [Node::start(), Node::start()];
        let [one, other] = nodes.each_ref().map(|node| {
            let config = patient([node.url.clone()]).config().unwrap();
            let mut driver = build(&config).unwrap();
            driver.wait_until_ready().unwrap();
            take_lock(&mut driver).token().as_bytes().to_vec()
        });
        assert_ne!(one, other);
        assert_eq!(Token::new(&one).owner(), b"");
    }
}
