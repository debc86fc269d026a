//! Every bound that the library keeps, in one place, each with the reason for its value.
//!
//! A bound is checked where bytes or requests come in. Beyond a bound there is a typed error, or the connection is
//! closed. Memory never grows without bound, and no call stays without an answer.

use core::time::Duration;

/// The largest number of nodes.
///
/// A vote is a bit in a `u32`. Beyond a few dozen nodes, Redlock costs more round trips than it gains in availability.
pub const NODES_MAX: usize = 31;

/// The longest resource name, in bytes. It is the Redis key; use a hash for longer names.
pub const RESOURCE_BYTES_MAX: usize = 1024;

/// The largest number of permits on one resource. A node reads all of its holders at once.
pub const PERMITS_MAX: u16 = 1024;

/// The largest number of resources of one lock. The scripts for such a lock take longer with each name: this number
/// takes a server 50 to 150 microseconds, or 100 to 600 with the longest names, and the server does nothing else in
/// that time.
pub const RESOURCES_MAX: usize = 64;

/// The number of random bytes in a token. The Redlock paper uses the same number; two equal tokens are practically
/// impossible.
pub const TOKEN_RANDOM_BYTES: usize = 20;

/// The longest owner label, which follows the random bytes of a token: room for a host name and a process.
pub const OWNER_BYTES_MAX: usize = 64;

/// The longest prefix of all keys of a handle: half of the longest name.
pub const KEY_PREFIX_BYTES_MAX: usize = RESOURCE_BYTES_MAX / 2;

/// The longest token: the random part and the label.
pub const TOKEN_BYTES_MAX: usize = TOKEN_RANDOM_BYTES + OWNER_BYTES_MAX;

/// The shortest ttl that may be configured as the longest one. Its usual drift leaves some validity in whole
/// milliseconds, in which servers count.
pub const TTL_MIN: Duration = Duration::from_millis(4);

/// The longest ttl that other clients are assumed to use if none is configured: for locks that a restarted node may
/// have forgotten, and for locks from elsewhere.
pub(crate) const TTL_ASSUMED_MAX: Duration = Duration::from_secs(60);

/// The longest ttl that is accepted by default. A lock that is needed for longer should be extended from time to time,
/// so that it ends soon after the death of its holder.
pub const TTL_DEFAULT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest ttl that can be configured: 100 years. Servers add it to their wall clock in signed milliseconds. This
/// leaves room for that sum, and for the engine's own sum in nanoseconds.
pub const TTL_HARD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The longest lock delay: as long as the longest ttl by default. Each lock stores it, with the drift, as milliseconds
/// in 32 bits.
pub const LOCK_DELAY_MAX: Duration = TTL_DEFAULT_MAX;

/// How long a node keeps the counter of a resource after its last fencing token, unless
/// [`Builder::counter_ttl`](crate::Builder::counter_ttl) says otherwise. A counter that has expired reads as the
/// counter floor of the node, which is at least as high, so this limit concerns only memory.
pub const COUNTER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The shortest time for which a node keeps such a counter. A counter that expires before the next lock is taken saves
/// hardly any memory, and the next one may cost a second round trip.
pub const COUNTER_TTL_MIN: Duration = Duration::from_secs(1);

/// The pause between two looks at a node whose [fencing tokens](crate::LockOptions::fenced) cannot be repaired yet,
/// because too few other nodes have answered.
pub const REPAIR_RETRY: Duration = Duration::from_secs(5);

/// How long the nodes are asked for their counters of fencing tokens, while an operator waits. If a node takes 2
/// milliseconds for 2,000 keys, and the round trip takes as long, it has looked at 5 million keys in this time.
pub(crate) const COUNTING_MAX: Duration = Duration::from_secs(10);

/// The largest fencing token. The numbers of scripts are exact up to a little more. Microseconds since 1970 exceed it
/// from the year 2255 on.
pub const FENCING_TOKEN_MAX: u64 = 9_000_000_000_000_000;

/// The largest number of commands in flight to one node.
///
/// 64 callers make some 240,000 commands a second per node. A node that has left half of this number unanswered (about
/// 140 ms of that load) is treated as silent. The other half is room for the releases of these commands.
pub const IN_FLIGHT_MAX: usize = 1 << 16;

/// The most bytes that wait to be written to one node: half of [`IN_FLIGHT_MAX`] typical commands.
pub const OUT_BYTES_MAX: usize = 4 << 20;

/// The longest command about a lock on one resource: the longest script, the name and the key of its counter, the token
/// and the marker, with their headers.
pub const COMMAND_BYTES_MAX: usize = 6 << 10;

/// Room for the name, the token and the ttl of a lock on one resource, with their headers.
pub(crate) const ENTRY_BYTES_MAX: usize = 2 << 10;

/// The longest command about a lock on several resources. One such command may exceed the half of an out buffer that is
/// for questions: the node is asked nothing more then.
pub const SEVERAL_BYTES_MAX: usize = RESOURCES_MAX * (RESOURCE_BYTES_MAX + 16) + COMMAND_BYTES_MAX;

/// The largest reply that a node may send, not counting the parts of strings that are cut out. A lock reply has five
/// bytes and `INFO` some hundreds; no command of this library has a larger reply.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// The longest string in a reply that is read in full, once the handshake is done: a marker has some 150 bytes, and a
/// token has fewer. A key may hold a text of any length that another program wrote. Only this much of a longer text is
/// kept, which is enough to see that it is no token.
pub(crate) const STRING_BYTES_MAX: usize = 192;

/// The longest such string during the handshake, which asks for `INFO`.
pub(crate) const HANDSHAKE_STRING_BYTES_MAX: usize = REPLY_BYTES_MAX / 2;

/// The most holders of one shared lock, or of permits, that an inspection shows for a node. A reply has room for this
/// many.
pub(crate) const HOLDERS_SHOWN_MAX: usize = 512;

/// The longest member of the set of holders: `1024/1023/` and a token.
#[cfg(feature = "embedded")]
pub(crate) const MEMBER_BYTES_MAX: usize = 10 + TOKEN_BYTES_MAX;

/// The deepest nesting of a reply. The deepest that a server sends is four: `HELLO`, its modules, one module, its
/// arguments.
pub const REPLY_DEPTH_MAX: usize = 32;

/// The most elements of one aggregate, after the doubling for maps.
pub const REPLY_ELEMENTS_MAX: usize = 4096;

/// The most pushes in a row without an answer between them. No command of this library causes this many. A node that
/// floods the client loses its connection and costs little processor time.
pub const PUSHES_MAX: u32 = 1024;

/// The most operations that wait for an outcome at the same time. Extensions and confirmations have the same room
/// again, so that waiters, however many, do not make the handle refuse them.
pub const ROUNDS_MAX: usize = 1 << 16;

/// The most watches of one handle. Each change of a key costs a look for each watch of this key, and each return of a
/// node costs a look for all watches.
pub const WATCHES_MAX: usize = 1 << 12;

/// The most extensions of kept locks that an engine has open at the same time. Usually all extensions that are due in
/// one tick go to a node in one write. Further ones wait until some of these have their outcome. So an engine sends as
/// many a second as the nodes can answer, even if very many locks were taken at once. If it sent more, they would fill
/// buffers, time out, and be wasted. Another command that is written behind all of them waits for about 20
/// milliseconds, at 2 microseconds of the server for each. If answers take 100 milliseconds because the machine is
/// busy, this still allows some 80,000 a second.
pub const EXTENSIONS_AT_ONCE: usize = 8192;

/// The most keys of kept locks whose changes the nodes push to one handle. Servers have a table for such keys, for all
/// clients together, with room for a million keys by default.
pub(crate) const WATCHED_MAX: usize = 1000;

/// The most renewals in one command: the extensions of kept locks that are due together. Also the most releases in one
/// command. A server takes 1 to 2 microseconds for each, and does nothing else in that time. A longer command would
/// save little more.
pub(crate) const BATCH_MAX: usize = 64;

/// At most this number of renewals go to a node without waiting for its turn: the node is done with them before they
/// delay other commands.
pub(crate) const RENEWALS_FEW: usize = 7;

/// How long the renewals of a node wait for its turn, while other nodes have theirs. A turn takes longer only if the
/// nodes are far away, or if there are very many renewals; then there is no gain in waiting.
pub(crate) const RENEWALS_WAIT: Duration = Duration::from_millis(2);

/// The longest command that renews or releases several locks: [`BATCH_MAX`] locks with usual names. Longer names make
/// smaller batches.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 10;

/// The most tokens that may have left a copy on some node: the tokens of held locks, of attempts under way, and of
/// debts. An operation that would need one more is refused as `Saturated`. The adoption of a lock and a release are
/// never refused.
pub const CLAIMS_MAX: usize = (1 << 20) + IN_FLIGHT_MAX;

/// The most debts to one node. It is as large as the number of tokens, so that no debt is ever forgotten for lack of
/// room.
pub const DEBTS_MAX: usize = CLAIMS_MAX;

/// The most buffers for names and tokens that are kept for reuse: more than are used at once, and little memory (some
/// 100 bytes each).
pub const POOL_MAX: usize = 1024;

/// The largest capacity of a buffer that is kept for reuse. Only locks on many resources, and commands with a long
/// script and long names, need larger buffers.
pub(crate) const POOLED_MAX: usize = 4 << 10;

/// The most notices that wait for the subscriber of `tracing`, which may be slow: more than a restart of all nodes
/// causes. Later notices are only counted.
#[cfg(feature = "tracing")]
pub(crate) const NOTICES_MAX: usize = 256;

/// The shortest node timeout that may be configured: the tick of the wheel.
pub const NODE_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// The shortest silence after which a connection may be given up: the silence of a suspect node. A connection that is
/// closed sooner loses the order of the commands sent on it.
pub const DEAD_AFTER_MIN: Duration = Duration::from_millis(100);

/// The longest user name and the longest password of a node, in bytes. Cloud services hand out signed tokens of 2 to 3
/// KiB as passwords.
pub const CREDENTIAL_BYTES_MAX: usize = 4096;

/// The longest name under which connections appear in `CLIENT LIST`.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// The longest name of a cluster. The marker of each node contains it.
pub const CLUSTER_BYTES_MAX: usize = 64;

/// The longest handshake (`HELLO` with `AUTH` and `SETNAME`), the only command that may be longer than
/// [`COMMAND_BYTES_MAX`]. It is written once for each connection.
pub const HANDSHAKE_BYTES_MAX: usize = 2 * CREDENTIAL_BYTES_MAX + CLIENT_NAME_BYTES_MAX + 256;

/// The longest host name, as in the domain name system.
pub const HOST_BYTES_MAX: usize = 253;

/// The longest path of a unix socket: the limit of Linux, less the closing zero byte.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

// Asserts the relations between the bounds. The build fails if a changed bound violates a relation.
const _: () = {
    assert!(NODES_MAX < u32::BITS as usize);
    assert!(RESOURCE_BYTES_MAX <= u16::MAX as usize);
    // Every command in flight may become a debt.
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
