// Registration of the Python types that this extension defines.
#pragma once

#include "cache.h"

namespace jit {

constexpr unsigned type_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE;

// Makes the type and puts it into the module, which keeps it for good. Throws PythonError.
PyTypeObject* add_type(PyObject* module, PyType_Spec& spec);

void add_guards(PyObject* module);
void add_cache_types(PyObject* module);
void add_door_types(PyObject* module);
void add_resume_door(PyObject* module);
void add_region(PyObject* module);

}  // namespace jit
