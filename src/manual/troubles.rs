//! For three in the morning: what you see, what to look at, what to do.
//!
//! Look for the words of the error in the first column. An error names each node with what it said, so read
//! to its end: the reason stands behind the address. `Redlock::nodes` shows the same of all nodes now,
//! `Redlock::check` whether a majority would vote, and `Redlock::inspect` who holds a lock. From a shell these are
//! `shearline nodes`, `shearline check` and `shearline status NAME`; `run` and `lock` have `--trust`.
//!
//! # No lock is granted
//!
//! | you see | look at | do |
//! | --- | --- | --- |
//! | `too few nodes could vote, so no lock was taken` | What stands behind each address, below. A majority is missing, so no client gets a lock; locks that are held stay valid until their end. | Bring nodes back until a majority votes. Nothing has to be restarted here: the handle connects by itself, two seconds later at most. |
//! | .. `unreachable: connection refused` | The process on that machine, and the port in the URL. | Start the server. It votes again when it has been up for the longest ttl and some three seconds (`quarantined`, below). |
//! | .. `timed out` | The server is stopped, swaps, or is far away: `latency` of the node in [`Stats::nodes`](crate::Stats::nodes), `SLOWLOG GET` on it. | Repair it. If it is only far away, set [`Builder::node_timeout`](crate::Builder::node_timeout), and where the connection takes long too [`connect_timeout`](crate::Builder::connect_timeout); the command has `--node-timeout` and `--connect-timeout`. |
//! | .. `no answer within the connect timeout` | The way to the machine (a firewall), and whether the server is stopped. With `rediss://` the port: one without TLS says nothing. | Repair the way, or name the port that has TLS. |
//! | .. `connection reset in the handshake` | The port: one with TLS does this to `redis://`. | `rediss://`. [`tls`](super::tls) says what errors about certificates mean. |
//! | .. `not waited for` | Nothing: this node is well, and the others had decided without it. | Look at the others. |
//! | .. `it may have forgotten locks` | The node has restarted or was replaced; the text says for how long it does not vote yet. With markers also: it was flushed, or a client with a longer `max_ttl` has come (`GET shearline:marker` shows it, in milliseconds). | Wait. If you know that no lock from before can be alive, call `Redlock::trust_nodes`. To shorten it for the next time: [`Builder::max_ttl`](crate::Builder::max_ttl). |
//! | .. `it wants a password` | The URL of the node. | Put the credentials into it. |
//! | .. `it refuses the credentials` | The user and password in the URL, `ACL LIST` on the node. | Correct them. |
//! | .. `there are no credentials for it` | What `Builder::credentials` has said, in brackets behind it; the password file of the command. | Repair that. It is asked again by itself. |
//! | .. `refused: ERR` | The words of the server behind it. Some proxies, and servers that are like Redis, run no scripts. | If they refuse scripts: [`Builder::without_scripts`](crate::Builder::without_scripts). A fencing token and a strict guard need scripts. |
//! | .. `refused: OOM` | `INFO memory` on the node: something else fills it, or [counters of fencing tokens](super::operating#nodes-that-give-fencing-tokens). `shearline check` warns from 80 % on. | Raise its `maxmemory`, or remove other keys. Never let it evict: `maxmemory-policy noeviction`. |
//! | .. `refused: NOREPLICAS` | `CONFIG GET min-replicas-to-write` on the node: it refuses writes while it has fewer replicas. | `CONFIG SET min-replicas-to-write 0`, and in its file: a lock node needs no replicas, and is not made safer by any. |
//! | .. `its user may not run` | The command that is named there. | Permit it: [`permissions`](super::permissions) has an ACL line that suffices. |
//! | .. `it is a replica` | The URL leads to a replica, or the master has changed. | Name the master. A failover loses locks: [`operating`](super::operating). |
//! | .. `its fencing tokens have no floor` | Whether the nodes are new, or restarted together: `shearline nodes --fenced`. Locks without tokens are had. | If no clock was set back, give floors: [`operating`](super::operating#nodes-that-give-fencing-tokens). |
//! | .. `its fencing tokens are in repair` | The other nodes: N - q + 1 of them have to have a floor and be connected. Whether any program goes on for longer than [`Builder::max_ttl`](crate::Builder::max_ttl). | Bring the others back, and wait. With short programs alone: `shearline run --fenced NAME -- sleep SECONDS`. |
//! | `another client holds the lock` | `Redlock::inspect` says who, by its label ([`Builder::owner`](crate::Builder::owner)), and for how long. | Wait for it. If its holder is dead, the lock ends by itself with its ttl. If it hangs and extends its lock: `shearline break NAME`. |
//! | .. `held without an expiry` | Somebody has written the key by hand, or has run `PERSIST` on it. No time ends that. | If its holder is gone: `shearline break --now NAME`. |
//! | `this handle itself holds the lock` | A lock of this program is not released: [`Stats::held`](crate::Stats::held) grows, or one thread locks twice. | Release it. A guard that was forgotten ends with its ttl, unless it is kept. |
//! | `all 4 permits are taken` | `Redlock::inspect` says who has them, and for how long. | Wait for one, or ask for more permits in all clients once nobody holds any. |
//!
//! # A lock was lost
//!
//! | you see | look at | do |
//! | --- | --- | --- |
//! | `the lock was lost` | Its key is gone on a majority, or belongs to another: which of the two, and on how many nodes, is said in the votes. Was it deleted, evicted, broken by an operator? A kept lock is lost two round trips after that. | Stop the work. Then find who deletes keys: `MONITOR`, `maxmemory-policy`, `FLUSHALL`. |
//! | `the lock was no longer held` | The same, found at the unlock; or the work took longer than the ttl: [`Stats::validity_left`](crate::Stats::validity_left) near zero. | What it protected may have overlapped: check it. Use a longer ttl, or [`LockOptions::keep`](crate::LockOptions::keep). |
//! | `the lock had expired and cannot be extended` | The extension came too late: a stall of this program, or a pause that nobody planned. | Stop the work, and take the lock again. Extend at half of the ttl, or keep it. |
//! | `too few nodes confirmed the lock` | The nodes that it names. The lock stands until its old end. | Extend again before that. Kept locks do so by themselves. Where nodes are in quarantine it is mostly in vain: end the work before that. |
//! | [`Stats::lost`](crate::Stats::lost) grows | How many locks ended before they were released. | As above: a longer ttl, or find the stalls. |
//!
//! # Something is left over
//!
//! | you see | look at | do |
//! | --- | --- | --- |
//! | `too few nodes confirmed the release` | The nodes that it names; [`Stats::owed`](crate::Stats::owed), and `owed` of each node in `Redlock::nodes`. | Nothing: the releases are sent when the nodes are back, or the keys end with their ttl. |
//! | [`Stats::waiting`](crate::Stats::waiting) grows | Who holds the lock (`Redlock::inspect`), and for how long locks are held: [`Stats::hold`](crate::Stats::hold). | Hold for less long, or split the resource. Callers that wait end by [`LockOptions::wait`](crate::LockOptions::wait). |
//! | `too many operations or locks are open on this handle` | [`Stats::waiting`](crate::Stats::waiting), [`Stats::held`](crate::Stats::held), [`Stats::owed`](crate::Stats::owed). | Find what does not end. Locks that are held are not affected. |
//! | a key with no holder on one node | `Redlock::inspect` names it as a copy on a minority. It excludes nobody. | Nothing: it ends with its ttl. |
//!
//! # `shearline run` has ended
//!
//! | you see | look at | do |
//! | --- | --- | --- |
//! | status 74, `lost the lock NAME: the command was ended` | The nodes (`shearline nodes`), and whether this machine, or `shearline` itself, was stopped for longer than the ttl. | Nobody else had the lock while the command ran, unless its keys were deleted or it was broken: then another may have had it for the last round trips. See what it left half done, and start it again; with a longer `--ttl` if it was a stall. |
//! | status 74, `the lock NAME was not held any more at the end` | Who deletes keys: `MONITOR`, `maxmemory-policy`, `FLUSHALL`. | What the command did may have overlapped: check it. |
//! | status 74, `the command was killed, because its guardian had ended or was stopped` | Who kills processes: `dmesg` for the system that was out of memory. | As with the first. |
//! | status 137, and the lock is still held | `shearline status NAME`: the label, which has the number of the process by default, is that of the one that was killed. | Nothing: its command was ended with it, and the lock ends with its ttl. |
//! | a status that may be the command's or that of `shearline` | The line of `--report`: its `outcome` is `released` or `release_unconfirmed` if it is the command's. | Give `--report FILE` in every job. |
//! | each machine has done the job, one after the other | It takes less time than the clocks differ. | `--no-wait --at-least 10s`, as in `examples/systemd`. |
// Tried on real servers: `tests/it/troubles.rs` brings about each symptom that stands in quotes, and looks for
// its words on this page; but for `it is a replica` (`refusal`), `its user may not run` (`permissions`), and
// `too many operations or locks are open on this handle` (`engine::tests::bounds`). The growing `Stats` are
// those of `tests/it/stats.rs` and `engine::tests::stats`, the copy on a minority is in `tests/it/contract.rs`.
// What a run says at its end is in `cli/tests/it/command/lost.rs`.
