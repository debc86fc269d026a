//! Every bound the library keeps, in one place, each with the reason for its value.
//!
//! A bound is checked where bytes or requests come in. Beyond it there is a typed error or a
//! disconnect: never unbounded memory, and never silence.

use core::time::Duration;

/// Most masters one quorum may have.
///
/// A vote is a bit in a `u32`, and past a few dozen masters Redlock costs more round trips than it
/// buys in availability.
pub const NODES_MAX: usize = 31;

/// Longest resource name, in bytes. It is the Redis key; use a hash for longer names.
pub const RESOURCE_BYTES_MAX: usize = 1024;

/// The largest number of permits on one resource. A node reads all of its holders at once.
pub const PERMITS_MAX: u16 = 1024;

/// Most resources of one lock. The scripts that a lock of several needs run as long as there are names;
/// so many take a server 50 to 150 microseconds, or 100 to 600 where the names are the longest, during which
/// it serves nobody else.
pub const RESOURCES_MAX: usize = 64;

/// Random bytes in a token: the length the Redlock paper takes, far beyond any chance of a clash.
pub const TOKEN_RANDOM_BYTES: usize = 20;

/// Longest owner label after the random bytes of a token: room for a host name and a process.
pub const OWNER_BYTES_MAX: usize = 64;

/// Longest prefix of all keys of a handle: half of the longest name.
pub const KEY_PREFIX_BYTES_MAX: usize = RESOURCE_BYTES_MAX / 2;

/// Longest token: the random part and the label.
pub const TOKEN_BYTES_MAX: usize = TOKEN_RANDOM_BYTES + OWNER_BYTES_MAX;

/// Shortest ttl that may be configured as the longest: its usual drift leaves some validity, in
/// whole milliseconds, as servers count them.
pub const TTL_MIN: Duration = Duration::from_millis(4);

/// Longest ttl that other clients are assumed to use where none is configured: of locks that a
/// restarted node may have forgotten, and of locks from elsewhere.
pub(crate) const TTL_ASSUMED_MAX: Duration = Duration::from_secs(60);

/// Longest ttl accepted by default. A lock that is held longer should be extended from time to
/// time, so that it ends within a month after the death of its holder.
pub const TTL_DEFAULT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Longest ttl that can be configured at all: 100 years. Servers add it to their wall clock in
/// signed milliseconds; this leaves room for that sum, and for ours in nanoseconds.
pub const TTL_HARD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Longest lock delay: as long as the longest ttl by default. With the drift it has 32 bits of
/// milliseconds in each lock.
pub const LOCK_DELAY_MAX: Duration = TTL_DEFAULT_MAX;

/// How long a node keeps the counter of a resource after its last fencing token, unless
/// [`Builder::counter_ttl`](crate::Builder::counter_ttl) says otherwise. One that is gone reads as the floor of the
/// node, which is at least as high: so this is about memory alone.
pub const COUNTER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The shortest time for which a node keeps such a counter. One that is gone before the next lock is taken saves
/// nothing worth mentioning, and its successor may cost a second round trip.
pub const COUNTER_TTL_MIN: Duration = Duration::from_secs(1);

/// How often a node is looked at again whose [fencing tokens](crate::LockOptions::fenced) cannot be repaired yet,
/// because too few of the others have answered.
pub const REPAIR_RETRY: Duration = Duration::from_secs(5);

/// How long the nodes are asked for their counters of fencing tokens. It is what an operator waits for. A node that
/// takes 2 milliseconds for 2,000 keys, and is as far away, has looked at 5 million of them then.
pub(crate) const COUNTING_MAX: Duration = Duration::from_secs(10);

/// Largest fencing token. Scripts count in numbers that are exact up to a little more; microseconds since 1970
/// are beyond it from the year 2255 on.
pub const FENCING_TOKEN_MAX: u64 = 9_000_000_000_000_000;

/// Most commands in flight to one node.
///
/// 64 callers make some 240,000 commands a second per node. A node that has left half of these
/// unanswered (about 140 ms of that load) is treated as silent; the other half is room for the
/// releases of those commands.
pub const IN_FLIGHT_MAX: usize = 1 << 16;

/// Most bytes waiting to be written to one node: half of [`IN_FLIGHT_MAX`] typical commands.
pub const OUT_BYTES_MAX: usize = 4 << 20;

/// Longest command about a lock on one resource: the longest script, the name and the key of its counter, the token and
/// the marker, with their headers.
pub const COMMAND_BYTES_MAX: usize = 6 << 10;

/// Room for the name, the token and the ttl of a lock on one resource, with their headers.
pub(crate) const ENTRY_BYTES_MAX: usize = 2 << 10;

/// Longest command about a lock on several resources. It may take an out buffer beyond the half of it that
/// is for questions, once: the node is asked nothing more then.
pub const SEVERAL_BYTES_MAX: usize = RESOURCES_MAX * (RESOURCE_BYTES_MAX + 16) + COMMAND_BYTES_MAX;

/// Largest reply a node may send, apart from what is cut out of strings. A lock reply has five bytes and `INFO` some
/// hundreds; a larger reply answers no command of ours.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// Longest string of a reply that is read in full, once the handshake is done: a marker has some 150 bytes, a
/// token fewer. What a key holds may be a text of others of any length. Of a longer one only so much is kept,
/// which tells that it is no token.
pub(crate) const STRING_BYTES_MAX: usize = 192;

/// The same during the handshake, which asks for `INFO`.
pub(crate) const HANDSHAKE_STRING_BYTES_MAX: usize = REPLY_BYTES_MAX / 2;

/// Most holders of one shared lock, or of permits, that an inspection shows for a node: so many fit into a reply.
pub(crate) const HOLDERS_SHOWN_MAX: usize = 512;

/// The longest member of such a set: `1024/1023/`, and a token.
#[cfg(feature = "embedded")]
pub(crate) const MEMBER_BYTES_MAX: usize = 10 + TOKEN_BYTES_MAX;

/// Deepest nesting of a reply. The deepest that a server sends is four: `HELLO`, its modules, one
/// module, its arguments.
pub const REPLY_DEPTH_MAX: usize = 32;

/// Most elements of one aggregate, after the doubling for maps.
pub const REPLY_ELEMENTS_MAX: usize = 4096;

/// Most pushes in a row without an answer between them. No command of ours causes so many; a node
/// that floods us costs its connection and not our processor.
pub const PUSHES_MAX: u32 = 1024;

/// Most operations that wait for a verdict at the same time. Extensions and confirmations may be as many
/// more: no number of waiters refuses them.
pub const ROUNDS_MAX: usize = 1 << 16;

/// Most watches of one handle. Each change of a key costs a look for each of its watches, and each return
/// of a node a look for all of them.
pub const WATCHES_MAX: usize = 1 << 12;

/// Most extensions of locks that are kept that an engine has open at the same time: all that are due in one
/// tick of a usual program go out in one write to a node. What is due beyond that waits until some of these
/// have their outcome. So as many are sent in a second as the nodes answer, also when very many locks were
/// taken at once: more would fill buffers, time out, and be sent in vain. Another command that is written
/// behind all of them waits for about 20 milliseconds, at 2 microseconds of the server for each. Where answers
/// take 100 milliseconds because the machine is busy, that allows some 80,000 a second.
pub const EXTENSIONS_AT_ONCE: usize = 8192;

/// Most keys of locks that are kept, of whose changes the nodes of one handle tell. Servers keep a table of these, of a
/// million keys by default, for all clients.
pub(crate) const WATCHED_MAX: usize = 1000;

/// Most renewals in one command: the extensions of locks that are kept and are due together. Also most releases in
/// one command. A server takes 1 to 2 microseconds for each, during which it serves nobody else; what many save over one is had by then.
pub(crate) const BATCH_MAX: usize = 64;

/// Renewals so few do not wait for the turn of a node: it has done them before others notice.
pub(crate) const RENEWALS_FEW: usize = 7;

/// How long renewals wait for the turn of a node, while others work for renewals. Theirs is longer only where
/// nodes are far away, or there are very many; nothing is gained by waiting then.
pub(crate) const RENEWALS_WAIT: Duration = Duration::from_millis(2);

/// Longest command that renews or releases several locks: [`BATCH_MAX`] of usual names. Longer names make smaller batches.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 10;

/// Most tokens that may have left a copy on some node: locks held, attempts under way, and
/// releases owed. An operation that would need one more is refused as `Saturated`. A lock that is adopted and a
/// release are never refused.
pub const CLAIMS_MAX: usize = (1 << 20) + IN_FLIGHT_MAX;

/// Most releases that may be owed to one node. As many as there are tokens, so that none is ever
/// forgotten for lack of room.
pub const DEBTS_MAX: usize = CLAIMS_MAX;

/// Most buffers for names and tokens that are kept for reuse: more than are used at once, and
/// little memory (some 100 bytes each).
pub const POOL_MAX: usize = 1024;

/// Largest buffer that is kept for reuse, by what it can hold: any but those of locks on many resources, and of commands
/// that have a long script and long names.
pub(crate) const POOLED_MAX: usize = 4 << 10;

/// Most notices that wait for the subscriber of `tracing`, which may be slow: more than a restart of all nodes
/// brings. Later ones are counted, and that is all.
#[cfg(feature = "tracing")]
pub(crate) const NOTICES_MAX: usize = 256;

/// Shortest node timeout that may be configured, the tick of the wheel.
pub const NODE_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Shortest silence after which a connection may be given up: that of a suspect node. A connection
/// that is closed sooner loses the order of the commands sent on it.
pub const DEAD_AFTER_MIN: Duration = Duration::from_millis(100);

/// Longest user name and longest password of a node, in bytes. Cloud services hand out signed
/// tokens of 2 to 3 KiB as passwords.
pub const CREDENTIAL_BYTES_MAX: usize = 4096;

/// Longest name under which connections appear in `CLIENT LIST`.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// Longest name of a cluster. The marker of each node contains it.
pub const CLUSTER_BYTES_MAX: usize = 64;

/// Longest handshake (`HELLO` with `AUTH` and `SETNAME`), the one command that may be longer than
/// [`COMMAND_BYTES_MAX`]. It is written once for each connection.
pub const HANDSHAKE_BYTES_MAX: usize = 2 * CREDENTIAL_BYTES_MAX + CLIENT_NAME_BYTES_MAX + 256;

/// Longest host name, as in the domain name system.
pub const HOST_BYTES_MAX: usize = 253;

/// Longest path of a unix socket: what Linux takes, less its closing zero byte.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

// The relations between the bounds, checked where a change to one of them breaks the build.
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
    // Each has its slot, its token, and a deadline.
    assert!(HOLDERS_SHOWN_MAX * (TOKEN_BYTES_MAX + 40) < REPLY_BYTES_MAX);
    assert!(DEAD_AFTER_MIN.as_nanos() >= NODE_TIMEOUT_MIN.as_nanos());
    assert!(TTL_DEFAULT_MAX.as_millis() < TTL_HARD_MAX.as_millis());
    assert!(TTL_HARD_MAX.as_nanos() < (u64::MAX / 2) as u128);
};
