"""Rules that a cell must follow on both targets, checked before any compiler runs.

g++ does not distinguish host functions from device functions, and accepts much code
that NVRTC refuses. Where both compilers refuse the code, neither explains the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..csource import scanner
from ..csource.diagnostics import Diagnostic, diagnose
from ..csource.signature import Signature

Complaint = tuple[int, str]  # the offset in the code, and the message
_RUNS = "a whole program runs with python -m weft run program.cu"
_HOST_NAMES = re.compile(
    r"(?<!cuda::)\bstd::(async|atomic|c?err|cin|cout|clog|chrono|condition_variable"
    r"|copy|deque|endl|exception|fill|find|for_each|forward_list|function|future"
    r"|getline|[io]?f?stream|i?o?stringstream|iota|iterator|list|lock_guard"
    r"|make_shared|make_unique|map|mt19937(?:_64)?|multimap|multiset|mutex"
    r"|priority_queue|queue|random_device|runtime_error|set|shared_ptr|sort|stack"
    r"|string(?:_view)?|thread|to_string|transform|unique_lock|unique_ptr"
    r"|unordered_\w+|vector|weak_ptr)\b"
)
_HOST_CALL = re.compile(
    r"\bcuda(?:Malloc|Memcpy|Memset|Free|Host|Device|Stream|Event|GetLast|Launch|Func)"
    r"\w*(?=\s*\()"
)
_HOST_HEADERS = {
    *("iostream", "vector", "string", "cstdlib", "algorithm", "chrono", "thread"),
    *("memory", "map", "fstream", "sstream", "iomanip", "random", "numeric", "mutex"),
    *("functional", "unordered_map", "set", "cuda_runtime_api.h", "unistd.h"),
}


def check(source: str, kernels: Sequence[Signature]) -> list[Diagnostic]:
    """Return the errors in the cell; [] if there are none."""
    code = scanner.blank_comments(source)
    errors = [*_check_host_calls(source, code), *_check_kernels(code, kernels)]
    errors += [*_check_undecorated(code), *_check_language(code)]
    errors += _check_variables(code)
    if not kernels and not errors:
        errors.append(_no_kernel(code))
    return [diagnose(code, *error) for error in sorted(errors, key=lambda e: e[0])]


def find_doubles(source: str) -> list[Diagnostic]:
    """Return a note for the first double literal in a source that declares no double.

    If x is a float, 0.5 * x is computed in double: correct, but 32 or 64 times slower
    on most GPUs.
    """
    code = scanner.blank_comments(source)
    if re.search(r"\bdouble\b|\bT\b", code):
        return []
    number = r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])"
    for match in re.finditer(number, code):
        line = code[code.rfind("\n", 0, match.start()) + 1 : match.start()]
        if line.lstrip().startswith("#"):
            continue
        text = f"{match.group()} is a double: write {match.group()}f for a float"
        return [diagnose(code, match.start(), text, "note")]
    return []


def _no_kernel(code: str) -> Complaint:
    """Report a missing kernel; a misspelled __global__ may be the cause."""
    message = "there is no kernel in this cell"
    text = f"{message}: __global__ void name(...)"
    for match in re.finditer(r"\b_*glob[al]{1,3}_*\b", code, re.I):
        if match.group() != "__global__":
            return match.start(), f"{text}, not {match.group()}"
    for match in scanner.DIRECTIVE.finditer(code):
        if match[1] == "define" and re.search(r"\b__global__\b", match[2]):
            return match.start(), f"{message}: write __global__ out, not in a macro"
    return 0, text


# ---- errors in NVRTC, but not in g++ ---------------------------------------------


def _check_language(code: str) -> Iterator[Complaint]:
    if match := re.search(r"/\*", code):
        yield match.start(), "this comment /* is never closed: */"
    if match := re.search(r"\btry\s*\{|\bthrow\b|\bcatch\s*\(", code):
        cure = "write an error code into an array, or use assert()"
        yield match.start(), f"device code has no exceptions: {cure}"
    types: dict[str, tuple[str, int]] = {}
    extern = r"\bextern\s+__shared__\s+((?:[\w:<>]|\s)+?)\s*\b(\w+)\s*\["
    for match in re.finditer(extern, code):
        kind = " ".join(re.sub(r"__align__|alignas", " ", match[1]).split())
        line = code.count("\n", 0, match.start()) + 1
        first = types.setdefault(match[2], (kind, line))
        if first[0] != kind:
            claim = f"{match[2]} is {first[0]} on line {first[1]} and {kind} here"
            cure = "a name has one type, so give them different names"
            yield match.start(2), f"extern __shared__ {claim}: {cure}"


_DECLARED = re.compile(
    r"(?:(?:static|volatile|unsigned|signed)\s+)*"
    r"(?:bool|char|short|int|long|unsigned|float|double|size_t|u?int(?:8|16|32|64)_t"
    r"|(?:float|double|u?int)[1-4])"
    r"(?:\s+(?:int|long))*\s*\**\s*\b(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:=|;|$)"
)


def _check_variables(code: str) -> Iterator[Complaint]:
    """Report global host variables that a kernel uses, since g++ accepts them."""
    bodies = [body for _, _, body in _list_functions(code)]
    for head, at, _ in scanner.list_outermost(code):
        match = _DECLARED.match(head.strip())
        if not match or not any(re.search(rf"\b{match['name']}\b", b) for b in bodies):
            continue
        offset = at + head.index(match["name"], len(head) - len(head.lstrip()))
        cure = "write __device__ before it, or const if nothing changes it"
        yield offset, f"{match['name']} is a host variable: {cure}"


# ---- host code ------------------------------------------------------------------


def _check_host_calls(source: str, code: str) -> Iterator[Complaint]:
    launch = "name[grid, block](...)"
    if match := re.search(r"\bmain\s*\([^;{]*\)\s*\{", code):
        claim = f"a cell has no main(): Python launches its kernels, {launch}"
        yield match.start(), f"{claim}; {_RUNS}"
    if match := re.search(r"<<<", code):
        yield match.start(), f"Python launches the kernels of a cell: {launch}"
    if match := _HOST_CALL.search(code):
        claim = f"{match.group()}() is a host function, but a cell is device code"
        yield match.start(), f"{claim}: make arrays in Python and pass them; {_RUNS}"
    for match in scanner.INCLUDE.finditer(source):
        name, is_code = match["name"], code[match.start() : match.end()].strip()
        if match["bracket"] == "<" and name in _HOST_HEADERS and is_code:
            known = "printf, math and fixed-width integers need no #include"
            claim = f"<{name}> is a host header: kernels do not need it"
            yield match.start(), f"{claim} ({known})"
    if match := _HOST_NAMES.search(code):
        known = "names of std:: such as numeric_limits, move, is_same_v, min and sqrt"
        claim = f"std::{match[1]} runs on the host only"
        yield match.start(), f"{claim}; a kernel can use plain arrays, and {known}"


def _check_kernels(code: str, kernels: Sequence[Signature]) -> Iterator[Complaint]:
    lines: dict[str, int] = {}
    for kernel in kernels:
        start = sum(len(line) + 1 for line in code.split("\n")[: kernel.line - 1])
        name = re.compile(rf"\b{kernel.name}\b").search(code, start)
        offset = name.start() if name else start
        if kernel.returns != "void":
            cure = f"__global__ void {kernel.name}(...), with an array for its result"
            yield offset, f"a kernel returns nothing: {cure}"
        for param in kernel.params:
            if "&" in param.type:
                claim = f"a kernel's parameter cannot be a reference ({param})"
                yield offset, f"{claim}: pass an array, or the value"
        if kernel.name in lines:
            other = f"the other one is on line {lines[kernel.name]}"
            claim = f"there are two kernels {kernel.name}; {other}"
            yield offset, f"{claim}: give them different names"
        lines[kernel.name] = kernel.line
        yield from _check_returns(code, offset)


def _check_returns(code: str, start: int) -> Iterator[Complaint]:
    """Report `return i;` in a kernel, which g++ accepts as part of a lambda."""
    brace = code.find("{", start)
    body = code[brace : scanner.find_close(code, brace) + 1] if brace >= 0 else ""
    if match := re.search(r"\breturn\b(?!\s*;)", _without_nested(body)):
        claim = "a kernel returns nothing: write its result into an array"
        yield brace + match.start(), claim


# _NESTED matches the text from a lambda's ] to its body, or the head of a local class.
_QUALIFIED = r"(?:(?:mutable|noexcept|constexpr|__\w+__)\b\s*(?:\([^()]*\)\s*)?)*"
_NESTED = re.compile(
    rf"\]\s*(?:<[^<>]*>\s*)?{_QUALIFIED}(?:\((?:[^()]|\([^()]*\))*\)\s*)?"
    rf"{_QUALIFIED}(?:->[^{{}};]*)?\{{"
    r"|\b(?:struct|class|union)\b[^(){};=]*\{"
)


def _without_nested(body: str) -> str:
    """Return a function's body with lambdas' and local classes' bodies blanked out."""
    at = 0
    while match := _NESTED.search(body, at):
        at, end = match.end(), scanner.find_close(body, match.end() - 1)
        if end < 0:
            break
        body = body[:at] + scanner.fill(body[at:end]) + body[end:]
        at = end
    return body


# ---- helpers without __device__ --------------------------------------------------

_CALLABLE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


def _check_undecorated(code: str) -> Iterator[Complaint]:
    """Report functions that device code calls although they lack __device__."""
    host: dict[str, int] = {}
    device: list[str] = []
    for head, at, body in _list_functions(code):
        if re.search(r"\b(?:__global__|__device__)\b", head):
            device.append(body)
        elif "constexpr" not in head:
            name = _CALLABLE.search(head)
            if name:
                host[name[1]] = at + name.start()
    for name, offset in host.items():
        if any(re.search(rf"(?<![\w.>:]){name}\s*\(", body) for body in device):
            claim = f"a kernel calls {name}(), which is a host function"
            yield offset, f"{claim}: write __device__ before it"


def _list_functions(code: str) -> Iterator[tuple[str, int, str]]:
    """Yield (head, offset of the head, body) for each function outside any class."""
    for head, start, body in scanner.list_outermost(code):
        is_class = re.search(r"\b(?:struct|class|enum|union)\s+\w+\s*$", head)
        if body and "(" in head and not is_class:
            yield head, start, body
