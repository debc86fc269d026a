//! Faults between the client and a server.

use std::thread;
use std::time::Duration;

use shearline::internals::LinkFault;
use shearline::{NodeOutcome, Unusable};

use super::story::{self, Fault, Scene, mischief};
use crate::effort::is_long;
use crate::face::Which;
use crate::servers::{End, LONG, Mischief, Options, SILENT, Way};

fn play(faults: &[Fault]) {
    story::play(&Options::redis(), faults);
}

fn play_silent(faults: &[Fault]) {
    story::play_silent(&Options::redis(), faults);
}

fn silent(outcome: NodeOutcome) -> bool {
    outcome == NodeOutcome::TimedOut
}

/// Returns `true` for a connection that ended, or could not be made.
fn broken(outcome: NodeOutcome) -> bool {
    use LinkFault::{Closed, ConnectTimeout, HandshakeReset, Protocol, Reset};
    match outcome {
        NodeOutcome::Unreachable(reason) => {
            matches!(
                reason.fault(),
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
        mischief!("delay", Mischief::Delay(Duration::from_millis(40)), None),
        mischief!("jitter", Mischief::Jitter(Duration::from_millis(60)), None),
        mischief!("bandwidth", Mischief::Bandwidth(4_000), None),
        mischief!(
            "one byte each 50 ms",
            Mischief::Drip(Duration::from_millis(50)),
            None
        ),
    ]);
}

#[test]
fn a_node_whose_bytes_come_too_late_times_out() {
    play_silent(&[
        mischief!("late", Mischief::Delay(2 * SILENT), Some(silent)),
        mischief!(
            "black hole to the server",
            Mischief::Hold(Way::ToServer),
            Some(silent)
        ),
        mischief!(
            "black hole to the client",
            Mischief::Hold(Way::ToClient),
            Some(silent)
        ),
        mischief!("half open", Mischief::HalfOpen, Some(silent)),
    ]);
}

/// The connection ends within an answer, in the middle of the handshake, or at once.
#[test]
fn a_node_whose_connection_ends_is_unreachable() {
    play(&[
        mischief!("cut at byte 0", Mischief::Cut(0, End::Fin), Some(broken)),
        mischief!("cut at byte 2", Mischief::Cut(2, End::Fin), Some(broken)),
        mischief!(
            "cut at byte 700",
            Mischief::Cut(700, End::Fin),
            Some(broken),
            End::Fin
        ),
        mischief!("reset at byte 0", Mischief::Cut(0, End::Rst), Some(broken)),
        mischief!("reset at byte 3", Mischief::Cut(3, End::Rst), Some(broken)),
        mischief!(
            "reset at byte 700",
            Mischief::Cut(700, End::Rst),
            Some(broken),
            End::Rst
        ),
    ]);
}

/// Open connections still work. New ones do not finish their handshake in time.
#[test]
fn a_node_that_connects_too_slowly_is_unreachable() {
    play_silent(&[
        mischief!(
            "handshake, one byte each 50 ms",
            Mischief::Drip(Duration::from_millis(50)),
            Some(too_slow),
            End::Fin
        ),
        mischief!(
            "handshake, little bandwidth",
            Mischief::Bandwidth(200),
            Some(too_slow),
            End::Fin
        ),
    ]);
}

fn too_slow(outcome: NodeOutcome) -> bool {
    outcome == NodeOutcome::Unreachable(LinkFault::ConnectTimeout.into())
}

/// The handshake ends at each of the first bytes from the node, and at some of the later ones.
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
    face.await_settled();
}

/// An answer without a request ends the connection, and so does a protocol error.
#[test]
fn an_unrequested_answer_ends_the_connection() {
    play(&[
        mischief!(
            "an extra answer",
            Mischief::Extra(b"-ERR more\r\n"),
            Some(wrong)
        ),
        mischief!("every answer twice", Mischief::Twice, Some(wrong)),
        mischief!(
            "garbage",
            Mischief::Instead(b"\x00\x16\x03garbage\r\n"),
            Some(wrong)
        ),
        mischief!(
            "garbage behind the answer",
            Mischief::Extra(b"\xff"),
            Some(wrong)
        ),
    ]);
}

/// Returns `true` if the protocol was broken, on the old connection or in the handshake of the next.
fn wrong(outcome: NodeOutcome) -> bool {
    match outcome {
        NodeOutcome::Unreachable(reason) => reason.fault() == LinkFault::Protocol,
        NodeOutcome::Unusable(reason) => matches!(
            reason,
            Unusable::NotRedis | Unusable::Refused(_) | Unusable::Tls(_)
        ),
        _ => false,
    }
}
