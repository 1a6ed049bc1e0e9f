"""The speed of a GPU by its properties, and the rates that ``auto`` expects of it; the rates are not measured."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from janossy.evaluate.cost import Rates

FEW_LANES = ((7, 0), (7, 2), (7, 5), (8, 0))
"""The compute capabilities whose multiprocessors add 64 float32 numbers per cycle, and not 128."""

SPECIAL_LANES = 16
"""The special functions (exp2, reciprocal, sine, …) per multiprocessor and cycle, for capabilities from 7.0 on.

Both tables: CUDA C++ Programming Guide, "Throughput of native arithmetic instructions".
"""

SPECIALS = 2
"""The special functions in an activation and its slope, such as exp2 and a reciprocal for tanh."""

SHARE = 0.5
"""The expected share of the peak rates."""

UNKNOWN_BANDWIDTH = 2e11
"""The bytes per second of memory whose clock or bus is reported as 0, as on systems on a chip."""

LAUNCH = 5e-6
"""The seconds from one launch to the next if kernels are short."""


@dataclass(frozen=True)
class Gpu:
    """The peak rates of a GPU, in float32."""

    name: str
    multiprocessors: int
    hertz: float
    bytes_per_second: float
    capability: tuple[int, int]

    @classmethod
    def of(cls, properties: Any) -> "Gpu":
        """Reads torch's device properties: clocks in kHz, the bus in bits; memory moves twice per cycle."""
        bandwidth = 2e3 * properties.memory_clock_rate * properties.memory_bus_width / 8 or UNKNOWN_BANDWIDTH
        capability = properties.major, properties.minor
        return cls(
            properties.name, properties.multi_processor_count, 1e3 * properties.clock_rate, bandwidth, capability
        )

    @property
    def flops_per_second(self) -> float:
        """The peak rate of multiplications and additions, two at once."""
        return 2 * (64 if self.capability in FEW_LANES else 128) * self.multiprocessors * self.hertz

    @property
    def specials_per_second(self) -> float:
        return SPECIAL_LANES * self.multiprocessors * self.hertz

    def seconds(self, *, flops: float = 0, bytes: float = 0, specials: float = 0) -> float:
        """Returns the least time for this much work: the roofline."""
        return max(flops / self.flops_per_second, bytes / self.bytes_per_second, specials / self.specials_per_second)

    @property
    def rates(self) -> Rates:
        """The rates forward and backward together: three products for one, and an activation with its slope."""
        return Rates(
            flops_per_second=SHARE * self.flops_per_second / 3,
            bytes_per_second=SHARE * self.bytes_per_second,
            activations_per_second=SHARE * self.specials_per_second / SPECIALS,
            launch=LAUNCH,
        )

    def __str__(self) -> str:
        at = f"{self.multiprocessors} multiprocessors at {self.hertz / 1e9:.2f} GHz"
        return f"{self.name}, {at}, {self.bytes_per_second / 1e12:.2f} TB/s"


@lru_cache
def gpu_of(device: torch.device) -> Gpu:
    """Returns the properties of this GPU."""
    return Gpu.of(torch.cuda.get_device_properties(device))


def rates_on(device: torch.device, fitted: Rates) -> Rates:
    """Returns the rates of a GPU by its properties; on a CPU the rates that were fitted to measurements."""
    return gpu_of(device).rates if device.type == "cuda" else fitted
