//! Shows the progress: on a terminal one line that changes, otherwise a line for each contest.

use std::fs;
use std::io::{IsTerminal, Write, stderr};

/// Progress on standard error while contests run.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    contest: usize,
    contests: usize,
    title: String,
}

impl Progress {
    /// Makes the progress of this many contests.
    #[must_use]
    pub fn new(contests: usize) -> Self {
        Self {
            terminal: stderr().is_terminal(),
            contest: 0,
            contests,
            title: String::new(),
        }
    }

    /// Shows that the next contest begins.
    pub fn next(&mut self, title: String) {
        self.contest += 1;
        self.title = title;
        if !self.terminal {
            eprintln!("{}/{} {}", self.contest, self.contests, self.title);
        }
    }

    /// Shows that this many rounds are over.
    pub fn round(&self, round: usize) {
        self.step("round", round);
    }

    /// Shows that this many seconds are over. Allocates nothing.
    pub fn second(&self, second: usize) {
        self.step("second", second);
    }

    fn step(&self, what: &str, number: usize) {
        if self.terminal {
            let Self {
                contest,
                contests,
                title,
                ..
            } = self;
            eprint!("\r\x1b[K{contest}/{contests} {title}, {what} {number}");
            // It does no harm if a progress line cannot be written.
            let _ = stderr().flush();
        }
    }

    /// Shows that all contests are over.
    pub fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

/// Returns the load of the machine in the last minute.
#[must_use]
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}
