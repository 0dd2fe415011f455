"""A graph that raises while it runs: the frame runs again as it was written, so that eager code raises, or goes on.

That is right only if what the graph has done can be taken back: what it draws and writes before it may raise is kept
(see `codegen/residual/kept.py`). Whether something else lasts is looked up when it has failed, by running it on fake
tensors.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from codegen.aot.inputs import answers
from codegen.direct import as_captured
from codegen.residual.kept import Before
from codegen.residual.reached import Reached, how_far
from symbolic.late import elements
from symbolic.reworded import IN_OTHER_WORDS
from symbolic.shapes import UnusualSize, as_place, as_size
from symbolic.torch_state import TorchState
from symbolic.variables.tensors import CHANGES

#: (code, error): the graph failed where eager code did not
Blame = Callable[[CodeType, Exception], None]


#: How a generator of random numbers takes its state, and that state.
RandomState = tuple[Callable[[Any], None], Any]


def random_state(owner: Any) -> RandomState:
    """Of a generator; of torch's default generator for `torch.get_rng_state`."""
    if isinstance(owner, random.Random):
        return owner.setstate, owner.getstate()
    if hasattr(owner, "get_state"):  # torch's, and numpy's old ones
        return owner.set_state, owner.get_state()
    if hasattr(owner, "bit_generator"):  # numpy's new ones
        return functools.partial(setattr, owner.bit_generator, "state"), owner.bit_generator.state
    return torch.set_rng_state, owner()


#: Capture has asked the classes of tensors; they are not told of what is only tried.
_untold = torch._C.DisableTorchFunctionSubclass


@dataclass(frozen=True, eq=False)
class RunAgain:
    """`code` with `globals` is the frame that `module` was captured from. `draws_again`: whether the state of torch's
    generator before the graph is among those that are put back; `kept`: the places of the inputs that are, too.
    `door`: of the same code, for whom it can be handed to: no frame of ours is below the program's then."""

    module: fx.GraphModule
    code: CodeType
    globals: dict[str, Any]
    blame: Blame
    draws_again: bool
    kept: tuple[int, ...] = ()
    door: Any = None

    def __call__(
        self, error: BaseException, slots: tuple[Any, ...], cells: tuple[CellType, ...], inputs: tuple[Any, ...],
        states: tuple[RandomState, ...], before: Before | None,
    ) -> Any:
        """What the frame returns for these argument slots, or whom it hands over to. `inputs` are those of the graph,
        `states` and `before` of before it."""
        if not isinstance(error, Exception):
            raise error
        expected = isinstance(error, UnusualSize)
        reached = how_far(error) if self._lasts else None
        if self._lasts and (reached is None or self._has_lasted(reached)) or not _put_back(states, before):
            error = self._said_by_eager(error, inputs)
            if reached is not None:
                reached.show(error)
            error.add_note(LEFT_OUT)
            raise error
        if reached is not None:
            expected |= reached.is_refused
        elif not expected:
            expected = self._raises(inputs)
            _put_back(states, before)
        if expected and self.door is not None:
            return self.door(cells or None, *slots)
        function = FunctionType(self.code, self.globals, self.code.co_name, None, cells or None)
        result = call_with_slots(function, slots)
        if not expected:
            self.blame(self.code, error)
        return result

    @functools.cached_property
    def _lasts(self) -> bool:
        """Whether what the graph does can't be taken back; where sizes decide, a frame runs again and again."""
        return changes_the_world(self.module, self.draws_again, kept=self.kept)

    def _has_lasted(self, reached: Reached) -> bool:
        """Whether it can't, as far as the graph came."""
        if reached.graph is self.module:
            return changes_the_world(self.module, self.draws_again, reached.nodes[0], self.kept)
        return reached.lasts(self.draws_again, self.kept)

    def _said_by_eager(self, error: Exception, inputs: tuple[Any, ...]) -> Exception:
        """Kernels have one error for all indices out of range: what the operators say of such inputs, if they do."""
        is_plain = all(isinstance(each, torch.Tensor | int | float) for each in inputs)
        if not isinstance(error, IndexError) or not is_plain or not _is_of_operators(self.module):
            return error
        state = TorchState()
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad(), _untold():
                copies = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in inputs]
                as_captured(self.module)(*copies)
        except Exception as said:
            return said.with_traceback(error.__traceback__)
        finally:
            state.restore()
        return error

    def _raises(self, inputs: tuple[Any, ...]) -> bool:
        """Whether the operators themselves refuse these inputs: then the program has caught the error that it met."""
        state = TorchState()
        try:
            with _untold():
                as_captured(self.module)(*inputs)
        except Exception:
            return True
        finally:
            state.restore()
        return False


def _put_back(states: tuple[RandomState, ...], before: Before | None) -> bool:
    """Whether that could be done."""
    if before is not None and not before.put_back():
        return False
    for put_back, state in states:
        put_back(state)
    return True


#: Said of an error that the frame can't be run again for.
LEFT_OUT = (
    "framejit: the function had written to tensors, or drawn random numbers, that can't be put back: no handler of its "
    "own has seen this error, and what it had done to Python's objects is left out."
)


def _is_of_operators(module: fx.GraphModule) -> bool:
    """Whether the graph has operations of torch and of Python alone: what differentiates may call the program."""
    return not any(
        node.op in ("call_module", "get_attr") or node.target == "backward" or home.startswith("symbolic")
        for node in module.graph.nodes
        for home in [getattr(node.target, "__module__", None) or ""]
    )


def has_plain_slots(code: CodeType) -> bool:
    """Whether its parameters are positional ones, and no more."""
    return not (code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))


def call_with_slots(function: FunctionType, slots: tuple[Any, ...]) -> Any:
    """Calls with arguments as a frame holds them: positional, keyword-only, then `*args` and `**kwargs`."""
    code = function.__code__
    count = code.co_argcount
    plain = count + code.co_kwonlyargcount
    rest = list(slots[plain:])
    keywords = dict(zip(code.co_varnames[count:plain], slots[count:plain], strict=True))
    more = rest.pop(0) if code.co_flags & 0x04 else ()
    if rest:
        keywords.update(rest.pop())
    return function(*slots[:count], *more, **keywords)


def changes_the_world(
    module: fx.GraphModule, draws_again: bool = False, last: fx.Node | None = None, kept: tuple[int, ...] = ()
) -> bool:
    """Whether the graph writes into an input (unless it is `kept`), accumulates gradients or draws random numbers
    (unless it may), up to its `last` node, that one too."""
    nodes = list(module.graph.nodes)
    nodes = nodes[: nodes.index(last) + 1 if last is not None else None]
    if any(node.op == "call_method" and node.target == "backward" for node in nodes):
        return True
    inputs = [node.meta["example_value"] for node in nodes if node.op == "placeholder"]
    made = (leaf for node in nodes for leaf in tree_leaves(node.meta.get("example_value")))
    fake_mode = next((leaf.fake_mode for leaf in made if isinstance(leaf, FakeTensor)), nullcontext())
    with fake_mode:  # the capture has left them with the history that they had in the end
        without_history = [value.detach() if _has_history(value) else value for value in inputs]
    for given in (inputs, without_history):
        others = [value for at, value in enumerate(given) if at not in kept]
        watch = _Watch([value for value in others if isinstance(value, torch.Tensor)], given, draws_again)
        if _is_rehearsed(_Rehearsal(module, last, watch), given, fake_mode):
            return watch.found
    return True


def _has_history(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not (answers(value) and value.grad_fn is None)


def _is_rehearsed(rehearsal: _Rehearsal, inputs: list[Any], fake_mode: AbstractContextManager[Any]) -> bool:
    state = TorchState()
    try:
        with fake_mode, rehearsal.watch:
            try:
                rehearsal.run(*inputs)
            finally:  # here, and not under other dispatch modes than those that the graph switched it under
                state.restore()
    except _Enough:
        pass
    except Exception:
        return False
    return True


class _Enough(Exception):
    pass


class _Rehearsal(fx.Interpreter):
    """Numbers that a graph reads from tensors are what capture took them for. Ends with the `last` node by _Enough."""

    def __init__(self, module: fx.GraphModule, last: fx.Node | None, watch: _Watch) -> None:
        super().__init__(module)
        self.last = last
        self.watch = watch

    def run_node(self, n: fx.Node) -> Any:
        known = n.meta.get("example_value")
        if n.target in CHANGES:
            changed = self.fetch_args_kwargs_from_env(n)[0][0]
            self.watch.found |= any(changed is each for each in self.watch.all_inputs)
        is_number = isinstance(known, int | float) or n.target in (as_size, as_place, elements)
        found = known if is_number and n.op != "placeholder" else super().run_node(n)
        if n is self.last:
            raise _Enough
        return found


    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        function = IN_OTHER_WORDS.get(target, target) if isinstance(target, BuiltinFunctionType) else target
        return super().call_function(function, args, kwargs)


#: Operators that write into arguments without saying so in their schema.
_SILENT = frozenset({"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index"})


class _Watch(TorchDispatchMode):
    """Looks for writes into the storages of `inputs`, and for random numbers."""

    def __init__(self, inputs: list[Any], all_inputs: list[Any], may_draw: bool) -> None:
        super().__init__()
        self.all_inputs = all_inputs
        self.may_draw = may_draw
        self.storages = {value.untyped_storage()._cdata for value in inputs}
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        draws = torch.Tag.nondeterministic_seeded in func.tags and not self.may_draw
        self.found |= draws
        is_silent = func._schema.name.split("::")[1] in _SILENT
        for index, argument in enumerate(func._schema.arguments):
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            if is_written or is_silent and argument.name.startswith("running_"):
                value = args[index] if index < len(args) else kwargs.get(argument.name)
                tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
                self.found |= any(tensor.untyped_storage()._cdata in self.storages for tensor in tensors)
        return func(*args, **kwargs)
