//! Sets of handles that use no scripts. Servers with `MSETEX` get `MSETEX`, and other servers get `WATCH`, even if both
//! kinds are in one cluster.

use super::*;
use crate::face::at;
use crate::servers::{Raw, Reply};

/// Returns `true` if the server has `MSETEX`.
pub(crate) fn has_it(raw: &mut Raw) -> bool {
    match raw.try_command(&[b"MSETEX", b"1", b"k", b"v", b"PX", b"0"]) {
        Ok(Reply::Error(line)) => !line.starts_with("ERR unknown command"),
        other => panic!("{other:?}"),
    }
}

/// Waits until every node has both keys, or neither.
#[track_caller]
fn both_are(face: &mut Face, raws: &mut [Raw], keys: &[String; 2], there: bool) {
    face.until("every node has both, or neither", |_| {
        let mut all = raws.iter_mut().flat_map(|raw| {
            let exists = keys.each_ref().map(|key| raw.exists(key.as_bytes()));
            exists.into_iter()
        });
        all.all(|exists| exists == there)
    });
}

#[test]
fn a_set_is_taken_by_one_command_where_a_server_has_that() {
    let kinds = [Options::redis(), Options::valkey()];
    let [redis, valkey] = kinds.map(|options| Cluster::with(3, &options));
    let mixed = [&redis[0], &valkey[0], &valkey[1]];
    let of = |cluster: &Cluster| (cluster.urls(), cluster.raws());
    let mixed = (
        mixed.map(|server| server.url()).to_vec(),
        mixed.map(|server| server.raw()).into(),
    );
    for (urls, mut raws) in [of(&redis), of(&valkey), mixed] {
        let has_it: Vec<bool> = raws.iter_mut().map(has_it).collect();
        for which in Which::BOTH {
            let mut face = which.build(at(&urls).without_scripts(true));
            let keys = keys(which, ["one", "two"]);
            for place in 0..3 {
                // If a node has not begun when a majority grants, its request is never sent.
                face.await_quiet();
                let before: Vec<u64> = raws.iter_mut().map(|raw| raw.calls("msetex")).collect();
                let lock = face.try_lock_all(&keys, LONG).expect("free");
                both_are(&mut face, &mut raws, &keys, true);
                if place != 0 {
                    // The first call asks whether there is such a command.
                    for (node, raw) in raws.iter_mut().enumerate() {
                        let more = u64::from(has_it[node]);
                        assert_eq!(raw.calls("msetex"), before[node] + more, "node {node}");
                    }
                }
                // The set is excluded by another lock, and excludes one.
                let report = held(face.try_lock_all(["free", &keys[1]], LONG));
                assert_eq!(report.held_resource(), Some(keys[1].as_bytes()));
                face.unlock(lock).expect("held");
                both_are(&mut face, &mut raws, &keys, false);
            }
            for raw in &mut raws {
                assert!(!raw.exists(b"free"));
            }
        }
    }
}
