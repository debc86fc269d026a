//! Servers that stand still, are busy, load their data, or are killed.

use shearline::internals::LinkFault;
use shearline::{NodeOutcome, Unusable};

use super::story::{Fault, Victim, play, play_silent};
use crate::servers::{Options, Reply, eventually};

fn silent(outcome: NodeOutcome) -> bool {
    outcome == NodeOutcome::TimedOut
}

/// Returns `true` if the node refuses for now, with `code`: on an open connection, or in the handshake.
fn says(outcome: NodeOutcome, code: &str) -> bool {
    match outcome {
        NodeOutcome::Refused(error) | NodeOutcome::Unusable(Unusable::Refused(error)) => {
            error.code() == code
        }
        _ => false,
    }
}

#[test]
fn a_server_that_stands_still_times_out() {
    let options = Options::redis().arguments(["--enable-debug-command", "yes"]);
    play_silent(
        &options,
        &[
            Fault {
                name: "SIGSTOP",
                strike: |victim| victim.server.freeze(),
                heal: |victim| victim.server.thaw(),
                says: Some(silent),
            },
            Fault {
                // The pause ends by itself: the command that would end it is not served either. Like the sleep below,
                // it lasts longer than the story needs it, also on a busy machine.
                name: "CLIENT PAUSE ALL",
                strike: |victim| victim.run("CLIENT PAUSE 15000 ALL"),
                heal: |victim| victim.run("PING"),
                says: Some(silent),
            },
            Fault {
                name: "CLIENT PAUSE WRITE",
                strike: |victim| victim.run("CLIENT PAUSE 60000 WRITE"),
                heal: |victim| victim.run("CLIENT UNPAUSE"),
                says: Some(silent),
            },
            Fault {
                name: "DEBUG SLEEP",
                strike: |victim| {
                    victim.begin(&[b"DEBUG", b"SLEEP", b"15"]);
                    eventually("it sleeps", || {
                        (!victim.server.raw().answers_soon()).then_some(())
                    });
                },
                heal: |victim| victim.await_open(),
                says: Some(silent),
            },
        ],
    );
}

/// The node is busy with a script without an end, on open connections; and after a restart it loads data, before any
/// handshake. Loading would take half a minute if the fault did not end earlier.
#[test]
fn a_server_that_is_busy_or_loading_is_named_so() {
    let options = Options::redis().arguments([
        "--enable-debug-command",
        "yes",
        "--busy-reply-threshold",
        "50",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    play(
        &options,
        &[
            Fault {
                name: "BUSY",
                strike: |victim| {
                    victim.begin(&[b"EVAL", b"while true do end", b"0"]);
                    let mut raw = victim.server.raw();
                    eventually("it is busy", || match raw.command(&[b"PING"]) {
                        Reply::Error(error) => error.starts_with("BUSY").then_some(()),
                        _ => None,
                    });
                },
                heal: |victim| {
                    victim.server.raw().run("SCRIPT KILL");
                    victim.await_open();
                },
                says: Some(|outcome| says(outcome, "BUSY")),
            },
            Fault {
                name: "LOADING",
                strike: |victim| {
                    fill(victim);
                    victim.run("CONFIG SET key-load-delay 3000");
                    victim.begin(&[b"DEBUG", b"RELOAD"]);
                    await_loading(victim);
                },
                heal: |victim| {
                    victim.server.raw().run("CONFIG SET key-load-delay 0");
                    victim.await_open();
                },
                says: Some(|outcome| says(outcome, "LOADING")),
            },
            Fault {
                name: "LOADING at the start",
                strike: |victim| {
                    fill(victim);
                    victim.run("SAVE");
                    victim.memory.inside = None;
                    let slowly = ["--key-load-delay", "3000"];
                    victim.server.restart_with(&slowly);
                    await_loading(victim);
                },
                heal: |victim| {
                    victim.server.raw().run("CONFIG SET key-load-delay 0");
                    victim.server.await_loaded();
                },
                says: Some(|outcome| says(outcome, "LOADING")),
            },
        ],
    );
}

/// A script that sets very many keys, so that a server takes a while to load them.
pub(super) const FILL: &[u8] =
    b"for i = 1, 10000 do redis.call('set', 'filler:' .. i, string.rep('x', 200)) end";

fn fill(victim: &mut Victim<'_>) {
    victim.server.raw().command(&[b"EVAL", FILL, b"0"]);
}

fn await_loading(victim: &mut Victim<'_>) {
    let mut raw = victim.server.raw();
    eventually("it loads", || {
        let loading = raw.info("persistence", "loading")?;
        (loading == "1").then_some(())
    });
}

#[test]
fn a_killed_server_is_unreachable_until_it_is_back() {
    let empty = Fault {
        name: "kill -9, empty",
        strike: |victim| victim.server.kill(),
        heal: |victim| victim.server.restart(),
        says: Some(gone),
    };
    play(&Options::redis(), &[empty]);
    // The server still has its old keys. Their releases are sent when it is back.
    let with_its_log = Fault {
        name: "kill -9, AOF",
        strike: |victim| victim.server.kill(),
        heal: |victim| victim.server.restart(),
        says: Some(gone),
    };
    let persistent = Options::redis().arguments(["--appendonly", "yes", "--appendfsync", "always"]);
    play(&persistent, &[with_its_log]);
}

fn gone(outcome: NodeOutcome) -> bool {
    use LinkFault::{Closed, HandshakeReset, Refused, Reset};
    [Closed, Refused, Reset, HandshakeReset]
        .map(|fault| NodeOutcome::Unreachable(fault.into()))
        .contains(&outcome)
}
