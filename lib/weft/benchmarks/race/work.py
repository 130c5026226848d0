"""Count the minimum work of a step, and find the limit of each section.

count_work() assumes images of 28x28 in the lesson's model (32 and 64 channels, 128,
10). A multiply-add is two flops; other operations (batch norm, ReLU, pool, loss) count
as zero. Bytes count only arrays that cross the border of a section, each read or
written once. Caches are assumed perfect within a kernel and empty between kernels.

find_limits() compares each section with the minimum time that it could take:

    for part in find_limits(row, roof, launch_us): ...

There are three floors: the products at the machine's peak rate of multiply-adds, the
bytes at the rate of its copy, and the launch of an empty kernel. The first two can
overlap; the launch cannot. The rest is waiting: successive latencies, a last wave of
blocks, and instructions that are not products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.device import checked_device
from ...timing.peaks import ceilings, peaks
from ...timing.results import stamp_row
from .race import Row

PIXELS1, PIXELS2, PIXELS3 = 28 * 28, 14 * 14, 7 * 7
C1, C2, TAPS, HIDDEN, CLASSES = 32, 64, 9, 128, 10
FEATURES = PIXELS3 * C2
PRODUCTS = {  # flops of a layer's product, which the forward pass computes once
    "conv1": 2 * TAPS * C1 * PIXELS1,
    "conv2": 2 * TAPS * C1 * C2 * PIXELS2,
    "fc1": 2 * FEATURES * HIDDEN,
    "fc2": 2 * HIDDEN * CLASSES,
}
# Conv1's backward pass needs no gradient of x.
BACK = {"conv1": 1, "conv2": 2, "fc1": 2, "fc2": 2}
WEIGHTS = {
    **{"conv1": TAPS * C1, "conv2": TAPS * C1 * C2},
    **{"fc1": FEATURES * HIDDEN, "fc2": HIDDEN * CLASSES},
}
OUTPUTS = {  # number of elements in a layer's output
    **dict.fromkeys(("conv1", "bn1", "relu1"), C1 * PIXELS1),
    "pool1": C1 * PIXELS2,
    **dict.fromkeys(("conv2", "bn2", "relu2"), C2 * PIXELS2),
    "pool2": FEATURES,
    **dict.fromkeys(("fc1", "relu3"), HIDDEN),
    "fc2": CLASSES,
}
LAYERS = [*OUTPUTS]
# Flops of a step per image, forward and backward.
STEP_FLOPS = sum((1 + BACK[name]) * flops for name, flops in PRODUCTS.items())
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
WHOLE = 4  # bytes of a number in full precision: gradients and parameters


@dataclass(frozen=True)
class SectionWork:
    """The work of one section of a step on a whole batch."""

    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """The arithmetic intensity in flops per byte."""
        return self.flops / self.bytes


def count_work(
    section: str,
    sections: Sequence[str],
    batch: int,
    precision: str = "fp32",
    rung: str = "",
) -> SectionWork | None:
    """Return a section's flops and bytes, or None for a section without known work.

    section: name from Cnn.profile(). sections: names of all sections of the step, which
    determine the section's products: conv2's gradients are in one section or in two.
    rung: "winograd" does 16 multiplications for 36 in conv2.
    """
    flops = _count_flops(section, sections)
    if "conv2" in section:
        flops -= _count_saved(rung)
    if section in _FUSED:
        images, once = (count(BYTES[precision]) for count in _FUSED[section])
        bytes_ = batch * images + once
    else:
        bytes_ = _count_layer_bytes(section, batch)
    return SectionWork(batch * flops, bytes_) if flops and bytes_ else None


def floor_us(batch: int, tflops: float, rung: str = "") -> float:
    """Return the time in µs of a step's products alone, at `tflops`.

    rung: "winograd" needs fewer multiplications in conv2's three products.
    """
    flops = STEP_FLOPS - (1 + BACK["conv2"]) * _count_saved(rung)
    return batch * flops / tflops / 1e6


def _count_saved(rung: str) -> float:
    """Return the flops per image that a rung saves in each of conv2's products."""
    return PRODUCTS["conv2"] * (1 - 16 / 36) if rung == "winograd" else 0.0


def _count_flops(section: str, sections: Sequence[str]) -> float:
    direction, _, names = section.partition(".")
    if section == _WEIGHT:
        return PRODUCTS["conv2"]
    products = [name for name in names.split("+") if name in PRODUCTS]
    if direction == "forward":
        return sum(PRODUCTS[name] for name in products)
    # The gradient of conv2's weights may be in another section.
    less = PRODUCTS["conv2"] * (_WEIGHT in sections and "conv2" in products)
    return sum(BACK[name] * PRODUCTS[name] for name in products) - less


_WEIGHT = "backward.conv2.weight"
_P1, _C2, _M2 = C1 * PIXELS2, C2 * PIXELS2, FEATURES

# For each section of the fused step, two functions return its bytes per image and per
# step; size: bytes of a number. kernels/mnist/fused/fused.h declares the arrays.
_FUSED = {
    # the image, p1 and the winning pixels
    "forward.conv1+bn1+relu1+pool1": (
        lambda size: PIXELS1 + _P1 * size + _P1,
        lambda size: WHOLE * WEIGHTS["conv1"],
    ),
    # p1, conv2's output, its raw pool and its winners
    "forward.conv2+pool2": (
        lambda size: _P1 * size + _C2 * size + _M2 * size + _M2,
        lambda size: size * WEIGHTS["conv2"],
    ),
    "forward.bn2+relu2+fc1": (
        lambda size: _M2 * size + WHOLE * HIDDEN,
        lambda size: size * WEIGHTS["fc1"],
    ),
    "forward.relu3+fc2+loss": (
        lambda size: WHOLE * HIDDEN + size * HIDDEN,
        lambda size: 2 * WHOLE * WEIGHTS["fc2"],
    ),
    # the weights and their gradient
    "backward.fc1+relu2": (
        lambda size: 2 * _M2 * size + size * HIDDEN,
        lambda size: (size + WHOLE) * WEIGHTS["fc1"],
    ),
    # conv2's output and its gradient, two codes and the image
    "backward.pool2+bn2+conv2+pool1+relu1+bn1+conv1": (
        lambda size: _C2 * size + _M2 * size + _M2 + _P1 + PIXELS1,
        lambda size: size * WEIGHTS["conv2"],
    ),
    _WEIGHT: (
        lambda size: _P1 * size + _C2 * size + _M2 * size + _M2,
        lambda size: WHOLE * WEIGHTS["conv2"],
    ),
}


def _count_layer_bytes(section: str, batch: int) -> float | None:
    """Return the bytes of a section with one layer in fp32; None for other sections."""
    direction, _, name = section.partition(".")
    if name not in OUTPUTS:
        return None
    place = LAYERS.index(name)
    into = OUTPUTS[LAYERS[place - 1]] if place else PIXELS1
    weights = WHOLE * WEIGHTS.get(name, 0)
    if direction == "forward":
        return WHOLE * batch * (into + OUTPUTS[name]) + weights
    # The layer reads the output's gradient and the input, and writes the gradients of
    # the input and of the weights.
    after = into if place else 0
    return WHOLE * batch * (OUTPUTS[name] + into + after) + 2 * weights


def list_intensities(
    layers_us: Mapping[str, float], batch: int, precision: str, rung: str = ""
) -> dict:
    """Return {section: (flops per byte, TFLOP/s)} for the sections with known work.

    Sections with less than 1 % of the step's flops are omitted.
    """
    intensities, min_flops = {}, 0.01 * batch * STEP_FLOPS
    for section, us in layers_us.items():
        work = count_work(section, [*layers_us], batch, precision, rung)
        if work and work.flops >= min_flops and us > 0:
            intensities[section] = (work.intensity, work.flops / us / 1e6)
    return intensities


OUTSIDE = "batch"  # the section of the arguments and of the sums; see find_limits()


@dataclass(frozen=True)
class StepPart:
    """The time of one section of a step and its floors, in microseconds."""

    section: str
    us: float
    products: float  # time at the roof; 0 without products or a known count
    bytes: float
    launch: float

    @property
    def waiting(self) -> float:
        """The time in µs that none of the floors explains."""
        return max(0.0, self.us - max(self.products, self.bytes) - self.launch)

    @property
    def binds(self) -> str:
        """The name of the largest part: products, bytes, launch or waiting."""
        names = ("products", "bytes", "launch", "waiting")
        return max(names, key=lambda name: getattr(self, name))


def find_limits(row: Row, roof: Row, launch_us: float) -> list[StepPart]:
    """Return a StepPart for each section of a step's row.

    roof: the "roof" row of the same precision. launch_us: launch time in µs of a kernel
    in a chain. The clocks between sections cost time, so the sections' times are scaled
    to add up to the step's. The "batch" section is omitted. It contains sums over
    patches. An isolated fused step computes these sums itself; in a run, the previous
    step does. Rows up to commit 97f84da have these sums in conv1's section.
    """
    layers = {name: us for name, us in row["layers_us"].items() if name != OUTSIDE}
    scale = row["us"] / sum(layers.values())
    parts = []
    for section, us in layers.items():
        kind = row["precision"], row["rung"]
        work = count_work(section, [*layers], row["batch"], *kind)
        flops, bytes_ = (work.flops, work.bytes) if work else (0.0, 0.0)
        at_roof = flops / roof["tflops"] / 1e6, bytes_ / roof["gbs"] / 1e3
        parts.append(StepPart(section, us * scale, *at_roof, launch_us))
    return parts


def sum_parts(parts: Sequence[StepPart]) -> StepPart:
    """Sum the sections into a single StepPart for the whole step."""
    keys = ("us", "products", "bytes", "launch")
    return StepPart("step", *(sum(getattr(p, key) for p in parts) for key in keys))


def find_roof(precision: str, device: str, **_: Any) -> list[Row]:
    """Return [row]: tflops of multiply-adds in that precision, and gbs of a copy.

    The list is empty if the device has no multiply-adds in this precision, such as bf16
    on a CPU.
    """
    where = checked_device(device)
    peak_rows = peaks(str(where))
    best = ceilings(peak_rows)
    if precision not in best:
        return []
    copy = next(row for row in peak_rows if row["rung"] == "copy")
    return [{
        **copy,
        **{"op": "mnist", "measure": "roof", "rung": "peaks", "layout": None},
        **{"precision": precision, "batch": None},
        **{"tflops": best[precision], "gbs": best["gbs"], **stamp_row()},
    }]  # fmt: skip
