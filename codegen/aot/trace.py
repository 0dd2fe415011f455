"""Runs a program on stand-ins, and its backward after it; answers with the joint graph and what was found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._pytree import tree_map

from codegen.aot import hooks, leaves
from codegen.aot.facts import (
    Base,
    BaseOf,
    Bump,
    Changed,
    Constant,
    Custom,
    Data,
    Input,
    Level,
    Link,
    OutputOf,
    Place,
    Recipe,
    Resized,
    Traced,
    Update,
    Value,
    View,
)
from codegen.aot.inputs import (
    FRAGILE,
    RELATED,
    Shared,
    base_of,
    claims,
    count_together,
    counters,
    is_fragile,
    joined,
    member,
    placed,
    shared,
    stand_in,
    stand_in_again,
)
from codegen.aot.levels import Again, Seen, differentiate, edge_of, survey
from codegen.aot.memory import TRANSPARENT, Alias, Fails, Memory, SharedInputs, Untraceable
from codegen.aot.numbers import Varying
from codegen.aot.quiet import quiet
from codegen.aot.recorder import NUMBERS, Recorder, refusal
from codegen.aot.views import Step, place

Program = Callable[..., Sequence[Any]]
Decompositions = Mapping[Any, Callable[..., Any]]


@dataclass(frozen=True)
class Call:
    """How a program is called: stand-ins or constants by position, and the groups of inputs that share written memory
    with a stand-in for each group's base, all as they are before the program runs. `again` says which positions have
    the tensor of an earlier position, and `counters` which members of flat groups count their writes together with an
    earlier one; `differentiated` are those of them that get gradients of their own, `fragile` inputs that autograd lets
    nobody write, `claimants` those that say they require a gradient and get none."""

    fake_mode: FakeTensorMode
    args: tuple[Any, ...]
    groups: tuple[Shared, ...] = ()
    bases: tuple[torch.Tensor, ...] = ()
    fragile: frozenset[int] = frozenset()
    viewed: frozenset[int] = frozenset()
    claimants: frozenset[int] = frozenset()
    again: Mapping[int, int] = field(default_factory=dict)
    counters: Mapping[int, int] = field(default_factory=dict)
    differentiated: frozenset[int] = frozenset()

    @property
    def parameters(self) -> tuple[int, ...]:
        members = {*self.again, *(i for group in self.groups for i in group.members)} - self.differentiated
        varying = (torch.Tensor, *NUMBERS, Varying)
        return tuple(i for i, a in enumerate(self.args) if isinstance(a, varying) and i not in members)


def describe(args: Sequence[Any], groups: tuple[Shared, ...] = ()) -> Call:
    """Stand-ins for real arguments (or for fakes, all of one mode). Raises Untraceable for unusual tensors."""
    mode = next((a.fake_mode for a in args if isinstance(a, FakeTensor)), None)
    mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [stand_in(mode, a) if isinstance(a, torch.Tensor) else a for a in args]
    counted = counters(groups, list(args))
    for i, at in counted.items():
        fakes[i] = stand_in(mode, args[i], fakes[at])
    bases = tuple(stand_in(mode, base_of(group, list(args))) for group in groups)
    fragile = frozenset(i for i, a in enumerate(args) if is_fragile(a))
    bases_of_others = {id(a._base) for a in args if isinstance(a, torch.Tensor) and not a.is_inference()}
    viewed = frozenset(i for i, a in enumerate(args) if id(a) in bases_of_others - {id(None)})
    claimants = frozenset(i for i, a in enumerate(args) if claims(a))
    first: dict[int, int] = {}
    tensors = ((i, a) for i, a in enumerate(args) if isinstance(a, torch.Tensor))
    again = {i: at for i, a in tensors if (at := first.setdefault(id(a), i)) != i}
    differentiated = frozenset(i for g in groups if g.flat for i in g.members if args[i].requires_grad)
    return Call(mode, tuple(fakes), groups, bases, fragile, viewed, claimants, again, counted, differentiated)


def _fresh(call: Call) -> Call:
    """The call with stand-ins that a program may change."""
    args = tuple(stand_in_again(call.fake_mode, a) if isinstance(a, torch.Tensor) else a for a in call.args)
    return replace(call, args=args, bases=tuple(stand_in_again(call.fake_mode, base) for base in call.bases))


def trace(
    program: Program, args: Sequence[Any], decompositions: Decompositions, inside: bool = False
) -> tuple[Call, Traced]:
    """The joint graph of `program(*args) -> results` (flat), with gradients if an input requires one before or after.

    `inside`: where there are no gradients, the graph itself ends by writing into inputs, as far as that is all that
    happens to them.

    `args` are real tensors or fakes of one mode, numbers and constants; they are not touched. Raises Untraceable.
    """
    groups: tuple[Shared, ...] = ()
    while True:
        try:
            call = describe(args, groups)
        except RuntimeError as error:
            raise Untraceable(f"an input of which autograd answers no question: {error}") from error
        tracer = _Tracer(program, call, decompositions, inside)
        known = _count_known(call)
        try:
            traced = tracer.run()
            if _count_known(call) == known:
                return call, traced
            # A trace that finds out about sizes has other nodes than the next.
        except SharedInputs as found:
            members = tracer.positions(found.inputs)
            others = tuple(group for group in groups if members.isdisjoint(group.members))
            group = shared(sorted(members), list(args), found.flat)
            if group in groups:
                raise Untraceable("a look at more than there is of an input's memory") from None
            groups = (*others, group)


def _count_known(call: Call) -> int:
    """How many symbols are known to be something else."""
    env = call.fake_mode.shape_env
    return 0 if env is None else len(env.replacements)


def trace_again(
    program: Program, call: Call, decompositions: Decompositions, again: Again
) -> Traced:
    """The joint graph again, with the gradients of one level; its forward part is the same."""
    return _Tracer(program, call, decompositions).run(again)


@contextmanager
def _refusing(recorder: Recorder) -> Iterator[None]:
    """Errors become Untraceable: `Fails` where the program itself may have raised them. Where numbers have no value yet
    or sizes vary, only a trace may meet them."""
    try:
        yield
    except (Untraceable, SharedInputs):
        raise
    except Exception as error:
        varies = recorder.has_numbers or recorder.fake_mode.shape_env is not None
        said = Untraceable(f"something depends on values: {error}") if varies else Fails(f"it raises {error!r}")
        raise refusal(error) or said from error


@contextmanager
def _sizes_kept(values: Sequence[Any]) -> Iterator[None]:
    """Storages of stand-ins have the sizes again that they had before: those of the next trace share them."""
    storages = [value.untyped_storage() for value in values if isinstance(value, torch.Tensor)]
    sizes = [storage.nbytes() for storage in storages]
    try:
        yield
    finally:
        for storage, size in zip(storages, sizes, strict=True):
            if isinstance(size, int) and storage.nbytes() != size:
                storage.resize_(size)


def flat_arguments(
    call: Call, parameters: Sequence[Any], bases: Sequence[torch.Tensor], members: Sequence[Any] | None = None
) -> list[Any]:
    """The program's arguments from what comes in: members of groups become views of their base, those of flat groups
    only where they are not given as `members` (by position)."""
    flat = list(call.args)
    for i, value in zip(call.parameters, parameters, strict=True):
        flat[i] = value
    for group, base, known in zip(call.groups, bases, call.bases, strict=True):
        for i in group.members:
            like = call.args[i]
            if i == group.base:
                flat[i] = base
            elif not group.flat:
                with torch.enable_grad():
                    flat[i] = member(base, known, like)
            elif members is not None:
                flat[i] = members[i]
            else:
                made = placed(flat[call.counters[i]] if i in call.counters else base.data, like)
                with torch.enable_grad():
                    flat[i] = joined(flat[i], made) if i in call.differentiated else made
    for i, at in call.again.items():
        flat[i] = flat[at]
    return flat


@dataclass(eq=False)
class _Before:
    """A stand-in with what it was before the program ran."""

    fake: torch.Tensor
    version: int
    requires_grad: bool
    grad_fn: Any
    edge: GradientEdge | None

    @classmethod
    def of(cls, fake: torch.Tensor) -> _Before:
        return cls(fake, _version(fake), fake.requires_grad, fake.grad_fn, edge_of(fake))


class _Tracer:
    def __init__(
        self, program: Program, call: Call, decompositions: Decompositions, inside: bool = False
    ) -> None:
        self.program = program
        self.call = call = _fresh(call)
        self.inside = inside
        self.last_writes: list[tuple[fx.Node, fx.Node]] = []  # an input, its new value
        self.recorder = Recorder(call.fake_mode, decompositions)
        self.recorder.stack_trace = getattr(program, "stack_trace", self.recorder.stack_trace)
        self.by_node: dict[fx.Node, int] = {}
        self.known: dict[int, Input | Base] = {}  # id of a stand-in -> what it stands for
        self.placeholders: list[_Before | None] = []
        self.results: list[fx.Node] = []
        self.members: list[_Before] = []  # of flat groups
        self.data: dict[int, Data] = {}  # by id of the fake
        self.bases: dict[int, Value] = {}  # the results that are whole memories, by id of these
        self.turned: set[int] = set()  # memories that these show in another geometry
        self.targets: dict[fx.Node, Input | Base] = {}  # what the placeholders stand for
        self.resized: list[Resized] = []
        self.carriers: list[Seen] = []
        self.leaves: set[Input | Base] = set()  # inputs that come to require a gradient

    def positions(self, nodes: list[fx.Node]) -> set[int]:
        """Which inputs these nodes are, or the bases of."""
        places = [self.targets[node] for node in nodes]
        return {i for place in places for i in self._inputs_of(place)}

    def run(self, again: Again | None = None) -> Traced:
        call = self.call
        with ExitStack() as stack:
            stack.enter_context(_sizes_kept([*call.args, *call.bases]))
            stack.enter_context(_refusing(self.recorder))
            stack.enter_context(quiet())
            stack.enter_context(self.recorder.draws.counting())
            stack.enter_context(call.fake_mode)
            members = {i for group in call.groups if group.flat for i in group.members}
            for i in call.parameters:
                node = self._placeholder(f"primals_{i + 1}", call.args[i], Input(i), i in members)
                self.by_node[node] = i
            for number, base in enumerate(call.bases):
                self._placeholder(f"primals_base_{number + 1}", base, Base(number))
            stack.enter_context(self.recorder)
            flat = flat_arguments(call, [node.meta["val"] for node in self.by_node], call.bases, call.args)
            for group, base in zip(call.groups, call.bases, strict=True):
                for i in group.members:
                    if group.flat:  # they already share memory
                        self.recorder.share(base, flat[i], place(flat[i], base))
                        self.members.append(_Before.of(flat[i]))
                    self.known.setdefault(id(flat[i]), Input(i))
            known = [value for value in (*flat, *call.bases) if isinstance(value, torch.Tensor)]
            free = [fake for fake in known if not fake.requires_grad]
            with leaves.Switches({id(flat[i]) for i in call.claimants}) as switches:
                results = list(self.program(*flat))
            leaves.check_views([*known, *results])
            self.leaves = {self.known[id(fake)] for fake in free if leaves.is_leaf(fake)}
            self._check_viewed()
            training = len(free) < len(known) or bool(self.leaves)
            self._check_leaves(results, training)
            self.recorder.draws.check()
            hooks.check([*flat, *results], [alias.tensor for alias in self.recorder.aliases.values()])
            outputs = self._outputs(results)
            updates = self._updates(flat)
            bumps = tuple(self._bumps(results, outputs))
            randoms = list(self.recorder.randoms) if training else []
            sizes = self.recorder.symbols.sizes() if training else []
            gradients: list[fx.Node | None] = []
            levels: tuple[Level, ...] = ()
            seen = self._seen(flat, results)
            inputs = {at: p.edge for at, p in enumerate(self.placeholders) if p is not None and p.edge is not None}
            if training and self.carriers:
                graph = survey(seen, inputs)
                links = [[self._link(node._input_metadata[n]) for node, n in part.links] for part in graph.parts]
                with self.recorder.during("backward"), self._left_alone():
                    levels, gradients = differentiate(self.recorder, graph, inputs, links, again)
                self._check_ends(updates, levels)
            sizes = sizes if any(len(level.outputs) > 1 for level in levels) else []
            forward = [*self.results, *sizes, *randoms]
        for placeholder, node in self.last_writes:
            written = self.recorder.graph.call_function(torch.ops.aten.copy_.default, (placeholder, node))
            written.meta.update(placeholder.meta)
        self.recorder.graph.output((*forward, *gradients))
        joint = _LazyGraphModule(self.recorder.attributes, self.recorder.graph, "Joint")
        return Traced(
            joint, call.parameters, call.groups, len(forward), len(sizes), len(randoms), outputs, updates,
            tuple(self.resized), bumps, levels,
            tuple((each.of, each.index is not None) for each in seen), self.recorder.redrawn,
            frozenset(self.known[key] for key in switches.seen & self.known.keys()),
        )

    def _check_viewed(self) -> None:
        """Views of an input that comes to require a gradient do so, too."""
        for target in self.leaves & {Input(i) for i in self.call.viewed}:
            if any(group.flat for group in self.call.groups if target.index in group.members):
                raise Untraceable(RELATED)
            fake = self.call.args[target.index]
            raise SharedInputs(self.recorder.alias(fake).memory.inputs)

    def _check_leaves(self, results: list[Any], training: bool) -> None:
        """Refuses results that need gradients though no input does, and leaves: autograd is told of inputs only."""
        for result in results:
            if isinstance(result, FakeTensor) and result.requires_grad and id(result) not in self.known:
                if (result.is_leaf or not training) and edge_of(result) is not None:
                    raise Untraceable("a result that needs gradients for itself")

    def _placeholder(self, name: str, value: Any, known: Input | Base, is_member: bool = False) -> fx.Node:
        node = (self.recorder.add_placeholder if is_member else self.recorder.add_input)(name, value)
        before = None
        if isinstance(value, torch.Tensor):
            before = _Before.of(value)
            self.known[id(value)] = known
            self.targets[node] = known
        self.placeholders.append(before)
        return node

    def _check_ends(self, updates: Sequence[Update], levels: Sequence[Level]) -> None:
        """Refuses results that share a node with others of which alone a gradient comes to where it raises."""
        ends = {i for update in updates if update.ends for i in self._inputs_of(update.target)}
        for level in levels if ends else ():
            cut = {i for each in level.cuts if isinstance(each, (Input, Base)) for i in self._inputs_of(each)}
            if len(level.outputs) > 1 and not cut.isdisjoint(ends):
                raise Untraceable("aten.set_.source_Tensor of a tensor that gets a gradient")

    # --- what the forward left ----------------------------------------------------------------------------------------
    def _result(self, node: fx.Node, fake: Any = None, of: Any = None) -> int:
        """A result of the forward graph; it carries gradients if `fake` does."""
        index = len(self.results)
        self.results.append(node)
        if isinstance(fake, torch.Tensor) and fake.requires_grad:
            self.carriers.append(Seen(of, fake, index))
        return index

    def _seen(self, flat: list[Any], results: list[Any]) -> list[Seen]:
        """What the caller can see that has a gradient, carriers first."""
        inputs = ((place, fake) for before in self.placeholders if before is not None
                  for fake in [before.fake] for place in [self.known[id(fake)]])
        members = ((Input(i), flat[i]) for group in self.call.groups for i in group.members)
        outputs = ((OutputOf(at), result) for at, result in enumerate(results) if isinstance(result, FakeTensor))
        others: list[tuple[Place, torch.Tensor]] = [*inputs, *members, *outputs]
        return self.carriers + [Seen(place, fake) for place, fake in others if fake.requires_grad]

    @contextmanager
    def _left_alone(self) -> Iterator[None]:
        """Raises Untraceable for a backward that writes what was there before it, or the gradients that it is given:
        each run of it would find what the last one left."""
        memories = self.recorder.memories
        before = {id(memory): memory.writes for memory in memories.values()}
        yield
        for memory in memories.values():
            if memory.writes != before.get(id(memory), 0) and (memory.inputs or id(memory) in before):
                raise Untraceable("a backward that writes what it was given or what it has kept")

    def _updates(self, flat: list[Any]) -> tuple[Update, ...]:
        found: list[Update] = []
        members = {id(before.fake) for before in self.members}
        known = [b for b in self.placeholders if b is not None and id(b.fake) not in members] + self.members
        fragile: set[int] = set()
        if torch.is_grad_enabled():
            inputs = (flat[i] for i in self.call.fragile)
            fragile = {id(self.recorder.alias(fake).first.memory) for fake in inputs if fake.requires_grad}
        inside = self.inside and not self.carriers and not any(map(_tracked, known))
        for before in known:
            fake = before.fake
            target = self.known[id(fake)]
            alias = self.recorder.alias(fake)
            steps = alias.steps[alias.made :]
            at = self.call.counters.get(target.index) if isinstance(target, Input) else None
            counter = None if at is None else Input(at)
            versions = _version(fake) - before.version - self._counted_by_members(target, flat)
            ends = alias.by_set and type(fake.grad_fn).__name__ == "NotImplemented"
            tracked = _tracked(before) and not ends
            detached = before.requires_grad and not fake.requires_grad
            later = target in self.leaves
            part = any(step.func is torch.ops.aten.as_strided.default for step in steps)
            memory = alias.first.memory
            if part and tracked and alias.memory.writes:
                raise Untraceable("as_strided_() of a written input that gets a gradient")
            if part and tracked and len(alias.memory.inputs) > 1:
                raise SharedInputs(alias.memory.inputs)
            if detached and self.call.fragile:
                raise Untraceable("requires_grad_(False) of an input")
            if versions and id(memory) in fragile:
                raise Untraceable(FRAGILE)
            if tracked and not self.call.fragile.isdisjoint(self._inputs_of(target)):
                raise Untraceable(FRAGILE)
            is_member = id(fake) in members
            if is_member and tracked and self._is_related(target.index):
                raise Untraceable(RELATED)
            if not is_member:
                self._resize(target, memory)
            data, left = None, None
            if alias.former is not None:
                if torch.is_inference_mode_enabled() and not alias.by_set:
                    raise Untraceable("`.data = ` in inference mode")
                # Of a view autograd asks where its gradient goes by its new geometry.
                asks = torch.is_grad_enabled() or self.carriers
                if versions and before.grad_fn is not None and asks and not ends:
                    raise Untraceable("a tensor with a gradient that is written where it came to lie")
                data = self._lies_at(alias)
                if memory.writes and not is_member:
                    left = self._result(self._whole(memory))
            written = alias.memory.writes > 0 and (tracked or not (is_member or data))  # of a flat group the base is
            if written or steps or tracked or detached or versions or data or later:
                value = None
                kept = inside and written and isinstance(target, Input) and not steps and memory.born == memory.size
                if kept:
                    self.last_writes.append((alias.memory.inputs[0], self.recorder.read(fake)))
                elif written:
                    # What a geometry in the end doesn't show is written, too.
                    node = self.recorder.read(fake) if tracked else self._whole(alias.memory)
                    value = self._result(node, fake if tracked else None, target)
                where = (data, left, alias.by_set, ends)
                flags = (tracked, detached, later)
                found.append(Update(target, *where, self._plain(steps), value, *flags, versions, counter, kept))
        for group in self.call.groups:
            for i in group.members:
                alias = self.recorder.alias(flat[i])
                steps = alias.steps[alias.made :]
                if i != group.base and not group.flat and alias.former is not None:
                    raise SharedInputs(alias.first.memory.inputs, flat=True)
                if i == group.base or group.flat:
                    continue
                later = Input(i) in self.leaves
                if steps or later:
                    found.append(Update(Input(i), steps=self._plain(steps), requires_grad=later, versions=len(steps)))
        return tuple(found)

    def _whole(self, memory: Memory) -> fx.Node:
        """The value of a memory, as much of it as there was before or is at the end."""
        root, final = self.recorder.root(memory), memory.storage.nbytes()
        if not isinstance(memory.size, int) or memory.size == max(memory.born, final):
            return root
        length = max(memory.born, final) // root.meta["val"].element_size()
        return self.recorder.emit(torch.ops.aten.slice.Tensor, root, 0, 0, length)

    def _resize(self, target: Input | Base, memory: Memory) -> None:
        """What became of the size of an input's storage."""
        size = memory.storage.nbytes()
        if isinstance(size, int) and size != memory.born:
            if size > memory.born and isinstance(target, Input):
                raise SharedInputs(memory.inputs, flat=True)
            self.resized.append(Resized(target, size, size > memory.born))

    def _lies_at(self, alias: Alias) -> Recipe:
        """Where a tensor has come to lie."""
        memory, steps = alias.memory, self._plain(alias.steps[: alias.made])
        if memory.outside:
            raise Untraceable("a tensor whose data became that of a tensor from elsewhere")
        if id(memory) in self.turned:
            raise Untraceable("a tensor whose data became that of a result with changed metadata")
        if memory.inputs:
            return View(self.targets[memory.inputs[0]], steps, False)
        if id(memory) not in self.bases:
            self.bases[id(memory)] = Value(self._result(self.recorder.root(memory)))
        return View(self.bases[id(memory)], steps, False)

    def _is_related(self, member: int) -> bool:
        return any(group.related for group in self.call.groups if member in group.members)

    def _counted_by_members(self, target: Input | Base, flat: list[Any]) -> int:
        """The changes of metadata by other members of a group: these count for its base, too."""
        if isinstance(target, Input) or self.call.groups[target.index].flat:
            return 0
        group = self.call.groups[target.index]
        aliases = [self.recorder.alias(flat[i]) for i in group.members if i != group.base]
        return sum(len(alias.steps) - alias.made for alias in aliases)

    def _inputs_of(self, target: Input | Base) -> tuple[int, ...]:
        return (target.index,) if isinstance(target, Input) else self.call.groups[target.index].members

    def _outputs(self, results: list[Any]) -> tuple[Recipe, ...]:
        aliases = {
            id(r): self.recorder.alias(r) for r in results if isinstance(r, FakeTensor) and id(r) not in self.known
        }
        users: dict[int, int] = {}
        for alias in aliases.values():
            users[id(alias.memory)] = users.get(id(alias.memory), 0) + 1
        made: dict[int, Recipe] = {}  # by id of the result
        bases = self.bases

        def recipe(at: int, result: Any) -> Recipe:
            if isinstance(result, NUMBERS):
                number = self.recorder.number(result)
                return Value(self._result(number)) if isinstance(number, fx.Node) else Constant(number)
            if not isinstance(result, FakeTensor):
                return Constant(result)
            if id(result) in self.known:
                return self.known[id(result)]
            alias = aliases[id(result)]
            base = self.known.get(id(alias.origin))
            if base is not None:
                return self._view(base, alias, result, at)
            memory = alias.memory
            origin = self.recorder.alias(alias.origin)
            if origin.former is not None:
                raise Untraceable("a result that came to lie elsewhere")
            if origin.steps:
                self.turned.add(id(memory))
            if users[id(memory)] == 1 and not result._is_view():
                bases[id(memory)] = Value(self._result(self.recorder.read(result), result, OutputOf(at)))
                return bases[id(memory)]
            if id(memory) not in bases:
                of = self._carrying(results, alias.origin)
                if of is None and any(a.memory is memory and a.tensor.requires_grad for a in aliases.values()):
                    raise Untraceable("a view that gets its gradient elsewhere than its base")
                carrier = None if of is None else alias.origin
                bases[id(memory)] = Value(self._result(self.recorder.read(alias.origin), carrier, of))
            return bases[id(memory)] if result is alias.origin else self._view(bases[id(memory)], alias, result, at)

        for at, result in enumerate(results):
            if id(result) not in made or not isinstance(result, torch.Tensor):
                made[id(result)] = recipe(at, result)
        return tuple(made[id(result)] for result in results)

    @staticmethod
    def _carrying(results: list[Any], base: torch.Tensor) -> OutputOf | BaseOf | None:
        """By which result a gradient of this base can come back."""
        for at, result in enumerate(results):
            if result is base:
                return OutputOf(at)
        for at, result in enumerate(results):
            if isinstance(result, torch.Tensor) and not result.is_inference() and result._base is base:
                return BaseOf(at)
        return None

    def _view(self, base: Value | Input | Base, alias: Alias, result: torch.Tensor, at: int) -> View | Data:
        start, first = self._start(base, alias, alias.steps, alias.memory)
        cut = any(step.func in TRANSPARENT for step in alias.steps)
        if result.grad_fn is not None and (cut or not alias.origin.requires_grad):
            raise Untraceable("a view that gets its gradient elsewhere than its base")
        tracked = result.grad_fn is not None or cut or not alias.origin.requires_grad
        steps = alias.steps[first:]
        if any(map(self._turned_apart, self._way(alias))):
            raise Untraceable("a tensor that is no view changes its geometry in memory that others show")
        if not cut and not isinstance(start, (Data, Value)) and _target(start) in self.leaves:
            start = self._before_or_after(start, result)
            tracked = tracked or isinstance(start, (Input, Base))
        if _is_customized(result, alias.origin):
            history = Value(self._result(self.recorder.read(result), result, OutputOf(at)))
            made = Custom(history, torch._C._autograd._get_creation_meta(result))
            return View(start, self._plain(steps), False, made)
        return start if isinstance(start, Data) and not steps else View(start, self._plain(steps), tracked)

    def _way(self, alias: Alias) -> Iterator[Alias]:
        """A tensor and those that it was taken from, down to an input or an origin."""
        while alias.taken is not None and id(alias.tensor) not in self.known:
            yield alias
            alias = self.recorder.alias(alias.taken)

    @staticmethod
    def _turned_apart(alias: Alias) -> bool:
        """Whether its geometry changed and it is no view, as `.detach().t_()`: what replays that makes a view."""
        known = alias.tensor
        return len(alias.steps) > alias.made and not (known.is_inference() or known._is_view())

    def _before_or_after(self, start: Input | Base | Changed, result: torch.Tensor) -> Input | Base | Changed:
        """Whether a view of an input was taken before this came to require a gradient, or after it."""
        is_early = leaves.is_taken_before(result)
        known = _target(start)
        alias = next(self.recorder.aliases[key] for key, place in self.known.items() if place == known)
        is_other = alias.former is not None or len(alias.steps) > alias.made
        if is_other and is_early is isinstance(start, Changed):
            raise Untraceable("a view of an input that changes its geometry and comes to require a gradient")
        return known if is_early else Changed(known)

    def _start(
        self, base: Value | Input | Base, alias: Alias, steps: tuple[Step, ...], memory: Memory
    ) -> tuple[Value | Input | Base | Changed | Data, int]:
        """From where a view of these `steps` in a memory is taken, and how many of them lead there: an input (where it
        was taken after the metadata of this changed, the changed one), another origin, or the last `.data` on the way.
        """
        known = self.known.get(id(alias.tensor))
        if known is not None:
            return self._which(known, alias, steps, memory)
        if alias.taken is None:
            if isinstance(base, Value):  # has its last geometry
                if steps[alias.made : len(alias.steps)] != alias.steps[alias.made :]:
                    raise Untraceable("a view of a tensor that changes its geometry later")
                return base, len(alias.steps)
            return base, alias.made
        if alias.steps[alias.made - 1].func not in TRANSPARENT or self._counts_with_a_base(alias):
            return self._start(base, self.recorder.alias(alias.taken), steps, memory)
        if id(alias.tensor) not in self.data:
            taken = self.recorder.alias(alias.taken)
            start, first = self._start(base, taken, alias.steps[: alias.made - 1], alias.memory)
            before = View(start, self._plain(alias.steps[first : alias.made - 1]), False)
            self.data[id(alias.tensor)] = Data(before if before.steps else start, len(self.data))
        return self.data[id(alias.tensor)], alias.made

    @staticmethod
    def _which(
        known: Input | Base, alias: Alias, steps: tuple[Step, ...], memory: Memory
    ) -> tuple[Input | Base | Changed, int]:
        """Whether a view was taken from an input as it came or as it is in the end."""
        is_other = alias.former is not None or len(alias.steps) > alias.made
        if is_other and alias.memory is memory and steps[: len(alias.steps)] == alias.steps:
            return Changed(known), len(alias.steps)
        if alias.first.memory is not memory:
            raise Untraceable("a view of a tensor in a place where it was for a while")
        return known, alias.first.made

    def _counts_with_a_base(self, alias: Alias) -> bool:
        """Whether a tensor has the version counter of one of those that it was taken from."""
        before = alias.taken
        while before is not None:
            if before.is_inference() or count_together(before, alias.tensor):
                return True
            before = self.recorder.alias(before).taken
        return False

    def _plain(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Numbers that vary become results of the graph."""
        plain = self._number
        return tuple(replace(s, args=tree_map(plain, s.args), kwargs=tree_map(plain, s.kwargs)) for s in steps)

    def _number(self, value: Any) -> Any:
        number = self.recorder.number(value) if isinstance(value, NUMBERS) else value
        return Value(self._result(number)) if isinstance(number, fx.Node) else number

    def _link(self, metadata: Any) -> Link:
        return Link(tuple(map(self._number, metadata.shape)), metadata.dtype, metadata.device)

    @staticmethod
    def _bumps(results: list[Any], outputs: tuple[Recipe, ...]) -> Iterator[Bump]:
        seen: set[Any] = set()
        for result, output in zip(results, outputs, strict=True):
            counter = output.base if isinstance(output, View) else output
            if isinstance(counter, (Value, Data)) and isinstance(result, torch.Tensor) and counter not in seen:
                seen.add(counter)
                if _version(result):
                    yield Bump(counter, _version(result))


def _is_customized(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether a custom autograd function leads the gradient of a view to its base."""
    end = base.grad_fn
    node = view.grad_fn
    while node is not None and node is not end:
        if isinstance(node, BackwardCFunction):
            return True
        node = node.next_functions[0][0] if node.next_functions else None
    return False


def _target(start: Input | Base | Changed) -> Input | Base:
    return start.target if isinstance(start, Changed) else start


def _tracked(before: _Before) -> bool:
    """Whether autograd saw a write to the input."""
    grad_fn = before.fake.grad_fn
    return grad_fn is not None and grad_fn is not before.grad_fn


def _version(fake: torch.Tensor) -> int:
    return 0 if fake.is_inference() else fake._version
