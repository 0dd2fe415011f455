// What all calls of one compiled function share of its backward.
#pragma once

#include "refs.h"

#include <string>
#include <vector>

namespace codegen {

// Immutable. Everything in it existed before it did, so each cycle through it also passes through an object that the
// collector can clear: like a tuple, it needs no tp_clear, and nobody ever meets one without its functions.
struct BackwardState {
    std::string name;
    Ref whole;   // the common case: ([*saved, *extra, *tangents]); null for none
    Ref choose;  // all others: (defined, needed, released, has_history) -> (function, read, released, kept)
    std::vector<bool> inputs_saved;  // per saved tensor: does it exist outside the compiled function?
    std::vector<uint32_t> nodes;     // how many of the first outputs, one after the other, have a node of their own

    int visit(visitproc visitor, void* argument) const {
        return visit_all(visitor, argument, whole, choose);
    }
};
using Backward = Instance<BackwardState>;

extern PyTypeObject* backward_type;

// Makes the type and puts it into the module, which keeps it for good. Throws PythonError.
void add_backward(PyObject* module);

}  // namespace codegen
