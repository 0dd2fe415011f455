// Region: the part of a program whose frames the hook looks at.
#include "binding.h"
#include "hook.h"
#include "types.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/record_function.h>
#include <unistd.h>

namespace jit {
namespace {

struct RegionState {
    vectorcallfunc vectorcall = nullptr;
    PyObject* weak_references = nullptr;
    Owned<Caches> caches;
    Ref classify;
    Ref miss;
    bool rests = false;  // where nothing is found the hook is taken out until the thread's next operation on a tensor

    int visit(visitproc visitor, void* argument) const { return visit_all(visitor, argument, caches, classify, miss); }
    void clear() {
        // The map stays: the hook looks there without asking.
        classify.reset();
        miss.reset();
    }
};
using Region = Instance<RegionState>;

Region* as_region(PyObject* self) { return static_cast<Region*>(self); }

// This thread is in the region while one of these lives. While it compiles, it is in none.
class StayInRegion {
public:
    explicit StayInRegion(Region* region) : region_(Owned<Region>::share(region)), before_(jit_thread.region) {
        if (!jit_thread.compiling) jit_set_region(region);
    }
    ~StayInRegion() { jit_set_region(before_); }
    StayInRegion(const StayInRegion&) = delete;

private:
    Owned<Region> region_;
    void* before_;
};

// What `enter` left for `exit`, innermost first. Kept by the thread; one that ends inside a region leaks a few words.
struct Entered {
    Owned<Region> region;
    void* before;
    Entered* outer;
};

Entered*& innermost_entered() { return reinterpret_cast<Entered*&>(jit_thread.entered); }

// The cache for this code, or null if it is never to be compiled. Asks `classify` once per code object.
Owned<Cache> cache_for(Region* region, PyCodeObject* code, PyObject* known) {
    Ref cache = share(known);
    if (!cache) {
        if (!region->classify) return {};
        MarkCompiling compiling;
        cache = checked(PyObject_CallOneArg(region->classify.get(), (PyObject*)code));
        if (cache.get() != Py_None && Py_TYPE(cache.get()) != cache_type)
            raise(PyExc_TypeError, "classify must return a Cache or None, got %R", cache.get());
        region->caches->set((PyObject*)code, cache.get());
    }
    return cache.get() == Py_None ? Owned<Cache>() : Owned<Cache>::take(static_cast<Cache*>(cache.release()));
}

// What awaits this thread's next operation. The dispatcher calls it before the operation, often without the GIL; threads
// that autograd starts inherit it, and have nothing to wake.
thread_local at::CallbackHandle awaiting = at::INVALID_CALLBACK_HANDLE;

std::unique_ptr<at::ObserverContext> wake(const at::RecordFunction&) {
    if (jit_thread.resting) {
        const PyGILState_STATE gil = PyGILState_Ensure();
        jit_set_region(jit_thread.region);
        PyGILState_Release(gil);
    }
    return nullptr;
}

}  // namespace
}  // namespace jit

int jit_region_rests(void* region) { return static_cast<jit::Region*>(region)->rests; }

void jit_await_operation(void) {
    if (jit::awaiting != at::INVALID_CALLBACK_HANDLE) return;
    jit::awaiting =
        at::addThreadLocalCallback(at::RecordFunctionCallback(jit::wake).scopes({at::RecordScope::FUNCTION}));
}

void jit_await_no_more(void) {
    if (jit::awaiting == at::INVALID_CALLBACK_HANDLE) return;
    at::removeCallback(std::exchange(jit::awaiting, at::INVALID_CALLBACK_HANDLE));
}

jit_verdict_t jit_decide(PyFunctionObject* function, PyCodeObject* code, PyObject** slots,
                         jit_replacement_t* replacement) {
    using namespace jit;
    auto* active = static_cast<Region*>(jit_thread.region);
    // A checkpoint compares what this frame saves with what it saves when it runs again, in no region.
    if (jit_aside) return JIT_RUN_ORIGINAL;
    if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return JIT_RUN_ORIGINAL;
    PyObject* known = active->caches->find((PyObject*)code);
    if (known == Py_None || (known && static_cast<Cache*>(known)->is_given_up())) return JIT_RUN_ORIGINAL;
    return guarded(JIT_RAISE, [&] {
        Owned<Region> region = Owned<Region>::share(active);
        PauseRegion pause;
        Owned<Cache> cache = cache_for(region.get(), code, known);
        if (!cache || !region->miss) return JIT_RUN_ORIGINAL;
        if (cache->timed) replacement->timed = cache;
        CallContext call{(PyObject*)function, function->func_globals, function->func_closure, slots, slot_count_of(code)};
        Hit hit = cache->find(call);
        if (!hit) hit = compile_on_miss(cache.get(), region->miss.get(), cache.as_object(), call, (PyObject*)function);
        if (!hit || !hit.function()) return JIT_RUN_ORIGINAL;
        replacement->hit = std::move(hit);
        replacement->slots = slot_count_of(code);
        replacement->region = pause.keep_paused();
        return JIT_RUN_COMPILED;
    });
}

namespace jit {
namespace {

PyObject* region_call(PyObject* self, PyObject* const* args, size_t flagged_count, PyObject* keywords) noexcept {
    const Py_ssize_t positional = PyVectorcall_NARGS(flagged_count);
    if (positional < 1) return PyErr_Format(PyExc_TypeError, "a region takes a callable and its arguments");
    StayInRegion stay(as_region(self));
    return PyObject_Vectorcall(args[0], args + 1, positional - 1, keywords);
}

PyObject* region_ex(PyObject* self, PyObject* args) {
    PyObject *function, *positional, *keywords = Py_None;
    if (!PyArg_ParseTuple(args, "OO!|O:ex", &function, &PyTuple_Type, &positional, &keywords)) return nullptr;
    if (keywords != Py_None && !PyDict_Check(keywords)) return PyErr_Format(PyExc_TypeError, "expected a dict or None, got %R", keywords);
    StayInRegion stay(as_region(self));
    return PyObject_Call(function, positional, keywords == Py_None ? nullptr : keywords);
}

PyObject* region_enter(PyObject* self, PyObject*) {
    innermost_entered() = new Entered{Owned<Region>::share(as_region(self)), jit_thread.region, innermost_entered()};
    jit_set_region(as_region(self));
    if (as_region(self)->rests && gettid() == getpid()) jit_main_enters();
    Py_RETURN_NONE;
}

PyObject* region_exit(PyObject* self, PyObject*) {
    Entered* entered = innermost_entered();
    if (!entered || entered->region.get() != as_region(self))
        return PyErr_Format(PyExc_RuntimeError, "exit of a region that this thread did not enter last");
    innermost_entered() = entered->outer;
    jit_set_region(entered->before);
    delete entered;
    Py_RETURN_NONE;
}

PyObject* region_deeper(PyObject*, PyObject* levels) {
    const long count = PyLong_AsLong(levels);
    if (count == -1 && PyErr_Occurred()) return nullptr;
    PyThreadState* tstate = jit_thread_state();
    if (JIT_FRAMES_LEFT(tstate) < count) return PyErr_Format(PyExc_RecursionError, "maximum recursion depth exceeded");
    JIT_FRAMES_LEFT(tstate) -= (int)count;
    Py_RETURN_NONE;
}

PyObject* region_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"caches", "classify", "miss", "rests", nullptr};
    PyObject *caches, *classify, *miss;
    int rests = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO|p:Region", (char**)names, caches_type, &caches, &classify, &miss, &rests))
        return nullptr;
    return guarded((PyObject*)nullptr, [&]() -> PyObject* {
        RegionState state;
        state.vectorcall = region_call;
        state.caches = Owned<Caches>::share(static_cast<Caches*>(caches));
        state.classify = share(classify);
        state.miss = share(miss);
        state.rests = rests;
        return Region::make(type, std::move(state)).release();
    });
}

PyObject* region_caches(PyObject* self, void*) { return Py_NewRef(as_region(self)->caches.as_object()); }
PyObject* region_active(PyObject* self, void*) { return PyBool_FromLong(jit_thread.region == as_region(self)); }

PyObject* region_resting(PyObject* self, void*) {
    return PyBool_FromLong(jit_thread.region == as_region(self) && jit_thread.resting);
}

PyObject* call_suspended(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
    if (positional < 1) return PyErr_Format(PyExc_TypeError, "call_suspended takes a callable and its arguments");
    PauseRegion pause;
    LendRecursion lent;
    return PyObject_Vectorcall(args[0], args + 1, positional - 1, keywords);
}

PyMethodDef functions[] = {
    {"call_suspended", (PyCFunction)(void (*)())call_suspended, METH_FASTCALL | METH_KEYWORDS,
     "call_suspended(fn, *args, **kwargs)\n\nCalls with no region active on this thread."},
    {}};

PyMethodDef methods[] = {
    {"ex", region_ex, METH_VARARGS, "ex(fn, args, kwargs=None)\n\nfn(*args, **kwargs) in this region."},
    {"enter", region_enter, METH_NOARGS, "enter()\n\nThis thread is in the region until `exit`."},
    {"deeper", region_deeper, METH_O,
     "deeper(levels)\n\nTakes so many levels of this thread's recursion, for frames that are inlined into the one that "
     "runs, or gives them back (below 0). Raises RecursionError if fewer are left."},
    {"exit", region_exit, METH_NOARGS, "exit()\n\nLeaves the region that this thread entered last."},
    {}};

PyGetSetDef attributes[] = {
    {"caches", region_caches, nullptr, "the caches that frames are looked up in", nullptr},
    {"active", region_active, nullptr, "True if this thread is in this region now", nullptr},
    {"resting", region_resting, nullptr, "True if this thread is in it, and the hook awaits an operation on a tensor", nullptr},
    {}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Region, vectorcall), READONLY},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Region, weak_references), READONLY},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, (void*)"Region(caches, classify, miss, rests=False)\n\nregion(fn, *args, **kwargs) calls with frames looked up in the caches."},
    {Py_tp_new, (void*)region_new},
    {Py_tp_dealloc, (void*)Region::dealloc},
    {Py_tp_traverse, (void*)Region::traverse},
    {Py_tp_clear, (void*)Region::clear_references},
    {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_members, members},
    {}};

PyType_Spec spec = {"jit._C.Region", sizeof(Region), 0, type_flags | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void add_region(PyObject* module) {
    add_type(module, spec);
    if (PyModule_AddFunctions(module, functions) < 0) throw PythonError();
}

}  // namespace jit
