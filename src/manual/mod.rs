//! The manual: what does not belong to one item.
//!
//! In reading order:
//!
//! 1. [`redlock`]: the algorithm, from a vote to a lock.
//! 2. [`guarantees`]: what is guaranteed, under which conditions, and which tests show it.
//! 3. [`safety`]: why two clients do not hold one lock, step by step.
//! 4. [`outcomes`]: what each operation may answer, and what to do then.
//! 5. [`defaults`]: every default, and the reason for it.
//! 6. [`operating`]: how to run the masters.
//! 7. [`permissions`]: what a user must be allowed on each node.
//! 8. [`design`]: the layers, and why they are as they are.
//! 9. [`testing`]: how to test with locks, and how this library is tested.

pub mod defaults;
pub mod design;
pub mod guarantees;
pub mod operating;
pub mod outcomes;
pub mod permissions;
pub mod redlock;
pub mod safety;
pub mod testing;
