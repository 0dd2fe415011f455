"""Programs through the lowering, beside eager: traced by the AOT stage with their backward, lowered, evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from codegen.aot.trace import trace
from codegen.kernels.definitions import Definition, Made, Program
from codegen.kernels.evaluate_program import run_program
from codegen.kernels.lowering.lower import lower


@dataclass(frozen=True)
class Lowered:
    """A program's joint graph (forward, then gradients), and what it was lowered to."""

    graph: torch.fx.GraphModule
    program: Program

    @property
    def called(self):
        """The operations that are left to ATen."""
        made = (t.node for t in self.program.tensors.values() if isinstance(t, Made))
        return {str(node.target) for node in made if node.op == "call_function"}

    @property
    def defined(self):
        return [t for t in self.program.tensors.values() if isinstance(t, Definition)]


def lowered(function, args, dynamic=False):
    """`function(*args) -> tensors`, for all sizes if `dynamic`."""

    def program(*args):
        found = function(*args)
        return [t for t in (found if isinstance(found, (tuple, list)) else [found])]

    given = symbolic(args) if dynamic else args
    call, traced = trace(program, given, {}, inside=True)
    return Lowered(traced.joint, lower(traced.joint))


def symbolic(args):
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        sizes = [DimDynamic.DYNAMIC] * value.dim()
        return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    return [fake(value) for value in args]


def evaluated(graph, examples):
    """A compiler for the AOT stage: the graph is lowered and evaluated."""
    program = lower(graph)
    names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    return lambda *args: tuple(run_program(program, dict(zip(names, args, strict=True))))


def evaluated_list(graph, examples):
    run = evaluated(graph, examples)
    return lambda args: run(*args)


def compare(lowered, args, ulps=2.0, least=0.0, seed=0):
    """Runs graph and program with these inputs (and random tangents). Raises AssertionError where they differ: floats
    by more than so many units in the last place of the largest of the element, the tensor's mean magnitude, `least`."""
    names = [node.name for node in lowered.graph.graph.find_nodes(op="placeholder")]
    torch.manual_seed(seed)
    given = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
    with torch.no_grad():
        given += tangents(lowered.graph, given)
        theirs, ours = [copy(g) for g in given], [copy(g) for g in given]
        torch.manual_seed(seed)
        expected = lowered.graph(*theirs)
        torch.manual_seed(seed)
        found = run_program(lowered.program, dict(zip(names, ours, strict=True)))
    assert len(expected) == len(found)
    for at, (a, b) in enumerate(zip([*expected, *theirs], [*found, *ours], strict=True)):
        difference = unequal(a, b, ulps, least)
        assert not difference, f"result {at}: {difference}\n{lowered.graph.graph}\n{lowered.program}"


def copy(tensor):
    """Of the same geometry, in memory of its own."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    storage = tensor.untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def tangents(graph, given):
    """One for each placeholder beyond these inputs, which are tangents: their sizes are those of symbols known by now."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    known = {}
    for node, value in zip(placeholders, given):
        for size, actual in zip(getattr(node.meta["val"], "shape", ()), getattr(value, "shape", ())):
            if isinstance(size, torch.SymInt):
                known[size.node.expr] = actual

    def numbers(sizes):
        return [size if isinstance(size, int) else int(size.node.expr.subs(known)) for size in sizes]

    def tangent(fake):
        found = torch.empty_strided(numbers(fake.shape), numbers(fake.stride()), dtype=fake.dtype)
        return found.normal_() if fake.dtype.is_floating_point or fake.dtype.is_complex else found.zero_()

    return [tangent(node.meta["val"]) for node in placeholders[len(given) :]]


def unequal(a, b, ulps, least=0.0):
    """What differs, or ""."""
    if not isinstance(a, torch.Tensor):
        return "" if type(a) is type(b) and (a == b or a != a) else f"{b}, not {a}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{b.dtype} {tuple(b.shape)}, not {a.dtype} {tuple(a.shape)}"
    if not a.dtype.is_floating_point and not a.dtype.is_complex:
        return "" if torch.equal(a, b) else f"{b}\nnot {a}"
    if torch.equal(torch.isnan(a), torch.isnan(b)) and not a.numel():
        return ""
    x, y = (v.to(torch.complex128 if v.dtype.is_complex else torch.float64) for v in (a, b))
    same = (x == y) | (torch.isnan(x) & torch.isnan(y))
    finite = torch.isfinite(x) & torch.isfinite(y)
    scale = x[finite].abs().mean() if finite.any() else x.abs().new_zeros(())
    bound = ulps * torch.finfo(a.dtype).eps * torch.maximum(x.abs(), scale.clamp(min=least))
    bad = ~(same | finite & ((x - y).abs() <= bound))
    if not bad.any():
        return ""
    worst = ((x - y).abs() / bound.clamp(min=1e-300) * ulps)[bad].max()
    return f"{int(bad.sum())} of {a.numel()} differ, by up to {worst:.3g} units: {b[bad][:5].tolist()}, not {a[bad][:5].tolist()}"
