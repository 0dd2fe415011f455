"""How each kind of value is made anew by residual code, and how containers come to what they hold."""

from __future__ import annotations

import functools
import itertools
import operator
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch

from codegen.residual import runtime
from codegen.residual.continuations import suspended
from codegen.residual.resume import Unresumable
from codegen.residual.writer import BUILD, CONTENTS, SHELLS, Emit, Writer
from symbolic import tracebacks
from symbolic.errors import ASKS_NODE, READS_FRAME, GraphBreak, Restart, SkipFrame
from symbolic.translator import LazyVariable
from symbolic.variables import (
    arrays,
    born,
    buffers,
    caches,
    classes,
    constants,
    containers,
    context_vars,
    digests,
    dispatched,
    drawn,
    exceptions,
    functions,
    generators,
    hook_dicts,
    hooks,
    identity,
    late_text,
    mappings,
    methods,
    namespaces,
    nodes,
    numbers,
    objects,
    outside,
    properties,
    proxies,
    randoms,
    sets,
    stdlib,
    subclasses,
    symbols,
    tensors,
    text_files,
    weak,
)
from symbolic.variables.base import MISSING, Variable


def _tuple(w: Writer, v: Any) -> None:
    cls = v.python_type()
    if cls is tuple:
        w.load_tuple(v.items)
    elif cls is containers.WeekDate:  # which takes its elements one by one
        w.call(cls, *v.items)
    elif cls is torch.Size or not hasattr(cls, "_fields"):
        w.call(cls, Emit(lambda: w.load_tuple(v.items)))
    else:
        w.call(tuple.__new__, cls, Emit(lambda: w.load_tuple(v.items)))


def _dict(w: Writer, v: Any) -> None:
    cls = v.python_type()
    pairs = v.entries.values()
    w.check_keys(v.entries)
    if cls is dict:
        w.load_map(pairs)
    elif cls is defaultdict:
        w.call(cls, v.default_factory or None, Emit(lambda: w.load_map(pairs)))
    elif cls in (OrderedDict, Counter):
        w.call(cls, Emit(lambda: w.load_map(pairs)))
    else:
        raise Restart(0, GraphBreak("value can't be rebuilt", v.describe()))


def _set(w: Writer, v: Any) -> None:
    recipe = v.recipe()
    w.check_keys(v.items)
    if recipe is not None and any(name != "add" for name, _ in recipe.history) and _reads_what_is(v, recipe):
        _by_recipe(w, sets.Recipe.make, recipe)
    elif v.python_type() is set:
        w.emit.build("set", w.load_all(v.items.values()))
    else:
        w.call(frozenset, Emit(lambda: w.load_list(v.items.values())))


def _reads_what_is(v: mappings.SetVariable, recipe: sets.Recipe) -> bool:
    """Whether the existing sets that a recipe reads are what they were. Raises Restart where they are not, and the
    order of the elements comes from them."""
    if any(each.state for each in recipe.existing()):
        v.check_order()
        return False
    return True


def _by_recipe(w: Writer, method: Any, recipe: sets.Recipe, *target: Variable) -> None:
    existing: list[mappings.SetVariable] = []
    placed = recipe.placed(existing)
    w.call(method, placed, *target, *existing)


def _slice(w: Writer, v: Any) -> None:
    w.emit.build("slice", w.load_all(v.parts))


def _object(w: Writer, v: objects.ObjectVariable) -> None:
    typecode = [v.payload.added.typecode] if issubclass(v.cls, array) else []  # type: ignore[union-attr]
    w.call(runtime.new_object, v.cls, *v.new_args, *typecode)
    w.keep(v)
    if v.payload is not None and not v.new_args and type(v.payload) in CONTENTS:
        w._built[v.payload] = w._built[v]
        w.contents(v.payload)


def _property(w: Writer, v: properties.PropertyVariable) -> None:
    _object(w, v)
    if v.made_of is not None:
        args, kwargs = v.made_of
        w.call_with(property.__init__, [v, *args], kwargs)
        w.emit.pop()


def _exception(w: Writer, v: exceptions.ExceptionVariable) -> None:
    by_new = issubclass(v.cls, exceptions.PARTICULAR) and not issubclass(v.cls, BaseExceptionGroup)
    final = v.new_args if by_new else v.args
    made_of, args = (Emit(functools.partial(w.load_tuple, items)) for items in (v.new_args, final))
    w.call(runtime.new_exception, v.cls, made_of, args)
    w.keep(v)
    for name, value in v.keywords.items():
        w._set_attr(v, name, value)
    if not exceptions.is_none(v.trace):
        w._set_attr(v, "__traceback__", v.trace)
    if any(part.is_constant() is False or part.constant() for part in v.surroundings):
        w.call(runtime.set_context, v, *v.surroundings)
        w.emit.pop()


def _closure(w: Writer, v: functions.ClosureFunction) -> None:
    w.call(
        runtime.make_function,
        v.code,
        v.globals.itself(),
        v.qualname,
        v.defaults,
        v.kwdefaults,
        Emit(lambda: w.load_tuple(v.closure)),
        v.annotations,
    )
    w.keep(v)
    for name, value in w.ledger.stores(v).items():  # a class that is made of it asks whether it is abstract
        if isinstance(value, constants.ConstantVariable):
            w._set_attr(v, name, value)


def _recipe(w: Writer, v: Any) -> None:
    recipe = v.recipe
    w.call_with(recipe.function, recipe.args, recipe.kwargs)
    w.keep(v)
    for step, kwargs in recipe.steps:
        w.call_with(step, [v], kwargs)
        w.emit.pop()


def _method(w: Writer, v: functions.BoundMethod) -> None:
    w.call(types.MethodType, v.function, v.owner)


def _partial(w: Writer, v: functions.PartialVariable) -> None:
    w.call_with(functools.partial, [v.function, *v.args], v.kwargs)


def _cache(w: Writer, v: caches.CachedFunction) -> None:
    if any(map(w.ledger.touched, (v.kept, v.counts))):
        raise Restart(v.born_at, GraphBreak("cache that was filled while running", v.describe()))
    w.call(v.python_type(), v.function, *v.args)


def _digest(w: Writer, v: digests.DigestVariable) -> None:
    if v.function is None:
        w.birth(v)
    else:
        w.call_with(v.function, v.args, v.kwargs)


def _attribute(owner: str, name: str) -> Callable[[Writer, Any], None]:
    def build(w: Writer, v: Any) -> None:
        w.load(getattr(v, owner))
        w.emit.attr(getattr(v, name))

    return build


def _native_method(w: Writer, v: methods.NativeMethod) -> None:
    """Of a user's container class: the method of the built-in type, whatever the class calls by that name."""
    if v.owner.whole is not v.owner:
        _bind(w, getattr(v.owner.python_type(), v.name), v.owner.whole)
    else:
        _attribute("owner", "name")(w, v)


def _object_method(w: Writer, v: objects.ObjectMethod) -> None:
    """Bound by its descriptor: through `super()` it is not the owner's own attribute."""
    if hasattr(v.raw, "__get__"):
        _bind(w, v.raw, v.owner)
    else:
        w.load(v.owner)
        w.emit.attr(v.name)


def _bind(w: Writer, descriptor: Any, owner: Variable) -> None:
    """`descriptor.__get__(owner, type(owner))`. (Methods that want to know their class crash without the type.)

    What is a method of classes is the owner's, which is a class."""
    if isinstance(descriptor, types.ClassMethodDescriptorType):
        w.call(descriptor.__get__, None, owner)
    else:
        w.call(descriptor.__get__, owner, owner.python_type())


def _generator(w: Writer, v: generators.GeneratorVariable) -> None:
    if v.stands_for is not None:
        raise v.missed()
    if v.state == "suspended":
        try:
            code, closure, values = suspended(v.frame)
        except Unresumable as error:
            raise Restart(v.born_at, GraphBreak("generator that can't go on elsewhere", str(error))) from error
        cells = None if closure is None else Emit(lambda: w.load_tuple(closure))
        w.call(runtime.suspended, code, v.frame.namespace, cells, *values)
    elif v.state == "running":
        raise Restart(v.born_at, GraphBreak("generator is alive at a graph break", v.function.describe()))
    else:
        w.call_with(v.function, v.args, v.kwargs)
        if v.state == "closed":
            w.keep(v)
            w.call(runtime.closed, v)
            w.emit.pop()


def _traceback(w: Writer, v: exceptions.TracebackVariable) -> None:
    w.call(types.TracebackType, v.rest, v.frame, v.offset, -1 if v.line is None else v.line)


def _frame(w: Writer, v: exceptions.FrameVariable) -> None:
    if v.is_taken:
        raise SkipFrame(f"{READS_FRAME} (a traceback's frame)")
    w.has_tracebacks = True
    names, values = tuple(v.variables), v.variables.values()
    namespace = v.frame.namespace.of_traces()  # type: ignore[attr-defined]
    w.call(tracebacks.frame_of, v.code, namespace, v.frame.offset, names, *values)


def _super(w: Writer, v: classes.SuperVariable) -> None:
    w.call(super, v.start, v.owner)


def _function_get(w: Writer, v: functions.FunctionGet) -> None:
    w.load(v.function)
    w.emit.attr("__get__")


def _native_new(w: Writer, v: classes.NativeNew) -> None:
    w.emit.const(v.base.__new__)


def _instance_space(w: Writer, v: classes.InstanceNamespace) -> None:
    w.load(v.owner)
    w.emit.attr("__dict__")


def _tensor(w: Writer, v: tensors.TensorVariable) -> None:
    raise AssertionError(f"{v.describe()} is no output of the graph")


def _subclass(w: Writer, v: subclasses.SubclassVariable) -> None:
    w.call(runtime.of_class, v.payload, v.cls)


def _dispatched(w: Writer, v: dispatched.DispatchedVariable) -> None:
    w.call_with(torch.Tensor._make_wrapper_subclass, *v.made_of)


def _torch_method(w: Writer, v: subclasses.TorchMethod) -> None:
    _bind(w, getattr(torch.Tensor, v.name), v.owner)


def _node(w: Writer, v: tensors.NodeVariable) -> None:
    place = hooks.place_of(v.first)
    if place is None or place[0] is not v.node:
        raise Restart(v.born_at, GraphBreak(ASKS_NODE, f"{v.describe()}, as it was before a write"))
    w.load(v.first)
    w.emit.attr("grad_fn")


def _array(w: Writer, v: arrays.ArrayVariable) -> None:
    if v.recipe is not None:
        function, args = v.recipe
        w.call_with(function, args, {})
        return
    if v.known is not MISSING:
        known = Emit(lambda: w.emit.const(v.known))
        w.call(runtime.copy_of_array, known, v.owns, known)
    else:
        others = [each for each in w.outputs if type(each) is tensors.TensorVariable and each is not v.tensor]
        is_shared = any(arrays.memory_of(each) == arrays.memory_of(v.tensor) for each in others)
        if v.memory.lent_at is not None and is_shared:
            raise Restart(v.memory.lent_at, GraphBreak("array that shares memory with a tensor", v.describe()))
        like = arrays.template(v)
        w.call(runtime.new_array, v.tensor, v.owns, Emit(lambda: w.emit.const(like)))


def _scalar(w: Writer, v: arrays.ScalarVariable) -> None:
    if v.known is not MISSING:
        w.call(runtime.copy_of_number, Emit(lambda: w.emit.const(v.known)))
    else:
        w.call(runtime.new_number, v.tensor)


def _lazy(w: Writer, v: LazyVariable) -> None:
    assert v.source is not None
    w.load_source(v.source)


BUILD.update(
    {
        containers.TupleVariable: _tuple,
        containers.ListVariable: lambda w, v: w.load_list(v.items),
        containers.DequeVariable: lambda w, v: w.call(deque, Emit(lambda: w.load_list(v.items)), v.maxlen),
        buffers.BufferVariable: lambda w, v: w.call(buffers.plain, v.added[:]),
        methods.NativeMethod: _native_method,
        methods.CallMethod: _attribute("owner", "name"),
        mappings.DictVariable: _dict,
        mappings.SetVariable: _set,
        proxies.ProxyVariable: lambda w, v: w.call(types.MappingProxyType, v.shown),
        constants.SliceVariable: _slice,
        dispatched.DispatchedVariable: _dispatched,
        subclasses.SubclassVariable: _subclass,
        subclasses.TorchMethod: _torch_method,
        tensors.TensorVariable: _tensor,
        tensors.NodeVariable: _node,
        nodes.NodeMethod: _attribute("owner", "name"),
        nodes.Registration: _attribute("owner", "name"),
        # A number that comes of sizes, or that was read from a tensor, is a result of the graph.
        **dict.fromkeys(
            (symbols.SymbolVariable, numbers.NumberVariable, numbers.GivenNumber), lambda w, v: w.load(v.output)
        ),
        objects.ObjectVariable: _object,
        properties.PropertyVariable: _property,
        exceptions.ExceptionVariable: _exception,
        objects.ObjectMethod: _object_method,
        exceptions.TracebackVariable: _traceback,
        exceptions.FrameVariable: _frame,
        functions.ClosureFunction: _closure,
        namespaces.BornNames: lambda w, v: w.load(v.table),
        born.BornClass: _recipe,
        born.MadeVariable: _recipe,
        functions.CellVariable: lambda w, v: w.call(runtime.make_cell),
        functions.BoundMethod: _method,
        functions.PartialVariable: _partial,
        stdlib.ComparisonVariable: lambda w, v: w.call(functools.cmp_to_key, v.args[0]),
        caches.CachedFunction: _cache,
        digests.DigestVariable: _digest,
        generators.GeneratorVariable: _generator,
        generators.CoroutineVariable: _generator,
        generators.CoroutineWrapper: lambda w, v: w.call(operator.methodcaller("__await__"), v.owner),
        weak.WeakReference: lambda w, v: w.call(v.kind, v.target, *v.args),
        weak.WeakMethodVariable: lambda w, v: w.call(v.kind, v.method_of),
        late_text.TextVariable: lambda w, v: w.call(v.function, *v.args),
        stdlib.GetterVariable: lambda w, v: w.call_with(v.kind, v.args, v.kwargs),
        identity.IdVariable: lambda w, v: w.call(id, v.value),
        identity.HashVariable: lambda w, v: w.call(hash, v.value),
        context_vars.ContextToken: Writer.birth,
        hooks.HandleVariable: Writer.birth,
        nodes.MultiHandle: Writer.birth,
        outside.Answer: Writer.birth,
        text_files.BornFile: Writer.birth,
        numbers.DrawnNumber: Writer.birth,
        tensors.DrawnTensor: Writer.birth,
        drawn.DrawnArray: Writer.birth,
        arrays.ArrayVariable: _array,
        arrays.Backwards: _array,
        arrays.ScalarVariable: _scalar,
        randoms.BornGenerator: Writer.birth,
        hooks.HandleNumber: _attribute("owner", "name"),
        functions.FunctionGet: _function_get,
        classes.SuperVariable: _super,
        classes.NativeNew: _native_new,
        classes.InstanceNamespace: _instance_space,
        LazyVariable: _lazy,
    }
)


def _sequence_contents(setter: Callable[..., None], extend: Callable[..., None]) -> Any:
    def build(w: Writer, target: Variable, v: containers.MutableSequence, before: Any) -> None:
        appended = v.appended(before)
        if appended is not None:
            w.call(extend, target, Emit(lambda: w.load_tuple(appended)))
        else:
            w.call(setter, target, Emit(lambda: w.load_list(v.items)))

    return build


def _dict_contents(w: Writer, target: Variable, v: mappings.DictVariable, before: Any) -> None:
    base = v.python_type()
    change = v.since(before)
    w.check_keys(itertools.chain(v.entries, v.deleted))
    if change is None:
        w.call(runtime.set_dict, target, base, Emit(lambda: w.load_map(v.entries.values())))
    else:
        gone, stored = change
        w.call(runtime.update_dict, target, base, Emit(lambda: w.load_tuple(gone)), Emit(lambda: w.load_map(stored)))
    if v.arranged:
        w.emit.pop()
        w.call(runtime.arrange_dict, target, Emit(lambda: w.load_tuple(key for key, _ in v.entries.values())))


def _set_contents(w: Writer, target: Variable, v: mappings.SetVariable, before: Any) -> None:
    done = len(before.history) if before is not None else 0
    recipe = sets.Recipe(set, tuple(v.history[done:]))
    read = [each.items for each in (v, before) if each is not None and each.unread is None]
    w.check_keys(itertools.chain(*read, v.came))
    if recipe.is_plain() and recipe.is_in_place() and _reads_what_is(v, recipe):
        _by_recipe(w, sets.Recipe.change, recipe, target)
    elif any(name == "pop" for name, _ in recipe.history):  # the set notes where it looks first
        steps = v.steps(done)
        elements = [element for name, element in steps if name != "pop"]
        w.call(runtime.change_set, target, tuple(name for name, _ in steps), Emit(lambda: w.load_tuple(elements)))
    else:  # objects with hashes by address, in no order that anybody knows
        gone, new = v.since(before)
        w.call(runtime.update_set, target, Emit(lambda: w.load_tuple(gone)), Emit(lambda: w.load_tuple(new)))


def _deque_contents(w: Writer, target: Variable, v: containers.DequeVariable, before: Any) -> None:
    if v.is_bound_anew:
        w.call(deque.__init__, target, Emit(lambda: w.load_list(v.items)), v.maxlen)
    elif v.only_set(before):
        w.call(runtime.replace_items, target, Emit(lambda: w.load_list(v.items)))
    else:
        _plain_deque_contents(w, target, v, before)


_plain_deque_contents = _sequence_contents(runtime.set_deque, deque.extend)


def _buffer_contents(w: Writer, target: Variable, v: buffers.BufferVariable, before: Any) -> None:
    base: Any = v.native()
    appended = v.appended(before)
    if appended is not None:
        w.call(base.extend, target, appended)
    else:
        w.call(base.__setitem__, target, slice(None), v.added[:])


CONTENTS.update(
    {
        containers.ListVariable: _sequence_contents(runtime.set_list, list.extend),
        containers.DequeVariable: _deque_contents,
        buffers.BufferVariable: _buffer_contents,
        mappings.DictVariable: _dict_contents,
        hook_dicts.HooksVariable: _dict_contents,
        mappings.SetVariable: _set_contents,
    }
)

SHELLS.update(
    {
        containers.ListVariable: lambda w, v: w.emit.build("list", 0),
        mappings.DictVariable: lambda w, v: w.call(v.python_type()),
        mappings.SetVariable: lambda w, v: w.emit.build("set", 0),
    }
)
