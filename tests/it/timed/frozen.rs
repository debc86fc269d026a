//! One node of five stands still with the default timeouts, which a busy machine exceeds: a turn in which
//! something else stood still shows nothing.

use shearline::Redlock;

use crate::face::{Face, Which};
use crate::servers::{self, LONG, STOOD_STILL_MAX, Server, watched};

/// How often the story below has to be observed.
const TURNS: u32 = 5;

/// Locks do not depend on the default node timeout, though a node does not answer within it. The lock is
/// still held when the node goes on.
#[test]
fn a_lock_outlives_a_node_that_freezes_and_goes_on() {
    let cluster = servers::five();
    let mut healthy = cluster[..4].iter().map(Server::raw).collect::<Vec<_>>();
    for which in Which::BOTH {
        let mut face = which.build(Redlock::builder().nodes(cluster.urls()));
        let mut seen = 0;
        for turn in 0.. {
            if seen == TURNS {
                break;
            }
            assert!(turn < 10 * TURNS, "something stands still in each turn");
            face.await_ready();
            let key = which.key(&format!("held:{turn}"));
            let (result, stood_still) = watched(&mut healthy, || {
                freezes_and_goes_on(&mut face, &cluster[4], &key)
            });
            cluster[4].thaw();
            face.assert_gone(&cluster, &key);
            match result {
                Ok(()) => seen += 1,
                Err(error) => assert!(STOOD_STILL_MAX / 2 < stood_still, "{error}"),
            }
        }
        cluster.assert_empty();
    }
}

/// Four of five nodes confirm every call, and then all do.
fn freezes_and_goes_on(face: &mut Face, server: &Server, key: &str) -> Result<(), String> {
    server.freeze();
    let lock = face.try_lock(key, LONG);
    let mut lock = lock.map_err(|error| error.to_string())?;
    let frozen = face.extend(&mut lock, LONG);
    server.thaw();
    let again = face.extend(&mut lock, LONG);
    let released = face.unlock(lock);
    frozen.and(again).map_err(|error| error.to_string())?;
    released.map(drop).map_err(|error| error.to_string())
}
