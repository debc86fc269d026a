//! Moves bytes for an engine that many threads share.
//!
//! The engine is behind a mutex, and system calls are made outside of it. So the thread that has the wire
//! alternates: under the mutex [`Wire::hand_in`] and [`Wire::copy`] hand the engine what was read and copy
//! out what it asks for, and outside of the mutex [`Wire::run`] makes the system calls.
//!
//! # Guarantees
//!
//! * **For the engine, what was copied out is sent** ([`Input::Transmitted`]), so that no other thread
//!   takes back what may be on its way. What the kernel did not take is kept here and written first;
//!   until then nothing more is copied out for that node.
//! * **Answers come before timers**: what a sleep in the poll has reported is read before the timers of
//!   the engine fire.
//! * **Nothing here waits.**

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use mio::Registry;

use super::clock;
use super::net::{Net, Readiness, fresh_seed};
use crate::engine::{Engine, Event, Input, NodeId, Output};
use crate::error::LinkError;
use crate::quorum::NodeSet;

/// An empty buffer larger than this is freed.
const KEPT_BYTES: usize = 256 << 10;

/// See the [module](self).
pub(crate) struct Wire {
    net: Net,
    inbox: Inbox,
    orders: Vec<Order>,
    /// The bytes of the orders to write.
    out: Vec<u8>,
    /// What the kernel did not take, by node.
    rests: Box<[Rest]>,
    /// Something became ready that [`Self::run`] has not read yet.
    is_unread: bool,
    /// The timers of the engine may be due. They fire once what became ready is read.
    tick: bool,
}

/// What the engine has asked for, copied.
enum Order {
    Write(NodeId, Range<usize>),
    Connect(NodeId),
    Disconnect(NodeId),
    OpenProbe(NodeId, &'static [u8]),
    CloseProbe(NodeId),
}

/// What happened, to be handed to the engine.
#[derive(Default)]
struct Inbox {
    inputs: Vec<Kept>,
    /// The bytes that were received.
    bytes: Vec<u8>,
    /// Nodes that can be written to again, whose rest is written next.
    writable: NodeSet,
    /// Nodes whose connection has ended.
    ended: NodeSet,
}

enum Kept {
    Connected(NodeId),
    Received(NodeId, Range<usize>),
    Writable(NodeId),
    Disconnected(NodeId, LinkError),
    Probed(NodeId),
    Seed([u8; 32]),
}

/// What the kernel did not take of the bytes for one node.
#[derive(Default)]
struct Rest {
    bytes: Vec<u8>,
    /// The engine has more to write, and waits for [`Input::Writable`].
    is_awaited: bool,
}

impl Wire {
    pub(crate) fn new(net: Net) -> Self {
        Self {
            rests: (0..net.nodes()).map(|_| Rest::default()).collect(),
            net,
            inbox: Inbox::default(),
            orders: Vec::new(),
            out: Vec::new(),
            is_unread: false,
            tick: false,
        }
    }

    // ----- under the mutex of the engine ----------------------------------------------------

    /// Hands what was read to `engine`.
    pub(crate) fn hand_in(&mut self, engine: &mut Engine) {
        self.inbox.hand_in(engine);
    }

    /// Records what a sleep has brought, which [`Self::run`] reads.
    pub(crate) fn note(&mut self, readiness: Readiness) {
        self.net.note(readiness);
        (self.is_unread, self.tick) = (true, true);
    }

    /// Copies out what `engine` asks for, and hands its events to `on_event`. Returns `true` if
    /// [`Self::run`] has something to do, after which these methods are to be called again.
    pub(crate) fn copy(
        &mut self,
        engine: &mut Engine,
        mut on_event: impl FnMut(&mut Engine, Event),
    ) -> bool {
        if self.tick && !self.is_unread {
            self.tick = false;
            engine.handle(clock::now(), Input::Tick);
        }
        let now = clock::now();
        while let Some(output) = engine.poll(now) {
            match output {
                Output::Transmit { node, bytes } => {
                    let rest = &mut self.rests[node.index()];
                    rest.is_awaited = !rest.bytes.is_empty();
                    let len = if rest.is_awaited { 0 } else { bytes.len() };
                    let start = self.out.len();
                    self.out.extend_from_slice(&bytes[..len]);
                    if len != 0 {
                        self.orders.push(Order::Write(node, start..start + len));
                    }
                    engine.handle(now, Input::Transmitted { node, len });
                }
                Output::Connect { node } => self.orders.push(Order::Connect(node)),
                Output::Disconnect { node } => self.orders.push(Order::Disconnect(node)),
                Output::Probe { node, bytes } => self.orders.push(Order::OpenProbe(node, bytes)),
                Output::CloseProbe { node } => self.orders.push(Order::CloseProbe(node)),
                Output::Event(event) => on_event(engine, event),
            }
        }
        self.is_unread || !self.orders.is_empty() || self.net.has_more()
    }

    // ----- outside of it --------------------------------------------------------------------

    /// Carries out the orders, and reads what has arrived. Returns `true` if there is something to hand to
    /// the engine.
    pub(crate) fn run(&mut self, registry: &Registry) -> bool {
        self.is_unread = false;
        self.carry_out(registry);
        let inbox = &mut self.inbox;
        self.net.service(registry, &mut |input| inbox.keep(input));
        for node in core::mem::take(&mut self.inbox.ended).iter() {
            self.rests[node.index()].bytes.clear();
        }
        for node in core::mem::take(&mut self.inbox.writable).iter() {
            self.write_rest(registry, node);
        }
        !self.inbox.inputs.is_empty()
    }

    /// Returns `true` if the kernel has not taken all that was written.
    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn has_rest(&self) -> bool {
        self.rests.iter().any(|rest| !rest.bytes.is_empty())
    }

    /// Closes every connection after what was written to it.
    pub(crate) fn close(&mut self, registry: &Registry) {
        self.net.close(registry);
    }

    fn carry_out(&mut self, registry: &Registry) {
        let (mut orders, mut out) = (
            core::mem::take(&mut self.orders),
            core::mem::take(&mut self.out),
        );
        for order in orders.drain(..) {
            let (net, inbox) = (&mut self.net, &mut self.inbox);
            match order {
                Order::Write(node, range) => self.write(registry, node, &out[range]),
                Order::Connect(node) => {
                    // A copy of this process draws other tokens from its next connection on.
                    if let Ok(seed) = fresh_seed() {
                        inbox.inputs.push(Kept::Seed(seed));
                    }
                    net.connect(registry, node, &mut |input| inbox.keep(input));
                }
                Order::Disconnect(node) => {
                    self.rests[node.index()].bytes.clear();
                    net.disconnect(registry, node);
                }
                Order::OpenProbe(node, bytes) => net.open_probe(registry, node, bytes),
                Order::CloseProbe(node) => net.close_probe(registry, node),
            }
        }
        empty(&mut out);
        (self.orders, self.out) = (orders, out);
    }

    /// Writes `bytes`, and keeps what the kernel does not take.
    fn write(&mut self, registry: &Registry, node: NodeId, bytes: &[u8]) {
        let rest = &mut self.rests[node.index()].bytes;
        if !rest.is_empty() {
            return rest.extend_from_slice(bytes);
        }
        if !self.net.is_up(node) {
            return; // It has just ended, which is handed to the engine next.
        }
        let inbox = &mut self.inbox;
        match self.net.write(registry, node, bytes) {
            Ok(len) => rest.extend_from_slice(&bytes[len..]),
            Err(reason) => {
                let sink = &mut |input: Input<'_>| inbox.keep(input);
                self.net.give_up(registry, node, reason, sink);
            }
        }
    }

    fn write_rest(&mut self, registry: &Registry, node: NodeId) {
        let mut bytes = core::mem::take(&mut self.rests[node.index()].bytes);
        self.write(registry, node, &bytes);
        let rest = &mut self.rests[node.index()];
        if rest.bytes.is_empty() {
            empty(&mut bytes);
            rest.bytes = bytes;
            if core::mem::take(&mut rest.is_awaited) {
                self.inbox.inputs.push(Kept::Writable(node));
            }
        }
    }
}

impl Inbox {
    fn keep(&mut self, input: Input<'_>) {
        match input {
            Input::Connected { node } => self.inputs.push(Kept::Connected(node)),
            Input::Received { node, bytes } => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                let range = start..self.bytes.len();
                self.inputs.push(Kept::Received(node, range));
            }
            Input::Disconnected { node, reason } => {
                self.ended.insert(node);
                self.inputs.push(Kept::Disconnected(node, reason));
            }
            Input::Probed { node } => self.inputs.push(Kept::Probed(node)),
            Input::Writable { node } => {
                self.writable.insert(node);
            }
            Input::Transmitted { .. } | Input::Tick => {
                unreachable!("no connection says {input:?}")
            }
        }
    }

    /// Hands it all to `engine`. The clock is read under the mutex, so that its time never runs backwards.
    fn hand_in(&mut self, engine: &mut Engine) {
        if self.inputs.is_empty() {
            return;
        }
        let now = clock::now();
        for kept in self.inputs.drain(..) {
            let input = match kept {
                Kept::Connected(node) => Input::Connected { node },
                Kept::Received(node, range) => Input::Received {
                    node,
                    bytes: &self.bytes[range],
                },
                Kept::Writable(node) => Input::Writable { node },
                Kept::Disconnected(node, reason) => Input::Disconnected { node, reason },
                Kept::Probed(node) => Input::Probed { node },
                Kept::Seed(seed) => {
                    engine.reseed(seed);
                    continue;
                }
            };
            engine.handle(now, input);
        }
        empty(&mut self.bytes);
    }
}

fn empty(bytes: &mut Vec<u8>) {
    bytes.clear();
    if KEPT_BYTES < bytes.capacity() {
        *bytes = Vec::new();
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the bytes: there are credentials and tokens among them.
        f.debug_struct("Wire")
            .field("net", &self.net)
            .finish_non_exhaustive()
    }
}
