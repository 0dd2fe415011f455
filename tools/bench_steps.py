"""`tools/bench steps`: how long forward and backward of whole models take, captured and differentiated ahead of time.

All sides run ATen's own kernels: eager code, our `backend="aot_eager"` and torch.compile's. What differs is how many
operations there are and what calls them. Times are those of the processor, on one thread: what the neighbours on a
shared machine do does not count.
"""
import argparse
import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import jit
from tests.models.zoo import MODELS
from tools.demo_gpt import BYTES, GPT
from tools.report import duration, machine, show, take_turns

SIDES: dict[str, Callable[[Any], Any]] = {
    "eager": lambda model: model,
    "ours": partial(jit.compile, backend="aot_eager"),
    "torch.compile": partial(torch.compile, backend="aot_eager"),
}
DEMO = "the demo's GPT"


def loss_of(name: str, options: argparse.Namespace, compile: Callable[[Any], Any]) -> tuple[Any, Callable[[], Any]]:
    """A fresh model and what computes its loss. Both are the same at each call."""
    if name == DEMO:
        torch.manual_seed(0)
        model: Any = GPT(options.layers, options.width, options.length)
        tokens = torch.randint(0, BYTES, (options.batch, options.length))
        call = compile(model)
        return model, lambda: call(tokens, tokens)
    entry = MODELS[name]
    model = entry.make_model(options.layers, options.width, train=True)
    inputs = entry.make_inputs(model, options.batch, options.length)
    call = compile(model)
    return model, lambda: call(**inputs).loss


def timer(name: str, options: argparse.Namespace, compile: Callable[[Any], Any], expected: list[Any]) -> timeit.Timer:
    """A timer of forward and backward, compiled and warm. `expected` gets the gradients, or is compared with them."""
    model, loss = loss_of(name, options, compile)

    def step() -> None:
        model.zero_grad()
        loss().backward()

    for _ in range(3):
        step()
    gradients = [parameter.grad for parameter in model.parameters()]
    if not expected:
        expected.extend(gradients)
    torch.testing.assert_close(gradients, expected, rtol=1e-3, atol=1e-5)
    return timeit.Timer(step, timer=time.process_time)


def row(name: str, options: argparse.Namespace) -> list[str]:
    jit.reset()
    torch.compiler.reset()
    expected: list[Any] = []
    timers = {side: timer(name, options, compile, expected) for side, compile in SIDES.items()}
    times = take_turns(timers, options.rounds)
    parts = [f"{times[side] / times['eager']:.2f}" for side in SIDES if side != "eager"]
    return [name, *map(duration, times.values()), *parts]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench steps", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=21, help="the median of how many (default 21)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--models", nargs="+", choices=[*MODELS, DEMO], default=[*MODELS, DEMO], metavar="NAME")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    jit.config.on_error = "raise"  # a fallback to eager would be no slower than eager

    rows = [row(name, options) for name in options.models]
    columns = ["forward and backward", *SIDES, *(f"{side} / eager" for side in SIDES if side != "eager")]
    show('Training steps, backend="aot_eager"', columns, rows, options.markdown)
    print(f"\n{options.layers} layers, width {options.width}, batch {options.batch}, length {options.length}. Medians "
          f"of {options.rounds} rounds taken in turn, 1 thread. {machine()}.")


if __name__ == "__main__":
    main()
