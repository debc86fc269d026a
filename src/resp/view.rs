//! A place in a reply that was found valid, and how it moves from element to element.
//!
//! Not here: what an element says. `elements` reads the values.

use super::direct::{Longest, direct_len};
use super::header::header;
use super::lex::{Bounds, Progress};
use super::token::{Kind, Token, token};

/// The rest of a reply that was found valid.
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

    /// Moves behind the element that begins with this token.
    #[inline]
    pub(super) fn skip(&mut self, token: Token) -> Option<()> {
        self.bytes = self.bytes.get(token.end..)?;
        match token.kind.is_scalar() {
            true => Some(()),
            false => self.skip_elements(u64::from(token.elements())),
        }
    }

    /// Moves behind this number of elements, and what is inside them.
    fn skip_elements(&mut self, elements: u64) -> Option<()> {
        let mut owed = elements;
        while owed > 0 {
            if let Some(len) = direct_len(self.bytes, &Longest::ANY) {
                self.bytes = &self.bytes[len..];
                owed -= 1;
                continue;
            }
            let token = self.token()?;
            self.bytes = self.bytes.get(token.end..)?;
            // An attribute describes the element that is still owed.
            owed -= u64::from(token.kind != Kind::Attribute);
            if !token.kind.is_scalar() {
                owed = owed.saturating_add(token.elements().into());
            }
        }
        Some(())
    }
}
