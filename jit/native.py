"""The native core, checked: an extension built for another torch or Python says so in one line."""

from __future__ import annotations

from codegen.native import check

check("jit._C")
