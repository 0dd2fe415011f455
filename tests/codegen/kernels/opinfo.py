"""Torch's own table of operations (OpInfo) through the lowering, beside ATen.

    python -m tests.codegen.kernels.opinfo [--samples N] [--processes N] [--report FILE] [NAME ...]

For each operation, dtype and first samples: the AOT stage's graph of it (with its backward where it has one) is lowered,
and the program evaluated; what it gives must be what the graph gives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from codegen.aot.recorder import Untraceable
from codegen.kernels.lowering.context import Unsupported
from tests.codegen.kernels.lowered import compare, lowered
from tests.codegen.operations import OPERATIONS, TooLong, arguments, limited, run, samples

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
ULPS = {torch.float32: 40, torch.float64: 40, torch.bfloat16: 2}
#: Their results are memory as it was found, or (the noise of rrelu without training) what they give beside them.
UNINITIALISED = ("empty", "new_empty", "nn.functional.rrelu")
#: Where rounding is blown up: differences of what is nearly equal, or of what one kernel rounds and the other does not.
BLOWN_UP = {
    "nn.functional.normalize": 100.0, "nn.functional.instance_norm": 20.0, "nn.functional.batch_norm": 20.0,
    "native_batch_norm": 20.0, "_native_batch_norm_legit": 20.0, "nn.functional.layer_norm": 5000.0,
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Of one sample. `outcome`: "whole" (no operation is left to ATen), "partly", "not" at all, "none" of the graph
    can be lowered, "refused" by the AOT stage, "wrong", "error". `called`: what is left to ATen."""

    name: str
    dtype: str
    sample: int
    outcome: str
    called: tuple[str, ...] = ()
    why: str = ""


def judge(name, dtype, at, op, sample):
    flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def program(*tensors):
        given = list(flat)
        for i, tensor in zip(places, tensors):
            given[i] = tensor
        first, args, kwargs = tree_unflatten(given, spec)
        return tree_flatten(op(first, *args, **kwargs))[0]

    tensors = [flat[i].detach().requires_grad_(flat[i].requires_grad) for i in places]

    def verdict(outcome, called=(), why=""):
        return Verdict(name, str(dtype).removeprefix("torch."), at, outcome, tuple(called), why[:3000])

    try:
        program(*tensors)
    except Exception:
        return None
    try:
        made = lowered(program, tensors)
    except Untraceable as reason:
        return verdict("refused", why=str(reason))
    except Unsupported as reason:
        return verdict("none", why=str(reason))
    except TooLong:
        raise
    except Exception as error:
        return verdict("error", why=f"{type(error).__name__}: {error}")
    called = sorted(made.called)
    try:
        if not name.startswith(UNINITIALISED):
            compare(made, tensors, BLOWN_UP.get(name) or ULPS.get(dtype, 40), least=1.0)
    except TooLong:
        raise
    except Exception as error:
        return verdict("wrong", called, f"{type(error).__name__}: {error}")
    return verdict("whole" if not called else "partly" if made.defined else "not", called)


def verdicts(name, count):
    op, found = OPERATIONS[name], []
    try:
        with limited():
            for dtype in DTYPES:
                for at, sample in enumerate(samples(op, dtype, count)):
                    verdict = judge(name, dtype, at, op, sample)
                    found += [] if verdict is None else [verdict]
    except TooLong as error:
        found.append(Verdict(name, "", -1, "error", (), str(error)))
    return found


def report(found, count):
    """All verdicts as a page."""
    total = [v for vs in found.values() for v in vs]
    dtypes = dict.fromkeys(v.dtype for v in total)
    outcomes = ("whole", "partly", "not", "none", "refused", "wrong", "error")
    lines = [
        "# Torch's table of operations through the lowering to kernels",
        "",
        f"`python -m tests.codegen.kernels.opinfo --samples {count} --report FILE`: `op_db` of torch "
        f"{torch.__version__.partition('+')[0]}, CPU, the first {count} samples of each entry and dtype. The AOT stage's "
        "joint graph of each (with the backward) is lowered, the program of definitions evaluated, and what it gives "
        "compared with what the graph gives.",
        "",
        "whole: all of the graph is definitions; partly: some operations of it are left to ATen; not: all of them; "
        "none: the graph can't be lowered and runs as it is; refused: by the AOT stage, before.",
        "",
        "| samples | " + " | ".join(outcomes) + " |",
        "|---|" + "---|" * len(outcomes),
    ]
    for dtype in dtypes:
        counts = Counter(v.outcome for v in total if v.dtype == dtype)
        lines.append(f"| {dtype} | " + " | ".join(str(counts[outcome]) for outcome in outcomes) + " |")
    entries = {name: {v.outcome for v in vs} for name, vs in found.items() if vs}
    lines += ["", f"Of {len(entries)} entries with samples:", ""]
    whole = [name for name, seen in entries.items() if seen == {"whole"}]
    lines.append(f"- {len(whole)} are lowered wholly, in all samples")
    lines.append(f"- {sum('whole' in seen for seen in entries.values()) - len(whole)} in some samples")
    left = {}
    for name, vs in found.items():
        for v in vs:
            for called in v.called:
                left.setdefault(called, set()).add(name)
    lines += ["", "## Left to ATen", "", "By operation, in how many entries.", ""]
    ordered = sorted(left.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    lines.append(", ".join(f"{called} {len(names)}" for called, names in ordered))
    for outcome in ("none", "wrong", "error"):
        reasons = {}
        for v in total:
            if v.outcome == outcome:
                reasons.setdefault(v.why.split("\n")[0][:150], {})[v.name] = None
        lines += ["", f"## {outcome.capitalize()}", ""]
        lines += [f"- {why}: {', '.join(names)}" for why, names in reasons.items()] or ["None."]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    run(arguments(samples=4).parse_args(), verdicts, report)
