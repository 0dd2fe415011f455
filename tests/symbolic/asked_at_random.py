"""Programs made at random whose objects say what they are asked: iterators that are taken from by turns, classes of all
sorts of attributes, generators and coroutines that are driven.

A family gives the text of a module with `make()`, what the program is given, and `program(y, given)`. `seen` runs one and
answers with all that can be seen of it."""

import re
import sys
import textwrap
import types

import torch

from tests.differential import execute
from tests.symbolic import asked

#: Where the programs say what was asked of them, by `from asked_log import log, LOG`.
LOG = []
sys.modules["asked_log"] = types.ModuleType("asked_log")
sys.modules["asked_log"].LOG = LOG
sys.modules["asked_log"].log = LOG.append

IMPORTS = """
import collections, collections.abc, contextlib, copy, functools, heapq, inspect, itertools, math, operator, random, statistics
import sys, types, typing, weakref
import torch, jit
from asked_log import LOG, log
"""


def indented(lines, by=1):
    return textwrap.indent("\n".join(lines), "    " * by) + "\n"


def tried(step, errors="Exception"):
    """Lines that run a step, an expression or statements that lie apart by ;;, and note what came of it."""
    lines = [f"r = {step[1:]}"] if step.startswith("=") else step.split(";;")
    told = "out.append((type(e).__name__, type(e.__context__).__name__, type(e.__cause__).__name__))"
    return ["r = 0", "try:", *("    " + line for line in lines), "    out.append(r)", f"except {errors} as e: {told}"]


def steps(random, expressions, statements, count, breaks=0.06, errors="Exception"):
    lines = []
    for _ in range(count):
        step = "=" + random.choice(expressions) if random.random() < 0.75 else random.choice(statements)
        lines += tried(step, errors)
        if random.random() < breaks:
            lines.append("jit.graph_break()")
    return lines


# --- iterators --------------------------------------------------------------------------------------------------------
ITERATORS = """
class It:
    def __init__(self): self.count = 0
    def __iter__(self): log('iter'); return self
    def __next__(self):
        log('next'); self.count += 1
        if self.count > 4: raise StopIteration
        return self.count
    def __length_hint__(self): log('hint'); return 4
def noted(v): log(('noted', v)); return v
def gen():
    log('begin')
    for v in (3, 1, 2, 1): log(('gen', v)); yield v
    log('end')
"""
TAKES = """
next(q)|next(q, None)|list(q)|tuple(q)|set(q)|sorted(q, key=str)|sum(q)|sum(1 for _ in q)|max(q)|min(q, default=9)|max(q, key=noted, default=9)
any(q)|all(q)|1 in q|9 not in q|list(zip(q, [1, 2]))|list(zip([1, 2], q))|list(zip(q, q))|dict(zip(q, q))|list(zip(q, [1], strict=True))
list(map(noted, q))|list(map(lambda a, b: (a, b), q, [1]))|list(map(lambda a, b: (a, b), [1], q))|list(enumerate(q))|list(filter(None, q))
next(filter(noted, q), 8)|next(map(noted, q), 8)|list(itertools.islice(q, 2))|list(itertools.islice(q, 1, None, 2))|next(itertools.islice(q, 2, None), 9)
list(itertools.takewhile(lambda v: v != 1, q))|next(itertools.dropwhile(lambda v: v != 1, q), 9)|next(itertools.chain(q, [5]))|next(itertools.chain([5], q))
[(k, list(g)) for k, g in itertools.groupby(q)]|[k for k, g in itertools.groupby(q)]|next(itertools.groupby(q))[0]|next(itertools.pairwise(q), 9)
list(itertools.accumulate(q))|list(itertools.zip_longest([1], q))|list(itertools.compress(q, [1, 0, 1]))|[list(t)[:2] for t in itertools.tee(itertools.islice(q, 3))]
iter(q) is q|operator.length_hint(q, 4)|(lambda *a: a)(*itertools.islice(q, 3))|functools.reduce(lambda a, b: (a, b), q, 0)|collections.deque(itertools.islice(q, 3), maxlen=2)
collections.Counter(itertools.islice(q, 3))|{1, 2}.intersection(q)|{1, 2}.isdisjoint(q)|{1, 2}.issuperset(q)|{1, 2}.issubset(q)|'-'.join(q)|''.join(map(str, itertools.islice(q, 3)))
bytes(itertools.islice(q, 2))|heapq.nsmallest(2, itertools.islice(q, 3), key=str)|operator.indexOf(q, 1)|math.fsum(itertools.islice(q, 2))|math.prod(itertools.islice(q, 2))
y * next(q)|[v for v in q if noted(v)][:4]|{v: 1 for v in itertools.islice(q, 3)}|next(v for v in q if v)|q.__next__()|isinstance(q, collections.abc.Iterator)
""".strip().replace("\n", "|").split("|")
TAKING = [
    "for v in q: r = v; break", "for v in q:;;    if v == 1: break;;else: r = 7", "a, b = q;;r = b", "a, *b = q;;r = b",
    "for v in q:;;    for w in q: break;;    r = v", "l = [1, 2, 3];;l[1:2] = itertools.islice(q, 2);;r = l",
    "for v, w in zip(q, q): r = v, w; break", "y = y + sum(1 for _ in itertools.islice(q, 2));;r = y",
]  # fmt: skip
MADE = [*asked.ITERATORS.values(), "map(noted, [3, 1, 2, 1])", "(noted(v) for v in [3, 1, 2, 1])", "itertools.starmap(noted, [(1,), (2,), (0,)])"]


def iterators(random):
    made = random.choice([each for each in MADE if not any(name in each for name in ("Old", "Seq", "popped"))])
    body = ["q = " + random.choice(["given", made]), "out = []", *steps(random, TAKES, TAKING, random.choice([1, 2, 3]))]
    body.append("return out, list(itertools.islice(q, 4)), y + 1")
    return IMPORTS + ITERATORS + "def program(y, given):\n" + indented(body) + f"def make(): return {made}\n"


# --- classes ----------------------------------------------------------------------------------------------------------
CLASSES = """
class Data:
    def __set_name__(self, o, n): log(('set_name', n))
    def __get__(self, o, t=None): log('D get'); return self if o is None else o.__dict__.get('_d', 1)
    def __set__(self, o, v): log('D set'); o.__dict__['_d'] = v
    def __delete__(self, o): log('D del'); o.__dict__.pop('_d')
class NonData:
    def __get__(self, o, t=None): log('N get'); return 2 if o is not None else 22
@typing.runtime_checkable
class P(typing.Protocol):
    def x(self): ...
"""
ATTRIBUTES = """
@property\ndef x(self):\n    log('get x'); return self.__dict__.get('_x', 3)\n@x.setter\ndef x(self, v):\n    log('set x'); self.__dict__['_x'] = v\n@x.deleter\ndef x(self):\n    log('del x'); self.__dict__.pop('_x', None)
|x = property(lambda self: log('ro x') or 4)|x = Data()|x = NonData()|x = 5|def x(self, a=1):\n    log(('x', a)); return a
|@functools.cached_property\ndef x(self):\n    log('cached'); return 6|@staticmethod\ndef x(a=2): return a|@classmethod\ndef x(cls, a=2):\n    log(cls.__name__); return a
|def base(self, a, b=0): return (a, b)\nx = functools.partialmethod(base, 4)|pass
""".split("|")
METHODS = """
def __getattr__(self, k):\n    log(('getattr', k))\n    if k in ('u', 'x'): return 7\n    raise AttributeError(k)
|def __getattribute__(self, k):\n    log(('getattribute', k)) if k[:2] != '__' else None\n    return object.__getattribute__(self, k)
|def __setattr__(self, k, v):\n    log(('setattr', k)); object.__setattr__(self, k, v)|def __delattr__(self, k):\n    log(('delattr', k)); object.__delattr__(self, k)
|def __dir__(self):\n    log('dir'); return ['x']|def __call__(self, *a, **k):\n    log(('call', a)); return a|def __hash__(self):\n    log('hash'); return 3
|def __eq__(self, o):\n    log('eq'); return isinstance(o, type(self))|__match_args__ = ('x', 'y')|def __copy__(self):\n    log('copy'); return self
|def __getstate__(self):\n    log('getstate'); return dict(self.__dict__)|def __reduce_ex__(self, p):\n    log('reduce'); return (C, ())|def __iter__(self):\n    log('iter'); return iter([1, 2])
|def __len__(self):\n    log('len'); return 2|def __contains__(self, v):\n    log('contains'); return v == 1|def __bool__(self):\n    log('bool'); return False
|def __getitem__(self, k):\n    log(('getitem', k))\n    if isinstance(k, int) and k > 2: raise IndexError\n    return k
|def __init_subclass__(cls, **k):\n    super().__init_subclass__(); log(('subclass', cls.__name__))|def __class_getitem__(cls, k):\n    log(('cgi', k)); return k
|def __format__(self, s):\n    log(('format', s)); return 'f'|def __repr__(self):\n    log('repr'); return 'R'
""".strip().replace("\n|", "|").split("|")
ASKS = """
o.x|o.u|o.y|o.x()|o.x(3)|C.x|type(o).x|getattr(o, 'x', 0)|getattr(o, 'zz', 0)|hasattr(o, 'x')|hasattr(o, 'u')|vars(o)|dict(o.__dict__)|'x' in vars(o)|o.__dict__.get('x')
'x' in dir(o)|operator.attrgetter('x')(o)|operator.attrgetter('x', 'y')(o)|operator.methodcaller('x')(o)|copy.copy(o) is o|vars(copy.copy(o))|vars(copy.deepcopy(o))|o == o|o == C()|o != 3
hash(o) == hash(o)|o in [o]|{o: 1}[o]|isinstance(o, C)|isinstance(o, P)|callable(o)|o(1)|bool(o)|len(o)|list(o)|1 in o|o[0]|f'{o:>3}'|C[3]|super(C, o).__getattribute__('y')
object.__getattribute__(o, 'y')|C.__getattribute__(o, 'y')|o.__class__ is C|type(o) is o.__class__|o.__dir__()[:1]|C.__dict__.get('x') is not None|o.x + 1|(o.x, o.x)|[o.x for _ in range(2)]
C().x|D().x|D().y|super(D, D()).y|y * o.y|vars(C).get('__match_args__')|[k for k in C.__dict__ if k == 'x']|max(o, o, key=lambda e: e.y)|functools.partial(C.x, o)()|C.x(o)|issubclass(D, C)
""".strip().replace("\n", "|").split("|")
STORES = [
    "o.x = 2", "del o.x", "o.u = 2", "del o.u", "o.y = 8", "del o.y", "o.x += 1", "setattr(o, 'x', 4)", "delattr(o, 'x')", "o.__dict__['x'] = 5",
    "vars(o).update(x=6, w=1)", "o.__dict__.clear()", "object.__setattr__(o, 'x', 9)", "C.x = 11", "C.y = 12", "del C.x",
    "match o:;;    case C(x=v): r = v;;    case _: r = 0", "match o:;;    case [v, w]: r = v;;    case {}: r = 1;;    case _: r = 0", "for v in o: r = v",
    "a_, b_ = o;;r = b_", "if o: r = 1;;else: r = 2", "o.__class__ = D", "o.__dict__ = {'y': 3}", "class E(C): x = 3;;r = E().x, E.x",
    "class E(C):;;    def __init__(self): super().__init__(); self.e = 1;;r = E().e, E().y", "o.f = lambda: o.y;;r = o.f()",
]  # fmt: skip


def classes(random):
    methods = [text.replace("\\n", "\n").strip() for text in random.sample(METHODS, random.choice([0, 1, 2, 3]))]
    attribute = random.choice(ATTRIBUTES).replace("\\n", "\n").strip()
    parts = [attribute, *methods, "def __init__(self): self.y = 1"]
    cls = "class C:\n" + textwrap.indent("\n".join(parts), "    ") + "\nclass D(C): pass\n"
    place = random.choice(["given", "made", "inside"])
    body = cls.splitlines() if place == "inside" else []
    body += ["o = given" if place == "given" else "o = C()", "out = []", *steps(random, ASKS, STORES, random.choice([1, 2, 3, 3]))]
    body.append("return out, object.__getattribute__(o, '__dict__'), y + 1")
    outside = "" if place == "inside" else cls
    return IMPORTS + CLASSES + outside + "def program(y, given):\n" + indented(body) + f"def make(): return {'C()' if outside else 0}\n"


# --- generators -------------------------------------------------------------------------------------------------------
GENERATORS = """
class Oops(ValueError): pass
class Ctx:
    def __init__(self, s): self.s = s
    def __enter__(self): log('enter'); return self
    def __exit__(self, k, e, t): log(('exit', k and k.__name__)); return self.s and k is not None and issubclass(k, ValueError)
@contextlib.contextmanager
def cm(n):
    log('cm in')
    try: yield n
    except KeyError as e: log(('cm', repr(e)))
    finally: log('cm out')
def sub(n):
    try:
        for i in range(n):
            got = yield i
            if got: log(('sub got', got))
        return n
    except ValueError as e:
        log(('sub caught', repr(e))); yield 'v'
    finally: log('sub end')
def back():
    try: x = yield 'b'
    except KeyError: return 'kb'
    return x
class Stop:
    def __init__(self, v): self.v = v
    def __await__(self):
        try: got = yield self.v
        finally: log('stop end')
        return got
class ACtx:
    def __init__(self, s): self.s = s
    async def __aenter__(self): log('aenter'); await Stop('in'); return self
    async def __aexit__(self, k, e, t): log(('aexit', k and k.__name__)); return self.s and k is not None and issubclass(k, ValueError)
async def acor(v):
    try: return await Stop(v)
    except ValueError as e: log(('acor', repr(e))); return 'x'
    finally: log('acor end')
async def outer(g): return await g
def drive(c):
    v = None
    for k in range(12):
        try: v = c.send(v)
        except StopIteration as e: return ('ret', e.value)
    return 'stuck'
"""
CAUGHT = ["ValueError", "KeyError", "Oops", "StopIteration", "GeneratorExit", "Exception", "BaseException", "(ValueError, KeyError)"]
RAISED = ["ValueError(1)", "KeyError('k')", "Oops(2)", "StopIteration(3)", "RuntimeError('r')"]
WAITS = {
    False: (["v = yield v", "got = yield 1; log(('got', got))", "yield v + 1", "yield"],
            ["v = yield from sub(2)", "got = yield from sub(3); log(('ret', got))", "yield from [1, 2]", "v = yield from back()"],
            ["with Ctx(0):", "with Ctx(1):", "with cm(1):", "with contextlib.suppress(ValueError):", "with contextlib.closing(sub(2)):"],
            ["for i in range(2):", "while len(LOG) < 40:", "for i in sub(2):"]),
    True: (["v = await Stop(v)", "got = await Stop(1); log(('got', got))", "await Stop(v)"],
           ["v = await acor(2)", "got = await acor(await acor(1))", "v = await acor(v)"],
           ["async with ACtx(0):", "async with ACtx(1):", "with Ctx(1):", "with cm(1):"],
           ["for i in range(2):", "while len(LOG) < 40:"]),
}  # fmt: skip


def block(random, waits, depth=0, in_loop=False):
    return [line for _ in range(random.choice([1, 1, 2, 2, 3])) for line in statement(random, waits, depth, in_loop)]


def statement(random, waits, depth, in_loop):
    inside = lambda *first, loop=in_loop: ["    " + line for line in (*first, *block(random, waits, depth + 1, loop))]  # noqa: E731
    simple, delegating, contexts, loops = waits
    kind = random.random() * (1 if depth < 4 else 0.45)
    if kind < 0.25:
        return [random.choice(simple)]
    if kind < 0.4:
        return [random.choice(["log('a')", "log(v)", "v = v * 2 if type(v) is int else 1", "log(repr(sys.exception()))", "y = y + 1"])]
    if kind < 0.45:
        ends = ["break", "continue"] if in_loop else []
        return [random.choice([*ends, f"raise {random.choice(RAISED)}", "raise", f"raise {random.choice(RAISED)} from {random.choice(RAISED)}", "return v", "v = 1 // 0"])]
    if kind < 0.64:
        lines, way = ["try:", *inside()], random.random()
        if way < 0.75:
            caught = "log(('caught', repr(e), repr(e.__context__), repr(e.__cause__)))"
            lines += [f"except {random.choice(CAUGHT)} as e:", *inside(caught)]
        return [*lines, "finally:", *inside("log('fin')")] if way > 0.5 else lines
    if kind < 0.73:
        return [random.choice(contexts), *inside()]
    if kind < 0.82:
        return [random.choice(loops), *inside("log('turn')", loop=True)]
    if kind < 0.91:
        return [random.choice(delegating)]
    return ["if " + random.choice(["v", "v == 1", "got", "len(LOG) % 2", "y.numel() > 1"]) + ":", *inside(), "else:", *inside()]


DRIVEN = {
    False: ["next(g)", "next(g, 'end')", "g.send(None)", "g.send(5)", "g.throw(ValueError(9))", "g.throw(Oops(8))", "g.throw(KeyError)", "g.close()",
            "list(itertools.islice(g, 2))", "inspect.getgeneratorstate(g)", "g.gi_running", "g.gi_yieldfrom is None", "g.throw(GeneratorExit)",
            "g.throw(StopIteration(4))", "next(zip(g, [1, 2]), 0)", "dict(zip('ab', g))", "y * 2", "next(map(str, g), 'm')"],
    True: ["g.send(None)", "g.send(5)", "g.throw(ValueError(9))", "g.throw(Oops(8))", "g.close()", "drive(g)", "inspect.getcoroutinestate(g)", "g.cr_running",
           "g.cr_await is None", "y * 2", "next(g.__await__())", "drive(acor(4))", "drive(outer(g))"],
}  # fmt: skip
DRIVING = {
    False: ["for w in g: log(('w', w)); break", "try:;;    while len(LOG) < 60: log(('n', next(g)));;except StopIteration as e: r = e.value",
            "with contextlib.closing(g): log(next(g, 0))", "try:;;    raise KeyError(1);;except KeyError:;;    r = g.throw(ValueError(7))", "g = gen(y, 3)"],
    True: ["try:;;    1 // 0;;except ZeroDivisionError:;;    r = drive(g)", "try:;;    raise KeyError(1);;except KeyError:;;    r = g.throw(ValueError(7))"],
}  # fmt: skip


def _driven(random, is_async):
    body = block(random, WAITS[is_async])
    if not is_async and not any("yield" in line for line in body):
        body.append("yield v")
    gen = f"{'async ' if is_async else ''}def gen(y, v):\n    got = 0\n" + indented(body)
    place = random.choice(["given", "made", "inside"])
    lines = gen.splitlines() if place == "inside" else []
    lines += ["g = given" if place == "given" else "g = gen(y, 1)", "out = []"]
    lines += steps(random, DRIVEN[is_async], DRIVING[is_async], random.choice([2, 3, 4]), errors="BaseException")
    lines += ["g.close()", "return out, y + 1"]
    outside = "" if place == "inside" else gen
    return IMPORTS + GENERATORS + outside + "def program(y, given):\n" + indented(lines) + f"def make(): return {'gen(torch.ones(2), 1)' if outside else 0}\n"


def generators(random):
    return _driven(random, False)


def coroutines(random):
    return _driven(random, True)


FAMILIES = {each.__name__: each for each in (iterators, classes, generators, coroutines)}


# --- what is seen of them ---------------------------------------------------------------------------------------------
def loaded(text):
    scope = {"__name__": "program"}
    execute(text, scope)
    return scope


def seen(program, make):
    """What comes of it and what is left of what it was given, and what was asked meanwhile."""
    LOG.clear()
    given = make()
    try:
        result = ("returned", program(torch.ones(2), given))
    except BaseException as error:
        result = ("raised", type(error), str(error))
    said = list(LOG)
    if hasattr(given, "close"):
        try:
            given.close()
        except RuntimeError as error:
            said.append(repr(error))
    elif hasattr(given, "__next__"):
        said.append(_shown([each for each, _ in zip(_all(given), range(6))]))
    return re.sub(r"0x[0-9a-f]{6,}", "0x", repr((_shown(result), said, _shown(getattr(given, "__dict__", None)), LOG[len(said) :])))


def _all(iterator):
    try:
        yield from iterator
    except Exception as error:
        yield repr(error)


def _shown(value, depth=0):
    if depth > 5:
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if type(value) in (list, tuple, set, frozenset):
        parts = [_shown(each, depth + 1) for each in value]
        return type(value).__name__, sorted(parts, key=repr) if isinstance(value, (set, frozenset)) else parts
    if isinstance(value, dict):
        return type(value).__name__, [(_shown(key, depth + 1), _shown(each, depth + 1)) for key, each in value.items()]
    return value if type(value) in (int, str, float, bool, bytes, type(None)) else type(value).__name__
