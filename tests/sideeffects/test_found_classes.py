"""What random programs found in classes: what a user's container says of itself, and what the frame stores in a class."""
import abc
import collections
import itertools

import pytest
import torch

from tests.differential import check


class Loud(list):
    """Says which of its methods run."""

    def __len__(self):
        print("len")
        return super().__len__()

    def __iter__(self):
        print("iter")
        return super().__iter__()

    def __getitem__(self, index):
        print("get", index)
        return super().__getitem__(index)

    def __reversed__(self):
        print("reversed")
        return super().__reversed__()


class LoudDict(dict):
    def __len__(self):
        print("len")
        return super().__len__()

    def __iter__(self):
        print("iter")
        return super().__iter__()

    def keys(self):
        print("keys")
        return super().keys()


class LoudOrder(collections.OrderedDict):
    def __len__(self):
        print("len")
        return super().__len__()

    def __iter__(self):
        print("iter")
        return super().__iter__()


def _kept(x, held):
    return x + 1, [held]


def _read(x, held):
    print("program", next(iter(held)))
    return x + 1


def _counted(x, held):
    return x + len(held)


@pytest.mark.parametrize("program", [_kept, _read, _counted], ids=lambda p: p.__name__)
@pytest.mark.parametrize("held", [Loud([1, 2, 3]), LoudDict(a=1, b=2), LoudOrder(a=1, b=2)], ids=lambda h: type(h).__name__)
def test_guards_run_no_method_of_a_user_s_container(held, program):
    check(program, make=lambda: (torch.ones(3), type(held)(held)))


@pytest.mark.parametrize("make", [iter, reversed, list.__iter__, lambda held: itertools.zip_longest([1], held), enumerate])
def test_an_iterator_over_a_user_s_list_is_made_once(make):
    def program(x, held):
        try:
            found = make(held)
        except KeyError:
            print("no")
        return x + 1, found

    check(program, make=lambda: (torch.ones(3), Loud([1, 2])), then=lambda result, *_: list(result[1]))


def _a_list(x, held):
    return list(held), [*held, x]


def _a_tuple(x, held):
    return tuple(held), (*held, x)


def _arguments(x, held):
    return print(*held, sep="/"), max(*held)


def _extended(x, held):
    found = [x]
    found.extend(held)
    found += held
    return found


@pytest.mark.parametrize("program", [_a_list, _a_tuple, _arguments, _extended], ids=lambda p: p.__name__)
def test_a_user_s_container_is_asked_how_long_it_is(program):
    check(program, make=lambda: (torch.ones(3), Loud([1, 2])))


class Latest(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)


class Made(collections.defaultdict):
    pass


class Plain(dict):
    pass


_DICTS = [lambda: {"a": 1, "b": 2}, lambda: collections.OrderedDict(b=1, c=2), lambda: Latest(c=1, a=2), lambda: Made(list, a=3, d=4),
          lambda: collections.defaultdict(int, e=1), lambda: Plain(a=0, z=9)]


@pytest.mark.parametrize("left, right", [*itertools.product(range(len(_DICTS)), repeat=2)])
def test_unions_of_dicts_of_a_user_s_class(left, right):
    def program(x, one, other):
        both = one | other
        return x + 1, both, type(both).__name__

    check(program, make=lambda: (torch.ones(3), _DICTS[left](), _DICTS[right]()))


# --- attributes of classes --------------------------------------------------------------------------------------------
class Base:
    made = 0


class Derived(Base):
    pass


def _new_name(x, held):
    Base.shared = x + 1
    return held.shared, getattr(held, "shared", None), Derived.shared, hasattr(held, "other")


def _old_name(x, held):
    Base.made += 1
    return x + held.made, Derived.made, type(held).made


def _own_name(x, held):
    Derived.made = 5
    held.made += 1
    return x + held.made, Base.made, vars(held)


def _a_function(x, held):
    Base.again = lambda self: (self, 1)
    return x + held.again()[1]


def _a_property(x, held):
    Base.twice = property(lambda self: self.made * 2)
    return x + held.twice


def _a_base_after(x, held):
    Base.made = 3
    Derived.made = 4
    Base.made = 5
    return x + held.made, Base.made, Base().made


@pytest.mark.parametrize("program", [_new_name, _old_name, _own_name, _a_function, _a_property, _a_base_after], ids=lambda p: p.__name__)
def test_a_stored_attribute_of_a_class_is_seen_by_all_who_inherit_it(program):
    check(program, make=lambda: (torch.ones(3), Derived()))


# --- super() of a class of the library --------------------------------------------------------------------------------
class Votes(collections.Counter):
    def __missing__(self, key):
        return 1


class Noted(collections.Counter):
    def update(self, iterable=None, /, **more):
        self.updated = True
        super().update(iterable, **more)


@pytest.mark.parametrize("given", ["aab", {"a": 2}, collections.Counter("abb"), None], ids=str)
@pytest.mark.parametrize("cls", [Votes, Noted])
def test_counters_of_a_user_s_class(cls, given):
    def program(x, given):
        made = cls(given)
        made.update("ab")
        made["z"] += 1
        return x + 1, made, made.most_common(1), cls(made)

    check(program, torch.ones(3), given)


class Slotted:
    __slots__ = ("a",)


@pytest.mark.parametrize("read", [lambda held: held.__dict__, lambda held: hasattr(held, "__dict__"), vars])
def test_an_object_without_a_dict_has_none(read):
    def program(x, held):
        try:
            return x, read(held)
        except (AttributeError, TypeError) as error:
            return x + 1, str(error)

    check(program, make=lambda: (torch.ones(3), Slotted()))


# --- what looks or stores in the way of a user's class ----------------------------------------------------------------
@pytest.mark.parametrize("kind", ["keys", "values", "items"])
@pytest.mark.parametrize("made", [Plain, collections.Counter, Votes, Latest, lambda d: collections.defaultdict(list, d), lambda d: Made(int, d)])
def test_an_existing_iterator_over_a_dict_of_any_class(made, kind):
    def program(x, iterator, held):
        first = next(iterator)
        return x + 1, first, max(iterator, default=None), held

    def make():
        held = made({"a": 1, "b": 2, "c": 3})
        return torch.ones(3), iter(getattr(held, kind)()), held

    check(program, make=make)


def _update(x, held):
    held.update(a=x, z=1)


def _setdefault(x, held):
    return held.setdefault("z", x)


def _inplace(x, held):
    held |= {"a": x}


def _pop(x, held):
    return held.pop("a"), held.popitem()


def _made(x, held):
    return Latest(held, z=1), held.copy()


@pytest.mark.parametrize("program", [_update, _setdefault, _inplace, _pop, _made], ids=lambda p: p.__name__)
def test_methods_of_an_ordered_dict_store_in_the_way_of_its_class(program):
    check(program, make=lambda: (torch.ones(3), Latest(a=1, b=2, c=3)))


class Registry(type):
    born = 0

    def __call__(cls, *args):
        made = super().__call__(*args)
        Registry.born += 1
        made.number = cls.born
        return made


class Registered(metaclass=Registry):
    pass


def test_a_stored_attribute_of_a_metaclass_is_seen_by_its_classes():
    def program(x):
        first, second = Registered(), Registered()
        return x + second.number, first, second, Registered.born

    def make():
        Registry.born = 0
        return (torch.ones(3),)

    check(program, make=make)


def test_a_name_that_a_module_does_not_have_is_not_deleted():
    def program(x):
        itertools.some_name = x + 1
        del itertools.some_name
        try:
            del itertools.some_name
        except AttributeError as error:
            return str(error).replace("itertools", "")

    check(program, torch.ones(3))


class Named:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Named) and self.name == other.name


def _two_keys(x, table, ring):
    table[Named(1)] = x
    table[Named(2)] = x
    return [key.name for key in table]


def _keys_around_another_write(x, table, ring):
    table[Named(1)] = x
    ring.append(1)
    ring.popleft()
    table[Named(2)] = x
    return x + 1


def _key_after_another(x, table, ring):
    table["k"] = 1
    found = {Named(3)}
    table["found"] = found
    return x + 1


@pytest.mark.parametrize(
    "program",
    [_two_keys, _keys_around_another_write, _key_after_another],
    ids=lambda p: p.__name__,
)
def test_keys_that_the_frame_made_have_their_attributes_first(program):
    check(program, make=lambda: (torch.ones(3), {}, collections.deque([1, 2], maxlen=2)))


class Deleting(collections.OrderedDict):
    def __delitem__(self, key):
        super().__delitem__(key)


def _changed_by_what_breaks(x, order, plain):
    seen = []
    try:
        for key in order:
            seen.append(key)
            order.pop(key)
    except RuntimeError as error:
        seen.append(str(error))
    return x + 1, seen


def _changed_beside_a_wrapper(x, order, plain):
    seen, steps = [], enumerate(order)
    seen.append(next(steps))
    order.pop("b")
    try:
        seen.append(next(steps))
    except RuntimeError as error:
        seen.append(str(error))
    return x + 1, seen


@pytest.mark.parametrize("program", [_changed_by_what_breaks, _changed_beside_a_wrapper], ids=lambda p: p.__name__)
@pytest.mark.parametrize("kind", [Deleting, collections.OrderedDict, dict])
def test_iterators_stand_before_what_breaks_the_graph(kind, program):
    check(program, make=lambda: (torch.ones(3), kind(a=1, b=2, c=3), {}))


# --- what Python refuses ----------------------------------------------------------------------------------------------
class Abstract(abc.ABC):
    @abc.abstractmethod
    def method(self):
        pass


class Unhashed:
    def __eq__(self, other):
        return True


@pytest.mark.parametrize("refused", [Abstract, lambda: setattr(Slotted(), "no", 1), lambda: hash(Unhashed())], ids=["abstract", "slots", "hash"])
def test_what_a_class_refuses_is_caught_in_one_graph(refused):
    def program(x):
        try:
            refused()
        except (AttributeError, TypeError) as error:
            return x + 1, str(error)

    check(program, torch.ones(3), graphs=1)
