//! Another one, told line by line what to do: this program, started once more, or a thread.
//!
//! A process ends with this one, and is ended by its id.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

use clap::ValueEnum;
use shearline_peers::Failure;
use shearline_peers::servers::ends_with_us;

use crate::hands::{Hands, Who};
use crate::play::{self, Part};

/// What there is to talk with it.
pub(crate) struct Mate {
    to: Box<dyn Write>,
    from: BufReader<Box<dyn Read>>,
    child: Option<Child>,
}

impl Mate {
    /// Starts this program once more, and waits until it has connected.
    pub(crate) fn process(part: Part, who: Who, nodes: &[SocketAddr]) -> Result<Self, Failure> {
        let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        let mut command = Command::new(env::current_exe()?);
        command
            .args(["--play", &word(part)?, "--who", &word(who)?])
            .args(["--at", &nodes.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = ends_with_us(&mut command).spawn()?;
        let to = child.stdin.take().ok_or("no pipe to the other process")?;
        let from = child.stdout.take().ok_or("no pipe from it")?;
        Self::meet(Box::new(to), Box::new(from), Some(child))
    }

    /// Starts a thread with these hands.
    pub(crate) fn thread(hands: Box<dyn Hands>) -> Result<Self, Failure> {
        let (its_input, to) = io::pipe()?;
        let (from, its_output) = io::pipe()?;
        thread::spawn(move || {
            let ended = play::wait(hands, BufReader::new(its_input), its_output);
            if let Err(error) = ended {
                eprintln!("a waiting thread failed: {error}");
            }
        });
        Self::meet(Box::new(to), Box::new(from), None)
    }

    fn meet(
        to: Box<dyn Write>,
        from: Box<dyn Read>,
        child: Option<Child>,
    ) -> Result<Self, Failure> {
        let from = BufReader::new(from);
        let mut mate = Self { to, from, child };
        mate.hear("ready")?;
        Ok(mate)
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.to, "{line}")?)
    }

    /// Waits for a line, and returns what is behind its first word, which must be this one.
    pub(crate) fn hear(&mut self, word: &str) -> Result<String, Failure> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("another process said {line:?}, not {word}").into()),
        }
    }

    /// Sends a line, and waits for a number that it answers behind the same word.
    pub(crate) fn ask(&mut self, word: &str) -> Result<u64, Failure> {
        self.tell(word)?;
        Ok(self.hear(word)?.parse()?)
    }
}

impl Drop for Mate {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn word(value: impl ValueEnum) -> Result<String, Failure> {
    let value = value.to_possible_value().ok_or("a value without a name")?;
    Ok(value.get_name().to_owned())
}
