//! Who holds a lock that a contender waits for, as the nodes say: by the token that a majority has.
//!
//! # Guarantees
//!
//! * Only the label of a token leaves this file. What is random in it is never shown.
//!
//! # Not here
//!
//! When nodes are asked, and whether their answers count.

use alloc::vec::Vec;

use crate::keys::NodeId;
use crate::quorum::quorum_of;
use crate::resource::{OwnedToken, Token};

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Tokens {
    /// What each node has. Empty until one has said so.
    seen: Vec<Option<OwnedToken>>,
}

impl Tokens {
    /// Nothing that was said holds any more.
    pub(super) fn forget(&mut self) {
        self.seen.fill(None);
    }

    /// `node`, one of so many, says that it has `token`, or none.
    pub(super) fn said(&mut self, node: NodeId, token: Option<OwnedToken>, nodes: usize) {
        self.seen.resize(nodes, None);
        self.seen[node.index()] = token;
    }

    /// Returns the label of the holder, empty if it has none. `None` if no token is on a majority of the
    /// nodes whose answers count.
    pub(in crate::engine) fn label(&self, counts: impl Fn(NodeId) -> bool) -> Option<&[u8]> {
        let nodes = NodeId::first(self.seen.len()).zip(&self.seen);
        let counted = nodes.filter(|(node, _)| counts(*node));
        let tokens = counted.filter_map(|(_, token)| token.as_ref());
        let tokens: Vec<Token<'_>> = tokens.map(OwnedToken::get).collect();
        let has_majority = |token: &&Token<'_>| {
            let same = tokens.iter().filter(|other| other == token);
            quorum_of(self.seen.len()) <= same.count()
        };
        tokens.iter().find(has_majority).map(|token| token.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    const ONE: &[u8] = b"\x01123456789abcdefghijone";
    const OTHER: &[u8] = b"\x02123456789abcdefghijother";
    const UNNAMED: &[u8] = b"\x03123456789abcdefghij";

    fn said(tokens: [Option<&[u8]>; 3]) -> Tokens {
        let mut said = Tokens::default();
        for (node, token) in NodeId::first(3).zip(tokens) {
            said.said(node, token.map(OwnedToken::new), 3);
        }
        said
    }

    #[test]
    fn the_holder_has_a_majority_of_the_nodes_that_count() {
        for (tokens, label) in [
            ([Some(ONE), None, Some(ONE)], Some(&b"one"[..])),
            ([Some(ONE), Some(OTHER), Some(OTHER)], Some(b"other")),
            ([Some(UNNAMED), Some(UNNAMED), None], Some(b"")),
            ([Some(ONE), Some(OTHER), None], None),
            ([Some(ONE), Some(OTHER), Some(UNNAMED)], None),
            ([None; 3], None),
        ] {
            assert_eq!(said(tokens).label(|_| true), label, "{tokens:?}");
        }
        let all = said([Some(ONE); 3]);
        assert_eq!(all.label(|node| node.index() != 2), Some(&b"one"[..]));
        assert_eq!(all.label(|node| node.index() == 0), None);
    }

    #[test]
    fn what_is_forgotten_does_not_count() {
        let mut tokens = said([Some(ONE); 3]);
        tokens.forget();
        assert_eq!(tokens.label(|_| true), None);
    }

    #[test]
    fn no_token_is_printed() {
        let text = format!("{:?}", said([Some(ONE), None, None]));
        assert!(text.contains("one") && !text.contains("1234567"), "{text}");
    }
}
