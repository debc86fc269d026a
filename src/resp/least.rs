//! The least number of bytes of an element that has begun.
//!
//! A reply has a longest length, and behind an element others may be owed. So bytes that are valid
//! for themselves may still lead nowhere: `$9` needs room for nine more, and `*-` can only become
//! `*-1`. Used for elements that are torn or too long, never for others.

use super::lex::Progress;
use super::number::number_bytes_min;
use super::token::ELEMENT_BYTES_MIN;

/// What an element cannot be at its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// No null: it says of what kind a push is.
    pub(super) kind_due: bool,
    /// No aggregate: no level is left.
    pub(super) deepest: bool,
}

impl Place {
    /// Returns the offset of the byte with which it becomes certain that the element does not end
    /// within `room`.
    ///
    /// They begin it, and are valid but for that. The text of a line is not looked at: `line` keeps
    /// the bound itself.
    pub(super) fn excess(
        self,
        begun: &[u8],
        room: usize,
        progress: &mut Progress,
    ) -> Option<usize> {
        let header = match begun {
            [b'+' | b'-', ..] => return None,
            // What they lack at most is four bytes.
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
            // Too short for its format as it is: another digit has to come.
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

/// Returns the number that these digits are.
fn natural(digits: &[u8]) -> usize {
    digits.iter().fold(0, |number: usize, byte| {
        let digit = usize::from(byte.wrapping_sub(b'0'));
        number.saturating_mul(10).saturating_add(digit)
    })
}
