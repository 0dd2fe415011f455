"""`tools/demo`: a small GPT learns to write Python, eager and compiled side by side.

It reads the standard library's source as bytes. Both sides start from the same weights and see the same batches, so
their losses must agree step by step: bit by bit with `--backend eager`, up to rounding where a backend makes kernels.
"""
import argparse
import copy
import math
import os
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn
from torch.nn import functional as F

from tools.environment import ROOT

BYTES = 256
WARM_UP = 3  # steps that compile, or fill caches; they do not count for the speed
TOLERANCE = 1e-3  # of the loss, for backends that order their sums in another way than eager


class Attention(nn.Module):
    """Causal self-attention, written out."""

    future: torch.Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(self.future[:length, :length], float("-inf")).softmax(-1)
        return self.project_out((weights @ value).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, length)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    """Predicts the next byte; called with the right answers, it returns the loss."""

    def __init__(self, layers: int, width: int, length: int) -> None:
        super().__init__()
        self.token = nn.Embedding(BYTES, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, max(1, width // 32), length) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


@dataclass
class Side:
    """One of the two trainings: its model, how the model is called, and what came out so far."""

    model: nn.Module
    call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> None:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.call(tokens, targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())  # item() waits for the device, so the clock is stopped in time
        self.seconds.append(time.perf_counter() - start)

    @property
    def pace(self) -> float:
        """Seconds per step, once warm."""
        return statistics.median(self.seconds[WARM_UP:] or self.seconds)


def standard_library() -> torch.Tensor:
    """The top level of Python's own library as one long row of bytes."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"\n".join(file.read_bytes() for file in files)), dtype=torch.uint8)


def batches(text: torch.Tensor, steps: int, batch: int, length: int, device: str) -> Iterator[tuple[torch.Tensor, ...]]:
    """Random pieces of the text, and the same pieces one byte further on."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(len(text) - length, (batch, 1), generator=random)
        piece = text[starts + torch.arange(length + 1)].long().to(device)
        yield piece[:, :-1], piece[:, 1:]


@contextmanager
def progress(console: Console, steps: int) -> Iterator[Callable[[int, str], None]]:
    """Gives a function that shows how far we are: a live line on a terminal, else a line now and then."""
    if not console.is_terminal:
        yield lambda step, text: print(f"step {step:4d}/{steps}  {text}", flush=True) if (
            step <= WARM_UP or step % max(1, steps // 10) == 0 or step == steps
        ) else None
        return
    columns = [BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn()]
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=steps, text="the first call compiles")
        yield lambda step, text: bar.update(task, completed=step, text=text)


def differences(eager: Side, compiled: Side) -> list[float]:
    """How far the two losses are apart at each step, as a part of the loss."""
    pairs = zip(eager.losses, compiled.losses, strict=True)
    return [0.0 if a == b else abs(a - b) / abs(a) for a, b in pairs]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128, help="bytes that the model sees at once")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backend", default="default", help="`eager` runs the captured graph as it is")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    console = Console()
    dump = Path(os.environ.setdefault("JIT_DUMP", str(ROOT / "build" / "demo-dump")))
    import jit  # only now: it reads JIT_DUMP when it is imported

    torch.manual_seed(0)
    model = GPT(options.layers, options.width, options.length).to(options.device)
    twin = copy.deepcopy(model)
    eager, compiled = Side(model, model), Side(twin, jit.compile(twin, backend=options.backend))
    text = standard_library()
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count:,} parameters, {len(text):,} bytes of Python; torch {torch.__version__} on {options.device}, "
          f"{torch.get_num_threads()} threads; backend {options.backend}", flush=True)

    with progress(console, options.steps) as show:
        todo = batches(text, options.steps, options.batch, options.length, options.device)
        for step, (tokens, targets) in enumerate(todo, 1):
            eager.step(tokens, targets)
            compiled.step(tokens, targets)
            show(step, f"loss {eager.losses[-1]:.4f} eager {compiled.losses[-1]:.4f} compiled   "
                       f"{1e3 * eager.seconds[-1]:.0f} ms / {1e3 * compiled.seconds[-1]:.0f} ms")

    apart = differences(eager, compiled)
    exact = sum(difference == 0 for difference in apart)
    allowed = 0.0 if options.backend == "eager" else TOLERANCE
    agree = all(difference <= allowed for difference in apart)  # not max(): it may overlook a NaN
    tokens_per_step = options.batch * options.length
    counts = jit.stats()
    explained = jit.explain(model)(*next(batches(text, 1, options.batch, options.length, options.device)))

    print(f"losses       {'agree' if agree else 'DO NOT AGREE'}: {exact} of {options.steps} steps bit by bit, "
          f"largest difference {max(apart):.1e} of the loss (allowed: {allowed:.0e})")
    for name, side in (("eager", eager), ("compiled", compiled)):
        print(f"{name:12} {1e3 * side.pace:.1f} ms per step, {tokens_per_step / side.pace:,.0f} bytes/s; "
              f"first step {side.seconds[0]:.2f} s; last loss {side.losses[-1]:.4f}")
    print(f"speed        compiled is {eager.pace / compiled.pace:.2f} times as fast as eager")
    print(f"graphs       {explained.graph_count} with {explained.op_count} operations, "
          f"{explained.graph_break_count} breaks; {counts['graphs']} compiled in all, "
          f"{counts['errors']} errors of the compiler that fell back to eager")
    for reason in explained.break_reasons:
        print(f"  break      {reason}")
    print(f"debug dump   {dump}")
    return 0 if agree and counts["graphs"] and not counts["errors"] else 1


if __name__ == "__main__":
    sys.exit(main())
