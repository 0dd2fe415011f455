"""`JIT_AUTO=1` on whole scripts that know nothing of it: they print and end as they do without."""

from __future__ import annotations

import os
import sys
import unittest

import pytest

from jit import cache
from jit.autowrap import AutoCompiler
from jit.config import config
from tests.scripts import accounts
from tools import bench_auto
from tools.environment import ROOT

START_UP = f"import sys; sys.path.append({str(ROOT)!r}); import framejit_start; framejit_start.install()\n"


@pytest.fixture
def installed(tmp_path):
    """The variables with which Python starts as under `JIT_AUTO=1` in an installation (this environment may have a
    start-up line of its own, which the variable would start)."""
    (tmp_path / "sitecustomize.py").write_text(START_UP)
    return {"PYTHONPATH": str(tmp_path), "JIT_ON_ERROR": "raise", "JIT_CACHE_DIR": cache.folder() or ""}


@pytest.mark.long
@pytest.mark.parametrize("script", bench_auto.KINDS)
def test_scripts_print_and_end_as_without(script, installed):
    if script == "generate":
        pytest.importorskip("transformers")
    short = {"ROUNDS": "2"}
    plain = bench_auto.run(script, short, timeout=300)
    auto = bench_auto.run(script, {**short, **installed}, timeout=600)
    assert plain.status == 0 and len(auto.rounds) == 2, auto.said
    assert (auto.status, auto.printed, auto.said) == (plain.status, plain.printed, plain.said)


def test_unittests_end_as_without():
    def run():
        tests = unittest.defaultTestLoader.loadTestsFromTestCase(accounts.AccountTest)
        with open(os.devnull, "w") as nowhere:
            result = unittest.TextTestRunner(nowhere).run(tests)
        return result.testsRun, result.errors, result.failures, len(result.expectedFailures)

    compiler = AutoCompiler(config.with_options({"auto_include": "*"}))
    assert compiler.region(run) == run() == (5, [], [], 1)
    assert sys.gettrace() is None or compiler.debug_state().entries
