"""Variants of registers_2d with more or less work for each thread (lesson 08a).

    variant(4, 8, folder).inspect(128, 128, 16)     its memory accesses
    rows(4096)                                      the speed of each variant

The blocks, their tiles and their reads of a and b stay the same. Only the number of
threads in a block changes. `python -m weft.lessons.ladder.vary_thread_work FILE.json`
measures all variants on this GPU for notebooks/results/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from ...base.paths import ROOT
from ...timing import read_json, write_json
from ...timing.results import Row
from .code import rung_name, rung_path
from .one_rung import OneRung, copy_rung, one_rung

RUNG, ITS = "registers_2d", (8, 8)  # the rung; rows and columns of c per thread
WORKS = ((4, 4), (4, 8), (8, 8), (8, 16))  # TM and TN, for 1024 down to 128 threads
OP = "matmul per thread"
FOLDER = ROOT / "build" / "per_thread"


def variant(tm: int, tn: int, folder: Path = FOLDER) -> OneRung:
    """Return the rung with tm x tn elements of c per thread; write it to `folder`."""
    if (tm, tn) == ITS:
        return one_rung(RUNG)
    path = folder / f"registers_{tm}x{tn}.cu"
    copy_rung(RUNG, path, path.stem)
    text = path.read_text()
    for name, value, new in zip(("TM", "TN"), ITS, (tm, tn)):
        if text.count(f" {name} = {value},") != 1:
            raise ValueError(f"{rung_path(RUNG).name}: {name} = {value} is missing")
        text = text.replace(f" {name} = {value},", f" {name} = {new},")
    path.write_text(text)
    return OneRung(path, rung_name(path))


def rows(size: int | str = 4096) -> list[Row]:
    """Return a row of `bench matmul` for each pair in WORKS, with its "tm" and "tn".

    On a GPU, the variants are measured for cubes of `size`. Without a GPU, the rows are
    the committed ones; [] if there are none. Raises Mismatch if a variant is wrong.
    """
    if torch.cuda.is_available():
        return [
            row | {"op": OP, "tm": tm, "tn": tn}
            for tm, tn in WORKS
            for row in variant(tm, tn).race(size)
            if row["impl"] == "mine"
        ]
    paths = sorted((ROOT / "notebooks" / "results").glob("per_thread_*.json"))
    return [row for path in paths[:1] for row in read_json(path)["rows"]]


if __name__ == "__main__":
    write_json(sys.argv[1], rows(), "cuda")
