//! `shearline status`: who holds a lock, for how long, and which nodes disagree.
//!
//! The words of one inspection are here too, for [`watch`](crate::watch).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use shearline::{Found, Holder, InspectError, InspectedNode, Inspection, NodeOutcome, Redlock};

use crate::connect::Nodes;
use crate::duration;
use crate::failure::{Failure, in_words_of_the_command};
use crate::json::Object;
use crate::output::{BAD, DOUBTFUL, Format, GOOD, count, item, painted, printable};
use crate::status::Status;

/// Says who holds a lock, for how long, and which nodes disagree.
///
/// A lock is held while a majority of the nodes has the same token. What else a node may have is a copy: of
/// an attempt under way, or of one that failed; it ends by itself. The answer is already old when it is
/// printed, so it gives no right to do anything.
///
/// The status is 0 if somebody holds the lock, 1 if nobody does, and 69 if too few nodes answered to know.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,

    #[command(flatten)]
    pub(crate) format: Format,
}

/// A lock that is looked at, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The name of the lock.
    name: OsString,

    #[command(flatten)]
    nodes: Nodes,
}

impl Subject {
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Returns a handle that can be asked for the lock.
    pub(crate) fn connect(&self) -> Result<Redlock, Failure> {
        let builder = self.nodes.builder()?;
        builder
            .config()?
            .check_request(self.name(), self.nodes.max_ttl())?;
        Ok(self.nodes.as_marked(builder)?.build()?)
    }
}

/// Inspects the lock and prints what was found.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let told = args.subject.connect()?.inspect(name);
    let told = told.map_err(unanswered)?;
    args.format
        .say(|| object("status", name, &told), || lines(name, &told))?;
    Ok(match told.holder() {
        Some(_) => Status::Success,
        None => Status::Failure,
    })
}

/// It says how to ask nodes that may have forgotten locks: nobody is trusted here.
fn unanswered(error: InspectError) -> Failure {
    let mut failure = Failure::from(error);
    failure.message = failure.message.replace(
        "or by `--trust` if no lock from before can be alive",
        "and `--guard off` asks these nodes all the same",
    );
    failure
}

/// Returns the state in one word, for programs.
fn word(told: &Inspection) -> &'static str {
    let counted = told.nodes().iter().filter(|node| node.counts).count();
    match told.holder() {
        Some(_) => "held",
        None if told.is_free() => "free",
        None if counted <= told.nodes().len() / 2 => "unknown",
        None => "split",
    }
}

/// Returns the state in one line.
pub(crate) fn line(name: &[u8], told: &Inspection) -> String {
    item(&printable(name), &state(told))
}

/// Returns the state in words.
pub(crate) fn state(told: &Inspection) -> String {
    match (told.holder(), word(told)) {
        (Some(holder), _) => format!(
            "{}{}, {}, on {} of {}",
            painted(DOUBTFUL, "held"),
            by(&holder.owner),
            left(holder.valid_for),
            holder.nodes,
            count(told.nodes().len(), "node"),
        ),
        (None, "free") => painted(GOOD, "free"),
        (None, "unknown") => format!(
            "{}: too few nodes answer; `shearline nodes` says why",
            painted(BAD, "not known")
        ),
        (None, _) => "held by nobody: no majority has the same token".to_owned(),
    }
}

/// Returns the state, and a line for each node.
fn lines(name: &[u8], told: &Inspection) -> String {
    let mut lines = line(name, told);
    for node in told.nodes() {
        let found = match &node.found {
            Found::Holder { left: span } => format!("held, {}", left(*span)),
            Found::Copy {
                owner,
                token,
                left: span,
            } => {
                let (by, left) = (by(owner), left(*span));
                format!("another token (no. {token}){by}, {left}: it has no majority")
            }
            Found::Unknown(outcome) => format!("not known: {}", why(outcome)),
            Found::Free | Found::OtherType | _ => node.found.to_string(),
        };
        let counts = match node.counts || matches!(node.found, Found::Unknown(_)) {
            true => "",
            false => "; it does not count, because it may have forgotten locks",
        };
        lines += "\n";
        lines += &item(&format!("  {}", node.address), &format!("{found}{counts}"));
    }
    lines
}

fn why(outcome: &NodeOutcome) -> String {
    in_words_of_the_command(&outcome.to_string())
}

fn by(owner: &[u8]) -> String {
    match owner {
        [] => String::new(),
        label => format!(" by {}", printable(label)),
    }
}

fn left(span: Duration) -> String {
    match span {
        Duration::MAX => "without an expiry".to_owned(),
        span => format!("{} left", duration::shown(span)),
    }
}

/// Returns the inspection for programs.
pub(crate) fn object(command: &str, name: &[u8], told: &Inspection) -> Object {
    let nodes: Vec<Object> = told.nodes().iter().map(node_object).collect();
    Object::of(command)
        .name("resource", name)
        .with("state", word(told))
        .with("holder", told.holder().map(holder_object))
        .with("nodes", nodes)
}

fn holder_object(holder: &Holder) -> Object {
    let object = Object::new().name("owner", &holder.owner);
    with_left(object, holder.valid_for).with("nodes", holder.nodes)
}

fn node_object(node: &InspectedNode) -> Object {
    let object = Object::new()
        .with("address", &*node.address)
        .with("counts", node.counts);
    match &node.found {
        Found::Free => object.with("found", "free"),
        Found::Holder { left } => with_left(object.with("found", "holder"), *left),
        Found::Copy { owner, token, left } => {
            let object = object.with("found", "copy").name("owner", owner);
            with_left(object.with("token", *token), *left)
        }
        Found::OtherType => object.with("found", "other_type"),
        Found::Unknown(outcome) => object.with("found", "unknown").with("reason", why(outcome)),
        _ => object.with("found", "unknown"),
    }
}

/// Adds what is left of a key: `null` if it has no expiry.
fn with_left(object: Object, left: Duration) -> Object {
    object.millis("left", Some(left).filter(|left| *left != Duration::MAX))
}
