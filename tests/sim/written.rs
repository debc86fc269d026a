//! What a client has written into one connection, and when. This shows which of two events came first, although true
//! time may stand still between them.
//!
//! The order is that of the inputs of engines: everything that a client reads, writes or is told to
//! do has a place between two of them.

use std::collections::VecDeque;

use shearline::Instant;

use crate::clock::Time;
use crate::oracle::{Command, Token, Verb};

/// A place in that order: the number of inputs before it.
pub(crate) type Place = u64;

/// Bytes that were written at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writing {
    /// The byte of the stream with which they end.
    pub(crate) end: u64,
    pub(crate) place: Place,
    /// No byte of it was requested before this place: the last one at which everything had been written or, if the
    /// bytes have waited for room, that of the first write in a series that was cut short.
    pub(crate) asked: Place,
    /// The true time at that place.
    pub(crate) since: Time,
    /// The newest time at which the client had looked at its timers.
    pub(crate) ticked: Instant,
    /// The time before that one.
    pub(crate) ticked_before: Instant,
    /// The node had been silent for too long when the bytes were requested.
    pub(crate) to_silent: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Written {
    writings: VecDeque<Writing>,
    bytes: u64,
    /// Where the current series of writes that were cut short began.
    cut: Option<(Place, Time)>,
    /// Up to which byte the client has read answers.
    pub(crate) answered: u64,
    /// The first turn without a reply although something was open, by the client's clock.
    pub(crate) silent_since: Option<Instant>,
    /// The last turn in which nothing was open when the client looked at its timers, by its clock.
    pub(crate) idle_at: Instant,
    /// When the newest `SET` that the server has executed was requested.
    pub(crate) newest_set: Place,
    /// How many commands the server has executed.
    pub(crate) executed: u64,
    /// The tokens that were set since the server began to read.
    pub(crate) together: Vec<Token>,
    /// For each resource, how many commands the server had executed at the newest release.
    pub(crate) released: Vec<u64>,
}

impl Written {
    /// Notes that the kernel took `len` of the offered bytes; `all` says whether these were all.
    pub(crate) fn wrote(&mut self, len: usize, all: bool, writing: Writing) {
        self.bytes += len as u64;
        let (asked, since) = self.cut.unwrap_or((writing.asked, writing.since));
        if len > 0 {
            self.writings.push_back(Writing {
                end: self.bytes,
                asked,
                since,
                to_silent: writing.to_silent && self.cut.is_none(),
                ..writing
            });
        }
        self.cut = if all { None } else { Some((asked, since)) };
    }

    /// Returns how the byte at this place of the stream was written. The server asks in the order of the stream.
    pub(crate) fn writing_of(&mut self, byte: u64) -> Writing {
        while let Some(front) = self.writings.front() {
            if byte < front.end {
                return *front;
            }
            self.writings.pop_front();
        }
        Writing::default() // The bytes of a stranger.
    }

    /// Returns `true` if something was written and not answered.
    pub(crate) fn is_open(&self) -> bool {
        self.answered < self.bytes
    }

    /// Returns `true` if a release comes before a `SET` that was read together with it, over any
    /// connections.
    pub(crate) fn overtakes(&mut self, command: &Command<'_>) -> bool {
        match (command.verb, command.token) {
            (Verb::Set, Some(token)) => {
                self.together.push(token);
                false
            }
            (Verb::Release, Some(token)) => self.together.contains(&token),
            _ => false,
        }
    }

    /// Notes that the server has executed a release for `resource`.
    pub(crate) fn releases(&mut self, resource: usize) {
        if self.released.len() <= resource {
            self.released.resize(resource + 1, 0);
        }
        self.released[resource] = self.executed;
    }
}
