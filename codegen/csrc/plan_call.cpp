// Steps that call: an ATen operation, through the dispatcher, or a Python function.
#include "draw.h"
#include "plan.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <optional>

namespace codegen {
namespace {

using c10::IValue;
using c10::TypeKind;
using c10::TypePtr;

TypePtr without_optional(const TypePtr& type) {
    return type->kind() == TypeKind::OptionalType ? type->castRaw<c10::OptionalType>()->getElementType() : type;
}

// Python's numbers among tensors: they count for less where dtypes are promoted.
IValue wrapped_number(const at::Scalar& scalar) {
    at::Tensor tensor = c10::scalar_to_tensor(scalar);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

std::optional<at::Scalar> as_scalar(PyObject* object) {
    if (PyBool_Check(object)) return at::Scalar(object == Py_True);
    if (PyLong_CheckExact(object)) {
        const int64_t value = PyLong_AsLongLong(object);
        if (value == -1 && PyErr_Occurred()) throw PythonError();
        return at::Scalar(value);
    }
    if (PyFloat_CheckExact(object)) return at::Scalar(PyFloat_AS_DOUBLE(object));
    if (PyComplex_CheckExact(object))
        return at::Scalar(c10::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
    return std::nullopt;
}

// One argument of an operation, of the type that its schema says.
class Argument {
public:
    // `type`: what the dispatcher takes; `real_type`: what Python's objects are read as.
    Argument(Reader& reader, PyObject* native, const TypePtr& type, const TypePtr& real_type, std::optional<int32_t> repeats)
        : operand_(reader.operand(native)), type_(without_optional(type)) {
        const TypeKind wanted = type_->kind();
        switch (operand_.kind) {
            case Kind::Constant: read_constant(real_type, repeats); return;
            case Kind::List: {
                if (wanted != TypeKind::ListType) break;
                element_ = type_->castRaw<c10::ListType>()->getElementType();
                const TypePtr real = without_optional(real_type)->castRaw<c10::ListType>()->getElementType();
                for (PyObject* each : items(operand_.value)) items_.emplace_back(reader, each, element_, real, std::nullopt);
                return;
            }
            case Kind::Tensor:
                if (wanted == TypeKind::TensorType) return;
                break;
            case Kind::Int:
            case Kind::Float:
            case Kind::Bool:
                if (takes(wanted, operand_.kind)) return;
                break;
            default: break;
        }
        raise(PyExc_TypeError, "an argument of type %s is none of %R", type->str().c_str(), native);
    }

    IValue in(const Frame& frame) const {
        switch (operand_.kind) {
            case Kind::Constant: return constant_;
            case Kind::Tensor: return frame.tensor(operand_.number);
            case Kind::List: {
                c10::impl::GenericList list(element_);
                list.reserve(items_.size());
                for (const Argument& each : items_) list.push_back(each.in(frame));
                return list;
            }
            default: return number(frame.numbers[operand_.number]);
        }
    }

private:
    static bool takes(TypeKind wanted, Kind kind) {
        switch (wanted) {
            case TypeKind::NumberType:
            case TypeKind::TensorType:
            case TypeKind::AnyType: return true;
            case TypeKind::FloatType: return kind != Kind::Bool;
            case TypeKind::IntType:
            case TypeKind::SymIntType: return kind == Kind::Int;
            case TypeKind::BoolType: return kind == Kind::Bool;
            default: return false;
        }
    }

    void read_constant(const TypePtr& real_type, std::optional<int32_t> repeats) {
        if (type_->kind() == TypeKind::TensorType) {
            if (const auto scalar = as_scalar(operand_.value)) {
                constant_ = wrapped_number(*scalar);
                return;
            }
        }
        constant_ = torch::jit::toIValue(operand_.value, real_type, repeats);
    }

    IValue number(Number number) const {
        const at::Scalar scalar = operand_.kind == Kind::Float  ? at::Scalar(number.f)
                                  : operand_.kind == Kind::Bool ? at::Scalar(number.i != 0)
                                                                : at::Scalar(number.i);
        switch (type_->kind()) {
            case TypeKind::TensorType: return wrapped_number(scalar);
            case TypeKind::FloatType: return scalar.toDouble();
            default: return scalar;
        }
    }

    Operand operand_;
    TypePtr type_;
    IValue constant_;
    TypePtr element_;  // of a list
    std::vector<Argument> items_;
};

[[noreturn]] void wrong_result(const char* what) {
    throw Failure{PyExc_TypeError, std::string("a step's result is no ") + what};
}

// Where a result goes: to a slot, its items to slots, or nowhere.
class Target {
public:
    Target(Reader& reader, PyObject* native) {
        if (native == Py_None) return;
        operand_ = reader.operand(native);
        if (operand_.kind == Kind::List) {
            for (PyObject* each : items(operand_.value)) items_.emplace_back(reader, each);
        } else if (operand_.kind != Kind::Tensor && !operand_.is_number()) {
            raise(PyExc_TypeError, "a result goes to a slot, not to %R", native);
        }
    }

    void keep(IValue value, Frame& frame) const {
        switch (operand_.kind) {
            case Kind::Constant: return;
            case Kind::Tensor:
                if (!value.isTensor()) {
                    if (!value.isNone()) wrong_result("tensor");
                    return frame.free(operand_.number);
                }
                return frame.set(operand_.number, std::move(value).toTensor());
            case Kind::List: {
                if (!value.isList() || value.toListRef().size() != items_.size()) wrong_result("list of as many tensors");
                const auto values = value.toListRef();
                for (size_t at = 0; at < items_.size(); ++at) items_[at].keep(values[at], frame);
                return;
            }
            default: keep_number(value, frame.numbers[operand_.number]);
        }
    }

    void keep(PyObject* value, Frame& frame) const {
        if (operand_.kind == Kind::Constant) return;
        if (!is_of(operand_.kind, value)) wrong_result(name_of(operand_.kind));
        if (operand_.kind == Kind::Tensor) frame.set(operand_.number, THPVariable_Unpack(value));
        else frame.numbers[operand_.number] = of_python(operand_.kind, value);
    }

private:
    void keep_number(const IValue& value, Number& number) const {
        if (operand_.kind == Kind::Float && value.isDouble()) number.f = value.toDouble();
        else if (operand_.kind == Kind::Int && value.isInt()) number.i = value.toInt();
        else if (operand_.kind == Kind::Int && value.isSymInt()) number.i = value.toSymInt().expect_int();
        else if (operand_.kind == Kind::Bool && value.isBool()) number.i = value.toBool();
        else wrong_result(name_of(operand_.kind));
    }

    Operand operand_{Kind::Constant, 0, nullptr};
    std::vector<Target> items_;
};

// Small work of torch's own is done before another thread could have got the GIL. Everything else may wait for one that needs it.
class Patience {
public:
    void see(const IValue& value) {
        if (value.isTensor()) see(value.unsafeToTensorImpl());
        else if (value.isTensorList() || value.isOptionalTensorList()) is_short_ = false;
    }
    bool is_short() const { return is_short_ && has_tensors_ && elements_ <= MOST; }

private:
    static constexpr int64_t MOST = 4096;

    void see(const c10::TensorImpl* tensor) {
        if (tensor == c10::UndefinedTensorImpl::singleton()) return;
        has_tensors_ = true;
        if (!tensor->is_cpu()) is_short_ = false;
        else elements_ += tensor->numel();
    }

    bool is_short_ = true;
    bool has_tensors_ = false;
    int64_t elements_ = 0;
};

int64_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? (int64_t)tensor.nbytes() : 0; }

int64_t bytes_of(const torch::jit::Stack& stack) {
    int64_t bytes = 0;
    for (const IValue& value : stack) {
        if (value.isTensor()) bytes += bytes_of(value.toTensor());
        else if (value.isTensorList())
            for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
    }
    return bytes;
}

struct Call : Step {
    Call(Reader& reader, PyObject* native)
        : operation(c10::Dispatcher::singleton().findSchemaOrThrow(text(item(native, 1)), text(item(native, 2)))) {
        const c10::FunctionSchema& schema = operation.schema();
        is_aten = schema.operator_name().getNamespace() == "aten";
        drawing = drawing_of(schema);
        for (const c10::Argument& result : schema.returns())
            is_view |= result.alias_info() && !result.alias_info()->isWrite();
        const std::vector<PyObject*> given = items(item(native, 3)), kept = items(item(native, 4));
        if (given.size() != schema.arguments().size())
            raise(PyExc_TypeError, "%s takes %zu arguments", schema.name().c_str(), schema.arguments().size());
        if (!kept.empty() && kept.size() != schema.returns().size())
            raise(PyExc_TypeError, "%s has %zu results", schema.name().c_str(), schema.returns().size());
        for (size_t at = 0; at < given.size(); ++at) {
            const c10::Argument& argument = schema.arguments()[at];
            if (given[at] != Py_None) {
                arguments.push_back({Argument(reader, given[at], argument.type(), argument.real_type(), argument.N()), {}});
            } else {
                if (!argument.default_value())
                    raise(PyExc_TypeError, "%s needs its argument %s", schema.name().c_str(), argument.name().c_str());
                arguments.push_back({std::nullopt, *argument.default_value()});
            }
        }
        for (PyObject* each : kept) results.emplace_back(reader, each);
    }

    void run(Frame& frame) const override {
        torch::jit::Stack& stack = frame.stack;
        Patience patience;
        for (const auto& [argument, otherwise] : arguments) {
            stack.push_back(argument ? argument->in(frame) : otherwise);
            patience.see(stack.back());
        }
        if (C10_UNLIKELY(frame.is_measured) && !is_view) frame.moved += bytes_of(stack);
        if (is_aten && patience.is_short()) {
            call(stack);
        } else {
            ReleaseGil released;
            call(stack);
        }
        if (C10_UNLIKELY(frame.is_measured) && !is_view) frame.moved += bytes_of(stack);
        for (size_t at = 0; at < results.size(); ++at) results[at].keep(std::move(stack[at]), frame);
        stack.clear();
    }

    void call(torch::jit::Stack& stack) const {
        if (!drawing || !drawing(stack)) operation.callBoxed(stack);
    }

    static const char* text(PyObject* object) {
        const char* found = PyUnicode_AsUTF8(object);
        if (!found) throw PythonError();
        return found;
    }

    c10::OperatorHandle operation;
    bool is_aten, is_view = false;
    Drawing drawing;
    std::vector<std::pair<std::optional<Argument>, IValue>> arguments;  // or the schema's default
    std::vector<Target> results;
};

// An argument of a Python function.
class Object {
public:
    Object(Reader& reader, PyObject* native) : operand_(reader.operand(native)) {
        if (operand_.kind == Kind::Constant) constant_ = share(operand_.value);
        if (operand_.kind == Kind::List)
            for (PyObject* each : items(operand_.value)) items_.emplace_back(reader, each);
        if (operand_.kind == Kind::Block || operand_.kind == Kind::Operator)
            raise(PyExc_TypeError, "no argument of a function: %R", native);
    }

    Ref in(const Frame& frame) const {
        switch (operand_.kind) {
            case Kind::Constant: return constant_;
            case Kind::Tensor: return checked(THPVariable_Wrap(frame.tensor(operand_.number)));
            case Kind::List: {
                Ref list = checked(PyList_New(items_.size()));
                for (size_t at = 0; at < items_.size(); ++at) PyList_SET_ITEM(list.get(), at, items_[at].in(frame).release());
                return list;
            }
            default: return as_python(operand_.kind, frame.numbers[operand_.number]);
        }
    }

    int visit(visitproc visitor, void* argument) const {
        if (int stop = constant_.visit(visitor, argument)) return stop;
        for (const Object& each : items_)
            if (int stop = each.visit(visitor, argument)) return stop;
        return 0;
    }

private:
    Operand operand_;
    Ref constant_;
    std::vector<Object> items_;
};

struct Python : Step {
    Python(Reader& reader, PyObject* native) : function(share(item(native, 1))) {
        for (PyObject* each : items(item(native, 2))) arguments.emplace_back(reader, each);
        for (PyObject* each : items(item(native, 3))) results.emplace_back(reader, each);
    }

    void run(Frame& frame) const override {
        c10::SmallVector<Ref, 8> owned;
        c10::SmallVector<PyObject*, 8> given;
        for (const Object& each : arguments) given.push_back(owned.emplace_back(each.in(frame)).get());
        const Ref found = checked(PyObject_Vectorcall(function.get(), given.data(), given.size(), nullptr));
        if (!PyTuple_Check(found.get()) || PyTuple_GET_SIZE(found.get()) != (Py_ssize_t)results.size())
            raise(PyExc_TypeError, "%R must give a tuple of %zu results, not %R", function.get(), results.size(), found.get());
        for (size_t at = 0; at < results.size(); ++at) results[at].keep(PyTuple_GET_ITEM(found.get(), at), frame);
    }

    int visit(visitproc visitor, void* argument) const override {
        if (int stop = function.visit(visitor, argument)) return stop;
        for (const Object& each : arguments)
            if (int stop = each.visit(visitor, argument)) return stop;
        return 0;
    }

    Ref function;
    std::vector<Object> arguments;
    std::vector<Target> results;
};

}  // namespace

std::unique_ptr<const Step> Reader::call(PyObject* native) { return std::make_unique<Call>(*this, native); }
std::unique_ptr<const Step> Reader::python(PyObject* native) { return std::make_unique<Python>(*this, native); }

}  // namespace codegen
