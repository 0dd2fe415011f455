"""jit.cache: the folder, its knobs, and what a user can ask of it."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jit
from codegen.artifacts.store import TRAILER, key
from jit import cache
from jit.config import Config, from_environment

KEY = key(name="one")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_info_and_clear(folder):
    assert (jit.cache.info().path, jit.cache.info().entries) == (folder, 0)
    store = cache.store()
    store.get(KEY)
    store.put(KEY, b"1234")
    store.get(KEY)
    info = jit.cache.info()
    assert (info.entries, info.bytes, info.hits, info.misses) == (1, 4 + TRAILER.size, 1, 1)
    jit.cache.clear()
    assert jit.cache.info().entries == 0 and store.get(KEY) is None


def test_the_same_settings_give_the_same_store_and_others_another(folder):
    assert cache.store() is cache.store() is cache.store(jit.config.with_options({}))
    other = jit.config.with_options({"cache_dir": str(folder / "other")})
    assert cache.store(other).info().path == folder / "other"
    assert cache.store(jit.config.with_options({"cache_size_limit": 5})) is not cache.store()


def test_a_folder_given_as_a_path(folder):
    assert cache.store(jit.config.with_options({"cache_dir": folder / "other"})).info().path == folder / "other"


def test_switched_off(folder):
    store = cache.store(jit.config.with_options({"disk_cache": False}))
    assert store.put(KEY, b"") is None and store.info().path is None and not folder.exists()


def test_the_limit_holds(folder):
    store = cache.store(jit.config.with_options({"cache_size_limit": 1000}))
    assert store.put(KEY, bytes(1000)) is None and store.put(KEY, b"small") is not None


@pytest.mark.parametrize("environment, wanted", [
    ({}, "/home/me/.cache/framejit"),
    ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/framejit"),
    ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/framejit"),
    ({"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/framejit"),
    ({"JIT_CACHE_DIR": "/mine"}, "/mine"),
    ({"JIT_CACHE_DIR": "/mine", "XDG_CACHE_HOME": "/xdg"}, "/mine"),
    ({"JIT_CACHE_DIR": ""}, "/home/me/.cache/framejit"),
    ({"JIT_CACHE_DIR": "~/mine"}, "/home/me/mine"),
    ({"JIT_CACHE_DIR": "/mine", "JIT_DISK_CACHE": "0"}, None),
])
def test_where_it_lies(monkeypatch, environment, wanted):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = cache.store(from_environment(environment)).info().path
    assert (path and str(path)) == wanted


def test_a_user_without_a_home(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.os.path, "expanduser", lambda path: path)
    assert cache.store(Config()).info().path is None


def test_by_environment_in_a_fresh_process(tmp_path):
    code = "import jit; info = jit.cache.info(); print(info.path, info.entries, jit.config.cache_size_limit); jit.cache.clear()"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "JIT_CACHE_DIR": str(tmp_path / "cache"), "JIT_CACHE_SIZE_LIMIT": "12345"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (f"{tmp_path / 'cache'} 0 12345\n", "", 0)
    assert not (tmp_path / "cache").exists(), "importing and asking leave nothing behind"


PROGRAM = """
import torch, jit

@jit.compile
def step(x, w):
    return torch.nn.functional.layer_norm((x @ w).tanh() * 2, w.shape[1:]).softmax(-1)

torch.manual_seed(0)
w = torch.randn(5, 6, requires_grad=True)
for size in (3, 4):
    y = step(torch.randn(size, 5), w)
    y.square().sum().backward()
    print(y.sum(1).tolist(), w.grad.tolist())
"""


def test_kernels_are_compiled_once_for_all_processes_and_again_where_files_were_damaged(tmp_path):
    compiler, calls = tmp_path / "cc", tmp_path / "calls"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo >> {calls}\nexec {shutil.which("cc")} "$@"\n')
    compiler.chmod(0o755)
    folder = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JIT_CACHE_DIR": str(folder), "CC": str(compiler)}

    def run():
        calls.write_text("")
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
        assert done.stderr == ""
        return done.stdout, len(calls.read_text())

    def entries():
        return [path for path in folder.iterdir() if len(path.name) == len(KEY)]

    first, compiled = run()
    libraries = [path for path in entries() if path.read_bytes().startswith(b"\x7fELF")]
    assert compiled == len(libraries) >= 2 and len(entries()) > compiled, "plans are kept beside their kernels"
    assert run() == (first, 0)
    for number, path in enumerate(entries()):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if number % 2 else content[:100] + b"?" + content[101:])
    assert run() == (first, compiled)
