"""What the ledger's ancestor knew, kind by kind, and what its notes left for later: each is one graph.

Its kinds: contents of lists and dicts; attributes stored and deleted, of objects from outside and of objects born in the
frame, modules among them; cells and globals; what an autograd function saves; hooks of tensors with and without a handle.
Objects that nobody sees any more are not made. Its notes leave out hooks of intermediates that are no global function,
and their handles."""
import functools
import types
from collections import OrderedDict

import pytest
import torch

import jit
from tests.differential import COUNTING, check, same_as_eager

COUNT = 0


class Thing:
    def __init__(self, value=None):
        self.value = value


class Told(Thing):
    """Its birth can be seen."""
    born = []

    def __init__(self, value):
        self.born.append(1)
        super().__init__(value)


# --- containers and names -------------------------------------------------------------------------------------------
@same_as_eager(graphs=1, make=lambda: (torch.ones(3), [1, 2], [0]))
def test_contents_of_a_list_from_outside(x, items, same):
    items.append(x + 1)
    items[0] = items
    same.extend(items)
    return x * len(items)


@same_as_eager(graphs=1, make=lambda: (torch.ones(3), {"a": 1, "b": 2}))
def test_contents_of_a_dict_from_outside(x, table):
    table["c"] = x + 1
    del table["a"]
    table["b"], table["a"] = table["c"], table
    return x * len(table)


@same_as_eager(graphs=1, make=lambda: (torch.ones(3), *2 * (OrderedDict(a=1),)))
def test_two_names_for_one_container(x, one, other):
    one["b"] = x + 1
    return other["b"] * 2


@same_as_eager(graphs=1)
def test_globals(x):
    global COUNT, ADDED
    COUNT += 1
    ADDED = x * COUNT
    return ADDED + 1


def test_cells_from_outside_and_new_ones():
    total = torch.zeros(3)

    def program(x):
        nonlocal total
        count = 0

        def more():
            nonlocal count
            count += 1
            return count
        total = total + x
        return total * more(), more
    check(program, torch.ones(3), graphs=1)


# --- objects --------------------------------------------------------------------------------------------------------
@same_as_eager(graphs=1, make=lambda: (torch.ones(3), Thing(3)))
def test_attributes_of_an_object_from_outside(x, thing):
    thing.result = x * thing.value
    thing.value = thing.result
    thing.passing = 1
    del thing.passing
    return thing.value + 1


@same_as_eager(graphs=1, make=lambda: (torch.ones(3), Thing(3)))
def test_deleted_attributes_are_not_there(x, thing):
    del thing.value
    return x + hasattr(thing, "value")


SETTINGS = types.ModuleType("tests.sideeffects.those_of_the_first_rows")


def test_attributes_of_a_module():
    def program(x):
        SETTINGS.level = SETTINGS.level + 1
        SETTINGS.result = x * SETTINGS.level
        SETTINGS.passing = 1
        del SETTINGS.passing, SETTINGS.old
        try:
            said = SETTINGS.old
        except AttributeError as error:
            said = str(error)
        return SETTINGS.result + 1, hasattr(SETTINGS, "passing"), said

    found = []
    for call in (program, jit.compile(program, backend="eager", fullgraph=COUNTING)):
        vars(SETTINGS).update(level=1, old=2, result=None)
        result = call(torch.ones(3))
        found.append((result[0].tolist(), *result[1:], SETTINGS.level, SETTINGS.result.tolist(), sorted(vars(SETTINGS))))
    assert found[0] == found[1]


def test_attributes_of_new_classes_are_deleted():
    def program(x):
        class Local:
            kept, gone = x + 1, 2
        Local.more = 3
        del Local.gone, Local.more
        return x * hasattr(Local, "gone"), Local.kept, sorted(name for name in vars(Local) if not name.startswith("_"))
    check(program, torch.ones(3))


@same_as_eager(graphs=1)
def test_objects_born_here_in_a_circle(x):
    one, two = Thing(x + 1), Thing()
    one.other, two.other = two, one
    return one, two.other.value * 2


@same_as_eager(graphs=1, make=lambda: (torch.ones(3), Thing()))
def test_an_object_born_here_and_stored_outside(x, thing):
    thing.value = Thing(x * 2)
    thing.again = thing.value
    return thing.again.value + 1


def test_an_object_that_nobody_sees_any_more_is_not_made():
    def program(x):
        return Told(x + 1).value * 2
    check(program, torch.ones(3), graphs=1)


@same_as_eager(graphs=1, make=lambda: (torch.ones(3, requires_grad=True), torch.nn.Module()))
def test_a_module_takes_tensors_and_a_module_born_here(x, module):
    module.register_buffer("kept", x.detach() * 2)
    module.inner = torch.nn.ReLU()
    module.count = 1
    return module.inner(x) + module.kept


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.by = 2
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.by * ctx.saved_tensors[0]


@same_as_eager(graphs=1, make=lambda: (torch.ones(3, requires_grad=True),))
def test_what_an_autograd_function_saves(x):
    return Squared.apply(x).sin()


# --- hooks ----------------------------------------------------------------------------------------------------------
def doubled(g):
    return g * 2


def powers(g, by):
    return g * by


class Counted:
    def __init__(self):
        self.calls = 0

    def __call__(self, g):
        self.calls += 1
        return g * self.calls

    def method(self, g):
        return g + 1


def around(hook):
    return lambda g: hook(g) + 1


def closure():
    seen = []

    def hook(g):
        seen.append(g)
        return g * len(seen)
    return hook


HOOKS = {"global": lambda: doubled, "lambda": lambda: lambda g: g * 3, "closure": closure, "partial": lambda: functools.partial(powers, by=4),
         "method": lambda: Counted().method, "object": Counted, "wrapped": lambda: around(doubled)}


def of_an_input(x, w, hook):
    w.register_hook(hook)
    return x * w


def of_an_intermediate(x, w, hook):
    y = x * w
    y.register_hook(hook)
    return y.sin()


def of_an_output(x, w, hook):
    y = x * w
    y.register_hook(hook)
    return y


def of_a_leaf_after_accumulation(x, w, hook):
    def accumulated(t):
        hook(t.grad)
    w.register_post_accumulate_grad_hook(accumulated)
    return x * w


def handle_returned(x, w, hook):
    y = x * w
    return y.sin(), y.register_hook(hook), w.register_hook(hook)


def handle_under_two_names(x, w, hook):
    first = w.register_hook(hook)
    second = first
    return x * w, first, [second]


def handle_stored(x, w, hook):
    w.handle = w.register_hook(hook)
    y = x * w
    w.others = [y.register_hook(hook)]
    return y.sin()


def handle_removed(x, w, hook):
    y = x * w
    first, second = y.register_hook(hook), y.register_hook(hook)
    first.remove()
    return y.sin(), second


def handle_removed_by_with(x, w, hook):
    y = x * w
    with y.register_hook(hook):
        z = y.sin()
    return z


PLACES = [of_an_input, of_an_intermediate, of_an_output, of_a_leaf_after_accumulation, handle_returned, handle_under_two_names,
          handle_stored, handle_removed, handle_removed_by_with]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("kind", HOOKS)
def test_hooks(place, kind):
    def make():
        torch.manual_seed(0)
        return torch.randn(3), torch.randn(3, requires_grad=True), HOOKS[kind]()

    def removed(result, *args):
        """The caller takes away what handles it was given, between two backward passes."""
        y, *handles = result if type(result) is tuple else (result,)
        for handle in handles:
            (handle[0] if type(handle) is list else handle).remove()
        w = args[1]
        w.grad = None
        y.sum().backward(retain_graph=True)
        return w.grad
    check(place, make=make, graphs=1, then=removed)


def inside(x, w, log):
    y = x * w
    y.register_hook(lambda g: log.append(g) or g * 2)
    z = y.sin()
    z.retain_grad()
    z.sum().backward()
    return z


def test_hooks_run_by_a_backward_pass_inside():
    check(inside, make=lambda: (torch.ones(3), torch.ones(3, requires_grad=True), []), graphs=1)
