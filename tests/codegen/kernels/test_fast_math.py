"""`fast_math`: C's rules of arithmetic are loosened where that is asked for, and nowhere else."""

import pytest
import torch

import jit
from codegen.kernels import toolchain
from jit import cache


def compiled(monkeypatch, program, **settings):
    """The program's results and the flags of its compilations."""
    flags = []
    real = toolchain._compile
    monkeypatch.setattr(toolchain, "_compile", lambda compiler, source, given, *rest: flags.append(given) or real(compiler, source, given, *rest))
    return jit.compile(program, **settings), flags


def has_all(flags):
    return [set(toolchain.FAST) <= set(each) for each in flags]


def program(x, y):
    return (x / 3 + y / 7).softmax(-1), (x * y + 0.1).sum(-1), x.sin().exp()


X, Y = torch.randn(64, 100, generator=torch.Generator().manual_seed(0)).split([50, 50], 1)


def test_it_is_asked_for_by_option(monkeypatch, tmp_path):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path))
    fast, flags = compiled(monkeypatch, program, options={"fast_math": True})
    found = fast(X, Y)
    assert has_all(flags) == [True]
    torch.testing.assert_close(found, program(X, Y), rtol=1e-5, atol=1e-6)


def test_it_is_asked_for_by_setting(monkeypatch, tmp_path):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(jit.config, "fast_math", True)
    fast, flags = compiled(monkeypatch, program)
    fast(X, Y)
    assert has_all(flags) == [True]


def test_it_is_not_there_unasked_and_the_two_are_kept_apart_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path))
    fast, fast_flags = compiled(monkeypatch, program, options={"fast_math": True})
    fast(X, Y)
    exact, flags = compiled(monkeypatch, program)
    exact(X, Y)
    assert has_all(flags) == [False]
    again, more = compiled(monkeypatch, program, options={"fast_math": True})
    again(X, Y)
    assert more == [], "the disk has it"


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "rsqrt", "log1p", "expm1", "atan", "lgamma"])
def test_functions_stay_right_to_some_digits(name):
    x = torch.cat([torch.linspace(1e-3, 30, 1000), torch.tensor([1e-30, 1e5, 1e20])])
    f = jit.compile(lambda x: getattr(torch, name)(x) * 2, options={"fast_math": True})
    torch.testing.assert_close(f(x), getattr(torch, name)(x) * 2, rtol=2e-5, atol=1e-6)


def test_nan_and_infinity_are_still_there():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    f = jit.compile(lambda x: (x + 1, x.relu(), x.isnan(), x.amax(0)), options={"fast_math": True})
    torch.testing.assert_close(f(x), (x + 1, x.relu(), x.isnan(), x.amax(0)), equal_nan=True)


def test_small_numbers_stay_in_the_process():
    """A library made with -ffast-math would turn them into zeros everywhere."""
    f = jit.compile(lambda x: x * 3 + 1, options={"fast_math": True})
    f(X)
    tiny = torch.tensor([1e-40])
    assert (tiny * 1.5).item() > 0


def test_settings_of_one_function_are_in_force_for_it_alone(monkeypatch, tmp_path):
    folder = tmp_path / "own"
    f = jit.compile(lambda x: x * 11 + 2, options={"cache_dir": str(folder)})
    f(X)
    assert folder.exists() and cache.store().info().path != folder
