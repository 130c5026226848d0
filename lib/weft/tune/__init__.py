"""autotune(kernel, space, ...): the fastest of a kernel's compile-time constants.

    best = autotune(tiles, space={"BM": (64, 128), "BN": (64, 128), "TM": (4, 8)},
                    where=lambda BM, BN, TM: BM * BN // TM**2 <= 512,
                    launch=lambda BM, BN, TM: ((cdiv(n, BN), cdiv(m, BM)),
                                               BM * BN // TM**2),
                    args=(c, a, b, m, n, k), check=lambda a, b: a @ b)
    best(c, a, b, m, n, k)

space       every combination; what `where` and a launch forbid
constants   a value put into CUDA C
sources     what can be tuned, and what is known of it; plain_c: without a GPU
fit         compiled, and left out where too few warps fit
right       against the reference, before anything is timed
halving     timed in turn, the slow ones let go early
memory      what was found before
tuned       the winner and all rows; picture: drawn
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from .. import bench
from ..build import BuildError
from ..guarded import Mismatch
from ..jit import KernelFault
from ..machine import toolchain
from ..native import ArgumentError, DeviceLost, KernelError
from ..words import plural
from . import fit, memory
from .halving import race
from .right import Answer, Arguments
from .sources import Options, Source, bound, is_cuda, source_for
from .space import (
    Candidate,
    checked_space,
    combinations,
    counts_of,
    require_some,
    set_shape,
)
from .tuned import Tuned, rows_of

PRECISIONS = {
    **{torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"},
    torch.float64: "fp64",
}


def autotune(
    kernel: Any,
    space: Mapping[str, Any],
    *,
    args: Sequence[Any],
    check: Callable[..., Any],
    launch: Callable[..., Any] | None = None,
    where: Callable[..., Any] | None = None,
    outputs: Sequence[str] | None = None,
    inout: Sequence[str] = (),
    terms: float | None = None,
    occupancy: float = 0.1,
    timer: str = "",
    flags: str | Sequence[str] = "",
    name: str | None = None,
    retune: bool = False,
    progress: bool = True,
) -> Tuned:
    """Try every combination of constants, and give back the fastest, ready to launch.

    kernel: of %%cuda or load_cuda(), CUDA C as a string, or the path of a .cu file: its
        enumerators, macros and const numbers of these names get the values, and names
        that it only uses become -DNAME=value. Or plain C, as a string or a .c file. Or
        a Python kernel, numba_jit(k) or cuda_c(k), whose module has the names. Or a
        function of the constants that returns a kernel, or any function to call.
    space: the values of each constant. where: a function of constants, by their names:
        False leaves a combination out. launch: one that returns (grid, block), or
        (grid, block, bytes of dynamic shared memory); None for what is called.
    args: of a launch; their sizes are what is tuned for. What the kernel writes is
        written to copies.
    check: the reference, for a check before timing: a function of inputs (floats as
        float64), by the kernel's names or in order, that returns what is written.
        outputs: names of the arrays that are only written, by default all pointers
        without const; inout: of those that are read too. terms: how many products an
        element sums up; by default as the arrays' shapes tell.
    occupancy: a candidate with less than this share of the best one's occupancy is not
        timed. It is low: fast kernels have few warps with much in registers.
    timer: of bench(); "graph" on a GPU. flags, name: for the compiler; the kernel,
        where a source has several. retune: measure again what is in the cache.

    On a processor a CUDA kernel's time says nothing: candidates are pruned (as for the
    GPU of arch sm_90) and checked. Ctrl-C while they are timed gives what is known.
    Raises ArgumentError for what makes no sense, or if nothing is left to try;
    CompileError if nothing compiles; Mismatch if everything is wrong.
    """
    named, (device, target) = checked_space(space), _where(args)
    options = Options(flags, name, target)
    source = source_for(kernel, named, args, options)
    candidates, excluded = combinations(named, where)
    for one in candidates:
        set_shape(source.name, one, launch)
    require_some(candidates, excluded)
    session = Session(source, candidates, excluded, device, target, progress)
    session.inspect(args, outputs, inout)
    path = session.path((timer, occupancy))
    if path and not retune and (found := session.recall(path, check, terms)):
        return found
    session.compile(occupancy)
    session.check(check, terms)
    return session.race(timer, path)


class Session:
    """One call of autotune(): the candidates, and what they are tried with."""

    def __init__(
        self,
        source: Source,
        candidates: list[Candidate],
        excluded: int,
        device: torch.device,
        target: str,
        progress: bool,
    ) -> None:
        self.source, self.candidates, self.excluded = source, candidates, excluded
        self.device, self.target, self.progress = device, target, progress
        self.arguments: Arguments

    @property
    def ready(self) -> list[Candidate]:
        return [one for one in self.candidates if one.state == "ready"]

    def inspect(
        self, args: Sequence[Any], outputs: Sequence[str] | None, inout: Sequence[str]
    ) -> None:
        """See by the first candidate that compiles what the kernel takes."""
        kernel, first_error = None, None
        for one in self.ready:
            try:
                kernel = self.source.make(one.constants)
                break
            except BuildError as error:
                first_error = first_error or error
        if kernel is None:
            raise first_error
        names = self.source.parameters(kernel)
        written = outputs
        if written is None:
            written = self.source.written(kernel)
        if written is None:
            written = [n for n in names[:1] if n not in inout] or (["0"] * (not names))
        self.arguments = Arguments(args, names, written, inout)
        self.launched = is_cuda(kernel)

    def path(self, settings: Sequence[Any]) -> Path | None:
        """Where the answer is kept; None where nothing is timed, or who knows of
        what the candidates are made."""
        if self.target == "cpu" and self.launched:
            return None
        try:
            texts = [self.source.texts(one) for one in self.ready]
        except BuildError:  # one that does not compile
            return None
        if any(text is None for text in texts):
            return None
        where = bench.device_name(self.device)
        return memory.place(where, self.arguments.values, self.ready, texts, settings)

    def recall(self, path: Path, check: Any, terms: float | None) -> Tuned | None:
        """What was found before, if the winner still passes its check."""
        found = memory.read(path)
        if found is None:
            return None
        one = next((c for c in self.ready if c.constants == found["best"]), None)
        if one is None:
            return None
        try:
            kernel = self.source.make(one.constants)
            run = bound(kernel, one)
            Answer(check, self.arguments, terms).require(run)
        except (BuildError, Mismatch):
            return None
        known = found["rows"], found["counts"], self.target, self._shapes(one)
        return Tuned(self.source.name, one.constants, kernel, run, *known, cached=True)

    def compile(self, occupancy: float) -> None:
        """Compile all that are ready, and prune."""
        ready = self.ready
        with self._bar("compile", len(ready)) as bar:
            fit.compile_all(self.source, ready, self._arch(), bar.update)
        fit.keep_occupied(self.candidates, occupancy)
        require_some(self.candidates, self.excluded)

    def check(self, check: Any, terms: float | None) -> None:
        """Name those that are wrong; Mismatch if all are."""
        answer, ready = Answer(check, self.arguments, terms), self.ready
        wrong: list[tuple[Candidate, Exception]] = []
        with self._bar("check", len(ready)) as bar:
            for one in ready:
                try:
                    one.more["error"] = answer.require(one.run)
                except DeviceLost as error:
                    error.add_note(f"autotune: {one} did this")
                    raise
                except (Mismatch, KernelFault) as error:
                    wrong.append((one, error))
                    one.out("wrong", "wrong", str(error).splitlines()[0])
                except KernelError as error:  # a launch that CUDA refuses
                    one.out("pruned", "not launchable", str(error).splitlines()[0])
                bar.update()
        if wrong and not self.ready:
            raise Mismatch(
                f"{self.source.name}: all {plural(len(wrong), 'candidate')} wrong, and "
                f"so none is timed; {wrong[0][0]}: {wrong[0][0].why}"
            ) from None
        if wrong and self.progress:
            told = f"{plural(len(wrong), 'candidate')} wrong, and not timed"
            first = f"{wrong[0][0]}: {wrong[0][0].why}"
            print(f"weft: {self.source.name}: {told}; {first}", file=sys.stderr)
        require_some(self.candidates, self.excluded)

    def race(self, timer: str, path: Path | None) -> Tuned:
        """Time what is right; the winner and all rows."""
        stopped, timed = False, self.target == "cuda" or not self.launched
        ready = self.ready
        if timed:
            try:
                with self._bar("time", len(ready)) as bar:
                    race(
                        *(ready, self.arguments.own(), self.device),
                        timer or ("graph" if self.target == "cuda" else "wall"),
                        bar.update,
                    )
            except KeyboardInterrupt:
                stopped = True
                for one in ready:
                    if one.timed and one.state == "ready":
                        one.state = "timed"
        else:
            for one in ready:
                one.state = "right"
        there = [one for one in ready if one.state in ("timed", "right")]
        if not there:
            raise KeyboardInterrupt("autotune: nothing was timed yet")
        best = min(there, key=lambda one: one.timed.us) if timed else there[0]
        kind = self.arguments.at(self.arguments.written[0]).dtype
        kind = PRECISIONS.get(kind, str(kind).removeprefix("torch."))
        rows = rows_of(self.source.name, self.candidates, self.target, kind)
        counts = counts_of(self.candidates, self.excluded)
        if path and not stopped:
            known = {"best": best.constants, "rows": rows, "counts": counts}
            memory.write(path, known)
        return Tuned(
            *(self.source.name, best.constants, best.kernel, best.run, rows, counts),
            *(self.target, self._shapes(best), False, stopped),
        )

    def _shapes(self, one: Candidate) -> tuple[Any, ...]:
        """Of the arguments; () for what has no grid that fits them alone."""
        values = self.arguments.values if one.shape is not None else ()
        arrays = [isinstance(value, torch.Tensor) for value in values]
        return tuple(tuple(v.shape) if a else None for v, a in zip(values, arrays))

    def _arch(self) -> str:
        """For which GPU candidates are pruned; "" where nothing can tell."""
        from ..jit import gpu, nvrtc

        if not self.launched or nvrtc.available():
            return ""
        if self.target == "cuda":
            return gpu.arch(self.device.index or 0)
        return toolchain.default_arch()

    def _bar(self, what: str, total: int) -> AbstractContextManager[Any]:
        return tqdm(
            **{"total": total, "desc": f"{self.source.name}: {what}", "leave": False},
            **{"disable": not self.progress, "delay": 0.5, "dynamic_ncols": True},
        )


def _where(args: Sequence[Any]) -> tuple[torch.device, str]:
    """The device on which the arrays lie, and the target's name."""
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"args={args!r:.40}: want a tuple of what a launch takes")
    places = [torch.device(a.device) for a in args if isinstance(a, torch.Tensor)]
    if not places and any(hasattr(a, "__cuda_array_interface__") for a in args):
        places = [torch.device("cuda", torch.cuda.current_device())]
    if not places and not any(hasattr(a, "__array_interface__") for a in args):
        raise ArgumentError("args has no array: there is nothing to write to")
    for place in places:
        if place.type == "cuda":
            return place, "cuda"
    return torch.device("cpu"), "cpu"


__all__ = ["Tuned", "autotune"]
