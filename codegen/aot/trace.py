"""Runs a program on stand-ins, and its backward after it; answers with the joint graph and what was found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx._lazy_graph_module import _LazyGraphModule

from codegen.aot import hooks, leaves
from codegen.aot.call import Call, describe, flat_arguments, fresh
from codegen.aot.ends import Before, Ends
from codegen.aot.facts import Base, Input, Level, Link, OutputOf, Place, Traced, Update
from codegen.aot.inputs import FRAGILE, RELATED, FragileInputs, Shared, is_fragile, shared
from codegen.aot.levels import Again, Seen, differentiate, edge_of, survey
from codegen.aot.memory import Fails, SharedInputs, Untraceable
from codegen.aot.quiet import quiet
from codegen.aot.recipes import bumps_of, outputs_of
from codegen.aot.recorder import Recorder, refusal
from codegen.aot.updates import changes_of
from codegen.aot.versions import count_to, version
from codegen.aot.views import place
from symbolic.shapes import Environment

Program = Callable[..., Sequence[Any]]
Decompositions = Mapping[Any, Callable[..., Any]]


def trace(
    program: Program, args: Sequence[Any], decompositions: Decompositions, inside: bool = False
) -> tuple[Call, Traced]:
    """The joint graph of `program(*args) -> results` (flat), with gradients if an input requires one before or after.

    `inside`: where there are no gradients, the graph itself ends by writing into inputs, as far as that is all that
    happens to them.

    `args` are real tensors or fakes of one mode, numbers and constants; they are not touched. Raises Untraceable.
    """
    groups: tuple[Shared, ...] = ()
    as_made = False
    while True:
        if as_made and any(isinstance(arg, FakeTensor) for arg in args):
            raise Untraceable(FRAGILE)  # they don't tell
        try:
            call = describe(args, groups, as_made, getattr(program, "sizes", None))
        except RuntimeError as error:
            raise Untraceable(f"an input of which autograd answers no question: {error}") from error
        tracer = _Tracer(program, call, decompositions, inside)
        known = _count_known(call)
        try:
            traced = tracer.run()
            if _count_known(call) == known:
                return call, traced
            # A trace that finds out about sizes has other nodes than the next.
        except FragileInputs:
            if as_made:
                raise Untraceable(FRAGILE) from None
            as_made = True
        except SharedInputs as found:
            members = tracer.positions(found.inputs)
            if not members:
                raise Untraceable("memory of an input that the input itself no longer lies in") from None
            others = tuple(group for group in groups if members.isdisjoint(group.members))
            group = shared(sorted(members), list(args), found.flat)
            if group in groups:
                raise Untraceable("a look at more than there is of an input's memory") from None
            groups = (*others, group)
            as_made = as_made or any(is_fragile(args[i]) and args[i].requires_grad for i in group.members)


def _count_known(call: Call) -> int:
    """How many symbols are known to be something else, of those that inputs came with."""
    env = call.fake_mode.shape_env
    return 0 if env is None else sum(not env.is_unbacked_symint(symbol) for symbol in env.replacements)


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
    except (Untraceable, SharedInputs, FragileInputs):
        raise
    except Exception as error:
        varies = recorder.has_numbers or recorder.fake_mode.shape_env is not None
        said = Untraceable(f"something depends on values: {error}") if varies else Fails(f"it raises {error!r}")
        raise refusal(error) or said from error


@contextmanager
def _restored(values: Sequence[Any]) -> Iterator[None]:
    """Stand-ins count as many writes, and their storages have the sizes again, as before: the next trace shares these.
    """
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    sizes, versions = [storage.nbytes() for storage in storages], list(map(version, tensors))
    try:
        yield
    finally:
        for tensor, before in zip(tensors, versions, strict=True):
            count_to(tensor, before)
        for storage, size in zip(storages, sizes, strict=True):
            if isinstance(size, int) and storage.nbytes() != size:
                storage.resize_(size)


class _Tracer:
    def __init__(
        self, program: Program, call: Call, decompositions: Decompositions, inside: bool = False
    ) -> None:
        self.program = program
        self.call = call = fresh(call)
        self.inside = inside
        self.recorder = Recorder(call.fake_mode, decompositions)
        self.recorder.stack_trace = getattr(program, "stack_trace", self.recorder.stack_trace)
        self.by_node: dict[fx.Node, int] = {}
        self.ends = Ends(call, self.recorder)

    def positions(self, nodes: list[fx.Node]) -> set[int]:
        """Which inputs these nodes are, or the bases of."""
        places = [self.ends.targets[node] for node in nodes]
        return {i for place in places for i in self.ends.inputs_of(place)}

    def run(self, again: Again | None = None) -> Traced:
        """To be called once."""
        try:
            return self._run(again)
        finally:
            self.recorder.close()

    def _run(self, again: Again | None) -> Traced:
        call = self.call
        with ExitStack() as stack:
            stack.enter_context(_restored([*call.args, *call.bases]))
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
                        self.recorder.share(base, flat[i], place(flat[i], base, base.storage_offset()))
                        self.ends.members.append(Before.of(flat[i]))
                    self.ends.known.setdefault(id(flat[i]), Input(i))
            known = [value for value in (*flat, *call.bases) if isinstance(value, torch.Tensor)]
            training = any(fake.requires_grad for fake in known)
            claimants = {id(flat[i]) for i in call.claimants}
            claimed = claimants if call.as_made else set()
            free = [fake for fake in known if not fake.requires_grad or id(fake) in claimed]
            with leaves.Switches(claimants - claimed) as switches:
                results = list(self.program(*flat))
            leaves.check_views([result for result in results if id(result) not in self.ends.known])
            self.ends.leaves = {self.ends.known[id(fake)] for fake in free if leaves.is_leaf(fake)}
            self._check_viewed()
            training = training or bool(self.ends.leaves)
            self._check_leaves(results, training)
            self.recorder.draws.check()
            hooks.check([*flat, *results], [alias.tensor for alias in self.recorder.aliases.values()])
            outputs = outputs_of(self.ends, results)
            changes = changes_of(self.ends, flat, self.inside)
            bumps = tuple(bumps_of(results, outputs))
            randoms = list(self.recorder.randoms) if training else []
            sizes = self.recorder.symbols.sizes() if training else []
            gradients: list[fx.Node | None] = []
            levels: tuple[Level, ...] = ()
            made: tuple[Place, ...] = ()
            seen = self._seen(flat, results)
            inputs = {at: p.edge for at, p in enumerate(self.ends.placeholders) if p is not None and p.edge is not None}
            if training and self.ends.carriers:
                graph = survey(seen, inputs)
                made = tuple(each.of for each in graph.seen.values() if not each.tensor.is_leaf)
                links = [[self._link(node._input_metadata[n]) for node, n in part.links] for part in graph.parts]
                with self.recorder.during("backward"), self._left_alone():
                    levels, gradients = differentiate(self.recorder, graph, inputs, links, again)
                self._check_ends(changes.updates, levels)
            sizes = sizes if any(len(level.outputs) > 1 for level in levels) else []
            randoms = randoms if levels else []
            forward = [*self.ends.results, *sizes, *randoms]
        for placeholder, node in changes.last_writes:
            written = self.recorder.graph.call_function(torch.ops.aten.copy_.default, (placeholder, node))
            written.meta.update(placeholder.meta)
        self.recorder.graph.output((*forward, *gradients))
        env = call.fake_mode.shape_env
        if isinstance(env, Environment) and (assumed := env.assumed()):
            raise Untraceable(f"something depends on values: {assumed[0]}")
        joint = _LazyGraphModule(self.recorder.attributes, self.recorder.graph, "Joint")
        return Traced(
            joint, call.parameters, call.groups, len(forward), len(sizes), len(randoms), outputs,
            changes.updates, changes.resized, bumps, levels,
            tuple((each.of, each.index is not None) for each in seen), made, self.recorder.redrawn,
            frozenset(self.ends.known[key] for key in switches.seen & self.ends.known.keys()), switches.asked,
        )

    def _check_viewed(self) -> None:
        """Views of an input that comes to require a gradient do so, too."""
        for target in self.ends.leaves & {Input(i) for i in self.call.viewed}:
            if any(group.flat for group in self.call.groups if target.index in group.members):
                raise Untraceable(RELATED)
            fake = self.call.args[target.index]
            raise SharedInputs(self.recorder.alias(fake).memory.inputs)

    def _check_leaves(self, results: list[Any], training: bool) -> None:
        """Refuses results that need gradients though no input does, and leaves: autograd is told of inputs only."""
        for result in results:
            if isinstance(result, FakeTensor) and result.requires_grad and id(result) not in self.ends.known:
                if (result.is_leaf or not training) and edge_of(result) is not None:
                    raise Untraceable("a result that needs gradients for itself")

    def _placeholder(self, name: str, value: Any, known: Input | Base, is_member: bool = False) -> fx.Node:
        node = (self.recorder.add_placeholder if is_member else self.recorder.add_input)(name, value)
        before = None
        if isinstance(known, Input):
            node.meta["input"] = known.index
        if isinstance(value, torch.Tensor):
            before = Before.of(value)
            self.ends.known[id(value)] = known
            self.ends.targets[node] = known
        self.ends.placeholders.append(before)
        return node

    def _check_ends(self, updates: Sequence[Update], levels: Sequence[Level]) -> None:
        """Refuses results that share a node with others of which alone a gradient comes to where it raises."""
        ends = {i for update in updates if update.ends for i in self.ends.inputs_of(update.target)}
        for level in levels if ends else ():
            cut = {i for each in level.cuts if isinstance(each, (Input, Base)) for i in self.ends.inputs_of(each)}
            if len(level.outputs) > 1 and not cut.isdisjoint(ends):
                raise Untraceable("aten.set_.source_Tensor of a tensor that gets a gradient")

    def _seen(self, flat: list[Any], results: list[Any]) -> list[Seen]:
        """What the caller can see that has a gradient, carriers first."""
        inputs = ((self.ends.known[id(before.fake)], before.fake, before.edge_now())
                  for before in self.ends.placeholders if before is not None)
        members = (i for group in self.call.groups for i in group.members)
        others: list[tuple[Place, torch.Tensor]] = [(Input(i), flat[i]) for i in members]
        others += [(OutputOf(at), result) for at, result in enumerate(results) if isinstance(result, FakeTensor)]
        found = (*inputs, *((place, fake, edge_of(fake)) for place, fake in others))
        return self.ends.carriers + [Seen(place, fake, None, edge) for place, fake, edge in found if edge is not None]

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

    def _link(self, metadata: Any) -> Link:
        return Link(tuple(map(self.ends.number, metadata.shape)), metadata.dtype, metadata.device)
