"""Tensors of a program that are no inputs: literals, and what a function closes over."""
import pytest
import torch

from codegen.aot.function import Settings, compile_program
from codegen.aot.recorder import Untraceable

held = torch.arange(3.0)
weight = torch.ones(3, requires_grad=True)


def compiled(program):
    return compile_program(program, [torch.ones(3)], Settings())


def literal_written(x):
    made = torch.tensor([1.0, 2.0, 3.0])
    made.add_(x)
    return made, made[1:]


def literal_returned(x):
    made = torch.tensor([1.0, 2.0, 3.0])
    return made, x * made


@pytest.mark.parametrize("program", [literal_written, literal_returned])
def test_each_call_gets_a_literal_of_its_own(program):
    call, x = compiled(program), torch.ones(3)
    expected = program(x)
    for _ in range(3):
        got = call(x)
        assert all(torch.equal(a, b) and a._version == b._version for a, b in zip(got, expected, strict=True))
        got[0].zero_()


def test_what_is_held_comes_back_itself():
    first, view, total, learned = compiled(lambda x: (held, held[1:], x + held, weight))(torch.ones(3))
    assert first is held and learned is weight
    assert view._base is held and torch.equal(view, held[1:])
    assert torch.equal(total, torch.ones(3) + held)


REFUSED = {
    "a tensor that is no input is written": lambda x: (held.add_(x),),
    "a tensor that is no input needs gradients": lambda x: (x * weight,),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_would_be_lost_is_refused(reason):
    before = held.clone()
    with pytest.raises(Untraceable, match=reason):
        compiled(REFUSED[reason])
    assert torch.equal(held, before) and held._version == 0


def test_what_needs_no_gradients_is_a_constant():
    with torch.no_grad():
        (got,) = compiled(lambda x: (x * weight,))(torch.full((3,), 2.0))
    assert torch.equal(got, torch.full((3,), 2.0)) and not got.requires_grad
