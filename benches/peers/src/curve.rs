//! A curve as SVG, with both axes logarithmic: linear growth has the slope of the dashed line, and
//! a constant cost is flat.

use std::fmt::{self, Write};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 48.0;

/// Points and their labels.
#[derive(Debug)]
pub struct Picture<'a> {
    /// What it shows.
    pub title: &'a str,
    /// The noun below the picture.
    pub across: &'a str,
    /// The curve, from left to right. There is no zero in it.
    pub points: &'a [(f64, f64)],
}

/// A logarithmic axis, in pixels.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Whole powers of ten around all values.
    fn around(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let least = values.clone().fold(f64::MAX, f64::min).log10().floor();
        let most = values.fold(f64::MIN, f64::max).log10().ceil();
        Self {
            least,
            most: most.max(least + 1.0),
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - self.least) / (self.most - self.least);
        self.from + share * (self.to - self.from)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        let (least, most) = (self.least as i32, self.most as i32);
        (least..=most).map(|power| 10_f64.powi(power))
    }
}

impl fmt::Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            title,
            across,
            points,
        } = self;
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = Axis::around(points.iter().map(|(x, _)| *x), LEFT, right);
        let y = Axis::around(points.iter().map(|(_, y)| *y), bottom, TOP);
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(f, "<title>{title}</title>")?;
        writeln!(
            f,
            "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>"
        )?;
        writeln!(
            f,
            "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>"
        )?;
        for power in x.powers() {
            let at = x.at(power);
            line(f, [at, TOP, at, bottom], "#ddd\"")?;
            let under = bottom + 16.0;
            writeln!(
                f,
                "<text x=\"{at:.0}\" y=\"{under}\" text-anchor=\"middle\">{power}</text>"
            )?;
        }
        for power in y.powers() {
            let (at, left) = (y.at(power), LEFT - 6.0);
            line(f, [LEFT, at, right, at], "#ddd\"")?;
            let under = at + 4.0;
            writeln!(
                f,
                "<text x=\"{left}\" y=\"{under:.0}\" text-anchor=\"end\">{power}</text>"
            )?;
        }
        let middle = f64::midpoint(LEFT, right);
        let under = HEIGHT - 12.0;
        writeln!(
            f,
            "<text x=\"{middle}\" y=\"{under}\" text-anchor=\"middle\">{across}</text>"
        )?;
        self.linear(f, &x, &y)?;
        let mut curve = String::new();
        for (across, up) in *points {
            write!(curve, "{:.1},{:.1} ", x.at(*across), y.at(*up))?;
        }
        let curve = curve.trim_end();
        writeln!(
            f,
            "<polyline points=\"{curve}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"2\"/>"
        )?;
        for (across, up) in *points {
            let (across, up) = (x.at(*across), y.at(*up));
            writeln!(
                f,
                "<circle cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"3\" fill=\"#06c\"/>"
            )?;
        }
        writeln!(f, "</svg>")
    }
}

impl Picture<'_> {
    /// Draws linear growth from the first point on, as far as it is in the picture.
    fn linear(&self, f: &mut fmt::Formatter<'_>, x: &Axis, y: &Axis) -> fmt::Result {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return Ok(());
        };
        let most = (10_f64.powf(y.most) / first.1).min(last.0 / first.0);
        let [x1, y1] = [x.at(first.0), y.at(first.1)];
        let [x2, y2] = [x.at(first.0 * most), y.at(first.1 * most)];
        line(f, [x1, y1, x2, y2], "#999\" stroke-dasharray=\"4\"")
    }
}

fn line(f: &mut fmt::Formatter<'_>, [x1, y1, x2, y2]: [f64; 4], stroke: &str) -> fmt::Result {
    writeln!(
        f,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}/>"
    )
}
