"""Training steps with `torch.optim` inside a compiled function: one graph, the numbers and the state of eager code."""
import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import jit
from tests.differential import COUNTING, Counting, check, differentiated_ahead

X, Y = torch.randn(5, 4, generator=torch.Generator().manual_seed(3)), torch.tensor([0, 1, 2, 0, 1])

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "dampening": 0.2}),
    "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01}),
    "rmsprop centered": (torch.optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.5}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
}
CASES = {(name, foreach): (cls, {**kwargs, "foreach": foreach}) for name, (cls, kwargs) in OPTIMIZERS.items()
         for foreach in (False, True)}
if hasattr(torch.optim, "Muon"):
    CASES["muon", False] = (torch.optim.Muon, {"lr": 0.01})
if not COUNTING:  # a break after every call makes hundreds of pieces of each step: two optimizers stand for all
    CASES = {key: case for key, case in CASES.items() if key[0] in ("sgd", "adamw")}


def classify(model, opt, x, y):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss.detach()


def keeping_zeros(model, opt, x, y):
    opt.zero_grad(set_to_none=False)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    return loss.detach()


def with_closure(model, opt, x, y):
    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return opt.step(closure).detach()


def with_values_clipped(model, opt, x, y):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
    opt.step()
    return [p.grad.norm() for p in model.parameters() if p.grad is not None]


def two_batches(model, opt, x, y):
    for part in (x, -x):
        (F.cross_entropy(model(part), y) / 2).backward()
    opt.step()
    opt.zero_grad()


def network(bias=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, bias), nn.LayerNorm(8, bias=bias), nn.GELU(), nn.Linear(8, 3, bias))


def matrices(model):
    return [p for p in model.parameters() if p.dim() == 2]


def make(cls, kwargs):
    model = network()
    return model, cls(matrices(model) if cls.__name__ == "Muon" else model.parameters(), **kwargs)


BACKENDS = {"eager": None, "aot_eager": differentiated_ahead}
EXACT = {"rtol": 0, "atol": 0}


def compare(pair, other):
    (model, opt), (twin, other_opt) = pair, other
    for ours, theirs in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(ours, theirs, **EXACT)
        assert (ours.grad is None) == (theirs.grad is None)
        if theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, **EXACT)
    ours, theirs = opt.state_dict(), other_opt.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for key, state in theirs["state"].items():
        assert list(ours["state"][key]) == list(state)
        torch.testing.assert_close(ours["state"][key], state, check_stride=True, **EXACT)


def train(step, pair, other, steps=5, backend="eager", between=lambda pair: None, graphs=2):
    """Runs both side by side, and compares after each step."""
    counter = Counting(BACKENDS[backend])
    compiled = jit.compile(step, backend=counter, fullgraph=COUNTING)
    for _ in range(steps):
        got, expected = compiled(*pair, X, Y), step(*other, X, Y)
        torch.testing.assert_close(got, expected, **EXACT)
        compare(pair, other)
        between(pair), between(other)
    if COUNTING:
        assert len(counter.graphs) <= graphs  # without state and gradients, and with what the last step left


BACKEND = pytest.mark.parametrize("backend", BACKENDS if COUNTING else ["aot_eager"])
CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{'-foreach' if case[1] else ''}")


@pytest.mark.sampled(6)
@BACKEND
@CASE
def test_a_training_step_is_one_graph(case, backend):
    train(classify, make(*CASES[case]), make(*CASES[case]), backend=backend)


@pytest.mark.sampled(3)
@BACKEND
@pytest.mark.parametrize("name", ["momentum", "adamw"])
@pytest.mark.parametrize("step", [keeping_zeros, with_closure, with_values_clipped, two_batches], ids=lambda s: s.__name__)
def test_other_steps(step, name, backend):
    train(step, make(*OPTIMIZERS[name]), make(*OPTIMIZERS[name]), backend=backend)


@BACKEND
def test_groups_with_options_of_their_own(backend):
    def build():
        model = network()
        decayed, others = matrices(model), [p for p in model.parameters() if p.dim() == 1]
        return model, torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0, "lr": 0.5}], lr=0.01)

    train(classify, build(), build(), backend=backend)


@BACKEND
def test_groups_by_type(backend):
    def build():
        torch.manual_seed(0)
        model = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3).double(), nn.Linear(4, 3)])
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def step(model, opt, x, y):
        opt.zero_grad()
        loss = sum(F.cross_entropy(part(x.to(part.weight.dtype)), y) for part in model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=True)
        opt.step()
        return loss.detach()

    train(step, build(), build(), backend=backend)


@BACKEND
def test_frozen_parameters_stay(backend):
    def build():
        model, opt = make(*OPTIMIZERS["adam"])
        model[0].requires_grad_(False)
        return model, opt

    pair = build()
    train(classify, pair, build(), backend=backend)
    assert torch.equal(pair[0][0].weight, network()[0].weight) and len(pair[1].state) == 4


@BACKEND
def test_hooks_of_steps_run(backend):
    def build(seen):
        model, opt = make(*OPTIMIZERS["momentum"])
        opt.register_step_pre_hook(lambda opt, args, kwargs: seen.append("before"))
        opt.register_step_post_hook(lambda opt, args, kwargs: seen.append("after"))
        return model, opt

    ours, theirs = [], []
    train(classify, build(ours), build(theirs), backend=backend, steps=3, graphs=3)  # the length of the list is a fact of its own
    assert ours == theirs == ["before", "after"] * 3


@BACKEND
def test_state_saved_and_loaded_between(backend):
    def reload(pair):
        model, opt = pair
        saved = copy.deepcopy((model.state_dict(), opt.state_dict()))
        model.load_state_dict(saved[0])
        opt.load_state_dict(saved[1])

    train(classify, make(*OPTIMIZERS["adamw"]), make(*OPTIMIZERS["adamw"]), backend=backend, between=reload)


def test_grad_mode_is_left_as_it_was():
    def step(model, opt, x, y):
        classify(model, opt, x, y)
        return torch.is_grad_enabled(), model(x).requires_grad

    model, opt = make(*OPTIMIZERS["sgd"])
    assert jit.compile(step, backend="eager")(model, opt, X, Y) == (True, True)


# --- numbers that are read from tensors -------------------------------------------------------------------------------

NUMBERS = {
    "returned": "return x.sum().item()",
    "arithmetic": "v = x.sum().item()\nreturn 2 * v + 1, v / 3 - v, -v, abs(v), +v, 0.9 ** v, v ** 2",
    "with tensors": "v = x.max().item()\nreturn x * v, x + v, v - x, torch.full((2,), v), x.clamp(max=v), v / x",
    "in a list": "seen = [0.0]\nfor row in x:\n    seen.append(row.mean().item())\nreturn seen, x * seen[-1]",
    "into an attribute": "x.mark = x.mean().item()\nreturn x + 1",
    "before a write": "v = x[0, 0].item()\nx.add_(1)\nreturn v, x[0, 0].item()",
    "half": "v = x.half().sum().item()\nreturn x * v",
    "not used": "x.sum().item()\nreturn x + 1",
    "as an element": "y = x.clone()\ny[0] = x.min().item()\nreturn y",
    "float of a tensor": "v = float(x.sum())\nreturn x * v, float(v)",
    "sum": "x[0, 0], x[0, 1], x[0, 2] = 1e16, 1.0, -1e16\nparts = [v.item() for v in x.double()[0]]\n"
           "return sum(parts), sum([0.1, *parts], 2), sum([*parts, x]), sum([1, x.max().item()])",
    "power of a negative base": "v = -x.abs().max().item()\nreturn v ** 3",
    "type": "v = x.sum().item()\nreturn isinstance(v, float), type(v), v is None, x * v",
    "functions": "v = x.abs().sum().item()\nreturn x * math.sqrt(v), math.atan2(v, 3), math.exp(-v), math.pow(v, 0.1)",
    "more functions": "v = x.double().tanh().abs().max().item()\n"
                      "return math.log(v, 3), math.hypot(v, v, 1), math.copysign(2, -v), math.fmod(v, 0.3), x + math.erf(v)",
    "conversion": "v = x.sum().item() * 10\n"
                  "return x + int(v), math.floor(v), math.ceil(v), math.trunc(v), round(v), round(v, 1)",
    "integers": "n = x.argmax().item()\nreturn x + n, n * 2 - 1, n // 3, n % 3, n / 7, -n, abs(-n), n ** 2, n + 0.5, float(n)",
    "int of a tensor": "n = int(x.argmax())\nreturn x * n, n, int(x.sum() * 10), float(x.argmax()), sum([n, 1, n])",
    "integers in operations": "n = x.argmax().item()\ny = x.clone()\ny[0] = n\n"
                              "return y, x.add(n), x.clamp(max=n), torch.full((2,), n), x.masked_fill(x > 0, n), "
                              "x.argmax() + n, torch.where(x > 0, n, x), x // (n + 1), n - x, x > n",
    "root of an integer": "n = x.argmax().item()\nreturn x / math.sqrt(n + 1)",
    "integers of other dtypes": "n = (x.argmax() - 3).to(torch.int8).item()\nreturn n, x.to(torch.int8) * n",
}
#: These decide something by the number.
DECIDING = {
    "comparison": "return x + (1 if x.sum().item() > 0 else 2)",
    "truth": "v = x.sum().item()\nreturn x * 2 if v else x",
    "text": "v = x.sum().item()\nreturn f'{v:.3f} {v}', x + 1",
    "method": "v = x.sum().item()\nreturn v.is_integer(), x + 1",
    "key": "v = x.sum().item()\nreturn {v: 1}, x + 1",
    "shape": "return torch.arange(0.0, x.abs().sum().item() + 1).shape",
    "complex": "v = -x.abs().max().item()\nreturn v ** 0.5",
    "size": "return torch.ones(x.argmax().item())",
    "size of a view": "n = x.argmax().item()\nreturn torch.arange(12.0).view(n - n + 3, 4)",
    "slice": "return x.flatten()[:x.argmax().item()]",
    "index": "return x.flatten()[x.argmax().item()]",
    "range": "return [i for i in range(x.argmax().item())], x + 1",
    "dimension": "n = x.argmax().item()\nreturn x.sum(n - n)",
    "comparison of ints": "n = x.argmax().item()\nreturn x + 1 if n > 2 else x - 1",
    "rounded and compared": "return x + (1 if round(x.sum().item()) > 0 else 2)",
    "power of ints": "n = x.argmax().item()\nreturn 2 ** n, x + 1",
    "repeated": "return x.repeat(int(x.abs().max().item()), 1)",
    "a truth": "return x * (x > 0).any().item()",
    "square root of a negative number": "try:\n    return x * math.sqrt(-x.abs().sum().item())\n"
                                        "except ValueError as e:\n    return str(e)",
    "infinite": "return x * int(x.sum().item() * float('inf'))",
    "division": "v = x.max().item()\ntry:\n    return 1 / (v - v)\nexcept ZeroDivisionError as e:\n    return str(e)",
}


def _program(body):
    scope = {"torch": torch, "math": math}
    exec("def program(x):\n" + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    return scope["program"]


@pytest.mark.sampled(3)
@BACKEND
@pytest.mark.break_everywhere
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_stay_in_the_graph(what, dynamic, backend):
    how = {"backend": BACKENDS[backend] or backend, "dynamic": dynamic}
    check(_program(NUMBERS[what]), X, graphs=1, changed=[(X * 3,), (-X,)], **how)


@pytest.mark.sampled(3)
@BACKEND
@pytest.mark.break_everywhere
@pytest.mark.parametrize("what", DECIDING)
def test_numbers_that_decide_break_the_graph(what, backend):
    check(_program(DECIDING[what]), X, changed=[(X * 3,), (-X,)], backend=backend)


def test_nobody_compiles_for_optimizers_only():
    assert jit.compile(lambda x: (torch.compiler.is_compiling(), x + 1), backend="eager")(X)[0] is True


# --- numbers that vary from call to call ------------------------------------------------------------------------------

@pytest.mark.sampled(3)
@BACKEND
@CASE
def test_a_schedule_does_not_compile_again(case, backend):
    def decay(pair):
        for number, group in enumerate(pair[1].param_groups):
            group["lr"] *= 0.7 + 0.1 * number

    def build():
        cls, kwargs = CASES[case]
        model = network()
        rest = [] if cls.__name__ == "Muon" else [{"params": model[0].bias}]
        return model, cls([{"params": matrices(model)}, *rest], **kwargs)

    train(classify, build(), build(), backend=backend, between=decay, steps=6)


@BACKEND
def test_a_scheduler_of_torch(backend):
    def build():
        pair = make(*OPTIMIZERS["adamw"])
        pair[1].schedule = torch.optim.lr_scheduler.CosineAnnealingLR(pair[1], T_max=10)
        return pair

    train(classify, build(), build(), backend=backend, between=lambda pair: pair[1].schedule.step(), steps=6)


VARYING = {
    "scale": ("return x * a + 0.1 * a, 1 - a, a ** 2", 2),
    "of one value": ("return x + a if a > 1e9 else x - a", 2),
    "returned": ("return a, x * a, [a]", 2),
    "decides": ("return x + 1 if a > 0.2 else x - 1", 3),
    "decides late": ("b = 1 - a ** 2\nif b * 2 <= 1.75 and not a == 0.4: x = x * b\nreturn x", 4),
    "extremes": ("return x * max([a, 0.25, 0.35]), sorted([0.45, a]), min(a, 0.5, key=lambda v: -v)", 7),
    "functions": ("return x * pow(a, 2), abs(-a), divmod(a, 0.07), sum([a, 0.1, 0.2])", 2),
    "text": ("return x * a, f'{a:.3f}'", 6),
    "sized": ("return x.sum() + torch.arange(0.0, a)", 6),
    "function": ("return x * math.cos(a)", 2),
    "conversion": ("return x + int(10 * a)", 2),
    "extreme": ("return x * max(a, 0.25), min(1.0, a * 3, x.numel() / 4)", 2),
    "size": ("return torch.ones(int(10 * a))", 6),
    "power": ("return x.abs() * abs((a - 0.35) ** 0.5)", None),
    "not used": ("b = a\nreturn x + 1", None),
    "two": ("b = a * 2\nx = x * b\nb = a * 3\nreturn x + b, -a, a is None", 2),
}


@pytest.mark.sampled(3)
@BACKEND
@pytest.mark.parametrize("what", VARYING)
def test_floats_that_vary_are_inputs(what, backend):
    body, graphs = VARYING[what]
    scope = {"torch": torch, "math": math}
    exec("def program(x, a):\n" + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    counter = Counting(BACKENDS[backend])
    compiled = jit.compile(scope["program"], backend=counter)
    for value in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.2):
        got, expected = compiled(X, value), scope["program"](X, value)
        torch.set_printoptions(precision=9)
        assert str(got) == str(expected)
        torch.set_printoptions(profile="default")
    if COUNTING and graphs is not None:
        assert len(counter.graphs) <= graphs
    assert compiled(X, 2) is not None  # an int is no float


@BACKEND
@pytest.mark.parametrize("make", [torch.optim.AdamW, partial(torch.optim.Adam, foreach=False), partial(torch.optim.SGD, momentum=0.9),
                                  torch.optim.RMSprop], ids=str)
def test_a_learning_rate_that_is_a_tensor(make, backend):
    """Torch reads it where an operation takes a number: `alpha=-lr`."""
    counter, worlds = Counting(BACKENDS[backend]), []
    for compile in (lambda step: step, partial(jit.compile, backend=counter)):
        torch.manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(3)) for _ in range(2)]
        optimizer = make(weights, lr=torch.tensor(0.1))
        step = compile(lambda optimizer=optimizer: optimizer.step())
        for at in range(5):
            for weight in weights:
                weight.grad = weight.detach() * at
            step()
            optimizer.param_groups[0]["lr"].mul_(0.5)
        worlds.append(weights)
    torch.testing.assert_close(*worlds)
    if COUNTING:
        assert len(counter.graphs) == 2


def test_a_tensor_that_is_taken_for_a_number():
    def program(x, y, scale):
        x.add_(y, alpha=scale)
        return x.addcmul(y, y, value=scale * 2), torch.nn.functional.pad(x, (1, 1), value=scale)

    check(program, torch.ones(3), torch.ones(3), torch.tensor(0.5), graphs=1, changed=[(torch.ones(3), torch.ones(3), torch.tensor(0.25))])
    check(program, torch.ones(3), torch.ones(3), torch.tensor([0.5]))  # of one dimension: eager code refuses it
    check(program, torch.ones(3), torch.ones(3), torch.tensor(0.5, requires_grad=True))


def test_floats_that_vary_are_shown_in_the_dump(tmp_path):
    compiled = jit.compile(lambda x, a: x * a, backend="aot_eager", options={"dump": str(tmp_path)})
    for value in (0.1, 0.2, 0.3):
        assert torch.equal(compiled(X, value), X * value)
    assert any("float from a" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
