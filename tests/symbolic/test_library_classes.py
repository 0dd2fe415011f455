"""Classes that the library makes in a frame: dataclasses with slots, enums, what `types` makes."""

import abc
import collections
import collections.abc
import copy
import dataclasses
import enum
import functools
import inspect
import pickle
import textwrap
import types
import typing
import unittest
import weakref

import numpy
import pytest
import torch

import jit
from tests.differential import check, execute, same_as_eager

T = typing.TypeVar("T")


@same_as_eager(graphs=1)
def test_slots(x):
    @dataclasses.dataclass(slots=True)
    class P:
        a: object
        b: int = 2
    p = P(x)
    return p.a * p.b, P.__slots__, hasattr(p, "__dict__"), repr(P(1)), P(1) == P(1)


@same_as_eager(graphs=1)
def test_slots_of_a_frozen_class(x):
    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class P:
        a: object
        b: int = 2
        c: list = dataclasses.field(default_factory=list, compare=False)
        def __post_init__(self): object.__setattr__(self, "b", self.b + 1)
    p = P(x); q = dataclasses.replace(p, b=10)
    try: p.b = 3
    except dataclasses.FrozenInstanceError as e: m = str(e)
    return q.a + 1, q.b, m, [f.name for f in dataclasses.fields(P)], dataclasses.asdict(P(1,2)), P(1,2) < P(1,3), hash(P(1,2)) == hash(P(1,2)), repr(P(1))


@same_as_eager(graphs=1)
def test_a_slot_for_weak_references(x):
    @dataclasses.dataclass(slots=True, weakref_slot=True)
    class P:
        a: object
    p = P(x); r = weakref.ref(p)
    return r().a + 1, P.__slots__


@same_as_eager(graphs=1)
def test_slots_of_a_derived_class(x):
    @dataclasses.dataclass(slots=True)
    class B:
        a: object
        def s(self): return self.a * 2
    @dataclasses.dataclass(slots=True)
    class P(B):
        b: int = 2
        def t(self): return B.s(self) + self.b
    return P(x).t(), P.__slots__, P(1, 2)


@same_as_eager(graphs=1)
def test_an_object_with_slots_is_returned(x):
    @dataclasses.dataclass(slots=True)
    class P:
        a: object
        b: int = 2
        def f(self): return self.b
    return P(x + 1)


@same_as_eager(graphs=1)
def test_slots_of_an_abstract_class(x):
    @dataclasses.dataclass(slots=True)
    class P(abc.ABC):
        a: object
        @abc.abstractmethod
        def f(self): ...
    @dataclasses.dataclass(slots=True)
    class Q(P):
        b: int = 3
        def f(self): return self.a * self.b
    return Q(x).f(), dataclasses.asdict(Q(1))


@same_as_eager(graphs=1)
def test_slots_of_a_generic_class(x):
    @dataclasses.dataclass(slots=True)
    class P(typing.Generic[T]):
        a: object
    return P[int](x).a + 1


@same_as_eager(graphs=1)
def test_slots_and_a_variable_of_init(x):
    @dataclasses.dataclass(slots=True, kw_only=True)
    class P:
        a: object
        b: dataclasses.InitVar[int] = 3
        def __post_init__(self, b): self.a = self.a * b
    return P(a=x).a, P(a=x, b=1)


@same_as_eager(graphs=1)
def test_objects_with_slots_are_copied(x):
    @dataclasses.dataclass(slots=True, frozen=True)
    class P:
        a: object
        b: int = 1
    p = P(x + 1)
    q = copy.copy(p)
    return q, copy.deepcopy(p).a


@same_as_eager(graphs=1)
def test_an_attribute_without_a_slot(x):
    @dataclasses.dataclass(slots=True)
    class P:
        a: object
    p = P(1)
    try: p.zz = 3
    except AttributeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_slots_that_are_there_already(x):
    try:
        @dataclasses.dataclass(slots=True)
        class P:
            __slots__ = ("a",)
            a: object
    except TypeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_what_a_class_with_slots_is(x):
    class B: pass
    @dataclasses.dataclass(slots=True)
    class P(B):
        a: object = None
    return x + 1, P.__base__ is B, P.__qualname__, P.__module__, P.__doc__, P.__match_args__


@same_as_eager(graphs=1)
def test_objects_with_slots_are_matched(x):
    @dataclasses.dataclass(slots=True)
    class P:
        a: object
        b: int
    match P(x, 2):
        case P(a, 2): return a + 1


@same_as_eager
def test_slots_under_a_hook_of_the_base(x):
    seen = []
    class B:
        def __init_subclass__(cls): seen.append(cls.__name__)
    @dataclasses.dataclass(slots=True)
    class P(B):
        a: object
    return x + 1, seen, P(1)


@same_as_eager
def test_slots_beside_a_descriptor(x):
    seen = []
    class D:
        def __set_name__(self, o, n): seen.append(n)
    @dataclasses.dataclass(slots=True)
    class P:
        a: object
        d = D()
    return x + 1, seen, P(1)


@same_as_eager
def test_super_of_the_class_without_slots(x):
    class B:
        def f(self): return 1
    @dataclasses.dataclass(slots=True)
    class P(B):
        a: object
        def f(self): return super().f()
    try: return x + P(1).f()
    except TypeError as e: return x - 1, str(e)


@same_as_eager(graphs=1)
def test_flags_of_flags(x):
    class Fl(enum.Flag):
        A = enum.auto(); B = enum.auto(); C = A | B
    return x * Fl.C.value, Fl.A in Fl.C, ~Fl.A, Fl.A | Fl.B == Fl.C, list(Fl), Fl(3)


@same_as_eager(graphs=1)
def test_members_of_members(x):
    class E(enum.Enum):
        A = 1; B = A; C = B + 1
    return x * E.C.value, E.B is E.A, E.__members__


@same_as_eager(graphs=1)
def test_a_member_twice(x):
    try:
        class E(enum.Enum):
            A = 1; A = 2
    except TypeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_enums_of_text_and_of_flags(x):
    class S(enum.StrEnum):
        A = enum.auto(); B = enum.auto()
    class I(enum.IntFlag):
        R = 4; W = 2; X = 1; ALL = R | W | X
    return x * I.ALL, S.A + S.B, I.R | I.W, I.ALL.name


@same_as_eager(graphs=1)
def test_methods_of_an_enum(x):
    class E(enum.Enum):
        A = enum.auto()
        B = enum.auto()
        @property
        def next(self): return E(self.value % 2 + 1)
        @classmethod
        def default(cls): return cls.A
        @staticmethod
        def n(): return 2
        def __str__(self): return "E." + self.name.lower()
    return x * E.B.value, E.A.next, E.default(), E.n(), str(E.B), f"{E.A}"


@same_as_eager(graphs=1)
def test_an_enum_that_is_unique(x):
    @enum.unique
    class E(enum.IntEnum):
        A = 1; B = 2
    return x * E.A, E["B"], E(2) in E, len(E), E.A < E.B, isinstance(E.A, int)


@same_as_eager(graphs=1)
def test_four_enums(x):
    class Color(enum.Enum):
        R = 1; G = 2
        @property
        def d(self): return self.value * 2
    class Fl(enum.Flag):
        A = enum.auto(); B = enum.auto(); C = A | B
    class I(enum.IntEnum): ONE = 1
    class S(enum.StrEnum): A = enum.auto()
    return x * Color.G.d, Color(1), Color["G"].name, list(Color), Fl.A | Fl.B == Fl.C, Fl.A in Fl.C, ~Fl.A, I.ONE + 1, f"{S.A}", [c.name for c in Color]


@same_as_eager(graphs=1)
def test_an_enum_of_text(x):
    class E(str, enum.Enum):
        A = "a"; B = "b"
    d = {E.A: x, E.B: x + 1}
    return d[E("b")], E.A == "a", E.B.upper()


@same_as_eager
def test_numbers_of_the_enum_s_own(x):
    class E(enum.Enum):
        def _generate_next_value_(name, start, count, last): return name.lower()
        A = enum.auto()
    return x + 1, E.A.value


@same_as_eager
def test_names_that_an_enum_ignores(x):
    class E(enum.Enum):
        _ignore_ = ["i"]
        A = 1
        for i in range(2): vars()[f"K{i}"] = i + 5
    return x + 1, list(E)


@same_as_eager
def test_an_enum_that_initialises_its_members(x):
    class E(enum.Enum):
        A = (1, "a"); B = (2, "b")
        def __init__(self, n, s): self.n = n; self.s = s
    return x * E.B.n, E.A.s


@same_as_eager
def test_members_that_say_so(x):
    class E(enum.Enum):
        A = enum.member(3)
        B = enum.nonmember(4)
    return x * E.A.value * E.B, list(E)


@same_as_eager(graphs=1)
def test_a_new_class(x):
    C = types.new_class("C", (), {}, lambda n: n.update(v=3))
    D = types.new_class("D", (C,))
    return x + C.v, C.__name__, D.__mro__ == (D, C, object), C.__module__


@same_as_eager(graphs=1)
def test_a_class_is_prepared(x):
    class M(type):
        @classmethod
        def __prepare__(m, name, bases, **k): return {"z": 1}
    meta, ns, kw = types.prepare_class("C", (object,), {"metaclass": M, "q": 1})
    return x + 1, meta is M, ns, kw, type.__prepare__("a", ()), types.resolve_bases((int,))


@same_as_eager(graphs=1)
def test_a_new_class_that_is_generic(x):
    C = types.new_class("C", (typing.Generic[T],), {}, None)
    return x + 1, C[int].__args__, C.__orig_bases__ == (typing.Generic[T],), types.resolve_bases((typing.Generic[T], int))


@same_as_eager(graphs=1)
def test_a_new_class_of_another_kind(x):
    class M(type): pass
    C = types.new_class("C", (), {"metaclass": M}, lambda n: n.setdefault("q", lambda self: 3))
    return x * C().q(), type(C) is M, M.__prepare__("a", ())


@same_as_eager(graphs=1)
def test_keywords_of_a_new_class(x):
    class B:
        def __init_subclass__(cls, k=0): cls.k = k
    C = types.new_class("C", (B,), {"k": 4})
    return x * C.k


@same_as_eager(graphs=1)
def test_the_body_of_a_new_class(x):
    def body(ns):
        def f(self): return x * 2
        ns["f"] = f
        ns["__doc__"] = "text"
    C = types.new_class("C", (object,), exec_body=body)
    return C().f(), C.__doc__, C.__qualname__


@same_as_eager(graphs=1)
def test_a_new_class_is_returned(x):
    return x + 1, types.new_class("C", (), {}, lambda n: n.update(v=3))


@same_as_eager(graphs=1)
def test_a_new_abstract_class(x):
    C = types.new_class("C", (abc.ABC,), {}, lambda n: n.update(v=3))
    return x * C.v, type(C)



def test_abstract_method_that_dispatches():
    def program(x):
        class Abstract(metaclass=abc.ABCMeta):
            @functools.singledispatchmethod
            @abc.abstractmethod
            def add(self, x, y):
                pass

        try:
            Abstract()
        except TypeError as error:
            return x + 1, str(error), Abstract.add.__isabstractmethod__

    check(program, torch.ones(3))


def test_members_that_classes_and_instances_tell_differently():
    def program(x):
        class Meta(type):
            def __getattr__(cls, name):
                return "scrambled" if name == "eggs" else super().__getattr__(name)

        class Dish(metaclass=Meta):
            @types.DynamicClassAttribute
            def eggs(self):
                return "plain"

        of_class, of_instance = dict(inspect.getmembers(Dish)), dict(inspect.getmembers(Dish()))
        return x + 1, of_class["eggs"], of_instance["eggs"]

    check(program, torch.ones(3))


class Samples(unittest.TestCase):
    Callable = collections.abc.Callable

    def method(self):
        global T_made, P_made, TS_made
        Callable = self.Callable
        T_made, P_made, TS_made = typing.TypeVar("T_made"), typing.ParamSpec("P_made"), typing.TypeVarTuple("TS_made")
        made = [
            Callable[[int, str], float],
            Callable[P_made, int],
            Callable[P_made, T_made],
            Callable[typing.Concatenate[int, P_made], int],
            Callable[typing.Concatenate[*TS_made, P_made], int],
        ]
        for alias in made:
            for protocol in range(2):
                with self.subTest(alias=alias, protocol=protocol):
                    loaded = pickle.loads(pickle.dumps(alias, protocol))
                    self.assertEqual(alias.__parameters__, loaded.__parameters__)


def test_what_is_made_of_a_tuple_of_type_variables():
    f = jit.compile(Samples.method)
    for _ in range(3):
        f(Samples("method"))


class Refuses:
    def __bool__(self):
        raise KeyError("of no truth")


#: of an array of truths `flag`, in the frame
FLAGS = """
dataclasses.dataclass(order=flag)(Plain)
dataclasses.dataclass(slots=True, frozen=flag)(Plain)
dataclasses.dataclass(order=Refuses())(Plain)
dataclasses.dataclass(type("Other", (), {"__annotations__": {"a": int}, "a": dataclasses.field(default=3, init=flag)}))
dataclasses.field(default=3, init=Refuses())
collections.namedtuple("Pair", "left right", rename=flag)
collections.namedtuple("Pair", "left right", rename=Refuses())
""".strip().splitlines()


@pytest.mark.parametrize("line", FLAGS)
def test_what_flags_are_asked_for_their_truth(line):
    """Though nobody has what is made."""
    scope = {"collections": collections, "dataclasses": dataclasses, "numpy": numpy, "Refuses": Refuses}
    execute(textwrap.dedent(f"""
        def program(x, items):
            class Plain:
                a: int = 3

            flag = numpy.float32(2) == items
            try:
                {line}
            except (KeyError, ValueError) as error:
                return str(error), x + 1
            return x + 1
    """), scope)
    check(scope["program"], torch.ones(2), ["a", "b"], changed=[(torch.ones(2), [1, 2]), (torch.ones(2), [2])])


def test_classes_made_in_globals_without_a_name():
    scope = {"collections": collections, "enum": enum}
    execute(textwrap.dedent("""
        def program(x):
            try:
                module = type("Plain", (), {}).__module__
            except AttributeError as error:
                module = str(error)
            pair, color = collections.namedtuple("Pair", "left right"), enum.Enum("Color", "RED GREEN")
            return x + 1, module, "__module__" in vars(type("Plain", (), {})), pair.__module__, color.__module__
    """), scope)
    check(scope["program"], torch.ones(2))
