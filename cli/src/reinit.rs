//! `shearline reinit`: makes the nodes a new cluster, for `--guard strict`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde_json::json;
use shearline::{Config, RestartGuard};

use crate::clock;
use crate::connect::Connect;
use crate::failure::Failure;
use crate::json::object;
use crate::output::{Format, count, unreadable};
use crate::status::Status;

/// Makes the nodes a new cluster, for --guard strict.
///
/// It writes the marker of every node, whatever marker is there: after a change of the number of nodes, or of
/// the name of the cluster. Do it once, when every client of the old nodes has stopped, and before the first
/// client of the new ones takes a lock. Nodes that are left out keep their old marker: stop them.
///
/// No lock is granted before every lock of either cluster must be over; with --trust at once, if you know
/// that no client holds one.
///
/// All nodes have to answer. With status 69 not all did: repeat it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Does not ask.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    pub(crate) format: Format,
}

/// Asks, and writes the markers.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    // Only this guard has markers.
    let builder = args.connect.builder()?.restart_guard(RestartGuard::Strict);
    let config = builder.config()?;
    if !args.yes {
        confirm(&config)?;
    }
    let begun = clock::now();
    let redlock = builder.build()?;
    crate::connect::settled(&redlock);
    redlock.reinit()?;
    // All nodes are there: none comes later.
    let _ = args.connect.trust_if_asked(&redlock, begun);
    let (nodes, cluster) = (config.nodes().len(), config.cluster());
    let object = || object("reinit", json!({ "nodes": nodes, "cluster": cluster }));
    let lines = || format!("the cluster {cluster} now has {}", count(nodes, "node"));
    args.format.say(object, lines)?;
    Ok(Status::Success)
}

/// Asks the person at the terminal.
fn confirm(config: &Config) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "stdin is not a terminal; pass --yes to confirm",
        ));
    }
    let (nodes, cluster) = (count(config.nodes().len(), "node"), config.cluster());
    let mut stderr = io::stderr();
    for node in config.nodes() {
        let _ = writeln!(stderr, "  {}", node.label());
    }
    let _ = write!(
        stderr,
        "Make these {nodes} the cluster {cluster}, whatever they were?\n\
         No client of their old clusters may go on. [y/N] "
    );
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(unreadable)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Status::Failure, "nothing was changed")),
    }
}
