"""The page of the debug dump: one file that shows every frame, offline, with links between what belongs together."""

from __future__ import annotations

import json
import linecache
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch

_HEAD = Path(__file__).with_name("page.html")
_FAR = 20  # lines
_TRACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def add(folder: str, path: str, record: Any, files: dict[str, str], became: dict[str, str]) -> None:
    """Appends one frame to the page of `folder`, which processes may share; browsers do not ask for its end."""
    page = os.path.join(folder, "index.html")
    data = json.dumps(_data(path, record, files, became)).replace("<", "\\u003c")  # no tag, whatever it holds
    try:
        with open(page, "x", encoding="utf-8") as out:
            out.write(_HEAD.read_text(encoding="utf-8"))
    except FileExistsError:
        pass
    with open(page, "a", encoding="utf-8") as out:
        out.write(f'<script type="application/json">{data}</script>\n')


def _data(path: str, record: Any, files: dict[str, str], became: dict[str, str]) -> dict[str, Any]:
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
        "original": files["original.txt"],
        "generated": files["generated.txt"],
        "nodes": nodes,
        "guards": [
            {"text": str(guard).partition("  # needed at ")[0], "file": guard.filename, "line": guard.line}
            for guard in record.guards
        ],
        "breaks": [{"text": str(each), "file": each.stack[-1][0], "line": each.stack[-1][1]} for each in record.breaks],
        "effects": record.effects,
        "files": sorted(became.items()),
        "times": list(record.times.items()),
    }


def _nodes(module: Any) -> Iterator[dict[str, Any]]:
    """The operations of the graph, with the lines of the program that they come from."""
    for node in module.graph.nodes if module is not None else ():
        found = _TRACE.findall(node.meta.get("stack_trace") or "")
        file, line, _ = found[-1] if found else ("", 0, "")
        value = node.meta.get("example_value")
        shape = f"{str(value.dtype)[6:]} {list(value.shape)}" if isinstance(value, torch.Tensor) else ""
        yield {"text": node.format_node() or str(node), "file": file, "line": int(line), "shape": shape}


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
