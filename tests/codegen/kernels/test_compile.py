"""backend="default" against eager: programs whole, with gradients."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import jit
from codegen.notices import notify
from jit.errors import JitError
from tests.differential import CLOSE, check

ROOT = Path(__file__).resolve().parents[3]


def chain(x):
    return ((x * 2 + 1).sigmoid() - x).tanh()


def softmax(x):
    return x.softmax(-1), x.log_softmax(0)


def norms(x, w):
    return F.layer_norm(x, x.shape[-1:], w, None), F.rms_norm(x, x.shape[-1:], w)


def mlp(x, w):
    return F.gelu(x @ w.outer(w)) @ w


def loss(x, w):
    return F.cross_entropy(x * w, torch.arange(x.shape[0]) % x.shape[1])


def views(x):
    y = x.exp()
    return y.t(), y.reshape(-1)[::2], y[1:], x.t() * 2


def written(x):
    x.mul_(2)
    return x + 1


def attention(x):
    q, k, v = x, x * 2, x + 1
    return (q @ k.t()).softmax(-1) @ v


def dropped(x):
    return F.dropout(x, 0.5) * 2


def reduced(x):
    return x.sum(), x.mean(0), x.amax(1), x.var(), x.argmax(1), (x > 0).any(), x.cumsum(0)


def gathered(x):
    at = torch.tensor([2, 0, 1])
    return x[at], x.index_select(1, at), F.embedding(at, x)


def lists_of_lists(x):
    """Where lists of tensors stand beside each other among the results."""
    lists = [[x.exp()], [x * 0.1], [x * 0.01], [x * x], [], [torch.ones(())]]
    settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": False}
    made = torch.ops.aten._fused_adam(*lists, **settings)
    return [t * 2 for each in made for t in each]


def chained(x):
    for _ in range(5):
        x = x + (x * 0.5).relu()
    return x


def written_by_aten(x):
    at, zeros = torch.tensor([0, 2, 2]), torch.zeros(3, 8)
    y, z = x.exp()[:3], x.cos()[:3]
    return (
        zeros.index_add(0, at, y), zeros.index_add(0, at, y * 2), y.index_copy(0, at[:2], y[1:]), z.index_add(0, at, z),
        (z + 1).scatter_add(0, at.expand(8, 3).t(), y), (z * 3)[:, ::2].index_put((at,), y[:, ::2], accumulate=True),
    )


def two_in_the_place_of_one(x):
    y = torch.mm(x, x.t()).view(1, -1)
    return torch.mm(y.exp(), y.sin().t()), y.cos().view(-1) @ y.tan().view(-1)


def numbers(x):
    return x.sum().item(), (x > 0).any().item(), x.argmax().item(), x.amax()


def numbers_that_go_on(x):
    found = x.sum().item()
    return x * found + 1, found * 2 - 1


PROGRAMS = {
    chain: 1, softmax: 1, norms: 2, mlp: 2, loss: 2, views: 1, written: 1, attention: 1, dropped: 1, reduced: 1,
    gathered: 1, written_by_aten: 1, two_in_the_place_of_one: 1, chained: 1, lists_of_lists: 1, numbers: 1,
    numbers_that_go_on: 1,
}  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("requires_grad", [False, True], ids=["infer", "train"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program, requires_grad, dynamic):
    if program in (written, lists_of_lists) and requires_grad:
        requires_grad = False

    def make(seed=0):
        torch.manual_seed(seed)
        args = [torch.randn(6, 8), torch.randn(8)][: PROGRAMS[program]]
        return [a.requires_grad_(requires_grad) for a in args]

    check(program, *make(), backend="default", dynamic=dynamic, changed=[make(1)], tolerance=CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.bool], ids=str)
def test_dtypes(dtype):
    def program(x):
        y = x + x
        return y * 2, x.sum(0), y.amax(-1) if dtype != torch.bool else x.any(-1), x.float().exp().to(dtype)

    torch.manual_seed(0)
    exact = dtype in (torch.int32, torch.bool, torch.bfloat16, torch.float16)
    check(program, (torch.randn(5, 16) * 3).to(dtype), backend="default", tolerance=None if exact else CLOSE)


def test_an_index_out_of_range_raises_what_eager_raises():
    table = torch.randn(4, 3)
    compiled = jit.compile(lambda at: F.embedding(at, table) * 2, backend="default")
    compiled(torch.tensor([1, 3]))
    with pytest.raises(IndexError, match="index out of range in self"):
        compiled(torch.tensor([1, 4]))
    torch.testing.assert_close(compiled(torch.tensor([2, 0])), table[[2, 0]] * 2)


def test_what_each_round_reads_twice_is_no_larger_for_it():
    def program(x):
        for _ in range(40):
            x = x + (x * 0.5).tanh() * x * 0.1
        return x

    check(program, torch.randn(4, 5), backend="default", tolerance=CLOSE)


def test_strides_that_vary():
    def make(size):
        return [torch.randn(size, 2 * size)[:, ::2], torch.randn(size, 3).t()[:, 1:]]

    check(lambda x, y: (x * 2 + x.t(), y.exp().sum(0)), *make(4), backend="default", dynamic=True,
          make=lambda: make(4), changed=[lambda: make(5), lambda: make(7)], tolerance=CLOSE)


@pytest.mark.parametrize("program", [
    lambda x: x * x.narrow(0, x.shape[0] // 2, x.shape[0] - x.shape[0] // 2),
    lambda x: x + x.chunk(2)[1].exp(),
    lambda x: x * x[1:].t().sum(0),
    lambda x: torch.where(x > 0, x[: x.shape[0] // 2].sum(0, keepdim=True), x[:-1]),
    lambda x: x[: x.shape[0] // 2].expand(5, 3) * x[1:],
    lambda x: (x.flatten()[: x.shape[0] // 2] * x, x[1:].squeeze(0) * 2, torch.cat([x, x[1:]]) + x[1:]),
], ids=["narrow", "chunk", "reduced", "where", "expand", "others"])  # fmt: skip
@pytest.mark.sampled(2)
@pytest.mark.parametrize("requires_grad", [False, True], ids=["infer", "train"])
def test_a_size_that_is_a_formula_and_1_is_broadcast(program, requires_grad):
    def make(rows=2):
        whole = torch.full((9, 3), float("nan"))  # what must not be read
        whole[:rows] = torch.arange(3.0 * rows).view(rows, 3) / 8
        return [whole[:rows].detach().requires_grad_(requires_grad)]

    check(program, make=make, backend="default", dynamic=True, tolerance=CLOSE)


def test_whole_parts_below_zero_are_zero_and_not_minus_zero():
    def program(x):
        return x.int().float(), x.long().to(torch.bfloat16), x.double().to(torch.int16).double()

    check(program, torch.tensor([-0.5, 0.5, -0.0, -1.5, 7.0] * 4), backend="default")


def test_a_difference_of_bools_raises_what_eager_raises():
    check(lambda x: x - True, torch.tensor([True, False]), backend="default")


def test_a_view_of_a_number():
    """The gradient multiplies by the number's conjugate."""
    x = torch.randn(3, 2, 2, requires_grad=True)
    check(lambda x: torch.view_as_real(torch.view_as_complex(x) * 2j), x, backend="default", tolerance=CLOSE)


def corrected(x, step):
    power = 0.9 ** step.item()
    return x * 2 / (1 - power), x * power + (1 - 0.5 ** (step * 2).item()) ** 0.5


@pytest.mark.parametrize("step", [1.0, 3.0, 0.0, -10000.0])
def test_numbers_that_may_raise_are_computed_as_python_does(step, tmp_path):
    x, at = torch.randn(5, 3), torch.tensor(step)
    compiled = jit.compile(corrected, backend="default", options={"dump": str(tmp_path)})
    compiled(x, torch.tensor(2.0))
    assert [file for file in tmp_path.rglob("*kernels.c") if file.read_text()]
    try:
        expected = corrected(x, at)
    except ArithmeticError as error:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            compiled(x, at)
    else:
        torch.testing.assert_close(compiled(x, at), expected, rtol=1e-6, atol=1e-6)


def test_threads():
    compiled = jit.compile(lambda x: (x * 2).softmax(-1) @ x.t(), backend="default")
    inputs = [torch.randn(16, 16) for _ in range(8)]
    expected = [(x * 2).softmax(-1) @ x.t() for x in inputs]
    wrong = []

    def work(x, y):
        for _ in range(50):
            if not torch.allclose(compiled(x), y, atol=1e-5):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_equal_kernels_of_different_lines_are_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path))
    x = torch.randn(4, 4)
    for program in (
        lambda x: x * 2.5 + 1,
        lambda x: x * 2.5 + 1,
    ):
        assert torch.equal(jit.compile(program, backend="default")(x), program(x))
    assert jit.cache.info().entries == 2  # a library and a plan


def warned(times=2):
    """What is said while that many functions are compiled and run, with gradients, each as eager code would."""
    notify.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for scale in range(times):
            x = torch.randn(4, 4, requires_grad=True)
            program = lambda x: chain(x) * (scale + 0.5)
            y, expected = jit.compile(program, backend="default")(x), program(x)
            assert torch.equal(y, expected)
            assert torch.equal(*(torch.autograd.grad(z.sum(), x)[0] for z in (y, expected)))
    return [str(warning.message) for warning in caught]


def test_without_a_c_compiler_programs_work(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    said = warned()
    assert len(said) == 1 and "no C compiler" in said[0]


@pytest.fixture
def broken_compiler(monkeypatch, tmp_path):
    """It says its version, and compiles nothing."""
    path = tmp_path / "cc"
    path.write_text('#!/bin/sh\n[ "$1" = --version ] && echo cc 1.0 && exit\necho "disk full" >&2\nexit 1\n')
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


def test_where_the_compiler_fails_programs_work(monkeypatch, broken_compiler):
    monkeypatch.setattr(jit.config, "on_error", "fallback")
    said = warned()
    assert len(said) == 1 and all(word in said[0] for word in ("CompileError", "disk full", "on_error"))


def test_an_error_in_the_kernel_compiler_leaves_graphs_to_aten(monkeypatch):
    def broken(graph):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("codegen.kernels.unrolled.lower", broken)
    with pytest.raises(JitError, match="ZeroDivisionError"):
        warned()
    monkeypatch.setattr(jit.config, "on_error", "fallback")
    said = warned()
    assert len(said) == 1 and "ZeroDivisionError: of ours at test_compile.py" in said[0]


def test_training_steps():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(12, 8), torch.randint(0, 4, (12,))
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def losses(step):
        model.load_state_dict(start)
        optimizer.state.clear()
        return [step().item() for _ in range(10)]

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    torch.testing.assert_close(losses(jit.compile(step, backend="default")), losses(step), rtol=1e-4, atol=1e-5)


def test_training_steps_that_draw_and_add_up_losses():
    """AdamW's powers of the step are numbers; so is the loss, which random numbers are in."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(12, 8), torch.randint(0, 4, (12,))
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def step(total):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item()
        optimizer.step()
        return total

    def totals(step):
        torch.manual_seed(1)
        model.load_state_dict(start)
        optimizer.state.clear()
        found = [0]
        for _ in range(5):
            found.append(step(found[-1]))
        return found

    f = jit.compile(step, backend="default", options={"break_everywhere": False})
    torch.testing.assert_close(totals(f), totals(step), rtol=1e-4, atol=1e-5)
    (frame,) = f.debug_state().frames
    assert [entry.graphs[0].plan is not None for entry in frame.entries] == [True] * len(frame.entries)


PROCESS = """
import torch, jit
w = torch.linspace(0, 1, 8).requires_grad_()
loss = jit.compile(lambda w: (w.sin() * w).softmax(0).log().sum(), backend="default")(w)
loss.backward()
known = jit.cache.info()
print(known.hits, known.misses, [g.hex() for g in w.grad.tolist()])
"""


@pytest.mark.long
def test_the_second_process_compiles_no_kernel(tmp_path):
    said = []
    for _ in range(2):
        environment = {**os.environ, "JIT_CACHE_DIR": str(tmp_path), "JIT_ON_ERROR": "raise"}
        done = subprocess.run(
            [sys.executable, "-c", PROCESS], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        hits, misses, gradients = done.stdout.split(maxsplit=2)
        said.append((int(hits), int(misses), gradients))
    (_, compiled, first), (found, missing, second) = said
    assert compiled > 0 and (found, missing) == (compiled, 0) and first == second
