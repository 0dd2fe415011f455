"""Random programs over the sizes of their arguments, each called with many sizes, 0 and 1 among them.

    python -m tests.symbolic.shape_programs --seed 1 --programs 1000

A call is served by compiled code whose guards hold for it: that it gives what eager code gives says that they suffice.
`unsound` asks each entry by itself, so that none hides what another would do: about calls that it was not made for,
with tensors that are views of others, of one another, and laid out in all ways.
"""
from __future__ import annotations

import argparse
import copy
import math
import random
import traceback
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

import jit

#: Integers, of integers {i}, {j}, tensors {x}, small constants {c}.
INTEGERS = """
{x}.shape[0]|{x}.shape[-1]|{x}.numel()|{x}.dim()|len({x})|n|{c}|{c}
{i} + {j}|{i} - {j}|{i} * {c}|{i} // 2|{i} % 3|{i} // {c}|({i} + {j}) % {c}|-{i}|abs({i} - {j})
min({i}, {j})|max({i}, {c})|max({i}, {j}) - {c}|divmod({i}, {c})[0]|sum({x}.shape)|math.prod({x}.shape)
{x}.stride(0)|{x}.size(0) + {x}.ndim|int({i} / 2)|round({i} * 1.0)|math.isqrt(abs({i}))|[{i}, {j}][{i} % 2]|({i} if {b} else {j})
""".replace("\n", "|").strip("|").split("|")
#: Truth values.
CONDITIONS = """
{i} > {j}|{i} == {c}|{i} % 2 == 0|{i} <= {c}|{x}.shape[0] == {y}.shape[0]|{x}.shape == {y}.shape|{i} and {j}|not {i}
{x}.is_contiguous()|0 < {i} < {c}|{x}.numel() > {c}|bool({i})|{i} in (1, {c}, {j})|{i} != {j}
""".replace("\n", "|").strip("|").split("|")
#: Tensors of floats.
TENSORS = """
{x} + 1|{x} * {i}|{x} + {y}|{x}.relu() - {i}|{x} / ({c} + {x}.shape[0])|{x}[: {i}]|{x}[{i} :]|{x}[..., -{c} :]|{x}[:: {c}]
{x}.sum(0)|{x}.sum(-1, keepdim=True)|{x}.mean(0, keepdim=True)|{x}.amax(-1) if {x}.shape[-1] else {x}|{x}.cumsum(0)|{x}.softmax(-1)
{x}.reshape(-1)|{x}.flatten()|{x}.view(-1) if {x}.is_contiguous() else {x}.reshape(-1)|{x}.reshape({x}.shape[0], -1) if {x}.numel() else {x}
{x}.unsqueeze(0)|{x}.unsqueeze(-1)|{x}.squeeze(0)|{x}.squeeze()|{x}.transpose(0, -1)|{x}.transpose(0, -1).contiguous()|{x}.flip(0)|{x}.clone()
torch.cat([{x}, {x}])|torch.cat([{x}, {y}]) if {x}.shape[1:] == {y}.shape[1:] else {x}|torch.stack([{x}, {x} * 2])|{x}.repeat({c}, *[1] * ({x}.dim() - 1))
{x}.expand({c}, *{x}.shape)|{x}[:1].expand_as({x})|{x}.new_zeros({x}.shape)|{x}.new_ones(max({i} % 5, 1))|torch.arange({x}.shape[0]).float()
torch.zeros(abs({i}) % 6, 2)|torch.full({x}.shape, 2.0)|F.pad({x}, (1, {c}))|F.pad({x}, ({i} % 3, 0))|{x} @ {x}.transpose(0, -1) if {x}.dim() == 2 else {x}
{x}.split({c})[0]|{x}.chunk(2)[-1]|{x}.tril() if {x}.dim() == 2 else {x}|{x}.roll({i} % 4, 0)|{x}.narrow(0, 0, {x}.shape[0] // 2)|{x}[{x}.shape[0] // 2]
{x}.unbind(0)[0] if {x}.shape[0] else {x}|torch.where({x} > 0, {x}, {y}) if {x}.shape == {y}.shape else {x}|sum(row.sum() for row in {x}[:3]) + {x}
{x}[{i} % {x}.shape[0]]|{x}[..., {i} % {x}.shape[-1]]|{x}[: {i}, {y}.shape[0] % {x}.shape[1]]|{x}[-1, None]|{x} * ({i} % 2)
{x}.masked_fill({x} > 1, {i})|{x}.reshape(2, -1) if {x}.numel() % 2 == 0 and {x}.numel() else {x}|{x}.unflatten(0, (-1, 2)) if {x}.shape[0] % 2 == 0 and {x}.numel() else {x}
""".replace("\n", "|").strip("|").split("|")
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 9)


class Author:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tensors = ["x", "y"]
        self.integers = ["n"]

    def fill(self, pattern: str, depth: int = 0) -> str:
        made = {
            "x": self.rng.choice(self.tensors), "y": self.rng.choice(self.tensors), "c": str(self.rng.randint(2, 5)),
            "i": self.integer(depth + 1), "j": self.integer(depth + 1), "b": self.condition(depth + 1),
        }  # fmt: skip
        return pattern.format(**made)

    def integer(self, depth: int) -> str:
        if depth > 2 or self.rng.random() < 0.4:
            return self.rng.choice([*self.integers, f"{self.rng.choice(self.tensors)}.shape[0]", str(self.rng.randint(1, 6))])
        return f"({self.fill(self.rng.choice(INTEGERS), depth)})"

    def condition(self, depth: int) -> str:
        return "True" if depth > 2 else self.fill(self.rng.choice(CONDITIONS), depth)

    def tensor(self) -> str:
        return self.fill(self.rng.choice(TENSORS))

    def statements(self, depth: int = 0) -> Iterator[str]:
        for _ in range(self.rng.randint(1, 4 if depth else 7)):
            kind = self.rng.random()
            if kind < 0.5:
                value, name = self.tensor(), f"t{len(self.tensors)}" if depth == 0 else self.rng.choice(self.tensors)
                yield f"{name} = {value}"
                if depth == 0:
                    self.tensors.append(name)
            elif kind < 0.7:
                value, name = self.integer(0), f"i{len(self.integers)}" if depth == 0 else self.rng.choice(self.integers)
                yield f"{name} = {value}"
                if depth == 0:
                    self.integers.append(name)
            elif kind < 0.8 and depth < 2:
                yield f"if {self.condition(0)}:"
                yield from (f"    {line}" for line in self.statements(depth + 1))
                if self.rng.random() < 0.5:
                    yield "else:"
                    yield from (f"    {line}" for line in self.statements(depth + 1))
            elif kind < 0.86 and depth < 2:
                yield f"for k in range(min(abs({self.integer(1)}), 4)):"
                name = self.rng.choice(self.tensors)
                yield f"    {name} = {name} + k"
            elif kind < 0.93:
                yield f"seen.append(f'{{{self.integer(1)}}} of {{{self.rng.choice(self.tensors)}.shape}}')"
            else:
                yield f"seen.append({self.integer(0)})"

    def program(self) -> str:
        body = "\n".join(f"    {line}" for line in self.statements())
        results = ", ".join([*self.tensors, *self.integers])
        return f"def program(x, y, n):\n    seen = []\n{body}\n    return {results}, seen\n"

    def function(self) -> Any:
        """The program, which knows its `text`."""
        text = self.program()
        scope: dict[str, Any] = {"torch": torch, "F": F, "math": math}
        exec(text, scope)
        scope["program"].text = text
        return scope["program"]

    def calls(self, count: int) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
        ranks = self.rng.choice([(1, 1), (2, 2), (2, 1), (3, 2), (2, 3)])
        found = []
        for _ in range(count):
            x, y = (torch.randn([self.rng.choice(SIZES) for _ in range(rank)], generator=_generator()) for rank in ranks)
            if self.rng.random() < 0.4 and ranks[0] == ranks[1]:
                y = torch.randn(x.shape, generator=_generator())
            if self.rng.random() < 0.15 and x.dim() > 1:
                x = x.transpose(0, 1)
            found.append((x, y, self.rng.choice((0, 1, 2, 3, 4, 5, 8, -2))))
        return found

    def other(self, call: Any) -> Any:
        """A call like that one, of which some numbers are others, and where tensors may lie in any way."""
        x, y, n = call
        sizes = [[self.other_size(size) for size in part.shape] for part in (x, y)]
        if self.rng.random() < 0.3:
            sizes[1][-1] = sizes[0][-1]
        if self.rng.random() < 0.2 and len(sizes[0]) == len(sizes[1]):
            sizes[1] = sizes[0]
        x, y = (self.laid(part) for part in sizes)
        if self.rng.random() < 0.05:
            y = x if x.dim() == y.dim() and self.rng.random() < 0.5 else x.reshape(-1)[: y.shape[0]].view([-1, *[1] * (y.dim() - 1)])
        return x, y, n if self.rng.random() < 0.5 else self.rng.choice((0, 1, 2, 3, 4, 6, 7, -1, True, 2.0))

    def other_size(self, size: int) -> int:
        kind = self.rng.random()
        return size if kind < 0.4 else max(size + self.rng.choice((-1, 1)), 0) if kind < 0.6 else self.rng.choice((*SIZES, 8, 12))

    def laid(self, sizes: list[int]) -> torch.Tensor:
        """A tensor of that size, in memory of its own or part of another's."""
        kind = self.rng.random()
        if kind < 0.5:
            return torch.randn(sizes, generator=_generator())
        if kind < 0.65:
            return torch.randn(sizes[::-1], generator=_generator()).permute(*reversed(range(len(sizes))))
        if kind < 0.8:
            larger = torch.randn([size + 2 for size in sizes], generator=_generator())
            return larger[tuple(slice(at, at + size) for at, size in zip((1, 0, 2), sizes, strict=False))]
        if kind < 0.9:
            return torch.randn([*sizes[:-1], 2 * sizes[-1]], generator=_generator())[..., ::2]
        return torch.randn([1, *sizes[1:]], generator=_generator()).expand(sizes)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def outcome(program: Any, call: Any) -> Any:
    """What it gives, and which tensors of that lie in the memory of which others and of what came in."""
    given = copy.deepcopy(call)
    try:
        results = program(*given)
    except Exception as error:
        return type(error)
    tensors = [part for part in (*given, *results) if isinstance(part, torch.Tensor) and part.numel()]
    places = [part.untyped_storage().data_ptr() for part in tensors]
    return results, [places.index(place) for place in places]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        if not isinstance(other, torch.Tensor) or (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        # Strides of nothing, and of sizes of one, lead nowhere: there torch's own fakes do not agree with operations.
        strides = zip(one.shape, one.stride(), other.stride(), strict=True)
        laid = one.numel() == 0 or all(size == 1 or a == b for size, a, b in strides)
        return laid and torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or one != one)


def findings(seed: int, backend: str, dynamic: bool | None, calls: int = 9) -> list[str]:
    """What goes wrong with the program of that seed, in words."""
    author = Author(seed)
    program = author.function()
    compiled = jit.compile(program, backend=backend, dynamic=dynamic)
    made = author.calls(calls)
    for call in [*made, *made[:3]]:
        wrong = difference(program, compiled, call)
        if wrong:
            return [f"seed {seed}, {backend}, dynamic={dynamic}, {wrong}"]
    return []


def difference(program: Any, compiled: Any, call: Any) -> str:
    """What a call gives that should not be, in words."""
    expected = outcome(program, call)
    try:
        got = outcome(compiled, call)
    except BaseException:
        got = traceback.format_exc()
    if same(expected, got):
        return ""
    said = [f"{tuple(part.shape)} strides {part.stride()}" if isinstance(part, torch.Tensor) else part for part in call]
    return f"{said}:\n{program.text}  eager {expected}\n  ours {got}"


def unsound(seed: int, backend: str, dynamic: bool | None, calls: int = 5, others: int = 30) -> tuple[list[str], int]:
    """Entries of the program of that seed whose guards hold for a call that their code gives another result for, in
    words; and for how many calls they held."""
    author = Author(seed)
    program = author.function()
    compiled = jit.compile(program, backend=backend, dynamic=dynamic)
    made = author.calls(calls)
    for call in made:
        outcome(compiled, call)
    asked = [author.other(author.rng.choice(made)) for _ in range(others)]
    found, held = [], 0
    for entry in compiled.cache.entries:
        served = [call for call in asked if entry.guards.check(program, call) is not None]
        held += len(served)
        alone = jit.compile(program, backend=backend, dynamic=dynamic)
        alone.cache.add(entry)
        wrong = [said for call in served if (said := difference(program, alone, call))]
        found += [f"seed {seed}, {backend}, dynamic={dynamic}, {said}" for said in wrong[:1]]
    return found, held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--backend", default="eager")
    options = parser.parse_args()
    jit.config.on_error = "raise"
    total = 0
    for seed in range(options.seed, options.seed + options.programs):
        for dynamic in (None, True):
            for finding in (*findings(seed, options.backend, dynamic), *unsound(seed, options.backend, dynamic)[0]):
                total += 1
                print(finding, flush=True)
        jit.reset()
    print(f"{options.programs} programs, {total} findings")


if __name__ == "__main__":
    main()
