//! Worlds without scripts: which they are, and what servers do in transactions there.
//!
//! A server refuses scripts to clients (every other server forbids them, the others do not know them), and
//! is one of several kinds: with a native release, or without. What is done by `WATCH` and `MULTI .. EXEC`
//! names no token. So a client tells what the transaction is for that is open over a connection, and each
//! piece of it is judged by the oracles as if it had been a command of its own: when the answer to it is
//! complete, and by what each command before it in the same transaction has left of the keys.
//!
//! What waits for a transaction was asked for when it began to wait: [`begun`](crate::begun) says when that was.
//!
//! Kinds of worlds are such, and no ordinary one.
//!
//! # What it does not see
//!
//! Servers that are configured twice: what is owed to one of them needs two round trips by a transaction, and a
//! client closes such a connection before that. What a server does in a transaction for a client that has lost the
//! connection meanwhile, or was killed, is judged by the keys alone: whose was deleted. Worlds with a strict guard,
//! with inspections and watches have scripts.

use shearline::internals::resp;
use shearline::internals::{Flavour, Refused};
use shearline::internals::{Store, open_work, waiting_work};

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

/// Ordinary worlds, all of them without scripts.
pub(crate) const BARE: Kind = kind("bare", |entropy| Plan {
    bare: true,
    ..Plan::draw(entropy)
});

/// The same while engines keep locks.
pub(crate) const BARE_KEEPING: Kind = kind("bare-keeping", |entropy: &mut Entropy| {
    let keeping = Kind::of_name("keeping").expect("it is known");
    Plan {
        bare: true,
        ..(keeping.draw)(entropy)
    }
});

/// The same while users want several resources, which some servers take by one command.
pub(crate) const BARE_SETS: Kind = kind("bare-sets", |entropy| Plan {
    bare: true,
    ..(SETS.draw)(entropy)
});

/// Ordinary worlds in which servers refuse scripts in words of their own, mostly also to load them, and clients have to
/// find out: always, or by turns, as a proxy does whose error passes.
pub(crate) const DOUBTED: Kind = kind("doubted", |entropy| {
    let own_words = Some(entropy.pick(&[0, 0, 300 * MILLI, 5 * SECOND]));
    in_own_words(own_words, (BARE.draw)(entropy), entropy)
});

/// The same while engines keep locks.
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

    /// Returns `true` if clients know that there are none.
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

/// Returns `true` if a command is one of a transaction, or of what is read for one.
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

/// Where a connection stands in a transaction, as its server sees it.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// Between `MULTI` and `EXEC`.
    pub(crate) is_queueing: bool,
    queue: Vec<Queued>,
    reading: Option<Reading>,
    /// What the latest `MULTI` was refused by: mostly that of the empty transaction before a `WATCH`.
    pub(crate) trial: Option<Code>,
    /// The refusal of a `MULTI` that was to be accepted, unless it was an empty one.
    pub(crate) refused_multi: Option<(u64, u64)>,
    /// What was read is followed by a transaction.
    is_to_write: bool,
    /// The token of which all ways to release are tried, one behind the other, and by how many commands.
    tries: Option<(Token, u32)>,
    /// How the first command of it left, behind the empty transaction.
    begun: Option<(Time, Writing)>,
    /// The keys that it does not see: it overtakes their `SET`.
    unseen: Vec<Vec<u8>>,
    /// The key that was read just now: what is left of it is asked then, and by nobody who waits.
    got: Option<Vec<u8>>,
    /// What all keys held before `EXEC`.
    held: Holdings,
    /// What `EXEC` came to, whatever its client was told.
    pub(crate) ran: Vec<u8>,
    /// What is not answered yet, and when it was asked for.
    asked: AskedFor,
}

impl Transaction {
    /// Returns `true` if something stands between `MULTI` and `EXEC`, and `EXEC` is to run it.
    pub(crate) fn has_queued(&self) -> bool {
        self.queue.iter().any(|queued| queued.refused.is_none())
    }
}

/// What the keys hold while a transaction is executed, command by command. By the numbers of the resources.
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

    /// The next command was answered so.
    fn go_on(&mut self, queued: &Queued, reply: &[u8]) {
        match (&queued.verb[..], &queued.set) {
            (b"DELETE", _) if integer(reply) == Some(1) => self.put(&queued.key, None),
            (_, Some((token, keys))) if queued.has_set(reply) => {
                keys.iter()
                    .for_each(|key| self.put(key, Some(token_of(token))));
            }
            _ => {}
        }
    }

    /// Returns what these keys hold, if there are several.
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
    /// What is set, and in which keys.
    set: Option<(Vec<u8>, Vec<Vec<u8>>)>,
    ttl: u64,
    refused: Option<Code>,
    /// What the key held before `EXEC`.
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

    /// It takes its keys, and was answered so.
    fn has_set(&self, reply: &[u8]) -> bool {
        match &self.verb[..] {
            b"MSETEX" => integer(reply) == Some(1),
            _ => self.set.is_some() && reply == b"+OK\r\n",
        }
    }

    /// What it did to the key of a lock if it was answered so, where nobody is known who has asked for it.
    fn deed(&self, reply: &[u8]) -> Option<&'static str> {
        match &self.verb[..] {
            b"DELETE" => (integer(reply) == Some(1)).then_some("release"),
            b"PEXPIRE" => (self.ttl != 0 && integer(reply) == Some(1)).then_some("extend"),
            _ => self.has_set(reply).then_some("take"),
        }
    }
}

/// What is read for the pieces of a transaction, in their order.
#[derive(Debug)]
struct Reading {
    work: Vec<Work>,
    /// The answers to the commands, each with the place of its piece.
    places: Vec<usize>,
    next: usize,
    shown: Vec<Seen>,
    /// How many pieces are in the batch that are not read for. All were refused at the beginning.
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
    /// Between `MULTI` and `EXEC`.
    steps: usize,
    /// A number of who has asked for it, or 0 if that is not known.
    pub(crate) asker: u64,
    /// That one wants it no more: it was decided without this, and is done because it was begun.
    is_over: bool,
}

impl Work {
    fn watches(&self) -> bool {
        ["release", "extend", "probe", "take"].contains(&self.what)
    }

    /// It takes its keys without a look at them.
    fn is_at_once(&self) -> bool {
        self.what == "take at once"
    }

    /// Returns it as a command about its `names`.
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

    /// How many commands read for it.
    fn reads(&self) -> usize {
        let each = match self.what {
            "release" => 1,
            "extend" => 2,
            _ => 3,
        };
        each * self.names.len()
    }

    /// Returns what the answers to its commands come to, and for how many milliseconds it is kept. `None`: it is
    /// done once more.
    fn said(&self, commands: &[(&Queued, &[u8])]) -> Option<(Said, u64)> {
        let ones = |reply: &[u8]| integer(reply) == Some(1);
        let is_ours = |reply: &[u8]| token_in(reply) == Some(token_of(&self.token));
        let is_done = |queued: &Queued, reply: &[u8]| match &queued.verb[..] {
            b"PTTL" => integer(reply).is_some_and(|left| -1 <= left),
            b"SET" => reply == b"+OK\r\n",
            _ => ones(reply),
        };
        let mut all = commands.iter();
        let said = match self.what {
            "release"
                if all.clone().filter(|(_, reply)| ones(reply)).count() == self.names.len() =>
            {
                Said::One
            }
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
                if tokens
                    .clone()
                    .any(|reply| !is_null(reply) && !is_ours(reply))
                {
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

/// Returns what these commands did by their answers, with what the keys held before each piece and behind it, and
/// takes `held` from before them all to behind them all. Commands in a row for one lock are one piece.
fn pieces_of(
    commands: &[(&Queued, &[u8])],
    held: &mut Holdings,
) -> Vec<(Work, Holdings, Holdings)> {
    let mut pieces: Vec<(Work, Holdings, Holdings)> = Vec::new();
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
    let end = |text: &[u8]| {
        text.iter()
            .position(|byte| *byte == b'\n')
            .map(|end| end + 1)
    };
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
        if let Some((tried, _)) = link.transaction.tries
            && tried == token
        {
            return true;
        }
        let ledger = &self.oracle.ledger;
        // A majority may have granted the lock meanwhile: this is sent before its `SET` all the same.
        ledger.find(&token).is_none_or(|id| {
            ledger.record(id).releases == 0 && ledger.cell(id, link.node).sets == 0
        })
    }

    /// All ways to release begin with this one, and the next stands behind it before it is answered. `behind` is
    /// what the server reads together with it; the rest may be on its way, or wait for room.
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

    /// Returns `true` if a command of this connection is one by which a waiter looks at a key. What is read for a
    /// transaction is none, also where its client has lost the connection since: it reads the key before.
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

    /// What waits over a connection until no transaction is open was asked for by now.
    pub(crate) fn asked_to_wait(&mut self, client: usize, conn: usize, wanted: Writing) {
        let Some(id) = self.conns[conn].id else {
            return;
        };
        let ledger = &self.oracle.ledger;
        // What an attempt has left that failed is released once: it is known who has asked for that.
        let was_held = |token: &[u8]| {
            let id = ledger.find(&token_of(token));
            id.is_some_and(|id| ledger.record(id).granted < Place::MAX)
        };
        let waiting = waiting_work(&self.clients[client].engine, id);
        let waiting = waiting.filter(|(what, token, _)| *what != "release" || was_held(token));
        let waiting: Vec<_> = waiting
            .map(|(what, token, asker)| (what, token_of(token), asker))
            .collect();
        if waiting.is_empty() && self.conns[conn].transaction.asked.is_empty() {
            return;
        }
        let (open, now) = (self.open_work(conn), self.now);
        let there = &mut self.conns[conn].transaction;
        there.asked.waits(&waiting, &open, (wanted, now));
    }

    /// Returns what a client wants to be done by the transaction that is open over a connection.
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

    /// A server executes a command of a transaction.
    pub(crate) fn transact(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
        words: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        if self.plan.switches.watches_elsewhere && words[0] == b"WATCH" {
            self.conns[conn].transaction.unseen = self.overtaken(conn);
        }
        if words[0] == b"EXEC" {
            let held = self.holdings(server);
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
                self.execute(server, conn, sent, &words, out);
            }
            _ => self.execute(server, conn, sent, words, out),
        }
        let reply = out[start..].to_vec();
        // What is done was asked for when all of it began.
        // Of a client that has lost the connection only that is known, and what was read.
        let work = self.open_work(conn);
        let there = &mut self.conns[conn].transaction;
        let watches = words[0] != b"MULTI"
            || match &work[..] {
                [] => there.is_to_write,
                work => work.iter().any(Work::watches),
            };
        // What was read for may have been given up, and then this is another transaction.
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
            [b"EXEC"] => self.exec_ends(server, conn, sent, &reply),
            [_, _, ..] if self.conns[conn].transaction.is_queueing => {
                let queued = Queued::of(words, refusal(&reply));
                self.conns[conn].transaction.queue.push(queued);
            }
            _ => self.reads_on(server, conn, sent, words, &reply),
        }
    }

    /// Returns what all keys hold on a server.
    fn holdings(&self, server: usize) -> Holdings {
        let shown = self.servers[server].clock.show(self.now);
        let names = self.names.iter();
        Holdings(
            names
                .map(|name| self.servers[server].token_at(shown, name))
                .collect(),
        )
    }

    /// Returns the keys that are to be deleted, and were set by what was read together with that.
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

    /// The first piece of what is read.
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

    /// A further piece of what is read: behind the last one some of it is answered.
    fn reads_on(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
        words: &[&[u8]],
        reply: &[u8],
    ) {
        let there = &mut self.conns[conn].transaction;
        if words[0] == b"MSETEX" {
            // Only whether it may be run is asked, unless `MULTI` was refused a moment ago.
            if integer(reply) == Some(1) {
                let queued = [Queued::of(words, None)];
                let mut held = self.holdings(server);
                for (_, keys) in queued.iter().filter_map(|queued| queued.set.as_ref()) {
                    keys.iter().for_each(|key| held.put(key, None)); // It takes what nobody has.
                }
                let ran = [b"*1\r\n", reply].concat();
                self.unasked(server, conn, sent, (&queued, &ran), held);
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
        self.conns[conn]
            .transaction
            .asked
            .begins(&reading.work, sent);
        let mut all_refused = reading.shown.iter().all(|seen| seen.refused.is_some());
        all_refused &= reading.others == 0 || reading.refused;
        if all_refused && 1 < reading.work.len() + reading.others {
            return; // Each is asked for alone.
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
            self.piece_done(server, conn, sent, work, (said, 0), (found, found));
        }
    }

    /// `EXEC` was answered.
    fn exec_ends(&mut self, server: usize, conn: usize, sent: (Time, Writing), reply: &[u8]) {
        let there = &mut self.conns[conn].transaction;
        there.is_queueing = false;
        there.begun = None;
        let (queue, ran) = (
            std::mem::take(&mut there.queue),
            std::mem::take(&mut there.ran),
        );
        let mut held = std::mem::take(&mut there.held);
        let work = self.open_work(conn);
        if queue.is_empty() {
            let trial = &mut self.conns[conn].transaction.trial;
            *trial = trial.or(refusal(reply));
            if let Some(code) = trial.filter(|_| !work.iter().any(Work::watches)) {
                // It was no trial: what is only read has none.
                for work in &work {
                    let said = (Said::Refused(code), 0);
                    self.piece_done(server, conn, sent, work, said, (None, None));
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
                // Where none of them was refused, it was `EXEC` itself: that stands for each.
                let own = refusal(reply).filter(|_| !refused);
                self.refused_pieces(server, conn, sent, (&work, &queue), own);
            } else if name == "ExecRefused" {
                self.unasked(server, conn, sent, (&queue, &ran), held); // The answer was lost, or is none.
            }
            return;
        };
        if work.iter().map(|work| work.steps).sum::<usize>() != queue.len() {
            return self.unasked(server, conn, sent, (&queue, reply), held);
        }
        let commands: Vec<_> = queue.iter().zip(parts).collect();
        let mut rest = &commands[..];
        for work in &work {
            let (own, behind) = rest.split_at(work.steps);
            rest = behind;
            let before = held.clone();
            own.iter()
                .for_each(|(queued, reply)| held.go_on(queued, reply));
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
            self.piece_done_of(server, conn, sent, work, said, of_one, names);
        }
        self.are_held(server, &held);
    }

    /// The keys hold what they should, by all that a transaction was answered.
    fn are_held(&mut self, server: usize, held: &Holdings) {
        if self.holdings(server).0 != held.0 {
            let text = format!("server {server} has other keys than its answers say");
            self.object("set", text);
        }
    }

    /// Commands of a transaction were refused, so nothing was done. What was refused itself is answered.
    fn refused_pieces(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
        (work, queue): (&[Work], &[Queued]),
        all: Option<Code>,
    ) {
        let mut rest = queue;
        for work in work {
            let Some((own, behind)) = rest.split_at_checked(work.steps) else {
                return;
            };
            rest = behind;
            if own
                .iter()
                .any(|queued| queued.verb == b"MSETEX" && queued.refused.is_some())
            {
                continue; // It is done in another way.
            }
            let refused = own.iter().find_map(|queued| queued.refused);
            if let Some(code) = refused.or(all).filter(|_| !own.is_empty()) {
                let single = work.names.len() == 1;
                let before = own[0].before.filter(|_| single);
                let said = (Said::Refused(code), 0);
                self.piece_done(server, conn, sent, work, said, (before, before));
            }
        }
    }

    /// Nobody waits for the answer any more, or it was lost: the keys that were changed had an owner all the same.
    /// What is done for one lock is one piece, as it was asked for.
    fn unasked(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
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
                    work.names = names
                        .iter()
                        .map(|name| self.names[*name].to_vec())
                        .collect();
                }
            }
            let all = work.names.iter().all(|name| after.of(name) == Some(token));
            let said = match work.what {
                "take" if !all => continue, // Of some of its names.
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
            self.piece_done_of(server, conn, sent, &work, (said, 0), of_one, names);
        }
        self.are_held(server, &held);
    }

    /// A server has done a piece of a transaction, or refused it.
    fn piece_done(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
        work: &Work,
        said: (Said, u64),
        both: (Option<Token>, Option<Token>),
    ) {
        let names = (SetBefore::default(), SetBefore::default());
        self.piece_done_of(server, conn, sent, work, said, both, names);
    }

    /// The same where `names` is what its names held before and after, if there are several.
    #[expect(clippy::too_many_arguments, reason = "each is another thing")]
    fn piece_done_of(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
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
        let ttl = if [Verb::Extend, Verb::Set].contains(&verb) {
            ttl.as_bytes()
        } else {
            &[]
        };
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
        name.into_iter()
            .for_each(|name| self.oracle.counts.sights.note(name));
        let done = Done {
            command,
            said,
            kept,
            before,
            after,
            is_over: work.is_over,
        };
        self.answered_in_part(server, conn, (sent, wanted), &done, &names);
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
        let all: [&[u8]; 5] = [
            b":1\r\n",
            b"$2\r\nab\r\n",
            b"$-1\r\n",
            b"_\r\n",
            b"-ERR x y\r\n",
        ];
        assert_eq!(parts(reply).expect("an array"), all);
        assert_eq!(token_in(b"$2\r\nab\r\n"), Some(token_of(b"ab")));
        assert_eq!((parts(b"*-1\r\n"), parts(b"-ERR\r\n")), (None, None));
        assert_eq!(parts(b"*0\r\n"), Some(Vec::new()));
    }

    const OF_ALL: [&str; 7] = [
        "Transacted",
        "ExecDone",
        "ExecAborted",
        "DelIfEq",
        "DelEx",
        "SetIfEq",
        "CopiedLate",
    ];

    /// Plays the histories of a kind, in which all of this is seen.
    fn keep_their_promises(kind: Kind, few: u64, seen: &[&str]) {
        let sights = sweep::keep_their_promises(kind, effort(few, 40))
            .counts
            .sights;
        // A few histories do not meet every kind of server.
        let (least, names) = match is_long() {
            true => (10, [&OF_ALL[..], seen].concat()),
            false => (0, vec!["Transacted"]),
        };
        for name in names {
            let (_, times) = sights
                .all()
                .find(|(other, _)| *other == name)
                .expect("known");
            assert!(least < times, "{name} only {times} times");
        }
    }

    #[test]
    fn worlds_without_scripts_keep_their_promises() {
        keep_their_promises(BARE, 10, &[]);
        keep_their_promises(BARE_KEEPING, 10, &[]);
    }

    #[test]
    fn worlds_whose_servers_refuse_scripts_in_own_words_keep_their_promises() {
        keep_their_promises(DOUBTED, 10, &[]);
        keep_their_promises(DOUBTED_KEEPING, 4, &[]);
    }

    #[test]
    fn sets_without_scripts_keep_their_promises() {
        let seen = ["TakenAtOnce", "RefusedAtOnce", "TakenByReading"];
        keep_their_promises(BARE_SETS, 2, &seen);
    }
}
