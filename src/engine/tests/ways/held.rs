//! Stories of questions about locks that are asked by transactions.

use super::*;

/// What is written for a key that lasts for long enough.
const READING: [&str; 3] = ["MULTI", "PTTL k", "EXEC"];

// ----- extensions -----------------------------------------------------------------------------

#[test]
fn an_extension_raises_what_ends_earlier_and_shortens_nothing() {
    for (left, raises) in [
        (":3000|", true),
        (":9999|", true),
        (":10000|", false),
        (":50000|", false),
        (":-1|", false),
    ] {
        let (mut world, mut lock) = held();
        world.pass(3_000 * MS);
        world.extend(&lock);
        world.told_of(0, &EXTENDING, &format!("{WATCHED}@k{left}"));
        let (written, said) = if raises {
            (RAISING, ":1|")
        } else {
            (READING, left)
        };
        world.exchange(0, written, &format!("+OK|+QUEUED|*1|{said}"));
        world.extended(&mut lock);
        let end = Instant::from_millis(4_000).saturating_add(TTL - 102 * MS);
        assert_eq!(lock.valid_until(), end, "{left}");
    }
}

/// Both have waited until no transaction was open. The second must read the result of the first.
#[test]
fn an_extension_that_waits_beside_a_longer_one_shortens_nothing() {
    let (mut world, lock) = held();
    world.ask_confirm(&lock);
    world.extend_for(&lock, TTL);
    world.extend_for(&lock, TTL / 2);
    world.told_of(0, &INSPECTING, "+OK|+QUEUED|+QUEUED|*2|@k:3000|");
    world.told_of(0, &EXTENDING, "+OK|*0|+OK|@k:3000|");
    world.exchange(0, RAISING, WRITTEN);
    world.told_of(0, &EXTENDING, "+OK|*0|+OK|@k:10000|");
    assert_eq!(world.take(0), READING);
}

#[test]
fn an_extension_that_was_aborted_is_asked_again_while_it_is_wanted() {
    let (mut world, mut lock) = held();
    world.extend(&lock);
    world.told_of(0, &EXTENDING, "+OK|*0|+OK|@k:3000|");
    world.exchange(0, RAISING, "+OK|+QUEUED|$-1|");
    world.extended_by_a_transaction(&mut lock);
    // A question is not asked if no operation waits for it any more.
    let round = world.extend(&lock);
    world.cancel(round);
    world.told_of(0, &EXTENDING, "+OK|*0|+OK|@k:3000|");
    world.exchange(0, RAISING, "+OK|+QUEUED|$-1|");
    assert_eq!(world.take(0), NOTHING);
    let load = world.engine.load();
    assert_eq!((load.in_flight, load.unsent, load.rounds), (0, 0, 0));
}

// ----- looking --------------------------------------------------------------------------------

#[test]
fn a_resource_is_inspected_by_one_transaction() {
    for (found, is_free, is_held) in [
        ("*2|$7|another|:5000|", false, true),
        ("*2|$7|another|:-1|", false, true),
        ("*2|$-1|:-2|", true, false),
        ("*2|-WRONGTYPE Operation against a key|:-1|", false, false),
    ] {
        let mut world = watching(1);
        world.engine.inspect(world.now, b"k").expect("valid");
        world.drain();
        world.exchange(0, INSPECTING, &format!("+OK|+QUEUED|+QUEUED|{found}"));
        let told = world.told().expect(found);
        let is = (told.free, told.holder().is_some());
        assert_eq!(is, (is_free, is_held), "{found}");
    }
}
