//! Requests that can never succeed are refused before any I/O, by a typed error that says what to
//! do.

use std::time::Duration;

use shearline::{
    BuildError, ConfigError, InvalidRequest, LockError, LockOptions, Redlock, Retry, UrlProblem,
};

use crate::face::Which;
use crate::servers::{LONG, Manner, Server, Stranger, eventually};

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[test]
fn requests_that_can_never_succeed_are_invalid() {
    let server = Server::start();
    let (empty, longest, too_long) = (vec![], vec![b'x'; 1024], vec![b'x'; 1025]);
    for which in Which::BOTH {
        let mut face = which.build(Redlock::builder().node(server.url()));
        let lock = face
            .try_lock(&longest, LONG)
            .expect("the longest name is allowed");
        face.unlock(lock).expect("held");
        let before = commands(&server);
        let mut invalid = |resource: &[u8], options: LockOptions| {
            let result = face.lock_with(resource, &options);
            let Err(LockError::Invalid(invalid)) = result else {
                panic!("`Invalid` was expected, not {result:?}");
            };
            assert_eq!(LockError::Invalid(invalid).to_string(), invalid.to_string());
            invalid
        };
        let good = LockOptions::new(LONG);
        assert_eq!(invalid(&empty, good), InvalidRequest::EmptyResource);
        assert_eq!(
            invalid(&too_long, good),
            InvalidRequest::ResourceTooLong { bytes: 1025 }
        );
        assert_eq!(invalid(b"k", good.tries(0)), InvalidRequest::NoTries);
        for ttl in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(2),
        ] {
            let said = invalid(b"k", LockOptions::new(ttl));
            assert!(
                matches!(said, InvalidRequest::TtlTooShort { ttl: asked, .. } if asked == ttl),
                "{said:?}"
            );
        }
        for ttl in [31 * Duration::from_secs(86_400), CENTURY, Duration::MAX] {
            let said = invalid(b"k", LockOptions::new(ttl));
            assert!(
                matches!(said, InvalidRequest::TtlTooLong { ttl: asked, .. } if asked == ttl),
                "{said:?}"
            );
        }
        assert_eq!(
            commands(&server),
            before,
            "nothing of all this has reached the server"
        );
        // Just inside the bounds.
        for ttl in [Duration::from_millis(50), 30 * Duration::from_secs(86_400)] {
            let lock = face
                .try_lock("k", ttl)
                .unwrap_or_else(|error| panic!("{ttl:?}: {error}"));
            drop(face.unlock(lock));
        }
    }
}

#[test]
fn a_ttl_above_the_declared_maximum_is_invalid() {
    let server = Server::start();
    for which in Which::BOTH {
        let builder = Redlock::builder()
            .node(server.url())
            .max_ttl(LONG)
            .restart_guard(shearline::RestartGuard::Off);
        let mut face = which.build(builder);
        let lock = face.try_lock("k", LONG).expect("the maximum is allowed");
        face.unlock(lock).expect("held");
        let result = face.try_lock("k", LONG + Duration::from_millis(1));
        assert!(
            matches!(
                result,
                Err(LockError::Invalid(InvalidRequest::TtlTooLong { maximum, .. }))
                    if maximum == LONG
            ),
            "{result:?}"
        );
    }
}

#[test]
fn configurations_that_can_never_work_are_refused() {
    let stranger = Stranger::new(Manner::Silent);
    let url = stranger.url();
    let builder = || Redlock::builder().node(&url);
    let address = url["redis://".len()..].to_owned();
    let tables = [
        (Redlock::builder(), ConfigError::NoNodes),
        (
            builder().node(&url),
            ConfigError::DuplicateNode {
                address: address.clone(),
            },
        ),
        // Another database or user of the same server is the same server.
        (
            builder().node(format!("{url}/5")),
            ConfigError::DuplicateNode { address },
        ),
        (builder().node(""), bad_url(1, UrlProblem::Empty)),
        (
            builder().node("http://127.0.0.1:1"),
            bad_url(1, UrlProblem::Scheme),
        ),
        (
            builder().node("redis://127.0.0.1:0"),
            bad_url(1, UrlProblem::Port),
        ),
        (
            builder().node("redis://127.0.0.1:65536"),
            bad_url(1, UrlProblem::Port),
        ),
        (
            builder().node("redis://127.0.0.1:1/x"),
            bad_url(1, UrlProblem::Database),
        ),
        (
            builder().nodes((1..=31).map(|port| format!("127.0.0.1:{port}"))),
            ConfigError::TooManyNodes(32),
        ),
        (
            builder().drift(1.0, Duration::ZERO),
            ConfigError::DriftFactor,
        ),
        (
            builder().drift(f64::NAN, Duration::ZERO),
            ConfigError::DriftFactor,
        ),
        (
            builder().node_timeout(Duration::ZERO),
            ConfigError::NodeTimeout(Duration::ZERO),
        ),
        (
            builder().connect_timeout(Duration::ZERO),
            ConfigError::ConnectTimeout(Duration::ZERO),
        ),
        (
            builder().max_ttl(Duration::ZERO),
            ConfigError::MaxTtl(Duration::ZERO),
        ),
        (
            builder().max_ttl(Duration::MAX),
            ConfigError::MaxTtl(Duration::MAX),
        ),
        (
            builder().retry(Retry::new(0, Duration::ZERO..=LONG)),
            ConfigError::Retry,
        ),
        (
            builder().retry(Retry::new(3, LONG..=Duration::ZERO)),
            ConfigError::Retry,
        ),
        (builder().owner([b'x'; 65]), ConfigError::OwnerTooLong(65)),
    ];
    for (builder, expected) in tables {
        let local = builder.clone().build_local().map(drop);
        for result in [builder.build().map(drop), local] {
            let Err(BuildError::Config(error)) = result else {
                panic!("{expected:?} was expected, not {result:?}");
            };
            assert_eq!(error, expected);
        }
    }
    assert_eq!(stranger.visits(), 0, "refused before any I/O");
}

fn bad_url(index: usize, problem: UrlProblem) -> ConfigError {
    ConfigError::Url { index, problem }
}

/// Returns how many commands other than our own `INFO` the server has run, when it is idle.
fn commands(server: &Server) -> u64 {
    let mut raw = server.raw();
    let mut last = None;
    eventually("the server is at rest", || {
        let stats = raw.run("INFO commandstats").into_text();
        let calls = stats
            .lines()
            .filter(|line| !line.starts_with("cmdstat_info:"))
            .filter_map(|line| {
                line.split_once(":calls=")?
                    .1
                    .split(',')
                    .next()?
                    .parse::<u64>()
                    .ok()
            });
        let now = Some(calls.sum::<u64>());
        let rests = now == last;
        last = now;
        rests.then_some(())
    });
    last.expect("counted")
}
