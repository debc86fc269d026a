//! Parses and writes spans of time as people write them: `30s`, `500ms`, `2m`, `1h`, `1d`, and plain numbers for
//! seconds.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The units, and their lengths in milliseconds. `ms` comes before `s`, because [`parse`] takes the first unit that the
/// text ends with.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Parses a span of whole milliseconds. Refuses fractions of a millisecond instead of rounding them.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = UNITS
        .into_iter()
        .find_map(|(name, millis)| Some((text.strip_suffix(name)?, millis)))
        .unwrap_or((text, 1_000));
    millis(number, unit)
        .map(Duration::from_millis)
        .ok_or_else(|| {
            "write it as 30s, 500ms, 2m, 1h or 1d, or as a number of seconds: 30, 0.5".to_owned()
        })
}

/// Returns a parser for spans within this range of milliseconds.
pub(crate) fn within(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    let [least, most] = [*bounds.start(), *bounds.end()].map(Duration::from_millis);
    move |text| match parse(text)? {
        span if (least..=most).contains(&span) => Ok(span),
        _ => Err(format!(
            "the time must be between {} and {}",
            shown(least),
            shown(most)
        )),
    }
}

/// Returns `number` times `unit`, if the result is a whole number.
fn millis(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = [whole, part].concat();
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.is_empty() || !are_digits {
        return None;
    }
    let scale = 10_u64.checked_pow(part.len().try_into().ok()?)?;
    let scaled = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    scaled.is_multiple_of(scale).then_some(scaled / scale)
}

/// Formats a span for people, rounded down and with at most two units.
pub(crate) fn shown(span: Duration) -> String {
    let millis = span.as_millis();
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..10_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        10_000..120_000 => format!("{}s", millis / 1_000),
        120_000..7_200_000 => format!("{}m {}s", millis / 60_000, millis / 1_000 % 60),
        7_200_000..172_800_000 => format!("{}h {}m", millis / 3_600_000, millis / 60_000 % 60),
        _ => format!("{}d {}h", millis / 86_400_000, millis / 3_600_000 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_spans_in_many_forms() {
        for (text, millis) in [
            ("30s", 30_000),
            ("30", 30_000),
            ("500ms", 500),
            ("0.5", 500),
            ("1.25s", 1_250),
            ("2m", 120_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "1e3",
            "1.",
            ".5",
            "1 s",
            "1.5ms",
            "0.0001",
            "+1",
            "1.2.3",
            "x",
            "99999999999999999999",
            "18446744073709551615d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_span_has_bounds() {
        let parse = within(50..=60_000);
        for (text, millis) in [
            ("50ms", Some(50)),
            ("2", Some(2_000)),
            ("60s", Some(60_000)),
            ("49ms", None),
            ("61s", None),
            ("s", None),
        ] {
            assert_eq!(
                parse(text).ok(),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn spans_are_shown_with_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_999, "1.9s"),
            (29_999, "29s"),
            (119_999, "119s"),
            (150_000, "2m 30s"),
            (7_260_000, "2h 1m"),
            (180_000_000, "2d 2h"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), text);
        }
    }
}
