//! Finds out which permissions the user has on each node. A trial takes a lock on a single node.
//!
//! Permissions depend on the name of the key, so the operator can give a name. Otherwise the trial makes up a name that
//! no other program uses. Even if the ACL forbids this name, it may permit other names. The lock has a ttl of a few
//! seconds, but the trial extends and releases it immediately.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use shearline::held::Holds;
use shearline::{
    Builder, Guard, LockError, LockOptions, NodeOutcome, NodeState, NodeStatus, Redlock, Report,
    Unusable, Waking,
};

use crate::acquire::host_and;
use crate::connect::Nodes;
use crate::failure::{Failure, in_words};
use crate::output::printable;

/// Returns the ttl of the extended lock. This ttl is long enough even if each answer of the node arrives just before
/// the node timeout.
fn ttl(nodes: &Nodes) -> Duration {
    nodes.max_ttl().min(Duration::from_secs(5))
}

/// The text for a node without a counter floor. The trial asks only this node, so the text does not say if the other
/// nodes can repair it.
const NO_TOKEN: &str = "it gives no fencing tokens, because it is new, has restarted or has lost its data; a program or `run \
    --fenced` that runs for longer than --max-ttl repairs it, if enough other nodes give tokens; if a majority gives \
    none, `run --fenced --trust` sets counter floors";

/// The lock that the trial takes.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) name: Vec<u8>,
    /// Whether the trial made up the name. No other process uses a made-up name.
    is_ours: bool,
    is_shared: bool,
    is_fenced: bool,
}

impl Lock {
    /// Returns a lock of the given name. If no name is given, the name starts with `lock:`, because the ACL in the
    /// manual permits this prefix.
    pub(crate) fn of(given: Option<&OsStr>, is_shared: bool, is_fenced: bool) -> Self {
        let own = || [b"lock:try:", &host_and(std::process::id())[..]].concat();
        Self {
            name: given.map_or_else(own, |name| name.as_bytes().to_vec()),
            is_ours: given.is_none(),
            is_shared,
            is_fenced,
        }
    }
}

/// Whether the user may perform one step of the trial.
#[derive(Clone, Debug)]
enum Verdict {
    Yes,
    /// The text says what an operator must permit or repair.
    No(String),
    /// The node gives no fencing token until it is repaired.
    NoFloor,
    /// The node would refuse this step for every client, for example because its memory is full.
    Refused(String),
    /// The trial was not possible.
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

/// Runs the trial on each of the nodes that answered.
pub(crate) fn each(nodes: &Nodes, seen: &[NodeStatus], lock: &Lock) -> Result<Vec<Trial>, Failure> {
    let builders = nodes.each()?;
    thread::scope(|scope| {
        let of = |builder, node: &NodeStatus| {
            let NodeState::Down(why) = node.state else {
                return Trial::of(builder, nodes, lock);
            };
            // Without this check, the trial would wait for the node once more.
            let why = NodeOutcome::Unreachable(why).to_string();
            Ok(Trial::both(Verdict::Unknown(why)))
        };
        let one = |(builder, node)| scope.spawn(move || of(builder, node));
        let trials: Vec<_> = builders.into_iter().zip(seen).map(one).collect();
        let trials = trials.into_iter().map(|trial| trial.join());
        trials.map(|it| it.expect("no trial panics")).collect()
    })
}

impl Trial {
    fn of(builder: Builder, nodes: &Nodes, lock: &Lock) -> Result<Self, Failure> {
        // No program needs the counter of the trial's name, so the counter gets the shortest possible ttl.
        let redlock = &builder.counter_ttl(Duration::from_secs(1)).build()?;
        // An extension needs a permission only if it changes the expiry. So the trial first takes the lock with half of
        // the ttl.
        let options = LockOptions::new(ttl(nodes) / 2).tries(1);
        let options = match lock.is_fenced {
            true => options.fenced(),
            false => options,
        };
        let (name, how) = (&lock.name, (redlock, nodes, lock));
        match lock.is_shared {
            true => Self::by(how, redlock.lock_shared_with(name, &options)),
            false => Self::by(how, redlock.lock_with(name, &options)),
        }
    }

    /// Extends and releases the lock that was taken on the only node of the handle.
    fn by<W: Holds>(
        (redlock, nodes, lock): (&Redlock, &Nodes, &Lock),
        taken: Result<Guard<W>, LockError>,
    ) -> Result<Self, Failure> {
        let mut guard = match taken {
            Ok(guard) => guard,
            Err(LockError::Held(_)) => {
                let why = "the lock is held; give a name that no program uses";
                return Ok(Self::both(Verdict::Unknown(why.to_owned())));
            }
            Err(LockError::Invalid(why)) => return Err(why.into()),
            Err(error) => return Ok(Self::both(lock.verdict(error.report(), &error))),
        };
        // The watch first reports the current state, and then asks the node to push the next change.
        if let Ok(mut watch) = redlock.watch(guard.resource()) {
            let _ = watch.next(nodes.node_timeout);
        }
        let extended = guard.extend(ttl(nodes));
        let extended = extended.map_err(|error| lock.verdict(error.report(), &error));
        let released = guard.unlock();
        let released = released.map_err(|error| lock.verdict(error.report(), &error));
        let node = &redlock.nodes()[0];
        Ok(Self {
            lock: released.err().unwrap_or(Verdict::Yes),
            extend: extended.err().unwrap_or(Verdict::Yes),
            waking: node.waking,
            releasing: node.releasing,
        })
    }

    /// Returns a trial with `verdict` for both taking and extending a lock, and no other results.
    fn both(verdict: Verdict) -> Self {
        Self {
            lock: verdict.clone(),
            extend: verdict,
            waking: Waking::Unasked,
            releasing: None,
        }
    }

    /// Returns `true` if the user cannot take a lock before an operator acts.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.lock, Verdict::No(_) | Verdict::NoFloor)
    }

    /// Returns `true` if the node must be repaired before it gives fencing tokens. If enough other nodes give tokens,
    /// they may repair the node.
    pub(crate) fn lacks_floor(&self) -> bool {
        matches!(self.lock, Verdict::NoFloor)
    }

    /// Returns why the user cannot take a lock on the node.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.lock.why().filter(|_| !self.is_void())
    }

    /// Returns `true` if the trial has no result.
    pub(crate) fn is_void(&self) -> bool {
        matches!(self.lock, Verdict::Unknown(_))
    }

    /// Returns `true` if the permission to extend a lock is missing.
    pub(crate) fn may_not_extend(&self) -> bool {
        matches!(self.extend, Verdict::No(_))
    }

    /// Returns the trial as JSON for programs.
    pub(crate) fn object(&self) -> Value {
        let permitted = |verdict: &Verdict| match verdict {
            Verdict::Yes => Some(true),
            Verdict::No(_) | Verdict::NoFloor => Some(false),
            Verdict::Refused(_) | Verdict::Unknown(_) => None,
        };
        let word = |way: &str| {
            way.trim_start_matches("a ")
                .to_lowercase()
                .replace(' ', "_")
        };
        json!({
            "may_lock": permitted(&self.lock),
            "may_extend": permitted(&self.extend),
            "missing": self.lock.why().or(self.extend.why()),
            "waking": waking(self.waking),
            "releasing": self.releasing.map(word),
        })
    }

    /// Describes the result of the trial on a node that did not refuse the lock.
    pub(crate) fn text(&self, lock: &Lock) -> String {
        let name = match (lock.is_ours, lock.is_shared) {
            (false, _) => printable(&lock.name),
            (true, true) => "a shared lock".to_owned(),
            (true, false) => "a lock".to_owned(),
        };
        // If the lock had a fencing token, its release does not show how the node releases other locks.
        let by = self.releasing.map(|way| format!(" by {way}"));
        let by = by.unwrap_or_default();
        let permitted = match (&self.lock, self.extend.why()) {
            (Verdict::Unknown(why), _) => format!("{name} was not tried: {why}"),
            (_, None) => format!("its user may take, extend and release {name}{by}"),
            (_, Some(why)) => {
                format!("its user may take {name} and release it{by}, but not extend it: {why}")
            }
        };
        match waking(self.waking) {
            None => permitted,
            Some(_) => format!("{permitted}; it {}", self.waking),
        }
    }
}

/// Returns how the node wakes waiting clients, if the trial has found this out.
fn waking(waking: Waking) -> Option<&'static str> {
    match waking {
        Waking::Push => Some("push"),
        Waking::Resp2 => Some("resp2"),
        Waking::Refused(_) => Some("refused"),
        _ => None,
    }
}

impl Verdict {
    /// Returns what to permit, or why the trial was not possible.
    fn why(&self) -> Option<&str> {
        match self {
            Self::Yes => None,
            Self::NoFloor => Some(NO_TOKEN),
            Self::No(why) | Self::Refused(why) | Self::Unknown(why) => Some(why),
        }
    }
}

impl Lock {
    /// Returns the verdict for the only node of this report. If the report has no node, the verdict is `Unknown` with
    /// the error.
    fn verdict(&self, report: Option<&Report>, error: &dyn fmt::Display) -> Verdict {
        let Some(node) = report.and_then(|report| report.nodes().first()) else {
            return Verdict::Unknown(format!("{error:#}"));
        };
        let missing = match node.outcome {
            NodeOutcome::Unusable(missing) => missing,
            // Without scripts, the error for a missing key permission names no command.
            NodeOutcome::Refused(error) if error.code() == "NOPERM" => Unusable::KeyPermission,
            // The node was connected a moment ago, so if it does not answer now, it probably cannot write.
            NodeOutcome::Refused(_) | NodeOutcome::TimedOut => {
                return Verdict::Refused(in_words(node));
            }
            _ => return Verdict::Unknown(in_words(node)),
        };
        let name = printable(&self.name);
        match missing {
            // The user may have permissions for other names, so the refusal of a made-up name does not prove a fault.
            Unusable::KeyPermission if self.is_ours && self.is_fenced => Verdict::Refused(format!(
                "its user may not use the name {name}, or the keys shearline:* of fencing tokens; give a NAME \
                     that it may use"
            )),
            Unusable::KeyPermission if self.is_ours => Verdict::Unknown(format!(
                "its user may not use the name {name}; give a NAME that it may use"
            )),
            Unusable::NoFloor | Unusable::InRepair => Verdict::NoFloor,
            Unusable::KeyPermission
            | Unusable::Permission { .. }
            | Unusable::NoPermission
            | Unusable::NeedsScripts
            | Unusable::NoRunId
            | Unusable::NoMoreTokens => Verdict::No(in_words(missing)),
            _ => Verdict::Unknown(in_words(node)),
        }
    }
}
