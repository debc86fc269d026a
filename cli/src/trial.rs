//! The permissions of the user on each node: a trial takes a lock on that node alone.
//!
//! Permissions depend on the name of the key, so the operator may give one. Otherwise the trial uses a name of its own
//! that no other program uses. If the user may not use this name, that says nothing about other names. The lock has no
//! majority of the nodes, lives for seconds, and is extended and released at once.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use shearline::held::Holds;
use shearline::{
    Builder, Guard, LockError, LockOptions, NodeOutcome, NodeState, NodeStatus, Redlock, Report,
    ServerError, Unusable, Waking,
};

use crate::acquire::host_and;
use crate::connect::Nodes;
use crate::failure::{Failure, in_words};
use crate::output::printable;
use crate::status::Status;

/// The ttl of the trial, which is long enough even if the node gives each of its answers at the last moment.
const TTL: Duration = Duration::from_secs(5);

/// The text for a node without a counter floor. The node was asked alone, so the text cannot mention the other nodes.
const NO_TOKEN: &str = "it gives no fencing tokens, because it is new or has restarted; a program or `run \
    --fenced` that runs for longer than --max-ttl repairs it, if enough other nodes give some; if a majority gives \
    none, `run --fenced --trust` gives counter floors";

/// The text for a node that refuses the keys of a lock with a fencing token. The node does not say which keys.
const NO_KEYS: &str = "its user may not use a key of this name, or the keys of fencing tokens; permit both \
    (`ACL SETUSER .. ~lock:* ~shearline:*` for names that begin with `lock:`)";

/// The name of the lock for the trial.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) bytes: Vec<u8>,
    is_ours: bool,
    /// Whether the lock is a shared lock.
    is_shared: bool,
}

impl Name {
    /// Returns the given name. Without one, returns a name that only this process uses, with the prefix of locks that
    /// the manual's user has.
    pub(crate) fn of(given: Option<&OsStr>, is_shared: bool) -> Self {
        let own = || [b"lock:try:", &host_and(std::process::id())[..]].concat();
        Self {
            bytes: given.map_or_else(own, |name| name.as_bytes().to_vec()),
            is_ours: given.is_none(),
            is_shared,
        }
    }
}

/// Whether the user may do one of the things that the trial tries.
#[derive(Clone, Debug)]
enum Verdict {
    Yes,
    /// An operator has to permit or repair this. The text says what to do.
    No(Unusable, String),
    /// The node refuses this to any client, for example because its memory is full.
    Refused(String),
    /// The trial could not be made.
    Unknown(String),
}

/// The result of the trial on one node.
#[derive(Debug)]
pub(crate) struct Trial {
    lock: Verdict,
    extend: Verdict,
    waking: Waking,
    releasing: Option<&'static str>,
}

/// How to try a lock: take it with these options, extend it by `ttl`, and wait for a push of the node.
struct How<'a> {
    name: &'a Name,
    options: LockOptions,
    ttl: Duration,
    patience: Duration,
}

/// The text for a command that may not use scripts, and does not ask the nodes for anything that needs them.
const NEED_SCRIPTS: &str = "fencing tokens and shared locks need scripts; permit `EVAL` and `EVALSHA` \
    (`ACL SETUSER .. +eval +evalsha`) and leave out `--without-scripts`, or do without them";

/// Tries the lock `name` on each of the nodes that answered, with a fencing token if wanted.
pub(crate) fn each(
    (nodes, seen): (&Nodes, &[NodeStatus]),
    name: &Name,
    is_fenced: bool,
) -> Result<Vec<Trial>, Failure> {
    // No program uses the name, so its counter is not needed. It gets the shortest possible life.
    let builders = nodes
        .each()?
        .map(|builder| Ok(builder?.counter_ttl(Duration::from_secs(1))));
    let builders: Vec<Builder> = builders.collect::<Result<_, Failure>>()?;
    let ttl = TTL.min(nodes.max_ttl());
    // The ttl is shorter than that of the extension, because an extension that changes nothing needs no permission.
    let options = LockOptions::new(ttl / 2).tries(1);
    let options = match is_fenced {
        true => options.fenced(),
        false => options,
    };
    for builder in &builders {
        let config = builder.config()?;
        config.check_request(&name.bytes, ttl / 2)?;
        if (is_fenced || name.is_shared) && config.without_scripts() {
            return Err(Failure::new(Status::Configuration, NEED_SCRIPTS));
        }
    }
    let how = &How {
        name,
        options,
        ttl,
        patience: nodes.node_timeout,
    };
    thread::scope(|scope| {
        let of = |builder, node: &NodeStatus| {
            let NodeState::Down(why) = node.state else {
                return Trial::of(builder, how);
            };
            // Without this the trial would wait for the node once more.
            let why = NodeOutcome::Unreachable(why).to_string();
            Ok(Trial::both(Verdict::Unknown(why)))
        };
        let one = |(builder, node)| scope.spawn(move || of(builder, node));
        let trials: Vec<_> = builders.iter().zip(seen).map(one).collect();
        let trials = trials.into_iter().map(|trial| trial.join());
        trials
            .map(|trial| trial.expect("no trial panics"))
            .collect()
    })
}

impl Trial {
    fn of(builder: &Builder, how: &How<'_>) -> Result<Self, Failure> {
        let (redlock, name) = (&builder.build()?, &how.name.bytes);
        Ok(match how.name.is_shared {
            true => Self::by(redlock, redlock.lock_shared_with(name, &how.options), how),
            false => Self::by(redlock, redlock.lock_with(name, &how.options), how),
        })
    }

    /// Extends and releases the lock that was taken on the one node of `redlock`.
    fn by<W: Holds>(redlock: &Redlock, lock: Result<Guard<W>, LockError>, how: &How<'_>) -> Self {
        let mut guard = match lock {
            Ok(guard) => guard,
            Err(LockError::Held(_)) => {
                let why = "it is held; give a name that no program uses";
                return Self::both(Verdict::Unknown(why.to_owned()));
            }
            Err(error) => return Self::both(how.verdict(error.report(), &error)),
        };
        // The first change is the present state. Then the node is asked to push the next one.
        if let Ok(mut watch) = redlock.watch(guard.resource()) {
            let _ = watch.next(how.patience);
        }
        let extend = match guard.extend(how.ttl) {
            Ok(()) => Verdict::Yes,
            Err(error) => how.verdict(error.report(), &error),
        };
        let lock = match guard.unlock() {
            Ok(_) => Verdict::Yes,
            Err(error) => how.verdict(error.report(), &error),
        };
        let node = &redlock.nodes()[0];
        Self {
            lock,
            extend,
            waking: node.waking,
            releasing: node.releasing,
        }
    }

    /// Returns a trial with the same verdict for taking and extending, and no other facts.
    fn both(verdict: Verdict) -> Self {
        Self {
            lock: verdict.clone(),
            extend: verdict,
            waking: Waking::Unasked,
            releasing: None,
        }
    }

    /// Returns `true` if no lock can be taken before an operator permits it.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.lock, Verdict::No(..))
    }

    /// Returns `true` if the node gives no fencing token before it is repaired. If enough other nodes give tokens, they
    /// may repair it.
    pub(crate) fn lacks_floor(&self) -> bool {
        matches!(
            self.lock,
            Verdict::No(Unusable::NoFloor | Unusable::InRepair, _)
        )
    }

    /// Returns why no lock can be taken on the node.
    pub(crate) fn why_not(&self) -> Option<&str> {
        match &self.lock {
            Verdict::No(_, why) | Verdict::Refused(why) => Some(why),
            Verdict::Yes | Verdict::Unknown(_) => None,
        }
    }

    /// Returns `true` if the trial has no result.
    pub(crate) fn is_void(&self) -> bool {
        matches!(self.lock, Verdict::Unknown(_))
    }

    /// Returns `true` if a permission is missing.
    pub(crate) fn is_wrong(&self) -> bool {
        self.why_not().is_some() || matches!(self.extend, Verdict::No(..))
    }

    /// Returns the trial for programs.
    pub(crate) fn object(&self) -> Value {
        let permitted = |verdict: &Verdict| match verdict {
            Verdict::Yes => Some(true),
            Verdict::No(..) => Some(false),
            Verdict::Refused(_) | Verdict::Unknown(_) => None,
        };
        json!({
            "may_lock": permitted(&self.lock),
            "may_extend": permitted(&self.extend),
            "missing": self.lock.why().or(self.extend.why()),
            "waking": waking(self.waking),
            "releasing": self.releasing.map(word),
        })
    }

    /// Returns the trial in words, if a lock can be taken on the node.
    pub(crate) fn text(&self, name: &Name) -> String {
        let name = match name.is_ours {
            true if name.is_shared => "a shared lock".to_owned(),
            true => "a lock".to_owned(),
            false => printable(&name.bytes),
        };
        // The release of a lock with a fencing token does not show how other locks are released.
        let by = self.releasing.map(|way| format!(" by {way}"));
        let by = by.unwrap_or_default();
        let permitted = match (&self.lock, self.extend.why()) {
            (Verdict::Unknown(why), _) => format!("{name} was not tried: {why}"),
            (_, None) => format!("its user may take, extend and release {name}{by}"),
            (_, Some(why)) => {
                format!("its user may take and release {name}{by}, but not extend it: {why}")
            }
        };
        match waking(self.waking) {
            None => permitted,
            Some(_) => format!("{permitted}; it {}", self.waking),
        }
    }
}

/// Returns how a node wakes waiting clients, if this is known.
fn waking(waking: Waking) -> Option<&'static str> {
    match waking {
        Waking::Push => Some("push"),
        Waking::Resp2 => Some("resp2"),
        Waking::Refused(_) => Some("refused"),
        Waking::Unasked | _ => None,
    }
}

/// Returns a way of releasing locks, in the spelling of the JSON output.
fn word(way: &str) -> String {
    way.trim_start_matches("a ")
        .to_lowercase()
        .replace(' ', "_")
}

impl Verdict {
    /// Returns what to permit, or why the trial could not be made.
    fn why(&self) -> Option<&str> {
        match self {
            Self::Yes => None,
            Self::No(_, why) | Self::Refused(why) | Self::Unknown(why) => Some(why),
        }
    }
}

impl How<'_> {
    /// Returns the verdict from the answer of the only node in this report, or from the error if there is no report.
    fn verdict(&self, report: Option<&Report>, error: &dyn fmt::Display) -> Verdict {
        let Some(node) = report.and_then(|report| report.nodes().first()) else {
            return Verdict::Unknown(format!("{error:#}"));
        };
        // Without scripts, the error of a missing permission for a key names no command.
        let is_key = |error: ServerError| error.code() == "NOPERM";
        let missing = if matches!(node.outcome, NodeOutcome::Refused(error) if is_key(error)) {
            Unusable::KeyPermission
        } else if let NodeOutcome::Unusable(missing) = node.outcome {
            missing
        } else if matches!(
            node.outcome,
            NodeOutcome::Refused(_) | NodeOutcome::TimedOut
        ) {
            // The node was connected a moment ago. If it does not answer now, it is not able to write.
            return Verdict::Refused(in_words(node));
        } else {
            return Verdict::Unknown(in_words(node));
        };
        let is_fenced = self.options.is_fenced();
        let is_of_key = missing == Unusable::KeyPermission;
        if is_of_key && self.name.is_ours {
            // The user may have permissions for other names than this one, which is made up.
            let name = printable(&self.name.bytes);
            let advice = "give a NAME that it may use";
            return match is_fenced {
                true => Verdict::Refused(format!(
                    "its user may not use the name {name}, or the keys shearline:* of fencing tokens; {advice}"
                )),
                false => {
                    Verdict::Unknown(format!("its user may not use the name {name}; {advice}"))
                }
            };
        }
        if matches!(missing, Unusable::NoFloor | Unusable::InRepair) {
            Verdict::No(missing, NO_TOKEN.to_owned())
        } else if is_of_key && is_fenced {
            Verdict::No(missing, NO_KEYS.to_owned())
        } else if is_of_key
            || matches!(
                missing,
                Unusable::Permission { .. }
                    | Unusable::NoPermission
                    | Unusable::NeedsScripts
                    | Unusable::NoRunId
                    | Unusable::NoMoreTokens
            )
        {
            Verdict::No(missing, in_words(missing))
        } else {
            Verdict::Unknown(in_words(node))
        }
    }
}
