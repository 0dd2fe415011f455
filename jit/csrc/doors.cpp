// Door, what the decorator returns, and BoundDoor, a door as a bound method.
#include "doors.h"

#include "binding.h"
#include "hook.h"
#include "types.h"

#include <cstring>

namespace jit {
namespace {

PyTypeObject* door_type = nullptr;
PyTypeObject* bound_door_type = nullptr;

struct DoorState {
    vectorcallfunc vectorcall = nullptr;
    PyObject* weak_references = nullptr;  // managed by the interpreter
    Owned<PyFunctionObject> function;
    Owned<Cache> cache;
    Ref miss;
    Ref compiler;

    int visit(visitproc visitor, void* argument) const {
        return visit_all(visitor, argument, function, cache, miss, compiler);
    }
    void clear() {
        // The function and the cache stay: a door in a cycle may still be called by a finaliser.
        miss.reset();
        compiler.reset();
    }
};
using Door = Instance<DoorState>;

Door* as_door(PyObject* self) { return static_cast<Door*>(self); }

PyObject* call_original(Door* door, PyObject* const* args, size_t flagged_count, PyObject* keywords) {
    Ref function = share(door->function.as_object());
    // Guards were asked already, so the frame hook need not ask them again for this frame.
    if (jit_thread.region) jit_thread.run_once = (PyCodeObject*)door->function->func_code;
    LendRecursion lent;
    return PyObject_Vectorcall(function.get(), args, flagged_count, keywords);
}

PyObject* door_call(PyObject* self, PyObject* const* args, size_t flagged_count, PyObject* keywords) noexcept {
    Door* door = as_door(self);
    PyFunctionObject* function = door->function.get();
    const bool stands_aside = jit_aside || jit_thread.compiling || jit_stack_is_deep() || !door->miss ||
                              function->func_code != door->cache->code.as_object() ||
                              (!door->cache->stepped && jit_thread_is_traced(jit_thread_state())) || jit_frames_are_others();
    if (stands_aside) return call_original(door, args, flagged_count, keywords);

    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        BoundArguments bound(function, args, PyVectorcall_NARGS(flagged_count), keywords);
        if (!bound) return call_original(door, args, flagged_count, keywords);

        Ref held = share(self);  // guards and compiled code may drop the last other reference
        PauseRegion pause;
        CallContext call = CallContext::of((PyObject*)function, bound.slots(), bound.count());
        Hit hit = door->cache->find(call);
        if (!hit) hit = compile_on_miss(door->cache.get(), door->miss.get(), self, call, (PyObject*)function);
        if (hit && hit.function()) {
            PyObject* result = call_compiled(hit, bound.slots(), bound.count());
            hit = Hit();  // what guards read may end before a continuation runs
            return finish(result);
        }
        pause.resume();
        return call_original(door, args, flagged_count, keywords);
    });
}

PyObject* door_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"function", "cache", "miss", nullptr};
    PyObject *function, *cache, *miss;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O:Door", (char**)names, &PyFunction_Type, &function, cache_type,
                                     &cache, &miss))
        return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        DoorState state;
        state.vectorcall = door_call;
        state.function = Owned<PyFunctionObject>::share((PyFunctionObject*)function);
        state.cache = Owned<Cache>::share(static_cast<Cache*>(cache));
        state.miss = share(miss);
        return Door::make(type, std::move(state)).release();
    });
}

Ref bind_to(PyObject* door, PyObject* object);

PyObject* door_get(PyObject* self, PyObject* object, PyObject*) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return guarded((PyObject*)nullptr, [&] { return bind_to(self, object).release(); });
}

// What a function says about itself, a door says in its name, though the type of doors has such attributes of its own.
bool is_told_by_function(PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    return text && (!std::strcmp(text, "__doc__") || !std::strcmp(text, "__module__") || !std::strcmp(text, "__dict__"));
}

PyObject* door_getattro(PyObject* self, PyObject* name) {
    if (_PyType_Lookup(Py_TYPE(self), name) && !is_told_by_function(name)) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(as_door(self)->function.as_object(), name);
}

int door_setattro(PyObject* self, PyObject* name, PyObject* value) {
    if (_PyType_Lookup(Py_TYPE(self), name) && !is_told_by_function(name)) return PyObject_GenericSetAttr(self, name, value);
    return PyObject_SetAttr(as_door(self)->function.as_object(), name, value);
}

PyObject* door_repr(PyObject* self) { return PyUnicode_FromFormat("<jit.compile of %R>", as_door(self)->function.get()); }

// By name, as functions are: unpickling finds the decorated function itself.
PyObject* door_reduce(PyObject* self, PyObject*) { return Py_NewRef(as_door(self)->function->func_qualname); }
PyObject* return_self(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* door_dir(PyObject* self, PyObject*) {
    Ref names = take(PyObject_Dir(as_door(self)->function.as_object()));
    if (!names) return nullptr;
    for (const char* own : {"__wrapped__", "cache", "compiler", "debug_state", "miss"}) {
        Ref name = take(PyUnicode_FromString(own));
        if (!name || PyList_Append(names.get(), name.get()) < 0) return nullptr;
    }
    return names.release();
}

PyObject* door_wrapped(PyObject* self, void*) { return Py_NewRef(as_door(self)->function.as_object()); }
PyObject* door_cache(PyObject* self, void*) { return Py_NewRef(as_door(self)->cache.as_object()); }
PyObject* door_miss(PyObject* self, void*) { return none_or(as_door(self)->miss.get()); }
PyObject* door_compiler(PyObject* self, void*) { return none_or(as_door(self)->compiler.get()); }
int door_set_compiler(PyObject* self, PyObject* value, void*) {
    as_door(self)->compiler = share(value);
    return 0;
}

PyObject* door_debug_state(PyObject* self, PyObject*) {
    Ref compiler = take(none_or(as_door(self)->compiler.get()));
    return PyObject_CallMethod(compiler.get(), "debug_state", nullptr);
}

PyMethodDef door_methods[] = {
    {"__reduce__", door_reduce, METH_NOARGS, "pickles by reference, as functions do"},
    {"__copy__", return_self, METH_NOARGS, "the door itself"},
    {"__deepcopy__", return_self, METH_O, "the door itself"},
    {"debug_state", door_debug_state, METH_NOARGS, "debug_state()\n\nWhat the compiler knows of it."},
    {"__dir__", door_dir, METH_NOARGS, "what the function has, and the door's own"},
    {}};

PyGetSetDef door_attributes[] = {
    {"__wrapped__", door_wrapped, nullptr, "the original function", nullptr},
    {"cache", door_cache, nullptr, "the compiled entries", nullptr},
    {"compiler", door_compiler, door_set_compiler, "whatever the compiler keeps here", nullptr},
    {"miss", door_miss, nullptr, "what makes entries", nullptr},
    {}};

PyMemberDef door_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Door, vectorcall), READONLY},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Door, weak_references), READONLY},
    {}};

PyType_Slot door_slots[] = {
    {Py_tp_new, (void*)door_new},
    {Py_tp_dealloc, (void*)Door::dealloc},
    {Py_tp_traverse, (void*)Door::traverse},
    {Py_tp_clear, (void*)Door::clear_references},
    {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_descr_get, (void*)door_get},
    {Py_tp_getattro, (void*)door_getattro},
    {Py_tp_setattro, (void*)door_setattro},
    {Py_tp_repr, (void*)door_repr},
    {Py_tp_methods, door_methods},
    {Py_tp_getset, door_attributes},
    {Py_tp_members, door_members},
    {}};

PyType_Spec door_spec = {"jit._C.Door", sizeof(Door), 0,
                         type_flags | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, door_slots};

// --- BoundDoor

struct BoundDoorState {
    vectorcallfunc vectorcall = nullptr;
    PyObject* weak_references = nullptr;
    Ref door;
    Ref object;

    int visit(visitproc visitor, void* argument) const { return visit_all(visitor, argument, door, object); }
    void clear() {}  // like a method, it can't be the only thing that holds a cycle together
};
using BoundDoor = Instance<BoundDoorState>;

BoundDoor* as_bound(PyObject* self) { return static_cast<BoundDoor*>(self); }

PyObject* bound_door_call(PyObject* self, PyObject* const* args, size_t flagged_count, PyObject* keywords) noexcept {
    BoundDoor* bound = as_bound(self);
    Ref door = bound->door, object = bound->object;
    const Py_ssize_t positional = PyVectorcall_NARGS(flagged_count);
    if (flagged_count & PY_VECTORCALL_ARGUMENTS_OFFSET) {
        // The caller lends the place before the arguments; what stood there is put back.
        PyObject** place = const_cast<PyObject**>(args) - 1;
        PyObject* lent = std::exchange(*place, object.get());
        PyObject* result = PyObject_Vectorcall(door.get(), place, positional + 1, keywords);
        *place = lent;
        return result;
    }
    const Py_ssize_t total = positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
    return guarded((PyObject*)nullptr, [&] {
        ShortArray<PyObject*, 24> longer(total + 1);
        longer[0] = object.get();
        std::copy_n(args, total, longer.data() + 1);
        return PyObject_Vectorcall(door.get(), longer.data(), positional + 1, keywords);
    });
}

Ref bind_to(PyObject* door, PyObject* object) {
    BoundDoorState state;
    state.vectorcall = bound_door_call;
    state.door = share(door);
    state.object = share(object);
    return take(BoundDoor::make(bound_door_type, std::move(state)).release());
}

PyObject* bound_door_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"door", "obj", nullptr};
    PyObject *door, *object;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O:BoundDoor", (char**)names, door_type, &door, &object)) return nullptr;
    return guarded((PyObject*)nullptr, [&] { return bind_to(door, object).release(); });
}

PyObject* bound_door_getattro(PyObject* self, PyObject* name) {
    if (_PyType_Lookup(Py_TYPE(self), name) && !is_told_by_function(name)) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(as_bound(self)->door.get(), name);
}

PyObject* bound_door_repr(PyObject* self) {
    return PyUnicode_FromFormat("<bound %R of %R>", as_bound(self)->door.get(), as_bound(self)->object.get());
}

// Equal, as bound methods are, if the same door is bound to the very same object.
PyObject* bound_door_compare(PyObject* self, PyObject* other, int operation) {
    if ((operation != Py_EQ && operation != Py_NE) || Py_TYPE(other) != bound_door_type) Py_RETURN_NOTIMPLEMENTED;
    bool equal = as_bound(self)->door.get() == as_bound(other)->door.get() &&
                 as_bound(self)->object.get() == as_bound(other)->object.get();
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

Py_hash_t bound_door_hash(PyObject* self) {
    Py_hash_t hash = _Py_HashPointer(as_bound(self)->door.get()) ^ _Py_HashPointer(as_bound(self)->object.get());
    return hash == -1 ? -2 : hash;
}

PyObject* bound_door_door(PyObject* self, void*) { return Py_NewRef(as_bound(self)->door.get()); }
PyObject* bound_door_object(PyObject* self, void*) { return Py_NewRef(as_bound(self)->object.get()); }

// Without it `inspect` would follow `__wrapped__` and show the first parameter, which is bound.
PyObject* bound_door_signature(PyObject* self, void*) {
    Ref function = take(PyObject_GetAttrString(as_bound(self)->door.get(), "__wrapped__"));
    Ref method = function ? take(PyMethod_New(function.get(), as_bound(self)->object.get())) : Ref();
    Ref inspect = method ? take(PyImport_ImportModule("inspect")) : Ref();
    return inspect ? PyObject_CallMethod(inspect.get(), "signature", "O", method.get()) : nullptr;
}

// As methods pickle: getattr(object, name).
PyObject* bound_door_reduce(PyObject* self, PyObject*) {
    Ref builtins = take(PyImport_ImportModule("builtins"));
    Ref getattr = builtins ? take(PyObject_GetAttrString(builtins.get(), "getattr")) : Ref();
    Ref name = getattr ? take(PyObject_GetAttrString(as_bound(self)->door.get(), "__name__")) : Ref();
    return name ? Py_BuildValue("O(OO)", getattr.get(), as_bound(self)->object.get(), name.get()) : nullptr;
}

// As methods are copied: a deep copy is bound to a copy of the object.
PyObject* bound_door_deepcopy(PyObject* self, PyObject* memo) {
    Ref copy = take(PyImport_ImportModule("copy"));
    Ref object = copy ? take(PyObject_CallMethod(copy.get(), "deepcopy", "OO", as_bound(self)->object.get(), memo)) : Ref();
    if (!object) return nullptr;
    return guarded((PyObject*)nullptr, [&] { return bind_to(as_bound(self)->door.get(), object.get()).release(); });
}

PyMethodDef bound_door_methods[] = {
    {"__reduce__", bound_door_reduce, METH_NOARGS, "pickles as bound methods do"},
    {"__copy__", return_self, METH_NOARGS, "the bound door itself"},
    {"__deepcopy__", bound_door_deepcopy, METH_O, "bound to a copy of the object"},
    {}};

PyGetSetDef bound_door_attributes[] = {
    {"__func__", bound_door_door, nullptr, "the door", nullptr},
    {"__self__", bound_door_object, nullptr, "the object it is bound to", nullptr},
    {"__signature__", bound_door_signature, nullptr, "without the parameter that is bound", nullptr},
    {}};

PyMemberDef bound_door_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundDoor, vectorcall), READONLY},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(BoundDoor, weak_references), READONLY},
    {}};

PyType_Slot bound_door_slots[] = {
    {Py_tp_new, (void*)bound_door_new},
    {Py_tp_dealloc, (void*)BoundDoor::dealloc},
    {Py_tp_traverse, (void*)BoundDoor::traverse},
    {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_getattro, (void*)bound_door_getattro},
    {Py_tp_repr, (void*)bound_door_repr},
    {Py_tp_richcompare, (void*)bound_door_compare},
    {Py_tp_hash, (void*)bound_door_hash},
    {Py_tp_methods, bound_door_methods},
    {Py_tp_getset, bound_door_attributes},
    {Py_tp_members, bound_door_members},
    {}};

PyType_Spec bound_door_spec = {"jit._C.BoundDoor", sizeof(BoundDoor), 0, type_flags | Py_TPFLAGS_HAVE_VECTORCALL,
                               bound_door_slots};

}  // namespace

void add_door_types(PyObject* module) {
    door_type = add_type(module, door_spec);
    bound_door_type = add_type(module, bound_door_spec);
}

}  // namespace jit
