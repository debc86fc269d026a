//! The elements of an aggregate, read one after the other from the bytes that were found valid.

use super::direct::{Longest, compared, measured};
use super::token::{Kind, Token};
use super::value::{Element, Items, Pairs, Value};
use super::view::View;

impl<'a> Items<'a> {
    /// Returns the values in order. Attributes before one of them are passed over.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + use<'a> {
        Values {
            view: self.view,
            left: self.len,
        }
    }

    /// Returns the values in order, each with its attributes.
    #[cfg(test)]
    pub(crate) const fn elements(&self) -> Elements<'a> {
        Elements {
            view: self.view,
            left: self.len,
        }
    }
}

/// The values of an [`Items`].
#[derive(Clone, Debug)]
struct Values<'a> {
    view: View<'a>,
    left: u32,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.view.value()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.at_most(self.left as usize);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Values<'_> {}

/// The values of an [`Items`] with their attributes.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    view: View<'a>,
    left: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.view.element()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.at_most(self.left as usize);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

impl<'a> Pairs<'a> {
    /// Returns the pairs in the order they were sent. Attributes of keys and values are passed
    /// over.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        PairValues(self.elements())
    }

    /// Returns the pairs in the order they were sent, keys and values with their attributes.
    pub(crate) const fn elements(&self) -> PairElements<'a> {
        let block = if self.attributes { 0 } else { self.len };
        PairElements {
            view: self.view,
            block,
            left: self.len,
        }
    }

    /// Returns the first value whose key is a string with these bytes. Looks at one pair after the
    /// other.
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

/// The keys and values of a [`Pairs`].
#[derive(Clone, Debug)]
struct PairValues<'a>(PairElements<'a>);

impl<'a> Iterator for PairValues<'a> {
    type Item = (Value<'a>, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.begin_pair()?;
        let view = &mut self.0.view;
        Some((view.value()?, view.value()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for PairValues<'_> {}

/// The keys and values of a [`Pairs`] with their attributes.
#[derive(Clone, Debug)]
pub struct PairElements<'a> {
    view: View<'a>,
    /// Pairs left until the next header of an attribute, or the end of the map.
    block: u32,
    /// Pairs left in all.
    left: u32,
}

impl PairElements<'_> {
    /// Counts the next pair and moves before it: behind the header, if these are attributes.
    #[inline]
    fn begin_pair(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        while self.block == 0 {
            let header = self.view.token()?;
            if header.kind != Kind::Attribute {
                return None;
            }
            self.block = header.elements() / 2;
            self.view = self.view.inside(header);
        }
        self.block -= 1;
        Some(())
    }
}

impl<'a> Iterator for PairElements<'a> {
    type Item = (Element<'a>, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.begin_pair()?;
        Some((self.view.element()?, self.view.element()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.at_most(self.left as usize * 2) / 2;
        (left, Some(left))
    }
}

impl ExactSizeIterator for PairElements<'_> {}

impl<'a> View<'a> {
    /// Returns the first element with its attributes; the view moves behind it.
    ///
    /// The bytes were found valid, so `None` means that the caller of the decoder changed them
    /// between two calls; a wrong answer is then as good as any, a panic is not.
    pub(super) fn element(&mut self) -> Option<Element<'a>> {
        let attributed = *self;
        let mut attributes = None;
        let mut token = self.token()?;
        while token.kind == Kind::Attribute {
            // Several in a row are returned as one.
            let before = attributes.map_or(0, |pairs: Pairs<'_>| pairs.len);
            let len = before.saturating_add(token.elements() / 2);
            attributes = Some(Pairs {
                view: attributed,
                len,
                attributes: true,
            });
            self.skip(token)?;
            token = self.token()?;
        }
        let value = self.value_of(token)?;
        Some(Element { attributes, value })
    }

    /// Returns the first value; the view moves behind it.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Option<Value<'a>> {
        match self.direct() {
            None => self.any_value(),
            value => value,
        }
    }

    /// Returns the first value if it is a short scalar of the usual kinds; the view moves behind
    /// it.
    #[inline(always)]
    pub(super) fn direct(&mut self) -> Option<Value<'a>> {
        let (value, end) = compared(self.bytes, Longest::ANY)?;
        self.bytes = &self.bytes[end..];
        Some(value)
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
        self.value_of(token)
    }

    /// Returns the value that begins with this token; the view moves behind it.
    #[inline]
    fn value_of(&mut self, token: Token) -> Option<Value<'a>> {
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
            Kind::Map => Value::Map(Pairs {
                view,
                len: len / 2,
                attributes: false,
            }),
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
