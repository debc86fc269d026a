//! A server: the embedded store behind a model of a process and its kernel.
//!
//! As measured on `redis-server`: one thread; in each turn of its loop it reads from every connection that is readable,
//! in an order of its own, runs what is complete, and accepts new connections after that. While it is stopped, its
//! kernel still accepts connections and bytes, and all commands are run when it continues; a connection that was reset
//! is still read to its end, unless it had not been accepted. While writes are paused, the commands after a write wait
//! with it, and are never run if their connection ends. Keys expire by the server's clock, also while it is stopped.

use std::collections::VecDeque;

use shearline::Instant;
use shearline::internals::resp::{self, Inbox, Value};
use shearline::internals::{BARRIER_KEY, Flavour, MARKER_KEY, Store};

use crate::bare::{self, Sent};
use crate::clock::{Clock, MILLI, SECOND, Time};
use crate::faults::Fault;
use crate::link::{Conn, FarState, Way};
use crate::oracle::{
    Answer, Command, Counted, Deed, Fence, Held, Said, SetBefore, Token, Verb, is_fenced_set,
    is_inspection, is_intent, is_of_fencing, millis, number_in, take_slot, token_of,
};
use crate::plan::{Kinds, Plan};
use crate::stranger;
use crate::trace::{self, Place};
use crate::world::{Event, World};
use crate::written::Writing;

/// How many bytes the server reads from one connection before it looks at the next.
const READ_BYTES: usize = 16 << 10;

/// The digests of the scripts that extend and release many locks at once, and of those that do so for one lock.
const EXTEND_EACH: &[u8] = b"ab45eed4405dc0e1a96a226b5088d35bf5f4512a";
const EXTEND: &[u8] = b"861c16b0751b430a3233aad3e2ab867202584ef5";
const RELEASE_EACH: &[u8] = b"d69605c5805009ab0e3862a8ef1a0ec74af88a05";
const RELEASE: &[u8] = b"4453c08d4b7260dfec522c1d9be6140ee00157cb";

#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// The server does not know `HELLO`.
    pub(crate) old: bool,
    /// The server knows `DELEX`.
    newest: bool,
    /// Whether the process runs. If not, connections are refused.
    pub(crate) up: bool,
    pub(crate) stalled: bool,
    /// The server does not come back.
    pub(crate) lost: bool,
    /// The server executes no writes for now.
    pub(crate) paused: bool,
    /// Connections whose next command waits for the end of that pause, in the order of arrival.
    pub(crate) postponed: Vec<usize>,
    /// The server has as many clients as it may have; and how often that was so.
    pub(crate) crowded: bool,
    pub(crate) crowds: u32,
    /// The additional time of a round trip.
    pub(crate) slow: Time,
    /// Connections with something to read, in the order of the kernel's list.
    pub(crate) ready: VecDeque<usize>,
    pub(crate) backlog: VecDeque<usize>,
    pub(crate) open: Vec<usize>,
    /// The server will run at the next `Serve`.
    serving: bool,
    pub(crate) mood: Mood,
    /// The number of the newest mood, so that the end of an older one does not end it.
    pub(crate) mood_number: u32,
    /// The data on disk, newest last.
    pub(crate) snapshots: VecDeque<(Time, Store)>,
    pub(crate) starts: u32,
    /// The next server that starts here has a long uptime.
    pub(crate) promoted: bool,
    /// The server itself has said that a request did not count, or may not have counted.
    pub(crate) fenced: bool,
    /// How often its clock was set forward, and by how much.
    pub(crate) jumps: u32,
    pub(crate) jumped: Time,
    /// How far its clock is set back.
    pub(crate) behind: Time,
    /// The clock was set back at some time.
    pub(crate) was_behind: bool,
    /// An operator has vouched that the clock is no longer set back.
    pub(crate) vouched: bool,
    /// The server has followed another.
    pub(crate) followed: bool,
    /// The server has sent an invalid reply.
    pub(crate) uttered: bool,
    /// When the server was last killed.
    pub(crate) killed_at: Time,
}

/// What a server answers instead of executing a command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Mood {
    #[default]
    Fine,
    Loading,
    ReadOnly,
    NoMemory,
    DiskFull,
    Busy,
    /// Clients have to give a password.
    Locked,
    /// The server executes commands, but something in front of it loses the answer to a write and reports an error that
    /// leaves the outcome open.
    Doubtful,
    /// The server follows another, and says so.
    Replica,
    /// The server is part of a cluster that distributes keys.
    Cluster,
    /// The server executes commands, and sends invalid replies.
    Garbled,
}

pub(crate) const MOODS: [Mood; 10] = {
    use Mood::*;
    [
        Loading, ReadOnly, NoMemory, DiskFull, Busy, Locked, Doubtful, Replica, Cluster, Garbled,
    ]
};

impl Server {
    pub(crate) fn new(number: usize, plan: &Plan, clock: Clock) -> Self {
        let mut store = Store::new(number as u64, Instant::ZERO);
        let kinds = plan.kinds;
        let kind = match kinds {
            Kinds::Mixed => [Kinds::Redis, Kinds::Valkey, Kinds::Old, Kinds::Newest][number % 4],
            Kinds::Redis | Kinds::Valkey | Kinds::Newest | Kinds::Old => kinds,
        };
        if plan.is_bare() {
            bare::strip(&mut store, number, kind, plan.is_without_scripts());
        } else if kind == Kinds::Valkey {
            store.set_flavour(Flavour::Valkey);
        }
        Self {
            store,
            clock,
            old: kind == Kinds::Old,
            newest: kind == Kinds::Newest,
            up: true,
            ..Self::default()
        }
    }

    /// Returns `true` if a client may have reason to think that the server has forgotten something.
    pub(crate) fn is_doubted(&self) -> bool {
        self.starts > 0 || self.mood_number > 0 || self.fenced
    }

    /// Returns the longest ttl of its marker if there is one and no barrier: then its votes count.
    fn fence(&self, shown: Instant) -> Option<u64> {
        let marker = self.store.get(shown, MARKER_KEY)?;
        let longest = marker.split(|byte| *byte == b' ').nth(2)?;
        let open = self.store.get(shown, BARRIER_KEY).is_none();
        millis(longest).filter(|_| open)
    }

    /// Returns `true` if the server has a marker of another incarnation than the one that asks to join.
    fn is_of_another_life(&self, shown: Instant, words: &[&[u8]]) -> bool {
        let marker = self.store.get(shown, MARKER_KEY);
        let run_id = words.get(5).copied().unwrap_or_default();
        marker.is_some_and(|marker| !marker.windows(run_id.len().max(1)).any(|id| id == run_id))
    }

    /// Returns `true` if `marker` names this process.
    pub(crate) fn has_written(&self, now: Time, marker: &[u8]) -> bool {
        let run_id = marker.split(|byte| *byte == b' ').nth(1);
        let mut store = self.store.clone(); // A store numbers its clients.
        store.set_password(None);
        let (mut session, mut identity) = (Store::session(), Vec::new());
        let shown = self.clock.show(now);
        store.execute(&mut session, shown, &[b"INFO", b"server"], &mut identity);
        run_id.is_some_and(|id| identity.windows(id.len().max(1)).any(|text| text == id))
    }

    /// Returns the value of a key.
    pub(crate) fn token_at(&self, shown: Instant, key: &[u8]) -> Option<Token> {
        self.store.get(shown, key).map(token_of)
    }
}

/// What a server says instead of what the store says.
type Texts = &'static [(&'static [u8], &'static [u8])];

/// The error of a proxy that had no answer in time.
const DOUBT: &[u8] = b"-ERR Connection timed out\r\n";

impl Mood {
    /// Returns `true` if commands are executed, whatever is answered.
    pub(crate) fn executes(self) -> bool {
        matches!(self, Self::Fine | Self::Doubtful | Self::Garbled)
    }

    /// Returns what the server answers to `words` instead of executing them. `present` says whether the key of the
    /// command exists.
    fn answer(self, words: &[&[u8]], verb: Verb, present: bool) -> Option<&'static [u8]> {
        if self == Self::Fine {
            return None;
        }
        let word = words.first()?;
        let is = |names: &[&[u8]]| names.contains(word);
        let script = is(&[b"EVAL", b"EVALSHA"]);
        // A script that writes whether the key exists or not.
        let joins = verb == Verb::Join;
        let set = verb == Verb::Set || joins;
        let present = present || set;
        let reads = verb == Verb::Confirm;
        let handshake = is(&[b"HELLO", b"AUTH", b"INFO"]);
        // Commands of a transaction, and those that no transaction contains: servers run these while they load or are
        // busy.
        let around = is(&[b"MULTI", b"EXEC", b"WATCH"]);
        match self {
            Self::Fine | Self::Doubtful | Self::Garbled | Self::Locked => None,
            Self::Cluster if verb.is_of_locks() || is(&[b"WATCH", b"GET", b"PEXPIRE", b"MSETEX"]) => {
                Some(b"-MOVED 3999 127.0.0.1:6381\r\n")
            }
            Self::Cluster => None,
            Self::Loading if handshake || around => None,
            Self::Loading => Some(b"-LOADING Redis is loading the dataset in memory\r\n"),
            Self::Busy if is(&[b"HELLO", b"AUTH"]) || around => None,
            Self::Busy => Some(
                b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                  NOSAVE.\r\n",
            ),
            Self::ReadOnly | Self::Replica | Self::DiskFull if reads => None,
            Self::ReadOnly | Self::Replica if script && word == b"EVALSHA" => {
                Some(b"-NOSCRIPT No matching script. Please use EVAL.\r\n")
            }
            Self::ReadOnly | Self::Replica if script && present => {
                Some(b"-READONLY You can't write against a read only replica. script: x\r\n")
            }
            Self::ReadOnly | Self::Replica
                if set || is(&[b"SET", b"MSETEX", b"DELIFEQ", b"DELEX", b"DEL", b"PEXPIRE"]) =>
            {
                Some(b"-READONLY You can't write against a read only replica.\r\n")
            }
            Self::NoMemory if set || is(&[b"SET", b"MSETEX"]) => {
                Some(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n")
            }
            Self::DiskFull if set || is(&[b"PEXPIRE", b"MSETEX"]) || (is_write(words) && present) => Some(
                b"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
                  persist to disk.\r\n",
            ),
            Self::ReadOnly | Self::Replica | Self::NoMemory | Self::DiskFull => None,
        }
    }

    /// Returns what a server in this mood says about itself instead.
    fn disguise(self) -> Texts {
        let replica: Texts = &[
            (b"$6\r\nmaster\r\n", b"$7\r\nreplica\r\n"),
            (b"role:master\r\n", b"role:slave \r\n"),
        ];
        let cluster: Texts = &[
            (b"$10\r\nstandalone\r\n", b"$7\r\ncluster\r\n"),
            (b"_mode:standalone\r\n", b"_mode:cluster   \r\n"),
        ];
        if self == Self::Replica {
            replica
        } else if self == Self::Cluster {
            cluster
        } else {
            &[]
        }
    }
}

/// The version of the embedded store, and one of the same length that knows `DELEX`.
const NEWEST: (&[u8], &[u8]) = (b"7.0.15", b"8.4.15");

/// How servers refuse the native releases.
const DELEX_REFUSED: &[u8] = b"-NOPERM this user has no permissions to run the 'delex' command\r\n";
const DELIFEQ_REFUSED: &[u8] =
    b"-NOPERM this user has no permissions to run the 'delifeq' command\r\n";

/// A text that answers no lock command.
const NO_ANSWER: &[u8] = b"+QUEUED\r\n";

/// What a server that loses nothing in a restart says about itself.
const WRITES_THROUGH: &[u8] = b"*6\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n\
    $6\r\nalways\r\n$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n";

/// The line of `INFO` of a server that was never the replica of another.
const WAS_NEVER: &[u8] = b"master_replid2:0000000000000000000000000000000000000000\r\n";
const WAS_REPLICA: &[u8] = b"master_replid2:00000000000000000000000000000000000000ff\r\n";

/// Returns the words that ask a server to join as one that is not durable, whatever its client has read before.
fn not_durable<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut words = words.to_vec();
    if let Some(word) = words.get_mut(10).filter(|word| **word == b"1") {
        *word = b"0";
    }
    words
}

/// Appends a line to the text of a reply.
fn lengthen(out: &mut Vec<u8>, start: usize, line: &[u8]) {
    let head = out[start..].iter().position(|byte| *byte == b'\n');
    let Some(head) = head.filter(|_| matches!(out[start], b'$' | b'=')) else {
        return;
    };
    let len = millis(out[start + 1..start + head].trim_ascii()).unwrap_or(0);
    let longer = format!("{}{}\r\n", char::from(out[start]), len + line.len() as u64);
    out.truncate(out.len() - 2);
    out.extend_from_slice(line);
    out.extend_from_slice(b"\r\n");
    out.splice(start..=start + head, longer.into_bytes());
}

/// Replaces the first line that fits by another text. Returns whether there was one.
fn replace(out: &mut Vec<u8>, start: usize, (from, to): (&[u8], &[u8])) -> bool {
    let mut texts = out[start..].windows(from.len());
    let at = texts.position(|text| text == from);
    if let Some(at) = at {
        let at = start + at;
        out.splice(at..at + from.len(), to.iter().copied());
    }
    at.is_some()
}

/// Returns `true` if a command is a write. Scripts count as writes, whatever they do.
fn is_write(words: &[&[u8]]) -> bool {
    const WRITES: [&[u8]; 8] = [
        b"SET", b"MSETEX", b"EVAL", b"EVALSHA", b"DELIFEQ", b"DELEX", b"DEL", b"PEXPIRE",
    ];
    words.first().is_some_and(|verb| WRITES.contains(verb))
}

/// Returns `true` if a command is one of those by which a waiter looks at a key.
fn is_look(words: &[&[u8]]) -> bool {
    let registers = matches!(words, [b"CLIENT", b"TRACKING" | b"CACHING", ..]);
    registers || matches!(words, [b"PTTL", _])
}

/// Returns for how many milliseconds votes do not count, if an answer with this number of parts says so.
fn left_in(reply: &[u8], parts: u8) -> Option<i64> {
    let rest = reply.strip_prefix(&[b'*', b'0' + parts])?;
    let mut lines = rest.strip_prefix(b"\r\n:")?.split(|byte| *byte == b'\n');
    let second = lines.nth(1)?.strip_prefix(b":")?;
    std::str::from_utf8(second.trim_ascii()).ok()?.parse().ok()
}

/// Returns the text in a reply, if there is one.
fn text_in(reply: &[u8]) -> &[u8] {
    let text = reply.split(|byte| *byte == b'\n').nth(1);
    text.unwrap_or_default().trim_ascii()
}

/// Returns the words of a command.
pub(crate) fn words_of<'a>(value: &Value<'a>) -> Vec<&'a [u8]> {
    let Some(items) = value.as_items() else {
        return Vec::new();
    };
    let words = items.iter().map(|word| word.as_bytes().unwrap_or_default());
    words.collect()
}

/// Turns what the store says about itself into what this server would say. Returns whether the result refuses a client.
fn introduce(
    there: &Server,
    link: &mut Conn,
    words: &[&[u8]],
    (out, start): (&mut Vec<u8>, usize),
) -> bool {
    if !matches!(words, [b"HELLO" | b"INFO", ..]) {
        return false;
    }
    if there.newest {
        replace(out, start, NEWEST);
    }
    if words == [b"INFO", &b"replication"[..]] {
        let line = match there.followed {
            true => WAS_REPLICA,
            false => WAS_NEVER,
        };
        lengthen(out, start, line);
    }
    let mut changes = there.mood.disguise().iter();
    let turned_down = changes.any(|change| replace(out, start, *change));
    link.turned_down |= turned_down;
    turned_down
}

impl World {
    /// Lets a server send something without a request: a push, or an invalid reply.
    pub(crate) fn utter(&mut self, conn: usize, bytes: &[u8], garbage: bool) {
        let link = &mut self.conns[conn];
        if link.far.state != FarState::Open || link.far.ended || self.plan.clients <= link.peer {
            return;
        }
        let (from, to) = (link.far.replied, link.far.replied + bytes.len() as u64);
        if garbage {
            link.garbage.get_or_insert((from, to));
        }
        link.far.replied = to;
        self.servers[link.server].uttered |= garbage;
        self.send(conn, Way::ToClient, bytes);
    }

    pub(crate) fn wake_server(&mut self, server: usize) {
        let there = &mut self.servers[server];
        if there.up && !there.stalled && !there.serving {
            there.serving = true;
            let lag = self.entropy.span(self.plan.lag);
            self.at(self.now + lag, Event::Serve(server));
        }
    }

    /// Notes that the server has something to read.
    pub(crate) fn readable(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        let server = link.server;
        if link.far.state == FarState::Open && !link.far.ready {
            link.far.ready = true;
            self.servers[server].ready.push_back(conn);
        }
        self.wake_server(server);
    }

    /// Takes one turn of a server's loop.
    pub(crate) fn serve(&mut self, server: usize) {
        let there = &mut self.servers[server];
        there.serving = false;
        if !there.up || there.stalled {
            return;
        }
        self.push_changes(server);
        let there = &mut self.servers[server];
        if !there.paused {
            for conn in std::mem::take(&mut there.postponed) {
                self.conns[conn].far.postponed = false;
                self.read(server, conn);
            }
        }
        let mut ready = std::mem::take(&mut self.servers[server].ready);
        if ready.len() > 1 {
            let first = self.entropy.below(ready.len() as u32) as usize;
            ready.rotate_left(first);
        }
        for conn in ready.drain(..) {
            self.read(server, conn);
        }
        let there = &mut self.servers[server];
        ready.append(&mut there.ready);
        there.ready = ready;
        while let Some(conn) = self.servers[server].backlog.pop_front() {
            self.accept(server, conn);
        }
        if !self.servers[server].ready.is_empty() {
            self.wake_server(server);
        }
    }

    fn accept(&mut self, server: usize, conn: usize) {
        let there = &mut self.servers[server];
        let link = &mut self.conns[conn];
        link.far.state = FarState::Open;
        if there.crowded {
            self.turn_away(conn);
            return;
        }
        link.far.session = Some(Store::session_of(conn as u64));
        link.far.commands = Some(Box::new(Inbox::default()));
        there.open.push(conn);
        if !link.far.unread.is_empty() || link.far.ended {
            self.readable(conn);
        }
    }

    /// Lets the server read from one connection, and answer.
    fn read(&mut self, server: usize, conn: usize) {
        let link = &mut self.conns[conn];
        link.far.ready = false;
        if link.far.state != FarState::Open {
            return;
        }
        if link.far.postponed && !link.far.ended {
            return;
        }
        if link.far.postponed {
            link.far.unread.clear(); // Commands that wait are not executed when their client is gone.
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        let mut replies = std::mem::take(&mut self.replies);
        bytes.clear();
        replies.clear();
        self.conns[conn].written.together.clear();
        let far = &mut self.conns[conn].far;
        far.take(&mut bytes, READ_BYTES);
        let Some(mut commands) = far.commands.take() else {
            unreachable!("an open connection has one");
        };
        let mut piece = &bytes[..];
        let mut registers = false;
        while let Ok(Some(frame)) = commands.next(&mut piece) {
            let words = &words_of(&frame.value)[..];
            if self.servers[server].paused && is_write(words) {
                self.postpone(conn, words, piece);
                break;
            }
            let begun = self.conns[conn].begun();
            let sent = self.conns[conn].far.consume(frame.len);
            self.note_tries(conn, words, piece);
            match words {
                [_, script @ (EXTEND_EACH | RELEASE_EACH), count, rest @ ..] => {
                    let each = rest.split_at(millis(count).unwrap_or(0) as usize);
                    let (script, sight) = match *script {
                        EXTEND_EACH => (EXTEND, "ExtendedTogether"),
                        _ => (RELEASE, "ReleasedTogether"),
                    };
                    self.oracle.counts.sights.note(sight);
                    let each = (script, each.0, each.1);
                    self.run_each(conn, (sent, begun), each, registers, &mut replies);
                }
                _ if self.is_transacting(conn, words) => {
                    self.transact(conn, (sent, begun), words, &mut replies);
                }
                _ => self.execute(conn, (sent, begun), words, &mut replies),
            }
            registers = matches!(words, [b"CLIENT", b"CACHING", ..]);
        }
        let link = &mut self.conns[conn];
        link.far.commands = Some(commands);
        self.scratch = bytes;
        self.answer(conn, &replies);
        self.replies = replies;
        self.push_changes(server);
        self.done_reading(server, conn);
    }

    /// Executes a script for many keys as if each key had the single `script`. The answers are complete when all are
    /// there. If the script `registers` the keys that it reads, each does.
    fn run_each(
        &mut self,
        conn: usize,
        sent: Sent,
        (script, keys, arguments): (&[u8], &[&[u8]], &[&[u8]]),
        registers: bool,
        out: &mut Vec<u8>,
    ) {
        let header = format!("*{}\r\n", keys.len());
        out.extend_from_slice(header.as_bytes());
        let link = &mut self.conns[conn];
        link.far.replied += header.len() as u64;
        link.batched = 1 < keys.len();
        let (start, before) = (link.far.replied, link.answers.len());
        let own = arguments.chunks(arguments.len() / keys.len());
        for (key, own) in keys.iter().zip(own) {
            let mut words: Vec<&[u8]> = vec![b"EVALSHA", script, b"1", key];
            words.extend(own);
            if registers && key != &keys[0] {
                self.register_next(conn);
            }
            self.execute(conn, sent, &words, out);
        }
        let link = &mut self.conns[conn];
        link.batched = false;
        let end = link.far.replied;
        for answer in link.answers.range_mut(before..) {
            answer.end = end;
        }
        if let Some((from, to)) = &mut link.garbage
            && start <= *from
        {
            *to = end;
        }
    }

    /// Makes the next command over this connection register its keys, as if it were asked to.
    fn register_next(&mut self, conn: usize) {
        let there = &mut self.servers[self.conns[conn].server];
        let shown = there.clock.show(self.now);
        if let Some(session) = &mut self.conns[conn].far.session {
            let words: &[&[u8]] = &[b"CLIENT", b"CACHING", b"YES"];
            there.store.execute(session, shown, words, &mut Vec::new());
        }
    }

    /// Lets a write wait, and the bytes that were read after it.
    fn postpone(&mut self, conn: usize, words: &[&[u8]], behind: &[u8]) {
        let mut again = Vec::new();
        resp::command(&mut again, words);
        again.extend_from_slice(behind);
        let far = &mut self.conns[conn].far;
        far.put_back(again);
        far.postponed = true;
        let server = self.conns[conn].server;
        self.servers[server].postponed.push(conn);
    }

    fn answer(&mut self, conn: usize, replies: &[u8]) {
        if !replies.is_empty() && !self.conns[conn].far.ended {
            self.send(conn, Way::ToClient, replies);
        }
    }

    /// Lets a server send the keys that have changed to the clients that have asked for it, unless it stands still.
    pub(crate) fn push_changes(&mut self, server: usize) {
        while !self.servers[server].stalled
            && let Some((conn, bytes)) = self.servers[server].store.poll_push()
        {
            self.oracle.counts.sights.note("Pushed");
            let link = &self.conns[conn as usize];
            self.oracle.looks[link.peer][link.node].pushes += 1;
            self.utter(conn as usize, &bytes, false);
        }
    }

    /// Lets servers remove some of the expired keys. Servers do not hurry with that.
    pub(crate) fn expire_some(&mut self) {
        for server in 0..self.servers.len() {
            let there = &mut self.servers[server];
            let runs = there.up && !there.stalled && !there.paused;
            if runs && there.store.has_registrations() && self.entropy.below(2) == 0 {
                let shown = self.servers[server].clock.show(self.now);
                self.servers[server].store.expire(shown);
                self.push_changes(server);
            }
        }
    }

    /// Lets a server forget a connection, and the pushes for it.
    pub(crate) fn forget(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        if let Some(session) = link.far.session.take() {
            self.servers[link.server].store.disconnect(&session);
        }
        link.forget_far();
    }

    fn done_reading(&mut self, server: usize, conn: usize) {
        let link = &mut self.conns[conn];
        let waits = link.far.postponed && !link.far.ended;
        if !link.far.unread.is_empty() && !waits {
            self.readable(conn);
        } else if link.far.ended {
            self.forget(conn);
            self.servers[server].open.retain(|open| *open != conn);
        }
        let link = &self.conns[conn];
        if link.near.blocked && !link.near.gone {
            self.wake_peer(link.peer);
        }
    }

    pub(crate) fn execute(&mut self, conn: usize, sent: Sent, words: &[&[u8]], out: &mut Vec<u8>) {
        let (sent, begun) = sent;
        let server = self.conns[conn].server;
        let secretive = self.plan.switches.secretive_from;
        let secretive = secretive.is_some_and(|from| from <= self.now);
        let mut command = Command::of(words, &self.fenced_set);
        let transacts = self.is_transacting(conn, words);
        if transacts || self.is_probe(conn, &command) {
            command = command.unheeded();
        }
        let process = self.conns[conn].process;
        if self.is_by_keeper(process, &begun, &command) {
            command.verb = Verb::Keep;
        }
        if self.plan.is_without_scripts() && words == [&b"INFO"[..], b"memory"] {
            command.verb = Verb::Load; // The last request of a handshake.
        }
        let there = &mut self.servers[server];
        let shown = there.clock.show(self.now);
        let link = &mut self.conns[conn];
        if let Some(multi) = link.transaction.refused_multi.take()
            && words[0] != b"EXEC"
        {
            link.garbage.get_or_insert(multi); // The commands after it may be run now.
        }
        let start = out.len();
        let mut before = command.key.and_then(|key| there.token_at(shown, key));
        let held = self.held_before(server, shown, &command);
        if self.plan.has_several_holders() {
            before = held.found(command.token, |token| self.is_of_process(process, token));
        }
        let set = self.set_before(server, shown, &command);
        let there = &mut self.servers[server];
        let present = before.is_some() || set.is_any_there();
        let restarted = command.verb == Verb::Join && there.is_of_another_life(shown, words);
        let refusal = match words {
            [b"HELLO", ..] if there.old => {
                Some(&b"-ERR unknown command 'HELLO', with args beginning with: '3' \r\n"[..])
            }
            _ if self.plan.refuses_in_own_words(self.now, words) => {
                self.oracle.counts.sights.note("OwnWords");
                Some(&b"-ERR no scripts here\r\n"[..])
            }
            [b"DELEX", ..] if !there.newest => {
                Some(&b"-ERR unknown command 'DELEX', with args beginning with: \r\n"[..])
            }
            [verb @ (b"DELEX" | b"DELIFEQ"), ..] if self.plan.native_refused => {
                self.oracle.counts.sights.note("NativeRefused");
                Some(match *verb {
                    b"DELEX" => DELEX_REFUSED,
                    _ => DELIFEQ_REFUSED,
                })
            }
            [b"INFO", ..] if secretive => {
                Some(&b"-NOPERM this user has no permissions to run the 'info' command\r\n"[..])
            }
            _ => there.mood.answer(words, command.verb, present),
        };
        let trusts = command.verb == Verb::Join && words.last() == Some(&&b"trust"[..]);
        let trusted = self.conns[conn].trusted;
        if trusts && trusted && !self.oracle.knows_all(server, self.now) {
            // The operator's knowledge is out of date.
            self.suspend_exclusion(None, 0);
        }
        let there = &mut self.servers[server];
        let link = &mut self.conns[conn];
        let switches = &self.plan.switches;
        let elsewhere = switches.overtakes || switches.watches_elsewhere;
        let overtakes = elsewhere && link.written.overtakes(&command);
        // The release ran before its `SET`, and found nothing.
        let refusal = refusal.or(overtakes.then_some(b":0\r\n"));
        match (refusal, &mut link.far.session) {
            (Some(refusal), session) => {
                out.extend_from_slice(refusal);
                if let Some(session) = session.as_mut().filter(|_| link.transaction.is_queueing) {
                    // The server runs nothing of the transaction.
                    let words: &[&[u8]] = &[b"REFUSED"];
                    there.store.execute(session, shown, words, &mut Vec::new());
                }
            }
            (None, Some(session)) => match *words {
                [b"EVAL", stranger::SCRIPT, _, key, token] => {
                    let own = before == Some(token_of(token));
                    let words: &[&[u8]] = if own { &[b"DEL", key] } else { &[b"DEL", b"?"] };
                    there.store.execute(session, shown, words, out);
                }
                [b"CONFIG", b"GET", _] if self.plan.durable => {
                    there.store.execute(session, shown, &[b"PING"], out);
                    replace(out, start, (b"+PONG\r\n", WRITES_THROUGH));
                }
                // The script finds that it has been a replica.
                [b"EVAL", ..] if command.verb == Verb::Join && there.followed => {
                    let words = not_durable(words);
                    there.store.execute(session, shown, &words, out);
                }
                // All clients share one database here, but each must have selected another.
                [b"SELECT", number] => {
                    there.store.execute(session, shown, &[b"SELECT", b"0"], out);
                    let number = millis(number).unwrap_or(0);
                    link.database = u32::try_from(number).unwrap_or(0);
                }
                _ => {
                    there.store.execute(session, shown, words, out);
                    let sights = &mut self.oracle.counts.sights;
                    let turned_down = introduce(there, link, words, (out, start));
                    sights.note_if(turned_down, "TurnedDown");
                    sights.note_if(matches!(words, [b"SET", _, _, b"IFEQ", ..]), "SetIfEq");
                    sights.note_if(words[0] == b"DELIFEQ", "DelIfEq");
                    sights.note_if(words[0] == b"DELEX", "DelEx");
                    let login = words.iter().any(|word| word == b"AUTH");
                    sights.note_if(login && !out[start..].starts_with(b"-"), "LoggedIn");
                }
            },
            (None, None) => {}
        }
        self.watch_asks(conn, words, &out[start..]);
        if self.plan.has_several_holders() {
            self.note_intents(words, number_in(&out[start..]));
        }
        self.inspected(conn, words, &out[start..]);
        let there = &mut self.servers[server];
        let link = &mut self.conns[conn];
        let done = Said::of(command.verb, &out[start..]);
        let is_exec = transacts && words[0] == b"EXEC" && link.transaction.has_queued();
        // Without a floor a server does not look at its marker.
        let looked = is_of_fencing(words) && !out[start..].starts_with(b"*3\r\n:-");
        let slot = take_slot(words);
        let parts = match self.plan.is_marked() && command.verb == Verb::Set {
            true if slot.is_some() => slot.map_or(0, |(_, parts)| parts),
            true if looked => 3,
            _ => 2,
        };
        let left = left_in(&out[start..], parts).filter(|_| !transacts);
        let fence = match (left, there.fence(shown)) {
            (None, _) => Fence::None,
            (Some(0), Some(longest)) => Fence::Open(longest),
            (Some(0), None) => Fence::Broken,
            (Some(_), _) => Fence::Shut,
        };
        let kept = number_in(&out[start..]).filter(|_| command.verb == Verb::Confirm);
        let kept = kept.map_or(0, |above| u64::try_from(above - 1).unwrap_or(0));
        if restarted && self.plan.durable && there.fence(shown).is_some() {
            self.oracle.counts.sights.note("RestartTrusted");
        }
        let anew = command.verb == Verb::Join && words.last() == Some(&&b"anew"[..]);
        if anew && done == Said::One && link.peer < self.plan.clients {
            self.oracle.anew[link.peer][link.node] = self.now;
        }
        let joins = command.verb == Verb::Join;
        let open = there.fence(shown).filter(|_| joins);
        let barred = joins && open.is_none();
        let left = left_in(&out[start..], 3).filter(|_| is_inspection(words));
        let shut = fence == Fence::Shut || left.is_some_and(|left| left != 0);
        there.fenced |= shut || barred;
        if let [b"SCRIPT", b"LOAD", script] = words
            && self.fenced_set.is_empty()
            && is_fenced_set(script)
        {
            self.fenced_set.extend_from_slice(text_in(&out[start..]));
        }
        let counted = Counted::of(words, &out[start..]);
        if is_exec {
            link.transaction.ran = out[start..].to_vec();
        }
        let doubtful = there.mood == Mood::Doubtful;
        if doubtful && (is_write(words) && !transacts || is_exec) {
            out.truncate(start);
            out.extend_from_slice(DOUBT);
        }
        let garbled = there.mood == Mood::Garbled && (command.verb.is_of_locks() || is_exec);
        if garbled {
            out.truncate(start);
            out.extend_from_slice(NO_ANSWER);
        }
        let said = Said::of(command.verb, &out[start..]);
        // After a refused `SELECT` commands are about another database, and their answers are wrong.
        let elsewhere = words.first() == Some(&&b"SELECT"[..]) && said.is_error();
        // No transaction has the answer of a doubtful server.
        if doubtful && is_exec || garbled || elsewhere {
            let from = link.far.replied;
            let to = from + (out.len() - start) as u64;
            link.garbage.get_or_insert((from, to));
        }
        if !command.keys.is_empty() {
            before = set.in_the_way(number_in(&out[start..]).filter(|_| done == Said::Nil));
        }
        let changes = before.is_some() && !matches!(done, Said::Nil | Said::Zero | Said::Foreign);
        let after = match command.key {
            Some(key) if changes => there.token_at(shown, key),
            _ => before,
        };
        link.far.replied += (out.len() - start) as u64;
        let deed = Deed {
            shown,
            batched: link.batched,
            done,
            fence,
            kept,
            before,
            after,
            ..self.deed(conn, (sent, begun), command, said)
        };
        let link = &self.conns[conn];
        let jumped = self.servers[server].jumped;
        let answer = Answer {
            open,
            ..answer(link, &deed, jumped)
        };
        let token = self.executed(&deed, &held);
        self.lengthened(&deed, words);
        if let Some((id, (permits, _))) = token.zip(slot) {
            self.oracle.ledger.record_mut(id).permits = permits;
        }
        self.set_executed(&deed, &set, None);
        self.counted(&deed, counted);
        if deed.peer < self.plan.clients {
            let answers = &mut self.conns[conn].answers;
            answers.push_back(Answer { token, ..answer });
            let lock = command.key.is_some()
                || command.verb == Verb::Time
                || is_inspection(words)
                || is_of_fencing(words)
                || is_look(words)
                || is_intent(words)
                // This includes a client that was killed: what it wanted is no longer known.
                || bare::is_of_transaction(words);
            self.talk(conn, lock, said, shut);
            if self.is_look_of_waiter(conn, words) && !transacts {
                self.looked(conn);
            }
            self.asked_for_time(conn, command.verb);
        }
        let place = self.place_of(deed.peer);
        self.say(Place::Server(server), || {
            trace::executed(place, words, &out[start..])
        });
    }

    /// Records a piece of a transaction that a server has done over a connection. Its answer is part of the last reply.
    pub(crate) fn answered_in_part(
        &mut self,
        conn: usize,
        (sent, wanted): (Sent, Writing),
        piece: &bare::Done<'_>,
        names: &(SetBefore, SetBefore),
    ) {
        let deed = Deed {
            wanted,
            transacted: true,
            is_over: piece.is_over,
            kept: piece.kept,
            before: piece.before,
            after: piece.after,
            ..self.deed(conn, sent, piece.command, piece.said)
        };
        let link = &self.conns[conn];
        let answer = answer(link, &deed, self.servers[link.server].jumped);
        let token = self.executed(&deed, &Held::default());
        self.set_executed(&deed, &names.0, Some(&names.1));
        let answer = Answer { token, ..answer };
        self.conns[conn].answers.push_back(answer);
    }

    /// Returns the deed that is a command over this connection, which changes no key.
    fn deed<'a>(&self, conn: usize, sent: Sent, command: Command<'a>, said: Said) -> Deed<'a> {
        let (sent, begun) = sent;
        let link = &self.conns[conn];
        let there = &self.servers[link.server];
        Deed {
            number: self.oracle.counts.commands,
            peer: link.peer,
            process: link.process,
            conn,
            node: link.node,
            server: link.server,
            life: there.starts,
            sent,
            begun,
            wanted: begun,
            shown: there.clock.show(self.now),
            command,
            transacted: false,
            batched: false,
            is_over: false,
            done: said,
            said,
            fence: Fence::None,
            kept: 0,
            before: None,
            after: None,
        }
    }

    /// Saves the data ten times a second.
    pub(crate) fn snapshot(&mut self) {
        const KEPT: usize = (SECOND / (100 * MILLI)) as usize + 2;
        let now = self.now;
        let ever = |fault: Fault| self.plan.faults[fault as usize] > 0;
        if !ever(Fault::Amnesia) && !ever(Fault::Promote) {
            return; // No server ever loses anything.
        }
        for server in &mut self.servers {
            if server.up {
                server.snapshots.push_back((now, server.store.clone()));
                if server.snapshots.len() > KEPT {
                    server.snapshots.pop_front();
                }
            }
        }
    }
}

/// Returns the record of the answer to this deed, which ends where the server's bytes end.
fn answer(link: &Conn, deed: &Deed<'_>, jumped: Time) -> Answer {
    Answer {
        number: deed.number,
        end: link.far.replied,
        asked: link.asked(),
        since: deed.begun.since,
        verb: deed.command.verb,
        token: None,
        sent: deed.sent,
        said: deed.said,
        life: deed.life,
        jumped,
        open: None,
    }
}
