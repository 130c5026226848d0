"""What usually cures a finding: in the words of weft.cuda, and in those of CUDA C."""

from __future__ import annotations

from . import IN_PLACE, UPDATE, Finding

PYTHON = {
    "bounds": "guard the access: if i < n:",
    "race": "a barrier between them, reached by all: cuda.syncthreads()",
    "conflict": "let one thread write it, or add up with cuda.atomic",
    "uninitialised": "write it first, and wait at a barrier if another thread does",
    "barrier": "take the barrier out of the branch, so that every thread reaches it",
    "absent-lane": (
        "let all lanes that the mask names make the call: take it out of the branch, "
        "with a value that changes nothing for lanes past the end (0 for a sum)"
    ),
    "deadlock": "let every thread reach the same barriers in the same order",
    "hang": "look for a loop whose condition no thread changes",
    "misaligned": "an address has to be a multiple of the size that is accessed",
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
        "like; and where other threads use it a barrier after that"
    ),
    "conflict": "let one thread write it, or add up with atomicAdd()",
    "uninitialised": (
        "write it first, and wait at __syncthreads() if another thread does"
    ),
    "barrier": (
        "take __syncthreads() out of the branch, so that every thread reaches it"
    ),
}

_BLOCKS = (
    "blocks that write apart, {atomics}, a second launch (a kernel's end is a barrier "
    "for all blocks), or {fence} and an atomic counter"
)
# Only the first pair of threads is known: others may lie in two warps.
_WARP = (
    "{block} between them, reached by all; {warp} where all such pairs lie in one warp"
)
_UNWRITTEN = "copy or set it before the launch: cudaMemcpy(), cudaMemset()"
_NULL = "pass an array, or memory that cudaMalloc() gave (it may have failed)"
_BYTES = (
    "guard the access, or launch with more: kernel<<<grid, block, bytes>>>, in Python "
    "kernel[grid, block, bytes]"
)
_ONE_STEP = "{add} or its like: read, change and write as one step"
# A barrier cannot stand within a statement that reads, and overwrites what is read.
_FIRST_READ = (
    "read into a variable, {barrier} reached by all, then write (in a loop one after "
    "the write as well); or write into a second array"
)
_SECOND_ARRAY = (
    "write into a second array, and swap the two between launches: no barrier holds "
    "for all blocks"
)
_SHIFT = "shift by less than the width: k < 32 ? x << k : 0, or x of 64 bits"
_CONVERSION = (
    "clamp it first; or __float2int_rz(), __float2uint_rz() and their like, which give "
    "a GPU's number everywhere"
)


def in_python(one: Finding) -> str:
    """What usually cures a finding in a kernel in Python; "" if there is no rule."""
    if one.cure:
        return one.cure
    if one.kind == "race" and one.pattern:
        return _of_pattern(one, "cuda.atomic.add", "cuda.syncthreads()")
    if one.kind == "race" and one.thread is None:
        return _BLOCKS.format(atomics="cuda.atomic", fence="cuda.threadfence()")
    if one.kind == "race" and "in one warp" in one.text:
        return _WARP.format(warp="cuda.syncwarp()", block="cuda.syncthreads()")
    return PYTHON.get(one.kind, "")


def in_c(one: Finding, space: str) -> str:
    """What usually cures a finding in a kernel in CUDA C; "" if there is no rule.

    space: of its array, "global" or "shared".
    """
    if "a null pointer" in one.text:
        return _NULL
    if "since the launch gave" in one.text:
        return _BYTES
    if one.kind == "race" and one.pattern:
        return _of_pattern(one, "atomicAdd()", "__syncthreads()")
    if one.kind == "race" and one.thread is None:
        return _BLOCKS.format(atomics="atomicAdd()", fence="__threadfence()")
    if one.kind == "race" and "in one warp" in one.text:
        return _WARP.format(warp="__syncwarp()", block="__syncthreads()")
    if one.kind == "undefined":
        return _SHIFT if " shifts " in one.text else _CONVERSION
    if one.kind == "uninitialised" and space == "global":
        return _UNWRITTEN
    return C.get(one.kind, "")


def _of_pattern(one: Finding, add: str, barrier: str) -> str:
    """What cures a race whose two sides are known to belong together."""
    if one.pattern == UPDATE:
        return _ONE_STEP.format(add=add)
    assert one.pattern == IN_PLACE
    return _SECOND_ARRAY if one.thread is None else _FIRST_READ.format(barrier=barrier)
