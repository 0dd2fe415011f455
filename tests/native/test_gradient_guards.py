"""Guards of derivatives: who is told of a gradient, the gradient itself, and state that is kept by parameter."""

import collections
import copy
import gc
import sys

import pytest
import torch

import jit._C as C
from tests.native.guarding import holds, plain


def leaf():
    return torch.ones(3, requires_grad=True)


def accumulator(tensor):
    return torch.autograd.graph.get_gradient_edge(tensor).node


# --- hooks


def ignore(*gradients):
    return None


HOOKS = {
    "gradient": lambda t: t.register_hook(ignore),
    "accumulated": lambda t: t.register_post_accumulate_grad_hook(ignore),
}


@pytest.mark.parametrize("make", [leaf, lambda: torch.nn.Parameter(torch.ones(3)), lambda: leaf() * 2])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_of_tensors(make, name):
    tensor = make()
    if name == "accumulated" and not tensor.is_leaf:
        pytest.skip("leaves only")
    guards = C.Guards([(-1, "arg", 0)], [(0, "unhooked", None)], [])
    assert holds(guards, tensor) and C.unhooked(tensor)
    handles = [HOOKS[name](tensor), HOOKS[name](tensor)]
    assert not holds(guards, tensor) and not C.unhooked(tensor)
    assert C.unhooked(tensor, True) and holds(C.Guards([(-1, "arg", 0)], [(0, "unhooked", True)], []), tensor)
    assert guards.explain(plain, (tensor,)) == (0, tensor)
    handles[0].remove()
    assert not holds(guards, tensor)
    handles[1].remove()
    assert holds(guards, tensor) and C.unhooked(tensor)


@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
def test_hooks_of_the_node_that_accumulates(register):
    tensor = leaf()
    guards = C.Guards([(-1, "arg", 0)], [(0, "unhooked", None)], [])
    node = accumulator(tensor)
    assert holds(guards, tensor)
    getattr(node, register)(ignore)
    assert not holds(guards, tensor) and not C.unhooked(tensor, True)
    del node  # and the hooks with it
    assert holds(guards, tensor)


def test_a_retained_gradient():
    tensor = leaf() * 2
    assert C.unhooked(tensor)
    tensor.retain_grad()
    assert not C.unhooked(tensor)


@pytest.mark.parametrize(
    "thing, answer",
    [
        (torch.ones(3), True),
        (copy.deepcopy(torch.nn.Linear(2, 2)).weight, True),
        (leaf().detach(), True),
        (torch.ones(3, dtype=torch.int64), True),
        (None, False),
        (1, False),
        (torch.Tensor, False),
    ],
)
def test_unhooked(thing, answer):
    assert C.unhooked(thing) is answer
    assert holds(C.Guards([(-1, "arg", 0)], [(0, "unhooked", None)], []), thing) is answer


# --- gradients


def gradient_guards(*checks):
    return C.Guards([(-1, "arg", 0), (0, "grad", None)], list(checks), [1])


def test_gradient_or_none():
    tensor = leaf()
    guards = gradient_guards()
    assert guards.check(plain, (tensor,)) == (None,)
    tensor.grad = mine = torch.ones(3)
    assert guards.check(plain, (tensor,))[0] is mine
    tensor.grad = None
    assert guards.check(plain, (tensor,)) == (None,)
    for wrong in (None, 1, torch.Tensor):
        assert guards.explain(plain, (wrong,)) == (-2, wrong)
    assert guards.check(plain, (leaf() * 2,)) == (None,)


def test_gradient_that_no_python_code_has_seen():
    tensor = leaf()
    guards = gradient_guards()
    for scale in (1, 2):
        (tensor * scale).sum().backward()
        (gradient,) = guards.check(plain, (tensor,))
        assert gradient is tensor.grad
        gradient.mark = scale  # it is kept by the tensor
        del gradient
        gc.collect()
        assert tensor.grad.mark == scale
        tensor.grad = None


def test_gradient_facts():
    tensor = leaf()
    tensor.grad = torch.ones(3)
    guards = gradient_guards((1, "tensor", C.tensor_info(tensor.grad)))
    assert holds(guards, tensor)
    tensor.grad = None
    assert not holds(guards, tensor)
    tensor.grad = torch.zeros(3)
    assert holds(guards, tensor)
    other = torch.ones(3, dtype=torch.float64, requires_grad=True)
    other.grad = torch.ones(3, dtype=torch.float64)
    assert not holds(guards, other)
    none = gradient_guards((1, "is", None))
    assert not holds(none, tensor) and holds(none, leaf())


def test_gradients_below_what_is_remembered():
    """The parameters stay, so that only what may change about them is looked at."""

    class Owner:
        pass

    owner = Owner()
    owner.weights = {name: leaf() for name in "abc"}
    nodes = [(-1, "arg", 0), (0, "dict", None), (1, "item", "weights")]
    checks, values = [], []
    for name, weight in owner.weights.items():
        nodes += [(2, "item", name), (len(nodes), "grad", None)]
        checks += [(len(nodes) - 2, "tensor", C.tensor_info(weight)), (len(nodes) - 2, "unhooked", None)]
        checks.append((len(nodes) - 1, "is", None))
        values.append(len(nodes) - 1)
    guards = C.Guards(nodes, checks, values)
    for _ in range(3):
        assert guards.check(plain, (owner,)) == (None, None, None)
        owner.weights["b"].grad = torch.ones(3)
        assert not holds(guards, owner)
        owner.weights["b"].grad = None
        assert holds(guards, owner)
        handle = owner.weights["c"].register_hook(ignore)
        assert not holds(guards, owner)
        handle.remove()
        assert holds(guards, owner)


# --- state by parameter


def python_calls(function, *arguments):
    """The names of Python functions that run meanwhile."""
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: event == "call" and seen.append(frame.f_code.co_name))
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return seen


def test_tensors_as_keys():
    keys = [leaf(), torch.nn.Parameter(torch.ones(3)), torch.ones(1)]
    state = collections.defaultdict(dict, {key: {"step": index} for index, key in enumerate(keys)})
    nodes = [(-1, "arg", 0)]
    for key in keys:
        nodes += [(0, "item", key), (len(nodes), "item", "step")]
    guards = C.Guards(nodes, [(2 * index + 2, "eq", index) for index in range(3)], [2, 4, 6])
    assert guards.check(plain, (state,)) == (0, 1, 2)
    guards.check(plain, ({},))  # so that everything is looked up again
    assert python_calls(guards.check, plain, (state,)) == []
    state[keys[1]]["step"] = 5
    assert not holds(guards, state)
    state[keys[1]] = {"step": 1}
    assert holds(guards, state)
    moved = state.pop(keys[2])
    assert not holds(guards, state)
    state[torch.ones(1)] = moved
    assert not holds(guards, state)
    state[keys[2]] = moved
    assert holds(guards, state)


class Alike(torch.Tensor):
    def __hash__(self):
        return 7

    def __eq__(self, other):
        return True


def test_tensors_that_hash_in_their_own_way():
    key, alike = torch.ones(1).as_subclass(Alike), torch.ones(1).as_subclass(Alike)
    guards = C.Guards([(-1, "arg", 0), (0, "item", key)], [(1, "eq", 1)], [])
    assert holds(guards, {alike: 1}) and not holds(guards, {alike: 2}) and not holds(guards, {})


def test_many_objects_are_apart():
    tensors = [torch.ones(1) for _ in range(50)]
    nodes = [(-1, "arg", index) for index in range(50)]
    everything = list(range(50))
    distinct = C.Guards(nodes, [(0, "distinct", everything)], [])
    storage = C.Guards(nodes, [(0, "storage", [[index] for index in everything])], [])
    assert holds(distinct, *tensors) and holds(storage, *tensors)
    for place in (0, 24, 49):
        for other in (tensors[(place + 7) % 50], tensors[(place + 7) % 50].view(1)):
            changed = [*tensors[:place], other, *tensors[place + 1 :]]
            assert holds(distinct, *changed) == (other is not tensors[(place + 7) % 50])
            assert not holds(storage, *changed)
