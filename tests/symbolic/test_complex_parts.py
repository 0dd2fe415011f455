"""The real and the imaginary part of a tensor, stored by attribute: they are copied to."""

import pytest
import torch

from tests.differential import check

Z = torch.arange(6.0).view(2, 3) * (1 - 2j)


def tensors(z):
    z.real = z.imag * 2
    z.imag = torch.ones(3)
    return z + 1


def numbers(z):
    z.real = 2
    z.imag = True
    z[0].imag = 0.5
    return z.abs()


def in_place(z):
    z.real += 1
    z.imag *= 3
    return z


def of_a_view(z):
    y = z[:, 1:].conj()
    y.imag = 3
    y.real -= 1
    return y, z


def of_real_numbers(z):
    x = z.abs()
    x.real = x * 2
    x.real = 5
    return x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("program", [tensors, numbers, in_place, of_a_view, of_real_numbers])
def test_parts_are_stored(program, needs_gradient, backend):
    z = Z.clone().requires_grad_(needs_gradient)
    check(lambda z: program(z * 1), z, graphs=1, backend=backend, tolerance=(1e-5, 1e-6))


@pytest.mark.parametrize("program", [tensors, numbers, in_place, of_a_view])
def test_parts_of_arguments_are_stored(program):
    check(program, Z.clone(), graphs=1)


@pytest.mark.parametrize("value", [1j, None, "a", torch.ones(4), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)], ids=str)
def test_what_is_stored_as_a_part(value):
    def program(z):
        z.real = value
        return z

    check(program, Z.clone())


def test_an_imaginary_part_of_real_numbers():
    def program(x):
        x.imag = 1

    check(program, torch.ones(3))


def test_a_class_of_tensors_is_asked():
    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            said.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    said = []

    def program(z):
        z.real = 2
        z.imag = z.real
        return [*said], said.clear()

    check(program, make=lambda: [Z.clone().as_subclass(Told)])
