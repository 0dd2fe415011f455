"""Generated programs through the AOT stage beside eager: every way of writing inputs x sharing memory x gradients x
results x grad mode (`programs`), in all that can be seen of them (`observe`)."""
import logging
import re

import pytest
import torch

from codegen.aot.function import Settings, compile_program
from codegen.aot.recorder import Untraceable
from tests.codegen.aot.observe import look, observations, same
from tests.codegen.aot.programs import covering, drawn

#: What may be refused. No other reason may come up: the list can only shrink.
REFUSED = (
    "written inputs that share memory, of which autograd knows for some only",
    "a write to an input that autograd lets nobody write",
    "a view made without grad: it says that it requires a gradient, and gets none",
    "a result that needs gradients for itself",
    r"requires_grad_\(.*\) of an input",
    r"as_strided_\(\) of a written or shared input that gets a gradient",
    "one of several views of a base comes to lie elsewhere",
    "inputs that share memory in two ways",
    "`.data = ` in inference mode",
    r"aten\.set_\.\w+ of a tensor that gets a gradient",
    "a storage that the program made grows",
    "a result that came to lie elsewhere",
    "an operation writes what overlaps with its other tensors",
    "an operation writes a tensor twice",
    "a view that a custom autograd function returns",
    "a view that gets its gradient elsewhere than its base",
    "a view of a tensor that changes its geometry later",
    "a backward that raises",
    "torch fails to take a view again",
    "an input that is a lazy conjugate",
    # Of functional forms:
    "(a view of a tensor whose )?elements .*share memory",
    ".* reads the elements as others",
    ".* can't be cast to .*",
    ".* gave a copy",
    ".* repeats elements",
    ".* may reach outside of its base",
)


@pytest.fixture(autouse=True)
def quiet():
    """Torch logs an error of a fake before it raises it."""
    threads, disabled = torch.get_num_threads(), logging.root.manager.disable
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    yield
    logging.disable(disabled)
    torch.set_num_threads(threads)


def difference(cell):
    """What is wrong with a program, in words; None if it is as eager code, or is refused for a known reason."""
    eager = dict(observations(cell, cell.program))
    inputs = cell.inputs()
    tensors = [*inputs.leaves, *inputs.values]
    before = look(tensors)
    refused = raised = None
    try:
        with cell.under():
            compiled = compile_program(cell.program, inputs.values, Settings())
    except Untraceable as error:
        refused = str(error)
    except Exception as error:
        raised = error
    if look(tensors) != before:
        return "inputs changed while it was compiled"
    if refused is not None:
        return None if any(re.match(reason, refused) for reason in REFUSED) else f"refused: {refused}"
    if raised is not None:
        return None if eager.get("error") == type(raised).__name__ else f"raises {raised!r}, eager {eager.get('error')}"
    actual = dict(observations(cell, compiled))
    wrong = [name for name in eager | actual if not same(cell, name, eager.get(name), actual.get(name))]
    return f"{wrong[0]}:\n{eager.get(wrong[0])}\n{actual.get(wrong[0])}" if wrong else None


def differences(cells):
    return [f"{cell}: {found}" for cell in cells if (found := difference(cell)) is not None]


@pytest.mark.parametrize("seed", range(10))
def test_programs_drawn(seed):
    assert differences(drawn(120, seed)) == []


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
