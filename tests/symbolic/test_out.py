"""`out=`: what is like the result is written in the graph, and the rest as eager code does it: it is refused, or warned of."""
import warnings

import pytest
import torch

import jit
from tests.differential import COUNTING, Counting, check

X = torch.arange(12.0).reshape(3, 4)
#: Programs, and results of theirs.
WRITING = {
    "neg": lambda x, out: torch.neg(x, out=out),
    "add": lambda x, out: torch.add(x, 1, out=out),
    "round": lambda x, out: torch.round(x, out=out),
    "index_select": lambda x, out: torch.index_select(x, 0, torch.tensor([2, 0, 1]), out=out),
    "softshrink": lambda x, out: torch._C._nn.softshrink(x, out=out),
    "isin": lambda x, out: torch.isin(x, x[0], out=out),
    "zeros": lambda x, out: torch.zeros(3, 4, out=out),
    "linear": lambda x, out: torch.mm(x, x.t() @ x, out=out),
    "multinomial": lambda x, out: torch.multinomial(x + 1, 4, out=out),
}
KINDS = {
    "alike": torch.zeros_like,
    "empty": lambda like: like.new_empty(0),
    "in others": lambda like: like.new_zeros(3, 4, 2)[..., 1],
    "larger": lambda like: like.new_zeros(3, 4, 2),
    "turned": lambda like: like.new_zeros(4, 3).t(),
    "double": lambda like: torch.zeros(3, 4, dtype=torch.float64),
    "half": lambda like: torch.zeros(3, 4, dtype=torch.float16),
    "integers": lambda like: torch.zeros(3, 4, dtype=torch.int64),
}


def told(run, x, out):
    """What comes of it: values and looks, or the error; and what is warned of."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = run(x, out)
        except RuntimeError as error:
            return str(error)
    looks = out.dtype, out.shape, out.stride(), out.storage_offset()
    return result is out, looks, out.tolist(), [str(each.message)[:60] for each in warned]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("name", WRITING)
def test_kinds(name, backend):
    program = WRITING[name]
    like = program(X, None)
    for make in KINDS.values():
        compiled = jit.compile(program, backend=backend)
        assert told(compiled, X, make(like)) == told(program, X, make(like))


@pytest.mark.skipif(not COUNTING, reason="graphs are not counted where each call breaks one")
@pytest.mark.parametrize("name", [name for name in WRITING if name != "multinomial"])
def test_one_graph(name):
    program = WRITING[name]
    counter = Counting()
    for kind in ("alike", "empty", "in others", "turned"):
        jit.compile(program, backend=counter, fullgraph=True)(X, KINDS[kind](program(X, None)))


@pytest.mark.parametrize("backend", ["eager", "default"])
def test_a_rank(backend):
    """The tensor that was given was left as it was."""
    check(lambda x, out: torch.linalg.matrix_rank(x, out=out), X, torch.tensor(7), backend=backend, graphs=None)


def test_sorted_into_what_lies_elsewhere():
    def program(x):
        values, places = torch.zeros(12, 2)[:, 0], torch.zeros(12, 2, dtype=torch.long)[:, 1]
        torch.sort(x.flatten(), out=(values, places))
        return values.stride(), places.stride(), values, places

    check(program, -X, backend="default", graphs=None)
