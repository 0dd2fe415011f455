"""What CPython's own tests found (`tools/coverage`), continued: what is asked of classes alone, enums, classes of the
frame, deques, imports."""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import gc
import importlib.util
import inspect
import itertools
import json
import marshal
import operator
import os
import sys
import time
import types
import typing
import warnings
import weakref
from collections import deque

import pytest
import torch

import jit
from tests.differential import COUNTING, check, same_as_eager, tensors
from tests.symbolic.test_interpreters_tests_found import errors_of

(X,) = tensors(3, 4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("asks, one", ((isinstance, ""), (issubclass, str)))
def test_classes_in_tuples_deep_in_one_another(asks, one):
    @same_as_eager
    def nest(x):
        classes = (str,)
        for turn in range(60_000):  # deeper than C goes
            classes = (classes,)
            try:
                asks(one, classes)
            except RecursionError:
                return x + 1, turn > 500
        return x + 1

    nest()


class Counted(abc.ABCMeta):
    asked = 0

    def __subclasscheck__(cls, other):
        type(cls).asked += 1
        return False


class Nothing(metaclass=Counted):
    pass


@same_as_eager
def test_a_metaclass_answers_for_a_class_in_a_tuple_in_a_tuple(x):
    Counted.asked = 0
    return x + 1, issubclass(int, ((Nothing,),)), issubclass(int, (str, (float, (int | None,)))), Counted.asked


@same_as_eager
def test_fields_of_struct_sequences_are_replaced(x):
    if sys.version_info < (3, 13):
        return x + 1
    made = time.gmtime(0)
    changed = copy.replace(made, tm_year=5, tm_zone="here")
    return x + 1, changed, changed.tm_zone, type(changed), errors_of(
        lambda: copy.replace(made, other=1), lambda: copy.replace(os.stat_result(range(10)), st_mode=1)
    )


def test_a_class_of_the_frame_goes_with_it_after_a_break():
    def program(x):
        class Held:
            table = {}
            state = gc.get_count()  # breaks

        Held.table[Held] = None
        gc.get_count()  # breaks again
        held = weakref.ref(Held)
        name = Held.__name__
        del Held
        gc.collect()
        return x + 1, held, name

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        result, held, name = compiled(X)
        assert (held(), name) == (None, "Held")
        torch.testing.assert_close(result, X + 1)


def test_a_class_of_the_frame_goes_with_it_after_a_call_of_its_method():
    def program(x):
        class Held:
            def __init__(self):
                self.value = 3

        print("a break")
        value = Held().value
        held = weakref.ref(Held)
        del Held
        gc.collect()
        return x + value, held

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        result, held = compiled(X)
        assert held() is None
        torch.testing.assert_close(result, X + 3)


def test_instances_of_a_class_that_is_to_go_beside_sizes_that_vary():
    made = type("Passing", (), {"value": 3})()
    compiled = jit.compile(lambda x, held: x + held.value, backend="eager")
    for size in (2, 3, 0, 4):
        torch.testing.assert_close(compiled(torch.ones(size), made), torch.ones(size) + 3)


class Mixed:
    pass


def test_a_class_may_have_the_address_of_one_that_is_gone():
    def program(x, holder):
        return x + holder.first + holder.second, isinstance(holder.item, Mixed)

    compiled = jit.compile(program, backend="eager")
    holder = Bare()
    holder.item, holder.first, holder.second = Bare(), 1, 2
    for is_mixed in (True, False, True, True, False, False):
        holder.item.__class__ = type("Passing", (Bare, Mixed) if is_mixed else (Bare,), {})
        for _ in range(3):
            assert compiled(X, holder)[1] is is_mixed
        holder.item.__class__ = Bare
        gc.collect()


@same_as_eager
def test_a_class_is_there_after_what_led_to_it_was_let_go_of(x):
    made = type("Passing", (), {"value": 3})()
    print("a break")
    cls = type(made)
    del made
    print("another")
    name = cls.__name__
    again = cls()
    return x + again.value, name, type(again) is cls


# --- values that only look at their class, and what Python makes of answers -----------------------------------------------
class Unequal:
    def __eq__(self, other):
        raise LookupError("not to be compared")


@same_as_eager
def test_slices_compare_their_parts(x):
    one, other = slice(Unequal()), slice(Unequal())
    compared = errors_of(lambda: one == other, lambda: one != slice(1), lambda: slice(2) == other, lambda: one < other)
    return x + 1, one == one, one <= one, one == 1, compared


class Answers:
    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value

    __float__ = __complex__ = __int__


@pytest.mark.parametrize("kind", (int, float, complex))
def test_what_conversions_are_answered_is_judged(kind):
    @same_as_eager
    def convert(x):
        return x + 1, errors_of(*(lambda value=value: kind(Answers(value)) for value in (None, 1, 1.5, 1j, "1")))

    convert()


@same_as_eager
def test_conversions_of_buffers_and_of_what_is_not_known(x):
    digits = sys.get_int_max_str_digits()
    return x + 1, int("1" * digits, 2) % 7, int("1" * digits, base=8) % 7, complex(digits, digits), int(memoryview(b"12"))


class Formats:
    def __format__(self, spec):
        return "class"

    def __round__(self):
        return "class"


@same_as_eager
def test_what_an_instance_has_does_not_format_it(x):
    it = Formats()
    it.__format__ = it.__round__ = lambda *args: "instance"
    return x + 1, f"{it}", format(it), round(it), it.__format__(""), it.__round__()


@same_as_eager
def test_a_list_that_is_filled_and_emptied_while_it_is_sorted(x):
    def key(number):
        numbers.append(number)
        return numbers.pop()

    numbers = [2, 1]
    return x + 1, errors_of(lambda: numbers.sort(key=key)), numbers


@same_as_eager
def test_a_module_is_written_to_and_its_dict_read(x):
    module = types.ModuleType("made")
    names = vars(module)
    module.one = 1
    return x + 1, names["one"], names.get("one"), "one" in names, len(module.__dict__), bool(names)


def test_aliases_of_aliases_of_objects_that_another_call_has_others_of():
    @jit.compile(backend="eager")
    def alias(parameter):
        return collections.abc.Callable[typing.Concatenate[int, parameter], int]

    for name in ("One", "Two"):
        parameter = typing.ParamSpec(name)
        assert alias(parameter).__args__[0].__args__[1] is parameter


@same_as_eager
def test_a_cell_that_is_emptied_from_outside(x):
    def inner():
        return value

    value = 1
    del inner.__closure__[0].cell_contents
    jit.graph_break()
    found = []
    try:
        inner()
    except NameError as error:
        found.append(str(error))
    try:
        value  # noqa: B018
    except UnboundLocalError as error:
        found.append(str(error))
    return x + 1, found


class Partial(functools.partial):
    pass


@same_as_eager
def test_partials_of_a_derived_class(x):
    inner = Partial(max, 1)
    outer = Partial(inner, 2)
    return x + 1, outer.func is max, outer.args


# --- classes of the frame, and classes that look at themselves --------------------------------------------------------
@same_as_eager
def test_a_class_that_its_own_attributes_hold(x):
    class Holds:
        held = []
        by_name = {}

        def get(self):
            return Holds

    Holds.held.append(Holds)
    Holds.by_name["one"] = Holds()
    return x + 1, Holds.__module__, Holds.__qualname__, Holds.held[0] is Holds, type(Holds.by_name["one"]) is Holds


def test_a_class_that_its_own_attributes_hold_is_what_the_body_made():
    @jit.compile(backend="eager")
    def make():
        class Holds:
            held = []

        Holds.held.append(Holds)
        return Holds

    made = make()
    assert made.held == [made] and made.__module__ == __name__ and made.__qualname__.endswith("make.<locals>.Holds")


@pytest.mark.skipif(not COUNTING, reason="continuations hold what they were made for")
def test_the_end_of_a_class_of_the_frame():
    @jit.compile(backend="eager")
    def is_gone():
        class Gone:
            pass

        reference = weakref.ref(Gone)
        del Gone
        gc.collect(0)
        return reference() is None

    assert is_gone() and is_gone()


class Looks(type):
    def __getattribute__(cls, name):
        LOOKED.append(name)
        return type.__getattribute__(cls, name)


LOOKED = []


class Looked(metaclass=Looks):
    number = 3


def test_a_metaclass_is_asked_by_the_program_alone():
    @jit.compile(backend="eager")
    def look(x):
        return x * Looked.number, list(LOOKED)

    for _ in range(2):
        del LOOKED[:]
        assert look(X)[1] == ["number"]


@same_as_eager
def test_unions_of_one_parameter(x):
    one = typing.TypeVar("one")
    jit.graph_break()
    return x + 1, typing.Union[one] is one, typing.Union[one, one] is one, typing.Optional[one] == typing.Union[one, None]


# --- enums ------------------------------------------------------------------------------------------------------------
class Color(enum.Enum):
    RED = 1

    @classmethod
    def _missing_(cls, value):
        return 5 if value == "five" else None


@same_as_eager
def test_the_context_of_what_an_enum_raises(x):
    found = []
    for value in ("five", 7):
        try:
            Color(value)
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error), repr(error.__context__)))
    return x + 1, found


@same_as_eager
def test_new_of_an_enum_through_super(x):
    def make():
        class Bad(enum.IntEnum):
            def __new__(cls, value):
                return super().__new__(cls, value)

            ONE = 1

    return x + 1, errors_of(make)


@same_as_eager
def test_a_name_that_an_enum_gets_twice(x):
    def make():
        class Twice(enum.Enum):
            vars().update({"ONE": 1}, **{"ONE": 2})

    return x + 1, errors_of(make)


# --- deques -----------------------------------------------------------------------------------------------------------
class WalksOtherwise(deque):
    def __iter__(self):
        return iter("walked")


class MakesLists(deque):
    def __new__(cls, *args):
        return [*args] if args else super().__new__(cls)


@same_as_eager
def test_deques_of_derived_classes_are_added_and_copied(x):
    odd, made = WalksOtherwise([1]), MakesLists()
    refused = errors_of(lambda: made * 2, lambda: made + deque([1]), lambda: made.copy(), lambda: deque() + [1])
    return x + 1, deque([1, 2]) + odd, deque([1]) + deque([2]), refused


@same_as_eager
def test_both_ends_of_deques(x):
    found = deque([1, 2, 3], 3)
    found.append(4)
    found.appendleft(5)
    taken = found.pop(), found.popleft()
    none = deque((), 0)
    none.append(1)
    none.appendleft(1)
    return x + found[0], taken, found, none, errors_of(none.pop, none.popleft, lambda: found[1:], lambda: found.pop(0))


# --- what Python says of objects without a special method ------------------------------------------------------------
class Bare:
    pass


BARE_IS_NO = {
    "iterable": lambda it: [*it],
    "pair": lambda it: [a for a, b in [it]],
    "sequence": lambda it: it[0],
    "mapping": lambda it: it.update,
    "container": lambda it: 1 in it,
    "function": lambda it: it(),
    "iterator": next,
    "sized": len,
    "number": lambda it: -it,
    "text": "".join,
    "thing to count in": lambda it: operator.countOf(it, 1),
    "thing to add": lambda it: operator.concat(it, it),
}


@same_as_eager
def test_objects_without_special_methods(x):
    bare = Bare()

    def store():
        bare[0] = 1

    def delete():
        del bare[0]

    refused = {name: errors_of(lambda use=use: use(bare)) for name, use in BARE_IS_NO.items()}
    return x + 1, refused, errors_of(store, delete, lambda: operator.concat(3, 3))


class Odd:
    def __hash__(self):
        return hash("odd")

    def __eq__(self, other):
        raise LookupError


def test_a_class_with_a_name_that_is_no_text():
    made = type("HasOdd", (), {Odd(): 5})
    found = jit.compile(lambda x: (x + 1, hasattr(made, "other"), made.__name__), backend="eager")(X)
    assert found[1:] == (False, "HasOdd")


@same_as_eager
def test_flags_of_a_class(x):
    return x + 1, Bare.__flags__ & 512, Bare.__flags__ & 1 << 20


@same_as_eager
def test_cycles_that_were_told_their_state(x):
    cycle = itertools.cycle("ab")
    cycle.__setstate__((["c"], 1))
    jit.graph_break()
    return x + 1, [next(cycle) for _ in range(4)]


def test_a_submodule_that_is_imported_by_a_from_import(monkeypatch):
    monkeypatch.delattr(json, "tool", raising=False)
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)

    @jit.compile(backend="eager")
    def name():
        from json import tool

        return tool.__name__

    assert name() == name() == "json.tool"


def test_names_of_a_module_are_gone_over_while_it_is_compiled_again(monkeypatch, caplog):
    """Nothing is noted among them, nor among the warnings that the program records."""
    module = types.ModuleType("names")
    code = compile("def program(x):\n    return x + 1, [(len(k), v) for k, v in globals().items() if k in 'abcdef']", __file__, "exec")
    exec(code, vars(module))
    for at, name in enumerate("abcdef"):
        setattr(module, name, at)
    compiled = jit.compile(module.program, backend="eager")
    monkeypatch.setattr(jit.config, "recompile_limit", 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert compiled(torch.ones(1))[1] == [(1, at) for at in range(6)]
    assert "runs eagerly for new inputs" in caplog.text and not caught
    assert "__warningregistry__" not in vars(module)


class Named:
    def __init__(self):
        self.names = []

    def __set_name__(self, owner, name):
        self.names.append((owner.__name__, name))


@same_as_eager
def test_what_the_default_of_a_field_is_told_is_told_once(x):
    default = Named()

    @dataclasses.dataclass
    class Held:
        first: int = 1
        second: object = dataclasses.field(default=default, init=False)
    return x + 1, Held(2).first, default.names


DEFAULT = Named()


def test_what_an_existing_default_of_a_field_is_told_is_told_once():
    @jit.compile(backend="eager")
    def program(x):
        @dataclasses.dataclass
        class Held:
            first: object = dataclasses.field(default=DEFAULT)
        return x + 1, Held(2).first

    del DEFAULT.names[:]
    assert program(X)[1] == program(X)[1] == 2
    assert DEFAULT.names == [("Held", "first")] * 2


@same_as_eager
def test_a_call_that_exhausts_the_iterator_it_is_asked_by(x):
    asked = []

    def answer():
        asked.append(len(asked))
        if len(asked) == 1:
            asked.append(list(iterator))
        return 1 if len(asked) < 3 else 2
    iterator = iter(answer, 2)
    return x + 1, next(iterator, "nothing"), asked


class Unlimited:
    def __getitem__(self, index):
        return index


@same_as_eager
def test_an_iterator_that_can_count_no_further(x):
    iterator = iter(Unlimited())
    iterator.__setstate__(sys.maxsize - 1)
    found = [next(iterator)]
    for _ in range(2):
        try:
            found.append(next(iterator))
        except OverflowError as error:
            found.append(str(error))
    return x + 1, found


SPEC = importlib.util.find_spec("_functools")
ANOTHER = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ANOTHER)
assert ANOTHER.partial is not functools.partial


@same_as_eager
def test_partials_of_partials_of_another_copy_of_the_module(x):
    inner = ANOTHER.partial(max, 1)
    return x + 1, inner.func is max, ANOTHER.partial(inner, 2).args


class Twice(enum.EnumMeta):
    def __new__(metacls, name, bases, namespace, **keywords):
        for key in list(namespace._member_names):
            namespace[f"{key}_again"] = f"-{namespace[key]}"
        return super().__new__(metacls, name, bases, namespace, **keywords)


@same_as_eager
def test_an_enum_whose_metaclass_adds_members(x):
    class Base(enum.Enum, metaclass=Twice):
        pass

    class Made(Base):
        a = "x"
        b = "y"
    return x + 1, [(each.name, each.value) for each in Made]


# --- typing -------------------------------------------------------------------------------------------------------------
@same_as_eager(make=lambda: (X, list[int]), changed=[lambda: (X, dict[str, int]), lambda: (X, typing.Optional[int])])
def test_what_another_alias_is_made_of(x, alias):
    return x + 1, typing.get_args(alias), typing.get_origin(alias)


ONE, OTHER = typing.Annotated[int, 1], typing.Annotated[str, {}]


@same_as_eager(make=lambda: (X, ONE), changed=[lambda: (X, typing.Annotated[int, []]), lambda: (X, list[int])])
def test_unions_of_aliases_that_have_no_hash(x, alias):
    makers = (lambda: alias | str, lambda: typing.Optional[alias], lambda: typing.Union[OTHER, alias])
    return x + 1, errors_of(*(lambda make=make: repr(make()) for make in makers))  # equal ones are those of the cache


@same_as_eager
def test_a_union_of_what_has_no_hash_is_united_again(x):
    return x + 1, errors_of(lambda: repr(int | OTHER | ONE | str), lambda: repr(OTHER | ONE | int))


class Documented:
    def __init__(self, text):
        self.__doc__ = text


@same_as_eager(make=lambda: (X, Documented("one")), changed=[lambda: (X, Documented("another"))])
def test_what_another_object_says_of_itself(x, documented):
    return x + 1, inspect.getdoc(documented)


T = typing.TypeVar("T")


@same_as_eager
def test_the_module_of_a_variable_of_types(x):
    made = typing.TypeVar("made")
    return x + 1, T.__module__, made.__module__, typing.TypeVar.__module__, errors_of(lambda: T.nothing)


@same_as_eager
def test_super_tells_a_native_class_of_a_class_derived_from_it(x):
    class Base(typing.Generic[T]):
        def __init_subclass__(cls, **keywords):
            super().__init_subclass__(**keywords)
            cls.said = cls.__name__

    class Derived(Base):
        pass

    return x + 1, Derived.said


class AsObjects(type):
    def __setattr__(cls, name, value):
        object.__setattr__(cls, name, value)

    def __delattr__(cls, name):
        object.__delattr__(cls, name)


class Refuses(metaclass=AsObjects):
    there = 1


def store(cls):
    cls.made = 1


def delete(cls):
    del cls.there


@same_as_eager
def test_classes_have_no_attributes_set_as_those_of_objects(x):
    class Own(metaclass=AsObjects):
        there = 2

    refused = errors_of(lambda: store(Refuses), lambda: delete(Refuses), lambda: store(Own), lambda: delete(Own))
    return x + 1, refused, Refuses.there, Own.there, errors_of(lambda: object.__setattr__(Refuses))


def made_with_names_of_their_own():
    """Classes of a metaclass that says itself what `__dict__` is, and of one whose own metaclass does."""

    class Meta(type):
        @property
        def __dict__(cls):
            cls.was_asked = True

    class Thing(metaclass=Meta):
        was_asked = False
        there = staticmethod(abs)

        def __init__(self):
            self.spam = 42

        def __eq__(self, other):
            return self.spam == other.spam

    class Derived(Thing):
        def __init__(self):
            super().__init__()
            self.more = 1

    class MetaOfMeta(type):
        @property
        def __dict__(cls):
            cls.was_asked = True
            return {"spam": 42}

    class Meant(type, metaclass=MetaOfMeta):
        was_asked = False

    class Meek(metaclass=Meant):
        pass

    return Thing, Derived, Meek


def use_with_names_of_their_own(x, Thing, Derived, Meek):
    one, two = Thing(), Derived()
    Derived.stored = 3
    found = inspect.getattr_static(one, "spam"), two.spam, two.more, one == two, Thing.there(-1), two.stored
    del Derived.stored
    refused = errors_of(lambda: inspect.getattr_static(Meek, "spam"), lambda: Thing.nothing, lambda: two.stored)
    one.__class__ = Derived
    return x + 1, found, refused, type(one) is Derived, Thing.was_asked, Meek.was_asked


@same_as_eager
def test_what_a_metaclass_says_of_names_is_not_asked_of_classes_of_the_frame(x):
    return use_with_names_of_their_own(x, *made_with_names_of_their_own())


def test_what_a_metaclass_says_of_names_is_not_asked_of_existing_classes():
    classes = made_with_names_of_their_own()
    _, *expected = use_with_names_of_their_own(X, *classes)
    compiled = jit.compile(use_with_names_of_their_own, backend="eager")
    for _ in range(3):
        assert compiled(X, *classes)[1:] == (*expected,)


def test_a_question_about_a_signature_of_c_leaves_its_module_to_the_program():
    def ask(x):
        before = sorted(vars(marshal))
        said = [str(inspect.signature(found)) for name, found in sorted(vars(marshal).items()) if name.endswith("s")]
        return x + 1, before, said, sorted(vars(marshal))

    def fresh():
        vars(marshal).pop("__builtins__", None)

    fresh()
    _, *expected = ask(X)
    compiled = jit.compile(ask, backend="eager")
    for _ in range(2):
        fresh()
        assert compiled(X)[1:] == (*expected,)


@same_as_eager
def test_a_modules_annotations_are_made_when_they_are_asked_for(x):
    module = sys.modules.setdefault("without_annotations", types.ModuleType("without_annotations"))
    vars(module).pop("__annotations__", None)
    before = "__annotations__" in vars(module)
    made = module.__annotations__
    made["x"] = int
    again = module.__annotations__ is made
    del module.__annotations__
    return x + 1, before, made, again, module.__annotations__, hasattr(module, "__annotations__")


def test_a_modules_annotations_are_not_made_while_compiling():
    module = types.ModuleType("names")

    def ask(x, does):
        return x + 1, module.__annotations__ if does else "__annotations__" in vars(module)

    compiled = jit.compile(ask, backend="eager")
    assert compiled(X, False)[1] is False
    for _ in range(2):
        assert compiled(X, True)[1] is module.__annotations__ == {}
        assert compiled(X, False)[1] is True


@pytest.mark.parametrize("meta", (type, abc.ABCMeta))
def test_a_class_s_annotations_are_made_when_they_are_asked_for(meta):
    def ask(x, cls, does):
        born = meta("Born", (), {"__module__": "there"})
        made = getattr(born, "__annotations__", None)
        own = "__annotations__" in vars(born), made is born.__annotations__
        there = "__annotations__" in cls.__dict__
        return x + 1, own, there, does and (getattr(cls, "__annotations__", 5), hasattr(int, "__annotations__"))

    compiled = jit.compile(ask, backend="eager")
    for fn in (ask, compiled):
        one = meta("One", (), {})
        derived = meta("Derived", (one,), {})
        assert fn(X, derived, False)[1:] == ((True, True), False, False)
        assert fn(X, derived, True)[1:] == ((True, True), False, ({}, False))
        assert "__annotations__" in vars(derived) and "__annotations__" not in vars(one)
        assert fn(X, derived, True)[1:] == ((True, True), True, ({}, False))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has nothing that replaces what a function calls")
def test_a_function_that_runs_other_code():
    replace = importlib.import_module("_testcapi").function_setvectorcall

    def program(x):
        def called(number):
            return number + 1

        class Answering:
            def __getattribute__(self, name):
                return name

        answers = Answering()
        before = called(10), answers.a
        replace(called)
        replace(Answering.__getattribute__)
        return before, [(called(10), answers.a) for _ in range(3)], x + 1

    check(program, torch.ones(2))


def test_closing_what_is_left_at_the_end():
    """The first of two that are closed there was forgotten while they were gone through."""

    def program(x):
        def inner():
            try:
                yield x
            finally:
                yield x + 1

        def outer():
            yield from inner()

        held = []
        for _ in range(2):
            made = outer()
            next(made)
            try:
                made.close()
            except RuntimeError as error:
                held.append(error)
        return x * len(held)

    check(program, torch.ones(2))
