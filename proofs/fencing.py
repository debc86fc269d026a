"""Fencing tokens over a quorum of nodes, with floors and repair.

Modelled (DESIGN 18, FACTS 1.4; manual `fencing`): each node has a key, a counter and a floor.
A grant raises the counter by one at least, and to any proposal. The number of the lock is the largest of a quorum of
answers. Nodes with smaller numbers are asked to raise their counters, if they still have the key. A counter may be
forgotten at any time, and then reads as the floor. A node that loses its data has no floor and refuses until it is
repaired. The repair waits, and reads the floors of enough other nodes, one by one in any order.

For permits, the key is that of one slot. All slots of a resource share the counter, so other slots raise it at any
time. A node that moves a token to the slot gives the token another number.

The model has no clock: keys end at any time, and messages are late or lost.

Assumed:
* two quorums share a node, and so do a quorum and the nodes that are read for a repair (q and N - q + 1 of N);
* when the wait of a repair is over, each attempt that the node had confirmed before its loss is decided: it has its
  token or never gets it. This is the one place where time counts (the longest ttl and the drift have passed).

Not modelled: an operator who vouches for nodes, and more than one resource (others only raise floors, as here).

Proved for every N and every number of attempts, losses and repairs:
* if a node confirms two locks, the one that it granted later has the larger token. So tokens differ;
* a lock whose request was first granted after another lock was confirmed has the larger token.
"""

from prove import And, If, Implies, Max, Model, Not, Or, Step

PAIRS = [(0, 1), (0, 2), (1, 2)]
TWO_NODES = ["nodes 1 and 2", "nodes 1 and 3", "nodes 2 and 3"]
m = Model("fencing", Node=["node 1", "node 2", "node 3"], Attempt=["A", "B"], Quorum=TWO_NODES, Reads=TWO_NODES)
m.world("within", "Node Quorum->Bool", lambda n, q: n in PAIRS[q])
m.world("read_in", "Node Reads->Bool", lambda n, q: n in PAIRS[q])
m.world("meet", "Quorum Quorum->Node", lambda p, q: min(set(PAIRS[p]) & set(PAIRS[q])))
m.world("meet_read", "Quorum Reads->Node", lambda p, q: min(set(PAIRS[p]) & set(PAIRS[q])))
m.has_state("has", "Node Attempt->Bool", False)
m.has_state("counter", "Node->Time", begins=0)
m.has_state("counts", "Node->Bool", False)  # The counter exists; otherwise it reads as the floor.
m.has_state("floor", "Node->Time", begins=0)
m.has_state("repaired", "Node->Bool", begins=True)
m.has_state("waited", "Node->Bool", False)
m.has_state("read", "Node Node->Bool", False)  # The first node's repair has read the floor of the second.
m.has_state("largest", "Node->Time", begins=0)  # The largest floor that the repair has read.
m.has_state("granted", "Node Attempt->Bool", False)
m.has_state("number", "Node Attempt->Time", begins=0)
m.has_state("before", "Node Attempt Attempt->Bool", False)  # The node granted the first attempt before the second.
m.has_state("started", "Attempt->Bool", False)
m.has_state("chosen", "Attempt->Bool", False)
m.has_state("token", "Attempt->Time", begins=0)
m.has_state("raised", "Node Attempt->Bool", False)
m.has_state("confirmed", "Attempt->Bool", False)
m.has_state("quorum", "Attempt->Quorum")
m.has_state("given_up", "Attempt->Bool", False)
m.has_state("later", "Attempt Attempt->Bool", False)  # The second was first granted after the first was confirmed.


@m.axiom
def quorums_meet(s):
    return And(s.every("Quorum Quorum", lambda p, q: And(s.within(s.meet(p, q), p), s.within(s.meet(p, q), q))),
               s.every("Quorum Reads", lambda p, q: And(
                   s.within(s.meet_read(p, q), p), s.read_in(s.meet_read(p, q), q))))


def value(s, n):
    return If(s.counts(n), s.counter(n), s.floor(n))


def confirms(s, n, a):
    """The counter of the node was at this number while it had the key, as far as the client knows."""
    return And(s.granted(n, a), s.number(n, a) <= s.token(a), Or(s.number(n, a) == s.token(a), s.raised(n, a)))


def at(n, old, new):
    return lambda x, *y: If(x == n, new, old(x, *y))


def counted(s, n, number):
    return dict(counter=at(n, s.counter, number), counts=at(n, s.counts, True),
                floor=at(n, s.floor, s.guard("TheFloorFollowsTheCounter", Max(s.floor(n), number), s.floor(n))))


def grants(s, n, a, number, least, later, what):
    return Step(
        Not(s.granted(n, a)), s.every("Attempt", lambda x: Not(s.has(n, x))), least,
        s.guard("OnlyARepairedNodeGrants", s.repaired(n)),
        change=dict(counted(s, n, Max(value(s, n), number)), has=lambda x, y: If(x == n, y == a, s.has(x, y)),
                    granted=lambda x, y: Or(And(x == n, y == a), s.granted(x, y)),
                    number=lambda x, y: If(And(x == n, y == a), number, s.number(x, y)),
                    before=lambda x, y, z: Or(s.before(x, y, z), And(x == n, z == a, s.granted(n, y))),
                    started=lambda y: Or(y == a, s.started(y)),
                    later=lambda y, z: Or(s.later(y, z), And(later, z == a, Not(s.started(a)), s.confirmed(y)))),
        tell=[f"{n} {what}, and returns ", number, "."])


@m.action
def node_grants(s, n: "Node", a: "Attempt", number: "Time"):
    least = s.guard("AGrantRaisesTheCounter", value(s, n) < number, value(s, n) <= number)
    return grants(s, n, a, number, least, True, f"gives the key to {a}")


@m.action
def node_moves(s, n: "Node", a: "Attempt", number: "Time"):
    """A token from another slot. It had an older number there, and may have asked for that before any other lock."""
    least = s.guard("AMovedTokenGetsANewNumber", value(s, n) < number, number <= value(s, n))
    return grants(s, n, a, number, least, False, f"moves {a} to this slot")


@m.action
def counter_grows(s, n: "Node", number: "Time"):
    """By a permit in another slot."""
    return Step(s.repaired(n), value(s, n) < number, change=counted(s, n, number),
                tell=[f"{n} gives ", number, " with another slot."])


@m.action
def client_chooses(s, a: "Attempt", q: "Quorum", token: "Time"):
    largest = s.every("Node", lambda n: Implies(s.within(n, q), And(s.granted(n, a), s.number(n, a) <= token)))
    one = s.some("Node", lambda n: And(s.within(n, q), s.number(n, a) == token))
    return Step(Not(s.chosen(a)), largest, one,
                change=dict(chosen=lambda x: Or(x == a, s.chosen(x)), token=lambda x: If(x == a, token, s.token(x))),
                tell=[f"{a} has the answers of {q}: its number is ", token, "."])


@m.action
def node_raises(s, n: "Node", a: "Attempt"):
    number = Max(value(s, n), s.token(a))
    known = s.guard("ANodeWithALargerNumberDoesNotConfirm", s.number(n, a) <= s.token(a))
    return Step(
        s.chosen(a), s.granted(n, a), known, s.guard("ARaiseLooksForTheKey", s.has(n, a)), s.repaired(n),
        change=dict(counted(s, n, number), raised=lambda x, y: Or(And(x == n, y == a), s.raised(x, y))),
        tell=[f"{n} raises its counter for {a}, to ", number, "."])


@m.action
def client_confirms(s, a: "Attempt", q: "Quorum"):
    """The last check of the validity is `given_up`: an attempt that is over never gets its token."""
    in_time = s.guard("AnAttemptThatIsOverGetsNoToken", Not(s.given_up(a)))
    larger = lambda n: And(s.granted(n, a), Or(s.number(n, a) == s.token(a), s.raised(n, a)))
    good = s.guard("ANodeWithALargerNumberDoesNotConfirm", lambda n: confirms(s, n, a), larger)
    return Step(
        s.chosen(a), Not(s.confirmed(a)), in_time, s.every("Node", lambda n: Implies(
            s.within(n, q), s.guard("AQuorumConfirmsTheNumber", good(n), s.granted(n, a)))),
        change=dict(confirmed=lambda x: Or(x == a, s.confirmed(x)), quorum=lambda x: If(x == a, q, s.quorum(x))),
        tell=[f"{q} confirm: {a} has the lock, with token ", s.token(a), "."])


@m.action
def client_gives_up(s, a: "Attempt"):
    return Step(Not(s.confirmed(a)), change=dict(given_up=lambda x: Or(x == a, s.given_up(x))), tell=[f"{a} is over."])


@m.action
def key_ends(s, n: "Node"):
    return Step(change=dict(has=lambda x, a: And(s.has(x, a), Not(x == n))), tell=[f"The key at {n} expires."])


@m.action
def counter_ends(s, n: "Node"):
    return Step(change=dict(counts=at(n, s.counts, False)), tell=[f"{n} forgets its counter."])


@m.action
def floor_grows(s, n: "Node", floor: "Time"):
    """By a lock on another resource."""
    return Step(s.floor(n) <= floor, change=dict(floor=at(n, s.floor, floor)),
                tell=[f"The floor of {n} is raised by another resource to ", floor, "."])


@m.action
def node_loses(s, n: "Node", stays: "Attempt->Bool", counter: "Time", floor: "Time"):
    """The data that comes back may be of any earlier time."""
    return Step(
        change=dict(has=lambda x, a: And(s.has(x, a), Or(Not(x == n), stays(a))), counter=at(n, s.counter, counter),
                    floor=at(n, s.floor, floor), repaired=at(n, s.repaired, False), counts=at(n, s.counts, False),
                    waited=at(n, s.waited, False), largest=at(n, s.largest, floor),
                    read=s.guard("ANewLossBeginsTheRepairAnew", at(n, s.read, False), s.read)),
        tell=[f"{n} loses its data."])


@m.action
def wait_is_over(s, n: "Node"):
    decided = s.every("Attempt", lambda a: Implies(s.granted(n, a), Or(s.confirmed(a), s.given_up(a))))
    return Step(Not(s.repaired(n)), s.guard("TheRepairWaitsUntilAllIsDecided", decided),
                change=dict(waited=at(n, s.waited, True)), tell=[f"The wait for the repair of {n} is over."])


@m.action
def repair_reads(s, n: "Node", x: "Node"):
    return Step(
        Not(s.repaired(n)), s.waited(n), s.guard("OnlyRepairedNodesAreRead", s.repaired(x)),
        change=dict(read=lambda y, z: Or(s.read(y, z), And(y == n, z == x)),
                    largest=at(n, s.largest, Max(s.largest(n), s.floor(x)))),
        tell=[f"The repair of {n} reads the floor of {x}: ", s.floor(x), "."])


@m.action
def node_is_repaired(s, n: "Node", q: "Reads"):
    enough = s.every("Node", lambda x: Implies(s.read_in(x, q), s.read(n, x)))
    floor = Max(s.floor(n), s.largest(n))
    return Step(
        Not(s.repaired(n)), s.waited(n), s.guard("EnoughFloorsAreRead", enough),
        change=dict(repaired=at(n, s.repaired, True), floor=at(n, s.floor, floor), counts=at(n, s.counts, False)),
        tell=[f"{n} is repaired, with the floor ", floor, "."])


@m.invariant
def a_node_has_one_key_and_its_latest_grant(s, n: "Node", a: "Attempt", b: "Attempt"):
    return And(Implies(And(s.has(n, a), s.has(n, b)), a == b), Implies(s.has(n, a), s.granted(n, a)),
               Implies(s.has(n, a), Not(s.before(n, a, b))), Implies(s.granted(n, a), s.started(a)))


@m.invariant
def grants_have_an_order(s, n: "Node", a: "Attempt", b: "Attempt"):
    return And(Implies(s.before(n, a, b), And(s.granted(n, a), s.granted(n, b), Not(s.before(n, b, a)))),
               Implies(And(s.granted(n, a), s.granted(n, b), Not(a == b)), Or(s.before(n, a, b), s.before(n, b, a))))


@m.invariant
def a_counter_is_below_its_floor(s, n: "Node"):
    return Implies(And(s.repaired(n), s.counts(n)), s.counter(n) <= s.floor(n))


@m.invariant
def decisions_are_final(s, a: "Attempt", n: "Node"):
    return And(Not(And(s.confirmed(a), s.given_up(a))), Implies(s.confirmed(a), s.chosen(a)),
               Implies(s.raised(n, a), And(s.granted(n, a), s.chosen(a))),
               Implies(s.confirmed(a), Implies(s.within(n, s.quorum(a)), confirms(s, n, a))))


@m.invariant
def a_node_knows_what_it_confirms(s, n: "Node", a: "Attempt"):
    returned = Implies(s.granted(n, a), s.number(n, a) <= value(s, n))
    raised = Implies(s.raised(n, a), s.token(a) <= value(s, n))
    return Implies(s.repaired(n), Or(s.given_up(a), And(
        Or(Not(s.chosen(a)), Implies(confirms(s, n, a), s.token(a) <= value(s, n))),
        Or(s.confirmed(a), And(returned, raised)))))


@m.invariant
def a_later_grant_returns_more(s, n: "Node", a: "Attempt", b: "Attempt"):
    returned = s.number(n, a) < s.number(n, b)
    raised = Implies(s.raised(n, a), s.token(a) < s.number(n, b))
    return Implies(s.before(n, a, b), Or(s.given_up(a), And(
        Implies(And(s.chosen(a), confirms(s, n, a)), s.token(a) < s.number(n, b)),
        Or(s.confirmed(a), And(returned, raised)))))


@m.invariant
def after_the_wait_all_is_decided(s, n: "Node", a: "Attempt"):
    return Implies(And(Not(s.repaired(n)), s.waited(n), s.granted(n, a)), Or(s.confirmed(a), s.given_up(a)))


@m.invariant
def a_repair_has_read_what_others_confirm(s, n: "Node", x: "Node", a: "Attempt"):
    both = And(s.confirmed(a), s.granted(n, a), s.within(x, s.quorum(a)))
    return And(Implies(And(Not(s.repaired(n)), s.read(n, x)), s.waited(n)),
               Implies(And(Not(s.repaired(n)), s.read(n, x), both), s.token(a) <= s.largest(n)))


@m.invariant
def a_later_request_is_granted_later(s, n: "Node", a: "Attempt", b: "Attempt"):
    return Implies(s.later(a, b), And(s.confirmed(a), Not(a == b), Implies(
        And(s.within(n, s.quorum(a)), s.granted(n, b)), s.before(n, a, b))))


@m.safety(lambda s, n, a, b: [f"{n} granted {a} before {b}, and {a} has token ", s.token(a), f", {b} has ",
                              s.token(b), "."])
def tokens_grow_in_the_order_of_grants(s, n: "Node", a: "Attempt", b: "Attempt"):
    common = And(s.within(n, s.quorum(a)), s.within(n, s.quorum(b)), s.before(n, a, b))
    return Implies(And(s.confirmed(a), s.confirmed(b), common), s.token(a) < s.token(b))


@m.safety(lambda s, a, b: [f"{a} and {b} both have token ", s.token(a), "."])
def tokens_differ(s, a: "Attempt", b: "Attempt"):
    return Implies(And(s.confirmed(a), s.confirmed(b), Not(a == b)), Not(s.token(a) == s.token(b)))


@m.safety(lambda s, a, b: [f"{b} came after {a} was confirmed with token ", s.token(a), ", and has ", s.token(b), "."])
def a_later_lock_has_the_larger_token(s, a: "Attempt", b: "Attempt"):
    return Implies(And(s.later(a, b), s.confirmed(b)), s.token(a) < s.token(b))


TOKEN = "node_grants node_grants client_chooses client_confirms "
REPAIR = "repair_reads repair_reads node_is_repaired "

m.shows("two tokens of one node that lost its data in between, in two round trips", lambda s: [
    (s.every("Attempt", lambda a: s.confirmed(a)), ["both have a token."])], None,
    TOKEN + "node_loses wait_is_over " + REPAIR + "node_grants node_grants client_chooses node_raises client_confirms")
m.without("AGrantRaisesTheCounter", tokens_differ, None, TOKEN + "key_ends " + TOKEN)
m.without("AMovedTokenGetsANewNumber", tokens_grow_in_the_order_of_grants, None,
          TOKEN + "key_ends node_moves node_grants client_chooses client_confirms")
m.without("AQuorumConfirmsTheNumber", tokens_differ, None, "node_grants key_ends " + TOKEN
          + "key_ends node_grants client_chooses client_confirms")
m.without("ARaiseLooksForTheKey", tokens_differ, None, "node_grants key_ends node_grants node_grants key_ends "
          "node_grants client_chooses node_raises client_confirms client_chooses node_raises client_confirms")
m.without("ANodeWithALargerNumberDoesNotConfirm", tokens_grow_in_the_order_of_grants, None,
          "node_grants key_ends " + TOKEN + "key_ends node_grants node_grants client_chooses node_raises "
          "client_confirms")
m.without("TheFloorFollowsTheCounter", a_later_lock_has_the_larger_token, None,
          TOKEN + "counter_ends key_ends " + TOKEN)
m.without("OnlyARepairedNodeGrants", a_later_lock_has_the_larger_token, None, TOKEN + "node_loses " + TOKEN)
m.without("EnoughFloorsAreRead", a_later_lock_has_the_larger_token, None,
          TOKEN + "node_loses wait_is_over repair_reads node_is_repaired " + TOKEN)
m.without("OnlyRepairedNodesAreRead", a_later_lock_has_the_larger_token, None,
          TOKEN + "node_loses node_loses wait_is_over " + REPAIR + TOKEN)
m.without("TheRepairWaitsUntilAllIsDecided", tokens_grow_in_the_order_of_grants, None, "node_grants node_loses "
          "wait_is_over " + REPAIR + "node_grants client_chooses client_confirms " + TOKEN)
m.without("AnAttemptThatIsOverGetsNoToken", tokens_grow_in_the_order_of_grants, None, "node_grants node_loses "
          "client_gives_up wait_is_over " + REPAIR + "node_grants client_chooses client_confirms " + TOKEN)
m.without("ANewLossBeginsTheRepairAnew", a_later_lock_has_the_larger_token, None, "node_loses wait_is_over " + REPAIR
          + TOKEN + "node_loses wait_is_over node_is_repaired " + TOKEN)

if __name__ == "__main__":
    m.run()
