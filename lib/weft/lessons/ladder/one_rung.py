"""One rung of the matmul ladder in a library of its own: a reader's, or the lab's.

Its file is as those of kernels/matmul: it includes "matmul/matmul.h" and ends with
MATMUL_RUNG(name, ...). matmul.cu is compiled with that name alone in its list, so a
rung that does not compile, or is wrong, is in nobody's way, and no file of the checkout
changes.
"""

from __future__ import annotations

import functools
import hashlib
import re
from numbers import Integral
from pathlib import Path
from typing import Any

import torch

from ...base import store
from ...base.errors import ArgumentError, Mismatch
from ...base.paths import COMMON, KERNELS
from ...benchmarks.matmul.calls import Operands, Size, error_limit, of_rung
from ...benchmarks.matmul.race import Race, RaceOptions, Speeds, race_rows
from ...cells.cpu.launch import open_runtime
from ...ops.check import RungVerdict, require
from ...report.model import ProgramReport
from ...see.inspect import WatchedTensor, report_watched, watch_flavour
from ...timing.results import Row
from ...toolchain import build, native
from .code import read_without_essay, rung_name, rung_path

_TABLE = """\
/* A ladder of one rung. */
#define MATMUL_LADDER(RUNG) RUNG({name})
#include "matmul/matmul.cu"
"""
# Files that several rungs use: copies of operands, and sums of parts.
_SHARED = ("pack.cu", "partials.cu")
_CALLED = re.compile(
    r"\bmatmul_(\w+?)_(?:rung|run|scratch|us)\b|\bCHOICE\((\w+),"  # of 40_tuned.cu
)
_DEFINED = re.compile(r"^\w+ matmul_(\w+?)_(?:run|scratch|us)\(", re.M)
WATCHED = 2**32  # multiply-adds that inspect() takes on: many minutes
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}  # of a and b, else float32


def one_rung(name: str | Path) -> OneRung:
    """The rung of a file: "tiled", "03_tiled", or a path that ends in .cu.

    It is compiled when it is first used. Raises ArgumentError if there is no such rung.
    """
    path = rung_path(name)
    return OneRung(path, rung_name(path))


def copy_rung(name: str | Path, path: str | Path, own: str = "mine") -> OneRung:
    """Copy a rung's file to `path`, as one's own rung called `own`, to be edited.

    The essay at its top stays behind. A file that is there already is overwritten,
    unless it is the lab's own: ArgumentError, and for a path that does not end in .cu.
    """
    source, path = rung_path(name), Path(path)
    if path.suffix != ".cu":
        raise ArgumentError(f"{path}: a rung's file ends in .cu")
    if path.exists() and KERNELS in path.resolve().parents:
        raise ArgumentError(f"{path} is the lab's: copy_rung overwrites none of those")
    text = read_without_essay(source)
    text = re.sub(
        rf"\b(matmul_|MATMUL_RUNG\()({rung_name(source)})\b", rf"\1{own}", text
    )
    text = re.sub(r'#include "(\.\./|)([\w.]+)"', _include_from_kernels, text)
    head = f"/* {path.name}: a copy of {source.name}, to be changed. */\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + text)
    return one_rung(path)


def _include_from_kernels(found: re.Match) -> str:
    """The #include of a file in kernels/matmul, as seen from anywhere."""
    return f'#include "{"" if found[1] else "matmul/"}{found[2]}"'


def _list_called(path: Path) -> list[Path]:
    """A rung's file and those of the rungs whose functions it calls, and so on."""
    files, defined = [path], set(_DEFINED.findall(path.read_text()))
    for file in files:  # grows as it goes
        called = ("".join(names) for names in _CALLED.findall(file.read_text()))
        for name in dict.fromkeys(called):
            for other in (KERNELS / "matmul").glob(f"[0-9][0-9]_{name}.cu"):
                if other not in files and name not in defined:
                    files.append(other)
    return files


class OneRung:
    """Made by one_rung(). path: its file. name: as its line of the table has it."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    def library(self, target: str = "cpu", check: bool = False) -> native.Library:
        """The library that has this rung alone; check: made to be watched.

        Raises BuildError with what the compiler says.
        """
        flavour = build.Flavour.here(target)
        if check:
            flavour = watch_flavour()
        files = [COMMON / "common.cu", *(KERNELS / "matmul" / f for f in _SHARED)]
        made = build.library_of(
            f"{self.name}-rung",
            [*files, *_list_called(self.path), _write_table(self.name)],
            flavour,
        )
        return _open_library(made, target)

    def check(self, device: str | None = None) -> RungVerdict:
        """Check it as every rung is checked; Mismatch says what is wrong.

        device: "cpu" or "cuda"; None: the GPU if there is one.
        """
        lib = self.library(_choose_target(device))
        return require(lib, lib.rungs[0])

    def race(self, size: int | str = 1024, device: str | None = None) -> list[Row]:
        """Its speed beside cuBLAS and torch.mm: rows of `bench matmul`, called "mine".

        Raises Mismatch if it is wrong; it is not timed then. On a CPU a kernel's
        threads are simulated: ArgumentError.
        """
        if _choose_target(device) == "cpu":
            raise ArgumentError(
                f"{self.name}: on a CPU its threads are simulated; a time needs a GPU"
            )
        self.check(device)
        lib = self.library("cuda")
        rung, where = lib.rungs[0], torch.device("cuda", torch.cuda.current_device())
        race = Race(Size.of(str(size)), rung.precision, ())
        operands = Operands.random(race.size, race.precision, where, False)
        own = of_rung(lib, rung, operands)
        own.row["impl"] = "mine"
        return race_rows(race, RaceOptions(where), Speeds(), (own,), operands)

    def inspect(self, m: int, n: int, k: int) -> ProgramReport:
        """One product of random numbers, watched on the CPU: what it asks of memory.

        .counters of the report count requests, sectors, wavefronts by array: c, a, b
        and the kernel's shared ones. Raises Mismatch if c is wrong, with the first
        thing that was found; ArgumentError for sizes that are none, or too large.
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
        held = {
            "c": WatchedTensor(torch.empty(m, n), "c", False),
            "a": WatchedTensor(a, "a", True),
            "b": WatchedTensor(b, "b", True),
        }
        open_runtime().simt_check_begin()
        try:
            _run_product(lib, held, (m, n, k))
            report = report_watched(f"{self.name}, m = {m}, n = {n}, k = {k}")
            c = torch.from_numpy(held["c"].values())
        finally:
            for one in held.values():
                one.release()
        try:
            _check_product(c, a, b, rung)
        except Mismatch as wrong:
            if report.findings:  # very likely why
                raise Mismatch(f"{wrong}; {report.findings[0].text}") from None
            raise
        return report

    def __repr__(self) -> str:
        return f"rung {self.name} of {self.path.name}"


# ---- details ---------------------------------------------------------------------


def _choose_target(device: str | None) -> str:
    here = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device or here).type


@functools.cache
def _open_library(path: Path, target: str) -> native.Library:
    return native.Library("matmul", target, path)


def _write_table(name: str) -> Path:
    """matmul.cu with that name alone in its list."""
    text = _TABLE.format(name=name)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = store.cache_folder("ladders") / f"{name}_{digest}.cu"
    if not path.exists():
        beside = path.with_suffix(".part")
        beside.write_text(text)
        beside.replace(path)
    return path


def _check_sizes(m: int, n: int, k: int) -> None:
    """ArgumentError unless all are whole and few enough to be watched."""
    for name, value in {"m": m, "n": n, "k": k}.items():
        if not isinstance(value, Integral) or value < 1:
            raise ArgumentError(f"inspect: {name} = {value!r}, want at least 1")
    if m * n * k > WATCHED:
        raise ArgumentError(
            f"inspect: {m} x {n} x {k}: {m * n * k:.1e} multiply-adds, each watched; "
            f"at most {WATCHED:.0e}"
        )


def _run_product(lib: native.Library, held: dict[str, Any], sizes: tuple) -> None:
    """c = a @ b by the library's rung, in the memory of `held`."""
    ffi, index = native.ffi, lib.rungs[0].index
    options = ffi.new("struct weft_matmul_options *", {"alpha": 1.0})
    wanted = ffi.new("size_t *")
    given = [ffi.cast("void *", held[name].pointer) for name in "ab"]
    lib.call("weft_matmul_workspace", index, wanted, *given, *sizes, options)
    if wanted[0]:
        blank = torch.empty(wanted[0], dtype=torch.uint8)
        held["workspace"] = WatchedTensor(blank, "workspace", False)
        options.workspace = held["workspace"].pointer
        options.workspace_bytes = wanted[0]
    c = ffi.cast("float *", held["c"].pointer)
    lib.call("weft_matmul", index, c, *given, *sizes, options, native.NULL)
    lib.call("weft_sync", native.NULL)


def _check_product(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, rung: native.Rung
) -> None:
    want = a.double() @ b.double()
    off = c.double() - want
    error = float(off.square().mean().sqrt() / want.square().mean().sqrt())
    limit = error_limit(rung.precision, a.shape[1])
    if not error <= limit:  # NaN is not
        raise Mismatch(
            f"{rung.name} is wrong: its error is {error:.2g} of c (root mean square), "
            f"at most {limit:.2g} is {rung.precision}"
        )
