// The direct doors: callables that check guards on their own argument vector and call the compiled code.
#pragma once

#include "cache.h"

namespace jit {

// Runs the compiled code of a hit. `slots` has room for one more object behind it only through `with_last`.
template <class Slots>
PyObject* call_compiled(const Hit& hit, Slots& slots) {
    if (!hit.values) return PyObject_Vectorcall(hit.function(), slots.slots(), slots.count(), nullptr);
    return PyObject_Vectorcall(hit.function(), slots.with_last(hit.values.get()), slots.count() + 1, nullptr);
}

}  // namespace jit
