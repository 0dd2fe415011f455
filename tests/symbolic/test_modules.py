"""nn.Module in all its forms."""
import collections

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.differential import Counting, check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def call(m, x):
    return m(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 4)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("shift", torch.ones(4))
        self.calls, self.last, self.flag = 0, None, True

    def forward(self, x):
        x = F.relu(self.one(x))
        return self.two(x) * self.scale + self.shift


LAYERS = {
    "linear": lambda: nn.Linear(4, 2), "no bias": lambda: nn.Linear(4, 2, bias=False), "sequential": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
    "nested sequential": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Identity(), nn.Sequential()),
    "named sequential": lambda: nn.Sequential(collections.OrderedDict(a=nn.Linear(4, 4), b=nn.Tanh())), "layernorm": lambda: nn.LayerNorm(4),
    "batchnorm": lambda: nn.BatchNorm1d(4), "batchnorm eval": lambda: nn.BatchNorm1d(4).eval(), "batchnorm no stats": lambda: nn.BatchNorm1d(4, track_running_stats=False),
    "batchnorm cumulative": lambda: nn.BatchNorm1d(4, momentum=None), "dropout": lambda: nn.Dropout(0.5), "dropout eval": lambda: nn.Dropout(0.5).eval(),
    "softmax": lambda: nn.Softmax(-1), "gelu": lambda: nn.GELU(), "flatten": lambda: nn.Flatten(0), "rmsnorm": lambda: nn.RMSNorm(4),
    "bilinear": lambda: nn.Sequential(nn.Linear(4, 4), nn.PReLU()), "unflatten": lambda: nn.Unflatten(1, (2, 2)), "own": lambda: Net(),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    "double": lambda: nn.Sequential(nn.Linear(4, 4)).requires_grad_(False), "threshold": lambda: nn.Hardswish(),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("form", ["argument", "module", "forward"])
def test_layer(layer, form):
    m = LAYERS[layer]()
    # weight norm goes through parametrisations, cumulative statistics read a number out of a tensor
    whole = None if layer in ("weight norm", "batchnorm cumulative") else 1
    if form == "argument":
        check(call, m, X, graphs=whole, changed=[(m, Y)])
    elif form == "module":
        check(m, X, graphs=whole, changed=[(Y,), tensors(6, 4)])
    else:
        check(m.forward, X, graphs=whole, changed=[(Y,)])


@pytest.mark.parametrize("layer", ["embedding", "conv", "lstm", "gru", "attention", "encoder", "pool", "groupnorm"])
def test_layer_with_other_inputs(layer):
    torch.manual_seed(0)
    m, args = {
        "embedding": lambda: (nn.Embedding(10, 4, padding_idx=0), (torch.tensor([[1, 2], [0, 3]]),)),
        "conv": lambda: (nn.Conv2d(2, 3, 3, padding=1), (torch.randn(1, 2, 5, 5),)),
        "lstm": lambda: (nn.LSTM(4, 5, batch_first=True), (torch.randn(2, 3, 4),)),
        "gru": lambda: (nn.GRU(4, 5), (torch.randn(2, 3, 4),)),
        "attention": lambda: (nn.MultiheadAttention(4, 2, batch_first=True), (torch.randn(2, 3, 4),) * 3),
        "encoder": lambda: (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (torch.randn(2, 3, 4),)),
        "pool": lambda: (nn.AdaptiveAvgPool2d(2), (torch.randn(1, 2, 5, 5),)),
        "groupnorm": lambda: (nn.GroupNorm(2, 4), (torch.randn(2, 4, 3),)),
    }[layer]()
    check(m, *args, graphs=None if layer in ("lstm", "gru") else 1)


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.by_name = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.weights = nn.ParameterList([torch.ones(4), torch.zeros(4)])
        self.named = nn.ParameterDict({"a": torch.ones(4)})
        self.plain = [nn.Linear(4, 4)]

    def forward(self, x, act="relu"):
        for i, layer in enumerate(self.layers):
            x = self.by_name[act](layer(x)) + i
        for layer in reversed(self.layers[1:]):
            x = layer(x)
        for w in self.weights:
            x = x * w
        for name, m in self.by_name.items():
            x = m(x) + len(name)
        return self.plain[0](x) + self.named["a"] + len(self.layers), "tanh" in self.by_name, self.layers[-1].in_features


def test_containers():
    check(Containers(), X, graphs=1)
    check(lambda m, x: m(x, act="tanh"), Containers(), X, graphs=1)


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        total = sum(p.sum() for p in self.parameters())
        names = [n for n, _ in self.named_parameters()]
        kinds = [type(m).__name__ for m in self.modules()]
        buffers = {n: b + 1 for n, b in self.named_buffers()}
        children = [n for n, _ in self.net.named_children()]
        return x + total, names, kinds, buffers, children, self.training, self.net.one.weight.shape, len(list(self.children())), len(self.state_dict())


def test_walks_over_the_module():
    check(Everything(), X, graphs=1)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.layer = self.again = nn.Linear(4, 4)

    def forward(self, i):
        x = self.again(self.layer(self.embed(i)))
        return self.head(x), self.layer is self.again, self.head.weight is self.embed.weight


def test_shared_parameters_and_modules():
    check(Shared(), torch.tensor([1, 2, 1]), graphs=1)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(4))
        self.history, self.n = [], 0

    def forward(self, x):
        self.steps += 1
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        self.n += 1
        self.history.append(x.shape[0])
        self.last = x
        return x - self.mean


def test_buffers_and_attributes_are_changed():
    check(Counts(), X, graphs=1)
    check(call, Counts(), X, graphs=1, recompiles=True)


class LazyCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None
        self.table = {}

    def forward(self, x):
        if self.cache is None or self.cache.shape != x.shape:
            self.cache = torch.ones_like(x) * 2
        n = x.shape[0]
        if n not in self.table:
            self.table[n] = torch.arange(n, dtype=x.dtype)[:, None]
        if not hasattr(self, "extra"):
            self.extra = 1.0
        return x * self.cache + self.table[n] * self.extra


def test_lazily_set_attributes():
    check(LazyCache(), X, graphs=1, changed=[tensors(2, 4), tensors(3, 4)])


class NewParts(nn.Module):
    def forward(self, x):
        if not hasattr(self, "w"):
            self.w = nn.Parameter(torch.ones(4))
            self.register_buffer("b", torch.zeros(4))
        return x * self.w + self.b


def test_parameters_born_in_forward():
    check(NewParts(), X)


def test_parameters_are_written_in_place():
    def program(m, x):
        with torch.no_grad():
            for p in m.parameters():
                p.mul_(0.5)
            m.shift.add_(1)
        return m(x)
    check(program, Net(), X, graphs=1)


def test_attributes_are_written_from_outside():
    def program(m, x):
        m.flag = not m.flag
        m.scale.data = m.scale.data * 2 if m.flag else m.scale.data
        m.note = {"x": x}
        return m(x), m.flag
    check(program, Net(), X)


def test_submodule_is_replaced_and_parameter_deleted():
    def program(m, x):
        m.two = nn.Identity()
        del m.shift
        return m.one(x), hasattr(m, "shift"), type(m.two)
    check(program, Net(), X)


class Hooks:
    """Module-level hook functions with their own log."""
    log = []


def pre(m, args):
    Hooks.log.append("pre")
    return (args[0] * 2,)


def post(m, args, out):
    Hooks.log.append(tuple(out.shape))
    return out + 1


def pre_kwargs(m, args, kwargs):
    return args, {**kwargs, "k": 3}


def test_forward_hooks():
    def make():
        m = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        m[0].register_forward_pre_hook(pre)
        m[0].register_forward_hook(post)
        m.register_forward_hook(post)
        return m, X.clone()

    def program(m, x):
        return m(x), list(Hooks.log)
    check(program, make=make, graphs=1)


def test_hooks_with_keywords():
    class Keyed(nn.Module):
        def forward(self, x, k=1):
            return x * k

    def make():
        m = Keyed()
        m.register_forward_pre_hook(pre_kwargs, with_kwargs=True)
        m.register_forward_hook(lambda m, a, k, out: out + k["k"], with_kwargs=True)
        return m, X.clone()
    check(call, make=make, graphs=1)


def test_hooks_that_are_registered_and_removed_inside():
    def program(m, x):
        h = m.register_forward_hook(post)
        a = m(x)
        h.remove()
        return a, m(x)
    check(program, nn.Linear(4, 4), X)


def test_backward_hooks():
    grads = []

    def program(m, x):
        m.register_full_backward_hook(lambda m, gi, go: grads.append(go[0].shape))
        return m(x)
    check(program, nn.Linear(4, 4), X)


def test_hook_added_between_calls_is_seen():
    import jit
    counter = Counting()
    m = nn.Linear(4, 4)
    f = jit.compile(m, backend=counter)
    a = f(X)
    handle = m.register_forward_hook(lambda m, args, out: out * 0)
    assert torch.equal(f(X), a * 0)
    handle.remove()
    assert torch.equal(f(X), a)


def test_train_and_eval_between_calls():
    import jit
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    counter = Counting()
    f = jit.compile(m, backend=counter)
    for mode in (True, False, True, False):
        m.train(mode)
        torch.manual_seed(0)
        got = f(X)
        torch.manual_seed(0)
        assert torch.equal(got, m(X))
    counter.expect(2)
    f.eval()
    assert not m.training and not m[1].training


def test_training_flag_is_flipped_inside():
    def program(m, x):
        m.eval()
        a = m(x)
        m.train()
        return a, m(x), m.training
    check(program, nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), X)


class Inherited(Net):
    def __init__(self):
        super().__init__()
        self.three = nn.Linear(4, 4)

    def forward(self, x):
        return self.helper(super().forward(x)) + self.constant

    def helper(self, x):
        return self.three(x)

    @property
    def constant(self):
        return self.scale * 2


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.act = torch.relu
        self.fn = lambda t: t * 2

    def forward(self, x, *, extra=None, **kwargs):
        x = self.net.forward(x)
        x = self.net.__call__(x)
        return {"out": self.fn(self.act(x)), "extra": extra, "kw": kwargs}


@pytest.mark.parametrize("make", [Inherited, Calls])
def test_own_modules(make):
    check(make(), X, graphs=1)
    check(make(), X, graphs=1, changed=[(Y,)])


def test_keywords_of_forward():
    check(Calls(), X, extra=Y, z=1, graphs=1)


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x):
        return self.inner(x) + self.weight.sum() + self.in_features


def test_module_with_its_own_getattr():
    check(Dynamic(), X, graphs=1)


def test_missing_attribute_of_a_module():
    def program(m, x):
        y = m(x)
        return m.no_such_layer(y)
    check(program, Net(), X)


def test_module_that_calls_its_children_by_name():
    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(3):
                setattr(self, f"layer{i}", nn.Linear(4, 4))

        def forward(self, x):
            for i in range(3):
                x = getattr(self, f"layer{i}")(x)
            return x
    check(ByName(), X, graphs=1)


def test_module_apply_and_zero_grad():
    def program(m, x):
        m.zero_grad()
        m.requires_grad_(False)
        return m(x)
    check(program, Net(), X)


def test_module_to_and_half():
    check(lambda m, x: m.double()(x.double()), Net(), X)


def test_module_in_a_closure_and_in_a_list():
    net = Net()
    stages = [nn.Linear(4, 4), nn.ReLU(), torch.tanh]
    check(lambda x: net(x), X, graphs=1)

    def program(x):
        for stage in stages:
            x = stage(x)
        return x
    check(program, X, graphs=1)


def test_module_made_inside():
    check(lambda x: nn.ReLU()(x) + nn.Softmax(dim=-1)(x), X, graphs=1)
    check(lambda x: nn.Linear(4, 2)(x), X)


def test_two_equal_modules_are_two_modules():
    def program(a, b, x):
        a.mark = 1
        return a(x) - b(x), hasattr(b, "mark")
    check(program, nn.Linear(4, 4), nn.Linear(4, 4), X, graphs=1)


def test_training_loop():
    def step(m, x):
        out = m(x)
        loss = F.mse_loss(out, torch.zeros_like(out))
        return loss
    check(step, Net(), X, graphs=1)


def test_half_frozen_module():
    m = Net()
    m.one.requires_grad_(False)
    check(call, m, X, graphs=1)


def test_forward_that_fails():
    check(Net(), torch.ones(3, 5))


class NotImplementedForward(nn.Module):
    pass


def test_module_without_forward():
    check(NotImplementedForward(), X)


def test_module_with_state_dict_inside():
    check(lambda m, x: (x + 1, list(m.state_dict()), sum(p.numel() for p in m.parameters())), Net(), X, graphs=1)


def test_deep_stack_of_modules():
    m = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(20)])
    check(m, X, graphs=1)


@same_as_eager(graphs=1, make=lambda: (nn.Linear(4, 4), torch.ones(2, 4)))
def test_functional_use_of_a_module(m, x):
    return F.linear(x, m.weight.detach(), m.bias), m.weight.T, m.extra_repr()


def test_functional_call():
    def program(m, x):
        return torch.func.functional_call(m, {"weight": torch.ones(4, 4)}, (x,))
    check(program, nn.Linear(4, 4), X)
