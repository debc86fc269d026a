//! What the costs are compared with: a text with a line for each path, and the conditions of the
//! count.
//!
//! Another compiler, another C library or other dependencies make other instructions of the same
//! source. So a baseline names all three, and does not apply under others.

use std::fmt::{self, Write};
use std::process::Command;

/// A cost above the baseline times this is too much, and one below its inverse is a gain.
const TOLERANCE: f64 = 1.03;

/// The conditions of a count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conditions {
    /// The compiler and its target.
    compiler: String,
    /// The C library: its `memcpy` is counted too.
    library: String,
    /// A hash of the file with the versions of all dependencies.
    lock: String,
}

/// The cost of each path, under these conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// The conditions.
    pub conditions: Conditions,
    /// The name of each path and the instructions of one operation.
    pub paths: Vec<(String, f64)>,
}

/// How the costs compare with the baseline.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Comparison {
    /// A line for each path that costs too much more.
    pub worse: Vec<String>,
    /// A line for each path that costs less by as much.
    pub better: Vec<String>,
    /// The paths that only one of both has.
    pub unmatched: Vec<String>,
}

impl Conditions {
    /// Returns the conditions of this program.
    #[must_use]
    pub fn present() -> Self {
        let library = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
        let library = library.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        Self {
            compiler: env!("MADE_BY").into(),
            library: library.unwrap_or_default().trim().into(),
            lock: format!("{:016x}", hash(include_bytes!("../Cargo.lock"))),
        }
    }

    /// Returns how these differ from `others`, in words.
    #[must_use]
    pub fn differences(&self, others: &Self) -> Vec<String> {
        let pairs = [
            ("compiler", &self.compiler, &others.compiler),
            ("C library", &self.library, &others.library),
            ("Cargo.lock", &self.lock, &others.lock),
        ];
        let differing = pairs.into_iter().filter(|(_, own, other)| own != other);
        differing
            .map(|(what, own, other)| format!("its {what} is {other}, and this one is {own}"))
            .collect()
    }
}

impl Costs {
    /// Reads what [`Display`](fmt::Display) wrote.
    ///
    /// # Errors
    ///
    /// The line that is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut fields = [const { String::new() }; 3];
        let mut paths = Vec::new();
        for line in text.lines().map(str::trim) {
            let Some((first, rest)) = line.split_once(' ').filter(|_| !line.starts_with('#'))
            else {
                continue;
            };
            match first {
                "compiler" => fields[0] = rest.into(),
                "library" => fields[1] = rest.into(),
                "lock" => fields[2] = rest.into(),
                cost => {
                    let cost: f64 = cost.parse().map_err(|_| format!("no cost: {line}"))?;
                    paths.push((rest.trim().into(), cost));
                }
            }
        }
        let [compiler, library, lock] = fields;
        let conditions = Conditions {
            compiler,
            library,
            lock,
        };
        Ok(Self { conditions, paths })
    }

    /// Compares these costs with those of `baseline`.
    #[must_use]
    pub fn compare(&self, baseline: &Self) -> Comparison {
        let mut comparison = Comparison::default();
        for (name, cost) in &self.paths {
            match baseline.of(name) {
                None => comparison.unmatched.push(name.clone()),
                Some(before) => {
                    let change = (cost / before - 1.0) * 100.0;
                    let line =
                        format!("{name}: {before:.2} -> {cost:.2} instructions, {change:+.1} %");
                    if *cost > before * TOLERANCE {
                        comparison.worse.push(line);
                    } else if cost * TOLERANCE < before {
                        comparison.better.push(line);
                    }
                }
            }
        }
        let gone = baseline.paths.iter().map(|(name, _)| name);
        let gone = gone.filter(|name| self.of(name).is_none());
        comparison.unmatched.extend(gone.cloned());
        comparison
    }

    /// Returns the cost of one of these.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<f64> {
        let path = self.paths.iter().find(|(other, _)| other == name);
        path.map(|(_, cost)| *cost)
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions {
            compiler,
            library,
            lock,
        } = &self.conditions;
        writeln!(
            f,
            "# Instructions that one of each path takes, and under what. Made by"
        )?;
        writeln!(
            f,
            "#   cd benches/instructions && cargo run --release -- record"
        )?;
        writeln!(f, "compiler {compiler}\nlibrary {library}\nlock {lock}\n")?;
        for (name, cost) in &self.paths {
            writeln!(f, "{cost:>10.2}  {name}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            worse,
            better,
            unmatched,
        } = self;
        for (what, lines) in [
            ("WORSE", worse),
            ("better", better),
            ("not compared, only one of both has it", unmatched),
        ] {
            for line in lines {
                writeln!(f, "{what}: {line}")?;
            }
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
            conditions: Conditions::present(),
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
    fn an_increase_of_more_than_three_percent_is_reported_as_worse() {
        let baseline = costs(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("old", 1.0)]);
        let now = costs(&[("a", 103.0), ("b", 103.5), ("c", 90.0), ("new", 1.0)]);
        assert_eq!(
            now.compare(&baseline),
            Comparison {
                worse: vec!["b: 100.00 -> 103.50 instructions, +3.5 %".into()],
                better: vec!["c: 100.00 -> 90.00 instructions, -10.0 %".into()],
                unmatched: vec!["new".into(), "old".into()],
            }
        );
    }

    #[test]
    fn differing_conditions_are_named() {
        let own = Conditions::present();
        assert_eq!(own.differences(&own), [""; 0]);
        let other = Conditions {
            lock: "other".into(),
            ..own.clone()
        };
        let differences = own.differences(&other);
        assert_eq!(differences.len(), 1, "{differences:?}");
        assert!(differences[0].starts_with("its Cargo.lock is other"));
    }
}
