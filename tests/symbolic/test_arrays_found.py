"""Programs of arrays and tensors over one memory, of sizes and numbers that change, found by trying."""

import copy

import numpy as np
import pytest
import torch

import jit
from tests.differential import COUNTING, check, compile_with_jit, differentiated_ahead, execute

X = torch.arange(20.0).reshape(4, 5)


def test_items():
    def f(x):
        return np.array([row.sum().item() for row in x]) + 1

    check(f, X.clone(), graphs=1)


def test_sizes():
    def f(x):
        a = x.numpy()
        return a.sum(0) * a.shape[0], np.zeros(x.shape[0]) + a[:, 0], x * 2

    check(f, torch.ones(4, 5), changed=[(torch.ones(6, 5),), (torch.ones(7, 5),), (torch.ones(8, 5),)], graphs=1)


def test_sizes2():
    def f(x, a):
        return a * x.shape[0], np.arange(x.shape[0]), a.mean()

    check(
        f,
        torch.ones(4, 5),
        np.ones(4),
        changed=[(torch.ones(6, 5), np.ones(5)), (torch.ones(7, 5), np.ones(8)), (torch.ones(8, 5), np.ones(8))],
    )


def test_ints():
    def f(x, n):
        return x + n, np.arange(4) * n, np.ones(3) * n, np.zeros(n)

    check(f, torch.ones(4, 5), 3, changed=[(torch.ones(6, 5), 5), (torch.ones(7, 5), 8), (torch.ones(8, 5), 9)])


def test_floats():
    def f(x, s):
        return x + s, np.arange(4) * s, np.ones(3, np.float32) * s, np.where(np.ones(3) > 0, s, 2)

    check(f, torch.ones(4, 5), 3.5, changed=[(torch.ones(6, 5), 0.1), (torch.ones(7, 5), 0.2), (torch.ones(8, 5), 0.3)])


def test_alias1():
    def f(x):
        y = x * 2
        a = y.numpy()
        y.add_(1)
        b = a + 1
        a *= 2
        return y, b

    check(f, X.clone(), graphs=1)


def test_alias2():
    def f(x):
        y = (x * 2).t()[1:]
        a = y.numpy()
        a[0] = 5
        return y, a, a.sum()

    check(f, X.clone())


def test_alias3():
    def f(x):
        a = np.zeros((4, 5), np.float32)
        t_ = torch.from_numpy(a)
        t_ += x
        return t_, 1

    check(f, X.clone(), graphs=1)


def test_alias4():
    def f(x):
        a = np.zeros((4, 5), np.float32)
        t_ = torch.from_numpy(a)
        t_ += x
        return a, a.sum()

    check(f, X.clone())


def test_alias5():
    def f(x):
        a = np.zeros((4, 5), np.float32)
        t_ = torch.from_numpy(a)
        t_ += x
        return a, t_

    check(f, X.clone(), then=lambda r, x: (r[0].__setitem__(0, 9), r))


def test_backwards_write():
    def f(x):
        a = x.numpy()[::-1]
        x.add_(1)
        return a + 1, a

    check(f, X.clone())


def test_backwards_write2():
    def f(x):
        a = x.numpy()[::-1]
        b = a + 1
        x.add_(1)
        return b, a

    check(f, X.clone())


def test_scalar_copy():
    def f(x):
        a = x.numpy()
        b = a[0, 0]
        a[0, 0] = 9
        return b, a[0, 0], x + 1

    check(f, X.clone())


def test_stored():
    def f(x, l):
        l.append(x.numpy() + 1)
        l.append(np.float32(2))
        return x + 1

    check(f, X.clone(), [])


def test_module():
    class M(torch.nn.Module):
        def __init__(s):
            super().__init__()
            s.l = torch.nn.Linear(5, 3)

        def forward(s, x):
            return s.l(torch.from_numpy(x.astype(np.float32)))

    check(M(), np.ones((2, 5)), changed=[(np.ones((3, 5)),)])


def test_grad():
    def f(x):
        x = x.requires_grad_()
        y = (x * 2).detach().numpy()
        return x * torch.from_numpy(y)

    check(f, X.clone())


def test_train():
    def f(w, a):
        loss = ((w @ torch.from_numpy(a)) ** 2).sum()
        loss.backward()
        return loss.item(), w.grad.numpy().copy()

    check(f, torch.ones(3, 4, requires_grad=True), np.ones((4, 2), np.float32), tolerance=(1e-5, 1e-5))


def test_moved():
    def f(x):
        with torch.no_grad():
            a = x.numpy()
        x.data = x.data * 2
        return a + 1, a

    check(f, X.clone())


def test_resize():
    def f(x):
        a = x.numpy()
        x.resize_(2, 2)
        return a.sum()

    check(f, X.clone())


def test_reshape_write():
    def f(a, x):
        b = a.reshape(-1)
        b[0] = 3
        c = a.T.copy()
        c[0] = 8
        return a, b, c, x + 1

    check(f, np.ones((3, 4)), X.clone())


def test_reshape_copy_write():
    def f(a, x):
        b = a.T.reshape(-1)
        b[0] = 3
        return a, b, x + 1

    check(f, np.ones((3, 4)), X.clone())


def test_loop():
    def f(a, x):
        for i in range(3):
            a = a + i
            a[i % 2] *= 2
        return a, x * a.sum()

    check(f, np.ones((3, 4)), X.clone())


def test_caught():
    def f(x, b):
        try:
            c = b + np.ones(7)
        except ValueError as e:
            return x + 1, str(e)

    check(f, X.clone(), np.ones(3))


def test_caught2():
    def f(x, b):
        i = np.array([0, 5])
        try:
            return x + 1, b[i]
        except IndexError as e:
            return str(e)

    check(f, X.clone(), np.ones(3))


def test_item():
    def f(x, b):
        return x + 1, b.shape, b[0].item(), int(b[0]), float(b[1]) + 1, b.dtype.type(3)

    check(f, X.clone(), np.array([1.5, 2]), graphs=1)


def test_idx():
    def f(x, b, n):
        return x + 1, b[n], b[:n], b[-n:]

    check(f, X.clone(), np.arange(5.0), 2, changed=[(X.clone(), np.arange(5.0), 3), (X.clone(), np.arange(5.0), 1)])


def test_mix():
    def f(x):
        return (
            x.numpy().astype(np.float64).sum(),
            x.int().numpy() // 2,
            (x.int().numpy() % 3) * 2,
            x.bool().numpy() & True,
        )

    check(f, X.clone(), graphs=1, tolerance=(1e-6, 1e-6))


def test_scalar_tensor():
    def f(x):
        return (
            np.float64(2) * x,
            x / np.float64(3),
            x ** np.int64(2),
            x + np.float32(1),
            np.float64(2) - x,
            x > np.float32(1),
            x == np.int64(2),
        )

    check(f, X.clone(), graphs=1)


def test_scalar_tensor_int():
    def f(x):
        return np.float64(2) * x, x / np.float32(3), x + np.float32(1.5)

    check(f, torch.arange(4), graphs=1)


def test_np64_arg():
    def f(x, s):
        return s * x, x / s, s + 1, s * np.float32(2)

    check(
        f,
        X.clone(),
        np.float64(2.5),
        changed=[(X.clone(), np.float64(0.1)), (X.clone(), np.float32(0.1)), (X.clone(), np.int64(3))],
    )


def test_np32_arg():
    def f(x, s):
        return s * x, x / s, s + 1, s * np.float32(2)

    check(
        f,
        X.clone(),
        np.float32(2.5),
        changed=[(X.clone(), np.float64(0.1)), (X.clone(), np.float32(0.1)), (X.clone(), np.int64(3))],
    )


def test_iter():
    def f(x):
        a = x.numpy()
        return [v for v in a[0]], list(map(float, a[1])), sum(a[0].tolist())

    check(f, X.clone())


def test_a_b_same():
    def f(x, a, b):
        a[:] = b
        return a + 1, x

    check(
        f,
        X.clone(),
        np.ones(3),
        np.zeros(3),
        changed=[
            lambda: (lambda q: (X.clone(), q, q))(np.arange(3.0)),
            lambda: (lambda q: (X.clone(), q[:3], q[2:]))(np.arange(5.0)),
        ],
    )


def test_out_of_place_inf():
    check(lambda x: x.numpy() / np.inf, X.clone())


def test_write_check():
    def f(x, a):
        a += 1
        return 1 / a, x + 1

    check(f, X.clone(), np.array([-1.0, 2]), changed=[(X.clone(), np.array([1.0, 2]))])


def test_write_check2():
    def f(x, a):
        a += 1
        b = 1 / a
        a[0] = 5
        return b, x + 1

    check(f, X.clone(), np.array([1.0, 2]), changed=[(X.clone(), np.array([-1.0, 2]))])


def test_write_check3():
    def f(x, a):
        a /= a
        return x + 1

    check(f, X.clone(), np.array([1.0, 2]), changed=[(X.clone(), np.array([0.0, 2]))])


def test_strides_of_dimensions_of_one():
    def f(x, a):
        b = np.atleast_2d(a[::2])
        return x + 1, np.zeros_like(b), b + 1, np.ones((1, 3, 1)), b.T.copy(), np.expand_dims(a, -1) * 2, b.sum(0, keepdims=True)

    check(f, X.clone(), np.arange(4.0), graphs=1)


def test_tensors_in_the_memory_of_one_array():
    def make():
        x = torch.arange(12.0).reshape(3, 4)
        return x, torch.from_numpy(x.numpy()[1:]), torch.from_numpy(x.numpy())

    def f(x, t, u):
        t.add_(1)
        y = x * 2
        u.mul_(3)
        return y, x + t.sum(), u

    check(f, make=make, backend=differentiated_ahead)
    apart = lambda: (torch.ones(3, 4), torch.from_numpy(np.ones((2, 4), np.float32)), torch.ones(3, 4))  # noqa: E731
    check(f, make=apart, changed=[make], backend=differentiated_ahead)


def test_a_tensor_of_an_array_beside_the_tensor_that_it_is_of():
    def make():
        x = torch.arange(12.0).reshape(3, 4)
        return x, x.numpy()[:2], x.numpy().T

    def f(x, a, b):
        x.mul_(2)
        a[a > 2] = 0
        v = torch.from_numpy(a).numpy()
        v.fill(3)
        torch.from_numpy(b).add_(1)
        return x + 1, v, b

    check(f, make=make, backend=differentiated_ahead)


def test_assertions_about_arrays():
    def f(x, a):
        if not (a > 0).all():
            raise ValueError("too small")
        if a.max() > 100:
            raise ValueError(f"too large: {a.max()}")
        return x + 1, a * 2

    good, small, large = np.arange(1.0, 4), np.arange(3.0), np.arange(99.0, 102)
    check(f, X.clone(), good, graphs=1, changed=[(X.clone(), small), (X.clone(), large)])


def test_copies_by_others():
    def f(x, a):
        b = a + 1
        return x + 1, copy.copy(b), copy.deepcopy([b, b]), copy.copy(a), {"a": b}, (b, b)

    check(f, X.clone(), np.arange(3.0))


def test_in_containers():
    def f(x, a):
        kept = {"sum": a.sum(), "rows": [row * 2 for row in a], "shape": a.shape}
        kept["rows"][0] += 1
        return x + 1, kept, any(row is a for row in kept["rows"]), a is None

    check(f, X.clone(), np.arange(6.0).reshape(2, 3), graphs=1)


def test_in_inference_mode_and_without_gradients():
    def f(x, a):
        with torch.no_grad():
            b = (x * 2).numpy() + 1
        with torch.inference_mode():
            c = torch.from_numpy(a) * 2
            d = c.numpy()
        return b, d + 1, x + 1

    check(f, X.clone(), np.arange(6.0).reshape(2, 3))


def test_gradients_stop_at_arrays():
    def f(x, w):
        loss = (torch.from_numpy(x).float() @ w).pow(2).sum()
        loss.backward()
        return float(loss), w.grad.norm().item(), np.float32(loss.item()), loss.detach().numpy()

    check(f, np.ones((2, 3)), torch.ones(3, 2, requires_grad=True), tolerance=(1e-5, 1e-5))


def test_another_default_dtype_and_device():
    def f(x, a):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return x + 1, a * 2, np.ones(3) + 1, np.zeros(5000), torch.tensor(np.float32(2)), torch.from_numpy(a) * 3
        finally:
            torch.set_default_dtype(before)

    check(f, X.clone(), np.arange(6, dtype=np.float32))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inside_of_a_mode(mode):
    def f(x, a):
        t = torch.from_numpy(a)
        return t * 2, t, x.numpy() + 1, (x * 2).numpy(), np.ones(3) * 2, t.is_inference(), torch.from_numpy(a + 1)

    x, a = X.clone(), np.arange(3.0)
    with mode():
        wanted = f(x, a)
        got = compile_with_jit(f, backend="eager", fullgraph=COUNTING)(x, a)
    for one, other in zip(wanted, got, strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.equal(one, other) and one.is_inference() == other.is_inference()
        else:
            assert np.array_equal(one, other)


def test_a_known_array_that_becomes_a_tensor_in_inference_mode():
    def f(x):
        a = np.arange(3.0)
        with torch.inference_mode():
            t = torch.from_numpy(a)
            u = t * 2
        a += 1
        return x + 1, t.is_inference(), u + 1, a

    check(f, X.clone())


def test_number_in_a_continuation_under_autocast():
    """It came in there, and nothing is asked of it: it is no input of a graph, which it could not be under autocast."""
    def program(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = torch.as_tensor(np.arange(12.0).reshape(3, 4), dtype=torch.float32).detach().numpy().max()
            print(found)
            return found, x + 1

    check(program, torch.ones(3))


@pytest.mark.parametrize("program", [
    lambda x, a: torch.from_numpy(a[1:]),
    lambda x, a: torch.from_numpy(np.arange(12.0).reshape(3, 4)[1:])[:, 1:],
    lambda x, a: (torch.from_numpy(x.numpy()), x + 1),
    lambda x, a: torch.from_numpy((x * 2).numpy()),
    lambda x, a: (torch.from_numpy(a), torch.from_numpy(a)),
    lambda x, a: torch.from_numpy(a[1:]).as_strided((2,), (1,), 0) + 1,
    lambda x, a: x + torch.from_numpy(a[1:]).storage_offset(),
    lambda x, a: torch.as_tensor(a.argsort(kind="stable")[0]),
    lambda x, a: (torch.as_tensor(a[0]), torch.arange(3).clamp(1, 4).sum().item()),
])  # fmt: skip
def test_a_tensor_of_an_array_has_a_storage_of_its_own(program):
    check(program, torch.ones(3, 4), np.arange(12.0).reshape(3, 4))


def test_a_tensor_of_a_part_of_an_array_that_stays_inside():
    def program(x, a):
        for at in range(0, 3):
            x = x + torch.from_numpy(a[at : at + 1]) * 2
        return x

    check(program, torch.ones(1, 4), np.arange(12.0).reshape(3, 4), graphs=1)


@pytest.mark.parametrize("made", ["x.numpy()", "x.numpy() * 2", "x.numpy().sum()", "(x * 2).numpy()"])
def test_modes_that_begin_later_do_not_see_what_an_array_is_made_by(made):
    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    seen = []
    scope = {"np": np, "Watch": Watch, "jit": jit}
    execute(f"def program(x):\n    a = {made}\n    with Watch():\n        jit.graph_break()\n    return a + 1", scope)
    check(scope["program"], X[0].clone())
    assert not seen


def test_einsum_may_give_a_view():
    def program(x, order):
        a = x.numpy()
        found = np.einsum(order, a)
        shared = np.shares_memory(found, a)
        if found.flags.writeable:
            found[...] = 7
        return found, a, shared

    x = torch.arange(4.0).reshape(2, 2)
    check(program, x, "ii->i", changed=[(x.clone(), order) for order in ("ij->ji", "ij->ij", "ij->j", "ij")])


def test_histograms_that_choose_their_edges():
    check(lambda x: np.histogram(x.numpy(), "sqrt"), torch.arange(5.0).double(), changed=[torch.arange(5.0).double() - 9])


def test_complex_numbers_are_no_real_ones():
    check(lambda x: (np.round(x.numpy()), x.numpy().round(1), x.numpy().var(), np.std(x.numpy(), ddof=1)), torch.arange(4.0) * (1.26 + 0.74j))


@pytest.mark.parametrize("value", ["2.7", "a[0, 1]", "np.array(3)", "np.array([3])", "[1, 2, 3]", "a[0]", "np.arange(3)", "()"])
def test_fill_takes_no_sequence(value):
    scope = {"np": np}
    exec(f"def program(x):\n    a = x.numpy()\n    a.fill({value})\n    return a, x + 1", scope)
    check(scope["program"], torch.tensor([[2, 1, 0], [0, 3, 1]]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64])
def test_degrees_and_numbers_rounded(dtype):
    def program(x):
        a = x.numpy()
        found = [np.rint(a)]
        if a.dtype.kind == "f":
            found += [np.degrees(a), np.rad2deg(a), np.radians(a), np.floor(a)]
        return found, a + 1

    check(program, torch.tensor([-2.5, -1.3, -0.0, 0.5, 1e-3, 2.5, 77.7]).to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
@pytest.mark.parametrize("bounds", ["-1, 2", "-500, 50", "0, 500", "300, 400", "None, 300", "-1, None", "max=300"])
def test_bounds_beyond_all_numbers_of_a_type(dtype, bounds):
    scope = {"np": np}
    exec(f"def program(x):\n    a = x.numpy()\n    return np.clip(a, {bounds}), a.clip({bounds}), a + 1", scope)
    x = torch.tensor([0, 1, 77, 127]).to(dtype)
    check(scope["program"], x)


def test_zeros_of_complex_numbers_have_signs():
    x = torch.tensor([1.5, -0.0, 0.0, -3.0] * 5) + 0j
    check(lambda x: (-x.numpy(), np.negative(x.numpy()[::2]), x.numpy() + 1), x)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.float32, torch.complex64])
def test_conjugates_of_real_numbers(dtype):
    def program(x):
        a = x.numpy()
        return a.conj() is a, a.conjugate() is a, a.conj(), np.conj(a), a[0].conj(), a.sum()

    check(program, torch.tensor([1, 0, 3]).to(dtype))


def test_numbers_to_negative_powers():
    def program(x, number):
        a = x.numpy()
        try:
            return number ** a, a + 1
        except ValueError as error:
            return str(error)

    for number in (2, 2.0, np.int64(2), True):
        check(program, torch.tensor([1, 0, -3]), number)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", [(1,), (4,), (1, 1), (4, 1), (2, 2), (2, 1, 2)])
def test_products_with_numbers_as_blas_has_them(dtype, shape):
    x = torch.tensor([-0.0, 1.0, 0.0, -2.0][: torch.Size(shape).numel()]).reshape(shape).to(dtype)
    check(lambda x: (np.dot(x.numpy(), 2.0), np.dot(-1.0, x.numpy()), np.inner(x.numpy(), 3)), x)


def test_what_is_padded_with_wraps():
    check(lambda x: (np.pad(x.numpy(), 1, constant_values=-1), x.numpy() + 1), torch.arange(4).to(torch.uint8))


@pytest.mark.parametrize("power", ["2", "2.0", "True", "np.float32(2)", "np.array(2)", "[1, 2]", "3", "-1"])
def test_powers_of_complex_numbers(power):
    """Zero is zero, and whole powers are products."""
    scope = {"np": np}
    exec(f"def program(x):\n    a = x.numpy()\n    b = a ** {power}\n    a **= {power}\n    return a, b", scope)
    check(scope["program"], torch.tensor([-0.0, 2.5]) + 0j)


@pytest.mark.parametrize("drawn", ["a.all()", "a.any()", "(a > 7).all()", "a[0, 0] > 4", "a[0, 0]", "a", "a[:0]", "np.random.choice([0, 1])"])
def test_the_truth_of_what_is_drawn(drawn):
    scope = {"np": np}
    exec(f"""def program(x, seed):
        np.random.seed(seed)
        a = np.random.randint(0, 9, (3, 4))
        x[1] += 2.5
        try:
            return (1 if {drawn} else 2), not {drawn}, {drawn} and 3, x + 1
        except ValueError as error:
            return str(error), x + 1""", scope)
    check(scope["program"], X[0].clone(), 0, changed=[(X[0].clone(), seed) for seed in (1, 2, 3)])
