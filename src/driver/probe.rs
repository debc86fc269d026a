//! The probe of one node: a connection beside its own, which asks one thing and hears whether there is
//! any answer.
//!
//! What it is asked is written once, when it is up, and nothing else ever is. A probe that fails is
//! closed and not reported: the engine opens another if it still wants to know.

use core::net::SocketAddr;

use alloc::string::String;

use mio::{Registry, Token};

use super::socket::{Received, Socket, Tools};
use crate::error::LinkError;

/// Where a probe goes: where the connection of its node goes.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Tcp(SocketAddr),
    Unix(String),
}

#[derive(Debug)]
pub(super) struct Probe {
    token: Token,
    state: State,
    /// An event was noted and not acted on yet.
    ready: bool,
}

#[derive(Debug)]
enum State {
    Closed,
    /// It is being opened, to be asked this.
    Connecting(Socket, &'static [u8]),
    Asked(Socket),
}

impl Probe {
    pub(super) fn new(token: Token) -> Self {
        Self {
            token,
            state: State::Closed,
            ready: false,
        }
    }

    /// Begins to open it to `target`, to write `bytes` when it is up. One that is open is closed.
    pub(super) fn open(&mut self, target: Target, bytes: &'static [u8], registry: &Registry) {
        self.close(registry);
        let socket = match target {
            Target::Tcp(address) => Socket::connect_tcp(address, registry, self.token),
            Target::Unix(path) => Socket::connect_unix(&path, registry, self.token),
        };
        if let Ok(socket) = socket {
            self.state = State::Connecting(socket, bytes);
            // A unix socket is up at once, and no event tells of it.
            if self.ask().is_err() {
                self.close(registry);
            }
        }
    }

    /// Keeps for the next [`Self::service`] that there was an event.
    pub(super) fn note(&mut self) {
        self.ready = true;
    }

    /// Does what the events noted make possible. Returns `true` if it was answered.
    pub(super) fn service(&mut self, tools: &mut Tools<'_>) -> bool {
        if !core::mem::take(&mut self.ready) {
            return false;
        }
        match self.ask().and_then(|()| self.hear(tools.buffer)) {
            Ok(answered) => answered,
            Err(_) => {
                self.close(tools.registry);
                false
            }
        }
    }

    /// Closes it by a reset: nothing that it was asked is of any use any more.
    pub(super) fn close(&mut self, registry: &Registry) {
        self.ready = false;
        match core::mem::replace(&mut self.state, State::Closed) {
            State::Closed => {}
            State::Connecting(socket, _) | State::Asked(socket) => socket.abort(registry),
        }
    }

    /// Asks, if it has come up.
    fn ask(&mut self) -> Result<(), LinkError> {
        let State::Connecting(socket, bytes) = &mut self.state else {
            return Ok(());
        };
        if !socket.is_connected()? {
            return Ok(());
        }
        if socket.write(bytes)? < bytes.len() {
            return Err(LinkError::Closed); // A new socket has room for some bytes.
        }
        if let State::Connecting(socket, _) = core::mem::replace(&mut self.state, State::Closed) {
            self.state = State::Asked(socket);
        }
        Ok(())
    }

    /// Whether it is answered.
    fn hear(&mut self, buffer: &mut [u8]) -> Result<bool, LinkError> {
        let State::Asked(socket) = &mut self.state else {
            return Ok(false);
        };
        match socket.read(buffer) {
            Received::Bytes(_) => Ok(true),
            Received::Nothing => Ok(false),
            Received::End => Err(LinkError::Closed),
            Received::Failed(reason) => Err(reason),
        }
    }
}
