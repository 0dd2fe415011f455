"""`jit.warmup` compiles for given inputs, `jit.export_guards` says which calls are served."""
import ast
import collections
import inspect

import pytest
import torch
from torch import nn

import jit
from symbolic.marks import marks
from tests.differential import COUNTING, Counting
from tests.symbolic.test_dynamic_sizes import X


# --- warmup -----------------------------------------------------------------------------------------------------------
def test_what_was_warmed_up_is_compiled():
    def program(x, scale=2.0):
        return x.relu() * scale

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    x, y, z = X(3, 4), X(7, 4), X(5, 4).double()
    added = jit.warmup(compiled, [(x, 2.0), {"x": y}, z])
    if COUNTING:
        assert added == 2, "one for both sizes, one for the other dtype"
    assert not marks(x) and not marks(y)
    for call in (x, y, X(9, 4), z):
        assert torch.equal(compiled(call), program(call))
    counter.expect(2)


def test_each_input_is_one_call():
    """Effects take place as often as they are asked for, and what comes after a break is compiled, too."""
    seen = []

    def program(x):
        seen.append(x.shape[0])
        y = x + 1
        jit.graph_break()
        return y * x.shape[0]

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    jit.warmup(compiled, [X(3), X(5)])
    assert seen == [3, 5]
    graphs = len(counter.graphs)
    assert torch.equal(compiled(X(3)), program(X(3))) and torch.equal(compiled(X(5)), program(X(5)))
    assert len(counter.graphs) == graphs


def test_marks_of_the_user_stay():
    compiled = jit.compile(lambda x: x * 2)
    x, y = X(3, 4), X(5, 6)
    jit.mark_static(x, 0)
    before = dict(marks(x))
    jit.warmup(compiled, [x, y])
    assert marks(x) == before and not marks(y)


def test_a_module_and_a_method():
    class Layer(nn.Linear):
        def twice(self, x):
            return self(x) * 2

    layer = Layer(4, 4)
    for compiled in (jit.compile(layer), jit.compile(layer.twice)):
        assert jit.warmup(compiled, [X(3, 4), X(5, 4)]) >= 1
        misses = sum(frame.misses for frame in compiled.debug_state().frames)
        compiled(X(5, 4)), compiled(X(3, 4))
        assert sum(frame.misses for frame in compiled.debug_state().frames) == misses


def test_errors_of_the_program_come_through():
    x = X(3, 4)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        jit.warmup(jit.compile(lambda x: x @ x), [x, X(5, 4)])
    assert not marks(x)


@pytest.mark.parametrize("ask", [jit.export_guards, lambda f: jit.warmup(f, [])])
def test_what_is_not_compiled(ask):
    with pytest.raises(TypeError, match="needs what jit.compile gave"):
        ask(lambda x: x)


# --- export_guards ----------------------------------------------------------------------------------------------------
K = 3


def page(compiled):
    """The page, which must be Python, and its functions: what native checks stand for is said in Python here."""
    text = jit.export_guards(compiled)
    ast.parse(text)

    def is_tensor(x, cls, dtype, sizes, strides, device, layout, requires_grad, is_leaf, keys):
        def fits(wanted, found):
            return len(wanted) == len(found) and all(a in (None, b) for a, b in zip(wanted, found, strict=True))

        known = (x.dtype, str(x.device), x.requires_grad, x.is_leaf) == (dtype, device, requires_grad, is_leaf)
        return type(x) is cls and known and fits(sizes, x.shape) and fits(strides, x.stride())

    scope = {"is_tensor": is_tensor, "state_is_as_it_was": lambda: True, "known": lambda text: text}
    exec(text, scope)
    return text, [value for name, value in scope.items() if name.startswith("program_")]


def program(x, n=4, options=None):
    y = x * K if x.shape[0] > 5 else x - n
    return y[: options["last"]] if options else y


def test_the_page_says_which_calls_are_served():
    compiled = jit.compile(program)
    for call in ((X(3, 4),), (X(4, 4),), (X(9, 4), 4, {"last": 2}), (X(7, 4), 9)):
        assert torch.equal(compiled(*call), program(*call))
    text, functions = page(compiled)
    assert len(functions) == len(compiled.debug_state().entries)
    assert "x.size()[0]" in text and "test_warmup.py:" in text and "tests.test_warmup.__dict__['K'] == 3" in text
    for call in ((X(3, 4),), (X(6, 4),), (X(2, 4),), (X(8, 4), 4, {"last": 2}), (X(8, 4), 4, {"last": 3}), (X(4, 4).double(),), (X(3, 4), 5)):
        bound = inspect.signature(program).bind(*call)
        bound.apply_defaults()
        served = any(_holds(function, bound.arguments) for function in functions)
        misses = compiled.debug_state().frames[0].misses
        assert torch.equal(compiled(*call), program(*call))
        assert served == (compiled.debug_state().frames[0].misses == misses)
        text, functions = page(compiled)


def _holds(function, named):
    try:
        return function(**{name: named[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]})
    except (KeyError, TypeError, AttributeError):  # something is not there
        return False


def test_pages_of_many_kinds_of_guards_are_python():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.rows = nn.Linear(4, 4), {X: 2, "a": (1, None), 3: torch.float32}

        def forward(self, x, *more, kind=float("inf"), **named):
            for y in more:
                x.add_(y)
            if isinstance(named.get("point"), tuple):
                x = x * named["point"].a
            return self.linear(x) * len(self.rows) * self.rows[X] + min(kind, 3.0)

    point = collections.namedtuple("point", "a b")
    compiled = jit.compile(Model())
    compiled(X(3, 4), X(3, 4), X(3, 4))
    compiled(X(3, 4), kind=2.0, point=point(2, 3))
    outer = [1, 2]
    closes = jit.compile(lambda x: x * len(outer))
    closes(X(3))
    text = jit.export_guards(compiled)
    ast.parse(text)
    assert "memory_is_shared_within(" in text and "import torch.nn.modules.module" in text
    assert "known('" in text, "classes of functions have no name"
    (function, *_) = [each for each in ast.parse(jit.export_guards(closes)).body if isinstance(each, ast.FunctionDef)]
    assert [arg.arg for arg in function.args.kwonlyargs] == ["outer"]


def test_a_function_without_entries():
    assert "def " not in jit.export_guards(jit.compile(program))
