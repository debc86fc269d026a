"""The machinery that all proofs share: models, induction for every N, and stories for N = 3.

A model has sorts (nodes, tokens, ..), a world that does not change, a state, and actions that change it. Each is
written once, as Python functions over a state `s`, and read in two ways:

* **For every N.** The sorts are uninterpreted: any number of nodes and clients. z3 is asked whether the invariants
  hold at the beginning, and whether each action keeps each of them. `unsat` means that no counterexample exists.
* **As a story.** Three nodes, a few clients, and a number of steps from the beginning. z3 chooses the steps, and what
  it finds is printed in English.

A guard is `s.guard("Name", what_is_right, what_is_left_without_it)`. `without("Name", ..)` in a model says that the
proof has to fail without the guard, and asks for the story. A verdict that is not the expected one ends the program
with an error. So does a query that takes too long: `unknown` is not a proof.
"""

import inspect
import itertools
import sys
import time

import z3

QUERY_MS = 20_000
STORY_MS = 60_000
BITS = 8  # The number of bits of a time in a story.
LAST = 24  # The latest time in a story; sums of four such times fit into the bits.


# --- formulas: like those of z3, but they take the Python values of a story too ---------------------------------


def And(*parts):
    parts = [part for part in parts if part is not True]
    if any(part is False for part in parts):
        return False
    return z3.And(*parts) if len(parts) > 1 else parts[0] if parts else True


def Or(*parts):
    return Not(And(*map(Not, parts)))


def Not(part):
    return (not part) if isinstance(part, bool) else z3.Not(part)


def Implies(if_this, then):
    return Or(Not(if_this), then)


def If(condition, then, otherwise):
    if isinstance(condition, bool):
        return then if condition else otherwise
    if isinstance(then, Elem) or isinstance(otherwise, Elem):
        then, otherwise = (z3.BitVecVal(int(x), BITS) if isinstance(x, Elem) else x for x in (then, otherwise))
    if isinstance(then, bool) and isinstance(otherwise, bool):
        return then if then == otherwise else condition if then else Not(condition)
    return z3.If(condition, then, otherwise)


def Max(one, other):
    return If(one >= other, one, other)


def Same(one, other):
    return And(Implies(one, other), Implies(other, one))


class Elem(int):
    """An element of a sort in a story, with its name."""

    def __new__(cls, number, name):
        self = super().__new__(cls, number)
        self.name = name
        return self

    def __format__(self, _):
        return self.name


class Step:
    """The condition of an action, its changes, and its words in a story: a list of texts and of terms."""

    def __init__(self, *need, change, tell):
        self.need, self.change, self.tell = need, change, tell


class State:
    """The values of the state and of the world, as functions: `s.yes(n, r)`."""

    def __init__(self, world, values):
        self._world, self._values = world, values

    def __getattr__(self, name):
        return self._values[name] if name in self._values else self._world.rigid[name]

    def every(self, sorts, body):
        return self._world.every(sorts.split(), body)

    def some(self, sorts, body):
        return Not(self.every(sorts, lambda *x: Not(body(*x))))

    def guard(self, name, good, bad=True):
        self._world.seen.add(name)
        return bad if self._world.broken == name else good

    def after(self, change):
        return State(self._world, {**self._values, **change})


# --- the two readings of a model ---------------------------------------------------------------------------------


class EveryN:
    """Any number of nodes, clients and so on."""

    def __init__(self, model, broken=None):
        self.model, self.broken, self.seen, self.count = model, broken, set(), itertools.count()
        self.sorts = {name: z3.DeclareSort(name) for name in model.sorts}
        self.sorts.update(Bool=z3.BoolSort(), Time=z3.IntSort())
        self.rigid = {name: self.fresh(name, args, ret) for name, (args, ret, _) in model.rigid.items()}

    def fresh(self, name, args, ret):
        sorts = [self.sorts[sort] for sort in (*args, ret)]
        made = z3.Function(f"{name}!{next(self.count)}", *sorts)
        return lambda *x: made(*x)

    def every(self, sorts, body):
        names = [z3.Const(f"{sort}!{next(self.count)}", self.sorts[sort]) for sort in sorts]
        told = body(*names)
        return z3.ForAll(names, told) if names and not isinstance(told, bool) else told

    def state(self, first=False):
        made = {}
        for name, (args, ret, init) in self.model.state.items():
            free = self.fresh(name, args, ret)
            made[name] = (lambda v: lambda *x: v)(init) if first and init is not None else free
        return State(self, made)

    def parameters(self, action):
        for sort in sorts_of(action):
            args, ret = split(sort)
            given = self.fresh("given", args, ret)
            yield given if args else given()


class Story:
    """Three nodes, and as many of the other sorts as the model says."""

    def __init__(self, model, broken=None, **other):
        self.model, self.broken, self.seen, self.count = model, broken, set(), itertools.count()
        self.sorts = {name: [Elem(i, label) for i, label in enumerate(other.get(name, labels))]
                      for name, labels in model.sorts.items()}
        self.limits = []
        self.clocks = other.get("clocks", "same")
        self.rigid = {}
        for name, (args, ret, value) in model.rigid.items():
            value, table = other.get(name, value), self.table(name, args, ret)
            if value is not None:  # The values for the elements of a sort in their order, or a function.
                values = value if isinstance(value, list) else [value(*key) for key in table]
                table = {key: self.lift(one, ret) for key, one in zip(table, values)}
            self.rigid[name] = self.look(table)

    def lift(self, value, ret):
        """A Python value as a value of this sort."""
        if ret in self.sorts and isinstance(value, int):
            return self.sorts[ret][value]
        return z3.BitVecVal(value, BITS) if ret == "Time" and isinstance(value, int) else value

    def fresh(self, name, ret):
        made = f"{name}!{next(self.count)}"
        if ret == "Bool":
            return z3.Bool(made)
        made = z3.BitVec(made, BITS)
        low, high = (-LAST, LAST) if ret == "Time" else (0, len(self.sorts[ret]) - 1)
        self.limits += [made >= low, made <= high]
        return made

    def table(self, name, args, ret):
        return {key: self.fresh(name, ret) for key in self.tuples(args)}

    def tuples(self, args):
        return list(itertools.product(*(self.sorts[sort] for sort in args)))

    def look(self, table):
        def at(*key):
            for place, part in enumerate(key):
                if not isinstance(part, Elem):  # An element that is not known yet: any of its sort.
                    found = None
                    for option in {known[place] for known in table}:
                        value = at(*key[:place], option, *key[place + 1:])
                        found = value if found is None else If(part == option, value, found)
                    return found
            return table[key]
        return at

    def every(self, sorts, body):
        return And(*(body(*key) for key in self.tuples(sorts)))

    def as_state(self, tables):
        return State(self, {name: self.look(table) for name, table in tables.items()})

    def first(self):
        made = {}
        for name, (args, ret, init) in self.model.state.items():
            init = self.model.begins.get(name, init)
            made[name] = ({key: self.lift(init, ret) for key in self.tuples(args)} if init is not None
                          else self.table(name, args, ret))
        return made

    def choices(self, action):
        """All parameters of an action: elements one by one, times and functions free."""
        options = []
        for sort in sorts_of(action):
            args, ret = split(sort)
            if args or ret in ("Time", "Bool"):
                table = self.table("given", args, ret)
                options.append([self.look(table) if args else table[()]])
            else:
                options.append(self.sorts[ret])
        return list(itertools.product(*options))


def sorts_of(function):
    return [p.annotation for p in list(inspect.signature(function).parameters.values())[1:]]


def split(sort):
    """`Node Token->Time` is a function of two, `Time` of none."""
    *args, ret = sort.replace("->", " ").split()
    return args, ret


# --- a model -------------------------------------------------------------------------------------------------------


class Model:
    def __init__(self, name, **sorts):
        self.name, self.sorts = name, sorts
        self.rigid, self.state, self.begins = {}, {}, {}
        self.axioms, self.actions, self.invariants, self.safeties = [], [], [], []
        self.removed, self.shown, self.elsewhere, self.failed = [], [], set(), 0

    def world(self, name, kind, story=None):
        """Something that does not change: `Round->Token`. `story` is its value in a story."""
        self.rigid[name] = (*split(kind), story)

    def has_state(self, name, kind, init=None, begins=None):
        """A part of the state: `Node Token->Bool`. `begins` is its value at the beginning of a story."""
        self.state[name] = (*split(kind), init)
        if begins is not None:
            self.begins[name] = begins

    def axiom(self, function):
        self.axioms.append(function)
        return function

    def action(self, function):
        self.actions.append(function)
        return function

    def invariant(self, function):
        self.invariants.append(function)
        return function

    def safety(self, tell):
        """A lemma that users rely on. `tell` says, in a story, how it is broken."""
        def add(function):
            function.tell = tell
            self.safeties.append(function)
            return function
        return add

    def without(self, guard, breaks, steps, only=None, **other):
        """Without this guard the proof fails, and a story with this number of steps breaks the lemma `breaks`. `only` names
        the actions that are tried. Without a number of steps it names the actions of the story in their order."""
        self.removed.append((guard, breaks, steps, only, other))

    def shows(self, name, goal, steps, only=None, **other):
        """The model can reach the goal: it is not safe only because nothing happens."""
        self.shown.append((name, goal, steps, only, other))

    def closed(self, lemma, s):
        return s.every(" ".join(sorts_of(lemma)), lambda *x: lemma(s, *x))

    # --- induction -------------------------------------------------------------------------------------------------

    def queries(self, world):
        """Yields (lemma, where, formulas): the lemma holds there if they cannot be true together."""
        before, first = world.state(), world.state(first=True)
        known = [axiom(before) for axiom in self.axioms]
        holds = known + [self.closed(lemma, before) for lemma in self.invariants]
        steps = []
        for action in self.actions:
            step = action(before, *world.parameters(action))
            after = before.after(step.change)
            steps.append((action.__name__, list(step.need), after))
        for lemma in self.invariants:
            yield lemma, "the beginning", known + [Not(self.closed(lemma, first))]
            for name, need, after in steps:
                yield lemma, name, holds + need + [Not(self.closed(lemma, after))]
        for lemma in self.safeties:
            if lemma in self.invariants:
                continue
            yield lemma, "the invariants", holds + [Not(self.closed(lemma, before))]

    def verdict(self, expected, found, text, seconds):
        self.failed += found != expected
        mark = "" if found == expected else f"  <-- UNEXPECTED, should be: {expected}"
        print(f"{found:<9} {self.name}: {text} ({seconds:.1f} s){mark}", flush=True)

    def prove(self):
        world, spent, bad = EveryN(self), {}, {}
        for lemma, where, formulas in self.queries(world):
            begin = time.monotonic()
            said = ask(formulas)
            spent[lemma] = spent.get(lemma, 0) + time.monotonic() - begin
            if said != z3.unsat:
                bad.setdefault(lemma, []).append(f"{where}: {said}")
        for lemma in spent:
            kind = "safety" if lemma in self.safeties else "invariant"
            wrong = bad.get(lemma)
            text = f"{kind} {lemma.__name__}" + (f" fails at {', '.join(wrong)}" if wrong else "")
            self.verdict("proved", "OPEN" if wrong else "proved", text, spent[lemma])
        return world.seen

    def refute(self, guard):
        """The first lemma that fails without the guard."""
        for lemma, where, formulas in self.queries(EveryN(self, guard)):
            if ask(formulas) == z3.sat:
                return f"{lemma.__name__} fails at {where}"
        return None

    # --- stories ---------------------------------------------------------------------------------------------------

    def story(self, world, goal, steps, only):
        """Looks for this number of steps that reach the goal. Returns the lines of the story, or the answer of z3."""
        solver = z3.SolverFor("QF_FD")
        solver.set("timeout", STORY_MS)
        tables, told = world.first(), []
        solver.add(*(sure(axiom(world.as_state(tables))) for axiom in self.axioms))
        for number in range(steps):
            tables, choice, lines = self.one_step(world, solver, tables, number, only(number))
            told.append((choice, lines))
        ends = goal(world.as_state(tables))
        solver.add(sure(Or(*(condition for condition, _ in ends))), *world.limits)
        said = solver.check()
        if said != z3.sat:
            return said
        model = solver.model()
        story = [say(model, lines[model.eval(choice, True).as_long()]) for choice, lines in told]
        end = next(text for condition, text in ends if z3.is_true(model.eval(sure(condition), True)))
        return story + [say(model, end)]

    def one_step(self, world, solver, tables, number, only):
        state, choice = world.as_state(tables), z3.BitVec(f"step!{number}", 10)
        new = {name: dict(table) for name, table in tables.items()}
        lines, possible = [], []
        for action in self.actions:
            if action.__name__ not in only:
                continue
            for given in world.choices(action):
                step = action(state, *given)
                need = And(*step.need)
                if need is False:
                    continue
                chosen = choice == len(lines)
                lines.append(step.tell)
                possible.append(And(chosen, need))
                for name, value in step.change.items():
                    for key, old in tables[name].items():
                        changed = world.lift(value(*key), self.state[name][1])
                        if not same(changed, old):
                            new[name][key] = If(chosen, changed, new[name][key])
        solver.add(Or(*possible))
        for name, table in new.items():
            for key, value in table.items():
                if not same(value, tables[name][key]):
                    table[key] = world.fresh(name, self.state[name][1])
                    solver.add(table[key] == value)
        return new, choice, lines

    def tell(self, world, goal, steps, only):
        """A story of `steps` steps, by any of these actions."""
        names = only.split() if only else [action.__name__ for action in self.actions]
        allowed = (lambda _: names) if steps else (lambda number: names[number:number + 1])
        found = self.story(world, goal, steps or len(names), allowed)
        return found if isinstance(found, list) else None

    def run(self):
        begin = time.monotonic()
        wanted = sys.argv[1:]
        seen = set() if wanted else self.prove()
        for name, goal, steps, only, other in self.shown:
            if not wanted or name in wanted:
                start = time.monotonic()
                found = self.tell(Story(self, None, **other), goal, steps, only)
                self.verdict("possible", "possible" if found else "MISSING", name, time.monotonic() - start)
        for guard, breaks, steps, only, other in self.removed:
            if not wanted or guard in wanted:
                self.remove(guard, breaks, steps, only, other)
        untested = seen - {guard for guard, *_ in self.removed} - self.elsewhere
        if untested and not wanted:
            self.verdict("", "MISSING", f"no story for {', '.join(sorted(untested))}", 0)
        print(f"{self.name}: {self.failed} unexpected, {time.monotonic() - begin:.0f} s", flush=True)
        sys.exit(self.failed > 0)

    def remove(self, guard, breaks, steps, only, other):
        begin = time.monotonic()
        failing = self.refute(guard)

        def goal(state):
            world = state._world
            return [(Not(breaks(state, *key)), breaks.tell(state, *key)) for key in world.tuples(sorts_of(breaks))]

        found = self.tell(Story(self, guard, **other), goal, steps, only)
        text = f"without {guard}: {failing}, and {breaks.__name__} is broken in {len(found or [0]) - 1} steps:"
        self.verdict("refuted", "refuted" if failing and found else "MISSING", text, time.monotonic() - begin)
        for number, line in enumerate(found or [], 1):
            print(f"    {'so' if number == len(found) else number:>2}  {line}")


def same(one, other):
    if isinstance(one, z3.ExprRef) and isinstance(other, z3.ExprRef):
        return one.eq(other)
    return type(one) is type(other) and one == other


def sure(formula):
    return z3.BoolVal(formula) if isinstance(formula, bool) else formula


def ask(formulas):
    if any(formula is False for formula in formulas):
        return z3.unsat
    solver = z3.Solver()
    solver.set("timeout", QUERY_MS)
    solver.add(*(sure(formula) for formula in formulas))
    return solver.check()


def say(model, parts):
    """`(condition, text)` and `(condition, text, other text)` are choices."""
    words = []
    for part in parts:
        if isinstance(part, tuple):
            holds = z3.is_true(model.eval(sure(part[0]), True))
            part = part[1] if holds else "".join(part[2:])
        if isinstance(part, z3.BitVecRef):
            part = model.eval(part, True).as_signed_long()
        words.append(f"{part}")
    return "".join(words)
