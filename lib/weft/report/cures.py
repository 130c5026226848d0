"""The kinds of findings, and the usual cure for each.

Each cure has one wording for Python kernels (weft.cuda) and one for CUDA C.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Finding


UPDATE = "update"  # a race in which each thread reads one element and writes it back

IN_PLACE = "in place"  # a race in which one statement reads an array and overwrites it

KINDS = {
    "bounds": "an access outside of an array",
    "race": "a read and a write of one element that nothing orders",
    "unwaited": "an access to memory that a copy still reads or writes",
    "conflict": "different values written to one element by several threads",
    "uninitialised": "a read of an element that has never been written",
    "barrier": "a barrier that some threads of a block reach and others do not",
    "absent-lane": "a lane that a warp's call names or reads, but that does not call",
    "deadlock": "threads that wait for one another forever",
    "hang": "a launch that does not end",
    "misaligned": "an access whose address is not a multiple of its size",
    "use-after-free": "an access to memory that has been freed",
    "host-pointer": "an access to the host's memory from a kernel",
    "stack": "more local memory than a thread has",
    "undefined": "a shift or conversion that is defined on a GPU, but not in C++",
    "exception": "an error that a thread raised",
}


PYTHON = {
    "bounds": "guard the access: if i < n:",
    "race": "a barrier between them, reached by all: cuda.syncthreads()",
    "conflict": "let one thread write it, or add up with cuda.atomic",
    "uninitialised": "write it first, and wait at a barrier if another thread does",
    "barrier": "take the barrier out of the branch, so that every thread reaches it",
    "absent-lane": (
        "let all lanes in the mask make the call: move it out of the branch, with a "
        "neutral value for lanes past the end (0 for a sum)"
    ),
    "deadlock": "let every thread reach the same barriers in the same order",
    "hang": "look for a loop whose condition no thread changes",
    "misaligned": "the address must be a multiple of the size of the access",
    "use-after-free": "free it after the last kernel that uses it",
    "host-pointer": "pass memory of the device: cudaMalloc, then cudaMemcpy",
    "stack": "make local arrays smaller, or end the recursion",
}

C = {
    **PYTHON,
    "bounds": "guard the access: if (i < n)",
    "race": "a barrier between them, reached by all threads: __syncthreads()",
    "unwaited": (
        "wait for its group first: __pipeline_wait_prior(), mbarrier_wait() or the "
        "like; if other threads use the data, add a barrier after the wait"
    ),
    "conflict": "let one thread write it, or add up with atomicAdd()",
    "uninitialised": PYTHON["uninitialised"].replace("a barrier", "__syncthreads()"),
    "barrier": PYTHON["barrier"].replace("the barrier", "__syncthreads()"),
}

_BLOCKS = (
    "separate elements for each block, {atomics}, a second launch (a kernel's end is a "
    "barrier for all blocks), or {fence} and an atomic counter"
)
_WARP = "{warp} between them: all such pairs are in one warp"
_NEXT_TURN = (
    "one more barrier, at the end of each turn of the loop at line {loop}: {barrier}"
)
_IN_TURN = (
    "a barrier between lines {first} and {last}, reached by all threads: {barrier}"
)
_UNWRITTEN = "copy or set it before the launch: cudaMemcpy(), cudaMemset()"
_NULL = "pass an array, or memory from cudaMalloc() (which may have failed)"
_BYTES = (
    "guard the access, or launch with more bytes: kernel<<<grid, block, bytes>>>, in "
    "Python kernel[grid, block, bytes]"
)
_ONE_STEP = "{add} or the like: read, change and write in one step"
# A barrier cannot split one statement that both reads and overwrites an element.
_FIRST_READ = (
    "read into a variable, {barrier} reached by all, then write{again}; or write into "
    "a second array"
)
_AGAIN = " (in a loop, add a barrier after the write as well)"
SOME_ONLY = (
    "write every element that is read: if a guard skips some, write a value into "
    "those, too (0 for a sum)"
)
_LOW = "guard the low end, too: {guard}"
_LIMIT = "correct the guard: compare {index} with the number of elements of {array}"
_ROWS = (
    "verify the length of a row, {row} in {index}, and guard the row and the column "
    "separately"
)
_SECOND_ARRAY = (
    "write into a second array, and swap the two between launches: no barrier holds "
    "for all blocks"
)
_SHIFT = "shift by less than the width: k < 32 ? x << k : 0, or an x of 64 bits"
_CONVERSION = (
    "clamp it first, or use __float2int_rz(), __float2uint_rz() and the like, which "
    "give a GPU's result everywhere"
)


def in_python(finding: Finding) -> str:
    """Return the usual cure for a finding in a Python kernel, or ""."""
    if finding.cure:
        return finding.cure
    if finding.kind == "race" and finding.pattern:
        return _of_pattern(finding, "cuda.atomic.add", "cuda.syncthreads()")
    if finding.kind == "race" and finding.thread is None:
        return _BLOCKS.format(atomics="cuda.atomic", fence="cuda.threadfence()")
    barriers = "cuda.syncthreads()", "cuda.syncwarp()"
    cure = _describe_barrier(finding, *barriers) if finding.kind == "race" else ""
    return cure or PYTHON.get(finding.kind, "")


def in_c(finding: Finding, space: str, waits: bool = False) -> str:
    """Return the usual cure for a finding in a CUDA C kernel; "" if there is no rule.

    space: the array's memory, "global" or "shared". waits: whether the kernel has
    reached any barrier.
    """
    if "a null pointer" in finding.text:
        return _NULL
    if "since the launch gave" in finding.text:
        return _BYTES
    if finding.kind == "race" and finding.pattern:
        return _of_pattern(finding, "atomicAdd()", "__syncthreads()")
    if finding.kind == "race" and finding.thread is None:
        return _BLOCKS.format(atomics="atomicAdd()", fence="__threadfence()")
    if finding.kind == "undefined":
        return _SHIFT if " shifts " in finding.text else _CONVERSION
    if finding.kind == "uninitialised" and space == "global":
        return _UNWRITTEN
    if finding.kind == "uninitialised" and waits:
        return SOME_ONLY
    barriers = "__syncthreads()", "__syncwarp()"
    cure = _describe_barrier(finding, *barriers) if finding.kind == "race" else ""
    return cure or C.get(finding.kind, "")


def guard(
    array: str, parts: Sequence[str], at: Sequence[int], lines: str, form: str
) -> str:
    """Return a cure for an access outside an array; "" if there is nothing to add.

    parts: the indices as written. at: their values. lines: the source up to the access.
    form: template of an if statement, "if ({})" or "if {}:".
    """
    if not parts or len(parts) != len(at):
        return ""
    parts = [f"({p})" if re.search(r"[<>=&|^?]", p) else p.strip() for p in parts]
    for part, value in zip(parts, at):
        if value < 0:
            return _LOW.format(guard=form.format(f"{part} >= 0"))
    if len(parts) > 1:
        return ""
    part = parts[0]
    product = re.search(r"\*\s*(\w+)", part)
    if product and not re.search(r"\b(?:block|thread)(?:Idx|Dim)\b", part):
        return _ROWS.format(row=product[1], index=part)
    if re.search(rf"(?<![\w+*/.-])\s*{re.escape(part)}\s*(?:<|>=)(?![<=>])", lines):
        return _LIMIT.format(index=part, array=array)
    return f"guard the access: {form.format(f'{part} < n')}" if len(part) <= 30 else ""


def of_one_warp(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; clear one_warp unless all races are within a warp."""
    races = [f for f in findings if f.kind == "race" and f.thread is not None]
    if all(f.one_warp for f in races):
        return list(findings)
    return [dataclasses.replace(finding, one_warp=False) for finding in findings]


def _describe_barrier(finding: Finding, barrier: str, of_warp: str) -> str:
    """Describe where a barrier prevents a block's race; "" if there is no rule."""
    if finding.one_warp:
        return _WARP.format(warp=of_warp)
    turns = finding.turns
    if turns and turns.one != turns.other:
        return _NEXT_TURN.format(loop=turns.loop, barrier=barrier)
    if turns and finding.line != finding.other_line:
        first, end = sorted((finding.line, finding.other_line))
        return _IN_TURN.format(first=first, last=end, barrier=barrier)
    return ""


def _of_pattern(finding: Finding, add: str, barrier: str) -> str:
    """Return the cure for a race with a known pattern."""
    if finding.pattern == UPDATE:
        return _ONE_STEP.format(add=add)
    assert finding.pattern == IN_PLACE
    if finding.thread is None:
        return _SECOND_ARRAY
    suffix = "" if finding.turns else _AGAIN
    return _FIRST_READ.format(barrier=barrier, again=suffix)
