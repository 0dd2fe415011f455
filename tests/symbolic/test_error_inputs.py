"""What raises, by the rows of torch's own tables of operators (`error_inputs_func`), raises compiled, and says the same."""
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import jit

#: 180 operators, 700 calls that raise.
ROWS = [op for op in op_db if op.error_inputs_func is not None]


def said(call):
    """What it raises: type and first line."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(action="ignore"):
            call()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.long)], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", [
    pytest.param(op, marks=() if at % 6 == 0 or op.name in ("complex", "aminmax") else pytest.mark.long)
    for at, op in enumerate(ROWS)
], ids=lambda op: f"{op.name}-{op.variant_test_name}")  # fmt: skip
def test_error_inputs(op, dynamic):
    def run(*args, **kwargs):
        return op.op(*args, **kwargs)

    for row in op.error_inputs("cpu"):
        given, args, kwargs = row.sample_input.input, row.sample_input.args, row.sample_input.kwargs
        compiled = jit.compile(run, dynamic=dynamic)
        assert said(lambda: compiled(given, *args, **kwargs)) == said(lambda: op.op(given, *args, **kwargs))
