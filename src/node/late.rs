//! The operations whose question to one node waits for its handshake, or behind it until the release of a key
//! of our own is written.
//!
//! Two queues, each with a bound of its own: questions about locks that are held are asked first, and no
//! number of others takes their room.

use alloc::collections::VecDeque;

use crate::keys::OperationKey;
use crate::limits::ROUNDS_MAX;

/// Whose question it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Whose {
    /// Of one who holds a lock, about that lock.
    Holder,
    /// Of anyone else.
    Other,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Late {
    holders: VecDeque<OperationKey>,
    others: VecDeque<OperationKey>,
}

impl Late {
    /// Puts `operation` behind those of the same kind. Returns `false` if there is no room.
    pub(crate) fn push(&mut self, operation: OperationKey, whose: Whose) -> bool {
        let queue = match whose {
            Whose::Holder => &mut self.holders,
            Whose::Other => &mut self.others,
        };
        let room = queue.len() < ROUNDS_MAX;
        if room {
            queue.push_back(operation);
        }
        room
    }

    /// Returns the next to ask.
    pub(crate) fn pop(&mut self) -> Option<OperationKey> {
        self.holders.pop_front().or_else(|| self.others.pop_front())
    }

    pub(crate) fn len(&self) -> usize {
        self.holders.len() + self.others.len()
    }

    pub(crate) fn clear(&mut self) {
        self.holders.clear();
        self.others.clear();
    }
}
