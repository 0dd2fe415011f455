"""Builtin functions and methods of builtin types."""
import pytest
import torch

from tests.differential import check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)

# Each is evaluated beside a tensor operation, with `x` a tensor of shape (3, 4).
EXPRESSIONS = """
abs(-3), abs(2.5), abs(x)
all([1, 0]), all([]), any([0, 1]), any(())
bin(5), hex(255), oct(8), chr(97), ord("a"), ascii("é")
bool(x.shape), bool(0), bool([0])
bytes(3), bytearray(b"ab"), bytes([1, 2])
callable(torch.sin), callable(3), callable(lambda: 0)
complex(1, 2), (1 + 2j).real, (3 - 4j).conjugate(), abs(3 + 4j)
dict(), dict(a=1), dict([("k", x)]), dict({"a": 1}, b=2), dict(zip("ab", [1, 2]))
divmod(7, 3), divmod(-7, 3), divmod(7.5, 2)
list(enumerate(["a", "b"], 1)), dict(enumerate("ab"))
eval("1 + 2")
list(filter(None, [0, 1, "", "a"])), list(filter(lambda n: n > 1, [1, 2, 3]))
float("1.5"), float("inf"), float(3), (2.5).is_integer(), (0.5).as_integer_ratio(), float.fromhex("0x1p-2")
format(3.14159, ".2f"), format(5, "04d"), "{:>5}|{a}".format("x", a=1), "{0}{1}{0}".format("a", "b")
frozenset([1, 2]) | {3}, frozenset(), len(frozenset([1, 1]))
getattr(x, "shape"), getattr(x, "nope", 5), hasattr(x, "dim"), hasattr(3, "nope")
hash("a") == hash("a"), hash((1, 2)) == hash((1, 2)), hash(1) == hash(1.0)
id(x) == id(x), id(x) == id(x + 1)
int("12"), int("ff", 16), int(3.9), int(-3.9), int(True), (5).bit_length(), (6).bit_count(), int.from_bytes(b"\\x01\\x02", "big")
isinstance(x, torch.Tensor), isinstance(x, (int, torch.Tensor)), isinstance(True, int), isinstance(3, int | str)
issubclass(bool, int), issubclass(torch.nn.Linear, torch.nn.Module), issubclass(int, (str, float))
list(iter([1, 2])), next(iter({"a": 1})), next(iter([]), "none")
len("abc"), len([x]), len(x), len({}), len(range(5)), len(x.shape)
list(map(str, [1, 2])), list(map(lambda a, b: a + b, [1, 2], [3, 4])), list(map(len, ["a", "bb"]))
max(1, 2), max([1, 3, 2]), max([], default=7), max("ab", "b", key=len), max([(1, "a"), (1, "b")]), max(1.5, 2)
min(1, 2), min([3, 1]), min({"b": 1, "a": 2}), min([[2], [1, 9]], key=len)
min(max(x.shape), 10), max(x.size(0), x.size(1))
pow(2, 10), pow(2, -1), pow(3, 4, 5), pow(2.0, 0.5)
list(range(3)), list(range(1, 7, 2)), list(range(3, 0, -1)), range(3) == range(0, 3), range(10)[2:5]
repr("a"), repr([1, "b"]), repr(1.5), str(None), str([1, (2,)]), str(torch.float32), repr({"a": 1}), str(x.shape)
list(reversed([1, 2])), list(reversed(range(3))), list(reversed("ab"))
round(2.5), round(3.14159, 2), round(-1.5), round(1234, -2)
sorted([3, 1, 2]), sorted("bca", reverse=True), sorted({"b": 1, "a": 2}), sorted([(2, "b"), (1, "c")], key=lambda p: p[1])
slice(1, 5), slice(None, None, 2).indices(7), slice(3).stop
sum([1, 2]), sum([x, x]), sum([0.1] * 10), sum([[1], [2]], []), sum(range(5), 10), sum((x * i for i in range(3)), x)
tuple([1, 2]), tuple("ab"), tuple(x.shape), tuple()
type(3), type(x) is torch.Tensor, type("a")("b"), type(None), type([])
list(zip([1, 2], "ab")), list(zip()), list(zip([1], [2], [3])), dict(zip(["a"], [x]))
list(zip([1, 2], [3, 4], strict=True)), [list(t) for t in zip(*[[1, 2], [3, 4]])]
vars(type("T", (), {"k": 1}))["k"]
"a,b".split(","), "a b  c".split(), "-".join(["a", "b"]), " a ".strip(), "abc".replace("b", "x"), "abc".startswith(("a", "z"))
"abc".upper(), "ABC".lower(), "abc def".title(), "abc".find("c"), "abc".index("b"), "a.b.c".rsplit(".", 1), "x".zfill(3), "a".center(5, "*")
"abc".endswith("c"), "a1".isdigit(), "12".isdigit(), "abc".partition("b"), "aXb".swapcase(), "abc".count("b"), "a\\nb".splitlines()
"layers.0.weight".split(".")[-1], "abc".removeprefix("a"), "abc".removesuffix("c"), "%d %s %.2f" % (1, "a", 2.5), "a" "b"
"é".encode(), b"abc".decode(), b"a" + b"b", b"abc"[0], b"abc"[1:]
(1, 2) + (3,), (1, 2) * 2, (1, 2, 1).count(1), (1, 2).index(2), [1] * 3, [[0] * 2 for _ in range(2)]
[1, 2] == [1, 2], [1, 2] < [1, 3], (1, 2) < (1, 2, 3), "a" < "b", {1} == {1}, {"a": 1} == {"a": 1}, [1] != (1,), None == None
1 < 2 < 3, 1 == 1.0, True + True, 3 // 2, -3 // 2, -3 % 2, 2 ** 10, 7 & 3, 7 | 8, 7 ^ 2, ~5, 1 << 4, 256 >> 2, 5 / 2
not [], not None, None or "a", 0 or [], 1 and 2, "" and 1
print
isinstance(x.shape, tuple), x.shape == (3, 4), x.shape[0] == 3, x.shape + (1,), x.shape[1:], list(x.shape), x.shape.numel()
[*x.shape], {**{"a": 1}}, (*range(2),), {*[1, 2]}
""".strip().splitlines()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda e: e[:40])
def test_expression(expression):
    scope = {"torch": torch}
    execute(f"def program(x):\n    return ({expression},), x * 2\n", scope)
    check(scope["program"], X, graphs=None if expression.startswith(("eval", "vars", "id(", "bytes(3)")) else 1, changed=[(Y,), tensors(2, 3)])


FAILURES = ["int('x')", "float([])", "len(3)", "[][0]", "{}['k']", "max([])", "min()", "sum(['a'])", "next(iter([]))", "chr(-1)",
            "ord('ab')", "'a'.index('z')", "[1].index(2)", "(1).nope", "iter(3)", "list(zip([1], [], strict=True))", "sorted([1, 'a'])",
            "divmod(1, 0)", "range(1, 2, 0)", "isinstance(1, 3)", "getattr(x, 'nope')", "abs('a')", "round('a')", "'%d' % 'a'",
            "'{}'.format()", "dict([1])", "hash([])", "pow(0, -1)", "[1, 2].remove(3)", "tuple(5)", "type(1)('z')", "setattr(3, 'a', 1)",
            "bytes(-1)", "'a' * 'b'", "reversed({1})", "complex('z')", "bool.__new__(3)", "{}.popitem()", "issubclass(3, int)"]


@pytest.mark.parametrize("expression", FAILURES)
def test_failure(expression):
    scope = {"torch": torch}
    execute(f"def program(x, log):\n    log.append(1)\n    y = x * 2\n    r = {expression}\n    return y, r\n", scope)
    check(scope["program"], X, [])


@same_as_eager
def test_print_and_repr_of_a_tensor(x):
    print("before", x.shape, sep="|", end="!\n")
    y = x + 1
    print(y.sum())
    return repr(y), str(x), f"{x}"


@same_as_eager
def test_print_to_a_file_object(x):
    import io
    out = io.StringIO()
    print("into", file=out)
    return x + 1, out.getvalue()


@same_as_eager(graphs=1)
def test_iterators_keep_their_place(x):
    it = iter([1, 2, 3])
    first = next(it)
    rest = list(it)
    e = enumerate("ab")
    next(e)
    z = zip([1, 2], [3, 4])
    next(z)
    return x + first, rest, list(e), list(z), list(it)


@same_as_eager(graphs=1)
def test_sum_of_tensors_from_zero(x):
    return sum([x, x + 1]), sum([]), sum([x.sum()], 0.0)


@same_as_eager
def test_max_of_tensors(x):
    return max(x.sum(), (x * 2).sum()), min(x[0, 0], 0)


@same_as_eager
def test_numbers_out_of_tensors(x):
    n = int(x.abs().sum())
    f = float(x.max())
    return x + n, f, bool((x > 100).any()), x.sum().item(), x[0].tolist(), len(range(n))


@same_as_eager
def test_exec_inside(x):
    scope = {}
    exec("k = 3", scope)
    return x + scope["k"]


@same_as_eager
def test_input_is_read(x):
    try:
        open("/nonexistent/file")
    except FileNotFoundError as e:
        return x + e.errno
