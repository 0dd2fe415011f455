"""Classes born in the frame, and descriptors and the like that are made for them: by a recipe that is run twice.

While tracing it is run on models: real objects that stand for variables (`model`), so that Python itself says what the
class inherits, has and refuses. The residual code runs it again, on the values. What a model holds is known to the
translator as the variable that it stands for; all else that is found in it is a part of what will be born (a source of
kind "born").
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import operator
import types
from collections.abc import Callable
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from sideeffects.effects import DELETED
from symbolic.errors import GraphBreak
from symbolic.passing import namespace_of
from symbolic.variables.base import MISSING, ExistingVariable, FixedVariable, Variable, lookup
from symbolic.variables.classes import ANNOTATIONS, ClassVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.functions import (
    BoundMethod,
    CellVariable,
    ClosureFunction,
    FunctionGet,
    PartialVariable,
)
from symbolic.variables.mappings import DictVariable, SetVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.native import stand_in
from symbolic.variables.objects import ObjectMethod, ObjectVariable
from symbolic.variables.properties import PropertyVariable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Attributes of a class that change what it is.
_STRUCTURE = frozenset(("__bases__", "__class__", "__dict__", "__mro__", "__slots__", "__abstractmethods__"))


_PREPARE = type.__dict__["__prepare__"]


class Recipe:
    """`function(*args, **kwargs)`, and what is done to the result afterwards: each `step(result, **kwargs)`."""

    def __init__(self, function: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.steps: list[tuple[Callable[..., Any], dict[str, Variable]]] = []

    def parts(self) -> list[Variable]:
        of_steps = [value for _, kwargs in self.steps for value in kwargs.values()]
        return [*self.args, *self.kwargs.values(), *of_steps]


def set_module(cls: type, module: str) -> None:
    cls.__module__ = module


class BornClass(ClassVariable):
    """A class born in the frame; `value` is its model."""

    def __init__(self, value: type, recipe: Recipe) -> None:
        super().__init__(value)
        self.recipe = recipe

    def python_type(self) -> type:
        return type(self.value)

    def real(self) -> Any:
        return MISSING

    def is_same(self, tx: Translator, other: Variable) -> bool:
        return self is other

    def getattr(self, tx: Translator, name: str) -> Variable:
        asks = name == "__annotations__" and lookup(type(self.value), name) is ANNOTATIONS
        if asks and name not in namespace_of(self.value):
            self.plain_setattr(tx, name, tx.new_dict([]))  # what asks for them makes them
        if name == "__prepare__" and (raw := lookup(self.value, name)) is _PREPARE:
            return ObjectMethod(self, name, raw)
        return self.found(tx, name)  # stores have changed the model

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        """`type.__setattr__(cls, name, value)`"""
        if name in _STRUCTURE:
            raise GraphBreak("store to a class attribute", f"{self.value.__qualname__}.{name}")
        if name == "__module__" and tx.frames[-1].namespace.real() is vars(dataclasses) and not tx.ledger.stores(self):
            do(tx, self, set_module, {"module": value})  # `make_dataclass` is not done yet
            return
        before = lookup(self.value, name)
        tx.attempt(type.__setattr__, self.value, name, model(tx, value))
        self.changed(tx)
        self.put(tx, name, value, before)

    def plain_delattr(self, tx: Translator, name: str) -> None:
        if name in _STRUCTURE:
            raise GraphBreak("deletion of a class attribute", f"{self.value.__qualname__}.{name}")
        before = lookup(self.value, name)
        tx.attempt(type.__delattr__, self.value, name)
        self.changed(tx)
        self.put(tx, name, DELETED, before)

    def changed(self, tx: Translator) -> None:
        if (shown := self.shown(tx)) is not None:
            shown.read_again()  # type: ignore[attr-defined]

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op is operator.or_:
            return make(tx, op, [self, other], {})
        return super().binary(tx, op, other)

    def reachable(self) -> list[Variable]:
        return self.recipe.parts()


class MadeVariable(ExistingVariable):
    """What a recipe makes that is no class; `value` is the model."""

    def __init__(self, value: Any, recipe: Recipe) -> None:
        super().__init__(value)
        self.recipe = recipe

    def real(self) -> Any:
        return MISSING

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in _MAKERS.get(type(self.value), ()):
            return NativeMethod(self, name)
        value = tx.attempt(getattr, self.value, name)
        if type(value) in (dict, list):  # the model's is not what the program has of the function behind it
            raise GraphBreak("attribute of an object made in the frame", f"{self.describe()}.{name}")
        return tx.wrap(value, tx.source_of(self).attr(name))

    def key(self) -> Any:
        if lookup(type(self.value), "__hash__") is not object.__hash__:
            raise GraphBreak("key with its own hash", self.describe())
        return super().key()

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._operator(tx, op, self, other)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._operator(tx, op, other, self)

    def _operator(self, tx: Translator, op: Any, one: Variable, other: Variable) -> Variable | None:
        """By the models, where nothing in them stands for something that may be equal to something else."""
        if op in (operator.eq, operator.ne) and lookup(type(self.value), "__eq__") is object.__eq__:
            return None
        if op not in (operator.eq, operator.ne, operator.or_) or not (_equals_its_own(one) and _equals_its_own(other)):
            raise GraphBreak("operator of an object made in the frame", self.describe())
        if op is operator.or_:
            return make(tx, op, [one, other], {})
        return tx.from_constant(tx.attempt(op, model(tx, one), model(tx, other)))

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name in _MAKERS.get(type(self.value), ()):
            return make(tx, getattr(type(self.value), name), [self, *args], kwargs)
        return super().method(tx, name, args, kwargs)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if isinstance(self.value, staticmethod):
            return tx.call(self.getattr(tx, "__func__"), args, kwargs)
        if isinstance(lookup(type(self.value), "__call__"), FunctionType) and type(self.value).__module__ == "typing":
            return tx.call(tx.class_attribute(type(self.value), "__call__"), [self, *args], kwargs)
        return super().call(tx, args, kwargs)

    def reachable(self) -> list[Variable]:
        return self.recipe.parts()


#: type of a made thing -> methods of it that make another of the kind
_MAKERS: dict[type, tuple[str, ...]] = {property: ("getter", "setter", "deleter")}


def _equals_its_own(variable: Variable) -> bool:
    """Whether the model is equal to the models of what the variable is equal to, and to no others."""
    if isinstance(variable, MadeVariable):
        return all(_equals_its_own(part) for part in variable.recipe.parts())
    if isinstance(variable, TupleVariable):
        return all(_equals_its_own(part) for part in variable.items)
    if isinstance(variable, ClassVariable):
        return lookup(type(variable.value), "__eq__") is object.__eq__
    return variable.is_constant() or type(variable.real()).__module__ in ("types", "typing")


def make(tx: Translator, function: Callable[..., Any], args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`function(*args, **kwargs)`, which runs none of the user's code and makes one new thing of its arguments."""
    recipe = Recipe(function, args, kwargs)
    values = [model(tx, arg) for arg in args]
    value = tx.attempt(function, *values, **{name: model(tx, arg) for name, arg in kwargs.items()})
    known = tx.known.get(id(value))  # aliases of typing are made once, and a union of one is that
    given = [part for arg in args for part in (arg.items if isinstance(arg, TupleVariable) else [arg])]
    return known if isinstance(known, MadeVariable) or known in given else _born(tx, value, recipe)


def _born(tx: Translator, value: Any, recipe: Recipe) -> Variable:
    if isinstance(value, type):
        made: Variable = BornClass(value, recipe)
        tx.ledger.classes[id(value)] = made
    else:
        made = MadeVariable(value, recipe)
    _stands_for(tx, value, made)
    return made


def do(tx: Translator, cls: BornClass, step: Callable[..., Any], kwargs: dict[str, Variable]) -> Variable:
    """`step(cls, **kwargs)`, which runs none of the user's code, changes the class alone and answers with it (or with
    nothing)."""
    if tx.ledger.stores(cls):
        raise GraphBreak("class changed before its decorator", cls.describe())
    answer = tx.attempt(step, cls.value, **{name: model(tx, arg) for name, arg in kwargs.items()})
    cls.changed(tx)
    if answer is not cls.value and answer is not None:
        raise GraphBreak("decorator that makes another class", cls.describe())
    cls.recipe.steps.append((step, kwargs))
    return cls if answer is not None else tx.from_constant(None)


# --- models -----------------------------------------------------------------------------------------------------------
def _stands_for(tx: Translator, value: Any, variable: Variable) -> None:
    tx.known[id(value)] = variable
    tx.keepalive.append(value)


def model(tx: Translator, variable: Variable) -> Any:
    """What stands for a variable where Python's own code makes a class: the value itself, if that is known."""
    variable = variable.realize(tx)
    if isinstance(variable, (BornClass, MadeVariable)):
        return variable.value
    if variable.is_constant():
        return variable.constant()
    if variable.real() is not MISSING:
        return variable.real()
    found = tx.models.get(variable, MISSING)
    if found is MISSING:
        make_model = MODELS.get(type(variable))
        found = stand_in(variable) if make_model is None else make_model(tx, variable)
        tx.models[variable] = found
        _stands_for(tx, found, variable)
    return found


def holds_model(tx: Translator, value: Any) -> bool:
    """Whether an object that tracing came by holds what stands for something else: the program must not get it."""
    models = {id(found) for variable, found in tx.models.items() if type(variable) is not TupleVariable}
    if not models and not tx.ledger.classes:
        return False
    return holds(value, lambda it: id(it) in models or isinstance(tx.known.get(id(it)), (BornClass, MadeVariable)))


def holds(value: Any, is_meant: Callable[[Any], bool]) -> bool:
    """Whether there is such an object among what a value is made of, some steps deep."""
    layer = [value]
    for _ in range(_DEPTH):
        parts = gc.get_referents(*layer)
        if any(map(is_meant, parts)):
            return True
        layer = [part for part in parts if not isinstance(part, _APART)]
    return False


def varies(variable: Variable) -> bool:
    """Whether another call may have another object there, though all that is known of it is the same."""
    if variable.is_constant() or isinstance(variable, FixedVariable):
        return False
    if isinstance(variable, TupleVariable):
        return any(varies(item) for item in variable.items)
    if isinstance(variable, MadeVariable):
        return True
    return variable.source is not None and variable.source.root.kind != "const"


#: How deep `holds` looks, and what it does not look into.
_DEPTH = 3
_APART = (type, types.ModuleType, FunctionType, types.CodeType)


def _function(tx: Translator, variable: ClosureFunction) -> FunctionType:
    code = variable.code
    defaults = model(tx, variable.defaults) if variable.defaults is not None else None
    closure = tuple(CellType() for _ in code.co_freevars)
    names = variable.globals.real() if variable.globals.exists else {"__name__": variable.globals.module()}
    made = FunctionType(code, names, code.co_name, defaults, closure)
    made.__qualname__ = variable.qualname
    made.__kwdefaults__ = model(tx, variable.kwdefaults) if variable.kwdefaults is not None else None
    for name, value in tx.ledger.stores(variable).items():
        if value is not DELETED:
            setattr(made, name, model(tx, value))
    return made


def _object(tx: Translator, variable: ObjectVariable) -> Any:
    for base in variable.cls.__mro__:
        new = namespace_of(base).get("__new__")
        if isinstance(new, types.BuiltinFunctionType):
            return new(variable.cls, *(model(tx, arg) for arg in variable.new_args))
    raise GraphBreak("object without a native __new__", variable.describe())


def _items(tx: Translator, variable: Any) -> Any:
    return variable.python_type()([model(tx, item) for item in tx.unpack(variable)])


def _property(tx: Translator, variable: PropertyVariable) -> Any:
    raise GraphBreak("descriptor not supported", variable.describe())


MODELS: dict[type, Callable[[Any, Any], Any]] = {
    ClosureFunction: _function,
    ObjectVariable: _object,
    PropertyVariable: _property,
    DictVariable: lambda tx, v: {model(tx, key): model(tx, value) for key, value in v.pairs(tx)},
    **dict.fromkeys((ListVariable, SetVariable, TupleVariable), _items),
    CellVariable: lambda tx, v: CellType(),
    PartialVariable: lambda tx, v: functools.partial(
        model(tx, v.function), *(model(tx, arg) for arg in v.args), **{k: model(tx, arg) for k, arg in v.kwargs.items()}
    ),
    BoundMethod: lambda tx, v: MethodType(model(tx, v.function), model(tx, v.owner)),
    FunctionGet: lambda tx, v: model(tx, v.function).__get__,
    TensorVariable: lambda tx, v: v.fake,
}
