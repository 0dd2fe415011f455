"""What `tools/fuzz` found: programs that did something else compiled."""

import copy
import decimal
import enum
import gc
import importlib.util
import inspect
import itertools
import logging
import operator
import random
import time
import traceback
import types
import warnings
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict

import numpy
import pytest
import torch

import jit
from tests.differential import COUNTING, check

PROGRAMS = []


def program(*calls):
    """Called with a tensor and each of `calls`, one after the other."""

    def note(fn):
        PROGRAMS.append(pytest.param(fn, calls, id=fn.__name__))
        return fn

    return note


@program((3,), (-2,), (8,))
def text_that_is_repeated(x, n):
    text, said = f"{n}-", []
    for ask in (
        lambda: text * 2, lambda: 2 * text, lambda: text * -1, lambda: text * True, lambda: text * n, lambda: text * 1.5,
        lambda: 1.5 * text, lambda: text + 3, lambda: 3 + text, lambda: text - 1, lambda: text < 3, lambda: text == 3,
    ):  # fmt: skip
        try:
            said.append(ask())
        except TypeError as error:
            said.append(str(error))
    return said, x + 1


@program((3,), (-2,))
def items_of_what_is_no_iterable(x, n):
    said = []
    for ask in (lambda: [each for each in numpy.float32(n)], lambda: n in numpy.float32(n), lambda: [*iter(numpy.int64(n))]):
        try:
            said.append(ask())
        except TypeError as error:
            said.append(str(error))
    return said, x + 1


@program((3,), (-2,))
def reversed_view_in_a_try_block(x, n):
    table = {}
    try:
        table |= dict(reversed({"a": n + 1, "k": time.time() > n}.items()))
        view = {"a": n, "b": 2}.items()
        time.time()
        table |= dict(reversed(view))
    finally:
        x = x + 1
    return table, x


class Row:
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


@program((3,), (-2,))
def iterators_that_leave(x, n):
    first, second = itertools.tee([n, 2, n])
    step = next(first)
    return first, second, x + step, reversed(Row(1, n))


@program((3,), (-2,))
def iterators_that_stay(x, n):
    first, second = itertools.tee([n, 2, n])
    next(second)
    for one, other in zip(first, second):
        x = x * one + other
    return x, [*reversed(Row(1, n))], copy.copy(first)


@program((3,), (-2,))
def iterators_say_what_they_are(x, n):
    first, second = itertools.tee([n, 2, n])
    back = reversed(Row(1, n, 3))
    said = [hasattr(first, "send"), hasattr(back, "close"), hasattr(back, "__length_hint__")]
    try:
        first.send(1)
    except AttributeError as error:
        said.append(str(error))
    kinds = type(first).__name__, first.__class__, isinstance(first, types.GeneratorType), type(back)
    return said, kinds, x + next(first), first.__next__(), next(back), iter(second) is second, [*second]


@program((3,), (-2,))
def iterators_are_asked_for_more(x, n):
    back = reversed(Row(1, n, 3))
    x = x + next(back)
    first, second = itertools.tee([n, 2, n])
    return operator.length_hint(back), x, [*first.__copy__()], next(second)


@program((3,), (-2,))
def frozensets_that_came_across_a_break(x, n):
    first, second = frozenset(""), frozenset("a")
    time.time()
    first, second = first ^ {n}, second | {"b", n}
    time.time()
    return first, second - {n}, x + len(second)


@program((3,), (-2,), (5,))
def text_after_what_is_known(x, n):
    said = []
    for text in (f"{n}q", f"{x.sum().item()}q"):
        for ask in (lambda: "a" + text, lambda: "a".__add__(text), lambda: Name("a") + text, lambda: "a" + Name(text)):
            try:
                said.append(ask())
            except TypeError as error:
                said.append(str(error))
    return said, x + n


class Name(str):
    pass


PARTS = [torch.full((2, 3), float(value)) for value in range(12)]


@program((3,), (-2,))
def many_tensors_and_a_number_drawn_before(x, n):
    drawn = random.randrange(9)
    for part in PARTS:
        x = x + part
    return x, drawn


@program((3, 2), (4, 5), (5, 5), (9, 2), (6, 4))
def remainders_of_products_of_even_numbers(x, n, m):
    total = n * 4 + m * 4 + 4
    if total * total % 50 > 2:
        x = x * 2
    return x.repeat(2 * n + 2, 2 * m + 2).numel() % 20, total * total % 12 // 4, x


@program((3, 2), (4, 2), (4, 4), (5, 7), (6, 6))
def sums_of_what_is_known_since(x, n, m):
    total = n + m
    if total & 1:
        x = x * 2
    return total + n, total + m, x.repeat(total + n, 1) + x.sum()


@program((3,), (-2,))
def sizes_by_numbers_drawn_of_no_input(x, n):
    mask = torch.rand(3, 4) > 0.5
    return torch.ones(3, 4)[mask], torch.rand(2)


@program((3,), (8,), (9,))
def keys_missed_while_an_error_is_handled(x, n):
    said = []
    for key in (n + 7, Row(n)):
        for ask in (lambda key: {1: 2}[key], lambda key: {1: 2}.pop(key), lambda key: {1}.remove(key)):
            try:
                raise ValueError("first")
            except ValueError:
                try:
                    ask(key)
                except KeyError as error:
                    said.append(repr(error.__context__))
    return said, x + n


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fn, calls", PROGRAMS)
def test_program(fn, calls):
    first, *changed = [lambda rest=rest: (torch.ones(2, 3), *rest) for rest in calls]
    check(fn, make=first, changed=changed)


LEFT_IN_HANDLERS = pytest.mark.skipif(
    not COUNTING, reason="a frame that breaks in a handler ends with the exception, whose traceback leads to the frame"
)


class Rows(list):
    pass


def lent_to_a_generator(x, thing):
    return x + sum(1 for _ in (each for each in thing))


def lent_to_a_coroutine(x, thing):
    async def longer(rows):
        return len(rows)

    try:
        longer(thing).send(None)
    except StopIteration as end:
        return x + end.value


def there_when_an_operation_fails(x, thing):
    try:
        return (1, 2)[len(thing)]
    except IndexError:
        return x + 1


def there_when_a_call_raises(x, thing):
    def inner(rows):
        raise KeyError(len(rows))

    try:
        inner(thing)
    except KeyError:
        return x + 1


def there_when_the_graph_breaks(x, thing):
    print(len(thing), file=None if thing else thing)
    time.time()
    return x + len(thing)


@pytest.mark.parametrize(
    "fn",
    [
        lent_to_a_generator,
        pytest.param(lent_to_a_coroutine, marks=LEFT_IN_HANDLERS),
        there_when_an_operation_fails,
        pytest.param(there_when_a_call_raises, marks=LEFT_IN_HANDLERS),
        there_when_the_graph_breaks,
    ],
)
def test_what_a_capture_saw_ends_when_nobody_has_it(fn, capsys):
    # What is imported now holds the frames that import it.
    jit.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    thing = Rows([1, 2])
    ends, compiled = weakref.ref(thing), jit.compile(fn, backend="eager")
    gc.collect()
    gc.disable()
    try:
        compiled(torch.ones(2), thing)
        del thing
        assert ends() is None
    finally:
        gc.enable()


async def ticking():
    try:
        yield 1
    finally:
        print("ticked")


def first_of(ticks):
    try:
        ticks.__anext__().send(None)
    except StopIteration as error:
        return error.value


def test_what_a_handled_exception_passed_is_let_go(capsys):
    def program(x):
        ticks = ticking()
        first = first_of(ticks)
        ticks = None
        print("over")
        return x + first

    gc.disable()  # the frames of a traceback are no circle
    try:
        jit.compile(program, backend="eager")(torch.ones(2))
    finally:
        gc.enable()
    assert capsys.readouterr().out == "ticked\nover\n"


def taking(a, /, b=2, *c, d: int = 4, **e): ...


@pytest.mark.parametrize(
    "ask", [lambda: inspect.signature(taking), lambda: inspect.signature(abs), lambda: importlib.util.find_spec("this")]
)
def test_an_answer_is_another_object_in_each_call(ask):
    def program(x, held):
        held.append(ask())
        return x + 1

    check(program, make=lambda: (torch.ones(2), []))


def test_parts_of_an_answer_that_is_made_in_each_call():
    def program(x, held):
        bound = inspect.signature(taking).bind(x, 2, d=x + 1)
        bound.apply_defaults()
        spec = importlib.util.find_spec("this")
        loader, spec.loader = spec.loader, None
        held += [bound, bound.signature.parameters["d"], loader, spec]
        return bound.args, bound.kwargs, loader.name, spec.loader

    check(program, make=lambda: (torch.ones(2), []))


class Holder:
    def __init__(self, a, b):
        self.a, self.b = a, b


UNIONS = [
    lambda t, own, m: t | own, lambda t, own, m: own | t, lambda t, own, m: OrderedDict(t) | own,
    lambda t, own, m: defaultdict(int, t) | own, lambda t, own, m: Counter(t) | own, lambda t, own, m: UserDict(t) | own,
    lambda t, own, m: t.__or__(own), lambda t, own, m: t.__ror__(own), lambda t, own, m: OrderedDict(t).__ror__(own),
    lambda t, own, m: t.__eq__(own), lambda t, own, m: t.__or__(m), lambda t, own, m: m | t, lambda t, own, m: t | m,
    lambda t, own, m: m | m, lambda t, own, m: m | OrderedDict(t), lambda t, own, m: own | m, lambda t, own, m: m == t,
    lambda t, own, m: m.__eq__(t), lambda t, own, m: t == m, lambda t, own, m: Counter(own),
    lambda t, own, m: Counter(t) - Counter(own), lambda t, own, m: Counter(UserDict(t)),
    lambda t, own, m: Counter(ChainMap(t)) | Counter(m), lambda t, own, m: Counter(t) + Counter(m), lambda t, own, m: m | 3,
    lambda t, own, m: Counter(a=5).update(own), lambda t, own, m: Counter(t).__or__(t), lambda t, own, m: Counter(t) | t,
]  # fmt: skip


@pytest.mark.parametrize("combine", UNIONS)
@pytest.mark.parametrize("fresh", [True, False])
def test_dicts_of_attributes_and_shown_dicts_are_operands(combine, fresh):
    """In a try block: an error that leaves would be the program's own, raised again."""

    def program(x, table, holder, shown):
        try:
            found = combine(table, vars(Holder(3, 1) if fresh else holder), shown)
        except TypeError as error:
            found = str(error)
        return x + 1, found, type(found)

    check(program, make=lambda: (torch.ones(2), {"a": 3, "c": 4}, Holder(3, 1), types.MappingProxyType(OrderedDict(a=7))))


@pytest.mark.parametrize("kind", [dict, OrderedDict, Counter, lambda **values: defaultdict(list, **values)])
def test_mapping_proxies_answer_as_what_they_show(kind):
    def program(x, shown):
        found = [shown.copy(), type(shown.copy()), shown.get("b"), "b" in shown]
        try:
            found.append(shown["b"])
        except KeyError as error:
            found.append(str(error))
        return x + 1, found

    check(program, make=lambda: (torch.ones(2), types.MappingProxyType(kind(a=7))))


SEEN, LOGGER = [], logging.getLogger("found")


class Keeping(logging.Handler):
    def emit(self, record):
        SEEN.append(self.format(record))


@pytest.fixture
def keeping(monkeypatch):
    monkeypatch.setattr(LOGGER, "handlers", [Keeping()])
    monkeypatch.setattr(LOGGER, "propagate", False)
    SEEN.clear()


def test_what_a_handler_wrote_is_read(keeping):
    def program(x):
        before = len(SEEN)
        LOGGER.warning("told %d", 1)
        SEEN.append(2)
        return x + before, len(SEEN), SEEN[-2]

    check(program, torch.ones(2))


def test_a_dropped_generator_is_none_of_the_steps_up_to_a_break(keeping):
    """The capture ends at the message, and had found a break a few steps later."""

    def stepping():
        try:
            yield 1
        finally:
            SEEN.append(1)

    def program(x, n):
        x = x + next(stepping())
        LOGGER.warning("told %d", 1)
        SEEN.append(decimal.Decimal(n))
        return x

    check(program, torch.ones(2), 3)


def test_what_no_handler_knows_is_read(keeping):
    def program(x, items):
        LOGGER.warning("told %d", 1)
        items.append(2)
        return x + len(items)

    check(program, torch.ones(2), [1], graphs=1)


def test_what_warnings_are_recorded_in_is_read():
    def program(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("told")
            return x + len(caught)

    check(program, torch.ones(2))


async def answering(number):
    return number


@pytest.mark.parametrize("raising", [lambda x: [][0], lambda x: x.view(7)])
def test_a_coroutine_that_an_error_drops_is_missed(raising):
    def program(x):
        return answering(1), raising(x + 1)

    with pytest.warns(RuntimeWarning, match="'answering' was never awaited"), pytest.raises((IndexError, RuntimeError)):
        jit.compile(program, backend="eager")(torch.ones(3, 4))


def test_a_coroutine_beside_a_call_that_breaks_the_graph_and_raises_is_missed_before_the_handler_runs():
    def fails():
        jit.graph_break()
        raise KeyError(1)

    def program(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                return x, answering(1), fails()
            except KeyError:
                told = len(seen)
        return x + 1, told

    check(program, torch.ones(2))


@pytest.mark.skipif(not COUNTING, reason="a continuation's argument, as after a forced break, ends after its frame")
def test_a_coroutine_that_a_call_drops_which_broke_the_graph_is_missed_there():
    @jit.disable
    def raising(x):
        raise ValueError(len(x))

    def missed(x):
        return answering(1), raising(x)

    def handled(x):
        try:
            return [answering(1)], raising(x)
        except ValueError:
            return x + 1

    def handled_further_out(x):
        try:
            return missed(x)
        except ValueError:
            return x + 1

    for fn in (missed, handled, handled_further_out):
        check(fn, torch.ones(3, 4))


def test_handlers_are_looked_at_without_their_code(monkeypatch):
    """What a handler reaches is found while tracing."""
    asked = []

    class Watched(logging.Handler):
        def __getattribute__(self, name):
            asked.append(name)
            return super().__getattribute__(name)

        def emit(self, record):
            pass

    def program(x):
        LOGGER.warning("told")
        return x + 1

    monkeypatch.setattr(LOGGER, "handlers", [Watched()])
    monkeypatch.setattr(LOGGER, "propagate", False)
    asked.clear()
    program(torch.ones(2))
    eager = list(asked)
    asked.clear()
    jit.compile(program, backend="eager")(torch.ones(2))
    assert asked == eager


class Size(enum.Enum):
    SMALL = 1


def test_an_error_of_pythons_library_tells_of_its_frames():
    def program(x):
        try:
            return Size(4), x
        except ValueError as error:
            return [(each.name, each.lineno, each.colno) for each in traceback.extract_tb(error.__traceback__)], x + 1

    def walked(x):
        lines = []
        try:
            return Size("large"), x
        except ValueError as error:
            trace = error.__traceback__
            while trace is not None:
                lines.append(trace.tb_lineno)
                trace = trace.tb_next
        return lines, x + 1

    for fn in (program, walked):
        check(fn, torch.ones(2))


def test_an_error_keeps_its_traceback_while_what_handles_it_is_compiled():
    def told(x):
        jit.graph_break()
        return x + 1

    kept = KeyError(1)
    try:
        raise kept
    except KeyError:
        check(told, torch.ones(2))
    assert kept.__traceback__ is not None


def test_a_method_that_is_missing_is_named_by_the_error_of_methodcaller():
    def program(x, value):
        try:
            return operator.methodcaller("appendd", 1)(value)
        except AttributeError as error:
            jit.graph_break()
            return error.name, error.obj is value, x + 1

    for value in ([], None, torch.ones(2)):
        check(program, torch.ones(2), value)


def test_conditions_on_numbers_of_a_class_do_not_keep_it():
    """Nor do those that it is the same as, or another than something."""
    def program(x, cls, other):
        return x * cls.extra + other.extra, cls is other

    compiled = jit.compile(program, backend="eager")
    for number in (3, 4, 5):
        first, second = (type("Passing", (), {"extra": number + step}) for step in range(2))
        assert compiled(torch.ones(2), first, second)[1] is False and compiled(torch.ones(2), first, first)[1] is True
        ends = [weakref.ref(first), weakref.ref(second)]
        del first, second
        gc.collect()
        assert [end() for end in ends] == [None, None]


class Level:
    def __init__(self, level):
        self.level = level

    def up(self):
        return self.level + 1


def test_what_a_class_of_the_frame_inherits_does_not_keep_it():
    """As what compiles later knows of it that its bases are the same (`super` asks for them), and with it what its
    methods have from the frame."""
    def program(x):
        held = Level(5)

        class Higher(Level):
            def up(self):
                return super().up() + held.level

        class Highest(Higher):
            pass

        jit.graph_break()
        return x + Highest(1).up(), weakref.ref(held), weakref.ref(Higher), weakref.ref(Highest)

    compiled = jit.compile(program, backend="eager")
    for _ in range(3):
        result, *ends = compiled(torch.ones(2))
        torch.testing.assert_close(result, torch.ones(2) + 7)
        gc.collect()
        assert [end() for end in ends] == [None, None, None]


class AnswersAll:
    """Which is asked for its class by `isinstance`, too."""

    asked = []

    def __getattribute__(self, name):
        AnswersAll.asked.append(name)
        return 0


def test_an_object_beside_a_branch_is_asked_nothing():
    def program(x):
        held = AnswersAll()
        jit.graph_break()
        held.number = 0
        held.number += 1 if x.sum() > 0 else None

    for compiled in (program, jit.compile(program, backend="eager")):
        AnswersAll.asked.clear()
        compiled(torch.ones(2))
        assert AnswersAll.asked == ["number"]


class JudgedLate:
    def __init__(self, held):
        self.held = held

    def __bool__(self):
        return self.held.max().item() > 2


def test_what_bool_gives_may_be_known_late():
    def program(x):
        try:
            return "yes" if JudgedLate(x) else "no", not JudgedLate(x)
        except TypeError as error:
            return str(error)

    check(program, torch.ones(2), changed=[(torch.full((2,), 3.0),)])


TOLD = []


def test_an_argument_that_waits_for_the_next_ones_ends_when_the_call_is_over():
    def program(box, break_it):
        def inside():
            weakref.finalize(JudgedLate(1), TOLD.append, weakref.ref(box)().held).detach()
            TOLD.append("left")

        def broken():
            weakref.finalize(JudgedLate(1), TOLD.append, break_it()).detach()
            return weakref.ref(JudgedLate(1), break_it())() is None

        inside()
        return broken(), weakref.finalize(JudgedLate(1), TOLD.append, break_it()).alive

    for compiled in (program, jit.compile(program, backend="eager")):
        for _ in range(2):
            TOLD.clear()
            assert compiled(JudgedLate(5), jit.graph_break) == (True, False)
            assert TOLD == [5, "left", None, None]


@pytest.mark.parametrize("value", [numpy.bool_(True), 1, None, "a"], ids=repr)
@pytest.mark.parametrize("switch", [
    torch.set_grad_enabled, torch._C._set_grad_enabled, torch.set_default_dtype,
    lambda value: torch.autocast("cpu", enabled=value),
], ids=["grad", "native", "dtype", "autocast"])
def test_a_switch_that_refuses_a_value(switch, value):
    def program(x, value):
        try:
            with switch(value):
                return x + 1
        except TypeError as error:
            return str(error)

    check(program, torch.ones(2), value)


def test_a_view_without_a_node_beside_checks():
    """Written through a view, one that requires a gradient has a node that autograd can't make again."""
    def program(x):
        view = x[:]
        array = numpy.asarray(x.detach()).copy().astype(float)
        array[[0, 2, 0]] = -numpy.ones((3, 4), dtype=numpy.float32)
        x.requires_grad_()
        view.detach().add_(2)
        return -(array * 3)

    check(program, make=lambda: (torch.ones(3, 8)[:, 1:5],))


@pytest.mark.parametrize("kind", [frozenset, set, tuple])
def test_a_frozenset_that_a_traceback_holds_from_before_it_was_made(kind):
    """The frame of the traceback holds what its variables are at the end: nobody saw a frozenset with less in it."""
    def program(x, items):
        try:
            int(x)
        except Exception:
            print("failed")
            made = kind(items)
            return x, made

    check(program, torch.ones(2), [3, 1, 2], changed=[(torch.ones(2), []), (torch.ones(2), [5, 5, 0, 1])])
