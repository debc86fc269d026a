//! Stories of bounds on requests, on memory and on attempts, and of the choices that a seed decides.

use super::release::LOCKS;
use super::*;
use crate::config::Retry;
use crate::entry::Entry;
use crate::limits::CLAIMS_MAX;
use crate::quorum::NodeSet;

#[test]
fn bad_requests_are_refused_before_anything_is_sent() {
    let mut world = World::ready(1);
    let month = Duration::from_secs(30 * 24 * 3600);
    for (resource, ttl, why) in [
        (&b""[..], TTL, "EmptyResource"),
        (&[b'k'; 1025], TTL, "bytes: 1025"),
        (b"k", Duration::ZERO, "TtlTooShort"),
        (b"k", Duration::from_micros(999), "TtlTooShort"),
        (b"k", 2 * MS, "TtlTooShort"),
        (b"k", month + 24 * 3600 * SECOND, "TtlTooLong"),
        (b"k", Duration::MAX, "TtlTooLong"),
    ] {
        let options = LockOptions::new(ttl);
        let invalid = world.invalid(&Request::new(resource, &options));
        let told = format!("{invalid:?}");
        assert!(told.contains(why), "{why}: {told}");
        // The check needs no connection.
        let config = named(1).config().unwrap();
        assert_eq!(config.check_request(resource, ttl), Err(invalid));
    }
    let none = LockOptions::new(TTL).tries(0);
    let no_tries = world.invalid(&Request::new(b"k", &none));
    assert_eq!(no_tries, InvalidRequest(RequestFault::NoTries));
    // Requests at the bounds are sent.
    for (resource, ttl) in [(&[b'k'; 1024][..], TTL), (b"a", 50 * MS), (b"b", month)] {
        world.acquire_of(resource, &LockOptions::new(ttl).tries(1));
        assert_eq!(world.take(0).len(), 1, "{ttl:?}");
    }
}

#[test]
fn what_needs_scripts_is_refused_at_once_where_there_are_none() {
    let mut world = World::with(named(3).without_scripts(true));
    let options = LockOptions::new(TTL);
    let fenced = options.fenced();
    for request in [
        Request::new(b"k", &fenced),
        Request::shared(b"k", &options),
        Request::permit(b"k", 4, &options),
    ] {
        let why = world.invalid(&request);
        assert_eq!(why, InvalidRequest(RequestFault::NeedsScripts));
        world.is_clean();
    }
}

#[test]
fn a_delay_of_nothing_does_not_try_for_ever_within_one_turn() {
    let mut world = World::with(named(3).retry(Retry::new(5, Duration::ZERO..=Duration::ZERO)));
    (0..3).for_each(|node| world.lose(node));
    let wait = 100 * MS;
    world.acquire(&LockOptions::new(TTL).wait(wait));
    world.sleep_until_event();
    let report = world.no_quorum();
    assert!(report.elapsed() <= wait + MS);
    assert!(report.tries() <= 101, "{}", report.tries());
}

#[test]
fn steady_locking_uses_its_memory_again() {
    let mut world = World::ready(5);
    let mut capacity = None;
    for cycle in 0..50 {
        let lock = world.lock_on(0..5);
        world.release_on(0..5, lock);
        let work = &world.engine.work;
        let now = (work.parts.claims.slab.capacity(), work.capacity());
        assert!(cycle < 2 || capacity == Some(now));
        capacity = Some(now);
    }
    world.is_clean();
}

#[test]
fn the_same_seed_and_inputs_give_the_same_bytes() {
    let run = || {
        let mut world = World::ready(3);
        world.acquire(&LockOptions::new(TTL).tries(3));
        world.all_say(0..2, "$-1|");
        world.pass(300 * MS);
        (world.tokens(), world.take_all())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_seed_that_is_added_changes_every_token_to_come_and_nothing_else_does() {
    let token = |seeds: &[u8]| {
        let mut world = World::ready(1);
        for seed in seeds {
            world.engine.reseed([*seed; 32]);
        }
        world.try_once();
        world.say(0, "+OK|");
        world.lock().token().as_bytes().to_vec()
    };
    let tokens = [&[][..], &[1], &[2], &[1, 2], &[2, 1], &[1, 1]].map(token);
    for (index, one) in tokens.iter().enumerate() {
        assert!(!tokens[..index].contains(one), "{index}");
    }
    assert_eq!(token(&[1, 2]), tokens[3]);
}

/// There are more debts than fit into one buffer.
#[test]
fn a_debt_that_finds_no_room_is_paid_when_there_is_some() {
    let mut world = World::ready(1);
    world.pass(Duration::from_secs(2));
    let held = world.long_locks(LOCKS, 0..1);
    world.lose(0);
    for lock in held {
        world.engine.give_back(world.now, lock);
    }
    assert_eq!(world.owed(), LOCKS);
    world.take(0);
    world.welcome(0);
    let mut answered = 0;
    while answered < LOCKS {
        let sent = world.take(0);
        let released = sent.iter().filter(|sent| sent.ends_with("release")).count();
        assert!(0 < released && released < LOCKS, "{released}");
        world.say(0, &":1|".repeat(released));
        if answered == 0 {
            world.finish(0, "run0"); // After the debts that go first.
        }
        answered += released;
    }
    assert_eq!(world.owed(), 0);
}

/// Makes the largest number of claims, without a copy on any node.
fn fill(world: &mut World) {
    let until = world.now.saturating_add(TTL);
    let entry = Entry::new(Vec::new(), b"full", b"token");
    while world.engine.work.parts.claims.len() < CLAIMS_MAX {
        let claims = &mut world.engine.work.parts.claims;
        claims.adopt(entry.clone(), NodeSet::EMPTY, TTL, until);
    }
}

#[test]
fn there_are_no_more_claims_than_there_may_be() {
    let (mut world, lock) = World::held(1);
    let adopted = world.detach(lock);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.say(0, "_|+OK|+OK|:100|");
    assert!(world.events.is_empty(), "there is another try");
    fill(&mut world);
    let full = world.claims();
    // A call,
    let options = once();
    let request = Request::new(b"k", &options);
    let refused = world.engine.acquire(world.now, &request);
    assert_matches!(refused, Err(LockError::Saturated));
    // another try,
    world.pass(250 * MS);
    assert_matches!(world.refusal(), LockError::Saturated);
    // and a lock without a claim that is lost.
    world.extend(&adopted);
    world.say(0, ":0|");
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
    assert_eq!(world.claims(), full);
}
