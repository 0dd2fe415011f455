"""Generators that existed before the frame: their suspended frames are read, and go on while tracing.

The residual code moves the real one by as many steps, which run its code again. So a step may do nothing but compute
with its own variables, and what it yields must be there without it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import CodeType, GeneratorType
from typing import TYPE_CHECKING, Any

from symbolic import versions
from symbolic.code import decode, slot_names
from symbolic.errors import GraphBreak, Observed, Restart
from symbolic.frames import Frame
from symbolic.sources import Source
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.functions import PythonFunction
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.native import IteratorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


RUNNING, ENDED = -2, -3


def stands_at(generator: GeneratorType[Any, Any, Any]) -> int:
    """The offset of the instruction that it stands at, or one of these."""
    if generator.gi_running:
        return RUNNING
    return ENDED if generator.gi_frame is None else generator.gi_frame.f_lasti


def bound_names(generator: GeneratorType[Any, Any, Any]) -> tuple[str, ...]:
    """Names of its slots that hold something, in order."""
    code, held = generator.gi_code, _slots_and_stack(generator)
    bound = _variables(generator)
    cells = set(code.co_cellvars) | set(code.co_freevars)
    names = tuple(name for name in slot_names(code) if name in cells or name in bound)
    return names if len(names) <= len(held) else ()


def _variables(generator: GeneratorType[Any, Any, Any]) -> dict[str, Any]:
    """What its frame calls its values. Before 3.13 the frame keeps what it answered, and so the values: it is emptied,
    unless the program has it, too."""
    told = generator.gi_frame.f_locals  # type: ignore[union-attr]
    found = dict(told)
    if isinstance(told, dict) and sys.getrefcount(told) == _KEPT_BY_FRAME:
        for name in slot_names(generator.gi_code):
            told.pop(name, None)
    return found


#: references to the dict: the frame's, the variable's and the argument's
_KEPT_BY_FRAME = 3


def held_values(generator: GeneratorType[Any, Any, Any]) -> tuple[Any, ...]:
    """What its slots and its stack hold, in order."""
    return tuple(_slots_and_stack(generator))


def _slots_and_stack(generator: GeneratorType[Any, Any, Any]) -> Sequence[Any]:
    """The collector is told of a frame's code, then of slots and stack."""
    if generator.gi_frame is None:
        return ()
    referents = gc.get_referents(generator)
    return referents[max(at for at, each in enumerate(referents) if each is generator.gi_code) + 1 :]


#: What goes on after `yield` as a statement, or the right side of one: the stack has but the iterators of loops.
_STATEMENTS = ("POP_TOP", "STORE_FAST", "STORE_DEREF")


class _Body(PythonFunction):
    """The function behind an existing generator, as far as tracing asks for it."""

    def __init__(self, code: CodeType, namespace: Variable) -> None:
        self.code = code
        self._namespace = namespace

    def namespace(self, tx: Translator) -> Variable:
        return self._namespace


def step(tx: Translator, moved: Any, model: Variable) -> Variable | None:
    """What an existing iterator or generator gives next, as its model tells."""
    outer, tx.moving = tx.moving, moved
    try:
        return model.next(tx)
    except Observed as raised:
        raise GraphBreak("existing iterator that raises", moved.describe()) from raised
    finally:
        tx.moving = outer


def repeated_step(tx: Translator, moved: Any, model: Variable) -> Variable | None:
    """The same of one whose step runs the program's code, as the real one will again: it may do nothing but compute."""
    before = (len(tx.ledger.written), tx.graph.calls)
    item = step(tx, moved, model)
    if before != (len(tx.ledger.written), tx.graph.calls):
        raise GraphBreak("existing generator that does more than compute", moved.describe())
    if not _is_there(item):
        raise GraphBreak("existing generator that yields what it makes", moved.describe())
    if tx.moving is None:
        tx.moved_generators.append(moved)
    return item


def _is_there(item: Variable | None) -> bool:
    return item is None or item.source is not None or item.is_constant()


def tell(tx: Translator, moved: Any) -> None:
    """That one has been moved: the ledger, or the one that moved it."""
    if tx.moving is None:
        tx.ledger.advance(moved, frozenset((moved, *moved.reached)))
    else:
        tx.moving.reached |= {moved, *moved.reached}


class LiveGenerator(IteratorVariable):
    """An existing generator. Nothing of it is guarded before its first step, at `born_at`."""

    KIND = GeneratorType

    def __init__(self, value: GeneratorType[Any, Any, Any], source: Source) -> None:
        self.value = value
        self.source = source
        self.born_at = 0
        self._model: GeneratorVariable | None = None
        self.reached: set[Variable] = set()  # besides itself, or it would live until garbage is collected

    def reachable(self) -> list[Variable]:
        return []  # it holds what it held

    def is_quiet(self) -> bool:
        return True

    def next(self, tx: Translator) -> Variable | None:
        self.born_at = self.born_at or tx.anchor()
        if self._model is None:
            self._model = self._read(tx)
        if self._model is None:
            return None
        item = repeated_step(tx, self, self._model)
        if item is None and not (self._model.returned.is_constant() and self._model.returned.constant() is None):
            raise GraphBreak("existing generator that returns a value", self.describe())
        self._check_stack(self._model.frame)
        tell(tx, self)
        return item

    def _read(self, tx: Translator) -> GeneratorVariable | None:
        """Its suspended frame, guarded to stand where it stands; None if it has ended."""
        source, code, real = self.source, self.value.gi_code, self.value.gi_frame
        assert source is not None
        place = stands_at(self.value)
        if place == RUNNING:
            raise GraphBreak("generator that is running", self.describe())
        if place == ENDED:
            tx.know(source.step("call", stands_at), "eq", place)
            return None
        names, values, variables = bound_names(self.value), held_values(self.value), _variables(self.value)
        tx.know(source.attr("gi_code"), "is", code)
        tx.know(source.step("call", stands_at), "eq", place)
        tx.know(source.step("call", bound_names), "eq", names)
        tx.know(source.step("call", held_values), "len", len(values))
        body = _Body(code, tx.namespace(real.f_globals))
        tx.know(source.attr("gi_frame").attr("f_globals"), "is", real.f_globals)
        tx.check_inline(body)
        frame = Frame(decode(code), code.co_name, tx.namespace(real.f_globals), body)
        at = source.step("call", held_values)
        held = [held_value(tx, value, at.step("index", position)) for position, value in enumerate(values)]
        cells = set(code.co_cellvars) | set(code.co_freevars)
        for name, variable in zip(names, held, strict=False):
            (frame.cells if name in cells else frame.locals)[name] = variable
            if name not in cells and values[names.index(name)] is not variables[name]:
                raise GraphBreak("generator whose frame can't be read", self.describe())
        has_handled = len(values) > len(names) and values[-1] is None  # an error, in whose place there is None then
        frame.stack = held[len(names) : len(held) - has_handled]
        frame.index = frame.code.index(place + versions.GOES_ON_AFTER)
        frame.current = frame.index - 1
        self._check_stack(frame)
        if frame.code.insts[frame.index].op not in _STATEMENTS:
            raise GraphBreak("generator that stands inside of an expression", self.describe())
        model = GeneratorVariable(body, [], {}, frame, self.born_at)
        model.state = "suspended"
        model.number = -1  # what it has left to do is the real one's affair
        return model

    def _check_stack(self, frame: Frame) -> None:
        """The stack has but the iterators of loops: no manager or exception, whose end is still to come."""
        if not all(hasattr(each.python_type(), "__next__") for each in frame.stack):
            raise GraphBreak("generator that stands inside of an expression", self.describe())


def held_value(tx: Translator, value: Any, source: Source) -> Variable:
    """A value of the frame; numbers that vary are not the graph's affair: the generator must compute with them."""
    if type(value) not in (int, float):
        return tx.wrap(value, source)
    tx.know(source, "eq", value)
    return ConstantVariable(value, source)


def check_alone(tx: Translator, targets: Sequence[Variable]) -> None:
    """Raises Restart where a generator that runs its steps again might meet what the frame has changed meanwhile."""
    others = [target for target in targets if target.source is not None]
    for generator in tx.moved_generators:
        if others:
            cause = GraphBreak("existing generator beside changes", others[0].describe())
            raise Restart(generator.born_at, cause)


def wrap_generator(tx: Translator, value: GeneratorType[Any, Any, Any], source: Source) -> Variable:
    tx.know(source, "type", GeneratorType)
    return LiveGenerator(value, source)
