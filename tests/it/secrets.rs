//! No public type shows a credential or a token: not by `Debug`, by `Display`, in a chain of errors or in a panic.
//! (`cli/tests/it` checks the same for the command.)
//!
//! The credentials are those of [`crate::canary`]. Of a token, two bytes and the owner label are
//! public.

use std::future::Future as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shearline::engine::{Engine, Event, Input, Output, Request};
use shearline::{
    Builder, Driver, ExtendError, Instant, Lock, LockError, LockOptions, Redlock, UnlockError,
};

use crate::canary::{CANARY, ESCAPED, PASSWORD, Secrets, USER, WRONG};
use crate::executor::block_on;
use crate::face::{Face, Held, Which, at};
use crate::fork::in_child;
use crate::refusal::GARBAGE;
use crate::servers::{ClosedPort, Cluster, End, LONG, Mischief, Options, Proxy, Server};

const OWNER: &str = "billing-7";

/// Starts three servers that know the user.
fn cluster() -> Cluster {
    let cluster = Cluster::with(3, &Options::redis().password(PASSWORD));
    cluster.run(&format!("ACL SETUSER {USER} on >{PASSWORD} ~* &* +@all"));
    cluster
}

fn urls(cluster: &Cluster) -> Vec<String> {
    let credentials = format!("{USER}:{ESCAPED}");
    let url = |server: &Server| server.url_with(&credentials);
    cluster.iter().map(url).collect()
}

fn builder(urls: &[String]) -> Builder {
    at(urls).owner(OWNER)
}

/// A lock that is held, extended, contended for, lost and released.
#[test]
fn no_secret_is_shown_of_locks_in_all_their_states() {
    let cluster = cluster();
    for which in Which::BOTH {
        let mut secrets = Secrets::credentials();
        let mut face = which.build(builder(&urls(&cluster)));
        secrets.debug("a handle", &face);
        let mut held = face.try_lock("held", LONG).expect("free");
        secrets.token(&held.token());
        secrets.debug("a lock", &held);
        if let Held::Guard(guard) = &held {
            secrets.debug("a token and a signal", (guard.token(), guard.lost()));
        }
        if let Held::Lock(lock) = &held {
            secrets.debug("a token and an id", (lock.token(), lock.id()));
        }
        assert!(format!("{held:?}").contains(OWNER), "the label is public");

        face.extend(&mut held, LONG).expect("held");
        face.confirm(&mut held).expect("held");
        secrets.debug("an extended lock", &held);
        let refused = face.try_lock("held", LONG).expect_err("held");
        assert_matches!(refused, LockError::Held(_), "{refused}");
        secrets.error("held by another", &refused);
        for raw in &mut cluster.raws() {
            raw.del(b"held");
        }
        let lost = face.extend(&mut held, LONG).expect_err("deleted");
        assert_matches!(lost, ExtendError::Lost(_), "{lost}");
        secrets.error("lost", &lost);
        let not_held = face.unlock(held).expect_err("deleted");
        assert_matches!(not_held, UnlockError::NotHeld(_), "{not_held}");
        secrets.error("not held", &not_held);

        let held = face.try_lock("held", LONG).expect("free");
        secrets.token(&held.token());
        secrets.debug("released", face.unlock(held).expect("held"));
        secrets.debug("a handle that was used", &face);
        for node in face.nodes() {
            secrets.debug("a status", node);
        }
    }
    cluster.assert_empty();
}

#[test]
fn no_secret_is_shown_of_futures() {
    let cluster = cluster();
    let mut secrets = Secrets::credentials();
    let redlock = builder(&urls(&cluster)).build_async();
    let redlock = block_on(redlock).expect("a good configuration");
    let mut context = Context::from_waker(Waker::noop());
    let mut acquiring = Box::pin(redlock.try_lock_async("future", LONG));
    secrets.debug("asleep", &acquiring);
    let guard = match acquiring.as_mut().poll(&mut context) {
        Poll::Ready(done) => done,
        Poll::Pending => {
            secrets.debug("on its way", &acquiring);
            block_on(acquiring.as_mut())
        }
    }
    .expect("free");
    secrets.token(guard.token().as_bytes());
    secrets.debug("done", &acquiring);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _ = acquiring.as_mut().poll(&mut context);
    }));
    secrets.panic("polled once more", &*panic.expect_err("it is done"));
    let lock = guard.into_lock();
    secrets.debug("detached", &lock);
    let bytes = lock.to_bytes();
    for damaged in [&bytes[..bytes.len() - 1], &bytes[1..], &[]] {
        let error = Lock::from_bytes(damaged).expect_err("it is damaged");
        secrets.error("damaged", &error);
    }
    secrets.debug("adopted", redlock.adopt(lock));
}

/// The child has the handles and may not use them. The unit tests of the shared handle check a broken handle, because
/// they can break it.
#[test]
fn no_secret_is_shown_of_handles_in_a_forked_child() {
    let cluster = cluster();
    let mut secrets = Secrets::credentials();
    let builder = builder(&urls(&cluster));
    let redlock = builder.build().expect("a good configuration");
    let mut local = builder.build_local().expect("a good configuration");
    let mut driver = builder.build_driver().expect("a good configuration");
    let guard = redlock.try_lock("guard", LONG).expect("free");
    let lock = local.try_lock("lock", LONG).expect("free");
    secrets.token(guard.token().as_bytes());
    secrets.token(lock.token().as_bytes());
    let mut all = Some((guard, lock));
    let in_the_child = move || {
        let (guard, mut lock) = all.take().ok_or("once")?;
        secrets.debug("a handle", &redlock);
        secrets.debug("a guard", &guard);
        secrets.debug("its signal", guard.lost());
        let acquiring = redlock.try_lock_async("child", LONG);
        secrets.debug("a future", &acquiring);
        let refused = block_on(acquiring).err().ok_or("a child may not lock")?;
        secrets.error("a future's outcome", &refused);
        let refused = guard.unlock().err().ok_or("a child may not unlock")?;
        secrets.error("unlock", &refused);
        let refused = local.extend(&mut lock, LONG);
        secrets.error("extend", &refused.err().ok_or("a child may not extend")?);
        secrets.debug("a lock", &lock);
        secrets.debug("a local handle", &local);
        let refused = driver.turn(Some(Duration::ZERO));
        secrets.error("a turn", &refused.err().ok_or("a child may not turn")?);
        secrets.debug("a driver", &driver);
        Ok(())
    };
    in_child(in_the_child, || {
        assert!(cluster.copies("guard") >= 2, "the child released nothing");
    });
}

/// Checks the inputs of a driver's engine, and the events of the driver.
#[test]
fn no_secret_is_shown_of_the_driver_and_its_events() {
    let cluster = cluster();
    let mut secrets = Secrets::credentials();
    let builder = builder(&urls(&cluster));
    let config = builder.config().expect("a good configuration");
    for node in config.nodes() {
        secrets.debug("a node's configuration", node);
        secrets.display("an address", node.label());
    }
    secrets.debug("a configuration", &config);
    secrets.debug("a builder", &builder);
    let mut driver = builder.build_driver().expect("a good configuration");
    driver.wait_until_ready().expect("the loop turns");
    let options = LockOptions::new(LONG);
    let round = driver.acquire(b"driver", &options).expect("there is room");
    secrets.debug("a round", round);
    let acquired = event(&mut driver);
    let shown = format!("{acquired:?} {acquired:#?}");
    let Event::Acquired { result, .. } = acquired else {
        panic!("another event");
    };
    let mut lock = result.expect("free");
    secrets.token(lock.token().as_bytes());
    secrets.assert_not_in("acquired", &shown);
    for confirms in [false, true] {
        let begun = match confirms {
            true => driver.confirm(&lock).ok(),
            false => driver.extend(&lock, LONG).ok(),
        };
        begun.expect("it is held");
        let extended = event(&mut driver);
        secrets.debug("extended", &extended);
        let (Event::Extended {
            result: Ok(extension),
            ..
        }
        | Event::Confirmed {
            result: Ok(extension),
            ..
        }) = extended
        else {
            panic!("{extended:?}");
        };
        secrets.debug("an extension", &extension);
        assert!(extension.apply(&mut lock));
    }
    driver.release(lock).expect("the driver is open");
    secrets.debug("released", event(&mut driver));
    secrets.debug("a driver", &driver);
    secrets.debug("its engine", driver.engine());
}

fn event(driver: &mut Driver) -> Event {
    crate::servers::eventually("an event", || {
        let limit = Some(Duration::from_millis(1));
        driver.turn(limit).expect("the loop turns");
        driver.poll_event()
    })
}

/// Checks all inputs and outputs of an engine whose node echoes its commands.
#[test]
fn no_secret_is_shown_of_the_engine() {
    let secrets = Secrets::credentials();
    let url = format!("redis://{USER}:{ESCAPED}@10.0.0.1");
    let config = builder(&[url]).config().expect("a good configuration");
    let now = Instant::ZERO;
    let mut engine = Engine::new(&config, [7; 32], now);
    let options = LockOptions::new(LONG);
    let request = Request::new(b"k", &options);
    secrets.debug("a request", request);
    engine.acquire(now, &request).expect("there is room");
    let mut sent = Vec::new();
    while let Some(output) = engine.poll(now) {
        secrets.debug("an output", &output);
        match output {
            Output::Connect { node } => engine.handle(now, Input::Connected { node }),
            Output::Transmit { node, bytes } => {
                sent.extend_from_slice(bytes);
                let (len, bytes) = (sent.len(), &sent.clone());
                let received = Input::Received { node, bytes };
                for input in [Input::Transmitted { node, len }, received] {
                    secrets.debug("an input", input);
                    engine.handle(now, input);
                }
            }
            Output::Disconnect { .. }
            | Output::Probe { .. }
            | Output::CloseProbe { .. }
            | Output::Event(_) => {}
        }
        secrets.debug("an engine", &engine);
    }
    let sent = String::from_utf8_lossy(&sent);
    assert!(sent.contains(PASSWORD), "it has logged in");
}

/// Checks the handles of nodes that refuse every client, and their errors.
#[test]
fn no_secret_is_shown_of_nodes_that_refuse_us() {
    let cluster = cluster();
    let (closed, stranger) = (ClosedPort::new(), Proxy::to(cluster[0].address()));
    stranger.set(Mischief::Flood(GARBAGE));
    let right = format!("{USER}:{ESCAPED}");
    let with = |url: String| url.replace("redis://", &format!("redis://{right}@"));
    let wrong_password = cluster[0].url_with(&format!("{USER}:{WRONG}"));
    let no_such_user = cluster[0].url_with(&format!("{WRONG}:{ESCAPED}"));
    for (situation, url) in [
        ("wrong password", wrong_password),
        ("no such user", no_such_user),
        ("refused", with(closed.url())),
        (
            "a stranger",
            with(format!("redis://{}", stranger.address())),
        ),
        ("no such name", format!("redis://{right}@nowhere.invalid")),
        ("no such socket", format!("unix://{right}@/nowhere/socket")),
    ] {
        for which in Which::BOTH {
            fails(situation, which, &url);
        }
    }
}

/// Servers echo unknown arguments in an error, and a stranger may send anything.
#[test]
fn no_secret_is_shown_where_nodes_echo_it() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let url = proxy.url_with(&format!("{USER}:{ESCAPED}"));
    for repeated in [
        "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'zilpzalp-user'\r\n",
        "-ERR wrong credentials zilpzalp\r\n",
        "+zilpzalp\r\n",
        "$8\r\nzilpzalp\r\n",
        "*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$8\r\nzilpzalp\r\n",
        "%1\r\n$8\r\nzilpzalp\r\n$8\r\nzilpzalp\r\n",
        ">2\r\n$8\r\nzilpzalp\r\n$8\r\nzilpzalp\r\n",
        "$8\r\nzilpz",
        "zilpzalp\r\n",
    ] {
        assert!(repeated.contains(&CANARY[..5]));
        proxy.set(Mischief::Instead(repeated.as_bytes()));
        proxy.cut(End::Rst);
        for which in Which::BOTH {
            fails("repeated", which, &url);
        }
    }
}

/// Asserts that `url` gives no lock, and that nothing shows a secret.
#[track_caller]
fn fails(situation: &str, which: Which, url: &str) {
    let secrets = Secrets::credentials();
    let builder = Redlock::builder()
        .node(url)
        .connect_timeout(Duration::from_millis(200));
    secrets.debug(situation, &builder);
    let mut face = which.build(builder);
    secrets.debug(situation, &face);
    let options = LockOptions::new(LONG).wait(Duration::from_millis(100));
    let error = face.lock_with("k", &options).expect_err("it is alone");
    secrets.error(situation, &error);
    let LockError::NoQuorum(report) = &error else {
        panic!("no client holds it: {error}");
    };
    secrets.display(situation, report);
    for node in report.nodes() {
        secrets.debug(situation, node);
        secrets.display(situation, node.outcome);
    }
    for node in face.nodes() {
        secrets.debug(situation, node);
    }
    secrets.debug(situation, &face);
    if let Face::Shared(redlock) = &face {
        secrets.debug(situation, redlock.try_lock_async("k", LONG));
    }
}

/// URLs that are broken in every way.
const BROKEN: [&str; 18] = [
    "redis://U:P@",
    "redis://U:P@h:70000",
    "redis://U:P@h:port",
    "redis://U:P@h/x",
    "redis://U:P@h/0?x=P",
    "redis://U:P@h/0#P",
    "redis://U:P@h h",
    "redis://U:P%2@h",
    "redis://U:P%FF@h",
    "redis://U:P/P@h",
    "redis://U:P?P@h",
    "redis://U:P#P@h",
    "redis://U:P",
    "rediss://U:P@h",
    "http://U:P@h",
    "P:U:P@h:1:2",
    "unix://U:P@",
    "unix://U:P@/s?db=P",
];

#[test]
fn no_secret_is_shown_of_broken_urls() {
    let secrets = Secrets::credentials();
    let good = format!("redis://{USER}:{WRONG}@h");
    let broken = BROKEN.map(|url| url.replace('U', USER).replace('P', WRONG));
    let twice = [good.clone(), format!("redis://{USER}:{ESCAPED}@h")];
    let long = format!("redis://{USER}:{}@h", WRONG.repeat(1000));
    let one = |url: &String| Redlock::builder().node(&good).node(url);
    let mut builders: Vec<Builder> = broken.iter().chain([&long]).map(one).collect();
    builders.push(Redlock::builder().nodes(&twice));
    builders.push(Redlock::builder().nodes([&good].repeat(32)));
    for (place, builder) in builders.iter().enumerate() {
        let situation = &format!("builder {place}");
        secrets.debug(situation, builder);
        secrets.error(situation, &builder.config().expect_err(situation));
        secrets.error(situation, &builder.build().expect_err(situation));
        secrets.error(situation, &builder.build_local().expect_err(situation));
        secrets.error(situation, &builder.build_driver().expect_err(situation));
        let built = block_on(builder.build_async());
        secrets.error(situation, &built.expect_err(situation));
    }
}
