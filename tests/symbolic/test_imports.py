"""Imports inside of functions: which module comes, when a module runs, and by whom it sees itself imported."""
import importlib
import sys
import types
import warnings

import pytest
import torch

import jit
from tests.differential import COUNTING, check

X = torch.ones(2)


@pytest.fixture
def told(tmp_path, monkeypatch):
    (tmp_path / "framejit_told.py").write_text(
        "import warnings\nvalue = 2\nwarnings.warn('of its importer', stacklevel=2)\n"
    )
    (tmp_path / "framejit_asks.py").write_text(
        "import sys\nframe = sys._getframe(1)\nwhile 'importlib' in frame.f_code.co_filename: frame = frame.f_back\n"
        "importer = frame.f_code.co_name, frame.f_lineno\ndel frame\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("framejit_told", "framejit_asks"):
        sys.modules.pop(name, None)


def module(value):
    made = types.ModuleType("framejit_replaced")
    made.value = value
    return made


@pytest.mark.parametrize("form", ["import framejit_replaced as m", "from framejit_replaced import value"])
def test_a_module_that_is_replaced_between_calls(form, monkeypatch):
    namespace = {}
    exec(f"def program(x):\n    {form}\n    return x + {'m.value' if ' as ' in form else 'value'}\n", namespace)
    compiled = jit.compile(namespace["program"], backend="eager")
    for value in (1, 2, 1, 3):
        monkeypatch.setitem(sys.modules, "framejit_replaced", module(value))
        assert compiled(X).tolist() == [1.0 + value] * 2
    monkeypatch.setitem(sys.modules, "framejit_replaced", None)
    with pytest.raises(ImportError):
        compiled(X)
    monkeypatch.delitem(sys.modules, "framejit_replaced")
    with pytest.raises(ModuleNotFoundError):
        compiled(X)


def test_a_module_that_the_frame_replaces(monkeypatch):
    def program(x):
        import framejit_replaced
        first = framejit_replaced.value
        sys.modules["framejit_replaced"] = types.SimpleNamespace(value=first + 1)
        import framejit_replaced
        second = framejit_replaced.value
        sys.modules["framejit_replaced"] = second_module = types.ModuleType("framejit_replaced")
        second_module.value = 7
        import framejit_replaced
        return x + 10 * second + framejit_replaced.value

    monkeypatch.setitem(sys.modules, "framejit_replaced", module(1))
    wanted = program(X)
    monkeypatch.setitem(sys.modules, "framejit_replaced", module(1))
    assert jit.compile(program, backend="eager")(X).tolist() == wanted.tolist()


def test_a_module_that_the_frame_has_removed_runs_again(told):
    def program(x):
        sys.modules.pop("framejit_told", None)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            import framejit_told
        return x + framejit_told.value, [(each.filename, each.lineno) for each in found]

    check(program, X)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_module_sees_by_whom_it_is_imported(told, level):
    def importing(x):
        sys.modules.pop("framejit_asks", None)
        import framejit_asks
        return x + 1, framejit_asks.importer

    def calling(x):
        return importing(x)

    def outermost(x):
        y, importer = calling(x)
        return y * 2, importer

    check((importing, calling, outermost)[level], X)


def test_package_and_submodules():
    def program(x):
        import torch.nn.functional
        from torch import nn
        from torch.nn import functional as F
        return F.relu(x), torch.nn is nn, nn.functional is F

    check(program, X, graphs=1)


def test_a_submodule_that_is_no_attribute(monkeypatch):
    package, inner = types.ModuleType("framejit_package"), types.ModuleType("framejit_package.inner")
    inner.value = 3
    monkeypatch.setitem(sys.modules, "framejit_package", package)
    monkeypatch.setitem(sys.modules, "framejit_package.inner", inner)

    def program(x):
        from framejit_package import inner
        return x + inner.value

    check(program, X, graphs=1)


def test_a_function_of_the_program_imports(monkeypatch):
    real = __import__
    asked = []

    def importing(name, *rest):
        asked.append(name)
        return real(name, *rest)

    def program(x):
        import math
        return x + math.pi

    compiled = jit.compile(program, backend="eager")
    wanted = compiled(X)
    monkeypatch.setattr("builtins.__import__", importing)
    del asked[:]
    assert torch.equal(compiled(X), wanted) and asked.count("math") == 1
    monkeypatch.undo()
    assert torch.equal(compiled(X), wanted) and asked.count("math") == 1


@pytest.mark.parametrize("has_name", [True, False])
def test_a_name_that_an_object_in_the_place_of_a_module_has_not(monkeypatch, has_name):
    class Place:
        def __getattr__(self, name):
            if has_name and name == "__name__":
                return "framejit_place"
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "framejit_place", Place())

    def program(x):
        try:
            from framejit_place import nothing  # noqa: F401
        except ImportError as error:
            return x + 1, str(error)

    check(program, X)


@pytest.mark.parametrize("name, package", [
    ("math", None), ("os.path", None), (".nn", "torch"), ("..functional", "torch.nn.modules"), ("framejit_not_there", None), (".nn", None)])
def test_import_module(name, package):
    def program(x):
        try:
            found = importlib.import_module(name, package) if package else importlib.import_module(name)
            return x + 1, found.__name__, found is sys.modules[found.__name__]
        except (ImportError, TypeError) as error:
            return type(error).__name__, str(error)

    check(program, X, graphs=None)
    if COUNTING and "not" not in name and name != package and (package or name[0] != "."):
        assert jit.explain(program)(X).graph_break_count == 0


def test_import_module_of_one_that_is_replaced(monkeypatch):
    compiled = jit.compile(lambda x: x + importlib.import_module("framejit_replaced").value, backend="eager")
    for value in (1, 1, 2):
        monkeypatch.setitem(sys.modules, "framejit_replaced", module(value))
        assert compiled(X).tolist() == [1.0 + value] * 2
    monkeypatch.delitem(sys.modules, "framejit_replaced")
    with pytest.raises(ModuleNotFoundError, match="framejit_replaced"):
        compiled(X)
