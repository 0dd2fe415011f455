"""What an autograd node of a compiled function keeps and until when, what it refuses, and how it lives with threads."""

import gc
import threading
import traceback
import weakref
from dataclasses import dataclass

import pytest
import torch

from codegen import _C
from tests.native.programs import (
    EXP,
    MUL,
    SINE,
    SIZES,
    UNUSED,
    assert_same,
    eager,
    made_of,
    make_inputs,
    through_node,
    times,
    total,
)

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
    def general(defined, needed, has_history, saved, rest, tangents):
        return (total(*(times(tangent, saved[0]) for tangent in tangents)),)

    x = torch.ones(4, requires_grad=True)
    outputs, private = (torch.ones(4), torch.ones(4)), torch.full((4,), 3.0)
    backward = made_of("Kept", lambda given: general(None, None, False, given[:1], (), given[1:]), general, (False,))
    _C.tie(backward, (x,), outputs, (private,), ())
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


@pytest.mark.parametrize("wanted, options, alive", [
    ([0, 1], {}, False),
    ([0, 1], {"retain_graph": True}, True),
    ([0], {}, False),
], ids=["last", "retained", "partial"])
def test_a_backward_may_let_go_of_what_it_read(wanted, options, alive):
    """It holds the last references: a large tensor need not live to the end of the backward that reads it first."""
    seen = []

    def backward(given):
        tangent = given[-1]
        given.clear()
        seen.append(private() is not None)
        return (tangent, tangent)

    def general(defined, needed, has_history, saved, rest, tangents):
        saved.clear()
        return backward(tangents)

    inputs, y, saved = tuple(make_inputs(MUL)), torch.ones(4), torch.ones(4)
    private = weakref.ref(saved)
    _C.tie(made_of("Hasty", backward, general, (False,)), inputs, (y,), (saved,), ())
    del saved
    torch.autograd.grad(y.sum(), [inputs[i] for i in wanted], **options)
    assert seen == [alive]


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

    def backward(tangents):
        gradient = tangents[0] * 2
        places.append(gradient.data_ptr())
        return (gradient,)

    _C.tie(_C.Backward("Handed", backward, max, ()), (x,), (y,), (), ())
    y.backward(torch.ones(4))
    assert [x.grad.data_ptr()] == places


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

    expected = message(lambda: run(eager(program)))
    assert "modified by an inplace operation" in expected
    assert message(lambda: run(through_node(program, name=name))) == expected


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
    alone, = make_inputs(SINE)
    assert_same([x.grad], torch.autograd.grad(eager(SINE)(alone)[0].sum(), alone))


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


# --- errors


class OwnError(Exception):
    pass


def broken(*arguments):
    raise OwnError("mine")


@pytest.mark.parametrize("options", [{}, {"create_graph": True}])
def test_what_a_backward_raises_comes_out(options):
    x, w = make_inputs(MUL)
    y = torch.ones(4)
    _C.tie(_C.Backward("Broken", broken, broken, ()), (x, w), (y,), (), ())
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
        _C.tie(made_of("Wrong", *[lambda *_: result] * 2, ()), (x, w), (y,), (), ())
        with pytest.raises(TypeError) as caught:
            torch.autograd.grad(y.sum(), (x, w), **options)
        assert str(caught.value) == expected


def test_a_gradient_of_the_wrong_shape_is_torchs_error():
    x, w = make_inputs(MUL)
    y = torch.ones(4)
    _C.tie(_C.Backward("Shape", lambda _: (torch.ones(3), None), max, ()), (x, w), (y,), (), ())
    with pytest.raises(RuntimeError, match="Function Shape returned an invalid gradient at index 0 - got .3. but expected shape compatible with .4."):
        y.sum().backward()


@pytest.mark.parametrize("choice, expected", [
    (None, "Wrong: needs (function, read, released, kept), not None"),
    ((max, (True,), 0), "Wrong: needs (function, read, released, kept), not (<built-in function max>, (True,), 0)"),
    ((max, (True,), None, (True,)), "Wrong: needs (function, read, released, kept), not (<built-in function max>, (True,), None, (True,))"),
    ((max, (), 0, (True,)), "Wrong: needs 1 flags, not ()"),
    ((max, [True], 0, (True,)), "Wrong: needs 1 flags, not [True]"),
    ((max, (True,), 0, ()), "Wrong: needs 1 flags, not ()"),
    ((None, (True,), 0, (True,)), "'NoneType' object is not callable"),
])
def test_choices_of_the_wrong_kind_are_refused(choice, expected):
    x, w = make_inputs(MUL)
    y = torch.ones(4)
    _C.tie(_C.Backward("Wrong", max, lambda *_: choice, (True,)), (x, w), (y,), (torch.ones(4),), ())
    with pytest.raises(TypeError) as caught:
        torch.autograd.grad(y.sum(), x)
    assert str(caught.value) == expected


def test_where_there_is_no_function_for_all_gradients_one_is_chosen():
    """So something may be kept after the last backward through everything."""
    def choose(defined, needed, released, has_history):
        seen.append((defined, needed, released, has_history))
        return (lambda given: (given[0] * given[-1],) * 2), (True,), 1, (True,)

    x, w = make_inputs(MUL)
    y, seen = torch.ones(4), []
    saved = torch.full((4,), 2.0)
    alive = weakref.ref(saved)
    backward = _C.Backward("Keeps", None, choose, (False,))
    assert backward.whole is None
    _C.tie(backward, (x, w), (y,), (saved,), ())
    del saved
    for _ in range(2):
        assert [g.tolist() for g in torch.autograd.grad(y.sum(), (x, w))] == [[2] * 4] * 2
    assert seen == [((True,), (True, True), released, False) for released in (0, 1)] and alive() is not None
    del y
    assert alive() is None


@pytest.mark.parametrize("outside", [False, True])
def test_only_what_is_chosen_is_unpacked_and_only_what_is_not_kept_dies(outside):
    """Two saved tensors, of which each gradient reads one; the other one was written, or is gone."""
    def choose(defined, needed, released, has_history):
        seen.append(released)
        return (lambda given: (*(given[0] if flag else None for flag in needed),)), needed, released | 1, (needed[1], needed[0])

    x, w = make_inputs(MUL)
    y, seen = torch.ones(4), []
    saved = torch.full((4,), 2.0), torch.full((4,), 3.0)
    alive = list(map(weakref.ref, saved))
    _C.tie(_C.Backward("Some", max, choose, (outside, outside)), (x, w), (y,), saved, ())
    if outside:
        saved[1].add_(1)
    del saved
    assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [2] * 4
    assert all(each() is not None for each in alive)
    if outside:
        assert "modified by an inplace operation" in message(lambda: torch.autograd.grad(y.sum(), w))
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [2] * 4
    assert [each() is not None for each in alive] == [False, True]
    assert "second time" in message(lambda: torch.autograd.grad(y.sum(), x))
    assert seen == [0] * len(seen[:-1]) + [1]


SAVES_ONE = _C.Backward("P", max, max, (True,))
X = torch.ones(2, requires_grad=True)


@pytest.mark.parametrize("arguments, error, expected", [
    ((SAVES_ONE,), TypeError, "tie() takes 5 or 6 arguments, got 1"),
    ((None, (), (), (), ()), TypeError, "tie() takes a Backward, got None"),
    ((SAVES_ONE, [X], (), (X,), ()), TypeError, "P: inputs must be a tuple, not list"),
    ((SAVES_ONE, (1,), (), (X,), ()), TypeError, "P: inputs[0] is a int, not a tensor"),
    ((SAVES_ONE, (X,), (None,), (X,), ()), TypeError, "P: outputs[0] is a NoneType, not a tensor"),
    ((SAVES_ONE, (X,), (torch.ones(2), torch.ones(2, dtype=torch.int64)), (X,), ()), TypeError,
     "P: outputs[1] has dtype Long, which has no gradients"),
    ((SAVES_ONE, (X,), (torch.ones(2), X), (X,), ()), ValueError, "P: outputs[1] requires a gradient already"),
    ((SAVES_ONE, (X,), (), (None,), ()), TypeError, "P: saved[0] is a NoneType, not a tensor"),
    ((SAVES_ONE, (X,), (), (), ()), TypeError, "P: 0 saved tensors, its Backward has 1"),
    ((SAVES_ONE, (X,), (), (X,), []), TypeError, "P: extra must be a tuple, not list"),
    ((SAVES_ONE, (X,), (), (X,), (), []), TypeError, "P: history must be a tuple, not list"),
    ((SAVES_ONE, (X,), (torch.ones(4)[1:],), (X,), ()), ValueError, "P: outputs[0] is a view"),
    ((_C.Backward("P", max, max, (), (1, 2)), (X,), (torch.ones(2), torch.ones(2)), (), ()), TypeError,
     "P: 2 outputs, too few for the nodes of its Backward"),
])
def test_tie_refuses_what_it_cannot_tie(arguments, error, expected):
    with pytest.raises(error) as caught:
        _C.tie(*arguments)
    assert str(caught.value) == expected
    if len(arguments) == 5:  # and nothing was done to the outputs
        assert not any(y.requires_grad for y in arguments[2] if isinstance(y, torch.Tensor) and y is not X)


@pytest.mark.parametrize("arguments", [
    (), (1, max, max, ()), ("p", 1, max, ()), ("p", max, None, ()), ("p", max, max, [True]), ("p", max, max, (1,)),
    ("p", max, max, (), [1]), ("p", max, max, (), (0,)), ("p", max, max, (), (1.0,)), ("p", max, max, (), (1 << 70,)),
])
def test_what_is_no_backward_is_refused(arguments):
    with pytest.raises(TypeError):
        _C.Backward(*arguments)


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


def test_cycles_through_a_backward_are_found():
    class Mark:
        pass

    def cycle():
        mark = Mark()
        mark.backward = _C.Backward("Cyclic", lambda _: mark, max, ())
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


def test_threads_may_share_a_backward_and_a_graph():
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
    _C.tie(_C.Backward("Broken", broken, broken, ()), tuple(make_inputs(MUL)), (y,), (), ())
    errors = run_threads(1, lambda number: y.sum().backward())
    assert [type(error) for error in errors] == [OwnError]


def test_a_long_chain_dies_without_recursion(child):
    child("""
        from codegen import _C
        backward = _C.Backward("Link", tuple, max, ())
        y = x = torch.ones(1, requires_grad=True)
        for _ in range(200_000):
            z = torch.ones(1)
            _C.tie(backward, (y,), (z,), (), ())
            y = z
        y.backward()
        assert x.grad.item() == 1
        del y, z
    """)


def test_a_node_may_outlive_the_interpreter(child):
    child("""
        from codegen import _C
        x, y = torch.ones(2, requires_grad=True), torch.ones(2)
        _C.tie(_C.Backward("Last", lambda given: (given[2],), max, (False,)), (x,), (y,), (torch.ones(2),), ([],))
        y.sum().backward(retain_graph=True)
        torch.leaked = y
    """)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="its backward runs on an engine thread of a GPU")
def test_errors_come_out_of_an_engine_thread():
    x, y = torch.ones(4, device="cuda", requires_grad=True), torch.ones(4, device="cuda")
    _C.tie(_C.Backward("Broken", broken, broken, ()), (x,), (y,), (), ())
    with pytest.raises(OwnError) as caught:
        y.sum().backward()
    assert "broken" in [frame.name for frame in traceback.extract_tb(caught.tb)]


def with_history(seen, num_history=1):
    def general(defined, needed, has_history, saved, rest, tangents):
        assert has_history
        *history, output = rest
        seen.append(tuple(history))
        return (tangents[0] * history[0],)

    return made_of("Historic", tuple, general, (), num_history)


def test_a_history_comes_back_to_the_gradients_that_have_one():
    x, seen = torch.tensor([2.0, 3.0], requires_grad=True), []
    y, word = torch.ones(2), object()
    _C.tie(with_history(seen, 2), (x,), (y,), (), (), (x, word))
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert seen == [(x, word)] and gradient.tolist() == [2, 3]
    assert torch.autograd.grad(gradient.sum(), x)[0].tolist() == [1, 1]


def test_gradients_may_depend_on_the_outputs():
    def general(defined, needed, has_history, saved, rest, tangents):
        (output,) = rest
        assert output.shape == (2, 1) and output.grad_fn.name() == "Own"
        return (tangents[0][:, 0] * output[:, 0],)

    x, y = torch.tensor([2.0, 3.0], requires_grad=True), torch.ones(2, 1)
    _C.tie(made_of("Own", lambda tangents: (tangents[0][:, 0],), general, ()), (x,), (y,), (), ())
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert [g.tolist() for g in torch.autograd.grad(gradient.sum(), (x, y))] == [[1, 1], [[1], [1]]]


def test_the_last_backward_may_have_a_history():
    x, seen = torch.tensor([2.0, 3.0], requires_grad=True), []
    y = torch.ones(2)
    _C.tie(with_history(seen), (x,), (y,), (), (), (x,))
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True, retain_graph=False)
    assert gradient.tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_a_written_history_is_noticed_and_only_where_it_is_needed():
    x = torch.ones(2, requires_grad=True)
    y, seen = torch.ones(2), []
    _C.tie(with_history(seen), (x,), (y,), (), (), (x,))
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [1, 1] and not seen


def test_below_autograd_nothing_is_a_view_and_no_write_counts():
    x = torch.ones(4, requires_grad=True)
    view, version = _C.below(lambda t: (t[1:], t.detach().add_(1)._version), x)
    assert not view._is_view() and view.grad_fn is None and version == 0 == x._version
    with pytest.raises(ZeroDivisionError):
        _C.below(lambda: 1 / 0)
    with pytest.raises(TypeError, match="takes a function"):
        _C.below()
