// Plans made native (codegen/plan/steps.py says what they are, run.py what they mean): steps over numbered slots.
#pragma once

#include "refs.h"
#include "workspace.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

namespace codegen {

// A Python error of a step, which may not hold the GIL.
struct Failure {
    PyObject* type;
    std::string text;
};

// As kernels read their scalars.
union Number {
    int64_t i;
    double f;
};

// A tensor. That of an argument is borrowed: from the caller, or from `argument` if the plan took a list.
struct TensorSlot {
    c10::MaybeOwned<at::Tensor> tensor;
    Ref argument;
};

// The slots of one run. It begins and ends under the GIL; only single steps run without.
struct Frame {
    Frame(size_t num_tensors, size_t num_numbers, size_t num_blocks)
        : tensors(num_tensors), numbers(num_numbers, Number{0}), blocks(num_blocks, nullptr) {}

    const at::Tensor& tensor(size_t slot) const { return *tensors[slot].tensor; }
    void set(size_t slot, at::Tensor tensor) {
        tensors[slot].tensor = c10::MaybeOwned<at::Tensor>::owned(std::move(tensor));
        tensors[slot].argument.reset();
    }
    // The tensor lives at least as long as the plan.
    void borrow(size_t slot, const at::Tensor& tensor) {
        tensors[slot].tensor = c10::MaybeOwned<at::Tensor>::borrowed(tensor);
        tensors[slot].argument.reset();
    }
    void free(size_t slot) { set(slot, at::Tensor()); }

    c10::SmallVector<TensorSlot, 16> tensors;
    c10::SmallVector<Number, 16> numbers;
    c10::SmallVector<char*, 16> blocks;
    c10::SmallVector<Lease, 1> leases;
    c10::SmallVector<at::Tensor, 1> reserved;  // blocks on a device
    torch::jit::Stack stack;  // of operations, empty between steps
    bool is_measured = false;
    int64_t moved = 0;  // if it is measured: bytes of the tensors that an operation was given, and gave
};

struct Step {
    virtual ~Step() = default;
    virtual void run(Frame& frame) const = 0;
    virtual bool is_on_device() const { return false; }
    virtual int visit(visitproc, void*) const { return 0; }
};

using Steps = std::vector<std::unique_ptr<const Step>>;

// --- what build.py wrote --------------------------------------------------------------------------------------------
enum class Kind { Tensor, Int, Float, Bool, Block, Constant, List, Operator };

struct Operand {
    Kind kind;
    size_t number;    // of the slot
    PyObject* value;  // of a constant or list

    bool is_number() const { return kind == Kind::Int || kind == Kind::Float || kind == Kind::Bool; }
};

// An item of a tuple. Throws PythonError if that is none, or shorter.
PyObject* item(PyObject* tuple, Py_ssize_t at);
std::vector<PyObject*> items(PyObject* tuple);

// An integer that a run knows.
struct Count {
    int64_t constant = 0;
    int64_t slot = -1;

    int64_t in(const Frame& frame) const { return slot < 0 ? constant : frame.numbers[slot].i; }
};

// Reads operands and steps, and learns how many slots there are. Throws PythonError for what is none.
struct Reader {
    size_t num_tensors = 0;
    size_t num_numbers = 0;
    size_t num_blocks = 0;

    Operand operand(PyObject* native);
    size_t tensor(PyObject* number);
    size_t number(PyObject* number);
    size_t block(PyObject* number);
    Count count(PyObject* native);
    std::unique_ptr<const Step> step(PyObject* native);

    // Those of plan_call.cpp and plan_device.cpp.
    std::unique_ptr<const Step> call(PyObject* native);
    std::unique_ptr<const Step> python(PyObject* native);
    std::unique_ptr<const Step> device_launch(PyObject* native);
};

// A number of a run as Python has it.
Ref as_python(Kind kind, Number number);
// Throws PythonError if it is of another kind.
Number of_python(Kind kind, PyObject* object);
bool is_of(Kind kind, PyObject* object);
const char* name_of(Kind kind);

class ReleaseGil {
public:
    ReleaseGil() : state_(PyEval_SaveThread()) {}
    ~ReleaseGil() { PyEval_RestoreThread(state_); }
    ReleaseGil(const ReleaseGil&) = delete;
    ReleaseGil& operator=(const ReleaseGil&) = delete;

private:
    PyThreadState* state_;
};

// Since the process began: plans made, runs of them, and how many of these their fallbacks served.
struct PlanCounters {
    int64_t plans = 0, invocations = 0, fallbacks = 0;
};
extern PlanCounters plan_counters;

// Makes the Python type and puts it into the module, which keeps it for good. Throws PythonError.
void add_plan(PyObject* module);

}  // namespace codegen
