"""What raises where there are no elements raises compiled, too: where it is called, and not somewhere in the graph."""
import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import check

FIRST = torch.tensor([0])
ROW = torch.zeros(1, 4, dtype=torch.long)
#: Programs of x, of sizes (n, 4), that need a row.
NEEDING = {
    "max": lambda x: x.max(),
    "min by name": lambda x: torch.min(input=x),
    "max of rows": lambda x: x.max(0).values,
    "min of rows": lambda x: x.min(dim=0)[1],
    "median": lambda x: x.median(0).values,
    "mode": lambda x: x.mode(0).values,
    "one by tensor": lambda x: x[FIRST],
    "one by list": lambda x: x[[0]] * 2,
    "one of a column": lambda x: x.t()[:, FIRST],
    "put": lambda x: x.index_put((FIRST,), torch.tensor(1.0)),
    "gather": lambda x: x.gather(0, ROW),
    "scatter": lambda x: x.scatter(0, ROW, 1.0),
    "select": lambda x: x.index_select(0, FIRST),
    "embedding": lambda x: F.embedding(FIRST, x),
    "what is left open": lambda x: x.view(x.shape[0], -1) + 1,
}


@pytest.mark.parametrize("name", NEEDING)
def test_of_nothing(name):
    """Silently wrong (the largest of nothing was -inf), or a crash (a row of nothing was read)."""
    program = NEEDING[name]

    def careful(x):
        try:
            return program(x)
        except (RuntimeError, IndexError) as error:
            return str(error), x * 2

    check(careful, torch.ones(0, 4), backend="default", nodes=False)
    worlds = [(torch.arange(4.0 * n).view(n, 4),) for n in (5, 7, 2, 6)]
    check(lambda x: careful(x[2:]), *worlds[0], changed=worlds[1:], backend="default", nodes=False)


@pytest.mark.parametrize("program", [
    lambda x: x.max(1).values,
    lambda x: x[torch.tensor([], dtype=torch.long)],
    lambda x: x[:, FIRST],
    lambda x: x[x > 0],
    lambda x: x.gather(0, ROW[:0]),
    lambda x: x.index_add(0, FIRST[:0], x[:0]),
])
def test_what_needs_none(program):
    compiled = jit.compile(program)
    for n in (0, 5, 7):
        x = torch.arange(4.0 * n).view(n, 4)
        assert torch.equal(compiled(x), program(x))
