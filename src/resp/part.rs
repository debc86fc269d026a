//! A value as a flat sequence, as it is sent: each value before what is inside it.
//!
//! For work on all of a value, at every depth, without a call for each level.

use core::iter::once;

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

    /// Returns the value and everything that is inside it. Attributes are passed over.
    pub(super) fn parts(self) -> impl Iterator<Item = Part<'a>> {
        let items = self.as_items().map(Items::parts);
        let inside = items.or_else(|| self.as_pairs().map(Pairs::parts));
        once(self.part()).chain(inside.into_iter().flatten())
    }
}

impl<'a> Items<'a> {
    pub(super) const fn parts(self) -> Parts<'a> {
        Parts {
            view: self.view,
            owed: self.len(),
        }
    }
}

impl<'a> Pairs<'a> {
    pub(super) const fn parts(self) -> Parts<'a> {
        Parts {
            view: self.view,
            owed: self.len() * 2,
        }
    }
}

/// The parts of elements that lie behind each other.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    view: View<'a>,
    /// Elements that are still to come, at all levels.
    owed: usize,
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
        while token.kind == Kind::Attribute {
            self.view.skip(token)?;
            token = self.view.token()?;
        }
        let part = self.view.read(token)?.part();
        self.owed -= 1;
        if let Part::Open(_, inside) = part {
            self.owed += inside;
        }
        self.view = self.view.inside(token);
        Some(part)
    }
}
