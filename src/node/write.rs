//! The commands of a lock, each written in the form that a node takes.
//!
//! A node that carries a marker gets scripts that check it, which are written for that node alone. All other nodes
//! share the bytes: a [`Command`] is written once for all nodes that take it in the same form.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::keys::ClaimKey;
use crate::time::Instant;

use super::request::{Dialect, Request, Taught};
use super::{Node, Work, command};

/// A command on its way to several nodes.
#[derive(Debug)]
pub(crate) struct Command {
    bytes: Vec<u8>,
    /// The form of the command in `bytes`, if other nodes may share it.
    shared: Option<Dialect>,
}

impl Command {
    /// Returns a command that is not written yet, with an empty `buffer`.
    pub(crate) const fn new(buffer: Vec<u8>) -> Self {
        Self {
            bytes: buffer,
            shared: None,
        }
    }

    /// Returns the buffer, for the pool.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the command in `dialect`. Calls `write` unless the command is already there in that form. A command that
    /// checks a `marker` is written for one node alone.
    #[inline]
    pub(super) fn written(
        &mut self,
        dialect: Dialect,
        marker: Option<&[u8]>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &[u8] {
        if marker.is_some() || self.shared != Some(dialect) {
            self.bytes.clear();
            write(&mut self.bytes);
            self.shared = marker.is_none().then_some(dialect);
        }
        &self.bytes
    }
}

impl Node {
    #[inline]
    fn set<'c>(&self, command: &'c mut Command, entry: &Entry, ttl: Duration) -> &'c [u8] {
        let (dialect, marker) = (
            self.handshake.phase.dialect(Taught::CheckedAcquire),
            self.trust.marker(),
        );
        command.written(dialect, marker, |out| {
            command::set(out, entry, ttl, marker, dialect);
        })
    }

    /// Sends the `SET` of `entry`. Until this connection has shown that locks may be released, the node takes the lock
    /// only if the user may release it. Returns `false` if only that question was sent; the `SET` may then follow.
    // Inlined into the loop over the nodes of an attempt. The other caller, which sends a copy to a node that has lost
    // the key, is rare.
    #[inline(always)]
    pub(crate) fn send_set(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        ttl: Duration,
    ) -> bool {
        if !self.may_run_scripts() {
            if !self.may_release() {
                return self.send_first_set(now, claim, entry, ttl);
            }
            if entry.is_several() && self.is_without_scripts() {
                self.take_several(now, claim, entry, ttl);
                return true;
            }
        }
        let bytes = self.set(command, entry, ttl);
        self.send(now, Request::Set { claim }, bytes);
        true
    }

    /// Takes all names of `entry` by a transaction, which asks each time whether they may be released.
    #[cold]
    pub(super) fn take_several(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: &Entry,
        life: Duration,
    ) {
        self.transact(now, Request::Set { claim }, entry, Work::Take(life));
    }

    /// Returns the command that takes a lock, as ACL rules name it.
    pub(crate) fn verb_of_set(&self, several: bool) -> &'static str {
        match self.trust.marker() {
            _ if several && self.is_without_scripts() => self.verb_of_transaction(),
            _ if several => Dialect::Text.verb(),
            None => "set",
            Some(_) => self.handshake.phase.dialect(Taught::CheckedAcquire).verb(),
        }
    }

    /// Returns `true` if the `SET` is a script, which a node can forget.
    pub(crate) fn sets_by_script(&self) -> bool {
        self.trust.marker().is_some()
    }

    /// Sends the release of `entry`; never by digest if it has to `repair`. Returns `false` if there is no room for it.
    #[inline(always)]
    pub(crate) fn send_release(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        repair: bool,
    ) -> bool {
        let dialect = self.release_dialect(repair);
        // A transaction that takes the keys may be repeated, so a release by a script would overtake it.
        let is_taken = !self.connection.transactions.is_empty()
            && self
                .connection
                .transactions
                .is_taking(Request::Set { claim });
        let by_script = !self.is_without_scripts() || !entry.is_several();
        if dialect == Dialect::Watch || is_taken || !by_script {
            let (dialect, repair) = (Dialect::Watch, true);
            let request = Request::Release {
                claim,
                dialect,
                repair,
            };
            self.transact(now, request, entry, Work::Release);
            return true;
        }
        let bytes = command.written(dialect, None, |out| command::release(out, entry, dialect));
        if !self.connection.wire.has_room_for_release(bytes.len()) {
            return false;
        }
        let request = Request::Release {
            claim,
            dialect,
            repair: repair || dialect == Dialect::Text,
        };
        self.send(now, request, bytes);
        true
    }
}
