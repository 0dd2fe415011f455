"""torch.cond, while_loop, map and scan: in the graph where they only compute, here without gradients."""
import subprocess
import sys

import pytest
import torch
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import jit
from tests.differential import check, tensors

(X,) = tensors(3, 4)
BACKENDS = ("eager", "aot_eager", "default")


def cond(x):
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))


def cond_of_containers(x):
    return torch.cond(
        x.sum() > 0, lambda a, b: {"k": a + b, "l": [a * 2]}, lambda a, b: {"k": a - b, "l": [b * 3]}, (x, x * 2)
    )


def cond_of_what_is_known(x):
    one = torch.cond(True, lambda a: a + 1, lambda a: a - 1, (x,))
    return one, torch.cond(x.shape[0] > 5, lambda a: a + 1, lambda a: a - 1, (x,))


def cond_that_closes_over(x):
    y = x.exp()
    return torch.cond(x.sum() > 0, lambda a: a + y, lambda a: a - 1, (x,)), y


def cond_of_no_operands(x):
    return torch.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1)


def cond_in_cond(x):
    def inner(a):
        return torch.cond(a.max() > 1, lambda b: b * 2, lambda b: b * 3, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a - 1, (x,))


def while_(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x))


def while_of_a_list(x):
    return while_loop(lambda i, a: a.sum() < 100, lambda i, a: [i + 1, a.abs() * 2 + 1], [torch.tensor(0), x])


def while_of_no_turn(x):
    return while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x))


def while_of_a_dict(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, {"k": a["k"] * 2}), (torch.tensor(0), {"k": x}))


def scanned(x):
    return scan(lambda c, y: (c + y, c * y), x[0].clone(), x, dim=0)


def scanned_backwards(x):
    return scan(lambda c, y: (c + y, c * y), x[:, 0].clone(), x, dim=1, reverse=True)


def mapped(x):
    return map_(lambda r: r * 2, x)


def mapped_to_two(x):
    y = x[0] + 1
    return map_(lambda r, k: (r * k, r.sum()), x, y)


@pytest.mark.sampled(6)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [cond, cond_of_containers, cond_of_what_is_known, cond_that_closes_over, cond_of_no_operands, cond_in_cond, while_,
     while_of_a_list, while_of_no_turn, while_of_a_dict, scanned, scanned_backwards, mapped, mapped_to_two],
    ids=lambda program: program.__name__,
)
def test_one_graph(program, backend):
    check(
        program, X, changed=[(-X,), (X * 10,)], graphs=1 if backend == "eager" else None, backend=backend,
        tolerance=(1e-5, 1e-5),
    )


def itself(x):
    return torch.cond(x.sum() > 0, lambda a: a, lambda a: a - 1, (x,))


def other_shapes(x):
    return torch.cond(x.sum() > 0, lambda a: a[0] + 1, lambda a: a - 1, (x,))


def with_gradients(x):
    w = x.detach().clone().requires_grad_()
    torch.cond(x.sum() > 0, lambda a: (a * w).sum(), lambda a: (a - w).sum(), (x,)).backward()
    return w.grad


def closes_over_an_operand(x):
    return map_(lambda r: r * x[0], x)


def prints(x):
    def loud(a):
        print("here")
        return a + 1

    return torch.cond(x.sum() > 0, loud, lambda a: a - 1, (x,))


REFUSED = [itself, other_shapes, with_gradients, closes_over_an_operand, prints]


def run(function):
    try:
        return function(X.clone())
    except Exception as error:
        return type(error).__name__


@pytest.mark.sampled(9)
@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_they_refuse_or_differentiate(program):
    """Results and errors are torch's own. Its compiler, which reads the functions there, leaves its hook in place when
    it raises, so each has a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.symbolic.test_control_flow", program.__name__], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    program = globals()[sys.argv[1]]
    compiled, plain = run(jit.compile(program)), run(program)
    assert compiled == plain if isinstance(plain, str) else torch.equal(compiled, plain), (compiled, plain)
