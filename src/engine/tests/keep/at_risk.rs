//! Stories of holders that learn that their locks are at risk.

use super::*;

/// Sleeps until an event other than a failed extension. Returns it.
fn sleep_until_told(world: &mut World) -> Event {
    loop {
        let is_told = |event: &Event| !matches!(event, Event::Kept { result: Err(_), .. });
        if let Some(place) = world.events.iter().position(is_told) {
            return world.events.remove(place);
        }
        world.sleep_until_timer();
    }
}

#[track_caller]
fn is_told_of_the_risk(world: &mut World, lock: &Lock) {
    let told = sleep_until_told(world);
    assert_matches!(told, Event::AtRisk { lock: told } if told == lock.id());
}

#[track_caller]
fn is_told_of_the_end(world: &mut World, lock: &Lock) {
    let told = sleep_until_told(world);
    assert_matches!(told, Event::Expired { lock: told } if told == lock.id());
}

/// No node answers. The signal still comes before the end, once.
#[test]
fn a_holder_is_told_by_a_timer_that_its_lock_is_at_risk() {
    let plain = LockOptions::new(TTL);
    let (quarter, short) = (TTL / 4, 1_500 * MS / 1_000);
    for (options, left) in [(kept(), quarter), (plain, quarter), (plain, short)] {
        let (mut world, lock) = World::keeping(3, options);
        world.engine.alert_below(&lock, left);
        is_told_of_the_risk(&mut world, &lock);
        let now = lock.valid_until().saturating_since(world.now);
        assert!(left <= now && now <= left + 2 * MS, "{now:?} of {left:?}");
        is_told_of_the_end(&mut world, &lock);
    }
}

#[test]
fn of_several_alerts_the_earliest_is_given_and_at_once_if_it_is_due() {
    for left in [VALIDITY, TTL, 5 * TTL, Duration::MAX] {
        let (mut world, lock) = World::keeping(1, kept());
        world.engine.alert_below(&lock, left);
        world.engine.alert_below(&lock, TTL / 4);
        world.sleep_until_event();
        assert_eq!(lock.validity_at(world.now), VALIDITY, "at once");
        is_told_of_the_risk(&mut world, &lock);
        world.sleep_until_sent(0);
        assert_eq!(world.events.len(), 0, "once");
    }
}

/// A quarter of a ttl may be months. The alert comes only then, and not again and again before.
#[test]
fn an_alert_may_be_months_before_the_end() {
    let day = 24 * 3_600 * SECOND;
    let builder = named(1).max_ttl(400 * day);
    let mut world = World::with(builder).greeted();
    let lock = world.kept_lock(b"k", LockOptions::new(400 * day));
    world.engine.alert_below(&lock, 100 * day);
    is_told_of_the_risk(&mut world, &lock);
    let left = lock.validity_at(world.now);
    assert!(100 * day <= left && left <= 100 * day + 2 * MS, "{left:?}");
}

/// The pauses between the tries of a kept lock stay the same, however often an alert is asked for.
#[test]
fn alerts_make_no_tries() {
    let (mut world, lock) = World::keeping(1, kept());
    let (after, _) = world.sleep_until_sent(0);
    world.say(0, "-ERR x|");
    let left = VALIDITY - after;
    for _ in 0..20 {
        world.engine.alert_below(&lock, TTL);
        world.sleep(MS);
    }
    assert_eq!(world.take(0), NOTHING);
    world.events.clear();
    world.is_extended_after(left / 4 - 20 * MS);
}

/// The holder asks too late. The claim remains only for the nodes on which the lock still has to be released.
#[test]
fn an_alert_for_a_lock_that_is_over_changes_nothing() {
    let (mut world, lock) = World::won(3, 2);
    world.say(2, "_|");
    world.take_all();
    is_told_of_the_end(&mut world, &lock);
    world.engine.alert_below(&lock, TTL / 4);
    world.sleep(SECOND);
    assert!(world.events.is_empty());
    world.give_back(lock);
    let released = ["EVALSHA release".to_string()];
    assert_eq!(world.take_all(), [&released[..], &released, &[]]);
}
