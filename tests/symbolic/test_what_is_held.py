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

from tests.differential import check, execute


class Held:
    pass


#: name: what is made of `o`, in one line.
LINES = """
list_it: it = iter([o]); next(it); next(it, None); return it
list_it_live: it = iter([o, 1]); next(it); return it
tuple_it: it = iter((o,)); next(it); next(it, None); return it
tuple_it_new: return iter((o,))
rev: it = reversed([o]); next(it); next(it, None); return it
zip_: it = zip([o], [1]); list(it); return it
zip_other: it = zip([], [o]); list(it); return it
map_: it = map(lambda v: 1, [o]); list(it); return it
map_f: it = map(lambda v: o, [1]); list(map(lambda v: 1, it)); return it
filter_: it = filter(None, [o]); [1 for _ in it]; return it
enum_: it = enumerate([o]); [1 for _ in it]; return it
gen: it = (1 for v in [o]); list(it); return it
gen_live: it = (1 for v in [o, 2]); next(it); return it
gen_new: return (1 for v in [o, 2])
dict_it: it = iter({1: o}.values()); next(it); next(it, None); return it
dict_view: return {1: o}.values()
set_it: it = iter({o}); next(it); next(it, None); return it
chain: it = itertools.chain([1], [o]); [1 for _ in it]; return it
chain_part: it = itertools.chain([o], [2, 3]); next(it); next(it); return it
islice_: it = itertools.islice([o, 2, 3], 1); [1 for _ in it]; return it
islice_mid: it = itertools.islice([o, 2, 3], 2); next(it); return it
repeat: return itertools.repeat(o, 2)
repeat_done: it = itertools.repeat(o, 1); next(it); return it
cycle: it = itertools.cycle([o]); next(it); return it
tee: a, b = itertools.tee([o, 1]); next(a); return a
tee_both: a, b = itertools.tee([o, 1]); next(a); next(b); return a, b
takew: it = itertools.takewhile(lambda v: False, [o, 1]); list(it); return it
groupby: it = itertools.groupby([o, 1], key=lambda v: 1); next(it); return it
accumulate: it = itertools.accumulate([o, 1], lambda a, b: 2); next(it); return it
accumulate2: it = itertools.accumulate([o, 1], lambda a, b: 2); next(it); next(it); return it
pairwise: it = itertools.pairwise([o, 1, 2]); next(it); return it
pairwise2: it = itertools.pairwise([o, 1, 2]); next(it); next(it); return it
zip_longest: it = itertools.zip_longest([1], [o]); [1 for _ in it]; return it
product: it = itertools.product([o], [1]); [1 for _ in it]; return it
product_mid: it = itertools.product([o, 2], [1]); next(it); next(it); return it
callit: it = iter(lambda: (o, 1)[1], 1); list(it); return it
callit_live: it = iter(lambda: (o, 1)[1], 2); next(it); return it
partial: return functools.partial(print, o)
popped: l = [o, 1]; l.pop(0); return l
cleared: d = {1: o}; d.clear(); return d
overwritten: d = {1: o}; d[1] = 2; return d
deq: d = collections.deque([o], maxlen=1); d.append(1); return d
attr: a = Held(); a.o = o; return a
attr_gone: a = Held(); a.o = o; a.o = None; return a
attr_deleted: a = Held(); a.o = o; del a.o; return a
namedt: return collections.namedtuple("N", "a b")(o, 1)
frozen: return frozenset([o])
setdisc: s = {o}; s.discard(o); return s
dictkey: d = {o: 1}; return d
counter: c = collections.Counter([o]); del c[o]; return c
odict: c = collections.OrderedDict(a=o); c.popitem(); return c
ddict: c = collections.defaultdict(lambda: o); c[1]; del c[1]; return c
chainmap: c = collections.ChainMap({"a": 1}, {"b": o}); return c.parents
chainmap_gone: c = collections.ChainMap({"b": o}, {"a": 1}); return c.parents
stack: s = contextlib.ExitStack(); s.callback(lambda: o); return s
stack_gone: s = contextlib.ExitStack(); s.callback(lambda: o); s.close(); return s
dict_replaced: a = Held(); a.o = o; a.__dict__ = {}; return a
dict_replaced_live: a = Held(); a.__dict__ = {"q": o}; return a
weak: return weakref.ref(o)
wset: return weakref.WeakSet([o])
wval: return weakref.WeakValueDictionary({1: o})
tensorattr: t = torch.zeros(1); t.o = o; return t
slice_: return [o, 1][1:]
listmul: l = [o] * 2; l.remove(o); return l
inplace: l = [o]; l[:] = [1]; return l
sortkey: l = [2, 1]; l.sort(key=lambda v: (o, v)[1]); return l
dictor: return {1: o} | {1: 2}
mapping_proxy: return types.MappingProxyType({1: o})
simple_ns: n = types.SimpleNamespace(a=o); n.a = 1; return n
prop: return property(lambda s: o)
recur: l = [o]; l.append(l); return l
dict_it_key: it = iter({o: 1}); next(it); next(it, None); return it
dict_it_removed: d = {1: 2, o: 1}; it = iter(d); next(it); del d[o]; d[3] = 4; return it
dict_items_replaced: d = {1: 2, 2: o}; it = iter(d.items()); next(it); d[2] = 3; return it
list_it_removed: l = [1, o]; it = iter(l); next(it); l.pop(); return it
set_it_removed: l = {1, o}; it = iter(l); l.discard(o); return it
rev_removed: l = [o, 1]; it = reversed(l); next(it); l[0] = 3; return it
rev_dict: l = {1: 1, o: 3}; it = reversed(l); next(it); del l[o]; l[3] = 1; return it
deque_it: l = collections.deque([o]); it = iter(l); next(it); next(it, None); return it
deque_it_removed: l = collections.deque([o, 1]); it = iter(l); l.popleft(); return it
enum_removed: l = [1, o]; it = enumerate(l); next(it); l.pop(); return it
zip_removed: l = [1, o]; it = zip(l, l); next(it); l.pop(); return it
map_removed: l = [1, o]; it = map(str, l); next(it); l.pop(); return it
chain_removed: l = [1, o]; it = itertools.chain(l, [2]); next(it); l.pop(); return it
islice_removed: l = [1, o]; it = itertools.islice(l, 5); next(it); l.pop(); return it
view_removed: l = {1: o}; it = l.values(); del l[1]; return it
exc_cause: e = ValueError(1); e.__cause__ = KeyError(o); e.__cause__ = None; return e
exc_name: e = NameError(1, name=o); e.name = 3; return e
exc_name_live: e = AttributeError(1, obj=o); return e
stopit: e = StopIteration(o); return e
stopit_gone: e = StopIteration(o); e.args = (); return e
stopit_gone2: e = StopIteration(o); e.args = (); e.value = 3; return e
methodcaller: return operator.methodcaller("a", o)
partial_gone: p = functools.partial(print, o); p.__setstate__((print, (), {}, {})); return p
dictkeys_set: d = {o: 1}; s = d.keys() - {o}; d.clear(); return s
unpacked: a, *b = [1, o, 2]; b.pop(0); return b
swapped: a = [o]; b = [1]; a, b = b, a; return a
sortd: l = [(2, o), (1, 3)]; l.sort(); l.pop(); return l
copied: l = [o]; m = copy.copy(l); l.clear(); return l
copied2: l = [o]; m = copy.copy(l); l.clear(); return m
mod_fwd: m = torch.nn.Module(); m.o = o; m.o = 1; return m
mod_hook: m = torch.nn.Module(); h = m.register_forward_hook(lambda *a: o); h.remove(); return m
mod_hook_live: m = torch.nn.Module(); h = m.register_forward_hook(lambda *a: o); return m
counter_sub: c = collections.Counter({1: 2}); c[o] = 1; c.subtract({o: 1}); c = +c; return c
len_of: return len([o])
typing_alias: return list[o]
slice_obj: return slice(o)
cmpkey: return functools.cmp_to_key(lambda a, b: 0)(o)
attrgetter: return operator.attrgetter("a")
uni: return int | None
nt_replace: return collections.namedtuple("N", "a b")(o, 1)._replace(a=2)
ordered: d = collections.OrderedDict([(1, o), (2, 3)]); d.move_to_end(1); d.pop(1); return d
cellm: c = types.CellType(o); c.cell_contents = 3; return c
listcomp: return [v for v in [o, 1] if v == 1]
fstr: return f"{o is None}"
sumr: return functools.reduce(lambda a, b: 1, [o, 2])
defaultd: d = collections.defaultdict(list); d[1].append(o); d[1].clear(); return d
nested: return {"a": [({"b": o},)]}
wkd: d = weakref.WeakKeyDictionary(); d[o] = 1; return d
fin: return [weakref.ref(o), weakref.WeakMethod]
module_list: m = torch.nn.ModuleList([torch.nn.ReLU()]); m[0].o = o; m.pop(0); return m
module_set: m = torch.nn.Sequential(torch.nn.ReLU()); m[0].o = o; m[0] = torch.nn.ReLU(); return m
module_live: m = torch.nn.Sequential(torch.nn.ReLU()); m[0].o = o; return m
nullc: return contextlib.nullcontext(o)
closing: o.close = lambda: None; return contextlib.closing(o)
suppress: return contextlib.suppress(ValueError)
"""
MODULES = (collections, contextlib, copy, dataclasses, functools, itertools, operator, types, weakref, torch)
SCOPE = {"Held": Held, **{each.__name__: each for each in MODULES}}
WAYS = {}
for _line in LINES.strip().splitlines():
    _name, _, _text = _line.partition(": ")
    execute(f"def {_name}(o): {_text}\n", _scope := {**SCOPE})
    WAYS[_name] = _scope[_name]


def way(f):
    WAYS[f.__name__] = f
    return f


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
def slot(o):
    class S:
        __slots__ = ("a",)
    s = S(); s.a = o; return s


@way
def classattr(o):
    class K: pass
    K.o = o; return K


@way
def classattr_inst(o):
    class K: pass
    K.o = o; return K()


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
def single(o):
    @functools.singledispatch
    def f(a): return a
    f.register(Held, lambda a: o)
    f(o)
    return f


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
