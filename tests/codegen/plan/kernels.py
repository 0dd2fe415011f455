"""Kernels written by hand, as the C printer's are called."""

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

from codegen.plan.steps import Function

SOURCE = """
#include <stdint.h>
#include <time.h>
typedef union { double f; int64_t i; } Scalar;
#define KERNEL(name) int name(void *const *buffers, const int64_t *sizes, const Scalar *scalars, int64_t begin, int64_t end)
#define EACH for (int64_t i = begin; i < end; ++i)

KERNEL(add_one) { const float *x = buffers[0]; float *y = buffers[1]; EACH y[i] = x[i] + 1.0f; return 0; }
KERNEL(add) { const float *a = buffers[0], *b = buffers[1]; float *y = buffers[2]; EACH y[i] = a[i] + b[i]; return 0; }
KERNEL(affine) {
    const float *x = buffers[0]; float *y = buffers[1];
    EACH y[i] = x[i] * (float)scalars[0].f + (float)scalars[1].i;
    return 0;
}
KERNEL(row_sums) {
    const float *x = buffers[0]; float *y = buffers[1];
    EACH { float total = 0; for (int64_t j = 0; j < sizes[1]; ++j) total += x[i * sizes[1] + j]; y[i] = total; }
    return 0;
}
KERNEL(gather) {
    const float *x = buffers[0]; const int64_t *at = buffers[1]; float *y = buffers[2];
    EACH { if (at[i] < 0 || at[i] >= sizes[0]) return 1; y[i] = x[at[i]]; }
    return 0;
}
KERNEL(divide) {
    const int64_t *x = buffers[0], *y = buffers[1]; int64_t *z = buffers[2];
    EACH { if (y[i] == 0) return 2; z[i] = x[i] / y[i]; }
    return 0;
}
/* where each position's range began, and how often it came */
KERNEL(ranges) { int64_t *from = buffers[0], *count = buffers[1]; EACH { from[i] = begin; ++count[i]; } return 0; }
/* until another thread writes there */
KERNEL(wait) {
    volatile int64_t *flag = buffers[0];
    for (time_t start = time(0); time(0) - start < 10;) if (*flag) return 0;
    return 1;
}
"""


@functools.cache
def library():
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", target, source], check=True)
        return ctypes.CDLL(str(target))


@functools.cache
def kernel(name):
    return Function(name, ctypes.cast(getattr(library(), name), ctypes.c_void_p).value, library())
