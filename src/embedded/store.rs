//! The state of a node: its keys, the registrations of its clients, its identity and its clock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;

use crate::time::Instant;

use super::flavour::{Flavour, Refused};
use super::keyspace::{Keys, Millis, Value};
use super::session::Session;
use super::tracking::Tracking;
use super::watches::Watches;

/// A lock node as a pure function, for development, tests and simulation: see the [module](super).
///
/// Time is an argument and must not run backwards. The cost of a call is at most logarithmic in the number of keys.
/// Only `FLUSHALL` is linear in the number of keys.
///
/// A client may ask for a push when a key changes (`CLIENT TRACKING`). If a command of another client causes a push,
/// the caller fetches the push with [`poll_push`](Self::poll_push).
///
/// ```
/// use shearline::Instant;
/// use shearline::internals::Store;
///
/// let mut store = Store::new(7, Instant::ZERO);
/// let mut session = Store::session();
/// let mut run = |millis, words: &[&[u8]]| {
///     let mut out = Vec::new();
///     store.execute(&mut session, Instant::from_millis(millis), words, &mut out);
///     out
/// };
/// assert_eq!(run(0, &[b"SET", b"k", b"token", b"NX", b"PX", b"100"]), b"+OK\r\n");
/// assert_eq!(run(100, &[b"SET", b"k", b"other", b"NX", b"PX", b"100"]), b"$-1\r\n");
/// assert_eq!(run(101, &[b"SET", b"k", b"other", b"NX", b"PX", b"100"]), b"+OK\r\n");
/// ```
#[derive(Clone, Default)]
pub struct Store {
    pub(super) databases: BTreeMap<u32, Keys>,
    pub(super) tracking: Tracking,
    pub(super) watches: Watches,
    /// The digests of the scripts that clients have sent since the store started.
    pub(super) scripts: BTreeSet<&'static str>,
    pub(super) flavour: Flavour,
    /// The commands that the store refuses, in lower case.
    pub(super) refused: BTreeMap<String, Refused>,
    pub(super) password: Option<Vec<u8>>,
    pub(super) run_id: String,
    pub(super) replid: String,
    started: Instant,
    /// The uptime with which the store started.
    up_before: Duration,
    /// How far the store's clock has been stepped forward in total.
    ahead: Millis,
}

/// Whether a node keeps its keys when it restarts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Memory {
    /// The node keeps its keys, as if all keys had been on disk.
    Kept,
    /// The node loses its keys, like a server without persistence.
    Lost,
}

/// The time of the store's clock at [`Instant::ZERO`], in milliseconds since 1970. As in a server, the largest accepted
/// ttl depends on this time.
const EPOCH: Millis = 1_790_000_000_000;

impl Store {
    /// Returns an empty store that has just been started. `seed` determines only the `run_id` and the `master_replid`.
    #[must_use]
    pub fn new(seed: u64, now: Instant) -> Self {
        let mut store = Self::default();
        store.restart(seed, now, Memory::Lost);
        store
    }

    /// Makes the store imitate this kind of server from now on.
    pub fn set_flavour(&mut self, flavour: Flavour) {
        self.flavour = flavour;
    }

    /// Refuses `command` from now on. `command` is a name as in ACL rules: `eval`, `script|load`, or `script` for all
    /// of its subcommands. `None` permits the command again.
    ///
    /// ```
    /// use shearline::Instant;
    /// use shearline::internals::Refused;
    /// use shearline::internals::Store;
    ///
    /// let mut store = Store::new(7, Instant::ZERO);
    /// for command in ["eval", "evalsha", "script"] {
    ///     store.refuse(command, Some(Refused::Forbidden));
    /// }
    /// let (mut session, mut out) = (Store::session(), Vec::new());
    /// let load: &[&[u8]] = &[b"SCRIPT", b"LOAD", b"return 1"];
    /// store.execute(&mut session, Instant::ZERO, load, &mut out);
    /// assert!(out.starts_with(b"-NOPERM "));
    /// ```
    pub fn refuse(&mut self, command: &str, how: Option<Refused>) {
        let command = command.to_ascii_lowercase();
        match how {
            Some(how) => self.refused.insert(command, how),
            None => self.refused.remove(&command),
        };
    }

    /// Requires this password for the user `default` from now on, or no password.
    pub fn set_password(&mut self, password: Option<&[u8]>) {
        self.password = password.map(<[u8]>::to_vec);
    }

    /// Adds `by` to the uptime that the store reports, until the store is restarted.
    pub fn set_up_before(&mut self, by: Duration) {
        self.up_before = by;
    }

    /// Steps the store's wall clock forward, as an operator or a time daemon may, so that keys expire earlier. A
    /// fraction of a millisecond is ignored.
    pub fn step_clock(&mut self, by: Duration) {
        let by = Millis::try_from(by.as_millis()).unwrap_or(Millis::MAX);
        self.ahead = self.ahead.saturating_add(by);
    }

    /// Returns the time of the store's clock in whole milliseconds, rounded down as the server does.
    pub(super) fn millis(&self, now: Instant) -> Millis {
        let millis = Millis::try_from(now.as_nanos() / 1_000_000).unwrap_or(Millis::MAX);
        EPOCH.saturating_add(millis).saturating_add(self.ahead)
    }

    /// Returns the uptime that the store reports, in seconds. A server computes the uptime as the difference of two
    /// times in whole seconds, so the result may be almost a second too long.
    pub(super) fn uptime(&self, now: Instant) -> u64 {
        let second = |at: Instant| at.as_nanos() / 1_000_000_000;
        let up = second(now).saturating_sub(second(self.started));
        self.up_before.as_secs().saturating_add(up)
    }

    /// Returns the session of a client without a connection. All sessions without a connection have the same number.
    #[must_use]
    pub fn session() -> Session {
        Self::session_of(u64::MAX)
    }

    /// Returns a session for a new client, whose connection has this number. `HELLO` reports the number,
    /// and [`poll_push`](Self::poll_push) returns it. No other client of the store may have the same number.
    #[must_use]
    pub fn session_of(connection: u64) -> Session {
        Session {
            id: connection,
            ..Session::default()
        }
    }

    /// Ends this session, because its client has disconnected. The store forgets the registrations of the client and
    /// drops the pushes that were not fetched. The cost is linear in the number of registrations.
    pub fn disconnect(&mut self, session: &Session) {
        self.tracking.disconnected(session.id);
        self.watches.end(session.id, |_, _| false);
    }

    /// Returns the oldest push, and the number of the connection that must get it. This push comes after all answers
    /// that [`execute`](Self::execute) has already returned for this connection, and before all later answers. So fetch
    /// all pushes before you execute a command of another connection.
    ///
    /// ```
    /// use shearline::Instant;
    /// use shearline::internals::{Session, Store};
    ///
    /// let mut store = Store::new(7, Instant::ZERO);
    /// let (mut waiter, mut holder) = (Store::session_of(10), Store::session_of(11));
    /// let mut run = |session: &mut Session, line: &str| {
    ///     let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    ///     store.execute(session, Instant::ZERO, &words, &mut Vec::new());
    ///     store.poll_push()
    /// };
    /// run(&mut holder, "SET k token PX 5000");
    /// run(&mut waiter, "HELLO 3");
    /// run(&mut waiter, "CLIENT TRACKING ON OPTIN NOLOOP");
    /// run(&mut waiter, "CLIENT CACHING YES");
    /// run(&mut waiter, "PTTL k");
    /// let push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n".to_vec();
    /// assert_eq!(run(&mut holder, "DEL k"), Some((10, push)));
    /// ```
    pub fn poll_push(&mut self) -> Option<(u64, Vec<u8>)> {
        self.tracking.poll()
    }

    /// Returns `true` if a change of some key will cause a push. While the result is `true`,
    /// call [`expire`](Self::expire) from time to time.
    #[must_use]
    pub fn has_registrations(&self) -> bool {
        !self.tracking.is_empty()
    }

    /// Removes all keys that have expired at `now`, as a server does ten times a second or less often. So expired keys
    /// cause pushes even if no command reads them. The cost is linear in the number of keys.
    pub fn expire(&mut self, now: Instant) {
        let now = self.millis(now);
        for (database, keys) in &mut self.databases {
            keys.retain(|key, entry| {
                let over = entry.is_over(now);
                if over {
                    self.tracking.changed(key, None);
                    self.watches
                        .changed(|of, other| (of, other) == (*database, key));
                }
                !over
            });
        }
    }

    /// Starts the store again with a new identity. The store always forgets scripts and registrations. Do not use
    /// earlier sessions after a restart.
    pub fn restart(&mut self, seed: u64, now: Instant, memory: Memory) {
        // The factor is odd, so different seeds give different words, which look random.
        let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.run_id = format!("{word:016x}{word:024x}");
        self.replid = format!("{:016x}{word:024x}", !word);
        self.scripts.clear();
        self.tracking = Tracking::default();
        self.watches = Watches::default();
        (self.started, self.up_before) = (now, Duration::ZERO);
        match memory {
            Memory::Kept => (),
            Memory::Lost => self.databases.clear(),
        }
    }

    /// Returns the value of `key` in the first database at `now`, without removing an expired key.
    fn peek(&self, key: &[u8], now: Millis) -> Option<&Value> {
        let entry = self.databases.get(&0)?.get(key)?;
        (!entry.is_over(now)).then_some(&entry.value)
    }

    /// Returns the text of `key` in the first database at `now`, and changes nothing.
    #[must_use]
    pub fn get(&self, now: Instant, key: &[u8]) -> Option<&[u8]> {
        match self.peek(key, self.millis(now))? {
            Value::Text(text) => Some(text),
            Value::Members(_) => None,
        }
    }

    /// Returns the members of the sorted set at `key` in the first database, in the order of their deadlines. Each
    /// member comes with its remaining time after `now`, or with `None` if it has expired. Changes nothing.
    #[must_use]
    pub fn members(&self, now: Instant, key: &[u8]) -> Vec<(&[u8], Option<Duration>)> {
        let millis = self.millis(now);
        let Some(Value::Members(members)) = self.peek(key, millis) else {
            return Vec::new();
        };
        let left = |deadline: f64| {
            let left = deadline - millis as f64;
            (0.0 <= left).then(|| Duration::from_millis(left as u64))
        };
        let members = members.0.iter();
        let members = members.map(|(member, deadline)| (&member[..], left(*deadline)));
        members.collect()
    }

    /// Ends the watches of the client. Returns `true` if none of its watched keys has changed. The expiry of a key is a
    /// change, even if no command has read the key since then.
    pub(super) fn end_watches(&mut self, client: u64, now: Millis) -> bool {
        let databases = &self.databases;
        self.watches.end(client, |database, key| {
            let entry = databases.get(&database).and_then(|keys| keys.get(key));
            entry.is_some_and(|entry| entry.is_over(now))
        })
    }

    /// Removes all keys.
    pub(super) fn flush(&mut self) {
        let databases = mem::take(&mut self.databases);
        self.watches.changed(|database, key| {
            let keys = databases.get(&database);
            keys.is_some_and(|keys| keys.contains_key(key))
        });
        self.tracking.flushed();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Store {
        /// Returns the number of keys at `now`, in all databases.
        pub(crate) fn keys(&self, now: Instant) -> usize {
            let databases = self.databases.values();
            let entries = databases.flat_map(|keys| keys.values());
            entries
                .filter(|entry| !entry.is_over(self.millis(now)))
                .count()
        }
    }
}
