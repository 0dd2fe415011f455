"""What only the slots of a class say, not its special methods.

`is_generic`: whether a class written in C leaves its attributes to `object`'s way of looking for them, or has a way of
its own. Each class that names the generic function in its slot has a `__getattribute__` of its own
(`dict.__getattribute__`), as has one that answers names which are in no namespace (`decimal.Context`, for `traps`).

`makes_as_object`: a class whose `__new__` was stored and deleted again has `object.__new__`, but not in its slot.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from types import ModuleType, UnionType, WrapperDescriptorType
from typing import Any

_slot_of = ctypes.pythonapi.PyType_GetSlot
_slot_of.restype, _slot_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


_NEW = 65  # the number of this slot in CPython's stable ABI
#: name of a special method -> (number of its slot in CPython's stable ABI, the generic function)
_SLOTS = {
    "__getattribute__": (58, _address(ctypes.pythonapi.PyObject_GenericGetAttr)),
    "__setattr__": (69, _address(ctypes.pythonapi.PyObject_GenericSetAttr)),
    "__delattr__": (69, _address(ctypes.pythonapi.PyObject_GenericSetAttr)),
}
#: They do the same with another namespace (the thread's), with more to say where there is no such attribute, or but for
#: some names.
_AS_GENERIC: dict[type, tuple[str, ...]] = {threading.local: (), ModuleType: (), UnionType: ("__module__",)}


@functools.cache
def is_generic(hook: Any, name: str = "") -> bool:
    """Whether this native `__getattribute__`, `__setattr__` or `__delattr__` does what `object`'s does (for `name`)."""
    if not isinstance(hook, WrapperDescriptorType) or hook.__name__ not in _SLOTS:
        return False
    number, generic = _SLOTS[hook.__name__]
    if hook.__objclass__ in _AS_GENERIC:
        return name not in _AS_GENERIC[hook.__objclass__]
    return _slot_of(hook.__objclass__, number) == generic


def makes_as_object(cls: type) -> bool:
    """Whether the class makes its instances with the function with which `object` does."""
    return _slot_of(cls, _NEW) == _slot_of(object, _NEW)
