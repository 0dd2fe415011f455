// What is used of the driver's interface, declared here: no header of CUDA's is needed.
#include "driver.h"

#include "plan.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <limits>
#include <map>
#include <mutex>
#include <tuple>

namespace codegen {
namespace {

using Result = int;  // CUresult

constexpr Result SUCCESS = 0;
constexpr int MAX_DYNAMIC_SHARED = 8;         // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int SHARED_WITHOUT_ASKING = 48 << 10;  // bytes; who needs more has to say so
void* const BUFFER_POINTER = (void*)1;        // CU_LAUNCH_PARAM_BUFFER_POINTER
void* const BUFFER_SIZE = (void*)2;           // CU_LAUNCH_PARAM_BUFFER_SIZE
void* const END = nullptr;                    // CU_LAUNCH_PARAM_END

struct Driver {
    Result (*init)(unsigned flags);
    Result (*get_error_name)(Result, const char**);
    Result (*get_error_string)(Result, const char**);
    Result (*get_device)(int* device, int ordinal);
    Result (*get_context)(void** context);
    Result (*set_context)(void* context);
    Result (*retain_primary_context)(void** context, int device);
    Result (*load_module)(void** module, const void* image);
    Result (*get_function)(void** function, void* module, const char* name);
    Result (*set_attribute)(void* function, int attribute, int value);
    Result (*launch)(void* function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                     unsigned threads_z, unsigned shared, void* stream, void** arguments, void** extra);
};

[[noreturn]] void fail(std::string text) { throw Failure{PyExc_RuntimeError, std::move(text)}; }

template <class Function>
void find(void* library, const char* name, Function& function) {
    function = (Function)dlsym(library, name);
    if (!function) fail(std::string("the CUDA driver has no ") + name);
}

void* open_library() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(std::string("no CUDA driver: ") + dlerror());
    return library;
}

Driver open_driver() {
    void* library = open_library();
    Driver driver;
    find(library, "cuInit", driver.init);
    find(library, "cuGetErrorName", driver.get_error_name);
    find(library, "cuGetErrorString", driver.get_error_string);
    find(library, "cuDeviceGet", driver.get_device);
    find(library, "cuCtxGetCurrent", driver.get_context);
    find(library, "cuCtxSetCurrent", driver.set_context);
    find(library, "cuDevicePrimaryCtxRetain", driver.retain_primary_context);
    find(library, "cuModuleLoadData", driver.load_module);
    find(library, "cuModuleGetFunction", driver.get_function);
    find(library, "cuFuncSetAttribute", driver.set_attribute);
    find(library, "cuLaunchKernel", driver.launch);
    return driver;
}

// Of clocks.
struct Events {
    Result (*is_capturing)(void* stream, int* status);
    Result (*create)(void** event, unsigned flags);
    Result (*record)(void* event, void* stream);
    Result (*synchronize)(void* event);
    Result (*elapsed)(float* milliseconds, void* start, void* end);
    Result (*destroy)(void* event);
};

Events open_events() {
    void* library = open_library();
    Events events;
    find(library, "cuStreamIsCapturing", events.is_capturing);
    find(library, "cuEventCreate", events.create);
    find(library, "cuEventRecord", events.record);
    find(library, "cuEventSynchronize", events.synchronize);
    find(library, "cuEventElapsedTime", events.elapsed);
    find(library, "cuEventDestroy_v2", events.destroy);
    return events;
}

const Events& events() {
    static const Events found = open_events();
    return found;
}

// Throws again at the next call if there is none.
const Driver& driver() {
    static const Driver found = open_driver();
    return found;
}

void check(Result result, const char* what) {
    if (result == SUCCESS) return;
    const char *name = nullptr, *text = nullptr;
    driver().get_error_name(result, &name);
    driver().get_error_string(result, &text);
    fail(std::string("CUDA error in ") + what + ": " + (name ? name : std::to_string(result)) + (text ? std::string(", ") + text : ""));
}

// Torch works in each device's primary context; a thread that has not yet worked with any has none.
void enter_context(c10::Device device) {
    void* context = nullptr;
    if (driver().get_context(&context) == SUCCESS && context) return;
    check(driver().init(0), "cuInit");
    int handle;
    check(driver().get_device(&handle, device.has_index() ? device.index() : 0), "cuDeviceGet");
    check(driver().retain_primary_context(&context, handle), "cuDevicePrimaryCtxRetain");
    check(driver().set_context(context), "cuCtxSetCurrent");
}

void* current_stream(c10::Device device) {
    if (device.is_cpu()) return nullptr;  // memory of the host has none
    const auto* guard = c10::impl::getDeviceGuardImpl(device.type());
    return guard->getStreamNativeHandle(guard->getStream(device));
}

}  // namespace

DeviceKernel load_kernel(const std::string& image, const std::string& name, c10::Device device, int shared_bytes) {
    static std::mutex mutex;
    static auto& modules = *new std::map<std::pair<std::string, c10::DeviceIndex>, void*>();  // for good
    enter_context(device);
    std::lock_guard lock(mutex);
    void*& module = modules[{image, device.index()}];
    if (!module) check(driver().load_module(&module, image.data()), "cuModuleLoadData");
    DeviceKernel kernel = nullptr;
    check(driver().get_function(&kernel, module, name.c_str()), "cuModuleGetFunction");
    if (shared_bytes > SHARED_WITHOUT_ASKING)
        check(driver().set_attribute(kernel, MAX_DYNAMIC_SHARED, shared_bytes), "cuFuncSetAttribute");
    return kernel;
}

void launch_kernel(DeviceKernel kernel, c10::Device device, int64_t programs, int threads, int shared_bytes, void* arguments,
                   size_t argument_bytes) {
    if (programs > std::numeric_limits<int32_t>::max()) fail("a kernel of " + std::to_string(programs) + " programs");
    enter_context(device);
    void* extra[] = {BUFFER_POINTER, arguments, BUFFER_SIZE, &argument_bytes, END};
    check(driver().launch(kernel, (unsigned)programs, 1, 1, threads, 1, 1, shared_bytes, current_stream(device), nullptr, extra),
          "cuLaunchKernel");
}

DeviceClock::DeviceClock(c10::Device device) {
    enter_context(device);
    stream_ = current_stream(device);
    int status = 0;
    check(events().is_capturing(stream_, &status), "cuStreamIsCapturing");
    is_running_ = status == 0;
}

DeviceClock::~DeviceClock() {
    for (void* event : events_) events().destroy(event);
}

void DeviceClock::mark() {
    if (!is_running_) return;
    check(events().create(&events_.emplace_back(nullptr), 0), "cuEventCreate");
    check(events().record(events_.back(), stream_), "cuEventRecord");
}

std::vector<int64_t> DeviceClock::nanoseconds() const {
    std::vector<int64_t> times;
    if (events_.empty()) return times;
    check(events().synchronize(events_.back()), "cuEventSynchronize");
    for (size_t at = 1; at < events_.size(); ++at) {
        float milliseconds = 0;
        check(events().elapsed(&milliseconds, events_[at - 1], events_[at]), "cuEventElapsedTime");
        times.push_back((int64_t)((double)milliseconds * 1e6));
    }
    return times;
}

}  // namespace codegen
