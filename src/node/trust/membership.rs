//! One node's membership in the group, for the strict restart guard.
//!
//! A node is *joined* while the engine knows the marker that the node's scripts must check. The node is no longer
//! joined when an answer says that this marker is gone, or when the engine learns of a ttl that exceeds the marker's.
//! The node is joined again when it answers [`JOIN`]. The script itself checks the marker, so the answer to a question
//! with an old marker never counts by mistake.
//!
//! # Guarantees
//!
//! * If the node's last answer says that it belongs to another group, the engine relies on this answer until the node
//!   has joined.
//! * An operator's request is valid only for the connection on which it is sent.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{LinkFault, NodeOutcome, ServerError, Unusable};
use crate::node::handshake::{Trouble, refused};
use crate::node::refusal::Forbidden;
use crate::node::reply::{Read, three};
use crate::node::script::JOIN;
use crate::quorum::Vote;
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use crate::resp::{Decimal, Value, argument, command};
use crate::time::Instant;

use super::marker::{Group, Marker, UNREADABLE, whole_millis};

/// How long the engine relies on a barrier before it asks the node again. An operator may end the barrier through
/// another client in the meantime.
const BELIEVED: Duration = Duration::from_secs(1);

/// The reason for a barrier, if the ttl in the node's marker has become longer. After a `FLUSHALL`, a client with a
/// longer ttl may have written the marker, so the node may have forgotten locks too.
const LONGER: &str =
    "it may have forgotten locks, or a client has connected with a longer `Builder::max_ttl`";

/// See the [module](self). Only a strict guard uses this type.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    group: Group,
    /// The marker with which the node has joined, as an argument in wire form.
    pub(super) marker: Vec<u8>,
    /// The `run_id` in the marker.
    run_id: String,
    /// The longest ttl in the marker.
    pub(crate) longest: Duration,
    /// The longest ttl in the last `JOIN`.
    asked: Duration,
    pub(super) joined: bool,
    /// Whether the handshake is done, so that the engine asks the node for votes.
    pub(super) is_ready: bool,
    /// The number of requests to join that the node has not answered.
    pub(in crate::node) open: u32,
    /// The mode of the next request to join.
    pub(in crate::node) mode: Mode,
    /// When the node's barrier ends, according to its last answer.
    pub(super) barrier: Option<Instant>,
    /// The time of the node's last answer.
    answered: Instant,
    /// The reason why the node belongs to another group, according to its last answer.
    pub(crate) other: Option<Unusable>,
    /// The text for reports, if the node belongs to another group, or if the reason for its barrier is known.
    words: Option<Arc<str>>,
}

/// The mode in which a node is asked to join.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Join in the usual way.
    #[default]
    Join,
    /// Join without a barrier. An operator vouches that all locks that the node may have forgotten have expired.
    Trust,
    /// Make the node a member of this group, regardless of its marker.
    Reinit,
}

impl Mode {
    const fn word(self) -> &'static [u8] {
        match self {
            Self::Join => b"join",
            Self::Trust => b"trust",
            Self::Reinit => b"anew",
        }
    }
}

impl Membership {
    pub(crate) fn new(group: Group) -> Self {
        Self {
            group,
            ..Self::default()
        }
    }

    /// Records that the node's connection is lost.
    pub(super) fn disconnected(&mut self) {
        (self.joined, self.is_ready, self.open) = (false, false, 0);
        self.mode = Mode::Join;
    }

    /// Writes the command that asks the server `run_id` to join.
    pub(in crate::node) fn ask(
        &mut self,
        out: &mut Vec<u8>,
        run_id: &str,
        durable: Option<bool>,
        longest: Duration,
    ) {
        self.asked = longest;
        self.open += 1;
        let mode = core::mem::take(&mut self.mode);
        let number = |number: u64| Decimal::new(number);
        let [longest_ms, nodes, quorum, barrier] = [
            whole_millis(longest),
            self.group.nodes as u64,
            self.group.quorum() as u64,
            self.group.barrier(longest),
        ]
        .map(number);
        join(
            out,
            [
                run_id.as_bytes(),
                longest_ms.as_bytes(),
                nodes.as_bytes(),
                quorum.as_bytes(),
                self.group.name.as_bytes(),
                match durable {
                    Some(true) => b"1",
                    Some(false) => b"0",
                    None => b"-",
                },
                barrier.as_bytes(),
                mode.word(),
            ],
        );
    }

    /// Handles the answer of the server `run_id` to the request to join.
    ///
    /// # Errors
    ///
    /// Returns the reason why the connection cannot be used.
    pub(in crate::node) fn answered(
        &mut self,
        now: Instant,
        run_id: Option<&str>,
        value: Value<'_>,
    ) -> Result<(), Trouble> {
        const NONSENSE: Trouble = Trouble::Link(LinkFault::Protocol);
        self.open = self.open.saturating_sub(1);
        if let Some(line) = value.as_error() {
            return Err(Trouble::Unusable(join_refused(line)));
        }
        let (verdict, left, text) = three(value).ok_or(NONSENSE)?;
        let text = text.as_bytes().ok_or(NONSENSE)?;
        let marker = Marker::read(text);
        let other = match &marker {
            Some(marker) => marker.differs(&self.group),
            None => Some(UNREADABLE),
        };
        if let Some(other) = other {
            self.other = Some(other);
            self.words = Some(self.group.beside(marker.as_ref()));
            return Err(Trouble::Unusable(other));
        }
        let marker = marker.filter(|marker| {
            let last = self.open == 0;
            verdict == 1
                && Some(marker.run_id.as_str()) == run_id
                && (!last || self.asked <= marker.longest)
        });
        let marker = marker.ok_or(NONSENSE)?;
        self.words = self.why_barred(now, &marker);
        (self.run_id, self.longest) = (marker.run_id, marker.longest);
        self.marker.clear();
        argument(&mut self.marker, text);
        self.other = None;
        // If several answers are still expected, only the last one counts, because it belongs to the script that ran
        // last.
        if self.open == 0 {
            self.said(now, left);
            self.joined = true;
        }
        Ok(())
    }

    /// Returns the reason for a barrier that came with this `marker`. Returns `None` if the `run_id` in the marker is
    /// new, because the server may then have lost its data.
    fn why_barred(&self, now: Instant, marker: &Marker) -> Option<Arc<str>> {
        let is_barred = self.barrier.is_some_and(|until| now < until) && self.other.is_none();
        match self.run_id == marker.run_id {
            true if self.longest < marker.longest => Some(LONGER.into()),
            true if is_barred => self.words.clone(),
            _ => None,
        }
    }

    /// Returns the text that explains this outcome, if the marker is the reason.
    pub(in crate::node) fn words_of(&self, outcome: NodeOutcome) -> Option<&Arc<str>> {
        let explains = if let NodeOutcome::Quarantined { until } = outcome {
            // Two answers of a node may give slightly different times for the end of its barrier.
            until <= self.barrier?.saturating_add(BELIEVED)
        } else {
            self.other.map(NodeOutcome::Unusable) == Some(outcome)
        };
        self.words.as_ref().filter(|_| explains)
    }

    /// Returns the outcome for the report, if the answer does not count. `stale` is `true` if the question was sent
    /// with an older marker. Returns `None` if the answer omits the required report about the marker.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        Read { reply, marker }: Read,
        stale: bool,
    ) -> Option<Option<NodeOutcome>> {
        let Some(left) = marker else {
            return (reply.vote().0 == Vote::Abstain).then_some(None);
        };
        if guard!(MarkerIgnored, left < 0) {
            if !stale && self.open == 0 {
                self.joined = false;
            }
            return Some(Some(NodeOutcome::Quarantined { until: now }));
        }
        self.said(now, left);
        Some(self.behind_barrier(now))
    }

    /// Returns the outcome of a quarantine, if the node is known to have a barrier.
    fn behind_barrier(&self, now: Instant) -> Option<NodeOutcome> {
        let until = self.barrier.filter(|until| now < *until)?;
        Some(NodeOutcome::Quarantined { until })
    }

    /// Returns when the node's answers count again, or `None` if they count at `now`. If this time is unknown because
    /// the node has not joined again, returns `now`. During its handshake, a node joins before it is asked any other
    /// question.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        let barrier = self.barrier.filter(|until| now < *until);
        match self.is_ready && !self.joined {
            true => Some(barrier.unwrap_or(now)),
            false => barrier,
        }
    }

    /// Returns when the engine may next send questions that check the marker, or `None` if it may do so at `now`. If
    /// the node has a barrier, the engine asks again a second after the node's last answer.
    pub(super) fn unasked_until(&self, now: Instant) -> Option<Instant> {
        let until = self.until(now)?;
        let again = self.answered.saturating_add(BELIEVED);
        match self.is_ready && !self.joined {
            true => Some(until),
            false => Some(until.min(again)).filter(|until| now < *until),
        }
    }

    /// Returns the longest ttl in the node's marker, if this marker is known to be valid.
    pub(crate) fn marked_ttl(&self) -> Option<Duration> {
        self.joined.then_some(self.longest)
    }

    /// Returns how much longer the node's barrier lasts, according to its last answer.
    pub(crate) fn barrier_left(&self, now: Instant) -> Option<Duration> {
        let until = self.barrier.filter(|until| now < *until)?;
        Some(until.saturating_since(now))
    }

    /// Records the node's answer that its barrier lasts for another `left` milliseconds.
    fn said(&mut self, now: Instant, left: i64) {
        let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
        self.barrier = guard!(BarrierIgnored, !left.is_zero()).then(|| now.saturating_add(left));
        self.answered = now;
    }

    /// Trusts the node, and forgets its barrier. If the ttl of the known marker is at least `longest`, the node counts
    /// as joined.
    pub(in crate::node) fn trust(&mut self, longest: Duration) {
        self.mode = Mode::Trust;
        self.barrier = None;
        self.joined |= !self.marker.is_empty() && longest <= self.longest;
    }

    /// Sets the longest ttl of all clients. The node stays joined only if its marker has at least this ttl. Returns
    /// `true` if the node's membership ends.
    pub(super) fn demand(&mut self, longest: Duration) -> bool {
        let falls = guard!(ShorterMarkerVotes, self.joined && self.longest < longest);
        self.joined &= !falls;
        falls
    }
}

/// Writes the request to join, with these `arguments` of [`JOIN`]. The request is always sent as text, because it is
/// rarely used.
fn join(out: &mut Vec<u8>, arguments: [&[u8]; 8]) {
    let mut words: Vec<&[u8]> = Vec::with_capacity(13);
    words.extend([b"EVAL", JOIN.text.as_bytes(), b"2", MARKER_KEY, BARRIER_KEY]);
    words.extend(arguments);
    command(out, &words);
}

/// Returns why a server does not run [`JOIN`]. The server reports a missing permission within a script as a plain
/// error.
fn join_refused(line: &[u8]) -> Unusable {
    let says = |text: &[u8]| line.windows(text.len()).any(|part| part == text);
    match says(b"can't run this command") || says(b"ACL failure") || says(b"No permissions") {
        true => Unusable::NoPermission,
        false if Forbidden::of(line) == Some(Forbidden::Command) => Unusable::NeedsScripts,
        false => refused(ServerError::from_line(line)),
    }
}
