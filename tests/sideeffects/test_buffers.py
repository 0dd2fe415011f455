"""bytearray and array.array: read, written, made and left."""
import array
import collections
import copy

import pytest
import torch

import jit
from tests.differential import check

pytestmark = pytest.mark.break_everywhere


# --- both kinds -------------------------------------------------------------------------------------------------------
def read(x, b):
    y = x + b[0]
    return y, b[-1], b[1:], b[::2], len(b), bool(b), 3 in b, 9 in b, [n * 2 for n in b], list(b), sum(b), max(b), sorted(b), tuple(reversed(b))


def written(x, b):
    b[0] = 7
    y = x + b[0]
    b.append(4)
    b.insert(1, 9)
    b.extend([5, 6])
    b.extend(n for n in (1, 2))
    b.reverse()
    last = b.pop()
    first = b.pop(0)
    b.remove(9)
    del b[0]
    del b[-1:]
    return y, last, first, b, len(b)


def appended(x, b):
    b.append(1)
    b.extend([2, 3])
    return x + 1


def in_place(x, b):
    c = b
    b += b[:]
    b *= 2
    c.append(1)
    return x + len(b), c is b, b == c, b != c[1:], b + b, b * 2, 2 * b


def emptied(x, b):
    while b:
        x = x + b.pop()
    return x, b


def aliased(x, b):
    held = [b, b]
    held[0].append(2)
    held[1][0] = 5
    return x + held[1][-1], held, b is held[0]


def mutated_while_walked(x, b):
    seen = []
    for n in b:
        seen.append(n)
        if len(b) < 8:
            b.append(n + 1)
    return x + 1, seen


def walked(x, b):
    half = iter(b)
    next(half)
    gone = iter(b)
    list(gone)
    return x + 1, half, gone, next(reversed(b))


def half_walked(x, half):
    first = next(half)
    return x + first, half


def changed_around(x, half, b):
    first = next(half)
    b.append(9)
    return x + 1, first, next(half), list(half)


@pytest.mark.parametrize("make", [lambda: bytearray([1, 2, 3]), lambda: array.array("i", [1, 2, 3])], ids=["bytearray", "i"])
def test_of_an_existing_iterator(make):
    check(half_walked, make=lambda: (torch.ones(2), iter(make())), graphs=1)

    def with_its_buffer():
        b = make()
        return torch.ones(2), iter(b), b

    check(changed_around, make=with_its_buffer)


def too_large(x, b):
    try:
        b[0] = 1 << 70
    except (ValueError, OverflowError) as error:
        return x + 1, str(error), b


def not_there(x, b):
    said = []
    for wrong in (lambda: b.remove(77), lambda: b.index(77), lambda: b[99], lambda: b.pop(99), lambda: b.append("s"), lambda: b + 3,
                  lambda: b.append(None), lambda: b.nothing, lambda: hash(b), lambda: b.insert(1), lambda: b - b, lambda: b.extend(5)):
        try:
            wrong()
        except Exception as error:
            said.append((type(error), str(error)))
    return x + 1, said, b


def half_extended(x, b):
    try:
        b.extend([1, "2", 3])
    except TypeError:
        pass
    return x + 1, b


def raises(x, b):
    b.append(3)
    b[99]
    return x + 1


def unchanged(x, b):
    return x + 1, b, b.index(2), b.count(2), copy.copy(b), str(b), f"{b!r}", isinstance(b, (bytearray, array.array)), bytes(b)


BOTH = [read, written, appended, in_place, emptied, aliased, mutated_while_walked, walked, too_large, not_there, half_extended, unchanged]


@pytest.mark.parametrize("make", [lambda: bytearray([1, 2, 3]), lambda: array.array("i", [1, 2, 3]), lambda: array.array("B", [1, 2, 3])], ids=["bytearray", "i", "B"])
@pytest.mark.parametrize("program", BOTH, ids=lambda p: p.__name__)
def test_one_graph(program, make):
    check(program, make=lambda: (torch.ones(2), make()), graphs=1)


@pytest.mark.parametrize("make", [lambda: bytearray([1, 2, 3]), lambda: array.array("d", [1, 2, 3])], ids=["bytearray", "d"])
def test_what_happened_before_an_exception(make):
    check(raises, make=lambda: (torch.ones(2), make()))


# --- one kind ---------------------------------------------------------------------------------------------------------
def of_bytes(x, b):
    b[1:2] = b"abc"
    b[::2] = [0] * len(b[::2])
    b += b"xyz"
    b.extend(range(3))
    c = bytearray(b"one")
    d = bytearray(4)
    e = bytearray("text", "utf8")
    f = bytearray(n for n in (3, 4))
    c.clear()
    return (x + 1, b, c, d, e, f, b.hex(), b.find(b"x"), b.replace(b"x", b"y"), b.startswith(b"\0"), b.split(b"x"), b == bytes(b), b"z" + b,
            b + b"z", b"%d" % 3 + b, b.upper() == b, b > b"a", b"a" < b, int.from_bytes(b[:2], "big"), e.decode(), b"".join([e, d]), int(bytearray(b"12")))


def of_numbers(x, b):
    c = array.array("d", [1, 2.5])
    c[0] = 3
    c.extend(list(b))
    e = array.array(b.typecode)
    f = array.array("f", [0.1])
    c.fromlist([1.0])
    return (x + c[1], c, e, f, f[0], b.typecode, b.itemsize, b.tolist(), b.tobytes(), c < c[:1], c == [1], array.array("i", b"\1\0\0\0"),
            array.array("b", (n for n in (1, 2))))


def of_wrong_kind(x, b):
    said = []
    for wrong in (lambda: b.extend(array.array("q", [1])), lambda: b.__setitem__(slice(0, 1), [1]), lambda: b + [1], lambda: array.array("?"), lambda: b.append(1.5),
                  lambda: array.array("i", [None])):
        try:
            wrong()
        except Exception as error:
            said.append((type(error), str(error)))
    return x + 1, said, b


def dead(x, b):
    c = bytearray(3)
    c[0] = 5
    return x + c[0]


@pytest.mark.parametrize("program, make", [
    (of_bytes, lambda: bytearray([1, 2, 3])), (of_numbers, lambda: array.array("i", [1, 2, 3])), (of_wrong_kind, lambda: array.array("i", [1, 2, 3])), (dead, lambda: None),
], ids=lambda p: getattr(p, "__name__", ""))
def test_of_one_kind(program, make):
    check(program, make=lambda: (torch.ones(2), make()), graphs=1)


class Told(bytearray):
    def append(self, item):
        super().append(item)
        self.told = item


def of_a_users_class(x, b):
    b.append(3)
    b += b"ab"
    c = Told(b"12")
    c.append(7)
    return x + b[0], b.told, c, c.told, len(c), b[1:]


def test_of_a_users_class():
    check(of_a_users_class, make=lambda: (torch.ones(2), Told(b"12")), graphs=1)


# --- what others see --------------------------------------------------------------------------------------------------
def test_appended_to_only_it_may_hold_anything():
    compiled, b = jit.compile(appended, backend="eager"), bytearray()
    for _ in range(20):
        compiled(torch.ones(2), b)
    assert b == bytes([1, 2, 3]) * 20
    check(appended, make=lambda: (torch.ones(2), bytearray(b"a")), changed=[lambda: (torch.ones(2), bytearray(b"bc"))], graphs=1)


def resized(x, b, view):
    y = x + 1
    b.append(3)
    b.pop()
    return y + 1


def kept_length(x, b, view):
    b[0] = 9
    b[1:] = b[1:]
    return x + b[0]


@pytest.mark.parametrize("make", [lambda: bytearray([1, 2, 3]), lambda: array.array("i", [1, 2, 3])], ids=["bytearray", "array"])
def test_with_a_view_alive(make):
    def viewed():
        b = make()
        return torch.ones(2), b, memoryview(b)

    compiled = jit.compile(resized, backend="eager")
    b = make()
    compiled(torch.ones(2), b, None)
    assert b == make()
    for _ in range(2):
        x, b, view = viewed()
        with pytest.raises(BufferError):
            compiled(x, b, view)
        assert b == make()
    x, b, view = viewed()
    assert torch.equal(jit.compile(kept_length, backend="eager")(x, b, view), x + 9) and view[0] == 9


def beside(x, b):
    x.add_(1)
    y = x + b[0]
    b[1] = 5
    return y + x


def test_a_tensor_in_its_memory():
    compiled, apart = jit.compile(beside, backend="eager"), bytearray(4)
    assert compiled(torch.zeros(4, dtype=torch.uint8), apart).tolist() == beside(torch.zeros(4, dtype=torch.uint8), bytearray(4)).tolist()
    for _ in range(2):
        ours, eager = bytearray(4), bytearray(4)
        assert compiled(torch.frombuffer(ours, dtype=torch.uint8), ours).tolist() == beside(torch.frombuffer(eager, dtype=torch.uint8), eager).tolist()
        assert ours == eager


def looked_at(x, b, view):
    b[0] = 5
    y = x + view[0]
    view[1] = 6
    return y + b[1], torch.tensor(b), bytes(view), torch.frombuffer(b, dtype=torch.uint8), memoryview(b)[0]


def test_looked_at_by_others():
    def viewed():
        b = bytearray([1, 2, 3])
        return torch.ones(2), b, memoryview(b)

    x, b, view = viewed()
    y, c, other = viewed()
    for ours, eager in zip(jit.compile(looked_at, backend="eager")(x, b, view), looked_at(y, c, other)):
        assert torch.equal(ours, eager) if isinstance(ours, torch.Tensor) else ours == eager
    assert b == c


def named_twice(x, b, c):
    b.append(1)
    return x + len(c), b is c


def test_two_names():
    def one():
        b = bytearray(2)
        return torch.ones(2), b, b

    check(named_twice, make=one, changed=[lambda: (torch.ones(2), bytearray(2), bytearray(2))])


def left_alone(x, b):
    b.append(1)
    y = x + 1
    return y, copy.deepcopy(b), array.array("u", "ab"), [b] == [b[:]], {"k": b}, b.nothing if x.dim() == 3 else None


@pytest.mark.parametrize("make", [lambda: bytearray([1, 2, 3]), lambda: array.array("d", [1, 2, 3]), lambda: array.array("u", "xy"), lambda: Told(b"12")], ids=["bytearray", "d", "u", "own"])
def test_others(make):
    check(left_alone, make=lambda: (torch.ones(2), make()))


class OwnList(list):
    pass


class OwnDeque(collections.deque):
    pass


def named_otherwise(x, b, c):
    b.append(1)
    return x + len(c)


@pytest.mark.parametrize("make", [bytearray, lambda: array.array("i"), Told, list, OwnList, OwnDeque], ids=["bytearray", "array", "own", "list", "own list", "own deque"])
def test_two_that_come_in_as_one(make):
    def one():
        b = make()
        return torch.ones(2), b, b

    check(named_otherwise, make=lambda: (torch.ones(2), make(), make()), changed=[one])
