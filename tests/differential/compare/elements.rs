//! The elements of a reply, in order, read as leniently as either decoder does. They say where a known difference
//! can show.

use std::ops::Range;

/// One element: a line, and the payload after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Element<'a> {
    pub(crate) kind: u8,
    /// The line without the byte of its type. Its end has arrived, unless it `is_torn`.
    pub(crate) text: &'a [u8],
    pub(crate) is_torn: bool,
    /// The payload and the two bytes after it, if they have arrived.
    pub(crate) payload: Option<(&'a [u8], &'a [u8])>,
    pub(crate) range: Range<usize>,
    /// How many aggregates are open around it.
    pub(crate) depth: usize,
    /// It is a key of a map or of attributes, or an element of a set.
    pub(crate) is_key: bool,
    /// It is the first element of a push.
    pub(crate) is_push_kind: bool,
    /// Attributes are before it.
    pub(crate) is_attributed: bool,
}

/// An aggregate that is open.
struct Open {
    kind: u8,
    count: usize,
    left: usize,
}

/// Returns the elements of the first reply of `bytes`.
pub(crate) fn elements(bytes: &[u8]) -> Vec<Element<'_>> {
    let mut elements = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let (mut at, mut is_attributed) = (0, false);
    while let Some(kind) = bytes.get(at) {
        let around = open.last();
        let is_key = around.is_some_and(|around| match around.kind {
            b'~' => true,
            b'%' | b'|' => around.left % 2 == 0,
            _ => false,
        });
        let element = Element {
            depth: open.len(),
            is_key,
            is_push_kind: around.is_some_and(|push| push.kind == b'>' && push.left == push.count),
            is_attributed,
            ..Element::at(bytes, at, *kind)
        };
        at = element.range.end;
        if let Some(around) = open.last_mut() {
            around.left -= usize::from(*kind != b'|');
        }
        let opens = |count| Open {
            kind: *kind,
            count,
            left: count,
        };
        open.extend(element.count().map(opens));
        elements.push(element);
        is_attributed = false;
        while open.last().is_some_and(|open| open.left == 0) {
            is_attributed = open.pop().is_some_and(|open| open.kind == b'|');
        }
        if open.is_empty() && !is_attributed {
            break;
        }
    }
    elements
}

impl<'a> Element<'a> {
    fn at(bytes: &'a [u8], at: usize, kind: u8) -> Self {
        let rest = &bytes[at + 1..];
        let line = rest.windows(2).position(|two| two == b"\r\n");
        let mut element = Self {
            kind,
            text: &rest[..line.unwrap_or(rest.len())],
            is_torn: line.is_none(),
            range: at..line.map_or(bytes.len(), |line| at + line + 3),
            ..Self::default()
        };
        if b"$!=;".contains(&kind)
            && !element.is_torn
            && let Some(len) = element.number()
        {
            let behind = &bytes[element.range.end..];
            let payload = behind.split_at_checked(len);
            element.payload = payload.and_then(|(text, end)| Some((text, end.get(..2)?)));
            element.range.end += behind.len().min(len.saturating_add(2));
        }
        element
    }

    pub(crate) fn is_aggregate(&self) -> bool {
        b"*%~>|".contains(&self.kind)
    }

    /// Returns how many elements follow the header of an aggregate.
    fn count(&self) -> Option<usize> {
        let each = if b"%|".contains(&self.kind) { 2 } else { 1 };
        let is_header = self.is_aggregate() && !self.is_torn;
        Some(self.number().filter(|_| is_header)?.saturating_mul(each))
    }

    /// Returns `true` for the header of a string or an aggregate.
    pub(crate) fn has_length(&self) -> bool {
        self.is_aggregate() || b"$!=".contains(&self.kind)
    }

    /// Returns the text without its sign.
    pub(crate) fn unsigned(&self) -> &'a [u8] {
        match self.text {
            [b'+' | b'-', rest @ ..] => rest,
            text => text,
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.text.starts_with(b"-")
    }

    /// Returns the text without its sign, if it is digits.
    pub(crate) fn digits(&self) -> Option<&'a [u8]> {
        let digits = self.unsigned();
        (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(digits)
    }

    /// Returns the number, if it is an integer of zero or more.
    pub(crate) fn number(&self) -> Option<usize> {
        let number = std::str::from_utf8(self.digits()?).ok()?.parse().ok()?;
        (number == 0 || !self.is_negative()).then_some(number)
    }

    pub(crate) fn has_leading_zero(&self) -> bool {
        matches!(self.unsigned(), [b'0', b'0'..=b'9', ..])
    }

    pub(crate) fn double(&self) -> Option<f64> {
        let text = std::str::from_utf8(self.text).ok()?;
        text.parse()
            .ok()
            .filter(|_| self.kind == b',' && !self.is_torn)
    }

    /// Returns `true` for the double 0, with this sign.
    pub(crate) fn is_zero(&self, is_negative: bool) -> bool {
        let is_zero = |value: f64| value == 0.0 && value.is_sign_negative() == is_negative;
        self.double().is_some_and(is_zero)
    }
}
