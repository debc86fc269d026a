//! What a client has said since `MULTI`.

use alloc::vec::Vec;
use core::fmt;

use super::refusal::Refusal;
use super::reply::{Answer, Reply};

/// The most commands between `MULTI` and `EXEC`.
const QUEUED_MAX: usize = 4096;

/// The commands of a client since `MULTI`.
#[derive(Clone, Default)]
pub(super) struct Queue {
    pub(super) commands: Vec<Vec<Vec<u8>>>,
    /// One of them was refused.
    pub(super) spoiled: bool,
}

/// Without the words: there are tokens among them.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.commands.len())
    }
}

impl Queue {
    /// Something that was to be run was refused.
    pub(super) const fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Takes over a command.
    pub(super) fn push(&mut self, words: &[&[u8]]) -> Answer {
        if self.commands.len() == QUEUED_MAX {
            self.spoil();
            return Err(Refusal::fixed("ERR too many commands in a transaction"));
        }
        let words = words.iter().map(|word| word.to_vec());
        self.commands.push(words.collect());
        Ok(Reply::Simple("QUEUED"))
    }
}
