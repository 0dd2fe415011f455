"""What is held by what the frame made, and what is not any more: weak references tell.

Each way makes something of an object `o`; after it the frame has only what the way gave back. Where that holds the
object for certain, a weak reference is followed in the graph; else the frame runs as written.
"""
import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import types
import weakref

import pytest
import torch

from tests.differential import check


class Held:
    pass


WAYS = {}


def way(f):
    WAYS[f.__name__] = f
    return f


@way
def list_it(o):
    it = iter([o]); next(it); next(it, None); return it


@way
def list_it_live(o):
    it = iter([o, 1]); next(it); return it


@way
def tuple_it(o):
    it = iter((o,)); next(it); next(it, None); return it


@way
def tuple_it_new(o):
    return iter((o,))


@way
def rev(o):
    it = reversed([o]); next(it); next(it, None); return it


@way
def zip_(o):
    it = zip([o], [1]); list(it); return it


@way
def zip_other(o):
    it = zip([], [o]); list(it); return it


@way
def map_(o):
    it = map(lambda v: 1, [o]); list(it); return it


@way
def map_f(o):
    it = map(lambda v: o, [1]); list(map(lambda v: 1, it)); return it


@way
def filter_(o):
    it = filter(None, [o]); [1 for _ in it]; return it


@way
def enum_(o):
    it = enumerate([o]); [1 for _ in it]; return it


@way
def gen(o):
    it = (1 for v in [o]); list(it); return it


@way
def gen_live(o):
    it = (1 for v in [o, 2]); next(it); return it


@way
def gen_new(o):
    return (1 for v in [o, 2])


@way
def dict_it(o):
    it = iter({1: o}.values()); next(it); next(it, None); return it


@way
def dict_view(o):
    return {1: o}.values()


@way
def set_it(o):
    it = iter({o}); next(it); next(it, None); return it


@way
def chain(o):
    it = itertools.chain([1], [o]); [1 for _ in it]; return it


@way
def chain_part(o):
    it = itertools.chain([o], [2, 3]); next(it); next(it); return it


@way
def islice_(o):
    it = itertools.islice([o, 2, 3], 1); [1 for _ in it]; return it


@way
def islice_mid(o):
    it = itertools.islice([o, 2, 3], 2); next(it); return it


@way
def repeat(o):
    return itertools.repeat(o, 2)


@way
def repeat_done(o):
    it = itertools.repeat(o, 1); next(it); return it


@way
def cycle(o):
    it = itertools.cycle([o]); next(it); return it


@way
def tee(o):
    a, b = itertools.tee([o, 1]); next(a); return a


@way
def tee_both(o):
    a, b = itertools.tee([o, 1]); next(a); next(b); return a, b


@way
def takew(o):
    it = itertools.takewhile(lambda v: False, [o, 1]); list(it); return it


@way
def groupby(o):
    it = itertools.groupby([o, 1], key=lambda v: 1); next(it); return it


@way
def accumulate(o):
    it = itertools.accumulate([o, 1], lambda a, b: 2); next(it); return it


@way
def accumulate2(o):
    it = itertools.accumulate([o, 1], lambda a, b: 2); next(it); next(it); return it


@way
def pairwise(o):
    it = itertools.pairwise([o, 1, 2]); next(it); return it


@way
def pairwise2(o):
    it = itertools.pairwise([o, 1, 2]); next(it); next(it); return it


@way
def zip_longest(o):
    it = itertools.zip_longest([1], [o]); [1 for _ in it]; return it


@way
def product(o):
    it = itertools.product([o], [1]); [1 for _ in it]; return it


@way
def product_mid(o):
    it = itertools.product([o, 2], [1]); next(it); next(it); return it


@way
def callit(o):
    it = iter(lambda: (o, 1)[1], 1); list(it); return it


@way
def callit_live(o):
    it = iter(lambda: (o, 1)[1], 2); next(it); return it


@way
def partial(o):
    return functools.partial(print, o)


@way
def popped(o):
    l = [o, 1]; l.pop(0); return l


@way
def cleared(o):
    d = {1: o}; d.clear(); return d


@way
def overwritten(o):
    d = {1: o}; d[1] = 2; return d


@way
def deq(o):
    d = collections.deque([o], maxlen=1); d.append(1); return d


@way
def attr(o):
    a = Held(); a.o = o; return a


@way
def attr_gone(o):
    a = Held(); a.o = o; a.o = None; return a


@way
def attr_deleted(o):
    a = Held(); a.o = o; del a.o; return a


@way
def bound(o):
    class C:
        def m(self): pass
        def __init__(self): self.o = o
    return C().m


@way
def closure(o):
    def f(): return o
    return f


@way
def closure_gone(o):
    def f(): return o
    o = None
    return f


@way
def default(o):
    def f(a=o): return a
    return f


@way
def default_gone(o):
    def f(a=o): return a
    f.__defaults__ = None
    return f


@way
def exc(o):
    try: raise ValueError(o)
    except ValueError as e: return e


@way
def exc_gone(o):
    try: raise ValueError(o)
    except ValueError as e:
        e.args = (); k = e.with_traceback(None)
        return k


@way
def exc_tb(o):
    def f(p):
        raise ValueError(1)
    try: f(o)
    except ValueError as e: return e


@way
def exc_ctx(o):
    try:
        try: raise ValueError(o)
        except ValueError: raise KeyError(1)
    except KeyError as e: return e


@way
def exc_ctx_gone(o):
    try:
        try: raise ValueError(o)
        except ValueError: raise KeyError(1)
    except KeyError as e:
        e.__context__ = None; e.__traceback__ = None; return e


@way
def namedt(o):
    return collections.namedtuple("N", "a b")(o, 1)


@way
def frozen(o): return frozenset([o])


@way
def setdisc(o):
    s = {o}; s.discard(o); return s


@way
def dictkey(o):
    d = {o: 1}; return d


@way
def counter(o):
    c = collections.Counter([o]); del c[o]; return c


@way
def odict(o):
    c = collections.OrderedDict(a=o); c.popitem(); return c


@way
def ddict(o):
    c = collections.defaultdict(lambda: o); c[1]; del c[1]; return c


@way
def cached(o):
    @functools.lru_cache(maxsize=1)
    def f(n): return o if n == 0 else n
    f(0); f(1); return f


@way
def cached_arg(o):
    @functools.lru_cache(maxsize=1)
    def f(n): return 0
    f(o); return f


@way
def cached_gone(o):
    @functools.lru_cache(maxsize=1)
    def f(n): return 0
    f(o); f.cache_clear(); return f


@way
def cprop(o):
    class C:
        @functools.cached_property
        def p(self): return self.q
    c = C(); c.q = o; c.p; del c.q; return c


@way
def cprop_gone(o):
    class C:
        @functools.cached_property
        def p(self): return self.q
    c = C(); c.q = o; c.p; del c.q, c.p; return c


@way
def chainmap(o):
    c = collections.ChainMap({"a": 1}, {"b": o}); return c.parents


@way
def chainmap_gone(o):
    c = collections.ChainMap({"b": o}, {"a": 1}); return c.parents


@way
def stack(o):
    s = contextlib.ExitStack(); s.callback(lambda: o); return s


@way
def stack_gone(o):
    s = contextlib.ExitStack(); s.callback(lambda: o); s.close(); return s


@way
def slot(o):
    class S:
        __slots__ = ("a",)
    s = S(); s.a = o; return s


@way
def dict_replaced(o):
    a = Held(); a.o = o; a.__dict__ = {}; return a


@way
def dict_replaced_live(o):
    a = Held(); a.__dict__ = {"q": o}; return a


@way
def classattr(o):
    class K: pass
    K.o = o; return K


@way
def classattr_inst(o):
    class K: pass
    K.o = o; return K()


@way
def weak(o): return weakref.ref(o)


@way
def wset(o): return weakref.WeakSet([o])


@way
def wval(o): return weakref.WeakValueDictionary({1: o})


@way
def tensorattr(o):
    t = torch.zeros(1); t.o = o; return t


@way
def slice_(o):
    return [o, 1][1:]


@way
def listmul(o):
    l = [o] * 2; l.remove(o); return l


@way
def inplace(o):
    l = [o]; l[:] = [1]; return l


@way
def sortkey(o):
    l = [2, 1]; l.sort(key=lambda v: (o, v)[1]); return l


@way
def dictor(o):
    return {1: o} | {1: 2}


@way
def mapping_proxy(o):
    return types.MappingProxyType({1: o})


@way
def simple_ns(o):
    n = types.SimpleNamespace(a=o); n.a = 1; return n


@way
def prop(o):
    return property(lambda s: o)


@way
def recur(o):
    l = [o]; l.append(l); return l


@way
def dict_it_key(o):
    it = iter({o: 1}); next(it); next(it, None); return it


@way
def dict_it_removed(o):
    d = {1: 2, o: 1}; it = iter(d); next(it); del d[o]; d[3] = 4; return it


@way
def dict_items_replaced(o):
    d = {1: 2, 2: o}; it = iter(d.items()); next(it); d[2] = 3; return it


@way
def list_it_removed(o):
    l = [1, o]; it = iter(l); next(it); l.pop(); return it


@way
def set_it_removed(o):
    l = {1, o}; it = iter(l); l.discard(o); return it


@way
def rev_removed(o):
    l = [o, 1]; it = reversed(l); next(it); l[0] = 3; return it


@way
def rev_dict(o):
    l = {1: 1, o: 3}; it = reversed(l); next(it); del l[o]; l[3] = 1; return it


@way
def deque_it(o):
    l = collections.deque([o]); it = iter(l); next(it); next(it, None); return it


@way
def deque_it_removed(o):
    l = collections.deque([o, 1]); it = iter(l); l.popleft(); return it


@way
def enum_removed(o):
    l = [1, o]; it = enumerate(l); next(it); l.pop(); return it


@way
def zip_removed(o):
    l = [1, o]; it = zip(l, l); next(it); l.pop(); return it


@way
def map_removed(o):
    l = [1, o]; it = map(str, l); next(it); l.pop(); return it


@way
def chain_removed(o):
    l = [1, o]; it = itertools.chain(l, [2]); next(it); l.pop(); return it


@way
def islice_removed(o):
    l = [1, o]; it = itertools.islice(l, 5); next(it); l.pop(); return it


@way
def view_removed(o):
    l = {1: o}; it = l.values(); del l[1]; return it


@way
def exc_frame(o):
    try: raise ValueError(1)
    except ValueError as e: k = e
    k.add_note("a")
    o = None
    return k


@way
def exc_frame2(o):
    try: raise ValueError(1)
    except ValueError as e: k = e
    return k


@way
def exc_frame3(o):
    def g(p):
        try: raise ValueError(1)
        except ValueError as e: k = e
        p = None
        return k
    return g(o)


@way
def exc_frame4(o):
    def g(p):
        del p
        raise ValueError(1)
    try: g(o)
    except ValueError as e: k = e
    o = None
    return k


@way
def exc_group(o):
    try: raise ExceptionGroup("a", [ValueError(o)])
    except* ValueError as e: k = e
    k = k.with_traceback(None)
    return k


@way
def exc_cause(o):
    e = ValueError(1); e.__cause__ = KeyError(o); e.__cause__ = None; return e


@way
def exc_name(o):
    e = NameError(1, name=o); e.name = 3; return e


@way
def exc_name_live(o):
    e = AttributeError(1, obj=o); return e


@way
def stopit(o):
    e = StopIteration(o); return e


@way
def stopit_gone(o):
    e = StopIteration(o); e.args = (); return e


@way
def stopit_gone2(o):
    e = StopIteration(o); e.args = (); e.value = 3; return e


@way
def gen_closed(o):
    def g():
        yield o
    i = g(); next(i); i.close(); return i


@way
def gen_local_gone(o):
    def g(p):
        yield 1
        p = None
        yield 2
    i = g(o); next(i); next(i); return i


@way
def gen_sent(o):
    def g():
        v = yield 1
        yield 2
        v = None
        yield 3
    i = g(); next(i); i.send(o); next(i); return i


@way
def gen_from(o):
    def h():
        yield 1
    def g():
        yield from h()
        yield 3
    i = g(); next(i); next(i); return i, [0 for _ in ()]


@way
def super_(o):
    class A: pass
    class B(A):
        def s(self): return super()
    b = B(); b.o = o; return b.s()


@way
def methodcaller(o):
    return operator.methodcaller("a", o)


@way
def partial_gone(o):
    p = functools.partial(print, o); p.__setstate__((print, (), {}, {})); return p


@way
def wraps(o):
    def f(): pass
    f.o = o
    @functools.wraps(f)
    def g(): pass
    return g


@way
def kwdefault(o):
    def f(*, a=o): return a
    f.__kwdefaults__ = {}
    return f


@way
def annotations(o):
    def f(a: o): return a
    f.__annotations__ = {}
    return f


@way
def range_(o):
    class I(int): pass
    return range(3)


@way
def dictkeys_set(o):
    d = {o: 1}; s = d.keys() - {o}; d.clear(); return s


@way
def unpacked(o):
    a, *b = [1, o, 2]; b.pop(0); return b


@way
def swapped(o):
    a = [o]; b = [1]; a, b = b, a; return a


@way
def sortd(o):
    l = [(2, o), (1, 3)]; l.sort(); l.pop(); return l


@way
def copied(o):
    l = [o]; m = copy.copy(l); l.clear(); return l


@way
def copied2(o):
    l = [o]; m = copy.copy(l); l.clear(); return m


@way
def mod_fwd(o):
    m = torch.nn.Module(); m.o = o; m.o = 1; return m


@way
def mod_hook(o):
    m = torch.nn.Module(); h = m.register_forward_hook(lambda *a: o); h.remove(); return m


@way
def mod_hook_live(o):
    m = torch.nn.Module(); h = m.register_forward_hook(lambda *a: o); return m


@way
def memo(o):
    def f(x, c={}):
        c[x] = 1
        return c
    f(o); f.__defaults__[0].clear(); return f


@way
def ignored(o):
    class C:
        def __init__(self, o): pass
    return C(o)


@way
def ignored_new(o):
    class C:
        def __new__(cls, o): return super().__new__(cls)
    return C(o)


@way
def ignored_list(o):
    class C(list):
        def __init__(self, o): pass
    return C(o)


@way
def ignored_dict(o):
    class C(dict):
        def __init__(self, o): pass
    return C(o)


@way
def ignored_exc(o):
    class C(Exception):
        def __init__(self, o): super().__init__(1)
    return C(o)


@way
def int_sub(o):
    class C(int):
        def __new__(cls, v, o): return super().__new__(cls, v)
        def __init__(self, v, o): pass
    return C(1, o)


@way
def tup_sub(o):
    class C(tuple):
        def __new__(cls, v, o): return super().__new__(cls, v)
    return C([1], o)


@way
def tup_sub2(o):
    class C(tuple): pass
    return C([1, o])


@way
def list_sub_pop(o):
    class C(list): pass
    c = C([1, o]); c.pop(); return c


@way
def dict_sub_pop(o):
    class C(dict): pass
    c = C({1: o}); c.pop(1); return c


@way
def set_sub_pop(o):
    class C(set): pass
    c = C({1, o}); c.discard(o); return c


@way
def deque_sub_pop(o):
    class C(collections.deque): pass
    c = C([1, o]); c.pop(); return c


@way
def counter_sub(o):
    c = collections.Counter({1: 2}); c[o] = 1; c.subtract({o: 1}); c = +c; return c


@way
def len_of(o):
    return len([o])


@way
def single(o):
    @functools.singledispatch
    def f(a): return a
    f.register(Held, lambda a: o)
    f(o)
    return f


@way
def typing_alias(o):
    return list[o]


@way
def slice_obj(o): return slice(o)


@way
def cmpkey(o):
    return functools.cmp_to_key(lambda a, b: 0)(o)


@way
def attrgetter(o):
    return operator.attrgetter("a")


@way
def uni(o):
    return int | None


@way
def genalias(o):
    class G:
        def __class_getitem__(cls, k): return 3
    return G[o]


@way
def dc(o):
    @dataclasses.dataclass
    class D:
        a: object
        b: dataclasses.InitVar = None
    return D(1, o)


@way
def dc_replace(o):
    @dataclasses.dataclass
    class D:
        a: object
    return dataclasses.replace(D(o), a=1)


@way
def nt_replace(o):
    return collections.namedtuple("N", "a b")(o, 1)._replace(a=2)


@way
def ordered(o):
    d = collections.OrderedDict([(1, o), (2, 3)]); d.move_to_end(1); d.pop(1); return d


@way
def static(o):
    class K:
        s = staticmethod(lambda: o)
    del K.s
    return K


@way
def classdict(o):
    class K:
        a = o
    K.a = 3
    return K


@way
def classbody(o):
    class K:
        a = o
        del a
    return K


@way
def classbody2(o):
    class K:
        a = o
        a = 1
    return K


@way
def classbases(o):
    class M(type):
        def __new__(m, n, b, d, **k): return super().__new__(m, n, b, d)
        def __init__(c, n, b, d, **k): pass
    class K(metaclass=M, q=o): pass
    return K


@way
def initsub(o):
    class A:
        def __init_subclass__(cls, q): pass
    class K(A, q=o): pass
    return K


@way
def cellm(o):
    c = types.CellType(o); c.cell_contents = 3; return c


@way
def listcomp(o):
    return [v for v in [o, 1] if v == 1]


@way
def fstr(o):
    return f"{o is None}"


@way
def sumr(o):
    return functools.reduce(lambda a, b: 1, [o, 2])


@way
def defaultd(o):
    d = collections.defaultdict(list); d[1].append(o); d[1].clear(); return d


@way
def nested(o):
    return {"a": [({"b": o},)]}


@way
def wkd(o):
    d = weakref.WeakKeyDictionary(); d[o] = 1; return d


@way
def fin(o):
    return [weakref.ref(o), weakref.WeakMethod]


@way
def propinst(o):
    class K:
        @property
        def p(self): return o
    return K


@way
def desc(o):
    class D:
        def __set__(self, i, v): pass
        def __get__(self, i, t=None): return 3
    class K: a = D()
    k = K(); k.a = o; return k


@way
def slots_del(o):
    class K: __slots__ = ("a",)
    k = K(); k.a = o; del k.a; return k


@way
def getattr_(o):
    class K:
        def __setattr__(self, n, v): object.__setattr__(self, n, None)
    k = K(); k.a = o; return k


@way
def module_list(o):
    m = torch.nn.ModuleList([torch.nn.ReLU()]); m[0].o = o; m.pop(0); return m


@way
def module_set(o):
    m = torch.nn.Sequential(torch.nn.ReLU()); m[0].o = o; m[0] = torch.nn.ReLU(); return m


@way
def module_live(o):
    m = torch.nn.Sequential(torch.nn.ReLU()); m[0].o = o; return m


@way
def ctx(o):
    @contextlib.contextmanager
    def f(p):
        yield p
    with f(o) as q: pass
    q = None
    return f


@way
def ctx2(o):
    @contextlib.contextmanager
    def f(p):
        yield p
    return f(o)


@way
def ctx3(o):
    @contextlib.contextmanager
    def f(p):
        yield 1
    c = f(o)
    with c: pass
    return c


@way
def nullc(o): return contextlib.nullcontext(o)


@way
def closing(o):
    o.close = lambda: None
    return contextlib.closing(o)


@way
def suppress(o): return contextlib.suppress(ValueError)


def kept(x, make):
    o = Held()
    r = weakref.ref(o)
    k = {"a": (make(o),)}
    del o
    return x + 1 if r() is None else x + 2, r() is None, len(k)


def let_go(x, make):
    o = Held()
    r = weakref.ref(o)
    k = [make(o)]
    o = None
    k.pop()
    return x + 1 if r() is None else x + 2, r() is None


@pytest.mark.sampled(6)
@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("program", [kept, let_go])
def test_is_it_alive(program, make):
    check(program, torch.ones(2), WAYS[make])


#: Ways that hold it for certain.
HOLDING = """list_it_live tuple_it_new zip_other map_f gen_live gen_new dict_view chain_part islice_mid repeat repeat_done
    cycle tee tee_both takew groupby accumulate accumulate2 pairwise pairwise2 product product_mid callit_live
    partial attr bound closure default exc exc_ctx namedt frozen dictkey ddict cached cprop chainmap stack slot
    classattr classattr_inst tensorattr listmul mapping_proxy recur deque_it exc_group stopit wraps copied2
    mod_hook_live tup_sub2 single cmpkey nested module_live ctx2 nullc closing"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("make", HOLDING.split())
def test_is_one_graph(make):
    check(kept, torch.ones(2), WAYS[make], graphs=1)
