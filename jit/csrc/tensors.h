// What guards read from torch: tensor properties, gradients and the global state. Only tensors.cpp, gradients.cpp and
// torch_state.cpp include torch.
#pragma once

#include "refs.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace jit {

// The dispatch keys that this thread adds to and removes from every call.
struct LocalKeys {
    uint64_t included;
    uint64_t excluded;
    static LocalKeys now();
};

// The properties of a tensor that compiled code was specialised on.
class TensorExpectation {
public:
    // From the dict that `tensor_info` makes. Throws PythonError.
    explicit TensorExpectation(PyObject* properties);
    bool matches(PyObject* object, const LocalKeys& local) const;
    // The same, for the loops over many: there the call would be a good part of the cost.
    bool matches_here(PyObject* object, const LocalKeys& local) const;

    static constexpr int64_t any_size = -1;

private:
    PyTypeObject* type_;  // owned by the properties dict, which the check keeps
    uint64_t keys_;
    uint16_t dtype_;
    int8_t device_type_;
    int16_t device_index_;
    int8_t layout_;
    bool requires_grad_;
    bool is_leaf_;
    bool checks_layout_;
    bool checks_sizes_;
    bool checks_strides_;
    bool is_exact_;  // no size or stride may be any
    uint8_t dimensions_ = 0;
    const int64_t* extents() const { return dimensions_ <= inline_dimensions ? few_ : many_.data(); }

    static constexpr size_t inline_dimensions = 4;
    int64_t few_[2 * inline_dimensions];  // sizes, then strides
    std::vector<int64_t> many_;           // the same, where there are more
};

// An object that was a tensor when last seen, and still is the same object.
struct KnownTensor {
    PyObject* object;
    const TensorExpectation* expected;
};
bool all_match(const KnownTensor* known, size_t count, const LocalKeys& local);

// An argument of which a guard wants only that it is such a tensor.
struct SlotTensor {
    uint32_t slot;
    const TensorExpectation* expected;
};
// Leaves the objects looked at in `objects`.
bool slots_match(const SlotTensor* wanted, size_t count, PyObject* const* slots, PyObject** objects, const LocalKeys& local);

// One number of a tensor's geometry, and where it goes.
enum class Extent : uint8_t { size, stride, offset, value };
struct ExtentRead {
    uint32_t node;
    uint32_t slot;
    Extent kind;
    uint8_t dimension;  // of a size or stride
};
// Fills slots from the tensors among `objects`. False: one is no tensor, has no such dimension, or refuses to tell.
bool read_extents(const ExtentRead* reads, size_t count, PyObject* const* objects, int64_t* slots);

bool is_tensor(PyObject* object);

// True for a tensor that hashes as tensors do: its hash is its address.
bool hashes_by_identity(PyObject* object);

// The `.grad` of a tensor: a tensor or None, kept alive by the tensor. NULL: it is no tensor, or there is no memory.
PyObject* gradient_of(PyObject* object);

// True for a tensor whose gradient nobody is told of: no hook on it or on the node that accumulates its gradient, and
// its gradient is not to be retained. A node that once had a hook counts as hooked for the rest of its life.
// `but_for_its_own`: hooks in the dicts of the tensor, which Python code can look at, do not count.
bool is_unhooked(PyObject* object, bool but_for_its_own);

// What identifies the memory a tensor lies in; a tensor without storage stands for itself. NULL: not a tensor.
// `is_foreign` becomes true where torch's allocator did not give the memory: another storage may lie in it, too.
const void* storage_identity(PyObject* object, bool& is_foreign);

// The bytes from the first to the last element of a tensor; none, if it has no elements or no memory.
struct Span {
    uintptr_t begin, end;
    const void* storage;
};
Span span_of(PyObject* tensor);

// Whether none of them lies in the memory of another storage. Sorts them.
bool are_disjoint(std::vector<Span>& spans);

Ref tensor_info(PyObject* tensor);

// The global state of torch at one moment.
class TorchState {
public:
    static std::unique_ptr<TorchState> snapshot();
    bool holds() const;
    // One line per difference to the present state.
    Ref differences() const;
    ~TorchState();
    int visit(visitproc visitor, void* argument) const;

private:
    TorchState();
    struct Values;
    std::unique_ptr<Values> values_;
};

const char* torch_version();

}  // namespace jit
