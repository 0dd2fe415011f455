// Runs of plans that somebody looks at: torch's profiler, which wants ranges, and a watcher, who wants times.
#pragma once

#include "plan.h"

#include <ATen/record_function.h>

namespace codegen {

// Called as watcher(about, nanoseconds, bytes, numbers) after each run: by step, and the numbers in its slots. Null: nobody.
extern PyObject* watcher;

inline bool is_looked_at() {
    return C10_UNLIKELY(watcher != nullptr) || C10_UNLIKELY(at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value());
}

// What people are told of a plan: an object that, called, gives the names of ranges, that of the plan, then of each step,
// None for those that get no range. It is called when the first range is wanted.
class About {
public:
    explicit About(PyObject* object) : object_(share(object)) {}
    PyObject* object() const { return object_.get(); }
    // Empty: no range. Needs the GIL.
    std::string label(size_t place) const;
    int visit(visitproc visitor, void* argument) const { return visit_all(visitor, argument, object_, labels_); }

private:
    Ref object_;
    mutable Ref labels_;
};

// `at`: the step that it has come to.
void run_before_eyes(const About& about, const Steps& steps, Frame& frame, size_t& at);

// watch(function or None) -> what watched before.
PyObject* watch(PyObject*, PyObject* function);

}  // namespace codegen
