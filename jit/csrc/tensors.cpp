// Tensor properties, read straight from the TensorImpl: no Python object is made and no Python code runs.
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/version.h>

#include "expose.h"
#include "tensors.h"

#include <algorithm>

namespace jit {
namespace {

const c10::TensorImpl* impl_of(PyObject* tensor) {
    return THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

EXPOSE(Autograd, &c10::TensorImpl::autograd_meta_);

using torch::autograd::AutogradMeta;

const AutogradMeta* autograd_meta(const c10::TensorImpl* impl) {
    return static_cast<const AutogradMeta*>((impl->*exposed(Autograd{})).get());
}

// Without a call, except for views, whose answer depends on their base.
inline bool requires_grad(const AutogradMeta* meta) {
    if (!meta) return false;
    return meta->is_view_ ? meta->requires_grad() : meta->AutogradMeta::requires_grad();
}

// Whether nothing was computed to make a tensor that requires a gradient. A view gets its node only when it is asked
// for it, after its base was written.
inline bool is_leaf(PyObject* object, const AutogradMeta* meta) {
    if (!meta) return true;
    return meta->is_view_ ? !THPVariable_Unpack(object).grad_fn() : !meta->grad_fn_;
}

inline bool owns_tangent(const AutogradMeta* meta) { return meta && meta->fw_grad_ && !meta->fw_grad_->empty(); }

// Whether forward-mode differentiation follows the tensor. A view has the tangent of its base, too.
inline bool has_tangent(const AutogradMeta* meta) {
    if (!meta || !meta->is_view_) return owns_tangent(meta);
    const auto* view = static_cast<const torch::autograd::DifferentiableViewMeta*>(meta);
    return owns_tangent(meta) ||
           (view->has_fw_view() && owns_tangent(autograd_meta(view->get_forward_view().base_.unsafeGetTensorImpl())));
}

uint64_t effective_keys(const c10::TensorImpl* impl, const LocalKeys& local) {
    return (impl->key_set().raw_repr() | local.included) & ~local.excluded;
}

PyObject* property(PyObject* properties, const char* name) {
    PyObject* value = PyDict_GetItemString(properties, name);
    if (!value) raise(PyExc_KeyError, "tensor check without '%s'", name);
    return value;
}

// Appends a tuple of int or None (any). Returns the length.
size_t append_extents(std::vector<int64_t>& extents, PyObject* tuple, const char* what) {
    if (!PyTuple_Check(tuple)) raise(PyExc_TypeError, "%s must be a tuple or None, got %R", what, tuple);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* extent = PyTuple_GET_ITEM(tuple, i);
        if (extent == Py_None) {
            extents.push_back(TensorExpectation::any_size);
            continue;
        }
        int64_t value = PyLong_AsLongLong(extent);
        if (value == -1 && PyErr_Occurred()) throw PythonError();
        extents.push_back(value);
    }
    return PyTuple_GET_SIZE(tuple);
}

__attribute__((always_inline)) inline bool extents_match(const int64_t* expected, c10::IntArrayRef actual, bool is_exact) {
    bool differs = false;
    for (size_t i = 0; i < actual.size(); ++i) differs |= expected[i] != actual[i];
    if (!differs || is_exact) return !differs;
    for (size_t i = 0; i < actual.size(); ++i)
        if (expected[i] != actual[i] && expected[i] != TensorExpectation::any_size) return false;
    return true;
}

Ref tuple_of(c10::IntArrayRef extents) {
    Ref tuple = checked(PyTuple_New(extents.size()));
    for (size_t i = 0; i < extents.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), i, checked(PyLong_FromLongLong(extents[i])).release());
    return tuple;
}

// Sizes and strides of some tensors cannot be read as numbers (symbolic, nested, sparse): None then.
template <class Read>
Ref tuple_or_none(Read read) {
    try {
        return tuple_of(read());
    } catch (const c10::Error&) {
        return share(Py_None);
    }
}

}  // namespace

bool is_tensor(PyObject* object) {
    return THPVariable_CheckExact(object) || PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool hashes_by_identity(PyObject* object) {
    if (!is_tensor(object)) return false;
    Ref name = checked(PyUnicode_InternFromString("__hash__"));
    return _PyType_Lookup(Py_TYPE(object), name.get()) == _PyType_Lookup((PyTypeObject*)THPVariableClass, name.get()) &&
           PyObject_Hash(object) == (Py_hash_t)object;
}

TensorExpectation::TensorExpectation(PyObject* properties) {
    if (!PyDict_Check(properties)) raise(PyExc_TypeError, "a tensor check takes a dict, got %R", properties);
    PyObject* type = property(properties, "cls");
    PyObject* dtype = property(properties, "dtype");
    PyObject* device = property(properties, "device");
    PyObject* layout = property(properties, "layout");
    PyObject* sizes = property(properties, "sizes");
    PyObject* strides = property(properties, "strides");
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject*)type, (PyTypeObject*)THPVariableClass))
        raise(PyExc_TypeError, "cls must be a tensor type, got %R", type);
    if (!THPDtype_Check(dtype)) raise(PyExc_TypeError, "dtype must be a torch.dtype, got %R", dtype);
    if (!THPDevice_Check(device)) raise(PyExc_TypeError, "device must be a torch.device, got %R", device);
    if (!THPLayout_Check(layout)) raise(PyExc_TypeError, "layout must be a torch.layout, got %R", layout);
    int requires_grad = PyObject_IsTrue(property(properties, "requires_grad"));
    int is_leaf = PyObject_IsTrue(property(properties, "is_leaf"));
    if (requires_grad < 0 || is_leaf < 0) throw PythonError();

    type_ = reinterpret_cast<PyTypeObject*>(type);
    dtype_ = static_cast<uint16_t>(reinterpret_cast<THPDtype*>(dtype)->scalar_type);
    auto place = reinterpret_cast<THPDevice*>(device)->device;
    device_type_ = static_cast<int8_t>(place.type());
    device_index_ = place.index();
    layout_ = static_cast<int8_t>(reinterpret_cast<THPLayout*>(layout)->layout);
    // Every other layout shows in the key set, so equal key sets leave nothing to compare for a strided tensor.
    checks_layout_ = layout_ != static_cast<int8_t>(c10::kStrided);
    requires_grad_ = requires_grad;
    is_leaf_ = is_leaf;
    keys_ = PyLong_AsUnsignedLongLong(property(properties, "keys"));
    if (PyErr_Occurred()) throw PythonError();

    checks_sizes_ = sizes != Py_None;
    checks_strides_ = strides != Py_None;
    if (checks_strides_ && !checks_sizes_) raise(PyExc_ValueError, "a tensor check of strides needs the sizes too");
    std::vector<int64_t> extents;
    size_t dimensions = checks_sizes_ ? append_extents(extents, sizes, "sizes") : 0;
    if (checks_strides_ && append_extents(extents, strides, "strides") != dimensions)
        raise(PyExc_ValueError, "sizes %R and strides %R differ in length", sizes, strides);
    if (dimensions > 255) raise(PyExc_ValueError, "a tensor check of %zu dimensions", dimensions);
    dimensions_ = dimensions;
    is_exact_ = std::find(extents.begin(), extents.end(), any_size) == extents.end();
    if (dimensions <= inline_dimensions) std::copy(extents.begin(), extents.end(), few_);
    else many_ = std::move(extents);
}

inline bool TensorExpectation::matches_here(PyObject* object, const LocalKeys& local) const {
    if (Py_TYPE(object) != type_) return false;
    const c10::TensorImpl* impl = impl_of(object);
    if (effective_keys(impl, local) != keys_) return false;
    if (static_cast<uint16_t>(c10::typeMetaToScalarType(impl->dtype())) != dtype_) return false;
    try {  // a tensor that customises these properties may refuse to tell them
        c10::Device device = impl->device();
        if (static_cast<int8_t>(device.type()) != device_type_ || device.index() != device_index_) return false;
        const AutogradMeta* meta = autograd_meta(impl);
        if (requires_grad(meta) != requires_grad_ || has_tangent(meta)) return false;
        if (requires_grad_ && is_leaf(object, meta) != is_leaf_) return false;
        if (checks_layout_ && static_cast<int8_t>(impl->layout()) != layout_) return false;
        if (checks_sizes_) {
            auto sizes = impl->sizes();
            if (sizes.size() != dimensions_ || !extents_match(extents(), sizes, is_exact_)) return false;
        }
        if (checks_strides_ && !extents_match(extents() + dimensions_, impl->strides(), is_exact_)) return false;
        return true;
    } catch (const std::exception&) {
        PyErr_Clear();
        return false;
    }
}

bool TensorExpectation::matches(PyObject* object, const LocalKeys& local) const { return matches_here(object, local); }

// These loops are most of what guards cost: all that they call becomes part of them.
__attribute__((flatten)) bool slots_match(const SlotTensor* wanted, size_t count, PyObject* const* slots, PyObject** objects, const LocalKeys& local) {
    for (size_t i = 0; i < count; ++i) {
        PyObject* object = objects[i] = slots[wanted[i].slot];
        if (!object || !wanted[i].expected->matches_here(object, local)) return false;
    }
    return true;
}

__attribute__((flatten)) bool all_match(const KnownTensor* known, size_t count, const LocalKeys& local) {
    // Thousands of parameters lie all over memory: the lines that a check reads are fetched while earlier ones are checked.
    constexpr size_t far = 12, near = 5;
    for (size_t i = 0; i < count; ++i) {
        if (i + far < count) {
            __builtin_prefetch(known[i + far].object);
            __builtin_prefetch(known[i + far].expected);
        }
        if (i + near < count) {
            const auto* lines = reinterpret_cast<const char*>(impl_of(known[i + near].object));
            for (size_t line = 0; line < sizeof(c10::TensorImpl); line += 64) __builtin_prefetch(lines + line);
        }
        if (!known[i].expected->matches_here(known[i].object, local)) return false;
    }
    return true;
}

bool read_extents(const ExtentRead* reads, size_t count, PyObject* const* objects, int64_t* slots) {
    try {
        for (const ExtentRead* read = reads; read < reads + count; ++read) {
            if (read->kind == Extent::value) {
                int overflow = 0;
                if (!PyLong_CheckExact(objects[read->node])) return false;
                slots[read->slot] = PyLong_AsLongLongAndOverflow(objects[read->node], &overflow);
                if (overflow) return false;
                continue;
            }
            if (!is_tensor(objects[read->node])) return false;
            const c10::TensorImpl* impl = impl_of(objects[read->node]);
            if (read->kind == Extent::offset) {
                slots[read->slot] = impl->storage_offset();
                continue;
            }
            auto extents = read->kind == Extent::size ? impl->sizes() : impl->strides();
            if (read->dimension >= extents.size()) return false;
            slots[read->slot] = extents[read->dimension];
        }
        return true;
    } catch (const std::exception&) {
        PyErr_Clear();
        return false;
    }
}

const void* storage_identity(PyObject* object, bool& is_foreign) {
    if (!is_tensor(object)) return nullptr;
    const c10::TensorImpl* impl = impl_of(object);
    const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    if (!storage) return impl;
    is_foreign |= !storage->resizable();
    return storage;
}

Span span_of(PyObject* object) {
    const c10::TensorImpl* impl = impl_of(object);
    const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    if (!storage || !storage->data() || impl->numel() == 0) return {0, 0, storage};
    auto sizes = impl->sizes(), strides = impl->strides();
    int64_t last = 0;
    for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    const uintptr_t begin = uintptr_t(storage->data()) + impl->storage_offset() * impl->itemsize();
    return {begin, begin + (last + 1) * impl->itemsize(), storage};
}

// In the order in which they begin; what lies in one storage runs together.
bool are_disjoint(std::vector<Span>& spans) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    Span reached{0, 0, nullptr};
    for (const Span& span : spans) {
        if (span.begin == span.end) continue;
        if (span.begin < reached.end && span.storage != reached.storage) return false;
        if (span.storage != reached.storage) reached = span;
        reached.end = std::max(reached.end, span.end);
    }
    return true;
}

Ref tensor_info(PyObject* tensor) {
    if (!is_tensor(tensor)) raise(PyExc_TypeError, "expected a tensor, got %R", (PyObject*)Py_TYPE(tensor));
    const c10::TensorImpl* impl = impl_of(tensor);
    Ref sizes = tuple_or_none([&] { return impl->sizes(); });
    Ref strides = sizes.get() == Py_None ? share(Py_None) : tuple_or_none([&] { return impl->strides(); });
    Ref device = checked(THPDevice_New(impl->device()));
    auto* dtype = torch::getTHPDtype(c10::typeMetaToScalarType(impl->dtype()));
    auto* layout = torch::getTHPLayout(impl->layout());
    return checked(Py_BuildValue(
        "{s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:K}",
        "cls", Py_TYPE(tensor), "dtype", dtype, "device", device.get(), "layout", layout,
        "requires_grad", requires_grad(autograd_meta(impl)) ? Py_True : Py_False,
        "is_leaf", is_leaf(tensor, autograd_meta(impl)) ? Py_True : Py_False, "sizes", sizes.get(), "strides", strides.get(),
        "keys", (unsigned long long)effective_keys(impl, LocalKeys::now())));
}

const char* torch_version() { return TORCH_VERSION; }

}  // namespace jit
