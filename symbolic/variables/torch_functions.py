"""Functions of torch: which become graph nodes, which answer now, which change the state that tracing follows."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
)
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import expect_true

from symbolic.errors import GraphBreak
from symbolic.gradients import parameter
from symbolic.passing import home_of
from symbolic.signatures import takes
from symbolic.torch_state import ATTENTION_KERNELS, enter_device, leave_device
from symbolic.variables.base import FixedVariable, Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS, is_tensor_class
from symbolic.variables.constants import CONTEXTS, ConstantVariable
from symbolic.variables.containers import ListVariable, new_size
from symbolic.variables.methods import NativeMethod
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.tensors import DATA_METHODS, TensorVariable, as_numbers

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Python modules whose functions are operations of the graph as they are.
GRAPH_MODULES = frozenset({"torch.functional", "torch.nn.functional", "torch._jit_internal"})

#: Functions of these that branch on values of tensors: they are traced into.
_TRACED = frozenset({torch.nn.functional.gaussian_nll_loss})

#: Reads of torch's state: answered now. The state at entry is guarded as a whole ("state").
QUERIES: set[Any] = {
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.is_autocast_cpu_enabled,
    torch.is_autocast_cache_enabled,
    torch.get_autocast_dtype,
    torch.get_autocast_gpu_dtype,
    torch.get_autocast_cpu_dtype,
    torch.get_default_dtype,
    torch.get_default_device,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.get_num_threads,
    torch.get_float32_matmul_precision,
    torch.is_anomaly_enabled,
    torch._C._get_tracing_state,
    torch._C._is_torch_function_enabled,
    torch._C._is_torch_function_mode_enabled,
    torch._C._is_torch_function_all_disabled,
    torch._C._get_cudnn_enabled,
    torch._C._get_privateuse1_backend_name,
    torch._C._infer_size,
    torch._C._mtia_isBuilt,
    torch._C._get_sdp_priority_order,
    *(getattr(torch._C, f"_get_{kernel}_sdp_enabled") for kernel in ATTENTION_KERNELS),
    torch._C._functorch.peek_interpreter_stack,
    torch.jit.is_scripting,
    torch.jit.is_tracing,
    torch.onnx.is_in_onnx_export,
    torch._jit_internal.is_scripting,
    torch.accelerator.current_accelerator,
    torch.get_device_module,
    torch.cuda.is_available,
    torch.cuda.is_initialized,
    torch.cuda.device_count,
    torch.cuda.is_current_stream_capturing,
    torch.backends.mps.is_available,
    torch.distributed.is_available,
    torch.distributed.is_initialized,
    torch.amp.autocast_mode.is_autocast_available,
    torch.promote_types,
    torch.result_type,
    torch.can_cast,
    torch.finfo,
    torch.iinfo,
    torch.device,
    torch.Size,
    torch.is_storage,
    torch._C._log_api_usage_once,
}

_DTYPE_SETTERS = (torch.set_autocast_dtype, torch.set_autocast_cpu_dtype, torch.set_autocast_gpu_dtype)
#: Those that the state at entry does not have -> what sets the answer: until the frame does, it is that of the entry.
APART: dict[Any, tuple[Any, ...]] = {
    torch._C._get_cudnn_enabled: (torch._C._set_cudnn_enabled,),
    torch.distributed.is_initialized: (),
    torch.is_anomaly_enabled: (torch.set_anomaly_enabled,),
    torch.is_autocast_cache_enabled: (torch.set_autocast_cache_enabled,),
    torch.get_autocast_dtype: _DTYPE_SETTERS,
    torch.get_autocast_cpu_dtype: _DTYPE_SETTERS,
    torch.get_autocast_gpu_dtype: _DTYPE_SETTERS,
}

#: Answers that do not follow the running program: inside a capture these are what they are.
FIXED: dict[Any, Any] = {
    torch.compiler.is_compiling: True,
    torch.compiler.is_dynamo_compiling: True,
    torch.compiler.is_exporting: False,
    torch.is_tensor: None,  # answered by type, below
}

#: State changes: done now, so that tracing goes on under the new state, and again by the graph when it runs.
SETTERS: set[Any] = {
    torch._C._set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_cpu_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cpu_dtype,
    torch.set_autocast_gpu_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
    torch.clear_autocast_cache,
    torch.set_default_device,
    torch._C._set_sdp_priority_order,
    *(getattr(torch._C, f"_set_sdp_use_{kernel}") for kernel in ATTENTION_KERNELS),
    torch._C._set_default_dtype if hasattr(torch._C, "_set_default_dtype") else torch.set_default_dtype,
}

#: Functions that must see the real program.
REFUSED: dict[Any, str] = {
    torch.manual_seed: "random state set",
    torch.seed: "random state set",
    torch.initial_seed: "random state read",
    torch.get_rng_state: "random state read",
    torch.set_rng_state: "random state set",
    torch.save: "input and output",
    torch.load: "input and output",
    torch.compile: "another compiler",
    torch.set_num_threads: "number of threads set",
    torch.from_numpy: "numpy array",
    torch.quantize_per_tensor: "quantized tensor",  # fake tensors take it for a float tensor
    torch.quantize_per_channel: "quantized tensor",
    torch.quantize_per_tensor_dynamic: "quantized tensor",
}

#: Native homes of operators: what lies elsewhere in torch's C++ changes state that the graph does not know.
OPERATOR_HOMES = frozenset(f"torch._C._{name}" for name in ("nn", "fft", "linalg", "special", "nested"))


#: Functions that users put into the graph, and those whose result they declare constant.
ALLOWED: set[Any] = set()
CONSTANT_RESULT: set[Any] = set()


class TorchFunction(FixedVariable):
    """A function of torch that is not traced into."""

    def describe(self) -> str:
        name = getattr(self.value, "__qualname__", None) or getattr(self.value, "__name__", self.value)
        return f"torch function {name}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        value = tx.attempt(getattr, self.value, name)
        return tx.wrap(value, tx.source_of(self).attr(name))

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        function = self.value
        handler = ASKING.get(function)
        if handler is not None:
            return self._handled(handler, tx, args, kwargs)
        if tx.overrides.concerns(args, kwargs):
            return tx.overrides.called(tx, self, args, kwargs)
        return self.plain_call(tx, args, kwargs)

    def _handled(
        self, handler: Callable[..., Variable], tx: Translator, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        if not takes(handler, tx, *args, **kwargs):
            raise GraphBreak("arguments do not fit the function", self.describe())
        return handler(tx, *args, **kwargs)

    def plain_call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """Where no `__torch_function__` is asked."""
        function = self.value
        handler = HANDLERS.get(function)
        if handler is not None:
            return self._handled(handler, tx, args, kwargs)
        name = getattr(function, "__name__", "")
        if name in DATA_METHODS and getattr(function, "__objclass__", None) is torch._C.TensorBase and args:
            if name == "__bool__":
                return ConstantVariable(tx.truth(args[0]))
            return args[0].method(tx, name, args[1:], kwargs)
        if function in FIXED:
            return ConstantVariable(FIXED[function])
        if function in REFUSED:
            raise GraphBreak(REFUSED[function], self.describe())
        known = function in QUERIES and all(arg.is_constant() for arg in (*args, *kwargs.values()))
        if known or function in CONSTANT_RESULT:
            given = [arg.constant() for arg in args]
            result = tx.attempt(function, *given, **{k: v.constant() for k, v in kwargs.items()})
            is_apart = function in APART and not kwargs
            if is_apart and not any(node.target in APART[function] for node in tx.graph.graph.nodes):
                return tx.wrap(result, tx.sources.const(torch, "torch").step("call", _asking(function, *given)))
            return tx.from_constant(result)
        if function in SETTERS:
            tx.set_state(function, [_known(tx, arg) for arg in args], {k: _known(tx, v) for k, v in kwargs.items()})
            return ConstantVariable(None) if "nesting" not in function.__name__ else tx.from_constant(_nesting())
        if not (is_operator(function) or function in ALLOWED):
            raise GraphBreak("function of torch that is no operator", self.describe())
        args, kwargs = as_numbers(tx, function, args, kwargs)
        return tx.graph.call(function, args, kwargs)


@functools.cache
def _asking(function: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
    """What a guard asks torch for."""

    def ask(torch: Any) -> Any:
        return function(*args)

    ask.__name__ = function.__name__
    return ask


_added_in_place: Any = torch.ops.aten.add_.Tensor._schema.arguments[0]
SCHEMAS = (torch._C.FunctionSchema, torch._C.Argument, type(_added_in_place.alias_info))


class SchemaVariable(FixedVariable):
    """What an operator declares: its arguments, its results, what it writes to."""

    def describe(self) -> str:
        return f"what is declared: {self.value}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        return tx.from_constant(tx.attempt(getattr, self.value, name))


def _known(tx: Translator, variable: Variable) -> Any:
    """A constant, or a list of such."""
    if isinstance(variable, ListVariable):
        return [each.constant() for each in variable.unpack(tx)]
    return variable.constant()


def is_operator(value: Any) -> bool:
    """Whether calls of a torch function only compute with tensors, so that they can be nodes of the graph."""
    if type(value) is FunctionType:
        return value.__module__ in GRAPH_MODULES and value not in _TRACED
    if isinstance(value, BuiltinFunctionType):
        home = getattr(value.__self__, "__name__", None)
        return home in OPERATOR_HOMES or value.__qualname__.startswith("_VariableFunctionsClass.")
    owner = getattr(value, "__objclass__", None)
    return owner is torch._C.TensorBase if owner is not None else isinstance(value, _OPERATORS)


_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.jit.ScriptFunction)


def _nesting() -> int:
    """The current autocast nesting depth (what increment and decrement return)."""
    depth = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return depth - 1


#: Hashes that run nothing of the user's.
_PLAIN_HASHES = (object.__hash__, BuiltinFunctionType.__hash__, MethodWrapperType.__hash__)


def is_torch_function(value: Any) -> bool:
    """Whether `value` is a callable of torch that becomes a graph node or a table entry instead of being traced."""
    kind = type(value)
    # The hash function itself may refuse to be hashed (classes of pybind11).
    if any(kind.__hash__ is plain for plain in _PLAIN_HASHES) and any(value in table for table in _TABLES):
        return True
    if kind is FunctionType:
        return is_operator(value)
    if kind in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
        return True
    native_names = ("builtin_function_or_method", "wrapper_descriptor")
    if kind in (BuiltinFunctionType, MethodDescriptorType) or kind.__name__ in native_names:
        module = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", "")
        owner = getattr(value, "__self__", None)
        if isinstance(module, str) and module.startswith("torch"):
            return True
        return isinstance(owner, type) and home_of(owner).startswith("torch")
    return home_of(kind) == "torch.jit" or kind is torch.jit.ScriptFunction


def _numel(tx: Translator, value: Variable) -> Variable:
    if not issubclass(value.python_type(), torch.Tensor):
        raise GraphBreak("arguments do not fit the function", f"numel of {value.describe()}")
    return value.method(tx, "numel", [], {})


def _is_tensor(tx: Translator, value: Variable) -> Variable:
    return ConstantVariable(issubclass(value.python_type(), torch.Tensor))


class StateGuard(Variable):
    """What is entered and left for a state of torch to be another as long."""

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name not in ("__enter__", "__exit__"):
            raise GraphBreak("attribute access not supported", f"{self.describe()}.{name}")
        return NativeMethod(self, name)


class InferenceGuard(StateGuard):
    """`torch._C._InferenceMode(mode)`: entered and left by the graph; a break in between happens before it is made."""

    def __init__(self, mode: bool, born_at: int) -> None:
        self.mode = mode
        self.born_at = born_at
        self.depth = 0

    def python_type(self) -> type:
        return torch._C._InferenceMode

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name == "__enter__":
            self.depth = tx.graph.enter_inference(self.mode, self.born_at)
            return self
        if name != "__exit__":
            return super().method(tx, name, args, kwargs)
        tx.graph.leave_inference(self.depth)
        return ConstantVariable(None)






def _switch_device(tx: Translator, device: ConstantVariable, name: str) -> Variable:
    """`torch.device(...)` entered or left: it is the default one for as long."""
    if name == "__enter__":
        tx.set_state(enter_device, [device.constant()], {})
        return device
    tx.set_state(leave_device, [], {})
    return ConstantVariable(None)


CONTEXTS[torch.device] = _switch_device


def _inference_guard(tx: Translator, mode: Variable) -> Variable:
    return InferenceGuard(mode.constant(), tx.anchor())


#: What `torch._check_tensor_all` says of a condition that does not hold, and was given no words of its own.
_UNTOLD = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_all(tx: Translator, error: Variable, cond: Variable, message: Variable | None = None) -> Variable:
    """A check that the graph makes: where it fails, the frame runs again as it was written."""
    unsaid = message is None or (message.is_constant() and message.constant() is None)
    plain = unsaid and error.real() is RuntimeError
    if not plain or not isinstance(cond, TensorVariable) or cond.fake.dtype is not torch.bool or not _is_on_cpu(cond):
        raise GraphBreak("tensor value needed", "check of a condition")
    tx.graph.call(torch._assert_async, [tx.graph.call(torch.all, [cond]), ConstantVariable(_UNTOLD)])
    return ConstantVariable(None)


def _is_on_cpu(tensor: TensorVariable) -> bool:
    """On other devices a failed check is found late, and nothing runs after it."""
    return tensor.fake.device.type == "cpu"


def _side_by_side(function: Callable[..., Any]) -> Callable[..., Variable]:
    """Eager code gives results without gaps where no gradient is asked for on a CPU; fakes lie as the operands do."""

    def call(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        made = tx.graph.call(function, list(args), kwargs)
        is_other = isinstance(made, TensorVariable) and _is_on_cpu(made) and not made.fake.requires_grad
        return made.method(tx, "contiguous", [], {}) if is_other and not tx.graph.inner else made

    return call


def _plain_sizes(tensor: TensorVariable) -> list[int]:
    return [size for size in tensor.fake.shape if type(size) is int]


def _one_hot(tx: Translator, input: Variable, num_classes: Variable | None = None) -> Variable:  # noqa: A002
    """Not told how many classes there are, torch reads the largest."""
    one_hot = torch._C._nn.one_hot
    said = -1 if num_classes is None else num_classes.constant() if num_classes.is_constant() else None
    if said == 0:  # of stand-ins that is nothing to refuse
        raise GraphBreak("operation raises", "one_hot: no classes")
    is_usual = isinstance(input, TensorVariable) and input.fake.dtype is torch.int64 and 0 not in _plain_sizes(input)
    if said != -1 or not is_usual:
        return tx.graph.call(one_hot, [input] if num_classes is None else [input, num_classes])
    largest = tx.graph.call_method("max", [input]).method(tx, "item", [], {})
    return tx.graph.call(one_hot, [input, tx.binary(operator.add, largest, ConstantVariable(1))])


#: Torch's functions about `__torch_function__`, which is not asked about them.
ASKING: dict[Any, Callable[..., Variable]] = {}


#: Functions that get objects of a class of tensors as they are, and break the graph.
CLASSLESS: set[Any] = set()

HANDLERS: dict[Any, Callable[..., Variable]] = {
    torch._C._nn.one_hot: _one_hot,
    **{each: _side_by_side(each) for each in (torch.max_pool1d, F.max_pool1d)},
    torch._check_tensor_all_with: _check_all,
    expect_true: lambda tx, cond: ConstantVariable(tx.truth(cond)),
    torch.is_tensor: _is_tensor,
    torch._C._InferenceMode: _inference_guard,
    torch.numel: _numel,
    torch._C._log_api_usage_once: lambda tx, *args: ConstantVariable(None),
}


def _make_parameter(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """A leaf of the graph; the residual code makes it a parameter."""
    if not takes(torch.nn.Parameter.__new__, torch.nn.Parameter, *args, **kwargs):
        raise GraphBreak("arguments do not fit the function", "torch.nn.Parameter(...)")
    call = inspect.signature(torch.nn.Parameter.__new__).bind(torch.nn.Parameter, *args, **kwargs)
    data, wanted = call.arguments.get("data"), call.arguments.get("requires_grad", ConstantVariable(True))
    if not isinstance(data, TensorVariable) or tx.graph.inner or wanted.python_type() is not bool:
        raise GraphBreak("parameter made in the frame", "torch.nn.Parameter(...)", "make parameters in __init__")
    made = tx.graph.call(parameter, [data, wanted])
    assert isinstance(made, TensorVariable) and made is not data
    made.cls = torch.nn.Parameter
    return made


def _make_buffer(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    raise GraphBreak("buffer made in the frame", "torch.nn.Buffer(...)", "use register_buffer")


def _make_tensor(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return tx.graph.call(torch.Tensor, args, kwargs)


def _constant_class(cls: type) -> Callable[..., Variable]:
    def make(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        values = [arg.constant() for arg in args]
        return tx.from_constant(tx.attempt(cls, *values, **{k: v.constant() for k, v in kwargs.items()}))

    return make


def _make_size(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return new_size(tx, tx.unpack(args[0]) if args else [])


NATIVE_CONSTRUCTORS.update(
    {
        torch.nn.Parameter: _make_parameter,
        torch.nn.Buffer: _make_buffer,
        torch.Tensor: _make_tensor,
        torch.Size: _make_size,
        torch.device: _constant_class(torch.device),
        torch.finfo: _constant_class(torch.finfo),
        torch.iinfo: _constant_class(torch.iinfo),
    }
)


_TABLES = (ASKING, HANDLERS, FIXED, QUERIES, SETTERS, REFUSED, ALLOWED, CONSTANT_RESULT)


def refused(reason: str, detail: str) -> Variable:
    """The call breaks the graph."""
    raise GraphBreak(reason, detail)


def is_instance(tx: Translator, variable: Variable, cls: type) -> bool | None:
    """`isinstance` against torch's classes with an `__instancecheck__` of their own; None: no special rule."""
    if cls is torch.nn.Parameter or cls is torch.nn.Buffer:  # a metaclass may have an `==` of its own
        kind = variable.python_type()
        if not issubclass(kind, torch.Tensor):
            return False
        if cls is torch.nn.Parameter and isinstance(variable, ObjectVariable):  # of a class of the program's
            marked = variable.find(tx, "_is_param")
            return issubclass(kind, cls) or (marked is not None and tx.truth(marked))
        return issubclass(kind, cls)
    if isinstance(variable, TensorVariable) and cls in _LEGACY_TENSORS:
        return isinstance(variable.fake, cls)
    return None


_LEGACY_TENSORS = frozenset(
    t
    for t in vars(torch).values()
    if isinstance(t, type) and t.__name__.endswith("Tensor") and not is_tensor_class(t)
)
