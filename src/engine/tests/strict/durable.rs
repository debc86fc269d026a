//! Stories of what a server says about itself when it is asked to join.

use super::*;

/// The refusal names only the missing facts.
#[test]
fn a_server_that_does_not_tell_its_run_id_cannot_serve() {
    let strict = named(1);
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    world.welcome(0);
    assert_eq!(world.take(0).len(), 8);
    world.say(0, &"-NOPERM x|".repeat(8));
    let state = world.state(0);
    assert_eq!(state, NodeState::Unusable(Unusable::NoRunId));
}

/// Makes one node with these answers to `CONFIG GET` and `INFO replication`. Returns what the request to join says
/// about durability.
fn durable(config: &str, replication: &str) -> String {
    let strict = Config::builder().node("node0:6379");
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    world.welcome(0);
    world.take(0);
    let bulk = |text: &str| format!("${}|{text}|", text.replace('|', "\r\n").len());
    world.say(0, &bulk("run_id:abc"));
    world.say(0, &bulk(replication));
    world.say(0, &format!("$-1|{config}"));
    world.say(0, "$-1|$-1|$-1|$-1|");
    let join = world.take(0).pop().expect("it is asked to join");
    let mut words = join.split(' ').rev();
    words.nth(2).expect("a word").to_string()
}

#[test]
fn only_what_is_shown_to_be_on_disk_is_durable() {
    let map = |aof, fsync, rewrite| {
        let rewrite = format!("+no-appendfsync-on-rewrite|+{rewrite}|+appendfilename|+x|");
        format!("%4|+appendonly|+{aof}|+appendfsync|+{fsync}|{rewrite}")
    };
    let flat = "*6|+appendonly|+yes|+appendfsync|+always|+no-appendfsync-on-rewrite|+no|";
    let always = map("yes", "always", "no");
    let none = "0".repeat(40);
    let alone = format!("role:master|connected_slaves:0|master_replid2:{none}");
    for (config, replication, durability) in [
        (&*always, &*alone, "1"),
        (flat, &alone, "1"),
        (&map("no", "always", "no"), &alone, "0"),
        (&map("yes", "everysec", "no"), &alone, "0"),
        (&map("yes", "always", "yes"), &alone, "0"),
        ("-NOPERM no CONFIG|", &alone, "-"),
        (&always, &alone.replace("slaves:0", "slaves:1"), "0"),
        (&always, &alone.replace("0000", "0001"), "0"),
        (&always, "role:master", "0"),
    ] {
        let found = durable(config, replication);
        assert_eq!(found, durability, "{config} {replication}");
    }
}
