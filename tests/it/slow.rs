//! Answers that come too late: there is no lock without validity, and no key is left. (`engine::tests::acquire` has
//! more tests of this.)

use std::time::Duration;

use shearline::{LockError, Redlock};

use crate::face::Which;
use crate::servers::{self, LONG, Proxy};

const TTL: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_millis(300);

fn delay(proxies: &[Proxy], delay: Duration) {
    for proxy in proxies {
        proxy.delay(delay);
    }
}

/// The test runs once with a short ttl, and once with keys that would stay for two minutes. Nearly all of those two
/// minutes is drift: the validity is 120 ms, and only a release can have deleted the keys.
#[test]
fn answers_after_300_ms_are_too_slow_for_a_ttl_of_200_ms() {
    let cluster = servers::three();
    let proxies = cluster.proxies();
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
            // The second grant decides.
            assert_eq!(report.granted(), report.quorum(), "{report}");
            assert!(LATE <= report.elapsed(), "{report}");
            face.assert_gone(&cluster, "late");
        }
    }
}
