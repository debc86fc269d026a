//! All bounds of the library, each with the reason for its value.
//!
//! The library checks a bound when it receives bytes or requests. Exceeding a bound causes a typed error, or closes the
//! connection. Memory never grows without bound, and every call returns.

use core::time::Duration;

/// The largest number of nodes.
///
/// The votes are the bits of a `u32`. With more than a few dozen nodes, Redlock costs more round trips than it gains in
/// availability.
pub const NODES_MAX: usize = 31;

/// The longest resource name, in bytes. The name is the Redis key. Use a hash for longer names.
pub const RESOURCE_BYTES_MAX: usize = 1024;

/// The largest number of permits on one resource. A node reads all holders of a resource in one step.
pub const PERMITS_MAX: u16 = 1024;

/// The largest number of resources of one lock. The script of a lock takes longer with each name. With 64 names the
/// script takes 50 to 150 microseconds, or 100 to 600 with the longest names. The server does nothing else during a
/// script.
pub const RESOURCES_MAX: usize = 64;

/// The number of random bytes in a token. The Redlock paper uses the same number. Two equal tokens are practically
/// impossible.
pub const TOKEN_RANDOM_BYTES: usize = 20;

/// The longest owner label, which follows the random bytes of a token. A label has room for a host name and a process
/// id.
pub const OWNER_BYTES_MAX: usize = 64;

/// The longest prefix of a handle's names, which is half of the longest name.
pub const KEY_PREFIX_BYTES_MAX: usize = RESOURCE_BYTES_MAX / 2;

/// The longest token: the random part and the label.
pub const TOKEN_BYTES_MAX: usize = TOKEN_RANDOM_BYTES + OWNER_BYTES_MAX;

/// The smallest value for the longest ttl. With the default drift, this ttl leaves a validity of at least one
/// millisecond.
pub const TTL_MIN: Duration = Duration::from_millis(4);

/// The longest ttl that the handle expects of other clients if no longest ttl is configured. The handle assumes this
/// ttl for locks that a restarted node may have forgotten, and for locks from another handle.
pub(crate) const TTL_ASSUMED_MAX: Duration = Duration::from_secs(60);

/// The longest ttl that is accepted by default. If you need a lock for longer, extend it from time to time, so that it
/// ends soon after its holder dies.
pub const TTL_DEFAULT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest ttl that can be configured: 100 years. Servers add the ttl to their wall clock in signed milliseconds,
/// and the engine adds it to its clock in nanoseconds. With this ttl, neither sum overflows.
pub const TTL_HARD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The longest lock delay, which equals the default longest ttl. Each lock stores the delay plus its drift as
/// milliseconds in 32 bits.
pub const LOCK_DELAY_MAX: Duration = TTL_DEFAULT_MAX;

/// The default of [`Builder::counter_ttl`](crate::Builder::counter_ttl): how long a node keeps the counter of a
/// resource after its last fencing token. A node replaces an expired counter by its counter floor, which is at least as
/// large, so this time affects only memory.
pub const COUNTER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The shortest time for which a node keeps a counter of fencing tokens. A counter that expires before the next lock
/// saves hardly any memory, and the next lock may cost a second round trip.
pub const COUNTER_TTL_MIN: Duration = Duration::from_secs(1);

/// The pause between two attempts to repair the [fencing tokens](crate::LockOptions::fenced) of a node, if too few
/// other nodes have answered.
pub const REPAIR_RETRY: Duration = Duration::from_secs(5);

/// The longest time for a scan of all keys of the nodes, while an operator waits. This is enough for 5 million keys, if
/// a node and the round trip each take 2 milliseconds for 2,000 keys.
pub(crate) const SCAN_MAX: Duration = Duration::from_secs(10);

/// The largest number of names that a handle lists for each node. Operators rarely read longer lists.
pub const NAMES_MAX: usize = 1000;

/// The largest fencing token. Numbers in scripts are exact up to slightly more than this value. Microseconds since 1970
/// exceed this limit from the year 2255 on.
pub const FENCING_TOKEN_MAX: u64 = 9_000_000_000_000_000;

/// The largest number of commands that may be in flight to one node.
///
/// 64 callers send some 240,000 commands a second to each node. If a node leaves half of this number unanswered (at
/// this load, about 140 ms), the handle treats it as silent. The other half is reserved for the releases of the
/// unanswered commands.
pub const IN_FLIGHT_MAX: usize = 1 << 16;

/// The largest number of unsent bytes for one node: the length of half of [`IN_FLIGHT_MAX`] typical commands.
pub const OUT_BYTES_MAX: usize = 4 << 20;

/// The longest command about a lock on one resource: the longest script, the name and the key of its counter, the token
/// and the marker, with their headers.
pub const COMMAND_BYTES_MAX: usize = 6 << 10;

/// The bytes reserved for the name, the token and the ttl of a lock on one resource, with their headers.
pub(crate) const ENTRY_BYTES_MAX: usize = 2 << 10;

/// The longest command about a lock on several resources. This command may be longer than half of the output buffer.
/// While more than half of the buffer is in use, the handle queues only releases for the node.
pub const SEVERAL_BYTES_MAX: usize = RESOURCES_MAX * (RESOURCE_BYTES_MAX + 16) + COMMAND_BYTES_MAX;

/// The longest reply that a node may send, not counting the parts of strings that are cut. A typical reply about a lock
/// has five bytes. No command of this library has a longer reply than `INFO`, which has some hundreds of bytes.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// The longest string that the handle reads in full, in any reply after the handshake. A marker has some 150 bytes, and
/// a token has fewer. If another program wrote a longer text into a key, the handle keeps only this many bytes, and
/// sees that the text is no token.
pub(crate) const STRING_BYTES_MAX: usize = 192;

/// The longest string that the handle reads in full during the handshake, which asks for `INFO`.
pub(crate) const HANDSHAKE_STRING_BYTES_MAX: usize = REPLY_BYTES_MAX / 2;

/// The largest number of holders of a shared lock, or of permits, that an inspection shows for a node. More holders
/// would not fit into a reply.
pub(crate) const HOLDERS_SHOWN_MAX: usize = 512;

/// The length of the longest member in a set of holders: `1024/1023/` and a token.
#[cfg(feature = "embedded")]
pub(crate) const MEMBER_BYTES_MAX: usize = 10 + TOKEN_BYTES_MAX;

/// The deepest accepted nesting of a reply. Servers send at most four levels, in the answer to `HELLO` (the modules,
/// one module, its arguments).
pub const REPLY_DEPTH_MAX: usize = 32;

/// The largest number of elements in one aggregate. A pair of a map counts as two elements.
pub const REPLY_ELEMENTS_MAX: usize = 4096;

/// The largest number of consecutive pushes without an answer between them. No command of this library causes this many
/// pushes. So a node that floods the client costs little processor time before the handle closes the connection.
pub const PUSHES_MAX: u32 = 1024;

/// The largest number of operations that wait for an outcome at the same time. Extensions and confirmations have a
/// separate bound of the same size, so that waiting callers do not block them.
pub const ROUNDS_MAX: usize = 1 << 16;

/// The largest number of watches of one handle. When a key changes, the handle checks all watches of this key, and when
/// a node is reachable again, it checks all watches.
pub const WATCHES_MAX: usize = 1 << 12;

/// The largest number of open extensions of kept locks in an engine. Usually all extensions that are due in one tick go
/// to a node in one write. Further extensions wait until open extensions have their outcomes. So an engine sends only
/// as many extensions as the nodes can answer, even if very many locks were taken at the same time. More extensions
/// would fill the buffers and time out. If the server takes 2 microseconds for each extension, a command behind this
/// number of extensions waits for about 20 milliseconds. If answers take 100 milliseconds because the machine is busy,
/// this number still allows some 80,000 extensions a second.
pub const EXTENSIONS_AT_ONCE: usize = 8192;

/// The largest number of keys of kept locks whose changes the nodes push to one handle. All clients of a server share
/// its table of these keys, which has room for a million keys by default.
pub(crate) const WATCHED_MAX: usize = 1000;

/// The largest number of renewals (extensions of kept locks) in one command, and the largest number of releases in one
/// command. A server takes 1 to 2 microseconds for each renewal or release, and does nothing else during a command.
/// Longer commands would save little more.
pub(crate) const BATCH_MAX: usize = 64;

/// The largest number of renewals that go to a node without waiting for the node's turn. So few renewals hardly delay
/// other commands.
pub(crate) const RENEWALS_FEW: usize = 7;

/// The longest time that the renewals of a node wait while other nodes have their turns. Turns take longer only if the
/// nodes are far away or if there are very many renewals, and then waiting gains nothing.
pub(crate) const RENEWALS_WAIT: Duration = Duration::from_millis(2);

/// The longest command that renews or releases several locks. The command has room for [`BATCH_MAX`] locks with names
/// of usual length. Longer names make batches smaller.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 10;

/// The largest number of tokens that nodes may store for one handle: the tokens of held locks, of open attempts, and of
/// unconfirmed releases. If an operation needs one more token, the handle refuses it as `Saturated`. Adoptions and
/// releases are never refused.
pub const CLAIMS_MAX: usize = (1 << 20) + IN_FLIGHT_MAX;

/// The largest number of unconfirmed releases for one node. This number equals the largest number of tokens, so that
/// the handle never forgets a release.
pub const DEBTS_MAX: usize = CLAIMS_MAX;

/// The largest number of buffers for names and tokens that are kept for reuse. Usually fewer buffers are in use at the
/// same time, and each takes only some 100 bytes.
pub const POOL_MAX: usize = 1024;

/// The largest capacity of a buffer that is kept for reuse. Only locks on many resources, and commands with a long
/// script and long names, need a larger buffer.
pub(crate) const POOLED_MAX: usize = 4 << 10;

/// The largest number of unread notices for the subscriber of `tracing`, which may be slow. A restart of all nodes
/// causes fewer notices than this limit. Further notices are only counted.
#[cfg(feature = "tracing")]
pub(crate) const NOTICES_MAX: usize = 256;

/// The shortest node timeout that may be configured: the tick of the timer wheel.
pub const NODE_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// The smallest value of [`Builder::dead_after`](crate::Builder::dead_after): the silence after which a node is
/// suspect. After an earlier reconnection, commands could overtake older commands on the closed connection.
pub const DEAD_AFTER_MIN: Duration = Duration::from_millis(100);

/// The longest user name and the longest password of a node, in bytes. Cloud services use signed tokens of 2 to 3 KiB
/// as passwords.
pub const CREDENTIAL_BYTES_MAX: usize = 4096;

/// The longest name of connections in `CLIENT LIST`.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// The longest name of a group. The marker of each node contains the name.
pub const GROUP_BYTES_MAX: usize = 64;

/// The longest handshake (`HELLO` with `AUTH` and `SETNAME`), the only command that may be longer
/// than [`COMMAND_BYTES_MAX`]. A handshake is written once for each connection.
pub const HANDSHAKE_BYTES_MAX: usize = 2 * CREDENTIAL_BYTES_MAX + CLIENT_NAME_BYTES_MAX + 256;

/// The longest host name, as in DNS.
pub const HOST_BYTES_MAX: usize = 253;

/// The longest path of a unix socket: the limit of Linux, minus the terminating zero byte.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

// Asserts the relations between the bounds. The build fails if a changed bound violates a relation.
const _: () = {
    assert!(NODES_MAX < u32::BITS as usize);
    assert!(RESOURCE_BYTES_MAX <= u16::MAX as usize);
    // Every command in flight may leave an unconfirmed release.
    assert!(DEBTS_MAX >= IN_FLIGHT_MAX);
    assert!(CLAIMS_MAX >= ROUNDS_MAX);
    assert!(OUT_BYTES_MAX >= 2 * COMMAND_BYTES_MAX);
    assert!(OUT_BYTES_MAX >= 8 * SEVERAL_BYTES_MAX);
    assert!(OUT_BYTES_MAX >= 2 * HANDSHAKE_BYTES_MAX);
    assert!(BATCH_BYTES_MAX >= 4 * ENTRY_BYTES_MAX);
    assert!(BATCH_MAX <= REPLY_ELEMENTS_MAX);
    assert!(STRING_BYTES_MAX > TOKEN_BYTES_MAX);
    // The reply contains a slot, a token and a deadline for each holder.
    assert!(HOLDERS_SHOWN_MAX * (TOKEN_BYTES_MAX + 40) < REPLY_BYTES_MAX);
    assert!(DEAD_AFTER_MIN.as_nanos() >= NODE_TIMEOUT_MIN.as_nanos());
    assert!(TTL_DEFAULT_MAX.as_millis() < TTL_HARD_MAX.as_millis());
    assert!(TTL_HARD_MAX.as_nanos() < (u64::MAX / 2) as u128);
};
