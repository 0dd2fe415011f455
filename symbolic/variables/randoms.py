"""Generators of random numbers that the frame makes, sets, reads and draws from beside the graph.

Python's and numpy's generators, and those of torch that are not the default ones, have nothing to do with the graph:
the residual code calls them before it, in eager code's order (see `drawn`). Torch's default one is drawn from by the
graph, too: its state is set and read before the graph as long as this has drawn nothing, and then by the graph itself.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic import random_states
from symbolic.errors import GraphBreak
from symbolic.signatures import takes
from symbolic.variables.base import MISSING, Variable, lookup
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.drawn import early, example_of, form_of, numpy
from symbolic.variables.methods import native_method
from symbolic.variables.objects import DESCRIPTORS, NATIVE_DESCRIPTORS, NATIVE_METHODS, ObjectVariable
from symbolic.variables.outside import Answer
from symbolic.variables.tables import HANDLERS, Args, Kwargs, handles, library
from symbolic.variables.tensors import DrawnTensor, TensorVariable
from symbolic.variables.torch_functions import HANDLERS as TORCH_HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
_OF_PYTHON = """random uniform gauss normalvariate lognormvariate expovariate gammavariate betavariate paretovariate
    weibullvariate vonmisesvariate triangular randint randrange getrandbits randbytes choice choices sample
    binomialvariate"""
_OF_NUMPY = """beta binomial bytes chisquare choice exponential f gamma geometric gumbel hypergeometric laplace logistic
    lognormal logseries multinomial multivariate_normal negative_binomial normal pareto permutation poisson power rand
    randint randn random random_integers random_sample rayleigh standard_cauchy standard_exponential standard_gamma
    standard_normal standard_t tomaxint triangular uniform vonmises wald weibull zipf integers permuted"""


@dataclass(frozen=True)
class Kind:
    """A kind of generators: one to try a call on, the methods that draw, those that read or set the state, and whether
    one that existed is drawn from by nobody else."""

    example: Callable[[], Any]
    draws: frozenset[str]
    answers: dict[str, type]  # what a state is, by the method that gives it
    sets: frozenset[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS: dict[type, Kind] = {
    random.Random: Kind(
        lambda: random.Random(0), _words(_OF_PYTHON), {"getstate": tuple},
        _words("seed setstate"),
    ),
    torch.Generator: Kind(
        torch.Generator, _words("seed initial_seed"), {"get_state": torch.Tensor}, _words("manual_seed set_state")
    ),
}  # fmt: skip
if numpy is not None:
    KINDS[numpy.random.RandomState] = Kind(
        lambda: numpy.random.RandomState(0), _words(_OF_NUMPY), {"get_state": tuple}, _words("seed set_state")
    )
    KINDS[numpy.random.Generator] = Kind(lambda: numpy.random.default_rng(0), _words(_OF_NUMPY), {}, frozenset())


class BornGenerator(Variable):
    """A generator made in the frame, before the graph."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def getattr(self, tx: Translator, name: str) -> Variable:
        return native_method(tx, self, name)

    def method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "shuffle" and takes(_shuffle, tx, self, *args, **kwargs):
            return _shuffle(tx, self, *args, **kwargs)
        return _on(tx, self, name, args, kwargs)


def _kind(tx: Translator, owner: Variable) -> Kind:
    """The kind of a generator, which from now on is drawn from by calls before the graph."""
    cls = owner.python_type()
    if cls not in KINDS or tx.graph.inner:
        raise GraphBreak("random numbers of Python", owner.describe())
    if isinstance(owner, ObjectVariable) and owner.value is not MISSING:
        if cls is torch.Generator:  # the graph draws from the default ones
            tx.know(owner.source, "predicate", is_apart)
            if not is_apart(owner.value):
                raise GraphBreak("random state set", "default generator")
        if cls is random.Random:
            tx.know(owner.source, "predicate", has_no_own)
            if not has_no_own(owner.value) or tx.ledger.stores(owner):
                raise GraphBreak("random numbers of Python", "a generator with attributes")
        tx.drawn_from.setdefault(owner.value, owner)
    elif not isinstance(owner, BornGenerator):
        raise GraphBreak("random numbers of Python", owner.describe())
    if any(tx.lookup(cls, name) is not function for name, function in _DRAWS.items() if cls is random.Random):
        raise GraphBreak("random numbers of Python", "a generator that draws otherwise")
    return KINDS[cls]


#: What all methods of Python's generators draw by.
_DRAWS = {name: lookup(random.Random, name) for name in ("random", "getrandbits", "_randbelow")}


def has_no_own(generator: random.Random) -> bool:
    """draws as its class does"""
    return vars(generator).keys() <= {"gauss_next"}


def is_apart(generator: torch.Generator) -> bool:
    """not torch's default generator"""
    return generator.device.type == "cpu" and generator is not torch.default_generator


def _on(tx: Translator, owner: Variable, name: str, args: Args, kwargs: Kwargs) -> Variable:
    """`owner.name(*args, **kwargs)`"""
    if name in _ON_DEFAULT and _is_default(tx, owner) and takes(_ON_DEFAULT[name], tx, *args, **kwargs):
        return _ON_DEFAULT[name](tx, *args, **kwargs)
    kind, cls = _kind(tx, owner), owner.python_type()
    function = getattr(cls, name)
    if name in kind.answers and not args and not kwargs:
        state = Answer(kind.answers[name])
        tx.ledger.early(state, library(tx, function), owner)
        return state
    if name in kind.sets and len(args) == 1 and not kwargs:
        plain = args[0].is_constant() and type(args[0].constant()) in (int, float, str, bytes)
        if not plain and not (isinstance(args[0], Answer) and args[0].kind in kind.answers.values()):
            raise GraphBreak("random state set", f"{name} of {args[0].describe()}")
        if plain:
            _tried(getattr(kind.example(), name), args[0].constant())
        tx.ledger.early(None, library(tx, function), owner, args[0])
        return owner if cls is torch.Generator else NONE
    if name not in kind.draws:
        raise GraphBreak("random numbers of Python", name)
    values, fixed = _fixed(tx, args)
    named = dict(zip(kwargs, _fixed(tx, list(kwargs.values()))[0], strict=True))
    _check_alike(name, *values[:1], *(named[key] for key in ("seq", "population", "a", "x") if key in named))
    example = _example(tx, getattr(kind.example(), name), args, kwargs)
    return early(tx, example, name, function, [owner, *fixed], kwargs)


def _check_alike(name: str, *chosen_from: Any) -> None:
    """What is drawn must be of one form, whichever it is."""
    for values in chosen_from:
        forms = [form_of(each) for each in values] if isinstance(values, (list, tuple)) else []
        if any(form != forms[0] for form in forms):
            raise GraphBreak("random choice among objects", f"{name} of values of several types or lengths")


def _fixed(tx: Translator, args: Args) -> tuple[list[Any], Args]:
    """Arguments for an example, and as they are now: lists may change before they are made."""
    values = [example_of(tx, arg) for arg in args]
    if any(value is MISSING for value in values) or any(isinstance(v, (dict, set, frozenset)) for v in values):
        raise GraphBreak("random choice among objects", ", ".join(arg.describe() for arg in args))
    now = [tx.new_tuple(tx.unpack(a)) if isinstance(v, list) else a for v, a in zip(values, args, strict=True)]
    return values, now


def _tried(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """The answer on an example; what it refuses, the program's own generator refuses in eager code."""
    try:
        return function(*values, **named)
    except Exception as error:
        raise GraphBreak("random numbers of Python", f"{function} raises {error!r}") from error


def _example(tx: Translator, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    """What a call gives, whatever the numbers are that were drawn before: breaks where these decide how much it is."""
    found = []
    for more in (0, 1):
        values = [example_of(tx, arg, more) for arg in args]
        found.append(_tried(function, *values, **{name: example_of(tx, arg, more) for name, arg in kwargs.items()}))
    if form_of(found[0]) != form_of(found[1]):
        raise GraphBreak("length of what is drawn was drawn", f"{function}")
    return found[0]


# --- methods ----------------------------------------------------------------------------------------------------------
def _unbound(name: str) -> Callable[..., Variable]:
    return lambda tx, args, kwargs: _on(tx, args[0], name, args[1:], kwargs)


def _bound(name: str) -> Callable[..., Variable]:
    return lambda tx, owner, *args, **kwargs: _on(tx, owner, name, list(args), kwargs)


def _of_module(owner: Any, name: str) -> Callable[..., Variable]:
    return lambda tx, args, kwargs: _on(tx, tx.from_constant(owner), name, args, kwargs)


for _cls, _row in KINDS.items():
    for _name in (*_row.draws, *_row.answers, *_row.sets):
        _raw = getattr(_cls, _name, None)
        if _raw is None:
            continue
        if isinstance(_raw, NATIVE_DESCRIPTORS):
            NATIVE_METHODS[_raw] = _bound(_name)
        else:
            HANDLERS[_raw] = _unbound(_name)
            if not isinstance(_raw, FunctionType):
                DESCRIPTORS[type(_raw)] = DESCRIPTORS[FunctionType]
for _name in ("random", "getrandbits"):
    HANDLERS[getattr(random, _name)] = _of_module(random._inst, _name)


def shuffled(generator: Any, items: tuple[Any, ...]) -> list[Any]:
    """The items, shuffled."""
    found = list(items)
    generator.shuffle(found)
    return found


def _shuffle(tx: Translator, owner: Variable, items: Variable) -> Variable:
    kind = _kind(tx, owner)
    if items.python_type() is not list:
        raise GraphBreak("random choice among objects", items.describe())
    values, fixed = _fixed(tx, [items])
    _check_alike("shuffle", values[0])
    made = early(tx, shuffled(kind.example(), values[0]), "shuffle", shuffled, [owner, *fixed], {})
    items.setitem(tx, ConstantVariable(slice(None)), made)
    return NONE


handles(random.Random.shuffle)(_shuffle)


# --- generators made in the frame -------------------------------------------------------------------------------------
def _makes(function: Any, cls: type, table: dict[Any, Any] | None = None) -> None:
    def handler(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        values, fixed = _fixed(tx, args)
        named = dict(zip(kwargs, _fixed(tx, list(kwargs.values()))[0], strict=True))
        if tx.graph.inner or type(_tried(function, *values, **named)) is not cls:
            raise GraphBreak("random numbers of Python", cls.__qualname__)
        made = BornGenerator(cls)
        tx.ledger.early(made, library(tx, function), *fixed, **kwargs)
        return made

    HANDLERS[function] = handler
    if isinstance(function, type):
        NATIVE_CONSTRUCTORS[function] = handler


_makes(random.Random, random.Random)
_makes(torch.Generator, torch.Generator)
if numpy is not None:
    _makes(numpy.random.default_rng, numpy.random.Generator)
    _makes(numpy.random.RandomState, numpy.random.RandomState)
    _global = numpy.random.mtrand._rand
    HANDLERS[numpy.random.seed] = _of_module(_global, "seed")
    handles(numpy.random.RandomState.shuffle, numpy.random.Generator.shuffle)(_shuffle)

#: Functions of torch that need nothing but a generator to draw from.
FACTORIES = frozenset({torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal})


def _of_factory(function: Any) -> Callable[..., Variable]:
    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        owner = kwargs.get("generator", NONE)
        if owner.python_type() is not torch.Generator:
            return tx.graph.call(function, list(args), kwargs)
        given = {name: value for name, value in kwargs.items() if name != "generator"}
        if _is_default(tx, owner):
            return tx.graph.call(function, list(args), given)
        _kind(tx, owner)
        _, fixed = _fixed(tx, list(args))
        example = _example(tx, functools.partial(function, generator=torch.Generator()), list(args), given)
        return early(tx, example, function.__name__, function, fixed, kwargs)

    return handler


TORCH_HANDLERS.update({function: _of_factory(function) for function in FACTORIES})


# --- torch's default one ----------------------------------------------------------------------------------------------
def is_default(generator: torch.Generator) -> bool:
    """torch's default generator"""
    return generator is torch.default_generator


def _is_default(tx: Translator, owner: Variable) -> bool:
    if owner.real() is not torch.default_generator:
        return False
    tx.know(owner.source, "predicate", is_default)
    return True


def _on_torch(tx: Translator, function: Any, operation: Any, example: Any, *args: Variable) -> Variable:
    """`function(*args)`, which sets or reads the state of the default generators: before the graph as long as this has
    drawn nothing and the arguments are there, else by the `operation` of the graph that does the same."""
    if tx.graph.inner:
        raise GraphBreak("random state set", function.__name__)
    tx.drawn_from.setdefault(torch, library(tx, torch.get_rng_state))
    is_first = tx.graph.draws == 0 and not tx.graph.switches and not torch.is_inference_mode_enabled()
    if is_first and all(_is_there(tx, arg) for arg in args):
        return early(tx, example, function.__name__, function, [*args], {})
    return tx.graph.call(operation, [*args])


def _is_there(tx: Translator, variable: Variable) -> bool:
    """Whether it is known, or an early call gave it and nobody wrote to it since."""
    return variable.is_constant() or (isinstance(variable, DrawnTensor) and tx.graph.is_untouched(variable))


def _seed(tx: Translator, function: Any, operation: Any, seed: Variable) -> Variable:
    number = seed.constant()
    if type(number) is not int or not -(1 << 63) <= number < 1 << 64:
        raise GraphBreak("random state set", f"manual_seed({number!r})")
    same = ConstantVariable(number if number < 1 << 63 else number - (1 << 64))  # 64 bits either way
    _on_torch(tx, function, operation, None, same)
    return tx.wrap(torch.default_generator, tx.sources.const(torch.default_generator, "torch.default_generator"))


def _manual_seed(tx: Translator, seed: Variable) -> Variable:
    return _seed(tx, torch.manual_seed, random_states.seed_all, seed)


def _seed_default(tx: Translator, seed: Variable) -> Variable:
    return _seed(tx, torch.default_generator.manual_seed, random_states.seed_one, seed)


def _get_rng_state(tx: Translator) -> Variable:
    return _on_torch(tx, torch.get_rng_state, random_states.get_state, torch.get_rng_state())


def _set_rng_state(tx: Translator, new_state: Variable) -> Variable:
    fake = new_state.fake if isinstance(new_state, TensorVariable) else None
    state = torch.get_rng_state()
    if fake is None or (fake.dtype, fake.device, fake.shape) != (state.dtype, state.device, state.shape):
        raise GraphBreak("random state set", f"set_rng_state of {new_state.describe()}")
    return _on_torch(tx, torch.set_rng_state, random_states.set_state, None, new_state)


def _initial_seed(tx: Translator) -> Variable:
    if tx.graph.draws or tx.graph.inner:
        raise GraphBreak("random state read", "initial_seed after random operations")
    return early(tx, torch.initial_seed(), "initial_seed", torch.initial_seed, [], {})


TORCH_HANDLERS.update(
    {
        torch.manual_seed: _manual_seed, torch.get_rng_state: _get_rng_state, torch.set_rng_state: _set_rng_state,
        torch.initial_seed: _initial_seed,
    }
)  # fmt: skip


def _set_default(tx: Translator, state: Variable) -> Variable:
    _set_rng_state(tx, state)
    return tx.from_constant(torch.default_generator)


_ON_DEFAULT: dict[str, Callable[..., Variable]] = {
    "manual_seed": _seed_default, "get_state": _get_rng_state, "set_state": _set_default,
    "initial_seed": _initial_seed,
}  # fmt: skip
