// The Python type `Plan`: its arguments in, the steps, its results out.
#include "plan.h"
#include "watch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <frameobject.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstddef>
#include <limits>

namespace codegen {

PlanCounters plan_counters;

PyObject* item(PyObject* tuple, Py_ssize_t at) {
    if (!PyTuple_Check(tuple) || at >= PyTuple_GET_SIZE(tuple))
        raise(PyExc_TypeError, "a plan has no item %zd in %R", at, tuple);
    return PyTuple_GET_ITEM(tuple, at);
}

std::vector<PyObject*> items(PyObject* tuple) {
    if (!PyTuple_Check(tuple)) raise(PyExc_TypeError, "a plan needs a tuple, not %R", tuple);
    PyObject** first = &PyTuple_GET_ITEM(tuple, 0);
    return {first, first + PyTuple_GET_SIZE(tuple)};
}

namespace {

constexpr std::pair<const char*, Kind> KINDS[] = {
    {"tensor", Kind::Tensor}, {"int", Kind::Int},           {"float", Kind::Float}, {"bool", Kind::Bool},
    {"block", Kind::Block},   {"constant", Kind::Constant}, {"list", Kind::List},   {"operator", Kind::Operator},
};

// A slot's number, counted in `count`.
size_t slot(PyObject* number, size_t& count) {
    const size_t found = PyLong_AsSize_t(number);
    if (PyErr_Occurred()) throw PythonError();
    if (found > std::numeric_limits<uint32_t>::max()) raise(PyExc_ValueError, "a plan has no slot %R", number);
    count = std::max(count, found + 1);
    return found;
}

}  // namespace

size_t Reader::tensor(PyObject* number) { return slot(number, num_tensors); }
size_t Reader::number(PyObject* number) { return slot(number, num_numbers); }
size_t Reader::block(PyObject* number) { return slot(number, num_blocks); }

Operand Reader::operand(PyObject* native) {
    PyObject *kind = item(native, 0), *value = item(native, 1);
    for (auto [name, known] : KINDS) {
        if (!PyUnicode_Check(kind) || PyUnicode_CompareWithASCIIString(kind, name)) continue;
        switch (known) {
            case Kind::Tensor: return {known, tensor(value), value};
            case Kind::Block: return {known, block(value), value};
            case Kind::Constant:
            case Kind::List:
            case Kind::Operator: return {known, 0, value};
            default: return {known, number(value), value};
        }
    }
    raise(PyExc_TypeError, "a plan has no operand %R", native);
}

Count Reader::count(PyObject* native) {
    const Operand found = operand(native);
    if (found.kind == Kind::Int) return {0, (int64_t)found.number};
    if (found.kind != Kind::Constant || !PyLong_Check(found.value))
        raise(PyExc_TypeError, "a plan needs an int or a slot of one, not %R", native);
    const int64_t constant = PyLong_AsLongLong(found.value);
    if (constant == -1 && PyErr_Occurred()) throw PythonError();
    return {constant, -1};
}

const char* name_of(Kind kind) {
    for (auto [name, known] : KINDS)
        if (known == kind) return name;
    return "";
}

bool is_of(Kind kind, PyObject* object) {
    switch (kind) {
        case Kind::Tensor: return THPVariable_Check(object);
        case Kind::Int: return PyLong_Check(object);
        case Kind::Float: return PyFloat_Check(object);
        case Kind::Bool: return PyBool_Check(object);
        default: return false;
    }
}

Ref as_python(Kind kind, Number number) {
    if (kind == Kind::Float) return checked(PyFloat_FromDouble(number.f));
    return checked(kind == Kind::Bool ? PyBool_FromLong(number.i != 0) : PyLong_FromLongLong(number.i));
}

Number of_python(Kind kind, PyObject* object) {
    Number number;
    if (kind == Kind::Float) number.f = PyFloat_AsDouble(object);
    else if (number.i = PyLong_AsLongLong(object); number.i == -1 && PyErr_Occurred()) throw PythonError();
    return number;
}

namespace {

struct Parameter {
    Kind kind;  // Constant: not looked at
    size_t number;
    bool is_aligned = false;  // kernels read whole vectors of it
};

struct Result {
    Kind kind;
    size_t number;
    Ref constant;
};

// Immutable, and made of what existed before, as a `Backward` is: it needs no tp_clear.
struct PlanState {
    vectorcallfunc vectorcall;
    Ref source;  // the plan as Python has it
    Ref fallback;  // a callable that does the same with any tensors, or none
    About about;
    std::string name;
    std::vector<Parameter> parameters;
    Steps steps;
    std::vector<Result> results;
    bool takes_list;
    Reader slots;

    int visit(visitproc visitor, void* argument) const {
        if (int stop = visit_all(visitor, argument, source, fallback, about)) return stop;
        for (const Result& result : results)
            if (int stop = result.constant.visit(visitor, argument)) return stop;
        for (const auto& step : steps)
            if (int stop = step->visit(visitor, argument)) return stop;
        return 0;
    }
};
using Plan = Instance<PlanState>;

// --- who may run it ---------------------------------------------------------------------------------------------------
using c10::DispatchKey;

// That every thread adds to its operations, and what torch leaves behind of the meta device. Dispatch modes, function
// transforms and tracers add others.
constexpr c10::DispatchKeySet USUAL({DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView, DispatchKey::Dense});
// Of tensors that stand for others, or have no elements to read.
constexpr c10::DispatchKeySet STAND_INS({DispatchKey::Python, DispatchKey::PythonTLSSnapshot, DispatchKey::Functionalize,
                                         DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper, DispatchKey::Batched,
                                         DispatchKey::BatchedNestedTensor, DispatchKey::ZeroTensor, DispatchKey::Conjugate,
                                         DispatchKey::Negative});
constexpr uintptr_t ALIGNMENT = 16;  // bytes

// Whether somebody follows each operation of this thread.
bool is_followed() { return !(c10::impl::tls_local_dispatch_key_set().included_ - USUAL).empty(); }

bool is_aligned(const at::Tensor& tensor) { return (uintptr_t)tensor.const_data_ptr() % ALIGNMENT == 0; }

bool fits(const Parameter& parameter, const at::Tensor& tensor) {
    return !tensor.key_set().has_any(STAND_INS) && !tensor.is_meta() && (!parameter.is_aligned || is_aligned(tensor));
}

// --- a run ------------------------------------------------------------------------------------------------------------
// Answers whether the plan can run on these arguments.
bool bind(const PlanState& plan, PyObject* const* arguments, size_t count, Frame& frame) {
    const auto& parameters = plan.parameters;
    if (count != parameters.size())
        raise(PyExc_TypeError, "%s takes %zu arguments, got %zu", plan.name.c_str(), parameters.size(), count);
    bool all_fit = true;
    for (size_t at = 0; at < count; ++at) {
        const Parameter& parameter = parameters[at];
        if (parameter.kind == Kind::Constant) continue;
        PyObject* argument = arguments[at];
        if (!is_of(parameter.kind, argument))
            raise(PyExc_TypeError, "%s: argument %zu is a %s, no %s", plan.name.c_str(), at,
                  Py_TYPE(argument)->tp_name, name_of(parameter.kind));
        if (parameter.kind == Kind::Tensor) {
            const at::Tensor& tensor = THPVariable_Unpack(argument);
            all_fit &= fits(parameter, tensor);
            frame.tensors[parameter.number].tensor = c10::MaybeOwned<at::Tensor>::borrowed(tensor);
        } else {
            frame.numbers[parameter.number] = of_python(parameter.kind, argument);
        }
    }
    return all_fit;
}

// The same for the items of a list; the frame takes them out of it if the plan can run on them.
bool bind_list(const PlanState& plan, PyObject* list, Frame& frame) {
    if (!PyList_Check(list))
        raise(PyExc_TypeError, "%s takes one list, got a %s", plan.name.c_str(), Py_TYPE(list)->tp_name);
    PyObject** first = ((PyListObject*)list)->ob_item;
    const size_t count = PyList_GET_SIZE(list);
    if (!bind(plan, first, count, frame) && plan.fallback) return false;
    for (size_t at = 0; at < count; ++at)
        if (plan.parameters[at].kind == Kind::Tensor)
            frame.tensors[plan.parameters[at].number].argument = share(first[at]);
    if (PyList_SetSlice(list, 0, count, nullptr) < 0) throw PythonError();
    return true;
}

// Below autograd and autocast. What operations warn of becomes a warning of Python's. `at`: the step that it has come to.
void run_steps(const PlanState& plan, Frame& frame, size_t& at) {
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard as_cast(c10::autocast_dispatch_keyset);
    torch::PyWarningHandler warnings;
    try {
        if (is_looked_at()) run_before_eyes(plan.about, plan.steps, frame, at);
        else for (; at < plan.steps.size(); ++at) plan.steps[at]->run(frame);
    } catch (...) {
        warnings.set_in_exception();
        throw;
    }
}

PyObject* run_fallback(const PlanState& plan, PyObject* const* arguments, size_t count) {
    ++plan_counters.fallbacks;
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard as_cast(c10::autocast_dispatch_keyset);
    return PyObject_Vectorcall(plan.fallback.get(), arguments, count, nullptr);
}

Ref results_of(const PlanState& plan, const Frame& frame) {
    Ref tuple = checked(PyTuple_New(plan.results.size()));
    for (size_t at = 0; at < plan.results.size(); ++at) {
        const Result& result = plan.results[at];
        Ref object;
        if (result.kind == Kind::Tensor) object = checked(THPVariable_Wrap(frame.tensor(result.number)));
        else if (result.kind == Kind::Constant) object = result.constant;
        else object = as_python(result.kind, frame.numbers[result.number]);
        PyTuple_SET_ITEM(tuple.get(), at, object.release());
    }
    return tuple;
}

// Adds an entry to the traceback of the error that is set: a frame whose line is the step, and whose globals have `about`.
void add_entry(const PlanState& plan, size_t step) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    const Ref code = take((PyObject*)PyCode_NewEmpty("<plan>", plan.name.c_str(), (int)step));
    const Ref known = take(Py_BuildValue("{sO}", "about", plan.about.object()));
    Ref frame;
    if (code && known)
        frame = take((PyObject*)PyFrame_New(PyThreadState_Get(), (PyCodeObject*)code.get(), known.get(), nullptr));
    PyErr_Restore(type, value, trace);  // and no other
    if (frame) PyTraceBack_Here((PyFrameObject*)frame.get());
}

PyObject* call(PyObject* self, PyObject* const* arguments, size_t flagged_count, PyObject* names) {
    const PlanState& plan = *static_cast<Plan*>(self);
    constexpr size_t NONE = -1;
    size_t step = NONE;
    try {
        const size_t count = PyVectorcall_NARGS(flagged_count);
        if (names && PyTuple_GET_SIZE(names))
            raise(PyExc_TypeError, "%s takes no keyword arguments", plan.name.c_str());
        if (plan.takes_list && count != 1)
            raise(PyExc_TypeError, "%s takes one list, got %zu arguments", plan.name.c_str(), count);
        ++plan_counters.invocations;
        if (plan.fallback && is_followed()) return run_fallback(plan, arguments, count);
        Frame frame(plan.slots.num_tensors, plan.slots.num_numbers, plan.slots.num_blocks);
        const bool fits = plan.takes_list ? bind_list(plan, arguments[0], frame) : bind(plan, arguments, count, frame);
        if (!fits && plan.fallback) return run_fallback(plan, arguments, count);
        run_steps(plan, frame, step = 0);
        step = NONE;
        return results_of(plan, frame).release();
    } catch (const PythonError&) {
    } catch (const Failure& failure) {
        PyErr_SetString(failure.type, failure.text.c_str());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    // Eager code's backward has no entries for what it does.
    if (step != NONE && !plan.takes_list) add_entry(plan, step);
    return nullptr;
}

// --- the type ---------------------------------------------------------------------------------------------------------
PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"source", "name", "parameters", "steps", "results", "takes_list", "fallback", "aligned", "about", nullptr};
    const char* name;
    PyObject *source, *parameters, *steps, *results, *fallback, *aligned, *about = Py_None;
    int takes_list;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OsO!O!O!pOO!|O:Plan", (char**)names, &source, &name, &PyTuple_Type,
                                     &parameters, &PyTuple_Type, &steps, &PyTuple_Type, &results, &takes_list, &fallback,
                                     &PyTuple_Type, &aligned, &about))
        return nullptr;
    try {
        Ref other = fallback == Py_None ? Ref() : share(fallback);
        PlanState state{call, share(source), std::move(other), About(about), name, {}, {}, {}, takes_list != 0, {}};
        for (PyObject* native : items(parameters)) {
            if (native == Py_None) {
                state.parameters.push_back({Kind::Constant, 0});
                continue;
            }
            const Operand operand = state.slots.operand(native);
            if (operand.kind != Kind::Tensor && !operand.is_number())
                raise(PyExc_TypeError, "%s: a parameter is a tensor or a number, not %R", name, native);
            state.parameters.push_back({operand.kind, operand.number});
        }
        for (PyObject* position : items(aligned)) {
            const size_t at = PyLong_AsSize_t(position);
            if (PyErr_Occurred()) throw PythonError();
            if (at >= state.parameters.size() || state.parameters[at].kind != Kind::Tensor || !state.fallback)
                raise(PyExc_ValueError, "%s: an aligned parameter is a tensor of a plan with a fallback", name);
            state.parameters[at].is_aligned = true;
        }
        for (PyObject* native : items(steps)) state.steps.push_back(state.slots.step(native));
        for (PyObject* native : items(results)) {
            const Operand operand = state.slots.operand(native);
            if (operand.kind != Kind::Tensor && operand.kind != Kind::Constant && !operand.is_number())
                raise(PyExc_TypeError, "%s: a result is a tensor, a number or a constant, not %R", name, native);
            state.results.push_back(
                {operand.kind, operand.number, operand.kind == Kind::Constant ? share(operand.value) : Ref()});
        }
        ++plan_counters.plans;
        return Plan::make(type, std::move(state)).release();
    } catch (const PythonError&) {
    } catch (const Failure& failure) {
        PyErr_SetString(failure.type, failure.text.c_str());
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
}

const PlanState& as_plan(PyObject* self) { return *static_cast<Plan*>(self); }

PyObject* plan_repr(PyObject* self) { return PyObject_Str(as_plan(self).source.get()); }
PyObject* plan_name(PyObject* self, void*) { return PyUnicode_FromString(as_plan(self).name.c_str()); }
PyObject* plan_source(PyObject* self, void*) { return Py_NewRef(as_plan(self).source.get()); }

PyGetSetDef attributes[] = {
    {"__name__", plan_name, nullptr, "the plan's", nullptr},
    {"source", plan_source, nullptr, "the plan that it was made of", nullptr},
    {}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Plan, vectorcall), READONLY, nullptr},
    {}};

PyType_Slot slots[] = {
    {Py_tp_doc, (void*)"A plan made native: called with its arguments, or with one list of them, it gives a tuple."},
    {Py_tp_new, (void*)plan_new},
    {Py_tp_dealloc, (void*)Plan::dealloc},
    {Py_tp_traverse, (void*)Plan::traverse},
    {Py_tp_repr, (void*)plan_repr},
    {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {}};
PyType_Spec spec = {"codegen._C.Plan", sizeof(Plan), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

void add_plan(PyObject* module) {
    Ref type = checked(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (PyModule_AddType(module, (PyTypeObject*)type.get()) < 0) throw PythonError();
}

}  // namespace codegen
