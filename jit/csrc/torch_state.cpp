// The global state of torch that changes what an operator does: a snapshot of it, and its comparison with the present.
#include "expose.h"
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

#include <bit>
#include <cstring>
#include <string>
#include <utility>

namespace jit {
namespace {

EXPOSE(FunctionModes, &at::impl::PythonTorchFunctionTLS::stack_);
EXPOSE(FunctionsDisabled, &at::impl::PythonTorchFunctionTLS::disabled_state_);
EXPOSE(MatmulPrecision, &at::Context::float32_matmul_precision);
EXPOSE(Precisions, &at::Context::fp32_precision);
EXPOSE(Deterministic, &at::Context::_deterministic_algorithms);
EXPOSE(DeterministicWarn, &at::Context::_deterministic_algorithms_warn_only);
EXPOSE(DeterministicFill, &at::Context::_deterministic_fill_uninitialized_memory);
EXPOSE(AttentionOrder, &at::Context::sdp_priority_order);
EXPOSE(AttentionFlash, &at::Context::enabled_flashSDP);
EXPOSE(AttentionEfficient, &at::Context::enabled_mem_efficientSDP);
EXPOSE(AttentionMath, &at::Context::enabled_mathSDP);
EXPOSE(AttentionCudnn, &at::Context::enabled_cudnnSDP);
EXPOSE(AttentionOverrideable, &at::Context::enabled_overrideable);

// Where the state lies: an object of the thread stays where it is as long as the thread lives.
struct Places {
    const c10::AutogradState* autograd;
    const at::impl::PythonTorchFunctionTLS* functions;
    const c10::impl::PODLocalDispatchKeySet* keys;
};
__thread Places places __attribute__((tls_model("initial-exec")));

const Places& find_places() {
    if (!places.autograd)
        places = {&c10::AutogradState::get_tls_state(), &at::impl::PythonTorchFunctionTLS::get_state(),
                  &c10::impl::raw_local_dispatch_key_set};
    return places;
}

const at::Context& context() {
    static const at::Context* const context = &at::globalContext();
    return *context;
}

c10::impl::LocalDispatchKeySet local_keys() { return *find_places().keys; }

const auto& function_modes() { return find_places().functions->*exposed(FunctionModes{}); }
PyObject* function_mode(size_t index) { return function_modes()[index]->ptr(getPyInterpreter()); }

// All float32 precisions in one number; a map in torch, so their places are looked up once.
uint64_t float32_precisions() {
    static const std::vector<const at::Float32Precision*> all = [] {
        std::vector<const at::Float32Precision*> found;
        for (auto& [key, precision] : context().*exposed(Precisions{})) found.push_back(&precision);
        return found;
    }();
    // Four bits each, put together without one waiting for the other.
    uint64_t number = static_cast<uint64_t>(context().*exposed(MatmulPrecision{})) << 60;
    for (size_t i = 0; i < all.size(); ++i) number ^= std::rotl(static_cast<uint64_t>(*all[i]), 4 * i);
    return number;
}

// Which kernels of attention may be chosen, and in which order: four bits each.
uint64_t attention_kernels() {
    uint64_t number = 0;
    for (auto kernel : context().*exposed(AttentionOrder{})) number = number << 4 | (static_cast<uint64_t>(kernel) & 15);
    const bool enabled[] = {context().*exposed(AttentionFlash{}), context().*exposed(AttentionEfficient{}),
                            context().*exposed(AttentionMath{}), context().*exposed(AttentionCudnn{}),
                            context().*exposed(AttentionOverrideable{})};
    for (bool each : enabled) number = number << 1 | each;
    return number;
}

// Settings of autocast count only where it is on; that it is on shows in the dispatch keys.
uint64_t autocast_settings() {
    constexpr c10::DeviceType devices[] = {c10::DeviceType::CPU, c10::DeviceType::CUDA};
    const uint64_t keys = (c10::DispatchKeySet(c10::DispatchKey::AutocastCPU) |
                               c10::DispatchKeySet(c10::DispatchKey::AutocastCUDA)).raw_repr();
    if ((local_keys().excluded_.raw_repr() & keys) == keys) return 0;
    uint64_t number = 1 + at::autocast::is_autocast_cache_enabled();
    for (auto device : devices)
        number = number << 16 | (at::autocast::is_autocast_enabled(device) << 15) |
                 static_cast<uint64_t>(at::autocast::get_autocast_dtype(device));
    return number;
}

// Modes of this kind are counted only where one shows in the dispatch keys.
uint64_t dispatch_modes() {
    const uint64_t key = c10::DispatchKeySet(c10::DispatchKey::Python).raw_repr();
    return local_keys().included_.raw_repr() & key ? c10::impl::TorchDispatchModeTLS::stack_len() : 0;
}

// Plain numbers, so that two states compare as two lists. Cheap reads only: this runs on every cached call.
// `name` is how a difference is told to the user.
struct Setting {
    const char* name;
    uint64_t (*read)();
};
constexpr Setting settings[] = {
    {"grad mode", [] { return (uint64_t)find_places().autograd->get_grad_mode(); }},
    {"inference mode", [] { return (uint64_t)find_places().autograd->get_inference_mode(); }},
    {"forward-mode gradients", [] { return (uint64_t)find_places().autograd->get_fw_grad_mode(); }},
    {"included dispatch keys", [] { return local_keys().included_.raw_repr(); }},
    {"excluded dispatch keys (autocast)", [] { return local_keys().excluded_.raw_repr(); }},
    {"autocast settings", autocast_settings},
    {"default dtype", [] { return (uint64_t)c10::get_default_dtype_as_scalartype(); }},
    {"deterministic algorithms", [] { return (uint64_t)(context().*exposed(Deterministic{})); }},
    {"deterministic algorithms warn only", [] { return (uint64_t)(context().*exposed(DeterministicWarn{})); }},
    {"fill of uninitialised memory", [] { return (uint64_t)(context().*exposed(DeterministicFill{})); }},
    {"float32 precision", float32_precisions},
    {"attention kernels", attention_kernels},
    {"number of threads", [] { return (uint64_t)at::get_num_threads(); }},
    {"torch function disabled", [] { return (uint64_t)(find_places().functions->*exposed(FunctionsDisabled{})); }},
    {"torch function modes", [] { return (uint64_t)function_modes().size(); }},
    {"torch dispatch modes", dispatch_modes},
};
constexpr size_t setting_count = sizeof(settings) / sizeof(settings[0]);

template <size_t... index>
bool all_equal(const uint64_t* numbers, std::index_sequence<index...>) {
    return ((settings[index].read() == numbers[index]) && ...);
}

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

LocalKeys LocalKeys::now() {
    auto keys = local_keys();
    return {keys.included_.raw_repr(), keys.excluded_.raw_repr()};
}

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
    for (size_t i = 0; i < function_modes().size(); ++i) values_->modes.push_back(share(function_mode(i)));
}
TorchState::~TorchState() = default;

std::unique_ptr<TorchState> TorchState::snapshot() { return std::unique_ptr<TorchState>(new TorchState()); }

__attribute__((flatten)) bool TorchState::holds() const {
    return all_equal(values_->numbers, std::make_index_sequence<setting_count>()) &&
           (values_->modes.empty() || values_->modes_hold());
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
