//! The connection to one node, from the look-up of the name to the disconnect.
//!
//! A link puts events into the inbox as inputs of the engine, in the order in which they happened. A link follows these
//! rules, and each rule has a test in `link/tests`:
//!
//! * After a read that has drained the socket, the link stops reading. Without TLS, a short read means that the socket
//!   is drained. If the event reported the end of the stream or an error, the link reads until it finds the end,
//!   because the same event may report data.
//! * A turn reads a bounded number of buffers. [`Link::has_more`] returns `true` if there is more to read.
//! * After a failed write the link writes nothing more. The link reads all data that the node has sent before it
//!   reports the disconnect, because the data may contain the reason.
//! * An outdated readiness event has no effect.
//! * With TLS, a connection counts as open only after the handshake. While encrypted bytes wait for the kernel, the
//!   link accepts no more bytes.
//!
//! # Not here
//!
//! The engine decides how long a connection may take to open, and when to try again. `opening` decides which address of
//! a name to try, and when.

mod opening;

use alloc::vec;
use core::net::SocketAddr;

use mio::{Registry, Token};

use self::opening::{Opener, Opening};
use super::probe::Target;
use super::resolve::{Addresses, Login, Lookup};
use super::socket::{Socket, Tools};
use super::tcp::Received;
use super::tls::Connector;
use crate::config::{Address, Host};
use crate::engine::{Input, NodeId};
use crate::error::{LinkFault, Unusable};

/// The largest number of buffers read from one socket in one turn, so that one node does not delay the others.
const READS_PER_TURN: usize = 4;

/// The largest number of buffers read after a failed write. The kernel buffers far less, so the link reaches this limit
/// only if a node keeps sending.
const READS_AFTER_FAILURE: usize = 256;

#[derive(Debug)]
pub(super) struct Link {
    node: NodeId,
    address: Address,
    /// The TLS settings and sessions, or `None` if the node does not use TLS.
    tls: Option<Connector>,
    /// The credentials provider, which is called before each connection.
    login: Option<Login>,
    state: State,
    /// The events that [`Link::service`] has not handled yet.
    ready: Ready,
    /// The look-up that may be running, even if its result is no longer needed. At most one look-up runs at a time.
    lookup: Option<Lookup>,
    /// The index of the address to try first: the address that last worked, or the address after the address that last
    /// timed out.
    first: usize,
    /// The address that last worked, if it is the address to try first.
    works: Option<SocketAddr>,
    /// The address of the last connection, or of the last attempt to open one.
    last: Option<SocketAddr>,
}

#[derive(Debug)]
enum State {
    /// The engine has requested no connection.
    Idle,
    /// The name is being looked up.
    Resolving,
    /// A connection is being opened.
    Connecting(Opening),
    /// The connection is up.
    Up {
        socket: Socket,
        /// `true` if the kernel accepted only a part of the last write.
        blocked: bool,
    },
}

/// The events that were reported about a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// `true` if the link must read until it finds the end, an error, or no more data.
    pub(super) ending: bool,
}

impl Link {
    pub(super) fn new(
        node: NodeId,
        address: &Address,
        tls: Option<Connector>,
        login: Option<Login>,
    ) -> Self {
        Self {
            node,
            address: address.clone(),
            tls,
            login,
            state: State::Idle,
            ready: Ready::default(),
            lookup: None,
            first: 0,
            works: None,
            last: None,
        }
    }

    /// Begins to connect. This function may report `Connected` or `Disconnected` immediately.
    pub(super) fn open(&mut self, tools: &mut Tools<'_>) {
        debug_assert!(
            matches!(self.state, State::Idle),
            "one connection at a time"
        );
        if let Some(Err(reason)) = self.tls.as_mut().map(Connector::refresh) {
            return self.fail(reason, tools);
        }
        let found = match &self.address {
            Address::Unix { .. } => Some(vec![]),
            Address::Tcp {
                host: Host::Ip(ip),
                port,
            } => Some(vec![(*ip, *port).into()]),
            Address::Tcp { .. } => None,
        };
        let opened = match found.filter(|_| self.login.is_none()) {
            Some(addresses) => self.connect(addresses, tools),
            None => self.look_up(tools),
        };
        if let Err(reason) = opened {
            self.fail(reason, tools);
        }
    }

    fn look_up(&mut self, tools: &mut Tools<'_>) -> Result<(), LinkFault> {
        // If an abandoned look-up is still running, it looks up the same name, so the link can use its result.
        if self.lookup.is_none() {
            let lookup = Lookup::start(self.login.as_ref(), &self.address, tools.waker)?;
            self.lookup = Some(lookup);
        }
        self.state = State::Resolving;
        Ok(())
    }

    /// Returns the address of the last connection or attempt, or `None` before the first attempt.
    pub(super) fn target(&self) -> Option<Target> {
        match &self.address {
            Address::Tcp { .. } => {
                let tls = self.tls.as_ref().map(Connector::terms);
                self.last.map(|address| Target::Tcp(address, tls))
            }
            Address::Unix { path } => Some(Target::Unix(path.clone())),
        }
    }

    /// Records an event for the next [`Self::service`].
    pub(super) fn note(&mut self, ready: Ready) {
        self.ready.readable |= ready.readable;
        self.ready.writable |= ready.writable;
        self.ready.ending |= ready.ending;
    }

    /// Returns `true` while the connection is up.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> &Socket {
        let State::Up { socket, .. } = &self.state else {
            panic!("not up but {:?}", self.state)
        };
        socket
    }

    /// Handles the recorded events, and the result of the look-up.
    pub(super) fn service(&mut self, tools: &mut Tools<'_>) {
        self.take_lookup(tools);
        if matches!(self.state, State::Connecting(_)) && (self.ready.readable | self.ready.writable)
        {
            self.finish_connecting(tools);
        }
        match &self.state {
            State::Up { .. } => {
                if self.ready.readable
                    && let Some(reason) = self.read_some(READS_PER_TURN, tools)
                {
                    self.fail(reason, tools);
                }
                if self.ready.writable {
                    self.unblock(tools);
                }
            }
            State::Idle | State::Resolving | State::Connecting(_) => self.ready = Ready::default(),
        }
    }

    /// Returns `true` if there are bytes to read that no event will report.
    pub(super) fn has_more(&self) -> bool {
        self.ready.readable && matches!(self.state, State::Up { .. })
    }

    /// Writes as many of `bytes` as the kernel accepts, and returns their number. If bytes are left, or encrypted bytes
    /// wait for the kernel, `Writable` will be reported. On an error, call [`Self::give_up`].
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        tools: &mut Tools<'_>,
    ) -> Result<usize, LinkFault> {
        let token = self.token();
        let State::Up { socket, blocked } = &mut self.state else {
            return Err(LinkFault::Closed);
        };
        let sent = socket.write(bytes)?;
        if sent < bytes.len() || socket.has_unsent() {
            *blocked = true;
            socket.watch_writable(true, tools.registry, token)?;
        }
        Ok(sent)
    }

    /// Ends the connection after a failed write. Reads the bytes that the node has sent, then reports the disconnect.
    pub(super) fn give_up(&mut self, reason: LinkFault, tools: &mut Tools<'_>) {
        self.ready.ending = true;
        let end = self.read_some(READS_AFTER_FAILURE, tools);
        // If reading only finds the end of the connection, reports the error of the write, which is more specific.
        let reason = end
            .filter(|end| *end != LinkFault::Closed)
            .unwrap_or(reason);
        self.fail(reason, tools);
    }

    /// Resets the connection, or the attempt to connect. Reports nothing.
    pub(super) fn abort(&mut self, registry: &Registry) {
        self.ready = Ready::default();
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Idle | State::Resolving => {}
            State::Connecting(opening) => {
                (self.first, self.works) = (opening.abort(registry), None);
                self.forget_sessions();
            }
            State::Up { socket, .. } => socket.abort(registry),
        }
    }

    /// Ends the connection after the kernel has sent the written bytes. Ends an attempt as [`Self::abort`] does.
    pub(super) fn close(&mut self, registry: &Registry) {
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Up { socket, .. } => socket.close(registry),
            other @ (State::Idle | State::Resolving | State::Connecting(_)) => {
                self.state = other;
                self.abort(registry);
            }
        }
    }

    fn token(&self) -> Token {
        Token(self.node.index())
    }

    /// After a failed TLS handshake, makes the next handshake check the certificate of the node.
    #[cold]
    fn forget_sessions(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.forget_sessions();
        }
    }

    fn fail(&mut self, reason: LinkFault, tools: &mut Tools<'_>) {
        self.abort(tools.registry);
        if Unusable::of(reason).is_some() {
            self.forget_sessions();
        }
        let (node, reason) = (self.node, reason.into());
        tools.inbox.ended.insert(node);
        tools.inbox.keep(Input::Disconnected { node, reason });
    }

    /// Takes the result of the look-up. Drops the result if it is no longer needed.
    fn take_lookup(&mut self, tools: &mut Tools<'_>) {
        let Some((given, found)) = self.lookup.as_ref().and_then(Lookup::take) else {
            return;
        };
        self.lookup = None;
        if !matches!(self.state, State::Resolving) {
            return;
        }
        let fails = matches!(given, Some(Err(_)));
        let given = given.map(|given| (self.node, given));
        tools.inbox.given.extend(given);
        let opened = match fails {
            true => Err(LinkFault::Credentials),
            false => found.and_then(|addresses| self.connect(addresses, tools)),
        };
        if let Err(reason) = opened {
            self.fail(reason, tools);
        }
    }

    fn opener<'a>(&self, registry: &'a Registry) -> Opener<'a> {
        Opener {
            terms: self.tls.as_ref().map(Connector::terms),
            registry,
            token: self.token(),
        }
    }

    fn connect(&mut self, addresses: Addresses, tools: &mut Tools<'_>) -> Result<(), LinkFault> {
        if let Address::Unix { path } = &self.address {
            let socket = Socket::connect_unix(path, tools.registry, self.token())?;
            self.connected(socket, tools);
            return Ok(());
        }
        let opener = self.opener(tools.registry);
        if let Some(works) = self.works {
            // Searches for the address that worked, because the name may now have other addresses, or the same
            // addresses in another order.
            let place = addresses.iter().position(|address| *address == works);
            self.works = place.and(self.works);
            self.first = place.unwrap_or(0);
        }
        let opening = Opening::begin(addresses, self.first, self.works.is_some(), &opener)?;
        self.ready = Ready::default();
        self.last = opening.latest;
        self.state = State::Connecting(opening);
        Ok(())
    }

    fn finish_connecting(&mut self, tools: &mut Tools<'_>) {
        let State::Connecting(mut opening) = core::mem::replace(&mut self.state, State::Idle)
        else {
            return;
        };
        let result = opening.go_on(&self.opener(tools.registry)).transpose();
        self.last = opening.latest;
        let Some(result) = result else {
            self.state = State::Connecting(opening);
            return;
        };
        if opening.has_failed {
            self.forget_sessions();
        }
        opening.abort(tools.registry);
        match result {
            Ok(attempt) => {
                (self.first, self.works) = (attempt.place, Some(attempt.address));
                self.last = Some(attempt.address);
                self.connected(attempt.socket, tools);
            }
            Err(reason) => self.fail(reason, tools),
        }
    }

    fn connected(&mut self, socket: Socket, tools: &mut Tools<'_>) {
        self.ready.readable |= socket.reads_ahead();
        self.state = State::Up {
            socket,
            blocked: false,
        };
        tools.inbox.keep(Input::Connected { node: self.node });
    }

    /// Reads at most `most` buffers. If the connection has ended, returns the reason.
    fn read_some(&mut self, most: usize, tools: &mut Tools<'_>) -> Option<LinkFault> {
        let State::Up { socket, .. } = &mut self.state else {
            return None;
        };
        for _ in 0..most {
            match socket.read(tools.buffer) {
                Received::Bytes(len) => {
                    tools.inbox.received(self.node, &tools.buffer[..len]);
                    if socket.is_drained(len, tools.buffer.len()) && !self.ready.ending {
                        self.ready.readable = false;
                        return None;
                    }
                }
                Received::Nothing => {
                    self.ready.readable = false;
                    self.ready.ending = false;
                    return None;
                }
                Received::End => return Some(LinkFault::Closed),
                Received::Failed(reason) => return Some(reason),
            }
        }
        None
    }

    /// Writes encrypted bytes to the writable socket. Then reports the node as writable, if the kernel did not accept
    /// all of the last write.
    fn unblock(&mut self, tools: &mut Tools<'_>) {
        let token = self.token();
        self.ready.writable = false;
        // The caller has read the socket before this call, which may have ended the connection.
        let State::Up { socket, blocked } = &mut self.state else {
            return;
        };
        match socket.flush() {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return self.give_up(reason, tools),
        }
        if !core::mem::take(blocked) {
            return;
        }
        if let Err(reason) = socket.watch_writable(false, tools.registry, token) {
            return self.fail(reason, tools);
        }
        tools.inbox.writable.insert(self.node);
    }
}

#[cfg(test)]
mod tests;
