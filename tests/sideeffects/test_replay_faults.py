"""What the residual code replays may raise, or show the world to code that nobody can see: what was before it has
happened then, and nothing of what comes after it."""
import collections
import contextlib
import io
import logging
import random
import warnings
from array import array

import pytest
import torch

import jit
from tests.differential import COUNTING, Counting, check, execute
from tests.snapshot import Fields, Items, Snapshot, difference

WHERE = {}


class Sink(io.RawIOBase):
    """A file that remembers the world at each write, and refuses one of them."""

    def __init__(self, world, stop):
        self.world, self.stop = world, stop

    def writable(self):
        return True

    def write(self, data):
        self.world.seen.append((bytes(data).decode(), self.world.look()))
        if f"at {self.stop}" in bytes(data).decode():
            raise ConnectionError("refused")
        return len(data)


class Teller(logging.Handler):
    """A handler of log messages that does the same."""

    def __init__(self, world, stop):
        super().__init__()
        self.world, self.stop = world, stop

    def emit(self, record):
        self.world.seen.append((record.getMessage(), self.world.look()))
        if record.args == (self.stop,):
            raise ConnectionError("refused")


class Node:
    def __init__(self, value=None):
        self.value = value


class Slotted:
    __slots__ = ("a", "b")


class Words(dict):
    pass


class Row(list):
    pass


class World:
    def __init__(self, stop=None):
        self.seen, self.snapshot = [], Snapshot()
        self.sink = Sink(self, stop)
        self.out = io.TextIOWrapper(io.BufferedWriter(self.sink), write_through=True)
        self.log = logging.Logger("told")
        self.log.addHandler(Teller(self, stop))
        self.stop = stop
        self.l = [1, 2, 3]
        self.unread = [1]
        self.q = collections.deque([1, 2, 3], 4)
        self.d = {"a": 1, "b": 2, "c": 3}
        self.od = collections.OrderedDict(a=1, b=2, c=3)
        self.dd = collections.defaultdict(list, a=[1])
        self.s = {1, 2, 3}
        self.ba = bytearray(b"abc")
        self.ar = array("i", [1, 2])
        self.n = Node(1)
        self.n.old = 2
        self.t = Slotted()
        self.w = Words(a=1)
        self.r = Row([1])
        self.it = iter([1, 2, 3, 4, 5, 6])
        self.kept = []

    def look(self):
        names = ("l", "unread", "q", "d", "od", "dd", "s", "ba", "ar", "n", "t", "w", "r", "it", "kept")
        return self.snapshot.walk(Fields({**{name: getattr(self, name) for name in names}, "global": dict(WHERE)}))


def printed(w, n):
    print("at", n, file=w.out, flush=True)


def written(w, n):
    w.out.write(f"at {n}\n")
    w.out.flush()


def warned(w, n):
    warnings.warn(f"at {n}")


def logged(w, n):
    w.log.warning("at %d", n)


TOLD = [printed, written, warned, pytest.param(logged, marks=pytest.mark.long)]  # a graph for each message


def outcome(program, tell, stop):
    """What the world is at each effect, and in the end; of two calls."""
    found = []
    for _ in range(2):
        WHERE.clear()
        world = World(stop)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            warnings.filterwarnings("error", message=f"at {stop}$")
            try:
                result = program(torch.ones(2), world, tell)
            except (UserWarning, ConnectionError) as error:
                result = repr(error)
        found.append([world.seen, world.look(), world.snapshot.walk(Items([result]))])
        world.sink.stop = None
    return found


def compare(program, compiled, tell):
    for stop in (None, 0, 1, 2, 3):
        found = difference(outcome(program, tell, stop), outcome(compiled, tell, stop))
        assert found is None, f"stopped at {stop}: {found}"


# --- one kind of place at a time --------------------------------------------------------------------------------------
def attributes(x, w, tell):
    w.n.value, w.n.new = x + 1, 2
    tell(w, 0)
    w.n.value = 3
    del w.n.old, w.n.new
    w.t.a = 1
    tell(w, 1)
    w.n.new, w.n.old = 4, 5
    w.t.a, w.t.b = 2, 3
    return x * 2


def lists(x, w, tell):
    w.l.append(x)
    w.unread.append(1)
    w.r.append(5)
    tell(w, 0)
    w.l.append(4)
    w.unread.append(x * 3)
    w.q.append(7)
    tell(w, 1)
    w.l.sort(key=lambda v: 0 if v is x else -v)
    w.l[1:3] = [9]
    w.unread.extend([2, 3])
    w.q.append(8)
    w.r.insert(0, 4)
    tell(w, 2)
    w.l.clear()
    w.unread.reverse()
    w.q.rotate(1)
    return x + 1


def dicts(x, w, tell):
    w.d["a"] = x
    w.d["n"] = 1
    w.od.move_to_end("a")
    w.dd["a"].append(2)
    w.w["b"] = 1
    tell(w, 0)
    del w.d["a"]
    w.d["a"] = 2
    w.od.popitem(last=False)
    w.dd["b"].append(3)
    tell(w, 1)
    del w.d["n"]
    w.d["m"], w.d["n"] = 3, 4
    w.d.update(b=7)
    w.od["z"] = 1
    w.w.pop("a")
    tell(w, 2)
    w.d.clear()
    w.d["end"] = 1
    w.od.move_to_end("z", last=False)
    return x + 1


def sets_and_buffers(x, w, tell):
    w.s.add(4)
    w.ba.append(1)
    w.ar.append(3)
    tell(w, 0)
    w.s.discard(1)
    w.s |= {7, 8}
    w.ba += b"de"
    w.ar[0] = 9
    tell(w, 1)
    w.s.clear()
    del w.ba[0]
    w.ar.append(4)
    return x + 1


def born(x, w, tell):
    new, deeper, known, marks, node = [x], [[]], {"k": 1}, {1}, Node([])
    w.kept.append([new, deeper, known, marks, node])
    tell(w, 0)
    new.append(1)
    deeper[0].append(new)
    known["l"] = new
    del known["k"]
    marks.add(2)
    node.value.append(2)
    node.more = x * 2
    tell(w, 1)
    new[0] = 5
    node.value = node.more
    del node.more
    known["k"] = 2
    marks.discard(1)
    return new, node, x * 4


def seen_and_gone(x, w, tell):
    """Values that are nowhere in the end."""
    w.n.value = x * 2
    w.l.append(x * 3)
    w.kept.append({"t": x * 4})
    tell(w, 0)
    w.n.value = None
    w.l.clear()
    w.kept.clear()
    return x + 1


def born_subclasses(x, w, tell):
    row, words = Row([1]), Words()
    row.name = "r"
    w.kept.extend([row, words])
    tell(w, 0)
    row.append(words)
    words["a"] = x
    row.name = "s"
    tell(w, 1)
    del row[0]
    return row, x + 1


def in_cycles(x, w, tell):
    first, second = [1], {}
    first.append(second)
    w.kept.append(first)
    tell(w, 0)
    second["first"] = first
    node = Node(first)
    first.append(node)
    tell(w, 1)
    first.pop()
    second["node"] = node
    return x + 1


def names(x, w, tell):
    count = 0

    def step():
        nonlocal count
        count += 1
        WHERE["count"] = count
        return count

    w.kept.append(step)
    step()
    tell(w, 0)
    step()
    WHERE["x"] = count
    tell(w, 1)
    WHERE.pop("x")
    return x + step()


def iterators(x, w, tell):
    a = next(w.it)
    tell(w, 0)
    a += next(w.it) + next(w.it)
    tell(w, 1)
    a += next(w.it)
    return x + a


def in_a_loop(x, w, tell):
    for n, it in enumerate([1, 2, 3]):
        w.l.append(it)
        w.kept.append([n])
        tell(w, n)
        w.kept[-1].append(it)
        x = x + it
    return x


def _deep(x, w, tell, n):
    w.l.append(n)
    tell(w, n)
    if n < 3:
        x = _deep(x + 1, w, tell, n + 1)
    w.l.append(-n)
    return x


def in_callees(x, w, tell):
    return _deep(x, w, tell, 0)


PROGRAMS = [attributes, lists, dicts, sets_and_buffers, born, seen_and_gone, born_subclasses, in_cycles, names, iterators, in_a_loop, in_callees]


@pytest.mark.parametrize("tell", TOLD, ids=lambda tell: tell.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_was_before_has_happened_and_nothing_after(program, tell):
    """A handler that has the world may write what the frame goes by: each message breaks the graph."""
    counting, is_whole = Counting(), COUNTING and tell is not logged
    compiled = jit.compile(program, backend=counting, fullgraph=is_whole)
    compare(program, compiled, tell)
    if is_whole:
        counting.expect(1)


# --- all of them together ---------------------------------------------------------------------------------------------
LINES = """
w.l.append({n}); w.l.insert(0, {n}); w.l.pop(); w.l[0:1] = [{n}, {n}]; w.l.reverse(); w.l += [x, {n}]; w.l.clear(); w.l *= 2
w.unread.append({n}); w.unread.extend([{n}, x]); w.unread.append(w.l)
w.q.append({n}); w.q.appendleft({n}); w.q.rotate({n}); w.q.extend([{n}, 0]); w.q and w.q.pop()
w.d["{k}"] = {n}; w.d.pop("{k}", None); w.d.update({k}={n}, {j}=0); w.d.setdefault("{k}", []); w.d |= dict({k}=x); w.d and w.d.popitem(); w.d.clear()
w.od["{k}"] = {n}; w.od.pop("{k}", None); w.od.setdefault("{k}", {n}); w.od["{k}"] = {n}; w.od.move_to_end("{k}"); w.od and w.od.popitem(last=False)
w.dd["{k}"].append({n}); w.dd.pop("{k}", None)
w.s.add({n}); w.s.discard({n}); w.s |= {{1, {n}}}; w.s -= {{{n}, 2}}; w.s.clear()
w.ba.append({n}); w.ba += b"ab"; w.ba[:1] = b""; w.ar.append({n}); w.ar.insert(0, {n})
w.n.value = {n}; w.n.{k} = x + {n}; w.n.{k} = []; w.n.__dict__.pop("{k}", None); w.t.a = {n}; w.n.value = w.kept
w.kept.append([]); w.kept.append({{}}); w.kept.append(Node({n})); w.kept.append(set()); w.kept and w.kept.pop(); w.kept.append(w.l[:]); w.kept.append(dict(w.d))
w.kept[-1].append({n}); w.kept[-1].append(w.kept[-1]); w.kept[-1]["{k}"] = {n}; w.kept[-1].value = w.kept[0]; w.kept[-1].add({n}); w.kept[-1].clear()
next(w.it, None); w.l.append(next(w.it, 0)); w.r.append({n}); w.w["{k}"] = {n}; del w.w["a"]; del w.l[0]; del w.d["{k}"]
""".replace("\n", ";").split(";")


def _program(choose):
    lines = []
    for tells in range(choose.randrange(1, 5)):
        for _ in range(choose.randrange(0, 6)):
            line = choose.choice(LINES).strip() or "pass"
            lines.append(line.format(n=choose.randrange(4), k=choose.choice("abz"), j=choose.choice("cy")))
        lines.append(f"tell(w, {tells})")
    lines.append(choose.choice(LINES).strip().format(n=4, k="d", j="e") or "pass")
    body = "".join(f"    {line}\n" if line.startswith("tell") else f"    try: {line}\n    except (KeyError, IndexError, TypeError, AttributeError, ValueError): pass\n" for line in lines)
    return f"def program(x, w, tell):\n{body}    return x + 1, w.l\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tell", [printed, warned], ids=lambda tell: tell.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_that_stop_anywhere(tell, seed):
    choose = random.Random(seed)
    for _ in range(12 if COUNTING else 3):
        scope = {"Node": Node}
        text = _program(choose)
        execute(text, scope)
        program = scope["program"]
        compiled = jit.compile(program, backend="eager")
        compare(program, compiled, tell)


# --- who sees the error -----------------------------------------------------------------------------------------------
class Around:
    def __init__(self, log, answer=False):
        self.log, self.answer = log, answer

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind)
        return self.answer


@contextlib.contextmanager
def around(log):
    try:
        yield
    finally:
        log.append("left")


def shout(x, out):
    y = x * 2
    print("so", file=out)
    return y + 1


def nobody(x, out, log):
    log.append(1)
    y = shout(x + 1, out)
    log.append(2)
    return y


def a_mode(x, out, log):
    with torch.no_grad(), contextlib.nullcontext():
        y = shout(x, out)
    log.append(torch.is_grad_enabled())
    return y


def its_own_except(x, out, log):
    try:
        x = shout(x, out)
    except ValueError as error:
        log.append(str(error))
    return x + 1


def a_caller_s_except(x, out, log):
    try:
        return nobody(x, out, log)
    except ValueError as error:
        log.append(error)
        return x + 3


def an_except_outside_of_a_mode(x, out, log):
    try:
        with torch.no_grad():
            x = shout(x, out)
    except ValueError:
        log.append("caught")
    return x + 1


def a_finally(x, out, log):
    try:
        x = shout(x, out)
    finally:
        log.append("finally")
    return x


def a_manager(x, out, log):
    with Around(log):
        x = shout(x, out)
    return x


def a_manager_that_swallows(x, out, log):
    with Around(log, True):
        x = shout(x, out)
        log.append("not reached")
    return x + 2


def a_manager_of_a_generator(x, out, log):
    with around(log):
        x = shout(x, out)
    return x


def suppress(x, out, log):
    with contextlib.suppress(ValueError):
        out.write("so")
        log.append("not reached")
    return x + 2


def a_hook_s_handle(x, out, log):
    y = x * 2
    log.append(y)
    with y.register_hook(lambda g: log.append("hook")):
        shout(x, out)
    return y


def another_exception(x, out, log):
    try:
        log[9]
    except IndexError:
        x = shout(x, out)
    return x


def another_exception_s_cause(x, out, log):
    try:
        raise KeyError("first")
    except KeyError as first:
        log.append(first)
        try:
            raise IndexError("second") from first
        except IndexError:
            return shout(x, out)


def a_generator(x, out, log):
    def each():
        try:
            yield 1
            print("so", file=out)
            yield 2
        except ValueError:
            log.append("caught")
            yield 3

    for found in each():
        log.append(found)
        x = x + found
    return x


def a_loop_around_a_generator(x, out, log):
    def each():
        try:
            yield 1
        finally:
            log.append("closed")

    for found in each():
        x = shout(x + found, out)
    return x


def a_comprehension(x, out, log):
    return [shout(x + n, out) for n in (1, 2)]


def in_an_object(x, out, log):
    class Loud:
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            out.write(name)
            log.append(name)

        @property
        def size(self):
            return 1

        @size.setter
        def size(self, value):
            self.inner = value

    loud = Loud()
    log.append(loud)
    loud.first = x + 1
    loud.size = 3
    return x


def while_it_sorts(x, out, log):
    items = [3, 1, 2]
    log.append(items)
    items.sort(key=lambda n: out.write(str(n)) or n)
    return x + 1


def by_a_key_of_the_sort(x, out, log):
    items = [3, 1, 2]
    log.append(items)

    def key(n):
        log.append(n)
        out.write("s")
        return n

    items.sort(key=key)
    return x + 1


def again_and_again(x, out, log):
    n = 0
    while True:
        n += 1
        log.append(n)
        try:
            out.write("t")
            break
        except ValueError:
            if n == 3:
                raise
    return x + n


def a_finally_that_returns(x, out, log):
    try:
        out.write("t")
        log.append("not reached")
    finally:
        return x * 2  # noqa: B012


def while_it_iterates(x, out, log):
    table = {"a": 1, "b": 2}
    log.append(table)
    for key, value in table.items():
        table[key] = value + 1
        print(key, file=out)
    return x + 1


def by_a_hook_s_side(x, out, log):
    y = x * 2
    handle = y.register_hook(lambda gradient: gradient * 2)
    log.append(handle)
    out.write("1")
    handle.remove()
    log.append(2)
    return y


def of_tensors(x, out, log):
    x.tag = 1
    y = x * 2
    y.tag = 1
    log.append(y)
    out.write("1")
    x.tag, y.tag = 2, 3
    x.grad = torch.zeros(2)
    return y + 1


SEEN_BY = {
    nobody: 1, a_mode: 1, its_own_except: None, a_caller_s_except: None, an_except_outside_of_a_mode: None, a_finally: None, a_manager: None,
    a_manager_that_swallows: None, a_manager_of_a_generator: None, suppress: None, a_hook_s_handle: None, another_exception: 1,
    another_exception_s_cause: 1, a_generator: None, a_loop_around_a_generator: None, a_comprehension: 1, in_an_object: None, while_it_sorts: None,
    by_a_key_of_the_sort: None, again_and_again: None, a_finally_that_returns: None, while_it_iterates: 1, by_a_hook_s_side: 1, of_tensors: 1,
}


def closed():
    out = io.StringIO()
    out.close()
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make_out", [closed, io.StringIO], ids=["closed", "open"])
@pytest.mark.parametrize("program", SEEN_BY, ids=lambda program: program.__name__)
def test_an_error_of_the_replay_is_caught_where_eager_code_s_is(program, make_out):
    def make():
        return torch.ones(2, requires_grad=True), make_out(), []

    check(program, make=make, graphs=SEEN_BY[program] if make_out is io.StringIO else None, traceback="full")
