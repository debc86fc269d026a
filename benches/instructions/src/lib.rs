//! How many instructions the hot paths of shearline take.
//!
//! Time differs from machine to machine and from moment to moment; the count of instructions does
//! not, if all machines run the same ones. So nothing here is chosen by what the processor can do:
//! `memchr` is built without `std`, the random numbers without vectors, and the C library is told to
//! copy plainly. What is counted is the difference between so many repetitions and twice as many:
//! what it takes to begin cancels out.
//!
//! * [`nodes`]: an engine over nodes in memory, that answer at once.
//! * [`paths`]: what is counted.
//! * [`callgrind`]: how it is counted.
//! * [`baseline`]: what it is held against, and [`ancestor`] where that does not hold.
//!
//! # Not here
//!
//! What a count does not show: cache misses, wrong guesses of branches, system calls. See the other
//! benches for time.

pub mod ancestor;
pub mod baseline;
pub mod callgrind;
pub mod nodes;
pub mod paths;
pub mod random;
