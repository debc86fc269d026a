//! Stories of turns, and of reports meanwhile: no caller waits if nothing is held, and a report names the resource that
//! is held now.

use super::*;
use crate::effort::effort;
use crate::engine::tests::net::Client;

impl Programs {
    /// Asserts that, if a caller wants something and nothing is held, some caller gets a lock within the time for which
    /// a lock is left to other programs.
    fn serves_somebody(&mut self) {
        let wanted = |one: &Client| one.engine.load().rounds != 0;
        for _ in 0..8 {
            if !self.locks.is_empty() || !self.net.clients.iter().any(wanted) {
                return;
            }
            self.pass(Duration::from_micros(250));
        }
        panic!("nobody is served");
    }
}

/// The nodes have refused the set because of another name, which is free by now.
#[test]
fn a_set_that_waits_for_a_lock_of_this_handle_names_that_on_each_node() {
    let mut world = Programs::new(2);
    let a = world.wants(1, "a");
    let set = world.wants_as(0, "ab", &LockOptions::new(TTL).wait(300 * MS));
    let once = world.wants_as(0, "b", &once());
    assert!(world.has(once));
    world.gives_back(a);
    world.pass(301 * MS);
    let report = world.refusal(set);
    assert_eq!(report.held_resource(), Some(&b"b"[..]));
    assert!(report.is_held_here());
    let named = report
        .nodes()
        .iter()
        .filter_map(|node| node.resource.as_deref());
    assert!(named.into_iter().all(|name| name == b"b"));
    world.serve_in_a_second();
}

/// Without the help of a timer, some caller has a lock as soon as nothing is held.
#[test]
fn nobody_waits_where_nothing_is_held() {
    for programs in 1..=3 {
        for seed in 0..effort(10, 40) {
            at_random(programs, seed, |_, _| {}, Programs::serves_somebody);
        }
    }
}

/// Others take the names of the set in turn, so that it never finds both free.
#[test]
fn a_set_that_never_finds_its_names_free_asks_once_for_each_change() {
    let mut world = Programs::new(2);
    let mut a = world.wants(1, "a");
    let mut b = world.wants(1, "b");
    let set = world.wants(0, "ab");
    let begun = world.sent(0);
    for _ in 0..100 {
        world.gives_back(a);
        a = world.wants(1, "a");
        world.pass(Duration::from_micros(300));
        world.gives_back(b);
        b = world.wants(1, "b");
        world.pass(Duration::from_micros(300));
    }
    assert_eq!(world.attempts(0), 1 + 200);
    let sent = world.sent(0) - begun;
    assert!(
        sent <= 200 * 4 * NODES,
        "an attempt, what it undoes, and a look: {sent}"
    );
    world.gives_back(a);
    world.gives_back(b);
    world.pass(2 * MS);
    assert!(world.has(set));
    world.serve_in_a_second();
}

/// No node was asked for the name that is left free.
#[test]
fn a_single_whose_time_is_up_at_a_name_that_is_left_free_names_no_holder() {
    let mut world = Programs::new(2);
    let foreign = world.wants(1, "b");
    let set = world.wants(0, "ab");
    let late = world.wants_as(0, "a", &LockOptions::new(TTL).wait(100 * MS));
    world.pass(101 * MS);
    let report = world.refusal(late);
    assert_eq!((report.tries(), report.holder()), (0, None));
    assert_eq!(outcomes(&report), [NodeOutcome::Pending; NODES]);
    let text = LockError::Held(report).to_string();
    assert_eq!(
        text,
        "lock `a`: earlier callers of this handle are waiting for it"
    );
    let once = world.wants_as(0, "a", &once());
    world.gives_back(once);
    assert!(!world.has(set));
    world.gives_back(foreign);
    assert!(world.has(set));
    world.serve_in_a_second();
}

/// This happens when a handle is closed: no node is asked in vain, and nothing is left.
#[test]
fn sets_that_end_together_ask_for_nothing() {
    let mut world = Programs::new(2);
    let held = world.wants(1, "b");
    for names in ["ab", "a", "ca", "bc", "dc", "d", "cd", "a", "bad"] {
        world.wants(0, names);
    }
    let now = world.net.now;
    let options = patient();
    let request = Request::all(&[b"e", b"f"], &options);
    world.engine(0).acquire(now, &request).expect("valid");
    let attempts = world.attempts(0);
    world.engine(0).cancel_acquisitions(now);
    world.pump();
    assert_eq!(world.attempts(0), attempts);
    assert_eq!(world.engine(0).load().rounds, 0);
    world.gives_back(held);
    world.serve_in_a_second();
}

/// With three tries, a set waits for three of the longest delays, wherever it is in its queues.
#[test]
fn a_set_with_few_tries_ends_in_their_time_if_nothing_changes() {
    for program in 0..2 {
        let mut world = Programs::new(2);
        let held = world.wants(program, "b");
        let set = world.wants_as(0, "ab", &LockOptions::new(TTL).tries(3));
        world.pass(749 * MS);
        assert!(world.refused.is_empty());
        world.pass(4 * MS);
        let report = world.refusal(set);
        assert_eq!(report.tries(), program as u32);
        assert_eq!(report.held_resource(), Some(&b"b"[..]));
        world.gives_back(held);
        world.serve_in_a_second();
    }
}

/// The set knows what the previous contender has seen, and learns of the next change.
#[test]
fn a_set_whose_turn_comes_where_another_has_waited_asks_nothing_before_a_change() {
    let mut world = Programs::new(2);
    let held = world.wants(1, "b");
    let before = world.wants_as(0, "b", &LockOptions::new(TTL).wait(100 * MS));
    world.pass(MS);
    let set = world.wants(0, "ab");
    world.pass(100 * MS);
    world.refusal(before);
    assert_eq!(world.attempts(0), 0);
    world.gives_back(held);
    assert!(world.has(set));
    assert_eq!(world.attempts(0), 1);
    world.serve_in_a_second();
}

/// Another client holds one of the names of the set, and an earlier contender waits for it.
#[test]
fn a_set_whose_time_is_up_names_the_lock_of_this_handle_rather_than_that_of_another() {
    let mut world = Programs::new(2);
    let foreign = world.wants(1, "a");
    let before = world.wants(0, "a");
    let own = world.wants(0, "b");
    let set = world.wants_as(0, "ab", &LockOptions::new(TTL).wait(100 * MS));
    world.pass(102 * MS);
    let report = world.refusal(set);
    assert!(report.is_held_here());
    assert_eq!(report.held_resource(), Some(&b"b"[..]));
    for node in report.nodes() {
        assert_eq!(node.resource.as_deref(), Some(&b"b"[..]));
    }
    world.gives_back(foreign);
    world.gives_back(own);
    assert!(world.has(before));
    world.serve_in_a_second();
}
