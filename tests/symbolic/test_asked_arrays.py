"""What numpy gives for arrays and numbers of each dtype, where what is in them is not known before the program runs; what
torch makes of such numbers."""
import collections
import copy
import fractions
import itertools
import math
import operator

import numpy as np
import pytest
import torch

from tests.differential import check
from tests.symbolic.asked import lines

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64]
MODULES = (collections, copy, fractions, itertools, math, operator)
SCOPE = {"np": np, **{module.__name__: module for module in MODULES}}
PROGRAM = """
def program(x):
    a = x.numpy()
    s, b = a.max(), np.array([2, 1]) * int(x[0, 0])
    return {}, a, b, x
"""


@pytest.mark.sampled(120)
@pytest.mark.parametrize("number", range(len(DTYPES)), ids=lambda number: str(DTYPES[number])[6:])
@pytest.mark.parametrize("line", lines("asked_arrays.txt"))
def test_arrays(line, number):
    scope = dict(SCOPE)
    exec(PROGRAM.format(line), scope)
    given = [torch.tensor(rows).to(DTYPES[number]) for rows in ([[1, 2, 0], [0, 3, 1]], [[1, 1, 0], [4, 0, 2]])]
    check(scope["program"], given[0], changed=[(given[1],)], tolerance=(1e-3, 1e-3), nodes=False)


KINDS = [np.bool_, np.uint8, np.int32, np.int64, np.float32, np.float64]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(60)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("line", lines("asked_numbers.txt"))
def test_numbers_beside_tensors(line, kind):
    """Some functions take any number, some only Python's: what eager code refuses is refused."""
    scope = {"torch": torch, "np": np, "F": torch.nn.functional}
    exec(f"def program(x, v):\n    return {line}", scope)
    x = torch.arange(12.0).reshape(3, 4)
    check(scope["program"], x, kind(1), changed=[(x + 1, kind(1))], tolerance=(1e-4, 1e-4), nodes=False)
