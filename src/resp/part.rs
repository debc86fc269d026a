//! A value as a flat sequence, as it is sent: each value before what is inside it.
//!
//! For work on all of a value, at every depth, without a call for each level.

use core::iter::{from_fn, once};
use core::mem::take;

use super::token::Kind;
use super::value::{Items, Pairs, Value};
use super::view::View;

/// One value, without what is inside it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    Scalar(Value<'a>),
    /// So many values come next and are inside it; of pairs each key before its value.
    Open(Shape, usize),
}

/// The kinds of aggregates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    Array,
    Map,
    Set,
    Push,
    /// Pairs that are said about a value, and behind them the value. In a reply, more of the same may
    /// come before the value.
    Attributed,
}

/// Whether attributes are among the parts, or passed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Attributes {
    Kept,
    Skipped,
}

impl<'a> Value<'a> {
    pub(super) const fn part(self) -> Part<'a> {
        match self {
            Self::Array(items) => Part::Open(Shape::Array, items.len()),
            Self::Set(items) => Part::Open(Shape::Set, items.len()),
            Self::Push(items) => Part::Open(Shape::Push, items.len()),
            Self::Map(pairs) => Part::Open(Shape::Map, pairs.len() * 2),
            Self::Simple(_)
            | Self::Error(_)
            | Self::Integer(_)
            | Self::Bulk(_)
            | Self::Null
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::BigNumber(_)
            | Self::BulkError(_)
            | Self::Verbatim { .. } => Part::Scalar(self),
        }
    }

    /// Returns the value and everything that is inside it.
    pub(super) fn parts(self, attributes: Attributes) -> impl Iterator<Item = Part<'a>> {
        let items = self.as_items().map(|items| items.parts(attributes));
        let pairs = self.as_pairs().map(|pairs| pairs.parts(attributes));
        let inside = items.into_iter().flatten();
        once(self.part()).chain(inside.chain(pairs.into_iter().flatten()))
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
            return Some(Part::Scalar(value));
        }
        let mut token = self.view.token()?;
        while token.kind == Kind::Attribute && self.attributes == Attributes::Skipped {
            self.view.skip(token)?;
            token = self.view.token()?;
        }
        let elements = token.elements() as usize;
        let part = if token.kind == Kind::Attribute {
            self.owed += elements;
            Part::Open(Shape::Attributed, elements + 1)
        } else {
            let part = self.view.read(token)?.part();
            self.owed -= 1;
            if let Part::Open(_, inside) = part {
                self.owed += inside;
            }
            part
        };
        self.view = self.view.inside(token);
        Some(part)
    }
}
