// The Python type `Guards`.
#include "types.h"

namespace jit {

PyTypeObject* guards_type = nullptr;

namespace {

GuardsObject* as_guards(PyObject* self) { return static_cast<GuardsObject*>(self); }

PyObject* guards_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"nodes", "checks", "values", nullptr};
    PyObject *nodes, *checks, *values;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:Guards", (char**)names, &nodes, &checks, &values)) return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        return GuardsObject::make(type, GuardTree(nodes, checks, values)).release();
    });
}

bool parse_call(PyObject* args, const char* format, CallContext& call) {
    PyObject *function, *slots;
    if (!PyArg_ParseTuple(args, format, &PyFunction_Type, &function, &PyTuple_Type, &slots)) return false;
    call = CallContext::of(function, &PyTuple_GET_ITEM(slots, 0), PyTuple_GET_SIZE(slots));
    return true;
}

PyObject* guards_check(PyObject* self, PyObject* args) {
    CallContext call;
    if (!parse_call(args, "O!O!:check", call)) return nullptr;
    Values values;
    if (!as_guards(self)->check(call, values, true)) Py_RETURN_NONE;
    return values.tuple() ? Py_NewRef(values.tuple()) : PyTuple_New(0);
}

PyObject* guards_explain(PyObject* self, PyObject* args) {
    CallContext call;
    if (!parse_call(args, "O!O!:explain", call)) return nullptr;
    Values values;
    Failure why;
    if (as_guards(self)->check(call, values, true, &why)) Py_RETURN_NONE;
    long place = why.at == Failure::At::check ? (long)why.given_index : -1 - (long)why.given_index;
    return Py_BuildValue("lO", place, why.observed ? why.observed.get() : Py_None);
}

PyObject* guards_node_count(PyObject* self, void*) { return PyLong_FromSize_t(as_guards(self)->node_count()); }
PyObject* guards_check_count(PyObject* self, void*) { return PyLong_FromSize_t(as_guards(self)->check_count()); }

PyMethodDef methods[] = {
    {"check", guards_check, METH_VARARGS,
     "check(function, slots) -> tuple | None\n\nThe wanted values if every guard holds, else None."},
    {"explain", guards_explain, METH_VARARGS,
     "explain(function, slots) -> (place, observed) | None\n\nThe first guard that fails: the index of the check, or -1 - "
     "the index of the node that can't be read, and the object looked at. None if all hold."},
    {}};

PyGetSetDef attributes[] = {
    {"node_count", guards_node_count, nullptr, "number of nodes", nullptr},
    {"check_count", guards_check_count, nullptr, "number of checks", nullptr},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, (void*)"Guards(nodes, checks, values)\n\nA compiled guard tree; immutable."},
    {Py_tp_new, (void*)guards_new},
    {Py_tp_dealloc, (void*)GuardsObject::dealloc},
    {Py_tp_traverse, (void*)GuardsObject::traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {}};

PyType_Spec spec = {"jit._C.Guards", sizeof(GuardsObject), 0, type_flags, slots};

}  // namespace

void add_guards(PyObject* module) { guards_type = add_type(module, spec); }

}  // namespace jit
