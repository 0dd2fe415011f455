"""Integers that a plan computes from the sizes of its arguments: index expressions as steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol
from codegen.plan.steps import Compute, Count, NumberSlot, Size, TensorSlot, Token


class Numbers:
    """Slots for index expressions over sizes, from the number `first` on; equal ones share a slot.

    `sizes`: where each symbol is read: a dimension of a tensor, or a number that is there already. `steps` computes
    what was asked for, in that order; it belongs before the first step that reads one of them."""

    def __init__(self, first: int, sizes: Mapping[Symbol, tuple[TensorSlot, int] | NumberSlot]) -> None:
        self.next = first
        self.sizes = sizes
        self.steps: list[Size | Compute] = []
        self.known: dict[Index, Count] = {}

    def of(self, value: ix.Integer) -> Count:
        """A constant, or the slot of the value. Raises KeyError for a symbol without a place, ValueError for an
        expression of what a kernel computes."""
        value = ix.index(value)
        if value.constant is not None:
            return value.constant
        if value not in self.known:
            self.known[value] = self._computed(value)
        return self.known[value]

    def _computed(self, value: Index) -> NumberSlot:
        match value.terms:
            case (((Symbol() as symbol,), 1),):
                place = self.sizes[symbol]
                if isinstance(place, NumberSlot):
                    return place
                slot = self.new()
                self.steps.append(Size(slot, *place))
                return slot
        program = tuple(self._program(value))  # may need slots of its own
        slot = self.new()
        self.steps.append(Compute(slot, program))
        return slot

    def program(self, value: ix.Integer) -> tuple[Token, ...]:
        """What computes the value, for those who may want it."""
        return tuple(self._program(ix.index(value)))

    def new(self, kind: type = int) -> NumberSlot:
        """A slot for something else."""
        self.next += 1
        return NumberSlot(self.next - 1, kind)

    def _program(self, value: Index) -> Iterator[Token]:
        if not value.terms:
            yield 0
        for at, (monomial, factor) in enumerate(value.terms):
            yield from self._term(monomial, factor)
            if at:
                yield "+"

    def _term(self, monomial: ix.Monomial, factor: int) -> Iterator[Token]:
        if factor != 1 or not monomial:
            yield factor
        for at, atom in enumerate(monomial):
            yield from self._atom(atom)
            if at or factor != 1:
                yield "*"

    def _atom(self, atom: ix.Atom) -> Iterator[Token]:
        match atom:
            case ix.Symbol():
                yield self.of(ix.index(atom))
            case ix.Quotient() | ix.Remainder():
                yield from self._program(atom.dividend)
                yield from self._program(atom.divisor)
                yield "//" if isinstance(atom, ix.Quotient) else "%"
            case ix.Extremum():
                yield from self._program(atom.a)
                yield from self._program(atom.b)
                yield atom.kind
            case ix.Value():
                raise ValueError(f"{atom} is not known before the kernel runs")
