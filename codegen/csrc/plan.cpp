// The Python type `Plan`.
#include "plan.h"

namespace codegen {

PyTypeObject* plan_type = nullptr;

namespace {

const PlanState& as_plan(PyObject* self) { return *static_cast<Plan*>(self); }

std::vector<bool> bools(PyObject* tuple) {
    std::vector<bool> flags;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* flag = PyTuple_GET_ITEM(tuple, i);
        if (!PyBool_Check(flag)) raise(PyExc_TypeError, "inputs_saved must be a tuple of bools, got %R", tuple);
        flags.push_back(flag == Py_True);
    }
    return flags;
}

PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"name", "backward", "partial", "differentiable", "inputs_saved", nullptr};
    const char* name;
    PyObject *backward, *partial, *differentiable, *inputs_saved;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOOOO!:Plan", (char**)names, &name, &backward, &partial,
                                     &differentiable, &PyTuple_Type, &inputs_saved))
        return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        for (PyObject* function : {backward, partial, differentiable})
            if (!PyCallable_Check(function)) raise(PyExc_TypeError, "%s: not callable: %R", name, function);
        return Plan::make(type, {name, share(backward), share(partial), share(differentiable), bools(inputs_saved)}).release();
    });
}

PyObject* plan_repr(PyObject* self) { return PyUnicode_FromFormat("<Plan %s>", as_plan(self).name.c_str()); }

PyObject* plan_name(PyObject* self, void*) { return PyUnicode_FromString(as_plan(self).name.c_str()); }
PyObject* plan_backward(PyObject* self, void*) { return none_or(as_plan(self).backward.get()); }
PyObject* plan_partial(PyObject* self, void*) { return none_or(as_plan(self).partial.get()); }
PyObject* plan_differentiable(PyObject* self, void*) { return none_or(as_plan(self).differentiable.get()); }
PyObject* plan_inputs_saved(PyObject* self, void*) {
    return guarded((PyObject*)nullptr, [&] {
        const std::vector<bool>& flags = as_plan(self).inputs_saved;
        Ref tuple = checked(PyTuple_New(flags.size()));
        for (size_t i = 0; i < flags.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, PyBool_FromLong(flags[i]));
        return tuple.release();
    });
}

PyGetSetDef attributes[] = {
    {"name", plan_name, nullptr, "what grad_fn.name() gives", nullptr},
    {"backward", plan_backward, nullptr, "called where all gradients are there and wanted", nullptr},
    {"partial", plan_partial, nullptr, "called where some are not", nullptr},
    {"differentiable", plan_differentiable, nullptr, "called where the gradients get a history", nullptr},
    {"inputs_saved", plan_inputs_saved, nullptr, "per saved tensor: does it exist outside?", nullptr},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, (void*)"Plan(name, backward, partial, differentiable, inputs_saved)\n\nWhat all calls of one compiled "
                       "function share of its backward; immutable."},
    {Py_tp_new, (void*)plan_new},
    {Py_tp_dealloc, (void*)Plan::dealloc},
    {Py_tp_traverse, (void*)Plan::traverse},
    {Py_tp_repr, (void*)plan_repr},
    {Py_tp_getset, attributes},
    {}};
PyType_Spec spec = {"codegen._C.Plan", sizeof(Plan), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

void add_plan(PyObject* module) {
    Ref type = checked(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (PyModule_AddType(module, (PyTypeObject*)type.get()) < 0) throw PythonError();
    plan_type = (PyTypeObject*)type.release();  // kept for the life of the process: C++ code names it
}

}  // namespace codegen
