// Ownership of Python objects, in types. Logic elsewhere never counts references by hand.
// `jit/csrc`, a floor above, uses these too.
#pragma once

#include <Python.h>

#include <exception>
#include <new>
#include <utility>

namespace codegen {

// An owned reference (or none). A plain `PyObject*` in this code base is always borrowed.
template <class T = PyObject>
class Owned {
public:
    Owned() noexcept = default;
    Owned(std::nullptr_t) noexcept {}
    Owned(Owned&& other) noexcept : object_(other.release()) {}
    Owned(const Owned& other) noexcept : object_(other.object_) { Py_XINCREF(as_object()); }
    Owned& operator=(Owned other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Owned() { Py_XDECREF(as_object()); }

    // Takes over a reference that the caller owns: what most of the C API returns.
    static Owned take(void* object) noexcept {
        Owned result;
        result.object_ = static_cast<T*>(object);
        return result;
    }
    // Adds a reference to a borrowed object.
    static Owned share(T* object) noexcept {
        Py_XINCREF(reinterpret_cast<PyObject*>(object));
        return take(object);
    }

    T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    PyObject* as_object() const noexcept { return reinterpret_cast<PyObject*>(object_); }
    T* release() noexcept { return std::exchange(object_, nullptr); }
    // Drops the reference only after the field is empty, because dropping may run code that looks here.
    void reset() noexcept { Owned dropped(std::move(*this)); }
    int visit(visitproc visitor, void* argument) const {
        return object_ ? visitor(as_object(), argument) : 0;
    }

private:
    T* object_ = nullptr;
};

using Ref = Owned<PyObject>;

inline Ref take(PyObject* object) { return Ref::take(object); }
inline Ref share(PyObject* object) { return Ref::share(object); }
inline PyObject* none_or(PyObject* object) { return Py_NewRef(object ? object : Py_None); }

// A Python error raised on its way out through C++ code; the error itself is in the thread state.
struct PythonError {};

inline Ref checked(PyObject* object) {
    if (!object) throw PythonError();
    return take(object);
}
template <class... Arguments>
[[noreturn]] void raise(PyObject* type, const char* format, Arguments... arguments) {
    PyErr_Format(type, format, arguments...);
    throw PythonError();
}

// A Python object whose C++ part is `State`: a movable class with a destructor, `int visit(visitproc, void*)` for the
// garbage collector and, if its type has a tp_clear, `void clear()`, which drops every reference that may be part of a
// cycle.
template <class State>
struct Instance : PyObject, State {
    // The state is complete before the object exists, so the collector never sees a half-made one.
    static Owned<Instance> make(PyTypeObject* type, State state) {
        PyObject* memory = type->tp_alloc(type, 0);
        if (!memory) throw PythonError();
        auto* instance = static_cast<Instance*>(memory);
        new (static_cast<State*>(instance)) State(std::move(state));
        return Owned<Instance>::take(instance);
    }
    static void dealloc(PyObject* self) {
        PyTypeObject* type = Py_TYPE(self);
        PyObject_GC_UnTrack(self);
        if (type->tp_weaklistoffset) PyObject_ClearWeakRefs(self);
        static_cast<State*>(static_cast<Instance*>(self))->~State();
        type->tp_free(self);
        Py_DECREF(type);  // a heap type is owned by its instances
    }
    static int traverse(PyObject* self, visitproc visitor, void* argument) {
        if (int stop = visitor(reinterpret_cast<PyObject*>(Py_TYPE(self)), argument)) return stop;
        return static_cast<Instance*>(self)->State::visit(visitor, argument);
    }
    static int clear_references(PyObject* self) {
        static_cast<Instance*>(self)->State::clear();
        return 0;
    }
};

// Visits several owned references; the collector's protocol is "stop at the first non-zero answer".
template <class... Refs>
int visit_all(visitproc visitor, void* argument, const Refs&... refs) {
    int stop = 0;
    (void)((stop = refs.visit(visitor, argument)) || ...);
    return stop;
}

// Runs `body`, turning what C++ threw into a Python error and the given failure value.
template <class Body, class Failure>
auto guarded(Failure failure, Body body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (const PythonError&) {
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return failure;
}

}  // namespace codegen
