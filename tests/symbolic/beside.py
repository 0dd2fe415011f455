"""A container variable beside the real container: the same operations on both, compared after each.

A small translator stands in for the real one, so that what fails is the variables' own.
"""

import copy
import operator
from collections import Counter, defaultdict, deque
from types import MappingProxyType, SimpleNamespace

from sideeffects.ledger import Ledger
from symbolic.errors import GraphBreak, Observed
from symbolic.sources import Sources
from symbolic.variables import iterators
from symbolic.variables.base import BINARY, INPLACE, MISSING, Variable, lookup
from symbolic.variables.constants import ConstantVariable, is_constant_value
from symbolic.variables.containers import DequeVariable, ListVariable, TupleVariable
from symbolic.variables.mappings import DictVariable, DictViewVariable
from symbolic.variables.native import IteratorVariable
from symbolic.variables.proxies import ProxyVariable
from symbolic.variables.sets import SetVariable


class Opaque(Variable):
    """An existing object: a function that runs on real values, a class, or anything else."""

    def __init__(self, value, source=None):
        self.value = value
        self.source = source

    def python_type(self):
        return type(self.value)

    def real(self):
        return self.value

    def call(self, tx, args, kwargs):
        result = tx.attempt(self.value, *(unwrap(a) for a in args), **{k: unwrap(v) for k, v in kwargs.items()})
        return tx.born(result)


class Translator:
    """The part of the translator that containers ask."""

    def __init__(self):
        self.sources = Sources()
        self.ledger = Ledger()
        self.options = SimpleNamespace(unroll_limit=2000)
        self.known = []
        self.read = []
        self.cache = {}
        self.hashed = []
        self.numbers_hashed = set()

    def class_of(self, variable):
        kind = variable.python_type()
        return SimpleNamespace(getattr=lambda tx, name: tx.from_constant(getattr(kind, name)))

    def with_context(self, error):
        return error

    def lookup(self, cls, name):
        return lookup(cls, name)

    def attribute_source(self, cls, name):
        return self.sources.const(cls, cls.__qualname__).step("typeattr", name)

    def know(self, source, kind, payload):
        self.known.append((source.text, kind, payload))

    def wrap(self, value, source):
        self.read.append((source, value))
        if is_constant_value(value):
            return ConstantVariable(value, source)
        if id(value) not in self.cache:
            self.cache[id(value)] = (value, self._make(value, source))
        return self.cache[id(value)][1]

    def _make(self, value, source):
        if isinstance(value, MappingProxyType):
            return ProxyVariable(self._make(dict(value), source), source, value)
        if isinstance(value, dict):
            factory = getattr(value, "default_factory", None)
            return DictVariable({}, source, type(value), Opaque(factory) if factory else None, value=value)
        if isinstance(value, (set, frozenset)):
            items = [self.from_constant(item) for item in value]
            return SetVariable({item.key(): item for item in items}, source, type(value))
        if isinstance(value, (list, tuple, deque)):
            made = self.born(value)
            made.source = source
            return made
        return Opaque(value, source)

    def born(self, value):
        """A variable for a value as if the frame had made it; variables inside stay what they are."""
        if isinstance(value, Variable):
            return value
        kind = type(value)
        if isinstance(value, list):
            return ListVariable([self.born(item) for item in value], cls=kind)
        if isinstance(value, deque):
            return DequeVariable([self.born(item) for item in value], value.maxlen, cls=kind)
        if isinstance(value, tuple):
            return TupleVariable([self.born(item) for item in value], cls=kind)
        if isinstance(value, dict):
            factory = getattr(value, "default_factory", None)
            made = DictVariable({}, cls=kind, default_factory=Opaque(factory) if factory else None)
            for key, item in value.items():
                made.store(self, self.born(key), self.born(item))
            return made
        if isinstance(value, set) or (kind is frozenset and not is_constant_value(value)):
            return self._born_set(value, kind)
        if isinstance(value, (type({}.keys()), type({}.items()), type({}.values()))):
            return DictViewVariable(self.born(dict(value.mapping)), type(value).__name__.split("_")[1])
        return ConstantVariable(value) if is_constant_value(value) else Opaque(value)

    def _born_set(self, value, kind):
        """Elements that collide are iterated in the order in which they came: the table of keys is a copy of the set's."""
        items = {id(item): self.born(item) for item in value}
        made = SetVariable({}, cls=kind)
        if all(variable.key() == item for item, variable in zip(value, items.values(), strict=True)):
            made.take(set(value), [(None, items)])
        else:
            made = SetVariable({item.key(): item for item in items.values()}, cls=kind)
        return made

    from_constant = born

    def new_tuple(self, items):
        return TupleVariable(items)

    def new_list(self, items):
        return ListVariable(items)

    def new_dict(self, pairs):
        return DictVariable({key.key(): (key, value) for key, value in pairs})

    def anchor(self):
        return 0

    def constant_iterator(self, value):
        return iterators.ConstantIterator(value)

    def attempt(self, function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (GraphBreak, Observed):
            raise
        except Exception as error:
            raise Observed(Opaque(error)) from error

    def raise_(self, kind, *args):
        raise Observed(Opaque(kind(*args)))

    def call(self, function, args, kwargs):
        return function.call(self, args, kwargs)

    def binary(self, op, a, b):
        ways = [lambda: a.binary(self, op, b), lambda: b.rbinary(self, op, a)]
        left, right = a.python_type(), b.python_type()
        if left is not right and left in right.__mro__ and lookup(left, BINARY[op][1]) is not lookup(right, BINARY[op][1]):
            ways.reverse()
        for way in ways:
            if (found := way()) is not None:
                return found
        if op in (operator.eq, operator.ne):
            return self.born(a.is_same(self, b) is (op is operator.eq))
        return self.born(self.attempt(op, unwrap(a), unwrap(b)))

    def inplace(self, op, a, b):
        found = a.inplace(self, op, b)
        return found if found is not None else self.binary(INPLACE[op][0], a, b)

    def truth(self, value):
        return value.truth(self)

    def iter(self, value):
        if isinstance(value, Opaque) or not hasattr(value.python_type(), "__iter__"):
            return OpaqueIterator(self.attempt(iter, unwrap(value)))
        return value.iterator(self)

    def next(self, iterator):
        return iterator.next(self)

    def unpack(self, value):
        if not hasattr(value.python_type(), "__iter__"):
            self.attempt(iter, unwrap(value))
        return value.unpack(self)

    def contains(self, container, item):
        return container.contains(self, item)

    def equal(self, a, b):
        return a is b or self.truth(self.binary(operator.eq, a, b))

    def getattr(self, value, name):
        return value.getattr(self, name)

    def isinstance(self, value, cls):
        return issubclass(value.python_type(), unwrap(cls))

    def optional(self, value, name):
        assert not hasattr(value.python_type(), name), "only dicts have keys here"


class OpaqueIterator(Opaque):
    """A user's iterator over real values."""

    def iterator(self, tx):
        return self

    def next(self, tx):
        item = tx.attempt(next, self.value, MISSING)
        return None if item is MISSING else tx.born(item)


def unwrap(variable):
    """The real value of a variable."""
    if isinstance(variable, Opaque):
        return variable.value
    if isinstance(variable, DequeVariable):
        return deque(map(unwrap, variable.items), variable.maxlen)
    if isinstance(variable, TupleVariable) and hasattr(variable.cls, "_fields"):
        return variable.cls._make(map(unwrap, variable.items))
    if isinstance(variable, (ListVariable, TupleVariable)):
        return variable.cls(map(unwrap, variable.items))
    if isinstance(variable, DictVariable):
        pairs = [(unwrap(k), unwrap(v)) for k, v in variable.load_all(Translator()).values()]
        if variable.cls is defaultdict:
            return defaultdict(unwrap(variable.default_factory) if variable.default_factory else None, pairs)
        return Counter(dict(pairs)) if variable.cls is Counter else variable.cls(dict(pairs))
    if isinstance(variable, SetVariable):
        return variable.cls(map(unwrap, variable.items.values()))
    if isinstance(variable, ProxyVariable):
        return MappingProxyType(unwrap(variable.shown))
    if isinstance(variable, DictViewVariable):
        return getattr(unwrap(variable.dict), variable.kind)()
    return variable.constant()


def spell(value):
    """A value as text in which types and order show."""
    if isinstance(value, (list, tuple, deque)):
        return f"{type(value).__qualname__}({', '.join(map(spell, value))}){getattr(value, 'maxlen', '')}"
    if isinstance(value, dict):
        return f"{type(value).__qualname__}({', '.join(f'{spell(k)}: {spell(v)}' for k, v in value.items())})"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__qualname__}({', '.join(sorted(map(spell, value)))})"
    if isinstance(value, (type({}.keys()), type({}.values()), type({}.items()))):
        return f"{type(value).__qualname__}({', '.join(map(spell, value))})"
    return f"{type(value).__qualname__}({value!r})"


class Both:
    """A container and the variable for an equal one, driven side by side: `step` runs an operation on each."""

    def __init__(self, value, existing=False):
        self.tx = Translator()
        self.real = copy.deepcopy(value)
        self.start = copy.deepcopy(value)
        self.existing = existing
        if existing:
            self.variable = self.tx.wrap(self.start, self.tx.sources.arg(0, "arg"))
        else:
            self.variable = self.tx.born(value)

    def step(self, on_real, on_variable):
        expected = outcome(lambda: on_real(self.real))
        found = outcome(lambda: on_variable(self.tx, self.variable))
        assert found == expected, (found, expected)
        assert spell(unwrap(self.variable)) == spell(self.real)

    def method(self, name, *args, **kwargs):
        args, kwargs = copy.deepcopy((args, kwargs))
        variables = [self.tx.born(arg) for arg in args]
        named = {key: self.tx.born(arg) for key, arg in kwargs.items()}
        self.step(lambda real: getattr(real, name)(*args, **kwargs), lambda tx, v: v.method(tx, name, variables, named))

    def binary(self, op, other):
        variable = self.tx.born(other)
        self.step(lambda real: op(real, other), lambda tx, v: tx.binary(op, v, variable))

    def reflected(self, op, other):
        variable = self.tx.born(other)
        self.step(lambda real: op(other, real), lambda tx, v: tx.binary(op, variable, v))

    def inplace(self, op, other):
        variable = self.tx.born(other)

        def on_real(real):
            self.real = op(real, other)
            return self.real

        def on_variable(tx, v):
            self.variable = tx.inplace(op, v, variable)
            return self.variable

        self.step(on_real, on_variable)

    def getitem(self, index):
        self.step(lambda real: real[index], lambda tx, v: v.getitem(tx, tx.born(index)))

    def setitem(self, index, value):
        self.step(
            lambda real: operator.setitem(real, index, value),
            lambda tx, v: v.setitem(tx, tx.born(index), tx.born(value)),
        )

    def delitem(self, index):
        self.step(lambda real: operator.delitem(real, index), lambda tx, v: v.delitem(tx, tx.born(index)))

    def contains(self, item):
        self.step(lambda real: item in real, lambda tx, v: v.contains(tx, tx.born(item)))

    def replay(self):
        """What the residual code does to an existing container gives the contents that it has in eager code."""
        target = copy.deepcopy(self.start)  # the variable may still look into the existing one
        if isinstance(self.variable, DictVariable):
            replay_dict(self.variable, target)
        assert spell(target) == spell(self.real)

    def guarded_like(self, other):
        """Whether the guards of an existing dict hold for another one."""
        checks = {
            "len": lambda length: len(other) == length,
            "keys": lambda keys: spell(tuple(other)) == spell(keys),
            "absent": lambda key: key not in other,
        }
        items = [(source.arg, value) for source, value in self.tx.read if source.kind == "item"]
        return all(checks[kind](payload) for _, kind, payload in self.tx.known) and all(
            key in other and spell(other[key]) == spell(value) for key, value in items
        )


def replay_dict(variable, target):
    """The record of what was done to a dict, done to `target`."""
    if variable.rewritten:
        target.clear()
    else:
        for key in variable.deleted.values():
            del target[unwrap(key)]
    for hashed in variable.entries if variable.rewritten else variable.stored:
        key, value = variable.entries[hashed]
        target[unwrap(key)] = unwrap(value)
    if variable.arranged:
        for key, _ in variable.entries.values():
            target.move_to_end(unwrap(key))


def outcome(run):
    """The result as text, or the exception's type and arguments; iterators are followed to their end."""
    try:
        result = run()
        if isinstance(result, IteratorVariable):
            result = [type(result).__name__ and unwrap(item) for item in iter(lambda: result.next(Translator()), None)]
        elif hasattr(result, "__next__"):
            result = list(result)
        elif isinstance(result, Variable):
            result = unwrap(result)
        return spell(result)
    except Observed as raised:
        error = raised.variable.value
    except GraphBreak:
        raise
    except Exception as found:
        error = found
    return f"{type(error).__qualname__}{error.args!r}"
