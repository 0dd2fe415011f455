"""How often inputs count their writes: what is left to count beside the writes themselves, and the counting."""

from __future__ import annotations

import torch

from codegen.aot.facts import Base, Input, Traced, Update, Value


def _counts(update: Update) -> int:
    """How many writes the input counts by what is done to it here."""
    written = update.value is not None and (update.tracked or update.versions > 0)
    return len(update.steps) + written + update.by_set


def counts_later(update: Update) -> int:
    """How many of these come after outputs were made."""
    return len(update.steps) if update.data is None else _counts(update)


#: The updates of inputs that count their writes together, by the first of these inputs, whose update is the first.
Counters = dict[Value | Input | Base, list[Update]]


def counter(update: Update) -> Input | Base:
    """The first input that counts its writes together with that of the update."""
    return update.target if update.counter is None else update.counter


def by_counter(traced: Traced) -> Counters:
    found: Counters = {}
    for update in traced.updates:
        found.setdefault(counter(update), []).append(update)
    return found


def missing(together: list[Update]) -> int:
    """How many writes are still to be counted when all is written and changed."""
    return together[0].versions - sum(map(_counts, together))


def counts_anew(together: list[Update]) -> bool:
    """Whether the final count is set after each write: others hold a tensor with its version."""
    return any(each.value is not None for each in together) and (len(together) > 1 or missing(together) != 0)


# --- when the program runs --------------------------------------------------------------------------------------------
def version(tensor: torch.Tensor) -> int:
    """How often it was written; inference tensors don't count that."""
    return 0 if tensor.is_inference() else tensor._version


def count(tensors: tuple[torch.Tensor, ...], times: int) -> None:
    """Lets tensors, each of which has a counter of its own, count so many writes more."""
    for _ in range(times):
        torch._C._increment_version(tensors)


def count_to(tensor: torch.Tensor, version: int) -> None:
    """Lets a tensor have counted so many writes."""
    if not tensor.is_inference():
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
