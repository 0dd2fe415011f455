"""Methods as values: their names, equality, and use as keys."""

import enum
import threading
import weakref

import pytest
import torch

import jit
from tests.differential import Counting, check, same_as_eager


class Level(enum.IntEnum):
    LOW = 5


class Text(enum.StrEnum):
    ABC = "abc"


@same_as_eager(graphs=1)
def test_a_tensors_methods_are_equal_and_never_the_same():
    x = torch.ones(2)
    hook = x.register_hook
    return x + 1, x.add == x.add, x.add != x.add, x.add == x.sub, x.add is x.add, hook == x.register_hook


@same_as_eager(graphs=1)
def test_a_tensors_method_is_a_key():
    x, y = torch.ones(2), torch.zeros(2)
    table = {x.add: 1, y.add: 2}
    return x + 1, table[x.add], table[y.add], x.sub in table


@same_as_eager(graphs=1)
def test_methods_of_one_text_are_equal():
    text = "abc"
    return torch.ones(2) + 1, text.join == text.join, text.join == text.split, [].append == [].append


@same_as_eager(graphs=1)
def test_names_of_methods():
    x = torch.ones(2)
    return x + 1, x.sum.__name__, "".join.__name__, [].append.__qualname__, x.sum.__self__ is x


@same_as_eager(graphs=1)
def test_enum_members_have_the_methods_of_their_values():
    return torch.ones(2) * Level.LOW.bit_length(), Text.ABC.upper(), Level.LOW.to_bytes(2, "big"), Level.LOW.name


@same_as_eager
def test_what_only_the_unbound_method_has():
    x = torch.ones(2) + 1
    try:
        [].append.__objclass__
    except AttributeError as error:
        return x, str(error)


class Counter:
    def __init__(self, step):
        self.step = step

    def count(self, n):
        return n + self.step

    again = count

    @classmethod
    def made(cls):
        return cls(1)


ONE, TWO = Counter(1), Counter(2)


@same_as_eager(graphs=1)
def test_methods_of_one_object_are_equal():
    mine = Counter(3)
    same = (ONE.count == ONE.count, ONE.count == ONE.again, mine.count == mine.count, ONE.made == TWO.made, ONE.made == Counter.made)
    other = (ONE.count == TWO.count, ONE.count != TWO.count, ONE.count == ONE.made, ONE.count is ONE.count)
    return torch.ones(2) + 1, same, other, {ONE.count: 1}[ONE.again], TWO.count in [ONE.count, TWO.count]


# --- methods that come in ---------------------------------------------------------------------------------------------
def _called(method, other, x):
    return method(2), method is other, method == other, {method: 1}.get(other), x + 1, [method]


def _worlds(count):
    for n in range(count):
        x = torch.full((2,), float(n))
        yield x.mul, x.mul, x
        yield x.add, x.mul, x


def test_methods_of_tensors_that_come_in():
    first, *others = _worlds(3)
    check(_called, *first, changed=others, graphs=1)


def test_a_method_given_twice():
    x = torch.ones(2)
    method = x.add
    check(_called, method, method, x, changed=[(method, x.add, x)], nodes=False)


def test_methods_of_containers_that_come_in():
    def program(append, get, x):
        append(get("a", 1))
        return x + append.__self__[-1]

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for n in range(4):
        mine, theirs, x = [n], [n], torch.ones(2)
        assert torch.equal(compiled(mine.append, {"a": n + 1}.get, x), program(theirs.append, {"a": n + 1}.get, x))
        assert mine == theirs == [n, n + 1]
    counter.expect(2, "numbers vary from the second call on")


def test_a_break_among_the_arguments_of_a_tensors_method():
    """The method waits for them on the stack, and it is another object at each call."""
    def number(x):
        jit.graph_break()
        return 3

    def program(x, y):
        return x.new_ones(number(x)) * 2 + x.add(number(y)).sum()

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for _ in range(4):
        x, y = torch.randn(4), torch.randn(4)
        assert torch.equal(compiled(x, y), program(x, y))
    counter.expect(2)


def test_a_lock_held_at_each_call_is_no_reason_to_compile_again():
    """Continuations are handed its `__exit__`, another object each time."""
    def program(x, lock):
        with lock:
            y = x + 1
        return y * 2

    for make in (threading.Lock, threading.RLock):
        counting = Counting()
        compiled, x = jit.compile(program, backend=counting), torch.ones(2)
        found = [compiled(x, make()) for _ in range(3)]
        made = len(counting.graphs)
        assert all(torch.equal(each, (x + 1) * 2) for each in [*found, *(compiled(x, make()) for _ in range(20))])
        assert len(counting.graphs) == made


class Room(list):
    pass


class Trouble(ValueError):
    pass


def test_a_method_on_the_stack_at_a_break_keeps_no_object():
    """What it was made of was a fact of the continuation, which kept it: an error with all that its frames held."""

    def note(x, made):
        each = made()
        held = weakref.ref(each)
        return x + 1, held, add(each)(text(x))

    def text(x):
        jit.graph_break()
        return "noted"

    cases = ((Trouble, lambda error: error.add_note), (Room, lambda room: room.append), (Room, lambda room: room.__contains__))
    for made, add in cases:
        compiled, entries = jit.compile(note, backend="eager"), []
        for _ in range(3):
            gone = compiled(torch.ones(2), made)[1]
            assert gone() is None
            entries.append(jit.stats()["captures"])
        assert entries[1] == entries[2]


class Named(str):
    def greet(self):
        return "hello"


class Even:
    """Equal to all others, which no method of it is."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    def greet(self):
        return "hello"


def test_methods_of_two_objects_are_two_keys():
    """Those of one, which the next call may bring, are one key. What the objects are equal to is not asked."""

    def keys(x, known, one, other):
        return x + 1, one.greet in known, other.greet in known, len({one.greet, other.greet}), {one.greet: 1}.get(other.greet)

    for make in (lambda: Named("a"), Even):
        def world(is_one, make=make):
            one = make()
            return torch.ones(2), {one.greet}, one, one if is_one else make()

        check(keys, make=lambda: world(False), changed=[lambda: world(True), lambda: world(False)])


def test_native_methods_of_two_objects_are_two_keys():
    def keys(x, known, one, other):
        return x + 1, one.append in known, other.append in known, len({one.append, other.append})

    def world(is_one):
        one = [1]
        return torch.ones(2), {one.append}, one, one if is_one else [1]

    check(keys, graphs=1, make=lambda: world(False), changed=[lambda: world(True), lambda: world(False)])


class Plain:
    def __get__(self, instance, owner=None):
        return self, instance, owner

    def __call__(self, *args):
        return "called", *args


class Around:
    """What a classmethod is around."""

    size = classmethod(property(lambda cls: len(cls.__name__)))
    twice = classmethod(classmethod(lambda cls: cls))
    static = classmethod(staticmethod(lambda *args: args))
    described = classmethod(Plain())
    bound = classmethod({1: 2}.get)
    native = classmethod(len)
    made = classmethod(str)


class Beneath(Around):
    def ask(self, name):
        return getattr(super(), name)

    @classmethod
    def ask_class(cls, name):
        return getattr(super(), name)


@pytest.mark.parametrize("name", [name for name in vars(Around) if not name.startswith("_")])
def test_a_classmethod_gives_what_its_own_descriptor_gives(name):
    @same_as_eager
    def ask(x):
        found = []
        for get in lambda: getattr(Around, name), lambda: getattr(Beneath(), name), lambda: Beneath().ask(name):
            each = get()
            found += [x + 1, type(each), getattr(each, "__self__", None), each if type(each) in (int, tuple) else None]
        found.append(type(Beneath.ask_class(name)))
        try:
            found.append(Beneath().__getattribute__(name)())
        except TypeError as error:
            found.append(str(error))
        return found

    ask()


def test_an_objects_own_equality_is_not_asked_where_its_method_breaks_the_graph():
    class Counts:
        asked = 0

        def __eq__(self, other):
            Counts.asked += 1
            return self is other

        __hash__ = None

        @jit.disable
        def method(self):
            return 5

    counts = Counts()
    compiled = jit.compile(lambda x: (x + 1, counts.method()), backend="eager")
    assert compiled(torch.ones(2))[1] == 5
    assert Counts.asked == 0
