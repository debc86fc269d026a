//! Integers as digits, on the stack and without the formatting machinery.

use core::fmt;

/// The digits of an integer, and `-` before them if it is negative.
///
/// ```
/// use shearline::resp::Decimal;
///
/// assert_eq!(Decimal::from(30_000_u64).as_bytes(), b"30000");
/// assert_eq!(Decimal::from(i64::MIN).as_bytes(), b"-9223372036854775808");
/// ```
#[derive(Clone, Copy)]
pub struct Decimal {
    /// The digits stand at the end.
    bytes: [u8; Self::BYTES_MAX],
    start: u8,
}

impl Decimal {
    /// Longest integer: twenty digits, or nineteen and a sign.
    pub const BYTES_MAX: usize = 20;

    /// The digits of `number`.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        let mut bytes = [b'0'; Self::BYTES_MAX];
        let mut start = Self::BYTES_MAX;
        let mut rest = number;
        loop {
            start -= 1;
            bytes[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Self {
            bytes,
            start: start as u8,
        }
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
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
            // Nineteen digits at most: there is a place before them.
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

/// How many digits `number` has.
///
/// ```
/// use shearline::resp::decimal_len;
///
/// assert_eq!((decimal_len(0), decimal_len(9), decimal_len(10)), (1, 1, 2));
/// ```
#[must_use]
pub const fn decimal_len(number: u64) -> usize {
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
            let text = number.to_string();
            assert_eq!(Decimal::from(number).as_bytes(), text.as_bytes());
            assert_eq!(decimal_len(number), text.len());
            let signed = number.cast_signed();
            assert_eq!(
                Decimal::from(signed).as_bytes(),
                signed.to_string().as_bytes()
            );
        }
    }
}
