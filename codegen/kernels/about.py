"""What is said of a kernel in the code that is made of it."""

from __future__ import annotations

from codegen.kernels.ir import Kernel


def about(kernel: Kernel) -> list[str]:
    """The lines it was made of, and what it does."""
    return [*kernel.sources, *str(kernel).splitlines()]
