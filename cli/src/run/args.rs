//! The arguments of `run`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use shearline::internals::limits::PERMITS_MAX;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};

use crate::acquire::Acquire;
use crate::connect::Connect;
use crate::duration;
use crate::help::Texts;
use crate::output::listed;
use crate::signals;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts {
    promise: "\
Before another client can take the lock, the command and all its processes are
dead. Exceptions are deleted keys, work of other users, daemons and machines,
a paused machine, and a supervisor and a watchdog that are killed together.
Only --fenced protects the store in these cases.",
    notes: "\
When less than a quarter of the ttl is left, all processes of the command get TERM (or --stop-signal). Shortly before \
the ttl ends, they get KILL. They get these signals even if this program is killed or stopped, and even if they have \
changed their group or session. Processes that outlive the command get TERM, and KILL two seconds (--grace) later. \
Then this program releases the lock. The exceptions are:
* If the keys are deleted on a majority of the nodes, another client can take the lock at once. The command is killed \
two round trips later.
* Work that the command passes to a daemon or another machine (docker run, systemd-run, at, ssh) does not end.
* This program cannot end programs of another user (sudo). If such a program outlives the command, this program keeps \
the lock until the other program ends. After a loss of the lock, the other program continues to run.
* The machine or container may be paused, or too busy to end all processes in an eighth of the ttl (2 s at most). Use \
a service manager for many hundreds of processes.
* The supervisor (this program) and its watchdog (the parent of the command) may fail at the same time.
--lock-delay keeps other clients out for longer after a loss. In a systemd unit, the default KillMode=control-group \
ends the remaining processes. Only a store that refuses old writers helps in all cases: see --fenced. With \
--permits, the store keeps one number for each SHEARLINE_SLOT.

This program passes every signal that it can handle on to the command, except CHLD, ILL, FPE, SEGV and BUS. At a \
terminal, TSTP, TTIN and TTOU stop this program instead. INT and QUIT from the keys of a terminal reach the command \
directly. Ctrl-Z stops both; if the stop lasts longer than the ttl, the lock is lost and the command is killed. While \
this program waits for the lock, --stop-signal ends it, and so does each signal that ends a program by default.",
    environment: "\
SHEARLINE_RESOURCE  the name, or the first of several names
SHEARLINE_RESOURCES  all names, each on its own line
SHEARLINE_TOKEN  the token of the lock
SHEARLINE_FENCING_TOKEN  the fencing token for the store, with --fenced
SHEARLINE_SLOT  the number of the permit, with --permits",
    ..Texts::new(
        "\
shearline run -w 10s report -- make report
shearline run -n --at-least 10s backup -- backup-all    # cron, on 3 machines
shearline run --permits 4 render -- sh -c 'render-part $SHEARLINE_SLOT'",
        "\
..  the status of the command, if it ran; --report tells it apart from these:
1 64
69  too few nodes voted: nothing was started
74  the lock was lost, or the watchdog ended: the work may be half done
75  another client holds the lock: nothing was started (-E: another status)
78
126  the command cannot be run
127  the command does not exist
128+N  signal N ended the command, or the wait for the lock",
        "shearline(1), shearline-lock(1), shearline-status(1), shearline-break(1), flock(1)",
    )
};

/// Runs a command while a lock is held.
///
/// Takes the lock NAME, and runs the command (without a shell). Keeps the lock while the command runs. Then ends the
/// processes that the command left behind, and releases the lock. With several names, `run` takes one lock on all of
/// them, or no lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the lock, or several names for one lock.
    ///
    /// The name is the key on the nodes.
    #[arg(required = true, value_name = "NAME")]
    pub(super) names: Vec<OsString>,

    /// Command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,

    #[command(flatten)]
    pub(super) acquire: Acquire,

    /// Takes a shared lock instead of an exclusive one.
    ///
    /// A request without --shared waits until all shared locks are released. Meanwhile, new requests for shared locks
    /// also wait. Requires nodes that support scripts.
    #[arg(long, help_heading = "Lock")]
    pub(super) shared: bool,

    /// Runs at most K commands under NAME at a time.
    ///
    /// Each command holds one permit. SHEARLINE_SLOT is the number of the permit, from 0 to K - 1. Use the same K (1 to
    /// 1024) in all runs with the same NAME. While other runs hold permits, a run with a different K fails with status
    /// 75. Exclusive requests for NAME wait until no client holds a permit. Requires nodes that support scripts.
    #[arg(
        long,
        value_name = "K",
        help_heading = "Lock",
        conflicts_with = "shared"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(PERMITS_MAX)))]
    pub(super) permits: Option<u16>,

    #[command(flatten)]
    pub(super) connect: Connect,

    /// Shortest time to hold the lock.
    ///
    /// If the command ends earlier, `run` keeps the lock until this time has passed or a signal arrives. Use this
    /// option for jobs that several machines start at the same time. So a machine with a slow clock, which starts the
    /// job later, still finds the lock held.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    #[arg(help_heading = "Command")]
    pub(super) at_least: Duration,

    #[command(flatten)]
    pub(super) end: End,

    /// Restarts the command if the lock is lost.
    ///
    /// `run` first takes the lock again. `run` ends when the command ends by itself, or after `run` has passed TERM,
    /// INT, QUIT or --stop-signal on to the command. If `run` cannot take the lock again, it ends with status 74. The
    /// time of --wait starts again each time the lock is lost.
    #[arg(long, help_heading = "Command")]
    pub(super) again: bool,

    /// Writes the outcome as one line of JSON.
    ///
    /// `run` writes the line to this file, or to this descriptor if you give a number. The fields are version, command,
    /// resource, resources (of several), outcome (released, release_unconfirmed, lost, watchdog_ended, not_started,
    /// held, no_quorum, interrupted, failed), started, command_status, command_signal, status, losses, fencing_token,
    /// error and slot (of a permit).
    #[arg(long, value_name = "FILE|FD", help_heading = "Command")]
    pub(super) report: Option<PathBuf>,
}

impl Args {
    /// Returns the names of the lock.
    pub(super) fn names(&self) -> Vec<&[u8]> {
        self.names.iter().map(|name| name.as_bytes()).collect()
    }

    /// Formats the names of the lock for a message.
    pub(super) fn title(&self) -> String {
        listed(&self.names())
    }
}

/// The options for ending the command and the processes that it leaves behind.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Command")]
pub(super) struct End {
    /// Waits for processes that outlive the command.
    ///
    /// Without this option, `run` ends the processes that outlive the command.
    #[arg(long, hide_short_help = true)]
    pub(super) wait_all: bool,

    /// Lets processes continue without the lock.
    ///
    /// Processes that outlive the command continue to run, as with `flock -o`. If the lock is at risk while the command
    /// runs, `run` still ends all processes. The remaining processes also end when `run` ends, if `run` is the first
    /// process of a container or runs in a systemd unit with KillMode=control-group.
    #[arg(long, hide_short_help = true, conflicts_with = "wait_all")]
    pub(super) leave_children: bool,

    /// Signal that asks processes to end.
    ///
    /// A SIGNAL is a name such as WINCH or RTMIN+3, or a number. Processes get this signal when the lock is at risk,
    /// and when they outlive the command. If `run` receives TERM, it still passes TERM on to the command.
    #[arg(long, hide_short_help = true, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    pub(super) stop_signal: i32,

    /// Time from the stop signal to KILL.
    ///
    /// Processes that outlive the command get this time to end.
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    pub(super) grace: Duration,
}

impl End {
    /// Returns `true` if this signal asks the command to end. Returns `false` for HUP, which may request a reload.
    pub(super) fn asks_for_end(&self, signal: i32) -> bool {
        [SIGTERM, SIGINT, SIGQUIT, self.stop_signal].contains(&signal)
    }
}
