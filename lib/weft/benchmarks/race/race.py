"""Run one heat of the race: our rungs and PyTorch at one precision and batch.

rows = run_heat("tf32", 256, device="cuda")

Every contender begins with the same weights. The contenders take many turns, one after
another, so that changes of the machine affect all of them. In each turn, a contender
takes several steps; their number depends on the time of one step. us is the median over
the turns. A contender that fails is reported and left out. A row contains one
contender's measurements and its ratios to PyTorch.

warm_twins() compiles the race's twins in advance, each in its own process. The race
then finds the code in torch's cache. torch.compile takes ten seconds or more per twin,
and parallel processes use all the machine's cores.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...base.device import checked_device, count_cores
from ...base.errors import ArgumentError, DeviceLost
from ...base.paths import LIB
from ...mnist import data
from ...mnist.data import epoch_order
from ...mnist.rungs import TWINS, TwinRung, impl_of, parse_twin, rungs_of, trainer
from ...mnist.twin import LAYOUTS, TwinTrainer
from ...mnist.weights import TrainingStep, exact_step, initial_weights
from ...timing import device_name
from ...timing.race import Contender, race
from ...timing.results import Row, add_torch_ratios, first_line, stamp_row
from ...timing.timers import SLOWEST, STEPS, count_steps, synchronize, time_host
from ...toolchain import native

_PROGRAM = (
    "import sys; from weft.benchmarks.race.race import compile_twins; "
    "compile_twins(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])"
)


def warm_twins(
    cells: Iterable[tuple[str, int]],
    device: str,
    twins: Sequence[str] | None = None,
    say: Say = print,
) -> None:
    """Compile the twins of all cells (precision, batch) in parallel, and wait.

    A failure is only reported, since it will occur again in the race. Twins that time
    kernels while they compile are left to the race, since times of parallel processes
    are meaningless.
    """
    names = twins_of(checked_device(device)) if twins is None else twins
    names = [*dict.fromkeys(filter(None, map(_name_compiled, names)))]
    jobs = [(*cell, device, [name]) for cell in cells for name in names]
    say(f"compiling PyTorch's twins in {len(jobs)} processes")
    with ThreadPoolExecutor(count_cores()) as pool:
        for (precision, batch, *_), why in zip(jobs, pool.map(_compile_aside, jobs)):
            if why:
                say(f"absent: compiled twin, {precision}, batch {batch}: {why}")


def _compile_aside(job: tuple[str, int, str, list[str]]) -> str:
    """Run compile_twins() in a process; return the reason for a failure, or ""."""
    precision, batch, device, names = job
    # Each process uses one core and starts no helpers.
    env = child_environment(TORCHINDUCTOR_COMPILE_THREADS="1", OMP_NUM_THREADS="1")
    words = [sys.executable, "-c", _PROGRAM, precision, str(batch), device, *names]
    process = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
    stderr = process.communicate()[1]
    if not process.returncode:
        return ""
    return (stderr.strip().splitlines() or ["it ended"])[-1]


def _name_compiled(name: str) -> str | None:
    """Return the twin's name without its graph; None if torch compiles nothing."""
    rung, _, layout = name.partition(" ")
    try:
        kind = parse_twin(rung).without_graph()
    except ArgumentError:  # the race will report this error
        return None
    in_advance = kind.compiled and not kind.autotune
    return f"{kind.name} {layout or 'nchw'}" if in_advance else None


def compile_twins(
    precision: str, batch: int, device: str, names: Sequence[str]
) -> None:
    """Run the first steps of each of these twins."""
    train = data.load("train")  # all images: the compiled code depends on their number
    for name in names:
        rung, _, layout = name.partition(" ")
        options = {"rung": rung, "layout": layout, "precision": precision}
        options |= {"device": device, "batch": batch}
        try:
            TwinTrainer(initial_weights(0), train, **options)
        except Exception as error:  # the other twins may still compile
            print(f"{name}: {first_line(error)}", file=sys.stderr)


def child_environment(**more: str) -> dict[str, str]:
    """Return this process's environment with `more`, and this package on the path."""
    paths = [str(LIB), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


Gradients = Callable[[np.ndarray], tuple[float, dict[str, np.ndarray]]]

PROFILED = 15  # steps whose sections are timed, after 3 untimed ones


def layer_times(profile: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return the median time of every section of a step, in microseconds."""
    steps = [profile() for _ in range(3 + PROFILED)][3:]
    return {name: float(np.median([step[name] for step in steps])) for name in steps[0]}


def mean_errors(
    gradients: Gradients, exact: Iterable[tuple[np.ndarray, TrainingStep]]
) -> Row:
    """Return the means of a contender's relative errors over some batches.

    exact: each batch's images and its step in float64; if empty, the errors are None.
    """
    errors = [step.errors(*gradients(order)) for order, step in exact]
    if not errors:
        return dict.fromkeys(("loss_error", "gradient_error", "gradient_errors"))
    loss = float(np.mean([one["loss_error"] for one in errors]))
    mean = {
        name: float(np.mean([one["gradient_errors"][name] for one in errors]))
        for name in errors[0]["gradient_errors"]
    }
    worst = float(np.max([*mean.values()]))  # NaN if any error is NaN
    return {"loss_error": loss, "gradient_error": worst, "gradient_errors": mean}


def free(device: torch.device) -> None:
    """Free memory that is no longer used, including PyTorch's."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


Say = Callable[[str], object]

HOST_STEPS = {"weft": 64, "torch": 4}  # steps queued in succession to time the host
CHECKED = 3  # batches to compare with float64


@dataclass(kw_only=True, eq=False)
class TrainingContender(Contender):
    """A contender that trains: its block() queues training steps.

    `gradients` computes loss and gradients without updating the weights.
    """

    gradients: Gradients
    peak: Callable[[], int | None]
    layers: Callable[[], dict[str, float] | None]
    close: Callable[[], object]
    kind: TwinRung = field(default_factory=TwinRung)  # the kind, if this is a twin

    def run_once(self) -> None:
        """Queue the untimed work before a sample.

        This work lasts as long as one launch, so the host queues the next launch
        meanwhile.
        """
        self.block(max(1, min(self.kind.graph, self.calls)))

    @property
    def name(self) -> str:
        """The contender's name in messages: "weft tiled", "PyTorch graph nchw"."""
        if self.row["impl"] == "torch":
            return f"PyTorch {self.row['rung']} {self.row['layout']}"
        return f"weft {self.row['rung']}"


@dataclass
class Heat:
    """The parameters of a heat; see run_heat()."""

    precision: str
    batch: int
    device: torch.device
    train: data.Split
    rounds: int = 25
    seed: int = 0
    lr: float = 0.01  # at this rate, numbers stay finite for thousands of steps
    say: Say = print
    model: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = initial_weights(self.seed, **self.model)
        self.order = epoch_order(self.seed, 0, len(self.train), self.batch)


def run_heat(
    precision: str,
    batch: int,
    *,
    device: str | torch.device = "cpu",
    rungs: Sequence[str] | None = None,
    twins: Sequence[str] | None = None,
    rounds: int = 25,
    seed: int = 0,
    train: data.Split | None = None,
    say: Say = print,
    **model: Any,
) -> list[Row]:
    """Return a row for every contender of this precision, ours first.

    rungs: our rungs; None: all that `device` runs in this precision without simulation.
    twins: PyTorch's, such as "graph nchw" (mnist/twin.py explains the names); None: as
    twins_of() selects. Each twin is also timed without its graph. model: sizes of the
    model that differ from the lesson's.

    The rows are those of `weft mnist` with these additional keys: host_us (the host's
    time to queue a step), peak_bytes, loss_error, gradient_error, gradient_errors
    (relative to float64, as the mean of some batches; None if unavailable),
    vs_torch_best and vs_torch_eager.
    """
    where = checked_device(device)
    train = train or data.load("train")
    if not 1 <= batch <= (count := len(train)):
        raise ArgumentError(
            f"batch={batch}: expected 1 to {count}, the training images"
        )
    heat = Heat(precision, batch, where, train, rounds, seed, say=say, model=model)
    torch.compiler.reset()  # this drops the code compiled for other batches
    contenders: list[TrainingContender] = []
    try:
        with native.on_device(where):
            contenders += _gather(heat, rungs, twins)
            rows = _make_rows(heat, contenders)
    finally:
        for contender in contenders:
            contender.close()
        contenders.clear()
        free(where)
    return rows


def twins_of(device: torch.device) -> list[str]:
    """Return PyTorch's twins in a race on a device, as "RUNG LAYOUT".

    A race also times each captured twin without its graph, so that "graph" provides
    the rows of "eager".
    """
    kinds = [parse_twin(name) for name in TWINS[device.type]]
    provided = {kind.without_graph() for kind in kinds if kind.graph}
    names = [kind.name for kind in kinds if kind not in provided]
    return [f"{name} {layout}" for name in names for layout in LAYOUTS]


# ---- contenders ----------------------------------------------------------------


def _gather(
    heat: Heat, rungs: Sequence[str] | None, twins: Sequence[str] | None
) -> Iterator[TrainingContender]:
    """Make all contenders and run a step of each; report failures."""
    device = heat.device
    rungs = rungs_of(heat.precision, device, heat.batch) if rungs is None else rungs
    twins = twins_of(device) if twins is None else twins
    makers = [(f"weft {rung}", _make_ours, rung) for rung in rungs]
    makers += [(f"PyTorch {name}", _make_theirs, name) for name in twins]
    names: set[str] = set()
    for name, make, kind in makers:
        contenders: list[TrainingContender] = []
        try:
            # Twins that differ only in their graphs share a version without a graph.
            contenders += [one for one in make(heat, kind) if one.name not in names]
            for contender in contenders:
                contender.run_once()
            synchronize(device)
        except DeviceLost:
            raise
        except Exception as error:  # torch.compile fails in many ways
            heat.say(f"absent: {name}: {first_line(error)}")
            for contender in contenders:
                contender.close()
            contenders.clear()
            free(device)  # the contender may have run out of memory
            continue
        names |= {contender.name for contender in contenders}
        yield from contenders


def _make_ours(heat: Heat, rung: str) -> list[TrainingContender]:
    cnn = trainer(rung, heat.device, max_batch=heat.batch, **heat.model)
    if cnn.rung.precision != heat.precision:
        cnn.close()
        raise ArgumentError(f"it trains in {cnn.rung.precision}")
    cnn.data(heat.train)
    cnn.set_weights(heat.weights)
    # The image order is as long as the longest sample, so each sample is a single call.
    longest = np.resize(heat.order, STEPS[1] * heat.batch)

    def run(steps: int) -> None:
        cnn.train(longest[: steps * heat.batch], heat.batch, heat.lr)

    row = {"impl": impl_of(rung), "rung": rung, "layout": "nchw"}

    def take(order: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        cnn.set_weights(heat.weights)
        cnn.losses()
        cnn.train(order, heat.batch, 0.0)
        return float(cnn.losses()[-1]), cnn.gradients

    def layers() -> dict[str, float]:
        return layer_times(lambda: cnn.profile(heat.order[: heat.batch], heat.lr))

    work = {"block": run, "gradients": take, "layers": layers, "close": cnn.close}
    return [TrainingContender(row=row, peak=lambda: cnn.bytes, **work)]


def _make_theirs(heat: Heat, name: str) -> list[TrainingContender]:
    """Make a twin, and the same twin without its graph."""
    rung, _, layout = name.partition(" ")
    compiled = parse_twin(rung).compiled
    kind = "compiles, which may take a minute" if compiled else "prepares"
    heat.say(f"PyTorch {name} {kind}")
    options = {"rung": rung, "layout": layout or "nchw", "precision": heat.precision}
    options |= {"device": heat.device, "batch": heat.batch, "lr": heat.lr}
    twin = TwinTrainer(heat.weights, heat.train, **options, **heat.model)
    pair = [twin, twin.without_graph()] if twin.kind.graph else [twin]
    return [_make_twin(heat, one) for one in pair]


def _make_twin(heat: Heat, twin: TwinTrainer) -> TrainingContender:
    longest = twin.order(np.resize(heat.order, STEPS[1] * heat.batch))

    def run(steps: int) -> None:
        with twin.mode():
            twin.queue(longest[: steps * heat.batch])

    def take(order: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        twin.set_weights(heat.weights)
        return twin.gradients(twin.order(order))

    row = {"impl": "torch", "rung": twin.rung, "layout": twin.layout}
    return TrainingContender(
        **{"block": run, "row": row, "gradients": take, "layers": lambda: None},
        **{"peak": lambda: twin.peak_bytes, "close": lambda: None},
        kind=twin.kind,
    )


# ---- measurements ------------------------------------------------------------------


def _make_rows(heat: Heat, contenders: list[TrainingContender]) -> list[Row]:
    exact = _compute_exact(heat)
    free(heat.device)
    rows_by_name = {one.name: _measure_alone(heat, one, exact) for one in contenders}
    valid = {name: row for name, row in rows_by_name.items() if row}
    usable = [one for one in contenders if one.name in valid]
    for one in usable:
        one.calls, one.limit = (valid[one.name]["steps"], SLOWEST)
    timed = race({one.name: one for one in usable}, heat.device, rounds=heat.rounds)
    rows = []
    for one in usable:
        timing = timed[one.name].timing
        row = {"op": "mnist", "measure": "step", **one.row}
        row |= {"precision": heat.precision, "target": heat.device.type}
        row |= {"device": device_name(heat.device), **timing.row()}
        row |= {"batch": heat.batch, "samples": timing.samples, **valid[one.name]}
        row |= {"peak_bytes": one.peak(), "seed": heat.seed}
        rows.append(row | {"threads": torch.get_num_threads(), **stamp_row()})
    add_torch_ratios(rows)
    return rows


def _measure_alone(
    heat: Heat, one: TrainingContender, exact: list[TrainingStep]
) -> Row:
    """Measure a contender by itself; return {} if it fails."""
    try:
        errors = mean_errors(one.gradients, zip(_split_batches(heat), exact))
        steps = HOST_STEPS["torch" if one.row["impl"] == "torch" else "weft"]
        steps = max(steps, one.kind.graph)
        return {
            "steps": one.kind.fill_launch(count_steps(one.block, heat.device)),
            "host_us": time_host(one.block, steps, heat.device),
            "layers_us": one.layers(),
            **errors,
        }
    except DeviceLost:
        raise
    except Exception as error:
        heat.say(f"absent: {one.name}: {first_line(error)}")
        return {}


def _compute_exact(heat: Heat) -> list[TrainingStep]:
    """Return the float64 steps of some batches, or [] if memory is too small."""
    try:
        images, labels = heat.train.images, heat.train.labels
        return [
            exact_step(heat.weights, images[part], labels[part], heat.device)
            for part in _split_batches(heat)
        ]
    except torch.OutOfMemoryError:
        heat.say(f"absent: errors at batch {heat.batch}: float64 exceeds memory")
        return []


def _split_batches(heat: Heat) -> np.ndarray:
    """Return the batches that are compared with float64."""
    count = CHECKED if heat.batch <= 1024 else 1
    return heat.order.reshape(-1, heat.batch)[:count]
