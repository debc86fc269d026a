//! Every number that has a default, and why it is that.
//!
//! | what | default | why | to change it |
//! | --- | --- | --- | --- |
//! | node timeout | a two-hundredth of the ttl, within 5 to 50 ms; at least four times the shortest of the node's last 32 round trips; at most half of what the ttl leaves, and 1 s | A silent node should cost little, and a slow one should still vote. It ends the vote of a node, not its connection. | [`node_timeout`](crate::Builder::node_timeout) |
//! | tries | 32, 50 to 250 ms apart | Some five seconds of patience; random, so that two who met do not meet again. | [`retry`](crate::Builder::retry), [`LockOptions::wait`](crate::LockOptions::wait), [`tries`](crate::LockOptions::tries) |
//! | drift | 1 % of the ttl + 2 ms | Clocks under NTP differ by less than 0.05 %; servers expire by the millisecond. | [`drift`](crate::Builder::drift) |
//! | connect timeout | 1 s | For the connection and the handshake on it. | [`connect_timeout`](crate::Builder::connect_timeout) |
//! | building | a majority is ready, and the rest has answered or 50 ms have passed; the connect timeout at the latest | The first lock should not wait; a dead node should not delay the start. | |
//! | giving a connection up | 30 s of silence | While it is kept, what was sent on it has an order. | [`dead_after`](crate::Builder::dead_after) |
//! | reconnecting | at once, then 50 ms to 2 s, doubling | A restarted node comes back soon; a dead one costs one attempt in two seconds. | |
//! | shutdown timeout | 50 ms | For the answers to the last releases, when the last handle is dropped. | [`shutdown_timeout`](crate::Builder::shutdown_timeout) |
//! | longest ttl | 30 days | What is held longer should be extended now and then, so that the death of its holder shows. | [`max_ttl`](crate::Builder::max_ttl) |
//! | longest ttl with markers | 60 s | It is how long a node that may have forgotten does not count. | [`max_ttl`](crate::Builder::max_ttl) |
//! | name of the cluster | `default` | It stands in the markers of [`RestartGuard::Strict`](crate::RestartGuard::Strict). | [`cluster`](crate::Builder::cluster) |
//! | client name | `shearline` | To be found in `CLIENT LIST`. | [`client_name`](crate::Builder::client_name) |
//! | owner label | none | Everybody who may read the keys would see it. | [`owner`](crate::Builder::owner) |
//! | spinning | off | It costs a processor. | [`spin`](crate::Builder::spin) |
//!
//! Bounds that cannot be configured stand in [`limits`](crate::limits), each with its reason.
//!
//! # Choosing a ttl
//!
//! Some ten times what the work usually takes, or a few seconds and an extension at half of it. Not
//! shorter than ten node round trips. The ttl is how long others wait if the holder dies, and how
//! long a restarted node without persistence has to stay away.
