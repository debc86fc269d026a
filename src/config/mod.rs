//! The configuration of a handle (nodes, timeouts and limits), which is valid by construction.
//!
//! Only [`Builder::config`] creates a [`Config`]. This method finds every mistake before any I/O. Each `Config` has 1
//! to 31 nodes with different addresses. No timeout is too short, and the handle accepts at least one ttl whose
//! validity is not zero.
//!
//! No `Debug` output, label or error shows the credentials from the URLs.
//!
//! The driver looks up names and opens sockets. The handshake finds out if two addresses lead to the same server.

mod builder;
mod node;
mod options;
#[cfg(feature = "tls")]
mod tls;
mod url;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::delay::Delay;
use crate::limits::{COUNTER_KEPT_FOR, TTL_ASSUMED_MAX, TTL_DEFAULT_MAX};
use crate::quorum::Drift;

pub use builder::Builder;
pub(crate) use node::Provider;
#[cfg(feature = "std")]
pub(crate) use node::{Address, Host};
pub use node::{Credentials, NodeConfig};
pub(crate) use options::Owner;
#[cfg(feature = "std")]
pub(crate) use options::PackedOptions;
pub use options::{LockOptions, RestartGuard, Retry};
#[cfg(feature = "tls")]
pub use tls::TlsOptions;
#[cfg(feature = "tls")]
pub(crate) use tls::{NodeTls, Pem};

/// A checked configuration, with the nodes and all settings of [`Builder`].
///
/// ```
/// use shearline::Config;
///
/// let config = Config::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3:7000/1"])
///     .config()?;
/// assert_eq!(&**config.nodes()[2].label(), "10.0.0.3:7000");
/// # Ok::<(), shearline::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    nodes: Box<[NodeConfig]>,
    settings: Settings,
}

/// All settings except the nodes, as given to the builder.
#[derive(Clone, Debug)]
struct Settings {
    node_timeout: Option<Duration>,
    connect_timeout: Duration,
    dead_after: Duration,
    shutdown_timeout: Duration,
    drift: Drift,
    retry: Retry,
    max_ttl: Option<Duration>,
    lock_delay: Duration,
    counter_ttl: Duration,
    restart_guard: RestartGuard,
    group: String,
    watch_clocks: bool,
    without_scripts: bool,
    owner: Vec<u8>,
    key_prefix: Vec<u8>,
    client_name: Option<String>,
    credentials: Option<Provider>,
    spin: bool,
    #[cfg(feature = "tls")]
    tls: TlsOptions,
    #[cfg(feature = "tracing")]
    trace_resources: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_timeout: None,
            connect_timeout: Duration::from_secs(1),
            dead_after: Duration::from_secs(30),
            shutdown_timeout: Duration::from_millis(50),
            drift: Drift::default(),
            retry: Retry::default(),
            max_ttl: None,
            lock_delay: Duration::ZERO,
            counter_ttl: COUNTER_KEPT_FOR,
            restart_guard: RestartGuard::default(),
            group: String::from("default"),
            watch_clocks: true,
            without_scripts: false,
            owner: Vec::new(),
            key_prefix: Vec::new(),
            client_name: Some(String::from("shearline")),
            credentials: None,
            spin: false,
            #[cfg(feature = "tls")]
            tls: TlsOptions::default(),
            #[cfg(feature = "tracing")]
            trace_resources: false,
        }
    }
}

impl Settings {
    fn ttl_limit(&self) -> Duration {
        let assumed = match self.restart_guard {
            RestartGuard::Strict => TTL_ASSUMED_MAX,
            RestartGuard::Off | RestartGuard::Observed => TTL_DEFAULT_MAX,
        };
        self.max_ttl.unwrap_or(assumed)
    }

    fn delay(&self) -> Option<Delay> {
        self.drift.delay(self.lock_delay)
    }
}

impl Config {
    /// Returns a builder without nodes, with the documented defaults for all settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the 1 to 31 nodes, with different addresses, in the order in which they were added.
    #[must_use]
    pub fn nodes(&self) -> &[NodeConfig] {
        &self.nodes
    }

    /// Returns the number of nodes that must agree, which is `N / 2 + 1` of the `N` configured nodes.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Returns how long and how often a handle tries to take a lock.
    pub(crate) fn retry(&self) -> &Retry {
        &self.settings.retry
    }

    /// Returns the longest ttl that this handle accepts: [`Self::max_ttl`] if set, otherwise 30 days, or 60 s
    /// with [`RestartGuard::Strict`]. A lock delay counts as part of each ttl.
    pub(crate) fn ttl_limit(&self) -> Duration {
        self.settings.ttl_limit()
    }

    /// Returns the time that the lock delay adds to each ttl on the nodes.
    pub(crate) fn delay(&self) -> Delay {
        self.settings.delay().unwrap_or_default() // The builder has checked it.
    }

    /// Returns the name of the group that the nodes form, for [`RestartGuard::Strict`].
    #[must_use]
    pub fn group(&self) -> &str {
        &self.settings.group
    }

    /// Returns `true` if the handle uses no scripts.
    #[must_use]
    pub fn without_scripts(&self) -> bool {
        self.settings.without_scripts
    }

    /// Returns the label after the random bytes of every token. The label is empty if no label was set.
    pub(crate) fn owner(&self) -> &[u8] {
        &self.settings.owner
    }

    /// Returns the prefix of all names.
    pub(crate) fn key_prefix(&self) -> &[u8] {
        &self.settings.key_prefix
    }

    /// Returns the name of the connections in the servers' `CLIENT LIST`, or `None` if the handle sends no name.
    pub(crate) fn client_name(&self) -> Option<&str> {
        self.settings.client_name.as_deref()
    }

    /// Returns the credentials provider for `node`, if one must be called before each connection.
    pub(crate) fn provider(&self, node: &NodeConfig) -> Option<&Provider> {
        let provider = self.settings.credentials.as_ref();
        provider.filter(|_| node.is_without_password())
    }

    /// Returns the TLS options for nodes with a `rediss://` URL. Settings in the URL of a node have precedence.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> &TlsOptions {
        &self.settings.tls
    }
}

/// Defines getters for settings that are `Copy`.
macro_rules! getters {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)*) => {
        impl Config {
            $($(#[$meta])* pub(crate) fn $name(&self) -> $type { self.settings.$name })*
        }
    };
}

getters! {
    /// Returns the drift, which is subtracted from every validity because clocks run at different rates.
    drift: Drift,
    /// Returns how long to wait for a node's vote, or `None` if the wait depends on the ttl and the round-trip time.
    node_timeout: Option<Duration>,
    /// Returns how long connecting and the handshake may take.
    connect_timeout: Duration,
    /// Returns how long an answer may be overdue before the handle closes the connection.
    dead_after: Duration,
    /// Returns how long the drop of the last handle may wait for the answers to the last releases.
    #[cfg(any(feature = "std", test))]
    shutdown_timeout: Duration,
    /// Returns the longest ttl that any client of these nodes uses, if it was set. If this ttl was not set, the restart
    /// guard assumes 60 s plus the lock delay.
    max_ttl: Option<Duration>,
    /// Returns how long a node keeps the counter of a resource after its last fencing token.
    counter_ttl: Duration,
    /// Returns what happens to the votes of restarted nodes.
    restart_guard: RestartGuard,
    /// Returns `true` if the handle watches the wall clocks of the nodes.
    watch_clocks: bool,
    /// Returns `true` if a waiting caller polls the sockets in a loop instead of sleeping.
    #[cfg(any(feature = "std", test))]
    spin: bool,
    /// Returns `true` if spans and events show the names of resources.
    #[cfg(feature = "tracing")]
    trace_resources: bool,
}
