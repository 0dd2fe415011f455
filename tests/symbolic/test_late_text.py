"""Text of what is known only when the graph has run: of tensors, numbers that are read from them, addresses."""
import collections
import types

import pytest
import torch

import jit
from tests.differential import COUNTING, Counting, check, same_as_eager, tensors


def numbers(x):
    loss = x.sum()
    value = loss.item()
    return f"loss {value:.3f}", f"{value!r:>12}|", "%6.2f %s" % (value, 3), "{:.1e} {}".format(value, "a"), str(value)


def tensors_shown(x):
    y = x * 2
    text = f"{y} {y.sum()} {y.sum():.2f}"
    return text, str(y), y.__repr__(), y.__format__(""), repr([y, 1]), "%s" % y, "{}".format({"y": y}), y + 1


def as_it_was(x):
    y = x + 1
    before = str(y)
    y.mul_(3)
    x.add_(1)
    return before, f"{x} {y}"


def gradients_shown(x, w):
    y = w * x
    with torch.no_grad():
        z = w + x
    return f"{y}", str(w), str(z), f"{y.detach()}", repr((y * 2).sum())


def text_of_text(x):
    text = f"{x.sum().item():.3f}"
    line = "a " + text + " b"
    line += text
    return line, ", ".join([text, "x", line]), text.rjust(20), f"{text:>20}", repr(text), line.upper(), "%10s|" % text


class Shown:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Shown({self.value})"


class Plain:
    pass


def objects(x):
    shown = Shown(x * 2)
    return str(shown), f"{[shown]}", "%s and %s" % (shown, 1), repr({"k": (shown, x.sum().item())})


def kinds(x, n, flag):
    return f"{x.sum()} {n.sum()} {flag.any()} {n.sum():d} {n.max().item():05d} {flag}"


def exceptions(x):
    try:
        raise ValueError(f"bad {x.sum().item()}")
    except ValueError as error:
        return str(error), x + 1


@pytest.mark.parametrize("program", [numbers, tensors_shown, as_it_was, text_of_text, objects, exceptions],
                         ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_text(program, backend):
    check(program, tensors(4)[0], changed=[(tensors(4, seed=3)[0],)], graphs=1, backend=backend)


@pytest.mark.skipif(not COUNTING, reason="after a break the text of a tensor names the node of the compiled graph")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    w = torch.randn(4).requires_grad_()
    check(gradients_shown, tensors(4)[0], w, changed=[(tensors(4, seed=3)[0], w)], graphs=1, backend=backend)


def test_parameters():
    check(lambda x, w: (str(w), f"{w}", x + 1), tensors(4)[0], torch.nn.Parameter(torch.ones(2)), graphs=1)


def test_kinds():
    check(kinds, tensors(3)[0], torch.tensor([3, 4]), torch.tensor([True, False]), graphs=1)


def test_addresses():
    plain = Plain()
    compiled = jit.compile(lambda x, plain: (f"{plain}", Plain(), x + 1), backend="eager", fullgraph=True)
    assert compiled(torch.ones(2), plain)[0] == repr(plain)
    made = jit.compile(lambda x: ((p := Plain()), f"{p}", x + 1), backend="eager", fullgraph=True)(torch.ones(2))
    assert made[1] == repr(made[0])


@same_as_eager(graphs=2)
def test_what_depends_on_the_text_breaks(x=tensors(4)[0]):
    text = f"{x.sum().item():.3f}"
    return x + len(text)


@same_as_eager(graphs=1)
def test_wrong_specifications(x=tensors(4)[0]):
    found = []
    for spec in ("q", "d"):
        try:
            found.append(f"{x.sum().item():{spec}}")
        except ValueError as error:
            found.append(str(error))
    try:
        found.append(f"{x:.3f}")
    except TypeError as error:
        found.append(str(error))
    return found


def test_a_new_value_is_no_new_graph():
    counter = Counting()
    compiled = jit.compile(lambda x, rate: (x * rate, f"rate {rate:.4f}"), backend=counter)
    texts = [compiled(torch.ones(2), 0.1 * step)[1] for step in range(1, 6)]
    assert texts == [f"rate {0.1 * step:.4f}" for step in range(1, 6)]
    counter.expect(2)


def test_sizes_stay_symbols():
    counter = Counting()
    compiled = jit.compile(lambda x: (x + 1, f"{x.shape} {x.shape[0]:>5} {len(x)}"), backend=counter, dynamic=True)
    for size in (3, 4, 7):
        assert compiled(torch.ones(size, 2))[1] == f"{torch.Size([size, 2])} {size:>5} {size}"
    counter.expect(1)


def test_the_default_dtype_is_that_of_the_time():
    def program(x):
        print(x, [x * 2])
        first = "%s" % x
        torch.set_default_dtype(torch.float64)
        print(x, first)
        torch.set_default_dtype(torch.float32)
        return x + 1

    check(program, torch.ones(2), graphs=1)


@pytest.mark.parametrize("make", [types.SimpleNamespace, collections.deque, collections.OrderedDict, object, list])
def test_formats_that_classes_do_not_know(make):
    """Errors name a class that is written in C with its module."""
    def program(x):
        try:
            return format(make(), ">5"), x
        except TypeError as error:
            return str(error), x + 1

    check(program, torch.ones(2))
