"""From a capture to residual bytecode: call the graph, replay the ledger, go on as the frame would have."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import torch
from bytecode import Label
from torch import fx

from codegen.residual import breaks, iterators, rebuild, runtime
from codegen.residual.breaks import RESULT, ROWS, Broken
from codegen.residual.checked import checks_first, may_check
from codegen.residual.continuations import Closure, Continuations, continuation, kept_by, watch
from codegen.residual.emitter import Emitter
from codegen.residual.failures import Blame, RunAgain, has_plain_slots, random_state
from codegen.residual.kept import Before, Needed, needed
from codegen.residual.notes import Notes
from codegen.residual.resume import Entry
from codegen.residual.writer import BUILD, MADE, Placeholder, Writer
from sideeffects.ledger import Ledger
from symbolic import polyfills, tracebacks, versions
from symbolic.capture import Break, Capture, Return
from symbolic.code import Inst, argument_slots, looks_at_nodes, written_later
from symbolic.dropped import LEFT
from symbolic.errors import ASKS_NODE, RECURSION, GraphBreak, Restart, SkipFrame
from symbolic.frames import Frame
from symbolic.graph import OPERATION_RAISES
from symbolic.guards import Program, program
from symbolic.opcodes.exceptions import handling
from symbolic.reach import children, exists, reachable, within
from symbolic.sources import Source
from symbolic.torch_state import hushed, restoring
from symbolic.translator import ESCAPES
from symbolic.variables.arrays import ArrayVariable, ScalarVariable
from symbolic.variables.base import NULL, Variable
from symbolic.variables.containers import DequeIterator
from symbolic.variables.exceptions import FrameVariable
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.mappings import DictIterator
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.sets import SetIterator, SetVariable
from symbolic.variables.subclasses import SubclassVariable
from symbolic.variables.symbols import SymbolInput
from symbolic.variables.tensors import DrawnTensor, NodeVariable, TensorVariable
from symbolic.variables.weak import WeakReference, let_go

#: END_FOR (3.12), END_FOR; POP_TOP (3.13) clean up after the interpreter's own FOR_ITER
_LOOP_END = 2 if versions.PY313 else 1 if versions.PY312 else 0
#: Past this many graph inputs that are not arguments, all inputs are handed over as one tuple.
MANY_INPUTS = 8

assert iterators and rebuild  # their rows are in BUILD
CompileGraph = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Assembled:
    """A compiled frame: the residual function (parameters: see `jit/csrc/doors.cpp`), its guards, and what to show."""

    function: FunctionType
    program: Program
    module: fx.GraphModule | None
    packed: bool = False
    doors: list[Any] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)


def assemble(
    capture: Capture,
    code: CodeType,
    compile_graph: CompileGraph,
    pool: Continuations,
    region: Any,
    blame: Blame,
) -> Assembled:
    """Raises `Restart` if a live value can't be rebuilt, `SkipFrame` if the frame can't be continued.

    `region` is what broken calls run in. `blame` is told of a graph that raises where eager code does not."""
    return _Assembler(capture, code, compile_graph, pool, region, blame).run()


@dataclass
class _Way:
    """One way to go on after a break: where, and with which stack."""

    entry: Entry
    offset: int
    stack: list[Variable]


class _Assembler:
    def __init__(
        self,
        capture: Capture,
        code: CodeType,
        compile_graph: CompileGraph,
        pool: Continuations,
        region: Any,
        blame: Blame,
    ) -> None:
        self.capture = capture
        self.blame = blame
        self.failed: Label | None = None  # where control goes when the graph raises
        self.at_once = False  # whether the graph's inputs come as one tuple
        self.code = code
        self.compile_graph = compile_graph
        self.pool = pool
        self.region = region
        self.params = list(code.co_varnames[: argument_slots(code)])
        name = code.co_name
        self.emit = Emitter(name, code.co_qualname, code.co_filename, code.co_firstlineno, self.params)
        self.ledger: Ledger = capture.ledger
        self.outputs: dict[Variable, str] = {}
        self.writer = Writer(self.emit, self.ledger, self.outputs, dict(enumerate(self.params)))
        self.doors: list[Any] = []
        self.titles: dict[int, str] = {}
        self.states: list[str] = []  # of generators of random numbers, before the early calls
        self.needed = Needed()  # for the frame to run again
        self.before = ""  # what holds the inputs as they came

    def run(self) -> Assembled:
        roots = self._roots()
        alive = self.alive = self._reachable(roots)
        kept = set(alive)
        for generator in list(self.capture.tx.waiting):  # closing one may run others
            if generator not in kept and not self.capture.tx.closes_quietly(generator):
                raise SkipFrame(LEFT)
        if isinstance(self.capture.exit, Break):
            self._check_generators(alive, self.capture.exit)
        self.writer.find_cycles(alive)
        exit_ = self.capture.exit
        has_nodes = any(isinstance(v, NodeVariable) for v in alive) or _goes_on_to_nodes(exit_)
        made = [v for v in alive if isinstance(v, TensorVariable) and not isinstance(v, DrawnTensor) and not exists(v)]
        module = self._call_graph(made, has_nodes)
        if isinstance(exit_, Break):
            self.emit.line = exit_.frames[0].line
        self.writer.ask(alive)
        self.writer.effects(set(alive))
        self.emit.note = "classes that the program made"
        self._make_classes()
        if isinstance(exit_, Return):
            self.emit.note = "what it returns"
            self.writer.load(exit_.value)
            self.writer.leave()
        else:
            self._break(exit_)
        if self.failed is not None:
            assert module is not None
            self.emit.note = "the graph failed: the function runs as it was written"
            self._run_again(self.failed, module)
        self.emit.note = "an effect raised: the exception goes on as from the program's own line"
        self.writer.fail()
        function = FunctionType(self.emit.code(), self._globals(), self.code.co_name)
        values = sorted(self.writer.values, key=self.writer.values.__getitem__)
        fits = program(self.capture.guards(), values)
        return Assembled(function, fits, module, self.writer.packed, self.doors, self._notes())

    def _notes(self) -> Notes:
        labels = {f"__value.{index}": source.text for source, index in self.writer.values.items()}
        # An effect in words may name values of its keys, which asks guards for them: there are none any more.
        # One in words is made once: it is as long as what it writes, and so many instructions are for it.
        effects = {id(note): note for note in self.emit.notes if not isinstance(note, str)}
        said = {key: f"effect: {effect}" for key, effect in effects.items()}
        told = [note if isinstance(note, str) else said[id(note)] for note in self.emit.notes]
        return Notes(tuple(told), self.titles, labels)

    def _make_classes(self) -> None:
        """Makes those that are alive in the order in which the program does: their bases tell of it."""
        alive = set(self.alive)
        for made in self.ledger.classes.values():
            if made in alive:
                self.writer.load(made)
                self.emit.pop()

    def _check_generators(self, alive: list[Variable], exit_: Break) -> None:
        """After a break nobody can say when what the frames hold lets go of a generator that runs on then, but for
        those that `with` sees to: what a compilation leaves behind holds it, too, until it is collected."""
        managers = [v for v in alive if isinstance(v, ObjectVariable) and v.cls is _MANAGER]
        seen_to = {each for manager in managers for each in children(manager, self.ledger)}
        raises = exit_.cause.reason if exit_.cause.reason in (ESCAPES, OPERATION_RAISES) else ""
        for each in alive:
            if not isinstance(each, GeneratorVariable) or each in seen_to:
                continue
            if each.runs_on() or (raises and each.is_missed()):
                raise SkipFrame(raises or "a generator with `try` or `with` outlives a break")

    def _globals(self) -> dict[str, Any]:
        frames = self.capture.exit.frames if isinstance(self.capture.exit, Break) else []
        return frames[0].namespace.real() if frames else {"__builtins__": __builtins__}

    # --- graph ------------------------------------------------------------------------------------------------------
    def _roots(self) -> list[Variable]:
        exit_ = self.capture.exit
        if isinstance(exit_, Return):
            return [exit_.value]
        roots: list[Variable] = list(self.ledger.classes.values())  # of which their bases tell
        for frame in exit_.frames:
            roots += [*frame.stack, *frame.locals.values(), *frame.cells.values()]
            if frame.on_return is not None:
                roots.append(frame.on_return)
        return [root for root in roots if root is not NULL]

    def _reachable(self, roots: list[Variable]) -> list[Variable]:
        """What must exist afterwards, with what is kept alive by tracebacks: not what has to be made of things as they
        are in the end, as a traceback may be made before; nor what a frame that goes on lets go of yet."""
        alive = reachable(roots, self.ledger)
        running = self.capture.exit.frames if isinstance(self.capture.exit, Break) else []
        known: set[Variable] = set()
        while frames := [each for each in alive if isinstance(each, FrameVariable) and each not in known]:
            watched = watch(self.capture)
            for each in frames:
                kept, code = kept_by(each.frame, watched), each.frame.code
                again = written_later(code, each.frame.current) if each.frame in running else ()
                early = (name for name in kept if name not in again and not self._is_made_late(kept[name]))
                each.variables = {**{name: kept[name] for name in early}, **each.variables}
            known.update(frames)
            alive = reachable(roots, self.ledger)
        return alive

    def _is_made_late(self, value: Variable) -> bool:
        parts = within([value], self.ledger)
        return any(isinstance(part, (*MADE, GeneratorVariable)) or _looks_at_now(part) for part in parts)

    def _call_graph(self, outputs: list[TensorVariable], has_nodes: bool) -> fx.GraphModule | None:
        """Emits the call of the compiled graph; its results go to locals. `has_nodes`: see `GraphBuilder.finish`."""
        graph = self.capture.graph
        if not graph.calls:
            self._copies([])
            self.writer.early()
            return None
        module = graph.finish(outputs, has_nodes)
        self._keep_checks(lambda: may_check(module, graph))
        compile_graph = hushed(self.compile_graph) if graph.hushed else self.compile_graph
        compiled = compile_graph(module, [_example(variable) for variable in graph.inputs])
        self.needed = needed(graph, module, module.meta.get("stages"))
        self._keep_checks(lambda: checks_first(module, compiled, self.needed.inputs))
        if graph.switches:
            compiled = restoring(compiled)
        if graph.hushed:
            compiled = hushed(compiled)
        emit, sources = self.emit, [each.source for each in graph.inputs if each.source is not None]
        made = [source for source in sources if source.is_made]
        indirect = [source for source in sources if source.kind not in ("arg", "made")]
        self.at_once = len(indirect) > MANY_INPUTS and not made and len(sources) == len(graph.inputs)
        if len(indirect) > MANY_INPUTS:
            self.writer.pack_values(sources if self.at_once else ())
        emit.note = "what the graph reads"
        self._copies(made)
        emit.note = "calls that come before the graph"
        self._early_calls()
        self._keep_inputs()
        emit.note = "the graph"
        self.titles[id(compiled)] = "graph"
        self.failed = emit.label()
        emit.begin_try(self.failed)
        emit.begin_call()
        emit.const(compiled)
        emit.end_callable()
        if self._load_inputs():
            emit.call_ex(False)
        else:
            emit.call(len(graph.inputs))
        emit.end_try()
        if self.before:
            emit.const(None)
            emit.store(self.before)
        self._unpack(outputs)
        return module

    def _copies(self, made: list[Source]) -> None:
        """Makes what the graph gets made, and copies of what is written later on."""
        others = [each.source for each in self.alive if each.source is not None and each.source.kind == "made"]
        for source in dict.fromkeys([*made, *others]):
            self.writer.load_source(source)
            self.emit.pop()

    def _load_inputs(self) -> bool:
        """Pushes the graph's inputs, as one tuple (True) or one by one."""
        inputs = self.capture.graph.inputs
        if self.at_once:
            self.emit.load("__values")
            self.emit.const(slice(0, len(inputs)))
            self.emit.subscr()
        else:
            for variable in inputs:
                self.writer.load_input(variable)
        return self.at_once

    def _keep_checks(self, may_run_again: Callable[[], bool]) -> None:
        """A frame whose graph checks what it would branch on must be able to run again."""
        tx = self.capture.tx
        if tx.first_check is not None and not may_run_again():
            step, checked = tx.first_check
            raise Restart(step, GraphBreak("branch on a tensor", checked, "the graph writes what it can't take back"))

    def _keep_inputs(self) -> None:
        inputs = self.capture.graph.inputs
        if self.needed.inputs:
            self.emit.note = "inputs that the graph writes before it may raise"
            self.before = self.emit.fresh("before")
            self.emit.begin_call()
            self.emit.const(Before)
            self.emit.end_callable()
            for at in self.needed.inputs:
                self.writer.load_input(inputs[at])
            self.emit.call(len(self.needed.inputs))
            self.emit.store(self.before)

    def _early_calls(self) -> None:
        """Makes them, after what is needed to take them back."""
        for owner in (*self.capture.tx.drawn_from.values(), *self.needed.generators):
            self.states.append(self.emit.fresh("state"))
            self.writer.call(random_state, owner)
            self.emit.store(self.states[-1])
        self.writer.early()

    def _run_again(self, failed: Label, module: fx.GraphModule) -> None:
        """The graph raised: the frame runs as it was written, and nothing of this code is in a traceback."""
        emit, tx = self.emit, self.capture.tx
        door = self.pool.as_written(self.code, tx.globals, self.code.co_name) if has_plain_slots(self.code) else None
        draws_again = torch in tx.drawn_from or bool(self.needed.generators)
        again = RunAgain(module, self.code, tx.globals, self.blame, draws_again, self.needed.inputs, door)
        raised = Placeholder(emit.fresh("failure"))
        passing = emit.label()
        emit.mark(failed)
        emit.store(raised.name)
        emit.begin_try(passing)
        emit.begin_call()
        emit.const(again)
        emit.end_callable()
        emit.take(raised.name)  # its traceback holds this frame
        for name in self.params:
            emit.load(name)
        emit.build("tuple", len(self.params))
        for index, name in enumerate(self.code.co_freevars):
            self.writer.load_source(tx.sources.closure(index, name))
        emit.build("tuple", len(self.code.co_freevars))
        if not self._load_inputs():
            emit.build("tuple", len(self.capture.graph.inputs))
        for state in self.states:
            emit.load(state)
        emit.build("tuple", len(self.states))
        if self.before:
            emit.load(self.before)
        else:
            emit.const(None)
        emit.call(6)
        emit.return_value()
        emit.end_try()
        emit.mark(passing)
        self._unseen(lambda: self.emit.copy(3))  # it lies below the callable and its null
        emit.reraise()

    def _unpack(self, outputs: Sequence[TensorVariable]) -> None:
        emit = self.emit
        if not outputs:
            emit.pop()
            return
        emit.unpack(len(outputs))
        for variable in outputs:
            name = emit.fresh("tensor")
            emit.store(name)
            if variable.cls is torch.nn.Parameter:
                self.writer.call(runtime.become_parameter, Placeholder(name))
                emit.pop()
            self.outputs[variable] = name

    # --- breaks -----------------------------------------------------------------------------------------------------
    def _break(self, exit_: Break) -> None:
        frames, inst = exit_.frames, exit_.inst
        frame = frames[-1]
        if inst is None:
            # Not the next instruction's own offset: something that the decoder dropped may stand before it.
            offset = frame.code.insts[frame.index - 1].next_offset
            self._go_on(frames, _Way(Entry.AFTER, offset, list(frame.stack)))
            return
        self.emit.line = inst.line if len(frames) == 1 else frames[0].line
        if len(frames) == 1:
            self.emit.place(frame.code.positions[inst.offset // 2])
        self.emit.note = f"line {inst.line} of {frame.filename}, {inst.op}, which is not in a graph: it runs as it is"
        for variable in self.alive:
            if _looks_at_now(variable) and not exists(variable):
                self.writer.load(getattr(variable, "owner", None) or variable)
                self.emit.pop()
        if inst.op in _BRANCHES:
            self._branch(frames, frame, inst)
        elif inst.op == "FOR_ITER":
            self._loop(frames, frame, inst)
        else:
            self._instruction(frames, frame, inst)

    def _instruction(self, frames: list[Frame], frame: Frame, inst: Inst) -> None:
        """Runs the broken instruction and goes on after it; its exception is raised where the frames can catch it."""
        row = ROWS.get(inst.op)
        if row is None:
            raise SkipFrame(f"{inst.op} can't run outside its frame")
        count = row.takes(inst)
        below = frame.stack[: len(frame.stack) - count]
        operands = frame.stack[len(frame.stack) - count :]
        assert isinstance(self.capture.exit, Break)
        region = None if self.capture.exit.cause.reason == RECURSION else self.region
        guarded, handled = self._guarded(frames, frame, inst, operands), self.capture.tx.handled
        through = guarded.through
        broken = Broken(self.writer, frame, inst, operands, region, through, frame.kw_names, handled, guarded.needed)
        if not guarded.needed:
            tx, dropped = self.capture.tx, set(let_go(self.capture.tx))
            broken.kept = tuple(kept_by(frame, watch(self.capture)).values())
            broken.dropped = [name for name, each in zip(self.params, tx.given, strict=True) if each in dropped]
        result = Placeholder(self.emit.fresh("result"))
        left = row.leaves(inst)
        for operand in operands:
            # What the instruction changes in place must be the same object afterwards.
            if operand is not NULL and not exists(operand) and type(operand) in BUILD:
                self.writer.load(operand)
                self.emit.pop()
        with guarded:
            try:
                row.run(broken)
            except breaks.NotBreakable as error:
                raise SkipFrame(str(error)) from error
            if RESULT in left and self.emit.depth is not None:
                self.emit.store(result.name)
        if self.emit.depth is None:
            return
        stack = [result if item is RESULT else operands[item] if isinstance(item, int) else item for item in left]
        if inst.op == "BEFORE_WITH":
            leave = Placeholder(self.emit.fresh("exit"))
            self.emit.load(result.name)
            self.emit.unpack(2)
            self.emit.store(leave.name)
            self.emit.store(result.name)
            stack = [leave, result]
        elif inst.op == "CHECK_EG_MATCH":
            self._match(frames, frame, inst, [*below, *self._unpacked(result, 2)])
            return
        elif inst.op in ("UNPACK_SEQUENCE", "UNPACK_EX"):
            stack = self._unpacked(result, breaks.unpacked(inst))
        self._go_on(frames, _Way(Entry.AFTER, inst.next_offset, [*below, *stack]))

    def _match(self, frames: list[Frame], frame: Frame, inst: Inst, stack: list[Variable]) -> None:
        """After an `except*`: only what it handles, if anything, becomes the exception being handled."""
        nothing = self.emit.label()
        self.writer.load(stack[-1])
        self.emit.const(None)
        self.emit.is_op()
        self.emit.jump_if_true(nothing)
        snapshot = self.writer.snapshot()
        self._go_on(frames, _Way(Entry.AFTER, inst.next_offset, handling(stack, stack[-1])))
        self.writer.restore(snapshot)
        self.emit.mark(nothing)
        self._go_on(frames, _Way(Entry.AFTER, inst.next_offset, stack))

    def _unpacked(self, result: Placeholder, count: int) -> list[Variable]:
        names = [Placeholder(self.emit.fresh("item")) for _ in range(count)]
        self.emit.load(result.name)
        self.emit.unpack(len(names))
        for item in names:
            self.emit.store(item.name)
        return list(names)

    def _branch(self, frames: list[Frame], frame: Frame, inst: Inst) -> None:
        """A jump on a value that only the running program has: both sides go on."""
        condition, below = frame.stack[-1], frame.stack[:-1]
        jump_when, keep = _BRANCHES[inst.op]
        truth = self.emit.fresh("truth")
        with self._guarded(frames, frame, inst, [condition]) as through:
            self.writer.call(*through, bool, condition)
            self.emit.store(truth)
        taken = self.emit.label()
        self.emit.load(truth)
        (self.emit.jump_if_true if jump_when else self.emit.jump_if_false)(taken)
        snapshot = self.writer.snapshot()
        self._go_on(frames, _Way(Entry.AFTER, inst.next_offset, list(below)))
        self.writer.restore(snapshot)
        self.emit.mark(taken)
        self._go_on(frames, _Way(Entry.AFTER, inst.argval, [*below, condition] if keep else list(below)))

    def _loop(self, frames: list[Frame], frame: Frame, inst: Inst) -> None:
        """FOR_ITER over an iterator that tracing can't see into: one more round, or the end of the loop."""
        iterator, below = frame.stack[-1], frame.stack[:-1]
        item = Placeholder(self.emit.fresh("item"))
        with self._guarded(frames, frame, inst, [iterator]) as through:
            self.writer.call(*through, next, iterator, _EXHAUSTED)
            self.emit.store(item.name)
        done = self.emit.label()
        self.emit.load(item.name)
        self.emit.const(_EXHAUSTED)
        self.emit.is_op()
        self.emit.jump_if_true(done)
        snapshot = self.writer.snapshot()
        self._go_on(frames, _Way(Entry.AFTER, inst.next_offset, [*below, iterator, item]))
        self.writer.restore(snapshot)
        self.emit.mark(done)
        after = frame.code.insts[inst.target + _LOOP_END - 1].next_offset if _LOOP_END else inst.argval
        self._go_on(frames, _Way(Entry.AFTER, after, list(below)))

    def _go_on(self, frames: list[Frame], way: _Way) -> None:
        """Hands over to the continuation: this frame is gone when it runs, and nothing stays alive on its account."""
        state = continuation(self.pool, frames, way.entry, way.offset, way.stack, watch(self.capture))
        self.emit.note = _GOES_ON[way.entry]
        self.doors.append(state.door)
        emit = self.emit
        emit.begin_call()
        emit.const(state.door)
        emit.end_callable()
        self._load_argument(Closure(state.closure))
        for argument in state.arguments:
            self._load_argument(argument)
        emit.call(1 + len(state.arguments))
        self.writer.leave(way.entry is Entry.RAISE)

    def _unseen(self, load: Callable[[], None]) -> None:
        """Takes the entry of this code off the traceback of the exception that `load` pushes as an argument."""
        emit = self.emit
        emit.begin_call()
        emit.const(runtime.unseen)
        emit.end_callable()
        load()
        emit.call(1)
        emit.pop()

    def _load_argument(self, argument: Variable) -> None:
        if not isinstance(argument, Closure):
            self.writer.load(argument)
        elif argument.cells is None:
            self.emit.const(None)
        else:
            self.writer.load_tuple(argument.cells)

    def _guarded(self, frames: list[Frame], frame: Frame, inst: Inst, operands: list[Variable]) -> _Guarded:
        alone = inst.op != "IMPORT_NAME" and all(map(_runs_nothing, operands))
        inlined = [each for each in frames[1:] if not alone and each.filename != polyfills.__file__]
        return _Guarded(self, frames, frame, inst, inlined)


class _Guarded:
    """Around the broken instruction: its exception goes on in the frames, where their handlers (and tracebacks) are."""

    def __init__(
        self, owner: _Assembler, frames: list[Frame], frame: Frame, inst: Inst, inlined: list[Frame]
    ) -> None:
        self.owner, self.frames, self.frame, self.inst = owner, frames, frame, inst
        covered = any(f.code.handler(f.code.insts[f.current].offset) is not None for f in frames)
        self.handled = owner.capture.tx.handled
        misses = any(isinstance(each, GeneratorVariable) and each.is_missed() for each in frame.stack)
        ours = len(frames) > 1 or self.handled is not None or inst.op in breaks.BY_FUNCTIONS
        self.needed = covered or misses or ours
        places = [(each.code.raw, each.namespace.real(), each.offset) for each in inlined]
        #: what it calls is called through these, which stand in for the inlined frames
        self.through = tuple(itertools.starmap(tracebacks.stand_in, places if inst.op in _THROUGH else ()))
        self.missing = len(inlined) - len(self.through)
        self.handler = owner.emit.label()

    def __enter__(self) -> tuple[FunctionType, ...]:
        if self.handled is not None:
            self.owner.writer.load(self.handled)
            self.owner.emit.begin_handling()
        self._deeper(self.missing)
        if self.needed:
            self.owner.emit.begin_try(self.handler)
        return self.through

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None or not self.needed:
            return
        emit = self.owner.emit
        emit.end_try()
        after = emit.label()
        falls_out = emit.depth is not None
        if falls_out:
            self._end()
            emit.jump(after)
        raised = Placeholder(emit.fresh("raised"))
        snapshot = self.owner.writer.snapshot()
        emit.mark(self.handler)
        emit.store(raised.name)
        self._end()
        self.owner._unseen(lambda: emit.load(raised.name))
        row = self.frame.code.handler(self.inst.offset)
        depth = row.depth if row is not None else 0
        stack = [*self.frame.stack[:depth], raised]
        self.owner._go_on(self.frames, _Way(Entry.RAISE, self.inst.offset, stack))
        self.owner.writer.restore(snapshot)
        if falls_out:
            emit.mark(after)

    def _end(self) -> None:
        self._deeper(-self.missing)
        if self.handled is not None:
            self.owner.emit.end_handling()

    def _deeper(self, levels: int) -> None:
        """What runs has as much of the recursion left as if the frames that nothing stands in for were there."""
        region, emit = self.owner.region, self.owner.emit
        if levels and region is not None:
            emit.begin_call()
            emit.const(region.deeper)
            emit.end_callable()
            emit.const(levels)
            emit.call(1)
            emit.pop()


def _example(variable: Any) -> Any:
    if isinstance(variable, SymbolInput):
        return variable.number
    return variable.example if isinstance(variable, DrawnTensor) else variable.value


def _goes_on_to_nodes(exit_: Return | Break) -> bool:
    """Whether what comes after a break asks for autograd's nodes, as far as its code tells."""
    if isinstance(exit_, Return):
        return False
    if exit_.cause.reason == ASKS_NODE:
        return True
    for frame in exit_.frames:
        codes = [(frame.code.raw, frame.namespace.real())]
        held = [getattr(each, "value", None) for each in (*frame.locals.values(), *frame.stack)]
        codes += [(each.__code__, each.__globals__) for each in held if type(each) is FunctionType]
        classes = set(map(type, held))
        if any(looks_at_nodes(code, namespace, classes) for code, namespace in codes):
            return True
    return False


_GOES_ON = {
    Entry.AFTER: "the function goes on, as another compiled function",
    Entry.RAISE: "it raised: the function goes on where it handles that",
}


def _runs_nothing(operand: Variable) -> bool:
    try:
        return operand is NULL or operand.python_type() in _RUN_NOTHING
    except GraphBreak:  # its type is not known
        return False


class _Exhausted:
    def __repr__(self) -> str:
        return "<exhausted>"


_EXHAUSTED = _Exhausted()


def _looks_at_now(variable: Variable) -> bool:
    """Whether it is made of an existing container as that is now: iterators that see what has been done to it since
    they were made, sets with elements of another; weak references, which others can ask for; what torch makes of a
    tensor, which modes see that begin now; and coroutines, which are missed if what is done now raises."""
    if isinstance(variable, SetVariable):
        recipe = variable.recipe()
        return recipe is not None and bool(recipe.existing())
    if isinstance(variable, GeneratorVariable):
        return variable.is_missed()
    return isinstance(variable, _LOOKS_AT_NOW)


_LOOKS_AT_NOW = (
    *(DictIterator, SetIterator, DequeIterator, WeakReference),
    *(ArrayVariable, ScalarVariable, SubclassVariable, NodeVariable),
)
#: what `@contextmanager` makes of a generator
_MANAGER: type = contextlib._GeneratorContextManager
#: types whose operators run nothing of the program's
_RUN_NOTHING = (bool, int, float, complex, str, bytes, type(None), torch.Tensor, torch.nn.Parameter)
#: opcode -> (jumps when the condition is, keeps the condition when it jumps)
_BRANCHES = {
    **{f"POP_JUMP_{way}IF_TRUE": (True, False) for way in ("", "FORWARD_", "BACKWARD_")},
    **{f"POP_JUMP_{way}IF_FALSE": (False, False) for way in ("", "FORWARD_", "BACKWARD_")},
    "JUMP_IF_TRUE_OR_POP": (True, True),
    "JUMP_IF_FALSE_OR_POP": (False, True),
}
#: what runs functions of the program's most often
_THROUGH = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "FOR_ITER", "IMPORT_NAME", *_BRANCHES})
