"""When objects end: what a frame lets go of at a graph break is gone, what it still has in its variables is not."""
import contextlib
import gc
import sys
import weakref
from collections import deque

import pytest
import torch

import jit
from tests.differential import COUNTING

LOG = []
SEEN = []


class Ends:
    """Tells of its end."""

    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(f"{self.name} ends")


class Plain:
    pass


def watch(value):
    """What code outside of the frame does."""
    SEEN.append(weakref.ref(value))


def alive():
    return [reference() is not None for reference in SEEN]


def deleted_after_a_break(x):
    held = Ends("held")
    x = x + 1
    jit.graph_break()
    LOG.append("before")
    del held
    LOG.append("after")
    return x


def dead_in_the_frame(x):
    held = Ends("held")
    x = x + 1
    held = None
    LOG.append("after")
    return x * 2, held


def only_held(x):
    held = Ends("held")
    jit.graph_break()
    LOG.append("after")
    return x + 1


def in_a_loop(x):
    for n in range(3):
        held = Ends(n)
        jit.graph_break()
        x = x + held.name
        LOG.append(n)
    return x


def _callee(held):
    jit.graph_break()
    LOG.append("in the callee")


def given_to_a_callee(x):
    _callee(Ends("held"))
    LOG.append("after")
    return x + 1


def finalized(x):
    held = Plain()
    weakref.finalize(held, LOG.append, "finalized")
    x = x + 1
    jit.graph_break()
    held = None
    LOG.append("after")
    return x, held


def finalized_tensor(x):
    y = x + 1
    weakref.finalize(y, LOG.append, "finalized")
    jit.graph_break()
    y = y + 1
    LOG.append("after")
    return y


def called_back(x):
    held = Plain()
    reference = weakref.ref(held, lambda _: LOG.append("called back"))
    jit.graph_break()
    del held
    LOG.append(reference() is None)
    return x + 1


def weakly_referenced(x):
    held = Plain()
    reference = weakref.ref(held)
    x = x + 1
    jit.graph_break()
    LOG.append(reference() is None)
    held = None
    jit.graph_break()
    LOG.append(reference() is None)
    return x, held


def weakly_referenced_and_never_read(x):
    held = Plain()  # noqa: F841
    reference = weakref.ref(held)
    x = x + 1
    jit.graph_break()
    LOG.append(reference() is None)
    return x + 1


def temporary_tensor(x):
    y = x * 2
    reference = weakref.ref(y)
    jit.graph_break()
    z = y.sum()
    del y
    jit.graph_break()
    LOG.append(reference() is None)
    return z


def popped(x, box):
    held = box.pop()  # noqa: F841
    jit.graph_break()
    LOG.append("after")
    return x + 1


def popped_into_another(x, box):
    held = [box.pop()]
    jit.graph_break()
    LOG.append("after")
    return x + 1


def popped_and_deleted(x, box):
    held = box.pop()
    jit.graph_break()
    del held
    jit.graph_break()
    LOG.append("after")
    return x + 1


def popped_by_a_callee(x, box):
    def inner():
        held = box.pop()  # noqa: F841
        jit.graph_break()
        LOG.append("inner")

    inner()
    jit.graph_break()
    LOG.append("outer")
    return x + 1


def made_by_a_callee(x):
    def made():
        held = Ends("held")
        jit.graph_break()
        return held

    held = made()
    LOG.append(held.name)
    del held
    LOG.append("after")
    return x + 1


def _made(name):
    held = Ends(name)
    jit.graph_break()
    return held


def held_in_a_list(x):
    held = [_made("held")]
    LOG.append("made")
    del held
    LOG.append("after")
    return x + 1


def held_in_a_list_after_a_break(x):
    held = [_made("held")]
    jit.graph_break()
    LOG.append("made")
    del held
    LOG.append("after")
    return x + 1


def _lets_go():
    held = Plain()
    reference = weakref.ref(held)
    jit.graph_break()
    del held
    gc.collect(0)
    LOG.append(reference() is None)


def let_go_by_a_callee(x):
    _lets_go()
    return x + 1


def _lets_go_after_two():
    held = Plain()
    reference = weakref.ref(held)
    jit.graph_break()
    x = len(LOG)
    jit.graph_break()
    del held
    gc.collect(0)
    LOG.append((reference() is None, x))


def let_go_by_a_callee_after_two(x):
    _lets_go_after_two()
    return x + 1


@contextlib.contextmanager
def _of_weak_references(held):
    held = weakref.ref(held)
    gc.collect(0)
    LOG.append(held() is None)
    yield


def given_to_a_manager(x):
    with _of_weak_references(Plain()):
        return x + 1


def listed_by_a_callee(x):
    held = [made() for made in (lambda: Ends("first"), lambda: Ends("second"))]
    LOG.append(len(held))
    jit.graph_break()
    LOG.append("after")
    return x + 1


def refers_to(value, callback=None):
    return weakref.ref(value, callback)


def referred_to_by_a_callee(x):
    held, seen = Plain(), []
    reference = refers_to(held, seen.append)
    jit.graph_break()
    LOG.append((reference() is None, len(seen)))
    return x + 1


def referred_to_in_a_list(x):
    held = [Plain(), Plain()]
    references = [weakref.ref(each) for each in held]
    jit.graph_break()
    LOG.append([reference() is None for reference in references])
    return x + 1


def referred_to_with_callbacks_in_a_list(x):
    held, seen = [Plain(), Plain()], []
    references = [weakref.ref(each, seen.append) for each in held]
    each = None
    jit.graph_break()
    LOG.append([reference() is None for reference in references])
    LOG.append(len(seen))
    return x + 1


def referred_to_in_an_attribute(x):
    held = Plain()
    held.inner = {"k": (Plain(), 1)}
    reference = weakref.ref(held.inner["k"][0])
    jit.graph_break()
    LOG.append(reference() is None)
    return x + 1


def finalized_and_detached(x):
    _finalized_and_detached()
    return x + 1


def _finalized_and_detached():
    weakref.finalize(Plain(), LOG.append, _after_a_break("finalized")).detach()  # too late: it is gone


def _after_a_break(value):
    jit.graph_break()
    return value


PROGRAMS = [
    deleted_after_a_break, dead_in_the_frame, only_held, in_a_loop, given_to_a_callee, finalized, finalized_tensor,
    finalized_and_detached, called_back, weakly_referenced, weakly_referenced_and_never_read, temporary_tensor, popped, popped_into_another,
    popped_and_deleted, popped_by_a_callee, made_by_a_callee, held_in_a_list,
    held_in_a_list_after_a_break, let_go_by_a_callee, let_go_by_a_callee_after_two, given_to_a_manager,
    listed_by_a_callee, referred_to_by_a_callee, referred_to_in_a_list, referred_to_with_callbacks_in_a_list,
    referred_to_in_an_attribute,
]


def told(program):
    LOG.clear()
    args = [torch.ones(2)]
    if program.__wrapped__.__code__.co_argcount == 2:
        args.append([Ends("boxed")])
    program(*args)
    LOG.append("returned")
    return list(LOG)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_objects_end_where_they_end_in_eager_code(program):
    compiled = jit.compile(program, backend="eager")
    eager = lambda *args: program(*args)  # noqa: E731
    eager.__wrapped__ = program
    expected = told(eager)
    for _ in range(3):
        assert told(compiled) == expected


class Box:
    __slots__ = ("attribute", "deque", "dict", "list", "set", "__dict__")

    def __init__(self):
        self.attribute, self.other, self.list, self.deque = Ends(1), Ends(2), [Ends(3)], deque([Ends(4)], 1)
        self.dict, self.set = {"k": Ends(5), "m": [Ends(6)]}, {Ends(7)}


def taken(box):
    held = box.list.pop()
    LOG.append(held.name)


def taken_over(box):
    box.other = box.dict["k"]
    box.dict["k"] = None


def deletes(box):
    del box.attribute, box.dict["k"], box.list[0]


CHANGES = {
    "slot": lambda box: setattr(box, "attribute", None),
    "attribute": lambda box: setattr(box, "other", None),
    "item": lambda box: box.dict.update(k=None),
    "item in a list": lambda box: box.list.__setitem__(0, None),
    "dict": lambda box: box.dict.clear(),
    "list of a dict": lambda box: box.dict.pop("m"),
    "list": lambda box: box.list.clear(),
    "deque": lambda box: box.deque.append(None),
    "set": lambda box: box.set.clear(),
    "nothing": lambda box: (box.list.append(1), box.dict.update(n=1)),
    "deleted": deletes,
    "taken": taken,
    "taken over": taken_over,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_what_existed_ends_where_another_value_takes_its_place(change):
    def program(x, box):
        change(box)
        LOG.append("after")
        return x + 1

    def told(function):
        LOG.clear()
        box = Box()
        function(torch.ones(2), box)
        seen = list(LOG)
        del box
        return seen

    compiled = jit.compile(program, backend="eager")
    expected = told(program)
    for _ in range(2):
        assert told(compiled) == expected


def test_what_a_break_leaves_behind_is_gone():
    def program(x):
        for _ in range(10):
            x = x + 1
            watch(x)
        return x, sum(alive())

    SEEN.clear()
    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        SEEN.clear()
        _, count = compiled(torch.ones(2))
        assert count <= 2


@pytest.mark.parametrize("times", [3, sys.getrecursionlimit() * 3])
def test_a_loop_with_a_break_goes_on_for_any_time(times):
    def program(x, n):
        for _ in range(n):
            x = x + 1
            jit.graph_break()
        return x

    compiled = jit.compile(program, backend="eager")
    assert compiled(torch.zeros(1), times).item() == times


def test_an_error_after_breaks_has_one_entry_for_the_frame():
    def program(x, n):
        for _ in range(n):
            jit.graph_break()
            x = x + 1
        raise ValueError(n)

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            compiled(torch.zeros(1), 5)
        names = [entry.name for entry in caught.traceback]
        assert names.count("program") == 1 or not COUNTING
