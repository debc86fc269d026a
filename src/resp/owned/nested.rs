//! What is inside aggregates. No other types hold values, so that everything that goes from a value
//! to those inside it passes here: being dropped. (Copies are made in `copy`.)

use alloc::vec::{IntoIter, Vec};
use core::iter::Map;
use core::mem::take;
use core::ops::Deref;
use core::slice::Iter;

use super::OwnedValue;

/// The values inside an array, a set or a push: a slice of them.
///
/// ```
/// use shearline::internals::resp::OwnedValue;
///
/// let OwnedValue::Array(items) = OwnedValue::array([OwnedValue::Integer(1), OwnedValue::Null])
/// else {
///     panic!("an array")
/// };
/// assert_eq!(items[1], OwnedValue::Null);
/// for item in &items {
///     assert!(*item == OwnedValue::Null || *item == OwnedValue::Integer(1));
/// }
/// assert_eq!(items.into_iter().next(), Some(OwnedValue::Integer(1)));
/// ```
#[derive(Default)]
pub struct OwnedItems(Vec<OwnedValue>);

impl OwnedItems {
    /// Returns the values as the vector in which they were kept.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<OwnedValue> {
        take(&mut self.0)
    }

    /// Bytes of memory that it holds for values, at every depth.
    #[cfg(test)]
    pub(in super::super) fn memory(&self) -> usize {
        let inside = self.iter().filter_map(OwnedValue::items).map(Self::memory);
        self.0.capacity() * size_of::<OwnedValue>() + inside.sum::<usize>()
    }

    /// Returns `true` if no aggregate is inside.
    pub(super) fn is_flat(&self) -> bool {
        self.iter().all(|value| value.items().is_none())
    }

    /// Takes out the contents of the aggregates in here, unless they are flat.
    fn take_nested(&mut self, taken: &mut Vec<Self>) {
        let aggregates = self.0.iter_mut().filter_map(OwnedValue::items_mut);
        taken.extend(aggregates.filter(|items| !items.is_flat()).map(take));
    }
}

/// Drops all that is inside without a call for each level of nesting: what is nested is taken out
/// first.
impl Drop for OwnedItems {
    fn drop(&mut self) {
        let mut taken = Vec::new();
        self.take_nested(&mut taken);
        while let Some(mut items) = taken.pop() {
            items.take_nested(&mut taken);
        }
    }
}

impl Deref for OwnedItems {
    type Target = [OwnedValue];

    fn deref(&self) -> &[OwnedValue] {
        &self.0
    }
}

impl<'v> IntoIterator for &'v OwnedItems {
    type Item = &'v OwnedValue;
    type IntoIter = Iter<'v, OwnedValue>;

    fn into_iter(self) -> Iter<'v, OwnedValue> {
        self.iter()
    }
}

impl IntoIterator for OwnedItems {
    type Item = OwnedValue;
    type IntoIter = IntoIter<OwnedValue>;

    fn into_iter(self) -> IntoIter<OwnedValue> {
        self.into_vec().into_iter()
    }
}

impl From<Vec<OwnedValue>> for OwnedItems {
    fn from(values: Vec<OwnedValue>) -> Self {
        Self(values)
    }
}

impl FromIterator<OwnedValue> for OwnedItems {
    fn from_iter<I: IntoIterator<Item = OwnedValue>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// The keys and values of a map.
// Flat, so that what is inside of any aggregate is one slice.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct OwnedPairs(pub(in super::super) OwnedItems);

impl OwnedPairs {
    /// Returns how many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// Returns `true` if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&OwnedValue, &OwnedValue)> {
        pairs(&self.0)
    }
}

impl<'v> IntoIterator for &'v OwnedPairs {
    type Item = (&'v OwnedValue, &'v OwnedValue);
    type IntoIter = PairsIter<'v>;

    fn into_iter(self) -> PairsIter<'v> {
        pairs(&self.0)
    }
}

impl FromIterator<(OwnedValue, OwnedValue)> for OwnedPairs {
    fn from_iter<I: IntoIterator<Item = (OwnedValue, OwnedValue)>>(pairs: I) -> Self {
        let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]);
        Self(flat.collect())
    }
}

/// A value, and what is said about it.
///
/// ```
/// use shearline::internals::resp::{Attributed, OwnedValue};
///
/// let ttl = (OwnedValue::simple("ttl"), OwnedValue::Integer(9));
/// let attributed = Attributed::new([ttl], OwnedValue::Null);
/// assert_eq!(attributed.attributes().len(), 1);
/// assert_eq!(attributed.value(), &OwnedValue::Null);
/// ```
// The attributes and then the value, in the order in which they are sent.
#[derive(Clone, Eq, PartialEq)]
pub struct Attributed(pub(in super::super) OwnedItems);

impl Attributed {
    /// A value, and the attributes that are said about it.
    #[must_use]
    pub fn new(
        attributes: impl IntoIterator<Item = (OwnedValue, OwnedValue)>,
        value: OwnedValue,
    ) -> Self {
        let OwnedPairs(mut items) = attributes.into_iter().collect();
        items.0.push(value);
        Self(items)
    }

    /// Returns the attributes. Several that were sent in a row are one here.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&OwnedValue, &OwnedValue)> {
        pairs(&self.0)
    }

    /// Returns what they are said about.
    #[must_use]
    pub fn value(&self) -> &OwnedValue {
        self.0.last().expect("the value is behind its attributes")
    }
}

type PairsIter<'v> =
    Map<Iter<'v, [OwnedValue; 2]>, fn(&'v [OwnedValue; 2]) -> (&'v OwnedValue, &'v OwnedValue)>;

/// Returns what lies flat as pairs; a value behind them is left out.
fn pairs(flat: &[OwnedValue]) -> PairsIter<'_> {
    let (pairs, _) = flat.as_chunks();
    pairs.iter().map(|[key, value]| (key, value))
}
