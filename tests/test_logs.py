"""`JIT_LOGS`: each channel prints what it names, in colour on a terminal, through the program's handlers if it has any."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import sys

import pytest
import torch

import jit
from jit import compiler, logs


def program(x):
    y = x.sin() + 1
    sys.getswitchinterval()
    return (y * 2).sum()


def told(caplog, channels, fn=program, calls=((3,), (4,)), **settings):
    """What a channel says: (logger, text) of each message."""
    f = jit.compile(fn, options={"logs": channels}, **settings)
    caplog.clear()
    for shape in calls:
        f(torch.ones(shape, requires_grad=True))
    return [(record.name, record.getMessage()) for record in caplog.records if record.name.startswith("jit.")]


#: Channel -> what one of its messages says.
SAYS = {
    "recompiles": "in program is compiled again: expected x: Tensor float32[3]",
    "breaks": "builtin not supported (sys.getswitchinterval)",
    "graph": "in program: graph\n",
    "aot": "torch.ops.aten.sin.default",
    "fusion": "parallel for",
    "kernels": "_0(void *const *buffers",
    "guards": "float32[3]",
    "bytecode": "RESUME",
    "time": " ms",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("channel", SAYS)
def test_a_channel_says_what_it_names(channel, caplog):
    found = told(caplog, channel)
    assert found and {name for name, _ in found} == {f"jit.{channel}"}
    assert any(SAYS[channel] in text for _, text in found), found
    assert all(text.removeprefix("graph break at ").startswith(f"{__file__}:") for _, text in found), found


def test_guards_that_no_line_asked_for_name_none(caplog):
    ((_, text), *_) = told(caplog, "guards", calls=((3,),))
    first, *rest = text.splitlines()[1:]
    assert first.startswith("grad mode") and "needed at" not in first
    assert rest and all(f"needed at {__file__}:" in each for each in rest)


def test_time_is_told_by_stage(caplog):
    ((_, text), *_) = told(caplog, "time", calls=((3,),))
    assert " in program was compiled in " in text and text.count(" ms") >= 3


def test_cache_tells_what_was_on_disk(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path / "cache"))
    ((_, first), *_) = told(caplog, "cache", lambda x: (x * 5 + 3).relu(), calls=((7,),))
    ((_, again), *_) = told(caplog, "cache", lambda x: (x * 5 + 3).relu(), calls=((7,),))
    assert ": 0 parts found on disk" in first and not first.endswith(" 0 made anew"), first
    assert ": 0 parts" not in again, again


def test_a_capture_that_meets_the_limit_of_recursion(caplog, monkeypatch):
    def too_deep(*_):
        raise RecursionError

    monkeypatch.setattr(compiler.Compiler, "_compile", too_deep)
    (said,) = told(caplog, "skips")
    assert said[1].endswith("in program runs eagerly: its capture met the limit of recursion")


def test_skips_and_dynamic(caplog):
    def looks(x):
        sys._getframe()
        return x

    assert any("runs eagerly: the frame looks at itself" in text for _, text in told(caplog, "skips", looks))

    def depends(x):
        return x * 2 if x.shape[0] == 3 else x

    assert any("depends: " in text for _, text in told(caplog, "dynamic", depends, dynamic=True))


def test_every_channel_is_tried_here():
    assert set(logs.CHANNELS) == {*SAYS, "skips", "dynamic", "cache"}


def test_nothing_is_said_unasked(caplog):
    assert told(caplog, "") == []


# On a terminal


def chunks(terminal):
    """All that was written to a terminal whose other end is closed: one read gives only what has arrived by then."""
    with contextlib.suppress(OSError):  # what Linux answers at the end
        while chunk := terminal.read(1 << 16):
            yield chunk


def on_a_terminal(monkeypatch, channel, text, **environment):
    """What comes to a terminal when nobody handles the logger's messages."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(logging.Logger, "hasHandlers", lambda self: False)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        logs.tell(frozenset([channel]), channel, lambda: text)
        monkeypatch.undo()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        return b"".join(chunks(terminal)).decode()


def test_code_has_colours_on_a_terminal(monkeypatch):
    found = on_a_terminal(monkeypatch, "graph", "graph of f:\nreturn x + 1  # why")
    assert "\x1b[" in found.partition("\n")[2] and "return" in found


def test_no_color_is_respected(monkeypatch):
    found = on_a_terminal(monkeypatch, "graph", "graph of f:\nreturn x + 1", NO_COLOR="1")
    assert not any(f"\x1b[{code}" in found for code in range(30, 50)) and "return x + 1" in found


def test_words_are_printed_as_they_are(monkeypatch):
    found = on_a_terminal(monkeypatch, "breaks", "graph break at [bold]x[/bold]\n  hint: [red]")
    assert "[bold]x[/bold]" in found and "hint: [red]" in found
