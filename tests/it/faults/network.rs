//! Faults between the client and a server.

use std::thread;
use std::time::Duration;

use super::story::{self, Fault, Scene};
use crate::effort::is_long;
use crate::face::Which;
use crate::servers::Mischief::{
    self, Bandwidth, Cut, Delay, Drip, Extra, HalfOpen, Hold, Instead, Jitter, Twice,
};
use crate::servers::{End, LONG, Options, SILENT, Way};

const SLOW: Duration = Duration::from_millis(50);

fn play(faults: &[Fault]) {
    story::play(&Options::redis(), faults);
}

fn play_silent(faults: &[Fault]) {
    story::play_silent(&Options::redis(), faults);
}

/// A connection that ended, or could not be made.
const BROKEN: &str = "Unreachable(LinkError(Closed)) | Unreachable(LinkError(Reset)) | \
    Unreachable(LinkError(HandshakeReset)) | Unreachable(LinkError(ConnectTimeout)) | \
    Unreachable(LinkError(Protocol)) | Unusable(NotRedis)";

/// A delay below the node timeout costs no vote.
#[test]
fn delays_below_the_node_timeout_cost_no_vote() {
    play(&[
        Fault::of_relay("delay", "", Delay(Duration::from_millis(40))),
        Fault::of_relay("jitter", "", Jitter(Duration::from_millis(60))),
        Fault::of_relay("bandwidth", "", Bandwidth(4_000)),
        Fault::of_relay("one byte each 50 ms", "", Drip(SLOW)),
    ]);
}

#[test]
fn a_node_whose_bytes_come_too_late_times_out() {
    let silent = |name, mischief| Fault::of_relay(name, "TimedOut", mischief);
    play_silent(&[
        silent("late", Delay(2 * SILENT)),
        silent("black hole to the server", Hold(Way::ToServer)),
        silent("black hole to the client", Hold(Way::ToClient)),
        silent("half open", HalfOpen),
    ]);
}

/// The connection ends within an answer, in the middle of the handshake, or at once.
#[test]
fn a_node_whose_connection_ends_is_unreachable() {
    let ends = [End::Fin, End::Rst].map(|end| {
        let cut = |at| Fault::of_relay(&format!("{end:?} at byte {at}"), BROKEN, Cut(at, end));
        [cut(0), cut(2), cut(700).ending(end)]
    });
    play(ends.as_flattened());
}

/// Open connections still work. New ones do not finish their handshake in time.
#[test]
fn a_node_that_connects_too_slowly_is_unreachable() {
    let too_slow = |name, mischief| {
        let says = "Unreachable(LinkError(ConnectTimeout))";
        Fault::of_relay(name, says, mischief).ending(End::Fin)
    };
    play_silent(&[
        too_slow("handshake, one byte each 50 ms", Drip(SLOW)),
        too_slow("handshake, little bandwidth", Bandwidth(200)),
    ]);
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
    scene.proxies[0].set(Cut(place, end));
    let mut face = which.build(scene.builder());
    let lock = face.lock("anywhere", LONG).expect("two of three");
    face.unlock(lock).expect("two of three");
    scene.proxies[0].set(Mischief::None);
    face.await_settled();
}

/// An answer without a request ends the connection, and so does a protocol error, on the old connection or in the
/// handshake of the next.
#[test]
fn an_unrequested_answer_ends_the_connection() {
    let wrong = |name, mischief| {
        let says = "Unreachable(LinkError(Protocol)) | Unusable(NotRedis) | Unusable(Refused( | Unusable(Tls(";
        Fault::of_relay(name, says, mischief)
    };
    play(&[
        wrong("an extra answer", Extra(b"-ERR more\r\n")),
        wrong("every answer twice", Twice),
        wrong("garbage", Instead(b"\x00\x16\x03garbage\r\n")),
        wrong("garbage behind the answer", Extra(b"\xff")),
    ]);
}
