/* What this thread is doing, shared by the doors (C++) and the frame hook (C). */
#pragma once

#include "compat.h"

typedef struct {
    void *region;           /* the region this thread is in, or NULL */
    int compiling;          /* depth of compilations; a door called meanwhile runs the original */
    int hook_depth;         /* evaluations of the frame hook on the C stack */
    PyCodeObject *run_once; /* the next frame of this code was decided on already: the hook lets it pass */
} jit_thread_t;

/* The initial-exec model makes this one load off the thread register; the few words fit the room that the C library
 * keeps for libraries loaded later. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
    __thread jit_thread_t jit_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

#ifdef __cplusplus
namespace jit {

class MarkCompiling {
public:
    MarkCompiling() { ++jit_thread.compiling; }
    ~MarkCompiling() { --jit_thread.compiling; }
    MarkCompiling(const MarkCompiling&) = delete;
};

// Depth of Python calls through C up to which C recursion is lent. Python's own limit is 1000 unless it was raised;
// past this depth nobody vouches for the C stack any more.
constexpr int lent_depth = 4000;

// Lends the C recursion that one Python call through C uses, so that a door takes no more of it than a plain call.
class LendRecursion {
public:
    LendRecursion() {
#if JIT_C_RECURSION_UNITS
        lends_ = jit_thread.hook_depth++ < lent_depth;
        if (lends_) jit_lend_c_recursion(jit_thread_state());
#endif
    }
    ~LendRecursion() {
#if JIT_C_RECURSION_UNITS
        --jit_thread.hook_depth;
        if (lends_) jit_take_back_c_recursion(jit_thread_state());
#endif
    }
    LendRecursion(const LendRecursion&) = delete;

private:
#if JIT_C_RECURSION_UNITS
    bool lends_;
#endif
};

}  // namespace jit
#endif
