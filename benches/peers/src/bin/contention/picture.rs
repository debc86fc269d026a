//! A histogram of waits as SVG: the same logarithmic axis for both libraries, one below the other.

use std::fmt;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 36.0;
/// The height of one library's bars, and between them.
const BARS: f64 = 110.0;
const BETWEEN: f64 = 30.0;

/// Bars for each power of ten.
const EACH: usize = 8;

/// The least power of ten, in milliseconds, and how many there are: from 0.1 ms to 100 s.
const LEAST: i32 = -1;
const POWERS: usize = 6;

/// Waits in milliseconds, by library.
pub(crate) struct Picture<'a> {
    pub(crate) title: String,
    pub(crate) waits: Vec<(&'a str, &'a [f64], f64)>,
}

/// Returns how many waits fall to each bar. The outermost also take what is beyond them.
fn counts(waits: &[f64]) -> Vec<f64> {
    let mut bars = vec![0.0; EACH * POWERS];
    for wait in waits {
        let place = (wait.log10() - f64::from(LEAST)) * EACH as f64;
        let place = (place.max(0.0) as usize).min(bars.len() - 1);
        bars[place] += 1.0;
    }
    bars
}

fn x(millis: f64) -> f64 {
    let share = (millis.log10() - f64::from(LEAST)) / POWERS as f64;
    LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

impl fmt::Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, waits } = self;
        let bottom = TOP + waits.len() as f64 * (BARS + BETWEEN);
        let height = bottom + 44.0;
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>"
        )?;
        for (power, name) in ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"]
            .into_iter()
            .enumerate()
        {
            let at = x(10_f64.powi(LEAST + power as i32));
            line(f, [at, TOP, at, bottom], "#ddd")?;
            text(f, at, bottom + 16.0, "middle", name)?;
        }
        let under = "how long a caller waited; heights: how many, logarithmic";
        text(
            f,
            f64::midpoint(LEFT, WIDTH - RIGHT),
            bottom + 34.0,
            "middle",
            under,
        )?;
        for (index, (name, waits, median)) in waits.iter().enumerate() {
            let base = TOP + BETWEEN + BARS + index as f64 * (BARS + BETWEEN);
            let color = ["#06c", "#c60"][index % 2];
            bars(f, &counts(waits), base, color)?;
            line(f, [LEFT, base, WIDTH - RIGHT, base], "#999")?;
            text(f, LEFT - 6.0, base - BARS / 2.0, "end", name)?;
            let longest = waits.iter().copied().fold(0.0, f64::max);
            for (at, what, anchor) in [(*median, "median", "end"), (longest, "longest", "start")] {
                line(f, [x(at), base - BARS, x(at), base], "#333")?;
                let digits = usize::from(at < 10.0);
                let said = format!("{what} {at:.digits$} ms");
                text(f, x(at), base - BARS - 4.0, anchor, &said)?;
            }
        }
        writeln!(f, "</svg>")
    }
}

/// The highest bar is as high as there is room. Heights are logarithmic too: one wait among
/// thousands is to be seen.
fn bars(f: &mut fmt::Formatter<'_>, counts: &[f64], base: f64, color: &str) -> fmt::Result {
    let most = counts.iter().copied().fold(1.0, f64::max);
    let width = (WIDTH - LEFT - RIGHT) / counts.len() as f64;
    for (place, count) in counts.iter().enumerate().filter(|(_, count)| 0.0 < **count) {
        let height = count.ln_1p() / most.ln_1p() * BARS;
        let (at, top) = (LEFT + place as f64 * width, base - height);
        writeln!(
            f,
            "<rect x=\"{at:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>",
            width - 1.0
        )?;
    }
    Ok(())
}

fn line(f: &mut fmt::Formatter<'_>, [x1, y1, x2, y2]: [f64; 4], stroke: &str) -> fmt::Result {
    writeln!(
        f,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\"/>"
    )
}

fn text(f: &mut fmt::Formatter<'_>, x: f64, y: f64, anchor: &str, said: &str) -> fmt::Result {
    writeln!(
        f,
        "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{said}</text>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_is_in_a_bar() {
        let counts = counts(&[0.01, 0.1, 1.5, 1_000_000.0]);
        assert_eq!(counts[0], 2.0);
        assert_eq!(counts[EACH + 1], 1.0);
        assert_eq!(counts.last(), Some(&1.0));
        assert_eq!(counts.iter().sum::<f64>(), 4.0);
    }

    #[test]
    fn both_libraries_are_drawn_on_the_same_axis() {
        let picture = Picture {
            title: "waits".to_owned(),
            waits: vec![("one", &[1.0], 1.0), ("other", &[1.0], 1.0)],
        };
        let drawn = picture.to_string();
        let bars: Vec<&str> = drawn.matches("<rect x=\"170.0\"").collect();
        assert_eq!(bars.len(), 2, "{drawn}");
    }
}
