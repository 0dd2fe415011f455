"""What the interpreter makes of an exception that the program's special methods raise, StopIteration above all.

Where it asks whether there is more, what something is called or how long it is, some exceptions are an answer.
"""
import contextlib
import functools
import itertools
import operator
import string

import pytest
import torch

from tests.differential import check, execute

#: What the lines are about.
WORLD = """
import contextlib
class M(dict):
    def __missing__(self, k):
        if k == 'stop': raise StopIteration(4)
        if k == 'key': raise KeyError('inner')
        return '<' + k + '>'
class G:
    def __getitem__(self, k):
        if k == 3: raise StopIteration(5)
        if k == 'x': raise AttributeError('g')
        return k
class A:
    def __getattr__(self, n):
        if n == 'stop': raise StopIteration(6)
        if n == 'idx': raise IndexError(n)
        raise AttributeError(n)
class It:
    def __init__(self, e): self.e = e; self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 2: raise self.e
        return self.n
class Len:
    def __init__(self, e): self.e = e
    def __len__(self): raise self.e
    def __iter__(self): return iter([1, 2])
class Hint:
    def __init__(self, e): self.e = e
    def __length_hint__(self):
        if isinstance(self.e, Exception): raise self.e
        return self.e
    def __iter__(self): return iter([1, 2])
class Bool:
    def __init__(self, e): self.e = e
    def __bool__(self):
        if isinstance(self.e, Exception): raise self.e
        return self.e
class Call:
    def __init__(self, e): self.e = e
    def __call__(self, *a): raise self.e
class Fmt:
    def __format__(self, s): raise StopIteration(s)
class Cmp:
    def __init__(self, e): self.e = e
    def __eq__(self, o): raise self.e
    def __lt__(self, o): raise self.e
    def __hash__(self): return 1
class Ctx:
    def __init__(self, e): self.e = e
    def __enter__(self): return self
    def __exit__(self, *a): raise self.e
class Desc:
    def __get__(self, o, t): raise StopIteration(8)
class HasDesc:
    d = Desc()
def g_yield():
    try:
        yield 1
        yield 2
    except GeneratorExit:
        raise KeyError('closing')
def g_ret():
    r = yield 1
    return r
def g_from(it):
    r = yield from it
    return ('got', r)
@contextlib.contextmanager
def cm():
    try: yield 1
    except ValueError: raise StopIteration(3)
@contextlib.contextmanager
def cm2():
    yield 1
    yield 2
@contextlib.contextmanager
def cm3():
    try: yield 1
    except StopIteration as e: LOG.append(e.value)
@contextlib.contextmanager
def cm0():
    if 0: yield
LOG = []
def w(c, e=None):
    with c as v:
        if e is not None: raise e
        return v
def drain(it):
    out = []
    try:
        while True: out.append(next(it))
    except StopIteration as e: out.append(('end', e.value))
    return out
def snd(it, *vs):
    out = []
    for v in vs:
        try: out.append(it.send(v))
        except BaseException as e: out.append((type(e).__name__, str(e), getattr(e, 'value', None)))
    return out
def thr(it, e, first=True):
    out = []
    if first: out.append(next(it))
    try: out.append(it.throw(e))
    except BaseException as x: out.append((type(x).__name__, str(x), getattr(x, 'value', None), type(x.__cause__).__name__))
    return out
def a_unpack(it):
    a, b = it
    return a, b
"""
LINES = """
'{a} {stop}'.format_map(M(a=1))
'{a} {key}'.format_map(M(a=1))
'{a} {b}'.format_map(M(a=1))
'%(a)s %(stop)s' % M(a=1)
'%(b)s' % M(a=1)
string.Template('$a $b').substitute(M(a=1))
string.Template('$a $key').safe_substitute(M(a=1))
string.Template('$a $stop').safe_substitute(M(a=1))
M().get('stop', 3)
'stop' in M()
operator.itemgetter('stop')(M())
list(map(operator.itemgetter('stop'), [M()]))
list(map(M().__getitem__, ['a', 'stop', 'b']))
[M()[k] for k in ['a', 'stop', 'b']]
list(G())
5 in G()
3 in G()
tuple(iter(G()))
[*map(G().__getitem__, [1, 3, 4])]
'{0[x]}'.format(G())
list(zip(G(), G()))
A().stop
getattr(A(), 'stop', 3)
hasattr(A(), 'stop')
hasattr(A(), 'idx')
list(map(lambda n: getattr(A(), n), ['stop']))
list(map(operator.attrgetter('stop'), [A()]))
list(A().stop for _ in [1])
list(It(IndexError()))
list(It(StopIteration(1)))
list(It(KeyError(1)))
drain(It(StopIteration(1)))
drain(map(str, It(StopIteration(1))))
drain(g_from(It(StopIteration(1))))
drain(g_from(map(str, It(StopIteration(1)))))
drain(g_from([1, 2]))
drain(g_from(g_ret()))
drain(g_from(iter(It(StopIteration((1, 2))))))
drain(It(StopIteration(1, 2)))
drain(It(StopIteration))
drain(g_from(It(StopIteration)))
drain(g_from(zip(It(StopIteration(3)), [1, 2, 3])))
drain(itertools.chain(It(StopIteration(3)), It(StopIteration(4))))
list(Len(ValueError(1)))
list(Len(TypeError(1)))
list(Len(StopIteration(1)))
tuple(Len(TypeError(1)))
[*Len(TypeError(1))]
[*Len(ValueError(1))]
bool(Len(ValueError(1)))
list(Hint(ValueError(1)))
list(Hint(TypeError(1)))
list(Hint(-1))
list(Hint('a'))
list(Hint(NotImplemented))
tuple(Hint(-1))
bytes(Hint(-1))
bytearray(Hint(TypeError(1)))
operator.length_hint(Hint(NotImplemented), 7)
operator.length_hint(Hint(TypeError()), 7)
operator.length_hint(Len(TypeError()), 7)
list(filter(Bool, [StopIteration(1), 1]))
list(filter(Bool(StopIteration(1)), [1]))
list(filter(None, [Bool(StopIteration(1))]))
any([Bool(StopIteration(1))])
all(map(Bool, [True, StopIteration(1)]))
not Bool(2)
bool(Bool(None))
list(itertools.takewhile(lambda v: Bool(StopIteration(2)), [1, 2]))
list(iter(Call(StopIteration(1)), 3))
list(iter(Call(KeyError(1)), 3))
drain(iter(Call(StopIteration(1)), 3))
list(map(Call(StopIteration(1)), [1]))
functools.reduce(Call(StopIteration(1)), [1, 2])
functools.partial(Call(StopIteration(1)))()
sorted([1, 2], key=Call(StopIteration(1)))
f'{Fmt():a}'
format(Fmt(), 'b')
'{:x}'.format(Fmt())
list(f'{v:a}' for v in [Fmt()])
[Cmp(StopIteration(1))].index(2)
[1, Cmp(StopIteration(1))].count(2)
Cmp(StopIteration(1)) in [1]
list(filter(lambda v: v == 1, [Cmp(StopIteration(1))]))
sorted([Cmp(StopIteration(1)), Cmp(StopIteration(2))])
max([Cmp(StopIteration(1)), Cmp(StopIteration(2))])
{Cmp(StopIteration(1)): 1, Cmp(StopIteration(2)): 2}
list(itertools.groupby([Cmp(StopIteration(1)), Cmp(StopIteration(2))]))
[k for k, _ in itertools.groupby([Cmp(StopIteration(1)), 2])]
w(Ctx(StopIteration(1)))
w(Ctx(StopIteration(1)), KeyError(2))
list(w(Ctx(StopIteration(1))) for _ in [1])
list(map(lambda v: w(Ctx(StopIteration(1))), [1]))
HasDesc().d
getattr(HasDesc(), 'd', 1)
list(map(lambda o: o.d, [HasDesc()]))
w(cm(), ValueError(1))
w(cm(), KeyError(1))
w(cm(), StopIteration(5))
w(cm3(), StopIteration(5)), LOG[-1:]
w(cm2())
w(cm2(), KeyError(1))
w(cm0())
thr(g_yield(), GeneratorExit())
thr(g_yield(), StopIteration(2))
thr(g_ret(), StopIteration(2))
thr(g_from(g_ret()), StopIteration(2))
thr(g_from(It(StopIteration(9))), StopIteration(2))
thr(g_from(map(str, It(StopIteration(9)))), StopIteration(2))
thr(g_ret(), StopIteration(2), False)
snd(g_ret(), None, 4, 5)
snd(g_from(g_ret()), None, 4, 5)
snd(g_from(It(StopIteration(9))), None, 4)
snd(g_from([1, 2]), None, None, None, None)
snd(g_from(map(str, It(StopIteration(9)))), None, None, None)
list(g_from(g_ret()))
sum(g_from(iter([1, 2])))
drain(x for x in g_ret())
drain(enumerate(g_ret()))
drain(zip(g_ret(), g_ret()))
next(g_ret(), 1), next(map(str, g_ret()), 1)
dict([It(StopIteration(1))])
dict(It(StopIteration(1)))
a_unpack(It(StopIteration(1)))
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(50)
@pytest.mark.parametrize("line", LINES)
def test_an_exception_of_a_special_method(line):
    scope = {each.__name__: each for each in (contextlib, functools, itertools, operator, string)}
    execute(WORLD + f"""
def program(x):
    LOG.clear()
    try:
        found = {line}
    except BaseException as error:
        found = type(error), getattr(error, "value", None), str(error), type(error.__context__), type(error.__cause__)
    return found, x + 1
""", scope)
    check(scope["program"], torch.ones(2))
