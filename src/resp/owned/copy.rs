//! Copies of replies that borrow nothing, and of these copies.

use alloc::vec::Vec;

use bytes::Bytes;

use super::super::decode::Frame;
use super::super::part::{Attributes, Part, Shape};
use super::super::value::{Element, Value};
use super::{Attributed, OwnedItems, OwnedPairs, OwnedValue, Walk};

#[doc(hidden)]
impl Value<'_> {
    /// Returns a copy that borrows nothing. Attributes of nested values are left out: see
    /// [`Element::to_owned`].
    ///
    /// ```
    /// use shearline::internals::resp::{OwnedValue, Value};
    ///
    /// assert_eq!(Value::Bulk(b"token").to_owned(), OwnedValue::bulk(b"token"));
    /// ```
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        copy(*self, Attributes::Skipped)
    }
}

#[doc(hidden)]
impl Element<'_> {
    /// Returns a copy that borrows nothing, with all attributes at every depth:
    /// [`OwnedValue::Attributed`] where there are any.
    ///
    /// ```
    /// use shearline::internals::resp::{Element, OwnedValue, Value};
    ///
    /// let element = Element { attributes: None, value: Value::Integer(1) };
    /// assert_eq!(element.to_owned(), OwnedValue::Integer(1));
    /// ```
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        copy_element(*self)
    }
}

#[doc(hidden)]
impl Frame<'_> {
    /// Returns a copy of the reply that borrows nothing, with all its attributes:
    /// [`OwnedValue::Attributed`] where there are any. Without them: `frame.value.to_owned()`.
    ///
    /// ```
    /// use shearline::internals::resp::{Decoder, Limits, OwnedValue};
    ///
    /// let mut decoder = Decoder::new(Limits::default());
    /// let frame = decoder.decode(b"|1\r\n+ttl\r\n:9\r\n+OK\r\n")?.expect("complete");
    /// let ttl = (OwnedValue::simple("ttl"), OwnedValue::Integer(9));
    /// assert_eq!(frame.to_owned(), OwnedValue::attributed([ttl], OwnedValue::simple("OK")));
    /// assert_eq!(frame.value.to_owned(), OwnedValue::simple("OK"));
    /// # Ok::<(), shearline::resp::DecodeError>(())
    /// ```
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        copy_element(self.element())
    }
}

/// Copies all that is inside without a call for each level of nesting.
impl Clone for OwnedItems {
    fn clone(&self) -> Self {
        if self.is_flat() {
            return self.to_vec().into();
        }
        let mut building = Building::default();
        building.open(Shape::Array, self.len());
        let copy = Walk::new(self).find_map(|value| match value.part() {
            Part::Scalar(_) => building.put(value.clone()),
            Part::Open(shape, values) => building.open(shape, values),
        });
        match copy {
            Some(OwnedValue::Array(items)) => items,
            _ => unreachable!("all values of an array were put into it"),
        }
    }
}

/// Apart from [`Copying`], so that a scalar costs nothing but its bytes.
#[inline]
fn copy(value: Value<'_>, attributes: Attributes) -> OwnedValue {
    match copy_scalar(value) {
        Some(copy) => copy,
        None => Copying::default().complete(value, attributes),
    }
}

#[inline]
fn copy_element(element: Element<'_>) -> OwnedValue {
    match element.attributes {
        None => copy(element.value, Attributes::Kept),
        Some(pairs) => {
            let mut copying = Copying::default();
            copying.part(Part::Open(Shape::Attributed, pairs.len() * 2 + 1));
            copying.parts(pairs.parts(Attributes::Kept));
            copying.complete(element.value, Attributes::Kept)
        }
    }
}

/// Returns `None` for an aggregate.
#[inline(always)]
fn copy_scalar(value: Value<'_>) -> Option<OwnedValue> {
    let bytes = Bytes::copy_from_slice;
    Some(match value {
        Value::Simple(text) => OwnedValue::Simple(bytes(text)),
        Value::Error(text) => OwnedValue::Error(bytes(text)),
        Value::Integer(integer) => OwnedValue::Integer(integer),
        Value::Bulk(text) => OwnedValue::Bulk(bytes(text)),
        Value::Null => OwnedValue::Null,
        Value::Double(double) => OwnedValue::Double(double),
        Value::Boolean(boolean) => OwnedValue::Boolean(boolean),
        Value::BigNumber(digits) => OwnedValue::BigNumber(bytes(digits)),
        Value::BulkError(text) => OwnedValue::BulkError(bytes(text)),
        Value::Verbatim { format, text } => OwnedValue::Verbatim {
            format,
            text: bytes(text),
        },
        Value::Array(_) | Value::Map(_) | Value::Set(_) | Value::Push(_) => return None,
    })
}

/// A copy of a reply that is not complete yet.
#[derive(Default)]
struct Copying {
    building: Building,
}

impl Copying {
    /// Copies the value that is still lacking.
    ///
    /// There is less inside it than it announced if the caller of the decoder changed the bytes; a
    /// wrong answer is then as good as any.
    fn complete(&mut self, value: Value<'_>, attributes: Attributes) -> OwnedValue {
        self.parts(value.parts(attributes))
            .unwrap_or(OwnedValue::Null)
    }

    /// Takes part after part until the copy is complete.
    fn parts<'a>(&mut self, mut parts: impl Iterator<Item = Part<'a>>) -> Option<OwnedValue> {
        parts.find_map(|part| self.part(part))
    }

    fn part(&mut self, part: Part<'_>) -> Option<OwnedValue> {
        match (part, self.building.open.last_mut()) {
            (Part::Scalar(value), _) => {
                let copy = copy_scalar(value)?;
                self.building.put(copy)
            }
            // Several in a row are one.
            (Part::Open(Shape::Attributed, values), Some(open))
                if open.shape == Shape::Attributed && open.left == 1 =>
            {
                open.left = values;
                None
            }
            (Part::Open(shape, values), _) => self.building.open(shape, values),
        }
    }
}

/// A value that lacks some of those inside it.
#[derive(Default)]
struct Building {
    /// The aggregates that lack values, each inside the one before it.
    open: Vec<Open>,
}

struct Open {
    shape: Shape,
    values: Vec<OwnedValue>,
    /// Values that it lacks.
    left: usize,
}

/// For so many values room is made as soon as they are announced.
const RESERVED: usize = 64;

impl Building {
    /// Begins an aggregate of so many values. Returns the whole value if that is complete.
    fn open(&mut self, shape: Shape, left: usize) -> Option<OwnedValue> {
        if left == 0 {
            return self.put(wrap(shape, OwnedItems::default()));
        }
        let values = Vec::with_capacity(left.min(RESERVED));
        self.open.push(Open {
            shape,
            values,
            left,
        });
        None
    }

    /// Puts a value that is complete into the innermost aggregate, and this into the one around
    /// it if it was the last one, and so on. The outermost is the whole value.
    fn put(&mut self, value: OwnedValue) -> Option<OwnedValue> {
        let mut value = value;
        while let Some(open) = self.open.last_mut() {
            if open.values.len() == open.values.capacity() {
                // Twice as many places, but no more than there are values: none stays unused.
                open.values.reserve_exact(open.left.min(open.values.len()));
            }
            open.values.push(value);
            open.left -= 1;
            if open.left > 0 {
                return None;
            }
            let Open { shape, values, .. } = self.open.pop()?;
            value = wrap(shape, values.into());
        }
        Some(value)
    }
}

fn wrap(shape: Shape, items: OwnedItems) -> OwnedValue {
    match shape {
        Shape::Array => OwnedValue::Array(items),
        Shape::Map => OwnedValue::Map(OwnedPairs(items)),
        Shape::Set => OwnedValue::Set(items),
        Shape::Push => OwnedValue::Push(items),
        Shape::Attributed => OwnedValue::Attributed(Attributed(items)),
    }
}
