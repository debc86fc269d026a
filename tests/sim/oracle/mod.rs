//! The promises that must hold, whatever goes wrong. One function checks each of them.
//!
//! The oracles know true time and every node's memory, which no client does. They look at what
//! clients believe, what nodes execute and what calls return, and never into an engine.
//!
//! | oracle | promise | file |
//! | --- | --- | --- |
//! | exclusion | no two clients believe that they hold one resource at the same true time | `exclusion` |
//! | votes | every lock and every extension has a majority that may vote, read before it was reported | `votes`, `quarantine` |
//! | validity | it ends when the rule says, counted from before the first byte | `votes` |
//! | foreign key | only its owner deletes or replaces a key | `keys`, `holders` |
//! | early release | no key is deleted while its owner holds the lock | `keys` |
//! | expiry | every key ends, also if its owner is dead | `keys` |
//! | orphans | no key of an ended attempt or lock stays on a node that answers | `orphans` |
//! | settling | every call ends in time and when its outcome is certain, lost connections are opened again, and no engine runs hot or sleeps for ever | `settling`, `certain` |
//! | wake | the engine asks to be woken in time for everything that is due, and does nothing before | `wake` |
//! | told | the end of its lock is reported to every holder, once and in time | `told` |
//! | outcome | what a call returns agrees with what the nodes did | `outcome`, `report` |
//! | starvation | no waiter is passed over for ever | `starvation` |
//! | delay | a lock that was not released keeps others out until its validity and the lock delay are over | `delay` |
//! | copy | a held lock is copied only to a node that lacks it, when a majority without it has it | `copy` |
//! | kept | a lock that its engine keeps does not end if a majority could have extended it | `kept` |
//! | deleted | the loss of a kept lock whose keys others delete or replace is reported at once, where nodes tell of changes | `deleted` |
//! | told-early | who wants to know when a lock is at risk is told in time, once, and not otherwise | `kept` |
//! | queue | waiters of one client are served in turn, none sleeps while its lock is free, and few commands are sent | `queue` |
//! | storm | commands and connections are no more than the work needs | `storm` |
//! | late | nothing is sent after its time | `late` |
//! | order | a release goes before every later `SET` of its connection | `order` |
//! | silence | a silent node is not asked, and given up in the end | `silence` |
//! | memory | what is open is within its limits and in proportion | `memory` |
//! | watch | a while after the last change a watch has told what the nodes have, and asks nothing more | `watching` |
//! | holders | a key with several holders keeps each for as long as it has promised | `holders` |
//! | set | a node keeps all names of a lock on several resources, or none | `sets` |
//! | fence | fencing tokens are distinct, rise in the order of the grants and stay the same | `fencing` |
//! | liveness | after the faults everything ends well | `liveness` |
//!
//! `confirm` checks these promises for confirmations, and `inspect` for inspections. All of them judge by the `ledger`
//! of what the nodes executed.

mod certain;
mod claimed;
mod clocks;
mod confirm;
mod copy;
mod delay;
mod deleted;
mod exclusion;
mod fencing;
mod holders;
mod inspect;
mod kept;
mod keys;
mod late;
mod ledger;
mod liveness;
mod memory;
mod order;
mod orphans;
mod outcome;
mod quarantine;
mod queue;
mod report;
mod sets;
mod settling;
mod silence;
mod starvation;
mod storm;
mod told;
mod votes;
mod wake;
mod watching;

use std::collections::{BTreeMap, BTreeSet};

use shearline::{Instant, Lock};

use crate::clock::{MILLI, NEVER, Time};
use crate::plan::{Guard, Plan};
use crate::sights::Sights;
use crate::world::World;
use crate::written::{Place, Writing};

use ledger::{Codes, Entry, Record};

pub(crate) use clocks::TimeRead;
pub(crate) use exclusion::Belief;
pub(crate) use fencing::{Counted, is_of_fencing, names_and_arguments as fencing_arguments};
pub(crate) use holders::{Held, Kind, is_intent, pairs, script_of_holders, take_slot};
pub(crate) use inspect::{Inspected, Inspecting, is_inspection};
pub(crate) use ledger::{
    Code, Command, Fence, Ledger, Process, Reading, Said, Token, TokenId, Verb, is_fenced_set,
    millis, number_in, token_of,
};
pub(crate) use outcome::{Limits, Release};
pub(crate) use sets::SetBefore;
pub(crate) use wake::TICK;

/// All oracles of the table above, each with a breakage to which it objects when no other counts, and the kind of world
/// in which it does.
pub(crate) const ORACLES: [(&str, &str, &str); 28] = [
    ("exclusion", "SetWithoutNx", "any"),
    ("votes", "QuorumOfConnected", "any"),
    ("validity", "DriftIgnored", "any"),
    ("foreign key", "ReleaseByPlainDel", "any"),
    ("early release", "UnconfirmedGivesBack", "any"),
    ("expiry", "SetWithoutPx", "any"),
    ("orphans", "StragglerForgotten", "any"),
    ("settling", "DeadlineIgnored", "any"),
    ("wake", "WokenLateForDeadline", "any"),
    ("told", "LossNotTold", "any"),
    ("outcome", "NoscriptReleaseDropped", "any"),
    ("starvation", "RetryInStep", "any"),
    ("delay", "ExtensionForgetsDelay", "delaying"),
    ("copy", "TopUpBeforeMajority", "any"),
    ("kept", "KeptTriedOnce", "outages"),
    ("deleted", "ChangesIgnored", "deleted"),
    ("told-early", "RiskToldLate", "outages"),
    ("storm", "RetryAtOnce", "any"),
    ("queue", "HeadKept", "crowded"),
    ("late", "RetryAfterEnd", "any"),
    ("order", "DebtsAfterSets", "any"),
    ("silence", "DeadAfterIgnored", "any"),
    ("memory", "RoundsKept", "any"),
    ("watch", "LateLookCounts", "watching"),
    ("holders", "RenewalShortens", "shared"),
    ("set", "SetReleasedInPart", "sets"),
    ("fence", "TokenIsNotWrittenBack", "fenced"),
    ("liveness", "NeverReconnects", "any"),
];

/// The name of an oracle.
pub(crate) type Name = &'static str;

/// The oracle that objects to a history without an end. It is always on.
pub(crate) const ENDLESS: &str = "endless";

/// The objection of an oracle.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// The name of the oracle.
    pub(crate) oracle: &'static str,
    pub(crate) text: String,
    pub(crate) at: Time,
}

/// The state of the oracles.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) violation: Option<Violation>,
    /// The only oracle that is on.
    only: Option<&'static str>,
    /// Whether nothing excuses two holders.
    no_excuses: bool,
    longest_ttl: Time,
    /// For each resource, the newest lock that was not released, or all shared ones.
    delayed: Vec<Vec<delay::Delayed>>,
    pub(crate) ledger: Ledger,
    pub(crate) fencing: fencing::Fencing,
    /// The beliefs by resource and peer: clients first, then strangers.
    pub(crate) beliefs: Vec<Vec<Vec<Belief>>>,
    /// For each resource, until when several users may believe that they hold it.
    excused: Vec<Time>,
    /// For each client and node, when the newest answered command had been sent.
    answered: Vec<Vec<Time>>,
    /// For each client and resource, the newest token.
    newest: Vec<Vec<Option<TokenId>>>,
    /// For each client and resource, how often the current call has asked, and for which tokens.
    attempts: Vec<Vec<u32>>,
    asked: Vec<Vec<Vec<TokenId>>>,
    /// The newest calls of each client for each resource.
    calls: Vec<Vec<late::Calls>>,
    /// For each process, its client, and whether it lives.
    lives: Vec<Life>,
    /// Tokens that should not be on a server, by server, and since when.
    suspects: BTreeMap<(usize, TokenId), Time>,
    /// Tokens that a server brought back from its disk after they had been deleted.
    revenants: BTreeSet<(usize, TokenId)>,
    /// For each resource, whether a client got it since all faults have ended.
    taken: Vec<bool>,
    rests: starvation::Rests,
    /// For each client and node, the error words of a refused release, or of the request whether it is permitted.
    refused: Vec<Vec<Codes>>,
    /// How many connections in a row were opened again as late as possible.
    in_step: u32,
    quarantine: quarantine::Quarantine,
    /// For each client and node, when an operator last made the node one of this group, whatever its marker was.
    pub(crate) anew: Vec<Vec<Time>>,
    /// For each client, since when a node has said that it belongs to another group.
    shut_out: Vec<Time>,
    /// How often others had set a key when the present call began, by client and resource.
    sets: storm::Sets,
    sets_before: Vec<Vec<u64>>,
    /// Counts of keys in the way of a `SET`, by client and node.
    met: Vec<Vec<storm::Met>>,
    /// How many resources consist of several names.
    several: usize,
    /// The looks of each client at each node.
    pub(crate) looks: Vec<Vec<storm::Looks>>,
    pub(crate) waiting: queue::Waiting,
    /// For each client and node, until when a fault may keep the node from answering.
    pub(crate) troubled: Vec<Vec<Time>>,
    /// The number of commands about locks, by client.
    lock_commands: Vec<u64>,
    pub(crate) watched: watching::Watched,
    pub(crate) deleted: deleted::Deleted,
    pub(crate) counts: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    peer: usize,
    alive: bool,
}

/// Counts of what happened, which show that the worlds are not idle.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) locks: u64,
    pub(crate) commands: u64,
    /// Commands of clients about locks.
    pub(crate) asked: u64,
    /// The most hand-overs that a call has waited for.
    pub(crate) passed_over: u32,
    /// The most locks that others got while a client waited.
    pub(crate) overtaken: u32,
    /// The longest time until a lock was got.
    pub(crate) longest_wait: Time,
    /// Everything else.
    pub(crate) sights: Sights,
}

/// A command that a server has executed or refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deed<'a> {
    /// How many deeds there were before it.
    pub(crate) number: u64,
    pub(crate) peer: usize,
    pub(crate) process: Process,
    pub(crate) conn: usize,
    pub(crate) node: usize,
    pub(crate) server: usize,
    /// How often the server has started.
    pub(crate) life: u32,
    pub(crate) sent: Time,
    /// How its first byte left.
    pub(crate) begun: Writing,
    /// When it was requested, if it waited for a transaction; `begun` otherwise.
    pub(crate) wanted: Writing,
    /// The time of the deed by the server's clock.
    pub(crate) shown: Instant,
    pub(crate) command: Command<'a>,
    /// The deed was done in a transaction, which is not one command.
    pub(crate) transacted: bool,
    /// The deed was part of one command with others.
    pub(crate) batched: bool,
    /// The caller no longer wants it: it was begun before.
    pub(crate) is_over: bool,
    /// What the server did, expressed as an answer, and what it answered.
    pub(crate) done: Said,
    pub(crate) said: Said,
    /// Whether the answer counts, where servers carry markers.
    pub(crate) fence: Fence,
    /// For how many milliseconds it said to keep the key, if it was asked.
    pub(crate) kept: u64,
    /// The value of the key before and after.
    pub(crate) before: Option<Token>,
    pub(crate) after: Option<Token>,
}

impl Deed<'_> {
    /// Returns the ttl that the key has got, if it has got one.
    pub(crate) fn given(&self) -> Option<&[u8]> {
        match (self.command.verb, self.done) {
            (Verb::Set, Said::Ok) | (Verb::Extend | Verb::Beside | Verb::Keep, Said::One) => {
                self.command.ttl
            }
            _ => None,
        }
    }

    /// Returns how and when the deed was requested if it waited for a transaction, and otherwise how and when it left.
    pub(crate) fn asked(&self) -> (Writing, Time) {
        match self.transacted && self.wanted.place < self.begun.place {
            true => (self.wanted, self.wanted.since),
            false => (self.begun, self.sent),
        }
    }
}

/// An answer on its way to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The number of the deed.
    pub(crate) number: u64,
    /// The byte of the stream with which it ends.
    pub(crate) end: u64,
    /// The byte of the other direction with which its command ends.
    pub(crate) asked: u64,
    pub(crate) verb: Verb,
    pub(crate) token: Option<TokenId>,
    /// Its command was not requested before this time.
    pub(crate) since: Time,
    pub(crate) sent: Time,
    pub(crate) said: Said,
    /// How often the server had started.
    pub(crate) life: u32,
    /// By how much the clock of the server had been set forward.
    pub(crate) jumped: Time,
    /// For a request to join: the longest ttl that the marker named, if there was no barrier.
    pub(crate) open: Option<u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.locks += other.locks;
        self.commands += other.commands;
        self.asked += other.asked;
        self.passed_over = self.passed_over.max(other.passed_over);
        self.overtaken = self.overtaken.max(other.overtaken);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.sights.add(&other.sights);
    }
}

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            violation: None,
            only: plan.switches.only.or(crate::mutations::heard()),
            no_excuses: plan.switches.no_excuses,
            // A deleted barrier was for the longest lock of all.
            longest_ttl: MILLI
                * match plan.guard {
                    Guard::Strict => plan.max_life(),
                    Guard::Off | Guard::Observed | Guard::Untold => plan.longest_ttl + plan.added(),
                },
            delayed: vec![Vec::new(); plan.resources],
            ledger: Ledger::new(plan.nodes),
            fencing: fencing::Fencing::new(plan),
            beliefs: vec![vec![Vec::new(); plan.peers()]; plan.resources],
            excused: vec![0; plan.resources],
            answered: vec![vec![0; plan.nodes]; plan.peers()],
            newest: vec![vec![None; plan.resources]; plan.peers()],
            attempts: vec![vec![0; plan.resources]; plan.peers()],
            asked: vec![vec![Vec::new(); plan.resources]; plan.peers()],
            calls: vec![vec![late::Calls::default(); plan.resources]; plan.peers()],
            lives: Vec::new(),
            suspects: BTreeMap::new(),
            revenants: BTreeSet::new(),
            taken: vec![false; plan.resources],
            rests: starvation::Rests::default(),
            refused: vec![vec![Codes::default(); plan.nodes]; plan.peers()],
            in_step: 0,
            quarantine: quarantine::Quarantine::new(plan),
            anew: vec![vec![0; plan.nodes]; plan.peers()],
            shut_out: vec![NEVER; plan.peers()],
            sets: storm::Sets::new(plan.peers(), plan.resources),
            sets_before: vec![vec![0; plan.resources]; plan.peers()],
            met: vec![vec![storm::Met::default(); plan.nodes]; plan.peers()],
            several: plan.sets,
            looks: vec![vec![storm::Looks::default(); plan.nodes]; plan.peers()],
            waiting: queue::Waiting::new(plan.clients, plan.resources),
            troubled: vec![vec![0; plan.nodes]; plan.clients],
            lock_commands: vec![0; plan.peers()],
            watched: watching::Watched::new(plan),
            deleted: deleted::Deleted::new(plan),
            counts: Counts::default(),
        }
    }

    pub(crate) fn object(&mut self, oracle: &'static str, at: Time, text: String) {
        let only = self.only;
        let listened = only.is_none_or(|only| only == oracle || oracle == ENDLESS);
        if listened && self.violation.is_none() {
            self.violation = Some(Violation { oracle, text, at });
        }
    }

    /// Notes that a process begins, and replaces an earlier one.
    pub(crate) fn born(&mut self, peer: usize) -> Process {
        self.answered[peer].fill(0);
        self.newest[peer].fill(None);
        self.calls[peer].fill(late::Calls::default());
        self.looks[peer].fill(storm::Looks::default());
        self.met[peer].iter_mut().for_each(storm::Met::born);
        self.lock_commands[peer] = 0;
        self.refused[peer].fill(Codes::default());
        self.quarantine.born(peer);
        self.shut_out[peer] = NEVER;
        self.lives.push(Life { peer, alive: true });
        (self.lives.len() - 1) as Process
    }

    /// Notes that a process was killed. A dead process believes nothing.
    pub(crate) fn died(&mut self, process: Process) {
        let life = &mut self.lives[process as usize];
        life.alive = false;
        for beliefs in &mut self.beliefs {
            beliefs[life.peer].clear();
        }
        self.counts.sights.note("Killed");
    }

    /// Returns the token of a lock, if a node has seen it.
    pub(crate) fn id_of(&self, lock: &Lock) -> Option<TokenId> {
        self.ledger.find(&token_of(lock.token().as_bytes()))
    }

    /// Notes something about the token of a lock, if a node has seen it.
    pub(crate) fn note_of(&mut self, lock: &Lock, note: impl FnOnce(&mut Record)) {
        if let Some(id) = self.id_of(lock) {
            note(self.ledger.record_mut(id));
        }
    }

    /// Notes that a lock is handed from one process to another.
    pub(crate) fn inherited(&mut self, lock: &Lock, heir: Process, place: Place) {
        self.note_of(lock, |record| record.heirs.push(heir));
        self.asks_release(lock, place);
    }

    /// Notes a call for a lock.
    pub(crate) fn asks(&mut self, client: usize, user: usize) {
        self.attempts[client][user] = 0;
        self.sets_before[client][user] = self.sets.of_others(client, user, self.several);
        self.asked[client][user].clear();
    }

    /// Notes a call for a release.
    pub(crate) fn asks_release(&mut self, lock: &Lock, place: Place) {
        self.end_delay(&token_of(lock.token().as_bytes()));
        self.note_of(lock, |record| {
            record.releases += 1;
            record.ended = record.ended.min(place);
        });
    }

    /// Notes that a majority has said that it lacks the token of a lock: a release is due.
    pub(crate) fn misses(&mut self, lock: &Lock) {
        self.note_of(lock, |record| {
            record.releases += 1;
            record.lost = true;
        });
    }
}

impl World {
    /// Checks all keys. Is called ten times a second.
    pub(crate) fn look(&mut self) {
        self.orphans();
        self.expiry();
        self.watched();
        self.deletions_told();
        self.look_at_holders();
        self.is_kept_waiting();
        for resource in 0..self.plan.resources {
            self.asleep(resource);
        }
    }

    /// Records the objection of an oracle.
    pub(crate) fn object(&mut self, oracle: &'static str, text: impl Into<String>) {
        self.oracle.object(oracle, self.now, text.into());
    }

    /// Records the objection of an oracle if something is `wrong`.
    pub(crate) fn object_if(&mut self, wrong: bool, oracle: Name, text: impl FnOnce() -> String) {
        if wrong {
            self.object(oracle, text());
        }
    }

    /// Records the objection of an oracle to what a client does if that is `wrong`.
    pub(crate) fn object_of(&mut self, client: usize, wrong: bool, oracle: Name, what: &str) {
        self.object_if(wrong, oracle, || format!("client {client} {what}"));
    }

    /// Records the objection of an oracle to a command.
    pub(crate) fn object_at(&mut self, deed: &Deed<'_>, oracle: Name, what: &str) {
        let text = format!("client {}, node {}: {what}", deed.peer, deed.node);
        self.object(oracle, text);
    }

    /// Records what a server did, and checks whether the command should have been sent. Returns its
    /// token.
    pub(crate) fn executed(&mut self, deed: &Deed<'_>, held: &Held) -> Option<TokenId> {
        self.oracle.counts.commands += 1;
        let key = deed.command.key?;
        let id = deed.command.token.map(|token| {
            let resource = match deed.command.keys {
                [] => name_of(key),
                _ => self.plan.names(),
            };
            let ledger = &mut self.oracle.ledger;
            ledger.enter(token, deed.process, resource, deed.sent)
        });
        self.where_it_is_asked(deed);
        if self.plan.has_several_holders() {
            self.holders_executed(deed, held);
        } else if deed.command.keys.is_empty() {
            self.foreign_key(deed);
        }
        self.fence(deed);
        if let Some(id) = id {
            self.early_release(deed, id);
            self.keep_executed(deed, id);
            self.enter(deed, id);
            self.lasts(deed, id);
            let copy = self.copy(deed, id);
            self.late(deed, id, copy);
            self.order(deed, id, copy);
            self.asked_of_silent(deed);
            self.storm(deed, id, copy);
            self.asked_for_how_long(deed, id);
            let resource = self.oracle.ledger.record(id).resource;
            self.asleep(resource);
            self.note_deed(deed, resource);
        }
        id
    }

    /// Notes that a server has lengthened the life of what a key holds. A server that refuses `MULTI`, and is well
    /// again before the next command of the same write, executes the rest outside of a transaction.
    pub(crate) fn lengthened(&mut self, deed: &Deed<'_>, words: &[&[u8]]) {
        let [b"PEXPIRE", _, ttl] = words else {
            return;
        };
        let there = self.oracle.ledger.find_any(deed.before);
        if deed.done == Said::One
            && let Some((id, until)) = there.zip(end_of(deed.shown, ttl))
        {
            let cell = self.oracle.ledger.cell_mut(id, deed.node);
            cell.until = cell.until.max(until);
        }
    }

    fn enter(&mut self, deed: &Deed<'_>, id: TokenId) {
        let (node, done, said, process) = (deed.node, deed.done, deed.said, deed.process);
        let entry = Entry::new(deed, self.now);
        let crowded = self.plan.is_crowded();
        let oracle = &mut self.oracle;
        let verb = deed.command.verb;
        let record = oracle.ledger.record(id);
        // Two things happen without a call: the release after a `SET` of a lock that was handed over, and the rest of a
        // confirmation that had begun to leave, even after the next one.
        let holder = record.heirs.last().unwrap_or(&record.owner);
        let alive = oracle.lives[process as usize].alive && deed.peer < oracle.calls.len();
        let asks = matches!(
            verb,
            Verb::Extend | Verb::Beside | Verb::Keep | Verb::Confirm
        );
        // If a client has several users, it is not known whose call that is.
        let stale = asks && alive && !crowded && {
            let calls = &oracle.calls[deed.peer][record.resource];
            deed.asked().0.place < calls.asked_at(verb)
        };
        if verb == Verb::Set || *holder == process && !stale {
            oracle.ledger.executed(id, node, verb, entry);
        }
        if let Some(until) = deed.given().and_then(|ttl| end_of(deed.shown, ttl)) {
            let cell = oracle.ledger.cell_mut(id, node);
            cell.until = cell.until.max(until);
        }
        if verb != Verb::Set {
            return;
        }
        let is_permit = oracle.ledger.record(id).permits != 0;
        let cell = oracle.ledger.cell_mut(id, node);
        cell.was_set |= done == Said::Ok;
        // The node's slot was taken back, and the node has given the right one.
        cell.gone &= !(is_permit && done == Said::Ok);
        if said == Said::Nil {
            let before = oracle.ledger.find_any(deed.before);
            oracle.ledger.cell_mut(id, node).blocked_by = before;
        }
        let resource = oracle.ledger.record(id).resource;
        let copy = oracle.ledger.record(id).is_copy(deed.begun.place);
        if copy || !oracle.lives[process as usize].alive {
            return;
        }
        let asked = &mut oracle.asked[deed.peer][resource];
        if !asked.contains(&id) {
            asked.push(id);
        }
        // The order is that of their first bytes: the rest of a `SET` that was cut short is sent during later attempts.
        let first = oracle.ledger.record(id).first.min(deed.begun.place);
        let newest = &mut oracle.newest[deed.peer][resource];
        if newest.is_none_or(|newest| oracle.ledger.record(newest).first < first) {
            *newest = Some(id);
        }
    }

    /// Handles the next bytes that a client has read from a connection.
    pub(crate) fn answers_read(&mut self, client: usize, conn: usize) {
        let shown = self.clients[client].shown;
        let (node, by) = (self.conns[conn].node, self.conns[conn].process);
        while let Some(answer) = self.conns[conn].answers.front().copied() {
            let link = &mut self.conns[conn];
            if link.near.read < answer.end {
                return;
            }
            if link.is_garbage(answer.end) {
                let path = &mut self.clients[client].paths[node];
                path.took(self.now - answer.sent);
                link.answers.pop_front();
                continue;
            }
            link.written.answered = answer.asked;
            let Answer {
                verb, sent, said, ..
            } = answer;
            let path = &mut self.clients[client].paths[node];
            path.answered(self.now, shown, sent, (verb, said));
            self.measured(client, node, answer.since);
            if let (Verb::Other | Verb::Release, Said::Refused(code)) = (verb, said) {
                self.oracle.refused[client][node].add(code);
                // A refused login ends the connection: later bytes of the same read do not count.
                let path = &self.clients[client].paths[node];
                if path.ready_at == NEVER && verb == Verb::Other && code.is_of_login() {
                    self.conns[conn].answers.pop_front();
                    return;
                }
            }
            if verb == Verb::Load {
                let server = self.plan.server_of(node);
                self.oracle.quarantine.meets(client, server, self.now);
            }
            if verb == Verb::Join && said == Said::One {
                self.oracle.quarantine.connected(client, node, answer.life);
                if let Some(longest) = answer.open {
                    let quarantine = &mut self.oracle.quarantine;
                    quarantine.opened(client, node, answer.number, longest);
                }
            }
            if verb == Verb::Join && said == Said::Zero {
                let since = &mut self.oracle.shut_out[client];
                *since = (*since).min(self.now);
            }
            // Owed releases go after the first request of a handshake, and before the last; but those that have waited
            // for longer go before it.
            if !said.is_error() && !matches!(verb, Verb::Other | Verb::Release | Verb::Time) {
                let newest = &mut self.oracle.answered[client][node];
                *newest = sent.max(*newest);
            }
            if verb == Verb::Time {
                self.time_read(client, node, &answer);
            }
            if let Some(id) = answer.token {
                let reading = Reading {
                    number: answer.number,
                    by,
                    said,
                    at: self.now,
                    shown,
                    place: self.inputs,
                };
                self.oracle.ledger.read(id, node, verb, &reading);
                let server = self.plan.server_of(node);
                let twin = server + self.plan.servers < self.plan.nodes;
                // A second connection to one server is given up when its handshake ends: later bytes of the same read
                // do not count.
                if !twin || self.clients[client].paths[node].ready_at != self.now {
                    self.oracle.quarantine.answered(client, node, &reading);
                }
                if twin && matches!(said, Said::Refused(code) if code.may_forget()) {
                    self.oracle.counts.sights.note("TwinAlarmed");
                }
            }
            self.conns[conn].answers.pop_front();
        }
    }
}

/// Returns the number of the resource of this name.
pub(crate) fn name_of(key: &[u8]) -> usize {
    key.last().map_or(0, |digit| usize::from(digit - b'0'))
}

/// Returns what the server's clock shows at the end of a key that gets `ttl` now. It counts
/// milliseconds, and a key ends when they are over.
fn end_of(shown: Instant, ttl: &[u8]) -> Option<Instant> {
    let ttl: u64 = std::str::from_utf8(ttl).ok()?.parse().ok()?;
    Some(Instant::from_millis(shown.as_nanos() / MILLI + ttl))
}

#[cfg(test)]
mod tests {
    use crate::case::Kind;
    use crate::kinds::{DELETED, INSPECTING, OUTAGES};
    use crate::replay::effort;
    use crate::sweep::keep_their_promises;
    use crate::watching::WATCHING;

    /// What has to happen, and more often than so many times in two histories.
    type Seen = &'static [(&'static str, u64)];

    /// Kinds of worlds for the promises of one oracle, and how many histories the ordinary and the long run play.
    const KINDS: [(Kind, [u64; 2], Seen); 4] = [
        (INSPECTING, [20, 200], &[("Inspected", 10)]),
        (WATCHING, [20, 200], &[("ChangeTold", 10), ("Compared", 1)]),
        (DELETED, [20, 200], &[("Deleted", 2)]),
        // One history in thirty has such an end.
        (
            OUTAGES,
            [200, 400],
            &[("Kept", 10), ("AtRisk", 1), ("KeptEnded", 0)],
        ),
    ];

    #[test]
    fn worlds_show_what_their_oracles_judge() {
        for (kind, [few, many], seen) in KINDS {
            let histories = effort(few, many);
            let sights = keep_their_promises(kind, histories).counts.sights;
            for (name, often) in seen {
                let (times, world) = (sights.of(name), kind.name);
                assert!(often * histories / 2 < times, "{world}: {name} {times}");
            }
        }
    }
}
