"""What the program reads of torch's state is read again at the next call, and of modules that look things up themselves."""
import sys
import types

import pytest
import torch

import jit
from tests.differential import check

#: What is read -> what the caller does between the calls, and how that ends.
READS = {
    "torch.backends.cudnn.enabled": ("torch._C._set_cudnn_enabled(False)", "torch._C._set_cudnn_enabled(True)"),
    "torch.is_anomaly_enabled()": ("torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"),
    "torch.is_autocast_cache_enabled()": ("torch.set_autocast_cache_enabled(False)", "torch.set_autocast_cache_enabled(True)"),
    "torch.get_autocast_dtype('cpu')": (
        "torch.set_autocast_dtype('cpu', torch.float16)", "torch.set_autocast_dtype('cpu', torch.bfloat16)"
    ),
    "torch.get_num_threads()": ("torch.set_num_threads(3)", "torch.set_num_threads(1)"),
    "torch.get_default_dtype()": ("torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"),
    "torch.distributed.is_initialized()": (
        "torch.distributed.init_process_group('gloo', store=torch.distributed.HashStore(), rank=0, world_size=1)",
        "torch.distributed.destroy_process_group()",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("read", READS)
def test_is_read_again(read):
    change, back = READS[read]
    compiled = jit.compile(eval(f"lambda x: ({read}, x + 1)"), backend="eager")
    before = compiled(torch.ones(2))[0]
    exec(change)
    try:
        assert compiled(torch.ones(2))[0] == eval(read) != before
    finally:
        exec(back)
    assert compiled(torch.ones(2))[0] == before


def test_what_the_frame_sets_itself():
    def program(x):
        with torch.autocast("cpu", torch.float16):
            inside = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")
        return inside, torch.get_autocast_dtype("cpu"), x + 1

    check(program, torch.ones(2), graphs=1)


ASKED = []


@pytest.fixture
def answering(monkeypatch):
    module = types.ModuleType("answering")
    exec("def __getattr__(name):\n    if name[0] == '_': raise AttributeError(name)\n    asked.append(name)\n    return flag\nflag = 1",
         module.__dict__)  # fmt: skip
    module.asked = ASKED
    monkeypatch.setitem(sys.modules, "answering", module)
    return module


@pytest.mark.parametrize("text", ["module.zz", "getattr(module, 'zz')", "hasattr(module, 'zz')", "getattr(module, '__zz__', 3)", "imported(x)"])
def test_a_module_that_answers_itself(answering, text):
    def imported(x):
        from answering import zz
        return zz

    program = eval(f"lambda x: ({text}, x + 1)", {"module": answering, "imported": imported})
    compiled = jit.compile(program, backend="eager")
    for answering.flag in (1, 1, 2):
        ASKED.clear()
        wanted = program(torch.ones(2))[0], list(ASKED)
        ASKED.clear()
        assert (compiled(torch.ones(2))[0], ASKED) == wanted
