//! A reply as a flat sequence, as it was sent: each value before what is inside it.
//!
//! For work on all of a reply, at every depth, without a call for each level.

use core::iter::from_fn;
use core::mem::take;

use super::token::Kind;
use super::value::{Items, Pairs, Value};
use super::view::View;

/// One value of a reply, without what is inside it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// A scalar; or an aggregate, and its elements come next, of pairs each key before its value.
    Value(Value<'a>),
    /// So many pairs that are said about a value. They come next, and then the value; or, between
    /// the two, more of the same.
    Attributes(usize),
}

/// Whether attributes are among the parts, or passed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Attributes {
    Kept,
    Skipped,
}

impl<'a> Value<'a> {
    /// Returns everything that is inside an aggregate; nothing for a scalar.
    pub(super) fn inside(self, attributes: Attributes) -> impl Iterator<Item = Part<'a>> {
        let items = self.as_items().map(|items| items.parts(attributes));
        let pairs = self.as_pairs().map(|pairs| pairs.parts(attributes));
        items
            .into_iter()
            .flatten()
            .chain(pairs.into_iter().flatten())
    }
}

impl<'a> Items<'a> {
    pub(super) const fn parts(self, attributes: Attributes) -> Parts<'a> {
        Parts {
            view: self.view,
            owed: self.len(),
            attributes,
        }
    }
}

impl<'a> Pairs<'a> {
    pub(super) fn parts(self, attributes: Attributes) -> impl Iterator<Item = Part<'a>> {
        self.blocks().flat_map(move |(view, pairs)| Parts {
            view,
            owed: pairs * 2,
            attributes,
        })
    }

    /// Returns where pairs lie behind each other, and how many: all of a map, or those behind each
    /// header of attributes.
    fn blocks(self) -> impl Iterator<Item = (View<'a>, usize)> {
        let (mut view, mut left) = (self.view, self.len());
        from_fn(move || {
            if left == 0 || !self.attributes {
                return (left > 0).then_some((view, take(&mut left)));
            }
            let header = view.token().filter(|token| token.kind == Kind::Attribute)?;
            let (inside, pairs) = (view.inside(header), header.elements() as usize / 2);
            view.skip(header)?;
            left = left.saturating_sub(pairs);
            Some((inside, pairs))
        })
    }
}

/// The parts of elements that lie behind each other.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    view: View<'a>,
    /// Elements that are still to come, at all levels.
    owed: usize,
    attributes: Attributes,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.owed == 0 {
            return None;
        }
        if let Some(value) = self.view.direct() {
            self.owed -= 1;
            return Some(Part::Value(value));
        }
        let mut token = self.view.token()?;
        while token.kind == Kind::Attribute && self.attributes == Attributes::Skipped {
            self.view.skip(token)?;
            token = self.view.token()?;
        }
        let inside = self.view.inside(token);
        let part = if token.kind == Kind::Attribute {
            Part::Attributes(token.elements() as usize / 2)
        } else {
            self.owed -= 1;
            Part::Value(self.view.read(token)?)
        };
        if !token.kind.is_scalar() {
            self.owed += token.elements() as usize;
        }
        self.view = inside;
        Some(part)
    }
}
