//! A history in words.

/// Whom a line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    World,
    Client(usize),
    Node(usize),
}
