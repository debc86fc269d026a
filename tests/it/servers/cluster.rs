//! N servers that know nothing of each other.

use std::ops::{Deref, DerefMut, Range};
use std::thread;

use super::{Options, Proxy, Raw, Reply, Server, eventually, until};

/// N independent servers, in the order of their nodes. Dereferences to a slice of [`Server`].
#[derive(Debug)]
pub(crate) struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// Starts N `redis-server` processes, and waits until all of them answer.
    pub(crate) fn start(count: usize) -> Self {
        Self::with(count, &Options::redis())
    }

    /// Starts N servers with the same options, side by side.
    pub(crate) fn with(count: usize, options: &Options) -> Self {
        let servers = thread::scope(|scope| {
            let starting: Vec<_> = (0..count)
                .map(|_| scope.spawn(|| Server::with(options)))
                .collect();
            starting
                .into_iter()
                .map(|server| server.join().expect("it started"))
                .collect()
        });
        Self { servers }
    }

    /// Returns the URLs of all nodes.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// Opens one connection from outside to each node.
    pub(crate) fn raws(&self) -> Vec<Raw> {
        self.iter().map(Server::raw).collect()
    }

    /// Starts a relay in front of each node.
    pub(crate) fn proxies(&self) -> Vec<Proxy> {
        let addresses = self.iter().map(Server::address);
        addresses.map(Proxy::to).collect()
    }

    /// Runs a command on each node. It must not fail.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) {
        for raw in &mut self.raws() {
            raw.run(line);
        }
    }

    /// Deletes `key` on each node. Every node must have it.
    #[track_caller]
    pub(crate) fn delete(&self, key: impl AsRef<[u8]>) {
        let replies = self.at_once(0..self.len(), &[b"DEL", key.as_ref()]);
        assert!(replies.iter().all(|reply| *reply == Reply::Integer(1)));
    }

    /// Runs a command on each of `nodes` at the same time.
    #[track_caller]
    pub(crate) fn at_once(&self, nodes: Range<usize>, words: &[&[u8]]) -> Vec<Reply> {
        let mut raws = self.raws();
        let raws = &mut raws[nodes];
        for raw in raws.iter_mut() {
            raw.send(words).expect("the server reads");
        }
        let replies = raws.iter_mut().map(|raw| raw.reply());
        replies.map(|reply| reply.expect("it answers")).collect()
    }

    /// Waits until each node has `key`, all of them with the same token.
    #[track_caller]
    pub(crate) fn await_copies(&self, key: impl AsRef<[u8]>) {
        until("each node has it", || self.has_copies(&key));
    }

    /// Returns `true` if each node has `key`, all of them with the same token.
    pub(crate) fn has_copies(&self, key: impl AsRef<[u8]>) -> bool {
        let values = self.values(key);
        let same = values.windows(2).all(|two| two[0] == two[1]);
        same && values[0].is_some()
    }

    /// Returns what each node holds under `key`.
    pub(crate) fn values(&self, key: impl AsRef<[u8]>) -> Vec<Option<Vec<u8>>> {
        self.raws()
            .iter_mut()
            .map(|raw| raw.get(key.as_ref()))
            .collect()
    }

    /// Returns on how many nodes `key` is.
    pub(crate) fn copies(&self, key: impl AsRef<[u8]>) -> usize {
        self.values(key).iter().flatten().count()
    }

    /// Waits until no node has `key`. The lock's ttl has to be much longer than the wait, so that
    /// the key cannot just expire.
    #[track_caller]
    pub(crate) fn assert_gone(&self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        for (node, raw) in self.raws().iter_mut().enumerate() {
            let name = String::from_utf8_lossy(key);
            until(&format!("node {node} has lost {name:?}"), || {
                !raw.exists(key)
            });
        }
    }

    /// Waits until every node has run at least one `command` and none has any key left.
    ///
    /// This is for commands that are served late: without the first condition, "no key" would be true before they ran.
    #[track_caller]
    pub(crate) fn assert_empty_after(&self, command: &str) {
        let field = format!("cmdstat_{command}");
        for (node, raw) in self.raws().iter_mut().enumerate() {
            eventually(&format!("node {node} has run a {command}"), || {
                raw.info("commandstats", &field).map(drop)
            });
        }
        self.assert_empty();
    }

    /// Waits until no node has any key, except the counter floor that an operator has given.
    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        for (node, raw) in self.raws().iter_mut().enumerate() {
            until(&format!("node {node} has no key"), || {
                raw.keys() == i64::from(raw.exists(b"shearline:floor"))
            });
        }
    }
}

impl Deref for Cluster {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.servers
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut [Server] {
        &mut self.servers
    }
}
