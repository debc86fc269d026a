//! The manual: what does not belong to one item.
//!
//! In reading order:
//!
//! 1. [`redlock`]: the algorithm, from a vote to a lock.
//! 2. [`guarantees`]: what is guaranteed, under which conditions, and which tests show it.
//! 3. [`safety`]: why two clients do not hold one lock, step by step.
//! 4. [`outcomes`]: what each operation may answer, and what to do then.
//! 5. [`waiting`]: what wakes a waiter, for how long it waits, and who is next.
//! 6. [`keeping`]: how to keep a lock for longer than a ttl, and what happens if that fails.
//! 7. [`defaults`]: every default, and the reason for it.
//! 8. [`operating`]: how to run the masters.
//! 9. [`permissions`]: what a user must be allowed on each node.
//! 10. [`hosted`]: what is known of hosted services, proxies and servers like Redis, and what is unsafe.
//! 11. [`tls`]: authorities, client certificates and names, and what errors of TLS mean.
//! 12. [`design`]: the layers, and why they are as they are.
//! 13. [`testing`]: how to test with locks, and how this library is tested.

pub mod defaults;
pub mod design;
pub mod guarantees;
pub mod hosted;
pub mod keeping;
pub mod operating;
pub mod outcomes;
pub mod permissions;
pub mod redlock;
pub mod safety;
pub mod testing;
pub mod tls;
pub mod waiting;
