//! A player: a process that locks on command with one tree of the library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::mate::Mate;
use shearline_peers::turns::Sample;

/// After how many turns a new process takes over. The places of code and memory make a difference, which must not be
/// mistaken for one between the trees.
const LIFE: usize = 10;

/// A player. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Player {
    program: PathBuf,
    arguments: Vec<OsString>,
    mate: Mate,
    turns: usize,
}

impl Player {
    /// Starts a player, and waits until it has connected.
    pub(crate) fn start(program: &Path, arguments: Vec<OsString>) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(&arguments);
        Ok(Self {
            program: program.into(),
            arguments,
            mate: Mate::process(command)?,
            turns: 0,
        })
    }

    /// Lets the player lock for this long.
    pub(crate) fn turn(&mut self, slot: Duration) -> Result<Sample, Failure> {
        if self.turns == LIFE {
            *self = Self::start(&self.program, self.arguments.clone())?;
            // The first turn of a process does not count.
            self.play(slot)?;
        }
        self.turns += 1;
        self.play(slot)
    }

    fn play(&mut self, slot: Duration) -> Result<Sample, Failure> {
        self.mate.tell(&format!("turn {}", slot.as_millis()))?;
        sample(&self.mate.hear("")?)
    }
}

/// Reads the line that a player prints after a turn.
fn sample(line: &str) -> Result<Sample, Failure> {
    let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[cycles, elapsed, cpu, p50, p99]) if cycles > 0 => {
            let [elapsed, cpu] = [elapsed, cpu].map(Duration::from_nanos);
            let latencies = [u32::try_from(p50)?, u32::try_from(p99)?];
            Ok(Sample::of_cycles(cycles, elapsed, cpu, latencies))
        }
        _ => Err(format!("a player said {line:?}, no five numbers").into()),
    }
}

#[cfg(test)]
mod tests {
    use shearline_peers::cycle::Span;
    use shearline_peers::turns::Metric;

    use super::*;

    #[test]
    fn a_line_of_a_player_is_a_sample() {
        let sample = sample("10 2000000 40000 700 900").unwrap();
        assert_eq!(sample.get(Metric::Rate), 5000.0);
        assert_eq!(sample.get(Metric::Cpu), 4000.0);
        assert_eq!(sample.get(Metric::Median(Span::Cycle)), 700.0);
        assert_eq!(sample.get(Metric::Tail(Span::Cycle)), 900.0);
        assert!(sample.get(Metric::Tail(Span::Acquire)).is_nan());
    }

    #[test]
    fn another_line_is_refused() {
        for line in [
            "",
            "10 1 1 1",
            "10 1 1 1 1 1",
            "0 1 1 1 1",
            "10 1 1 1 x",
            "1 1 1 1 4294967296",
        ] {
            assert!(sample(line).is_err(), "{line}");
        }
    }

    fn shell(script: &str) -> Result<Player, Failure> {
        Player::start(Path::new("/bin/sh"), vec!["-c".into(), script.into()])
    }

    /// The player in this test prints its process id as the number of cycles.
    #[test]
    fn a_new_process_takes_over_after_ten_turns() {
        let mut player =
            shell("echo ready; while read turn millis; do echo $$ 1000 $millis 1 1; done").unwrap();
        let mut cycles = Vec::new();
        for _ in 0..=LIFE {
            let sample = player.turn(Duration::from_millis(7)).unwrap();
            cycles.push((sample.get(Metric::Rate) / 1e6).round() as u32);
            assert!((sample.get(Metric::Cpu) * sample.get(Metric::Rate) - 7e6).abs() < 1.0);
        }
        let last = cycles.pop().unwrap();
        assert!(
            cycles.iter().all(|one| *one == cycles[0]) && last != cycles[0],
            "{cycles:?}, {last}"
        );
    }

    #[test]
    fn a_player_that_ends_early_is_an_error() {
        assert!(shell("true").is_err());
        assert!(shell("echo no").is_err());
        let mut player = shell("echo ready; read turn").unwrap();
        let error = player.turn(Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.to_string(), r#"a player said "", no five numbers"#);
    }
}
