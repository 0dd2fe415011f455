"""Bytecode that the compiler made, as Python that a person reads, runs and steps through."""

from __future__ import annotations

from codegen.readable.text import Readable as Readable
from codegen.readable.text import readable as readable
