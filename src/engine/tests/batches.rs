//! Stories of renewals that go to a node in one command.

use super::keep::{EXTEND, answers, kept, renewals};
use super::*;
use crate::error::ServerError;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX};

const NOSCRIPT: &str = "-NOSCRIPT x|";

/// A node that has granted `count` kept locks: k0, k1 and so on.
fn keeping(count: usize) -> (World, Vec<Lock>) {
    let mut world = World::ready(1);
    let locks = world.kept_locks(count);
    (world, locks)
}

/// Like [`keeping`], with renewals that are due and were sent in these commands.
fn due(count: usize) -> (World, Vec<Lock>, Vec<String>) {
    let (mut world, locks) = keeping(count);
    let (_, sent) = world.sleep_until_sent(0);
    (world, locks, sent)
}

/// The batch of the locks with these numbers.
fn batch(numbers: &[usize]) -> String {
    let each: Vec<_> = numbers.iter().map(|it| format!("k{it} 10000")).collect();
    format!("{EXTEND} {}", each.join(", "))
}

impl World {
    /// Lets the next due renewals begin, without polling for bytes to write.
    fn begin_renewals(&mut self) {
        let before = self.engine.load().in_flight;
        while self.engine.load().in_flight <= before {
            let (at, _) = self.engine.poll_timeout().expect("a timer");
            self.now = self.now.max(at);
            self.engine.handle(self.now, Input::Tick);
        }
    }

    /// The outcome of the extension of `lock`: `None` if there is none yet.
    fn outcome(&self, lock: &Lock) -> Option<Result<(), ExtendError>> {
        let mut outcomes = self.events.iter().filter_map(|event| match event {
            Event::Kept { lock: kept, result } if *kept == lock.id() => {
                Some(result.clone().map(|_| ()))
            }
            _ => None,
        });
        let outcome = outcomes.next();
        assert!(outcomes.next().is_none(), "one outcome each");
        outcome
    }

    /// Asserts that the only event besides extensions is a release that has deleted its key.
    #[track_caller]
    fn only_released(&mut self) {
        let is_kept = |event: &Event| matches!(event, Event::Kept { .. });
        self.events.retain(|event| !is_kept(event));
        assert!(self.unlocked().is_ok());
    }

    /// The first node says `reply`, which arrives in pieces of `len` bytes.
    fn say_in_pieces(&mut self, reply: &str, len: usize, each: impl Fn(&Self)) {
        let reply = reply.replace('|', "\r\n");
        for bytes in reply.as_bytes().chunks(len) {
            each(self);
            let node = id(0);
            self.input(Input::Received { node, bytes });
        }
    }

    fn kept_each(&self, locks: &[Lock]) -> Vec<bool> {
        let is_kept = |lock| matches!(self.outcome(lock), Some(Ok(())));
        locks.iter().map(is_kept).collect()
    }
}

#[test]
fn each_renewal_of_a_batch_has_the_answer_of_its_own_key() {
    let (mut world, locks, sent) = due(5);
    assert_eq!(sent, [batch(&[0, 1, 2, 3, 4])]);
    world.say(0, "*5|:1|:0|:-1|-MISCONF x|:1|");
    assert_eq!(world.kept_each(&locks), [true, false, false, false, true]);
    let outcomes: Vec<_> = locks[1..4].iter().map(|it| world.outcome(it)).collect();
    let [
        Some(Err(ExtendError::Lost(missing))),
        Some(Err(ExtendError::Lost(foreign))),
        Some(Err(ExtendError::Unconfirmed(refused))),
    ] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    let told = [missing, foreign, refused].map(|report| report.nodes()[0].outcome);
    let refusal = NodeOutcome::Refused(ServerError::from_line(b"MISCONF"));
    assert_eq!(told, [NodeOutcome::Missing, NodeOutcome::Held, refusal]);
}

/// However the bytes of the answer are cut.
#[test]
fn an_answer_to_a_batch_may_arrive_in_pieces() {
    let (mut world, locks, _) = due(4);
    world.say_in_pieces("*4|:1|:1|:0|:1|", 1, |world| {
        assert_eq!(world.kept_each(&locks), [false; 4], "not before its end");
    });
    assert_eq!(world.kept_each(&locks), [true, true, false, true]);
    let (mut world, locks, sent) = due(2 * BATCH_MAX + 1);
    assert_eq!(sent.len(), 3);
    // One command follows the batches, and is answered after them.
    world.release(locks.into_iter().next().expect("a lock"));
    world.say_in_pieces(&(answers(&sent, ":1|") + ":1|"), 7, |_| ());
    assert_eq!(world.extended_by_engine(), 2 * BATCH_MAX);
    world.only_released();
}

#[test]
fn one_renewal_alone_is_an_ordinary_extension() {
    let (mut world, locks, sent) = due(1);
    assert_eq!(sent, [EXTEND]);
    world.say(0, ":1|");
    assert_eq!(world.kept_each(&locks), [true]);
    // The last one of many is sent alone too.
    let (_, _, sent) = due(BATCH_MAX + 1);
    assert_eq!(sent.len(), 2);
    assert_eq!((renewals(&sent[..1]), &*sent[1]), (BATCH_MAX, EXTEND));
}

#[test]
fn an_answer_with_more_or_fewer_elements_ends_the_connection() {
    let none = [false; 3];
    for (answer, kept) in [
        ("*2|:1|:1|", none),
        ("*4|:1|:1|:1|:1|", none),
        (":1|", none),
        ("+OK|", none),
        ("$-1|", none),
        ("*-1|", none),
        ("*0|", none),
        ("-LOADING x|", none), // The server has loaded its data, and has forgotten.
        // An element that is not an answer to an extension. The elements before it count.
        ("*3|:1|+OK|:1|", [true, false, false]),
    ] {
        let (mut world, locks, _) = due(3);
        world.say(0, answer);
        assert_eq!(world.links[0], "connecting", "{answer}: again");
        assert_eq!(world.kept_each(&locks), kept, "{answer}");
    }
}

#[test]
fn a_node_that_has_forgotten_the_script_is_asked_for_each_by_its_text() {
    let (mut world, locks, _) = due(3);
    world.say(0, NOSCRIPT);
    let sent = world.take(0);
    assert_eq!(sent[..4], ["SCRIPT LOAD"; 4]);
    assert_eq!(sent[4..], ["EVAL extend"; 3]);
    world.say(0, &(digests() + ":1|:0|:1|"));
    assert_eq!(world.kept_each(&locks), [true, false, true]);
    // The scripts are loaded again.
    world.exchange(0, ["EVALSHA release"], ":0|"); // Of the one that is lost.
    assert_eq!(world.next_sent(0), [batch(&[0, 2])]);
}

/// The batch itself may be the reason for the refusal, so it is not known which renewal was refused. Sent one by one,
/// the renewals may run.
#[test]
fn a_node_that_refuses_batches_is_asked_one_by_one() {
    for refusal in ["-CROSSSLOT x|", "-ERR x|", NO_KEY] {
        let (mut world, locks, _) = due(3);
        world.say(0, refusal);
        let sent = world.take(0);
        assert_eq!(sent[4..], ["EVAL extend"; 3], "{refusal}");
        world.say(0, &(digests() + ":1|:1|:1|"));
        assert_eq!(world.kept_each(&locks), [true; 3]);
        assert_eq!(world.next_sent(0), [EXTEND; 3]);
        world.say(0, ":1|:1|:1|");
        assert_eq!(world.kept_each(&locks), [true; 3]);
        // The next connection may lead to another server.
        world.greet_again(0);
        assert_eq!(world.next_sent(0), [batch(&[0, 1, 2])]);
    }
}

/// A node that refuses every write has answered each renewal. This is no reason to send them one by one.
#[test]
fn a_node_that_refuses_everything_for_a_while_has_answered_all() {
    let (mut world, locks, _) = due(3);
    world.say(0, "-MISCONF x|");
    assert_eq!(world.take(0), NOTHING);
    for lock in &locks {
        let outcome = world.outcome(lock);
        assert_matches!(outcome, Some(Err(ExtendError::Unconfirmed(_))));
    }
    assert_eq!(world.next_sent(0), [batch(&[0, 1, 2])]);
}

#[test]
fn a_release_goes_behind_the_renewals_that_were_begun_before_it() {
    let (mut world, mut locks) = keeping(3);
    world.begin_renewals();
    world.release(locks.remove(1));
    // The renewal of this lock had not left.
    let sent = world.take(0);
    assert_eq!(sent, [&*batch(&[0, 2]), "EVALSHA release"]);
    world.say(0, "*2|:1|:1|:1|");
    assert_eq!(world.kept_each(&locks), [true; 2]);
    world.only_released();
    // The renewal of this lock has left.
    assert_eq!(world.next_sent(0), [batch(&[0, 2])]);
    world.release(locks.remove(0));
    world.exchange(0, ["EVALSHA release"], "*2|:1|:1|:1|");
    world.only_released();
    for lock in locks {
        world.release_on(0..1, lock);
    }
    world.is_clean();
}

/// Renewals that were only collected have not left, and end with the connection. Renewals that were written may have
/// run.
#[test]
fn a_connection_that_is_lost_answers_neither_what_was_collected_nor_what_was_written() {
    for written in [false, true] {
        let (mut world, locks) = keeping(3);
        world.begin_renewals();
        if written {
            world.drain();
            assert_eq!(world.take(0), [batch(&[0, 1, 2])]);
        }
        world.lose(0);
        assert_eq!(world.engine.load().in_flight, 0);
        assert_eq!(world.take(0), NOTHING);
        world.reconnect(0);
        world.greet(0);
        assert_eq!(world.next_sent(0), [batch(&[0, 1, 2])]);
        world.say(0, "*3|:1|:1|:1|");
        assert_eq!(world.kept_each(&locks), [true; 3]);
        for lock in locks {
            world.events.clear();
            world.release_on(0..1, lock);
        }
        world.is_clean();
    }
}

#[test]
fn renewals_of_different_ttls_go_together() {
    let mut world = World::ready(1);
    let long = world.kept_lock(b"long", LockOptions::new(3 * TTL / 2).keep());
    let short = world.kept_lock(b"short", kept());
    world.wait(4 * TTL / 5);
    world.input(Input::Tick);
    let sent = world.take(0);
    assert_eq!(renewals(&sent), 2, "{sent:?}");
    assert!(sent[0].contains("long 15000") && sent[0].contains("short 10000"));
    world.say(0, "*2|:1|:1|");
    assert_eq!(world.kept_each(&[long, short]), [true; 2]);
}

/// A batch of long names is not a longer command than any other batch.
#[test]
fn long_names_make_smaller_batches() {
    let mut world = World::ready(1);
    let name = |index| format!("{index:01024}");
    let _locks = [(); 40].map(|()| {
        let index = world.claims();
        world.kept_lock(name(index).as_bytes(), kept())
    });
    world.begin_renewals();
    let mut written = 0;
    while let Some(Output::Transmit { node, bytes }) = world.engine.poll(world.now) {
        let len = bytes.len();
        let batches = memchr::memmem::find_iter(bytes, b"EVALSHA").count();
        assert!(len <= batches * BATCH_BYTES_MAX && (3..=4).contains(&batches));
        written += len;
        let input = Input::Transmitted { node, len };
        world.engine.handle(world.now, input);
    }
    assert!(40 * 1024 < written);
}
