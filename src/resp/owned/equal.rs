//! Equality of values that own their contents.

use core::iter::zip;
use core::slice::from_ref;

use super::super::equal::is_like;
use super::{OwnedItems, OwnedValue, Walk};

impl PartialEq for OwnedValue {
    fn eq(&self, other: &Self) -> bool {
        are_equal(from_ref(self), from_ref(other))
    }
}

impl Eq for OwnedValue {}

impl PartialEq for OwnedItems {
    fn eq(&self, other: &Self) -> bool {
        are_equal(self, other)
    }
}

impl Eq for OwnedItems {}

fn are_equal(some: &[OwnedValue], others: &[OwnedValue]) -> bool {
    some.len() == others.len()
        && zip(Walk::new(some), Walk::new(others))
            .all(|(one, other)| is_like(one.part(), other.part()))
}
