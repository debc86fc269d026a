//! Order: late releases go first.
//!
//! * A release that is sent over a connection for the first time goes before every `SET` that was asked for after the
//!   token's attempt or lock had ended, whatever resource it is for. So releases that are left from an earlier
//!   connection go before all `SET`s of the next one, and no `SET` finds a key that its own client should have
//!   released.
//! * A `SET` is repeated over one connection only after a release of the client's own for the same resource. Exceptions
//!   are copies of a held lock, and a server that had forgotten the script.
//!
//! * Every command about a lock follows the selection of its database, and only a release goes to a server that has
//!   said in the handshake that it is a replica: late releases are sent before it says so. A transaction is judged as a
//!   whole.
//! * A client sends to a node only over a connection that was opened after the one before had
//!   ended. Two connections that overlap have no order.
//!
//! # What it does not see
//!
//! A release that was refused earlier over the same connection: the server decided when it is repeated. Commands
//! between two writes of a client count as simultaneous. Locks that were handed over, whose copies several clients may
//! release. A `SET` that waited for room may have been asked for when the connection was first blocked.

use super::{Deed, Said, TokenId, Verb};
use crate::world::World;

/// A value in place of a connection: the token was moved to another slot since.
pub(super) const MOVED: usize = usize::MAX - 1;

impl World {
    /// Checks that lock commands of a client go to its configured database, and none to a server that has said that it
    /// serves no locks.
    pub(super) fn where_it_is_asked(&mut self, deed: &Deed<'_>) {
        let link = &self.conns[deed.conn];
        if self.plan.clients <= deed.peer {
            return;
        }
        // Between `MULTI` and `EXEC`: the whole piece is judged when it is done. It may be a release.
        let is_step = link.transaction.is_queueing && !deed.transacted;
        if link.database != self.plan.database && link.garbage.is_none() {
            self.object_at(deed, "order", "asks another database");
        } else if link.turned_down && deed.command.verb != Verb::Release && !is_step {
            self.object_at(deed, "votes", "asks a replica");
        }
    }

    /// Checks that a command comes before or after no command that it should not.
    pub(super) fn order(&mut self, deed: &Deed<'_>, id: TokenId, copy: bool) {
        if self.plan.clients <= deed.peer {
            return;
        }
        let verb = deed.command.verb;
        let what = if verb == Verb::Set {
            self.set_again(deed, id).filter(|_| !copy)
        } else if verb == Verb::Release {
            self.release_behind(deed, id)
        } else {
            None
        };
        if verb == Verb::Other {
            // A move: after it the node may be asked for the number of the other slot.
            self.oracle.ledger.cell_mut(id, deed.node).set_over.0 = MOVED;
        }
        self.conns[deed.conn].written.executed += 1;
        if let Some(what) = what {
            self.object_at(deed, "order", what);
        }
    }

    /// Checks the connection over which a client is about to write to a node.
    pub(crate) fn is_newer_than_the_last(&mut self, client: usize, conn: usize) {
        let link = &self.conns[conn];
        if link.opened < self.clients[client].paths[link.node].lost_at {
            let node = link.node;
            let text = format!("client {client} asks node {node} over an old connection");
            self.object("order", text);
        }
    }

    fn set_again(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let link = &mut self.conns[deed.conn];
        let (astray, written) = (link.dark && link.near.gone, &mut link.written);
        written.newest_set = written.newest_set.max(deed.begun.asked);
        let ledger = &mut self.oracle.ledger;
        let resource = ledger.record(id).resource;
        let cell = ledger.cell_mut(id, deed.node);
        let (conn, executed) = cell.set_over;
        let again = cell.sets > 0 && conn == deed.conn;
        // A request to a server without the script was not executed, and its text follows.
        let none = matches!(deed.said, Said::Refused(code) if code.is_no_script());
        let over = if none { usize::MAX } else { deed.conn };
        cell.set_over = (over, written.executed);
        cell.astray = astray;
        let released = match self.plan.sets {
            0 => written.released.get(resource),
            _ => written.released.iter().max(), // It may have been in the way of the others.
        };
        let released = released.copied().unwrap_or(0);
        // A key that a transaction deletes still exists when a SET is written after the transaction's reads.
        let deleted = !self.plan.is_bare();
        (deleted && again && released <= executed)
            .then_some("a SET again, and no release before it")
    }

    fn release_behind(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let record = self.oracle.ledger.record(id);
        let own = record.owner == deed.process && record.heirs.is_empty();
        let releases = self.oracle.ledger.cell(id, deed.node).releases;
        let first = releases.count == 0 || releases.conn != deed.conn;
        let written = &mut self.conns[deed.conn].written;
        written.releases(record.resource);
        // A transaction waits until no other is open.
        let at_once = !deed.transacted;
        let late = at_once && own && first && record.ended < written.newest_set;
        late.then_some("a release behind a SET that was asked for later")
    }
}
