// Another history for a tensor, also for what was made of it; another age.
#pragma once

#include "refs.h"

namespace codegen {

// graft(tensors, others, made, ends): see codegen/_C.pyi.
PyObject* graft(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// arrange(tensors): see codegen/_C.pyi.
PyObject* arrange(PyObject* module, PyObject* tensors);

// keep_node(tensor): see codegen/_C.pyi.
PyObject* keep_node(PyObject* module, PyObject* tensor);

}  // namespace codegen
