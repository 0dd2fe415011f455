// The CUDA driver, found when it is needed first: this builds and runs without CUDA.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace codegen {

// Of a device's kernel: what cuModuleGetFunction gives.
using DeviceKernel = void*;

// The kernel `name` of a module image (a cubin) on the current device. Each image is loaded once for each device, and
// stays: whatever was captured from launches of it may be replayed at any time. Throws Failure.
DeviceKernel load_kernel(const std::string& image, const std::string& name, c10::Device device, int shared_bytes);

// Launches so many programs on the device's current stream; `arguments` lie as the kernel takes them. Throws Failure.
void launch_kernel(DeviceKernel kernel, c10::Device device, int64_t programs, int threads, int shared_bytes, void* arguments,
                   size_t argument_bytes);

// What the device's current stream takes from each mark to the next. Nothing while that is recorded as a CUDA graph:
// what is launched then is done later, if at all.
class DeviceClock {
public:
    explicit DeviceClock(c10::Device device);
    ~DeviceClock();
    DeviceClock(const DeviceClock&) = delete;
    void mark();
    std::vector<int64_t> nanoseconds() const;  // waits for the last mark

private:
    void* stream_;
    bool is_running_;
    std::vector<void*> events_;
};

}  // namespace codegen
