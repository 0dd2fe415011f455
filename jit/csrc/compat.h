/* Everything that differs between CPython versions, each difference once, with its reason.
 *
 * C and C++ see the first part. hook.c defines JIT_FRAME_LAYOUT to see the second part, which needs the interpreter's
 * internal headers (they compile as C only). */
#pragma once

#if defined(JIT_FRAME_LAYOUT) && !defined(Py_BUILD_CORE_MODULE)
#define JIT_WANTS_INTERNALS 1
#endif

#include <Python.h>
#include <frameobject.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "framejit's native core knows the frames, dicts and types of CPython 3.11, 3.12 and 3.13 only"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The `__dict__` of an object whose type keeps it in front of the object ("managed"), if it was made already.
 * 3.12 keeps either a dict or tagged inline values in that word; 3.11 and 3.13 keep the dict alone. */
static inline PyObject *jit_made_managed_dict(PyObject *object) {
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return NULL;
    uintptr_t word = ((uintptr_t *)object)[-3];
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    if (word & 1) return NULL;
#endif
    return (PyObject *)word;
}

/* True if the values of this dict live inside the object it describes. Since 3.13 such dicts exist, and in 3.13.0 a
 * write to an attribute of that object changes no version tag (gh-125608): their contents must be compared by value. */
static inline int jit_dict_is_inline(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030D0000
    return ((PyDictObject *)dict)->ma_values != NULL;
#else
    (void)dict;
    return 0;
#endif
}

/* Number that no other state of any dict of this interpreter has. Deprecated since 3.12, and still kept up to date. */
static inline uint64_t jit_dict_tag(PyObject *dict) {
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
    return ((PyDictObject *)dict)->ma_version_tag;
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
}

/* Number that no other state of any type of this interpreter has, or 0 if the type has none now. Up to 3.12 a stale
 * number may stay behind in the field; the flag says whether it counts. */
static inline uint32_t jit_type_tag(PyTypeObject *type) {
    return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

/* Attribute or NULL; absence is no error (an error is left set otherwise). Renamed and made public in 3.13. */
static inline int jit_optional_attribute(PyObject *object, PyObject *name, PyObject **value) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyObject_GetOptionalAttr(object, name, value);
#else
    return _PyObject_LookupAttr(object, name, value);
#endif
}

/* The object that a weak reference points to (borrowed), or NULL once it is dead. */
static inline PyObject *jit_weak_target(PyObject *weakref) {
    PyObject *target = ((PyWeakReference *)weakref)->wr_object;
    /* An object that is being torn down still stands in its weak references, with no references left of its own. */
    return target == Py_None || Py_REFCNT(target) <= 0 ? NULL : target;
}

/* C recursion that Python code is charged for. Since 3.12 each Python call that goes through C takes two units from a
 * small budget of its own (a call that the interpreter inlines takes none), whatever the recursion limit says. */
#if PY_VERSION_HEX >= 0x030C0000
#define JIT_C_RECURSION_UNITS 2
#define JIT_C_RECURSION_BUDGET(tstate) ((tstate)->c_recursion_remaining)
#else
#define JIT_C_RECURSION_UNITS 0
#endif

static inline void jit_lend_c_recursion(PyThreadState *tstate) {
#if JIT_C_RECURSION_UNITS
    JIT_C_RECURSION_BUDGET(tstate) += JIT_C_RECURSION_UNITS;
#else
    (void)tstate;
#endif
}

static inline void jit_take_back_c_recursion(PyThreadState *tstate) {
#if JIT_C_RECURSION_UNITS
    JIT_C_RECURSION_BUDGET(tstate) -= JIT_C_RECURSION_UNITS;
#else
    (void)tstate;
#endif
}

/* The current thread state without a check: the GIL is held wherever this is called. */
static inline PyThreadState *jit_thread_state(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

/* True while sys.settrace is in force on this thread: its lines must be the user's lines, so nothing is replaced. */
static inline int jit_thread_is_traced(PyThreadState *tstate) {
    return tstate->c_tracefunc != NULL;
}

#ifdef __cplusplus
}
#endif
