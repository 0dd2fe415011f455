"""Sides of branches on tensors that change something of Python's: one of two ways is eager code's, so the graph breaks."""

import collections
import io
import itertools
import random

import pytest
from torch import nn

from tests.differential import check, tensors

(X,) = tensors(3, 4)


A, B = nn.Linear(4, 4), nn.Linear(4, 4)


def set_of_objects(x):
    s = {A, B}
    t = set(s)
    if x.sum() > 0:
        t.discard(A)
    return x + 1, len(t)


def set_of_numbers(x):
    s = {1, 2}
    if x.sum() > 0:
        s.add(3)
    return x + 1, s


def rotated(x):
    q = collections.deque([1, 2])
    if x.sum() > 0:
        q.rotate(1)
    return x + 1, q


def default_made(x):
    d = collections.defaultdict(list)
    if x.sum() > 0:
        d["a"]
    return x + 1, d


def counter(x):
    c = collections.Counter()
    if x.sum() > 0:
        c["a"] += 1
    return x + 1, c


def popped(x):
    d = {"a": 1}
    if x.sum() > 0:
        d.pop("a")
    return x + 1, d


def drawn(x):
    random.seed(3)
    y = x * random.random() if x.sum() > 0 else x
    return y, random.random()


def counted(x):
    n = 0
    def inc():
        nonlocal n
        n += 1
    if x.sum() > 0:
        inc()
    return x + 1, n


def attribute(x):
    class P: pass
    p = P()
    p.v = 1
    if x.sum() > 0:
        p.v = 2
    return x + 1, p.v


def generator(x):
    g = (i for i in range(5))
    next(g)
    if x.sum() > 0:
        next(g)
    return x + 1, list(g)


def zipped(x):
    it = zip([1,2,3],[4,5,6])
    if x.sum() > 0:
        next(it)
    return x + 1, list(it)


def items_of_a_dict(x):
    it = iter({"a":1,"b":2}.items())
    if x.sum() > 0:
        next(it)
    return x + 1, list(it)


def backwards(x):
    it = reversed([1,2,3])
    if x.sum() > 0:
        next(it)
    return x + 1, list(it)


def of_itertools(x):
    it = itertools.chain([1,2],[3])
    c = itertools.count()
    cy = itertools.cycle([1,2])
    if x.sum() > 0:
        next(it)
        next(c)
        next(cy)
    return x + 1, list(it), next(c), next(cy)


def attribute_of_a_tensor(x):
    y = x * 2
    if x.sum() > 0:
        y.foo = 3
    return y, hasattr(y, "foo")


def mode_of_a_module(x):
    m = nn.Dropout(0.5)
    if x.sum() > 0:
        m.eval()
    return m(x * 0), m.training


def text_written(x):
    f = io.StringIO()
    if x.sum() > 0:
        f.write("a")
    return x + 1, f.getvalue()


def bytes_written(x):
    b = bytearray(b"abc")
    if x.sum() > 0:
        b[0] = 120
    return x + 1, b


def deleted(x):
    z = 3
    if x.sum() > 0:
        del z
    try: return x + 1, z
    except UnboundLocalError as e: return x, str(e)


def while_an_error_is_handled(x):
    try:
        try: {}["a"]
        except KeyError as e:
            if x.sum() > 0:
                x = x + 1
            raise ValueError("v")
    except ValueError as e: return x, repr(e.__context__)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "program",
    [
        set_of_objects, set_of_numbers, rotated, default_made, counter, popped, drawn, counted, attribute,
        generator, zipped, items_of_a_dict, backwards, of_itertools, attribute_of_a_tensor,
        mode_of_a_module, text_written, bytes_written, deleted, while_an_error_is_handled,
    ],
    ids=lambda program: program.__name__,
)
def test_the_same(program):
    check(program, X, changed=[(-X,), (X * 10,)])
