//! Two histograms side by side, in letters.

use shearline::{Bucket, Histogram};

use crate::output::{DOUBTFUL, GOOD, painted};

/// Most rows, and the columns of the longest bar.
const ROWS: usize = 16;
const BAR: usize = 24;

/// What is left out at both ends.
const LEFT_OUT: f64 = 0.002;

/// Draws both, as shares of their own counts. Each row counts what took longer than the row above says.
pub(super) fn draw(ours: &Histogram, floor: Option<&Histogram>) -> Vec<String> {
    let all = [Some(ours), floor].into_iter().flatten();
    let all: Vec<&Histogram> = all.filter(|it| it.count() != 0).collect();
    let quantile = |share| all.iter().filter_map(move |it| it.quantile(share));
    let (Some(first), Some(last)) = (quantile(LEFT_OUT).min(), quantile(1.0 - LEFT_OUT).max())
    else {
        return Vec::new();
    };
    let mut bounds: Vec<_> = ours
        .buckets()
        .map(|bucket| bucket.upper)
        .filter(|upper| (first..=last).contains(upper))
        .collect();
    // The last bound of each row.
    let step = bounds.len().div_ceil(ROWS).max(1);
    bounds = bounds
        .chunks(step)
        .filter_map(|row| row.last().copied())
        .collect();
    let shares = |of: &Histogram| {
        let mut below = 0;
        let share = |upper: &_| {
            let within = of.within(*upper);
            let share = (within - below) as f64 / of.count().max(1) as f64;
            below = within;
            share
        };
        bounds.iter().map(share).collect::<Vec<f64>>()
    };
    let (left, right) = (shares(ours), floor.map(shares));
    let shown = left.iter().chain(right.iter().flatten());
    let most = shown.fold(f64::MIN_POSITIVE, |most, share| most.max(*share));
    let rows = bounds.iter().enumerate().map(|(row, upper)| {
        let mut line = format!("{:>9}  ", super::time(*upper));
        line += &bar(left[row], most, GOOD);
        if let Some(right) = &right {
            line += &bar(right[row], most, DOUBTFUL);
        }
        line.trim_end().to_owned()
    });
    rows.collect()
}

fn bar(share: f64, most: f64, style: anstyle::Style) -> String {
    let len = (share / most * BAR as f64).round() as usize;
    let bar = painted(style, "▇".repeat(len));
    let rest = " ".repeat(BAR - len);
    match share == 0.0 {
        true => format!("{}         ", " ".repeat(BAR)),
        false => format!("{bar}{rest} {:>5.1} % ", 100.0 * share),
    }
}

/// Returns the buckets that have counted something.
pub(super) fn counted(histogram: &Histogram) -> impl Iterator<Item = Bucket> {
    histogram.buckets().filter(|bucket| bucket.count != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_picture_has_few_rows_and_fits() {
        let (mut ours, mut floor) = (Histogram::new(), Histogram::new());
        assert!(draw(&ours, None).is_empty());
        for micros in 1..10_000_u64 {
            ours.record(Duration::from_micros(50 + micros % 700));
            floor.record(Duration::from_micros(40 + micros % 90));
        }
        ours.record(Duration::from_secs(9)); // Left out.
        for floor in [None, Some(&floor)] {
            let rows = draw(&ours, floor);
            assert!((2..=ROWS).contains(&rows.len()), "{rows:?}");
            for row in &rows {
                assert!(crate::output::columns(row) <= 80, "{row:?}");
            }
        }
        let one = {
            let mut one = Histogram::new();
            one.record(Duration::from_millis(1));
            one
        };
        let [row] = &draw(&one, None)[..] else {
            panic!("one row");
        };
        assert!(row.contains("100.0 %"), "{row:?}");
    }
}
