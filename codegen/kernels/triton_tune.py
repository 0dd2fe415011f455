"""Which tiles a kernel has on a device: the quickest of a few, measured once for all processes.

Where there is nothing to measure with, as on a machine that compiles for a device it does not have, they are those that
are likely best: the first of the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.artifacts.store import Store, key
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Kernel
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_dot import DotConfig, dot_candidates, dot_programs, print_dot, product_of
from codegen.kernels.triton_launch import Compiled, arguments, compile_source
from codegen.kernels.triton_shape import Config, candidates, power_of_two, programs

#: So many candidates are measured, unless all are wanted.
FEW = 3


@dataclass(frozen=True)
class Device:
    """What times and machine code depend on. `capability`: 90 for sm_90. `tf32`: factors of matrix products may be
    rounded to it."""

    name: str
    capability: int
    tf32: bool = False


@dataclass(frozen=True)
class Printed:
    """A kernel in tiles of one size, and how many programs of it there are."""

    config: Config | DotConfig
    source: str
    programs: Index
    copies: int = 1


@dataclass(frozen=True)
class Tuned:
    printed: Printed
    compiled: Compiled


#: Seconds that a launch takes. Raises RuntimeError where the device can't launch it.
Measure = Callable[[Printed, Compiled], float]


def forms(
    kernel: Kernel, sizes: Mapping[Symbol, int] | None = None, most: int | None = None, tf32: bool = False
) -> tuple[Printed, ...]:
    """The kernel in each of its candidates' tiles, the likely best first: of matrices, if it is a product of them."""
    product = product_of(kernel)
    if product is None:
        configs = candidates(kernel, sizes)[:most]
        return tuple(Printed(each, print_triton(kernel, each), programs(kernel, each)) for each in configs)
    tiles = dot_candidates(product, sizes)[:most]
    return tuple(Printed(each, print_dot(product, each, tf32), dot_programs(product, each)) for each in tiles)


def repeated(kernel: Kernel, printed: Printed, copies: int) -> Printed:
    """The same tiles for so many copies; of a kernel that is no product of matrices, of known sizes."""
    config = printed.config
    assert isinstance(config, Config) and printed.copies == 1
    return Printed(config, print_triton(kernel, config, copies), printed.programs * copies, copies)


def made(
    kernel: Kernel, printed: Printed, capability: int, *, store: Store, aligned: Sequence[int] = ()
) -> Compiled:
    """Raises ImportError without Triton."""
    types = arguments(kernel, printed.config.wide, printed.copies)
    name = kernel.named(printed.copies)
    return compile_source(name, printed.source, types, printed.config, capability, store=store, aligned=aligned)


def tune(
    kernel: Kernel, device: Device, sizes: Mapping[Symbol, int], *, store: Store, measure: Measure | None = None,
    most: int | None = FEW, aligned: Sequence[int] = (),
) -> Tuned:
    """`sizes`: what those of the kernel are at its first launch; a choice serves all that are about as large. `most`:
    how many candidates are tried (None: all). Those that can't be launched are passed over.

    Raises ImportError without Triton, RuntimeError where no candidate can be launched."""
    tried = forms(kernel, sizes, most if measure is not None else 1, device.tf32)

    def compiled(printed: Printed) -> Compiled:
        return made(kernel, printed, device.capability, store=store, aligned=aligned)

    if len(tried) == 1:
        return Tuned(tried[0], compiled(tried[0]))
    assert measure is not None
    chosen = key(
        kernel=str(replace(kernel, name="", sources=())), device=str(device),
        candidates="\n".join(str(printed.config) for printed in tried),
        sizes=" ".join(f"{size}~{power_of_two(sizes[size])}" for size in kernel.sizes), aligned=str(sorted(aligned)),
    )  # fmt: skip
    kept = store.get(chosen)
    if kept is None:
        number = _quickest(tried, lambda printed: measure(printed, compiled(printed)))
        store.put(chosen, str(number).encode())
    else:
        number = int(kept)
    return Tuned(tried[number], compiled(tried[number]))


def _quickest(tried: Sequence[Printed], seconds: Callable[[Printed], float]) -> int:
    times: dict[int, float] = {}
    failed: RuntimeError | None = None
    for number, printed in enumerate(tried):
        try:
            times[number] = seconds(printed)
        except RuntimeError as error:
            failed = error
    if not times:
        assert failed is not None
        raise failed
    return min(times, key=times.__getitem__)
