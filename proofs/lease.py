"""The parts that all kinds of locks with an expiry share: clocks, requests, promises of nodes, and beliefs.

A *round* is one request to all nodes: it takes a lock, or extends one. A token belongs to one holder, and may have
many rounds. Each holder and each node has a clock; only the assumption below relates these clocks.

A node's yes to a round is a *promise*: `left` is the time for which it will keep the entry of the token. The holder
may rely on a promise until the time of its first byte, plus `left`, minus its drift, by its own clock
(DESIGN 2, steps 1 and 4; manual `safety`, steps 1, 5, 7 and 9). When a majority has promised, the holder believes
until a time that all of these promises reach.

Assumed:
* two quorums share a node (any sets with this property: 2q > N);
* while a promise runs, the node's clock gains on the holder's no more than the drift of the lock, by its rate and by
  small steps together. The node's clock may fall behind by any amount;
* each lock is shorter than MAX, the longest ttl that all clients know of;
* a node that loses entries, all or some, or whose clock is set, is detected, and does not vote until its clock has
  run for MAX (the strict marker; `Observed` waits as long by the client's clock). It may come back with any time.

Not modelled: hand-over of a lock between processes, the lock delay, and answers on lost connections, which only take
promises away. Messages may be late or lost, and requests of old rounds may arrive at any time.

A file that uses this says what an entry is (`kept`), and which two tokens exclude each other (`conflict`).
"""

from prove import And, If, Implies, Model, Not, Or, Step

PAIRS = [(0, 1), (0, 2), (1, 2)]
# The guards of this file. Their stories are in `plain.py`.
GUARDS = set("TwoQuorumsMeet EachAttemptHasAFreshToken DriftIsTakenOff ValidityCountsFromTheFirstByte "
             "ExtensionsCountWithinTheOldValidity NoClockGainsMoreThanTheDrift QuarantineLastsForTheLongestTtl".split())


def cast(*rounds):
    """The holders and rounds of a story: `A's request` takes, `A's extension` does not."""
    tokens = sorted({text[0] for text in rounds})
    return dict(Token=tokens, Round=list(rounds), own=[tokens.index(text[0]) for text in rounds],
                taking=["request" in text for text in rounds])


def lease(name, kept, conflict, also=lambda s, r, q: True, on_grant=lambda s, r, q: {}, clash=None):
    """`also` is a further condition of a belief, `on_grant` a further change by a grant, and `clash` says which
    promises of one node exclude each other."""
    usual = cast("A's request", "A's extension", "B's request")
    m = Model(name, Node=["node 1", "node 2", "node 3"], Token=usual["Token"], Round=usual["Round"],
              Quorum=["nodes 1 and 2", "nodes 1 and 3", "nodes 2 and 3"])
    m.world("own", "Round->Token", usual["own"])
    m.world("taking", "Round->Bool", usual["taking"])
    m.world("ttl", "Round->Time")
    m.world("drift", "Token->Time")
    m.world("MAX", "Time")
    m.world("within", "Node Quorum->Bool", lambda n, q: n in PAIRS[q])
    m.world("meet", "Quorum Quorum->Node", lambda p, q: min(set(PAIRS[p]) & set(PAIRS[q])))

    m.has_state("node_time", "Node->Time", begins=0)
    m.has_state("time", "Token->Time", begins=0)  # By the holder's clock.
    m.has_state("barred_until", "Node->Time", begins=-1)  # The end of a quarantine, by the node's clock.
    m.has_state("used", "Token->Bool", False)
    m.has_state("sent", "Round->Bool", False)
    m.has_state("begun", "Round->Time", begins=0)
    m.has_state("yes", "Node Round->Bool", False)
    m.has_state("left", "Node Round->Time", begins=0)
    m.has_state("until", "Node Round->Time", begins=0)  # The end of a promise, by the node's clock.
    m.has_state("ahead", "Node Round->Time", begins=0)  # How far the node's clock was ahead at the promise.
    m.has_state("believed", "Round->Bool", False)
    m.has_state("end", "Round->Time", begins=0)
    m.has_state("quorum", "Round->Quorum")
    m.has_state("granted", "Token->Bool", False)
    m.has_state("ended", "Token->Bool", False)  # The token is released or given up, so its belief is over.
    m.has_state("interrupted", "Token->Bool", False)  # A later grant excludes this token.

    @m.axiom
    def quorums_meet(s):
        return s.guard("TwoQuorumsMeet", s.every("Quorum Quorum", lambda p, q: And(
            s.within(s.meet(p, q), p), s.within(s.meet(p, q), q))))

    @m.axiom
    def lengths(s):
        return And(s.every("Round", lambda r: And(0 < s.ttl(r), s.ttl(r) <= s.MAX())),
                   s.every("Token", lambda t: 0 <= s.drift(t)))

    def valid(s, r):
        return And(s.believed(r), Not(s.ended(s.own(r))), s.time(s.own(r)) < s.end(r))

    def runs(s, n, r, time):
        """The holder may rely on the promise at this time by its clock."""
        return And(s.yes(n, r), time + s.drift(s.own(r)) < s.begun(r) + s.left(n, r))

    def useful(s, n, r):
        return And(runs(s, n, r, s.time(s.own(r))), Not(s.ended(s.own(r))))

    m.valid, m.useful = valid, useful

    def votes(s, n):
        return s.barred_until(n) < s.node_time(n)

    m.votes = votes

    def promise(s, n, r, left, counts):
        """The node says yes for this time. The answer counts if `counts`; a round counts one answer of each node."""
        counts = And(counts, Not(s.yes(n, r)))

        def at(name, value):
            old = getattr(s, name)
            return lambda m_, x: If(And(m_ == n, x == r, counts), value, old(m_, x))
        return dict(yes=at("yes", True), left=at("left", left), until=at("until", s.node_time(n) + left),
                    ahead=at("ahead", s.node_time(n) - s.time(s.own(r))))

    m.promise = promise
    m.counts = lambda counts: (counts, "", " The answer does not count.")

    def sends(s, r):
        """The first byte of a round. A token is fresh for each attempt."""
        t = s.own(r)
        return Step(
            Not(s.sent(r)),
            If(s.taking(r), s.guard("EachAttemptHasAFreshToken", Not(s.used(t))), And(s.granted(t), Not(s.ended(t)))),
            change=dict(sent=lambda x: Or(x == r, s.sent(x)), used=lambda x: Or(x == t, s.used(x)),
                        ended=lambda x: And(s.ended(x), Not(And(x == t, s.taking(r)))),
                        begun=lambda x: If(x == r, s.time(t), s.begun(x))),
            tell=[f"{t} sends {r} to all nodes, at ", s.time(t), " by its clock, with a ttl of ", s.ttl(r), "."])

    m.sends = sends

    def rests_on(s, r, q, e):
        """What a belief until `e` needs: a promise of each node of a quorum that is as long, and the drift longer."""
        t = s.own(r)
        allowance = s.guard("DriftIsTakenOff", s.drift(t), 0)
        start = s.guard("ValidityCountsFromTheFirstByte", s.begun(r), s.time(t))
        return And(s.sent(r), Not(s.ended(t)), s.time(t) < e, also(s, r, q),
                   s.every("Node", lambda n: Implies(s.within(n, q), And(
                       s.yes(n, r), e + allowance <= start + s.left(n, r)))))

    def belief(s, r, q, e):
        return dict(believed=lambda x: Or(x == r, s.believed(x)), end=lambda x: If(x == r, e, s.end(x)),
                    quorum=lambda x: If(x == r, q, s.quorum(x)))

    @m.action
    def holder_is_granted(s, r: "Round", q: "Quorum", e: "Time"):
        t = s.own(r)
        return Step(
            s.taking(r), Not(s.granted(t)), Not(s.believed(r)), rests_on(s, r, q, e),
            change=dict(belief(s, r, q, e), granted=lambda x: Or(x == t, s.granted(x)), **on_grant(s, r, q),
                        interrupted=lambda x: Or(s.interrupted(x), And(
                            s.granted(x), conflict(s.after(on_grant(s, r, q)), x, t)))),
            tell=[f"{t} has a yes of {q}: it believes until ", e, " by its clock, which shows ", s.time(t), "."])

    @m.action
    def holder_is_extended(s, r: "Round", old: "Round", q: "Quorum", e: "Time"):
        t = s.own(r)
        return Step(
            Not(s.taking(r)), Not(s.believed(r)), rests_on(s, r, q, e), s.granted(t), s.own(old) == t,
            s.guard("ExtensionsCountWithinTheOldValidity", valid(s, old)),
            change=belief(s, r, q, e),
            tell=[f"{t} has a yes to {r} of {q}: it believes until ", e, " by its clock, which shows ", s.time(t), "."])

    @m.action
    def time_passes(s, nodes: "Node->Time", holders: "Token->Time"):
        return Step(
            s.every("Token", lambda t: s.time(t) <= holders(t)),
            s.guard("NoClockGainsMoreThanTheDrift", s.every("Node Round", lambda n, r: Implies(
                runs(s, n, r, holders(s.own(r))), nodes(n) - holders(s.own(r)) - s.ahead(n, r) <= s.drift(s.own(r))))),
            one_clock(s, nodes, holders),
            change=dict(node_time=nodes, time=holders),
            tell=["Time passes. The clocks show: "] + shown(s, nodes, holders) + ["."])

    def one_clock(s, nodes, holders):
        """In stories that are not about clocks, all clocks show the same time."""
        if getattr(s._world, "clocks", "apart") == "apart":
            return True
        return s.every("Node Token", lambda n, t: nodes(n) == holders(t))

    def shown(s, nodes, holders):
        if not hasattr(s._world, "tuples"):
            return []
        if s._world.clocks == "same":
            return [nodes(s._world.sorts["Node"][0])]
        each = [(n, nodes(n)) for n in s._world.sorts["Node"]] + [(t, holders(t)) for t in s._world.sorts["Token"]]
        return [part for x, value in each for part in (", ", f"{x} ", value)][1:]

    def loses(s, n, clock, change):
        """A node loses entries (`change` says which), or its clock is set. It is detected, and the node is barred."""
        barred = clock + s.MAX()
        return Step(
            one_clock(s, lambda _: clock, s.time),
            change=dict(
                change, node_time=lambda x: If(x == n, clock, s.node_time(x)),
                barred_until=lambda x: If(x == n, s.guard("QuarantineLastsForTheLongestTtl", barred, clock - 1),
                                          s.barred_until(x)),
                until=lambda x, r: If(x == n, barred, s.until(x, r)),
                ahead=lambda x, r: If(x == n, clock - s.time(s.own(r)), s.ahead(x, r))),
            tell=[f"{n} loses its data. Its clock shows ", clock, ", and its answers do not count until ",
                  s.guard("QuarantineLastsForTheLongestTtl", barred, clock - 1), "."])

    m.loses = loses

    # --- invariants ------------------------------------------------------------------------------------------------

    @m.invariant
    def a_promise_reaches_what_the_holder_counts_on(s, n: "Node", r: "Round"):
        return Implies(s.yes(n, r), And(
            s.sent(r), s.begun(r) + s.left(n, r) <= s.until(n, r) - s.ahead(n, r), s.left(n, r) <= s.MAX()))

    @m.invariant
    def no_node_gains_more_than_the_drift(s, n: "Node", r: "Round"):
        t = s.own(r)
        return Implies(runs(s, n, r, s.time(t)), s.node_time(n) - s.time(t) - s.ahead(n, r) <= s.drift(t))

    @m.invariant
    def a_round_begins_in_the_past(s, r: "Round"):
        return Implies(s.sent(r), And(s.begun(r) <= s.time(s.own(r)), s.used(s.own(r))))

    @m.invariant
    def a_belief_rests_on_the_promises_of_a_quorum(s, r: "Round", n: "Node"):
        return Implies(And(s.believed(r), s.within(n, s.quorum(r))), And(
            s.yes(n, r), s.end(r) + s.drift(s.own(r)) <= s.begun(r) + s.left(n, r)))

    @m.invariant
    def who_believes_or_extends_was_granted(s, r: "Round"):
        extends = And(s.sent(r), Not(s.taking(r)))
        return And(Implies(s.believed(r), s.sent(r)), Implies(Or(s.believed(r), extends), s.granted(s.own(r))))

    @m.invariant
    def who_was_granted_had_sent(s, t: "Token"):
        return And(Implies(s.granted(t), s.used(t)), Implies(s.interrupted(t), s.granted(t)))

    @m.invariant
    def a_promise_is_kept_or_the_node_is_barred(s, n: "Node", r: "Round"):
        return Implies(useful(s, n, r), Or(kept(s, n, r), s.until(n, r) <= s.barred_until(n)))

    @m.invariant
    def no_node_promises_what_excludes_each_other(s, n: "Node", r: "Round", x: "Round"):
        return Implies(And(useful(s, n, r), useful(s, n, x)), Not(
            clash(s, n, r, x) if clash else conflict(s, s.own(r), s.own(x))))

    @m.safety(lambda s, r, x: [f"{s.own(r)} and {s.own(x)} both believe, by clocks that show ", s.time(s.own(r)),
                               " and ", s.time(s.own(x)), "."])
    def mutual_exclusion(s, r: "Round", x: "Round"):
        return Implies(And(valid(s, r), valid(s, x)), Not(conflict(s, s.own(r), s.own(x))))

    @m.invariant
    @m.safety(lambda s, r: [f"{s.own(r)} believes that it had the lock all the time, but another had it in between."])
    def a_holder_was_never_interrupted(s, r: "Round"):
        return Implies(valid(s, r), Not(s.interrupted(s.own(r))))

    m.elsewhere = GUARDS
    m.exclusion, m.continuity = mutual_exclusion, a_holder_was_never_interrupted
    return m


# --- keys, as they are at the nodes ----------------------------------------------------------------------------------


def at(n, t, old, value):
    return lambda x, u: If(And(x == n, u == t), value, old(x, u))


def keys(m):
    """Which tokens the key of a node has, and when it expires."""
    m.has_state("has", "Node Token->Bool", False)
    m.has_state("expiry", "Node->Time", begins=0)

    @m.action
    def node_expires(s, n: "Node"):
        return Step(s.expiry(n) < s.node_time(n), change=dict(has=lambda x, u: And(s.has(x, u), Not(x == n))),
                    tell=[f"The key at {n} is gone: it has expired."])

    @m.action
    def node_loses(s, n: "Node", clock: "Time", stays: "Token->Bool"):
        return m.loses(s, n, clock, dict(has=lambda x, t: And(s.has(x, t), Or(Not(x == n), stays(t)))))


def sets(m):
    """Each token has a deadline."""
    keys(m)
    m.has_state("deadline", "Node Token->Time", begins=0)

    @m.action
    def holder_releases(s, t: "Token"):
        return Step(s.used(t), change=dict(ended=lambda u: Or(u == t, s.ended(u))), tell=[f"{t} sends its release."])


def live(s, n, t):
    return And(s.has(n, t), s.node_time(n) <= s.deadline(n, t), s.node_time(n) <= s.expiry(n))


def latest_of(s, n, e, has, deadline):
    """`e` is the latest deadline of the tokens in the key."""
    last = s.some("Token", lambda u: And(has(n, u), deadline(n, u) == e))
    none = And(s.every("Token", lambda u: Not(has(n, u))), e == s.node_time(n))
    return And(s.every("Token", lambda u: Implies(has(n, u), deadline(n, u) <= e)), Or(last, none))
