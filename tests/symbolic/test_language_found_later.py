"""More of what CPython's own tests found (`tools/coverage`), each as a small program."""

import contextlib
import copy
import dataclasses
import inspect
import itertools
import operator
import os
import re
import struct
import sys
import time
import types
import typing
from collections import OrderedDict

import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors
from tests.symbolic.test_interpreters_tests_found import errors_of

(X,) = tensors(3, 4)


@same_as_eager(graphs=1)
def test_ranges_longer_than_any_list(x):
    long, seen = range(-(2**70), 2**70, 2**66), []
    for numbers in (long, range(2**64), range(sys.maxsize + 1), reversed(range(2**65))):
        for position, number in enumerate(numbers):
            seen.append(number)
            if position == 3:
                break
    return x + 1, seen


@same_as_eager(graphs=1)
def test_keys_without_what_they_are_made_of(x):
    seen = [OrderedDict.fromkeys(iterable="ab", value=3), OrderedDict.fromkeys("ab", value=4)]
    for call in (
        lambda: dict.fromkeys(),
        lambda: dict.fromkeys("ab", value=3),
        lambda: dict.fromkeys(1),
        lambda: OrderedDict.fromkeys(),
    ):
        try:
            seen.append(call())
        except TypeError as error:
            seen.append(str(error))
    return x + 1, seen


class Counting:
    def __init__(self, number):
        self.number = number
        self.asked = 0

    def __eq__(self, other):
        return isinstance(other, Counting) and self.number == other.number

    def __hash__(self):
        self.asked += 1
        return hash(self.number)


def test_a_hash_is_asked_as_often_as_eager_code_asks():
    def program(x):
        keys = [Counting(number) for number in range(3)]
        table = dict.fromkeys(keys)
        jit.graph_break()
        elements = set(table)
        return [key.asked for key in keys], len(elements), x + 1, table

    check(program, X)


@same_as_eager(graphs=1)
def test_attributes_of_constants_are_fixed(x):
    seen = []
    for value in (range(3), 1, "text", slice(1), None, b"bytes", 1.5, 1j):
        for name in ("start", "real", "other", "upper"):
            for change in (lambda: setattr(value, name, 3), lambda: delattr(value, name)):  # noqa: B023
                try:
                    change()
                except (AttributeError, TypeError) as error:
                    seen.append((type(error), str(error)))
        try:
            value.start = 3
        except AttributeError as error:
            seen.append(str(error))
        try:
            del value.start
        except AttributeError as error:
            seen.append(str(error))
    return x + 1, seen


@same_as_eager(graphs=1)
def test_many_items_are_popped(x):
    table = {}
    for number in range(12_000):
        table[str(number)] = number
    last, first = table.popitem(), next(iter(table))
    while len(table) > 2:
        table.popitem()
    ordered = OrderedDict(table)
    return x + 1, last, first, table, ordered.popitem(False), ordered.popitem(), ordered


def test_struct_sequences_are_made():
    def program(x):
        seen = []
        for kind, *args in (
            (time.struct_time,),
            (time.struct_time, None),
            (time.struct_time, "123"),
            (time.struct_time, "123456789"),
            (os.stat_result, [[i] for i in range(os.stat_result.n_sequence_fields)], {"st_atime": [1.0]}),
            (torch.return_types.max, (x, x + 1)),
            (torch.return_types.max, (x,)),
        ):
            try:
                made = kind(*args)
                again = copy.deepcopy(made)
                seen.append((made, again, again == made, getattr(again, "st_atime", None)))
            except TypeError as error:
                seen.append(str(error))
        return seen

    check(program, X)


def test_integers_that_can_not_be_written_down():
    def program(x, digits):
        given = int(digits)
        large = 1 << 4000
        large = large * large * large * large
        held = {0: large}
        try:
            text = str(large)
        except ValueError as error:
            text = str(error)
        jit.graph_break()
        return x + 1, large % 10007, given % 10007, (given + 1) % 10007, text, held[0] is large, large.bit_length()

    check(program, X, "7" * 4290, changed=(X, "8" * 4290))


@same_as_eager(graphs=1)
def test_many_contexts_one_after_the_other(x):
    @contextlib.contextmanager
    def counting():
        seen.append(len(seen))
        try:
            yield len(seen)
        finally:
            seen.append("left")

    seen = []
    for _ in range(1000):
        with counting():
            pass
    return x + 1, len(seen), seen[-3:]


class Doubled(int):
    def __mul__(self, other):
        return Doubled(2 * super().__mul__(other))

    def __radd__(self, other):
        return Doubled(super().__radd__(other))


@same_as_eager(graphs=1)
def test_operators_of_int_with_a_derived_one(x):
    two, three = Doubled(2), Doubled(3)
    return x + 1, [type(each * two)(each * two) for each in (two, three)], [1 + two, int.__add__(1, three), two < three]


class Whole(int):
    def __int__(self):
        return 5

    def __float__(self):
        return 6.5


class Index(int):
    def __index__(self):
        return 7


@same_as_eager(graphs=1)
def test_conversions_of_derived_numbers(x):
    seen = [int(Whole(3)), float(Whole(3)), complex(Whole(3)), int(Index(3)), float(Index(3)), Index(Whole(3)) + 0]
    return x + 1, seen, [range(9)[Index(3)], complex(Index(3)), Whole(Index(2)) + 0]


class Odd(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class Spoken(str):
    def __str__(self):
        return "something else"

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def test_values_of_derived_classes_are_their_own():
    def program(x, number, text):
        return x * int.__add__(number, 1), text.upper(), f"{number + 1}{text:s}"

    check(program, make=lambda: (X, Odd(3), Spoken("three")), changed=lambda: (X, Odd(4), Spoken("four")))


@same_as_eager
def test_patterns_of_what_changes_and_what_they_print(x):
    text, seen = bytearray(b"abcdefgh"), []
    found = [re.match(b"[a-h]*", text), re.compile(b"[c-d]+").search(text)]
    text[:] = b"xyz....."
    seen += [each.group() for each in found]
    re.compile("ab?", re.DEBUG)
    seen.append(re.compile("(?i)(a)(b)").groupindex == {})
    seen += [dict(re.compile("(?P<first>a)").groupindex), re.compile("(?P<first>a)").groupindex["first"]]
    return x + 1, seen


def test_classes_that_can_not_be_changed():
    def program(x):
        seen = []
        for kind in (int, re.Match, re.Pattern, type(iter([])), type(test_classes_that_can_not_be_changed)):
            try:
                kind.other = x
            except TypeError as error:
                seen.append(str(error))
            try:
                setattr(kind, "__name__", "other")  # noqa: B010
            except TypeError as error:
                seen.append(str(error))
            try:
                del kind.__name__
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    check(program, X)


class OddMapping:
    def __init__(self, **items):
        self.items = items

    def __getitem__(self, name):
        return self.items.get(name, name)

    def keys(self):
        return self.items.keys()

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)


def test_views_of_other_mappings():
    def program(x, view):
        return x + view["a"], len(view), view["b"]

    check(program, make=lambda: (X, types.MappingProxyType({"a": 1, "b": 2})),
          changed=lambda: (X, types.MappingProxyType(OddMapping(a=1, c=2))))  # fmt: skip


def test_views_by_keys_that_are_no_constants():
    def program(x, view):
        return x + view[object], list(view), [value for value in view.values()]

    check(program, make=lambda: (X, types.MappingProxyType({object: 1, Odd: 2})), changed=lambda: (X, types.MappingProxyType({object: 2})))


SPACE_TEXT = "N = 1\ndef put():\n    global N\n    N = 2\ndef get():\n    return N\n"


def run_text():
    space = {}
    exec(SPACE_TEXT, space)
    return space


@pytest.mark.parametrize("last", ["space['N'], len(space)", "space.pop('N'), get()"])
@pytest.mark.parametrize("first", ["put()", "space['N'] = 3", "space.update(N=4), put()"])
def test_globals_of_functions_that_come_in_as_dicts(first, last):
    lines = ["def program(x, space, put, get):", "    before = space['N'], get()", f"    {first}", f"    return x + 1, before, get(), {last}"]
    made = {}
    exec("\n".join(lines), made)

    def make():
        space = run_text()
        return X, space, space["put"], space["get"]

    def other():
        _, space, put, get = make()
        return X, {**space}, put, get

    check(made["program"], make=make, changed=other)
    check(made["program"], make=other, changed=make)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with 3.12")
def test_bounds_are_evaluated_when_they_are_asked_for():
    def make():
        made = {}
        exec("class Box:\n    T = int\n    def put[U: T](self): ...\n    type Alias = T\n", made)
        return X, made["Box"], made["Box"].put.__type_params__[0]

    def program(x, box, parameter):
        box.T = float
        return x + 1, parameter.__bound__, box.Alias.__value__

    check(program, make=make)


def test_a_class_asked_as_an_object_is():
    def program(x):
        return x + 1, object.__getattribute__(Shown, "one")

    check(program, X)


class Shown:
    one = 1


def test_views_show_what_changes():
    def program(x, table, view):
        made = types.MappingProxyType(table)
        keys = made.keys()
        table["key"] = x + 1
        return list(keys), list(view), made["key"], view.get("key"), view == {}

    def make():
        table = {}
        return X, table, types.MappingProxyType(table)

    check(program, make=make, changed=lambda: (X, {}, types.MappingProxyType({})))

    def of_class(x):
        try:
            Shown.two = 2
            view = Shown.__dict__
            Shown.three = 3
            return view["two"], "three" in view, x + 1
        finally:
            del Shown.two, Shown.three

    check(of_class, X)


def test_views_are_iterated_as_what_they_show():
    def program(x, table, view):
        seen = []
        for key in view:
            seen.append(key)
            table["second"] = 2
            table["third"] = 3
        return x, seen

    def replaced(x, table, view):
        pairs, found = view.items(), []
        for key in view.keys():
            table[key] = x + 1
            found.append(view[key])
        return found, list(pairs), list(reversed(view))

    def make():
        table = {"first": 1, "other": 5}
        return X, table, types.MappingProxyType(table)

    check(program, make=make)
    check(replaced, make=make)


@same_as_eager
def test_views_are_made(x):
    table = {"first": x, "second": 2}
    view, moved, short = types.MappingProxyType(table), types.MappingProxyType(OrderedDict(a=1, b=2)), {}
    table["third"] = 3
    mapping = short.keys().mapping
    short["late"] = 4
    found = view["first"], len(view), list(view), view.get("none", 5), sorted(view.keys()), list(moved.items()), mapping
    joined = view | {"fourth": 4}, {"fourth": 4} | view, moved | moved, {**view}, dict(moved), view == table, view != moved

    def joins():
        other = view
        other |= table

    wrong = (
        lambda: view["none"], lambda: view < table, lambda: view < view, lambda: table < view, lambda: view + table,
        lambda: types.MappingProxyType(), lambda: view.get(), lambda: view.pop("first"), lambda: {view: 1}, joins,
        lambda: operator.setitem(view, "first", 1), lambda: operator.delitem(view, "first"),
    )  # fmt: skip
    return x + 1, found, joined, errors_of(*wrong), view, type(view.copy())


@same_as_eager
def test_the_attributes_of_a_class_of_the_frame_are_shown(x):
    def twice(cls):
        for name, value in list(vars(cls).items()):
            if callable(value) and not name.startswith("__"):
                setattr(cls, f"{name}_too", value)
        return cls

    class Base:
        def __init_subclass__(cls):
            cls.names = [name for name in cls.__dict__ if not name.startswith("_")]

    @twice
    class Made(Base):
        one = 1

        def method(self):
            return x + self.one

    shown = Made.__dict__
    before = "late" in shown, shown["one"], len(shown)
    Made.late = x
    del Made.one
    after = "late" in shown, "one" in vars(Made), shown["late"], shown is Made.__dict__, shown == vars(Made)
    Made.one = 5
    return Made.names, before, after, vars(Made)["method_too"](Made()), [name for name in shown if name[0] != "_"]


@same_as_eager
def test_the_attributes_of_a_class_grow_while_they_are_looked_at(x):
    class Made:
        one = 1

    def grow():
        for name in vars(Made):
            setattr(Made, f"{name}_too", x)

    return x + 1, errors_of(grow), dataclasses.dataclass(Made) is Made, "__init__" in Made.__dict__


SPACE, ALIAS, UNION = types.SimpleNamespace(a=1), list[int], int | str


class OfSpaces(types.SimpleNamespace):
    pass


def test_namespaces_and_aliases_compare_what_they_hold():
    def program(x, space, alias, union):
        class Own:
            pass

        same, other = types.SimpleNamespace(a=1, b=[2]), types.SimpleNamespace(a=1, b=[2])
        spaces = same == other, same != other, space == SPACE, SPACE != space, space == types.SimpleNamespace(a=1), same == 3
        other.b.append(3)
        spaces += (same == other, same in [other], [same] == [same], types.SimpleNamespace(own=Own) == same)
        aliases = alias == list[int], ALIAS != alias, alias == list, list == alias, alias == typing.List[int], list[Own] == alias
        nested = list[list[int]] == list[alias], list[Own] == list[Own]
        unions = union == UNION, (int | str) == (str | int), (Own | int) == (int | Own), UNION != (Own | int), union == int
        of_typing = typing.Union[int, str] == union, union == typing.Optional[int], OfSpaces(a=1) == space
        return x + 1, spaces, aliases, nested, unions, of_typing

    make = lambda: (X, types.SimpleNamespace(a=1), list[int], int | str)  # noqa: E731
    check(program, make=make, changed=lambda: (X, types.SimpleNamespace(a=2), list[str], int | bytes))


@same_as_eager
def test_bytes_of_numbers(x):
    packed = struct.pack("<if", 3, 0.5)
    return x + 1, packed, struct.unpack("<if", packed), struct.calcsize("<if"), struct.unpack_from("<f", packed, 4)


@same_as_eager
def test_attributes_of_functions_are_deleted(x):
    def made():
        return x

    made.one = made.two = x
    del made.one
    seen = hasattr(made, "one"), made.two
    made.one = x + 1
    del made.two

    def again():
        del made.two

    def never():
        del made.__wrapped__

    return x + 1, seen, made.one, errors_of(again, never), hasattr(made, "two")


def asked():
    """asked"""


def instead(spam, /):
    """instead"""


class Asked:
    def method(*args):
        pass


@pytest.mark.parametrize("name, value", [("__signature__", inspect.signature(instead)), ("__wrapped__", instead), ("__doc__", "new")])
def test_questions_about_a_function_that_the_frame_has_changed(name, value):
    @same_as_eager
    def ask(x):
        try:
            setattr(asked, name, value)
            return x + 1, str(inspect.signature(asked)), inspect.getdoc(asked), inspect.unwrap(asked) is instead
        finally:
            asked.__doc__ = "asked"
            vars(asked).clear()

    ask()


@same_as_eager
def test_questions_about_methods_and_classes_that_the_frame_has_changed(x):
    Asked.method.__text_signature__ = "($self, a, b=1, /)"
    found = str(inspect.signature(Asked.method)), str(inspect.signature(Asked().method))
    del Asked.method.__text_signature__

    class Made:
        def __init__(self, *, a: int) -> None:
            pass

    return x + 1, found, str(inspect.signature(Made))


@same_as_eager
def test_a_metaclass_that_answers_for_what_it_lacks_is_not_asked_about_bases(x):
    class Answers(type):
        def __getattr__(cls, name):
            if name == "one":
                return 1
            return super().__getattr__(name)

    class Base(metaclass=Answers):
        pass

    class Derived(Base):
        pass

    return x + 1, Derived.one, errors_of(lambda: Derived.two)


@same_as_eager
def test_a_property_in_the_place_of_the_namespace_is_not_asked(x):
    looked = []

    class Shows(dict):
        value = 3

        @property
        def __dict__(self):
            looked.append(self)
            return {}

    class Plain(dict):
        value = 4

    class Derived(Plain):
        pass

    made = Derived()
    before = inspect.getattr_static(made, "value")
    Derived.__bases__ = (Shows,)
    return x + 1, before, inspect.getattr_static(made, "value"), looked


class Maker:
    asked = 0

    def __get__(self, instance, owner):
        Maker.asked += 1
        return lambda cls, *args: object.__new__(cls)


class OfMaker:
    __new__ = Maker()

    def __init__(self, value):
        self.value = value


class OfMakerAlone:
    __new__ = Maker()


@same_as_eager
def test_a_descriptor_that_makes_is_asked_once(x):
    Maker.asked = 0
    return x + OfMaker(3).value, type(OfMakerAlone(5)), Maker.asked


@same_as_eager
def test_what_calls_a_function_is_not_the_function(x):
    def made(value, *, scale=1):
        return value * scale + x

    method = Asked().method
    found = [made.__call__, asked.__call__, min.__call__, method.__call__, made.__call__]
    same = [each is other for each, other in zip(found, (made, asked, min, method, found[0]))]
    equal = [each == other for each, other in zip(found, (made, asked, min, method, made.__call__))]
    called = made.__call__(2, scale=3), min.__call__(3, 2), asked.__call__(), list(map(made.__call__, (1, 2)))
    kinds = [type(each).__name__ for each in found]
    return called, same, equal, kinds, hasattr(made, "__call__"), hasattr(made, "__eq__"), inspect.signature(min.__call__) is None


class Annotated:
    first: int


class Derived(Annotated):
    pass


@same_as_eager
def test_annotations_are_not_inherited(x):
    class Inner:
        second: str

    class Other(Inner):
        pass

    seen = [Annotated.__annotations__, Derived.__annotations__, Other.__annotations__, Inner.__annotations__]
    Other.__annotations__["third"] = int
    return x + 1, seen, Other.__annotations__ is seen[2]


def test_new_without_a_class():
    def program(x):
        seen = []
        for make in (object.__new__, dict.__new__, Annotated.__new__):
            try:
                seen.append(make())
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    check(program, X)


class Subscripted:
    __class_getitem__ = classmethod(types.GenericAlias)
    shared = 3

    def __init__(self, number):
        self.number = number

    @classmethod
    def made(cls, number):
        return cls(number)


ALIAS = list[int]


@same_as_eager(graphs=1)
def test_aliases_answer_as_the_class_behind_them(x):
    alias = list[int]
    items = alias("ab")
    alias.append(items, x)
    made = Subscripted[int](3)
    seen = [alias.__getitem__(items, 0), alias.__len__(items), alias.__name__, alias.__origin__, alias.__args__]
    seen += [ALIAS((1, 2)), ALIAS.__class__, made.number, made.__orig_class__, Subscripted[int].made(4).number]
    return items, seen, Subscripted[str].shared, x + 1


T = typing.TypeVar("T")


@same_as_eager
def test_aliases_of_classes_born_in_the_frame(x):
    class Born(typing.Generic[T]):
        pass

    class Plain:
        pass

    same = [Born[T] == Born[T], Born[T] != Born[T], Born[int] == Born[str], Born[int] is Born[int], Born[T] in [Born[T]]]
    same += [list[Plain] == list[Plain], (Plain | None) == (Plain | None), typing.Optional[Plain] == Plain | None]
    return x + 1, same, {list[Plain]: 1}.get(list[Plain])


class Joined:
    pass


@same_as_eager(graphs=1)
def test_unions_of_classes(x):
    def scaled(a: torch.Tensor | int, by: Joined | float = 2.0) -> torch.Tensor | None:
        return a * by

    try:
        unions = [Joined | int, int | Joined, torch.Tensor | int, Joined | None, (Joined | int) | None, None | (int | str)]
    except TypeError:
        return x
    unions += [list[int] | None, None | list[int], list[Joined] | dict[str, int], Joined | list[int], (int | str) | (Joined | str)]
    return scaled(x), isinstance(x, torch.Tensor | int), isinstance(3, Joined | str), [union.__args__ for union in unions]


class Joining(type):
    def __ror__(cls, other):
        return "joined"


class JoinsItself(metaclass=Joining):
    pass


@same_as_eager(graphs=1)
def test_a_class_whose_metaclass_joins_it(x):
    return Joined | JoinsItself, x + 1


class Has(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "named")


class HasNamed(metaclass=Has):
    pass


@typing.runtime_checkable
class Called(typing.Protocol):
    def named(self): ...


def test_metaclasses_are_asked_about_instances():
    def program(x):
        class Instance:
            pass

        instance = Instance()
        seen = [isinstance(instance, HasNamed), isinstance(HasNamed, HasNamed), isinstance(instance, Called)]
        Instance.named = lambda self: 4
        return x + 1, [*seen, isinstance(instance, HasNamed), isinstance(instance, (int, Called))]

    check(program, X)


class Ends:
    """An iterator that ends with an exception of its own."""

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        return self

    def __next__(self):
        raise self.error


class Stop(StopIteration):
    pass


THROUGH = {
    "itself": lambda each: each, "enumerate": enumerate, "zip": zip, "map": lambda each: map(str, each),
    "islice": lambda each: itertools.islice(each, 2), "pairwise": itertools.pairwise, "chain": itertools.chain,
    "generator": lambda each: (value for value in each), "zip_longest": itertools.zip_longest,
}  # fmt: skip


@pytest.mark.parametrize("name", THROUGH)
def test_what_an_iterator_ends_with(name):
    """Its class, arguments and identity were lost."""
    def program(x):
        found = []
        for error in (StopIteration(), StopIteration(3), Stop(4)):
            iterator = THROUGH[name](Ends(error))
            found.append(next(iterator, 7))
            try:
                next(iterator)
            except StopIteration as raised:
                found.append((type(raised), raised.args, raised.value, raised is error))
        return found, x + 1

    check(program, torch.ones(2), graphs=None)
