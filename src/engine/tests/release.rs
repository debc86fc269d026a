//! Stories of releases, and of debts to a node that did not answer.

use super::*;

/// A number of locks with names of a kilobyte each whose releases do not fit into a buffer.
pub(super) const LOCKS: usize = 4_100;

fn long_name(number: usize) -> Vec<u8> {
    [&[b'n'; 1_000][..], &number.to_be_bytes()].concat()
}

impl World {
    /// Makes `count` locks with such names, which `nodes` have granted.
    pub(super) fn long_locks(&mut self, count: usize, nodes: Range<usize>) -> Vec<Lock> {
        let take = |number| {
            self.acquire_of(&long_name(number), &once());
            self.all_say(nodes.clone(), "+OK|");
            self.lock()
        };
        (0..count).map(take).collect()
    }
}

#[test]
fn a_node_that_was_not_asked_to_release_took_no_time_to_answer() {
    let (mut world, lock) = World::held(3);
    world.lose(1);
    world.lose(2);
    world.release(lock);
    world.say(0, ":1|");
    let Err(UnlockError::Unconfirmed(report)) = world.unlocked() else {
        panic!("one answer is no majority");
    };
    let reset = NodeOutcome::Unreachable(LinkFault::Reset.into());
    assert_eq!(outcomes(&report)[1..], [reset; 2]);
    let mut others = report.nodes()[1..].iter();
    assert!(others.all(|node| node.latency.is_none()));
}

#[test]
fn a_nil_is_a_vote_when_time_has_ended_what_was_owed_there() {
    let mut world = World::ready(3);
    let locks = [(b"k", SECOND), (b"j", TTL), (b"i", TTL)].map(|(resource, ttl)| {
        world.acquire_of(resource, &LockOptions::new(ttl).tries(1));
        world.all_say(0..2, "+OK|");
        world.lock()
    });
    world.lose(2); // This keeps their claims alive.
    for lock in locks {
        world.engine.give_back(world.now, lock);
    }
    world.drain();
    world.say(1, "*3|:1|:1|:1|");
    world.say(0, "-MISCONF x|");
    world.pass(SECOND + 100 * MS);
    world.say(0, "-MISCONF x|-MISCONF x|-MISCONF x|");
    world.pass(MS);
    world.take_all();
    world.try_once();
    world.say(0, "$-1|");
    assert_eq!(world.take(0), ["SET k 10000"], "it has expired there");
    world.say(1, "$-1|");
    world.held_by_another();
}

/// The releases of locks with long names fill the buffer of the only node, and the release of an attempt finds no room
/// in it.
#[test]
fn a_release_that_waits_for_room_is_not_sent_where_the_set_is_denied() {
    let mut world = World::ready(1);
    let locks = world.long_locks(LOCKS, 0..1);
    let round = world.acquire_of(&long_name(LOCKS), &once());
    world.take(0);
    world.window[0] = 0;
    locks.into_iter().for_each(|lock| world.give_back(lock));
    world.cancel(round);
    let (claims, owed) = (world.claims(), world.owed());
    assert_eq!(claims, LOCKS + 1);
    assert!(1 < owed, "there is no room for {owed}");
    world.say(0, "$-1|");
    assert_eq!((world.claims(), world.owed()), (claims - 1, owed - 1));
    world.make_room(0);
    for sent in [LOCKS + 1 - owed, owed - 1] {
        let commands = world.take(0).into_iter();
        let released: Vec<usize> = commands.map(|it| released_by(&it)).collect();
        assert_eq!(released.iter().sum::<usize>(), sent);
        let each: String = released.into_iter().map(released_each).collect();
        world.say(0, &each);
    }
    world.is_clean();
}
