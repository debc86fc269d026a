//! Stories of connections: handshakes, silence, and bytes that make no sense.

use super::*;
#[cfg(feature = "tls")]
use crate::error::{TlsFault, Unusable};
use crate::node::Waking;

#[test]
fn a_server_without_hello_is_greeted_in_resp2() {
    let mut world = World::with(Config::builder().node("redis://user:secret@a/3"));
    world.connect(0);
    let hello = ["HELLO 3 AUTH user secret SETNAME shearline"];
    world.exchange(0, hello, "-ERR unknown command `HELLO`|");
    let greeting = [
        "AUTH user secret",
        "CLIENT SETNAME shearline",
        "SELECT 3",
        "INFO server",
    ];
    assert_eq!(world.take(0)[..4], greeting);
    world.say(0, "+OK|+OK|+OK|");
    world.finish(0, "run0");
    assert_eq!(world.state(0), NodeState::Ready);
    let waking = |world: &World| world.engine.node_statuses(world.now).next().unwrap().waking;
    assert_eq!(waking(&world), Waking::Resp2, "it cannot push");
    world.lose(0);
    assert_eq!(waking(&world), Waking::Unasked, "the next connection may");
}

#[test]
fn garbage_costs_the_node_its_connection_and_nothing_else() {
    const FULL: &str = "-ERR max number of clients reached|";
    for (reply, reason) in [
        ("HTTP/1.1 400 Bad Request|", Unusable::NotRedis),
        ("-DENIED protected mode|", Unusable::Protected),
        (FULL, Unusable::TooManyClients),
    ] {
        let mut world = World::new(1);
        world.connect(0);
        world.say(0, reply);
        assert_eq!(world.state(0), NodeState::Unusable(reason));
        assert_eq!(world.links[0], "reset");
    }
    let mut world = World::ready(1);
    world.say(0, "+OK|"); // An answer to nothing.
    assert_eq!(world.state(0), NodeState::Down(LinkFault::Protocol.into()));
}

#[test]
fn pushes_take_no_place_and_a_flood_of_them_costs_the_connection() {
    let mut world = World::ready(1);
    let push = ">2|+invalidate|*1|+k|";
    world.try_once();
    world.say(0, &format!("{push}+OK|{push}"));
    let _held = world.lock();
    world.say(0, &push.repeat(1_000));
    assert_eq!(world.state(0), NodeState::Ready);
    world.say(0, &push.repeat(1_000));
    assert_eq!(world.state(0), NodeState::Down(LinkFault::Protocol.into()));
}

#[test]
fn inputs_that_fit_no_connection_do_nothing() {
    let mut world = World::ready(1);
    let last = id(crate::limits::NODES_MAX - 1); // No node has a larger id.
    for node in [id(0), id(1), last] {
        let (bytes, len, reason) = (&b""[..], usize::MAX, LinkFault::Reset.into());
        world.input(Input::Transmitted { node, len });
        world.input(Input::Connected { node });
        world.input(Input::Writable { node });
        world.input(Input::Received { node, bytes });
        if node != id(0) {
            world.input(Input::Disconnected { node, reason });
        }
    }
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.lose(0);
    let (node, len) = (id(0), 99);
    world.input(Input::Transmitted { node, len });
    world.no_quorum();
}

/// A plain port that is asked for TLS is silent until the connect timeout, and a certificate for another name is
/// refused each time. An attempt during the handshake of the next connection reports the same reason. A node that was
/// never tried has nothing to report.
#[test]
fn a_node_that_is_tried_again_is_reported_with_what_ended_the_last_try() {
    let unreachable = |fault: LinkFault| NodeOutcome::Unreachable(fault.into());
    let (timeout, reset) = (LinkFault::ConnectTimeout, LinkFault::HandshakeReset);
    for ended_by in [None, Some(timeout), Some(reset)] {
        let mut world = World::new(3);
        match ended_by {
            Some(LinkFault::HandshakeReset) => {
                world.connect(0);
                world.lose(0);
            }
            Some(fault) => world.lose_for(0, fault),
            None => {}
        }
        world.reconnect(0);
        (1..3).for_each(|node| world.lose_for(node, LinkFault::Refused));
        world.try_once();
        let outcome = ended_by.map_or(NodeOutcome::Pending, unreachable);
        let refused = unreachable(LinkFault::Refused);
        let report = world.no_quorum();
        assert_eq!(outcomes(&report), [outcome, refused, refused]);
        let is_tls = ended_by == Some(reset);
        assert_eq!(report.to_string().contains("TLS"), is_tls, "{report}");
    }
}

/// An operator has to correct a certificate. Calls that wait end at once, and the node is tried again with the usual
/// back-off.
#[cfg(feature = "tls")]
#[test]
fn a_node_without_tls_is_unusable() {
    let mut world = World::new(1);
    world.acquire(&patient());
    let fault = LinkFault::Tls(TlsFault::UnknownAuthority);
    world.lose_for(0, fault);
    let unusable = Unusable::Tls(fault.into());
    let report = world.no_quorum();
    assert_eq!(outcomes(&report), [NodeOutcome::Unusable(unusable)]);
    assert!(report.to_string().contains("unknown authority"), "{report}");
    assert_eq!(world.state(0), NodeState::Unusable(unusable));
}

/// Calls without a majority make the engine try to connect to its nodes, but at most four times a second.
#[test]
fn a_node_that_cannot_serve_is_not_tried_hot_however_often_a_lock_is_asked_for() {
    const SECONDS: u64 = 20;
    let reasons = [
        LinkFault::Closed,
        LinkFault::Refused,
        LinkFault::ConnectTimeout,
        #[cfg(feature = "tls")]
        LinkFault::Tls(TlsFault::UnknownAuthority),
    ];
    for reason in reasons {
        let mut world = World::new(1);
        world.lose_for(0, reason);
        let mut tries = 0;
        for _ in 0..SECONDS * 1_000 {
            world.try_once();
            if world.links[0] == "connecting" {
                tries += 1;
                world.lose_for(0, reason);
            }
            world.no_quorum();
            world.pass(MS);
        }
        // The back-off itself also begins with 50 ms.
        let allowed = SECONDS..=4 * SECONDS + 3;
        assert!(allowed.contains(&tries), "{reason:?}: {tries}");
    }
}

/// A provider is asked for each connection. Its credentials go into the handshake. If it fails or is late, reports say
/// so.
#[cfg(feature = "std")]
#[test]
fn credentials_are_given_for_each_connection() {
    use crate::config::Credentials;
    let nodes = ["redis://a", "redis://app@b/1", "redis://u:p@c"];
    let nodes = Config::builder().nodes(nodes);
    let mut world = World::with(nodes.credentials(|_| Err("a driver asks".into())));
    let token = |text: &str| Ok(Credentials::new(text).user("locker"));
    world.engine.log_in(id(0), token("one"));
    world.engine.log_in(id(1), token("two"));
    for (node, login) in [(0, "locker one"), (1, "app two"), (2, "u p")] {
        world.connect(node);
        let hello = format!("HELLO 3 AUTH {login} SETNAME shearline");
        assert_eq!(world.take(node), [hello]);
    }
    world.lose(0);
    world.reconnect(0);
    world.pass(Duration::from_secs(1));
    let status = |world: &World| world.engine.node_statuses(world.now).next();
    let said = |world: &World| status(world).expect("a node").to_string();
    let none = "a:6379: down: its credentials could not be obtained";
    let late = "the provider has not answered in time";
    assert_eq!(said(&world), format!("{none} ({late})"));
    world.reconnect(0);
    world.engine.log_in(id(0), Err("no such file".into()));
    world.lose_for(0, LinkFault::Credentials);
    assert_eq!(said(&world), format!("{none} (no such file)"));
}

/// Each line: a question, and answers that it does not have.
#[test]
fn an_answer_that_no_such_question_has_costs_the_connection() {
    let confirmed: fn() -> World = || {
        let (mut world, lock) = World::held(3);
        world.confirm(&lock);
        world
    };
    let inspected: fn() -> World = || {
        let mut world = World::ready(3);
        world.inspect();
        world
    };
    for (ask, answers) in [
        (confirmed, &[":-2|", "+OK|", "_|", "*0|"][..]),
        (
            inspected,
            &["*2|:5|:0|", "*3|:5|:0|:7|", ":5|", "+OK|", "$1|a|"],
        ),
        (inspected, &["*3|:-5|:0|$1|a|"]),
        (
            fencing::asked,
            &["*3|:1|:0|:0|", "*3|:1|:0|:-1|", "*3|:0|:0|:0|"],
        ),
        (
            fencing::asked,
            &["*3|:1|:0|:9000000000000001|", "$16|9000000000000001|"],
        ),
        (fencing::asked, &["$1|0|", "$2|-1|", "$1|x|", ":1|", "+OK|"]),
    ] {
        for answer in answers {
            let mut world = ask();
            world.say(0, answer);
            assert_ne!(world.links[0], "up", "{answer}");
        }
    }
    let (mut world, lock) = World::held(1);
    world.release(lock);
    world.exchange(0, ["EVALSHA release"], "+QUEUED|");
    assert_eq!(world.links[0], "reset");
    assert_eq!(world.owed(), 1);
}

#[test]
fn only_a_long_silence_ends_a_connection() {
    let mut world = World::ready(1);
    world.try_once();
    world.pass(Duration::ZERO);
    world.pass(29_900 * MS);
    assert_eq!(world.links[0], "up");
    world.pass(200 * MS);
    // The connection is given up by a reset, and opened again at once.
    assert_eq!(world.links[0], "connecting");
    world.take(0);
    world.welcome(0);
    assert_eq!(world.take(0)[0], "EVAL release");
}

#[test]
fn a_node_that_was_stopped_is_not_taken_for_a_distant_one() {
    let (mut world, lock) = World::held(1);
    for _ in 0..100 {
        world.engine.extend(world.now, &lock, TTL).expect("asked");
    }
    world.drain();
    world.pass(Duration::from_secs(3));
    world.say(0, &":1|".repeat(100));
    world.events.clear();
    world.acquire_of(b"other", &once());
    world.pass(60 * MS);
    world.no_quorum();
}
