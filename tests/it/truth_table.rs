//! The quorum's truth table: every set of nodes on which a stranger holds the key.
//!
//! For N = 1..=5 and each of the 2^N sets: the lock is granted exactly if a majority is free. The stranger's values and
//! expiries do not change by a millisecond. Afterwards no key of this library is left.

use shearline::NodeOutcome;

use crate::face::{Which, at, held};
use crate::servers::{Cluster, LONG, Options, Raw};

#[test]
fn every_set_of_foreign_nodes_for_one_to_five_nodes() {
    story(&Cluster::with(5, &Options::redis()), 1..=5);
    story(&Cluster::with(5, &Options::valkey()), 3..=5);
}

/// Plays the story on the first N servers, for each N of the range.
fn story(cluster: &Cluster, sizes: std::ops::RangeInclusive<usize>) {
    let urls = cluster.urls();
    let mut raws = cluster.raws();
    for nodes in sizes {
        for which in Which::BOTH {
            let mut face = which.build(at(&urls[..nodes]));
            for set in 0..1_u32 << nodes {
                let key = which.key(&format!("truth:{nodes}:{set:05b}"));
                row(&mut face, &mut raws[..nodes], set, key.as_bytes());
            }
        }
    }
}

/// Plays one row: the nodes in `set` (bit i for node i) hold another client's key.
fn row(face: &mut crate::face::Face, raws: &mut [Raw], set: u32, key: &[u8]) {
    let (nodes, quorum) = (raws.len(), raws.len() / 2 + 1);
    let is_foreign = |node: usize| set >> node & 1 == 1;
    let foreign = |node: usize| is_foreign(node).then(|| format!("foreign-{node}").into_bytes());
    let free = nodes - set.count_ones() as usize;
    for (node, raw) in raws.iter_mut().enumerate() {
        if let Some(value) = foreign(node) {
            raw.set_px(key, &value, LONG);
        }
    }
    let before: Vec<_> = raws.iter_mut().map(|raw| deadline(raw, key)).collect();

    let result = face.try_lock(key, LONG);
    if free >= quorum {
        let lock = result.expect("a majority is free");
        for (node, raw) in raws.iter_mut().enumerate() {
            // When the lock is granted, a majority has the token; the other nodes follow.
            let expected = foreign(node).or(Some(lock.token()));
            face.until("our token on a free node", |_| raw.get(key) == expected);
        }
        let released = face.unlock(lock).expect("a majority had it");
        // A majority of answers decides. A node with the stranger's key may be among the first to answer.
        assert!(usize::from(released.deleted) <= free, "{released:?}");
    } else {
        let report = held(result);
        let told = (report.nodes().len(), report.quorum(), report.tries());
        assert_eq!(told, (nodes, quorum, 1));
        let mut seen_held = 0;
        for (node, said) in report.nodes().iter().enumerate() {
            match said.outcome {
                NodeOutcome::Held if is_foreign(node) => seen_held += 1,
                NodeOutcome::Granted if !is_foreign(node) => {}
                NodeOutcome::Pending => {}
                outcome => panic!("node {node} of set {set:b}: {outcome:?}"),
            }
        }
        assert!(nodes - quorum < seen_held, "not yet certain: {report}");
    }

    for (node, raw) in raws.iter_mut().enumerate() {
        face.until("nothing of ours is left", |_| raw.get(key) == foreign(node));
        let is_as_before = deadline(raw, key) == before[node];
        assert!(
            is_as_before || !is_foreign(node),
            "the expiry of node {node}"
        );
    }
}

/// Returns when the key expires, in milliseconds of the server's clock. (Redis 6.2 has no `PEXPIRETIME`.)
fn deadline(raw: &mut Raw, key: &[u8]) -> i64 {
    const SCRIPT: &[u8] = b"local function now() local t=redis.call('time') \
        return t[1]*1000+math.floor(t[2]/1000) end local a,p,b \
        repeat a=now() p=redis.call('pttl',KEYS[1]) b=now() until a==b \
        if p<0 then return p end return a+p";
    raw.integer(&[b"EVAL", SCRIPT, b"1", key])
}
