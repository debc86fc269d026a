//! Takes a permit: the differences from a shared lock.
//!
//! A permit is one of several numbered slots. Each node assigns the first free slot that it finds. All clients make the
//! nodes begin the search at the same slot. So usually all nodes assign the same slot, and one round trip is enough. If
//! a majority has assigned slots, but not the same slot, the engine asks the nodes to move the token to the slot that
//! most of them assigned. The token must be moved within the time of the attempt. A node that has assigned this slot to
//! another client refuses the move. The engine then tries the next slot. If no slot is left, the attempt fails, and the
//! next attempt begins its search at a random slot.
//!
//! Once the permit is held, a node with the token in another slot does not count towards the majority. The engine
//! releases the wrong slot, and asks the node for the right slot.
//!
//! A node that refuses an attempt reports when the first slot becomes free. Every attempt of a waiting caller also
//! registers the key, so that the nodes report its next change. A waiting caller makes attempts instead of checks,
//! because a `PTTL` does not say whether a slot is free.
//!
//! # Guarantees
//!
//! * A permit is granted only if a majority of nodes has the token in the same slot, within the time of the attempt.
//! * No permit is granted while a node may still move the token to another slot.
//! * With a fencing token, a number counts only if the node assigned it together with the slot, or later:
//!   see [`fencing`](super::fencing).
//!
//! # Fencing tokens
//!
//! All slots of a name share one counter on each node. Consider two holders of one slot, one after the other. At least
//! one node is in the majorities of both holders. While the earlier holder had the slot on this node, the node raised
//! its counter at least to the earlier fencing token. After the earlier holder had left, the node assigned the slot to
//! the later holder, together with a larger number. The later fencing token is at least this larger number. Therefore a
//! number counts only if the node assigned it together with the slot. If a node moves the token to the slot later, its
//! earlier number does not count. So after each move, the engine asks the node for the slot again, and the node assigns
//! its next number.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::fencing::Fencing;
use super::{Acquire, Special};
use crate::engine::claims::claim::Claim;
use crate::engine::news::News;
use crate::engine::operation::patience::Patience;
use crate::engine::operation::top_up::life_of_copy;
use crate::engine::operation::{Context, Operate};
use crate::engine::parts::Parts;
use crate::engine::queues::{ROUNDED, Refusal};
use crate::entry::{Entry, Kind, Spare};
use crate::error::NodeOutcome;
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId};
use crate::node::{Access, Asking, Question};
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

/// The additional state of an acquisition of a permit.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) permits: u16,
    /// Whether the current attempt registers the key.
    registers: bool,
    /// The number of permits that this engine had released when the current attempt began.
    given_back: u32,
    /// Whether an attempt has begun.
    has_asked: bool,
    /// The slot that a majority has assigned in this attempt.
    slot: Option<u16>,
    /// The place of the token on each node, in this attempt.
    at: Box<[At]>,
    /// The number that each node has assigned with its slot. Zero means that the node has assigned no number.
    numbers: Box<[u64]>,
    /// The slots that nodes have assigned to other clients. The nodes reported these slots when the engine asked them
    /// to move the token.
    refused: Vec<(NodeId, u16)>,
}

/// The vote of a node that has the token in a different slot from the majority. The attempt expects no other answer
/// from a node with this vote.
const ELSEWHERE: (Vote, NodeOutcome) = (Vote::Abstain, NodeOutcome::Granted);

/// The place of the token on one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// The place of the token is not known.
    Unknown,
    /// The token is in no slot, because all slots are taken. The first slot becomes free at the given time.
    Full(Instant),
    /// The token is in the given slot.
    In(u16),
    /// The token is in the first of these slots, unless the node has already moved it to the second slot.
    Moving(u16, u16),
}

impl Slots {
    pub(super) fn new(permits: u16, nodes: usize) -> Self {
        Self {
            permits,
            registers: false,
            given_back: 0,
            has_asked: false,
            slot: None,
            at: vec![At::Unknown; nodes].into(),
            numbers: vec![0; nodes].into(),
            refused: Vec::new(),
        }
    }

    /// Begins another attempt. Returns the entry of the attempt, for `name` with this `token`. If the caller
    /// `has_waited`, the attempt immediately asks the nodes to report changes of the key. `given_back` is the number of
    /// permits that this engine has released so far.
    #[cold]
    pub(super) fn entry(
        &mut self,
        (spare, name, token): (Spare, &[u8], &[u8]),
        ((has_waited, given_back), is_fenced): ((bool, u32), bool),
        random: &mut StdRng,
    ) -> Entry {
        let start = match self.has_asked {
            false => hash(name),
            true => random.next_u32(),
        };
        self.registers = self.has_asked || has_waited;
        self.given_back = given_back;
        (self.has_asked, self.slot) = (true, None);
        self.at.fill(At::Unknown);
        self.refused.clear();
        let start = (start % u32::from(self.permits)) as u16;
        let entry = Entry::permit(spare, name, token, [self.permits, start], is_fenced);
        match self.registers {
            true => entry.registering(),
            false => entry,
        }
    }

    /// Returns `true` if the token is certainly in `slot` on `node`. After a request to move the token, the result is
    /// `false` until the node answers.
    fn is_in(&self, node: NodeId, slot: u16) -> bool {
        match self.at[node.index()] {
            At::In(is) => !guard!(AnySlotCounts, is != slot),
            At::Moving(from, _) => from == slot && !guard!(MovedSlotCounts, true),
            At::Unknown | At::Full(_) => false,
        }
    }

    /// Returns the slot that `node` has assigned.
    fn given(&self, node: NodeId) -> Option<u16> {
        match self.at[node.index()] {
            At::In(slot) | At::Moving(slot, _) => Some(slot),
            At::Unknown | At::Full(_) => None,
        }
    }

    /// Returns `true` if `node` has said that another client has `slot`.
    fn is_refused(&self, node: NodeId, slot: u16) -> bool {
        self.refused.contains(&(node, slot))
    }

    /// Returns the slot to which a node was asked to move the token, if the node has not answered. This node may still
    /// move the token at any time, even if its connection is lost, so the attempt uses no other slot.
    fn moves_to(&self) -> Option<u16> {
        self.at.iter().find_map(|at| match at {
            At::Moving(_, to) => Some(*to),
            At::Unknown | At::Full(_) | At::In(_) => None,
        })
    }

    /// Returns a slot in which at least `quorum` of the `open` nodes have the token, and these nodes.
    fn same(&self, open: NodeSet, quorum: usize) -> Option<(u16, NodeSet)> {
        let to = self.moves_to();
        let is_left = |slot: u16| to.is_some_and(|to| to != slot);
        let slots = open.iter().filter_map(|node| self.given(node));
        let mut slots = slots.filter(|slot| !guard!(MovedSlotCounts, is_left(*slot)));
        slots.find_map(|slot| {
            let same = open.filter(|node| self.is_in(node, slot));
            (quorum <= same.len()).then_some((slot, same))
        })
    }

    /// Returns the number of permits if fewer than `quorum` nodes may still have a free permit.
    fn all_taken(&self, quorum: usize) -> Option<u16> {
        let full = self.at.iter().filter(|at| matches!(at, At::Full(_)));
        (self.at.len() < quorum + full.count()).then_some(self.permits)
    }

    /// Returns the slot to which the `open` nodes should move the token. The result is the slot to which the token is
    /// being moved, or else the slot where most nodes have the token. Returns `None` if too many nodes refuse this slot
    /// for the others to be a majority.
    fn target(&self, open: NodeSet, quorum: usize) -> Option<u16> {
        let may_be_moved = |slot: &u16| {
            let others = open.filter(|node| !self.is_refused(node, *slot));
            quorum <= others.len()
        };
        if let Some(to) = self.moves_to() {
            return Some(to).filter(may_be_moved);
        }
        let given = open.iter().filter_map(|node| self.given(node));
        given.filter(may_be_moved).max_by_key(|slot| {
            let has = open.filter(|node| self.is_in(node, *slot));
            let refuses = open.iter().any(|node| self.is_refused(node, *slot));
            (has.len(), !refuses)
        })
    }
}

/// Returns a hash of `name` that is the same for all clients (FNV-1a).
fn hash(name: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    name.iter().fold(0x811c_9dc5, step)
}

impl Acquire {
    /// Returns the state of the slots, if this is an acquisition of a permit.
    pub(super) fn slots(&mut self) -> Option<&mut Slots> {
        match self.special.as_deref_mut()? {
            Special::Several(_) => None,
            Special::Reading(reading) => reading.slots.as_mut(),
        }
    }

    // ----- answers --------------------------------------------------------------------------

    /// Records that all slots that `node` may assign are taken. The first slot becomes free after the time `left`.
    #[cold]
    pub(super) fn is_full(&mut self, node: NodeId, left: Duration, now: Instant) {
        if let Some(slots) = self.slots() {
            let until = now.saturating_add(left).saturating_add(ROUNDED);
            slots.at[node.index()] = At::Full(until);
        }
    }

    /// Handles the grant of `slot` by `node`. A `number` of zero means that the node has assigned no number. The node
    /// has the token even if its vote does not count.
    #[cold]
    #[inline(never)]
    pub(super) fn gave(&mut self, node: NodeId, slot: u16, number: u64, cx: &mut Context<'_>) {
        let Some(slots) = self.slots() else {
            return;
        };
        if slots.permits <= slot {
            return self.vote(node, (Vote::Abstain, NodeOutcome::Granted), cx); // There is no such slot.
        }
        if let At::Moving(_, to) = slots.at[node.index()]
            && to != slot
        {
            slots.refused.push((node, to)); // The engine has asked for the slot again behind the move.
        }
        (slots.at[node.index()], slots.numbers[node.index()]) = (At::In(slot), number);
        match slots.slot {
            None => self.goes_on_with(node, cx),
            Some(is) if is == slot => self.count(node, cx),
            Some(_) => self.vote(node, ELSEWHERE, cx),
        }
    }

    /// Counts `node`, which has the token in the slot of the permit.
    fn count(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let number = self.slots().map_or(0, |slots| slots.numbers[node.index()]);
        match self.fenced().is_some() {
            true => self.counted(node, number, cx),
            false => self.vote(node, (Vote::Yes, NodeOutcome::Granted), cx),
        }
    }

    /// Handles the answer of `node` to a move. The node has either moved the token, or refused because another client
    /// has the slot.
    #[cold]
    #[inline(never)]
    pub(super) fn moved(&mut self, node: NodeId, is_moved: bool, cx: &mut Context<'_>) {
        if guard!(OldNumberCounts, self.fenced().is_some()) {
            return; // The next answer of the node names the slot too.
        }
        let Some(slots) = self.slots() else {
            return;
        };
        let At::Moving(from, to) = slots.at[node.index()] else {
            return; // The answer is about an earlier attempt.
        };
        slots.at[node.index()] = At::In(if is_moved { to } else { from });
        if !is_moved {
            slots.refused.push((node, to));
        }
        self.goes_on_with(node, cx);
    }

    fn goes_on_with(&mut self, node: NodeId, cx: &mut Context<'_>) {
        if cx.round.awaits(node) {
            cx.round.granted(cx.now, node);
            self.weigh(cx);
        }
    }

    /// Takes the slot that a majority has assigned, or asks nodes to move the token. Ends the attempt if no slot can
    /// get a majority.
    #[cold]
    #[inline(never)]
    pub(super) fn weigh(&mut self, cx: &mut Context<'_>) {
        let (open, quorum) = (cx.round.tally.open(), cx.round.tally.quorum());
        let Some(slots) = self.slots().filter(|slots| slots.slot.is_none()) else {
            return; // The votes are still being counted.
        };
        if let Some((slot, nodes)) = slots.same(open, quorum) {
            slots.slot = Some(slot);
            let is_in = |node: NodeId| matches!(slots.at[node.index()], At::In(_));
            let elsewhere = open.without(nodes).filter(is_in);
            if let Some((_, claim)) = cx.parts.claims.keyed(self.claim).must() {
                claim.entry.set_slot(slot);
            }
            nodes.iter().for_each(|node| self.count(node, cx));
            let elsewhere = elsewhere.iter();
            return elsewhere.for_each(|node| self.vote(node, ELSEWHERE, cx));
        }
        let given = open.filter(|node| slots.given(node).is_some());
        if given.len() < quorum {
            return;
        }
        let Some(target) = slots.target(open, quorum) else {
            let at = |node: NodeId| slots.at[node.index()];
            if open
                .filter(|node| !matches!(at(node), At::In(_)))
                .is_empty()
            {
                self.fail(Refusal::Held, cx);
            }
            return; // Another answer may still decide the slot.
        };
        for node in given.iter() {
            self.ask_to_move(node, target, cx);
        }
    }

    /// Asks `node` to move the token to the slot `to`, and waits for another answer.
    fn ask_to_move(&mut self, node: NodeId, to: u16, cx: &mut Context<'_>) {
        let Some((key, claim)) = cx.parts.claims.keyed(self.claim).must() else {
            return;
        };
        let (mut entry, life) = (claim.entry.clone(), claim.life());
        let proposal = self.fenced().map(Fencing::proposal);
        let Some(slots) = self.slots() else {
            return;
        };
        let At::In(from) = slots.at[node.index()] else {
            return; // The node was asked before.
        };
        if from == to || slots.is_refused(node, to) {
            return;
        }
        slots.at[node.index()] = At::Moving(from, to);
        entry.set_slot(to);
        let patience = Patience::for_vote(cx.round.ttl, &cx.parts.settings);
        let mut command = cx.parts.claims.command();
        let there = cx.parts.nodes.writing_to(node);
        cx.round[node].deadline = patience.until(cx.now, there);
        cx.round[node].outcome = NodeOutcome::Pending;
        let asking = Asking {
            claim: Some(key),
            ..Asking::about(Question::Move, cx.round.key, &entry)
        };
        there.ask_about(cx.now, &mut command, &asking);
        if proposal.is_some()
            && there.access() == Access::Open
            && there.take(cx.now, key, &mut command, &entry, (life, proposal)) == Ok(true)
            && let Some((_, claim)) = cx.parts.claims.keyed(self.claim)
        {
            claim.set_sent(node);
        }
        cx.parts.claims.sent(command);
        cx.parts.wrote_to(cx.now, entry.resource());
        cx.round.arm(&mut cx.parts.timers);
    }

    // ----- decisions after the votes ---------------------------------------------------------

    /// Returns the number of permits, if all permits are taken. Either the nodes have reported that no permit is free,
    /// or this engine has taken all permits and the operation has sent nothing.
    #[cold]
    pub(super) fn all_taken(&mut self, cx: &Context<'_>) -> Option<u16> {
        let place = self.place;
        let slots = self.slots()?;
        match slots.has_asked {
            true => slots.all_taken(cx.round.tally.quorum()),
            false => cx.parts.queues.has_all_permits(place),
        }
    }

    /// Brings all copies of a held permit into the right slot, on each node that has or may have the token in another
    /// slot.
    #[cold]
    pub(super) fn gather(&mut self, key: ClaimKey, slot: u16, cx: &mut Context<'_>) {
        let Some(slots) = self.slots() else {
            return;
        };
        let astray = cx
            .parts
            .nodes
            .set()
            .filter(|node| match slots.at[node.index()] {
                At::In(is) | At::Moving(_, is) => is != slot,
                At::Unknown | At::Full(_) => false,
            });
        for node in astray.iter() {
            astray_on(cx.now, node, (key, true), cx.parts);
        }
    }

    /// Passes the answers of a refused attempt to the contender. Returns `true` if the attempt has registered no key.
    /// In this case, the contender makes another attempt immediately, unless the votes of the attempt were split.
    #[cold]
    #[inline(never)]
    pub(super) fn learns_of_slots(&mut self, cx: &mut Context<'_>) -> bool {
        let (now, place, parts) = (cx.now, self.place, &mut *cx.parts);
        let Some(slots) = self.slots() else {
            return false;
        };
        // If this engine has released a permit since the attempt began, treats the permit as free, because the nodes
        // may have answered before the release.
        let is_free = slots.given_back != parts.queues.given_back(place);
        let round_trip = parts.nodes.round_trip();
        let Some((waiting, _)) = parts.queues.waiting(place) else {
            return false;
        };
        for (node, at) in parts.nodes.ids().zip(&slots.at) {
            match at {
                At::Full(until) => {
                    let until = if is_free { now } else { *until };
                    let pushes = parts.nodes[node].connection.wire.waking.pushes();
                    waiting.is_full(node, until, slots.registers.then_some(pushes));
                }
                At::In(_) | At::Moving(..) => waiting.belief.is_full(node, now, None),
                At::Unknown => {}
            }
        }
        let looks = slots.registers;
        if !looks {
            let delays = parts.settings.retry.delay().into_inner();
            waiting.looked(now, round_trip, delays, &mut parts.random);
            waiting.look_soon(now);
            cx.round.tries -= 1; // The next attempt is part of the same try.
        }
        if !looks || is_free {
            parts.news.push_back(News::Stirred(cx.round.key));
        }
        !looks
    }
}

/// Removes the token of the permit of `key` from a wrong slot on `node`, where the token is or may be. If `is_new` is
/// `true`, also tries to take the right slot. Otherwise the next extension tries this.
#[cold]
#[inline(never)]
pub(in crate::engine) fn astray_on(
    now: Instant,
    node: NodeId,
    (key, is_new): (ClaimKey, bool),
    parts: &mut Parts,
) {
    let drift = parts.settings.drift;
    let Some(claim) = parts.claims.get_mut(key).filter(|claim| claim.is_held()) else {
        return;
    };
    claim.missed_on(node);
    let entry = claim.entry.clone();
    let life = life_of_copy(now, entry.end(), &entry, claim.life(), drift);
    let takes = is_new && now < entry.end() && !claim.copy_on(node).is_open();
    let there = parts.nodes.writing_to(node);
    if there.access() == Access::Open {
        there.take_out(now, &entry);
        let mut command = parts.claims.command();
        let sent = takes && there.take(now, key, &mut command, &entry, (life, None)) == Ok(true);
        if let Some(claim) = parts.claims.get_mut(key).filter(|_| sent) {
            claim.set_sent(node);
        }
        parts.claims.sent(command);
        parts.wrote_to(now, entry.resource());
    }
    parts.claims.rest(key);
}

/// Returns `true` if a node has the token of a held permit in `slot`, but the permit is held in another slot.
#[cold]
pub(super) fn is_astray(claim: &Claim, slot: u16) -> bool {
    let is_other = |kind| matches!(kind, Kind::Permit { slot: own, .. } if own != slot);
    claim.is_held() && is_other(claim.entry.kind())
}
