"""Every capture made twice: each call read in full, and equal ones repeated. They must come to the same."""
import re
from collections import Counter
from contextlib import contextmanager

import torch

import jit.compiler
from sideeffects.effects import Call
from symbolic.capture import Break
from symbolic.errors import Restart, SkipFrame
from symbolic.matching import Reading
from symbolic.repeats import Repeats

capture = jit.compiler.capture
_ADDRESS = re.compile("0x[0-9a-f]+")


def looks(value):
    if isinstance(value, torch.Tensor):
        of = value.untyped_storage()._cdata
        properties = value.shape, value.stride(), value.dtype, value.device, value.storage_offset(), value.requires_grad
        return *properties, value.is_inference(), value._is_view(), of
    if isinstance(value, (tuple, list)):
        return [looks(item) for item in value]
    return str(type(value))


def numbered(rows):
    """Memory by the order in which it is met."""
    seen = {}

    def renamed(row):
        if isinstance(row, list):
            return [renamed(item) for item in row]
        return (*row[:-1], seen.setdefault(row[-1], len(seen))) if isinstance(row, tuple) else row

    return [renamed(row) for row in rows]


def is_implied(guard, guards):
    """Whether it says how many keys a dict has of which all keys are known."""
    return guard.kind == "len" and any(each.kind == "keys" and each.source is guard.source for each in guards)


def places(row):
    """Without memory."""
    return [places(item) for item in row] if isinstance(row, list) else row[:-1] if isinstance(row, tuple) else row


def told(captured):
    """All that a capture says."""
    tx, graph = captured.tx, captured.graph
    nodes = list(graph.root.nodes)
    operations = [(n.op, _ADDRESS.sub("", str(n.target)), n.name, str(n.args), str(n.kwargs), n.meta.get("stack_trace")) for n in nodes]
    ends = captured.exit
    return {
        "operations": operations,
        "inputs": [(variable.node.name, str(variable.source)) for variable in graph.inputs],
        "looks of inputs": numbered([looks(n.meta["example_value"]) for n in nodes if n.op == "placeholder"]),
        "looks": [places(looks(n.meta.get("example_value"))) for n in nodes],
        "changed": graph.mutates_inputs(),
        "guards": sorted(_ADDRESS.sub("", str(guard)) for guard in tx.guards if not is_implied(guard, tx.guards)),
        "effects": [str(each) for each in tx.ledger.effects() if isinstance(each, Call) or each.target.source],
        "steps": tx.step,
        "calls": graph.calls,
        "draws": graph.draws,
        "result": str(ends.value) if not isinstance(ends, Break) else [str(ends.cause), [f.index for f in ends.frames]],
        "known": sorted((type(v).__name__, str(v.source)) for v in tx.known.values() if v.source is not None),
    }


def outcome(*args):
    try:
        return capture(*args)
    except (Restart, SkipFrame) as error:
        return error


@contextmanager
def compared(monkeypatch):
    """Within: for each capture, how many calls of each class of modules were repeated."""
    counts = []
    begin, repeat = Repeats.begin, Repeats.repeat

    def counting(self, call):
        answer = repeat(self, call)
        if answer is not None and isinstance(call, Reading):
            counts[-1][call.module.cls] += 1
        return answer

    def both(*args):
        with monkeypatch.context() as patch:
            patch.setattr(Repeats, "begin", lambda self, *rest: None)
            plain = outcome(*args)
        counts.append(Counter())
        found = outcome(*args)
        if isinstance(found, Exception):
            assert type(found) is type(plain) and str(found.args) == str(plain.args)
            raise found
        before, after = told(plain), told(found)
        if not counts[-1]:
            before["draws"] = after["draws"]  # they go by what torch has in its caches
        for what in before:
            assert before[what] == after[what], (what, before[what], after[what])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Repeats, "repeat", counting)
        patch.setattr(jit.compiler, "capture", both)
        assert Repeats.begin is begin
        yield counts
