"""`tools/bench overhead`: what a call of a compiled function costs beyond the work itself, beside torch.compile.

Added cost is measured with a backend whose graphs do nothing: they return tensors that were made beforehand. What a
call takes then, less what calling such a graph directly takes, is what the compiler adds: checking guards, fetching
parameters, calling the graph, unpacking its results. The times with `backend="eager"`, which runs the captured
operations one by one, stand beside it to show what that means for a whole call.
"""
import argparse
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx, nn

import jit
from tools.report import duration, machine, ratio, show, take_turns

Compile = Callable[[Any], Any]
T = torch.Tensor
COMPILERS: dict[str, Callable[..., Any]] = {"ours": jit.compile, "theirs": torch.compile}


@dataclass(frozen=True)
class Case:
    """`make(compile)` gives the statement to time and the names in it; it is a fresh program at every call."""

    name: str
    make: Callable[[Compile], tuple[str, dict[str, Any]]]
    calls: int = 1  # in the statement


def four_elements(compile: Compile) -> tuple[str, dict[str, Any]]:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    return "f(x)", {"f": compile(f), "x": torch.ones(4)}


def ten_tensors(compile: Compile) -> tuple[str, dict[str, Any]]:
    def f(a: T, b: T, c: T, d: T, e: T, g: T, h: T, i: T, j: T, k: T) -> T:
        return a + b + c + d + e + g + h + i + j + k

    names = "abcdeghijk"
    return f"f({', '.join(names)})", {"f": compile(f), **{name: torch.ones(4) for name in names}}


def bound_method(compile: Compile) -> tuple[str, dict[str, Any]]:
    class Scale:
        def __init__(self) -> None:
            self.factor = torch.ones(4)

        def apply(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    Scale.apply = compile(Scale.apply)  # type: ignore[method-assign]  # what decorating it does
    return "scale.apply(x)", {"scale": Scale(), "x": torch.ones(4)}


def small_module(compile: Compile) -> tuple[str, dict[str, Any]]:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.second = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)))

    return "model(x)", {"model": compile(Small()), "x": torch.ones(4)}


def deep_module(parameters: int, compile: Compile) -> tuple[str, dict[str, Any]]:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(parameters // 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    return "model(x)", {"model": compile(Deep()), "x": torch.ones(4)}


def specialised(statement: str, compile: Compile) -> tuple[str, dict[str, Any]]:
    """Eight numbers of dimensions: neither compiler makes these dynamic, so each stays a specialisation of its own."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    f = compile(f)
    names = {f"x{rank}": torch.ones([4] + [1] * (rank - 1)) for rank in range(1, 9)}
    for x in names.values():
        f(x)
    return statement, {"f": f, **names}


CASES = (
    Case("`x + 1`, four elements", four_elements),
    Case("function of ten tensors", ten_tensors),
    Case("bound method", bound_method),
    Case("Linear-ReLU-Linear", small_module),
    Case("module, 100 parameters", partial(deep_module, 100)),
    Case("module, 1,000 parameters", partial(deep_module, 1000)),
    Case("8 specialisations, the last one hit", partial(specialised, "f(x8)")),
    Case(
        "8 specialisations, hit in turn (per call)",
        partial(specialised, "; ".join(f"f(x{rank})" for rank in range(1, 9))), calls=8,
    ),
)


def product(compile: Compile) -> tuple[str, dict[str, Any]]:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w

    w = torch.ones(4, requires_grad=True)
    return "w.grad = None; f(x, w).backward(one)", {"f": compile(f), "x": torch.ones(4), "w": w, "one": torch.ones(4)}


def long_product(parameters: int, compile: Compile) -> tuple[str, dict[str, Any]]:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factors = nn.ParameterList(nn.Parameter(torch.ones(4)) for _ in range(parameters))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for factor in self.factors:
                x = x * factor
            return x

    model = Product()
    names = {"model": model, "f": compile(model), "x": torch.ones(4), "one": torch.ones(4)}
    return "model.zero_grad(); f(x).backward(one)", names


def whole_step(parameters: int, compile: Compile) -> tuple[str, dict[str, Any]]:
    """Forward, backward and optimizer in one compiled function."""
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(parameters)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(x: T) -> T:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return "step(x)", {"step": compile(step), "x": torch.ones(4, 8)}


STEP = Case("forward, backward and AdamW of 100 parameters", partial(whole_step, 100))
TRAINING_CASES = (
    Case("forward and backward of `x * w`, four elements", product),
    Case("the same of a product of 300 parameters", partial(long_product, 300)),
    STEP,
)


def five_operations(compile: Compile) -> tuple[str, dict[str, Any]]:
    def f(x: T) -> T:
        return (((x + 1) * x) + 2) * 0.5 - x

    return "f(x)", {"f": compile(f), "x": torch.ones(4)}


def small_step(compile: Compile) -> tuple[str, dict[str, Any]]:
    _, names = small_module(compile)
    return "model(x).backward(one)", {**names, "one": torch.ones(4)}


#: Small calls, through kernels.
SMALL_CASES = (
    CASES[0],
    Case("five operations, four elements", five_operations),
    Case("Linear-ReLU-Linear", small_module),
    TRAINING_CASES[0],
    Case("forward and backward of Linear-ReLU-Linear", small_step),
)


class NoWork:
    """A backend whose graphs return one ready-made tensor; it remembers its last graph for a direct call."""

    def __init__(self) -> None:
        self.output = torch.zeros(4)

    def __call__(self, graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        outputs = (self.output,)
        self.arguments = tuple(range(len(inputs)))
        self.run = lambda *arguments: outputs
        return self.run

    def direct(self) -> timeit.Timer:
        """Its arguments come as one ready tuple: bringing them together is part of what a compiler adds."""
        return timeit.Timer("run(*arguments)", globals={"run": self.run, "arguments": self.arguments})


@dataclass(frozen=True)
class Result:
    """Seconds per call: whole calls with backend="eager", and what each compiler adds (None: it compiled nothing)."""

    whole: dict[str, float]
    added: dict[str, float | None]


def timer(case: Case, compile: Compile, expected: torch.Tensor | None = None) -> timeit.Timer | None:
    """A timer of the case's statement, compiled and warm; None if its calls do not return `expected`.

    That is the tensor which a graph without work returns: a call that returns another ran eagerly after all.
    """
    statement, names = case.make(compile)
    ready = timeit.Timer(statement, globals=names)
    ready.timeit(5)
    if expected is not None and any(eval(call, names) is not expected for call in statement.split("; ")):
        return None
    return ready


def forget() -> None:
    """Empties both compilers, so that one measurement's programs do not lengthen the look-ups of the next."""
    jit.reset()
    torch.compiler.reset()


def measure(case: Case, rounds: int) -> Result:
    forget()
    backends = {name: NoWork() for name in COMPILERS}
    timers = {
        name: timer(case, partial(compile, backend=backends[name]), backends[name].output)
        for name, compile in COMPILERS.items()
    }
    timers |= {f"{name}, direct": backends[name].direct() for name in COMPILERS if timers[name] is not None}
    times = take_turns(timers, rounds)
    added = {name: times[name] / case.calls - times[f"{name}, direct"] for name in COMPILERS if name in times}

    forget()
    timers = {"eager": timer(case, lambda program: program)}
    timers |= {name: timer(case, partial(compile, backend="eager")) for name, compile in COMPILERS.items()}
    whole = {name: seconds / case.calls for name, seconds in take_turns(timers, rounds).items()}
    return Result(whole, {name: added.get(name) for name in COMPILERS})


def measure_training(case: Case, rounds: int) -> list[str]:
    """Whole steps, with graphs for forward and backward that ATen runs as they are."""
    forget()
    timers = {"eager": timer(case, lambda program: program)}
    timers |= {name: timer(case, partial(compile, backend="aot_eager")) for name, compile in COMPILERS.items()}
    times = take_turns(timers, rounds)
    ours, theirs = times["ours"] - times["eager"], times["theirs"] - times["eager"]
    return [case.name, *map(duration, (*times.values(), ours, theirs)), ratio(ours, theirs)]


def measure_kernels(case: Case, rounds: int) -> list[str]:
    """Whole calls, with kernels of each compiler's own."""
    forget()
    timers = {"eager": timer(case, lambda program: program)}
    timers["ours"] = timer(case, partial(jit.compile, backend="default"))
    timers["theirs"] = timer(case, torch.compile)
    times = take_turns(timers, rounds)
    return [case.name, *map(duration, times.values()), ratio(times["ours"], times["eager"]),
            ratio(times["ours"], times["theirs"])]  # fmt: skip


def measure_guards(case: Case, rounds: int) -> list[str]:
    """The guards of a whole step alone, beside the eager step."""
    forget()
    statement, names = case.make(partial(jit.compile, backend="eager"))
    timeit.Timer(statement, globals=names).timeit(5)
    step = names["step"]
    names |= {"check": step.cache.entries[0].guards.check, "function": step.__wrapped__, "slots": (names["x"],)}
    guards = timeit.Timer("check(function, slots)", globals=names)
    times = take_turns({"eager": timer(case, lambda program: program), "guards": guards}, rounds)
    return [case.name, *map(duration, times.values()), f"{times['guards'] / times['eager']:.2%}"]


def many_sizes(*tensors: T) -> T:
    """Asks six things of the sizes of each matrix, and of their neighbours'."""
    known = 0
    for x, y in zip(tensors, (*tensors[1:], tensors[0]), strict=True):
        rows, columns = x.shape
        known += (rows * 3 < y.shape[1]) + 2 * (y.shape[0] + columns < 40) + 4 * (rows < columns)
        known -= (columns % 7 == 6) + 2 * (rows != 31) + 4 * (columns * 2 - rows > 5)
    return tensors[0] + known


def measure_size_guards(rounds: int) -> list[str]:
    """The guards of `many_sizes` for all sizes, beside those for these sizes alone."""
    forget()
    matrices = tuple(torch.ones(3 + n, 14 + 2 * n) for n in range(10))
    timers, count = {}, 0
    for name, dynamic in (("static", False), ("varying", True)):
        compiled = jit.compile(many_sizes, dynamic=dynamic, backend="eager")
        compiled(*matrices)
        (entry,) = compiled.cache.entries
        count = sum(guard.kind == "shape" for guard in entry.meta.guards)
        names = {"check": entry.guards.check, "function": many_sizes, "slots": (matrices,)}
        timers[name] = timeit.Timer("check(function, slots)", globals=names, timer=time.process_time)
    times = take_turns(timers, rounds)
    more = times["varying"] - times["static"]
    return [f"10 matrices, {count} conditions", *map(duration, (*times.values(), more))]


def row(case: Case, result: Result) -> list[str]:
    ours, theirs = result.added["ours"], result.added["theirs"]
    return [
        case.name,
        *(duration(result.whole[name]) for name in ("eager", "ours", "theirs")),
        *("not compiled" if added is None else duration(added) for added in (ours, theirs)),
        "-" if ours is None or theirs is None else ratio(ours, theirs),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=21, help="the median of how many (default 21)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases with TEXT in their name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    options = parser.parse_args()
    torch.set_num_threads(1)

    rows = [row(case, measure(case, options.rounds)) for case in CASES if options.only in case.name]
    columns = [
        "per call", "eager", "ours", "torch.compile", "ours adds", "torch.compile adds", "theirs / ours",
    ]
    show("Cost of a cached call", columns, rows, options.markdown)
    rows = [measure_training(case, options.rounds) for case in TRAINING_CASES if options.only in case.name]
    show('Cost of a cached step, backend="aot_eager"', columns, rows, options.markdown)
    rows = [measure_guards(STEP, options.rounds)] if options.only in STEP.name else []
    show("Guards of a cached step", ["per call", "eager step", "guards", "share"], rows, options.markdown)
    rows = [measure_size_guards(options.rounds)] if options.only in "conditions on sizes" else []
    show("Guards on 20 sizes", ["guards", "of these sizes", "of all sizes", "more"], rows, options.markdown)
    rows = [measure_kernels(case, options.rounds) for case in SMALL_CASES if options.only in case.name]
    columns = ["per call", "eager", "ours", "torch.compile", "eager / ours", "theirs / ours"]
    show('Small calls, backend="default" and inductor', columns, rows, options.markdown)
    print('\nWhole calls have backend="eager"; added cost has a backend that does no work, its own cost taken off.')
    print(f"Medians of {options.rounds} rounds taken in turn, 1 thread. {machine()}.")


if __name__ == "__main__":
    main()
