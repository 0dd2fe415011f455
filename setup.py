"""Builds the native parts, `codegen._C` and `jit._C`. Everything else about the package stands in pyproject.toml."""

import os
import sys
from glob import glob

os.environ.setdefault("MAX_JOBS", "2")

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

# The standard is that of torch's own headers; torch 2.11 still asks for an older one.
FLAGS = ["-std=c++20", "-O3", "-g0", "-fvisibility=hidden", "-Wall", "-Wno-invalid-offsetof"]
# at::parallel_for is a template. OpenMP is not linked: the runtime is the one that torch brings. GCC takes what a
# c10::SmallVector has in place for uninitialized.
EXTRA = {"codegen": ["-fopenmp", "-Wno-maybe-uninitialized"], "jit": []}

setup(
    ext_modules=[
        CppExtension(
            f"{package}._C",
            sorted(glob(f"{package}/csrc/*.cpp")),
            depends=sorted(glob("*/csrc/*.h")),
            extra_compile_args={"cxx": FLAGS + extra},
        )
        for package, extra in EXTRA.items()
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=True)},
    options={"build": {"build_base": f"build/{sys.implementation.cache_tag}"}},
)
