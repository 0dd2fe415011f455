"""Guards as tests look at them."""

import jit._C as C


def plain(*slots):
    pass


def holds(guards, *slots, function=plain):
    """`check` and `explain` must agree, at the first look and at the second."""
    for _ in range(2):
        values = guards.check(function, slots)
        assert (values is not None) == (guards.explain(function, slots) is None)
    return values is not None


def on_argument(kind, payload, extra=()):
    return C.Guards([(-1, "arg", 0)], [(0, kind, payload), *extra], [])
