//! `shearline reinit`: turns the nodes into a new group, for `--guard strict`.

use serde_json::json;
use shearline::{Config, Instant, NodeState, NodeStatus, RestartGuard, Unusable};

use crate::connect::Connect;
use crate::duration::shown;
use crate::failure::Failure;
use crate::help::Texts;
use crate::json::{millis, object};
use crate::output::{Format, NOTE, complain, confirm, count};
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline reinit --guard strict
shearline reinit --guard strict --yes --trust    # no client holds a lock",
    "\
0
1  nothing was changed: the answer was no; or another failure
64  the arguments cannot be used, or stdin is not a terminal (give --yes)
69  not all nodes answered; run the command again
78",
    "shearline(1), shearline-nodes(1)",
);

/// Turns the nodes into a new group, for --guard strict.
///
/// `reinit` overwrites the marker of every node. Run `reinit` once after you change the number of nodes or the name of
/// the group. First stop every client of the old nodes. Run the command before a client of the new nodes takes a lock.
/// Stop the nodes that you no longer use, because they keep their old marker.
///
/// No client gets a lock until every lock of the old and the new group has certainly expired. With --trust, clients get
/// locks immediately. Use --trust only if no client holds a lock.
///
/// All nodes must answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Does not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    connect: Connect,
}

/// Asks for confirmation, and writes the markers.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let nodes = &args.connect.nodes;
    nodes.check_markers()?;
    // Selects the strict guard, because only this guard uses markers.
    let builder = nodes.builder()?.restart_guard(RestartGuard::Strict);
    let config = builder.config()?;
    if !args.yes {
        confirm(&question(&config))?;
    }
    let redlock = builder.build()?;
    // Connecting writes a marker to a node that has none, so the command asks for confirmation before it connects.
    nodes
        .settled(&redlock)
        .iter()
        .filter_map(leaving)
        .for_each(|line| complain(NOTE, line));
    redlock.reinit()?;
    args.connect.trust_if_asked(&redlock, Instant::MAX);
    let (nodes, group) = (config.nodes().len(), config.group());
    // No node votes until its barrier ends.
    let barrier = redlock.nodes().iter().filter_map(|node| node.barrier).max();
    let fields = json!({ "nodes": nodes, "group": group, "barrier_ms": barrier.map(millis) });
    let wait = barrier.map(|left| {
        format!(
            "; no client with --guard strict can take a lock for the next {}",
            shown(left)
        )
    });
    let object = || object("reinit", [fields]);
    let lines = || {
        let (nodes, wait) = (count(nodes, "node"), wait.unwrap_or_default());
        format!("the group {group} now has {nodes}{wait}")
    };
    args.format.say(object, lines)?;
    Ok(Status::Success)
}

/// Returns a line that says which group the node leaves. Returns `None` if its group does not change or is unknown.
fn leaving(node: &NodeStatus) -> Option<String> {
    let NodeState::Unusable(Unusable::OtherGroup {
        nodes: all @ 1.., ..
    }) = node.state
    else {
        return None;
    };
    let (all, words) = (count(all.into(), "node"), node.words.as_deref()?);
    Some(format!(
        "{} leaves a group of {all} ({words})",
        node.address
    ))
}

fn question(config: &Config) -> String {
    let nodes = config.nodes().iter();
    let nodes: String = nodes.map(|node| format!("  {}\n", node.label())).collect();
    let (number, group) = (count(config.nodes().len(), "node"), config.group());
    format!(
        "{nodes}Make these {number} the group {group}?\n\
         All clients of their old groups must have stopped."
    )
}
