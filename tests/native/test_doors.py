"""Doors: binding as the interpreter binds, hits and misses, and passing for the function they stand for."""

import copy
import gc
import inspect
import pickle
import sys
import threading
import types
import weakref

import pytest
import torch

import jit._C as C

ALWAYS = ([], [], [])


def stand_in(slots, values=0):
    """Compiled code that gives back its slots and the values behind them."""
    names = [f"a{i}" for i in range(slots + values)]
    space = {}
    exec(f"def compiled({', '.join(names)}): return ({''.join(n + ', ' for n in names)})", space)
    return space["compiled"]


def slot_count(code):
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


def door_that_shows_slots(function):
    """A door whose compiled code returns the tuple of slots."""

    def miss(door, slots, function):
        entry = C.Entry(C.Guards(*ALWAYS), stand_in(len(slots)))
        door.cache.add(entry)
        return entry

    return C.Door(function, C.Cache(function.__code__, 8), miss)


def eager_door(function):
    return C.Door(function, C.Cache(function.__code__, 8), lambda door, slots, function: None)


def original_slots(function, args, kwargs):
    """What the interpreter binds, from the locals of the function itself."""
    return tuple(function(*args, **kwargs).values())


# --- binding


def positional(a, b): return locals()  # noqa: E704
def with_defaults(a, b=2, c=3): return locals()  # noqa: E704
def positional_only(a, b=2, /, c=3): return locals()  # noqa: E704
def keyword_only(a, *, b, c=3): return locals()  # noqa: E704
def rest(a, *more): return locals()  # noqa: E704
def keywords(a=1, **more): return locals()  # noqa: E704
def everything(a, b=2, /, c=3, *more, d, e=5, **others): return locals()  # noqa: E704
def nothing(): return locals()  # noqa: E704


CALLS = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4, 5), {}),
    ((1,), {"b": 7}),
    ((), {"a": 1, "b": 2}),
    ((1,), {"a": 1}),
    ((1,), {"c": 9}),
    ((1,), {"d": 9}),
    ((1, 2, 3, 4), {"d": 9, "z": 3}),
    ((1,), {"d": 9, "b": 3, "e": 1}),
    ((1,), {"nonsense": 3}),
    ((1,), {"".join(["b"]): 3}),
]
FUNCTIONS = [positional, with_defaults, positional_only, keyword_only, rest, keywords, everything, nothing]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_binding_is_the_interpreters(function):
    door = door_that_shows_slots(function)
    for args, kwargs in CALLS:
        try:
            expected = original_slots(function, args, kwargs)
        except TypeError as error:
            with pytest.raises(TypeError) as caught:
                door(*args, **kwargs)
            assert str(caught.value) == str(error)
        else:
            assert door(*args, **kwargs) == expected


def test_defaults_are_read_at_each_call():
    def f(a, b=2, *, c=3):
        return locals()

    door = door_that_shows_slots(f)
    assert door(1) == (1, 2, 3)
    f.__defaults__, f.__kwdefaults__ = (20,), {"c": 30}
    assert door(1) == (1, 20, 30)
    f.__defaults__ = f.__kwdefaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        door(1)


def test_many_arguments():
    names = [f"p{i}" for i in range(60)]
    space = {}
    exec(f"def f({', '.join(names)}, *, last=1): return locals()", space)
    door = door_that_shows_slots(space["f"])
    assert door(*range(60)) == (*range(60), 1)
    assert door(**{n: i for i, n in enumerate(names)}, last=5) == (*range(60), 5)


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 40])
def test_values_come_last(count):
    def f(a, *b):
        pass

    guards = C.Guards([(-1, "arg", 0), (-1, "const", "x")], [], ([1, 0] * count)[:count])
    values = (("x", 1) * count)[:count]
    door = C.Door(f, C.Cache(f.__code__, 8), None)
    door.cache.add(C.Entry(guards, stand_in(2, values=count)))
    assert door(1, 2) == (1, (2,), *values)
    door.cache.clear()
    door.cache.add(C.Entry(guards, stand_in(2, values=bool(count)), packed=True))
    assert door(1, 2) == (1, (2,), values)[: 2 + bool(count)]


def test_a_keywords_dict_that_was_kept_is_not_used_again():
    def f(**keywords):
        pass

    def miss(door, slots, function):
        entry = C.Entry(C.Guards([(-1, "arg", 0)], [(0, "keys", ())], []), stand_in(1))
        door.cache.add(entry)
        return entry

    door = C.Door(f, C.Cache(f.__code__, 8), miss)
    kept = [door()[0] for _ in range(3)]
    assert len({id(d) for d in kept}) == 3
    door()[0]["x"] = 1
    assert door() == ({},)
    assert door.cache.misses == 1


# --- hits and misses


def test_newest_hit_comes_first():
    def f(x):
        return "original"

    calls = []

    def miss(door, slots, function):
        assert C.is_compiling_thread() and function is f
        calls.append(slots)
        if slots[0] == "eager":
            return None
        entry = C.Entry(C.Guards([(-1, "arg", 0)], [(0, "eq", slots[0])], []), stand_in(1), meta=slots[0])
        door.cache.add(entry)
        return entry

    door = C.Door(f, C.Cache(f.__code__, 8), miss)
    for x in (1, 2, 3, 1, 1, 3):
        assert door(x) == (x,)
    assert [e.meta for e in door.cache.entries] == [3, 1, 2]
    assert [e.hits for e in door.cache.entries] == [2, 3, 1]
    assert calls == [(1,), (2,), (3,)] and door.cache.misses == 3
    assert door("eager") == "original" == door("eager") and door.cache.misses == 5
    door.cache.frozen = True
    assert door(4) == "original" and door.cache.misses == 5 and door(2) == (2,)
    door.cache.clear()
    assert door.cache.entries == () and door(2) == "original"
    assert not C.is_compiling_thread()


def test_entry_without_function_runs_the_original():
    def f(x):
        return "original"

    door = C.Door(f, C.Cache(f.__code__, 8), None)
    door.cache.add(C.Entry(C.Guards(*ALWAYS), None, "why"))
    assert door(1) == "original"
    assert door.cache.entries[0].function is None and door.cache.entries[0].meta == "why"


def test_entry_that_does_not_hold_runs_the_original():
    def f(x):
        return "original"

    never = C.Guards([(-1, "arg", 0)], [(0, "predicate", lambda x: False)], [])
    door = C.Door(f, C.Cache(f.__code__, 8), lambda *_: C.Entry(never, stand_in(1)))
    assert door(1) == "original"


def test_errors_of_the_compiler_come_out():
    def f(x):
        pass

    def miss(door, slots, function):
        raise ZeroDivisionError("inside")

    door = C.Door(f, C.Cache(f.__code__, 8), miss)
    with pytest.raises(ZeroDivisionError, match="inside"):
        door(1)
    assert not C.is_compiling_thread()
    with pytest.raises(TypeError, match="Entry or None"):
        C.Door(f, C.Cache(f.__code__, 8), lambda *_: 3)(1)


def test_doors_stand_aside_while_compiling():
    def f(x):
        return "original"

    seen = []

    def miss(door, slots, function):
        seen.append(door(2))
        return C.Entry(C.Guards(*ALWAYS), stand_in(1))

    door = C.Door(f, C.Cache(f.__code__, 8), miss)
    assert door(1) == (1,) and seen == ["original"]


def test_doors_stand_aside_for_other_code():
    def f(x):
        return "first"

    door = door_that_shows_slots(f)
    assert door(1) == (1,)
    code, f.__code__ = f.__code__, (lambda x, y: "other").__code__
    assert door(1, 2) == "other"
    f.__code__ = code
    assert door(1) == (1,)


def test_compiled_code_must_fit():
    def generator():
        yield

    cell = 1
    for function in (generator, lambda *a: 1, lambda *, a: 1, lambda: cell):
        with pytest.raises(ValueError):
            C.Entry(C.Guards(*ALWAYS), function)
    with pytest.raises(TypeError):
        C.Entry(C.Guards(*ALWAYS), len)
    door = C.Door(positional, C.Cache(positional.__code__, 8), None)
    with pytest.raises(ValueError, match="takes 1"):
        door.cache.add(C.Entry(C.Guards(*ALWAYS), stand_in(1)))


def test_cache_cleared_under_a_running_call():
    def f(x):
        return "original"

    door = C.Door(f, C.Cache(f.__code__, 8), None)

    def clear(x):
        door.cache.clear()
        gc.collect()
        return True

    guards = C.Guards([(-1, "arg", 0)], [(0, "predicate", clear)], [0])
    door.cache.add(C.Entry(guards, stand_in(1, values=1)))
    del guards
    assert door(1) == (1, 1)
    assert door.cache.entries == ()


def test_traced_threads_run_the_original():
    def f(x):
        return "original"

    door = door_that_shows_slots(f)
    assert door(1) == (1,)
    events = []
    sys.settrace(lambda frame, event, _: events.append((event, frame.f_code)))
    try:
        assert door(1) == "original"
    finally:
        sys.settrace(None)
    assert ("call", f.__code__) in events


# --- passing for the function


def decorated(x, y=2):
    "What it does."
    return x + y


original = decorated
decorated = eager_door(decorated)
decorated.mark = "kept on the function"


def test_looks_like_the_function():
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "What it does."
    assert decorated.__module__ == __name__ and decorated.__qualname__ == "decorated"
    assert decorated.__wrapped__ is original and decorated.mark == original.mark
    assert decorated.__code__ is original.__code__ and decorated.__dict__ is original.__dict__
    assert inspect.signature(decorated) == inspect.signature(original)
    assert repr(decorated) == f"<jit.compile of {original!r}>"
    assert "compiler" in dir(decorated) and "__code__" in dir(decorated)
    assert decorated.compiler is None
    decorated.compiler = 3
    assert decorated.compiler == 3 and not hasattr(original, "compiler")
    decorated.compiler = None
    with pytest.raises(AttributeError):
        decorated.nonsense
    with pytest.raises(AttributeError):
        decorated.cache = 3


def test_copies_and_pickles_by_reference():
    assert copy.copy(decorated) is decorated and copy.deepcopy([decorated])[0] is decorated


def test_pickles_by_name():
    module = types.ModuleType("native_test_module")
    sys.modules[module.__name__] = module
    exec("def f(x): return x", module.__dict__)
    module.f = eager_door(module.f)
    try:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(module.f, protocol)) is module.f
    finally:
        del sys.modules[module.__name__]


class Owner:
    @door_that_shows_slots
    def method(self, x, y=2):
        return locals()

    @staticmethod
    @door_that_shows_slots
    def static(x):
        return locals()

    @classmethod
    @door_that_shows_slots
    def of_class(cls, x):
        return locals()


def test_works_as_a_method():
    owner = Owner()
    assert owner.method(1) == (owner, 1, 2) == Owner.method(owner, 1)
    bound = owner.method
    assert bound(1, y=3) == (owner, 1, 3)
    assert bound(*[1], **{"y": 4}) == (owner, 1, 4)
    assert bound.__self__ is owner and bound.__func__ is Owner.method and bound.__name__ == "method"
    assert bound == owner.method and bound != Owner().method and hash(bound) == hash(owner.method)
    assert list(map(bound, [1, 2])) == [(owner, 1, 2), (owner, 2, 2)]
    assert Owner.static(1) == (1,) and owner.of_class(1) == (Owner, 1)
    assert inspect.signature(owner.method) == inspect.Signature(list(inspect.signature(Owner.method).parameters.values())[1:])
    copied = copy.deepcopy(bound)
    assert copied.__self__ is not owner and copied.__func__ is bound.__func__
    assert copy.copy(bound) == bound


def test_bound_door_is_no_descriptor():
    owner = Owner()

    class Holder:
        call = C.BoundDoor(Owner.method, owner)

    assert Holder().call(1) == (owner, 1, 2)
    with pytest.raises(TypeError):
        C.BoundDoor(len, owner)


def test_weak_references_and_cycles():
    def make():
        def f(x):
            return x

        door = eager_door(f)
        door.compiler = [door]
        f.door = door
        gone = weakref.ref(door), weakref.ref(f)
        door.cache.add(C.Entry(C.Guards([(-1, "arg", 0)], [(0, "is", door)], []), stand_in(1), meta=door))
        return gone

    gone = make()
    gc.collect()
    assert [g() for g in gone] == [None, None]


def test_reference_counts():
    def f(a, *more, b=None, **rest):
        pass

    payload = object()
    door = door_that_shows_slots(f)
    before = sys.getrefcount(payload)
    for _ in range(50):
        door(payload, payload, b=payload, c=payload)
        with pytest.raises(TypeError):
            door(b=payload)
    assert sys.getrefcount(payload) == before


def test_recursion_reaches_the_usual_depth(child):
    child(
        """
        def f(n):
            return 0 if n == 0 else 1 + f(n - 1)
        f = C.Door(f, C.Cache(f.__code__, 1), lambda *_: None)
        assert f(900) == 900
        try:
            f(10 ** 6)
        except RecursionError as error:
            assert "maximum recursion depth" in str(error)
        else:
            raise AssertionError
        def g(n):
            return h(n)
        def compiled(n):
            return 0 if n == 0 else 1 + h(n - 1)
        h = C.Door(g, C.Cache(g.__code__, 1), None)
        h.cache.add(C.Entry(C.Guards([], [], []), compiled))
        assert h(700) == 700  # the last 256 levels run as written
        """
    )


def test_tracebacks_show_the_original():
    def f(x):
        return 1 / x

    door = eager_door(f)
    with pytest.raises(ZeroDivisionError) as caught:
        door(0)
    frames = []
    trace = caught.value.__traceback__
    while trace:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert frames == ["test_tracebacks_show_the_original", "f"]


def test_threads_share_a_door():
    def f(x):
        return "original"

    def miss(door, slots, function):
        entry = C.Entry(C.Guards([(-1, "arg", 0)], [(0, "eq", slots[0])], [0]), stand_in(1, values=1))
        door.cache.add(entry)
        return entry

    door = C.Door(f, C.Cache(f.__code__, 8), miss)
    wrong = []

    def work(seed):
        for i in range(500):
            x = (i + seed) % 4
            if door(x) != (x, x):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


# --- continuations


def make_continuation(cell):
    def rest(x, y):
        return x + y + cell

    return rest


def test_resume_door():
    one, other = make_continuation(100), make_continuation(1000)
    seen = []

    def miss(door, slots, function):
        seen.append((slots, function.__closure__, function.__name__, function.__globals__ is globals()))
        if slots[0] < 0:
            return None
        guards = C.Guards([(-1, "closure", 0), (0, "cell", None), (-1, "globals", None)], [(1, "eq", 100)], [1])
        entry = C.Entry(guards, stand_in(2, values=1))
        door.cache.add(entry)
        return entry

    door = C.ResumeDoor(one.__code__, globals(), C.Cache(one.__code__, 8), miss, "rest_of_f")
    assert door(one.__closure__, 1, 2)() == (1, 2, 100) == door(one.__closure__, 1, 2)()
    assert door(other.__closure__, 1, 2)() == 1003  # the new entry does not hold either
    assert door(other.__closure__, -1, 2)() == 1001
    assert [s[0] for s in seen] == [(1, 2), (1, 2), (-1, 2)]
    assert seen[0][1:] == (one.__closure__, "rest_of_f", True)
    assert repr(door) == "<continuation rest_of_f>"
    for wrong in [(None, 1, 2), ((), 1, 2), (one.__closure__, 1), (one.__closure__, 1, 2, 3), ()]:
        with pytest.raises(TypeError):
            door(*wrong)()
    with pytest.raises(ValueError):
        C.ResumeDoor(rest.__code__, globals(), C.Cache(rest.__code__, 8), miss)


def test_resume_door_without_cells():
    def rest(x):
        return x

    door = C.ResumeDoor(rest.__code__, globals(), C.Cache(rest.__code__, 8), lambda *_: None)
    assert door(None, 5)() == 5


def test_a_call_of_a_continuation_has_its_arguments_until_they_are_taken():
    payload = []

    def rest(x, fails):
        if fails:
            raise ValueError(sys.getrefcount(x))
        return sys.getrefcount(x)

    door = C.ResumeDoor(rest.__code__, globals(), C.Cache(rest.__code__, 8), lambda *_: None)
    alone = sys.getrefcount(payload) + 1  # in the variable x
    call = door(None, payload, False)
    assert sys.getrefcount(payload) == alone
    assert call() == alone
    assert sys.getrefcount(payload) == alone - 1
    with pytest.raises(RuntimeError):
        call()
    with pytest.raises(ValueError) as caught:
        door(None, payload, True)()
    assert caught.value.args == (alone,)
    for wrong in ({"args": (1,)}, {"kwargs": {"x": 1}}):
        with pytest.raises(TypeError):
            door(None, payload, False)(*wrong.get("args", ()), **wrong.get("kwargs", {}))
    with pytest.raises(TypeError):
        door(None, payload, fails=False)


def test_caches_are_a_map_by_identity():
    caches = C.Caches()
    codes = [eval(f"lambda: {i}").__code__ for i in range(200)]
    kept = [C.Cache(code, 1) for code in codes]
    for code, cache in zip(codes, kept):
        caches.set(code, cache)
    caches.set(codes[0], None)
    assert len(caches) == 200 and caches.get(codes[0], 5) is None
    assert all(caches.get(code) is cache for code, cache in zip(codes[1:], kept[1:]))
    assert caches.get(positional.__code__) is None and caches.get(positional.__code__, 5) == 5
    caches.clear()
    assert len(caches) == 0 and caches.get(codes[1], 5) == 5
    with pytest.raises(TypeError):
        caches.set(codes[0], 3)


def test_versions():
    assert C.torch_version.split("+")[0] == torch.__version__.split("+")[0]
    assert C.python_version == sys.version.split()[0]
