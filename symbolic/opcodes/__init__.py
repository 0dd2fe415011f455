"""Opcode handlers by theme. Every opcode of this Python is handled, dropped by the decoder, or refused."""

from symbolic.code import decode
from symbolic.opcodes import calls, class_bodies, containers, control, exceptions, generators, names, stack
from symbolic.opcodes.table import HANDLERS, REFUSED, check

__all__ = [
    "HANDLERS",
    "REFUSED",
    "calls",
    "class_bodies",
    "containers",
    "control",
    "decode",
    "exceptions",
    "generators",
    "names",
    "stack",
]

check()
