//! The commands that one node has not answered, in the order in which it will.
//!
//! Replies match commands by count alone: the next reply answers the front.

use alloc::collections::{BTreeMap, VecDeque};

use crate::error::NodeOutcome;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};
use crate::time::Instant;

use super::reply::Reply;
use super::request::{Dialect, Remaining, Request};

/// What was received from a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// An answer to a lock command.
    Answer(Request, Reply),
    /// The server accepts us: debts are sent first, then [`Node::survey`](super::Node::survey).
    Admitted,
    /// An answer to a lock command that does not count.
    Uncounted {
        request: Request,
        /// What the plain command would have answered.
        reply: Reply,
        /// What a report says of it.
        outcome: NodeOutcome,
        /// Its answers counted until now.
        first: bool,
    },
    /// The server has identified itself: it has to be asked to join.
    Introduced,
    /// It has joined again.
    Joined,
    /// The handshake is done.
    Ready,
    /// Its clock was stepped.
    Stepped,
    /// The answer to a look.
    Looked {
        place: PlaceKey,
        /// `None` if it does not say.
        left: Option<Remaining>,
        /// The next change of the key is pushed.
        pushes: bool,
    },
    /// The answer to a release of a token that no key has, where no scripts are used.
    Tried {
        /// For whose `SET`.
        claim: ClaimKey,
        /// Which release.
        way: Dialect,
        reply: Reply,
    },
    /// The answers to a batch: see [`Node::next_in_batch`](super::Node::next_in_batch).
    Batch,
    /// A push. If it says that keys have changed, they were shown.
    Pushed,
}

/// A command on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) request: Request,
    /// When it was put into the out buffer.
    pub(crate) at: Instant,
    /// Where it starts in the stream, and its length: none of its own if it is part of a batch.
    start: u64,
    len: u32,
    /// The number of the marker that it was written for.
    pub(crate) era: u32,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    queue: VecDeque<Sent>,
    /// How many of them are `SET`s: each may be followed by its release.
    sets: usize,
    /// How many of them are releases that repair; none, usually.
    repairs: usize,
    era: u32,
    /// No question starts behind this place.
    latest_question: u64,
    /// How many of them were withdrawn.
    withdrawn: usize,
    unsent: Unsent,
}

/// Where the questions start that have not left, by who asks. It is empty until one of many is looked for.
#[derive(Debug, Default)]
struct Unsent {
    starts: BTreeMap<Asker, u64>,
    /// Those that start before this place are in it, if they had not left.
    until: u64,
    /// How many commands were looked at.
    #[cfg(test)]
    steps: usize,
}

/// Who may withdraw a question: each has asked a node for one thing at a time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Asker {
    Claim(ClaimKey),
    Operation(OperationKey),
}

impl Asker {
    const fn of(request: Request) -> Option<Self> {
        match request {
            Request::Set { claim } | Request::FirstSet { claim } | Request::FencedSet { claim } => {
                Some(Self::Claim(claim))
            }
            Request::Question { operation, .. } => Some(Self::Operation(operation)),
            Request::Handshake(_)
            | Request::Raise { .. }
            | Request::Floor { .. }
            | Request::LookAtFloor { .. }
            | Request::Count { .. }
            | Request::Release { .. }
            | Request::Probe { .. }
            | Request::Transaction
            | Request::Batch { .. }
            | Request::Why { .. }
            | Request::Withdrawn
            | Request::Time
            | Request::Track
            | Request::Look { .. } => None,
        }
    }
}

/// As many are looked through one by one.
const FEW: usize = 32;

impl InFlight {
    #[inline(always)]
    pub(crate) fn push(&mut self, request: Request, at: Instant, start: u64, len: usize) {
        self.sets += usize::from(request.is_set());
        self.repairs += usize::from(is_repair(request));
        if request.is_question() {
            self.latest_question = start;
        }
        self.queue.push_back(Sent {
            request,
            at,
            start,
            len: len as u32,
            era: self.era,
        });
    }

    /// Returns the command that the next reply answers. `None`: nothing was asked.
    pub(crate) fn pop(&mut self) -> Option<Sent> {
        let sent = self.queue.pop_front()?;
        self.left(sent.request);
        Some(sent)
    }

    /// Commands from now on are written for another marker.
    pub(crate) fn begin_era(&mut self) {
        self.era = self.era.wrapping_add(1);
    }

    /// Returns `true` if it was written under the present marker.
    pub(crate) fn is_of_this_era(&self, sent: &Sent) -> bool {
        sent.era == self.era
    }

    /// Keeps a place for work that waits.
    pub(super) fn reserve(&mut self) {
        self.sets += 1;
    }

    /// Gives that place back.
    pub(super) fn unreserve(&mut self) {
        self.sets -= 1;
    }

    /// Returns how many places are taken: by the commands, and by the releases of their `SET`s to
    /// come.
    pub(crate) fn reserved(&self) -> usize {
        self.len() + self.sets
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() - self.withdrawn
    }

    /// Returns where the first command starts in the stream.
    #[inline]
    pub(crate) fn front(&self) -> Option<u64> {
        self.queue.front().map(|sent| sent.start)
    }

    /// Returns `true` if a release that repairs is on its way, of a claim for which `same` holds.
    /// Costs a step per command, but only while there is one at all.
    pub(crate) fn is_repairing(&self, mut same: impl FnMut(ClaimKey) -> bool) -> bool {
        self.repairs != 0
            && self.queue.iter().any(|sent| {
                matches!(sent.request, Request::Release { claim, repair: true, .. } if same(claim))
            })
    }

    /// Withdraws the question of `request` if `unsent(its start)`. Returns how long it is. It keeps its place
    /// until [`sweep`](Self::sweep), so that nothing behind it is moved for it alone.
    ///
    /// Where all questions have left, it costs one step: an attempt that fails does not look through the
    /// releases of all others. Of many that have not left it is found by an index.
    pub(crate) fn withdraw(
        &mut self,
        request: Request,
        unsent: impl Fn(u64) -> bool,
    ) -> Option<usize> {
        if !unsent(self.latest_question) {
            return None;
        }
        let first = self.queue.partition_point(|sent| !unsent(sent.start));
        let index = match self.queue.len() - first {
            0..=FEW => {
                let mut all = self.queue.range(first..);
                first + all.rposition(|sent| sent.request == request && sent.len != 0)?
            }
            _ => self.find(first, request)?,
        };
        let sent = self.queue.get_mut(index)?;
        sent.request = Request::Withdrawn;
        let len = sent.len as usize;
        self.withdrawn += 1;
        self.left(request);
        Some(len)
    }

    /// Returns the place of `request` among the commands from the place `first` on, none of which has left.
    #[cold]
    fn find(&mut self, first: usize, request: Request) -> Option<usize> {
        let Self { queue, unsent, .. } = self;
        if queue.len() - first < unsent.starts.len() / 2 {
            *unsent = Unsent::default(); // Most of it has left.
        }
        let known = queue.partition_point(|sent| sent.start < unsent.until);
        for sent in queue.range(known.max(first)..) {
            if let Some(asker) = Asker::of(sent.request).filter(|_| sent.len != 0) {
                unsent.starts.insert(asker, sent.start);
            }
            unsent.until = sent.start + 1;
            #[cfg(test)]
            (unsent.steps += 1);
        }
        let start = *unsent.starts.get(&Asker::of(request)?)?;
        let place = queue.partition_point(|sent| sent.start < start);
        let found = queue.get(place)?;
        (first <= place && found.start == start && found.request == request).then_some(place)
    }

    /// Returns `true` if more were withdrawn than not, and enough to be worth a look at all.
    pub(crate) fn is_mostly_withdrawn(&self) -> bool {
        FEW < self.withdrawn && self.queue.len() < 2 * self.withdrawn
    }

    /// The command that was popped was withdrawn.
    #[cold]
    pub(super) fn popped_withdrawn(&mut self) {
        self.withdrawn -= 1;
    }

    /// Removes all that were withdrawn, and hands where each starts, and how long it is, to `remove` in their
    /// order.
    #[cold]
    #[inline(never)]
    pub(crate) fn sweep(&mut self, mut remove: impl FnMut(u64, usize)) {
        let mut removed = 0;
        self.queue.retain_mut(|sent| {
            #[cfg(test)]
            (self.unsent.steps += 1);
            let stays = sent.request != Request::Withdrawn;
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

    /// Returns how many commands were looked at to withdraw some.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> usize {
        self.unsent.steps
    }

    /// Takes all commands out because the connection is gone. Yields each with whether its bytes
    /// may have left.
    pub(crate) fn drain(
        &mut self,
        unsent: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (Request, bool)> {
        (self.sets, self.repairs, self.latest_question) = (0, 0, 0);
        (self.withdrawn, self.unsent) = (0, Unsent::default());
        self.queue
            .drain(..)
            .filter(|sent| sent.request != Request::Withdrawn)
            .map(move |sent| (sent.request, !unsent(sent.start)))
    }

    fn left(&mut self, request: Request) {
        self.sets -= usize::from(request.is_set());
        self.repairs -= usize::from(is_repair(request));
    }
}

const fn is_repair(request: Request) -> bool {
    matches!(request, Request::Release { repair: true, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;
    use alloc::vec::Vec;

    #[test]
    fn what_has_left_is_not_looked_for_among_what_has_not() {
        let mut slab = Slab::new();
        let keys = [0, 1].map(|value| ClaimKey(slab.insert(value)));
        let [claim, other] = keys;
        let (release, dialect) = (
            |claim, dialect, repair| Request::Release {
                claim,
                dialect,
                repair,
            },
            Dialect::Text,
        );
        let mut in_flight = InFlight::default();
        in_flight.push(Request::Set { claim }, Instant::ZERO, 0, 10);
        for place in 1..1_000 {
            let request = release(other, dialect, false);
            in_flight.push(request, Instant::ZERO, place * 10, 10);
        }
        let steps = core::cell::Cell::new(0);
        let unsent = |start| {
            steps.set(steps.get() + 1);
            start >= 10
        };
        assert_eq!(in_flight.withdraw(Request::Set { claim }, unsent), None);
        assert_eq!(steps.get(), 1);
        // A later one is found.
        in_flight.push(Request::Set { claim: other }, Instant::ZERO, 10_000, 10);
        let found = in_flight.withdraw(Request::Set { claim: other }, unsent);
        assert_eq!(found, Some(10));
        // So is one of the next connection, whose positions begin again.
        assert_eq!(in_flight.drain(unsent).count(), 1_000);
        in_flight.push(Request::Set { claim }, Instant::ZERO, 0, 10);
        assert!(
            in_flight
                .withdraw(Request::Set { claim }, |_| true)
                .is_some()
        );
    }

    #[test]
    fn a_withdrawn_command_leaves_no_gap() {
        let mut slab = Slab::new();
        let [a, b, c] = [0, 1, 2].map(|value| ClaimKey(slab.insert(value)));
        let mut in_flight = InFlight::default();
        for (index, claim) in [a, b, c].into_iter().enumerate() {
            in_flight.push(Request::Set { claim }, Instant::ZERO, index as u64 * 10, 10);
        }
        assert_eq!(in_flight.reserved(), 6);
        let begun = |start| start >= 10;
        assert_eq!(in_flight.withdraw(Request::Set { claim: a }, begun), None);
        assert_eq!(
            in_flight.withdraw(Request::Set { claim: b }, begun),
            Some(10)
        );
        assert_eq!(in_flight.withdraw(Request::Set { claim: b }, begun), None);
        assert_eq!(in_flight.reserved(), 4);
        let mut places = Vec::new();
        in_flight.sweep(|start, len| places.push((start, len)));
        assert_eq!(places, [(10, 10)]);
        assert_eq!(
            in_flight.withdraw(Request::Set { claim: c }, begun),
            Some(10)
        );
        in_flight.sweep(|start, len| places.push((start, len)));
        assert_eq!(places, [(10, 10), (10, 10)], "it has moved");
        assert_eq!(in_flight.reserved(), 2);
        let left: Vec<_> = in_flight.drain(begun).collect();
        assert_eq!(left, [(Request::Set { claim: a }, true)]);
        assert_eq!(in_flight.reserved(), 0);
    }

    /// Tens of thousands that have not left are withdrawn in any order, at once, with few steps for each.
    #[test]
    fn many_that_have_not_left_are_withdrawn_with_few_steps_each() {
        const ALL: u64 = 20_000;
        let mut slab = Slab::new();
        let claims: Vec<_> = (0..ALL).map(|index| ClaimKey(slab.insert(index))).collect();
        for stride in [1, 7_919, ALL - 1] {
            let mut in_flight = InFlight::default();
            for (index, claim) in claims.iter().enumerate() {
                let request = Request::Set { claim: *claim };
                in_flight.push(request, Instant::ZERO, index as u64 * 10, 10);
            }
            let mut swept = 0;
            for index in 0..ALL {
                let claim = claims[(index * stride % ALL) as usize];
                let left = in_flight.withdraw(Request::Set { claim }, |_| true);
                assert_eq!(left, Some(10), "{index}");
                if in_flight.is_mostly_withdrawn() {
                    in_flight.sweep(|_, _| swept += 1);
                }
            }
            let len = in_flight.len();
            in_flight.sweep(|_, _| swept += 1);
            assert_eq!((len, swept, in_flight.reserved()), (0, ALL, 0));
            // Each is looked at for the index, and by the sweeps, of which each halves what is left.
            assert!(
                in_flight.steps() < 6 * ALL as usize,
                "{}",
                in_flight.steps()
            );
        }
    }

    /// What comes in between is found too, and what has left is not.
    #[test]
    fn the_index_of_what_has_not_left_follows_what_comes_and_goes() {
        let mut slab = Slab::new();
        let mut in_flight = InFlight::default();
        let (mut open, mut end, mut sent) = (VecDeque::new(), 0, 0);
        for round in 0..300_u64 {
            for index in 0..20 {
                let claim = ClaimKey(slab.insert(index));
                in_flight.push(Request::Set { claim }, Instant::ZERO, end, 5);
                open.push_back((claim, end));
                end += 5;
            }
            let unsent = |start| sent <= start;
            for _ in 0..3 {
                let at = (round * 31) as usize % open.len();
                let (claim, start) = open[at];
                let found = in_flight.withdraw(Request::Set { claim }, unsent);
                assert_eq!(found.is_some(), sent <= start, "{round}");
                if found.is_some() {
                    open.remove(at);
                }
                assert_eq!(in_flight.withdraw(Request::Set { claim }, |_| false), None);
            }
            // Nothing leaves before that.
            if round % 5 == 4 || round % 7 == 6 {
                let mut gone = 0;
                in_flight.sweep(|start, len| {
                    assert!(sent <= start);
                    gone += len as u64;
                });
                end -= gone;
                let starts = in_flight.queue.iter().map(|sent| sent.start);
                open.iter_mut()
                    .zip(starts)
                    .for_each(|(open, start)| open.1 = start);
            }
            if round % 7 == 6 {
                sent += (end - sent) / 3 / 5 * 5;
            }
        }
        assert_eq!(in_flight.len(), open.len());
    }
}
