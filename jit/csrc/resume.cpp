// ResumeDoor: the door into a continuation, the rest of a function after a graph break.
#include "doors.h"

#include "binding.h"
#include "hook.h"
#include "types.h"

namespace jit {
namespace {

struct ResumeDoorState {
    vectorcallfunc vectorcall = nullptr;
    PyObject* weak_references = nullptr;
    Owned<PyCodeObject> code;
    Ref globals;
    Owned<Cache> cache;
    Ref miss;
    Ref name;
    Ref compiler;

    int visit(visitproc visitor, void* argument) const {
        return visit_all(visitor, argument, code, globals, cache, miss, name, compiler);
    }
    void clear() {
        miss.reset();
        compiler.reset();
        // Without globals no continuation can be made any more, and none is: whoever could ask is garbage as well.
        globals.reset();
    }
};
using ResumeDoor = Instance<ResumeDoorState>;

ResumeDoor* as_resume_door(PyObject* self) { return static_cast<ResumeDoor*>(self); }

// The continuation as a function with the cells of this call.
Ref make_function(ResumeDoor* door, PyObject* closure) {
    if (!door->globals) raise(PyExc_RuntimeError, "this continuation was already torn down");
    Ref function = checked(PyFunction_New(door->code.as_object(), door->globals.get()));
    if (closure && PyFunction_SetClosure(function.get(), closure) < 0) throw PythonError();
    if (door->name && PyObject_SetAttrString(function.get(), "__name__", door->name.get()) < 0) throw PythonError();
    return function;
}

PyObject* resume_door_call(PyObject* self, PyObject* const* args, size_t flagged_count, PyObject* keywords) noexcept {
    ResumeDoor* door = as_resume_door(self);
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        const Py_ssize_t positional = PyVectorcall_NARGS(flagged_count);
        if (positional != door->code->co_argcount + 1 || (keywords && PyTuple_GET_SIZE(keywords)))
            raise(PyExc_TypeError, "a continuation of %U takes its cells and %d positional arguments, got %zd",
                  door->code->co_name, door->code->co_argcount, positional - 1);
        PyObject* closure = args[0] == Py_None ? nullptr : args[0];
        const Py_ssize_t cells = closure ? (PyTuple_Check(closure) ? PyTuple_GET_SIZE(closure) : -1) : 0;
        if (cells != door->code->co_nfreevars)
            raise(PyExc_TypeError, "a continuation of %U needs a tuple of %d cells, got %R", door->code->co_name,
                  door->code->co_nfreevars, args[0]);

        Ref held = share(self);
        PyObject* const* slots = args + 1;
        const Py_ssize_t count = positional - 1;
        Ref function;
        if (!jit_thread.compiling && !jit_thread_is_traced(jit_thread_state()) && door->miss) {
            PauseRegion pause;
            CallContext call{nullptr, door->globals.get(), closure, slots, count};
            Hit hit = door->cache->find(call);
            if (!hit && !door->cache->frozen) {
                function = make_function(door, closure);
                call.function = function.get();
                hit = compile_on_miss(door->cache.get(), door->miss.get(), self, call, function.get());
            }
            if (hit && hit.function()) {
                LendRecursion lent;
                return call_compiled(hit, slots, count);
            }
        }
        if (!function) function = make_function(door, closure);
        if (jit_thread.region) jit_thread.run_once = door->code.get();
        LendRecursion lent;
        return PyObject_Vectorcall(function.get(), slots, count, nullptr);
    });
}

PyObject* resume_door_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"code", "globals", "cache", "miss", "name", nullptr};
    PyObject *code, *globals, *cache, *miss, *name = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O|O:ResumeDoor", (char**)names, &PyCode_Type, &code, &PyDict_Type,
                                     &globals, cache_type, &cache, &miss, &name))
        return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        auto* made = (PyCodeObject*)code;
        if (slot_count_of(made) != made->co_argcount)
            raise(PyExc_ValueError, "a continuation has plain positional parameters only: %R", code);
        ResumeDoorState state;
        state.vectorcall = resume_door_call;
        state.code = Owned<PyCodeObject>::share(made);
        state.globals = share(globals);
        state.cache = Owned<Cache>::share(static_cast<Cache*>(cache));
        state.miss = share(miss);
        if (name != Py_None) state.name = share(name);
        return ResumeDoor::make(type, std::move(state)).release();
    });
}

PyObject* resume_door_repr(PyObject* self) {
    ResumeDoor* door = as_resume_door(self);
    return PyUnicode_FromFormat("<continuation %S>", door->name ? door->name.get() : door->code->co_name);
}

PyObject* resume_door_code(PyObject* self, void*) { return Py_NewRef(as_resume_door(self)->code.as_object()); }
PyObject* resume_door_cache(PyObject* self, void*) { return Py_NewRef(as_resume_door(self)->cache.as_object()); }
PyObject* resume_door_globals(PyObject* self, void*) { return none_or(as_resume_door(self)->globals.get()); }
PyObject* resume_door_name(PyObject* self, void*) { return none_or(as_resume_door(self)->name.get()); }
PyObject* resume_door_compiler(PyObject* self, void*) { return none_or(as_resume_door(self)->compiler.get()); }
int resume_door_set_compiler(PyObject* self, PyObject* value, void*) {
    as_resume_door(self)->compiler = share(value);
    return 0;
}

PyGetSetDef attributes[] = {
    {"code", resume_door_code, nullptr, "the code of the continuation", nullptr},
    {"cache", resume_door_cache, nullptr, "the compiled entries", nullptr},
    {"globals", resume_door_globals, nullptr, "the globals of the continuation", nullptr},
    {"name", resume_door_name, nullptr, "the name given to functions made here", nullptr},
    {"__name__", resume_door_name, nullptr, "the name given to functions made here", nullptr},
    {"compiler", resume_door_compiler, resume_door_set_compiler, "whatever the compiler keeps here", nullptr},
    {}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ResumeDoor, vectorcall), READONLY},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ResumeDoor, weak_references), READONLY},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, (void*)"ResumeDoor(code, globals, cache, miss, name=None)\n\nCall it as door(cells_or_None, *arguments)."},
    {Py_tp_new, (void*)resume_door_new},
    {Py_tp_dealloc, (void*)ResumeDoor::dealloc},
    {Py_tp_traverse, (void*)ResumeDoor::traverse},
    {Py_tp_clear, (void*)ResumeDoor::clear_references},
    {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_repr, (void*)resume_door_repr},
    {Py_tp_getset, attributes},
    {Py_tp_members, members},
    {}};

PyType_Spec spec = {"jit._C.ResumeDoor", sizeof(ResumeDoor), 0, type_flags | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void add_resume_door(PyObject* module) { add_type(module, spec); }

}  // namespace jit
