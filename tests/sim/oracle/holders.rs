//! Holders: a key that several clients hold at once keeps each holder for as long as it has promised.
//!
//! Worlds with shared locks have such keys: sorted sets under the name of a lock.
//!
//! * *foreign key*: a command removes no live member of others, nor does it bring its deadline forward. The same holds
//!   for plain keys.
//! * *holders*: a key ends at the latest deadline of its live members. All of them are of one kind.
//! * *holders*: while a client believes that it holds a lock, a majority of the servers keeps its token until the end
//!   of that belief by true time.
//!
//! # What it does not see
//!
//! Keys that an operator has changed, and all keys while clocks are set: exclusion is excused there too. The third
//! promise is not checked if servers lose their memory.

use shearline::internals::scripts;
use shearline::{Instant, Lock};

use super::Deed;
use super::ledger::{Command, Process, Token, TokenId, Verb, millis, token_of};
use crate::clock::{MILLI, NEVER};
use crate::faults::Fault;
use crate::server::Server;
use crate::world::World;

/// The prefix of the key of an intent.
const INTENT: &[u8] = b"shearline:intent:";

/// Returns every pair of these.
pub(crate) fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    let each = all.iter().enumerate();
    each.flat_map(|(number, one)| all[number + 1..].iter().map(move |other| (one, other)))
}

/// The holders that a key keeps on a node.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Member>);

/// One holder of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Member {
    pub(crate) token: Token,
    kind: Kind,
    /// For how many milliseconds it will still live. This is unknown for a plain text.
    left: Option<u64>,
}

/// The kind of a holder in a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The key holds its token alone.
    Alone,
    Reader,
    /// The holder has this slot, of this many.
    Permit(u16, u16),
}

impl Kind {
    /// Returns `true` if holders of both kinds may be in a key at the same time.
    pub(crate) fn bears(self, other: Self) -> bool {
        match (self, other) {
            (Self::Reader, Self::Reader) => true,
            (Self::Permit(one, all), Self::Permit(another, of)) => one != another && all == of,
            (Self::Alone | Self::Reader | Self::Permit(..), _) => false,
        }
    }
}

impl Member {
    /// Reads a member of a sorted set, if it has our form.
    fn read(member: &[u8], left: u64) -> Option<Self> {
        let (kind, token) = match member.strip_prefix(b"r/") {
            Some(token) => (Kind::Reader, token),
            None => {
                let mut parts = member.splitn(3, |byte| *byte == b'/');
                let mut number = || u16::try_from(millis(parts.next()?)?).ok();
                let (all, slot) = (number()?, number()?);
                (Kind::Permit(slot, all), parts.next()?)
            }
        };
        Some(Self {
            token: token_of(token),
            kind,
            left: Some(left),
        })
    }
}

impl Server {
    /// Returns all live holders of a key.
    pub(crate) fn members_at(&self, shown: Instant, key: &[u8]) -> Vec<Member> {
        let alone = self.token_at(shown, key).map(|token| Member {
            token,
            kind: Kind::Alone,
            left: None,
        });
        let set = self.store.members(shown, key).into_iter();
        let set = set.filter_map(|(member, left)| Member::read(member, left?.as_millis() as u64));
        alone.into_iter().chain(set).collect()
    }

    /// Returns `true` if a key holds this token, alone or among others.
    pub(crate) fn holds(&self, shown: Instant, key: &[u8], token: &Token) -> bool {
        match self.token_at(shown, key) {
            Some(alone) => alone == *token,
            None => {
                let mut set = self.store.members(shown, key).into_iter();
                set.any(|(member, left)| {
                    let member = left.and_then(|_| Member::read(member, 0));
                    member.is_some_and(|member| member.token == *token)
                })
            }
        }
    }
}

impl Held {
    /// Returns the token that a command for `token` of a process finds there: its own, one of its process, or any.
    pub(crate) fn found(
        &self,
        token: Option<Token>,
        is_of_process: impl Fn(&Token) -> bool,
    ) -> Option<Token> {
        let all = || self.0.iter().map(|member| member.token);
        let own = all().find(|held| token == Some(*held));
        own.or_else(|| all().find(is_of_process))
            .or_else(|| all().next())
    }

    fn of(&self, token: &Token) -> Option<&Member> {
        self.0.iter().find(|member| member.token == *token)
    }

    /// Returns what is wrong with these holders of one key.
    fn wrong(&self) -> Option<&'static str> {
        let mixed = pairs(&self.0).any(|(one, other)| !one.kind.bears(other.kind));
        let beyond = self.0.iter();
        let beyond = beyond.filter(|it| matches!(it.kind, Kind::Permit(slot, all) if all <= slot));
        (mixed || beyond.count() != 0).then_some("holders that do not bear each other")
    }
}

/// The scripts about one of several holders, what each does, and its name in stories.
const SCRIPTS: [(scripts::Script, Verb, &str); 7] = [
    (scripts::TAKE_SHARED, Verb::Set, "read"),
    (scripts::TAKE_SLOT, Verb::Set, "take slot"),
    (scripts::TAKE_SLOT_FENCED, Verb::Set, "take fenced slot"),
    (scripts::MOVE_SLOT, Verb::Other, "move slot"),
    (scripts::EXTEND_MEMBER, Verb::Extend, "extend member"),
    (scripts::CONFIRM_MEMBER, Verb::Confirm, "how long member"),
    (scripts::RELEASE_MEMBER, Verb::Release, "release member"),
];

/// Returns the entry of a script, which is named by its text or its digest.
fn known(script: &[u8]) -> Option<&'static (scripts::Script, Verb, &'static str)> {
    let is = |text: &str| script == text.as_bytes();
    let mut scripts = SCRIPTS.iter();
    scripts.find(|((text, digest), ..)| is(text) || is(digest))
}

fn verb_of(script: &[u8]) -> Option<Verb> {
    known(script).map(|(_, verb, _)| *verb)
}

/// Returns how many permits there are, and how many parts the answer has, if a server is asked for a permit.
pub(crate) fn take_slot(words: &[&[u8]]) -> Option<(u16, u8)> {
    let [b"EVAL" | b"EVALSHA", script, keys, rest @ ..] = words else {
        return None;
    };
    let (arguments, parts) = match script_of_holders(script)? {
        "take slot" => (3, 3),
        "take fenced slot" => (6, 4),
        _ => return None,
    };
    let permits = rest.get(millis(keys)? as usize + arguments)?;
    Some((millis(permits)? as u16, parts))
}

/// Returns `true` if a caller of the exclusive lock leaves its intent, or ends it.
pub(crate) fn is_intent(words: &[&[u8]]) -> bool {
    matches!(words, [b"EVAL", _, b"1", key, ..] | [b"DEL", key] if key.starts_with(INTENT))
}

/// Returns the name of a script about one of several holders.
pub(crate) fn script_of_holders(script: &[u8]) -> Option<&'static str> {
    known(script).map(|(_, _, name)| *name)
}

impl<'a> Command<'a> {
    /// Returns the command of a lock with several holders, or of a caller that waits until they are gone.
    pub(super) fn of_holders(words: &'a [&'a [u8]]) -> Option<Self> {
        if is_intent(words) {
            return Some(Self::without_key(Verb::Other));
        }
        let [b"EVAL" | b"EVALSHA", script, count, rest @ ..] = words else {
            return None;
        };
        let verb = verb_of(script)?;
        let (keys, arguments) = rest.split_at_checked(millis(count)? as usize)?;
        let (key, token) = (*keys.first()?, *arguments.first()?);
        match (verb, arguments.get(1)) {
            // This command only asks for permissions.
            (Verb::Set, Some(&b"")) => Some(Self::only_asks(key)),
            (Verb::Set | Verb::Extend, Some(ttl)) => Some(Self::about(verb, key, token, ttl)),
            _ => Some(Self::about(verb, key, token, b"")),
        }
    }
}

impl World {
    /// Returns the holders of the key of a command that a server is about to execute.
    pub(crate) fn held_before(&self, server: usize, shown: Instant, command: &Command<'_>) -> Held {
        match command.key {
            Some(key) if self.plan.has_several_holders() => {
                Held(self.servers[server].members_at(shown, key))
            }
            _ => Held::default(),
        }
    }

    /// Returns `true` if a process owns a token, or has inherited it.
    pub(crate) fn is_of_process(&self, process: Process, token: &Token) -> bool {
        self.oracle.ledger.find(token).is_some_and(|id| {
            let record = self.oracle.ledger.record(id);
            record.owner == process || record.heirs.contains(&process)
        })
    }

    /// Notes that a client has left an intent, or found one. `words` is the command that a server has executed, and
    /// `said` its answer.
    pub(crate) fn note_intents(&mut self, words: &[&[u8]], said: Option<i64>) {
        let sights = &mut self.oracle.counts.sights;
        match *words {
            _ if is_intent(words) => sights.note("IntentLeft"),
            [b"EVAL" | b"EVALSHA", script, _, _, key, ..]
                if key.starts_with(INTENT)
                    && verb_of(script) == Some(Verb::Set)
                    && said.is_some_and(|said| 3 <= said) =>
            {
                sights.note("IntentMet");
            }
            _ => {}
        }
    }

    /// Checks the command after the server has executed it.
    pub(super) fn holders_executed(&mut self, deed: &Deed<'_>, before: &Held) {
        let Some(key) = deed.command.key else {
            return;
        };
        let after = Held(self.servers[deed.server].members_at(deed.shown, key));
        for member in &before.0 {
            let left = after.of(&member.token).map(|after| after.left);
            let own = self.is_of_process(deed.process, &member.token);
            // For a lock that becomes a shared one, it is not known how long it would have lived before.
            let lives = left.is_some_and(|left| {
                let known = member.left.zip(left);
                known.is_none_or(|(before, after)| before <= after)
            });
            if !lives && (!own || left.is_some()) {
                let what = match left.is_some() {
                    true => "shortens a holder that is not its own",
                    false => "removes a holder that is not its own",
                };
                self.object_at(deed, "foreign key", what);
            }
            if left.is_none()
                && let Some(id) = self.oracle.ledger.find(&member.token)
            {
                self.is_gone(id, deed.server);
            }
        }
        self.is_whole(deed.server, key);
    }

    /// Checks that the holders of a key are of one kind, and that the key ends when its last holder does.
    fn is_whole(&mut self, server: usize, key: &[u8]) {
        let resource = super::name_of(key);
        let there = &self.servers[server];
        let shown = there.clock.show(self.now);
        if self.oracle.is_excused(self.now, resource) {
            return;
        }
        let held = Held(there.members_at(shown, key));
        let last = held.0.iter().filter_map(|member| member.left).max();
        let is_there = |left: u64| {
            let at = Instant::from_millis(shown.as_nanos() / MILLI + left);
            !there.store.members(at, key).is_empty()
        };
        // A key that would end in this very millisecond ends in the next one.
        let ends = last.is_none_or(|last| is_there(last) && !is_there(last.max(1) + 1));
        // An end that others have cut may be missed for as long as the clock is set back.
        let ends = ends || there.behind != 0;
        let wrong = held
            .wrong()
            .or((!ends).then_some("holders that end when their key does not"));
        if let Some(wrong) = wrong {
            let text = format!("server {server} keeps {wrong} at resource {resource}");
            self.object("holders", text);
        }
    }

    /// Returns the kind of holder that a lock is in its keys.
    pub(crate) fn kind_of(&self, lock: &Lock) -> Kind {
        let id = self.oracle.id_of(lock);
        let permits = id.map_or(0, |id| self.oracle.ledger.record(id).permits);
        match lock.slot() {
            Some(slot) => Kind::Permit(slot, permits),
            None if lock.is_shared() => Kind::Reader,
            None => Kind::Alone,
        }
    }

    /// Notes that a token was removed from a server.
    pub(super) fn is_gone(&mut self, id: TokenId, server: usize) {
        for node in 0..self.plan.nodes {
            if self.plan.server_of(node) == server {
                self.oracle.ledger.cell_mut(id, node).gone = true;
            }
        }
    }

    /// Checks every key, and every client that believes that it holds one.
    pub(super) fn look_at_holders(&mut self) {
        if !self.plan.has_several_holders() {
            return;
        }
        for resource in 0..self.plan.names() {
            let key = self.names[resource];
            for server in 0..self.plan.servers {
                self.is_whole(server, &key);
            }
            self.is_held(resource);
        }
    }

    /// Checks that every client that believes that it holds `resource` has a majority.
    pub(crate) fn is_held(&mut self, resource: usize) {
        let forgets = [Fault::Amnesia, Fault::Flush, Fault::Promote, Fault::Follow];
        let ever = |fault: &Fault| self.plan.faults[*fault as usize] != 0;
        if forgets.iter().any(ever) || self.oracle.is_excused(self.now, resource) {
            return;
        }
        let key = &self.names[resource];
        let alone = self.believers(resource).find(|(peer, belief)| {
            let end = self.clock_of(*peer).when(belief.until).min(NEVER);
            let keeps = |server: &&Server| {
                // Keys are read at the time that the clock will show then, if it is not set. An exclusive lock becomes
                // a shared one node by node.
                let held = server.members_at(server.clock.show(end), key).into_iter();
                let mut own = held.filter(|member| member.token == belief.token);
                own.any(|member| [Kind::Alone, belief.kind].contains(&member.kind))
            };
            self.servers.iter().filter(keeps).count() < self.plan.quorum()
        });
        if let Some((peer, belief)) = alone {
            let until = belief.until;
            let text = format!("{peer} holds {resource} until {until:?} without a majority");
            self.object("holders", text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_of_our_form_is_a_holder() {
        let member = Member::read(b"r/0123456789abcdefghijlabel", 7).expect("it has our form");
        assert_eq!(member.token, *b"0123456789abcdefghij");
        for other in [&b"0123456789abcdefghij"[..], b"w/0123456789abcdefghij"] {
            assert_eq!(Member::read(other, 7), None);
        }
    }
}
