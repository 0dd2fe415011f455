"""Builds the native core, `jit._C`. Everything else about the package stands in pyproject.toml."""

import os
import sys
from glob import glob

os.environ.setdefault("MAX_JOBS", "2")

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

FLAGS = ["-O3", "-g0", "-fvisibility=hidden", "-Wall", "-Wno-invalid-offsetof"]

setup(
    ext_modules=[
        CppExtension(
            "jit._C",
            sorted(glob("jit/csrc/*.cpp")),
            depends=sorted(glob("jit/csrc/*.h")),
            extra_compile_args={"cxx": FLAGS},
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=True)},
    options={"build": {"build_base": f"build/{sys.implementation.cache_tag}"}},
)
