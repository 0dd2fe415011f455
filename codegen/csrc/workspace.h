// Raw memory for what lives within one run of a plan.
#pragma once

#include <cstddef>

namespace codegen {

// A piece of memory, aligned to 64 bytes, until its end. Each thread keeps one piece and grows it as needed, so that runs
// one after the other find the pages of the last one; who comes while it is lent (a run within a run) gets one for itself.
class Lease {
public:
    explicit Lease(size_t bytes);  // throws std::bad_alloc
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    char* data() const noexcept { return data_; }

private:
    char* data_;
    bool is_kept_;
};

// How much memory this thread keeps.
size_t workspace_bytes() noexcept;

}  // namespace codegen
