//! `shearline nodes` and `shearline check`: show which nodes would vote, and whether they are a majority.
//!
//! Both commands connect to every node like a new handle, and then try to take a lock on each node separately.

mod metrics;
mod plugin;

use std::ffi::OsString;
use std::time::Duration;

use anstyle::Style;
use serde_json::{Value, json};
use shearline::{NodeOutcome, NodeState, NodeStatus, OperatorError};

use crate::connect::Nodes;
use crate::duration;
use crate::failure::{Failure, in_words};
use crate::help::Texts;
use crate::json::{self, joined, millis};
use crate::output::{self, BAD, Format, GOOD, count, item, painted};
use crate::pace::{self, reason};
use crate::status::Status;
use crate::trial::{self, Lock, Trial};

pub(crate) use plugin::unknown;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline nodes
shearline nodes --fenced report:try   # a name that the user may lock",
    "\
0  a majority would vote
1 64
69  too few nodes would vote
78",
    "shearline(1), shearline-check(1), shearline-status(1), shearline-reinit(1)",
);

/// The help texts of `check`.
pub(crate) const CHECK_TEXTS: Texts = Texts::new(
    "\
shearline check || logger -t shearline \"locks are in danger: status $?\"
shearline check --json
shearline check --prometheus >new; test -s new && mv new DIR/shearline.prom
shearline check --nagios     # OK, WARNING, CRITICAL, UNKNOWN: 0 to 3",
    "\
0  every node would vote, and nothing is wrong
1  a majority would vote, and something is wrong; or another failure
64
69  too few nodes would vote; that may pass
78  too few nodes would vote until an operator repairs it
0..3  with --nagios: as 0 and 1; 2 if too few would vote; 3 if that is not known",
    "shearline(1), shearline-nodes(1), shearline-status(1)",
);

/// Shows which nodes would vote for a lock, or why not.
///
/// The command connects like a new program, so a node that has been up for less than --max-ttl does not vote yet.
/// Programs that connected earlier may already count the vote of that node. To see this, call `Redlock::nodes` in such
/// a program. With --guard strict, the command also shows the barrier of each node and the longest ttl in its marker.
/// Like any client, the command writes a marker to a node that has no marker.
///
/// The command also takes, extends and releases a lock on each node separately. The output shows what the user of the
/// node may do, how the node releases a lock, and whether the node wakes waiting clients. Permissions depend on the
/// name of a lock, so give a NAME that the user may lock and that no program uses, such as lock:test. The default NAME
/// is lock:try:HOST:PID.
///
/// With --fenced, the command takes a lock with a fencing token. If a node gives no token, the output says that the
/// node would not vote. If a node has lost its counter floor, it also records that it needs repair. With --shared, the
/// lock is a shared lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tests with a lock that has a fencing token.
    ///
    /// A node gives no token if it is new, has restarted or has lost its data.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    fenced: Option<bool>,

    /// Tests with a shared lock.
    ///
    /// A shared lock needs more permissions than an exclusive one. Permits need the same permissions as shared locks.
    #[arg(long)]
    shared: bool,

    /// Shows how many fencing counters each node has.
    ///
    /// Too many counters fill the memory of a node. The command scans all keys of each node, 2,000 at a time and for
    /// ten seconds at most. The user needs the permission +scan.
    #[arg(long, hide_short_help = true)]
    counters: bool,

    #[command(flatten)]
    format: Format,

    /// Name of the lock to take and release on each node.
    name: Option<OsString>,

    #[command(flatten)]
    nodes: Nodes,
}

/// Reports in the exit status whether clients can take locks.
///
/// Like `nodes`, the command takes and releases a lock on each node separately, because a node that answers may still
/// refuse to write. Give a NAME that the user may lock; the default is lock:try:HOST:PID. The command takes at most
/// three seconds, or five with --guard strict.
///
/// A node has a problem if it would not vote, if its memory is 80 % full, if it may evict locks, or if its clock was
/// stepped. Full memory or a lack of replicas may be temporary, so its status is 69. After a node has restarted, the
/// command shows when you may restart the next node.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    format: Format,

    /// Prints metrics for Prometheus.
    ///
    /// The exit status is the same as without --prometheus. In the example, DIR is the folder of node_exporter's
    /// textfile collector.
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,

    /// Prints one line, like a monitoring plugin.
    ///
    /// Nagios, Icinga and compatible systems can read the line. The line starts with OK, WARNING, CRITICAL or UNKNOWN,
    /// then says what is wrong, and ends with the number of votes as performance data. The status is 0, 1, 2 or 3.
    #[arg(long, conflicts_with_all = ["json", "prometheus"])]
    nagios: bool,

    /// Name of the lock to take and release on each node.
    name: Option<OsString>,

    #[command(flatten)]
    nodes: Nodes,
}

/// The memory use, in percent of `maxmemory`, from which a node counts as nearly full.
const NEARLY_FULL: u8 = 80;

/// The results for all nodes.
struct Seen {
    nodes: Vec<Node>,
    verdict: Result<(), OperatorError>,
    /// The lock that the command took on each node.
    lock: Lock,
    /// How long to wait before restarting the next node: as text, and in milliseconds.
    pace: Option<String>,
    next_restart: Option<u64>,
}

/// The results for one node.
struct Node {
    status: NodeStatus,
    trial: Trial,
    /// A lower bound for the number of counters, and why there may be more. `None` if the user did not ask for the
    /// counters.
    counters: Option<(u64, Option<NodeOutcome>)>,
}

/// Prints a line for each node, and then the verdict.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let lock = Lock::of(args.name.as_deref(), args.shared, args.fenced == Some(true));
    let seen = Seen::by(&args.nodes, lock, args.counters)?;
    args.format.say(|| seen.object("nodes"), || seen.lines())?;
    Ok(seen.status())
}

/// Prints the verdict, and a line for each node that has a problem.
pub(crate) fn check(args: &CheckArgs) -> Result<Status, Failure> {
    let lock = Lock::of(args.name.as_deref(), false, false);
    let seen = Seen::by(&args.nodes, lock, false)?;
    let mut status = seen.status();
    if status == Status::Success && seen.nodes.iter().any(Node::is_wrong) {
        status = Status::Failure;
    }
    if args.nagios {
        return plugin::told(&seen, status);
    }
    let lines = || seen.problems().join("\n");
    match args.prometheus {
        true => output::say(metrics::text(&seen))?,
        false => args.format.say(|| seen.object("check"), lines)?,
    }
    Ok(status)
}

impl Seen {
    fn by(nodes: &Nodes, lock: Lock, counts: bool) -> Result<Self, Failure> {
        let redlock = nodes.connect()?;
        let seen = nodes.settled(&redlock);
        let verdict = redlock.check();
        // Asks for the number of counters before the trials, because the counter of a trial exists for another second.
        let counters = counts.then(|| redlock.count_counters());
        let mut counters = counters.into_iter().flatten();
        let trials = trial::each(nodes, &seen, &lock)?;
        let pace = pace::advice(&seen).map(|it| item("restarts", &it));
        let next_restart = pace::next_restart_in(&seen);
        let nodes = seen.into_iter().zip(trials).map(|(status, trial)| Node {
            status,
            trial,
            counters: counters.next(),
        });
        Ok(Self {
            nodes: nodes.collect(),
            verdict,
            lock,
            pace,
            next_restart,
        })
    }

    /// Returns the verdict, the problem of each node, and when the next node may be restarted.
    fn problems(&self) -> Vec<String> {
        let wrong = self.nodes.iter().filter(|node| node.is_wrong());
        let wrong = wrong.map(|node| node.described(&self.lock));
        let begin = [self.summary()].into_iter();
        begin.chain(wrong).chain(self.pace.clone()).collect()
    }

    fn needed(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    fn votes(&self) -> usize {
        self.nodes.iter().filter(|node| node.would_vote()).count()
    }

    fn status(&self) -> Status {
        match &self.verdict {
            Ok(()) if self.needed() <= self.votes() => Status::Success,
            Ok(()) if self.needs_operator() => Status::Configuration,
            Ok(()) => Status::NoQuorum,
            Err(error) => Failure::from(error.clone()).status,
        }
    }

    /// Returns `true` if waiting does not help, because a permission or a counter floor is missing on too many nodes.
    fn needs_operator(&self) -> bool {
        let count = |what: fn(&Trial) -> bool| {
            let such = self.nodes.iter().filter(|node| what(&node.trial));
            such.count()
        };
        // If only a minority of the nodes lacks a counter floor, the other nodes can repair this minority.
        let repaired = Some(count(Trial::lacks_floor)).filter(|number| *number < self.needed());
        let denied = count(Trial::is_denied) - repaired.unwrap_or_default();
        self.nodes.len() - denied < self.needed()
    }

    fn summary(&self) -> String {
        let (votes, needed, nodes) = (self.votes(), self.needed(), self.nodes.len());
        let are = if needed == 1 { "is" } else { "are" };
        let extends = |node: &&Node| node.would_vote() && !node.trial.may_not_extend();
        let extends = self.nodes.iter().filter(extends).count();
        let verdict = match self.status() {
            Status::Success if extends < needed => {
                painted(BAD, "locks can be taken, but not extended")
            }
            Status::Success => painted(GOOD, "locks can be taken"),
            Status::Configuration => painted(BAD, "an operator must repair the nodes"),
            _ => painted(BAD, "no lock can be taken now"),
        };
        format!(
            "{votes} of {} would vote, {needed} {are} needed: {verdict}",
            count(nodes, "node")
        )
    }

    fn lines(&self) -> String {
        let lines = self.nodes.iter().map(|node| node.described(&self.lock));
        let lines = lines.chain(self.pace.clone()).chain([self.summary()]);
        lines.collect::<Vec<_>>().join("\n")
    }

    fn object(&self, command: &str) -> Value {
        let mut nodes = self.nodes.iter();
        let is_up = nodes.all(|node| node.counts_or_waits() && node.trial.why_not().is_none());
        let fields = json!({
            "can_lock": self.status() == Status::Success,
            "votes": self.votes(),
            "needed": self.needed(),
            "next_restart_ms": self.next_restart.filter(|_| is_up),
            "nodes": self.nodes.iter().map(Node::object).collect::<Vec<_>>(),
        });
        let tried = json::named("tried", &self.lock.name);
        json::object(command, [fields, tried])
    }
}

impl Node {
    fn would_vote(&self) -> bool {
        self.status.state == NodeState::Ready && self.trial.why_not().is_none()
    }

    fn is_wrong(&self) -> bool {
        !self.would_vote()
            || self.trial.may_not_extend()
            || self.trial.is_void()
            || self.status.evicts_locks
            || self.status.clock_steps != 0
            || is_nearly_full(&self.status)
    }

    /// Returns `true` if the node votes or is in quarantine.
    fn counts_or_waits(&self) -> bool {
        let state = self.status.state;
        matches!(state, NodeState::Ready | NodeState::Quarantined { .. })
    }

    /// Describes the node and the result of the trial with `lock`.
    fn described(&self, lock: &Lock) -> String {
        let vote = match self.would_vote() {
            true => painted(GOOD, "would vote"),
            false => format!("{}: {}", painted(BAD, "would not vote"), self.why_not()),
        };
        let mut items = vec![vote];
        items.extend(about(&self.status));
        items.extend(self.tried(lock));
        items.extend(self.counted());
        item(&self.status.address, &items.join("; "))
    }

    /// Returns why the node would not vote. If the node is in quarantine and also refused the trial, returns the reason
    /// for the refusal, because a refusal lasts longer than a quarantine.
    fn why_not(&self) -> String {
        let refused = self.trial.why_not().filter(|_| self.counts_or_waits());
        refused.map_or_else(|| reason(&self.status), str::to_owned)
    }

    /// Returns the result of the trial, unless [`why_not`](Self::why_not) already contains it.
    fn tried(&self, lock: &Lock) -> Option<String> {
        if !self.counts_or_waits() || self.trial.why_not().is_some() {
            return None;
        }
        let style = match self.trial.may_not_extend() {
            true => BAD,
            false => Style::new(),
        };
        Some(painted(style, self.trial.text(lock)))
    }

    /// Returns the number of counters, if the node serves clients.
    fn counted(&self) -> Option<String> {
        let (number, why) = self.counters.as_ref().filter(|_| self.counts_or_waits())?;
        let counters = count(usize::try_from(*number).unwrap_or(usize::MAX), "counter");
        Some(match why {
            None => counters,
            Some(why) => format!("at least {counters}: {}", in_words(why)),
        })
    }

    fn object(&self) -> Value {
        let node = &self.status;
        let object = json!({
            "address": &*node.address,
            "votes": self.would_vote(),
            "reason": (!self.would_vote()).then(|| self.why_not()),
            "run_id": node.run_id,
            "product": node.product,
            "uptime_s": node.uptime.map(|uptime| uptime.as_secs()),
            "round_trip_us": node.round_trip.map(|trip| millis(trip.saturating_mul(1_000))),
            "marked_ttl_ms": node.marked_ttl.map(millis),
            "barrier_ms": node.barrier.map(millis),
            "evicts_locks": node.evicts_locks,
            "memory_percent": node.memory_percent,
            "clock_steps": node.clock_steps,
        });
        let counted = self.counters.as_ref().map(|(number, why)| {
            json!({
                "counters": (*number != 0 || why.is_none()).then_some(number),
                "uncounted": why.as_ref().map(in_words),
            })
        });
        joined([object, self.trial.object(), counted.unwrap_or_default()])
    }
}

/// Returns `true` if the memory is so full that the node may soon refuse to write.
fn is_nearly_full(node: &NodeStatus) -> bool {
    node.memory_percent
        .is_some_and(|percent| NEARLY_FULL <= percent)
}

/// Returns facts about a node, such as its product and its round trip.
fn about(node: &NodeStatus) -> impl Iterator<Item = String> {
    let millis = |trip: Duration| format!("round trip {:.2} ms", trip.as_secs_f64() * 1e3);
    let percent = node.memory_percent.unwrap_or_default();
    let has_no_run_id = node.run_id.is_none() && node.state == NodeState::Ready;
    let said = |is: bool, text: &str| is.then(|| text.to_owned());
    let items = [
        node.product.as_ref().map(ToString::to_string),
        node.round_trip.map(millis),
        node.marked_ttl
            .map(|ttl| format!("marker {}", duration::shown(ttl))),
        node.barrier
            .map(|left| format!("barrier {}", duration::shown(left))),
        said(
            node.evicts_locks,
            "may evict locks: set maxmemory-policy noeviction",
        ),
        said(
            is_nearly_full(node),
            &format!("its memory is {percent} % full: raise maxmemory, or remove keys"),
        ),
        said(node.clock_steps != 0, "its clock was stepped"),
        said(
            has_no_run_id,
            "a restart of this node would not be noticed: its user may not run `INFO`",
        ),
    ];
    items.into_iter().flatten()
}
