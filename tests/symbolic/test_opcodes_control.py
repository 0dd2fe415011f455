"""Jumps: conditions on what is known, loops, assertions.

PYTEST_DONT_REWRITE: the assertions of these programs are part of what is tested.
"""
import pytest
import torch

from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


@same_as_eager(graphs=1)
def test_loop_carried_add(x):
    for i in range(3):
        x = x + i
    return x


@same_as_eager(graphs=1)
def test_while_with_a_counter(x):
    n = 0
    while n < 4:
        x = x * 2
        n += 1
    return x, n


@same_as_eager(graphs=1)
def test_break_and_continue(x):
    for i in range(10):
        if i == 2:
            continue
        if i == 5:
            break
        x = x + i
    return x, i


@same_as_eager(graphs=1)
def test_loop_else(x):
    for i in range(3):
        if i == 7:
            break
    else:
        x = x + 100
    while i:
        i -= 1
        if i == 1:
            break
    else:
        x = x - 100
    return x


@same_as_eager(graphs=1)
def test_nested_loops(x):
    for i in range(3):
        for j in range(i):
            if j == 1:
                break
            x = x + i * j
        else:
            x = x * 2
    return x


@same_as_eager(graphs=1)
def test_while_true_with_return(x):
    n = 0
    while True:
        n += 1
        x = x + n
        if n > 3:
            return x


@same_as_eager(graphs=1)
def test_elif_chain(x):
    if x.dim() == 1:
        y = x + 1
    elif x.dim() == 2 and x.shape[0] == 5:
        y = x + 5
    elif x.dim() == 2:
        y = x + 2
    else:
        y = x
    return y


@pytest.mark.parametrize("flag", [True, False, None, 0, 1, "", "a", [], [0], {}, {1: 2}, (), 0.0])
def test_truth_of_an_argument(flag):
    def program(x, flag):
        if flag:
            return x + 1
        if not flag and flag is not None:
            return x + 2
        return x + 3
    check(program, X, flag, graphs=1, changed=[(X, True), (X, None), (X, [])])


@pytest.mark.parametrize("flag", [True, None, 3])
def test_is_none(flag):
    def program(x, mask):
        if mask is None:
            return x * 2
        return x * 3 if mask is not None else x
    check(program, X, flag, graphs=1, changed=[(X, Y), (X, None)])


@same_as_eager(graphs=1)
def test_optional_tensor(x, mask=None):
    if mask is not None:
        x = x * mask
    return x + 1


@same_as_eager(graphs=1)
def test_condition_on_shape_dtype_device(x):
    if x.size(0) > 2 and x.dtype is torch.float32 and x.device.type == "cpu":
        x = x + 1
    if x.dtype in (torch.float16, torch.bfloat16) or x.requires_grad:
        x = x + 2
    return x * 2 if x.is_contiguous() else x


@same_as_eager(graphs=1)
def test_short_circuit_does_not_run_the_rest(x):
    calls = []

    def note(value):
        calls.append(value)
        return value
    a = note(0) and note(1)
    b = note(2) or note(3)
    c = note(0) or note("") or note(None)
    return x + 1, a, b, c, calls


@same_as_eager(graphs=1)
def test_assert_that_holds(x):
    assert x.dim() == 2, "two dims"
    assert isinstance(x, torch.Tensor)
    return x + 1


@same_as_eager
def test_assert_that_fails(x):
    y = x + 1
    assert y.dim() == 7, f"has {y.dim()} dims"
    return y


@same_as_eager
def test_assert_that_fails_without_a_message(x):
    y = x + 1
    assert not y.shape
    return y


@same_as_eager(graphs=1)
def test_loop_over_tensor_list(x, y):
    total = 0
    for t in [x, y, x]:
        total = total + t
    return total


@same_as_eager(graphs=1)
def test_loop_over_zip_and_enumerate(x, y):
    out = []
    for i, (a, b) in enumerate(zip([x, y], [y, x]), start=1):
        out.append(a * i - b)
    return out


@same_as_eager(graphs=1)
def test_loop_over_dict_items(x):
    for name, k in {"a": 1, "b": 2}.items():
        if name != "a":
            x = x * k
    return x


@same_as_eager(graphs=1)
def test_loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row * row.sum()
    return total


@same_as_eager(graphs=1)
def test_loop_with_a_list_that_grows(x):
    todo = [3]
    done = []
    while todo:
        n = todo.pop()
        done.append(x + n)
        if n > 0:
            todo.append(n - 1)
    return done


@same_as_eager(graphs=1)
def test_loop_over_list_that_grows_while_iterated(x):
    xs = [1]
    for n in xs:
        if n < 4:
            xs.append(n + 1)
    return xs, x + sum(xs)


@same_as_eager(graphs=1)
def test_long_loop_is_unrolled(x):
    for i in range(200):
        x = x + i if i % 2 else x - i
    return x


@same_as_eager(graphs=1)
def test_early_return_in_loop_in_callee(x):
    def find(t):
        for i in range(5):
            for j in range(5):
                if i * j == 6:
                    return t * i + j
        return t
    return find(x)


@same_as_eager(graphs=1)
def test_ternaries_in_arguments(x):
    return torch.add(x if x.dim() else -x, 1 if x.shape[0] > 1 else 2, alpha=3 if x.is_floating_point() else 1)


@same_as_eager(graphs=1)
def test_conditions_on_strings_and_types(x):
    out = []
    for mode in ("mean", "sum", "none"):
        if mode == "mean":
            out.append(x.mean())
        elif mode.startswith("s"):
            out.append(x.sum())
        else:
            out.append(x)
    return out


@same_as_eager(graphs=1)
def test_loop_variable_is_kept(x):
    for i in range(3):
        pass
    for j in []:
        pass
    return x + i


@same_as_eager
def test_loop_variable_of_an_empty_loop_is_unbound(x):
    y = x + 1
    for j in []:
        pass
    return y + j


@same_as_eager
def test_not_iterable(x):
    y = x + 1
    for i in 5:
        y = y + i
    return y


@same_as_eager
def test_iteration_over_a_0d_tensor(x):
    for i in x.sum():
        x = x + i
    return x
