"""Torch's own table of operations (OpInfo) through the AOT stage, beside eager.

    python -m tests.codegen.aot.opinfo [--samples N] [--processes N] [--budget B] [--report FILE] [NAME ...]

For each operation and each of its first samples: the operation is compiled for the sample's tensors, and both it and
the compiled function run on copies of them, made anew for each run. Then these must agree:

forward  results (values, strides, classes, who shares memory), inputs afterwards, the state of the random numbers
first    derivatives of the results, weighted, by all inputs
second   derivatives of those, weighted, by all inputs and by the weights of the first
inplace  as forward and first, for the operation's in-place form, its input the result of something

What eager refuses must be refused in the same words.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from codegen.aot.function import Settings, compile_program
from codegen.aot.partition import min_cut_partition
from codegen.aot.recorder import Untraceable
from tests.codegen.operations import OPERATIONS, TooLong, arguments, limited, run, samples, seed
from tests.codegen.passes.checking import Checked

DTYPE = torch.float64
PARTS = ("forward", "first", "second", "inplace")
OUTCOMES = ("same", "alike", "refused", "error", "wrong")  # the worst last
PASSED = ("same", "alike")
#: Their results are memory as it was found: only the looks are compared.
UNINITIALISED = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"})


@dataclass(frozen=True)
class Verdict:
    """Of one part of one sample.

    `outcome`: "same"; "alike" where all is the same but what nobody promises (the strides of gradients, how often a
    composite operation wrote into its new result, None for zeros as a gradient); or "refused", "wrong", "error". `why` says more on all but "same".
    """

    name: str
    sample: int
    part: str
    outcome: str
    why: str = ""


@dataclass(frozen=True)
class Raised:
    """What was raised in the place of an answer."""

    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


# --- one run ----------------------------------------------------------------------------------------------------------
class Copies:
    """Copies of tensors: of the same geometry, sharing memory where the originals do; leaves."""

    def __init__(self):
        self.storages = {}
        self.tensors = {}

    def __call__(self, value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self.tensors:
            self.tensors[id(value)] = value, self.copy(value)
        return self.tensors[id(value)][1]

    def copy(self, value):
        plain = value.detach()
        if plain.layout is not torch.strided or type(value) is not torch.Tensor or plain.is_quantized:
            return plain.clone().requires_grad_(value.requires_grad)
        storage = plain.untyped_storage()
        if storage._cdata not in self.storages:
            self.storages[storage._cdata] = storage.clone()
        made = torch.empty(0, dtype=plain.dtype).set_(
            self.storages[storage._cdata], plain.storage_offset(), plain.shape, plain.stride()
        )
        made = torch._conj(made) if plain.is_conj() else made
        made = torch._neg_view(made) if plain.is_neg() else made
        return made.detach().requires_grad_(value.requires_grad)


@dataclass
class Case:
    """An operation as a program of flat arguments, and a way to make these. `specs` gets the shapes of its results."""

    function: object
    sample: object
    middle: bool  # the first argument is the result of something
    specs: list

    def __post_init__(self):
        self.flat, self.spec = tree_flatten((self.sample.input, self.sample.args, self.sample.kwargs))

    def program(self, *flat):
        first, args, kwargs = tree_unflatten(list(flat), self.spec)
        results, spec = tree_flatten(self.function(first, *args, **kwargs))
        self.specs.append(spec)
        return results

    def arguments(self):
        copied = Copies()
        flat = [copied(value) for value in self.flat]
        leaves = [value for value in flat if isinstance(value, torch.Tensor) and value.requires_grad]
        if self.middle:
            flat[0] = flat[0].clone()
        return leaves, flat


def weights(values, number):
    """A fixed weight for each tensor, itself to be differentiated by."""
    generator = torch.Generator().manual_seed(number)
    return [
        torch.randn(v.shape, dtype=v.dtype, generator=generator).to(v.device).requires_grad_() for v in values
    ]


def differentiable(values):
    return [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]


def observe(case, call, order):
    """What a run answers by part: a list of results each, or what was raised."""
    seen = {}
    leaves, flat = case.arguments()
    seed()
    try:
        results = list(call(*flat))
    except Exception as error:
        return {"forward": Raised(error)}
    seen["forward"] = [*results, *flat, torch.get_rng_state()]
    try:
        shown = case.sample.output_process_fn_grad(tree_unflatten(results, case.specs[0]))
        shown = differentiable(tree_flatten(shown)[0])
    except Exception as error:
        shown = []
    if order > 0 and shown and leaves:
        weighed = weights(shown, 1)
        try:
            found = torch.autograd.grad(shown, leaves, weighed, create_graph=order > 1, allow_unused=True)
        except Exception as error:
            seen["first"] = Raised(error)
            return seen
        seen["first"] = list(found)
        again = differentiable(found)
        if order > 1 and again:
            try:
                further = torch.autograd.grad(again, [*leaves, *weighed], weights(again, 2), allow_unused=True)
                seen["second"] = list(further)
            except Exception as error:
                seen["second"] = Raised(error)
    return seen


# --- comparing --------------------------------------------------------------------------------------------------------
#: By part, what is looked at in each tensor: what must be equal, and what should be.
LOOKS = {
    "class": type,
    "dtype": lambda t: t.dtype,
    "layout": lambda t: t.layout,
    "sizes": lambda t: t.shape,
    "strides": lambda t: t.stride() if t.layout is torch.strided else None,
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "is_view": torch.Tensor._is_view,
    "conjugate": torch.Tensor.is_conj,
    "negative": torch.Tensor.is_neg,
    "version": lambda t: t._version,
}
OF_RESULTS = (*(name for name in LOOKS if name != "version"),), ("version",)
OF_INPUTS = tuple(LOOKS), ()
OF_GRADIENTS = ("class", "dtype", "layout", "sizes"), ("strides",)


def compare(part, theirs, ours, values, count):
    """(outcome, why) for a part. `count`: how many of the answers of a forward are results; the others are inputs."""
    if isinstance(theirs, Raised) or isinstance(ours, Raised):
        if isinstance(theirs, Raised) and isinstance(ours, Raised) and str(theirs) == str(ours):
            return "same", ""
        return "wrong" if isinstance(theirs, Raised) else "error", f"eager: {_short(theirs)}; compiled: {_short(ours)}"
    if len(theirs) != len(ours):
        return "wrong", f"{len(theirs)} answers are {len(ours)}"
    alike = ""
    for at, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        if part != "forward" and b is None and a is not None and not other_values(torch.zeros_like(a), a, False):
            alike = alike or "zeros that are None"
            continue
        must, should = OF_GRADIENTS if part != "forward" else OF_RESULTS if at < count else OF_INPUTS
        if why := unequal(a, b, must) or values and other_values(a, b, part == "forward"):
            return "wrong", f"answer {at}: {why}"
        alike = alike or unequal(a, b, should)
    if part == "forward" and sharing(theirs) != sharing(ours):
        return "wrong", "who shares memory"
    if not sharing(ours) <= sharing(theirs):
        return "wrong", "gradients share memory"
    return ("alike", alike) if alike else ("same", "")


def unequal(a, b, looks):
    """The first of these looks that differs; "" if none does."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        same = type(a) is type(b) and (a == b or a != a)
        return "" if same else f"{a if isinstance(a, (int, float)) else type(a)} is {type(b)}"
    differing = (look for look in looks if LOOKS[look](a) != LOOKS[look](b))
    return next((f"{look} {LOOKS[look](a)} is {LOOKS[look](b)}" for look in differing), "")


def other_values(a, b, exact):
    if not isinstance(a, torch.Tensor):
        return ""
    # Where a softmax saturates, what is left of 1 - p has lost ten of sixteen digits before the second derivative.
    bounds = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-9, "atol": 1e-10} if a.dtype.itemsize >= 8 else {}
    try:
        torch.testing.assert_close(b.detach(), a.detach(), equal_nan=True, check_stride=False, **bounds)
    except AssertionError as error:
        return " ".join(["other values:", *str(error).split("\n")[2:4]])
    return ""


def sharing(values):
    """Which tensors share memory, and how far apart they begin."""
    tensors = [(at, v) for at, v in enumerate(values) if isinstance(v, torch.Tensor) and v.layout is torch.strided]
    return {
        (i, j, a.storage_offset() - b.storage_offset())
        for (i, a), (j, b) in itertools.combinations(tensors, 2)
        if a.untyped_storage()._cdata == b.untyped_storage()._cdata
    }


def _short(value):
    return str(value).split("\n")[0][:200] if isinstance(value, Raised) else type(value).__name__


# --- one operation ----------------------------------------------------------------------------------------------------
def judge(name, at, case, order, parts, settings):
    """Verdicts on the parts that eager has an answer to. `parts`: what the parts of a run are called."""
    eager = observe(case, case.program, order)
    if isinstance(eager["forward"], Raised):
        return
    _, flat = case.arguments()
    try:
        compiled = compile_program(case.program, flat, settings)
    except TooLong:
        raise
    except Untraceable as reason:
        yield from (Verdict(name, at, parts[part], "refused", str(reason)) for part in eager if part in parts)
        return
    except Exception as error:
        yield from (Verdict(name, at, parts[part], "error", str(Raised(error))[:300]) for part in eager if part in parts)
        return
    runs = [observe(case, compiled, order) for _ in range(2)]
    values = name.partition(".")[0] not in UNINITIALISED
    count = case.specs[0].num_leaves
    for part, theirs in eager.items():
        if part in parts:
            found = [compare(part, theirs, run.get(part, Raised(RuntimeError("nothing"))), values, count) for run in runs]
            outcome, why = max(found, key=lambda pair: OUTCOMES.index(pair[0]))
            yield Verdict(name, at, parts[part], outcome, why)


def examine(name, count, settings):
    op = OPERATIONS[name]
    for at, sample in enumerate(samples(op, DTYPE, count)):
        order = 1 + op.supports_gradgrad if op.supports_autograd else 0
        parts = {"forward": "forward", "first": "first", "second": "second"}
        yield from judge(name, at, Case(op, sample, False, []), order, parts, settings)
        inplace = op.get_inplace()
        first = sample.input
        if inplace is None or sample.broadcasts_input or not isinstance(first, torch.Tensor):
            continue
        order = int(op.supports_inplace_autograd)
        parts = {"forward": "inplace", "first": "inplace"}
        yield from judge(name, at, Case(inplace, sample, True, []), order, parts, settings)


def verdicts(name, count, settings):
    """All verdicts on an operation."""
    found = []
    try:
        with limited():
            found.extend(examine(name, count, settings))
    except TooLong as error:
        found.append(Verdict(name, -1, "forward", "error", str(error)))
    return found


# --- all of them ------------------------------------------------------------------------------------------------------
def report(found, count):
    """All verdicts as a page."""
    total = [v for vs in found.values() for v in vs]
    untried = [name for name, vs in found.items() if not vs]
    lines = [
        "# Torch's table of operations through the AOT stage",
        "",
        f"`python -m tests.codegen.aot.opinfo --samples {count} --report FILE`: `op_db` of torch "
        f"{torch.__version__.partition('+')[0]}, CPU, float64, the first {count} samples of each of {len(found)} entries. "
        f"{len(untried)} entries have none (no float64, or eager fails): {', '.join(untried)}.",
        "",
        "An entry passes where all of its samples do. Passed is the same as eager: results exactly, with strides, views, "
        "versions and random numbers; gradients up to rounding (1e-9).",
        "",
        "| | entries passed | of | samples passed | of | refused | error | wrong |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for part in PARTS:
        mine = [v for v in total if v.part == part]
        names = {v.name for v in mine}
        count_of = Counter(v.outcome for v in mine)
        failed = {v.name for v in mine if v.outcome not in PASSED}
        passed = sum(count_of[outcome] for outcome in PASSED)
        rest = " | ".join(str(count_of[outcome]) for outcome in OUTCOMES if outcome not in PASSED)
        lines.append(f"| {part} | {len(names) - len(failed)} | {len(names)} | {passed} | {len(mine)} | {rest} |")
    lines += ["", "Below, the number of samples stands behind each entry."]
    titles = {
        "wrong": "Wrong", "error": "Errors", "refused": "Refused before anything is touched: runs as it was captured",
        "alike": "Passed, but not alike in what nobody promises",
    }
    for outcome, title in titles.items():
        reasons = {}
        for v in total:
            if v.outcome == outcome:
                why = v.why if outcome != "alike" else f"{v.part}: {v.why.partition(' ')[0]}"
                reasons.setdefault(why, {}).setdefault(v.name, {})[v.sample] = None
        rows = [
            f"- {why}: " + ", ".join(f"{name} ({len(at)})" for name, at in names.items()) for why, names in reasons.items()
        ]
        lines += ["", f"## {title}", "", *(rows or ["None."])]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    parser = arguments(samples=4)
    parser.add_argument("--passes", action="store_true", help="the graphs go through all passes")
    parser.add_argument("--budget", type=float, help="cut graphs by the minimum cut, to save this part at most")
    options = parser.parse_args()
    settings = Settings()
    if options.budget is not None:
        settings = Settings(partition=partial(min_cut_partition, budget=options.budget))
    if options.passes:
        settings = replace(settings, passes=Checked())
    run(options, verdicts, report, settings)
