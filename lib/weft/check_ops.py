"""Is a kernel right? Every rung against float64, and nothing is believed unseen.

A case (cases.py) is run with every array between guard zones, every output
poisoned with NaN beforehand, and on the CPU once per order of threads. Then:
all guard zones and inputs must be untouched, and every output within its bound
of the float64 answer. NaN where a number is due is a failure.

`python -m weft check [OP]` checks every rung that runs here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import native
from .cases import OPS, Answer, Case, cases

GUARD = 256  # elements before and after every array
POISON = {
    torch.float32: float("nan"),
    torch.int32: -(2**31) + 12345,
    torch.int64: -(2**63) + 12345,
}
ORDERS = {"forward": 0, "reverse": 1, "shuffled": 2}  # of threads, on the CPU


class Mismatch(AssertionError):
    """A kernel gave a wrong answer or touched what it must not."""


@dataclass(frozen=True)
class Verdict:
    """That one rung passed: how many runs, and its largest error over bound."""

    op: str
    rung: str
    precision: str
    target: str
    runs: int
    worst: float


def check_op(op: str, rung: str | None = None, target: str = "cpu") -> list[Verdict]:
    """Check `op`'s rungs (or one) on "cpu" or "cuda"; raise Mismatch if one fails."""
    lib = native.library(op, target)
    chosen = [lib.rung(rung)] if rung else lib.rungs
    return [check_rung(lib, r) for r in chosen if target in r.targets]


def check_rung(lib: native.Library, rung: native.Rung) -> Verdict:
    """Check one rung of an open library with every case of its op."""
    device = torch.device("cuda", torch.cuda.current_device()) if (
        lib.target == "cuda"
    ) else torch.device("cpu")  # fmt: skip
    runs, worst = 0, 0.0
    for case in cases(rung.op):
        for order in _orders(lib, rung):
            try:
                worst = max(worst, run_case(lib, rung.index, case, device))
            except (Mismatch, native.KernelError) as error:
                where = f"{rung.op} '{rung.name}' on {lib.target}, {case.title}"
                where += f", threads {order}" if order else ""
                raise Mismatch(f"{where}: {error}") from None
            runs += 1
    return Verdict(rung.op, rung.name, rung.precision, lib.target, runs, worst)


def run_case(lib: Any, rung: int, case: Case, device: torch.device) -> float:
    """Run one case; returns its largest error over bound, raises Mismatch."""
    inputs = {
        name: Guarded(tensor, device)
        for name, tensor in case.inputs.items()
        if tensor is not None
    }
    outputs = {
        name: Guarded(_start(case, name, answer), device)
        for name, answer in case.answers.items()
    }
    pointers = {name: array.pointer for name, array in (inputs | outputs).items()}
    pointers |= {n: native.NULL for n, t in case.inputs.items() if t is None}
    stream = native.stream_of(device)
    case.launch(lib, rung, pointers, stream)
    lib.call("weft_sync", stream)
    for name, array in inputs.items():
        array.verify_untouched(name)
    worst = 0.0
    for name, array in outputs.items():
        array.verify_guards(name)
        worst = max(worst, compare(name, array.values(), case.answers[name]))
    return worst


def compare(name: str, got: torch.Tensor, answer: Answer) -> float:
    """Raise Mismatch unless |got - want| <= bound everywhere.

    got and want have one shape; where want is NaN, got must be NaN. Returns the
    largest error over bound (0 where both are 0).
    """
    want = answer.want
    if got.shape != want.shape:
        raise Mismatch(f"{name} has shape {tuple(got.shape)}, want {tuple(want.shape)}")
    got64, want64 = got.double(), want.double()
    bound = torch.as_tensor(answer.bound, dtype=torch.float64).expand_as(want64)
    error = (got64 - want64).abs()
    # Asked this way round, a NaN in `got` is bad; one that was asked for is not.
    bad = ~((error <= bound) | (got64.isnan() & want64.isnan()) | (got64 == want64))
    if bad.any():
        first = bad.nonzero()[0].tolist()
        at = tuple(first)
        raise Mismatch(
            f"{name}[{', '.join(map(str, first))}] is {got64[at].item():.9g}, want "
            f"{want64[at].item():.9g} within {bound[at].item():.2g}; "
            f"{int(bad.sum())} of {bad.numel()} elements are wrong"
        )
    ratio = torch.where(error > 0, error / bound, 0.0)
    return float(ratio.nan_to_num(0.0).max()) if ratio.numel() else 0.0


class Guarded:
    """A copy of a tensor on `device` between two guard zones."""

    def __init__(self, tensor: torch.Tensor, device: torch.device):
        self.shape, count = tensor.shape, tensor.numel()
        poison = POISON[tensor.dtype]
        # A guard of NaN could not tell an added NaN from its own: any number does.
        self.guard = torch.full((GUARD,), 1e30 if poison != poison else poison)
        self.guard = self.guard.to(tensor.dtype)
        flat = torch.cat([self.guard, tensor.contiguous().flatten(), self.guard])
        self.before = flat.clone()
        self.flat = flat.to(device)
        self.inside = slice(GUARD, GUARD + count)

    @property
    def pointer(self) -> Any:
        ctypes = {torch.float32: "float *", torch.int32: "int32_t *"}
        ctype = ctypes.get(self.flat.dtype, "int64_t *")
        return native.pointer(self.flat[self.inside], ctype)

    def values(self) -> torch.Tensor:
        """What lies between the guards now, on the host."""
        return self.flat[self.inside].cpu().reshape(self.shape)

    def verify_guards(self, name: str) -> None:
        now = self.flat.cpu()
        for zone, start, side in (
            (now[:GUARD], -GUARD, "before its start"),
            (now[self.inside.stop :], self.shape.numel(), "past its end"),
        ):
            touched = (zone != self.guard).nonzero()
            if touched.numel():
                index = start + int(touched[0])
                raise Mismatch(f"{name}[{index}] was written: that is {side}")

    def verify_untouched(self, name: str) -> None:
        self.verify_guards(name)
        now, then = self.flat.cpu(), self.before
        changed = (now != then) & ~((now != now) & (then != then))
        if changed.any():
            index = int(changed.nonzero()[0]) - GUARD
            raise Mismatch(f"the input {name} was overwritten at element {index}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `python -m weft check`."""
    parser.add_argument("op", nargs="?", choices=OPS, help="default: every op")
    parser.add_argument("--rung", help="default: every rung that runs here")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: all here")
    parser.add_argument("--json", metavar="PATH", help="write the verdicts there")


def main(args: argparse.Namespace) -> int:
    """Print one line per rung; exit status 1 if any is wrong."""
    targets = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    targets = [args.device] if args.device else targets
    failures, rows = 0, []
    for op in [args.op] if args.op else OPS:
        if args.rung and not any(_chosen(op, args.rung, t) for t in targets):
            native.library(op, targets[0]).rung(args.rung)  # says what there is
        for result in (r for t in targets for r in _each(op, args.rung, t)):
            failures += isinstance(result, Mismatch)
            print(_line(result), flush=True)
            if isinstance(result, Verdict):
                rows.append(_row(result))
    if args.json:
        from .bench import write_json

        write_json(args.json, rows)
    return 1 if failures else 0


def _each(op: str, rung: str | None, target: str) -> Iterator[Verdict | Mismatch]:
    for candidate in _chosen(op, rung, target):
        try:
            yield check_rung(native.library(op, target), candidate)
        except Mismatch as error:
            yield error


def _chosen(op: str, rung: str | None, target: str) -> list[native.Rung]:
    """The rungs of that name, or all, that run on `target`."""
    found = native.library(op, target).rungs
    return [r for r in found if target in r.targets and rung in (None, r.name)]


def _line(result: Verdict | Mismatch) -> str:
    if isinstance(result, Mismatch):
        return f"WRONG  {result}"
    return (
        f"ok     {result.op:<14} {result.rung:<12} {result.target:<5} "
        f"{result.runs:>4} runs, largest error {result.worst:.2f} of its bound"
    )


def _row(verdict: Verdict) -> dict[str, Any]:
    from .bench import device_name

    return {
        **{"op": verdict.op, "impl": "weft", "rung": verdict.rung},
        **{"precision": verdict.precision, "target": verdict.target},
        **{"device": device_name(verdict.target), "runs": verdict.runs},
        **{"error_over_bound": verdict.worst},
    }


def _orders(lib: Any, rung: native.Rung) -> Iterator[str]:
    """Set each order of threads in turn, where there are threads to order."""
    if lib.target != "cpu" or rung.name == "reference":
        yield ""
        return
    try:
        for name, number in ORDERS.items():
            lib.call("weft_set_order", number)
            yield name
    finally:
        lib.call("weft_set_order", ORDERS["forward"])


def _start(case: Case, name: str, answer: Answer) -> torch.Tensor:
    """What an output holds before the call: poison, unless the op reads it."""
    if name in case.initial:
        return case.initial[name]
    return torch.full(tuple(answer.want.shape), POISON[answer.dtype]).to(answer.dtype)
