"""What goes wrong around the compiler: a clear error or a quiet eager run, and the program's state as eager leaves it."""
import asyncio
import os
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch

import jit
from tests import children
from tests.differential import COUNTING, check, execute, tensors

X, Y = tensors(3, 4, count=2)


def in_a_child(program, timeout=300, **environment):
    if not environment:
        return children.run(program, timeout)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **environment})
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("thing", [3, "text", [1], {}, object(), X], ids=["int", "str", "list", "dict", "object", "tensor"])
def test_not_callable(thing):
    with pytest.raises(TypeError, match="callable|function|module"):
        jit.compile(thing)


@pytest.mark.parametrize("backend", ["no_such_backend", 3, "", b"eager"], ids=repr)
def test_unknown_backend(backend):
    with pytest.raises(Exception) as error:
        jit.compile(lambda x: x + 1, backend=backend)(X)
    assert "backend" in str(error.value).lower() and str(backend).strip("b'") in str(error.value)


def test_unknown_mode():
    with pytest.raises(Exception, match="mode"):
        jit.compile(lambda x: x + 1, mode="no_such_mode")(X)


def test_backend_that_raises():
    def backend(gm, inputs):
        raise KeyError("broken backend")
    log = []

    def program(x):
        log.append(1)
        x.add_(1)
        return x * 2
    x = torch.zeros(3)
    with pytest.raises(jit.BackendCompilerFailed, match="broken backend") as error:
        jit.compile(program, backend=backend)(x)
    assert isinstance(error.value.__cause__, KeyError)
    assert COUNTING is False or (log == [] and torch.equal(x, torch.zeros(3))), "nothing of the program has run"


def test_backend_that_raises_falls_back_where_the_user_wants_it():
    def backend(gm, inputs):
        raise KeyError("broken backend")
    jit.config.on_error = "fallback"
    f = jit.compile(lambda x: x * 2, backend=backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(f(X), X * 2) and torch.equal(f(X), X * 2)
    told = [str(w.message) for w in caught if "test_bad_input" in str(w.message) or "test_bad_input" in w.filename]
    assert len(told) == 1, f"one readable warning, not {len(told)}: {[str(w.message) for w in caught]}"


@pytest.mark.parametrize("garbage", [None, 3, "text", []], ids=repr)
def test_backend_that_returns_garbage(garbage):
    with pytest.raises(jit.BackendCompilerFailed):
        jit.compile(lambda x: x * 2, backend=lambda gm, inputs: garbage)(X)


@pytest.mark.parametrize("outputs", [None, 3, (), "many", "list"], ids=repr)
def test_compiled_graph_that_returns_garbage(outputs):
    def backend(gm, inputs):
        if outputs == "list":
            return lambda *args: list(gm(*args))
        return lambda *args: (X,) * 7 if outputs == "many" else outputs
    f = jit.compile(lambda x: x * 2 + 1, backend=backend)
    if outputs == "list":
        assert torch.equal(f(X), X * 2 + 1)
    else:
        with pytest.raises(Exception):
            f(X)


def test_compiled_graph_that_raises():
    def backend(gm, inputs):
        def run(*args):
            raise ValueError("at run time")
        return run
    f = jit.compile(lambda x: x * 2, backend=backend)
    for _ in range(2):
        with pytest.raises(ValueError, match="at run time"):
            f(X)


def test_backend_that_is_not_for_two_arguments():
    with pytest.raises(jit.BackendCompilerFailed):
        jit.compile(lambda x: x * 2, backend=lambda gm: gm)(X)


def test_code_without_source():
    scope = {}
    exec(compile("def program(x):\n    y = x + 1\n    return y * 2\n", "<no file>", "exec"), scope)
    check(scope["program"], X, graphs=1)
    program = scope["program"]
    program.__code__ = program.__code__.replace(co_filename="/no/such/file.py", co_firstlineno=1000, co_linetable=b"")
    assert torch.equal(jit.compile(program, backend="eager")(X), (X + 1) * 2)


def test_builtin_and_c_functions():
    assert jit.compile(max, backend="eager")(1, 2) == 2
    assert jit.compile([3, 1].index, backend="eager")(1) == 1
    assert torch.equal(jit.compile(X.add, backend="eager")(1), X + 1)


def test_generator_coroutine_and_async_functions():
    def generator(x):
        yield x + 1
        yield x * 2

    async def coroutine(x):
        return x + 1

    async def stream(x):
        yield x + 1
    got = list(jit.compile(generator, backend="eager")(X))
    assert torch.equal(got[0], X + 1) and torch.equal(got[1], X * 2)
    assert torch.equal(asyncio.run(jit.compile(coroutine, backend="eager")(X)), X + 1)

    async def collect():
        return [y async for y in jit.compile(stream, backend="eager")(X)]
    assert torch.equal(asyncio.run(collect())[0], X + 1)


# --- hostile objects ---------------------------------------------------------------------------------------------

class Boom(Exception):
    pass


def _raising(*names):
    def method(self, *args):
        raise Boom(names[0])
    return type("Hostile", (), {name: method for name in names} | {"k": 2, "__module__": __name__})


HOSTILE = {name: _raising(name) for name in ("__eq__", "__hash__", "__getattr__", "__repr__", "__bool__", "__len__", "__iter__", "__str__",
                                            "__ne__", "__contains__", "__format__", "__sizeof__", "__reduce__", "__dir__", "__instancecheck__")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["argument", "in a list", "in a dict", "closure", "attribute"])
def test_object_whose_method_raises(name, place):
    o = HOSTILE[name]()
    program, args = {
        "argument": (lambda x, o: x * o.k, (X, o)), "in a list": (lambda x, o: x * o[0].k, (X, [o])),
        "in a dict": (lambda x, o: x * o["k"].k, (X, {"k": o})), "closure": (lambda x: x * o.k, (X,)),
        "attribute": (lambda x, h: x * h.o.k, (X, _Holder(o))),
    }[place]
    f = jit.compile(program, backend="eager")
    for _ in range(3):
        assert torch.equal(f(*args), X * 2)


class _Holder:
    def __init__(self, o):
        self.o = o


def test_object_whose_getattribute_raises():
    class Hostile:
        def __getattribute__(self, name):
            raise Boom(name)
    o = Hostile()
    f = jit.compile(lambda x, o: x * 2, backend="eager")
    assert torch.equal(f(X, o), X * 2) and torch.equal(f(X, o), X * 2)
    g = jit.compile(lambda x, o: x * o.k, backend="eager")
    for _ in range(2):
        with pytest.raises(Boom):
            g(X, o)


def test_object_that_lies_about_its_class():
    class Liar:
        @property
        def __class__(self):
            return torch.Tensor
        k = 3
    f = jit.compile(lambda x, o: x * o.k, backend="eager")
    assert torch.equal(f(X, Liar()), X * 3)


@pytest.mark.parametrize("operation", ["o == o", "hash(o)", "o.missing", "repr(o)", "bool(o)", "len(o)", "list(o)", "str(o)", "{o: 1}", "o in [1, o]", "f'{o}'"])
def test_the_user_sees_the_error_of_a_hostile_object(operation):
    class Hostile:
        def _boom(self, *args):
            raise Boom("on purpose")
        __eq__ = __hash__ = __getattr__ = __repr__ = __bool__ = __len__ = __iter__ = __str__ = __format__ = _boom
    scope = {}
    execute(f"def program(x, o):\n    y = x + 1\n    {operation}\n    return y\n", scope)
    program = scope["program"]
    outcome = []
    for fn in (program, jit.compile(program, backend="eager")):
        try:
            outcome.append(fn(X, Hostile()) is not None)
        except Exception as e:
            outcome.append((type(e), e.args))
    assert outcome[0] == outcome[1]


def test_tensor_subclasses():
    class Logged(torch.Tensor):
        log = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.log.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def program(x):
        return (x * 2 + 1).sum()
    logs = []
    for fn in (program, jit.compile(program, backend="eager")):
        for _ in range(2):
            Logged.log.clear()
            got = fn(X.as_subclass(Logged))
            logs.append((type(got), list(Logged.log), got.as_subclass(torch.Tensor).item()))
    assert logs[0] == logs[2] and logs[1] == logs[3]


def test_wrapper_subclass_with_torch_dispatch():
    from torch.testing._internal.two_tensor import TwoTensor

    def program(x):
        return x * 2 + 1
    f = jit.compile(program, backend="eager")
    for _ in range(2):
        got = f(TwoTensor(X, Y))
        assert type(got) is TwoTensor and torch.equal(got.a, X * 2 + 1) and torch.equal(got.b, Y * 2 + 1)


def test_a_tensor_freed_of_its_storage_and_odd_tensors():
    f = jit.compile(lambda x: x.shape, backend="eager")
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    assert f(x) == (4,)
    assert f(torch.empty(0)) == (0,)
    assert f(torch.ones(2, 0, 3)) == (2, 0, 3)


# --- tracers, signals, deep recursion: in a child process ---------------------------------------------------------

def test_recursion_2000_deep():
    out = in_a_child("""
        import sys, torch, jit
        sys.setrecursionlimit(10000)
        def down(x, n):
            return x + 1 if n == 0 else down(x, n - 1)
        print(jit.compile(down, backend="eager")(torch.ones(1), 2000).item())
        def nested(n):
            xs = []
            for _ in range(n):
                xs = [xs]
            return xs
        print(torch.equal(jit.compile(lambda x, xs: x + len(xs), backend="eager")(torch.ones(1), nested(2000)), torch.full((1,), 2.0)))
        def endless(x):
            return endless(x + 1)
        sys.setrecursionlimit(1000)
        try:
            jit.compile(endless, backend="eager")(torch.ones(1))
        except RecursionError:
            print("RecursionError")
    """)
    assert out.split() == ["2.0", "True", "RecursionError"]


def test_settrace_and_setprofile():
    out = in_a_child("""
        import sys, torch, jit
        events = []
        def tracer(frame, event, arg):
            if frame.f_code.co_name == "program":
                events.append(event)
                return tracer
        def program(x):
            y = x + 1
            return y * 2
        f = jit.compile(program, backend="eager")
        x = torch.ones(2)
        for fn in (program, f, f):
            sys.settrace(tracer)
            got = fn(x)
            sys.settrace(None)
            assert torch.equal(got, torch.full((2,), 4.0))
        profile = []
        sys.setprofile(lambda frame, event, arg: profile.append(event))
        got = f(x)
        sys.setprofile(None)
        assert torch.equal(got, torch.full((2,), 4.0))
        print("fine")
    """)
    assert out.split() == ["fine"]


def test_a_tracer_that_changes_the_frame():
    out = in_a_child("""
        import sys, torch, jit
        def tracer(frame, event, arg):
            if frame.f_code.co_name == "program" and event == "line" and "k" in frame.f_locals:
                frame.f_locals["k"] = 100
                import ctypes
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0)) if sys.version_info < (3, 13) else None
            return tracer
        def program(x):
            k = 1
            y = x + k
            return y * 2
        results = []
        for fn in (program, jit.compile(program, backend="eager")):
            sys.settrace(tracer)
            try:
                results.append(fn(torch.ones(1)).item())
            finally:
                sys.settrace(None)
        print(results[0] == results[1], jit.compile(program, backend="eager")(torch.ones(1)).item())
    """)
    assert out.split() == ["True", "4.0"]


@pytest.mark.skipif(not COUNTING, reason="counts compilations, which a break after every call multiplies")
def test_interrupt_during_compilation():
    out = in_a_child("""
        import signal, torch, jit
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        def backend(gm, inputs):
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                pass
            return gm.forward
        log = []
        def program(x):
            log.append(1)
            return x + 1
        f = jit.compile(program, backend=backend)
        try:
            f(torch.ones(1))
            print("no interrupt")
        except KeyboardInterrupt:
            print("interrupted", len(log))
        print(jit.compile(program, backend="eager")(torch.ones(1)).item(), len(log))
        jit.reset()
        g = jit.compile(lambda x: x * 2, backend="eager")
        print(g(torch.ones(1)).item())
    """)
    assert out.split() == ["interrupted", "0", "2.0", "1", "2.0"]


def test_interrupt_while_the_compiled_code_runs():
    out = in_a_child("""
        import signal, torch, jit
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        log = []
        @jit.disable
        def interrupt():
            signal.raise_signal(signal.SIGINT)
        def program(x):
            log.append("before")
            y = x + 1
            try:
                interrupt()
            finally:
                log.append("finally")
            log.append("after")
            return y
        f = jit.compile(program, backend="eager")
        for _ in range(2):
            try:
                f(torch.ones(1))
            except KeyboardInterrupt:
                log.append("interrupted")
        print(*log)
    """)
    assert out.split() == ["before", "finally", "interrupted"] * 2


def test_exit_inside_and_at_shutdown():
    out = in_a_child("""
        import atexit, sys, torch, jit
        f = jit.compile(lambda x: x + 1, backend="eager")
        f(torch.ones(1))
        atexit.register(lambda: print("late", f(torch.ones(1)).item()))
        class Late:
            def __del__(self):
                try:
                    print("del", f(torch.ones(1)).item())
                except Exception as e:
                    print("del", type(e).__name__)
        late = Late()
        def leaves(x):
            y = x + 1
            sys.exit(0)
        jit.compile(leaves, backend="eager")(torch.ones(1))
    """)
    assert "late 2.0" in out


def test_fork():
    out = in_a_child("""
        import os, torch, jit
        f = jit.compile(lambda x: x + 1, backend="eager")
        f(torch.ones(1))
        pid = os.fork()
        if pid == 0:
            ok = f(torch.ones(1)).item() == 2.0 and jit.compile(lambda x: x * 3, backend="eager")(torch.ones(1)).item() == 3.0
            os._exit(0 if ok else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert out.split() == ["0"]


def test_weird_scopes():
    out = in_a_child("""
        import torch, jit
        scope = {"torch": torch}
        exec("def program(x):\\n    return x + 1\\n", scope)
        program = scope["program"]
        f = jit.compile(program, backend="eager")
        f(torch.ones(1))
        scope.clear()
        print(f(torch.ones(1)).item())
        del program, f
        import gc; gc.collect()
        class Strange(dict):
            def __missing__(self, key):
                return 5
        import types
        g = types.FunctionType(compile("lambda x: x + abs(-1)", "<s>", "eval").co_consts[0], {"__builtins__": {"abs": lambda v: 7}})
        print(jit.compile(g, backend="eager")(torch.ones(1)).item())
    """)
    assert out.split() == ["2.0", "8.0"]


def test_no_leak_of_tensors_and_functions():
    out = in_a_child("""
        import gc, weakref, torch, jit
        def make():
            big = torch.ones(1000)
            def program(x):
                return x + big.sum()
            return program, big
        refs = []
        for _ in range(5):
            program, big = make()
            f = jit.compile(program, backend="eager")
            x = torch.ones(3)
            y = f(x)
            refs += [weakref.ref(big), weakref.ref(x), weakref.ref(y)]
            del program, big, f, x, y
        jit.reset()
        gc.collect()
        print(sum(ref() is not None for ref in refs))
        f = jit.compile(lambda x: x + 1, backend="eager")
        x = torch.ones(3)
        f(x); f(x)
        ref = weakref.ref(x)
        del x
        gc.collect()
        print(ref() is None)
        scope = {}
        exec("def own(x): return x * 2", scope)  # a function whose globals are its own
        f = jit.compile(scope["own"], backend="eager")
        f(x := torch.ones(3)), f(x)
        refs = [weakref.ref(f.compiler), weakref.ref(scope["own"])]
        del f, scope
        for _ in range(2):  # what only code held is garbage once the code is gone
            gc.collect()
        print(sum(ref() is not None for ref in refs))
    """)
    assert out.split() == ["0", "True", "0"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("variable, value", [("JIT_ON_ERROR", "fallback"), ("JIT_LOGS", "recompiles,breaks"), ("JIT_RECOMPILE_LIMIT", "2")])
def test_environment(variable, value):
    out = in_a_child("""
        import torch, jit
        f = jit.compile(lambda x, s: x + len(s), backend="eager")
        print([f(torch.ones(1), "s" * n).item() for n in range(4)])
    """, **{variable: value})
    assert out.strip().splitlines()[-1] == "[1.0, 2.0, 3.0, 4.0]"


def test_environment_with_a_wrong_value():
    done = subprocess.run([sys.executable, "-c", "import jit"], capture_output=True, text=True, env={**os.environ, "JIT_RECOMPILE_LIMIT": "many"})
    assert done.returncode != 0 and "JIT_RECOMPILE_LIMIT" in done.stderr.strip().splitlines()[-1]


def test_unknown_config_name():
    with pytest.raises(AttributeError):
        jit.config.no_such_knob  # noqa: B018
