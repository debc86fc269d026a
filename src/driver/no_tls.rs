//! Replaces `tls` in a build without it. No value of these types can be made, so no code that would use one is left.

use alloc::vec::Vec;
use core::net::SocketAddr;

use mio::net::TcpStream;

use super::tcp::Received;
use crate::config::Config;
use crate::error::{LinkFault, TlsError};

#[derive(Debug)]
pub(super) enum Connector {}

#[derive(Clone, Debug)]
pub(super) enum Terms {}

#[derive(Debug)]
pub(super) enum Session {}

/// Returns `None` for each node.
#[allow(clippy::unnecessary_wraps, reason = "with TLS it may fail")]
pub(super) fn connectors(config: &Config) -> Result<Vec<Option<Connector>>, TlsError> {
    Ok(config.nodes().iter().map(|_| None).collect())
}

impl Connector {
    pub(super) fn refresh(&mut self) -> Result<(), LinkFault> {
        match *self {}
    }

    pub(super) fn forget_sessions(&mut self) {
        match *self {}
    }

    pub(super) fn terms(&self) -> Terms {
        match *self {}
    }
}

impl Session {
    pub(super) fn connect(_: SocketAddr, terms: Terms) -> Result<Self, LinkFault> {
        match terms {}
    }

    pub(super) fn stream(&self) -> &TcpStream {
        match *self {}
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        match *self {}
    }

    pub(super) fn is_connected(&mut self) -> Result<bool, LinkFault> {
        match *self {}
    }

    pub(super) fn read(&mut self, _: &mut [u8]) -> Received {
        match *self {}
    }

    pub(super) fn is_drained(&self, _: usize, _: usize) -> bool {
        match *self {}
    }

    pub(super) fn write(&mut self, _: &[u8]) -> Result<usize, LinkFault> {
        match *self {}
    }

    pub(super) fn has_unsent(&self) -> bool {
        match *self {}
    }

    pub(super) fn flush(&mut self) -> Result<bool, LinkFault> {
        match *self {}
    }

    pub(super) fn shut_down(&mut self) {
        match *self {}
    }
}
