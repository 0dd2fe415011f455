// What autograd keeps with a tensor: its gradient, and who wants to be told of it. No Python code runs.
#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "tensors.h"

#include <algorithm>

namespace jit {
namespace {

// NULL: nothing was ever kept with this tensor.
const torch::autograd::AutogradMeta* kept_with(PyObject* tensor) {
    return torch::autograd::impl::get_autograd_meta(THPVariable_Unpack(tensor));
}

// A dict of hooks stays with the tensor when the last of them is removed.
bool is_empty(PyObject* hooks) {
    return !hooks || hooks == Py_None || (PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0);
}

// A tensor made by C++ code gets its Python object, which it then keeps. What the caller read is only borrowed, so that
// the garbage collector must not start here.
PyObject* wrapped(const at::Tensor& tensor) {
    const int collects = PyGC_Disable();
    Ref made;
    try {
        made = take(THPVariable_Wrap(tensor));
    } catch (const std::exception&) {
    }
    if (collects) PyGC_Enable();
    if (!made) PyErr_Clear();
    return made.get();
}

}  // namespace

PyObject* gradient_of(PyObject* object) {
    if (!is_tensor(object)) return nullptr;
    const auto* meta = kept_with(object);
    if (!meta || !meta->grad_.defined()) return Py_None;
    PyObject* known = meta->grad_.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
    return known ? known : wrapped(meta->grad_);
}

bool is_unhooked(PyObject* object, bool but_for_its_own) {
    if (!is_tensor(object)) return false;
    const auto* variable = reinterpret_cast<THPVariable*>(object);
    const bool has_own = !is_empty(variable->backward_hooks) || !is_empty(variable->post_accumulate_grad_hooks);
    if (has_own && !but_for_its_own) return false;
    const auto* meta = kept_with(object);
    if (!meta) return true;
    if (meta->retains_grad_) return false;
    if (const auto& hooks = meta->cpp_hooks_list_)
        if (std::any_of(hooks->begin(), hooks->end(), [](const auto& hook) { return bool(hook); })) return false;
    // The node that adds to the gradient of a leaf is made when first wanted, and goes with the last one that wants it.
    const auto accumulator = meta->grad_accumulator_.lock();
    return !accumulator || (accumulator->pre_hooks().empty() && accumulator->post_hooks().empty());
}

}  // namespace jit
