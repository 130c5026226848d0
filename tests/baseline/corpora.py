"""The corpora of tests/ that the baseline runs: their places and contents.

A reorganisation also moves these. Then only this file, like product.py, must change.
"""

from __future__ import annotations

from pathlib import Path

from conftest import ZOO, zoo_library
from faulty_kernels import ALIASED, CASES, CLEAN
from marked_cases import cases as marked_cases
from puzzle_answers import RIGHT, WRONG
from python_kernels import CASES as COUNTED
from wrong_kernels import RIGHT as RIGHT_CHECKS
from wrong_kernels import WRONG as WRONG_CHECKS

from weft.ops.check import check_rung

__all__ = [
    "ALIASED",
    "CASES",
    "CLEAN",
    "COUNTED",
    "INSPECT",
    "PROGRAMS",
    "RACES",
    "RIGHT",
    "RIGHT_CHECKS",
    "WRONG",
    "WRONG_CHECKS",
    "ZOO",
    "check_rung",
    "marked_cases",
    "zoo_library",
]

TESTS = Path(__file__).resolve().parents[1]
INSPECT = TESTS / "report/corpus"  # faulty/*.cu and clean/*.cu, with marked cases
RACES = TESTS / "programs/races"  # racy.cu and clean.cu
PROGRAMS = TESTS / "programs"  # whole programs
