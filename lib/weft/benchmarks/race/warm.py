"""Compile the race's twins ahead of it, in one process each, into torch's own cache.

torch.compile takes ten seconds or more a twin, one after the other; the processes share
the machine's cores. The race then finds the code in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence

from ...base.paths import ROOT
from ...mnist import data
from ...mnist.trainer import checked_device
from ...mnist.twin import TwinTrainer
from ...mnist.weights import initial_weights
from ...timing.results import first_line
from .race import Say, twins_of

_PROGRAM = (
    "import sys; from weft.benchmarks.race.warm import compile_twins; "
    "compile_twins(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])"
)


def warm_twins(
    cells: Iterable[tuple[str, int]],
    device: str,
    twins: Sequence[str] | None = None,
    say: Say = print,
) -> None:
    """Compile the twins of all cells (precision, batch) side by side, and wait.

    What fails is told: the race will find out again.
    """
    names = twins_of(checked_device(device)) if twins is None else twins
    names = [name for name in names if name.startswith("compile")]
    jobs = {
        (precision, batch): _start(precision, batch, device, names)
        for precision, batch in cells
        if names
    }
    say(f"compiling PyTorch's twins in {len(jobs)} processes")
    for (precision, batch), job in jobs.items():
        said = job.communicate()[1]
        if job.returncode:
            last = (said.strip().splitlines() or ["it ended"])[-1]
            say(f"not compiled ahead: {precision}, batch {batch}: {last}")


def compile_twins(
    precision: str, batch: int, device: str, names: Sequence[str]
) -> None:
    """Let each of these twins take its first steps."""
    # All images: how many there are is part of what is compiled.
    train = data.load("train")
    for name in names:
        layout = name.partition(" ")[2] or "nchw"
        options = {"rung": "compile", "layout": layout, "precision": precision}
        try:
            TwinTrainer(
                *[initial_weights(0), train], device=device, batch=batch, **options
            )
        except Exception as error:  # the others may do better
            print(f"{name}: {first_line(error)}", file=sys.stderr)


def _start(
    precision: str, batch: int, device: str, names: Sequence[str]
) -> subprocess.Popen[str]:
    paths = [str(ROOT / "lib"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        # Each of them has a core, and no helpers of its own.
        **{"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"},
    }
    words = [sys.executable, "-c", _PROGRAM, precision, str(batch), device, *names]
    return subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
