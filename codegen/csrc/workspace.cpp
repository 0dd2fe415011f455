#include "workspace.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace codegen {
namespace {

constexpr size_t ALIGNMENT = 64;
// What is larger goes back after each run: page faults are little beside the work on so much, the memory is a lot.
constexpr size_t MOST_KEPT = size_t(256) << 20;

char* allocate(size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, ALIGNMENT, bytes)) throw std::bad_alloc();
    return static_cast<char*>(memory);
}

struct Workspace {
    char* data = nullptr;
    size_t bytes = 0;
    bool is_lent = false;

    void clear() noexcept {
        std::free(std::exchange(data, nullptr));
        bytes = 0;
    }
    void grow(size_t needed) {
        const size_t larger = needed + needed / 4;  // sizes that vary a little should not allocate each time
        clear();
        data = allocate(larger);
        bytes = larger;
    }
    ~Workspace() { clear(); }
};

thread_local Workspace workspace;

}  // namespace

Lease::Lease(size_t bytes) : is_kept_(!workspace.is_lent) {
    if (bytes < ALIGNMENT) bytes = ALIGNMENT;
    if (is_kept_) {
        if (bytes > workspace.bytes) workspace.grow(bytes);
        workspace.is_lent = true;
        data_ = workspace.data;
    } else {
        data_ = allocate(bytes);
    }
}

Lease::Lease(Lease&& other) noexcept : data_(std::exchange(other.data_, nullptr)), is_kept_(std::exchange(other.is_kept_, false)) {}

// It ends on the thread that it began on: a run does not change threads.
Lease::~Lease() {
    if (is_kept_) {
        workspace.is_lent = false;
        if (workspace.bytes > MOST_KEPT) workspace.clear();
    } else {
        std::free(data_);
    }
}

size_t workspace_bytes() noexcept { return workspace.bytes; }

}  // namespace codegen
