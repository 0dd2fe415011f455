"""A CUDA driver that has no device: it notes what it is asked for, and does the work of kernels it knows on the host.

It is what `libcuda.so.1` means in this process from `load` on; the addresses of CPU tensors stand for a device's."""

import contextlib
import ctypes
import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
struct launch {
    char name[256]; char image[64]; unsigned grid[3], threads[3], shared; void *stream; uint64_t bytes; unsigned char arguments[512];
};
#define MOST 64
struct launch launches[MOST];
int launch_count, loads, inits, attribute, attribute_value, failure;
void *context;
void (*work)(const char *name, const void *arguments);

struct function { char name[256]; const char *image; };
struct function functions[MOST];
int function_count;

Result cuInit(unsigned flags) { ++inits; return flags; }
Result cuGetErrorName(Result error, const char **text) { *text = error == 1 ? "CUDA_ERROR_INVALID_VALUE" : 0; return error == 1 ? 0 : 1; }
Result cuGetErrorString(Result error, const char **text) { *text = error == 1 ? "invalid argument" : 0; return error == 1 ? 0 : 1; }
Result cuDeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return 0; }
Result cuCtxGetCurrent(void **found) { *found = context; return 0; }
Result cuCtxSetCurrent(void *given) { context = given; return 0; }
Result cuDevicePrimaryCtxRetain(void **found, int device) { *found = (void *)(intptr_t)device; return 0; }
Result cuModuleLoadData(void **module, const void *image) {
    ++loads;
    if (!strcmp(image, "no cubin")) return 1;
    *module = strdup(image);
    return 0;
}
Result cuModuleGetFunction(void **function, void *module, const char *name) {
    if (!strcmp(name, "not_there")) return 500;
    struct function *made = &functions[function_count++ % MOST];
    strcpy(made->name, name);
    made->image = module;
    *function = made;
    return 0;
}
Result cuFuncSetAttribute(void *function, int which, int value) { attribute = which; attribute_value = value; return 0; }

/* A clock that goes on by a millisecond at each launch. */
int capturing, events_alive, clock_waits;
struct event { int at; };
Result cuStreamIsCapturing(void *stream, int *status) { *status = capturing; return 0; }
Result cuEventCreate(void **event, unsigned flags) { *event = malloc(sizeof(struct event)); ++events_alive; return flags; }
Result cuEventRecord(void *event, void *stream) { ((struct event *)event)->at = launch_count; return 0; }
Result cuEventSynchronize(void *event) { ++clock_waits; return 0; }
Result cuEventElapsedTime(float *ms, void *start, void *end) {
    *ms = (float)(((struct event *)end)->at - ((struct event *)start)->at);
    return 0;
}
Result cuEventDestroy_v2(void *event) { free(event); --events_alive; return 0; }

struct add_one { const float *x; float *y; void *error; int32_t n; float by; int64_t start; double factor; void *scratch[2]; };

Result cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                      void *stream, void **parameters, void **extra) {
    if (failure) return failure;
    if (parameters || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]) return 1;
    struct launch *made = &launches[launch_count++ % MOST];
    struct function *known = function;
    *made = (struct launch){.grid = {x, y, z}, .threads = {tx, ty, tz}, .shared = shared, .stream = stream, .bytes = *(uint64_t *)extra[3]};
    strcpy(made->name, known->name);
    strncpy(made->image, known->image, 63);
    memcpy(made->arguments, extra[1], made->bytes < 512 ? made->bytes : 512);
    if (work) work(known->name, extra[1]);
    else if (!strcmp(known->name, "add_one")) {
        const struct add_one *a = extra[1];
        for (int64_t program = 0; program < x; ++program)
            for (int64_t i = program * 4; i < program * 4 + 4 && i < a->n; ++i)
                a->y[i] = (a->x[i + a->start] + a->by) * (float)a->factor;
    }
    return 0;
}
"""


class _Launch(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 256), ("image", ctypes.c_char * 64), ("grid", ctypes.c_uint * 3), ("threads", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("arguments", ctypes.c_ubyte * 512),
    ]


@dataclass(frozen=True)
class Launched:
    name: str
    image: bytes
    grid: tuple
    threads: tuple
    shared: int
    stream: int | None
    arguments: bytes


class Driver:
    def __init__(self, library):
        self.library = library

    def number(self, name):
        return ctypes.c_int.in_dll(self.library, name)

    @contextlib.contextmanager
    def working(self, callback):
        """While it is open, `callback(name, address of the arguments)` does the work of all kernels."""
        place = ctypes.c_void_p.in_dll(self.library, "work")
        place.value = ctypes.cast(callback, ctypes.c_void_p).value
        try:
            yield
        finally:
            place.value = None

    def launches(self):
        """Those since the last time this was asked."""
        count, known = self.number("launch_count"), (_Launch * 64).in_dll(self.library, "launches")
        found = [
            Launched(at.name.decode(), at.image, tuple(at.grid), tuple(at.threads), at.shared, at.stream,
                     bytes(at.arguments[: at.bytes]))
            for at in known[: count.value]
        ]
        count.value = 0
        return found


@functools.cache
def load():
    """Libraries are known by their names: who opens one of that name from now on finds this one."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "driver.c"), Path(folder, "driver.so")
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", target, source], check=True)
        return Driver(ctypes.CDLL(str(target)))
