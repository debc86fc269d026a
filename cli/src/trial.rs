//! What the user of each node may do: tried with a lock on that node alone.
//!
//! Servers tell permissions by the name of the key, so the operator gives one. If not, it is one of our own that
//! no other program uses; that a user may not use it says nothing. The lock has no majority of the cluster, lives
//! for seconds, and is extended and released at once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use shearline::held::Holds;
use shearline::{
    Builder, ExtendError, Guard, LockError, LockOptions, NodeOutcome, NodeState, NodeStatus,
    Redlock, Report, ServerError, UnlockError, Unusable, Waking,
};

use crate::acquire::host_and;
use crate::connect::Nodes;
use crate::failure::{Failure, in_words_of_the_command};
use crate::output::printable;
use crate::status::Status;

/// Long enough for a node that answers at the last moment, each time.
const TTL: Duration = Duration::from_secs(5);

/// What is said of a node that has no floor. It was asked alone, so it knows nothing of the others.
const NO_TOKEN: &str = "it gives no fencing tokens, because it is new or has restarted; a program or `run \
    --fenced` that runs for longer than --max-ttl repairs it, if enough other nodes give some; if a majority gives \
    none, `run --fenced --trust` gives counter floors";

/// What is said of a node that refuses the keys of a lock with a fencing token. It does not say which.
const NO_KEYS: &str = "its user may not use a key of this name, or the keys of fencing tokens; permit both \
    (`ACL SETUSER .. ~lock:* ~shearline:*` for names that begin with `lock:`)";

/// The name of the lock that is tried.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) bytes: Vec<u8>,
    is_ours: bool,
    /// The lock is a shared one.
    is_shared: bool,
}

impl Name {
    /// The one that was given. Without one, it begins as the locks of the manual's user do, and is that of
    /// this process alone.
    pub(crate) fn of(given: Option<&OsStr>, is_shared: bool) -> Self {
        let own = || [b"lock:try:", &host_and(std::process::id())[..]].concat();
        Self {
            bytes: given.map_or_else(own, |name| name.as_bytes().to_vec()),
            is_ours: given.is_none(),
            is_shared,
        }
    }
}

/// Whether something is permitted.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Verdict {
    Yes,
    /// An operator has to permit it, or to repair what is named, in words.
    No(Unusable, String),
    /// The node refuses it, as it would refuse any client: its memory is full, for example.
    Refused(String),
    /// It could not be tried.
    Unknown(String),
}

/// What one node permits, and how it does it.
#[derive(Debug)]
pub(crate) struct Trial {
    lock: Verdict,
    extend: Verdict,
    waking: Waking,
    releasing: Option<&'static str>,
}

/// How a lock is tried: taken with these options, extended by `ttl`, and what is pushed is waited for.
struct How {
    options: LockOptions,
    ttl: Duration,
    patience: Duration,
}

/// No node is asked for what needs scripts by a command that may use none.
const NEED_SCRIPTS: &str = "fencing tokens and shared locks need scripts; permit `EVAL` and `EVALSHA` \
    (`ACL SETUSER .. +eval +evalsha`) and leave out `--without-scripts`, or do without them";

/// Tries the lock `name` on each of the nodes that was seen to answer, with a fencing token if that is wanted.
pub(crate) fn each(
    (nodes, seen): (&Nodes, &[NodeStatus]),
    name: &Name,
    is_fenced: bool,
) -> Result<Vec<Trial>, Failure> {
    // No program uses the name, so its counter is not needed: the shortest time that there is.
    let builders = nodes
        .each()?
        .map(|builder| Ok(builder?.counter_ttl(Duration::from_secs(1))));
    let builders: Vec<Builder> = builders.collect::<Result<_, Failure>>()?;
    let ttl = TTL.min(nodes.max_ttl());
    // Shorter than the extension: one that changes nothing needs no permission.
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
        options,
        ttl,
        patience: nodes.node_timeout,
    };
    thread::scope(|scope| {
        let of = |builder, node: &NodeStatus| {
            let NodeState::Down(why) = node.state else {
                return Trial::of(builder, name, how);
            };
            // It would be waited for once more.
            Ok(Trial::failed(NodeOutcome::Unreachable(why).to_string()))
        };
        let one = |(builder, node)| scope.spawn(move || of(builder, node));
        let trials: Vec<_> = builders.iter().zip(seen).map(one).collect();
        let trials = trials.into_iter().map(|trial| trial.join());
        trials
            .map(|trial| trial.unwrap_or_else(|_| Ok(Trial::failed("it panicked".into()))))
            .collect()
    })
}

impl Trial {
    fn of(builder: &Builder, name: &Name, how: &How) -> Result<Self, Failure> {
        let (redlock, bytes) = (&builder.build()?, &name.bytes);
        let trial = match name.is_shared {
            true => Self::by(redlock, redlock.lock_shared_with(bytes, &how.options), how),
            false => Self::by(redlock, redlock.lock_with(bytes, &how.options), how),
        };
        Ok(match name.is_ours {
            true => trial.of_our_name(name, how.options.is_fenced()),
            false => trial,
        })
    }

    /// Extends the lock by the ttl that was taken on the one node of `redlock`.
    fn by<W: Holds>(redlock: &Redlock, lock: Result<Guard<W>, LockError>, how: &How) -> Self {
        let mut guard = match lock {
            Ok(guard) => guard,
            Err(error) => return Self::refused(&error, how.options.is_fenced()),
        };
        // The first change is what is there now: the node is asked to tell of the next one.
        if let Ok(mut watch) = redlock.watch(guard.resource()) {
            let _ = watch.next(how.patience);
        }
        let extend = match guard.extend(how.ttl) {
            Ok(()) => Verdict::Yes,
            Err(ExtendError::Unconfirmed(report)) => Verdict::of(&report, false),
            Err(error) => Verdict::Unknown(format!("{error:#}")),
        };
        let lock = match guard.unlock() {
            Ok(_) => Verdict::Yes,
            Err(UnlockError::Unconfirmed(report)) => Verdict::of(&report, false),
            Err(error) => Verdict::Unknown(format!("{error:#}")),
        };
        let node = &redlock.nodes()[0];
        Self {
            lock,
            extend,
            waking: node.waking,
            releasing: node.releasing,
        }
    }

    /// A user who may not use a name that was made up may use others. If the lock comes with a fencing token, the
    /// reason may also be the keys of the tokens.
    fn of_our_name(mut self, name: &Name, is_fenced: bool) -> Self {
        let name = printable(&name.bytes);
        for verdict in [&mut self.lock, &mut self.extend] {
            if matches!(verdict, Verdict::No(Unusable::KeyPermission, _)) {
                *verdict = match is_fenced {
                    true => Verdict::Refused(format!(
                        "its user may not use the name {name}, or the keys shearline:* of fencing tokens; \
                         give a NAME that it may use"
                    )),
                    false => Verdict::Unknown(format!(
                        "its user may not use the name {name}; give a NAME that it may use"
                    )),
                };
            }
        }
        self
    }

    fn refused(error: &LockError, is_fenced: bool) -> Self {
        let verdict = if let LockError::NoQuorum(report) | LockError::TooSlow(report) = error {
            Verdict::of(report, is_fenced)
        } else if matches!(error, LockError::Held(_)) {
            Verdict::Unknown("it is held; give a name that no program uses".to_owned())
        } else {
            Verdict::Unknown(format!("{error:#}"))
        };
        Self::both(verdict)
    }

    fn failed(why: String) -> Self {
        Self::both(Verdict::Unknown(why))
    }

    /// The same of both, where nothing else was seen.
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

    /// Returns `true` if the node gives no fencing token before it is repaired, which enough others may do.
    pub(crate) fn lacks_floor(&self) -> bool {
        matches!(
            self.lock,
            Verdict::No(Unusable::NoFloor | Unusable::InRepair, _)
        )
    }

    /// Returns why no lock can be taken there.
    pub(crate) fn why_not(&self) -> Option<&str> {
        match &self.lock {
            Verdict::No(_, why) | Verdict::Refused(why) => Some(why),
            Verdict::Yes | Verdict::Unknown(_) => None,
        }
    }

    /// Returns `true` if nothing came of it.
    pub(crate) fn is_void(&self) -> bool {
        matches!(self.lock, Verdict::Unknown(_))
    }

    /// Returns `true` if something is missing.
    pub(crate) fn is_wrong(&self) -> bool {
        self.why_not().is_some() || matches!(self.extend, Verdict::No(..))
    }

    /// Returns it in words, if a lock can be taken there.
    pub(crate) fn text(&self, name: &Name) -> String {
        let name = match name.is_ours {
            true if name.is_shared => "a shared lock".to_owned(),
            true => "a lock".to_owned(),
            false => printable(&name.bytes),
        };
        // A lock with a fencing token does not show how one without is released.
        let by = self.releasing.map(|way| format!(" by {way}"));
        let by = by.unwrap_or_default();
        let permitted = match (&self.lock, &self.extend) {
            (Verdict::Unknown(why), _) => format!("{name} was not tried: {why}"),
            (_, Verdict::Yes) => format!("its user may take, extend and release {name}{by}"),
            (_, extend) => {
                let why = extend.why();
                format!("its user may take and release {name}{by}, but not extend it: {why}")
            }
        };
        match waking(self.waking) {
            None => permitted,
            Some(_) => format!("{permitted}; it {}", self.waking),
        }
    }
}

/// Returns what was tried, or `null` where nothing was.
pub(crate) fn object(trial: Option<&Trial>) -> Value {
    let permitted = |verdict: fn(&Trial) -> &Verdict| match verdict(trial?) {
        Verdict::Yes => Some(true),
        Verdict::No(..) => Some(false),
        Verdict::Refused(_) | Verdict::Unknown(_) => None,
    };
    let missing = trial.and_then(|trial| {
        let mut verdicts = [&trial.lock, &trial.extend].into_iter();
        verdicts.find(|verdict| **verdict != Verdict::Yes)
    });
    json!({
        "may_lock": permitted(|trial| &trial.lock),
        "may_extend": permitted(|trial| &trial.extend),
        "missing": missing.map(Verdict::why),
        "waking": trial.and_then(|trial| waking(trial.waking)),
        "releasing": trial.and_then(|trial| trial.releasing).map(word),
    })
}

/// Returns how a node wakes those who wait for a lock, if that is known.
fn waking(waking: Waking) -> Option<&'static str> {
    match waking {
        Waking::Push => Some("push"),
        Waking::Resp2 => Some("resp2"),
        Waking::Refused(_) => Some("refused"),
        Waking::Unasked | _ => None,
    }
}

/// Returns a way to release locks as the JSON spells it.
fn word(way: &str) -> String {
    way.trim_start_matches("a ")
        .to_lowercase()
        .replace(' ', "_")
}

impl Verdict {
    /// Returns what is to be permitted, or why it could not be tried.
    fn why(&self) -> String {
        match self {
            Self::Yes => String::new(),
            Self::No(_, why) | Self::Refused(why) | Self::Unknown(why) => why.clone(),
        }
    }

    /// What the one node of this report has said, of a lock with a fencing token or of one without.
    fn of(report: &Report, is_fenced: bool) -> Self {
        let Some(node) = report.nodes().first() else {
            return Self::Unknown(report.to_string());
        };
        // Without scripts it names no command where a key is meant.
        let is_key = |error: ServerError| error.code() == "NOPERM";
        let outcome = match matches!(node.outcome, NodeOutcome::Refused(error) if is_key(error)) {
            true => NodeOutcome::Unusable(Unusable::KeyPermission),
            false => node.outcome,
        };
        if let NodeOutcome::Unusable(
            missing @ (Unusable::Permission { .. }
            | Unusable::KeyPermission
            | Unusable::NoPermission
            | Unusable::NeedsScripts
            | Unusable::NoRunId
            | Unusable::NoMoreTokens
            | Unusable::NoFloor
            | Unusable::InRepair),
        ) = outcome
        {
            let why = if matches!(missing, Unusable::NoFloor | Unusable::InRepair) {
                NO_TOKEN.to_owned()
            } else if is_fenced && missing == Unusable::KeyPermission {
                NO_KEYS.to_owned()
            } else {
                in_words_of_the_command(&missing.to_string())
            };
            return Self::No(missing, why);
        }
        let why = in_words_of_the_command(&node.to_string());
        // It was connected a moment ago: one that answers nothing now does not write.
        match matches!(
            node.outcome,
            NodeOutcome::Refused(_) | NodeOutcome::TimedOut
        ) {
            true => Self::Refused(why),
            false => Self::Unknown(why),
        }
    }
}
