"""What raises where there are no elements raises compiled, too: where it is called, and not somewhere in the graph."""
import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import COUNTING, Counting, check

FIRST = torch.tensor([0])
W = torch.rand(4, 4)
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


@pytest.mark.sampled(3)
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


PATTERNS = [(5, 3), (7, 4), (0, 3), (4, 1), (6, 0), (0, 0), (9, 2), (0, 1), (1, 0)]


def unbroken(x, y):
    return (x @ W).softmax(1).sum(-1) + y * x.shape[1], x.numel(), y.shape[0] > 0


def broken(x, y):
    z = x.sum(-1)
    jit.graph_break()
    return z + y, len(y)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [unbroken, broken])
def test_nothing_is_compiled_for_calls_that_bring_nothing(program, dynamic):
    """Each pattern of zeros had an entry of its own."""
    counter = Counting()
    compiled = jit.compile(program, backend=counter, dynamic=dynamic)
    worlds = [(torch.rand(n, m, 4, requires_grad=True), torch.rand(n, m)) for n, m in PATTERNS]
    for place, world in enumerate([*worlds, *worlds]):
        ours, theirs = compiled(*world), program(*world)
        torch.testing.assert_close(ours[0], theirs[0])
        assert ours[1:] == theirs[1:] and ours[0].shape == theirs[0].shape
        if place == 1:
            before = len(counter.graphs)
    if COUNTING:
        assert len(counter.graphs) == before <= 4
        assert len(compiled.cache.entries) <= 3


def test_what_is_not_empty_is_compiled_all_the_same():
    """A cache of no keys yet beside tokens that are there."""
    counter = Counting()
    compiled = jit.compile(lambda x, kept: torch.cat([kept, x]) * 2, backend=counter)
    for n, m in ((3, 5), (4, 6), (5, 0), (6, 0), (0, 0), (2, 7)):
        x, kept = torch.rand(n, 4), torch.rand(m, 4)
        assert torch.equal(compiled(x, kept), torch.cat([kept, x]) * 2)
    counter.expect(3)


def test_who_did_it_is_one_that_was_compiled(caplog, monkeypatch):
    monkeypatch.setattr(jit.config, "logs", "dynamic,recompiles")
    compiled = jit.compile(lambda x, y: x * 2 + y)
    for n, y in ((3, FIRST), (5, FIRST), (0, FIRST), (0, FIRST), (4, FIRST), (4, FIRST.float())):
        compiled(torch.rand(n), y)
    assert caplog.text.count("runs eagerly where tensors are empty") == 1
    assert "size()[0] == 0" not in caplog.text and len(compiled.debug_state().entries) == 3
    assert [entry.hits for entry in compiled.cache.entries if entry.function is None] == [2]


def test_of_nothing_among_many_inputs():
    def program(tensors, x):
        found = x[x > 0]
        for each in tensors:
            found = found + each
        return found, found.shape[0]

    many = [torch.randn(1) for _ in range(20)]
    check(program, many, torch.randn(8), changed=[(many, -torch.ones(8)), (many, torch.ones(1)), (many, torch.ones(3))])
