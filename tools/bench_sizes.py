"""`tools/bench sizes`: models called with many batches and lengths, which one compilation beside the first serves.

For each model the compilations that all pairs took, the largest difference from eager (of a result or gradient, beside
the largest element of it), and what a call takes beside code compiled for that size alone and beside eager, in turn.
"generate" is the writing of 64 tokens with a cache that grows.
"""
import argparse
import random
import time
import timeit
from collections.abc import Callable
from typing import Any

import torch

import jit
from jit.compiler import stats
from tests.models import zoo
from tools.report import duration, machine, show, take_turns

MODES = ("inference", "training")
WRITERS = ("gpt2", "llama")
TOKENS = 64


def pairs(count: int, seed: int) -> list[tuple[int, int]]:
    """(batch, length); the second differs in both from the first, as a program's last batch seldom does."""
    rng = random.Random(seed)
    found = [(rng.randint(2, 12), rng.randint(8, 96)) for _ in range(count)]
    found[1] = (found[0][0] + 1, found[0][1] + 5)
    return found


def call_of(model: Any, call: Any, inputs: dict[str, Any], mode: str) -> Callable[[], list[torch.Tensor]]:
    weights = [weight for weight in model.parameters() if weight.requires_grad]

    def run() -> list[torch.Tensor]:
        torch.manual_seed(1)
        loss = call(**inputs).loss
        if mode == "inference":
            return [loss]
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        return [loss, *(each for each in gradients if each is not None)]

    return run


def difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    with torch.no_grad():
        both = zip(ours, theirs, strict=True)
        return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-3)) for a, b in both)


def measure(name: str, mode: str, options: argparse.Namespace) -> list[str]:
    jit.reset()
    torch.manual_seed(0)
    entry = zoo.MODELS[name]
    model = entry.make_model(options.layers, options.width, train=mode == "training")
    compiled, fixed = jit.compile(model), jit.compile(model, dynamic=False)
    captured, worst = stats.captures, 0.0
    sizes = pairs(options.pairs, options.seed)
    for batch, length in sizes:
        inputs = entry.make_inputs(model, batch, length)
        worst = max(worst, difference(call_of(model, compiled, inputs, mode)(), call_of(model, model, inputs, mode)()))
    captured = stats.captures - captured
    inputs = entry.make_inputs(model, *sizes[-1])
    sides = {"ours": compiled, "fixed": fixed, "eager": model}
    calls = {side: call_of(model, call, inputs, mode) for side, call in sides.items()}
    for call in [*calls.values()] * 3:
        call()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    seconds = take_turns({side: timeit.Timer(call, timer=clock) for side, call in calls.items()}, options.rounds)
    return [
        name, str(captured), f"{worst:.1e}", duration(seconds["ours"]), f"{seconds['ours'] / seconds['fixed']:.2f}",
        f"{seconds['eager'] / seconds['ours']:.2f}x",
    ]  # fmt: skip


def write(name: str, options: argparse.Namespace) -> list[str]:
    jit.reset()
    torch.manual_seed(0)
    model: Any = zoo.MODELS[name].make_model(options.layers, options.width, train=False)
    given = torch.randint(0, 50, (1, 7))
    eager, captured = model.forward, stats.captures
    compiled = jit.compile(model.forward)

    def tokens(forward: Any) -> Any:
        model.forward = forward
        return model.generate(given, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, eos_token_id=None)

    same = torch.equal(tokens(compiled), tokens(eager))
    timers: dict[str, timeit.Timer | None] = {
        side: timeit.Timer(lambda forward=forward: tokens(forward))  # type: ignore[misc]
        for side, forward in {"ours": compiled, "eager": eager}.items()
    }
    seconds = take_turns(timers, options.rounds)
    each = [duration(seconds[side] / TOKENS) for side in ("ours", "eager")]
    ratio = f"{seconds['eager'] / seconds['ours']:.2f}x"
    return [name, str(stats.captures - captured), "the same" if same else "OTHERS", *each, ratio]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench sizes", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20, help="of batch and length (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15, help="the median of how many (default 15)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--modes", nargs="+", choices=(*MODES, "generate"), default=(*MODES, "generate"))
    parser.add_argument("--models", nargs="+", choices=tuple(zoo.MODELS), default=tuple(zoo.MODELS), metavar="NAME")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    jit.config.on_error = "raise"
    columns = ["model", "compilations", "off by", "a call", "beside one size", "beside eager"]
    for mode in MODES:
        if mode in options.modes:
            with torch.set_grad_enabled(mode == "training"):
                rows = [measure(name, mode, options) for name in options.models]
            show(f"{options.pairs} batches and lengths: {mode}", columns, rows, options.markdown)
    if "generate" in options.modes:
        rows = [write(name, options) for name in WRITERS if name in options.models]
        columns = ["model", "compilations", "tokens", "ours, each", "eager, each", "eager / ours"]
        show(f"{TOKENS} tokens with a cache", columns, rows, options.markdown)
    shape = f"{options.layers} layers, width {options.width}"
    print(f"{shape}, {options.threads} threads, seed {options.seed}. {machine()}.")


if __name__ == "__main__":
    main()
