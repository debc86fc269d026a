//! Stories of locks that one engine hands over to another.

use super::*;

#[test]
fn a_lock_handed_over_stands_on_the_nodes_that_answered() {
    let (mut world, lock) = World::won(3, 2);
    world.take_all();
    let lock = world.detach(lock);
    assert_eq!(world.take_all(), [vec![], vec![], vec!["EVALSHA release"]]);
    world.say(2, "+OK|:1|");
    world.is_clean();
    // Another engine takes the lock over. It may be on any node.
    let (mut other, lock) = World::taken_over(world.now, lock);
    other.release(lock);
    assert_eq!(other.take_all(), vec![vec!["EVALSHA release"]; 3]);
    other.all_say(0..2, ":1|");
    assert!(other.unlocked().is_ok());
}

/// The answer to the first `SET` of the last node was lost, so it may still run there. The node has got another copy, and
/// the end of the lock rests on it.
#[test]
fn a_copy_that_has_confirmed_the_lock_is_not_released_when_the_lock_is_handed_over() {
    let (mut world, mut lock) = World::won(3, 2);
    world.take_all();
    world.greet_again(2);
    for _ in 0..2 {
        world.extend_but_for_2(&mut lock, ":0|");
    }
    world.exchange(2, ["SET k 10000"], "+OK|");
    world.wait(SECOND);
    world.ask_extension(&lock);
    world.take_all();
    world.say(0, ":1|");
    world.say(2, ":1|");
    world.extended(&mut lock);
    world.say(1, ":0|");
    let lock = world.detach(lock);
    let voters: Vec<_> = lock.voters().iter().map(NodeId::index).collect();
    assert_eq!(voters, [0, 1, 2]);
    assert_eq!(world.take_all(), [NOTHING; 3], "nothing is released");
    world.is_clean();
}

#[test]
fn an_extension_fits_its_own_lock_alone_also_where_locks_have_no_name() {
    let (mut world, one) = World::held(1);
    let mut one = world.detach(one);
    world.say(0, "");
    let two = world.lock_on(0..1);
    let mut two = world.detach(two);
    world.wait(Duration::from_secs(5));
    world.extend(&one);
    world.say(0, ":1|");
    let event = world.event();
    let Event::Extended { result, .. } = event else {
        panic!("{event:?}")
    };
    let extension = result.expect("confirmed");
    assert!(!extension.apply(&mut two) && extension.apply(&mut one));
}

/// `max_ttl` limits the ttls that callers of one handle ask for. A program on another machine may have taken a longer
/// lock.
#[test]
fn the_debt_of_a_lock_that_is_longer_than_the_own_limit_lasts_as_long_as_its_key() {
    let (mut world, lock) = World::held(1);
    let lock = world.detach_without_end(lock);
    let mut heir = World::with(named(1).max_ttl(SECOND)).greeted();
    heir.now = world.now;
    let lock = heir.adopt(lock);
    heir.lose(0);
    heir.release(lock);
    heir.pass(4 * SECOND);
    heir.welcome_again(0);
    let sent = heir.take(0);
    assert!(sent.contains(&"EVAL release".into()), "{sent:?}");
}
