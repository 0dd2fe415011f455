"""Comparisons of numbers that come in with another value at every call: the guard compares anew, so that what was
captured is good for all values that compare alike.

Ints alone are symbols, whose conditions the native guard tree evaluates (`symbolic.shapes`). Where a float takes part,
the bits of Python's arithmetic decide: what was computed of the number is computed of it again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import fx

from symbolic.late import real_power
from symbolic.variables.base import COMPARISONS, MISSING, Variable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Operations that a guard repeats, at most, and such guards of a capture.
MOST_OPERATIONS, MOST_GUARDS = 16, 16
#: whose functions are written without them
_PLAIN_MODULES = ("builtins", "_operator")
_SIGNS: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.neg: "-", real_power: "**", **{op: sign for sign, op in COMPARISONS.items()},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Compared:
    """The predicate of a guard: `left` and `right`, computed of a number, still compare so. `template`: the comparison
    as Python, "{0}" in the place of the number."""

    op: Callable[[Any, Any], Any]
    left: Callable[[Any], Any]
    right: Callable[[Any], Any]
    answer: bool
    template: str

    def written(self, number: str) -> str:
        """What holds, as Python."""
        said = self.template.format(number)
        return said if self.answer else f"not {said}"

    def __call__(self, number: Any) -> bool:
        try:
            return bool(self.op(self.left(number), self.right(number))) is self.answer
        except Exception:  # in the place of the program, which raises it when it runs
            return False


def compare(tx: Translator, op: Callable[[Any, Any], Any], left: Variable, right: Variable) -> Any:
    """The answer for the inputs at hand, guarded; MISSING where another thing than one number that came in decides."""
    graph = tx.graph
    sides: list[Any] = [getattr(each, "node", None) or each.constant() for each in (left, right)]
    nodes = _reached([each for each in sides if isinstance(each, fx.Node)])
    places = [each for each in nodes if each.op == "placeholder"]
    given: list[Any] = [each for each in graph.inputs if each.node in places and each.python_type() in (int, float)]
    is_one = len(places) == 1 == len(given) and hasattr(given[0], "number")
    computed = all(each.op in ("placeholder", "call_function") for each in nodes)
    if not is_one or not computed or len(nodes) > MOST_OPERATIONS or graph.inner or graph.compared >= MOST_GUARDS:
        return MISSING
    number = given[0]
    place = number.node
    template = f"{_text(sides[0], place)} {_SIGNS[op]} {_text(sides[1], place)}"
    first, second = (_computed(each, place) for each in sides)
    answer = bool(op(first(number.number), second(number.number)))
    graph.compared += 1
    tx.repeats.tell(None)  # the same comparison of another number may have another answer
    tx.know(number.source, "predicate", Compared(op, first, second, answer, template))
    return answer


def _reached(nodes: list[fx.Node]) -> list[fx.Node]:
    """These and what they are computed of."""
    found: dict[fx.Node, None] = {}
    while nodes:
        node = nodes.pop()
        if node not in found:
            found[node] = None
            nodes += node.all_input_nodes
    return list(found)


def _computed(side: Any, place: fx.Node) -> Callable[[Any], Any]:
    """The function of what is at `place` that gives this node, or what else an operation is given."""
    if side is place:
        return lambda number: number
    if isinstance(side, list):
        items = [_computed(each, place) for each in side]
        return lambda number: [item(number) for item in items]
    if not isinstance(side, fx.Node):
        return lambda number: side
    target, args = side.target, [_computed(each, place) for each in side.args]
    assert callable(target) and not side.kwargs
    return lambda number: target(*(arg(number) for arg in args))


def _text(side: Any, place: fx.Node) -> str:
    if side is place:
        return "{0}"
    if isinstance(side, list):
        return f"[{', '.join(_text(each, place) for each in side)}]"
    if not isinstance(side, fx.Node):
        return f"float('{side}')" if isinstance(side, float) and not math.isfinite(side) else repr(side)
    args = [_text(each, place) for each in side.args]
    sign = _SIGNS.get(side.target)
    if sign is not None:
        return f"({f' {sign} '.join(args) if len(args) > 1 else sign + args[0]})"
    module, name = getattr(side.target, "__module__", ""), getattr(side.target, "__name__", str(side.target))
    return f"{name if module in _PLAIN_MODULES else f'{module}.{name}'}({', '.join(args)})"
