"""Products that are written as multiplications and sums, and those that stay with the library."""
import math

import pytest
import torch

from codegen.passes import table
from tests.codegen.passes.checking import Checked
from tests.codegen.passes.test_functional import graphs_of, only, targets

#: left, right, what it becomes
FIRES = {
    "a column by a row": ((7, 1), (1, 9), "mul"),
    "a row by a column": ((1, 30), (30, 1), "mul sum unsqueeze unsqueeze"),
    "a row": ((1, 30), (30, 9), "mul sum unsqueeze unsqueeze"),
    "a column": ((7, 30), (30, 1), "mul sum unsqueeze unsqueeze"),
    "columns by rows": ((3, 7, 1), (3, 1, 9), "add mul"),
    "small rows": ((3, 1, 8), (3, 8, 9), "mul sum unsqueeze unsqueeze"),
    "small columns": ((3, 5, 8), (3, 8, 1), "mul sum unsqueeze unsqueeze"),
}
STAYS = {
    "matrices": ((7, 3), (3, 9)),
    "small squares": ((30, 3, 3), (30, 3, 3)),
    "long rows": ((3, 1, 40), (3, 40, 10)),
    "nothing to add up": ((1, 0), (0, 9)),
    "no rows": ((0, 1), (1, 9)),
}


def product(x, y):
    return [torch.bmm(x, y) if x.dim() == 3 else torch.mm(x, y)]


def compiled(program, inputs, *passes):
    call, (graph,) = graphs_of(program, inputs, only(*passes))
    return call(*inputs)[0], " ".join(targets(graph))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FIRES)
def test_fires(name, dtype, turned):
    *shapes, left = FIRES[name]
    inputs = [torch.randn(shape, dtype=dtype) for shape in shapes]
    if turned:
        inputs = [x.mT.contiguous().mT for x in inputs]
    found, operations = compiled(product, inputs, "products")
    (expected,) = product(*inputs)
    (largest,) = product(*(x.abs() for x in inputs))
    assert operations == left and found.stride() == expected.stride()
    assert ((found - expected).abs() <= 4 * torch.finfo(dtype).eps * largest).all()


@pytest.mark.parametrize("name", ["a column by a row", "columns by rows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_of_two_numbers_is_the_same_to_the_bit(name, dtype):
    odd = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-30, 3.0], dtype=dtype)
    inputs = [odd[:, None], odd[None]]
    if name == "columns by rows":
        inputs = [x.expand(2, *x.shape).contiguous() for x in inputs]
    found, _ = compiled(product, inputs, "products")
    (expected,) = product(*inputs)
    assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.nan_to_num(7), expected.nan_to_num(7))
    there = ~expected.isnan()
    assert torch.equal(found.signbit()[there], expected.signbit()[there])


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    inputs = [torch.randn(shape) for shape in STAYS[name]]
    found, operations = compiled(product, inputs, "products")
    assert operations in ("mm", "bmm") and torch.equal(found, *product(*inputs))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
def test_other_dtypes_stay(dtype):
    inputs = [torch.ones(1, 30).to(dtype), torch.ones(30, 9).to(dtype)]
    assert compiled(product, inputs, "products")[1] == "mm"


def test_with_a_bias():
    inputs = [torch.randn(1, 30), torch.randn(9, 30), torch.randn(9)]
    program = lambda x, w, b: [torch.nn.functional.linear(x, w, b)]
    found, operations = compiled(program, inputs, "products")
    assert operations == "add mul sum t unsqueeze unsqueeze"
    torch.testing.assert_close(found, *program(*inputs))
    scaled = lambda x, w, b: [torch.addmm(b, x, w.t(), alpha=2)]
    found, operations = compiled(scaled, inputs, "products")
    assert operations == "addmm t" and torch.equal(found, *scaled(*inputs))


def test_backward():
    """Of one row: gradients of weights are columns by rows."""
    inputs = [torch.randn(1, 30, requires_grad=True), torch.randn(30, 9, requires_grad=True)]
    call, (forward, backward) = graphs_of(product, inputs, Checked())
    assert "mm" not in targets(forward) + targets(backward)
    found, expected = (torch.autograd.grad(each(*inputs)[0].square().sum(), inputs) for each in (call, product))
    torch.testing.assert_close(found, expected)


def test_it_can_be_switched_off():
    inputs = [torch.randn(1, 30), torch.randn(30, 9)]
    assert "products" in [each.name for each in table()]
    assert compiled(product, inputs)[1] == "mm"
