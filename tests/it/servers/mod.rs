//! Real servers that tests start, stop, kill and inspect from outside.
//!
//! * A [`Server`] is one process with a port and a directory of its own. Dropping it kills that
//!   process and waits for its end, in a panic too.
//! * A [`Cluster`] is N independent servers, as Redlock requires.
//! * [`Raw`] is a blocking connection with a reply parser that shares no code with the library.
//! * [`Proxy`] disturbs a connection as networks do, and in worse ways; [`Link`] disturbs packets.
//! * [`watched`] measures how long a process or a server stalled during a story.
//! * `Encryption` gives servers a TLS port.
//! * [`ClosedPort`] is an address at which no process listens.
//!
//! No test sleeps for a result. A test polls for a state, up to a limit at which it fails and shows the last state.

pub(crate) mod authority;
mod cluster;
pub(crate) mod encrypted;
#[cfg(target_os = "linux")]
mod link;
mod permitted;
mod ports;
mod process;
mod proxy;
mod raw;
mod watch;

pub(crate) use cluster::Cluster;
#[cfg(feature = "tls")]
pub(crate) use encrypted::Encryption;
#[cfg(target_os = "linux")]
pub(crate) use link::{Link, Weather};
pub(crate) use permitted::{is_with_acl_line, is_without_scripts, permitted};
pub(crate) use ports::ClosedPort;
pub(crate) use process::{Kind, Options, Server};
pub(crate) use proxy::{End, Mischief, Proxy, Way};
pub(crate) use raw::{Raw, Reply};
#[cfg(target_os = "linux")]
pub(crate) use watch::longest_stop;
pub(crate) use watch::watched;

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen soon. Only a failure takes this long. It is far more than any
/// machine needs, however busy, and less than the ttl of the locks whose keys have to vanish.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A ttl that is longer than any test, so that a missing key was released and has not expired.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The ttl of a lock that has to expire. It is far longer than getting the lock and beginning the story take, even if
/// the machine stalls meanwhile.
pub(crate) const BRIEF: Duration = Duration::from_secs(2);

/// The node timeout, and the connect timeout, in stories about silent nodes, which wait for that long: longer
/// than a machine stands still, and than a handshake over TLS takes on a busy one.
pub(crate) const SILENT: Duration = Duration::from_secs(3);

/// Five servers.
pub(crate) fn five() -> Cluster {
    Cluster::start(5)
}

/// Three servers.
pub(crate) fn three() -> Cluster {
    Cluster::start(3)
}

/// Polls `probe` until it gives a value, at most [`PATIENCE`] long; then fails with `what`.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within_patience(probe).unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
}

/// Polls until `is` holds, at most [`PATIENCE`] long; then fails with `what`.
#[track_caller]
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    eventually(what, || is().then_some(()));
}

/// Polls `probe` until it gives a value, at most [`PATIENCE`] long.
pub(crate) fn within_patience<T>(mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return Some(value);
        }
        if PATIENCE < start.elapsed() {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
