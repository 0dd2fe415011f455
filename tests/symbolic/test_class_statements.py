"""Classes made in the frame: one graph, and the class, its instances and what hooks did are as eager code makes them."""

import abc
import collections
import dataclasses
import enum
import functools
import gc
import typing

import pytest
import torch

import jit
from tests.differential import COUNTING, check, tensors

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def picture(value):
    """What can be seen of the classes in a result."""
    if isinstance(value, (tuple, list)):
        return [picture(item) for item in value]
    cls = value if isinstance(value, type) else type(value)
    if "<locals>" not in cls.__qualname__:
        return cls.__name__
    attributes = [(name, type(raw).__name__, getattr(raw, "__name__", None)) for name, raw in vars(cls).items()]
    shown = (cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__, type(cls).__name__)
    return [*shown, [base.__name__ for base in cls.__mro__], attributes, repr(getattr(cls, "__annotations__", None))]


def look(result, x):
    return picture(result)


@program
def class_with_methods(x):
    class A:
        k = 3
        def __init__(self, v): self.v = v
        def f(self): return self.v * self.k
    return A(x).f()


@program
def super_properties_and_methods_of_each_kind(x):
    class A:
        def __init__(self, v): self.v = v
        def f(self): return self.v + 1
    class B(A):
        def __init__(self, v):
            super().__init__(v * 2)
        def f(self): return super().f() * 2
        @property
        def p(self): return self.v - 1
        @staticmethod
        def s(y): return y + 2
        @classmethod
        def c(cls, y): return cls(y)
    b = B(x)
    return b.f() + b.p + B.s(x) + B.c(x).f() + b.s(x) + b.c(x).v, isinstance(b, A), type(b) is B, B.__mro__[1] is A


@program
def class_and_instance_returned(x):
    class A:
        k = 3
        def f(self): return x * self.k
    a = A()
    a.z = x
    return a, A, x + 1


@program
def init_subclass_and_set_name_run_in_order(x):
    log = []
    class Base:
        def __init_subclass__(cls, tag=None, **kw):
            super().__init_subclass__(**kw)
            cls.tag = tag
            log.append(cls.__name__)
    class D:
        def __set_name__(self, owner, name):
            self.name = name; log.append(name)
        def __get__(self, obj, cls): return (self.name, x)
    class C(Base, tag=5):
        d = D()
    return C().d, C.tag, log, C, x + 1


@program
def metaclass_with_prepare_new_init_call(x):
    class M(type):
        @classmethod
        def __prepare__(mcls, name, bases, **kw): return {"pre": 7}
        def __new__(mcls, name, bases, ns, flag=0):
            ns["added"] = flag
            return super().__new__(mcls, name, bases, ns)
        def __init__(cls, name, bases, ns, flag=0):
            super().__init__(name, bases, ns)
            cls.inited = len(name)
        def __call__(cls, *a):
            o = super().__call__(*a)
            o.called = True
            return o
        def hello(cls): return cls.added + 1
    class A(metaclass=M, flag=4):
        z = pre + 1
        def __init__(self, v): self.v = v
    a = A(x)
    return a.v * A.z + A.added + A.inited, a.called, A.hello(), A, a


@program
def dataclass_with_a_factory(x):
    @dataclasses.dataclass
    class P:
        a: torch.Tensor
        b: int = 2
        c: list = dataclasses.field(default_factory=list)
        def area(self): return self.a * self.b
    p = P(x); q = P(x, 3)
    q.c.append(1)
    return p.area() + q.area(), p, P, q.c, [f.name for f in dataclasses.fields(P)]


@program
def frozen_ordered_dataclass(x):
    @dataclasses.dataclass(frozen=True, order=True)
    class P:
        a: int
        b: int = 2
    return x + (P(1) < P(2)) , P(1) == P(1), P(4), hash(P(1)) == hash(P(1))


@program
def total_ordering(x):
    @functools.total_ordering
    class V:
        def __init__(self, n): self.n = n
        def __lt__(self, o): return self.n < o.n
        def __eq__(self, o): return self.n == o.n
    return x + 1 if V(1) <= V(2) and V(3) >= V(2) else x, V


@program
def enum_with_methods(x):
    class C(enum.Enum):
        RED = 1
        BLUE = 2
        def dbl(self): return self.value * 2
    return x * C.RED.value + C.BLUE.dbl(), C.BLUE, [c.name for c in C], C(1) is C.RED, C


@program
def enum_of_autos(x):
    class C(enum.IntEnum):
        RED = enum.auto()
        BLUE = enum.auto()
    return x * C.BLUE, C.RED


@program
def typing_namedtuple(x):
    class P(typing.NamedTuple):
        a: int
        b: object = 5
        def s(self): return self.a + self.b
    p = P(x, 2)
    return p.s(), p, P(1), p._replace(b=3), P


@program
def collections_namedtuple(x):
    P = collections.namedtuple("P", "a b", defaults=[4])
    p = P(x)
    return p.a + p.b, p, P


@program
def module_class(x):
    class Net(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n
        def forward(self, y): return torch.relu(y) * self.n
    return Net(3)(x)


@program
def abstract_base(x):
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self): ...
    class B(A):
        def f(self): return x * 2
    return B().f(), B, isinstance(B(), A)


@program
def type_with_three_arguments(x):
    T = type("T", (dict,), {"f": lambda self: self["k"] + 1, "n": 3})
    t = T(k=x)
    return t.f() * T.n, t


@program
def slots(x):
    class S:
        __slots__ = ("a", "b")
        def __init__(self, a): self.a = a
    s = S(x)
    return s.a + 1, s


T = typing.TypeVar("T")


@program
def generic(x):
    class G(typing.Generic[T]):
        def __init__(self, v): self.v = v
    return G(x).v + 1, G


@program
def exception_class(x):
    class E(ValueError):
        def __init__(self, m, c): super().__init__(m); self.c = c
    try: raise E("a", 3)
    except E as e: return x + e.c, str(e), E


@program
def class_that_nobody_keeps(x):
    class A: pass
    A.z = 3
    del A.z
    return x + hasattr(A, "z")


@program
def property_setter_and_cached_property(x):
    class A:
        def __init__(self): self._v = x
        @property
        def v(self): return self._v
        @v.setter
        def v(self, n): self._v = n * 2
        @functools.cached_property
        def w(self): return self._v + 1
        def __eq__(self, o): return True
    a = A()
    a.v = x + 1
    return a.v + a.w, a, A.__hash__ is None


@program
def class_that_holds_its_instance(x):
    class N:
        root = None
        def __init__(self, v): self.v = v; self.kids = []
        def add(self, v):
            n = N(v); self.kids.append(n); return n
    N.root = N(x)
    N.root.add(x * 2)
    return N.root.kids[0].v + 1, N


@program
def autograd_function(x):
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y): ctx.save_for_backward(y); return y * 2
        @staticmethod
        def backward(ctx, g): return g * 3
    return F.apply(x)


@program
def classes_of_a_loop(x):
    out = []
    for i in range(3):
        class A:
            n = i
            def f(self): return x + self.n
        out.append(A)
    return sum(a().f() for a in out), out


@program
def body_that_reads_cells(x):
    y = x + 1
    class A:
        z = y * 2
        def f(self): return y + self.z
    return A().f(), A


@program
def nested_class(x):
    class A:
        class B:
            q = 2
        def f(self): return x * self.B.q
    return A().f(), A.B, A.__qualname__, A.B.__qualname__, A.__module__


@program
def annotations(x):
    class A:
        a: typing.Optional[int] = 3
        b: "list[int]"
        c: list[int]
        d: dict[str, torch.Tensor] = None
        e: int | None
    class B:
        x: A
        y: list[A]
        z: A | None
        w: typing.Optional[A]
    return x + A.a, A, B.__annotations__["x"] is A, A.__annotations__, B


@program
def aliases_and_unions_of_the_class(x):
    class A: pass
    t = list[A]
    u = int | A
    return x + 1, t, u, A


@program
def descriptor_and_live_attributes(x):
    class D:
        def __get__(self, o, c): return x + o.q
        def __set__(self, o, v): o.q = v
    class A:
        d = D()
        t = x * 2
        l = [1]
    a = A()
    a.d = 4
    A.l.append(x)
    return a.d + A.t + a.t, A, a, A.d2 if hasattr(A, "d2") else 0


@program
def decorator_that_stores(x):
    def dec(cls):
        cls.extra = lambda self: x + 1
        return cls
    @dec
    class A:
        def __init_subclass__(cls): cls.sub = cls.__name__
    class B(A): pass
    return B().extra(), B.sub, A, B


@program
def inherited_dataclass(x):
    @dataclasses.dataclass
    class A:
        v: object
        n: int = 1
        def __post_init__(self): self.v = self.v * self.n
    @dataclasses.dataclass
    class B(A):
        m: object = x
    b = B(x, 2)
    return b.v + b.m, b, dataclasses.replace(b, n=1), dataclasses.asdict(A(1, 2)), repr(A(1,2)), B.__init__


@program
def module_instance_returned(x):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(3, 3)
            torch.nn.init.ones_(self.lin.weight); torch.nn.init.ones_(self.lin.bias)
        def forward(self, y): return self.lin(y)
    n = Net()
    return n(x), n


@program
def body_that_raises(x):
    out = 0
    try:
        class A:
            a = 1
            raise ValueError("q")
    except ValueError as e:
        out = str(e)
    return x + 1, out


@program
def metaclass_conflict(x):
    class M1(type): pass
    class M2(type): pass
    class A(metaclass=M1): pass
    class B(metaclass=M2): pass
    try:
        class C(A, B): pass
    except TypeError as e:
        out = str(e)[:20]
    return x + 1, out


class Reg:
    seen = []
    def __init_subclass__(cls, **kw):
        cls.num = len(Reg.seen)
        Reg.seen.append(cls.__name__)


@program
def existing_registry(x):
    class A(Reg): pass
    class B(A): pass
    return x + A.num + B.num, len(Reg.seen)


class Plug(torch.nn.Module):
    reg = {}
    def __init_subclass__(cls): Plug.reg[cls.__name__] = cls


@program
def registry_of_modules(x):
    class A(Plug):
        def forward(self, y): return y * 2
    return A()(x)


@program
def method_replaced(x):
    class Base:
        def go(self): return self.h(x)
    class A(Base):
        def h(self, y): return y + 1
    Base.h = lambda self, y: y - 1
    del A.h
    return A().go(), A


class G0:
    v = 1


@program
def existing_base(x):
    class A(G0):
        pass
    return x + A.v + A().v, A


@program
def classes_as_keys(x):
    class A: pass
    class B: pass
    d = {A: 1, B: 2}
    return x + d[A], d, A in d, {A(): 1}


@program
def class_in_a_branch(x, flag=True):
    if flag:
        class A: v = 1
    else:
        class A: v = 2
    return x * A.v, A.__doc__


@program
def decorated_methods(x):
    def deco(f):
        @functools.wraps(f)
        def w(self, *a): return f(self, *a) + 1
        return w
    class A:
        """Docs."""
        @deco
        def f(self, y):
            "fdoc"
            return y * 2
        @staticmethod
        @deco
        def g(y): return y
    return A().f(x) + A.g(x), A, A.f.__doc__, A.f.__wrapped__


@program
def context_manager(x):
    class C:
        def __enter__(self): return self
        def __exit__(self, *a): self.left = True; return True
    c = C()
    with c as d: raise ValueError
    return x + 1, c.left, c


@program
def iterator_class(x):
    class I:
        def __init__(self): self.n = 0
        def __iter__(self): return self
        def __next__(self):
            self.n += 1
            if self.n > 3: raise StopIteration
            return x * self.n
    return sum(I())


@program
def hash_and_eq(x):
    class K:
        def __init__(self, n): self.n = n
        def __hash__(self): return hash(self.n)
        def __eq__(self, o): return self.n == o.n
    d = {K(1): x}
    return d[K(1)] + 1, d


@program
def attribute_hooks(x):
    class K:
        def __getattr__(self, n):
            if n.startswith("__"): raise AttributeError(n)
            return (n, x)
        def __setattr__(self, n, v): object.__setattr__(self, n, v * 2)
    k = K(); k.a = x
    return k.a + 1, k.zz[0], k


@program
def global_class(x):
    global GA
    class GA:
        v = x
    return GA.v + 1


@program
def cell_shared_with_the_function(x):
    n = 0
    class A:
        def inc(self):
            nonlocal n
            n += 1
            return n
    a = A(); a.inc()
    return x + a.inc(), A, n, a.inc


@program
def types_of_types(x):
    T = type("T", (), {"v": 1})
    U = type("U", (T,), dict(w=x))
    return U.w + U.v, T, U


@program
def flags(x):
    class F(enum.Flag):
        A = 1
        B = 2
    return x + (F.A | F.B).value, F.A | F.B, F.A in (F.A | F.B), F(2)


@program
def enum_of_text(x):
    class S(str, enum.Enum):
        A = "a"
    d = {S.A: x}
    return d[S.A] + 1, d, S.A == "a", f"{S.A.value}"


@program
def protocol(x):
    class P(typing.Protocol):
        def f(self): ...
    class A:
        def f(self): return x + 1
    return A().f(), P


@dataclasses.dataclass
class Outer:
    a: int = 1


@program
def dataclass_of_an_existing_one(x):
    @dataclasses.dataclass
    class I(Outer):
        b: object = None
    i = I(b=x)
    return i.b + i.a, i, repr(I(2, 3)), I(1) == I(1)


@program
def typed_dict(x):
    class T(typing.TypedDict):
        a: int
    t = T(a=x)
    return t["a"] + 1, T


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_class_statement(fn):
    (x,) = tensors(2, 3)
    check(fn, x, graphs=1, then=look, changed=tensors(2, 3, seed=5))


@pytest.mark.skipif(not COUNTING, reason="continuations hold what they were made for")
def test_nobody_sees_what_stands_for_a_class():
    class Base:
        pass

    def program(x):
        class A(Base):
            pass
        return x + 1

    compiled = jit.compile(program, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2))
    gc.collect()
    assert Base.__subclasses__() == []


def test_a_class_whose_name_tells_of_what_varies():
    def program(x, n):
        try:
            made = type(f"Made{n}", (), {"number": n})
        except TypeError as error:
            return x, str(error)
        return x + made.number, made.__name__

    x, = tensors(3)
    check(program, x, 3, changed=[(x, 4), (x, 5)])


class StoresAsObjectsDo(type):
    def __setattr__(cls, name, value):
        object.__setattr__(cls, name, value)

    def __delattr__(cls, name):
        object.__delattr__(cls, name)


class Plain:
    pass


class Mixed(Plain, StoresAsObjectsDo):
    pass


class IsStoredTo(metaclass=StoresAsObjectsDo):
    held = 3


def test_what_objects_store_with_is_not_for_classes():
    def program(x):
        said = []
        for made in (IsStoredTo, Mixed("Made", (), {"held": 4})):
            try:
                made.held = 5
            except TypeError as error:
                said.append(str(error))
            try:
                del made.held
            except TypeError as error:
                said.append(str(error))
        return x + IsStoredTo.held, said

    check(program, *tensors(3), graphs=1)


def test_a_metaclass_that_registers_its_classes():
    """Each holds the other: the classes by their type, that by its register. The frame ran as it was."""
    def program(x):
        class Registers(type):
            known = {}

            def __new__(m, name, bases, space, *, key=None):
                made = super().__new__(m, name, bases, space)
                m.known[key or name] = made
                return made

        class Base(metaclass=Registers):
            pass

        class Derived(Base, key="derived"):
            pass

        return x + 1, Base, Derived, Derived()

    def judge(x):
        y, base, derived, made = program(x)
        known = type(base).known
        return y, known["Base"] is base, known["derived"] is derived is type(made), list(known), derived.__mro__[1] is base

    program = jit.compile(program, backend="eager", fullgraph=True) if COUNTING else program
    check(judge, *tensors(3), graphs=None)


def test_a_base_that_keeps_its_derived_classes():
    def program(x):
        class Base:
            derived = []

            def __init_subclass__(cls, **kwargs):
                super().__init_subclass__(**kwargs)
                cls.derived.append(cls)

        class First(Base):
            pass

        class Second(First):
            pass

        return x + 1, Base.derived == [First, Second], Second, First.derived is Second.derived

    check(program, *tensors(3), graphs=1)


class Marks(type):
    """Makes classes in its own way, whoever is called to make them."""

    def __new__(meta, name, bases, space, **keywords):
        return super().__new__(meta, name + "!", bases, {**space, "marked": sorted(keywords)})

    def __init__(cls, name, bases, space, **keywords):
        super().__init__(name, bases, space)
        cls.told = name


class Marked(metaclass=Marks):
    def __init_subclass__(cls, **keywords):
        pass


def test_type_leaves_it_to_the_metaclass_of_a_base():
    def program(x):
        first = type("First", (collections.UserDict,), {"__missing__": lambda self, key: key * 2})(a=1)
        second = type("Second", (Marked,), {"held": 3})
        third = type("Third", (Plain, second), {})
        fourth = type("Fourth", (abc.ABC,), {"f": abc.abstractmethod(lambda self: 1)})
        try:
            fourth()
        except TypeError as error:
            said = str(error)
        made = second, third, fourth, type(first)
        return x + second.held, first["zz"], first.data, second.told, second.marked, [each.__name__ for each in made], said, [type(each).__name__ for each in made]

    check(program, *tensors(3), graphs=1)
