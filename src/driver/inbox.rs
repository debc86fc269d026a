//! The events on the connections, kept until the engine gets them.

use alloc::vec::Vec;
use core::ops::Range;

use super::resolve::Given;
use crate::clock;
use crate::engine::{Engine, Input, NodeId};
use crate::error::LinkError;
use crate::quorum::NodeSet;

/// An empty buffer larger than this is freed.
const KEPT_BYTES: usize = 256 << 10;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Inbox {
    inputs: Vec<Kept>,
    /// The bytes that were received.
    bytes: Vec<u8>,
    /// Nodes that are writable again. The bytes kept for them are written before the engine learns of it.
    pub(super) writable: NodeSet,
    /// Nodes whose connection has ended.
    pub(super) ended: NodeSet,
    /// A new seed for the engine, if a connection was begun.
    pub(super) seed: Option<[u8; 32]>,
    /// The results of the provider of credentials for connections that are being opened.
    pub(super) given: Vec<(NodeId, Given)>,
}

enum Kept {
    Connected(NodeId),
    Received(NodeId, Range<usize>),
    Writable(NodeId),
    Disconnected(NodeId, LinkError),
    Probed(NodeId),
}

impl Inbox {
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.seed.is_none()
    }

    pub(super) fn keep(&mut self, input: Input<'_>) {
        let kept = match input {
            Input::Connected { node } => Kept::Connected(node),
            Input::Received { node, bytes } => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Kept::Received(node, start..self.bytes.len())
            }
            Input::Disconnected { node, reason } => {
                self.ended.insert(node);
                Kept::Disconnected(node, reason)
            }
            Input::Probed { node } => Kept::Probed(node),
            Input::Writable { node } => {
                self.writable.insert(node);
                return;
            }
            Input::Transmitted { .. } | Input::Tick => {
                unreachable!("no connection says {input:?}")
            }
        };
        self.inputs.push(kept);
    }

    /// All bytes kept for `node` are written, and the engine waits for that.
    pub(super) fn is_writable(&mut self, node: NodeId) {
        self.inputs.push(Kept::Writable(node));
    }

    /// Passes everything to `engine`. The clock is read here, together with the engine, so that the engine's time never
    /// runs backwards.
    pub(super) fn hand_in(&mut self, engine: &mut Engine) {
        if let Some(seed) = self.seed.take() {
            engine.reseed(seed);
        }
        for (node, given) in self.given.drain(..) {
            engine.log_in(node, given);
        }
        if !self.inputs.is_empty() {
            let now = clock::now();
            self.drain(|input| engine.handle(now, input));
        }
    }

    pub(super) fn drain(&mut self, mut sink: impl FnMut(Input<'_>)) {
        for kept in self.inputs.drain(..) {
            sink(match kept {
                Kept::Connected(node) => Input::Connected { node },
                Kept::Received(node, range) => Input::Received {
                    node,
                    bytes: &self.bytes[range],
                },
                Kept::Writable(node) => Input::Writable { node },
                Kept::Disconnected(node, reason) => Input::Disconnected { node, reason },
                Kept::Probed(node) => Input::Probed { node },
            });
        }
        empty(&mut self.bytes);
    }
}

/// Empties a buffer for the next bytes.
pub(super) fn empty(bytes: &mut Vec<u8>) {
    bytes.clear();
    if KEPT_BYTES < bytes.capacity() {
        *bytes = Vec::new();
    }
}
