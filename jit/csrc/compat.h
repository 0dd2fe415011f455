/* Everything that differs between CPython versions, each difference once, with its reason.
 *
 * C and C++ see the first part. hook.c defines JIT_FRAME_LAYOUT to see the second part, which needs the
 * interpreter's internal headers (they compile as C only). */
#pragma once

#include <Python.h>
#include <frameobject.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "framejit's native core knows the frames, dicts and types of CPython 3.11, 3.12 and 3.13 only"
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

/* True if the version tag of this dict can't be trusted. Since 3.13 the values of a dict may live inside the object that
 * it describes, and in 3.13.0 a write to an attribute of that object changes no tag (gh-125608, fixed in 3.13.1). */
static inline int jit_dict_changes_silently(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030D0000
    return ((PyDictObject *)dict)->ma_values != NULL && Py_Version < 0x030D0100;
#else
    (void)dict;
    return 0;
#endif
}

/* Gives the `__dict__` of an object a table of its own, so that its tag can be trusted (see above): the one way that does it
 * without making another dict is `popitem`. What it took goes back to where it was. Only the layout in memory changes. */
static inline void jit_let_dict_tell(PyObject *dict) {
    if (!jit_dict_changes_silently(dict) || !PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) == 0) return;
    PyObject *last = PyObject_CallMethod(dict, "popitem", NULL);
    if (last == NULL || PyDict_SetItem(dict, PyTuple_GET_ITEM(last, 0), PyTuple_GET_ITEM(last, 1)) < 0) PyErr_Clear();
    Py_XDECREF(last);
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

/* How many more Python frames the recursion limit allows. Before 3.12 calls through C count among them. */
#if PY_VERSION_HEX >= 0x030C0000
#define JIT_FRAMES_LEFT(tstate) ((tstate)->py_recursion_remaining)
#else
#define JIT_FRAMES_LEFT(tstate) ((tstate)->recursion_remaining)
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

#ifdef JIT_FRAME_LAYOUT

#define Py_BUILD_CORE 1
extern "C" {
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030D0000
/* Declared in pycore_ceval.h, which is no C++. */
PyAPI_FUNC(void) _PyEval_FrameClearAndPop(PyThreadState *tstate, struct _PyInterpreterFrame *frame);
#endif
}

typedef struct _PyInterpreterFrame jit_frame_t;

#if PY_VERSION_HEX >= 0x030D0000
#define JIT_FRAME_CODE(frame) ((frame)->f_executable)
#else
#define JIT_FRAME_CODE(frame) ((frame)->f_code)
#endif
#if PY_VERSION_HEX >= 0x030C0000
#define JIT_FRAME_FUNCTION(frame) ((frame)->f_funcobj)
#else
#define JIT_FRAME_FUNCTION(frame) ((frame)->f_func)
#endif

/* Points the frame at the first instruction of its code. Up to 3.12 the field names the instruction before the next. */
#if PY_VERSION_HEX >= 0x030D0000
#define JIT_FRAME_INSTRUCTION(frame) ((frame)->instr_ptr)
#define JIT_FIRST_INSTRUCTION(code) (_PyCode_CODE(code))
#else
#define JIT_FRAME_INSTRUCTION(frame) ((frame)->prev_instr)
#define JIT_FIRST_INSTRUCTION(code) (_PyCode_CODE(code) - 1)
#endif

static inline PyCodeObject *jit_frame_code(jit_frame_t *frame) {
    return (PyCodeObject *)JIT_FRAME_CODE(frame);
}

/* True for a frame of a plain call that did not run yet: not a generator's, not one that is being resumed. */
static inline int jit_frame_is_fresh(jit_frame_t *frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && JIT_FRAME_INSTRUCTION(frame) == JIT_FIRST_INSTRUCTION(jit_frame_code(frame));
}

/* Words that a frame of this code takes on the data stack. 3.12 made it a field. */
static inline Py_ssize_t jit_frame_size(PyCodeObject *code) {
#if PY_VERSION_HEX >= 0x030C0000
    return code->co_framesize;
#else
    return code->co_nlocalsplus + code->co_stacksize + FRAME_SPECIALS_SIZE;
#endif
}

/* Puts `code` in the place of the code of a frame that did not start, with its first `kept` locals. The function and its
 * closure stay. False, and nothing done, if the data stack has no room for a larger frame here. */
static inline int jit_frame_swap_code(PyThreadState *tstate, jit_frame_t *frame, PyCodeObject *code, int kept) {
    PyCodeObject *old = jit_frame_code(frame);
    Py_ssize_t growth = jit_frame_size(code) - jit_frame_size(old);
    if (growth > 0) {
        if ((PyObject **)frame + jit_frame_size(old) != tstate->datastack_top) return 0;
        if (growth >= tstate->datastack_limit - tstate->datastack_top) return 0;
        tstate->datastack_top += growth;
    }
    for (int i = kept; i < code->co_nlocalsplus; i++) frame->localsplus[i] = NULL;
    #if PY_VERSION_HEX >= 0x030D0000
    JIT_FRAME_CODE(frame) = Py_NewRef((PyObject *)code);
#else
    JIT_FRAME_CODE(frame) = (PyCodeObject *)Py_NewRef((PyObject *)code);
#endif
    frame->stacktop = code->co_nlocalsplus;
    JIT_FRAME_INSTRUCTION(frame) = JIT_FIRST_INSTRUCTION(code);
    Py_DECREF(old);
    return 1;
}

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
/* What _PyThreadState_PopFrame does; 3.12 does not export it. */
static inline void jit_frame_pop_3_12(PyThreadState *tstate, jit_frame_t *frame) {
    _PyStackChunk *chunk = tstate->datastack_chunk;
    PyObject **base = (PyObject **)frame;
    if (base != &chunk->data[0]) {
        tstate->datastack_top = base;
        return;
    }
    _PyStackChunk *previous = chunk->previous;
    tstate->datastack_top = &previous->data[previous->top];
    tstate->datastack_chunk = previous;
    tstate->datastack_limit = (PyObject **)((char *)previous + previous->size);
    PyObjectArenaAllocator arenas;
    PyObject_GetArenaAllocator(&arenas);
    arenas.free(arenas.ctx, chunk, chunk->size);
}
#endif

/* Lets go of what a frame held that has run. Up to 3.11 the caller does that, who may wait for continuations first; since
 * 3.12 it is done. What somebody else has as an object keeps its values. */
static inline void jit_frame_empty(jit_frame_t *frame) {
#if PY_VERSION_HEX >= 0x030C0000
    (void)frame;
#else
    if (frame->frame_obj && Py_REFCNT(frame->frame_obj) > 1) return;
    for (int i = 0; i < frame->stacktop; i++) Py_CLEAR(frame->localsplus[i]);
#endif
}

/* Disposes of a frame that did not start and will not run. Up to 3.11 the caller does the rest; since 3.12 who evaluates a
 * frame also clears and pops it. */
static inline void jit_frame_drop(PyThreadState *tstate, jit_frame_t *frame) {
#if PY_VERSION_HEX >= 0x030D0000
    _PyEval_FrameClearAndPop(tstate, frame);
#elif PY_VERSION_HEX >= 0x030C0000
    for (int i = 0; i < frame->stacktop; i++) Py_XDECREF(frame->localsplus[i]);
    Py_XDECREF(frame->f_locals);
    Py_DECREF(frame->f_funcobj);
    Py_DECREF(frame->f_code);
    jit_frame_pop_3_12(tstate, frame);
#else
    (void)tstate;
    jit_frame_empty(frame);
#endif
}

#endif /* JIT_FRAME_LAYOUT */
