//! How many instructions the hot paths of shearline take.
//!
//! Time differs from machine to machine and from moment to moment; the count of instructions does not, if all machines
//! run the same ones. So nothing here depends on the features of the processor: `memchr` is built without `std`, the
//! random numbers without vectors, and the C library copies plainly. The count is the difference between a number of
//! repetitions and twice that number, so the cost of the start cancels out.
//!
//! * [`nodes`]: an engine over nodes in memory that answer at once.
//! * [`paths`]: the operations that are counted.
//! * [`callgrind`]: how they are counted.
//! * [`baseline`]: the costs with which they are compared.
//!
//! # Not here
//!
//! What a count does not show: cache misses, mispredicted branches, system calls. See the other
//! benches for time.

pub mod baseline;
pub mod callgrind;
pub mod nodes;
pub mod paths;
mod random;
