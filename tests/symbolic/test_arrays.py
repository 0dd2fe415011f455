"""Arrays and numbers of numpy beside tensors, in one graph: what comes in, what is computed, what leaves the frame."""
import math
import operator

import numpy as np
import pytest
import torch

from tests.differential import check

CLOSE = (1e-6, 1e-6)
DTYPES = "bool uint8 int8 int32 int64 float16 float32 float64".split()


def samples(dtype, shape=(3, 4), seed=0):
    values = np.random.RandomState(seed).randint(1, 5, shape) + np.random.RandomState(seed + 1).rand(*shape).round(2)
    return values.astype(dtype)


# --- between tensors and arrays ---------------------------------------------------------------------------------------
def numpy_of_a_tensor(x):
    return x.numpy() * 2


def numpy_returned(x):
    a = x.numpy()
    return a, a.shape, a.ndim, a.size, a.dtype, a.strides, a.nbytes


def tensor_of_an_array(x):
    return x + torch.from_numpy(np.arange(4)), torch.as_tensor(np.ones(4, np.float32)) * x


def copied_tensor(x):
    a = x.numpy() + 1
    t = torch.tensor(a)
    t += 1
    return a, t, torch.tensor(a, dtype=torch.float64)


def there_and_back(x):
    y = torch.from_numpy(np.sqrt(np.abs(x.numpy())))
    return y.sum() + x


def array_in_the_middle(x):
    h = torch.relu(x)
    a = h.numpy()
    return torch.from_numpy(a.T @ a) * 2


def asarray_of_a_tensor(x):
    return np.asarray(x) + 1


def same_array(x):
    a = x.numpy()
    return np.asarray(a) is a, a is a, a is np.array(a), isinstance(a, np.ndarray)


def views(x):
    a = x.numpy()
    return a.T, a[1:], a.reshape(-1), a[:, 0], a[None], a.swapaxes(0, 1), a[..., ::2], np.expand_dims(a, 0), a.squeeze()


def backwards(x):
    a = x.numpy()
    return a[::-1], a[:, ::-1] + 1, np.flip(a, 0) * 2, a[2:0:-1]


def views_of_new_arrays(x):
    a = x.numpy() + 1
    b = a[1:]
    return a, b, b.T, a.reshape(2, 6), a.T.reshape(-1), a.T.ravel()


def in_memory_order(x):
    a = x.numpy()
    return a.T + 1, a.T * a.T, np.sqrt(a.T * a.T), a.T.copy(), np.array(a.T), a.T.flatten(), a[:, ::2] + 1, a.T[::2] - 1


@pytest.mark.parametrize("program", [
    numpy_of_a_tensor, numpy_returned, tensor_of_an_array, copied_tensor, there_and_back, array_in_the_middle,
    asarray_of_a_tensor, same_array, views, backwards, views_of_new_arrays, in_memory_order,
])
def test_tensors_and_arrays(program):
    x = torch.arange(12.0).reshape(3, 4) - 5
    check(program, x, graphs=1, changed=[(x * 3 + 1,)], tolerance=CLOSE)


def test_a_view_leaves_with_the_array_that_it_is_of():
    def program(x):
        a = x.numpy() + 1
        return a, a[1:]

    def then(result, x):
        whole, part = result
        part[:] = -1
        return whole, part.base is whole, whole.flags.owndata, part.flags.owndata, whole.base is None

    check(program, torch.ones(3, 4), graphs=1, then=then)


def test_an_array_is_the_memory_of_its_tensor():
    def program(x):
        y = x * 2
        return y, y.numpy(), x.numpy()

    def then(result, x):
        y, a, b = result
        a[0] = 7
        b[1] = 8
        return y, x, a.flags.owndata, a.flags.writeable

    check(program, torch.ones(3, 4), graphs=1, then=then)


# --- what comes in ----------------------------------------------------------------------------------------------------
TABLE = np.arange(4, dtype=np.float32)
SCALE = np.float32(0.1)
COUNT = np.int64(3)


class Holder:
    def __init__(self):
        self.weights = np.linspace(0, 1, 4).astype(np.float32)


def argument(x, a):
    return x * 2, a + 1, a * a, a, a.mean()


def of_a_global(x, a):
    return torch.from_numpy(TABLE * 2) + x, a * SCALE, a * COUNT


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [argument, of_a_global])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_come_in(program, dtype):
    a = samples(dtype)
    check(program, torch.ones(4), a, graphs=1, tolerance=CLOSE,
          changed=[(torch.ones(4), samples("float64")), (torch.ones(4), samples(dtype, (5, 4))), (torch.ones(4), a.T[::2])])


def test_an_attribute():
    def program(x, holder):
        return x * torch.from_numpy(holder.weights), holder.weights.sum()

    check(program, torch.ones(4), Holder(), graphs=1, tolerance=CLOSE)


@pytest.mark.parametrize("kind", ["read-only", "backwards", "swapped", "text", "objects", "matrix", "masked", "uint16"])
def test_arrays_that_torch_has_no_tensor_for(kind):
    def made():
        a = np.arange(6.0).reshape(2, 3)
        a = {
            "backwards": a[::-1], "swapped": a.astype(">f8"), "text": a.astype(str), "objects": a.astype(object),
            "matrix": np.matrix(a), "masked": np.ma.masked_array(a, a > 2), "uint16": a.astype("uint16"),
        }.get(kind, a)
        a.flags.writeable = kind != "read-only"
        return torch.ones(3), a

    def program(x, a):
        y = x + 1
        return y * 2, a if kind == "text" else a * 2

    check(program, make=made)


def test_one_array_then_others():
    def program(x, a):
        return x + a.shape[0], np.add(a, 1)

    check(program, torch.ones(2), np.ones((2, 3)), graphs=1,
          changed=[(torch.ones(2), np.ones((3, 2))), (torch.ones(2), np.ones(4, np.int8)), (torch.ones(2), np.ones(4))])


# --- dtypes -----------------------------------------------------------------------------------------------------------
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.ge, operator.eq, operator.ne]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", [*DTYPES, 2, 2.5, True, np.float64(2.5), np.float32(0.1), np.int8(3)], ids=str)
def test_operators_of_dtypes(dtype, other):
    a, b = samples(dtype), samples(other, seed=5) if isinstance(other, str) else other
    operators = [op for op in OPERATORS if _runs(op, a, b) and _runs(op, b, a)]

    def program(x, a, b):
        return x + 1, [op(a, b) for op in operators], [op(b, a) for op in operators if op is not operator.eq]

    if not isinstance(other, str):
        constant = b

        def program(x, a, b):
            return x + 1, [op(a, constant) for op in operators], [op(constant, a) for op in operators]

    check(program, torch.ones(1), a, b, graphs=1)


def _runs(op, a, b):
    try:
        op(a, b)
    except TypeError:
        return False
    return True


EXACT = """square absolute negative sign floor ceil trunc rint isnan isfinite isinf signbit logical_not positive
    maximum minimum fmax fmin copysign logical_and logical_or logical_xor floor_divide remainder fmod add subtract multiply
    true_divide less equal greater_equal""".split()
CLOSE_ONES = """sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arctan sinh cosh tanh arcsinh hypot arctan2 power logaddexp
    deg2rad rad2deg reciprocal""".split()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*EXACT, *CLOSE_ONES])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "float16"])
def test_functions(name, dtype):
    function = getattr(np, name)
    values = np.array([-3.5, -1.25, -0.0, 0.0, 0.3, 1.0, 2.5, 1e-3, 17.125, 40.0]).astype(dtype)
    if name in ("sqrt", "log", "log2", "log10", "log1p", "power", "reciprocal") and dtype != "int32":
        values = np.abs(values) + np.array(0.5, dtype)
    others = np.array([2.0, -3.0, 4.0, 5.0, 0.75, 1.0, -2.0, 3.0, 3.0, -7.5]).astype(dtype)
    if dtype == "int32" and name in ("floor_divide", "remainder", "fmod", "true_divide"):
        others = np.abs(others) + 1
    if dtype == "int32" and name in ("log", "log2", "log10", "reciprocal", "power", "log1p", "sqrt"):
        values = np.abs(values) + 1
    args = (values, others)[: function.nin]
    if dtype == "int32" and name in ("power", "reciprocal"):
        pytest.skip("left to numpy")
    tolerance = None if name in EXACT else (1e-2, 1e-2) if dtype == "float16" else (1e-5, 1e-6)

    def program(x, *args):
        return x + 1, function(*args)

    check(program, torch.ones(1), *args, graphs=1, tolerance=tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_pointwise_arithmetic_bit_for_bit(seed):
    random = np.random.RandomState(seed)
    a = (random.randn(1000) * 10 ** random.uniform(-3, 3, 1000)).astype(np.float32)
    b = (random.randn(1000) * 10 ** random.uniform(-3, 3, 1000)).astype(np.float32)

    def program(x, a, b):
        double = a.astype(np.float64)
        return (x + 1, a + b, a - b, a * b, a / b, a / 3, 3 / a, a * 0.1, a + 0.1, a // b, a % b, a ** 2,
                np.maximum(a, b), np.clip(a, -1, 1), np.where(a > b, a, b), np.round(a, 2), double / b, double * 0.1,
                double // 0.3, double % 0.3, np.rint(a), (a * 3).astype(np.int32), double.astype(np.float32), -a, abs(a))

    check(program, torch.ones(1), a, b, graphs=1)


# --- functions --------------------------------------------------------------------------------------------------------
def reductions(x, a):
    return (x + 1, a.sum(), a.sum(axis=0), a.sum(axis=(0, 1)), a.sum(axis=1, keepdims=True), np.sum(a, -1), a.mean(), a.mean(0),
            a.max(), a.min(1), np.max(a, axis=0), a.prod(), a.std(), a.var(ddof=1), np.std(a, axis=0), a.any(), a.all(1),
            a.argmax(), a.argmin(axis=1), np.cumsum(a), a.cumsum(axis=1), np.count_nonzero(a, axis=0), a.sum(dtype=np.float64))


def side_by_side(x, a):
    return (x + 1, np.concatenate([a, a]), np.concatenate((a, a * 2), axis=1), np.stack([a, a]), np.stack([a, a], -1),
            np.vstack([a, a]), np.hstack([a, a]), np.concatenate([a, a], None), np.where(a > 2, a, 0), np.clip(a, 1, 3), a.clip(2),
            np.repeat(a, 2), np.repeat(a, 2, 0), np.tile(a, 2), np.tile(a, (2, 1)), np.roll(a, 1), np.roll(a, 1, 0))


def matrices(x, a):
    b = a.astype(np.float64)
    return (x + 1, b @ b.T, np.dot(b, b.T), np.matmul(b.T, b), np.einsum("ij,kj->ik", b, b), b.dot(b[0]), np.outer(b[0], b[1]),
            np.inner(b[0], b[1]), np.linalg.norm(b), np.linalg.norm(b, axis=1), b[0] @ b[1])


def constructors(x, a):
    n = a.shape[0]
    return (x + 1, np.zeros((2, 3)), np.ones(n, dtype=a.dtype), np.full((2, 2), 7), np.eye(3), np.arange(5), np.arange(1, 2, 0.3),
            np.linspace(0, 1, 7), np.array([1, 2, 3]), np.array([[1.5, 2], [3, 4]], dtype=np.float32), np.zeros_like(a),
            np.ones_like(a), np.full_like(a, 2), np.identity(2), np.array(3.5), np.zeros((0, 3)), np.array([]), np.array([True]))


def large_ones(x, a):
    return x + 1, np.zeros((100, 100)), np.ones(5000, np.int8), np.full(5000, 0.1), np.arange(5000), np.arange(0, 5, 0.001)


def indices(x, a):
    i = np.array([0, 2])
    return (x + 1, a[0], a[0, 1], a[-1], a[1:, ::2], a[..., 0], a[:, None], a[i], a[:, i], a[i, i], a[[0, 1]], a[i][:, 0],
            a[(a.sum(1) > 0).astype(np.int64)], len(a), [row.sum() for row in a], a[np.int64(1)], a[a.argmax(0)])


def numbers(x, a):
    s = a.sum()
    return (x + 1, s, s * 2, s / 2, s + a, a - a.mean(), s.dtype, s.shape, s.ndim, type(s) is np.float64, -s, abs(s), s > 3,
            np.float64(s), s.astype(np.float32), np.sqrt(s), np.float32(3) * 2, np.float32(0.1) + np.float64(1), np.pi * s)


def numbers_and_tensors(x, a):
    s = a.mean()
    return x * s, s * x, x + np.float32(0.5), np.float32(2) * x, x * float(s), torch.full((2,), float(s)), x - s.item(), torch.tensor(s)


def dtypes(x, a):
    return (x + 1, a.dtype, a.dtype == np.float64, a.dtype.name, a.dtype.itemsize, a.dtype.kind, np.dtype("float32"), str(a.dtype),
            a.astype(np.float32), a.astype("int32"), a.astype(float, copy=False), a.astype(bool), a.astype(np.complex64),
            np.dtype(np.int8) == np.int8)


def lists_of_them(x, a):
    return x + 1, np.array([a[0], a[1]]), np.array([a.sum(), 2.0]), np.stack([row * i for i, row in enumerate(a)])


def sorted_ones(x, a):
    return x + 1, np.sort(a, kind="stable"), np.argsort(a, axis=0, kind="stable"), np.sort(a.astype(np.int64), axis=0)


def others(x, a):
    return x + 1, np.diff(a), np.tril(a), np.triu(a, 1), a.transpose(1, 0), np.transpose(a), np.moveaxis(a, 0, 1), a.ravel()


def parts(x, a):
    return x + 1, np.split(a, 2, axis=1), np.array_split(a, 2), np.take(a, [0, 2], axis=0), a.take(np.array([1, 0])), np.pad(a, 1)


def few_more(x, a):
    return (x + 1, np.trace(a), a.trace(), np.ptp(a, axis=0), np.tensordot(a, a, axes=([0], [0])), np.tensordot(a, a.T, 1),
            np.isclose(a.astype(np.float64), a.astype(np.float64) + 1e-9), np.nan_to_num(a), np.linspace(0, 1, 5000),
            np.linspace(0, 3, 5000, endpoint=False), np.ascontiguousarray(a.T), np.asfortranarray(a), np.ascontiguousarray(a) is a,
            np.sort(a), a.argsort(), np.fft.fft(a.astype(np.float64)), np.fft.rfft(a[0].astype(np.float64)))


def matrices_and_inverses(x, a):
    b = a[:, :3].astype(np.float64) + np.eye(3) * 9
    return x + 1, np.linalg.inv(b), np.linalg.solve(b, b[0]), np.linalg.det(b), np.linalg.cholesky(b @ b.T), np.linalg.solve(b, b)


def known_numbers(x, a):
    two, n = np.float32(2), np.int64(3)
    return (x + 1, f"{two:.3f}", str(two), repr(n), [10, 20, 30, 40][n], list(range(n)), math.sqrt(two), {two: 1}[2.0], two * 3,
            round(np.float64(2.567), 1), torch.tensor([two, two]), torch.tensor([1, np.float64(2)]), x[np.int64(0)],
            torch.arange(9)[np.array([1, 2])], torch.arange(3)[np.array([True, False, True])], max(two, 1.0), two == 2, n % 2,
            x.reshape(np.prod(x.shape)), int(n) + n, float(two), bool(two), two.item(), n.dtype, -two, two > 1, not two)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [
    parts, few_more, matrices_and_inverses, known_numbers, reductions, side_by_side, matrices, constructors, large_ones, indices, numbers, numbers_and_tensors, dtypes, lists_of_them,
    sorted_ones, others,
])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_functions_of_arrays(program, dtype):
    check(program, torch.ones(2), samples(dtype), graphs=1, tolerance=(1e-5, 1e-6),
          changed=[(torch.ones(2), samples(dtype, seed=3))])


# --- writes -----------------------------------------------------------------------------------------------------------
def augmented(x, a):
    a += 1
    a *= a
    a -= a[0]
    return x + 1, a


def items_set(x, a):
    a[0] = 5
    a[1:, ::2] = 7
    a[:, 1] = a[:, 2] * 2
    a[1, 1] = a.sum()
    a[-1] += 10
    a[...] = a * 2
    return x + 1, a


def overlapping(x, a):
    a[1:] = a[:-1]
    a[:, 1:] += a[:, :-1]
    return x + 1


def seen_through_views(x, a):
    b = a[1:]
    t = torch.from_numpy(a)
    b[:] = 3
    t[0] = 4
    t.mul_(2)
    return x + 1, b.sum(), t.sum(), a


def masks_and_places(x, a):
    a[a > 3] = 0
    a[np.array([0, 1])] = 9
    return x + 1, a


def given_as_out(x, a):
    np.add(a, 1, out=a)
    np.multiply(a, a, a)
    b = np.zeros_like(a)
    np.subtract(a, 2, out=b)
    return x + 1, b


def new_arrays_written(x, a):
    b = np.zeros(4, dtype=a.dtype)
    b[1:3] = a[0, :2]
    c = np.arange(3)
    c[0] = 10
    d = a.copy()
    d.fill(2)
    return x + 1, b, c, c.sum(), d


def through_the_tensor(x, a):
    b = x.numpy()
    b += 1
    x.mul_(3)
    return b.sum(), x + 1, b


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [
    augmented, items_set, overlapping, seen_through_views, masks_and_places, given_as_out, new_arrays_written, through_the_tensor,
])
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_writes(program, dtype):
    check(program, torch.ones(2), samples(dtype), tolerance=(1e-5, 1e-6))


def test_arrays_over_one_memory():
    def make():
        a = np.arange(12.0).reshape(3, 4)
        return a, a[1:], torch.from_numpy(a)

    def program(a, b, t):
        a += 1
        s = b.sum()
        t.mul_(2)
        return s, b.sum(), t + 1

    check(program, make=make, changed=[lambda: (np.ones((3, 4)), np.ones((2, 4)), torch.ones(3, 4, dtype=torch.float64))])
    check(program, make=lambda: (np.ones((3, 4)), np.ones((2, 4)), torch.ones(3, 4, dtype=torch.float64)), changed=[make])


# --- what numpy warns of ----------------------------------------------------------------------------------------------
@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [
    lambda x, a: (x + 1, 1 / a),
    lambda x, a: (x + 1, np.log(a)),
    lambda x, a: (x + 1, np.sqrt(a - 1).sum()),
    lambda x, a: (x + 1, (1 / a) > 3),
    lambda x, a: (x + 1, 1 / (1 + np.exp(1000 * a + 700))),
    lambda x, a: (x + 1, (a * 1e30).astype(np.float32) * np.float32(1e10) * np.float32(1e10)),
    lambda x, a: (x + 1, (a * 1e300).astype(np.int32)),
    lambda x, a: (x + 1, a.astype(np.int64) // a.astype(np.int64)),
    lambda x, a: (x + 1, a.sum() / a.min()),
    lambda x, a: (x + 1, np.linalg.inv(a[:, None] * a[None] + np.eye(3) * (a[0] > 0.5))),
    lambda x, a: (x + 1, np.sort(-a * 0), np.argsort(a * 0)),
    lambda x, a: (x + 1, np.float64(1) / np.float64(0)),
    lambda x, a: (x + 1, (a.astype(np.int64) + 2**62).max() * 4),
])
def test_warnings_of_numbers(program):
    fine, bad = np.array([1.0, 2, 3]), np.array([0.0, 1, 2])
    check(program, torch.ones(1), fine, changed=[(torch.ones(1), bad), (torch.ones(1), np.array([np.nan, 1, np.inf]))],
          tolerance=CLOSE)
    check(program, torch.ones(1), bad, changed=[(torch.ones(1), fine)], tolerance=CLOSE)


@pytest.mark.parametrize("state", [{"all": "raise"}, {"under": "raise"}, {"divide": "ignore"}])
def test_errors_instead_of_warnings(state):
    def program(x, a):
        with np.errstate(**state):
            return inner(x, a)

    def inner(x, a):
        return x + 1, 1 / a, a * 1e-200 * 1e-200

    check(program, torch.ones(1), np.array([1.0, 2]), changed=[(torch.ones(1), np.array([0.0, 2]))])


# --- errors -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("program", [
    lambda x, a: (x + 1, a + np.ones(7)),
    lambda x, a: (x + 1, a[10]),
    lambda x, a: (x + 1, a[np.array([10])]),
    lambda x, a: (x + 1, a.reshape(5)),
    lambda x, a: (x + 1, a.no_such_thing),
    lambda x, a: (x + 1, np.concatenate([a, a[0]])),
    lambda x, a: (x + 1, a @ np.ones(9)),
    lambda x, a: (x + 1, operator.iadd(a.astype(np.int64), 1.5)),
    lambda x, a: (x + 1, {a: 1}),
    lambda x, a: (x + 1, bool(a)),
    lambda x, a: (x + 1, float(a)),
    lambda x, a: (x + 1, x.requires_grad_().numpy()),
    lambda x, a: (x + 1, torch.from_numpy(a[::-1])),
    lambda x, a: (x + 1, x + a),
    lambda x, a: (x + 1, a == None),  # noqa: E711
    lambda x, a: (x + 1, a == "x"),
])
def test_errors(program):
    check(program, torch.ones(2), samples("float64", (3, 4)))


def test_printed():
    def program(x, a):
        b = a * 2
        print(b, b.max(), f"{b.min():.2f}", a.dtype)  # which no order of additions changes
        return x + 1, str(b)

    check(program, torch.ones(2), samples("float64"))


def test_branches():
    def program(x, a):
        if a.sum() > 3:
            x = x + 1
        for value in np.arange(3):
            x = x * value
        return x, 3 if a.shape[0] else 4

    check(program, torch.ones(2), samples("float64"))


def test_drawn_arrays_beside_others():
    def program(x, a):
        noise = np.random.rand(4)
        return x + 1, noise + a, np.exp(noise), noise, a * np.random.normal()

    check(program, torch.ones(2), samples("float64"), tolerance=CLOSE)


def test_under_autocast():
    def program(x, a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x, a @ a.T

    check(program, torch.ones(2, 2), samples("float32"), tolerance=(1e-2, 1e-2))


def test_what_was_a_graph_break():
    def program(x, table):
        mean = x.numpy().mean(axis=0)
        scaled = (table - mean) / (table.std() + 1e-6)
        weights = np.exp(scaled) / np.exp(scaled).sum(axis=-1, keepdims=True)
        return x @ torch.from_numpy(weights.astype(np.float32)).T

    check(program, torch.arange(12.0).reshape(3, 4), samples("float64"), graphs=1, tolerance=(1e-5, 1e-5))
