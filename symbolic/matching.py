"""When two calls are the same: what of one stands for what of the other, and what lies at the path of the second."""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.fx.node import map_arg

from symbolic.guards import Guard
from symbolic.operations import Operation, exists, is_made, lies, look
from symbolic.passing import home_of
from symbolic.sources import Source
from symbolic.variables.base import FixedVariable, Variable
from symbolic.variables.constants import CONSTANT_TYPES, ConstantVariable, same_constant
from symbolic.variables.containers import TupleVariable
from symbolic.variables.hook_dicts import HooksVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.objects import ObjectVariable, instance_dict
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.unread import LayerNumber

if TYPE_CHECKING:
    from symbolic.translator import Translator

_DICTS = (dict, OrderedDict)
_SIZED = (*_DICTS, list, tuple)
#: Objects whose attributes are read without running anybody's code.
_SIMPLE = (FunctionType, MethodType, torch.Tensor, torch.nn.Parameter)
#: Constants of which the program may compute several that are equal.
_COMPUTED = (int, float, complex, str, bytes)


class Differs(Exception):
    """The two calls are not the same."""


@dataclass(slots=True, eq=False)
class Found:
    """`value` was taken in from `source` as `variable`, for the first time if `is_new`; what was `told` then."""

    source: Source
    value: Any
    variable: Variable
    is_new: bool
    told: list[Event]
    started: int

    @property
    def place(self) -> tuple[str, int]:
        """The user's line that it was needed for, if anything was told."""
        for event in self.told:
            if isinstance(event, Guard):
                return event.filename, event.line
            if isinstance(event, Found) and event.place[1]:
                return event.place
        return "", 0


#: None: something that goes by more than what guards and arguments say.
Event = Guard | Found | None


@dataclass(slots=True, eq=False)
class Facts:
    """All that a call asked of what lies below its module, laid out to be asked of another. `steps` lead from path to
    path: the number of the path that each goes on from (0: the module's; its own is one more than those before it), its
    kind and argument. `rows`: what was told, the number of the path that it is about, the user's line, and whether that
    is a dict."""

    paths: list[Source]
    steps: list[tuple[int, str, Any]]
    rows: list[tuple[Guard | Found, int, tuple[str, int], bool]]

    @classmethod
    def of(cls, events: Iterable[Guard | Found], module: Source) -> Facts:
        numbers: dict[Source, int] = {module: 0}
        steps: list[tuple[int, str, Any]] = []

        def number(path: Source) -> int:
            if path not in numbers:
                assert path.base is not None
                steps.append((number(path.base), path.kind, path.arg))
                numbers[path] = len(numbers)
            return numbers[path]

        rows = [(each, number(each.source), each.place, _is_dict(each)) for each in events if each.source is not None]
        return cls(list(numbers), steps, rows)


def _is_dict(event: Event) -> bool:
    """Whether it is a dict that nobody knew, of which no more was told than that."""
    if not isinstance(event, Found) or not event.is_new or type(event.variable) not in (DictVariable, HooksVariable):
        return False
    return [(type(told), getattr(told, "kind", None)) for told in event.told] == [(Guard, "type")]


@dataclass(slots=True, eq=False)
class Reading:
    """A call of a module that begins: `state` is all that there is besides guards and arguments."""

    module: ObjectVariable
    source: Source
    args: tuple[Variable, ...]
    names: tuple[str, ...]  # of the last of them
    looks: dict[TensorVariable, tuple[Any, ...]]  # of the tensors among the arguments
    state: tuple[Any, ...]
    step: int
    started: int
    told: int  # so many events, known objects, operations, effects
    known: int
    calls: int
    effects: int
    after: fx.Node
    trace: str
    generators: int
    draws: int
    writes: int
    key: Any
    depth: int  # of frames around it
    made: tuple[Variable, ...]  # by the frame, of what it was handed
    is_clean: bool = True  # nothing below the path was looked at before
    is_watched: bool = False  # what it does with these is told
    marks: tuple[int, ...] = ()


# --- where ------------------------------------------------------------------------------------------------------------
class Place:
    """A module and the path to it."""

    def __init__(self, source: Source, module: Any) -> None:
        self._values: dict[Source, Any] = {source: module}
        self._below: dict[Source, bool] = {source: True}

    def has(self, source: Source) -> bool:
        """Whether the path leads through the module."""
        found = self._below.get(source)
        if found is None:
            found = self._below[source] = source.base is not None and self.has(source.base)
        return found

    def value(self, source: Source) -> Any:
        """What lies there. Raises `Differs` if nothing does, and for steps that are not plain look-ups."""
        if source not in self._values:
            assert source.base is not None
            self._values[source] = _step(self.value(source.base), source.kind, source.arg)
        return self._values[source]


def _step(value: Any, kind: str, arg: Any) -> Any:
    """What lies there. Raises `Differs` if nothing does, and for steps that are not plain look-ups."""
    step = _STEPS.get(kind)
    if step is None:
        raise Differs
    try:
        return step(value, arg)
    except (LookupError, AttributeError, ValueError):
        raise Differs from None


def _only(kinds: tuple[type, ...], look: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A look that is taken at objects of exactly these types."""

    def step(value: Any, arg: Any) -> Any:
        if type(value) not in kinds:
            raise Differs
        return look(value, arg)

    return step


def _dict_of(value: Any, arg: Any) -> Any:
    found = instance_dict(value)
    if found is None:
        raise Differs
    return found


#: kind of a step -> (object, the step's argument) -> what lies there
_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "dict": _dict_of,
    "item": _only(_DICTS, lambda value, key: value[key]),
    "index": _only((list, tuple), lambda value, at: value[at]),
    "attr": _only(_SIMPLE, getattr),
    "cell": lambda value, arg: value.cell_contents,
}
#: kind of a fact that is told by itself -> (object, payload) -> whether it holds
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, cls: type(value) is cls,
    "is": lambda value, known: value is known,
    "eq": lambda value, known: same(value, known),
    "len": _only(_SIZED, lambda value, size: len(value) == size),
    "keys": _only(_DICTS, lambda value, keys: same(tuple(value), keys)),
    "absent": _only(_DICTS, lambda value, key: key not in value),
    "no_attr": _only(_SIMPLE, lambda value, name: not hasattr(value, name)),
    "predicate": lambda value, holds: holds(value),
}


# --- sameness ---------------------------------------------------------------------------------------------------------
class Match:
    """What of one call is what of another."""

    def __init__(
        self, old: Reading, new: Reading, exposed: set[Variable], shared: Iterable[Variable],
        memory: set[int] | None,
    ) -> None:  # fmt: skip
        """`shared`: what both come by, besides what each is handed; `memory`: where tensors lie that they may know,
        for calls that write into tensors."""
        self.old, self.new, self.exposed, self.memory = old, new, exposed, memory
        self._lies: dict[int, int] = {}
        self._lie_images: dict[int, int] = {}
        self._sources: dict[Source, Source] = {old.source: new.source}
        self._below = Place(new.source, None)
        self._variables: dict[Variable, Variable] = {old.module: new.module}
        self._images: dict[Variable, Variable] = {new.module: old.module}
        for each in shared:
            self._variables[each] = self._images[each] = each
        self.nodes: dict[fx.Node, fx.Node] = {}
        if old.source is new.source or len(old.args) != len(new.args) or old.names != new.names:
            raise Differs
        for one, other in zip(old.args, new.args, strict=True):
            self.argument(one, other)
        self._given = {node for node in self.nodes.values()}

    def source(self, source: Source | None) -> Source:
        """The same path from the other module on."""
        assert source is not None
        found = self._sources.get(source)
        if found is None:
            base = None if source.base is None else self.source(source.base)
            found = source if base is source.base else base.step(source.kind, source.arg)  # type: ignore[union-attr]
            if found is source and self._below.has(source):
                raise Differs  # both would be one
            self._sources[source] = found
        return found

    def follow(self, facts: Facts, module: Any) -> tuple[list[Source], list[Any]]:
        """These paths from the other module on, and what lies there. Raises `Differs` where nothing does."""
        sources, values = [self.new.source], [module]
        for base, kind, arg in facts.steps:
            values.append(_step(values[base], kind, arg))
            sources.append(sources[base].step(kind, arg))
        self._sources.update(zip(facts.paths, sources, strict=True))
        return sources, values

    def variable(self, old: Variable, new: Variable) -> None:
        """The two stand for each other, and for no others."""
        if self._variables.setdefault(old, new) is not new or self._images.setdefault(new, old) is not old:
            raise Differs
        if isinstance(old, TensorVariable) and isinstance(new, TensorVariable):
            self.nodes[old.node] = new.node
            if self.memory is not None:
                one, other = lies(old), lies(new)
                if self._lies.setdefault(one, other) != other or self._lie_images.setdefault(other, one) != one:
                    raise Differs

    def apart(self, old: Variable, new: Variable) -> None:
        """The same, and the calls come by them in no other way."""
        if old is not new and (old in self.exposed or new in self.exposed):
            raise Differs
        if self.memory and old is not new and isinstance(old, TensorVariable) and isinstance(new, TensorVariable):
            if not self.memory.isdisjoint((lies(old), lies(new))):
                raise Differs
        self.variable(old, new)

    def argument(self, old: Variable, new: Variable) -> None:
        if type(old) is ConstantVariable:
            if type(old) is not type(new) or not same(old.constant(), new.constant()):
                raise Differs
        elif type(old) is TupleVariable and type(new) is TupleVariable:
            if old.python_type() is not new.python_type() or old.source is not new.source:
                raise Differs
            self.apart(old, new)
            self.each(self.argument, old.items, new.items)
        elif isinstance(old, TensorVariable):
            if old is not new and not type(old) is type(new) is TensorVariable:
                raise Differs
            if old.source is not new.source or self.old.looks[old] != self.new.looks[new]:
                raise Differs
            self.apart(old, new)
        elif old is new and is_made(old):
            if not (self.old.is_watched and self.new.is_watched) or old in self.exposed:
                raise Differs
        elif old is not new or not (isinstance(old, FixedVariable) or exists(old)):
            raise Differs

    @staticmethod
    def each(compare: Callable[[Any, Any], None], old: Any, new: Any) -> None:
        if len(old) != len(new):
            raise Differs
        for one, other in zip(old, new, strict=True):
            compare(one, other)

    def event(self, old: Event, new: Event) -> None:
        """Raises `Differs` if the new one is not what the old one is at the other place."""
        if type(old) is not type(new) or old is None or old.source is None:
            raise Differs
        if self.source(old.source) is not new.source:  # type: ignore[union-attr]
            raise Differs
        if isinstance(old, Guard):
            assert isinstance(new, Guard)
            if old.kind != new.kind:
                raise Differs
            known = self.source(old.payload) if old.kind == "same" else old.payload
            if known is not new.payload and not same(known, new.payload):
                raise Differs
        else:
            assert isinstance(new, Found)
            if old.is_new is not new.is_new or type(old.variable) is not type(new.variable):
                raise Differs
            if self.old.is_watched and self.new.is_watched and _is_free(old) and _is_free(new):
                self._variables[old.variable] = new.variable
                return
            if old.told or new.told:
                self.each(self.event, old.told, new.told)
            if not isinstance(old.variable, ConstantVariable):
                self.variable(old.variable, new.variable)

    def node(self, node: fx.Node) -> fx.Node:
        found = self.nodes.get(node)
        if found is None:
            if node in self._given:
                raise Differs  # both would be one
            return node
        return found

    def operation(self, old: fx.Node, new: fx.Node) -> None:
        trace = self.new.trace + old.meta["stack_trace"][len(self.old.trace) :]
        if old.op != new.op or not same(old.target, new.target) or trace != new.meta["stack_trace"]:
            raise Differs
        if not same(map_arg((old.args, old.kwargs), self.node), (new.args, new.kwargs)):
            raise Differs
        self.nodes[old] = new

    def step(self, old: fx.Node | Operation, new: fx.Node | Operation) -> None:
        if isinstance(old, Operation) and isinstance(new, Operation):
            self.performed(old, new)
        elif isinstance(old, fx.Node) and isinstance(new, fx.Node):
            self.operation(old, new)
        else:
            raise Differs

    def performed(self, old: Operation, new: Operation) -> None:
        """Two operations on what the frame made, each with what came of it."""
        if not old.is_like(new) or (old.step - self.old.step, old.steps) != (new.step - self.new.step, new.steps):
            raise Differs
        trace = self.new.trace + old.trace[len(self.old.trace) :]
        if trace != new.trace:
            raise Differs
        self.each(self.handed, [*old.args, *old.kwargs.values()], [*new.args, *new.kwargs.values()])
        self.answered(old.result, new.result)

    def handed(self, old: Variable, new: Variable) -> None:
        """What an operation is handed on."""
        if self._variables.get(old) is new:
            return
        if isinstance(old, TensorVariable) and isinstance(new, TensorVariable):
            if self.node(old.node) is not new.node:
                raise Differs
            self.variable(old, new)
        elif isinstance(old, TupleVariable) and isinstance(new, TupleVariable):
            if old.python_type() is not new.python_type():
                raise Differs
            self.variable(old, new)
            self.each(self.handed, old.items, new.items)
        elif isinstance(old, ConstantVariable) and isinstance(new, ConstantVariable):
            if not same(old.constant(), new.constant()):
                raise Differs
        elif old is not new or not (isinstance(old, FixedVariable) or exists(old) or is_made(old)):
            raise Differs

    def answered(self, old: Variable | None, new: Variable | None) -> None:
        """What an operation came to."""
        if old is not None and new is not None and self._variables.get(old) is new:
            pass  # known by then
        elif isinstance(old, TensorVariable) and isinstance(new, TensorVariable):
            if not type(old) is type(new) is TensorVariable or look(old.fake) != look(new.fake):
                raise Differs
            if old is not new and (exists(old) or exists(new)):
                raise Differs  # the calls may know it
            self.apart(old, new)
        elif isinstance(old, TupleVariable) and isinstance(new, TupleVariable):
            if old.python_type() is not new.python_type() or old.source is not new.source:
                raise Differs
            self.apart(old, new)
            self.each(self.answered, old.items, new.items)
        elif isinstance(old, ConstantVariable) and isinstance(new, ConstantVariable):
            if old.source is not new.source or not same(old.constant(), new.constant()):
                raise Differs
            self._variables[old] = new
        elif old is not new:
            raise Differs

    def result(self, old: Variable, tx: Translator) -> Variable:
        found = self._variables.get(old)
        if found is not None or exists(old):
            return found or old
        if isinstance(old, TensorVariable):
            found = tx.graph.by_fake[id(self.node(old.node).meta["example_value"])]
        elif isinstance(old, TupleVariable):
            found = tx.new_tuple([self.result(item, tx) for item in old.items], old.python_type())
        elif type(old) is ConstantVariable and type(old.value) in _COMPUTED:
            found = ConstantVariable(marshal.loads(marshal.dumps(old.value)))  # if computed, it is another object
        else:
            return old
        self.variable(old, found)
        return found

    def stand_ins(self) -> dict[int, torch.Tensor]:
        """What stands for the stand-ins of the tensors of the other call, by their ids."""
        pairs = self._variables.items()
        return {
            id(old.fake): new.fake
            for old, new in pairs
            if isinstance(old, TensorVariable) and isinstance(new, TensorVariable)
        }

    def same_result(self, old: Variable, new: Variable) -> None:
        if old in self._variables:
            if self._variables[old] is not new:
                raise Differs
        elif isinstance(old, TensorVariable) and isinstance(new, TensorVariable):
            if self.node(old.node) is not new.node:
                raise Differs
        elif isinstance(old, TupleVariable) and isinstance(new, TupleVariable):
            self.each(self.same_result, old.items, new.items)
        elif not (isinstance(old, ConstantVariable) and isinstance(new, ConstantVariable)):
            raise Differs
        elif not same(old.constant(), new.constant()):
            raise Differs


def same(a: Any, b: Any) -> bool:
    """Whether two payloads or arguments of operations say the same."""
    kind = type(a)
    if a is b:
        return True
    if kind is not type(b):
        return False
    if kind in CONSTANT_TYPES:
        return same_constant(a, b)
    if kind in (tuple, list, torch.Size) or home_of(kind) == "torch.fx.immutable_collections" and isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if kind is slice:
        return all(map(same, (a.start, a.stop, a.step), (b.start, b.stop, b.step)))
    if kind in (torch.dtype, torch.device, torch.layout):
        return bool(a == b)
    return home_of(kind).startswith("symbolic.") and hasattr(a, "__dict__") and same(vars(a), vars(b))


def _is_free(event: Found) -> bool:
    """Whether it is a number that nobody but operations looked at."""
    variable = event.variable
    return isinstance(variable, LayerNumber) and not variable.is_looked_at
