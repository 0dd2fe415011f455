// Steps on numbers and memory, and the launch of kernels.
#include "plan.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/utils/python_strings.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>

namespace codegen {
namespace {

// --- numbers ----------------------------------------------------------------------------------------------------------
struct Size : Step {
    Size(Reader& reader, PyObject* native)
        : number(reader.number(item(native, 1))), tensor(reader.tensor(item(native, 2))), dim(PyLong_AsLong(item(native, 3))) {
        if (PyErr_Occurred()) throw PythonError();
    }

    void run(Frame& frame) const override { frame.numbers[number].i = frame.tensor(tensor).size(dim); }

    size_t number, tensor;
    int64_t dim;
};

[[noreturn]] void overflow() { throw Failure{PyExc_OverflowError, "a number of a plan needs more than 64 bits"}; }

template <bool (*operation)(int64_t, int64_t, int64_t*)>
int64_t exactly(int64_t a, int64_t b) {
    int64_t result;
    if (operation(a, b, &result)) overflow();
    return result;
}
bool add(int64_t a, int64_t b, int64_t* result) { return __builtin_add_overflow(a, b, result); }
bool subtract(int64_t a, int64_t b, int64_t* result) { return __builtin_sub_overflow(a, b, result); }
bool multiply(int64_t a, int64_t b, int64_t* result) { return __builtin_mul_overflow(a, b, result); }

// As Python has them: towards minus infinity.
int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) throw Failure{PyExc_ZeroDivisionError, "integer division or modulo by zero"};
    if (b == -1) return exactly<subtract>(0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t remainder(int64_t a, int64_t b) {
    if (b == 0) throw Failure{PyExc_ZeroDivisionError, "integer modulo by zero"};
    if (b == -1) return 0;
    return a - b * floor_divide(a, b);
}
int64_t minimum(int64_t a, int64_t b) { return std::min(a, b); }
int64_t maximum(int64_t a, int64_t b) { return std::max(a, b); }

using Operator = int64_t (*)(int64_t, int64_t);
// In the order of steps.OPERATORS.
constexpr Operator OPERATORS[] = {exactly<add>, exactly<subtract>, exactly<multiply>, floor_divide, remainder, minimum, maximum};

struct Token {
    Operator operation;  // or null: an operand
    Count count;
};

struct Compute : Step {
    Compute(Reader& reader, PyObject* native) : number(reader.number(item(native, 1))) {
        int64_t depth = 0;
        for (PyObject* token : items(item(native, 2))) {
            const Operand operand = reader.operand(token);
            if (operand.kind == Kind::Operator) {
                const size_t which = PyLong_AsSize_t(operand.value);
                if (PyErr_Occurred()) throw PythonError();
                if (which >= std::size(OPERATORS) || depth < 2) raise(PyExc_ValueError, "no program: %R", native);
                program.push_back({OPERATORS[which], {}});
                --depth;
            } else {
                program.push_back({nullptr, reader.count(token)});
                deepest = std::max(deepest, ++depth);
            }
        }
        if (depth != 1) raise(PyExc_ValueError, "a program ends with one number, this one with %lld: %R", (long long)depth, native);
    }

    void run(Frame& frame) const override {
        c10::SmallVector<int64_t, 16> stack(deepest);
        size_t top = 0;
        for (const Token& token : program) {
            if (token.operation) {
                --top;
                stack[top - 1] = token.operation(stack[top - 1], stack[top]);
            } else {
                stack[top++] = token.count.in(frame);
            }
        }
        frame.numbers[number].i = stack[0];
    }

    size_t number;
    std::vector<Token> program;
    int64_t deepest = 0;
};

using Values = c10::SmallVector<int64_t, 8>;

// Sizes or strides. Where they are always the same, they lie ready.
class Counts {
public:
    Counts(Reader& reader, PyObject* natives) {
        for (PyObject* native : items(natives)) {
            const Count count = reader.count(native);
            if (count.slot >= 0) known_late_.emplace_back(constants_.size(), count.slot);
            constants_.push_back(count.constant);
        }
    }

    c10::IntArrayRef in(const Frame& frame, Values& space) const {
        if (known_late_.empty()) return constants_;
        space.assign(constants_.begin(), constants_.end());
        for (auto [at, slot] : known_late_) space[at] = frame.numbers[slot].i;
        return space;
    }

    size_t size() const { return constants_.size(); }

private:
    std::vector<int64_t> constants_;
    std::vector<std::pair<size_t, size_t>> known_late_;
};

// --- memory -----------------------------------------------------------------------------------------------------------
at::Device device_of(PyObject* object) {
    if (!THPDevice_Check(object)) raise(PyExc_TypeError, "a plan needs a device, not %R", object);
    return ((THPDevice*)object)->device;
}

struct Reserve : Step {
    Reserve(Reader& reader, PyObject* native) : device(device_of(item(native, 2))) {
        for (PyObject* block : items(item(native, 1)))
            blocks.emplace_back(reader.block(item(block, 0)), reader.count(item(block, 1)));
    }

    void run(Frame& frame) const override {
        c10::SmallVector<int64_t, 16> starts;
        int64_t total = 0;
        for (auto [slot, count] : blocks) {
            int64_t size = count.in(frame);
            if (size < 0) throw Failure{PyExc_RuntimeError, "a block of " + std::to_string(size) + " bytes"};
            starts.push_back(total);
            if (__builtin_add_overflow(size, 63, &size) || __builtin_add_overflow(total, size & ~int64_t(63), &total)) overflow();
        }
        char* data = device.is_cpu() ? frame.leases.emplace_back(total).data() : on_device(total, frame);
        for (size_t at = 0; at < blocks.size(); ++at) frame.blocks[blocks[at].first] = data + starts[at];
    }

    // What its allocator gives out again later is ordered by the stream, as the launches are.
    char* on_device(int64_t bytes, Frame& frame) const {
        const auto options = at::TensorOptions().dtype(at::kByte).device(device);
        return (char*)frame.reserved.emplace_back(at::empty_strided({bytes}, {1}, options)).mutable_data_ptr();
    }

    std::vector<std::pair<size_t, Count>> blocks;
    at::Device device;
};

at::ScalarType dtype_of(PyObject* object) {
    if (!THPDtype_Check(object)) raise(PyExc_TypeError, "a plan needs a dtype, not %R", object);
    return ((THPDtype*)object)->scalar_type;
}

struct Allocate : Step {
    Allocate(Reader& reader, PyObject* native)
        : tensor(reader.tensor(item(native, 1))), sizes(reader, item(native, 2)), strides(reader, item(native, 3)),
          dtype(dtype_of(item(native, 4))), device(device_of(item(native, 5))) {
        if (sizes.size() != strides.size()) raise(PyExc_ValueError, "as many strides as sizes: %R", native);
    }

    void run(Frame& frame) const override {
        Values size_space, stride_space;
        const c10::IntArrayRef size = sizes.in(frame, size_space), stride = strides.in(frame, stride_space);
        if (device.is_cpu()) frame.set(tensor, at::Tensor(at::detail::empty_strided_cpu(size, stride, dtype)));
        else frame.set(tensor, at::empty_strided(size, stride, at::TensorOptions().dtype(dtype).device(device)));
    }

    size_t tensor;
    Counts sizes, strides;
    at::ScalarType dtype;
    at::Device device;
};

struct Constant : Step {
    Constant(Reader& reader, PyObject* native) : slot(reader.tensor(item(native, 1))), value(share(item(native, 2))) {
        if (!THPVariable_Check(value.get())) raise(PyExc_TypeError, "a plan needs a tensor, not %R", value.get());
    }

    void run(Frame& frame) const override { frame.borrow(slot, THPVariable_Unpack(value.get())); }
    int visit(visitproc visitor, void* argument) const override { return value.visit(visitor, argument); }

    size_t slot;
    Ref value;
};

struct Expect : Step {
    Expect(Reader& reader, PyObject* native)
        : tensor(reader.tensor(item(native, 1))), dtype(dtype_of(item(native, 2))), sizes(reader, item(native, 3)),
          by(THPUtils_unpackString(item(native, 4))) {}

    void run(Frame& frame) const override {
        Values space;
        const c10::IntArrayRef expected = sizes.in(frame, space);
        const at::Tensor& found = frame.tensor(tensor);
        if (found.scalar_type() != dtype || found.sizes() != expected)
            throw Failure{PyExc_TypeError, by + " gave " + described(found.scalar_type(), found.sizes()) +
                                               ", its fake (what register_fake was given) says " + described(dtype, expected)};
    }

    static std::string described(at::ScalarType dtype, c10::IntArrayRef sizes) {
        return std::string("torch.") + torch::getTHPDtype(dtype)->name + " of " + c10::str(sizes);
    }

    size_t tensor;
    at::ScalarType dtype;
    Counts sizes;
    std::string by;
};

struct View : Step {
    View(Reader& reader, PyObject* native)
        : tensor(reader.tensor(item(native, 1))), base(reader.operand(item(native, 2))), sizes(reader, item(native, 3)),
          strides(reader, item(native, 4)), offset(reader.count(item(native, 5))), device(device_of(item(native, 7))) {
        if (PyObject* object = item(native, 6); object != Py_None) dtype = dtype_of(object);
        if (base.kind != Kind::Tensor && (base.kind != Kind::Block || !dtype))
            raise(PyExc_TypeError, "a view is of a tensor, or of a block with a dtype, not %R", native);
        if (sizes.size() != strides.size()) raise(PyExc_ValueError, "as many strides as sizes: %R", native);
    }

    void run(Frame& frame) const override {
        Values size_space, stride_space;
        const c10::IntArrayRef size = sizes.in(frame, size_space), stride = strides.in(frame, stride_space);
        const int64_t first = offset.in(frame);
        frame.set(tensor, base.kind == Kind::Block ? of_block(frame.blocks[base.number], size, stride, first)
                                                   : of_tensor(frame.tensor(base.number), size, stride, first));
    }

    at::Tensor of_block(char* block, c10::IntArrayRef size, c10::IntArrayRef stride, int64_t first) const {
        return at::for_blob(block + first * (int64_t)c10::elementSize(*dtype), size)
            .strides(stride)
            .options(at::TensorOptions().dtype(*dtype).device(device))
            .target_device(device)
            .make_tensor();
    }

    // What as_strided does, without the dispatcher.
    at::Tensor of_tensor(const at::Tensor& from, c10::IntArrayRef size, c10::IntArrayRef stride, int64_t first) const {
        const caffe2::TypeMeta type = dtype ? c10::scalarTypeToTypeMeta(*dtype) : from.dtype();
        int64_t start = from.storage_offset();
        if (type != from.dtype()) {
            const int64_t bytes = start * from.dtype().itemsize(), width = type.itemsize();
            if (bytes % width) throw Failure{PyExc_RuntimeError, "a view begins within an element of its dtype"};
            start = bytes / width;
        }
        at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(from.storage()),
                                                                   from.key_set(), type);
        view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, start + first);
        return view;
    }

    size_t tensor;
    Operand base;
    Counts sizes, strides;
    Count offset;
    std::optional<at::ScalarType> dtype;
    at::Device device;  // of a block
};

struct Free : Step {
    Free(Reader& reader, PyObject* native) : tensor(reader.tensor(item(native, 1))) {}
    void run(Frame& frame) const override { frame.free(tensor); }
    size_t tensor;
};

// --- kernels ----------------------------------------------------------------------------------------------------------
using Function = int (*)(void* const* buffers, const int64_t* sizes, const Number* scalars, int64_t begin, int64_t end);

struct Scalar {
    Kind kind;
    size_t slot;
    Number constant;
    bool is_floating;  // as the kernel takes it

    Number in(const Frame& frame) const {
        if (kind == Kind::Constant) return constant;
        Number number = frame.numbers[slot];
        if (is_floating && kind != Kind::Float) number.f = (double)number.i;
        return number;
    }
};

struct Launch {
    Launch(Reader& reader, PyObject* native)
        : function((Function)PyLong_AsVoidPtr(item(native, 0))), total(reader.count(item(native, 2))),
          sizes(reader, item(native, 3)), grain(PyLong_AsLongLong(item(native, 5))) {
        if (PyErr_Occurred()) throw PythonError();
        if (!function || grain < 1) raise(PyExc_ValueError, "a launch needs a function and a grain: %R", native);
        for (PyObject* buffer : items(item(native, 1))) {
            const Operand operand = reader.operand(buffer);
            if (operand.kind != Kind::Tensor && operand.kind != Kind::Block)
                raise(PyExc_TypeError, "a buffer is a tensor or a block, not %R", buffer);
            buffers.push_back(operand);
        }
        for (PyObject* scalar : items(item(native, 4))) scalars.push_back(read(reader, scalar));
    }

    static Scalar read(Reader& reader, PyObject* native) {
        const bool is_floating = item(native, 0) == Py_True;
        const Operand operand = reader.operand(item(native, 1));
        Scalar scalar{operand.kind, operand.number, {0}, is_floating};
        const bool is_double = operand.kind == Kind::Float || (operand.kind == Kind::Constant && !PyLong_Check(operand.value));
        if ((operand.kind != Kind::Constant && !operand.is_number()) || (is_double && !is_floating))
            raise(PyExc_TypeError, "no scalar of a kernel: %R", native);
        if (operand.kind == Kind::Constant)
            scalar.constant = of_python(is_floating ? Kind::Float : Kind::Int, operand.value);
        if (PyErr_Occurred()) throw PythonError();
        return scalar;
    }

    Function function;
    std::vector<Operand> buffers;
    Count total;
    Counts sizes;
    std::vector<Scalar> scalars;
    int64_t grain;
};

// A launch with what one run gives it.
struct Prepared {
    Prepared(const Launch& launch, const Frame& frame)
        : function(launch.function), total(launch.total.in(frame)), grain(launch.grain), sizes(launch.sizes.in(frame, space)) {
        if (total <= 0) return;
        for (const Operand& buffer : launch.buffers)
            buffers.push_back(buffer.kind == Kind::Block ? frame.blocks[buffer.number]
                                                         : frame.tensor(buffer.number).mutable_data_ptr());
        for (const Scalar& scalar : launch.scalars) scalars.push_back(scalar.in(frame));
    }
    Prepared(const Prepared&) = delete;

    int run(int64_t begin, int64_t end) const { return function(buffers.data(), sizes.data(), scalars.data(), begin, end); }

    Function function;
    int64_t total, grain;
    Values space;
    c10::IntArrayRef sizes;
    c10::SmallVector<void*, 8> buffers;
    c10::SmallVector<Number, 4> scalars;
};

// What `c.py` says that a kernel answers with.
void check(int answer) {
    if (answer & 1) throw Failure{PyExc_IndexError, "index out of range in self"};
    if (answer) throw Failure{PyExc_RuntimeError, "ZeroDivisionError"};
}

// Threads do not write to one cache line where positions are single elements.
constexpr int64_t LINE = 64;

// Small work is not worth the threads, nor to let others have the GIL: that takes until they give it back.
struct LaunchOne : Step {
    LaunchOne(Reader& reader, PyObject* native) : launch(reader, native) {}

    void run(Frame& frame) const override {
        const Prepared prepared(launch, frame);
        if (prepared.total <= 0) return;
        if (prepared.total <= prepared.grain) return check(prepared.run(0, prepared.total));
        check(in_parallel(prepared));
    }

    static int in_parallel(const Prepared& prepared) {
        ReleaseGil released;
        std::atomic<int> answer{0};
        const int64_t unit = prepared.grain >= LINE ? LINE : 1;
        const int64_t units = (prepared.total + unit - 1) / unit, grain = (prepared.grain + unit - 1) / unit;
        at::parallel_for(0, units, grain, [&](int64_t begin, int64_t end) {
            answer |= prepared.run(begin * unit, std::min(end * unit, prepared.total));
        });
        return answer;
    }

    Launch launch;
};

struct LaunchMany : Step {
    LaunchMany(Reader& reader, PyObject* natives) {
        for (PyObject* native : items(natives)) launches.emplace_back(reader, native);
    }

    void run(Frame& frame) const override {
        std::vector<std::optional<Prepared>> all(launches.size());  // in place: they do not move
        std::vector<int64_t> ends;  // of each, counted in pieces
        double grains = 0;
        int64_t pieces = 0;
        for (size_t at = 0; at < launches.size(); ++at) {
            const Prepared& prepared = all[at].emplace(launches[at], frame);
            grains += (double)prepared.total / (double)prepared.grain;
            pieces += prepared.total <= 0 ? 0 : (prepared.total + prepared.grain - 1) / prepared.grain;
            ends.push_back(pieces);
        }
        std::atomic<int> answer{0};
        auto some = [&](int64_t begin, int64_t end) {
            size_t which = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
            for (; begin < end; ++which) {
                const Prepared& prepared = *all[which];
                const int64_t start = which ? ends[which - 1] : 0, stop = std::min(end, ends[which]);
                if (stop <= begin) continue;
                const int64_t last = std::min((stop - start) * prepared.grain, prepared.total);
                answer |= prepared.run((begin - start) * prepared.grain, last);
                begin = stop;
            }
        };
        if (grains <= 1) {
            some(0, pieces);
        } else {
            ReleaseGil released;
            at::parallel_for(0, pieces, std::max<int64_t>(1, (int64_t)((double)pieces / grains)), some);
        }
        check(answer);
    }

    std::vector<Launch> launches;
};

std::unique_ptr<const Step> launch(Reader& reader, PyObject* native) {
    PyObject* natives = item(native, 1);
    if (items(natives).size() == 1) return std::make_unique<LaunchOne>(reader, item(natives, 0));
    return std::make_unique<LaunchMany>(reader, natives);
}

template <class Made>
std::unique_ptr<const Step> make(Reader& reader, PyObject* native) {
    return std::make_unique<Made>(reader, native);
}

using Factory = std::unique_ptr<const Step> (*)(Reader&, PyObject*);

constexpr std::pair<const char*, Factory> FACTORIES[] = {
    {"Size", make<Size>},         {"Compute", make<Compute>},
    {"Reserve", make<Reserve>},   {"Allocate", make<Allocate>},
    {"View", make<View>},         {"Free", make<Free>},
    {"Constant", make<Constant>}, {"Expect", make<Expect>},
    {"Launch", launch},
    {"DeviceLaunch", [](Reader& reader, PyObject* native) { return reader.device_launch(native); }},
    {"Call", [](Reader& reader, PyObject* native) { return reader.call(native); }},
    {"Python", [](Reader& reader, PyObject* native) { return reader.python(native); }},
};

}  // namespace

std::unique_ptr<const Step> Reader::step(PyObject* native) {
    PyObject* kind = item(native, 0);
    for (auto [name, factory] : FACTORIES)
        if (PyUnicode_Check(kind) && !PyUnicode_CompareWithASCIIString(kind, name)) return factory(*this, native);
    raise(PyExc_TypeError, "a plan has no step %R", native);
}

}  // namespace codegen
