//! The elements of an aggregate, read one after another from valid bytes.

use super::direct::{Longest, compared, measured};
use super::token::{Kind, Token};
use super::value::{Items, Pairs, Value};
use super::view::View;

impl<'a> Items<'a> {
    /// Returns the values in order. Skips attributes.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + use<'a> {
        let mut view = self.view;
        (0..self.len).map(move |_| view.value())
    }

    /// Returns `true` if the bytes of each element equal `element`.
    #[inline]
    pub(crate) fn are_all<const N: usize>(&self, element: &[u8; N]) -> bool {
        let bytes = self.view.bytes.get(..N * self.len());
        bytes.is_some_and(|bytes| bytes.chunks_exact(N).all(|bytes| bytes == element))
    }
}

impl<'a> Pairs<'a> {
    /// Returns the pairs in the order of the reply. Skips attributes of keys and values.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        let mut view = self.view;
        (0..self.len).map(move |_| (view.value(), view.value()))
    }

    /// Returns the first value whose key is a string with these bytes. The search is linear.
    ///
    /// ```
    /// use shearline::resp::Inbox;
    ///
    /// let mut inbox = Inbox::default();
    /// let frame = inbox.next(&mut &b"%1\r\n$5\r\nproto\r\n:3\r\n"[..])?.expect("complete");
    /// let pairs = frame.value.as_pairs().expect("a map");
    /// assert_eq!(pairs.get(b"proto").and_then(|value| value.as_integer()), Some(3));
    /// # Ok::<(), shearline::resp::DecodeError>(())
    /// ```
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Value<'a>> {
        self.iter()
            .find(|(candidate, _)| candidate.as_bytes() == Some(key))
            .map(|(_, value)| value)
    }
}

impl<'a> View<'a> {
    /// Returns the first value, and moves the view past it.
    ///
    /// The decoder has checked the bytes. If a caller has changed the bytes since then, this function may return a
    /// wrong value, but must not panic.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Value<'a> {
        match compared(self.bytes, Longest::ANY) {
            None => self.any_value().unwrap_or(Value::Null),
            Some((value, end)) => {
                self.bytes = &self.bytes[end..];
                value
            }
        }
    }

    #[inline(never)]
    fn any_value(&mut self) -> Option<Value<'a>> {
        if let Some((value, end)) = measured(self.bytes, Longest::ANY) {
            self.bytes = &self.bytes[end..];
            return Some(value);
        }
        let mut token = self.token()?;
        while token.kind == Kind::Attribute {
            self.skip(token)?;
            token = self.token()?;
        }
        let value = self.read(token);
        self.skip(token)?;
        value
    }

    /// Returns the value that begins with this token.
    #[inline]
    pub(super) fn read(&self, token: Token) -> Option<Value<'a>> {
        let (view, len) = (self.inside(token), token.elements());
        Some(match token.kind {
            Kind::Array => Value::Array(Items { view, len }),
            Kind::Set => Value::Set(Items { view, len }),
            Kind::Push => Value::Push(Items { view, len }),
            Kind::Map => Value::Map(Pairs { view, len: len / 2 }),
            Kind::Simple
            | Kind::Error
            | Kind::Integer
            | Kind::Bulk
            | Kind::Null
            | Kind::Double
            | Kind::Boolean
            | Kind::BigNumber
            | Kind::BulkError
            | Kind::Verbatim
            | Kind::Attribute => return Value::scalar(token, self.bytes),
        })
    }
}
