"""Compiled is eager: the helper that every test uses.

`check(fn, *args)` runs a program eagerly and compiled, each in its own copy of the world (arguments, closure cells,
globals, class attributes), and compares everything that a user could observe. `same_as_eager` turns a test body into
such a program.

    @same_as_eager(graphs=1)
    def test_loop_carried_add(x):
        for i in range(3):
            x = x + i
        return x

The calls, in each of the two worlds:

    first     fresh copies of everything
    again     the very same objects once more, as the first call left them
    fresh     fresh copies: what a cached entry does to a world that it has not seen
    changed   other inputs, twice (for each of `changed`)
    back      the first inputs again
"""
import contextlib
import contextvars
import copy
import enum
import functools
import gc
import importlib
import inspect
import io
import linecache
import os
import random
import re
import sys
import types
import warnings

import numpy
import torch
from torch.utils.hooks import RemovableHandle

from codegen.aot.backend import compile_graph
from tests.snapshot import Fields, Items, Snapshot, difference, is_leaf

HERE = os.path.dirname(os.path.abspath(__file__))
PLUMBING = {os.path.join(HERE, name) for name in ("differential.py", "snapshot.py", "conftest.py")}
MISSING = object()
copy._deepcopy_dispatch[contextvars.ContextVar] = lambda variable, memo: variable  # as modules are: no value
WRITTEN = []
#: What tests of backend="eager" run through instead, if said.
INNER = os.environ.get("JIT_TEST_BACKEND")
#: (rtol, atol) of float32 where sums are made in another order, or kernels of our own compute.
CLOSE = (1e-5, 1e-5)
COUNTING = os.environ.get("JIT_BREAK_EVERYWHERE", "0") in ("", "0")


class Counting:
    """A backend that runs each graph as captured and remembers it, with the types of its inputs."""

    def __init__(self, inner=None):
        self.inner = inner
        self.graphs = []
        self.inputs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        self.inputs.append([type(value) for value in example_inputs])  # nothing that would live longer than in eager code
        return gm.forward if self.inner is None else self.inner(gm, example_inputs)

    @property
    def count(self):
        """Graphs that compute something."""
        return sum(any(node.op.startswith("call") for node in gm.graph.nodes) for gm in self.graphs)

    def expect(self, count, why=""):
        """Assert how many graphs were compiled so far; says nothing where a break is forced after every call."""
        if COUNTING:
            assert self.count == count, f"{self.count} graphs compiled, {count} expected {why}\n" + "\n".join(
                str(getattr(gm, "code", gm)) for gm in self.graphs)


def differentiated_ahead(gm, example_inputs):
    """`backend="aot_eager"`, which must not fall back on the graph as it was captured."""
    compiled = compile_graph(gm, example_inputs)
    assert not COUNTING or hasattr(compiled, "stages"), gm.code
    return compiled


# --- the program and what surrounds it ---------------------------------------------------------------------------


def _is_code_like(value):
    return isinstance(value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)) or value is MISSING


def _names(code):
    found = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= _names(const)
    return found


class Surroundings:
    """What a program can reach besides its arguments: functions, cells, globals by name, classes of the test."""

    def __init__(self, fn, args):
        self.functions, self.cells, self.classes, self.names = [], [], [], {}
        self._seen = set()
        self._reach(fn)
        for arg in args:
            self._reach(arg)

    def _reach(self, value):
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, types.FunctionType):
            self._reach_function(value)
        elif isinstance(value, types.MethodType):
            self._reach(value.__func__)
            self._reach(type(value.__self__))
        elif isinstance(value, functools.partial):
            self._reach(value.func)
        elif isinstance(value, type):
            self._reach_class(value)
        elif isinstance(value, (staticmethod, classmethod)):
            self._reach(value.__func__)
        elif isinstance(value, property):
            self._reach(value.fget)
            self._reach(value.fset)
        elif type(value) in (list, tuple):
            for item in value:
                self._reach(item)
        elif type(value) is dict:
            for item in value.values():
                self._reach(item)
        elif self._ours(type(value)):
            self._reach(type(value))

    @staticmethod
    def _ours(cls):
        return (getattr(sys.modules.get(cls.__module__), "__file__", None) or "").startswith(HERE) and (
            sys.modules[cls.__module__].__file__ not in PLUMBING)

    def _reach_function(self, fn):
        if hasattr(fn, "__wrapped__"):
            self._reach(fn.__wrapped__)
        if not fn.__code__.co_filename.startswith(HERE) or fn.__code__.co_filename in PLUMBING:
            return
        self.functions.append(fn)
        for cell in fn.__closure__ or ():
            if not any(cell is known for known in self.cells):
                self.cells.append(cell)
                self._reach(_content(cell))
        known = self.names.setdefault(id(fn.__globals__), (fn.__globals__, set()))[1]
        for name in _names(fn.__code__) - known:
            known.add(name)
            self._reach(fn.__globals__.get(name, MISSING))
        for default in (fn.__defaults__ or ()):
            self._reach(default)

    def _reach_class(self, cls):
        if not self._ours(cls):
            return
        self.classes.append(cls)
        for value in list(vars(cls).values()):
            self._reach(value)
        for base in cls.__mro__[1:]:
            self._reach(base)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _set_cell(cell, value):
    if value is MISSING:
        with contextlib.suppress(ValueError):
            del cell.cell_contents
    else:
        cell.cell_contents = value


def _class_state(cls):
    return {name: value for name, value in vars(cls).items()
            if not (name.startswith("__") and name.endswith("__"))}


def _class_data(cls):
    if issubclass(cls, enum.Enum):
        return {}
    return {name: value for name, value in _class_state(cls).items()
            if not callable(value) and not hasattr(type(value), "__get__") and not name.startswith("_abc_")}


class World:
    """Copies of all that a program can reach, installed while the `with` lasts, taken away afterwards."""

    def __init__(self, around, subject, make):
        self.around, self.subject, self.make = around, subject, make

    def __enter__(self):
        around = self.around
        self.cells = [_content(cell) for cell in around.cells]
        self.globals = [(scope, dict(scope), names) for scope, names in around.names.values()]
        self.class_states = [(cls, _class_state(cls)) for cls in around.classes]
        self.function_dicts = [(fn, dict(fn.__dict__)) for fn in around.functions]
        self.contents = self._mutable_contents()
        self._install()
        return self

    def _mutable_contents(self):
        owners = [value for fn in self.around.functions for value in (fn.__defaults__ or ())]
        owners += [value for fn in self.around.functions for value in (fn.__kwdefaults__ or {}).values()]
        owners += [value for fn in self.around.functions for value in fn.__dict__.values()]
        owners += [value for cls in self.around.classes for value in _class_data(cls).values()]
        return [(value, copy.copy(value)) for value in owners if type(value) in (list, dict, set)]

    def _install(self):
        cells = [content for content in self.cells if not _is_code_like(content)]
        scopes = [{name: scope[name] for name in sorted(names) if name in scope and not _is_code_like(scope[name])
                   and not name.startswith("__")} for scope, _, names in self.globals]
        subject, cells, scopes, made = copy.deepcopy((self.subject, cells, scopes, self._to_copy()))
        self.subject = subject
        for cell, content in zip(self.around.cells, self.cells):
            if not _is_code_like(content):
                _set_cell(cell, cells.pop(0))
        for (scope, _, _), copies in zip(self.globals, scopes):
            scope.update(copies)
        _seed()
        self.args, self.kwargs = self.make() if callable(self.make) else made

    def _to_copy(self):
        return None if callable(self.make) else self.make

    def __exit__(self, *exc):
        self.subject = self.args = self.kwargs = None
        gc.collect()  # what has its end to note, as generators do, does not note it in the world that comes next
        for cell, content in zip(self.around.cells, self.cells):
            _set_cell(cell, content)
        for scope, saved, _ in self.globals:
            # A compiler may keep what its code needs under names of this kind: they outlive the world.
            for name in [name for name in scope if name not in saved and not name.startswith("__")]:
                del scope[name]
            for name in [name for name in saved if scope.get(name, MISSING) is not saved[name]]:
                scope[name] = saved[name]
        for cls, saved in self.class_states:
            now = _class_state(cls)
            for name in [name for name in now if name not in saved]:
                delattr(cls, name)
            for name in [name for name in saved if now.get(name, MISSING) is not saved[name]]:
                setattr(cls, name, saved[name])
        for fn, saved in self.function_dicts:
            if list(fn.__dict__.items()) != list(saved.items()):
                fn.__dict__.clear()
                fn.__dict__.update(saved)
        for value, saved in self.contents:
            if type(value) is list:
                value[:] = saved
            else:
                value.clear()
                value.update(saved)

    def roots(self):
        """All that the program may have changed."""
        scopes = Items()
        for scope, saved, names in self.globals:
            touched = {name for name in scope if name in names or saved.get(name, MISSING) is not scope[name]}
            scopes.append(Fields({name: scope[name] for name in sorted(touched) if not name.startswith("__")
                                  and not isinstance(scope[name], types.ModuleType)}))
        cells = Items(_content(cell) if _content(cell) is not MISSING else "(empty cell)" for cell in self.around.cells)
        defaults = Items(Items((fn.__defaults__, fn.__kwdefaults__, fn.__dict__)) for fn in self.around.functions)
        classes = Fields({cls.__name__: Fields(_class_data(cls)) for cls in self.around.classes})
        return Fields({"args": self.args, "kwargs": self.kwargs, "self": self.subject, "globals": scopes, "cells": cells,
                       "defaults": defaults, "classes": classes})


# --- one call, observed ------------------------------------------------------------------------------------------


#: Without a device torch would keep the text of the stack each time, until there is one.
_seed_torch = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed


def _seed():
    _seed_torch(1234)
    random.seed(1234)
    numpy.random.seed(1234)


def _rng():
    kind, keys, *rest = numpy.random.get_state()
    return {"torch": torch.get_rng_state(), "random": repr(random.getstate()), "numpy": (kind, keys.tobytes(), *rest)}


def _modes():
    return {
        "grad mode": torch.is_grad_enabled(), "inference mode": torch.is_inference_mode_enabled(),
        "autocast cpu": torch.is_autocast_enabled("cpu"), "autocast cuda": torch.is_autocast_enabled("cuda"),
        "autocast cpu dtype": str(torch.get_autocast_dtype("cpu")),
        "autocast cuda dtype": str(torch.get_autocast_dtype("cuda")),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "default dtype": str(torch.get_default_dtype()), "default device": str(torch.get_default_device()),
        "deterministic": torch.are_deterministic_algorithms_enabled(), "threads": torch.get_num_threads(),
        "anomaly": torch.is_anomaly_enabled(), "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "dispatch keys": str(torch._C._dispatch_tls_local_include_set()), "recursion limit": sys.getrecursionlimit(),
        "saved tensor hooks": torch._C._autograd._top_saved_tensors_default_hooks(True) is not None,
        "handled exception": repr(sys.exc_info()[0]), "trace": repr(sys.gettrace()), "profile": repr(sys.getprofile()),
    }


@contextlib.contextmanager
def _modes_kept():
    grad, dtype, threads = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
    cache, modes = torch.is_autocast_cache_enabled(), torch._C._len_torch_function_stack()
    deterministic, limit, handle = (torch.are_deterministic_algorithms_enabled(), sys.getrecursionlimit(),
                                    RemovableHandle.next_id)
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        for kind, enabled, kind_dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, kind_dtype)
        torch.set_autocast_cache_enabled(cache)
        if torch._C._len_torch_function_stack() > modes:
            torch.set_default_device(None)
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic)
        sys.setrecursionlimit(limit)
        RemovableHandle.next_id = max(handle, RemovableHandle.next_id)


def user_lines(exc):
    """(function, line) of the frames of test files in the traceback of `exc`, outermost first."""
    found, tb = [], exc.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename.startswith(HERE) and code.co_filename not in PLUMBING:
            found.append((code.co_name, tb.tb_lineno))
        tb = tb.tb_next
    return found


# Warnings of C++ are given once per process.
OF_CPP = "(Triggered internally"
# The compiler may log that it gives up compiling again.
NOTICE = re.compile(r"^\S.* was compiled \d+ times (?:.*\n)*?.*recompile_limit sets the bound\)\n", re.MULTILINE)


class Observation:
    """What one call did, as plain data that later calls cannot change."""

    def __init__(self, call, world, number, then=None):
        gc.collect()
        RemovableHandle.next_id = 1_000_000 * (number + 1)
        snap = Snapshot(world.around.nodes and COUNTING)
        self.before = snap.walk(world.roots())
        printed, errors = io.StringIO(), io.StringIO()
        self.exception, result = None, None
        _seed()
        modes = _modes()
        with _modes_kept(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
                try:
                    result = call(*world.args, **world.kwargs)
                except (Exception, SystemExit, GeneratorExit) as exc:
                    self.exception = exc
            self.tree = {"exception": snap.exception(self.exception), "modes": self._changed(modes, _modes()), "rng": _rng()}
            said = NOTICE.sub("", snap.text(errors.getvalue()))
            self.tree.update(printed=snap.text(printed.getvalue()), errors=said, warnings=self._own(caught))
            self.tree["effects"] = snap.walk(world.roots())
            self.mutates = difference(self.before, self.tree["effects"]) is not None
            with torch.inference_mode(False):
                self.tree["result"] = snap.more(result)
                self.tree["backward"] = self._backward(snap, world)
                if then is not None and self.exception is None:
                    self.tree["then"] = self._then(snap, world, then, result)
        self.lines = [] if self.exception is None else user_lines(self.exception)
        self.traceback = None if self.exception is None else self.exception.with_traceback(self.exception.__traceback__)

    @staticmethod
    def _changed(before, after):
        return {name: (before[name], after[name]) for name in before if before[name] != after[name]}

    @staticmethod
    def _own(caught):
        return [(w.category.__name__, str(w.message)) for w in caught
                if w.filename.startswith(HERE) and OF_CPP not in str(w.message)]

    def _backward(self, snap, world):
        """Differentiate a weighted sum of the results; then look at the whole world again, gradients included."""
        results = [t for t in snap.tensors if t.requires_grad and not t.is_inference()]
        if self.exception is not None or not results:
            return None
        leaves = [t for t in snap.leaves if t.requires_grad and is_leaf(t)]
        none_before = [t for t in leaves if t.grad is None]
        printed, failed = io.StringIO(), None
        with torch.enable_grad(), contextlib.redirect_stdout(printed):
            try:
                total = sum(_weighted(t) for t in results)
                total.backward(retain_graph=True)
            except Exception as exc:  # of autograd, or of a hook
                failed = (type(exc).__name__, snap.text(str(exc)))
        tree = {"failed": failed, "printed": snap.text(printed.getvalue()), "world": snap.walk(world.roots())}
        for leaf in none_before:
            leaf.grad = None
        return tree

    @staticmethod
    def _then(snap, world, then, result):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            answer = then(result, *world.args)
        return {"world": snap.walk(world.roots()), "answer": snap.more(answer), "printed": snap.text(printed.getvalue())}


def _weighted(t):
    real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    weights = torch.cos(torch.arange(real.numel(), dtype=torch.float64)).to(real.dtype).to(real.device)
    return (real.reshape(-1) * weights).sum().double()


# --- the comparison ----------------------------------------------------------------------------------------------


class NotTheSame(AssertionError):
    """Compiled and eager differ."""


def _compare(step, eager, compiled, traceback, tolerance):
    if (eager.exception is None) != (compiled.exception is None):
        said = "returned" if eager.exception is None else f"raised {eager.exception!r}"
        did = "returned" if compiled.exception is None else f"raised {compiled.exception!r}"
        raise NotTheSame(f"{step} call: eager {said}, compiled {did}") from (compiled.exception or eager.exception)
    found = difference(eager.tree, compiled.tree, tolerance=tolerance)
    if found:
        raise NotTheSame(f"{step} call: {found}") from compiled.exception
    if eager.exception is not None and traceback != "other":
        remaining = iter(compiled.lines)
        full = all(line in remaining for line in eager.lines) and compiled.lines[-1:] == eager.lines[-1:]
        if not (full if traceback == "full" else all(line in compiled.lines for line in eager.lines[-1:])):
            raise NotTheSame(f"{step} call: traceback has the user's lines {compiled.lines}, eager has {eager.lines}"
                             ) from compiled.exception


def _plans(args, kwargs, make, changed):
    """(name of the step, what makes its world), in order."""
    def arguments(form):
        if form is None:
            return (args, kwargs)
        if callable(form):
            return lambda: _as_call(form())
        return _as_call(form)
    first = arguments(make)
    forms = changed if isinstance(changed, list) else [] if changed is None else [changed]
    plans = [(("first", "again"), first), (("fresh",), first)]
    for i, form in enumerate(forms):
        plans.append(((f"changed[{i}]", f"changed[{i}] again"), arguments(form)))
    if forms:
        plans.append((("back",), first))
    return plans


def _as_call(value):
    """`(args...)`, or `((args...), {kwargs})` when the last of two is a dict made for keywords."""
    if isinstance(value, Call):
        return value.args, value.kwargs
    return (tuple(value) if isinstance(value, (tuple, list)) else (value,)), {}


class Call:
    """Arguments with keywords, where a plain tuple of arguments is not enough."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs


def compile_with_jit(fn, **options):
    return importlib.import_module("jit").compile(fn, **options)


def check(fn, *args, graphs=None, breaks=None, make=None, changed=None, backend="eager", compiler=None, recompiles=False,
          traceback="raising", tolerance=None, then=None, nodes=True, fullgraph=None, dynamic=None, mode=None, options=None, kwargs=None, **call_kwargs):
    """Run `fn` eagerly and compiled and compare all that can be seen.

    graphs      how many graphs the first call captures; breaks: how many graph breaks (0 unless said, for graphs <= 1;
                with none, and no more graphs, the program is compiled with fullgraph=True)
    make        () -> arguments, instead of deep copies of `args` (for views, aliases, non-leaf tensors)
    changed     other arguments: a tuple, a callable that makes one, or a list of these
    compiler    (fn, backend=..., fullgraph=..., dynamic=...) -> callable, `jit.compile` unless said
    recompiles  True where the second call on unchanged objects is expected to compile again
    traceback   "full": all of the user's lines must be in the traceback of an exception, in order and the raising one
                last; "other": there are lines of other files in their place; otherwise the raising one must be in it
    tolerance   (rtol, atol) for backends that are not bit for bit
    nodes       False where the program breaks as it likes, and shows what autograd calls its nodes
    then        (result, *arguments) -> something: what a caller does afterwards, in both worlds
    Further keywords are the program's (`kwargs=` for those with the name of an option).
    """
    call_kwargs.update(kwargs or {})
    if breaks is None and graphs in (0, 1):
        breaks = 0
    bound = isinstance(fn, (torch.nn.Module, types.MethodType)) or not hasattr(fn, "__code__")
    around = Surroundings(fn if not isinstance(fn, torch.nn.Module) else type(fn), args)
    around.nodes = nodes
    plans = _plans(args, call_kwargs, make, changed)
    if backend == "eager" and INNER:
        backend, tolerance = importlib.import_module("jit.backends").BACKENDS[INNER], tolerance or CLOSE
    counter = Counting(backend if callable(backend) else None) if callable(backend) or backend == "eager" else None
    options_ = {"backend": backend if counter is None else counter, "dynamic": dynamic, "mode": mode, "options": options}
    options_ = {name: value for name, value in options_.items() if value is not None}
    if fullgraph is None:
        fullgraph = graphs in (None, 0, 1) and breaks == 0
    options_["fullgraph"] = bool(fullgraph and COUNTING)
    compiler = compiler or compile_with_jit

    eager = _observe(lambda f: f, fn, bound, around, plans, None, then)
    once = [] if bound else [compiler(fn, **options_)]
    compiled = _observe(lambda f: once[0] if once else compiler(f, **options_), fn, bound, around, plans, counter, then)

    for (step, seen, _), (_, got, _) in zip(eager, compiled):
        _compare(step, seen, got, traceback, tolerance)
    if counter is not None and graphs is not None and COUNTING:
        count = compiled[0][2]
        assert count == graphs, f"the first call captured {count} graphs, {graphs} expected\n" + "\n".join(
            str(getattr(gm, "code", gm)) for gm in counter.graphs[:count])
        if not recompiles and not any(seen.mutates for _, seen, _ in eager[:2]):
            assert compiled[1][2] == count, f"the second call on the same objects compiled {compiled[1][2] - count} more graphs"
    if breaks and COUNTING and compiler is compile_with_jit:
        with World(around, fn if bound else None, plans[0][1]) as world:
            with contextlib.redirect_stdout(io.StringIO()):
                report = importlib.import_module("jit").explain(world.subject or fn)(*world.args, **world.kwargs)
        assert report.graph_break_count == breaks, f"{report.graph_break_count} graph breaks, {breaks} expected: {report.break_reasons}"


@contextlib.contextmanager
def _no_collection():
    """When cycles are collected depends on what else was allocated; here it is before each call (see `Observation`)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_no_collection()
def _observe(wrap, fn, bound, around, plans, counter, then):
    seen = []
    for steps, form in plans:
        RemovableHandle.next_id = 1_000_000 * len(seen) + 500_000
        with World(around, fn if bound else None, form) as world:
            call = wrap(world.subject if bound else fn)
            for step in steps:
                seen.append((step, Observation(call, world, len(seen), then), counter.count if counter is not None else 0))
    return seen


def execute(text, scope):
    """Run the text of a program in `scope`, from a file that tracebacks and error messages can quote."""
    name = os.path.join(HERE, f"<program {len(WRITTEN)}>")
    WRITTEN.append(name)
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)


# --- the decorator -----------------------------------------------------------------------------------------------


def tensors(*shape, count=1, seed=0, dtype=torch.float32, requires_grad=False):
    """`count` different tensors of one shape, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator).to(dtype).requires_grad_(requires_grad) for _ in range(count))


def _default_inputs(fn):
    """Tensors for the parameters without a default, and two changes: other values, another shape."""
    count = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in inspect.signature(fn).parameters.values())
    changed = [tensors(3, 4, count=count, seed=7)]
    if count:
        other = tensors(5, 4, count=count, seed=8)
        if _runs(fn, other):
            changed.append(other)
    return tensors(3, 4, count=count), changed if count else None


def _runs(fn, args):
    with World(Surroundings(fn, args), None, (args, {})) as world, _modes_kept():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fn(*world.args, **world.kwargs)
            except Exception:
                return False
    return True


def same_as_eager(fn=None, **options):
    """The body of the test is the program under test: see `check` for the options.

    Without `make`, each parameter that has no default is a float tensor of shape (3, 4), then one with other values,
    then one of another shape where the program runs with it.
    """
    if fn is None:
        return lambda fn: same_as_eager(fn, **options)

    def test():
        chosen, args = dict(options), ()
        if "make" not in chosen:
            args, changed = _default_inputs(fn)
            chosen.setdefault("changed", changed)
        check(fn, *args, **chosen)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(test, name, getattr(fn, name))
    test.pytestmark = list(getattr(fn, "pytestmark", []))
    test.program = fn
    return test
