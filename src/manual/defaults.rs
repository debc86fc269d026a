//! Every default, and the reason for it.
//!
//! | what | default | why | to change it |
//! | --- | --- | --- | --- |
//! | node timeout | a two-hundredth of the ttl, within 5 to 50 ms; at least four times the shortest of the node's last 32 round trips; at most half of what the ttl leaves, and 1 s | A silent node should cost little, and a slow one should still vote. It ends the vote of a node, not its connection. | [`node_timeout`](crate::Builder::node_timeout) |
//! | waiting | 5 s, any number of attempts | Long enough for short work of others; whoever waits for long work says so. | [`retry`](crate::Builder::retry), [`LockOptions::wait`](crate::LockOptions::wait) |
//! | delay between attempts | 50 to 250 ms | Where too few nodes answer, or nodes do not tell when a lock is free ([`waiting`](super::waiting)); random, so that two clients that collided do not collide again. | [`retry`](crate::Builder::retry), [`LockOptions::wait`](crate::LockOptions::wait), [`tries`](crate::LockOptions::tries) |
//! | drift | 1 % of the ttl + 2 ms | Clocks under NTP differ by less than 0.05 %; servers expire by the millisecond. | [`drift`](crate::Builder::drift) |
//! | connect timeout | 1 s | For the connection and the handshake on it. | [`connect_timeout`](crate::Builder::connect_timeout) |
//! | building | a majority is ready, and the others have answered or 50 ms have passed; the connect timeout at the latest | The first lock should not wait; a dead node should not delay the start. | |
//! | giving a connection up | 30 s of silence | While it is kept, the commands sent on it have an order. | [`dead_after`](crate::Builder::dead_after) |
//! | reconnecting | at once, then 50 ms to 2 s, doubling; after 250 ms already where a call lacks a majority | A restarted node comes back soon; a dead one costs one attempt in two seconds, or four a second while somebody needs it. | |
//! | shutdown timeout | 50 ms | For the answers to the last releases, when the last handle is dropped. | [`shutdown_timeout`](crate::Builder::shutdown_timeout) |
//! | longest ttl | 30 days | A lock that is held longer should be extended from time to time, so that it ends soon after its holder dies. | [`max_ttl`](crate::Builder::max_ttl) |
//! | longest ttl with markers, and how long a restarted node does not vote at least | 60 s | A node that may have forgotten its locks does not count for this long. | [`max_ttl`](crate::Builder::max_ttl) |
//! | lock delay | none | A holder that is killed or released has nothing left to stop. | [`lock_delay`](crate::Builder::lock_delay) |
//! | counters of fencing tokens | a day | Each takes memory of the nodes; one that has ended reads as the floor of its node. | [`counter_ttl`](crate::Builder::counter_ttl) |
//! | name of the cluster | `default` | It is written into the markers of [`RestartGuard::Strict`](crate::RestartGuard::Strict). | [`cluster`](crate::Builder::cluster) |
//! | client name | `shearline` | `CLIENT LIST` shows it. | [`client_name`](crate::Builder::client_name) |
//! | owner label | none | Every client that may read the keys can read it. | [`owner`](crate::Builder::owner) |
//! | spinning | off | It keeps a processor busy. | [`spin`](crate::Builder::spin) |
//!
//! These bounds cannot be configured: 31 nodes, 1,024 bytes for a name, 64 resources for one lock; for a handle
//! 65,536 operations at a time, 4,096 watches, and some million locks that are held.
//!
//! # Choosing a ttl
//!
//! Use about ten times what the work usually takes, or a few seconds and an extension at half of them.
//! Do not go below ten node round trips. The ttl is how long others wait if the holder dies, and how
//! long a restarted node without persistence must not vote.
