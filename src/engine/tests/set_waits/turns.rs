//! Stories of turns, and of reports meanwhile: no caller waits if nothing is held, and a report names the resource that
//! is held now.

use super::*;

/// The nodes have refused the set because of another name, which is free by now, or for which an earlier caller waits.
#[test]
fn a_set_that_waits_for_a_lock_of_this_handle_names_that_on_each_node() {
    for is_free in [true, false] {
        let mut world = Programs::new(2);
        let a = world.wants(1, "a");
        if !is_free {
            world.wants(0, "a");
        }
        let set = world.wants_as(0, "ab", &LockOptions::new(TTL).wait(300 * MS));
        let own = world.wants_as(0, "b", &once());
        assert!(world.has(own));
        if is_free {
            world.gives_back(a);
        }
        world.pass(302 * MS);
        let report = world.refusal(set);
        assert_eq!(report.held_resource(), Some(&b"b"[..]));
        assert!(report.is_held_here());
        let mut named = report.nodes().iter().map(|node| node.resource.as_deref());
        assert!(named.all(|name| name.map_or(is_free, |name| name == b"b")));
        world.serve_in_a_second();
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
    // For each change there is an attempt, what it undoes, and a look.
    assert!(sent <= 200 * 4 * NODES, "{sent}");
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
