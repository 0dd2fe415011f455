"""Classes made in a frame whose graph breaks: they are made before the break, and what comes after it has the real ones.
What Python refuses in a class statement breaks the graph, too."""

import abc
import dataclasses
import enum
import time
import typing

import pytest
import torch

import jit
from tests.differential import COUNTING, check, tensors
from tests.symbolic.test_class_statements import look

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


@program
def clock_after_a_class(x):
    class A:
        t = 3
    a = A()
    a.z = x + 1
    time.time()
    return a.z * A.t, a


@program
def clock_in_a_body(x):
    y = x * 2
    class A:
        t = time.time() > 0
        def f(self): return y + self.t
    return A().f(), A, x + 1


@program
def clock_in_a_nested_body(x):
    class A:
        class B:
            t = time.time() > 0
        u = B.t
    return x + A.u, A.B


@program
def classes_around_a_clock(x):
    log = []
    class A:
        def __init_subclass__(cls, **keywords): log.append((cls.__name__, keywords))
        def f(self, y): return y + 1
    class B(A, k=1):
        def f(self, y): return super().f(y) * 2
    time.time()
    class C(B, k=2):
        def f(self, y): return super().f(y) - x
    c = C()
    return c.f(x), C, log, isinstance(c, A), [each.__name__ for each in A.__subclasses__()], issubclass(B, A)


@program
def library_classes_before_a_clock(x):
    @dataclasses.dataclass
    class P:
        a: torch.Tensor
        b: int = 2
    class Color(enum.Enum):
        RED = 1
        BLUE = 2
    class N(typing.NamedTuple):
        n: int
    class E(ValueError): pass
    p, red, n = P(x), Color.RED, N(4)
    time.time()
    try:
        raise E("no")
    except ValueError as error:
        caught = type(error) is E
    return p.a * p.b, p, P(x) == p, red is Color.RED, Color(2), n, n.n, caught, P(x, 3).b, repr(n)


@program
def instance_in_a_loop_of_clocks(x):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
        def forward(self, y):
            self.calls += 1
            return torch.relu(y) * self.calls
    net = Net()
    for _ in range(4):
        time.time()
        x = net(x) + 1
    return x, net.calls, Net


@program
def class_changed_after_a_clock(x):
    class A:
        k = 1
    a = A()
    time.time()
    A.k = 5
    A.f = lambda self: x + self.k
    return a.f(), a.k, A


@program
def metaclass_before_a_clock(x):
    class M(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.called = True
            return made
    class A(metaclass=M):
        def __init__(self, v): self.v = v
    time.time()
    a = A(x)
    return a.v + 1, a.called, type(A) is M, A


@program
def classes_that_nobody_holds(x):
    class A: pass
    def make():
        class B(A): pass
        class C(A): pass
    make()
    time.time()
    return x + 1, [each.__name__ for each in A.__subclasses__()]


@program
def slots_made_by_a_dataclass(x):
    @dataclasses.dataclass(slots=True)
    class I:
        b: object = None
    return I(x).b + 1


@program
def subclasses(x):
    class A: pass
    class B(A): pass
    return x + 1, [c.__name__ for c in A.__subclasses__()], B


@program
def getitem_text(x):
    class C:
        def __class_getitem__(cls, item): return f"C[{item.__name__}]"
    return C[int] == "C[int]", C[C], x + 1


@program
def getitem_text_after_break(x):
    class C:
        def __class_getitem__(cls, item): return f"{cls.__name__}[{item.__name__}]"
    time.time()
    return C[int] == "C[int]", C[C], x + 1


@program
def no_arguments(x):
    class C: pass
    said = []
    for make in (lambda: C(42), lambda: C.__new__(C, 42), lambda: C().__init__(42), lambda: object.__new__(C, 42), lambda: object.__init__(C(), 42)):
        try: make()
        except TypeError as e: said.append(str(e))
    return said, x + 1


@program
def read_only(x):
    class B:
        y = 0
        __slots__ = ("z",)
    said = []
    def d(): del B().y
    def s(): B().y = 0
    def g(): B().z
    def dz(): del B().z
    def sx(): B().x = 0
    def dx(): del B().x
    for make in (d, s, g, dz, sx, dx):
        try: make()
        except AttributeError as e: said.append(str(e))
    return said, x + 1


@program
def cell_missing(x):
    class Meta(type):
        def __new__(cls, name, bases, namespace):
            namespace.pop('__classcell__', None)
            return super().__new__(cls, name, bases, namespace)
    try:
        class W(metaclass=Meta):
            def f(self): return __class__
    except RuntimeError as e: return str(e), x + 1
    return x


@program
def cell_overwritten(x):
    class Meta(type):
        def __new__(cls, name, bases, namespace):
            namespace['__classcell__'] = 3
            return super().__new__(cls, name, bases, namespace)
    try:
        class W(metaclass=Meta):
            def f(self): return __class__
    except TypeError as e: return str(e), x + 1
    return x


@program
def cell_of_another(x):
    class Meta(type):
        def __new__(cls, name, bases, namespace):
            cls = super().__new__(cls, name, bases, namespace)
            B = type("B", (), namespace)
            return cls
    try:
        class W(metaclass=Meta):
            def f(self): return __class__
    except TypeError as e: return str(e), x + 1
    return x


@program
def cell_as_self(x):
    class X:
        def meth(self): super()
    def f():
        k = X()
        def g(): return k
        return g
    c = f().__closure__[0]
    try: X.meth(c)
    except TypeError as e: return str(e), x + 1
    return x


class Holds:
    def go(self, x):
        class X:
            x = __class__
            def f(): __class__
        return X.x is type(self), x + 1


@program
def class_of_the_class(x):
    return Holds().go(x)


@program
def custom_abstract(x):
    class Descriptor:
        def __init__(self, fget, fset=None):
            self._fget = fget
            self._fset = fset
        @property
        def __isabstractmethod__(self):
            return (getattr(self._fget, '__isabstractmethod__', False)
                    or getattr(self._fset, '__isabstractmethod__', False))
    class C(metaclass=abc.ABCMeta):
        @Descriptor
        @abc.abstractmethod
        def foo(self): return 3
    try: C()
    except TypeError as e: return str(e), x + 1
    return x


@program
def entries_of_type(x):
    class C:
        def __mro_entries__(self, bases): return ()
    try: type('Bad', (C(),), {})
    except TypeError as e: return str(e), x + 1
    return x


@program
def meta_mro(x):
    test_class = None
    class Meta(type):
        def mro(self):
            self.__dict__["f"]()
            return super().mro()
    class A(metaclass=Meta):
        def f():
            nonlocal test_class
            test_class = __class__
    return test_class is A, x + 1


@program
def special_methods_that_are_none(x):
    class A:
        def __contains__(self, other): return False
        def __iter__(self): return iter([1])
        def __radd__(self, other): return 3
        def __len__(self): return 2
    class B(A):
        __contains__ = None
        __radd__ = None
        __len__ = None
    said = []
    for ask in (lambda: 1 in B(), lambda: 2 + B(), lambda: len(B()), lambda: bool(B())):
        try:
            said.append(ask())
        except TypeError as error:
            said.append(str(error))
    return x + 1, said, list(B())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_class_and_a_break(fn):
    if not COUNTING and "__subclasses__" in fn.__code__.co_names:
        pytest.skip("with the collector off, what stood for a class while tracing is among the subclasses of its base")
    (x,) = tensors(2, 3)
    check(fn, x, then=look, changed=tensors(2, 3, seed=5))


def test_the_graph_before_the_break_is_kept():
    """A frame that makes a class and breaks is compiled, not left to run as it is."""
    for program in (clock_after_a_class, clock_in_a_body):
        compiled = jit.compile(program, backend="eager")
        compiled(torch.ones(2))
        assert not any(record.skipped for record in compiled.compiler.records)
        assert jit.explain(program)(torch.ones(2)).graph_count >= 1
