//! The options that name the nodes and configure the connections, and the code that builds a handle from them.
//!
//! All commands that use nodes, except `demo`, have the options in [`Nodes`]. Commands that take, extend or release a
//! lock have those in [`Connect`], which adds `--trust`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::ParseBoolError;
use std::thread;
use std::time::Duration;

use clap::builder::OsStringValueParser;
use clap::{Args, ValueEnum};
use shearline::internals::now;
use shearline::{
    Builder, Instant, LockError, NodeState, NodeStatus, OperatorError, Redlock, RestartGuard,
};

use crate::config;
use crate::duration;
use crate::failure::Failure;
use crate::secrets::{self, Login};
use crate::status::Status;

/// The environment variable with the comma-separated URLs of the nodes. `--node` overrides it.
const NODES: &str = "SHEARLINE_NODES";

/// The default for `--max-ttl`, if no marker contains a ttl.
const MAX_TTL: Duration = Duration::from_secs(60);

/// The `max_ttl` of a handle that only reads the markers. A restarted node's barrier is computed for this ttl, and then
/// multiplied to cover the ttl in the marker. The product is slightly too long, because the constant part of the
/// allowed drift is multiplied too. With a shorter ttl here, the barrier would be even longer.
const TO_READ: Duration = Duration::from_millis(100);

/// The shortest and the longest wait for silent nodes at the end of a command.
const AT_END_MIN: Duration = Duration::from_millis(50);
const AT_END_MAX: Duration = Duration::from_secs(2);

/// How often the command checks whether the remaining nodes have answered or failed.
const LOOK: Duration = Duration::from_millis(5);

/// The options that name the nodes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct Nodes {
    /// Comma-separated URLs, or set SHEARLINE_NODES.
    ///
    /// A URL is redis://user:password@host:port/db, rediss://.. or unix:///path. You may repeat the option. Give all
    /// clients the same nodes in the same order. Other users of this machine can read the arguments of a command, so
    /// put passwords into the variable or a file. Write a comma in a password as %2C.
    #[arg(long, value_name = "URL", env = NODES, hide_env = true)]
    node: Vec<String>,

    /// User for URLs without a user.
    ///
    /// This option requires --password-file.
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    user: Option<String>,

    /// Password file for URLs without a password.
    ///
    /// The password applies to URLs from every source. The command reads the file again before each connection.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// TOML file of options, or set SHEARLINE_CONFIG.
    ///
    /// The section FILES lists the keys. Options on the command line and environment variables override the file.
    #[arg(long, value_name = "FILE", env = config::FILE, hide_env = true)]
    #[arg(value_parser = OsStringValueParser::new())]
    config: Option<OsString>,

    /// Refuses password files that all users can read.
    ///
    /// Without this option, the command only prints a warning.
    #[arg(long, hide_short_help = true)]
    strict_files: bool,

    /// PEM file of CA certificates, for rediss://.
    ///
    /// Without this option, the command trusts the certificate authorities of the system.
    #[cfg(feature = "tls")]
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    ca: Option<String>,

    /// PEM file of a client certificate.
    #[cfg(feature = "tls")]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "key")]
    cert: Option<String>,

    /// PEM file of the client certificate's key.
    #[cfg(feature = "tls")]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "cert")]
    key: Option<String>,

    /// Guard: off, observed [default] or strict.
    ///
    /// A node that has restarted may have forgotten locks. The restart guard prevents such a node from voting.
    #[arg(long, value_name = "GUARD", value_enum)]
    guard: Option<Guard>,

    /// Name of the group, for --guard strict.
    #[arg(long, value_name = "NAME", default_value = "default")]
    #[arg(hide_short_help = true)]
    group: String,

    /// Longest ttl of any client [default: 60s].
    ///
    /// This time includes the lock delay. If a node has been up for less than this time when the command connects, the
    /// node does not vote yet. Give every client the same --max-ttl. With --guard strict, the default is the longest
    /// ttl in the markers of the nodes. If you give a longer time than the one in the markers, no client gets a lock
    /// until the longer time has passed.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    max_ttl: Option<Duration>,

    /// Longest wait for an answer.
    ///
    /// The timeout should be longer than the longest round trip, and much shorter than the ttl. Distant nodes need a
    /// longer timeout and a longer --connect-timeout. A command waits this long for silent nodes. Before the command
    /// ends, it waits for silent nodes again, for at most two seconds.
    #[arg(long, value_name = "TIME", value_parser = duration::within(1..=10_000))]
    #[arg(hide_short_help = true, default_value = "500ms")]
    pub(crate) node_timeout: Duration,

    /// Longest wait for a connection.
    ///
    /// A connection and its login take about three round trips. A command that needs all nodes waits this long for
    /// nodes that are not connected yet. If fewer nodes than a majority are connected, the command waits twice as long.
    #[arg(long, value_name = "TIME", value_parser = duration::within(1..=10_000))]
    #[arg(hide_short_help = true, default_value = "1s")]
    connect_timeout: Duration,

    /// Runs no script on the nodes.
    ///
    /// Use this option if the user may not run EVAL, or if the nodes have no Lua. SHEARLINE_WITHOUT_SCRIPTS=true has
    /// the same effect. Use the same setting for all clients. Scripts are necessary for --guard
    /// strict, --fenced, --shared and --permits.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(env = "SHEARLINE_WITHOUT_SCRIPTS", hide_env = true, hide_short_help = true, value_parser = truth)]
    without_scripts: Option<bool>,
}

/// The options that name the nodes, and `--trust`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Connect {
    #[command(flatten)]
    pub(crate) nodes: Nodes,

    /// Lets new nodes vote immediately.
    ///
    /// Use --trust only if no node can have forgotten a lock that a client still holds, for example if you have just
    /// installed the nodes. The command trusts the nodes that it can connect to when it starts. With --guard strict,
    /// the option applies to all clients, because the nodes store the trust. The option also sets the counter floor of
    /// the nodes, the smallest fencing token that they give to any client. The floor is the current time in
    /// microseconds, plus one second. All older tokens are smaller, unless a clock was set back.
    #[arg(long, help_heading = "Nodes")]
    pub(crate) trust: bool,
}

/// The values of `--guard`, one for each kind of restart guard.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Guard {
    /// A restarted node votes immediately.
    Off,
    /// A node that has restarted does not vote until every lock that it may have forgotten has expired.
    Observed,
    /// The nodes have markers, which all clients check.
    Strict,
}

impl Nodes {
    /// Returns the builder of a handle with these options. [`Acquire`](crate::acquire::Acquire) adds the owner and the
    /// lock delay.
    pub(crate) fn builder(&self) -> Result<Builder, Failure> {
        let builder = self.with_tls(self.of(self.urls()?)?);
        builder.config()?; // This finds the first mistake before anything is sent.
        Ok(builder)
    }

    /// Returns one builder for each node, without a restart guard. With such a builder, a single node grants the lock,
    /// so no program may rely on it.
    pub(crate) fn each(&self) -> Result<Vec<Builder>, Failure> {
        let alone = |url: String| {
            // A node without TLS gets no TLS options, even if other nodes use TLS.
            let scheme = url.to_ascii_lowercase();
            let has_tls = scheme.starts_with("rediss://") || scheme.starts_with("valkeys://");
            let builder = self.of(vec![url])?.restart_guard(RestartGuard::Off);
            Ok(match has_tls {
                true => self.with_tls(builder),
                false => builder,
            })
        };
        self.urls()?.into_iter().map(alone).collect()
    }

    /// Returns a builder for the nodes at these URLs, without TLS options.
    fn of(&self, urls: Vec<String>) -> Result<Builder, Failure> {
        let builder = Redlock::builder()
            .nodes(urls)
            .without_scripts(self.without_scripts == Some(true))
            .restart_guard(self.guard().into())
            .group(&self.group)
            .max_ttl(self.max_ttl())
            .node_timeout(self.node_timeout)
            .connect_timeout(self.connect_timeout)
            .shutdown_timeout(self.at_end());
        let login = match (self.password_file.clone(), self.user.clone()) {
            (Some(file), user) => Login {
                user,
                file,
                is_strict: self.strict_files,
            },
            (None, None) => return Ok(builder),
            (None, Some(_)) => {
                let what = "a user needs a password: give --password-file too";
                return Err(Failure::new(Status::Configuration, what));
            }
        };
        login.credentials()?; // This finds mistakes before anything is sent.
        Ok(builder.credentials(move |_| Ok(login.credentials().map_err(|it| it.message)?)))
    }

    /// Returns a handle that has tried once to connect to every node.
    pub(crate) fn connect(&self) -> Result<Redlock, Failure> {
        Ok(self.as_marked(self.builder()?, Instant::MAX)?.build()?)
    }

    /// Returns how long a command waits for silent nodes before it ends.
    pub(crate) fn at_end(&self) -> Duration {
        self.node_timeout.clamp(AT_END_MIN, AT_END_MAX)
    }

    /// Waits for the nodes of a handle, as [`settled`] does.
    pub(crate) fn settled(&self, redlock: &Redlock) -> Vec<NodeStatus> {
        settled(redlock, self.connect_timeout, Instant::MAX)
    }

    /// Returns the longest ttl of any client: the value of `--max-ttl`, or its default.
    pub(crate) fn max_ttl(&self) -> Duration {
        self.max_ttl.unwrap_or(MAX_TTL)
    }

    fn guard(&self) -> Guard {
        self.guard.unwrap_or(Guard::Observed)
    }

    /// Fails if the user gave a guard that uses no markers. Without `--guard`, a command that writes markers uses
    /// `strict`.
    pub(crate) fn check_markers(&self) -> Result<(), Failure> {
        if self.guard.is_none_or(|guard| guard == Guard::Strict) {
            return Ok(());
        }
        let what = "only clients with --guard strict use the markers that reinit writes: give --guard strict, or do \
                    without reinit";
        Err(Failure::new(Status::Configuration, what))
    }

    /// With `--guard strict` but without `--max-ttl`, sets `max_ttl` to the longest ttl in the markers.
    ///
    /// If a client's ttl is longer than the ttl in a marker, the client raises the ttl in the marker. Then no client
    /// gets a lock until the longer ttl has passed. So this function reads the markers with a handle that has a very
    /// short ttl. The function waits for slow nodes until `by`, and then fails if too few nodes vote.
    pub(crate) fn as_marked(&self, builder: Builder, by: Instant) -> Result<Builder, Failure> {
        if self.guard() != Guard::Strict && self.group != "default" {
            let what = "--group works only with --guard strict: give both";
            return Err(Failure::new(Status::Configuration, what));
        }
        if self.guard() != Guard::Strict || self.max_ttl.is_some() {
            return Ok(builder);
        }
        let twice = self.connect_timeout.saturating_mul(2);
        let patience = twice.min(left(by)).max(self.connect_timeout);
        let reading = self.builder()?.max_ttl(TO_READ).connect_timeout(patience);
        let reading = reading.build()?;
        let nodes = settled(&reading, self.connect_timeout, by);
        if left(by).is_zero() {
            voted(&reading)?;
        }
        let marked = nodes.iter().filter_map(|node| node.marked_ttl).max();
        Ok(match marked.filter(|ttl| TO_READ < *ttl) {
            Some(ttl) => builder.max_ttl(ttl),
            None => builder,
        })
    }

    fn urls(&self) -> Result<Vec<String>, Failure> {
        secrets::urls("--node or SHEARLINE_NODES", &self.node)
    }

    #[cfg(feature = "tls")]
    fn with_tls(&self, builder: Builder) -> Builder {
        let mut options = shearline::TlsOptions::new();
        if let Some(ca) = &self.ca {
            options = options.authorities_file(ca);
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            options = options.identity_files(cert, key);
        }
        builder.tls(options)
    }

    #[cfg(not(feature = "tls"))]
    fn with_tls(&self, builder: Builder) -> Builder {
        builder
    }
}

/// Parses a Boolean value. Like an unset variable, an empty text counts as `false`.
fn truth(text: &str) -> Result<bool, ParseBoolError> {
    match text {
        "" => Ok(false),
        text => text.parse(),
    }
}

impl Connect {
    /// Builds the handle, and trusts the nodes if `--trust` was given. Waits for silent nodes until `by`, but at least
    /// for one connect timeout.
    pub(crate) fn connect(&self, builder: &Builder, by: Instant) -> Result<Redlock, Failure> {
        let met_by = by.max(now().saturating_add(self.nodes.connect_timeout));
        let redlock = self.nodes.as_marked(builder.clone(), met_by)?.build()?;
        self.trust_if_asked(&redlock, met_by);
        if left(by).is_zero() {
            voted(&redlock)?; // Without this check, the next request would wait for the same nodes again.
        }
        Ok(redlock)
    }

    /// If `--trust` was given, waits until `by` for nodes that have not answered yet, and then trusts the nodes.
    pub(crate) fn trust_if_asked(&self, redlock: &Redlock, by: Instant) {
        if self.trust {
            settled(redlock, self.nodes.connect_timeout, by);
            redlock.trust_nodes();
        }
    }
}

/// Fails with a [`LockError`] if too few nodes vote now.
fn voted(redlock: &Redlock) -> Result<(), Failure> {
    match redlock.check() {
        Err(OperatorError::NoQuorum(report)) => Err(LockError::NoQuorum(report).into()),
        checked => Ok(checked?),
    }
}

/// Returns the time from now until `until`.
pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_since(now())
}

/// Waits until every node has answered or failed, and returns the state of the nodes.
///
/// Waits for at most `patience`, or for twice that time if no majority of the nodes has answered. Never waits past
/// `by`.
pub(crate) fn settled(redlock: &Redlock, patience: Duration, by: Instant) -> Vec<NodeStatus> {
    let begin = now();
    loop {
        let nodes = redlock.nodes();
        let has_answered =
            |node: &&NodeStatus| !is_on_its_way(node) && !matches!(node.state, NodeState::Down(_));
        let patience = match nodes.len() / 2 < nodes.iter().filter(has_answered).count() {
            true => patience,
            false => patience.saturating_mul(2),
        };
        let by = by.min(begin.saturating_add(patience));
        if left(by).is_zero() || !nodes.iter().any(is_on_its_way) {
            return nodes;
        }
        thread::sleep(LOOK);
    }
}

/// Returns `true` if a node has neither answered nor failed yet.
fn is_on_its_way(node: &NodeStatus) -> bool {
    match node.state {
        NodeState::New | NodeState::Connecting => true,
        // The handle is reading the marker of the node.
        NodeState::Quarantined { left } => left.is_zero(),
        _ => false,
    }
}

impl From<Guard> for RestartGuard {
    fn from(guard: Guard) -> Self {
        match guard {
            Guard::Off => Self::Off,
            Guard::Observed => Self::Observed,
            Guard::Strict => Self::Strict,
        }
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        nodes: Nodes,
    }

    /// `--node` takes a list of URLs, and may be given more than once. The command refuses a comma in a password, and
    /// the error shows no part of the URL.
    #[test]
    fn nodes_are_lists() {
        let urls = |lists: &[&str]| {
            let options = lists.iter().flat_map(|list| ["--node", *list]);
            Line::parse_from(["x"].into_iter().chain(options))
                .nodes
                .urls()
        };
        let three = ["a:1", "b:2", "redis://:p%2Cq@c"];
        for lists in [
            &three[..],
            &["a:1,b:2,redis://:p%2Cq@c"],
            &["a:1, b:2", "redis://:p%2Cq@c"],
        ] {
            assert_eq!(urls(lists).expect("three URLs"), three, "{lists:?}");
        }
        let failure = urls(&["a:1", "redis://:p,secret@b"]).expect_err("a comma");
        assert_eq!(failure.status, Status::Configuration);
        assert!(
            failure
                .message
                .starts_with("--node or SHEARLINE_NODES: a user or a password contains a comma"),
            "{failure:?}"
        );
        assert!(!failure.message.contains("secret"), "{failure:?}");
    }

    /// The user may give TLS options even if only some of the nodes use TLS.
    #[test]
    fn each_node_alone_may_be_without_tls() {
        let plain = "redis://127.0.0.1:1";
        for (other, is_wrong) in [
            ("rediss://127.0.0.1:2", false),
            ("redis://127.0.0.1:2", true),
        ] {
            let line = ["x", "--node", plain, "--node", other, "--ca", "/dev/null"];
            let nodes = Line::parse_from(line).nodes;
            assert_eq!(nodes.builder().is_err(), is_wrong, "{other}");
            let each = nodes.each().expect("two nodes");
            assert!(each.iter().all(|it| it.config().is_ok()), "{other}");
        }
    }
}
