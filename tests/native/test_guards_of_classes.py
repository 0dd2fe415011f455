"""Guards about classes, and those that hold classes without keeping them."""
import gc
import weakref

import pytest

import jit._C as C
from tests.native.guarding import holds, on_argument


def test_classes_and_what_they_inherit():
    class First:
        pass

    class Second:
        pass

    class Thing(First):
        pass

    thing, of_class = Thing(), [(-1, "arg", 0), (0, "type", None)]
    lacks = C.Guards(of_class, [(1, "own", ("method", False))], [])
    has = C.Guards(of_class, [(1, "own", ("method", True))], [])
    inherits = C.Guards(of_class, [(1, "inherits", Thing.__mro__)], [])
    for guards in (lacks, has, inherits):
        assert not holds(guards, First)  # its class is `type`, whose attributes are the interpreter's
    for _ in range(2):
        First.method = 1
        assert holds(lacks, thing) and not holds(has, thing) and holds(inherits, thing)
        Thing.method = 1
        assert not holds(lacks, thing) and holds(has, thing) and holds(inherits, thing)
        del Thing.method
    Thing.__bases__ = (Second, First)
    assert not holds(inherits, thing) and holds(lacks, thing)
    again = C.Guards(of_class, [(1, "inherits", Thing.__mro__)], [])
    assert holds(again, thing) and not holds(inherits, thing)


def test_what_a_class_inherits_may_be_held_weakly():
    class First:
        pass

    class Thing(First):
        pass

    of_class = [(-1, "arg", 0), (0, "type", None)]
    guards = C.Guards(of_class, [(1, "inherits", (weakref.ref(Thing), weakref.ref(First), object))], [])
    assert holds(guards, Thing()) and not holds(guards, First()) and not holds(guards, type("Other", (First,), {})())
    gone = weakref.ref(Thing)
    del Thing
    gc.collect()
    assert gone() is None and not holds(guards, type("Thing", (First,), {})())
    with pytest.raises(TypeError, match="classes must be a tuple"):
        C.Guards(of_class, [(1, "inherits", object)], [])


def test_how_a_class_makes_its_instances():
    class Thing:
        pass

    thing, of_class = Thing(), [(-1, "arg", 0), (0, "type", None)]
    as_object, otherwise = (C.Guards(of_class, [(1, "makes", answer)], []) for answer in (True, False))
    assert holds(as_object, thing) and not holds(otherwise, thing)
    Thing.__new__ = lambda cls: object.__new__(cls)
    assert not holds(as_object, thing) and holds(otherwise, thing)
    del Thing.__new__
    assert not holds(as_object, thing) and holds(otherwise, thing)  # what stands in the slot is not seen from Python
    assert holds(otherwise, Thing) and holds(otherwise, 1)  # `type` and `int`, which have their own


def test_a_key_that_is_absent_may_be_held_weakly():
    class Thing:
        pass

    table = {int: 1}
    guards = on_argument("absent_weak", Thing)
    assert holds(guards, table) and not holds(guards, {Thing: 1}) and not holds(guards, Thing)
    gone = weakref.ref(Thing)
    del Thing
    gc.collect()
    assert gone() is None and holds(guards, table) and holds(guards, {type("Thing", (), {}): 1})


def test_functions_made_anew_are_known_by_their_code():
    def make(default):
        def function(x, y=default, *, z=default):
            return x
        return function

    one = make([1])
    guards = on_argument("function", (None, one.__code__, ..., ...))
    assert holds(guards, one) and holds(guards, make([2])) and not holds(guards, make)
    for name in ("__defaults__", "__kwdefaults__"):
        other = make([1])
        setattr(other, name, None)
        assert not holds(guards, other)
