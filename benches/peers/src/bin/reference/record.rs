//! The record of all runs, which shows a drift over months.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use shearline_peers::Failure;
use shearline_peers::figure::Figure;

use crate::contest::Contest;
use crate::trees::{commit, reference, said};

const HEAD: &str = "\
# This library ÷ its reference tree, in one run: written by `--record` of benches/peers/src/bin/reference. A `+` behind
# the commit: the library had changes. `÷` in the metric: the ratio is to that.
# date, commit, reference, nodes, case, metric, ratio, low and high end of its 95 % interval
";

/// Adds the figures of a run.
pub(crate) fn append(path: &Path, nodes: u64, contests: &[Contest]) -> Result<(), Failure> {
    let mut reference = reference()?;
    reference.truncate(12);
    let run = [said(Command::new("date").arg("+%F"))?, commit()?, reference];
    let run = format!("{}\t{nodes}", run.join("\t"));
    let mut lines = String::new();
    for contest in contests {
        for (metric, figure) in contest.figures() {
            lines.push_str(&line(&run, &contest.case.to_string(), &metric, figure));
        }
    }
    add(path, &lines)
}

fn line(run: &str, case: &str, metric: &str, figure: Figure) -> String {
    let Figure { median, low, high } = figure;
    format!("{run}\t{case}\t{metric}\t{median:.3}\t{low:.3}\t{high:.3}\n")
}

fn add(path: &Path, lines: &str) -> Result<(), Failure> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() == 0 {
        file.write_all(HEAD.as_bytes())?;
    }
    file.write_all(lines.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_record_has_one_head_and_a_line_for_each_figure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.tsv");
        let figure = Figure {
            median: 1.0,
            low: 0.98765,
            high: 1.25,
        };
        let line = line("2026-11-29\tabc\tdef\t5", "joined-64", "cycles/s", figure);
        let plain = "2026-11-29\tabc\tdef\t5\tjoined-64\tcycles/s\t1.000\t0.988\t1.250\n";
        assert_eq!(line, plain);
        add(&path, &line).unwrap();
        add(&path, &line).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, [HEAD, plain, plain].concat());
    }
    #[test]
    fn the_committed_record_is_one() {
        let text = include_str!("../../../../reference/record.tsv");
        let lines = text.strip_prefix(HEAD).unwrap().lines();
        for line in lines {
            assert_eq!(line.split('\t').count(), 9, "{line}");
        }
    }
}
