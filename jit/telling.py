"""What `JIT_LOGS` prints of a compiled frame: channel -> texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from codegen.aot.stages import all_texts
from jit import dumping, listing, logs
from jit.clock import by_stage

if TYPE_CHECKING:
    from jit.compiler import Record


def tell(wanted: frozenset[str], record: Record) -> None:
    """Logs what the channels that are wanted have to say of the frame."""
    for channel, said in SAID.items():
        if channel in wanted:
            for text in said(record):
                logs.tell(wanted, channel, text.__str__)


def _breaks(record: Record) -> Iterator[str]:
    for reason in record.breaks:
        yield f"graph break at {reason}"


def _dynamic(record: Record) -> Iterator[str]:
    for each in record.specializations:
        yield f"{record.where}: {each}"


def _graph(record: Record) -> Iterator[str]:
    yield f"{record.where}: graph\n{dumping.graph(record.module)}"


def _guards(record: Record) -> Iterator[str]:
    yield f"{record.where}: guards\n" + "\n".join(map(str, record.guards))


def _bytecode(record: Record) -> Iterator[str]:
    if record.generated is not None:
        yield f"{record.where}: bytecode\n{listing.text(record.generated, record.notes)}"


def _time(record: Record) -> Iterator[str]:
    times = by_stage(record.spans)
    if times:
        whole = sum(times.values())
        stages = ", ".join(f"{stage} {seconds * 1e3:.0f} ms" for stage, seconds in times.items())
        yield f"{record.where} was compiled in {whole * 1e3:.0f} ms: {stages}"


def _files(*endings: str) -> Callable[[Record], Iterator[str]]:
    """The files of the dump that end like this."""

    def said(record: Record) -> Iterator[str]:
        for name, text in all_texts(record.module).items():
            if name.endswith(endings) and text.strip():
                yield f"{record.where}: {name.rpartition('.')[0].replace('_', ', ')}\n{text}"

    return said


#: In the order in which they are printed.
SAID: dict[str, Callable[[Record], Iterator[str]]] = {
    "dynamic": _dynamic,
    "breaks": _breaks,
    "graph": _graph,
    "aot": _files("joint.py", "forward.py", "backward.py", "aot.txt"),
    "fusion": _files("kernels.txt"),
    "kernels": _files("kernels.c", "kernels.py", "plan.txt"),
    "guards": _guards,
    "bytecode": _bytecode,
    "time": _time,
}
