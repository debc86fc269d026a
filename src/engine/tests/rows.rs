//! Stories of releases that go to a node in one command, because they follow one another in a row.

use super::*;
use crate::limits::BATCH_MAX;

/// One release alone.
const RELEASE: &str = "EVALSHA release";

/// A node that has granted `count` locks: k0, k1 and so on.
fn holding(count: usize) -> (World, Vec<Lock>) {
    let mut world = World::ready(1);
    let locks = world.take_each(count);
    (world, locks)
}

/// Like [`holding`], with releases that were sent in these commands.
fn releasing(count: usize) -> (World, Vec<String>) {
    let (mut world, locks) = holding(count);
    world.release_all(locks);
    let sent = world.take(0);
    (world, sent)
}

/// Returns the command for the locks with these numbers.
fn row(numbers: Range<usize>) -> String {
    let each: Vec<_> = numbers.map(|it| format!("k{it}")).collect();
    format!("{RELEASE} {}", each.join(", "))
}

impl World {
    /// Takes `count` locks from the node: k0, k1 and so on.
    fn take_each(&mut self, count: usize) -> Vec<Lock> {
        let take = |number| {
            let name = format!("k{number}");
            self.lock_of(name.as_bytes())
        };
        let locks = (0..count).map(take).collect();
        self.take(0);
        locks
    }

    /// Releases `locks` in one turn, without polling for bytes to write.
    fn begin_releases(&mut self, locks: Vec<Lock>) {
        for lock in locks {
            self.engine.release(self.now, lock);
        }
    }

    fn release_all(&mut self, locks: Vec<Lock>) {
        self.begin_releases(locks);
        self.drain();
    }

    /// Returns the outcomes of the releases, in order.
    #[track_caller]
    fn all_unlocked(&mut self) -> Vec<Result<(), UnlockError>> {
        let result = |event| match event {
            Event::Released { result, .. } => result.map(drop),
            other => panic!("{other:?}"),
        };
        self.events.drain(..).map(result).collect()
    }

    /// Asserts that each of `count` releases has deleted its key.
    #[track_caller]
    fn are_released(&mut self, count: usize) {
        let all = self.all_unlocked();
        assert_eq!(all.len(), count, "{all:?}");
        assert!(all.iter().all(Result::is_ok), "{all:?}");
    }

    /// Like `are_released`, and asserts that nothing is left.
    #[track_caller]
    fn all_are_released(&mut self, count: usize) {
        self.are_released(count);
        self.is_clean();
    }
}

#[test]
fn each_release_of_a_row_has_the_answer_of_its_own_key() {
    let (mut world, sent) = releasing(5);
    assert_eq!(sent, [row(0..5)]);
    world.say(0, "*5|:1|:0|:-1|-WRONGTYPE x|:1|");
    let outcomes = world.all_unlocked();
    let [Ok(()), Err(missing), Err(foreign), Err(other), Ok(())] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let told = |error: &UnlockError| match error {
        UnlockError::NotHeld(report) => super::outcomes(report),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(missing), [NodeOutcome::Missing]);
    assert_eq!([told(foreign), told(other)], [[NodeOutcome::Held]; 2]);
    world.is_clean();
}

/// The connection to the only node is lost. Behind the next one is a server that could not load this script.
fn comes_back_without(world: &mut World, script: &crate::node::Script) {
    world.lose(0);
    world.welcome_again(0);
    world.take(0);
    let digest = format!("$40|{}|", script.sha1);
    world.say(0, &greeting("run0").replace(&digest, "-OOM x|"));
}

/// A server that could not load the script of a row gets the releases one by one.
#[test]
fn a_node_that_has_not_loaded_the_script_gets_no_row() {
    let (mut world, locks) = holding(2);
    comes_back_without(&mut world, &crate::node::RELEASE_EACH);
    world.release_all(locks);
    assert_eq!(world.take(0), [RELEASE; 2]);
}

/// A server that could not load a script at its start is asked again once it has run a command, also if that was a row.
#[test]
fn a_node_that_has_run_a_row_is_taught_what_it_could_not_load() {
    let (mut world, locks) = holding(2);
    comes_back_without(&mut world, &crate::node::EXTEND);
    assert_eq!(world.take(0), NOTHING);
    world.release_all(locks);
    world.exchange(0, [row(0..2)], "*2|:1|:1|");
    world.exchange(0, ["SCRIPT LOAD"; 4], &digests());
    world.all_are_released(2);
}

/// If one release has failed within the script, the node may still have its key.
#[test]
fn a_release_that_failed_in_a_row_is_sent_again_alone() {
    let (mut world, _) = releasing(3);
    world.say(0, "*3|:1|-MISCONF x|:1|");
    world.pass(SECOND);
    world.exchange(0, ["EVAL release"], ":1|");
    world.is_clean();
}

#[test]
fn one_release_alone_is_an_ordinary_release() {
    let (mut world, sent) = releasing(1);
    assert_eq!(sent, [RELEASE]);
    world.say(0, ":1|");
    world.all_are_released(1);
    // The last one of many is sent alone too.
    let (mut world, sent) = releasing(BATCH_MAX + 1);
    assert_eq!(sent, [&*row(0..BATCH_MAX), RELEASE]);
    world.say(0, &(released_each(BATCH_MAX) + ":1|"));
    world.all_are_released(BATCH_MAX + 1);
    // Releases of one turn each are in no row.
    let (mut world, locks) = holding(2);
    locks.into_iter().for_each(|lock| world.release(lock));
    world.exchange(0, [RELEASE; 2], ":1|:1|");
    world.all_are_released(2);
}

#[test]
fn long_names_make_shorter_rows() {
    let mut world = World::ready(1);
    let locks = world.long_locks(40, 0..1);
    world.take(0);
    world.release_all(locks);
    let sent = world.take(0);
    let rows: Vec<_> = sent.iter().map(|command| released_by(command)).collect();
    assert_eq!(rows, [14, 14, 12]);
    let answers: String = rows.into_iter().map(released_each).collect();
    world.say(0, &answers);
    world.all_are_released(40);
}

#[test]
fn an_answer_with_more_or_fewer_elements_ends_the_connection() {
    for answer in ["*2|:1|:1|", "*4|:1|:1|:1|:1|", ":1|", "+OK|", "*-1|", "*0|"] {
        let (mut world, _) = releasing(3);
        world.say(0, answer);
        assert_eq!(world.links[0], "reset", "{answer}");
        assert_eq!(world.owed(), 3, "{answer}");
    }
    // An element that is not an answer to a release also ends the connection. The elements before it count.
    let (mut world, _) = releasing(3);
    world.say(0, "*3|:1|+OK|:1|");
    assert_eq!(world.links[0], "reset");
    assert_eq!(world.owed(), 2);
}

// ----- order --------------------------------------------------------------------------------------

#[test]
fn what_is_asked_behind_a_row_is_written_behind_it() {
    let (mut world, mut locks) = holding(4);
    let rest = locks.split_off(2);
    world.begin_releases(locks);
    let options = once();
    let request = Request::new(b"k0", &options);
    world.engine.acquire(world.now, &request).expect("valid");
    world.release_all(rest);
    let sent = [&*row(0..2), "SET k0 10000", &*row(2..4)];
    world.exchange(0, sent, "*2|:1|:1|+OK|*2|:1|:1|");
    assert_eq!(world.events.len(), 5);
}

/// The socket takes nothing for a while. The commands that are begun meanwhile are withdrawn or stay.
#[test]
fn a_command_behind_a_row_can_be_withdrawn() {
    const MANY: usize = 40; // With this number of commands, an index finds one.
    let (mut world, locks) = holding(MANY);
    world.window[0] = 0;
    let before = world.acquire_of(b"before", &once());
    let gone = world.acquire_of(b"gone", &once());
    locks.into_iter().for_each(|lock| world.give_back(lock));
    world.cancel(gone);
    let behind = world.acquire_of(b"behind", &once());
    let last = world.acquire_of(b"last", &once());
    world.cancel(behind);
    world.make_room(0);
    let sent = ["SET before 10000", &*row(0..MANY), "SET last 10000"];
    world.exchange(0, sent, &format!("+OK|{}$-1|", released_each(MANY)));
    let decided = world.events.iter().map(|event| match event {
        Event::Acquired { round, result } => (*round, result.is_ok()),
        other => panic!("{other:?}"),
    });
    assert_eq!(decided.collect::<Vec<_>>(), [(before, true), (last, false)]);
}

// ----- refusals -----------------------------------------------------------------------------------

#[test]
fn a_node_that_has_forgotten_the_script_is_asked_for_each_by_its_text() {
    let (mut world, _) = releasing(3);
    world.say(0, "-NOSCRIPT x|");
    let sent = world.take(0);
    assert_eq!(sent[..4], ["SCRIPT LOAD"; 4]);
    assert_eq!(sent[4..], ["EVAL release"; 3]);
    world.say(0, &(digests() + ":1|:1|:1|"));
    world.all_are_released(3);
    // The scripts are loaded again.
    let locks = world.take_each(2);
    world.release_all(locks);
    assert_eq!(world.take(0), [row(0..2)]);
}

/// The row itself may be the reason for the refusal, so it is not known which release was refused. Sent one by one, the
/// releases may run.
#[test]
fn a_node_that_refuses_rows_is_asked_one_by_one() {
    for refusal in ["-CROSSSLOT x|", "-ERR x|", NO_KEY] {
        let (mut world, mut locks) = holding(8);
        let (next, later) = (locks.split_off(6), locks.split_off(3));
        world.release_all(locks);
        world.exchange(0, [row(0..3)], refusal);
        let sent = world.take(0);
        assert_eq!(sent[4..], ["EVAL release"; 3], "{refusal}");
        world.say(0, &(digests() + ":1|:1|:1|"));
        world.are_released(3);
        world.release_all(later);
        world.exchange(0, [RELEASE; 3], ":1|:1|:1|");
        world.are_released(3);
        // The next connection may lead to another server.
        world.greet_again(0);
        world.release_all(next);
        world.exchange(0, [row(6..8)], "*2|:1|:1|");
        world.all_are_released(2);
    }
}

/// A node that refuses every write has answered each release. This is no reason to send them one by one.
#[test]
fn a_node_that_refuses_everything_for_a_while_has_answered_all() {
    let (mut world, mut locks) = holding(5);
    let later = locks.split_off(3);
    world.release_all(locks);
    world.reply(0, "-MISCONF x|");
    assert_eq!(world.take(0), NOTHING);
    assert_eq!(world.owed(), 3);
    world.release_all(later);
    assert_eq!(world.take(0), [row(3..5)]);
}

// ----- connections --------------------------------------------------------------------------------

/// Releases that were not written have not left, and those that were written may have run. All of them become debts.
#[test]
fn a_connection_that_is_lost_leaves_every_release_of_a_row_owed() {
    for written in [false, true] {
        let (mut world, mut locks) = holding(5);
        let later = locks.split_off(3);
        world.begin_releases(locks);
        if written {
            world.drain();
            assert_eq!(world.take(0), [row(0..3)]);
        }
        world.lose(0);
        assert_eq!(world.engine.load().in_flight, 0);
        assert_eq!(world.take(0), NOTHING);
        assert_eq!(world.owed(), 3);
        world.reconnect(0);
        world.welcome(0);
        assert_eq!(world.take(0)[..3], ["EVAL release"; 3]);
        world.say(0, &format!(":1|:1|:1|{}", greeting("run0")));
        assert_eq!(world.owed(), 0);
        // On the next connection, the debts are not sent as a row.
        world.events.clear();
        world.release_all(later);
        world.exchange(0, [row(3..5)], &released_each(2));
        world.all_are_released(2);
    }
}

// ----- answers and writes out of turn -------------------------------------------------------------

/// A server that answers releases before they were written gets no further than that connection.
#[test]
fn a_row_that_was_answered_before_it_was_written_ends_the_connection() {
    for (answered, owed) in [(1, 2), (2, 1), (3, 0)] {
        let (mut world, locks) = holding(3);
        world.begin_releases(locks);
        world.say_undrained(0, &":1|".repeat(answered));
        world.drain();
        world.are_released(answered);
        world.exchange(0, [row(0..3)], "*3|:1|:1|:1|");
        assert_eq!(world.links[0], "reset", "{answered}");
        assert_eq!(world.owed(), owed, "{answered}");
    }
}

#[test]
fn a_release_behind_one_that_was_answered_before_it_was_written_is_in_no_row_with_it() {
    let (mut world, mut locks) = holding(3);
    let rest = locks.split_off(1);
    world.begin_releases(locks);
    world.say_undrained(0, ":1|");
    world.release_all(rest);
    assert_eq!(world.take(0), [RELEASE, &*row(1..3)]);
    world.are_released(1);
    world.say(0, ":1|");
    assert_eq!(world.links[0], "reset");
    assert_eq!(world.owed(), 2);
}

/// A driver may report more bytes than it was offered.
#[test]
fn a_release_that_counts_as_written_is_in_no_row() {
    let (mut world, mut locks) = holding(3);
    let rest = locks.split_off(1);
    world.begin_releases(locks);
    let (node, len) = (id(0), usize::MAX);
    let written = Input::Transmitted { node, len };
    world.engine.handle(world.now, written);
    world.release_all(rest);
    world.exchange(0, [row(1..3)], ":1|*2|:1|:1|");
    world.all_are_released(3);
}
