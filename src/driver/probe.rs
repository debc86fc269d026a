//! A probe is a second connection to a node. The probe sends one command, the question, and waits for any answer.
//!
//! A probe that fails is closed without a report. The engine opens another probe if it still needs one.

use core::net::SocketAddr;

use alloc::string::String;

use mio::{Registry, Token};

use super::socket::{Socket, Tools};
use super::tcp::Received;
use super::tls::Terms;
use crate::error::LinkFault;

/// The address that a probe connects to, which is the address of the node's connection.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Tcp(SocketAddr, Option<Terms>),
    Unix(String),
}

#[derive(Debug)]
pub(super) struct Probe {
    token: Token,
    socket: Option<Socket>,
    /// The command to send when the connection is up. After that, the slice is empty.
    question: &'static [u8],
    /// `true` if an event came after the last [`Probe::service`].
    ready: bool,
}

impl Probe {
    pub(super) fn new(token: Token) -> Self {
        Self {
            token,
            socket: None,
            question: &[],
            ready: false,
        }
    }

    /// Begins to connect to `target`. The probe sends `bytes` when the connection is up. Closes an earlier probe.
    pub(super) fn open(&mut self, target: Target, bytes: &'static [u8], registry: &Registry) {
        self.close(registry);
        let socket = match target {
            Target::Tcp(address, terms) => Socket::connect(address, terms, registry, self.token),
            Target::Unix(path) => Socket::connect_unix(&path, registry, self.token),
        };
        (self.socket, self.question) = (socket.ok(), bytes);
        // A unix socket is connected immediately, without an event.
        if self.ask().is_err() {
            self.close(registry);
        }
    }

    /// Records an event for the next [`Self::service`].
    pub(super) fn note(&mut self) {
        self.ready = true;
    }

    /// Handles the recorded event. Returns `true` if the node has answered.
    pub(super) fn service(&mut self, tools: &mut Tools<'_>) -> bool {
        if !core::mem::take(&mut self.ready) {
            return false;
        }
        let answered = self.ask().and_then(|()| self.read_answer(tools.buffer));
        answered.unwrap_or_else(|_| {
            self.close(tools.registry);
            false
        })
    }

    /// Closes the probe with a reset, because an answer is no longer needed.
    pub(super) fn close(&mut self, registry: &Registry) {
        self.ready = false;
        if let Some(socket) = self.socket.take() {
            socket.abort(registry);
        }
    }

    /// Sends the question if the connection is up.
    fn ask(&mut self) -> Result<(), LinkFault> {
        if let Some(socket) = &mut self.socket
            && !self.question.is_empty()
            && socket.is_connected()?
        {
            if socket.write(self.question)? < self.question.len() || !socket.flush()? {
                return Err(LinkFault::Closed); // The buffer of a new socket has room for a few bytes.
            }
            self.question = &[];
        }
        Ok(())
    }

    /// Returns `true` if the node has sent any bytes.
    fn read_answer(&mut self, buffer: &mut [u8]) -> Result<bool, LinkFault> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        if !self.question.is_empty() {
            return Ok(false);
        }
        match socket.read(buffer) {
            Received::Bytes(_) => Ok(true),
            Received::Nothing => Ok(false),
            Received::End => Err(LinkFault::Closed),
            Received::Failed(reason) => Err(reason),
        }
    }
}
