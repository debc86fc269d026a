//! A contender that uses another library: plain Redlock, one node after another.
//!
//! It asks with `SET NX PX` and waits a little for each answer; the connection to a node that does
//! not answer in time is closed. It counts its votes, subtracts the time and the drift by its own
//! clock, and believes that it holds the lock, or releases what it got with a script that compares
//! and deletes. It never extends, and is as careless as such libraries are: a command on a
//! connection that it closed may be executed later, and its key may stay.

use std::time::Duration;

use shearline::Instant;
use shearline::internals::resp::{self, Decimal};

use crate::clock::{Clock, MICRO, MILLI, NEVER, SECOND, Time};
use crate::oracle::{Belief, Kind, Process, Token};
use crate::world::{Event, World};

/// The script of its release. The server knows it as a foreign script.
pub(crate) const SCRIPT: &[u8] =
    b"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Stranger {
    process: Process,
    links: Vec<Option<usize>>,
    pub(crate) clock: Clock,
    doing: Doing,
    /// Which node is asked, whether the request was sent, and until when the stranger waits.
    node: usize,
    asked: bool,
    patience: Time,
    /// When the stranger continues by itself, and the time of the scheduled event.
    at: Time,
    next_turn: Time,
    timeout: Time,
    /// The resource of the lock.
    resource: usize,
    token: Token,
    tokens: u64,
    ttl: u64,
    began: Instant,
    granted: usize,
    finishing: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Doing {
    #[default]
    Resting,
    Locking,
    Holding,
    Releasing,
}

/// The outcome of a request.
enum Heard {
    Nothing,
    Yes,
    No,
}

impl Stranger {
    pub(crate) fn new(world: &mut World, peer: usize, fast: i64) -> Self {
        let rest = world.plan.rest;
        Self {
            process: world.oracle.born(peer),
            links: vec![None; world.plan.nodes],
            clock: Clock::new(SECOND, fast),
            patience: NEVER,
            at: world.entropy.span(rest),
            next_turn: NEVER,
            timeout: world.entropy.pick(&[50, 5, 10]) * MILLI,
            ..Self::default()
        }
    }

    pub(crate) fn link(&self, node: usize) -> Option<usize> {
        self.links[node]
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.doing == Doing::Resting
    }

    /// Makes the stranger take no more locks, and release what it has.
    pub(crate) fn finish(&mut self) {
        self.finishing = true;
        self.at = 0;
    }

    /// Makes the next token. It differs from those of clients, because they are random and this one is not.
    fn next_token(&mut self) {
        self.tokens += 1;
        let number = self.tokens.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.token = *b"a stranger's tokens.";
        self.token[..8].copy_from_slice(&number.to_le_bytes());
        self.token[8..12].copy_from_slice(&self.process.to_le_bytes());
    }

    /// Returns the end of the validity of Redlock: the ttl, less the time that passed, less a hundredth and 2 ms.
    fn valid_until(&self) -> Instant {
        let ttl = Duration::from_millis(self.ttl);
        let drift = Duration::from_micros(10 * self.ttl + 2_000);
        self.began.saturating_add(ttl.saturating_sub(drift))
    }
}

impl World {
    fn stranger(&mut self, peer: usize) -> &mut Stranger {
        let first = self.plan.clients;
        &mut self.strangers[peer - first]
    }

    pub(crate) fn wake_stranger(&mut self, peer: usize) {
        let lag = self.entropy.span(self.plan.lag);
        self.wake_stranger_at(peer, self.now + lag);
    }

    fn wake_stranger_at(&mut self, peer: usize, at: Time) {
        let stranger = self.stranger(peer);
        if at < stranger.next_turn {
            stranger.next_turn = at;
            self.at(at, Event::Stranger(peer));
        }
    }

    /// Lets a stranger continue for as long as it can.
    pub(crate) fn stranger_turn(&mut self, peer: usize) {
        let now = self.now;
        let stranger = self.stranger(peer);
        if now < stranger.next_turn {
            return;
        }
        stranger.next_turn = NEVER;
        while self.stranger_step(peer) {}
        let stranger = self.stranger(peer);
        let at = match stranger.doing {
            Doing::Resting | Doing::Holding => stranger.at,
            Doing::Locking | Doing::Releasing => stranger.patience,
        };
        self.wake_stranger_at(peer, at.max(now));
    }

    /// Takes one step. Returns `true` if the stranger can continue at once.
    fn stranger_step(&mut self, peer: usize) -> bool {
        let now = self.now;
        let nodes = self.plan.nodes;
        let spent = self.entropy.is_spent();
        let stranger = self.stranger(peer);
        match stranger.doing {
            Doing::Resting | Doing::Holding if now < stranger.at => false,
            Doing::Resting if stranger.finishing || spent => {
                stranger.at = NEVER;
                false
            }
            Doing::Resting => self.stranger_begins(peer),
            Doing::Holding => {
                let resource = stranger.resource;
                self.end_belief(peer, resource, 0);
                self.stranger_asks(peer, Doing::Releasing)
            }
            Doing::Locking if stranger.node == nodes => self.stranger_counts(peer),
            Doing::Releasing if stranger.node == nodes => self.stranger_rests(peer),
            Doing::Locking | Doing::Releasing => self.stranger_waits(peer),
        }
    }

    fn stranger_rests(&mut self, peer: usize) -> bool {
        let rest = self.entropy.span(self.plan.rest);
        let at = self.now + 100 * MICRO + rest;
        let stranger = self.stranger(peer);
        stranger.doing = Doing::Resting;
        stranger.at = at;
        true
    }

    fn stranger_begins(&mut self, peer: usize) -> bool {
        let resource = self.entropy.below(self.plan.names() as u32) as usize;
        let ttl = self.plan.draw_ttl(peer, &mut self.entropy);
        let now = self.now;
        let stranger = self.stranger(peer);
        stranger.next_token();
        stranger.resource = resource;
        stranger.ttl = ttl;
        stranger.began = stranger.clock.show(now);
        stranger.granted = 0;
        self.stranger_asks(peer, Doing::Locking)
    }

    /// Begins to ask the nodes, from the first one on.
    fn stranger_asks(&mut self, peer: usize, doing: Doing) -> bool {
        let stranger = self.stranger(peer);
        stranger.doing = doing;
        stranger.node = 0;
        stranger.patience = NEVER;
        stranger.asked = false;
        true
    }

    /// Waits for the answer of one node, for a limited time.
    fn stranger_waits(&mut self, peer: usize) -> bool {
        let now = self.now;
        let stranger = self.stranger(peer);
        if stranger.patience == NEVER {
            stranger.patience = now + stranger.timeout;
        }
        let (node, late) = (stranger.node, stranger.patience <= now);
        let answer = self.stranger_reads(peer, node);
        let stranger = self.stranger(peer);
        match answer {
            Some(Heard::Nothing) if !late => return false,
            Some(Heard::Yes) => stranger.granted += 1,
            Some(Heard::No) => {}
            Some(Heard::Nothing) | None => {
                if let Some(conn) = stranger.links[node].take() {
                    self.hang_up(conn);
                }
            }
        }
        let stranger = self.stranger(peer);
        stranger.node += 1;
        stranger.patience = NEVER;
        stranger.asked = false;
        true
    }

    /// Returns the answer of a node, and asks it if that was not done; `None` if its connection has
    /// ended.
    fn stranger_reads(&mut self, peer: usize, node: usize) -> Option<Heard> {
        let Some(conn) = self.stranger(peer).links[node] else {
            let process = self.stranger(peer).process;
            let conn = self.open(peer, process, node);
            self.stranger(peer).links[node] = Some(conn);
            return Some(Heard::Nothing);
        };
        let near = &mut self.conns[conn].near;
        if near.arrived.ends_with(b"\r\n") {
            let yes = matches!(&near.arrived[..], b"+OK\r\n" | b":1\r\n");
            near.arrived.clear();
            return Some(if yes { Heard::Yes } else { Heard::No });
        }
        if near.end.is_some() {
            return None;
        }
        let up = near.news;
        if up && !self.stranger(peer).asked {
            self.stranger(peer).asked = true;
            return self.stranger_sends(peer, conn).then_some(Heard::Nothing);
        }
        Some(Heard::Nothing)
    }

    /// Sends the request. Returns `true` if all of it was taken.
    fn stranger_sends(&mut self, peer: usize, conn: usize) -> bool {
        let mut question = std::mem::take(&mut self.offered);
        question.clear();
        let stranger = &self.strangers[peer - self.plan.clients];
        let name = &self.names[stranger.resource][..];
        let ttl = Decimal::from(stranger.ttl);
        let token = &stranger.token[..];
        let words: &[&[u8]] = match stranger.doing == Doing::Locking {
            true => &[b"SET", name, token, b"NX", b"PX", ttl.as_bytes()],
            false => &[b"EVAL", SCRIPT, b"1", name, token],
        };
        resp::command(&mut question, words);
        let taken = self.write(conn, &question) == question.len();
        self.offered = question;
        taken
    }

    /// Counts the votes when all nodes were asked.
    fn stranger_counts(&mut self, peer: usize) -> bool {
        let quorum = self.plan.quorum();
        let now = self.now;
        let stranger = self.stranger(peer);
        let until = stranger.valid_until();
        if stranger.granted < quorum || until <= stranger.clock.show(now) {
            return self.stranger_asks(peer, Doing::Releasing);
        }
        let (resource, token) = (stranger.resource, stranger.token);
        let work = self.entropy.span(self.plan.work);
        let stranger = self.stranger(peer);
        stranger.doing = Doing::Holding;
        stranger.at = if stranger.finishing { now } else { now + work };
        let place = self.place_of(peer);
        self.say(place, || {
            format!("has resource {resource}, as strangers do")
        });
        self.oracle.counts.sights.note("Strange");
        let belief = Belief {
            user: 0,
            token,
            until,
            kind: Kind::Alone,
        };
        self.believe(peer, resource, belief);
        self.begins(resource, None, Kind::Alone);
        self.starvation(peer, resource);
        true
    }
}
