//! Stories of questions about locks that are asked by transactions.

use super::*;

// ----- extensions -----------------------------------------------------------------------------

#[test]
fn an_extension_raises_what_ends_earlier_and_shortens_nothing() {
    for (left, written) in [
        (":3000|", &RAISING),
        (":9999|", &RAISING),
        (":10000|", &["MULTI", "PTTL k", "EXEC"]),
        (":50000|", &["MULTI", "PTTL k", "EXEC"]),
        (":-1|", &["MULTI", "PTTL k", "EXEC"]),
    ] {
        let (mut world, mut lock) = held();
        let token = lock.token().as_bytes().to_vec();
        world.pass(3_000 * MS);
        world.extend(&lock);
        assert_eq!(world.take(0), EXTENDING);
        say_token(&mut world, WATCHED, &token, left);
        assert_eq!(world.take(0), *written, "{left}");
        world.say(
            0,
            &format!(
                "+OK|+QUEUED|*1|{}",
                if *written == RAISING { ":1|" } else { left }
            ),
        );
        world.extended(&mut lock);
        let end = Instant::from_millis(4_000).saturating_add(TTL - 102 * MS);
        assert_eq!(lock.valid_until(), end);
    }
}

/// Both have waited until no transaction was open. The second must read the result of the first.
#[test]
fn an_extension_that_waits_beside_a_longer_one_shortens_nothing() {
    let (mut world, lock) = held();
    let token = lock.token().as_bytes().to_vec();
    world.ask_confirm(&lock);
    world.extend_for(&lock, TTL);
    world.extend_for(&lock, TTL / 2);
    assert_eq!(world.take(0), ["MULTI", "GET k", "PTTL k", "EXEC"]);
    say_token(&mut world, "+OK|+QUEUED|+QUEUED|*2|", &token, ":3000|");
    assert_eq!(world.take(0), EXTENDING);
    say_token(&mut world, WATCHED, &token, ":3000|");
    world.exchange(0, RAISING, "+OK|+QUEUED|*1|:1|");
    assert_eq!(world.take(0), EXTENDING);
    say_token(&mut world, WATCHED, &token, ":10000|");
    assert_eq!(world.take(0), ["MULTI", "PTTL k", "EXEC"]);
}

#[test]
fn an_extension_that_was_aborted_is_asked_again_while_it_is_wanted() {
    let (mut world, mut lock) = held();
    let token = lock.token().as_bytes().to_vec();
    world.extend(&lock);
    world.take(0);
    say_token(&mut world, WATCHED, &token, ":3000|");
    world.say(0, "+OK|+QUEUED|$-1|");
    assert_eq!(world.take(0), [&RAISING[..], &EXTENDING].concat());
    say_token(&mut world, WATCHED, &token, ":3000|");
    world.say(0, "+OK|+QUEUED|*1|:1|");
    world.extended(&mut lock);
    // A question is not asked if no operation waits for it any more.
    world.take(0);
    let round = world.extend(&lock);
    assert_eq!(world.take(0), EXTENDING);
    world.cancel(round);
    say_token(&mut world, WATCHED, &token, ":3000|");
    assert_eq!(world.take(0), RAISING, "it was begun");
    world.say(0, "+OK|+QUEUED|$-1|");
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
        assert_eq!(world.take(0), ["MULTI", "GET k", "PTTL k", "EXEC"]);
        world.say(0, &format!("+OK|+QUEUED|+QUEUED|{found}"));
        let inspection = world.told().expect(found);
        assert_eq!(
            (inspection.free, inspection.holder().is_some()),
            (is_free, is_held),
            "{found}"
        );
    }
}
