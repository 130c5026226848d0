"""Run one call of autotune(), from reading the kernel's parameters to the winner.

Session.path(), read() and write() store earlier results: a file in the cache for each
kernel, device and set of sizes. The files can be recreated in seconds, so they are
pruned and cleared together with all other files of the cache.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..base import store
from ..base.errors import BuildError, DeviceLost, KernelError, KernelFault, Mismatch
from ..base.progress import Progress, remark
from ..base.text import count_things
from ..cells.gpu import loader as gpu
from ..cells.gpu import nvrtc
from ..see.machine_code.compilation import default_arch
from ..timing import device_name
from ..toolchain.build import _hash
from . import fit
from .right import Arguments, ReferenceAnswer
from .sources import TunableSource, bound, is_cuda, parameters_of, written_of
from .space import Candidate, counts_of, require_some
from .tuned import Tuned, rows_of

FORM = 1  # the version of the stored format and of the measurement


def read(path: Path) -> dict[str, Any] | None:
    """Return the contents that write() stored; None if missing or damaged."""
    try:
        contents = json.loads(path.read_text())
        contents["rows"], contents["best"]
        os.utime(path)  # marks the file as used: pruning starts with the oldest
        return contents
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, found: dict[str, Any]) -> None:
    """Write the complete file or none; without it, the next call measures again."""
    with contextlib.suppress(OSError):
        store.write(path, json.dumps(found))
        store.prune_at_exit()


def _write_size(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    return repr(value)


PRECISIONS = {
    **{torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"},
    torch.float64: "fp64",
}


class Session:
    """One call of autotune(): the candidates, and the arguments for their launches."""

    def __init__(
        self,
        source: TunableSource,
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
        """Read the kernel's parameters from the first candidate that compiles."""
        kernel, first_error = None, None
        for one in self.ready:
            try:
                kernel = self.source.make(one.constants)
                break
            except BuildError as error:
                first_error = first_error or error
        if kernel is None:
            raise first_error
        names = parameters_of(kernel)
        written = written_of(kernel) if outputs is None else outputs
        if written is None:
            written = [n for n in names[:1] if n not in inout] or (["0"] * (not names))
        self.arguments = Arguments(args, names, written, inout)
        self.launched = is_cuda(kernel)

    def path(self, settings: Sequence[Any]) -> Path | None:
        """Return the file for the result of these candidates, device and sizes.

        settings: other values that determine the result. Returns None if nothing is
        timed, or if the candidates' sources are unknown.
        """
        if self.target == "cpu" and self.launched:
            return None
        try:
            texts = [self.source.texts(one) for one in self.ready]
        except BuildError:  # a candidate does not compile
            return None
        if any(text is None for text in texts):
            return None
        compiler = "" if nvrtc.explain_missing() else str(nvrtc.nvrtc_version())
        parts = [str(FORM), device_name(self.device), compiler, *map(repr, settings)]
        parts += map(_write_size, self.arguments.values)
        for one, text in zip(self.ready, texts):
            parts += [str(one), repr(one.shape), *text]
        return _choose_folder() / f"{_hash(*parts)}.json"

    def recall(self, path: Path, check: Any, terms: float | None) -> Tuned | None:
        """Return the earlier result if its winner still passes the check, else None."""
        data = read(path)
        best = data["best"] if data else None
        one = next((c for c in self.ready if c.constants == best), None)
        if one is None:
            return None
        try:
            kernel = self.source.make(one.constants)
            run = bound(kernel, one)
            ReferenceAnswer(check, self.arguments, terms).require(run)
        except (BuildError, Mismatch):
            return None
        stored = (data["rows"], data["counts"], self.target, self._shapes(one))
        return Tuned(self.source.name, one.constants, kernel, run, *stored, cached=True)

    def compile(self, occupancy: float) -> None:
        """Compile all ready candidates, and prune those with low occupancy."""
        ready = self.ready
        with self._bar("compile", len(ready)) as bar:
            fit.compile_all(self.source, ready, self._arch(), bar.update)
        fit.keep_occupied(self.candidates, occupancy)
        require_some(self.candidates, self.excluded)

    def check(self, check: Any, terms: float | None) -> None:
        """Mark the wrong candidates; raise Mismatch if all are wrong."""
        answer, ready = ReferenceAnswer(check, self.arguments, terms), self.ready
        wrong: list[Candidate] = []
        with self._bar("check", len(ready)) as bar:
            for one in ready:
                try:
                    one.more["error"] = answer.require(one.run)
                except DeviceLost as error:
                    error.add_note(f"autotune: the candidate is {one}")
                    raise
                except (Mismatch, KernelFault) as error:
                    wrong.append(one)
                    one.out("wrong", "wrong", str(error).splitlines()[0])
                except KernelError as error:  # CUDA refused the launch
                    one.out("pruned", "not launchable", str(error).splitlines()[0])
                bar.update()
        if wrong and not self.ready:
            raise Mismatch(
                f"{self.source.name}: all {count_things(len(wrong), 'candidate')} are "
                f"wrong, so none is timed; {wrong[0]}: {wrong[0].why}"
            ) from None
        if wrong and self.progress:
            message = f"{count_things(len(wrong), 'candidate')} wrong, and not timed"
            first = f"{wrong[0]}: {wrong[0].why}"
            remark(f"{self.source.name}: {message}; {first}")
        require_some(self.candidates, self.excluded)

    def race(self, timer: str, path: Path | None) -> Tuned:
        """Time the candidates that passed; return the winner and all rows."""
        stopped, is_timed = False, self.target == "cuda" or not self.launched
        ready = self.ready
        if is_timed:
            try:
                with self._bar("time", len(ready)) as bar:
                    fit.run_tournament(
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
        passed = [one for one in ready if one.state in ("timed", "right")]
        if not passed:
            raise KeyboardInterrupt("autotune: nothing was timed yet")
        best = min(passed, key=lambda one: one.timed.us) if is_timed else passed[0]
        kind = self.arguments.at(self.arguments.written[0]).dtype
        kind = PRECISIONS.get(kind, str(kind).removeprefix("torch."))
        rows = rows_of(self.source.name, self.candidates, self.target, kind)
        counts = counts_of(self.candidates, self.excluded)
        if path and not stopped:
            write(path, {"best": best.constants, "rows": rows, "counts": counts})
        return Tuned(
            *(self.source.name, best.constants, best.kernel, best.run, rows, counts),
            *(self.target, self._shapes(best), False, stopped),
        )

    def _shapes(self, one: Candidate) -> tuple[Any, ...]:
        """Return the arguments' shapes; () if the candidate has no grid."""
        values = self.arguments.values if one.shape is not None else ()
        arrays = [isinstance(value, torch.Tensor) for value in values]
        return tuple(tuple(v.shape) if a else None for v, a in zip(values, arrays))

    def _arch(self) -> str:
        """Return the architecture that candidates must suit; "" if none is known."""
        if not self.launched or nvrtc.explain_missing():
            return ""
        if self.target == "cuda":
            return gpu.name_arch(self.device.index or 0)
        return default_arch()

    def _bar(self, what: str, total: int) -> Progress:
        title = f"{self.source.name}: {what}"
        options = {"quiet": not self.progress, "delay": 0.5}
        return Progress(title, total, "candidates", **options)


def _choose_folder() -> Path:
    """Return the folder of earlier results: weft.keep()'s, else that of the cache."""
    if os.environ.get(store.KEEP):
        with contextlib.suppress(OSError):  # the drive may no longer be mounted
            return store.kept_folder("tuned")
    return store.cache_folder("tuned")
