"""What numpy orders, looks up, counts and compares, sums of other kinds, edges and choices, and views that are read-only."""
import numpy as np
import pytest

from tests.differential import check

CLOSE = (2e-6, 2e-6)
EDGES = np.array([-1.0, 0.0, 0.5, 1.0])


def rows(dtype="float32", seed=0, shape=(3, 4)):
    return np.random.RandomState(seed).randn(*shape).round(2).astype(dtype)


def changes(dtype):
    """The same shape with other numbers: ties, zeros of both signs, what is no number or not finite."""
    found = [rows(dtype, 5), rows(dtype, 6).round(0) + 0.0, np.zeros((3, 4), dtype)]
    for special in (np.nan, np.inf, -np.inf, -0.0):
        other = rows(dtype, 7)
        other[1, 2] = special
        found.append(other)
    return [(each.astype(dtype),) for each in found]


def medians(a):
    return np.median(a), np.median(a, axis=0), np.median(a, axis=1), np.median(a[:, :3], axis=-1)


def quantiles(a):
    return np.percentile(a, 50), np.percentile(a, [25, 75.5], axis=0), np.quantile(a, 0.3, axis=1), np.quantile(a, [0, 1])


def looked_up(a):
    return np.searchsorted(EDGES, a), np.searchsorted(a[0], 0.5), np.searchsorted(EDGES, a[0], side="right")


def digitized(a):
    return np.digitize(a, EDGES), np.digitize(a, [-1.0, 0.0], right=True)


def interpolated(a):
    return np.interp(a, EDGES, EDGES * 3), np.interp(a[0], [0.0, 1, 2], [0.0, 10, 20]), np.interp(a, EDGES, EDGES, -5, 5)


def histograms(a):
    return np.histogram(a, bins=4, range=(-2, 2)), np.histogram(a, bins=EDGES), np.histogram(a, [-1.0, 0.0, 1.0])


def histogram_between_extremes(a):
    return np.histogram(a), np.histogram(a[0], bins=3), np.histogram(a, True), np.histogram(a, np.int64(2))


def contained(a):
    return np.isin(a, [1.0, 0.0]), np.isin(a, a[0], invert=True)


def meshes(a):
    x, y = np.meshgrid(a[0], a[:, 0])
    return x, y, np.meshgrid(a[0], a[:, 1], indexing="ij"), np.meshgrid(a[0]), np.meshgrid(a[0], a[1], a[2])


def compared(a):
    return np.allclose(a, a + 1), np.array_equal(a, a * 1), np.array_equal(a, a[0]), np.isclose(a, a * 1.000001)


def without_what_is_no_number(a):
    return np.nansum(a), np.nanmean(a, axis=0), np.nanmax(a), np.nanmin(a, axis=1)


def averages(a):
    return np.average(a), np.average(a, axis=0, weights=[1.0, 2.0, 3.0]), np.average(a, weights=np.abs(a) + 1)


def together(a):
    return np.cov(a), np.corrcoef(a), np.cov(a[0])


def areas(a):
    return np.trapezoid(a), np.trapezoid(a, dx=0.5, axis=0), np.trapezoid(a[0], EDGES)


def products(a):
    return np.kron(a, a[:2]), np.vdot(a, a), np.cross(a[:, :3], a[:, 1:]), np.convolve(a[0], a[1]), np.outer(a[0], a[1])


def norms(a):
    norm = np.linalg.norm
    return norm(a), norm(a, axis=1), norm(a, ord=1, axis=1), norm(a, np.inf, 0), norm(a, "fro"), norm(a[0], 2), norm(a[0], 1)


def selected(a):
    return np.select([a > 0, a < -1], [a, a * 2], 0), np.select([a > 0], [a])


def padded(a):
    pads = [np.pad(a, 1, mode=mode) for mode in ("edge", "reflect", "symmetric", "wrap")]
    return pads, np.pad(a, 1), np.pad(a, ((1, 0), (0, 2)), constant_values=3), np.pad(a, ((0, 0), (1, 2)), mode="edge")


def differences(a):
    return np.diff(a), np.diff(a, axis=0), np.diff(a, n=2), np.diff(a, prepend=0), np.diff(a, axis=0, append=a[:1])


def turned(a):
    return np.rot90(a), np.rot90(a, 2), np.fliplr(a), np.flipud(a), np.hsplit(a, 2), np.vsplit(a, 3)


def diagonals(a):
    return np.diag(a), np.diagonal(a, 1), np.diag(a[0]), a.diagonal().sum(), np.eye(3, k=1), np.eye(3, 4, dtype=np.float32)


def spread(a):
    return np.broadcast_to(a, (2, 3, 4)), np.broadcast_to(a[0], (3, 4)) + a, np.broadcast_to(a[:, :1], (3, 4)).copy()


def listed(a):
    return a.tolist(), (a * 2).sum(0).tolist(), (a > 0).tolist()


PROGRAMS = [
    medians, quantiles, looked_up, digitized, interpolated, histograms, histogram_between_extremes, contained, meshes,
    compared, without_what_is_no_number, averages, together, areas, products, norms, selected, padded, differences,
    turned, diagonals, spread, listed,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_functions(program, dtype):
    check(program, rows(dtype), graphs=1, changed=changes(dtype), tolerance=CLOSE)


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("program", [
    medians, quantiles, looked_up, digitized, interpolated, histograms, histogram_between_extremes, contained, meshes,
    compared, averages, together, areas, norms, selected, padded, differences, turned, diagonals, spread, listed,
])
def test_functions_of_integers(program, dtype):
    a = np.random.RandomState(0).randint(1, 9, (3, 4)).astype(dtype)
    b = np.random.RandomState(1).randint(0, 3, (3, 4)).astype(dtype)
    check(program, a, changed=[(b,), (np.zeros((3, 4), dtype),)], tolerance=CLOSE)


def test_edges_that_do_not_grow():
    def program(a, edges):
        return np.searchsorted(edges, a), np.interp(a, edges, edges)

    check(program, rows(), np.array([0.0, 1.0, 2.0]), graphs=1, changed=[(rows(), np.array([2.0, 1.0, 3.0]))])


def test_a_view_that_is_read_only_is_not_written():
    def program(a):
        b = np.broadcast_to(a[0], (3, 4))
        c = b[1:]
        try:
            c[0] = 1
        except ValueError as error:
            return str(error), b, c, a
        return b

    check(program, rows())


def test_a_view_that_is_read_only_lends_no_memory():
    def program(a):
        d = np.diag(a)
        try:
            d += 1
        except ValueError as error:
            return str(error), d.flags.writeable
        return d

    check(program, rows())


def test_decided_by_a_comparison_of_arrays():
    def program(a, b):
        if np.array_equal(a, b):
            return a * 2
        return b * 3

    check(program, rows(), rows(), changed=[(rows(), rows(seed=3))])


def test_numbers_in_a_list_of_lists():
    def program(a):
        return np.concatenate([a, [[1.0, 2.0, 3, 4], [3.0, 4.0, 5, 6]]])

    check(program, rows(), graphs=1)


def test_close_but_of_two_kinds():
    def program(a, b):
        return np.isclose(a, b), np.isclose(b, a), np.isclose(a, 1.0), np.allclose(b, a, rtol=0.5)

    check(program, rows(), rows("float64"), changed=[(rows(), rows("float64") * 1.1)])
