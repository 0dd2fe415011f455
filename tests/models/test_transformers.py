"""Seven well-known models: each is one graph, and bit for bit the same as eager as long as ATen runs it."""
import copy

import pytest
import torch

import jit
from tests.differential import CLOSE, COUNTING, Counting
from tests.models.zoo import MODELS

QUICK = ("gpt2", "bert")
NAMES = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in MODELS]


def tensors_of(outputs):
    return [t for t in torch.utils._pytree.tree_leaves(dict(outputs)) if isinstance(t, torch.Tensor)]


def same_bits(name, wanted, got, tolerance=(0, 0)):
    assert wanted.dtype == got.dtype and wanted.shape == got.shape and wanted.stride() == got.stride(), name
    assert torch.allclose(wanted, got, *tolerance, equal_nan=True), (
        f"{name}: differs by up to {(wanted.double() - got.double()).abs().max()}")


def same_outputs(wanted, got, tolerance=(0, 0)):
    assert type(wanted) is type(got) and list(wanted.keys()) == list(got.keys())
    a, b = tensors_of(wanted), tensors_of(got)
    assert len(a) == len(b) > 0
    for i, (x, y) in enumerate(zip(a, b)):
        same_bits(f"output {i}", x, y, tolerance)
        assert x.requires_grad == y.requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_forward(name):
    entry = MODELS[name]
    model = entry.make_model()
    other = copy.deepcopy(model)
    counter = Counting()
    compiled = jit.compile(other, backend=counter, fullgraph=COUNTING)
    with torch.no_grad():
        for seed in (0, 0, 1):
            inputs = entry.make_inputs(model, seed=seed)
            same_outputs(model(**inputs), compiled(**copy.deepcopy(inputs)))
            counter.expect(1, f"for {name}")
    for (key, p), q in zip(model.state_dict().items(), other.state_dict().values()):
        same_bits(key, p, q)


@pytest.mark.parametrize("name", NAMES)
def test_training_step(name):
    entry = MODELS[name]
    model = entry.make_model(train=True, dropout=0.1)
    other = copy.deepcopy(model)
    counter = Counting()
    compiled = jit.compile(other, backend=counter, fullgraph=COUNTING)
    inputs = entry.make_inputs(model)
    for step in range(2):
        losses = []
        for m, call in ((model, model), (other, compiled)):
            torch.manual_seed(step)
            m.zero_grad()
            outputs = call(**copy.deepcopy(inputs))
            outputs["loss"].backward()
            losses.append((outputs, torch.get_rng_state()))
        same_outputs(losses[0][0], losses[1][0])
        assert torch.equal(losses[0][1], losses[1][1]), "another number of random values was drawn"
        for (key, p), q in zip(model.named_parameters(), other.parameters()):
            assert (p.grad is None) == (q.grad is None), key
            if p.grad is not None:
                same_bits(f"gradient of {key}", p.grad, q.grad)
        counter.expect(1, f"for {name}")
        with torch.no_grad():
            for p in (*model.parameters(), *other.parameters()):
                if p.grad is not None:
                    p -= 0.01 * p.grad
    for (key, p), q in zip(model.state_dict().items(), other.state_dict().values()):
        same_bits(key, p, q)


@pytest.mark.parametrize("name", NAMES)
def test_other_lengths(name):
    entry = MODELS[name]
    model = entry.make_model()
    compiled = jit.compile(copy.deepcopy(model), backend="eager")
    with torch.no_grad():
        for batch, length in ((2, 16), (3, 16), (2, 11), (2, 16)):
            inputs = entry.make_inputs(model, batch, length)
            same_outputs(model(**inputs), compiled(**copy.deepcopy(inputs)))


@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama", marks=pytest.mark.long)])
def test_generation_with_a_compiled_forward(name):
    entry = MODELS[name]
    model = entry.make_model()
    inputs = {"input_ids": entry.make_inputs(model)["input_ids"][:, :5]}
    wanted = model.generate(**inputs, max_new_tokens=4, do_sample=False, pad_token_id=0)
    model.forward = jit.compile(model.forward, backend="eager")
    assert torch.equal(model.generate(**inputs, max_new_tokens=4, do_sample=False, pad_token_id=0), wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend, tolerance", [("aot_eager", (0, 0)), ("default", CLOSE)], ids=["aot_eager", "default"])
@pytest.mark.parametrize("name", NAMES)
def test_training_step_ahead_of_time(name, backend, tolerance):
    """The same results up to `tolerance`, and gradients that differ by the order of their sums, too."""
    entry = MODELS[name]
    model = entry.make_model(train=True, dropout=0.1)
    other = copy.deepcopy(model)
    compiled = jit.compile(other, backend=backend, fullgraph=COUNTING)
    inputs = entry.make_inputs(model)
    for step in range(2):
        seen = []
        for m, call in ((model, model), (other, compiled)):
            torch.manual_seed(step)
            m.zero_grad()
            outputs = call(**copy.deepcopy(inputs))
            outputs["loss"].backward()
            seen.append((outputs, torch.get_rng_state()))
        same_outputs(seen[0][0], seen[1][0], tolerance)
        assert torch.equal(seen[0][1], seen[1][1]), "another number of random values was drawn"
        for (key, p), q in zip(model.named_parameters(), other.parameters()):
            assert (p.grad is None) == (q.grad is None), key
            if p.grad is not None:
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-5, atol=1e-6, msg=lambda text: f"{key}: {text}")
