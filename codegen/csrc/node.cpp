// One autograd node per call of a compiled function. Its state is read and written under the GIL only, which every apply
// has to take anyway.
#include "node.h"

#include "compat.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace codegen {
namespace {

using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

using Flags = c10::SmallVector<bool, 16>;

bool all(const Flags& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

// True if each of the first is one of the second.
bool within(const Flags& some, const Flags& others) {
    for (size_t i = 0; i < some.size(); ++i)
        if (some[i] && !others[i]) return false;
    return true;
}

class HoldGil {
public:
    HoldGil() : state_(PyGILState_Ensure()) {}
    ~HoldGil() { PyGILState_Release(state_); }
    HoldGil(const HoldGil&) = delete;
    HoldGil& operator=(const HoldGil&) = delete;

private:
    PyGILState_STATE state_;
};

Ref wrapped(at::Tensor tensor) { return checked(THPVariable_Wrap(std::move(tensor))); }

Ref tuple_of(const Flags& flags) {
    Ref tuple = checked(PyTuple_New(flags.size()));
    for (size_t i = 0; i < flags.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, PyBool_FromLong(flags[i]));
    return tuple;
}

// A Python list of as many objects, filled in order. Who empties it holds them alone.
class List {
public:
    explicit List(size_t count) : list_(checked(PyList_New(count))) {}

    void add(Ref object) { PyList_SET_ITEM(list_.get(), filled_++, object.release()); }
    const Ref& get() const { return list_; }

private:
    Ref list_;
    Py_ssize_t filled_ = 0;
};

// The tensors that a forward leaves for its backward.
class Saved {
public:
    // A tensor that exists outside goes through torch's own record: it notices writes, knows the tensor's history, and
    // holds no output of `node` in a cycle. A private one needs none of that, unless the user's hooks want to see it.
    Saved(const BackwardState& backward, PyObject* tensors, const Node* node)
        : all_tracked_(at::SavedTensorDefaultHooks::get_hooks().has_value()) {
        for (size_t i = 0; i < backward.inputs_saved.size(); ++i) {
            const at::Tensor& tensor = THPVariable_Unpack(PyTuple_GET_ITEM(tensors, i));
            if (all_tracked_ || backward.inputs_saved[i]) tracked_.emplace_back(tensor, tensor.grad_fn().get() == node);
            else raw_.push_back(tensor);
        }
    }

    // Adds the tensors, in their order, to `list`; may run the user's hooks.
    template <class NodePointer>
    void unpack(const BackwardState& backward, const NodePointer& node, List& list) const {
        auto tracked = tracked_.begin();
        auto raw = raw_.begin();
        for (bool is_outside : backward.inputs_saved)
            list.add(wrapped(all_tracked_ || is_outside ? (tracked++)->unpack(node) : *raw++));
    }

private:
    bool all_tracked_;
    std::vector<SavedVariable> tracked_;
    std::vector<at::Tensor> raw_;
};

// What a backward with a history of its own starts from, held as it came. Its tensors must not have been written since.
class History {
public:
    explicit History(PyObject* objects) : objects_(share(objects)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); ++i) versions_.push_back(version(PyTuple_GET_ITEM(objects, i)));
    }

    Ref unpack() const {
        for (size_t i = 0; i < versions_.size(); ++i) {
            PyObject* object = PyTuple_GET_ITEM(objects_.get(), i);
            TORCH_CHECK(version(object) == versions_[i],
                        "one of the variables needed for gradient computation has been modified by an inplace operation: ",
                        "a tensor of sizes ", THPVariable_Unpack(object).sizes(), " is at version ", version(object),
                        "; expected version ", versions_[i], " instead.");
        }
        return objects_;
    }

    void leak() { objects_.release(); }

private:
    static uint32_t version(PyObject* object) {
        if (!THPVariable_Check(object)) return 0;
        const at::Tensor& tensor = THPVariable_Unpack(object);
        return tensor.is_inference() ? 0 : tensor._version();
    }

    Ref objects_;
    c10::SmallVector<uint32_t, 16> versions_;
};

// The node that this thread is about to apply for the last time. The engine says so right before the apply, and an apply
// from elsewhere (another thread's, a call of `grad_fn` by hand) must not take it for its own.
thread_local const Node* released_next = nullptr;

class CompiledNode : public Node {
public:
    CompiledNode(Owned<Backward> backward, Ref extra, PyObject* history, edge_list&& edges)
        : Node(std::move(edges)), backward_(std::move(backward)), extra_(std::move(extra)), history_(std::in_place, history) {}

    // Nodes die on the engine's threads too, and some after Python itself.
    ~CompiledNode() override {
        if (Py_IsInitialized()) {
            HoldGil gil;
            backward_.reset();
            extra_.reset();
            history_.reset();
        } else {
            backward_.release();
            extra_.release();
            if (history_) history_->leak();
        }
    }

    std::string name() const override { return backward_->name; }

    // The outputs must have been tied: an output that is saved is known by its node.
    void save(PyObject* tensors) {
        consumed_.assign(num_inputs(), false);
        if (!backward_->inputs_saved.empty()) saved_ = std::make_shared<const Saved>(*backward_.get(), tensors, this);
    }

    void will_release_variables() override { released_next = this; }

protected:
    variable_list apply(variable_list&& tangents) override {
        const bool is_last = std::exchange(released_next, nullptr) == this;
        Flags defined;
        for (const at::Tensor& tangent : tangents) defined.push_back(tangent.defined());
        if (std::find(defined.begin(), defined.end(), true) == defined.end()) return variable_list(num_outputs());

        HoldGil gil;
        try {
            Ref history = at::GradMode::is_enabled() ? checked_history() : Ref();
            auto saved = is_last ? consume(defined) : present(defined);
            return to_list(gradients(std::move(saved), std::move(history), defined, std::move(tangents)));
        } catch (const PythonError&) {
            python_error error;
            error.persist();
            throw error;
        }
    }

private:
    // What was saved, for a backward of these outputs.
    std::shared_ptr<const Saved> present(const Flags& defined) const {
        TORCH_CHECK(backward_->inputs_saved.empty() || !within(defined, consumed_), torch::autograd::ERR_BACKWARD_TWICE);
        return saved_;
    }

    // The same for their last backward. Outputs may be differentiated one after the other, as if each had nodes of its own.
    std::shared_ptr<const Saved> consume(const Flags& defined) {
        auto saved = present(defined);
        for (size_t i = 0; i < defined.size(); ++i) consumed_[i] |= defined[i];
        if (all(consumed_)) {
            saved_.reset();
            history_.reset();
        }
        return saved;
    }

    // With a `history` the gradients get one. The functions are given the last references to what was saved and comes
    // back for the last time, so that they can let go of each tensor when they have read it.
    Ref gradients(std::shared_ptr<const Saved> saved, Ref history, const Flags& defined, variable_list&& tangents) {
        Flags needed;
        for (size_t i = 0; i < num_outputs(); ++i) needed.push_back(task_should_compute_output(i));
        const bool has_history = bool(history);
        const bool is_common = !has_history && all(defined) && all(needed);
        const Py_ssize_t num_extra = PyTuple_GET_SIZE(extra_.get());
        List list(backward_->inputs_saved.size() + (is_common ? num_extra + tangents.size() : 0));
        if (saved) saved->unpack(*backward_.get(), getptr(), list);
        saved.reset();
        if (is_common) {
            for (Py_ssize_t i = 0; i < num_extra; ++i) list.add(share(PyTuple_GET_ITEM(extra_.get(), i)));
            for (at::Tensor& tangent : tangents) list.add(wrapped(std::move(tangent)));
            return checked(PyObject_CallOneArg(backward_->whole.get(), list.get().get()));
        }
        List changes(tangents.size());
        for (at::Tensor& tangent : tangents) changes.add(wrapped(std::move(tangent)));  // undefined: None
        const Ref defined_tuple = tuple_of(defined), needed_tuple = tuple_of(needed), results = has_history ? outputs() : Ref();
        PyObject* arguments[] = {nullptr, defined_tuple.get(), needed_tuple.get(), list.get().get(), extra_.get(),
                                 changes.get().get(), history.get(), results.get()};
        PyObject* function = (has_history ? backward_->differentiable : backward_->partial).get();
        const size_t count = has_history ? 7 : 5;
        return checked(PyObject_Vectorcall(function, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    }

    // Tensors with the histories of this node's outputs and nothing else of them: the outputs themselves would hold the
    // node that holds them.
    Ref outputs() {
        Ref tuple = checked(PyTuple_New(num_inputs()));
        for (uint32_t i = 0; i < num_inputs(); ++i) {
            const auto& metadata = input_metadata(i);
            auto shape = metadata.shape_as_dim_vector();
            at::Tensor output = at::empty_strided_symint(shape, c10::SymDimVector(shape.size(), 0), metadata.options());
            torch::autograd::impl::set_gradient_edge(output, {getptr(), i});
            PyTuple_SET_ITEM(tuple.get(), i, wrapped(std::move(output)).release());
        }
        return tuple;
    }

    Ref checked_history() const {
        TORCH_CHECK(history_, torch::autograd::ERR_BACKWARD_TWICE);
        return history_->unpack();
    }

    variable_list to_list(const Ref& gradients) const {
        PyObject* tuple = gradients.get();
        const char* name = backward_->name.c_str();
        if (!PyTuple_Check(tuple))
            raise(PyExc_TypeError, "%s: its backward must give a tuple of gradients, not %s", name, Py_TYPE(tuple)->tp_name);
        if (PyTuple_GET_SIZE(tuple) != (Py_ssize_t)num_outputs())
            raise(PyExc_TypeError, "%s: its backward gave %zd gradients for %u inputs", name, PyTuple_GET_SIZE(tuple), num_outputs());
        variable_list list(num_outputs());
        for (size_t i = 0; i < list.size(); ++i) {
            PyObject* gradient = PyTuple_GET_ITEM(tuple, i);
            if (gradient == Py_None) continue;
            if (!THPVariable_Check(gradient))
                raise(PyExc_TypeError, "%s: gradient %zu is a %s, not a tensor or None", name, i, Py_TYPE(gradient)->tp_name);
            list[i] = THPVariable_Unpack(gradient);
        }
        return list;
    }

    Owned<Backward> backward_;
    Ref extra_;
    std::optional<History> history_;
    std::shared_ptr<const Saved> saved_;  // shared with the applies under way
    Flags consumed_;                      // per output: went through its last backward
};

// Throws PythonError unless all of the tuple are tensors (or None, where that is allowed).
void check_tensors(const char* name, const char* what, PyObject* tuple, bool allow_none) {
    if (!PyTuple_Check(tuple)) raise(PyExc_TypeError, "%s: %s must be a tuple, not %s", name, what, Py_TYPE(tuple)->tp_name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* item = PyTuple_GET_ITEM(tuple, i);
        if (!THPVariable_Check(item) && !(allow_none && item == Py_None))
            raise(PyExc_TypeError, "%s: %s[%zd] is a %s, not a tensor", name, what, i, Py_TYPE(item)->tp_name);
    }
}

void check_outputs(const char* name, PyObject* outputs) {
    check_tensors(name, "outputs", outputs, false);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
        const at::Tensor& output = THPVariable_Unpack(PyTuple_GET_ITEM(outputs, i));
        if (!torch::autograd::isDifferentiableType(output.scalar_type()))
            raise(PyExc_TypeError, "%s: outputs[%zd] has dtype %s, which has no gradients", name, i,
                  c10::toString(output.scalar_type()));
        if (output.requires_grad()) raise(PyExc_ValueError, "%s: outputs[%zd] requires a gradient already", name, i);
        if (output.is_view()) raise(PyExc_ValueError, "%s: outputs[%zd] is a view", name, i);
    }
}

}  // namespace

PyObject* tie(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    try {
        if (count != 5 && count != 6) raise(PyExc_TypeError, "tie() takes 5 or 6 arguments, got %zd", count);
        if (Py_TYPE(arguments[0]) != backward_type) raise(PyExc_TypeError, "tie() takes a Backward, got %R", arguments[0]);
        auto* backward = static_cast<Backward*>(arguments[0]);
        PyObject *inputs = arguments[1], *outputs = arguments[2], *saved = arguments[3], *extra = arguments[4];
        Ref none = count == 6 ? Ref() : checked(PyTuple_New(0));
        PyObject* history = count == 6 ? arguments[5] : none.get();
        const char* name = backward->name.c_str();
        check_tensors(name, "inputs", inputs, true);
        check_outputs(name, outputs);
        check_tensors(name, "saved", saved, false);
        if (PyTuple_GET_SIZE(saved) != (Py_ssize_t)backward->inputs_saved.size())
            raise(PyExc_TypeError, "%s: %zd saved tensors, its Backward has %zu", name, PyTuple_GET_SIZE(saved), backward->inputs_saved.size());
        if (!PyTuple_Check(extra)) raise(PyExc_TypeError, "%s: extra must be a tuple, not %s", name, Py_TYPE(extra)->tp_name);
        if (!PyTuple_Check(history)) raise(PyExc_TypeError, "%s: history must be a tuple, not %s", name, Py_TYPE(history)->tp_name);

        edge_list edges(PyTuple_GET_SIZE(inputs));
        for (size_t i = 0; i < edges.size(); ++i) {
            PyObject* input = PyTuple_GET_ITEM(inputs, i);
            if (input != Py_None) edges[i] = torch::autograd::impl::gradient_edge(THPVariable_Unpack(input));
        }
        auto node = make_node<CompiledNode>(Owned<Backward>::share(backward), share(extra), history, std::move(edges));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
            const at::Tensor& output = THPVariable_Unpack(PyTuple_GET_ITEM(outputs, i));
            torch::autograd::impl::set_gradient_edge(output, {node, node->add_input_metadata(output)});
        }
        node->save(saved);
        Py_RETURN_NONE;
    } catch (const PythonError&) {
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
}

PyObject* below(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "below() takes a function and its arguments");
        return nullptr;
    }
    at::AutoDispatchBelowADInplaceOrView guard;
    c10::impl::ExcludeDispatchKeyGuard as_cast(c10::autocast_dispatch_keyset);
    return PyObject_Vectorcall(arguments[0], arguments + 1, count - 1, nullptr);
}

}  // namespace codegen
