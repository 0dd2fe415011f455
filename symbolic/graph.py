"""The graph builder: an `fx.Graph` of the torch calls the user wrote, run on fake tensors as it grows."""

from __future__ import annotations

import copy
import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map_only

from symbolic.by_values import SizesByValue, is_symbol
from symbolic.errors import GraphBreak, LettingGo, Restart
from symbolic.fakes import FakeMode
from symbolic.gradients import Blank, Together
from symbolic.guards import Guard
from symbolic.holds import Holds
from symbolic.inner import InnerGraph
from symbolic.late import Number, Standing, Unknown, elements
from symbolic.operators import run_with_symbols, with_symbols
from symbolic.quick_graph import Graph
from symbolic.refusals import holds, tensors_in, told
from symbolic.shapes import (
    MOST,
    SMALLEST,
    Shapes,
    depends_on_values,
    number_at_hand,
    settling,
)
from symbolic.sources import Source
from symbolic.torch_state import enter_inference, leave_inference, state_of_operations
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.classes import ClassVariable
from symbolic.variables.constants import ConstantVariable, SliceVariable, is_constant_value
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.dispatched import DispatchedTensor, ask, below
from symbolic.variables.either import check_sure
from symbolic.variables.foreseen import foresee, geometry, item, number
from symbolic.variables.functions import FunctionVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.numbers import (
    EXAMPLES,
    SIZED_BY_VALUES,
    DrawnNumber,
    GivenNumber,
    NumberInput,
    NumberVariable,
    given,
    holds_number,
    numbers_in,
    parts_of,
    replaced,
    value_of,
)
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.outside import warn
from symbolic.variables.symbols import SymbolInput, SymbolVariable
from symbolic.variables.tensor_methods import know_operation
from symbolic.variables.tensors import (
    CHANGES,
    MOVES,
    DrawnTensor,
    GraphFunction,
    GraphValue,
    NodeVariable,
    NumberOutput,
    TensorVariable,
)
from symbolic.varying import varying_dims
from symbolic.warned import Hearing, Said, quietly, unheard

if TYPE_CHECKING:
    from symbolic.translator import Translator

_getitem = operator.getitem
#: The reason of a break at an operation that raises for the inputs at hand.
OPERATION_RAISES = "operation raises"
OUT_OF_ITS_OWN = "out= of another size or dtype"
#: Functions that give stand-ins a new tensor in place of `out=`.
_NEW_FOR_STAND_INS = frozenset({torch.linalg.matrix_rank})
#: What torch says of an operator of the user's that only computes, and what to do about it.
NO_FAKE, _REGISTER = "no fake impl registered", "give its register_fake a function whose results look the same"
#: Arguments by these names are numbers; of a tensor of one element torch reads it.
_NUMBERS_TAKEN = ("alpha", "beta", "value")
#: What takes a Size for the size of a new tensor, and any other tuple for its contents. A graph has no Size.
_BY_SIZE = frozenset({"new", torch.Tensor.new, torch.Tensor})
_TENSOR_TYPE: Any = type(torch.DoubleTensor)
SYMBOLIC = (torch.SymInt, torch.SymFloat)
_PLUMBING = frozenset({"_modules", "_parameters", "_buffers", "__dict__"})


def input_name(source: Source) -> str:
    """`l_x_` for the argument x, `l_self_blocks_0_weight` for a parameter found through modules."""
    parts: list[str] = []
    here: Source | None = source
    while here is not None:
        arg = here.arg.__name__ if here.kind == "call" else here.arg
        word = here.name if here.base is None else str(arg) if arg is not None else ""
        if word and word not in _PLUMBING:
            parts.append(word)
        here = here.base
    text = re.sub(r"\W+", "_", "_".join(reversed(parts))).strip("_")
    return f"l_{text}_" if len(parts) == 1 else f"l_{text}"


class GraphBuilder(SizesByValue):
    """Owns the graph, the fake tensor mode, and the tie between fake tensors and their variables."""

    def __init__(self, tx: Translator, fake_mode: FakeMode, shapes: Shapes | None = None) -> None:
        self.tx = tx
        self.fake_mode = fake_mode
        self.shapes = shapes  # None: all sizes are plain numbers
        self.came_mode = None if shapes is None else FakeMode(allow_non_fake_inputs=True, shape_env=shapes.env)
        self.root: fx.Graph = Graph()
        self.graph = self.root  # the one that is written now
        self.modules = torch.nn.Module()  # the graphs inside the root
        self.inner: list[InnerGraph] = []  # inside the root, the innermost last
        self._left: dict[fx.Graph, int] = {}  # a finished inner graph -> where it was born
        self.inputs: list[TensorVariable | NumberInput | SymbolInput | DrawnNumber] = []
        self._at: dict[fx.Node, int] = {}  # placeholders -> which of the inputs; the last may lack
        self.by_fake: dict[int, TensorVariable] = {}
        self._symbols: dict[Any, SymbolVariable] = {}  # ints by their expressions: equal ones are one number
        self._of_results: list[Any] = []
        self._sized: dict[fx.Node, SymbolVariable] = {}  # numbers that are sizes or places
        self._numbers: set[fx.Node] = set()  # nodes that give numbers
        self.calls = 0
        self.parameters = 0  # inputs that are parameters
        self.foreign: set[Any] = set()  # autograd nodes that stand for what came before the frame
        self._autograd_nodes: dict[Any, NodeVariable] = {}  # those of the frame's own that it looked at
        self._input_point: fx.Node | None = None
        self.names: dict[Source, str] = {}
        self._marks: list[tuple[torch.Tensor, Any]] = []  # of every fake tensor when it was first met
        self.dispatches = False  # whether there are tensors that answer operators themselves
        self.below = False  # whether one of them is answering, which autograd does not see
        self.hushed = False  # whether tensors of the program's classes are among the inputs
        self._inference: list[int] = []  # where the inference guards were made that the frame is inside of
        self.holds = Holds(tx)
        self._made = 0  # inputs that the compiled code makes
        self._late = False  # whether there are ints that are known only when the graph runs
        self.moves = False  # whether operations let tensors lie elsewhere
        self.switches = False  # whether operations change torch's state
        self._state = state_of_operations()
        self._alike: dict[tuple[Any, ...], dict[str, Any]] = {}  # facts of tensors: those of equal ones are one object
        self.unsure: set[int] = set()  # memories of which it is known when the graph runs whether they are one
        self.branches = 0  # operations that decide what is done
        self.chosen: set[int] = set()  # memories of what these give
        self.undivided: set[Any] = set()  # nodes of autograd that stand for others, of which the history is not known
        self.writers: dict[fx.Node, frozenset[int]] = {}  # what may have written into its arguments -> the memories
        self.once: set[fx.Node] = set()  # what would give something else in another place
        self.foreseen: dict[Source, Any] = {}  # inputs whose elements are guarded
        self.computed = 0  # what guards compute of numbers
        self._heard: list[Said] = []  # from the operation that was run last
        # The guard sees the dispatch keys of the thread at the call's entry, whatever tracing switches later.
        self._included = torch._C._dispatch_tls_local_include_set()
        self._excluded = torch._C._dispatch_tls_local_exclude_set()

    # --- inputs -----------------------------------------------------------------------------------------------------
    def add_input(self, value: torch.Tensor, source: Source) -> TensorVariable:
        """A placeholder for an existing tensor, its properties guarded."""
        with torch.inference_mode(value.is_inference()) if torch.is_inference_mode_enabled() else nullcontext():
            try:
                varying = varying_dims(self.tx, value, source)
                if varying:
                    shapes = self.shapes or self._open_sizes()
                    fake = shapes.fake(self.fake_mode, value, varying)
                else:
                    fake = self.fake_mode.from_tensor(value, static_shapes=True)
            except Exception as error:  # some views (of complex tensors, say) have no fake
                raise GraphBreak("tensor without a fake", f"{source.text}: {error}") from error
        self._marks.append((fake, _mark(fake)))
        node = self._placeholder(source, fake)
        node.meta["came"] = self._untouched(fake)
        # What is written to a view becomes history of its base.
        self.foreign |= {each.grad_fn for each in (fake, fake._base) if each is not None and each.grad_fn is not None}
        variable = TensorVariable(node, fake, type(value), value, source)
        self.inputs.append(variable)
        self.parameters += value.requires_grad or isinstance(value, torch.nn.Parameter)
        self.by_fake[id(fake)] = variable
        facts = self.facts(value)
        self.tx.know(source, "tensor", facts)
        if self.shapes is not None:
            self.shapes.add_input(value, fake, source, facts, varying)
        return variable

    def add_made(self, of: TensorVariable, function: Callable[[torch.Tensor], torch.Tensor]) -> TensorVariable:
        """A placeholder for `function(of)`, a leaf that the compiled code makes before it calls the graph."""
        if of.source is None or not self.is_untouched(of) or self._inference:
            raise GraphBreak("copy of a leaf that the frame made or changed", of.describe())
        if any(isinstance(size, torch.SymInt) for size in of.fake.shape):
            raise GraphBreak("copy of a leaf whose sizes vary", of.describe())
        self._made += 1
        return self.add_input(function(of.value), of.source.step("made", (function, self._made)))

    def is_elsewhere(self) -> bool:
        """Whether operations may give something else now than at the beginning of the frame, gradients aside."""
        return self.switches and state_of_operations() != self._state

    def is_untouched(self, variable: TensorVariable) -> bool:
        """Whether nothing was written so far into the memory of an input, and it still has that memory."""
        memory = variable.fake.untyped_storage()._cdata
        alike = [(fake, mark) for fake, mark in self._marks if fake.untyped_storage()._cdata == memory]
        return not self.moves and all(mark is not None and _mark(fake) == mark for fake, mark in alike)

    def version_it_came_with(self, variable: TensorVariable) -> int | None:
        """That of an input's stand-in, before the frame did anything to it."""
        mark = next((mark for fake, mark in self._marks if fake is variable.fake), None)
        return None if mark is None else mark[0]

    def add_number(self, value: int | float, source: Source) -> Variable:
        """A placeholder for a number that varies from call to call."""
        found = next((known for known in self.inputs if known.source is source), None)
        if found is not None:
            return found
        kind = type(value)
        self.tx.know(source, "type", kind)
        if kind is int and SMALLEST <= value <= MOST and not self.inner:
            return self._add_symbol(int(value), source)
        variable = NumberInput(self._placeholder(source, EXAMPLES[kind]), value, source, self.tx)
        self.inputs.append(variable)
        self._late = self._late or kind is int
        return variable

    def _add_symbol(self, value: int, source: Source) -> SymbolInput:
        """The same of an int that may be a size."""
        shapes = self.shapes or self._open_sizes()
        symbol = shapes.number(value, source)
        made = SymbolInput(self._placeholder(source, symbol), symbol, value, shapes, source)
        self._symbols[symbol.node.expr] = made
        self.inputs.append(made)
        return made

    def unknown(self, number: NumberVariable) -> NumberVariable:
        """The same number for code that may ask more of it than operations do: a fake run breaks there."""
        self._late, made = True, copy.copy(number)
        made.fake = Number(number.node, number.kind).symbol()
        return made

    def add_drawn(self, kind: type, name: str) -> DrawnNumber:
        """A placeholder for a number that an early call gives."""
        node = self._placeholder(self.tx.sources.const(object(), name), EXAMPLES[kind])
        variable = DrawnNumber(node, kind, self.tx)
        self.inputs.append(variable)
        self._late = self._late or kind is int
        return variable

    def add_drawn_tensor(self, value: torch.Tensor, name: str) -> TensorVariable:
        """A placeholder for a tensor that an early call gives, such as `value`: new, and nobody else's."""
        fake = self.fake_mode.from_tensor(value, static_shapes=True)
        self._marks.append((fake, _mark(fake)))
        node = self._placeholder(self.tx.sources.const(object(), name), fake)
        node.meta["came"] = self._untouched(fake)
        variable = DrawnTensor(node, fake, torch.Tensor)
        variable.example = value
        self.inputs.append(variable)
        self.by_fake[id(fake)] = variable
        return variable

    @property
    def draws(self) -> int:
        """How many operations drew random numbers so far."""
        return self.fake_mode.draws

    @property
    def writes(self) -> int:
        """How often operations changed what exists (any, where that does not count)."""
        marks = self._marks_of_inputs()
        if any(mark is None for _, mark in marks):
            return self.fake_mode.writes
        counts = (fake._version - mark[0] + (fake.requires_grad != mark[1]) for fake, mark in marks if mark is not None)
        return self.moves + sum(counts)

    def _marks_of_inputs(self, inputs: Iterable[TensorVariable] | None = None) -> list[tuple[torch.Tensor, Any]]:
        inputs = self.tensors() if inputs is None else inputs
        memory = {variable.fake.untyped_storage()._cdata for variable in inputs}
        return [(fake, mark) for fake, mark in self._marks if fake.untyped_storage()._cdata in memory]

    def _placeholder(self, source: Source, example: Any) -> fx.Node:
        """The node of an input, after those of the inputs before it."""
        graph = self.root
        last = self._input_point
        with graph.inserting_after(last) if last is not None else graph.inserting_before():
            node = graph.placeholder(self.names.get(source) or input_name(source))
        node.target = node.name  # the name of its parameter, which no other input has
        self._input_point = node
        node.meta["example_value"] = example
        node.meta["source"] = source.text
        return node

    def _untouched(self, fake: torch.Tensor) -> torch.Tensor | None:
        """The fake of an input as it came, with the same symbols, in a mode of its own: the frame changes that which
        it runs on. None where no sizes vary."""
        return None if self.came_mode is None else self.came_mode.from_tensor(fake)

    def inputs_at(self, nodes: Iterable[fx.Node]) -> list[Any]:
        """Those of these placeholders, in the order of the inputs."""
        for at, each in enumerate(self.inputs[len(self._at) :], len(self._at)):
            self._at[each.node] = at
        return [self.inputs[at] for at in sorted(self._at[node] for node in nodes if node in self._at)]

    def tensors(self) -> list[TensorVariable]:
        """The inputs that are tensors."""
        return [variable for variable in self.inputs if isinstance(variable, TensorVariable)]

    def facts(self, value: torch.Tensor) -> dict[str, Any]:
        """The properties that the native tensor guard compares."""
        keys = (torch._C._dispatch_keys(value) | self._included) - self._excluded
        facts = {
            "cls": type(value),
            "dtype": value.dtype,
            "device": value.device,
            "layout": value.layout,
            "requires_grad": value.requires_grad,
            "is_leaf": value.is_leaf,
            "sizes": tuple(value.shape),
            "strides": value.stride(),
            "keys": keys.raw_repr(),
        }
        return facts if self.shapes is not None else self._alike.setdefault(tuple(facts.values()), facts)

    def name_arguments(self, module: Any, args: Source) -> None:
        """The positional arguments of a module's call are named as in its `forward`."""
        code = getattr(type(module).forward, "__code__", None)
        names = code.co_varnames[1 : code.co_argcount] if code is not None else ()
        self.names = {args.step("index", index): f"l_{name}_" for index, name in enumerate(names)}

    def guard_shapes(self) -> None:
        """Guards what capture found of the sizes of inputs."""
        if self.shapes is not None:
            for condition in self.shapes.conditions():
                self.tx.guards.add(Guard(None, "shape", condition.term, *condition.place))

    def mutates_inputs(self, inputs: Iterable[TensorVariable] | None = None) -> bool:
        """Whether an operation changed an input (None: any of them), or wrote into its memory (always for inference
        tensors: they don't count)."""
        if self.moves:
            return True
        return any(mark is None or _mark(fake) != mark for fake, mark in self._marks_of_inputs(inputs))

    # --- inference mode ---------------------------------------------------------------------------------------------
    def enter_inference(self, mode: bool, born_at: int) -> int:
        """Switches inference mode for the rest of the capture, and in the graph; answers with the depth."""
        self.tx.set_state(enter_inference, [mode], {})
        self._inference.append(born_at)
        return len(self._inference)

    def leave_inference(self, depth: int) -> None:
        if len(self._inference) != depth:
            raise GraphBreak("inference modes left out of order")
        self._inference.pop()
        self.tx.set_state(leave_inference, [], {})

    def check_switches(self) -> None:
        """A frame that returns inside an inference mode left its guard to somebody else: then it is made eagerly."""
        if self._inference:
            raise Restart(self._inference[0], GraphBreak("inference mode outlives the frame"))

    # --- graphs inside ----------------------------------------------------------------------------------------------
    @contextmanager
    def inside(
        self, operation: Callable[..., Any], earlier: dict[fx.Node, Any] | None = None
    ) -> Iterator[InnerGraph]:
        """What is recorded goes into a graph of its own, for `operation`, which has values of `earlier` such graphs."""
        with self.into(InnerGraph(operation, self.tx.anchor(), len(self.tx.frames), earlier or {})) as inner:
            yield inner

    @contextmanager
    def into(self, inner: InnerGraph) -> Iterator[InnerGraph]:
        """What is recorded goes into this graph, which may have been written before."""
        around, symbols = self.graph, self._symbols
        self.inner.append(inner)
        self.graph, self._symbols = inner.graph, dict(symbols)
        try:
            yield inner
        finally:
            self.inner.pop()
            self.graph, self._symbols = around, symbols
            self._left[inner.graph] = inner.born_at

    def add_inner_input(self, inner: InnerGraph, name: str, fake: torch.Tensor) -> TensorVariable:
        """A tensor that an inner graph is called with."""
        self._marks.append((fake, _mark(fake)))
        variable = self.by_fake[id(fake)] = TensorVariable(inner.add_input(name, fake), fake)
        return variable

    def end_inner(self, inner: InnerGraph, result: Variable) -> None:
        """Inside of it: the inner graph answers with `result`."""
        inner.graph.output(self._argument(result)[0])
        self._drop_unread(inner.graph)

    def add_inner(self, inner: InnerGraph) -> Variable:
        """A finished inner graph as an argument of a node: the function, and what it holds."""
        modules = self.inner[-1].modules if self.inner else self.modules
        name = f"inner_{len(modules._modules)}"
        module = fx.GraphModule(inner.modules, inner.graph, "Inner")
        setattr(modules, name, module)
        node = self.graph.create_node("get_attr", name)
        node.meta["example_value"] = module
        held: list[Variable] = [
            ConstantVariable(inner.earlier[node]) if node in inner.earlier
            else GraphValue(node, node.meta["example_value"])
            for node in inner.held
        ]  # fmt: skip
        return self.tx.new_tuple([GraphValue(node, module), self.tx.new_tuple(held)])

    def add_region(self, operation: Callable[..., Any], args: list[Variable], made: list[TensorVariable]) -> None:
        """Records an operation on a finished inner graph that gives these tensors of it: they go on as its results."""
        fakes = tuple(variable.fake for variable in made)
        node = self._node("call_function", operation, tuple(self._argument(arg)[0] for arg in args), {}, fakes)
        for at, variable in enumerate(made):
            variable.node = self._part(node, at, variable.fake)

    def autograd_node(self, node: Any, tensor: TensorVariable) -> NodeVariable:
        """The `grad_fn` of a tensor that was made in the frame."""
        self.tx.repeats.tell(None)
        return self._autograd_nodes.setdefault(node, NodeVariable(node, [tensor], self.tx.anchor()))

    def given_together(self, results: list[Variable]) -> None:
        """All results of one autograd function, in order."""
        tensors = [result for result in results if isinstance(result, TensorVariable)]
        node = next((each.fake.grad_fn for each in tensors if each.fake.requires_grad), None)
        if node is not None:
            operation = next(iter(tensors[0].node.all_input_nodes), None)
            self._autograd_nodes[node] = NodeVariable(node, tensors, self.tx.anchor(), operation)

    def go_on(self, variable: TensorVariable, new: TensorVariable) -> None:
        """A tensor of a finished inner graph goes on as `new`, which an operation on that graph gives."""
        variable.node, variable.fake = new.node, new.fake
        self.by_fake[id(new.fake)] = variable

    def here(self, node: fx.Node) -> fx.Node:
        """The node in the graph that is written now. Raises `Restart` for one of an inner graph that is finished."""
        if node.graph is self.graph:
            return node
        graphs = [self.root, *(inner.graph for inner in self.inner)]
        if node.graph in self._left:
            around = next((at for at, inner in enumerate(self.inner) if node in inner.earlier), None)
            if around is None:
                cause = GraphBreak("value of a transformed function outside of it", node.name)
                raise Restart(self._left[node.graph], cause)
        else:
            around = graphs.index(node.graph)
        for inner in self.inner[around:]:
            node = inner.take(node)
        return node

    # --- operations -------------------------------------------------------------------------------------------------
    def call(
        self, target: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable] | None = None
    ) -> Variable:
        """Records `target(*args, **kwargs)` and answers with its result."""
        return self._record("call_function", target, target, args, kwargs or {})

    def call_method(self, name: str, args: list[Variable], kwargs: dict[str, Variable] | None = None) -> Variable:
        """Records `args[0].name(*args[1:], **kwargs)`."""
        return self._record("call_method", name, _method_call(name), args, kwargs or {})

    def _record(
        self, op: str, target: Any, run: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        know_operation(self.tx, target, args)
        if self.dispatches and any(parts_of([*args, *kwargs.values()], DispatchedTensor)):
            return ask(self.tx, target, run, args, kwargs)
        if self.below:
            return below(self, self.call if op == "call_function" else self.call_method, target, args, kwargs)
        if target in _BY_SIZE and args and args[-1].python_type() is torch.Size:
            args, kwargs = args[:-1], {**kwargs, "size": args[-1]}
        while True:
            try:
                return self._recorded(op, target, run, args, kwargs)
            except GraphBreak as cause:
                # What the operation needs to know of its numbers is a fact of this compilation.
                known = self._known_numbers(cause, [*args, *kwargs.values()]) or self._read_numbers(cause, kwargs)
                known = known or self.as_symbols(cause, target, args, kwargs) or self.as_numbers(cause, target, args)
                if not known:
                    raise
            args = [replaced(arg, known) for arg in args]
            kwargs = {name: replaced(arg, known) for name, arg in kwargs.items()}

    def _known_numbers(self, cause: GraphBreak, given: list[Variable]) -> dict[Variable, Variable]:
        """Numbers that an operation may have asked for when it broke, and tensors of one element: what is known of
        them."""
        numbers = list(numbers_in(given))
        known: dict[Variable, Variable] = {each: each.wanted() for each in numbers if isinstance(each, GivenNumber)}
        if known:
            return known
        asked = self.by_fake.get(id(getattr(cause.__cause__, "asked", None)))
        wanted = [(each, number) for each in numbers] + ([(asked, item)] if asked is not None else [])
        answers = {each: foresee(self.tx, each.node, ask) for each, ask in wanted}
        return {each: ConstantVariable(answer) for each, answer in answers.items() if answer is not MISSING}

    def _read_numbers(self, cause: GraphBreak, kwargs: dict[str, Variable]) -> dict[Variable, Variable]:
        """A tensor of one element that an operation takes a number of: `alpha=` a tensor of the learning rate."""
        asked = self.by_fake.get(id(getattr(cause.__cause__, "asked", None)))
        if asked is None or not any(asked is kwargs.get(name) for name in _NUMBERS_TAKEN):
            return {}
        dtype = asked.fake.dtype
        if dtype.is_complex or dtype is torch.bool:
            return {}
        return {asked: self.item(asked, float if dtype.is_floating_point else int)}

    def _recorded(
        self, op: str, target: Any, run: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        pairs = [self._argument(arg) for arg in args]
        named = {name: self._argument(arg) for name, arg in kwargs.items()}
        by_value = holds_number((*args, *kwargs.values()))
        if by_value and target in SIZED_BY_VALUES:
            kinds = {each.kind for each in numbers_in((*args, *kwargs.values()))}
            cause = None if float in kinds else Unknown("a size")
            raise GraphBreak("output shape depends on values", target.__name__) from cause
        given, by_name = [fake for _, fake in pairs], {k: fake for k, (_, fake) in named.items()}
        outs = tensors_in(by_name.get("out"))
        if outs:
            self._must_fit(outs, target, run, given, by_name)
        before = self.fake_mode.draws, self.fake_mode.writes
        result = self.fake_run(target, run, given, by_name)
        draws, writes = self.fake_mode.draws != before[0], self.fake_mode.written[before[1] :]
        born = self._born() if self.shapes is not None else []
        heard = [*self._heard, *unheard(target, given, by_name, result)]
        if heard:
            again = functools.partial(self._heard_again, target, run, given, by_name)
            warn(self.tx, heard, None if draws or writes or born else again)
            op, target = "call_function", quietly(target)
        has_tensor = result is None or holds(result, torch.Tensor)
        if not has_tensor and by_value:
            raise GraphBreak("tensor value needed", str(target))
        if not has_tensor and (self.shapes is None or not holds(result, SYMBOLIC)):
            return self.tx.from_constant(told(target, result))
        if self.unsure and (writes or target in MOVES or target in CHANGES):
            check_sure(self.unsure, given, by_name)
        self.moves = self.moves or target in MOVES
        known = self.by_fake.get(id(result))
        node = self._node(op, target, tuple(n for n, _ in pairs), {k: n for k, (n, _) in named.items()}, result)
        self._note(node, writes, draws or self.is_elsewhere())
        if not has_tensor:
            self._numbers.add(node)
        if known is not None:
            return known
        if born and not writes:
            result, born = self._foreseen(node, result, born)
        made = self._result(node, result)
        if born:
            self._check_sizes(born, made)
        if self.shapes is not None:
            self._check_computed(made)
        return made

    def _heard_again(self, target: Any, run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> list[Said]:
        result = self.fake_run(target, run, args, kwargs, always=False)
        return [*self._heard, *unheard(target, args, kwargs, result)]

    def _must_fit(
        self, outs: list[torch.Tensor], target: Any, run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        """Breaks where `out=` is unlike what the operation gives: eager code may refuse that, or warn of it, which
        stand-ins know by halves."""
        if target in _NEW_FOR_STAND_INS:
            raise GraphBreak(OUT_OF_ITS_OWN, target.__name__)
        draws = self.fake_mode.draws
        plain = {name: value for name, value in kwargs.items() if name != "out"}
        if isinstance(target, torch._ops.OpOverload):  # it has no such overload
            target = run = target.overloadpacket
        made = tensors_in(self.fake_run(target, run, args, plain))
        self.fake_mode.draws = draws
        by_value = self.shapes is not None and bool(self._born())
        fits = not by_value and [each.dtype for each in made] == [each.dtype for each in outs]
        if not fits or any(out.numel() and out.shape != each.shape for out, each in zip(outs, made, strict=True)):
            raise GraphBreak(OUT_OF_ITS_OWN, getattr(target, "__name__", str(target)))

    def _note(self, node: fx.Node, writes: list[frozenset[int]], only_here: bool) -> None:
        if writes:
            self.writers[node] = frozenset().union(*writes)
        if only_here:
            self.once.add(node)

    def _node(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, trace: str | None = None
    ) -> fx.Node:
        node = self.graph.create_node(op, target, args, kwargs)
        node.meta["stack_trace"] = self.tx.stack_trace() if trace is None else trace
        node.meta["example_value"] = result
        self.calls += 1
        self.holds.check()
        return node

    def repeat(
        self, node: fx.Node, image: Callable[[fx.Node], fx.Node], stack_trace: str, known: dict[int, Any] | None
    ) -> fx.Node:
        """Records the operation of a node once more, with the images of the nodes among its arguments. `known`: what
        stands for what among the stand-ins that matter, by id, if the operation need not run for its result's."""
        args, kwargs = map_arg(node.args, image), map_arg(node.kwargs, image)
        target: Any = node.target
        if known is not None:
            before = node.meta["example_value"]
            result = known.get(id(before), before)
            made = self._node(node.op, target, args, kwargs, result, stack_trace)
            # Of what was there before it writes nothing, or it would run.
            self._note(made, [frozenset()] if node in self.writers else [], node in self.once)
            if result is not before:
                self._result(made, result)
            return made
        run, before = _method_call(target) if node.op == "call_method" else target, self.fake_mode.writes
        result = self.fake_run(target, run, list(map_arg(args, _example)), dict(map_arg(kwargs, _example)))
        made = self._node(node.op, target, args, kwargs, result, stack_trace)
        self._note(made, self.fake_mode.written[before:], node in self.once)
        if isinstance(result, torch.Tensor):
            self._result(made, result)
        return made

    @property
    def state(self) -> tuple[Any, ...]:
        """What there is besides nodes, inputs and tensors."""
        held = (self.inner, self._left, self._symbols, self._numbers, self._autograd_nodes, self._inference)
        flags = (self._made, self._late, self.moves, self.switches)
        return (self.graph, *map(len, held), *flags)

    # --- numbers ----------------------------------------------------------------------------------------------------
    def number(self, op: Callable[..., Any], operands: list[Variable], value: Any, number: int | float) -> Variable:
        """Records `op(*operands)` of numbers: `value` with symbols, `number` for the inputs at hand (an example of what
        depends on values)."""
        if not isinstance(value, SYMBOLIC):
            by_values = any(isinstance(each, SymbolVariable) and each.value.node.hint is None for each in operands)
            return ConstantVariable(value if by_values else number)
        found = self._known_number(value)
        if found is None:
            node = self._node("call_function", op, tuple(self._argument(item)[0] for item in operands), {}, value)
            found = self._symbol(node, value, number)
        return found

    def item(self, tensor: TensorVariable, kind: type) -> NumberVariable:
        """Records that an int or float is read from a tensor."""
        return self._read(self._node("call_method", "item", (self.here(tensor.node),), {}, EXAMPLES[kind]), kind)

    def items(self, tensor: TensorVariable, kind: type) -> list[NumberVariable]:
        """Records that all numbers in a tensor are read, at once."""
        count = tensor.fake.numel()
        node = self._node("call_function", elements, (self.here(tensor.node),), {}, [EXAMPLES[kind]] * count)
        self._numbers.add(node)
        return [self._read(self._part(node, at, EXAMPLES[kind]), kind) for at in range(count)]

    def _read(self, node: fx.Node, kind: type) -> NumberVariable:
        self._numbers.add(node)
        self._late = self._late or kind is not float
        return NumberVariable(node, kind, self.tx)

    def compute(self, function: Callable[..., Any], operands: list[Variable], kind: type) -> NumberVariable | None:
        """Records `function(*operands)` of numbers, which gives a number of that `kind`. It may raise, so it stays,
        read or not. None, and nothing is recorded, where it raises for the inputs at hand."""
        inputs, value = given(operands), EXAMPLES[kind]
        if inputs:
            try:
                value = function(*map(value_of, operands))
            except Exception:
                return None
        arguments = tuple(self._argument(item)[0] for item in operands)
        node = self._node("call_function", function, arguments, {}, EXAMPLES[kind])
        self._late = self._late or kind is not float
        return GivenNumber(node, value, inputs, self.tx) if inputs else NumberVariable(node, kind, self.tx)

    def ask(self, op: Callable[..., Any], left: Any, right: Any) -> bool:
        """`op(left, right)` of numbers with symbols, guarded."""
        assert self.shapes is not None
        with self.shapes.asking(), settling(left):
            answer = bool(op(left, right))
        self.shapes.asked(left, right)
        return answer

    def sizes(self, tensor: TensorVariable) -> list[Variable]:
        """The sizes of a tensor; those that may vary are recorded."""
        found: list[Variable] = []
        for dim, size in enumerate(tensor.fake.shape):
            if not isinstance(size, torch.SymInt):
                found.append(ConstantVariable(size))
                continue
            known = self._known_number(size)
            if known is None:
                node = self._node("call_method", "size", (self.here(tensor.node), dim), {}, size)
                known = self._symbol(node, size, number_at_hand(size))
            found.append(known)
        return found

    def _foreseen(self, node: fx.Node, result: Any, born: list[Any]) -> tuple[Any, list[Any]]:
        """A result with the sizes that it has in all calls which these guards hold for, and those that nobody knows."""
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        free = {symbol for leaf in leaves for size in leaf.shape for symbol in born if is_symbol(size, symbol)}
        looks = foresee(self.tx, node, geometry) if len(free) == len(born) else MISSING
        if looks is MISSING:
            return result, born
        assert self.shapes is not None
        node.meta["sizes"] = tuple(number for shape, _ in looks for number in shape)
        known = [size for leaf in leaves for size in leaf.shape]
        if not all(map(self.shapes.env.settle, known, node.meta["sizes"])):
            memory = {leaf.untyped_storage()._cdata for leaf in leaves}
            if len(memory) != len(leaves) or any(leaf._is_view() for leaf in leaves):
                del node.meta["sizes"]
                return result, born
            new = iter([self.fake_mode.new(leaf, *each) for leaf, each in zip(leaves, looks, strict=True)])
            result = node.meta["example_value"] = tree_map_only(torch.Tensor, lambda leaf: next(new), result)
            self.fake_mode.epoch += 1  # what the old ones have noted of their sizes is not so
        return result, []

    def _known_number(self, value: Any) -> Variable | None:
        """What is that number already. Expressions do not say so of floats: equal ones may be rounded otherwise."""
        if not isinstance(value, torch.SymInt):
            return None
        expr = value.node.expr
        return ConstantVariable(int(expr)) if expr.is_Integer else self._symbols.get(expr)

    def _symbol(self, node: fx.Node, value: Any, number: int | float) -> Variable:
        assert self.shapes is not None
        self._numbers.add(node)
        made = SymbolVariable(node, value, number, self.shapes, NumberOutput(node, value))
        return self._symbols.setdefault(value.node.expr, made) if isinstance(value, torch.SymInt) else made

    # --- running ----------------------------------------------------------------------------------------------------
    def _open_sizes(self) -> Shapes:
        """From here on inputs may have sizes that vary, and results of operations such that depend on values."""
        self.shapes = Shapes(self.tx.place, by_values=True)
        self.fake_mode.shape_env = self.shapes.env
        self.fake_mode.static_shapes = False
        self.came_mode = FakeMode(allow_non_fake_inputs=True, shape_env=self.shapes.env)
        for known in self.tensors():
            value = known.example if isinstance(known, DrawnTensor) else known.value
            known.node.meta["came"] = self.came_mode.from_known(value, known.fake, self.fake_mode)
        self.tx.repeats.enabled = False
        return self.shapes

    def fake_run(
        self, target: Any, run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], always: bool = True
    ) -> Any:
        """`always`: what torch warns of once in a process is heard, too, and stays to be said."""
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        writes = self.fake_mode.writes
        asking = self.shapes.asking() if self.shapes is not None else nullcontext()
        symbols = with_symbols(name) if self.shapes is not None else nullcontext()
        standing = Standing() if self._late else nullcontext()
        hearing = Hearing(always)
        self._heard = hearing.found
        try:
            with torch._C._PreserveDispatchKeyGuard(), asking, self.fake_mode, symbols, standing, LettingGo(), hearing:
                if self.shapes is not None:
                    return run_with_symbols(name, target, self.shapes.env, run, args, kwargs)
                return run(*args, **kwargs)
        except (DataDependentOutputException, GuardOnDataDependentSymNode, Unknown) as error:
            said = str(error).split("\n", 1)[0]
            raise GraphBreak("tensor value needed while tracing", f"{name}: {said}") from error
        except (DynamicOutputShapeException, UnsupportedOperatorException) as error:
            if isinstance(error, DynamicOutputShapeException) and self.shapes is None and not self.inner:
                if writes == self.fake_mode.writes:
                    self._open_sizes()
                    return self.fake_run(target, run, args, kwargs)
            raise GraphBreak("output shape depends on values", f"{name}: {error}") from error
        except Exception as error:  # eager code meets the same error at this line and raises it as the user knows it
            if NO_FAKE in str(error):
                raise GraphBreak("operator without a fake", name, _REGISTER) from error
            raise GraphBreak(OPERATION_RAISES, f"{name}: {type(error).__name__}: {error}") from error

    def _result(self, node: fx.Node, result: Any) -> Variable:
        if isinstance(result, torch.Tensor):
            known = self.by_fake.get(id(result))
            if known is not None:
                return known
            if result.layout is not torch.strided:
                raise GraphBreak("tensor layout not supported", str(result.layout))
            self._marks.append((result, _mark(result)))
            cls = torch.Tensor if type(result) is FakeTensor else type(result)
            variable = TensorVariable(node, result, cls)
            self.by_fake[id(result)] = variable
            return variable
        if isinstance(result, SYMBOLIC):
            return self._known_number(result) or self._symbol(node, result, number_at_hand(result))
        is_plain = isinstance(result, torch.Size) and not holds(result, SYMBOLIC)
        if result is None or is_plain or is_constant_value(result):
            return self.tx.from_constant(result)
        if isinstance(result, dict):
            pairs = [(key, self._result(self._part(node, key, item), item)) for key, item in result.items()]
            return self.tx.new_dict([(self.tx.from_constant(key), item) for key, item in pairs])
        if isinstance(result, (tuple, list)):
            items = [self._result(self._part(node, index, item), item) for index, item in enumerate(result)]
            return self.tx.new_list(items) if isinstance(result, list) else self.tx.new_tuple(items, type(result))
        if type(result) is FunctionType:
            return GraphFunction(node, result, self.tx.anchor())
        raise GraphBreak("result of an operation not supported", type(result).__name__)

    def _part(self, node: fx.Node, key: Any, item: Any) -> fx.Node:
        part = self.graph.call_function(_getitem, (node, key))
        part.meta["stack_trace"] = node.meta["stack_trace"]
        part.meta["example_value"] = item
        return part

    def fakes(self, variables: list[Variable]) -> list[Any]:
        """What an operation on these gets when it is run while tracing."""
        return [self._argument(variable)[1] for variable in variables]

    def _argument(self, variable: Variable) -> tuple[Any, Any]:
        """(what stands in the graph, what the fake run gets)"""
        if isinstance(variable, TensorVariable):
            return self.here(variable.node), variable.fake
        if isinstance(variable, GraphValue):
            return self.here(variable.node), variable.value
        if isinstance(variable, (ConstantVariable, ClassVariable)):
            value = variable.constant()
            if value is torch.Tensor or type(value) is _TENSOR_TYPE:  # which no code of a graph can spell
                return f"{value.__module__}.{value.__name__}", value
            return value, value
        if isinstance(variable, NumberVariable):
            return self.here(variable.node), variable.fake
        if isinstance(variable, SymbolVariable):
            known = self._known_number(variable.value)
            if isinstance(known, ConstantVariable):
                return known.value, known.value
            return self.here(variable.node), variable.value
        if isinstance(variable, (TupleVariable, ListVariable)):
            pairs = [self._argument(item) for item in variable.unpack(self.tx)]
            nodes, fakes = [n for n, _ in pairs], [f for _, f in pairs]
            if isinstance(variable, ListVariable):
                return nodes, fakes
            if variable.python_type() is torch.Size:
                return tuple(nodes), torch.Size(fakes)
            return tuple(nodes), tuple(fakes)
        if isinstance(variable, SliceVariable):
            pairs = [self._argument(part) for part in variable.parts]
            return slice(*(n for n, _ in pairs)), slice(*(f for _, f in pairs))
        if isinstance(variable, DictVariable):
            items = [(k.constant(), self._argument(v)) for k, v in variable.pairs(self.tx)]
            return {k: n for k, (n, _) in items}, {k: f for k, (_, f) in items}
        if isinstance(variable, ObjectVariable) and variable.payload is not None:
            if self.tx.overrides.asked([variable]):
                raise GraphBreak("tensor subclass", f"an operation with {variable.describe()}")
            return self._argument(variable.payload)
        if isinstance(variable, FunctionVariable):
            return variable.function, variable.function
        raise GraphBreak("argument of an operation not supported", variable.describe())

    # --- end --------------------------------------------------------------------------------------------------------
    def finish(self, outputs: list[TensorVariable], has_nodes: bool) -> fx.GraphModule:
        """Ends the graph with a tuple of `outputs`, drops unread unpacked results and inputs, makes a module.

        Its `meta["together"]` are outputs that share a node which hands their gradients on; `meta["together"]` of an
        operation says that its results are such. `has_nodes`: something after the graph has autograd nodes of its
        operations; `meta["as_captured"]` says so then: derivatives are autograd's own affair."""
        self.graph.output(tuple(self.here(variable.node) for variable in outputs))
        self._drop_unread(self.graph)
        for variable in list(self.inputs):
            if not variable.node.users:
                self.graph.erase_node(variable.node)
                self.inputs.remove(variable)
        module = _LazyGraphModule(self.modules, self.graph, "Captured")  # most are never called
        module.meta["together"] = tuple(self._together(outputs))
        module.meta["as_captured"] = has_nodes
        module.meta["writers"] = self.writers if self.branches else {}
        return module

    def _together(self, outputs: list[TensorVariable]) -> Iterator[Together]:
        for node in self._autograd_nodes.values():
            if node.hands_on and all(tensor in outputs for tensor in node.reachable()):
                if any(depends_on_values(size) for tensor in node.tensors for size in tensor.fake.shape):
                    raise Restart(node.born_at, GraphBreak("tensor value needed", node.describe()))
                assert node.operation is not None
                node.operation.meta["together"] = True
                yield tuple(outputs.index(t) if t.fake.requires_grad else Blank.of(t.fake) for t in node.tensors)

    def _drop_unread(self, graph: fx.Graph) -> None:
        """Erases numbers and parts of results that nobody reads."""
        for node in reversed(list(graph.nodes)):
            is_unpacked = node.target is _getitem and not isinstance(_example(node.args[0]), torch.Tensor)
            if (is_unpacked or node in self._numbers) and not node.users:
                graph.erase_node(node)


def _method_call(name: str) -> Callable[..., Any]:
    def run(owner: Any, *rest: Any, **named: Any) -> Any:
        return getattr(owner, name)(*rest, **named)

    return run


def _example(node: fx.Node) -> Any:
    return node.meta["example_value"]


def _mark(fake: torch.Tensor) -> tuple[int, bool] | None:
    """What an in-place operation changes of a tensor; None for inference tensors, which don't count their writes."""
    return None if fake.is_inference() else (fake._version, fake.requires_grad)
