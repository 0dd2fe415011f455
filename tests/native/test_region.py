"""Regions and the frame hook: only frames inside, and nothing else about a program changes."""

import asyncio
import gc
import sys
import threading
import traceback
import types

import pytest
import torch

import jit._C as C

COMPILED = "compiled"


def stand_in(function, body, slots, values=False):
    """Compiled code for `function`: plain parameters, its globals, and `body` as source."""
    names = [f"a{i}" for i in range(slots)] + ["value"] * values
    space = {}
    exec(f"def compiled({', '.join(names)}):\n    {body}", function.__globals__, space)
    return space["compiled"]


class Compiler:
    """Compiles functions by name, to code that returns ("compiled", name, slots)."""

    def __init__(self, *names, body=None, guards=lambda slots: C.Guards([], [], [])):
        self.names, self.body, self.guards = names, body, guards
        self.classified, self.missed = [], []
        self.caches = C.Caches()
        self.region = C.Region(self.caches, self.classify, self.miss)

    def classify(self, code):
        assert not self.region.active
        self.classified.append(code.co_name)
        return C.Cache(code, 8) if code.co_name in self.names else None

    def miss(self, cache, slots, function):
        assert not self.region.active and C.is_compiling_thread()
        self.missed.append((cache.code.co_name, slots))
        assert function.__code__ is cache.code
        guards = self.guards(slots)
        if guards is None:
            return None
        values = bool(guards.check(function, slots))
        shown = "".join(f"a{i}, " for i in range(len(slots)))
        body = self.body or f"return ('compiled', {cache.code.co_name!r}, ({shown}))"
        entry = C.Entry(guards, stand_in(function, body, len(slots), values))
        cache.add(entry)
        return entry

    def run(self, function, *args, **kwargs):
        return self.region(function, *args, **kwargs)


def leaf(x):
    return ("original", x)


def calls_leaf(x):
    return leaf(x)


def many(a, b=2, /, c=3, *more, d=4, **others):
    return "original"


# --- which frames


def test_frames_inside_are_replaced_and_outside_are_not():
    compiler = Compiler("leaf")
    assert compiler.run(calls_leaf, 1) == (COMPILED, "leaf", (1,))
    assert calls_leaf(1) == ("original", 1)
    assert compiler.run(calls_leaf, 2) == (COMPILED, "leaf", (2,))
    assert compiler.classified == ["calls_leaf", "leaf"]
    assert compiler.missed == [("leaf", (1,))]
    assert not compiler.region.active and len(compiler.caches) == 2


def test_ex_and_keywords():
    compiler = Compiler("many")
    expected = (COMPILED, "many", (1, 2, 9, 5, (), {"z": 6}))
    assert compiler.run(many, 1, c=9, d=5, z=6) == expected
    assert compiler.region.ex(many, (1,), {"c": 9, "d": 5, "z": 6}) == expected
    assert compiler.region.ex(many, (1, 2, 3, 4, 5)) == (COMPILED, "many", (1, 2, 3, 4, (4, 5), {}))
    for wrong in [(), (many,), (many, [1]), (many, (), 3)]:
        with pytest.raises(TypeError):
            compiler.region.ex(*wrong)
    with pytest.raises(TypeError):
        compiler.region()


def test_guards_choose():
    compiler = Compiler("leaf", guards=lambda slots: C.Guards([(-1, "arg", 0)], [(0, "eq", slots[0])], [0]))
    for x in (1, 2, 1, 2):
        assert compiler.run(calls_leaf, x) == (COMPILED, "leaf", (x,))
    assert compiler.missed == [("leaf", (1,)), ("leaf", (2,))]


def test_miss_may_decline():
    compiler = Compiler("leaf", guards=lambda slots: None)
    assert compiler.run(calls_leaf, 1) == ("original", 1) == compiler.run(calls_leaf, 1)
    assert len(compiler.missed) == 2
    compiler.caches.get(leaf.__code__).frozen = True
    assert compiler.run(calls_leaf, 1) == ("original", 1) and len(compiler.missed) == 2


def test_code_is_looked_up_by_identity():
    compiler = Compiler("leaf")
    compiler.caches.set(leaf.__code__, None)
    assert compiler.run(calls_leaf, 1) == ("original", 1)
    assert "leaf" not in compiler.classified


def test_cells_arguments_and_closures():
    def outer(x):
        def inner(y):
            return lambda: (x, y)

        return inner

    def guards(slots):
        return C.Guards([(-1, "closure", 0), (0, "cell", None)], [], [1])

    compiler = Compiler("inner", guards=guards, body="f = lambda: (a0, value)\n    return f()")
    for x in range(5):
        assert compiler.run(outer(x), 7) == (7, x)
    assert len(compiler.missed) == 1


def test_generators_pass_and_what_they_call_does_not():
    def generator(n):
        for i in range(n):
            yield leaf(i)

    async def coroutine(x):
        await asyncio.sleep(0)
        return leaf(x)

    async def asynchronous(n):
        for i in range(n):
            yield leaf(i)

    async def collect():
        return [x async for x in asynchronous(2)] + [await coroutine(5)]

    compiler = Compiler("leaf", "generator", "coroutine", "asynchronous", "collect")
    assert compiler.run(list, generator(2)) == [(COMPILED, "leaf", (0,)), (COMPILED, "leaf", (1,))]
    assert compiler.run(lambda: list(generator(1))) == [(COMPILED, "leaf", (0,))]
    loop = asyncio.new_event_loop()
    try:
        done = compiler.run(loop.run_until_complete, collect())
    finally:
        loop.close()
    assert done == [(COMPILED, "leaf", (x,)) for x in (0, 1, 5)]
    assert {name for name, _ in compiler.missed} == {"leaf"}


def test_class_and_module_bodies_pass():
    compiler = Compiler("Body", "<module>")
    space = {}
    compiler.run(exec, "class Body:\n    x = 1\ny = Body.x", space)
    assert space["y"] == 1
    assert compiler.missed == []


def test_methods_super_and_try():
    class Base:
        def hello(self):
            return "base"

    class Derived(Base):
        def hello(self):
            try:
                return super().hello() + "!"
            finally:
                leaf(1)

    compiler = Compiler("leaf")
    assert compiler.run(Derived().hello) == "base!"


# --- what runs without the region


def test_compiled_code_runs_without_the_region():
    compiler = Compiler("calls_leaf", "leaf", body="return leaf(a0)")
    assert compiler.run(calls_leaf, 1) == ("original", 1)
    assert compiler.missed == [("calls_leaf", (1,))]


def test_call_suspended():
    compiler = Compiler("leaf")
    assert compiler.run(C.call_suspended, calls_leaf, x=1) == ("original", 1)
    assert compiler.run(lambda: (C.call_suspended(leaf, 1), leaf(1))) == (("original", 1), (COMPILED, "leaf", (1,)))
    assert C.call_suspended(leaf, 1) == ("original", 1)
    with pytest.raises(ZeroDivisionError):
        compiler.run(C.call_suspended, lambda: 1 / 0)


def test_regions_nest():
    one, other = Compiler("leaf"), Compiler()
    nested = lambda: (leaf(1), other.run(leaf, 2), leaf(3))  # noqa: E731
    assert one.run(nested) == ((COMPILED, "leaf", (1,)), ("original", 2), (COMPILED, "leaf", (3,)))


def test_enter_and_exit():
    compiler = Compiler("leaf")
    compiler.region.enter()
    compiler.region.enter()
    inside = leaf(1)
    compiler.region.exit()
    still = leaf(2)
    compiler.region.exit()
    assert (inside, still, leaf(3)) == ((COMPILED, "leaf", (1,)), (COMPILED, "leaf", (2,)), ("original", 3))
    with pytest.raises(RuntimeError):
        compiler.region.exit()


def test_doors_inside_a_region():
    def f(x):
        return leaf(x)

    def miss(door, slots, function):
        if slots[0] < 0:
            return None
        return C.Entry(C.Guards([], [], []), stand_in(leaf, "return leaf(a0)", 1))

    door = C.Door(f, C.Cache(f.__code__, 8), miss)
    compiler = Compiler("leaf", "f")
    assert compiler.run(door, 1) == ("original", 1)  # its compiled code is no part of the region
    assert compiler.run(door, -1) == (COMPILED, "leaf", (-1,))  # its original is, but was decided on
    assert [name for name, _ in compiler.missed] == ["leaf"]


# --- errors


def test_errors_come_out_and_leave_the_region():
    def broken(*_):
        raise ZeroDivisionError("inside")

    for classify, miss in [(broken, None), (lambda code: C.Cache(code, 1), broken), (lambda code: 3, None)]:
        region = C.Region(C.Caches(), classify, miss)
        if miss is None and classify is not broken:
            with pytest.raises(TypeError, match="Cache or None"):
                region(leaf, 1)
        else:
            with pytest.raises(ZeroDivisionError, match="inside"):
                region(leaf, 1)
        assert not region.active and not C.is_compiling_thread()


def test_tracebacks_of_compiled_code():
    compiler = Compiler("leaf", body="return 1 / a0")
    with pytest.raises(ZeroDivisionError) as caught:
        compiler.run(calls_leaf, 0)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["calls_leaf", "compiled"]


def test_frames_can_be_kept():
    kept = []
    leaf.__globals__["keep"] = lambda: kept.append(sys._getframe(1))
    compiler = Compiler("leaf", body="local = [a0]; keep(); return local")
    try:
        assert compiler.run(calls_leaf, 1) == [1]
    finally:
        del leaf.__globals__["keep"]
    assert kept[0].f_locals == {"a0": 1, "local": [1]} and kept[0].f_code.co_name == "compiled"


# --- the interpreter around it


def test_compiled_code_of_any_size_at_any_depth():
    """Frames grow in place, or beside where the data stack has no room."""
    names = ", ".join(f"l{i}" for i in range(300))
    body = f"{names} = range(300)\n    return a0 + l299"

    def deep(n, x):
        return deep(n - 1, x) if n else leaf(x)

    compiler = Compiler("leaf", body=body)
    for depth in range(0, 300, 7):
        assert compiler.run(deep, depth, depth) == depth + 299


def test_compiled_code_with_other_globals():
    compiler = Compiler()
    space = {"answer": 42}
    exec("def compiled(x): return x + answer", space)
    cache = C.Cache(leaf.__code__, 1)
    cache.add(C.Entry(C.Guards([], [], []), space["compiled"]))
    compiler.caches.set(leaf.__code__, cache)
    assert [compiler.run(calls_leaf, x) for x in range(3)] == [42, 43, 44]


def test_reference_counts():
    compiler = Compiler("leaf", "many", guards=lambda slots: C.Guards([(-1, "arg", 0)], [], [0]))
    payload = object()
    before = sys.getrefcount(payload)
    for _ in range(30):
        compiler.run(calls_leaf, payload)
        compiler.run(many, payload, payload, payload, payload, d=payload, z=payload)
    compiler.missed.clear()
    gc.collect()
    assert sys.getrefcount(payload) == before


def test_settrace_and_setprofile_see_the_program():
    compiler = Compiler("leaf")
    assert compiler.run(calls_leaf, 1) == (COMPILED, "leaf", (1,))

    def events_of(install, run):
        seen = []
        ours = {calls_leaf.__code__: "calls_leaf", leaf.__code__: "leaf"}

        def record(frame, event, _):
            if frame.f_code in ours:
                seen.append((ours[frame.f_code], event, frame.f_lineno))
            return record

        install(record)
        try:
            run()
        finally:
            install(None)
        return seen

    plain = events_of(sys.settrace, lambda: calls_leaf(1))
    assert events_of(sys.settrace, lambda: compiler.run(calls_leaf, 1)) == plain != []
    calls = events_of(sys.setprofile, lambda: compiler.run(calls_leaf, 1))
    assert [c[:2] for c in calls] == [("calls_leaf", "call"), ("calls_leaf", "return")]


def test_threads_are_in_their_own_regions():
    compiler = Compiler("leaf", guards=lambda slots: C.Guards([(-1, "arg", 0)], [(0, "type", int)], [0]))
    compiler.run(leaf, 0)
    wrong = []
    stop = threading.Event()

    def inside():
        for i in range(300):
            if compiler.run(calls_leaf, i) != (COMPILED, "leaf", (i,)):
                wrong.append(i)

    def outside():
        while not stop.is_set():
            if calls_leaf(1) != ("original", 1) or compiler.region.active:
                wrong.append("outside")

    threads = [threading.Thread(target=inside) for _ in range(3)]
    other = threading.Thread(target=outside)
    other.start()
    [t.start() for t in threads]
    [t.join() for t in threads]
    stop.set()
    other.join()
    assert not wrong


def test_function_whose_code_is_replaced():
    compiler = Compiler("leaf")
    f = types.FunctionType(leaf.__code__, globals())
    assert compiler.run(f, 1) == (COMPILED, "leaf", (1,))
    f.__code__ = (lambda x: "other").__code__
    assert compiler.run(f, 1) == "other"


def test_tensors_in_a_region():
    def program(x):
        return torch.nn.functional.relu(x) + leaf(x)[2][0]

    compiler = Compiler("leaf")
    x = torch.tensor([-1.0, 2.0])
    assert compiler.run(program, x).tolist() == [-1.0, 4.0]


def test_recursion_in_a_region(child):
    child(
        """
        def f(n):
            return 0 if n == 0 else 1 + f(n - 1)

        def deepest():
            deep = 0
            def g():
                nonlocal deep
                deep += 1
                g()
            try:
                g()
            except RecursionError:
                return deep

        assert region(f, 950) == 950
        plain, inside = deepest(), region(deepest)
        assert abs(plain - inside) <= 3, (plain, inside)
        sys.setrecursionlimit(50_000)
        assert region(f, 40_000) == 40_000
        assert region(f, 950) == 950
        """
    )


def test_recursion_of_compiled_frames(child):
    child(
        """
        wanted.add("leaf")
        def leaf(n):
            return n
        def f(n):
            return leaf(n)[1] if n == 0 else f(n - 1)
        for depth in range(0, 700, 13):  # the last 256 levels run as written
            assert region(f, depth) == "leaf"
        """
    )


def test_toggling_under_other_threads(child):
    child(
        """
        wanted.add("leaf")
        def leaf(n):
            return n
        def calls(n):
            return leaf(n)
        bad = []
        def work(inside):
            for i in range(20_000):
                if inside:
                    if region(calls, i) != ("compiled", "leaf"): bad.append(i)
                elif calls(i) != i:
                    bad.append(i)
        threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not bad
        """
    )


def test_region_alive_at_exit(child):
    child(
        """
        wanted.add("leaf")
        def leaf(n):
            return n
        region.enter()
        assert leaf(1) == ("compiled", "leaf")
        class Late:
            def __del__(self):
                leaf(2)
        keep = Late()
        """
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitoring_sees_the_compiled_code():
    compiler = Compiler("leaf")
    seen = []
    tool = sys.monitoring.DEBUGGER_ID
    sys.monitoring.use_tool_id(tool, "test")
    sys.monitoring.register_callback(
        tool, sys.monitoring.events.PY_START, lambda code, offset: seen.append(code.co_name)
    )
    sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
    try:
        compiler.run(calls_leaf, 1)
        del seen[:]
        compiler.run(calls_leaf, 1)
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, None)
        sys.monitoring.free_tool_id(tool)
    assert "calls_leaf" in seen and "compiled" in seen and "leaf" not in seen


# A region that rests


def other(x):
    return x


def idle(frames):
    for _ in range(frames):
        other(1)


def resting(rests=True):
    compiler = Compiler("leaf")
    compiler.region = C.Region(compiler.caches, compiler.classify, compiler.miss, rests)
    return compiler


REST_AFTER = 20_000


def test_a_region_rests_after_many_frames_in_vain_until_the_next_operation():
    compiler = resting()
    seen = []

    def program():
        leaf(0)
        idle(REST_AFTER - 100)
        seen.append(compiler.region.resting)
        idle(200)
        seen.append((compiler.region.resting, compiler.region.active, leaf(1)))
        x = torch.ones(2)
        seen.append((compiler.region.resting, leaf(2)))
        return x

    assert compiler.run(program).tolist() == [1, 1]
    assert seen == [False, (True, True, ("original", 1)), (False, ("compiled", "leaf", (2,)))]
    assert not compiler.region.active and not compiler.region.resting


def test_compiled_frames_keep_it_awake():
    compiler = resting()

    def program():
        for _ in range(3):
            idle(REST_AFTER * 2 // 3)
            leaf(0)
        return compiler.region.resting

    assert compiler.run(program) is False


def test_only_a_region_that_may_rests():
    compiler = resting(rests=False)
    assert compiler.run(lambda: (idle(REST_AFTER * 2), compiler.region.resting, leaf(1))[1:]) == (
        False, ("compiled", "leaf", (1,)))


def test_who_rests_may_enter_other_regions_and_leave_its_own():
    compiler, inner = resting(), Compiler("leaf")

    def program():
        idle(REST_AFTER * 2)
        assert compiler.region.resting
        result = inner.run(leaf, 1), compiler.region.resting, leaf(2)
        torch.ones(1)
        return *result, leaf(3)

    # The way back into a region takes the hook along.
    assert compiler.run(program) == (("compiled", "leaf", (1,)), False, ("compiled", "leaf", (2,)), ("compiled", "leaf", (3,)))
    assert inner.missed and not compiler.region.active


def test_an_operation_of_another_thread_wakes_nobody():
    compiler = resting()

    def program():
        idle(REST_AFTER * 2)
        thread = threading.Thread(target=torch.ones, args=(2,))
        thread.start()
        thread.join()
        before = compiler.region.resting
        torch.ones(1)
        return before, compiler.region.resting

    assert compiler.run(program) == (True, False)


def test_the_main_thread_rests_while_it_waits_for_another():
    compiler = resting()
    thread = threading.Thread(target=idle, args=(REST_AFTER * 2,))
    compiler.region.enter()
    try:
        thread.start()
        thread.join()
        before = compiler.region.resting, leaf(1)
        torch.ones(1)
        after = compiler.region.resting, leaf(2)
    finally:
        compiler.region.exit()
    assert before == (True, ("original", 1)) and after == (False, ("compiled", "leaf", (2,)))


def test_the_main_thread_stays_awake_while_others_find_nothing_and_it_does():
    compiler = resting()
    compiler.region.enter()
    try:
        for number in range(3):
            thread = threading.Thread(target=idle, args=(REST_AFTER * 2 // 3,))
            thread.start()
            thread.join()
            found = compiler.region.resting, leaf(number)
    finally:
        compiler.region.exit()
    assert found == (False, ("compiled", "leaf", (2,)))


def test_resting_leaks_nothing():
    compiler = resting()

    def program():
        idle(REST_AFTER + 10)
        assert compiler.region.resting
        torch.ones(1)

    compiler.run(program)
    gc.collect()
    before = sys.getrefcount(compiler.region), len(gc.get_objects())
    for _ in range(3):
        compiler.run(program)
    gc.collect()
    after = sys.getrefcount(compiler.region), len(gc.get_objects())
    assert after[0] == before[0] and after[1] <= before[1] + 5


# Times


def test_frames_are_timed_as_written_and_compiled_where_a_cache_asks():
    compiler = Compiler("leaf")
    made = compiler.classify

    def classify(code):
        cache = made(code)
        if cache is not None:
            cache.timed = True
            caches.append(cache)
        return cache

    caches = []
    compiler.region = C.Region(compiler.caches, classify, compiler.miss)
    refused, compiler.guards = compiler.guards, lambda slots: None
    compiler.run(lambda: (leaf(1), leaf(2)))
    (cache,) = caches
    written, seconds, *rest = cache.times
    assert written == 2 and 0 < seconds < 1 and rest == [0, 0]
    compiler.guards = refused
    compiler.run(lambda: (leaf(1), leaf(2), leaf(3)))
    assert cache.times[:2] == (2, seconds) and cache.times[2] == 2, "all but the first"
    assert 0 < cache.times[3] < 1


def test_nobody_times_what_nobody_asked_for():
    compiler = Compiler("leaf")
    compiler.run(lambda: (leaf(1), leaf(2)))
    assert compiler.caches.get(leaf.__code__).times == (0, 0.0, 0, 0.0)


def test_standing_aside_is_for_doors_and_the_hook():
    compiler = Compiler("leaf")
    assert compiler.run(leaf, 1)[0] == "compiled"
    assert C.stand_aside(True) is False
    try:
        assert compiler.run(leaf, 1) == ("original", 1) and C.stand_aside(True) is True
    finally:
        C.stand_aside(False)
    assert compiler.run(leaf, 1)[0] == "compiled"
