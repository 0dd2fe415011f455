"""`if` and `while` on tensors: both sides are in the graph where they only compute; what else they do breaks it."""
import itertools
import sys

import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import COUNTING, Counting, check, tensors

(X,) = tensors(3, 4)
CHANGED = [(-X,), (X * 0,), (X * 10,), (X.abs() + 1,)]
BACKENDS = ("eager", "aot_eager", "default")
LAYERS = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
HISTORY = []
#: Read by a side of a branch first.
TABLE, OTHER = torch.zeros(3, 4), torch.ones(2, 3, 4)
COUNT = 0


def two(x):
    if x.sum() > 0:
        x = x * 2
    else:
        x = x - 1
    return x + 1


def one_sided(x):
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    return y, x


def expression(x):
    return (x * 2 if x.mean() > 0 else x + 3).sin()


def returned(x):
    if x.sum() > 0:
        return x * 2
    y = x + 1
    return y.exp()


def many_returned(x):
    if x.sum() > 10:
        return x * 2
    if x.max() > 1:
        return x * 3
    if x.min() < -1:
        return x * 4
    return x * 5


def both(x):
    if x.sum() > -1000 and x.max() < 5 or x.min() > 3:
        return x + 1, x
    return x * 2, x


def inverted(x):
    if not x.sum() > 0:
        x = x - 1
    return x * 2


def nested(x):
    if x.sum() > 0:
        if x.max() > 1:
            x = x + 1
        else:
            x = x + 2
    elif x.min() < -1:
        x = x + 3
    return x * 2


def two_results(x):
    if x.sum() > 0:
        a, b = x * 2, (x + 1, 3)
    else:
        a, b = x - 1, (x * 4, 3)
    return a, b


def one_of_two(x):
    y, z = x + 1, x * 2
    w = y if x.sum() > 0 else z
    return w * 2, y, z


def handed_on(x):
    y, z = x + 1, x * 2
    w = y if x.sum() > 0 else z
    return w, y, z


def itself(x):
    if x.sum() > 0:
        x = x * 2
    return x


def in_a_callee(x):
    def step(t):
        if t.sum() > 0:
            return t + 1
        return t - 1

    return step(x) + step(-x)


def in_a_loop(x):
    for scale in (1, 2, 3):
        if x.sum() * scale > 1:
            x = x * 0.5
        else:
            x = x + scale
    return x


def in_a_with(x):
    with torch.no_grad():
        if x.sum() > 0:
            x = x + 1
        y = x * 2
    return y, torch.is_grad_enabled()


def in_a_try(x):
    try:
        if x.sum() > 0:
            x = x + 1
        else:
            x = x * 2
    finally:
        x = x + 5
    return x


def draws(x):
    if x.sum() > 0:
        x = F.dropout(x, 0.5)
    else:
        x = x + torch.rand(4)
    return x + torch.rand(4)


def forgotten(x):
    if x.sum() > 0:
        twice = x * 2
        y = twice + 1
    else:
        y = x - 1
    return y


def writes_its_own(x):
    if x.sum() > 0:
        y = x * 2
        y.add_(1)
        y[0] = 3
    else:
        y = x.clone()
        y -= 2
    return y * 2


def loops_inside(x):
    if x.sum() > 0:
        for scale in range(3):
            x = x * scale + 1
    else:
        for scale in itertools.count(1):
            x = x + scale
            if scale > 2:
                break
    return x + 1


def catches_inside(x):
    if x.sum() > 0:
        try:
            y = x * {}["none"]
        except KeyError:
            y = x + 2
    else:
        y = x + 1
    return y


def while_(x):
    x = x.abs() + 1
    while x.sum() < 100:
        x = x * 1.5
    return x + 1


def while_of_an_argument(x):
    while x.abs().sum() < 100:
        x = x * 1.5 + 1
    return x * 2


def while_true(x):
    x = x.abs() + 1
    while True:
        x = x * 2
        if x.sum() > 50:
            break
        x = x + 1
    return x


def while_of_two(x):
    low, high = x.abs() * 0, x.abs() + 4
    while (high - low).max() > 0.01:
        middle = (low + high) / 2
        below = middle * middle < 2
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return low, high


def while_with_a_branch(x):
    x = x.abs() + 1
    while x.sum() < 100:
        if x.max() > 5:
            x = x + 2
        else:
            x = x * 1.5
    return x


def while_in_while(x):
    x = x.abs() + 1
    while x.sum() < 1000:
        while x.max() < 5:
            x = x + 1
        x = x * 2
    return x


def reads_on_one_side(x, y=X + 1, z=X * 3, *, unread=X):
    if x.sum() > 0:
        x = x + y[0]
    else:
        x = x * 2
    return x * 2, y, z


# --- numbers that are read from tensors
def item(x):
    return x * 2 if x.sum().item() > 0 else x + 1


def item_of_a_mask(x):
    return x * 2 if (x > 0).all().item() else x + 1


def bool_called(x):
    return x * 2 if bool(x.sum() > 0) else x + 1


def a_float(x):
    loss = float(x.sum())
    if loss > 1:
        x = x / loss
    return x


def item_inverted(x):
    if not x.sum().item() > 0:
        x = x * 3
    return x + 1


def while_item(x):
    x = x.abs() + 1
    while x.sum().item() < 100:
        x = x * 1.5
    return x


def while_true_item(x):
    x = x.abs() + 1
    while True:
        x = x * 1.5
        if x.sum().item() > 100:
            break
    return x


def two_items(x):
    return x * 2 if x.sum().item() > 0 and x.max().item() < 5 else x - 1


def an_int(x):
    n = int((x > 0).sum())
    return x * n if n > 3 else x - n


def an_int_itself(x):
    n = (x > 0).sum().item()
    if n:
        return x / n
    return x


ONE_GRAPH = [
    two, one_sided, expression, returned, many_returned, both, inverted, nested, two_results, one_of_two, handed_on, itself,
    in_a_callee, in_a_loop, in_a_with, in_a_try, draws, forgotten, writes_its_own, loops_inside, catches_inside, while_,
    while_of_an_argument, while_true, while_of_two, while_with_a_branch, while_in_while,
    item, item_of_a_mask, bool_called, a_float, item_inverted, while_item,
    while_true_item, two_items, an_int, an_int_itself, reads_on_one_side,
]


@pytest.mark.sampled(9)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, X, changed=CHANGED, graphs=1 if backend == "eager" else None, backend=backend, tolerance=(1e-5, 1e-5))


# --- with gradients ---------------------------------------------------------------------------------------------------
def trained(x):
    h = LAYERS[0](x).relu()
    if h.sum() > 1:
        h = LAYERS[1](h)
    else:
        h = LAYERS[1](h) * 2
    return h.square().sum()


def one_or_the_other(x):
    """The layer of the other side has no gradient at all."""
    return LAYERS[0](x).sum() if x.sum() > 0 else LAYERS[1](x).sum()


def limited(x):
    loss = LAYERS[0](x).square().sum()
    if loss > 1:
        loss = loss * 0.5
    return loss


def repeated(x):
    h = LAYERS[0](x).abs() + 1
    while h.sum() < 200:
        h = h * 1.5
    return h.sum()


def gradients(loss, x):
    for layer in LAYERS:
        layer.zero_grad()
    loss.backward()
    return [layer.weight.grad for layer in LAYERS]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [trained, one_or_the_other, limited, repeated], ids=lambda program: program.__name__)
def test_gradients(program, backend):
    check(
        program, X, changed=CHANGED, graphs=1 if backend == "eager" else None, backend=backend, then=gradients,
        tolerance=(1e-4, 1e-4),
    )


# --- what must break, or be right all the same ------------------------------------------------------------------------
def other_shapes(x):
    return x[0] if x.sum() > 0 else x


def other_dtypes(x):
    return x.double() if x.sum() > 0 else x * 1


def a_number(x):
    scale = 2 if x.sum() > 0 else 3
    return x * scale


def a_counter(x):
    x, turns = x.abs() + 1, 0
    while x.sum() < 100:
        x = x * 1.5
        turns += 1
    return x, turns


def appends(x):
    found = []
    if x.sum() > 0:
        found.append(x * 2)
    return found, x + 1


def writes_an_attribute(x):
    class Box:
        pass

    box = Box()
    box.value = x
    if x.sum() > 0:
        box.value = x * 2
    return box.value + 1


def writes_a_global(x):
    global COUNT
    if x.sum() > 0:
        COUNT += 1
        x = x + 1
    return x * 2, COUNT


def writes_outside(x):
    y = x * 2
    if x.sum() > 0:
        y.add_(1)
    return y + 1


def writes_an_input(x):
    if x.sum() > 0:
        x.mul_(2)
    return x + 1


def prints(x):
    if x.sum() > 0:
        print("positive")
    return x + 1


def takes_a_step(x):
    numbers = iter([1, 2, 3])
    if x.sum() > 0:
        x = x * next(numbers)
    else:
        x = x + 1
    return x * next(numbers)


def takes_a_step_of_a_generator(x):
    numbers = (n * 2 for n in range(1, 5))
    if x.sum() > 0:
        x = x * next(numbers)
    else:
        x = x + next(numbers)
    return x * next(numbers)


def changed_after(x):
    y = x + 1
    z = y * 2 if x.sum() > 0 else y
    z.add_(1)
    return y, z


def changed_beside(x):
    y = x + 1
    z = y * 2 if x.sum() > 0 else y
    y.add_(1)
    return y, z * 1


def changed_by_a_view(x):
    y = x + 1
    z = y * 2 if x.sum() > 0 else y
    z[0] = 5
    return y, z * 1


def is_it(x):
    y = x + 1
    z = y * 2 if x.sum() > 0 else y
    return z is y, y is z, z is x, z * 1


def as_a_key(x):
    y = x + 1
    z = y * 2 if x.sum() > 0 else y
    return len({y: 1, z: 2}), id(y) == id(z)


def counts_its_versions(x):
    y = x + 1
    y += 1
    z = y * 2 if x.sum() > 0 else y
    return z._version, z + 1


def raises(x):
    if x.sum() > 0:
        raise ValueError("positive")
    return x + 1


def raises_in_a_branch(x):
    if x.sum() > 0:
        x = x[:, torch.tensor([7])] + x
    return x + 1


def not_there(x):
    if x.sum() > 0:
        y = x * 2
    return y + 1


def differentiates(x):
    w = x.detach().clone().requires_grad_()
    y = (w * 2).sum() if x.sum() > 0 else (w * w).sum()
    return torch.autograd.grad(y, w)


def a_view(x):
    y = x[0] if x.sum() > 0 else x[1]
    return y + 1


def two_names(x):
    if x.sum() > 0:
        y = z = x * 2
    else:
        y, z = x + 1, x + 2
    return y, z


def swapped(x):
    y, z = x.abs() + 1, x.abs() + 2
    while y.sum() < 100:
        y, z = z * 1.5, y
    return y, z


def a_list_that_holds_itself(x):
    held = [x]
    held.append(held)
    if x.sum() > 0:
        held = None
        x = x + 1
    return x


def writes_what_it_reads_first(x):
    if x.sum() > -100:
        TABLE.add_(1)
    return x + 1, TABLE


def views_of_what_it_reads_first(x):
    y = TABLE.t() if x.sum() > 0 else OTHER[1].t()
    y.add_(1)
    return y, TABLE, OTHER


def deleted(x):
    class Loud:
        def __del__(self):
            HISTORY.append("gone")

    loud = Loud()
    if x.sum() > 0:
        loud = None
        x = x + 1
    HISTORY.append("after")
    return x, list(HISTORY)


def appends_to_what_it_makes(x):
    if x.sum() > 0:
        parts = [x * 2]
        parts.append(x + 1)
        y = torch.cat(parts)
    else:
        y = torch.cat([x, x])
    return y


OTHERS = [
    other_shapes, other_dtypes, a_number, a_counter, appends, writes_an_attribute, writes_a_global, writes_outside,
    writes_an_input, prints, takes_a_step, takes_a_step_of_a_generator, changed_after, changed_beside, changed_by_a_view,
    is_it, as_a_key, counts_its_versions, raises, raises_in_a_branch, not_there, differentiates, a_view, two_names, swapped,
    writes_what_it_reads_first, views_of_what_it_reads_first, deleted, a_list_that_holds_itself, appends_to_what_it_makes,
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_the_same(program, backend):
    HISTORY.clear()
    check(program, X, changed=CHANGED, backend=backend, tolerance=(1e-5, 1e-5))


def test_only_one_side_runs():
    """The other one would never end."""
    def program(x):
        if x.sum() > 0:
            while x.sum() > 0:
                x = x + 1
        else:
            x = x - 1
        return x

    for backend in BACKENDS:
        f = jit.compile(program, backend=backend, fullgraph=COUNTING)
        assert torch.equal(f(-torch.ones(3)), -2 * torch.ones(3))


def test_both_sides_are_compiled_once():
    counter = Counting()
    f = jit.compile(two, backend=counter)
    for x in (X, -X, X * 3, X - 1):
        assert torch.equal(f(x), two(x))
    counter.expect(1)


@pytest.mark.skipif(not COUNTING, reason="counts what one graph became")
def test_kernels_of_sides_are_shown(tmp_path):
    with jit.dump(str(tmp_path)):
        f = jit.compile(two)
        f(X)
    (entry,) = f.debug_state().frames[0].entries
    end = [] if sys.version_info >= (3, 12) else ["inference of to_add"]  # these have a short end once for each side
    assert [graph.name for graph in entry.graphs] == [
        "inference of to_gt", "inference of inner_0", "inference of inner_1", *end
    ]
    written = {path.name for path in tmp_path.rglob("*.c")}
    assert {"inner_0_forward_kernels.c", "inner_1_forward_kernels.c"} <= written, written
