"""Random programs through `backend="default"`, beside eager.

    python -m tests.codegen.kernels.drawn [--first N] [--count N] [--processes N] [--show]

A program is drawn as text, statement by statement, while it runs: what torch refuses is left out. It mixes dtypes,
views, reductions, scans, gathers, calls of ATen and writes into its inputs, which come in all geometries. Values that
only exact operations lead to must agree in every bit; others within a bound that goes by the least exact dtype on
their way. What is not continuous is only asked of exact values.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import multiprocessing
import random
import re
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import torch

import jit

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int32, torch.uint8)
#: What an operation that is not exact may be wrong by, in units of the largest value.
BOUNDS = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 33)
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, 6e-8)
#: Larger values are not computed with.
LARGE = {torch.float16: 100.0, torch.uint8: 300, torch.bool: 2}

#: Operations by what they take, `a`, `b`: values, `d`, `e`: dims, `n`: a size, `i`: integers within the dim `d`.
EXACT = """
    -a; a.abs(); a.relu(); a * 0.5; a * 0.3; a + 1; 2 - a; a * a; a.clamp(-0.5, 0.7); a.sign(); a.clamp(max=1); a.square()
    a / 3; a.floor(); a.round(); a.ceil(); a.trunc(); a.isnan(); a.isinf(); a.signbit(); a > 0; a == a; a.nan_to_num(0.5, 1.0, -1.0)
    a.masked_fill(a > 0.5, 0.25); torch.where(a > 0, a, -a); torch.where(a < 0, 0.5, a); a.logical_not(); a.float(); a.double(); a.bfloat16()
    a.half(); (a > 0).long(); (a > 0).int(); a.bool(); a.nan_to_num(0.5, 2.0, -2.0).clamp(-99, 99).int(); a.nan_to_num(0.0, 2.0, 1.0).clamp(0, 99).to(torch.uint8); a.nan_to_num(0.5, 2.0, -2.0).clamp(-99, 99).long()
    torch.nn.functional.leaky_relu(a); torch.nn.functional.hardtanh(a); torch.nn.functional.threshold(a, 0.1, 0.2); torch.zeros_like(a) + a; torch.ones_like(a)
""".replace("\n", ";").split(";")
ROUNDED = """
    a.clamp(-4, 4).exp(); a.tanh(); a.sigmoid(); a.abs().log1p(); a.erf(); a.clamp(-9, 9).sin(); a.clamp(-9, 9).cos(); torch.nn.functional.gelu(a)
    torch.nn.functional.gelu(a, approximate="tanh"); torch.nn.functional.silu(a); torch.nn.functional.softplus(a); torch.nn.functional.mish(a); torch.nn.functional.elu(a)
    (a.abs() + 1).rsqrt(); a.abs().sqrt(); (a.abs() + 0.5).log(); (a.abs() + 0.5) ** 1.7; a.clamp(-2, 2).expm1(); a.atan(); a.clamp(-0.9, 0.9).asin(); a.clamp(-2, 2).sinh()
    torch.nn.functional.hardswish(a); torch.nn.functional.hardsigmoid(a); a.clamp(-1, 1) ** 3; (a.abs() + 0.1).log2(); a.clamp(-2, 2).exp2()
""".replace("\n", ";").split(";")
PAIRS_EXACT = """
    a + b; a - b; a * b; torch.maximum(a, b); torch.minimum(a, b); torch.where(a > b, a, b); torch.where(a.bool(), b, a); a < b; a == b; a != b; a / (b.abs() + 1)
    (a > 0) & (b > 0); (a > 0) ^ (b < 0); torch.fmax(a, b); a.masked_fill(b > 0, 0.5); torch.where(b > 0, a, 0.5); a.add(b, alpha=2); b - a * 2
""".replace("\n", ";").split(";")
PAIRS_ROUNDED = """
    torch.hypot(a, b); torch.lerp(a, b, 0.3); torch.addcmul(a, a, b, value=0.5); torch.logaddexp(a, b); torch.nn.functional.mse_loss(a, b); torch.nn.functional.smooth_l1_loss(a, b)
    torch.addcdiv(a, b, b.abs() + 1); torch.xlogy(a, b.abs() + 1)
""".replace("\n", ";").split(";")
INTEGERS = """
    a + 1; a * 3; a - b; a * b; a // 3; a % 5; a & b; a | 3; a ^ b; a // (b.abs() + 1); a % (b.abs() + 1); a.sum(d); a.sum(); a.cumsum(d); a.amax(d); a.prod(d); a.argmin(d); ~a; a << 1; a >> 1; a.remainder(-3)
    torch.fmod(a, 3); torch.div(a, 4, rounding_mode="trunc"); torch.div(a, 4, rounding_mode="floor"); a / 3; -a; a.abs(); a.clamp(-3, 5); a == b; a.float() * 0.5; a.to(torch.uint8); a.to(torch.int32); a.max(d).values; a.bool(); a.mean(d, dtype=torch.float32)
""".replace("\n", ";").split(";")
REDUCED_EXACT = """
    a.amax(d); a.amin(d, keepdim=True); a.amax((d, e)); a.argmax(d); a.argmin(d, keepdim=True); a.max(d).values; a.min(d).indices; (a > 0).any(d); (a > 0).all(d); (a > 0).sum(d); a.argmax(); a.amax(); a.cummax(d).values; a.aminmax(dim=d).min
""".replace("\n", ";").split(";")
REDUCED = """
    a.sum(d) * 0.25; a.mean(d); a.sum(d, keepdim=True) * 0.25; a.mean(); a.sum((d, e)) * 0.1; a.var(d, correction=0); a.std(d, keepdim=True, correction=0); a.logsumexp(d); a.softmax(d); a.log_softmax(d)
    a.cumsum(d) * 0.25; a.clamp(-1, 1).cumprod(d); a.clamp(-1.2, 1.2).prod(d); torch.nn.functional.layer_norm(a, a.shape[-1:]); torch.nn.functional.rms_norm(a, a.shape[-1:]); torch.linalg.vector_norm(a, dim=d)
    torch.nn.functional.normalize(a, dim=d); torch.logcumsumexp(a, d); a.mean((d, e), keepdim=True); a.softmax(d, dtype=torch.float32); a.sum(d, dtype=torch.float64) * 0.25; a.norm(); torch.nn.functional.group_norm(a, 1)
""".replace("\n", ";").split(";")
VIEWS = """
    a.transpose(d, e); a.unsqueeze(d); a.squeeze(); a.select(d, 0); a.select(d, -1); a.narrow(d, 0, n // 2 + 1); a.narrow(d, n // 2, n - n // 2); a.flip(d); a.roll(1, d); a.reshape(-1); a.flatten(0, 1); a[..., ::2]; a[1:]; a[:-1]; a[..., None]
    a.reshape(-1, a.shape[-1]); a.reshape(a.shape[0], -1); a.expand(2, *a.shape); a.diagonal(0, d, e); a.unfold(d, 2, 1); a.permute(*range(a.dim())[::-1]); a.movedim(d, e); a.contiguous(); a.clone(); a.repeat_interleave(2, d); a.repeat(2, *[1] * a.dim()); torch.cat([a, a * 0.5], d)
    torch.stack([a, -a], d); torch.nn.functional.pad(a, (1, 2)); a.tril(); a.triu(1); a.split(2, d)[-1]; a.chunk(2, d)[0]; a.unbind(d)[0]; a.T.contiguous() if a.dim() == 2 else a.detach(); a[::2, 1:] if a.dim() > 1 else a[::2]; torch.nn.functional.pad(a, (-1, 1, 1, 0)) if a.dim() > 1 else a[:1]
    a.transpose(d, e).reshape(-1); a.new_zeros(a.shape) + a; a.expand_as(a) + a; a.mT.reshape(a.shape) if a.dim() > 1 else a.view(-1)
""".replace("\n", ";").split(";")
GATHERS = """
    a.index_select(d, i.reshape(-1)); a.transpose(0, d)[i]; a.transpose(0, d)[i - n]; torch.nn.functional.embedding(i, a) if a.dim() == 2 and d == 0 else a; a.gather(d, i.reshape(-1).reshape([-1 if k == d else 1 for k in range(a.dim())]).expand([i.numel() if k == d else s for k, s in enumerate(a.shape)]))
    torch.take_along_dim(a, a.argmax(d, keepdim=True), d); a.index_select(d, i.reshape(-1).flip(0)) * 2; a[i, i] if a.dim() > 1 and a.shape[0] == a.shape[1] and d == 0 else a
""".replace("\n", ";").split(";")
SCATTERS = """
    a.index_add(d, i.reshape(-1), a.index_select(d, i.reshape(-1)) * 0.5); torch.zeros_like(a).index_add(d, i.reshape(-1), a.index_select(d, i.reshape(-1))); a.index_copy(d, i.reshape(-1), a.index_select(d, i.reshape(-1)) * 2)
    a.transpose(0, d).index_put((i,), a.transpose(0, d)[i] * 0.5, accumulate=True); a.transpose(0, d).index_put((i - n,), a.transpose(0, d)[i] + 1); a.index_put((i, i), a[i, i] * 2, accumulate=True) if a.dim() > 1 and a.shape[0] == a.shape[1] and d == 0 else a
    a.scatter(d, a.argmax(d, keepdim=True), 0.5); torch.zeros_like(a).scatter_add(d, (a > 0).long() * (n - 1), a); a.scatter_reduce(d, (a > 0).long() * (n - 1), a * 2, "amax"); a.scatter_reduce(d, (a > 0).long() * (n - 1), a, "sum")
    a.scatter_reduce(d, a.argmin(d, keepdim=True), a.amax(d, keepdim=True), "amin"); a.scatter(d, a.argmax(d, keepdim=True), a.amin(d, keepdim=True)); a.scatter_reduce(d, (a < 0).long(), a * 0.5, "prod") if n > 1 else a
""".replace("\n", ";").split(";")
WRITES = """
    x.mul_(0.5); x.add_(a); x.copy_(a); x.relu_(); x[0].copy_(x[-1]); x[..., ::2].mul_(0.5); x.copy_(x.flip(0).clone()); x.sub_(x.amax(-1, keepdim=True)).mul_(0.5); x.masked_fill_(x > 0.3, 0.1); x.zero_(); x.fill_(0.25); x.neg_(); x.clamp_(-1, 1); x.lerp_(a, 0.5); x[0] = 0.5; x.select(-1, 0).add_(1); x.transpose(0, -1).mul_(0.5); x.cumsum_(0).mul_(0.1); x.sigmoid_(); x.index_add_(0, torch.arange(x.shape[0]) // 2, x * 0.5); x.scatter_(-1, x.argmax(-1, keepdim=True), 0.5); x[torch.arange(x.shape[0]) // 2] = 0.25; x.index_copy_(0, torch.arange(x.shape[0]).flip(0), x * 0.5)
""".replace("\n", ";").split(";")
CALLS = ["a.mm(b) * 0.1", "a @ a.mT * 0.1", "torch.topk(a, 1, d).values", "a.sort(d).values", "a.view(torch.int32) + 1", "torch.nn.functional.linear(a, b) * 0.1"]
KINDS = {
    "exact": (EXACT, 6), "rounded": (ROUNDED, 5), "pairs": (PAIRS_EXACT, 6), "rounded pairs": (PAIRS_ROUNDED, 1), "integers": (INTEGERS, 2),
    "reduced": (REDUCED, 4), "exactly reduced": (REDUCED_EXACT, 2), "views": (VIEWS, 6), "gathers": (GATHERS, 2), "scatters": (SCATTERS, 2), "writes": (WRITES, 2), "calls": (CALLS, 1),
}  # fmt: skip
CONTINUOUS = {"rounded", "rounded pairs", "reduced", "views", "calls", "writes"}
#: Exact operations that are continuous.
SMOOTH = {"-a", "a.abs()", "a.relu()", "a * 0.5", "a * 0.3", "a + 1", "2 - a", "a * a", "a.clamp(-0.5, 0.7)", "a + b", "a - b", "a * b", "torch.maximum(a, b)", "torch.minimum(a, b)", "a.float()",
          "a.double()", "a.bfloat16()", "a.half()", "a.amax(d)", "a.amin(d, keepdim=True)", "a.amax()", "a / 3", "a / (b.abs() + 1)", "a.square()", "a.max(d).values", "b - a * 2"}  # fmt: skip
EXACT_CALLS = {"a.view(torch.int32) + 1", "torch.topk(a, 1, d).values", "a.sort(d).values"}
#: After these the sign of a zero is anything, in eager code too.
SIGNLESS = re.compile("max|min|clamp|relu|threshold|tanh")
NOT_CONTINUOUS = {"x.scatter_(-1, x.argmax(-1, keepdim=True), 0.5)", "a.view(torch.int32) + 1", "x.masked_fill_(x > 0.3, 0.1)"}


@dataclass
class Program:
    """`bounds`: what each result may be wrong by, relative to its largest value; those of the inputs afterwards follow."""

    seed: int
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    inputs: int = 0
    gradients: bool = False
    dynamic: bool = False

    @property
    def text(self):
        names = ", ".join(f"x{n}" for n in range(self.inputs))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}):\n{body}    return ({''.join(f'{name}, ' for name in self.results)})\n"

    def function(self):
        scope = {"torch": torch}
        exec(compile(self.text, f"<drawn {self.seed}>", "exec"), scope)
        return scope["program"]


class Draw:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.program = Program(seed)
        self.special = self.rng.random() < 0.2
        self.program.gradients = not self.special and self.rng.random() < 0.25
        self.program.dynamic = self.rng.random() < 0.3
        self.there = {}  # name -> tensor
        self.errors = {}  # storage -> bound
        self.shapes()

    # --- inputs -------------------------------------------------------------------------------------------------------
    def shapes(self):
        rng = self.rng
        sizes = [rng.choice(SIZES) for _ in range(3)]
        if rng.random() < 0.1:
            sizes[rng.randrange(3)] = 0
        if rng.random() < 0.1:
            sizes[rng.randrange(3)] = rng.choice([70, 129, 300, 1025])
        base = sizes[: rng.choice([1, 2, 2, 3, 3])]
        self.specs = []
        for _ in range(rng.choice([1, 2, 2, 3])):
            shape = base[rng.randrange(len(base)) :] if rng.random() < 0.4 else base
            shape = [1 if rng.random() < 0.15 else size for size in shape]
            dtype = rng.choice([*FLOATS[:2], *FLOATS, *INTS, torch.bool, torch.float32])
            if self.program.gradients:
                dtype = rng.choice(FLOATS[:2])
            self.specs.append((shape, dtype, rng.choice(["plain", "plain", "plain", "turned", "stepped", "offset", "expanded", "overlapping"]), rng.randrange(1 << 30)))
        self.program.inputs = len(self.specs)

    def make(self, more=0):
        """The inputs; `more`: added to sizes beyond 1."""
        made = []
        for shape, dtype, geometry, seed in self.specs:
            generator = torch.Generator().manual_seed(seed + more)
            shape = [size + more if size > 1 else size for size in shape]
            tensor = laid_out(shape, geometry, lambda s: self.values(s, dtype, generator))
            made.append(tensor.requires_grad_(self.program.gradients and tensor.is_floating_point()))
        return made

    def values(self, shape, dtype, generator):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if dtype == torch.bool:
            return values > 0
        if not dtype.is_floating_point:
            return (values * 5).abs().to(dtype) if dtype == torch.uint8 else (values * 5).to(dtype)
        if self.special and values.numel():
            at = torch.rand(shape, generator=generator) < 0.1
            picked = torch.tensor(SPECIAL, dtype=torch.float64)[torch.randint(len(SPECIAL), shape, generator=generator)]
            values = torch.where(at, picked, values)
        return values.to(dtype)

    # --- statements ---------------------------------------------------------------------------------------------------
    def run(self):
        rng = self.rng
        inputs = [t.detach().clone() if self.program.gradients else t.detach() for t in self.make()]
        self.names = [f"x{n}" for n in range(len(inputs))]
        self.there = dict(zip(self.names, inputs))
        self.kept = list(inputs)  # storages keep their addresses
        kinds = [kind for kind, (_, weight) in KINDS.items() for _ in range(weight)]
        for _ in range(rng.randrange(3, 16)):
            for _ in range(20):
                if self.step(rng.choice(kinds)):
                    break
        made = [name for name in self.there if name not in self.names]
        self.program.results = rng.sample(made, k=min(len(made), rng.randrange(1, 5)))
        if self.names and rng.random() < 0.1:
            self.program.results.append(rng.choice(self.names))
        last = [self.there[name] for name in (*self.program.results, *self.names)]
        self.program.bounds = [self.error(t) for t in last]
        return self.program

    def error(self, tensor):
        return self.errors.get(tensor.untyped_storage()._cdata, 0.0)

    def step(self, kind):
        rng = self.rng
        form = rng.choice([form.strip() for form in KINDS[kind][0] if form.strip()])
        a, b, x = rng.choice([*self.there][-6:]), rng.choice([*self.there]), rng.choice(self.names)
        first = self.there[x if kind == "writes" else a]
        if kind == "integers" and (self.there[a].dtype not in INTS or self.there[b].dtype not in INTS):
            return False
        if kind == "writes" and (self.program.gradients or not first.is_floating_point()):
            return False
        dims = first.dim()
        d, e = (rng.randrange(dims), rng.randrange(dims)) if dims else (0, 0)
        if self.special and "gelu(a)" in form:  # of infinity: one or no number, as the memory lies
            return False
        if "signbit" in form and SIGNLESS.search(self.program.text):
            return False
        if "(d, e)" in form and d == e:
            return False
        n = f"{a}.shape[{d}]"
        i = f"(torch.arange(5) * 7 % max({n}, 1))"
        integers = [name for name, t in self.there.items() if t.dtype == torch.int64 and t.numel() < 50 and not self.error(t)]
        if integers and rng.random() < 0.6:
            i = f"({rng.choice(integers)} % max({n}, 1))"
        text = _filled(form, {"a": a, "b": b, "x": x, "d": str(d), "e": str(e), "n": n, "i": i})
        used = {name for name in self.there if _uses(text, name)}
        before = max(self.error(self.there[name]) for name in used)
        smooth = kind in CONTINUOUS or form in SMOOTH
        if before and (not smooth or form in NOT_CONTINUOUS):
            return False
        line = text if kind == "writes" else f"v{len(self.program.lines)} = {text}"
        if kind == "writes" and form == "x[0] = 0.5":
            line = f"{x}[0] = 0.5"
        scope = {"torch": torch, **self.there}
        known = [t.clone() for t in self.there.values()] if kind == "writes" else []
        try:
            with torch.no_grad():
                exec(line, scope)
        except Exception:
            if any(not torch.equal(s.nan_to_num(), t.nan_to_num()) for s, t in zip(known, self.there.values())):
                raise
            return False
        name = x if kind == "writes" else line.partition(" ")[0]
        found = scope[name]
        if not isinstance(found, torch.Tensor) or kind != "writes" and (found.numel() > 20000 or self.is_large(found)):
            return False
        self.program.lines.append(line)
        self.there[name] = found
        self.kept.append(found)
        is_rounded = kind in ("rounded", "rounded pairs", "reduced") or kind == "calls" and form not in EXACT_CALLS
        is_rounded = is_rounded or kind == "writes" and any(word in form for word in ("lerp", "sigmoid", "cumsum", "index_add"))
        is_rounded = is_rounded or ".mean(" in form or ".exp" in form
        places = [self.there[name].dtype for name in used] + [found.dtype]
        bound = max((BOUNDS[dtype] for dtype in places if dtype in BOUNDS), default=0.0) if is_rounded or before else 0.0
        key = found.untyped_storage()._cdata
        self.errors[key] = max(self.errors.get(key, 0.0), bound, before * (4 if kind == "reduced" else 1))
        return True

    def is_large(self, tensor):
        if not tensor.numel():
            return False
        finite = tensor[tensor.isfinite()]
        return bool(finite.numel() and finite.double().abs().max() > LARGE.get(tensor.dtype, 1000))


def _filled(form, names):
    """The operation with names in the place of its letters."""
    return re.sub(r"(?<![\w.\"])([abxdeni])(?![\w\"(=])", lambda found: names[found[1]], form)


def _uses(text, name):
    return re.search(rf"\b{name}\b", text) is not None


def laid_out(shape, geometry, values):
    """A tensor of that shape."""
    if geometry == "turned" and len(shape) > 1:
        return values(shape[::-1]).permute(*range(len(shape))[::-1])
    if geometry == "stepped" and shape:
        return values([*shape[:-1], shape[-1] * 2 + 1])[..., 1::2]
    if geometry == "offset" and shape:
        return values([shape[0] + 1, *shape[1:]])[1:]
    if geometry == "expanded" and shape:
        return values([1, *shape[1:]]).expand(shape)
    if geometry == "overlapping" and len(shape) == 2:
        return values([shape[0] + shape[1]]).as_strided(shape, (1, 1))
    return values(shape)


class Refusals(logging.Handler):
    """Counts the graphs that ATen runs after all."""

    count = 0

    def emit(self, record):
        self.count += record.getMessage().startswith("ATen runs a graph")


REFUSALS = Refusals()
logging.getLogger("codegen.kernels.compile").addHandler(REFUSALS)
logging.getLogger("codegen.kernels.compile").setLevel(logging.INFO)


# --- beside eager -----------------------------------------------------------------------------------------------------
def copies(tensors):
    """Of the same geometry."""
    made = []
    for t in tensors:
        storage = t.detach().untyped_storage().clone()
        other = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.shape, t.stride())
        made.append(other.requires_grad_(t.requires_grad))
    return made


def outcome(function, args, weights):
    try:
        results = function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}", []
    found = [*results, *args]
    differentiable = [r for r in results if r.requires_grad]
    gradients = []
    if differentiable:
        leaves = [a for a in args if a.requires_grad]
        total = sum((r.double() * w).sum() for r, w in zip(differentiable, weights))
        try:
            gradients = list(torch.autograd.grad(total, leaves, allow_unused=True))
        except Exception as error:  # torch's derivatives refuse some dtypes that the operations take
            return f"gradients: {type(error).__name__}: {error}", []
    return found, gradients


def difference(a, b, bound, signed=True):
    """In words, or "". `signed`: zeros have signs."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{b.dtype} {tuple(b.shape)}, not {a.dtype} {tuple(a.shape)}"
    if [s for s, n in zip(a.stride(), a.shape) if n > 1 and a.numel()] != [s for s, n in zip(b.stride(), b.shape) if n > 1 and a.numel()]:
        return f"strides {b.stride()}, not {a.stride()}"
    a, b = a.detach(), b.detach()
    if not a.dtype.is_floating_point:
        return "" if torch.equal(a, b) else f"{b}\nnot {a}"
    if not bound:
        same = (a == b) & ((a.signbit() == b.signbit()) | (not signed)) | a.isnan() & b.isnan()
        return "" if same.all() else f"{b}\nnot exactly {a}"
    x, y = a.double(), b.double()
    finite = x.isfinite() & y.isfinite()
    scale = float(x[finite].abs().max()) if finite.any() else 0.0
    same = (x == y) | x.isnan() & y.isnan() | finite & ((x - y).abs() <= bound * max(scale, 1.0))
    return "" if same.all() else f"{b}\nnot {a} (by {float((x - y)[finite & ~same].abs().max()) if (finite & ~same).any() else 'values that are not finite'}, bound {bound})"


def examine(seed):
    """(text, what is wrong or "", whether kernels ran) of the program of that seed."""
    draw = Draw(seed)
    program = draw.run()
    if not program.results:
        return program.text, "", False
    jit.reset()
    function = program.function()
    compiled = jit.compile(function, backend="default", dynamic=True if program.dynamic else None)
    text = f"# seed {seed}, dynamic={program.dynamic}, gradients={program.gradients}, special={draw.special}\n# {draw.specs}\n{program.text}"
    refused = REFUSALS.count
    for more in (0, 0, 3) if program.dynamic else (0, 0):
        inputs = draw.make(more)
        generator = torch.Generator().manual_seed(seed)
        theirs = copies(inputs)
        weights = itertools.repeat(torch.randn((), generator=generator, dtype=torch.float64))
        expected, gradients = outcome(function, theirs, weights)
        if isinstance(expected, str) and more:
            continue
        found, others = outcome(compiled, copies(inputs), weights)
        if isinstance(expected, str) or isinstance(found, str):
            if expected != found:
                return text, f"eager: {expected}\ncompiled: {found}", True
            continue
        for at, (a, b, bound) in enumerate(zip(expected, found, program.bounds, strict=True)):
            if more and bound:
                bound *= 4
            if wrong := difference(a, b, bound, signed=not SIGNLESS.search(program.text)):
                return text, f"answer {at} (more={more}): {wrong}", True
        least = max([*program.bounds, *(BOUNDS[a.dtype] for a in theirs if a.requires_grad)], default=0.0)
        for a, b in zip(gradients, others, strict=True):
            if (a is None) != (b is None):
                return text, f"gradient: eager {a}, compiled {b}", True
            wrong = "" if a is None else difference(a.contiguous(), b.contiguous(), least * 10)
            if wrong:
                return text, f"gradient: {wrong}", True
    return text, "", REFUSALS.count == refused


def judged(seed):
    try:
        return (seed, *examine(seed))
    except Exception as error:
        return seed, Draw(seed).run().text, f"{type(error).__name__}: {error}", True


def prepare():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    jit.config.on_error = "raise"


def examined(seeds, processes):
    """(seed, text, what is wrong, whether kernels ran) of each."""
    prepare()
    if processes == 1:
        yield from map(judged, seeds)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), prepare) as pool:
        yield from pool.map(judged, seeds, chunksize=16)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    compiled = wrong = 0
    for seed, text, why, ran in examined(range(options.first, options.first + options.count), options.processes):
        compiled, wrong = compiled + ran, wrong + bool(why)
        if why or options.show:
            print(f"{text}\n{why}\n", flush=True)
    print(f"{options.count} programs, {compiled} of them in kernels, {wrong} wrong")
