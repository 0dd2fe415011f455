"""The compiler of one `jit.compile` call: turns misses of a door into entries of its cache."""

from __future__ import annotations

import _thread
import builtins
import functools
import os
import sys
import sysconfig
import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import fx

import codegen
import symbolic
from codegen.notices import warn
from codegen.progress import Span
from codegen.residual.assemble import Assembled, assemble
from codegen.residual.continuations import Continuations
from codegen.residual.notes import Notes
from codegen.residual.resume import raise_again
from jit import _C, backends, collector, dumping, logs, progress, stance, telling
from jit.barren import Barren
from jit.cache import store
from jit.clock import Clock
from jit.config import Config, config, using
from jit.errors import (
    SKIPPED,
    BackendCompilerFailed,
    InternalError,
    JitError,
    MarkedSize,
    RecompileError,
    Unsupported,
)
from jit.resumed import ResumeVariable
from jit.state import DebugState, compiled, debug_state
from symbolic import lines, polyfills, terms
from symbolic.capture import Break, BreakReason, Capture
from symbolic.errors import GraphBreak, LongLoop, Place, Restart, SkipFrame, Unlike, bare
from symbolic.graph import OPERATION_RAISES
from symbolic.guards import program
from symbolic.little import is_little, of_arrays
from symbolic.marks import Said
from symbolic.nothing import of_nothing
from symbolic.options import Options
from symbolic.shapes import Specialization
from symbolic.sources import Source
from symbolic.torch_state import is_watched
from symbolic.translator import ESCAPES, Translator, capture, first_line
from symbolic.variables.base import Variable, lookup
from symbolic.variables.constants import is_a
from symbolic.variables.foreseen import Foreseen
from symbolic.variables.functions import GENERATOR_FLAGS, FunctionVariable
from symbolic.varying import leaves

__all__ = ["GENERATOR_FLAGS", "Compiler", "Record", "stats"]

_OURS = tuple(
    os.path.dirname(os.path.abspath(package.__file__ or "")) + os.sep for package in (dumping, codegen, symbolic)
)
_MAX_RESTARTS = 200
#: So often what a function rests on may be another by the time that it is compiled.
_MOST_OVERTAKEN = 8
#: So many captures may end in one function that is inlined: a recursion, or callers without end.
_MAX_BREAKS_INSIDE = 64
#: Reasons of breaks where the program raises.
_RAISES = frozenset({ESCAPES, OPERATION_RAISES})


@dataclass
class Record:
    """What one capture made, for people: `explain`, the dump and the statistics read these. `code`: what runs compiled;
    `shown`: what people know it by, of a module's call its `forward`."""

    name: str
    code: CodeType
    module: fx.GraphModule | None
    guards: list[Any]
    breaks: list[BreakReason]
    generated: CodeType | None
    effects: list[str] = field(default_factory=list)
    skipped: str = ""
    specializations: list[Specialization] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    folder: str = ""  # that of the dump, if there is one
    why: str = ""  # the entries before it do not serve the call that it was made for
    continues: tuple[CodeType, ...] = ()  # what goes on after its breaks
    spans: list[Span] = field(default_factory=list)  # the stages of its compilation
    shown: CodeType = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.shown = self.shown or self.code

    @property
    def where(self) -> str:
        """The frame, its line first."""
        return f"{place(self.shown)} in {self.name}"

    @property
    def label(self) -> str:
        """What its calls are called in traces."""
        return f"{self.name} ({place(self.shown)})"


@dataclass
class Stats:
    captures: int = 0
    graphs: int = 0
    breaks: int = 0
    restarts: int = 0
    skipped: int = 0
    errors: int = 0


stats = Stats()
#: Builtins that programs put others in place of: nothing here depends on them.
_FREE = frozenset("print input open breakpoint exec eval __import__ __build_class__".split())
#: The builtins that the compiler itself runs on.
_OWN_BUILTINS = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, (type, BuiltinFunctionType)) and name not in _FREE
}


def _builtins_are_replaced() -> bool:
    """Whether a builtin is another, as in tests that put a mock in its place."""
    now = vars(builtins)
    return any(now.get(name) is not value for name, value in _OWN_BUILTINS.items())


_lock = threading.RLock()


class Compiler:
    """Options, caches and continuations of one `jit.compile`; shared by the doors of its continuations."""

    #: Whether the frame hook is taken out where it finds nothing, until the next operation on a tensor.
    rests = False

    def __init__(
        self,
        backend: backends.Backend,
        config: Config,
        fullgraph: bool,
        dynamic: bool | Mapping[str, Any] | None,
        said: Mapping[str, Said] | None = None,
        as_text: bool = False,
    ) -> None:
        self.backend = backend
        self.as_text = as_text
        self.config = config
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.caches = _C.Caches()
        self.region = _C.Region(self.caches, self.classify, self.miss, self.rests)
        self.continuations = Continuations(self._continuation_door, self._door_as_written)
        self.channels = logs.parse(config.logs)
        self.records: list[Record] = []
        self._all_caches: list[Any] = []
        self.options = Options(
            unroll_limit=config.unroll_limit,
            loop_limit=0 if fullgraph else config.loop_limit,
            inline_limit=config.inline_limit,
            break_everywhere=config.break_everywhere,
            dynamic=dynamic is True,
            said=said or {},
            unwrap=UNWRAP,
            refuse=refuse,
            unhooked=_C.unhooked,
        )
        self._generated: set[int] = set()  # ids of code, for constants in it may have no hash
        self._warned: set[CodeType] = set()
        self._varying: dict[CodeType, frozenset[str]] = {}  # paths of numbers that differed from call to call
        self._long_loops: frozenset[Place] = frozenset()
        self._overtaken: Counter[CodeType] = Counter()
        self._broken_in: Counter[Place] = Counter()  # inlined functions: how many captures ended there
        self._barren = Barren(config.recompile_limit)

    def reset(self) -> None:
        """Forgets all compiled code; doors stay."""
        for cache in self._all_caches:
            cache.clear()
            cache.frozen = False
        self.records.clear()
        self._warned.clear()
        self._varying.clear()
        self._long_loops = frozenset()
        self._broken_in.clear()
        self._barren.clear()

    def debug_state(self) -> DebugState:
        """What the function has come to so far."""
        return debug_state(self._all_caches)

    # --- caches -----------------------------------------------------------------------------------------------------
    def cache(self, code: CodeType) -> Any:
        found = self.caches.get(code, None)
        if found is None:
            found = self._new_cache(code)
            self.caches.set(code, found)
        return found

    def _new_cache(self, code: CodeType) -> Any:
        made = _C.Cache(code, self.config.recompile_limit)
        if self.as_text:
            made.stepped = True
        self._all_caches.append(made)
        return made

    def classify(self, code: CodeType) -> Any:
        """For the frame hook: the cache of a code object worth compiling, None for what runs as it is."""
        if refuse(code, None) is not None or is_library(code) or self._is_importing():
            return None
        return self._new_cache(code)

    def _is_importing(self) -> bool:
        """Whether the compiled program imports a module now: what that runs runs once, thousands of functions maybe."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and id(frame.f_code) not in self._generated and not self.caches.get(frame.f_code, None):
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return True
            frame = frame.f_back
        return False

    def _continuation_door(self, code: CodeType, namespace: dict[str, Any], name: str) -> Any:
        return _C.ResumeDoor(code, namespace, self.cache(code), self.miss, name)

    def _door_as_written(self, code: CodeType, namespace: dict[str, Any], name: str) -> Any:
        cache = _C.Cache(code, 0)
        cache.frozen = True
        return _C.ResumeDoor(code, namespace, cache, _none_fits, name)

    # --- misses -----------------------------------------------------------------------------------------------------
    def miss(self, door: Any, slots: tuple[Any, ...], function: FunctionType) -> Any:
        """An entry for this call, or None: the original runs."""
        tracer = sys.gettrace() if self.as_text else None
        if tracer is None:
            return self._missed(door, slots, function)
        sys.settrace(None)  # a debugger steps through what was compiled, and not through the compiler
        try:
            return self._missed(door, slots, function)
        finally:
            sys.settrace(tracer)

    def _missed(self, door: Any, slots: tuple[Any, ...], function: FunctionType) -> Any:
        """Of threads that ask for the same, one compiles."""
        if self._barren.serves(function, slots):
            return None
        if is_watched() or _builtins_are_replaced() or stance.current == "eager_on_recompile":
            return None
        cache = door if isinstance(door, _C.Cache) else door.cache
        if stance.current == "fail_on_recompile" and not cache.frozen:
            found = self.explain_miss(cache, function, slots)
            raise RecompileError(f"{function.__qualname__} ({place(function.__code__)}): {found}")
        try:
            with _lock, progress.shown(function.__qualname__):
                known = _entry_for(cache, function, slots)
                if known is not None or cache.frozen:
                    return known
                if not isinstance(door, _C.Cache) and (found := self._of_nothing(cache, function, slots)):
                    return found
                if len(compiled(cache)) >= self.config.recompile_limit:
                    self._limit(cache, function, slots)
                    return None
                if cache.entries:
                    self._notice_numbers(cache, function, slots)
                    at, why = where(function), functools.partial(self.explain_miss, cache, function, slots)
                    logs.tell(self.channels, "recompiles", lambda: f"{at} is compiled again: {why()}")
                with collector.paused(), lines.kept(), self._looking_at_disk(function):
                    try:
                        return self._compile(cache, function, slots, door is not cache)
                    except SkipFrame as skip:  # which holds all that the compilation made, till it is handled
                        reason = skip.reason
                return self._skip(cache, function, reason)
        except RecursionError:
            cache.frozen = True
            found = "its capture met the limit of recursion"
            logs.tell(self.channels, "skips", lambda: f"{where(function)} runs eagerly: {found}")
            return None
        except BackendCompilerFailed as error:
            if self.config.on_error == "raise":
                raise
            return self._failed(cache, function, error)
        except JitError as error:
            raise error.with_traceback(None) from error.__cause__  # what led to it here tells nobody anything
        except Exception as error:
            return self._failed(cache, function, error)

    @contextmanager
    def _looking_at_disk(self, function: FunctionType) -> Iterator[None]:
        """Tells what was found on disk meanwhile."""
        disk = store(self.config)
        before = disk.fared
        yield
        found, missed = (now - then for now, then in zip(disk.fared, before, strict=True))
        if found or missed:
            what = f"{where(function)}: {found} parts found on disk, {missed} made anew"
            logs.tell(self.channels, "cache", what.__str__)

    def _of_nothing(self, cache: Any, function: FunctionType, slots: tuple[Any, ...]) -> Any:
        """An entry for calls like this one, if it brings nothing where others do that are compiled for: the original
        runs, which has as little to do. Not for frames of the hook, which would ask for each that these call."""
        for known in compiled(cache):
            laid = program(of_nothing(known.meta.guards), ())
            guards = _C.Guards(laid.nodes, laid.checks, laid.values) if laid.guards else None
            if guards is not None and guards.check(function, slots) is not None:
                logs.tell(self.channels, "dynamic", lambda: f"{where(function)} runs eagerly where tensors are empty")
                record = Record(function.__qualname__, function.__code__, None, laid.guards, [], None)
                entry = _C.Entry(guards, None, record)
                cache.add(entry)
                return entry
        return None

    def _compile(self, cache: Any, function: FunctionType, slots: tuple[Any, ...], is_called: bool) -> Any:
        """`is_called`: through a door of its own, and not met by the hook."""
        varying = self._varying.get(function.__code__, frozenset())
        options = replace(self.options, varying=varying)
        seen = {} if isinstance(self.dynamic, bool) else _seen(cache)
        if seen:
            try:
                return self._captured(cache, function, slots, replace(options, seen=seen), is_called)
            except SkipFrame as skip:
                logs.tell(self.channels, "dynamic", functools.partial(_told_static, function, skip.reason))
            except BackendCompilerFailed:
                if self.config.on_error == "raise":
                    raise
        return self._captured(cache, function, slots, options, is_called)

    def _captured(
        self, cache: Any, function: FunctionType, slots: tuple[Any, ...], options: Options, is_called: bool
    ) -> Any:
        """The entry of a capture with these options. Raises SkipFrame where there is none, or where what varies breaks
        what nothing broke before."""
        clock = Clock()
        breaks: dict[int, GraphBreak] = {}
        for _ in range(_MAX_RESTARTS):
            try:
                stats.captures += 1
                found = replace(options, long_loops=self._long_loops, apart=self._apart())
                captured = capture(function, slots, found, breaks)
                clock.lap("capture")
                if is_called and self._brings_little(captured, function):
                    return self._as_written(cache, function, captured)
                return self._entry(cache, function, slots, captured, clock)
            except Unlike:
                clock.lap("captures given up")
                stats.restarts += 1
                options, breaks = replace(options, repeat_operations=False), {}
            except LongLoop as loop:
                clock.lap("captures given up")
                stats.restarts += 1
                self._long_loops |= {loop.place}
                breaks = {}
            except Restart as restart:
                clock.lap("captures given up")
                stats.restarts += 1
                if (options.dynamic or options.seen) and restart.cause.reason in _RAISES:
                    # Sizes that raise are an entry of their own: one for all sizes would break for those that don't.
                    options, breaks = replace(options, dynamic=False, seen={}), {}
                    continue
                if restart.step in breaks or restart.step == 0:
                    raise SkipFrame(f"no progress: {restart.cause}") from restart
                breaks[restart.step] = bare(restart.cause)
        raise SkipFrame("too many restarts")

    def _entry(
        self, cache: Any, function: FunctionType, slots: tuple[Any, ...], captured: Capture, clock: Clock
    ) -> Any:
        try:
            specializations = _specializations(captured)
            for each in specializations:
                if each.is_marked:
                    raise MarkedSize(each)
            if isinstance(captured.exit, Break):
                if captured.tx.options.seen and not any(entry.meta.breaks for entry in compiled(cache)):
                    raise SkipFrame(str(captured.exit.cause))
                if self._must_be_whole(captured.exit.cause.reason):
                    raise Unsupported(reason_of(captured))
                if len(captured.exit.frames) > 1 and not self.config.break_everywhere:
                    self._broken_in[first_line(captured.exit.frames[-1].code.raw)] += 1
            if not self.config.break_everywhere and self._barren.learn(function, slots, captured):
                logs.tell(self.channels, "recompiles", functools.partial(_told_barren, function, self._barren.limit))
            assembled = assemble(
                captured,
                function.__code__,
                functools.partial(self._graph, clock),
                self.continuations,
                self.region,
                _weakly(weakref.WeakMethod(self._graph_failed)),
            )
            clock.lap("bytecode")
            return self._install(cache, function, slots, captured, assembled, specializations, clock)
        finally:
            captured.close()

    def _brings_little(self, captured: Capture, function: FunctionType) -> bool:
        if self.fullgraph or self.backend is not backends.kernels or self.config.break_everywhere:
            return False
        return is_little(captured, function.__code__)

    def _as_written(self, cache: Any, function: FunctionType, captured: Capture) -> Any:
        """An entry for calls that bring little: the original runs."""
        try:
            laid = program(of_arrays(captured), ())
        finally:
            captured.close()
        logs.tell(self.channels, "skips", lambda: f"{where(function)} runs eagerly: few operations on arrays alone")
        record = Record(function.__qualname__, function.__code__, None, laid.guards, [], None)
        entry = _C.Entry(_C.Guards(laid.nodes, laid.checks, laid.values), None, record)
        cache.add(entry)
        return entry

    def _apart(self) -> frozenset[Place]:
        """Functions that are captured by themselves, for what goes on after them would be captured without end."""
        return frozenset(place for place, times in self._broken_in.items() if times >= _MAX_BREAKS_INSIDE)

    def _notice_numbers(self, cache: Any, function: FunctionType, slots: tuple[Any, ...]) -> None:
        """Where an entry misses for the value of an int or float, that is an input of the graphs to come; where it
        misses for a number foreseen of a tensor, that is not foreseen again, if the graph may break."""
        for entry in compiled(cache):
            index, seen = entry.guards.explain(function, slots) or (-1, None)
            guard = entry.meta.guards[index] if index >= 0 else None
            if guard is None:
                continue
            is_number = guard.kind == "eq" and type(guard.payload) is type(seen) in (int, float)
            if is_number or (isinstance(guard.payload, Foreseen) and guard.payload.may_vary and not self.fullgraph):
                known = self._varying.get(function.__code__, frozenset())
                self._varying[function.__code__] = known | {guard.source.pattern}

    def _must_be_whole(self, reason: str) -> bool:
        """Whether a break or skip for this reason is an error."""
        return self.fullgraph and not self.config.break_everywhere and reason != ESCAPES

    def _graph(self, clock: Clock, module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        if not any(node.op.startswith("call") for node in module.graph.nodes):
            return _no_results  # it only read sizes
        stats.graphs += 1
        clock.lap("bytecode")
        with using(self.config), clock.inside():
            made = backends.run(self.backend, module, example_inputs)
        clock.lap("the graph")
        return made

    def _install(
        self,
        cache: Any,
        function: FunctionType,
        slots: tuple[Any, ...],
        captured: Capture,
        assembled: Assembled,
        specializations: list[Specialization],
        clock: Clock,
    ) -> Any:
        program = assembled.program
        guards = _C.Guards(program.nodes, program.checks, program.values)
        found = guards.explain(function, slots)
        if found is not None:
            what = program.guards[found[0]] if found[0] >= 0 else program.nodes[-1 - found[0]]
            if _thread._count() and self._overtaken[function.__code__] < _MOST_OVERTAKEN:
                self._overtaken[function.__code__] += 1  # by another thread, maybe: the next call is captured anew
                logs.tell(self.channels, "skips", lambda: f"{where(function)} runs eagerly this time: no longer {what}")
                return None
            raise RuntimeError(f"a guard fails for the call it was made for: {what}, saw {told(found[1])}")
        breaks = [reason_of(captured)] if isinstance(captured.exit, Break) else []
        stats.breaks += len(breaks)
        clock.lap("guards")
        folder = self._dump_folder()
        known = _known_as(function, slots)
        record = Record(
            known.__qualname__,
            function.__code__,
            assembled.module,
            program.guards,
            breaks,
            assembled.function.__code__,
            [str(effect) for effect in captured.ledger.effects()],
            specializations=specializations,
            notes=assembled.notes,
            why=self.explain_miss(cache, function, slots) if folder else "",
            continues=tuple(door.code for door in assembled.doors),
            spans=clock.spans,
            shown=known.__code__,
        )
        self.records.append(record)
        telling.tell(self.channels, record)
        record.folder = dumping.write(folder, record) if folder else ""
        run = dumping.run_text(record, assembled.function) if self.as_text else assembled.function
        self._generated.add(id(run.__code__))
        entry = _C.Entry(guards, run, record, assembled.packed)
        cache.add(entry)
        return entry

    def _dump_folder(self) -> str:
        return self.config.dump or config.dump or (dumping.temporary() if self.as_text else "")

    # --- what else a miss may lead to -------------------------------------------------------------------------------
    def _limit(self, cache: Any, function: FunctionType, slots: tuple[Any, ...]) -> None:
        cache.frozen = True
        logs.say(
            "recompiles",
            f"{where(function)} was compiled {len(compiled(cache))} times and runs eagerly for new inputs from now on; "
            f"last reason: {self.explain_miss(cache, function, slots)}{self._advice(cache, function, slots)} "
            "(jit.config.recompile_limit sets the bound)",
        )

    def _advice(self, cache: Any, function: FunctionType, slots: tuple[Any, ...]) -> str:
        """What to do about a number or a size that is another one at every call."""
        newest = compiled(cache)[0]
        index, seen = newest.guards.explain(function, slots) or (-1, None)
        guard = newest.meta.guards[index] if index >= 0 else None
        if guard is None or guard.kind not in ("tensor", "eq", "shape"):
            return ""
        name = guard.source.said if guard.source is not None else ""
        if guard.kind == "eq" and isinstance(guard.payload, str):
            return f"; each {name} is compiled for itself: look at it before the call, and hand in the answer"
        asked = [name] if guard.kind == "eq" else [terms.text(extent) for extent in terms.extents(guard.payload)]
        dims: list[int] = []
        if guard.kind == "tensor":
            dims = _other_dims(guard.payload["sizes"], seen)
            asked = [terms.text(terms.Extent(guard.source, "size", dim)) for dim in dims]
        fixed = [each for entry in compiled(cache) for each in entry.meta.specializations if each.symbol in asked]
        if fixed:
            return f"; {fixed[0]}"
        return f"; jit.mark_dynamic({name}, {dims[0]}) compiles for all sizes" if dims else ""

    def explain_miss(self, cache: Any, function: FunctionType, slots: tuple[Any, ...]) -> str:
        """In words, why the newest entry does not fit this call."""
        if not cache.entries:
            return "first call"
        entry = compiled(cache)[0]
        found = entry.guards.explain(function, slots)
        if found is None:
            return "its guards hold"
        index, seen = found
        if index < 0:
            return "a value that the compiled code reads is not there any more"
        guard = entry.meta.guards[index]
        what = f"saw {told(seen)}" if guard.kind != "shape" else terms.seen(guard.payload, seen)
        return f"expected {guard}, {what}"

    def _skip(self, cache: Any, function: FunctionType, reason: str) -> None:
        stats.skipped += 1
        logs.tell(self.channels, "skips", lambda: f"{where(function)} runs eagerly: {reason}")
        cache.frozen = True
        is_ours = any(function.__code__ is each for record in self.records for each in record.continues)
        generated = function.__code__ if is_ours else None
        record = Record(function.__qualname__, function.__code__, None, [], [], generated, skipped=reason)
        self.records.append(record)
        folder = self._dump_folder()
        if folder:
            dumping.write(folder, record)
        if self._must_be_whole(reason):
            place = ((function.__code__.co_filename, function.__code__.co_firstlineno, function.__qualname__),)
            raise Unsupported(BreakReason(SKIPPED, reason, "", place))

    def _failed(self, cache: Any, function: FunctionType, error: Exception) -> None:
        stats.errors += 1
        if self.config.on_error == "raise":
            raise InternalError(f"while compiling {function.__qualname__}: {type(error).__name__}: {error}") from error
        cache.frozen = True
        self._warn(function.__code__, "could not compile", error)

    def _graph_failed(self, code: CodeType, error: Exception) -> None:
        """A compiled graph raised where eager code went through."""
        stats.errors += 1
        if self.config.on_error == "raise":
            raise error
        self._warn(code, "compiled a graph that fails in", error)

    def _warn(self, code: CodeType, what: str, error: Exception) -> None:
        """Once for each function."""
        if code not in self._warned:
            self._warned.add(code)
            last = traceback.extract_tb(error.__traceback__)[-1]
            warn(
                f"framejit {what} {code.co_qualname} ({place(code)}); it runs eagerly. "
                f"Cause: {type(error).__name__}: {error} at {os.path.basename(last.filename)}:{last.lineno}. "
                "If it is not the program's own, please report it with the traceback that "
                'jit.config.on_error = "raise" gives.'
            )


def _none_fits(door: Any, slots: tuple[Any, ...], function: FunctionType) -> None:
    """What a door of code that is not compiled asks: no compiler is kept by it."""


def _weakly(method: weakref.WeakMethod[Callable[..., None]]) -> Callable[..., None]:
    """For the constants of generated code, through which the collector does not look: it keeps the compiler alive that
    keeps it alive."""

    def told(code: CodeType, error: Exception) -> None:
        if (tell := method()) is not None:
            tell(code, error)

    return told


def _specializations(captured: Capture) -> list[Specialization]:
    shapes = captured.tx.graph.shapes
    return shapes.specializations() if shapes is not None else []


def _seen(cache: Any) -> dict[str, tuple[Any, ...]]:
    """What the entries were made for, by paths: numbers (the type: any of it), and sizes of tensors."""
    found: dict[str, tuple[Any, ...]] = {}
    for entry in compiled(cache):
        for guard in entry.meta.guards:
            if guard.kind == "tensor":
                known = [(guard.source, guard.payload["sizes"])]
            elif guard.kind == "eq" and type(guard.payload) in (int, float, tuple, slice):
                known = [each for each in leaves(guard.source, guard.payload) if type(each[1]) in (int, float)]
            elif guard.kind == "type" and guard.payload in (int, float):
                known = [(guard.source, guard.payload)]  # it is an input, which is any number
            else:
                continue
            for source, value in known:
                found[source.text] = (*found.get(source.text, ()), value)
    return found


def _other_dims(sizes: tuple[int | None, ...], seen: Any) -> list[int]:
    """The dimensions in which a tensor has not the sizes that were expected."""
    shape = _shape(seen) if is_a(seen, torch.Tensor) else None
    if shape is None or len(shape) != len(sizes):
        return []
    both = zip(sizes, shape, strict=True)
    return [dim for dim, (known, now) in enumerate(both) if known is not None and known != now]


def _shape(tensor: torch.Tensor) -> torch.Size:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.shape


def _told_static(function: FunctionType, reason: str) -> str:
    return f"{where(function)} is compiled for these numbers and sizes alone: {reason}"


def _told_barren(function: FunctionType, limit: int) -> str:
    return (
        f"{where(function)}, with what goes on after its breaks, was captured {limit} times where it had been before, "
        "and met no tensor: it runs eagerly where it is handed none"
    )


def _entry_for(cache: Any, function: FunctionType, slots: tuple[Any, ...]) -> Any:
    """What another thread compiled for such a call meanwhile."""
    return next((entry for entry in cache.entries if entry.guards.check(function, slots) is not None), None)


def _no_results(*inputs: Any) -> tuple[()]:
    return ()


def reason_of(captured: Capture) -> BreakReason:
    """Why the capture broke, with the place where the reason was met."""
    assert isinstance(captured.exit, Break)
    cause = captured.exit.cause
    stack = getattr(cause, "stack", None) or (("<unknown>", 0, "<unknown>"),)
    return BreakReason(cause.reason, cause.detail, cause.hint, stack, getattr(cause, "columns", (0, 0)))


def _known_as(function: FunctionType, slots: tuple[Any, ...]) -> FunctionType:
    """The function that people know a call by."""
    if function is torch.nn.Module.__call__ and isinstance(slots[0], torch.nn.Module):
        forward = getattr(slots[0].forward, "__func__", None)
        return forward if isinstance(forward, FunctionType) else function
    return function


def where(function: FunctionType) -> str:
    """A function, its line first."""
    return f"{place(function.__code__)} in {function.__qualname__}"


def place(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}"


def told(value: Any, depth: int = 3) -> str:
    """A value of the program's, in words that none of its code says."""
    return describe(value) if _is_told_natively(value, depth) else object.__repr__(value)


def _is_told_natively(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in (list, tuple, set, frozenset, dict):
        inside = [*value, *value.values()] if kind is dict else value
        return depth > 0 and all(_is_told_natively(each, depth - 1) for each in inside)
    holds_nothing = not kind.__flags__ & _HOLDS or kind in _TOLD
    return is_a(value, torch.Tensor) or (holds_nothing and not isinstance(lookup(kind, "__repr__"), FunctionType))


#: `Py_TPFLAGS_HAVE_GC`: of types whose objects may hold others, which `repr` may ask; and of these, what asks none.
_HOLDS = 1 << 14
_TOLD = (type, FunctionType, BuiltinFunctionType, ModuleType, torch.device, torch.dtype)


def describe(value: Any) -> str:
    if is_a(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return f"{type(value).__name__} {str(value.dtype)[6:]}{list(value.shape)} strides {value.stride()}"
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) < 100 else text[:97] + "..."


def is_library(code: CodeType) -> bool:
    """Whether the hook leaves this code alone: torch and what it is built on, the standard library, the compiler and
    what these generate. Where the program's own code calls it, it is traced all the same."""
    if code.co_filename.startswith(_LIBRARY):
        return True
    return code.co_qualname.startswith(_MADE_BY_DATACLASS) or _makes_tuple(code)


def _makes_tuple(code: CodeType) -> bool:
    """Whether it is the `__new__` that `collections.namedtuple` generates."""
    return code.co_filename == "<string>" and code.co_varnames[:1] == ("_cls",)


_GENERATED = ("<frozen", "<eval_with_key>", "<aot wrapper")  # the second is what fx calls the code of its graphs
_MADE_BY_DATACLASS = "__create_fn__.<locals>."
#: What torch requires, and these in turn: they know of no tensors.
_REQUIRED = "filelock/ fsspec/ jinja2/ markupsafe/ mpmath/ networkx/ numpy/ setuptools/ sympy/ typing_extensions.py"
_SITES = {os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))), sysconfig.get_paths()["purelib"]}
_LIBRARY = (
    *(os.path.dirname(os.path.abspath(m.__file__ or "")) + os.sep for m in (os, torch)),
    *(os.path.join(site, name) for site in _SITES for name in _REQUIRED.split()),
    *_OURS,
    *_GENERATED,
)


#: Code that is not compiled, though what it calls is, by its id.
ONLY_THIS: dict[int, CodeType] = {}


def refuse(code: CodeType, module: str | None) -> str | None:
    """Why a code object must not be traced into; None if it may."""
    if id(code) in ONLY_THIS:
        return "function that jit.disable(recursive=False) was said of"
    traced = code.co_filename == polyfills.__file__ or code is raise_again.__code__
    if code.co_filename.startswith(_OURS) and not traced:
        return "function of the compiler"
    if module is not None and module.partition(".")[0] in _REFUSED_PACKAGES:
        return "function of another compiler"
    return None


_REFUSED_PACKAGES = frozenset({"triton"})


def _unwrap_door(tx: Translator, value: Any, source: Source) -> Variable:
    """A compiled function met while tracing is the function behind it."""
    return FunctionVariable(value.__wrapped__, source.attr("__wrapped__"))


UNWRAP: dict[type, Any] = {_C.Door: _unwrap_door, _C.ResumeDoor: ResumeVariable}
