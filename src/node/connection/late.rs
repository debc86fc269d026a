//! The operations whose question to a node must wait. A question waits until the handshake is done. After the
//! handshake, a question may also wait until this engine has written the release of its earlier lock on the same
//! resource.
//!
//! The operations wait in two queues, each with its own limit. One queue contains the questions about held locks, which
//! are sent first.

use alloc::collections::VecDeque;

use crate::keys::OperationKey;
use crate::limits::ROUNDS_MAX;

/// The kind of operation whose question waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Whose {
    /// A holder that asks about its lock.
    Holder,
    /// Any other operation.
    Other,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Late {
    holders: VecDeque<OperationKey>,
    others: VecDeque<OperationKey>,
}

impl Late {
    /// Adds `operation` to the queue for its kind. Returns `false` if this queue is full.
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

    /// Returns the next operation whose question can be asked.
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
