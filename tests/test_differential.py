"""The helper itself: a compiler that gets one thing wrong must be caught, a faithful one must pass."""
import collections
import dataclasses
import random
import sys
import warnings

import numpy
import pytest
import torch

from tests.differential import COUNTING, Call, Counting, NotTheSame, check, same_as_eager, tensors


@pytest.fixture(autouse=True)
def eager_is_eager(monkeypatch):
    """The helper itself is under test here, whatever other tests run through."""
    monkeypatch.setattr("tests.differential.INNER", None)


counter = 0
table = {}
X = tensors(3, 4)


def faithful(fn, **options):
    return lambda *args, **kwargs: fn(*args, **kwargs)


def wrong(change):
    """A compiler that runs `fn` and lets `change` spoil what came of it."""
    return lambda fn, **options: lambda *args, **kwargs: change(fn(*args, **kwargs), *args, **kwargs)


def instead(other):
    """A compiler that compiles every function to `other`."""
    return lambda fn, **options: other


@dataclasses.dataclass
class Pair:
    a: object
    b: object


class Slotted:
    __slots__ = ("a", "__b")

    def __init__(self, a, b):
        self.a, self.__b = a, b


Point = collections.namedtuple("Point", "x y")


class Counted:
    made = 0
    log = []

    def __init__(self):
        type(self).made += 1


def fine_value(x):
    return x + 1


def fine_mutation(xs, d):
    xs.append(xs[0] * 2)
    d["k"] = xs
    return d, xs


def fine_global(x):
    global counter
    counter += 1
    table["last"] = x
    return x * counter


def fine_raise(x):
    y = x + 1
    raise ValueError("bad", y.shape)


def fine_random(x):
    return x * torch.rand(4) + random.random() + numpy.random.rand()


def fine_views(x):
    y = x.view(-1)
    return y, y[1:], x.t()


def fine_nan(x):
    return x * float("nan"), -x * 0.0


def fine_objects(x):
    p = Pair(x, [x])
    q = Point(p, p)
    return q, Slotted(p, x), {"a": 1, "b": {x.shape, 2}}, collections.deque([1, x], maxlen=3), lambda: x


def fine_class_state(x):
    Counted()
    Counted.log.append(x.shape)
    return Counted.made


def fine_print(x):
    print("shape", x.shape)
    warnings.warn("careful")
    return x


@pytest.mark.parametrize("program", [fine_value, fine_global, fine_raise, fine_random, fine_views, fine_nan, fine_objects,
                                     fine_class_state, fine_print], ids=lambda f: f.__name__)
def test_a_faithful_compiler_passes(program):
    check(program, *X, compiler=faithful, changed=tensors(2, 4))


def test_a_faithful_compiler_passes_with_mutated_containers():
    check(fine_mutation, [X[0]], {}, compiler=faithful)


def test_a_faithful_compiler_passes_with_gradients():
    a = torch.randn(3, requires_grad=True)
    check(lambda x: (x * x).sum(), a, compiler=faithful)


def test_a_faithful_compiler_passes_on_modules():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    check(net, *X, compiler=faithful)
    check(lambda m, x: m(x), net, *X, compiler=faithful)


def test_a_faithful_compiler_passes_on_methods():
    class Holder:
        def __init__(self):
            self.calls = 0

        def run(self, x):
            self.calls += 1
            return x + self.calls
    check(Holder().run, *X, compiler=faithful)


def test_the_world_is_as_it_was_afterwards():
    global counter
    counter, calls, x = 5, [], X[0].clone()
    before = x.clone()

    def program(x):
        global counter, born
        counter += 1
        born = 1
        calls.append(x)
        Counted.made += 1
        Counted.log.append(1)
        program.seen = True
        torch.set_default_dtype(torch.float64)
        return x.add_(1)
    check(program, x, compiler=faithful)
    assert counter == 5 and not calls and torch.equal(x, before) and Counted.made == 0 and Counted.log == []
    assert "born" not in globals() and not hasattr(program, "seen") and torch.get_default_dtype() is torch.float32


def test_keywords():
    check(lambda x, *, scale: x * scale, *X, scale=2, compiler=faithful, changed=lambda: Call(*X, scale=3))


# --- one thing wrong each ----------------------------------------------------------------------------------------

def value(x):
    return x + 1


def many(x):
    y = x + 1
    return [y, y], {"a": 1, "b": 2}, (x,)


def two_views(x):
    y = x + 0
    return y, y.view(-1)


WRONG_RESULTS = {
    "value": (value, lambda r, x: r + 1e-6),
    "last bit": (value, lambda r, x: torch.nextafter(r, r + 1)),
    "zero sign": (lambda x: x * 0.0, lambda r, x: r.abs()),
    "nan": (lambda x: x * float("nan"), lambda r, x: torch.zeros_like(r)),
    "dtype": (value, lambda r, x: r.double()),
    "shape": (value, lambda r, x: r[None]),
    "stride": (lambda x: x.t() + 1, lambda r, x: r.contiguous()),
    "stride of size-1 dim": (lambda x: x[:1].t() * 1, lambda r, x: r.as_strided(r.shape, (7, 7)).clone()),
    "offset": (lambda x: (x + 1)[1:], lambda r, x: r.clone()),
    "storage size": (lambda x: (x + 1)[:1], lambda r, x: r.clone()),
    "copy for the input": (lambda x: x, lambda r, x: r.clone()),
    "detached": (lambda x: x, lambda r, x: r.detach()),
    "alias": (two_views, lambda r, x: (r[0], r[1].clone())),
    "view relation": (lambda x: x.view(-1), lambda r, x: torch.empty(0).set_(r.untyped_storage(), 0, r.shape, r.stride())),
    "too much alias": (lambda x: (x + 1, x + 1), lambda r, x: (r[0], r[0])),
    "identity": (many, lambda r, x: ([r[0][0], r[0][1].clone()], *r[1:])),
    "list for tuple": (lambda x: (x, x), lambda r, x: [x, x]),
    "dict order": (many, lambda r, x: (r[0], dict(reversed(r[1].items())), r[2])),
    "dict type": (lambda x: collections.OrderedDict(a=x), lambda r, x: dict(r)),
    "namedtuple": (lambda x: Point(x, 1), lambda r, x: tuple(r)),
    "size type": (lambda x: x.shape, lambda r, x: tuple(r)),
    "bool for int": (lambda x: 1, lambda r, x: True),
    "float for int": (lambda x: 1, lambda r, x: 1.0),
    "parameter": (lambda x: torch.nn.Parameter(x), lambda r, x: r.detach().requires_grad_()),
    "requires_grad": (value, lambda r, x: r.requires_grad_()),
    "deque maxlen": (lambda x: collections.deque([x], 3), lambda r, x: collections.deque([x])),
    "default factory": (lambda x: collections.defaultdict(list), lambda r, x: collections.defaultdict(dict)),
    "set": (lambda x: {1, "a"}, lambda r, x: {1, "b"}),
    "slot": (lambda x: Slotted(1, 2), lambda r, x: Slotted(1, 3)),
    "attribute": (lambda x: Pair(1, 2), lambda r, x: Pair(2, 2)),
    "attribute order": (lambda x: Pair(1, 2), lambda r, x: _reordered(r)),
    "closure": (lambda x: (lambda: x), lambda r, x: _refilled(r, x.clone())),
    "none": (lambda x: None, lambda r, x: 0),
    "copied function": (lambda x: fine_value, lambda r, x: type(r)(r.__code__, r.__globals__, r.__name__)),
    "tensor attribute": (lambda x: x + 1, lambda r, x: _with(r, note=1)),
    "hook": (lambda x: (x.requires_grad_() * 2), lambda r, x: (r.register_hook(lambda g: g), r)[1]),
    "cycle": (lambda x: _cycle(), lambda r, x: [[]]),
}


def _cycle():
    xs = []
    xs.append(xs)
    return xs


def _refilled(fn, content):
    fn.__closure__[0].cell_contents = content
    return fn


def _with(t, **attributes):
    t.__dict__.update(attributes)
    return t


def _reordered(pair):
    pair.__dict__ = {"b": pair.b, "a": pair.a}
    return pair


@pytest.mark.parametrize("what", WRONG_RESULTS)
def test_a_wrong_result_is_caught(what):
    program, change = WRONG_RESULTS[what]
    check(program, *X, compiler=faithful)
    with pytest.raises(NotTheSame):
        check(program, *X, compiler=wrong(change))


def caught(program, compiler, *args, match=None, **options):
    check(program, *args, compiler=faithful, **options)
    with pytest.raises(NotTheSame, match=match):
        check(program, *args, compiler=compiler, **options)


def test_a_wrong_result_of_the_cached_call_only_is_caught():
    def second_time_wrong(fn, **options):
        calls = []
        return lambda x: (calls.append(1), fn(x) if len(calls) == 1 else fn(x) + 1)[1]
    caught(value, second_time_wrong, *X, match="again")


def test_a_result_for_the_first_input_only_is_caught():
    def remembers(fn, **options):
        results = []
        return lambda x: (results or results.append(fn(x)) or results)[0].clone()
    with pytest.raises(NotTheSame, match="changed"):
        check(value, *X, compiler=remembers, changed=tensors(3, 4, seed=3))


def test_unmutated_input_is_caught():
    caught(lambda x: x.add_(1), instead(lambda x: x + 1), *X)
    caught(lambda x: x.add_(1).sum(), instead(lambda x: (x + 1).sum()), *X)


def test_mutation_of_a_copied_list_is_caught():
    caught(lambda xs: xs.append(1), instead(lambda xs: None), [1])


def test_a_replaced_tensor_instead_of_one_changed_in_place_is_caught():
    def program(xs):
        xs[0].add_(1)

    def replaces(xs):
        xs[0] = xs[0] + 1
    caught(program, instead(replaces), list(X))


def test_unwritten_global_is_caught():
    caught(fine_global, instead(lambda x: x), *X)


def test_a_global_left_behind_is_caught():
    def program(x):
        return x

    def leaves(x):
        globals()["left_behind"] = 1
        return x
    try:
        caught(program, instead(leaves), *X)
    finally:
        globals().pop("left_behind", None)


def test_unwritten_cell_is_caught():
    n = 0

    def program(x):
        nonlocal n
        n += 1
        return x
    caught(program, instead(lambda x: x), *X)


def test_unwritten_class_attribute_is_caught():
    caught(fine_class_state, instead(lambda x: 1), *X)


def test_run_twice_is_caught():
    calls = []

    def program(x):
        calls.append(1)
        return x

    def twice(fn, **options):
        return lambda x: (fn(x), fn(x))[1]
    caught(program, twice, *X)


def test_lost_exception_is_caught():
    caught(fine_raise, instead(lambda x: None), *X, match="eager raised")


def test_invented_exception_is_caught():
    def raises(x):
        raise ValueError
    caught(value, instead(raises), *X, match="compiled raised")


def test_wrong_exception_type_is_caught():
    caught(fine_raise, instead(lambda x: _raise(KeyError("bad", x.shape))), *X)


def test_wrong_exception_text_is_caught():
    caught(fine_raise, instead(lambda x: _raise(ValueError("worse", x.shape))), *X)


def test_lost_traceback_is_caught():
    caught(fine_raise, instead(lambda x: _raise(ValueError("bad", x.shape))), *X, match="lines")


def test_lost_cause_is_caught():
    def program(x):
        try:
            raise KeyError("inner")
        except KeyError as e:
            raise ValueError("outer") from e

    def without(fn, **options):
        def call(x):
            try:
                fn(x)
            except ValueError as e:
                e.__cause__ = None
                raise
        return call
    caught(program, without, *X)


def _raise(exc):
    raise exc


def test_lost_print_is_caught():
    caught(fine_print, instead(lambda x: x), *X, match="printed")


def test_lost_warning_is_caught():
    def program(x):
        warnings.warn("careful")
    caught(program, instead(lambda x: None), *X, match="warnings")


@pytest.mark.parametrize("draw", [lambda: torch.rand(3), lambda: random.random(), lambda: numpy.random.rand()])
def test_another_rng_state_is_caught(draw):
    def program(x):
        draw()
        return x
    caught(program, instead(lambda x: x), *X, match="rng")


def test_wrong_gradient_is_caught():
    a = torch.randn(3, requires_grad=True)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3
    caught(lambda x: x * 2, instead(Wrong.apply), a, match="grad")
    caught(lambda x: x * 2, instead(lambda x: x.detach() * 2), a, match="requires_grad")


def test_lost_gradient_of_a_module_parameter_is_caught():
    def forward(m, x):
        return m(x)
    caught(forward, instead(lambda m, x: m(x) - m.bias.detach() + m.bias), torch.nn.Linear(4, 4), *X)


def test_grad_written_in_the_program_is_compared():
    def program(x):
        (x * x).sum().backward()
    caught(program, instead(lambda x: None), torch.randn(3, requires_grad=True))


def test_lost_hook_effect_in_backward_is_caught():
    def program(x, seen):
        y = x * 2
        y.register_hook(lambda g: seen.append("hook"))
        return y
    caught(program, instead(lambda x, seen: x * 2), torch.randn(3, requires_grad=True), [])


@pytest.mark.parametrize("leave", [lambda: torch.set_grad_enabled(False), lambda: torch.set_default_dtype(torch.float64),
                                   lambda: torch.use_deterministic_algorithms(True), lambda: torch.set_num_threads(2)])
def test_a_mode_left_behind_is_caught(leave):
    def leaves(x):
        leave()
        return None
    caught(lambda x: None, instead(leaves), *X, match="modes")


def test_aliases_among_inputs_are_kept_in_the_copies():
    xs = [X[0], X[0]]

    def program(xs, x):
        assert xs[0] is xs[1] and xs[0] is x
        return x
    check(program, xs, X[0], compiler=faithful)


def test_graphs_are_counted():
    def two_graphs(fn, backend, **options):
        gm = torch.fx.symbolic_trace(lambda x: x + 1)
        backend(gm, []), backend(gm, [])
        return fn
    import tests.differential as differential
    if not differential.COUNTING:
        pytest.skip("graphs are not counted when a break is forced after every call")
    with pytest.raises(AssertionError, match="captured 2 graphs"):
        check(value, *X, compiler=lambda fn, **o: _on_first_call(fn, lambda: two_graphs(fn, **o)), graphs=1)


def test_needless_recompiles_are_counted():
    import tests.differential as differential
    if not differential.COUNTING:
        pytest.skip("graphs are not counted when a break is forced after every call")

    def every_call(fn, backend, **options):
        gm = torch.fx.symbolic_trace(lambda x: x + 1)
        return lambda x: (backend(gm, []), fn(x))[1]
    with pytest.raises(AssertionError, match="second call"):
        check(value, *X, compiler=every_call, graphs=1)
    check(value, *X, compiler=every_call, graphs=1, recompiles=True)


def _on_first_call(fn, before):
    state = []

    def call(*args):
        if not state:
            state.append(before())
        return fn(*args)
    return call


def test_counting_backend():
    counter = Counting()
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    assert torch.equal(counter(gm, X)(X[0]), X[0] + 1) and counter.count == 1


ENDED = []


def _ending():
    try:
        yield
    finally:
        ENDED.append(1)


def test_what_a_world_leaves_behind_ends_in_it():
    """A generator in a cycle goes when it is collected, and the next world has its own list to note that in."""

    def program(x):
        kept = [_ending()]
        next(kept[0])
        kept.append(kept)
        return x

    check(program, *X, compiler=faithful)


def test_notices_of_the_compilers_are_not_the_programs_text():
    def program(x):
        return x + 1

    def noticing(fn, **options):
        text = "here in program was compiled 16 times and runs eagerly; last reason: {} (jit.config.recompile_limit sets the bound)"

        def call(*args):
            for reason in ("one line", "two\nlines"):
                print(text.format(reason), file=sys.stderr)
            return fn(*args)
        return call
    check(program, *X, compiler=noticing)


@same_as_eager(compiler=faithful)
def test_the_decorator_runs_the_body(x, y, scale=2):
    return x * y + scale


def test_the_decorator_compares():
    bad = same_as_eager(compiler=wrong(lambda r, x: r + 1))(value)
    with pytest.raises(NotTheSame):
        bad()


def tells_of_a_node(w):
    made = w * 2
    memoryview(b"breaks the graph")
    return made, [f"of {made.sum()}", (repr(made.sum()), 1)]


WEIGHTS = {"make": lambda: torch.ones(2, requires_grad=True)}


def test_names_of_nodes_are_left_out_of_all_texts_where_they_are_not_compared():
    check(tells_of_a_node, **WEIGHTS, backend="aot_eager", tolerance=(1e-5, 1e-5), nodes=False)


@pytest.mark.skipif(not COUNTING, reason="where the graph breaks everywhere, names of nodes are not compared")
def test_names_of_nodes_are_compared_elsewhere():
    with pytest.raises(NotTheSame, match="grad_fn"):
        check(lambda w: [str(w * 2)], compiler=lambda function, **options: lambda w: [str(w + w)], **WEIGHTS)
