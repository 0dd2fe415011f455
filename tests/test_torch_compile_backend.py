"""`torch.compile(backend="framejit")`: AOT stage and kernels under torch's own front end, beside eager."""
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import jit
from jit.dynamo_backend import framejit
from tests.differential import Counting

ROOT = Path(__file__).parent.parent


class Made:
    """The backend, with what it made."""

    def __init__(self):
        self.programs = []

    def __call__(self, gm, example_inputs):
        self.programs.append(framejit(gm, example_inputs))
        return self.programs[-1]

    def compiled(self):
        return [program for program in self.programs if hasattr(program, "stages")]


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def rows(x, w, k):
    return (x @ w * k + x.shape[0]).relu()


def writes(x, w):
    x[0].add_(1)
    y = x * w
    y.mul_(2)
    return y, x.t(), x


def changes_shape(x, k):
    x.t_()
    x.mul_(2)
    return x * k


def sorts(x, w):
    return (x * w).nonzero().sum(), (x * w).sort()[0]


#: program, arguments of its calls, how many of its graphs the stage compiles
PROGRAMS = {
    "numbers that vary": (rows, [lambda b=b, k=k: (torch.randn(b, 3), leaf(3, 4), k) for b, k in ((6, 7), (8, 5), (9, 11))], 2),
    "writes": (writes, [lambda: (torch.randn(4, 3), leaf(3))] * 2, 1),
    "changes of shape": (changes_shape, [lambda b=b: (torch.randn(b, 3), 2) for b in (4, 5, 6)], 2),
    "random": (torch.nn.functional.dropout, [lambda: (leaf(5, 4),)] * 2, 1),
}


def observe(call, args):
    torch.manual_seed(0)
    results = call(*args)
    results = results if isinstance(results, tuple) else (results,)
    wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    total = sum(r.square().sum() for r in results if r.requires_grad)
    gradients = torch.autograd.grad(total, wanted) if wanted else ()
    given = [a for a in args if isinstance(a, torch.Tensor)]
    seen = [(r.shape, r.stride(), r.requires_grad, r._version, [r is a for a in given]) for r in (*results, *given)]
    return seen, [value.detach().clone() for value in (*results, *given, *gradients)]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_as_eager(name):
    fn, makes, graphs = PROGRAMS[name]
    made = Made()
    compiled = torch.compile(fn, backend=made)
    for make in makes:
        args = []
        for _ in range(2):
            torch.manual_seed(1)
            args.append(make())
        got, expected = observe(compiled, args[0]), observe(fn, args[1])
        assert got[0] == expected[0]
        torch.testing.assert_close(got[1], expected[1], rtol=0, atol=0)
    assert len(made.compiled()) == len(made.programs) == graphs


def test_symbolic_sizes_are_numbers_of_one_graph():
    made = Made()
    compiled = torch.compile(rows, backend=made, dynamic=True)
    w = leaf(3, 4)
    for size, k in ((6, 7), (8, 5), (9, 11)):
        x = torch.randn(size, 3)
        assert torch.equal(compiled(x, w, k), rows(x, w, k))
    (program,) = made.compiled()
    examples = [node.meta["val"] for node in program.stages.forward.graph.find_nodes(op="placeholder")]
    assert sum(isinstance(value, torch.SymInt) for value in examples) >= 2


def test_a_module_trains_as_eager():
    found = []
    for compiled in (True, False):
        torch.manual_seed(0)
        # the gradient of a bias ahead of a normalisation is rounding alone, which AdamW makes large
        mod = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Dropout(), torch.nn.GELU())
        made = Made()
        call = torch.compile(mod, backend=made) if compiled else mod
        optimizer = torch.optim.AdamW(mod.parameters())
        for _ in range(3):
            call(torch.randn(6, 3)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        mod.eval()
        found.append([call(torch.randn(6, 3)), *mod.state_dict().values()])
        if compiled:
            assert len(made.compiled()) == len(made.programs) >= 2
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_second_derivatives():
    made = Made()
    x = leaf(4)
    results = []
    for call in (torch.compile(lambda x: x.sin() * x, backend=made), lambda x: x.sin() * x):
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        results.append(torch.autograd.grad(first.sum(), x)[0])
    torch.testing.assert_close(*results)
    assert made.compiled()


def test_a_backward_inside_the_frame():
    made = Made()
    w = leaf(3)

    def step(x):
        (x * w).square().sum().backward()
        return x + 1

    x = torch.ones(3)
    assert torch.equal(torch.compile(step, backend=made)(x), x + 1)
    assert torch.equal(w.grad, 2 * w.detach())
    assert all("tangents" not in program.stages.forward.code for program in made.compiled())


def test_what_the_stage_refuses_runs_as_captured():
    made = Made()
    compiled = torch.compile(sorts, backend=made)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x, w = torch.randn(3), torch.randn(3)
        for got, expected in zip(compiled(x, w), sorts(x, w), strict=True):
            assert torch.equal(got, expected)
    assert made.programs and not made.compiled()


def test_the_name_is_found_through_the_entry_point(tmp_path):
    """As an installation would have it, from what pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / "framejit-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: framejit\nVersion: 0\n")
    lines = [line for group, rows in project["entry-points"].items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in rows.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    script = """
import torch
f = torch.compile(lambda x: x.sin() * x, backend="framejit", fullgraph=True)
x = torch.ones(3, requires_grad=True)
print(type(f(x).grad_fn).__name__, f(x).grad_fn.name(), "framejit" in torch.compiler.list_backends())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["CompiledBackward", "True"]


def test_modules_are_made_in_graphs_also_after_torch_compile_has_put_its_own_init_in_place():
    def program(x):
        return torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())(x)

    x = torch.randn(4)
    torch.compile(program, backend="eager")(x)
    assert torch.nn.Module.__init__.__module__.startswith("torch._dynamo")
    counter = Counting()
    assert torch.equal(jit.compile(program, backend=counter, fullgraph=True)(x), program(x))
    counter.expect(1)


def test_optimizers_step_in_graphs_also_after_torch_compile_has_kept_itself_out_of_them():
    torch.compile(torch.sin, backend="eager")(torch.randn(4))
    weight = torch.randn(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    assert torch.optim.SGD._init_group._torchdynamo_disable

    def program(x):
        (weight * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    counter = Counting()
    jit.compile(program, backend=counter, fullgraph=True)(torch.randn(4))
    counter.expect(1)


def test_in_a_program_of_torch_compile_our_functions_are_its_own():
    """Its frame hook would look into our compiler's frames and into the code that we make."""
    counter = Counting()
    ours = jit.compile(lambda x: x.sin() + len(str(x.shape)), backend=counter)

    def program(x):
        return ours(x) * 2

    x = torch.randn(4)
    theirs = torch.compile(program, backend="eager")
    for _ in range(3):
        assert torch.equal(theirs(x), (x.sin() + len(str(x.shape))) * 2)
    counter.expect(0)
    for _ in range(2):
        assert torch.equal(ours(x), x.sin() + len(str(x.shape)))
    counter.expect(1)
    assert torch.equal(theirs(x), program(x))
