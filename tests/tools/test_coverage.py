"""What `tools/coverage` makes of a test method, each kind of outcome once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.coverage import Runner, main, per_module, per_reason
from tools.coverage_child import FALLS_BACK

MODULE = """
import os, time, unittest, jit

class Mine(unittest.TestCase):
    def test_whole(self):
        with self.assertRaises(ZeroDivisionError):
            1 / 0
        self.assertEqual([1, 2], sorted([2, 1]))

    def test_breaks(self):
        jit.graph_break()
        self.assertEqual(1, 1)

    def test_breaks_twice(self):
        jit.graph_break()
        os.getpid()

    async def test_falls_back(self):
        pass

    def test_fails(self):
        self.assertFalse(jit.is_compiling())

    def test_hangs(self):
        if jit.is_compiling():
            time.sleep(1000)

    def test_crashes(self):
        if jit.is_compiling():
            os._exit(3)

    def test_is_skipped(self):
        self.skipTest("not judged")

    def test_fails_plain(self):
        self.fail("not judged")

    def helper(self):
        self.fail("no test")
"""


@pytest.mark.long
def test_every_kind_of_outcome(tmp_path: Path) -> None:
    (tmp_path / "test_of_mine.py").write_text(MODULE)
    found = Runner(str(tmp_path), 5.0, break_everywhere=False).module("test_of_mine")
    assert {each.name.removeprefix("Mine.test_"): each.verdict for each in found} == {
        "whole": "whole", "breaks": "breaks", "breaks_twice": "breaks", "falls_back": "falls back", "fails": "wrong",
        "hangs": "wrong", "crashes": "wrong",
    }  # fmt: skip
    troubles = {each.name.removeprefix("Mine.test_"): each.trouble for each in found if each.verdict == "wrong"}
    assert "True is not false" in troubles["fails"]
    assert troubles["hangs"].startswith("hangs:") and "test_of_mine.py" in troubles["hangs"]
    assert troubles["crashes"].startswith("crashes:")
    assert per_module(found)[-1] == ["all", "7", "1", "2", "1", "3", "14 %", ""]
    reasons = per_reason([each for each in found if each.verdict != "wrong"], with_detail=False)
    assert reasons[0] == ["jit.graph_break()", "2", "1"]
    assert [f"{FALLS_BACK}: a coroutine, a generator or no function", "1", "1"] in reasons


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="test_no_such can't be loaded:"):
        main(["test_no_such"])
