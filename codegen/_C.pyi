"""What a compiled graph runs through: its plan and its autograd node (sources in codegen/csrc)."""

from collections.abc import Callable
from typing import Any

import torch

#: Per input: its gradient, or None for none.
_Gradients = tuple[torch.Tensor | None, ...]
_Flags = tuple[bool, ...]
#: (defined, needed, released, has_history) -> (function, read, released, kept), see `Backward`.
_Choose = Callable[
    [_Flags, _Flags, int, bool], tuple[Callable[[list[Any]], _Gradients], _Flags, int, _Flags]
]

#: What torch says of a backward whose saved tensors are not there any more.
backward_twice: str
python_version: str
torch_version: str

class Backward:
    """What all calls of one compiled function share of its backward; immutable.

    `whole([*saved, *extra, *tangents])` is called where every output has a gradient, every input wants one, the
    gradients get no history and nothing was let go of yet, unless it is None. In all other cases `choose` is asked:
    which outputs have a gradient, which inputs want one, what was `released` (an int of its own making, 0 at first, -1
    if that is everything), and whether the gradients get a history (`create_graph=True`). It answers with

    - a function of the list [*saved, *extra, *tangents], or [*saved, *history, *outputs, *tangents] with a history,
      where the outputs are tensors that have the shapes and the histories of these, but no numbers of theirs;
    - which saved tensors are in that list: no others are unpacked; and with a history, which objects of that it looks
      at: the others may have been written since. Tangents that are not there are not in the list;
    - for a backward without `retain_graph`, what is released afterwards, and which saved tensors are kept;

    or raises. Nobody else looks at the lists: a function that empties them frees each tensor when it is done with it.
    `inputs_saved` says of each saved tensor whether it exists outside the compiled function. `nodes`: how many of the
    first outputs, one after the other, have an autograd node of their own before this one, for hooks to be called and
    ordered by; the other outputs are its own.

    It is visible to the garbage collector, the nodes that have it are not (as with torch's own C++ nodes): its
    functions must not hold a tensor that was tied with it.
    """

    def __new__(
        cls,
        name: str,
        whole: Callable[[list[Any]], _Gradients] | None,
        choose: _Choose,
        inputs_saved: _Flags,
        nodes: tuple[int, ...] = (),
    ) -> Backward: ...
    @property
    def name(self) -> str: ...
    @property
    def whole(self) -> Callable[..., _Gradients] | None: ...
    @property
    def choose(self) -> _Choose: ...
    @property
    def inputs_saved(self) -> _Flags: ...
    @property
    def nodes(self) -> tuple[int, ...]: ...

def tie(
    backward: Backward,
    inputs: tuple[torch.Tensor | None, ...],
    outputs: tuple[torch.Tensor, ...],
    saved: tuple[torch.Tensor, ...],
    extra: tuple[Any, ...],
    history: tuple[Any, ...] = (),
    /,
) -> None:
    """Makes `outputs`, computed without a history, results of one autograd node, be it by way of others (see
    `Backward.nodes`), whose gradients go to `inputs`.

    Of the saved tensors, those that exist outside (inputs, outputs) are checked for later writes and come back with
    their history; private ones are kept as they are. Where the user's saved-tensor hooks are active, all go through
    these. `extra` comes back as it is, and so does `history`, to gradients with a history alone, unless a tensor of it
    that is looked at was written since.

    A backward without `retain_graph` through all outputs and to all inputs lets go of everything, others of what
    `choose` says.

    Raises TypeError for what is no tensor, for an output of a dtype without gradients and for a wrong number of saved
    tensors or outputs; ValueError for an output that requires a gradient already or is a view. What its functions raise
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

def keep_node(tensor: torch.Tensor, /) -> None:
    """A view that was written without a history goes on with the autograd node that it has: autograd would give it
    another one, of the same gradient, when it is asked next. Raises TypeError for what is no tensor."""

def arrange(tensors: tuple[torch.Tensor, ...], /) -> None:
    """Exchanges the ages of the autograd nodes of these: they are as if made in this order, which is that of their
    hooks turned round. Raises TypeError for what is no tuple of tensors."""

class Plan:
    """A plan made native: `build.build` makes it of `codegen.plan.steps.Plan`, `run.run` says what it means.

    Safe in several threads at a time and within itself. It runs below autograd and autocast, as `below` says; what
    operations raise and warn of is what they do in eager mode. Of arguments only the count and the types are checked.
    """

    def __new__(
        cls, source: Any, name: str, parameters: tuple[Any, ...], steps: tuple[Any, ...], results: tuple[Any, ...],
        takes_list: bool, fallback: Callable[..., Any] | None, aligned: tuple[int, ...],
        about: Callable[[], tuple[str | None, ...]] | None = None,
    ) -> Plan: ...
    def __call__(self, *args: Any) -> tuple[Any, ...]: ...
    @property
    def __name__(self) -> str: ...
    @property
    def source(self) -> Any: ...

def plan_counts() -> dict[str, int]:
    """Since the process began: plans made ("plans"), runs of plans ("invocations"), of these, how many their fallbacks
    served ("fallbacks")."""

#: Called after each run of a plan with what it was made with as `about`; by step the nanoseconds (none while launches
#: are recorded as a CUDA graph) and the bytes of tensors that operations were given and gave; what its number slots
#: held.
_Watcher = Callable[[Any, tuple[int, ...], tuple[int, ...], tuple[int, ...]], object]

def watch(function: _Watcher | None, /) -> _Watcher | None:
    """Who is told of each run of a plan in this process, from now on. Answers with who was before."""

def workspace_bytes() -> int:
    """How much memory this thread keeps for the blocks of plans."""
