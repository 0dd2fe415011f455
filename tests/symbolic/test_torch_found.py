"""Functions of torch that once broke the graph, or were wrong."""
import copy
import traceback

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jit
from tests.differential import check, tensors

X, = tensors(2, 3, 4)


def test_recurrent_modules():
    torch.manual_seed(0)
    check(nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), X, graphs=1)
    check(nn.GRU(4, 5, batch_first=True), X, graphs=1)
    check(nn.RNN(4, 5, nonlinearity="relu"), X, graphs=1)


def test_recurrent_cells():
    torch.manual_seed(0)
    gru, lstm, rnn = nn.GRUCell(4, 5), nn.LSTMCell(4, 5), nn.RNNCell(4, 5)

    def program(x):
        h, c, r = torch.zeros(2, 5), torch.zeros(2, 5), torch.zeros(2, 5)
        for t in range(3):
            h, (c, r) = gru(x[:, t], h), lstm(x[:, t], (c, r))
            r = rnn(x[:, t], r)
        return h, c, r

    check(program, X, graphs=1)


def test_a_loss_that_checks_its_variance():
    def program(x, v):
        return F.gaussian_nll_loss(x, x + 1, v)

    check(program, X, X.abs() + 1, changed=[(X, -X.abs() - 1)], graphs=1)


def test_backends_of_attention_as_keys():
    from torch.nn.attention import SDPBackend

    def program(x):
        order = dict.fromkeys([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
        return x * len(order), SDPBackend.MATH in order, list(order)[1] == SDPBackend.FLASH_ATTENTION

    check(program, X, graphs=1)


def test_a_size_says_how_large_a_tuple_what_is_in_it():
    two, none = torch.Size([2]), torch.Size([])

    def program(x):
        sized = [x.new(x.shape), x.new(two, device="cpu"), x.new(none), torch.Tensor.new(x, x.shape[1:]), torch.Tensor(two)]
        return [each.zero_() for each in sized], x.new(size=two).zero_(), x.new((3, 2)), x.new([1]), torch.Tensor((2, 5))

    check(program, X, graphs=1)


@pytest.mark.parametrize("items", ["ab", ["a"], [2.5], [None], [True], [torch.tensor(3)], [[1]]], ids=str)
def test_a_size_holds_numbers_and_nothing_else(items):
    def program(x):
        try:
            return torch.Size(items), [type(each) for each in x.shape + tuple(items)]
        except TypeError as error:
            return str(error), x + 1

    check(program, X)


REFUSED = {
    "format": lambda x: format(x, ">5"), "length": lambda x: len(x.sum()), "iteration": lambda x: list(x.sum()),
    "items": lambda x: [each for each in x.sum()],
}  # fmt: skip


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_what_torch_refuses_in_its_own_python_code_is_told_from_there(refused):
    def program(x):
        try:
            return refused(x)
        except TypeError as error:
            return [(each.name, each.lineno) for each in traceback.extract_tb(error.__traceback__)], str(error), x + 1

    check(program, X)


def test_distributions_that_make_tensors_by_size():
    def program(x):
        torch.manual_seed(0)
        scale = x.abs() + 0.5
        one, two = torch.distributions.Laplace(x, scale), torch.distributions.Pareto(scale, scale)
        return one.rsample(), two.rsample(), torch.distributions.Multinomial(3, probs=scale).sample()

    check(program, X)


def test_distributions_check_their_arguments_in_the_graph():
    def program(x):
        one = torch.distributions.Categorical(logits=x)
        two = torch.distributions.Normal(0.0, 1.0).expand(x.shape)
        return one.log_prob(torch.ones(2, 3)), one.entropy(), two.log_prob(x)

    check(program, X, graphs=1)


def test_types_by_their_old_names():
    def program(x):
        return x.type(torch.DoubleTensor), x.type(torch.LongTensor) + 1, x.double().type(torch.Tensor), x.type(x.type())

    check(program, X, graphs=1)


def test_parts_of_sparse_tensors_are_left_alone():
    def program(x):
        return x[0].to_sparse_csr().values() * 2, x.to_sparse().coalesce().indices() + 1, x.to_sparse().to_dense()

    check(program, X)


def test_inputs_whose_names_differ_by_signs_only():
    def program(x, table):
        return x + table["a-b"] * table["a+b"] + table["a_b"] + table[" "]

    check(program, make=lambda: (torch.ones(3), {key: torch.ones(3) for key in ("a-b", "a+b", "a_b", " ")}), graphs=1)


BEYOND = {
    "a result": lambda x: (x * 2).as_strided((5,), (1,)),
    "an input": lambda x: x.as_strided((5,), (1,)),
    "from later on": lambda x: x.as_strided((2,), (1,), 2),
    "a part": lambda x: (x * 2)[1:].as_strided((3,), (1,), 0),
    "in place": lambda x: x.as_strided_((5,), (1,)),
    "scattered": lambda x: torch.as_strided_scatter(x, torch.ones(5), (5,), (1,)),
    "copied": lambda x: torch.as_strided_copy(x, (5,), (1,)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("case", BEYOND)
def test_more_than_there_is_in_memory(case, backend, dynamic):
    def program(x):
        try:
            return BEYOND[case](x)
        except RuntimeError as error:
            return str(error)

    whole = torch.arange(10.0)
    lying = [(torch.ones(2),), (whole[:2].data,), (whole[7:9].data,), (whole[3:5],), (torch.ones(3),)]
    check(program, torch.ones(2), backend=backend, dynamic=dynamic, changed=lying)


@pytest.mark.parametrize("backend", ["eager", "default"])
def test_a_parameter_is_asked_first_how_it_compares(backend):
    weight = nn.Parameter(torch.arange(6.0).reshape(2, 3))

    def program(x):
        return x == weight, x < weight, weight >= x, x.eq(weight), x + weight, x != weight.detach()

    check(program, torch.ones(3, 2).t(), backend=backend)


def leave(copied):
    return copied


def go_on(copied):
    jit.graph_break()
    return copied


COPIES = {
    "written": (lambda p: p.data.mul_(3)), "no gradients": (lambda p: p.requires_grad_(False)),
    "elsewhere": (lambda p: setattr(p, "data", torch.zeros(2))), "counted": (lambda p: p.detach().zero_()),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, lambda p: copy.deepcopy({"p": [p]})["p"]])
@pytest.mark.parametrize("end", [leave, go_on])
@pytest.mark.parametrize("change", COPIES)
def test_copies_are_made_before_what_comes_after_them(change, end, made):
    def program(p):
        copied = made(p)
        COPIES[change](p)
        return end(copied)

    for make in (lambda: (nn.Parameter(torch.ones(2)),), lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2),)):
        check(program, make=make)


def test_a_model_is_copied_before_the_step():
    def program(model, x):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(x).sum().backward()
        before = copy.deepcopy(model)
        optimizer.step()
        return before

    check(program, make=lambda: (nn.Linear(2, 2), torch.ones(3, 2)), graphs=1)


def test_values_of_no_gradients_cannot_be_clipped():
    def program(model, x):
        try:
            nn.utils.clip_grad_value_(model.parameters(), 0.1)
        except RuntimeError as error:
            return model(x), str(error)

    check(program, make=lambda: (nn.Linear(2, 2), torch.ones(3, 2)))


@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("change", [
    lambda m: m.double() and m.float(), lambda m: m.double(), lambda m: setattr(m.weight, "data", m.weight.data.double()),
    lambda m: setattr(m.weight, "data", m.weight.data * 2), lambda m: m.float(), lambda m: setattr(m.weight, "data", torch.zeros(3)),
])  # fmt: skip
@pytest.mark.sampled(2)
def test_leaves_get_the_gradients_of_what_came_before_they_were_of_another_kind(change, backend):
    def program(model, x):
        loss = model(x).sum()
        change(model)
        loss.backward()
        return [p.grad for p in model.parameters()]

    check(program, make=lambda: (nn.Linear(2, 2), torch.ones(1, 2)), backend=backend)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "default"])
def test_parameters_are_swapped_for_others(backend, dynamic):
    def step(model, x):
        loss = model(x).square().sum()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= p.grad
        model.zero_grad()
        return loss.detach()

    def trained(step):
        torch.manual_seed(0)
        model, found = nn.Linear(2, 2), []
        for change in (model.float, model.double, model.float):
            change()
            found += [step(model, torch.ones(rows, 2, dtype=model.weight.dtype)) for rows in (3, 3, 4)]
        return found, [*model.parameters()]

    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        mine, eager = trained(jit.compile(step, backend=backend, dynamic=dynamic)), trained(step)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    torch.testing.assert_close(mine, eager)
