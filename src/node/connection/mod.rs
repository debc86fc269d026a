//! The connection to one node: the bytes in both directions, the requests in flight, and how fast the node answers.

mod batch;
mod in_flight;
mod late;
mod outbox;
mod pulse;
pub(super) mod tracking;
mod transaction;

pub(super) use batch::Batch;
pub(crate) use in_flight::Heard;
pub(super) use in_flight::{InFlight, Sent};
pub(super) use late::Late;
pub(crate) use late::Whose;
pub(super) use outbox::Outbox;
pub(super) use pulse::Pulse;
pub(super) use transaction::Transactions;
pub(crate) use transaction::Work;
