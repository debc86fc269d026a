//! The wire owns the sockets of all nodes, carries out the orders of an engine, and collects events.
//!
//! The wire interprets every [`Output`], for two kinds of callers. A caller that owns its engine calls [`Wire::flush`],
//! which writes bytes immediately. A shared handle has its engine behind a mutex, and makes no system calls while this
//! mutex is locked. The thread that has the wire alternates between two steps. With the mutex locked, [`Wire::hand_in`]
//! passes received bytes to the engine, and [`Wire::copy`] copies out the orders of the engine. With the mutex
//! unlocked, [`Wire::run`] makes the system calls.
//!
//! # Guarantees
//!
//! * **For the engine, copied bytes count as sent** ([`Input::Transmitted`]), so that no other thread withdraws bytes
//!   that may be on their way. The wire keeps bytes that the kernel did not accept, and writes them first. Until these
//!   bytes are written, the wire copies out no more bytes for that node. [`Wire::flush`] keeps no bytes.
//! * **No function waits.**

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use std::io;

use mio::{Registry, Token, Waker};

use super::inbox::{Inbox, empty};
use super::link::{Link, Ready};
use super::poller::{PROBES, Poller, Readiness, WAKER};
use super::probe::Probe;
use super::socket::Tools;
use super::tls;
use crate::clock;
use crate::config::Config;
use crate::engine::{Engine, Event, Input, NodeId, Output};
use crate::seed;

/// The maximum number of bytes of one read. A reply to a `SET` has five bytes, so the buffer holds thousands of
/// replies.
const BUFFER_BYTES: usize = 64 << 10;

/// See the [module](self).
pub(crate) struct Wire {
    nodes: Box<[Node]>,
    waker: Arc<Waker>,
    buffer: Box<[u8]>,
    inbox: Inbox,
    orders: Vec<(NodeId, Order)>,
    /// The bytes that the copied orders will write.
    out: Vec<u8>,
    /// `true` if a socket became ready and was not read yet.
    is_unread: bool,
}

/// The connections to one node: its link and its probe.
struct Node {
    link: Link,
    probe: Probe,
    /// The bytes that were copied out but that the kernel has not accepted.
    rest: Vec<u8>,
    /// `true` if the engine has more to write and waits for [`Input::Writable`].
    is_awaited: bool,
}

/// A copy of an [`Output`] of the engine.
enum Order {
    Write(Range<usize>),
    Connect,
    Disconnect,
    OpenProbe(&'static [u8]),
    CloseProbe,
}

impl Wire {
    pub(crate) fn new(config: &Config, poller: &Poller) -> io::Result<Self> {
        let connectors = tls::connectors(config).map_err(io::Error::other)?;
        let nodes = NodeId::first(config.nodes().len()).zip(config.nodes());
        let nodes = nodes.zip(connectors).map(|((id, node), tls)| Node {
            link: Link::new(
                id,
                node.address(),
                tls,
                config
                    .provider(node)
                    .map(|provider| (provider.clone(), node.clone())),
            ),
            probe: Probe::new(Token(PROBES + id.index())),
            rest: Vec::new(),
            is_awaited: false,
        });
        Ok(Self {
            nodes: nodes.collect(),
            waker: Arc::new(Waker::new(poller.registry(), WAKER)?),
            buffer: vec![0; BUFFER_BYTES].into(),
            inbox: Inbox::default(),
            orders: Vec::new(),
            out: Vec::new(),
            is_unread: false,
        })
    }

    /// Returns the waker that ends a sleep in the poller from any thread.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Records the sockets that became ready during a sleep. The next read reads from them.
    pub(crate) fn note(&mut self, readiness: Readiness) {
        self.is_unread = true;
        let links = readiness.readable.union(readiness.writable);
        for node in links.iter() {
            if let Some(node_of) = self.nodes.get_mut(node.index()) {
                node_of.link.note(Ready {
                    readable: readiness.readable.contains(node),
                    writable: readiness.writable.contains(node),
                    ending: readiness.ending.contains(node),
                });
            }
        }
        for node in readiness.probes.iter() {
            self.nodes[node.index()].probe.note();
        }
    }

    /// Returns `true` if a socket became ready and was not read yet.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Returns `true` if a socket has bytes to read that no event will report.
    pub(crate) fn has_more(&self) -> bool {
        self.nodes.iter().any(|node| node.link.has_more())
    }

    // ----- exchange with the engine ---------------------------------------------------------

    /// Passes the received bytes and events to `engine`.
    pub(crate) fn hand_in(&mut self, engine: &mut Engine) {
        self.inbox.hand_in(engine);
    }

    /// Copies out the orders of `engine`, and passes its events to `on_event`. Returns `true` if [`Self::run`] has
    /// something to do. After `run`, call `hand_in` and `copy` again.
    pub(crate) fn copy(
        &mut self,
        engine: &mut Engine,
        on_event: impl FnMut(&mut Engine, Event),
    ) -> bool {
        self.interpret(engine, Self::copy_out, on_event);
        self.is_unread || !self.orders.is_empty() || self.has_more()
    }

    /// Carries out all orders of `engine`, and passes its events to `on_event`, without reading.
    pub(crate) fn flush(
        &mut self,
        engine: &mut Engine,
        registry: &Registry,
        mut on_event: impl FnMut(&mut Engine, Event),
    ) {
        loop {
            let write = |wire: &mut Self, id: NodeId, bytes: &[u8]| {
                let (nodes, mut tools) = wire.parts(registry);
                nodes[id.index()].send(bytes, &mut tools).unwrap_or(0)
            };
            self.interpret(engine, write, &mut on_event);
            self.carry_out(registry);
            if self.inbox.is_empty() {
                return;
            }
            self.hand_in(engine);
        }
    }

    /// Takes all orders of `engine`, and puts all except writes into `orders`. `write` is called for each write, and
    /// returns the number of bytes that it has accepted.
    fn interpret(
        &mut self,
        engine: &mut Engine,
        mut write: impl FnMut(&mut Self, NodeId, &[u8]) -> usize,
        mut on_event: impl FnMut(&mut Engine, Event),
    ) {
        let now = clock::now();
        while let Some(output) = engine.poll(now) {
            let (node, order) = match output {
                Output::Transmit { node, bytes } => {
                    let len = write(self, node, bytes);
                    self.nodes[node.index()].is_awaited = len < bytes.len();
                    engine.handle(now, Input::Transmitted { node, len });
                    continue;
                }
                Output::Event(event) => {
                    on_event(engine, event);
                    continue;
                }
                Output::Connect { node } => (node, Order::Connect),
                Output::Disconnect { node } => (node, Order::Disconnect),
                Output::Probe { node, bytes } => (node, Order::OpenProbe(bytes)),
                Output::CloseProbe { node } => (node, Order::CloseProbe),
            };
            self.orders.push((node, order));
        }
    }

    fn copy_out(&mut self, node: NodeId, bytes: &[u8]) -> usize {
        if !self.nodes[node.index()].rest.is_empty() {
            return 0;
        }
        let start = self.out.len();
        self.out.extend_from_slice(bytes);
        let range = start..self.out.len();
        self.orders.push((node, Order::Write(range)));
        bytes.len()
    }

    // ----- system calls ---------------------------------------------------------------------

    /// Carries out the copied orders, and reads the received bytes. Returns `true` if there is something to pass to the
    /// engine.
    pub(crate) fn run(&mut self, registry: &Registry) -> bool {
        self.carry_out(registry);
        self.read(registry);
        !self.inbox.is_empty()
    }

    /// Continues to open connections, reads the received bytes of all nodes, and writes the bytes that the kernel did
    /// not accept before.
    pub(crate) fn read(&mut self, registry: &Registry) {
        self.is_unread = false;
        let (nodes, mut tools) = self.parts(registry);
        for node in &mut *nodes {
            node.link.service(&mut tools);
        }
        // Serves the links before the probes, so that the engine gets received bytes first.
        for (id, node) in NodeId::first(nodes.len()).zip(&mut *nodes) {
            if node.probe.service(&mut tools) {
                tools.inbox.keep(Input::Probed { node: id });
            }
        }
        for node in core::mem::take(&mut tools.inbox.ended).iter() {
            nodes[node.index()].rest.clear();
        }
        for node in core::mem::take(&mut tools.inbox.writable).iter() {
            if nodes[node.index()].write_rest(&mut tools) {
                tools.inbox.keep(Input::Writable { node });
            }
        }
    }

    /// Closes every connection after its written bytes are sent.
    pub(crate) fn close(&mut self, registry: &Registry) {
        for node in &mut self.nodes {
            node.link.close(registry);
            node.probe.close(registry);
        }
    }

    fn carry_out(&mut self, registry: &Registry) {
        let (mut orders, mut out) = (
            core::mem::take(&mut self.orders),
            core::mem::take(&mut self.out),
        );
        let (nodes, mut tools) = self.parts(registry);
        for (id, order) in orders.drain(..) {
            let node = &mut nodes[id.index()];
            match order {
                Order::Write(range) => node.write(&out[range], &mut tools),
                Order::Connect => {
                    // A new seed for each connection makes the tokens of a copied process differ from those of the
                    // original.
                    if let Ok(seed) = seed::fresh() {
                        tools.inbox.seed = Some(seed);
                    }
                    node.link.open(&mut tools);
                }
                Order::Disconnect => {
                    node.rest.clear();
                    node.link.abort(registry);
                }
                Order::OpenProbe(bytes) => {
                    if let Some(target) = node.link.target() {
                        node.probe.open(target, bytes, registry);
                    }
                }
                Order::CloseProbe => node.probe.close(registry),
            }
        }
        empty(&mut out);
        (self.orders, self.out) = (orders, out);
    }

    fn parts<'a>(&'a mut self, registry: &'a Registry) -> (&'a mut [Node], Tools<'a>) {
        let tools = Tools {
            registry,
            waker: &self.waker,
            buffer: &mut self.buffer,
            inbox: &mut self.inbox,
        };
        (&mut self.nodes, tools)
    }

    // ----- functions for tests --------------------------------------------------------------

    /// Returns `true` if the kernel has not accepted all written bytes.
    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn has_rest(&self) -> bool {
        self.nodes.iter().any(|node| !node.rest.is_empty())
    }

    /// Returns the socket of the first node.
    #[cfg(all(test, feature = "tls"))]
    pub(super) fn socket(&self) -> &super::socket::Socket {
        self.nodes[0].link.socket()
    }

    /// Makes this wire read pieces of at most `bytes` bytes.
    #[cfg(test)]
    pub(super) fn read_in_pieces_of(&mut self, bytes: usize) {
        self.buffer = vec![0; bytes].into();
    }
}

impl Node {
    /// Writes as many of `bytes` as the kernel accepts, and returns their number. Returns `None` if the connection has
    /// ended or ends now. The wire reports to the engine that the connection has ended.
    fn send(&mut self, bytes: &[u8], tools: &mut Tools<'_>) -> Option<usize> {
        if !self.link.is_up() {
            return None;
        }
        let sent = self.link.write(bytes, tools);
        sent.map_err(|reason| self.link.give_up(reason, tools)).ok()
    }

    /// Writes `bytes`, and keeps the bytes that the kernel does not accept.
    fn write(&mut self, bytes: &[u8], tools: &mut Tools<'_>) {
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(bytes);
        } else if let Some(sent) = self.send(bytes, tools) {
            self.rest.extend_from_slice(&bytes[sent..]);
        }
    }

    /// Writes the bytes that the kernel did not accept before. Returns `true` if all bytes are written and the engine
    /// waits for [`Input::Writable`].
    fn write_rest(&mut self, tools: &mut Tools<'_>) -> bool {
        let mut bytes = core::mem::take(&mut self.rest);
        self.write(&bytes, tools);
        if !self.rest.is_empty() {
            return false;
        }
        empty(&mut bytes);
        self.rest = bytes;
        core::mem::take(&mut self.is_awaited)
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves the bytes out, because they contain credentials and tokens.
        let links = self.nodes.iter().map(|node| &node.link);
        f.debug_list().entries(links).finish()
    }
}
