//! Worlds without scripts, and what servers do in transactions in these worlds.
//!
//! A server refuses scripts to clients (every other server forbids them, the others do not know them), and is one of
//! several kinds: with a native release, or without. A transaction of `WATCH` and `MULTI .. EXEC` names no token. So a
//! client tells the oracles the purpose of the transaction that is open over a connection. They judge each piece of it
//! like a command of its own, as soon as its answer is complete, with the keys as the earlier commands of the same
//! transaction have left them.
//!
//! A piece that waits for a transaction was requested when it began to wait: [`begun`](crate::begun) says when that
//! was.
//!
//! Only some kinds of worlds have no scripts. Ordinary worlds have scripts.
//!
//! # What it does not see
//!
//! Servers that are configured twice: a late release needs two round trips by a transaction, and a client closes such a
//! connection before that. If the client has lost the connection meanwhile, or was killed, the oracles judge a
//! transaction by the keys alone: whose key was deleted. Worlds with a strict guard, with inspections and watches have
//! scripts.

use shearline::internals::{Flavour, Refused, Store, open_work, resp, waiting_work};

use crate::clock::{MILLI, SECOND, Time};
use crate::entropy::Entropy;
use crate::kinds::kind;
use crate::oracle::{Code, Command, Said, SetBefore, Token, Verb, millis, name_of, token_of};
use crate::plan::{Guard, Kinds, Plan};
use crate::sets::SETS;
use crate::stranger::SCRIPT;
use crate::world::World;
use crate::written::{Place, Writing};

use crate::begun::AskedFor;
use crate::case::Kind;

/// When a command was sent, and how its first byte left.
pub(crate) type Sent = (Time, Writing);

/// Ordinary worlds, all of them without scripts.
pub(crate) const BARE: Kind = kind("bare", |entropy| Plan {
    bare: true,
    ..Plan::draw(entropy)
});

/// Worlds like [`BARE`] in which engines keep locks.
pub(crate) const BARE_KEEPING: Kind = kind("bare-keeping", |entropy: &mut Entropy| {
    let keeping = Kind::of_name("keeping").expect("it is known");
    Plan {
        bare: true,
        ..(keeping.draw)(entropy)
    }
});

/// Worlds like [`BARE`] in which users want several resources, which some servers take by one command.
pub(crate) const BARE_SETS: Kind = kind("bare-sets", |entropy| Plan {
    bare: true,
    ..(SETS.draw)(entropy)
});

/// Ordinary worlds in which servers refuse scripts in words of their own, mostly also to load them, and clients have to
/// find that out. Servers refuse always, or only at times, like a proxy whose error passes.
pub(crate) const DOUBTED: Kind = kind("doubted", |entropy| {
    let own_words = Some(entropy.pick(&[0, 0, 300 * MILLI, 5 * SECOND]));
    in_own_words(own_words, (BARE.draw)(entropy), entropy)
});

/// Worlds like [`DOUBTED`] in which engines keep locks.
pub(crate) const DOUBTED_KEEPING: Kind = kind("doubted-keeping", |entropy| {
    let own_words = Some(entropy.pick(&[0, 5 * SECOND]));
    in_own_words(own_words, (BARE_KEEPING.draw)(entropy), entropy)
});

fn in_own_words(own_words: Option<Time>, plan: Plan, entropy: &mut Entropy) -> Plan {
    let loads = entropy.pick(&[false, true]);
    Plan {
        own_words,
        loads,
        ..plan
    }
}

impl Plan {
    /// Returns `true` if a server refuses `words` at `now` in words of its own.
    pub(crate) fn refuses_in_own_words(&self, now: Time, words: &[&[u8]]) -> bool {
        match words {
            _ if !self.is_bare() => false,
            [b"EVAL", SCRIPT, ..] => false,
            [b"SCRIPT", ..] => self.own_words.is_some() && !self.loads,
            [b"EVAL" | b"EVALSHA", ..] => self.own_words.is_some_and(|turn| {
                let turns = now.checked_div(turn).unwrap_or(0);
                turns % 2 == 0
            }),
            _ => false,
        }
    }

    /// Returns `true` if clients know that there are no scripts.
    pub(crate) fn is_without_scripts(&self) -> bool {
        self.is_bare() && self.own_words.is_none()
    }

    /// Returns `true` if no scripts are used.
    pub(crate) fn is_bare(&self) -> bool {
        self.bare
            && self.guard != Guard::Strict
            && self.servers == self.nodes
            && self.inspects == 0
            && self.watches == 0
    }
}

/// Makes a server of this kind one that refuses scripts.
pub(crate) fn strip(store: &mut Store, number: usize, kind: Kinds, refuses: bool) {
    let how = match number % 2 {
        0 => Refused::Forbidden,
        _ => Refused::Unknown,
    };
    for command in ["eval", "evalsha", "script"] {
        store.refuse(command, refuses.then_some(how));
    }
    store.set_flavour(match kind {
        Kinds::Valkey => [Flavour::Valkey81, Flavour::Valkey, Flavour::Valkey91][number % 3],
        Kinds::Newest => Flavour::Redis84,
        Kinds::Redis | Kinds::Old | Kinds::Mixed => Flavour::Redis,
    });
}

/// Returns `true` if a command belongs to a transaction, or reads for one.
pub(crate) fn is_of_transaction(words: &[&[u8]]) -> bool {
    const ALL: [&[u8]; 7] = [
        b"WATCH", b"MULTI", b"EXEC", b"GET", b"PTTL", b"PEXPIRE", b"MSETEX",
    ];
    words.first().is_some_and(|word| ALL.contains(word))
}

/// A `SET` of a transaction.
fn is_set(words: &[&[u8]]) -> bool {
    matches!(words, [b"SET", _, _, b"NX", b"PX", _])
}

/// The state of a connection's transaction, as its server sees it.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// Between `MULTI` and `EXEC`.
    pub(crate) is_queueing: bool,
    queue: Vec<Queued>,
    reading: Option<Reading>,
    /// The error by which the latest `MULTI` was refused: mostly that of the empty transaction before a `WATCH`.
    pub(crate) trial: Option<Code>,
    /// The refusal of a `MULTI` that should have been accepted, unless its transaction was empty.
    pub(crate) refused_multi: Option<(u64, u64)>,
    /// `true` if a transaction follows the reads.
    is_to_write: bool,
    /// The token for which the client tries all ways to release, one after the other, and the number of commands for
    /// that.
    tries: Option<(Token, u32)>,
    /// How the first command of the transaction left, after the empty one.
    begun: Option<(Time, Writing)>,
    /// The keys that the transaction does not see, because it overtakes their `SET`.
    unseen: Vec<Vec<u8>>,
    /// The key that was just read. The next question for its remaining time belongs to the transaction, not to a
    /// waiter.
    got: Option<Vec<u8>>,
    /// The values of all keys before `EXEC`.
    held: Holdings,
    /// The result of `EXEC`, whatever its client was told.
    pub(crate) ran: Vec<u8>,
    /// The requests without an answer yet, and when they were made.
    asked: AskedFor,
}

impl Transaction {
    /// Returns `true` if there are commands between `MULTI` and `EXEC` that `EXEC` has to run.
    pub(crate) fn has_queued(&self) -> bool {
        self.queue.iter().any(|queued| queued.refused.is_none())
    }
}

/// The values of the keys while a transaction is executed, command by command. Indexed by the numbers of the resources.
#[derive(Clone, Debug, Default)]
struct Holdings(Vec<Option<Token>>);

impl Holdings {
    fn of(&self, key: &[u8]) -> Option<Token> {
        self.0.get(name_of(key)).copied().flatten()
    }

    fn put(&mut self, key: &[u8], token: Option<Token>) {
        if let Some(held) = self.0.get_mut(name_of(key)) {
            *held = token;
        }
    }

    /// Applies the next command, which was answered with `reply`.
    fn go_on(&mut self, queued: &Queued, reply: &[u8]) {
        match (&queued.verb[..], &queued.set) {
            (b"DELETE", _) if integer(reply) == Some(1) => self.put(&queued.key, None),
            (_, Some((token, keys))) if queued.has_set(reply) => {
                let token = Some(token_of(token));
                keys.iter().for_each(|key| self.put(key, token));
            }
            _ => {}
        }
    }

    /// Returns the values of these keys, if there are several.
    fn of_all(&self, keys: &[Vec<u8>]) -> SetBefore {
        match keys {
            [] | [_] => SetBefore::default(),
            keys => SetBefore::of(keys.iter().map(|key| (name_of(key), self.of(key)))),
        }
    }
}

/// A command between `MULTI` and `EXEC`.
#[derive(Debug)]
struct Queued {
    verb: Vec<u8>,
    key: Vec<u8>,
    /// The value that is set, and the keys.
    set: Option<(Vec<u8>, Vec<Vec<u8>>)>,
    ttl: u64,
    refused: Option<Code>,
    /// The value of the key before `EXEC`.
    before: Option<Token>,
}

impl Queued {
    fn of(words: &[&[u8]], refused: Option<Code>) -> Self {
        let owned = |word: &&[u8]| word.to_vec();
        let set: Option<(Vec<u8>, Vec<Vec<u8>>)> = match *words {
            [b"SET", key, token, ..] => Some((token.to_vec(), vec![key.to_vec()])),
            [b"MSETEX", _, ref pairs @ .., b"NX", b"PX", _] => {
                let keys = pairs.iter().step_by(2).map(owned);
                Some((owned(&pairs[1]), keys.collect()))
            }
            _ => None,
        };
        let ttl = words.last().filter(|_| set.is_some()).or(words.get(2));
        Self {
            verb: match words.get(2) == Some(&&b"-1"[..]) {
                true => b"DELETE".to_vec(),
                false => words[0].to_vec(),
            },
            key: set
                .as_ref()
                .map_or(words[1].to_vec(), |(_, keys)| keys[0].clone()),
            set,
            ttl: ttl.and_then(|ttl| millis(ttl)).unwrap_or(0),
            refused,
            before: None,
        }
    }

    /// Returns `true` if the command takes its keys, according to this answer.
    fn has_set(&self, reply: &[u8]) -> bool {
        match &self.verb[..] {
            b"MSETEX" => integer(reply) == Some(1),
            _ => self.set.is_some() && reply == b"+OK\r\n",
        }
    }

    /// Returns what the command did to the key of a lock if `reply` is its answer, for a command whose caller is
    /// unknown.
    fn deed(&self, reply: &[u8]) -> Option<&'static str> {
        match &self.verb[..] {
            b"DELETE" => (integer(reply) == Some(1)).then_some("release"),
            b"PEXPIRE" => (self.ttl != 0 && integer(reply) == Some(1)).then_some("extend"),
            _ => self.has_set(reply).then_some("take"),
        }
    }
}

/// The commands that read for the pieces of a transaction, in their order.
#[derive(Debug)]
struct Reading {
    work: Vec<Work>,
    /// The answers to the commands, each with the place of its piece.
    places: Vec<usize>,
    next: usize,
    shown: Vec<Seen>,
    /// How many pieces of the batch have nothing to read. All were refused at the beginning.
    others: usize,
    refused: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    refused: Option<Code>,
    missing: bool,
    /// The first that was read, and how many.
    foreign: Option<Token>,
    foreigners: usize,
}

/// A piece of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    what: &'static str,
    names: Vec<Vec<u8>>,
    pub(crate) token: Vec<u8>,
    ttl: u64,
    /// The number of its commands between `MULTI` and `EXEC`.
    steps: usize,
    /// A number for the caller that has asked for the piece, or 0 if that is not known.
    pub(crate) asker: u64,
    /// The caller no longer wants the piece: its call ended without it. It is done because it was begun.
    is_over: bool,
}

impl Work {
    fn watches(&self) -> bool {
        ["release", "extend", "probe", "take"].contains(&self.what)
    }

    /// Returns `true` if the piece takes its keys without reading them first.
    fn is_at_once(&self) -> bool {
        self.what == "take at once"
    }

    /// Returns the piece as a command about its `names`.
    fn command<'a>(&'a self, verb: Verb, names: &'a [&'a [u8]], ttl: &'a [u8]) -> Command<'a> {
        Command {
            keys: if names.len() == 1 { &[] } else { names },
            ..Command::about(verb, names[0], &self.token, ttl)
        }
    }

    pub(crate) fn verb(&self) -> Option<Verb> {
        match self.what {
            "release" => Some(Verb::Release),
            "extend" => Some(Verb::Extend),
            "confirm" => Some(Verb::Confirm),
            "take" | "take at once" => Some(Verb::Set),
            _ => None,
        }
    }

    /// Returns how many commands read for the piece.
    fn reads(&self) -> usize {
        let each = match self.what {
            "release" => 1,
            "extend" => 2,
            _ => 3,
        };
        each * self.names.len()
    }

    /// Returns the result of its commands, and for how many milliseconds the key is kept. Returns `None` if the piece
    /// is done once more.
    fn said(&self, commands: &[(&Queued, &[u8])]) -> Option<(Said, u64)> {
        let ones = |reply: &[u8]| integer(reply) == Some(1);
        let is_ours = |reply: &[u8]| token_in(reply) == Some(token_of(&self.token));
        let is_done = |queued: &Queued, reply: &[u8]| match &queued.verb[..] {
            b"PTTL" => integer(reply).is_some_and(|left| -1 <= left),
            b"SET" => reply == b"+OK\r\n",
            _ => ones(reply),
        };
        let mut all = commands.iter();
        let deleted = all.clone().filter(|(_, reply)| ones(reply)).count();
        let said = match self.what {
            "release" if deleted == self.names.len() => Said::One,
            "release" if commands.len() < self.names.len() => Said::Foreign,
            "release" => Said::Zero,
            "extend" if all.all(|(queued, reply)| is_done(queued, reply)) => Said::One,
            "extend" => Said::Zero,
            "take" if all.all(|(queued, reply)| is_done(queued, reply)) => Said::Ok,
            "take" => return None,
            "take at once" => {
                let set = all.find(|(queued, _)| queued.verb == b"MSETEX")?;
                match integer(set.1)? {
                    1 => Said::Ok,
                    _ => {
                        all.find(|(_, reply)| !is_null(reply) && !is_ours(reply))?;
                        Said::Nil
                    }
                }
            }
            _ => {
                let read = commands.chunks_exact(2);
                let mut tokens = read.clone().map(|pair| pair[0].1);
                let is_foreign = |reply: &[u8]| !is_null(reply) && !is_ours(reply);
                if tokens.clone().any(is_foreign) {
                    return Some((Said::Foreign, 0));
                }
                let left = read.map(|pair| match integer(pair[1].1) {
                    Some(-1) => u64::MAX / 4_000_000,
                    left => left.and_then(|left| u64::try_from(left).ok()).unwrap_or(0),
                });
                let ended = commands.iter().any(|(_, reply)| integer(reply) == Some(-2));
                return Some(match ended || tokens.any(is_null) {
                    true => (Said::Zero, 0),
                    false => (Said::One, left.min().unwrap_or(0)),
                });
            }
        };
        Some((said, 0))
    }
}

/// What a server has done for a piece of a transaction.
pub(crate) struct Done<'a> {
    pub(crate) command: Command<'a>,
    pub(crate) said: Said,
    pub(crate) kept: u64,
    pub(crate) before: Option<Token>,
    pub(crate) after: Option<Token>,
    pub(crate) is_over: bool,
}

/// A piece, and the values of the keys before and after it.
type Piece = (Work, Holdings, Holdings);

/// Returns what these commands did according to their answers, with the values of the keys before and after each piece.
/// Also moves `held` from before all pieces to after them. Consecutive commands for one lock are one piece.
fn pieces_of(commands: &[(&Queued, &[u8])], held: &mut Holdings) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (queued, reply) in commands {
        let before = held.clone();
        held.go_on(queued, reply);
        let (token, names) = match &queued.set {
            Some((token, keys)) => (Some(token.clone()), &keys[..]),
            None => {
                let owner = before.of(&queued.key).map(|token| token.to_vec());
                (owner, std::slice::from_ref(&queued.key))
            }
        };
        let (Some(what), Some(token)) = (queued.deed(reply), token) else {
            continue;
        };
        let is_of = |work: &Work| {
            let same = token_of(&work.token) == token_of(&token);
            same && work.what == what && work.ttl == queued.ttl
        };
        match pieces.last_mut().filter(|(work, ..)| is_of(work)) {
            Some((work, _, after)) => {
                work.names.extend_from_slice(names);
                *after = held.clone();
            }
            None => {
                let work = Work {
                    what,
                    names: names.to_vec(),
                    token,
                    ttl: queued.ttl,
                    steps: 1,
                    asker: 0,
                    is_over: false,
                };
                pieces.push((work, before, held.clone()));
            }
        }
    }
    pieces
}

fn refusal(reply: &[u8]) -> Option<Code> {
    reply.strip_prefix(b"-").map(Code::of)
}

fn is_null(reply: &[u8]) -> bool {
    matches!(reply, b"$-1\r\n" | b"_\r\n")
}

fn integer(reply: &[u8]) -> Option<i64> {
    let digits = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the parts of an array of texts and integers.
fn parts(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let end = |text: &[u8]| Some(text.iter().position(|byte| *byte == b'\n')? + 1);
    let (mut rest, first) = (reply.strip_prefix(b"*")?, reply.get(1)?);
    if *first == b'-' {
        return None; // A null.
    }
    rest = &rest[end(rest)?..];
    while !rest.is_empty() {
        let mut len = end(rest)?;
        if rest[0] == b'$' && rest[1] != b'-' {
            len += millis(rest[1..len].trim_ascii())? as usize + 2;
        }
        let (part, behind) = rest.split_at_checked(len)?;
        parts.push(part);
        rest = behind;
    }
    Some(parts)
}

/// Returns the token in an answer to `GET`.
fn token_in(reply: &[u8]) -> Option<Token> {
    let header = reply.iter().position(|byte| *byte == b'\n')?;
    reply[header + 1..].strip_suffix(b"\r\n").map(token_of)
}

impl World {
    /// Returns `true` for a release before the first `SET` of a connection, by which a client asks whether it
    /// could release in this way.
    pub(crate) fn is_probe(&self, conn: usize, command: &Command<'_>) -> bool {
        let (Verb::Release, Some(token)) = (command.verb, command.token) else {
            return false;
        };
        let link = &self.conns[conn];
        if !self.plan.is_bare() || self.plan.clients <= link.peer {
            return false;
        }
        let tries = link.transaction.tries;
        if tries.is_some_and(|(tried, _)| tried == token) {
            return true;
        }
        let ledger = &self.oracle.ledger;
        // A majority may have granted the lock meanwhile, but this is still sent before its `SET`.
        ledger.find(&token).is_none_or(|id| {
            ledger.record(id).releases == 0 && ledger.cell(id, link.node).sets == 0
        })
    }

    /// Notes that the client begins to try all ways to release. They begin with this command, and the next follows
    /// before it is answered. `behind` is what the server reads together with this one; the rest may be on its way, or
    /// wait for room.
    pub(crate) fn note_tries(&mut self, conn: usize, words: &[&[u8]], behind: &[u8]) {
        let link = &mut self.conns[conn];
        let tries = &mut link.transaction.tries;
        let left = tries.filter(|(_, left)| *left != 0);
        match *words {
            [b"DELIFEQ", key, token] => {
                let mut next = Vec::new();
                resp::command(&mut next, &[b"DELEX", key, b"IFEQ", token]);
                let rest = link.far.unread.iter().chain(link.up.bytes());
                let all = behind.iter().chain(rest).chain(&link.near.cut_off);
                let is_tried = all.take(next.len()).eq(&next);
                *tries = is_tried.then(|| (token_of(token), 2)); // `DELEX` and `SET IFEQ`, once each.
            }
            [b"DELEX", ..] | [b"SET", _, _, b"IFEQ", ..] => {
                *tries = left.map(|(token, left)| (token, left - 1));
            }
            _ => *tries = None,
        }
    }

    /// Returns `true` if with this command of the connection a waiter looks at a key. A command that reads for a
    /// transaction is not such a look, even if its client has lost the connection since: it reads the key first.
    pub(crate) fn is_look_of_waiter(&mut self, conn: usize, words: &[&[u8]]) -> bool {
        let got = &mut self.conns[conn].transaction.got;
        match *words {
            [b"GET", key] => {
                *got = Some(key.to_vec());
                false
            }
            [b"PTTL", key] => got.take().as_deref() != Some(key),
            _ => {
                *got = None;
                false
            }
        }
    }

    /// Returns `true` if a command of this connection belongs to a transaction.
    pub(crate) fn is_transacting(&self, conn: usize, words: &[&[u8]]) -> bool {
        let link = &self.conns[conn];
        let queues = link.transaction.is_queueing;
        let open = queues || link.transaction.reading.is_some();
        let begins = matches!(words[0], b"WATCH" | b"MULTI" | b"EXEC" | b"MSETEX");
        self.plan.is_bare()
            && link.peer < self.plan.clients
            && (is_of_transaction(words) && (open || begins) || queues && is_set(words))
    }

    /// Notes that the pieces which wait over a connection, until no transaction is open, have been requested by now.
    pub(crate) fn asked_to_wait(&mut self, client: usize, conn: usize, wanted: Writing) {
        let Some(id) = self.conns[conn].id else {
            return;
        };
        let ledger = &self.oracle.ledger;
        // The copies that a failed attempt has left are released once, so the caller of that release is known.
        let was_held = |token: &[u8]| {
            let id = ledger.find(&token_of(token));
            id.is_some_and(|id| ledger.record(id).granted < Place::MAX)
        };
        let waiting = waiting_work(&self.clients[client].engine, id);
        let waiting = waiting.filter(|(what, token, _)| *what != "release" || was_held(token));
        let waiting = waiting.map(|(what, token, asker)| (what, token_of(token), asker));
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() && self.conns[conn].transaction.asked.is_empty() {
            return;
        }
        let (open, now) = (self.open_work(conn), self.now);
        let there = &mut self.conns[conn].transaction;
        there.asked.waits(&waiting, &open, (wanted, now));
    }

    /// Returns the work that a client wants to do by the transaction that is open over a connection.
    fn open_work(&self, conn: usize) -> Vec<Work> {
        let link = &self.conns[conn];
        let client = &self.clients[link.peer];
        let present =
            client.alive && client.process == link.process && client.links[link.node] == Some(conn);
        let id = link.id.filter(|_| present);
        let work = id.into_iter().flat_map(|id| open_work(&client.engine, id));
        work.map(|(what, names, token, ttl, steps, (asker, wanted))| Work {
            what,
            names,
            token,
            ttl,
            steps,
            asker,
            is_over: !wanted,
        })
        .collect()
    }

    /// Notes that a server executes a command of a transaction.
    pub(crate) fn transact(&mut self, conn: usize, sent: Sent, words: &[&[u8]], out: &mut Vec<u8>) {
        let start = out.len();
        if self.plan.switches.watches_elsewhere && words[0] == b"WATCH" {
            self.conns[conn].transaction.unseen = self.overtaken(conn);
        }
        if words[0] == b"EXEC" {
            let held = self.holdings(conn);
            let there = &mut self.conns[conn].transaction;
            for queued in &mut there.queue {
                queued.before = held.of(&queued.key);
            }
            there.held = held;
            there.ran.clear();
        }
        let unseen = &self.conns[conn].transaction.unseen;
        match *words {
            [verb @ (b"GET" | b"PEXPIRE"), key, ref rest @ ..]
                if unseen.iter().any(|k| k == key) =>
            {
                let words = [&[verb, b"?"], rest].concat();
                self.execute(conn, sent, &words, out);
            }
            _ => self.execute(conn, sent, words, out),
        }
        let reply = out[start..].to_vec();
        // The work was requested when the transaction began. If the client has lost the connection, only that is known,
        // and what was read.
        let work = self.open_work(conn);
        let there = &mut self.conns[conn].transaction;
        let watches = words[0] != b"MULTI"
            || match &work[..] {
                [] => there.is_to_write,
                work => work.iter().any(Work::watches),
            };
        // The client may have given up the work that it read for, and then this is another transaction.
        there.is_to_write &= watches;
        let begun = &mut self.conns[conn].transaction.begun;
        let sent = match words[0] {
            b"WATCH" => *begun.insert(sent),
            b"MULTI" if !watches => *begun.insert(sent),
            b"EXEC" => begun.unwrap_or(sent),
            _ => *begun.get_or_insert(sent),
        };
        match *words {
            [b"MULTI"] => self.multi_begins(conn, &reply),
            [b"WATCH", ..] => self.watch_begins(conn, &reply),
            [b"EXEC"] => self.exec_ends(conn, sent, &reply),
            [_, _, ..] if self.conns[conn].transaction.is_queueing => {
                let queued = Queued::of(words, refusal(&reply));
                self.conns[conn].transaction.queue.push(queued);
            }
            _ => self.reads_on(conn, sent, words, &reply),
        }
    }

    /// Returns the values of all keys on the server of a connection.
    fn holdings(&self, conn: usize) -> Holdings {
        let server = &self.servers[self.conns[conn].server];
        let shown = server.clock.show(self.now);
        let names = self.names.iter();
        Holdings(names.map(|name| server.token_at(shown, name)).collect())
    }

    /// Returns the keys that will be deleted, and were set by commands that the server read together with the deletion.
    fn overtaken(&self, conn: usize) -> Vec<Vec<u8>> {
        let together = &self.conns[conn].written.together;
        let work = self.open_work(conn).into_iter();
        let work = work.filter(|work| work.what == "release");
        let work = work.filter(|work| together.contains(&token_of(&work.token)));
        work.flat_map(|work| work.names).collect()
    }

    fn multi_begins(&mut self, conn: usize, reply: &[u8]) {
        let work = self.open_work(conn);
        let takes = !work.iter().any(Work::watches) && work.iter().any(Work::is_at_once);
        let link = &mut self.conns[conn];
        let there = &mut link.transaction;
        there.queue.clear();
        there.is_queueing = reply == b"+OK\r\n";
        there.trial = refusal(reply);
        let writes = std::mem::take(&mut there.is_to_write);
        if (writes || takes) && there.trial.is_some() {
            let end = link.far.replied;
            there.refused_multi = Some((end - reply.len() as u64, end));
        }
    }

    /// Handles the first command that reads.
    fn watch_begins(&mut self, conn: usize, reply: &[u8]) {
        let mut work = self.open_work(conn);
        let others = work.iter().filter(|work| work.is_at_once()).count();
        work.retain(Work::watches);
        let there = &mut self.conns[conn].transaction;
        let refused = there.trial.take().or(refusal(reply));
        let places = work.iter().enumerate();
        let places = places.flat_map(|(place, work)| std::iter::repeat_n(place, work.reads()));
        let places: Vec<usize> = places.collect();
        let seen = Seen {
            refused,
            ..Seen::default()
        };
        there.reading = (!work.is_empty()).then(|| Reading {
            places,
            next: 0,
            shown: vec![seen; work.len()],
            work,
            others,
            refused: refused.is_some(),
        });
    }

    /// Handles a further command that reads. After the last one, some pieces are answered.
    fn reads_on(&mut self, conn: usize, sent: Sent, words: &[&[u8]], reply: &[u8]) {
        let there = &mut self.conns[conn].transaction;
        if words[0] == b"MSETEX" {
            // The client only asks whether the command may be run, unless `MULTI` was refused a moment ago.
            if integer(reply) == Some(1) {
                let queued = [Queued::of(words, None)];
                let mut held = self.holdings(conn);
                for (_, keys) in queued.iter().filter_map(|queued| queued.set.as_ref()) {
                    keys.iter().for_each(|key| held.put(key, None)); // It takes the keys that no client holds.
                }
                let ran = [b"*1\r\n", reply].concat();
                self.unasked(conn, sent, (&queued, &ran), held);
            }
            return;
        }
        let Some(mut reading) = there.reading.take() else {
            return;
        };
        let place = reading.places[reading.next];
        let (work, seen) = (&reading.work[place], &mut reading.shown[place]);
        let is_try = words[0] == b"PEXPIRE";
        let complaint = is_try && reply.starts_with(b"-ERR");
        seen.refused = seen.refused.or(refusal(reply).filter(|_| !complaint));
        if words[0] == b"GET" {
            seen.missing |= is_null(reply);
            let token = token_in(reply).filter(|_| reply.starts_with(b"$"));
            let foreign = token.filter(|token| *token != token_of(&work.token));
            seen.foreigners += usize::from(foreign.is_some());
            seen.foreign = seen.foreign.or(foreign);
        } else {
            seen.missing |= integer(reply) == Some(-2);
        }
        reading.next += 1;
        if reading.next < reading.places.len() {
            self.conns[conn].transaction.reading = Some(reading);
            return;
        }
        let asked = &mut self.conns[conn].transaction.asked;
        asked.begins(&reading.work, sent);
        let mut all_refused = reading.shown.iter().all(|seen| seen.refused.is_some());
        all_refused &= reading.others == 0 || reading.refused;
        if all_refused && 1 < reading.work.len() + reading.others {
            return; // Each piece is requested alone.
        }
        for (work, seen) in reading.work.iter().zip(&reading.shown) {
            let said = match (seen.refused, work.what) {
                (Some(code), _) => Said::Refused(code),
                (None, "extend") if 0 < seen.foreigners => Said::Foreign,
                (None, "take") if 0 < seen.foreigners => Said::Nil,
                (None, _) if seen.foreigners == work.names.len() => Said::Foreign,
                (None, "extend") if seen.missing => Said::Zero,
                (None, what) => {
                    self.conns[conn].transaction.is_to_write |= what != "probe";
                    continue;
                }
            };
            let single = work.names.len() == 1 || said == Said::Nil;
            let found = seen.foreign.filter(|_| single);
            self.piece_done(conn, sent, work, (said, 0), (found, found));
        }
    }

    /// Handles the answer to `EXEC`.
    fn exec_ends(&mut self, conn: usize, sent: Sent, reply: &[u8]) {
        let there = &mut self.conns[conn].transaction;
        there.is_queueing = false;
        there.begun = None;
        let queue = std::mem::take(&mut there.queue);
        let ran = std::mem::take(&mut there.ran);
        let mut held = std::mem::take(&mut there.held);
        let work = self.open_work(conn);
        if queue.is_empty() {
            let trial = &mut self.conns[conn].transaction.trial;
            *trial = trial.or(refusal(reply));
            if let Some(code) = trial.filter(|_| !work.iter().any(Work::watches)) {
                // It was no trial: pieces that only read have none.
                for work in &work {
                    let said = (Said::Refused(code), 0);
                    self.piece_done(conn, sent, work, said, (None, None));
                }
            }
            return;
        }
        self.conns[conn].transaction.asked.begins(&work, sent);
        let parts = parts(reply);
        let name = match &parts {
            Some(_) => "ExecDone",
            None if is_null(reply) || reply == b"*-1\r\n" => "ExecAborted",
            None => "ExecRefused",
        };
        self.oracle.counts.sights.note(name);
        let Some(parts) = parts.filter(|parts| parts.len() == queue.len()) else {
            let refused = queue.iter().any(|queued| queued.refused.is_some());
            if reply.starts_with(b"-EXECABORT") {
                // If none of them was refused, `EXEC` itself was: its refusal applies to each.
                let own = refusal(reply).filter(|_| !refused);
                self.refused_pieces(conn, sent, (&work, &queue), own);
            } else if name == "ExecRefused" {
                self.unasked(conn, sent, (&queue, &ran), held); // The answer was lost, or there is none.
            }
            return;
        };
        if work.iter().map(|work| work.steps).sum::<usize>() != queue.len() {
            return self.unasked(conn, sent, (&queue, reply), held);
        }
        let commands: Vec<_> = queue.iter().zip(parts).collect();
        let mut rest = &commands[..];
        for work in &work {
            let (own, behind) = rest.split_at(work.steps);
            rest = behind;
            let before = held.clone();
            for (queued, reply) in own {
                held.go_on(queued, reply);
            }
            let Some(said) = work.said(own).filter(|_| !own.is_empty()) else {
                continue;
            };
            let (was, is) = (before.of(&work.names[0]), held.of(&work.names[0]));
            let both = before.of_all(&work.names);
            let found = both.first_other(&token_of(&work.token));
            let found = found.filter(|_| said.0 == Said::Nil);
            let of_one = match (work.names.len(), said.0, work.what) {
                (1, Said::One, "release") => (was, is),
                (1, ..) => (was, was),
                _ => (found, found),
            };
            let names = (both, held.of_all(&work.names));
            self.piece_done_of(conn, sent, work, said, of_one, names);
        }
        self.are_held(conn, &held);
    }

    /// Checks that the keys have the values that follow from all answers to a transaction.
    fn are_held(&mut self, conn: usize, held: &Holdings) {
        let server = self.conns[conn].server;
        self.object_if(self.holdings(conn).0 != held.0, "set", || {
            format!("server {server} has other keys than its answers say")
        });
    }

    /// Handles a transaction some of whose commands were refused, so that nothing was done. The refused pieces are
    /// answered.
    fn refused_pieces(
        &mut self,
        conn: usize,
        sent: Sent,
        (work, queue): (&[Work], &[Queued]),
        all: Option<Code>,
    ) {
        let mut rest = queue;
        for work in work {
            let Some((own, behind)) = rest.split_at_checked(work.steps) else {
                return;
            };
            rest = behind;
            let is_refused = |it: &Queued| it.verb == b"MSETEX" && it.refused.is_some();
            if own.iter().any(is_refused) {
                continue; // The client does it in another way.
            }
            let refused = own.iter().find_map(|queued| queued.refused);
            if let Some(code) = refused.or(all).filter(|_| !own.is_empty()) {
                let single = work.names.len() == 1;
                let before = own[0].before.filter(|_| single);
                let said = (Said::Refused(code), 0);
                self.piece_done(conn, sent, work, said, (before, before));
            }
        }
    }

    /// Judges a transaction whose answer was lost, or for which no caller waits any more. The keys that it changed
    /// still had an owner. The commands for one lock are one piece, as they were requested.
    fn unasked(
        &mut self,
        conn: usize,
        sent: Sent,
        (queue, reply): (&[Queued], &[u8]),
        mut held: Holdings,
    ) {
        let Some(parts) = parts(reply).filter(|parts| parts.len() == queue.len()) else {
            return; // It was not run.
        };
        let commands: Vec<_> = queue.iter().zip(parts).collect();
        let pieces = pieces_of(&commands, &mut held);
        for (mut work, before, after) in pieces {
            let token = token_of(&work.token);
            if let Some(id) = self.oracle.ledger.find(&token) {
                let names = &self.oracle.ledger.record(id).names;
                if !names.is_empty() {
                    let names = names.iter().map(|name| self.names[*name].to_vec());
                    work.names = names.collect();
                }
            }
            let all = work.names.iter().all(|name| after.of(name) == Some(token));
            let said = match work.what {
                "take" if !all => continue, // It took only some of its names.
                "take" => Said::Ok,
                "extend" if !all => Said::Zero,
                _ => Said::One,
            };
            let (was, is) = (before.of(&work.names[0]), after.of(&work.names[0]));
            let of_one = match (work.names.len(), work.what) {
                (1, "release" | "extend") => (was, is),
                _ => (None, None),
            };
            let names = (before.of_all(&work.names), after.of_all(&work.names));
            self.piece_done_of(conn, sent, &work, (said, 0), of_one, names);
        }
        self.are_held(conn, &held);
    }

    /// Handles a piece of a transaction that a server has done or refused.
    fn piece_done(
        &mut self,
        conn: usize,
        sent: Sent,
        work: &Work,
        said: (Said, u64),
        both: (Option<Token>, Option<Token>),
    ) {
        let names = (SetBefore::default(), SetBefore::default());
        self.piece_done_of(conn, sent, work, said, both, names);
    }

    /// Handles such a piece. `names` holds the values of its names before and after, if there are several.
    fn piece_done_of(
        &mut self,
        conn: usize,
        sent: Sent,
        work: &Work,
        (said, kept): (Said, u64),
        (before, after): (Option<Token>, Option<Token>),
        names: (SetBefore, SetBefore),
    ) {
        let Some(verb) = work.verb() else {
            return;
        };
        let (sent, wanted) = self.conns[conn].transaction.asked.ends(work, sent);
        let ttl = work.ttl.to_string();
        let has_ttl = [Verb::Extend, Verb::Set].contains(&verb);
        let ttl = if has_ttl { ttl.as_bytes() } else { &[] };
        let all: Vec<&[u8]> = work.names.iter().map(Vec::as_slice).collect();
        let mut command = work.command(verb, &all, ttl);
        let process = self.conns[conn].process;
        if self.is_by_keeper(process, &wanted, &command) {
            command.verb = Verb::Keep;
        }
        self.oracle.counts.sights.note("Transacted");
        let name = match (work.is_at_once(), said) {
            (true, Said::Ok) => Some("TakenAtOnce"),
            (true, Said::Nil) => Some("RefusedAtOnce"),
            (false, Said::Ok) => Some("TakenByReading"),
            _ => None,
        };
        if let Some(name) = name {
            self.oracle.counts.sights.note(name);
        }
        let is_over = work.is_over;
        let done = Done {
            command,
            said,
            kept,
            before,
            after,
            is_over,
        };
        self.answered_in_part(conn, (sent, wanted), &done, &names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{effort, is_long};
    use crate::sweep;

    #[test]
    fn the_parts_of_an_answer_are_told_apart() {
        let reply = b"*5\r\n:1\r\n$2\r\nab\r\n$-1\r\n_\r\n-ERR x y\r\n";
        let all = [":1\r\n", "$2\r\nab\r\n", "$-1\r\n", "_\r\n", "-ERR x y\r\n"];
        assert_eq!(parts(reply).expect("an array"), all.map(str::as_bytes));
        assert_eq!(token_in(b"$2\r\nab\r\n"), Some(token_of(b"ab")));
        assert_eq!((parts(b"*-1\r\n"), parts(b"-ERR\r\n")), (None, None));
        assert_eq!(parts(b"*0\r\n"), Some(Vec::new()));
    }

    const OF_ALL: &str = "Transacted ExecDone ExecAborted DelIfEq DelEx SetIfEq CopiedLate";

    /// Plays the histories of a kind, and checks that each event of `seen` happens in them.
    fn keep_their_promises(kind: Kind, few: u64, seen: &str) {
        let tally = sweep::keep_their_promises(kind, effort(few, 40));
        // A few histories do not contain every kind of server.
        let (least, names) = match is_long() {
            true => (10, format!("{OF_ALL} {seen}")),
            false => (0, "Transacted".to_owned()),
        };
        for name in names.split_whitespace() {
            let times = tally.counts.sights.of(name);
            assert!(least < times, "{name} only {times} times");
        }
    }

    #[test]
    fn worlds_without_scripts_keep_their_promises() {
        keep_their_promises(BARE, 10, "");
        keep_their_promises(BARE_KEEPING, 10, "");
    }

    #[test]
    fn worlds_whose_servers_refuse_scripts_in_own_words_keep_their_promises() {
        keep_their_promises(DOUBTED, 10, "");
        keep_their_promises(DOUBTED_KEEPING, 4, "");
    }

    #[test]
    fn sets_without_scripts_keep_their_promises() {
        keep_their_promises(BARE_SETS, 2, "TakenAtOnce RefusedAtOnce TakenByReading");
    }
}
