"""Small differentiable programs: each written once, run eagerly, as a torch.autograd.Function and through a node."""

from dataclasses import dataclass

import torch

from codegen import _C


def times(tangent, factor):
    return None if tangent is None else tangent * factor


def total(*terms):
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else None


@dataclass(frozen=True)
class Program:
    """`run(*inputs)` -> (outputs, saved, extra); `gradients(saved, extra, tangents)`; `outside`: as `_C.Backward` has it."""

    name: str
    inputs: int
    outside: tuple
    run: object
    gradients: object


def sine(saved, extra, tangents):
    x, s = saved
    s = torch.sin(x) if torch.is_grad_enabled() else s  # the private one has no history
    return ((tangents[0] * s + tangents[0] * s) * torch.cos(x),)


def run_sine(x):
    s = torch.sin(x)
    return (s * s,), (x, s), ()


def run_exp(x):
    y = torch.exp(x)
    return (y,), (y,), ()


PROGRAMS = [
    Program("mul", 2, (True, True),
            lambda x, w: ((x * w,), (x, w), ()),
            lambda saved, extra, tangents: (tangents[0] * saved[1], tangents[0] * saved[0])),
    Program("two", 2, (True, True),
            lambda x, w: ((x * w, x + w), (x, w), ()),
            lambda saved, extra, tangents: tuple(total(times(tangents[0], saved[1 - i]), tangents[1]) for i in (0, 1))),
    Program("exp", 1, (True,), run_exp, lambda saved, extra, tangents: (tangents[0] * saved[0],)),
    Program("sine", 1, (True, False), run_sine, sine),
    Program("sizes", 1, (),
            lambda x: ((x.sum(),), (), tuple(x.shape)),
            lambda saved, extra, tangents: (tangents[0].expand(extra),)),
    Program("unused", 2, (),
            lambda x, w: ((x + x,), (), ()),
            lambda saved, extra, tangents: (tangents[0] + tangents[0], None)),
]
MUL, TWO, EXP, SINE, SIZES, UNUSED = PROGRAMS


def eager(program):
    return lambda *inputs: program.run(*inputs)[0]


def as_function(program):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            outputs, saved, extra = program.run(*inputs)
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*saved)
            ctx.extra = extra
            return outputs

        @staticmethod
        def backward(ctx, *tangents):
            if all(tangent is None for tangent in tangents):
                return (None,) * program.inputs
            return program.gradients(ctx.saved_tensors, ctx.extra, tangents)

    return Function.apply


def made_of(name, whole, general, outside, num_history=0, nodes=()):
    """A `_C.Backward` that lets go of everything when all outputs had their last backward.

    `general(defined, needed, has_history, saved, rest, tangents)`: what follows on what was saved is `extra` without a
    history, and the history and the outputs with one."""

    def choose(defined, needed, released, has_history):
        wanted = sum(1 << at for at, flag in enumerate(defined) if flag)
        every = (1 << len(defined)) - 1
        if outside and not wanted & ~released:
            raise RuntimeError(_C.backward_twice)

        def run(given):
            first, last = len(outside), len(given) - sum(defined)
            tangents = iter(given[last:])
            tangents = [next(tangents) if flag else None for flag in defined]
            saved, rest = given[:first], tuple(given[first:last])
            given.clear()
            return general(defined, needed, has_history, saved, rest, tangents)

        is_over = (released | wanted) == every
        read = (True,) * (len(outside) + (num_history if has_history else 0))
        return run, read, -1 if is_over else released | wanted, (not is_over,) * len(outside)

    return _C.Backward(name, whole, choose, outside, nodes)


def backward_of(program, log, name):
    def whole(given):
        assert not torch.is_grad_enabled()
        log.append(("whole",))
        first, last = len(program.outside), len(given) - OUTPUTS[program.name]
        return program.gradients(given[:first], given[first:last], given[last:])

    def general(defined, needed, has_history, saved, rest, tangents):
        assert torch.is_grad_enabled() == has_history
        log.append(("differentiable" if has_history else "partial", defined, needed))
        return program.gradients(saved, rest[: len(rest) - len(defined)] if has_history else rest, tangents)

    return made_of(name, whole, general, program.outside, len(program.run(*map(torch.ones, [4] * program.inputs))[2]))


def through_node(program, log=None, name=None):
    """The calls of the node's functions are noted in `log`."""
    backward = backward_of(program, [] if log is None else log, name or f"{program.name}Backward")

    def call(*inputs):
        with torch._C._AutoDispatchBelowAutograd():
            outputs, saved, extra = program.run(*inputs)
        _C.tie(backward, inputs, outputs, saved, extra, extra)
        return outputs

    return call


OUTPUTS = {program.name: 2 if program is TWO else 1 for program in PROGRAMS}


def make_inputs(program, frozen=()):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(4, generator=generator).requires_grad_(i not in frozen) for i in range(program.inputs)]


def assert_same(actual, expected, rounding=0.0):
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=rounding, atol=rounding, check_stride=True)
            assert ours.requires_grad == theirs.requires_grad
