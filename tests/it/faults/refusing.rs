//! Servers that answer and refuse, some of them to every client.

use std::net::Ipv4Addr;
use std::{fs, path::Path};

use super::story::{Fault, Scene, Victim, play, play_in};
use crate::canary::{ESCAPED, PASSWORD, USER};
use crate::face::Which;
use crate::servers::{End, Options, Raw, eventually};

/// The server evicts what it can, also locks, before it refuses. The master of the replica does not exist, so the
/// replica keeps its keys.
const NO_WRITES: &str = "
OOM | CONFIG SET maxmemory 1 | CONFIG SET maxmemory 0 | Refused(ServerError(OOM))
eviction | CONFIG SET maxmemory-policy allkeys-random; CONFIG SET maxmemory 1 | CONFIG SET maxmemory 0 | \
Refused(ServerError(OOM))
NOREPLICAS | CONFIG SET min-replicas-to-write 1 | CONFIG SET min-replicas-to-write 0 | Refused(ServerError(NOREPLICAS))
REPLICAOF | REPLICAOF 127.0.0.1 1 | REPLICAOF NO ONE | Refused(ServerError(READONLY))
";

/// The connections stay open, and each command is refused. Where no write is possible, a release is refused too, and is
/// repeated until the server accepts it.
#[test]
fn a_server_that_refuses_to_write_is_named_with_its_error() {
    let mut faults = Fault::of_rows(NO_WRITES, &[]);
    faults.push(Fault::new(
        "MISCONF",
        "Refused(ServerError(MISCONF))",
        no_more_snapshots,
        |victim| {
            let good = victim.server.directory().to_owned();
            directory(victim, &good);
            victim.run("BGSAVE");
            await_snapshot(victim, "ok");
        },
    ));
    // Valkey has its own command for a release.
    for options in Options::behind_relays() {
        let options = options.arguments(["--enable-protected-configs", "yes"]);
        play(&options, &faults);
    }
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

const NO_CLIENTS: &str = "
replica | REPLICAOF 127.0.0.1 1; cut | REPLICAOF NO ONE | Unusable(Replica)
maxclients | CONFIG SET maxclients 1; CLIENT KILL TYPE normal SKIPME yes | CONFIG SET maxclients 1000 | \
Unusable(TooManyClients)
NOAUTH | ACL SETUSER default resetpass >PASSWORD; cut | ACL SETUSER default nopass | Unusable(NoCredentials)
";

#[test]
fn a_server_that_refuses_every_client_is_unusable() {
    not_with!(
        Acl | Tls | NoScripts,
        "is about the default user over a plain connection"
    );
    let mut faults = Fault::of_rows(NO_CLIENTS, &[("PASSWORD", PASSWORD)]);
    // Without a password, only clients from 127.0.0.1 are allowed.
    faults.push(Fault::new(
        "protected mode",
        "Unusable(Protected)",
        |victim| {
            victim.run("CONFIG SET protected-mode yes");
            victim.proxy.come_from(Some(Ipv4Addr::new(127, 0, 0, 2)));
            victim.proxy.cut(End::Fin);
        },
        |victim| victim.proxy.come_from(None),
    ));
    play(&Options::redis(), &faults);
}

/// Creates the user of the handles.
fn let_in() -> String {
    format!("ACL SETUSER {USER} on resetpass >{PASSWORD} ~* &* +@all")
}

/// If the keys are forbidden, and not the commands, the release is refused too. The connections of a deleted user end
/// with it. After a rotation open connections stay, and new ones need the new password.
const FEWER_RIGHTS: &str = r#"
ACL | ACL SETUSER USER -set | LET IN | Unusable(Permission { command: "set" })
ACL keys | ACL SETUSER USER resetkeys ~elsewhere:* | LET IN | Unusable(KeyPermission)
ACL DELUSER | ACL DELUSER USER | LET IN | Unusable(WrongCredentials)
rotation | ACL SETUSER USER resetpass >other; cut | LET IN | Unusable(WrongCredentials)
"#;

#[test]
fn a_user_who_loses_permissions_while_connected_makes_the_node_unusable() {
    let names = [(" USER", &*format!(" {USER}")), ("LET IN", &let_in())];
    let faults = Fault::of_rows(FEWER_RIGHTS, &names);
    for options in Options::behind_relays() {
        let scene = || {
            let scene = Scene::new(&options).credentials(format!("{USER}:{ESCAPED}"));
            scene.cluster.run(&let_in());
            scene
        };
        play_in(scene, &faults);
    }
}

const NO_FAULTS: &str = "
SCRIPT FLUSH | SCRIPT FLUSH | |
FLUSHALL | FLUSHALL | |
CLIENT KILL | CLIENT KILL TYPE normal SKIPME yes | |
DEBUG RELOAD | DEBUG RELOAD | |
a password, with the connections open | ACL SETUSER default resetpass >PASSWORD | ACL SETUSER default nopass |
";

/// These events look like faults, but cost no vote, even on all three nodes at once.
#[test]
fn a_server_that_forgets_scripts_data_or_connections_costs_no_vote() {
    let debug = Options::redis().arguments(["--enable-debug-command", "yes"]);
    play(
        &debug,
        &Fault::of_rows(NO_FAULTS, &[("PASSWORD", PASSWORD)]),
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
