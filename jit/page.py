"""The page of the debug dump: one file that shows every frame, offline, with links between what belongs together."""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from codegen.plan.about import entries
from codegen.progress import Span
from codegen.residual.notes import Notes
from jit import listing
from jit.profiling import Profile

_HEAD = Path(__file__).with_name("page.html")
_FAR = 20  # lines
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def add_frame(folder: str, path: str, record: Any, files: dict[str, str], became: dict[str, str]) -> None:
    """Appends one frame to the page of `folder`."""
    _append(folder, _frame(path, record, files, became))


def add_profile(folder: str, profile: Profile) -> None:
    """Appends what calls were measured to take."""
    rows = [
        {
            "name": row.name, "kind": row.kind, "phase": row.phase, "times": row.times, "seconds": row.seconds,
            "bytes": row.bytes, "share": profile.share(row), "of_copy": (row.bandwidth or 0) / profile.copies,
            "places": [{"file": place.file, "line": place.line} for place in row.places],
        }
        for row in profile.rows
    ]  # fmt: skip
    _append(folder, {"profile": profile.name, "calls": profile.calls, "seconds": profile.seconds, "rows": rows})


def _append(folder: str, what: dict[str, Any]) -> None:
    """Processes may share the page; browsers do not ask for its end."""
    os.makedirs(folder, exist_ok=True)
    page = os.path.join(folder, "index.html")
    data = json.dumps(what).replace("<", "\\u003c")  # no tag, whatever it holds
    try:
        with open(page, "x", encoding="utf-8") as out:
            out.write(_HEAD.read_text(encoding="utf-8"))
    except FileExistsError:
        pass
    with open(page, "a", encoding="utf-8") as out:
        out.write(f'<script type="application/json">{data}</script>\n')


def _frame(path: str, record: Any, files: dict[str, str], became: dict[str, str]) -> dict[str, Any]:
    nodes = list(_nodes(record.module))
    return {
        "name": record.name,
        "place": f"{record.shown.co_filename}:{record.shown.co_firstlineno}",
        "process": os.getpid(),
        "folder": os.path.basename(path),
        "code": f"{os.getpid()}-{id(record.code)}",
        "continues": [f"{os.getpid()}-{id(code)}" for code in record.continues],
        "skipped": record.skipped,
        "why": record.why or record.skipped,
        "operations": len([node for node in nodes if node["file"]]),
        "sources": list(_sources(record, nodes)),
        "python": files["generated.py"],
        "original": _listing(record.code, listing.NONE),
        "generated": _listing(record.generated, record.notes) if record.generated is not None else None,
        "nodes": nodes,
        "became": {name: list(_nodes(each)) for name, each in _stages(record.module)},
        "guards": [
            {"text": str(guard).partition("  # needed at ")[0], "file": guard.filename, "line": guard.line}
            for guard in record.guards
        ],
        "breaks": [{"text": str(each), "file": each.stack[-1][0], "line": each.stack[-1][1]} for each in record.breaks],
        "effects": record.effects,
        "files": sorted(became.items()),
        "spans": list(_spans(record.spans)),
    }


def _nodes(module: Any) -> Iterator[dict[str, Any]]:
    """The nodes of a graph, each with the ones that it reads, and the lines of the program that it comes from: `file`
    and `line` are those of the call itself, `stack` has the calls of the program that led there."""
    places = {node: at for at, node in enumerate(module.graph.nodes)} if module is not None else {}
    for node in places:
        found = entries(node)
        file, line, _ = found[-1] if found else ("", 0, "")
        value = node.meta.get("example_value", node.meta.get("val"))
        shape = f"{str(value.dtype)[6:]} {list(value.shape)}" if isinstance(value, torch.Tensor) else ""
        yield {
            "text": node.format_node() or str(node),
            "name": node.name,
            "op": node.op,
            "file": file,
            "line": line,
            "shape": shape,
            "inputs": [places[each] for each in node.all_input_nodes],
            "stack": [f"{os.path.basename(file)}:{line}" for file, line, _ in found if not file.startswith(_TORCH)],
        }


def _stages(module: Any) -> Iterator[tuple[str, Any]]:
    """The graphs that one became."""
    stages = module.meta.get("stages") if module is not None else None
    for name in ("forward", "backward"):
        made = getattr(stages, name, None)
        if made is not None:
            yield name, made


def _spans(spans: list[Span]) -> Iterator[dict[str, Any]]:
    """Stages in milliseconds, from when the compilation began."""
    first = min((span.start for span in spans), default=0.0)
    for span in sorted(spans, key=lambda span: (span.start, span.depth)):
        start, length = 1e3 * (span.start - first), 1e3 * span.seconds
        yield {"name": span.name, "start": start, "length": length, "depth": span.depth}


def _listing(code: CodeType, notes: Notes) -> dict[str, Any]:
    return {"rows": [vars(row) for row in listing.rows(code, notes)], "handlers": listing.handlers(code)}


def _sources(record: Any, nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines of the function, then those of others that were captured with it, each with its fate."""
    code = record.shown
    ends = {each.stack[-1][:2]: str(each).partition("\n")[0] for each in record.breaks}
    calls = {entry[:2]: "its callee breaks the graph" for each in record.breaks for entry in each.stack[:-1]}
    graph = {(node["file"], node["line"]) for node in nodes if node["file"]}
    has_code = {line for inner in _codes(code) for _, _, line in inner.co_lines() if line}
    own = [code.co_firstlineno, *has_code]
    others = sorted(place for place in {*graph, *ends, *calls} if place[0] != code.co_filename or place[1] not in own)

    def fate(file: str, line: int) -> tuple[str, str]:
        if record.skipped:
            return "eager", ""
        if (file, line) in ends:
            return "break", ends[file, line]
        if (file, line) in calls:
            return "break", calls[file, line]
        if (file, line) in graph:
            return "graph", ""
        return ("residual" if file == code.co_filename and line in has_code else "later"), ""

    parts = [(code.co_filename, own), *(() if record.skipped else _near(others))]
    for number, (file, lines) in enumerate(parts):
        first, last = min(lines), max(lines)
        text = linecache.getlines(file)[first - 1 : last]
        yield {
            "file": file,
            "name": "captured with it" if number else record.name,
            "lines": [[first + at, line.rstrip("\n"), *fate(file, first + at)] for at, line in enumerate(text)],
        }


def _near(places: list[tuple[str, int]]) -> Iterator[tuple[str, list[int]]]:
    """Lines of one file that are not far from each other, together."""
    found: list[tuple[str, list[int]]] = []
    for file, line in places:
        if found and found[-1][0] == file and line - found[-1][1][-1] <= _FAR:
            found[-1][1].append(line)
        else:
            found.append((file, [line]))
    return iter(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)
