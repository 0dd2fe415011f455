"""An extension built for another torch or Python is refused in one line, before anything uses it."""

import sys
import types
from unittest.mock import patch

import pytest
import torch

from codegen.native import REBUILD, check

PYTHON = ".".join(map(str, sys.version_info[:2]))


def built_for(torch_version):
    """An extension named `stand_in`, while the context lasts."""
    return patch.dict(sys.modules, stand_in=types.SimpleNamespace(torch_version=torch_version))


@pytest.mark.parametrize("version", [torch.__version__, torch.__version__.split("+")[0], torch.__version__.split("+")[0] + "+other"])
def test_the_extension_for_this_torch_loads(version):
    with built_for(version):
        check("stand_in")


def test_one_for_another_torch_is_refused():
    with built_for("1.0.0"), pytest.raises(ImportError) as caught:
        check("stand_in")
    assert str(caught.value) == (
        f"framejit's extension stand_in was built for torch 1.0.0, this is torch {torch.__version__}; {REBUILD}"
    )


def test_one_that_does_not_load_is_refused():
    with pytest.raises(ImportError) as caught:
        check("no_such_extension")
    assert str(caught.value) == (
        f"framejit's extension no_such_extension does not load with Python {PYTHON} and torch {torch.__version__} "
        f"(No module named 'no_such_extension'); {REBUILD}"
    )
    assert caught.value.__suppress_context__ and "\n" not in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("package, extension", [("codegen", "codegen._C"), ("jit", "jit._C"), ("jit", "codegen._C")])
def test_importing_a_package_checks_its_extensions(child, package, extension):
    child(f"""
        import importlib, types
        for name in [name for name in sys.modules if name.split(".")[0] in ("jit", "codegen")]:
            del sys.modules[name]
        sys.modules["{extension}"] = types.SimpleNamespace(torch_version="1.0.0")
        try:
            importlib.import_module("{package}")
        except ImportError as error:
            assert "extension {extension} was built for torch 1.0.0" in str(error), error
        else:
            raise AssertionError("not refused")
    """)
