"""What a compiled graph runs through: its plan and its autograd node (sources in codegen/csrc)."""

from collections.abc import Callable
from typing import Any

import torch

#: Per input: its gradient, or None for none.
_Gradients = tuple[torch.Tensor | None, ...]
_Flags = tuple[bool, ...]
#: (defined, needed, saved, extra, tangents): which outputs have a gradient (the others' tangents are None), which
#: inputs want one, and what `tie` was given.
_General = Callable[
    [_Flags, _Flags, list[torch.Tensor], tuple[Any, ...], list[torch.Tensor | None]], _Gradients
]

#: The same with the `history` that `tie` was given and the histories of the outputs, for gradients that have one.
_WithHistory = Callable[
    [
        _Flags, _Flags, list[torch.Tensor], tuple[Any, ...], list[torch.Tensor | None], tuple[Any, ...],
        tuple[torch.Tensor, ...],
    ],
    _Gradients,
]

python_version: str
torch_version: str

class Backward:
    """What all calls of one compiled function share of its backward; immutable.

    `whole([*saved, *extra, *tangents])` is called where every output has a gradient, every input wants one and the
    gradients get no history; `partial` in all other cases without a history; `differentiable` where they get one
    (`create_graph=True`): its last argument are tensors that have the shapes and the histories of the outputs, but no
    numbers of theirs. Nobody else looks at the lists: a function that empties them frees each tensor when it is done
    with it. `inputs_saved` says of each saved tensor whether it exists outside the compiled function.

    It is visible to the garbage collector, the nodes that have it are not (as with torch's own C++ nodes): its
    functions must not hold a tensor that was tied with it.
    """

    def __new__(
        cls,
        name: str,
        whole: Callable[[list[Any]], _Gradients],
        partial: _General,
        differentiable: _WithHistory,
        inputs_saved: _Flags,
    ) -> Backward: ...
    @property
    def name(self) -> str: ...
    @property
    def whole(self) -> Callable[..., _Gradients]: ...
    @property
    def partial(self) -> _General: ...
    @property
    def differentiable(self) -> _WithHistory: ...
    @property
    def inputs_saved(self) -> _Flags: ...

def tie(
    backward: Backward,
    inputs: tuple[torch.Tensor | None, ...],
    outputs: tuple[torch.Tensor, ...],
    saved: tuple[torch.Tensor, ...],
    extra: tuple[Any, ...],
    history: tuple[Any, ...] = (),
    /,
) -> None:
    """Makes `outputs`, computed without a history, results of one autograd node, whose gradients go to `inputs`.

    Of the saved tensors, those that exist outside (inputs, outputs) are checked for later writes and come back with
    their history; private ones are kept as they are. Where the user's saved-tensor hooks are active, all go through
    these. `extra` comes back as it is, and so does `history`, to `differentiable` alone, unless one of its tensors was
    written since.

    The outputs may be differentiated one after the other. Once a backward without `retain_graph` went through all of
    them, the saved tensors are dropped; one through outputs that had theirs already raises torch's own RuntimeError
    (never, if nothing was saved).

    Raises TypeError for what is no tensor, for an output of a dtype without gradients and for a wrong number of saved
    tensors; ValueError for an output that requires a gradient already or is a view. What its functions raise
    comes out of the backward; gradients in a wrong number or of a wrong type are a TypeError there.
    """

def below(function: Callable[..., Any], /, *args: Any) -> Any:
    """`function(*args)` below autograd and autocast: no result gets a history, none is a view, no write is counted, and
    operations run in the dtypes that they are given."""

#: A tensor, for where its gradient goes, or a `torch.autograd.graph.GradientEdge`.
_Edge = torch.Tensor | tuple[Any, ...]

def graft(
    edges: tuple[_Edge, ...], others: tuple[_Edge, ...], made: tuple[_Edge, ...], ends: tuple[_Edge, ...], /
) -> None:
    """Lets gradients that went to `edges` go to the others at the same places, in all that `made` came of.

    That graph is searched down to `edges` and the nodes of `ends`. A tensor among `edges` has that other history itself
    from now on. Others have the shapes and dtypes of what they replace.

    Raises TypeError for what is no tuple of edges, ValueError for more or fewer `others` than `edges`.
    """

class Plan:
    """A plan made native: `build.build` makes it of `codegen.plan.steps.Plan`, `run.run` says what it means.

    Safe in several threads at a time and within itself. It runs below autograd and autocast, as `below` says; what
    operations raise and warn of is what they do in eager mode. Of arguments only the count and the types are checked.
    """

    def __new__(
        cls, source: Any, name: str, parameters: tuple[Any, ...], steps: tuple[Any, ...], results: tuple[Any, ...],
        takes_list: bool, fallback: Callable[..., Any] | None, aligned: tuple[int, ...],
    ) -> Plan: ...
    def __call__(self, *args: Any) -> tuple[Any, ...]: ...
    @property
    def __name__(self) -> str: ...
    @property
    def source(self) -> Any: ...

def plan_counts() -> dict[str, int]:
    """Since the process began: plans made ("plans"), runs of plans ("invocations"), of these, how many their fallbacks
    served ("fallbacks")."""

def workspace_bytes() -> int:
    """How much memory this thread keeps for the blocks of plans."""
