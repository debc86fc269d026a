//! Stories of fencing tokens over nodes that run the scripts, with several clients.

use super::super::net::Net;
use super::*;
use crate::config::Builder;
use crate::error::Report;
use crate::limits::FENCING_TOKEN_MAX;
use crate::resource::FLOOR_KEY;

const COUNTER: &[u8] = b"shearline:fence:k";

fn observed() -> Builder {
    named(3).watch_clocks(false).max_ttl(TTL)
}

/// Makes another client, whose clock is `ahead` of the nodes' clocks.
pub(super) fn client(net: &mut Net, builder: Builder, ahead: Duration) -> usize {
    let client = net.client(builder);
    let now = net.now;
    let since = SINCE_1970 + Duration::from_nanos(now.as_nanos()) + ahead;
    net.clients[client].engine.set_wall_clock(now, since);
    client
}

/// Makes three nodes with floors, and a client.
fn net() -> Net {
    let mut net = Net::new(3);
    client(&mut net, observed(), Duration::ZERO);
    net.pass(2 * TTL);
    trust(&mut net, 0);
    net.pass(Duration::from_secs(2)); // The floors are a second ahead.
    net
}

pub(in crate::engine::tests) fn trust(net: &mut Net, client: usize) {
    if let Ok(lock) = net.lock_with(client, &fenced()) {
        net.release(client, lock);
    }
    let now = net.now;
    let engine = &mut net.clients[client].engine;
    assert_eq!(engine.trust_all(now).0.len(), engine.nodes().len());
    net.pump();
}

#[track_caller]
pub(super) fn take_token(net: &mut Net, client: usize) -> u64 {
    let lock = net.lock_with(client, &fenced()).expect("it is free");
    let token = lock.fencing_token().expect("it was asked for");
    net.release(client, lock);
    token
}

#[track_caller]
pub(super) fn report(net: &mut Net, client: usize) -> Report {
    match net.lock_with(client, &fenced()) {
        Err(LockError::NoQuorum(report)) => report,
        other => panic!("{other:?}"),
    }
}

/// An expired counter also reads as the floor.
#[test]
fn a_counter_that_is_no_number_reads_as_the_floor() {
    let huge = "99999999999999999999";
    for text in ["", "nan", "inf", "-5", "abc", "1e300", huge] {
        let mut net = net();
        let first = take_token(&mut net, 0);
        for node in 0..3 {
            match text {
                "" => net.admin(node, "DEL shearline:fence:k"),
                text => net.set(node, COUNTER, text.as_bytes()),
            }
        }
        let without_clock = net.client(observed());
        assert_eq!(take_token(&mut net, without_clock), first + 1, "{text}");
        let counted = net.value(0, COUNTER);
        assert_eq!(counted, Some((first + 1).to_string()), "{text}");
    }
}

/// To begin again, delete the nodes' keys.
#[test]
fn behind_the_largest_token_there_is_none() {
    const USED_UP: NodeOutcome = NodeOutcome::Unusable(Unusable::NoMoreTokens);
    let mut net = net();
    let last_but_one = (FENCING_TOKEN_MAX - 1).to_string();
    (0..3).for_each(|node| net.set(node, COUNTER, last_but_one.as_bytes()));
    assert_eq!(take_token(&mut net, 0), FENCING_TOKEN_MAX);
    let report = report(&mut net, 0);
    assert_eq!(outcomes(&report)[..2], [USED_UP; 2], "{report}");
    assert!(report.needs_operator());
    net.clients.clear();
    for node in 0..3 {
        net.admin(node, "DEL shearline:fence:k shearline:floor");
    }
    let again = client(&mut net, observed(), Duration::ZERO);
    net.pass(2 * TTL);
    trust(&mut net, again);
    let time = SINCE_1970.as_micros() as u64 + net.now.as_nanos() / 1_000;
    assert_eq!(take_token(&mut net, again), time + 1_000_001);
}

/// The text is neither a floor nor a mark.
#[test]
fn a_floor_that_somebody_else_has_written_is_repaired() {
    for text in [
        "",
        "abc",
        "1:2",
        ":1:2",
        "RUN:1",
        "RUN:1:99999999999999999",
        "RUN:99999999999999999:5",
        "RUN:?5",
        "RUN:?99999999999999999999:5",
        "RUN:?5:99999999999999999",
        "RUN:?-1:5",
        "RUN:5:-1",
    ] {
        let mut net = net();
        let first = take_token(&mut net, 0);
        let statuses = net.clients[0].engine.node_statuses(net.now);
        let run_id = statuses.flat_map(|status| status.run_id).nth(1);
        let floor = text.replace("RUN", &run_id.expect("it says who it is"));
        net.set(1, FLOOR_KEY, floor.as_bytes());
        net.admin(1, "DEL shearline:fence:k");
        net.unreachable(0, true);
        let in_repair = NodeOutcome::Unusable(Unusable::InRepair);
        let refused = outcomes(&report(&mut net, 0));
        assert_eq!(refused[1], in_repair, "{text}");
        net.unreachable(0, false);
        net.pass(2 * TTL);
        let floor = net.value(1, FLOOR_KEY).expect("it was repaired");
        let number = floor.rsplit(':').next().expect("a word");
        assert!(first <= number.parse().expect("a number"), "{text}");
        net.unreachable(2, true);
        assert!(first < take_token(&mut net, 0), "{text}");
    }
}
