//! The least number of bytes of an element that has begun.
//!
//! A reply has a longest length, and further elements may be due after an element. So bytes that are valid in
//! themselves may still lead nowhere: `$9` needs room for nine more, and `*-` can only become `*-1`. Only used for
//! elements that are torn or too long.

use super::lex::Progress;
use super::number::number_bytes_min;
use super::token::ELEMENT_BYTES_MIN;

/// The restrictions on an element at its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// It cannot be a null, because it is the kind of a push.
    pub(super) kind_due: bool,
    /// It cannot be an aggregate, because no level is left.
    pub(super) deepest: bool,
}

impl Place {
    /// Returns the offset of the byte that makes it certain that the element does not end within `room`.
    ///
    /// The `begun` bytes start the element, and are otherwise valid. The text of a line is not looked at, because
    /// `line` checks that bound itself.
    pub(super) fn excess(
        self,
        begun: &[u8],
        room: usize,
        progress: &mut Progress,
    ) -> Option<usize> {
        let header = match begun {
            [b'+' | b'-', ..] => return None,
            // They lack four bytes at most.
            [b':' | b',' | b'(' | b'#' | b'_', ..] if begun.len() + 4 <= room => return None,
            _ => begun.split(|&byte| byte == b'\r').next()?,
        };
        progress.look(header.len());
        if self.least(header) <= room {
            return None;
        }
        (0..header.len()).find(|&last| room < self.least(&header[..=last]))
    }

    /// Returns the least bytes of the elements that begin like this.
    fn least(self, header: &[u8]) -> usize {
        let Some((&kind, text)) = header.split_first() else {
            return 0;
        };
        let sign = usize::from(text.first() == Some(&b'-'));
        let is_empty = text.is_empty();
        let count = natural(text);
        let behind_header = match kind {
            b'#' => return 4,
            b':' | b',' | b'(' => return 3 + number_bytes_min(text),
            b'$' | b'*' if sign == 1 => return 5,
            b'$' if is_empty && !self.kind_due => return 5,
            b'*' if is_empty && self.deepest => return 5,
            b'$' | b'!' => count.saturating_add(2),
            // So far it is too short for its format, so another digit has to come.
            b'=' if count < 4 && !is_empty => 1 + count * 10 + 2,
            b'=' => count.max(4).saturating_add(2),
            b'*' | b'~' => count.saturating_mul(ELEMENT_BYTES_MIN),
            b'%' | b'|' => count.saturating_mul(2 * ELEMENT_BYTES_MIN),
            b'>' => count.max(1).saturating_mul(ELEMENT_BYTES_MIN),
            _ => return ELEMENT_BYTES_MIN,
        };
        let header = 1 + text.len().max(1) + 2;
        header.saturating_add(behind_header)
    }
}

/// Returns the number with these digits.
fn natural(digits: &[u8]) -> usize {
    digits.iter().fold(0, |number: usize, byte| {
        let digit = usize::from(byte.wrapping_sub(b'0'));
        number.saturating_mul(10).saturating_add(digit)
    })
}
