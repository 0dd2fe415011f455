"""The text of what the compiler made does what its bytecode does, and what has no text says so."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import deque
from types import FunctionType

import pytest
import torch
from bytecode import BinaryOp

from codegen.readable import readable
from codegen.residual.emitter import Emitter
from jit import _C, backends
from jit.api import door_for
from jit.compiler import Compiler
from jit.config import config
from tests.differential import check, tensors

#: Compilers of programs whose text runs.
MADE = []


def as_text(fn, backend="eager", fullgraph=False, dynamic=None, mode=None, options=None):
    made = Compiler(backends.resolve(backend, mode), config.with_options(options), False, dynamic, as_text=True)
    MADE.append(made)
    return door_for(made, fn)


def runs_as_text(fn, *args, breaks=0, **options):
    """The text in place of the bytecode: same results and effects. `breaks`: how many records at least say that they broke."""
    MADE.clear()
    check(fn, *args, compiler=as_text, traceback="other", **options)
    records = [record for made in MADE for record in made.records if record.generated is not None]
    assert records
    assert sum(bool(record.breaks) for record in records) >= breaks
    for record in records:
        text = readable(record.generated, record.notes).text
        assert text.startswith("def "), text


class Continued:
    """The door of a continuation that is never compiled: its text runs."""

    nested = True

    def __init__(self, code, namespace, name):
        self.code = code
        made = readable(code, nested=self.nested)
        assert made.runs, made.text
        self.function = lambda closure: made.function(namespace, closure)

    def __call__(self, closure, *args):
        function = self.function(closure)
        cache = _C.Cache(function.__code__, 1)
        door = _C.ResumeDoor(function.__code__, function.__globals__, cache, lambda *_: None)
        return door(function.__closure__, *args)


class Uncompiled(Compiler):
    """A compiler of first frames alone."""

    def _continuation_door(self, code, namespace, name):
        return Continued(code, namespace, name)


def continued_as_text(fn, backend="eager", fullgraph=False, dynamic=None, mode=None, options=None):
    return door_for(Uncompiled(backends.resolve(backend, mode), config.with_options(options), False, dynamic), fn)


def itself_as_text(fn, nested=True, **options):
    made = readable(fn.__code__, nested=nested)
    assert made.runs, made.text
    assert nested or "while True:" in made.text
    run = made.function(fn.__globals__, fn.__closure__)
    run.__defaults__, run.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    return run


def itself_as_steps(fn, **options):
    return itself_as_text(fn, nested=False)


def unknown():
    return sys.getswitchinterval() > 0


X, W = tensors(3, 3, count=2)
LOG = []
TABLE = {"seen": 0}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        print("half way", self.calls)
        unknown()
        self.last = y.detach()
        return y.relu() if self.training else y


def loop_with_a_break(x):
    for i in range(3):
        x = x + i
        unknown()
        x = x * 2
    return x


def nested_loops(x, w):
    found = []
    for i in range(2):
        for k in (1.0, 2.0):
            if i == 1 and k == 2.0:
                continue
            x = x + k
            unknown()
            found.append((i, k))
        x = x @ w
    else:
        found.append("done")
    return x, found


def while_loop(x):
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            unknown()
            continue
        x = x * n
        unknown()
    return x, n


def branch_on_a_tensor(x):
    y = x.sum()
    if y > 0 and x.max() > 100:
        return x - 1, "large"
    elif y < -100:
        return x, "small"
    return x + y, "other"


def with_no_grad(x, w):
    with torch.no_grad():
        y = x @ w
        unknown()
        y = y + 1
    return y * 2


def with_two(x):
    with contextlib.nullcontext(3) as n, contextlib.suppress(ValueError) as nothing:
        x = x + n
        unknown()
        raise ValueError("gone")
    return x, nothing


def caught(x):
    try:
        x = x.sin()
        unknown()
        {}["missing"]
    except (TypeError, KeyError) as error:
        LOG.append(repr(error))
        x = x + 1
    except ValueError:
        x = x - 1
    else:
        x = x * 3
    finally:
        LOG.append("finally")
    return x


def caught_outside(x):
    try:
        unknown()
        int("no number")
    except ValueError:
        try:
            unknown()
            x = x + 1
            raise
        except ValueError as error:
            return x, str(error)


def raises(x):
    LOG.append(x.sum())
    unknown()
    LOG.append("last")
    raise ValueError(f"of {len(LOG)}")


def one_round(x):
    for n in range(3):
        if x.sum() > 1000:
            break
        unknown()
        return x + n
    for n in ():
        raise KeyError(n)
    return x


class Countdown:
    """An iterable whose iterator can't be iterated over."""

    def __iter__(self):
        return Counting()


class Counting:
    def __init__(self):
        self.n = 3

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


def raise_again(text):
    LOG.append(text)


def odd_names(x):
    for n in Countdown():
        unknown()
        x = x + n
    if unknown():
        raise_again("did not")
    return x


def closures(x):
    total = 0

    def add(n):
        nonlocal total
        total += n
        return x * n

    y = add(2)
    unknown()
    y = y + add(3)
    return y, total, add


def generators(x):
    def rows():
        for row in x:
            yield row * 2

    found = []
    for row in rows():
        unknown()
        found.append(row.sum())
    return found, list(enumerate(found))


def effects_on_containers(x):
    items, table, seen, last = [x], {"x": x, 1: 2}, {1, 2}, deque([1, 2, 3], 3)
    items.append(x.sin())
    table["y"] = items
    del table[1]
    seen.add(3)
    last.append(4)
    unknown()
    items[0] = x.cos()
    table.update(z=seen)
    last.rotate(1)
    return items, table, seen, last


def effects_on_globals(x):
    global LOG
    TABLE["seen"] += 1
    LOG = [*LOG, x.sum()]
    unknown()
    LOG += [TABLE["seen"]]
    return {**TABLE, "n": len(LOG)}


def hooks(x, w):
    seen = []
    y = x * w
    handle = y.register_hook(lambda grad: seen.append(grad.sum()))
    unknown()
    y.sum().backward()
    handle.remove()
    return seen, w.grad


def prints(x):
    for name, value in {"a": 1, "b": 2.5}.items():
        print(f"{name}={value:>6.2f}", end=";")
        x = x + value
    unknown()
    print(*("one", "two"), **{"sep": "-"})
    return x


def training_step(x):
    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = (model(x) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        unknown()
        losses.append(loss.detach())
    return losses, [parameter.detach() for parameter in model.parameters()]


def comprehensions(x):
    unknown()
    rows = [row * i for i, row in enumerate(x) if i != 1]
    unknown()
    return rows, {i: len(row) for i, row in enumerate(rows)}, {i % 2 for i in range(5)}


def matches(x):
    unknown()
    found = []
    for value in ([1, 2], {"k": 3}, 4, "text"):
        match value:
            case [first, *rest]:
                found.append((first, rest))
            case {"k": inner}:
                found.append(inner)
            case int():
                found.append("int")
            case _:
                found.append(None)
        unknown()
    return x, found


def random_numbers(x):
    y = x + torch.rand(3, 3)
    unknown()
    return y * random.random(), torch.randn(2)


def early_returns(x):
    for i in range(4):
        with contextlib.suppress(KeyError):
            unknown()
            if i == 2:
                return x, i
            x = x + 1
            continue
    return x


def expressions(x, w):
    unknown()
    a, (b, *c) = 1, [2, 3, 4]
    d = a if b > 3 else c or None
    e = 1 < b < 3 and not d
    x[0, 1:] = -w[0, 1:]
    f = lambda n, *, k=2: n * k  # noqa: E731
    unknown()
    return x, [*c, a], {**{"d": d}, "e": e}, f(3), (a, *c), f"{a!r:>3} {b}"


PROGRAMS = {
    loop_with_a_break: (X,), nested_loops: (X, W), while_loop: (X,), branch_on_a_tensor: (X,), with_no_grad: (X, W), with_two: (X,),
    caught: (X,), caught_outside: (X,), raises: (X,), odd_names: (X,), one_round: (X,), closures: (X,), generators: (X,), effects_on_containers: (X,),
    effects_on_globals: (X,), hooks: (X, W.clone().requires_grad_()), prints: (X,), training_step: (X,), comprehensions: (X,),
    matches: (X,), random_numbers: (X,), early_returns: (X,), expressions: (X, W),
}


def many_parameters(x, /, y=2, *rest, scale=3, **named):
    return x * y * scale, rest, named


def only_by_name(x, *, scale=3):
    return x * scale


def yields(x):
    sent = yield x
    LOG.append(sent)
    try:
        for row in x:
            if (yield row.sum()) is not None:
                yield
    except KeyError as error:
        yield repr(error)
    finally:
        LOG.append("done")
    return "the end"


def delegates(x):
    try:
        answer = yield from yields(x)
        yield answer
    except ValueError as error:
        yield from [str(error), x]


def driven(x):
    """Generators of the text and their calls, told what they are asked."""
    found = []
    for make in (DRIVEN[yields], DRIVEN[delegates]):
        for way in ("next", "send", "throw", "close"):
            steps = make(x)
            found += [next(steps), next(steps)]
            with contextlib.suppress(StopIteration, ValueError):
                if way == "throw":
                    found.append(steps.throw(KeyError(1)))
                    found.append(steps.throw(ValueError("thrown")))
                elif way == "close":
                    next(steps)
                    steps.close()
                found += [steps.send(3 if way == "send" else None) for _ in range(5)]
    return found, LOG[-8:]


DRIVEN = {yields: yields, delegates: delegates}


def handlers_in_each_other(x):
    """What a clause raises is handled outside, with its context; bare `raise`; `return` and loops in clauses."""
    found = []
    for n in range(4):
        try:
            try:
                try:
                    found.append([1][n])
                except IndexError as error:
                    found.append(str(sys.exception()))
                    for k in range(2):
                        try:
                            if n == 3:
                                raise
                            {}[k]
                        except KeyError:
                            found.append(repr(sys.exc_info()[1].__context__))
                            continue
                    if n == 2:
                        raise ValueError(n) from None
                    int("no number")
                finally:
                    found.append(repr(sys.exc_info()[1]))
            except ValueError as error:
                found.append((repr(error), repr(error.__context__), error.__suppress_context__))
                if n == 2:
                    raise
        except ValueError:
            found.append(repr(sys.exc_info()[1]))
        except IndexError as error:
            return x, found, repr(error), repr(error.__context__)
        found.append(repr(sys.exc_info()[1]))
    return x, found


def deep(x):
    """More blocks in each other than Python has in text that is made of its bytecode."""
    n = 0
    for a in range(2):
        for b in range(2):
            while n < 9:
                for c in range(2):
                    with contextlib.suppress(KeyError), contextlib.suppress(ValueError):
                        try:
                            n += a + b + c + 1
                            if n % 3 == 0:
                                {}[n]
                        finally:
                            n += 1
    return x + n


OWN = [many_parameters, only_by_name, handlers_in_each_other, deep]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_text_does_what_the_bytecode_does(program):
    runs_as_text(program, *PROGRAMS[program], breaks=1, nodes=False)


@pytest.mark.parametrize("compiler", [itself_as_text, itself_as_steps])
@pytest.mark.parametrize("program", [*PROGRAMS, *OWN], ids=lambda program: program.__name__)
def test_the_text_of_the_program_itself(program, compiler):
    """Not what the text is for, but the same rules read it; as steps where its jumps fit into no statements."""
    check(program, *PROGRAMS.get(program, (X,)), compiler=compiler, traceback="other", nodes=False)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_text_of_continuations(program, nested, monkeypatch):
    monkeypatch.setattr(Continued, "nested", nested)
    check(program, *PROGRAMS[program], compiler=continued_as_text, traceback="other", nodes=False)


def test_the_text_of_a_module():
    runs_as_text(Model(), X, breaks=1, nodes=False)


@pytest.mark.parametrize("nested", [True, False])
def test_the_text_of_generators(nested, monkeypatch):
    expected = driven(X)
    for each in (yields, delegates):
        monkeypatch.setitem(DRIVEN, each, itself_as_text(each, nested=nested))
    found = driven(X)
    assert repr(found) == repr(expected)


def crossed():
    """Two blocks that jump into each other, and each of which may be the first: no statement of Python does that."""
    emit = Emitter("crossed", "crossed", __file__, 1, ["n", "found"])
    one, other, end = emit.label(), emit.label(), emit.label()

    def block(name, then):
        emit.load("found")
        emit.method("append")
        emit.load("n")
        emit.const(name)
        emit.build("tuple", 2)
        emit.call(1)
        emit.pop()
        emit.load("n")
        emit.const(1)
        emit.binary(BinaryOp.SUBTRACT)
        emit.store("n")
        emit.load("n")
        emit.jump_if_false(end)
        emit.jump(then)

    emit.load("n")
    emit.const(5)
    emit.compare(">")
    emit.jump_if_true(other)
    emit.mark(one)
    block("one", other)
    emit.mark(other)
    block("other", one)
    emit.mark(end)
    emit.load("found")
    emit.return_value()
    return FunctionType(emit.code(), {})


@pytest.mark.parametrize("n", [3, 8])
def test_jumps_that_fit_into_no_statements_are_steps(n):
    run = crossed()
    made = readable(run.__code__)
    assert made.runs and "while True:" in made.text, made.text
    assert made.function({})(n, []) == run(n, []) != []


def test_long_code_has_text():
    body = "".join(f"    if x > {n}: x = x + {n}\n" for n in range(520))
    space = {}
    exec(f"def long(x):\n{body}    return x", space)
    made = readable(space["long"].__code__)
    assert made.runs and made.function(space)(3) == space["long"](3)
