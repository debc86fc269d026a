//! `shearline status`: shows who holds a lock, how long the lock is valid, and which nodes disagree.
//!
//! [`watch`](crate::watch) describes an inspection with the functions of this module too.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use shearline::{Found, Holder, HolderKind, InspectedNode, Inspection, Redlock};

use crate::connect::Nodes;
use crate::duration;
use crate::failure::{Failure, in_words};
use crate::help::Texts;
use crate::json::{self, joined, millis, named};
use crate::output::{BAD, DOUBTFUL, Format, GOOD, count, item, painted, printable};
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline status report
shearline status --json report | jq -r .holder.owner",
    "\
0  the lock is held
1  the lock is not held; or another failure, which stderr explains
64
69  too few nodes answered
78",
    "shearline(1), shearline-watch(1), shearline-break(1), shearline-nodes(1)",
);

/// Shows who holds a lock, for how long, and which nodes disagree.
///
/// A lock is held while a majority of the nodes has the same token. The command shows all holders of shared locks and
/// permits. If a node has a different token, the token comes from an attempt that is still running or has failed, and
/// expires by itself. The answer may be out of date when you read it. To decide whether you may work, take the lock
/// instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    subject: Subject,
}

/// The lock to inspect, and its nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// Name of the lock.
    name: OsString,

    #[command(flatten)]
    pub(crate) nodes: Nodes,
}

impl Subject {
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Returns a handle that can inspect the lock.
    pub(crate) fn connect(&self) -> Result<Redlock, Failure> {
        let config = self.nodes.builder()?.config()?;
        config.check_request(self.name(), self.nodes.max_ttl())?;
        self.nodes.connect()
    }
}

/// Inspects the lock and prints the result.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let told = args.subject.connect()?.inspect(name);
    let told = told.map_err(unanswered)?;
    let object = || object("status", name, &told);
    args.format.say(object, || lines(name, &told))?;
    Ok(match told.holders() {
        [] => Status::Failure,
        [..] => Status::Success,
    })
}

/// Converts the error of a command that inspects locks. Such commands have no `--trust`, so the message suggests
/// `--guard off` instead.
pub(crate) fn unanswered(error: impl Into<Failure>) -> Failure {
    let mut failure = error.into();
    failure.message = failure.message.replace(
        "or use `--trust` if no client can still hold an earlier lock",
        "or count these nodes anyway with `--guard off`",
    );
    failure
}

/// Returns the state in one word, for programs.
fn word(told: &Inspection) -> &'static str {
    match told.holders().first().map(|holder| holder.kind) {
        Some(HolderKind::Shared) => "shared",
        Some(HolderKind::Permit { .. }) => "permits",
        Some(_) => "held",
        None if told.is_free() => "free",
        None if is_unknown(told) => "unknown",
        None => "split",
    }
}

/// Returns the state in words, with each holder of a shared lock or a permit.
pub(crate) fn in_full(told: &Inspection) -> String {
    let each = each_of_several(told).map(|(what, held)| format!("; {what} {held}"));
    state(told) + &each.collect::<String>()
}

/// Returns two texts for each holder of a shared lock or a permit. The first text is `reader`, or the slot of a permit.
/// The second text gives the owner, the validity and the nodes.
fn each_of_several(told: &Inspection) -> impl Iterator<Item = (String, String)> {
    told.holders().iter().filter_map(|holder| {
        let what = match holder.kind {
            HolderKind::Shared => "reader".to_owned(),
            HolderKind::Permit { slot, .. } => format!("slot {slot}"),
            _ => return None,
        };
        let held = held(holder, told);
        Some((what, held.trim_start_matches([',', ' ']).to_owned()))
    })
}

/// Returns the owner, the remaining time, and the number of nodes that have the lock. If the keys have no expiry,
/// the text also says why.
fn held(holder: &Holder, told: &Inspection) -> String {
    let (by, left) = (by(&holder.owner), lasts(holder.valid_for));
    let (nodes, all) = (holder.nodes, count(told.nodes().len(), "node"));
    let named = |token| format!(", fencing token {token}");
    let token = holder.fencing_token.map(named).unwrap_or_default();
    // Every lock of the library has an expiry.
    let why = match holder.valid_for {
        Duration::MAX => "; another program wrote the key, or removed its expiry",
        _ => "",
    };
    format!("{by}, {left}, on {nodes} of {all}{token}{why}")
}

/// Returns the state in words.
pub(crate) fn state(told: &Inspection) -> String {
    let holders = told.holders();
    let (held_by, number) = (painted(DOUBTFUL, "held"), holders.len());
    let least = if told.has_more() { "at least " } else { "" };
    match holders.first().map(|first| (first.kind, first)) {
        Some((HolderKind::Shared, _)) => {
            let readers = count(number, "reader");
            format!("{} by {least}{readers}", painted(DOUBTFUL, "shared"))
        }
        Some((HolderKind::Permit { permits, .. }, _)) => {
            format!("{held_by}, {least}{number} of {permits} permits taken")
        }
        Some((_, holder)) => held_by + &held(holder, told),
        None if told.is_free() => painted(GOOD, "free"),
        None if is_unknown(told) => {
            painted(BAD, "not known") + ": too few nodes gave an answer that counts; `shearline nodes` says why"
        }
        None if is_no_lock(told) => {
            "held by something that is not a lock, such as a list or a hash; no client gets the lock before an \
             operator deletes the key on each node (`DEL`)"
                .to_owned()
        }
        None => "no holder: no majority has the same token".to_owned(),
    }
}

/// Returns `true` if too few nodes gave an answer that counts.
fn is_unknown(told: &Inspection) -> bool {
    let counted = told.nodes().iter().filter(|node| node.counts).count();
    counted <= told.nodes().len() / 2
}

/// Returns `true` if a majority of the nodes has a key of another type.
pub(crate) fn is_no_lock(told: &Inspection) -> bool {
    let nodes = told.nodes().iter();
    let others = nodes.filter(|it| matches!(it.found, Found::OtherType));
    told.nodes().len() / 2 < others.count()
}

/// Returns the state, and a line for each node.
pub(crate) fn lines(name: &[u8], told: &Inspection) -> String {
    let several = each_of_several(told).map(|(what, held)| item(&format!("  {what}"), &held));
    let mut lines = vec![item(&printable(name), &state(told))];
    lines.extend(several);
    for node in told.nodes() {
        let found = match &node.found {
            Found::Holder { left } => format!("held, {}", lasts(*left)),
            Found::Copy { owner, token, left } => {
                let (by, left) = (by(owner), lasts(*left));
                format!("another token (no. {token}){by}, {left}: only a minority has it")
            }
            Found::Unknown(outcome) => format!("not known: {}", in_words(outcome)),
            _ => node.found.to_string(),
        };
        let counts = match node.counts || matches!(node.found, Found::Unknown(_)) {
            true => "",
            false => "; this node does not count, because it may have forgotten locks",
        };
        lines.push(item(&format!("  {}", node.address), &(found + counts)));
    }
    lines.join("\n")
}

pub(crate) fn by(owner: &[u8]) -> String {
    match owner {
        [] => String::new(),
        owner => format!(" by {}", printable(owner)),
    }
}

fn lasts(span: Duration) -> String {
    match span {
        Duration::MAX => "without an expiry".to_owned(),
        span => format!("{} left", duration::shown(span)),
    }
}

/// Returns the inspection as JSON.
pub(crate) fn object(command: &str, name: &[u8], told: &Inspection) -> Value {
    let fields = json!({
        "state": word(told),
        "holder": told.holder().map(holder_object),
        "holders": told.holders().iter().map(holder_object).collect::<Vec<_>>(),
        "nodes": told.nodes().iter().map(node_object).collect::<Vec<_>>(),
    });
    json::object(command, [named("resource", name), fields])
}

pub(crate) fn holder_object(holder: &Holder) -> Value {
    let (kind, permit) = match holder.kind {
        HolderKind::Shared => ("shared", None),
        HolderKind::Permit { permits, slot } => ("permit", Some((permits, slot))),
        _ => ("exclusive", None),
    };
    let fields = json!({
        "valid_for_ms": left_ms(holder.valid_for),
        "nodes": holder.nodes,
        "kind": kind,
        "slot": permit.map(|(_, slot)| slot),
        "permits": permit.map(|(permits, _)| permits),
        "fencing_token": holder.fencing_token,
    });
    joined([named("owner", &holder.owner), fields])
}

fn node_object(node: &InspectedNode) -> Value {
    let found = match &node.found {
        Found::Free => json!({ "found": "free" }),
        Found::Holder { left } => json!({ "found": "holder", "left_ms": left_ms(*left) }),
        Found::Copy { owner, token, left } => {
            let more = json!({ "token": token, "left_ms": left_ms(*left) });
            joined([json!({ "found": "copy" }), named("owner", owner), more])
        }
        Found::Several { holders, left } => {
            json!({ "found": "holders", "holders": holders, "left_ms": left_ms(*left) })
        }
        Found::OtherType => json!({ "found": "other_type" }),
        Found::Unknown(outcome) => json!({ "found": "unknown", "reason": in_words(outcome) }),
        _ => json!({ "found": "unknown" }),
    };
    let node = json!({ "address": &*node.address, "counts": node.counts });
    joined([node, found])
}

/// Returns how long a key will live, or `None` if the key does not expire.
fn left_ms(left: Duration) -> Option<u64> {
    (left != Duration::MAX).then(|| millis(left))
}
