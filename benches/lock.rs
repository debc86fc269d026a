//! Acquire and release, to be compared with themselves before and after a change.
//!
//! ```text
//! cargo bench -p shearline-benches --bench lock -- --save-baseline before
//! cargo bench -p shearline-benches --bench lock -- --baseline before
//! ```
//!
//! On the nodes that `SHEARLINE_NODES` names, urls separated by commas. Without it on
//! `redis-server`s of its own, from the `PATH` or what `SHEARLINE_REDIS_SERVER` names; without
//! those on embedded nodes. Which of them is said first.
//!
//! Absolute times mean nothing on a shared machine; how far this is above raw sockets and beside
//! others is what `benches/peers` tells.

#![forbid(unsafe_code)]

use std::any::Any;
use std::env;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use shearline::embedded::EmbeddedNode;
use shearline::{Builder, Redlock};

const COUNTS: [usize; 3] = [1, 3, 5];
const MOST: usize = 5;
const TTL: Duration = Duration::from_secs(10);

/// How long a server may take to answer, in looks of [`LOOK`].
const LOOKS: usize = 1000;
const LOOK: Duration = Duration::from_millis(5);

/// The nodes, for as long as this value lives.
struct Nodes {
    urls: Vec<String>,
    _alive: Box<dyn Any>,
}

impl Nodes {
    fn find() -> Self {
        if let Some(nodes) = Self::named() {
            return nodes;
        }
        match Self::servers() {
            Ok(nodes) => nodes,
            Err(error) => {
                eprintln!("no redis-server: {error}");
                Self::embedded()
            }
        }
    }

    fn named() -> Option<Self> {
        let named = env::var("SHEARLINE_NODES").ok()?;
        let urls = named.split(',').map(str::trim);
        let urls: Vec<String> = urls
            .filter(|url| !url.is_empty())
            .map(String::from)
            .collect();
        (!urls.is_empty()).then(|| {
            eprintln!("on the nodes of SHEARLINE_NODES");
            let _alive = Box::new(());
            Self { urls, _alive }
        })
    }

    fn servers() -> io::Result<Self> {
        let servers: Vec<_> = (0..MOST)
            .map(|_| Server::start())
            .collect::<Result<_, _>>()?;
        eprintln!("on servers of its own");
        Ok(Self {
            urls: servers.iter().map(|server| server.url.clone()).collect(),
            _alive: Box::new(servers),
        })
    }

    fn embedded() -> Self {
        eprintln!("on embedded nodes");
        let embedded: Vec<_> = (0..MOST)
            .map(|_| EmbeddedNode::spawn().expect("a free loopback port"))
            .collect();
        Self {
            urls: embedded.iter().map(EmbeddedNode::url).collect(),
            _alive: Box::new(embedded),
        }
    }
}

/// A `redis-server`, which ends when this is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> io::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let binary = env::var_os("SHEARLINE_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let mut server = Self {
            child: Command::new(binary)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--dir", "/tmp"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
            url: format!("redis://127.0.0.1:{port}"),
        };
        for _ in 0..LOOKS {
            if server.child.try_wait()?.is_some() {
                return Err(io::Error::other("it ended at once"));
            }
            if answers(port).is_ok() {
                return Ok(server);
            }
            thread::sleep(LOOK);
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answers(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(b"PING\r\n")?;
    stream.read_exact(&mut [0; 7])
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
