"""The comment above a printed kernel."""

from __future__ import annotations

from codegen.kernels.ir import Expr, Kernel, reads, walk

#: Of expressions, in the comment on a kernel.
LONGEST_TEXT = 400


def about(kernel: Kernel) -> list[str]:
    """The lines it was made of, and what it does, unless that has no short form: what is computed once is written down
    wherever it is used."""
    sizes: dict[Expr, int] = {}
    roots = [value for loop in kernel.loops for statement in loop.body for value in reads(statement)]
    for expr in walk(*roots):
        sizes[expr] = 1 + sum(sizes[arg] for arg in expr.args)
    text = sum(sizes[root] for root in roots) <= LONGEST_TEXT
    return [*kernel.sources, *(str(kernel) if text else kernel.name).splitlines()]
