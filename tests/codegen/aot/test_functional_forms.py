"""Operations that write and have no functional form: operators of the program, random numbers in views with gaps."""
import pytest
import torch

from codegen.aot.functional import functional
from tests.codegen.aot import operators  # noqa: F401 (defines them)
from tests.differential import check, differentiated_ahead

BACKENDS = ["eager", differentiated_ahead, "default"]


# --- operators of the program: (x, cache) -----------------------------------------------------------------------------
def into_equal_new_tensors(x, cache):
    a, b = torch.zeros(4), torch.zeros(4)
    torch.ops.framejit_tests.add_to(a, x.detach())
    return (a * x + b * x).sum()


def into_what_is_times_one(x, cache):
    a = x.detach() * 1
    torch.ops.framejit_tests.add_to(a, a.exp())
    return a * x


def into_two_copies_of_one_tensor(x, cache):
    a, b = x.detach().clone(), x.detach().clone()
    torch.ops.framejit_tests.add_to(a, b)
    torch.ops.framejit_tests.add_to(b, a)
    return a * b * x


def what_was_read_before(x, cache):
    a = x.detach().double()
    before = a.float()
    torch.ops.framejit_tests.add_to(a, a * 2)
    return before * x * a.float()


def into_rows(x, cache):
    table = torch.zeros(2, 4)
    torch.ops.framejit_tests.add_to(table[0], x.detach())
    flat = table.view(8)
    torch.ops.framejit_tests.add_to(table[1], x.detach() * 2)
    return (flat[:4] * x + flat[4:] * x), table


def into_an_input_twice(x, cache):
    torch.ops.framejit_tests.add_to(cache, x.detach())
    y = (cache.clone() * x).exp()
    torch.ops.framejit_tests.add_to(cache, y.detach())
    return y * cache


def with_a_result(x, cache):
    a = x.detach() * 1
    before = a.exp()
    doubled = torch.ops.framejit_tests.add_and_double(a, a + 1)
    return before * doubled * x * a


def into_a_list(x, cache):
    a, b = x.detach().clone(), x.detach().clone()
    torch.ops.framejit_tests.add_to_all([a, b], x.detach())
    torch.ops.framejit_tests.add_to_all([a, cache], x.detach(), b)
    return a * x, b * x


PROGRAMS = [
    into_equal_new_tensors, into_what_is_times_one, into_two_copies_of_one_tensor, what_was_read_before, into_rows,
    into_an_input_twice, with_a_result, into_a_list,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_operators_that_write(program, backend):
    if program is into_a_list and torch.__version__ < "2.13":
        pytest.skip("torch up to 2.12 raises IndexError itself where an operator writes into a list of tensors")
    check(program, torch.arange(4.0, requires_grad=True), torch.ones(4), backend=backend, graphs=1)


# --- random numbers in views ------------------------------------------------------------------------------------------
def transposed(x):
    y = (x * 1).t()
    y.uniform_()
    return y.sum() + (x * 1).sum(), y * 2


def every_second_column(x):
    return x.clone()[:, ::2].normal_(), x * 2


def every_second_row_of_nothing(x):
    y = torch.zeros(4, 4)
    y[::2].exponential_()
    return y


def what_was_drawn_and_more(x):
    y = x.clone().t()
    return y + y.bernoulli_(0.5), torch.rand(2)


def one_after_the_other(x):
    y = x.t().clone()
    y.cauchy_()
    y.log_normal_()
    return y.geometric_(0.3)


def between_bounds(x):
    """`random_.from`: a keyword."""
    return x.clone().t().random_(3, 50)


def of_an_input(x):
    x.t().normal_()
    return x * 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [
    transposed, every_second_column, every_second_row_of_nothing, what_was_drawn_and_more, one_after_the_other, between_bounds, of_an_input,
])
def test_random_numbers_in_views(program, backend):
    check(program, torch.arange(400.0).view(20, 20)[:4, :4], backend=backend, graphs=1)


def test_the_form_says_what_it_is():
    form = functional(torch.ops.framejit_tests.add_to_all.default, ("into",))
    assert str(form._schema) == (
        "framejit::framejit_tests_add_to_all_into(Tensor[] into, Tensor x, Tensor? also=None) -> Tensor[]"
    )
