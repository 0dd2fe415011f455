"""with blocks: the user's own context managers and torch's."""
import contextlib

import pytest
import torch

from tests.differential import check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


class Recorder:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(("exit", kind.__name__ if kind else None))
        return self.swallow


@contextlib.contextmanager
def recorded(log, value=0):
    log.append("enter")
    try:
        yield value
    finally:
        log.append("exit")


@same_as_eager(graphs=1)
def test_own_context_manager(x):
    log = []
    with Recorder(log) as r:
        y = x + 1
        r.log.append("body")
    return y, log


@same_as_eager(graphs=1)
def test_exception_is_swallowed(x):
    log = []
    with Recorder(log, swallow=True):
        x = x + 1
        raise ValueError("gone")
    return x * 2, log


@same_as_eager(graphs=1)
def test_exception_passes_through_and_is_handled(x):
    log = []
    try:
        with Recorder(log):
            raise KeyError(1)
    except KeyError:
        log.append("handled")
    return x + 1, log


@same_as_eager
def test_exception_leaves_the_program(x, log=[]):
    with Recorder(log):
        x.add_(1)
        raise KeyError(1)


@same_as_eager(graphs=1)
def test_two_in_one_statement(x):
    a, b = [], []
    with Recorder(a) as r, Recorder(b, swallow=True):
        x = x + len(a)
        raise ValueError
    return x, a, b, r


@same_as_eager(graphs=1)
def test_nested(x):
    log = []
    with Recorder(log):
        with Recorder(log):
            x = x + 1
        with Recorder(log):
            x = x * 2
    return x, log


@same_as_eager(graphs=1)
def test_return_break_continue_inside(x):
    log = []

    def early(t):
        with Recorder(log):
            return t + 1
    for i in range(4):
        with Recorder(log):
            if i == 1:
                continue
            if i == 2:
                break
            x = early(x)
    return x, log


@same_as_eager(graphs=1)
def test_generator_context_manager(x):
    log = []
    with recorded(log, 3) as n:
        x = x + n
    return x, log


@same_as_eager(graphs=1)
def test_generator_context_manager_sees_an_exception(x):
    log = []
    try:
        with recorded(log):
            raise ValueError
    except ValueError:
        log.append("handled")
    return x + 1, log


@same_as_eager(graphs=1)
def test_null_context_and_suppress(x):
    log = []
    with contextlib.nullcontext(5) as n:
        x = x + n
    with contextlib.suppress(KeyError):
        {}["a"]
    return x * 2, log


@same_as_eager
def test_exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Recorder(log))
        stack.callback(log.append, "callback")
        x = x * 2
    return x, log


@same_as_eager(graphs=1)
def test_context_manager_as_decorator(x):
    log = []

    @recorded(log)
    def f(t):
        return t + 1
    return f(x), f(x), log


@same_as_eager(graphs=1)
def test_manager_from_attribute_and_call(x):
    class_of = {"r": Recorder}
    log = []
    with class_of["r"](log), torch.no_grad():
        y = x + 1
    return y, log


@same_as_eager
def test_not_a_context_manager(x):
    y = x + 1
    with y.shape:
        y = y + 1
    return y


@same_as_eager
def test_enter_raises(x):
    @contextlib.contextmanager
    def fails():
        raise ValueError("enter")
        yield
    y = x + 1
    with fails():
        y = y + 1
    return y


@same_as_eager(graphs=1, make=lambda: (Recorder([]), torch.ones(2)))
def test_manager_from_an_argument(r, x):
    with r:
        x = x + 1
    with r as same:
        same.log.append("mine")
    return x


G = torch.randn(3, 4, requires_grad=True)
CONTEXTS = ["torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()", "torch.inference_mode(False)", "torch.set_grad_enabled(False)",
            "torch.set_grad_enabled(mode=True)", "torch.autocast('cpu', dtype=torch.bfloat16)", "torch.autocast('cpu', enabled=False)",
            "torch.amp.autocast('cpu', torch.bfloat16)", "torch.autograd.profiler.record_function('name')",
            "torch.random.fork_rng(enabled=False)", "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_torch_context(context):
    scope = {"torch": torch}
    execute(f"""
def program(x):
    y = x * 2
    with {context}:
        z = (y @ y.t()) * 3
        inside = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled('cpu')
    w = y * 4
    return y, z, w, inside, torch.is_grad_enabled()
""", scope)
    check(scope["program"], G, graphs=None if any(word in context for word in ("sdpa", "fork", "record")) else 1, changed=[(G.detach() + 1,)])


@pytest.mark.parametrize("context", CONTEXTS[:7])
def test_torch_context_is_left_by_an_exception(context):
    scope = {"torch": torch}
    execute(f"""
def program(x):
    with {context}:
        y = x * 2
        raise ValueError(torch.is_grad_enabled())
""", scope)
    check(scope["program"], G)


@pytest.mark.parametrize("decorator", ["torch.no_grad()", "torch.no_grad", "torch.enable_grad()", "torch.inference_mode()",
                                       "torch.set_grad_enabled(False)", "torch.autocast('cpu', dtype=torch.bfloat16)"])
def test_torch_context_as_decorator(decorator):
    scope = {"torch": torch}
    execute(f"""
@{decorator}
def inner(x):
    return x @ x.t()

def program(x):
    return inner(x), x * 2, torch.is_grad_enabled()

@{decorator}
def whole(x):
    return x @ x.t()
""", scope)
    check(scope["program"], G, graphs=1)
    check(scope["whole"], G)


@same_as_eager(graphs=1, make=lambda: (torch.ones(3, requires_grad=True),))
def test_grad_modes_nested(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = x * 4
    return a, b, c, x * 5


@same_as_eager(graphs=1, make=lambda: (torch.ones(3, requires_grad=True),))
def test_grad_mode_is_switched_and_stays(x):
    a = x * 2
    torch.set_grad_enabled(False)
    b = x * 3
    torch._C._set_grad_enabled(True)
    return a, b


@same_as_eager(make=lambda: (torch.ones(3, requires_grad=True),))
def test_grad_mode_is_left_off(x):
    torch.set_grad_enabled(False)
    return x * 2


@same_as_eager(graphs=1, make=lambda: (torch.ones(3, requires_grad=True),))
def test_context_object_used_twice(x):
    off = torch.no_grad()
    with off:
        a = x * 2
    b = x * 2
    with off:
        c = x * 2
    return a, b, c


@same_as_eager(graphs=1, make=lambda: (torch.ones(3, requires_grad=True),))
def test_in_place_under_no_grad(x):
    with torch.no_grad():
        x.mul_(2)
    return x * 3


@same_as_eager(graphs=1)
def test_default_dtype_is_read(x):
    return x + 1, torch.get_default_dtype(), torch.zeros(2), torch.tensor(1.5)


@same_as_eager
def test_default_dtype_is_set_for_a_while(x):
    torch.set_default_dtype(torch.float64)
    y = torch.zeros(3)
    torch.set_default_dtype(torch.float32)
    return y, x + torch.ones(4)


@same_as_eager
def test_device_context(x):
    with torch.device("meta"):
        y = torch.empty(3)
    return y, x + 1


@same_as_eager
def test_saved_tensor_hooks(x):
    x = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = x * x
    return y.sum()


@same_as_eager(graphs=1)
def test_what_is_no_manager(x):
    class Enters:
        def __enter__(self):
            return self

    class Exits:
        def __exit__(self, *error):
            return None

    class Own(Enters, Exits):
        pass
    seen, own = [], Own()
    own.__exit__ = own.__enter__ = None  # of the object: not asked
    for manager in (Enters(), Exits(), 3, None, own):
        try:
            with manager:
                seen.append("inside")
        except TypeError as e:
            seen.append(str(e))
    return x + 1, seen
