// The autograd node of one call of a compiled function.
#pragma once

#include "backward.h"

namespace codegen {

// tie(backward, inputs, outputs, saved, extra, history): see codegen/_C.pyi.
PyObject* tie(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// below(function, *args): see codegen/_C.pyi.
PyObject* below(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

}  // namespace codegen
