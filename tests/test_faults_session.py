"""In one long session of edits, the use of system resources stays bounded."""

from __future__ import annotations

import re

import pytest
from faults import copy_lab, python

EDITS, LIBRARIES = 150, 8
# A library stays open, since one of its kernels may still be in use. It costs a few
# pages and five mappings, of the 65,530 that Linux allows.
MAPPINGS, KILOBYTES = 6, 120

SESSION = f"""
import gc, os, pathlib, sys
import numpy as np
from weft.toolchain import native
from weft.cells import CompileError, load_cuda

def state():
    gc.collect()
    kilobytes = int(open("/proc/self/statm").read().split()[1]) * 4
    mappings = len(open("/proc/self/maps").readlines())
    threads = len(os.listdir("/proc/self/task"))
    print(len(os.listdir("/proc/self/fd")), mappings, kilobytes, threads)

KINDS = [{{}}, {{}}, {{}}, dict(inplace=True), dict(watched=True), dict(isolated=True)]

def edit(number):
    head = "" if number % 2 else f"__device__ int g = {{number}}; "
    value = f"{{number}}" if number % 2 else "g"
    text = f"{{head}}__global__ void k(int *x) {{{{ x[threadIdx.x] = {{value}}; }}}}"
    x = np.zeros(4, np.int32)
    if number % 9 == 8:  # a slip, and its cure
        try:
            load_cuda(text.replace("threadIdx.x", "theadIdx.x"))
            raise SystemExit("the slip was not seen")
        except CompileError:
            pass
    load_cuda(text, **KINDS[number % len(KINDS)]).k[1, 4](x)
    assert (x == number).all()

source = pathlib.Path(sys.argv[1])
text = source.read_text()

def rebuild(number):
    source.write_text(f"{{text}}// edit {{number}}\\n")
    native.reload()
    assert native.library("relu", "cpu").rung().name == "reference"

for number in range(30):
    edit(number)
for number in range(3):
    rebuild(number)
state()
for number in range(30, {EDITS}):
    edit(number)
for number in range(3, {LIBRARIES}):
    rebuild(number)
state()
"""


@pytest.mark.slow
@pytest.mark.long
def test_after_many_edits_a_session_holds_little_more(tmp_path):
    lab = copy_lab(tmp_path / "lab")
    source = lab / "kernels/relu.cu"
    result = python(lab, tmp_path / "cache", "-c", SESSION, str(source))
    assert result.returncode == 0, result.stderr
    lines = re.findall(r"^(\d+) (\d+) (\d+) (\d+)$", result.stdout, re.M)
    before, after = [[int(n) for n in line] for line in lines]
    more = [b - a for a, b in zip(before, after)]
    edits = EDITS + LIBRARIES - 33
    files, mappings, kilobytes, threads = more
    assert files <= 1 and threads <= 1, more
    assert mappings <= MAPPINGS * edits and kilobytes <= KILOBYTES * edits, more
    assert len(list((lab / "lib").glob("libweft_cpu_relu_*.so"))) <= 4
    assert not list(tmp_path.rglob("libweft_part_*"))
