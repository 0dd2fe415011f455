/* The PEP 523 frame hook, and what it asks of the regions. */
#pragma once

#include "cache.h"
#include "thread.h"

#include <utility>

/* Makes `region` (or NULL: none) the region of this thread. The hook is installed while any thread is in a region. */
void jit_set_region(void *region);

/* After so many frames in vain a region that rests lets the hook go: an installed hook makes Python's calls slower by half. */
#define JIT_REST_AFTER 20000

/* Whether the hook may rest in this region. */
int jit_region_rests(void *region);

/* The main thread, which this is, enters a region that rests. Frames of threads in no region count as its own, for it may be
 * waiting for them. */
void jit_main_enters(void);

/* From when the hook rests until the next operation on a tensor, or change of region, of this thread. */
void jit_await_operation(void);
void jit_await_no_more(void);

/* Calls `function`, whose frame the hook lets pass. It alone has the arguments then: `handed`, in which they come, is
 * emptied when the frame has begun. */
PyObject *jit_run_alone(PyFunctionObject *function, PyObject *const *slots, Py_ssize_t count, PyObject *handed);

/* Whether another compiler's hook evaluates frames: it would look into ours, so what is called is what was written. */
int jit_frames_are_others(void);

/* What to do with a frame that is about to start. */
typedef enum {
    JIT_RUN_ORIGINAL,
    JIT_RUN_COMPILED,
    JIT_RAISE
} jit_verdict_t;

typedef struct {
    jit::Hit hit;
    int slots;    /* argument slots of the original */
    void *region; /* the region that waits while the compiled code runs */
    jit::Owned<jit::Cache> timed; /* what wants to know how long the frame takes, if anybody does */
} jit_replacement_t;

/* Decides about a frame of `function` with these argument slots. With JIT_RUN_COMPILED the region of this thread is
 * set aside, and `replacement` filled. Never called for generators, coroutines, or class and module bodies. */
jit_verdict_t jit_decide(PyFunctionObject *function, PyCodeObject *code, PyObject **slots, jit_replacement_t *replacement);

namespace jit {

// No region is active on this thread while one of these lives.
class PauseRegion {
public:
    PauseRegion() : region_(jit_thread.region) {
        if (region_) jit_set_region(nullptr);
    }
    ~PauseRegion() { resume(); }
    PauseRegion(const PauseRegion&) = delete;
    // Leaves the region set aside, for someone else to resume.
    void* keep_paused() { return std::exchange(region_, nullptr); }
    void resume() {
        if (region_) jit_set_region(std::exchange(region_, nullptr));
    }

private:
    void* region_;
};

}  // namespace jit
