//! The ledger: what every node did for every token, and which answers the clients have read.
//!
//! The other oracles judge by this ledger. An entry is made when a server executes a command, not when a client sends
//! it: a command that never arrived never happened. An answer counts as read when its last byte was handed to the
//! engine. What a server did and what it answered can differ: something in front of it may have lost the answer. Keys
//! are judged by what was done, calls by what was answered.
//!
//! # What it does not see
//!
//! Of several commands of one kind for one token on one node, the ledger keeps only the newest by the time of sending.
//! That is enough because a client repeats only commands that failed.

use std::collections::HashMap;

use shearline::internals::{BARRIER_KEY, MARKER_KEY};
use shearline::{Instant, ServerError};

use super::{Deed, fencing};
use crate::clock::{NEVER, Time};
use crate::written::Place;

/// The random part of a token.
pub(crate) type Token = [u8; 20];

/// A token, numbered by first execution.
pub(crate) type TokenId = u32;

/// One life of a client. A restarted client is another.
pub(crate) type Process = u32;

/// Returns the milliseconds in a command.
pub(crate) fn millis(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

pub(crate) fn token_of(bytes: &[u8]) -> Token {
    let mut token = [0; 20];
    let len = bytes.len().min(20);
    token[..len].copy_from_slice(&bytes[..len]);
    token
}

/// What is known of a token.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) token: Token,
    pub(crate) owner: Process,
    pub(crate) resource: usize,
    /// The names, if there are several.
    pub(crate) names: Vec<usize>,
    /// When the first command that set it was sent.
    pub(crate) sent: Time,
    /// The place of the first byte of any command that set it; in a transaction, the earliest place at which it can
    /// have been requested.
    pub(crate) first: Place,
    /// The place of the first byte of any command that set it, also in a transaction.
    pub(crate) begun: Place,
    /// When its holder released it, or learned that it was lost.
    pub(crate) ended: Place,
    /// When its lock was returned.
    pub(crate) granted: Place,
    /// How often it was sent to a node again while it was held.
    pub(crate) copies: u32,
    /// The longest ttl that was asked for.
    pub(crate) ttl: u64,
    /// How many permits there are, if it is a permit.
    pub(crate) permits: u16,
    /// The lock was exclusive, and became a shared one.
    pub(crate) downgraded: bool,
    /// The nodes that did not vote for the first holder that handed it over, at that time: a bit
    /// for each.
    pub(crate) doubted: u32,
    /// The clients that it was handed to.
    pub(crate) heirs: Vec<Process>,
    /// A holder learned that a majority misses it: remaining copies are released.
    pub(crate) lost: bool,
    /// How often its holders have asked for an extension, a confirmation, and a release.
    pub(crate) extends: u32,
    pub(crate) confirms: u32,
    pub(crate) releases: u32,
    /// How often the engine that keeps it has begun an extension, and how often one has succeeded.
    pub(crate) keeps: u32,
    pub(crate) kept: u32,
    /// The processes that keep it, in order: one for each time that this was begun.
    pub(crate) keepers: Vec<Keeper>,
    /// The latest end that a holder believed in, by its clock.
    pub(crate) believed: Instant,
}

/// A process whose engine keeps a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeper {
    pub(crate) by: Process,
    /// No extension by this engine left before.
    pub(crate) since: Place,
    /// For how many milliseconds each of its extensions asks.
    pub(crate) life: u64,
    /// The limit, unless it is [`Instant::MAX`]. With a limit all extensions are by this engine.
    pub(crate) limit: Instant,
    /// When its holder let it go, or its end was reported.
    pub(crate) over: Place,
}

/// What is known of a token on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) set: Entry,
    pub(crate) extend: Entry,
    pub(crate) beside: Entry,
    pub(crate) keep: Entry,
    /// The extension by its engine before that.
    pub(crate) keep_before: Entry,
    pub(crate) confirm: Entry,
    pub(crate) release: Entry,
    /// What the node's clock shows when the key expires.
    pub(crate) until: Instant,
    /// Since when its owner has known that the node lacks the key, if it does.
    pub(crate) lacking: Option<Place>,
    /// The last period in which it knew that.
    lacked: Option<(Place, Place)>,
    /// A `SET` was executed, whatever the answer was.
    pub(crate) was_set: bool,
    /// A command has deleted the key.
    pub(crate) gone: bool,
    /// The owner of the key that was in the way of its `SET`.
    pub(crate) blocked_by: Option<TokenId>,
    /// The token was sent there again while its lock was held.
    pub(crate) copied: bool,
    /// A `SET` of the token found a key of the same client there, or any key if it has several names.
    pub(crate) met_own: bool,
    /// How many commands of each kind there were.
    pub(crate) sets: u32,
    /// The connection of the last `SET`, and how many commands had come over it before.
    pub(crate) set_over: (usize, u64),
    /// That connection had died without a notice before the `SET` was executed.
    pub(crate) astray: bool,
    pub(crate) extends: u32,
    pub(crate) keeps: u32,
    pub(crate) confirms: u32,
    pub(crate) releases: Releases,
}

/// The releases of a token on one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Releases {
    pub(crate) count: u32,
    /// How many were refused, and how many of them because the server had forgotten the script.
    pub(crate) refused: u32,
    pub(crate) repairs: u32,
    /// The error words.
    pub(crate) refusals: Codes,
    /// How many connections they came over, and the last of them.
    pub(crate) conns: u32,
    pub(crate) conn: usize,
    pub(crate) first: Time,
    /// How often a key that may be the client's own had been in the way there before.
    pub(crate) met_own: u64,
    /// A release has deleted the key. A later one that was on its way finds none.
    pub(crate) deleted: bool,
    /// When the client last read that the key is not there.
    pub(crate) denied: Time,
}

/// A command and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The number of the deed.
    pub(crate) number: u64,
    pub(crate) by: Process,
    /// Which life of the server executed it.
    pub(crate) life: u32,
    pub(crate) sent: Time,
    /// When it was requested at the latest: long before it was sent, if it waited for a transaction.
    pub(crate) asked: Time,
    /// When the server executed it, its caller no longer wanted it.
    pub(crate) is_over: bool,
    pub(crate) said: Said,
    pub(crate) fence: Fence,
    /// For how many milliseconds the node keeps the key, if it was asked.
    pub(crate) kept: u64,
    /// What the node's clock showed then.
    pub(crate) kept_at: Instant,
    /// When the command was executed.
    pub(crate) executed: Time,
    /// When the answer was read, and what the client's clock showed then; [`NEVER`] until then.
    pub(crate) read: Time,
    pub(crate) read_shown: Instant,
    pub(crate) read_place: Place,
}

/// Whether an answer counts, where servers carry markers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fence {
    /// Unknown.
    None,
    /// The answer counts, and its server's marker names this longest ttl.
    Open(u64),
    /// The answer does not count.
    Shut,
    /// The answer says that it counts, but its server has no marker, or a barrier.
    Broken,
}

/// An answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Nothing,
    Ok,
    Nil,
    One,
    Zero,
    Foreign,
    Refused(Code),
    /// An answer that no lock command has.
    Else,
}

/// The first word of an error, by its place in [`CODES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Code(u8);

const CODES: [&str; 15] = [
    "?",
    "NOSCRIPT",
    "LOADING",
    "READONLY",
    "OOM",
    "MISCONF",
    "BUSY",
    "NOAUTH",
    "ERR",
    "WRONGTYPE",
    "MOVED",
    "NOPERM",
    // Not an error: the node gives no fencing token.
    "(no floor)",
    "EXECABORT",
    "WRONGPASS",
];

impl Code {
    const NO_FLOOR: Self = Self(12);

    pub(crate) fn of(line: &[u8]) -> Self {
        let mut codes = CODES.iter();
        let code = codes.position(|code| line.starts_with(code.as_bytes()));
        Self(code.unwrap_or(0) as u8)
    }

    pub(crate) fn is(self, error: ServerError) -> bool {
        CODES[usize::from(self.0)] == error.code()
    }

    /// Returns `true` if the error may mean that the server does not know the command.
    pub(crate) fn is_any_error(self) -> bool {
        matches!(self.0, 8 | 11)
    }

    /// Returns `true` if a server with this error may be about to replace its data.
    pub(crate) fn may_forget(self) -> bool {
        matches!(self.0, 2 | 3)
    }

    /// Returns `true` if a server with this error has done nothing.
    pub(crate) fn is_certain(self) -> bool {
        matches!(self.0, 2..8 | 10..=12)
    }

    /// Returns `true` if a client has not logged in.
    pub(crate) fn is_of_login(self) -> bool {
        matches!(self.0, 7 | 14)
    }

    pub(crate) fn is_no_script(self) -> bool {
        self.0 == 1
    }
}

/// A set of nodes: a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codes(u16);

impl Codes {
    pub(crate) fn add(&mut self, code: Code) {
        self.0 |= 1 << code.0;
    }

    pub(crate) fn contain_no_permission(self) -> bool {
        let bit = CODES.iter().position(|code| *code == "NOPERM");
        bit.is_some_and(|bit| self.0 & 1 << bit != 0)
    }

    pub(crate) fn contain(self, error: ServerError) -> bool {
        let mut codes = CODES.iter().enumerate();
        codes.any(|(bit, code)| self.0 & 1 << bit != 0 && *code == error.code())
    }
}

impl Record {
    /// Returns the names of the lock, also if there is only one.
    pub(crate) fn each_name(&self) -> &[usize] {
        match &self.names[..] {
            [] => std::slice::from_ref(&self.resource),
            names => names,
        }
    }

    /// Returns the keepers of the lock in this process, the newest first.
    pub(crate) fn keepers_in(&self, process: Process) -> impl Iterator<Item = &Keeper> {
        let keepers = self.keepers.iter().rev();
        keepers.filter(move |keeper| keeper.by == process)
    }

    /// Returns `true` if a `SET` whose first byte left at `place` is a copy of a lock that is held.
    pub(crate) fn is_copy(&self, place: Place) -> bool {
        self.granted < place
    }
}

/// Returns the first integer of an array.
fn first_of(reply: &[u8]) -> &[u8] {
    let [b'*', _, b'\r', b'\n', rest @ ..] = reply else {
        return &[];
    };
    let end = rest.iter().position(|byte| *byte == b'\r');
    &rest[..end.unwrap_or(rest.len())]
}

/// Returns the number in an answer, which may be alone or before others.
pub(crate) fn number_in(reply: &[u8]) -> Option<i64> {
    let number = match first_of(reply) {
        [] => reply.strip_suffix(b"\r\n")?,
        first => first,
    };
    let digits = number.strip_prefix(b":")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns `true` if a script asks how long a key is kept.
pub(crate) fn is_confirmation(script: &[u8]) -> bool {
    script.windows(4).any(|text| text == b"9e15")
}

/// Returns `true` if a script is a `SET` where servers carry markers.
pub(crate) fn is_fenced_set(script: &[u8]) -> bool {
    script.windows(4).any(|text| text == b"'nx'")
}

impl Said {
    /// Turns the answer to a command with a marker check into the answer to the plain command, and whether it counts;
    /// for a join, whether later ones may count.
    pub(crate) fn of(verb: Verb, reply: &[u8]) -> Self {
        match (verb, first_of(reply)) {
            (Verb::Set, b":1") => Self::Ok,
            (Verb::Set, b":0") => Self::Nil,
            (Verb::Set, _) if reply == b":1\r\n" => Self::Ok,
            (Verb::Set, _) if reply == b":0\r\n" => Self::Nil,
            // The number of the first of several keys that another client holds, counted from 2.
            (Verb::Set, _) if number_in(reply).is_some_and(|number| 1 < number) => Self::Nil,
            (Verb::Set, b":-1") => Self::Refused(Code::NO_FLOOR),
            // The answer is the lock's number, which is its fencing token.
            (Verb::Set, _) if matches!(reply, [b'$', b'1'..=b'9', ..]) => Self::Ok,
            (Verb::Confirm, _) if number_in(reply).is_some_and(|kept| 0 < kept) => Self::One,
            // By `SET .. IFEQ`.
            (Verb::Release, _) if reply == b"+OK\r\n" => Self::One,
            (Verb::Release, _) if matches!(reply, b"$-1\r\n" | b"_\r\n") => Self::Zero,
            // A key of another type counts as another client's.
            (Verb::Release | Verb::Confirm | Verb::Extend | Verb::Beside | Verb::Keep, _)
                if reply.starts_with(b"-WRONGTYPE ") =>
            {
                Self::Foreign
            }
            (_, b":1") => Self::One,
            (_, b":0") => Self::Zero,
            (_, b":-1") => Self::Foreign,
            _ => Self::plain(reply),
        }
    }

    fn plain(reply: &[u8]) -> Self {
        match reply {
            b"+OK\r\n" => Self::Ok,
            b"$-1\r\n" | b"_\r\n" => Self::Nil,
            b":1\r\n" => Self::One,
            b":0\r\n" => Self::Zero,
            b":-1\r\n" => Self::Foreign,
            [b'-', line @ ..] => Self::Refused(Code::of(line)),
            _ => Self::Else,
        }
    }

    pub(crate) fn is_error(self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

impl Releases {
    /// Returns `true` if it is not known which of several releases is repeated, and so to which of them an answer
    /// belongs: a server that has forgotten the script refuses each of them.
    pub(crate) fn are_mixed_up(&self) -> bool {
        1 < self.repairs + self.refused
    }
}

impl Default for Entry {
    /// Returns the entry of no command.
    fn default() -> Self {
        Self {
            number: u64::MAX,
            by: Process::MAX,
            life: 0,
            sent: 0,
            asked: 0,
            is_over: false,
            said: Said::Nothing,
            fence: Fence::None,
            kept: 0,
            kept_at: Instant::ZERO,
            executed: 0,
            read: NEVER,
            read_shown: Instant::ZERO,
            read_place: Place::MAX,
        }
    }
}

impl Entry {
    /// Returns `true` if this entry answers a request that `by` sent at `since` or later.
    pub(crate) fn answers(&self, by: Process, since: Time) -> bool {
        self.by == by && since <= self.sent && self.said != Said::Nothing
    }

    pub(crate) fn is_read(&self) -> bool {
        self.read < NEVER
    }

    /// Returns when the command was executed, if it is a `SET` whose answer was read.
    pub(super) fn copied(&self) -> Time {
        if self.is_read() { self.executed } else { NEVER }
    }

    pub(crate) fn new(deed: &Deed<'_>, executed: Time) -> Self {
        Self {
            number: deed.number,
            by: deed.process,
            life: deed.life,
            sent: deed.sent,
            asked: deed.asked().1,
            is_over: deed.is_over,
            said: deed.said,
            fence: deed.fence,
            kept: deed.kept,
            kept_at: deed.shown,
            executed,
            ..Self::default()
        }
    }

    fn read(&mut self, answer: &Reading) {
        if self.number == answer.number {
            self.read = self.read.min(answer.at);
            self.read_shown = answer.shown;
            self.read_place = answer.place;
        }
    }
}

/// A client reads an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The number of the deed that was answered.
    pub(crate) number: u64,
    pub(crate) by: Process,
    pub(crate) said: Said,
    pub(crate) at: Time,
    pub(crate) shown: Instant,
    pub(crate) place: Place,
}

/// The action of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    Set,
    Release,
    Extend,
    /// A second extension of the same lock while the first is open: its ttl is odd, and that of every other is even.
    Beside,
    /// An extension by the engine that keeps the lock.
    Keep,
    /// Asks how long a key is kept.
    Confirm,
    /// Loads a script: the last requests of a handshake.
    Load,
    /// Asks to join, where servers carry markers: the very last request of a handshake.
    Join,
    /// Asks what the clock shows.
    Time,
    Other,
}

impl Verb {
    /// Returns `true` if a command with this verb is about a lock.
    pub(crate) fn is_of_locks(self) -> bool {
        matches!(
            self,
            Self::Set | Self::Release | Self::Extend | Self::Beside | Self::Keep | Self::Confirm
        )
    }
}

/// A command, as far as locks are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command<'a> {
    pub(crate) verb: Verb,
    pub(crate) key: Option<&'a [u8]>,
    /// All keys, if there are several.
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) token: Option<Token>,
    pub(crate) ttl: Option<&'a [u8]>,
}

impl<'a> Command<'a> {
    /// Returns what a command means. `fenced_set` is the digest of the script that is a `SET` where servers carry
    /// markers.
    pub(crate) fn of(words: &'a [&'a [u8]], fenced_set: &[u8]) -> Self {
        let known = Self::of_holders(words).or_else(|| Self::of_fencing(words));
        if let Some(known) = known.or_else(|| Self::of_several(words)) {
            return known;
        }
        let (verb, key, token, ttl) = match *words {
            [
                b"EVAL" | b"EVALSHA",
                script,
                b"3",
                key,
                _,
                _,
                token,
                ttl,
                _,
                ..,
            ] => {
                let set = script == fenced_set || is_fenced_set(script);
                (if set { Verb::Set } else { Verb::Extend }, key, token, ttl)
            }
            [b"EVAL", _, b"2", MARKER_KEY, ..] => return Self::without_key(Verb::Join),
            [b"EVAL", _, b"3", key, _, _, token, _] => (Verb::Confirm, key, token, &[][..]),
            [b"EVAL", script, b"1", key, token] if is_confirmation(script) => {
                (Verb::Confirm, key, token, &[][..])
            }
            // The first command on a connection. Without a ttl it only checks permissions.
            [b"EVAL", script, b"1", key, token, ttl, _, ..] if is_fenced_set(script) => {
                match ttl.is_empty() {
                    false => (Verb::Set, key, token, ttl),
                    true => return Self::only_asks(key),
                }
            }
            // A release: the key gets an end in the past.
            [b"SET", key, token, b"IFEQ", _, b"PXAT", _] => (Verb::Release, key, token, &[][..]),
            [b"SET", key, token, .., ttl] => (Verb::Set, key, token, ttl),
            [b"EVAL" | b"EVALSHA", _, _, key, token] => (Verb::Release, key, token, &[][..]),
            [b"EVAL" | b"EVALSHA", _, _, key, token, ttl] => (Verb::Extend, key, token, ttl),
            [b"DELIFEQ", key, token] => (Verb::Release, key, token, &[][..]),
            [b"DELEX", key, b"IFEQ", token] => (Verb::Release, key, token, &[][..]),
            [b"DEL", key] => (Verb::Release, key, &[][..], &[][..]),
            [b"PEXPIRE", key, ttl] => (Verb::Extend, key, &[][..], ttl),
            [b"TIME"] => return Self::without_key(Verb::Time),
            [b"SCRIPT", b"LOAD", ..] => return Self::without_key(Verb::Load),
            _ => return Self::without_key(Verb::Other),
        };
        Self::about(verb, key, token, ttl)
    }

    /// Returns the command if it is about a lock with a fencing token.
    fn of_fencing(words: &'a [&'a [u8]]) -> Option<Self> {
        let (names, arguments) = fencing::names_and_arguments(words)?;
        let (Some(verb), [token, ttl, ..]) = (fencing::verb_of(arguments), arguments) else {
            return Some(Self::without_key(Verb::Other));
        };
        let Some(first) = names.first() else {
            return Some(Self::without_key(Verb::Other));
        };
        let keys = if names.len() == 1 { &[][..] } else { names };
        Some(Self {
            keys,
            ..Self::about(verb, first, token, ttl)
        })
    }

    /// Returns the command if it is about a lock on several resources.
    fn of_several(words: &'a [&'a [u8]]) -> Option<Self> {
        let [b"EVAL", script, count, rest @ ..] = words else {
            return None;
        };
        let (keys, arguments) = rest.split_at_checked(millis(count)? as usize)?;
        let names = |key: &&[u8]| *key != MARKER_KEY && *key != BARRIER_KEY;
        let count = keys.iter().take_while(|key| names(key)).count();
        if count < 2 {
            return None;
        }
        let (verb, token, ttl) = match *arguments {
            [token] => (Verb::Release, token, &[][..]),
            [_, b"", _, ..] if is_fenced_set(script) => {
                return Some(Self::without_key(Verb::Other));
            }
            [token, ttl, _, ..] if is_fenced_set(script) => (Verb::Set, token, ttl),
            [token, _, _] if is_confirmation(script) => (Verb::Confirm, token, &[][..]),
            [token, ttl, _] => (Verb::Extend, token, ttl),
            _ => return None,
        };
        let keys = &keys[..count];
        Some(Self {
            keys,
            ..Self::about(verb, keys[0], token, ttl)
        })
    }

    pub(crate) fn about(verb: Verb, key: &'a [u8], token: &'a [u8], ttl: &'a [u8]) -> Self {
        let odd = ttl.last().is_some_and(|digit| digit % 2 == 1);
        Self {
            verb: match verb == Verb::Extend && odd {
                true => Verb::Beside,
                false => verb,
            },
            key: Some(key),
            keys: &[],
            token: (!token.is_empty()).then(|| token_of(token)),
            ttl: (!ttl.is_empty()).then_some(ttl),
        }
    }

    /// Returns the command as a question that is about no lock.
    pub(crate) fn unheeded(self) -> Self {
        Self {
            key: self.key,
            ..Self::without_key(Verb::Other)
        }
    }

    /// Returns a command that only asks for permissions.
    pub(super) fn only_asks(key: &'a [u8]) -> Self {
        Self {
            key: Some(key),
            ..Self::without_key(Verb::Other)
        }
    }

    pub(super) fn without_key(verb: Verb) -> Self {
        Self {
            verb,
            key: None,
            keys: &[],
            token: None,
            ttl: None,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ledger {
    nodes: usize,
    records: Vec<Record>,
    /// The cells by token and node.
    cells: Vec<Box<[Cell]>>,
    ids: HashMap<Token, TokenId>,
}

impl Ledger {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            records: Vec::new(),
            cells: Vec::new(),
            ids: HashMap::new(),
        }
    }

    pub(crate) fn find(&self, token: &Token) -> Option<TokenId> {
        self.ids.get(token).copied()
    }

    pub(crate) fn find_any(&self, token: Option<Token>) -> Option<TokenId> {
        self.find(&token?)
    }

    /// Returns the token, and enters it if it is missing.
    pub(crate) fn enter(
        &mut self,
        token: Token,
        owner: Process,
        resource: usize,
        sent: Time,
    ) -> TokenId {
        if let Some(id) = self.find(&token) {
            let record = &mut self.records[id as usize];
            record.sent = record.sent.min(sent);
            return id;
        }
        let id = self.records.len() as TokenId;
        self.ids.insert(token, id);
        self.records.push(Record {
            token,
            owner,
            resource,
            sent,
            first: Place::MAX,
            begun: Place::MAX,
            ended: Place::MAX,
            granted: Place::MAX,
            ..Record::default()
        });
        self.cells.push(vec![Cell::default(); self.nodes].into());
        id
    }

    pub(crate) fn record(&self, id: TokenId) -> &Record {
        &self.records[id as usize]
    }

    pub(crate) fn record_mut(&mut self, id: TokenId) -> &mut Record {
        &mut self.records[id as usize]
    }

    pub(crate) fn cell(&self, id: TokenId, node: usize) -> &Cell {
        &self.cells[id as usize][node]
    }

    pub(crate) fn cell_mut(&mut self, id: TokenId, node: usize) -> &mut Cell {
        &mut self.cells[id as usize][node]
    }

    /// Returns the records of a token, node by node.
    pub(crate) fn cells(&self, id: TokenId) -> &[Cell] {
        &self.cells[id as usize]
    }

    /// Records that a node has executed a command for a token.
    pub(crate) fn executed(&mut self, id: TokenId, node: usize, verb: Verb, new: Entry) {
        let cell = self.cell_mut(id, node);
        if let Some(entry) = cell.entry(verb)
            && entry.sent <= new.sent
        {
            let before = std::mem::replace(entry, new);
            if verb == Verb::Keep {
                cell.keep_before = before;
            }
        }
    }

    /// Records that a client has read an answer about a token.
    pub(crate) fn read(&mut self, id: TokenId, node: usize, verb: Verb, reading: &Reading) {
        let own = self.record(id).owner == reading.by;
        let cell = self.cell_mut(id, node);
        match (verb, reading.said) {
            (
                Verb::Extend | Verb::Beside | Verb::Keep | Verb::Confirm,
                Said::Zero | Said::Foreign,
            ) if own => {
                cell.lacking = cell.lacking.or(Some(reading.place));
            }
            (Verb::Extend | Verb::Beside | Verb::Keep | Verb::Confirm, Said::One)
            | (Verb::Set, Said::Ok) => {
                if let Some(since) = cell.lacking.take() {
                    cell.lacked = Some((since, reading.place));
                }
            }
            (Verb::Release, Said::Zero | Said::Foreign) => cell.releases.denied = reading.at,
            _ => {}
        }
        if let Some(entry) = cell.entry(verb) {
            entry.read(reading);
        }
    }
}

impl Cell {
    /// Returns since when the owner knew at `place` that the node lacks the key, if it did.
    pub(crate) fn lacking_at(&self, place: Place) -> Option<Place> {
        let lacked = self
            .lacked
            .filter(|(since, until)| *since < place && place < *until);
        lacked.map(|(since, _)| since).or(self.lacking)
    }

    /// Returns the newest request of this kind about a lock, and its answer.
    pub(crate) fn asked(&self, verb: Verb) -> &Entry {
        match verb {
            Verb::Set | Verb::Load | Verb::Join | Verb::Time | Verb::Other => &self.set,
            Verb::Extend => &self.extend,
            Verb::Beside => &self.beside,
            Verb::Keep => &self.keep,
            Verb::Confirm => &self.confirm,
            Verb::Release => &self.release,
        }
    }

    fn entry(&mut self, verb: Verb) -> Option<&mut Entry> {
        match verb {
            Verb::Set => Some(&mut self.set),
            Verb::Extend => Some(&mut self.extend),
            Verb::Beside => Some(&mut self.beside),
            Verb::Keep => Some(&mut self.keep),
            Verb::Confirm => Some(&mut self.confirm),
            Verb::Release => Some(&mut self.release),
            Verb::Load | Verb::Join | Verb::Time | Verb::Other => None,
        }
    }
}
