"""A picture of an object graph as plain data, and the first difference between two of them.

Objects get numbers in the order in which they are first met, and keep them from one walk to the next: two pictures are
equal only where the same object stands in the same places, before and after the program ran.
"""
import array
import collections
import enum
import functools
import itertools
import logging
import math
import re
import sys
import types
import warnings
import weakref

import numpy
import torch
from torch.utils.hooks import RemovableHandle

ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, range, slice, torch.qscheme)
REDUCED = {type(iter([])), type(iter({0})), type(iter(())), type(iter(range(0))), type(iter("")), type(iter("\u1234")), type(iter(b"")), type(iter(bytearray())), type(iter(array.array("b"))), type(iter({})), type(iter({}.items())),
           type(iter({}.values())), enumerate, zip, map, filter, reversed, type(reversed([]))}
#: What differs in texts from run to run.
ADDRESSES = ((re.compile(r"at 0x[0-9a-f]+"), "at 0x"),)
#: And what compiled graphs call differently: nodes, and where a value was written since autograd saved it, the node and
#: versions, which are those of the trace.
NODES = (
    (re.compile(r"grad_fn=<\w+>"), "grad_fn=<...>"),
    (re.compile(r"which is output \d+ of \w+, is at version \d+; expected version \d+ instead"), "..."),
)
OPAQUE = (types.CodeType, types.FrameType, types.TracebackType, types.GeneratorType, types.CoroutineType, torch.autograd.graph.Node)


class Fields(dict):
    """Named places to start a walk from: not itself an object of the program."""


class Items(list):
    """The same without names."""


class Bits:
    """The values of a tensor."""

    def __init__(self, tensor):
        tensor = tensor.detach()
        tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
        self.values = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)

    def differs(self, other, tolerance):
        a, b = self.values, other.values
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{tuple(a.shape)} != {b.dtype}{tuple(b.shape)}"
        if tolerance is not None and (a.is_floating_point() or a.is_complex()):
            if torch.allclose(a, b, *tolerance, equal_nan=True):
                return None
        elif _same_bits(a, b):
            return None
        return f"values differ\n  eager:    {a}\n  compiled: {b}"


def _same_bits(a, b):
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    same = (a.reshape(-1, 1).view(torch.uint8) == b.reshape(-1, 1).view(torch.uint8)).all(-1) if a.numel() else None
    if same is None:
        return True
    if a.is_floating_point():
        same = same | (a.isnan() & b.isnan()).reshape(-1)
    return bool(same.all())


FLOAT = re.compile(r"(-?\d+\.\d+(?:e[-+]?\d+)?)")


def difference(a, b, path="", tolerance=None):
    """In words: the first place where two pictures differ, or None.

    With a `tolerance`, (rtol, atol) of numbers, nothing is said of how much memory operations happened to take."""
    if isinstance(a, Bits) and isinstance(b, Bits):
        with torch._C.DisableTorchFunctionSubclass():
            found = a.differs(b, tolerance)
        return f"{path}: {found}" if found else None
    if type(a) is not type(b):
        return f"{path}: eager has {a!r}, compiled has {b!r}"
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{path}: eager has {list(a)}, compiled has {list(b)}"
        keys = [key for key in a if tolerance is None or key != "storage_size"]
        return _first(difference(a[key], b[key], f"{path}.{key}" if path else str(key), tolerance) for key in keys)
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{path}: eager has {len(a)}, compiled has {len(b)}\n  eager:    {_short(a)}\n  compiled: {_short(b)}"
        return _first(difference(x, y, f"{path}[{i}]", tolerance) for i, (x, y) in enumerate(zip(a, b)))
    if isinstance(a, torch.Tensor):
        return None if torch.equal(a, b) else f"{path}: tensors differ"
    if a == b or tolerance is not None and isinstance(a, str) and _alike(a, b, tolerance):
        return None
    return f"{path}: eager has {_short(a)}, compiled has {_short(b)}"


def _alike(a, b, tolerance):
    """Whether texts differ in their numbers only, and these by that much."""
    ours, theirs = FLOAT.split(b), FLOAT.split(a)
    return ours[::2] == theirs[::2] and all(
        math.isclose(float(x), float(y), rel_tol=tolerance[0], abs_tol=tolerance[1]) for x, y in zip(ours[1::2], theirs[1::2]))


def _first(found):
    return next((text for text in found if text), None)


def _short(value):
    text = repr(value)
    return text if len(text) < 600 else text[:600] + "..."


class Snapshot:
    def __init__(self, nodes=True):
        self.masks = ADDRESSES if nodes else ADDRESSES + NODES
        self.numbers, self.storages, self.keep = {}, {}, []
        self.visited, self.tensors, self.leaves = set(), [], []
        self.weak = []

    def walk(self, root):
        """A picture of everything that can be reached from `root`, by a new walk."""
        self.visited = set()
        self.tensors = []
        tree = self._complete(root)
        self.leaves += [t for t in self.tensors if not any(t is known for known in self.leaves)]
        self.tensors = []
        return tree

    def more(self, root):
        """A picture of `root` in which what the last walk has shown is only named."""
        tree = self._complete(root)
        self.tensors = _tensors_in(root)
        return tree

    def _complete(self, root):
        with torch._C.DisableTorchFunctionSubclass():  # classes of tensors are not asked what is looked at
            tree = self.see(root)
        for place, ref in self.weak:
            place["hooks"] = self.numbers.get(id(ref())) if ref() is not None else None
        self.weak = []
        return tree

    def text(self, shown):
        """The same without what is nobody's business."""
        for pattern, instead in self.masks:
            shown = pattern.sub(instead, shown)
        return shown

    def exception(self, exc):
        if exc is None:
            return None
        chain = []
        for link in (exc.__cause__, exc.__context__):
            chain.append(self.exception(link))
        return {"type": _name(type(exc)), "text": self.text(str(exc)), "args": [self.see(arg) for arg in exc.args],
                "attributes": self._attributes(exc) if type(exc).__module__.startswith(("tests", "builtins")) else {}, "cause": chain[0], "context": chain[1],
                "suppressed": exc.__suppress_context__}

    def number(self, obj):
        key = id(obj)
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.keep.append(obj)
        return self.numbers[key]

    def see(self, obj):
        kind = type(obj)
        if kind is Fields:
            return {name: self.see(value) for name, value in obj.items()}
        if kind is Items:
            return [self.see(value) for value in obj]
        if kind in ATOMS:
            return (kind.__name__, self.text(repr(obj)) if kind is str else repr(obj))
        if kind in VALUES:
            return (kind.__name__, repr(obj))
        if kind in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):  # which torch fills as it comes by them
            return ("operator", str(obj))
        if kind is tuple and all(type(item) in ATOMS for item in obj):
            return ("tuple", self.text(repr(obj)))
        if issubclass(kind, enum.Enum):
            return ("enum", _name(kind), obj.name)
        if issubclass(kind, type) or kind in (types.FunctionType, types.BuiltinFunctionType) and _importable(obj):
            return ("known", _name(obj), None if _importable(obj) else self.number(obj))
        if issubclass(kind, types.ModuleType):
            return ("module", obj.__name__)
        number = self.number(obj)
        if number in self.visited:
            return {"seen": number}
        self.visited.add(number)
        # Nodes of autograd are compiled or eager code's: what hooks keep of them says nothing of the program.
        name = "a node of autograd" if hasattr(kind, "next_functions") else _name(kind)
        return {"object": number, "type": name, **self._inside(obj, kind)}

    def _inside(self, obj, kind):
        if issubclass(kind, torch.Tensor):
            return self._tensor(obj)
        if issubclass(kind, (list, tuple, collections.deque)):
            extra = {"maxlen": obj.maxlen} if issubclass(kind, collections.deque) else {}
            return {**extra, "items": [self.see(item) for item in _plain(obj, kind)], **self._attributes(obj)}
        if issubclass(kind, dict):
            factory = {"factory": self.see(obj.default_factory)} if issubclass(kind, collections.defaultdict) else {}
            base = collections.OrderedDict if issubclass(kind, collections.OrderedDict) else dict
            return {**factory, "items": [(self.see(k), self.see(v)) for k, v in base.items(obj)], **self._attributes(obj)}
        if issubclass(kind, (set, frozenset)):
            in_order = sorted(obj, key=lambda item: repr(_stable(item)))
            return {"items": [self.see(item) for item in in_order], **self._attributes(obj)}
        for types_, picture in INSIDE:
            if issubclass(kind, types_):
                return picture(self, obj)
        if kind in REDUCED or kind.__module__ == "itertools":
            return {"reduced": self._reduced(obj)}
        return self._attributes(obj)

    def _reduced(self, obj):
        try:
            return [self.see(part) for part in _reduce(obj)[:3]]
        except (RuntimeError, TypeError) as error:  # what it is over has changed, or it says nothing of itself
            return str(error)

    def _tensor(self, t):
        if torch._C._functorch.is_functorch_wrapped_tensor(t):  # a transform's, which has ended: without memory
            return {"dtype": str(t.dtype), "shape": tuple(t.shape), "around": self.see(torch._C._functorch.get_unwrapped(t))}
        self.tensors.append(t)
        with torch.inference_mode(False), torch.no_grad():
            tree = {"dtype": str(t.dtype), "shape": tuple(t.shape), "device": str(t.device), "layout": str(t.layout),
                    "requires_grad": t.requires_grad, "is_leaf": is_leaf(t), "has grad_fn": _node(t),
                    "inference": t.is_inference(), "conj": t.is_conj(), "neg": t.is_neg(),
                    "retains_grad": t.retains_grad, "hooks": [self.see(t._backward_hooks), self.see(t._post_accumulate_grad_hooks)]}
            if t.layout is torch.strided:
                tree.update(stride=t.stride(), offset=t.storage_offset(), storage=self._storage(t),
                            storage_size=t.untyped_storage().size())
            if t.device.type != "meta":
                tree["values"] = Bits(t)
            tree["view of"] = None if t._base is None else self.see(t._base)
            tree["grad"] = None if not (is_leaf(t) or t.retains_grad) or t.grad is None else self.see(t.grad)
        attributes = {k: v for k, v in t.__dict__.items()}
        return {**tree, "attributes": [(k, self.see(v)) for k, v in attributes.items()]} if attributes else tree

    def _storage(self, t):
        storage = t.untyped_storage()
        self.keep.append(storage)  # while it lives no other storage gets its address
        return self.storages.setdefault(storage._cdata, len(self.storages))

    def _attributes(self, obj):
        found = []
        try:
            found += [(k, self.see(v)) for k, v in list(object.__getattribute__(obj, "__dict__").items())]
        except AttributeError:
            pass
        for cls in type(obj).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name in ("__dict__", "__weakref__"):
                    continue
                name = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
                try:
                    found.append((name, self.see(object.__getattribute__(obj, name))))
                except AttributeError:
                    pass
        return {"attributes": found} if found else {}


def is_leaf(t):
    try:
        return t.is_leaf
    except RuntimeError:  # one of several views given at once, after a write through their base: has no node any more
        return False


def _node(t):
    try:
        return t.grad_fn is not None
    except RuntimeError as error:
        return str(error)


def _function(snap, fn):
    code = fn.__code__
    # What torch keeps for a hook of several tensors is by the number of the backward, one more for each in the process.
    see = _without_keys if fn.__module__ == "torch.autograd.graph" else Snapshot.see
    cells = [_cell(snap, cell, see) for cell in fn.__closure__ or ()]
    return {"name": (fn.__module__, fn.__qualname__, fn.__doc__), "code": (code.co_name, code.co_firstlineno),
            "defaults": snap.see(fn.__defaults__), "kwdefaults": snap.see(fn.__kwdefaults__),
            "annotations": snap.see(Fields(fn.__annotations__)), "cells": cells, "dict": snap.see(fn.__dict__)}


def _without_keys(snap, obj):
    return snap.see(Items(obj.values()) if isinstance(obj, dict) else obj)


def _cell(snap, cell, see=Snapshot.see):
    number = snap.number(cell)
    if ("cell", number) in snap.visited:
        return {"seen cell": number}
    snap.visited.add(("cell", number))
    try:
        return {"cell": number, "content": see(snap, cell.cell_contents)}
    except ValueError:
        return {"cell": number, "content": "empty"}


def _reduce(iterator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return iterator.__reduce__()
        except RuntimeError as error:  # what it walks through was changed
            return (str(error),)


def _chain(snap, chain):
    """The iterables to come: one that is half done may have been made by another chain, which nobody sees."""
    return {"parts": [snap.see(part) for part in _parts(chain)]}


def _parts(chain):
    _, _, *state = _reduce(chain)
    source, *active = state[0] if state else ((),)
    return [*map(_alone, active), *_left(source)]


def _cycle(snap, cycle):
    """What comes until it begins again, and then: whoever made it again had its first items from elsewhere."""
    _, (source,), (saved, again) = _reduce(cycle)
    left = _left(source)
    return {"again": bool(again), "left": [snap.see(item) for item in left], "round": [snap.see(item) for item in (saved if again else [*saved, *left])]}


def _islice(snap, found):
    """What it skips and gives from here on, however often it was asked."""
    _, (source, *bounds), *taken = _reduce(found)
    skips, stop, step = bounds if len(bounds) == 3 else (0, 0, 1)
    skips, stop = max(skips - taken[0], 0), None if stop is None else max(stop - taken[0], 0)
    return {"bounds": (skips, stop, step), "of": None if skips == stop == 0 else snap.see(source)}


def _takewhile(snap, found):
    _, parts, *over = _reduce(found)
    return {"of": None if any(over) else [snap.see(part) for part in parts]}


def _dropwhile(snap, found):
    """One that has begun to give asks nobody any more."""
    _, (function, source), *begun = _reduce(found)
    return {"of": snap.see(_alone(source))} if any(begun) else {"of": snap.see(source), "function": snap.see(function)}


def _alone(source):
    """What a chain that nobody sees goes on with, if that is one iterator."""
    parts = _parts(source) if type(source) is itertools.chain else []
    return parts[-1] if parts and not any(map(_left, parts[:-1])) else source


def _left(source):
    """The elements that a sequence, or an iterator over one, has left; that of another kind is its own only element."""
    if type(source) is itertools.chain:
        return [item for part in _parts(source) for item in _left(part)]
    if type(source) in (list, tuple):
        return list(source)
    if type(source) not in (type(iter([])), type(iter(()))):
        return [source]
    _, (items,), *index = _reduce(source)
    return list(items[index[0] if index else 0:])


def _handle(snap, handle):
    """Whose hooks it takes away. Those of a tensor that nobody has any more are nobody's business: how long it lives is,
    where eager code has an exception, up to the exception, which holds the frames that it passed."""
    more = dict(vars(handle))
    refs = [ref for ref in (more.pop("hooks_dict_ref", None), *more.pop("extra_dict_ref", ())) if ref is not None]
    places = [{} for _ in refs]
    snap.weak += zip(places, refs)
    return {"of": places, "attributes": snap.see(Fields(more))}


def _ndarray(snap, found):
    try:
        values = Bits(torch.from_numpy(numpy.array(found)))
    except (TypeError, ValueError):  # torch has no such elements
        values = repr(found) if found.dtype.hasobject else found.tobytes()
    return {"dtype": str(found.dtype), "shape": found.shape, "strides": found.strides, "writeable": found.flags.writeable,
            "values": values, "base": found.base is not None, "owns": found.flags.owndata}


INSIDE = [
    (types.FunctionType, _function),
    (types.CellType, lambda snap, cell: _cell(snap, cell)),
    (types.MethodType, lambda snap, m: {"function": snap.see(m.__func__), "self": snap.see(m.__self__)}),
    ((types.BuiltinMethodType, types.MethodWrapperType), lambda snap, m: {"name": m.__name__, "self": snap.see(m.__self__)}),
    (functools.partial, lambda snap, p: {"function": snap.see(p.func), "args": snap.see(p.args), "keywords": snap.see(p.keywords),
                                         **snap._attributes(p)}),
    (types.MappingProxyType, lambda snap, proxy: {"items": snap.see(dict(proxy))}),
    ((type({}.keys()), type({}.values()), type({}.items())), lambda snap, view: {"items": [snap.see(item) for item in view]}),
    (RemovableHandle, _handle),
    (weakref.ref, lambda snap, ref: {"target": snap.see(ref())}),
    (numpy.ndarray, _ndarray),
    ((bytearray, array.array), lambda snap, buffer: {"contents": repr(buffer), **snap._attributes(buffer)}),
    (itertools.chain, _chain),
    (itertools.cycle, _cycle),
    (itertools.islice, _islice),
    (itertools.takewhile, _takewhile),
    (itertools.dropwhile, _dropwhile),
    (numpy.generic, lambda snap, value: {"dtype": str(value.dtype), "value": repr(value)}),
    (torch.Generator, lambda snap, g: {"state": g.get_state().tolist()}),
    (BaseException, lambda snap, exc: snap.exception(exc)),
    (logging.Logger, lambda snap, log: {"state": (log.name, log.level, log.disabled, log.propagate)}),
    (OPAQUE, lambda snap, value: {}),
    (torch.UntypedStorage, lambda snap, s: {"storage": snap.storages.setdefault(s._cdata, len(snap.storages))}),
    ((int, float, complex, str, bytes), lambda snap, value: {"value": _plain_repr(value), **snap._attributes(value)}),
    (property, lambda snap, p: {"parts": [snap.see(p.fget), snap.see(p.fset), snap.see(p.fdel)]}),
    ((staticmethod, classmethod), lambda snap, m: {"function": snap.see(m.__func__)}),
]


def _plain_repr(value):
    base = next(cls for cls in (int, float, complex, str, bytes) if isinstance(value, cls))
    return base.__repr__(value)


def _plain(obj, kind):
    base = next(cls for cls in (list, tuple, collections.deque) if issubclass(kind, cls))
    return base.__iter__(obj)


def _stable(item):
    """An order for the elements of a set that does not depend on addresses."""
    kind = type(item)
    if kind in ATOMS or kind in VALUES:
        return (kind.__name__, repr(item))
    if issubclass(kind, (tuple, list)):
        return (kind.__name__, [_stable(part) for part in item])
    if issubclass(kind, frozenset):
        return (kind.__name__, sorted(repr(_stable(part)) for part in item))
    if issubclass(kind, torch.Tensor):
        return (kind.__name__, tuple(item.shape), item.detach().to_dense().flatten().tolist())
    if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        held = [cell.cell_contents for cell in getattr(item, "__closure__", None) or ()]
        owner = getattr(item, "__self__", None)
        return ("known", _name(item), [_stable(part) for part in (*held, owner) if not isinstance(part, types.ModuleType)])
    return (_name(kind), [(name, _stable(value)) for name, value in getattr(item, "__dict__", {}).items()
                          if type(value) in ATOMS])


def _name(obj):
    return f"{getattr(obj, '__module__', None)}.{getattr(obj, '__qualname__', getattr(obj, '__name__', '?'))}"


def _importable(obj):
    """Whether the name of a function or class leads to this very object: then it is the same one in every run."""
    where = sys.modules.get(getattr(obj, "__module__", None) or "builtins")
    for part in getattr(obj, "__qualname__", "?").split("."):
        where = getattr(where, part, None)
    return where is obj


def _tensors_in(root):
    """The float tensors in a result, in order."""
    found, seen, todo = [], set(), [root]
    while todo:
        obj = todo.pop()
        if id(obj) in seen or type(obj) in ATOMS:
            continue
        seen.add(id(obj))
        kind = type(obj)
        if issubclass(kind, torch.Tensor):
            if obj.is_floating_point() or obj.is_complex():
                found.append(obj)
        elif issubclass(kind, (list, tuple, collections.deque)):
            todo += reversed(list(_plain(obj, kind)))
        elif issubclass(kind, dict):
            todo += reversed(list(dict.values(obj)))
        elif issubclass(kind, torch.nn.Module) or hasattr(kind, "__dataclass_fields__"):
            todo += reversed(list(vars(obj).values()) if hasattr(obj, "__dict__") else [])
        elif kind.__module__.startswith("tests.") and hasattr(kind, "__dict__"):
            try:
                todo += reversed(list(object.__getattribute__(obj, "__dict__").values()))
            except AttributeError:
                pass
    return found
