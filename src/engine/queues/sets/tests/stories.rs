//! Stories of whose turn it is, over the model.

use super::*;

fn come(names: &[&[usize]]) -> (World, Vec<Who>) {
    let mut world = World::new();
    let come = names
        .iter()
        .map(|names| world.come(names.to_vec()))
        .collect();
    (world, come)
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

#[test]
fn sets_that_name_the_same_in_different_orders_do_not_wait_for_each_other() {
    let (mut world, who) = come(&[&[A, B], &[B, A], &[A, B]]);
    for who in who {
        assert_eq!(world.lead(false), [who]);
        world.grant(who);
        assert_eq!(world.lead(false), []);
        let lock = world.locks.pop().expect("held");
        world.release(lock);
    }
    world.serve();
}

#[test]
fn a_set_between_two_singles_has_its_turn_between_them() {
    let (mut world, who) = come(&[&[A], &[A, B], &[A]]);
    for who in who {
        assert_eq!(world.lead(false), [who]);
        world.grant(who);
        let lock = world.locks.pop().expect("held");
        world.release(lock);
    }
    world.serve();
}

#[test]
fn a_set_is_passed_so_often_and_then_its_name_is_left_free() {
    let (mut world, who) = come(&[&[B], &[A, B]]);
    world.grant(who[0]);
    for _ in 0..PASSED_MAX {
        let single = world.come(vec![A]);
        assert_eq!(world.lead(true), [single], "it passes");
        world.grant(single);
        let lock = world.locks.pop().expect("held");
        world.release(lock);
    }
    let late = world.come(vec![A]);
    assert_eq!(world.lead(false), [], "the name is left free");
    let lock = world.locks.pop().expect("held");
    world.release(lock);
    assert_eq!(world.lead(true), [who[1]]);
    world.grant(who[1]);
    let lock = world.locks.pop().expect("held");
    world.release(lock);
    assert_eq!(world.lead(true), [late]);
    world.serve();
}

/// One that comes, and one that waits: both pass all of these, or none.
#[test]
fn a_single_passes_up_to_so_many_sets_at_once() {
    for (sets, passes) in [(PASSED_AT_ONCE_MAX, true), (PASSED_AT_ONCE_MAX + 1, false)] {
        let (mut world, who) = come(&[&[B], &[A]]);
        world.grant(who[0]);
        let sets: Vec<_> = (0..sets).map(|_| world.come(vec![A, B])).collect();
        let waits = world.come(vec![A]);
        world.give_up(who[1]);
        assert_eq!(world.lead(true) == [waits], passes);
        world.give_up(waits);
        let comes = world.come(vec![A]);
        assert_eq!(world.lead(true) == [comes], passes);
        world.give_up(sets[9]);
        assert_eq!(world.lead(true), [comes], "one has ended");
    }
}

#[test]
fn a_set_that_rests_leaves_its_other_names() {
    let (mut world, who) = come(&[&[A, B], &[A], &[B], &[B, C]]);
    world.rest(who[0], 1);
    assert_eq!(world.lead(true), [who[1]], "its name is free");
    world.gather(who[0]);
    assert_eq!(world.lead(true), [who[1], who[2]], "it waits for its turn");
    world.give_up(who[2]);
    assert_eq!(world.lead(true), [who[1], who[3]]);
    world.give_up(who[3]);
    world.give_up(who[1]);
    assert_eq!(world.lead(true), [who[0]]);
    world.serve();
}

#[test]
fn a_set_that_was_overtaken_where_it_had_passed_another_is_the_contender_again() {
    let (mut world, who) = come(&[&[A], &[A, B]]);
    (1..PASSED_MAX).for_each(|_| world.pass(B));
    let passed = world.come(vec![B, C]);
    assert_eq!(world.lead(true), [who[0], passed], "as the last that may");
    world.overtake(B);
    assert_eq!(world.lead(true), [who[0]]);
    let lock = world.locks.pop().expect("held");
    world.release(lock);
    assert_eq!(world.lead(true), [who[0], passed]);
    world.serve();
}

#[test]
fn a_set_that_gives_up_leaves_no_record() {
    for stage in 0..3 {
        let (mut world, who) = come(&[&[A, B], &[A], &[B]]);
        match stage {
            0 => {}
            1 => world.rest(who[0], 0),
            _ => {
                world.rest(who[0], 0);
                world.gather(who[0]);
            }
        }
        world.give_up(who[0]);
        assert_eq!(world.lead(true), [who[1], who[2]]);
        world.serve();
    }
}

/// All of its names but the last are free, for it and for all others in its lines: 64 places get their next.
#[test]
fn sets_of_many_names_that_one_keeps_from_their_turns_are_not_looked_at_name_by_name_again() {
    let (mut queues, mut claims) = (Queues::new(7), Claims::new(7, Drift::default()));
    let names: Vec<[u8; 1]> = (0..64).map(|name| [name]).collect();
    let mut enter = |queues: &mut Queues| -> Vec<PlaceKey> {
        let places = names.iter().map(|name| queues.enter(name, &mut claims));
        places.collect()
    };
    let sets: Vec<_> = (1..=100).map(|set| OperationKey(key(set))).collect();
    for set in &sets {
        let places = enter(&mut queues);
        assert_eq!(queues.queue_set(&places, *set), *set == sets[0]);
    }
    let places = enter(&mut queues);
    check::looks();
    queues.rest_at(places[63], sets[0]);
    assert_eq!(queues.next_freed(Instant::ZERO), None);
    let looks = check::looks();
    assert!(looks < 10_000, "{looks}"); // 477,288 name by name.
    assert!(queues.gather(sets[0]));
    assert_eq!(check::looks(), 0);
    queues.leave_set(sets[0], &mut claims.buffers);
    assert_eq!(
        queues.next_freed(Instant::ZERO).map(|it| it.next),
        Some(sets[1])
    );
    assert_eq!(queues.next_freed(Instant::ZERO), None);
    assert_eq!(check::looks(), 0);
}
