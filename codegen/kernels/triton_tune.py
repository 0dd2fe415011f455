"""Which tiles a kernel has on a device: the quickest of a few, measured once for all processes.

Where there is nothing to measure with, as on a machine that compiles for a device it does not have, they are those that
are likely best: the first of the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.artifacts.store import Store, key
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Kernel
from codegen.kernels.triton_launch import Compiled, compile_triton
from codegen.kernels.triton_shape import Config, candidates, power_of_two

#: So many candidates are measured, unless all are wanted.
FEW = 3


@dataclass(frozen=True)
class Device:
    """What times and machine code depend on. `capability`: 90 for sm_90."""

    name: str
    capability: int


#: Seconds that a launch in these tiles takes. Raises RuntimeError where the device can't launch it.
Measure = Callable[[Compiled, Config], float]


@dataclass(frozen=True)
class Tuned:
    config: Config
    compiled: Compiled


def tune(
    kernel: Kernel, device: Device, sizes: Mapping[Symbol, int], *, store: Store, measure: Measure | None = None,
    most: int | None = FEW, aligned: Sequence[int] = (),
) -> Tuned:
    """`sizes`: what those of the kernel are at its first launch; a choice serves all that are about as large. `most`:
    how many candidates are tried (None: all). Those that can't be launched are passed over.

    Raises ImportError without Triton, RuntimeError where no candidate can be launched."""

    def made(config: Config) -> Compiled:
        return compile_triton(kernel, config, device.capability, store=store, aligned=aligned)

    configs = candidates(kernel, sizes)[:most]
    if measure is None or len(configs) == 1:
        return Tuned(configs[0], made(configs[0]))
    chosen = key(
        kernel=str(replace(kernel, name="", sources=())), device=str(device), candidates="\n".join(map(str, configs)),
        sizes=" ".join(f"{size}~{power_of_two(sizes[size])}" for size in kernel.sizes), aligned=str(sorted(aligned)),
    )  # fmt: skip
    kept = store.get(chosen)
    if kept is None:
        number = _quickest(configs, lambda config: measure(made(config), config))
        store.put(chosen, str(number).encode())
    else:
        number = int(kept)
    return Tuned(configs[number], made(configs[number]))


def _quickest(configs: Sequence[Config], seconds: Callable[[Config], float]) -> int:
    times: dict[int, float] = {}
    failed: RuntimeError | None = None
    for number, config in enumerate(configs):
        try:
            times[number] = seconds(config)
        except RuntimeError as error:
            failed = error
    if not times:
        assert failed is not None
        raise failed
    return min(times, key=times.__getitem__)
