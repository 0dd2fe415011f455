"""The graph builder: an `fx.Graph` of the torch calls the user wrote, run on fake tensors as it grows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from symbolic.errors import GraphBreak, Restart
from symbolic.sources import Source
from symbolic.torch_state import enter_inference, leave_inference
from symbolic.variables.base import Variable
from symbolic.variables.classes import ClassVariable
from symbolic.variables.constants import ConstantVariable, SliceVariable, is_constant_value
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.functions import FunctionVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_getitem = operator.getitem
_PLUMBING = frozenset({"_modules", "_parameters", "_buffers", "__dict__"})


def input_name(source: Source) -> str:
    """`l_x_` for the argument x, `l_self_blocks_0_weight` for a parameter found through modules."""
    parts: list[str] = []
    here: Source | None = source
    while here is not None:
        word = here.name if here.base is None else str(here.arg) if here.arg is not None else ""
        if word and word not in _PLUMBING:
            parts.append(word)
        here = here.base
    text = re.sub(r"\W+", "_", "_".join(reversed(parts))).strip("_")
    return f"l_{text}_" if len(parts) == 1 else f"l_{text}"


class GraphBuilder:
    """Owns the graph, the fake tensor mode, and the tie between fake tensors and their variables."""

    def __init__(self, tx: Translator, fake_mode: FakeTensorMode) -> None:
        self.tx = tx
        self.fake_mode = fake_mode
        self.graph = fx.Graph()
        self.inputs: list[TensorVariable] = []
        self.by_fake: dict[int, TensorVariable] = {}
        self.calls = 0
        self._input_point: fx.Node | None = None
        self._names: dict[Source, str] = {}
        self._marks: list[tuple[torch.Tensor, Any]] = []  # of every fake tensor when it was first met
        self._inference: list[int] = []  # where the inference guards were made that the frame is inside of
        self.switches = False  # whether operations change torch's state
        # The guard sees the dispatch keys of the thread at the call's entry, whatever tracing switches later.
        self._included = torch._C._dispatch_tls_local_include_set()
        self._excluded = torch._C._dispatch_tls_local_exclude_set()

    # --- inputs -----------------------------------------------------------------------------------------------------
    def add_input(self, value: torch.Tensor, source: Source) -> TensorVariable:
        """A placeholder for an existing tensor, its properties guarded."""
        with torch.inference_mode(value.is_inference()) if torch.is_inference_mode_enabled() else nullcontext():
            try:
                fake = self.fake_mode.from_tensor(value, static_shapes=True)
            except Exception as error:  # some views (of complex tensors, say) have no fake
                raise GraphBreak("tensor without a fake", f"{source.text}: {error}") from error
        self._marks.append((fake, _mark(fake)))
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        graph = self.graph
        with graph.inserting_before(first) if first is not None else graph.inserting_after(self._input_point):
            node = self.graph.placeholder(self._names.get(source) or input_name(source))
        self._input_point = node
        node.meta["example_value"] = fake
        node.meta["source"] = source.text
        variable = TensorVariable(node, fake, type(value), value, source)
        self.inputs.append(variable)
        self.by_fake[id(fake)] = variable
        self.tx.know(source, "tensor", self._facts(value))
        return variable

    def _facts(self, value: torch.Tensor) -> dict[str, Any]:
        """The properties that the native tensor guard compares."""
        keys = (torch._C._dispatch_keys(value) | self._included) - self._excluded
        return {
            "cls": type(value),
            "dtype": value.dtype,
            "device": value.device,
            "layout": value.layout,
            "requires_grad": value.requires_grad,
            "sizes": tuple(value.shape),
            "strides": value.stride(),
            "keys": keys.raw_repr(),
        }

    def name_arguments(self, module: Any, args: Source) -> None:
        """The positional arguments of a module's call are named as in its `forward`."""
        code = getattr(type(module).forward, "__code__", None)
        names = code.co_varnames[1 : code.co_argcount] if code is not None else ()
        self._names = {args.step("index", index): f"l_{name}_" for index, name in enumerate(names)}

    def guard_aliases(self) -> None:
        """Guards which inputs are one tensor, and which share memory, if the graph changes any of them.

        A graph that only reads gives the same for two inputs as for one that comes in twice.
        """
        if len(self.inputs) < 2 or not self.mutates_inputs():
            return
        self.tx.apart(*self.inputs)
        memory: dict[int, list[Source]] = {}
        for variable in self.inputs:
            assert variable.source is not None
            memory.setdefault(variable.fake.untyped_storage()._cdata, []).append(variable.source)
        self.tx.know(None, "storage", list(memory.values()))

    def guard_offset(self, variable: TensorVariable) -> None:
        """Guards where in their memory the inputs begin that `variable` may be a view of."""
        memory = variable.fake.untyped_storage()._cdata
        for known in self.inputs:
            if known.fake.untyped_storage()._cdata == memory:
                self.tx.know(known.source, "predicate", BeginsAt(known.value.storage_offset()))

    def mutates_inputs(self) -> bool:
        """Whether an operation changed an input or wrote into its memory (always for inference tensors: they don't
        count)."""
        memory = {variable.fake.untyped_storage()._cdata for variable in self.inputs}
        return any(
            mark is None or _mark(fake) != mark
            for fake, mark in self._marks
            if fake.untyped_storage()._cdata in memory
        )

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

    # --- operations -------------------------------------------------------------------------------------------------
    def call(
        self, target: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable] | None = None
    ) -> Variable:
        """Records `target(*args, **kwargs)` and answers with its result."""
        return self._record("call_function", target, target, args, kwargs or {})

    def call_method(self, name: str, args: list[Variable], kwargs: dict[str, Variable] | None = None) -> Variable:
        """Records `args[0].name(*args[1:], **kwargs)`."""

        def run(owner: Any, *rest: Any, **named: Any) -> Any:
            return getattr(owner, name)(*rest, **named)

        return self._record("call_method", name, run, args, kwargs or {})

    def _record(
        self, op: str, target: Any, run: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        pairs = [self._argument(arg) for arg in args]
        named = {name: self._argument(arg) for name, arg in kwargs.items()}
        result = self._fake_run(target, run, [fake for _, fake in pairs], {k: fake for k, (_, fake) in named.items()})
        if result is not None and not _holds_tensor(result):
            return self.tx.from_constant(result)
        known = self.by_fake.get(id(result))
        node = self.graph.create_node(op, target, tuple(n for n, _ in pairs), {k: n for k, (n, _) in named.items()})
        node.meta["stack_trace"] = self.tx.stack_trace()
        node.meta["example_value"] = result
        self.calls += 1
        if known is not None:
            return known
        return self._result(node, result)

    def _fake_run(self, target: Any, run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        try:
            with self.fake_mode:
                return run(*args, **kwargs)
        except (DataDependentOutputException, GuardOnDataDependentSymNode) as error:
            raise GraphBreak("tensor value needed while tracing", f"{name}: {error}") from error
        except (DynamicOutputShapeException, UnsupportedOperatorException) as error:
            raise GraphBreak("output shape depends on values", f"{name}: {error}") from error
        except Exception as error:  # eager code meets the same error at this line and raises it as the user knows it
            raise GraphBreak("operation raises", f"{name}: {type(error).__name__}: {error}") from error

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
        if result is None or is_constant_value(result) or isinstance(result, torch.Size):
            return self.tx.from_constant(result)
        if isinstance(result, (tuple, list)):
            items = []
            for index, item in enumerate(result):
                part = self.graph.call_function(_getitem, (node, index))
                part.meta["stack_trace"] = node.meta["stack_trace"]
                part.meta["example_value"] = item
                items.append(self._result(part, item))
            if isinstance(result, list):
                return self.tx.new_list(items)
            return self.tx.new_tuple(items, type(result))
        raise GraphBreak("result of an operation not supported", type(result).__name__)

    def _argument(self, variable: Variable) -> tuple[Any, Any]:
        """(what stands in the graph, what the fake run gets)"""
        if isinstance(variable, TensorVariable):
            return variable.node, variable.fake
        if isinstance(variable, (ConstantVariable, ClassVariable)):
            value = variable.constant()
            return value, value
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
            return self._argument(variable.payload)
        if isinstance(variable, FunctionVariable):
            return variable.function, variable.function
        raise GraphBreak("argument of an operation not supported", variable.describe())

    # --- end --------------------------------------------------------------------------------------------------------
    def finish(self, outputs: list[TensorVariable]) -> fx.GraphModule:
        """Ends the graph with a tuple of `outputs`, drops unread unpacked results and inputs, makes a module."""
        self.graph.output(tuple(variable.node for variable in outputs))
        for node in reversed(list(self.graph.nodes)):
            if node.op == "call_function" and node.target is _getitem and not node.users:
                self.graph.erase_node(node)
        for variable in list(self.inputs):
            if not variable.node.users:
                self.graph.erase_node(variable.node)
                self.inputs.remove(variable)
        return fx.GraphModule(torch.nn.Module(), self.graph, "Captured")


class BeginsAt:
    """storage offset as it was"""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def __call__(self, value: Any) -> bool:
        return value.storage_offset() == self.offset


def _mark(fake: torch.Tensor) -> tuple[int, bool] | None:
    """What an in-place operation changes of a tensor; None for inference tensors, which don't count their writes."""
    return None if fake.is_inference() else (fake._version, fake.requires_grad)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    return isinstance(value, (tuple, list)) and any(_holds_tensor(item) for item in value)
