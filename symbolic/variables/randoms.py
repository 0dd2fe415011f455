"""Generators of random numbers that the frame sets, reads and draws from beside the graph.

Python's generators have nothing to do with the graph: the residual code calls them before it, in eager code's order,
and a number that they give is an input of the graph. Torch's is drawn from by the graph, too: its state is set and read
before the graph as long as this has drawn nothing, and after it if it draws nothing any more.
"""

from __future__ import annotations

import functools
import random
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.objects import NATIVE_METHODS, ObjectVariable
from symbolic.variables.outside import Answer
from symbolic.variables.tables import HANDLERS, Args, Kwargs, handles, library
from symbolic.variables.torch_functions import HANDLERS as TORCH_HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
#: What methods of Python's generators give.
_GIVES = {
    **dict.fromkeys(
        """random uniform gauss normalvariate lognormvariate expovariate gammavariate betavariate paretovariate
        weibullvariate vonmisesvariate""".split(),
        float,
    ),
    **dict.fromkeys("randint randrange getrandbits".split(), int),
}


# --- Python's ---------------------------------------------------------------------------------------------------------
def _drawn(name: str, tx: Translator, owner: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """`owner.name(*args, **kwargs)`, a number."""
    generator = _generator(owner)
    values, named = [arg.constant() for arg in args], {key: arg.constant() for key, arg in kwargs.items()}
    try:
        answer = getattr(random.Random(0), name)(*values, **named)
    except Exception as error:
        raise GraphBreak("random numbers of Python", f"{name} raises {error!r}") from error
    if type(answer) is not _GIVES[name] or tx.graph.inner:
        raise GraphBreak("random numbers of Python", name)
    number = tx.graph.add_drawn(_GIVES[name], name)
    tx.ledger.early(number, library(tx, getattr(random.Random, name)), owner, *args, **kwargs)
    tx.drawn_from.setdefault(generator, owner)
    return number


def _generator(owner: Variable) -> random.Random:
    if not isinstance(owner, ObjectVariable) or owner.value is MISSING or owner.cls is not random.Random:
        raise GraphBreak("random numbers of Python", owner.describe())
    generator = owner.value
    assert isinstance(generator, random.Random)
    return generator


def _seed(tx: Translator, owner: Variable, a: Variable = NONE, version: Variable | None = None) -> Variable:
    generator = _generator(owner)
    if type(a.constant()) not in (int, float, str, bytes) or version is not None or tx.graph.inner:
        raise GraphBreak("random numbers of Python", "seed")
    tx.ledger.early(None, library(tx, random.Random.seed), owner, a)
    tx.drawn_from.setdefault(generator, owner)
    return NONE


def _get_state(tx: Translator, owner: Variable) -> Variable:
    generator = _generator(owner)
    if tx.graph.inner:
        raise GraphBreak("random numbers of Python", "getstate")
    state = Answer(tuple)
    tx.ledger.early(state, library(tx, random.Random.getstate), owner)
    tx.drawn_from.setdefault(generator, owner)
    return state


def _set_state(tx: Translator, owner: Variable, state: Variable) -> Variable:
    generator = _generator(owner)
    if not isinstance(state, Answer) or tx.graph.inner:
        raise GraphBreak("random numbers of Python", "setstate")
    tx.ledger.early(None, library(tx, random.Random.setstate), owner, state)
    tx.drawn_from.setdefault(generator, owner)
    return NONE


def _of_the_module(name: str, tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
    owner = getattr(random, name).__self__
    return tx.wrap(owner, tx.sources.const(owner, "random._inst")).method(tx, name, args, kwargs)


def _of_an_object(name: str, tx: Translator, owner: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    return _drawn(name, tx, owner, list(args), kwargs)


for _name in _GIVES:
    _raw = getattr(random.Random, _name)
    if isinstance(_raw, FunctionType):
        HANDLERS[_raw] = functools.partial(
            lambda name, tx, args, kwargs: _drawn(name, tx, args[0], args[1:], kwargs), _name
        )
    else:
        NATIVE_METHODS[_raw] = functools.partial(_of_an_object, _name)
        HANDLERS[getattr(random, _name)] = functools.partial(_of_the_module, _name)
handles(random.Random.seed)(_seed)
handles(random.Random.getstate)(_get_state)
handles(random.Random.setstate)(_set_state)


# --- torch's ----------------------------------------------------------------------------------------------------------
def _on_torch(tx: Translator, result: Answer | None, function: Any, *args: Variable) -> None:
    """A call that sets or reads the state of the default generators, in order with what the graph draws."""
    if tx.graph.inner:
        raise GraphBreak("random state set", function.__name__)
    called = library(tx, function)
    if tx.graph.draws == 0:
        tx.ledger.early(result, called, *args)
        tx.drawn_from.setdefault(torch, library(tx, torch.get_rng_state))
    else:
        tx.ledger.bear(result, called, *args)
        tx.graph.draw_no_more(GraphBreak("random state set", function.__name__))


def _manual_seed(tx: Translator, seed: Variable) -> Variable:
    number = seed.constant()
    if type(number) is not int or not -(1 << 63) <= number < 1 << 64:
        raise GraphBreak("random state set", f"manual_seed({number!r})")
    _on_torch(tx, None, torch.manual_seed, seed)
    return tx.wrap(torch.default_generator, tx.sources.const(torch.default_generator, "torch.default_generator"))


def _get_rng_state(tx: Translator) -> Variable:
    state = Answer(torch.Tensor)
    _on_torch(tx, state, torch.get_rng_state)
    return state


def _set_rng_state(tx: Translator, new_state: Variable) -> Variable:
    if not isinstance(new_state, Answer):  # a tensor may have been written to, or be of another kind
        raise GraphBreak("random state set", "set_rng_state")
    _on_torch(tx, None, torch.set_rng_state, new_state)
    return NONE


TORCH_HANDLERS.update(
    {torch.manual_seed: _manual_seed, torch.get_rng_state: _get_rng_state, torch.set_rng_state: _set_rng_state}
)
