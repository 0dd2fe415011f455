"""What CPython's own tests found (`tools/coverage`), each as a small program."""

import abc
import collections
import copy
import copyreg
import operator
import re
import traceback
import types
import unittest.mock
import warnings

import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def test_a_native_method_that_knows_its_class_outlives_a_break():
    def program(pattern, x):
        search = pattern.search
        jit.graph_break()
        return search("a text") is None, x + 1

    check(program, re.compile("ext"), X)


@same_as_eager(graphs=1)
def test_frames_of_a_traceback_are_cleared(x):
    class_names = []
    for number in ("1", "x"):
        try:
            x = x + int(number)
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            class_names.append(type(error.with_traceback(None)).__name__)
    return x, class_names


@same_as_eager(graphs=1)
def test_defaults_of_a_new_function_are_changed(x):
    def add(a, b=0, *, c, d=0):
        return a + b + c + d

    seen = [add(x, c=1)]
    add.__kwdefaults__ = None
    try:
        add(x, c=1)
    except TypeError as error:
        seen.append(str(error))
    add.__kwdefaults__ = {"c": 1, "d": 2}
    add.__defaults__ = (3, 4)
    seen.append(add())
    add.__kwdefaults__["d"] = 5
    add.__defaults__ = None
    try:
        add(x)
    except TypeError as error:
        seen.append(str(error))
    return add(x, 1), seen, add


def test_code_of_a_new_function_is_changed():
    def program(x):
        def one():
            return x + 1

        def two():
            return x + 2

        one.__code__ = two.__code__
        return one()

    check(program, X)


class Three:
    def __index__(self):
        return 3


class Whole(int):
    def __index__(self):
        raise AssertionError("an int is asked for no index")


@same_as_eager(graphs=1)
def test_objects_as_indices(x):
    three, seen = Three(), []
    for value in ("a text", b"bytes", (1, 2, 3, 4), [1, 2, 3, 4], range(5, 20), bytearray(b"buffer")):
        seen += [value[three], value[:three], value[three:], value[Whole(1) : three], value.__getitem__(three)]
        if not isinstance(value, range):
            seen += [value * three, three * value, value * Whole(2), value.__mul__(three), value.__rmul__(three)]
    return x + x[three - 3 if isinstance(three, int) else 0].sum(), seen


@pytest.mark.parametrize("value", ["text", b"bytes", (1, 2), [1, 2], bytearray(b"buffer"), range(3)])
@pytest.mark.parametrize("index", ["1", 1.0, None])
def test_what_is_no_index(value, index):
    class Wrong:
        def __index__(self):
            return index

    def program(x, wrong):
        seen = []
        for operation in (lambda: value[wrong], lambda: value[wrong:], lambda: value[index:], lambda: value * wrong):
            try:
                seen.append(operation())
            except TypeError as error:
                seen.append(str(error))
        return seen, x + 1

    check(program, X, Wrong())


class Modest:
    """Has its say in sums and products, and says nothing."""

    def __radd__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        return NotImplemented

    def __index__(self):
        return 2


@same_as_eager(graphs=1)
def test_a_sequence_is_asked_when_no_number_answers(x):
    seen, modest = [], Modest()
    for value in ("text", b"bytes", (1, 2), [1, 2], bytearray(b"buffer")):
        for operation in (lambda: value * Whole(2), lambda: Whole(2) * value, lambda: value * modest,
                          lambda: value + Whole(1), lambda: value * object()):
            try:
                seen.append(operation())
            except TypeError as error:
                seen.append(str(error))
    for value in ("text", b"bytes", (1, 2), [1, 2]):
        try:
            value + modest
        except TypeError as error:
            seen.append(str(error))
    items = seen[0:2]
    same = items
    items *= Whole(2)
    return x + 1, seen, items, items is same


def test_breaks_in_a_long_loop_do_not_nest():
    def program(x, count):
        for _ in range(count):
            jit.graph_break()
            x = x + 1
        return x

    check(program, X, 3000)


def test_who_is_warned_of_after_a_break():
    def inner(x, level):
        jit.graph_break()
        warnings.warn("of whom", UserWarning, level)
        return x + 1

    def program(x):
        y = inner(x, 1)
        jit.graph_break()
        y = inner(y, 2)
        return inner(y, 3)

    check(program, X)


def test_an_exception_after_breaks_in_a_loop():
    def program(x):
        for number in range(10):
            jit.graph_break()
            x = x + 1
            if number == 7:
                raise ValueError(number)
        return x

    check(program, X, traceback="full")


# --- exceptions -------------------------------------------------------------------------------------------------------
def context_of(error):
    return [type(link).__name__ for link in chain(error)], error.__suppress_context__


def chain(error):
    while error is not None:
        yield error
        error = error.__context__


@same_as_eager(graphs=1)
def test_context_of_what_is_thrown_into_a_generator(x):
    def plain():
        try:
            raise KeyError("a")
        except Exception:
            yield x + 1

    def delegating():
        try:
            raise KeyError("a")
        except Exception:
            yield from plain()

    seen = []
    for make in (plain, delegating):
        generator = make()
        next(generator)
        try:
            generator.throw(ValueError)
        except ValueError as error:
            seen.append(context_of(error))
        try:
            make().throw(ValueError)
        except ValueError as error:
            seen.append(context_of(error))
    return x + 2, seen


class Thrown:
    """An iterator with a `throw` of its own."""

    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return self

    def __next__(self):
        return "next"

    def throw(self, error):
        self.log.append(type(error).__name__)
        if isinstance(error, KeyError):
            raise StopIteration("over")
        return "thrown"

    def close(self):
        self.log.append("closed")


@same_as_eager(graphs=1)
def test_throw_reaches_the_innermost_generator(x):
    def catches():
        try:
            yield 1
        except ValueError:
            yield "caught"
        except KeyError:
            return "returned"

    def delegating(inner):
        try:
            got = yield from inner
            yield "got", got
        except Exception as error:
            yield "outside", type(error).__name__
        finally:
            log.append("end")

    log, seen = [], []
    for make in (catches, lambda: Thrown(log), lambda: iter([1, 2]), lambda: delegating(catches())):
        for error in (ValueError, KeyError, TypeError, GeneratorExit):
            generator = delegating(make())
            next(generator)
            try:
                seen.append(generator.throw(error()))
                seen.append(next(generator))
            except BaseException as raised:
                seen.append(type(raised).__name__)
            seen.append(generator.close())
    return x + 1, seen, log


@same_as_eager(graphs=1)
def test_what_a_closed_generator_returns(x):
    def generator():
        try:
            yield x
        except GeneratorExit:
            return "closed"

    made = generator()
    next(made)
    return x + 1, made.close(), made.close()


@same_as_eager(graphs=1)
def test_stop_iteration_inside_a_generator(x):
    def generator():
        yield next(iter(()))

    try:
        next(generator())
    except RuntimeError as error:
        return x + 1, context_of(error), type(error.__cause__).__name__


@same_as_eager(graphs=1)
def test_value_of_a_stop_iteration_is_set(x):
    seen = []
    for error in (StopIteration(), StopIteration("spam")):
        seen.append(error.value)
        error.value = "eggs"
        seen.append(error.value)
    return x + 1, seen, error


@same_as_eager(graphs=1)
def test_what_exceptions_do_not_take(x):
    seen = []
    for name, value in (("__cause__", 1), ("__context__", "no"), ("__traceback__", 3), ("__suppress_context__", "yes")):
        error = ValueError("mine")
        for operation in (lambda: setattr(error, name, value), lambda: delattr(error, name), lambda: del_args(error)):
            try:
                operation()
            except TypeError as wrong:
                seen.append(str(wrong))
    return x + 1, seen


def del_args(error):
    del error.args


@same_as_eager(graphs=1)
def test_a_circle_of_contexts_has_an_end(x):
    first, second, third = ValueError("first"), ValueError("second"), ValueError("third")
    first.__context__, second.__context__ = second, first
    try:
        try:
            raise first
        except ValueError:
            raise third
    except ValueError as error:
        return x + 1, error.__context__ is first, first.__context__ is second, second.__context__ is first


class Keeps:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.trace = trace
        return False


def lines_of(trace):
    lines = []
    while trace is not None:
        lines.append((trace.tb_frame.f_code.co_name, trace.tb_lineno - trace.tb_frame.f_code.co_firstlineno))
        trace = trace.tb_next
    return lines


def test_a_traceback_outlives_that_of_its_exception():
    def fails():
        raise ValueError("mine")

    def program(x):
        keeps = Keeps()
        try:
            with keeps:
                fails()
        except ValueError as error:
            if x.dim() == 1:
                error.__traceback__ = None
        return keeps

    check(program, X, then=lambda keeps, *args: [line for line in lines_of(keeps.trace) if line[0] != "observe"])


class Properties:
    unreadable = property(None, lambda self, value: None)
    fixed = property(lambda self: 1)
    nameless = None


Properties.nameless = property()


@same_as_eager(graphs=1)
def test_what_properties_do_not_do(x):
    seen, owner = [], Properties()
    for name in ("unreadable", "fixed", "nameless"):
        for operation in (getattr, delattr, lambda owner, name: setattr(owner, name, 1)):
            try:
                seen.append(operation(owner, name))
            except AttributeError as error:
                seen.append(str(error))
    return x + 1, seen


class Deletes:
    def __get__(self, owner, kind):
        return 1

    def __set__(self, owner, value):
        owner.log.append(("set", value))

    def __delete__(self, owner):
        owner.log.append("deleted")


class Deleted:
    thing = Deletes()

    def __init__(self):
        self.log = []


@same_as_eager(graphs=1)
def test_a_descriptor_deletes(x):
    owner = Deleted()
    owner.thing = 2
    del owner.thing
    return x + 1, owner.log


# --- comparisons ------------------------------------------------------------------------------------------------------
class Claims(abc.ABCMeta):
    def __subclasscheck__(cls, other):
        return True


class Base(metaclass=Claims):
    def __eq__(self, other):
        return "base"


class Claimed:
    def __eq__(self, other):
        return "claimed"


@same_as_eager(graphs=1)
def test_who_compares_first(x):
    return x + 1, Base() == Claimed(), Claimed() == Base()


@same_as_eager(graphs=1)
def test_cells_compare(x):
    def held(value):
        return (lambda: value).__closure__[0]

    cells = [held(1), held(2), held(1)]
    return x + 1, [[a == b, a < b, a != b, a >= b] for a in cells for b in cells]


@same_as_eager(graphs=1)
def test_globals_of_a_function(x):
    return x + 1, chain.__globals__ is globals(), context_of.__globals__ is chain.__globals__


# --- what special methods may answer ----------------------------------------------------------------------------------
class Length:
    def __init__(self, answer):
        self.answer = answer

    def __len__(self):
        return self.answer


class Truth(Length):
    def __bool__(self):
        return self.answer


class Items(Length):
    def __iter__(self):
        return self.answer


ANSWERS = (-1, 1.5, "x", None, 2, True, 1 << 70, Three(), object())


@same_as_eager(graphs=1)
def test_answers_of_special_methods_are_judged(x):
    seen = []
    for make, use in ((Length, len), (Length, bool), (Truth, bool), (Items, iter), (Items, list), (Truth, operator.not_)):
        for answer in ANSWERS:
            try:
                seen.append(use(make(answer)))
            except (TypeError, ValueError, OverflowError) as error:
                seen.append(str(error))
    return x + 1, seen


@same_as_eager(graphs=1)
def test_classes_without_constructor(x):
    seen = []
    for view in ({}.keys(), {}.values(), {}.items()):
        try:
            seen.append(type(view)())
        except TypeError as error:
            seen.append(str(error))
    return x + 1, seen


class Iterating:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


class Always:
    def __eq__(self, other):
        return True


class Never:
    def __eq__(self, other):
        return False


@same_as_eager(graphs=1)
def test_in_asks_the_items_and_no_more_than_it_needs(x):
    steps = iter([1, 2, 3, 4])
    asked = [Always() in Iterating([Never()]), Never() in Iterating([Always()]), 2 in Iterating(steps), list(steps)]
    return x + 1, asked


@same_as_eager
def test_what_a_classmethod_has_of_its_function(x):
    def function(a: int):
        return a

    wrapped = classmethod(function), staticmethod(function)
    return x + 1, [each.__annotations__ is function.__annotations__ for each in wrapped]


@same_as_eager
def test_text_runs_in_the_caller_where_its_namespaces_are_none(x):
    def checked(expression, namespace=None):
        def decorator(function):
            def inner(*args):
                return eval(expression, namespace, None) and function(*args)
            return inner
        return decorator

    @checked("args[1] is not None")
    def added(a, b):
        return a + b

    return x + 1, added(1, 2), added(1, None)


class Reduced:
    def __init__(self, *answer):
        self.answer = answer

    def __reduce__(self):
        return self.answer


@same_as_eager(graphs=1)
def test_copies_of_what_is_reduced_to_too_few_or_too_many_parts(x):
    seen = []
    for answer in ((), (list,), (list, (), None, None, None, None), (list, (), *"abcde")):
        for copier in (copy.copy, copy.deepcopy):
            try:
                copier(Reduced(*answer))
            except TypeError as error:
                seen.append(str(error))
    return x + 1, seen


@same_as_eager(graphs=1)
def test_round_by_name(x):
    return x + round(number=2.5), round(number=8.25, ndigits=-1), round(2.345, ndigits=2)


@same_as_eager
def test_a_proxy_of_a_dict_is_walked_through(x):
    proxies = types.MappingProxyType({"a": 1, "b": 2}), types.MappingProxyType({})
    jit.graph_break()
    return [(x + sum(proxy.values()), list(proxy)) for proxy in proxies]


@same_as_eager
def test_a_mock_in_place_of_a_builtin(x):
    with unittest.mock.patch("builtins.int") as mock:
        jit.graph_break()
        int(x)
        calls = mock.call_count
    return x + int(2.5), calls


def test_rounds_of_a_loop_that_breaks_inside_of_a_call_are_bounded():
    def look(modules):
        found = 0
        for module in modules:
            found += hasattr(module, "__name__")
            jit.graph_break()
        return found

    def program(x, modules):
        return x + look(modules)

    compiled = jit.compile(program, backend="eager")
    modules = [types.ModuleType(f"module {i}") for i in range(150)]
    assert torch.equal(compiled(X, modules), X + 150)
    assert len(jit.explain(program)(X, modules).records) < 150


@same_as_eager
def test_a_class_is_made_of_a_dict_and_of_no_proxy(x):
    proxy = types.MappingProxyType({})
    jit.graph_break()
    try:
        return type("A", (), proxy)
    except TypeError as error:
        return x + 1, str(error)


class Bag:
    def __init__(self, **attributes):
        self.__dict__ |= attributes


def test_attributes_as_a_dict():
    def program(bag, x):
        same, other, empty = Bag(a=1, b=x), Bag(a=2), Bag()
        first = [bag.__dict__ == {"a": 1}, bag.__dict__ != other.__dict__, {"a": 2} == other.__dict__, bool(empty.__dict__)]
        same.b = 2
        second = [same.__dict__ == {"a": 1, "b": 2}, same.__dict__ | {"c": 3}, {"c": 3} | bag.__dict__, len(empty.__dict__)]
        return x + 1, first, second, 1 if bag.__dict__ else 0, bag.__dict__ == bag.__dict__, f"{other.__dict__}"

    check(program, Bag(a=1), X, graphs=1, changed=[(Bag(a=1, b=3), X)])


@same_as_eager(graphs=1)
def test_copies_of_objects_that_tell_their_attributes(x):
    class Pairs(list):
        def __reduce__(self):
            return (Pairs, (), self.__dict__, iter(self))

        def __eq__(self, other):
            return list(self) == list(other) and self.__dict__ == other.__dict__

    pairs = Pairs([[1, 2], 3])
    pairs.name = "pairs"
    copied, deep = copy.copy(pairs), copy.deepcopy(pairs)
    return x + 1, copied == pairs, deep == pairs, copied[0] is pairs[0], deep[0] is pairs[0]


class Hidden:
    def __getattribute__(self, name):
        if name.startswith("__reduce"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)


class Named(int):
    def __new__(cls, *, name):
        made = int.__new__(cls)
        made.name = name
        return made

    def __getnewargs_ex__(self):
        return (), {"name": self.name}


@same_as_eager(graphs=1)
def test_what_can_not_be_copied(x):
    seen = []
    for value in (Hidden(), {}.keys(), {}.values(), {}.items()):
        for copier in (copy.copy, copy.deepcopy):
            try:
                copier(value)
            except (copy.Error, TypeError) as error:
                seen.append((type(error), str(error)))
    named = Named(name="a name")
    return x + 1, seen, copy.copy(named).name, type(copy.deepcopy(named)) is Named


ASKED = []


class Asked:
    """Objects that are asked for every attribute in Python, as those of configurations are."""

    def __init__(self, *parts):
        self.parts = list(parts)

    def __getattribute__(self, name):
        ASKED.append(name)
        return super().__getattribute__(name)


class AskedForState(Asked):
    def __getstate__(self):
        return {"parts": [*self.parts, "state"]}

    def __getnewargs__(self):
        ASKED.append("new")
        return ()


class AskedForParts(Asked):
    def __reduce__(self):
        return type(self), tuple(self.parts)


@same_as_eager(graphs=1)
def test_copies_of_what_is_asked_for_every_attribute(x):
    ASKED.clear()
    seen = []
    for cls in (Asked, AskedForState, AskedForParts):
        first = cls([1, x], "b")
        for copier in (copy.copy, copy.deepcopy):
            made = copier(first)
            seen.append((type(made), made.parts, made.parts is first.parts, made.parts[0] is first.parts[0]))
    return x + 1, seen, list(ASKED)


class Configuration:
    def __init__(self, *parts):
        self.parts = parts

    def __getattribute__(self, name):
        return super().__getattribute__({"pieces": "parts"}.get(name, name))


CONFIGURATION = Configuration({"size": 3}, 4)


@same_as_eager(graphs=1)
def test_a_copy_of_what_was_there_and_is_asked_for_every_attribute(x):
    made = copy.deepcopy(CONFIGURATION)
    made.parts[0]["size"] += 1
    return x * made.pieces[0]["size"], made.parts, CONFIGURATION.pieces, CONFIGURATION.__reduce_ex__(2)[2:]


@same_as_eager(graphs=1)
def test_the_state_comes_after_the_arguments(x):
    order = []

    class Ordered:
        def __getnewargs__(self):
            order.append("arguments")
            return ()

        def __getstate__(self):
            order.append("state")

    copy.copy(Ordered())
    return x + 1, order



@same_as_eager
def test_the_registry_of_copies(x):
    class Registered:
        def __new__(cls, value):
            made = object.__new__(cls)
            made.value = value
            return made

    first = Registered(42)
    try:
        copy.copy(first)
    except TypeError as error:
        seen = str(error)
    copyreg.pickle(Registered, lambda made: (Registered, (made.value,)))
    try:
        return x + 1, seen, copy.copy(first).value, copy.deepcopy(first).value
    finally:
        del copyreg.dispatch_table[Registered]


class Posing:
    def __init__(self, cls):
        self.posed = cls

    @property
    def __class__(self):
        return self.posed


class ClassLike:
    __bases__ = ()

    def __call__(self):
        return Posing(self)


CLASS_LIKE = ClassLike()


@same_as_eager
def test_objects_that_pose_as_others(x):
    posing = Posing(int)
    seen = [isinstance(posing, kind) for kind in (int, Posing, str, (str, int), object, float)]
    return x + 1, seen, isinstance(CLASS_LIKE(), CLASS_LIKE), isinstance(posing, CLASS_LIKE)


@same_as_eager(graphs=1)
def test_keywords_of_a_class_whose_metaclass_is_that_of_the_library(x):
    seen = {}

    class Base:
        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__()
            seen.update(kwargs)

    class Derived(Base, metaclass=abc.ABCMeta, name="test"):
        pass

    return x + 1, seen


@same_as_eager
def test_keys_that_are_replaced_while_a_dict_is_walked_through(x):
    seen = []
    for walk in (dict.keys, dict.values, dict.items):
        table = {0: x}
        try:
            for _ in walk(table):
                del table[0]
                table[0] = x + 1
            seen.append("went through")
        except RuntimeError as error:
            seen.append(str(error))
    return seen


@same_as_eager(graphs=1)
def test_text_of_views(x):
    tables = {1: 10, "a": [2]}, {}, collections.OrderedDict(a="b")
    return x + 1, [(repr(each.keys()), str(each.values()), f"{each.items()}") for each in tables]


def test_cells_without_a_value_after_a_break():
    def program(x, early):
        def inner():
            return value

        jit.graph_break()
        seen = []
        if early:
            value = x + 1
        for _ in range(2):
            try:
                seen.append(value)
                del value
            except NameError as error:
                seen.append((type(error).__name__, str(error)))
            jit.graph_break()
        try:
            del value
        except NameError as error:
            seen.append((type(error).__name__, str(error)))
        try:
            inner()
        except NameError as error:
            seen.append((type(error).__name__, str(error)))
        value = x
        return seen, inner() is value

    check(program, X, True, changed=(X, False))
