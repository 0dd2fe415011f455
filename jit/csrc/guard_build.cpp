// Turns the plain lists that describe guards into a GuardTree in the order of evaluation.
#include "guards.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace jit {
namespace {

struct StepName {
    const char* name;
    Step step;
    bool is_root;
};

constexpr StepName step_names[] = {
    {"arg", Step::arg, true},         {"closure", Step::closure, true}, {"const", Step::constant, true},
    {"globals", Step::globals, true}, {"function", Step::function, true},
    {"several", Step::several, true},
    {"attr", Step::attr, false},      {"dict", Step::dict, false},      {"item", Step::item, false},
    {"index", Step::index, false},    {"cell", Step::cell, false},      {"type", Step::type, false},
    {"typeattr", Step::typeattr, false}, {"getitem", Step::getitem, false}, {"key", Step::key, false},
    {"value", Step::value, false},    {"referent", Step::referent, false},
    {"grad", Step::grad, false},      {"call", Step::call, false},
};

struct CheckName {
    const char* name;
    CheckKind kind;
};

// In the order in which the checks of one node are worth trying.
constexpr CheckName check_names[] = {
    {"type", CheckKind::type},         {"is", CheckKind::is},         {"is_weak", CheckKind::is_weak},
    {"eq", CheckKind::eq},             {"tensor", CheckKind::tensor}, {"unhooked", CheckKind::unhooked},
    {"len", CheckKind::len},           {"keys", CheckKind::keys},         {"absent", CheckKind::absent},
    {"absent_weak", CheckKind::absent_weak}, {"function", CheckKind::function},
    {"no_typeattr", CheckKind::no_typeattr}, {"own", CheckKind::own}, {"inherits", CheckKind::inherits},
    {"makes", CheckKind::makes},
    {"no_attr", CheckKind::no_attr},   {"predicate", CheckKind::predicate},
    {"same", CheckKind::same},         {"distinct", CheckKind::distinct}, {"storage", CheckKind::storage},
    {"shape", CheckKind::shape},       {"state", CheckKind::state},
};

template <class Table>
auto& named(const Table& table, PyObject* name, const char* what) {
    const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (text)
        for (auto& row : table)
            if (std::strcmp(row.name, text) == 0) return row;
    if (PyErr_Occurred()) throw PythonError();
    raise(PyExc_ValueError, "unknown %s %R", what, name);
}

long as_long(PyObject* number, const char* what) {
    long value = PyLong_Check(number) ? PyLong_AsLong(number) : -1;
    if (PyErr_Occurred()) throw PythonError();
    if (!PyLong_Check(number)) raise(PyExc_TypeError, "%s must be an int, got %R", what, number);
    return value;
}

struct Triple {
    PyObject *first, *second, *third;
};

Triple triple(PyObject* item, const char* what) {
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 3)
        raise(PyExc_TypeError, "%s must be a tuple of three, got %R", what, item);
    return {PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1), PyTuple_GET_ITEM(item, 2)};
}

Ref sequence(PyObject* object, const char* what) {
    return checked(PySequence_Fast(object, what));
}

// A type whose instances can't be given another type: identity of the instance settles the type.
bool keeps_its_instances(PyObject* type) {
    return !(((PyTypeObject*)type)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyType_IsSubtype((PyTypeObject*)type, &PyModule_Type);
}

bool is_dict_type(PyObject* type) {
    return type == (PyObject*)&PyDict_Type || type == (PyObject*)&PyODict_Type;
}

bool has_fixed_length(PyObject* type) {
    return type == (PyObject*)&PyTuple_Type || type == (PyObject*)&PyUnicode_Type || type == (PyObject*)&PyBytes_Type ||
           type == (PyObject*)&PyFrozenSet_Type;
}

// A step whose result is part of what a version tag (or being a tuple) stands for.
bool reads_contents(Step step) {
    return step == Step::item || step == Step::key || step == Step::value || step == Step::typeattr || step == Step::index;
}

}  // namespace

bool compares_without_python(PyObject* constant) {
    PyTypeObject* type = Py_TYPE(constant);
    if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
            if (!compares_without_python(PyTuple_GET_ITEM(constant, i))) return false;
        return true;
    }
    return constant == Py_None || constant == Py_Ellipsis || type == &PyBool_Type || type == &PyLong_Type ||
           type == &PyFloat_Type || type == &PyComplex_Type || type == &PyUnicode_Type || type == &PyBytes_Type;
}

class TreeBuilder {
public:
    explicit TreeBuilder(GuardTree& tree) : tree_(tree) {}

    void read_nodes(PyObject* list) {
        Ref items = sequence(list, "nodes must be a list");
        Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
        given_.resize(count);
        for (Py_ssize_t i = 0; i < count; ++i) read_node(i, PySequence_Fast_GET_ITEM(items.get(), i));
    }

    void read_checks(PyObject* list) {
        Ref items = sequence(list, "checks must be a list");
        tree_.given_checks_ = PySequence_Fast_GET_SIZE(items.get());
        for (size_t i = 0; i < tree_.given_checks_; ++i) read_check(i, PySequence_Fast_GET_ITEM(items.get(), i));
    }

    void read_values(PyObject* list) {
        Ref items = sequence(list, "values must be a list");
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
            uint32_t node = node_index(PySequence_Fast_GET_ITEM(items.get(), i), "a value");
            given_[node].wanted = true;
            tree_.values_.push_back(node);
        }
    }

    void finish() {
        for (auto& given : given_) sort_checks(given);
        settle_what_lasts();
        find_skippable();
        std::vector<uint32_t> roots;
        for (uint32_t i = 0; i < given_.size(); ++i)
            if (given_[i].parent < 0) roots.push_back(i);
        count_subtrees();
        by_size(roots);
        // Lone tensors come first, constants late: calls differ in the former, and the latter are verified together. What
        // is made of several nodes comes after all of these, in the given order: one may be made of what lies below another.
        auto rank = [&](uint32_t root) {
            const Given& given = given_[root];
            return given.step == Step::several ? 3 : given.step == Step::constant ? 2 : is_lone_tensor(given) ? 0 : 1;
        };
        auto place_of = [&](uint32_t root) { return std::pair(rank(root), rank(root) == 3 ? root : 0); };
        std::stable_sort(roots.begin(), roots.end(), [&](uint32_t a, uint32_t b) { return place_of(a) < place_of(b); });
        Memo constants;
        for (uint32_t root : roots) {
            if (rank(root) == 0) list_slot_tensor(given_[root]);
            if (rank(root) < 2) constants.begin = tree_.nodes_.size() + given_[root].size;
            if (rank(root) < 3) constants.end = tree_.nodes_.size() + given_[root].size;
            place(root, 0);
        }
        tree_.memos_.push_back(std::move(constants));
        renumber();
        tree_.objects_.resize(tree_.nodes_.size());
        tree_.unchanged_.resize(tree_.nodes_.size());
    }

private:
    struct Given {
        long parent = -1;
        Step step = Step::arg;
        uint32_t index = 0;
        PyObject* key = nullptr;
        PyObject* type = nullptr;  // payload of the node's "type" check
        std::vector<Check> checks;
        std::vector<uint32_t> children;
        uint32_t placed = 0;
        size_t size = 1;
        bool wanted = false;  // by a value or a relation: must always be read
        bool by_identity = false;
        bool skippable = false;  // nothing in this subtree can change while the object stays the same
    };

    uint32_t node_index(PyObject* number, const char* what) {
        long value = as_long(number, what);
        if (value < 0 || value >= (long)given_.size())
            raise(PyExc_IndexError, "%s names node %ld of %zd", what, value, (Py_ssize_t)given_.size());
        return value;
    }

    PyObject* keep(PyObject* object) {
        tree_.keys_.push_back(share(object));
        return object;
    }

    void read_node(uint32_t index, PyObject* item) {
        auto [parent, kind, argument] = triple(item, "a node");
        Given& given = given_[index];
        given.parent = as_long(parent, "the parent of a node");
        auto& row = named(step_names, kind, "kind of node");
        given.step = row.step;
        if (given.parent >= (long)index || given.parent < -1)
            raise(PyExc_ValueError, "node %u: its parent %ld does not come before it", index, given.parent);
        if (row.is_root != (given.parent == -1))
            raise(PyExc_ValueError, "node %u: '%s' %s", index, row.name, row.is_root ? "has no parent" : "needs a parent");
        if (given.parent >= 0) given_[given.parent].children.push_back(index);

        switch (given.step) {
            case Step::arg: case Step::closure: case Step::index: case Step::key: case Step::value: {
                long number = as_long(argument, "the argument of this kind of node");
                if (number < 0) raise(PyExc_ValueError, "node %u: negative index %ld", index, number);
                given.index = number;
                break;
            }
            case Step::attr: case Step::typeattr:
                if (!PyUnicode_Check(argument)) raise(PyExc_TypeError, "node %u: a name must be str, got %R", index, argument);
                intern(argument, given);
                break;
            case Step::item: case Step::getitem:
                if (PyUnicode_CheckExact(argument)) intern(argument, given);
                else given.key = keep(argument);
                break;
            case Step::constant: case Step::call:
                given.key = keep(argument);
                break;
            case Step::several:
                given.index = tree_.several_.size();
                tree_.several_.push_back(nodes_of(argument));
                for (uint32_t part : tree_.several_.back())
                    if (part >= index || given_[part].step == Step::several)
                        raise(PyExc_ValueError, "node %u can't be made of node %u", index, part);
                break;
            default:
                break;
        }
        if (given.step == Step::getitem || given.step == Step::call || given.step == Step::several) tree_.owning_ = true;
        given.by_identity = given.step == Step::item && hashes_by_identity(argument);
        if (given.step == Step::item && !given.by_identity && !compares_without_python(argument)) tree_.owning_ = true;
    }

    // Names in dicts of attributes are interned: comparing pointers finds them.
    void intern(PyObject* name, Given& given) {
        PyObject* interned = Py_NewRef(name);
        PyUnicode_InternInPlace(&interned);
        tree_.keys_.push_back(take(interned));
        given.key = interned;
    }

    void read_check(uint32_t index, PyObject* item) {
        auto [node, kind, payload] = triple(item, "a check");
        Check check{named(check_names, kind, "kind of check").kind, Lasts::for_this_call, index, 0, 0, share(payload)};
        if (check.kind == CheckKind::state) {
            tree_.state_ = TorchState::snapshot();
            tree_.state_index_ = index;
            return;
        }
        if (check.kind == CheckKind::shape) {
            if (!tree_.shapes_) tree_.shapes_ = std::make_unique<ShapeConditions>();
            tree_.shapes_->add(payload, index, [&](PyObject* number) {
                uint32_t about = node_index(number, "a condition on sizes");
                given_[about].wanted = true;
                return about;
            });
            return;
        }
        uint32_t about = check.kind == CheckKind::distinct || check.kind == CheckKind::storage ? 0 : node_index(node, "a check");
        check.node = about;
        switch (check.kind) {
            case CheckKind::type:
                if (!PyType_Check(payload)) raise(PyExc_TypeError, "check %u: expected a type, got %R", index, payload);
                given_[about].type = payload;
                break;
            case CheckKind::is_weak: case CheckKind::absent_weak:
                check.expected = checked(PyWeakref_NewRef(payload, nullptr));
                break;
            case CheckKind::len:
                check.number = as_long(payload, "a length");
                break;
            case CheckKind::tensor:
                check.number = tree_.tensors_.size();
                tree_.tensors_.emplace_back(payload);
                break;
            case CheckKind::keys:
                if (!PyTuple_Check(payload)) raise(PyExc_TypeError, "check %u: keys must be a tuple, got %R", index, payload);
                break;
            case CheckKind::inherits:
                if (!PyTuple_Check(payload)) raise(PyExc_TypeError, "check %u: classes must be a tuple, got %R", index, payload);
                break;
            case CheckKind::function:
                if (!PyTuple_Check(payload) || PyTuple_GET_SIZE(payload) != 4)
                    raise(PyExc_TypeError, "check %u: expected (func, code, defaults, kwdefaults), got %R", index, payload);
                break;
            case CheckKind::predicate: case CheckKind::no_attr:
                tree_.owning_ = true;
                break;
            case CheckKind::same:
                check.number = node_index(payload, "'same'");
                given_[about].wanted = given_[check.number].wanted = true;
                tree_.between_.push_back(std::move(check));
                return;
            case CheckKind::distinct: {
                check.number = tree_.groups_.size();
                Groups groups;
                groups.nodes.push_back(nodes_of(payload));
                add_groups(std::move(groups));
                tree_.between_.push_back(std::move(check));
                return;
            }
            case CheckKind::storage: {
                check.number = tree_.groups_.size();
                Groups groups;
                groups.members_agree = true;
                Ref lists = sequence(payload, "'storage' takes a list of lists");
                for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(lists.get()); ++i)
                    groups.nodes.push_back(nodes_of(PySequence_Fast_GET_ITEM(lists.get(), i)));
                add_groups(std::move(groups));
                tree_.between_.push_back(std::move(check));
                return;
            }
            default:
                break;
        }
        given_[about].checks.push_back(std::move(check));
    }

    std::vector<uint32_t> nodes_of(PyObject* list) {
        Ref items = sequence(list, "expected a list of nodes");
        std::vector<uint32_t> nodes;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
            nodes.push_back(node_index(PySequence_Fast_GET_ITEM(items.get(), i), "a relation"));
            given_[nodes.back()].wanted = true;
        }
        return nodes;
    }

    void add_groups(Groups groups) {
        size_t total = 0;
        for (auto& group : groups.nodes) total += group.size();
        groups.identities.resize(total);
        groups.table.resize(std::bit_ceil(2 * total + 1));
        tree_.groups_.push_back(std::move(groups));
    }

    Lasts lasts(const Check& check, const Given& given) {
        switch (check.kind) {
            case CheckKind::type:
                return keeps_its_instances(check.expected.get()) ? Lasts::with_identity : Lasts::for_this_call;
            case CheckKind::is:
                return Lasts::with_identity;
            case CheckKind::is_weak: case CheckKind::absent_weak:  // another object may have its address by now
                return Lasts::for_this_call;
            case CheckKind::eq:
                return compares_without_python(check.expected.get()) ? Lasts::with_identity : Lasts::for_this_call;
            case CheckKind::len:
                if (given.type && has_fixed_length(given.type)) return Lasts::with_identity;
                return given.type && is_dict_type(given.type) ? Lasts::with_contents : Lasts::for_this_call;
            case CheckKind::keys: case CheckKind::absent:
            case CheckKind::no_typeattr: case CheckKind::own: case CheckKind::inherits: case CheckKind::makes:
                return Lasts::with_contents;
            default:
                return Lasts::for_this_call;
        }
    }

    void settle_what_lasts() {
        for (auto& given : given_) {
            for (Check& check : given.checks) check.lasts = lasts(check, given);
            std::stable_sort(given.checks.begin(), given.checks.end(),
                             [](const Check& a, const Check& b) { return a.lasts < b.lasts; });
        }
    }

    void sort_checks(Given& given) {
        std::stable_sort(given.checks.begin(), given.checks.end(),
                         [](const Check& a, const Check& b) { return a.kind < b.kind; });
    }

    // Children come after their parents in the given order, so one backward pass sees children first.
    void find_skippable() {
        for (size_t i = given_.size(); i-- > 0;) {
            Given& given = given_[i];
            bool frozen = given.type == (PyObject*)&PyTuple_Type;
            given.skippable = reads_contents(given.step) && !given.wanted && (given.children.empty() || frozen);
            for (Check& check : given.checks) given.skippable &= check.lasts == Lasts::with_identity;
            for (uint32_t child : given.children) given.skippable &= given_[child].skippable && given_[child].step == Step::index;
        }
    }

    void count_subtrees() {
        for (size_t i = given_.size(); i-- > 0;)
            if (given_[i].parent >= 0) given_[given_[i].parent].size += given_[i].size;
    }

    static bool is_lone_tensor(const Given& given) {
        return given.step == Step::arg && given.children.empty() && given.checks.size() == 1 &&
               given.checks[0].kind == CheckKind::tensor;
    }

    void list_slot_tensor(const Given& given) {
        tree_.slot_tensors_.push_back({given.index, &tree_.tensors_[given.checks[0].number]});
        tree_.needed_slots_ = std::max<Py_ssize_t>(tree_.needed_slots_, given.index + 1);
    }

    // Small subtrees first: the arguments of a call fail more often, and cheaper, than a tree of modules.
    void by_size(std::vector<uint32_t>& nodes) {
        std::stable_sort(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) {
            return std::pair(given_[a].skippable, given_[a].size) < std::pair(given_[b].skippable, given_[b].size);
        });
    }

    void place(uint32_t index, uint32_t parent) {
        Given& given = given_[index];
        uint32_t here = given.placed = tree_.nodes_.size();
        Node node;
        node.key = given.key;
        node.parent = parent;
        node.has_parent = given.parent >= 0;
        node.index = given.index;
        node.step = given.step;
        node.by_identity = given.by_identity;
        node.needs_only_identity = given.skippable;
        place_checks(node, given);
        for (uint32_t child : given.children) {
            node.watched |= reads_contents(given_[child].step);
            node.order_matters |= given_[child].step == Step::key || given_[child].step == Step::value;
        }
        tree_.nodes_.push_back(node);
        tree_.given_indices_.push_back(index);
        by_size(given.children);
        for (uint32_t child : given.children) place(child, here);
        tree_.nodes_[here].end = tree_.nodes_.size();
        if (is_worth_a_memo(given)) {
            Memo& memo = tree_.memos_.emplace_back();
            memo.begin = here;
            memo.end = tree_.nodes_.size();
            tree_.nodes_[here].memo = tree_.memos_.size();
        }
    }

    // An object with attributes, which may well come again. Lists and the like are read anew at each call.
    bool is_worth_a_memo(const Given& root) const {
        return root.parent < 0 && root.step != Step::constant &&
               std::any_of(root.children.begin(), root.children.end(), [&](uint32_t child) {
                   return given_[child].step == Step::dict || given_[child].step == Step::type || given_[child].size >= 4;
               });
    }

    void place_checks(Node& node, Given& given) {
        auto& checks = tree_.checks_;
        node.checks = checks.size();
        node.only_absent = !given.checks.empty() && given.children.empty();
        uint32_t counts[3] = {};
        for (Check& check : given.checks) {
            counts[(int)check.lasts]++;
            node.only_absent &= check.kind == CheckKind::absent;
            node.watched |= check.lasts == Lasts::with_contents;
            node.order_matters |= check.kind == CheckKind::keys;
            checks.push_back(std::move(check));
        }
        node.contents_checks = node.checks + counts[0];
        node.call_checks = node.contents_checks + counts[1];
        node.checks_end = checks.size();
    }

    // From the caller's numbers of nodes to ours.
    void renumber() {
        for (Check& check : tree_.checks_) check.node = given_[check.node].placed;
        for (Check& check : tree_.between_) {
            check.node = given_[check.node].placed;
            if (check.kind == CheckKind::same) check.number = given_[check.number].placed;
        }
        for (auto& groups : tree_.groups_)
            for (auto& group : groups.nodes)
                for (uint32_t& node : group) node = given_[node].placed;
        for (auto& parts : tree_.several_)
            for (uint32_t& node : parts) node = given_[node].placed;
        if (tree_.shapes_) tree_.shapes_->renumber([&](uint32_t node) { return given_[node].placed; });
        for (uint32_t& node : tree_.values_) node = given_[node].placed;
    }

    GuardTree& tree_;
    std::vector<Given> given_;
};

GuardTree::GuardTree(PyObject* nodes, PyObject* checks, PyObject* values) {
    TreeBuilder builder(*this);
    builder.read_nodes(nodes);
    builder.read_checks(checks);
    builder.read_values(values);
    builder.finish();
}

int GuardTree::visit(visitproc visitor, void* argument) const {
    for (const Ref& key : keys_)
        if (int stop = key.visit(visitor, argument)) return stop;
    for (const Check& check : checks_)
        if (int stop = check.expected.visit(visitor, argument)) return stop;
    for (const Check& check : between_)
        if (int stop = check.expected.visit(visitor, argument)) return stop;
    return state_ ? state_->visit(visitor, argument) : 0;
}

}  // namespace jit
