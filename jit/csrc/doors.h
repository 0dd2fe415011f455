// The direct doors: callables that check guards on their own argument vector and call the compiled code.
#pragma once

#include "binding.h"
#include "cache.h"
#include "ranges.h"
#include "thread.h"

namespace jit {

// Runs the compiled code of a hit on these slots and the values behind them.
inline PyObject* call_compiled(const Hit& hit, PyObject* const* slots, Py_ssize_t count) {
    const CallRange range(hit);
    LendRecursion lent;
    const Py_ssize_t more = hit.entry->value_parameters();
    if (!more) return PyObject_Vectorcall(hit.function(), slots, count, nullptr);
    ShortArray<PyObject*, 24> all(count + more);
    std::copy_n(slots, count, all.data());
    hit.put_values(all.data() + count);
    return PyObject_Vectorcall(hit.function(), all.data(), count + more, nullptr);
}

// Runs the continuation that compiled code hands over to instead of a result, and those that follow, up to the result.
PyObject* finish(PyObject* result) noexcept;

// Whether compiled code hands over to a continuation.
bool hands_over(PyObject* result) noexcept;

// Lets go of the arguments in what compiled code handed over.
void empty_hand_over(PyObject* handed) noexcept;

}  // namespace jit
