// Entry, Cache and Caches: look-up, and their Python types.
#include "cache.h"

#include "binding.h"
#include "ranges.h"
#include "thread.h"
#include "types.h"

namespace jit {

PyTypeObject* entry_type = nullptr;
PyTypeObject* cache_type = nullptr;
PyTypeObject* caches_type = nullptr;
Counters counters;

Hit try_entry(Entry* entry, const CallContext& call) {
    Hit hit;
    Owned<Entry> held = Owned<Entry>::share(entry);
    if (entry->guards->check(call, hit.values, entry->packed)) {
        ++entry->hits;
        hit.entry = std::move(held);
    }
    return hit;
}

namespace {

// The same entries with the one at `index` in front.
Ref with_front(PyObject* entries, Py_ssize_t index) {
    Ref moved = take(PyTuple_New(PyTuple_GET_SIZE(entries)));
    if (!moved) {
        PyErr_Clear();  // the order is a matter of speed only
        return share(entries);
    }
    PyTuple_SET_ITEM(moved.get(), 0, Py_NewRef(PyTuple_GET_ITEM(entries, index)));
    for (Py_ssize_t from = 0, to = 1; from < PyTuple_GET_SIZE(entries); ++from)
        if (from != index) PyTuple_SET_ITEM(moved.get(), to++, Py_NewRef(PyTuple_GET_ITEM(entries, from)));
    return moved;
}

}  // namespace

Hit CacheState::find(const CallContext& call) {
    Owned<PyTupleObject> looked_at = entries;
    if (!looked_at) return {};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(looked_at.get()); ++i) {
        Hit hit = try_entry(static_cast<Entry*>(PyTuple_GET_ITEM(looked_at.get(), i)), call);
        if (!hit) continue;
        ++counters.hits;
        // If a guard's Python code changed the list meanwhile, its order stands.
        if (i > 0 && entries.get() == looked_at.get()) replace_entries(with_front(looked_at.as_object(), i));
        return hit;
    }
    return {};
}

void CallRange::open(at::StepCallbacks callbacks, const Hit& hit) {
    if (!hit.entry->meta) return;
    Ref label = take(PyObject_GetAttrString(hit.entry->meta.get(), "label"));
    const char* text = label ? PyUnicode_AsUTF8(label.get()) : nullptr;
    if (text) recorded_.emplace(std::move(callbacks)).before(std::string(text));
    else PyErr_Clear();  // then the call has no range
}

Hit compile_on_miss(Cache* cache, PyObject* miss, PyObject* subject, const CallContext& call, PyObject* function) {
    if (cache->frozen || jit_thread.compiling) return {};
    ++cache->misses;
    ++counters.misses;
    Ref slots = checked(PyTuple_New(call.slot_count));
    for (Py_ssize_t i = 0; i < call.slot_count; ++i) PyTuple_SET_ITEM(slots.get(), i, Py_NewRef(call.slots[i]));
    Ref answer;
    {
        MarkCompiling compiling;
        CountCompiling counting;
        PyObject* arguments[] = {nullptr, subject, slots.get(), function};
        answer = checked(PyObject_Vectorcall(miss, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    }
    if (answer.get() == Py_None) return {};
    if (Py_TYPE(answer.get()) != entry_type) raise(PyExc_TypeError, "miss must return an Entry or None, got %R", answer.get());
    return try_entry(static_cast<Entry*>(answer.get()), call);
}

void CodeMap::grow() {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 64 : slots_.size() * 2));
    for (Slot& slot : old) {
        if (!slot.code) continue;
        size_t i = hash(slot.code.get());
        while (slots_[i].code) i = (i + 1) & mask();
        slots_[i] = std::move(slot);
    }
}

void CodeMap::set(PyObject* code, PyObject* cache) {
    if (used_ * 2 >= slots_.size()) grow();
    size_t i = hash(code);
    while (slots_[i].code && slots_[i].code.get() != code) i = (i + 1) & mask();
    Ref replaced = std::exchange(slots_[i].cache, share(cache));
    if (slots_[i].code) return;
    slots_[i].code = share(code);
    ++used_;
}

int CodeMap::visit(visitproc visitor, void* argument) const {
    for (const Slot& slot : slots_)
        if (int stop = visit_all(visitor, argument, slot.code, slot.cache)) return stop;
    return 0;
}

void CodeMap::clear() {
    std::vector<Slot> dropped;
    std::swap(dropped, slots_);
    used_ = 0;
}

namespace {

// --- Entry

PyObject* entry_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"guards", "function", "meta", "packed", nullptr};
    PyObject *guards, *function, *meta = Py_None;
    int packed = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|Op:Entry", (char**)names, guards_type, &guards, &function, &meta,
                                     &packed))
        return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        EntryState state;
        state.guards = Owned<GuardsObject>::share(static_cast<GuardsObject*>(guards));
        state.meta = share(meta);
        state.packed = packed;
        if (function != Py_None) {
            if (!PyFunction_Check(function)) raise(PyExc_TypeError, "an entry takes a function or None, got %R", function);
            auto* code = (PyCodeObject*)((PyFunctionObject*)function)->func_code;
            if (!(code->co_flags & CO_OPTIMIZED) || (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)))
                raise(PyExc_ValueError, "compiled code must be a plain function: %R", function);
            if (code->co_nfreevars || code->co_kwonlyargcount || (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)))
                raise(PyExc_ValueError, "compiled code has plain positional parameters and no free variables: %R", function);
            state.function = share(function);
        }
        return Entry::make(type, std::move(state)).release();
    });
}

Entry* as_entry(PyObject* self) { return static_cast<Entry*>(self); }
PyObject* entry_guards(PyObject* self, void*) { return none_or(as_entry(self)->guards.get()); }
PyObject* entry_function(PyObject* self, void*) { return none_or(as_entry(self)->function.get()); }
PyObject* entry_meta(PyObject* self, void*) { return none_or(as_entry(self)->meta.get()); }
int entry_set_meta(PyObject* self, PyObject* value, void*) {
    as_entry(self)->meta = share(value);
    return 0;
}
PyObject* entry_hits(PyObject* self, void*) { return PyLong_FromLongLong(as_entry(self)->hits); }

PyGetSetDef entry_attributes[] = {
    {"guards", entry_guards, nullptr, "when this entry stands for the original", nullptr},
    {"function", entry_function, nullptr, "the compiled code, or None: run the original", nullptr},
    {"meta", entry_meta, entry_set_meta, "whatever the compiler wants to remember", nullptr},
    {"hits", entry_hits, nullptr, "how often the guards held", nullptr},
    {}};

PyType_Slot entry_slots[] = {
    {Py_tp_doc, (void*)"Entry(guards, function, meta=None, packed=False)\n\nCompiled code and the guards under which it may "
                       "run. Wanted values follow the arguments, one by one or packed into one tuple."},
    {Py_tp_new, (void*)entry_new},
    {Py_tp_dealloc, (void*)Entry::dealloc},
    {Py_tp_traverse, (void*)Entry::traverse},
    {Py_tp_clear, (void*)Entry::clear_references},
    {Py_tp_getset, entry_attributes},
    {}};
PyType_Spec entry_spec = {"jit._C.Entry", sizeof(Entry), 0, type_flags, entry_slots};

// --- Cache

PyObject* cache_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"code", "limit", nullptr};
    PyObject* code;
    Py_ssize_t limit;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!n:Cache", (char**)names, &PyCode_Type, &code, &limit)) return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        CacheState state;
        state.code = Owned<PyCodeObject>::share((PyCodeObject*)code);
        state.limit = limit;
        state.replace_entries(checked(PyTuple_New(0)));
        return Cache::make(type, std::move(state)).release();
    });
}

Cache* as_cache(PyObject* self) { return static_cast<Cache*>(self); }

// Compiled code takes the slots of the original, and the values if there are any. Sets an error if it does not.
bool fits(Entry* entry, PyCodeObject* original) {
    if (!entry->function) return true;
    const Py_ssize_t wanted = slot_count_of(original) + entry->value_parameters();
    const int taken = ((PyCodeObject*)((PyFunctionObject*)entry->function.get())->func_code)->co_argcount;
    if (taken == wanted) return true;
    PyErr_Format(PyExc_ValueError, "%R takes %d arguments; code of %U is called with %zd", entry->function.get(), taken,
                 original->co_name, wanted);
    return false;
}

PyObject* cache_add(PyObject* self, PyObject* entry) {
    if (Py_TYPE(entry) != entry_type) return PyErr_Format(PyExc_TypeError, "expected an Entry, got %R", entry);
    if (!fits(static_cast<Entry*>(entry), as_cache(self)->code.get())) return nullptr;
    PyObject* old = as_cache(self)->entries.as_object();
    Py_ssize_t count = old ? PyTuple_GET_SIZE(old) : 0;
    Ref longer = take(PyTuple_New(count + 1));
    if (!longer) return nullptr;
    PyTuple_SET_ITEM(longer.get(), 0, Py_NewRef(entry));
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(longer.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(old, i)));
    as_cache(self)->replace_entries(std::move(longer));
    Py_RETURN_NONE;
}

PyObject* cache_clear(PyObject* self, PyObject*) {
    Ref empty = take(PyTuple_New(0));
    if (!empty) return nullptr;
    as_cache(self)->replace_entries(std::move(empty));
    Py_RETURN_NONE;
}

PyObject* cache_code(PyObject* self, void*) { return none_or(as_cache(self)->code.as_object()); }
PyObject* cache_entries(PyObject* self, void*) { return none_or(as_cache(self)->entries.as_object()); }
PyObject* cache_misses(PyObject* self, void*) { return PyLong_FromLongLong(as_cache(self)->misses); }
PyObject* cache_limit(PyObject* self, void*) { return PyLong_FromSsize_t(as_cache(self)->limit); }
PyObject* cache_frozen(PyObject* self, void*) { return PyBool_FromLong(as_cache(self)->frozen); }

int cache_set_limit(PyObject* self, PyObject* value, void*) {
    Py_ssize_t limit = value ? PyLong_AsSsize_t(value) : -1;
    if (!value) PyErr_SetString(PyExc_AttributeError, "limit can't be deleted");
    if (PyErr_Occurred()) return -1;
    as_cache(self)->limit = limit;
    return 0;
}

int cache_set_frozen(PyObject* self, PyObject* value, void*) {
    int frozen = value ? PyObject_IsTrue(value) : 0;
    if (frozen < 0) return -1;
    as_cache(self)->frozen = frozen;
    return 0;
}

PyObject* cache_timed(PyObject* self, void*) { return PyBool_FromLong(as_cache(self)->timed); }
PyObject* cache_times(PyObject* self, void*) {
    const Times& times = as_cache(self)->times;
    return Py_BuildValue("LdLd", (long long)times.written_calls, 1e-9 * times.written, (long long)times.compiled_calls,
                         1e-9 * times.compiled);
}

int cache_set_timed(PyObject* self, PyObject* value, void*) {
    int timed = value ? PyObject_IsTrue(value) : 0;
    if (timed < 0) return -1;
    as_cache(self)->timed = timed;
    return 0;
}

PyObject* cache_stepped(PyObject* self, void*) { return PyBool_FromLong(as_cache(self)->stepped); }

int cache_set_stepped(PyObject* self, PyObject* value, void*) {
    int stepped = value ? PyObject_IsTrue(value) : 0;
    if (stepped < 0) return -1;
    as_cache(self)->stepped = stepped;
    return 0;
}

PyMethodDef cache_methods[] = {
    {"add", cache_add, METH_O, "add(entry)\n\nPuts an entry in front."},
    {"clear", cache_clear, METH_NOARGS, "clear()\n\nForgets all entries."},
    {}};

PyGetSetDef cache_attributes[] = {
    {"code", cache_code, nullptr, "the code object these entries stand for", nullptr},
    {"entries", cache_entries, nullptr, "tuple of entries, newest hit first", nullptr},
    {"misses", cache_misses, nullptr, "how often the compiler was asked", nullptr},
    {"limit", cache_limit, cache_set_limit, "how many entries the compiler means to allow", nullptr},
    {"frozen", cache_frozen, cache_set_frozen, "True: compile no more; a miss runs the original", nullptr},
    {"stepped", cache_stepped, cache_set_stepped, "whether doors find entries for a traced thread, too", nullptr},
    {"timed", cache_timed, cache_set_timed, "whether frames that the hook runs are timed", nullptr},
    {"times", cache_times, nullptr,
     "calls as written and their seconds, calls of compiled code but the first and their seconds, without what was compiled", nullptr},
    {}};

PyType_Slot cache_slots[] = {
    {Py_tp_doc, (void*)"Cache(code, limit)\n\nThe compiled entries of one code object."},
    {Py_tp_new, (void*)cache_new},
    {Py_tp_dealloc, (void*)Cache::dealloc},
    {Py_tp_traverse, (void*)Cache::traverse},
    {Py_tp_clear, (void*)Cache::clear_references},
    {Py_tp_methods, cache_methods},
    {Py_tp_getset, cache_attributes},
    {}};
PyType_Spec cache_spec = {"jit._C.Cache", sizeof(Cache), 0, type_flags, cache_slots};

// --- Caches

PyObject* caches_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Caches", (char**)names)) return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* { return Caches::make(type, CodeMap()).release(); });
}

Caches* as_caches(PyObject* self) { return static_cast<Caches*>(self); }

PyObject* caches_get(PyObject* self, PyObject* args) {
    PyObject *code, *fallback = Py_None;
    if (!PyArg_ParseTuple(args, "O!|O:get", &PyCode_Type, &code, &fallback)) return nullptr;
    PyObject* cache = as_caches(self)->find(code);
    return Py_NewRef(cache ? cache : fallback);
}

PyObject* caches_set(PyObject* self, PyObject* args) {
    PyObject *code, *cache;
    if (!PyArg_ParseTuple(args, "O!O:set", &PyCode_Type, &code, &cache)) return nullptr;
    if (cache != Py_None && Py_TYPE(cache) != cache_type)
        return PyErr_Format(PyExc_TypeError, "expected a Cache or None, got %R", cache);
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        as_caches(self)->set(code, cache);
        return Py_NewRef(Py_None);
    });
}

PyObject* caches_clear(PyObject* self, PyObject*) {
    as_caches(self)->clear();
    Py_RETURN_NONE;
}

Py_ssize_t caches_length(PyObject* self) { return as_caches(self)->size(); }

PyMethodDef caches_methods[] = {
    {"get", caches_get, METH_VARARGS, "get(code, default=None)\n\nThe cache of this code; None: never compile it."},
    {"set", caches_set, METH_VARARGS, "set(code, cache_or_none)"},
    {"clear", caches_clear, METH_NOARGS, "clear()\n\nForgets all code objects."},
    {}};

PyType_Slot caches_slots[] = {
    {Py_tp_doc, (void*)"Caches()\n\nMap from code objects, by identity, to their caches."},
    {Py_tp_new, (void*)caches_new},
    {Py_tp_dealloc, (void*)Caches::dealloc},
    {Py_tp_traverse, (void*)Caches::traverse},
    {Py_tp_clear, (void*)Caches::clear_references},
    {Py_tp_methods, caches_methods},
    {Py_mp_length, (void*)caches_length},
    {}};
PyType_Spec caches_spec = {"jit._C.Caches", sizeof(Caches), 0, type_flags, caches_slots};

}  // namespace

void add_cache_types(PyObject* module) {
    entry_type = add_type(module, entry_spec);
    cache_type = add_type(module, cache_spec);
    caches_type = add_type(module, caches_spec);
}

}  // namespace jit
