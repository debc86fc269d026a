//! `bench`: what it measures stands in its object, and fits a terminal.

use super::json::Json;
use super::looking::assert_narrow;
use super::{over, shearline};
use crate::servers::{self, ClosedPort, encrypted};

/// The counts of the buckets of a histogram, by their bounds.
fn buckets(object: &Json, of: &str) -> Vec<(u64, u64)> {
    let Json::List(buckets) = object.at(&format!("{of}.histogram")) else {
        panic!("a list");
    };
    let bucket = |bucket: &Json| (bucket.number("upper_ns"), bucket.number("count"));
    buckets.iter().map(bucket).collect()
}

#[track_caller]
fn assert_consistent(object: &Json, of: &str) {
    let number = |name: &str| object.number(&format!("{of}.{name}"));
    let buckets = buckets(object, of);
    assert!(buckets.is_sorted_by(|a, b| a.0 < b.0), "{buckets:?}");
    let count: u64 = buckets.iter().map(|bucket| bucket.1).sum();
    assert_eq!(number("cycles"), count);
    assert!(0 < count && 0 < number("per_second"), "{object:?}");
    let quantiles = ["p50_ns", "p90_ns", "p99_ns", "max_ns"].map(number);
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    assert_eq!(Some(&quantiles[3]), buckets.last().map(|(upper, _)| upper));
}

#[test]
fn it_measures_locks_beside_plain_sockets() {
    let cluster = servers::three();
    for callers in [1, 7] {
        let line = format!("bench lock:b --for 300ms --callers {callers} --guard off --json");
        let said = shearline(&cluster, &line);
        assert_eq!((said.status, said.err.as_str()), (0, ""));
        let object = said.object();
        assert_eq!(
            (object.number("callers"), object.number("failed")),
            (callers, 0)
        );
        assert_consistent(&object, "shearline");
        match encrypted::is_on() {
            true => assert_eq!(object.at("plain_sockets"), &Json::Null),
            false => assert_consistent(&object, "plain_sockets"),
        }
        let limit = object.text("limit");
        assert!(
            ["nodes", "processor", "machine"].contains(&limit),
            "{limit}"
        );
        let decisive = (0..3).map(|node| object.at(&format!("nodes.{node}.decisive")).clone());
        let decisive = decisive.filter(|is| *is == Json::Bool(true)).count();
        assert_eq!(decisive, 1, "{object:?}");
        cluster.assert_empty();
    }
}

#[test]
fn its_picture_fits_a_terminal() {
    let cluster = servers::three();
    let said = shearline(&cluster, "bench lock:b --for 300ms --guard off").done();
    assert_narrow(&said);
    for words in [
        "3 nodes, 1 caller, for ",
        "taken and released / s",
        "▇",
        "\nlimit:  ",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    let has_floor = said.contains("plain sockets\n");
    assert_eq!(has_floor, !encrypted::is_on(), "{said}");
    cluster.assert_empty();
}

#[test]
fn what_cannot_be_measured_has_its_status() {
    let cluster = servers::three();
    let gone = [ClosedPort::new(), ClosedPort::new()];
    let urls = [cluster.urls()[0].clone(), gone[0].url(), gone[1].url()];
    over(&urls, "bench lock:b --guard off").failed(69);
    let object = over(&urls, "bench lock:b --guard off --json").object();
    assert_eq!(object.text("outcome"), "no_quorum");
    let lock = shearline(&cluster, "lock lock:b-1 --guard off --ttl 60s").line();
    let held = shearline(&cluster, "bench lock:b --guard off").failed(75);
    assert!(held.contains("give a name that nobody uses"), "{held}");
    shearline(&cluster, &format!("unlock {lock} --guard off")).done();
    cluster.assert_empty();
}
