// Evaluates a guard tree. This is the hot path: one pass over the nodes, a switch, no allocation while guards hold.
#include "guards.h"

#include <algorithm>
#include <cstring>

namespace jit {
namespace {

constexpr uint64_t type_stamp = uint64_t(1) << 63;  // tags of types and of dicts are counted apart

// Tag of what can be looked up in this object, or 0 if it has none that can be trusted.
inline uint64_t contents_tag(PyObject* object, const Node& node) {
    if (PyDict_Check(object)) {
        if (jit_dict_changes_silently(object)) return 0;
        // An OrderedDict keeps its order in a list of its own: move_to_end changes no tag.
        if (node.order_matters && PyODict_Check(object)) return 0;
        return jit_dict_tag(object);
    }
    if (PyType_Check(object)) {
        uint32_t tag = jit_type_tag((PyTypeObject*)object);
        return tag ? type_stamp | tag : 0;
    }
    return 0;
}

// Same bits, or both NaN: a NaN equals no NaN, yet means the same constant; 0.0 == -0.0, yet differs.
bool same_double(double expected, double actual) {
    if (expected != expected) return actual != actual;
    return std::memcmp(&expected, &actual, sizeof(double)) == 0;
}

// Elements with their types beside them, so that {1} and {True} differ.
Ref typed_elements(PyObject* set) {
    Ref result = take(PyFrozenSet_New(nullptr));
    Ref iterator = take(PyObject_GetIter(set));
    while (result && iterator) {
        Ref element = take(PyIter_Next(iterator.get()));
        if (!element) return PyErr_Occurred() ? Ref() : result;
        Ref pair = take(PyTuple_Pack(2, Py_TYPE(element.get()), element.get()));
        if (!pair || PySet_Add(result.get(), pair.get()) < 0) return Ref();
    }
    return Ref();
}

bool rich_equal(PyObject* expected, PyObject* actual) {
    int equal = PyObject_RichCompareBool(expected, actual, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
}

PyObject* const none = Py_None;

// Whether defaults are the very ones, `None` standing for none, `...` for any.
bool are_defaults(PyObject* expected, PyObject* field) {
    return expected == (field ? field : none) || (expected == Py_Ellipsis && field);
}

// `__name__` of a class as every metaclass has it that defines none of its own.
PyObject* name_of_class() {
    static PyObject* const found = _PyType_Lookup(&PyType_Type, take(PyUnicode_InternFromString("__name__")).get());
    return found;
}

// An attribute that is a field of the object: reading it runs no Python code. Borrowed. NULL: the attribute is of another
// kind, or the field is empty.
PyObject* in_slot(PyObject* object, PyObject* name) {
    PyTypeObject* type = Py_TYPE(object);
    if (type->tp_getattro == PyType_Type.tp_getattro && PyType_HasFeature((PyTypeObject*)object, Py_TPFLAGS_HEAPTYPE))
        return _PyType_Lookup(type, name) == name_of_class() ? ((PyHeapTypeObject*)object)->ht_name : nullptr;
    if (type->tp_getattro != PyObject_GenericGetAttr && type != &PyMethod_Type) return nullptr;
    PyObject* found = _PyType_Lookup(type, name);
    if (!found || !Py_IS_TYPE(found, &PyMemberDescr_Type) || !PyObject_TypeCheck(object, PyDescr_TYPE(found))) return nullptr;
    const PyMemberDef* member = ((PyMemberDescrObject*)found)->d_member;
    if (member->flags & PY_AUDIT_READ || (member->type != T_OBJECT && member->type != T_OBJECT_EX)) return nullptr;
    PyObject* value = *(PyObject**)((char*)object + member->offset);
    return value || member->type == T_OBJECT_EX ? value : none;
}

}  // namespace

bool same_constant(PyObject* expected, PyObject* actual) {
    if (expected == actual) return true;
    PyTypeObject* type = Py_TYPE(expected);
    if (type != Py_TYPE(actual)) return false;
    if (type == &PyFloat_Type) return same_double(PyFloat_AS_DOUBLE(expected), PyFloat_AS_DOUBLE(actual));
    if (type == &PyComplex_Type) {
        Py_complex one = PyComplex_AsCComplex(expected), other = PyComplex_AsCComplex(actual);
        return same_double(one.real, other.real) && same_double(one.imag, other.imag);
    }
    if (PyTuple_Check(expected) && type->tp_richcompare == PyTuple_Type.tp_richcompare) {
        if (PyTuple_GET_SIZE(expected) != PyTuple_GET_SIZE(actual)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); ++i)
            if (!same_constant(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(actual, i))) return false;
        return true;
    }
    if (type == &PySlice_Type) {
        auto *one = (PySliceObject*)expected, *other = (PySliceObject*)actual;
        return same_constant(one->start, other->start) && same_constant(one->stop, other->stop) &&
               same_constant(one->step, other->step);
    }
    if (type == &PyFrozenSet_Type) {
        Ref one = typed_elements(expected), other = typed_elements(actual);
        if (!one || !other) {
            PyErr_Clear();
            return false;
        }
        return rich_equal(one.get(), other.get());
    }
    return rich_equal(expected, actual);
}

// One evaluation. With `owning`, reading may run Python code, so that every object read is held until the end;
// without, whatever might run Python code stops the walk, and it starts again as an owning one.
template <bool owning>
class GuardTree::Walk {
public:
    Walk(GuardTree& tree, const CallContext& call, PyObject** objects, uint8_t* unchanged, bool remembers)
        : tree_(tree), call_(call), objects_(objects), unchanged_(unchanged), remembers_(remembers),
          local_keys_(LocalKeys::now()) {
        if (owning) std::fill_n(objects_, tree_.nodes_.size(), nullptr);
    }
    Walk(const Walk&) = delete;
    ~Walk() {
        if (owning)
            for (size_t i = 0; i < tree_.nodes_.size(); ++i) Ref dropped = take(objects_[i]);
    }

    Outcome run(Failure* why) {
        why_ = why;
        if (tree_.state_ && !tree_.state_->holds()) {
            if (why_) tell(Failure::At::check, tree_.state_index_, tree_.state_->differences());
            return Outcome::fails;
        }
        uint32_t first = 0;
        if (!owning && !why_ && call_.slot_count >= tree_.needed_slots_) {
            first = tree_.slot_tensors_.size();
            if (!slots_match(tree_.slot_tensors_.data(), first, call_.slots, objects_, local_keys_)) return Outcome::fails;
        }
        Memo& constants = tree_.memos_.back();
        Outcome outcome = walk(first, constants.begin);
        if (outcome != Outcome::holds) return outcome;
        if (owning || !remembers_ || !constants.is_recorded || !still_holds(constants)) {
            if (runs_python_) return Outcome::runs_python;
            if (!owning && remembers_ && constants.begin < constants.end) {
                constants.forget();  // what it relies on is about to be overwritten
                memo_is_missing_ = true;
            }
            outcome = walk(constants.begin, constants.end);
            if (outcome != Outcome::holds) return outcome;
        }
        outcome = walk(constants.end, tree_.nodes_.size());
        if (outcome != Outcome::holds) return outcome;
        for (const Check& check : tree_.between_) {
            if (holds_between(check)) continue;
            if (why_) tell(Failure::At::check, check.given_index, share(observed_between(check)));
            return Outcome::fails;
        }
        if (tree_.shapes_ && !tree_.shapes_->hold(objects_)) {
            if (why_) tell(Failure::At::check, tree_.shapes_->failed_index(), tree_.shapes_->failed_numbers());
            return Outcome::fails;
        }
        // Tags were taken before the look-ups that they vouch for.
        for (const Pending& pending : pending_) tree_.nodes_[pending.node].stamp = pending.stamp;
        if (memo_is_missing_)
            for (Memo& memo : tree_.memos_)
                if (!memo.is_recorded && memo.begin < memo.end && memo.is_worth_recording()) record(memo);
        return Outcome::holds;
    }

private:
    // Reads and checks whole subtrees, from node `begin` up to `end`.
    Outcome walk(uint32_t begin, uint32_t end) {
        for (uint32_t i = begin; i < end;) {
            Node& node = tree_.nodes_[i];
            bool same = false;  // the very object of last time
            PyObject* object;
            if (node.has_parent && unchanged_[node.parent] && is_still_unchanged(node.parent) && reads_contents(node)) {
                if (node.needs_only_identity) {
                    // What is left below this parent is settled, too: such children come last.
                    i = std::min(tree_.nodes_[node.parent].end, end);
                    continue;
                }
                object = node.remembered;
                same = true;
                if (owning) Py_XINCREF(object);
            } else {
                object = read(node);
                node.remembered = remembers_ ? object : node.remembered;
            }
            if (runs_python_) return Outcome::runs_python;
            unchanged_[i] = 0;
            objects_[i] = object;
            if (!object) {
                if (node.only_absent) {
                    i = node.end;
                    continue;
                }
                if (why_) tell(Failure::At::node, tree_.given_indices_[i], share(node.has_parent ? objects_[node.parent] : none));
                return Outcome::fails;
            }
            uint32_t first = same ? node.contents_checks : node.checks;
            if (node.watched) {
                uint64_t tag = contents_tag(object, node);
                if (tag && tag == node.stamp && remembers_) {
                    unchanged_[i] = 1;
                    first = node.call_checks;
                } else if (same && PyTuple_CheckExact(object)) {
                    unchanged_[i] = 1;
                } else if (remembers_) {
                    node.stamp = 0;  // the remembered children are about to be overwritten
                    if (tag) pending_.push_back({i, tag});
                }
            }
            if (!checks_hold(first, node.checks_end, object)) return runs_python_ ? Outcome::runs_python : Outcome::fails;
            if (!owning && node.memo && remembers_) {
                Memo& memo = tree_.memos_[node.memo - 1];
                if (memo.is_recorded && memo.object == object && (unchanged_[i] || !node.watched) && still_holds(memo)) {
                    i = node.end;
                    continue;
                }
                if (runs_python_) return Outcome::runs_python;
                memo.forget();  // what it relies on is about to be overwritten
                memo_is_missing_ = true;
            }
            ++i;
        }
        return Outcome::holds;
    }

    bool checks_hold(uint32_t first, uint32_t end, PyObject* object) {
        for (uint32_t c = first; c < end; ++c) {
            const Check& check = tree_.checks_[c];
            if (holds(check, object)) continue;
            if (why_ && !runs_python_) tell(Failure::At::check, check.given_index, share(object));
            return false;
        }
        return true;
    }

    // The nodes below constants, or below a root that is the object of last time. Containers come parents first, so that
    // each is reached through what is known to be unchanged.
    bool still_holds(Memo& memo) {
        if (memo.contents && PyCell_GET(memo.object) != memo.contents) return false;
        for (Memo::Container& container : memo.containers) {
            if (container.owner) {
                if (Py_TYPE(container.owner) != container.type) return false;
                if (!container.dict) continue;
                if (jit_made_managed_dict(container.owner) != container.dict) return false;
            }
            if (jit_dict_tag(container.dict) != container.tag && !is_repaired(container.dict, container.node, container.tag))
                return false;
        }
        for (size_t i = 0; i < memo.leaves.size(); ++i) {
            Memo::Leaf& leaf = memo.leaves[i];
            if (i + 12 < memo.leaves.size()) __builtin_prefetch(memo.leaves[i + 12].dict);
            if (jit_dict_tag(leaf.dict) != leaf.tag && !is_repaired(leaf.dict, memo.leaf_nodes[i], leaf.tag)) return false;
        }
        for (const Memo::KnownType& known : memo.types)
            if (jit_type_tag(known.type) != known.tag) return false;
        if (!all_match(memo.tensors.data(), memo.tensors.size(), local_keys_)) return false;
        for (const Memo::Known& known : memo.checks)
            if (!holds(*known.check, known.object)) return false;
        for (uint32_t island : memo.islands)
            if (walk(island, tree_.nodes_[island].end) != Outcome::holds) return false;
        memo.losses = 0;
        return true;
    }

    // A dict with a new tag that still holds what it held, so far as these guards look at it (a counter beside the
    // parameters went up, say). Objects found may be others at the same address: what identity settled is checked again.
    bool is_repaired(PyObject* dict, uint32_t parent, uint64_t& remembered_tag) {
        const Node& node = tree_.nodes_[parent];
        const uint64_t tag = contents_tag(dict, node);
        if (!tag || !checks_hold(node.contents_checks, node.call_checks, dict)) return false;
        unchanged_[parent] = 0;
        for (uint32_t i = parent + 1; i < node.end; i = tree_.nodes_[i].end) {
            Node& child = tree_.nodes_[i];
            if (child.needs_only_identity) {
                if (walk(i, child.end) != Outcome::holds) return false;
                continue;
            }
            PyObject* object = read(child);
            if (object != objects_[i]) return false;
            if (object && (PyTuple_CheckExact(object) || !checks_hold(child.checks, child.call_checks, object))) return false;
        }
        remembered_tag = tag;
        return true;
    }

    // Writes down how to verify nodes that were just found to hold. A root that is no constant is verified by the walk.
    void record(Memo& memo) {
        const uint32_t end = memo.end;
        std::vector<uint8_t> contents_known(end - memo.begin);
        memo.containers.clear();
        memo.leaves.clear();
        memo.leaf_nodes.clear();
        memo.types.clear();
        memo.tensors.clear();
        memo.checks.clear();
        memo.islands.clear();
        memo.contents = nullptr;
        const bool is_constant = tree_.nodes_[memo.begin].step == Step::constant;
        contents_known[0] = tree_.nodes_[memo.begin].watched;
        for (uint32_t i = memo.begin + !is_constant; i < end;) {
            const Node& node = tree_.nodes_[i];
            if (node.has_parent && !is_known(memo, i, contents_known[node.parent - memo.begin])) {
                memo.islands.push_back(i);
                i = node.end;
                continue;
            }
            if (node.needs_only_identity || !objects_[i]) {
                i = node.end;
                continue;
            }
            contents_known[i - memo.begin] = record_contents(memo, i);
            const bool settled = contents_known[i - memo.begin] && node.watched;
            record_checks(memo, settled ? node.call_checks : node.contents_checks, node.checks_end, objects_[i]);
            ++i;
        }
        part_leaves(memo);
        memo.object = objects_[memo.begin];
        memo.is_recorded = true;
    }

    // Known dicts below which no other container was recorded: most of them, and cheaper to look at.
    void part_leaves(Memo& memo) {
        auto& containers = memo.containers;
        size_t kept = 0;
        for (size_t i = 0; i < containers.size(); ++i) {
            const Memo::Container container = containers[i];
            const bool is_last_inside = i + 1 == containers.size() || containers[i + 1].node >= tree_.nodes_[container.node].end;
            if (container.owner || !is_last_inside) {
                containers[kept++] = container;
            } else {
                memo.leaves.push_back({container.dict, container.tag});
                memo.leaf_nodes.push_back(container.node);
            }
        }
        containers.resize(kept);
    }

    // True if the object at this node is settled by what the memo verifies about its parent.
    bool is_known(Memo& memo, uint32_t i, bool parent_contents_known) {
        const Node& node = tree_.nodes_[i];
        if (reads_contents(node)) return parent_contents_known;
        PyObject* parent = objects_[node.parent];
        if (node.step == Step::cell && node.parent == memo.begin) {
            memo.contents = objects_[i];
            return true;
        }
        if (node.step == Step::type) {
            memo.containers.push_back({parent, Py_TYPE(parent), nullptr, 0, i});
            return true;
        }
        if (node.step != Step::dict || !objects_[i] || jit_made_managed_dict(parent) != objects_[i]) return false;
        jit_let_dict_tell(objects_[i]);
        const uint64_t tag = contents_tag(objects_[i], node);
        if (!tag) return false;
        if (!memo.containers.empty() && memo.containers.back().owner == parent && !memo.containers.back().dict)
            memo.containers.pop_back();  // the type alone, for the same object
        memo.containers.push_back({parent, Py_TYPE(parent), objects_[i], tag, i});
        return true;
    }

    // True if the memo verifies that what is in this object did not change.
    bool record_contents(Memo& memo, uint32_t i) {
        const Node& node = tree_.nodes_[i];
        PyObject* object = objects_[i];
        if (!node.watched || node.step == Step::dict) return true;
        if (PyTuple_CheckExact(object)) return true;
        const uint64_t tag = contents_tag(object, node);
        if (!tag) return false;
        if (PyDict_Check(object))
            memo.containers.push_back({nullptr, nullptr, object, tag, i});
        else
            memo.types.push_back({(PyTypeObject*)object, tag & ~type_stamp});
        return true;
    }

    void record_checks(Memo& memo, uint32_t first, uint32_t end, PyObject* object) {
        for (uint32_t c = first; c < end; ++c) {
            const Check& check = tree_.checks_[c];
            if (check.kind == CheckKind::tensor)
                memo.tensors.push_back({object, &tree_.tensors_[check.number]});
            else if (check.kind == CheckKind::type)
                memo.containers.push_back({object, Py_TYPE(object), nullptr, 0, check.node});
            else
                memo.checks.push_back({object, &check});
        }
    }

    static bool reads_contents(const Node& node) {
        return node.step == Step::item || node.step == Step::key || node.step == Step::value || node.step == Step::typeattr ||
               node.step == Step::index;
    }

    // Where Python code may have run since the parent was read, its tag is compared again before each use.
    bool is_still_unchanged(uint32_t parent) const {
        if (!owning) return true;
        PyObject* object = objects_[parent];
        return PyTuple_CheckExact(object) || contents_tag(object, tree_.nodes_[parent]) == tree_.nodes_[parent].stamp;
    }

    PyObject* give(PyObject* borrowed) const { return owning ? Py_XNewRef(borrowed) : borrowed; }

    // What only an owning walk may do, because Python code may run. Gives a new reference or NULL; errors are dropped.
    template <class Read>
    PyObject* with_python(Read read) {
        if (!owning) {
            runs_python_ = true;
            return nullptr;
        }
        PyObject* object = read();
        if (!object) PyErr_Clear();
        return object;
    }

    PyObject* read(const Node& node) {
        PyObject* parent = node.has_parent ? objects_[node.parent] : nullptr;
        switch (node.step) {
            case Step::arg:
                return node.index < (size_t)call_.slot_count ? give(call_.slots[node.index]) : nullptr;
            case Step::closure:
                if (!call_.closure || !PyTuple_Check(call_.closure) || node.index >= (size_t)PyTuple_GET_SIZE(call_.closure))
                    return nullptr;
                return give(PyTuple_GET_ITEM(call_.closure, node.index));
            case Step::constant:
                return give(node.key);
            case Step::globals:
                return give(call_.globals);
            case Step::function:
                return give(call_.function);
            case Step::several:
                return with_python([&]() -> PyObject* {
                    const auto& parts = tree_.several_[node.index];
                    PyObject* made = PyTuple_New(parts.size());
                    for (size_t i = 0; made && i < parts.size(); ++i) PyTuple_SET_ITEM(made, i, Py_NewRef(objects_[parts[i]]));
                    return made;
                });
            case Step::attr:
                if (PyObject* value = in_slot(parent, node.key)) return give(value);
                return with_python([&] { return PyObject_GetAttr(parent, node.key); });
            case Step::dict:
                return instance_dict(parent);
            case Step::item: {
                if (!PyDict_Check(parent)) return nullptr;
                // Hashing a tensor would run Python code. That two keys differ and have one hash does not happen to addresses.
                PyObject* item = node.by_identity ? _PyDict_GetItem_KnownHash(parent, node.key, (Py_hash_t)node.key)
                                                  : PyDict_GetItemWithError(parent, node.key);
                if (!item) PyErr_Clear();
                return give(item);
            }
            case Step::index:
                if (PyList_Check(parent)) return node.index < (size_t)PyList_GET_SIZE(parent) ? give(PyList_GET_ITEM(parent, node.index)) : nullptr;
                if (PyTuple_Check(parent)) return node.index < (size_t)PyTuple_GET_SIZE(parent) ? give(PyTuple_GET_ITEM(parent, node.index)) : nullptr;
                return nullptr;
            case Step::cell:
                return PyCell_Check(parent) ? give(PyCell_GET(parent)) : nullptr;
            case Step::type:
                return give((PyObject*)Py_TYPE(parent));
            case Step::typeattr:
                return PyType_Check(parent) ? give(_PyType_Lookup((PyTypeObject*)parent, node.key)) : nullptr;
            case Step::getitem:
                return with_python([&] { return PyObject_GetItem(parent, node.key); });
            case Step::key:
                return entry_at(parent, node.index, false);
            case Step::value:
                return entry_at(parent, node.index, true);
            case Step::referent:
                return PyWeakref_CheckRef(parent) ? give(jit_weak_target(parent)) : nullptr;
            case Step::grad:
                return give(gradient_of(parent));
            case Step::call:
                return with_python([&] { return PyObject_CallOneArg(node.key, parent); });
        }
        return nullptr;
    }

    PyObject* instance_dict(PyObject* object) const {
        if (PyObject* made = jit_made_managed_dict(object)) return give(made);
        PyObject** place = _PyObject_GetDictPtr(object);
        if (!place) return nullptr;
        if (!*place) {
            // An object that has none yet gets an empty one, as reading `__dict__` would give it.
            Ref made = take(PyObject_GenericGetDict(object, nullptr));
            if (!made) PyErr_Clear();
        }
        return give(*place);
    }

    // The keys of an OrderedDict, whatever iteration a subclass has.
    static Ref ordered_keys(PyObject* dict) {
        Ref keys = take(PyODict_Type.tp_iter(dict));
        return keys ? take(PySequence_Tuple(keys.get())) : Ref();
    }

    PyObject* entry_at(PyObject* dict, uint32_t index, bool wants_value) {
        if (PyODict_Check(dict))
            return with_python([&]() -> PyObject* {
                Ref keys = ordered_keys(dict);
                if (!keys || index >= (size_t)PyTuple_GET_SIZE(keys.get())) return nullptr;
                PyObject* key = PyTuple_GET_ITEM(keys.get(), index);
                return Py_XNewRef(wants_value ? PyDict_GetItemWithError(dict, key) : key);
            });
        if (!PyDict_Check(dict)) return nullptr;
        Py_ssize_t position = 0;
        PyObject *key, *value;
        for (uint32_t i = 0; PyDict_Next(dict, &position, &key, &value); ++i)
            if (i == index) return give(wants_value ? value : key);
        return nullptr;
    }

    bool equal(PyObject* expected, PyObject* actual) {
        if (expected == actual) return true;
        if (Py_TYPE(expected) != Py_TYPE(actual)) return false;
        if (!owning && !compares_without_python(expected)) {
            runs_python_ = true;
            return false;
        }
        return same_constant(expected, actual);
    }

    // Of the expected classes those that may go are held by weak references.
    static bool are_classes(PyObject* expected, PyObject* actual) {
        if (expected == actual) return true;
        Py_ssize_t count = PyTuple_GET_SIZE(expected);
        if (PyTuple_GET_SIZE(actual) != count) return false;
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* wanted = PyTuple_GET_ITEM(expected, i);
            if (PyWeakref_CheckRefExact(wanted)) wanted = jit_weak_target(wanted);
            if (wanted != PyTuple_GET_ITEM(actual, i)) return false;
        }
        return true;
    }

    bool holds(const Check& check, PyObject* object) {
        PyObject* expected = check.expected.get();
        switch (check.kind) {
            case CheckKind::type:
                return (PyObject*)Py_TYPE(object) == expected;
            case CheckKind::is:
                return object == expected;
            case CheckKind::is_weak:
                return object == jit_weak_target(expected);
            case CheckKind::eq:
                return equal(expected, object);
            case CheckKind::tensor:
                return tree_.tensors_[check.number].matches(object, local_keys_);
            case CheckKind::unhooked:
                return is_unhooked(object, expected == Py_True);
            case CheckKind::len:
                return length_is(object, check.number);
            case CheckKind::keys:
                return keys_are(object, expected);
            case CheckKind::absent:
                return PyDict_Check(object) && !contains(object, expected);
            case CheckKind::absent_weak: {  // what is gone is in no dict, which would have kept it
                PyObject* key = jit_weak_target(expected);
                return PyDict_Check(object) && !(key && contains(object, key));
            }
            case CheckKind::no_attr:
                return !attribute_exists(object, expected);
            case CheckKind::no_typeattr:
                return PyType_Check(object) && !_PyType_Lookup((PyTypeObject*)object, expected);
            case CheckKind::own:  // a pair: the name, and whether the class itself has it
                return PyType_Check(object) && PyType_HasFeature((PyTypeObject*)object, Py_TPFLAGS_HEAPTYPE) &&
                       contains(((PyTypeObject*)object)->tp_dict, PyTuple_GET_ITEM(expected, 0)) ==
                           (PyTuple_GET_ITEM(expected, 1) == Py_True);
            case CheckKind::inherits:
                return PyType_Check(object) && are_classes(expected, ((PyTypeObject*)object)->tp_mro);
            case CheckKind::makes:  // whether as `object` does: classes whose `__new__` was deleted do not
                return PyType_Check(object) &&
                       (((PyTypeObject*)object)->tp_new == PyBaseObject_Type.tp_new) == (expected == Py_True);
            case CheckKind::function: {
                if (!PyFunction_Check(object)) return false;
                auto* function = (PyFunctionObject*)object;
                PyObject** wanted = &PyTuple_GET_ITEM(expected, 0);
                return (wanted[0] == none || wanted[0] == object) && wanted[1] == function->func_code &&
                       are_defaults(wanted[2], function->func_defaults) && are_defaults(wanted[3], function->func_kwdefaults);
            }
            case CheckKind::predicate: {
                Ref answer = take(with_python([&] { return PyObject_CallOneArg(expected, object); }));
                int truth = answer ? PyObject_IsTrue(answer.get()) : 0;
                if (truth < 0) PyErr_Clear();
                return truth == 1;
            }
            default:
                return false;  // relations stand elsewhere
        }
    }

    // Of a user's container: how much it holds, whatever it says itself.
    bool length_is(PyObject* object, uint32_t length) {
        PyTypeObject* type = Py_TYPE(object);
        if (PyTuple_Check(object) || PyList_Check(object)) return (size_t)Py_SIZE(object) == length;
        if (PyDict_Check(object)) return (size_t)((PyDictObject*)object)->ma_used == length;
        if (PyUnicode_CheckExact(object)) return (size_t)PyUnicode_GET_LENGTH(object) == length;
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            if (!owning) return !(runs_python_ = true);
        }
        Py_ssize_t actual = PyObject_Size(object);
        if (actual < 0) PyErr_Clear();
        return actual == (Py_ssize_t)length;
    }

    bool keys_are(PyObject* dict, PyObject* keys) {
        if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
        // One key has no order that only the OrderedDict itself would know.
        if (PyODict_Check(dict) && PyDict_GET_SIZE(dict) > 1) {
            Ref actual = take(with_python([&] { return ordered_keys(dict).release(); }));
            return actual && same_constant(keys, actual.get());
        }
        Py_ssize_t position = 0, i = 0;
        PyObject *key, *value;
        // Comparing may run Python code, and that may change the dict: what is compared is held, and the count checked.
        for (; i < PyTuple_GET_SIZE(keys) && PyDict_Next(dict, &position, &key, &value); ++i) {
            Ref held = owning ? share(key) : Ref();
            if (!equal(PyTuple_GET_ITEM(keys, i), key)) return false;
        }
        return i == PyTuple_GET_SIZE(keys);
    }

    bool contains(PyObject* dict, PyObject* key) {
        if (!owning && !compares_without_python(key)) return runs_python_ = true;
        int found = PyDict_Contains(dict, key);
        if (found < 0) PyErr_Clear();
        return found != 0;
    }

    bool attribute_exists(PyObject* object, PyObject* name) {
        if (!owning) return runs_python_ = true;
        PyObject* value = nullptr;
        int found = jit_optional_attribute(object, name, &value);
        Ref dropped = take(value);
        if (found < 0) PyErr_Clear();
        return found != 0;
    }

    bool holds_between(const Check& check) {
        switch (check.kind) {
            case CheckKind::same:
                return objects_[check.node] == objects_[check.number];
            case CheckKind::distinct:
                return are_apart(tree_.groups_[check.number], [](PyObject* object) { return (const void*)object; });
            default:
                return lie_apart(tree_.groups_[check.number]);
        }
    }

    bool lie_apart(Groups& groups) {
        bool any_foreign = false;
        if (!are_apart(groups, [&](PyObject* object) { return storage_identity(object, any_foreign); })) return false;
        if (!any_foreign) return true;
        std::vector<Span> spans;
        for (const auto& group : groups.nodes)
            for (uint32_t node : group) spans.push_back(span_of(objects_[node]));
        return are_disjoint(spans);
    }

    PyObject* observed_between(const Check& check) const {
        if (check.kind == CheckKind::same) return objects_[check.node];
        const auto& groups = tree_.groups_[check.number].nodes;
        return groups.empty() || groups[0].empty() ? none : objects_[groups[0][0]];
    }

    // For "distinct" the one list holds nodes that must all differ; for "storage" members of a list agree and lists differ.
    template <class Identity>
    bool are_apart(Groups& groups, Identity identity) {
        auto& seen = groups.identities;
        size_t used = 0;
        for (const auto& group : groups.nodes) {
            const void* first = nullptr;
            for (uint32_t node : group) {
                const void* mine = identity(objects_[node]);
                if (!mine) return false;
                if (groups.members_agree && first) {
                    if (mine != first) return false;
                    continue;
                }
                seen[used++] = first = mine;
            }
        }
        return all_differ(seen.data(), used, groups.table);
    }

    static bool all_differ(const void* const* pointers, size_t count, std::vector<const void*>& table) {
        if (count <= 16) {
            bool any_equal = false;  // no branch within: they differ as a rule
            for (size_t i = 1; i < count; ++i)
                for (size_t j = 0; j < i; ++j) any_equal |= pointers[i] == pointers[j];
            return !any_equal;
        }
        std::fill(table.begin(), table.end(), nullptr);
        const size_t mask = table.size() - 1;
        for (size_t i = 0; i < count; ++i) {
            // Multiplying spreads addresses over the high bits (Knuth, TAOCP 6.4, "Fibonacci hashing").
            size_t place = (uintptr_t(pointers[i]) * 0x9E3779B97F4A7C15u >> 32) & mask;
            for (; table[place]; place = (place + 1) & mask)
                if (table[place] == pointers[i]) return false;
            table[place] = pointers[i];
        }
        return true;
    }

    GuardTree& tree_;
    const CallContext& call_;
    PyObject** objects_;
    uint8_t* unchanged_;
    const bool remembers_;
    bool runs_python_ = false;
    bool memo_is_missing_ = false;
    Failure* why_ = nullptr;
    const LocalKeys local_keys_;
    std::vector<Pending> pending_;

    void tell(Failure::At at, uint32_t given_index, Ref observed) {
        why_->at = at;
        why_->given_index = given_index;
        why_->observed = std::move(observed);
    }
};

// All are owned before a tuple is made: making it may start the garbage collector.
bool Values::fill(PyObject* const* objects, const std::vector<uint32_t>& wanted, bool as_tuple) {
    const size_t count = wanted.size();
    for (uint32_t node : wanted) Py_INCREF(objects[node]);
    if (count <= few && !as_tuple) {
        for (size_t i = 0; i < count; ++i) single_[i] = objects[wanted[i]];
        count_ = count;
        return true;
    }
    tuple_ = take(PyTuple_New(count));
    if (!tuple_) {
        PyErr_Clear();
        for (uint32_t node : wanted) Ref dropped = take(objects[node]);
        return false;
    }
    for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple_.get(), i, objects[wanted[i]]);
    count_ = count;
    return true;
}

bool GuardTree::check(const CallContext& call, Values& values, bool as_tuple, Failure* why) {
    // Only the outermost evaluation may use and write what is remembered: an inner one would pull it from under the outer.
    struct Running {
        int& count;
        explicit Running(int& c) : count(c) { ++count; }
        ~Running() { --count; }
    } running(running_);
    const bool outermost = running_ == 1;
    std::vector<PyObject*> own_objects(outermost ? 0 : nodes_.size());
    std::vector<uint8_t> own_unchanged(outermost ? 0 : nodes_.size());
    PyObject** objects = outermost ? objects_.data() : own_objects.data();
    uint8_t* unchanged = outermost ? unchanged_.data() : own_unchanged.data();

    auto evaluate = [&](auto&& walk) {
        Outcome outcome = walk.run(why);
        if (outcome == Outcome::holds && !values_.empty() && !values.fill(objects, values_, as_tuple)) return Outcome::fails;
        return outcome;
    };
    if (!owning_) {
        Outcome outcome = evaluate(Walk<false>(*this, call, objects, unchanged, outermost));
        if (outcome != Outcome::runs_python) return outcome == Outcome::holds;
        owning_ = true;
    }
    return evaluate(Walk<true>(*this, call, objects, unchanged, outermost)) == Outcome::holds;
}

}  // namespace jit
