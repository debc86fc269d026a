//! Stories of nodes that have forgotten the script which takes a lock.

use super::*;

/// Both were sent by the digest before the first of them was answered.
#[test]
fn two_locks_that_are_asked_for_at_once_both_get_the_text() {
    let mut world = asked();
    (0..3).for_each(|node| grants(&mut world, node, 7));
    assert_eq!(token(&mut world), Some(7));
    world.all_say(0..3, ":1|");
    world.take_all();
    world.acquire(&fenced());
    world.acquire_of(b"other", &fenced());
    let digests = ["k", "other"].map(|name| format!("by digest TAKE {name} {PROPOSED}"));
    assert_eq!(
        world.take_all(),
        [digests.clone(), digests.clone(), digests]
    );
    let texts = ["k", "other"].map(|name| format!("TAKE {name} {PROPOSED}"));
    for node in 0..3 {
        world.say(node, "-NOSCRIPT No matching script.|");
        world.say(node, "-NOSCRIPT No matching script.|");
        assert_eq!(world.take(node), texts, "node {node}");
    }
}
