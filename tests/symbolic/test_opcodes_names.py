"""Locals, globals, cells, attributes, imports."""
import math
import types

import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)
SCALE = 2.5
OFFSETS = [1, 2, 3]
weight = torch.ones(4)
settings = types.SimpleNamespace(scale=3, inner=types.SimpleNamespace(shift=1))
written = 0
fresh_name: object


@same_as_eager(graphs=1)
def test_global_constant(x):
    return x * SCALE + len(OFFSETS)


@same_as_eager(graphs=1)
def test_global_tensor(x):
    return x * weight


@same_as_eager(graphs=1)
def test_global_list_items(x):
    for o in OFFSETS:
        x = x + o
    return x


@same_as_eager(graphs=1)
def test_global_object_attributes(x):
    return x * settings.scale + settings.inner.shift


@same_as_eager(graphs=1)
def test_global_is_written(x):
    global written
    written = x.shape[0]
    written += 1
    return x + written


@same_as_eager(graphs=1)
def test_global_is_born_and_deleted(x):
    global fresh_name
    fresh_name = x + 1
    y = fresh_name * 2
    del fresh_name
    return y


@same_as_eager(graphs=1)
def test_global_is_born(x):
    global fresh_name
    fresh_name = [x + 1]
    return fresh_name[0] * 2


@same_as_eager
def test_missing_global(x):
    y = x + 1
    return y + not_defined_anywhere  # noqa: F821


@same_as_eager
def test_missing_attribute_of_a_module(x):
    y = x + 1
    return torch.no_such_function(y)


@same_as_eager
def test_missing_attribute_of_a_tensor(x):
    return (x + 1).no_such_attribute


@same_as_eager(graphs=1)
def test_builtin_names(x):
    return x + max(1, min(2, len(x.shape))), isinstance(x, torch.Tensor), abs(-3)


@same_as_eager(graphs=1)
def test_shadowed_builtin(x):
    len = lambda value: 7  # noqa: E731
    return x + len(x)


@same_as_eager(graphs=1)
def test_module_aliases(x):
    return F.relu(x) + torch.nn.functional.gelu(x) * math.pi


@same_as_eager(graphs=1)
def test_import_inside(x):
    import math as m

    from torch import sin
    from torch.nn import functional as G
    return G.relu(sin(x)) * m.e


@same_as_eager(graphs=1)
def test_import_of_a_submodule_inside(x):
    import torch.nn.functional
    return torch.nn.functional.silu(x)


@same_as_eager
def test_import_that_fails(x):
    y = x + 1
    import no_such_module_at_all
    return no_such_module_at_all.f(y)


@same_as_eager
def test_import_that_fails_is_handled(x):
    try:
        import no_such_module_at_all as m
    except ImportError:
        m = None
    return x + 1 if m is None else x


def test_closure_constant_and_tensor():
    k, t = 3, torch.ones(4)
    check(lambda x: x * k + t, X, graphs=1, changed=[(Y,)])


def test_closure_cell_is_written():
    n = 0

    def program(x):
        nonlocal n
        n += 1
        return x + n
    check(program, X, graphs=1)


def test_two_closures_share_a_cell():
    total = [0]

    def add(k):
        total[0] += k
        return total[0]

    def program(x):
        return x + add(1) + add(2)
    check(program, X, graphs=1)


@same_as_eager(graphs=1)
def test_cell_of_its_own(x):
    n = 0

    def bump(k):
        nonlocal n
        n += k
        return n
    return x + bump(1) * bump(2), n


@same_as_eager(graphs=1)
def test_cell_argument(x, y):
    def inner():
        return x + y
    x = x * 2
    return inner()


@same_as_eager(graphs=1)
def test_closures_made_in_a_loop_see_the_last_value(x):
    fs = [lambda t: t + i for i in range(3)]
    return [f(x) for f in fs]


@same_as_eager(graphs=1)
def test_closures_made_in_a_loop_with_defaults(x):
    fs = []
    for i in range(3):
        fs.append(lambda t, i=i: t + i)
    return [f(x) for f in fs]


@same_as_eager
def test_cell_that_is_still_empty(x):
    def inner():
        return x + late
    y = inner()
    late = 1
    return y + late


@same_as_eager(graphs=1)
def test_closure_that_is_returned(x):
    n = x.shape[0]
    state = [n]

    def later(t):
        state.append(t.shape)
        return t + n + x
    return later, state, later(x)


@same_as_eager(graphs=1)
def test_recursive_closure(x):
    def go(t, n):
        return t if n == 0 else go(t + n, n - 1)
    return go(x, 4)


@same_as_eager(graphs=1)
def test_three_levels_of_cells(x):
    a = 1

    def one():
        b = 2

        def two():
            nonlocal a, b
            a += 1
            b += a
            return x + a + b
        return two() + two(), b
    return one(), a


@same_as_eager(graphs=1)
def test_delete_of_a_cell(x):
    y = x + 1

    def use():
        return y * 2
    z = use()
    del y
    return z


class Box:
    kind = "box"

    def __init__(self, value):
        self.value = value


@same_as_eager(graphs=1, make=lambda: (Box(torch.ones(3)),))
def test_attributes_are_read_and_written(box):
    box.value = box.value + 1
    box.extra = box.value * 2
    box.count = 3
    return box.kind, getattr(box, "missing", None), hasattr(box, "extra")


@same_as_eager(graphs=1, make=lambda: (Box(torch.ones(3)),))
def test_attribute_is_deleted(box):
    y = box.value + 1
    del box.value
    return y, hasattr(box, "value")


@same_as_eager(make=lambda: (Box(torch.ones(3)),))
def test_deleted_attribute_is_missing(box):
    y = box.value + 1
    del box.value
    return y, box.value


@same_as_eager(graphs=1, make=lambda: (Box(Box(Box(torch.ones(3)))),))
def test_long_attribute_path(box):
    box.value.value.value = box.value.value.value * 2
    inner = box.value
    inner.name = "inner"
    return inner.value.value


@pytest.mark.parametrize("name", ["shape", "dtype", "device", "ndim", "T", "mT", "requires_grad", "is_leaf", "layout", "grad",
                                  "grad_fn", "data", "is_cuda", "itemsize", "nbytes", "is_sparse", "is_meta", "real"])
def test_tensor_attribute(name):
    check(lambda x: (x + 1, getattr(x, name)), X, graphs=None if name == "grad_fn" else 1)


@same_as_eager
def test_globals_and_locals_as_dictionaries(x):
    return x + globals()["SCALE"], "x" in locals()


@same_as_eager(graphs=1)
def test_function_attributes(x):
    def f(t):
        return t + f.k
    f.k = 3
    return f(x), f.__name__


@same_as_eager(graphs=1)
def test_annotated_locals(x):
    n: int = 3
    y: torch.Tensor = x + n
    z: "unknown"  # noqa: F821, F842
    return y


# --- locals() more than once: before Python 3.13 it is one dict, which each call brings up to date -----------------------
def asked_twice(x):
    before = sorted(locals())
    y = x + 1
    return y, before, sorted(locals())


def one_dict(x):
    first = locals()
    y = x + 1
    count = len(first)
    return y, first is locals(), sorted(first), count, first.get("y")


def names_that_go(x):
    y = 1
    first = locals()
    first["own"] = 5
    del y
    z = 3
    vars()
    return x + 1, "y" in first, first["own"], first.get("z"), z, list(first)


def asked_in_a_loop(x):
    found = []
    for i in range(3):
        found += [len(locals()), locals()["i"]]
    return x + 1, found


def names_of_cells(x):
    n = 1

    def more():
        nonlocal n
        n += 1
    first = locals()
    more()
    before = first["n"]
    locals()
    return x * 2, before, first["n"]


def names_in_a_dict_that_leaves(x):
    first = locals()
    y = x * 2
    locals()
    return first, y


def names_of_an_inlined_function(x):
    def inner(y):
        first = dict(locals())
        z = y + 1
        return first["y"], sorted(locals()), z
    return inner(x), inner(x * 2)


@pytest.mark.parametrize("program", [
    asked_twice, one_dict, names_that_go, asked_in_a_loop, names_of_cells, names_in_a_dict_that_leaves,
    names_of_an_inlined_function,
], ids=lambda program: program.__name__)  # fmt: skip
def test_locals_more_than_once(program):
    check(program, torch.ones(3), graphs=1)


def asked_on_both_sides_of_a_break(x):
    first = locals()
    y = x + 1
    jit.graph_break()
    z = y * 2
    return z, first is locals(), sorted(first)


def brought_up_to_date_by_eval(x):
    first = locals()
    y = 1
    return x + eval("y"), "y" in first, y


def asked_by_a_generator(x):
    def inner():
        first = locals()
        yield len(first)
        y = 2
        yield first is locals(), y
    running = inner()
    return x + next(running), list(running)


@pytest.mark.parametrize("program", [
    asked_on_both_sides_of_a_break, brought_up_to_date_by_eval, asked_by_a_generator,
], ids=lambda program: program.__name__)  # fmt: skip
def test_locals_that_only_the_frame_knows(program):
    check(program, torch.ones(3))
