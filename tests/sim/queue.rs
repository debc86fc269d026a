//! The queue of future events, in their order.
//!
//! Most events happen soon. They are sorted by time, with the next event last, so that inserting a new event near the
//! end moves few others, which is cheaper than a heap. Events that happen later than [`NEAR`] others go into a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Time;
use crate::world::Event;

/// How many events are compared to insert another.
const NEAR: usize = 32;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Queue {
    soon: Vec<Entry>,
    later: BinaryHeap<Reverse<Entry>>,
    pushed: u64,
}

/// An event, ordered by its time and then by the order of scheduling.
#[derive(Clone, Copy, Debug)]
struct Entry(Time, u64, Event);

impl Entry {
    fn place(&self) -> (Time, u64) {
        (self.0, self.1)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Entry {}

impl Queue {
    /// Adds an event after every event that was scheduled earlier for the same time.
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.pushed += 1;
        let entry = Entry(at, self.pushed, event);
        let near = self.soon.len().saturating_sub(NEAR);
        let later = self.soon[near..].iter().rposition(|other| other.0 > at);
        match later {
            Some(later) => self.soon.insert(near + later + 1, entry),
            None if near == 0 => self.soon.insert(0, entry),
            None => self.later.push(Reverse(entry)),
        }
    }

    /// Returns when the next event happens.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let later = self.later.peek().map(|Reverse(entry)| entry.0);
        let soon = self.soon.last().map(|entry| entry.0);
        soon.into_iter().chain(later).min()
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        let later = self.later.peek().map(|Reverse(entry)| entry);
        let soon = self.soon.last();
        let is_soon = soon.is_some_and(|soon| later.is_none_or(|later| soon < later));
        let entry = match is_soon {
            true => self.soon.pop(),
            false => self.later.pop().map(|Reverse(entry)| entry),
        };
        entry.map(|Entry(at, _, event)| (at, event))
    }
}

#[test]
fn events_at_one_time_happen_in_the_order_they_were_scheduled() {
    let mut queue = Queue::default();
    for (server, at) in [5, 7, 5, 9, 1, 7].into_iter().enumerate() {
        queue.push(at, Event::Serve(server));
    }
    let mut happened = Vec::new();
    while let Some((at, Event::Serve(server))) = queue.pop() {
        happened.push((at, server));
        assert!(queue.next_at().is_none_or(|next| at <= next));
    }
    assert_eq!(happened, [(1, 4), (5, 0), (5, 2), (7, 1), (7, 5), (9, 3)]);
}

/// The queue returns any schedule in the order of a stable sort.
#[test]
fn a_distant_event_happens_in_its_turn() {
    let mut queue = Queue::default();
    let mut arranged = Vec::new();
    for server in 0..5_000 {
        let at = (server as Time).wrapping_mul(0x9e37_79b9) % 701;
        queue.push(at, Event::Serve(server));
        arranged.push((at, server));
    }
    arranged.sort_by_key(|(at, _)| *at);
    for (at, server) in arranged {
        assert_eq!(queue.next_at(), Some(at));
        let next = queue.pop();
        assert!(
            matches!(next, Some((when, Event::Serve(which))) if (when, which) == (at, server)),
            "{next:?}"
        );
    }
    assert!(queue.pop().is_none());
}
