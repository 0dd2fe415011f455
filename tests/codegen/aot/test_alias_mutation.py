"""Generated programs through the AOT stage beside eager: every way of writing inputs x sharing memory x gradients x
results x grad mode (`programs`), in all that can be seen of them (`observe`)."""
import logging

import pytest
import torch

from codegen.aot.function import Settings, compile_program
from tests.codegen.aot.aliases import differences, judge
from tests.codegen.aot.programs import Cell, covering, drawn


@pytest.fixture(autouse=True)
def quiet():
    """Torch logs an error of a fake before it raises it."""
    threads, disabled = torch.get_num_threads(), logging.root.manager.disable
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    yield
    logging.disable(disabled)
    torch.set_num_threads(threads)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(10))
def test_programs_drawn(seed):
    assert differences(drawn(120, seed)) == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize("way", ["with passes", "symbolic sizes", "captured", "captured, symbolic sizes", "kernels", "kernels, symbolic sizes"])
def test_programs_drawn_other_ways(way):
    assert differences(drawn(50, 0), way) == []


def test_operations_run_in_the_dtypes_that_were_recorded():
    """Autocast has cast where it was on; it does not cast again when the graph runs."""
    assert differences([Cell("none", "none", "leaf", "product_without_autocast", "autocast")]) == []


#: What capture does to its stand-ins
CHANGED = ["slice_then_t_-view_alone-leaf-fresh-no_grad", "detach_-detached-leaf-middle_twice-grad"]


@pytest.mark.parametrize("name", CHANGED)
def test_inputs_of_symbolic_sizes_that_become_other_tensors(name):
    assert differences([Cell(*name.split("-"))], "captured, symbolic sizes") == []


#: What capture knows of inputs that came as others than they are in the end, or than they say
SEEN = [
    "requires_grad_-strided-views_without_grad-custom_view_and_views-no_grad",
    "mul_then_requires_grad_-overlapping-leaf-middle_and_detached-inference",
    "set_data-base_first-views_without_grad-products_of_two_values-grad",
    "set_data-base_first-views_without_grad-products_of_two_values-autocast",
]


#: Views that autograd lets nobody write, or that get no gradient, in what the program does to them all the same
FRAGILE = [
    "no_grad-strided-views_without_grad-detach_input-grad",
    "through_data-unbound-middle-fresh-grad",
    "requires_grad_then_no_grad-unbound-second_alone-custom_views_of_input-grad",
    "used_and_for_a_while_without-siblings-views_without_grad-fresh-grad",
    "viewed_then_requires_grad_-view_first-views_without_grad-view_of_input-grad",
    "requires_no_grad_-transposed-views_without_grad-middle_twice-autocast",
    "requires_grad_-halves-leaf_first-fresh-inference-inference_inputs",
    "requires_grad_then_no_grad-unbound-plain-no_grad_views-grad",
    "requires_no_grad_-one_storage-leaf-product_of_middle-grad",
    "slice_then_t_-unbound-leaf-unbind_middle-no_grad",
    "t_both-unbound-leaf-products_of_two_values-no_grad",
]


@pytest.mark.parametrize("name", FRAGILE)
def test_fragile_inputs(name):
    cell = Cell(*name.split("-")[:5], inference_inputs=name.endswith("inputs"))
    assert judge(cell).outcome == "equal"


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("way", ["captured", "captured, symbolic sizes"])
def test_captured(name, way):
    assert differences([Cell(*name.split("-"))], way) == []


def test_gradients_of_inputs_that_depend_on_one_another():
    """A backward that can't be compiled, for the sake of its tangent, runs as it is."""
    weight = torch.ones(6, requires_grad=True)
    with torch.no_grad():
        tangent = weight.view(2, 3)  # says that it requires a gradient

    def program(x, y):
        return [x * x * y.t()]

    def gradients(call):
        leaf = torch.arange(6.0).view(2, 3).requires_grad_()
        middle = leaf * 2
        (result,) = call(middle, middle.t())
        return torch.autograd.grad(result, leaf, tangent, create_graph=True)

    middle = torch.ones(2, 3, requires_grad=True) * 2
    compiled = compile_program(program, (middle, middle.t()), Settings())
    assert gradients(compiled)[0].tolist() == gradients(program)[0].tolist()


PARTS = 20


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair(part):
    assert differences(list(covering())[part::PARTS]) == []
