//! Servers that answer and refuse, some of them to every client.

use std::net::Ipv4Addr;
use std::{fs, path::Path};

use shearline::{NodeOutcome, Unusable};

use super::story::{Fault, Scene, Victim, play, play_in};
use crate::canary::{ESCAPED, PASSWORD, USER};
use crate::face::Which;
use crate::servers::{End, Options, Raw, eventually};

fn refused(outcome: NodeOutcome, code: &str) -> bool {
    matches!(outcome, NodeOutcome::Refused(error) if error.code() == code)
}

fn unusable(outcome: NodeOutcome, reason: Unusable) -> bool {
    outcome == NodeOutcome::Unusable(reason)
}

#[test]
fn a_server_that_refuses_to_write_is_named_with_its_error() {
    refuse_to_write(Options::redis());
}

/// Valkey has its own command for a release.
#[test]
fn a_valkey_server_that_refuses_to_write_is_named_with_its_error() {
    not_with!(
        Tls,
        "the valkey-server that is got here is built without TLS"
    );
    refuse_to_write(Options::valkey());
}

/// The connections stay open, and each command is refused. Where no write is possible, a release is refused too, and is
/// repeated until the server accepts it.
fn refuse_to_write(options: Options) {
    play(
        &options.arguments(["--enable-protected-configs", "yes"]),
        &[
            Fault {
                name: "OOM",
                strike: |victim| victim.run("CONFIG SET maxmemory 1"),
                heal: |victim| victim.run("CONFIG SET maxmemory 0"),
                says: Some(|outcome| refused(outcome, "OOM")),
            },
            Fault {
                // The server evicts what it can, also locks. When that is not enough, it refuses.
                name: "eviction",
                strike: |victim| {
                    victim.run("CONFIG SET maxmemory-policy allkeys-random");
                    victim.run("CONFIG SET maxmemory 1");
                },
                heal: |victim| victim.run("CONFIG SET maxmemory 0"),
                says: Some(|outcome| refused(outcome, "OOM")),
            },
            Fault {
                name: "MISCONF",
                strike: no_more_snapshots,
                heal: |victim| {
                    let good = victim.server.directory().to_owned();
                    directory(victim, &good);
                    victim.run("BGSAVE");
                    await_snapshot(victim, "ok");
                },
                says: Some(|outcome| refused(outcome, "MISCONF")),
            },
            Fault {
                name: "NOREPLICAS",
                strike: |victim| victim.run("CONFIG SET min-replicas-to-write 1"),
                heal: |victim| victim.run("CONFIG SET min-replicas-to-write 0"),
                says: Some(|outcome| refused(outcome, "NOREPLICAS")),
            },
            Fault {
                // Its master does not exist, so it keeps its keys.
                name: "REPLICAOF",
                strike: |victim| victim.run("REPLICAOF 127.0.0.1 1"),
                heal: |victim| victim.run("REPLICAOF NO ONE"),
                says: Some(|outcome| refused(outcome, "READONLY")),
            },
        ],
    );
}

/// Configures snapshots, and removes their directory.
fn no_more_snapshots(victim: &mut Victim<'_>) {
    let wanted: [&[u8]; 4] = [b"CONFIG", b"SET", b"save", b"3600 1"];
    victim.server.raw().command(&wanted);
    let nowhere = victim.server.directory().join("nowhere");
    fs::create_dir(&nowhere).expect("a directory");
    directory(victim, &nowhere);
    fs::remove_dir(&nowhere).expect("our own directory");
    victim.run("BGSAVE");
    await_snapshot(victim, "err");
}

fn directory(victim: &mut Victim<'_>, path: &Path) {
    victim.run(&format!("CONFIG SET dir {}", path.display()));
}

fn await_snapshot(victim: &mut Victim<'_>, status: &str) {
    let mut raw = victim.server.raw();
    let field = |raw: &mut Raw, field| raw.info("persistence", field);
    eventually("the snapshot has ended", || {
        let under_way = field(&mut raw, "rdb_bgsave_in_progress")?;
        let last = field(&mut raw, "rdb_last_bgsave_status")?;
        (under_way == "0" && last == status).then_some(())
    });
}

#[test]
fn a_server_that_refuses_every_client_is_unusable() {
    not_with!(
        Acl | Tls | NoScripts,
        "is about the default user over a plain connection"
    );
    play(
        &Options::redis(),
        &[
            Fault {
                name: "replica",
                strike: |victim| {
                    victim.run("REPLICAOF 127.0.0.1 1");
                    victim.proxy.cut(End::Fin);
                },
                heal: |victim| victim.run("REPLICAOF NO ONE"),
                says: Some(|outcome| unusable(outcome, Unusable::Replica)),
            },
            Fault {
                name: "maxclients",
                strike: |victim| {
                    victim.run("CONFIG SET maxclients 1");
                    victim.run("CLIENT KILL TYPE normal SKIPME yes");
                },
                heal: |victim| victim.run("CONFIG SET maxclients 1000"),
                says: Some(|outcome| unusable(outcome, Unusable::TooManyClients)),
            },
            Fault {
                // Without a password, only clients from 127.0.0.1 are allowed.
                name: "protected mode",
                strike: |victim| {
                    victim.run("CONFIG SET protected-mode yes");
                    victim.proxy.come_from(Some(Ipv4Addr::new(127, 0, 0, 2)));
                    victim.proxy.cut(End::Fin);
                },
                heal: |victim| victim.proxy.come_from(None),
                says: Some(|outcome| unusable(outcome, Unusable::Protected)),
            },
            Fault {
                name: "NOAUTH",
                strike: |victim| {
                    want_a_password(victim);
                    victim.proxy.cut(End::Fin);
                },
                heal: |victim| victim.run("ACL SETUSER default nopass"),
                says: Some(|outcome| unusable(outcome, Unusable::NoCredentials)),
            },
        ],
    );
}

fn want_a_password(victim: &mut Victim<'_>) {
    victim.run(&format!("ACL SETUSER default resetpass >{PASSWORD}"));
}

/// Creates the user of the handles.
fn let_in() -> String {
    format!("ACL SETUSER {USER} on resetpass >{PASSWORD} ~* &* +@all")
}

#[test]
fn a_user_who_loses_permissions_while_connected_makes_the_node_unusable() {
    change_rights(&Options::redis());
}

#[test]
fn a_valkey_user_who_loses_permissions_while_connected_makes_the_node_unusable() {
    not_with!(
        Tls,
        "the valkey-server that is got here is built without TLS"
    );
    change_rights(&Options::valkey());
}

fn change_rights(options: &Options) {
    let scene = || {
        let scene = Scene::new(options).credentials(format!("{USER}:{ESCAPED}"));
        for server in &*scene.cluster {
            server.raw().run(&let_in());
        }
        scene
    };
    play_in(
        scene,
        &[
            Fault {
                name: "ACL",
                strike: |victim| victim.run(&format!("ACL SETUSER {USER} -set")),
                heal: |victim| victim.run(&let_in()),
                says: Some(|outcome| unusable(outcome, Unusable::Permission { command: "set" })),
            },
            Fault {
                // The keys are forbidden, not the commands, so the release is refused too.
                name: "ACL keys",
                strike: |victim| victim.run(&format!("ACL SETUSER {USER} resetkeys ~elsewhere:*")),
                heal: |victim| victim.run(&let_in()),
                says: Some(|outcome| unusable(outcome, Unusable::KeyPermission)),
            },
            Fault {
                // The connections of the user end with it.
                name: "ACL DELUSER",
                strike: |victim| victim.run(&format!("ACL DELUSER {USER}")),
                heal: |victim| victim.run(&let_in()),
                says: Some(|outcome| unusable(outcome, Unusable::WrongCredentials)),
            },
            Fault {
                // Open connections stay; new ones need the new password.
                name: "rotation",
                strike: |victim| {
                    victim.run(&format!("ACL SETUSER {USER} resetpass >other"));
                    victim.proxy.cut(End::Fin);
                },
                heal: |victim| victim.run(&let_in()),
                says: Some(|outcome| unusable(outcome, Unusable::WrongCredentials)),
            },
        ],
    );
}

/// These events look like faults, but cost no vote, even on all three nodes at once.
#[test]
fn a_server_that_forgets_scripts_data_or_connections_costs_no_vote() {
    let debug = Options::redis().arguments(["--enable-debug-command", "yes"]);
    play(
        &debug,
        &[
            Fault {
                name: "SCRIPT FLUSH",
                strike: |victim| victim.run("SCRIPT FLUSH"),
                heal: |_| {},
                says: None,
            },
            Fault {
                name: "FLUSHALL",
                strike: |victim| victim.run("FLUSHALL"),
                heal: |_| {},
                says: None,
            },
            Fault {
                name: "CLIENT KILL",
                strike: |victim| victim.run("CLIENT KILL TYPE normal SKIPME yes"),
                heal: |_| {},
                says: None,
            },
            Fault {
                name: "DEBUG RELOAD",
                strike: |victim| victim.run("DEBUG RELOAD"),
                heal: |_| {},
                says: None,
            },
            Fault {
                name: "a password, with the connections open",
                strike: |victim| want_a_password(victim),
                heal: |victim| victim.run("ACL SETUSER default nopass"),
                says: None,
            },
        ],
    );
}

/// A server that evicts keys votes, and the operator can see that it does.
#[test]
fn servers_that_may_evict_locks_are_named() {
    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"];
    let keeping = ["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"];
    for (arguments, evicts) in [(evicting, true), (keeping, false)] {
        let scene = Scene::new(&Options::redis().arguments(arguments));
        for which in Which::BOTH {
            let mut face = which.build(scene.builder());
            face.await_ready();
            assert!(face.nodes().iter().all(|node| node.evicts_locks == evicts));
        }
    }
}
