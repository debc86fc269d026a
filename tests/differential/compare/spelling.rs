//! How the numbers of the protocol are spelled: integers, lengths, doubles, big numbers.
//!
//! Each function takes the text of a whole line. If the text is valid for one side only, the function asks the
//! [`Rules`], and continues with the text as that side understands it.

use super::differences::Difference;
use super::rules::{Rules, Stop};

/// The header of a string or an aggregate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    Of(usize),
    /// The null of RESP2.
    Null,
}

/// The limits of the header of this kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Our decoder refuses a larger number.
    pub(crate) most: usize,
    /// The other decoder reads the length as a signed number.
    pub(crate) signed: bool,
    /// The length -1 is a null.
    pub(crate) null: bool,
}

/// Returns the sign, if there is one, and the rest.
fn sign(text: &[u8]) -> (Option<u8>, &[u8]) {
    match text {
        [sign @ (b'+' | b'-'), rest @ ..] => (Some(*sign), rest),
        _ => (None, text),
    }
}

fn digits(text: &[u8]) -> Result<&[u8], Stop> {
    if !text.is_empty() && text.iter().all(u8::is_ascii_digit) {
        Ok(text)
    } else {
        Err(Stop::Refused)
    }
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Result<T, Stop> {
    let text = std::str::from_utf8(text).map_err(|_| Stop::Refused)?;
    text.parse().map_err(|_| Stop::Refused)
}

/// Returns `true` if there are more digits than needed.
fn has_zeros(digits: &[u8]) -> bool {
    matches!(digits, [b'0', _, ..])
}

pub(crate) fn integer(text: &[u8], rules: &mut Rules) -> Result<i64, Stop> {
    let (sign, rest) = sign(text);
    let digits = digits(rest)?;
    if has_zeros(digits) {
        rules.allow(Difference::IntegerZeros)?;
    }
    let value = parse(text)?;
    if sign == Some(b'-') && value == 0 {
        rules.allow(Difference::IntegerMinusZero)?;
    }
    Ok(value)
}

pub(crate) fn length(text: &[u8], header: &Header, rules: &mut Rules) -> Result<Length, Stop> {
    let (sign, rest) = sign(text);
    let digits = digits(rest)?;
    let number: usize = parse(digits)?;
    if header.signed && isize::try_from(number).is_err() {
        return Err(Stop::Refused);
    }
    if has_zeros(digits) {
        rules.allow(Difference::LengthZeros)?;
    }
    match (sign, number) {
        (Some(b'-'), 1) if header.null => return Ok(Length::Null),
        (Some(b'-'), 0) if header.signed => rules.allow(Difference::LengthMinusZero)?,
        (Some(b'-'), _) => return Err(Stop::Refused),
        (Some(_), _) => rules.allow(Difference::LengthPlus)?,
        (None, _) => (),
    }
    if header.most < number {
        rules.allow(Difference::Bounds)?;
    }
    Ok(Length::Of(number))
}

pub(crate) fn double(text: &[u8], rules: &mut Rules) -> Result<f64, Stop> {
    let rest = sign(text).1;
    let word = rest.to_ascii_lowercase();
    if matches!(&word[..], b"inf" | b"infinity" | b"nan") {
        if !matches!(text, b"inf" | b"-inf" | b"nan" | b"-nan") {
            rules.allow(Difference::DoubleWords)?;
        }
        return parse(text);
    }
    let mark = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (number, exponent) = rest.split_at(mark.unwrap_or(rest.len()));
    if let [_, exponent @ ..] = exponent {
        digits(sign(exponent).1)?;
    }
    decimal(number, rules)?;
    let value: f64 = parse(text)?;
    if value.is_infinite() {
        rules.allow(Difference::DoubleOverflow)?;
    }
    Ok(value)
}

/// Checks a double without sign and exponent.
fn decimal(number: &[u8], rules: &mut Rules) -> Result<(), Stop> {
    let point = number.iter().position(|byte| *byte == b'.');
    let (integral, fraction) = number.split_at(point.unwrap_or(number.len()));
    match (integral, fraction) {
        ([], [] | [b'.']) => return Err(Stop::Refused),
        ([], [_, fraction @ ..]) => {
            digits(fraction)?;
            rules.allow(Difference::DoubleIntegral)?;
        }
        (_, [b'.']) => {
            digits(integral)?;
            rules.allow(Difference::DoubleFraction)?;
        }
        (_, [_, fraction @ ..]) => {
            digits(integral)?;
            digits(fraction)?;
        }
        (_, []) => {
            digits(integral)?;
        }
    }
    if has_zeros(integral) {
        rules.allow(Difference::DoubleZeros)?;
    }
    Ok(())
}

pub(crate) fn big_number(text: &[u8], rules: &mut Rules) -> Result<(), Stop> {
    match digits(sign(text).1) {
        Ok(_) => Ok(()),
        Err(_) => rules.allow(Difference::BigNumberUnread),
    }
}
