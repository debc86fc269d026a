//! A mate is another process, or a thread, which receives its orders line by line.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::servers::ends_with_us;

/// The pipes to a mate. A process ends when this value is dropped, or when this process ends; it is ended by its id.
pub struct Mate {
    to: Box<dyn Write>,
    from: BufReader<Box<dyn Read>>,
    child: Option<Child>,
}

impl Mate {
    /// Starts a process, and waits until it says that it is ready.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or says something else.
    pub fn process(mut command: Command) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ends_with_us(&mut command).spawn()?;
        let to = child.stdin.take().ok_or("no pipe to the other process")?;
        let from = child.stdout.take().ok_or("no pipe from it")?;
        Self::meet(Box::new(to), Box::new(from), Some(child))
    }

    /// Waits until the mate at these pipes says that it is ready.
    ///
    /// # Errors
    ///
    /// The mate says something else.
    pub fn meet(
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
    ///
    /// # Errors
    ///
    /// The mate has ended.
    pub fn tell(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.to, "{line}")?)
    }

    /// Waits for a line, and returns the text after its first word, which must be this one.
    ///
    /// # Errors
    ///
    /// The mate says something else, or has ended.
    pub fn hear(&mut self, word: &str) -> Result<String, Failure> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("another process said {line:?}, not {word}").into()),
        }
    }

    /// Sends a line, and waits for the answer: a number after the same word.
    ///
    /// # Errors
    ///
    /// The mate says something else, or has ended.
    pub fn ask(&mut self, word: &str) -> Result<u64, Failure> {
        self.tell(word)?;
        Ok(self.hear(word)?.parse()?)
    }
}

impl Drop for Mate {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl fmt::Debug for Mate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mate").finish_non_exhaustive()
    }
}
