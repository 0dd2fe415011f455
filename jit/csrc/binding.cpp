// Binding arguments to slots. Whatever does not fit makes binding fail quietly: the original function is then called
// with the same arguments and raises the interpreter's own TypeError.
#include "binding.h"


namespace jit {
namespace {

PyCodeObject* code_of(PyFunctionObject* function) { return reinterpret_cast<PyCodeObject*>(function->func_code); }

// The last **keywords dict, if it was left empty and nobody kept it. The next call takes it up, and guards that looked at
// it know it by its version tag.
PyObject* spare_keywords = nullptr;

// Index of the parameter called `keyword` among those that may be given by keyword, or -1.
Py_ssize_t find_parameter(PyCodeObject* code, PyObject* keyword) {
    PyObject** names = &PyTuple_GET_ITEM(code->co_localsplusnames, 0);
    const Py_ssize_t total = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < total; ++i)
        if (names[i] == keyword) return i;
    // Names of calls and of parameters are interned as a rule, those from a ** dict need not be.
    for (Py_ssize_t i = code->co_posonlyargcount; i < total; ++i)
        if (PyUnicode_Compare(names[i], keyword) == 0) return i;
    return -1;
}

}  // namespace

BoundArguments::BoundArguments(PyFunctionObject* function, PyObject* const* args, Py_ssize_t positional, PyObject* keywords)
    : count_(slot_count_of(code_of(function))), slots_(args), room_(count_) {
    const PyCodeObject* code = code_of(function);
    const bool is_plain = positional == code->co_argcount && count_ == positional && (!keywords || !PyTuple_GET_SIZE(keywords));
    bound_ = is_plain || bind(function, args, positional, keywords);
    if (!bound_) PyErr_Clear();
}

BoundArguments::~BoundArguments() {
    if (extra_keywords_ && !spare_keywords && Py_REFCNT(extra_keywords_.get()) == 1 && !PyDict_GET_SIZE(extra_keywords_.get()))
        spare_keywords = extra_keywords_.release();
}

bool BoundArguments::bind(PyFunctionObject* function, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
    PyCodeObject* code = code_of(function);
    const bool takes_extra_positional = code->co_flags & CO_VARARGS, takes_extra_keywords = code->co_flags & CO_VARKEYWORDS;
    const Py_ssize_t named = code->co_argcount + code->co_kwonlyargcount;
    const Py_ssize_t given = std::min<Py_ssize_t>(positional, code->co_argcount);
    if (positional > given && !takes_extra_positional) return false;

    slots_ = room_.data();
    std::copy_n(args, given, room_.data());
    std::fill(room_.data() + given, room_.data() + count_, nullptr);
    if (takes_extra_positional) {
        extra_positional_ = take(PyTuple_New(positional - given));
        if (!extra_positional_) return false;
        for (Py_ssize_t i = given; i < positional; ++i)
            PyTuple_SET_ITEM(extra_positional_.get(), i - given, Py_NewRef(args[i]));
        room_[named] = extra_positional_.get();
    }
    if (takes_extra_keywords) {
        extra_keywords_ = take(spare_keywords ? std::exchange(spare_keywords, nullptr) : PyDict_New());
        if (!extra_keywords_) return false;
        room_[named + takes_extra_positional] = extra_keywords_.get();
    }
    if (keywords)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i)
            if (!bind_keyword(code, PyTuple_GET_ITEM(keywords, i), args[positional + i])) return false;
    return fill_defaults(function, code, given);
}

bool BoundArguments::bind_keyword(PyCodeObject* code, PyObject* keyword, PyObject* value) {
    if (!PyUnicode_Check(keyword)) return false;
    Py_ssize_t parameter = find_parameter(code, keyword);
    if (parameter < 0) return extra_keywords_ && PyDict_SetItem(extra_keywords_.get(), keyword, value) == 0;
    if (room_[parameter]) return false;
    room_[parameter] = value;
    return true;
}

bool BoundArguments::fill_defaults(PyFunctionObject* function, PyCodeObject* code, Py_ssize_t given) {
    PyObject* defaults = function->func_defaults;
    const Py_ssize_t default_count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    const Py_ssize_t first_default = code->co_argcount - default_count;
    for (Py_ssize_t i = given; i < code->co_argcount; ++i) {
        if (room_[i]) continue;
        if (i < first_default) return false;
        room_[i] = PyTuple_GET_ITEM(defaults, i - first_default);
        if (!defaults_) defaults_ = share(defaults);
    }
    PyObject* names = code->co_localsplusnames;
    for (Py_ssize_t i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; ++i) {
        if (room_[i]) continue;
        PyObject* keyword_defaults = function->func_kwdefaults;
        PyObject* value = keyword_defaults ? PyDict_GetItemWithError(keyword_defaults, PyTuple_GET_ITEM(names, i)) : nullptr;
        if (!value) return false;
        held_.push_back(share(value));  // the dict may change before the call is over
        room_[i] = value;
    }
    return true;
}

}  // namespace jit
