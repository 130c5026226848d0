"""Is a kernel right? Every rung against float64, and nothing is timed before.

A case (cases/) is run with every array between guard zones, every output
poisoned with NaN beforehand, and on the CPU once per order of threads. Then:
all guard zones and inputs must be untouched, and every output within its bound
of the float64 answer. NaN where a number is due is a failure.

`python -m weft check [OP]` checks every rung that runs here; `python -m weft check
matmul --sanitizer` runs them under compute-sanitizer instead (sanitizer.py).

Whether a rung has passed its check: asked before anything is timed.

The check runs once for each build. That it was passed is remembered in the cache under
the library's name, which holds the hash of all sources, and the hash of what checks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base import arrays as guarded
from ..base import store
from ..base.arrays import Guarded
from ..base.errors import KernelError, Mismatch
from ..timing import device_name
from ..toolchain import keys, native
from .cases import Answer, Case, cases

_CTYPES = {
    torch.float32: "float *",
    torch.int32: "int32_t *",
    torch.int64: "int64_t *",
}


@dataclass(frozen=True)
class Verdict:
    """That one rung passed: how many runs, and its largest error over bound."""

    op: str
    rung: str
    precision: str
    target: str
    runs: int
    worst: float


def check_op(
    op: str, rung: str | None = None, target: str = "cpu", wide: int = 0
) -> list[Verdict]:
    """Check `op`'s rungs (or one) on "cpu" or "cuda"; raise Mismatch if one fails.

    wide: with so many random cases more, where the op has such (cases/).
    """
    lib = native.library(op, target)
    chosen = [lib.rung(rung)] if rung else lib.here()
    return [check_rung(lib, r, wide) for r in chosen]


def check_rung(lib: native.Library, rung: native.Rung, wide: int = 0) -> Verdict:
    """Check one rung of an open library with every case of its op."""
    device = torch.device("cuda", torch.cuda.current_device()) if (
        lib.target == "cuda"
    ) else torch.device("cpu")  # fmt: skip
    runs, worst = 0, 0.0
    for turn, case in enumerate(cases(rung.op, 0, rung.precision, wide)):
        for order in _set_orders(lib, rung, None if case.every_order else turn):
            try:
                worst = max(worst, run_case(lib, rung.index, case, device))
            except (Mismatch, KernelError) as error:
                where = f"{rung.op} '{rung.name}' on {lib.target}, {case.title}"
                where += f", threads {order}" if order else ""
                raise Mismatch(f"{where}: {error}") from None
            runs += 1
    return Verdict(rung.op, rung.name, rung.precision, lib.target, runs, worst)


def run_case(lib: Any, rung: int, case: Case, device: torch.device) -> float:
    """Run one case; returns its largest error over bound, raises Mismatch."""
    inputs = {
        name: Guarded(tensor, device, case.shift.get(name, 0))
        for name, tensor in case.inputs.items()
        if tensor is not None
    }
    outputs = {
        name: Guarded(_start(case, name, answer), device, case.shift.get(name, 0))
        for name, answer in case.answers.items()
    }
    rooms: list[Guarded] = []

    def workspace(bytes_: int) -> Any:  # NaN, whatever a kernel takes it for
        rooms.append(Guarded(np.full(bytes_, 0xFF, np.uint8), device))
        return native.pointer(rooms[-1].tensor, "void *")

    pointers = {name: pointer(array) for name, array in (inputs | outputs).items()}
    pointers |= {n: native.NULL for n, t in case.inputs.items() if t is None}
    pointers["workspace"] = workspace
    stream = native.stream_of(device)
    case.launch(lib, rung, pointers, stream)
    lib.call("weft_sync", stream)
    for name, array in inputs.items():
        array.verify_untouched(name)
    for room in rooms:
        room.verify_guards("the workspace")
    worst = 0.0
    for name, array in outputs.items():
        array.verify_guards(name)
        worst = max(worst, compare(name, array.values(), case.answers[name]))
    return worst


def compare(name: str, got: torch.Tensor, answer: Answer) -> float:
    """guarded.compare() with an Answer: raises Mismatch, returns error over bound."""
    return guarded.compare(name, got, answer.want, answer.bound)


def pointer(array: Guarded) -> Any:
    """Where the array lies, as weft.h wants it."""
    tensor = array.tensor
    return native.pointer(tensor, _CTYPES.get(tensor.dtype, "void *"))


def _set_orders(lib: Any, rung: native.Rung, turn: int | None) -> Iterator[str]:
    """Set each order of threads, or that whose turn it is, where there are threads."""
    if rung.targets == ("cpu",) or lib.target != "cpu":  # or plain C
        yield ""
        return
    try:
        for number, name in enumerate(guarded.ORDERS):
            if turn is not None and turn % len(guarded.ORDERS) != number:
                continue
            lib.call("weft_set_order", number)
            yield name
    finally:
        lib.call("weft_set_order", 0)


def _start(case: Case, name: str, answer: Answer) -> torch.Tensor:
    """What an output holds before the call: poison, unless the op reads it."""
    if name in case.initial:
        return case.initial[name]
    shape, dtype = tuple(answer.want.shape), answer.dtype
    return torch.from_numpy(np.full(shape, guarded.poison(str(dtype)[6:]))).to(dtype)


class NotChecked(Mismatch):
    """A kernel is not timed, since it is wrong."""


def require(lib: native.Library, rung: native.Rung) -> Verdict:
    """Check the rung, unless this build of it has passed on this device before.

    Raises NotChecked with what is wrong.
    """
    path = _verdict_path(lib, rung)
    if path.exists():
        return Verdict(**json.loads(path.read_text()))
    try:
        verdict = check_rung(lib, rung)
    except Mismatch as error:
        raise NotChecked(f"not timed, since it is wrong: {error}") from None
    store.write(path, json.dumps(vars(verdict)))
    return verdict


def _verdict_path(lib: native.Library, rung: native.Rung) -> Path:
    device = device_name(lib.target)
    said = f"{lib.path.name} {rung.name} {device} {keys.hash_sources(*keys.CHECKER)}"
    digest = hashlib.sha256(said.encode()).hexdigest()[:24]
    return store.cache_folder("checked") / f"{rung.op}-{rung.name}-{digest}.json"
