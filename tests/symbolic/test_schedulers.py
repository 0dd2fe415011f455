"""Schedulers of learning rates, averages of weights and what else a training step does beside its optimizer: in its
graph, the numbers and the state of eager code, and no compilation for each step."""
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler as schedulers
from torch.optim import swa_utils

import jit
from tests.differential import COUNTING, Counting, check

X, Y = torch.randn(5, 4, generator=torch.Generator().manual_seed(3)), torch.tensor([0, 1, 2, 0, 1])

#: name: (how it is made, graphs in 14 steps)
SCHEDULERS = {
    "function": (lambda opt: schedulers.LambdaLR(opt, lambda epoch: 0.95**epoch), 2),
    "warmup": (lambda opt: schedulers.LambdaLR(opt, lambda epoch: min(1.0, epoch / 5)), 2),
    "warmup by hand": (lambda opt: schedulers.LambdaLR(opt, lambda epoch: epoch / 5 if epoch < 5 else 0.9 ** (epoch - 5)), 3),
    "factor": (lambda opt: schedulers.MultiplicativeLR(opt, lambda epoch: 0.95), 2),
    "steps": (lambda opt: schedulers.StepLR(opt, 4), 3),
    "milestones": (lambda opt: schedulers.MultiStepLR(opt, [3, 7]), 4),
    "constant": (lambda opt: schedulers.ConstantLR(opt, total_iters=4), 3),
    "linear": (lambda opt: schedulers.LinearLR(opt, total_iters=5), 3),
    "exponential": (lambda opt: schedulers.ExponentialLR(opt, 0.9), 2),
    "cosine": (lambda opt: schedulers.CosineAnnealingLR(opt, 10), 3),
    "restarts": (lambda opt: schedulers.CosineAnnealingWarmRestarts(opt, 4), 3),
    "polynomial": (lambda opt: schedulers.PolynomialLR(opt, 8, 2.0), 3),
    "one cycle": (lambda opt: schedulers.OneCycleLR(opt, 0.1, total_steps=20), 3),
    "cycles": (lambda opt: schedulers.CyclicLR(opt, 0.01, 0.1, step_size_up=3, cycle_momentum=False), 3),
    "sequence": (lambda opt: schedulers.SequentialLR(
        opt, [schedulers.LinearLR(opt, total_iters=3), schedulers.CosineAnnealingLR(opt, 10)], [3]), 6),
    "chain": (lambda opt: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(opt, total_iters=3), schedulers.ExponentialLR(opt, 0.9)]), 3),
}  # fmt: skip
if not COUNTING:  # a break after every call makes hundreds of pieces of each step
    SCHEDULERS = {name: SCHEDULERS[name] for name in ("milestones", "sequence")}


def plain(state):
    """What is in a state, objects aside."""
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items() if not callable(value)}
    return [plain(each) for each in state] if isinstance(state, list) else str(state)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_step_in_the_graph(name):
    make, graphs = SCHEDULERS[name]

    def train(wrap):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        opt = torch.optim.AdamW([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.02}], lr=0.01)
        schedule = make(opt)

        def step():
            opt.zero_grad()
            loss = F.cross_entropy(model(X), Y)
            loss.backward()
            opt.step()
            schedule.step()
            return loss.detach(), schedule.get_last_lr()

        step, seen = wrap(step), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SequentialLR hands its schedulers an epoch, which is deprecated
            for _ in range(14):
                loss, rates = step()
                seen.append((loss.tolist(), rates, [group["lr"] for group in opt.param_groups]))
        return seen, plain(schedule.state_dict()), [parameter.tolist() for parameter in model.parameters()]

    counter = Counting(None)
    assert train(lambda step: jit.compile(step, backend=counter, fullgraph=COUNTING)) == train(lambda step: step)
    if COUNTING:
        assert len(counter.graphs) <= graphs


def test_averages_of_weights_are_in_the_graph():
    def train(wrap):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        mean = swa_utils.AveragedModel(model)
        moving = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            loss = F.cross_entropy(model(X), Y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            mean.update_parameters(model)
            moving.update_parameters(model)
            return loss.detach()

        step = wrap(step)
        losses = [step().item() for _ in range(6)]
        return losses, [(key, value.tolist()) for each in (mean, moving) for key, value in each.state_dict().items()]

    counter = Counting(None)
    assert train(lambda step: jit.compile(step, backend=counter, fullgraph=COUNTING)) == train(lambda step: step)
    if COUNTING:
        assert len(counter.graphs) <= 3


class Trainer:
    """All that a training has, and nobody else has it."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.model = nn.Linear(4, 3)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.schedule = make(self.opt)

    def step(self, x):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.model(x), Y)
        loss.backward()
        self.opt.step()
        self.schedule.step()
        return loss.detach()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_whole_training_is_one_graph(name):
    def train(x):
        trainer = Trainer(SCHEDULERS[name][0])
        losses = [trainer.step(x) for _ in range(3)]
        return losses, trainer.schedule.get_last_lr(), [each.detach() for each in trainer.model.parameters()]

    check(train, X, graphs=1)
