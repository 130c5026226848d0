r"""Translate CUDA C to C++ for g++ and kernels/simt, line for line.

Only constructs that are not C++ are changed, and only within their line:

    k<<<grid, block>>>(a, b)     (simt::Launch(grid, block), k(a, b))
    __global__ void k(int n) {   void k(int n) {SIMT_PARAMETERS("n", n) SIMT_BODY;
                                 ... SIMT_END}
    __shared__ float s[2], t;    a struct with these members, placed by the
                                 runtime, and references to its members
    extern __shared__ T s[];     a reference to its place in the launch's memory
    threadIdx.x                  simt::x(threadIdx)
    clock()                      clock64(), in device code
    (void *)k                    (void *)simt::typed(k), where k is a kernel
    return;                      {SIMT_LEAVES return;} in a device function
    s[i] += s[i + 16];           s[i] += simt::lockstep([&] { return s[i + 16]; });
                                 where s is volatile: see shared.py
    __noinline__                 SIMT_NOINLINE

`threadIdx` therefore remains an ordinary name, and a launch evaluates its arguments
once, as an ordinary call does. The compiler's messages name the lines of the source.
Comments, strings and code under `#ifdef __CUDACC__` remain unchanged. Inline PTX is
refused, because it has no meaning on a CPU.
"""

from __future__ import annotations

import re

from .preprocess import PreprocessedSource
from .scanner import (
    BLANK,
    DIRECTIVE,
    LAUNCH,
    RewriteError,
    ScannedText,
    find_body,
    list_functions,
    on_one_line,
    replace_spans,
    split_commas,
)
from .shared import rewrite_lockstep, rewrite_shared
from .unsupported import ASM, device_bodies, refuse

__all__ = ["RewriteError", "rewrite", "rewrite_program"]


def rewrite(source: str, path: str) -> str:
    """Return the C++ for the CUDA C in `source`; `path` is its name in messages.

    The result is two lines (an #include and a #line), followed by as many lines as the
    source has. RewriteError names the `path:line` of a construct that cannot be
    rewritten.
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
    """Return the C++ for the preprocessed source of a whole program.

    Compile it with kernels/simt in the include path and none of the program's own
    folders. RewriteError names the reader's file and line of the first construct that a
    CPU does not support.
    """
    text = ScannedText(source.own, path)
    refuse(text)
    names = " ".join(sorted(_device_variables(text)))
    # The names follow the program, whose line numbers therefore do not change.
    device = f'\nSIMT_DEVICE_NAMES(" {names} ")\n'
    return '#include "program.h"\n' + source.restore(_apply_steps(text).raw) + device


def _device_variables(text: ScannedText) -> set[str]:
    """Return the names of __device__ variables, possibly with unrelated words."""
    names: set[str] = set()
    for match in re.finditer(r"\b__(?:device|constant|managed)__\b", text.code):
        end, code = match.end(), text.code
        while end < len(code) and code[end] != ";":
            if code[end] == "{":
                function = re.search(r"\)[\s\w]*$", code[match.end() : end][-80:])
                end = text.close(end)
                if function:
                    break
            end += 1
        else:
            names.update(re.findall(r"[A-Za-z_]\w*", code[match.end() : end]))
    return names


def _apply_steps(text: ScannedText) -> ScannedText:
    first_steps = (
        _rewrite_clocks,
        _rewrite_casts,
        _rewrite_launches,
        rewrite_lockstep,
        _rewrite_returns,
    )
    for step in (*first_steps, _rewrite_kernels, rewrite_shared, _rewrite_names):
        text = ScannedText(step(text), text.path)
    return text


# ---- the clock ---------------------------------------------------------------


def _rewrite_clocks(text: ScannedText) -> str:
    """Replace clock() in device code, since the host's clock() counts microseconds."""
    matches = re.finditer(r"(?<![\w.>:])(?:::\s*)?\bclock(?=\s*\(\s*\))", text.code)
    matches = list(matches)
    bodies = device_bodies(text) if matches else []
    in_device = [m for m in matches if any(a < m.start() < b for a, b, _ in bodies)]
    return replace_spans(text, [(m.start(), m.end(), "clock64") for m in in_device])


# ---- kernels as `void *` -------------------------------------------------------

_VOID = r"(?:const\s+)?void\s*(?:const\s*)?\*\s*"
_CAST = rf"(?:\(\s*{_VOID}\)|\b(?:reinterpret|static)_cast\s*<\s*{_VOID}>\s*\()\s*"
_KERNEL_CAST = re.compile(rf"{_CAST}(?P<kernel>&?\s*(?:\w+\s*::\s*)*(?P<name>\w+))\b")


def _rewrite_casts(text: ScannedText) -> str:
    """Insert simt::typed() so that a cast does not lose a kernel's type."""
    matches = list(_KERNEL_CAST.finditer(text.code))
    kernels = list_functions(text.code, "__global__") if matches else ()
    names, edits = {kernel.name for kernel in kernels}, []
    for match in matches:
        if match["name"] in names:
            end = match.end()
            if text.code[text.skip(end)] == "<" and not LAUNCH.match(text.code, end):
                end = text.close(text.skip(end)) + 1
            start = match.start("kernel")
            edits.append((start, end, f"simt::typed({text.raw[start:end]})"))
    return replace_spans(text, edits)


# ---- launches ----------------------------------------------------------------


def _rewrite_launches(text: ScannedText) -> str:
    edits = []
    for match in LAUNCH.finditer(text.code):
        start = match.start()
        name = _find_callee(text, start)
        last, end = _end_of_config(text, match)
        close = text.close(text.skip(end))
        config, breaks = on_one_line(text, match.end(), last)
        edits.append((name, name, f"(simt::Launch({config}), "))
        edits.append((start, end, breaks))
        edits.append((close, close + 1, "))"))
    return replace_spans(text, edits)


def _find_callee(text: ScannedText, end: int) -> int:
    """Return the start of the launched expression, which ends before `end`."""
    code = text.code
    i = text.skip_back(end)
    while True:
        if i and code[i - 1] == ">":
            i = text.skip_back(text.open(i - 1))
        elif i and code[i - 1] in ")]":
            i = text.open(i - 1)
            previous = text.skip_back(i)
            if not (previous and re.match(r"[\w)\]]", code[previous - 1])):
                return i
            i = previous
            continue
        start = i
        while start and re.match(r"\w", code[start - 1]):
            start -= 1
        if start == i:
            raise text.error(end, "a launch needs a kernel before <<<")
        previous = text.skip_back(start)
        joint = re.search(r"(?:::|\.|->)$", code[max(0, previous - 2) : previous])
        if not joint:
            return start
        i = text.skip_back(previous - len(joint.group()))
        if joint.group() == "::" and not (i and re.match(r"[\w>]", code[i - 1])):
            return previous - 2  # a name that begins with ::


def _end_of_config(text: ScannedText, opening: re.Match[str]) -> tuple[int, int]:
    """Return the start and end of the >>> that closes this <<< before a (."""
    depth, start = 0, opening.start()
    # Editors that do not support CUDA split <<< and >>> into << < and >> >.
    closing = re.compile(">>>" if opening.group() == "<<<" else r">>\s*>")
    for i in range(opening.end(), len(text.code)):
        c = text.code[i]
        depth += (c in "([{") - (c in ")]}")
        if depth < 0 or (c == ";" and depth == 0):
            break
        closing_match = closing.match(text.code, i) if depth == 0 else None
        if closing_match:
            next_code = text.skip(closing_match.end())
            # In <<<size<B<C<int>>>(n)>>>, a ( follows the first >>>, which is not the
            # end.
            if text.code[next_code : next_code + 1] == "(" and not text.code.startswith(
                ">", closing_match.end()
            ):
                return i, closing_match.end()
    raise text.error(start, "this <<< has no >>>, or no arguments after it")


# ---- kernels -----------------------------------------------------------------


def _rewrite_kernels(text: ScannedText) -> str:
    edits = []
    for match in re.finditer(r"\b__global__\b", text.code):
        edits.append((match.start(), match.end(), ""))
        brace = find_body(text.code, match.end())
        if brace is None:
            continue  # a declaration has no body
        directive = _directive_end(text, match.start())
        if directive is not None and brace > directive:
            raise text.error(
                match.start(), "write __global__ at the kernel, not in a macro"
            )
        close = text.close(brace)
        refs = "".join(f", &{n}" for n in _list_references(text, match.end(), brace))
        body = f"SIMT_BODY_TAKING([={refs}])" if refs else "SIMT_BODY"
        names = ", ".join(_list_parameters(text, match.end(), brace))
        arguments = f'"{names}", {names}' if names else '""'
        opening = f"{{SIMT_PARAMETERS({arguments}) {body}; "
        edits.append((brace, brace + 1, opening))
        edits.append((close, close + 1, " SIMT_END}"))
    return replace_spans(text, edits)


def _rewrite_returns(text: ScannedText) -> str:
    """Mark each early `return;` of a device function for the runtime.

    Kernels need no mark: SIMT_END reports a thread that reaches a kernel's end.
    """
    matches = [*re.finditer(r"\breturn[ \t]*;", text.code)]
    bodies = device_bodies(text) if matches else []
    marks = re.finditer(r"\b__global__\b", text.code)
    kernels = {find_body(text.code, mark.end()) for mark in marks}
    edits = []
    for match in matches:
        enclosing = {a for a, b, _ in bodies if a < match.start() < b}
        if enclosing and not enclosing & kernels:
            edits.append((*match.span(), "{SIMT_LEAVES return;}"))
    return replace_spans(text, edits)


def _list_references(text: ScannedText, start: int, brace: int) -> list[str]:
    """Return the names of a kernel's parameters that are references.

    SIMT_BODY captures copies, so a kernel's writes to a reference would be lost.
    """
    names = []
    for declared in _list_declarations(text, start, brace):
        if match := re.search(r"&\s*(?:\.\.\.\s*)?(\w+)\s*$", declared):
            names.append(match[1] + ("..." if "..." in declared else ""))
    return names


# A pattern of a parameter's name, the end of its type, and the brackets after it.
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
    """Return the names of a kernel's named parameters, without packs."""
    names = []
    for declared in _list_declarations(text, start, brace):
        match = _PARAMETER.search(declared)
        if not match or "..." in declared or match["name"] in _TYPE_WORDS:
            continue
        if not _ONLY_WORDS.match(declared[: match.start("name")]):
            names.append(match["name"])
    return names


def _list_declarations(text: ScannedText, start: int, brace: int) -> list[str]:
    """Return the declarations of a kernel's parameters, without default values."""
    close = text.code.rfind(")", start, brace)
    if close < 0:  # no list follows, as in `__global__ void k {`
        return []
    parts = split_commas(text.code, text.open(close) + 1, close)
    return [text.code[a:b].replace(BLANK, " ").split("=")[0] for a, b in parts]


def _directive_end(text: ScannedText, offset: int) -> int | None:
    """Return the end of the # directive around `offset`; None outside directives."""
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
        previous = text.code[: match.start()].rstrip()[-2:]
        if match["noinline"]:
            if not previous.endswith("(") and not previous.endswith(","):
                edits.append((match.start(), match.end(), "SIMT_NOINLINE"))
        elif match["forceinline"]:
            # Unlike nvcc, g++ refuses a second `inline`.
            is_inline = _INLINE_BESIDE.search(text.code[: match.start()][-200:])
            if is_inline or _INLINE_AFTER.match(text.code, match.end()):
                edits.append((match.start(), match.end(), ""))
        elif match["cast"]:
            # The kernel's type determines its arguments' types.
            edits.append((match.start("cast"), match.end("cast"), ""))
        elif not previous.endswith((".", "->", "::")) and "\n" not in match.group():
            new = f"simt::{match['axis']}({match['index']})"
            edits.append((match.start(), match.end(), new))
    return replace_spans(text, edits)
