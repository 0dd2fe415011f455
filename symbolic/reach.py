"""What is alive: which variables hold which, as far as values after the frame are concerned."""

from __future__ import annotations

from collections.abc import Iterable

from sideeffects.effects import DELETED, Call
from sideeffects.ledger import Ledger
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable


def children(variable: Variable, ledger: Ledger) -> Iterable[Variable]:
    """What a value holds when it is rebuilt: its parts, and what the frame stored into it, at any time."""
    return [*parts(variable, ledger), *ledger.held(variable)]


def parts(variable: Variable, ledger: Ledger) -> list[Variable]:
    """What it holds without its attributes, now or before, and its class."""
    held = [part for state in ledger.states(variable) for part in state.reachable()]
    return [*_class_of(variable, ledger), *held] if ledger.classes else held


def now_held(variable: Variable, ledger: Ledger) -> list[Variable]:
    """What a value may hold at the moment."""
    return [*_class_of(variable, ledger), *variable.holds(), *_stored(variable, ledger)]


def now_kept(variable: Variable, ledger: Ledger) -> list[Variable]:
    """What it holds for certain: only that says that something is alive."""
    return [*_class_of(variable, ledger), *variable.keeps(), *_stored(variable, ledger)]


def _stored(variable: Variable, ledger: Ledger) -> list[Variable]:
    return [value for value in ledger.stores(variable).values() if value is not DELETED]


def _class_of(variable: Variable, ledger: Ledger) -> list[Variable]:
    """Its class, if that is born in the frame."""
    constant = isinstance(variable, ConstantVariable)
    kind = type(variable.value) if constant else getattr(variable, "cls", None)  # type: ignore[attr-defined]
    found = ledger.classes.get(id(kind))
    return [] if found is None else [found]


def reachable(roots: Iterable[Variable], ledger: Ledger) -> list[Variable]:
    """Everything that must exist after the frame: what `roots` hold, and what existing objects were given."""
    work = list(roots)
    for effect in ledger.effects():
        target = effect.function if isinstance(effect, Call) else effect.target
        if isinstance(effect, Call):
            work += [target, *effect.args, *effect.kwargs.values()]
            if effect.risk is not None and effect.risk.handled is not None:
                work.append(effect.risk.handled)
        elif exists(target):
            work.append(target)
    return within(work, ledger)


def within(roots: Iterable[Variable], ledger: Ledger) -> list[Variable]:
    """What `roots` hold, and these."""
    work = list(roots)
    seen: dict[Variable, None] = {}
    while work:
        variable = work.pop()
        if variable in seen:
            continue
        seen[variable] = None
        if variable.source is not None and variable.source.root.kind == "born":
            work.append(variable.source.root.arg)
        if exists(variable) and not ledger.touched(variable):
            continue
        work.extend(children(variable, ledger))
    return list(seen)


def exists(variable: Variable) -> bool:
    """Whether the value is an object that was there before the frame."""
    return variable.source is not None
