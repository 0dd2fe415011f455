"""Makes a script that shows a fault small, and says which stage is at fault: `python -m jit minify SCRIPT`.

Each trial runs in a child process, for crashes are among what is looked for. The stages are told apart by the backends
that stop before them: "eager" captures only, "aot_eager" also differentiates and makes graphs functional, "default"
also makes kernels. The first one whose result is not that of the program itself is at fault. Then the graph loses what
it can lose with the fault still there: results first, then operations, which become inputs (delta debugging: Zeller and
Hildebrandt, 2002); where capturing is at fault, the script's text loses statements instead.
"""

from __future__ import annotations

import ast
import copy
import functools
import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from jit import api, repro
from jit.repro import NoScript, Script

#: Backend -> the stage that it has and the one before has not.
STAGES = {"eager": "capture", "aot_eager": "differentiation ahead of time", "default": "kernels"}
#: Seconds that a trial may take.
PATIENCE = 120
#: How far results may be apart, as a multiple of what torch takes for equal.
TOLERANCE = 10.0


@dataclass(frozen=True)
class Outcome:
    """`kind`: "same", "differs", "raises X" or "dies"; two faults are one if their kinds are."""

    kind: str
    text: str = ""

    def __str__(self) -> str:
        return self.kind + (f": {self.text}" if self.text else "")


SAME = Outcome("same")


def blame(script: Script) -> dict[str, Outcome]:
    """What each backend comes to, up to the first that is not the same."""
    found = {}
    for backend in STAGES:
        found[backend] = trial(script, backend)
        if found[backend].kind != "same":
            break
    return found


def trial(script: Script, backend: str) -> Outcome:
    """The program compiled against the program itself, in a child process. Results, gradients and written arguments
    count. A program that raises by itself is no trial: "same"."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "outcome")
        child = _processes().Process(target=_answer, args=(script.text, script.path, backend, str(answer)))
        child.start()
        child.join(PATIENCE)
        if child.is_alive():
            child.kill()
            child.join()
            return Outcome("hangs", f"more than {PATIENCE} s")
        if child.exitcode is None or child.exitcode < 0:
            return Outcome("dies", signal.Signals(-(child.exitcode or 0)).name)
        if not answer.exists():
            return Outcome("dies", f"with status {child.exitcode}")
        kind, _, text = answer.read_text(encoding="utf-8").partition("\n")
        return Outcome(kind, text)


def shrunk(script: Script, backend: str, wanted: str) -> Script:
    """A smaller script with an outcome of that kind through that backend."""

    def fails(candidate: Script) -> bool:
        return trial(candidate, backend).kind == wanted

    if backend == "eager":
        return _shrink_text(script, fails)
    try:
        graph, values = _captured(script)
        first = repro.read(repro.text(graph, values, wanted, script.prelude), script.path)
    except NoScript:
        return _shrink_text(script, fails)
    if not fails(first):  # the values matter, or what stands around the graph
        return _shrink_text(script, fails)
    return _shrink_graph(graph, values, first, fails)


# --- trials -----------------------------------------------------------------------------------------------------------
@functools.cache
def _processes() -> multiprocessing.context.ForkServerContext:
    """Where children come from: a process that has imported all and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jit.minify"])
    return context


def _answer(text: str, path: str, backend: str, answer: str) -> None:
    """In the child."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    outcome = _compared(repro.read(text, path), backend)
    Path(answer).write_text(f"{outcome.kind}\n{outcome.text}", encoding="utf-8")


def _compared(script: Script, backend: str) -> Outcome:
    api.config.on_error = "raise"
    api.config.disk_cache = False
    try:
        expected = _run(script.program(), script.inputs())
    except Exception:
        return SAME
    try:
        compiled = _run(api.compile(script.program(), backend=backend, fullgraph=True), script.inputs())
    except Exception as error:
        cause = error.__cause__ or error
        return Outcome(f"raises {type(cause).__name__}", str(cause).partition("\n")[0])
    for one, other in zip(expected, compiled, strict=True):
        told = _difference(one, other)
        if told:
            return Outcome("differs", told)
    return SAME


def _run(program: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    """Results, gradients and arguments afterwards, flat."""
    torch.manual_seed(2)
    results = pytree.tree_leaves(program(*arguments))
    differentiable = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
    if differentiable:
        total = torch.stack([each.sum().abs() if each.is_complex() else each.sum().double() for each in differentiable])
        total.sum().backward()
    grads = [each.grad for each in arguments if isinstance(each, torch.Tensor)]
    return [*results, *grads, *arguments]


def _difference(expected: Any, found: Any) -> str:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        is_same = type(expected) is type(found) and expected in (found, None)
        return "" if is_same else f"{found!r} instead of {expected!r}"
    if expected.stride() != found.stride():
        return f"strides {found.stride()} instead of {expected.stride()}"
    rtol, atol = torch.testing._comparison.default_tolerances(expected.dtype)
    try:
        rtol, atol = rtol * TOLERANCE, atol * TOLERANCE
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=rtol, atol=atol)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def _captured(script: Script) -> tuple[fx.GraphModule, list[Any]]:
    """The graph of the program, and values that look like its inputs. Raises NoScript if it is not one graph."""
    kept: list[tuple[fx.GraphModule, list[Any]]] = []

    def keep(graph: fx.GraphModule, values: list[Any]) -> Callable[..., Any]:
        kept.append((copy.deepcopy(graph), list(values)))
        return graph.forward

    try:
        api.compile(script.program(), backend=keep, fullgraph=True)(*script.inputs())
    except Exception as error:
        raise NoScript(f"the program is not one graph: {error}") from None
    if len(kept) != 1:
        raise NoScript(f"the program is {len(kept)} graphs")
    return kept[0]


# --- shrinking --------------------------------------------------------------------------------------------------------
def _shrink_graph(
    graph: fx.GraphModule, values: list[Any], script: Script, fails: Callable[[Script], bool]
) -> Script:
    looks = _looks(graph, values)
    best = script

    def attempt(outputs: list[str], cut: list[str]) -> bool:
        nonlocal best
        try:
            made = _part(graph, looks, outputs, cut, script)
        except (NoScript, RuntimeError, ValueError):
            return False
        if made is None or not fails(made):
            return False
        best = made
        return True

    outputs = [node.name for node in _results(graph) if node.name in looks]
    for name in outputs:
        if len(outputs) > 1 and attempt([name], []):
            outputs = [name]
            break
    outputs = _earliest(graph, looks, outputs, attempt)
    operations = [node.name for node in graph.graph.nodes if node.op.startswith("call") and node.name in looks]
    cut = _most(operations, lambda names: attempt(outputs, names))
    attempt(outputs, cut)
    return best


def _earliest(
    graph: fx.GraphModule, looks: dict[str, Any], outputs: list[str], attempt: Callable[[list[str], list[str]], bool]
) -> list[str]:
    """The first operation that has the fault as the only result, found by halves; else the outputs as they are."""
    names = [node.name for node in graph.graph.nodes if node.op.startswith("call") and node.name in looks]
    low, high, found = 0, len(names), outputs
    while low < high:
        middle = (low + high) // 2
        if attempt([names[middle]], []):
            high, found = middle, [names[middle]]
        else:
            low = middle + 1
    return found


def _most(names: list[str], works: Callable[[list[str]], bool]) -> list[str]:
    """As many of the names as still work together: chunks are tried, then halves of them."""
    taken: list[str] = []
    size = len(names)
    while size:
        for start in range(0, len(names), size):
            chunk = [name for name in names[start : start + size] if name not in taken]
            if chunk and works([*taken, *chunk]):
                taken += chunk
        size //= 2
    return taken


def _part(
    graph: fx.GraphModule, looks: dict[str, Any], outputs: Sequence[str], cut: Sequence[str], whole: Script
) -> Script | None:
    """The script in which `cut` are inputs and `outputs` the results; None where nothing would be computed."""
    made = fx.Graph()
    mapped: dict[fx.Node, fx.Node] = {}
    values: list[Any] = []
    needed = _needed(graph, outputs, set(cut))
    for node in graph.graph.nodes:
        if node.op == "output" or node not in needed:
            continue
        if node.op == "placeholder" or node.name in cut:
            mapped[node] = made.placeholder(node.name)
            values.append(looks[node.name])
        else:
            mapped[node] = made.node_copy(node, mapped.__getitem__)
    if not any(node.op.startswith("call") for node in made.nodes):
        return None
    made.output(tuple(mapped[node] for node in graph.graph.nodes if node.name in outputs))
    text = repro.text(fx.GraphModule(graph, made), values, whole.why, whole.prelude)
    return repro.read(text, whole.path)


def _needed(graph: fx.GraphModule, outputs: Sequence[str], cut: set[str]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    left = [node for node in graph.graph.nodes if node.name in outputs]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += [] if node.name in cut else node.all_input_nodes
    return found


def _results(graph: fx.GraphModule) -> list[fx.Node]:
    return next(node for node in graph.graph.nodes if node.op == "output").all_input_nodes


def _looks(graph: fx.GraphModule, values: Sequence[Any]) -> dict[str, Any]:
    """A value for each node that is a tensor or a number, by running the graph on values of the seed."""
    torch.manual_seed(0)
    made = [eval(repro.recipe(value), repro.names()) for value in values]
    found: dict[str, Any] = {}

    class Noting(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, torch.Tensor):
                found[n.name] = result.detach().requires_grad_(result.requires_grad)
            elif isinstance(result, (int, float)):
                found[n.name] = result
            return result

    Noting(graph).run(*made)
    return found


def _shrink_text(script: Script, fails: Callable[[Script], bool]) -> Script:
    """Statements are left out, one after the other from the end, until none can be spared."""
    best = script
    progress = True
    while progress:
        progress = False
        for text in _without_a_statement(best.text):
            try:
                candidate = repro.read(text, script.path)
            except Exception:  # the text does things of its own when it is read
                continue
            if fails(candidate):
                best, progress = candidate, True
                break
    return best


def _without_a_statement(text: str) -> Iterator[str]:
    """The script with each of the statements of its program left out in turn."""
    for number in reversed(range(sum(1 for _ in _bodies(ast.parse(text))))):
        tree = ast.parse(text)
        body, at = list(_bodies(tree))[number]
        del body[at]
        if not body:
            body.append(ast.Pass())
        made = ast.unparse(ast.fix_missing_locations(tree))
        if made != ast.unparse(ast.parse(text)):
            yield made + "\n"


def _bodies(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], int]]:
    programs = [statement for statement in tree.body if repro.is_program(statement)]
    for node in (node for program in programs for node in ast.walk(program)):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield from ((body, at) for at, statement in enumerate(body) if not isinstance(statement, ast.Pass))


def main(path: str) -> int:
    """Says who is at fault and writes the small script beside the given one; answers with the exit status."""
    try:
        script = repro.load(path)
    except NoScript as error:
        print(f"framejit: {error}", file=sys.stderr)
        return 2
    outcomes = blame(script)
    for backend, outcome in outcomes.items():
        print(f'backend="{backend}" ({STAGES[backend]}): {outcome}')
    backend, outcome = list(outcomes.items())[-1]
    if outcome.kind == "same":
        print("every backend gives what the program itself gives")
        return 0
    print(f"At fault: {STAGES[backend]}.")
    small = shrunk(script, backend, outcome.kind)
    target = os.path.splitext(path)[0] + "_small.py"
    Path(target).write_text(small.text, encoding="utf-8")
    print(f"{target}: {len(small.text.splitlines())} lines of {len(script.text.splitlines())}")
    return 1
