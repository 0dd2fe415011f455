"""Printed Triton kernels -> functions -> cubins, and the bytes that a launch of one takes.

A launch is `cuLaunchKernel(function, programs, 1, 1, 32 * warps, 1, 1, shared, stream, NULL, extra)`, where `extra`
names the buffer that `pack` fills (CU_LAUNCH_PARAM_BUFFER_POINTER): all that changes from call to call lies in it.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from codegen.artifacts.store import Store, key
from codegen.kernels.ir import Kernel
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_ops import ttype
from codegen.kernels.triton_shape import Config, reports_errors

#: What printed kernels need to mean what they should: each operation rounded for itself, denormals kept.
OPTIONS: Mapping[str, Any] = {"enable_fp_fusion": False, "enable_reflect_ftz": False}
#: Multiples of this many bytes (pointers) or elements (sizes) are read as whole vectors.
ALIGNED = 16
#: Of the types of arguments, for `struct`. A pointer is "*" and a type.
FORMATS = {"*": "Q", "i32": "i", "i64": "q", "fp32": "f", "fp64": "d"}


@dataclass(frozen=True)
class Compiled:
    """A cubin for one architecture. `arguments`: their types, in order, with those that Triton adds (pointers to
    scratch memory, of which printed kernels need none: null); `shared`: bytes of shared memory."""

    name: str
    cubin: bytes
    arguments: tuple[str, ...]
    warps: int
    shared: int


class Tiles(Protocol):
    """What of a configuration is no part of the source."""

    @property
    def warps(self) -> int: ...

    @property
    def stages(self) -> int: ...


def functions_of(source: str) -> dict[str, Any]:
    """What the source defines. Triton reads the text of its functions: it is kept for `inspect`."""
    name = f"<triton {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(source, name, "exec"), namespace)
    return namespace


def pointer_type(dtype: torch.dtype) -> str:
    """What Triton calls a pointer to elements of that dtype."""
    return f"*{ttype(dtype).signature}"


def arguments(kernel: Kernel, wide: bool, copies: int = 1) -> tuple[str, ...]:
    """The types of the kernel's arguments: its buffers (of each copy), the error if it reports one, its sizes (`wide`:
    as int64), its scalars."""
    scalars = {torch.float64: "fp64"}
    return (
        *(pointer_type(buffer.dtype) for buffer in kernel.buffers * copies),
        *(["*i32"] if reports_errors(kernel) else []),
        *(["i64" if wide else "i32"] * len(kernel.sizes)),
        *(scalars.get(s.dtype, "fp32" if s.dtype.is_floating_point else "i64") for s in kernel.scalars),
    )


def compile_triton(
    kernel: Kernel, config: Config, capability: int, *, store: Store, aligned: Sequence[int] = ()
) -> Compiled:
    """The kernel for a device (capability 90: sm_90). `aligned`: the numbers of arguments that are multiples of ALIGNED
    in all its launches. Raises ImportError without Triton."""
    return compile_source(
        kernel.name, print_triton(kernel, config), arguments(kernel, config.wide), config, capability, store=store,
        aligned=aligned,
    )


def compile_source(
    name: str, source: str, types: tuple[str, ...], tiles: Tiles, capability: int, *, store: Store,
    aligned: Sequence[int] = (),
) -> Compiled:
    """The function of that name, which takes arguments of these types."""
    import triton

    options = {**OPTIONS, "num_warps": tiles.warps, "num_stages": tiles.stages}
    made = key(
        source=source, arguments=" ".join(types), aligned=str(sorted(aligned)), capability=str(capability),
        options=str(sorted(options.items())), triton=triton.__version__,
    )  # fmt: skip
    kept = store.get(made)
    if kept is None:
        found = compiled(name, source, types, aligned, capability, options)
        needed = found.metadata
        assert not needed.global_scratch_size and not needed.profile_scratch_size, "scratch memory in a printed kernel"
        all_types = (*types, "*i8", "*i8")
        head = {"name": needed.name, "arguments": all_types, "warps": needed.num_warps, "shared": needed.shared}
        kept = json.dumps(head).encode() + b"\n" + found.asm["cubin"]
        store.put(made, kept)
    text, _, cubin = kept.partition(b"\n")
    head = json.loads(text)
    return Compiled(head["name"], cubin, tuple(head["arguments"]), head["warps"], head["shared"])


def compiled(
    name: str, source: str, types: tuple[str, ...], aligned: Sequence[int], capability: int, options: Mapping[str, Any]
) -> Any:
    """The function of that name as Triton compiles it, with all its stages in `asm`."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = functions_of(source)[name]
    attributes = {(number,): [["tt.divisibility", ALIGNED]] for number in sorted(aligned)}
    given = ASTSource(function, dict(zip(function.arg_names, types, strict=True)), {}, attributes)
    # Triton keeps what it compiles on disk, too: once is enough
    with tempfile.TemporaryDirectory(prefix="framejit-") as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        return triton.compile(given, target=GPUTarget("cuda", capability, 32), options=dict(options))


def pack(compiled: Compiled, values: Sequence[int | float]) -> bytes:
    """The arguments of a launch as they lie in memory, each at a multiple of its size. `values`: addresses and numbers,
    without those that Triton adds."""
    given = [*values, *[0] * (len(compiled.arguments) - len(values))]
    formats = "".join(FORMATS[kind[:1] if kind.startswith("*") else kind] for kind in compiled.arguments)
    return struct.pack(f"@{formats}", *given)
