//! Answers that come too late: there is no lock without validity, and no key is left. (More of that is told by
//! `engine::tests::acquire`.)

use std::time::Duration;

use shearline::{LockError, Redlock};

use crate::face::{Which, at};
use crate::servers::{self, Cluster, End, LONG, Proxy, encrypted, eventually};

const TTL: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_millis(300);

/// Three servers, each behind a relay that answers late.
fn late() -> (Cluster, Vec<Proxy>) {
    let cluster = servers::three();
    let proxies = cluster
        .iter()
        .map(|server| Proxy::to(server.address()))
        .collect();
    (cluster, proxies)
}

fn delay(proxies: &[Proxy], delay: Duration) {
    for proxy in proxies {
        proxy.delay(delay);
    }
}

/// Once with a short ttl; and once with keys that would stay for two minutes, of which nearly all is drift: the
/// validity is 120 ms, and only a release can have deleted the keys.
#[test]
fn answers_after_300_ms_are_too_slow_for_a_ttl_of_200_ms() {
    let (cluster, proxies) = late();
    for which in Which::BOTH {
        for (ttl, drift) in [(TTL, 0.01), (LONG, 0.999)] {
            delay(&proxies, Duration::ZERO);
            let builder = Redlock::builder()
                .nodes(proxies.iter().map(Proxy::url))
                .drift(drift, Duration::ZERO)
                .node_timeout(Duration::from_secs(5));
            let mut face = which.build(builder);
            delay(&proxies, LATE);
            let result = face.try_lock("late", ttl);
            let Err(LockError::TooSlow(report)) = result else {
                panic!("no validity was left, but: {result:?}");
            };
            assert_eq!(
                report.granted(),
                report.quorum(),
                "decided by the second grant: {report}"
            );
            assert!(LATE <= report.elapsed(), "{report}");
            face.assert_gone(&cluster, "late");
        }
    }
}

/// A node votes again two round trips after TCP has connected anew, and three with TLS, whose own is the
/// third: who we are is asked first, everything else at once.
#[test]
fn a_node_is_back_after_few_round_trips() {
    let (_cluster, proxies) = late();
    let expected = if encrypted::is_on() { 3 } else { 2 };
    for which in Which::BOTH {
        let mut face = which.build(at(proxies.iter().map(Proxy::url)));
        face.await_ready();
        delay(&proxies, Duration::from_millis(100));
        for proxy in &proxies {
            proxy.cut(End::Rst);
        }
        // Only now does a node that is ready mean the next connection.
        eventually("the nodes are asked anew", || {
            face.settle();
            proxies
                .iter()
                .all(|proxy| proxy.rounds() >= expected)
                .then_some(())
        });
        face.await_ready();
        for proxy in &proxies {
            assert_eq!(proxy.rounds(), expected, "besides TCP's own");
        }
        delay(&proxies, Duration::ZERO);
    }
}
