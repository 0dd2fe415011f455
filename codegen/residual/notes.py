"""What residual bytecode is for, told while it is written: for whoever shows it to a person."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Notes:
    """Of one code object. `instructions`: what each is for, in order (those of EXTENDED_ARG and caches left out);
    `titles`: what constants are to be called, by their ids; `labels`: parameter -> the expression of the program that
    it stands for."""

    instructions: tuple[str, ...] = ()
    titles: dict[int, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
