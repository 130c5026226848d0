"""Check every rung against float64, and backward passes against autograd.

check_op() runs a case (cases/) with every array between guard zones and every output
poisoned with NaN. On the CPU, it runs the case once per order of threads. Then all
guard zones and inputs must be untouched, and every output must be within its bound of
the float64 answer. An unexpected NaN is a failure. `python -m weft check [OP]` checks
every rung that runs on this machine. `python -m weft check matmul --sanitizer` runs the
rungs under compute-sanitizer instead (commands/check.py).

require() ensures, before a timing, that a rung has passed its check. The check runs
once for each build. The cache records a pass under two hashes. One is the hash of all
sources, which is part of the library's name. The other is the hash of the checking
code.

check_numeric() compares a backward pass with finite differences of the forward pass,
and check_autograd() with torch's gradients. Both raise Mismatch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base import arrays as guarded
from ..base import store
from ..base.arrays import Guarded
from ..base.errors import KernelError, Mismatch
from ..base.progress import PATIENCE, Progress
from ..base.text import count_things
from ..timing import device_name
from ..toolchain import keys, native
from .cases import Answer, Case, cases, sum_bound

_CTYPES = {
    **{torch.float32: "float *", torch.int32: "int32_t *"},
    **{torch.int64: "int64_t *", torch.uint8: "uint8_t *"},
}


@dataclass(frozen=True)
class RungVerdict:
    """The verdict on a rung that passed. runs: number of runs. worst: the
    largest ratio of an error to its bound.
    """

    op: str
    rung: str
    precision: str
    target: str
    runs: int
    worst: float


def check_op(
    op: str, rung: str | None = None, target: str = "cpu", wide: int = 0
) -> list[RungVerdict]:
    """Check `op`'s rungs (or one) on "cpu" or "cuda"; raise Mismatch if one fails.

    wide: number of additional random cases, if the op has any (cases/).
    """
    lib = native.library(op, target)
    chosen = [lib.rung(rung)] if rung else lib.here()
    return [check_rung(lib, r, wide) for r in chosen]


def check_rung(
    lib: native.Library,
    rung: native.Rung,
    wide: int = 0,
    some: Iterable[Case] | None = None,
) -> RungVerdict:
    """Check one rung of an open library with every case of its op, or with `some`."""
    device = torch.device("cpu")
    if lib.target == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    runs, worst = 0, 0.0
    chosen = (
        cases(rung.op, 0, rung.precision, wide, rung.name) if some is None else some
    )
    with Progress(f"checking {rung.op} {rung.name}", delay=PATIENCE) as job:
        for turn, case in enumerate(chosen):
            for order in _set_orders(lib, rung, None if case.every_order else turn):
                try:
                    worst = max(worst, run_case(lib, rung.index, case, device))
                except (Mismatch, KernelError) as error:
                    place = f"{rung.op} '{rung.name}' on {lib.target}, {case.title}"
                    place += f", threads {order}" if order else ""
                    raise Mismatch(f"{place}: {error}") from None
                runs += 1
                job.update(1, count_things(runs, "run"))
    return RungVerdict(rung.op, rung.name, rung.precision, lib.target, runs, worst)


def pointer(array: Guarded) -> Any:
    """Return the array's address as the pointer type that weft.h declares."""
    tensor = array.tensor
    return native.pointer(tensor, _CTYPES.get(tensor.dtype, "void *"))


def run_case(
    lib: Any,
    rung: int,
    case: Case,
    device: torch.device,
    point: Callable[[Guarded], Any] = pointer,
) -> float:
    """Run one case; return the largest error divided by its bound; raise Mismatch.

    point: a function that converts an array to an argument of `lib`.
    """

    def guard(name: str, tensor: torch.Tensor) -> Guarded:
        return Guarded(tensor, device, case.shift.get(name, 0))

    inputs = {n: guard(n, x) for n, x in case.inputs.items() if x is not None}
    outputs = {n: guard(n, _start(case, n, x)) for n, x in case.answers.items()}
    workspaces: list[Guarded] = []

    def workspace(bytes_: int) -> Any:  # its bytes are NaN in each float type
        workspaces.append(Guarded(np.full(bytes_, 0xFF, np.uint8), device))
        return native.pointer(workspaces[-1].tensor, "void *")

    pointers = {name: point(array) for name, array in (inputs | outputs).items()}
    pointers |= {n: native.NULL for n, t in case.inputs.items() if t is None}
    pointers["workspace"] = workspace
    stream = native.stream_of(device)
    case.launch(lib, rung, pointers, stream)
    lib.call("weft_sync", stream)
    for name, array in inputs.items():
        array.verify_untouched(name)
    for workspace_array in workspaces:
        workspace_array.verify_guards("the workspace")
    worst = 0.0
    for name, array in outputs.items():
        array.verify_guards(name)
        worst = max(worst, compare(name, array.values(), case.answers[name]))
    return worst


def compare(name: str, got: torch.Tensor, answer: Answer) -> float:
    """Return the largest error divided by its bound; raise Mismatch if it exceeds 1."""
    want, n = answer.want, answer.any_order
    if n:
        got, want = (
            torch.cat([x[:n].sort().values, x[n:]])
            for x in (torch.as_tensor(got), want)
        )
    return guarded.compare(name, got, want, answer.bound)


def _set_orders(lib: Any, rung: native.Rung, turn: int | None) -> Iterator[str]:
    """Set each order of threads in turn, or only that of `turn`; yield its name.

    Yields "" once if the order of threads cannot be set.
    """
    # A rung in plain C, or on a GPU, has no order of threads.
    if rung.targets == ("cpu",) or lib.target != "cpu":
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
    """Return an output's content before the call: poison, unless the op reads it."""
    if name in case.initial:
        return case.initial[name]
    shape, dtype = tuple(answer.want.shape), answer.dtype
    return torch.from_numpy(np.full(shape, guarded.poison(str(dtype)[6:]))).to(dtype)


class NotChecked(Mismatch):
    """A kernel was not timed because it is wrong."""


def require(lib: native.Library, rung: native.Rung) -> RungVerdict:
    """Check the rung, unless this build has already passed on this device.

    Raises NotChecked with the error.
    """
    path = _verdict_path(lib, rung)
    if path.exists():
        return RungVerdict(**json.loads(path.read_text()))
    try:
        verdict = check_rung(lib, rung)
    except Mismatch as error:
        raise NotChecked(f"not timed, since it is wrong: {error}") from None
    store.write(path, json.dumps(vars(verdict)))
    return verdict


def _verdict_path(lib: native.Library, rung: native.Rung) -> Path:
    device = device_name(lib.target)
    text = f"{lib.path.name} {rung.name} {device} {keys.hash_sources(*keys.CHECKER)}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    return store.cache_folder("checked") / f"{rung.op}-{rung.name}-{digest}.json"


# With this step, the truncation error is about as large as the rounding error.
STEP = float(np.finfo(np.float64).eps ** (1 / 3))
# Tolerance for numeric gradients, which are accurate to about 1e-10.
TOLERANCE = 1e-7
Shape = tuple[int, ...]


def numeric_gradient(
    loss: Callable[[np.ndarray], float], x: np.ndarray, h: float = STEP
) -> np.ndarray:
    """Return the gradient of loss(x) by central differences, one element at a time.

    x: float64, any shape; changed in place and restored. Calls `loss` twice for each
    element of x.
    """
    dx = np.empty_like(x)
    for i in np.ndindex(x.shape):
        value = x[i]
        x[i] = value + h
        high = loss(x)
        x[i] = value - h
        low = loss(x)
        x[i] = value
        dx[i] = (high - low) / (2 * h)
    return dx


def check_numeric(
    forward: Callable[..., np.ndarray],
    backward: Callable[..., Any],
    **inputs: Shape | np.ndarray,
) -> None:
    """Check backward(dy, *inputs) against differences of forward(*inputs).

    inputs: in the order of forward's parameters; a shape becomes random float64
    numbers. The loss is sum(forward(...) * dy) with a random dy, so that its gradient
    with respect to the output is dy. backward returns a tuple with one gradient for
    each input, or a single gradient. Prints one line; raises Mismatch.
    """
    rng = np.random.default_rng(0)
    arrays = {
        n: x.copy() if isinstance(x, np.ndarray) else rng.standard_normal(x)
        for n, x in inputs.items()
    }
    dy = rng.standard_normal(np.shape(forward(*arrays.values())))
    got = backward(dy, *(array.copy() for array in arrays.values()))
    got = got if isinstance(got, tuple) else (got,)
    if len(got) != len(arrays):
        raise Mismatch(
            f"backward returned {len(got)} gradients for {len(arrays)} inputs "
            f"({', '.join(arrays)})"
        )
    for (name, array), gradient in zip(arrays.items(), got):
        want = numeric_gradient(lambda _: np.sum(forward(*arrays.values()) * dy), array)
        bound = TOLERANCE * np.maximum(1.0, np.abs(want))
        answer = Answer(torch.from_numpy(want), torch.from_numpy(bound))
        compare(f"d{name}", torch.as_tensor(np.asarray(gradient)), answer)
    print(f"{_join_names(arrays)}: equal to finite differences")


def check_autograd(
    ours: Callable[..., torch.Tensor],
    torchs: Callable[..., torch.Tensor],
    terms: Sequence[int],
    size: Callable[..., Sequence[torch.Tensor]] | None = None,
    device: str | torch.device = "cpu",
    **shapes: Shape,
) -> None:
    """Check the gradients of `ours` (float32) against those of `torchs` (float64).

    terms: for each input, the number of products summed into one element of its
    gradient. size(dy, *inputs): for each input, the sum of the absolute products. The
    default is torch's gradient of the absolute values, which is correct if the function
    is linear in each input. terms and size determine the bound (see cases.sum_bound).

    Prints the largest error divided by its bound; raises Mismatch if it exceeds 1.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(*shape, generator=generator) for shape in shapes.values()]
    with torch.no_grad():
        dy = torch.randn(torchs(*inputs).shape, generator=generator)
    got = _run_autograd(ours, [t.to(device) for t in inputs], dy.to(device))
    exact, dy = [t.double() for t in inputs], dy.double()
    want = _run_autograd(torchs, exact, dy)
    absolute = [t.abs() for t in exact]
    sizes = size(dy, *exact) if size else _run_autograd(torchs, absolute, dy.abs())
    worst = 0.0
    for name, g, w, k, s in zip(shapes, got, want, terms, sizes, strict=True):
        answer = Answer(w, sum_bound(k, s))
        worst = max(worst, compare(f"d{name}", g.cpu(), answer))
    print(f"{_join_names(shapes)}: largest error {worst:.1g} of its bound")


def _run_autograd(function, inputs, dy) -> list[torch.Tensor]:
    leaves = [t.clone().requires_grad_() for t in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, dy))


def _join_names(inputs: dict) -> str:
    return ", ".join(f"d{name}" for name in inputs)
