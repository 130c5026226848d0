"""Build, check and race one rung of the matmul ladder, a reader's or the lab's.

The rung's file has the form of the files in kernels/matmul: it includes
"matmul/matmul.h" and ends with MATMUL_RUNG(name, ...). matmul.cu is compiled into a
separate library, with only that name in its list. A rung that is wrong or does not
compile thus affects no other rung, and no file of the checkout changes.

vary_work() makes variants of registers_2d with more or less work for each thread
(lesson 08a). The blocks, their tiles and their reads of a and b stay the same. Only the
number of threads in a block changes. `python -m weft.lessons.ladder.one_rung FILE.json`
measures all variants on this GPU for notebooks/results/.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from numbers import Integral
from pathlib import Path
from typing import Any

import torch

from ...base import store
from ...base.errors import ArgumentError, Mismatch
from ...base.paths import COMMON, KERNELS, ROOT
from ...benchmarks.matmul.calls import Operands, Size, error_limit, of_rung
from ...benchmarks.matmul.race import Race, RaceOptions, Speeds, race_rows
from ...cells.cpu.launch import open_runtime
from ...ops.check import RungVerdict, require
from ...report.model import ProgramReport
from ...see.watched_runs import WatchedTensor, report_watched, watch_flavour
from ...timing import read_json, write_json
from ...timing.results import Row
from ...toolchain import build, native
from .code import read_without_essay, rung_name, rung_path

_TABLE = """\
/* A ladder of one rung. */
#define MATMUL_LADDER(RUNG) RUNG({name})
#include "matmul/matmul.cu"
"""
# Files that several rungs share: they copy operands, and add partial sums.
_SHARED = ("pack.cu", "partials.cu")
_CALLED = re.compile(
    r"\bmatmul_(\w+?)_(?:rung|run|scratch|us)\b|\bCHOICE\((\w+),"  # as in 40_tuned.cu
)
_DEFINED = re.compile(r"^\w+ matmul_(\w+?)_(?:run|scratch|us)\(", re.M)
WATCHED = 2**32  # maximum number of multiply-adds that inspect() accepts
VARIED, VARIED_WORK = "registers_2d", (8, 8)  # the rung; its elements per thread
WORKS = ((4, 4), (4, 8), (8, 8), (8, 16))  # TM x TN; 1024 down to 128 threads
FOLDER = ROOT / "build" / "per_thread"
# The dtype of a and b; float32 for other precisions.
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def one_rung(name: str | Path) -> OneRung:
    """Return the rung of a file: "tiled", "03_tiled", or a path that ends in .cu.

    The rung is compiled at its first use. Raises ArgumentError if it does not exist.
    """
    path = rung_path(name)
    return OneRung(path, rung_name(path))


def copy_rung(name: str | Path, path: str | Path, own: str = "mine") -> OneRung:
    """Copy a rung's file to `path` for editing, as a rung called `own`.

    The copy omits the essay at the top, and overwrites an existing file. Raises
    ArgumentError if `path` is a file of the lab, or does not end in .cu.
    """
    source, path = rung_path(name), Path(path)
    if path.suffix != ".cu":
        raise ArgumentError(f"{path}: a rung's file ends in .cu")
    if path.exists() and KERNELS in path.resolve().parents:
        raise ArgumentError(f"{path} is a file of the lab: choose another path")
    name = rf"\b(matmul_|MATMUL_RUNG\()({rung_name(source)})\b"
    text = re.sub(name, rf"\1{own}", read_without_essay(source))
    text = re.sub(r'#include "(\.\./|)([\w.]+)"', _include_from_kernels, text)
    head = f"/* {path.name}: a copy of {source.name}, for you to change. */\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + text)
    return one_rung(path)


def _include_from_kernels(include: re.Match) -> str:
    """Return an #include in a form that works outside kernels/matmul."""
    return f'#include "{"" if include[1] else "matmul/"}{include[2]}"'


def _list_called(path: Path) -> list[Path]:
    """List a rung's file and, recursively, the files of the rungs that it calls."""
    files, defined = [path], set(_DEFINED.findall(path.read_text()))
    for file in files:  # the loop appends to this list
        callees = ("".join(names) for names in _CALLED.findall(file.read_text()))
        for name in dict.fromkeys(callees):
            for callee_path in (KERNELS / "matmul").glob(f"[0-9][0-9]_{name}.cu"):
                if callee_path not in files and name not in defined:
                    files.append(callee_path)
    return files


class OneRung:
    """A rung from one_rung(). path: its file. name: its name in the table."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    def library(self, target: str = "cpu", check: bool = False) -> native.Library:
        """Return the library with only this rung. check: whether it is a watch build.

        Raises BuildError with the compiler's messages.
        """
        flavour = watch_flavour() if check else build.Flavour.here(target)
        files = [COMMON / "common.cu", *(KERNELS / "matmul" / f for f in _SHARED)]
        files += [*_list_called(self.path), _write_table(self.name)]
        path = build.library_of(f"{self.name}-rung", files, flavour)
        return _open_library(path, target)

    def check(self, device: str | None = None) -> RungVerdict:
        """Check the rung with the cases for all rungs; raise Mismatch if it is wrong.

        device: "cpu" or "cuda"; None: the GPU if there is one.
        """
        lib = self.library(_choose_target(device))
        return require(lib, lib.rungs[0])

    def race(self, size: int | str = 1024, device: str | None = None) -> list[Row]:
        """Race the rung against cuBLAS and torch.mm; return rows of `bench matmul`.

        The rung's row has the impl "mine". Raises Mismatch, without a race, if the rung
        is wrong, and ArgumentError on a CPU, where threads are simulated.
        """
        if _choose_target(device) == "cpu":
            raise ArgumentError(
                f"{self.name}: a CPU simulates its threads; timing requires a GPU"
            )
        self.check(device)
        lib = self.library("cuda")
        rung, place = lib.rungs[0], torch.device("cuda", torch.cuda.current_device())
        race = Race(Size.of(str(size)), rung.precision, ())
        operands = Operands.random(race.size, race.precision, place, False)
        contender = of_rung(lib, rung, operands)
        contender.row["impl"] = "mine"
        return race_rows(race, RaceOptions(place), Speeds(), (contender,), operands)

    def inspect(self, m: int, n: int, k: int) -> ProgramReport:
        """Run one product of random numbers under the watch build; return its report.

        The report's .counters count requests, sectors and wavefronts by array: c, a, b
        and the kernel's shared arrays. Raises Mismatch, with the first finding, if c is
        wrong, and ArgumentError for sizes that are invalid or too large.
        """
        _check_sizes(m, n, k)
        lib = self.library("cpu", check=True)
        rung = lib.rungs[0]
        if "cpu" not in rung.targets:
            raise ArgumentError(f"{rung.name} does not run on a CPU")
        generator = torch.Generator().manual_seed(0)
        kind = _TYPES.get(rung.precision, torch.float32)
        a = torch.randn(m, k, generator=generator).to(kind)
        b = torch.randn(k, n, generator=generator).to(kind)
        arrays = {
            "c": WatchedTensor(torch.empty(m, n), "c", False),
            "a": WatchedTensor(a, "a", True),
            "b": WatchedTensor(b, "b", True),
        }
        open_runtime().simt_check_begin()
        try:
            _run_product(lib, arrays, (m, n, k))
            report = report_watched(f"{self.name}, m = {m}, n = {n}, k = {k}")
            c = torch.from_numpy(arrays["c"].values())
        finally:
            for array in arrays.values():
                array.release()
        try:
            _check_product(c, a, b, rung)
        except Mismatch as wrong:
            if report.findings:  # the first finding is very likely the cause
                raise Mismatch(f"{wrong}; {report.findings[0].text}") from None
            raise
        return report

    def __repr__(self) -> str:
        return f"rung {self.name} of {self.path.name}"


# ---- more or less work per thread ------------------------------------------------


def vary_work(tm: int, tn: int, folder: Path = FOLDER) -> OneRung:
    """Return the rung with tm x tn elements of c per thread; write it to `folder`."""
    if (tm, tn) == VARIED_WORK:
        return one_rung(VARIED)
    path = folder / f"registers_{tm}x{tn}.cu"
    copy_rung(VARIED, path, path.stem)
    text = path.read_text()
    for name, value, new in zip(("TM", "TN"), VARIED_WORK, (tm, tn)):
        if text.count(f" {name} = {value},") != 1:
            raise ValueError(f"{rung_path(VARIED).name}: {name} = {value} is missing")
        text = text.replace(f" {name} = {value},", f" {name} = {new},")
    path.write_text(text)
    return OneRung(path, rung_name(path))


def race_works(size: int | str = 4096) -> list[Row]:
    """Return a row of `bench matmul` for each pair in WORKS, with its "tm" and "tn".

    On a GPU, the variants are measured for cubes of `size`. Without a GPU, the rows are
    the committed ones; [] if there are none. Raises Mismatch if a variant is wrong.
    """
    if torch.cuda.is_available():
        return [
            row | {"op": "matmul per thread", "tm": tm, "tn": tn}
            for tm, tn in WORKS
            for row in vary_work(tm, tn).race(size)
            if row["impl"] == "mine"
        ]
    paths = sorted((ROOT / "notebooks" / "results").glob("per_thread_*.json"))
    return [row for path in paths[:1] for row in read_json(path)["rows"]]


# ---- details ---------------------------------------------------------------------


def _choose_target(device: str | None) -> str:
    default = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device or default).type


@functools.cache
def _open_library(path: Path, target: str) -> native.Library:
    return native.Library("matmul", target, path)


def _write_table(name: str) -> Path:
    """Write a file that compiles matmul.cu with only this name in its list."""
    text = _TABLE.format(name=name)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = store.cache_folder("ladders") / f"{name}_{digest}.cu"
    if not path.exists():
        store.write(path, text)
    return path


def _check_sizes(m: int, n: int, k: int) -> None:
    """Raise ArgumentError unless all sizes are integers and small enough to watch."""
    for name, value in {"m": m, "n": n, "k": k}.items():
        if not isinstance(value, Integral) or value < 1:
            raise ArgumentError(f"inspect: {name} = {value!r}, expected at least 1")
    if m * n * k > WATCHED:
        raise ArgumentError(
            f"inspect: {m} x {n} x {k} takes {m * n * k:.1e} multiply-adds; the watch "
            f"build takes at most {WATCHED:.0e}"
        )


def _run_product(lib: native.Library, arrays: dict[str, Any], sizes: tuple) -> None:
    """Compute c = a @ b with the library's rung, in the memory of `arrays`."""
    ffi, index = native.ffi, lib.rungs[0].index
    options = ffi.new("struct weft_matmul_options *", {"alpha": 1.0})
    size = ffi.new("size_t *")
    operands = [ffi.cast("void *", arrays[name].pointer) for name in "ab"]
    lib.call("weft_matmul_workspace", index, size, *operands, *sizes, options)
    if size[0]:
        blank = torch.empty(size[0], dtype=torch.uint8)
        arrays["workspace"] = WatchedTensor(blank, "workspace", False)
        options.workspace = arrays["workspace"].pointer
        options.workspace_bytes = size[0]
    c = ffi.cast("float *", arrays["c"].pointer)
    lib.call("weft_matmul", index, c, *operands, *sizes, options, native.NULL)
    lib.call("weft_sync", native.NULL)


def _check_product(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, rung: native.Rung
) -> None:
    want = a.double() @ b.double()
    difference = c.double() - want
    error = float(difference.square().mean().sqrt() / want.square().mean().sqrt())
    limit = error_limit(rung.precision, a.shape[1])
    if not error <= limit:  # `not <=` is also true for NaN
        raise Mismatch(
            f"{rung.name} is wrong: the relative error of c is {error:.2g} (root mean "
            f"square); {rung.precision} allows at most {limit:.2g}"
        )


if __name__ == "__main__":
    write_json(sys.argv[1], race_works(), "cuda")
