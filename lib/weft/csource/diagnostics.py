"""Compiler messages on the reader's own lines, with a caret and one hint.

The first functions find hints for common mistakes in a cell. The others convert both
compilers' messages to one form: g++'s about the rewritten cell, and NVRTC's about the
cell itself. A g++ message about code around the cell (simt's headers, the launcher) is
moved to the line of the cell that caused it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from ..base.errors import BuildError, explain
from . import scanner
from .preprocess import original_column

_CUDA = [
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__syncthreads"),
    *("__syncwarp", "__shfl_down_sync", "__shfl_xor_sync", "__shfl_sync"),
    *("__shfl_up_sync", "__ballot_sync", "__any_sync", "__all_sync", "__popc"),
    *("__activemask", "__shared__", "__global__", "__device__", "__constant__"),
    *("__restrict__", "__threadfence", "__ldg", "__launch_bounds__"),
    *("atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicExch", "atomicCAS"),
    *("fminf", "fmaxf", "sqrtf", "rsqrtf", "expf", "logf", "powf", "sinf", "cosf"),
    *("fabsf", "floorf", "ceilf", "fmaf", "tanhf", "make_float2", "make_float4"),
    *("unsigned", "float", "double", "int", "return", "const", "printf"),
]
_PYTHON = {
    "True": "in C, write true",
    "False": "in C, write false",
    "None": "C has no None: use nullptr for a pointer, or a number",
    "elif": "in C, write else if",
    "def": "a cell of %%cuda contains CUDA C, not Python",
    "range": "in C, write for (int i = 0; i < n; i++)",
    "len": "C does not store an array's length: pass it as a parameter",
    "self": "a cell of %%cuda contains CUDA C, not Python",
    "print": 'in C, call printf("%d\\n", i)',
    "pass": "C needs nothing there: an empty body is {}",
    "lambda": "in C++, write [=](float x) { return ...; }",
    "cuda": "in CUDA C, leave cuda. out: threadIdx.x, blockIdx.x",
    "math": "in C, leave math. out: sqrtf(x), expf(x)",
    "np": "C has no NumPy: write the loop, or call a function such as sqrtf(x)",
}
_HEADERS = {
    **dict.fromkeys(("half", "__half", "half2", "__half2"), "cuda_fp16.h"),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16", "__nv_bfloat162"), "cuda_bf16.h"),
    "__float2half": "cuda_fp16.h",
    **dict.fromkeys(("curandState", "curand_init"), "curand_kernel.h"),
    **dict.fromkeys(("cg", "cooperative_groups"), "cooperative_groups.h"),
}
_HOST = (
    "a cell contains only device code, and Python does the rest: launch with "
    "name[grid, block](...); a whole program runs with python -m weft run"
)
_PTX = (
    '#include "ptx.cuh" provides tensor cores, asynchronous copies and more, each with '
    "a twin for the CPU; with --gpu the cell runs on a GPU"
)


def find_hint(message: str, line: str, source: str) -> str:
    """Return a hint about the probable mistake; "" if there is no hint.

    message: the compiler's message. line: text of the line that the message is about.
    source: text of the whole cell.
    """
    if message.startswith("inline PTX"):
        return _PTX
    for find in (_hint_name, _hint_python, _hint_types, _hint_syntax):
        hint = find(message, line, source)
        if hint:
            return hint
    return ""


def find_near_name(name: str, source: str = "") -> str:
    """Return the CUDA name, or the name in `source`, that `name` probably misspells."""
    plain_name = name.strip("_").lower()
    for cuda_name in _CUDA:
        if cuda_name.strip("_").lower() == plain_name and cuda_name != name:
            return cuda_name
    words = sorted({w for w in re.findall(r"\b[A-Za-z_]\w*\b", source) if w != name})
    close = difflib.get_close_matches(name, [*_CUDA, *words], 1, 0.8)
    return close[0] if close else ""


def _hint_name(message: str, line: str, source: str) -> str:
    match = re.search(
        r"'(\w+)'(?: was not declared| does not name a type| has not been declared)"
        r"|identifier \"(\w+)\" is undefined|'(\w+)' in namespace",
        message,
    )
    if not match:
        return ""
    name = match[1] or match[2] or match[3]
    if name in _PYTHON:
        return _PYTHON[name]
    if re.match(r"cuda(?:Texture|Surface)|tex[123]D|surf[123]D", name):
        return "textures are not simulated on the CPU: this needs a GPU (--gpu)"
    if "does not name a type" in message and not line.rstrip().endswith((";", "{")):
        return f"{_PYTHON['def']}: launch kernels in the next cell"
    if name.startswith("cuda") and name[4:5].isupper():
        return _HOST
    if name in _HEADERS:
        return f"#include <{_HEADERS[name]}> declares it"
    functions = scanner.list_functions(scanner.blank_comments(source), scanner.DEVICE)
    if name in {function.name for function in functions}:
        return f"{name} is declared further down: C requires it before its first use"
    # A compiler that suggests a name has already searched the source.
    meant = find_near_name(name, "" if "did you mean" in message else source)
    if not meant:
        return ""
    return f"CUDA spells it {meant}" if meant in _CUDA else f"did you mean {meant}?"


def _hint_python(message: str, line: str, source: str) -> str:
    code = line.split('"')[0]
    pointer = "invalid type argument" in message or 'operand of "*"' in message
    if pointer and re.search(r"[\w)\]]\s*\*\*\s*[\w(]", code):
        return "C has no **: write x * x, or powf(x, y)"
    if re.search(r"^\s*(?:def|class \w+\(|import|from)\b.*", line):
        return _PYTHON["def"]
    if re.search(r"preprocessing directive|stray '#'|\"#\" not expected", message):
        return "C comments begin with //"
    if line.startswith("%%"):
        return "%%cuda must be a cell's first line and occur only once"
    if re.search(r"^\s*for\s+\w+\s+in\b", line):
        return _PYTHON["range"]
    # `a = b // 2` contains a comment in C; g++ reports this line or the next.
    division = r"(?m)=[^;/\n]*[\w)\]][^\S\n]*//[^\S\n]*[\w(]+\s*;?\s*$"
    if "expected" in message and re.search(division, source):
        return "// begins a comment in C; / divides whole numbers without a remainder"
    if re.search(r"^\s*(?:for|while|if)\b[^({]*:\s*$|^\s*else\s*:", line):
        return "C requires ( ) around a condition, and { } instead of a colon"
    return ""


_FORMATS = "%d int, %u unsigned, %f float and double, %lld long long, %zu size_t, %p"


def _hint_types(message: str, line: str, source: str) -> str:
    if re.search(r"format '?%|format \"?%|format specifies", message):
        return f"printf's formats: {_FORMATS}"
    if "48 KB of static" in message:
        launch = "takes its size from the launch: name[grid, block, bytes](...)"
        return f"extern __shared__ float tile[]; {launch}"
    if re.search(r"\bextern\s+__shared__\s+\w+\s*\[", line):
        return "the type is missing: extern __shared__ float tile[];"
    if "overloaded" in message and re.search(r"\b(?:max|min)\b", message):
        return "both need the same type: fmaxf(x, 0.0f) for float, max(i, 0) for int"
    if re.search(r"no (?:matching function|instance).*\batomic", message):
        return "it takes an address and a number of that type: atomicAdd(&x[0], 1.0f)"
    if re.search(r"variable length array|must have a constant value", message):
        cure = "use constexpr int N, or extern __shared__ with bytes in the launch"
        return f"the size of a kernel's array must be known at compile time: {cure}"
    if re.search(r"size of array '.*' is not an integral constant", message):
        return "extern __shared__ float s[]; takes its size: name[grid, block, bytes]"
    modulo = r"invalid operands.*'(?:float|double)'.*'%'|modulo|to binary 'operator%'"
    if re.search(modulo, message):
        return "% takes whole numbers; for float, call fmodf(x, y)"
    if re.search(r"read-only|must be a modifiable lvalue", message):
        return "it is const: a kernel writes only through parameters without const"
    if "__host__ function" in message or 'host function("' in message:
        return "write __device__ before the function that a kernel calls"
    index = r"invalid types '.*' for array subscript|must have pointer-to-object type"
    if re.search(index, message):
        return "only an array or a pointer can be indexed: look for a missing *"
    missing = re.search(r"No such file or directory|cannot open source file", message)
    if missing and re.search(r"\bc?u(?:blas|dnn|fft|sparse|solver)\w*\.h\b", message):
        return "that library is called by the host: in Python use torch"
    if missing and re.search(r"curand_kernel\.h", message):
        return "for a GPU, pip install nvidia-curand provides it; --cpu has its own"
    if missing and re.search(r"\b(?:cuda/|cub/|thrust/|cute/|cutlass/)", message):
        return "NVIDIA's C++ libraries are not simulated on the CPU: this needs a GPU"
    if missing:
        return "%%cuda_header name.cuh makes a header that cells can include"
    return ""


def _hint_syntax(message: str, line: str, source: str) -> str:
    code = scanner.blank_comments(line)
    for opening, closing in ("()", "[]"):
        if "expected" in message and code.count(opening) != code.count(closing):
            brackets = f"the {opening} and {closing} of this line"
            if not re.search(r"^\s*for\b", code):
                return f"count {brackets}: one of them has no partner"
    if "unterminated #" in message or "#endif for this directive" in message:
        return "its #endif is missing"
    if re.search(r"extended character|unrecognized token", message):
        return "that character only resembles C's \" ' - or the like: retype it"
    if re.search(r"expected '?(?:,' or ')?;'?|expected a \";\"", message):
        return "a statement ends with ;"
    if re.search(r"expected '}' at end|'{' is never closed", message):
        return "count the { and }: one of them has no partner"
    if re.search(r"expected declaration before '}'", message):
        return "there is one } too many"
    return ""


CELL = "weft-cell"  # the cell's name for g++
LIMIT = 4  # number of diagnostics shown; later ones seldom help


@dataclass(frozen=True)
class Diagnostic:
    """One compiler message. line, column: counted from 1; column 0 means unknown.

    file: "" for the cell itself, otherwise the name of a header
    severity: error, warning or note
    """

    file: str
    line: int
    column: int
    severity: str
    message: str


def diagnose(
    source: str, offset: int, message: str, severity: str = "error"
) -> Diagnostic:
    """Return the diagnostic about the code at an offset of the cell."""
    before = source[:offset]
    column = len(before[before.rfind("\n") + 1 :].encode()) + 1
    return Diagnostic("", before.count("\n") + 1, column, severity, message)


class CompileError(BuildError):
    """A cell does not compile; the message shows the errors.

    diagnostics: the parsed messages. log: the compiler's original output.
    """

    def __init__(
        self,
        diagnostics: Sequence[Diagnostic],
        source: str,
        name: str = "cell",
        log: str = "",
    ) -> None:
        errors = [d for d in diagnostics if d.severity == "error"]
        self.diagnostics = list(diagnostics)
        self.source, self.name, self.log = source, name, log
        super().__init__(render(errors or diagnostics, source, name) or log.strip())

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows: in red, without the lab's own frames."""
        return colour_red("\n".join([str(self), *explain(self)])).splitlines()


def colour_red(text: str) -> str:
    """Return `text` in red, for terminals and notebooks."""
    return "\n".join(f"\x1b[31m{line}\x1b[0m" for line in text.splitlines())


# ---- reading ------------------------------------------------------------------

_GCC = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note|sorry, unimplemented): "
    r"(?P<message>.*)$"
)
_VIA = re.compile(
    rf"^\s*(?:In function .*|inlined from .* at |(?:In file included )?from )?"
    rf"{CELL}:(\d+)(?::(\d+))?:?(?:\s+(?:required|instantiated) from.*|[,:;]?)$"
)


def parse_gcc(text: str) -> list[Diagnostic]:
    """Parse g++'s messages, without its carets; keep file names as g++ prints them.

    A message about code outside the cell is moved to the line of the cell that caused
    it, if g++ names that line: before the message (`required from`) or in a note after
    it.
    """
    diags: list[Diagnostic] = []
    cause: tuple[int, int] | None = None
    for line in text.splitlines():
        match = _GCC.match(line)
        if not match:
            if frame := _VIA.match(line):
                cause = int(frame[1]), int(frame[2] or 0)
            ld = re.search(r"undefined reference to [`'](.+)'", line)
            if ld:
                diags.append(Diagnostic(CELL, 0, 0, "error", f"undefined: {ld[1]}"))
            continue
        severity = match["severity"]
        severity = severity if severity in ("warning", "note") else "error"
        at = int(match["line"]), int(match["column"] or 0)
        one = Diagnostic(match["file"], *at, severity, _clean(match["message"]))
        is_own = one.file == CELL or not _is_foreign(one.file)
        if re.match(r"variable or field '\w+' declared void", one.message):
            continue  # the next message contains the reason
        if severity == "note":
            if is_own and diags and _is_foreign(diags[-1].file):
                diags[-1] = replace(diags[-1], file=one.file, line=at[0], column=at[1])
            elif is_own and "to match this" in one.message:
                diags.append(one)
            continue
        if not is_own and cause:
            one = replace(one, file=CELL, line=cause[0], column=cause[1])
        diags.append(one)
        cause = None
    return diags


def parse_nvrtc(text: str, name: str = "cell") -> list[Diagnostic]:
    """Parse NVRTC's messages: `cell(3): error: ...`, the line, and a caret below it."""
    lines = text.splitlines()
    messages = []
    pattern = re.compile(
        r"^(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic )?"
        r"(?P<severity>error|warning|remark)(?: #[\w-]+)?: (?P<message>.*)$"
    )
    for i, line in enumerate(lines):
        match = pattern.match(line)
        if not match:
            continue
        carets = [j for j in lines[i + 1 : i + 4] if re.fullmatch(r"\s*\^~*\s*", j)]
        # NVRTC's front end indents the quoted line by two columns.
        column = carets[0].index("^") + 1 - 2 if carets else 0
        file = "" if match["file"] == name else match["file"]
        severity = "note" if match["severity"] == "remark" else match["severity"]
        facts = int(match["line"]), column, severity, match["message"]
        messages.append(Diagnostic(file, *facts))
    return messages


def parse_rewriter(text: str) -> list[Diagnostic]:
    """Parse the text of a RewriteError: `name:line: message`."""
    match = re.match(r"^(.*?):(\d+): (.*)$", text, re.S)
    if not match:
        return [Diagnostic("", 0, 0, "error", text)]
    file = "" if match[1] == CELL else match[1]
    # The rest of the message concerns only the files of rungs.
    message = match[3].partition(": put it under")[0]
    return [Diagnostic(file, int(match[2]), 0, "error", message)]


def diagnose_undefined(name: str, source: str) -> Diagnostic:
    """Diagnose a function that is declared and called but not defined."""
    base = re.sub(r"\(.*", "", name).split("::")[-1]
    match = re.search(rf"\b{re.escape(base)}\b", source)
    text = f"'{name}' has no definition"
    if match is None:
        return Diagnostic("", 0, 0, "error", text)
    return diagnose(source, match.start(), text)


def in_source(
    messages: Iterable[Diagnostic], source: str, rewritten: str
) -> list[Diagnostic]:
    """Convert g++'s diagnostics for the rewritten cell to diagnostics for the cell."""
    lines, rewritten_lines = source.split("\n"), rewritten.split("\n")[2:]
    converted: list[Diagnostic] = []
    messages = _template_arguments(list(messages))
    last = max((i + 1 for i, line in enumerate(lines) if line.strip()), default=1)
    errors = [one for one in messages if one.severity == "error"]
    has_own = not all(_is_foreign(one.file) for one in errors)
    for one in messages:
        if one.file == CELL and 1 <= one.line <= len(lines):
            line, rewritten_line = lines[one.line - 1], rewritten_lines[one.line - 1]
            column = original_column(line, rewritten_line, one.column)
            one = replace(one, file="", column=column)
        elif one.file == CELL or _is_foreign(one.file):
            if one.severity != "error" or has_own:
                continue  # the message is about other code, or follows from an error
            text = f"{one.message} (in the code that calls the kernels)"
            one = replace(one, file="", line=last, column=0, message=text)
        if one not in converted:
            converted.append(one)
    return converted


def with_error(parsed: list[Diagnostic], log: str) -> list[Diagnostic]:
    """Return `parsed`; if it contains no error, add the first error in `log`."""
    if any(one.severity == "error" for one in parsed):
        return parsed
    first = re.search(r"(?:error|undefined|cannot)\b.*", log)
    text = _clean(first.group().removeprefix("error: ")) if first else log.strip()
    return [Diagnostic("", 0, 0, "error", text or "g++ failed silently"), *parsed]


def _template_arguments(messages: list[Diagnostic]) -> list[Diagnostic]:
    """Add the reason to an error about template arguments, as in `t["flaot"]`.

    g++ reports the reason in a separate message before the error.
    """
    explained: list[Diagnostic] = []
    reason = ""
    for one in messages:
        if _is_foreign(one.file) and "was not declared" in one.message:
            reason = one.message
        match = re.match(r"no matches converting function '(\w+)'", one.message)
        if match:
            cause = reason or "they do not match its template<...>"
            one = replace(one, message=f"{match[1]}'s template arguments: {cause}")
        if one not in explained:
            explained.append(one)
    return explained


def dump(messages: Iterable[Diagnostic]) -> str:
    """Serialise the diagnostics as text, which load() can read."""
    return json.dumps([asdict(one) for one in messages])


def load(text: str) -> list[Diagnostic]:
    """Read the diagnostics that dump() wrote."""
    return [Diagnostic(**one) for one in json.loads(text)]


# ---- showing ------------------------------------------------------------------


def render(diagnostics: Sequence[Diagnostic], source: str, name: str = "cell") -> str:
    """Return the messages, each with its line, a caret and a hint if there is one.

    cell [7], line 3: error: 'threadidx' was not declared in this scope
        int i = threadidx.x;
                ^
    hint: CUDA spells it threadIdx
    """
    lines = source.split("\n")
    parts, keys = [], set()
    for one in diagnostics:
        key = one.file, one.line, one.message
        if key in keys:
            continue
        keys.add(key)
        if len(parts) == LIMIT:
            parts.append(f"... and {len(diagnostics) - LIMIT} more")
            break
        parts.append(_show_line(one, lines, source, name))
    return "\n".join(parts)


def _show_line(one: Diagnostic, lines: list[str], source: str, name: str) -> str:
    place = f"{name}, line {one.line}" if one.line else name
    if one.file:
        place = f"{one.file}, line {one.line}"
    text = f"{place}: {one.severity}: {one.message}"
    line = ""
    if not one.file and 1 <= one.line <= len(lines):
        line = lines[one.line - 1]
        text += f"\n    {line.expandtabs(4)}"
        if one.column:
            prefix = line.encode()[: one.column - 1].decode(errors="replace")
            text += f"\n    {' ' * len(prefix.expandtabs(4))}^"
    hint = find_hint(one.message, line, source)
    return text + (f"\n  hint: {hint}" if hint else "")


# ---- details ------------------------------------------------------------------


def _is_foreign(file: str) -> bool:
    """Return whether a file belongs to the lab or the system, not to the reader."""
    return file.startswith("/") or file in ("weft-launcher", "<command-line>")


def _clean(message: str) -> str:
    """Return g++'s message without the parts that occur only in the rewritten text."""
    message = message.replace("‘", "'").replace("’", "'")
    message = re.sub(r"simt::[xyz]\((\w+)\)", r"\1", message)
    message = re.sub(r"::<lambda\(\)>", "", message)
    message = re.sub(r"\b(?:const )?simt::(\w+)", r"\1", message)
    message = re.sub(r"'(\w+)'(.*); did you mean '\1'\?", r"'\1'\2", message)
    return re.sub(r"; did you mean 'simt_\w+'\?", "", message).strip()
