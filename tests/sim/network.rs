//! The network carries bytes between two ends, and includes the kernels at both ends.
//!
//! A connection keeps the order, and may break anywhere; after a reset, only a part of the earlier bytes arrives. The
//! order also holds between two connections of one client to one node, as on one path.

use shearline::internals::LinkFault;

use crate::clock::{MILLI, NEVER, SECOND, Time};
use crate::link::{Conn, End, FarState, Way};
use crate::oracle::Process;
use crate::plan::USER_TIMEOUT;
use crate::trace;
use crate::world::{Event, World};

/// How long a kernel waits before it tries again after a full backlog.
const KNOCK_AGAIN: Time = SECOND;

/// After how long a silence a kernel gives up the other end: it asks after five seconds, three times.
pub(crate) const KEEP_ALIVE: Time = 8 * SECOND;

/// The error number of a connection that was given up for lack of acknowledgements.
const TIMED_OUT: i32 = 110;

impl World {
    /// Draws how long one way takes.
    pub(crate) fn delay(&mut self, server: usize) -> Time {
        let tail = self.entropy.span(self.plan.delay_tail);
        let slow = self.servers[server].slow;
        self.plan.delay / 2 + self.entropy.span(self.plan.delay) + tail + slow
    }

    /// Sends bytes to the other end.
    pub(crate) fn send(&mut self, conn: usize, way: Way, bytes: &[u8]) {
        let link = &self.conns[conn];
        if link.cut {
            return;
        }
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.note(u64::from_be_bytes(*word));
        }
        if !rest.is_empty() {
            let bytes = rest.iter().copied().map(u64::from);
            self.note(bytes.fold(0, |word, byte| word << 8 | byte));
        }
        let link = &self.conns[conn];
        let lost = link.dark || self.partitions[link.peer][link.node][way as usize];
        let server = link.server;
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = match rest.len() > 1 && self.entropy.chance(self.plan.tear) {
                true => 1 + self.entropy.below(rest.len() as u32 - 1) as usize,
                false => rest.len(),
            };
            let (piece, later) = rest.split_at(len);
            rest = later;
            let at = match lost {
                true => NEVER,
                false => self.now + self.delay(server),
            };
            let at = self.conns[conn].pipe(way).push(piece, self.now, at);
            self.at(at, Event::Arrive(conn, way));
        }
        if way == Way::ToServer && self.conns[conn].up.is_held() {
            self.at(self.now + USER_TIMEOUT, Event::UserTimeout(conn));
        }
    }

    pub(crate) fn arrive(&mut self, conn: usize, way: Way) {
        let now = self.now;
        let link = &mut self.conns[conn];
        if link.dark {
            return;
        }
        match way {
            Way::ToServer if link.far.state == FarState::Gone => link.up.keep(0),
            Way::ToServer => {
                link.arrive_far(now);
                self.readable(conn);
            }
            Way::ToClient => {
                link.arrive_near(now);
                if !link.near.gone {
                    let peer = link.peer;
                    self.wake_peer(peer);
                }
            }
        }
    }

    // ----- the beginning ------------------------------------------------------------------------

    /// Opens a connection for a process. Returns its number.
    pub(crate) fn open(&mut self, peer: usize, process: Process, node: usize) -> usize {
        let conn = self.conns.len();
        let server = self.plan.server_of(node);
        self.conns.push(Conn {
            peer,
            process,
            node,
            server,
            opened: self.now,
            ..Conn::default()
        });
        self.opened[peer][node].push(conn);
        if self.partitions[peer][node] == [false; 2] {
            let delay = self.delay(server) + self.delay(server);
            self.at(self.now + delay, Event::Dial(conn));
        }
        conn
    }

    pub(crate) fn dial(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        let (peer, server) = (link.peer, link.server);
        if link.near.gone {
            return;
        }
        let there = &mut self.servers[server];
        if !there.up {
            link.near.end = Some(LinkFault::Refused);
        } else if self.plan.backlog < there.backlog.len() {
            self.at(self.now + KNOCK_AGAIN, Event::Dial(conn));
            return;
        } else {
            link.far.state = FarState::Backlog;
            link.near.news = true;
            there.backlog.push_back(conn);
            self.wake_server(server);
        }
        self.wake_peer(peer);
    }

    /// Lets a server with too many clients say so and close the connection.
    pub(crate) fn turn_away(&mut self, conn: usize) {
        let text = b"-ERR max number of clients reached\r\n";
        self.send(conn, Way::ToClient, text);
        if self.entropy.below(2) == 0 {
            self.conns[conn].cut = true;
            self.forget(conn);
            self.end_near_later(conn, LinkFault::Closed);
        } else {
            // The server answers what the client had sent by a reset.
            self.reset_from_far(conn);
        }
    }

    // ----- the end ------------------------------------------------------------------------------

    /// Closes a client's connection by a reset: some of the bytes on their way arrive first.
    pub(crate) fn abort(&mut self, conn: usize) {
        self.conns[conn].near.gone = true;
        self.conns[conn].cut = true;
        self.conns[conn].down.keep(0);
        self.keep_some_up(conn);
        let link = &self.conns[conn];
        if !self.partitions[link.peer][link.node][Way::ToServer as usize] {
            self.end_far_later(conn, End::Reset);
        }
    }

    /// Loses the bytes that the kernel still holds; some of those on their way arrive.
    fn keep_some_up(&mut self, conn: usize) {
        let link = &self.conns[conn];
        let kept = match link.up.is_held() || link.dark {
            true => 0,
            false => self.entropy.below(link.up.segments() as u32 + 1) as usize,
        };
        self.conns[conn].up.keep(kept);
        self.hurry(conn);
    }

    /// Closes a connection because its process closes it or ends. The kernel sends the bytes that it was given. If
    /// something was not read, it sends a reset instead.
    pub(crate) fn hang_up(&mut self, conn: usize) {
        if !self.conns[conn].near.arrived.is_empty() {
            self.abort(conn);
            return;
        }
        let link = &mut self.conns[conn];
        link.near.gone = true;
        link.near.lingers = true;
        link.cut = true;
        link.down.keep(0);
        self.end_far_later(conn, End::Polite);
    }

    /// Delivers the last bytes of an ended connection at once: they arrive before those of a later one.
    fn hurry(&mut self, conn: usize) {
        let now = self.now;
        self.conns[conn].up.hurry(now);
        self.arrive(conn, Way::ToServer);
    }

    pub(crate) fn end_far(&mut self, conn: usize, end: End) {
        self.arrive(conn, Way::ToServer);
        let link = &mut self.conns[conn];
        let server = link.server;
        match (link.far.state, end) {
            (FarState::Gone, _) => {}
            // A connection that was never accepted is treated as if it had never existed.
            (FarState::Backlog, End::Reset) => {
                self.forget(conn);
                let backlog = &mut self.servers[server].backlog;
                backlog.retain(|waiting| *waiting != conn);
            }
            (FarState::Backlog, End::Polite) => link.far.ended = true,
            (FarState::Open, _) => {
                link.far.ended = true;
                self.readable(conn);
            }
        }
    }

    pub(crate) fn end_near(&mut self, conn: usize, reason: LinkFault) {
        self.arrive(conn, Way::ToClient);
        let link = &mut self.conns[conn];
        if link.near.gone || link.near.end.is_some() {
            return;
        }
        link.near.end = Some(reason);
        link.up.keep(0);
        let peer = link.peer;
        self.wake_peer(peer);
    }

    /// Lets the kernel check whether its bytes were acknowledged.
    pub(crate) fn user_timeout(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        if link.near.gone && !link.near.lingers || link.near.end.is_some() {
            return;
        }
        let blocked = link.near.blocked.then_some(link.near.blocked_since);
        let held = link.up.oldest().filter(|_| link.up.is_held());
        let Some(since) = held.into_iter().chain(blocked).min() else {
            return;
        };
        if since + USER_TIMEOUT > self.now {
            self.at(since + USER_TIMEOUT, Event::UserTimeout(conn));
            return;
        }
        self.time_out(conn);
    }

    /// Lets a connection die without a notice.
    pub(crate) fn darken(&mut self, conn: usize) {
        self.conns[conn].dark = true;
        self.at(self.now + KEEP_ALIVE, Event::KeepAlive(conn));
    }

    pub(crate) fn keep_alive(&mut self, conn: usize) {
        let near = &self.conns[conn].near;
        if !near.gone && near.end.is_none() {
            self.time_out(conn);
        }
    }

    fn time_out(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        link.up.keep(0);
        link.near.end = Some(LinkFault::Os(TIMED_OUT));
        link.near.lingers = false;
        let (peer, gone) = (link.peer, link.near.gone);
        if !gone {
            self.wake_peer(peer);
        }
    }

    /// Resets a connection: both ends learn of it, after some of the bytes on their way have arrived.
    pub(crate) fn reset(&mut self, conn: usize, reason: LinkFault) {
        self.conns[conn].cut = true;
        self.keep_some_up(conn);
        self.keep_some_down(conn);
        self.end_far_later(conn, End::Reset);
        self.end_near_later(conn, reason);
    }

    /// Resets a connection because the server's process has ended.
    pub(crate) fn reset_from_far(&mut self, conn: usize) {
        self.conns[conn].cut = true;
        self.keep_some_down(conn);
        self.forget(conn);
        self.end_near_later(conn, LinkFault::Reset);
    }

    fn keep_some_down(&mut self, conn: usize) {
        let down = self.conns[conn].down.segments();
        let kept = self.entropy.below(down as u32 + 1) as usize;
        self.conns[conn].down.keep(kept);
    }

    /// Lets the server see the end after the last bytes that arrive.
    pub(crate) fn end_far_later(&mut self, conn: usize, end: End) {
        let link = &self.conns[conn];
        let cut_off = self.partitions[link.peer][link.node][Way::ToServer as usize];
        let polite = end == End::Polite && cut_off;
        if link.far.state == FarState::Gone || link.up.is_held() || link.dark || polite {
            return;
        }
        let delay = self.delay(link.server);
        let at = self.conns[conn].up.last().max(self.now) + delay;
        self.at(at, Event::EndFar(conn, end));
    }

    fn end_near_later(&mut self, conn: usize, reason: LinkFault) {
        let link = &mut self.conns[conn];
        if link.near.gone || link.dark {
            return;
        }
        if self.partitions[link.peer][link.node][Way::ToClient as usize] {
            // The notice is lost, until the client sends something and gets an answer.
            link.near.ends_with = Some(reason);
            self.at(self.now + KEEP_ALIVE, Event::KeepAlive(conn));
            return;
        }
        let link = &self.conns[conn];
        let delay = self.delay(link.server);
        let at = self.conns[conn].down.last().max(self.now) + delay;
        self.at(at, Event::EndNear(conn, reason));
    }

    // ----- writing ------------------------------------------------------------------------------

    /// Lets the client's kernel take as much of `bytes` as it has room for.
    pub(crate) fn write(&mut self, conn: usize, bytes: &[u8]) -> usize {
        let room = self.plan.window.saturating_sub(self.conns[conn].waiting());
        let len = bytes.len().min(room);
        if len > 0 {
            let (place, node) = (self.place_of(self.conns[conn].peer), self.conns[conn].node);
            self.say(place, || {
                format!("to node {node}: {}", trace::commands(&bytes[..len]))
            });
            self.send(conn, Way::ToServer, &bytes[..len]);
        }
        let bare = self.plan.is_bare();
        let near = &mut self.conns[conn].near;
        if std::mem::take(&mut near.has_rest) {
            near.unblocked_at = self.now; // The client may have been stopped since there was room.
        }
        near.has_rest = len < bytes.len();
        near.cut_off.clear();
        if bare {
            near.cut_off.extend_from_slice(&bytes[len..]);
        }
        if len < bytes.len() && !near.blocked {
            near.blocked = true;
            near.blocked_since = self.now;
            self.at(self.now + USER_TIMEOUT, Event::UserTimeout(conn));
        }
        len
    }

    // ----- partitions ---------------------------------------------------------------------------

    /// Ends a partition: bytes go that way again, first those that waited.
    pub(crate) fn heal_partition(&mut self, peer: usize, node: usize, way: Way) {
        if !std::mem::take(&mut self.partitions[peer][node][way as usize]) {
            return;
        }
        for at in 0..self.opened[peer][node].len() {
            let conn = self.opened[peer][node][at];
            if !self.conns[conn].dark {
                self.heal_conn(conn, way);
            }
        }
    }

    fn heal_conn(&mut self, conn: usize, way: Way) {
        let link = &mut self.conns[conn];
        let (server, lingers) = (link.server, link.near.lingers);
        let pipe = link.pipe(way);
        if pipe.is_held() {
            // A kernel repeats more and more rarely, but bytes from before the close arrive at some time.
            let lingers = way == Way::ToServer && lingers;
            let held = pipe.oldest().map_or(0, |sent| self.now - sent);
            let pause = if lingers {
                u64::from(self.entropy.below((USER_TIMEOUT / MILLI) as u32)) * MILLI
            } else if !self.calm {
                self.entropy.span(held.min(USER_TIMEOUT))
            } else {
                0
            };
            let at = self.now + self.delay(server) + pause;
            self.conns[conn].pipe(way).heal(at);
            self.at(at, Event::Arrive(conn, way));
        }
        if way == Way::ToServer && self.conns[conn].near.lingers {
            self.end_far_later(conn, End::Polite);
        }
        if way == Way::ToClient
            && let Some(reason) = self.conns[conn].near.ends_with.take()
        {
            self.end_near_later(conn, reason);
        }
    }
}
