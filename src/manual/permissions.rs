//! What the user of a lock client must be allowed on each node.
//!
//! This is all that a user needs:
//!
//! ```text
//! ACL SETUSER locker on >secret ~lock:* +set +get +del +pttl +pexpire +eval +evalsha +script|load +info +time +client|tracking +client|caching
//! ```
//!
//! and in addition, with [`RestartGuard::Strict`](crate::RestartGuard::Strict):
//!
//! ```text
//! ACL SETUSER locker ~shearline:* +config|get
//! ```
//!
//! Tests hold both lines against real servers, whole and with each word taken out
//! (`readme::the_acl_line_suffices_and_is_the_least`, `readme::the_acl_line_suffices_on_valkey`,
//! `readme::the_acl_line_of_a_strict_guard_suffices_and_is_the_least`), and `tests/run.sh` runs the
//! tests on real servers once more with a user that has the first line and no other permission.
//!
//! | word | why it is there | without it |
//! | --- | --- | --- |
//! | `~lock:*` | The names of the locks that the user may take. | Other names are refused: [`Unusable::KeyPermission`](crate::Unusable::KeyPermission). |
//! | `+set` | Takes a lock. | No lock. |
//! | `+get`, `+del`, `+eval`, `+evalsha` | Release a lock. The script runs `get` and `del`, and servers check those too. | No lock: a user who may not release a lock gets none. |
//! | `+pttl`, `+pexpire` | Extend a lock. `+pttl` also confirms and inspects one, and says to those who wait when it ends. | Locks, but no extension. |
//! | `+script\|load` | Loads the scripts, so that only their digests are sent. | Scripts are sent as text. |
//! | `+info` | Asks a node which server it is. | No restart is noticed, and two addresses of one server have two votes. With `Strict`: no lock. |
//! | `+time` | Watches the clock of the node ([`Builder::watch_clocks`](crate::Builder::watch_clocks)). | No clock is watched. |
//! | `+client\|tracking`, `+client\|caching` | Let a node tell those who wait that a lock was released ([`manual::waiting`](crate::manual::waiting)). | They look from time to time: [`Waking::Refused`](crate::Waking::Refused). |
//! | `~shearline:*` | The marker and the barrier of `Strict`. | No lock with `Strict`. |
//! | `+config\|get` | Asks a node with `Strict` whether it loses nothing in a restart. | A restarted node always waits. |
//!
//! Some need more:
//!
//! * `+select`, if the URL names a database other than 0.
//! * `+delifeq` (Valkey 9) or `+delex` (Redis 8.4) lets the release be one native command. Without it
//!   the script is used. A Valkey without Lua needs `+delifeq`.
//!
//! A lock on several resources is taken, extended and released by `+eval` alone, with `+get`, `+set` and
//! `+del` (and `+pttl` and `+pexpire` to extend it): a native release deletes one key. All of its names have
//! to be the user's. Where something is missing, nothing is taken, and locks on one resource are as before.
//!
//! `+evalsha` may be left out together with `+script|load`.
//!
//! What is missing is named at the first lock ([`Unusable::Permission`](crate::Unusable::Permission),
//! with the command), on Redis 7.0 or newer and Valkey. Older servers do not say which commands
//! scripts may run.
//!
//! Give each service a user and names of its own. A user who may write a key can delete
//! the lock of that name.
