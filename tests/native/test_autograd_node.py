"""The autograd node of compiled functions gives the gradients that eager operations, or a torch.autograd.Function of the
same formulas, would give."""

import gc
import weakref

import pytest
import torch

from codegen import _C
from tests.native.programs import (
    EXP,
    MUL,
    PROGRAMS,
    SINE,
    TWO,
    as_function,
    assert_same,
    eager,
    made_of,
    make_inputs,
    through_node,
    times,
    total,
)

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


# Eager differentiates its own formulas, not ours, a second time: equal but for rounding.
@pytest.mark.sampled(3)
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


# --- which of the functions is called


def each_output(f, inputs):
    for y in f(*inputs):
        torch.autograd.grad(y.sum(), inputs)


@pytest.mark.parametrize("scenario, frozen, calls", [
    (backward_of_all, [], [("whole",)]),
    (backward_of_all, [1], [("partial", (True, True), (True, False))]),
    (backward_of_first, [], [("partial", (True, False), (True, True))]),
    (backward_of_last, [], [("partial", (False, True), (True, True))]),
    (grad_of_last_input, [], [("partial", (True, False), (False, True))]),
    (retained, [], [("whole",), ("whole",)]),
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
    backward = made_of("Some", max, lambda defined, needed, *_: seen.append(needed) or (None, torch.ones(4) * 5, None), ())
    _C.tie(backward, (None, x, torch.ones(4)), (y,), (), ())
    y.sum().backward()
    assert seen == [(False, True, False)] and torch.equal(x.grad, torch.ones(4) * 5)
    assert [fn is None for fn, _ in y.grad_fn.next_functions] == [True, False, True]


def test_extra_comes_back_as_it_is():
    x, = make_inputs(EXP)
    extra = (4, "size", [1], None)
    seen = []

    def keep(arguments):
        seen.append(arguments)
        return (arguments[-1],)

    for tangent_count in (1, 2):
        outputs = tuple(torch.ones(4) for _ in range(tangent_count))
        _C.tie(made_of("Extra", keep, lambda *general: keep([*general[4], general[5][0]]), ()), (x,), outputs, (), extra)
        outputs[0].sum().backward()
    assert len(seen) == 2
    for arguments in seen:
        assert all(a is b for a, b in zip(arguments, extra)) and len(arguments) == 5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="its backward runs on an engine thread of a GPU")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_gradients_on_a_gpu(scenario):
    for program in PROGRAMS:
        def on_gpu(f):
            return lambda *inputs: f(*(x.cuda() for x in inputs))
        expected = scenario(on_gpu(as_function(program)), make_inputs(program))
        assert_same(scenario(on_gpu(through_node(program)), make_inputs(program)), expected)


# --- the node itself


def test_the_node_looks_like_one():
    x, w = make_inputs(TWO)
    middle = x * 2
    outputs = through_node(TWO)(middle, w)
    fn = outputs[0].grad_fn
    assert fn is outputs[1].grad_fn and [y.output_nr for y in outputs] == [0, 1]
    assert fn.name() == "twoBackward" and "grad_fn=<twoBackward>" in repr(outputs[0])
    twins = as_function(TWO)(middle, w)
    reference = twins[0].grad_fn
    assert [(f.name(), number) for f, number in fn.next_functions] == [(f.name(), number) for f, number in reference.next_functions]
    assert fn.next_functions[0][0] is middle.grad_fn and fn.next_functions[1][0].variable is w
    assert [m.shape for m in fn._input_metadata] == [m.shape for m in reference._input_metadata]
    assert all(y.requires_grad and not y.is_leaf for y in outputs)
    later = (outputs[0] * 1).grad_fn
    assert middle.grad_fn._sequence_nr() < fn._sequence_nr() < later._sequence_nr()


# --- nodes of the results


def fan(x, nodes, log=None):
    """Three outputs and two links, each x, of which the gradient is their sum; with a history."""
    def added(given):
        tangents = given[-len(given):]
        return (sum(tangents[1:], start=tangents[0]),)

    def choose(defined, needed, released, has_history):
        (log if log is not None else []).append((defined, has_history))

        def run(given):
            x, outputs, tangents = given[0], given[1:6], given[6:]
            at = [n for n, flag in enumerate(defined) if flag]
            return (sum(tangent * (outputs[n].detach() * 0 + x) for n, tangent in zip(at, tangents)),)
        return (run if has_history else added), (True,) * has_history, 0, ()

    outputs = tuple(x.detach().clone() for _ in range(5))
    _C.tie(_C.Backward("Fan", added, choose, (), nodes), (x,), outputs, (), (), (x,))
    return outputs


@pytest.mark.parametrize("nodes, numbers", [
    ((), [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]),
    ((1, 1, 1), [(1, 0), (2, 0), (3, 0), (0, 3), (0, 4)]),
    ((1, 2), [(1, 0), (2, 0), (2, 1), (0, 3), (0, 4)]),
    ((5,), [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]),
], ids=str)
def test_outputs_have_the_nodes_that_they_are_given(nodes, numbers):
    x = torch.ones(4, requires_grad=True)
    outputs = fan(x, nodes)
    own = [y.grad_fn for y in outputs if y.grad_fn.next_functions[0][0].name() != "Fan"]
    main = own[0] if own else outputs[0].grad_fn.next_functions[0][0]
    assert main.next_functions[0][0].variable is x and len({y.grad_fn for y in outputs} | {main}) == 1 + len(nodes)
    known = {main: 0}
    for output, (node, number) in zip(outputs, numbers):
        assert known.setdefault(output.grad_fn, len(known)) == node and output.output_nr == number
        assert output.grad_fn.name() == "Fan" and (node == 0) == (output.grad_fn is main)
    for at, (output, (node, number)) in enumerate(zip(outputs, numbers)):
        assert node == 0 or output.grad_fn.next_functions[number] == (main, at)
    ages = [node._sequence_nr() for node in known]
    assert ages == sorted(ages)


@pytest.mark.parametrize("roots", [(0,), (2,), (4,), (0, 1), (1, 3), (0, 1, 2, 3, 4)], ids=str)
def test_gradients_come_through_the_nodes_of_the_outputs(roots):
    seen = []
    for nodes in ((), (1, 1, 1), (1, 2)):
        log, x = [], torch.full((4,), 2.0, requires_grad=True)
        outputs = fan(x, nodes, log)
        gradient, = torch.autograd.grad([outputs[n] for n in roots], x, [torch.full((4,), n + 1.0) for n in roots])
        seen.append((gradient.tolist(), log))
    assert seen[0][0] == [sum(n + 1.0 for n in roots)] * 4
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1] == ([] if len(roots) == 5 else [(tuple(n in roots for n in range(5)), False)])


def test_histories_of_outputs_begin_at_their_nodes():
    """And at the node of all for those that nobody holds any more."""
    seen = []

    def choose(defined, needed, released, has_history):
        def run(given):
            seen.extend((y.grad_fn, y.output_nr) for y in given[1:-1])
            return (given[-1] * given[0],)
        return run, (True,) * has_history, 0, ()

    x, first, second, third = torch.ones(4, requires_grad=True), torch.ones(4), torch.ones(4), torch.ones(4)
    _C.tie(_C.Backward("Three", max, choose, (), (1, 1)), (x,), (first, second, third), (), (), (x,))
    node, main = second.grad_fn, third.grad_fn
    del first
    torch.autograd.grad(second.sum(), x, create_graph=True)
    assert seen == [(main, 0), (node, 0), (main, 2)] and node.next_functions == ((main, 1),)
    seen.clear()  # its function must not hold the node


def test_a_saved_output_with_a_node_of_its_own_makes_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x, = make_inputs(EXP)
        first, second = torch.exp(x.detach()), torch.exp(x.detach())
        general = lambda defined, needed, has_history, saved, rest, tangents: (total(*map(times, tangents, saved)),)  # noqa: E731
        backward = made_of("Saves", lambda given: general(0, 0, 0, given[:2], 0, given[2:]), general, (True, True), 0, (1, 1))
        _C.tie(backward, (x,), (first, second), (first, second), ())
        gradient, = torch.autograd.grad(first.sum(), x, retain_graph=True)
        assert torch.equal(gradient, first.detach())
        alive = weakref.ref(first), weakref.ref(second)
        del first
        assert alive[0]() is None and alive[1]() is not None
        gradient, = torch.autograd.grad(second.sum(), x)
        assert torch.equal(gradient, second.detach())
        del second
        assert alive[1]() is None
    finally:
        gc.enable()


def test_a_write_to_a_saved_output_with_a_node_of_its_own_is_noticed():
    x, = make_inputs(EXP)
    outputs = torch.exp(x.detach()), torch.exp(x.detach())
    _C.tie(made_of("Saves", max, max, (True, True), 0, (1, 1)), (x,), outputs, outputs, ())
    with torch.no_grad():
        outputs[1].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"):
        torch.autograd.grad(outputs[0].sum() + outputs[1].sum(), x)


def test_a_backward_shows_its_parts():
    backward = _C.Backward("name", max, min, (True, False), (2, 1))
    assert (backward.name, backward.whole, backward.choose, backward.inputs_saved) == ("name", max, min, (True, False))
    assert backward.nodes == (2, 1) and _C.Backward("name", max, min, ()).nodes == ()
    assert repr(backward) == "<Backward name>"
    with pytest.raises(AttributeError):
        backward.name = "other"


def test_ages_are_exchanged():
    x = torch.ones(2, requires_grad=True)
    a, b, c, seen = x * 2, x * 3, x * 4, []
    ages = [y.grad_fn._sequence_nr() for y in (a, b, c)]
    _C.arrange((b, x, c, b, torch.ones(2), a))
    assert [y.grad_fn._sequence_nr() for y in (b, c, a)] == ages
    for name, y in zip("abc", (a, b, c)):
        y.register_hook(lambda grad, name=name: seen.append(name))
    (a + b + c).sum().backward()
    assert seen == ["a", "c", "b"] and x.grad.tolist() == [9, 9]


@pytest.mark.parametrize("argument, expected", [
    ([], "arrange(): tensors must be a tuple, not list"), ((1,), "arrange() of a int, no tensor"),
])
def test_what_cannot_be_arranged(argument, expected):
    with pytest.raises(TypeError) as caught:
        _C.arrange(argument)
    assert str(caught.value) == expected


def test_a_written_view_keeps_its_node():
    leaf = torch.ones(2, 6, requires_grad=True)
    kept, asked_again, plain = (leaf * 2)[:, ::2], (leaf * 2)[:, ::2], leaf * 2
    nodes = [kept.grad_fn, asked_again.grad_fn]
    with torch.no_grad():
        for each in (kept, asked_again, plain):
            each.fill_(3)
    for each in (kept, plain, leaf, torch.ones(2), torch.ones(2)[:1]):
        _C.keep_node(each)
    assert kept.grad_fn is nodes[0] and asked_again.grad_fn is not nodes[1]
    kept.sum().backward()
    assert leaf.grad.tolist() == [[2, 0] * 3] * 2
    with torch.no_grad():
        kept.fill_(4)
    assert kept.grad_fn is not nodes[0]


def test_only_a_tensor_keeps_its_node():
    with pytest.raises(TypeError) as caught:
        _C.keep_node(1)
    assert str(caught.value) == "keep_node() of a int, no tensor"


def test_anomaly_mode_names_the_node_and_the_forward(child):  # a child: here torch itself leaks, in eager code too
    child("""
        import warnings
        from codegen import _C

        def the_forward():
            x, y = torch.ones(4, requires_grad=True), torch.ones(4)
            _C.tie(_C.Backward("Strange", lambda tangents: (tangents[0] * float("nan"),), max, ()), (x,), (y,), (), ())
            return y

        with warnings.catch_warnings(record=True) as seen, torch.autograd.detect_anomaly():
            try:
                the_forward().sum().backward()
            except RuntimeError as error:
                assert str(error) == "Function 'Strange' returned nan values in its 0th output.", error
        said = [str(warning.message) for warning in seen if "Error detected" in str(warning.message)]
        assert len(said) == 1 and "Error detected in Strange" in said[0] and "the_forward" in said[0], said
    """)
