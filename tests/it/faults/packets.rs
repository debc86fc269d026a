//! Lost packets, names whose addresses come late or change, and a full disk, in separate namespaces.
//!
//! The test starts itself again in a network and a mount namespace ([`crate::namespaces`]), where
//! routing rules swallow the packets of single ports.

use std::fs;
use std::net::UdpSocket;

use shearline::internals::LinkFault;
use shearline::{NodeOutcome, NodeState, RestartGuard};

use super::story::{Fault, Victim, play, play_silent};
use crate::face::{Which, at, no_quorum};
use crate::namespaces::{Namespaces, PROBE, run, story_to_play};
use crate::servers::{Cluster, LONG, Options, SILENT, eventually};

const OWN: Namespaces = Namespaces {
    arguments: &["--net", "--mount"],
    inside: "faults::packets::inside",
};

#[test]
fn lost_packets_late_names_and_full_disks_are_survived() {
    OWN.play_all(&["packets", "look-ups", "disk"]);
}

/// The part of the process in the namespaces. Without a story it does nothing.
#[test]
#[ignore = "a part of another test"]
fn inside() {
    let Some((story, _)) = story_to_play() else {
        return;
    };
    run("ip link set lo up");
    // Moves the rule for local addresses back, so that other rules can come before it.
    run("ip rule add pref 100 lookup local");
    run("ip rule del pref 0");
    match story.as_str() {
        PROBE => {
            run("ip rule add pref 7 ipproto tcp dport 7 blackhole");
            run("mount --bind /dev/null /etc/hosts");
        }
        "packets" => packets(),
        "look-ups" => look_ups(),
        "disk" => disk(),
        other => panic!("no such story: {other}"),
    }
}

/// Loses every packet to a port, and every packet from it.
const LOSSES: [&str; 2] = ["pref 5 ipproto tcp dport", "pref 6 ipproto tcp sport"];

/// A connection that is tried meanwhile finds no route.
fn packets() {
    const LOST: &str =
        "TimedOut | Unreachable(LinkError(ConnectTimeout)) | Unreachable(LinkError(Os(";
    let lost = |name, losses: &'static [&str]| {
        let all = |verb: &'static str| {
            move |victim: &mut Victim<'_>| {
                for loss in losses {
                    let port = victim.proxy.port();
                    run(&format!("ip rule {verb} {loss} {port} blackhole"));
                }
            }
        };
        Fault::new(name, LOST, all("add"), all("del"))
    };
    let faults = [
        lost("commands are lost", &LOSSES[..1]),
        lost("answers are lost", &LOSSES[1..]),
        lost("all is lost", &LOSSES),
    ];
    play_silent(&Options::redis(), &faults);
}

/// The resolver gets questions and answers none. A look-up would take two and a half minutes, but it delays no call,
/// and not the end of a handle. A name that changes is looked up again for the next connection.
fn look_ups() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("written");
        run(&format!("mount --bind {} /etc/{name}", path.display()));
        path
    };
    // The system waits for as long as possible.
    let options = "nameserver 127.0.0.9\noptions timeout:30 attempts:5\n";
    file("resolv.conf", options);
    let hosts = file("hosts", "127.0.0.7 moving.test\n");
    let resolver = UdpSocket::bind("127.0.0.9:53").expect("the port is free here");
    let cluster = Cluster::start(3);
    for which in Which::BOTH {
        fs::write(&hosts, "127.0.0.7 moving.test\n").expect("written");
        let moving = format!("redis://moving.test:{}", cluster[2].port());
        let urls = [
            "redis://silent.test".into(),
            cluster[0].url(),
            cluster[1].url(),
        ];
        let builder = at(urls).connect_timeout(SILENT);
        let mut face = which.build(builder);
        resolver
            .recv(&mut [0; 512])
            .expect("the look-up is under way");
        for _ in 0..10 {
            let lock = face.lock("a", LONG).expect("two of three");
            assert_eq!(face.unlock(lock).expect("held").deleted, 2);
        }
        let state = face.nodes()[0].state;
        let unresolved = NodeState::Down(LinkFault::Unresolved.into());
        assert_ne!(state, unresolved, "the look-up is not over");
        drop(face);

        let builder = at([&moving]);
        let mut face = which.build(builder.restart_guard(RestartGuard::Off));
        let report = no_quorum(face.try_lock("a", LONG));
        let refused = NodeOutcome::Unreachable(LinkFault::Refused.into());
        assert_eq!(report.nodes()[0].outcome, refused);
        fs::write(&hosts, "127.0.0.1 moving.test\n").expect("written");
        face.await_ready();
        let lock = face.lock("a", LONG).expect("free");
        face.unlock(lock).expect("held");
    }
}

/// The log of the victim is on a disk of one megabyte, which another file fills.
fn disk() {
    let options = Options::redis().arguments(["--enable-protected-configs", "yes"]);
    let full = Fault::new(
        "the disk is full",
        "Refused(ServerError(MISCONF))",
        |victim| {
            let small = victim.server.directory().join("small");
            let path = small.display().to_string();
            fs::create_dir_all(&small).expect("a directory");
            run(&format!("mount -t tmpfs -o size=1m tmpfs {path}"));
            victim.run(&format!("CONFIG SET dir {path}"));
            victim.run("CONFIG SET appendonly yes");
            await_log(victim, "aof_rewrite_in_progress", "0");
            let filler = vec![0; 2 << 20];
            let filled = fs::write(small.join("filler"), filler);
            filled.expect_err("that is more than there is");
            // This is more than the rest of the last page of the log.
            let long: [&[u8]; 3] = [b"SET", b"filler", &[b'x'; 16 << 10]];
            victim.server.raw().command(&long);
            await_log(victim, "aof_last_write_status", "err");
        },
        |victim| {
            let good = victim.server.directory().to_owned();
            let small = good.join("small");
            fs::remove_file(small.join("filler")).expect("it is there");
            await_log(victim, "aof_last_write_status", "ok");
            // Turn off the log, so that the directory can be removed.
            victim.run("CONFIG SET appendonly no");
            victim.run(&format!("CONFIG SET dir {}", good.display()));
            run(&format!("umount -l {}", small.display()));
        },
    );
    play(&options, &[full]);
}

fn await_log(victim: &mut Victim<'_>, field: &str, expected: &str) {
    let mut raw = victim.server.raw();
    eventually(&format!("{field} is {expected}"), || {
        let value = raw.info("persistence", field)?;
        (value == expected).then_some(())
    });
}
