"""Inputs that share memory: what a compiled frame asks of them; and inputs that come to lie in other memory."""
import pytest
import torch

import jit
from codegen.aot.api import aot_function
from codegen.aot.compilers import nop
from codegen.aot.function import Settings, compile_program
from codegen.aot.memory import Untraceable


def written_and_read(x, y):
    x.add_(1)
    return y * 2


PARTS = [((0, 2), (1, 3)), ((0, 2), (2, 4)), ((0, 2), (0, 2)), ((1, 3), (0, 2))]
KINDS = {
    "view": lambda view: view,
    "detached": torch.Tensor.detach,
    "view of detached": lambda view: view.detach()[:],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_where_inputs_lie_is_guarded(backend):
    """One function for all: equal sizes and one memory say nothing about who shows what."""
    compiled = jit.compile(written_and_read, backend=backend)
    for first, second in PARTS:
        for name, kind in KINDS.items():
            seen = []
            for call in (compiled, written_and_read):
                leaf = torch.arange(8.0).view(4, 2).requires_grad_()
                base = leaf * 1
                given = base[slice(*first)], kind(base[slice(*second)])
                result = call(*given)
                (gradient,) = torch.autograd.grad((base * base).sum() + result.sum(), leaf)
                seen.append((result.tolist(), base.tolist(), base._version, result.requires_grad, gradient.tolist()))
            assert seen[0] == seen[1], (first, second, name)


def resized(x):
    x.resize_(5).fill_(1)


def written_around(x):
    x.as_strided((4,), (1,), x.storage_offset()).mul_(2)


def written_in_one_row(x):
    x[1:] = 5


#: A program of one input -> inputs of equal sizes and strides that lie elsewhere
ALONE = {
    resized: (
        lambda: torch.arange(6.0)[:2], lambda: torch.arange(12.0)[6:8], lambda: torch.arange(4.0)[:2],
        lambda: torch.arange(5.0)[:2].detach(),
    ),
    written_around: (
        lambda: torch.arange(6.0)[:2], lambda: torch.arange(12.0)[6:8], lambda: torch.arange(4.0)[:2].detach(),
    ),
    written_in_one_row: (
        lambda: torch.ones(1, 3).expand(2, 3), lambda: torch.arange(15.0).view(5, 3)[1:2].expand(2, 3),
        lambda: torch.ones(1, 3).expand(2, 3).detach(), lambda: torch.ones(3).expand(2, 3),
        lambda: torch.arange(6.0).as_strided((2, 3), (0, 1), 2),
    ),
}


@pytest.mark.parametrize("way", ["aot_function", "captured"])
@pytest.mark.parametrize("program", ALONE)
def test_where_one_input_lies(program, way):
    """What of its memory it does not show counts, too, and no other property tells of it."""
    def called(x):
        program(x)
        return (x * 2,)

    compiled = aot_function(called, nop) if way == "aot_function" else jit.compile(called, backend="aot_eager")
    for make in ALONE[program]:
        seen = []
        for call in (compiled, called):
            x = make()
            (result,) = call(x)
            memory = torch.empty(0).set_(x.untyped_storage())
            seen.append((result.tolist(), x.tolist(), x._version, memory.tolist()))
        assert seen[0] == seen[1]


# --- storages that change ---------------------------------------------------------------------------------------------
def larger_for_a_while(x, y):
    storage = x.untyped_storage()
    storage.resize_(96)
    torch.empty(0, dtype=x.dtype).set_(storage)[6:] = y.view(-1)
    total = x * torch.empty(0, dtype=x.dtype).set_(storage)[6:].view(2, 3)
    storage.resize_(48)
    return (total,)


def given_back(x, y):
    total = (x * y).sum()
    x.untyped_storage().resize_(0)
    return (total,)


def exchanged(x, y):
    x.data, y.data = y.data, x.data
    return x * 2, y[0]


def replaced_twice(x, y):
    before = x[0]
    x.mul_(2)
    x.data = y * 3
    x.data = y[:1]
    x.add_(1)
    return before, x[0], x


def grown(x, y):
    view = x[1]
    x.resize_(4, 3)
    x[2:].fill_(7)
    return view + 1, x[0]


def flat_bytes(x, y):
    torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage()).fill_(0)
    return (x + y,)


def also_a_result(x, y):
    made = y * 2
    x.data = made[1:]
    x.add_(1)
    return made, x


PROGRAMS = [larger_for_a_while, given_back, exchanged, replaced_twice, grown, flat_bytes, also_a_result]


@pytest.mark.parametrize("program", PROGRAMS)
def test_where_tensors_lie_is_as_in_eager(program):
    def run(call):
        x, y = torch.arange(6.0, dtype=torch.float64).view(2, 3).clone(), torch.ones(2, 3, dtype=torch.float64)
        call = call(x, y)
        seen = []
        for _ in range(2):
            results = call(x, y)
            tensors = [x, y, *results]
            for at, tensor in enumerate(tensors):
                place = tensor.untyped_storage()
                values = tensor.tolist() if place.nbytes() else None
                shared = [other.untyped_storage()._cdata == place._cdata for other in tensors[:at]]
                looks = tensor.shape, tensor.stride(), tensor.storage_offset(), tensor._version, place.nbytes()
                seen.append((values, looks, shared, tensor._is_view()))
            if program in (given_back, grown, replaced_twice, also_a_result):
                break  # the second call would get others
        return seen

    assert run(lambda x, y: compile_program(program, (x, y), Settings())) == run(lambda x, y: program)


def test_an_input_without_data_is_refused():
    x = torch.ones(2, 3)
    x.untyped_storage().resize_(0)
    with pytest.raises(Untraceable, match="empty"):
        compile_program(lambda x: (x.untyped_storage().resize_(24), x.fill_(1) + 1)[1:], (x,), Settings())


def three(leaf):
    """Two that autograd knows to share, and one that it does not know of."""
    middle = leaf * 1
    return middle, middle[0], middle.detach()


def test_relatives_beside_strangers_are_refused_untouched():
    leaf = torch.ones(2, 3, requires_grad=True)
    given = three(leaf)
    with pytest.raises(Untraceable, match="knows for some only"):
        compile_program(lambda x, y, z: (z.mul_(2), x + 1, y + 1)[1:], given, Settings())
    assert given[0]._version == 0 and given[0].tolist() == leaf.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("first, second", [("data", "detached"), ("detached", "data")])
def test_who_counts_writes_together_matters(backend, first, second):
    """All else is equal: autograd knows of a write to `x.detach()`, and not of one to `x.data`."""
    strangers = {"data": lambda x: x.data, "detached": lambda x: x.detach()}

    def program(x, y):
        used = x * x
        y.mul_(2)
        return used

    compiled = jit.compile(program, backend=backend)
    for kind in (first, second):
        seen = []
        for call in (compiled, program):
            x = torch.ones(3, requires_grad=True) * 3
            used = call(x, strangers[kind](x))
            try:
                found = torch.autograd.grad(used.sum(), x)[0].tolist()
            except RuntimeError as error:
                found = "modified by an inplace operation" in str(error)
            seen.append((found, x._version, x.tolist()))
        assert seen[0] == seen[1], kind


#: No gradient passes a `set_` that autograd sees.
SET = {
    "elsewhere": lambda x, y: (x * 2, x.set_(x.detach() * 2), y * 3)[::2],
    "used afterwards": lambda x, y: (x.set_(x.detach() * 2), x * 3 - y.sum())[1:],
    "onto itself": lambda x, y: (x.set_(x), y * 3)[1:],
    "onto another": lambda x, y: (x.set_(y.detach()), y * 3)[1:],
    "written afterwards": lambda x, y: (x.set_(x.detach() * 2), x.mul_(2), y * 3)[2:],
    "written behind autograd": lambda x, y: (x.set_(x.detach() * 2), x.data.mul_(2), y * 3)[2:],
    "written, then elsewhere": lambda x, y: (x.mul_(2), x * 1, x.set_(x.detach() * 2), y * 3)[1::2],
}
#: Of all pairs but "plain".
SET_REFUSED = {
    "onto itself": "aten.set_",
    "written afterwards": "is written where it came to lie",
}
PAIRS = {
    "apart": lambda leaf: (leaf * 1, leaf * 2),
    "a base and its view": lambda leaf: [(m, m[1:]) for m in [leaf * 1]][0],
    "a view of what is no input": lambda leaf: ((leaf * 1)[1:], (leaf * 1)[1:]),
    "plain": lambda leaf: (leaf.detach() * 1, leaf.detach() * 2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("program", SET)
def test_no_gradient_passes_a_set(program, pair, grad):
    def run(call):
        leaf = torch.arange(6.0).view(3, 2).requires_grad_()
        x, y = PAIRS[pair](leaf)
        with torch.set_grad_enabled(grad):
            results = call(x, y)
        seen = []
        for tensor in (*results, x, y):
            try:
                (gradient,) = torch.autograd.grad(tensor.sum(), leaf, retain_graph=True, allow_unused=True)
            except RuntimeError as error:
                gradient = str(error).splitlines()[0]
            kind = type(tensor.grad_fn) is type(x.grad_fn)
            seen.append((tensor.tolist(), tensor.stride(), tensor._version, tensor.requires_grad, kind, str(gradient)))
        return seen

    given = PAIRS[pair](torch.ones(3, 2, requires_grad=True))
    refused = SET_REFUSED.get(program)
    with torch.set_grad_enabled(grad):
        if refused is not None and grad and pair != "plain":
            with pytest.raises(Untraceable, match=refused):
                compile_program(SET[program], given, Settings())
            return
        compiled = compile_program(SET[program], given, Settings())
    assert run(compiled) == run(SET[program])


def test_a_storage_that_grows_grows_again_for_some_gradients_alone():
    """A backward of its own is traced from the inputs as they came."""
    def program(x, y):
        x.resize_(3, 3).fill_(1)
        return [y * 2, y * 3]

    def run(call):
        leaf = torch.ones(2, 2, requires_grad=True)
        middle = leaf * 1
        results = call(middle.data, middle)
        return [torch.autograd.grad(result.sum(), leaf, retain_graph=True)[0].tolist() for result in results]

    middle = torch.ones(2, 2, requires_grad=True) * 1
    assert run(compile_program(program, (middle.data, middle), Settings())) == run(program)


# --- real and complex numbers in one memory ---------------------------------------------------------------------------
def pairs(real):
    return torch.view_as_complex(real.unflatten(-1, (-1, 2)))


def parts(numbers):
    return numbers, numbers.real, torch.view_as_real(numbers)[1:]


#: (real numbers, 3 by 4) -> x, y, z
VIEWS = {
    "of real numbers": lambda base: (base, pairs(base), base[1:]),
    "of a part": lambda base: (base[:2], pairs(base)[1:, 1:], pairs(base[1:])),
    "of complex numbers": lambda base: parts(pairs(base).clone()),
}
WRITES = {
    "the first": lambda x, y, z: x.mul_(2),
    "the second": lambda x, y, z: y[0].mul_(3),
    "one after the other": lambda x, y, z: (x.add_(1), y.mul_(2), z.sub_(1)),
    "from each other": lambda x, y, z: y.add_(z.sum()),
    "turned": lambda x, y, z: (z.mul_(2), y.t_()),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("views", VIEWS)
def test_real_and_complex_views_of_one_base(views, write):
    def program(x, y, z):
        WRITES[write](x, y, z)
        return [x * x, y.abs(), z * y.sum()]

    def made():
        leaf = torch.arange(1.0, 13, dtype=torch.double).view(3, 4).requires_grad_()
        return leaf, VIEWS[views](leaf * 1)

    def run(call):
        leaf, given = made()
        results = call(*given)
        total = sum((torch.view_as_real(t) if t.is_complex() else t).sum() for t in (*results, *given))
        (first,) = torch.autograd.grad(total, leaf, create_graph=True)
        (second,) = torch.autograd.grad((first * first).sum(), leaf)
        return [(t.detach(), t.stride(), t._version) for t in (*results, *given)] + [first.detach(), second]

    compiled = compile_program(program, made()[1], Settings())
    ours, theirs = run(compiled), run(program)
    assert str(ours[:-1]) == str(theirs[:-1])
    assert torch.allclose(ours[-1], theirs[-1])


def filled_again(x, y):
    used = y * 2
    size = x.untyped_storage().nbytes()
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(size)
    x.untyped_storage().fill_(0)
    return [used, x + 1]


def larger_for_good(x, y):
    used = y * 2
    x.untyped_storage().resize_(80)
    x.add_(1)
    return [used, x + 1]


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "with gradients"])
@pytest.mark.parametrize("program", [filled_again, larger_for_good])
def test_a_storage_changes_that_views_of_one_base_share(program, requires_grad):
    def run(call):
        leaf = torch.arange(9.0).view(3, 3).requires_grad_(requires_grad)
        base = leaf * 1
        results = call(base, base[1:])
        gradients = [torch.autograd.grad(r.sum(), leaf, retain_graph=True)[0] for r in results if requires_grad]
        place = base.untyped_storage()
        return [(t.tolist(), t._version) for t in (*results, base, *gradients)], place.nbytes()

    base = torch.ones(3, 3, requires_grad=requires_grad) * 1
    if requires_grad and program is larger_for_good:  # of a flat base autograd knows nothing
        with pytest.raises(Untraceable, match="knows for some only"):
            compile_program(program, (base, base[1:]), Settings())
    else:
        assert run(compile_program(program, (base, base[1:]), Settings())) == run(program)


def test_a_look_outside_of_memory_is_the_programs_error():
    def program(x):
        x.mul_(2)
        return [x.as_strided((100,), (1,), 0)]

    with pytest.raises((RuntimeError, Untraceable)):
        compile_program(program, (torch.ones(4)[1:],), Settings())
