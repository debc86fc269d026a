//! Stories of nodes that were away: they get back at once the kept locks that they lack. The engine tries early to
//! connect to a node that a majority needs.

use std::collections::BTreeSet;

use super::keep::{EXTEND, answers, kept, renewals};
use super::*;
use crate::limits::EXTENSIONS_AT_ONCE;

/// Makes three nodes, and kept locks on all of them.
fn keeping(locks: usize) -> (World, Vec<Lock>) {
    let mut world = World::ready(3);
    let locks = world.kept_locks(locks);
    (world, locks)
}

/// Lets the nodes extend and copy locks until nothing more is asked. `answer` gets the node and the command.
fn until_rest(world: &mut World, mut answer: impl FnMut(usize, &str) -> String) {
    while world.sent.iter().any(|sent| !sent.is_empty()) {
        for (node, sent) in world.take_all().into_iter().enumerate() {
            let said: String = sent.iter().map(|sent| answer(node, sent)).collect();
            world.say(node, &said);
        }
    }
}

/// The last node is away when the first lock is extended.
fn kept_without_the_last(world: &mut World, locks: &[Lock]) {
    world.lose(2);
    world.sleep_until_sent(0);
    world.all_say(0..2, ":1|");
    world.was_kept(&locks[0]);
    world.take_all();
}

/// Returns `true` if each node was sent one extension.
fn extends_everywhere(world: &mut World) -> bool {
    let sent = world.take_all();
    sent.iter().all(|sent| sent == &[EXTEND])
}

#[test]
fn a_node_that_was_away_gets_its_copy_with_the_second_extension_and_at_once() {
    let (mut world, locks) = keeping(1);
    kept_without_the_last(&mut world, &locks);
    world.greet_as(2, "run2", 3600);
    let back = world.now;
    assert!(extends_everywhere(&mut world));
    for slow in [false, true] {
        let order = if slow { [0, 1, 2] } else { [2, 0, 1] };
        for node in order {
            world.say(node, if node == 2 { ":0|" } else { ":1|" });
        }
        world.was_kept(&locks[0]);
        if !slow {
            assert!(extends_everywhere(&mut world));
        }
    }
    assert_eq!(world.now, back, "at once");
    world.exchange(2, ["SET k0 10000"], "+OK|");
    assert_eq!(world.take_all().concat(), NOTHING);
}

/// None of the other nodes has answered, or one has.
#[test]
fn a_node_that_is_back_while_an_extension_is_open_gets_one_copy() {
    for answered in 0..2 {
        let (mut world, locks) = keeping(1);
        kept_without_the_last(&mut world, &locks);
        world.sleep_until_sent(0);
        world.take_all();
        world.all_say(0..answered, ":1|");
        world.greet_as(2, "run2", 3600);
        let back = world.now;
        world.all_say(answered..2, ":1|");
        world.was_kept(&locks[0]);
        let (mut asked, mut copies) = (0, 0);
        until_rest(&mut world, |node, sent| {
            let is_copy = sent == "SET k0 10000";
            asked += usize::from(node == 0);
            copies += usize::from(is_copy);
            assert!(is_copy && node == 2 || sent == EXTEND, "{sent}");
            let said = match is_copy {
                true => "+OK|",
                false if node == 2 && copies == 0 => ":0|",
                false => ":1|",
            };
            said.to_string()
        });
        assert_eq!(copies, 1, "{answered}");
        assert!(asked <= 2, "{asked} extensions more");
        assert_eq!(world.now, back, "at once");
    }
}

/// Each early extension would use up one of the allowed number.
#[test]
fn a_lock_whose_extensions_are_counted_is_not_extended_early() {
    let mut world = World::ready(3);
    let lock = world.kept_lock(b"k0", kept().extensions(2));
    world.comes_back_as(2, "another", 0);
    assert_eq!(world.take_all().concat(), NOTHING);
    assert_eq!(lock.extensions_left(), 2);
}

/// Lets nodes extend locks until nothing more is asked. Returns how many locks this node was asked for.
fn extended_until_rest(world: &mut World, node: usize) -> usize {
    let mut extended = 0;
    until_rest(world, |at, sent| {
        let sent = [sent.to_string()];
        extended += if at == node { renewals(&sent) } else { 0 };
        answers(&sent, ":1|")
    });
    extended
}

/// The second node is back while the locks are extended for the first one. The search for the locks that it lacks
/// starts from the beginning.
#[test]
fn a_second_node_that_is_back_meanwhile_is_asked_for_all_locks_too() {
    let mut world = World::ready(5);
    let locks = world.kept_locks(EXTENSIONS_AT_ONCE + 60);
    world.comes_back_as(4, "another", 0);
    let first = world.take_all();
    world.comes_back_as(3, "a third", 0);
    for node in [0, 1, 2, 4] {
        world.say(node, &answers(&first[node], ":1|"));
    }
    let extended = extended_until_rest(&mut world, 3);
    assert!(locks.len() <= extended, "{extended} of {}", locks.len());
}

/// The node completes the majority, and lacks no lock.
#[test]
fn a_lock_whose_extension_has_failed_is_extended_when_a_node_is_back() {
    let (mut world, lock) = keeping(1);
    (1..3).for_each(|node| world.lose(node));
    world.sleep_until_sent(0);
    world.say(0, ":1|");
    world.sleep_until_event();
    assert_matches!(world.was_not_kept(), ExtendError::Unconfirmed(_));
    world.take_all();
    world.greet_as(1, "run1", 3600);
    assert_eq!(world.take(0), [EXTEND]);
    drop(lock);
}

/// The first node may have forgotten everything, and the second was never asked. A node that was only silent is not
/// asked.
#[test]
fn whatever_a_node_may_lack_is_asked_for_when_it_answers() {
    let (mut world, locks) = keeping(2);
    world.comes_back_as(2, "another", 0);
    world.all_were_sent(&["EVALSHA extend k0 10000, k1 10000"]);
    drop(locks);

    let mut world = World::new(3);
    world.greet(0);
    world.greet(1);
    world.acquire_of(b"k0", &kept().tries(1));
    world.all_say(0..2, "+OK|");
    let lock = world.lock();
    world.take_all();
    world.greet(2);
    assert!(extends_everywhere(&mut world));
    drop(lock);

    let (mut world, locks) = keeping(1);
    world.sleep_until_sent(0);
    world.all_say(0..2, ":1|");
    world.was_kept(&locks[0]);
    world.take_all();
    (0..2).for_each(|_| world.pass(SECOND));
    assert_eq!(world.state(2), NodeState::Suspect);
    world.say(2, ":1|");
    assert_eq!(world.take_all().concat(), NOTHING, "it has it");
}

/// The key of another client is there. This is found once, and the lock is not extended again because of it before it
/// is due.
#[test]
fn a_node_where_another_holds_the_key_costs_one_extension_more() {
    let (mut world, locks) = keeping(1);
    world.sleep_until_sent(0);
    for round in 0..2 {
        world.take_all();
        world.all_say(0..2, ":1|");
        world.say(2, ":-1|");
        world.was_kept(&locks[0]);
        world.drain();
        assert_eq!(round == 0, world.sent[0] == [EXTEND]);
    }
    world.exchange(2, ["SET k0 10000"], "_|");
    assert_eq!(world.take_all().concat(), NOTHING);
}

/// Plays servers that refuse until `back`, and answer from then on. Returns how often each was tried before.
fn refuse_until(world: &mut World, back: Instant, end: Instant) -> [usize; 3] {
    let mut tried = [0; 3];
    while world.now < end {
        world.pass(MS);
        for (node, tried) in tried.iter_mut().enumerate() {
            if world.links[node] == "connecting" {
                match world.now < back {
                    true => {
                        *tried += 1;
                        world.lose_for(node, LinkFault::Refused);
                    }
                    false => world.greet_as(node, &format!("run{node}"), 3600),
                }
            }
        }
        world.all_answer(|_, sent| {
            assert_eq!(sent, EXTEND);
            ":1|"
        });
    }
    tried
}

/// All nodes are away, and come back 400 ms before the end of the validity.
#[test]
fn a_kept_lock_hurries_the_reconnection() {
    for seconds in [1, 3, 10] {
        for phase in 0..20 {
            let ttl = Duration::from_secs(seconds);
            let mut world = World::ready(3);
            let lock = world.kept_lock(b"k0", LockOptions::new(ttl).keep());
            world.pass(Duration::from_millis(10 * phase));
            (0..3).for_each(|node| world.lose(node));
            let end = lock.valid_until();
            let back = end.saturating_sub(400 * MS);
            let since = world.now;
            let tried = refuse_until(&mut world, back, end);
            assert!(end < lock.valid_until(), "a ttl of {ttl:?}, {phase}");
            let most = 6 + back.saturating_since(since).as_millis() as usize / 250;
            assert!(tried.iter().all(|it| *it <= most), "{tried:?} of {most}");
        }
    }
}

/// The connections are killed at short intervals (`CLIENT KILL`), on one node after the other.
#[test]
fn connections_that_are_cut_again_and_again_lose_no_kept_lock() {
    for seconds in [3, 10] {
        for interval in [50, 200, 300, 500, 1000] {
            for apart in [0, 7, 17] {
                let mut world = World::ready(3);
                let ttl = Duration::from_secs(seconds);
                let lock = world.kept_lock(b"k0", LockOptions::new(ttl).keep());
                for _ in 0..30_000 / interval {
                    for node in 0..3 {
                        if world.links[node] == "up" {
                            world.lose(node);
                        }
                        let end = world.now.saturating_add(apart * MS);
                        refuse_until(&mut world, Instant::ZERO, end);
                    }
                    let rest = interval - 3 * apart.min(interval / 3);
                    let end = world.now.saturating_add(rest * MS);
                    refuse_until(&mut world, Instant::ZERO, end);
                    let kept = lock.is_valid_at(world.now);
                    assert!(kept, "{ttl:?}, cut each {interval} ms, {apart} apart");
                }
            }
        }
    }
}

/// This is a question for which no majority can be asked.
#[test]
fn a_question_tries_nodes_in_back_off() {
    type Asks = fn(&mut World, &Lock);
    let asks: [Asks; 3] = [
        |world, lock| _ = world.extend(lock),
        |world, lock| _ = world.ask_confirm(lock),
        |world, _| _ = world.engine.inspect(world.now, b"k"),
    ];
    for ask in asks {
        let mut world = World::ready(3);
        let lock = world.lock_on(0..3);
        world.take_all();
        (1..3).for_each(|node| world.lose(node));
        world.pass(100 * MS);
        for node in 1..3 {
            world.links[node] = "connecting";
            world.lose_for(node, LinkFault::Refused);
        }
        world.pass(250 * MS);
        ask(&mut world, &lock);
        world.drain();
        assert_eq!(world.links[1..], ["connecting"; 2]);
    }
}

/// Other operations ask before the driver knows of the first connection.
#[test]
fn a_connection_that_is_being_opened_keeps_its_time() {
    let mut world = World::ready(3);
    world.pass(3 * SECOND);
    for node in (0..3).map(id) {
        let reason = LinkFault::Closed.into();
        let lost = Input::Disconnected { node, reason };
        world.engine.handle(world.now, lost);
    }
    (0..2).for_each(|_| _ = world.try_once());
    world.pass(500 * MS);
    (0..3).for_each(|node| world.greet(node));
}

/// Only some locks can be extended at once. The others get their turn soon, and not only when they are due.
#[test]
fn all_locks_that_a_node_lacks_get_their_copy_at_once() {
    let (mut world, locks) = keeping(EXTENSIONS_AT_ONCE + 64);
    world.comes_back_as(2, "another", 0);
    let (mut extended, mut copied) = (0, BTreeSet::new());
    until_rest(&mut world, |node, sent| {
        let name = |part: &str| part.split(' ').next().map(String::from);
        let each = sent.strip_prefix(EXTEND);
        extended += if node == 0 {
            renewals(&[sent.into()])
        } else {
            0
        };
        match each {
            Some(_) if node != 2 => answers(&[sent.into()], ":1|"),
            Some(each) => {
                let names: Vec<_> = each.trim_start().split(", ").filter_map(name).collect();
                let has = |name| if copied.contains(name) { ":1|" } else { ":0|" };
                let each: String = names.iter().map(has).collect();
                format!("*{}|{each}", names.len())
            }
            None => {
                copied.extend(sent.strip_prefix("SET ").and_then(name));
                "+OK|".to_string()
            }
        }
    });
    assert_eq!(copied.len(), locks.len());
    assert_eq!(extended, 2 * locks.len());
}

/// The node had forgotten the locks once, but has them again.
#[test]
fn a_node_that_is_back_with_what_it_has_confirmed_is_asked_nothing() {
    let mut world = World::with(named(3).max_ttl(TTL)).greeted();
    let lock = world.kept_lock(b"k0", kept());
    world.comes_back_as(2, "another", 0);
    let until = world.quarantined_until(2).expect("it has restarted");
    assert!(extends_everywhere(&mut world));
    world.all_say(0..3, ":1|");
    world.was_kept(&lock);
    while world.now < until {
        world.sleep_until_timer();
        if extends_everywhere(&mut world) {
            world.all_say(0..3, ":1|");
        }
        world.events.clear();
    }
    world.comes_back_as(2, "another", 3600);
    assert_eq!(world.quarantined_until(2), None);
    assert_eq!(world.take_all().concat(), NOTHING);
    drop(lock);
}

/// While no other extension may begin, a question finds that a copy is missing. The answer and the end of the question
/// make the engine extend the lock. The node refuses its copy, so that another extension would have a reason.
#[test]
fn a_lock_that_waits_for_its_extension_is_extended_once() {
    let (mut world, locks) = keeping(1);
    world.no_extension_may_begin();
    world.confirm(&locks[0]);
    world.keeps(0, 9_000);
    world.say(2, ":0|");
    world.keeps(1, 9_000);
    assert_eq!(world.take_all().concat(), NOTHING);
    world.one_extension_may_begin();
    assert!(extends_everywhere(&mut world));
    world.say(2, ":0|");
    world.all_say(0..2, ":1|");
    assert_eq!(world.take_all().concat(), ["SET k0 10000"]);
    world.say(2, "$-1|");
    assert_eq!(world.take_all().concat(), NOTHING);
    assert_eq!(world.extended_by_engine(), 1);
}

/// Only one extension may begin. A lock that is due would end soon; one that a node may lack has time.
#[test]
fn a_lock_that_is_due_is_extended_before_those_that_a_node_may_lack() {
    let mut world = World::ready(3);
    let locks = [60 * SECOND, TTL].map(|ttl| {
        let options = LockOptions::new(ttl).keep();
        world.kept_lock(format!("k{}", ttl.as_secs()).as_bytes(), options)
    });
    world.no_extension_may_begin();
    world.comes_back_as(2, "another", 3600);
    world.pass(VALIDITY / 2 + MS);
    assert_eq!(world.take_all().concat(), NOTHING);
    world.one_extension_may_begin();
    for (lock, ttl) in locks.iter().rev().zip([10_000, 60_000]) {
        assert!(extends_everywhere(&mut world));
        assert_eq!(world.lives, [ttl; 3]);
        world.all_say(0..2, ":1|");
        world.was_kept(lock);
    }
}
