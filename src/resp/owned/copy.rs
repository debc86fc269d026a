//! Copies of replies that borrow nothing.

use alloc::vec::Vec;

use bytes::Bytes;

use super::super::decode::Frame;
use super::super::part::{Attributes, Part};
use super::super::value::{Element, Value};
use super::{Attributed, OwnedItems, OwnedPairs, OwnedValue};

impl Value<'_> {
    /// Returns a copy that borrows nothing. Attributes of nested values are left out: see
    /// [`Element::to_owned`].
    ///
    /// ```
    /// use shearline::resp::{OwnedValue, Value};
    ///
    /// assert_eq!(Value::Bulk(b"token").to_owned(), OwnedValue::bulk(b"token"));
    /// ```
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        copy(*self, Attributes::Skipped, None)
    }

    /// Like [`to_owned`](Self::to_owned), but strings that lie in `buffer` are cheap slices of it
    /// and not copied. `buffer` stays in memory as long as any of them.
    ///
    /// It pays from strings of about 1 KiB on: a shorter one is copied as fast as it is counted,
    /// and keeps nothing else in memory.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use shearline::resp::{Decoder, Limits};
    ///
    /// let buffer = Bytes::from_static(b"$5\r\nhello\r\n");
    /// let mut decoder = Decoder::new(Limits::default());
    /// let frame = decoder.decode(&buffer)?.expect("complete");
    /// let kept = frame.value.share(&buffer);
    /// assert_eq!(kept, frame.value.to_owned());
    /// # Ok::<(), shearline::resp::DecodeError>(())
    /// ```
    #[must_use]
    pub fn share(&self, buffer: &Bytes) -> OwnedValue {
        copy(*self, Attributes::Skipped, Some(buffer))
    }
}

impl Element<'_> {
    /// Returns a copy that borrows nothing, with all attributes at every depth:
    /// [`OwnedValue::Attributed`] where there are any.
    ///
    /// ```
    /// use shearline::resp::{Element, OwnedValue, Value};
    ///
    /// let element = Element { attributes: None, value: Value::Integer(1) };
    /// assert_eq!(element.to_owned(), OwnedValue::Integer(1));
    /// ```
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        copy_element(*self, None)
    }

    /// Like [`to_owned`](Self::to_owned), but strings that lie in `buffer` are slices of it: see
    /// [`Value::share`].
    ///
    /// ```
    /// use bytes::Bytes;
    /// use shearline::resp::{Element, OwnedValue, Value};
    ///
    /// let buffer = Bytes::from_static(b"+hello\r\n");
    /// let element = Element { attributes: None, value: Value::Simple(&buffer[1..6]) };
    /// assert_eq!(element.share(&buffer), OwnedValue::simple("hello"));
    /// ```
    #[must_use]
    pub fn share(&self, buffer: &Bytes) -> OwnedValue {
        copy_element(*self, Some(buffer))
    }
}

impl Frame<'_> {
    /// Returns a copy of the reply that borrows nothing, with all its attributes:
    /// [`OwnedValue::Attributed`] where there are any. Without them: `frame.value.to_owned()`.
    ///
    /// ```
    /// use shearline::resp::{Decoder, Limits, OwnedValue};
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
        copy_element(self.element(), None)
    }

    /// Like [`to_owned`](Self::to_owned), but strings that lie in `buffer` are slices of it: see
    /// [`Value::share`].
    ///
    /// ```
    /// use bytes::Bytes;
    /// use shearline::resp::{Decoder, Limits, OwnedValue};
    ///
    /// let buffer = Bytes::from_static(b"$5\r\nhello\r\n");
    /// let mut decoder = Decoder::new(Limits::default());
    /// let frame = decoder.decode(&buffer)?.expect("complete");
    /// assert_eq!(frame.share(&buffer), OwnedValue::bulk(b"hello"));
    /// # Ok::<(), shearline::resp::DecodeError>(())
    /// ```
    #[must_use]
    pub fn share(&self, buffer: &Bytes) -> OwnedValue {
        copy_element(self.element(), Some(buffer))
    }
}

/// Apart from [`Copying`], so that a scalar costs nothing but its bytes.
#[inline]
fn copy(value: Value<'_>, attributes: Attributes, buffer: Option<&Bytes>) -> OwnedValue {
    match begin(value, buffer) {
        Begun::Complete(copy) => copy,
        Begun::Aggregate(..) => Copying::new(buffer).complete(value, attributes),
    }
}

#[inline]
fn copy_element(element: Element<'_>, buffer: Option<&Bytes>) -> OwnedValue {
    match element.attributes {
        None => copy(element.value, Attributes::Kept, buffer),
        Some(pairs) => {
            let mut copying = Copying::new(buffer);
            copying.attributes(pairs.len());
            copying.parts(pairs.parts(Attributes::Kept));
            copying.complete(element.value, Attributes::Kept)
        }
    }
}

/// How the values of an aggregate are copied.
type Wrap = fn(OwnedItems) -> OwnedValue;

/// A copy of one value, without what is inside it.
enum Begun {
    /// There is nothing inside.
    Complete(OwnedValue),
    /// So many values belong in it.
    Aggregate(Wrap, usize),
}

#[inline(always)]
fn begin(value: Value<'_>, buffer: Option<&Bytes>) -> Begun {
    let bytes = |text| copy_bytes(text, buffer);
    let (wrap, values): (Wrap, usize) = match value {
        Value::Array(items) => (OwnedValue::Array, items.len()),
        Value::Set(items) => (OwnedValue::Set, items.len()),
        Value::Push(items) => (OwnedValue::Push, items.len()),
        Value::Map(pairs) => (|items| OwnedValue::Map(OwnedPairs(items)), pairs.len() * 2),
        Value::Simple(text) => return Begun::Complete(OwnedValue::Simple(bytes(text))),
        Value::Error(text) => return Begun::Complete(OwnedValue::Error(bytes(text))),
        Value::Integer(integer) => return Begun::Complete(OwnedValue::Integer(integer)),
        Value::Bulk(text) => return Begun::Complete(OwnedValue::Bulk(bytes(text))),
        Value::Null => return Begun::Complete(OwnedValue::Null),
        Value::Double(double) => return Begun::Complete(OwnedValue::Double(double)),
        Value::Boolean(boolean) => return Begun::Complete(OwnedValue::Boolean(boolean)),
        Value::BigNumber(digits) => return Begun::Complete(OwnedValue::BigNumber(bytes(digits))),
        Value::BulkError(text) => return Begun::Complete(OwnedValue::BulkError(bytes(text))),
        Value::Verbatim { format, text } => {
            let text = bytes(text);
            return Begun::Complete(OwnedValue::Verbatim { format, text });
        }
    };
    match values {
        0 => Begun::Complete(wrap(OwnedItems::default())),
        _ => Begun::Aggregate(wrap, values),
    }
}

#[inline]
fn copy_bytes(text: &[u8], buffer: Option<&Bytes>) -> Bytes {
    match buffer {
        Some(buffer)
            if buffer.as_ptr_range().start <= text.as_ptr()
                && text.as_ptr_range().end <= buffer.as_ptr_range().end =>
        {
            buffer.slice_ref(text)
        }
        Some(_) | None => Bytes::copy_from_slice(text),
    }
}

/// A copy that is not complete yet.
struct Copying<'b> {
    /// Strings in here are shared.
    buffer: Option<&'b Bytes>,
    /// The aggregates that lack values, each inside the one before it.
    open: Vec<Open>,
}

struct Open {
    wrap: Wrap,
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
        match begin(value, self.buffer) {
            Begun::Complete(copy) => self.put(copy),
            Begun::Aggregate(wrap, values) => {
                self.open(wrap, values, false);
                None
            }
        }
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

    fn open(&mut self, wrap: Wrap, left: usize, attributes: bool) {
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
            if open.values.len() == open.values.capacity() {
                // Twice as many places, but no more than there are values: none stays unused.
                open.values.reserve_exact(open.left.min(open.values.len()));
            }
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
}
