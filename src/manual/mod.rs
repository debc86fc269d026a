//! The manual: what does not belong to one item.
//!
//! In reading order:
//!
//! 1. [`redlock`]: the algorithm, from a vote to a lock.
//! 2. [`guarantees`]: what may be relied on, and on what that rests.
//! 3. [`safety`]: why two clients do not hold one lock, step by step.
//! 4. [`defaults`]: every number that has one, and why it is that.
//! 5. [`operating`]: how to run the masters, and what permissions a user needs.
//! 6. [`design`]: how the parts lie on one another, and why.
//! 7. [`testing`]: how to test with locks, and how this library is tested.

pub mod defaults;
pub mod design;
pub mod guarantees;
pub mod operating;
pub mod redlock;
pub mod safety;
pub mod testing;
