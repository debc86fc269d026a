//! The manual: what does not belong to one item.
//!
//! In reading order:
//!
//! 1. [`redlock`]: the algorithm, from a vote to a lock.
//! 2. [`guarantees`]: what is guaranteed, under which conditions, and which tests show it.
//! 3. [`safety`]: why two clients do not hold one lock, step by step.
//! 4. [`choosing`]: whether you need a lock, one node or several, ttl, waiting, and what to do without fencing
//!    tokens.
//! 5. [`coming_from`]: redsync, node-redlock, redlock-py, rslock, Redisson, `consul lock`, `flock`: what you write
//!    there and here, and what differs.
//! 6. [`outcomes`]: what each operation may answer, and what to do then.
//! 7. [`waiting`]: what wakes a waiter, for how long it waits, and who is next.
//! 8. [`keeping`]: how to keep a lock for longer than a ttl, and what happens if that fails.
//! 9. [`holders`]: shared locks and permits, for several holders at a time.
//! 10. [`elections`]: a leader and its term, and others who see which leader there is.
//! 11. [`defaults`]: every default, and the reason for it.
//! 12. [`operating`]: how to run the masters.
//! 13. [`permissions`]: what a user must be allowed on each node.
//! 14. [`hosted`]: what is known of hosted services, proxies and servers like Redis, and what is unsafe.
//! 15. [`tls`]: authorities, client certificates and names, and what errors of TLS mean.
//! 16. [`command`]: `shearline` for scripts and operators: commands, exit statuses, what `--json` prints.
//! 17. [`tracing`]: the spans and events for subscribers of `tracing`.
//! 18. [`troubles`]: for three in the morning: what you see, what to look at, what to do.
//! 19. [`design`]: the layers, and why they are as they are.
//! 20. [`testing`]: how to test with locks, and how this library is tested.

pub mod choosing;
pub mod coming_from;
pub mod command;
pub mod defaults;
pub mod design;
pub mod elections;
pub mod guarantees;
pub mod holders;
pub mod hosted;
pub mod keeping;
pub mod operating;
pub mod outcomes;
pub mod permissions;
pub mod redlock;
pub mod safety;
pub mod testing;
pub mod tls;
pub mod tracing;
pub mod troubles;
pub mod waiting;
