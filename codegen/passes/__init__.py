"""Passes over the graphs of a compilation. The order of these imports is that of the table."""

from codegen.passes import attention, views, copies, peepholes, products, normalised, layouts, common, constants, dead  # noqa: F401, I001
from codegen.passes.registry import STAGES, Change, Pass, Passes, register, table, unregister

__all__ = ["STAGES", "Change", "Pass", "Passes", "register", "table", "unregister"]
