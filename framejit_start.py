"""What the start-up line of an installation runs where `JIT_AUTO` is set: the compiler comes with the program's torch.

A program that never imports it, and the small processes that programs start, pay nothing: `jit` is not imported either,
nor anything that Python has not imported by then.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # (to import `typing` takes longer than all the rest)
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _WithTorch:
    """Stands first on `sys.meta_path` until somebody imports torch."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _then_install(spec.loader)
        return spec


def _then_install(loader: object) -> None:
    execute = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # type: ignore[attr-defined]  # the loader is as it was
        execute(module)
        __import__("jit.autowrap", fromlist=["install"]).install()

    loader.exec_module = exec_module  # type: ignore[attr-defined]


def install() -> None:
    """Does nothing the second time: Python may read a start-up line by two paths to the same folder."""
    if not any(isinstance(finder, _WithTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithTorch())  # type: ignore[arg-type]
