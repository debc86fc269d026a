//! The variants in which the same tests run, and the tests that cannot run in one of them.
//!
//! A variant is chosen by the environment (`tests/README.md` lists the variables): servers of
//! another version, servers with TLS, users with fewer permissions. A test that cannot run in a
//! variant says so in its first line:
//!
//! ```ignore
//! not_with!(Acl | NoScripts, "has users of its own");
//! ```
//!
//! The test then ends at once and prints `NOT RUN: <test>: <reason>`. `tests/run.sh` lists such tests and counts
//! them as skipped; nextest and cargo alone show them as passed.

use std::io::{self, Write as _};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, thread};

use crate::servers::{Kind, encrypted, is_with_acl_line, is_without_scripts};

/// A variant of the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(
    dead_code,
    reason = "some variants are named by tests with features only"
)]
pub(crate) enum Variant {
    /// The user of the servers has the permissions of the manual and no more.
    Acl,
    /// The servers have TLS.
    Tls,
    /// The user of the servers may not run scripts.
    NoScripts,
    /// Scripts are forbidden and the server has no native compare-and-delete: a release takes two round trips.
    NoNativeRelease,
    /// The Redis server is of version 6.2.
    Redis62,
    /// `SHEARLINE_REDIS_SERVER` is a Valkey server.
    ValkeyForRedis,
    /// The Valkey server is of version 8.1.
    Valkey81,
    /// The Valkey server is of version 9.0.
    Valkey90,
}

impl Variant {
    fn is_chosen(self) -> bool {
        match self {
            Self::Acl => is_with_acl_line(),
            Self::Tls => encrypted::is_usual(),
            Self::NoScripts => is_without_scripts(),
            Self::NoNativeRelease => {
                is_without_scripts() && version(Kind::Redis).starts_with("redis")
            }
            Self::Redis62 => version(Kind::Redis).starts_with("redis 6."),
            Self::ValkeyForRedis => version(Kind::Redis).starts_with("valkey"),
            Self::Valkey81 => version(Kind::Valkey).starts_with("valkey 8.1"),
            Self::Valkey90 => version(Kind::Valkey).starts_with("valkey 9.0"),
        }
    }
}

/// Returns the version that the server's binary reports, such as `redis 7.0.15`.
fn version(kind: Kind) -> &'static str {
    static VERSIONS: [OnceLock<String>; 2] = [OnceLock::new(), OnceLock::new()];
    VERSIONS[kind as usize].get_or_init(|| {
        let binary = kind.binary();
        let output = Command::new(&binary).arg("--version").output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        // "Redis server v=7.0.15 sha=..", "Valkey server v=9.1.0 sha=.."
        let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let (name, rest) = said
            .split_once(" server v=")
            .expect("the first line of --version");
        format!("{name} {}", rest.split(' ').next().unwrap_or_default())
    })
}

/// Returns `true`, and says that the test does not run, if one of `variants` is chosen.
pub(crate) fn is_left_out(variants: &[Variant], reason: &str) -> bool {
    let is_left_out = variants.iter().any(|variant| variant.is_chosen());
    if is_left_out {
        say_not_run(reason);
    }
    is_left_out
}

/// Prints that this test does not run, and why, past the capture of the test harness.
pub(crate) fn say_not_run(reason: &str) {
    let current = thread::current();
    let name = env::var("NEXTEST_TEST_NAME");
    let name = name.as_deref().ok().or(current.name()).unwrap_or("main");
    // Not `eprintln`, which is shown for failing tests only.
    let line = format!("\nNOT RUN: {name}: {reason}\n");
    let written = io::stderr().write_all(line.as_bytes());
    written.expect("the standard error");
}

/// Ends the test if the run is of one of these variants. See [`variants`](crate::variants).
macro_rules! not_with {
    ($($variant:ident)|+, $reason:literal) => {
        if $crate::variants::is_left_out(&[$($crate::variants::Variant::$variant),+], $reason) {
            return;
        }
    };
}
