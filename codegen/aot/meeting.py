"""Whether two tensors of one storage show some of the same memory, each in its own way."""

from __future__ import annotations

from typing import Any

import torch

#: So many steps are taken to find out; after them, tensors count as meeting.
MOST = 4096


def meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a byte of one is a byte of the other; not where both show the same bytes in the same order. That is said
    of the sizes of this call, where these vary: nothing is guarded."""
    first, second = _bytes(one), _bytes(other)
    if first is None or second is None or first == second:
        return False
    # a byte of each: start + sum of digit * step, all digits below their lengths; so their difference is a sum, too
    apart = second[0] - first[0]
    below: dict[int, list[int]] = {}
    for (_, terms), sign in ((first, 1), (second, -1)):
        for length, step in terms:
            low, high = below.setdefault(step, [0, 0])
            below[step] = [low + min(0, sign * (length - 1)), high + max(0, sign * (length - 1))]
    terms_of_both = [(step, low, high) for step, (low, high) in sorted(below.items(), reverse=True) if step]
    return _is_sum(apart, terms_of_both, [MOST])


def _bytes(tensor: torch.Tensor) -> tuple[int, list[tuple[int, int]]] | None:
    """Where its first byte lies, and how many there are of which step; None of no elements, or of unknown many."""
    width, dims = tensor.element_size(), tensor.dim()
    numbers = [_at_this_call(number) for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset())]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers) or 0 in known[:dims]:
        return None
    terms = [(size, step * width) for size, step in zip(known[:dims], known[dims:-1], strict=True) if size > 1]
    return known[-1] * width, [*terms, (width, 1)]


def _is_sum(total: int, terms: list[tuple[int, int, int]], left: list[int]) -> bool:
    """Whether it is a sum of multiples of these steps, the longest first, each within its own bounds."""
    if not terms:
        return total == 0
    left[0] -= 1
    (step, low, high), *rest = terms
    least, most = (sum(step * bounds[at] for step, *bounds in rest) for at in (0, 1))
    first, last = max(low, -((most - total) // step)), min(high, (total - least) // step)
    return left[0] < 0 or any(_is_sum(total - step * digit, rest, left) for digit in range(first, last + 1))


def _at_this_call(number: Any) -> int | None:
    return number.node.hint if isinstance(number, torch.SymInt) else int(number)
