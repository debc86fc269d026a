//! Operations in the order in which they came. Each can leave at any time.
//!
//! All lines share one memory for those who wait, which grows to the most that have waited at once. Each
//! call takes constant time.

use crate::invariant::Must;
use crate::keys::{OperationKey, WaiterKey};
use crate::slab::Slab;

/// One line; see the [module](self).
#[derive(Debug)]
pub(super) struct Line {
    first: Option<WaiterKey>,
    last: Option<WaiterKey>,
}

/// Those who wait, in all lines.
#[derive(Debug)]
pub(super) struct Waiters(Slab<Waiter>);

#[derive(Debug)]
struct Waiter {
    operation: OperationKey,
    before: Option<WaiterKey>,
    behind: Option<WaiterKey>,
}

impl Line {
    pub(super) const EMPTY: Self = Self {
        first: None,
        last: None,
    };

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl Waiters {
    /// Nobody waits yet.
    pub(super) const fn new() -> Self {
        Self(Slab::new())
    }

    /// Puts `operation` behind all others of `line`.
    pub(super) fn push(&mut self, line: &mut Line, operation: OperationKey) -> WaiterKey {
        let before = line.last;
        let waiter = WaiterKey(self.0.insert(Waiter {
            operation,
            before,
            behind: None,
        }));
        self.join(line, before, Some(waiter));
        line.last = Some(waiter);
        waiter
    }

    /// Takes out the first of `line`, and returns its operation.
    pub(super) fn pop(&mut self, line: &mut Line) -> Option<OperationKey> {
        self.remove(line, line.first?)
    }

    /// Takes `waiter` out of `line`, if it is still there, and returns its operation.
    pub(super) fn remove(&mut self, line: &mut Line, waiter: WaiterKey) -> Option<OperationKey> {
        let Waiter {
            operation,
            before,
            behind,
        } = self.0.remove(waiter.0)?;
        self.join(line, before, behind);
        match behind {
            None => line.last = before,
            Some(behind) => {
                if let Some(behind) = self.0.get_mut(behind.0).must() {
                    behind.before = before;
                }
            }
        }
        Some(operation)
    }

    /// What follows `before`, or comes first, is `behind`.
    fn join(&mut self, line: &mut Line, before: Option<WaiterKey>, behind: Option<WaiterKey>) {
        match before {
            None => line.first = behind,
            Some(before) => {
                if let Some(before) = self.0.get_mut(before.0).must() {
                    before.behind = behind;
                }
            }
        }
    }
}

#[cfg(test)]
impl Waiters {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the operations of `line`, the first first, which it asserts to be whole.
    pub(super) fn of(&self, line: &Line) -> alloc::vec::Vec<OperationKey> {
        let (mut next, mut before) = (line.first, None);
        let mut operations = alloc::vec::Vec::new();
        while let Some(at) = next {
            let waiter = self.0.get(at.0).expect("it waits");
            assert_eq!(waiter.before, before);
            operations.push(waiter.operation);
            (next, before) = (waiter.behind, next);
        }
        assert_eq!(line.last, before);
        operations
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::slab::Key;

    fn operation(number: u32) -> OperationKey {
        OperationKey(Key::from_bits(u64::from(number) | 1 << 32).expect("a key"))
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        Pop,
        /// Removes one of those that were ever put in, which may be gone.
        Remove(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Push),
            1 => Just(Step::Pop),
            2 => (0_usize..40).prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn lines_behave_as_lists_that_know_nothing_of_each_other(
            steps in prop::collection::vec((0_usize..2, step()), 0..80),
        ) {
            let mut waiters = Waiters::new();
            let mut lines = [Line::EMPTY, Line::EMPTY];
            let mut model: [Vec<(WaiterKey, OperationKey)>; 2] = [Vec::new(), Vec::new()];
            let mut ever: [Vec<WaiterKey>; 2] = [Vec::new(), Vec::new()];
            for (number, (at, step)) in (0..).zip(steps) {
                let (line, model) = (&mut lines[at], &mut model[at]);
                match step {
                    Step::Push => {
                        let waiter = waiters.push(line, operation(number));
                        model.push((waiter, operation(number)));
                        ever[at].push(waiter);
                    }
                    Step::Pop => {
                        let first = (!model.is_empty()).then(|| model.remove(0).1);
                        prop_assert_eq!(waiters.pop(line), first);
                    }
                    Step::Remove(which) => {
                        if let Some(waiter) = ever[at].get(which).copied() {
                            let place = model.iter().position(|(key, _)| *key == waiter);
                            let removed = place.map(|place| model.remove(place).1);
                            prop_assert_eq!(waiters.remove(line, waiter), removed);
                        }
                    }
                }
                prop_assert_eq!(line.is_empty(), model.is_empty());
                let expected: Vec<_> = model.iter().map(|(_, operation)| *operation).collect();
                prop_assert_eq!(waiters.of(line), expected);
            }
            let left = model[0].len() + model[1].len();
            prop_assert_eq!((waiters.len(), waiters.is_empty()), (left, left == 0));
        }
    }
}
