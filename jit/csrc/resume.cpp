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

// A call of a continuation that is still to be made: its door, the cells or None, the arguments. Compiled code returns it, so
// that its frame is gone by then, and what lived in it; the continuation of a caller calls it. It alone has the arguments.
struct HandOver {
    PyObject_VAR_HEAD PyObject* door;
    vectorcallfunc vectorcall;
    PyObject* items[1];
};
PyTypeObject* hand_over_type = nullptr;

PyObject* hand_over_call(PyObject* self, PyObject* const*, size_t flagged_count, PyObject* keywords) noexcept {
    if (PyVectorcall_NARGS(flagged_count) || (keywords && PyTuple_GET_SIZE(keywords))) {
        PyErr_SetString(PyExc_TypeError, "a continuation has its arguments");
        return nullptr;
    }
    return finish(Py_NewRef(self));
}

PyObject* hand_over(PyObject* self, PyObject* const* args, size_t flagged_count, PyObject* keywords) noexcept {
    const Py_ssize_t count = PyVectorcall_NARGS(flagged_count);
    if (keywords && PyTuple_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "a continuation takes no keywords");
        return nullptr;
    }
    auto* made = (HandOver*)PyObject_NewVar(HandOver, hand_over_type, count);
    if (!made) return nullptr;
    made->door = Py_NewRef(self);
    made->vectorcall = hand_over_call;
    for (Py_ssize_t i = 0; i < count; ++i) made->items[i] = Py_NewRef(args[i]);
    return (PyObject*)made;
}

void hand_over_dealloc(PyObject* self) {
    auto* handed = (HandOver*)self;
    PyTypeObject* type = Py_TYPE(self);
    empty_hand_over(self);
    Py_DECREF(handed->door);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyMemberDef hand_over_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(HandOver, vectorcall), READONLY},
    {}};

// Called through `tp_call` alone it would take one more level of the recursion before 3.12, and the program has that.
PyType_Slot hand_over_slots[] = {
    {Py_tp_doc, (void*)"A call of a continuation that is still to be made, by whom compiled code returns it to or by calling it."},
    {Py_tp_dealloc, (void*)hand_over_dealloc},
    {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_members, hand_over_members},
    {}};

PyType_Spec hand_over_spec = {"jit._C.HandOver", offsetof(HandOver, items), sizeof(PyObject*),
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE |
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              hand_over_slots};

// Its result, or what it hands over to.
PyObject* resume(HandOver* handed) noexcept {
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        auto* door = as_resume_door(handed->door);
        PyObject* const* args = handed->items;
        const Py_ssize_t positional = Py_SIZE(handed);
        if (positional != door->code->co_argcount + 1)
            raise(PyExc_TypeError, "a continuation of %U takes its cells and %d positional arguments, got %zd",
                  door->code->co_name, door->code->co_argcount, positional - 1);
        if (!args[0]) raise(PyExc_RuntimeError, "a continuation was called before");
        PyObject* closure = args[0] == Py_None ? nullptr : args[0];
        const Py_ssize_t cells = closure ? (PyTuple_Check(closure) ? PyTuple_GET_SIZE(closure) : -1) : 0;
        if (cells != door->code->co_nfreevars)
            raise(PyExc_TypeError, "a continuation of %U needs a tuple of %d cells, got %R", door->code->co_name,
                  door->code->co_nfreevars, args[0]);

        PyObject* self = reinterpret_cast<PyObject*>(door);
        PyObject* const* slots = args + 1;
        const Py_ssize_t count = positional - 1;
        Ref function;
        const bool is_traced = !door->cache->stepped && jit_thread_is_traced(jit_thread_state());
        if (!jit_aside && !jit_thread.compiling && !jit_stack_is_deep() && !is_traced && door->miss) {
            PauseRegion pause;
            CallContext call{nullptr, door->globals.get(), closure, slots, count};
            Hit hit = door->cache->find(call);
            if (!hit && !door->cache->frozen) {
                function = make_function(door, closure);
                call.function = function.get();
                hit = compile_on_miss(door->cache.get(), door->miss.get(), self, call, function.get());
            }
            if (hit && hit.function()) return call_compiled(hit, slots, count);
        }
        if (!function) function = make_function(door, closure);
        LendRecursion lent;
        return jit_run_alone((PyFunctionObject*)function.get(), slots, count, (PyObject*)handed);
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
        state.vectorcall = hand_over;
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
    {Py_tp_doc, (void*)"ResumeDoor(code, globals, cache, miss, name=None)\n\ndoor(cells_or_None, *arguments)() goes on here."},
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

void empty_hand_over(PyObject* handed) noexcept {
    for (Py_ssize_t i = 0; i < Py_SIZE(handed); ++i) Py_CLEAR(((HandOver*)handed)->items[i]);
}

bool hands_over(PyObject* result) noexcept { return Py_TYPE(result) == hand_over_type; }

PyObject* finish(PyObject* result) noexcept {
    while (result && hands_over(result)) {
        Ref held = take(result);
        result = resume((HandOver*)result);
        empty_hand_over(held.get());  // others may hold it while the next runs
    }
    return result;
}

void add_resume_door(PyObject* module) {
    add_type(module, spec);
    hand_over_type = add_type(module, hand_over_spec);
}

}  // namespace jit
