//! The configuration of one node, with its address and its credentials.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt::{self, Write as _};
use core::net::{IpAddr, SocketAddr};

#[cfg(feature = "tls")]
use super::tls::NodeTls;
#[cfg(feature = "std")]
use crate::error::words;
#[cfg(feature = "std")]
use crate::limits::CREDENTIAL_BYTES_MAX;

/// The configuration of one node, which is parsed from a URL.
///
/// The URL has one of these forms:
///
/// ```text
/// redis://[user[:password]@]host[:port][/database]
/// rediss://[user[:password]@]host[:port][/database][?ca=file][&cert=file&key=file][&name=name]
/// unix://[user[:password]@]/path[?db=database]
/// host[:port]
/// ```
///
/// `valkey://`, or no scheme, means the same as `redis://`. The default port is 6379, and the default database is 0.
/// `host` is a name, an IPv4 address, or an IPv6 address in brackets, without a zone. The user, the password and the
/// path are percent-decoded, and must be UTF-8. A password may contain `@`, because the last `@` before the host ends
/// the password. The characters `/`, `?`, `#`, `%` and spaces must be escaped in a password.
///
/// `rediss://` and `valkeys://` use TLS, and are refused without the feature `tls`. `ca` is a file with the certificate
/// authorities to trust, and `cert` and `key` are the files of a client certificate, all in PEM form. `name` is the
/// name in the certificate of the node, if it differs from the host. Each parameter may be given once, in any order,
/// percent-encoded like a path. `Builder::tls` sets the parameters that are missing in the URL.
///
/// The driver looks up a host name for each connection, in the background, so a slow look-up delays no call. The handle
/// tries the addresses of the name in order, until a connection succeeds. The handle tries an IPv4 and an IPv6 address
/// at the same time. [`connect_timeout`](crate::Builder::connect_timeout) limits the total time of look-up and
/// connection.
///
/// `Debug` output shows no credentials.
///
/// ```
/// use shearline::NodeConfig;
///
/// let node: NodeConfig = "redis://app:s%2Fcret@Db.Example/3".parse()?;
/// assert_eq!(&**node.label(), "db.example:6379");
/// # Ok::<(), shearline::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct NodeConfig {
    address: Address,
    label: Arc<str>,
    credentials: Option<Credentials>,
    database: u32,
    tls: Option<NodeTls>,
}

/// Without the feature `tls` no node uses TLS.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
enum NodeTls {}

/// The credentials for a node, for `Builder::credentials`.
///
/// `Debug` output does not show the credentials.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl Credentials {
    /// Returns credentials with this password, which may be the token of a cloud service. The user comes from the
    /// node's URL, or is the server's default user.
    pub fn new(password: impl Into<String>) -> Self {
        let password = password.into();
        Self {
            user: None,
            password,
        }
    }

    /// Logs in as this user, if the URL of the node names no user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

/// The credentials provider, which is called before each connection: see `Builder::credentials`.
#[derive(Clone)]
#[cfg_attr(not(feature = "std"), allow(dead_code, reason = "the driver asks it"))]
pub(crate) struct Provider(pub(super) Arc<Provide>);

pub(super) type Provide = dyn Fn(&NodeConfig) -> Result<Credentials, Failure> + Send + Sync;

type Failure = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;

impl Provider {
    /// Returns the credentials for `node`. The provider may block or panic.
    ///
    /// # Errors
    ///
    /// Returns the provider's error, or a message that the credentials are too long for a handshake.
    #[cfg(feature = "std")]
    pub(crate) fn ask(&self, node: &NodeConfig) -> Result<Credentials, Arc<str>> {
        let given = (self.0)(node).map_err(|error| words(&error.to_string()))?;
        let user = given.user.as_ref().map_or(0, String::len);
        match given.password.len().max(user) <= CREDENTIAL_BYTES_MAX {
            true => Ok(given),
            false => Err(words("they are longer than 4096 bytes")),
        }
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a provider")
    }
}

impl NodeConfig {
    pub(super) fn new(address: Address, credentials: Option<Credentials>, database: u32) -> Self {
        let label = address.to_string().into();
        Self {
            address,
            label,
            credentials,
            database,
            tls: None,
        }
    }

    #[cfg(feature = "tls")]
    pub(super) fn with_tls(self, tls: NodeTls) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> Option<&NodeTls> {
        self.tls.as_ref()
    }

    /// Returns `true` if the node uses TLS. Without the feature `tls`, no node uses TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the address of the node.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the address as text, such as `10.0.0.1:6379` or `unix:/run/r.sock`. The label names the node in reports,
    /// and parsing it returns the same address.
    #[must_use]
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Returns the user for the login, or `None` if there is no login or the server's default user logs in.
    pub(crate) fn user(&self) -> Option<&str> {
        self.credentials.as_ref()?.user.as_deref()
    }

    /// Returns the password for the login, or `None` if there is no login. A user without a password logs in with an
    /// empty password, which the server accepts for users with `nopass`.
    pub(crate) fn password(&self) -> Option<&str> {
        Some(&self.credentials.as_ref()?.password)
    }

    /// Returns `true` if the URL has no password, or an empty password.
    pub(crate) fn is_without_password(&self) -> bool {
        self.password().unwrap_or_default().is_empty()
    }

    /// Returns the number of the database that connections select.
    pub(crate) fn database(&self) -> u32 {
        self.database
    }
}

impl fmt::Debug for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = if self.credentials.is_some() {
            "hidden"
        } else {
            "none"
        };
        f.debug_struct("NodeConfig")
            .field("label", &self.label)
            .field("credentials", &format_args!("{credentials}"))
            .field("database", &self.database)
            .field("tls", &self.uses_tls())
            .finish()
    }
}

/// The address of a node. Equal addresses usually have equal values: names are in lower case, IP addresses are parsed,
/// the port is always set, and paths have no empty or `.` parts.
///
/// If two different addresses lead to the same server, the handshake detects this.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Address {
    /// A TCP port of a host.
    Tcp {
        /// The host.
        host: Host,
        /// The port, never zero.
        port: u16,
    },
    /// A unix socket on this machine.
    Unix {
        /// Its absolute path.
        path: String,
    },
}

/// A host name or an IP address.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Host {
    /// An IP address. An IPv4 address mapped into IPv6 is stored as IPv4.
    Ip(IpAddr),
    /// A host name in lower case, which must be looked up.
    Name(String),
}

/// Writes the form that [`NodeConfig`] parses, such as `name:6379`, `[::1]:6379` or `unix:/path`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp {
                host: Host::Ip(ip),
                port,
            } => SocketAddr::new(*ip, *port).fmt(f),
            Self::Tcp {
                host: Host::Name(name),
                port,
            } => write!(f, "{name}:{port}"),
            Self::Unix { path } => {
                f.write_str("unix:")?;
                path.chars().try_for_each(|letter| write_escaped(f, letter))
            }
        }
    }
}

/// Escapes characters that would be parsed differently, or would break a line of a log.
fn write_escaped(f: &mut fmt::Formatter<'_>, letter: char) -> fmt::Result {
    let escaped =
        letter.is_control() || letter.is_whitespace() || matches!(letter, '%' | '?' | '#' | '@');
    if !escaped {
        return f.write_char(letter);
    }
    let mut utf8 = [0; 4];
    letter
        .encode_utf8(&mut utf8)
        .bytes()
        .try_for_each(|byte| write!(f, "%{byte:02X}"))
}
