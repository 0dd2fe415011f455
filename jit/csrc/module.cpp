// The extension module `jit._C`.
#include "cache.h"
#include "thread.h"
#include "types.h"

#include <utility>

__thread jit_thread_t jit_thread;
int jit_aside;

namespace jit {

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec) {
    Ref type = checked(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (PyModule_AddType(module, (PyTypeObject*)type.get()) < 0) throw PythonError();
    return (PyTypeObject*)type.release();  // kept for the life of the process: C++ code names it
}

namespace {

PyObject* is_compiling_thread(PyObject*, PyObject*) { return PyBool_FromLong(jit_thread.compiling > 0); }

PyObject* tensor_info_of(PyObject*, PyObject* tensor) {
    return guarded((PyObject*)nullptr, [&] { return tensor_info(tensor).release(); });
}

PyObject* counts(PyObject*, PyObject*) {
    return Py_BuildValue("{sLsL}", "hits", (long long)counters.hits, "misses", (long long)counters.misses);
}

PyObject* is_tensor_unhooked(PyObject*, PyObject* args) {
    PyObject* tensor = nullptr;
    int but_for_its_own = 0;
    if (!PyArg_ParseTuple(args, "O|p", &tensor, &but_for_its_own)) return nullptr;
    return PyBool_FromLong(is_unhooked(tensor, but_for_its_own));
}

PyObject* stand_aside(PyObject*, PyObject* value) {
    const int wanted = PyObject_IsTrue(value);
    if (wanted < 0) return nullptr;
    return PyBool_FromLong(std::exchange(jit_aside, wanted));
}

PyMethodDef functions[] = {
    {"stand_aside", stand_aside, METH_O,
     "stand_aside(value) -> bool\n\nWhether compiled functions run as they were written from now on, on all threads; "
     "gives what was in force before."},
    {"is_compiling_thread", is_compiling_thread, METH_NOARGS, "is_compiling_thread() -> bool\n\nTrue while `miss` runs on this thread."},
    {"tensor_info", tensor_info_of, METH_O,
     "tensor_info(tensor) -> dict\n\nThe payload of a \"tensor\" check as the tensor is now. Its dispatch keys are those in "
     "force on this thread: call it under the same modes as the code that is to be guarded."},
    {"counts", counts, METH_NOARGS,
     "counts() -> dict\n\nSince the process began: calls that found compiled code, calls that asked the compiler for some."},
    {"unhooked", is_tensor_unhooked, METH_VARARGS,
     "unhooked(tensor, but_for_its_own=False) -> bool\n\nWhether an \"unhooked\" check of the tensor holds: nobody is told of "
     "its gradient, or nobody but the hooks in the tensor's own dicts."},
    {}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "jit._C", "Native core: guards, doors and regions.", -1, functions};

}  // namespace
}  // namespace jit

PyMODINIT_FUNC PyInit__C() {
    using namespace jit;
    return guarded((PyObject*)nullptr, []() -> PyObject* {
        Ref module = checked(PyModule_Create(&definition));
        add_guards(module.get());
        add_cache_types(module.get());
        add_door_types(module.get());
        add_resume_door(module.get());
        add_region(module.get());
        if (PyModule_AddStringConstant(module.get(), "torch_version", torch_version()) < 0 ||
            PyModule_AddStringConstant(module.get(), "python_version", PY_VERSION) < 0)
            throw PythonError();
        return module.release();
    });
}
