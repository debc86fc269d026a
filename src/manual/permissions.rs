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
//! and for [shared locks and permits](super::holders):
//!
//! ```text
//! ACL SETUSER locker ~shearline:* +zrange +zscore +zadd +zrem +pexpireat
//! ```
//!
//! For [fencing tokens](crate::LockOptions::fenced) it needs `~shearline:*` alone besides the first line; `+info` and
//! `+time`, which plain locks can do without, it needs then.
//!
//! Tests hold these lines against real servers, whole and with each word taken out
//! (`readme::the_acl_line_suffices_and_is_the_least`, `readme::the_acl_line_suffices_on_valkey`,
//! `readme::the_acl_line_of_a_strict_guard_suffices_and_is_the_least`,
//! `readme::the_acl_line_of_fencing_tokens_suffices_and_is_the_least`,
//! `readme::the_acl_line_of_shared_locks_and_permits_suffices_and_is_the_least`), and `tests/long.sh` runs the
//! tests on real servers once more with a user that has the first line and no other permission.
//!
//! | word | why it is there | without it |
//! | --- | --- | --- |
//! | `~lock:*` | The names of the locks that the user may take. | Other names are refused: [`Unusable::KeyPermission`](crate::Unusable::KeyPermission). |
//! | `+set` | Takes a lock. | No lock. |
//! | `+get`, `+del`, `+eval`, `+evalsha` | Release a lock. The script runs `get` and `del`, and servers check those too. | No lock: a user who may not release a lock gets none. |
//! | `+pttl`, `+pexpire` | Extend a lock. `+pttl` also confirms, inspects and breaks one, and says to those who wait when it ends. | Locks, but no extension. |
//! | `+script\|load` | Loads the scripts, so that only their digests are sent. | Scripts are sent as text. |
//! | `+info` | Asks a node which server it is. | No restart is noticed, and two addresses of one server have two votes. With `Strict`: no lock. No fencing token. |
//! | `+time` | Watches the clock of the node ([`Builder::watch_clocks`](crate::Builder::watch_clocks)). | No clock is watched. No fencing token: a node says by its clock what may be proposed. |
//! | `+time`, `+zrange` | List the holders of shared locks and permits in an inspection. | They are shown as something that is no lock. |
//! | `+client\|tracking`, `+client\|caching` | Let a node tell those who wait that a lock was released ([`manual::waiting`](crate::manual::waiting)), and those who keep one that its key was deleted. | They look from time to time: [`Waking::Refused`](crate::Waking::Refused). The next extension finds the deletion. |
//! | `~shearline:*` | The marker and the barrier of `Strict`; the counters and the floor of fencing tokens; the intent of a caller who waits for readers to go. | No lock with `Strict`, and none with a fencing token. No shared lock, unless `~shearline:intent:*` is there. |
//! | `+zrange`, `+zscore`, `+zadd`, `+zrem`, `+pexpireat` | Take, extend and release a shared lock or a permit: its holders stand in a sorted set. | No shared lock and no permit. |
//! | `+config\|get` | Asks a node with `Strict` whether it loses nothing in a restart. | A restarted node always waits. |
//!
//! Some need more:
//!
//! * `+select`, if the URL names a database other than 0.
//! * `+delifeq` (Valkey 9) or `+delex` (Redis 8.4) lets the release be one native command. Without it
//!   the script is used. A Valkey without Lua needs `+delifeq`.
//! * `+scan`, for `Redlock::count_counters` and `shearline nodes --counters` alone. They run a script.
//!
//! A lock on several resources is taken, extended and released by `+eval` alone where scripts are run, with `+get`,
//! `+set` and `+del` (and `+pttl` and `+pexpire` to extend it): a native release deletes one key. All of its names have
//! to be the user's. Where something is missing, nothing is taken, and locks on one resource are as before.
//!
//! `+evalsha` may be left out together with `+script|load`.
//!
//! What is missing is named at the first lock ([`Unusable::Permission`](crate::Unusable::Permission),
//! with the command), on Redis 7.0 or newer and Valkey. Older servers do not say which commands
//! scripts may run.
//!
//! # Without scripts
//!
//! A node that refuses to run a script, because the user may not (`NOPERM` for `EVAL` or `EVALSHA`) or because it
//! knows no such command, is asked without scripts from then on. That is found out for each node, with its first
//! refusal: it costs that one request another round trip or two. A node that has loaded the scripts in a later
//! handshake is asked by them again. One that refuses scripts in words of its own, as proxies do, is asked without
//! them if it has refused to load them too; with the first lock over each connection it is asked for one again, so that
//! an error that has passed costs no more. A handle with
//! [`Builder::without_scripts`](crate::Builder::without_scripts) runs no script from the start. A user for
//! either needs
//!
//! ```text
//! ACL SETUSER locker on >secret ~lock:* +set +get +pttl +pexpire +watch +multi +exec +info +time +client|tracking +client|caching
//! ```
//!
//! A Valkey releases locks by it in one round trip, and a Redis in two. With `+delifeq` a Valkey 9 uses that, which
//! is the same number; with `+delex` a Redis 8.4 needs one. With `+msetex`, where the server has that, several locks
//! are taken in one. A test
//! holds the line against a real server, whole and with each word taken out
//! (`readme::the_acl_line_without_scripts_suffices_and_is_the_least`), and `tests/long.sh` runs the tests on real
//! servers once more with a user that may do everything but run scripts: by handles that are told so on Redis 7.0
//! and Valkey 9.1, and by handles that find it out on Valkey 8.1.
//!
//! A lock is taken by `SET .. NX PX`, as with scripts. It is confirmed and inspected by `GET` and `PTTL` between
//! `MULTI` and `EXEC`, and waiters are woken as with scripts. It is broken by the same commands and `SET .. XX KEEPTTL`.
//! It is extended by `WATCH`, `GET` and `PTTL`, then
//! `MULTI`, `PEXPIRE`, `EXEC`: two round trips.
//!
//! `SET .. IFEQ token GET PX` would extend it in one, and is not used: it sets the end whatever that was. One
//! that is executed late would shorten what a later extension has reached, and so would one by another holder of
//! a lock that was handed over.
//!
//! How it is released depends on the server:
//!
//! | server | a lock is released by | round trips | was run without scripts |
//! | --- | --- | --- | --- |
//! | Redis 6.2, 8.0 | `WATCH`, `GET`; `MULTI`, `PEXPIRE`, `EXEC` | 2 | the life of a lock (the test above), and of a set |
//! | Redis 7.0 | the same | 2 | all |
//! | Redis 8.4 | `DELEX .. IFEQ` | 1 | not on a server: its documentation says so |
//! | Valkey 8.1 | `SET .. IFEQ .. PXAT 1` | 1 | all |
//! | Valkey 9.0 | `DELIFEQ`; `SET .. IFEQ` without `+delifeq` | 1 | the life of a lock, and of a set |
//! | Valkey 9.1 | the same | 1 | all |
//!
//! "All" are the tests on real servers but for those that say in their first line why they cannot run so, and those
//! that `.config/nextest.toml` leaves out; the life of a
//! lock and of a set is run while a node forbids one command after the other
//! (`permissions::taken_away::a_node_that_forbids_one_command_after_the_other_ends_no_lock`). The release by a
//! transaction sets an expiry of the past: the server deletes the key at once.
//!
//! What the server's processor does for it, in microseconds without the network: `usec_per_call` of
//! `INFO commandstats` on one Valkey 9.1.2, added up over the commands of each way (what `EXEC` runs is in
//! its own figure). Medians of seven rounds of 2,000 locks, one client, on a busy machine with two cores.
//!
//! | | script | native | `WATCH` |
//! | --- | --- | --- | --- |
//! | release | 3.4 | 0.5 (`DELIFEQ`), 0.5 (`SET .. IFEQ .. PXAT 1`) | 1.5 |
//! | extend | 3.9 | | 1.9 |
//! | confirm | 3.2 | 0.7 (`GET` and `PTTL` in a `MULTI`) | |
//!
//! So scripts cost the server more than any other way, and `WATCH` costs a round trip instead.
//!
//! What that is worth to 32 threads, each with a lock of its own, on three servers: medians of seven turns of
//! 0.8 s, one run of 24 November 2026 on two cores, at a load of 2 to 7 by this run itself. The server's time is
//! all of it, the network included.
//!
//! | servers | released by | extended by | cycles a second | with an extension | a server's time for a cycle | with an extension |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | Valkey 9.1 | `DELIFEQ` | script | 33,900 | 19,500 | 4.8 us | 12.6 us |
//! | Valkey 9.1 | script | script | 23,200 | 18,300 | 7.5 us | 15.0 us |
//! | Valkey 9.1 | `DELIFEQ` | `WATCH` | 35,500 | 16,700 | 4.7 us | 12.9 us |
//! | Valkey 9.1 | `SET .. IFEQ` | `WATCH` | 29,900 | 17,800 | 4.7 us | 13.3 us |
//! | Redis 7.0 | script | script | 28,900 | 21,100 | 6.4 us | 12.7 us |
//! | Redis 7.0 | `WATCH` | `WATCH` | 22,900 | 15,900 | 6.8 us | 13.1 us |
//!
//! What a server can do is found by what it answers, not by its version. A user who may not run `+watch`,
//! `+multi` and `+exec` gets locks only where there is another way to release them, and can extend none. A
//! node where there is no way is [`Unusable::Permission`](crate::Unusable::Permission); it names the command that
//! runs scripts, unless the handle uses none. Where scripts were refused in words that are not known, it is refused
//! with these words.
//!
//! Locks on several resources are taken by `WATCH`, `GET`, `PTTL`; `MULTI`, `SET`, `EXEC`, and extended and
//! released as one lock is by a transaction. Before anything is taken each key is asked whether the user may
//! delete it, by a `PEXPIRE` with a ttl that is no number. What changes between the reading and the writing is
//! read again. On a server that has `MSETEX` (Valkey 9.1, and Redis 8.4 by its documentation), and for a user who may
//! run it (`+msetex`), they are taken by one round trip from the second on over a connection: by `MULTI`, that
//! `PEXPIRE` for each key, `MSETEX .. NX PX`, a `GET` for each, `EXEC`. The first one asks whether it may be run. A
//! refusal (`:0`) names no key: the reads behind it do. A key that a node has lost is set by a transaction that reads
//! before, as is everything where `MSETEX` is refused later.
//!
//! [`RestartGuard::Strict`](crate::RestartGuard::Strict) and fencing tokens need scripts: a node without them is
//! [`Unusable::NeedsScripts`](crate::Unusable::NeedsScripts), and a call fails at once where such nodes are a
//! majority.
//!
//! A release that takes two round trips may be begun and not done when the program ends: such a lock stays until
//! its ttl is over.
//!
//! # Passwords and tokens that change
//!
//! `Builder::credentials` takes a function that is asked for the credentials of a node before each
//! connection to it: for passwords that are rotated, and for the tokens of cloud services. The command reads its
//! `--password-file` again as often. Open connections stay logged in, so change a password on the nodes first, and where
//! it comes from next; a node that refuses the one that was given is tried again after the usual back-off.
//!
//! # One user for each service
//!
//! Give each service a user and names of its own. A user who may write a key can delete
//! the lock of that name.
