"""Plain locks: mutual exclusion, extension, confirmation, copies, release, restart guard, small steps of clocks.

Modelled (DESIGN 2; manual `safety`, steps 1 to 11; `lease.py` has the clocks, rounds and beliefs): a key at each node
with one token and an expiry by the node's clock. `SET NX PX`, the scripts that extend, confirm and release, a copy for
a node that lacks the key, expiry, and the loss of data. A command that was written may be executed at any later time;
a release only behind every `SET` of its token (FACTS 1.2: same connection, or first on a later one).

Assumed: what `lease.py` assumes.

Proved for every N, every number of clients and every ttl and drift:
* no two holders believe at once;
* since a holder was granted the lock, no other client was (an extension leaves no gap);
* after a release, a release is still to come for every key and every `SET` that is under way (no orphans);
* the default drift of ttl / 100 + 2 ms is enough for a node that runs fast by 0.2 % and is set by 0.8 % of the ttl.
"""

import z3

from lease import at, cast, keys, lease
from prove import And, If, Implies, Max, Not, Or, Step, ask


def kept(s, n, r):
    return And(s.has(n, s.own(r)), s.until(n, r) <= s.expiry(n))


m = lease("plain", kept, conflict=lambda s, t, u: Not(t == u))
keys(m)
m.has_state("set_under_way", "Node Token->Bool", False)
m.has_state("copy_under_way", "Node Token->Bool", False)
m.has_state("release_under_way", "Node Token->Bool", False)


def free(s, n):
    return s.every("Token", lambda t: Or(Not(s.has(n, t)), s.expiry(n) < s.node_time(n)))


def live(s, n, t):
    return And(s.has(n, t), s.node_time(n) <= s.expiry(n))


def stored(s, n, t, expiry):
    return dict(has=lambda x, u: If(x == n, u == t, s.has(x, u)), expiry=lambda x: If(x == n, expiry, s.expiry(x)))


@m.action
def holder_asks(s, r: "Round"):
    step = m.sends(s, r)
    t = s.own(r)
    step.change["set_under_way"] = lambda n, u: Or(s.set_under_way(n, u), And(u == t, s.taking(r)))
    return step


@m.action
def node_takes(s, n: "Node", r: "Round"):
    t, expiry = s.own(r), s.node_time(n) + s.ttl(r)
    return Step(
        s.taking(r), s.sent(r), s.set_under_way(n, t), s.guard("SetOnlyIfThereIsNoKey", free(s, n)),
        change=dict(stored(s, n, t, expiry), set_under_way=at(n, t, s.set_under_way, False),
                    **m.promise(s, n, r, s.ttl(r), s.guard("QuarantinedNodeDoesNotVote", m.votes(s, n)))),
        tell=[f"{n} gives the key to {t}, until ", expiry, " by its clock.",
              m.counts(s.guard("QuarantinedNodeDoesNotVote", m.votes(s, n)))])


@m.action
def node_denies(s, n: "Node", t: "Token"):
    return Step(s.set_under_way(n, t), Not(free(s, n)),
                change=dict(set_under_way=at(n, t, s.set_under_way, False)), tell=[f"{n} denies the key to {t}."])


@m.action
def node_extends(s, n: "Node", r: "Round"):
    t, raised = s.own(r), s.node_time(n) + s.ttl(r)
    there = s.guard("ExtensionComparesTheToken", live(s, n, t), Not(free(s, n)))
    expiry = s.guard("ExtensionNeverShortens", Max(s.expiry(n), raised), raised)
    counts = s.guard("QuarantinedExtensionDoesNotCount", m.votes(s, n))
    return Step(
        Not(s.taking(r)), s.sent(r), Not(s.yes(n, r)), there,
        change=dict(m.promise(s, n, r, s.ttl(r), counts), expiry=lambda x: If(x == n, expiry, s.expiry(x))),
        tell=[f"{n} says yes to {r}, and has the key until ", expiry, ".", m.counts(counts)])


@m.action
def late_extension(s, n: "Node", r: "Round"):
    """The answer is lost, or belongs to a round that is over. The command may come twice."""
    t, raised = s.own(r), s.node_time(n) + s.ttl(r)
    expiry = s.guard("ExtensionNeverShortens", Max(s.expiry(n), raised), raised)
    return Step(Not(s.taking(r)), s.sent(r), live(s, n, t),
                change=dict(expiry=lambda x: If(x == n, expiry, s.expiry(x))),
                tell=[f"An extension of {t} arrives late at {n}, which sets the expiry to ", expiry, "."])


@m.action
def node_confirms(s, n: "Node", r: "Round"):
    t, left = s.own(r), s.expiry(n) - s.node_time(n)
    left = If(left <= s.MAX(), left, s.MAX())
    given = s.guard("ConfirmationGivesNoMoreThanIsLeft", left, s.ttl(r))
    return Step(Not(s.taking(r)), s.sent(r), Not(s.yes(n, r)), live(s, n, t),
                change=m.promise(s, n, r, given, m.votes(s, n)),
                tell=[f"{n} confirms the key of {t}, for which ", left, " is left."])


@m.action
def holder_sends_copy(s, n: "Node", r: "Round"):
    t = s.own(r)
    return Step(s.granted(t), s.guard("NoCopyAfterTheEnd", m.valid(s, r)),
                change=dict(copy_under_way=at(n, t, s.copy_under_way, True)), tell=[f"{t} sends a copy to {n}."])


@m.action
def node_copies(s, n: "Node", r: "Round", left: "Time"):
    t, expiry = s.own(r), s.node_time(n) + left
    return Step(
        s.copy_under_way(n, t), free(s, n), 0 < left, left <= s.MAX(), s.sent(r),
        change=dict(stored(s, n, t, expiry), copy_under_way=at(n, t, s.copy_under_way, False),
                    **m.promise(s, n, r, s.ttl(r), s.guard("ACopyIsNoVote", False, m.votes(s, n)))),
        tell=[f"{n} stores the copy of {t}, until ", expiry, "."])


@m.action
def holder_releases(s, t: "Token"):
    return Step(
        s.used(t),
        change=dict(ended=lambda u: Or(s.ended(u), And(u == t, s.guard("BeliefEndsBeforeTheRelease", True, False))),
                    release_under_way=lambda n, u: Or(u == t, s.release_under_way(n, u))),
        tell=[f"{t} sends its release to all nodes."])


@m.action
def node_releases(s, n: "Node", t: "Token"):
    behind = And(Not(s.set_under_way(n, t)), Not(s.copy_under_way(n, t)))
    deleted = s.guard("ReleaseComparesTheToken", s.has(n, t), True)
    return Step(
        s.release_under_way(n, t), s.guard("ReleaseIsBehindTheSet", behind),
        change=dict(release_under_way=at(n, t, s.release_under_way, False),
                    has=lambda x, u: And(s.has(x, u), Not(And(x == n, deleted)))),
        tell=[f"{n} executes the release of {t}",
              (And(deleted, s.some("Token", lambda u: s.has(n, u))), " and deletes the key.", " and finds none.")])


@m.invariant
def a_node_has_one_token(s, n: "Node", t: "Token", u: "Token"):
    return Implies(And(s.has(n, t), s.has(n, u)), t == u)


@m.invariant
def only_used_tokens_are_there(s, n: "Node", t: "Token"):
    there = Or(s.has(n, t), s.set_under_way(n, t), s.copy_under_way(n, t), s.release_under_way(n, t))
    return And(Implies(Or(there, s.ended(t)), s.used(t)), Implies(s.release_under_way(n, t), s.ended(t)))


@m.invariant
def a_release_follows_what_is_left(s, n: "Node", t: "Token"):
    left = Or(s.has(n, t), s.set_under_way(n, t), s.copy_under_way(n, t))
    return Implies(And(s.ended(t), left), s.release_under_way(n, t))


@m.safety(lambda s, n, t: [f"The key of {t} stays at {n}, and no release will delete it."])
def no_orphans(s, n: "Node", t: "Token"):
    return Implies(And(s.ended(t), s.has(n, t)), s.release_under_way(n, t))


TAKE = "holder_asks node_takes holder_is_granted time_passes "
RELEASE = TAKE + "holder_releases node_releases node_denies "
TAKEN = "holder_asks node_takes node_takes holder_is_granted "
EXTENDED = "holder_asks node_extends node_extends holder_is_extended "

m.elsewhere = set()
m.shows("one holder after another, with a release", lambda s: [
    (s.every("Token", lambda t: s.granted(t)), ["both have held the lock."])], 10, RELEASE)
m.shows("a lock that is extended beyond its first end", lambda s: [
    (s.some("Round Round", lambda r, x: And(
        m.valid(s, r), s.own(r) == s.own(x), s.believed(x), s.end(x) < s.time(s.own(x)))),
     ["the holder believes after the end of its first validity."])], None, TAKEN + EXTENDED + "time_passes")
m.without("TwoQuorumsMeet", m.exclusion, 6, TAKE, within=lambda n, q: n == q)
m.without("SetOnlyIfThereIsNoKey", m.exclusion, 8, TAKE)
m.without("DriftIsTakenOff", m.exclusion, 9, TAKE, clocks="apart")
m.without("NoClockGainsMoreThanTheDrift", m.exclusion, 9, TAKE, clocks="apart")
m.without("ValidityCountsFromTheFirstByte", m.exclusion, 10, TAKE)
m.without("EachAttemptHasAFreshToken", m.exclusion, 11, RELEASE,
          **cast("A's request", "A's other request", "B's request"))
m.without("BeliefEndsBeforeTheRelease", m.exclusion, 10, RELEASE)
m.without("ReleaseComparesTheToken", m.exclusion, None,
          TAKEN + "holder_asks node_denies holder_releases node_releases " + TAKEN,
          **cast("A's request", "B's request", "C's request"))
m.without("ReleaseIsBehindTheSet", no_orphans, 4, RELEASE)
m.without("ExtensionComparesTheToken", m.exclusion, None,
          TAKEN + "holder_asks node_takes " + EXTENDED + "time_passes node_takes holder_is_granted")
m.without("ExtensionNeverShortens", m.exclusion, None, TAKEN + "holder_asks late_extension time_passes " + TAKEN)
m.without("ExtensionsCountWithinTheOldValidity", m.continuity, None,
          TAKEN + "holder_asks node_extends holder_sends_copy time_passes " + TAKEN
          + "holder_releases node_releases node_copies node_extends holder_is_extended")
m.without("ConfirmationGivesNoMoreThanIsLeft", m.exclusion, None,
          TAKEN + "time_passes holder_asks node_confirms node_confirms holder_is_extended time_passes " + TAKEN)
m.without("ACopyIsNoVote", m.exclusion, None,
          TAKEN + "holder_asks holder_sends_copy node_copies node_extends holder_is_extended time_passes " + TAKEN)
m.without("NoCopyAfterTheEnd", no_orphans, None,
          TAKEN + "holder_releases node_releases holder_sends_copy node_copies")
m.without("QuarantinedNodeDoesNotVote", m.exclusion, 9, TAKE + "node_loses")
m.without("QuarantineLastsForTheLongestTtl", m.exclusion, 10, TAKE + "node_loses")
m.without("QuarantinedExtensionDoesNotCount", m.exclusion, None,
          "holder_asks node_takes node_loses " + TAKEN + "holder_sends_copy node_copies " + EXTENDED
          + "time_passes node_takes holder_is_granted", **cast("A's request", "B's request", "B's extension"))


def drift_is_enough(steps):
    """A node's clock that runs fast by 0.2 %, is set by `steps` per mille of the ttl, and counts whole milliseconds
    gains no more than ttl / 100 + 2 ms while a promise runs, that is within `ttl` by the holder's clock."""
    ttl, passed, gain = z3.Reals("ttl passed gain")
    limits = [ttl > 0, passed >= 0, passed <= ttl, gain <= passed * 2 / 1000 + ttl * steps / 1000 + 2]
    return ask(limits + [gain > ttl / 100 + 2])


def arithmetic():
    m.verdict("proved", "proved" if drift_is_enough(8) == z3.unsat else "OPEN",
              "ttl / 100 + 2 ms is more than a node gains at 0.2 % and by steps of 0.8 % of the ttl", 0)
    m.verdict("refuted", "refuted" if drift_is_enough(9) == z3.sat else "MISSING",
              "steps of 0.9 % are too much: at a ttl of 10 s the node gains 112 ms, and the drift is 102 ms", 0)


if __name__ == "__main__":
    arithmetic()
    m.run()
