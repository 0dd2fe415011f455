"""Views that conjugate or negate what they show when it is read: written, read as other numbers, read by kernels."""

import pytest
import torch

from tests.differential import check


def real_parts_of_a_conjugate(z, c):
    return z.conj().imag + 1, (z * 2).conj().imag.abs(), z.mH.imag.sum(0)


def detached(z, c):
    return z.conj().imag.detach(), (z.mH.imag[1:] * 2).detach()


def saved_for_the_backward(z, c):
    return (z.conj().imag ** 2).sum() + (z.mH.imag.exp() * c.t().real).sum()


def looked_at_after_a_write(z, c):
    u = z.conj()
    u.mul_(2j)
    return u.imag + 1, u.isfinite()


def with_gaps(z, c):
    z = z.clone()
    u = z[:, ::2].conj()
    u.mul_(2j)
    return torch.view_as_real(z), u.real.sum(), u.isfinite()


def transposed(z, c):
    u = z.t().conj()
    u[0] = 1j
    return u.mul_(2).real, u.isfinite(), u


def negated(z, c):
    z = z.clone()
    u = z.conj().imag
    u.mul_(3)
    u.add_(z.real)
    return u, z, u.view(-1), torch.view_as_real(z)


def negated_in_part(z, c):
    z = z.clone()
    u = z.conj().imag
    u[0].exp_()
    u[:, 1:3] = 5
    u.as_strided((2, 2), (8, 2), 1).zero_()
    return u, torch.view_as_real(z), u.abs()


def copied_from_a_conjugate(z, c):
    z = z.clone()
    z.copy_(c.conj())
    return torch.view_as_real(z), z.isfinite()


def copied_to_a_conjugate(z, c):
    u = z.conj()
    u.copy_(c.conj())
    u.imag.zero_()
    return u.isfinite(), torch.view_as_real(z), u.imag


def parts_copied(z, c):
    z[1] = c[0].conj()
    z[:, ::2].copy_(c[:, 1::2].conj())
    return torch.view_as_real(z), z[:, ::2].isfinite()


def real_from_negated(z, c):
    n = z.conj().imag
    n.mul_(3)
    z.real.copy_(n)
    return torch.view_as_real(z), n.abs()


def bits_of_complex_numbers(z, c):
    u = torch._neg_view(z)
    return u.real + 1, (u * 2).imag, u.conj().imag.exp()


PROGRAMS = [each for each in list(globals().values()) if callable(each) and getattr(each, "__module__", "") == __name__]


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_views_with_bits(program, backend, needs_gradient):
    z, c = (torch.randn(3, 4, dtype=torch.complex64, requires_grad=needs_gradient) for _ in range(2))
    check(lambda z, c: program(z * 1, c * 2), z, c, backend=backend, tolerance=(1e-5, 1e-5), nodes=False)


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_inputs_written_through_bits(program, backend):
    check(program, *(torch.randn(3, 4, dtype=torch.complex64) for _ in range(2)), backend=backend, tolerance=(1e-5, 1e-5))
