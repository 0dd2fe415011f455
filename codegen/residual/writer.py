"""Variables back to values: residual bytecode that loads or rebuilds what a variable stands for.

`Writer.load` pushes one value. An object that existed is loaded from its source; one that was born in the frame is
built once and kept in a local, so identity is what it was; shells come before contents where objects hold each other.
"""

from __future__ import annotations

import enum
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bytecode import Label

from codegen.residual import runtime
from codegen.residual.emitter import Emitter
from sideeffects.effects import DELETED, Advance, Call, DelAttr, Effect, Place, SetAttr, SetContents
from sideeffects.ledger import Ledger
from symbolic import callers
from symbolic.errors import GraphBreak, Restart, SkipFrame
from symbolic.passing import is_passing
from symbolic.reach import exists, parts
from symbolic.sources import Source
from symbolic.variables import (
    born,
    classes,
    constants,
    hook_dicts,
    namespaces,
    objects,
)
from symbolic.variables.base import MISSING, FixedVariable, Variable
from symbolic.variables.native import own_keys

_Done = tuple[dict[Variable, str], dict[Source, str], dict[Variable, Variable]]
#: Variables of fixed parts of the program: the object itself is a constant of the residual code.
FIXED = (FixedVariable, namespaces.NamespaceVariable)
#: What a recipe makes.
MADE = (born.BornClass, born.MadeVariable)


class Placeholder(Variable):
    """A value that residual code holds in a local (the result of the instruction that broke the graph)."""

    def __init__(self, name: str) -> None:
        self.name = name


def _whole(variable: Variable) -> Variable:
    """The object whose native part it is, if it is one: a view of a dict, say, is one of the whole."""
    owner = getattr(variable, "owner", None)
    if isinstance(owner, objects.ObjectVariable) and owner.payload is variable and not owner.new_args:
        return owner
    return variable


class Writer:
    """Emits loads and effects of one capture into an emitter."""

    def __init__(self, emit: Emitter, ledger: Ledger, outputs: dict[Variable, str], params: dict[int, str]) -> None:
        self.emit = emit
        self.ledger = ledger
        self.outputs = outputs  # tensors that the graph returns -> local
        self.params = params  # argument slot -> parameter name
        self.values: dict[Source, int] = {}
        self._passing: dict[int, Source] = {}  # by the id of a class
        self.segment = 0  # of the ledger: things are as they are at its end
        self._given: dict[Variable, Variable] = {}  # the state in which a container was left
        self.packed = False  # values come as one tuple; else each is a parameter of its own
        self.has_tracebacks = False  # whose entries hold the frame of this code
        self._built: dict[Variable, str] = {}
        self.failures: list[tuple[Label, Call]] = []  # where calls go that raise
        self._attrs: dict[tuple[Any, str], Any] = {}  # as far as the ledger is replayed
        self._made: set[Call] = set()  # calls that were made ahead of their turn
        self._made_of: dict[Source, str] = {}  # values that this code made of others, and keeps
        self._others: dict[int, Variable] = {}  # id of what tracing has made -> the first that stands for it
        self._building: set[Variable] = set()
        self._cyclic: set[Variable] = set()

    def snapshot(self) -> _Done:
        """What is built so far, and to which state: code after a branch may use only that."""
        return dict(self._built), dict(self._made_of), dict(self._given)

    def restore(self, snapshot: _Done) -> None:
        self._built, self._made_of, self._given = snapshot

    def leave(self, raised: bool = False) -> None:
        """Returns what is on the stack. A frame that a traceback holds, as that of what `raised` may, keeps its locals,
        which may hold that."""
        if self.has_tracebacks or raised:
            self.empty(self.emit.params)
        self.emit.return_value()

    def empty(self, others: Sequence[str] = (), kept: Iterable[Variable] = ()) -> None:
        """Lets go of what this code made and kept in locals, and of these; not of what is `kept`."""
        names = {self._built.get(each) or self.outputs.get(each) for each in kept}
        for name in sorted({*self.emit.own_names(), *others} - names):
            self.emit.const(None)
            self.emit.store(name)

    # --- loads ------------------------------------------------------------------------------------------------------
    def find_cycles(self, roots: Iterable[Variable]) -> None:
        """Marks what holds itself: containers get a shell first, contents afterwards."""
        state: dict[Variable, int] = {}
        stack: list[tuple[Variable, Any]] = [(root, None) for root in roots]
        while stack:
            variable, rest = stack.pop()
            if rest is None:
                if state.get(variable) or exists(variable):
                    continue
                state[variable] = 1
                rest = iter(parts(variable, self.ledger))
            for child in rest:
                if state.get(child) == 1:
                    path = [*(above for above, rest_of_it in stack if rest_of_it is not None), variable]
                    self._cyclic.update(path[path.index(child) :])
                elif child not in state and not exists(child):
                    stack.append((variable, rest))
                    stack.append((child, None))
                    break
            else:
                state[variable] = 2
        # What a class is made of has to be complete by then: no shells.
        args = [arg for each in self._cyclic if isinstance(each, MADE) for arg in each.recipe.args]
        self._cyclic.difference_update(arg for arg in args if not isinstance(arg, MADE))

    def load(self, variable: Variable) -> None:
        """Pushes the value of `variable`."""
        emit = self.emit
        local = self._built.get(variable) or self.outputs.get(variable)
        if local is not None:
            emit.load(local)
        elif isinstance(variable, Placeholder):
            emit.load(variable.name)
        elif isinstance(variable, hook_dicts.HookNumber):
            self.load_source(variable.source)
        elif isinstance(variable, constants.ConstantVariable):
            if variable.source is None and type(variable.value) in constants.ANOTHER:
                self._load_another(variable)
            elif variable.source is not None and variable.source.kind == "arg":
                self.load_source(variable.source)  # the very object, which may be another than the one that it equals
            else:
                self._constant(variable.value)
        elif isinstance(variable, FIXED) and variable.real() is not MISSING:
            self._fixed(variable.real())
        elif variable.source is not None:
            self.load_source(variable.source)
        elif (whole := _whole(variable)).source is not None:  # a part of an object that exists
            self.load_source(whole.source)
        else:
            self._build(whole)

    def _constant(self, value: Any) -> None:
        """Pushes a constant; what stands for a class that is born, or for a member of one, is that."""
        cls = self.ledger.classes.get(id(value)) or self.ledger.classes.get(id(type(value)))
        if cls is None:
            self._fixed(value)
            return
        if value is cls.value:
            self.load(cls)
        elif not isinstance(value, enum.Enum):
            raise SkipFrame(f"a value of a class of the frame is needed ({type(value).__qualname__})")
        else:
            self.call_with(cls, [constants.ConstantVariable(value.value)], {})

    def _fixed(self, value: Any) -> None:
        """Pushes this very object: a constant, which code keeps, or a class that each call is given."""
        if is_passing(value):
            self._load_value(self._passing.setdefault(id(value), Source(None, "const", value, value.__qualname__)))
        else:
            self.emit.const(value)

    def _load_another(self, variable: constants.ConstantVariable) -> None:
        """Pushes an object of this call, equal to the one that tracing has made."""
        value = variable.value
        first = self._others.setdefault(id(value), variable)
        if first not in self._built:
            self.call(constants.ANOTHER[type(value)], Emit(lambda: self.emit.const(value)))
            self.keep(first)
        else:
            self.emit.load(self._built[first])

    def load_source(self, source: Source) -> None:
        """Pushes what a path led to when the frame was entered: guards have read it already."""
        if source.kind == "const":
            self._constant(source.arg)
        elif source.is_made:
            self._load_part(source)
        elif source.kind == "arg":
            self.emit.load(self.params[source.arg])
        else:
            self._load_value(source)

    def _load_value(self, source: Source) -> None:
        """Pushes what the guards hand on."""
        known = source in self.values
        index = self.values.setdefault(source, len(self.values))
        if self.packed:
            self.emit.load("__values")
            self.emit.const(index)
            self.emit.subscr()
            return
        name = f"__value.{index}"
        if not known:
            self.emit.add_parameter(name)
        self.emit.load(name)

    def _load_part(self, source: Source) -> None:
        """Pushes what this code makes, or a part of that, as it was when it was first asked for."""
        base, name = source.base, self._made_of.get(source)
        if base is None:
            self.load(source.arg)
        elif name is not None:
            self.emit.load(name)
        elif source.kind == "made":
            self.call(source.arg[0], Emit(lambda: self.load_source(base)))
            self._keep_made(source)
        else:
            self.call(_PARTS[source.kind], Emit(lambda: self._load_part(base)), source.arg)
            if source.root.kind == "const":
                self._keep_made(source)

    def _keep_made(self, source: Source) -> None:
        name = self._made_of[source] = self.emit.fresh("made")
        self.emit.dup()
        self.emit.store(name)

    def ask(self, variables: Iterable[Variable]) -> None:
        """Asks the library for those among these that each call has for itself, before anything is done to them."""
        for source in [variable.source for variable in variables if variable.source is not None]:
            if source.is_made and source.root.kind == "const" and source not in self._made_of:
                self.load_source(source)
                self.emit.pop()

    def pack_values(self, first: Sequence[Source]) -> None:
        """From the first value on: all come as one tuple, in the parameter `__values`, which begins with these."""
        assert not self.values
        self.packed = True
        self.values.update((source, index) for index, source in enumerate(first))
        self.emit.add_parameter("__values")

    def _build(self, variable: Variable) -> None:
        build = BUILD.get(type(variable))
        if build is None:
            raise Restart(getattr(variable, "born_at", 0), GraphBreak("value can't be rebuilt", variable.describe()))
        if variable in self._cyclic and type(variable) in SHELLS:
            self._build_shell_first(variable)
            return
        if variable in self._building:
            raise Restart(0, GraphBreak("value holds itself", variable.describe()))
        if variable in self._cyclic and self._is_built_by_parts(variable):
            self.load(variable)
            return
        self._building.add(variable)
        self._given[variable] = state = self.ledger.state(variable, self.segment)
        build(self, state)
        self._building.discard(variable)
        if variable not in self._built:
            self.keep(variable)

    def _is_built_by_parts(self, variable: Variable) -> bool:
        """Builds the containers that it is made of and that hold it, until it is built itself."""
        for part in self._containers_of(variable):
            if part not in self._built:
                self.load(part)
                self.emit.pop()
            if variable in self._built:
                return True
        return False

    def _containers_of(self, variable: Variable) -> Iterator[Variable]:
        """Those in cycles that have to be there before `variable` is, or before what it is made of."""
        seen, waiting = {variable}, [variable]
        while waiting:
            whole = waiting.pop()
            held = parts(whole, self.ledger)
            if isinstance(whole, MADE):
                held += [part for arg in whole.recipe.args for part in parts(arg, self.ledger)]
            for part in held:
                if part in self._cyclic and part not in seen:
                    seen.add(part)
                    if type(part) in SHELLS:
                        yield part
                    else:
                        waiting.append(part)

    def keep(self, variable: Variable) -> None:
        """Stores the value on top of the stack as the one of `variable`, and leaves it there."""
        name = self.emit.fresh(type(variable).__name__.removesuffix("Variable").lower())
        self.emit.dup()
        self.emit.store(name)
        self._built[variable] = name

    def _build_shell_first(self, variable: Variable) -> None:
        SHELLS[type(variable)](self, variable)
        self.keep(variable)
        self.contents(variable)

    # --- calls ------------------------------------------------------------------------------------------------------
    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Pushes `function(*arguments)`; variables are loaded, callables emit, the rest are constants."""
        emit = self.emit
        emit.begin_call()
        emit.const(function)
        emit.end_callable()
        for argument in arguments:
            self.push(argument)
        emit.call(len(arguments))

    def call_with(self, function: Any, args: Iterable[Variable], kwargs: dict[str, Variable]) -> None:
        """Pushes `function(*args, **kwargs)`."""
        emit = self.emit
        emit.begin_call()
        self.push(function)
        emit.end_callable()
        count = self.load_all((*args, *kwargs.values()))
        emit.call(count, tuple(kwargs))

    def push(self, argument: Any) -> None:
        if isinstance(argument, Variable):
            self.load(argument)
        elif isinstance(argument, Emit):
            argument.run()
        else:
            self._constant(argument)

    def load_all(self, items: Iterable[Variable]) -> int:
        count = 0
        for item in items:
            self.load(item)
            count += 1
        return count

    def check_keys(self, keys: Iterable[Any]) -> None:
        """What a container is about to be given has the hash that it had when the program gave it, and is equal to what
        it was equal to. Raises Restart if it may have another."""
        keys = list(keys)
        together = {id(key) for key in (*keys, *own_keys(keys))}
        for key in own_keys(keys):
            read = [place for places in key.read_among(together) for place in places.items()]
            if not all(_alike(self._attrs.get(place), was) for place, was in read):
                key.stays()

    def load_map(self, entries: Iterable[tuple[Variable, Variable]]) -> None:
        count = 0
        for key, value in entries:
            self.load(key)
            self.load(value)
            count += 1
        self.emit.build("map", count)

    def load_list(self, items: Iterable[Variable]) -> None:
        self.emit.build("list", self.load_all(items))

    def load_tuple(self, items: Iterable[Variable]) -> None:
        self.emit.build("tuple", self.load_all(items))

    # --- effects ----------------------------------------------------------------------------------------------------
    def effects(self, alive: set[Variable]) -> None:
        """Replays the ledger, leaving out what nobody can see any more."""
        for segment, effects in enumerate(self.ledger.segments()):
            self.segment = segment
            for effect in _keys_first(effects):
                if isinstance(effect, Call) or exists(effect.target) or effect.target in alive:
                    self.emit.note = effect
                    self.effect(effect)

    def effect(self, effect: Effect) -> None:
        if isinstance(effect, SetAttr):
            self._set_attr(effect.target, effect.name, effect.value)
            self._attrs[effect.target, effect.name] = effect.value
        elif isinstance(effect, DelAttr):
            self._del_attr(effect.target, effect.name)
            self._attrs[effect.target, effect.name] = DELETED
        elif isinstance(effect, Advance):
            self._advance(effect)
        elif isinstance(effect, SetContents):
            if exists(effect.target) or self._given.get(effect.target, effect.state) is not effect.state:
                self.contents(effect.target)
        else:
            self._call_effect(effect)

    def early(self) -> None:
        """Makes the calls that come before the graph."""
        for effect in self.ledger.effects():
            if isinstance(effect, Call) and effect.early:
                self._call_effect(effect)

    def load_input(self, variable: Variable) -> None:
        """Pushes an input of the graph: what was there before, or what an early call gave."""
        if variable.source is not None:
            self.load_source(variable.source)
        else:
            self.load(variable)

    def birth(self, variable: Variable) -> None:
        """Pushes what a call of the ledger answers. Calls that answer with objects keep their order."""
        for effect in self.ledger.effects():
            if isinstance(effect, Call) and effect.result is not None and effect not in self._made:
                self._call_effect(effect)
                if effect.result is variable:
                    break
        self.emit.load(self._built[variable])

    def _call_effect(self, effect: Call) -> None:
        if effect.result in self._cyclic:  # its holders have shells before, and are filled after
            for arg in (*effect.args, *effect.kwargs.values()):
                self.load(arg)
                self.emit.pop()
        if effect in self._made:
            return
        self._made.add(effect)
        with self._risking(effect):
            if effect.place is None:
                self.call_with(effect.function, effect.args, effect.kwargs)
            else:
                names = [(constants.ConstantVariable(name), value) for name, value in effect.kwargs.items()]
                args = Emit(lambda: self.load_tuple(effect.args)), Emit(lambda: self.load_map(names))
                self.call(_caller(effect.place), effect.function, *args)
            if effect.result is not None:
                self.keep(effect.result)
            self.emit.pop()

    @contextmanager
    def _risking(self, effect: Call) -> Iterator[None]:
        """Around a call: it is made while the exception is handled that the program was handling, and its own is raised
        where the program would have raised it."""
        emit, risk = self.emit, effect.risk
        if risk is None:
            yield
            return
        for value in (*effect.args, *effect.kwargs.values()):
            if not exists(value) and type(value) in BUILD:  # not among what may raise
                self.load(value)
                emit.pop()
        if risk.handled is not None:
            self.load(risk.handled)
            emit.begin_handling()
        failed = emit.label()
        emit.begin_try(failed)
        yield
        emit.end_try()
        if risk.handled is not None:
            emit.end_handling()
        self.failures.append((failed, effect))

    def fail(self) -> None:
        """After all code that returns: where calls that raised go on."""
        for failed, effect in self.failures:
            assert effect.risk is not None
            raised = Placeholder(self.emit.fresh("raised"))
            self.emit.mark(failed)
            self.emit.store(raised.name)
            if effect.risk.handled is not None:
                self.emit.end_handling()
            own = 1 + (effect.place is not None) + (effect.function.real() in (callers.warn_above, callers.warn_in))
            self.call(runtime.raised_at, raised, own, effect.risk.trace)
            self.emit.pop()
            self.emit.take(raised.name)
            self.emit.reraise()

    def _advance(self, effect: Advance) -> None:
        for reached in effect.reached:
            if self.ledger.touched(reached):
                cause = GraphBreak("container changed around an existing iterator", reached.describe())
                raise Restart(effect.target.born_at, cause)
        self.call(runtime.advance, effect.target, effect.steps)
        self.emit.pop()

    def contents(self, variable: Variable) -> None:
        """Gives an object its contents (what is on the stack stays)."""
        state = self.ledger.state(variable, self.segment)
        CONTENTS[type(variable)](self, variable, state, self._given.get(variable))
        self._given[variable] = state
        self.emit.pop()

    def _set_attr(self, target: Variable, name: str, value: Variable) -> None:
        emit = self.emit
        if isinstance(target, namespaces.NamespaceVariable):
            self.load(value)
            self.load(target)
            emit.const(name)
            emit.store_subscr()
        elif isinstance(target, classes.ClassVariable):
            self.call(type.__setattr__, target, name, value)
            emit.pop()
        elif (target, name) in self.ledger.beside:
            self.call(runtime.store_beside, target, name, value)
            emit.pop()
        elif isinstance(target, objects.ObjectVariable) and _asks(target):
            self.call(object.__setattr__, target, name, value)
            emit.pop()
        else:
            self.load(value)
            self.load(target)
            emit.store_attr(name)

    def _del_attr(self, target: Variable, name: str) -> None:
        """What the frame deleted, it may have stored itself: so it need not be there."""
        if isinstance(target, namespaces.NamespaceVariable):
            self.call(dict.pop, target, name, None)
        elif isinstance(target, classes.ClassVariable):
            self.call(runtime.discard_class_attribute, target, name)
        elif exists(target) or (self.segment and target in self._built):
            is_beside = (target, name) in self.ledger.beside
            self.call(runtime.discard_beside if is_beside else runtime.discard_attribute, target, name)
        else:
            return  # it was never stored in the rebuilt object
        self.emit.pop()


def _asks(target: objects.ObjectVariable) -> bool:
    """Whether a plain store of an attribute may run code of its class."""
    return any(cls is not None and cls.__setattr__ is not object.__setattr__ for cls in (target.cls, target.was))


def _keys_first(effects: Iterable[Effect]) -> Iterator[Effect]:
    """The same; between two calls, what the hash of an object that the frame made is made of comes first: nothing may
    have it as a key before."""
    for _, row in itertools.groupby(effects, lambda effect: isinstance(effect, Call)):
        yield from sorted(row, key=_makes_no_hash)


def _makes_no_hash(effect: Effect) -> bool:
    if not isinstance(effect, SetAttr) or not isinstance(effect.target, objects.ObjectVariable):
        return True
    return exists(effect.target) or effect.target.cls.__hash__ in (None, object.__hash__)


def _alike(one: Any, other: Any) -> bool:
    if one is other:
        return True
    pair = (one, other)
    if not all(isinstance(each, constants.ConstantVariable) for each in pair):
        return False
    return type(one.value) is type(other.value) and bool(one.value == other.value)


def _caller(place: Place) -> types.FunctionType:
    """(function, args, kwargs) -> function(*args, **kwargs), called from this place."""
    name = place.function
    emit = Emitter(name, name, place.file, place.line, ["function", "args", "kwargs"])
    emit.begin_call()
    emit.load("function")
    emit.end_callable()
    emit.load("args")
    emit.load("kwargs")
    emit.call_ex(True)
    emit.return_value()
    return types.FunctionType(emit.code(), place.namespace)


class Emit:
    """An argument of `Writer.call` that pushes itself."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run


#: kind of a step of a source -> function(base, what the step says)
_PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "attr": getattr,
    "typeattr": objects.lookup,
    "dict": lambda base, _: object.__getattribute__(base, "__dict__"),
    "cell": lambda base, _: base.cell_contents,
    "type": lambda base, _: type(base),
    "call": lambda base, function: function(base),
    "key": lambda base, at: list(base)[at],
    "value": lambda base, at: list(base.values())[at],
    **dict.fromkeys(("item", "index", "getitem"), operator.getitem),
}

# The rows of these tables stand in modules of their own, by kind.

#: how a value is made anew, and pushed
BUILD: dict[type, Callable[[Writer, Any], None]] = {}

#: how an object comes to a state, having been in another (None: as before the frame); the setter's result stays on the
#: stack
CONTENTS: dict[type, Callable[[Writer, Variable, Any, Any], None]] = {}

#: an empty container of the kind
SHELLS: dict[type, Callable[[Writer, Any], None]] = {}
