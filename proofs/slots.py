"""Permits: K numbered slots, and at most one believer in each.

Modelled (DESIGN 23; design of the key in issue 37; `lease.py` has the clocks, rounds and beliefs): a sorted set at each
node, whose members `K/SLOT/TOKEN` have deadlines. TAKE_SLOT takes any free slot below K and answers which; MOVE_SLOT
moves a member to a slot that is free, and keeps the deadline; extension, release, copies, purging of members that are
over, expiry of the key, and the loss of data. A MOVE may be executed at any time after it was sent, and more than once.

A token believes in a slot when each node of a quorum has answered that it has the token in this slot. Plain locks and
sets of readers exclude a set of permits as in `shared.py`: a key has one type, and another form is refused.

Assumed: what `lease.py` assumes.

Proved for every N, every K and every number of claimants:
* no two tokens believe in one slot, and each believes in a slot below its K. So at most K tokens believe at once;
* all tokens that believe at once have the same K;
* since a holder was granted its slot, no other client was granted the slot, or another K.
"""

from lease import at, cast, latest_of, lease, live, sets
from prove import And, If, Implies, Max, Not, Or, Step


def names(s, n, r):
    """The answer of the node counts for a slot: it is known, and is the target if a MOVE was sent."""
    return And(s.known(n, r), Or(Not(s.moves(s.own(r))), s.answer(n, r) == s.target(s.own(r))))


def kept(s, n, r):
    t = s.own(r)
    return And(s.has(n, t), s.until(n, r) <= s.deadline(n, t), s.deadline(n, t) <= s.expiry(n),
               Implies(names(s, n, r), s.slot(n, t) == s.answer(n, r)))


def conflict(s, t, u):
    return And(Not(t == u), Or(s.mine(t) == s.mine(u), Not(s.permits(t) == s.permits(u))))


def clash(s, n, r, x):
    same = And(names(s, n, r), names(s, n, x), s.answer(n, r) == s.answer(n, x))
    return And(Not(s.own(r) == s.own(x)), Or(same, Not(s.permits(s.own(r)) == s.permits(s.own(x)))))


def answers_agree(s, r, q):
    """A quorum has the token in one slot, which is the target after a MOVE."""
    t = s.own(r)
    slot = If(s.granted(t), s.mine(t), s.choice(r))
    same = s.every("Node", lambda n: Implies(s.within(n, q), And(s.known(n, r), s.answer(n, r) == slot)))
    return And(s.guard("OnlyEqualSlotsCount", same, And(0 <= slot, slot < s.permits(t))),
               s.guard("AfterAMoveOnlyItsTargetCounts", Or(Not(s.moves(t)), s.target(t) == slot)))


m = lease("slots", kept, conflict, answers_agree,
          lambda s, r, q: dict(mine=lambda x: If(x == s.own(r), s.choice(r), s.mine(x))), clash)
m.world("permits", "Token->Time", None)  # K, as its claimant names it.
m.world("choice", "Round->Time", None)  # The slot that a claimant will believe in: any, until the grant looks at it.
m.has_state("mine", "Token->Time", begins=0)
m.has_state("moves", "Token->Bool", False)
m.has_state("target", "Token->Time", begins=0)
m.has_state("move_under_way", "Node Token->Bool", False)
m.has_state("goes_to", "Node Token->Time", begins=0)
m.has_state("slot", "Node Token->Time", begins=0)
sets(m)
m.has_state("known", "Node Round->Bool", False)  # The claimant knows in which slot the node has its token.
m.has_state("answer", "Node Round->Time", begins=0)


def free(s, n, t, slot):
    return s.guard("ASlotIsGivenOnce", s.every("Token", lambda u: Or(
        u == t, Not(live(s, n, u)), Not(s.slot(n, u) == slot))))


def answers(s, n, r, left, slot, counts):
    counts = And(counts, m.votes(s, n), Not(s.yes(n, r)))
    return dict(m.promise(s, n, r, left, counts), known=lambda x, y: Or(And(x == n, y == r, counts), s.known(x, y)),
                answer=lambda x, y: If(And(x == n, y == r, counts), slot, s.answer(x, y)))


@m.action
def holder_asks(s, r: "Round"):
    return m.sends(s, r)


@m.action
def node_takes(s, n: "Node", r: "Round", slot: "Time", e: "Time"):
    """TAKE_SLOT, also late or again: a token that is there keeps its slot. A copy is the same, and no vote."""
    t, end = s.own(r), s.node_time(n) + s.ttl(r)
    end = If(live(s, n, t), Max(end, s.deadline(n, t)), end)
    has = lambda x, u: If(x == n, Or(u == t, live(s, n, u)), s.has(x, u))
    deadline = at(n, t, s.deadline, end)
    others = s.every("Token", lambda u: Implies(live(s, n, u), s.permits(u) == s.permits(t)))
    return Step(
        s.sent(r), Or(Not(live(s, n, t)), slot == s.slot(n, t)), 0 <= slot, slot < s.permits(t), free(s, n, t, slot),
        s.guard("AnotherKIsRefused", others), latest_of(s, n, e, has, deadline),
        change=dict(answers(s, n, r, s.ttl(r), slot, s.taking(r)), has=has, deadline=deadline,
                    slot=at(n, t, s.slot, slot), expiry=lambda x: If(x == n, e, s.expiry(x))),
        tell=[f"{n} gives slot ", slot, f" to {t} (K = ", s.permits(t), "), until ", end, "."])


@m.action
def holder_sends_move(s, n: "Node", r: "Round", to: "Time"):
    """All MOVEs of a token go to one slot."""
    t = s.own(r)
    return Step(
        s.taking(r), s.sent(r), Or(Not(s.granted(t)), to == s.mine(t)), 0 <= to, to < s.permits(t),
        s.guard("AllMovesOfATokenHaveOneTarget", Or(Not(s.moves(t)), s.target(t) == to)),
        change=dict(moves=lambda u: Or(u == t, s.moves(u)), target=lambda u: If(u == t, to, s.target(u)),
                    move_under_way=at(n, t, s.move_under_way, True), goes_to=at(n, t, s.goes_to, to)),
        tell=[f"{t} asks {n} to move it to slot ", to, "."])


@m.action
def node_moves(s, n: "Node", r: "Round", counted: "Bool"):
    """MOVE_SLOT. The deadline stays, and so does what the node has promised. Members that are over are removed: if the
    node's clock is set back a little, one of them would be live again, beside the other in the same slot."""
    t, to = s.own(r), s.goes_to(n, s.own(r))
    purged = lambda x, u: And(s.has(x, u), Or(Not(x == n), live(s, n, u)))
    counts = And(counted, s.yes(n, r), s.guard("QuarantinedMoveDoesNotCount", m.votes(s, n)))
    return Step(
        s.taking(r), s.move_under_way(n, t), live(s, n, t), s.guard("AMoveNeedsAFreeSlot", free(s, n, t, to)),
        change=dict(slot=at(n, t, s.slot, to), has=s.guard("AMovePurgesWhatIsOver", purged, s.has),
                    known=lambda x, y: Or(s.known(x, y), And(x == n, y == r, counts)),
                    answer=lambda x, y: If(And(x == n, y == r, counts), to, s.answer(x, y))),
        tell=[f"{n} moves {t} to slot ", to, ".", m.counts(counts)])


@m.action
def node_extends(s, n: "Node", r: "Round", e: "Time", counted: "Bool"):
    """A yes names the slot: the member is `K/SLOT/TOKEN`."""
    t = s.own(r)
    end = Max(s.deadline(n, t), s.node_time(n) + s.ttl(r))
    deadline = at(n, t, s.deadline, end)
    return Step(
        Not(s.taking(r)), s.sent(r), live(s, n, t), latest_of(s, n, e, s.has, deadline),
        s.guard("AnExtensionNamesTheSlot", s.slot(n, t) == s.mine(t)),
        change=dict(answers(s, n, r, s.ttl(r), s.mine(t), counted), deadline=deadline,
                    expiry=lambda x: If(x == n, e, s.expiry(x))),
        tell=[f"{n} extends {t}, which has slot ", s.slot(n, t), " there, until ", end, ".", m.counts(counted)])


@m.action
def node_releases(s, n: "Node", t: "Token", e: "Time"):
    has = lambda x, u: And(s.has(x, u), Not(And(x == n, u == t)))
    return Step(s.ended(t), latest_of(s, n, e, has, s.deadline),
                change=dict(has=has, expiry=lambda x: If(x == n, e, s.expiry(x))),
                tell=[f"{n} executes the release of {t}."])


@m.invariant
def a_key_outlives_its_members(s, n: "Node", t: "Token"):
    return Implies(s.has(n, t), And(s.deadline(n, t) <= s.expiry(n), s.used(t)))


@m.invariant
def a_node_has_one_member_in_a_slot(s, n: "Node", t: "Token", u: "Token"):
    both = And(s.has(n, t), s.has(n, u), Not(t == u))
    return Implies(both, And(Not(s.slot(n, t) == s.slot(n, u)), s.permits(t) == s.permits(u)))


@m.invariant
def an_answer_is_a_slot_below_k(s, n: "Node", r: "Round"):
    t = s.own(r)
    return And(Implies(s.known(n, r), And(s.yes(n, r), 0 <= s.answer(n, r), s.answer(n, r) < s.permits(t))),
               Implies(s.moves(t), And(0 <= s.target(t), s.target(t) < s.permits(t))),
               Implies(s.move_under_way(n, t), And(s.moves(t), s.used(t), s.goes_to(n, t) == s.target(t))))


@m.invariant
def a_belief_rests_on_one_slot(s, r: "Round", n: "Node"):
    return And(Implies(And(s.believed(r), s.within(n, s.quorum(r))),
                       And(s.known(n, r), s.answer(n, r) == s.mine(s.own(r)))),
               Implies(s.granted(s.own(r)), And(0 <= s.mine(s.own(r)), s.mine(s.own(r)) < s.permits(s.own(r)))),
               Implies(And(s.granted(s.own(r)), s.moves(s.own(r))), s.target(s.own(r)) == s.mine(s.own(r))))


@m.safety(lambda s, r: [f"{s.own(r)} believes in slot ", s.mine(s.own(r)), " of ", s.permits(s.own(r)), "."])
def a_believer_has_a_slot_below_k(s, r: "Round"):
    return Implies(s.believed(r), And(0 <= s.mine(s.own(r)), s.mine(s.own(r)) < s.permits(s.own(r))))


TAKEN = "holder_asks node_takes node_takes holder_is_granted "
EXTENDED = "holder_asks node_extends node_extends holder_is_extended "
TWO = dict(permits=[2, 2])

m.shows("two permits at once, one of them after a move", lambda s: [
    (s.every("Token", lambda t: s.some("Round", lambda r: And(s.own(r) == t, m.valid(s, r)))), ["both hold one."])],
    None, TAKEN + "holder_asks node_takes node_takes holder_sends_move node_moves holder_is_granted", **TWO)
m.without("ASlotIsGivenOnce", m.exclusion, None, TAKEN + TAKEN, **TWO)
m.without("AnotherKIsRefused", m.exclusion, None, TAKEN + TAKEN, permits=[2, 1])
m.without("OnlyEqualSlotsCount", m.exclusion, None, TAKEN + TAKEN, **TWO)
m.without("AMoveNeedsAFreeSlot", m.exclusion, None,
          TAKEN + "holder_asks node_takes node_takes holder_sends_move node_moves holder_is_granted", **TWO)
m.without("AfterAMoveOnlyItsTargetCounts", m.exclusion, None, "holder_asks node_takes node_takes holder_sends_move "
          "holder_is_granted node_moves " + TAKEN, **TWO)
m.without("AllMovesOfATokenHaveOneTarget", m.exclusion, None, "holder_asks node_takes node_takes holder_sends_move "
          "holder_sends_move holder_is_granted node_moves " + TAKEN, **TWO)
m.without("QuarantinedMoveDoesNotCount", m.exclusion, None, TAKEN + "holder_asks node_takes node_takes node_loses "
          "holder_sends_move node_moves holder_is_granted", **TWO)
m.without("AnExtensionNamesTheSlot", m.exclusion, None, "holder_asks node_takes node_takes node_takes "
          "holder_is_granted holder_asks node_extends node_extends holder_is_extended time_passes " + TAKEN, **TWO)
m.without("AMovePurgesWhatIsOver", m.exclusion, None, "holder_asks node_takes node_takes node_takes holder_is_granted "
          + EXTENDED + "holder_asks node_takes time_passes holder_sends_move node_moves time_passes " + EXTENDED
          + "time_passes node_takes holder_is_granted", clocks="apart", **TWO,
          **cast("A's request", "A's extension", "A's other extension", "B's request"))

if __name__ == "__main__":
    m.run()
