// Binding of the arguments of a call to the argument slots of a code object, as the interpreter does it.
#pragma once

#include "refs.h"

#include <algorithm>
#include <vector>

namespace jit {

// Argument slots of `code`: positional, keyword-only, *args, **kwargs.
inline Py_ssize_t slot_count_of(const PyCodeObject* code) {
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
}

// An array that lies on the stack as long as it is short.
template <class T, size_t inline_length>
class ShortArray {
public:
    explicit ShortArray(size_t length) {
        if (length > inline_length) {
            heap_.resize(length);
            data_ = heap_.data();
        }
    }
    ShortArray(const ShortArray&) = delete;
    T* data() { return data_; }
    T& operator[](size_t i) { return data_[i]; }

private:
    T inline_[inline_length];
    T* data_ = inline_;
    std::vector<T> heap_;
};

// The slots of one call. Objects are the caller's, or held here.
class BoundArguments {
public:
    BoundArguments(PyFunctionObject* function, PyObject* const* args, Py_ssize_t positional, PyObject* keywords);
    ~BoundArguments();
    explicit operator bool() const { return bound_; }
    PyObject* const* slots() const { return slots_; }
    Py_ssize_t count() const { return count_; }

private:
    bool bind(PyFunctionObject* function, PyObject* const* args, Py_ssize_t positional, PyObject* keywords);
    bool bind_keyword(PyCodeObject* code, PyObject* keyword, PyObject* value);
    bool fill_defaults(PyFunctionObject* function, PyCodeObject* code, Py_ssize_t given);

    Py_ssize_t count_;
    PyObject* const* slots_;
    ShortArray<PyObject*, 24> room_;
    bool bound_;
    Ref extra_positional_, extra_keywords_, defaults_;
    std::vector<Ref> held_;
};

}  // namespace jit
