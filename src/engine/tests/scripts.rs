//! Stories of scripts that a server has forgotten, and of native releases that it refuses.

use super::*;

impl World {
    /// `node` greets as the server `run0`, which has a native release.
    pub(super) fn greet_as_valkey(&mut self, node: usize) {
        self.welcome_as(node, VALKEY);
        self.take(node);
        self.finish(node, "run0");
        self.take(node);
    }
}

#[test]
fn a_forgotten_script_is_repaired_by_its_text_also_when_no_call_waits() {
    let (mut world, lock) = World::held(3);
    world.release_on(0..2, lock);
    world.take_all();
    world.say(2, "-NOSCRIPT No matching script. Please use EVAL.|");
    assert_eq!(world.take(2), [&LOAD[..], &["EVAL release"]].concat());
    // Until the scripts are confirmed, the text is used.
    world.try_once();
    (0..3).for_each(|node| world.say(node, if node == 2 { "" } else { "+OK|" }));
    let lock = world.lock();
    world.release(lock);
    let said = digests() + ":1|+OK|:1|";
    world.exchange(2, ["SET k 10000", "EVAL release"], &said);
    world.all_say(0..2, ":1|");
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

#[test]
fn scripts_that_a_server_could_not_load_while_it_was_busy_are_taught_later() {
    let mut world = World::new(1);
    world.welcome(0);
    world.say(0, &format!("$-1|$-1|$-1|{}", "-LOADING x|".repeat(4)));
    world.take(0);
    let lock = world.lock_on(0..1);
    world.exchange(0, [&["SET k 10000"][..], &LOAD].concat(), &digests());
    world.release(lock);
    assert_eq!(world.take(0), ["EVALSHA release"]);
}

#[test]
fn a_nil_behind_an_unrepaired_release_of_our_own_is_no_answer() {
    let mut world = World::ready(1);
    world.acquire(&once());
    world.say(0, "+OK|");
    let lock = world.lock();
    world.give_back(lock);
    world.try_once();
    let sent = ["SET k 10000", "EVALSHA release", "SET k 10000"];
    world.exchange(0, sent, "-NOSCRIPT x|");
    world.exchange(0, [&LOAD[..], &["EVAL release"]].concat(), "$-1|");
    // It is asked once more, behind the repair.
    assert!(world.events.is_empty());
    world.exchange(0, ["SET k 10000"], &(digests() + ":1|+OK|"));
    let lock = world.lock();
    world.release_on(0..1, lock);
    world.is_clean();
}

#[test]
fn an_extension_of_a_released_lock_is_not_repaired() {
    let (mut world, lock) = World::held(1);
    let (_, _) = (world.extend(&lock), world.extend(&lock));
    world.release(lock);
    world.take(0);
    world.events.clear();
    world.say(0, "-NOSCRIPT x|-NOSCRIPT x|-NOSCRIPT x|");
    assert_eq!(world.take(0), [&LOAD[..], &["EVAL release"]].concat());
}

/// The commands to a server that has forgotten a script, before the command itself.
const LOAD: [&str; 4] = ["SCRIPT LOAD"; 4];

/// Makes a Valkey that has greeted, and two locks on it.
fn valkey_with_two_locks() -> (World, [Lock; 2]) {
    let mut world = World::new(1);
    world.greet_as_valkey(0);
    let locks = [b"k", b"l"].map(|resource| world.lock_of(resource));
    world.take(0);
    (world, locks)
}

#[test]
fn every_release_that_was_sent_natively_is_repaired_when_the_server_refuses_the_verb() {
    for refusal in [
        "-ERR unknown command|",
        "-NOPERM no permissions to run the 'delifeq' command|",
    ] {
        let (mut world, [one, two]) = valkey_with_two_locks();
        world.release(one);
        world.release(two);
        world.exchange(0, ["DELIFEQ k", "DELIFEQ l"], &refusal.repeat(2));
        world.exchange(0, ["EVAL release", "EVAL release"], ":1|:0|");
        assert_eq!(world.events.len(), 2, "{refusal}");
        world.is_clean();
    }
}

/// A connection that ends after its handshake leaves no time for two ways. When the script was refused too, the native
/// release is the only way left to try.
#[test]
fn a_native_release_that_was_refused_is_tried_first_again_after_its_script_was_refused() {
    let (mut world, [one, two]) = valkey_with_two_locks();
    world.release(one);
    world.reply(0, "-ERR unknown command|");
    world.take(0);
    for first in ["EVAL release", "DELIFEQ k"] {
        world.lose(0);
        world.reconnect(0);
        world.welcome_as(0, VALKEY);
        assert_eq!(world.take(0)[0], first);
        world.say(0, "-NOPERM this user has no permissions|");
        world.take(0);
    }
    drop(two);
}

/// All ways without scripts are tried from the first on, because the native one may be permitted by now.
#[test]
fn a_release_whose_native_command_and_script_are_both_unknown_is_done_in_another_way() {
    let (mut world, [one, two]) = valkey_with_two_locks();
    world.release(one);
    world.say(0, "-ERR unknown command|");
    world.say(0, "-ERR unknown command 'EVAL', with args beginning|");
    world.say(0, "-ERR unknown command 'DELIFEQ', with args beginning|");
    let ways = ["DELIFEQ k", "EVAL release", "DELIFEQ k", "DELEX k"];
    assert_eq!(world.take(0), ways);
    drop(two);
}

#[test]
fn a_native_release_that_is_refused_for_a_while_stays_native() {
    let (mut world, [one, two]) = valkey_with_two_locks();
    world.release(one);
    world.reply(0, "-BUSY Redis is busy running a script|");
    assert_matches!(world.unlocked(), Err(UnlockError::Unconfirmed(_)));
    world.pass(250 * MS);
    assert_eq!(world.take(0), ["DELIFEQ k"], "scripts may be forbidden");
    world.lose(0);
    world.pass(50 * MS);
    world.welcome_as(0, VALKEY);
    assert_eq!(world.take(0)[0], "DELIFEQ k", "also what is owed");
    world.say(0, ":1|");
    world.finish(0, "run0");
    world.release(two);
    world.say(0, ":0|");
    world.is_clean();
}
