//! Answers that come too late: there is no lock without validity, and no key is left. (`engine::tests::acquire` has
//! more tests of this.)

use std::thread;
use std::time::Duration;

use shearline::{LockError, Redlock};

use crate::effort::times;
use crate::face::Which;
use crate::servers::{self, LONG, Proxy, Raw, Reply, watched};

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

/// The servers close idle connections, and opening them again takes longer than the node timeout. A handle without a
/// thread notices the loss only when it is called, and waits for new connections.
#[test]
fn a_lock_is_had_when_all_connections_were_closed_for_idleness() {
    let far = Duration::from_millis(300);
    let cluster = servers::three();
    let proxies = cluster.proxies();
    delay(&proxies, far);
    let builder = Redlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .node_timeout(Duration::from_millis(500))
        .connect_timeout(Duration::from_secs(10));
    let mut face = Which::Local.build(builder);
    for turn in 0..times(2, 6) {
        delay(&proxies, far);
        let (done, stood_still) = watched(&mut cluster.raws(), || {
            let held = face.try_lock(format!("idle:{turn}"), LONG);
            let held = held.map_err(|error| error.to_string())?;
            delay(&proxies, Duration::ZERO); // Without scripts a release takes several round trips.
            face.unlock(held).map_err(|error| error.to_string())
        });
        assert!(done.is_ok() || far / 2 < stood_still, "{done:?}");
        cluster.run("CONFIG SET timeout 1");
        servers::eventually("the servers close what is idle", || {
            let clients = |raw: &mut Raw| raw.command(&[b"CLIENT", b"LIST"]);
            let alone = |mut raw: Raw| match clients(&mut raw) {
                Reply::Bulk(list) => list.iter().filter(|byte| **byte == b'\n').count() == 1,
                other => panic!("{other:?}"),
            };
            cluster.raws().into_iter().all(alone).then_some(())
        });
        cluster.run("CONFIG SET timeout 0"); // The connections of this test itself stay open.
        thread::sleep(2 * far); // Until the relays have passed it on.
    }
    cluster.assert_empty();
}
