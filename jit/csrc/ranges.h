// The range of a compiled call in the trace of whoever records one, as torch's profiler does.
#pragma once

#include "cache.h"

#include <ATen/record_function.h>

#include <optional>

namespace jit {

class CallRange {
public:
    explicit CallRange(const Hit& hit) {
        if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE); C10_UNLIKELY(callbacks.has_value()))
            open(std::move(*callbacks), hit);
    }
    CallRange(const CallRange&) = delete;

private:
    // Called as what the entry was made with says in its `label`.
    void open(at::StepCallbacks callbacks, const Hit& hit);
    std::optional<at::RecordFunction> recorded_;
};

}  // namespace jit
