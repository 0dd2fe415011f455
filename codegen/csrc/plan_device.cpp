// Launches on a device: what never changes of a kernel's arguments lies ready, a run fills in the rest.
#include "driver.h"
#include "plan.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/Device.h>

#include <atomic>
#include <cstring>
#include <limits>

namespace codegen {
namespace {

enum class Type { Pointer, Int32, Int64, Float32, Float64 };

struct Named {
    const char* name;
    Type type;
    size_t bytes;
};
constexpr Named TYPES[] = {
    {"*", Type::Pointer, 8}, {"i32", Type::Int32, 4}, {"i64", Type::Int64, 8}, {"fp32", Type::Float32, 4}, {"fp64", Type::Float64, 8},
};

const Named& type_of(PyObject* name) {
    for (const Named& type : TYPES)
        if (PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, type.name)) return type;
    raise(PyExc_TypeError, "no argument of a kernel has the type %R", name);
}

const char* utf8(PyObject* text) {
    const char* found = PyUnicode_AsUTF8(text);
    if (!found) throw PythonError();
    return found;
}

std::string bytes_of(PyObject* object) {
    char* data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(object, &data, &size) < 0) throw PythonError();
    return {data, (size_t)size};
}

// An argument that a run knows: where it lies among all, and where it comes from.
struct Late {
    Type type;
    size_t offset;
    Operand operand;
};

using Block = c10::SmallVector<char, 256>;

struct DeviceLaunch : Step {
    DeviceLaunch(Reader& reader, PyObject* native)
        : name(utf8(item(native, 1))), image(bytes_of(item(native, 2))), threads(PyLong_AsLong(item(native, 3))),
          shared(PyLong_AsLong(item(native, 4))), programs(reader.count(item(native, 6))) {
        if (PyErr_Occurred()) throw PythonError();
        if (threads < 1 || shared < 0) raise(PyExc_ValueError, "a launch needs threads: %R", native);
        PyObject* where = item(native, 5);
        if (!THPDevice_Check(where)) raise(PyExc_TypeError, "a plan needs a device, not %R", where);
        device = ((THPDevice*)where)->device;
        for (PyObject* argument : items(item(native, 7))) add(reader, type_of(item(argument, 0)), item(argument, 1));
    }

    void add(Reader& reader, const Named& type, PyObject* native) {
        const size_t offset = (prepared.size() + type.bytes - 1) / type.bytes * type.bytes;
        prepared.resize(offset + type.bytes);
        if (native == Py_None) {
            if (type.type != Type::Pointer) raise(PyExc_TypeError, "%s: only a pointer may be null", name.c_str());
            return;
        }
        const Operand operand = reader.operand(native);
        const bool is_memory = operand.kind == Kind::Tensor || operand.kind == Kind::Block;
        const bool is_pointer = type.type == Type::Pointer;
        const bool is_whole = type.type == Type::Int32 || type.type == Type::Int64;
        if (operand.kind == Kind::Constant && !is_pointer) {
            const Number number = of_python(is_whole ? Kind::Int : Kind::Float, operand.value);
            if (PyErr_Occurred()) throw PythonError();
            put(prepared.data() + offset, type.type, number, is_whole);
        } else if (is_pointer ? is_memory : operand.is_number() && !(is_whole && operand.kind == Kind::Float)) {
            late.push_back({type.type, offset, operand});
        } else {
            raise(PyExc_TypeError, "%s: %R is no argument of type %s", name.c_str(), native, type.name);
        }
    }

    template <class Value>
    static void write(char* place, Value value) {
        std::memcpy(place, &value, sizeof(value));
    }

    void put(char* place, Type type, Number number, bool is_whole) const {
        switch (type) {
            case Type::Int32:
                if (number.i < std::numeric_limits<int32_t>::min() || number.i > std::numeric_limits<int32_t>::max())
                    throw Failure{PyExc_OverflowError, name + ": " + std::to_string(number.i) + " does not fit into 32 bits"};
                return write(place, (int32_t)number.i);
            case Type::Int64: return write(place, number.i);
            case Type::Float32: return write(place, (float)(is_whole ? (double)number.i : number.f));
            default: return write(place, is_whole ? (double)number.i : number.f);
        }
    }

    bool is_on_device() const override { return true; }

    void run(Frame& frame) const override {
        const int64_t count = programs.in(frame);
        if (count <= 0) return;
        Block arguments(prepared.begin(), prepared.end());
        for (const Late& each : late) {
            char* place = arguments.data() + each.offset;
            const size_t number = each.operand.number;
            if (each.operand.kind == Kind::Tensor) write<void*>(place, frame.tensor(number).mutable_data_ptr());
            else if (each.operand.kind == Kind::Block) write<void*>(place, frame.blocks[number]);
            else put(place, each.type, frame.numbers[number], each.operand.kind != Kind::Float);
        }
        const c10::DeviceGuard guard(device);
        DeviceKernel loaded = kernel.load(std::memory_order_acquire);
        if (!loaded) {
            loaded = load_kernel(image, name, device, shared);
            kernel.store(loaded, std::memory_order_release);
        }
        launch_kernel(loaded, device, count, threads, shared, arguments.data(), arguments.size());
    }

    std::string name, image;
    int threads, shared;
    at::Device device{at::kCPU};
    Count programs;
    std::vector<char> prepared;
    std::vector<Late> late;
    mutable std::atomic<DeviceKernel> kernel{nullptr};
};

}  // namespace

std::unique_ptr<const Step> Reader::device_launch(PyObject* native) { return std::make_unique<DeviceLaunch>(*this, native); }

}  // namespace codegen
