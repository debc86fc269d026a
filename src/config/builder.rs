//! The builder. It takes any settings, keeps the first mistake, and returns it when a [`Config`] is made.

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
    CLIENT_NAME_BYTES_MAX, CLUSTER_BYTES_MAX, COUNTER_TTL_MIN, DEAD_AFTER_MIN,
    KEY_PREFIX_BYTES_MAX, NODE_TIMEOUT_MIN, NODES_MAX, OWNER_BYTES_MAX, TTL_HARD_MAX, TTL_MIN,
};
use crate::quorum::Drift;
use crate::resource::check_resource;

/// Collects the nodes of a handle and its settings.
///
/// No method fails or does any I/O. The first mistake is kept and returned by [`Self::config`], and by the methods that
/// build a handle.
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
    /// The number of nodes that were named, including those that are not kept because there are too many or their URL
    /// is bad.
    named: usize,
    settings: Settings,
    error: Option<ConfigFault>,
}

impl Builder {
    /// Adds the node at `url`. [`NodeConfig`] documents the form.
    ///
    /// Each node is an independent master with one vote: no node may be a replica of another, and none may be named
    /// twice.
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.add(url.as_ref());
        self
    }

    /// Adds the nodes at `urls`, each as [`Self::node`] does.
    pub fn nodes(mut self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        for url in urls {
            self.add(url.as_ref());
        }
        self
    }

    /// Waits this long for a node's vote, at least 1 ms. By default the time is derived from the ttl and from the
    /// distance of the node: 5 to 50 ms, on slow networks four round trips, and 1 s at most. A node that stalls does
    /// not lengthen this time.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        let is_right = NODE_TIMEOUT_MIN <= timeout;
        self.check(is_right, ConfigFault::Timeout("node", timeout));
        self.settings.node_timeout = Some(timeout);
        self
    }

    /// Allows this long for a connection and its handshake, at least 1 ms. Default: 1 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        let is_right = NODE_TIMEOUT_MIN <= timeout;
        self.check(is_right, ConfigFault::Timeout("connect", timeout));
        self.settings.connect_timeout = timeout;
        self
    }

    /// Gives up a connection when an answer on it is overdue by this time: at least 100 ms, and at least the node
    /// timeout. Default: 30 s.
    ///
    /// Choose a long time. The commands to a slow node keep their order only while its connection is kept, and its
    /// silence does not slow down locks.
    pub fn dead_after(mut self, silence: Duration) -> Self {
        self.check(DEAD_AFTER_MIN <= silence, ConfigFault::DeadAfter(silence));
        self.settings.dead_after = silence;
        self
    }

    /// Limits how long dropping the last handle waits for the answers to the last releases. Default: 50 ms. With zero
    /// it does not wait at all.
    ///
    /// After this time, a `Redlock` leaves missing answers to its I/O thread. The thread continues in the background
    /// until the last answer has come or the last key must have expired.
    pub fn shutdown_timeout(mut self, most: Duration) -> Self {
        self.settings.shutdown_timeout = most;
        self
    }

    /// Subtracts `factor` times the ttl (from 0 to less than 1) and `fixed` from every validity, because clocks run at
    /// different rates. Default: 0.01 and 2 ms. Give all clients the same values.
    pub fn drift(mut self, factor: f64, fixed: Duration) -> Self {
        let drift = Drift::new(factor, fixed);
        self.check(drift.is_some(), ConfigFault::DriftFactor);
        self.settings.drift = drift.unwrap_or_default();
        self
    }

    /// Sets how a call tries to take a lock, unless its [`LockOptions`](crate::LockOptions) say otherwise. Default: for
    /// 5 s, any number of attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        let is_right = retry.tries() != 0 && !retry.delay().is_empty();
        self.check(is_right, ConfigFault::Retry);
        self.settings.retry = retry;
        self
    }

    /// Declares the longest ttl that *any* client of these nodes uses, from 4 ms to 100 years. This handle refuses
    /// longer ttls. Here, the [lock delay](Self::lock_delay) of a client counts as part of its ttls.
    ///
    /// If it is not set, ttls up to 30 days are accepted. The [`RestartGuard`] keeps a restarted node from voting for
    /// this time; if it is not set, the guard assumes 60 s and the lock delay of this handle. With
    /// [`RestartGuard::Strict`] the default is 60 s, longer ttls are refused, and the value is written on the nodes:
    /// all clients use the longest one.
    ///
    /// A node that has been up for less than `max_ttl` when this handle first connects does not vote until it is older,
    /// because it may have forgotten locks. So after all nodes are started at once, no lock is granted for this time
    /// and up to three seconds more (servers report their uptime in whole seconds). If the servers are new, an operator
    /// can end this wait by `Redlock::trust_nodes`, or `--trust` of the command. If `max_ttl` is not set, and the guard
    /// is not strict, each node votes at once.
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        let is_right = (TTL_MIN..=TTL_HARD_MAX).contains(&ttl);
        self.check(is_right, ConfigFault::MaxTtl(ttl));
        self.settings.max_ttl = Some(ttl);
        self
    }

    /// Makes the nodes keep every lock of this handle for `delay` longer than its holder may trust it. Default: zero.
    /// At most 30 days. The delay is part of the longest ttl, and has to be shorter than it: than
    /// [`max_ttl`](Self::max_ttl), or than 30 days if that is not set (60 s with [`RestartGuard::Strict`]).
    ///
    /// It helps if work does not end at the moment when its lock does. Examples are a process that takes time to stop,
    /// and a program that hangs or was suspended and then continues for a while before it looks at its lock
    /// ([`manual::keeping`](crate::manual::keeping)). When the validity of a lock has ended, because its holder was
    /// killed, was cut off, or did not extend it, no other client gets the lock until `delay` has also passed. The old
    /// holder has to stop within that time. A release deletes the keys at once, even if it is late, and even if it
    /// comes from a guard that is dropped after a loss. If a request of the old holder may still be under way, keep the
    /// guard until the request has ended, or leak the guard ([`core::mem::forget`]).
    ///
    /// * Validity is the same as without it: `at_risk` and `lost` come at the same times, and
    ///   `extend` and `confirm` subtract it.
    /// * The nodes get the ttl plus `delay / (1 - factor)`, with the factor of [`drift`](Self::drift), in whole
    ///   milliseconds rounded up. That must not exceed [`max_ttl`](Self::max_ttl) of this handle, and `max_ttl` of all
    ///   other clients has to allow for it.
    /// * Other clients need not know the delay: they find the lock held for longer. Clients may have different delays.
    /// * The delay stays with a lock that is handed over (`into_lock`, `to_bytes`), and the next holder extends with
    ///   it.
    /// * If a majority of the nodes says that the lock is lost, the handle does not delete its remaining keys, as it
    ///   would without a delay. They stay until they expire or you release the lock. If the missing keys were forgotten
    ///   by nodes in quarantine ([`RestartGuard`]), the remaining keys keep other clients out. If an operator has
    ///   deleted the missing keys, the remaining keys do not. A node that stalls meanwhile, and later runs an extension
    ///   that was sent before, keeps its copy for the ttl and the delay from then on. This single copy keeps others out
    ///   only if more nodes are away.
    /// * `inspect`, `watch` and the reports of waiters say how long the keys live, so they include the delay: no handle
    ///   knows the delay of another handle's lock.
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
    /// This affects only the memory of the nodes, if locks have very many different names. An expired counter reads as
    /// the counter floor of its node, which is at least as high, so tokens still rise. Clients may use different times:
    /// the client that takes a lock decides how long its counter lives. From a second to 100 years.
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

    /// Sets the name of the cluster that these nodes form: 1 to 64 printable ASCII characters
    /// without spaces. Default: `default`.
    ///
    /// Only used with [`RestartGuard::Strict`]: the name is part of the marker of each node. A client with another
    /// name, or another number of nodes, gets [`LockError::OtherCluster`](crate::LockError::OtherCluster) and no lock.
    /// So a staging system that was given a production node by mistake notices it, and so does production.
    ///
    /// ```
    /// use shearline::{Config, RestartGuard};
    ///
    /// let config = Config::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .restart_guard(RestartGuard::Strict)
    ///     .cluster("billing")
    ///     .config()?;
    /// assert_eq!(config.cluster(), "billing");
    /// # Ok::<(), shearline::ConfigError>(())
    /// ```
    pub fn cluster(mut self, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        self.check(is_word(name, CLUSTER_BYTES_MAX), ConfigFault::Cluster);
        self.settings.cluster = name.to_owned();
        self
    }

    /// Sets whether the wall clocks of the nodes are watched. Default: `true`.
    ///
    /// Servers end keys by their wall clock, and a step forward ends locks early. So each node is asked for its `TIME`
    /// right before a question about a lock, in the same write, at most once a second. Its clock may run faster or
    /// slower than the clock of this machine by a fifth of the [`drift`](Self::drift) factor. Its steps may add up to
    /// the other four fifths of this factor, for the shortest ttl that this handle was asked for, and in any case to 10
    /// ms: 16 ms at a ttl of 2 s, 80 ms at 10 s, 240 ms at 30 s. If the clock has moved by more than this, and by more
    /// than the time that the answers took, it counts as stepped. The node then gives no new lock for as long as a
    /// restarted node ([`RestartGuard`]; not with [`RestartGuard::Off`]), and the step is counted in
    /// [`NodeStatus::clock_steps`](crate::NodeStatus::clock_steps). The node still extends and confirms the locks that
    /// it already had.
    ///
    /// A node whose user may not run `TIME` is not watched. A step is noticed at the next question. After a step, the
    /// answers to earlier questions may still count; the last one may be a second old, or older after a pause of this
    /// process.
    pub fn watch_clocks(mut self, watch: bool) -> Self {
        self.settings.watch_clocks = watch;
        self
    }

    /// Sets whether scripts are never used. Default: `false`: scripts are used on nodes that run them.
    ///
    /// If a node refuses to run scripts, because the user may not (`-@scripting`) or the server cannot, its answer
    /// shows this, and the handle does without scripts on that node anyway. With this option no script is sent at all.
    /// The rest of this text holds for both cases, except for the guard.
    ///
    /// A lock is taken by `SET`, as always. With the first lock over a connection, each node is asked how the lock can
    /// be released, which costs that lock one more round trip. The handle uses the first of these ways that the node
    /// knows and permits:
    ///
    /// | way | servers | round trips |
    /// | --- | --- | --- |
    /// | `DELIFEQ` | Valkey 9.0 | 1 |
    /// | `DELEX .. IFEQ` | Redis 8.4, by its documentation | 1 |
    /// | `SET .. IFEQ .. PXAT 1` | Valkey 8.1 | 1 |
    /// | `WATCH`, `GET`, then `MULTI`, `PEXPIRE`, `EXEC` | all | 2 |
    ///
    /// Locks are extended by `WATCH`, `GET` and `PTTL`, then `MULTI`, `PEXPIRE`, `EXEC`; they are
    /// confirmed and inspected by `GET` and `PTTL` between `MULTI` and `EXEC`. The
    /// [manual](crate::manual::permissions) has the ACL line for this.
    ///
    /// # What differs
    ///
    /// * A way that takes two round trips may not finish if the program ends right after a guard is dropped or a lock
    ///   is released. Such a lock may stay until its ttl is over.
    /// * A lock on several resources is taken, extended and released in two round trips each.
    /// * [`RestartGuard::Strict`] needs scripts, so combining the two is an error. With that guard, a node that turns
    ///   out to run no scripts is [unusable](crate::Unusable::NeedsScripts).
    /// * The first lock over new connections may be on a bare majority for a moment. A slower node gets its copy when
    ///   it has shown how it releases locks.
    /// * If a key with the name of a lock has a value longer than 64 KiB, reading it ends the connection.
    /// * If this handle makes a single try (`try_lock`) right after it has released the same resource, the try may
    ///   arrive before the transaction has released it, and find too few free nodes.
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

    /// Appends a label of at most 64 bytes to the random bytes of every token, so that a person who reads the key can
    /// see who holds the lock. Default: none.
    ///
    /// Every user who may read the keys sees it, and `Debug` shows it.
    pub fn owner(mut self, label: impl AsRef<[u8]>) -> Self {
        let label = label.as_ref();
        let is_right = label.len() <= OWNER_BYTES_MAX;
        self.check(is_right, ConfigFault::OwnerTooLong(label.len()));
        self.settings.owner = label.to_owned();
        self
    }

    /// Puts `prefix` before every name that this handle is given, so that services can share nodes without using each
    /// other's names. Default: none. It has at most 512 bytes, and does not begin with `shearline:`.
    ///
    /// The name with its prefix is the key, and the resource: locks, guards, errors and events show it in this form.
    /// Everything that takes a name takes it without the prefix: locks of every kind, `inspect`, `watch`, `break_lock`,
    /// `campaign` and `observe`. A lock that is adopted keeps its key. Clients exclude each other only if their names
    /// with the prefixes are the same.
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

    /// Sets the name of the connections in the servers' `CLIENT LIST`: 1 to 64 printable ASCII
    /// characters without spaces, or `None` to send none. Default: `shearline`.
    pub fn client_name<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        let name = name.into();
        let is_right = name.is_none_or(|name| is_word(name, CLIENT_NAME_BYTES_MAX));
        self.check(is_right, ConfigFault::ClientName);
        self.settings.client_name = name.map(ToOwned::to_owned);
        self
    }

    /// Asks `provider` for the credentials of each node whose URL has no password, before every connection to it. Use
    /// it for passwords that are rotated, and for the tokens of cloud services, which last some minutes. An open
    /// connection stays logged in.
    ///
    /// * It runs on a thread of its own, which also looks up names, so it may block. There is at most one call at a
    ///   time for each node, within [`connect_timeout`](Self::connect_timeout). Other nodes do not wait for it. The
    ///   drivers of this crate ask it; an `Engine` alone does not.
    /// * If it fails, panics or is late, the node is unreachable, and is tried again after the usual back-off. Reports
    ///   show the text of its error ([`NodeReport::words`](crate::NodeReport::words)), so the text must not hold a
    ///   secret. The credentials that it returns are never shown.
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

    /// Lets a caller that waits for an outcome poll the sockets again and again instead of going to sleep. This keeps a
    /// processor busy for a few microseconds. Default: off.
    pub fn spin(mut self, spin: bool) -> Self {
        self.settings.spin = spin;
        self
    }

    /// Sets how nodes with a `rediss://` URL are checked, and the client certificate. Default: the authorities that the
    /// system trusts, and no client certificate. Settings in the URL of a node have precedence.
    ///
    /// This call does not make a node use TLS; its URL does. If no node uses TLS, [`Self::config`] fails with
    /// [`ConfigError`]. The files are read when the handle is built. If one cannot be used, the build fails.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: super::TlsOptions) -> Self {
        self.settings.tls = options;
        self
    }

    /// Lets the spans and events of `tracing` show the names of resources, and not only a hash of each. Default: off,
    /// because names may reveal who does what. See [`manual::tracing`](crate::manual::tracing).
    #[cfg(feature = "tracing")]
    pub fn trace_resources(mut self, show: bool) -> Self {
        self.settings.trace_resources = show;
        self
    }

    /// Returns the checked configuration.
    ///
    /// # Errors
    ///
    /// The first mistake in the order of the calls. If there is none: too many nodes or no node. If the nodes are fine:
    /// settings that contradict each other. No error holds a credential.
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
        // Validity grows with the ttl, so if the longest ttl leaves no validity, no ttl does.
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

/// Returns `true` if servers accept the name: `CLIENT SETNAME` refuses spaces, line ends and anything other than ASCII.
fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UrlFault;
    use crate::limits::LOCK_DELAY_MAX;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const ALMOST_MS: Duration = Duration::from_nanos(999_999);

    fn one() -> Builder {
        Config::builder().node("a")
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
        assert_eq!(config.cluster(), "default");
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
            .cluster("till")
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
        assert_eq!(config.cluster(), "till");
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
        let url = |index, fault: UrlFault| ConfigFault::Url {
            index: Some(index),
            fault,
        };
        let twice = |address: &str| ConfigFault::DuplicateNode {
            address: address.into(),
        };
        let ports = |most| (1..=most).map(|port| format!("a:{port}"));
        for (builder, error) in [
            (Config::builder(), ConfigFault::NoNodes),
            (Config::builder().nodes([""; 0]), ConfigFault::NoNodes),
            (
                Config::builder().nodes(ports(32)),
                ConfigFault::TooManyNodes(32),
            ),
            (
                Config::builder().nodes(ports(40)),
                ConfigFault::TooManyNodes(40),
            ),
            (Config::builder().node(""), url(0, UrlFault::Empty)),
            (
                Config::builder().nodes(["a", "b", "c:0"]),
                url(2, UrlFault::Port),
            ),
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
        let too_large = |drift| ConfigFault::DriftTooLarge {
            drift,
            maximum: drift,
        };
        let no_time = |delay| ConfigFault::LockDelay {
            delay,
            maximum: second,
        };
        for (builder, error) in [
            (
                one().node_timeout(ALMOST_MS),
                ConfigFault::Timeout("node", ALMOST_MS),
            ),
            (
                one().connect_timeout(ALMOST_MS),
                ConfigFault::Timeout("connect", ALMOST_MS),
            ),
            (one().dead_after(99 * MS), ConfigFault::DeadAfter(99 * MS)),
            (one().node_timeout(day), ConfigFault::DeadAfter(30_000 * MS)),
            (one().drift(1.0, MS), ConfigFault::DriftFactor),
            (one().drift(f64::NAN, MS), ConfigFault::DriftFactor),
            (one().drift(0.0, 30 * day), too_large(30 * day)),
            (
                one().max_ttl(10 * MS).drift(0.5, 5 * MS),
                too_large(10 * MS),
            ),
            (one().max_ttl(second).lock_delay(second), no_time(second)),
            // On a node with a fast clock the lock lives for 998 ms, and the drift is longer than the other 2 ms.
            (
                one().max_ttl(second).lock_delay(988 * MS),
                no_time(988 * MS),
            ),
            (
                one().max_ttl(second).lock_delay(Duration::MAX),
                ConfigFault::LockDelayTooLong(Duration::MAX),
            ),
            (
                one().max_ttl(TTL_HARD_MAX).lock_delay(31 * day),
                ConfigFault::LockDelayTooLong(31 * day),
            ),
            (
                one().counter_ttl(999 * MS),
                ConfigFault::CounterTtl(999 * MS),
            ),
            (one().counter_ttl(hard), ConfigFault::CounterTtl(hard)),
            (one().retry(Retry::new(0, MS..=MS)), ConfigFault::Retry),
            (one().retry(Retry::new(1, 2 * MS..=MS)), ConfigFault::Retry),
            (
                one().max_ttl(Duration::ZERO),
                ConfigFault::MaxTtl(Duration::ZERO),
            ),
            (
                one().max_ttl(4 * MS - ALMOST_MS),
                ConfigFault::MaxTtl(4 * MS - ALMOST_MS),
            ),
            (one().max_ttl(hard), ConfigFault::MaxTtl(hard)),
            (one().owner([0; 65]), ConfigFault::OwnerTooLong(65)),
            (one().key_prefix([0; 513]), ConfigFault::KeyPrefix),
            (one().key_prefix("shearline:a"), ConfigFault::KeyPrefix),
            (one().cluster(""), ConfigFault::Cluster),
            (one().cluster("two words"), ConfigFault::Cluster),
            (one().cluster("b\u{fc}ro"), ConfigFault::Cluster),
            (one().cluster("x".repeat(65)), ConfigFault::Cluster),
            (one().client_name(""), ConfigFault::ClientName),
            (one().client_name("two words"), ConfigFault::ClientName),
            (one().client_name("a\r\nFLUSHALL"), ConfigFault::ClientName),
            (one().client_name("b\u{fc}ro"), ConfigFault::ClientName),
            (
                one().client_name("x".repeat(65).as_str()),
                ConfigFault::ClientName,
            ),
            // The first mistake is reported; later ones do not replace it.
            (
                one().max_ttl(MS).max_ttl(day).node("").client_name(""),
                ConfigFault::MaxTtl(MS),
            ),
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
                "the URL of node 1 (counted from 0) has an @ after the host; write / ? # in a \
                 password as %2F %3F %23, and @ as %40",
            ),
            (
                one().dead_after(MS),
                "closing a connection after 1ms of silence is too early; the time must be at least 100ms \
                 and the node timeout",
            ),
            (
                one().max_ttl(Duration::ZERO),
                "a longest ttl (`Builder::max_ttl`) of 0s is not between 4 ms and 36500 days; set the longest \
                 that any client of these nodes uses, or leave it out",
            ),
            (
                one().counter_ttl(Duration::ZERO),
                "counters of fencing tokens cannot be kept for 0s (`Builder::counter_ttl`), only for 1s to \
                 36500 days; set a time in this range, or leave it out",
            ),
            (
                one().lock_delay(31 * 24 * 3600 * 1000 * MS),
                "a lock delay of 31 days is longer than 30 days; shorten it",
            ),
            (
                one().max_ttl(1_000 * MS).lock_delay(1_000 * MS),
                "a lock delay of 1s leaves no time for a lock within the longest ttl of 1s; shorten \
                 it, or raise `Builder::max_ttl`",
            ),
        ] {
            assert_eq!(builder.config().unwrap_err().to_string(), text);
        }
    }

    /// Returns everything that can be printed about a builder with `url`.
    fn all_that_is_shown(url: &str) -> String {
        let builder = Config::builder().node(url);
        // If a good URL is named twice, it causes the error of a duplicate.
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
        assert!(shown.contains("was named twice"), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(all_that_is_shown("a").contains("credentials: none"));
    }

    proptest! {
        /// This also holds for a URL with an unescaped password or another mistake.
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
