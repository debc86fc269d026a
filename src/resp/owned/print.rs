//! The `Debug` of values that own their contents.

use core::fmt::{Debug, Formatter, Result};
use core::iter::once;
use core::slice::from_ref;

use super::super::part::{Part, Shape};
use super::super::print::{LIST, PAIRS, Printer};
use super::{Attributed, OwnedItems, OwnedPairs, OwnedValue, Walk};

impl Debug for OwnedValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).parts(owned(from_ref(self)))
    }
}

impl Debug for OwnedItems {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).all(&LIST, self.len(), owned(self))
    }
}

impl Debug for OwnedPairs {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).all(&PAIRS, self.len() * 2, owned(&self.0))
    }
}

impl Debug for Attributed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let attributed = Part::Open(Shape::Attributed, self.0.len());
        Printer::new(f).parts(once(attributed).chain(owned(&self.0)))
    }
}

fn owned(values: &[OwnedValue]) -> impl Iterator<Item = Part<'_>> {
    Walk::new(values).map(OwnedValue::part)
}
