"""The debug dump: for each compiled frame a folder of plain files."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from codegen.aot import stages
from codegen.readable import readable
from jit import listing, page
from jit.config import config

_numbers = itertools.count()


@contextlib.contextmanager
def dump(folder: str) -> Iterator[None]:
    """Inside, what is compiled is dumped to this folder, as by JIT_DUMP."""
    before, config.dump = config.dump, os.fspath(folder)
    try:
        yield
    finally:
        config.dump = before


@functools.cache
def temporary() -> str:
    """The folder of this process for text that runs where no dump is asked for."""
    return tempfile.mkdtemp(prefix="framejit-")


def run_text(record: Any, function: FunctionType) -> FunctionType:
    """What runs the generated.py of a record in place of the bytecode of `function`; where there is no text, that."""
    made = readable(record.generated, record.notes)
    if not made.runs:
        return function
    return made.function(function.__globals__, function.__closure__, os.path.join(record.folder, "generated.py"))


def write(folder: str, record: Any) -> str:
    """Writes one compiled frame below `folder`; answers with the path of its own folder.

    original.txt and generated.txt hold bytecode, generated.py the latter as Python, graph.py the graph; guards.txt,
    breaks.txt and effects.txt have a line for each. joint.py, forward.py, backward.py, wrapper.py and aot.txt are what
    a graph became that was differentiated ahead of time; forward_kernels.txt, forward_kernels.c and forward_plan.txt
    what its forward became where kernels are made (backward_... likewise). All of that is in `folder`'s index.html.
    """
    name = re.sub(r"\W+", "_", record.name).strip("_")
    path = os.path.join(folder, f"{os.getpid()}-{next(_numbers):04d}-{name}")
    os.makedirs(path, exist_ok=True)
    text = readable(record.generated, record.notes).text if record.generated is not None else ""
    files = {
        "original.txt": listing.text(record.code),
        "generated.txt": listing.text(record.generated, record.notes) if record.generated is not None else "",
        "generated.py": text,
        "graph.py": graph(record.module),
        "guards.txt": "".join(f"{guard}\n" for guard in record.guards),
        "breaks.txt": "".join(f"{reason}\n" for reason in record.breaks),
        "effects.txt": "".join(f"{effect}\n" for effect in record.effects),
    }
    became = stages.all_texts(record.module)
    files |= became
    page.add_frame(folder, path, record, files, became)
    for file, text in files.items():
        with open(os.path.join(path, file), "w", encoding="utf-8") as out:
            out.write(text)
    return path


def graph(module: Any) -> str:
    """The graph as Python, each input with its shape, then the graphs inside; nothing for a frame without a graph."""
    if module is None:
        return "# no tensor operations\n"
    texts = []
    for path, inner in module.named_modules():
        lines = [f"# {path}"] if path else []
        for node in inner.graph.find_nodes(op="placeholder"):
            value = node.meta["example_value"]
            kind = f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            source = f" from {node.meta.get('source', '?')}" if not path else ""
            lines.append(f"# {node.name}: {kind}{source}")
        texts.append("\n".join(lines) + "\n" + inner.code)
    return "\n".join(texts)
