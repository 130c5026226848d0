"""Clock, temperature, power and throttling of a GPU while something runs on it.

    watch = Watch(device)
    watch.look()            while work is under way
    watch.row()             {"clock": [first, last], "clock_low", "temperature", ...}

NVML comes with the driver and is called by ctypes: no package is needed, and a look
takes microseconds, where nvidia-smi takes a tenth of a second. Where it does not answer
(no driver, a container without it) every value is null. Names and numbers:
https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..toolchain.native import AnyDevice

LIBRARY = "libnvidia-ml.so.1"
SM = 1  # NVML_CLOCK_SM
CELSIUS = 0  # NVML_TEMPERATURE_GPU
# Reasons for which a clock is lower than it could be; idle, and clocks that somebody
# has asked for, are none.
THROTTLED = {
    **{0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat"},
    **{0x40: "heat (hardware)", 0x80: "power brake"},
}


@dataclass(frozen=True)
class State:
    """What NVML says at one moment; None is not known."""

    clock: int | None  # of the SMs, MHz
    temperature: int | None  # degrees Celsius
    power: float | None  # watts
    throttled: tuple[str, ...]


@dataclass
class Watch:
    """A GPU that is looked at now and then; of a CPU nothing is seen."""

    device: AnyDevice
    seen: list[State] = field(default_factory=list)

    def look(self) -> None:
        """Note how it is now."""
        if self.device.type == "cuda" and (found := read_state(self.device.index or 0)):
            self.seen.append(found)

    def row(self) -> dict[str, Any]:
        """The keys of a row: clocks in MHz (the first and the last look, the lowest of
        all), degrees, watts (the most seen), why it was throttled, or null."""
        clocks = [one.clock for one in self.seen if one.clock]
        heat = [one.temperature for one in self.seen if one.temperature]
        power = [one.power for one in self.seen if one.power]
        why = sorted({word for one in self.seen for word in one.throttled})
        return {
            "clock": [clocks[0], clocks[-1]] if clocks else None,
            "clock_median": statistics.median(clocks) if clocks else None,
            "clock_low": min(clocks, default=None),
            "temperature": [heat[0], heat[-1]] if heat else None,
            "power": max(power, default=None),
            "throttled": ", ".join(why) or None,
        }


def read_state(index: int) -> State | None:
    """How GPU `index` is now; None where NVML does not answer."""
    nvml, handle = _open_library(), _handle(index)
    if nvml is None or handle is None:
        return None
    clock = _number(nvml.nvmlDeviceGetClockInfo, handle, SM)
    heat = _number(nvml.nvmlDeviceGetTemperature, handle, CELSIUS)
    power = _number(nvml.nvmlDeviceGetPowerUsage, handle)
    ask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    bits = _number(ask, handle, kind=ctypes.c_ulonglong) or 0
    why = tuple(word for bit, word in THROTTLED.items() if bits & bit)
    return State(clock, heat, None if power is None else power / 1e3, why)


def _number(function: Any, handle: Any, *more: int, kind: Any = ctypes.c_uint) -> Any:
    """What an NVML function says, None if it fails."""
    found = kind()
    if function(handle, *more, ctypes.byref(found)):
        return None
    return found.value


@functools.cache
def _open_library() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() == 0:
            return nvml
    return None


@functools.cache
def _handle(index: int) -> ctypes.c_void_p | None:
    """NVML's handle of CUDA's GPU `index`: the two may count in different orders."""
    nvml = _open_library()
    if nvml is None:
        return None
    import torch

    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    found = ctypes.c_void_p()
    named = f"GPU-{uuid}".encode()
    if uuid and nvml.nvmlDeviceGetHandleByUUID(named, ctypes.byref(found)) == 0:
        return found
    count = ctypes.c_uint()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) or count.value != 1:
        return None  # one of several, nobody knows which
    if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(found)):
        return None
    return found
