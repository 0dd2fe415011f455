/* The PEP 523 frame hook: lets frames of threads that are in a region run compiled code instead. */
#define JIT_FRAME_LAYOUT
#include "doors.h"
#include "hook.h"

#include <pthread.h>

static _PyFrameEvalFunction next_evaluator; /* who was there before us */
static int threads_in_regions;
static int is_buried; /* someone installed a hook over ours, so that it could not be taken out */

static PyObject *evaluate(PyThreadState *tstate, jit_frame_t *frame, int throwing);

static void install(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (is_buried) return; /* it is still called, through the other hook */
    next_evaluator = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

static void uninstall(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    is_buried = _PyInterpreterState_GetEvalFrameFunc(interpreter) != evaluate;
    if (!is_buried) _PyInterpreterState_SetEvalFrameFunc(interpreter, next_evaluator);
}

int jit_frames_are_others(void) {
    _PyFrameEvalFunction found = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    return found != evaluate && found != _PyEval_EvalFrameDefault;
}

int jit_hook_is_in(void) { return threads_in_regions > 0 || is_buried; }

char *jit_find_stack_floor(void) {
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return (char *)1;
    const int failed = pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return failed ? (char *)1 : (char *)lowest + size / 2;
}

/* As if this thread were in a region, or no more. */
static void watch(int on) {
    if (on && threads_in_regions++ == 0) install();
    if (!on && --threads_in_regions == 0) uninstall();
}

void jit_set_region(void *region) {
    int had_hook = jit_thread.region != NULL && !jit_thread.resting, is_in = region != NULL;
    if (jit_thread.resting) {
        jit_await_no_more();
        jit_thread.resting = jit_thread.idle = 0;
    }
    jit_thread.region = region;
    if (is_in != had_hook) watch(is_in);
}

static jit_thread_t *main_thread; /* from when it enters a region that rests */

void jit_main_enters(void) { main_thread = &jit_thread; }

/* Counts frames that the hook looked at in vain. */
static void look_in_vain(void) {
    if (++jit_thread.idle != JIT_REST_AFTER || !jit_region_rests(jit_thread.region)) return;
    jit_thread.resting = 1;
    jit_await_operation();
    watch(0);
}

/* What a thread that was put to rest by another does as soon as it runs again. */
static int await_operation(void *) {
    if (jit_thread.resting) jit_await_operation();
    return 0;
}

/* Counts frames of a thread that is in no region among those of the main thread, which may be waiting for it. */
static void look_for_another(void) {
    jit_thread_t *other = main_thread;
    if (other == NULL || other == &jit_thread || ++other->idle < JIT_REST_AFTER) return;
    other->idle = 0;
    if (other->resting || other->region == NULL || !jit_region_rests(other->region)) return;
    if (Py_AddPendingCall(await_operation, NULL) < 0) return; /* too many calls are pending: later, then */
    other->resting = 1;
    watch(0);
}

/* Empties what waits for its frame to begin. */
static void let_go(PyObject **waiting) {
    PyObject *handed = *waiting;
    *waiting = NULL;
    if (jit_thread.handed == waiting) jit_thread.handed = NULL;
    watch(0);
    jit::empty_hand_over(handed);
}

PyObject *jit_run_alone(PyFunctionObject *function, PyObject *const *slots, Py_ssize_t count, PyObject *handed) {
    jit_thread.run_once = (PyCodeObject *)function->func_code;
    jit_thread.handed = &handed;
    watch(1);
    PyObject *result = PyObject_Vectorcall((PyObject *)function, slots, count, NULL);
    if (handed) let_go(&handed); /* no frame that we could see began */
    return result;
}

/* Without a hook the interpreter runs Python calls in Python without C recursion. With one each takes C stack and, since
 * 3.12, C recursion units: those are lent. Very deep down the region is left instead, so that calls are plain again. */
static PyObject *run(PyThreadState *tstate, jit_frame_t *frame, int throwing) {
    PyObject *result;
    if (jit_stack_is_deep()) {
        void *region = jit_thread.region;
        if (region == NULL) return next_evaluator(tstate, frame, throwing);
        jit_set_region(NULL);
        result = next_evaluator(tstate, frame, throwing);
        jit_set_region(region);
        return result;
    }
    jit_lend_c_recursion(tstate);
    result = next_evaluator(tstate, frame, throwing);
    jit_take_back_c_recursion(tstate);
    return result;
}

/* Calls the compiled function with the arguments of the frame, and disposes of the frame. */
static PyObject *run_beside(PyThreadState *tstate, jit_frame_t *frame, jit_replacement_t *with, int slots) {
    PyObject *result = jit::call_compiled(with->hit, frame->localsplus, slots);
    jit_frame_drop(tstate, frame);
    return result;
}

/* Lets the frame itself run the compiled code, if that fits; it takes over the values then. */
static int put_into_frame(PyThreadState *tstate, jit_frame_t *frame, jit_replacement_t *with, int slots) {
    PyFunctionObject *function = (PyFunctionObject *)with->hit.function();
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    int arguments = slots + with->hit.entry->value_parameters();
    if (function->func_globals != frame->f_globals || code->co_argcount != arguments) return 0;
    if (!jit_frame_swap_code(tstate, frame, code, slots)) return 0;
    with->hit.put_values(frame->localsplus + slots);
    for (int i = slots; i < arguments; i++) Py_INCREF(frame->localsplus[i]);
    return 1;
}

static PyObject *run_compiled(PyThreadState *tstate, jit_frame_t *frame, jit_replacement_t *with, int slots) {
    int fits = put_into_frame(tstate, frame, with, slots);
    PyObject *result;
    if (fits) {
        /* The values belong to the code alone, which may let go of them early. */
        with->hit.values = jit::Values();
        const jit::CallRange range(with->hit);
        result = run(tstate, frame, 0);
        if (result && jit::hands_over(result)) jit_frame_empty(frame);
    } else {
        result = run_beside(tstate, frame, with, slots);
    }
    with->hit = jit::Hit();
    return jit::finish(result);
}

static int may_be_replaced(PyThreadState *tstate, jit_frame_t *frame, int throwing) {
    const int wanted = CO_OPTIMIZED | CO_NEWLOCALS;
    const int unwanted = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (throwing || jit_thread_is_traced(tstate) || !jit_frame_is_fresh(frame)) return 0;
    /* A generator is made with the size of its function's code: its frame must stay what it is. */
    if ((jit_frame_code(frame)->co_flags & (wanted | unwanted)) != wanted) return 0;
    return PyFunction_Check(JIT_FRAME_FUNCTION(frame));
}

/* Adds to a cache's times how long this lives, without what is compiled meanwhile. */
class Stopwatch {
public:
    Stopwatch(jit::Owned<jit::Cache> cache, bool is_compiled) : cache_(std::move(cache)), is_compiled_(is_compiled) {
        if (!cache_) return;
        compiling_ = jit_thread.compile_ns;
        start_ = jit::CountCompiling::now();
    }
    ~Stopwatch() {
        if (!cache_) return;
        const long long compiled = jit_thread.compile_ns - compiling_;
        cache_->times.add(jit::CountCompiling::now() - start_ - compiled, is_compiled_);
    }
    Stopwatch(const Stopwatch &) = delete;

private:
    jit::Owned<jit::Cache> cache_;
    bool is_compiled_;
    long long start_ = 0, compiling_ = 0;
};

static PyObject *evaluate(PyThreadState *tstate, jit_frame_t *frame, int throwing) {
    PyCodeObject *code = jit_frame_code(frame);
    if (jit_thread.run_once == code && jit_frame_is_fresh(frame)) {
        jit_thread.run_once = NULL;
        if (jit_thread.handed) let_go(jit_thread.handed);
        return run(tstate, frame, throwing);
    }
    if (jit_thread.region == NULL || jit_thread.resting) {
        if (!jit_thread.resting) look_for_another();
        return run(tstate, frame, throwing);
    }
    if (jit_stack_is_deep() || !may_be_replaced(tstate, frame, throwing)) {
        look_in_vain();
        return run(tstate, frame, throwing);
    }

    jit_replacement_t replacement;
    switch (jit_decide((PyFunctionObject *)JIT_FRAME_FUNCTION(frame), code, frame->localsplus, &replacement)) {
        case JIT_RUN_ORIGINAL: {
            look_in_vain();
            Stopwatch stopwatch(std::move(replacement.timed), false);
            return run(tstate, frame, throwing);
        }
        case JIT_RAISE:
            jit_frame_drop(tstate, frame);
            return NULL;
        case JIT_RUN_COMPILED:
            break;
    }
    jit_thread.idle = 0;
    Stopwatch stopwatch(std::move(replacement.timed), true);
    PyObject *result = run_compiled(tstate, frame, &replacement, replacement.slots);
    jit_set_region(replacement.region);
    return result;
}
