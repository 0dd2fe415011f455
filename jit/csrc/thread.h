/* What this thread is doing, shared by the doors and the frame hook. */
#pragma once

#include "compat.h"

#include <ctime>

typedef struct {
    void *region;           /* the region this thread is in, or NULL */
    void *entered;          /* regions entered by `enter`, innermost first */
    int compiling;          /* depth of compilations; a door called meanwhile runs the original */
    char *stack_floor;      /* where half of its C stack is used up; NULL: not asked yet */
    PyCodeObject *run_once; /* the next frame of this code was decided on already: the hook lets it pass */
    int idle;               /* frames one after another that the hook looked at in vain */
    long long compile_ns;   /* spent in compilations so far, in nanoseconds */
    int resting;            /* in a region, and the hook is gone until this thread's next operation on a tensor */
    PyObject **handed;      /* what that frame's arguments came in, to be emptied when it has them; or NULL */
} jit_thread_t;

/* The initial-exec model makes this one load off the thread register; the few words fit the room that the C library
 * keeps for libraries loaded later. */
extern __thread jit_thread_t jit_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The address at which half of this thread's C stack is used up. */
char *jit_find_stack_floor(void);

/* Whether frames of the interpreter are evaluated through our hook now. */
int jit_hook_is_in(void);

/* So many frames of Python's are left to the program that is written: compiled code takes fewer than eager code where it
 * inlines, and more where it calls what it needs. */
#define JIT_FRAMES_KEPT 256
/* What a compilation may use of them besides. */
#define JIT_FRAMES_TO_COMPILE 2000

/* True where more than half of the C stack is in use: calls that the interpreter would make by itself take C stack of
 * us. Or where few frames are left. From there on nothing is compiled or replaced, and Python's own limits, which count on
 * plain calls, have the rest. */
static inline int jit_stack_is_deep(void) {
    if (jit_thread.stack_floor == NULL) jit_thread.stack_floor = jit_find_stack_floor();
    return (char *)__builtin_frame_address(0) < jit_thread.stack_floor ||
           JIT_FRAMES_LEFT(jit_thread_state()) < JIT_FRAMES_KEPT;
}

/* Where it is set, doors and the hook stand aside on all threads: what runs is what was written. */
extern int jit_aside;

namespace jit {

// Compiles on this thread, with frames of its own: how deep the program is in calls makes no difference to it.
class MarkCompiling {
public:
    MarkCompiling() {
        ++jit_thread.compiling;
        JIT_FRAMES_LEFT(jit_thread_state()) += JIT_FRAMES_TO_COMPILE;
    }
    ~MarkCompiling() {
        --jit_thread.compiling;
        JIT_FRAMES_LEFT(jit_thread_state()) -= JIT_FRAMES_TO_COMPILE;
    }
    MarkCompiling(const MarkCompiling&) = delete;
};

// Adds to the time that this thread has spent in compilations.
class CountCompiling {
public:
    CountCompiling() : start_(now()) {}
    ~CountCompiling() { jit_thread.compile_ns += now() - start_; }
    CountCompiling(const CountCompiling&) = delete;
    static long long now() {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return time.tv_sec * 1000000000LL + time.tv_nsec;
    }

private:
    long long start_;
};

// Lends the C recursion that one Python call through C uses, so that a door takes no more of it than a plain call. Where
// the hook is in, it does so itself.
class LendRecursion {
public:
    LendRecursion() {
#if JIT_C_RECURSION_UNITS
        if (jit_hook_is_in() || jit_stack_is_deep()) return;
        tstate_ = jit_thread_state();
        jit_lend_c_recursion(tstate_);
#endif
    }
    ~LendRecursion() {
#if JIT_C_RECURSION_UNITS
        if (tstate_) jit_take_back_c_recursion(tstate_);
#endif
    }
    LendRecursion(const LendRecursion&) = delete;

private:
#if JIT_C_RECURSION_UNITS
    PyThreadState *tstate_ = nullptr;
#endif
};

}  // namespace jit
