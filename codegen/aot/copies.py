"""Equal layers of a captured graph: traced a few times, then copied.

Where a captured graph repeats itself (`kernels.repeats`), each repeat calls the same operations on values of the same
looks, so its trace is that of the one before, but for which nodes these are. That is not taken for granted: the first
repeats are traced. Once two in a row were recorded alike, each node of the one being that of the other, moved by a
repeat, and neither did anything but record new values, the nodes of all that follow are copies. A repeat may write what
it has made itself: that is recorded as new values, too.

What is copied are nodes, each with a stand-in that lies in memory like the one that it is a copy of. Only what others
than repeats read, and must be whole memories that nobody has written, is known to the recorder. Gradients, writes to
others' memory, random numbers, constants, sizes that vary: what leaves another trace than nodes is traced each time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_arg
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _disable_current_modes

from codegen.aot.leaves import Switches
from codegen.aot.memory import Memory, storage_of
from codegen.aot.mutations import Written
from codegen.aot.recorder import Recorder
from codegen.aot.views import BY_PLACE
from codegen.kernels.likeness import contents
from codegen.kernels.repeats import Run, find
from symbolic.fakes import FakeMode, Recipe
from symbolic.matching import look, same
from symbolic.schemas import bind
from symbolic.torch_state import TorchState

aten = torch.ops.aten
_PLAIN = frozenset({
    bool, int, float, str, type(None), type(...), torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip
_LISTS = (tuple, list)
_META = {"stack_trace", "example_value"}
#: Where two repeats are not recorded alike by then, none is copied.
TRACED = 5
#: Graphs of fewer nodes have no eight layers.
FEWEST = 32


@dataclass(frozen=True)
class Repeating:
    """A captured graph, and where it does the same again and again, as far as its text tells."""

    nodes: tuple[fx.Node, ...]
    runs: tuple[Run, ...]


def repeating(graph: fx.Graph) -> Repeating:
    nodes = tuple(graph.nodes)
    return Repeating(nodes, find(tuple(_lines(nodes))) if len(nodes) > FEWEST else ())


class _Operand:
    """Stands for a node among arguments."""

    def __repr__(self) -> str:
        return "%"


_OPERAND = _Operand()


def _lines(nodes: Sequence[fx.Node]) -> Iterator[tuple[str, Any, str, tuple[int, ...], Any]]:
    """Equal for nodes of the same operation on other nodes: see `Likeness`. What is out of the ordinary is like nothing
    else."""
    numbers: dict[fx.Node, int] = {}
    operands: list[int] = []

    def operand(node: fx.Node) -> Any:
        operands.append(numbers[node])
        return _OPERAND

    for node in nodes:
        operands.clear()
        given = map_arg((node.args, node.kwargs), operand)
        numbers[node] = len(numbers)
        value = _properties(node.meta.get("example_value"))
        what: Any = None if node.op in ("placeholder", "output") else node.target
        gives = node.op != "output" and what is not operator.setitem
        if gives and value is None or what is not None and not _is_ordinary(node, given):
            what = object()
        yield node.op, what, repr(given), tuple(operands), value


def _is_ordinary(node: fx.Node, given: Any) -> bool:
    return node.op in ("call_function", "call_method") and node.meta.keys() == _META and _is_plain(given)


def _properties(value: Any) -> Any:
    if type(value) is FakeTensor and value.layout is torch.strided:
        return value.dtype, value.device, tuple(value.shape), value.stride(), value.storage_offset()
    if type(value) in _LISTS or type(value).__module__ == "torch.return_types":
        found = tuple(map(_properties, value))
        return None if None in found else (type(value), found)
    return None


def _is_plain(value: Any) -> bool:
    """Whether its text is all that there is to an argument."""
    if isinstance(value, _LISTS):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if type(value) is slice:
        return _is_plain((value.start, value.stop, value.step))
    return type(value) in _PLAIN or value is _OPERAND


# --- one trace --------------------------------------------------------------------------------------------------------
class Copies:
    """The repeats of a captured graph in one trace of it; `env` is what its nodes gave."""

    def __init__(self, graph: Repeating, recorder: Recorder, env: Mapping[fx.Node, Any]) -> None:
        self.places: dict[fx.Node, tuple[_Copied, int, int]] = {}
        for run in graph.runs:
            copied = _Copied(run, graph.nodes, recorder, env)
            for at in range(run.start, run.end):
                self.places[graph.nodes[at]] = (copied, *divmod(at - run.start, run.period))

    def value(self, node: fx.Node, trace: Callable[[fx.Node], Any]) -> Any:
        """What a node of the captured graph gives: by tracing it, or a copy, which is None where only copies read it.
        """
        place = self.places.get(node)
        if place is None:
            return trace(node)
        copied, repeat, at = place
        if at == 0 and copied.pattern is None and repeat < TRACED:
            with _untold():
                copied.begin(repeat)
        if copied.pattern is None:
            return copied.traced(node, at, trace)
        with _untold():
            return copied.copy(repeat, at)


def copies_of(
    mode: Any, args: Sequence[Any], graph: Callable[[], Repeating], env: Mapping[fx.Node, Any]
) -> Copies | None:
    """Under the mode that records the trace; None where nothing is copied."""
    if not isinstance(mode, Recorder) or type(mode.fake_mode) is not FakeMode or mode.fake_mode.shape_env is not None:
        return None
    if torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
        return None
    with _untold():
        return Copies(graph(), mode, env) if graph().runs else None


#: The modes that follow torch's functions hear nothing inside, which takes half of the time.
_untold = torch._C.DisableTorchFunction


@dataclass(eq=False)
class _Traced:
    """A repeat that is traced: torch's state and the recorder's before it, all memories that there were, the nodes of
    its inputs, those that each of its operations left, and what was given to others."""

    state: Any
    memories: tuple[Memory, ...]
    own: list[fx.Node]
    nodes: list[list[fx.Node]] = field(default_factory=list)
    given: dict[int, Any] = field(default_factory=dict)
    random: list[fx.Node] = field(default_factory=list)
    touched: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.touched = _touched(self.memories)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was done since to memories that were there before it."""
        return self.touched == _touched(self.memories)

    @property
    def flat(self) -> list[fx.Node]:
        return [node for each in self.nodes for node in each]


@dataclass(frozen=True)
class _New:
    """A stand-in with memory of its own."""

    recipe: Recipe


@dataclass(frozen=True)
class _View:
    """A stand-in in the memory of a node's."""

    of: fx.Node
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class _Item:
    """One of the values of a node."""

    of: fx.Node
    at: int


@dataclass(frozen=True)
class _Several:
    kind: type
    parts: tuple[_Made, ...]


#: How the value of a node is made; None: it is None.
_Made = _New | _View | _Item | _Several | None


@dataclass(eq=False)
class _Pattern:
    """The last repeat that was traced: the nodes of its inputs, of the repeat before, and its own by the operations
    that left them. `made`: how the value of each is made; `given`: operations whose results others than repeats read,
    and the nodes that these are; `random`: those that count as random numbers."""

    own: list[fx.Node]
    before: list[fx.Node]
    nodes: list[list[fx.Node]]
    made: dict[fx.Node, _Made]
    given: dict[int, fx.Node]
    random: list[fx.Node]


class _Differs(Exception):
    """The repeats are not recorded alike, or there is more to them than nodes."""


class _Copied:
    """A run in one trace."""

    def __init__(
        self, run: Run, nodes: Sequence[fx.Node], recorder: Recorder, env: Mapping[fx.Node, Any]
    ) -> None:
        self.run = run
        self.own = [[nodes[at] for at in own] for own in run.own]
        within = set(nodes[run.start : run.end])
        #: The operations of a repeat whose results others than repeats read.
        self.read = {
            at % run.period
            for at in range(run.end - run.start)
            if any(user not in within for user in nodes[run.start + at].users)
        }
        self.recorder = recorder
        self.env = env
        self.repeats: list[_Traced] = []
        self.pattern: _Pattern | None = None
        self._image: dict[fx.Node, fx.Node] = {}  # of the pattern's nodes, in the repeat that is copied
        self._new: dict[fx.Node, Any] = {}  # and their values

    # --- tracing ------------------------------------------------------------------------------------------------------
    def begin(self, repeat: int) -> None:
        """A repeat begins: it is copied, with all that follow, if the two before were recorded alike."""
        state = self._state()
        try:
            if len(self.repeats) > 2:
                self.pattern = self._found(self.repeats[-3:], state)
                for later in range(repeat, self.run.count):
                    self._check_own(later)
                self.repeats.clear()
                return
        except _Differs:
            self.pattern = None
        try:
            own = [self._input(node) for node in self.own[repeat]]
        except _Differs:
            own = []
        self.repeats.append(_Traced(state, (*self.recorder.memories.values(),), own))

    def traced(self, node: fx.Node, at: int, trace: Callable[[fx.Node], Any]) -> Any:
        graph = self.recorder.graph
        if not self.repeats or len(self.repeats[-1].nodes) != at:
            return trace(node)
        last, count = graph._root.prev, len(self.recorder.randoms)
        value = trace(node)
        found = []
        while last.next.op != "root":
            last = last.next
            found.append(last)
        if any(each.op == "get_attr" for each in found) and node.target is not torch.tensor:
            self.repeats.clear()  # who knows what it is the next time
            return value
        self.repeats[-1].nodes.append(found)
        self.repeats[-1].random += self.recorder.randoms[count:]
        if at in self.read:
            self.repeats[-1].given[at] = value
        return value

    def _state(self) -> Any:
        """All that an operation may depend on, or leave behind, besides nodes and values."""
        recorder = self.recorder
        modes = [mode for mode in _get_current_function_mode_stack() if isinstance(mode, Switches)]
        return (
            vars(TorchState()), recorder.phase, recorder.has_numbers, recorder.redrawn, len(recorder.casts),
            *((len(mode.seen), mode.asked) for mode in modes),
        )  # fmt: skip

    def _input(self, node: fx.Node) -> fx.Node:
        """The trace's node of an input that is as it came, and shares memory with no other."""
        value = self.env.get(node)
        alias = self.recorder.aliases.get(id(value))
        if alias is None or not isinstance(value, FakeTensor):
            raise _Differs
        memory, found = alias.memory, alias.node
        if memory.inputs != [found] or memory.writes or memory.reached or alias.former is not None or alias.steps:
            raise _Differs
        if not self.recorder.is_there(alias) or value is not found.meta["val"]:
            raise _Differs
        return found

    def _check_own(self, repeat: int) -> None:
        """Raises _Differs if inputs of a repeat look otherwise than those of the pattern."""
        assert self.pattern is not None
        for node, known in zip(self.own[repeat], self.pattern.own, strict=True):
            if look(self._input(node).meta["val"]) != look(known.meta["val"]):
                raise _Differs

    # --- copies -------------------------------------------------------------------------------------------------------
    def _found(self, traced: Sequence[_Traced], state: Any) -> _Pattern:
        """What is to be copied of the last of three. Raises _Differs where it is to the one before not as this is to
        the first."""
        first, one, other = traced
        if not one.state == other.state == state or not (one.is_clean and other.is_clean):
            raise _Differs
        if list(map(len, one.nodes)) != list(map(len, other.nodes)):
            raise _Differs
        if not len(one.own) == len(other.own) == len(self.own[0]) or any(map(_differ, one.own, other.own)):
            raise _Differs
        image = dict(zip(first.flat, one.flat, strict=False)) | dict(zip(one.own, other.own, strict=True))
        made = self._made(one.flat), self._made(other.flat)
        for old, new in zip(one.flat, other.flat, strict=True):
            if not _is_pure(old) or not self._is_same_target(old, new) or _differ(old, new):
                raise _Differs
            arguments = map_arg((old.args, old.kwargs), lambda node: image.get(node, node))
            if not same(arguments, (new.args, new.kwargs)) or _moved(made[0][old], image) != made[1][new]:
                raise _Differs
            image[old] = new
        if any(_noted(old, image) != _noted(new, {}) for old, new in zip(one.flat, other.flat, strict=True)):
            raise _Differs
        given = {at: self._whole(value, other.nodes[at]) for at, value in other.given.items()}
        values = self._values(made[1], {})
        for node, value in values.items():  # made once more it has to look like that
            if _looks(value) != _looks(node.meta["val"]):
                raise _Differs
        if any(look(values[node]) != look(node.meta["val"]) for node in given.values()):
            raise _Differs
        return _Pattern(other.own, one.flat, other.nodes, made[1], given, other.random)

    def _made(self, nodes: list[fx.Node]) -> dict[fx.Node, _Made]:
        """How their values are made. Raises _Differs where more than its looks would be lost of one."""
        mode = self.recorder.fake_mode
        assert isinstance(mode, FakeMode)
        known = set(nodes)
        parts = [each for node in nodes if node.target is not operator.getitem for each in _parts(node.meta["val"])]
        owners: dict[int, fx.Node] = {}  # of memories, so far
        based = []
        for node in nodes:
            value = node.meta["val"]
            based += [(each, _base(node, each, owners)) for each in _parts(value)]
            if isinstance(value, torch.Tensor):
                owners.setdefault(storage_of(value)._cdata, node)
        views = {id(each): base for each, base in based if base is not None}
        new = {id(each): each for each in parts if id(each) not in views}
        read = {given: None for node in nodes for given in node.all_input_nodes if given not in known}
        recipes = mode.recipe([*new.values()], [each for node in read for each in _parts(node.meta["val"])])
        if recipes is None or any(is_view for _, is_view in recipes):
            raise _Differs
        found = dict(zip(new, recipes, strict=True))

        def made(value: Any) -> _Made:
            if type(value) in _LISTS:
                return _Several(type(value), tuple(map(made, value)))
            if value is None:
                return None
            if id(value) in found:
                return _New(found[id(value)])
            if id(value) not in views:
                raise _Differs
            return _View(views[id(value)], tuple(value.shape), value.stride(), value.storage_offset())

        def made_by(node: fx.Node) -> _Made:
            value = node.meta["val"]
            if node.target is not operator.getitem:
                return made(value)
            of, at = node.args
            assert isinstance(of, fx.Node) and isinstance(at, int)
            if of not in known or value is not of.meta["val"][at]:
                raise _Differs
            return _Item(of, at)

        return {node: made_by(node) for node in nodes}

    def _is_same_target(self, one: fx.Node, other: fx.Node) -> bool:
        """The same operation, or constants that are alike."""
        if one.op != other.op or one.op != "get_attr":
            return one.op == other.op and one.target is other.target
        values = (getattr(self.recorder.attributes, str(node.target)) for node in (one, other))
        with _disable_current_modes():
            first, second = map(contents, values)
        return bool(first == second)

    def _whole(self, value: Any, nodes: list[fx.Node]) -> fx.Node:
        """The node of a result that is a memory of its own, which nobody has written, and knows no more than that."""
        alias = self.recorder.aliases.get(id(value))
        if alias is None or alias.node not in nodes or alias.node.meta["val"] is not value:
            raise _Differs
        memory = alias.memory
        is_new = alias.origin is value and not (alias.steps or alias.taken is not None or alias.former is not None)
        if not is_new or memory.root is not alias.node or not memory.is_own or memory.writes or memory.reached:
            raise _Differs
        return alias.node

    def copy(self, repeat: int, at: int) -> Any:
        """The nodes of an operation once more; answers with what others than repeats read."""
        pattern, image = self.pattern, self._image
        assert pattern is not None
        if at == 0:
            before = [image.get(node, node) for each in pattern.nodes for node in each]
            image.clear()
            image.update(zip(pattern.before, before, strict=False))
            image.update(zip(pattern.own, map(self._input, self.own[repeat]), strict=True))
            self._new = self._values(pattern.made, image)
        for node in pattern.nodes[at]:
            image[node] = self.recorder.again(node, image, self._new[node])
            if node in pattern.random:
                self.recorder.randoms.append(image[node])
        for node in pattern.nodes[at]:
            if (note := _noted(node, image)) is not None:
                image[node].meta["written"] = note
        given = pattern.given.get(at)
        if given is None:
            return None
        self.recorder.bear(image[given])
        return image[given].meta["val"]

    def _values(self, made: Mapping[fx.Node, _Made], image: Mapping[fx.Node, fx.Node]) -> dict[fx.Node, Any]:
        """New values of these nodes; others that they show are their images'."""
        mode = self.recorder.fake_mode
        assert isinstance(mode, FakeMode)
        values: dict[fx.Node, Any] = {}

        def value(made: _Made) -> Any:
            match made:
                case _New(recipe):
                    return mode.made(recipe)
                case _View(of, sizes, strides, start):
                    base = values[of] if of in values else image.get(of, of).meta["val"]
                    return mode.view(base, sizes, strides, start)
                case _Item(of, at):
                    return values[of][at]
                case _Several(kind, parts):
                    return kind(map(value, parts))
            return None

        for node, each in made.items():
            values[node] = value(each)
        return values


def _parts(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a node's value. Raises _Differs for what else it may be."""
    if type(value) in _LISTS:
        for each in value:
            yield from _parts(each)
    elif isinstance(value, torch.Tensor):
        yield value
    elif value is not None:
        raise _Differs


def _base(node: fx.Node, value: torch.Tensor, owners: Mapping[int, fx.Node]) -> fx.Node | None:
    """The argument of an operation whose memory a tensor among its results shares; of a view of what was written since,
    one of the `owners` of memories. Raises _Differs where that is of another dtype, or a part of an argument."""
    if node.target is operator.getitem:
        return None
    memory = storage_of(value)._cdata
    owner = owners.get(memory)
    for given in node.all_input_nodes if owner is None else (*node.all_input_nodes, owner):
        shown = given.meta["val"]
        if any(storage_of(each)._cdata == memory for each in _parts(shown)):
            if shown.dtype is not value.dtype or not isinstance(shown, FakeTensor):
                raise _Differs
            return given
    return None


def _moved(made: _Made, image: Mapping[fx.Node, fx.Node]) -> _Made:
    match made:
        case _View(of, sizes, strides, start):
            return _View(image.get(of, of), sizes, strides, start)
        case _Item(of, at):
            return _Item(image.get(of, of), at)
        case _Several(kind, parts):
            return _Several(kind, tuple(_moved(part, image) for part in parts))
    return made


def _noted(node: fx.Node, image: Mapping[fx.Node, fx.Node]) -> Written | None:
    """The note of a node that stands for a write, of these images."""
    note = node.meta.get("written")
    if note is None:
        return None
    return Written(note.func, tuple((image.get(old, old), image.get(new, new)) for old, new in note.values))


def _touched(memories: Iterable[Memory]) -> tuple[int, int]:
    return sum(memory.writes for memory in memories), sum(memory.reached for memory in memories)


def _is_pure(node: fx.Node) -> bool:
    """Whether all that the operation of a node does is to give new values, or views."""
    func = node.target
    if node.op == "get_attr" or func is operator.getitem:
        return True
    if not isinstance(func, OpOverload) or func._schema.is_mutable or func in BY_PLACE:
        return False
    draws = torch.Tag.nondeterministic_seeded in func.tags
    return not draws or bind(func, node.args, node.kwargs).get("dropout_p") == 0  # attention, which draws nothing then


def _looks(value: Any) -> Any:
    """How what stands for a value lies in memory, and all that operations go by."""
    if type(value) in _LISTS:
        return type(value), *map(_looks, value)
    if not isinstance(value, torch.Tensor):
        return value
    lies = value.shape, value.stride(), value.storage_offset(), value.untyped_storage().nbytes()
    keys = torch._C._dispatch_keys(value).raw_repr()
    return type(value), value.dtype, value.device, value.requires_grad, value.is_inference(), keys, *lies


def _differ(one: fx.Node, other: fx.Node) -> bool:
    return bool(_looks(one.meta["val"]) != _looks(other.meta["val"]))
