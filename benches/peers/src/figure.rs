//! Figures with their interval, and the bounds that they are compared with.
//!
//! A [`Figure`] is a median with its 95 % interval from the bootstrap. A [`Bound`] is missed only
//! by a figure whose whole interval is beyond it.

use std::borrow::Borrow;
use std::fmt;

use crate::random::Random;

/// A median and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The median of all rounds.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Figure {
    const RESAMPLES: usize = 2000;
    const SEED: u64 = 0x5eed;

    /// Returns the figure of these values; there must be at least one.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item: Borrow<f64>>) -> Self {
        let values: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
        let mut random = Random::new(Self::SEED);
        let mut drawn = vec![0.0; values.len()];
        let mut medians: Vec<f64> = (0..Self::RESAMPLES)
            .map(|_| {
                drawn.fill_with(|| values[random.below(values.len())]);
                median(&mut drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        Self {
            median: median(&mut values.to_vec()),
            low: medians[Self::RESAMPLES / 40],
            high: medians[Self::RESAMPLES - 1 - Self::RESAMPLES / 40],
        }
    }
}

impl Figure {
    /// Returns the figure in another unit.
    #[must_use]
    pub fn scaled(self, by: f64) -> Self {
        Self {
            median: self.median * by,
            low: self.low * by,
            high: self.high * by,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.median {
            median if median < 10.0 => 2,
            median if median < 100.0 => 1,
            _ => 0,
        };
        let Self { median, low, high } = self;
        write!(f, "{median:.digits$} [{low:.digits$}, {high:.digits$}]")
    }
}

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The figure may not be larger.
    AtMost(f64),
    /// The figure may not be smaller.
    AtLeast(f64),
}

/// The result of a comparison with a bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The median meets the bound.
    Met,
    /// The median does not, but part of the interval does: undecided.
    Open,
    /// The whole interval is beyond the bound.
    Missed,
}

impl Bound {
    /// Compares a figure with the bound.
    #[must_use]
    pub fn judge(self, figure: Figure) -> Verdict {
        let (met, missed) = match self {
            Self::AtMost(most) => (figure.median <= most, figure.low > most),
            Self::AtLeast(least) => (figure.median >= least, figure.high < least),
        };
        match (met, missed) {
            (true, _) => Verdict::Met,
            (false, true) => Verdict::Missed,
            (false, false) => Verdict::Open,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::Open => "met within the noise",
            Self::Missed => "**NOT met**",
        })
    }
}

/// Returns the middle of the values, of which there must be at least one; sorts them.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_is_the_same_in_every_run() {
        let values: Vec<f64> = (0..31).map(f64::from).collect();
        let figure = Figure::of(&values);
        assert_eq!(figure.median, 15.0);
        assert!(figure.low < 15.0 && figure.high > 15.0, "{figure:?}");
        assert!(figure.low > 5.0 && figure.high < 25.0, "{figure:?}");
        assert_eq!(figure, Figure::of(&values));
    }

    #[test]
    fn a_bound_is_missed_only_if_the_whole_interval_is_beyond_it() {
        let figure = Figure {
            median: 3.1,
            low: 2.9,
            high: 3.3,
        };
        for (bound, verdict) in [
            (Bound::AtMost(3.2), Verdict::Met),
            (Bound::AtMost(3.0), Verdict::Open),
            (Bound::AtMost(2.8), Verdict::Missed),
            (Bound::AtLeast(3.0), Verdict::Met),
            (Bound::AtLeast(3.2), Verdict::Open),
            (Bound::AtLeast(3.4), Verdict::Missed),
        ] {
            assert_eq!(bound.judge(figure), verdict, "{bound}");
        }
    }

    #[test]
    fn figures_have_three_digits_or_two_decimals() {
        let figure = |median| Figure {
            median,
            low: median,
            high: median,
        };
        assert_eq!(figure(0.999).to_string(), "1.00 [1.00, 1.00]");
        assert_eq!(figure(12.34).to_string(), "12.3 [12.3, 12.3]");
        assert_eq!(figure(123.4).to_string(), "123 [123, 123]");
    }
}
