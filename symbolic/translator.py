"""The symbolic interpreter: runs bytecode over an explicit stack of frames of variables."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from sideeffects.effects import DELETED, Advance, DelAttr, SetAttr, SetContents
from sideeffects.ledger import Ledger
from symbolic import dropped, input_memory, lines, loops, opcodes, polyfills, sides, wrap
from symbolic.capture import Break, Capture, Return, break_reason
from symbolic.code import asks_for_frames, looks_at_frames
from symbolic.errors import (
    LOOKS_UP,
    MEMORY,
    READS_FRAME,
    RECURSION,
    RUNS_ITSELF,
    SEES_END,
    SEES_SIZE,
    SEES_STACK,
    GraphBreak,
    Observed,
    Restart,
    SkipFrame,
)
from symbolic.fakes import FakeMode
from symbolic.frames import Frame
from symbolic.graph import GraphBuilder
from symbolic.guards import Guard, Guards
from symbolic.options import Options
from symbolic.passing import namespace_of
from symbolic.protocols import Protocols
from symbolic.repeats import Repeats
from symbolic.shapes import Shapes
from symbolic.sources import Source, Sources
from symbolic.torch_state import TorchState, TracingState
from symbolic.variables import arrays, hooks, lending, numbers, outside, symbols
from symbolic.variables.base import MISSING, Variable, lookup
from symbolic.variables.born import BornClass, MadeVariable
from symbolic.variables.builtins import check_shared_names
from symbolic.variables.classes import InstanceNamespace, check_init
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.exceptions import AnyException, FrameVariable
from symbolic.variables.functions import CellVariable, FunctionVariable, PythonFunction, runs_other_code
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.inspected import check_question
from symbolic.variables.live import LiveIterator
from symbolic.variables.live_generators import LiveGenerator, check_alone
from symbolic.variables.namespaces import Names, NamespaceVariable
from symbolic.variables.native import OwnKey
from symbolic.variables.objects import NATIVE_DESCRIPTORS, ObjectVariable
from symbolic.variables.overrides import Overrides
from symbolic.variables.positions import is_python_class
from symbolic.variables.slots import makes_as_object
from symbolic.variables.tables import skipped_module
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.weak import has_let_go, sees_ends

#: An exception that no traced frame catches: not a fault of the program's form, so `fullgraph` has nothing against it.
ESCAPES = "exception leaves the frame"
#: How often one code object may stand in the stack of inlined calls before the recursion is left to the program.
RECURSION_LIMIT = 32
#: The same where the graph breaks inside: a break costs a continuation for each frame, each with what those below need.
BROKEN_RECURSION_LIMIT = 10
#: Opcodes that leave no entry in the traceback.
_RAISES_AGAIN = frozenset({"RERAISE", "END_ASYNC_FOR", "CLEANUP_THROW"})
#: Opcodes after which JIT_BREAK_EVERYWHERE splits the frame.
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})


class Translator(Protocols):
    """One capture: frames, known objects, guards, ledger and graph of one call."""

    def __init__(self, options: Options, break_at: dict[int, GraphBreak]) -> None:
        self.options = options
        self.break_at = break_at
        self.sources = Sources()
        self.guards = Guards()
        self.ledger = Ledger()
        shapes = Shapes(self.place, by_values=True) if options.dynamic else None
        fake_mode = FakeMode(allow_non_fake_inputs=False, shape_env=shapes.env if shapes is not None else None)
        self.graph = GraphBuilder(self, fake_mode, shapes)
        self.frames: list[Frame] = []
        self.frames_seen: dict[Frame, FrameVariable] = {}  # the variables for frames themselves
        self.from_text: set[int] = set()  # code that the frame made of text, by id
        self.repeats = Repeats(self, not (options.dynamic or options.break_everywhere or options.varying))
        self.known: dict[int, Variable] = {}
        self.keepalive: list[Any] = []
        self.owners: dict[int, ObjectVariable] = {}  # id of an instance's `__dict__` -> the instance
        self.handled: Variable | None = None  # the exception that an except block is handling
        self.outer = LazyVariable(sys.exception(), self.sources.const(sys, "sys").step("call", handled_by_callers))
        self.globals: dict[str, Any] = {}  # of the root frame
        self.reads_at: tuple[str, int] | None = None  # the place of what is taken in by a call that is repeated
        self.step = 0
        self.started = 0  # the step of the instruction under way, without those of nested runs
        self.depth = 0  # of the data under way in the data that it lies in
        self.anchors: list[int] = []  # the steps at which nested runs began, the outermost first
        self.result: Variable = ConstantVariable(None)
        self.spaces: dict[int, NamespaceVariable] = {}
        self._instance_spaces: dict[Variable, InstanceNamespace] = {}
        self.split_next: GraphBreak | None = None
        self._raised_at: dict[Variable, int] = {}
        self.unnamed: set[Variable] = set()
        self._looked_up: dict[tuple[int, str], Any] = {}
        self._of_classes: set[tuple[int, str, str]] = set()  # classes, kinds of guards, and names
        self.methods_of_tensors: set[str] = set()  # that the graph runs
        self.derived: set[tuple[type, Any]] = set()  # classes, and abstract ones that were asked about them
        self.generators: list[GeneratorVariable] = []  # that the frame started
        self.waiting: dict[GeneratorVariable, int] = {}  # of these the ones that may have something left, by number
        self.overdue: dict[GeneratorVariable, Any] = {}  # that may have been dropped, and what was written by then
        self.given_generators = False  # whether the frame was handed one whose end may be seen
        self.telling: dict[tuple[Variable, str | None], list[Any]] = {}  # what existed and was replaced (see `dropped`)
        self.moved_generators: list[LiveIterator | LiveGenerator] = []  # existing ones whose steps are run again
        self.moving: LiveIterator | LiveGenerator | None = None  # the existing iterator that takes a step
        self.hooks: list[hooks.Hook] = []  # that the frame registered
        self.drawn_from: dict[Any, Variable] = {}  # generators of random numbers that early calls change
        self.partial: dict[fx.Node, tuple[str, int]] = {}  # has no result for some numbers to come; where it stands
        self.first_check: tuple[int, str] | None = None  # that the graph makes for the frame: its step, and of what
        self.is_inference = torch.is_inference_mode_enabled()  # outside of the frame
        self.unchecked: dict[Variable, None] = {}  # results of numpy's that must be finite
        self.lent_parts: list[tuple[int, TensorVariable]] = []  # made of arrays, that begin elsewhere than these say
        self.lent_tensors: list[tuple[int, TensorVariable, Any]] = []  # that became arrays, when, and how they lay
        self.late_texts: list[Variable] = []  # that markers stand for
        self.filters_changed = False  # those of `warnings`, by the frame
        self.hashed: list[Variable] = []  # dict keys and set elements that are told apart by identity
        self.own_keys: dict[Variable, OwnKey] = {}  # of those with a `__hash__` of their own: the first of each
        self.numbers_hashed: set[type | str] = set()  # kinds of ints that may be equal though it is not known
        self.data: set[Source] = set()  # lists of which so many numbers differ that they are taken as they are
        self.given: list[Variable] = []  # the arguments, as nobody has looked at them
        self.weak_references: dict[Variable, Variable] = {}  # that the frame made, by what they lead to
        self.buffers: list[tuple[int, Variable]] = []  # existing ones that it read or changed, and at which step
        self.overrides = Overrides()
        self.contexts: dict[Any, Variable | None] = {}  # what the frame has set variables of the context to
        self.told_in_modes: list[int] = []  # steps of effects inside of torch's modes
        self.shown_under: list[tuple[int, torch.dtype, GraphBreak]] = []  # messages: the step, the default dtype then
        self.shown_errors: list[tuple[int, Variable, list[Any]]] = []  # in messages: the step, and what is shown
        self.drawn: dict[Variable, loops.Turns] = {}  # what came of the elements of iterators
        self.stored_on_classes: set[str] = set()  # names of attributes, of existing classes
        self.models: dict[Variable, Any] = {}  # what stands for variables in the making of classes
        self.private_memos: set[Variable] = set()  # of copies: made by the library
        self.copied: dict[Variable, list[TensorVariable]] = {}  # by memo: tensors that were copied with their memory

    def close(self) -> None:
        """Lets go of everything: reference counts free most of it at once, several times as fast as a search for
        garbage. Nobody may ask it anything after that."""
        self.repeats.close()
        for each in self.known.values():
            if isinstance(each, ObjectVariable) and each.payload is not None:
                each.payload.owner = None  # type: ignore[attr-defined]
        for seen in self.frames_seen.values():
            vars(seen).clear()  # errors lie in variables of the frames that their tracebacks show
        for mode in filter(None, (self.graph.fake_mode, self.graph.came_mode)):
            mode.let_go()
        vars(self).clear()

    # --- facts ------------------------------------------------------------------------------------------------------
    def know(self, source: Source | None, kind: str, payload: Any) -> None:
        """Guards a fact about the object at `source`; what hangs from a constant root by nothing needs none, nor does
        what the compiled code makes itself."""
        if source is not None and source.is_made:
            return
        guard = Guard(source, kind, payload, *self.place())
        self.repeats.tell(guard)
        self.guards.add(guard)

    def place(self) -> tuple[str, int]:
        """File and line of the user's that is being executed."""
        if self.reads_at is not None:
            return self.reads_at
        frame = self.frames[-1] if self.frames else None
        return (frame.filename, frame.line) if frame is not None else ("<entry>", 0)

    def wrap(self, value: Any, source: Source) -> Variable:
        return wrap.wrap(self, value, source)

    def function(self, value: Callable[..., Any]) -> FunctionVariable:
        """A Python function of our own or of a library, as a fixed part of the program."""
        found = self.wrap(value, self.sources.const(value, value.__qualname__))
        assert isinstance(found, FunctionVariable), value
        return found

    def inline(self, function: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """Runs a polyfill."""
        return self.call(self.function(function), args, kwargs)

    def class_variable(self, cls: type) -> Variable:
        return self.wrap(cls, self.sources.const(cls, cls.__qualname__))

    def class_of(self, variable: Variable) -> Variable:
        """`type(variable)`; the type of an existing object is guarded already."""
        return self.class_variable(variable.python_type())

    def attribute_source(self, cls: type, name: str) -> Source:
        cls = self._past_deleted(cls, name)
        if id(cls) not in self.ledger.classes:
            return self.sources.const(cls, cls.__qualname__).step("typeattr", name)
        for base in cls.__mro__:
            born = self.ledger.classes.get(id(base))
            if name in namespace_of(base):
                root = self.sources.const(base, base.__qualname__) if born is None else self.source_of(born)
                return root.step("typeattr", name)
            if born is None:
                self.know_lookup(base, name)
        return self.source_of(self.ledger.classes[id(cls)]).step("typeattr", name)

    def know_lookup(self, cls: type, name: str) -> None:
        """Guards what `lookup` finds in an existing class."""
        if lookup(cls, name) is not MISSING:
            self.class_attribute(cls, name)
        else:
            self.know(self.sources.const(cls, cls.__qualname__), "no_typeattr", name)

    def class_attribute(self, cls: type, name: str) -> Variable:
        """The raw class attribute that `type` lookup finds."""
        return self.wrap(self.lookup(cls, name), self.attribute_source(cls, name))

    def lookup(self, cls: type, name: str) -> Any:
        """The raw attribute that `type` lookup finds along the MRO, MISSING if none. That there is none, or which kind
        of attribute, is guarded for classes that may change. One that the frame stored itself breaks the graph."""
        if name in self.stored_on_classes and self.stored_on_class(cls, name) is not None:
            raise GraphBreak("class attribute that the frame stored", f"{cls.__qualname__}.{name}")
        cls = self._past_deleted(cls, name)
        key = (id(cls), name)
        if key in self._looked_up:
            return self._looked_up[key]
        raw = lookup(cls, name)
        is_born = id(cls) in self.ledger.classes
        if not is_born:  # the others change while they are made
            self._looked_up[key] = raw
            self.keepalive.append(cls)
        if raw is MISSING:
            for base in cls.__mro__ if is_born else (cls,):
                if is_python_class(base) and id(base) not in self.ledger.classes:
                    self.know(self.sources.const(base, base.__qualname__), "no_typeattr", name)
        elif is_python_class(cls):
            native = isinstance(raw, NATIVE_DESCRIPTORS)
            self.know(self.attribute_source(cls, name), "is" if native else "type", raw if native else type(raw))
        return raw

    def source_of(self, variable: Variable) -> Source:
        if variable.source is not None:
            return variable.source
        if isinstance(variable, (BornClass, MadeVariable)):
            return self.sources.born(variable, variable.describe())
        real = variable.real()
        if real is MISSING:
            raise GraphBreak("object without a source", variable.describe())
        return self.sources.const(real, variable.describe())

    def stored_on_class(self, cls: type, name: str) -> Variable | None:
        """What the frame stored under this name to an existing class, where `lookup` would find it."""
        found = self._first_with(cls, name)[1] if name in self.stored_on_classes else None
        return found if isinstance(found, Variable) else None

    def descriptor(self, cls: type, name: str) -> Any:
        """What `lookup` finds; MISSING for what the frame stored, which is no descriptor."""
        return self.lookup(cls, name) if self.stored_on_class(cls, name) is None else MISSING

    def _past_deleted(self, cls: type, name: str) -> type:
        """The class from which on `lookup` finds what is left of what the frame deleted."""
        return self._first_with(cls, name)[0] if name in self.stored_on_classes else cls

    def _first_with(self, cls: type, name: str) -> tuple[type, Any]:
        """The first class along the MRO that has the attribute itself, with what the frame did to it there. One where
        the frame deleted it has it no more."""
        begin = cls
        for base in cls.__mro__:
            known = self.known.get(id(base))
            pending = self.ledger.pending(known, name) if known is not None else None
            if pending is DELETED:
                begin = object
            elif pending is not None:
                return base, pending
            elif self.has_own(base, name):
                return base if begin is object else begin, None
        return begin, None

    def has_own(self, cls: type, name: str) -> bool:
        """Whether a class has the attribute itself: guarded for those that may change."""
        answer = name in namespace_of(cls)
        self._know_class(cls, "own", name, (name, answer))
        return answer

    def mro(self, cls: type) -> tuple[type, ...]:
        """What a class inherits from: guarded for those that may change."""
        for base in cls.__mro__ if id(cls) in self.ledger.classes else (cls,):
            self._know_class(base, "inherits", "__mro__", base.__mro__)
        return cls.__mro__

    def makes_as_object(self, cls: type) -> bool:
        """Whether `object`'s own function makes the instances: guarded for classes that may change."""
        for base in cls.__mro__ if id(cls) in self.ledger.classes else (cls,):
            self._know_class(base, "makes", "__new__", makes_as_object(base))
        return makes_as_object(cls)

    def _know_class(self, cls: type, kind: str, name: str, payload: Any) -> None:
        key = (id(cls), kind, name)
        if is_python_class(cls) and id(cls) not in self.ledger.classes and key not in self._of_classes:
            self._of_classes.add(key)
            self.keepalive.append(cls)
            self.know(self.sources.const(cls, cls.__qualname__), kind, payload)

    def bind_descriptor(self, owner: Variable, name: str, raw: Any) -> Variable | None:
        """A compiled function found on a class binds like the function behind it."""
        return None

    def cell(self, cell: Any, source: Source) -> CellVariable:
        found = self.wrap(cell, source)
        assert isinstance(found, CellVariable)
        return found

    def namespace(self, value: dict[str, Any]) -> NamespaceVariable:
        found = self.spaces.get(id(value))
        if found is None:
            found = NamespaceVariable(value, self.sources.const(value, f"{value.get('__name__', '?')}.__dict__"))
            self.spaces[id(value)] = found
        return found

    def instance_namespace(self, owner: ObjectVariable) -> InstanceNamespace:
        return self._instance_spaces.setdefault(owner, InstanceNamespace(owner, self))

    def load_name(self, namespace: Variable, name: str) -> Variable:
        """LOAD_GLOBAL: the namespace, then builtins."""
        assert isinstance(namespace, Names)
        found = namespace.find(self, name)
        if found is None:
            found = self.namespace(namespace.builtins(self)).find(self, name)
        return found if found is not None else self.no_name(name)

    def set_state(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        """A switch of torch's state: done now for the rest of the capture, and again by the graph."""
        self.attempt(function, *args, **kwargs)
        node = self.graph.graph.call_function(function, tuple(args), kwargs)
        node.meta["stack_trace"] = self.stack_trace()
        self.graph.calls += 1
        self.graph.switches = True

    def stack_trace(self) -> str:
        """The user's stack in the form of Python's own traceback, as fx prints it."""
        frames = self.frames
        first = len(frames)  # of those that do not know yet what stands above them
        while first and frames[first - 1].above is None:
            first -= 1
        for at in range(first, len(frames)):
            frames[at].above = f"{frames[at - 1].above}{_entry(frames[at - 1])}\n" if at else ""
        return f"{frames[-1].above}{_entry(frames[-1])}" if frames else ""

    def name_inputs(self, bound: dict[str, Variable]) -> None:
        """Names graph inputs that came through `*args` or `**kwargs` after the first parameter they are bound to."""
        for name, variable in bound.items():
            if variable in self.unnamed:
                self.unnamed.discard(variable)
                assert isinstance(variable, TensorVariable)
                variable.node._rename(f"l_{name}_")
                variable.node.target = variable.node.name

    # --- calls ------------------------------------------------------------------------------------------------------
    def call(self, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """Calls to the end; from an instruction use `invoke`, which keeps the break inside the callee resumable."""
        if self.graph.shapes is not None and (answer := symbols.call(self, function, args, kwargs)) is not None:
            return answer
        reading = self.repeats.begin(function, args, kwargs)
        if reading is not None and (answer := self.repeats.repeat(reading)) is not None:
            return answer
        frame = function.enter(self, args, kwargs)
        result = self.run(frame) if frame is not None else function.call(self, args, kwargs)
        if reading is not None:
            self.repeats.end(reading, result)
        return result

    def invoke(self, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> None:
        """The call of an instruction: its result is on the stack when the instruction is over."""
        if self.graph.shapes is not None and (answer := symbols.call(self, function, args, kwargs)) is not None:
            self.frames[-1].push(answer)
            return
        reading = self.repeats.begin(function, args, kwargs)
        if reading is not None and (answer := self.repeats.repeat(reading)) is not None:
            self.frames[-1].push(answer)
            return
        frame = function.enter(self, args, kwargs)
        if frame is not None:
            frame.entered, frame.reading = self.anchor(), reading
            self.frames.append(frame)
        else:
            result = function.call(self, args, kwargs)
            if reading is not None:
                self.repeats.end(reading, result)
            self.frames[-1].push(result)

    def run(self, frame: Frame) -> Variable:
        """Runs a frame from inside an instruction handler and answers with what it returns."""
        frame.boundary = True
        frame.entered = self.anchor()
        depth = len(self.frames)
        self.frames.append(frame)
        self.anchors.append(self.step)
        try:
            self._loop(depth)
        finally:
            self.anchors.pop()
        return self.result

    def run_generator(self, frame: Frame, error: Variable | None) -> tuple[str, Variable]:
        """Runs a generator's frame to its next yield or its end: ("yield" or "return", value)."""
        frame.boundary = True
        frame.entered = frame.entered or self.anchor()
        frame.above = None  # who asks it may be another than the last time
        depth = len(self.frames)
        self.frames.append(frame)
        self.anchors.append(self.step)
        handled, self._yielded = self.handled, False
        self.handled = frame.handled or handled  # what its own except block is handling
        try:
            if error is not None:
                if isinstance(error, AnyException) and isinstance(frame.handled, AnyException):
                    if frame.handled is not error:  # what its callers handle is none of its affair
                        error.take_context(self, frame.handled)
                self._unwind(error, depth)
            self._loop(depth)
        finally:
            self.anchors.pop()
            frame.handled = self.handled if self.handled is not handled else None
            self.handled = handled
        yielded, self._yielded = self._yielded, False
        return ("yield" if yielded else "return"), self.result

    def closes_quietly(self, generator: GeneratorVariable) -> bool:
        """Whether nobody sees that this generator is closed when it is dropped. (It is closed here.)"""
        if generator.is_missed():
            return False
        if not generator.has_something_left():
            return True
        saved, seen = TracingState(), (len(self.ledger.written), self.graph.calls)
        try:
            generator.method(self, "close", [], {})
        except (GraphBreak, Restart, Observed):
            return False
        finally:
            saved.restore()
        return seen == (len(self.ledger.written), self.graph.calls)

    def yield_value(self, value: Variable) -> None:
        """The running generator hands out `value` and is set aside."""
        self.frames.pop()
        self.result = value
        self._yielded = True

    def return_value(self, value: Variable) -> None:
        frame = self.frames.pop()
        if frame.on_return is not None:
            check_init(self, value)
            value = frame.on_return
        if frame.reading is not None:
            self.repeats.end(frame.reading, value)
        if frame.boundary or not self.frames:
            self.result = value
        else:
            self.frames[-1].push(value)

    def check_inline(self, function: PythonFunction, kwargs: dict[str, Variable] | None = None) -> None:
        """Raises GraphBreak for functions that are not traced into."""
        if len(self.frames) > self.options.inline_limit:
            raise GraphBreak("calls nested too deep", function.name())
        if isinstance(function, FunctionVariable) and runs_other_code(function.function):
            raise GraphBreak("function of Python that runs other code", function.name())
        # By place, so that continuations of the function count, too.
        place = first_line(function.code)
        if place in self.options.apart:
            raise GraphBreak("function that broke the graph many times", function.name())
        is_deep = len(self.frames) > RECURSION_LIMIT
        if is_deep and sum(first_line(frame.code.raw) == place for frame in self.frames) > RECURSION_LIMIT:
            raise GraphBreak(RECURSION, function.name())
        namespace = function.namespace(self)
        assert isinstance(namespace, Names)
        if not namespace.is_plain(self, function.real()):
            raise GraphBreak("globals or builtins of another kind", function.name())
        module = namespace.module()
        reason = None if _transparent(module, function.name()) else skipped_module(module)
        reason = reason or self.options.refuse(function.code, module)
        asks_names = function.code is _ASKS_NAMES
        reason = reason or (LOOKS_UP if looks_at_frames(function.code) and not asks_names else None)
        if reason is not None:
            check_question(module, function.name(), kwargs or {})
            raise GraphBreak(reason, function.name())

    def anchor(self) -> int:
        """The step at which a break would take back the instruction being executed."""
        return self.started

    def apart(self, *variables: Variable) -> None:
        """Guards that these are different objects, so far as they exist outside the frame and may come in as one."""
        self.know_apart([variable.source for variable in variables if variable.source is not None])

    def know_apart(self, found: Iterable[Source]) -> None:
        """The same of what lies at these places."""
        sources = tuple(dict.fromkeys(source for source in found if not source.is_made))
        if sum(source.kind != "const" for source in sources) and len(sources) > 1:
            self.know(None, "distinct", sources)

    def guard_aliases(self) -> None:
        """What the frame told apart by hash, and what it changed, must not be what it also read under another name:
        captured as two, two they are."""
        self.apart(*self.hashed)
        for tensors in self.copied.values():
            input_memory.guard_copied(self, tensors)
        effects = list(self.ledger.effects())
        targets = [e.target for e in effects if isinstance(e, (SetAttr, DelAttr, SetContents))]
        check_alone(self, targets)
        written = [v.owner if isinstance(getattr(v, "owner", None), ObjectVariable) else v for v in targets]
        moved = itertools.chain.from_iterable(e.reached for e in effects if isinstance(e, Advance))
        written += [each for each in moved if isinstance(each, (LiveIterator, LiveGenerator))]
        kinds = {v.python_type(): None for v in written if v.source is not None and v.source.kind != "const"}
        for kind in kinds:
            alike = [v for v in self.known.values() if v.python_type() is kind]
            self.apart(*(v for v in alike if v.source is not None and v.source.kind != "const"))
        dicts = [v for v in self.known.values() if v.python_type() is dict]
        for space in [each for each in targets if isinstance(each, NamespaceVariable)]:
            for each in dicts:
                if each is not self.known.get(id(space.value)):
                    self.apart(space, each)

    # --- the loop ---------------------------------------------------------------------------------------------------
    def _loop(self, depth: int) -> None:
        """Executes instructions until the frames above `depth` are gone."""
        frames, anchors, break_at, ledger, options = self.frames, self.anchors, self.break_at, self.ledger, self.options
        handlers = opcodes.HANDLERS
        while len(frames) > depth:
            frame = frames[-1]
            inst = frame.code.insts[frame.index]
            frame.current = frame.index
            self.step += 1
            if not anchors:
                self.started = self.step
            if self.step in break_at:
                raise _Stop(inst, break_at[self.step])
            if self.split_next is not None and not anchors:
                is_turn = self.split_next.reason == loops.LONG and inst.op == "FOR_ITER"
                raise _Stop(inst if is_turn else None, self.split_next)
            frame.index += 1
            drops = inst.op in dropped.DROPS and self._may_end()
            left = dropped.unfinished(self, frame, dropped.DROPS[inst.op](frame, inst)) if drops else None
            given = dropped.given(self, frame, inst) if inst.op in dropped.TAKES else None
            loop = frame.stack[-1] if inst.op == "FOR_ITER" else None
            written = len(ledger.written)
            try:
                handler = handlers.get(inst.op)
                if handler is None and inst.op == sides.END:
                    frames.pop()
                    continue
                if handler is None:
                    raise GraphBreak("instruction not supported", opcodes.REFUSED.get(inst.op, inst.op))
                handler(self, frame, inst)
                if len(ledger.written) > written:
                    dropped.check_replaced(self, ledger.written[written:])
                if loop is not None and frame.index != frame.current + 1 and self._may_end():
                    left = dropped.unfinished(self, frame, [loop])  # it is over
                if given is not None and not left and self.waiting:
                    left = dropped.used(self, *given)
                if self.overdue:
                    left = dropped.overdue(self, left)
                if left:
                    dropped.close(self, left, len(frames) <= depth)
            except Observed as raised:
                self._raised_at.setdefault(raised.variable, self.anchor())
                self._unwind(raised.variable, depth)
            except GraphBreak as cause:
                raise Restart(self.break_step(cause), self.located(cause)) from cause
            except GuardOnDataDependentSymNode as error:
                asked = GraphBreak("tensor value needed", str(error).split("\n", 1)[0])
                raise Restart(self.anchor(), self.located(asked)) from error
            if options.break_everywhere and inst.op in _CALLS and self._may_split(frame):
                self.split_next = GraphBreak("break everywhere")
                if (deep := self._recursion()) is not None:
                    raise Restart(deep.entered, self.located(self.split_next))
            if self.step > options.step_limit:
                raise SkipFrame("the function runs too long to be captured")

    def _may_end(self) -> bool:
        """Whether something whose end is seen may end here."""
        return bool(self.waiting or (self.given_generators and not self.anchors))

    def _may_split(self, frame: Frame) -> bool:
        """Whether the program could be about to do something else after this call in the frame."""
        return frame is self.frames[-1] and not self.anchors and frame.stack[-1].is_shown

    def break_step(self, cause: GraphBreak) -> int:
        """Where the break takes place: before the instruction, or before the call of an inlined frame looked at.

        The root frame can only be itself if it runs eagerly."""
        if cause.reason == SEES_END and has_let_go(self):  # its arguments last as long as it has them
            raise SkipFrame(f"what was let go of may be seen ({cause.detail})")
        if cause.reason == SEES_SIZE:
            raise SkipFrame(f"{SEES_SIZE} ({cause.detail})")
        if cause.reason in SEES_STACK and len(self.frames) > 1:
            return self.frames[1].entered
        if cause.reason in RUNS_ITSELF and len(self.frames) > 1:
            return self.frames[-1].entered
        if cause.reason in RUNS_ITSELF:
            raise SkipFrame(f"{cause.reason} ({cause.detail})")
        if cause.reason == MEMORY and sees_ends(self):
            raise SkipFrame(f"what was let go of may be seen ({cause.detail})")
        deep = self._recursion()
        return self.anchor() if deep is None else deep.entered

    def _recursion(self) -> Frame | None:
        """The frame whose call is left to the program, in which it is captured by itself, if the graph breaks here."""
        found: Counter[tuple[str, int]] = Counter()
        for frame in self.frames if len(self.frames) > BROKEN_RECURSION_LIMIT else ():
            found[place := first_line(frame.code.raw)] += 1
            if found[place] > BROKEN_RECURSION_LIMIT and not frame.is_generator:
                return frame
        return None

    def located(self, cause: GraphBreak) -> GraphBreak:
        """Remembers the user's stack in the break (the innermost place, also when the break moves outwards)."""
        if not hasattr(cause, "stack"):
            cause.stack = tuple((f.filename, f.line, f.name) for f in self.frames)  # type: ignore[attr-defined]
            cause.columns = self.frames[-1].columns if self.frames else (0, 0)  # type: ignore[attr-defined]
        return cause

    def _unwind(self, error: Variable, depth: int) -> None:
        """Looks for a handler in the frames above `depth`; if there is none the exception leaves them."""
        passed: list[Frame] = []
        inst = self.frames[-1].code.insts[self.frames[-1].current]
        seen = not (inst.op in _RAISES_AGAIN or (inst.op == "RAISE_VARARGS" and inst.arg == 0))
        while len(self.frames) > depth:
            frame = self.frames[-1]
            inst = frame.code.insts[frame.current]
            if seen and frame.filename != polyfills.__file__:
                passed.append(frame)
            seen = True  # what raises again leaves no entry where it stands, but in every frame around
            row = frame.code.handler(inst.offset)
            if row is not None:
                self._passed(error, passed)
                left = dropped.unfinished(self, frame, frame.stack[row.depth :][::-1]) if self._may_end() else None
                del frame.stack[row.depth :]
                if row.lasti:
                    frame.push(ConstantVariable(frame.offset // 2))
                frame.push(error)
                frame.index = frame.code.index(row.target)
                if left:
                    dropped.close(self, left, False)
                return
            dropped.check_unwound(self, frame)
            self.frames.pop()
            if self.waiting and self.anchors:
                dropped.check_left(self, frame, error)
            if frame.boundary:
                self._passed(error, passed)
                raise Observed(error)
        if error.source is not None:
            # It came in from outside (a continuation raises it where the frame stood): eager code hands it on.
            raise SkipFrame(ESCAPES)
        raise Restart(self._raised_at.get(error, self.anchor()), GraphBreak(ESCAPES, error.python_type().__name__))

    def _passed(self, error: Variable, frames: list[Frame]) -> None:
        """Symbolic frames let the exception pass, the innermost first."""
        if not isinstance(error, AnyException):
            raise SkipFrame(f"an exception that is not looked into passes ({error.describe()})")
        error.passed(self, frames)

    def stays_in_frame(self, error: Variable) -> None:
        """The instruction that raised the exception can't run outside of the frame, which runs as it is if no traced
        one catches it."""
        self._raised_at[error] = 0

    def raised_at(self, error: Variable) -> int:
        """The step at which the exception was first raised, 0 if it was not."""
        return self._raised_at.get(error, 0)

    # --- entry ------------------------------------------------------------------------------------------------------
    def root_frame(self, function: FunctionType, slots: tuple[Any, ...]) -> Frame:
        """The frame of a call with bound arguments `slots` (localsplus order)."""
        if looks_at_frames(function.__code__) or asks_for_frames(function.__code__):
            raise SkipFrame(READS_FRAME)
        self.globals = function.__globals__
        root = _RootFunction(function, self.sources.const(function, function.__qualname__))
        names = function.__code__.co_varnames[: len(slots)]
        self.given_generators = any(map(dropped.is_given, slots))
        namespace = self.namespace(function.__globals__)
        if not namespace.is_plain(self, function):
            raise SkipFrame("globals or builtins of another kind")
        frame = Frame(opcodes.decode(function.__code__), function.__qualname__, namespace, root)
        code = function.__code__
        flags, star = code.co_flags, code.co_argcount + code.co_kwonlyargcount
        if function is torch.nn.Module.__call__:
            self.graph.name_arguments(slots[0], self.sources.arg(1, "args"))
        for slot, (name, value) in enumerate(zip(names, slots, strict=True)):
            source = self.sources.arg(slot, name)
            if slot >= star and flags & 0x0C:
                frame.locals[name] = self._packed(value, source)
            else:
                frame.locals[name] = LazyVariable(value, source)
        self.given = list(frame.locals.values())
        for index, name in enumerate(code.co_freevars):
            assert function.__closure__ is not None
            frame.cells[name] = self.cell(function.__closure__[index], self.sources.closure(index, name))
        return frame

    def _packed(self, value: Any, source: Source) -> Variable:
        """`*args` and `**kwargs`: made for this call, so nobody else sees them; elements are wrapped when read."""
        if type(value) is tuple:
            self.know(source, "len", len(value))
            items = [self.wrap(v, source.step("index", i)) for i, v in enumerate(value)]
            packed: Variable = self.new_tuple(items)
        else:
            self.know(source, "keys", tuple(value))
            items = [self.wrap(v, source.step("item", k)) for k, v in value.items()]
            packed = self.new_dict([(ConstantVariable(k), v) for k, v in zip(value, items, strict=True)])
        self.unnamed.update(item for item in items if isinstance(item, TensorVariable))
        return packed


#: Classes and functions of skipped modules that are plain data, or plain Python, all the same: how their names begin.
_TRANSPARENT = {
    "os": ("_Environ.", "_createenviron."),
    "inspect": ("Signature.", "Parameter.", "BoundArguments.", "ClosureVars.", "_signature_", "_ParameterKind.",
                "_unwrap_", "_find", "_has", "_descriptor_get", "_missing_", "_too_many",
                "get_annotations", "getcallargs",
                "getclosurevars", "getdoc", "getfullargspec", "getmro", "formatannotation", "is",
                "signature", "unwrap"),
    "string": ("Template.", "Formatter."),
    "textwrap": ("indent",),
    "warnings": ("catch_warnings.", "simplefilter", "filterwarnings", "_add_filter", "resetwarnings",
                 "WarningMessage.", "_showwarnmsg"),
    "weakref": ("WeakValueDictionary.", "WeakKeyDictionary."),
    "_weakrefset": ("",),
    "torch._higher_order_ops.associative_scan": ("",),
    "torch.utils.checkpoint": ("checkpoint_sequential",),
    "torch.utils.data._utils.collate": ("",),
    "torch.utils.data._utils.worker": ("get_worker_info",),
    "torch.utils.data.dataset": ("TensorDataset.", "Subset.", "ConcatDataset.__len__"),
    "torch.utils.data.dataloader": ("DataLoader.__len__", "DataLoader._index_sampler", "DataLoader._auto_collation"),
    "torch.utils.data.sampler": ("SequentialSampler.__len__", "RandomSampler.__len__", "RandomSampler.num_samples",
                                 "BatchSampler.__len__", "SubsetRandomSampler.__len__"),
}


#: Code that asks frames for no more than the names of their modules.
_ASKS_NAMES = dataclasses.make_dataclass.__code__


def _transparent(module: str | None, name: str) -> bool:
    return name.startswith(_TRANSPARENT.get(module or "", ("\0",)))


def first_line(code: CodeType) -> tuple[str, int]:
    """Where a function stands: its continuations, too."""
    return code.co_filename, code.co_firstlineno


def _entry(frame: Frame) -> str:
    return _trace_entry(frame.filename, frame.line, frame.code.raw.co_name)


@functools.lru_cache(maxsize=4096)
def _trace_entry(filename: str, line: int, name: str) -> str:
    source = lines.line(filename, line)
    return f'  File "{filename}", line {line}, in {name}' + (f"\n    {source}" if source else "")


class LazyVariable(Variable):
    """An argument nobody has looked at yet; it becomes a real variable, with guards, on its first use."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source = source

    def realize(self, tx: Translator) -> Variable:
        assert self.source is not None
        return tx.wrap(self.value, self.source)


def handled_by_callers(_: Any) -> BaseException | None:
    return sys.exception()


class _RootFunction(FunctionVariable):
    """The function of the root frame: reached through the door, so its identity is no fact to guard."""


class _Stop(Exception):
    """The capture ends here: `inst` runs eagerly (None: a split)."""

    def __init__(self, inst: Any, cause: GraphBreak) -> None:
        super().__init__(inst, cause)
        self.inst = inst
        self.cause = cause


def capture(
    function: FunctionType, slots: tuple[Any, ...], options: Options, break_at: dict[int, GraphBreak]
) -> Capture:
    """Executes a call symbolically. Raises `Restart` (try again with a break there) and `SkipFrame`."""
    tx = Translator(options, break_at)
    saved, entered = TracingState(), TorchState()
    try:
        tx.know(None, "state", None)
        tx.frames.append(tx.root_frame(function, slots))
        outcome: Return | Break
        try:
            tx._loop(0)
            tx.graph.check_switches()
            outcome = Return(tx.result)
        except _Stop as stop:
            outcome = Break(list(tx.frames), stop.inst, tx.located(stop.cause))
            for guard in stop.cause.guards:
                tx.guards.add(guard)
            check_shared_names(outcome.frames)
            dropped.check_ends(outcome.frames, stop.inst)
        tx.overrides.check_left()
        tx.break_at = {}  # what runs from here on, as generators that are closed, is none of the program's steps
        hooks.settle(tx)
        outside.settle(tx, entered)
        arrays.close(tx)
        lending.close(tx)
        tx.guard_aliases()
        numbers.guard_results(tx)
        lending.guard_memory(tx)
        input_memory.guard_aliases(tx.graph)
    except BaseException:
        tx.close()
        raise
    finally:
        saved.restore()
    tx.repeats.close()
    reasons = [break_reason(tx.frames, outcome.cause)] if isinstance(outcome, Break) else []
    return Capture(tx, tx.graph, tx.ledger, outcome, reasons)
