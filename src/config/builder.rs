//! The builder: takes anything, keeps the first mistake, and tells it when a [`Config`] is made.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Config, NodeConfig, RestartGuard, Retry, Settings};
use crate::error::ConfigError;
use crate::limits::{
    CLIENT_NAME_BYTES_MAX, DEAD_AFTER_MIN, NODE_TIMEOUT_MIN, NODES_MAX, OWNER_BYTES_MAX,
    TTL_HARD_MAX, TTL_MIN,
};
use crate::quorum::Drift;

/// Collects what a handle is to be: its nodes and how it treats them.
///
/// No method fails or does any I/O. The first mistake is kept and comes out of [`Self::config`],
/// and of the methods that build a handle.
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
    /// How many were named, those counted in that are not kept because they are too many or bad.
    named: usize,
    settings: Settings,
    error: Option<ConfigError>,
}

impl Builder {
    /// Adds the node at `url`. [`NodeConfig`] says what it may look like.
    ///
    /// Each node is a master of its own, with one vote: no replicas of one another, none twice.
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.add(url.as_ref());
        self
    }

    /// Adds the nodes at `urls`, as [`Self::node`] does each.
    pub fn nodes(mut self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        for url in urls {
            self.add(url.as_ref());
        }
        self
    }

    /// Waits this long for a node's vote, at least 1 ms. By default it is derived from the ttl and
    /// from how fast the node answers: 5 to 50 ms, more on slow networks.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.check(NODE_TIMEOUT_MIN <= timeout, || {
            ConfigError::NodeTimeout(timeout)
        });
        self.settings.node_timeout = Some(timeout);
        self
    }

    /// Gives a connection and the greeting on it this long, at least 1 ms. Default: 1 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.check(NODE_TIMEOUT_MIN <= timeout, || {
            ConfigError::ConnectTimeout(timeout)
        });
        self.settings.connect_timeout = timeout;
        self
    }

    /// Gives a connection up when an answer has been owed on it for this long, at least 100 ms and
    /// the node timeout. Default: 30 s.
    ///
    /// Long is right: a node that is merely slow keeps the order of what was sent to it only while
    /// its connection is kept, and its silence costs no lock anything.
    pub fn dead_after(mut self, silence: Duration) -> Self {
        self.check(DEAD_AFTER_MIN <= silence, || {
            ConfigError::DeadAfter(silence)
        });
        self.settings.dead_after = silence;
        self
    }

    /// Lets dropping the last handle wait this long, at most, for the answers to the releases that
    /// are still owed. Default: 50 ms. Zero does not wait at all.
    pub fn farewell(mut self, most: Duration) -> Self {
        self.settings.farewell = most;
        self
    }

    /// Takes `factor` times the ttl, 0 up to but not including 1, and `fixed` off every validity
    /// for clocks that do not run alike. Default: 0.01 and 2 ms.
    pub fn drift(mut self, factor: f64, fixed: Duration) -> Self {
        let drift = Drift::new(factor, fixed);
        self.check(drift.is_some(), || ConfigError::DriftFactor);
        self.settings.drift = drift.unwrap_or_default();
        self
    }

    /// Tries for a lock as `retry` says, unless its [`LockOptions`](crate::LockOptions) say
    /// otherwise. Default: 32 tries, 50 to 250 ms apart.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.check(retry.tries() != 0 && !retry.delay().is_empty(), || {
            ConfigError::Retry
        });
        self.settings.retry = retry;
        self
    }

    /// Declares the longest ttl that *any* client of these nodes uses, 4 ms to 100 years, and
    /// refuses longer ones on this handle.
    ///
    /// A restarted node is kept from voting for that long. If it is not set, that is 60 s or the
    /// longest ttl ever asked of this handle, and ttls up to 30 days are accepted.
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        self.check((TTL_MIN..=TTL_HARD_MAX).contains(&ttl), || {
            ConfigError::MaxTtl(ttl)
        });
        self.settings.max_ttl = Some(ttl);
        self
    }

    /// Sets how restarted nodes are kept from voting. Default: [`RestartGuard::Observed`].
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.settings.restart_guard = guard;
        self
    }

    /// Puts a label of at most 64 bytes behind the random bytes of every token, so that whoever
    /// reads the key can tell who holds the lock. Default: none.
    ///
    /// Everybody who may read the keys sees it, and `Debug` shows it.
    pub fn owner(mut self, label: impl AsRef<[u8]>) -> Self {
        let label = label.as_ref();
        self.check(label.len() <= OWNER_BYTES_MAX, || {
            ConfigError::OwnerTooLong(label.len())
        });
        self.settings.owner = label.iter().take(OWNER_BYTES_MAX).copied().collect();
        self
    }

    /// Sets the name of the connections in the servers' `CLIENT LIST`: 1 to 64 printable ASCII
    /// characters without spaces, or `None` to send none. Default: `shearline`.
    pub fn client_name<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        let name = name.into();
        self.check(name.is_none_or(is_client_name), || ConfigError::ClientName);
        self.settings.client_name = name
            .filter(|name| is_client_name(name))
            .map(ToOwned::to_owned);
        self
    }

    /// Lets a caller that waits for a verdict ask the sockets again and again instead of going to
    /// sleep: a processor for a few microseconds. Default: off.
    pub fn spin(mut self, spin: bool) -> Self {
        self.settings.spin = spin;
        self
    }

    /// The checked configuration.
    ///
    /// # Errors
    ///
    /// The first mistake in the order of the calls; then too many nodes or none, and settings
    /// that do not go together. No error holds a credential.
    pub fn config(&self) -> Result<Config, ConfigError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        match self.named {
            0 => return Err(ConfigError::NoNodes),
            1..=NODES_MAX => {}
            named => return Err(ConfigError::TooManyNodes(named)),
        }
        self.check_together()?;
        let nodes = self.nodes.as_slice().into();
        Ok(Config {
            nodes,
            settings: self.settings.clone(),
        })
    }

    fn check_together(&self) -> Result<(), ConfigError> {
        let Settings {
            dead_after,
            node_timeout,
            drift,
            ..
        } = self.settings;
        if node_timeout.is_some_and(|timeout| dead_after < timeout) {
            return Err(ConfigError::DeadAfter(dead_after));
        }
        // The longest ttl has the best ratio to its drift: if nothing is left of it, of none.
        let maximum = self.settings.ttl_limit();
        let drift = drift.of(maximum);
        if maximum <= drift {
            return Err(ConfigError::DriftTooLarge { drift, maximum });
        }
        Ok(())
    }

    fn add(&mut self, url: &str) {
        let index = self.named;
        self.named = self.named.saturating_add(1);
        if NODES_MAX <= index || self.error.is_some() {
            return;
        }
        match url.parse::<NodeConfig>() {
            Err(problem) => self.fail(ConfigError::Url { index, problem }),
            Ok(node)
                if self
                    .nodes
                    .iter()
                    .any(|other| other.address() == node.address()) =>
            {
                self.fail(ConfigError::DuplicateNode {
                    address: (**node.label()).to_owned(),
                });
            }
            Ok(node) => self.nodes.push(node),
        }
    }

    fn check(&mut self, is_right: bool, error: impl FnOnce() -> ConfigError) {
        if !is_right {
            self.fail(error());
        }
    }

    fn fail(&mut self, error: ConfigError) {
        self.error.get_or_insert(error);
    }
}

/// Whether servers take it: `CLIENT SETNAME` refuses spaces, line ends and what is not ASCII.
fn is_client_name(name: &str) -> bool {
    (1..=CLIENT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic())
}
