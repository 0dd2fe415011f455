"""Modes and defaults of a thread that the frame switches, for a while or for good."""
import pytest
import torch
from torch import nn

import jit
from tests.differential import check, differentiated_ahead

CLOSE = (1e-5, 1e-5)


def make():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), []


# --- the default device -----------------------------------------------------------------------------------------------
def on_a_device(x, w, log):
    with torch.device("cpu"):
        a = torch.ones(3)
    return x + a


def on_another_device(x, w, log):
    with torch.device("meta") as device:
        a, b = torch.ones(3), torch.zeros_like(x)
        c = torch.ones(2, device="cpu")
    log += [device, a.device, b.device, torch.ones(1).device]
    return (x * w).sum(), a, b, c


def inside_one_another(x, w, log):
    with torch.device("meta"):
        a = torch.arange(3)
        with torch.device("cpu"):
            b = torch.arange(3)
        c = torch.empty(2)
    return x + b, a, c


def asked_for(x, w, log):
    log.append(torch.get_default_device())
    with torch.device("meta"):
        log.append(torch.get_default_device())
    log.append(torch.get_default_device())
    return x + 1


def left_by_an_exception(x, w, log):
    try:
        with torch.device("meta"):
            a = torch.ones(2)
            raise ValueError("out")
    except ValueError:
        pass
    return x + torch.ones(3), a.device


def in_a_callee(x, w, log):
    def fill(*sizes):
        return torch.full(sizes, 2.0)

    with torch.device("meta"):
        a = fill(2, 2)
    return x * fill(3), a


# --- switches that stay -----------------------------------------------------------------------------------------------
def without_grad_from_here_on(x, w, log):
    torch.set_grad_enabled(False)
    y = w * x
    log.append(torch.is_grad_enabled())
    return y, y.requires_grad


def with_grad_in_between(x, w, log):
    torch.set_grad_enabled(False)
    with torch.enable_grad():
        z = w * x
    return w * 2, z


def another_dtype(x, w, log):
    torch.set_default_dtype(torch.float64)
    a = torch.ones(3)
    log.append(torch.get_default_dtype())
    return x + a, a


def without_gradients_for_a_while(x, w, log):
    with torch.inference_mode():
        y = x @ x
    return y.is_inference(), (w * 2).sum()


WHOLE = [
    on_a_device, on_another_device, inside_one_another, asked_for, left_by_an_exception, in_a_callee,
    with_grad_in_between, another_dtype,
]  # fmt: skip


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", [*WHOLE, without_grad_from_here_on, without_gradients_for_a_while],
                         ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("program", [on_a_device, inside_one_another], ids=lambda program: program.__name__)
def test_differentiated_ahead(program):
    check(program, make=make, graphs=1, backend=differentiated_ahead, tolerance=CLOSE)


# --- what breaks ------------------------------------------------------------------------------------------------------
def a_module_on_a_device(x, w, log):
    with torch.device("meta"):
        made = nn.Linear(3, 3)
    return x + 1, made


def broken_inside(x, w, log):
    with torch.device("meta"):
        a = torch.ones(2)
        log.append(x.sum().item() > 0)
        b = torch.ones(2)
    return x + torch.ones(3), a.device, b.device


def the_default_for_all(x, w, log):
    torch.set_default_device("meta")
    a = torch.ones(2)
    torch.set_default_device(None)
    return x + torch.ones(3), a.device


def the_default_for_good(x, w, log):
    torch.set_default_device("cpu")
    return x + torch.ones(3)


def autocast_entered(x, w, log):
    manager = torch.autocast("cpu", dtype=torch.bfloat16)
    manager.__enter__()
    log.append(torch.is_autocast_enabled("cpu"))
    return x @ x


def autocast_entered_and_left(x, w, log):
    manager = torch.autocast("cpu", dtype=torch.bfloat16)
    manager.__enter__()
    y = x @ x
    manager.__exit__(None, None, None)
    return y, x @ x


def inference_entered(x, w, log):
    manager = torch.inference_mode()
    manager.__enter__()
    y = x @ x
    log.append(torch.is_inference_mode_enabled())
    manager.__exit__(None, None, None)
    return y + 1


@pytest.mark.break_everywhere
@pytest.mark.parametrize(
    "program",
    [a_module_on_a_device, broken_inside, the_default_for_all, the_default_for_good, autocast_entered,
     autocast_entered_and_left, inference_entered],
    ids=lambda program: program.__name__)
def test_as_eager(program):
    check(program, make=make)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_compiled_under_another_default_device(backend):
    """What the compiler makes for itself is no matter of the user's default."""
    def program(x, w, log):
        y = x.sin().clamp(0.25, 0.75) * 1.5
        print(y.sum() * 0)
        return (y * w).mean(), torch.ones(2)

    with torch.device("meta"):
        check(program, make=lambda: (torch.linspace(0, 1, 9, device="cpu").view(3, 3),
                                     torch.ones(3, 3, device="cpu", requires_grad=True), []),
              backend=backend, tolerance=CLOSE)


def drops_casts(x):
    torch.clear_autocast_cache()
    return x + 1


def drops_casts_in_its_own_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.clear_autocast_cache()
        return x + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", [drops_casts, drops_casts_in_its_own_autocast])
def test_casts_that_autocast_kept_before_are_dropped(program, backend):
    """The compiled program left the cast of `w` as it was before the write."""
    program = jit.compile(program, backend=backend)
    w, x = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            before = x @ w
            with torch.no_grad():
                w.mul_(2)
            assert torch.equal(x @ w, before)
            program(x)
            assert torch.equal(x @ w, 2 * before)
