//! Faults between the client and a server.

use std::thread;
use std::time::Duration;

use shearline::{LinkError, NodeOutcome, NodeState, NodeStatus, Unusable};

use super::story::{self, Fault, Scene, Victim};
use crate::effort::is_long;
use crate::face::Which;
use crate::servers::{End, LONG, Mischief, Options, Way, eventually};

fn play(faults: &[Fault]) {
    story::play(&Options::redis(), faults);
}

fn play_silent(faults: &[Fault]) {
    story::play_silent(&Options::redis(), faults);
}

fn calm(victim: &mut Victim<'_>) {
    victim.proxy.set(Mischief::None);
}

fn silent(outcome: NodeOutcome) -> bool {
    outcome == NodeOutcome::TimedOut
}

/// A connection that ended, or could not be made.
fn broken(outcome: NodeOutcome) -> bool {
    use LinkError::{Closed, ConnectTimeout, HandshakeReset, Protocol, Reset};
    match outcome {
        NodeOutcome::Unreachable(reason) => {
            matches!(
                reason,
                Closed | Reset | HandshakeReset | ConnectTimeout | Protocol
            )
        }
        NodeOutcome::Unusable(reason) => reason == Unusable::NotRedis,
        _ => false,
    }
}

/// A delay below the node timeout costs no vote.
#[test]
fn delays_below_the_node_timeout_cost_no_vote() {
    play(&[
        Fault {
            name: "delay",
            strike: |victim| victim.proxy.set(Mischief::Delay(Duration::from_millis(40))),
            heal: calm,
            says: None,
        },
        Fault {
            name: "jitter",
            strike: |victim| {
                victim
                    .proxy
                    .set(Mischief::Jitter(Duration::from_millis(60)));
            },
            heal: calm,
            says: None,
        },
        Fault {
            name: "bandwidth",
            strike: |victim| victim.proxy.set(Mischief::Bandwidth(4_000)),
            heal: calm,
            says: None,
        },
        Fault {
            name: "one byte each 50 ms",
            strike: |victim| victim.proxy.set(Mischief::Drip(Duration::from_millis(50))),
            heal: calm,
            says: None,
        },
    ]);
}

#[test]
fn a_node_whose_bytes_come_too_late_times_out() {
    play_silent(&[
        Fault {
            name: "late",
            strike: |victim| victim.proxy.set(Mischief::Delay(Duration::from_secs(3))),
            heal: calm,
            says: Some(silent),
        },
        Fault {
            name: "black hole to the server",
            strike: |victim| victim.proxy.set(Mischief::Hold(Way::ToServer)),
            heal: calm,
            says: Some(silent),
        },
        Fault {
            name: "black hole to the client",
            strike: |victim| victim.proxy.set(Mischief::Hold(Way::ToClient)),
            heal: calm,
            says: Some(silent),
        },
        Fault {
            name: "half open",
            strike: |victim| victim.proxy.set(Mischief::HalfOpen),
            heal: calm,
            says: Some(silent),
        },
    ]);
}

/// Within an answer, in the middle of the handshake, and at once.
#[test]
fn a_node_whose_connection_ends_is_unreachable() {
    play(&[
        Fault {
            name: "cut at byte 0",
            strike: |victim| victim.proxy.set(Mischief::Cut(0, End::Fin)),
            heal: calm,
            says: Some(broken),
        },
        Fault {
            name: "cut at byte 2",
            strike: |victim| victim.proxy.set(Mischief::Cut(2, End::Fin)),
            heal: calm,
            says: Some(broken),
        },
        Fault {
            name: "cut at byte 700",
            strike: |victim| {
                victim.proxy.set(Mischief::Cut(700, End::Fin));
                victim.proxy.cut(End::Fin);
            },
            heal: calm,
            says: Some(broken),
        },
        Fault {
            name: "reset at byte 0",
            strike: |victim| victim.proxy.set(Mischief::Cut(0, End::Rst)),
            heal: calm,
            says: Some(broken),
        },
        Fault {
            name: "reset at byte 3",
            strike: |victim| victim.proxy.set(Mischief::Cut(3, End::Rst)),
            heal: calm,
            says: Some(broken),
        },
        Fault {
            name: "reset at byte 700",
            strike: |victim| {
                victim.proxy.set(Mischief::Cut(700, End::Rst));
                victim.proxy.cut(End::Rst);
            },
            heal: calm,
            says: Some(broken),
        },
    ]);
}

/// Open connections go on. New ones do not finish their handshake in time.
#[test]
fn a_node_that_connects_too_slowly_is_unreachable() {
    play_silent(&[
        Fault {
            name: "handshake, one byte each 50 ms",
            strike: |victim| {
                victim.proxy.set(Mischief::Drip(Duration::from_millis(50)));
                victim.proxy.cut(End::Fin);
            },
            heal: calm,
            says: Some(too_slow),
        },
        Fault {
            name: "handshake, little bandwidth",
            strike: |victim| {
                victim.proxy.set(Mischief::Bandwidth(200));
                victim.proxy.cut(End::Fin);
            },
            heal: calm,
            says: Some(too_slow),
        },
    ]);
}

fn too_slow(outcome: NodeOutcome) -> bool {
    outcome == NodeOutcome::Unreachable(LinkError::ConnectTimeout)
}

/// At each of the first bytes from the node, and at some of the later ones.
#[test]
fn a_handshake_may_end_at_any_byte() {
    let (first, step) = if is_long() { (24, 313) } else { (6, 997) };
    let places = (0..first).chain((first..6_000).step_by(step));
    thread::scope(|scope| {
        for which in Which::BOTH {
            for end in [End::Fin, End::Rst] {
                let places = places.clone();
                scope.spawn(move || {
                    let scene = Scene::new(&Options::redis());
                    for place in places {
                        ends_at(&scene, which, place, end);
                    }
                    scene.cluster.assert_empty();
                });
            }
        }
    });
}

fn ends_at(scene: &Scene, which: Which, place: usize, end: End) {
    scene.proxies[0].set(Mischief::Cut(place, end));
    let mut face = which.build(scene.builder());
    let lock = face.lock("anywhere", LONG).expect("two of three");
    face.unlock(lock).expect("two of three");
    scene.proxies[0].set(Mischief::None);
    eventually("nothing is owed", || {
        face.settle();
        let settled = |node: &NodeStatus| {
            node.state == NodeState::Ready && node.owed == 0 && node.in_flight == 0
        };
        face.nodes().iter().all(settled).then_some(())
    });
}

/// An answer without a request ends the connection, and so does a protocol error.
#[test]
fn an_unrequested_answer_ends_the_connection() {
    play(&[
        Fault {
            name: "an extra answer",
            strike: |victim| victim.proxy.set(Mischief::Extra(b"-ERR more\r\n")),
            heal: calm,
            says: Some(wrong),
        },
        Fault {
            name: "every answer twice",
            strike: |victim| victim.proxy.set(Mischief::Twice),
            heal: calm,
            says: Some(wrong),
        },
        Fault {
            name: "garbage",
            strike: |victim| {
                victim
                    .proxy
                    .set(Mischief::Instead(b"\x00\x16\x03garbage\r\n"))
            },
            heal: calm,
            says: Some(wrong),
        },
        Fault {
            name: "garbage behind the answer",
            strike: |victim| victim.proxy.set(Mischief::Extra(b"\xff")),
            heal: calm,
            says: Some(wrong),
        },
    ]);
}

/// A broken protocol, on the old connection or in the handshake of the next.
fn wrong(outcome: NodeOutcome) -> bool {
    matches!(
        outcome,
        NodeOutcome::Unreachable(LinkError::Protocol)
            | NodeOutcome::Unusable(Unusable::NotRedis | Unusable::Refused(_) | Unusable::Tls(_))
    )
}

/// A connection that is cut again and again is made again at once, each time.
#[test]
fn a_connection_that_was_cut_is_made_again_at_once() {
    play(&[
        Fault {
            name: "closed once",
            strike: |victim| victim.proxy.cut(End::Fin),
            heal: calm,
            says: None,
        },
        Fault {
            name: "reset once",
            strike: |victim| victim.proxy.cut(End::Rst),
            heal: calm,
            says: None,
        },
    ]);
}
