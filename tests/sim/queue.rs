//! What is going to happen, in order.
//!
//! Sorted by time, the next event last. Most of what is arranged happens soon: its place is found
//! near the end, and little has to move. That is cheaper than a heap, although an event in the far
//! future costs as much as the queue is long.

use crate::clock::Time;
use crate::world::Event;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Queue(Vec<(Time, Event)>);

impl Queue {
    /// Behind everything that was arranged for the same time before.
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let later = self.0.iter().rposition(|(other, _)| *other > at);
        let place = later.map_or(0, |later| later + 1);
        self.0.insert(place, (at, event));
    }

    /// When something happens next.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.0.last().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        self.0.pop()
    }
}

#[test]
fn what_is_arranged_first_happens_first() {
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
