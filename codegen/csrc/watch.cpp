#include "watch.h"

#include "driver.h"

#include <chrono>
#include <optional>

namespace codegen {

PyObject* watcher = nullptr;

std::string About::label(size_t place) const {
    if (object_.get() == Py_None) return {};
    if (!labels_) {
        labels_ = take(PyObject_CallNoArgs(object_.get()));
        if (labels_ && !PyTuple_Check(labels_.get())) PyErr_Format(PyExc_TypeError, "labels are a tuple, not %R", labels_.get());
        if (PyErr_Occurred()) {  // the program goes on without ranges
            PyErr_WriteUnraisable(object_.get());
            labels_ = checked(PyTuple_New(0));
        }
    }
    if (place >= (size_t)PyTuple_GET_SIZE(labels_.get())) return {};
    PyObject* label = PyTuple_GET_ITEM(labels_.get(), place);
    const char* text = PyUnicode_Check(label) ? PyUnicode_AsUTF8(label) : "";
    if (!text) throw PythonError();
    return text;
}

namespace {

// In the trace of whoever records one.
class Range {
public:
    Range(at::RecordScope scope, const About& about, size_t place) {
        auto callbacks = at::getStepCallbacksUnlessEmpty(scope);
        if (!callbacks) return;
        std::string label = about.label(place);
        if (!label.empty()) recorded_.emplace(std::move(*callbacks)).before(std::move(label));
    }

private:
    std::optional<at::RecordFunction> recorded_;
};

int64_t now() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// Spent in plans that a step of this thread's plan has run: not that step's own.
thread_local int64_t spent_inside = 0;

// Where the work is done: a device that tensors are on, or that a step launches to.
std::optional<c10::Device> device_of(const Steps& steps, const Frame& frame) {
    for (const TensorSlot& slot : frame.tensors)
        if (slot.tensor->defined() && slot.tensor->is_cuda()) return slot.tensor->device();
    for (const auto& step : steps)
        if (step->is_on_device()) return c10::Device(c10::kCPU);
    return {};
}

Ref tuple_of(const std::vector<int64_t>& values) {
    Ref tuple = checked(PyTuple_New(values.size()));
    for (size_t at = 0; at < values.size(); ++at) PyTuple_SET_ITEM(tuple.get(), at, checked(PyLong_FromLongLong(values[at])).release());
    return tuple;
}

// The times of each step.
class Watch {
public:
    Watch(const Steps& steps, const Frame& frame) : before_(std::exchange(spent_inside, 0)), start_(now()) {
        if (auto device = device_of(steps, frame)) on_device_.emplace(*device);
    }
    ~Watch() { spent_inside = before_ + now() - start_; }
    Watch(const Watch&) = delete;

    void start() {
        if (on_device_) on_device_->mark();
        spent_inside = 0;
        begin_ = now();
    }
    void stop() {
        times_.push_back(now() - begin_ - spent_inside);
        if (on_device_) on_device_->mark();
    }
    std::vector<int64_t> times() const {
        if (!on_device_) return times_;
        const std::vector<int64_t> between = on_device_->nanoseconds();
        std::vector<int64_t> found;
        for (size_t at = 0; at < between.size(); at += 2) found.push_back(between[at]);
        return found;
    }

private:
    int64_t before_, start_, begin_ = 0;
    std::vector<int64_t> times_;
    std::optional<DeviceClock> on_device_;
};

}  // namespace

void run_before_eyes(const About& about, const Steps& steps, Frame& frame, size_t& at) {
    const Range whole(at::RecordScope::USER_SCOPE, about, 0);
    const Ref told = watcher ? share(watcher) : Ref();
    std::optional<Watch> watch;
    if (told) watch.emplace(steps, frame);
    frame.is_measured = bool(told);
    std::vector<int64_t> bytes;
    for (; at < steps.size(); ++at) {
        const Range range(at::RecordScope::FUNCTION, about, at + 1);
        if (watch) watch->start();
        steps[at]->run(frame);
        if (watch) {
            watch->stop();
            bytes.push_back(std::exchange(frame.moved, 0));
        }
    }
    if (!watch) return;
    std::vector<int64_t> numbers;
    for (const Number& number : frame.numbers) numbers.push_back(number.i);
    const Ref times = tuple_of(watch->times()), moved = tuple_of(bytes), known = tuple_of(numbers);
    PyObject* arguments[] = {about.object(), times.get(), moved.get(), known.get()};
    checked(PyObject_Vectorcall(told.get(), arguments, 4, nullptr));
}

PyObject* watch(PyObject*, PyObject* function) {
    PyObject* before = std::exchange(watcher, function == Py_None ? nullptr : Py_NewRef(function));
    return before ? before : Py_NewRef(Py_None);
}

}  // namespace codegen
