// One autograd node per call of a compiled function, and nodes of the results before it where eager code has several. Its
// state is read and written under the GIL only, which every apply has to take anyway.
#include "node.h"

#include "compat.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

namespace codegen {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::autograd::impl::set_gradient_edge;

using Flags = c10::SmallVector<bool, 16>;

bool all(const Flags& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

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
    void extend(const Ref& tuple) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) add(share(PyTuple_GET_ITEM(tuple.get(), i)));
    }
    const Ref& get() const { return list_; }

private:
    Ref list_;
    Py_ssize_t filled_ = 0;
};

// By what kernels read the memory of tensors. It may be another when they come back: of what a user's hook answers with,
// or of a leaf that was given other `data`.
class Forms {
public:
    void remember(const at::Tensor& tensor) {
        const auto* impl = tensor.unsafeGetTensorImpl();
        if (impl->layout() != c10::kStrided || impl->is_python_dispatch()) {
            facts_.insert(facts_.end(), {0, unknown});
            return;
        }
        facts_.insert(facts_.end(), {kind(tensor), tensor.dim()});
        for (auto extents : {tensor.sizes(), tensor.strides()}) facts_.insert(facts_.end(), extents.begin(), extents.end());
    }

    class Place {
    public:
        explicit Place(const int64_t* at) : at_(at) {}
        void next() { at_ += 2 + 2 * std::max<int64_t>(at_[1], 0); }

        // The tensor as it was when it was remembered, of the same values if it has become another kind.
        at::Tensor given(at::Tensor tensor) const {
            if (at_[1] == unknown || tensor.unsafeGetTensorImpl()->is_python_dispatch()) return tensor;
            const at::IntArrayRef sizes(at_ + 2, at_[1]), strides(at_ + 2 + at_[1], at_[1]);
            TORCH_CHECK(tensor.sizes() == sizes, "a tensor that the backward of a compiled function needs was of sizes ", sizes,
                        " when it was saved, and is of sizes ", tensor.sizes(), " now");
            if (tensor.layout() == c10::kStrided && kind(tensor) == at_[0] && tensor.strides() == strides) return tensor;
            const auto dtype = static_cast<c10::ScalarType>(at_[0] >> 16);
            const c10::Device device(static_cast<c10::DeviceType>(at_[0] >> 8 & 255), static_cast<int8_t>(at_[0] & 255));
            return laid(tensor, at::empty_strided(sizes, strides, tensor.options().layout(c10::kStrided).dtype(dtype).device(device)));
        }

    private:
        const int64_t* at_;
    };

    Place begin() const { return Place(facts_.data()); }

private:
    static constexpr int64_t unknown = -1;

    // `made`, with the values of `tensor`. Where several of its elements are one, these must have one value.
    static at::Tensor laid(const at::Tensor& tensor, at::Tensor made) {
        if (made.is_non_overlapping_and_dense()) return made.copy_(tensor);
        const at::NoGradGuard without_history;
        const auto length = static_cast<int64_t>(made.storage().nbytes() / made.element_size());
        const auto places = at::arange(length, made.options().dtype(at::kLong)).as_strided(made.sizes(), made.strides());
        const auto values = tensor.to(made.options());
        made.as_strided({length}, {1}).index_put_({places.reshape(-1)}, values.reshape(-1));
        TORCH_CHECK(values.eq(made).logical_or(values.ne(values)).all().item<bool>(),
                    "a tensor that the backward of a compiled function needs was expanded when it was saved, so that several of "
                    "its elements were one; now these are not alike");
        return made;
    }

    static int64_t kind(const at::Tensor& tensor) {
        const auto device = tensor.device();
        return static_cast<int64_t>(tensor.scalar_type()) << 16 | static_cast<int64_t>(device.type()) << 8 |
               static_cast<uint8_t>(device.index());
    }

    std::vector<int64_t> facts_;  // of each: kind, dimensions, sizes, strides
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
            if (all_tracked_ || backward.inputs_saved[i]) {
                tracked_.emplace_back(tensor, tensor.grad_fn().get() == node);
                forms_.remember(tensor);
            } else {
                raw_.push_back(tensor);
            }
        }
    }

    // The tensors that are `read`, in their order, go to `visit`; may run the user's hooks.
    template <class NodePointer, class Visit>
    void unpack(const BackwardState& backward, const NodePointer& node, const Flags* read, Visit visit) const {
        auto tracked = tracked_.begin();
        auto raw = raw_.begin();
        auto form = forms_.begin();
        for (size_t i = 0; i < backward.inputs_saved.size(); ++i) {
            const bool is_tracked = all_tracked_ || backward.inputs_saved[i], is_read = !read || (*read)[i];
            if (is_tracked && is_read) visit(form.given(tracked->unpack(node)));
            else if (is_read) visit(there(*raw));
            if (is_tracked) ++tracked, form.next();
            else ++raw;
        }
    }

    // Lets go of the others.
    void keep(const BackwardState& backward, const Flags& kept) {
        auto tracked = tracked_.begin();
        auto raw = raw_.begin();
        for (size_t i = 0; i < backward.inputs_saved.size(); ++i) {
            if (all_tracked_ || backward.inputs_saved[i]) {
                if (!kept[i]) tracked->reset_data();
                ++tracked;
            } else {
                if (!kept[i]) raw->reset();
                ++raw;
            }
        }
    }

private:
    static const at::Tensor& there(const at::Tensor& tensor) {
        TORCH_CHECK(tensor.defined(), torch::autograd::ERR_BACKWARD_TWICE);
        return tensor;
    }

    bool all_tracked_;
    std::vector<SavedVariable> tracked_;
    Forms forms_;  // of those that are tracked
    std::vector<at::Tensor> raw_;
};

// What a backward with a history of its own starts from, held as it came.
class History {
public:
    explicit History(PyObject* objects) : objects_(share(objects)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); ++i) versions_.push_back(version(PyTuple_GET_ITEM(objects, i)));
    }

    size_t size() const { return versions_.size(); }

    // Those that are looked at, which `read` says of each, must not have been written.
    Ref unpack(const bool* read) const {
        for (size_t i = 0; i < versions_.size(); ++i) {
            if (!read[i]) continue;
            PyObject* object = PyTuple_GET_ITEM(objects_.get(), i);
            TORCH_CHECK(version(object) == versions_[i],
                        "one of the variables needed for gradient computation has been modified by an inplace operation: ",
                        "a tensor of sizes ", THPVariable_Unpack(object).sizes(), " is at version ", version(object),
                        "; expected version ", versions_[i], " instead. Gradients of a compiled function that are to be "
                        "differentiated in turn (create_graph=True) are computed from its inputs once more.");
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

// Some results of a compiled node that have hooks, an age and a `grad_fn` apart from its others; gradients, there or not,
// go through as they are.
class ResultNode : public Node {
public:
    using Node::Node;

    std::string name() const override { return next_edge(0).function->name(); }

protected:
    variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};

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
            released_.reset();
        } else {
            backward_.release();
            extra_.release();
            released_.release();
            if (history_) history_->leak();
        }
    }

    std::string name() const override { return backward_->name; }

    void tie(PyObject* outputs, PyObject* saved) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i) {
            const at::Tensor& output = THPVariable_Unpack(PyTuple_GET_ITEM(outputs, i));
            set_gradient_edge(output, {getptr(), add_input_metadata(output)});
        }
        // An output that is saved is known by its node: it must be this one, as others hold this one.
        if (!backward_->inputs_saved.empty()) saved_ = std::make_shared<Saved>(*backward_.get(), saved, this);
        uint32_t i = 0;
        for (const uint32_t count : backward_->nodes) {
            edge_list edges;
            for (uint32_t number = 0; number < count; ++number) edges.emplace_back(getptr(), i + number);
            auto node = make_node<ResultNode>(std::move(edges));
            for (uint32_t number = 0; number < count; ++number) {
                const at::Tensor& output = THPVariable_Unpack(PyTuple_GET_ITEM(outputs, i++));
                set_gradient_edge(output, {node, node->add_input_metadata(output)});
            }
            results_.emplace_back(node);
        }
    }

    void will_release_variables() override { released_next = this; }

protected:
    variable_list apply(variable_list&& tangents) override {
        const bool is_last = std::exchange(released_next, nullptr) == this;
        Flags defined;
        for (const at::Tensor& tangent : tangents) defined.push_back(tangent.defined());
        if (std::find(defined.begin(), defined.end(), true) == defined.end()) return variable_list(num_outputs());

        Flags needed;
        for (size_t i = 0; i < num_outputs(); ++i) needed.push_back(task_should_compute_output(i));

        HoldGil gil;
        try {
            const bool has_history = at::GradMode::is_enabled();
            const bool is_common = backward_->whole && !has_history && !released_ && all(defined) && all(needed);
            return to_list(is_common ? everything(is_last, tangents) : some(defined, needed, has_history, is_last, tangents));
        } catch (const PythonError&) {
            python_error error;
            error.persist();
            throw error;
        }
    }

private:
    // The functions are given the last references to what was saved and comes back for the last time, so that they can
    // let go of each tensor when they have read it.
    Ref everything(bool is_last, variable_list& tangents) {
        List list(backward_->inputs_saved.size() + PyTuple_GET_SIZE(extra_.get()) + tangents.size());
        if (const auto saved = saved_)
            saved->unpack(*backward_.get(), getptr(), nullptr, [&](at::Tensor tensor) { list.add(wrapped(std::move(tensor))); });
        if (is_last) {
            TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);  // another thread's hook may have come between
            released_ = checked(PyLong_FromLong(-1));
            let_go();
        }
        list.extend(extra_);
        for (at::Tensor& tangent : tangents) list.add(wrapped(std::move(tangent)));
        return checked(PyObject_CallOneArg(backward_->whole.get(), list.get().get()));
    }

    // With a history the gradients get one.
    Ref some(const Flags& defined, const Flags& needed, bool has_history, bool is_last, variable_list& tangents) {
        const Ref defined_tuple = tuple_of(defined), needed_tuple = tuple_of(needed);
        Ref list, choice;
        while (true) {  // while this compiles or runs a hook, another thread may let go of something
            const Ref released = released_;
            choice = chosen(defined_tuple, needed_tuple, released, has_history);
            list = read(choice, has_history);
            if (released_.get() == released.get()) break;
        }
        if (is_last) keep(choice);
        for (at::Tensor& tangent : tangents)
            if (tangent.defined()) append(list, wrapped(std::move(tangent)));
        return checked(PyObject_CallOneArg(PyTuple_GET_ITEM(choice.get(), 0), list.get()));
    }

    // What `choose` says of these gradients: (function, read, released, kept).
    Ref chosen(const Ref& defined, const Ref& needed, const Ref& released, bool has_history) const {
        const Ref none = checked(PyLong_FromLong(0));
        PyObject* arguments[] = {nullptr, defined.get(), needed.get(), (released ? released : none).get(),
                                 has_history ? Py_True : Py_False};
        Ref choice = checked(PyObject_Vectorcall(backward_->choose.get(), arguments + 1, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
        if (!PyTuple_Check(choice.get()) || PyTuple_GET_SIZE(choice.get()) != 4 || !PyLong_Check(PyTuple_GET_ITEM(choice.get(), 2)))
            raise(PyExc_TypeError, "%s: needs (function, read, released, kept), not %R", backward_->name.c_str(), choice.get());
        return choice;
    }

    // The list that the function of this choice is given, but for the tangents.
    Ref read(const Ref& choice, bool has_history) {
        TORCH_CHECK(history_ || !has_history, torch::autograd::ERR_BACKWARD_TWICE);
        const size_t count = backward_->inputs_saved.size();
        const Flags read = flags_of(PyTuple_GET_ITEM(choice.get(), 1), count + (has_history ? history_->size() : 0));
        const auto saved = saved_;
        TORCH_CHECK(saved || std::find(read.begin(), read.begin() + count, true) == read.begin() + count,
                    torch::autograd::ERR_BACKWARD_TWICE);
        Ref list = checked(PyList_New(0));
        if (saved) saved->unpack(*backward_.get(), getptr(), &read, [&](at::Tensor tensor) { append(list, wrapped(std::move(tensor))); });
        if (!has_history) return take_all(list, extra_);
        return take_all(take_all(list, history_->unpack(read.data() + count)), outputs());
    }

    // Lets go of what nobody can ask for any more.
    void keep(const Ref& choice) {
        const Flags kept = flags_of(PyTuple_GET_ITEM(choice.get(), 3), backward_->inputs_saved.size());
        released_ = share(PyTuple_GET_ITEM(choice.get(), 2));
        int overflow;
        if (PyLong_AsLongAndOverflow(released_.get(), &overflow) == -1 && !overflow) history_.reset();
        if (std::find(kept.begin(), kept.end(), true) == kept.end()) saved_.reset();
        else if (saved_.use_count() == 1) saved_->keep(*backward_.get(), kept);  // nobody reads them right now
    }

    Flags flags_of(PyObject* tuple, size_t count) const {
        if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != (Py_ssize_t)count)
            raise(PyExc_TypeError, "%s: needs %zu flags, not %R", backward_->name.c_str(), count, tuple);
        Flags flags;
        for (size_t i = 0; i < count; ++i) flags.push_back(PyTuple_GET_ITEM(tuple, i) == Py_True);
        return flags;
    }

    static void append(const Ref& list, const Ref& object) {
        if (PyList_Append(list.get(), object.get()) < 0) throw PythonError();
    }
    static Ref take_all(const Ref& list, const Ref& tuple) { return checked(PySequence_InPlaceConcat(list.get(), tuple.get())); }

    void let_go() {
        saved_.reset();
        history_.reset();
    }

    // Where gradients of the outputs go. A node of results that nobody holds any more gets none.
    edge_list edges() {
        edge_list edges;
        for (size_t i = 0; i < results_.size(); ++i) {
            const auto node = results_[i].lock();
            for (uint32_t number = 0; number < backward_->nodes[i]; ++number)
                edges.push_back(node ? Edge(node, number) : Edge(getptr(), edges.size()));
        }
        while (edges.size() < num_inputs()) edges.emplace_back(getptr(), edges.size());
        return edges;
    }

    // Tensors with the histories of this node's outputs and nothing else of them: the outputs themselves would hold the
    // node that holds them.
    Ref outputs() {
        edge_list edges = this->edges();
        Ref tuple = checked(PyTuple_New(num_inputs()));
        for (uint32_t i = 0; i < num_inputs(); ++i) {
            const auto& metadata = input_metadata(i);
            auto shape = metadata.shape_as_dim_vector();
            at::Tensor output = at::empty_strided_symint(shape, c10::SymDimVector(shape.size(), 0), metadata.options());
            set_gradient_edge(output, std::move(edges[i]));
            PyTuple_SET_ITEM(tuple.get(), i, wrapped(std::move(output)).release());
        }
        return tuple;
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
    std::shared_ptr<Saved> saved_;  // shared with the applies under way
    c10::SmallVector<WeakNode, 4> results_;  // they hold this one
    Ref released_;  // an int of `choose`'s: what went through its last backward; -1: everything
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
        if (PyTuple_GET_SIZE(outputs) < std::accumulate(backward->nodes.begin(), backward->nodes.end(), Py_ssize_t(0)))
            raise(PyExc_TypeError, "%s: %zd outputs, too few for the nodes of its Backward", name, PyTuple_GET_SIZE(outputs));
        if (!PyTuple_Check(extra)) raise(PyExc_TypeError, "%s: extra must be a tuple, not %s", name, Py_TYPE(extra)->tp_name);
        if (!PyTuple_Check(history)) raise(PyExc_TypeError, "%s: history must be a tuple, not %s", name, Py_TYPE(history)->tp_name);

        edge_list edges(PyTuple_GET_SIZE(inputs));
        for (size_t i = 0; i < edges.size(); ++i) {
            PyObject* input = PyTuple_GET_ITEM(inputs, i);
            if (input != Py_None) edges[i] = torch::autograd::impl::gradient_edge(THPVariable_Unpack(input));
        }
        make_node<CompiledNode>(Owned<Backward>::share(backward), share(extra), history, std::move(edges))->tie(outputs, saved);
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
