"""How classes are made in a frame: `class` statements, `type(name, bases, namespace)`, what decorates classes.

The body is traced as a function whose names are a namespace, and so are metaclasses, `__set_name__` and
`__init_subclass__` as the user wrote them. What the library makes classes with is run as it is, on models while tracing
(see `born`), as long as it runs none of the user's code.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import types
import typing
from builtins import __build_class__
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.code import decode, is_library_s, looks_at_frames
from symbolic.errors import LOOKS_UP, READS_FRAME, GraphBreak, Observed
from symbolic.passing import namespace_of
from symbolic.variables.base import MISSING, Variable, lookup
from symbolic.variables.born import BornClass, MadeVariable, do, make, model
from symbolic.variables.buffers import from_python
from symbolic.variables.classes import MAKERS, NATIVE_CONSTRUCTORS, ClassVariable, SuperVariable, of_the_program
from symbolic.variables.constants import ConstantVariable, is_a
from symbolic.variables.functions import CellVariable, ClosureFunction, PartialVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.namespaces import Names
from symbolic.variables.objects import NATIVE_METHODS, OBJECT_METHODS
from symbolic.variables.positions import has, has_own, type_name
from symbolic.variables.tables import HANDLERS, class_method, handles, known, library, misused

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
_ABC_INIT: Any = abc._abc_init  # type: ignore[attr-defined]
#: Metaclasses of libraries whose `__new__` and `__init__` do nothing else, either.
_METACLASSES = (
    enum.EnumMeta,
    typing.NamedTupleMeta,  # type: ignore[attr-defined]
    typing._TypedDictMeta,  # type: ignore[attr-defined]
    type(typing.Protocol),
    type(torch.autograd.Function),
)
#: What an enum class may define that runs when the class is made.
_RUN_BY_ENUMS = frozenset(
    """__new__ __init__ _generate_next_value_ __init_subclass__ __set_name__ __setattr__ __getattr__
    __getattribute__""".split()
)


# --- made by the residual code as well --------------------------------------------------------------------------------
#: Of `type.__flags__`: a sequence, a mapping, or what a pattern of one position is matched with itself.
_MARKS = 1 << 5 | 1 << 6 | 1 << 22


#: `issubclass`, called by `abc`, as the hooks of protocols want it.
_ASKED_BY_ABC = FunctionType((lambda derived, cls: cls.__subclasscheck__(derived)).__code__, {"__name__": abc.__name__})


class Quiet:
    """Base of a class until it gets its own bases: so that their `__init_subclass__` is not run."""


def bare_class(
    meta: Any, name: str, bases: tuple[type, ...], namespace: dict[str, Any], quiet: bool, described: tuple[str, ...]
) -> type:
    """`type.__new__(meta, name, bases, namespace)` without `__init_subclass__` (if `quiet`) and without `__set_name__`
    of the attributes `described`. TypeError if a quiet class is no plain Python class, or one of those that patterns go
    by: it would not inherit that."""
    first = {key: None if key in described else value for key, value in namespace.items()}
    if quiet and any(base.__flags__ & _MARKS for base in bases):
        raise TypeError
    made: type = type.__new__(meta, name, (Quiet,) if quiet else bases, first)
    for key in described:
        type.__setattr__(made, key, namespace[key])
    if quiet:
        type.__dict__["__bases__"].__set__(made, bases)
    return made


def library_class(
    meta: Any, name: str, bases: tuple[type, ...], namespace: dict[str, Any], keywords: dict[str, Any]
) -> type:
    """`meta(name, bases, namespace, **keywords)`, the namespace filled as by a class body."""
    space = meta.__prepare__(name, bases, **keywords)
    for key, value in namespace.items():
        space[key] = value
    made: type = meta(name, bases, space, **keywords)
    return made


# --- type.__new__ -----------------------------------------------------------------------------------------------------
def new_class(tx: Translator, meta: type, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`type.__new__(meta, *args, **kwargs)`"""
    if len(args) == 3 and args[2].python_type() is types.MappingProxyType:
        tx.attempt(type.__new__, meta, "", (), args[2].blank())  # type: ignore[attr-defined]
    if len(args) != 3 or not isinstance(args[2], DictVariable):
        raise GraphBreak("class made of arguments that are none", meta.__qualname__)
    name, bases, namespace = args[0], args[1], _namespace(tx, args[2])
    if isinstance(lookup(meta, "mro"), FunctionType):
        raise GraphBreak("metaclass with its own mro()", meta.__qualname__)
    if isinstance(lookup(meta, "__getattribute__"), FunctionType):  # looking at the class would ask it while tracing
        raise GraphBreak("attribute access not supported", f"class with {meta.__qualname__}.__getattribute__")
    parents = tx.attempt(tuple, model(tx, bases))
    if tx.attempt(types._calculate_meta, meta, parents) is not meta:  # type: ignore[attr-defined]
        raise GraphBreak("metaclass of a base in place of the one called", meta.__qualname__)
    cell = namespace.pop("__classcell__", None)
    if "__classdictcell__" in namespace:
        raise GraphBreak("class body that is looked at by annotations", name.describe())
    if "__module__" not in namespace:
        namespace["__module__"] = _module_of_caller(tx, name)
    hooks = {key: lookup(value.python_type(), "__set_name__") for key, value in namespace.items()}
    if any(getattr(hook, "__module__", None) == enum.__name__ for hook in hooks.values()):
        raise GraphBreak("class of a library's metaclass with hooks", "__set_name__")
    described = tuple(key for key, hook in hooks.items() if of_the_program(hook))
    quiet = any(of_the_program(lookup(parent, "__init_subclass__")) for parent in parents)
    settled = tx.new_dict([(ConstantVariable(key), value) for key, value in namespace.items()])
    parts = [tx.class_variable(meta), name, bases, settled, ConstantVariable(quiet), tx.from_constant(described)]
    if kwargs and not quiet:
        raise GraphBreak("keywords of a class for a native __init_subclass__", name.describe())
    try:
        made = make(tx, bare_class, parts, {})
    except Observed as raised:
        if quiet:  # perhaps only for that
            raise GraphBreak("class with hooks over a native base", name.describe()) from raised
        raise
    assert isinstance(made, BornClass)
    if isinstance(cell, CellVariable):
        cell.store(tx, made)
    elif cell is not None:
        raise GraphBreak("cell of a class that is none", cell.describe())
    try:
        for key in described:
            kind = namespace[key].python_type()
            tx.call(tx.class_attribute(kind, "__set_name__"), [namespace[key], made, ConstantVariable(key)], {})
    except Observed as raised:
        raise GraphBreak("__set_name__ that raises", name.describe()) from raised
    if quiet:
        tx.call(SuperVariable(made.value, made).getattr(tx, "__init_subclass__"), [], kwargs)
    return made


def _namespace(tx: Translator, space: DictVariable) -> dict[str, Variable]:
    return {key.constant(): value.realize(tx) for key, value in space.pairs(tx)}


# --- class statements -------------------------------------------------------------------------------------------------
@handles(__build_class__)
def _build_class(
    tx: Translator, body: Variable, name: Variable, /, *bases: Variable, metaclass: Variable = NONE,
    **keywords: Variable,
) -> Variable:  # fmt: skip
    if not isinstance(body, ClosureFunction) or looks_at_frames(body.code):
        raise GraphBreak(READS_FRAME, body.describe())
    if not set(body.code.co_cellvars).isdisjoint(body.code.co_freevars):
        raise GraphBreak("class body with two variables of one name", body.describe())
    given = tx.new_tuple(list(bases))
    parents = _resolved(tx, bases)
    first = type(parents[0]) if parents else type
    meta = first if metaclass is NONE else model(tx, metaclass)
    resolved = given if parents == model(tx, given) else tx.from_constant(parents)
    if not isinstance(meta, type):  # any callable
        if tx.hasattr(metaclass, "__prepare__"):
            raise GraphBreak("__prepare__ of a metaclass that is no class", metaclass.describe())
        return _finished(tx, body, metaclass, name, given, resolved, tx.new_dict([]), keywords)
    winner = tx.attempt(types._calculate_meta, meta, parents)  # type: ignore[attr-defined]
    if winner in _METACLASSES:
        return _of_library(tx, body, winner, name, given, resolved, keywords)
    chosen = tx.class_variable(winner)
    prepare = lookup(winner, "__prepare__")
    if prepare is type.__dict__["__prepare__"]:
        space: Variable = tx.new_dict([])
    else:
        space = tx.call(tx.getattr(chosen, "__prepare__"), [name, resolved], keywords)
    if not has(space.python_type(), "__getitem__"):
        kind = type_name(space.python_type())
        tx.raise_(TypeError, f"{winner.__name__}.__prepare__() must return a mapping, not {kind}")
    return _finished(tx, body, chosen, name, given, resolved, space, keywords)


def _resolved(tx: Translator, bases: tuple[Variable, ...]) -> tuple[Any, ...]:
    """The bases, after `__mro_entries__` of those that are no classes (of the library's: `Generic[T]`)."""
    found = tuple(model(tx, base) for base in bases)
    for base in found:
        if is_a(base, type):
            continue
        entries = getattr(type(base), "__mro_entries__", None) or getattr(base, "__mro_entries__", None)
        if entries is not None and of_the_program(entries):
            raise GraphBreak("base with its own __mro_entries__", repr(base))
    return tx.attempt(types.resolve_bases, found)


def _run(tx: Translator, body: ClosureFunction, space: Variable) -> Variable:
    """Runs a class body, which answers with the cell for the class, if a method needs it."""
    frame = body.frame(tx, [], {})
    frame.space = space
    return tx.run(frame)


def _finished(
    tx: Translator, body: ClosureFunction, meta: Variable, name: Variable, given: Variable, resolved: Variable,
    space: Variable, keywords: dict[str, Variable],
) -> Variable:  # fmt: skip
    cell = _run(tx, body, space)
    if resolved is not given:
        space.setitem(tx, ConstantVariable("__orig_bases__"), given)
    made = tx.call(meta, [name, resolved, space], keywords)
    if isinstance(cell, CellVariable) and isinstance(made, ClassVariable) and cell.contents(tx) is not made:
        raise GraphBreak("cell of a class that holds another", made.describe())
    return made


def _of_library(
    tx: Translator, body: ClosureFunction, meta: Any, name: Variable, given: Variable, resolved: Variable,
    keywords: dict[str, Variable],
) -> Variable:  # fmt: skip
    """A class that the metaclass of a library makes, which sees what the body stores one by one."""
    space: DictVariable = tx.new_dict([])
    own = [key for base in model(tx, resolved) for key in _RUN_BY_ENUMS if of_the_program(lookup(base, key))]
    if issubclass(meta, enum.EnumMeta) and not own and not _lists_names(body.code):
        named = _models(tx, keywords)
        space = EnumBody(tx.attempt(meta.__prepare__, model(tx, name), model(tx, resolved), **named))
    _run(tx, body, space)
    if resolved is not given:
        space.setitem(tx, ConstantVariable("__orig_bases__"), given)
    namespace = _namespace(tx, space)
    cell = namespace.pop("__classcell__", None)
    hooks = [key for base in model(tx, resolved) for key in ("__init_subclass__",) if of_the_program(lookup(base, key))]
    hooks += [key for key, value in namespace.items() if of_the_program(lookup(value.python_type(), "__set_name__"))]
    if issubclass(meta, enum.EnumMeta):
        hooks += [*own, *(key for key in _RUN_BY_ENUMS if key in namespace)]
        if not isinstance(space, EnumBody):
            hooks.append(body.code.co_name)
        named = {key: value for key, value in namespace.items() if not key.startswith("__")}
        hooks += [key for key, value in named.items() if not _suits_enum(value)]
    if hooks:
        raise GraphBreak("class of a library's metaclass with hooks", ", ".join(hooks))
    settled = tx.new_dict([(ConstantVariable(key), value) for key, value in namespace.items()])
    named_args = tx.new_dict([(ConstantVariable(key), value) for key, value in keywords.items()])
    made = make(tx, library_class, [tx.class_variable(meta), name, resolved, settled, named_args], {})
    if isinstance(cell, CellVariable):
        cell.store(tx, made)
    return made


class EnumBody(DictVariable):
    """The namespace that the body of an enum is run in; `numbered` is what the library makes, which numbers `auto`
    and refuses what is there already."""

    def __init__(self, numbered: Any) -> None:
        super().__init__({})
        self.numbered = numbered

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        name, value = index.constant(), value.realize(tx)
        if name in _RUN_BY_ENUMS or not (name.startswith("__") or _suits_enum(value)):
            raise GraphBreak("class of a library's metaclass with hooks", name)
        tx.attempt(self.numbered.__setitem__, name, model(tx, value))
        stored = dict.get(self.numbered, name, MISSING)
        is_numbered = isinstance(value, MadeVariable) and isinstance(value.value, enum.auto)
        super().setitem(tx, index, tx.from_constant(stored) if is_numbered else value)


def functional_enum(cls: Any, names: Any, kwargs: dict[str, Any]) -> type:
    """`cls(*names, **kwargs)`, where `cls` has no members and makes an enum."""
    made: type = cls(*names, **kwargs)
    return made


def enum_of_names(tx: Translator, cls: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`enum.Enum("Color", "RED GREEN")`, as the library alone makes it of constants, in the module of the caller."""
    base = model(tx, cls)
    own = [key for key in (*_RUN_BY_ENUMS, "_missing_", "__prepare__") if of_the_program(lookup(base, key))]
    if own or type(base) is not enum.EnumMeta or len(args) != 2 or "type" in kwargs:
        raise GraphBreak("construction not supported", cls.describe())
    if "module" not in kwargs:
        kwargs = {**kwargs, "module": _module_of_caller(tx, cls)}
    settled = tx.new_tuple([_settled(tx, arg) for arg in args])
    pairs: list[tuple[Variable, Variable]] = [(ConstantVariable(key), value) for key, value in kwargs.items()]
    return make(tx, functional_enum, [cls, settled, tx.new_dict(pairs)], {})


def _name_of_globals(tx: Translator) -> Variable | None:
    """None if they have none, as those of text that is run by itself."""
    namespace = tx.frames[-1].namespace
    assert isinstance(namespace, Names)
    return namespace.find(tx, "__name__")


def _module_of_caller(tx: Translator, made: Variable) -> Variable:
    module = _name_of_globals(tx)
    if module is None:
        raise GraphBreak("construction not supported", f"{made.describe()} in globals without a name")
    return module


def _settled(tx: Translator, names: Variable) -> Variable:
    """Names and values as they are now."""
    found = known(tx, names)
    if found is MISSING:
        raise GraphBreak("construction not supported", f"enum of {names.describe()}")
    return from_python(tx, found)


def _models(tx: Translator, values: dict[str, Variable]) -> dict[str, Any]:
    return {name: model(tx, value) for name, value in values.items()}


def _lists_names(code: CodeType) -> bool:
    """Whether a class body could tell what its namespace is."""
    return any(inst.op == "LOAD_NAME" and inst.argval in ("vars", "locals", "dir") for inst in decode(code).insts)


def _suits_enum(value: Variable) -> bool:
    return value.is_constant() or isinstance(value, (ClosureFunction, MadeVariable))


# --- other ways -------------------------------------------------------------------------------------------------------
@handles(type)
def _type(tx: Translator, value: Variable, /, *bases_and_namespace: Variable, **keywords: Variable) -> Variable:
    if not bases_and_namespace and not keywords:
        return tx.class_of(value)
    if len(bases_and_namespace) != 2:
        misused(tx, type, [value, *bases_and_namespace], keywords)
    parents = model(tx, bases_and_namespace[0])
    if not all(isinstance(parent, type) for parent in parents):
        raise GraphBreak("class made of arguments that are none", value.describe())
    winner = tx.attempt(types._calculate_meta, type, parents)  # type: ignore[attr-defined]
    given = [value, *bases_and_namespace]
    if winner is type:
        return new_class(tx, type, given, keywords)
    if lookup(type(winner), "__call__") is not type.__call__:  # which is not asked
        raise GraphBreak("metaclass of a base in place of the one called", winner.__qualname__)
    bases = zip(tx.unpack(bases_and_namespace[0]), parents, strict=True)
    return tx.call(next(tx.class_of(base) for base, parent in bases if type(parent) is winner), given, keywords)


NATIVE_CONSTRUCTORS[type] = HANDLERS.get(type)
MAKERS[enum.EnumMeta] = enum_of_names


def _maker(function: Callable[..., Any]) -> None:
    @handles(function)
    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        _check_unasked((*args, *kwargs.values()), ["__getattr__", "__getattribute__"])
        _check_flags(value for name, value in kwargs.items() if name in _FLAGS_OF_FIELDS)
        return make(tx, function, list(args), kwargs)


def _check_unasked(given: Iterable[Variable], names: Iterable[str]) -> None:
    """What Python's own code asks the program's objects while it makes something is asked when the program runs."""
    for each in given:
        if has_own(each, names):
            raise GraphBreak("argument of an operation not supported", each.describe())


def _check_flags(given: Iterable[Variable]) -> None:
    """Python's own code asks these whether they are true, of which a stand-in may not answer as they do."""
    for each in given:
        if not each.is_constant():
            raise GraphBreak("argument of an operation not supported", each.describe())


#: Of `dataclasses.field`, by name only.
_FLAGS_OF_FIELDS = frozenset(("init", "repr", "hash", "compare", "kw_only"))

for _kind in (
    property, staticmethod, classmethod, functools.cached_property, enum.auto, dataclasses.field, dataclasses.InitVar,
):  # fmt: skip
    _maker(_kind)
    if isinstance(_kind, type):
        NATIVE_CONSTRUCTORS[_kind] = HANDLERS.get(_kind)


@handles(collections.namedtuple)
def _namedtuple(
    tx: Translator, typename: Variable, field_names: Variable, *, rename: Variable = NONE, defaults: Variable = NONE,
    module: Variable = NONE,
) -> Variable:  # fmt: skip
    _check_unasked([typename, field_names], ["__str__", "__repr__", "__iter__", "__getitem__"])
    _check_flags([rename])
    if module is NONE:  # that of the caller
        module = _name_of_globals(tx) or ConstantVariable("__main__")
    named = {"rename": rename, "defaults": defaults, "module": module}
    given = {name: value for name, value in named.items() if value is not NONE}
    return make(tx, collections.namedtuple, [typename, field_names], given)


def _decorator(function: Callable[..., Any]) -> None:
    @handles(function)
    def handler(tx: Translator, cls: Variable = NONE, /, **kwargs: Variable) -> Variable:
        if cls is NONE:
            return PartialVariable(library(tx, function), [], kwargs)
        if not isinstance(cls, BornClass):
            raise GraphBreak("class changed while running", cls.describe())
        _check_flags(kwargs.values())
        makes_another = function is dataclasses.dataclass and "slots" in kwargs and tx.truth(kwargs["slots"])
        return _made_of_class(tx, cls, function, kwargs) if makes_another else do(tx, cls, function, kwargs)


def _made_of_class(
    tx: Translator, cls: BornClass, function: Callable[..., Any], kwargs: dict[str, Variable]
) -> Variable:
    """What a decorator answers with that changes the class and then makes another, with what the first one has."""
    if tx.ledger.stores(cls):
        raise GraphBreak("class changed before its decorator", cls.describe())
    hooks = [lookup(type(cls.value), name) for name in ("__new__", "__init__", "__call__", "__setattr__")]
    hooks += [lookup(base, "__init_subclass__") for base in cls.value.__bases__]
    hooks += [lookup(type(value), "__set_name__") for value in namespace_of(cls.value).values()
              if not isinstance(value, dataclasses.Field)]  # those are gone by then
    if any(map(of_the_program, hooks)) or not issubclass(abc.ABCMeta, type(cls.value)):
        raise GraphBreak("decorator that makes another class", cls.describe())
    made = make(tx, function, [cls], kwargs)
    cls.changed(tx)
    return made


for _function in (dataclasses.dataclass, functools.total_ordering, enum.unique, typing.final, typing.runtime_checkable):
    _decorator(_function)


@handles(abc._abc_instancecheck)  # type: ignore[attr-defined]
def _abc_instancecheck(tx: Translator, cls: Variable, value: Variable, /) -> Variable:
    kind = value.python_type()
    if lookup(kind, "__class__") is not object.__dict__["__class__"]:
        raise GraphBreak("class not known", f"what {value.describe()} says that it is")
    answer = tx.attempt(_ASKED_BY_ABC, kind, cls.constant())
    know_registered(tx, kind, cls.constant(), answer)
    return ConstantVariable(answer)


class _Derives:
    """an abstract class counts another among its own, or not"""

    def __init__(self, kind: type, answer: bool) -> None:
        self.kind = kind
        self.answer = answer
        self.__doc__ = f"{'' if answer else 'not '}a base of {kind.__qualname__}"

    def __call__(self, cls: type) -> bool:
        return _ASKED_BY_ABC(self.kind, cls) is self.answer


def know_registered(tx: Translator, kind: type, cls: Any, answer: bool) -> None:
    """Guards what an existing abstract class says of one that does not inherit from it, but may be registered.
    (Libraries register their classes with one another when they are imported.)"""
    if not isinstance(cls, abc.ABCMeta) or lookup(type(cls), "__subclasscheck__") is not abc.ABCMeta.__subclasscheck__:
        return
    born = id(kind) in tx.ledger.classes or id(cls) in tx.ledger.classes
    if cls in kind.__mro__ or born or (is_library_s(kind) and is_library_s(cls)) or (kind, cls) in tx.derived:
        return
    tx.derived.add((kind, cls))
    tx.know(tx.sources.const(cls, cls.__qualname__), "predicate", _Derives(kind, answer))


def _registered(cls: type, derived: type) -> None:
    """`cls.register(derived)`"""
    _ABC_REGISTER(cls, derived)


_ABC_REGISTER: Any = abc._abc_register  # type: ignore[attr-defined]


@handles(_ABC_REGISTER)
def _abc_register(tx: Translator, cls: Variable, derived: Variable, /) -> Variable:
    """With a class of the frame, that asks no hook of the program's whether it is one already."""
    known = model(tx, derived)
    classes = [cls.value, *cls.value.__subclasses__()] if isinstance(cls, BornClass) else []
    hooks = [lookup(each, "__subclasshook__") for each in classes]
    if not classes or any(map(of_the_program, hooks)) or not isinstance(known, type):
        raise GraphBreak(LOOKS_UP, f"__subclasshook__ of {cls.describe()}")
    assert isinstance(cls, BornClass)
    do(tx, cls, _registered, {"derived": derived})
    return derived


@handles(abc._abc_subclasscheck)  # type: ignore[attr-defined]
def _asks_hooks(tx: Translator, cls: Variable, derived: Variable, /) -> Variable:
    raise GraphBreak(LOOKS_UP, f"__subclasshook__ of {cls.describe()}")


@handles(_ABC_INIT)
def _abc_init(tx: Translator, cls: Variable, /) -> Variable:
    if not isinstance(cls, BornClass):
        raise GraphBreak("class changed while running", cls.describe())
    models = {id(found) for found in tx.models.values()}  # which do not have all that they stand for has
    for name, value in namespace_of(cls.value).items():
        answers = [lookup(type(value), hook) for hook in ("__isabstractmethod__", "__getattr__", "__getattribute__")]
        asked = [getattr(hook, "fget", hook) for hook in answers]
        if any(map(of_the_program, asked)) or (id(value) in models and isinstance(asked[0], FunctionType)):
            raise GraphBreak("attribute of a class that says whether it is abstract", f"{cls.describe()}.{name}")
    return do(tx, cls, _ABC_INIT, {})


def _initialised(tx: Translator, owner: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    return NONE


def _prepared(tx: Translator, owner: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    return tx.new_dict([])


@class_method(type, "__prepare__")
def _prepare(tx: Translator, fn: Any, *args: Variable, **kwargs: Variable) -> Variable:
    return tx.new_dict([])


NATIVE_METHODS.update(
    {
        type.__init__: _initialised,
        type.__dict__["__prepare__"]: _prepared,
        type.__setattr__: OBJECT_METHODS["__setattr__"],
        type.__delattr__: OBJECT_METHODS["__delattr__"],
    }
)
