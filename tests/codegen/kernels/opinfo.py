"""Torch's own table of operations (OpInfo) through the lowering, beside ATen.

    python -m tests.codegen.kernels.opinfo [--samples N] [--processes N] [--report FILE] [NAME ...]

For each operation, dtype and first samples: the AOT stage's graph of it (with its backward where it has one) is lowered,
and the program evaluated; what it gives must be what the graph gives.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import random
import signal
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from codegen.aot.recorder import Untraceable
from codegen.kernels.lowering.context import Unsupported
from tests.codegen.kernels.lowered import compare, lowered

DEVICE = "cpu"
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
ULPS = {torch.float32: 40, torch.float64: 40, torch.bfloat16: 2}
PER_OPERATION = 120  # seconds
#: Their results are memory as it was found.
UNINITIALISED = ("empty", "new_empty")
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


class TooLong(Exception):
    pass


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPERATIONS = {name_of(op): op for op in op_db}


def samples(op, dtype, count):
    gradients = op.supports_autograd and dtype in op.supported_backward_dtypes(DEVICE)
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    return itertools.islice(op.sample_inputs(DEVICE, dtype, requires_grad=gradients), count)


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


def _alarm(*args):
    raise TooLong


def verdicts(name, count, dtypes):
    op = OPERATIONS[name]
    found = []
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(PER_OPERATION)
    try:
        for dtype in dtypes:
            if dtype in op.supported_dtypes(DEVICE):
                for at, sample in enumerate(samples(op, dtype, count)):
                    verdict = judge(name, dtype, at, op, sample)
                    if verdict is not None:
                        found.append(verdict)
    except TooLong:
        found.append(Verdict(name, "", -1, "error", (), f"takes more than {PER_OPERATION} seconds"))
    finally:
        signal.alarm(0)
    return found


def prepare():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def examined(names, count, processes, dtypes):
    """(name, its verdicts), one after the other."""
    if processes == 1:
        prepare()
        yield from ((name, verdicts(name, count, dtypes)) for name in names)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), prepare) as pool:
        counts, same = itertools.repeat(count), itertools.repeat(dtypes)
        yield from zip(names, pool.map(verdicts, names, counts, same, chunksize=8), strict=True)


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
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    answers = {}
    for name, answer in examined(options.names or list(OPERATIONS), options.samples, options.processes, DTYPES):
        answers[name] = answer
        print(json.dumps([name, [asdict(verdict) for verdict in answer]]), flush=True)
    if options.report:
        options.report.write_text(report(answers, options.samples))
