"""The autograd node of compiled functions: in everything but its cost it is what eager operations, or a
torch.autograd.Function of the same formulas, would be."""

import gc
import threading
import traceback
import weakref
from dataclasses import dataclass

import pytest
import torch

from codegen import _C

# --- programs: written once, run eagerly, as a torch.autograd.Function and through a node


def times(tangent, factor):
    return None if tangent is None else tangent * factor


def total(*terms):
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else None


@dataclass(frozen=True)
class Program:
    """`run(*inputs)` -> (outputs, saved, extra); `gradients(saved, extra, tangents)`; `outside`: the plan's inputs_saved."""

    name: str
    inputs: int
    outside: tuple
    run: object
    gradients: object


def sine(saved, extra, tangents):
    x, s = saved
    s = torch.sin(x) if torch.is_grad_enabled() else s  # the private one has no history
    return ((tangents[0] * s + tangents[0] * s) * torch.cos(x),)


def run_sine(x):
    s = torch.sin(x)
    return (s * s,), (x, s), ()


def run_exp(x):
    y = torch.exp(x)
    return (y,), (y,), ()


PROGRAMS = [
    Program("mul", 2, (True, True),
            lambda x, w: ((x * w,), (x, w), ()),
            lambda saved, extra, tangents: (tangents[0] * saved[1], tangents[0] * saved[0])),
    Program("two", 2, (True, True),
            lambda x, w: ((x * w, x + w), (x, w), ()),
            lambda saved, extra, tangents: tuple(total(times(tangents[0], saved[1 - i]), tangents[1]) for i in (0, 1))),
    Program("exp", 1, (True,), run_exp, lambda saved, extra, tangents: (tangents[0] * saved[0],)),
    Program("sine", 1, (True, False), run_sine, sine),
    Program("sizes", 1, (),
            lambda x: ((x.sum(),), (), tuple(x.shape)),
            lambda saved, extra, tangents: (tangents[0].expand(extra),)),
    Program("unused", 2, (),
            lambda x, w: ((x + x,), (), ()),
            lambda saved, extra, tangents: (tangents[0] + tangents[0], None)),
]
MUL, TWO, EXP, SINE, SIZES, UNUSED = PROGRAMS


def eager(program):
    return lambda *inputs: program.run(*inputs)[0]


def as_function(program):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            outputs, saved, extra = program.run(*inputs)
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*saved)
            ctx.extra = extra
            return outputs

        @staticmethod
        def backward(ctx, *tangents):
            if all(tangent is None for tangent in tangents):
                return (None,) * program.inputs
            return program.gradients(ctx.saved_tensors, ctx.extra, tangents)

    return Function.apply


def plan_of(program, log=None):
    log = [] if log is None else log

    def backward(*arguments):
        assert not torch.is_grad_enabled()
        log.append(("backward",))
        first, last = len(program.outside), len(arguments) - OUTPUTS[program.name]
        return program.gradients(arguments[:first], arguments[first:last], arguments[last:])

    def partial(defined, needed, saved, extra, tangents):
        assert not torch.is_grad_enabled()
        log.append(("partial", defined, needed))
        return program.gradients(saved, extra, tangents)

    def differentiable(defined, needed, saved, extra, tangents):
        assert torch.is_grad_enabled()
        log.append(("differentiable", defined, needed))
        return program.gradients(saved, extra, tangents)

    return _C.Plan(f"{program.name}Backward", backward, partial, differentiable, program.outside)


def through_node(program, log=None):
    plan = plan_of(program, log)

    def call(*inputs):
        with torch._C._AutoDispatchBelowAutograd():
            outputs, saved, extra = program.run(*inputs)
        _C.tie(plan, inputs, outputs, saved, extra)
        return outputs

    return call


OUTPUTS = {program.name: 2 if program is TWO else 1 for program in PROGRAMS}


def make_inputs(program, frozen=()):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(4, generator=generator).requires_grad_(i not in frozen) for i in range(program.inputs)]


# --- what a program may do with the results. Each gives a list of tensors and None.


def backward_of_all(f, inputs):
    sum(y.sum() for y in f(*inputs)).backward()
    return [x.grad for x in inputs]


def backward_of_first(f, inputs):
    f(*inputs)[0].sum().backward()
    return [x.grad for x in inputs]


def backward_of_last(f, inputs):
    f(*inputs)[-1].sum().backward()
    return [x.grad for x in inputs]


def grad_of_last_input(f, inputs):
    return torch.autograd.grad(f(*inputs)[0].sum(), inputs[-1:], allow_unused=True)


def used_twice(f, inputs):
    y = f(*inputs)[0]
    return torch.autograd.grad((y * y).sum(), inputs, allow_unused=True)


def inputs_are_results(f, inputs):
    middle = [x * 2 for x in inputs]
    return torch.autograd.grad(sum(y.sum() for y in f(*middle)), [*inputs, *middle], allow_unused=True)


def called_twice(f, inputs):
    f(*inputs)[0].sum().backward()
    f(*inputs)[-1].sum().backward()
    return [x.grad for x in inputs]


def retained(f, inputs):
    y = sum(y.sum() for y in f(*inputs))
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad for x in inputs]


def gradient_of_gradient(f, inputs):
    y = sum((y * y).sum() for y in f(*inputs))
    firsts = torch.autograd.grad(y, inputs, create_graph=True, allow_unused=True)
    squares = sum((g * g).sum() for g in firsts if g is not None)
    return [*firsts, *torch.autograd.grad(squares, inputs, allow_unused=True)]


def gradient_of_gradient_of_last(f, inputs):
    y = f(*inputs)[-1]
    firsts = torch.autograd.grad((y * y * y).sum(), inputs, create_graph=True, allow_unused=True)
    return [*firsts, *torch.autograd.grad(firsts[0].sum(), inputs, allow_unused=True)]


def hooks_on_tensors(f, inputs):
    seen = []
    for x in inputs:
        x.register_hook(lambda g: times(g, 3))
    outputs = f(*inputs)
    for y in outputs:
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g) or g * 2)
    sum(y.sum() for y in outputs).backward()
    return [*seen, *(y.grad for y in outputs), *(x.grad for x in inputs)]


def hooks_on_the_node(f, inputs):
    seen = []
    node = f(*inputs)[0].sum()
    fn = node.grad_fn.next_functions[0][0]
    fn.register_prehook(lambda tangents: seen.extend(tangents) or tuple(t if t is None else t * 2 for t in tangents))
    fn.register_hook(lambda gradients, tangents: seen.extend([*gradients, *tangents]))
    node.backward()
    return [*seen, *(x.grad for x in inputs)]


def in_place_on_an_output(f, inputs):
    y = f(*inputs)[-1]
    y = y * 1
    y.mul_(2)
    return torch.autograd.grad(y.sum(), inputs, allow_unused=True)


def undefined_tangents(f, inputs):
    class NoGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y.clone()

        @staticmethod
        def backward(ctx, tangent):
            return None

    return torch.autograd.grad(NoGradient.apply(f(*inputs)[0]).sum(), inputs, allow_unused=True)


def with_saved_hooks(f, inputs):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        outputs = f(*inputs)
    return torch.autograd.grad(sum(y.sum() for y in outputs), inputs, allow_unused=True)


SCENARIOS = [
    backward_of_all, backward_of_first, backward_of_last, grad_of_last_input, used_twice, inputs_are_results, called_twice,
    retained, gradient_of_gradient, gradient_of_gradient_of_last, hooks_on_tensors, in_place_on_an_output,
    undefined_tangents, with_saved_hooks,
]


def assert_same(actual, expected, rounding=0.0):
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=rounding, atol=rounding, check_stride=True)
            assert ours.requires_grad == theirs.requires_grad


# Eager differentiates its own formulas, not ours, a second time: equal but for rounding.
@pytest.mark.parametrize("reference, rounding", [(as_function, 0.0), (eager, 1e-6)], ids=["function", "eager"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_gradients_are_those_of(scenario, reference, rounding):
    for program in PROGRAMS:
        expected = scenario(reference(program), make_inputs(program))
        assert_same(scenario(through_node(program), make_inputs(program)), expected, rounding)


@pytest.mark.parametrize("program", [MUL, TWO, SINE], ids=lambda p: p.name)
def test_hooks_on_the_node_see_what_they_see_on_a_function(program):
    expected = hooks_on_the_node(as_function(program), make_inputs(program))
    assert_same(hooks_on_the_node(through_node(program), make_inputs(program)), expected)


def test_inputs_without_gradients_get_none():
    for frozen in (0, 1):
        expected = backward_of_all(eager(TWO), make_inputs(TWO, [frozen]))
        assert_same(backward_of_all(through_node(TWO), make_inputs(TWO, [frozen])), expected)


# --- which of the plan's functions is called


def each_output(f, inputs):
    for y in f(*inputs):
        torch.autograd.grad(y.sum(), inputs)


@pytest.mark.parametrize("scenario, frozen, calls", [
    (backward_of_all, [], [("backward",)]),
    (backward_of_all, [1], [("partial", (True, True), (True, False))]),
    (backward_of_first, [], [("partial", (True, False), (True, True))]),
    (backward_of_last, [], [("partial", (False, True), (True, True))]),
    (grad_of_last_input, [], [("partial", (True, False), (False, True))]),
    (retained, [], [("backward",), ("backward",)]),
    (each_output, [], [("partial", (True, False), (True, True)), ("partial", (False, True), (True, True))]),
    (undefined_tangents, [], []),
    (lambda f, inputs: torch.autograd.grad(f(*inputs)[0].sum(), inputs, create_graph=True), [],
     [("differentiable", (True, False), (True, True))]),
    (lambda f, inputs: torch.autograd.grad(sum(y.sum() for y in f(*inputs)), inputs, create_graph=True), [],
     [("differentiable", (True, True), (True, True))]),
])
def test_the_function_for_the_case_is_called(scenario, frozen, calls):
    log = []
    scenario(through_node(TWO, log), make_inputs(TWO, frozen))
    assert log == calls


def test_none_among_the_inputs_wants_no_gradient():
    x, = make_inputs(EXP)
    seen = []
    y = torch.ones(4)
    plan = _C.Plan("Some", None.__class__, lambda defined, needed, *_: seen.append(needed) or (None, torch.ones(4) * 5, None), max, ())
    _C.tie(plan, (None, x, torch.ones(4)), (y,), (), ())
    y.sum().backward()
    assert seen == [(False, True, False)] and torch.equal(x.grad, torch.ones(4) * 5)
    assert [fn is None for fn, _ in y.grad_fn.next_functions] == [True, False, True]


def test_extra_comes_back_as_it_is():
    x, = make_inputs(EXP)
    extra = (4, "size", [1], None)
    seen = []

    def keep(*arguments):
        seen.append(arguments)
        return (arguments[-1],)

    for tangent_count in (1, 2):
        outputs = tuple(torch.ones(4) for _ in range(tangent_count))
        _C.tie(_C.Plan("Extra", keep, lambda *general: keep(*general[3], general[4][0]), max, ()), (x,), outputs, (), extra)
        outputs[0].sum().backward()
    assert len(seen) == 2
    for arguments in seen:
        assert all(a is b for a, b in zip(arguments, extra)) and len(arguments) == 5


# --- saved tensors: what is kept, and until when


def message(action):
    with pytest.raises(RuntimeError) as caught:
        action()
    return str(caught.value)


def twice(f, inputs):
    y = f(*inputs)[0]
    torch.autograd.grad(y, inputs, torch.ones_like(y))
    torch.autograd.grad(y, inputs, torch.ones_like(y))


@pytest.mark.parametrize("program", [MUL, EXP, SINE], ids=lambda p: p.name)
def test_a_second_backward_raises_what_eager_raises(program):
    expected = message(lambda: twice(eager(program), make_inputs(program)))
    assert "second time" in expected
    assert message(lambda: twice(through_node(program), make_inputs(program))) == expected


@pytest.mark.parametrize("program", [SIZES, UNUSED], ids=lambda p: p.name)
def test_where_nothing_is_saved_a_second_backward_is_fine(program):
    inputs = make_inputs(program)
    for f in (eager(program), through_node(program)):
        y = f(*inputs)[0]
        for _ in range(3):
            torch.autograd.grad(y, inputs[:1], torch.ones_like(y))


@dataclass
class Kept:
    """Two outputs of a node with one private saved tensor, and how to see whether that still lives."""

    x: torch.Tensor
    outputs: tuple
    alive: object

    def gradient(self, which, **options):
        outputs = [self.outputs[i] for i in which]
        return torch.autograd.grad(outputs, self.x, [torch.ones(4) for _ in outputs], **options)[0]


def kept():
    def general(defined, needed, saved, extra, tangents):
        return (total(*(times(tangent, saved[0]) for tangent in tangents)),)

    x = torch.ones(4, requires_grad=True)
    outputs, private = (torch.ones(4), torch.ones(4)), torch.full((4,), 3.0)
    plan = _C.Plan("Kept", lambda saved, *tangents: general(None, None, (saved,), (), tangents), general, general, (False,))
    _C.tie(plan, (x,), outputs, (private,), ())
    return Kept(x, outputs, weakref.ref(private))


@pytest.mark.parametrize("steps", [
    # each step: outputs, options, whether the saved tensor lives afterwards (None: the step raises)
    [((0, 1), {}, False), ((0,), {}, None), ((1,), {}, None), ((0, 1), {}, None)],
    [((0,), {}, True), ((0,), {}, None), ((1,), {}, False), ((1,), {}, None)],
    [((0,), {}, True), ((0, 1), {}, False), ((0, 1), {}, None)],
    [((0, 1), {"retain_graph": True}, True), ((0, 1), {"retain_graph": True}, True), ((1,), {}, True), ((0,), {}, False)],
    [((0,), {"retain_graph": True}, True), ((1,), {}, True), ((1,), {}, None), ((0,), {}, False)],
    [((0,), {"create_graph": True}, True), ((0, 1), {}, False), ((0,), {"create_graph": True}, None)],
])
def test_saved_tensors_live_until_each_output_had_its_last_backward(steps):
    k = kept()
    for which, options, alive in steps:
        if alive is None:
            assert "second time" in message(lambda: k.gradient(which, **options))
        else:
            assert torch.equal(k.gradient(which, **options), torch.full((4,), 3.0 * len(which)))
            assert (k.alive() is not None) == alive


def test_saved_tensors_die_with_the_node():
    k = kept()
    assert k.alive() is not None
    k.outputs = ()
    assert k.alive() is None


def test_a_call_by_hand_releases_nothing():
    k = kept()
    fn = k.outputs[0].grad_fn
    for _ in range(3):
        assert torch.equal(fn(torch.ones(4), None), torch.full((4,), 3.0))
    assert k.alive() is not None and torch.equal(k.gradient((0, 1)), torch.full((4,), 6.0))
    assert "second time" in message(lambda: fn(torch.ones(4), None))


def test_a_gradient_is_handed_over_without_a_copy():
    x, places = torch.ones(4, requires_grad=True), []
    y = torch.ones(4)

    def backward(tangent):
        gradient = tangent * 2
        places.append(gradient.data_ptr())
        return (gradient,)

    _C.tie(_C.Plan("Handed", backward, max, max, ()), (x,), (y,), (), ())
    y.backward(torch.ones(4))
    assert [x.grad.data_ptr()] == places


class Named:
    """`eager` and `through_node` of one program, with the node named as eager names it."""

    def __init__(self, program, name):
        self.eager = eager(program)
        plan = plan_of(program)
        plan = _C.Plan(name, plan.backward, plan.partial, plan.differentiable, plan.inputs_saved)

        def node(*inputs):
            with torch._C._AutoDispatchBelowAutograd():
                outputs, saved, extra = program.run(*inputs)
            _C.tie(plan, inputs, outputs, saved, extra)
            return outputs

        self.node = node


def write(tensor):
    with torch.no_grad():
        tensor.add_(1)


@pytest.mark.parametrize("program, name, writes_to", [
    (MUL, "MulBackward0", "input"), (EXP, "ExpBackward0", "output"), (MUL, "MulBackward0", "result"),
])
def test_a_write_to_a_saved_tensor_raises_what_eager_raises(program, name, writes_to):
    def run(f):
        inputs = make_inputs(program)
        if writes_to == "result":  # an input that is a result itself
            inputs = [x * 2 for x in inputs]
        y, = f(*inputs)
        write(y if writes_to == "output" else inputs[0])
        y.sum().backward()

    named = Named(program, name)
    expected = message(lambda: run(named.eager))
    assert "modified by an inplace operation" in expected
    assert message(lambda: run(named.node)) == expected


def test_a_write_to_a_private_tensor_is_nobodys_business():
    k = kept()
    write(k.alive())
    assert torch.equal(k.gradient((0, 1)), torch.full((4,), 8.0))


def test_saved_hooks_see_every_saved_tensor_once_each_way():
    packed, unpacked = [], []

    def pack(tensor):
        assert not tensor.requires_grad or tensor.is_leaf
        packed.append(tensor.clone())
        return len(packed) - 1

    def unpack(index):
        unpacked.append(index)
        return packed[index]

    x, = make_inputs(SINE)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y, = through_node(SINE)(x)
    assert_same(packed, [x.detach(), torch.sin(x.detach())])
    assert unpacked == []
    y.sum().backward()
    assert unpacked == [0, 1]
    assert_same([x.grad], backward_of_all(eager(SINE), make_inputs(SINE)))


@pytest.mark.parametrize("pack, unpack, fails", [(lambda t: 1 / 0, lambda t: t, "forward"), (lambda t: t, lambda t: 1 / 0, "backward")])
def test_what_saved_hooks_raise_comes_out(pack, unpack, fails):
    x, = make_inputs(SINE)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        if fails == "forward":
            with pytest.raises(ZeroDivisionError):
                through_node(SINE)(x)
            return
        y, = through_node(SINE)(x)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()


# --- the node itself


def test_the_node_looks_like_one():
    x, w = make_inputs(TWO)
    middle = x * 2
    outputs = through_node(TWO)(middle, w)
    fn = outputs[0].grad_fn
    assert fn is outputs[1].grad_fn and [y.output_nr for y in outputs] == [0, 1]
    assert fn.name() == "twoBackward" and "grad_fn=<twoBackward>" in repr(outputs[0])
    reference = as_function(TWO)(middle, w)[0].grad_fn
    assert [(f.name(), number) for f, number in fn.next_functions] == [(f.name(), number) for f, number in reference.next_functions]
    assert fn.next_functions[0][0] is middle.grad_fn and fn.next_functions[1][0].variable is w
    assert [m.shape for m in fn._input_metadata] == [m.shape for m in reference._input_metadata]
    assert all(y.requires_grad and not y.is_leaf for y in outputs)
    later = (outputs[0] * 1).grad_fn
    assert middle.grad_fn._sequence_nr() < fn._sequence_nr() < later._sequence_nr()


def test_a_plan_shows_its_parts():
    plan = _C.Plan("name", max, min, sum, (True, False))
    assert (plan.name, plan.backward, plan.partial, plan.differentiable, plan.inputs_saved) == ("name", max, min, sum, (True, False))
    assert repr(plan) == "<Plan name>"
    with pytest.raises(AttributeError):
        plan.name = "other"


def test_anomaly_mode_names_the_node_and_the_forward(child):  # a child: here torch itself leaks, in eager code too
    child("""
        import warnings
        from codegen import _C

        def the_forward():
            x, y = torch.ones(4, requires_grad=True), torch.ones(4)
            _C.tie(_C.Plan("Strange", lambda t: (t * float("nan"),), max, max, ()), (x,), (y,), (), ())
            return y

        with warnings.catch_warnings(record=True) as seen, torch.autograd.detect_anomaly():
            try:
                the_forward().sum().backward()
            except RuntimeError as error:
                assert str(error) == "Function 'Strange' returned nan values in its 0th output.", error
        said = [str(warning.message) for warning in seen if "Error detected" in str(warning.message)]
        assert len(said) == 1 and "Error detected in Strange" in said[0] and "the_forward" in said[0], said
    """)


# --- errors


class OwnError(Exception):
    pass


def broken(*arguments):
    raise OwnError("mine")


@pytest.mark.parametrize("options", [{}, {"create_graph": True}])
def test_what_a_backward_raises_comes_out(options):
    x, w = make_inputs(MUL)
    y = torch.ones(4)
    _C.tie(_C.Plan("Broken", broken, broken, broken, ()), (x, w), (y,), (), ())
    with pytest.raises(OwnError, match="mine") as caught:
        torch.autograd.grad(y.sum(), (x, w), **options)
    assert "broken" in [frame.name for frame in traceback.extract_tb(caught.tb)]


@pytest.mark.parametrize("result, expected", [
    (None, "Wrong: its backward must give a tuple of gradients, not NoneType"),
    ([None, None], "Wrong: its backward must give a tuple of gradients, not list"),
    ((None,), "Wrong: its backward gave 1 gradients for 2 inputs"),
    ((None, None, None), "Wrong: its backward gave 3 gradients for 2 inputs"),
    ((None, 1.0), "Wrong: gradient 1 is a float, not a tensor or None"),
])
def test_gradients_of_the_wrong_kind_are_refused(result, expected):
    x, w = make_inputs(MUL)
    for options in ({}, {"create_graph": True}):
        y = torch.ones(4)
        _C.tie(_C.Plan("Wrong", *[lambda *_: result] * 3, ()), (x, w), (y,), (), ())
        with pytest.raises(TypeError) as caught:
            torch.autograd.grad(y.sum(), (x, w), **options)
        assert str(caught.value) == expected


def test_a_gradient_of_the_wrong_shape_is_torchs_error():
    x, w = make_inputs(MUL)
    y = torch.ones(4)
    _C.tie(_C.Plan("Shape", lambda t: (torch.ones(3), None), max, max, ()), (x, w), (y,), (), ())
    with pytest.raises(RuntimeError, match="Function Shape returned an invalid gradient at index 0 - got .3. but expected shape compatible with .4."):
        y.sum().backward()


SAVES_ONE = _C.Plan("P", max, max, max, (True,))
X = torch.ones(2, requires_grad=True)


@pytest.mark.parametrize("arguments, error, expected", [
    ((SAVES_ONE,), TypeError, "tie() takes 5 arguments, got 1"),
    ((None, (), (), (), ()), TypeError, "tie() takes a Plan, got None"),
    ((SAVES_ONE, [X], (), (X,), ()), TypeError, "P: inputs must be a tuple, not list"),
    ((SAVES_ONE, (1,), (), (X,), ()), TypeError, "P: inputs[0] is a int, not a tensor"),
    ((SAVES_ONE, (X,), (None,), (X,), ()), TypeError, "P: outputs[0] is a NoneType, not a tensor"),
    ((SAVES_ONE, (X,), (torch.ones(2), torch.ones(2, dtype=torch.int64)), (X,), ()), TypeError,
     "P: outputs[1] has dtype Long, which has no gradients"),
    ((SAVES_ONE, (X,), (torch.ones(2), X), (X,), ()), ValueError, "P: outputs[1] requires a gradient already"),
    ((SAVES_ONE, (X,), (), (None,), ()), TypeError, "P: saved[0] is a NoneType, not a tensor"),
    ((SAVES_ONE, (X,), (), (), ()), TypeError, "P: 0 saved tensors, its plan has 1"),
    ((SAVES_ONE, (X,), (), (X,), []), TypeError, "P: extra must be a tuple, not list"),
])
def test_tie_refuses_what_it_cannot_tie(arguments, error, expected):
    with pytest.raises(error) as caught:
        _C.tie(*arguments)
    assert str(caught.value) == expected
    if len(arguments) == 5:  # and nothing was done to the outputs
        assert not any(y.requires_grad for y in arguments[2] if isinstance(y, torch.Tensor) and y is not X)


@pytest.mark.parametrize("arguments", [
    (), (1, max, max, max, ()), ("p", 1, max, max, ()), ("p", max, None, max, ()), ("p", max, max, 3, ()),
    ("p", max, max, max, [True]), ("p", max, max, max, (1,)),
])
def test_plan_refuses_what_is_no_plan(arguments):
    with pytest.raises(TypeError):
        _C.Plan(*arguments)


# --- memory and threads (that nothing leaks is checked for every test of this folder)


def test_a_saved_output_makes_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x, = make_inputs(EXP)
        y, = through_node(EXP)(x)
        alive = weakref.ref(y)
        del y
        assert alive() is None
    finally:
        gc.enable()


def test_cycles_through_a_plan_are_found():
    class Mark:
        pass

    def cycle():
        mark = Mark()
        mark.plan = _C.Plan("Cyclic", lambda: mark, max, max, ())
        return weakref.ref(mark)

    alive = cycle()
    assert alive() is not None
    gc.collect()
    assert alive() is None


def run_threads(count, body):
    errors, barrier = [], threading.Barrier(count)

    def run(number):
        try:
            barrier.wait()
            body(number)
        except BaseException as error:  # whatever it was, the test is to show it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_may_share_a_plan_and_a_graph():
    f, inputs = through_node(SINE), make_inputs(SINE)
    expected = torch.autograd.grad(f(*inputs)[0].sum(), inputs)[0]
    shared, = f(*inputs)

    def body(number):
        for _ in range(3):
            own, = f(*inputs)
            for y, options in ((own, {}), (shared, {"retain_graph": True})):
                assert torch.equal(torch.autograd.grad(y, inputs, torch.ones(4), **options)[0], expected)

    assert run_threads(4, body) == []


def test_of_threads_without_retain_graph_one_comes_through():
    inputs = make_inputs(MUL)
    y, = through_node(MUL)(*inputs)
    errors = run_threads(4, lambda number: torch.autograd.grad(y, inputs, torch.ones(4)))
    assert len(errors) == 3 and all("second time" in str(error) for error in errors)


def test_a_backward_in_another_thread_raises_its_own_error():
    y = torch.ones(4)
    _C.tie(_C.Plan("Broken", broken, broken, broken, ()), tuple(make_inputs(MUL)), (y,), (), ())
    errors = run_threads(1, lambda number: y.sum().backward())
    assert [type(error) for error in errors] == [OwnError]


def test_a_long_chain_dies_without_recursion(child):
    child("""
        from codegen import _C
        plan = _C.Plan("Link", lambda t: (t,), max, max, ())
        y = x = torch.ones(1, requires_grad=True)
        for _ in range(200_000):
            z = torch.ones(1)
            _C.tie(plan, (y,), (z,), (), ())
            y = z
        y.backward()
        assert x.grad.item() == 1
        del y, z
    """)


def test_a_node_may_outlive_the_interpreter(child):
    child("""
        from codegen import _C
        x, y = torch.ones(2, requires_grad=True), torch.ones(2)
        _C.tie(_C.Plan("Last", lambda saved, extra, t: (t,), max, max, (False,)), (x,), (y,), (torch.ones(2),), ([],))
        y.sum().backward(retain_graph=True)
        torch.leaked = y
    """)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="its backward runs on an engine thread of a GPU")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_gradients_on_a_gpu(scenario):
    for program in PROGRAMS:
        def on_gpu(f):
            return lambda *inputs: f(*(x.cuda() for x in inputs))
        expected = scenario(on_gpu(as_function(program)), make_inputs(program))
        assert_same(scenario(on_gpu(through_node(program)), make_inputs(program)), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="its backward runs on an engine thread of a GPU")
def test_errors_come_out_of_an_engine_thread():
    x, y = torch.ones(4, device="cuda", requires_grad=True), torch.ones(4, device="cuda")
    _C.tie(_C.Plan("Broken", broken, broken, broken, ()), (x,), (y,), (), ())
    with pytest.raises(OwnError) as caught:
        y.sum().backward()
    assert "broken" in [frame.name for frame in traceback.extract_tb(caught.tb)]
