//! Stories of permits: numbered slots over a majority.

use super::*;

mod fencing;
#[cfg(feature = "embedded")]
mod programs;
#[cfg(feature = "embedded")]
mod turns;

/// The slot with which all nodes begin their search, for one of four permits of the resource `k`.
const START: u16 = 2;

/// Returns the answer of a node that has given this slot.
fn gives(slot: u16) -> String {
    format!("*3|:1|:0|:{slot}|")
}

/// Returns the answer of a node on which all slots are taken. The first becomes free after this number of milliseconds.
fn full(millis: u64) -> String {
    format!("*3|:2|:0|:{}|", millis + 1)
}

/// Returns the answer of a node on which the resource has this number of permits.
fn has(permits: u16) -> String {
    format!("*3|:3|:0|:{permits}|")
}

/// The commands to a node that has given another slot than the one that is held.
const COPY: [&str; 2] = ["TAKE OUT k but 4/2/", "SLOT k 10000 alone 2 of 4"];

impl World {
    fn ask_for(&mut self, permits: u16, options: &LockOptions) -> RoundId {
        self.begin(&Request::permit(b"k", permits, options))
    }

    /// Begins a call for one of four permits that waits.
    fn ask(&mut self) -> RoundId {
        self.ask_for(4, &patient())
    }

    /// Asserts that each node was sent these commands since the last look, and gives it these answers.
    #[track_caller]
    fn play(&mut self, story: &[(&[&str], &str)]) {
        for (node, (sent, answer)) in story.iter().enumerate() {
            assert_eq!(self.take(node), *sent, "node {node}");
            self.say(node, answer);
        }
    }

    /// Makes a caller for one of four permits, to whom two of three nodes gave different slots.
    fn torn(options: &LockOptions) -> Self {
        let mut world = Self::ready(3);
        world.ask_for(4, options);
        world.take_all();
        world.each_says(&[&gives(2), &gives(3)]);
        world
    }

    /// Makes a permit in the first slot, which all nodes gave.
    fn with_permit(nodes: usize) -> (Self, Lock) {
        let mut world = Self::ready(nodes);
        world.ask();
        world.all_say(0..nodes, &gives(START));
        let lock = world.lock();
        assert_eq!(lock.slot(), Some(START));
        world.take_all();
        (world, lock)
    }
}

// ----- one round trip -------------------------------------------------------------------------

#[test]
fn below_their_number_all_callers_of_a_handle_have_a_permit_after_one_round_trip() {
    for callers in [1, 2, 8] {
        let mut world = World::ready(3);
        let ask = |_| world.ask_for(16, &patient());
        let rounds: Vec<_> = (0..callers).map(ask).collect();
        world.all_were_sent(&vec!["SLOT k 10000 10 of 16"; callers]);
        let slot = |caller| (10 + caller) % 16;
        let slots: Vec<u16> = (0..callers as u16).map(slot).collect();
        let given: String = slots.iter().map(|slot| gives(*slot)).collect();
        world.all_say(0..1, &given);
        assert!(world.events.is_empty(), "one node is no majority");
        world.all_say(1..2, &given);
        let (found, locks) = world.all_granted();
        assert_eq!(found, rounds);
        let held: Vec<_> = locks.iter().filter_map(Lock::slot).collect();
        assert_eq!(held, slots);
        let is_new = |lock: &Lock| lock.validity_at(world.now) == VALIDITY;
        assert!(locks.iter().all(is_new));
        assert_eq!(world.engine.stats().held, callers);
        world.all_say(2..3, &given);
        locks.into_iter().for_each(|lock| world.release(lock));
        let release = |slot| format!("RELEASE k 16/{slot}/");
        let releases: Vec<_> = slots.iter().map(release).collect();
        assert_eq!(world.take_all(), vec![releases; 3]);
        world.all_say(0..3, &":1|".repeat(callers));
        world.is_clean();
    }
}

#[test]
fn no_more_callers_of_a_handle_ask_than_there_are_permits() {
    let mut world = World::ready(3);
    let rounds = [(); 7].map(|()| world.ask());
    let given = [2, 3, 0, 1].map(gives).concat();
    world.all_exchange(&["SLOT k 10000 2 of 4"; 4], &given);
    let (_, permits) = world.all_granted();
    assert_eq!(permits.len(), 4);
    world.all_were_sent(&[]);
    // Two are released in one step, and both slots go to the next callers in the same write.
    let mut permits = permits.into_iter();
    for _ in 0..2 {
        let lock = permits.next().expect("four");
        world.engine.give_back(world.now, lock);
    }
    world.drain();
    let sent = [
        "RELEASE k 4/2/",
        "CLIENT TRACKING ON OPTIN NOLOOP",
        "CLIENT CACHING YES",
        "SLOT k 10000 2 of 4",
        "RELEASE k 4/3/",
        "CLIENT CACHING YES",
        "SLOT k 10000 2 of 4",
    ];
    world.all_were_sent(&sent);
    let answers = format!(":1|+OK|+OK|{}:1|+OK|{}", gives(2), gives(3));
    world.all_say(0..3, &answers);
    assert_eq!(world.all_granted().0, rounds[4..6]);
    world.all_were_sent(&[]);
    world.cancel(rounds[6]);
    assert_eq!(world.engine.load().rounds, 0);
}

// ----- slots that differ ----------------------------------------------------------------------

#[test]
fn a_node_that_gave_another_slot_moves_the_token() {
    let mut world = World::torn(&patient());
    assert!(world.events.is_empty(), "no slot has a majority");
    world.pass(MS);
    world.play(&[(&["MOVE k 4/3/"], ":1|"), (&[], "")]);
    let lock = world.lock();
    assert_eq!(lock.slot(), Some(3));
    let left = lock.validity_at(world.now);
    assert_eq!(left, VALIDITY - MS, "from the time of the attempt on");
    // The last node answers late, with the slot that was not chosen.
    world.say(2, &gives(2));
    let copy = ["TAKE OUT k but 4/3/", "SLOT k 9999 alone 3 of 4"];
    world.exchange(2, copy, &format!(":1|{}", gives(3)));
    world.release(lock);
    world.all_exchange(&["RELEASE k 4/3/"], ":1|");
    assert_eq!(world.unlocked().expect("released").deleted, 2);
    world.is_clean();
}

#[test]
fn a_slot_that_another_client_has_on_a_node_is_not_asked_for_again() {
    let mut world = World::torn(&patient());
    world.play(&[(&["MOVE k 4/3/"], ":-1|"), (&["MOVE k 4/2/"], ":1|")]);
    assert_eq!(world.lock().slot(), Some(2));
    world.all_were_sent(&[]);
}

#[test]
fn where_no_slot_is_left_the_last_node_decides() {
    // Makes a caller that two nodes have refused to move to the slot of the other one.
    let undecided = || {
        let mut world = World::torn(&once());
        world.play(&[(&["MOVE k 4/3/"], ":-1|"), (&["MOVE k 4/2/"], ":-1|")]);
        assert!(world.events.is_empty());
        world
    };
    for (slot, other) in [(2, 1), (3, 0)] {
        let mut world = undecided();
        world.say(2, &gives(slot));
        assert_eq!(world.lock().slot(), Some(slot));
        let take_out = format!("TAKE OUT k but 4/{slot}/");
        let copy = format!("SLOT k 10000 alone {slot} of 4");
        assert_eq!(world.take(other), [take_out, copy]);
    }
    let mut world = undecided();
    world.say(2, &full(50));
    use NodeOutcome::{Granted, Held};
    assert_eq!(outcomes(&world.held_by_another()), [Granted, Granted, Held]);
    // This is the only slot that no node refuses. The token on the last node may then be moved.
    let mut world = undecided();
    world.say(2, &gives(0));
    let both = [&["MOVE k 4/0/"][..], &["MOVE k 4/0/"], &[]];
    assert_eq!(world.take_all(), both);
    world.all_say(0..2, ":-1|");
    world.exchange(2, ["MOVE k 4/3/"], ":-1|");
    world.exchange(2, ["MOVE k 4/2/"], ":-1|");
    assert_eq!(outcomes(&world.held_by_another()), [Granted; 3]);
    world.all_were_sent(&["RELEASE k 4/2/"]);
    // Or the last node is lost.
    let mut world = undecided();
    world.lose(2);
    assert_eq!(outcomes(&world.held_by_another())[..2], [Granted; 2]);
}

/// A majority has the first slot only if nodes count for a slot that they may have left.
#[test]
fn a_node_that_is_asked_to_move_the_token_does_not_count_for_its_old_slot() {
    let mut world = World::ready(5);
    world.ask();
    world.take_all();
    world.each_says(&[&gives(2), &gives(2), &gives(3)]);
    assert_eq!(world.take(2), ["MOVE k 4/2/"]);
    world.say(3, &gives(3));
    assert_eq!(world.take(3), ["MOVE k 4/2/"]);
    world.say(4, &gives(3));
    assert!(world.events.is_empty());
    assert_eq!(world.take(4), ["MOVE k 4/2/"]);
    world.say(3, ":-1|");
    world.say(4, ":-1|");
    assert!(world.events.is_empty(), "two, two, and one with either");
    world.say(2, ":1|");
    assert_eq!(world.lock().slot(), Some(2));
    for node in [3, 4] {
        assert_eq!(world.take(node), COPY);
    }
}

#[test]
fn a_node_that_is_silent_when_it_should_move_the_token_ends_the_attempt() {
    let mut world = World::ready(3);
    world.ask_for(4, &once());
    world.lose(2);
    world.take_all();
    world.each_says(&[&gives(2), &gives(3)]);
    world.take_all();
    world.sleep_until_event();
    let said = outcomes(&world.no_quorum());
    assert_eq!(said[..2], [NodeOutcome::TimedOut, NodeOutcome::Granted]);
    assert_eq!(world.take(1), ["RELEASE k 4/2/"]);
}

#[test]
fn a_token_that_is_gone_when_it_should_be_moved_is_no_vote() {
    let mut world = World::torn(&once());
    world.play(&[(&["MOVE k 4/3/"], ":0|")]);
    world.say(2, &full(100));
    use NodeOutcome::{Granted, Held, Missing};
    let said = outcomes(&world.held_by_another());
    assert_eq!(said, [Missing, Granted, Held]);
}

/// The first attempt ends while a node has not answered whether it has moved the token.
#[test]
fn what_a_node_says_of_an_earlier_attempt_costs_no_vote() {
    for answer in [":0|", ":1|", ":-1|", "-OOM|", "-ERR unknown|", "-BUSY|"] {
        let mut world = World::torn(&patient());
        assert_eq!(world.take(0), ["MOVE k 4/3/"]);
        world.say(2, &full(9_000));
        world.lose(1);
        // The next attempt begins at once.
        world.say(0, &format!("{answer}:1|+OK|+OK|{}", gives(3)));
        world.say(2, &format!("+OK|+OK|{}", gives(3)));
        assert_eq!(world.lock().slot(), Some(3), "{answer}");
    }
}

#[test]
fn a_slot_that_there_is_not_counts_for_nothing() {
    let mut world = World::ready(3);
    world.ask_for(4, &once());
    world.all_say(0..3, &gives(4));
    world.no_quorum();
    for node in 0..3 {
        let sent = world.take(node);
        assert!(sent.iter().any(|sent| sent.starts_with("RELEASE")));
        world.say(node, ":1|");
    }
    world.is_clean();
}

/// All clients begin their first search with the same slot.
#[test]
fn after_a_refusal_the_search_begins_anywhere() {
    let mut world = World::ready(1);
    world.ask_for(1024, &patient());
    let mut starts = Vec::new();
    for answer in ["", "+OK|+OK|", "+OK|", "+OK|", "+OK|"] {
        let sent = world.take(0);
        starts.push(sent.last().expect("it asks").clone());
        world.say(0, &format!("{answer}{}", full(10_000)));
        if !answer.is_empty() {
            world.say(0, PUSH);
        }
    }
    assert_eq!(starts[0], "SLOT k 10000 234 of 1024");
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 5, "{starts:?}");
}

// ----- all are taken --------------------------------------------------------------------------

const WATCHED: [&str; 2] = ["CLIENT TRACKING ON OPTIN NOLOOP", "CLIENT CACHING YES"];

#[test]
fn an_error_says_whether_all_permits_are_taken() {
    let exclusive = "*3|:2|:0|:0|";
    for (permits, second, text) in [
        (4, &*full(9), "all 4 permits are taken"),
        (1, &full(9), "the only permit is taken"),
        (4, exclusive, "held by another client"),
    ] {
        let mut world = World::ready(3);
        world.ask_for(permits, &once());
        world.say(0, &full(9));
        world.say(1, second);
        let error = LockError::Held(world.held_by_another()).to_string();
        assert_eq!(error, format!("lock `k`: {text}"));
    }
}

/// A caller may ask no node because its own program has all permits. The error says so.
#[test]
fn an_error_says_that_its_own_program_has_all_permits() {
    let mut world = World::ready(3);
    let _rounds = [(); 4].map(|()| world.ask());
    world.all_say(0..3, &[2, 3, 0, 1].map(gives).concat());
    let _permits = world.all_granted();
    world.take_all();
    world.ask_for(4, &patient().wait(SECOND));
    world.all_were_sent(&[]);
    world.sleep_until_event();
    let error = format!("{:#}", LockError::Held(world.held_by_another()));
    let begin = "lock `k`: all 4 permits are taken: no node was asked, because other callers of this handle come \
                 first; try again later";
    assert!(error.starts_with(begin), "{error}");
}

const AGAIN: [&str; 2] = ["CLIENT CACHING YES", "SLOT k 10000 0 of 1"];

#[test]
fn all_others_wait_behind_the_first_and_ask_when_it_has_its_permit() {
    let mut world = World::ready(3);
    let round = world.ask_for(1, &patient());
    let asked = "SLOT k 10000 0 of 1";
    world.all_were_sent(&[asked]);
    world.all_say(0..2, &full(9_000));
    // The caller asks again at once, and the nodes report the next change.
    let again = [WATCHED[0], WATCHED[1], asked];
    (0..2).for_each(|node| assert_eq!(world.take(node), again));
    let sent = ["RELEASE k 1/0/", WATCHED[0], WATCHED[1], asked];
    world.exchange(2, sent, &format!("{}:0|", full(9_000)));
    world.all_say(0..3, &format!("+OK|+OK|{}", full(9_000)));
    // The last node had not answered when the attempt was refused.
    world.exchange(2, ["RELEASE k 1/0/", LOOK[0], LOOK[1]], ":0|+OK|:9000|");
    let others = [(); 3].map(|()| world.ask_for(1, &patient()));
    world.say(0, PUSH);
    world.all_exchange(&[], ""); // One node is no majority.
    world.say(1, PUSH);
    world.all_exchange(&AGAIN, &format!("+OK|{}", gives(0)));
    let (found, mut locks) = world.all_granted();
    assert_eq!(found, [round]);
    world.all_were_sent(&[]);
    // The next caller asks right after the release, in the same write.
    let writes = world.writes.clone();
    world.give_back(locks.remove(0));
    world.all_were_sent(&["RELEASE k 1/0/", AGAIN[0], AGAIN[1]]);
    let all = writes.iter().map(|before| before + 1);
    assert_eq!(world.writes, all.collect::<Vec<_>>());
    world.all_say(0..3, &format!(":1|+OK|{}", gives(0)));
    assert_eq!(world.all_granted().0, others[..1]);
}

/// All of them have asked at the same time. The first caller tries alone. When two have a permit, the others ask
/// together.
#[test]
fn callers_that_were_refused_together_have_their_turns_in_the_order_in_which_they_came() {
    let mut world = World::ready(1);
    let rounds = [(); 4].map(|()| world.ask());
    world.say(0, &full(9_000).repeat(4));
    world.reply(0, &format!("+OK|+OK|{}", full(9_000)));
    world.say(0, PUSH);
    let mut found = Vec::new();
    for slots in [&[0][..], &[1], &[2, 3]] {
        let sent = world.take(0);
        let asked = sent.iter().filter(|sent| sent.starts_with("SLOT"));
        assert_eq!(asked.count(), slots.len(), "{sent:?}");
        let give = |slot: &u16| format!("+OK|{}", gives(*slot));
        world.say(0, &slots.iter().map(give).collect::<String>());
        found.extend(world.all_granted().0);
    }
    assert_eq!(found, rounds);
}

/// The release of this handle came after the attempt, so the attempt was refused although a slot is free now. Nodes do
/// not report the writes of this handle.
#[test]
fn a_permit_that_is_given_back_while_another_caller_asks_is_not_missed() {
    let mut world = World::ready(3);
    world.ask_for(2, &patient());
    world.all_say(0..3, &gives(0));
    let lock = world.lock();
    let round = world.ask_for(2, &patient());
    world.take_all();
    world.pass(MS);
    world.give_back(lock);
    world.all_exchange(&["RELEASE k 2/0/"], &full(9_000));
    for node in 0..3 {
        let sent = world.take(node);
        assert_eq!(sent[sent.len() - 3..][..2], WATCHED, "at once");
        world.say(node, &format!(":1|+OK|+OK|{}", gives(1)));
    }
    assert_eq!(world.all_granted().0, [round]);
}

// ----- another number of permits --------------------------------------------------------------

#[test]
fn another_number_of_permits_is_named_at_once() {
    for options in [once(), patient()] {
        let mut world = World::ready(3);
        world.ask_for(4, &options);
        world.all_say(0..2, &has(8));
        let report = world.held_by_another();
        world.say(2, &has(8));
        assert_eq!(report.other_permits(), Some(8));
        assert_eq!(outcomes(&report)[..2], [NodeOutcome::OtherPermits(8); 2]);
        let error = LockError::Held(report);
        assert!(error.is_held() && !error.is_retryable());
        let text = format!("{error:#}");
        assert_eq!(
            text,
            "lock `k`: other clients use it with 8 permits: 0 of the 2 votes needed (node0:6379 and node1:6379 each \
             with 8 permits; node2:6379 not waited for); ask for the same number of permits, or use another name; see \
             the manual \
             (`shearline::manual::troubles`)"
        );
        for (node, sent) in [1, 1, 2].into_iter().enumerate() {
            let all = ["SLOT k 10000 2 of 4", "RELEASE k 4/2/"];
            assert_eq!(world.take(node), all[..sent], "it does not ask again");
        }
        world.say(2, ":0|");
        world.is_clean();
    }
}

#[test]
fn a_minority_with_another_number_of_permits_keeps_nobody_out() {
    let mut world = World::ready(3);
    world.ask_for(4, &once());
    world.each_says(&[&has(8), &gives(2), &gives(2)]);
    assert_eq!(world.lock().slot(), Some(2));
    world.ask_for(4, &once());
    world.each_says(&[&has(8), &full(10)]);
    let report = world.held_by_another();
    assert_eq!(report.other_permits(), None);
    let said = [NodeOutcome::OtherPermits(8), NodeOutcome::Held];
    assert_eq!(outcomes(&report)[..2], said);
    assert!(LockError::Held(report).is_retryable());
}

// ----- bad requests ---------------------------------------------------------------------------

#[test]
fn requests_that_cannot_be_served_are_refused_at_once() {
    let options = LockOptions::new(TTL);
    let mut world = World::ready(3);
    for permits in [0, 1_025, u16::MAX] {
        let why = world.invalid(&Request::permit(b"k", permits, &options));
        assert_eq!(why, InvalidRequest(RequestFault::Permits { permits }));
        let text = format!("a resource can have 1 to 1024 permits, not {permits}; ");
        assert_eq!(why.to_string(), text + "ask for a number in this range");
    }
    world.is_clean();
    for permits in [1, 1_024] {
        let mut world = World::ready(3);
        world.ask_for(permits, &once());
        world.all_say(0..2, &gives(0));
        assert_eq!(world.lock().slot(), Some(0));
    }
}

// ----- holding --------------------------------------------------------------------------------

#[test]
fn a_permit_is_extended_confirmed_and_released_in_its_slot() {
    let (mut world, mut lock) = World::with_permit(3);
    world.pass(SECOND);
    world.extend(&lock);
    world.all_were_sent(&["EXTEND k 10000 4/2/"]);
    world.all_say(0..2, ":1|");
    world.extended(&mut lock);
    assert_eq!(lock.validity_at(world.now), VALIDITY);
    world.say(2, ":1|");
    world.ask_confirm(&lock);
    world.all_exchange(&["CONFIRM k 4/2/"], ":10001|");
    world.extended(&mut lock);
    assert_eq!(lock.slot(), Some(2));
    assert_eq!(lock.validity_at(world.now), VALIDITY);
    world.release(lock);
    world.all_exchange(&["RELEASE k 4/2/"], ":1|");
    assert_eq!(world.unlocked().expect("released").deleted, 2);
    world.is_clean();
}

/// A node that has the token in another slot says that it lacks the token.
#[test]
fn a_majority_without_the_slot_has_lost_the_permit() {
    let (mut world, lock) = World::with_permit(3);
    world.ask_confirm(&lock);
    world.all_say(0..2, ":0|");
    assert!(!lock.is_valid_at(world.now));
    assert_matches!(world.events.remove(0), Event::Expired { .. });
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
}

#[test]
fn a_node_that_lacks_a_permit_gets_it_in_its_slot_with_the_extension_after_the_next() {
    let (mut world, mut lock) = World::with_permit(3);
    for (answer, copies) in [(":0|", false), (":0|", true), (":1|", false)] {
        world.pass(SECOND);
        world.extend(&lock);
        world.all_were_sent(&["EXTEND k 10000 4/2/"]);
        world.say(2, answer);
        world.all_say(0..2, ":1|");
        world.extended(&mut lock);
        assert_eq!(world.take(2), COPY[1..][..usize::from(copies)]);
        if copies {
            world.say(2, &gives(2));
        }
    }
}

/// The node had the token in another slot, and keeps it there if the release fails.
#[test]
fn a_copy_in_another_slot_is_taken_out_once() {
    let (mut world, mut lock) = World::with_permit(3);
    for _ in 0..2 {
        world.extend(&lock);
        world.take_all();
        world.say(2, ":0|");
        world.all_say(0..2, ":1|");
        world.extended(&mut lock);
    }
    world.exchange(2, [COPY[1]], &gives(1));
    assert_eq!(world.take(2), [COPY[0]], "the next extension asks again");
    world.release(lock);
    world.all_were_sent(&["RELEASE k 4/2/"]);
}

#[test]
fn a_late_node_gets_the_slot_or_gives_the_other_back() {
    let mut world = World::ready(3);
    world.ask();
    world.take_all();
    world.all_say(0..2, &gives(2));
    let lock = world.lock();
    world.say(2, &gives(3));
    world.exchange(2, COPY, &format!(":1|{}", full(1_000)));
    world.all_were_sent(&[]);
    world.release(lock);
    world.all_say(0..3, ":1|");
    world.events.clear();
    world.is_clean();
    // A permit that is over by then is released on all nodes anyway.
    let mut world = World::ready(3);
    world.ask();
    world.all_say(0..2, &gives(2));
    let lock = world.lock();
    world.release(lock);
    world.take_all();
    world.say(2, &gives(3));
    world.all_were_sent(&[]);
}

#[test]
fn a_refused_attempt_is_released_on_all_nodes_that_gave_a_slot() {
    let mut world = World::ready(3);
    world.ask_for(4, &once());
    world.take_all();
    world.each_says(&[&gives(2), &full(100), &full(100)]);
    world.held_by_another();
    assert_eq!(world.take_all(), [&["RELEASE k 4/2/"][..], &[], &[]]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn bytes_keep_the_slot_and_the_number_of_permits() {
    let (mut world, lock) = World::with_permit(3);
    let bytes = lock.to_bytes();
    let read = Lock::from_bytes(&bytes).expect("a lock");
    assert_eq!((read.slot(), read.token()), (Some(2), lock.token()));
    drop(world.detach(lock));
    let (mut other, mut read) = World::taken_over(world.now, read);
    other.ask_confirm(&read);
    other.all_exchange(&["CONFIRM k 4/2/"], ":9001|");
    other.extended(&mut read);
    assert!(read.is_valid_at(other.now));
    other.release(read);
    other.all_were_sent(&["RELEASE k 4/2/"]);
    let lock = World::held(3).1;
    assert_eq!(lock.slot(), None);
}

#[test]
fn the_nodes_keep_a_permit_for_the_lock_delay_too() {
    let mut world = World::with(named(3).lock_delay(SECOND)).greeted();
    world.ask();
    let sent = world.take(0).remove(0);
    let life = sent.split(' ').nth(2).expect("a life");
    let life = life.parse().expect("a number");
    assert!((11_000..11_100).contains(&life), "{sent}");
    world.all_say(0..3, &gives(2));
    assert_eq!(world.lock().validity_at(world.now), VALIDITY);
}

// ----- locks beside permits -------------------------------------------------------------------

#[test]
fn an_exclusive_lock_of_the_handle_keeps_permits_out_and_all_ask_behind_it() {
    let (mut world, lock) = World::held(3);
    world.ask_for(4, &once());
    assert!(world.held_by_another().is_held_here());
    let rounds = [(); 3].map(|()| world.ask());
    world.all_were_sent(&[]);
    world.give_back(lock);
    world.all_reply(&format!(":1|+OK|+OK|{}", gives(2)));
    // The other callers ask together now.
    for node in 0..3 {
        let sent = world.take(node);
        let asked = sent.iter().filter(|sent| sent.starts_with("SLOT")).count();
        assert_eq!(asked, 2, "{sent:?}");
    }
    world.all_say(0..3, &format!("+OK|{}+OK|{}", gives(3), gives(0)));
    assert_eq!(world.all_granted().0, rounds);
}

/// The first node was asked to move the token, and its connection is lost before it answers. The node may still move
/// the token at any time, even after it is connected again and an extension counts it. So only that slot is held.
#[test]
fn a_move_that_was_not_answered_leaves_no_other_slot() {
    let mut world = World::torn(&once());
    assert_eq!(world.take(0), ["MOVE k 4/3/"]);
    world.lose(0);
    world.say(2, &gives(2));
    world.exchange(2, ["MOVE k 4/3/"], ":-1|");
    world.held_by_another();
    assert_eq!(world.take(1), ["RELEASE k 4/2/"], "it was not moved");
}
