"""How users choose passes."""
import pytest
import torch

import jit
from codegen.passes import Passes
from jit.errors import BackendCompilerFailed


def twice(x):
    return (x * 1).exp() * (x * 1).exp()


@pytest.mark.parametrize("off, changed", [("", True), (" peepholes, common", False)])
def test_passes_off(off, changed, monkeypatch, tmp_path):
    monkeypatch.setattr(jit.config, "passes_off", off)
    monkeypatch.setattr(jit.config, "dump", str(tmp_path))
    x = torch.randn(3)
    torch.testing.assert_close(jit.compile(twice, backend="default")(x), twice(x))
    texts = [path.read_text() for path in tmp_path.rglob("passes.txt")]
    assert len(texts) == changed
    assert all("peepholes: 2 nodes gone" in text and "common: 1 nodes gone" in text for text in texts)


def test_a_pass_that_is_none(monkeypatch):
    monkeypatch.setattr(jit.config, "passes_off", "peephole")
    monkeypatch.setattr(jit.config, "on_error", "raise")
    with pytest.raises((BackendCompilerFailed, ValueError), match="no pass 'peephole'"):
        jit.compile(twice, backend="default")(torch.randn(3))


def test_none_of_them_is_a_setting_too():
    assert Passes(frozenset({"views", "copies"})).of("inference") != Passes().of("inference")
