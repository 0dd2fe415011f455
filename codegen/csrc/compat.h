// Everything that differs between torch versions, each difference once, with its reason.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace codegen {

// Since 2.13 an autograd node counts its own references; before, it was shared and had a deleter that does not recurse
// down a long graph, and a Python function's object did not own its node.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
template <class Kind, class... Arguments>
c10::intrusive_ptr<Kind> make_node(Arguments&&... arguments) {
    return c10::make_intrusive<Kind>(std::forward<Arguments>(arguments)...);
}
inline auto node_of(const THPFunction* function) { return function->cdata; }
using WeakNode = c10::weak_intrusive_ptr<torch::autograd::Node>;
#else
template <class Kind, class... Arguments>
std::shared_ptr<Kind> make_node(Arguments&&... arguments) {
    return std::shared_ptr<Kind>(new Kind(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
}
inline auto node_of(const THPFunction* function) { return function->cdata.lock(); }
using WeakNode = std::weak_ptr<torch::autograd::Node>;
#endif

}  // namespace codegen
