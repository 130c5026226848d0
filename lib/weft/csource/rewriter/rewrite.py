r"""CUDA C -> C++ that g++ takes on top of kernels/simt, line for line.

Only what is not C++ is changed, and only within its line:

    k<<<grid, block>>>(a, b)     (simt::Launch(grid, block), k(a, b))
    __global__ void k(int n) {   void k(int n) {SIMT_PARAMETERS("n", n) SIMT_BODY;
                                 ... SIMT_END}
    __shared__ float s[2], t;    a struct with these members, placed by the
                                 runtime, and references to its members
    extern __shared__ T s[];     a reference to where the launch put it
    threadIdx.x                  simt::x(threadIdx)
    clock()                      clock64(), in device code
    (void *)k                    (void *)simt::typed(k), where k is a kernel
    return;                      {SIMT_LEAVES return;} in a function of the device
    s[i] += s[i + 16];           s[i] += simt::lockstep([&] { return s[i + 16]; });
                                 where s is volatile: see shared.py
    __noinline__                 SIMT_NOINLINE

So `threadIdx` stays a name like any other, a launch evaluates its arguments
once, as an ordinary call does, and the compiler's messages name the lines of
the source. Comments, strings and what stands under `#ifdef __CUDACC__` are left
alone. Inline PTX is refused: it has no meaning on a CPU.
"""

from __future__ import annotations

import re

from ..scanner import (
    ATTRIBUTE,
    BLANK,
    DIRECTIVE,
    LAUNCH,
    RewriteError,
    ScannedText,
    on_one_line,
    replace_spans,
    split_declarators,
)
from .preprocess import PreprocessedSource
from .shared import rewrite_lockstep, rewrite_shared
from .unsupported import ASM, device_bodies, refuse

__all__ = ["RewriteError", "rewrite", "rewrite_program"]


def rewrite(source: str, path: str) -> str:
    """The C++ for the CUDA C in `source`, whose name in messages is `path`.

    The result is two lines (an #include and a #line) and then the lines of the
    source, as many as it has. Raises RewriteError with `path:line`.
    """
    text = ScannedText(source, path)
    for match in ASM.finditer(text.code):
        raise text.error(
            match.start(),
            "inline PTX cannot run on the CPU: put it under #ifdef __CUDACC__ and "
            "mark the rung as GPU-only (targets = WEFT_CUDA)",
        )
    name = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'#include "cuda_runtime.h"\n#line 1 "{name}"\n{_apply_steps(text).raw}'


def rewrite_program(source: PreprocessedSource, path: str) -> str:
    """The C++ for a whole program's preprocessed source, headers and all.

    Compile it with kernels/simt in the include path and nothing of the
    program's own. Raises RewriteError with the file and line, as the reader has
    them, of the first thing that a CPU cannot do.
    """
    text = ScannedText(source.own, path)
    refuse(text)
    names = " ".join(sorted(_device_variables(text)))
    device = f'\nSIMT_DEVICE_NAMES(" {names} ")\n'  # no line of the reader's moves
    return '#include "program.h"\n' + source.restore(_apply_steps(text).raw) + device


def _device_variables(text: ScannedText) -> set[str]:
    """The names in declarations of __device__ variables, and some words besides."""
    names: set[str] = set()
    for match in re.finditer(r"\b__(?:device|constant|managed)__\b", text.code):
        end, code = match.end(), text.code
        while end < len(code) and code[end] != ";":
            if code[end] == "{":
                function = re.search(r"\)[\s\w]*$", code[match.end() : end][-80:])
                end = text.close(end, "{", "}")
                if function:
                    break
            end += 1
        else:
            names.update(re.findall(r"[A-Za-z_]\w*", code[match.end() : end]))
    return names


def _apply_steps(text: ScannedText) -> ScannedText:
    before = (
        _rewrite_clocks,
        _rewrite_casts,
        _rewrite_launches,
        rewrite_lockstep,
        _rewrite_returns,
    )
    for step in (*before, _rewrite_kernels, rewrite_shared, _rewrite_names):
        text = ScannedText(step(text), text.path)
    return text


# ---- the clock ---------------------------------------------------------------


def _rewrite_clocks(text: ScannedText) -> str:
    """On the device clock() is not the host's, which counts microseconds."""
    found = re.finditer(r"(?<![\w.>:])(?:::\s*)?\bclock(?=\s*\(\s*\))", text.code)
    found = list(found)
    bodies = device_bodies(text) if found else []
    inside = [m for m in found if any(a < m.start() < b for a, b, _ in bodies)]
    return replace_spans(text, [(m.start(), m.end(), "clock64") for m in inside])


# ---- kernels as `void *` -------------------------------------------------------

_VOID = r"(?:const\s+)?void\s*(?:const\s*)?\*\s*"
_CAST = rf"(?:\(\s*{_VOID}\)|\b(?:reinterpret|static)_cast\s*<\s*{_VOID}>\s*\()\s*"
_KERNEL_CAST = re.compile(rf"{_CAST}(?P<kernel>&?\s*(?:\w+\s*::\s*)*(?P<name>\w+))\b")


def _rewrite_casts(text: ScannedText) -> str:
    """Have simt::typed() note a kernel's type where a cast would forget it."""
    found = list(_KERNEL_CAST.finditer(text.code))
    kernels = _kernel_names(text) if found else set()
    edits = []
    for match in found:
        if match["name"] in kernels:
            end = match.end()
            if text.code[text.skip(end)] == "<" and not LAUNCH.match(text.code, end):
                end = _angle_end(text, text.skip(end))
            start = match.start("kernel")
            edits.append((start, end, f"simt::typed({text.raw[start:end]})"))
    return replace_spans(text, edits)


def _kernel_names(text: ScannedText) -> set[str]:
    names = set()
    for match in re.finditer(r"\b__global__\b", text.code):
        head = ATTRIBUTE.sub(" ", text.code[match.end() : match.end() + 600])
        head = re.sub(r"__\w+__\s*\((?:[^()]|\([^()]*\))*\)", " ", head)
        if found := re.search(r"(\w+)\s*(?:<[^();]*>)?\s*\(", head):
            names.add(found[1])
    return names


def _angle_end(text: ScannedText, start: int) -> int:
    """The offset after the > that closes the < at `start`."""
    depth, i = 0, start
    while i < len(text.code):
        c = text.code[i]
        if c == "(":
            i = text.close(i, "(", ")")
        depth += (c == "<") - (c == ">")
        i += 1
        if depth == 0:
            return i
    raise text.error(start, "this '<' is never closed")


# ---- launches ----------------------------------------------------------------


def _rewrite_launches(text: ScannedText) -> str:
    edits = []
    for match in LAUNCH.finditer(text.code):
        start = match.start()
        name = _find_callee(text, start)
        last, end = _end_of_config(text, match)
        close = text.close(text.skip(end), "(", ")")
        config, breaks = on_one_line(text, match.end(), last)
        edits.append((name, name, f"(simt::Launch({config}), "))
        edits.append((start, end, breaks))
        edits.append((close, close + 1, "))"))
    return replace_spans(text, edits)


def _find_callee(text: ScannedText, end: int) -> int:
    """Where the expression that is launched begins; it ends before `end`."""
    code = text.code
    i = text.skip_back(end)
    while True:
        if i and code[i - 1] == ">":
            i = text.skip_back(text.open(i - 1, "<", ">"))
        elif i and code[i - 1] in ")]":
            i = text.open(i - 1, *("()" if code[i - 1] == ")" else "[]"))
            before = text.skip_back(i)
            if not (before and re.match(r"[\w)\]]", code[before - 1])):
                return i
            i = before
            continue
        start = i
        while start and re.match(r"\w", code[start - 1]):
            start -= 1
        if start == i:
            raise text.error(end, "a launch needs a kernel before <<<")
        before = text.skip_back(start)
        joint = re.search(r"(?:::|\.|->)$", code[max(0, before - 2) : before])
        if not joint:
            return start
        i = text.skip_back(before - len(joint.group()))
        if joint.group() == "::" and not (i and re.match(r"[\w>]", code[i - 1])):
            return before - 2  # ::kernel


def _end_of_config(text: ScannedText, opening: re.Match[str]) -> tuple[int, int]:
    """Where the >>>, before a (, that closes this <<< begins and ends."""
    depth, start = 0, opening.start()
    # Editors that do not know CUDA make << < and >> > of them.
    closing = re.compile(">>>" if opening.group() == "<<<" else r">>\s*>")
    for i in range(opening.end(), len(text.code)):
        c = text.code[i]
        depth += (c in "([{") - (c in ")]}")
        if depth < 0 or (c == ";" and depth == 0):
            break
        found = closing.match(text.code, i) if depth == 0 else None
        if found:
            after = text.skip(found.end())
            # In <<<size<B<C<int>>>(n)>>> the first would do, but for the rest.
            if text.code[after : after + 1] == "(" and not text.code.startswith(
                ">", found.end()
            ):
                return i, found.end()
    raise text.error(start, "this <<< has no >>>, or no arguments after it")


# ---- kernels -----------------------------------------------------------------


def _rewrite_kernels(text: ScannedText) -> str:
    edits = []
    for match in re.finditer(r"\b__global__\b", text.code):
        edits.append((match.start(), match.end(), ""))
        brace = text.body(match.end())
        if brace is None:
            continue  # a declaration
        directive = _directive_end(text, match.start())
        if directive is not None and brace > directive:
            raise text.error(
                match.start(), "write __global__ at the kernel, not in a macro"
            )
        close = text.close(brace, "{", "}")
        taking = "".join(f", &{n}" for n in _list_references(text, match.end(), brace))
        body = f"SIMT_BODY_TAKING([={taking}])" if taking else "SIMT_BODY"
        names = ", ".join(_list_parameters(text, match.end(), brace))
        named = f'"{names}", {names}' if names else '""'
        begin = f"{{SIMT_PARAMETERS({named}) {body}; "
        edits.append((brace, brace + 1, begin))
        edits.append((close, close + 1, " SIMT_END}"))
    return replace_spans(text, edits)


def _rewrite_returns(text: ScannedText) -> str:
    """Have functions of the device say that they are left before their end.

    Kernels need not: a thread that comes to the end of one says so (SIMT_END).
    """
    found = [*re.finditer(r"\breturn[ \t]*;", text.code)]
    bodies = device_bodies(text) if found else []
    kernels = {text.body(m.end()) for m in re.finditer(r"\b__global__\b", text.code)}
    edits = []
    for match in found:
        around = {a for a, b, _ in bodies if a < match.start() < b}
        if around and not around & kernels:
            edits.append((*match.span(), "{SIMT_LEAVES return;}"))
    return replace_spans(text, edits)


def _list_references(text: ScannedText, start: int, brace: int) -> list[str]:
    """The names of a kernel's parameters that are references.

    A copy, which is what [=] takes, would keep from the caller what the kernel
    writes.
    """
    names = []
    for declared in _list_declarations(text, start, brace):
        if found := re.search(r"&\s*(?:\.\.\.\s*)?(\w+)\s*$", declared):
            names.append(found[1] + ("..." if "..." in declared else ""))
    return names


# What stands before a parameter's name: a type, or the end of one.
_PARAMETER = re.compile(
    r"(?:[*&>]|[\w>]\s)(?:\s|\b(?:const|volatile|__restrict__|__restrict)\b)*"
    r"\b(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$"
)
_TYPE_WORDS = {
    *("bool", "char", "const", "double", "float", "int", "long", "short", "signed"),
    *("struct", "typename", "unsigned", "void", "volatile"),
    *("__restrict", "__restrict__"),
}
_ONLY_WORDS = re.compile(
    r"^\s*(?:(?:const|volatile|struct|typename|unsigned|signed)\s+)*$"
)


def _list_parameters(text: ScannedText, start: int, brace: int) -> list[str]:
    """The names of a kernel's parameters, of those that have one; no packs."""
    names = []
    for declared in _list_declarations(text, start, brace):
        found = _PARAMETER.search(declared)
        if not found or "..." in declared or found["name"] in _TYPE_WORDS:
            continue
        if not _ONLY_WORDS.match(declared[: found.start("name")]):
            names.append(found["name"])
    return names


def _list_declarations(text: ScannedText, start: int, brace: int) -> list[str]:
    """The declarations of a kernel's parameters, without what they default to."""
    close = text.code.rfind(")", start, brace)
    if close < 0:  # `__global__ void k {`
        return []
    opening = text.open(close, "(", ")")
    parts = split_declarators(text, opening + 1, close)
    return [text.code[a:b].replace(BLANK, " ").split("=")[0] for a, b in parts]


def _directive_end(text: ScannedText, offset: int) -> int | None:
    """Where the # directive around `offset` ends; None outside of one."""
    for match in DIRECTIVE.finditer(text.code):
        if match.start() <= offset < match.end():
            return match.end()
    return None


# ---- names -------------------------------------------------------------------

_NAMES = re.compile(
    r"(?P<index>\b(?:threadIdx|blockIdx|blockDim|gridDim)\b)\s*\.\s*(?P<axis>[xyz])\b"
    r"|(?P<noinline>\b__noinline__\b)"
    r"|(?P<forceinline>\b__forceinline__\b)"
    r"|\b(?:cudaLaunchKernel|cudaLaunchCooperativeKernel|cudaLaunchKernelExC)"
    r"\s*\(\s*(?P<cast>\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)"
    r"|(?:reinterpret|static)_cast\s*<\s*(?:const\s+)?void\s*\*\s*>)"
)
_INLINE_BESIDE = re.compile(r"\b(?:inline|__inline__|__inline)\b[\w\s]*$")
_INLINE_AFTER = re.compile(r"[\w\s]*?\b(?:inline|__inline__|__inline)\b")


def _rewrite_names(text: ScannedText) -> str:
    edits = []
    for match in _NAMES.finditer(text.code):
        before = text.code[: match.start()].rstrip()[-2:]
        if match["noinline"]:
            if not before.endswith("(") and not before.endswith(","):
                edits.append((match.start(), match.end(), "SIMT_NOINLINE"))
        elif match["forceinline"]:
            # g++, unlike nvcc, refuses a second `inline`.
            twice = _INLINE_BESIDE.search(text.code[: match.start()][-200:])
            if twice or _INLINE_AFTER.match(text.code, match.end()):
                edits.append((match.start(), match.end(), ""))
        elif match["cast"]:
            # The kernel's type says what its arguments are.
            edits.append((match.start("cast"), match.end("cast"), ""))
        elif not before.endswith((".", "->", "::")) and "\n" not in match.group():
            new = f"simt::{match['axis']}({match['index']})"
            edits.append((match.start(), match.end(), new))
    return replace_spans(text, edits)
