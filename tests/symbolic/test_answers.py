"""A function that is asked the same again is not read again, unless the answer may be another."""

import random

import pytest
import torch

from symbolic.answers import Answers
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


#: (program, how many of its calls are answered at once)
PROGRAMS = [
    (asked_twice, 3), (keywords, 1), (written_between, 0), (list_written_between, 0), (dict_written_between, 0),
    (global_written_between, 0), (born_lists, 0), (born_texts, 0), (born_argument, 0), (random_ones, 0), (effects, 0),
    (generators, 0), (exceptions, 0), (modes, 0), (signs, 0), (identities, 0),
]  # fmt: skip


@pytest.mark.parametrize(("program", "fewest"), PROGRAMS, ids=lambda value: getattr(value, "__name__", None))
def test_programs(program, fewest, answered):
    random.seed(0)
    check(program, X)
    assert not COUNTING or len(answered) >= fewest
