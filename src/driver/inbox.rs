//! Stores the events on the connections until the engine gets them.

use alloc::vec::Vec;
use core::ops::Range;

use super::resolve::Given;
use crate::clock;
use crate::engine::{Engine, Input, NodeId};
use crate::quorum::NodeSet;

/// The largest capacity of an empty buffer that is kept for reuse.
const KEPT_BYTES: usize = 256 << 10;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Inbox {
    /// The events. The received bytes of an event are in `bytes`, in the range that is stored with the event.
    inputs: Vec<(Input<'static>, Range<usize>)>,
    bytes: Vec<u8>,
    /// Nodes that are writable again. The wire writes the unsent bytes for these nodes before the engine
    /// gets [`Input::Writable`].
    pub(super) writable: NodeSet,
    /// The nodes whose connections have ended.
    pub(super) ended: NodeSet,
    /// A new seed for the engine, set when the wire begins a connection.
    pub(super) seed: Option<[u8; 32]>,
    /// The answers of the credentials provider for connections that are being opened.
    pub(super) given: Vec<(NodeId, Given)>,
}

impl Inbox {
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.seed.is_none()
    }

    pub(super) fn keep(&mut self, input: Input<'static>) {
        self.inputs.push((input, 0..0));
    }

    pub(super) fn received(&mut self, node: NodeId, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let input = Input::Received { node, bytes: b"" };
        self.inputs.push((input, start..self.bytes.len()));
    }

    /// Passes all events to `engine`. This function reads the clock only after the caller has got the engine, so that
    /// the engine's time never runs backwards.
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
        for (mut input, range) in self.inputs.drain(..) {
            if let Input::Received { bytes, .. } = &mut input {
                *bytes = &self.bytes[range];
            }
            sink(input);
        }
        empty(&mut self.bytes);
    }
}

/// Empties a buffer for reuse.
pub(super) fn empty(bytes: &mut Vec<u8>) {
    bytes.clear();
    if KEPT_BYTES < bytes.capacity() {
        *bytes = Vec::new();
    }
}
