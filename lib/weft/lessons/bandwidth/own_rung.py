"""A reader's copy of an op's rung, checked and counted without a change of the lab.

The copy keeps the names of the rung's functions. It is compiled in place of the rung's
file, with the op's other files, into a library of its own.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from ...base.errors import ArgumentError
from ...base.paths import KERNELS
from ...benchmarks.counted import count_rung
from ...ops.cases import find_op
from ...ops.check import RungVerdict, require
from ...see.inspect import watch_flavour
from ...timing.results import Row
from ...toolchain import build, native

ESSAY = re.compile(r"\A/\*.*?\*/\n", re.S)
INCLUDE = re.compile(r'#include "([\w.]+)"')  # a header beside the file


def copy_rung(op: str, name: str, path: str | Path) -> OwnRung:
    """Copy the file of an op's rung to `path`, without the essay at its top.

    op: an op with a folder of rungs, such as "transpose". name: a rung, such as
    "padded". Overwrites an existing file. Raises ArgumentError if there is no such
    file, if `path` is a file of the lab, or if it does not end in .cu.
    """
    original, path = _find_file(op, name), Path(path)
    if path.suffix != ".cu":
        raise ArgumentError(f"{path}: a rung's file ends in .cu")
    if KERNELS in path.resolve().parents:
        raise ArgumentError(f"{path} is a file of the lab: choose another path")
    text = ESSAY.sub("", original.read_text())
    head = f"/* {path.name}: a copy of {original.name}, for you to change. */\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + INCLUDE.sub(rf'#include "{op}/\1"', text))
    return OwnRung(op, name, path)


def _find_file(op: str, name: str) -> Path:
    """Return the file of a rung."""
    files = {path.stem[3:]: path for path in (KERNELS / op).glob("[0-9][0-9]_*.cu")}
    if name not in files:
        known = ", ".join(sorted(files)) or f"none in kernels/{op}"
        raise ArgumentError(
            f"no file of the rung {name!r} of {op!r}; there are {known}"
        )
    return files[name]


class OwnRung:
    """A copy of a rung. op, name: the op and the original's name; path: the copy."""

    def __init__(self, op: str, name: str, path: Path) -> None:
        self.op, self.name, self.path = op, name, path

    def library(self, check: bool = False) -> native.Library:
        """Return the op's library with the copy. check: whether it is a watch build.

        Raises BuildError with the compiler's messages.
        """
        flavour = watch_flavour() if check else build.Flavour.here("cpu")
        original = _find_file(self.op, self.name)
        files = [p for p in build.list_sources(self.op, "cpu") if p != original]
        name = f"{self.op}-{self.path.stem}"
        return _open_library(
            self.op, build.library_of(name, [*files, self.path], flavour)
        )

    def check(self) -> RungVerdict:
        """Check the copy with the op's cases; raise Mismatch if it is wrong."""
        lib = self.library()
        return require(lib, lib.rung(self.name))

    def count(self, size: int) -> Row:
        """Check the copy and count its traffic; see weft.benchmarks.counted.

        size: the op's varying size. The row's rung is the name of the copy's file.
        """
        self.check()
        lib, spec = self.library(check=True), find_op(self.op)
        sizes = spec.bench.sizes_for(size, True)
        row = count_rung(spec, lib, lib.rung(self.name), sizes)
        return row | {"rung": self.path.stem}

    def __repr__(self) -> str:
        return f"a copy of {self.op} '{self.name}' in {self.path.name}"


@functools.cache
def _open_library(op: str, path: Path) -> native.Library:
    return native.Library(op, "cpu", path)
