//! The report of each node's answer, which most errors contain.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::span::Span;
use super::told::Told;
use super::{LinkError, LinkFault, ServerError, Shown, Unusable};
use crate::time::Instant;

/// The answer of each node in the last attempt, which decided the operation.
///
/// A report is one pointer wide, and is created only if an operation fails.
#[derive(Clone)]
pub struct Report(Box<ReportParts>);

#[derive(Clone)]
struct ReportParts {
    nodes: Box<[NodeReport]>,
    quorum: u8,
    tries: u32,
    elapsed: Duration,
    /// The time at which the report was created.
    now: Instant,
    /// The label of the holder, if it is known.
    holder: Option<Box<[u8]>>,
    is_held_here: bool,
    /// How much longer the lock is held, if that is known. [`Duration::MAX`] means a lock without an expiry.
    left: Option<Duration>,
    /// The resource that another client holds, if several resources were requested.
    held: Option<Box<[u8]>>,
    /// The number of permits, if all are taken.
    all_taken: Option<u16>,
    /// The first resource of the request, and the number of its other resources.
    resource: Option<(Box<[u8]>, usize)>,
    asked: Asked,
    /// Whether the lock was valid when its release was requested.
    was_valid: bool,
}

/// The kind of request to the nodes.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Asked {
    Vote,
    /// The request named a token. If the outcome of a node is [`NodeOutcome::Held`], the node has another token.
    Token,
    Answer,
    /// The handle sent no request. A node that is ready to vote counts as a yes.
    Nothing,
    /// The request needed an answer from every node.
    All,
}

impl Report {
    pub(crate) fn new(
        now: Instant,
        nodes: Box<[NodeReport]>,
        quorum: u8,
        tries: u32,
        elapsed: Duration,
    ) -> Self {
        Self(Box::new(ReportParts {
            nodes,
            quorum,
            tries,
            elapsed,
            now,
            holder: None,
            is_held_here: false,
            left: None,
            held: None,
            all_taken: None,
            resource: None,
            asked: Asked::Vote,
            was_valid: false,
        }))
    }

    /// Records the resources that the nodes were asked about.
    #[must_use]
    pub(crate) fn about<'a>(mut self, mut names: impl Iterator<Item = &'a [u8]>) -> Self {
        self.0.resource = names.next().map(|first| (first.into(), names.count()));
        self
    }

    /// Records the kind of request, if it was not for a vote.
    #[must_use]
    pub(crate) fn of(mut self, asked: Asked) -> Self {
        self.0.asked = asked;
        self
    }

    /// Returns the kind of request to the nodes.
    pub(crate) fn asked(&self) -> Asked {
        self.0.asked
    }

    /// Records whether the lock was valid when its release was requested.
    #[must_use]
    pub(crate) fn of_release(mut self, was_valid: bool) -> Self {
        self.0.was_valid = was_valid;
        self
    }

    /// Returns `true` if the report is about the release of a lock that was valid when the release was requested.
    pub(super) fn was_valid(&self) -> bool {
        self.0.was_valid
    }

    /// Returns the resource that the nodes were asked about, or the first of several resources. Returns `None` if the
    /// nodes were not asked about a resource.
    #[must_use]
    pub fn resource(&self) -> Option<&[u8]> {
        Some(&self.0.resource.as_ref()?.0)
    }

    /// Returns the text of an error: the name of the lock followed by `clause`. The long form adds `link`, the answers
    /// of the nodes, and `rest`.
    pub(crate) fn told(&self, clause: &str, link: &str, rest: impl fmt::Display) -> Told {
        let lock = match &self.0.resource {
            None => "the lock".into(),
            Some((name, 0)) => format!("lock `{}`", Shown(name)),
            Some((name, 1)) => format!("lock `{}` and another", Shown(name)),
            Some((name, more)) => format!("lock `{}` and {more} others", Shown(name)),
        };
        let (clause, said) = match self.0.asked {
            Asked::Nothing => (clause.into(), self.votes()),
            Asked::All => (clause.into(), self.of_all("answered")),
            Asked::Vote | Asked::Token | Asked::Answer => (lock + clause, self.votes()),
        };
        Told {
            clause,
            rest: format!("{link}: {said}{rest}"),
        }
    }

    /// Records that several resources were requested. `of_nodes` holds the resource that each node names as held by
    /// another client. `most` is the resource that most nodes name.
    #[must_use]
    pub(crate) fn of_several<'a>(
        mut self,
        of_nodes: impl Iterator<Item = Option<&'a [u8]>>,
        most: Option<&[u8]>,
    ) -> Self {
        for (node, resource) in self.0.nodes.iter_mut().zip(of_nodes) {
            node.resource = resource.map(Box::from);
        }
        self.0.held = most.map(Box::from);
        self
    }

    /// Records that all permits are taken. `permits` is their number.
    #[must_use]
    pub(crate) fn all_taken(mut self, permits: u16) -> Self {
        self.0.all_taken = Some(permits);
        self
    }

    /// Returns the number of permits, if all are taken.
    pub(crate) fn permits_taken(&self) -> Option<u16> {
        self.0.all_taken
    }

    /// Records that this handle itself holds the lock until `until`, with the label `owner`.
    #[must_use]
    pub(crate) fn held_here(mut self, owner: &[u8], until: Instant) -> Self {
        self = self.held_until(Some(owner), until);
        self.0.is_held_here = true;
        self
    }

    /// Records that another client holds the lock until `until`, with the label `owner` if it is known.
    #[must_use]
    pub(crate) fn held_until(mut self, owner: Option<&[u8]>, until: Instant) -> Self {
        let left = until.saturating_since(self.0.now);
        let known = until != Instant::MAX && !left.is_zero();
        self.0.holder = owner.map(Box::from);
        self.0.left = known.then_some(left);
        self
    }

    /// Records that another client holds the lock without an expiry, with the label `owner`, if that is known.
    #[must_use]
    pub(crate) fn held_for_ever(mut self, owner: Option<&[u8]>) -> Self {
        self.0.holder = owner.map(Box::from);
        self.0.left = Some(Duration::MAX);
        self
    }

    /// Returns the label of the holder ([`Builder::owner`](crate::Builder::owner)), which is empty if the holder has no
    /// label. Only [`LockError::Held`](crate::LockError::Held) has a holder.
    ///
    /// | the holder | its label is there |
    /// | --- | --- |
    /// | this handle itself ([`is_held_here`](Self::is_held_here)) | always |
    /// | another client | if a caller of this handle has waited for about 0.4 s |
    ///
    /// If the lock is a shared lock or a permit, the label is known only if there is one holder.
    ///
    /// After 0.4 s, a waiting caller that checks whether the lock is free also asks the nodes who holds the lock. The
    /// caller asks at most ten times a second, even if the lock is extended or changes hands more often. So shorter
    /// waits have no additional cost. The label is known only if a majority has the same token and the user may run
    /// scripts. In all other cases, the label is `None`. `inspect` asks for the holder immediately.
    ///
    /// Any client can write any label, so a label is only for people and logs.
    ///
    /// ```
    /// use shearline::{LockError, Redlock};
    ///
    /// # fn example(redlock: &Redlock) -> Result<(), LockError> {
    /// use std::time::Duration;
    ///
    /// match redlock.lock("invoices", Duration::from_secs(10)) {
    ///     Ok(lock) => drop(lock),
    ///     Err(LockError::Held(report)) if report.is_held_here() => println!("already at work"),
    ///     Err(LockError::Held(report)) => match report.holder() {
    ///         Some(label) => println!("{} is at work", label.escape_ascii()),
    ///         None => println!("another client is at work"),
    ///     },
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holder(&self) -> Option<&[u8]> {
        self.0.holder.as_deref()
    }

    /// Returns the resource that prevented a lock on several resources (`lock_all`): most nodes name it as held by
    /// another client. [`holder`](Self::holder), [`held_for`](Self::held_for)
    /// and [`never_expires`](Self::never_expires) are about this resource; other resources may be held too.
    ///
    /// Returns `None` if one resource was requested, or if no node named a resource. [`NodeReport::resource`] contains
    /// the resource that each node names, which is the first held resource that the node found.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LockError, Redlock};
    /// # let redlock = Redlock::connect(["redis://10.0.0.1"])?;
    /// match redlock.lock_all(["account:1", "account:2"], Duration::from_secs(10)) {
    ///     Ok(both) => drop(both),
    ///     Err(LockError::Held(report)) => {
    ///         let which = report.held_resource().unwrap_or_default();
    ///         println!("{} is held", which.escape_ascii());
    ///     }
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn held_resource(&self) -> Option<&[u8]> {
        self.0.held.as_deref()
    }

    /// Returns `true` if this handle itself holds the lock. For errors other
    /// than [`LockError::Held`](crate::LockError::Held), the result is `false`.
    #[must_use]
    pub fn is_held_here(&self) -> bool {
        self.0.is_held_here
    }

    /// Returns how much longer the lock is held, counted from the time when the call gave up. The holder may release or
    /// extend the lock earlier. Only [`LockError::Held`](crate::LockError::Held) contains this time.
    ///
    /// The time comes from a majority of the nodes, or from the validity of a lock that this handle itself holds.
    /// Returns `None` if the time is not known, or if the lock [never expires](Self::never_expires).
    ///
    /// A call that makes one attempt (`try_lock`) does not ask the nodes for this time, and knows it only from other
    /// callers of this handle that hold the lock or wait for it.
    #[must_use]
    pub fn held_for(&self) -> Option<Duration> {
        self.0.left.filter(|left| *left != Duration::MAX)
    }

    /// Describes what has happened to the key of a lost lock: the key is gone, or has another token. Returns `None` if
    /// the state of the keys does not fully explain the loss.
    #[must_use]
    pub fn loss(&self) -> Option<&'static str> {
        let enough = self.nodes().len().saturating_sub(self.quorum()) + 1;
        if enough <= self.count(|said| *said == NodeOutcome::Missing) {
            return Some(
                "its key is gone: it was deleted (`DEL`, `FLUSHALL`, `RENAME`, `shearline break --now`) or evicted, or \
                 has expired",
            );
        }
        (enough <= self.count(|said| *said == NodeOutcome::Held)).then_some(
            "its key has another token: an operator has broken the lock, or another client has taken it",
        )
    }

    /// Returns the number of permits that other clients use for the resource, if the request failed because it named
    /// another number. For errors other than [`LockError::Held`](crate::LockError::Held), the result is `None`.
    ///
    /// All clients must use the same number for one resource. A call with another number of permits fails immediately.
    /// The other clients' number applies until all their permits are released or have expired.
    #[must_use]
    pub fn other_permits(&self) -> Option<u16> {
        let mut others = self.nodes().iter().filter_map(|node| {
            if let NodeOutcome::OtherPermits(permits) = node.outcome {
                return Some(permits);
            }
            None
        });
        let enough = self.nodes().len().saturating_sub(self.quorum());
        others.clone().nth(enough).and_then(|_| others.next())
    }

    /// Returns `true` if the key has no expiry on so many nodes that the lock never expires. For errors other
    /// than [`LockError::Held`](crate::LockError::Held), the result is `false`.
    ///
    /// Every lock of this library has an expiry, so another program has written the key or removed its expiry. Waiting
    /// helps only if that program deletes the key. Otherwise, an operator must delete the key, after making sure that
    /// no program relies on it.
    ///
    /// Like [`held_for`](Self::held_for), this result is known only if a caller has waited.
    #[must_use]
    pub fn never_expires(&self) -> bool {
        self.0.left == Some(Duration::MAX)
    }

    /// Returns the answer of each configured node, in the order of the configuration.
    #[must_use]
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// Returns how many nodes must agree: `N / 2 + 1` of the N configured nodes.
    #[must_use]
    pub fn quorum(&self) -> usize {
        usize::from(self.0.quorum)
    }

    /// Returns how many attempts were made, including this one.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.0.tries
    }

    /// Returns how long the operation took, counted from its first attempt.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// Returns `true` if only an operator can repair the fault: a node belongs to another group, or too many nodes
    /// for a majority are [unusable](Unusable) for lasting reasons. Before the repair, trying again does not help. If
    /// this method returns `false`, trying again may help.
    ///
    /// ```
    /// # fn example(error: shearline::LockError) {
    /// if let shearline::LockError::NoQuorum(report) = &error
    ///     && report.needs_operator()
    /// {
    ///     eprintln!("no client gets a lock until this is repaired: {error:#}");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn needs_operator(&self) -> bool {
        let unusable = |is: fn(Unusable) -> bool| {
            self.count(|said| matches!(said, NodeOutcome::Unusable(why) if is(*why)))
        };
        let elsewhere = unusable(|why| matches!(why, Unusable::OtherGroup { .. }));
        elsewhere != 0 || self.nodes().len() - unusable(Unusable::is_lasting) < self.quorum()
    }

    /// Returns the page of the manual that helps with the answers of the nodes.
    pub(crate) fn page(&self) -> &'static str {
        let has = |is: fn(Unusable) -> bool| {
            self.count(|said| matches!(said, NodeOutcome::Unusable(why) if is(*why))) != 0
        };
        if has(|why| matches!(why, Unusable::Tls(_))) {
            return "`shearline::manual::tls`";
        }
        if has(Unusable::is_of_user) {
            return "`shearline::manual::permissions`";
        }
        match has(Unusable::is_of_tokens) {
            true => "`shearline::manual::operating`",
            false => "`shearline::manual::troubles`",
        }
    }

    /// Returns how many nodes said yes.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.count(|outcome| matches!(outcome, NodeOutcome::Granted))
    }

    /// Returns `true` if a node is in quarantine.
    pub(super) fn has_quarantine(&self) -> bool {
        self.count(|outcome| matches!(outcome, NodeOutcome::Quarantined { .. })) != 0
    }

    fn count(&self, predicate: impl Fn(&NodeOutcome) -> bool) -> usize {
        let nodes = self.nodes().iter();
        nodes.filter(|node| predicate(&node.outcome)).count()
    }

    /// Lists the answers. Nodes with the same answer are listed together: `a:1 and c:3 each timed out; b:2 held`.
    /// `granted` is the word for a node that said yes.
    pub(super) fn of_all(&self, granted: &str) -> String {
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for node in self.nodes() {
            let text = node.text(self.0.now);
            let words = match (node.outcome, self.0.asked) {
                (NodeOutcome::Granted, _) => granted.into(),
                (NodeOutcome::Held, Asked::Token) => text.replacen("held", "with another token", 1),
                _ => text,
            };
            match said.iter_mut().find(|(others, _)| *others == words) {
                Some((_, addresses)) => addresses.push(&node.address),
                None => said.push((words, vec![&node.address])),
            }
        }
        let said = said.iter().map(|(words, addresses)| match &addresses[..] {
            [rest @ .., last] if !rest.is_empty() => {
                format!("{} and {last} each {words}", rest.join(", "))
            }
            one => format!("{} {words}", one.concat()),
        });
        said.collect::<Vec<_>>().join("; ")
    }

    /// Returns how many of the needed nodes said yes, and the answer of each node.
    fn votes(&self) -> String {
        let (yes, quorum) = (self.granted(), self.quorum());
        if self.tries() == 0
            && self.count(|said| *said == NodeOutcome::Pending) == self.nodes().len()
        {
            return "no node was asked, because other callers of this handle come first".into();
        }
        let (vote, granted) = match self.0.asked {
            Asked::Vote | Asked::Token => ("vote", "granted"),
            Asked::Answer | Asked::All => ("answer", "answered"),
            Asked::Nothing => ("vote", "ready"),
        };
        let nodes = self.of_all(granted);
        let plural = if quorum == 1 { "" } else { "s" };
        let mut text = format!("{yes} of the {quorum} {vote}{plural} needed ({nodes})");
        if 1 < self.tries() {
            let elapsed = Span(self.elapsed()).rounded_to_millis();
            text += &format!(" after {} tries in {elapsed}", self.tries());
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.votes())?;
        if let Some(left) = self.held_for() {
            write!(f, ", held for another {}", Span(left).rounded_up())?;
        }
        match self.never_expires() {
            true => f.write_str(", held without an expiry"),
            false => Ok(()),
        }
    }
}

/// Returns advice about nodes in quarantine, as the end of a sentence.
pub(crate) fn ends_by(report: &Report) -> &'static str {
    match report.has_quarantine() {
        true => {
            "; wait until the quarantine ends, or use `trust_nodes` if no client can still hold an earlier lock"
        }
        false => "",
    }
}

/// Returns what has happened to the keys of a lost lock, as the end of a sentence.
pub(super) fn gone(report: &Report) -> String {
    let loss = report.loss().map(|loss| format!("; {loss}"));
    loss.unwrap_or_default()
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // If `main` returns an error, Rust prints its `Debug` form. So this form is the same as the `Display` form.
        write!(f, "{self}")
    }
}

/// The answer of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// The outcome at this node.
    pub outcome: NodeOutcome,
    /// The time from the start of the attempt until the answer; `None` if the node did not answer.
    pub latency: Option<Duration>,
    /// The resource that the node names as held by another client, if a lock on several resources was not taken.
    pub resource: Option<Box<[u8]>>,
    /// The reason as text. The text comes from the server if the server refuses with an unknown error, or from
    /// `Builder::credentials` if the provider has failed. If the marker of the node explains the outcome, this handle
    /// has written the text. The text is printable, has at most 240 characters, and never quotes the answer to a login.
    pub words: Option<Arc<str>>,
    /// How long the server had been up when this handle first connected, if it was less than a minute. `None` if you
    /// set [`Builder::max_ttl`](crate::Builder::max_ttl). The votes of the node counted immediately, although the node
    /// may have forgotten locks in a restart.
    pub met_young: Option<Duration>,
}

impl NodeReport {
    pub(crate) fn new(address: Arc<str>, outcome: NodeOutcome, latency: Option<Duration>) -> Self {
        Self {
            address,
            outcome,
            latency,
            resource: None,
            words: None,
            met_young: None,
        }
    }

    /// Adds how long the server had been up when this handle first connected, if that time was too short.
    #[must_use]
    pub(crate) fn met(self, met_young: Option<Duration>) -> Self {
        Self { met_young, ..self }
    }

    /// Adds the text about the outcome, from the node or from the provider of its credentials.
    #[must_use]
    pub(crate) fn in_words(self, words: Option<&Arc<str>>) -> Self {
        let words = words.cloned();
        Self { words, ..self }
    }

    /// Returns the outcome as text, with the resource or the words of the server. For a quarantine, the text says how
    /// long it lasts after `now`, and why.
    fn text(&self, now: Instant) -> String {
        let NodeOutcome::Quarantined { until } = self.outcome else {
            return format!("{}{}", self.outcome, self.addition());
        };
        let left = until.saturating_since(now);
        let left = (!left.is_zero()).then(|| format!(" for another {}", Span(left).rounded_up()));
        let left = left.unwrap_or_default();
        let why = self.words.as_deref().unwrap_or(MAY_HAVE_FORGOTTEN);
        format!("in quarantine{left}, because {why}")
    }

    /// Returns the text that follows the outcome: the resource, or the words of the server. If the key is missing or
    /// has another token, the text may add that the server might have forgotten a lock before this handle first
    /// connected.
    fn addition(&self) -> String {
        match (&self.resource, &self.words, self.met_young) {
            (Some(resource), ..) => format!(" ({})", Shown(resource)),
            (None, Some(words), _) => {
                format!(" ({words}){}", instead_of_scripts(self.outcome, words))
            }
            (None, None, Some(uptime))
                if matches!(self.outcome, NodeOutcome::Held | NodeOutcome::Missing) =>
            {
                let uptime = Span(uptime);
                format!(
                    " (up for {uptime} at the first connection, so it may have forgotten earlier locks)"
                )
            }
            (None, None, _) => String::new(),
        }
    }
}

/// The usual reason for a quarantine, unless [`NodeReport::words`] contains another reason.
const MAY_HAVE_FORGOTTEN: &str = "it may have forgotten locks";

/// The answer of one node, or why there is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// The node said yes: it has locked, extended or deleted the key.
    Granted,
    /// The key holds the token of another client. If a permit was requested, all permits are taken.
    Held,
    /// The resource has this number of permits, and the request named another number.
    OtherPermits(u16),
    /// The key is missing. Only extensions and releases have this outcome.
    Missing,
    /// The node answered with an error.
    Refused(ServerError),
    /// The node did not answer within its node timeout, or was skipped because it has been silent.
    TimedOut,
    /// The handle had no connection to the node, or lost the connection before the answer.
    Unreachable(LinkError),
    /// The node's answer does not count until `until`, by the clock of the handle. The node restarted and may
    /// have forgotten locks, or its clock was stepped and locks may have expired early, or it has a barrier. With
    /// [`RestartGuard::Strict`](crate::RestartGuard), `until` is the current time while the handle reads the marker of
    /// the node: the node may be ready a round trip later. See [`RestartGuard`](crate::RestartGuard) and
    /// [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    Quarantined {
        /// The time when the node votes again.
        until: Instant,
    },
    /// The server cannot serve as a node, for a reason that an operator must repair.
    Unusable(Unusable),
    /// The other nodes decided before this node had answered, or before the handle asked this node. This outcome is not
    /// a fault of the node.
    Pending,
}

impl NodeOutcome {
    /// Returns `true` if the text that came with `error` explains this outcome. If `error` is `None`, the text came
    /// from the provider of credentials.
    pub(crate) fn is_due_to(self, error: Option<ServerError>) -> bool {
        if let Self::Refused(refusal) | Self::Unusable(Unusable::Refused(refusal)) = self {
            return error == Some(refusal) && refusal.advice().is_none();
        }
        error.is_none() && self == Self::Unreachable(LinkFault::Credentials.into())
    }
}

/// Writes the outcome and the words of the server, without the address.
impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Instant::MAX))
    }
}

/// Returns advice if `words` may come from a server that refuses scripts.
fn instead_of_scripts(outcome: NodeOutcome, words: &str) -> &'static str {
    if names_scripts(words) {
        "; use `without_scripts`: locks without a fencing token need no scripts"
    } else if words.contains(FAULT_OF_SCRIPT) {
        ""
    } else if matches!(outcome, NodeOutcome::Refused(error) if error.is_plain()) {
        "; if the server refuses scripts, use `without_scripts`: locks without a fencing token need no scripts"
    } else {
        ""
    }
}

/// A word in the error of a command that failed inside a script.
const FAULT_OF_SCRIPT: &str = "user_script";

/// Returns `true` if this error text suggests that the server runs no scripts.
pub(crate) fn names_scripts(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let has = |word: &&str| words.contains(word);
    ["eval", "lua", "script"].iter().any(has) && !words.contains(FAULT_OF_SCRIPT)
}

impl fmt::Display for NodeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Held => f.write_str("held"),
            Self::OtherPermits(permits) => write!(f, "with {permits} permits"),
            Self::Missing => f.write_str("without its key"),
            Self::Refused(error) => write!(f, "refused: {}", error.advised()),
            Self::TimedOut => f.write_str("timed out"),
            Self::Unreachable(error) => write!(f, "unreachable: {error}"),
            Self::Quarantined { .. } => write!(f, "in quarantine, because {MAY_HAVE_FORGOTTEN}"),
            Self::Unusable(reason) => write!(f, "unusable: {reason}"),
            Self::Pending => f.write_str("not waited for"),
        }
    }
}

// Every layer returns an error by value, so an error should fit into a few registers.
const _: () = assert!(size_of::<Report>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ExtendError, LockError};
    use alloc::borrow::ToOwned as _;
    use alloc::string::ToString as _;

    const SEE: &str = "; see the manual (`shearline::manual::troubles`)";

    const ELSEWHERE: NodeOutcome = NodeOutcome::Unusable(Unusable::OtherGroup {
        nodes: 5,
        quorum: 3,
        name: false,
    });

    /// Returns a report of one attempt with these answers of the nodes.
    fn report<const N: usize>(outcomes: [NodeOutcome; N]) -> Report {
        let nodes = ["a:1", "b:2", "c:3"].into_iter().zip(outcomes);
        let nodes = nodes.map(|(address, said)| NodeReport::new(address.into(), said, None));
        let quorum = N as u8 / 2 + 1;
        Report::new(Instant::ZERO, nodes.collect(), quorum, 1, Duration::ZERO)
    }

    #[test]
    fn a_report_reads_as_a_sentence() {
        let node = |address: &str, outcome| NodeReport::new(address.into(), outcome, None);
        let nodes = vec![
            node("a:1", NodeOutcome::Granted),
            node("b:2", NodeOutcome::Unreachable(LinkFault::Refused.into())),
            node("c:3", NodeOutcome::TimedOut),
        ];
        let report = Report::new(
            Instant::ZERO,
            nodes.into(),
            2,
            3,
            Duration::from_millis(400),
        );
        let report = report.about([&b"a"[..]].into_iter());
        let text = LockError::NoQuorum(report.clone()).to_string();
        assert_eq!(text, "lock `a`: too few nodes could vote");
        assert_eq!(
            format!("{:#}", LockError::NoQuorum(report)),
            "lock `a`: too few nodes could vote, so no lock was taken: 1 of the 2 votes needed (a:1 granted; \
             b:2 unreachable: connection refused; c:3 timed out) after 3 tries in 400ms; check the \
             nodes named here; see the manual (`shearline::manual::troubles`)"
        );
    }

    #[test]
    fn nodes_that_said_the_same_are_named_together() {
        use NodeOutcome::{Held, TimedOut};
        for (outcomes, text) in [
            ([Held; 3], "a:1, b:2 and c:3 each held"),
            (
                [Held, TimedOut, Held],
                "a:1 and c:3 each held; b:2 timed out",
            ),
            (
                [TimedOut, Held, Held],
                "a:1 timed out; b:2 and c:3 each held",
            ),
        ] {
            let text = format!("0 of the 2 votes needed ({text})");
            assert_eq!(report(outcomes).to_string(), text);
        }
    }

    #[test]
    fn a_lost_lock_says_what_has_become_of_its_keys() {
        use NodeOutcome::{Granted, Held, Missing};
        for (outcomes, said) in [
            (
                [Missing, Missing, Granted],
                "1 of the 2 votes needed (a:1 and b:2 each without its key; c:3 granted); its key is gone: it was \
                 deleted (`DEL`, `FLUSHALL`, `RENAME`, `shearline break --now`) or evicted, or has expired",
            ),
            (
                [Held; 3],
                "0 of the 2 votes needed (a:1, b:2 and c:3 each with another token); its key has another token: an \
                 operator has broken the lock, or another client has taken it",
            ),
            (
                [Missing, Held, Granted],
                "1 of the 2 votes needed (a:1 without its key; b:2 with another token; c:3 granted)",
            ),
        ] {
            assert_eq!(
                format!("{:#}", ExtendError::Lost(report(outcomes).of(Asked::Token))),
                format!(
                    "the lock was lost: {said}; stop the work that the lock protects, and check what is half done; see \
                     the \
                     manual (`shearline::manual::troubles`)"
                )
            );
        }
    }

    #[test]
    fn a_node_that_was_met_young_says_so_where_the_key_is_not_ours() {
        let met_young = Some(Duration::from_secs(12));
        let node = |outcome| NodeReport::new("a:1".into(), outcome, None).met(met_young);
        let said = "without its key (up for 12s at the first connection, so it may have forgotten earlier locks)";
        assert_eq!(node(NodeOutcome::Missing).to_string(), said);
        assert_eq!(node(NodeOutcome::Granted).to_string(), "granted");
    }

    #[test]
    fn an_operator_is_needed_where_too_few_nodes_can_recover() {
        const BAD: NodeOutcome = NodeOutcome::Unusable(Unusable::WrongCredentials);
        const PASSES: NodeOutcome = NodeOutcome::Unusable(Unusable::TooManyClients);
        use NodeOutcome::{Granted, TimedOut};
        for (outcomes, is_needed) in [
            ([BAD, BAD, Granted], true),
            ([BAD, TimedOut, TimedOut], false),
            ([PASSES, PASSES, PASSES], false),
            ([ELSEWHERE, Granted, Granted], true),
            ([BAD, BAD, BAD], true),
        ] {
            let report = report(outcomes);
            assert_eq!(report.needs_operator(), is_needed, "{outcomes:?}");
            // The error of `extend` gives the same advice.
            let text = format!("{:#}", ExtendError::Unconfirmed(report));
            let is_told =
                text.contains("deadline: repair the nodes named here before the deadline; ");
            assert_eq!(is_told, is_needed, "{text}");
        }
    }

    #[test]
    fn what_to_do_about_another_group_is_said_once() {
        assert_eq!(
            format!("{:#}", LockError::OtherGroup(report([ELSEWHERE]))),
            "the lock: a node belongs to another group, so no lock is taken: 0 of the 1 vote needed (a:1 unusable: its marker \
             is for a group of 5 nodes with a quorum of 3; give all clients the same nodes and group name, or \
             see `Redlock::reinit`); see the manual (`shearline::manual::troubles`)"
        );
    }

    #[test]
    fn an_error_names_the_page_that_helps_once() {
        let permission = Unusable::Permission { command: "set" };
        for (why, page) in [
            (Unusable::Replica, "troubles"),
            (Unusable::Tls(LinkError::default()), "tls"),
            (permission, "permissions"),
            (Unusable::KeyPermission, "permissions"),
            (Unusable::NoFloor, "operating"),
        ] {
            let error = LockError::NoQuorum(report([NodeOutcome::Unusable(why)]));
            let text = format!("{error:#}");
            let pages: Vec<_> = text.split("`shearline::manual::").skip(1).collect();
            assert_eq!(pages.len(), 1, "{text}");
            assert!(pages[0].starts_with(page), "{text}");
            assert!(!error.to_string().contains("manual"), "{error}");
        }
        assert!(!format!("{:#}", LockError::Closed).contains("manual"));
    }

    #[test]
    fn a_lock_that_is_held_says_by_whom_and_for_how_long_where_that_is_known() {
        let report = || {
            let node = NodeReport::new("a:1".into(), NodeOutcome::Held, None);
            let now = Instant::from_millis(1_000);
            let report = Report::new(now, [node].into(), 1, 1, Duration::ZERO);
            report.about([&b"invoice:42"[..]].into_iter())
        };
        let text = |report| {
            let error = LockError::Held(report);
            let (short, long) = (format!("{error}"), format!("{error:#}"));
            let rest = long.strip_prefix(&short).expect("it begins alike");
            let rest = rest.strip_suffix(SEE).expect("it names a page");
            (short, rest.to_owned())
        };
        let at = Instant::from_millis;
        let again = ": 0 of the 1 vote needed (a:1 held); try again later, or wait longer";
        for (report, said, rest) in [
            (
                report().held_until(None, Instant::MAX),
                "held by another client",
                again,
            ),
            (
                report().held_here(b"billing-7", at(5_001)),
                "held by this handle for another 4.1 s",
                again,
            ),
            (
                report().held_until(Some(b"billing\x1b7"), at(1_500)),
                "held by billing\\x1b7 for another 0.5 s",
                again,
            ),
            (
                report().held_for_ever(Some(b"")),
                "held by another client, without an expiry",
                ": 0 of the 1 vote needed (a:1 held); the lock never expires, so if its holder is gone, delete the key",
            ),
        ] {
            let said = format!("lock `invoice:42`: {said}");
            assert_eq!(text(report), (said, rest.to_owned()));
        }
        let long = [b'n'; 1_024];
        let several = report().of_several([Some(&long[..])].into_iter(), Some(&long));
        let several = several.about([&b"a"[..], &long, b"b"].into_iter());
        let shown = "n".repeat(64) + ".. (1024 bytes)";
        assert_eq!(
            text(several),
            (
                format!("lock `a` and 2 others: `{shown}` is held by another client"),
                format!(
                    ": 0 of the 1 vote needed (a:1 held ({shown})); try again later, or wait longer"
                )
            )
        );
        let other = report().held_until(None, at(1_500));
        assert_eq!((other.holder(), other.is_held_here()), (None, false));
        assert_eq!(other.held_for(), Some(Duration::from_millis(500)));
        assert!(!other.never_expires());
        let own = report().held_here(b"me", at(1_000));
        assert_eq!((own.holder(), own.held_for()), (Some(&b"me"[..]), None));
        assert!(own.is_held_here());
        let permanent = report().held_for_ever(None);
        assert!(permanent.never_expires() && permanent.held_for().is_none());
    }

    #[test]
    fn a_quarantine_says_how_long_it_lasts_and_what_to_do() {
        let until = Instant::from_millis(40_001);
        let memory = ServerError::from_line(b"OOM command not allowed");
        let report = report([
            NodeOutcome::Quarantined { until },
            NodeOutcome::Refused(memory),
        ]);
        assert_eq!(
            format!("{report}"),
            "0 of the 2 votes needed (a:1 in quarantine for another 41s, because it may have forgotten locks; \
             b:2 refused: OOM (its memory is full: raise its `maxmemory`, or remove other keys; \
             counters of fencing tokens (`shearline:fence:*`) may be the cause))"
        );
        // The text does not name the resource of a node in quarantine, because a reader would think that the node has
        // forgotten this lock.
        let names = [Some(&b"a"[..]), None];
        let several = report.clone().of_several(names.into_iter(), None);
        assert_eq!(several.to_string(), report.to_string());
        // If the report of a node has `words`, they replace the usual reason.
        let mut because = report.clone();
        because.0.nodes[0].words = Some("its name is a".into());
        let said = because.to_string();
        assert!(said.contains("(a:1 in quarantine for another 41s, because its name is a; b:2 "));
        let node = because.nodes()[0].to_string();
        assert_eq!(node, "in quarantine, because its name is a");
        let taken = format!("{:#}", LockError::NoQuorum(report.clone()));
        let ends = "; wait until the quarantine ends, or use `trust_nodes` if no client can still hold an earlier \
        lock; check";
        assert!(taken.contains(ends), "{taken}");
        // A caller of `extend` already holds a lock, so the advice is different.
        let extended = format!("{:#}", ExtendError::Unconfirmed(report));
        let ends = "; the lock stays valid until its old deadline: finish the work before the deadline, because a \
        quarantine usually ends after it";
        assert!(extended.ends_with(&format!("{ends}{SEE}")), "{extended}");
    }
}
