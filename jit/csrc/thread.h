/* What this thread is doing, shared by the doors and the frame hook. */
#pragma once

#include "compat.h"

#include <ctime>

typedef struct {
    void *region;           /* the region this thread is in, or NULL */
    void *entered;          /* regions entered by `enter`, innermost first */
    int compiling;          /* depth of compilations; a door called meanwhile runs the original */
    int hook_depth;         /* evaluations of the frame hook on the C stack */
    PyCodeObject *run_once; /* the next frame of this code was decided on already: the hook lets it pass */
    int idle;               /* frames one after another that the hook looked at in vain */
    long long compile_ns;   /* spent in compilations so far, in nanoseconds */
    int resting;            /* in a region, and the hook is gone until this thread's next operation on a tensor */
    PyObject **handed;      /* what that frame's arguments came in, to be emptied when it has them; or NULL */
} jit_thread_t;

/* Depth of Python calls through C up to which they are treated as if they went through the interpreter alone. Python's own
 * limit is 1000 unless it was raised; past this depth the C stack could run out. */
#define JIT_LENT_DEPTH 4000

/* The initial-exec model makes this one load off the thread register; the few words fit the room that the C library
 * keeps for libraries loaded later. */
extern __thread jit_thread_t jit_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Where it is set, doors and the hook stand aside on all threads: what runs is what was written. */
extern int jit_aside;

namespace jit {

class MarkCompiling {
public:
    MarkCompiling() { ++jit_thread.compiling; }
    ~MarkCompiling() { --jit_thread.compiling; }
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

// Lends the C recursion that one Python call through C uses, so that a door takes no more of it than a plain call.
class LendRecursion {
public:
    LendRecursion() {
#if JIT_C_RECURSION_UNITS
        if (jit_thread.hook_depth++ >= JIT_LENT_DEPTH) return;
        tstate_ = jit_thread_state();
        jit_lend_c_recursion(tstate_);
#endif
    }
    ~LendRecursion() {
#if JIT_C_RECURSION_UNITS
        --jit_thread.hook_depth;
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
