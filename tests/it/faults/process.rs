//! Servers that stand still, are busy, load their data, or are killed.

use super::story::{Fault, Victim, play, play_silent};
use crate::servers::{Options, Reply, eventually, until};

/// The pause of all commands ends by itself: the command that would end it is not served either. Like the sleep below,
/// it lasts longer than the story needs it, also on a busy machine.
const PAUSES: &str = "
CLIENT PAUSE ALL | CLIENT PAUSE 15000 ALL | PING | TimedOut
CLIENT PAUSE WRITE | CLIENT PAUSE 60000 WRITE | CLIENT UNPAUSE | TimedOut
";

#[test]
fn a_server_that_stands_still_times_out() {
    let options = Options::redis().arguments(["--enable-debug-command", "yes"]);
    let mut faults = Fault::of_rows(PAUSES, &[]);
    faults.push(Fault::new(
        "SIGSTOP",
        "TimedOut",
        |victim| victim.server.freeze(),
        |victim| victim.server.thaw(),
    ));
    faults.push(Fault::new(
        "DEBUG SLEEP",
        "TimedOut",
        |victim| {
            victim.begin(&[b"DEBUG", b"SLEEP", b"15"]);
            until("it sleeps", || !victim.server.raw().answers_soon());
        },
        |victim| victim.await_open(),
    ));
    play_silent(&options, &faults);
}

/// The node is busy with a script without an end, on open connections; and after a restart it loads data, before any
/// handshake. Loading would take half a minute if the fault did not end earlier.
#[test]
fn a_server_that_is_busy_or_loading_is_named_so() {
    let busy_soon = ["--busy-reply-threshold", "50"];
    let options = reloading().arguments(busy_soon);
    let busy = Fault::new(
        "BUSY",
        "Refused(ServerError(BUSY)) | Unusable(Refused(ServerError(BUSY)))",
        |victim| {
            victim.begin(&[b"EVAL", b"while true do end", b"0"]);
            let mut raw = victim.server.raw();
            eventually("it is busy", || match raw.command(&[b"PING"]) {
                Reply::Error(error) => error.starts_with("BUSY").then_some(()),
                _ => None,
            });
        },
        |victim| {
            victim.server.raw().run("SCRIPT KILL");
            victim.await_open();
        },
    );
    let loading = Fault::new(
        "LOADING",
        LOADING,
        |victim| {
            fill(victim);
            victim.run("CONFIG SET key-load-delay 3000");
            victim.begin(&[b"DEBUG", b"RELOAD"]);
            await_loading(victim);
        },
        |victim| {
            victim.server.raw().run("CONFIG SET key-load-delay 0");
            victim.await_open();
        },
    );
    let loading_at_the_start = Fault::new(
        "LOADING at the start",
        LOADING,
        |victim| {
            fill(victim);
            victim.run("SAVE");
            victim.memory.inside = None;
            victim.server.restart_with(&["--key-load-delay", "3000"]);
            await_loading(victim);
        },
        |victim| {
            victim.server.raw().run("CONFIG SET key-load-delay 0");
            victim.server.await_loaded();
        },
    );
    play(&options, &[busy, loading, loading_at_the_start]);
}

const LOADING: &str = "Refused(ServerError(LOADING)) | Unusable(Refused(ServerError(LOADING)))";

/// Servers that answer while they load their data, which a command lets them do again.
pub(super) fn reloading() -> Options {
    let debug = Options::redis().arguments(["--enable-debug-command", "yes"]);
    debug.arguments(["--loading-process-events-interval-bytes", "1024"])
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
    // A server with a log still has its old keys. Their releases are sent when it is back.
    let persistent = Options::redis().arguments(["--appendonly", "yes", "--appendfsync", "always"]);
    for (name, options) in [("empty", Options::redis()), ("AOF", persistent)] {
        let killed = Fault::new(
            &format!("kill -9, {name}"),
            "Unreachable(LinkError(Closed)) | Unreachable(LinkError(Refused)) | Unreachable(LinkError(Reset)) \
            | Unreachable(LinkError(HandshakeReset))",
            |victim| victim.server.kill(),
            |victim| victim.server.restart(),
        );
        play(&options, &[killed]);
    }
}
