"""What CPython's own tests found (`tools/coverage`): of classes, lifetimes, iterators and functools, each as a small
program.

PYTEST_DONT_REWRITE: what is compared lives no longer than the programs let it.
"""

import abc
import copy
import functools
import itertools
import operator
import types
import typing
import weakref
from collections import Counter, OrderedDict, deque

import torch

import jit
from tests.differential import same_as_eager, tensors

(X,) = tensors(3, 4)


def errors_of(*calls):
    found = []
    for call in calls:
        try:
            found.append(call())
        except (TypeError, ValueError, AttributeError, RuntimeError, LookupError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


# --- classes ----------------------------------------------------------------------------------------------------------
class Meta(type):
    pass


@same_as_eager
def test_native_methods_of_super_of_a_class(x):
    made = Meta("Made", (), {})
    super(Meta, type(made)).__setattr__(made, "number", 1)
    return x + 1, made.number


class Prepares(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return {"prepared": True}


class Prepared(metaclass=Prepares):
    pass


@same_as_eager
def test_a_class_lives_as_long_as_its_variable(x):
    made = types.new_class("Made", (Prepared,))
    found = "prepared" in made.__dict__
    return x + 1, found


class Unprepared(type):
    @classmethod
    def __prepare__(*args):
        return None


@same_as_eager
def test_namespaces_that_are_none(x):
    def of_class():
        class Made(metaclass=Unprepared):
            pass

    return x + 1, errors_of(of_class)


class Module(types.ModuleType):
    number = 1


@same_as_eager
def test_the_class_of_a_module(x):
    module = types.ModuleType("name")
    before = hasattr(module, "number")
    module.__class__ = Module
    return x + 1, before, module.__class__ is Module, hasattr(module, "number")


@same_as_eager
def test_modules_without_a_name(x):
    module = types.ModuleType.__new__(types.ModuleType)
    return x + 1, errors_of(lambda: module.__name__, lambda: module())


class Holds:
    def method(self):
        return self


class Other:
    pass


@same_as_eager
def test_methods_are_bound_once(x):
    one, other = Holds(), Other()
    bound = one.method.__get__(other, Other)
    return x + 1, bound() is one, bound.__class__ is types.MethodType, one.method.__call__() is one


@same_as_eager
def test_attributes_with_names_that_are_no_strings(x):
    class Evil:
        def __hash__(self):
            return hash("number")

        def __eq__(self, other):
            return False

    one = Other()
    one.__dict__[Evil()] = 0
    return x + 1, errors_of(lambda: one.number)


class Slotted:
    __slots__ = ("slot", "__dict__")


@same_as_eager
def test_slots_are_not_in_the_dict(x):
    one = Slotted()
    jit.graph_break()
    one.slot, one.number = 1, 2
    return x + 1, sorted(one.__dict__), one.__dict__ == {"number": 2}, len(one.__dict__)


@typing.runtime_checkable
class Sized(typing.Protocol):
    height: int
    width: int


class Box:
    def __init__(self):
        self.height, self.width = 1, 2


@same_as_eager
def test_protocols_of_attributes(x):
    @typing.runtime_checkable
    class Tall(typing.Protocol):
        height: int

    return x + 1, [isinstance(one, kind) for one in (Box(), Other()) for kind in (Sized, Tall)]


@same_as_eager
def test_registered_for_a_protocol(x):
    class Numbered(typing.Protocol):
        number = 1

    class Without:
        pass

    abc.ABCMeta.register(Numbered, Without)
    return x + 1


class Reduces:
    def __init__(self, answer):
        self.answer = answer

    def __getnewargs_ex__(self):
        return self.answer


@same_as_eager
def test_arguments_of_new_that_are_none(x):
    answers = [((1,), "text"), ("text", {}), (), ((1,), {}, 2), "text"]
    return x + 1, errors_of(*(functools.partial(Reduces(answer).__reduce_ex__, 4) for answer in answers))


# --- lifetimes --------------------------------------------------------------------------------------------------------
class Seen:
    def method(self):
        return self


@same_as_eager
def test_what_is_deleted_after_a_break_is_gone(x):
    one = Seen()
    jit.graph_break()
    reference = weakref.ref(one)
    before = reference() is one
    del one
    return x + 1, before, reference() is None


@same_as_eager
def test_weak_methods_and_keys_of_what_is_deleted(x):
    one, other = Seen(), Seen()
    method = weakref.WeakMethod(one.method)
    numbers = weakref.WeakKeyDictionary({one: 1, other: 2})
    before = len(numbers)
    del one
    return x + 1, before, method() is None, len(numbers)


class Float(float):
    pass


@same_as_eager
def test_numbers_that_are_referenced_weakly(x):
    number = Float(2.0)
    proxy = weakref.proxy(number)
    first = proxy + 1.0
    jit.graph_break()
    return x + 1, first, 1.0 + proxy


@same_as_eager
def test_an_object_has_one_weak_reference(x):
    one = Seen()
    first = weakref.ref(one)
    proxy = weakref.proxy(one)
    second = weakref.ref(one)
    return x + 1, first is second, weakref.getweakrefcount(one), proxy.method() is one


@same_as_eager
def test_identities_of_what_is_dropped_at_once(x):
    return x + 1, len(set(map(id, enumerate([5, 6, 7])))), id(x) == id(x)


# --- iterators --------------------------------------------------------------------------------------------------------
@same_as_eager
def test_combinations_across_a_break(x):
    made = [
        itertools.product([x, x + 1], repeat=2),
        itertools.combinations("abcd", 2),
        itertools.permutations("abc"),
        itertools.combinations_with_replacement((1, 2), 2),
    ]
    for each in made:
        next(each)
    kinds = [type(each).__name__ for each in made]
    jit.graph_break()
    return kinds == [type(each).__name__ for each in made], [list(each) for each in made], next(made[0], None)


@same_as_eager
def test_combinations_are_set_up(x):
    made = itertools.product((1, 2), (3,))
    made.__setstate__((0, 100))
    return x + 1, next(made)


@same_as_eager
def test_a_sum_that_is_none(x):
    made = itertools.accumulate([None, None, None], operator.is_)
    next(made)
    jit.graph_break()
    return x + 1, list(copy.copy(made)), list(made)


@same_as_eager
def test_pairs_of_what_asks_for_pairs(x):
    def pairs(count):
        class Asks:
            step = 0

            def __iter__(self):
                return self

            def __next__(self):
                if self.step >= count:
                    raise StopIteration
                self.step += 1
                return next(made, None) if self.step == 1 else [self.step]

        made = itertools.pairwise(Asks())
        return list(made)

    return x + 1, pairs(1), pairs(2), pairs(4)


class BadLength:
    def __iter__(self):
        return iter(range(3))

    def __len__(self):
        raise RuntimeError("of no length")


class BadHint:
    def __iter__(self):
        return iter(range(3))

    def __length_hint__(self):
        raise RuntimeError("no hint")


@same_as_eager
def test_lengths_that_raise(x):
    buffer, items = bytearray(3), [1]
    calls = [functools.partial(f, kind()) for f in (buffer.extend, items.extend, list) for kind in (BadLength, BadHint)]
    return x + 1, errors_of(*calls), buffer, items


# --- containers -------------------------------------------------------------------------------------------------------
class AsText:
    def __hash__(self):
        return hash("three")

    def __eq__(self, other):
        return isinstance(other, AsText) or isinstance(other, str) and other == "three"


@same_as_eager(graphs=1)
def test_hashes_that_are_those_of_text(x):
    texts, objects = {"one": 1, "three": 3}, {"one": 1, AsText(): 3}
    found = texts.get(AsText()), objects.get("three"), AsText() in texts, "three" in objects, len({AsText(), "three"})
    return x + 1, found, hash(AsText()) == hash("three")


class Changes:
    def __init__(self, items, answer):
        self.items, self.answer = items, answer

    def __eq__(self, other):
        self.items.clear()
        return self.answer

    __hash__ = None


def changing(answer):
    items = deque(range(4))
    items[2] = Changes(items, answer)
    return items


@same_as_eager(graphs=1)
def test_deques_that_change_while_they_are_searched(x):
    one, other = changing(False), changing(True)
    calls = [functools.partial(call, changing(answer), 9)
             for call in (deque.count, deque.index, operator.contains) for answer in (False, True)]
    return x + 1, errors_of(*calls, lambda: one.remove(9), lambda: other.remove(9)), len(one), len(other)


@same_as_eager(graphs=1)
def test_lists_that_change_while_they_are_compared(x):
    first, second = [], []
    first.append(Changes(second, NotImplemented))
    second.append(Changes(first, NotImplemented))
    return x + 1, first == second, first, second


class Derived(dict):
    pass


@same_as_eager
def test_views_of_derived_dicts(x):
    one = Derived()
    shown = one.keys().mapping
    before = shown == one
    one["a"] = 1
    return x + 1, before, shown == one, len(shown), shown["a"]


@same_as_eager
def test_proxies_of_dicts_that_change(x):
    one = {}
    shown = one.keys().mapping
    before = len(shown), shown == one
    one["a"] = 1
    return x + 1, before, len(shown), shown == one, shown["a"]


@same_as_eager
def test_class_methods_of_derived_containers(x):
    return x + 1, [type(made) is Derived for made in (Derived.fromkeys("a"), Derived().fromkeys("a"))]


# --- functions --------------------------------------------------------------------------------------------------------
@same_as_eager(graphs=1)
def test_formats_that_are_no_text(x):
    return x + 1, errors_of(lambda: format(3, 5), lambda: format(3, None), lambda: format(object(), 5))


@same_as_eager(graphs=1)
def test_fields_named_as_parameters(x):
    fields = Fields(function=1, tx=2, args=3, cls=4)
    return x + 1, fields, fields._replace(function=5, tx=6, cls=7)


class Fields(typing.NamedTuple):
    function: int
    tx: int
    args: int
    cls: int


def added(*numbers):
    return sum(numbers)


WITH_ATTRIBUTE = functools.partial(added, 1)
WITH_ATTRIBUTE.number = 3
WITHOUT = functools.partial(added, 1)


@same_as_eager
def test_attributes_of_partials(x):
    made = functools.partial(WITH_ATTRIBUTE, 2)
    other = functools.partial(WITHOUT, 2)
    kept = made.func is WITH_ATTRIBUTE, other.func is added
    return x + made(3) + other(4), WITH_ATTRIBUTE.number, errors_of(lambda: WITHOUT.number), kept


@same_as_eager
def test_namespaces_of_eval_by_name(x):
    return x + 1, errors_of(lambda: eval("a + b", {"a": 1}, {"b": 2}), lambda: eval("a", globals={"a": 3}))


# --- methods of another class than the value's own ----------------------------------------------------------------------
@same_as_eager
def test_methods_of_dict_on_an_ordered_dict(x):
    made = OrderedDict(a=x, b=2, c=3)
    popped = dict.pop(made, "b"), dict.get(made, "c")
    dict.__setitem__(made, "d", 4)
    return popped, errors_of(lambda: list(made)), list(dict.keys(made)), len(made), dict.__eq__(made, {"a": x})


@same_as_eager
def test_an_ordered_dict_whose_order_has_other_keys_than_it_has(x):
    lost, gained = OrderedDict(a=1, b=2), OrderedDict(a=1, b=2)
    dict.__delitem__(lost, "a")
    dict.__setitem__(gained, "c", 3)
    jit.graph_break()
    found = list(gained), len(gained), errors_of(lambda: list(lost)), len(lost)
    return x + 1, found


@same_as_eager
def test_methods_of_object_on_values_of_other_types(x):
    counts = Counter("aab")
    dict.update(counts, a=1)
    return x + 1, object.__eq__([1], [1]), object.__ne__({}, {}), list.__eq__([1], [1]), counts, dict.copy(counts)


def described(**attributes):
    made = OrderedDict(a=1)
    made.__dict__.update(attributes)
    return made


@same_as_eager(make=lambda: (described(note=[1]),), changed=[lambda: (described(),)])
def test_attributes_of_an_existing_ordered_dict(made):
    return torch.ones(2), getattr(made, "note", None), hasattr(made, "other"), copy.copy(made), copy.deepcopy(made)


@same_as_eager
def test_copies_of_an_ordered_dict_have_its_attributes(x):
    made = OrderedDict(a=1)
    made.note = [1]
    shallow, deep = copy.copy(made), copy.deepcopy(made)
    return x + 1, shallow, deep, shallow.note is made.note, deep.note is made.note, deep.note, hasattr(made.copy(), "note")


# --- objects of the frame in what Python's own code makes of them ---------------------------------------------------------
class Numbered:
    __slots__ = ("number", "rest")

    def __init__(self, number):
        self.number = number


@same_as_eager
def test_aliases_of_objects_made_in_the_frame(x):
    made = Numbered(3)
    alias, pair = list[made], dict[str, (made, Numbered)]
    forward = typing.ForwardRef("Numbered | int")
    union = list[forward] | int
    jit.graph_break()
    found = union.__args__[0].__args__[0]
    return x + alias.__args__[0].number, alias.__args__[0] is made, pair.__args__, found is forward, found.__forward_arg__


@same_as_eager
def test_annotations_are_one_dict_of_a_function_and_its_wrapper(x):
    def inner():
        pass

    def outer():
        pass

    functools.update_wrapper(outer, inner)
    return x + 1, outer.__annotations__ is inner.__annotations__


class Greets:
    def greet(self):
        return "hello"


class GreetsMore(Greets):
    def greet(self):
        return super(GreetsMore, self).greet() + ", you"


class StandsFor:
    def __init__(self, other):
        object.__setattr__(self, "other", other)

    def __getattribute__(self, name):
        return getattr(object.__getattribute__(self, "other"), name)


@same_as_eager
def test_super_of_an_object_that_says_it_is_of_another_class(x):
    return x + 1, GreetsMore.__dict__["greet"](StandsFor(GreetsMore()))


def aliases_of(made, new_type):
    return list[made], typing.List[new_type], dict[str, (made, Numbered)], list[int, made] | None


def test_aliases_of_objects_that_another_call_has_others_of():
    compiled = jit.compile(aliases_of, backend="eager")
    for name in ("One", "Two"):
        made, new_type = Numbered(3), typing.NewType(name, int)
        first, second, third, fourth = compiled(made, new_type)
        assert first.__args__[0] is third.__args__[1][0] is fourth.__args__[0].__args__[1] is made
        assert second.__args__[0] is new_type


# --- keys that are compared by what changes ------------------------------------------------------------------------------
@same_as_eager
def test_keys_that_are_compared_by_a_variable_of_the_frame(x):
    class Alike(int):
        def __hash__(self):
            return 13

        def __eq__(self, other):
            return len(found) > 1 and int(self) == int(other)

    found = {}
    found = {Alike(1), Alike(2)}
    jit.graph_break()
    return x + len(found)


@same_as_eager
def test_comparisons_that_change_the_dict_that_is_read(x):
    class Clears:
        def __hash__(self):
            return 0

        def __eq__(self, other):
            given.clear()
            return False

    given = {1: 1, Clears(): 0, 2: 2}
    taking = {Clears(): 0, 1: 1}
    return x + 1, errors_of(lambda: taking.update(given)), len(taking), len(given)


class Movie(typing.TypedDict):
    name: str
    year: int


class CallsSomethingElse(type):
    __call__ = staticmethod(lambda *args: args)


class Called(metaclass=CallsSomethingElse):
    pass


@same_as_eager
def test_calls_of_classes_whose_metaclass_calls_something_else(x):
    film = Movie(name="it", year=3)
    made = typing.TypedDict("Made", {"name": str})(name="x")
    return x + film["year"], film, type(film) is dict, type(made) is dict, Called(), Called(1)
