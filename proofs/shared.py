"""Shared locks against exclusive ones, with downgrade.

Modelled (DESIGN 23; design of the key in issue 37; `lease.py` has the clocks, rounds and beliefs): the key of a node is
a string with one token, or a sorted set with a member and a deadline for each reader, and the key has one expiry.
`SET NX PX` by writers and foreign clients, TAKE_SHARED, the extensions of both kinds, release, copies, a release or an
extension that comes late, purging of members that are over, expiry, and the loss of data. `downgrade` makes an
exclusive holder a shared one: its belief changes first, then each node turns its string into a member.

The intent of a waiting writer is left out: it only makes nodes refuse, and no refusal can break these lemmas.

Assumed: what `lease.py` assumes.

Proved for every N and every number of readers and writers:
* an exclusive belief overlaps no other belief, and shared beliefs overlap only each other;
* no client that a holder excludes ever interrupted the holder, not even in a downgrade;
* a key is a string with one token or a set, and never expires before the last deadline in it.
"""

from lease import at, cast, latest_of, lease, live, sets
from prove import And, If, Implies, Max, Not, Or, Step


def kept(s, n, r):
    return And(s.has(n, s.own(r)), s.until(n, r) <= s.deadline(n, s.own(r)))


def conflict(s, t, u):
    return And(Not(t == u), Not(And(s.shared(t), s.shared(u))))


m = lease("shared", kept, conflict)
m.world("reader", "Token->Bool", [True, False])  # Takes its lock as a reader; a writer may become one.
m.has_state("shared", "Token->Bool")  # The holder believes that its lock is shared.
m.has_state("downgrades", "Token->Bool", False)
m.has_state("is_set", "Node->Bool", begins=False)
sets(m)


def gone(s, n):
    """The key is missing, or has expired."""
    return Or(s.expiry(n) < s.node_time(n), s.every("Token", lambda t: Not(s.has(n, t))))


def latest(s, guard, n, e, has, deadline, mine):
    """Without the guard, the key expires at the deadline of the newest member, or at once."""
    return s.guard(guard, latest_of(s, n, e, has, deadline), e == mine)


@m.action
def holder_asks(s, r: "Round"):
    step = m.sends(s, r)
    t = s.own(r)
    step.change["shared"] = lambda u: If(And(u == t, s.taking(r)), s.reader(u), s.shared(u))
    return step


@m.action
def node_takes_exclusive(s, n: "Node", r: "Round"):
    """`SET NX PX`. A copy of an exclusive lock is the same, and no vote."""
    t, end = s.own(r), s.node_time(n) + s.ttl(r)
    return Step(
        Not(s.reader(t)), s.sent(r), s.guard("AWriterNeedsAFreeKey", gone(s, n)),
        change=dict(has=lambda x, u: If(x == n, u == t, s.has(x, u)), deadline=at(n, t, s.deadline, end),
                    is_set=lambda x: And(s.is_set(x), Not(x == n)), expiry=lambda x: If(x == n, end, s.expiry(x)),
                    **m.promise(s, n, r, s.ttl(r), And(s.taking(r), m.votes(s, n)))),
        tell=[f"{n} gives the key to {t} alone, until ", end, "."])


@m.action
def node_takes_shared(s, n: "Node", r: "Round", e: "Time"):
    """TAKE_SHARED. A copy of a shared lock is the same, and no vote. A member that is over is purged."""
    t, end = s.own(r), s.node_time(n) + s.ttl(r)
    there = And(s.has(n, t), Not(gone(s, n)))
    end = If(there, s.guard("ASecondTakeNeverShortens", Max(end, s.deadline(n, t)), end), end)

    def has(x, u):
        over = s.guard("OnlyWhatIsOverIsPurged", s.deadline(n, u) < s.node_time(n), True)
        return If(x == n, Or(u == t, And(s.has(n, u), Not(gone(s, n)), Not(over))), s.has(x, u))

    deadline = at(n, t, s.deadline, end)
    return Step(
        s.shared(t), s.sent(r), s.guard("AReaderNeedsASetOrAFreeKey", Or(gone(s, n), s.is_set(n))),
        latest(s, "ATakeShortensNoOther", n, e, has, deadline, end),
        change=dict(has=has, deadline=deadline, is_set=lambda x: Or(s.is_set(x), x == n),
                    expiry=lambda x: If(x == n, e, s.expiry(x)),
                    **m.promise(s, n, r, s.ttl(r), And(s.taking(r), s.reader(t), m.votes(s, n)))),
        tell=[f"{n} adds {t} to the readers, until ", end, "; the key expires at ", e, "."])


@m.action
def node_extends(s, n: "Node", r: "Round", e: "Time", counted: "Bool"):
    """Extensions of both kinds. Without `counted` the extension comes late, or its answer is lost."""
    t, raised = s.own(r), s.node_time(n) + s.ttl(r)
    end = s.guard("ExtensionNeverShortensItsOwn", Max(s.deadline(n, t), raised), raised)
    deadline = at(n, t, s.deadline, end)
    return Step(
        Not(s.taking(r)), s.sent(r), s.guard("ExtensionComparesTheToken", live(s, n, t), Not(gone(s, n))),
        If(s.is_set(n), latest(s, "ARenewalShortensNoOther", n, e, s.has, deadline, end), e == end),
        change=dict(deadline=deadline, expiry=lambda x: If(x == n, e, s.expiry(x)),
                    **m.promise(s, n, r, s.ttl(r), And(counted, m.votes(s, n)))),
        tell=[f"{n} extends {t} until ", end, "; the key expires at ", e, ".", m.counts(counted)])


@m.action
def node_releases(s, n: "Node", t: "Token", e: "Time"):
    """Releases of both kinds. The key stays while a member is left."""
    def has(x, u):
        mine = s.guard("ReleaseTakesItsOwnEntry", u == t, s.has(n, t))
        return And(s.has(x, u), Not(And(x == n, mine)))

    return Step(s.ended(t), latest(s, "AReleaseShortensNoOther", n, e, has, s.deadline, s.node_time(n)),
                change=dict(has=has, expiry=lambda x: If(x == n, e, s.expiry(x))),
                tell=[f"{n} executes the release of {t}; the key expires at ", e, "."])


@m.action
def holder_downgrades(s, t: "Token"):
    """From here on, before the first byte, the belief is shared."""
    first = s.guard("BeliefChangesBeforeTheDowngrade", True, False)
    return Step(s.used(t), s.granted(t), Not(s.reader(t)), Not(s.ended(t)),
                change=dict(downgrades=lambda u: Or(u == t, s.downgrades(u)),
                            shared=lambda u: Or(s.shared(u), And(u == t, first))),
                tell=[f"{t} sends its downgrade to all nodes."])


@m.action
def node_downgrades(s, n: "Node", t: "Token"):
    """One script: the string becomes a member with the same deadline. It may come late."""
    end = s.guard("DowngradeKeepsTheDeadline", s.deadline(n, t), s.node_time(n))
    return Step(s.downgrades(t), live(s, n, t), Not(s.is_set(n)),
                change=dict(is_set=lambda x: Or(x == n, s.is_set(x)), deadline=at(n, t, s.deadline, end),
                            expiry=lambda x: If(x == n, end, s.expiry(x))),
                tell=[f"{n} turns the key of {t} into a set of readers, until ", end, "."])


@m.action
def downgrade_by_two_commands(s, n: "Node", t: "Token"):
    """The wrong way: one command deletes the string, and a later command adds the member."""
    return Step(s.guard("DowngradeIsOneStep", False, True), s.downgrades(t), s.has(n, t), Not(s.is_set(n)),
                change=dict(has=lambda x, u: And(s.has(x, u), Not(And(x == n, u == t)))),
                tell=[f"{n} deletes the key of {t}, which is to come back as a reader."])


@m.invariant
def a_string_has_one_token(s, n: "Node", t: "Token", u: "Token"):
    return Implies(And(s.has(n, t), s.has(n, u), Not(s.is_set(n))), t == u)


@m.invariant
def only_shared_tokens_are_in_a_set(s, n: "Node", t: "Token"):
    return Implies(And(s.has(n, t), s.is_set(n)), s.shared(t))


@m.invariant
def a_key_outlives_its_members(s, n: "Node", t: "Token"):
    return Implies(s.has(n, t), s.deadline(n, t) <= s.expiry(n))


@m.invariant
def a_token_becomes_shared_and_never_back(s, n: "Node", r: "Round", t: "Token"):
    return And(Implies(Or(s.has(n, t), s.downgrades(t)), s.used(t)), Implies(And(s.used(t), s.reader(t)), s.shared(t)),
               Implies(s.downgrades(t), s.shared(t)),
               Implies(And(s.used(t), s.shared(t), Not(s.reader(t))), s.granted(t)))


ASK = "holder_asks node_takes_exclusive node_takes_shared holder_is_granted "
WRITES = "holder_asks node_takes_exclusive node_takes_exclusive holder_is_granted "
READS = "holder_asks node_takes_shared node_takes_shared holder_is_granted "
BOTH_READ = dict(cast("A's request", "A's extension", "B's request", "C's request"), reader=[True, True, False])
ONE_READS = dict(reader=[True, False])

m.shows("two readers at once", lambda s: [
    (s.every("Token", lambda t: s.some("Round", lambda r: And(s.own(r) == t, m.valid(s, r)))), ["both read."])],
    None, READS + READS, reader=[True, True])
m.shows("a writer becomes a reader, and another reads beside it", lambda s: [
    (s.every("Token", lambda t: s.some("Round", lambda r: And(s.own(r) == t, m.valid(s, r)))), ["both read."])],
    None, WRITES + "holder_downgrades node_downgrades " + READS, reader=[False, True])
m.without("AWriterNeedsAFreeKey", m.exclusion, 8, ASK, **ONE_READS)
m.without("AReaderNeedsASetOrAFreeKey", m.exclusion, 8, ASK, **ONE_READS)
m.without("OnlyWhatIsOverIsPurged", m.exclusion, None, READS + "holder_asks node_takes_shared holder_releases "
          "node_releases " + WRITES, **BOTH_READ)
m.without("ARenewalShortensNoOther", m.exclusion, None,
          READS + READS + "holder_asks node_extends time_passes " + WRITES,
          **cast("A's request", "B's request", "B's extension", "C's request"), reader=[True, True, False])
m.without("AReleaseShortensNoOther", m.exclusion, None, READS + "holder_asks node_takes_shared holder_releases "
          "node_releases time_passes " + WRITES, **BOTH_READ)
m.without("ATakeShortensNoOther", m.exclusion, None, READS + "holder_asks node_takes_shared time_passes " + WRITES,
          **BOTH_READ)
m.without("ASecondTakeNeverShortens", m.exclusion, None, READS + "holder_asks node_takes_shared time_passes " + WRITES,
          **ONE_READS)
m.without("ExtensionNeverShortensItsOwn", m.exclusion, None, READS + "holder_asks node_extends time_passes " + WRITES,
          **ONE_READS)
m.without("ExtensionComparesTheToken", m.exclusion, None, READS + "holder_asks node_takes_exclusive holder_asks "
          "node_extends node_extends holder_is_extended time_passes node_takes_exclusive holder_is_granted",
          **ONE_READS)
m.without("ReleaseTakesItsOwnEntry", m.exclusion, None, READS + "holder_asks node_takes_shared holder_releases "
          "node_releases " + WRITES, **BOTH_READ)
m.without("BeliefChangesBeforeTheDowngrade", m.exclusion, None, WRITES + "holder_downgrades node_downgrades " + READS,
          reader=[False, True])
m.without("DowngradeKeepsTheDeadline", m.exclusion, None, WRITES + "holder_downgrades node_downgrades time_passes "
          + WRITES, reader=[False, False])
m.without("DowngradeIsOneStep", m.exclusion, None, WRITES + "holder_downgrades downgrade_by_two_commands " + WRITES,
          reader=[False, False])

if __name__ == "__main__":
    m.run()
