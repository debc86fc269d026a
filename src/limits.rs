//! Every limit of the library in one place, each with the reason for its value.
//!
//! The library checks a limit where bytes or requests come in. If a limit is exceeded, it returns a typed error or
//! disconnects. Memory never grows without bound, and no error is silent.

use core::time::Duration;

/// The largest number of nodes in one group.
///
/// A vote is a bit in a `u32`, and with more than a few dozen nodes Redlock loses more round trips than it gains in
/// availability.
pub const NODES_MAX: usize = 31;

/// The longest resource name, in bytes. The name is the Redis key; use a hash for longer names.
pub const RESOURCE_BYTES_MAX: usize = 1024;

/// The largest number of permits on one resource. A node reads all of their holders at once.
pub const PERMITS_MAX: u16 = 1024;

/// The largest number of resources in one lock. The scripts for such a lock run for longer the more names it has. With
/// this number, a server needs 50 to 150 microseconds, or 100 to 600 with the longest names, and serves no other client
/// in that time.
pub const RESOURCES_MAX: usize = 64;

/// The number of random bytes in a token: the same as in the Redlock paper, far beyond any chance of a clash.
pub const TOKEN_RANDOM_BYTES: usize = 20;

/// The longest owner text behind the random bytes of a token: room for a host name and a process.
pub const OWNER_BYTES_MAX: usize = 64;

/// The longest prefix of all keys of a handle: half of the longest name.
pub const KEY_PREFIX_BYTES_MAX: usize = RESOURCE_BYTES_MAX / 2;

/// The longest token: the random part and the owner text.
pub const TOKEN_BYTES_MAX: usize = TOKEN_RANDOM_BYTES + OWNER_BYTES_MAX;

/// The smallest value for the longest ttl in a configuration: its usual drift leaves some validity, in whole
/// milliseconds, as servers count them.
pub const TTL_MIN: Duration = Duration::from_millis(4);

/// The longest ttl that other clients are assumed to use if none is configured. This is for locks that a restarted node
/// may have forgotten, and for locks from elsewhere.
pub(crate) const TTL_ASSUMED_MAX: Duration = Duration::from_secs(60);

/// The longest ttl that is accepted by default. A lock that is held for longer should be extended from time to time, so
/// that it ends within a month after its holder has died.
pub const TTL_DEFAULT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest ttl that can be configured at all: 100 years. Servers add it to their wall clock in signed milliseconds.
/// This limit leaves room for that sum, and for our own sum in nanoseconds.
pub const TTL_HARD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The longest lock delay: the same as the longest ttl by default. With the drift, the delay has 32 bits of
/// milliseconds in each lock.
pub const LOCK_DELAY_MAX: Duration = TTL_DEFAULT_MAX;

/// How long a node keeps the counter of a resource after its last fencing token, unless
/// [`Builder::counter_ttl`](crate::Builder::counter_ttl) says otherwise. A counter that is gone reads as the floor of
/// the node, which is at least as high. So this value only affects memory.
pub const COUNTER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The shortest time for which a node keeps such a counter. If a counter is gone before the next lock is taken, it
/// saves almost no memory, and its successor may cost a second round trip.
pub const COUNTER_TTL_MIN: Duration = Duration::from_secs(1);

/// How often the engine looks again at a node whose [fencing tokens](crate::LockOptions::fenced) cannot be repaired
/// yet, because too few other nodes have answered.
pub const REPAIR_RETRY: Duration = Duration::from_secs(5);

/// How long the engine asks the nodes for their counters of fencing tokens, while an operator waits. If a node takes 2
/// milliseconds for 2,000 keys, and a round trip to it takes as long, it has looked at 5 million keys by then.
pub(crate) const COUNTING_MAX: Duration = Duration::from_secs(10);

/// The largest fencing token. Scripts compute with numbers that are exact up to slightly more than this. Microseconds
/// since 1970 exceed it from the year 2255 on.
pub const FENCING_TOKEN_MAX: u64 = 9_000_000_000_000_000;

/// The largest number of commands in flight to one node.
///
/// 64 callers make some 240,000 commands a second for each node. If a node has not answered half of this number (about
/// 140 ms of that load), it counts as silent. The other half is room for the releases of those commands.
pub const IN_FLIGHT_MAX: usize = 1 << 16;

/// The largest number of bytes that wait to be written to one node: half of [`IN_FLIGHT_MAX`] typical commands.
pub const OUT_BYTES_MAX: usize = 4 << 20;

/// The longest command about a lock on one resource: the longest script, the name and the key of its counter, the token
/// and the marker, with their headers.
pub const COMMAND_BYTES_MAX: usize = 6 << 10;

/// Room for the name, the token and the ttl of a lock on one resource, with their headers.
pub(crate) const ENTRY_BYTES_MAX: usize = 2 << 10;

/// The longest command about a lock on several resources. One such command may exceed the half of the out buffer that
/// is for questions; after that, the node is asked nothing more for the time being.
pub const SEVERAL_BYTES_MAX: usize = RESOURCES_MAX * (RESOURCE_BYTES_MAX + 16) + COMMAND_BYTES_MAX;

/// The largest reply that a node may send, apart from bytes that are cut out of strings. A lock reply has five bytes,
/// and `INFO` has some hundreds; a larger reply answers no command of ours.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// The longest string in a reply that is read in full after the handshake. A marker has some 150 bytes, and a token has
/// fewer. A key may also hold a text of another program, of any length. Of a longer text only this many bytes are kept,
/// which are enough to see that it is no token.
pub(crate) const STRING_BYTES_MAX: usize = 192;

/// The same during the handshake, which asks for `INFO`.
pub(crate) const HANDSHAKE_STRING_BYTES_MAX: usize = REPLY_BYTES_MAX / 2;

/// The largest number of holders of one shared lock, or of permits, that an inspection shows for a node: as many as fit
/// into a reply.
pub(crate) const HOLDERS_SHOWN_MAX: usize = 512;

/// The longest member of such a set: `1024/1023/` and a token.
#[cfg(feature = "embedded")]
pub(crate) const MEMBER_BYTES_MAX: usize = 10 + TOKEN_BYTES_MAX;

/// The deepest nesting of a reply. Servers send four levels at most: `HELLO`, its modules, one module, its arguments.
pub const REPLY_DEPTH_MAX: usize = 32;

/// The largest number of elements in one aggregate, counting two for each pair of a map.
pub const REPLY_ELEMENTS_MAX: usize = 4096;

/// The largest number of pushes in a row without an answer in between. No command of ours causes this many. A node that
/// floods us costs its connection, not our processor time.
pub const PUSHES_MAX: u32 = 1024;

/// The largest number of operations that wait for a verdict at the same time. Extensions and confirmations have the
/// same number of places again, so waiters never cause their refusal.
pub const ROUNDS_MAX: usize = 1 << 16;

/// The largest number of watches of one handle. Each change of a key costs a look for each watch of this key. Each
/// return of a node costs a look for all watches.
pub const WATCHES_MAX: usize = 1 << 12;

/// The largest number of open extensions of kept locks in one engine. All extensions that are due in one tick of a
/// usual program go out in one write to a node. If more are due, the rest waits until some of these have their outcome.
/// So the engine sends as many in a second as the nodes answer, even if very many locks were taken at once. More would
/// fill buffers, time out, and be sent in vain. A command that is written behind all of them waits for about 20
/// milliseconds, with 2 microseconds of the server for each. If answers take 100 milliseconds because the machine is
/// busy, this limit still allows some 80,000 extensions a second.
pub const EXTENSIONS_AT_ONCE: usize = 8192;

/// The largest number of keys of kept locks that one handle watches for changes. Servers keep a table of watched keys
/// for all clients, with a million keys by default.
pub(crate) const WATCHED_MAX: usize = 1000;

/// The largest number of renewals, or of releases, in one command. Renewals are the extensions of kept locks that are
/// due together. A server takes 1 to 2 microseconds for each, and serves no other client in that time. Larger batches
/// would save almost nothing more.
pub(crate) const BATCH_MAX: usize = 64;

/// This number of renewals or fewer do not wait for the turn of a node: it finishes them before others notice.
pub(crate) const RENEWALS_FEW: usize = 7;

/// How long renewals wait for the turn of a node while other nodes work on renewals. Their work takes longer than this
/// only if the nodes are far away or there are very many renewals; then it is useless to wait.
pub(crate) const RENEWALS_WAIT: Duration = Duration::from_millis(2);

/// The longest command that renews or releases several locks: [`BATCH_MAX`] of usual names. Longer names make smaller
/// batches.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 10;

/// The largest number of tokens that may have left a copy on some node: held locks, attempts under way, and debts. An
/// operation that would need one more is refused as `Saturated`. Adopting a lock and releasing a lock are never
/// refused.
pub const CLAIMS_MAX: usize = (1 << 20) + IN_FLIGHT_MAX;

/// The largest number of debts of one node: as many as there are tokens, so that no debt is ever forgotten because
/// there is no room.
pub const DEBTS_MAX: usize = CLAIMS_MAX;

/// The largest number of buffers for names and tokens that are kept for reuse. That is more than are used at once, and
/// little memory (some 100 bytes each).
pub const POOL_MAX: usize = 1024;

/// The largest capacity of a buffer that is kept for reuse. Only the buffers of locks on many resources, and of
/// commands with a long script and long names, are larger.
pub(crate) const POOLED_MAX: usize = 4 << 10;

/// The largest number of notices that wait for the subscriber of `tracing`, which may be slow. That is more than a
/// restart of all nodes causes. Later notices are only counted.
#[cfg(feature = "tracing")]
pub(crate) const NOTICES_MAX: usize = 256;

/// The shortest node timeout that may be configured: the tick of the wheel.
pub const NODE_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// The shortest silence after which a connection may be given up: the same silence that makes a node suspect. A
/// connection that is closed sooner loses the order of the commands on it.
pub const DEAD_AFTER_MIN: Duration = Duration::from_millis(100);

/// The longest user name and the longest password of a node, in bytes. Cloud services use signed tokens of 2 to 3 KiB
/// as passwords.
pub const CREDENTIAL_BYTES_MAX: usize = 4096;

/// The longest name that connections have in `CLIENT LIST`.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// The longest name of a group. The marker of each node contains it.
pub const CLUSTER_BYTES_MAX: usize = 64;

/// The longest handshake (`HELLO` with `AUTH` and `SETNAME`). It is the one command that may be longer than
/// [`COMMAND_BYTES_MAX`], and is written once for each connection.
pub const HANDSHAKE_BYTES_MAX: usize = 2 * CREDENTIAL_BYTES_MAX + CLIENT_NAME_BYTES_MAX + 256;

/// The longest host name, as in the domain name system.
pub const HOST_BYTES_MAX: usize = 253;

/// The longest path of a unix socket: the limit of Linux, less the closing zero byte.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

// The relations between the limits. If a change violates one, the build fails.
const _: () = {
    assert!(NODES_MAX < u32::BITS as usize);
    assert!(RESOURCE_BYTES_MAX <= u16::MAX as usize);
    // Everything in flight may become a debt.
    assert!(DEBTS_MAX >= IN_FLIGHT_MAX);
    assert!(CLAIMS_MAX >= ROUNDS_MAX);
    assert!(OUT_BYTES_MAX >= 2 * COMMAND_BYTES_MAX);
    assert!(OUT_BYTES_MAX >= 8 * SEVERAL_BYTES_MAX);
    assert!(OUT_BYTES_MAX >= 2 * HANDSHAKE_BYTES_MAX);
    assert!(BATCH_BYTES_MAX >= 4 * ENTRY_BYTES_MAX);
    assert!(BATCH_MAX <= REPLY_ELEMENTS_MAX);
    assert!(STRING_BYTES_MAX > TOKEN_BYTES_MAX);
    // Each holder has its slot, its token, and a deadline.
    assert!(HOLDERS_SHOWN_MAX * (TOKEN_BYTES_MAX + 40) < REPLY_BYTES_MAX);
    assert!(DEAD_AFTER_MIN.as_nanos() >= NODE_TIMEOUT_MIN.as_nanos());
    assert!(TTL_DEFAULT_MAX.as_millis() < TTL_HARD_MAX.as_millis());
    assert!(TTL_HARD_MAX.as_nanos() < (u64::MAX / 2) as u128);
};
