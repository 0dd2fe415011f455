"""User classes: made, read, written and called inside the program."""
import abc
import collections
import dataclasses
import datetime
import enum
import functools
import typing

import pytest
import torch

import jit
from tests.differential import check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


class Vector:
    scale = 2
    made = 0

    def __init__(self, t, name="v"):
        self.t, self.name = t, name

    def __repr__(self):
        return f"Vector({self.name})"

    def double(self):
        return Vector(self.t * 2, self.name + "2")

    @property
    def norm(self):
        return (self.t * self.t).sum()

    @norm.setter
    def norm(self, value):
        self.t = self.t / self.t.norm() * value

    @classmethod
    def zeros(cls, n):
        return cls(torch.zeros(n), name=cls.__name__)

    @staticmethod
    def helper(t):
        return t + 1


class Child(Vector):
    scale = 3

    def __init__(self, t, extra):
        super().__init__(t, name="child")
        self.extra = extra

    def double(self):
        v = super().double()
        v.extra = self.extra
        return v

    @property
    def norm(self):
        return super().norm * self.scale


@same_as_eager(graphs=1)
def test_object_is_born_and_read(x):
    v = Vector(x + 1)
    return v.t * v.scale + Vector.scale, v.name, v.double().t


@same_as_eager(graphs=1)
def test_object_is_returned(x):
    v = Vector(x + 1)
    v.more = [v]
    return v, {"v": v}


@same_as_eager(graphs=1)
def test_property_classmethod_staticmethod(x):
    v = Vector(x)
    n = v.norm
    v.norm = 2.0
    return n, v.t, Vector.zeros(3).t + 1, Vector.helper(x), v.helper(x), v


@same_as_eager(graphs=1)
def test_inheritance_and_super(x):
    c = Child(x, extra=5)
    return c.double(), c.norm, isinstance(c, Vector), Child.mro()[1] is Vector, c.name, super(Child, c).double().t


def test_object_as_argument():
    check(lambda v: (v.double().t, v.norm), Vector(X), graphs=1, changed=[(Vector(Y),), (Child(X, 1),)])


@same_as_eager(graphs=1, make=lambda: (Vector(torch.ones(3)),))
def test_object_argument_is_changed(v):
    v.t = v.t * 3
    v.name += "!"
    v.new = v.double()
    return v


@same_as_eager(graphs=1)
def test_class_attribute_is_counted(x):
    Vector.made += 1
    return x + Vector.made


@same_as_eager(graphs=1)
def test_getattr_setattr_delattr(x):
    v = Vector(x)
    setattr(v, "k", 3)
    names = [getattr(v, n, "none") for n in ("k", "name", "zzz")]
    delattr(v, "k")
    return x + 1, names, hasattr(v, "k"), sorted(vars(v)), sorted(v.__dict__)


class Lazy:
    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        self.asked.append(name)
        return len(name)


@same_as_eager(graphs=1)
def test_getattr_hook(x):
    lazy = Lazy()
    return x + lazy.abc * lazy.z, lazy.asked, getattr(lazy, "_no", 1), hasattr(lazy, "_no")


class Watched:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)

    def __getattribute__(self, name):
        if name == "magic":
            return 42
        return object.__getattribute__(self, name)


@same_as_eager(graphs=1)
def test_setattr_and_getattribute_hooks(x):
    w = Watched()
    w.a = x + 1
    w.b = 2
    return w, w.magic


class Typed:
    """A data descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, 0)

    def __set__(self, obj, value):
        setattr(obj, self.name, value * 2)


class Plain:
    """A descriptor that an instance attribute hides."""

    def __get__(self, obj, owner=None):
        return "class" if obj is None else "instance"


class Described:
    a = Typed()
    b = Plain()


@same_as_eager(graphs=1)
def test_descriptors(x):
    d = Described()
    before = d.a, d.b, Described.b
    d.a = x + 1
    d.b = 5
    return before, d.a, d.b, d


class Slots:
    __slots__ = ("t", "n")

    def __init__(self, t):
        self.t = t


@same_as_eager(graphs=1)
def test_slots(x):
    s = Slots(x + 1)
    s.n = 1
    return s, s.t * 2, hasattr(s, "n"), hasattr(s, "zz")


@same_as_eager
def test_slots_refuse(x):
    s = Slots(x + 1)
    s.other = 1
    return s


@same_as_eager
def test_property_without_setter(x):
    c = Child(x + 1, 2)
    c.norm = 3
    return c


class Num:
    """Records which operator was called, from which side."""

    def __init__(self, t, log=None):
        self.t, self.log = t, [] if log is None else log

    def _out(self, name, t):
        return Num(t, self.log + [name])


def _operator(name, right):
    def method(self, other):
        other_t = other.t if isinstance(other, Num) else other
        if isinstance(other, str):
            return NotImplemented
        t = getattr(torch, {"truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder"}.get(name, name))(self.t, other_t)
        return self._out(("r" if right else "") + name, t)
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Num, f"__{_name}__", _operator(_name, False))
    setattr(Num, f"__r{_name}__", _operator(_name, True))

SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("form", ["a {} 2", "2 {} a", "a {} a"])
def test_dunder_operator(name, form):
    scope = {"Num": Num}
    execute(f"def program(x):\n    a = Num(x)\n    r = {form.format(SIGNS[name])}\n    return r.t, r.log\n", scope)
    check(scope["program"], X.abs() + 1, graphs=1)


@same_as_eager
def test_dunder_operator_refuses(x):
    return Num(x) + "text"


class Rich:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Rich) and self.n == other.n

    def __hash__(self):
        return hash(self.n)

    def __lt__(self, other):
        return self.n < other.n

    def __bool__(self):
        return self.n > 0

    def __len__(self):
        return 7

    def __contains__(self, item):
        return item == self.n

    def __getitem__(self, key):
        return (self.n, key)

    def __setitem__(self, key, value):
        self.n = (key, value)

    def __delitem__(self, key):
        self.n = None

    def __call__(self, t, k=1):
        return t * k

    def __neg__(self):
        return Rich(-self.n)

    def __int__(self):
        return self.n

    def __index__(self):
        return self.n

    def __iadd__(self, k):
        self.n += k
        return self

    def __str__(self):
        return f"<{self.n}>"

    def __format__(self, spec):
        return f"[{self.n}:{spec}]"

    def __iter__(self):
        return iter(range(self.n))


@same_as_eager(graphs=1)
def test_dunder_methods(x):
    a, b = Rich(2), Rich(3)
    out = [a == b, a != b, a < b, a > b, bool(a), not a, len(a), 2 in a, a["k"], a[1:2], a(x, k=2), (-a).n, int(a), [5, 6, 7][a],
           str(a), f"{a}|{a:x}", list(b), sorted([b, a])[0].n, {a: 1}[Rich(2)], max(a, b).n, a in [Rich(2)]]
    a += 5
    b["k"] = 1
    return out, a, b


@functools.total_ordering
class Ordered:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@same_as_eager(graphs=1)
def test_total_ordering(x):
    return x + 1, Ordered(1) <= Ordered(2), Ordered(1) >= Ordered(2), Ordered(3) > Ordered(2)


@dataclasses.dataclass
class Config:
    dim: int
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)
    derived: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.derived = self.dim * 2


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: typing.Any = None


@dataclasses.dataclass(slots=True, kw_only=True)
class SlottedData:
    a: int
    t: torch.Tensor


@same_as_eager(graphs=1)
def test_dataclasses(x):
    c = Config(3, names=["n"])
    d = dataclasses.replace(c, dim=5)
    d.names.append("shared")
    return x * c.scale + c.derived + d.derived, c, d, c == Config(3), Frozen(1) < Frozen(2), SlottedData(a=1, t=x + 1)


@same_as_eager(graphs=1)
def test_dataclass_helpers(x):
    c = Config(3)
    return x + 1, [f.name for f in dataclasses.fields(c)], dataclasses.asdict(Frozen(1, 2)), dataclasses.is_dataclass(c), Frozen(2, 3)


def test_dataclass_as_argument():
    check(lambda c, x: x * c.scale + c.dim, Config(3), X, graphs=1, changed=[(Config(4), X), (Config(3, 5.0), X)])
    check(lambda c: dataclasses.replace(c, t=c.t + 1), SlottedData(a=1, t=X), graphs=1)


@same_as_eager
def test_frozen_dataclass_refuses(x):
    f = Frozen(1, x + 1)
    f.a = 2
    return f


Pair = collections.namedtuple("Pair", ["first", "second"], defaults=[9])


class Out(typing.NamedTuple):
    loss: torch.Tensor
    count: int = 0

    def doubled(self):
        return self.loss * 2


@same_as_eager
def test_which_attributes_are_one_object(x):
    pair, class_of_frame = Pair(x), collections.namedtuple("Made", "a b")
    made, device = class_of_frame(1, 2), x.device
    fields = pair._fields is Pair._fields, made._fields is class_of_frame._fields, pair._fields, made.__match_args__
    return x + 1, fields, x.device is x.device, device is x.device, device is device, x.dtype is x.dtype


@same_as_eager(graphs=1)
def test_namedtuples(x):
    p = Pair(x + 1)
    q = p._replace(second=x)
    a, b = q
    o = Out(x, 3)
    return p, q, a - b, o.doubled(), o._asdict(), o[0], len(o), o.count, Out._fields, Pair(*[1, 2]) == (1, 2), isinstance(p, tuple)


def test_namedtuple_as_argument():
    check(lambda o: Out(o.loss * o.count, o.count + 1), Out(X, 2), graphs=1, changed=[(Out(Y, 3),)])


@same_as_eager(graphs=1)
def test_torch_named_results(x):
    m = x.max(dim=1)
    values, indices = torch.sort(x)
    return m, m.values, m.indices, values, torch.topk(x, 2).values, type(m).__name__


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"

    @property
    def factor(self):
        return 2 if self is Mode.FAST else 3


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@same_as_eager(graphs=1)
def test_enums(x):
    m = Mode("slow")
    return (x * m.factor + Level.HIGH, m, m.name, m.value, m is Mode.SLOW, m == Mode.FAST, [e.name for e in Mode], Mode["FAST"],
            Level.LOW < Level.HIGH, Level(5), Flags.A | Flags.B, Flags.A in (Flags.A | Flags.B), {Mode.FAST: 1}[Mode.FAST], len(Mode))


def test_enum_as_argument():
    check(lambda m, x: x * m.factor if m is Mode.FAST else x - 1, Mode.FAST, X, graphs=1, changed=[(Mode.SLOW, X)])


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...

    def twice(self):
        return self.area() * 2


class Square(Shape):
    def __init__(self, a):
        self.a = a

    def area(self):
        return self.a * self.a


class Mixin:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mixed = True


class Mixed(Mixin, Square):
    pass


@same_as_eager(graphs=1)
def test_abstract_and_mixin(x):
    m = Mixed(x)
    return m.twice(), m.mixed, [c.__name__ for c in type(m).__mro__], isinstance(m, Shape)


@same_as_eager
def test_abstract_class_is_not_made(x):
    y = x + 1
    return Shape(), y


class Single:
    instance = None

    def __new__(cls, *args):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance

    def __init__(self, t):
        self.t = t


@same_as_eager(graphs=1)
def test_new(x):
    return Single(x + 1) is Single(x + 2), Single.instance.t


class Cached:
    def __init__(self, t):
        self.t, self.calls = t, 0

    @functools.cached_property
    def total(self):
        self.calls += 1
        return self.t.sum()


@same_as_eager(graphs=1)
def test_cached_property(x):
    c = Cached(x)
    return c.total + c.total, c.calls, c


Params = typing.TypeVar("Params")


class Generic(typing.Generic[Params]):
    def __init__(self, t: Params):
        self.t = t


@same_as_eager(graphs=1)
def test_generic_class(x):
    return Generic(x).t + 1, Generic[int](x).t * 2


class Meta(type):
    def __call__(cls, *args):
        obj = super().__call__(*args)
        obj.tagged = cls.__name__
        return obj


class WithMeta(metaclass=Meta):
    def __init__(self, t):
        self.t = t


@same_as_eager(graphs=1)
def test_metaclass(x):
    return WithMeta(x + 1)


class Answering(type):
    """Has an answer for any attribute of its classes."""

    def __getattr__(cls, name):
        return name.upper()


class Answered(metaclass=Answering):
    def __init__(self, t):
        self.t = t


@same_as_eager(graphs=1)
def test_what_a_metaclass_answers_says_nothing_of_instances(x):
    class Local(metaclass=Answering):
        def __init__(self, t):
            self.t = t
    kept = [Answered(3)]
    kept.clear()
    return x * Answered(3).t + Local(4).t, Answered.zork, Local.n_sequence_fields, Answered(x + 1).t


@same_as_eager
def test_class_statement_inside(x):
    class Local:
        k = 3

        def run(self, t):
            return t * self.k + x
    return Local().run(x + 1)


@same_as_eager(graphs=1)
def test_method_objects(x):
    v = Vector(x)
    double = v.double
    methods = {"d": v.double}
    return double().t, methods["d"]().t, double.__self__ is v, double.__func__ is Vector.double, getattr(v, "double")().name


@same_as_eager(graphs=1)
def test_objects_in_a_cycle(x):
    a, b = Vector(x + 1), Vector(x)
    a.other, b.other = b, a
    return a.other.other.t, a


@same_as_eager(graphs=1)
def test_exact_type_checks(x):
    c = Child(x, 1)
    return type(c) is Child, type(c) is Vector, type(c).__name__, c.__class__ is Child, type(c).scale, Child.__bases__, x + 1


def test_user_tensor_holder_with_torch_function():
    class Wrapped:
        def __init__(self, t):
            self.t = t

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            args = [a.t if isinstance(a, Wrapped) else a for a in args]
            return Wrapped(func(*args, **(kwargs or {})))
    check(lambda x: torch.add(Wrapped(x), 1).t, X)
    check(lambda w: torch.sin(w).t, Wrapped(X))


class Position:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


@same_as_eager(graphs=1)
def test_object_that_is_a_position(x):
    y = x.clone()
    y[Position(0)] = 5
    return x[Position(1)], y, [5, 6, 7][Position(2)]


@same_as_eager
def test_object_with_elements_as_an_index(x):
    return x[Rich(2)] + 1


class Celsius(int):
    def __eq__(self, other):
        return "asked"


@same_as_eager(graphs=1)
def test_operators_of_a_subclass_of_int(x):
    c = Celsius(3)
    return x + 1, c == 3, c != 3, 4 + c, c + 4, 10 - c, 2 < c


class Left:
    def __init__(self, log):
        self.log = log

    def __add__(self, other):
        self.log.append("add")
        return NotImplemented

    def __radd__(self, other):
        self.log.append("radd")
        return NotImplemented


class Right(Left):
    def __radd__(self, other):
        self.log.append("right radd")
        return NotImplemented


@pytest.mark.parametrize("kinds", [(Left, Left), (Left, Right), (Right, Left)])
def test_operator_that_nobody_answers(kinds):
    def program(x, log):
        y = x + 1
        try:
            kinds[0](log) + kinds[1](log)
        except TypeError as error:
            return y, log, str(error)
    check(program, torch.ones(2), [])


@same_as_eager(make=lambda: (datetime.date(2020, 1, 1), datetime.date(2020, 1, 1), torch.ones(2)))
def test_native_operators_of_existing_objects(a, b, x):
    return x + 1, a == b, a != b, a <= b


class Shadowed:
    @property
    def p(self):
        return 1


@same_as_eager
def test_instance_dict_beside_a_property(x):
    s = Shadowed()
    s.__dict__["p"] = x
    return s.p, s


@same_as_eager
def test_init_of_object_with_arguments(x):
    class Local:
        def __init__(self, k):
            super().__init__(k)
    return Local(x + 1)


class Counted:
    step = 1

    @property
    def size(self):
        return 2

    def go(self, x):
        return x * self.step


class CountedMore(Counted):
    pass


@same_as_eager(graphs=1, make=lambda: (torch.ones(2), CountedMore(), Counted()))
def test_stores_to_an_existing_class_are_seen_by_its_instances_and_subclasses(x, a, b):
    b.step = 5
    Counted.step = 7
    Counted.go = lambda self, x: x - self.step
    Counted.size = 4
    return a.go(x), b.go(x), CountedMore.step, a.step, a.size, b.size


class Noted(property):
    def __init__(self, function, note):
        super().__init__(function)
        self.note = note


class Measured:
    @functools.partial(Noted, note="of it")
    def doubled(self):
        return self.x * 2


@same_as_eager(graphs=1)
def test_a_subclass_of_property_is_read(x):
    m = Measured()
    m.x = x
    return m.doubled, Measured.doubled.note


def facts(made):
    return type(made), made.note, made.fget(3), made.fset, vars(made)


def test_an_instance_of_a_subclass_of_property_is_made():
    kept = []

    def program(x):
        kept.append(Noted(lambda self: self + 1, "kept"))
        dropped = Noted(None, note="dropped")
        return x * isinstance(dropped, property), dropped.note

    eagerly = facts(program(X) and kept.pop())
    compiled = jit.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X)[0], X) and facts(kept.pop()) == eagerly


@same_as_eager
def test_a_property_of_the_frames_own_subclass(x):
    class Local:
        value = Noted(lambda self: 5, "local")

    made = Noted(lambda self: 1, "read")
    made.x = x
    return x + Local().value, made.fget(0)


@same_as_eager(graphs=1, make=lambda: (torch.ones(2), Vector(torch.ones(2))))
def test_new_through_an_instance(x, v):
    made = v.__new__(Child)
    made.t = x
    return made.t + 1, type(made)


class Settings:
    """Its own attributes are read as those of a dict."""

    rate, weight = 3, torch.tensor(2.0)

    def method(self):
        return self.rate

    @property
    def shown(self):
        return 5


class MoreSettings(Settings):
    depth = 4


@same_as_eager(graphs=1)
def test_attributes_of_a_class_as_a_dict(x):
    own, inherited = Settings.__dict__, MoreSettings.__dict__
    names = [name for name in vars(Settings) if not name.startswith("_")]
    numbers = {name: value for name, value in own.items() if isinstance(value, int)}
    asked = "rate" in own, "depth" in own, "rate" in inherited, own.get("none", 7), inherited.get("depth")
    same = own["method"] is Settings.method, own["weight"] is Settings.weight, own["shown"].fget(1)
    depth = type(MoreSettings()).__dict__["depth"]
    return x * own["weight"] + own["rate"], names, numbers, asked, same[:2], type(own), depth


def test_attributes_of_a_class_as_a_dict_when_they_change():
    class Changes:
        k = 1

    def program(x, changed):
        return x + Changes.__dict__["k"], [name for name in Changes.__dict__ if name[0] != "_"], changed(Changes)

    def later(cls):
        cls.k += 1
        return vars(cls)["k"], vars(cls) is vars(cls)

    compiled = jit.compile(program, backend="eager")
    for change in (
        lambda cls: setattr(cls, "k", 5), lambda cls: setattr(cls, "other", 3), lambda cls: delattr(cls, "other"), later,
        lambda cls: setattr(cls, "k", 2.5), later,
    ):
        kept = dict(vars(Changes))
        expected = program(torch.ones(1), change)
        for name in {*vars(Changes)} - {*kept}:
            delattr(Changes, name)
        for name in ("k", "other"):
            if name in kept:
                setattr(Changes, name, kept[name])
        assert compiled(torch.ones(1), change) == expected
        assert compiled(torch.ones(1), lambda cls: None) == program(torch.ones(1), lambda cls: None)


@same_as_eager
def test_attributes_of_a_class_as_a_dict_after_a_write(x):
    class Local:
        a = 1
    shown = vars(MoreSettings)
    MoreSettings.depth = 5
    seen = shown["depth"], MoreSettings.__dict__["depth"], vars(MoreSettings).get("added")
    MoreSettings.added = 6
    seen += shown["added"], len(shown) == len(vars(MoreSettings)), "a" in Local.__dict__
    del MoreSettings.added
    MoreSettings.depth = 4
    return x + 1, seen, shown.get("added"), shown["depth"]
