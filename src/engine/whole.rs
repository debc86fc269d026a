//! Whole again: a node that was away gets back the locks that are kept.
//!
//! A node that is connected again may lack some of them: it restarted without them, or they ended there because it
//! could not be extended, or it was not there when they were taken. Each of these is extended at once. That
//! tells where it is missing, and the next extension, which follows at once too, sends a copy (`operation::top_up`).
//! A lock whose last extension has failed is extended at once as well: this node may be the one that it lacks.
//!
//! # Guarantees
//!
//! * No more extensions are open than [`EXTENSIONS_AT_ONCE`](crate::limits::EXTENSIONS_AT_ONCE). The others
//!   follow when some of these have ended.
//!
//! # Not here
//!
//! Locks that are not kept: they are extended when their holder asks for it. A node that was only silent: it gets
//! its copy with the next extensions. One that is silent again and again would cause as many rounds of them.

use crate::keys::{ClaimKey, NodeId};
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::Engine;

/// The search for locks that nodes may lack.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// The nodes that are connected again.
    pub(super) back: NodeSet,
    /// Those of them that may have forgotten every lock.
    pub(super) forgetful: NodeSet,
    /// The place of the claim that is looked at next.
    pub(super) next: usize,
}

impl Engine {
    /// The handshake of `node` is done. `forgetful`: it may have forgotten every lock.
    #[cold]
    #[inline(never)]
    pub(super) fn is_back(&mut self, now: Instant, node: NodeId, forgetful: bool) {
        let whole = &mut self.parts.whole;
        whole.back.insert(node);
        if forgetful {
            whole.forgetful.insert(node);
        }
        whole.next = 0;
        self.make_whole(now);
    }

    /// Extends what nodes may lack, as long as there is room for it.
    pub(super) fn make_whole(&mut self, now: Instant) {
        let next = |parts: &mut super::Parts| parts.claims.next_to_make_whole(&mut parts.whole);
        while self.parts.extensions.has_room()
            && let Some(claim) = next(&mut self.parts)
        {
            self.extend_early(now, claim);
        }
    }

    /// Extends the lock of `claim`, if it is kept, before that is due.
    pub(super) fn extend_early(&mut self, now: Instant, claim: ClaimKey) {
        if let Some(ttl) = self.parts.claims.extension(now, claim) {
            self.extend_kept(now, claim, ttl);
        }
    }
}
