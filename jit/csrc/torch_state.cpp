// The global state of torch that changes what an operator does: a snapshot of it, and its comparison with the present.
#include "tensors.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>

#include <cstring>
#include <string>

namespace jit {
namespace {

constexpr c10::DeviceType autocast_devices[] = {c10::DeviceType::CPU, c10::DeviceType::CUDA};

// Plain numbers, so that two states compare as two lists. `name` is how a difference is told to the user.
struct Setting {
    const char* name;
    uint64_t (*read)();
};

int64_t function_modes() { return at::impl::PythonTorchFunctionTLS::stack_len(); }

PyObject* function_mode(int64_t index) {
    return at::impl::PythonTorchFunctionTLS::get_stack_at(index)->ptr(getPyInterpreter());
}

template <c10::DeviceType device>
uint64_t autocast_dtype() {
    return static_cast<uint64_t>(at::autocast::get_autocast_dtype(device));
}

// Cheap reads only: this runs on every cached call. That autocast is on for a device shows in the dispatch keys that
// the thread excludes, as do inference mode and functorch transforms.
constexpr Setting settings[] = {
    {"grad mode", [] { return (uint64_t)c10::AutogradState::get_tls_state().get_grad_mode(); }},
    {"inference mode", [] { return (uint64_t)c10::AutogradState::get_tls_state().get_inference_mode(); }},
    {"forward-mode gradients", [] { return (uint64_t)c10::AutogradState::get_tls_state().get_fw_grad_mode(); }},
    {"included dispatch keys", [] { return LocalKeys::now().included; }},
    {"excluded dispatch keys (autocast)", [] { return LocalKeys::now().excluded; }},
    {"autocast dtype on cpu", autocast_dtype<autocast_devices[0]>},
    {"autocast dtype on cuda", autocast_dtype<autocast_devices[1]>},
    {"autocast cache", [] { return (uint64_t)at::autocast::is_autocast_cache_enabled(); }},
    {"default dtype", [] { return (uint64_t)c10::get_default_dtype_as_scalartype(); }},
    {"deterministic algorithms", [] { return (uint64_t)at::globalContext().deterministicAlgorithms(); }},
    {"deterministic algorithms warn only",
     [] { return (uint64_t)at::globalContext().deterministicAlgorithmsWarnOnly(); }},
    {"fill of uninitialised memory",
     [] { return (uint64_t)at::globalContext().deterministicFillUninitializedMemory(); }},
    {"float32 matmul precision", [] { return (uint64_t)at::globalContext().float32MatmulPrecision(); }},
    {"number of threads", [] { return (uint64_t)at::get_num_threads(); }},
    {"torch function disabled", [] { return (uint64_t)at::impl::PythonTorchFunctionTLS::get_disabled_state(); }},
    {"torch function modes", [] { return (uint64_t)function_modes(); }},
    {"torch dispatch modes", [] { return (uint64_t)c10::impl::TorchDispatchModeTLS::stack_len(); }},
};
constexpr size_t setting_count = sizeof(settings) / sizeof(settings[0]);

// `with torch.device(...)` and torch.set_default_device make a new mode object each time: equal devices are equal modes.
bool same_mode(PyObject* expected, PyObject* actual) {
    if (expected == actual) return true;
    if (Py_TYPE(expected) != Py_TYPE(actual)) return false;
    if (std::strcmp(Py_TYPE(expected)->tp_name, "DeviceContext") != 0) return false;
    Ref expected_device = take(PyObject_GetAttrString(expected, "device"));
    Ref actual_device = take(PyObject_GetAttrString(actual, "device"));
    int equal = expected_device && actual_device
                    ? PyObject_RichCompareBool(expected_device.get(), actual_device.get(), Py_EQ)
                    : -1;
    if (equal < 0) PyErr_Clear();
    return equal == 1;
}

}  // namespace

struct TorchState::Values {
    uint64_t numbers[setting_count];
    std::vector<Ref> modes;

    bool modes_hold() const {
        for (size_t i = 0; i < modes.size(); ++i)
            if (!same_mode(modes[i].get(), function_mode(i))) return false;
        return true;
    }
};

TorchState::TorchState() : values_(std::make_unique<Values>()) {
    for (size_t i = 0; i < setting_count; ++i) values_->numbers[i] = settings[i].read();
    for (int64_t i = 0; i < function_modes(); ++i) values_->modes.push_back(share(function_mode(i)));
}
TorchState::~TorchState() = default;

std::unique_ptr<TorchState> TorchState::snapshot() { return std::unique_ptr<TorchState>(new TorchState()); }

bool TorchState::holds() const {
    // The table is constant and the loop has a constant length: the compiler unrolls it into direct calls.
#pragma GCC unroll 32
    for (size_t i = 0; i < setting_count; ++i)
        if (settings[i].read() != values_->numbers[i]) return false;
    return values_->modes.empty() || values_->modes_hold();
}

Ref TorchState::differences() const {
    std::string text;
    bool same_depth = true;
    for (size_t i = 0; i < setting_count; ++i) {
        uint64_t now = settings[i].read();
        if (now == values_->numbers[i]) continue;
        if (!text.empty()) text += "\n";
        text += std::string(settings[i].name) + ": was " + std::to_string(values_->numbers[i]) + ", is " +
                std::to_string(now);
        if (!std::strcmp(settings[i].name, "torch function modes")) same_depth = false;
    }
    if (same_depth && !values_->modes_hold()) text += (text.empty() ? "" : "\n") + std::string("torch function mode: another one");
    return checked(PyUnicode_FromStringAndSize(text.data(), text.size()));
}

int TorchState::visit(visitproc visitor, void* argument) const {
    for (const Ref& mode : values_->modes)
        if (int stop = mode.visit(visitor, argument)) return stop;
    return 0;
}

}  // namespace jit
