//! A builder whose setters accept any value. [`Builder::config`] reports the first mistake.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
#[cfg(feature = "std")]
use alloc::{boxed::Box, sync::Arc};
#[cfg(feature = "std")]
use core::error::Error;
use core::time::Duration;

use super::{Config, NodeConfig, RestartGuard, Retry, Settings};
#[cfg(feature = "std")]
use super::{Credentials, Provider};
use crate::error::{ConfigError, ConfigFault};
use crate::limits::{
    CLIENT_NAME_BYTES_MAX, COUNTER_TTL_MIN, DEAD_AFTER_MIN, GROUP_BYTES_MAX, KEY_PREFIX_BYTES_MAX,
    NODE_TIMEOUT_MIN, NODES_MAX, OWNER_BYTES_MAX, TTL_HARD_MAX, TTL_MIN,
};
use crate::quorum::Drift;
use crate::resource::check_resource;

/// Collects the nodes and the settings of a handle.
///
/// The setters never fail and do no I/O. [`Self::config`] and the methods that build a handle report the first mistake.
///
/// ```
/// use core::time::Duration;
/// use shearline::{Config, Retry};
///
/// let config = Config::builder()
///     .node("redis://user:secret@10.0.0.1:6379/0")
///     .nodes(["redis://10.0.0.2:6379", "redis://10.0.0.3:6379"])
///     .node_timeout(Duration::from_millis(20))
///     .retry(Retry::new(8, Duration::from_millis(50)..=Duration::from_millis(250)))
///     .owner("billing-7")
///     .config()?;
/// assert_eq!(config.nodes().len(), 3);
/// # Ok::<(), shearline::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it builds something"]
pub struct Builder {
    nodes: Vec<NodeConfig>,
    /// The number of nodes that were added, including excess nodes and nodes with an invalid URL.
    named: usize,
    settings: Settings,
    error: Option<ConfigFault>,
}

impl Builder {
    /// Adds the node at `url`. [`NodeConfig`] documents the form of the URL.
    ///
    /// Each node is an independent master with one vote. A node must not be a replica of another node, and must not be
    /// added twice.
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.add(url.as_ref());
        self
    }

    /// Adds the nodes at `urls`: see [`Self::node`].
    pub fn nodes(mut self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        for url in urls {
            self.add(url.as_ref());
        }
        self
    }

    /// Sets how long a call waits for a node's vote, at least 1 ms. By default, the time is 5 to 50 ms, depending on
    /// the ttl. On slow networks, the default is four round trips, but never more than 1 s. A stalled node does not
    /// increase the default.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        let is_right = NODE_TIMEOUT_MIN <= timeout;
        self.check(is_right, ConfigFault::Timeout("node", timeout));
        self.settings.node_timeout = Some(timeout);
        self
    }

    /// Sets how long connecting and the handshake may take, at least 1 ms. Default: 1 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        let is_right = NODE_TIMEOUT_MIN <= timeout;
        self.check(is_right, ConfigFault::Timeout("connect", timeout));
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets how long an answer may be overdue before the handle closes the connection: at least 100 ms, and at least
    /// the node timeout. Default: 30 s.
    ///
    /// Choose a long time: a silent node does not slow down locks. On a new connection, commands could overtake older
    /// commands that a slow node has not run yet.
    pub fn dead_after(mut self, silence: Duration) -> Self {
        self.check(DEAD_AFTER_MIN <= silence, ConfigFault::DeadAfter(silence));
        self.settings.dead_after = silence;
        self
    }

    /// Limits how long the drop of the last handle waits for the answers to the last releases. Default: 50 ms. With
    /// zero, the drop does not wait.
    ///
    /// After this time, a `Redlock`'s I/O thread repeats unanswered releases in the background, until all are answered
    /// or all keys must have expired.
    pub fn shutdown_timeout(mut self, most: Duration) -> Self {
        self.settings.shutdown_timeout = most;
        self
    }

    /// Sets the drift, because clocks run at different rates. Every validity is shortened by `factor` (from 0 to less
    /// than 1) times the ttl, plus `fixed`. The defaults are 0.01 and 2 ms. All clients should use the same values.
    pub fn drift(mut self, factor: f64, fixed: Duration) -> Self {
        let drift = Drift::new(factor, fixed);
        self.check(drift.is_some(), ConfigFault::DriftFactor);
        self.settings.drift = drift.unwrap_or_default();
        self
    }

    /// Sets how long and how often a call tries to take a lock. A call can override this with
    /// its [`LockOptions`](crate::LockOptions). By default a call tries for 5 s, with any number of attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        let is_right = retry.tries() != 0 && !retry.delay().is_empty();
        self.check(is_right, ConfigFault::Retry);
        self.settings.retry = retry;
        self
    }

    /// Declares the longest ttl that *any* client of these nodes uses, from 4 ms to 100 years. This handle refuses
    /// longer ttls. The [lock delay](Self::lock_delay) of a client counts as part of its ttls.
    ///
    /// Without `max_ttl`, the handle accepts ttls up to 30 days. With a [`RestartGuard`], a restarted node does not
    /// vote until `max_ttl` has passed. If `max_ttl` is not set, the wait is 60 s plus the lock delay of this handle.
    /// With [`RestartGuard::Strict`], the default is 60 s. The handle refuses longer ttls, and the nodes store
    /// `max_ttl`. All clients then use the longest `max_ttl` that any client has declared.
    ///
    /// If the uptime of a node at the first connection is shorter than `max_ttl`, the node may have forgotten locks.
    /// The node does not vote until its uptime has reached `max_ttl`. So if all nodes have just started, no lock is
    /// granted for `max_ttl` plus up to three seconds, because servers report their uptime in whole seconds. If the
    /// servers are new, an operator can end this wait with `Redlock::trust_nodes`, or with `--trust` of the command. If
    /// `max_ttl` is not set, and the guard is not strict, each node votes immediately.
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        let is_right = (TTL_MIN..=TTL_HARD_MAX).contains(&ttl);
        self.check(is_right, ConfigFault::MaxTtl(ttl));
        self.settings.max_ttl = Some(ttl);
        self
    }

    /// Makes the nodes keep every lock of this handle for `delay` after its validity ends. The default is zero, and the
    /// maximum is 30 days. The delay counts as part of the longest ttl, so the delay must be shorter
    /// than [`max_ttl`](Self::max_ttl). If `max_ttl` is not set, the delay must be shorter than 30 days (60 s
    /// with [`RestartGuard::Strict`]).
    ///
    /// A delay helps if work may continue after its lock has expired. For example, a process may need time to stop, or
    /// a suspended program may continue for a while before it checks its lock
    /// ([`manual::keeping`](crate::manual::keeping)). If the validity of a lock ends without a release, no other client
    /// gets the lock until `delay` has also passed. The old holder must stop within the delay. A release does not wait
    /// for the delay, but deletes the keys immediately. A late release also deletes the keys immediately, and so does
    /// the drop of a guard after a loss. If a request of the old holder may still be running, keep the guard until the
    /// request has ended, or leak the guard ([`core::mem::forget`]).
    ///
    /// * The delay does not change the validity. The signals `at_risk` and `lost` complete at the same times as without
    ///   a delay, and `extend` and `confirm` subtract the delay.
    /// * The nodes get the ttl plus `delay / (1 - factor)`, with the factor of [`drift`](Self::drift), rounded up to
    ///   whole milliseconds. This sum must not exceed [`max_ttl`](Self::max_ttl) of this handle or of any other client.
    /// * Other clients need not know the delay, because for them the lock is simply held for longer. Clients may have
    ///   different delays.
    /// * A lock that is handed over (`into_lock`, `to_bytes`) keeps its delay, which also applies to extensions by the
    ///   next holder.
    /// * If a majority reports the lock as lost, a handle with a delay does not delete the remaining keys. The
    ///   remaining keys stay until they expire or you release the lock. If nodes in quarantine ([`RestartGuard`]) have
    ///   forgotten the lock, the remaining keys still prevent other clients from taking it. If an operator has deleted
    ///   the missing keys, the remaining keys do not prevent other clients from taking the lock. A node that stalled
    ///   during the loss may still run an earlier extension, and then keeps its key for another ttl plus the delay. The
    ///   key on this one node blocks other clients only if other nodes are also unreachable.
    /// * A handle does not know the delay of another handle's lock, so the remaining times in `inspect`, `watch` and
    ///   the reports of waiting callers include the delay.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::Redlock;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // The supervisor needs up to 20 s until it has killed a worker that hangs.
    /// let redlock = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .lock_delay(Duration::from_secs(20))
    ///     .max_ttl(Duration::from_secs(60)) // 30 s of ttl and 20.3 s of delay fit.
    ///     .build()?;
    /// let guard = redlock.lock("printer", Duration::from_secs(30))?;
    /// assert!(guard.validity() < Duration::from_secs(30)); // Killed now, others wait for some 50 s.
    /// guard.unlock()?; // And now they do not wait at all.
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.settings.lock_delay = delay;
        self
    }

    /// Sets how long a node keeps the counter of a resource after its last [fencing token](crate::LockOptions::fenced).
    /// Default: a day.
    ///
    /// If locks have very many different names, a shorter time saves memory on the nodes. A node replaces an expired
    /// counter by its counter floor, which is at least as large, so fencing tokens still increase. Clients may use
    /// different times, because the client that takes a lock sets the ttl of the counter. The time must be between one
    /// second and 100 years.
    ///
    /// ```
    /// use std::time::Duration;
    /// use shearline::Config;
    ///
    /// let hour = Duration::from_secs(3600); // Millions of orders, each of which is locked once.
    /// let config = Config::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .counter_ttl(hour)
    ///     .config()?;
    /// # let _ = config;
    /// # Ok::<(), shearline::ConfigError>(())
    /// ```
    pub fn counter_ttl(mut self, ttl: Duration) -> Self {
        let is_right = (COUNTER_TTL_MIN..=TTL_HARD_MAX).contains(&ttl);
        self.check(is_right, ConfigFault::CounterTtl(ttl));
        self.settings.counter_ttl = ttl;
        self
    }

    /// Sets what happens to the votes of restarted nodes. Default: [`RestartGuard::Observed`].
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.settings.restart_guard = guard;
        self
    }

    /// Sets the name of the group that these nodes form: 1 to 64 printable ASCII characters
    /// without spaces. Default: `default`.
    ///
    /// Only [`RestartGuard::Strict`] uses the name, which is part of the marker of each node. A client with another
    /// name, or another number of nodes, gets [`LockError::OtherGroup`](crate::LockError::OtherGroup) and no lock.
    /// So if a staging system gets the URL of a production node by mistake, both systems report the mistake.
    ///
    /// ```
    /// use shearline::{Config, RestartGuard};
    ///
    /// let config = Config::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .restart_guard(RestartGuard::Strict)
    ///     .group("billing")
    ///     .config()?;
    /// assert_eq!(config.group(), "billing");
    /// # Ok::<(), shearline::ConfigError>(())
    /// ```
    pub fn group(mut self, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        self.check(is_word(name, GROUP_BYTES_MAX), ConfigFault::Group);
        self.settings.group = name.to_owned();
        self
    }

    /// Sets whether the handle watches the wall clocks of the nodes. Default: `true`.
    ///
    /// Servers expire keys by their wall clock, so a forward step of the clock ends locks early. Therefore, the handle
    /// asks each node for its `TIME` at most once a second. The handle sends `TIME` right before a command about a
    /// lock, in the same write. The clock of a node may run faster or slower than the clock of this machine by a fifth
    /// of the [`drift`](Self::drift) factor. In addition, the clock may jump by four fifths of the factor times the
    /// shortest ttl that this handle was asked for: 16 ms at a ttl of 2 s, 80 ms at 10 s, 240 ms at 30 s. A deviation
    /// of up to 10 ms is always allowed. The clock counts as stepped if it has moved by more than this limit, and by
    /// more than the time that the answers took. A node whose clock has stepped gets the same quarantine as a restarted
    /// node, unless the guard is [`RestartGuard::Off`]. [`NodeStatus::clock_steps`](crate::NodeStatus::clock_steps)
    /// counts the step. In this quarantine the node grants no new lock. The node still extends and confirms the locks
    /// that it already had.
    ///
    /// The handle does not watch a node whose user may not run `TIME`. The handle detects a step when it next asks for
    /// `TIME`. Until then, for up to a second (or longer if this process was paused), the answers of the node may still
    /// count.
    pub fn watch_clocks(mut self, watch: bool) -> Self {
        self.settings.watch_clocks = watch;
        self
    }

    /// Sets whether the handle works without scripts. By default the handle uses scripts on nodes that run them.
    ///
    /// Even without this option, the handle uses no scripts on a node that refuses them. A node refuses scripts if the
    /// user may not run them (`-@scripting`) or if the server cannot. With this option the handle sends no script at
    /// all. The text below also applies to nodes that refuse scripts, except for the part about the restart guard.
    ///
    /// The handle takes a lock with `SET`, as it does on nodes that run scripts. For the first lock on a connection,
    /// the handle asks the node how the lock can be released, which costs one more round trip. The handle uses the
    /// first of the following ways that the node supports and permits:
    ///
    /// | way | servers | round trips |
    /// | --- | --- | --- |
    /// | `DELIFEQ` | Valkey 9.0 | 1 |
    /// | `DELEX .. IFEQ` | Redis 8.4, by its documentation | 1 |
    /// | `SET .. IFEQ .. PXAT 1` | Valkey 8.1 | 1 |
    /// | `WATCH`, `GET`, then `MULTI`, `PEXPIRE`, `EXEC` | all | 2 |
    ///
    /// The handle extends a lock with `WATCH`, `GET` and `PTTL`, then `MULTI`, `PEXPIRE`, `EXEC`. The handle confirms
    /// and inspects a lock with `GET` and `PTTL` between `MULTI` and `EXEC`. The [manual](crate::manual::permissions)
    /// contains the ACL line for these commands.
    ///
    /// # What differs
    ///
    /// * A release with two round trips might not finish if the program ends right after the release or the drop of a
    ///   guard. The keys of the lock may then stay until their ttl ends.
    /// * Taking, extending and releasing a lock on several resources costs two round trips each.
    /// * [`RestartGuard::Strict`] needs scripts, so it cannot be combined with this option. With the strict guard, a
    ///   node that refuses scripts is [unusable](crate::Unusable::NeedsScripts).
    /// * For a moment, the first lock over new connections may have its key on only a bare majority of the nodes. A
    ///   slower node gets the key once the handle knows how to release locks on that node.
    /// * If the key of a lock has a value longer than 64 KiB, the handle closes the connection when it reads the value.
    /// * A single try (`try_lock`) may fail if this handle has just released the same resource, because the try may
    ///   reach a node before the releasing transaction has ended.
    /// * The error for a held lock does not name the holder.
    ///
    /// ```
    /// use shearline::Config;
    ///
    /// let config = Config::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .without_scripts(true)
    ///     .config()?;
    /// assert!(config.without_scripts());
    /// # Ok::<(), shearline::ConfigError>(())
    /// ```
    pub fn without_scripts(mut self, without: bool) -> Self {
        self.settings.without_scripts = without;
        self
    }

    /// Appends a label of at most 64 bytes to the random bytes of every token, so that the key shows who holds the
    /// lock. Default: none.
    ///
    /// Every user who may read the keys can see the label, and `Debug` output shows it.
    pub fn owner(mut self, label: impl AsRef<[u8]>) -> Self {
        let label = label.as_ref();
        let is_right = label.len() <= OWNER_BYTES_MAX;
        self.check(is_right, ConfigFault::OwnerTooLong(label.len()));
        self.settings.owner = label.to_owned();
        self
    }

    /// Puts `prefix` before every name that this handle gets, so that services can share nodes without sharing names.
    /// Default: none. A prefix has at most 512 bytes, and must not begin with `shearline:`.
    ///
    /// The name with the prefix is the key and the resource. Locks, guards, errors and events show the prefixed name.
    /// Every method that takes a name adds the prefix itself. An adopted lock keeps its key. Clients exclude each other
    /// only if their prefixed names are equal.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::Redlock;
    /// let redlock = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .key_prefix("billing:")
    ///     .build()?;
    /// let lock = redlock.lock("invoice:42", Duration::from_secs(10))?;
    /// assert_eq!(lock.resource(), b"billing:invoice:42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref();
        let is_right = prefix.is_empty()
            || prefix.len() <= KEY_PREFIX_BYTES_MAX && check_resource(prefix, None).is_ok();
        self.check(is_right, ConfigFault::KeyPrefix);
        self.settings.key_prefix = prefix.to_owned();
        self
    }

    /// Sets the name of the connections in the servers' `CLIENT LIST`: 1 to 64 printable ASCII characters without
    /// spaces, or `None` to send no name. Default: `shearline`.
    pub fn client_name<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        let name = name.into();
        let is_right = name.is_none_or(|name| is_word(name, CLIENT_NAME_BYTES_MAX));
        self.check(is_right, ConfigFault::ClientName);
        self.settings.client_name = name.map(ToOwned::to_owned);
        self
    }

    /// Calls `provider` for the credentials of each node whose URL has no password, before every connection to that
    /// node. Use a provider for rotated passwords, and for tokens of cloud services, which are valid for some minutes.
    /// An open connection stays logged in.
    ///
    /// * The provider may block, because it runs on a separate thread, like the name look-ups. The handle makes at most
    ///   one call at a time for each node, and waits up to [`connect_timeout`](Self::connect_timeout) for the
    ///   credentials. Other nodes do not wait for the call. The drivers of this crate call the provider, but an
    ///   `Engine` alone does not.
    /// * If the provider fails, panics or is late, the node is unreachable, and the handle tries again after the usual
    ///   back-off. Reports show the text of the provider's error ([`NodeReport::words`](crate::NodeReport::words)), so
    ///   the text must not contain a secret. The returned credentials are never shown.
    /// * A user in the URL has precedence over the user from the provider.
    ///
    /// ```no_run
    /// use shearline::{Credentials, Redlock};
    ///
    /// let redlock = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .credentials(|_node| {
    ///         let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///         Ok(Credentials::new(password.trim_end()).user("locker"))
    ///     })
    ///     .build()?;
    /// # Ok::<(), shearline::BuildError>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn credentials<F>(mut self, provider: F) -> Self
    where
        F: Fn(&NodeConfig) -> Result<Credentials, Box<dyn Error + Send + Sync>>,
        F: Send + Sync + 'static,
    {
        self.settings.credentials = Some(Provider(Arc::new(provider)));
        self
    }

    /// Makes a waiting caller poll the sockets in a loop instead of sleeping. The loop keeps a processor busy for a few
    /// microseconds. Default: off.
    pub fn spin(mut self, spin: bool) -> Self {
        self.settings.spin = spin;
        self
    }

    /// Sets how the handle checks nodes with a `rediss://` URL, and which client certificate it sends. By default, the
    /// handle trusts the system's certificate authorities, and sends no client certificate. Settings in a node's URL
    /// have precedence.
    ///
    /// A node uses TLS only if its URL says so. If no node uses TLS, [`Self::config`] returns a [`ConfigError`]. The
    /// files are read when the handle is built. If a file is unusable, the build fails.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: super::TlsOptions) -> Self {
        self.settings.tls = options;
        self
    }

    /// Makes the spans and events of `tracing` show the names of resources instead of a hash. By default, names are
    /// hidden, because they may reveal private data. See [`manual::tracing`](crate::manual::tracing).
    #[cfg(feature = "tracing")]
    pub fn trace_resources(mut self, show: bool) -> Self {
        self.settings.trace_resources = show;
        self
    }

    /// Returns the checked configuration.
    ///
    /// # Errors
    ///
    /// Returns the first invalid setting in the order of the calls. If each setting is valid on its own, also checks
    /// the number of nodes, and whether settings contradict each other. No error contains a credential.
    pub fn config(&self) -> Result<Config, ConfigError> {
        if let Some(error) = &self.error {
            return Err(error.clone().into());
        }
        match self.named {
            0 => return Err(ConfigFault::NoNodes.into()),
            1..=NODES_MAX => {}
            named => return Err(ConfigFault::TooManyNodes(named).into()),
        }
        self.check_together()?;
        let nodes = self.nodes.as_slice().into();
        Ok(Config {
            nodes,
            settings: self.settings.clone(),
        })
    }

    fn check_together(&self) -> Result<(), ConfigFault> {
        let settings = &self.settings;
        let (dead_after, drift) = (settings.dead_after, settings.drift);
        if settings
            .node_timeout
            .is_some_and(|timeout| dead_after < timeout)
        {
            return Err(ConfigFault::DeadAfter(dead_after));
        }
        if settings.without_scripts && settings.restart_guard == RestartGuard::Strict {
            return Err(ConfigFault::StrictWithoutScripts);
        }
        // The validity is longest with the longest ttl. If the drift of the longest ttl is as long as that ttl, no ttl
        // leaves any validity.
        let maximum = settings.ttl_limit();
        let allowance = drift.of(maximum);
        if maximum <= allowance {
            let drift = allowance;
            return Err(ConfigFault::DriftTooLarge { drift, maximum });
        }
        let delay = settings.lock_delay;
        let too_long = ConfigFault::LockDelayTooLong(delay);
        let left = settings.delay().ok_or(too_long)?.ttl(maximum);
        if left <= drift.of(left) {
            return Err(ConfigFault::LockDelay { delay, maximum });
        }
        #[cfg(feature = "tls")]
        if settings.tls != super::TlsOptions::default()
            && !self.nodes.iter().any(NodeConfig::uses_tls)
        {
            return Err(ConfigFault::TlsUnused);
        }
        Ok(())
    }

    fn add(&mut self, url: &str) {
        let index = self.named;
        self.named = self.named.saturating_add(1);
        if NODES_MAX <= index || self.error.is_some() {
            return;
        }
        let node = match super::url::parse(url) {
            Ok(node) => node,
            Err(fault) => {
                let index = Some(index);
                return self.fail(ConfigFault::Url { index, fault });
            }
        };
        let mut others = self.nodes.iter();
        if others.any(|other| other.address() == node.address()) {
            let address = (**node.label()).to_owned();
            return self.fail(ConfigFault::DuplicateNode { address });
        }
        self.nodes.push(node);
    }

    fn check(&mut self, is_right: bool, fault: ConfigFault) {
        if !is_right {
            self.fail(fault);
        }
    }

    fn fail(&mut self, error: ConfigFault) {
        self.error.get_or_insert(error);
    }
}

/// Returns `true` if servers accept the name. `CLIENT SETNAME` refuses spaces, line ends and non-ASCII characters.
fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UrlFault;
    use crate::limits::LOCK_DELAY_MAX;
    use ConfigFault as Fault;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const SHORT: Duration = Duration::from_nanos(999_999);

    fn none() -> Builder {
        Config::builder()
    }

    fn one() -> Builder {
        none().node("a")
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let config = one().config().unwrap();
        assert_eq!(config.node_timeout(), None);
        assert_eq!(config.connect_timeout(), 1000 * MS);
        assert_eq!(config.dead_after(), 30_000 * MS);
        assert_eq!(config.shutdown_timeout(), 50 * MS);
        assert_eq!(config.drift(), Drift::default());
        let retry = Retry::new(32, 50 * MS..=250 * MS).wait(5000 * MS);
        assert_eq!(config.retry(), &retry);
        assert_eq!(config.max_ttl(), None);
        assert_eq!(config.settings.lock_delay, Duration::ZERO);
        assert_eq!(config.counter_ttl(), Duration::from_secs(24 * 3600));
        assert_eq!(config.ttl_limit(), Duration::from_secs(30 * 24 * 3600));
        assert_eq!(config.restart_guard(), RestartGuard::Observed);
        assert_eq!(config.group(), "default");
        assert!(config.watch_clocks());
        assert!(!config.without_scripts());
        assert_eq!(config.owner(), b"");
        assert_eq!(config.client_name(), Some("shearline"));
        assert!(!config.spin());
    }

    #[test]
    fn what_is_set_is_what_is_read() {
        let config = one()
            .node_timeout(20 * MS)
            .connect_timeout(300 * MS)
            .dead_after(5000 * MS)
            .shutdown_timeout(Duration::ZERO)
            .drift(0.5, 3 * MS)
            .retry(Retry::new(1, MS..=MS))
            .max_ttl(9000 * MS)
            .lock_delay(700 * MS)
            .counter_ttl(5000 * MS)
            .restart_guard(RestartGuard::Strict)
            .group("till")
            .watch_clocks(false)
            .owner("billing-7")
            .client_name("till")
            .spin(true)
            .config()
            .unwrap();
        assert_eq!(config.node_timeout(), Some(20 * MS));
        assert_eq!(config.connect_timeout(), 300 * MS);
        assert_eq!(config.dead_after(), 5000 * MS);
        assert_eq!(config.shutdown_timeout(), Duration::ZERO);
        assert_eq!(Some(config.drift()), Drift::new(0.5, 3 * MS));
        assert_eq!(config.retry(), &Retry::new(1, MS..=MS));
        assert_eq!(config.max_ttl(), Some(9000 * MS));
        assert_eq!(config.settings.lock_delay, 700 * MS);
        assert_eq!(config.counter_ttl(), 5000 * MS);
        assert_eq!(config.ttl_limit(), 9000 * MS);
        assert_eq!(config.restart_guard(), RestartGuard::Strict);
        assert_eq!(config.group(), "till");
        assert!(!config.watch_clocks());
        assert_eq!(config.owner(), b"billing-7");
        assert_eq!(config.client_name(), Some("till"));
        assert!(config.spin());
        assert_eq!(
            one().client_name(None).config().unwrap().client_name(),
            None
        );
    }

    #[test]
    fn nodes_come_in_many_forms_and_keep_their_order() {
        let urls: Vec<String> = vec!["b".into(), "c".into()];
        let config = Config::builder()
            .node("a")
            .nodes(&urls)
            .nodes(["d"])
            .nodes(&["e", "f"][..])
            .nodes((1..=2).map(|port| format!("g:{port}")))
            .nodes(vec![String::from("x"), String::from("y")])
            .node(String::from("z"))
            .config()
            .unwrap();
        let labels: Vec<_> = config
            .nodes()
            .iter()
            .map(|node| node.label().to_string())
            .collect();
        let expected = [
            "a:6379", "b:6379", "c:6379", "d:6379", "e:6379", "f:6379", "g:1", "g:2",
        ];
        assert_eq!(labels[..8], expected);
        assert_eq!(labels[8..], ["x:6379", "y:6379", "z:6379"]);
    }

    #[test]
    fn a_quorum_is_more_than_half() {
        for (nodes, quorum) in [
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 3),
            (5, 3),
            (6, 4),
            (7, 4),
            (30, 16),
            (31, 16),
        ] {
            let config = Config::builder().nodes((1..=nodes).map(|port| format!("a:{port}")));
            assert_eq!(config.config().unwrap().quorum(), quorum, "{nodes}");
        }
    }

    #[test]
    fn a_strict_guard_takes_no_ttl_that_it_does_not_know_to_be_the_longest() {
        let strict = one().restart_guard(RestartGuard::Strict);
        let limit = |builder: Builder| builder.config().unwrap().ttl_limit();
        assert_eq!(limit(strict.clone()), 60_000 * MS);
        assert_eq!(limit(strict.max_ttl(90_000 * MS)), 90_000 * MS);
    }

    #[test]
    fn mistaken_nodes_are_told() {
        let url = |index, fault: UrlFault| Fault::Url {
            index: Some(index),
            fault,
        };
        let twice = |address: &str| Fault::DuplicateNode {
            address: address.into(),
        };
        let ports = |most| (1..=most).map(|port| format!("a:{port}"));
        for (builder, error) in [
            (none(), Fault::NoNodes),
            (none().nodes([""; 0]), Fault::NoNodes),
            (none().nodes(ports(32)), Fault::TooManyNodes(32)),
            (none().nodes(ports(40)), Fault::TooManyNodes(40)),
            (none().node(""), url(0, UrlFault::Empty)),
            (none().nodes(["a", "b", "c:0"]), url(2, UrlFault::Port)),
            (one().node("a"), twice("a:6379")),
            (one().node("redis://u:canary@A:6379/3"), twice("a:6379")),
            (one().nodes(["[::1]:6379", "[0::1]"]), twice("[::1]:6379")),
            (
                one().nodes(["10.0.0.1", "[::ffff:10.0.0.1]"]),
                twice("10.0.0.1:6379"),
            ),
            (one().nodes(["unix:///r?db=1", "unix:/r"]), twice("unix:/r")),
        ] {
            assert_eq!(builder.config().err(), Some(error.into()), "{builder:?}");
        }
    }

    #[test]
    fn mistaken_settings_are_told() {
        let hard = TTL_HARD_MAX + Duration::from_nanos(1);
        let day = 24 * 3600 * 1000 * MS;
        let second = 1000 * MS;
        let too_large = |drift| Fault::DriftTooLarge {
            drift,
            maximum: drift,
        };
        let no_time = |delay| Fault::LockDelay {
            delay,
            maximum: second,
        };
        let (too_short, too_long) = (
            |which| Fault::Timeout(which, SHORT),
            Fault::LockDelayTooLong,
        );
        let (few, longest) = (one().max_ttl(10 * MS), one().max_ttl(TTL_HARD_MAX));
        let delayed = |delay| one().max_ttl(second).lock_delay(delay);
        let long = "x".repeat(65);
        for (builder, error) in [
            (one().node_timeout(SHORT), too_short("node")),
            (one().connect_timeout(SHORT), too_short("connect")),
            (one().dead_after(99 * MS), Fault::DeadAfter(99 * MS)),
            (one().node_timeout(day), Fault::DeadAfter(30_000 * MS)),
            (one().drift(1.0, MS), Fault::DriftFactor),
            (one().drift(f64::NAN, MS), Fault::DriftFactor),
            (one().drift(0.0, 30 * day), too_large(30 * day)),
            (few.drift(0.5, 5 * MS), too_large(10 * MS)),
            (delayed(second), no_time(second)),
            // The delay is lengthened to 998 ms, because the nodes' clocks may run fast. The remaining 2 ms are shorter
            // than the drift.
            (delayed(988 * MS), no_time(988 * MS)),
            (delayed(Duration::MAX), too_long(Duration::MAX)),
            (longest.lock_delay(31 * day), too_long(31 * day)),
            (one().counter_ttl(999 * MS), Fault::CounterTtl(999 * MS)),
            (one().counter_ttl(hard), Fault::CounterTtl(hard)),
            (one().retry(Retry::new(0, MS..=MS)), Fault::Retry),
            (one().retry(Retry::new(1, 2 * MS..=MS)), Fault::Retry),
            (one().max_ttl(Duration::ZERO), Fault::MaxTtl(Duration::ZERO)),
            (one().max_ttl(4 * MS - SHORT), Fault::MaxTtl(4 * MS - SHORT)),
            (one().max_ttl(hard), Fault::MaxTtl(hard)),
            (one().owner([0; 65]), Fault::OwnerTooLong(65)),
            (one().key_prefix([0; 513]), Fault::KeyPrefix),
            (one().key_prefix("shearline:a"), Fault::KeyPrefix),
            (one().group(""), Fault::Group),
            (one().group("two words"), Fault::Group),
            (one().group("b\u{fc}ro"), Fault::Group),
            (one().group(&*long), Fault::Group),
            (one().client_name(""), Fault::ClientName),
            (one().client_name("two words"), Fault::ClientName),
            (one().client_name("a\r\nFLUSHALL"), Fault::ClientName),
            (one().client_name("b\u{fc}ro"), Fault::ClientName),
            (one().client_name(&*long), Fault::ClientName),
            // The builder has several faults, and reports the first of them.
            (one().max_ttl(MS).node("").group(""), Fault::MaxTtl(MS)),
        ] {
            assert_eq!(builder.config().err(), Some(error.into()), "{builder:?}");
        }
    }

    #[test]
    fn the_edges_of_every_range_are_allowed() {
        let second = 1000 * MS;
        for builder in [
            one()
                .node_timeout(MS)
                .connect_timeout(MS)
                .dead_after(100 * MS),
            one().node_timeout(second).dead_after(second),
            one()
                .connect_timeout(Duration::MAX)
                .dead_after(Duration::MAX)
                .shutdown_timeout(Duration::MAX),
            one().max_ttl(4 * MS),
            one().max_ttl(TTL_HARD_MAX),
            one().max_ttl(second).lock_delay(987 * MS),
            one().max_ttl(TTL_HARD_MAX).lock_delay(LOCK_DELAY_MAX),
            one().counter_ttl(second),
            one().counter_ttl(TTL_HARD_MAX),
            one()
                .max_ttl(second)
                .drift(0.0, second - Duration::from_nanos(1)),
            one().drift(0.0, Duration::ZERO),
            one().retry(Retry::new(1, Duration::ZERO..=Duration::ZERO)),
            one().retry(Retry::new(u32::MAX, Duration::ZERO..=Duration::MAX)),
            one().owner([0; 64]),
            one().key_prefix([0; 512]),
            one().key_prefix(""),
            one().client_name("x".repeat(64).as_str()),
        ] {
            assert_eq!(builder.config().err(), None, "{builder:?}");
        }
    }

    #[test]
    fn an_error_says_what_to_do() {
        let builder = Config::builder().nodes(["redis://a", "redis://u:canary/x@b"]);
        for (builder, text) in [
            (
                builder,
                "the URL of node 1 (counted from 0) has an @ after the host; in a password, write / as %2F, ? as %3F, \
                 # as %23 and @ as %40",
            ),
            (
                one().dead_after(MS),
                "closing a connection after 1ms of silence is too early; set at least 100ms, and at least the node \
                 timeout",
            ),
            (
                one().max_ttl(Duration::ZERO),
                "a longest ttl (`Builder::max_ttl`) of 0s is not between 4 ms and 36500 days; set the longest ttl that \
                 any client of these nodes uses, or do not set it",
            ),
            (
                one().counter_ttl(Duration::ZERO),
                "counters of fencing tokens cannot be kept for 0s (`Builder::counter_ttl`), but only for 1s to \
                 36500 days; set a time in this range, or do not set it",
            ),
            (
                one().lock_delay(31 * 24 * 3600 * 1000 * MS),
                "a lock delay of 31 days is longer than the maximum of 30 days; set a shorter delay",
            ),
            (
                one().max_ttl(1_000 * MS).lock_delay(1_000 * MS),
                "a lock delay of 1s leaves no time for a lock within the longest ttl of 1s; shorten the delay, or \
                 raise `Builder::max_ttl`",
            ),
        ] {
            assert_eq!(builder.config().unwrap_err().to_string(), text);
        }
    }

    /// Returns every text that a program can print about a builder with this `url`.
    fn all_that_is_shown(url: &str) -> String {
        let builder = Config::builder().node(url);
        // A builder that gets a valid URL twice reports a duplicate node.
        let twice = builder.clone().node(url);
        let (config, error) = (builder.config(), twice.config());
        let mut shown = format!("{builder:#?} {twice:?} {config:?} {error:?}");
        for error in [config.err(), error.err()].into_iter().flatten() {
            shown += &error.to_string();
        }
        shown
    }

    #[test]
    fn no_credential_is_shown() {
        let shown = all_that_is_shown("redis://canary:canary@a:1/2");
        assert!(
            shown.contains("a:1") && shown.contains("credentials: hidden"),
            "{shown}"
        );
        assert!(shown.contains("was given twice"), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(all_that_is_shown("a").contains("credentials: none"));
    }

    proptest! {
        /// Tests URLs with an unescaped password or another mistake.
        #[test]
        fn no_password_is_shown_by_a_broken_url(
            scheme in "(redis://|valkey://|unix://|unix:|rediss://|http://|)",
            before in r"[a1:/@%?#. =\[\]-]{0,4}",
            after in r"[a1:/@%?#. =\[\]-]{0,4}",
            place in r"(h|h:1|h/2|\[::1\]|h:x|/run/r|/run/r[?]db=1|%|)",
        ) {
            let shown = all_that_is_shown(&format!("{scheme}{before}:canary{after}@{place}"));
            prop_assert!(!shown.contains("canary"), "{shown}");
        }
    }
}
