//! Votes in, verdict out; the arithmetic of validity; a lock needs a proof of majority.
//!
//! Pure: no bytes, no sockets, no clock. Everything here is exhaustively tested for small N.

mod validity;

pub use validity::Drift;
