//! Stories of markers and barriers that change while clients use them.

use super::*;
use crate::quorum::Drift;

/// The client came first to a node that had been flushed, and wrote a marker that was too short. When it learns of the
/// longer ttl, it stops counting that node.
#[test]
fn a_client_that_learns_of_a_longer_ttl_raises_the_markers_of_its_nodes() {
    let mut net = trusted(1);
    net.admin(1, "FLUSHALL");
    for node in [0, 2] {
        net.unreachable(node, true);
    }
    let short = net.client(builder(3).max_ttl(Duration::from_secs(5)));
    assert!(net.marker(1).contains(" 5000 "));
    net.pass(5_053 * MS);
    assert_eq!(net.kept_until(short, 1), None);
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    assert!(net.marker(1).contains(" 20000 "));
    refusal(net.try_lock(short, Duration::from_secs(5)));
}

/// The client that knew the markers names the longer ttl. It cannot rule out that the nodes were flushed before.
#[test]
fn a_barrier_for_a_longer_ttl_is_explained_by_this_ttl_too() {
    let names_a_loss_only = |said: &str| {
        said.contains("in quarantine for another 41s, because it may have forgotten locks")
            && !said.contains(" a client ")
    };
    let mut net = trusted(1);
    let watching = net.client(builder(3).max_ttl(LONGEST).watch_clocks(true));
    let long = net.client(builder(3).max_ttl(2 * LONGEST));
    let explained = |net: &mut Net, client| refusal(net.try_lock(client, TTL)).to_string();
    let why = "each in quarantine for another 41s, because it may have forgotten locks, or a client has \
         connected with a longer `Builder::max_ttl`";
    for client in [0, watching] {
        refusal(net.try_lock(client, TTL));
        let said = explained(&mut net, client);
        assert!(said.contains(why), "{said}");
    }
    let said = explained(&mut net, long);
    assert!(
        names_a_loss_only(&said),
        "it has never seen their markers: {said}"
    );
    net.reconnect(0);
    net.pass(SECOND);
    let status = net.clients[0].engine.node_statuses(net.now).next();
    let words = status
        .and_then(|status| status.words)
        .expect("the same barrier");
    assert!(words.contains(" a client "), "{words}");
    // A later quarantine has its own reason, and so has a later barrier.
    net.pass(41 * SECOND);
    for client in [0, watching] {
        let lock = net.try_lock(client, TTL).expect("the barriers are over");
        net.release(client, lock);
    }
    net.pass(2 * SECOND);
    for node in 0..3 {
        net.nodes[node].store.step_clock(Duration::from_secs(3_600));
    }
    let said = explained(&mut net, watching);
    assert!(names_a_loss_only(&said), "{said}");
    for node in 0..3 {
        net.admin(node, "FLUSHALL");
    }
    refusal(net.try_lock(0, TTL));
    let said = explained(&mut net, 0);
    assert!(names_a_loss_only(&said), "{said}");
}

/// The guard does not detect this, as its documentation says. The longer ttl was written to a majority, one node of
/// which has forgotten it. A client that knows only a shorter ttl does not reach the other nodes that know it.
#[test]
fn a_longer_ttl_that_was_not_told_to_all_is_not_heard_of_by_all() {
    let mut net = Net::new(3);
    let five = Duration::from_secs(5);
    let short = net.client(builder(3).max_ttl(five));
    net.pump();
    assert_eq!(net.trust_all(short), 3);
    net.pump();
    net.hold(short, 0);
    net.unreachable(2, true);
    let long = net.client(builder(3).max_ttl(LONGEST));
    net.pass(BARRIER.saturating_add(GRAIN));
    let held = net.try_lock(long, LONGEST).expect("two vote");
    net.hold(long, 2);
    net.unreachable(2, false);
    net.admin(1, "FLUSHALL");
    net.pass(Duration::from_secs(3));
    refusal(net.try_lock(short, five));
    net.pass(5_053 * MS);
    let lock = net.try_lock(short, five).expect("its own barrier is over");
    assert!(held.is_valid_at(net.now) && lock.is_valid_at(net.now));
}

#[test]
fn a_barrier_without_an_end_is_asked_about_every_second() {
    let mut net = trusted(1);
    net.set(1, BARRIER_KEY, b"1");
    net.unreachable(2, true);
    let second = Duration::from_secs(1);
    for _ in 0..3 {
        refusal(net.try_lock(0, TTL));
        assert_eq!(net.kept_until(0, 1), Some(net.now.saturating_add(second)));
        net.pass(second);
    }
    net.admin(1, "DEL shearline:barrier");
    let lock = net.try_lock(0, TTL).expect("it is gone");
    net.release(0, lock);
}

#[test]
fn a_server_that_forgot_the_script_is_asked_by_its_text_in_the_same_round() {
    let mut net = trusted(1);
    for node in 0..3 {
        net.admin(node, "SCRIPT FLUSH");
    }
    let mut lock = net.try_lock(0, TTL).expect("by the text");
    (0..3).for_each(|node| net.admin(node, "SCRIPT FLUSH"));
    net.extend(0, &mut lock, TTL).expect("by the text");
    net.confirm(0, &mut lock).expect("by the text");
    net.release(0, lock);
    net.is_clean();
}

/// The `SET` would follow the release, and would never be released.
#[test]
fn a_set_that_met_no_script_is_not_sent_again_when_its_round_is_over() {
    let mut net = trusted(1);
    net.admin(2, "SCRIPT FLUSH");
    net.hold(0, 2);
    let lock = net.try_lock(0, TTL).expect("two of three");
    net.release(0, lock);
    net.let_through(0, 2);
    assert_eq!(net.value(2, b"k"), None);
    net.is_clean();
}

/// Commands that were written before the node had joined again are answered under the old marker. This does not make
/// the node join once more.
#[test]
fn an_answer_under_an_old_marker_says_nothing_of_the_new_one() {
    let mut net = trusted(1);
    net.hold(0, 1);
    net.acquire(0, b"a", TTL);
    net.admin(1, "FLUSHALL");
    net.acquire(0, b"b", TTL);
    net.acquire(0, b"c", TTL);
    net.acquire(0, b"d", TTL);
    let joins = net.joins(1);
    net.let_through(0, 1);
    // It joins once, for all that were answered so.
    assert_eq!(net.joins(1), joins + 1);
    assert!(net.kept_until(0, 1).is_some());
    // The node has joined with a marker that is the same, word for word.
    net.hold(0, 1);
    net.acquire(0, b"e", TTL);
    net.let_through(0, 1);
    assert_eq!(net.joins(1), joins + 1);
}

/// Makes a node that has a marker and counts, and whose server has loaded the scripts.
fn marked() -> World {
    use crate::node::{CHECKED_ACQUIRE, CHECKED_EXTEND, RELEASE, RELEASE_EACH};
    let strict = named(1).restart_guard(RestartGuard::Strict).max_ttl(TTL);
    let mut world = World::with(strict);
    world.welcome(0);
    let digest = |script: &crate::node::Script| format!("$40|{}|", script.sha1);
    let rest = [&RELEASE, &CHECKED_ACQUIRE, &CHECKED_EXTEND, &RELEASE_EACH].map(digest);
    world.say(0, &format!("$11|run_id:run0|$-1|$-1|*0|{}", rest.concat()));
    world.say(0, "*3|:1|:0|$26|1 run0 10000 1 1 0 default|");
    assert_eq!(world.state(0), NodeState::Ready);
    world.take(0);
    world
}

/// The server answers scripts that check a marker as if they had checked none. The answer says nothing about the
/// marker, so the command counts as unanswered.
#[test]
fn an_answer_that_does_not_speak_of_the_marker_is_no_answer() {
    for said in [":1|", ":0|"] {
        let mut world = marked();
        world.try_once();
        world.say(0, said);
        assert_eq!(world.links[0], "reset", "{said}");
        let outcome = outcomes(&world.no_quorum());
        assert_matches!(outcome[..], [NodeOutcome::Unreachable(_)]);
        assert_eq!(world.owed(), 1, "{said}: it may have the key");
    }
}

/// The client learns of a longer ttl between the question and the answers that make the majority. The nodes that give
/// these answers have to join again. No clock was set, so their keys last as long as requested.
#[test]
fn an_extension_lasts_as_long_as_ever_while_nodes_join_again() {
    let five = Duration::from_secs(5);
    let mut net = Net::new(3);
    let client = net.client(builder(3).max_ttl(five));
    net.pump();
    assert_eq!(net.trust_all(client), 3);
    net.pump();
    let mut lock = net.try_lock(client, five).expect("all vote");
    net.pass(Duration::from_secs(1));
    for node in [0, 2] {
        net.hold(client, node);
    }
    let engine = &mut net.clients[client].engine;
    engine.extend(net.now, &lock, five).expect("asked");
    net.pump();
    net.hold(client, 1);
    let longer = net.marker(0).replace(" 5000 ", " 20000 ");
    net.set(0, MARKER_KEY, longer.as_bytes());
    net.reconnect(0);
    net.let_through(client, 0);
    net.let_through(client, 2);
    net.extended(client, &mut lock).expect("two vote");
    let end = five.saturating_sub(Drift::default().of(five));
    assert_eq!(lock.valid_until(), net.now.saturating_add(end));
}

/// The script for many keys does not check a marker.
#[test]
fn renewals_on_a_node_with_a_marker_are_in_no_batch() {
    let mut world = marked();
    let _locks = [b"k0", b"k1"].map(|name| {
        world.acquire_of(name, &LockOptions::new(TTL).keep().tries(1));
        world.reply(0, "*2|:1|:0|");
        world.lock()
    });
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, ["EVALSHA extend"; 2]);
}

/// The node may have forgotten other locks, whatever it says about this one, and however long it has had it.
#[test]
fn a_barrier_counts_for_copies_that_are_older_too() {
    let mut net = trusted(1);
    let lock = net.try_lock(0, TTL).expect("all vote");
    let counted = |net: &Net| net.clients[0].engine.confirmed_by(net.now, &lock).len();
    assert_eq!(counted(&net), 3);
    net.set(1, BARRIER_KEY, b"1");
    net.acquire(0, b"other", TTL);
    assert!(net.kept_until(0, 1).is_some());
    assert_eq!(counted(&net), 2);
}

/// The nodes forget their locks while their barriers for a longer ttl last.
#[test]
fn a_loss_behind_a_barrier_for_a_longer_ttl_is_explained_by_the_loss() {
    let mut net = trusted(1);
    net.client(builder(3).max_ttl(2 * LONGEST));
    refusal(net.try_lock(0, TTL));
    refusal(net.try_lock(0, TTL));
    for node in 0..3 {
        net.admin(node, "FLUSHALL");
    }
    net.pass(2 * SECOND);
    refusal(net.try_lock(0, TTL));
    let said = refusal(net.try_lock(0, TTL)).to_string();
    assert!(said.contains("it may have forgotten locks"), "{said}");
}

/// The first client that joins the flushed nodes again has a longer ttl.
#[test]
fn a_loss_that_a_client_with_a_longer_ttl_finds_is_explained_by_the_loss() {
    let mut net = trusted(1);
    for node in 0..3 {
        net.admin(node, "FLUSHALL");
    }
    net.client(builder(3).max_ttl(2 * LONGEST));
    refusal(net.try_lock(0, TTL));
    let said = refusal(net.try_lock(0, TTL)).to_string();
    assert!(said.contains("it may have forgotten locks"), "{said}");
}
