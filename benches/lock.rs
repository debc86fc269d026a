//! Acquire and release, to be compared with themselves before and after a change.
//!
//! ```text
//! cargo bench -p shearline-benches --bench lock -- --save-baseline before
//! cargo bench -p shearline-benches --bench lock -- --baseline before
//! ```
//!
//! On the nodes that `SHEARLINE_NODES` names, urls separated by commas; without it on embedded nodes.
//!
//! Absolute times mean nothing on a shared machine; how far this is above raw sockets and beside
//! others is what `benches/peers` tells.

#![forbid(unsafe_code)]

use std::env;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use shearline::embedded::EmbeddedNode;
use shearline::{Builder, Redlock};

const COUNTS: [usize; 3] = [1, 3, 5];
const MOST: usize = 5;
const TTL: Duration = Duration::from_secs(10);

/// The nodes, for as long as this value lives.
struct Nodes {
    urls: Vec<String>,
    _embedded: Vec<EmbeddedNode>,
}

impl Nodes {
    fn find() -> Self {
        if let Ok(named) = env::var("SHEARLINE_NODES") {
            return Self {
                urls: named.split(',').map(|url| url.trim().into()).collect(),
                _embedded: Vec::new(),
            };
        }
        eprintln!("on embedded nodes: SHEARLINE_NODES names no servers");
        let embedded: Vec<_> = (0..MOST)
            .map(|_| EmbeddedNode::spawn().expect("a free loopback port"))
            .collect();
        Self {
            urls: embedded.iter().map(EmbeddedNode::url).collect(),
            _embedded: embedded,
        }
    }
}

/// Patient: on a shared machine a node may get no processor for a while.
fn builder(urls: &[String]) -> Builder {
    Redlock::builder()
        .nodes(urls)
        .node_timeout(Duration::from_secs(1))
}

fn local(group: &mut BenchmarkGroup<'_, WallTime>, urls: &[String]) {
    let mut handle = builder(urls).build_local().expect("the nodes answer");
    let id = BenchmarkId::new("LocalRedlock", urls.len());
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            let lock = handle
                .lock("bench:local", TTL)
                .expect("no other client wants it");
            handle.unlock(lock).expect("it was ours")
        });
    });
}

fn shared(group: &mut BenchmarkGroup<'_, WallTime>, urls: &[String]) {
    let handle = builder(urls).build().expect("the nodes answer");
    let id = BenchmarkId::new("Redlock", urls.len());
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            let lock = handle
                .lock("bench:shared", TTL)
                .expect("no other client wants it");
            lock.unlock().expect("it was ours")
        });
    });
}

fn lock(criterion: &mut Criterion) {
    let nodes = Nodes::find();
    let mut group = criterion.benchmark_group("lock");
    for count in COUNTS {
        match nodes.urls.get(..count) {
            Some(urls) => {
                local(&mut group, urls);
                shared(&mut group, urls);
            }
            None => eprintln!("not on {count} nodes: there are {}", nodes.urls.len()),
        }
    }
}

criterion_group!(benches, lock);
criterion_main!(benches);
