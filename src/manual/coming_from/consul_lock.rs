//! From `consul lock`.
//!
//! Read in its source, [`command/lock`](https://github.com/hashicorp/consul/tree/main/command/lock) and
//! [`api/lock.go`](https://github.com/hashicorp/consul/blob/main/api/lock.go) of 2023 and later, and in the
//! [documentation of sessions](https://developer.hashicorp.com/consul/docs/automate/session).
//!
//! There:
//!
//! ```sh
//! consul lock -timeout=10s -child-exit-code jobs/report make report
//! ```
//!
//! Here:
//!
//! ```sh
//! export SHEARLINE_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//! shearline run -w 10s report -- make report
//! ```
//!
//! (`cargo install --path cli` in a checkout installs it. A server that was started less than a minute ago may have
//! forgotten a lock, and does not vote yet; `--trust` says that none has. [More](crate::manual::command#which-nodes))
//!
//! | there | here |
//! | --- | --- |
//! | `-http-addr`, `CONSUL_HTTP_ADDR` | `--node`, `SHEARLINE_NODES`, `--config` |
//! | `prefix`; the key is `prefix/.lock` | `NAME`; the key is that |
//! | `-timeout=10s`; without it, waits for ever | `-w 10s`; without it, waits for ever. `-n` does not wait |
//! | `-child-exit-code`: 2 if the command failed | The status of the command itself, always. |
//! | 1 if the lock was not taken | 75, or what `-E` says; 69 if too few nodes answered ([all statuses](crate::manual::command#exit-statuses)) |
//! | `-shell` (on), `-shell=false` | No shell. Write `-- sh -c '..'` if you want one. |
//! | `-pass-stdin` | The command has the standard input, always. |
//! | `-name` | `--owner`, by default the host and a process id |
//! | `-n 3`, a semaphore | None. |
//! | `-monitor-retry` | Nothing: the lock is kept until its own end, whatever answers are missing. |
//! | `CONSUL_LOCK_HELD` | `SHEARLINE_RESOURCE`, `SHEARLINE_TOKEN` |
//! | `api.Lock`, in Go | `Redlock::lock_with` and [`LockOptions::keep`](crate::LockOptions::keep), in Rust ([`keeping`](crate::manual::keeping)) |
//!
//! # What differs in meaning
//!
//! | | `consul lock` | here |
//! | --- | --- | --- |
//! | who decides | The servers of Consul agree on every change (Raft); their disks remember it. | A majority of independent Redis or Valkey masters, and clocks that run alike ([`guarantees`](crate::manual::guarantees)). |
//! | ttl | The session has 15 s and is renewed at half of that. Consul may end it later than that, never before. It also ends when the health check of the agent's machine fails. | `--ttl`, 30 s by default, extended at half of what is valid. It ends earlier only if a majority of the nodes has lost its key. |
//! | lock delay | 15 s: after a session was lost nobody gets the lock for so long. | `--lock-delay`, none by default. |
//! | if the lock is lost | TERM to the command, KILL to it 5 s later. Its children are left to themselves. | TERM when less than a quarter of the ttl is left, KILL shortly before the end, for the command and all that it started: it is dead before another can have the lock. |
//! | if the tool itself is killed | Nothing in its source ends the command, which runs on without the lock. | A second process, the guardian, ends it; and if the guardian is killed the tool does. |
//! | what the command leaves behind | Runs on after the release. | Is ended before the release; `--wait-all` waits for it. |
//! | release | A write to the servers. | As for any lock; what a silent node is owed it gets only while the tool lives, and otherwise the key ends with its ttl. |
//! | fencing | The `LockIndex` of the key, with its session, serves as one. | `--fenced`: a number in `SHEARLINE_FENCING_TOKEN` ([the store has to compare it](crate::manual::command#a-number-for-the-store)), on nodes that an operator has prepared. |
//!
//! **If you already run Consul**, its agreement needs fewer assumptions than Redlock: no clocks and no
//! quarantines. Come here if you want the command to be dead in time, if you have Redis and no Consul, or for the
//! speed. A unit of systemd around `consul lock` (`KillMode=control-group`) ends what it leaves behind when it is
//! killed.
