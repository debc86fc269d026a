//! The common parts of the comparisons: the servers, the floor, the clients, and how they are timed.
//!
//! Each comparison is a program in `src/bin`, which decides what is compared, and the bounds.
//!
//! * [`turns`] measures [`cycle`]s of the [`clients`], the [`floor`] among them, on
//!   [`servers`], with a [`proxy`] in front of those that are disturbed, and in other processes by a [`mate`].
//! * [`figure`], [`judgement`], [`allocations`], [`random`], [`table`] and [`progress`] compute and show the results.

pub mod allocations;
pub mod clients;
pub mod cycle;
pub mod encryption;
pub mod figure;
pub mod floor;
pub mod judgement;
pub mod mate;
pub mod progress;
pub mod proxy;
pub mod random;
pub mod servers;
pub mod table;
pub mod turns;

/// Why something could not be measured.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
