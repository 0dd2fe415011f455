"""`__torch_dispatch__`: tensors of classes that answer torch's operations themselves, below autograd.

Such an object holds other tensors; the graph has those, and none of it. What an operation on it comes to, torch itself
says: it is run on stand-ins, which are asked, operator by operator, what the objects would be. The class's method is
read there, and what it does to plain tensors is recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import get_alias_info, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves

from symbolic.errors import GraphBreak
from symbolic.schemas import bind, written_by
from symbolic.sources import Source
from symbolic.variables.base import INPLACE, MISSING, Variable, lookup
from symbolic.variables.constants import ConstantVariable, SliceVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.numbers import parts_of
from symbolic.variables.positions import is_python_class
from symbolic.variables.subclasses import SubclassVariable, through, whole
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import HANDLERS
from symbolic.warned import Hearing

if TYPE_CHECKING:
    from symbolic.graph import GraphBuilder
    from symbolic.translator import Translator

_C: Any = torch._C
_State = _C._TorchFunctionState
_make_wrapper: Any = torch.Tensor._make_wrapper_subclass
#: What is known of such an object by its looks, and what torch makes an operation of.
_LOOKS = frozenset({
    *("shape", "dtype", "device", "layout", "ndim", "requires_grad", "itemsize", "is_cpu", "is_cuda", "is_meta"),
    *("is_sparse", "is_quantized", "is_nested", "is_mkldnn", "is_xpu", "is_mps"),
    *("T", "mT", "H", "mH", "real", "imag", "data"),
})  # fmt: skip
#: Of longer lists of numbers torch makes no tensors in graphs.
MOST_NUMBERS = 256
_IN_PLACE = frozenset({*INPLACE, operator.setitem, "__setitem__"})


def answers(cls: type) -> bool:
    """Whether objects of the class are asked what operators do."""
    return lookup(cls, "__torch_dispatch__") is not torch.Tensor.__torch_dispatch__


class DispatchedTensor(TensorVariable):
    """What torch knows of an object of such a class: its looks. It has no memory, and no node in the graph."""

    def __init__(self, fake: torch.Tensor, cls: type, value: Any, source: Source | None) -> None:
        self.fake = fake
        self.cls = cls
        self.value = value
        self.source = source

    @property
    def node(self) -> Any:  # type: ignore[override]
        raise GraphBreak("tensor subclass", f"the memory of {self.describe()}")

    def describe(self) -> str:
        return f"tensor {self.source.text}" if self.source else f"a tensor of class {self.cls.__qualname__}"

    def __str__(self) -> str:
        return self.describe()

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name not in _LOOKS and not callable(getattr(torch.Tensor, name, None)):
            raise GraphBreak("tensor subclass", f"{self.describe()}.{name}")
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        raise GraphBreak("tensor subclass", f"store to {self.describe()}.{name}")


class DispatchedVariable(SubclassVariable):
    """An object of such a class."""

    #: What `torch.Tensor._make_wrapper_subclass` was given, of one that the frame made.
    made_of: tuple[list[Variable], dict[str, Variable]]

    def reachable(self) -> list[Variable]:
        return []


def _known(tx: Translator, cls: type, value: Any, source: Source | None, looks: torch.Tensor) -> DispatchedVariable:
    """An object of such a class that looks so."""
    if type(cls) is not type(torch.Tensor) or not is_python_class(cls):
        raise GraphBreak("tensor subclass", cls.__qualname__)
    with tx.graph.fake_mode:
        fake = torch.empty_strided(looks.shape, looks.stride(), dtype=looks.dtype, device=looks.device)
        fake.requires_grad_(looks.requires_grad)
    tx.graph.dispatches = True
    return DispatchedVariable(cls, DispatchedTensor(fake, cls, value, source), value, source)


def existing(tx: Translator, value: torch.Tensor, source: Source) -> Variable:
    """One that the frame found."""
    if source.kind == "const" or source.root.kind == "born" or value.layout is not torch.strided or value.is_complex():
        raise GraphBreak("tensor subclass", type(value).__qualname__)
    if value.is_inference() or not value.is_leaf or value.grad is not None:
        raise GraphBreak("tensor subclass", type(value).__qualname__)
    tx.know(source, "tensor", tx.graph.facts(value))
    return _known(tx, type(value), value, source, value)


def _made(tx: Translator, cls: Variable, size: Variable, **named: Variable) -> Variable:
    """`torch.Tensor._make_wrapper_subclass(cls, size, ...)`"""
    given = {name: each.constant() for name, each in named.items()}
    asked = [each for name, each in given.items() if name.startswith(("dispatch_", "_extra")) and each]
    if asked or given.get("requires_grad") or given.get("layout", torch.strided) is not torch.strided:
        raise GraphBreak("tensor subclass", "one that requires gradients, or answers more than operators")
    real = cls.real()
    if not isinstance(real, type) or not issubclass(real, torch.Tensor) or not answers(real):
        raise GraphBreak("tensor subclass", cls.describe())
    sizes = [each.constant() for each in tx.unpack(size)]
    made = _known(tx, real, MISSING, None, tx.attempt(_make_wrapper, _StandIn, sizes, **given))
    constants: dict[str, Variable] = {name: ConstantVariable(each) for name, each in given.items()}
    made.made_of = [cls, tx.from_constant(tuple(sizes))], constants
    return made


# --- operations -------------------------------------------------------------------------------------------------------
class _StandIn(torch.Tensor):
    """Of an object of such a class, or of a plain tensor that an operation gets along with one."""

    __torch_function__ = _C._disabled_torch_function_impl
    variable: TensorVariable
    asking: _Asking

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        first = next(each for each in tree_leaves((args, kwargs)) if type(each) is _StandIn)
        return first.asking.answer(func, args, kwargs)


def ask(
    tx: Translator, target: Any, run: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """What `run(*args, **kwargs)` gives, an operation with a `DispatchedTensor` among its arguments."""
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if (getattr(target, "__module__", None) or "").startswith("symbolic."):
        raise GraphBreak("tensor subclass", f"{name} of a tensor of such a class")
    is_cast = any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
    if is_cast or tx.graph.inner or tx.overrides.has_modes or torch.is_inference_mode_enabled():
        raise GraphBreak("tensor subclass", f"{name}, in a transform, a mode or autocast")
    tx.repeats.tell(None)
    asking = _Asking(tx)
    given, named = asking.arguments(args), {key: asking.argument(each) for key, each in kwargs.items()}
    looks, hearing = [_looks(each) for each in asking.given.values()], Hearing()
    try:
        with hearing:
            result = run(*given, **named)
    except Exception as error:
        raised, asking.raised = asking.raised, None  # which holds the frames that hold it
        if error is raised:
            raise
        raise GraphBreak("tensor subclass", f"{name}: {type(error).__name__}: {error}") from error
    if hearing.found:
        raise GraphBreak("tensor subclass", f"{name} warns")
    if [_looks(each) for each in asking.given.values()] != looks:
        raise GraphBreak("tensor subclass", f"{name} changes what a tensor looks like")
    if any(real._version and not isinstance(each, DispatchedTensor) for each, real in asking.given.items()):
        raise GraphBreak("tensor subclass", f"{name} writes to a plain tensor")  # which counts it
    return asking.back(result)


def _looks(real: torch.Tensor) -> tuple[Any, ...]:
    return real.shape, real.stride(), real.dtype, real.requires_grad


class _Asking:
    """One operation: stand-ins for tensors, and what they stand for."""

    def __init__(self, tx: Translator) -> None:
        self.tx = tx
        self.given: dict[Variable, torch.Tensor] = {}
        self.raised: BaseException | None = None
        self.state = _C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set()

    def arguments(self, variables: Iterable[Variable]) -> list[Any]:
        return [self.argument(each) for each in variables]

    def argument(self, variable: Variable) -> Any:
        """What torch gets for a value."""
        if isinstance(variable, SubclassVariable):
            variable = variable.payload
        if isinstance(variable, TensorVariable):
            if variable not in self.given:
                self.given[variable] = self.stand_in(variable)
            return self.given[variable]
        if isinstance(variable, ListVariable):
            return self.arguments(variable.unpack(self.tx))
        if isinstance(variable, TupleVariable):
            items = self.arguments(variable.items)
            return torch.Size(items) if variable.python_type() is torch.Size else tuple(items)
        if isinstance(variable, SliceVariable):
            return slice(*self.arguments(variable.parts))
        return variable.constant()

    def stand_in(self, variable: TensorVariable) -> torch.Tensor:
        fake = variable.fake
        is_open = fake.requires_grad and torch.is_grad_enabled()
        if is_open or fake.is_complex() or variable.owner is not None and type(variable) is not DispatchedTensor:
            why = "gradients are asked for" if is_open else "with a tensor that is no plain one"
            raise GraphBreak("tensor subclass", f"an operation on a class with __torch_dispatch__, and {why}")
        sizes = [size.constant() for size in self.tx.graph.sizes(variable)]
        made = _make_wrapper(
            _StandIn, sizes, strides=[int(each) for each in fake.stride()], dtype=fake.dtype, device=fake.device,
            requires_grad=fake.requires_grad,
        )  # fmt: skip
        made.variable, made.asking = variable, self
        return made

    def back(self, value: Any) -> Variable:
        """What that stands for which torch gave or handed on."""
        if isinstance(value, torch.Tensor):
            variable = getattr(value, "variable", None)
            return self.made(value) if variable is None else variable
        if isinstance(value, tuple) and not isinstance(value, torch.Size):
            return self.tx.new_tuple([self.back(each) for each in value], type(value))
        if isinstance(value, list):
            return self.tx.new_list([self.back(each) for each in value])
        return self.tx.from_constant(value)

    def made(self, value: torch.Tensor) -> Variable:
        """A tensor that torch itself made of numbers: of a value that is stored, of a list of places."""
        if type(value) is not torch.Tensor or value.device.type != "cpu" or value.numel() > MOST_NUMBERS:
            raise GraphBreak("tensor subclass", "a tensor that torch made by itself")
        numbers = self.tx.from_constant(value.tolist())
        return self.tx.graph.call(torch.tensor, [numbers], {"dtype": ConstantVariable(value.dtype)})

    def answer(self, function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """What the class answers, or what the graph has of an operator on plain tensors alone."""
        tx = self.tx
        given = [whole(self.back(each)) for each in args]
        named = {name: whole(self.back(each)) for name, each in (kwargs or {}).items()}
        asked = list(parts_of([*given, *named.values()], SubclassVariable))
        try:
            with _C._ForceDispatchKeyGuard(*self.state):
                if asked:
                    return self.answered(self.asked(function, asked, given, named))
                return self.answered(tx.graph.call(function, given, named))
        except BaseException as error:
            self.raised = error
            raise

    def asked(
        self, function: OpOverload, asked: list[SubclassVariable], args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        """`__torch_dispatch__` of the class."""
        tx, first = self.tx, asked[0]
        if any(each.cls is not first.cls for each in asked):
            raise GraphBreak("tensor subclass", f"several classes are asked by {function}")
        named = tx.new_dict([(ConstantVariable(name), each) for name, each in kwargs.items()])
        types = tx.new_tuple([tx.class_of(first)])
        before, outside = tx.overrides.state, tx.graph.below
        if first.is_usual and before == _State.ENABLED:  # what torch makes of the class comes before
            tx.overrides.state = _State.SUBCLASSES_DISABLED
        try:
            tx.graph.below = True
            method = tx.getattr(first, "__torch_dispatch__")
            return tx.call(method, [tx.from_constant(function), types, tx.new_tuple(args), named], {})
        finally:
            tx.overrides.state, tx.graph.below = before, outside

    def answered(self, result: Variable) -> Any:
        """What torch gets for an answer."""
        if isinstance(result, SubclassVariable):
            result = result.payload
        if isinstance(result, TensorVariable):
            return self.given[result] if result in self.given else self.stand_in(result)  # held by nobody but torch
        if isinstance(result, (TupleVariable, ListVariable)):
            items = [self.answered(each) for each in result.items]
            return items if isinstance(result, ListVariable) else tuple(items)
        if not result.is_constant() or result.constant() is NotImplemented:
            raise GraphBreak("tensor subclass", f"an operator is answered by {result.describe()}")
        return result.constant()


def below(
    graph: GraphBuilder, record: Callable[..., Variable], target: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """Records an operation that autograd does not see: it counts no write, knows no view, wants no gradient. In the
    graph that is what is done to `tensor.data`."""
    changed = set(parts_of(_written(target, args, kwargs), TensorVariable))
    instead: dict[Variable, Variable] = {}  # what the graph has in place of arguments -> these

    def data(variable: Variable) -> Variable:
        return graph.call(getattr, [variable, ConstantVariable("data")])

    def lowered(variable: Variable) -> Variable:
        if isinstance(variable, TensorVariable):
            wants = variable.fake.requires_grad and torch.is_grad_enabled()
            lower = data(variable) if wants or variable in changed else variable
            instead[lower] = variable
            return lower
        return variable

    def raised(variable: Variable) -> Variable:
        if variable in instead or not isinstance(variable, TensorVariable):
            return instead.get(variable, variable)
        return data(variable) if variable.fake.untyped_storage()._cdata in memory else variable

    graph.below = False
    try:
        args, kwargs = [through(each, lowered) for each in args], {k: through(v, lowered) for k, v in kwargs.items()}
        memory = {each.fake.untyped_storage()._cdata for each in instead if isinstance(each, TensorVariable)}
        return through(record(target, args, kwargs), raised)
    finally:
        graph.below = True


def _written(target: Any, args: list[Variable], kwargs: dict[str, Variable]) -> list[Variable]:
    """The arguments that an operation writes to, as far as it says so."""
    if isinstance(target, OpOverload):
        given = bind(target, args, kwargs)
        return [given[name] for _, name in written_by(target)]
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    is_in_place = target in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return [*(args[:1] if is_in_place else ()), *(each for name, each in kwargs.items() if name == "out")]


def _correct(tx: Translator, func: Variable, args: Variable, kwargs: Variable, out: Variable) -> Variable:
    """`return_and_correct_aliasing`: in place it is the argument that is given back."""
    function = func.real()
    known = get_alias_info(function)
    given = tx.unpack(args)
    results = out.items if isinstance(out, TupleVariable) else [out]
    pairs = [(given[at], results[to]) for at, to in known.read_only_alias_match_indexes]
    same = all(part.python_type() is one.python_type() for one, each in pairs for part in _parts(each))
    if known.is_inplace_view_op or not same:
        raise GraphBreak("tensor subclass", f"aliasing of {function}")
    if known.outs_write_aliases is None:
        return out
    found = []
    for alias in known.outs_write_aliases:
        (at,) = [at for at, each in enumerate(known.args) if alias in each.alias_set]
        name = ConstantVariable(known.args[at].name)
        found.append(given[at] if at < len(given) else kwargs.getitem(tx, name))
    return found[0] if len(found) == 1 else tx.new_tuple(found)


def _parts(variable: Variable) -> list[Variable]:
    return variable.items if isinstance(variable, ListVariable) else [variable]


HANDLERS[_make_wrapper] = _made
HANDLERS[return_and_correct_aliasing] = _correct
