//! A value and all that is inside it, one after the other.

use alloc::vec::Vec;
use core::mem::replace;
use core::slice::Iter;

use super::OwnedValue;

/// Goes through values in the order in which they are sent: each before what is inside it.
///
/// The values that are still to come wait on a stack of its own. A value that is the last one
/// inside another needs no place on it, nor does a flat one.
#[derive(Debug)]
pub(in super::super) struct Walk<'v> {
    rest: Iter<'v, OwnedValue>,
    /// What comes behind the values that were entered.
    behind: Vec<Iter<'v, OwnedValue>>,
}

impl<'v> Walk<'v> {
    pub(in super::super) fn new(values: &'v [OwnedValue]) -> Self {
        Self {
            rest: values.iter(),
            behind: Vec::new(),
        }
    }

    /// Returns the next value. What is inside it comes next only if it is [entered](Self::enter).
    pub(in super::super) fn step(&mut self) -> Option<&'v OwnedValue> {
        loop {
            if let Some(value) = self.rest.next() {
                return Some(value);
            }
            self.rest = self.behind.pop()?;
        }
    }

    /// Goes through these values before anything else.
    pub(in super::super) fn enter(&mut self, inside: &'v [OwnedValue]) {
        if inside.is_empty() {
            return;
        }
        let rest = replace(&mut self.rest, inside.iter());
        if rest.len() > 0 {
            self.behind.push(rest);
        }
    }
}

/// Every value, at every depth.
impl<'v> Iterator for Walk<'v> {
    type Item = &'v OwnedValue;

    fn next(&mut self) -> Option<&'v OwnedValue> {
        let value = self.step()?;
        self.enter(value.inside());
        Some(value)
    }
}
