"""A function that is asked the same again is not read again, unless the answer may be another."""

import collections
import copy
import random

import pytest
import torch

import jit
from sideeffects.effects import SetContents
from symbolic.answers import Answers
from symbolic.repeats import MOST_LOOKED_AT
from symbolic.variables.mappings import DictVariable
from tests.differential import COUNTING, check
from tests.with_and_without import compared

X = torch.arange(4.0)


@pytest.fixture
def answered(monkeypatch):
    """How many calls were answered at once."""
    found = []
    known = Answers.known

    def counting(self, asked):
        answer = known(self, asked)
        if answer is not None:
            found.append(asked.key)
        return answer

    with compared(monkeypatch):
        monkeypatch.setattr(Answers, "known", counting)
        yield found


class Config:
    def __init__(self):
        self.width, self.names, self.kinds = 4, ["a", "b"], {"a": 1}

    def __getattribute__(self, name):
        return object.__getattribute__(self, "width" if name == "size" else name)

    @property
    def is_wide(self):
        return self.width > 2 and len(self.names) == 2

    def kind(self, name, default=None):
        return self.kinds.get(name, default)


config = Config()
level = 1


def is_high():
    return level > 1


def fresh(n):
    return [n]


def text(n):
    return f"{n} of {config.width}"


def count(items):
    return len(items)


def drawn():
    return random.random() > 0.5


def noted(notes):
    notes.append(1)
    return None


def steps(n):
    yield from range(n)


def failing(name):
    raise KeyError(name)


def grad_mode():
    return torch.is_grad_enabled()


def same(a, b):
    return a is b


def asked_twice(x):
    return x * config.size + config.size * config.width, config.is_wide and config.is_wide


def keywords(x):
    return x * config.kind("a") + config.kind("b", default=2) + config.kind("a") + config.kind("b", default=3)


def written_between(x):
    before = config.is_wide
    config.width = 1
    after = config.is_wide
    config.width = 4
    return x, before, after, config.is_wide


def list_written_between(x):
    before = config.is_wide
    config.names.append("c")
    after = config.is_wide
    config.names.pop()
    return x, before, after, config.is_wide


def dict_written_between(x):
    before = config.kind("c")
    config.kinds["c"] = 3
    after = config.kind("c")
    del config.kinds["c"]
    return x, before, after, config.kind("c")


def global_written_between(x):
    global level
    before = is_high()
    level = 2
    after = is_high()
    level = 1
    return x, before, after, is_high()


def born_lists(x):
    one, other = fresh(1), fresh(1)
    one.append(x)
    return one, other, one is other


def born_texts(x):
    return x, text(3), text(3)


def born_argument(x):
    items = []
    before = count(items)
    items.append(x)
    return before, count(items), count((x,)), count((x, x))


def random_ones(x):
    return x, [drawn() for _ in range(6)]


def effects(x):
    return x, noted(config.names), noted(config.names), len(config.names), config.names.pop(), config.names.pop()


def generators(x):
    return x, list(steps(3)), list(steps(3))


def exceptions(x):
    seen = []
    for _ in range(2):
        try:
            failing("a")
        except KeyError as error:
            seen.append(error)
    return x, [str(error) for error in seen], seen[0] is seen[1]


def modes(x):
    before = grad_mode()
    with torch.no_grad():
        inside = grad_mode()
    return x, before, inside, grad_mode()


def signs(x):
    return [str(abs_of(value)) for value in (0.0, -0.0, 1, 1.0, True)]


def abs_of(value):
    return value if value else None if str(value) == "0.0" else False


def identities(x):
    return x, same(config.width, 4), same(None, None), same(config, config), same(config, config.names)


def is_empty(items):
    return len(items) == 0


def is_marked(item):
    return item.t.requires_grad


def is_over(iterator):
    return next(iterator, None)


def ask(item, name):
    return getattr(item, name)


def has(items, name):
    return name in items and items[name] is None


def reads(items, name):
    return items[name] and None


def fills(items):
    return items.setdefault("made") if items else items.update(made=None)


def copies(x):
    mine = copy.deepcopy(config)
    seen = [mine.is_wide, mine.is_wide, mine.size]
    mine.width = 1
    seen += [mine.is_wide, mine.size, mine.is_wide]
    mine.width = 8
    mine.names.append("c")
    seen += [mine.is_wide, mine.kind("d"), mine.kind("d")]
    mine.kinds["d"] = None
    vars(mine)["names"] = ["d", "e"]
    seen += [mine.kind("d"), mine.is_wide, config.is_wide]
    return x * mine.size, seen, mine


def born_lists_that_change(x):
    items, outer = [], []
    seen = [is_empty(items), is_empty(items), is_empty(outer)]
    outer.append(items)
    seen += [is_empty(outer), is_empty(outer[0])]
    items.append(x)
    seen += [is_empty(items), is_empty(outer[0])]
    outer[0].clear()
    seen.append(is_empty(items))
    items += [1]
    return x, seen, is_empty(items), is_empty({*()}), is_empty(())


def lists_given_away(x):
    mine = []
    config.names.append(mine)
    seen = [is_empty(mine), is_empty(mine)]
    config.names[-1].append(1)
    seen += [is_empty(mine), is_empty(config.names.pop())]
    return x, seen


def sets_and_deques(x):
    seen = []
    for items in (set(), collections.deque(), {}):
        seen += [is_empty(items), is_empty(items)]
        {set: lambda: items.add(1), dict: lambda: items.update(a=1)}.get(type(items), lambda: items.append(1))()
        seen += [is_empty(items), is_empty(items)]
    return x, seen


def iterators(x):
    steps_, rest = iter([None, True, False]), iter([])
    return x, [is_over(steps_) for _ in range(4)], is_over(rest), is_over(rest)


class Base:
    flag = None

    def get(self):
        return self.flag


def born_classes(x):
    class Made(Base):
        flag = True

    one = Made()
    seen = [one.get(), one.get()]
    Made.flag = False
    seen += [one.get(), one.get()]
    one.flag = None
    return x, seen, one.get()


def other_classes(x):
    class Other(Base):
        flag = True

    one = Base()
    seen = [one.get(), one.get()]
    one.__class__ = Other
    return x, seen, one.get()


def class_attributes(x):
    one = Base()
    seen = [one.get(), one.get()]
    Base.flag = True
    seen += [one.get(), one.get()]
    Base.flag = None
    return x, seen, one.get()


def defaults(x):
    items = collections.defaultdict(type(None))
    seen = [has(items, "a"), has(items, "a"), reads(items, "a"), has(items, "a")]
    return x, seen, len(items)


def fill(x):
    items = {}
    return x, has(items, "made"), fills(items), has(items, "made"), fills(items), items


def held_objects(x):
    one = Base()
    one.inner, one.items = Base(), []
    first = ask(one, "inner")
    ask(one, "items").append(x)
    seen = [ask(one, "inner") is first, ask(one, "items") is ask(one, "items"), ask(one, "items")]
    one.inner = Base()
    return seen, ask(one, "inner") is first, ask(one, "inner") is one.inner


def held_tensors(x):
    one = Base()
    one.t = x.detach() * 2
    seen = [is_marked(one), is_marked(one)]
    one.t.requires_grad_()
    return x, seen, is_marked(one)


def tuples(x):
    items = []
    both = items, items
    seen = [is_empty(both[0]), ask(both, "__len__")(), has({"a": both}, "a")]
    items.append(1)
    return x, seen, is_empty(both[0])


#: (program, how many of its calls are answered at once)
PROGRAMS = [
    (asked_twice, 3), (keywords, 1), (written_between, 0), (list_written_between, 0), (dict_written_between, 0),
    (global_written_between, 0), (born_lists, 0), (born_texts, 0), (born_argument, 0), (random_ones, 0), (effects, 0),
    (generators, 0), (exceptions, 0), (modes, 0), (signs, 0), (identities, 0), (copies, 2), (born_lists_that_change, 1),
    (lists_given_away, 0), (sets_and_deques, 4), (iterators, 0), (born_classes, 0), (other_classes, 0),
    (class_attributes, 2), (defaults, 1), (fill, 0), (held_objects, 2), (held_tensors, 0), (tuples, 0),
]  # fmt: skip


@pytest.mark.parametrize(("program", "fewest"), PROGRAMS, ids=lambda value: getattr(value, "__name__", None))
def test_programs(program, fewest, answered):
    random.seed(0)
    check(program, X)
    assert not COUNTING or len(answered) >= fewest


def _same(value):
    return value


def _filled(items, count):
    for i in range(count):
        items[i] = _same(i)
    return items


@pytest.mark.skipif(not COUNTING, reason="more continuations look more often")
@pytest.mark.parametrize("is_born", [False, True])
def test_what_grows_is_not_looked_through_at_each_call(is_born, monkeypatch):
    """Thousands of writes with a call between each two took minutes."""
    looked, reachable = [], DictVariable.reachable

    def counting(self):
        found = reachable(self)
        looked.append(len(found))
        return found

    def program(x, items):
        if is_born:
            items = {}
        for i in range(900):
            items[i] = _same(i)
            _same(items)
        return x + len(items)

    monkeypatch.setattr(DictVariable, "reachable", counting)
    compiled = jit.compile(program, backend="eager")
    assert torch.equal(compiled(X, {}), X + 900)
    assert sum(looked) < 2 * MOST_LOOKED_AT


def test_what_effects_say_is_made_once(monkeypatch):
    """It is long where they write much, and so many instructions are for it."""
    made, say = [], SetContents.__str__
    monkeypatch.setattr(SetContents, "__str__", lambda self: made.append(self) or say(self))
    compiled, items = jit.compile(_filled, backend="eager"), {}
    compiled(items, 30)
    assert items == dict(zip(range(30), range(30))) and len(made) <= 2 * len({*made})
