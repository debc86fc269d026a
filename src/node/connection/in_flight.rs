//! The commands that one node has not answered, in the order in which the node will answer them.
//!
//! Replies are matched by order alone, so the next reply answers the command at the front.

use alloc::collections::{BTreeMap, VecDeque};

use crate::error::{LinkFault, NodeOutcome, ServerError};
use crate::keys::{ClaimKey, PlaceKey};
use crate::time::Instant;

use crate::node::handshake::Trouble;
use crate::node::reply::Answer;
use crate::node::request::{Asker, Purpose, Remaining, Request};

/// An event from a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// The command succeeded, as most commands do. This variant is separate from `Answer`, because an `Answer` is twice
    /// as large.
    Done(Request),
    /// Another answer to a command about locks.
    Answer(Answer),
    /// The server accepts the connection. The engine sends the unconfirmed releases, then
    /// calls [`Node::survey`](crate::node::Node::survey).
    Admitted,
    /// An answer to a command about locks that does not count as a vote.
    Uncounted {
        answer: Answer,
        /// The outcome for the report.
        outcome: NodeOutcome,
        /// Whether the answers of the node counted before this answer.
        first: bool,
    },
    /// The server has identified itself, and must now be asked to join.
    Introduced,
    /// The node has joined the group again.
    Joined,
    /// The handshake is done.
    Ready,
    /// The node's clock was stepped.
    Stepped,
    /// The answer to a [`Look`](Purpose::Look), which asks how much longer a key lives.
    Looked {
        place: PlaceKey,
        /// The time until the key expires. `None` if the answer does not report it.
        left: Option<Remaining>,
        /// Whether the node will report the next change to the key.
        pushes: bool,
    },
    /// An answer has shown whether the node can release a lock without scripts.
    Tried {
        /// The answer for the claim, if it is already known.
        answer: Option<Answer>,
        /// The error with which the node has refused the command.
        error: Option<ServerError>,
        /// Whether the user now has a permission that was missing, so that the engine may ask the node for locks again.
        is_usable_again: bool,
        /// Whether this answer is the first on the connection to prove that the user may release locks.
        is_news: bool,
    },
    /// The answers to a batch: see [`Node::next_in_batch`](crate::node::Node::next_in_batch).
    Batch,
    /// A push from the server. If the push reports changed keys, `changed` was already called with their names.
    Pushed,
}

/// A command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) purpose: Purpose,
    /// When the command was put into the out buffer.
    pub(crate) at: Instant,
    /// The position of the command's first byte in the stream, and the command's length. The length is zero if the
    /// command is a renewal of a batch.
    start: u64,
    len: u32,
    /// The value of `era` when the command was written.
    pub(crate) era: u32,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    queue: VecDeque<Sent>,
    /// The number of unanswered `SET`s. Each `SET` reserves space for its release.
    sets: usize,
    /// The number of repeated releases, usually zero.
    repairs: usize,
    era: u32,
    /// No question starts after this position.
    latest_question: u64,
    /// The number of withdrawn commands.
    withdrawn: usize,
    unsent: Unsent,
}

/// An index from each asker to the position of its question, for questions that are not written to the socket yet. The
/// index is empty until a search among many questions needs it.
#[derive(Debug, Default)]
struct Unsent {
    starts: BTreeMap<Asker, u64>,
    /// The index contains the unsent questions that start before this position.
    until: u64,
    /// The number of commands that a search has visited.
    #[cfg(test)]
    steps: usize,
}

/// If there are at most this many commands, a search visits them one by one.
const FEW: usize = 32;

impl InFlight {
    #[inline(always)]
    pub(crate) fn push(&mut self, purpose: Purpose, at: Instant, start: u64, len: usize) {
        self.sets += usize::from(takes(purpose));
        self.repairs += usize::from(is_repair(purpose));
        if let Purpose::Asked(request) = purpose
            && request.is_question()
        {
            self.latest_question = start;
        }
        self.queue.push_back(Sent {
            purpose,
            at,
            start,
            len: len as u32,
            era: self.era,
        });
    }

    /// Returns the command that the next reply answers. Returns `None` if every command has been answered.
    pub(crate) fn pop(&mut self) -> Option<Sent> {
        let sent = self.queue.pop_front()?;
        self.left(sent.purpose);
        Some(sent)
    }

    /// Handles a nonsensical reply to the command that [`pop`](Self::pop) returned last. Puts the command back, and
    /// returns why the connection must end.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn nonsense(&mut self, sent: Sent) -> Trouble {
        self.sets += usize::from(takes(sent.purpose));
        self.repairs += usize::from(is_repair(sent.purpose));
        self.queue.push_front(sent);
        Trouble::Link(LinkFault::Protocol)
    }

    /// Returns the position of the last command, which is a release that will be joined with the next release. Returns
    /// `None` if the server has already answered this release, or if `unsent` returns `false` for its position.
    pub(super) fn begin_row(&self, unsent: impl Fn(u64) -> bool) -> Option<u64> {
        let first = self.queue.back()?.start;
        unsent(first).then_some(first)
    }

    /// Records that the last `count` commands, all of them releases, are written as one command.
    ///
    /// A faulty server may have answered some of these releases before it received them. The number of answers to the
    /// joined command is then wrong, and the connection ends.
    pub(super) fn end_row(&mut self, count: usize) {
        let place = self.queue.len().saturating_sub(count);
        let count = self.queue.len() - place;
        let Some(first) = self.queue.get(place) else {
            return;
        };
        let (count, releases) = (count as u8, true);
        let purpose = Purpose::Batch { count, releases };
        self.queue.insert(place, Sent { purpose, ..*first });
    }

    /// Records that commands are written for another marker from now on.
    pub(crate) fn begin_era(&mut self) {
        self.era = self.era.wrapping_add(1);
    }

    /// Returns `true` if the command was written for the current marker.
    pub(crate) fn is_of_this_era(&self, sent: &Sent) -> bool {
        sent.era == self.era
    }

    /// Reserves space for a command that is not written yet.
    pub(in crate::node) fn reserve(&mut self) {
        self.sets += 1;
    }

    /// Frees the reserved space.
    pub(in crate::node) fn unreserve(&mut self) {
        self.sets -= 1;
    }

    /// Returns the number of unanswered commands, including those for which space is reserved.
    pub(crate) fn reserved(&self) -> usize {
        self.len() + self.sets
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() - self.withdrawn
    }

    /// Returns the position of the first unanswered command in the stream.
    #[inline]
    pub(crate) fn front(&self) -> Option<u64> {
        self.queue.front().map(|sent| sent.start)
    }

    /// Returns `true` if `same` returns `true` for any repeated release in flight. The search visits each command, but
    /// only while a repeated release is in flight.
    pub(crate) fn is_repairing(&self, mut same: impl FnMut(ClaimKey) -> bool) -> bool {
        self.repairs != 0
            && self.queue.iter().any(|sent| {
                matches!(sent.purpose, Purpose::Asked(Request::Release { claim, repair: true, .. }) if same(claim))
            })
    }

    /// Withdraws the question of `asker` if `unsent` returns `true` for the position of its first byte. Returns the
    /// length of the question. The question keeps its place until [`sweep`](Self::sweep), so that a withdrawal does not
    /// move the later commands.
    ///
    /// If all questions were sent, the search ends after one comparison, and does not visit the releases of all other
    /// locks. If many questions are unsent, the search uses an index.
    pub(crate) fn withdraw(&mut self, asker: Asker, unsent: impl Fn(u64) -> bool) -> Option<usize> {
        if !unsent(self.latest_question) {
            return None;
        }
        let first = self.queue.partition_point(|sent| !unsent(sent.start));
        let index = match self.queue.len() - first {
            0..=FEW => {
                let mut all = self.queue.range(first..);
                first + all.rposition(|sent| asker.asks(sent.purpose) && sent.len != 0)?
            }
            _ => self.find(first, asker)?,
        };
        let sent = self.queue.get_mut(index)?;
        let purpose = core::mem::replace(&mut sent.purpose, Purpose::Withdrawn);
        let len = sent.len as usize;
        self.withdrawn += 1;
        self.left(purpose);
        Some(len)
    }

    /// Returns the index of the question of `asker`. The command at `first` and all later commands must be unsent.
    #[cold]
    fn find(&mut self, first: usize, asker: Asker) -> Option<usize> {
        let Self { queue, unsent, .. } = self;
        if queue.len() - first < unsent.starts.len() / 2 {
            *unsent = Unsent::default(); // Most of the indexed commands have left.
        }
        let known = queue.partition_point(|sent| sent.start < unsent.until);
        for sent in queue.range(known.max(first)..) {
            if let Some(asker) = sent
                .purpose
                .request()
                .and_then(Asker::of)
                .filter(|_| sent.len != 0)
            {
                unsent.starts.insert(asker, sent.start);
            }
            unsent.until = sent.start + 1;
            #[cfg(test)]
            (unsent.steps += 1);
        }
        let start = *unsent.starts.get(&asker)?;
        let place = queue.partition_point(|sent| sent.start < start);
        let found = queue.get(place)?;
        (first <= place && found.start == start && asker.asks(found.purpose)).then_some(place)
    }

    /// Returns `true` if more than half of the commands, and more than [`FEW`], are withdrawn, so that a sweep is
    /// worthwhile.
    pub(crate) fn is_mostly_withdrawn(&self) -> bool {
        FEW < self.withdrawn && self.queue.len() < 2 * self.withdrawn
    }

    /// Records that the command that [`pop`](Self::pop) returned was withdrawn.
    #[cold]
    pub(in crate::node) fn popped_withdrawn(&mut self) {
        self.withdrawn -= 1;
    }

    /// Removes all withdrawn commands. Calls `remove` with the position and the length of each removed command, in
    /// order.
    #[cold]
    #[inline(never)]
    pub(crate) fn sweep(&mut self, mut remove: impl FnMut(u64, usize)) {
        let mut removed = 0;
        self.queue.retain_mut(|sent| {
            #[cfg(test)]
            (self.unsent.steps += 1);
            let stays = sent.purpose != Purpose::Withdrawn;
            if !stays {
                remove(sent.start, sent.len as usize);
                removed += u64::from(sent.len);
            } else {
                sent.start -= removed;
            }
            stays
        });
        self.withdrawn = 0;
        self.unsent.starts.clear();
        self.unsent.until = 0;
    }

    /// Returns how many commands the searches for withdrawn commands have visited.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> usize {
        self.unsent.steps
    }

    /// Removes all commands because the connection is lost. Yields each request, together with a flag that is `true` if
    /// its bytes may have been sent.
    pub(crate) fn drain(
        &mut self,
        unsent: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (Request, bool)> {
        (self.sets, self.repairs, self.latest_question) = (0, 0, 0);
        (self.withdrawn, self.unsent) = (0, Unsent::default());
        self.queue
            .drain(..)
            .filter_map(move |sent| Some((sent.purpose.request()?, !unsent(sent.start))))
    }

    fn left(&mut self, purpose: Purpose) {
        self.sets -= usize::from(takes(purpose));
        self.repairs -= usize::from(is_repair(purpose));
    }
}

const fn takes(purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Asked(Request::Take { .. }))
}

const fn is_repair(purpose: Purpose) -> bool {
    matches!(
        purpose,
        Purpose::Asked(Request::Release { repair: true, .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::request::{Dialect, Taking};
    use crate::slab::Slab;
    use alloc::vec::Vec;

    fn set(claim: ClaimKey) -> Purpose {
        let by = Taking::Set;
        Purpose::Asked(Request::Take { claim, by })
    }

    #[test]
    fn what_has_left_is_not_looked_for_among_what_has_not() {
        let mut slab = Slab::new();
        let keys = [0, 1].map(|value| ClaimKey(slab.insert(value)));
        let [claim, other] = keys;
        let release = |claim| Request::Release {
            claim,
            by: Dialect::Text,
            is_taught: true,
            repair: false,
        };
        let mut in_flight = InFlight::default();
        in_flight.push(set(claim), Instant::ZERO, 0, 10);
        for place in 1..1_000 {
            let purpose = Purpose::Asked(release(other));
            in_flight.push(purpose, Instant::ZERO, place * 10, 10);
        }
        let steps = core::cell::Cell::new(0);
        let unsent = |start| {
            steps.set(steps.get() + 1);
            start >= 10
        };
        assert_eq!(in_flight.withdraw(Asker::Claim(claim), unsent), None);
        assert_eq!(steps.get(), 1);
        // The index also finds a command that is pushed after the index was built.
        in_flight.push(set(other), Instant::ZERO, 10_000, 10);
        let found = in_flight.withdraw(Asker::Claim(other), unsent);
        assert_eq!(found, Some(10));
        // The index also finds a command on the next connection, where positions begin at zero again.
        assert_eq!(in_flight.drain(unsent).count(), 1_000);
        in_flight.push(set(claim), Instant::ZERO, 0, 10);
        assert!(in_flight.withdraw(Asker::Claim(claim), |_| true).is_some());
    }

    #[test]
    fn a_withdrawn_command_leaves_no_gap() {
        let mut slab = Slab::new();
        let [a, b, c] = [0, 1, 2].map(|value| ClaimKey(slab.insert(value)));
        let mut in_flight = InFlight::default();
        for (index, claim) in [a, b, c].into_iter().enumerate() {
            in_flight.push(set(claim), Instant::ZERO, index as u64 * 10, 10);
        }
        assert_eq!(in_flight.reserved(), 6);
        let begun = |start| start >= 10;
        assert_eq!(in_flight.withdraw(Asker::Claim(a), begun), None);
        assert_eq!(in_flight.withdraw(Asker::Claim(b), begun), Some(10));
        assert_eq!(in_flight.withdraw(Asker::Claim(b), begun), None);
        assert_eq!(in_flight.reserved(), 4);
        let mut places = Vec::new();
        in_flight.sweep(|start, len| places.push((start, len)));
        assert_eq!(places, [(10, 10)]);
        assert_eq!(in_flight.withdraw(Asker::Claim(c), begun), Some(10));
        in_flight.sweep(|start, len| places.push((start, len)));
        assert_eq!(places, [(10, 10), (10, 10)], "it has moved");
        assert_eq!(in_flight.reserved(), 2);
        let left: Vec<_> = in_flight.drain(begun).collect();
        assert_eq!(left, [(set(a).request().unwrap(), true)]);
        assert_eq!(in_flight.reserved(), 0);
    }

    /// Withdrawing tens of thousands of unsent commands in any order takes few steps for each command.
    #[test]
    fn many_that_have_not_left_are_withdrawn_with_few_steps_each() {
        const ALL: u64 = 20_000;
        let mut slab = Slab::new();
        let claims: Vec<_> = (0..ALL).map(|index| ClaimKey(slab.insert(index))).collect();
        for stride in [1, 7_919, ALL - 1] {
            let mut in_flight = InFlight::default();
            for (index, claim) in claims.iter().enumerate() {
                let request = set(*claim);
                in_flight.push(request, Instant::ZERO, index as u64 * 10, 10);
            }
            let mut swept = 0;
            for index in 0..ALL {
                let claim = claims[(index * stride % ALL) as usize];
                let left = in_flight.withdraw(Asker::Claim(claim), |_| true);
                assert_eq!(left, Some(10), "{index}");
                if in_flight.is_mostly_withdrawn() {
                    in_flight.sweep(|_, _| swept += 1);
                }
            }
            let len = in_flight.len();
            in_flight.sweep(|_, _| swept += 1);
            assert_eq!((len, swept, in_flight.reserved()), (0, ALL, 0));
            // Building the index visits each command once. Each sweep visits all remaining commands, and halves their
            // number.
            assert!(
                in_flight.steps() < 6 * ALL as usize,
                "{}",
                in_flight.steps()
            );
        }
    }
}
