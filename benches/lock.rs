//! Measures acquire and release on embedded nodes, for comparisons before and after a change.
//!
//! ```text
//! cargo bench -p shearline-benches --bench lock -- --save-baseline before
//! cargo bench -p shearline-benches --bench lock -- --baseline before
//! ```
//!
//! Absolute times mean nothing on a shared machine. `benches/peers` compares the library with raw sockets and with
//! other libraries, on real servers.

#![forbid(unsafe_code)]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use shearline::Redlock;
use shearline::embedded::EmbeddedNode;

const COUNTS: [usize; 3] = [1, 3, 5];
const MOST: usize = 5;
const TTL: Duration = Duration::from_secs(10);

fn lock(criterion: &mut Criterion) {
    let node = |_| EmbeddedNode::spawn().expect("a free loopback port");
    let nodes: Vec<_> = (0..MOST).map(node).collect();
    let mut group = criterion.benchmark_group("lock");
    for count in COUNTS {
        // The timeout is long, because on a shared machine a node may get no processor for a while.
        let builder = Redlock::builder()
            .nodes(nodes[..count].iter().map(EmbeddedNode::url))
            .node_timeout(Duration::from_secs(1));
        let mut local = builder.build_local().expect("the nodes answer");
        group.bench_function(BenchmarkId::new("LocalRedlock", count), |bencher| {
            bencher.iter(|| {
                let lock = local.lock("bench:local", TTL);
                local
                    .unlock(lock.expect("no other client wants it"))
                    .expect("it was ours")
            });
        });
        let shared = builder.build().expect("the nodes answer");
        group.bench_function(BenchmarkId::new("Redlock", count), |bencher| {
            bencher.iter(|| {
                let lock = shared.lock("bench:shared", TTL);
                let lock = lock.expect("no other client wants it");
                lock.unlock().expect("it was ours")
            });
        });
    }
}

criterion_group!(benches, lock);
criterion_main!(benches);
