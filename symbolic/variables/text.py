"""`str`, `repr`, `ascii` and `format` of values that are known in part: containers, exceptions, objects with text of
their own.
"""

from __future__ import annotations

import _string
import builtins
import enum
import inspect
import operator
import re
import string
import sys
from array import array
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from itertools import chain
from types import GenericAlias, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.base import lookup as type_lookup
from symbolic.variables.constants import OWN_METHODS, TEMPLATES, ConstantVariable
from symbolic.variables.exceptions import ExceptionVariable
from symbolic.variables.late_text import (
    TextVariable,
    is_late,
    joined,
    late,
    late_format,
    late_template,
    marked,
    unmarked,
)
from symbolic.variables.native import begun, taken
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.positions import native_part, stand_in, type_name
from symbolic.variables.tables import fold, handles, known, of_class
from symbolic.variables.tensors import METHODS

if TYPE_CHECKING:
    from symbolic.translator import Translator


#: the code of `__repr__` of every named tuple
_NAMEDTUPLE_REPR = namedtuple("_", "").__repr__.__code__


class _Text:
    """Stands for a value whose repr is known, inside a real container whose repr is wanted."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _native_text(variable: Variable) -> bool:
    """Whether a constant's text is Python's own (an enum may have a `__repr__` or `__format__` of the user's)."""
    if not variable.is_constant():
        return False
    value = variable.constant()
    if isinstance(value, enum.Enum):
        raws = [type_lookup(type(value), name) for name in ("__repr__", "__str__", "__format__")]
        return all(getattr(raw, "__module__", "enum") in ("enum", "builtins") for raw in raws)
    if isinstance(value, type):
        return type_lookup(type(value), "__repr__") is type.__repr__
    return not (isinstance(value, (tuple, frozenset)) and any(isinstance(item, (enum.Enum, type)) for item in value))


def _slot(tx: Translator, variable: Variable, name: str) -> Variable | None:
    """The answer of a text method written in Python, None if the class has a native one."""
    raw = tx.lookup(variable.python_type(), name)
    if inspect.isfunction(raw) and not isinstance(variable, (ObjectVariable, ConstantVariable)):
        return tx.call(tx.class_attribute(variable.python_type(), name), [variable], {})
    if inspect.isfunction(raw) or not hasattr(raw, "__objclass__"):
        return variable.method(tx, name, [], {})
    return None


def repr_of(tx: Translator, variable: Variable) -> str:
    """`repr(variable)`"""
    tx.go_deeper()
    try:
        return _repr_of(tx, variable)
    finally:
        tx.depth -= 1


def _repr_of(tx: Translator, variable: Variable) -> str:
    text = late(tx, variable, repr)
    if text is not None:
        return text
    if _native_text(variable):
        return tx.attempt(repr, variable.constant())
    kind, raw = variable.python_type(), tx.lookup(variable.python_type(), "__repr__")
    if getattr(raw, "__code__", None) is _NAMEDTUPLE_REPR:
        fields = zip(kind._fields, tx.unpack(variable), strict=True)  # type: ignore[attr-defined]
        return f"{kind.__name__}({', '.join(f'{name}={repr_of(tx, item)}' for name, item in fields)})"
    answer = _slot(tx, variable, "__repr__")
    if answer is not None:
        return marked(tx, answer)
    if raw is BaseException.__repr__:
        return f"{kind.__name__}({', '.join(repr_of(tx, arg) for arg in tx.unpack(tx.getattr(variable, 'args')))})"
    shell = _SHELLS.get(raw) if raw.__hash__ is not None else None
    if raw is object.__repr__:  # it shows the object's address
        return marked(tx, TextVariable(object.__repr__, [variable]))
    if shell is None:
        raise GraphBreak("text of an object", kind.__qualname__)
    return tx.attempt(repr, shell(tx, variable))


def _texts(tx: Translator, variable: Variable) -> list[_Text]:
    return [_Text(repr_of(tx, item)) for item in tx.unpack(variable)]


def _list_shell(tx: Translator, variable: Variable) -> list[_Text]:
    """Of a list, that is walked as it is by then: the program's `__repr__` may change it."""
    texts, iterator = [], tx.iter(native_part(variable))
    while (item := tx.next(iterator)) is not None:
        texts.append(_Text(repr_of(tx, item)))
    return texts


def _bare(variable: Variable, base: Any) -> Any:
    """The built-in class, or one with the name of the user's class that is derived from it: some texts begin so."""
    kind = variable.python_type()
    return base if kind is base else type(kind.__name__, (base,), {})


def _pair_texts(tx: Translator, mapping: Variable) -> list[tuple[_Text, _Text]]:
    """Of the items of a mapping, in whose memory the interpreter walks while the program's `__repr__` runs."""
    pairs = [tx.unpack(pair) for pair in tx.unpack(mapping.method(tx, "items", [], {}))]
    texts = [(_Text(repr_of(tx, key)), _Text(repr_of(tx, value))) for key, value in pairs]
    if native_part(mapping) is mapping:
        after = [tx.unpack(pair) for pair in tx.unpack(mapping.method(tx, "items", [], {}))]
        if len(after) != len(pairs) or not all(map(_is_one, chain(*after), chain(*pairs))):
            raise GraphBreak("text of an object", "a dict that changes meanwhile")
    return texts


def _is_one(one: Variable, other: Variable) -> bool:
    return one is other or one.is_constant() and other.is_constant() and one.constant() is other.constant()


def _dict_shell(tx: Translator, variable: Variable) -> dict[Any, Any]:
    return dict(_pair_texts(tx, native_part(variable)))


def _ordered_shell(tx: Translator, variable: Variable) -> Any:
    """Of an OrderedDict, that first asks its `items`, or from Python 3.12 on makes a dict of itself."""
    listed = variable
    if sys.version_info >= (3, 12) and native_part(variable) is not variable:
        listed = tx.new_dict([])
        listed.method(tx, "update", [variable], {})
    return _bare(variable, OrderedDict)(_pair_texts(tx, listed))


def _namespace_shell(tx: Translator, variable: Variable) -> Any:
    assert isinstance(variable, ObjectVariable)
    pairs = tx.instance_namespace(variable).pairs(tx)
    return _bare(variable, SimpleNamespace)(**{name.constant(): _Text(repr_of(tx, value)) for name, value in pairs})


def _buffer_shell(tx: Translator, variable: Variable) -> Any:
    value = known(tx, native_part(variable))
    made = _bare(variable, type(value))
    return made(value.typecode, value) if isinstance(value, array) else made(value)


def _set_shell(tx: Translator, variable: Variable) -> _Text:
    kind = variable.python_type()
    inner = ", ".join(text.text for text in _texts(tx, variable))
    if not inner:
        return _Text(f"{kind.__name__}()")
    return _Text(f"{{{inner}}}" if kind is set else f"{kind.__name__}({{{inner}}})")


def _views(value: dict[Any, Any]) -> tuple[Any, ...]:
    return value.keys(), value.values(), value.items()


def _view_shell(tx: Translator, variable: Variable) -> _Text:
    """Of a view of a dict."""
    return _Text(f"{variable.python_type().__name__}({_texts(tx, variable)!r})")


def _deque_shell(tx: Translator, variable: Variable) -> Any:
    return _bare(variable, deque)(_texts(tx, variable), tx.getattr(variable, "maxlen").constant())


def _defaultdict_shell(tx: Translator, variable: Variable) -> _Text:
    factory = repr_of(tx, tx.getattr(variable, "default_factory"))
    return _Text(f"{variable.python_type().__name__}({factory}, {_dict_shell(tx, variable)!r})")


def _alias_shell(tx: Translator, variable: Variable) -> GenericAlias:
    """Of `list[int]`: classes are told of by their names."""
    origin, args = (tx.getattr(variable, name) for name in ("__origin__", "__args__"))
    parts = [origin.constant(), *[each.constant() for each in tx.unpack(args)]]
    is_starred = tx.getattr(variable, "__unpacked__").constant()
    if is_starred or any(type(part) is not type for part in parts):
        raise GraphBreak("text of an object", "an alias of others than classes")
    return GenericAlias(parts[0], tuple(parts[1:]))


_SHELLS: dict[Any, Callable[[Translator, Variable], Any]] = {
    list.__repr__: _list_shell,
    tuple.__repr__: lambda tx, variable: tuple(_texts(tx, native_part(variable))),
    dict.__repr__: _dict_shell,
    OrderedDict.__repr__: _ordered_shell,
    defaultdict.__repr__: _defaultdict_shell,
    set.__repr__: _set_shell,
    frozenset.__repr__: _set_shell,
    deque.__repr__: _deque_shell,
    **{type(view).__repr__: _view_shell for kind in (dict, OrderedDict) for view in _views(kind())},
    GenericAlias.__repr__: _alias_shell,
    SimpleNamespace.__repr__: _namespace_shell,
    bytearray.__repr__: _buffer_shell,
    array.__repr__: _buffer_shell,
    torch.Size.__repr__: lambda tx, variable: _Text(f"torch.Size({_texts(tx, variable)!r})"),
}


#: `__str__` of the exceptions whose text is that of their arguments
_PLAIN_MESSAGES = {
    cls.__str__
    for cls in vars(builtins).values()
    if isinstance(cls, type)
    and issubclass(cls, BaseException)
    and not issubclass(cls, (OSError, SyntaxError, ImportError, UnicodeError, BaseExceptionGroup))
}


def str_of(tx: Translator, variable: Variable) -> str:
    """`str(variable)`"""
    text = late(tx, variable, str)
    if text is not None:
        return text
    if _native_text(variable):
        return tx.attempt(str, variable.constant())
    answer = _slot(tx, variable, "__str__")
    if answer is not None:
        return marked(tx, answer)
    raw = tx.lookup(variable.python_type(), "__str__")
    if raw in _PLAIN_MESSAGES:
        args = tx.getattr(variable, "args")
        items = tx.unpack(args)
        if len(items) == 1:
            return repr_of(tx, items[0]) if raw is KeyError.__str__ else str_of(tx, items[0])
        return repr_of(tx, args) if items else ""
    if raw is BaseExceptionGroup.__str__:
        message, errors = tx.getattr(variable, "message"), tx.unpack(tx.getattr(variable, "exceptions"))
        return f"{str_of(tx, message)} ({len(errors)} sub-exception{'s' * (len(errors) > 1)})"
    if isinstance(variable, ExceptionVariable) and variable.is_as_model(tx):
        return tx.attempt(str, variable.model)
    if raw in (object.__str__, bytearray.__str__):
        return repr_of(tx, variable)
    raise GraphBreak("text of an object", variable.python_type().__qualname__)


def format_of(tx: Translator, variable: Variable, spec: str = "") -> str:
    """`format(variable, spec)`"""
    if is_late(spec):
        raise GraphBreak("text of a value not known", "format specification")
    text = late_format(tx, variable, spec)
    if text is not None:
        return text
    if _native_text(variable):
        return tx.attempt(format, variable.constant(), spec)
    raw = tx.lookup(variable.python_type(), "__format__")
    if raw is object.__format__:
        return _format_of_object(tx, variable, spec)
    return marked(tx, of_class(tx, variable, "__format__", [ConstantVariable(spec)]))


class _Shown(_Text):
    """Stands for a value in `template % values`: asked for its text when the template wants it."""

    def __init__(self, tx: Translator, variable: Variable) -> None:
        self.tx = tx
        self.variable = variable

    def __repr__(self) -> str:
        return repr_of(self.tx, self.variable)

    def __str__(self) -> str:
        return str_of(self.tx, self.variable)


def percent(tx: Translator, template: str, right: Variable) -> Variable:
    """`template % right`, where `right` is not wholly known."""
    text = late_template(tx, template, right)
    if text is not None:
        return text

    def shown(variable: Variable) -> Any:
        return variable.constant() if _native_text(variable) else _Shown(tx, variable)

    values: Any = shown(right)
    if issubclass(right.python_type(), tuple):
        values = tuple(shown(item) for item in tx.unpack(right))
    elif right.python_type() is dict:
        values = {key.constant(): shown(right.getitem(tx, key)) for key in tx.unpack(right)}
    try:
        result = template % values
    except (TypeError, ValueError, KeyError) as error:
        raise GraphBreak("text of a value not known", f"{template!r} % {right.describe()}") from error
    if is_late(result) and _SIZED.search(template):  # that is not the size of the marker
        raise GraphBreak("text of a value not known", f"{template!r} % {right.describe()}")
    return unmarked(tx, result)


#: A conversion of text with a width or a precision.
_SIZED = re.compile(r"%(\(\w*\))?[-+ #0]*[\d*.]")


class _Formatter(string.Formatter):
    """`template.format(...)` over variables: the fields are found through the translator."""

    def __init__(self, tx: Translator) -> None:
        self.tx = tx

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first, rest = _string.formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = self.tx.getattr(value, name) if is_attribute else value.getitem(self.tx, ConstantVariable(name))
        return value, first

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return value if conversion is None else unmarked(self.tx, _CONVERSIONS[conversion](self.tx, value))

    def format_field(self, value: Any, format_spec: str) -> str:
        return format_of(self.tx, value, format_spec)


def _ascii_of(tx: Translator, variable: Variable) -> str:
    text = late(tx, variable, ascii)
    return text if text is not None else repr_of(tx, variable).encode("ascii", "backslashreplace").decode("ascii")


_CONVERSIONS = {"s": str_of, "r": repr_of, "a": _ascii_of}


def format_method(tx: Translator, template: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`template.format(*args, **kwargs)`"""
    try:
        return unmarked(tx, _Formatter(tx).vformat(template, args, kwargs))
    except (IndexError, KeyError, ValueError) as error:
        raise GraphBreak("text of a value not known", f"{template!r}.format") from error


def join(tx: Translator, separator: str, parts: Variable) -> Variable:
    """`separator.join(parts)`"""
    is_read = parts.python_type() in (list, tuple)
    if (elements := parts if is_read else begun(tx, parts)) is None:
        tx.raise_(TypeError, "can only join an iterable")
    items = tx.unpack(parts) if is_read else taken(tx, elements)  # as `list` of that
    if not all(item.is_constant() or isinstance(item, TextVariable) for item in items):
        raise GraphBreak("text of a value not known", "join")
    if all(item.is_constant() for item in items):
        return tx.from_constant(tx.attempt(separator.join, [item.constant() for item in items]))
    between = ConstantVariable(separator)
    return joined(tx, [piece for item in items for piece in (between, item)][1:])


TEMPLATES.update({"native": _native_text, "%": percent, "format": format_method, "join": join, "known": known})


@handles(str)
def _str(tx: Translator, object: Variable | None = None, *decoding: Variable, **named: Variable) -> Variable:  # noqa: A002
    if object is None and not named:
        return ConstantVariable("")
    if object is None or decoding or named:
        folded = fold(tx, str, [*([object] if object else []), *decoding], named)
        if folded is None:
            raise GraphBreak("bytes not known", "str() with an encoding")
        return folded
    return object if object.python_type() is str else unmarked(tx, str_of(tx, object))


def _format_of_object(tx: Translator, variable: Variable, spec: str) -> str:
    if spec:
        tx.raise_(TypeError, f"unsupported format string passed to {type_name(variable.python_type())}.__format__")
    return str_of(tx, variable)


@handles(object.__format__)
def _object_format(tx: Translator, variable: Variable, spec: Variable, /) -> Variable:
    return unmarked(tx, _format_of_object(tx, variable, spec.constant()))


_AS_FLOATS = tuple("eEfFgG%")


def _text_of_owner(
    tx: Translator, value: ConstantVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """Without a specification the native method asks an object of a derived class for its text; where an int is
    written as a float, for that."""
    if isinstance(value.value, int) and args and args[0].is_constant() and str(args[0].constant())[-1:] in _AS_FLOATS:
        if inspect.isfunction(type_lookup(value.whole.python_type(), "__float__")):
            raise GraphBreak("text of a value not known", value.whole.describe())
    if value.whole is value or kwargs or len(args) != 1 or not args[0].is_constant():
        return None
    if args[0].constant() == "":
        return unmarked(tx, str_of(tx, value.whole))
    return tx.from_constant(tx.attempt(stand_in(value.whole).__format__, args[0].constant()))


def _bare_template(
    tx: Translator, value: ConstantVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """One without places is given back."""
    return value.whole if not {"{", "}"} & set(value.constant()) else None


def _bare_template_of(
    tx: Translator, value: ConstantVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """The same where the values come in a mapping."""
    return _bare_template(tx, value, args, kwargs) if len(args) == 1 and not kwargs else None


OWN_METHODS.update({(kind, "__format__"): _text_of_owner for kind in (str, int, float, complex)})
def _bare_percent(
    tx: Translator, value: ConstantVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """The same of the operator, called as a method."""
    return value.binary(tx, operator.mod, args[0]) if len(args) == 1 and not kwargs else None


OWN_METHODS[str, "format"] = _bare_template
OWN_METHODS[str, "format_map"] = _bare_template_of
OWN_METHODS[str, "__mod__"] = _bare_percent


def _tensor_text(tx: Translator, tensor: Variable) -> Variable:
    return unmarked(tx, str_of(tx, tensor))


def _tensor_format(tx: Translator, tensor: Variable, spec: Variable) -> Variable:
    return unmarked(tx, format_of(tx, tensor, spec.constant()))


METHODS.update({"__repr__": _tensor_text, "__str__": _tensor_text, "__format__": _tensor_format})


@handles(repr)
def _repr(tx: Translator, value: Variable, /) -> Variable:
    return unmarked(tx, repr_of(tx, value))


@handles(ascii)
def _ascii(tx: Translator, value: Variable, /) -> Variable:
    return unmarked(tx, _ascii_of(tx, value))


@handles(format)
def _format(tx: Translator, value: Variable, spec: Variable | None = None, /) -> Variable:
    wanted = spec.constant() if spec is not None else ""
    if not isinstance(wanted, str):
        tx.attempt(format, None, wanted)
    return unmarked(tx, format_of(tx, value, wanted))
