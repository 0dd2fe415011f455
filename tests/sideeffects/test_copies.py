"""`copy.copy` and `copy.deepcopy` in the frame: what is shared, what is new, who is asked."""
import collections
import copy
import dataclasses
import functools

import pytest
import torch
from torch import nn

import jit
from tests.differential import check

pytestmark = pytest.mark.break_everywhere


class Plain:
    def __init__(self, **kw):
        self.__dict__.update(kw)


@dataclasses.dataclass
class Point:
    x: object
    ys: list = dataclasses.field(default_factory=list)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class SlottedAndDict(Slotted):
    pass


class Told:
    """Says how it is copied."""

    def __init__(self, t, log):
        self.t, self.log = t, log

    def __copy__(self):
        self.log.append("copy")
        return Told(self.t, self.log)

    def __deepcopy__(self, memo):
        self.log.append(len(memo))
        made = Told(copy.deepcopy(self.t, memo), self.log)
        memo[id(self)] = made
        return made


class Reduced:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __reduce__(self):
        return Reduced, (self.a, [self.b]), {"late": self.a}


class ByName:
    def __reduce__(self):
        return "BY_NAME"


BY_NAME = ByName()


class Stated:
    def __init__(self, n):
        self.n, self.cache = n, [n]

    def __getstate__(self):
        return {"n": self.n}

    def __setstate__(self, state):
        self.n = state["n"] * 10 if isinstance(state["n"], int) else state["n"]
        self.cache = "restored"


class NewArgs:
    def __new__(cls, a, b=0):
        self = object.__new__(cls)
        self.made_of = (a, b)
        return self

    def __getnewargs__(self):
        return (self.made_of[0], 5)


class NewArgsNamed(NewArgs):
    def __getnewargs_ex__(self):
        return (1,), {"b": self.made_of}


class Items(list):
    def append(self, item):
        super().append(item)
        self.added = getattr(self, "added", 0) + 1


class Pairs(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "set"))


Named = collections.namedtuple("Named", "a b")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.first.weight
        self.config = {"sizes": [4, 4]}
        self.register_buffer("mask", torch.ones(4))

    def forward(self, x):
        return self.tied(self.norm(self.first(x)).relu()) * self.mask


def _cycle():
    a = Plain(xs=[1])
    a.me, a.xs[0] = a, a
    a.pair = (a.xs, 1)
    return a


def _shared():
    inner = [1, [2]]
    return {"a": inner, "b": inner, "c": (inner, 3)}


# What is copied, made anew for each world. What follows looks at the copy and changes it.
OBJECTS = {
    "int": lambda: 3, "str": lambda: "a", "tuple of constants": lambda: (1, (2, "x")), "frozenset": lambda: frozenset({1, 2}),
    "list": lambda: [1, [2], torch.ones(4)], "dict": lambda: {"a": [1], 2: torch.ones(4)}, "set": lambda: {1, 2, 3},
    "tuple with a list": lambda: ([1], 2), "shared": _shared, "cycle": _cycle, "plain": lambda: Plain(a=torch.ones(4), b=[1]),
    "dataclass": lambda: Point(torch.ones(4), [1, [2]]), "slots": lambda: Slotted([1]), "empty slots": lambda: Slotted.__new__(Slotted),
    "slots and dict": lambda: _with(SlottedAndDict([1]), extra=[2]), "empty": lambda: Plain(), "told": lambda: Told(torch.ones(4), []),
    "reduced": lambda: Reduced([1], 2), "by name": lambda: BY_NAME, "stated": lambda: Stated(3), "new args": lambda: NewArgs(1),
    "named new args": lambda: NewArgsNamed(1), "list subclass": lambda: _with(Items([1, [2]]), note="n"),
    "dict subclass": lambda: Pairs(a=[1]), "named tuple": lambda: Named([1], 2), "ordered dict": lambda: collections.OrderedDict(b=[1], a=2),
    "default dict": lambda: collections.defaultdict(list, a=[1]), "counter": lambda: collections.Counter("aab"),
    "deque": lambda: collections.deque([1, [2]]), "bounded deque": lambda: collections.deque([1, [2]], 2),
    "partial": lambda: functools.partial(max, [1], key=len), "method": lambda: Point([1]).__eq__, "function": lambda: _with,
    "class": lambda: Plain, "module list": lambda: nn.ModuleList([nn.ReLU(), nn.Dropout(0.1)]), "network": lambda: Net(),
    "parameter": lambda: nn.Parameter(torch.ones(4)), "leaf": lambda: torch.ones(4, requires_grad=True), "tensor": lambda: torch.ones(4),
    "chain map": lambda: collections.ChainMap({"a": [1]}, {"b": 2}), "nested": lambda: [Plain(p=Point(torch.ones(4)), q=Stated(1))] * 2,
}  # fmt: skip


def _with(owner, **attributes):
    owner.__dict__.update(attributes)
    return owner


def shallow(x, thing):
    made = copy.copy(thing)
    return made, made is thing, x + 1


def deep(x, thing):
    made = copy.deepcopy(thing)
    return made, made is thing, x + 1


#: Not captured as one graph: shallow copies of a tensor share its memory, bound methods of C have no parts.
PARTLY = {(shallow, name) for name in ("parameter", "leaf", "tensor", "partial", "method")} | {(deep, "method")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("how", [shallow, deep])
def test_copied(how, name):
    check(how, make=lambda: (torch.ones(4), OBJECTS[name]()), graphs=None if (how, name) in PARTLY else 1)


# --- programs over: x a tensor (3, 4), thing made anew for each world -------------------------------------------------
def copy_is_written_to(x, p):
    made = copy.deepcopy(p)
    made.ys.append(x)
    made.x.add_(1)
    made.new = p
    p.ys.append(made)
    return made, p


def shallow_copy_shares(x, p):
    made = copy.copy(p)
    made.ys.append(x + 1)
    made.x = x
    return made, made.ys is p.ys


def copy_of_what_the_frame_made(x, p):
    mine = Point(x + 1, [p])
    made = copy.deepcopy([mine, mine, p.ys])
    return made, made[0] is made[1], made[2] is made[0].ys[0].ys


def copy_of_pending_writes(x, p):
    p.ys = [x * 2]
    p.extra = "e"
    del p.x
    made = copy.deepcopy(p)
    p.extra = "f"
    return made, made.ys[0] is p.ys[0]


def one_memo_for_two(x, p):
    memo = {}
    a = copy.deepcopy(p.ys, memo)
    b = copy.deepcopy({"again": p.ys}, memo)
    return a is b["again"], len(memo) > 1, x + 1


def memo_that_knows_already(x, p):
    memo = {id(p.ys): "instead"}
    return copy.deepcopy([p.ys, {"b": p.ys}], memo), x + 1


def memo_keeps_what_is_shared(x, p):
    made = copy.deepcopy([p, p.x], {id(p.x): p.x})
    return made, made[1] is p.x, x + 1


def copy_in_a_loop(x, p):
    made = [copy.deepcopy(p) for _ in range(3)]
    for i, each in enumerate(made):
        each.ys.append(i)
    return made, x + 1


PROGRAMS = [
    copy_is_written_to, shallow_copy_shares, copy_of_what_the_frame_made, copy_of_pending_writes, one_memo_for_two,
    memo_that_knows_already, copy_in_a_loop, memo_keeps_what_is_shared,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program):
    check(program, make=lambda: (torch.ones(3, 4), Point(torch.ones(4), [1, [2]])), graphs=1)


# --- modules ----------------------------------------------------------------------------------------------------------
def copy_and_run(x, net):
    return copy.deepcopy(net)(x)


def both_run(x, net):
    made = copy.deepcopy(net)
    made.note = "copy"
    return made(x) + net(x), made


def copy_and_change(x, net):
    made = copy.deepcopy(net)
    with torch.no_grad():
        for p, q in zip(net.parameters(), made.parameters()):
            p.add_(1)
            q.mul_(2)
    return made(x), made


def copy_with_gradients(x, net):
    made = copy.deepcopy(net)
    made(x).sum().backward()
    return made, [p.grad for p in made.parameters()], net.first.weight.grad


def copies_in_a_list(x, net):
    blocks = nn.ModuleList([copy.deepcopy(net.first) for _ in range(3)])
    for block in blocks:
        x = block(x)
    return x, blocks


def copy_of_eval(x, net):
    made = copy.deepcopy(net).eval()
    made.requires_grad_(False)
    return made(x), net(x)


def average_of_weights(x, net):
    ema = copy.deepcopy(net)
    with torch.no_grad():
        for p, q in zip(ema.parameters(), net.parameters()):
            p.lerp_(q * 2, 0.1)
    return ema


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize(
    "program",
    [copy_and_run, both_run, copy_and_change, copy_with_gradients, copies_in_a_list, average_of_weights, copy_of_eval],
    ids=lambda p: p.__name__,
)
def test_module(program, backend):
    check(program, make=_net, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


def _net():
    torch.manual_seed(0)
    return torch.randn(3, 4), Net()


# --- what comes in again as something else ----------------------------------------------------------------------------
def pair(x, a, b):
    made = copy.deepcopy([a, b])
    return made, made[0] is made[1], x + 1


@pytest.mark.parametrize("forms", [([1], [1]), (torch.ones(2), torch.ones(2)), (Point(1), Point(1))], ids=["lists", "tensors", "objects"])
def test_two_that_come_in_as_one(forms):
    check(pair, make=lambda: (torch.ones(2), *copy.deepcopy(forms)), changed=lambda: (torch.ones(2), forms[0], forms[0]), graphs=1)


def test_two_that_share_memory():
    def shared():
        base = torch.zeros(6)
        return torch.ones(2), base[:3], base[3:]

    check(pair, make=lambda: (torch.ones(2), torch.zeros(3), torch.zeros(3)), changed=shared)
    check(pair, make=shared)


LEAVES = {
    "view": lambda: torch.zeros(6)[1:4], "transposed": lambda: torch.zeros(2, 3).t(), "empty": lambda: torch.zeros(0),
    "expanded": lambda: torch.zeros(1).expand(3), "strided": lambda: torch.zeros(6)[::2], "noted": lambda: _noted(torch.zeros(3)),
    "with a gradient": lambda: _graded(torch.ones(3, requires_grad=True)), "no leaf": lambda: torch.ones(3, requires_grad=True) * 2,
    "integers": lambda: torch.arange(3), "conjugated": lambda: torch.ones(3, dtype=torch.complex64).conj(),
}  # fmt: skip


def _noted(tensor):
    tensor.note = [1]
    return tensor


def _graded(tensor):
    tensor.grad = torch.ones(3)
    return tensor


def deep_tensor(x, t):
    made = copy.deepcopy([t])
    return made, x + 1


@pytest.mark.parametrize("name", LEAVES)
def test_tensor(name):
    check(deep_tensor, make=lambda: (torch.ones(3), LEAVES[name]()), changed=lambda: (torch.ones(3), torch.zeros(3)))


def test_leaf_that_the_frame_changed():
    def program(x, w):
        with torch.no_grad():
            w.add_(1)
        return copy.deepcopy(w), w * x

    check(program, make=lambda: (torch.ones(3), nn.Parameter(torch.zeros(3))))


def test_sizes_that_vary():
    check(deep, make=lambda: (torch.ones(3), [torch.ones(3)]), changed=[lambda: (torch.ones(5), [torch.ones(5)])], dynamic=True)
    check(deep, make=lambda: (torch.ones(3), [nn.Parameter(torch.ones(3))]),
          changed=[lambda: (torch.ones(5), [nn.Parameter(torch.ones(5))])], dynamic=True)  # fmt: skip


def lookup_by_identity(x, d, key):
    return d.get(id(key)), id(key) in d, x + 1


def test_existing_dict_of_identities():
    key, x = [1], torch.ones(2)
    compiled = jit.compile(lookup_by_identity, backend="eager")
    for known in ({id(key): "found"}, {}, {"a": 1, id(key): 2}, {3: 1}):
        assert compiled(x, known, key)[:2] == lookup_by_identity(x, known, key)[:2]


def test_two_keys_by_identity_that_come_in_as_one():
    def program(x, a, b):
        return {id(a): x, id(b): x + 1}

    def length(x, a, b):
        return len(program(x, a, b)), x + 1

    check(length, make=lambda: (torch.ones(2), [1], [1]), changed=lambda: (lambda xs: (torch.ones(2), xs, xs))([1]), graphs=1)


def test_set_of_identities():
    def program(x, a, number):
        return number in {id(a)}, x + 1

    a, x = [1], torch.ones(2)
    compiled = jit.compile(program, backend="eager")
    assert [compiled(x, a, number)[0] for number in (id(a), 3, id(x))] == [True, False, False]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_iterator_is_copied_where_it_stands(copied):
    """Its class has no instances of its own making, but says how one is made anew."""
    def program(x, items):
        given, made = iter(items), iter([x, x + 1])
        next(given)
        next(made)
        return [list(each) for each in (copied(given), copied(made), given, made)]

    compiled = jit.compile(program)
    x, items = torch.ones(2), [1, 2, 3]
    for _ in range(2):
        given, made, *rest = compiled(x, items)
        assert given == rest[0] == [2, 3] and torch.equal(made[0], x + 1) and torch.equal(rest[1][0], x + 1)
    it = iter(items)
    next(it)
    assert list(jit.compile(lambda x, it: (x + 1, copied(it)))(x, it)[1]) == [2, 3]


def test_a_generator_is_not_copied():
    def program(x):
        try:
            copy.deepcopy([(y for y in [x])])
        except TypeError as error:
            return str(error)

    check(program, torch.ones(2))
