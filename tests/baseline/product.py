"""The only place where the baseline imports internal names of the product.

If a reorganisation moves these names, only this file of the baseline changes. The
sections use public names otherwise: weft.check, weft.sim, ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.programs.program import Program, build_executable
from weft.report.raw import Files, program_report
from weft.toolchain import build
from weft.toolchain.tools import find_disassembler as disassembler

__all__ = [
    "EDIT",
    "KERNELS",
    "Files",
    "disassembler",
    "nvcc_command",
    "program_report",
    "watched_program",
]

KERNELS = build.KERNELS
# A Python command that prints the rows of `bench edit` without its peers, which take a
# minute.
EDIT = [
    *(sys.executable, "-c"),
    "import json; from weft.benchmarks import edit;"
    "print(json.dumps(edit.rows(peers=0)))",
]


def watched_program(path: Path) -> Path:
    """Return the executable of a program under the watch build."""
    return build_executable(Program([str(path)], optimise="1", check=True))


def nvcc_command(source: Path) -> list[str]:
    """Return the nvcc command for a kernel on sm_90a, without input and output."""
    return build._make_command(source, build.Flavour("cuda", sm="90a"))
