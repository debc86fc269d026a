//! What the comparisons share: how contestants are timed, how allocations are counted, and for locks
//! the servers, the floor and the clients.
//!
//! Each comparison is a program in `src/bin`. Not here: what is compared, and the bounds.
//!
//! * For what only computes: [`measure`].
//! * For locks: [`turns`] measures [`cycle`]s of the [`clients`], the [`floor`] among them, on
//!   [`servers`], with a [`proxy`] in front of those that are disturbed.
//! * For both: [`figure`], [`judgement`], [`allocations`], [`random`], [`table`], [`curve`] and
//!   [`progress`].

pub mod allocations;
pub mod clients;
pub mod curve;
pub mod cycle;
pub mod encryption;
pub mod figure;
pub mod floor;
pub mod judgement;
pub mod measure;
pub mod progress;
pub mod proxy;
pub mod random;
pub mod servers;
pub mod table;
pub mod turns;
