//! Replaces `tls` in a build without TLS. The types have no values, so the compiler removes all code that uses them.

use alloc::vec::Vec;
use core::net::SocketAddr;

use mio::net::TcpStream;

use super::tcp::Received;
use crate::config::Config;
use crate::error::{ConfigError, LinkFault};

#[derive(Debug)]
pub(super) enum Connector {}

#[derive(Clone, Debug)]
pub(super) enum Terms {}

#[derive(Debug)]
pub(super) enum Session {}

/// Returns `None` for each node.
#[allow(clippy::unnecessary_wraps, reason = "with TLS it may fail")]
pub(super) fn connectors(config: &Config) -> Result<Vec<Option<Connector>>, ConfigError> {
    Ok(config.nodes().iter().map(|_| None).collect())
}

/// Defines methods of a type that has no values.
macro_rules! never {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(pub(super) fn $name(&self, $(_: $argument),*) -> $result { match *self {} })*
    };
}

impl Connector {
    pub(super) fn refresh(&mut self) -> Result<(), LinkFault> {
        match *self {}
    }

    never! {
        forget_sessions() -> ();
        terms() -> Terms;
    }
}

impl Session {
    pub(super) fn connect(_: SocketAddr, terms: Terms) -> Result<Self, LinkFault> {
        match terms {}
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        match *self {}
    }

    never! {
        stream() -> &TcpStream;
        is_connected() -> Result<bool, LinkFault>;
        read(&mut [u8]) -> Received;
        is_drained(usize, usize) -> bool;
        write(&[u8]) -> Result<usize, LinkFault>;
        has_unsent() -> bool;
        flush() -> Result<bool, LinkFault>;
        shut_down() -> ();
    }
}
