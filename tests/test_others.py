"""Compiled code among others that run, wrap or watch the program: processes, trainers, profilers, signal handlers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset

import jit
from tests import processes
from tools.environment import ROOT


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))


def data():
    torch.manual_seed(1)
    return TensorDataset(torch.randn(32, 6), torch.randn(32, 1))


def same(train, **tolerances):
    """What `train(wrap)` gives is the same for modules as they are and compiled; it gives the module's state last."""
    *plain, state = train(lambda module: module)
    before = jit.stats()["graphs"]
    *compiled, compiled_state = train(jit.compile)
    assert jit.stats()["graphs"] > before
    torch.testing.assert_close(compiled, plain, **tolerances)
    torch.testing.assert_close(dict(compiled_state), dict(state), **tolerances)


# --- several processes ------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_gradients_of_two_processes():
    environment = {**os.environ, "JIT_ON_ERROR": "raise", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "tests.processes"], cwd=ROOT, env=environment, capture_output=True,
                          text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(processes.WAYS)


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("wrap", [
    lambda module: DistributedDataParallel(jit.compile(module, backend="aot_eager")),
    lambda module: jit.compile(DistributedDataParallel(module), backend="aot_eager")])
def test_gradients_of_one_process(alone, wrap):
    (_, gradients, names), = processes.train(wrap(net()), processes.step, 0, steps=1)
    (_, expected, expected_names), = processes.train(net(), processes.step, 0, steps=1)
    assert names == expected_names
    torch.testing.assert_close(gradients, expected)


def test_a_module_whose_class_makes_others():
    class Sharded(nn.Linear):
        def __new__(cls, *args, **kwargs):
            made = nn.Linear.__new__(nn.Linear)
            made.__init__(*args, **kwargs)
            return made

    module = nn.Linear(2, 3)
    module.__class__ = Sharded
    compiled = jit.compile(module, fullgraph=True)
    assert isinstance(compiled, Sharded) and compiled.weight is module.weight
    x = torch.ones(2, requires_grad=True)
    torch.testing.assert_close(compiled(x), module(x))


class Squares(Dataset):
    """Each item is computed by a compiled function, in whatever process."""

    def __init__(self, square):
        self.square = square

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.square(torch.tensor([float(index)]))


def test_workers_of_a_data_loader():
    square = jit.compile(lambda x: x * x + 1)
    square(torch.ones(1))  # compiled before they fork; the other one in each of them
    twice = jit.compile(lambda x: x * x + 1)
    for function in (square, twice):
        batches = list(DataLoader(Squares(function), batch_size=4, num_workers=2))
        torch.testing.assert_close(torch.cat(batches).squeeze(1), torch.arange(8.0) ** 2 + 1)


# --- trainers ---------------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_accelerate():
    accelerate = pytest.importorskip("accelerate")

    def train(wrap):
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        module = net()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        model, optimizer, loader, schedule = accelerator.prepare(
            wrap(module), optimizer, DataLoader(data(), batch_size=8), schedule)
        losses = []
        for x, y in (batch for _ in range(2) for batch in loader):
            with accelerator.accumulate(model):
                loss = mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        return losses, accelerator.get_state_dict(model)

    same(train)


@pytest.mark.long
@pytest.mark.parametrize("is_whole", [True, False])
def test_lightning(is_whole):
    lightning = pytest.importorskip("lightning")

    class Lit(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()
            self.losses = []

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, index):
            x, y = batch
            loss = mse_loss(self(x), y)
            self.log("loss", loss)
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, index):
            x, y = batch
            self.log("validation", mse_loss(self(x), y))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    def train(wrap):
        lit = Lit()
        if not is_whole:
            lit.net = wrap(lit.net)
        loader = DataLoader(data(), batch_size=8)
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(wrap(lit) if is_whole else lit, loader, loader)
        return lit.losses, trainer.callback_metrics, lit.state_dict()

    same(train)


@pytest.mark.long
def test_the_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")  # which its Trainer works with
    safetensors = pytest.importorskip("safetensors.torch")
    generator = torch.Generator().manual_seed(0)
    texts = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 40, (24, 10), generator=generator)]

    def train(wrap):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=32))
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=6, per_device_train_batch_size=4, logging_steps=3, save_steps=6,
            report_to=[], use_cpu=True, disable_tqdm=True, seed=1, learning_rate=1e-2)
        trainer = transformers.Trainer(model=wrap(model), args=arguments, train_dataset=texts, eval_dataset=texts)
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        files = os.listdir(tmp_path / "checkpoint-6")
        saved = safetensors.load_file(tmp_path / "checkpoint-6" / "model.safetensors")
        return losses, trainer.evaluate()["eval_loss"], saved, len(files), model.state_dict()

    same(train, atol=1e-4, rtol=1e-3)


# --- what watches and interrupts --------------------------------------------------------------------------------------
def test_the_profiler_of_torch():
    f = jit.compile(lambda x: (x @ x).relu().sum())
    x = torch.ones(4, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        first, second = f(x), f(x)
    assert first.item() == second.item() == 64
    assert [event.key for event in profile.key_averages() if event.key in ("aten::mm", "aten::matmul")]


def test_a_signal_handler_that_calls_compiled_functions():
    f, g = jit.compile(lambda x: x + 1, backend="eager"), jit.compile(lambda x: x * 3, backend="eager")
    seen = []

    @jit.disable
    def interrupted():
        signal.raise_signal(signal.SIGUSR1)

    def program(x):
        y = x + 1
        interrupted()
        return y * 2

    before = signal.signal(signal.SIGUSR1, lambda *_: seen.extend([f(torch.ones(2)).tolist(), g(torch.ones(1)).item()]))
    try:
        compiled = jit.compile(program, backend="eager")
        results = [compiled(torch.ones(1)).item() for _ in range(3)]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert results == [4, 4, 4] and seen == [[2, 2], 3] * 3
