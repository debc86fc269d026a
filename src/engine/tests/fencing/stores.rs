//! Stories of fencing tokens over nodes that run the scripts, with several clients.

use super::super::net::Net;
use super::*;
use crate::config::{Builder, RestartGuard};
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

/// Makes three nodes that were never used, and this number of clients.
fn unused(clients: usize) -> Net {
    let mut net = Net::new(3);
    for _ in 0..clients {
        client(&mut net, observed(), Duration::ZERO);
    }
    net.pass(2 * TTL);
    net
}

/// Makes three nodes with floors, and this number of clients.
fn net(clients: usize) -> Net {
    let mut net = unused(clients);
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
fn take(net: &mut Net, client: usize) -> Lock {
    net.lock_with(client, &fenced()).expect("it is free")
}

#[track_caller]
pub(super) fn take_token(net: &mut Net, client: usize) -> u64 {
    let lock = take(net, client);
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

#[track_caller]
pub(super) fn refused(net: &mut Net, client: usize) -> Vec<NodeOutcome> {
    outcomes(&report(net, client))
}

fn number(net: &Net, node: usize) -> u64 {
    let number = net.value(node, COUNTER).expect("a counter");
    number.parse().expect("a number")
}

fn set_number(net: &mut Net, node: usize, number: u64) {
    net.set(node, COUNTER, number.to_string().as_bytes());
}

fn set_numbers(net: &mut Net, number: u64) {
    (0..3).for_each(|node| set_number(net, node, number));
}

fn micros(net: &Net) -> u64 {
    SINCE_1970.as_micros() as u64 + net.now.as_nanos() / 1_000
}

const NO_FLOOR: NodeOutcome = NodeOutcome::Unusable(Unusable::NoFloor);

#[test]
fn nodes_that_were_never_used_have_no_floor_until_an_operator_gives_them_one() {
    let mut net = unused(2);
    assert!(refused(&mut net, 0).contains(&NO_FLOOR));
    let plain = net.lock(0, TTL).expect("plain locks are as before");
    assert_eq!(plain.fencing_token(), None);
    net.release(0, plain);
    trust(&mut net, 0);
    // The tokens rise for all clients.
    assert!(take_token(&mut net, 0) < take_token(&mut net, 1));
    net.is_clean();
}

#[test]
fn a_clock_that_is_ahead_lifts_no_counter_by_more_than_a_second() {
    let mut net = net(1);
    let hasty = client(&mut net, observed(), Duration::from_secs(1_000_000));
    let token = take_token(&mut net, hasty);
    assert_eq!(token, micros(&net) + 1_000_000);
    assert!(token < take_token(&mut net, 0));
}

#[test]
fn a_fenced_lock_and_a_plain_one_exclude_each_other() {
    let mut net = net(2);
    let held = take(&mut net, 0);
    assert_matches!(net.try_lock(1, TTL), Err(LockError::Held(_)));
    net.release(0, held);
    let held = net.try_lock(1, TTL).expect("it is free");
    let refused = net.lock_with(0, &fenced());
    assert_matches!(refused, Err(LockError::Held(_)));
    net.release(1, held);
    net.is_clean();
}

#[test]
fn the_token_stays_for_as_long_as_the_lock_is_held() {
    let mut net = net(2);
    let mut lock = take(&mut net, 0);
    let token = lock.fencing_token();
    assert!(token.is_some());
    net.pass(Duration::from_secs(4));
    net.extend(0, &mut lock, TTL).expect("it is held");
    net.confirm(0, &mut lock).expect("it is held");
    assert_eq!(lock.fencing_token(), token);
    // A node that has lost the lock gets it back.
    net.admin(1, "DEL k");
    net.extend(0, &mut lock, TTL).expect("it is held");
    net.extend(0, &mut lock, TTL).expect("it is held");
    assert!(net.value(1, b"k").is_some());
    assert_eq!(number(&net, 1), token.expect("it was asked for"));
    // The lock is handed over.
    let now = net.now;
    let lock = net.clients[0].engine.detach(now, lock);
    net.pump();
    let mut lock = net.clients[1].engine.adopt(now, lock);
    net.extend(1, &mut lock, TTL).expect("it is held");
    assert_eq!(lock.fencing_token(), token);
    // The lock is kept. Its claim then has the name and the token, too.
    let kept = net.clients[1].engine.keep(now, &mut lock, Duration::MAX);
    kept.expect("it is held");
    net.pass(2 * TTL);
    assert!(lock.is_valid_at(net.now));
    assert_eq!(lock.fencing_token(), token);
    net.release(1, lock);
    assert!(token < Some(take_token(&mut net, 0)));
}

/// An expired counter also reads as the floor.
#[test]
fn a_counter_that_is_no_number_reads_as_the_floor() {
    let huge = "99999999999999999999";
    for text in ["", "nan", "inf", "-5", "abc", "1e300", huge] {
        let mut net = net(1);
        let first = take_token(&mut net, 0);
        for node in 0..3 {
            match text {
                "" => net.admin(node, "DEL shearline:fence:k"),
                text => net.set(node, COUNTER, text.as_bytes()),
            }
        }
        let without_clock = net.client(observed());
        assert_eq!(take_token(&mut net, without_clock), first + 1, "{text}");
        assert_eq!(number(&net, 0), first + 1, "{text}");
    }
}

/// To begin again, delete the nodes' keys.
#[test]
fn behind_the_largest_token_there_is_none() {
    const USED_UP: NodeOutcome = NodeOutcome::Unusable(Unusable::NoMoreTokens);
    let mut net = net(1);
    set_numbers(&mut net, FENCING_TOKEN_MAX - 1);
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
    assert_eq!(take_token(&mut net, again), micros(&net) + 1_000_001);
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
        let mut net = net(1);
        let first = take_token(&mut net, 0);
        let statuses = net.clients[0].engine.node_statuses(net.now);
        let run_id = statuses.flat_map(|status| status.run_id).nth(1);
        let floor = text.replace("RUN", &run_id.expect("it says who it is"));
        net.set(1, FLOOR_KEY, floor.as_bytes());
        net.admin(1, "DEL shearline:fence:k");
        net.unreachable(0, true);
        let in_repair = NodeOutcome::Unusable(Unusable::InRepair);
        assert_eq!(refused(&mut net, 0)[1], in_repair, "{text}");
        net.unreachable(0, false);
        net.pass(2 * TTL);
        let floor = net.value(1, FLOOR_KEY).expect("it was repaired");
        let number = floor.rsplit(':').next().expect("a word");
        assert!(first <= number.parse().expect("a number"), "{text}");
        net.unreachable(2, true);
        assert!(first < take_token(&mut net, 0), "{text}");
    }
}

/// The counter has come back from a disk. The floor that the operator gave is at least as high as the numbers that the
/// counter lacks.
#[test]
fn an_old_counter_reads_as_the_floor_that_was_given_since() {
    let mut net = net(1);
    let old = take_token(&mut net, 0);
    net.pass(TTL);
    let last = take_token(&mut net, 0);
    set_numbers(&mut net, old);
    trust(&mut net, 0);
    let without_clock = net.client(observed());
    assert!(last < take_token(&mut net, without_clock));
}

#[test]
fn a_set_has_one_token_above_that_of_each_of_its_names() {
    let mut net = net(1);
    const HIGH: u64 = 2_000_000_000_000_000;
    let (now, options) = (net.now, fenced());
    assert!(take_token(&mut net, 0) < HIGH);
    for node in [0, 2] {
        let number = (HIGH - 1).to_string();
        net.set(node, b"shearline:fence:other", number.as_bytes());
    }
    let names: [&[u8]; 2] = [b"k", b"other"];
    let request = Request::all(&names, &options);
    net.clients[0].engine.acquire(now, &request).expect("valid");
    let lock = net.acquired(0).1.expect("it is free");
    assert_eq!(lock.fencing_token(), Some(HIGH));
    assert_eq!(lock.resources().len(), 2);
    let by_another = client(&mut net, observed(), Duration::ZERO);
    let held = net.lock_with(by_another, &fenced());
    assert_matches!(held, Err(LockError::Held(_)));
    net.release(0, lock);
    assert_eq!(take_token(&mut net, 0), HIGH + 1);
    net.is_clean();
}

#[test]
fn a_strict_guard_and_tokens_go_together() {
    let strict = || observed().restart_guard(RestartGuard::Strict);
    let mut net = Net::new(3);
    let first = client(&mut net, strict(), Duration::ZERO);
    let second = client(&mut net, strict(), Duration::ZERO);
    trust(&mut net, first);
    trust(&mut net, second);
    let before = take_token(&mut net, first);
    // The counters differ, so that there is a second round trip.
    set_number(&mut net, 1, before + 5_000_000);
    net.unreachable(2, true);
    let after = take_token(&mut net, second);
    assert_eq!(after, before + 5_000_001);
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    // The marker of the node is gone, so the node does not count.
    net.unreachable(0, true);
    net.admin(1, "DEL shearline:marker");
    let outcome = refused(&mut net, second)[1];
    assert_matches!(outcome, NodeOutcome::Quarantined { .. });
}
