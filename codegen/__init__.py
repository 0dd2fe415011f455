"""The workshop: captured graphs become kernels and plans, frames become bytecode."""

from __future__ import annotations

from codegen import native as native  # checks the extension before anything else imports it
