//! Worlds without scripts: which they are, and what servers do in transactions there.
//!
//! A server refuses scripts to clients (every other server forbids them, the others do not know them), and
//! is one of several kinds: with a native release, or without. What is done by `WATCH` and `MULTI .. EXEC`
//! names no token. So a client tells what the transaction is for that is open over a connection, and each
//! piece of it is judged by the oracles as if it had been a command of its own: when the answer to it is
//! complete.
//!
//! Kinds of worlds are such, and no ordinary one.
//!
//! # What it does not see
//!
//! Servers that are configured twice: what is owed to one of them needs two round trips by a transaction, and a
//! client closes such a connection before that. What a server does in a transaction for a client that has lost the
//! connection meanwhile, or was killed, is judged by the keys alone: whose was deleted. Worlds with sets, with a strict guard, with inspections and
//! watches have scripts.

use shearline::embedded::{Flavour, Refused, SCRIPTS, Store};

use crate::clock::Time;
use crate::entropy::Entropy;
use crate::kinds::kind;
use crate::oracle::{Code, Command, Said, Token, Verb, millis, token_of};
use crate::plan::{Guard, Kinds, Plan};
use crate::world::World;
use crate::written::Writing;

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

impl Plan {
    /// Returns `true` if no scripts are used.
    pub(crate) fn is_bare(&self) -> bool {
        self.bare
            && self.guard != Guard::Strict
            && self.sets == 0
            && self.servers == self.nodes
            && self.inspects == 0
            && self.watches == 0
    }
}

/// Makes a server of this kind one that refuses scripts.
pub(crate) fn strip(store: &mut Store, number: usize, kind: Kinds) {
    let how = match number % 2 {
        0 => Refused::Forbidden,
        _ => Refused::Unknown,
    };
    for command in SCRIPTS {
        store.refuse(command, Some(how));
    }
    store.set_flavour(match kind {
        Kinds::Valkey => [Flavour::Valkey81, Flavour::Valkey, Flavour::Valkey91][number % 3],
        Kinds::Newest => Flavour::Redis84,
        Kinds::Redis | Kinds::Old | Kinds::Mixed => Flavour::Redis,
    });
}

/// Returns `true` if a command is one of a transaction, or of what is read for one.
pub(crate) fn is_of_transaction(words: &[&[u8]]) -> bool {
    const ALL: [&[u8]; 6] = [b"WATCH", b"MULTI", b"EXEC", b"GET", b"PTTL", b"PEXPIRE"];
    words.first().is_some_and(|word| ALL.contains(word))
}

/// Where a connection stands in a transaction, as its server sees it.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// Between `MULTI` and `EXEC`.
    pub(crate) is_queueing: bool,
    queue: Vec<Queued>,
    reading: Option<Reading>,
    /// What the empty transaction before a `WATCH` was refused by.
    trial: Option<Code>,
    /// What was read is followed by a transaction.
    is_to_write: bool,
    /// The token of which all ways to release are tried, one behind the other in one write.
    pub(crate) tries: Option<Token>,
    /// How the first command of it left, behind the empty transaction.
    begun: Option<(Time, Writing)>,
    /// The keys that it does not see: it overtakes their `SET`.
    unseen: Vec<Vec<u8>>,
}

impl Transaction {
    /// Returns `true` if something stands between `MULTI` and `EXEC`, and `EXEC` is to run it.
    pub(crate) fn has_queued(&self) -> bool {
        self.queue.iter().any(|queued| queued.refused.is_none())
    }
}

/// A command between `MULTI` and `EXEC`.
#[derive(Debug)]
struct Queued {
    verb: Vec<u8>,
    key: Vec<u8>,
    ttl: u64,
    refused: Option<Code>,
    /// What the key held before `EXEC`.
    before: Option<Token>,
}

/// What is read for the pieces of a transaction, in their order.
#[derive(Debug)]
struct Reading {
    work: Vec<Work>,
    /// The answers to the commands, each with the place of its piece.
    places: Vec<usize>,
    next: usize,
    shown: Vec<Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    refused: Option<Code>,
    missing: bool,
    foreign: Option<Token>,
}

/// A piece of a transaction.
#[derive(Clone, Debug)]
struct Work {
    what: &'static str,
    key: Vec<u8>,
    token: Vec<u8>,
    ttl: u64,
}

impl Work {
    fn watches(&self) -> bool {
        ["release", "extend", "probe"].contains(&self.what)
    }

    fn verb(&self) -> Option<Verb> {
        match self.what {
            "release" => Some(Verb::Release),
            "extend" => Some(Verb::Extend),
            "confirm" => Some(Verb::Confirm),
            _ => None,
        }
    }

    /// How many commands read for it.
    fn reads(&self) -> usize {
        match self.what {
            "release" => 1,
            "extend" => 2,
            _ => 3,
        }
    }
}

/// What a server has done for a piece of a transaction.
pub(crate) struct Done<'a> {
    pub(crate) command: Command<'a>,
    pub(crate) said: Said,
    pub(crate) kept: u64,
    pub(crate) before: Option<Token>,
    pub(crate) after: Option<Token>,
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
        if link.transaction.tries == Some(token) {
            return true;
        }
        let ledger = &self.oracle.ledger;
        // A majority may have granted the lock meanwhile: this is sent before its `SET` all the same.
        ledger.find(&token).is_none_or(|id| {
            ledger.record(id).releases == 0 && ledger.cell(id, link.node).sets == 0
        })
    }

    /// All ways to release begin with this one, and `behind` it stands what is read together with it.
    pub(crate) fn note_tries(&mut self, conn: usize, words: &[&[u8]], behind: &[u8]) {
        let tries = &mut self.conns[conn].transaction.tries;
        match *words {
            [b"DELIFEQ", _, token] if behind.starts_with(b"*4\r\n$5\r\nDELEX\r\n") => {
                *tries = Some(token_of(token));
            }
            [b"DELEX", ..] | [b"SET", _, _, b"IFEQ", ..] => {}
            _ => *tries = None,
        }
    }

    /// Returns `true` if a command of this connection belongs to a transaction.
    pub(crate) fn is_transacting(&self, conn: usize, words: &[&[u8]]) -> bool {
        let link = &self.conns[conn];
        let open = link.transaction.is_queueing || link.transaction.reading.is_some();
        self.plan.is_bare()
            && link.peer < self.plan.clients
            && is_of_transaction(words)
            && (open || matches!(words[0], b"WATCH" | b"MULTI" | b"EXEC"))
    }

    /// Returns what a client wants to be done by the transaction that is open over a connection.
    fn open_work(&self, conn: usize) -> Vec<Work> {
        let link = &self.conns[conn];
        let client = &self.clients[link.peer];
        let present =
            client.alive && client.process == link.process && client.links[link.node] == Some(conn);
        let id = link.id.filter(|_| present);
        let work = id.into_iter().flat_map(|id| client.engine.open_work(id));
        work.map(|(what, key, token, ttl)| Work {
            what,
            key,
            token,
            ttl,
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
            let shown = self.servers[server].clock.show(self.now);
            let mut queue = std::mem::take(&mut self.conns[conn].transaction.queue);
            for queued in &mut queue {
                queued.before = self.servers[server].token_at(shown, &queued.key);
            }
            self.conns[conn].transaction.queue = queue;
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
        let watches = words[0] != b"MULTI"
            || self.conns[conn].transaction.is_to_write
            || self.open_work(conn).iter().any(Work::watches);
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
            [verb, key, ..] if self.conns[conn].transaction.is_queueing => {
                let refused = refusal(&reply);
                let (verb, key) = (words.concat()[..verb.len()].to_vec(), key.to_vec());
                let minus = words.get(2) == Some(&&b"-1"[..]);
                let verb = if minus { b"DELETE".to_vec() } else { verb };
                self.conns[conn].transaction.queue.push(Queued {
                    verb,
                    key,
                    ttl: words.get(2).and_then(|ttl| millis(ttl)).unwrap_or(0),
                    refused,
                    before: None,
                });
            }
            _ => self.reads_on(server, conn, sent, words, &reply),
        }
    }

    /// Returns the keys that are to be deleted, and were set by what was read together with that.
    fn overtaken(&self, conn: usize) -> Vec<Vec<u8>> {
        let together = &self.conns[conn].written.together;
        let work = self.open_work(conn).into_iter();
        let work = work.filter(|work| work.what == "release");
        let work = work.filter(|work| together.contains(&token_of(&work.token)));
        work.map(|work| work.key).collect()
    }

    fn multi_begins(&mut self, conn: usize, reply: &[u8]) {
        let link = &mut self.conns[conn];
        let there = &mut link.transaction;
        there.queue.clear();
        there.is_queueing = reply == b"+OK\r\n";
        there.trial = refusal(reply);
        let writes = std::mem::take(&mut there.is_to_write);
        if writes && there.trial.is_some() {
            // It was accepted a moment ago. What stands behind it may have been run now.
            let end = link.far.replied;
            link.garbage.get_or_insert((end - reply.len() as u64, end));
        }
    }

    /// The first piece of what is read.
    fn watch_begins(&mut self, conn: usize, reply: &[u8]) {
        let mut work = self.open_work(conn);
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
        let Some(mut reading) = self.conns[conn].transaction.reading.take() else {
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
            seen.foreign = token.filter(|token| *token != token_of(&work.token));
        } else {
            seen.missing |= integer(reply) == Some(-2);
        }
        reading.next += 1;
        if reading.next < reading.places.len() {
            self.conns[conn].transaction.reading = Some(reading);
            return;
        }
        let all_refused = reading.shown.iter().all(|seen| seen.refused.is_some());
        if all_refused && 1 < reading.work.len() {
            return; // Each is asked for alone.
        }
        for (work, seen) in reading.work.iter().zip(&reading.shown) {
            let said = match (seen.refused, work.what) {
                (Some(code), _) => Said::Refused(code),
                (None, _) if seen.foreign.is_some() => Said::Foreign,
                (None, "extend") if seen.missing => Said::Zero,
                (None, what) => {
                    self.conns[conn].transaction.is_to_write |= what != "probe";
                    continue;
                }
            };
            let found = seen.foreign;
            self.piece_done(server, conn, sent, work, (said, 0), (found, found));
        }
    }

    /// `EXEC` was answered.
    fn exec_ends(&mut self, server: usize, conn: usize, sent: (Time, Writing), reply: &[u8]) {
        let there = &mut self.conns[conn].transaction;
        there.is_queueing = false;
        there.begun = None;
        let queue = std::mem::take(&mut there.queue);
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
                self.unasked(server, conn, sent, &queue); // The answer was lost, or is none.
            }
            return;
        };
        let mut commands = queue.iter().zip(parts).peekable();
        for work in &work {
            let Some((queued, reply)) = commands.next_if(|(queued, _)| queued.key == work.key)
            else {
                continue;
            };
            let mut said = match (&queued.verb[..], integer(reply)) {
                (_, Some(1)) if queued.verb != b"PTTL" => (Said::One, 0),
                (b"PTTL", Some(-1..)) => (Said::One, 0),
                (b"GET", _) if is_null(reply) => (Said::Zero, 0),
                (b"GET", _) if token_in(reply) != Some(token_of(&work.token)) => (Said::Foreign, 0),
                (b"GET", _) => (Said::One, 0),
                _ => (Said::Zero, 0),
            };
            if work.what == "confirm"
                && let Some((_, left)) = commands.next()
                && said.0 == Said::One
            {
                said = match integer(left) {
                    Some(left @ 0..) => (Said::One, left.unsigned_abs()),
                    Some(-1) => (Said::One, u64::MAX / 4_000_000),
                    _ => (Said::Zero, 0),
                };
            }
            let shown = self.servers[server].clock.show(self.now);
            let after = self.servers[server].token_at(shown, &work.key);
            let changed = said.0 == Said::One && work.what == "release";
            let after = if changed { after } else { queued.before };
            self.piece_done(server, conn, sent, work, said, (queued.before, after));
        }
        if work.is_empty() {
            self.unasked(server, conn, sent, &queue);
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
        let mut commands = queue.iter().peekable();
        for work in work {
            let count = if work.what == "confirm" { 2 } else { 1 };
            let own = (0..count).filter_map(|_| commands.next_if(|queued| queued.key == work.key));
            let own: Vec<_> = own.collect();
            let refused = own.iter().find_map(|queued| queued.refused);
            if let Some(code) = refused.or(all).filter(|_| !own.is_empty()) {
                let before = own[0].before;
                let said = (Said::Refused(code), 0);
                self.piece_done(server, conn, sent, work, said, (before, before));
            }
        }
    }

    /// Nobody waits for the answer any more: the keys that were changed had an owner all the same.
    fn unasked(&mut self, server: usize, conn: usize, sent: (Time, Writing), queue: &[Queued]) {
        let shown = self.servers[server].clock.show(self.now);
        let writes = |queued: &&Queued| [&b"DELETE"[..], b"PEXPIRE"].contains(&&queued.verb[..]);
        for queued in queue.iter().filter(writes) {
            let after = self.servers[server].token_at(shown, &queued.key);
            let deletes = queued.verb == b"DELETE";
            if let Some(token) = queued
                .before
                .filter(|_| deletes == (queued.before != after))
            {
                let work = Work {
                    what: if deletes { "release" } else { "extend" },
                    key: queued.key.clone(),
                    token: token.to_vec(),
                    ttl: queued.ttl,
                };
                let both = (queued.before, after);
                self.piece_done(server, conn, sent, &work, (Said::One, 0), both);
            }
        }
    }

    /// A server has done a piece of a transaction, or refused it.
    fn piece_done(
        &mut self,
        server: usize,
        conn: usize,
        sent: (Time, Writing),
        work: &Work,
        (said, kept): (Said, u64),
        (before, after): (Option<Token>, Option<Token>),
    ) {
        let Some(verb) = work.verb() else {
            return;
        };
        let ttl = work.ttl.to_string();
        let ttl = if verb == Verb::Extend {
            ttl.as_bytes()
        } else {
            &[]
        };
        let mut command = Command::about(verb, &work.key, &work.token, ttl);
        let process = self.conns[conn].process;
        if self.is_by_keeper(process, &sent.1, &command) {
            command.verb = Verb::Keep;
        }
        self.oracle.counts.sights.note("Transacted");
        let done = Done {
            command,
            said,
            kept,
            before,
            after,
        };
        self.answered_in_part(server, conn, sent, &done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::Chosen;
    use crate::replay;
    use crate::sweep::{Until, say, sweep};

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

    #[test]
    fn worlds_without_scripts_keep_their_promises() {
        for kind in [BARE, BARE_KEEPING] {
            let _chosen = Chosen::in_world(None, kind);
            let sweep = sweep(kind, 0..40, Until::Last);
            say(&format!("{}: {}", kind.name, sweep.summary()));
            for (seed, violation) in sweep.failures.iter().take(5) {
                println!("{}", replay::report(kind, *seed, violation));
            }
            assert!(sweep.failures.is_empty(), "oracles object to {}", kind.name);
            let sights = sweep.tally.counts.sights;
            for name in [
                "Transacted",
                "ExecDone",
                "ExecAborted",
                "DelIfEq",
                "DelEx",
                "SetIfEq",
                "CopiedLate",
            ] {
                let (_, times) = sights
                    .all()
                    .find(|(other, _)| *other == name)
                    .expect("known");
                assert!(10 < times, "{name} only {times} times");
            }
        }
    }
}
