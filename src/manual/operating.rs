//! How to run the masters.
//!
//! **If in doubt**: three servers on three machines, with
//!
//! ```text
//! maxmemory-policy noeviction
//! save ""
//! appendonly no
//! ```
//!
//! and in every client [`Builder::max_ttl`](crate::Builder::max_ttl) with the longest ttl that any of
//! them uses, and its [lock delay](crate::Builder::lock_delay). [`permissions`](super::permissions) has the user for them. The rest of this page says
//! why, and what else is possible.
//!
//! # How many
//!
//! Three or five ([`choosing`](super::choosing#one-node-or-a-quorum) compares them with one). Three tolerate the loss of one, five the loss of two. An even number tolerates no
//! more failures than one node fewer. One is the plain lock on a single server.
//!
//! Masters only: no replicas, no Sentinel, no cluster. Replication is asynchronous, so a failover
//! loses locks. A replica and a node of a cluster are refused
//! ([`NodeOutcome::Unusable`](crate::NodeOutcome::Unusable)).
//!
//! # Restarts must not forget
//!
//! A node that restarts without its keys can vote for a second holder. There are four ways to prevent
//! that:
//!
//! 1. **Each client keeps a restarted node from voting**
//!    ([`RestartGuard::Observed`](crate::RestartGuard::Observed), the default), for
//!    [`max_ttl`](crate::Builder::max_ttl). After all nodes have been started at once, no client gets
//!    a lock before that time has passed, unless `Redlock::trust_nodes` is called. Of three nodes
//!    restart one at a time, `max_ttl` (60 s by default) and five seconds apart: two in quarantine leave no majority.
//!    (A program that has just begun, such as a command, knows the age of a node only to two seconds.)
//! 2. **The nodes say it themselves**
//!    ([`RestartGuard::Strict`](crate::RestartGuard::Strict)): see [below](#nodes-that-carry-markers).
//! 3. **The nodes write every lock to disk before they answer**, and the guard is off
//!    ([`RestartGuard::Off`](crate::RestartGuard::Off)):
//!
//!    ```text
//!    appendonly yes
//!    appendfsync always
//!    ```
//!
//!    `everysec` can lose the last second, and so a lock.
//! 4. **A node that went down stays down for the longest ttl**, also after a reboot. Choose this one
//!    if other Redlock libraries, which do not check for restarts, use the same locks. With systemd
//!    and ttls of up to 60 s:
//!
//!    ```text
//!    [Service]
//!    ExecStartPre=/bin/sleep 62
//!    TimeoutStartSec=120
//!    ```
//!
//! # The pace of restarts
//!
//! A restarted node does not vote for `max_ttl` and a little more, some 65 s by default. If the next one restarts within that time, no
//! majority of three is left: no client gets a lock, and locks that are kept end within their ttl. So restart one node, wait
//! until all vote, and restart the next. `shearline check` has status 0 then; until then `check` and `nodes` say
//! `wait until 13:42:07 UTC (in 47s) before the next restart of a node` (a field in JSON), and a `shearline run`
//! whose node restarts writes that to stderr. They go by their own `--max-ttl`: give them that of your programs.
//!
//! By hand, or from a job that updates the machines:
//!
//! ```sh
//! for host in redis-1 redis-2 redis-3; do
//!     ssh "$host" sudo systemctl restart redis-server
//!     sleep 5
//!     until shearline check; do sleep 5; done
//! done
//! ```
//!
//! **systemd.** Machines that restart by themselves (`unattended-upgrades`, `needrestart`) get times that are minutes apart:
//! `Unattended-Upgrade::Automatic-Reboot-Time "02:00"` on the first, `"02:10"` and `"02:20"` on the others. A unit that
//! restarts the server asks first, and tries again later if the answer is no:
//!
//! ```text
//! [Service]
//! Type=oneshot
//! ExecStartPre=/usr/bin/shearline check
//! ExecStart=/usr/bin/systemctl restart redis-server
//! Restart=on-failure
//! RestartSec=30
//! ```
//!
//! **Kubernetes.** Run the nodes as one StatefulSet of independent masters, without `podManagementPolicy: Parallel`. A pod is ready when it
//! votes again: then a rolling update and a drain both wait for it.
//!
//! ```text
//! # StatefulSet: more than max_ttl
//! readinessProbe:
//!   exec: { command: [redis-cli, ping] }
//!   initialDelaySeconds: 65
//! # its headless Service: clients connect to nodes that do not vote yet
//! publishNotReadyAddresses: true
//! # PodDisruptionBudget: drains move one at a time
//! maxUnavailable: 1
//! ```
//!
//! (`minReadySeconds: 65` does it for rolling updates, and not for drains. These texts are not run by the tests.)
//!
//! # Keys must not vanish
//!
//! `maxmemory-policy noeviction`: an evicted key is a lost lock. So is a key that is deleted by hand
//! or by `FLUSHALL`: another client can have the lock at once. The holder of a [kept](super::keeping) one is told two
//! round trips later.
//!
//! # Clocks are slewed, not stepped
//!
//! Servers expire keys by their wall clock. A step forward ends locks early, and a step backward
//! leaves them in place. Hosts of virtual machines set the clocks of their guests by some milliseconds all day.
//! That is allowed for: while a lock lives, the steps of a node's clock may add up to four fifths of the drift
//! factor, 0.8 % of the ttl (16 ms at 2 s, 80 ms at 10 s, 240 ms at 30 s). The shortest ttl that a handle was asked
//! for counts. When a node is next asked for a lock, more than that is found and
//! reported (`NodeStatus::clock_steps`), and the node gives no new locks, like one that restarted
//! ([`Builder::watch_clocks`](crate::Builder::watch_clocks)). Kept locks stand there while their keys do. A lock
//! that another client took within the second before stands too. With chrony, allow `makestep` only in the first
//! updates after boot, before the server starts.
//!
//! # The same nodes for every client
//!
//! Two clients with different lists can each find a majority. To change the list, stop all clients,
//! wait for the longest ttl, and start them with the new list.
//! [`RestartGuard::Strict`](crate::RestartGuard::Strict) refuses clients that count another number of
//! nodes.
//!
//! Another Redlock library that uses the same keys on the same nodes excludes this one and is excluded
//! by it. Resource names are the Redis keys as they are: any bytes, 1 to 1024 of them.
//! [`NodeConfig`](crate::NodeConfig) says how a node is named, [`tls`](super::tls) how nodes
//! with TLS are.
//!
//! # Nodes that carry markers
//!
//! With [`RestartGuard::Strict`](crate::RestartGuard::Strict) each node carries a marker and, after
//! anything that may have made it forget, a barrier. Every client sees both. Set the guard on *all*
//! clients, with the same [`max_ttl`](crate::Builder::max_ttl) (60 s if none is set).
//!
//! * **First use.** The nodes have no markers, which looks like a `FLUSHALL`: no client gets a lock
//!   for `max_ttl`. If no client holds a lock yet, call `Redlock::trust_nodes` once, from any client. The
//!   others get locks within a second or two, also calls that wait already. (A call for a fencing token does not wait
//!   where the nodes have no floors, [below](#nodes-that-give-fencing-tokens).)
//! * **The longest ttl.** It is the same for all clients. If one client has a longer one, all wait for
//!   it: no lock is taken or extended before that time has passed, so those that are held end with their ttl. Only
//!   `Redlock::reinit` makes it shorter. The command takes what the markers say where it is given no `--max-ttl`.
//! * **`FLUSHALL`** on a majority does the same: no lock is taken or extended for the longest ttl.
//! * **Another number of nodes, or another name** ([`Builder::cluster`](crate::Builder::cluster)).
//!   Stop the old clients, or let them be refused. Call `Redlock::reinit` with the new configuration
//!   until it is `Ok`. Start the new clients. No client gets a lock for the longest ttl of both.
//! * **`GET shearline:marker`** shows on any node: version, `run_id`, longest ttl in milliseconds,
//!   nodes, majority, whether it loses nothing in a restart, name. **`PTTL shearline:barrier`** shows
//!   for how long the node does not count; -2 means that it does.
//! * **A restart without waiting** needs a server that has shown that it writes every change to disk
//!   before it answers: `appendonly yes`, `appendfsync always`, `no-appendfsync-on-rewrite no`, no
//!   replicas. Do not change these by `CONFIG SET`, and do not put the data directory back from a
//!   copy: the marker in it would say that nothing was lost.
//!
//! # Nodes that give fencing tokens
//!
//! A node gives [fencing tokens](crate::LockOptions::fenced) when it has a floor for them. One that restarts has none
//! again, whatever the restart guard is and with its data too, and gives none before it is repaired.
//! [`safety`](super::safety#repair) says why.
//!
//! * **First use.** From a shell: `shearline run --fenced --trust NAME -- true`, once (with a `--ttl` of its own if your
//!   `--max-ttl` is below 30 s, and `lock` instead of `run` if it is below 2 s). Or from a program that the operator runs once, and not at each start of a service: it
//!   states that no token is larger than the present time.
//!
//!   ```no_run
//!   # use std::time::Duration;
//!   # use shearline::{LockOptions, Redlock};
//!   # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//!   let once = LockOptions::new(Duration::from_secs(1)).tries(1).fenced();
//!   let _ = redlock.lock_with("lock:first", &once); // New nodes refuse. A handle that was asked gives floors.
//!   assert_eq!(redlock.trust_nodes().len(), 3); // All of them were connected.
//!   # Ok::<(), Box<dyn std::error::Error>>(())
//!   ```
//! * **One node restarts.** The others go on, and a handle that is refused a token there repairs it when the longest
//!   ttl that it knows of and the drift have passed. With a [`max_ttl`](crate::Builder::max_ttl) of 1 s, and some programs that are
//!   stopped now and then, half of 564 nodes were repaired within 1.1 s, and the slowest in 3.1 s. Restart the next
//!   one after that.
//! * **Only short programs.** A node is repaired by a handle that goes on for longer than `max_ttl`. Where each
//!   program ends before that, no node is ever repaired, and the second one that restarts stops all tokens. Run
//!   `shearline run --fenced NAME -- sleep SECONDS` after each restart, for longer than `--max-ttl`.
//! * **A majority has restarted**, one before the other was repaired or all at once: nobody knows the tokens
//!   ([`Unusable::NoFloor`](crate::Unusable::NoFloor)). If no clock was set back, do as at the first use.
//! * **Another list of nodes.** Stop all clients and wait, as above. Then do as at the first use, also if the new nodes
//!   have floors: two majorities of different lists may share no node. `trust_nodes` never lowers one.
//! * **Which nodes have a floor** `shearline nodes --fenced` says. `GET shearline:floor` shows `run_id:number:number`
//!   then, with the `run_id` of `INFO server`, and `run_id:?number:number` while the node is in repair. Without
//!   `--fenced`, or `fenced = true` in its file, `nodes` tells nothing of it. `check` and `Redlock::check` never do:
//!   other locks are had all the same. A service sees from its own handle which node has given it no token
//!   ([`NodeStatus::lacks_floor`](crate::NodeStatus::lacks_floor)). The status of `nodes --fenced`
//!   is 0 as long as a majority gives tokens: to be told of the first node that gives none, compare `votes` of
//!   `shearline nodes --fenced --json` with the number of nodes. After a restart of a majority the errors of programs
//!   name the quarantine first, and the missing floors when it is over.
//!
//! **What counters cost.** Each name that was locked with a token has a counter `shearline:fence:NAME` on each node for a day
//! after its last token ([`Builder::counter_ttl`](crate::Builder::counter_ttl) sets another time). With short names one takes some
//! 135 bytes: 776,139 of them filled a `maxmemory` of 100 MB, and then plain locks fail too (`refused: OOM`). Where names
//! are made for each order or each file, use plain locks for them, or a shorter `counter_ttl`. `shearline nodes --counters` counts
//! them (`Redlock::count_counters`), by a script that needs the permission `+scan`.
//!
//! # What to watch
//!
//! `Redlock::nodes` shows how each node stands: whether it votes and why not, its round trip, which
//! releases it is owed. `Redlock::check` fails at start-up where an operator has to repair something.
//!
//! `Redlock::stats` ([`Stats`](crate::Stats)) has what the handle has done since it began, as counts and
//! histograms, and what it waits for now. The first to look at are `waiting` (callers that wait), `wait` (for how
//! long), `validity_left` (how much of a lock was left at its release) and `lost`. It costs no more than
//! a hundredth of an acquisition, is always on, and names no lock.
//!
//! * **Prometheus**: the example `prometheus` serves them as text, from a plain socket.
//! * **OpenTelemetry**: counts are observable counters and what is so *now* observable gauges, whose callback calls
//!   `stats()`. Its histograms cannot be observed, they want each value. Export
//!   [`Histogram::buckets`](crate::Histogram::buckets) as cumulative histogram points by a metric producer of your
//!   SDK if it has one, or have a collector scrape the text of the example.
//!
//! [`troubles`](super::troubles) says what to do about what you see.
//!
//! The resource name is the key, and the token ends with the label of
//! [`Builder::owner`](crate::Builder::owner): `GET lock:invoice` on any node shows who holds the
//! lock, and `PTTL` shows for how long. Deleting the key by hand on a majority takes the lock away
//! from its holder, who is told two round trips later if the lock is kept, and learns of it at its next extension
//! otherwise.
//!
//! # Servers
//!
//! | server | tests | release | extension | waiters learn by |
//! | --- | --- | --- | --- | --- |
//! | Redis 6.2 | the core; it does not say which commands scripts may run | script | script | pushes |
//! | Redis 7.0 | all | script | script | pushes |
//! | Redis 8.0 | the core | script | script | pushes |
//! | Valkey 8.1 | the core | script | script | pushes |
//! | Valkey 9.0 | the core | `DELIFEQ` | script | pushes |
//! | Valkey 9.1 | all | `DELIFEQ` | script | pushes |
//!
//! "All" runs in full by `tests/run.sh` or `tests/long.sh`. "The core" is the profile `core` of
//! `.config/nextest.toml`: `tests/long.sh` runs it, and `tests/run.sh` a part of it. How locks are released and extended where scripts cannot be
//! used is in [`permissions`](super::permissions#without-scripts). The library uses RESP2 with a server that does
//! not know `HELLO`. [`hosted`](super::hosted) says what is known of services, proxies and other servers.
