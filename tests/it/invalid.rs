//! What can never succeed is refused before any I/O. Each request and each setting is told by
//! `engine::tests::bounds` and `config::builder::tests`; here, that handles ask them.

use std::time::Duration;

use shearline::{BuildError, ConfigError, LockError, LockOptions, Redlock, RestartGuard};

use crate::face::Which;
use crate::servers::{LONG, Manner, Server, Stranger};

#[test]
fn nothing_of_requests_that_can_never_succeed_reaches_a_server() {
    let server = Server::start();
    let calls = || server.raw().info("commandstats", "cmdstat_set");
    let (longest, too_long) = ([b'x'; 1024], [b'x'; 1025]);
    for which in Which::BOTH {
        let builder = Redlock::builder().node(server.url()).max_ttl(LONG);
        let mut face = which.build(builder.restart_guard(RestartGuard::Off));
        let lock = face.try_lock(longest, LONG).expect("that is allowed");
        face.unlock(lock).expect("held");
        let before = calls();
        let good = LockOptions::new(LONG);
        for (resource, options) in [
            (&b""[..], good),
            (&too_long, good),
            (b"k", good.tries(0)),
            (b"k", LockOptions::new(Duration::from_millis(2))),
            (b"k", LockOptions::new(LONG + Duration::from_millis(1))),
        ] {
            let result = face.lock_with(resource, &options);
            assert!(matches!(result, Err(LockError::Invalid(_))), "{result:?}");
        }
        assert_eq!(calls(), before, "no `SET`");
    }
}

#[test]
fn configurations_that_can_never_work_are_refused() {
    let stranger = Stranger::new(Manner::Silent);
    let one = || Redlock::builder().node(stranger.url());
    for (builder, expected) in [
        (Redlock::builder(), ConfigError::NoNodes),
        (one().drift(1.0, Duration::ZERO), ConfigError::DriftFactor),
        (one().owner([b'x'; 65]), ConfigError::OwnerTooLong(65)),
    ] {
        let local = builder.clone().build_local().map(drop);
        for result in [builder.build().map(drop), local] {
            assert!(
                matches!(&result, Err(BuildError::Config(error)) if *error == expected),
                "{expected:?} was expected, not {result:?}"
            );
        }
    }
    assert_eq!(stranger.visits(), 0, "refused before any I/O");
}
