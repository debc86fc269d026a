//! Fence: the fencing tokens of one resource are distinct, and rise in the order of the grants.
//!
//! Nothing excuses a violation: no clock that was set, no key that was deleted, no process that was stopped.
//! A lock counts from when it is reported, also if it is over by then.
//!
//! * For permits, each slot of a resource counts as a resource of its own in all that follows.
//! * No two locks of one resource have the same token; a set has one for all its names.
//! * The token of a lock is above that of every lock on one of its names that was reported before the first byte
//!   of its attempt left.
//! * On every node that has confirmed both of two locks, the one that it granted later has the larger token. A
//!   node has confirmed a lock if it returned its token, or raised its counter to it from a smaller number. A majority
//!   has confirmed each lock.
//! * A lock has a token if one was asked for, and it stays the same: in extensions, confirmations, hand-overs.
//! * If a token names a number, a node that grants it gives this number, and the lock has it too. A client that looks
//!   who holds a lock sees this number with the owner of that lock, and no other.
//! * A node gives no number above its own time plus a second, except one more than the largest of all so far, or a
//!   number that another node wanted and that the token names.

use std::collections::BTreeMap;

use shearline::internals::FLOOR_KEY;
use shearline::{Holder, Lock};

use super::ledger::{Process, Token, TokenId, Verb, millis};
use super::{Deed, Oracle, name_of, token_of};
use crate::fencing::{micros, owner_of};
use crate::plan::{Guard, Plan};
use crate::world::World;
use crate::written::Place;

/// How far a proposal may be ahead of the node's clock, in microseconds.
const AHEAD: u64 = 1_000_000;

/// The marks of tokens that name a number: the client's own, and one that nodes want.
const NAMED: [u8; 5] = *b"\0term";
const WANTED: [u8; 5] = *b"\0Term";

/// The beginning of the script that ends a repair.
const REPAIR: &[u8] = b"local r,n,x=";

/// What a script of fencing tokens has done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// A lock was granted, with this number, and in this slot if it is a permit.
    Taken(Token, u64, Option<u16>),
    /// Nothing was done: the node wants this number, and the token names another.
    Wanted(u64),
    /// The counters of a lock were raised.
    Raised(Token, u64),
    /// The floor was set by an operator, or repaired.
    Lifted { repaired: bool },
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    /// The locks of each name, and of each slot if they are permits.
    names: BTreeMap<Slot, Name>,
    /// The tokens of all locks, also of those without one.
    tokens: BTreeMap<TokenId, Option<u64>>,
    /// What servers have counted for a lock.
    counted: BTreeMap<(TokenId, usize), Cell>,
    /// The largest number that a server would have given.
    wanted: u64,
    /// The client whose lock has this number, by name and number.
    leaders: BTreeMap<(usize, u64), usize>,
    /// The largest number that each server has given, or to which it was raised.
    given: Vec<u64>,
    /// The largest number of all, including those that were only a floor.
    highest: u64,
    /// The largest token of the locks of each process.
    seen: BTreeMap<Process, u64>,
}

#[derive(Clone, Debug, Default)]
struct Name {
    by_token: BTreeMap<u64, TokenId>,
    /// When tokens were reported, and the largest token until then.
    reported: Vec<(Place, u64)>,
    /// For each server, the tokens of the locks that it has confirmed, in the order of their grants.
    confirmed: BTreeMap<usize, BTreeMap<u64, u64>>,
}

/// A name, and the slot of a permit.
type Slot = (usize, Option<u16>);

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// The number of the deed.
    granted: u64,
    number: u64,
    slot: Option<u16>,
    raised: u64,
}

impl Cell {
    fn confirms(&self, token: u64, slot: Option<u16>) -> bool {
        let raised = self.number < token && self.raised == token;
        (self.number == token || raised) && self.slot == slot
    }
}

impl Counted {
    /// Returns what the script has done, from the server's `reply` to `words`.
    pub(crate) fn of(words: &[&[u8]], reply: &[u8]) -> Option<Self> {
        let (names, arguments) = names_and_arguments(words)?;
        let token = token_of(arguments.first()?);
        match arguments {
            _ if names.is_empty() => {
                let script = words.get(1).copied().unwrap_or_default();
                let repaired = script.starts_with(REPAIR);
                (reply == b":1\r\n").then_some(Self::Lifted { repaired })
            }
            [_, b"", _, number, ..] => {
                let done = matches!(reply, b":1\r\n") || reply.starts_with(b"*2\r\n:1\r\n");
                Some(Self::Raised(token, millis(number).filter(|_| done)?))
            }
            _ => {
                if let Some(lines) = reply.strip_prefix(b"*3\r\n:0\r\n") {
                    let number = lines.split(|byte| *byte == b':').nth(2)?;
                    return Some(Self::Wanted(millis(number.trim_ascii())?));
                }
                let lines = reply.split(|byte| *byte == b'\n');
                let lines = lines.map(|line| line.strip_prefix(b":").unwrap_or(line));
                let mut lines = lines.map(|line| millis(line.trim_ascii()));
                let is = |beginning: &[u8]| reply.starts_with(beginning);
                let (slot, number) = match () {
                    () if is(b"*4\r\n:1\r\n") => (lines.nth(3)?, lines.next()?),
                    () if is(b"*3\r\n:1\r\n") => (None, lines.nth(3)?),
                    () if is(b"$") => (None, lines.nth(1)?),
                    () => return None,
                };
                let slot = slot.map(|slot| slot as u16);
                Some(Self::Taken(token, number?, slot))
            }
        }
    }
}

/// Words of a command.
type Words<'a, 'w> = &'w [&'a [u8]];

/// Returns the names of the locks and the arguments of a script of fencing tokens. The script that sets a floor has no
/// names.
pub(crate) fn names_and_arguments<'a, 'w>(
    words: Words<'a, 'w>,
) -> Option<(Words<'a, 'w>, Words<'a, 'w>)> {
    let [b"EVAL" | b"EVALSHA", _, count, rest @ ..] = words else {
        return None;
    };
    let (keys, arguments) = rest.split_at_checked(millis(count)? as usize)?;
    let floor = keys.iter().position(|key| *key == FLOOR_KEY)?;
    Some((&keys[..floor / 2], arguments))
}

/// Returns `true` for a script of fencing tokens.
pub(crate) fn is_of_fencing(words: &[&[u8]]) -> bool {
    names_and_arguments(words).is_some()
}

impl Fencing {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            given: vec![0; plan.servers],
            ..Self::default()
        }
    }

    /// Returns `true` if the floor that a server would get from `process` is at least every number that it has given.
    /// The floor is what the process has seen, or `least` if that is more.
    pub(crate) fn would_be_lifted(&self, server: usize, process: Process, least: u64) -> bool {
        let seen = self.seen.get(&process).copied().unwrap_or(0);
        self.given[server] <= least.max(seen)
    }

    fn count(&mut self, server: usize, number: u64) {
        self.given[server] = self.given[server].max(number);
        self.highest = self.highest.max(number);
    }

    /// Enters a token. Returns what is wrong with it.
    fn enter(&mut self, id: TokenId, token: u64, names: &[Slot], first: Place) -> Option<String> {
        let mut wrong = None;
        for name in names {
            let known = self.names.entry(*name).or_default();
            if known.by_token.insert(token, id).is_some() {
                wrong = Some(format!("{token} was given twice"));
            }
            let before = known.reported.partition_point(|(place, _)| *place < first);
            let before = before.checked_sub(1).map(|at| known.reported[at].1);
            if let Some(before) = before.filter(|before| token <= *before) {
                wrong = Some(format!("{token} follows {before}"));
            }
            let cells = self.counted.range((id, 0)..=(id, usize::MAX));
            for ((_, server), cell) in cells.filter(|(_, cell)| cell.confirms(token, name.1)) {
                let (granted, confirmed) = (cell.granted, known.confirmed.entry(*server));
                let confirmed = confirmed.or_default();
                let before = confirmed.range(..granted).next_back();
                let after = confirmed.range(granted..).next();
                let fits = before.is_none_or(|(_, before)| *before < token)
                    && after.is_none_or(|(_, after)| token < *after);
                if !fits {
                    wrong = Some(format!(
                        "on server {server} {token} is between {before:?} and {after:?}"
                    ));
                }
                confirmed.insert(granted, token);
            }
        }
        wrong
    }

    /// Returns how many servers have confirmed a token.
    fn confirmed_by(&self, id: TokenId, token: u64, slot: Option<u16>) -> usize {
        let cells = self.counted.range((id, 0)..=(id, usize::MAX));
        cells.filter(|(_, cell)| cell.confirms(token, slot)).count()
    }

    fn report(&mut self, token: u64, names: &[Slot], place: Place) {
        for name in names {
            let reported = &mut self.names.entry(*name).or_default().reported;
            let most = reported.last().map_or(0, |(_, most)| *most);
            reported.push((place, most.max(token)));
        }
    }
}

impl Oracle {
    /// Returns what is wrong with the token of a lock that was reported before.
    pub(crate) fn same_token(&self, lock: &Lock) -> Result<(), String> {
        let id = self.id_of(lock);
        let Some(known) = id.and_then(|id| self.fencing.tokens.get(&id)) else {
            return Ok(()); // Its first holder was killed before it learned of the lock.
        };
        match (*known, lock.fencing_token()) {
            (known, token) if known == token => Ok(()),
            (known, token) => Err(format!("the token {known:?} has become {token:?}")),
        }
    }
}

impl World {
    /// Checks a script of fencing tokens that a server has run.
    pub(crate) fn counted(&mut self, deed: &Deed<'_>, counted: Option<Counted>) {
        let Some(counted) = counted else {
            return;
        };
        let server = deed.server;
        let most = micros(self.time_of(server)) + AHEAD;
        let fencing = &mut self.oracle.fencing;
        let limit = most.max(fencing.highest + 1);
        let cell = |token: &Token| {
            let id = self.oracle.ledger.find(token)?;
            Some((id, server))
        };
        match counted {
            Counted::Wanted(number) => {
                fencing.wanted = fencing.wanted.max(number);
                self.object_if(limit < number, "fence", || {
                    format!("server {server} wants {number}, and {limit} is the most")
                });
            }
            Counted::Taken(token, number, slot) => {
                let limit = match token[8..13] == WANTED {
                    true => limit.max(fencing.wanted),
                    false => limit,
                };
                if let Some(key) = cell(&token) {
                    let cell = fencing.counted.entry(key).or_default();
                    (cell.granted, cell.number, cell.slot) = (deed.number, number, slot);
                }
                fencing.count(server, number);
                if let Some(named) = named(&token).filter(|named| *named != number) {
                    let text =
                        format!("server {server} gives {number}, and the token names {named}");
                    self.object("fence", text);
                }
                self.object_if(limit < number, "fence", || {
                    format!("server {server} gives {number}, and {limit} is the most")
                });
            }
            Counted::Raised(token, number) => {
                self.oracle.counts.sights.note("Raised");
                if let Some(key) = cell(&token) {
                    let cell = fencing.counted.entry(key).or_default();
                    cell.raised = number;
                }
                fencing.count(server, number);
            }
            Counted::Lifted { repaired } => {
                self.oracle.counts.sights.note("FloorSet");
                self.oracle.counts.sights.note_if(repaired, "FloorRepaired");
                let there = &self.servers[server];
                let floor = there.store.get(deed.shown, FLOOR_KEY).unwrap_or_default();
                let number = floor.rsplit(|byte| *byte == b':').next().and_then(millis);
                fencing.highest = fencing.highest.max(number.unwrap_or(0));
            }
        }
    }

    /// Checks the fencing token of a lock that a call has returned.
    pub(crate) fn check_token(&mut self, client: usize, user: usize, lock: &Lock) {
        let token = lock.fencing_token();
        if token.is_some() != self.clients[client].users[user].fenced {
            let text = format!("client {client} got {token:?}, and had not asked so");
            self.object("fence", text);
        }
        let Some(id) = self.oracle.id_of(lock) else {
            return;
        };
        let first = self.oracle.ledger.record(id).first;
        self.oracle.fencing.tokens.insert(id, token);
        let Some(token) = token else {
            return;
        };
        let named = named(&token_of(lock.token().as_bytes()));
        self.object_if(named != self.plan.leads.then_some(token), "fence", || {
            format!("client {client} got {token}, and its token names {named:?}")
        });
        for name in lock.resources().map(name_of) {
            let leaders = &mut self.oracle.fencing.leaders;
            leaders.insert((name, token), client);
        }
        let behind = self.servers.iter().any(|server| server.behind != 0);
        let sights = &mut self.oracle.counts.sights;
        sights.note("Fenced");
        sights.note_if(self.plan.guard == Guard::Strict, "FencedStrictly");
        sights.note_if(behind, "FencedBehind");
        let names = lock.resources().map(|name| (name_of(name), lock.slot()));
        let names: Vec<Slot> = names.collect();
        let quorum = self.plan.quorum();
        let (process, place) = (self.clients[client].process, self.inputs);
        let fencing = &mut self.oracle.fencing;
        let confirmed = fencing.confirmed_by(id, token, lock.slot());
        let few = (confirmed < quorum).then(|| format!("{confirmed} have confirmed {token}"));
        let wrong = fencing.enter(id, token, &names, first).or(few);
        fencing.report(token, &names, place);
        let seen = fencing.seen.entry(process).or_default();
        *seen = token.max(*seen);
        if let Some(wrong) = wrong {
            self.object("fence", format!("client {client}: {wrong}"));
        }
    }

    /// Checks the holder of a resource that a client was told.
    pub(crate) fn check_leader(&mut self, resource: usize, holder: &Holder) {
        let leaders = &self.oracle.fencing.leaders;
        let number = holder.fencing_token;
        let Some(client) = number.and_then(|number| leaders.get(&(resource, number))) else {
            return; // The token names none, or its client does not know yet that it leads.
        };
        self.oracle.counts.sights.note("LeaderSeen");
        if *holder.owner != *owner_of(*client).as_bytes() {
            let text = format!("{holder} was shown, and client {client} has that number");
            self.object("fence", text);
        }
    }
}

/// Returns the number that a token names.
fn named(token: &Token) -> Option<u64> {
    let (mark, digits) = (&token[8..13], &token[13..]);
    let digits = digits.iter().map(|byte| u64::from(*byte));
    let number = digits.fold(0, |all, byte| 256 * all + byte);
    (mark == NAMED || mark == WANTED).then_some(number)
}

/// Returns the verb of a script of fencing tokens if it takes a lock.
pub(super) fn verb_of(arguments: &[&[u8]]) -> Option<Verb> {
    let takes = arguments.get(1).is_some_and(|ttl| !ttl.is_empty());
    takes.then_some(Verb::Set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::ledger::Said;

    fn fencing() -> Fencing {
        Fencing::new(&Plan::tame(1))
    }

    /// Enters three locks with these tokens, each reported after the earlier ones.
    fn wrong(tokens: [u64; 3]) -> Option<String> {
        let mut fencing = fencing();
        let mut wrong = None;
        for (id, token) in (0..).zip(tokens) {
            let place = 10 * Place::from(id);
            wrong = wrong.or(fencing.enter(id, token, &[(0, None)], place));
            fencing.report(token, &[(0, None)], place + 5);
        }
        wrong
    }

    #[test]
    fn tokens_are_distinct_and_rise() {
        assert_eq!(wrong([1, 2, 3]), None);
        for tokens in [[1, 1, 2], [2, 1, 3], [3, 4, 2]] {
            assert!(wrong(tokens).is_some(), "{tokens:?}");
        }
    }

    #[test]
    fn of_locks_at_the_same_time_those_of_a_common_node_are_in_its_order() {
        let enter = |second: u64, common: bool| {
            let mut fencing = fencing();
            for (id, granted, number) in [(0, 1, 5), (1, 2, second)] {
                let server = if common { 0 } else { id as usize };
                let cell = Cell {
                    granted,
                    number,
                    slot: None,
                    raised: 0,
                };
                fencing.counted.insert((id, server), cell);
            }
            assert_eq!(fencing.enter(0, 5, &[(0, None)], 0), None);
            fencing.report(5, &[(0, None)], 100);
            fencing.enter(1, second, &[(0, None), (1, None)], 50)
        };
        assert!(enter(4, true).is_some());
        assert_eq!(enter(4, false), None);
        assert_eq!(enter(6, true), None);
    }

    #[test]
    fn the_scripts_are_read() {
        let words: [&[u8]; 12] = [
            b"EVAL",
            b"..",
            b"3",
            b"a",
            b"shearline:fence:a",
            FLOOR_KEY,
            b"token",
            b"10",
            b"",
            b"7",
            b"86400000",
            b"r",
        ];
        let token = token_of(b"token");
        for answer in [&b"*3\r\n:1\r\n:0\r\n:12\r\n"[..], b"$2\r\n12\r\n"] {
            let taken = Counted::of(&words, answer);
            assert!(matches!(taken, Some(Counted::Taken(of, 12, None)) if of == token));
            assert_eq!(Said::of(Verb::Set, answer), Said::Ok);
        }
        assert!(Counted::of(&words, b"*3\r\n:2\r\n:0\r\n:0\r\n").is_none());
        let slot = Counted::of(&words, b"*4\r\n:1\r\n:0\r\n:3\r\n:12\r\n");
        assert!(matches!(slot, Some(Counted::Taken(of, 12, Some(3))) if of == token));
        assert!(Counted::of(&words, b"*4\r\n:2\r\n:0\r\n:7\r\n:0\r\n").is_none());
        let wanted = Counted::of(&words, b"*3\r\n:0\r\n:0\r\n:12\r\n");
        assert!(matches!(wanted, Some(Counted::Wanted(12))));
        let mut raise = words;
        raise[7] = b"";
        let raised = Counted::of(&raise, b":1\r\n");
        assert!(matches!(raised, Some(Counted::Raised(of, 7)) if of == token));
        assert!(Counted::of(&raise, b":0\r\n").is_none());
        assert_eq!(Said::of(Verb::Set, b"*3\r\n:2\r\n:0\r\n:0\r\n"), Said::Nil);
        let refused = Said::of(Verb::Set, b"*3\r\n:-1\r\n:0\r\n:0\r\n");
        assert!(refused.is_error());
    }
}
