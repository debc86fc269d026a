//! Counts the instructions of the hot paths of shearline.
//!
//! Times differ between machines and between runs, but the number of instructions does not, if all machines run the
//! same instructions. So no counted code depends on the features of the processor: `memchr` is built without `std`, the
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
//! A count does not show cache misses, mispredicted branches and system calls. The other benches measure time.

pub mod baseline;
pub mod callgrind;
pub mod nodes;
pub mod paths;
mod random;
