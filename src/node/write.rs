//! The commands of a lock, each written in the form that a node takes.
//!
//! A node that carries a marker gets scripts that check it, which are written for that node alone. All other nodes
//! share the bytes: a [`Command`] is written once for all nodes that take it in the same form.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::Unusable;
use crate::keys::ClaimKey;
use crate::time::Instant;

use super::request::{Dialect, Request, Taking, Taught};
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
    /// Takes the keys of `entry` for `life`, with a number of at least `proposal` if there is one. Returns `false` if
    /// that was not sent yet, because the node first has to show whether the user may release the lock. A [trial](Request::Probe)
    /// tells.
    ///
    /// # Errors
    ///
    /// The node cannot give numbers. Nothing was sent.
    // Inlined into the loop over the nodes of an attempt. The other callers, which send copies to nodes that have lost
    // the key, are rare.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        (life, proposal): (Duration, Option<u64>),
    ) -> Result<bool, Unusable> {
        if let Some(proposal) = proposal {
            self.take_fenced(now, claim, command, entry, (life, proposal))?;
            return Ok(true);
        }
        if !self.may_run_scripts()
            && let Some(sent) = self.take_unproved(now, claim, entry, life)
        {
            return Ok(sent);
        }
        let marker = self.trust.marker();
        let (by, dialect) = match (entry.is_several(), marker) {
            (false, None) => (Taking::Set, Dialect::Text),
            (false, Some(_)) => {
                let by = self.handshake.phase.dialect(Taught::CheckedAcquire);
                (Taking::Checked { by }, by)
            }
            (true, _) => (Taking::Several, Dialect::Text),
        };
        let bytes = command.written(dialect, marker, |out| {
            command::set(out, entry, life, marker, dialect);
        });
        self.send(now, Request::Take { claim, by }, bytes);
        Ok(true)
    }

    /// Takes the keys over a connection that has not shown yet that scripts may be run. Returns `None` if they are
    /// taken as over any other connection.
    #[cold]
    #[inline(never)]
    fn take_unproved(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: &Entry,
        life: Duration,
    ) -> Option<bool> {
        let may_release = self.may_release();
        if !may_release {
            self.reconsider_scripts();
            if self.is_to_try_scripts() {
                self.try_script(now, claim, entry);
                return Some(false);
            }
        }
        match (self.is_without_scripts(), entry.is_several()) {
            (true, true) => {
                let by = Taking::Watch;
                self.transact(now, Request::Take { claim, by }, entry, Work::Take(life));
                Some(true)
            }
            (false, true) => None, // The script for several names asks for the permissions each time.
            (_, false) if may_release => None,
            (true, false) => {
                self.try_ways(now, claim, entry);
                Some(false)
            }
            (false, false) => {
                self.take_first(now, claim, entry, life);
                Some(true)
            }
        }
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
        let several = entry.is_several();
        let by = match several {
            false => self.release_dialect(repair),
            true if self.is_without_scripts() => Dialect::Watch,
            true => Dialect::Text,
        };
        // A transaction that takes the keys may be repeated, so a release by a script would overtake it.
        let is_taken = !self.connection.transactions.is_empty()
            && self.connection.transactions.is_taking(claim);
        if by == Dialect::Watch || is_taken {
            let request = Request::Release {
                claim,
                by: Dialect::Watch,
                several,
                repair: true,
            };
            self.transact(now, request, entry, Work::Release);
            return true;
        }
        let bytes = command.written(by, None, |out| command::release(out, entry, by));
        if !self.connection.wire.has_room_for_release(bytes.len()) {
            return false;
        }
        let request = Request::Release {
            claim,
            by,
            several,
            repair: repair || by == Dialect::Text && !several,
        };
        self.send(now, request, bytes);
        true
    }
}
