//! The baseline for comparing costs: a text with a line for each path, and the conditions of the count.
//!
//! Another compiler, another C library or other dependencies turn the same source into other instructions. So a
//! baseline names all three, and does not apply to a program with other conditions.

use std::fmt::{self, Write};
use std::process::Command;

/// The largest accepted ratio of a cost to the baseline.
const TOLERANCE: f64 = 1.03;

/// The cost of each path, under these conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// A line for each condition.
    pub conditions: String,
    /// The name of each path and the instructions of one operation.
    pub paths: Vec<(String, f64)>,
}

/// Returns the conditions of this program: the compiler and its target, the C library, whose `memcpy` is counted too,
/// and a hash of the file with the versions of all dependencies.
#[must_use]
pub fn conditions() -> String {
    let library = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let library = library.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let library = library.unwrap_or_default();
    let lock = hash(include_bytes!("../Cargo.lock"));
    let compiler = env!("MADE_BY");
    format!(
        "compiler {compiler}\nlibrary {}\nlock {lock:016x}\n",
        library.trim()
    )
}

impl Costs {
    /// Reads what [`Display`](fmt::Display) wrote.
    ///
    /// # Errors
    ///
    /// Returns the line that has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut conditions, mut paths) = (String::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            match line.split_once(' ') {
                None | Some(("#", _)) => {}
                Some(("compiler" | "library" | "lock", _)) => {
                    conditions.push_str(line);
                    conditions.push('\n');
                }
                Some((cost, name)) => {
                    let cost: f64 = cost.parse().map_err(|_| format!("no cost: {line}"))?;
                    paths.push((name.trim().into(), cost));
                }
            }
        }
        Ok(Self { conditions, paths })
    }

    /// Returns a line for each path that costs too much compared with `baseline`, or that is missing in one of the two.
    #[must_use]
    pub fn worse_than(&self, baseline: &Self) -> Vec<String> {
        let gone = baseline.paths.iter().map(|(name, _)| name);
        let names = self.paths.iter().map(|(name, _)| name);
        let names = names.chain(gone.filter(|name| self.of(name).is_none()));
        let line = |name: &String| match (baseline.of(name), self.of(name)) {
            (Some(before), Some(now)) if now <= before * TOLERANCE => None,
            (Some(before), Some(now)) => {
                let change = (now / before - 1.0) * 100.0;
                let line = format!("{name}: {before:.2} -> {now:.2} instructions, {change:+.1} %");
                Some(line)
            }
            _ => Some(format!("{name}: only one of both has it")),
        };
        names.filter_map(line).collect()
    }

    /// Returns the cost of the path with this name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<f64> {
        let path = self.paths.iter().find(|(other, _)| other == name);
        path.map(|(_, cost)| *cost)
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions that one of each path takes, and under what. Made by"
        )?;
        writeln!(
            f,
            "#   cd benches/instructions && cargo run --release -- record"
        )?;
        writeln!(f, "{}", self.conditions)?;
        for (name, cost) in &self.paths {
            writeln!(f, "{cost:>10.2}  {name}")?;
        }
        Ok(())
    }
}

/// FNV-1a: enough to detect another file.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the costs as a table in Markdown.
#[must_use]
pub fn table(costs: &Costs) -> String {
    let mut table = String::from("| path | instructions |\n| --- | --- |\n");
    for (name, cost) in &costs.paths {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {name} | {cost:.1} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(paths: &[(&str, f64)]) -> Costs {
        let own = |(name, cost): &(&str, f64)| ((*name).into(), *cost);
        Costs {
            conditions: conditions(),
            paths: paths.iter().map(own).collect(),
        }
    }

    #[test]
    fn a_written_baseline_is_read_back() {
        let costs = costs(&[
            ("decode +OK", 12.25),
            ("wheel insert, 1,000,000 armed", 111.0),
        ]);
        assert_eq!(Costs::parse(&costs.to_string()), Ok(costs));
        assert!(Costs::parse("cheap decode").is_err());
    }

    #[test]
    fn an_increase_of_more_than_three_percent_is_worse() {
        let baseline = costs(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("old", 1.0)]);
        let now = costs(&[("a", 103.0), ("b", 103.5), ("c", 90.0), ("new", 1.0)]);
        let worse = [
            "b: 100.00 -> 103.50 instructions, +3.5 %",
            "new: only one of both has it",
            "old: only one of both has it",
        ];
        assert_eq!(now.worse_than(&baseline), worse);
    }
}
