"""Map a rung's name to its trainer, and define the configuration of a run.

TwinRung defines the rungs of PyTorch's twin; twin.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import device as devices
from ..base.device import Device, checked_device
from ..base.errors import ArgumentError
from ..toolchain import native
from ..toolchain.native import Rung
from .data import MEAN, STD
from .trainer import Cnn, Trainer
from .weights import parameter_shapes

if TYPE_CHECKING:
    import torch


LADDER = "ladder"  # the option for every rung that runs on the device


@dataclass(frozen=True)
class Config:
    """The options of `python -m weft mnist`; the lesson uses the defaults."""

    # "naive", "numba,naive" or "ladder"; None: the fastest in fp32
    rung: str | None = None
    device: str = "cpu"
    epochs: int = 3
    batch: int = 64
    lr: float = 0.1
    seed: int = 0
    threads: int = 0  # CPU threads for our kernels and PyTorch; 0: see base/device.py
    compare: bool = False
    twins: tuple[str, ...] | None = None  # twins to race, "eager nchw", ...; None: all
    iterations: int = 100  # steps timed per contender
    limit: int | None = None  # number of training images, from the first; None: all
    load: str | Path | None = None  # file of the initial weights
    save: str | Path | None = None
    progress: bool = True
    # For several workers; see parallel.py.
    batchnorm: str = "local"  # statistics of the worker's images, or "global"
    graph: str = "auto"  # NCCL's sums in a CUDA graph, if they can be; or "off"
    checkpoint: str | Path | None = None  # a folder
    checkpoint_every: int = 100  # steps
    resume: bool = False  # whether to continue from the last checkpoint
    timeout: float = 60.0  # seconds within which a hung worker is an error

    def __post_init__(self) -> None:
        minima = {"epochs": 0, "batch": 1, "iterations": 1, "threads": 0, "seed": 0}
        minima |= {"checkpoint_every": 1, "timeout": 1}
        for name, minimum in minima.items():
            if (value := getattr(self, name)) < minimum:
                raise ArgumentError(f"{name}={value}: expected at least {minimum}")
        if not 0 <= self.lr < float("inf"):
            raise ArgumentError(f"lr={self.lr}: expected a number of at least 0")
        if len(set(self.rungs)) < len(self.rungs):
            raise ArgumentError(f"rung={self.rung}: one of them is listed twice")
        if self.batchnorm not in ("local", "global"):
            raise ArgumentError(f"batchnorm={self.batchnorm}: expected local or global")
        if self.graph not in ("auto", "off"):
            raise ArgumentError(f"graph={self.graph}: expected auto or off")
        if self.resume and not self.checkpoint:
            raise ArgumentError("resume: expected also a folder, checkpoint=DIR")

    @property
    def rungs(self) -> list[str]:
        """The names of the rungs that the run times and trains."""
        return [name.strip() for name in (self.rung or FASTEST).split(",")]


FASTEST = "fastest"
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
# This rung trains with weft.pykernel.bodies; see python_cnn.py.
NUMBA = Rung("mnist", "numba", "Python bodies by Numba", "fp32", ("cuda",), 0, -1)
# The largest batch at which a slow rung races, unless it is requested by name.
SLOW = {"numba": 0, "naive": 256, "tiled": 4096}
VENDOR = "cudnn"  # the rung that calls NVIDIA's libraries
IMAGES = 60_000  # images in an epoch


# ---- PyTorch's rungs -------------------------------------------------------------

COMPILED = ("", "compile", "compile-step")


@dataclass(frozen=True)
class TwinRung:
    """A way to run a step of PyTorch's twin; its name has a word for each choice.

    compiled  "compile": torch.compile compiles the forward and the backward pass;
              "compile-step": also the update, all as one function; "": nothing
    autotune  whether torch.compile times kernels (mode max-autotune-no-cudagraphs)
    graph     number of steps in a CUDA graph (GPU only); 0: no graph
    biases    whether convolutions add the biases that batch norm cancels; ours do not
    """

    compiled: str = ""
    autotune: bool = False
    graph: int = 0
    biases: bool = True

    @property
    def name(self) -> str:
        """The name: "eager", "compile+graph", "compile-step+graph64+nobias", ..."""
        words = [self.compiled, "autotune" * self.autotune]
        words.append(f"graph{self.graph if self.graph > 1 else ''}" * bool(self.graph))
        words[0] = words[0] or "eager" * (not self.graph)
        words.append("nobias" * (not self.biases))
        return "+".join(word for word in words if word)

    @property
    def family(self) -> str:
        """The name without details: "eager", "compile", "graph" or "compile+graph"."""
        return TwinRung("compile" * bool(self.compiled), graph=min(1, self.graph)).name

    @property
    def sizes(self) -> list[int]:
        """The numbers of steps in its CUDA graphs: 64, 8, 1, as in our rung "graph"."""
        steps = [self.graph] if self.graph else []
        while steps and steps[-1] > 1:
            steps.append(max(1, steps[-1] // 8))
        return steps

    def fill_launch(self, steps: int) -> int:
        """Return the number of steps to time: `steps` or, if larger, a whole launch.

        If a launch has more than 8 times as many steps, it would be too slow, and the
        result is `steps`.
        """
        return self.graph if steps < self.graph <= 8 * steps else steps

    def without_graph(self) -> TwinRung:
        """Return the same rung without its graph."""
        return replace(self, graph=0)


def parse_twin(name: str) -> TwinRung:
    """Return the rung with this name; raise ArgumentError if PyTorch lacks it."""
    words = name.split("+")
    graph = next((word[5:] for word in words if word.startswith("graph")), "0")
    rung = TwinRung(
        compiled=next((word for word in words if word.startswith("compile")), ""),
        autotune="autotune" in words,
        graph=int(graph or 1) if graph.isdecimal() or not graph else 0,
        biases="nobias" not in words,
    )
    unknown = rung.name != name or rung.compiled not in COMPILED
    if unknown or (rung.autotune and not rung.compiled):
        raise ArgumentError(
            f"no twin {name}: PyTorch has eager, compile and compile-step; after "
            "these +autotune, +graph or +graph64, and +nobias, in this order"
        )
    return rung


LEAST_SM = {"tf32": 80, "bf16": 80, "fp16": 70}  # compute capability times 10


def check_precision(name: str, device: Device) -> None:
    """Raise ArgumentError if PyTorch does not train in `name` on that device."""
    if name not in PRECISIONS:
        names = ", ".join(PRECISIONS)
        raise ArgumentError(f"no PyTorch twin in {name}; there are {names}")
    if device.type == "cpu":
        if name == "tf32":
            raise ArgumentError("PyTorch has no tf32 on a CPU: it would train in fp32")
        return
    major, minor = devices.compute_capability(device.index)
    minimum = LEAST_SM.get(name, 0)
    if 10 * major + minor < minimum:
        raise ArgumentError(
            f"{name} requires at least sm_{minimum}; {devices.name(device.index)} "
            f"is sm_{major}{minor}"
        )


# The twins of a race. Most people would write "eager" or "graph", which have never won;
# each of the others has won at times. On an H200 a step of 64 images took (us, nchw /
# channels-last):
#
#                                  fp32          tf32          bf16
#     compile+graph                288 / 304     268 / 227     242 / 208
#     compile+graph64+nobias       272.6 / 291   252 / 212.3   227 / 201.3
#     compile-step+graph64+nobias  277 / 289     228 / 213     not measured
#
# TWINS omits "compile+graph", which does the same with more work. "autotune" took 309
# us instead of 291 us (fp32, channels-last). It has not been measured on a CPU.
TWINS = {
    "cpu": ("eager", "eager+nobias", "compile+nobias", "compile-step+nobias"),
    "cuda": (
        *("eager", "graph"),
        *("compile+graph64+nobias", "compile-step+graph64+nobias"),
    ),
}


# ---- ours ------------------------------------------------------------------------


def rungs(target: str) -> list[Rung]:
    """Return all rungs: the Python rung, then those of the C library for `target`."""
    return [NUMBA, *native.rungs("mnist", target)]


def rungs_of(precision: str, device: Device, batch: int = 1) -> list[str]:
    """Return our rungs of that precision that run on the device in reasonable time.

    On the CPU, simulated rungs are too slow.
    """
    names = []
    for rung in rungs(device.type):
        runs = rung.targets == ("cpu",)
        if device.type == "cuda":
            major, minor = devices.compute_capability(device.index)
            runs = "cuda" in rung.targets and rung.sm <= 10 * major + minor
        is_slow = batch > SLOW.get(rung.name, batch)
        if runs and not is_slow and rung.precision == precision:
            names.append(rung.name)
    return names


def impl_of(rung: str) -> str:
    """Return the origin of a rung's kernels: "weft", or NVIDIA's library."""
    return VENDOR if rung == VENDOR else "weft"


def list_ladder(device: Device, batch: int) -> list[str]:
    """Return our rungs that run on the device, in table order; see rungs_of()."""
    names = [name for p in PRECISIONS for name in rungs_of(p, device, batch)]
    return [rung.name for rung in rungs(device.type) if rung.name in names]


def trainer(rung: str | None, device: str | torch.device, **model: Any) -> Trainer:
    """Create a model that a rung trains; see Cnn for `model`.

    rung: "numba" trains with pykernel/bodies; other rungs are in the C library. None
    and "fastest" select the fastest in fp32. Raises ArgumentError if the rung cannot
    run on the device.
    """
    target = checked_device(device).type
    if rung == NUMBA.name:
        if target == "cpu":
            raise ArgumentError(_why_not())
        # Imported lazily: it imports PyTorch, which the C trainer does not need.
        from .python_cnn import PythonCnn

        return PythonCnn(device=device, **model)
    names = {r.name: target in r.targets for r in rungs(target)}
    if rung not in (None, FASTEST, *names):
        others = ", ".join(name for name, runs in names.items() if runs)
        raise ArgumentError(f"mnist has no rung '{rung}' on {target}; it has {others}")
    return Cnn(None if rung == FASTEST else rung, device, **model)


def threads_of_a_step(batch: int = 64, **sizes: int) -> int:
    """Return the number of threads in all launches of a training step."""
    import torch

    # Imported lazily: it imports PyTorch, which the C trainer does not need.
    from .python_cnn import PythonStep

    config = {"height": 28, "width": 28, "channels1": 32, "channels2": 64}
    config |= {"hidden": 128, "classes": 10, "max_batch": batch} | sizes
    count = 0

    class Counter:
        def __getitem__(self, key: tuple[int, int]) -> Callable[..., None]:
            nonlocal count
            count += key[0] * key[1]
            return lambda *args: None

    # Tensors on the device "meta" have sizes but no memory.
    meta, shapes = torch.device("meta"), parameter_shapes(config)
    step = PythonStep(lambda body: Counter(), meta, config, shapes, 1e-5)
    bytes_ = torch.empty(0, device=meta)
    for launches in (
        *[step.load(bytes_, bytes_, batch, MEAN, STD), step.forward(batch)],
        *[step.loss(batch), step.backward(batch), [step.update(0.1)]],
    ):
        list(launches)
    return count


def _why_not() -> str:
    # Imported lazily: it imports PyTorch, which the C trainer does not need.
    from ..pykernel.numba import PER_THREAD

    hint = "add --device cuda" if devices.count() else "there is none here"
    batch = 64
    threads = threads_of_a_step(batch)
    days = threads * PER_THREAD * IMAGES / batch / 86400
    return (
        f"rung 'numba' runs on a GPU ({hint}). Numba's simulator takes "
        f"{1e3 * PER_THREAD:g} ms a thread, and a step on {batch} images has "
        f"{threads / 1e6:.0f} million: an epoch would take {days:.0f} days. "
        f"--rung naive runs the same kernels in CUDA C, on the CPU too"
    )
