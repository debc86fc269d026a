//! What the comparisons share: how contestants are timed, and how allocations are counted.
//!
//! Each comparison is a program in `src/bin`. Not here: what is compared, and the bounds.

pub mod allocations;
pub mod figure;
pub mod judgement;
pub mod measure;
pub mod random;
pub mod table;
