//! Writes integers as decimal digits, on the stack and without the formatting machinery of `core`.

use core::fmt;
use core::time::Duration;

/// The digits of an integer, with a leading `-` if it is negative.
///
/// ```
/// # #[cfg(feature = "internals")] {
/// use shearline::internals::resp::Decimal;
///
/// assert_eq!(Decimal::from(30_000_u64).as_bytes(), b"30000");
/// assert_eq!(Decimal::from(i64::MIN).as_bytes(), b"-9223372036854775808");
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Decimal {
    /// The digits are at the end of the buffer.
    bytes: [u8; Self::ROOM],
    start: u8,
}

impl Decimal {
    /// The size of the buffer in bytes, rounded up to whole groups of digits.
    const ROOM: usize = 24;

    /// Returns the digits of `number`.
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        const GROUP: u64 = 100_000_000;
        let mut bytes = [0; Self::ROOM];
        let mut start = Self::ROOM - 8;
        let mut rest = number;
        while rest >= GROUP {
            put(&mut bytes, start, eight_digits(rest % GROUP));
            rest /= GROUP;
            start -= 8;
        }
        let digits = eight_digits(rest);
        put(&mut bytes, start, digits);
        // Without the added bit, the number zero would have no digits.
        let leading_zeros = (digits | (1 << 56)).trailing_zeros() / 8;
        Self {
            bytes,
            start: start as u8 + leading_zeros as u8,
        }
    }

    /// Returns the digits of a duration in milliseconds, the unit of servers. The limits of durations keep the number
    /// far below 2^63.
    pub(crate) fn millis(duration: Duration) -> Self {
        Self::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the text.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.start as usize).1
    }
}

/// Returns the eight decimal digits of a number below 10^8, with the first digit in the lowest byte.
///
/// The function splits the number into halves until each digit has its own byte of one register. So it needs no loop
/// over the digits, and writes them to memory in one step, which makes reading them back quick.
const fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f; // fours / 100
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f; // twos / 10
    tens | ((twos - tens * 10) << 8)
}

/// Writes `digits` at `start`, as text.
const fn put(bytes: &mut [u8; Decimal::ROOM], start: usize, digits: u64) {
    let text = (digits | 0x3030_3030_3030_3030).to_le_bytes();
    let (_, place) = bytes.split_at_mut(start);
    let (place, _) = place.split_at_mut(text.len());
    place.copy_from_slice(&text);
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Self {
        Self::new(number)
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        let mut decimal = Self::new(number.unsigned_abs());
        if number < 0 {
            // The number has at most nineteen digits, so the byte before them is free.
            decimal.start -= 1;
            decimal.bytes[usize::from(decimal.start)] = b'-';
        }
        decimal
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({})", self.as_bytes().escape_ascii())
    }
}

/// Returns the number of digits of `number`.
#[must_use]
pub(super) const fn decimal_len(number: u64) -> usize {
    match number.checked_ilog10() {
        Some(log) => log as usize + 1,
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn as_the_standard_library_prints_it() {
        let edges = (0..64).flat_map(|shift| {
            let power = 1_u64 << shift;
            [power - 1, power, power + 1]
        });
        let tens = (0..20).flat_map(|exponent| {
            let power = 10_u64.pow(exponent);
            [power - 1, power, power + 1]
        });
        for number in edges.chain(tens).chain([u64::MAX]) {
            assert_prints(number);
        }
    }

    #[test]
    fn every_four_digits_at_every_place() {
        for four in 0..10_000_u64 {
            assert_prints(four);
            assert_prints(four * 10_000 + 9_999 - four);
            assert_prints(four * 100_000_000_000_000 + four);
        }
    }

    fn assert_prints(number: u64) {
        let text = number.to_string();
        assert_eq!(Decimal::from(number).as_bytes(), text.as_bytes());
        assert_eq!(decimal_len(number), text.len());
        let signed = number.cast_signed();
        let text = signed.to_string();
        assert_eq!(Decimal::from(signed).as_bytes(), text.as_bytes());
    }
}
