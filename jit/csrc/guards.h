// The guard tree: which objects to read, what must hold for them, and which of them to hand on.
#pragma once

#include "guard_shapes.h"
#include "refs.h"
#include "tensors.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace jit {

// What one call offers to guards. All borrowed. `function` and `closure` may be null.
struct CallContext {
    PyObject* function;
    PyObject* globals;
    PyObject* closure;
    PyObject* const* slots;
    Py_ssize_t slot_count;

    static CallContext of(PyObject* function, PyObject* const* slots, Py_ssize_t slot_count) {
        auto* made = reinterpret_cast<PyFunctionObject*>(function);
        return {function, made->func_globals, made->func_closure, slots, slot_count};
    }
};

enum class Step : uint8_t {
    arg, closure, constant, globals, function,                                             // roots
    several,                                                                               // a tuple of other nodes
    attr, dict, item, index, cell, type, typeattr, getitem, key, value, referent, grad,    // steps from a parent
    call,
};

enum class CheckKind : uint8_t {
    type, is, is_weak, eq, tensor, unhooked, len, keys, absent, absent_weak, no_attr,  // about one node
    no_typeattr, own, inherits, makes, function, predicate,
    same, distinct, storage, shape,                                                        // between nodes
    state,                                                                                 // about no node
};

// How long an answer stays good, and so when a check may be skipped.
enum class Lasts : uint8_t {
    with_identity,  // as long as the node is the same object
    with_contents,  // as long as the version tag of the node itself is the same
    for_this_call,
};

struct Check {
    CheckKind kind;
    Lasts lasts;
    uint32_t given_index;  // position in the list the caller gave
    uint32_t number = 0;   // "len": the length; "tensor", "storage", "distinct": index of its data; "same": the other node
    uint32_t node = 0;
    Ref expected;
};

// Nodes stand in the order of evaluation: each before its children, and a subtree without a gap.
// Below a node whose version tag is unchanged, children that can change come first; the rest is skipped in one jump.
struct Node {
    // Fast path: the object found here when the guards held last. It is borrowed, and means something only while the
    // parent is known to be unchanged since then (which keeps the object alive).
    PyObject* remembered = nullptr;
    // Version tag of this node's own contents when the guards held last; 0 = not known.
    uint64_t stamp = 0;
    PyObject* key = nullptr;  // owned by GuardTree::keys
    uint32_t parent = 0;
    uint32_t index = 0;
    uint32_t end = 0;  // first node after this subtree
    uint32_t checks = 0, contents_checks = 0, call_checks = 0, checks_end = 0;
    uint32_t memo = 0;  // roots of large subtrees: 1 + index of the memo
    Step step = Step::arg;
    bool watched = false;          // its contents matter, so its version tag is worth remembering
    bool order_matters = false;    // "keys", "key" and "value" depend on the order of a dict
    bool needs_only_identity = false;  // whole subtree: settled once the object is known to be the same
    bool only_absent = false;      // nothing there is what is wanted
    bool has_parent = false;
    bool by_identity = false;  // "item": the address of the key is its hash
};

// Lists of nodes for "distinct" and "storage".
struct Groups {
    std::vector<std::vector<uint32_t>> nodes;
    bool members_agree = false;  // "storage": those in one list are alike; "distinct": they differ
    // Room for one comparison.
    std::vector<const void*> identities;
    std::vector<const void*> table;  // of hashes; as long as a power of two, and less than half full
};

// What has to be looked at to know that the tree below a root, or below all constant roots, is as it was when the guards
// held last: version tags, tensors, and little else, in tight arrays. Objects are borrowed; each is known to be alive by
// what was verified before it.
struct Memo {
    struct Container {
        PyObject* owner;     // has `type`, and `dict` as its `__dict__` if there is one here; null: the dict is known
        PyTypeObject* type;
        PyObject* dict;
        uint64_t tag;
        uint32_t node;
    };
    struct Leaf {
        PyObject* dict;
        uint64_t tag;
    };
    struct KnownType {
        PyTypeObject* type;
        uint64_t tag;
    };
    struct Known {
        PyObject* object;
        const Check* check;
    };
    bool is_recorded = false;
    PyObject* object = nullptr;    // the root all this was recorded for
    PyObject* contents = nullptr;  // of the root, if it is a cell
    uint32_t begin = 0, end = 0;  // the nodes: from the root on, or all constant roots
    std::vector<Container> containers;  // with more containers below them
    std::vector<Leaf> leaves;           // dicts with none below them
    std::vector<uint32_t> leaf_nodes;   // the nodes of those
    std::vector<KnownType> types;
    std::vector<KnownTensor> tensors;
    std::vector<Known> checks;
    std::vector<uint32_t> islands;  // subtrees that must be walked

    // Where objects alternate, recording each time costs more than it gains.
    uint32_t losses = 0, waits = 0;
    bool is_worth_recording() { return losses <= 4 || ++waits % 32 == 0; }
    void forget() {
        if (is_recorded) ++losses;
        is_recorded = false;
    }
};

// The objects that compiled code wants beside its arguments, each owned.
class Values {
public:
    Values() = default;
    Values(Values&& other) noexcept : count_(std::exchange(other.count_, 0)), tuple_(std::move(other.tuple_)) {
        if (!tuple_) std::copy_n(other.single_, count_, single_);
    }
    Values& operator=(Values&& other) noexcept {
        this->~Values();
        return *new (this) Values(std::move(other));
    }
    ~Values() {
        if (!tuple_)
            for (size_t i = 0; i < count_; ++i) Py_DECREF(single_[i]);
    }

    // Takes the objects of the wanted nodes. False: no memory.
    bool fill(PyObject* const* objects, const std::vector<uint32_t>& wanted, bool as_tuple);
    PyObject* const* data() const { return tuple_ ? &PyTuple_GET_ITEM(tuple_.get(), 0) : single_; }
    size_t size() const { return count_; }
    // The tuple of all, if they were wanted as one.
    PyObject* tuple() const { return tuple_.get(); }

private:
    static constexpr size_t few = 8;
    PyObject* single_[few];
    size_t count_ = 0;
    Ref tuple_;  // in place of `single_`
};

// Where and on what a check failed.
struct Failure {
    enum class At { nothing, node, check } at = At::nothing;
    uint32_t given_index = 0;
    Ref observed;
};

class GuardTree {
public:
    // `nodes`, `checks` and `values` are the plain lists of the Python side. Throws PythonError.
    GuardTree(PyObject* nodes, PyObject* checks, PyObject* values);
    GuardTree(GuardTree&&) = default;

    // True if every guard holds; then `values` holds what is wanted.
    // False otherwise, with no Python error set. On failure `why` says what failed, if the caller wants to know.
    bool check(const CallContext& call, Values& values, bool as_tuple, Failure* why = nullptr);

    size_t node_count() const { return nodes_.size(); }
    size_t check_count() const { return given_checks_; }
    size_t value_count() const { return values_.size(); }

    // No `clear`: what guards point at was there before them, so every cycle through them passes something that has one.
    int visit(visitproc visitor, void* argument) const;

private:
    struct Pending {
        uint32_t node;
        uint64_t stamp;
    };
    enum class Outcome { holds, fails, runs_python };
    template <bool owning> class Walk;

    std::vector<Node> nodes_;
    std::vector<Check> checks_;            // by node, in the order of evaluation
    std::vector<Check> between_;           // relations, once all nodes are read
    std::vector<uint32_t> values_;
    std::vector<uint32_t> given_indices_;  // position of each node in the list the caller gave
    std::vector<Memo> memos_;              // the last is that of the constant roots
    std::vector<Ref> keys_;                // constants and keys of nodes
    std::vector<TensorExpectation> tensors_;
    std::vector<SlotTensor> slot_tensors_;  // the first nodes, as long as they are arguments that are tensors and no more
    Py_ssize_t needed_slots_ = 0;           // for those
    std::vector<Groups> groups_;
    std::vector<std::vector<uint32_t>> several_;  // the nodes that each "several" is made of
    std::unique_ptr<TorchState> state_;
    uint32_t state_index_ = 0;
    size_t given_checks_ = 0;
    // Reading these guards may run Python code, which may change what was read: every object read must be owned.
    bool owning_ = false;
    // Evaluations in progress, more than one if a guard ran Python code that came here again.
    int running_ = 0;
    // Room for one evaluation; a nested one brings its own.
    std::vector<PyObject*> objects_;
    std::vector<uint8_t> unchanged_;
    std::unique_ptr<ShapeConditions> shapes_;  // if there are any

    friend class TreeBuilder;
};


using GuardsObject = Instance<GuardTree>;
extern PyTypeObject* guards_type;

// Equal as constants: same exact type all the way down and equal; floats by their bits, except that all NaN are equal.
// May run Python code only where a type outside the builtins is compared.
bool same_constant(PyObject* expected, PyObject* actual);
// True if comparing with this constant can't run Python code.
bool compares_without_python(PyObject* constant);

}  // namespace jit
