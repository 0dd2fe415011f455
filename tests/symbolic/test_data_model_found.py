"""What CPython's own test_descr found (`tools/coverage`): corners of Python's data model, each as a small program."""

import collections
import enum
import operator
import types
import weakref
from array import array

import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors

(X,) = tensors(3, 4)


def errors_of(*calls):
    found = []
    for call in calls:
        try:
            found.append(call())
        except (TypeError, AttributeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


class Chooses:
    def __new__(cls, number):
        return object.__new__(Chosen if isinstance(number, int) else cls)


class Chosen(Chooses):
    def __init__(self, number):
        self.number = number


@same_as_eager(graphs=1)
def test_an_instance_of_a_derived_class_is_initialised(x):
    one, other = Chooses(1), Chooses("two")
    return x + 1, type(one) is Chosen, one.number, type(other) is Chooses


class OfClass:
    @classmethod
    def __new__(*args):
        return args


@same_as_eager
def test_new_as_a_class_method(x):
    return x + 1, OfClass(1, 2)


class Returns:
    def __init__(self, value):
        self.value = value
        return value


@same_as_eager(graphs=1)
def test_initialisers_return_nothing(x):
    return x + 1, errors_of(lambda: Returns(10), lambda: Returns("text"), lambda: Returns(None).value, lambda: Returns(x))


class Plain:
    def itself(self):
        return self


class Stands:
    def __init__(self, behind):
        self.__behind = behind

    def __getattribute__(self, name):
        if name.startswith("_Stands__"):
            return object.__getattribute__(self, name)
        return getattr(self.__behind, name)


@same_as_eager(graphs=1)
def test_what_stands_for_another_is_an_instance(x):
    value = Stands(Plain())
    kinds = [isinstance(value, kind) for kind in (Plain, Stands, Chooses, (int, Plain))]
    return x + 1, kinds, value.__class__ is Plain, type(value) is Stands


class Items(dict):
    __setattr__ = dict.__setitem__
    __neg__ = dict.copy


class Wrong(int):
    __eq__ = str.__eq__
    __add__ = str.__add__
    __neg__ = list.copy


@same_as_eager(graphs=1)
def test_native_methods_in_the_place_of_others(x):
    items, wrong = Items(), Wrong(3)
    items.one = 42
    found = errors_of(lambda: wrong == wrong, lambda: wrong + wrong, lambda: -wrong, lambda: str.lower(3))  # noqa: PLR0124
    return x + 1, items["one"], items == -items, found


class OnlySets:
    def __set__(self, instance, value):
        instance.__dict__["one"] = value


class HasOnlySets:
    one = OnlySets()


@same_as_eager
def test_descriptors_that_can_not_be_read(x):
    instance = HasOnlySets()
    before = instance.one is HasOnlySets.__dict__["one"]
    instance.one = 42
    return x + 1, before, instance.one


class Base:
    shown = property(lambda self: "shown")

    @classmethod
    def of_class(cls):
        return cls.__name__


class Derived(Base):
    @classmethod
    def inherited(cls):
        return super(Derived, cls).shown

    @classmethod
    def parts_of_class(cls):
        return super().__self__, super().__self_class__, super().of_class()

    def parts(self):
        found = super()
        return found.__class__, found.__self_class__, found.__thisclass__, found.__self__ is self, found.shown


class Further(Derived):
    pass


@same_as_eager(graphs=1)
def test_attributes_of_super(x):
    return x + 1, Derived.inherited() is Base.shown, Further().parts(), Further.parts_of_class()


class Hinted:
    def __init__(self):
        self.asked = 0

    def __iter__(self):
        return iter([2, 1])

    def __length_hint__(self):
        self.asked += 1
        return 2


@same_as_eager(graphs=1)
def test_hints_are_asked_for(x):
    hinted, seen = Hinted(), []
    for make in (list, tuple, sorted, set, lambda each: [*each], [0].extend):
        make(hinted)
        seen.append(hinted.asked)
    return x + 1, seen


class Describes:
    asked = 0

    def __get__(self, instance, owner=None):
        def reads(name):
            self.asked += 1
            raise AttributeError(name)

        return reads


class ByDescriptor:
    __getattribute__ = Describes()


class ByDescriptorLast:
    __getattr__ = ByDescriptor.__dict__["__getattribute__"]


@same_as_eager
def test_hooks_that_descriptors_make(x):
    found = errors_of(lambda: ByDescriptor().some, lambda: ByDescriptorLast().some)
    return x + 1, found, ByDescriptorLast.__dict__["__getattr__"].asked > 1


@same_as_eager
def test_namespaces_that_can_not_be_deleted(x):
    class Module(types.ModuleType, Plain):
        pass

    def delete(value):
        del value.__dict__

    instance = Plain()
    instance.number = 3
    found = errors_of(lambda: delete(Module("name")), lambda: delete(instance))
    return x + 1, found, instance.__dict__


class BadArguments:
    def __getnewargs__(self):
        return "text"


class BadNamedArguments:
    def __getnewargs_ex__(self):
        return [(), {}]


def test_reductions_of_objects():
    def program(x):
        found = []
        for make in (BadArguments, BadNamedArguments, Plain, object):
            for protocol in (None, 1.5, "text", 2, 4):
                try:
                    found.append(len(make().__reduce_ex__(protocol)))
                except TypeError as error:
                    found.append(str(error))
        return x + 1, found

    check(program, torch.ones(2))


@same_as_eager
def test_what_is_weakly_referenced_lives_as_long_as_its_variable(x):
    value, item = Returns(None), Returns(None)
    proxy, table = weakref.proxy(value), weakref.WeakValueDictionary(item=item)
    jit.graph_break()
    return x + 1, proxy.value, list(table)


@same_as_eager
def test_errors_say_the_full_names_of_classes_written_in_c(x):
    space, days = types.SimpleNamespace(a=1), types.MappingProxyType({})
    return x + 1, errors_of(
        lambda: space.b, lambda: days.b, lambda: next(space), lambda: reversed(space), lambda: {**space}
    )


@same_as_eager
def test_tensors_as_indices(x):
    """Only integers stand for one, and nobody asks where there is nothing to be had by one."""
    numbers = torch.tensor(1.5), torch.tensor(1 + 2j), torch.arange(12.0).sum(), torch.arange(3), torch.tensor(True)
    return x + 1, [
        errors_of(
            lambda: 1[each], lambda: None[each], lambda: [1, 2][each], lambda: (1, 2)[each:], lambda: "ab"[each],
            lambda: range(each), lambda: [1, 2].pop(each), lambda: operator.index(each), lambda: b"ab"[:each],
        )
        for each in numbers
    ]


class Numbered:
    pass


@same_as_eager
def test_attributes_of_dicts_that_exist(x):
    """Of globals and of what an object has: their type is all that there is to say."""
    plain = Numbered()
    plain.number = 3
    found = [globals(), plain.__dict__, vars(plain)]
    return x + 1, [
        (each.__class__ is dict, each.__class__ is type(each), hasattr(each, "other"), getattr(each, "other", 5))
        for each in found
    ], errors_of(lambda: globals().other, lambda: plain.__dict__.other), torch.Generator().__class__ is torch.Generator


class Bytes(bytearray):
    pass


@same_as_eager
def test_numbers_that_bytes_of_a_derived_class_write(x):
    class Made(bytearray):
        pass

    return x + 1, [(int(kind(b"100")), int(kind(b"11"), 2), float(kind(b"1.5"))) for kind in (Bytes, Made)], errors_of(
        lambda: int(Bytes(b"no")), lambda: float(Made(b"")), lambda: complex(Bytes(b"1"))
    )


class Half(float):
    pass


class Pair(tuple):
    pass


class Raw(bytes):
    pass


@same_as_eager
def test_operators_between_derived_values_and_built_in_ones(x):
    """Who answers, and whose class errors name."""
    half, pair, raw, data = Half(2.5), Pair((1, 2)), Raw(b"ab"), Bytes(b"cd")
    found = half + 1j, half * 1j, half**2j, 1j - half, raw < bytearray(b"b"), raw + data, data + raw, raw in data
    half += 1j
    found += array("i", [3]) < data, array("i", [3]) == bytearray(b"\3\0\0\0"), Bytes(b"z") > array("b", [3])
    return x + 1, found, half, errors_of(
        lambda: 0 + pair, lambda: 1 < pair, lambda: sum([pair]), lambda: operator.iadd(Half(1), (1,)),
        lambda: operator.isub(Half(1), range(3)), lambda: data + 3, lambda: 2.5 < data, lambda: b"a" * data,
        lambda: data % {1}, lambda: data + {"a": 2}, lambda: Half(1) in data, lambda: raw + [1],
        lambda: operator.iadd([1], Half(1)), lambda: operator.imul(2.5, data), lambda: operator.ior(raw, bytearray(b"a")),
        lambda: reversed(Members({1})), lambda: bytearray(Half(1)), lambda: bytearray(Text("a")),
        lambda: data.__reduce_ex__(2)[0] is Bytes, lambda: bytearray(b"a") + pair, lambda: pair in bytearray(b"a"),
        lambda: operator.imul([1], Members({1})), lambda: operator.imul(Listed([1]), Listed([1])),
    )


class Listed(list):
    pass


class Members(set):
    pass


class Frozen(frozenset):
    pass


class One(enum.IntEnum):
    here = 1


class Rolled(tuple):
    def __iter__(self):
        return iter("xy")


class Spread(set):
    def __iter__(self):
        return iter("xy")


def with_elements(x, numbers, frozen, one):
    added, united = set(numbers), {*numbers} | {frozen}
    numbers.add(frozen)
    added.update([frozen, (frozen,), frozenset([frozen])])
    return x + 1, numbers, added, united, Pair((1, 2)) * one, one * Pair((1, 2))


def test_frozensets_of_derived_classes_in_sets():
    check(with_elements, X, {1, 2}, Frozen([1, 4]), One.here, changed=[(X, {3}, Frozen([7]), 1), (X, {3}, Frozen([7]), True)])


def asked(x, number, text, half):
    return x + 1, number.from_bytes(b"a", "big"), text.fromhex("10"), half.fromhex("1"), (3).from_bytes(b"ab", "little")


def test_class_methods_of_numbers_and_bytes():
    check(asked, X, 3, b"x", 1.5, changed=[(X, 4, b"y", 2.5)])


class Initialised(dict, Chooses):
    def __init__(self, **entries):
        dict.__init__(self, **entries)
        object.__init__(self)


@same_as_eager
def test_what_object_itself_initialises_keeps_its_elements(x):
    listed, deque = Listed([1, 2]), collections.deque([1])
    return x + 1, object.__init__(listed), listed, Initialised(a=1), int.__init__(deque), deque


@same_as_eager
def test_methods_of_operators_asked_by_name(x):
    one, other, members = {1, 2}, frozenset([2, 3]), Members({2})
    listed = Listed([1])
    return x + 1, one.__rsub__(other), other.__rsub__(one), members.__ror__(one), one.__rand__(members), one.__rxor__(other), errors_of(
        lambda: {1, "x"}.isdisjoint(Spread({1})), lambda: {1}.isdisjoint(Spread({1})), lambda: Spread({1}).isdisjoint({"x"}),
        lambda: bytearray(Rolled([5, 6])), lambda: bytearray(Pair([5, 6])), lambda: listed.__setattr__(3, 1),
        lambda: listed.__delattr__(slice(1)), lambda: listed.__getattribute__(None), lambda: one.__rsub__([1]),
    )


class Text(str):
    pass


class Sums:
    def __radd__(self, other):
        return "summed"

    def __rmul__(self, other):
        return "times"


@same_as_eager
def test_lists_and_buffers_of_derived_classes_are_extended_before_the_other_is_asked(x):
    found = []
    for kind in (Listed, Bytes, Queue, list, bytearray, collections.deque):
        made = kind([1, 2])
        found.append(errors_of(lambda: operator.iadd(made, Sums()), lambda: operator.imul(made, Sums()), lambda: made + Sums()))
    return x + 1, found


class Queue(collections.deque):
    pass


def parted(x, text, data):
    return x + 1, [text.partition("xyz"), text.rpartition("x"), text.split("xxxx"), text.rsplit("xxxx"), text.split("x")], [
        data.partition(b"xyz"), data.split(b"xxxx"), data.rpartition(b"b")
    ], errors_of(lambda: Queue().__rmul__(Queue()), lambda: [1].__rmul__([1]), lambda: data.find(array("i", [1])))


def test_texts_of_derived_classes_are_parted():
    check(parted, X, Text("ab"), Raw(b"ab"), changed=[(X, "ab", b"ab"), (X, Text("axb"), b"xyz")])


def same_ones(x, held, value):
    return x + 1, [each is value for each in held]


@pytest.mark.parametrize("held", [lambda v: {v: 1}, lambda v: {v}, lambda v: (v,), lambda v: frozenset([v]), lambda v: {0: v}])
def test_equal_constants_in_containers_are_not_taken_for_each_other(held):
    one, other = (" ".join(["a", "b"]) for _ in range(2))
    program = jit.compile(same_ones, backend="eager")
    for value in (one, other, one, 10**20, 10**10 * 10**10, 1.5, 3.0 / 2):
        for asked in (one, other, value):
            assert program(X, held(value), asked)[1] == same_ones(X, held(value), asked)[1], (value, asked)
