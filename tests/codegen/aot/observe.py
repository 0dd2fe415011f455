"""What can be seen of a program: its results and inputs from every side, gradients, and what happens afterwards."""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from tests.codegen.aot.programs import Cell, Inputs

Call = Callable[..., Sequence[Any]]


def attempt(do: Callable[[], Any]) -> Any:
    """The answer, or the type of the error."""
    try:
        return do()
    except Exception as error:
        return type(error).__name__


def numbers(values: Any) -> Any:
    """With one object for all that is not a number: it equals itself."""
    if isinstance(values, list):
        return [numbers(value) for value in values]
    return values if values == values else math.nan


#: What every tensor is asked. A question may be an error: views that eager code may not use any more raise.
FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "values": lambda t: numbers(t.detach().tolist()) if t.untyped_storage().nbytes() else None,
    "bytes": lambda t: t.untyped_storage().nbytes(),
    "dtype": lambda t: t.dtype,
    "shape": lambda t: tuple(t.shape),
    "strides": lambda t: t.stride(),
    "offset": lambda t: t.storage_offset(),
    "bits": lambda t: (t.is_conj(), t.is_neg()),
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "has grad_fn": lambda t: t.grad_fn is not None,
    "inference": lambda t: t.is_inference(),
    "version": lambda t: None if t.is_inference() else t._version,
    "is_view": lambda t: t._is_view(),
    "base": lambda t: t._base,
}
#: What is asked of a base that is neither an input nor a result.
BASE_FACTS = ("dtype", "shape", "strides", "is_leaf", "requires_grad", "version")


def look_at(tensor: torch.Tensor, names: Sequence[str]) -> dict[str, Any]:
    return {name: attempt(lambda: FACTS[name](tensor)) for name in names}  # noqa: B023


def look(values: Sequence[Any]) -> list[Any]:
    """All values as plain data: each tensor's properties, and which of them are one, are views of one, share memory."""
    names: dict[int, str] = {}
    bases: dict[int, str] = {}
    seen = []
    for at, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            seen.append(value)
            continue
        names.setdefault(id(value), f"#{at}")
        facts = look_at(value, tuple(FACTS))
        facts["is"] = names[id(value)]
        facts["memory"] = next(f"#{i}" for i, v in enumerate(values) if _storage(v) == _storage(value))
        if isinstance(facts["base"], torch.Tensor):
            facts["base looks"] = look_at(facts["base"], BASE_FACTS)
            name = names.get(id(facts["base"]))
            facts["base"] = name or bases.setdefault(id(facts["base"]), f"base {len(bases)}")
        seen.append(facts)
    return seen


def _storage(value: Any) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def edges(values: Sequence[torch.Tensor]) -> Iterator[GradientEdge]:
    """Where gradients of these tensors go now. Not so views: a write to one of them or to its base takes all of them
    from that place; a compiled program may still give it a gradient."""
    for value in values:
        if value.requires_grad and not value.is_inference() and not value._is_view():
            yield get_gradient_edge(value)


class Run:
    """One call on inputs of its own."""

    def __init__(self, cell: Cell, call: Call) -> None:
        self.inputs: Inputs = cell.inputs()
        values = self.inputs.values
        self.sources = [*self.inputs.leaves, *edges(values)]
        without = [value for value in values if not value.requires_grad]
        with cell.under():
            self.results = list(call(*values))
        self.sources += edges(without)

    def everything(self) -> list[Any]:
        return [*self.inputs.leaves, *self.inputs.values, *self.results]

    def carriers(self) -> list[torch.Tensor]:
        """What gradients can start from."""
        tensors = {id(t): t for t in (*self.results, *self.inputs.values) if isinstance(t, torch.Tensor)}
        return [t for t in tensors.values() if t.requires_grad]

    def gradients(self, carriers: Sequence[torch.Tensor], tangent: Callable[..., Any], **options: bool) -> Any:
        if not carriers or not self.sources:
            return None
        return torch.autograd.grad(carriers, self.sources, [tangent(c) for c in carriers], allow_unused=True, **options)


def counted(like: torch.Tensor) -> torch.Tensor:
    flat = torch.arange(like.numel(), dtype=like.dtype.to_real()) + 1
    return flat.to(like.dtype).reshape(like.shape)


def expanded(like: torch.Tensor) -> torch.Tensor:
    return torch.full((), 2, dtype=like.dtype).expand(like.shape)


def strided(like: torch.Tensor) -> torch.Tensor:
    return counted(like).unsqueeze(-1).expand(*like.shape, 2).contiguous()[..., 1]


def seen_gradients(gradients: Any) -> Any:
    if gradients is None or isinstance(gradients, str):
        return gradients
    return [g if g is None else (tuple(g.shape), g.dtype, numbers(g.tolist()), g.requires_grad) for g in gradients]


def observations(cell: Cell, call: Call) -> Iterator[tuple[str, Any]]:
    """What is seen, by name; all calls are on inputs of their own. The first is the type of the error, if there is
    one, and then there is no other."""
    run = attempt(lambda: Run(cell, call))
    if isinstance(run, str):
        yield "error", run
        return
    yield "results", look(run.everything())
    yield from _derivatives(cell, call)
    for at, result in enumerate(run.results):
        if isinstance(result, torch.Tensor):
            yield from _written_later(cell, call, f"result {at}", lambda run, at=at: run.results[at])
    for at in range(len(run.inputs.values)):
        yield from _written_later(cell, call, f"input {at}", lambda run, at=at: run.inputs.values[at])


def _derivatives(cell: Cell, call: Call) -> Iterator[tuple[str, Any]]:
    def take(run: Run, carriers: Sequence[torch.Tensor], tangent: Callable[..., Any], **options: bool) -> Any:
        return seen_gradients(attempt(lambda: run.gradients(carriers, tangent, **options)))

    run = Run(cell, call)
    carriers = run.carriers()
    if not carriers or not run.sources:
        return
    for tangent in (counted, expanded, strided):
        yield f"gradients for {tangent.__name__} tangents", take(run, carriers, tangent, retain_graph=True)
    for at, carrier in enumerate(carriers):
        yield f"gradients of {at} alone", take(run, [carrier], counted, retain_graph=True)
    yield "last gradients", take(run, carriers, counted)
    yield "gradients once more", take(run, carriers, counted)
    run = Run(cell, call)
    first = attempt(lambda: run.gradients(run.carriers(), lambda c: counted(c).requires_grad_(), create_graph=True))
    yield "first derivatives", seen_gradients(first)
    if first is not None and not isinstance(first, str):
        tensors = [g for g in first if g is not None and g.requires_grad]
        yield "second derivatives", seen_gradients(attempt(lambda: run.gradients(tensors, counted)))
    yield "after them", look(run.everything())


def _written_later(cell: Cell, call: Call, name: str, which: Callable[[Run], torch.Tensor]) -> Iterator[tuple[str, Any]]:
    for how, mode in (("", torch.enable_grad), (" without grad", torch.no_grad)):
        run = Run(cell, call)

        def write() -> None:
            with mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                which(run).mul_(3)

        yield f"{name} written{how}", attempt(write)
        yield f"all after {name} was written{how}", look(run.everything())
        yield f"gradients after {name} was written{how}", seen_gradients(
            attempt(lambda: run.gradients(run.carriers(), counted))
        )


#: Autograd raises a RuntimeError here when it has let go of a value, or when somebody has written it. A compiled program
#: that kept a copy, or needs no value, may answer.
MAY_ANSWER = ("gradients once more", "gradients after")
#: Inputs that share memory which autograd knows nothing of. Eager code silently takes what somebody wrote there later for
#: the value at the time of the call; a compiled program may have kept a copy.
BEHIND_ITS_BACK = ("its_data", "one_storage")
#: Who writes one of these writes the bits of the other: its numbers are no small integers any more, and products of
#: them, taken in another layout, are rounded in another order.
BY_BITS = "other_dtype"


def same(cell: Cell, name: str, eager: Any, compiled: Any) -> bool:
    if "gradients" in name and cell.alias == BY_BITS and isinstance(eager, list) and isinstance(compiled, list):
        return all(one == other or _nearly(one, other, 1e-14) for one, other in zip(eager, compiled, strict=True))
    may_answer = name.startswith(MAY_ANSWER) and (eager == "RuntimeError" or cell.alias in BEHIND_ITS_BACK)
    if name.endswith("derivatives") and isinstance(eager, list) and isinstance(compiled, list):
        pairs = zip(map(_nonzero, eager), map(_nonzero, compiled), strict=True)
        return eager == compiled or (name.startswith("second") or cell.mode == "autocast") and all(
            one == other or (cell.mode == "autocast" and _nearly(one, other, 2**-6)) for one, other in pairs
        )
    return bool(eager == compiled or (may_answer and isinstance(compiled, list)))


def _nonzero(gradient: Any) -> Any:
    """Second derivatives that are zero everywhere may be none."""
    return gradient if gradient is None or _any(gradient[2]) else None


def _nearly(one: Any, other: Any, tolerance: float) -> bool:
    """Autocast, say, makes one cast of a leaf for all its uses, whose gradients come together as bfloat16; gradients that are
    differentiated come together as float32."""
    if one is None or other is None or one[:2] != other[:2] or one[3] != other[3]:
        return False
    return torch.allclose(torch.tensor(one[2]), torch.tensor(other[2]), rtol=tolerance, atol=0, equal_nan=True)


def _any(values: Any) -> bool:
    return any(map(_any, values)) if isinstance(values, list) else values != 0
