//! A position in a valid reply, which moves from element to element.
//!
//! The module `elements` reads the element at this position.

use super::header::header;
use super::lex::{Bounds, Progress};
use super::token::{Kind, Token, token};

/// The remaining bytes of a valid reply.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
}

impl View<'_> {
    #[inline]
    pub(super) fn token(&self) -> Option<Token> {
        if let Some(header) = header(self.bytes) {
            return Some(header);
        }
        token(self.bytes, 0, &Bounds::NONE, &mut { Progress::NEW })
            .ok()
            .flatten()
    }

    /// Returns a view of the elements of the aggregate that begins with this header.
    #[inline]
    pub(super) fn inside(&self, header: Token) -> Self {
        let bytes = self.bytes.get(header.end..).unwrap_or_default();
        Self { bytes }
    }

    /// Moves past the element that begins with this token, including its content.
    #[inline]
    pub(super) fn skip(&mut self, token: Token) -> Option<()> {
        self.bytes = self.bytes.get(token.end..)?;
        let mut owed = inside(token);
        while owed > 0 {
            let token = self.token()?;
            self.bytes = self.bytes.get(token.end..)?;
            // An attribute is not an element: it describes the next one.
            owed -= u64::from(token.kind != Kind::Attribute);
            owed = owed.saturating_add(inside(token));
        }
        Some(())
    }
}

/// Returns the number of elements in the aggregate that begins with this token.
fn inside(token: Token) -> u64 {
    match token.kind.is_scalar() {
        true => 0,
        false => token.elements().into(),
    }
}
