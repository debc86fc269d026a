//! Stories of one server that has two names in the configuration, carries a marker and loses nothing in a restart. An
//! answer under one name counts under the other too.

use super::*;

/// Makes two names, and a node that is another server. The test writes what they say about themselves.
fn world() -> World {
    let strict = named(3).max_ttl(LONGEST);
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    greet(&mut world, 2, "xyz");
    world
}

/// `node` greets as the server `run_id`, which has a marker and no barrier.
fn greet(world: &mut World, node: usize, run_id: &str) {
    world.welcome(node);
    world.take(node);
    let rest = "$-1|$-1|-NOPERM no CONFIG|$-1|$-1|$-1|$-1|";
    world.say(node, &format!("$10|run_id:{run_id}|{rest}"));
    let marker = format!("1 {run_id} 20000 3 2 1 default");
    world.say(node, &format!("*3|:1|:0|$25|{marker}|"));
    world.take(node);
}

/// Makes two connected names of one server.
fn twins() -> World {
    let mut world = world();
    greet(&mut world, 0, "abc");
    greet(&mut world, 1, "abc");
    let twin = NodeState::Unusable(Unusable::SameServer(0));
    assert_eq!(world.state(1), twin);
    world
}

/// The server refuses a `SET` under the name of node 0, as a replica does.
fn refuse(world: &mut World) {
    world.try_once();
    world.reply(0, "-READONLY You can't write against a read only replica.|");
}

fn greet_again(world: &mut World, node: usize, run_id: &str) {
    world.reconnect(node);
    greet(world, node, run_id);
}

/// By then the run_id has changed, and no barrier shows the earlier alarm.
#[test]
fn an_alarm_outlives_a_restart_under_the_other_name() {
    for greeted_again in [false, true] {
        let mut world = twins();
        refuse(&mut world);
        let mut until = None;
        if greeted_again {
            greet_again(&mut world, 0, "abc");
            until = world.quarantined_until(0);
            world.lose(0);
        }
        greet_again(&mut world, 1, "def");
        let until = until.unwrap_or(world.now.saturating_add(BARRIER));
        assert_eq!(world.quarantined_until(1), Some(until), "{greeted_again}");
    }
}

/// The other name may lead to another server by then, which has not greeted since the alarm.
#[test]
fn an_alarm_is_not_over_with_a_greeting_of_another_process() {
    let mut world = twins();
    refuse(&mut world);
    greet_again(&mut world, 1, "def");
    world.pass(Duration::from_secs(5));
    greet_again(&mut world, 0, "ghi");
    let until = world.now.saturating_add(BARRIER);
    assert_eq!(world.quarantined_until(0), Some(until));
}

/// Only when the first name greets again is it known that both names are one server.
#[test]
fn an_alarm_reaches_a_name_that_was_met_after_the_restart() {
    let mut world = world();
    greet(&mut world, 0, "abc");
    refuse(&mut world);
    greet_again(&mut world, 0, "abc");
    let until = world.quarantined_until(0);
    assert!(until.is_some());
    world.lose(0);
    greet(&mut world, 1, "def");
    assert_eq!(world.state(1), NodeState::Ready);
    greet_again(&mut world, 0, "def");
    let twin = NodeState::Unusable(Unusable::SameServer(1));
    assert_eq!(world.state(0), twin);
    assert_eq!(world.quarantined_until(1), until);
}

/// An operator vouches for a server, not only for one of its names.
#[test]
fn trust_in_a_server_is_for_all_its_names() {
    let mut world = twins();
    refuse(&mut world);
    greet_again(&mut world, 0, "abc");
    world.lose(0);
    greet_again(&mut world, 1, "abc");
    assert_eq!(world.trust(1, "abc"), Ok(true));
    world.reply(1, "*3|:1|:0|$25|1 abc 20000 3 2 1 default|");
    assert_eq!(world.state(1), NodeState::Ready);
    greet_again(&mut world, 0, "abc");
    assert_eq!(world.state(1), NodeState::Ready);
    world.lose(1);
    greet_again(&mut world, 0, "abc");
    assert_eq!(world.state(0), NodeState::Ready);
}
