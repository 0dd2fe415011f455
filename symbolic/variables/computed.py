"""What comes of numbers that come in with other values at every call: the guard computes it anew.

A comparison (`if a < b`) is good for all values that compare alike; an int that something needs to know (an end of a
slice, `int(n * share)`) is one more number that comes in, from a path that computes it. Where it is of ints alone,
mostly the conditions of symbols say the same (`symbolic.shapes`), which the native guard tree evaluates. Where a float
takes part, the bits of Python's arithmetic decide: what was computed of the numbers is computed of them again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from symbolic.late import real_power
from symbolic.sources import Source
from symbolic.terms import EXTENTS, Extent, Op, Term, number, text
from symbolic.variables.base import COMPARISONS, MISSING, Variable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Operations that a guard repeats, at most, and such guards of a capture.
MOST_OPERATIONS, MOST_GUARDS = 16, 32
#: Ints that are computed are below this.
LARGEST = 1 << 62


def shifted(value: int, by: int) -> int:
    """`value << by`, if that is no very large number: the program may have looked before."""
    return value << by if by < LARGEST.bit_length() else _too_large()


def power(base: int, exponent: int) -> int:
    """`base ** exponent`, likewise an int."""
    is_small = 0 <= exponent < LARGEST.bit_length() and abs(base) < LARGEST
    return base**exponent if is_small else _too_large()


def _too_large() -> int:
    raise OverflowError


#: operator of ints -> what computes it for a guard, where symbols have no word for it
OF_INTS: dict[Any, Callable[[int, int], int]] = {
    **{op: op for op in (operator.and_, operator.or_, operator.xor, operator.rshift)},
    operator.lshift: shifted, operator.pow: power,
}  # fmt: skip
#: whose functions are written without them
_PLAIN_MODULES = ("builtins", "_operator")
_SIGNS: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.neg: "-", real_power: "**", power: "**", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", shifted: "<<", operator.rshift: ">>", **{op: sign for sign, op in COMPARISONS.items()},
}  # fmt: skip
Numbers = Sequence[Any]
#: What is known of the numbers -> what gives it of them, and as Python.
Leaves = dict[Any, tuple[Callable[[Numbers], Any], str]]


@dataclass(frozen=True)
class Computed:
    """A function of numbers, which are given as one, or as a tuple. `template`: what it computes as Python, "{0}" and
    so on in the places of the numbers; those that compute the same are equal."""

    function: Callable[[Numbers], Any] = field(compare=False)
    count: int
    template: str

    @property
    def __name__(self) -> str:
        return "computed"

    def written(self, *numbers: str) -> str:
        return self.template.format(*numbers)

    def __call__(self, given: Any) -> Any:
        return self.function(given if self.count > 1 else (given,))


@dataclass(frozen=True, eq=False)
class Decided:
    """The predicate of a guard: a yes or no that is computed of numbers is still this one."""

    question: Computed
    answer: bool

    def written(self, *numbers: str) -> str:
        """What holds, as Python."""
        said = self.question.written(*numbers)
        return said if self.answer else f"not {said}"

    def __call__(self, given: Any) -> bool:
        try:
            return bool(self.question(given)) is self.answer
        except Exception:  # in the place of the program, which raises it when it runs
            return False


@dataclass(frozen=True)
class Size:
    """The size of a tensor in a dimension."""

    dim: int

    @property
    def __name__(self) -> str:
        return "size"

    def written(self, tensor: str) -> str:
        return EXTENTS["size"].format(tensor, self.dim)

    def __call__(self, tensor: torch.Tensor) -> int:
        with torch._C.DisableTorchFunctionSubclass():
            return tensor.size(self.dim)


def side(variable: Variable) -> Any:
    """The node of a number, or the number."""
    return getattr(variable, "node", None) or variable.constant()


def decide(tx: Translator, function: Callable[..., Any], sides: Sequence[Any]) -> Any:
    """The yes or no for the inputs at hand, guarded; MISSING where other things than numbers that came in decide."""
    found = _question(tx, function, sides)
    if found is None:
        return MISSING
    question, source, given = found
    answer = bool(question(given))
    tx.know(source, "predicate", Decided(question, answer))
    return answer


def derive(tx: Translator, function: Callable[..., Any], sides: Sequence[Any]) -> Variable | None:
    """The int that comes of numbers, as one that comes in itself; None where it can't be, or has no value at hand."""
    try:
        found = _question(tx, function, sides)
        value = None if found is None else found[0](found[2])
    except Exception:
        return None
    if found is None or type(value) is not int or abs(value) > LARGEST:
        return None
    return tx.graph.add_number(value, found[1].step("call", found[0]))


def pick(tx: Translator, container: Variable, contents: Any, at: Variable) -> Variable | None:
    """What an existing list or dict holds at a place that varies, as something that lies there in each call. None where
    it is to be looked up as for any other place."""
    kind, source = type(contents), container.source
    is_plain = kind in (list, dict) and container.python_type() is kind and source is not None and not source.is_made
    if not (at.varies() and at.python_type() is int and is_plain) or tx.ledger.touched(container):
        return None
    try:
        found = _question(tx, operator.getitem, [container, side(at)], contents)
        value = found[0](found[2]) if found is not None else None
    except LookupError:
        return None
    return None if found is None else tx.wrap(value, found[1].step("call", found[0]))


def _question(
    tx: Translator, function: Callable[..., Any], sides: Sequence[Any], contents: Any = None
) -> tuple[Computed, Source, Any] | None:
    """What is to be computed, of what path, and what that leads to for the inputs at hand. `contents`: the object of a
    side that is a container."""
    graph = tx.graph
    nodes = _reached([each for each in sides if isinstance(each, fx.Node)])
    places = [each for each in nodes if each.op == "placeholder"]
    given = [each for each in graph.inputs_at(places) if each.python_type() in (int, float)]
    are_known = len(places) == len(given) and all(hasattr(each, "number") for each in given)
    computed = all(each.op == "placeholder" or _is_size(each) or _is_of_numbers(each) for each in nodes)
    if not are_known or not computed or len(nodes) > MOST_OPERATIONS or graph.inner or graph.computed >= MOST_GUARDS:
        return None
    known: list[tuple[Any, Source, Any]] = [(each.node, each.source, each.number) for each in given]
    sizes: dict[fx.Node, Term] = {}
    for node in filter(_is_size, nodes):
        assert graph.shapes is not None
        read = graph.shapes.read(node.meta["example_value"])
        if read is None or any(extent.kind not in ("size", "value") for extent in read[1]):
            return None
        sizes[node] = _of_paths(read[0])
        known += [(_path(extent), _path(extent), at_hand) for extent, at_hand in read[1].items()]
    known = list(dict.fromkeys(known))
    if not known:
        return None
    graph.computed += 1
    tx.repeats.tell(None)  # what comes of other numbers may be something else
    known += [(each, each.source, contents) for each in sides if isinstance(each, Variable) and each.source is not None]
    order = {key: at for at, (key, _, _) in enumerate(known)}
    leaves: Leaves = {key: (operator.itemgetter(at), f"{{{at}}}") for key, at in order.items()}
    for node, term in sizes.items():
        leaves[node] = _of_term(term, order), f"({text(term, lambda source: f'{{{order[source]}}}')})"
    parts = [_computed(each, leaves) for each in sides]
    said = _call_text(function, [_text(each, leaves) for each in sides])
    made = Computed(lambda numbers: function(*(part(numbers) for part in parts)), len(known), said)
    _, sources, values = zip(*known, strict=True)
    return (made, sources[0], values[0]) if len(known) == 1 else (made, tx.sources.several(sources), values)


def _is_size(node: fx.Node) -> bool:
    """Whether it reads the size of a tensor that varies with what comes in."""
    value = node.meta["example_value"]
    return node.op == "call_method" and isinstance(value, torch.SymInt) and value.node.hint is not None


def _is_of_numbers(node: fx.Node) -> bool:
    """Whether it computes a number of others. What tensors hold is read in the graph."""
    is_tensor = isinstance(node.meta.get("example_value"), torch.Tensor)
    return node.op == "call_function" and not is_tensor and not node.kwargs


def _path(extent: Extent) -> Source:
    return extent.source.step("call", Size(extent.dim)) if extent.kind == "size" else extent.source


def _of_paths(term: Term) -> Term:
    """The same of numbers that lie at paths."""
    if isinstance(term, Op):
        return Op(term.name, tuple(map(_of_paths, term.operands)))
    return Extent(_path(term), "value") if isinstance(term, Extent) else term


def _of_term(term: Term, order: dict[Any, int]) -> Callable[[Numbers], Any]:
    return lambda numbers: number(term, lambda extent: numbers[order[extent.source]])


def _reached(nodes: list[fx.Node]) -> list[fx.Node]:
    """These and what they are computed of."""
    found: dict[fx.Node, None] = {}
    while nodes:
        node = nodes.pop()
        if node not in found:
            found[node] = None
            nodes += [] if _is_size(node) else node.all_input_nodes
    return list(found)


def _computed(side: Any, leaves: Leaves) -> Callable[[Numbers], Any]:
    """The function of the numbers that gives this node, or what else an operation is given."""
    if isinstance(side, (fx.Node, Variable)) and side in leaves:
        return leaves[side][0]
    if isinstance(side, list):
        items = [_computed(each, leaves) for each in side]
        return lambda numbers: [item(numbers) for item in items]
    if not isinstance(side, fx.Node):
        return lambda numbers: side
    target, args = side.target, [_computed(each, leaves) for each in side.args]
    assert callable(target)
    return lambda numbers: target(*(arg(numbers) for arg in args))


def _text(side: Any, leaves: Leaves) -> str:
    if isinstance(side, list):
        return f"[{', '.join(_text(each, leaves) for each in side)}]"
    if not isinstance(side, (fx.Node, Variable)):
        return f"float('{side}')" if isinstance(side, float) and not math.isfinite(side) else repr(side)
    if isinstance(side, Variable) or side in leaves:
        return leaves[side][1]
    said = _call_text(side.target, [_text(each, leaves) for each in side.args])
    return f"({said})" if side.target in _SIGNS else said


def _call_text(function: Any, args: list[str]) -> str:
    sign = _SIGNS.get(function)
    if sign is not None:
        return f" {sign} ".join(args) if len(args) > 1 else sign + args[0]
    if function is operator.getitem:
        return f"{args[0]}[{args[1]}]"
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", str(function))
    return f"{name if module in _PLAIN_MODULES else f'{module}.{name}'}({', '.join(args)})"
