// The Python type `Backward`.
#include "backward.h"

namespace codegen {

PyTypeObject* backward_type = nullptr;

namespace {

const BackwardState& as_backward(PyObject* self) { return *static_cast<Backward*>(self); }

std::vector<bool> bools(PyObject* tuple) {
    std::vector<bool> flags;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* flag = PyTuple_GET_ITEM(tuple, i);
        if (!PyBool_Check(flag)) raise(PyExc_TypeError, "inputs_saved must be a tuple of bools, got %R", tuple);
        flags.push_back(flag == Py_True);
    }
    return flags;
}

std::vector<uint32_t> counts(PyObject* tuple) {
    std::vector<uint32_t> numbers;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* item = PyTuple_GET_ITEM(tuple, i);
        const long number = PyLong_Check(item) ? PyLong_AsLong(item) : 0;
        if (number < 1 || number > UINT16_MAX) raise(PyExc_TypeError, "nodes must be a tuple of counts, got %R", tuple);
        numbers.push_back(number);
    }
    return numbers;
}

PyObject* backward_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"name", "whole", "choose", "inputs_saved", "nodes", nullptr};
    const char* name;
    PyObject *whole, *choose, *inputs_saved, *nodes = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOOO!|O!:Backward", (char**)names, &name, &whole, &choose,
                                     &PyTuple_Type, &inputs_saved, &PyTuple_Type, &nodes))
        return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        for (PyObject* function : {whole, choose})
            if (!PyCallable_Check(function) && (function != Py_None || function == choose))
                raise(PyExc_TypeError, "%s: not callable: %R", name, function);
        auto numbers = nodes ? counts(nodes) : std::vector<uint32_t>();
        return Backward::make(type, {name, whole == Py_None ? Ref() : share(whole), share(choose), bools(inputs_saved), std::move(numbers)}).release();
    });
}

PyObject* backward_repr(PyObject* self) { return PyUnicode_FromFormat("<Backward %s>", as_backward(self).name.c_str()); }

PyObject* backward_name(PyObject* self, void*) { return PyUnicode_FromString(as_backward(self).name.c_str()); }
PyObject* backward_whole(PyObject* self, void*) { return none_or(as_backward(self).whole.get()); }
PyObject* backward_choose(PyObject* self, void*) { return none_or(as_backward(self).choose.get()); }
PyObject* backward_inputs_saved(PyObject* self, void*) {
    return guarded((PyObject*)nullptr, [&] {
        const std::vector<bool>& flags = as_backward(self).inputs_saved;
        Ref tuple = checked(PyTuple_New(flags.size()));
        for (size_t i = 0; i < flags.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, PyBool_FromLong(flags[i]));
        return tuple.release();
    });
}
PyObject* backward_nodes(PyObject* self, void*) {
    return guarded((PyObject*)nullptr, [&] {
        const std::vector<uint32_t>& nodes = as_backward(self).nodes;
        Ref tuple = checked(PyTuple_New(nodes.size()));
        for (size_t i = 0; i < nodes.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, checked(PyLong_FromLong(nodes[i])).release());
        return tuple.release();
    });
}

PyGetSetDef attributes[] = {
    {"name", backward_name, nullptr, "what grad_fn.name() gives", nullptr},
    {"whole", backward_whole, nullptr, "called where all gradients are there and wanted, or None", nullptr},
    {"choose", backward_choose, nullptr, "asked for a function in all other cases", nullptr},
    {"inputs_saved", backward_inputs_saved, nullptr, "per saved tensor: does it exist outside?", nullptr},
    {"nodes", backward_nodes, nullptr, "how many outputs each node of their own has", nullptr},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, (void*)"Backward(name, whole, choose, inputs_saved, nodes=())\n\nWhat all calls of one compiled "
                       "function share of its backward; immutable."},
    {Py_tp_new, (void*)backward_new},
    {Py_tp_dealloc, (void*)Backward::dealloc},
    {Py_tp_traverse, (void*)Backward::traverse},
    {Py_tp_repr, (void*)backward_repr},
    {Py_tp_getset, attributes},
    {}};
PyType_Spec spec = {"codegen._C.Backward", sizeof(Backward), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

void add_backward(PyObject* module) {
    Ref type = checked(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (PyModule_AddType(module, (PyTypeObject*)type.get()) < 0) throw PythonError();
    backward_type = (PyTypeObject*)type.release();  // kept for the life of the process: C++ code names it
}

}  // namespace codegen
