"""Numbers that are known only when the graph runs: what `.item()` reads from a tensor, ints and floats that come in
with another value at every call, and what is computed from these.

Arithmetic and functions of `math` are recorded as Python's own, so results have the bits of eager code. What a program
decides by such a number (a comparison, its text, a size) breaks the graph, or is guarded if the number came in.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import fx

from symbolic.errors import GraphBreak
from symbolic.late import Number, real_power
from symbolic.signatures import takes
from symbolic.sources import Source
from symbolic.variables.base import COMPARISONS, MISSING, Variable
from symbolic.variables.computed import OF_INTS, decide, derive, side
from symbolic.variables.constants import ConstantVariable, SliceVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.foreseen import foresee, number, truth
from symbolic.variables.tables import LATE, Args, Kwargs
from symbolic.variables.tensors import METHODS, NumberOutput, TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

Part = TypeVar("Part", bound=Variable)

#: A list of more numbers than this is not taken apart, nor one of tensors with more dimensions.
MOST_READ, MOST_DIMS = 256, 8

#: What stands for such a number as an example of its type.
EXAMPLES: dict[type, int | float] = {int: 1, float: 0.5, bool: True}
#: Operations whose result has a shape that depends on the value of a float.
SIZED_BY_VALUES = frozenset({torch.arange, torch.range, torch.nn.functional.interpolate, torch.nn.functional.upsample})


class NumberVariable(Variable):
    """An int, float or bool that a node of the graph gives. `fake` is what operations get for it in the fake run:
    nothing that they answer there depends on a float; an int or bool says so itself where something does."""

    def __init__(self, node: fx.Node, kind: type, tx: Translator) -> None:
        self.node = node
        self.kind = kind
        self.tx = tx
        self.fake = EXAMPLES[kind] if kind is float else Number(node, kind).symbol()
        self.output = NumberOutput(node, EXAMPLES[kind])  # type: ignore[arg-type]

    def python_type(self) -> type:
        return self.kind

    def constant(self) -> Any:
        answer = foresee(self.tx, self.node, number)
        if answer is MISSING:
            raise GraphBreak("tensor value needed", self.describe())
        return answer

    def varies(self) -> bool:
        return True

    def plain(self) -> ConstantVariable:
        return ConstantVariable(self.constant())

    def key(self) -> Any:
        return self.constant()

    def truth(self, tx: Translator) -> bool:
        answer = decide(tx, operator.ne, [self.node, 0])
        return bool(self.constant()) if answer is MISSING else bool(answer)

    def reachable(self) -> list[Variable]:
        return [self.output]

    def describe(self) -> str:
        return f"number %{self.node.name}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        return self.plain().getattr(tx, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return self.plain().method(tx, name, args, kwargs)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return _compute(tx, op, self, other)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return _compute(tx, op, other, self)

    def unary(self, tx: Translator, op: Any) -> Variable:
        if op in (operator.neg, operator.pos, abs):
            kind = int if self.kind is bool else self.kind
            return tx.graph.compute(op, [self], kind) or self.plain().unary(tx, op)
        return self.plain().unary(tx, op)

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if self is not other and other.python_type() is self.kind:
            raise GraphBreak("identity of numbers", f"{self.describe()} is {other.describe()}")
        return self is other


class DrawnNumber(NumberVariable):
    """A number that the residual code has before it calls the graph, where it is an input."""

    def __init__(self, node: fx.Node, kind: type, tx: Translator) -> None:
        super().__init__(node, kind, tx)
        self.value = EXAMPLES[kind]

    def constant(self) -> Any:
        raise GraphBreak("random numbers of Python", self.describe())

    def reachable(self) -> list[Variable]:
        return []


class Given(Variable):
    """A number that is known for the inputs at hand: `number`. `inputs`: what it comes of."""

    number: int | float
    inputs: tuple[Given, ...]

    def settle(self) -> None:
        """From here on it is what it is for the inputs at hand."""
        raise NotImplementedError


class GivenNumber(NumberVariable, Given):
    """A number computed of such as come in. Where it is needed, these are guarded."""

    def __init__(self, node: fx.Node, value: int | float, inputs: tuple[Given, ...], tx: Translator) -> None:
        super().__init__(node, type(value), tx)
        self.value = self.number = value
        self.inputs = inputs

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        for each in self.inputs:
            each.settle()
        return self.value

    def wanted(self) -> Variable:
        """The same for what needs to know it: an int, where the guard computes it, need not be this very one."""
        node, made = self.node, None
        if self.kind is int and node.op == "call_function" and callable(node.target):
            made = derive(self.tx, node.target, node.args)
        return made or self.plain()


class NumberInput(GivenNumber):
    """An int or float that came in."""

    def __init__(self, node: fx.Node, value: int | float, source: Source, tx: Translator) -> None:
        super().__init__(node, value, (self,), tx)
        self.source = source

    def settle(self) -> None:
        self.tx.know(self.source, "eq", self.value)

    def reachable(self) -> list[Variable]:
        return []


def is_read(number: NumberVariable) -> bool:
    """Whether it comes of tensors."""
    return not isinstance(number, (GivenNumber, DrawnNumber))


def is_late(number: NumberVariable) -> bool:
    """Whether there is none at hand."""
    return not isinstance(number, GivenNumber)


def given(variables: Iterable[Variable]) -> tuple[Given, ...] | None:
    """The inputs that these numbers are computed of, each once; None where one comes of a tensor."""
    found: dict[Given, None] = {}
    for variable in variables:
        inside: tuple[Given, ...] | None = None
        if isinstance(variable, Given):
            inside = variable.inputs
        elif isinstance(variable, ConstantVariable):
            inside = ()
        elif isinstance(variable, ListVariable):
            inside = given(variable.items)
        if inside is None:
            return None
        found.update(dict.fromkeys(inside))
    return tuple(found)


def value_of(variable: Variable) -> Any:
    """The value for the inputs at hand, not guarded, of a number or of a list of numbers."""
    if isinstance(variable, ListVariable):
        return [value_of(item) for item in variable.items]
    return variable.number if isinstance(variable, Given) else variable.constant()


def settled(variable: Variable, kind: type[Variable]) -> Variable:
    """The variable with plain numbers in the place of those of that kind, in containers too."""
    return replaced(variable, {each: ConstantVariable(each.constant()) for each in parts_of([variable], kind)})


def replaced(variable: Variable, known: Mapping[Variable, Variable]) -> Variable:
    """The variable with these in the place of others, in containers too."""
    if variable in known:
        return known[variable]
    old = _parts(variable)
    new = [replaced(item, known) for item in old]
    if all(map(operator.is_, new, old)):
        return variable
    if isinstance(variable, SliceVariable):
        return SliceVariable(new)
    return type(variable)(new, None, variable.python_type())  # type: ignore[call-arg]


def numbers_in(variables: Iterable[Variable]) -> Iterator[NumberVariable]:
    """Those of them that the graph gives, in containers too."""
    return parts_of(variables, NumberVariable)


def parts_of(variables: Iterable[Variable], kind: type[Part]) -> Iterator[Part]:
    """Those of that kind, in containers too."""
    for variable in variables:
        if isinstance(variable, kind):
            yield variable
        yield from parts_of(_parts(variable), kind)


def holds_number(variables: Iterable[Variable]) -> bool:
    """Whether one of these, or an element of one, is a number of the graph."""
    return any(True for _ in numbers_in(variables))


def _parts(variable: Variable) -> Sequence[Variable]:
    """What is in a container that operations are given."""
    if isinstance(variable, SliceVariable):
        return variable.parts
    return variable.items if isinstance(variable, (TupleVariable, ListVariable)) else ()


_COMPARISONS = frozenset(COMPARISONS.values())
_SAME = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
#: What is recorded where a float is among the operands, besides powers.
_OF_FLOATS = (*_SAME, operator.truediv)
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)
#: operator -> the type of its result of ints
_OF_BOOLS = (operator.and_, operator.or_, operator.xor)
_OF_INTS = {**dict.fromkeys(_SAME, int), operator.truediv: float, operator.pow: int}


def _compute(tx: Translator, op: Any, left: Variable, right: Variable) -> Variable | None:
    operands = [left, right]
    if any(isinstance(operand, TensorVariable) for operand in operands):
        return None
    kinds = {operand.python_type() for operand in operands}
    if op in _COMPARISONS and kinds <= {int, float, bool}:
        answer = decide(tx, op, [*map(side, operands)])
        if answer is not MISSING:
            return ConstantVariable(answer)
        if given(operands) is None and _are_numbers(operands):
            return tx.graph.compute(op, operands, bool)
    recorded: Variable | None = None
    if bool in kinds <= {int, float, bool} and op not in _COMPARISONS and _are_numbers(operands):
        if kinds == {bool} and op in _OF_BOOLS:
            return tx.graph.compute(op, operands, bool)
        operands = [_as_int(tx, operand) for operand in operands]
        return tx.binary(op, *operands)
    if kinds == {int} and op in _OF_INTS and not _is_fixed(op, left, right):
        recorded = tx.graph.compute(op, operands, _OF_INTS[op])
    elif float in kinds <= {int, float} and op is operator.pow:
        recorded = float_power(tx, left, right)
    elif float in kinds <= {int, float} and op in _OF_FLOATS:
        recorded = sound(tx, tx.graph.compute(op, operands, float))
    elif kinds == {int} and op in OF_INTS:
        recorded = derive(tx, OF_INTS[op], [*map(side, operands)])
    if recorded is not None:
        return recorded
    return tx.binary(op, *(each.plain() if isinstance(each, NumberVariable) else each for each in operands))


def float_power(tx: Translator, base: Variable, exponent: Variable) -> NumberVariable | None:
    """`base ** exponent` as a float; None where it is complex. That one of numbers read from tensors is not is checked
    by the graph, unless it has written already: an optimizer's step does not run again for that."""
    operands = [base, exponent]
    if not (_is_whole(exponent) or given(operands) is not None or tx.graph.inner or tx.graph.fake_mode.written):
        is_real = tx.binary(operator.ge, base, ConstantVariable(0))
        if isinstance(is_real, NumberVariable):
            tx.graph.check_number(is_real, True)
        elif not is_real.constant():
            return None
    return sound(tx, tx.graph.compute(real_power, operands, float))


def sound(tx: Translator, made: NumberVariable | None) -> NumberVariable | None:
    """What was computed of numbers; that of such as came in may raise for others to come (see `guard_results`)."""
    if isinstance(made, GivenNumber) and made.node.target in _RAISING and not tx.graph.inner:
        is_by_constant = made.node.target in _DIVISIONS and not isinstance(made.node.args[1], fx.Node)
        if not is_by_constant:
            tx.partial[made.node] = tx.place()
    return made


def guard_results(tx: Translator) -> None:
    """At the end of a capture: where the graph writes inputs, and could not run again, what it computes of numbers that
    came in raises for none."""
    if tx.partial and tx.graph.mutates_inputs():
        for node, place in tx.partial.items():
            tx.reads_at = place
            decide(tx, operator.is_not, [node, None])
        tx.reads_at = None


def _is_whole(number: Variable) -> bool:
    return number.python_type() is int or (isinstance(number, ConstantVariable) and number.value.is_integer())


def _are_numbers(operands: Iterable[Variable]) -> bool:
    """Whether none of them is a size."""
    return all(isinstance(operand, (NumberVariable, ConstantVariable)) for operand in operands)


def _as_int(tx: Translator, variable: Variable) -> Variable:
    """What a bool is to arithmetic."""
    if variable.python_type() is not bool:
        return variable
    if isinstance(variable, NumberVariable):
        return tx.graph.compute(int, [variable], int) or variable.plain()
    return ConstantVariable(int(variable.constant()))


def _is_fixed(op: Any, left: Variable, right: Variable) -> bool:
    """Whether a number that came in must be known: beside a size, which the result may be as well, or where the result
    may be a float, or an error."""
    if not _are_numbers((left, right)):
        return isinstance(left, GivenNumber) or isinstance(right, GivenNumber)
    if op is operator.pow:
        return not (isinstance(right, ConstantVariable) and bool(right.value >= 0))
    return op in _DIVISIONS and isinstance(right, GivenNumber)


def _item(tx: Translator, tensor: Variable) -> Variable:
    assert isinstance(tensor, TensorVariable)
    dtype = tensor.fake.dtype
    if dtype is torch.bool and (answer := foresee(tx, tensor.node, truth)) is not MISSING:
        return ConstantVariable(answer)
    if tensor.fake.numel() != 1 or dtype.is_complex:
        raise GraphBreak("tensor value needed", "item")
    return tx.graph.item(tensor, kind_of(dtype))


def kind_of(dtype: torch.dtype) -> type:
    """The type of the numbers that are read from a tensor, which is not complex."""
    return float if dtype.is_floating_point else bool if dtype is torch.bool else int


def truth_of(tx: Translator, value: Variable) -> Variable:
    """`bool(value)`, which may be known only when the graph runs."""
    if isinstance(value, TensorVariable) and value.is_one() and not value.fake.dtype.is_complex:
        answer = foresee(tx, value.node, truth)
        if answer is not MISSING:
            return ConstantVariable(answer)
        value = _item(tx, value)
    if not isinstance(value, NumberVariable) or not is_read(value):
        return ConstantVariable(tx.truth(value))
    answer = foresee(tx, value.node, number)
    if answer is not MISSING:
        return ConstantVariable(bool(answer))
    return value if value.kind is bool else tx.graph.compute(bool, [value], bool) or value.plain()


def inverse_of(tx: Translator, value: Variable) -> Variable:
    """`not value`"""
    known = truth_of(tx, value)
    if isinstance(known, NumberVariable):
        return tx.graph.compute(operator.not_, [known], bool) or known.plain()
    return ConstantVariable(not known.constant())


def _tolist(tx: Translator, tensor: Variable) -> Variable:
    assert isinstance(tensor, TensorVariable)
    sizes = tensor.fake.shape
    if not sizes:
        return _item(tx, tensor)
    is_known = all(type(size) is int for size in sizes) and not tensor.fake.dtype.is_complex
    if not is_known or math.prod(sizes) > MOST_READ or len(sizes) > MOST_DIMS:
        raise GraphBreak("tensor value needed", "tolist")
    numbers: list[Variable] = [*tx.graph.items(tensor, kind_of(tensor.fake.dtype))] if all(sizes) else []
    return _nested(tx, numbers, sizes)


def _nested(tx: Translator, numbers: list[Variable], sizes: Sequence[int]) -> Variable:
    """Numbers as they lie in a tensor of these sizes."""
    if len(sizes) == 1:
        return tx.new_list(numbers)
    step = math.prod(sizes[1:])
    parts = [numbers[at * step : (at + 1) * step] for at in range(sizes[0])]
    return tx.new_list([_nested(tx, part, sizes[1:]) for part in parts])


METHODS.update(item=_item, tolist=_tolist)


# --- builtins and functions of `math` ---------------------------------------------------------------------------------
def _recorded(fn: Any, kind: type) -> Any:
    """`fn` of numbers, which gives a `kind`."""

    def row(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
        numbers = [arg for arg in args if isinstance(arg, NumberVariable)]
        if not numbers or kwargs or any(arg.python_type() not in (int, float, bool) for arg in args):
            return None
        return sound(tx, tx.graph.compute(fn, args, kind))

    return row


def _decided(fn: Any) -> Any:
    """`fn` of a number, which says yes or no."""

    def row(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
        if len(args) != 1 or not isinstance(args[0], NumberVariable) or kwargs:
            return None
        answer = decide(tx, fn, [args[0].node])
        return None if answer is MISSING else ConstantVariable(answer)

    return row


def _round(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
    to_int = len(args) == 1 or (bool(args) and args[0].python_type() is int)
    return _recorded(round, int if to_int else float)(tx, args, kwargs)


def _extreme(fn: Any) -> Any:
    """max or min of floats, or of ints. (Of an int and a float it is the one or the other.)"""

    def row(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
        if len(args) == 1 and isinstance(args[0], (ListVariable, TupleVariable)) and args[0].items:
            args = args[0].items
            if len(args) == 1:
                return args[0] if isinstance(args[0], NumberVariable) and not kwargs else None
        kinds = {arg.python_type() for arg in args}
        if len(args) < 2 or len(kinds) > 1 or (given(args) is not None and kinds != {float}):
            return None
        return _recorded(fn, kinds.pop())(tx, args, kwargs) if _are_numbers(args) else None

    return row


def _by_operators(row: Callable[..., Variable]) -> Any:
    """A function of one or two numbers that says what operators give."""

    def handler(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
        numbers = all(arg.python_type() in (int, float) for arg in args)
        known = numbers and any(isinstance(arg, NumberVariable) for arg in args)
        return row(tx, *args) if known and not kwargs and takes(row, tx, *args) else None

    return handler


def _absolute(tx: Translator, x: Variable) -> Variable:
    return x.unary(tx, abs)


def _power(tx: Translator, base: Variable, exponent: Variable) -> Variable:
    return tx.binary(operator.pow, base, exponent)


def _quotient(tx: Translator, x: Variable, y: Variable) -> Variable:
    return tx.new_tuple([tx.binary(op, x, y) for op in (operator.floordiv, operator.mod)])


def _sum(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
    """Later Pythons keep what each addition of floats rounds away."""
    items = args[0].items if len(args) == 1 and isinstance(args[0], ListVariable) and not kwargs else []
    is_known = any(isinstance(item, NumberVariable) for item in items)
    kinds = {item.python_type() for item in items}
    is_of_ints = kinds <= {int, bool} and given(items) is None and _are_numbers(items)
    if not is_known or not (kinds == {float} or is_of_ints):
        return None
    return tx.graph.compute(sum, args, float if float in kinds else int)


_OF_MATH = """acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees erf erfc exp exp2 expm1 fabs fma
    fmod gamma hypot ldexp lgamma log log10 log1p log2 nextafter pow radians remainder sin sinh sqrt tan tanh
    ulp""".split()
_OF_SOME = """acos acosh asin atanh cosh exp exp2 expm1 fmod gamma ldexp lgamma log log10 log1p log2 pow remainder sinh
    sqrt""".split()
FLOAT_FUNCTIONS = [getattr(math, name) for name in _OF_MATH if hasattr(math, name)]  # `cbrt` and others are newer
#: They have no result for some numbers.
_RAISING = frozenset({*_DIVISIONS, real_power, *(fn for fn in FLOAT_FUNCTIONS if fn.__name__ in _OF_SOME)})
DECIDE = (math.isnan, math.isinf, math.isfinite)
LATE.update({fn: _recorded(fn, float) for fn in (float, *FLOAT_FUNCTIONS)})
LATE.update({fn: _recorded(fn, int) for fn in (int, math.floor, math.ceil, math.trunc)})
LATE.update({round: _round, max: _extreme(max), min: _extreme(min), sum: _sum})
LATE.update({fn: _decided(fn) for fn in DECIDE})
LATE.update({abs: _by_operators(_absolute), pow: _by_operators(_power), divmod: _by_operators(_quotient)})
