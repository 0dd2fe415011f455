"""One compiled program: traced, cut in two, compiled, wrapped; and the variants of its backward."""

from __future__ import annotations

import logging
import operator
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from codegen import _C
from codegen.aot import wrapper
from codegen.aot.boxed import boxed
from codegen.aot.call import Call
from codegen.aot.facts import Traced, made_of, memory_of, overwritten, results_of
from codegen.aot.gradients import Gradients, under
from codegen.aot.inplace import write_in_place
from codegen.aot.inputs import counters, places, ways
from codegen.aot.levels import Again
from codegen.aot.numbers import Varying
from codegen.aot.partition import default_partition
from codegen.aot.recorder import Untraceable
from codegen.aot.savers import bits, left, passed
from codegen.aot.stages import Stages
from codegen.aot.trace import Decompositions, Program, trace, trace_again
from codegen.direct import direct
from codegen.progress import stage
from symbolic.gradients import Together
from symbolic.quick_graph import Graph
from symbolic.torch_state import TorchState, is_watched

log = logging.getLogger(__name__)

#: (function, read, released, kept), see `_C.Backward`.
Choice = tuple[Callable[..., Any], tuple[bool, ...], int, tuple[bool, ...]]
GraphCompiler = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def as_it_is(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A compiler that leaves the graph to ATen."""
    return direct(graph)


def in_place(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The same for a graph without gradients, which writes where the program did as far as nobody can tell."""
    write_in_place(graph)
    return direct(graph)


class Passes(Protocol):
    """What changes graphs on their way (see `codegen.passes`)."""

    def concern(self, stage: str, graph: fx.GraphModule) -> bool:
        """Whether it may change this one."""

    def __call__(self, stage: str, graph: fx.GraphModule) -> bool:
        """Changes the graph; answers whether it did."""


class NoPasses:
    def concern(self, stage: str, graph: fx.GraphModule) -> bool:
        return False

    def __call__(self, stage: str, graph: fx.GraphModule) -> bool:
        return False


@dataclass(frozen=True)
class Settings:
    """How programs are compiled. The compilers take (graph, example inputs) and answer with a function of the same
    inputs, `backward` with one of a list of them, which it may empty; `partition` cuts a joint graph (see
    `default_partition`); `decompositions`: OpOverload -> function. `mutations_inside`: without gradients, graphs write
    into inputs themselves, at their end, where that is safe. `suspended(function, *args)` calls what compiles while
    somebody's backward runs: away from the frame hook that may be active there."""

    forward: GraphCompiler = as_it_is
    backward: GraphCompiler = boxed
    inference: GraphCompiler = in_place
    partition: Callable[..., tuple[fx.GraphModule, fx.GraphModule]] = default_partition
    decompositions: Decompositions = field(default_factory=dict)
    mutations_inside: bool = False
    passes: Passes = NoPasses()
    name: str = "CompiledBackward"
    suspended: Callable[..., Any] = operator.call


def compile_program(
    program: Program, args: Sequence[Any], settings: Settings, original: Program | None = None,
    together: Sequence[Together] = (),
) -> Callable[..., Any]:
    """`program(*args) -> results` (both flat) as a function with the same effects and gradients.

    Good for all arguments with the properties of these (dtype, device, sizes and strides, requires_grad, who shares
    memory), under the grad mode of now. `original`: what passes made `program` of, if they did; that one can be
    differentiated as often as one likes. `together`: results that share a node which hands their gradients on. The
    answer's attribute `source` is the text of its Python; `stages` are `Stages`, all that it was made of.
    Raises Untraceable for what this stage can't say; nothing has been touched then.
    """
    with stage("differentiating"):
        call, traced = trace(program, args, settings.decompositions, settings.mutations_inside)
    original = original or program
    if not traced.carriers:
        joint = traced.joint
        with stage("passes"):
            settings.passes("inference", joint)
        with stage("inference"):
            forward = settings.inference(joint, _examples(joint))
        compiled = wrapper.write(traced, forward, len(args), ())
        return _staged(_lying_alike(compiled, original, call, args), traced, joint, None)
    with stage("passes"):
        settings.passes("joint", traced.joint)
    with stage("partition"):
        fw, bw = settings.partition(
            traced.joint, _examples(traced.joint), num_fwd_outputs=traced.num_forward, num_primals=traced.num_primals
        )
        _keep_sizes(fw, bw, traced)
        backwards = list(_backwards(fw, bw, program, original, call, traced, settings))
        kept = _keep_old_values(fw, traced)
    with stage("backward"):
        shared = _held_by_callers(fw, traced)
        ties = [backward.tie(kept, shared) for backward in reversed(backwards)]
    fw.meta["num_outputs"] = traced.num_forward
    with stage("passes"):
        settings.passes("forward", fw)
    with stage("forward"):
        forward = settings.forward(fw, _examples(fw))
    compiled = wrapper.write(traced, forward, len(args), ties, together)
    return _staged(_lying_alike(compiled, original, call, args), traced, fw, bw)


def _lying_alike(compiled: Any, program: Program, call: Call, args: Sequence[Any]) -> Any:
    """The program runs as it is for inputs that lie elsewhere in the memory of their base, or in another one, or count
    their writes together where these did not, or the other way round: no other property tells. So where it depends on
    which of them autograd lets nobody write."""
    if not call.groups and not call.as_made:
        return compiled
    known, made = places(call.groups, args), ways(args) if call.as_made else None

    def checked(*args: Any) -> tuple[Any, ...]:
        alike = all(one is None or one == other for one, other in zip(known, places(call.groups, args), strict=True))
        alike = alike and counters(call.groups, list(args)) == call.counters
        return tuple((compiled if alike and (made is None or made == ways(args)) else program)(*args))

    checked.source = compiled.source  # type: ignore[attr-defined]
    return checked


def _staged(
    compiled: Any, traced: Traced, forward: fx.GraphModule, backward: fx.GraphModule | None
) -> Callable[..., Any]:
    compiled.stages = Stages(traced, forward, backward, compiled.source)
    return compiled


def _examples(graph: fx.GraphModule) -> list[Any]:
    return [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]


def _backwards(
    fw: fx.GraphModule, bw: fx.GraphModule, program: Program, original: Program, call: Call, traced: Traced,
    settings: Settings,
) -> Iterator[_Backward]:
    """The backward of each level, cut out of that of all; the last one first."""
    given = bw.graph.find_nodes(op="placeholder")
    first = len(given) - sum(len(level.outputs) for level in traced.levels)
    saved, tangents = given[:first], given[first:]
    places = {node: at for at, node in enumerate(saved)}
    always = {at for node, at in places.items() if len(traced.levels) == 1 or not _is_tensor(node)}
    names = [node.name for node in results_of(fw)[traced.num_forward :]]
    results = results_of(bw)
    state = TorchState()  # a backward may run under another
    lock = threading.RLock()  # of those who make variants, as all have the same stand-ins: who finds one does not wait
    for number, level in reversed(list(enumerate(traced.levels))):
        mine, results = results[: level.num_gradients], results[level.num_gradients :]
        changes, tangents = tangents[: len(level.outputs)], tangents[len(level.outputs) :]
        used = tuple(sorted(always.union(places[node] for node in needed_for(mine) if node in places)))
        graph = bw if len(traced.levels) == 1 else extract(bw, [*(saved[at] for at in used), *changes], mine)
        used_names = tuple(names[at] for at in used)
        yield _Backward(program, original, call, traced, settings, state, lock, number, graph, used, used_names)


class _Backward:
    """The backward of a level, and its variants, which are made when they are needed."""

    def __init__(
        self, program: Program, original: Program, call: Call, traced: Traced, settings: Settings, state: TorchState,
        lock: threading.RLock, number: int, graph: fx.GraphModule, used: tuple[int, ...], names: tuple[str, ...],
    ) -> None:
        self.program = program
        self.original = original
        self.call = call
        self.traced = traced
        self.settings = settings
        self.state = state
        self.number = number
        self.level = traced.levels[number]
        self.graph = graph
        self.used = used  # of what is saved
        self.names = names  # of these, as in the joint graph
        self.variants: dict[Any, Any] = {}
        self.choices: dict[Any, Choice] = {}
        self.lock = lock
        self.everything: Callable[[list[Any]], tuple[Any, ...]] | None = None
        self.made_of: tuple[int, ...] = ()  # of each saved tensor: the gradients that are computed from it, as bits
        self.saved_by: tuple[int, ...] = ()  # and the savers that eager code looks at it in, if it may be written

    def tie(self, kept: Sequence[fx.Node], shared: Container[int]) -> wrapper.Tie:
        """`shared`: memories of which the program's caller may hold tensors."""
        computed = made_of(self.graph, len(self.used))
        if not self.level.raises:
            self.everything = self._compiled(self.graph, (True,) * len(self.level.outputs))
        tensors = [at for at in self.used if isinstance(kept[at].meta["val"], torch.Tensor)]
        memories = [memory_of(kept[at]) for at in tensors]
        outside = tuple(memory in shared for memory in memories)
        self.made_of = computed[: len(tensors)]
        savers: dict[Any, int] = {}
        for number, saver in enumerate(self.level.savers):
            for memory in saver.memories:
                savers[memory] = savers.get(memory, 0) | 1 << number
        self.saved_by = tuple(
            savers.get(memory, 0) if is_outside else 0
            for memory, is_outside in zip(memories, outside, strict=True)
        )
        lasts = self.level.keeps or left(self.level.savers, self.level.leads, -1)
        whole = None if lasts else self.everything  # it lets go of all
        backward = _C.Backward(self.settings.name, whole, self.choose, outside, self.level.nodes)
        first = self.traced.num_forward
        places = [first + at for at in self.used]
        return wrapper.Tie(backward, tuple(places[: len(tensors)]), tuple(places[len(tensors) :]))

    def _compiled(self, graph: fx.GraphModule, defined: Sequence[bool]) -> Callable[..., Any]:
        """A backward of a list of what is saved, extra and the defined tangents, these brought to the strides of the
        trace. It may empty the list."""
        self.settings.passes("backward", graph)
        run = self.settings.backward(graph, _examples(graph))
        outputs = [output for output, wanted in zip(self.level.outputs, defined, strict=True) if wanted]
        tangents = [(at - len(outputs), _fixed(output.strides)) for at, output in enumerate(outputs)]

        def backward(given: list[Any]) -> tuple[Any, ...]:
            for at, strides in tangents:
                if given[at].stride() != strides or given[at].is_conj() or given[at].is_neg():
                    given[at] = _restrided(given[at], strides)
            return tuple(run(given))

        return backward

    # --- gradients that are missing, not wanted, differentiated again, or not there any more --------------------------
    def choose(self, defined: tuple[bool, ...], needed: tuple[bool, ...], released: int, has_history: bool) -> Choice:
        """The function for these gradients (see `_C.Backward`). Raises RuntimeError as eager code does where something
        that was saved is not there any more."""
        key = (defined, needed, released, has_history)
        if key not in self.choices:
            self.choices[key] = self._choose(*key)
        return self.choices[key]

    def _choose(self, defined: tuple[bool, ...], needed: tuple[bool, ...], released: int, has_history: bool) -> Choice:
        savers, gradients = self.level.savers, bits(needed)
        savers_passed = passed(savers, bits(defined), gradients)
        if savers_passed & released:
            raise RuntimeError(_C.backward_twice)
        looked_at = tuple(bool(by & savers_passed) for by in self.saved_by)
        if has_history:
            read = tuple(by or bool(of & gradients) for by, of in zip(looked_at, self.made_of, strict=True))
            function: Callable[..., Any] = partial(self.differentiable, defined, needed, sum(read))
            read += self._looked_at_again(savers_passed, gradients)
        else:
            function, read = self.some(defined, needed, looked_at)
        released |= savers_passed
        still = left(savers, self.level.leads, released)
        kept = (bool(by & ~released or of & still) for by, of in zip(self.saved_by, self.made_of, strict=True))
        return function, read, released if still else -1, tuple(kept)

    def _looked_at_again(self, savers_passed: int, gradients: int) -> tuple[bool, ...]:
        """Of what derivatives of these gradients start from: which of it these depend on, or eager code looks at."""
        traced, level = self.traced, self.level
        first = traced.num_forward + sum(above.num_gradients for above in traced.levels[self.number + 1 :])
        primals = traced.joint.graph.find_nodes(op="placeholder")[: traced.num_primals]
        made = made_of(traced.joint, traced.num_primals)
        memories = {
            memory for at, saver in enumerate(level.savers) if savers_passed >> at & 1 for memory in saver.memories
        }
        looked_at = (
            bool(of >> first & gradients) or (_is_tensor(node) and memory_of(node) in memories)
            for node, of in zip(primals, made, strict=True)
        )
        return (*looked_at, *[True] * (traced.num_randoms + len(level.held) + len(level.foreign)))

    def some(
        self, defined: tuple[bool, ...], needed: tuple[bool, ...], looked_at: tuple[bool, ...]
    ) -> tuple[Callable[..., Any], tuple[bool, ...]]:
        """A backward of a graph of its own, with nothing in it that these gradients do not need, and which of the saved
        tensors it takes."""
        for each in self.level.raises:
            if defined[each.output] and needed[each.gradient]:
                raise RuntimeError(each.message)
        if self.everything is not None and all(defined) and all(needed):
            return self.everything, (True,) * len(looked_at)
        found: tuple[Callable[..., Any], tuple[bool, ...]] = self._made_once(
            (defined, needed), lambda: self._compile_some(defined, needed, looked_at)
        )
        return found

    def _made_once(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self.variants.get(key)
        if found is None:
            with self.lock:
                found = self.variants.get(key)
                if found is None:
                    found = self.variants[key] = self.settings.suspended(make)
        return found

    def _compile_some(
        self, defined: tuple[bool, ...], needed: tuple[bool, ...], looked_at: tuple[bool, ...]
    ) -> tuple[Callable[..., Any], tuple[bool, ...]]:
        graph = self._variant(defined, needed)
        saved = graph.graph.find_nodes(op="placeholder")[: len(looked_at)]
        read = tuple(bool(node.users) or is_looked_at for node, is_looked_at in zip(saved, looked_at, strict=True))
        for node, is_read in zip(saved, read, strict=True):
            if not is_read:
                graph.graph.erase_node(node)
        graph.recompile()
        return self._compiled(graph, defined), read

    def _variant(self, defined: tuple[bool, ...], needed: tuple[bool, ...]) -> fx.GraphModule:
        with under(self.state):
            level = Again(self.level, self.number, defined, needed)
            again = trace_again(self.program, self.call, self.settings.decompositions, level)
        self.settings.passes("joint", again.joint)
        nodes = {node.name: node for node in again.joint.graph.nodes}
        placeholders = again.joint.graph.find_nodes(op="placeholder")[self.traced.num_primals :]
        tangents = [t for t, is_defined in zip(placeholders, defined, strict=True) if is_defined]
        given = [nodes[name] for name in self.names] + tangents
        results = results_of(again.joint)[again.num_forward :]
        return extract(again.joint, given, [r if wanted else None for r, wanted in zip(results, needed, strict=True)])

    def differentiable(
        self, defined: tuple[bool, ...], needed: tuple[bool, ...], num_saved: int, given: list[Any]
    ) -> tuple[Any, ...]:
        """The backward as a program of inputs, random numbers, cuts, outputs and tangents, compiled like any other.

        Derivatives of any order come of that: its own backward may be asked for its history in turn. It runs as it is
        where it can't be compiled, which it is for each geometry of these that comes.
        """
        del given[:num_saved]  # they were looked at for the user's hooks, and for writes
        args = tuple(map(_resolved, given))
        if is_watched():  # tangents may be batches, or have tangents themselves
            return tuple(self._gradients(defined, needed)(*args))
        args = _apart(args)

        def make() -> Callable[..., Any]:
            program, examples = self._gradients(defined, needed), [_example(value) for value in args]
            try:
                return compile_program(program, examples, self.settings)
            except Untraceable as reason:
                log.info("a backward with a history runs as it is: %s", reason)
                return program

        return tuple(self._made_once((defined, needed, tuple(map(_looks, args))), make)(*args))

    def _gradients(self, defined: tuple[bool, ...], needed: tuple[bool, ...]) -> Gradients:
        return Gradients(
            self.original, self.call, self.traced, self.number, self.state, defined, needed,
            self.settings.decompositions,
        )


def _resolved(value: Any) -> Any:
    """A tensor without lazy bits, with its history."""
    return value.resolve_conj().resolve_neg() if isinstance(value, torch.Tensor) else value


def _apart(values: Iterable[Any]) -> tuple[Any, ...]:
    """Each tensor once: what is compiled for one that comes twice, as tangents may, is wrong for two."""
    found: list[Any] = []
    seen: set[int] = set()
    for value in values:
        if isinstance(value, torch.Tensor) and id(value) in seen:
            value = torch.ops.aten.alias.default(value)
        seen.add(id(value))
        found.append(value)
    return tuple(found)


def _looks(value: Any) -> Any:
    """What a program is compiled for."""
    value = _example(value)
    return (value.shape, value.stride(), value.requires_grad) if isinstance(value, torch.Tensor) else value


def _example(value: Any) -> Any:
    """Floats vary; sizes are constants."""
    return Varying(float) if type(value) is float else value


# --- graphs -----------------------------------------------------------------------------------------------------------
def needed_for(results: Sequence[Any], given: Container[fx.Node] = ()) -> set[fx.Node]:
    """The nodes that these results are computed by, down to those `given`, which are left out."""
    needed: set[fx.Node] = set()
    waiting = [node for node in results if isinstance(node, fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in given and node not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    return needed


def extract(joint: fx.GraphModule, given: Sequence[fx.Node], results: Sequence[Any]) -> fx.GraphModule:
    """The part of a graph that computes `results` (nodes, or None) from `given`, which become its placeholders."""
    graph = Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in given:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    needed = needed_for(results, copies)
    for node in sorted(needed):  # as they lie in their graph
        if node.op == "placeholder":
            raise Untraceable(f"a backward that needs {node.name}, which the forward did not save")
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(None if node is None else copies[node] for node in results))
    return _LazyGraphModule(joint, graph, "Backward")


def _keep_sizes(fw: fx.GraphModule, bw: fx.GraphModule, traced: Traced) -> None:
    """Saves the sizes that vary: a backward of some outputs alone may ask for more of them than that of all."""
    results = results_of(fw)
    end = traced.num_forward - traced.num_randoms
    saved = results[traced.num_forward :]
    more = [node for node in results[end - traced.num_sizes : end] if node not in saved]
    if not more:
        return
    fw.graph.output_node().args = ((*results, *more),)
    with bw.graph.inserting_before(bw.graph.find_nodes(op="placeholder")[len(saved)]):
        for node in more:
            bw.graph.placeholder(node.name).meta = dict(node.meta)
    fw.recompile()
    bw.recompile()


def _keep_old_values(fw: fx.GraphModule, traced: Traced) -> list[fx.Node]:
    """The saved nodes; inputs that are written after the forward, and views of these, are saved as copies."""
    output = fw.graph.output_node()
    results = list(results_of(fw))
    written = overwritten(traced)
    for at in range(traced.num_forward, len(results)):
        node = results[at]
        if isinstance(node.meta["val"], torch.Tensor) and memory_of(node) in written:
            with fw.graph.inserting_before(output):
                results[at] = fw.graph.call_function(torch.ops.aten.clone.default, (node,))
            results[at].meta = {**node.meta, "val": _like(node.meta["val"])}
    output.args = (tuple(results),)
    fw.recompile()
    return results[traced.num_forward :]


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta["val"], torch.Tensor)


def _like(fake: torch.Tensor) -> torch.Tensor:
    with fake.fake_mode:  # type: ignore[attr-defined]
        return torch.empty_like(fake)


def _held_by_callers(fw: fx.GraphModule, traced: Traced) -> set[int]:
    """The memories of the tensors that the program's caller may hold."""
    results = results_of(fw)[: traced.num_forward - traced.num_randoms]
    seen = [*fw.graph.find_nodes(op="placeholder"), *results]
    return {memory_of(node) for node in seen if _is_tensor(node)}


def _fixed(strides: tuple[Any, ...]) -> tuple[int, ...] | None:
    """None where sizes are symbols: `tangent_strides` are those of a contiguous tensor then."""
    return strides if all(isinstance(stride, int) for stride in strides) else None


def _restrided(tensor: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    if strides is None:
        return tensor.contiguous()
    order = sorted(range(tensor.dim()), key=strides.__getitem__, reverse=True)
    # Nothing is written into: vmap may follow the tangent (`is_grads_batched`).
    made = tensor.permute(order).clone(memory_format=torch.contiguous_format)
    return made.permute([order.index(dim) for dim in range(tensor.dim())])
