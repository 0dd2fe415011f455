"""Torch's own table of operations (OpInfo) through compiled kernels, beside eager.

    python -m tests.codegen.kernels.opinfo_compiled [--samples N] [--processes N] [--report FILE] [NAME ...]

For each operation, dtype and first samples: results, inputs afterwards and gradients of what `backend="default"` makes
of it. Numbers may differ by some rounding of their dtype; all else may not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import torch

from codegen.aot.function import compile_program
from codegen.aot.recorder import Untraceable
from codegen.kernels.compile import Kernels
from jit import cache
from jit.backends import FUSED
from tests.codegen.aot.opinfo import UNINITIALISED, Case, Raised, observe, unequal
from tests.codegen.operations import OPERATIONS, TooLong, arguments, limited, run, samples

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
#: Of the largest value: some roundings.
BOUNDS = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
OUTCOMES = ("same", "strides", "refused", "error", "wrong")  # the worst last


@dataclass(frozen=True)
class Verdict:
    """Of one sample. `outcome`: "same"; "strides" where only these differ; "refused" by the AOT stage; or "error", "wrong"."""

    name: str
    dtype: str
    sample: int
    outcome: str
    why: str = ""


def other_values(a, b):
    """What differs, or ""."""
    if not isinstance(a, torch.Tensor) or a.layout is not torch.strided:
        return ""
    x, y = (v.detach().resolve_conj().resolve_neg() for v in (a, b))
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        return "" if torch.equal(x, y) else f"{y.flatten()[:4].tolist()}, not {x.flatten()[:4].tolist()}"
    precise = torch.complex128 if x.dtype.is_complex else torch.float64
    bound = BOUNDS.get(x.real.dtype if x.dtype.is_complex else x.dtype, 1e-2)
    x, y = x.to(precise), y.to(precise)
    finite = torch.isfinite(x) & torch.isfinite(y)
    scale = max(float(x[finite].abs().max()), 1.0) if finite.any() else 1.0
    bad = ~((x == y) | torch.isnan(x) & torch.isnan(y) | finite & ((x - y).abs() <= bound * scale))
    return f"{int(bad.sum())} of {x.numel()}: {y[bad][:4].tolist()}, not {x[bad][:4].tolist()}" if bad.any() else ""


def compare(theirs, ours, values):
    """(outcome, why) of what two runs answer."""
    found = [("same", "")]
    for part, eager in theirs.items():
        mine = ours.get(part, Raised(RuntimeError("nothing")))
        if isinstance(eager, Raised) or isinstance(mine, Raised):
            same = isinstance(eager, Raised) and isinstance(mine, Raised) and type(eager.error) is type(mine.error)
            found += [] if same else [("error" if isinstance(mine, Raised) else "wrong", f"{part}: eager: {eager}; compiled: {mine}"[:600])]
            continue
        for at, (a, b) in enumerate(zip(eager, mine, strict=True)):
            if part != "forward" and b is None and a is not None and not a.any():
                continue
            why = unequal(a, b, ("class", "dtype", "layout", "sizes")) or values and other_values(a, b)
            if why:
                found.append(("wrong", f"{part} {at}: {why}"))
            elif part == "forward" and (why := unequal(a, b, ("strides",))) and a.numel() > 1:
                found.append(("strides", f"{part} {at}: {why}"))
    return max(found, key=lambda pair: OUTCOMES.index(pair[0]))


def judge(name, dtype, at, op, sample, settings):
    case = Case(op, sample, False, [])
    order = int(op.supports_autograd)
    eager = observe(case, case.program, order)
    if isinstance(eager["forward"], Raised):
        return None
    dtype = str(dtype).removeprefix("torch.")
    try:
        compiled = compile_program(case.program, case.arguments()[1], settings)
    except TooLong:
        raise
    except Untraceable as reason:
        return Verdict(name, dtype, at, "refused", str(reason))
    except Exception as error:
        return Verdict(name, dtype, at, "error", str(Raised(error))[:300])
    values = name.partition(".")[0] not in UNINITIALISED
    return Verdict(name, dtype, at, *compare(eager, observe(case, compiled, order), values))


def verdicts(name, count):
    op, found = OPERATIONS[name], []
    compiler = Kernels(cache.store())
    settings = replace(FUSED, forward=compiler, backward=compiler.of_list, inference=compiler)
    try:
        with limited():
            for dtype in DTYPES:
                for at, sample in enumerate(samples(op, dtype, count)):
                    verdict = judge(name, dtype, at, op, sample, settings)
                    found += [] if verdict is None else [verdict]
    except TooLong as error:
        found.append(Verdict(name, "", -1, "error", str(error)))
    return found


def report(found, count):
    total = [v for vs in found.values() for v in vs]
    lines = [
        "# Torch's table of operations through compiled kernels",
        "",
        f"`python -m tests.codegen.kernels.opinfo_compiled --samples {count} --report FILE`: `op_db` of torch "
        f"{torch.__version__.partition('+')[0]}, CPU, forward and backward of the first {count} samples of each of "
        f"{len(found)} entries, beside eager.",
        "",
        "| dtype | samples | same | strides only | refused | error | wrong |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for dtype in [str(dtype).removeprefix("torch.") for dtype in DTYPES]:
        mine = Counter(v.outcome for v in total if v.dtype == dtype)
        lines.append(f"| {dtype} | {mine.total()} | {' | '.join(str(mine[outcome]) for outcome in OUTCOMES)} |")
    for outcome in reversed(OUTCOMES[1:]):
        reasons = {}
        for v in total:
            if v.outcome == outcome:
                why = v.why if outcome != "strides" else "strides"
                reasons.setdefault(why, {}).setdefault(v.name, []).append(v.dtype)
        rows = [f"- {why}: " + ", ".join(f"{n} ({len(at)})" for n, at in names.items()) for why, names in reasons.items()]
        lines += ["", f"## {outcome.capitalize()}", "", *(" ".join(row.split()) for row in rows or ["None."])]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    run(arguments(samples=2).parse_args(), verdicts, report)
