"""The universal functions of numpy, its operators among them, as torch has them.

Which dtypes the operands are taken in is asked of the function itself; rounding is then torch's own of that dtype."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from symbolic.errors import GraphBreak
from symbolic.variables.arrays import (
    CPU,
    DTYPES,
    IS_KNOWN,
    METHODS,
    OPERATORS,
    ArrayVariable,
    LooseNumber,
    NumpyVariable,
    ScalarVariable,
    as_tensor,
    cast,
    check_dtype,
    computed,
    constant,
    example_of,
    flagged,
    full,
    loose,
    made,
    must_hold,
    operand,
    record,
    rehearse,
    value_of,
    write,
)
from symbolic.variables.base import INPLACE, MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.drawn import numpy
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tables import KINDS, Args, Kwargs, name_of
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

Body = Callable[..., TensorVariable]
NONE = ConstantVariable(None)


@dataclass(frozen=True)
class Row:
    """`flags`: whether numpy may warn of results; `spread`: of which operands elements that are not finite make such
    results. `numbers`: torch takes plain numbers among the operands."""

    body: Body
    flags: bool = False
    spread: tuple[int, ...] = ()
    numbers: bool = False


UFUNCS: dict[Any, Row] = {}


def refuse(function: Any, why: str = "") -> NoReturn:
    raise GraphBreak("numpy function not captured", " ".join(filter(None, (name_of(function), why))))


def flat(values: Any) -> Iterator[Variable]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        elif isinstance(value, Variable):
            yield value


def ufunc(tx: Translator, function: Any, args: Args, kwargs: Kwargs, op: Any = None) -> Variable:
    """`function(*args, **kwargs)`. `op` is the operator that it was written as: of numbers that warns of more."""
    row = UFUNCS.get(function)
    if row is None or kwargs.keys() - {"out"}:
        return refuse(function, "with more")
    out = kwargs.get("out")
    if len(args) == function.nin + 1 and out is None:
        args, out = args[:-1], args[-1]
    if out is not None and out.python_type() is tuple:
        out = tx.unpack(out)[0]
    operands = loose(function, [as_operand(tx, arg) for arg in args])
    values = [value_of(tx, each) for each in operands]
    is_known = out is None and all(value is not MISSING for value in values)
    if is_known and (value := computed(tx, op or function, values)) is not MISSING:
        return constant(tx, value)
    examples = [example_of(tx, each) for each in operands]
    target = target_of(out)
    # The operator may know better: an array of truths to the power of 2 is its square, one of small integers.
    example = rehearse(tx, op or function, [*examples, *([] if target is None else [target.look.example()])])
    check_dtype(example)
    loop = _loop(function, operands, examples)
    _check_integers(tx, function, operands, example)
    given = _in_loops(tx, row, operands, loop)
    tensor = row.body(tx, *given)
    spread = [operands[at] for at in row.spread]
    if target is not None:
        tensor = cast(tx, tensor, target.look.dtype)
        if row.flags:
            flagged(tx, tensor, spread)
        write(tx, target, target.tensor, tensor)
        return target
    result = made(tx, tensor, example, operands)
    if row.flags:
        assert isinstance(result, NumpyVariable)
        flagged(tx, result.tensor, spread)
    return result


def target_of(out: Variable | None) -> ArrayVariable | None:
    if out is None or (out.is_constant() and out.constant() is None):
        return None
    if not isinstance(out, ArrayVariable):
        raise GraphBreak("numpy function not captured", f"out={out.describe()}")
    return out


def as_operand(tx: Translator, variable: Variable) -> Variable:
    variable = operand(tx, variable)
    if isinstance(variable, TensorVariable):
        raise GraphBreak("array beside a tensor", variable.describe())
    if isinstance(variable, (NumpyVariable, NumberVariable, SymbolVariable)):
        return variable
    value = value_of(tx, variable)
    if type(value) in (list, tuple):
        return constant(tx, rehearse(tx, numpy.asarray, [value]))
    if type(value) not in (bool, int, float, complex):
        raise GraphBreak("array beside what is no array", variable.describe())
    return ConstantVariable(value)


#: Truths are no weak numbers.
_PYTHON: dict[type, Any] = {} if numpy is None else {bool: numpy.dtype(bool)}


def _loop(function: Any, operands: list[Variable], examples: list[Any]) -> list[Any]:
    """The dtypes that the operands are taken in."""
    kinds = [
        each.look.dtype if isinstance(each, NumpyVariable) else _PYTHON.get(type(value), type(value))
        for each, value in zip(operands, examples, strict=True)
    ]
    try:
        found = function.resolve_dtypes((*kinds, *(None,) * function.nout))
    except (TypeError, ValueError) as error:
        raise GraphBreak("operation raises", f"{function.__name__}: {error}") from error
    return list(found[: function.nin])


def _in_loops(tx: Translator, row: Row, operands: list[Variable], loop: list[Any]) -> list[Variable]:
    given = [in_loop(tx, each, dtype, row.numbers) for each, dtype in zip(operands, loop, strict=True)]
    if any(isinstance(each, TensorVariable) for each in given):
        return given
    return [in_loop(tx, each, dtype, False) for each, dtype in zip(operands, loop, strict=True)]


def in_loop(tx: Translator, variable: Variable, dtype: Any, as_number: bool = False) -> Variable:
    """An operand in a dtype."""
    if dtype not in DTYPES:
        raise GraphBreak("dtype that torch does not compute with", str(dtype))
    if isinstance(variable, LooseNumber):
        return as_tensor(tx, variable.number, dtype)
    if isinstance(variable, NumberVariable) and not variable.is_constant():
        if variable.python_type() is int and dtype not in (numpy.dtype("int64"), numpy.dtype("float64")):
            raise GraphBreak("array beside what is no array", variable.describe())
        return record(tx, torch.full, (), variable, dtype=DTYPES[dtype], device=CPU)
    if isinstance(variable, ArrayVariable) or (isinstance(variable, ScalarVariable) and variable.known is MISSING):
        assert isinstance(variable, NumpyVariable)
        return cast(tx, variable.tensor, dtype)
    value = variable.known if isinstance(variable, ScalarVariable) else variable.constant()
    number = rehearse(tx, dtype.type, [value]).item()
    return ConstantVariable(number) if as_number else full(tx, (), number, dtype)


def _check_integers(tx: Translator, function: Any, operands: list[Variable], example: Any) -> None:
    """Numpy warns where its own integers (not those in arrays) overflow, and where any are divided by zero."""
    if example.dtype.kind not in "iu":
        return
    if function in _DIVIDES:
        divisor = operands[1]
        if isinstance(divisor, ConstantVariable) and divisor.value not in (0, -1):
            return
        if not isinstance(divisor, NumpyVariable):
            refuse(function, "by such a number")
        must_hold(tx, ands(tx, *(record(tx, operator.ne, divisor.tensor, number) for number in (0, -1))))
        return
    scalar = isinstance(example, numpy.generic) and any(isinstance(each, ScalarVariable) for each in operands)
    if not scalar or function in _QUIET:
        return
    if function in _TURNS:
        smallest = int(numpy.iinfo(example.dtype).min)
        must_hold(tx, record(tx, operator.ne, in_loop(tx, operands[0], example.dtype), smallest))
        return
    if function not in _GROWS:
        refuse(function, "of integers")
    wide = numpy.dtype("float64")
    size = record(tx, abs, UFUNCS[function].body(tx, *(in_loop(tx, each, wide) for each in operands)))
    must_hold(tx, record(tx, operator.lt, size, float(2 ** (example.dtype.itemsize * 8 - 1) * 0.99)))


def ands(tx: Translator, *conditions: TensorVariable) -> TensorVariable:
    return functools.reduce(lambda one, other: record(tx, operator.and_, one, other), conditions)


def _torch(function: Any) -> Body:
    def body(tx: Translator, *args: Variable) -> TensorVariable:
        return record(tx, function, *args)

    return body


def _ones(tx: Translator, like: TensorVariable, value: float) -> TensorVariable:
    return record(tx, torch.full_like, like, value)


def _remainder(tx: Translator, x: TensorVariable, y: TensorVariable) -> TensorVariable:
    """Zeros have the sign of the divisor."""
    rest = record(tx, torch.remainder, x, y)
    if not x.fake.is_floating_point():
        return rest
    signed = record(tx, torch.copysign, _ones(tx, rest, 0.0), y)
    return record(tx, torch.where, record(tx, operator.eq, rest, 0), signed, rest)


def _sign(tx: Translator, x: TensorVariable) -> TensorVariable:
    """Torch has a sign of what is no number."""
    sign = record(tx, torch.sign, x)
    return record(tx, torch.where, record(tx, torch.isnan, x), x, sign) if x.fake.is_floating_point() else sign


def _power(tx: Translator, x: Variable, y: Variable) -> TensorVariable:
    """Of integers to integers that may be negative numpy raises an error; complex numbers it multiplies if it can."""
    is_square = isinstance(y, ConstantVariable) and type(y.value) is int and y.value == 2
    if isinstance(x, TensorVariable) and x.fake.is_complex() and not is_square:
        raise GraphBreak("numpy function not captured", "power of complex numbers")
    if _is_integer(x) and not isinstance(y, ConstantVariable):
        raise GraphBreak("numpy function not captured", "power of integers to others")
    return record(tx, torch.pow, x, y)


def _is_integer(x: Variable) -> bool:
    if isinstance(x, TensorVariable):
        return not x.fake.is_floating_point() and not x.fake.is_complex()
    return isinstance(x.constant(), (int, numpy.integer))


def _shift(function: Any) -> Body:
    def body(tx: Translator, x: Variable, y: Variable) -> TensorVariable:
        bits = x.fake.itemsize * 8 if isinstance(x, TensorVariable) else 0
        if not isinstance(y, ConstantVariable) or not 0 <= y.value < bits:
            raise GraphBreak("numpy function not captured", "shift by such a number")
        return record(tx, function, x, y)

    return body


def _of_floats(function: Any) -> Body:
    def body(tx: Translator, *args: TensorVariable) -> TensorVariable:
        if not args[0].fake.is_floating_point():
            raise GraphBreak("numpy function not captured", f"{function.__name__} of integers")
        return record(tx, function, *args)

    return body


def _floor(function: Any) -> Body:
    """Of integers they are these themselves."""

    def body(tx: Translator, x: TensorVariable) -> TensorVariable:
        if x.fake.is_complex():
            raise GraphBreak("numpy function not captured", f"{function.__name__} of complex numbers")
        return record(tx, function, x) if x.fake.is_floating_point() else record(tx, torch.clone, x)

    return body


def _degrees(tx: Translator, x: TensorVariable) -> TensorVariable:
    """Of single precision by the quotient of single precision."""
    if x.fake.dtype != torch.float32:
        return record(tx, torch.rad2deg, x)
    return record(tx, operator.mul, x, ConstantVariable(float(numpy.float32(180) / numpy.float32(numpy.pi))))


def _negative(tx: Translator, x: TensorVariable) -> TensorVariable:
    """Of complex numbers the parts alone: torch takes them from zero, which has a sign."""
    if not x.fake.is_complex():
        return record(tx, torch.neg, x)
    return record(tx, torch.view_as_complex, record(tx, torch.neg, record(tx, torch.view_as_real, x)))


def _positive(tx: Translator, x: TensorVariable) -> TensorVariable:
    return record(tx, torch.clone, x)


def _fill() -> None:
    both, first = (0, 1), (0,)
    rows: dict[str, Row] = {
        "add": Row(_torch(operator.add), True, both, True),
        "subtract": Row(_torch(operator.sub), True, both, True),
        "multiply": Row(_torch(operator.mul), True, both, True),
        "divide": Row(_torch(torch.true_divide), True, first),
        "floor_divide": Row(_torch(torch.floor_divide), True),
        "remainder": Row(_remainder, True),
        "fmod": Row(_torch(torch.fmod), True),
        "power": Row(_power, True, (), True),
        "float_power": Row(_power, True, (), True),
        "sqrt": Row(_torch(torch.sqrt), True, first),
        "square": Row(_torch(torch.square), True, first),
        "reciprocal": Row(_of_floats(torch.reciprocal), True),
        "matmul": Row(_torch(torch.matmul), True, both),
        "left_shift": Row(_shift(torch.bitwise_left_shift), numbers=True),
        "right_shift": Row(_shift(torch.bitwise_right_shift), numbers=True),
        **dict.fromkeys(("degrees", "rad2deg"), Row(_degrees, True)),
        "negative": Row(_negative),
        "sign": Row(_sign),
        "positive": Row(_positive),
        "conjugate": Row(_torch(torch.conj_physical)),
    }
    compared = {
        "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    }  # fmt: skip
    rows |= {name: Row(_torch(getattr(operator, op)), numbers=True) for name, op in compared.items()}
    flagged_names = {
        "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
        "log1p": "log1p",
        "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
        "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "hypot": "hypot",
        "arctan2": "atan2", "logaddexp": "logaddexp", "deg2rad": "deg2rad", "radians": "deg2rad",
    }  # fmt: skip
    rows |= {name: Row(_torch(getattr(torch, theirs)), True) for name, theirs in flagged_names.items()}
    plain = {
        "absolute": "abs", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax",
        "fmin": "fmin",
        "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit", "copysign": "copysign",
        "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
        "logical_not": "logical_not", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
        "bitwise_xor": "bitwise_xor", "invert": "bitwise_not",
    }  # fmt: skip
    rows |= {name: Row(_torch(getattr(torch, theirs))) for name, theirs in plain.items()}
    whole = {"floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "rint": torch.round}
    rows |= {name: Row(_floor(theirs)) for name, theirs in whole.items()}
    UFUNCS.update({getattr(numpy, name): row for name, row in rows.items()})


def _conjugated(tx: Translator, _: Any, args: Args, kwargs: Kwargs) -> Variable:
    """The methods: of real numbers these are the array itself."""
    array = args[0]
    if isinstance(array, NumpyVariable) and array.look.dtype.kind != "c" and len(args) == 1 and not kwargs:
        return array
    return ufunc(tx, numpy.conjugate, args, kwargs)


_OF_OPERATORS = {
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply", operator.truediv: "divide",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "power", operator.matmul: "matmul",
    operator.lshift: "left_shift", operator.rshift: "right_shift", operator.and_: "bitwise_and",
    operator.or_: "bitwise_or", operator.xor: "bitwise_xor", operator.lt: "less", operator.le: "less_equal",
    operator.gt: "greater", operator.ge: "greater_equal", operator.eq: "equal", operator.ne: "not_equal",
    operator.neg: "negative", operator.pos: "positive", operator.invert: "invert", abs: "absolute",
}  # fmt: skip


def _operator(op: Any, function: Any, tx: Translator, operands: list[Variable]) -> Variable:
    if op is operator.mul and any(issubclass(each.python_type(), (list, tuple)) for each in operands):
        first, second = operands
        for sequence, number in ((first, second), (second, first)):
            if issubclass(number.python_type(), numpy.generic):
                return _repeated(tx, sequence, number)
    return ufunc(tx, function, operands, {}, op)


def _repeated(tx: Translator, sequence: Variable, number: Variable) -> Variable:
    """A list times a number of numpy's, which counts as one of Python's there, an array's does not."""
    value = value_of(tx, number)
    if not isinstance(value, numpy.integer):
        raise GraphBreak("array beside what is no array", sequence.describe())
    return tx.binary(operator.mul, sequence, ConstantVariable(int(value)))


def _in_place(function: Any, tx: Translator, operands: list[Variable]) -> Variable:
    return ufunc(tx, function, operands, {"out": operands[0]})


#: Functions of integers that warn of nothing.
_QUIET: frozenset[Any] = frozenset()
#: Those that overflow where the like of floats is large.
_GROWS: frozenset[Any] = frozenset()
#: Those that overflow of the smallest integer.
_TURNS: frozenset[Any] = frozenset()
#: Those that warn of a divisor of zero, and overflow of one that is -1.
_DIVIDES: frozenset[Any] = frozenset()
if IS_KNOWN:
    _QUIET = frozenset((
        numpy.maximum, numpy.minimum, numpy.bitwise_and, numpy.bitwise_or, numpy.bitwise_xor, numpy.invert,
        numpy.positive, numpy.sign, numpy.right_shift, numpy.floor, numpy.ceil, numpy.trunc, numpy.rint,
    ))  # fmt: skip
    _GROWS = frozenset((numpy.add, numpy.subtract, numpy.multiply))
    _TURNS = frozenset((numpy.negative, numpy.absolute))
    _DIVIDES = frozenset((numpy.floor_divide, numpy.remainder, numpy.fmod))
    _fill()
    KINDS[numpy.ufunc] = ufunc
    METHODS.update(dict.fromkeys(("conj", "conjugate"), _conjugated))
    for _op, _name in _OF_OPERATORS.items():
        OPERATORS[_op] = functools.partial(_operator, _op, getattr(numpy, _name))
    for _inplace, (_op, _) in INPLACE.items():
        if _op in _OF_OPERATORS and _op is not operator.matmul:
            OPERATORS[_inplace] = functools.partial(_in_place, getattr(numpy, _OF_OPERATORS[_op]))
