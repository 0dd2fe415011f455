"""Plans of all kinds of steps, each with arguments."""

from dataclasses import dataclass
from typing import Any, Callable

import torch

from codegen.plan import steps as s
from codegen.plan.steps import (
    Allocate,
    BlockSlot,
    Call,
    Compute,
    Constant,
    Expect,
    Floating,
    Free,
    Launch,
    LaunchGroup,
    NumberSlot,
    Plan,
    Python,
    Reserve,
    Size,
    TensorSlot,
    View,
)
from tests.codegen.plan.kernels import kernel

aten = torch.ops.aten
F, I = torch.float32, torch.int64
T, N, B = TensorSlot, NumberSlot, BlockSlot


@dataclass(frozen=True)
class Case:
    plan: Plan
    make: Callable[[], list[Any]]


def launch(name, *buffers, total, sizes=(), scalars=(), grain=1 << 15):
    return Launch(kernel(name), buffers, total, sizes, scalars, grain)


def call(op, *args, to=(), **kwargs):
    return Call(op, args, tuple(kwargs.items()), to if isinstance(to, tuple) else (to,))


def new(tensor, sizes, dtype=F):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size if isinstance(size, int) else None
    return Allocate(tensor, tuple(sizes), tuple(strides), dtype)


def vector(n=6):
    return torch.arange(1.0, n + 1)


def matrix():
    return torch.arange(12.0).reshape(3, 4) - 5


def ops(*steps, args, results):
    """Steps after one tensor for each argument, in the slots 0, 1..."""
    return tuple(T(at) for at in range(args)), steps, results


CASES: dict[str, Case] = {}


def case(name, make, parameters, steps, results, takes_list=False):
    CASES[name] = Case(Plan(name, tuple(parameters), tuple(steps), tuple(results), takes_list), make)


def on(name, make, *steps, results):
    """A case whose arguments are tensors in the slots from 0 on."""
    case(name, make, [T(at) for at in range(len(make()))], steps, results)


# --- kernels and memory -----------------------------------------------------------------------------------------------
ONE = [new(T(1), [6]), launch("add_one", T(0), T(1), total=6)]
on("one launch", lambda: [vector()], *ONE, results=[T(1)])
on("into the argument", lambda: [vector()], launch("add_one", T(0), T(0), total=6), results=[])
SYMBOLIC = [Size(N(0), T(0), 0), Size(N(1), T(0), -1), new(T(1), [N(0)]),
            launch("row_sums", T(0), T(1), total=N(0), sizes=(N(0), N(1)))]
on("symbolic sizes", lambda: [matrix()], *SYMBOLIC, results=[T(1), N(1)])
on("no rows", lambda: [torch.ones(0, 4)], *SYMBOLIC, results=[T(1), N(0)])
on("no columns", lambda: [torch.ones(3, 0)], *SYMBOLIC, results=[T(1)])
on("blocks", lambda: [vector()], Reserve(((B(0), 24), (B(1), 24))), new(T(1), [6]),
   launch("add_one", T(0), B(0), total=6), launch("add_one", B(0), B(1), total=6),
   launch("add", B(0), B(1), B(0), total=6), launch("add", B(0), T(0), T(1), total=6), results=[T(1)])
on("blocks of symbolic sizes", lambda: [vector()], Size(N(0), T(0), 0), Compute(N(1), (4, N(0), "*")), Reserve(((B(0), N(1)),)),
   new(T(1), [N(0)]), launch("add_one", T(0), B(0), total=N(0)), launch("add_one", B(0), T(1), total=N(0)), results=[T(1)])
on("blocks reserved twice", lambda: [vector()], Reserve(((B(0), 24),)), launch("add_one", T(0), B(0), total=6), Reserve(((B(1), 24),)),
   launch("add_one", T(0), B(1), total=6), new(T(1), [6]), launch("add", B(0), B(1), T(1), total=6), results=[T(1)])
on("a block of nothing", lambda: [vector()], Reserve(((B(0), 0), (B(1), 24))), launch("add_one", T(0), B(1), total=6),
   launch("add_one", B(1), T(0), total=6), results=[])
on("a tensor in a block", lambda: [matrix(), matrix().t().contiguous()], Reserve(((B(0), 64),)), View(T(2), B(0), (3, 3), (3, 1), 1, F),
   call(aten.mm.out, T(0), T(1), out=T(2)), new(T(3), [3, 3]), launch("add_one", T(2), T(3), total=9), results=[T(3)])
SCALARS = [N(0, float), N(1, int), N(2, bool)]
case("scalars", lambda: [vector(), 1.5, 4, True], [T(0), *SCALARS], [
    new(T(1), [6]), new(T(2), [6]), new(T(3), [6]),
    launch("affine", T(0), T(1), total=6, scalars=(Floating(2.5), -3)),
    launch("affine", T(1), T(2), total=6, scalars=(Floating(SCALARS[0]), SCALARS[1])),
    launch("affine", T(2), T(3), total=6, scalars=(Floating(SCALARS[1]), SCALARS[2])),
], [T(1), T(2), T(3), *SCALARS])
on("launches together", lambda: [vector(), vector(40), vector(0)], LaunchGroup((
    launch("add_one", T(0), T(0), total=6), launch("add_one", T(2), T(2), total=0),
    launch("add", T(1), T(1), T(1), total=40, grain=7))), results=[])
on("no launches together", lambda: [vector()], LaunchGroup(()), results=[T(0)])
on("gather", lambda: [vector(), torch.tensor([5, 0, 0, 2])], new(T(2), [4]),
   launch("gather", T(0), T(1), T(2), total=4, sizes=(6,)), results=[T(2)])
on("a launch for nothing", lambda: [vector()], launch("gather", T(0), T(0), T(0), total=0, sizes=(0,)), results=[T(0)])

TABLE = torch.arange(6.0)
on("a constant", lambda: [vector()], Constant(T(1), TABLE), new(T(2), [6]), launch("add", T(0), T(1), T(2), total=6), Free(T(1)),
   Constant(T(1), TABLE), call(aten.neg.default, T(1), to=T(3)), results=[T(1), T(2), T(3)])
on("what was foreseen", lambda: [matrix()], call(aten.t.default, T(0), to=T(1)), Expect(T(1), F, (4, 3)), Size(N(0), T(0), 1),
   Expect(T(1), F, (N(0), 3)), results=[T(1)])

# --- views ------------------------------------------------------------------------------------------------------------
on("view", lambda: [torch.arange(24.0)[2:]], View(T(1), T(0), (3, 2), (1, 4), 5), results=[T(1), T(0)])
on("view of symbolic sizes", lambda: [matrix()], Size(N(0), T(0), 0), Size(N(1), T(0), 1), View(T(1), T(0), (N(1), N(0)), (1, N(1))),
   results=[T(1)])
on("view that is written", lambda: [matrix()], View(T(1), T(0), (4,), (1,), 4), launch("add_one", T(1), T(1), total=4), results=[T(1)])
on("view of other bytes", lambda: [torch.arange(8.0)[2:]], View(T(1), T(0), (6,), (1,), 0, torch.int32),
   View(T(2), T(0), (3, 2), (4, 1), 1, torch.int16), View(T(3), T(0), (3,), (1,), 0, I), results=[T(1), T(2), T(3)])
on("view that outlives its base", lambda: [vector()], *ONE, View(T(2), T(1), (2,), (1,), 4), Free(T(1)), results=[T(2)])
on("nothing viewed", lambda: [torch.ones(0)], View(T(1), T(0), (2, 0), (1, 1)), results=[T(1)])

# --- operations -------------------------------------------------------------------------------------------------------
def op(name, make, target, *args, to=T(9), results=None, **kwargs):
    slots = list(s.slots_in(to if isinstance(to, tuple) else (to,)))
    on(name, make, call(target, *args, to=to, **kwargs), results=slots if results is None else results)


op("two tensors", lambda: [vector(), vector()], aten.add.Tensor, T(0), T(1))
op("keywords", lambda: [vector(), vector()], aten.add.Tensor, T(0), T(1), alpha=3)
op("arguments as keywords", lambda: [vector(), vector()], aten.sub.Tensor, other=T(1), self=T(0))
op("a number for a tensor", lambda: [torch.tensor([1, 2])], aten.add.Tensor, T(0), 2)
op("a float for a tensor", lambda: [torch.tensor([1, 2])], aten.mul.Tensor, T(0), 2.5)
op("a bool for a tensor", lambda: [torch.tensor([1, 2])], aten.mul.Tensor, T(0), True)
op("a complex number for a tensor", lambda: [vector()], aten.mul.Tensor, T(0), 2j)
op("a tensor constant", lambda: [vector(2)], aten.mul.Tensor, T(0), torch.tensor([3.0, 4.0], dtype=torch.float64))
op("a scalar", lambda: [vector()], aten.pow.Tensor_Scalar, T(0), 2)
op("optionals", lambda: [vector()], aten.clamp.default, T(0), None, 3.5)
op("optionals left out", lambda: [vector()], aten.clamp.default, T(0), 2)
op("a string", lambda: [vector()], aten.div.Tensor_mode, T(0), 4, rounding_mode="floor")
op("dtype, device, memory format", lambda: [torch.ones(2, 3, 4, 5)], aten._to_copy.default, T(0), dtype=torch.float16,
   device=torch.device("cpu"), memory_format=torch.channels_last)
op("dtype, layout", list, aten.full.default, [2, 3], 7, dtype=torch.int32, layout=torch.strided, pin_memory=False)
op("many results", lambda: [matrix()], aten.max.dim, T(0), 1, to=(T(1), T(2)))
op("a result dropped", lambda: [matrix()], aten.max.dim, T(0), 1, to=(None, T(2)))
op("all results dropped", lambda: [matrix()], aten.relu_.default, T(0), to=())
op("results unnamed", lambda: [matrix()], aten.topk.default, T(0), 2, to=(None, None))
op("layer norm", lambda: [matrix(), torch.ones(4)], aten.native_layer_norm.default, T(0), [4], T(1), None, 1e-5,
   to=(T(2), T(3), T(4)))
op("results that are not there", lambda: [matrix(), matrix(), torch.ones(3, 1), torch.ones(3, 1), torch.ones(4)],
   aten.native_layer_norm_backward.default, T(0), T(1), [4], T(2), T(3), T(4), None, [True, True, False], to=(T(5), T(6), T(7)))
op("list of tensors", lambda: [vector(), vector(2)], aten.cat.default, [T(0), T(1), torch.ones(1), T(0)])
op("list of one item", lambda: [vector()], aten.stack.default, (T(0),), 0)
op("list of optionals", lambda: [matrix(), torch.tensor([2, 0])], aten.index.Tensor, T(0), [None, T(1)])
op("list of constants", lambda: [matrix()], aten.permute.default, T(0), [1, 0])
op("an int for a list", lambda: [matrix()], aten.sum.dim_IntList, T(0), [1], True)
op("a list of results", lambda: [vector()], aten.split.Tensor, T(0), 2, to=((T(1), None, T(3)),))
op("unbind", lambda: [matrix()], aten.unbind.int, T(0), 1, to=((T(1), T(2), T(3), T(4)),))
op("foreach", lambda: [vector(), vector(2)], aten._foreach_add_.Scalar, [T(0), T(1)], 2, to=())
op("foreach with a list of scalars", lambda: [vector(), vector(2)], aten._foreach_mul.ScalarList, [T(0), T(1)], [2.0, 3.0],
   to=((T(2), T(3)),))
op("copy_ into an argument", lambda: [vector(), vector() * 2], aten.copy_.default, T(0), T(1), to=(None,))
op("item", lambda: [torch.tensor(2.5)], aten._local_scalar_dense.default, T(0), to=N(0, float))
op("item of integers", lambda: [torch.tensor(2)], aten._local_scalar_dense.default, T(0), to=N(0))
op("item of bools", lambda: [torch.tensor(True)], aten._local_scalar_dense.default, T(0), to=N(0, bool))
op("a bool result", lambda: [vector(), vector()], aten.equal.default, T(0), T(1), to=N(0, bool))
op("random numbers", lambda: [vector(100)], aten.bernoulli.p, T(0), 0.5)
op("a generator", lambda: [vector(100)], aten.bernoulli.p, T(0), 0.5, generator=None)
op("factory", list, aten.arange.start_step, 0, 5, 2, dtype=I, device=torch.device("cpu"))
case("numbers for operations", lambda: [matrix(), 4, 2.5, True], [T(0), N(0), N(1, float), N(2, bool)], [
    call(aten.view.default, T(0), [N(0), -1], to=T(1)),
    call(aten.mul.Tensor, T(1), N(1, float), to=T(2)),
    call(aten.add.Scalar, T(2), N(0), N(0), to=T(3)),
    call(aten.full.default, [2, N(0)], N(1, float), dtype=F, to=T(4)),
    call(aten.sum.dim_IntList, T(4), [1], N(2, bool), to=T(5)),
    call(aten.native_layer_norm.default, T(0), [N(0)], None, None, N(1, float), to=(T(6), None, None)),
    call(aten._foreach_mul.ScalarList, [T(0), T(6)], [N(1, float), N(0)], to=((T(7), T(8)),)),
    call(aten.add.Tensor, T(0), N(0), alpha=N(1, float), to=T(9)),
    call(aten.leaky_relu.default, T(0), N(0), to=T(10)),
    call(aten.native_layer_norm.default, T(0), [4], None, None, N(0), to=(T(11), None, None)),
], [T(at) for at in range(1, 12)])
on("a number from a tensor", lambda: [vector(), torch.tensor(3)], call(aten._local_scalar_dense.default, T(1), to=N(0)),
   Compute(N(1), (N(0), 2, "*")), View(T(2), T(0), (N(0),), (1,)), new(T(3), [N(0)]),
   launch("affine", T(2), T(3), total=N(0), scalars=(Floating(N(0)), N(1))), results=[T(3), N(1)])


# --- Python, arguments, results ---------------------------------------------------------------------------------------
def several(tensor, items, number, *constants):
    return tensor * number, len(items), number > 1, sum(t.sum() for t in items), str(constants) == "(None, 'text')"


case("Python", lambda: [vector(), 1.5], [T(0), N(0, float)], [
    Python(several, (T(0), [T(0), T(0)], N(0, float), None, "text"), (T(1), N(1), N(2, bool), T(2), N(3, bool))),
    Python(lambda *_: (), (), ()),
], [T(1), N(1), N(2, bool), T(2), N(3, bool)])
case("Python results dropped", lambda: [vector(), 1.5], [T(0), N(0, float)],
     [Python(several, (T(0), (T(0),), N(0, float)), (None, None, N(0, bool), None, None))], [N(0, bool)])
CONSTANT = object()
case("all kinds of results", lambda: [vector(), 3, 2.5, True, CONSTANT], [T(0), N(0), N(1, float), N(2, bool), None], [],
     [T(0), None, N(0), N(1, float), N(2, bool), CONSTANT, T(0), [1, 2]])
case("nothing", list, [], [], [])
case("a list", lambda: [vector(), vector(), 5], [T(0), T(1), N(0)], [
    new(T(2), [6]), launch("add", T(0), T(1), T(2), total=6), Free(T(0)), launch("add_one", T(1), T(1), total=6),
    Free(T(1)),
], [T(2), N(0)], takes_list=True)
case("a list whose item is a result", lambda: [vector()], [T(0)], [], [T(0), T(0)], takes_list=True)
on("a slot set again", lambda: [vector(2)], call(aten.add.Tensor, T(0), T(0), to=T(0)), call(aten.add.Tensor, T(0), T(0), to=T(0)),
   Free(T(0)), new(T(0), [2]), launch("affine", T(0), T(0), total=2, scalars=(Floating(0.0), 3)), results=[])

PROGRAMS = [
    ((7,), 7), ((7, 2, "//"), 3), ((-7, 2, "//"), -4), ((7, -2, "//"), -4), ((-8, -2, "//"), 4), ((-7, 2, "%"), 1), ((7, -2, "%"), -1),
    ((-6, 3, "%"), 0), ((5, -1, "//"), -5), ((5, -1, "%"), 0), ((2, 3, "min"), 2), ((2, 3, "max"), 3), ((2, 3, 4, "*", "+"), 14),
    ((10, 3, "-", 4, "-"), 3), ((1 << 40, 1 << 20, "*"), 1 << 60),
]
for at, (program, value) in enumerate(PROGRAMS):
    case(f"program {at}", list, [], [Compute(N(3), program)], [N(3)])
