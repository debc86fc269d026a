//! Copies of replies that borrow nothing.

use alloc::vec::Vec;

use bytes::Bytes;

use super::super::part::{Attributes, Part};
use super::super::value::{Element, Value};
use super::{Attributed, OwnedItems, OwnedPairs, OwnedValue};

impl Value<'_> {
    /// A copy that borrows nothing. Attributes of nested values are left out: see
    /// [`Element::to_owned`].
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        Copying::new(None).complete(*self, Attributes::Skipped)
    }

    /// Like [`to_owned`](Self::to_owned), but strings that lie in `buffer` are cheap slices of it
    /// and not copied. `buffer` stays in memory as long as any of them.
    #[must_use]
    pub fn share(&self, buffer: &Bytes) -> OwnedValue {
        Copying::new(Some(buffer)).complete(*self, Attributes::Skipped)
    }
}

impl Element<'_> {
    /// A copy that borrows nothing, with all attributes at every depth.
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        let mut copying = Copying::new(None);
        if let Some(pairs) = self.attributes {
            copying.attributes(pairs.len());
            copying.parts(pairs.parts(Attributes::Kept));
        }
        copying.complete(self.value, Attributes::Kept)
    }
}

/// A copy in the making.
struct Copying<'b> {
    /// Strings in here are shared.
    buffer: Option<&'b Bytes>,
    /// The aggregates that lack values, each inside the one before it.
    open: Vec<Open>,
}

struct Open {
    /// What becomes of the values.
    wrap: fn(OwnedItems) -> OwnedValue,
    values: Vec<OwnedValue>,
    /// Values that it lacks.
    left: usize,
    /// Whether the last of them is what the others are said about.
    attributes: bool,
}

/// For so many values room is made as soon as they are announced.
const RESERVED: usize = 64;

impl<'b> Copying<'b> {
    const fn new(buffer: Option<&'b Bytes>) -> Self {
        Self {
            buffer,
            open: Vec::new(),
        }
    }

    /// Copies the value that is still lacking.
    ///
    /// There is less inside it than it announced if the caller of the decoder changed the bytes; a
    /// wrong answer is then as good as any.
    fn complete(&mut self, value: Value<'_>, attributes: Attributes) -> OwnedValue {
        let copy = self.value(value);
        let copy = copy.or_else(|| self.parts(value.inside(attributes)));
        copy.unwrap_or(OwnedValue::Null)
    }

    /// Takes part after part until the copy is complete.
    fn parts<'a>(&mut self, mut parts: impl Iterator<Item = Part<'a>>) -> Option<OwnedValue> {
        parts.find_map(|part| match part {
            Part::Value(value) => self.value(value),
            Part::Attributes(pairs) => self.attributes(pairs),
        })
    }

    fn value(&mut self, value: Value<'_>) -> Option<OwnedValue> {
        let map = |items| OwnedValue::Map(OwnedPairs(items));
        let scalar = match value {
            Value::Array(items) => return self.begin(OwnedValue::Array, items.len()),
            Value::Set(items) => return self.begin(OwnedValue::Set, items.len()),
            Value::Push(items) => return self.begin(OwnedValue::Push, items.len()),
            Value::Map(pairs) => return self.begin(map, pairs.len() * 2),
            Value::Simple(text) => OwnedValue::Simple(self.bytes(text)),
            Value::Error(text) => OwnedValue::Error(self.bytes(text)),
            Value::Integer(integer) => OwnedValue::Integer(integer),
            Value::Bulk(text) => OwnedValue::Bulk(self.bytes(text)),
            Value::Null => OwnedValue::Null,
            Value::Double(double) => OwnedValue::Double(double),
            Value::Boolean(boolean) => OwnedValue::Boolean(boolean),
            Value::BigNumber(digits) => OwnedValue::BigNumber(self.bytes(digits)),
            Value::BulkError(text) => OwnedValue::BulkError(self.bytes(text)),
            Value::Verbatim { format, text } => OwnedValue::Verbatim {
                format,
                text: self.bytes(text),
            },
        };
        self.put(scalar)
    }

    fn attributes(&mut self, pairs: usize) -> Option<OwnedValue> {
        match self.open.last_mut() {
            // Several in a row are one.
            Some(open) if open.attributes && open.left == 1 => open.left += pairs * 2,
            Some(_) | None => {
                let wrap = |items| OwnedValue::Attributed(Attributed(items));
                self.open(wrap, pairs * 2 + 1, true);
            }
        }
        None
    }

    /// An aggregate of so many values begins.
    fn begin(&mut self, wrap: fn(OwnedItems) -> OwnedValue, values: usize) -> Option<OwnedValue> {
        if values == 0 {
            return self.put(wrap(OwnedItems::default()));
        }
        self.open(wrap, values, false);
        None
    }

    fn open(&mut self, wrap: fn(OwnedItems) -> OwnedValue, left: usize, attributes: bool) {
        self.open.push(Open {
            wrap,
            values: Vec::with_capacity(left.min(RESERVED)),
            left,
            attributes,
        });
    }

    /// Puts a value that is complete into the innermost aggregate, and this into the one around
    /// it if it was the last one, and so on. The outermost is the copy.
    fn put(&mut self, value: OwnedValue) -> Option<OwnedValue> {
        let mut value = value;
        while let Some(open) = self.open.last_mut() {
            open.values.push(value);
            open.left -= 1;
            if open.left > 0 {
                return None;
            }
            let Open { wrap, values, .. } = self.open.pop()?;
            value = wrap(values.into());
        }
        Some(value)
    }

    fn bytes(&self, text: &[u8]) -> Bytes {
        match self.buffer {
            Some(buffer)
                if buffer.as_ptr_range().start <= text.as_ptr()
                    && text.as_ptr_range().end <= buffer.as_ptr_range().end =>
            {
                buffer.slice_ref(text)
            }
            Some(_) | None => Bytes::copy_from_slice(text),
        }
    }
}
