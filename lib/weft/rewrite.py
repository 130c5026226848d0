r"""CUDA C -> C++ that g++ takes on top of kernels/simt, line for line.

Only what is not C++ is changed, and only within its line:

    k<<<grid, block>>>(a, b)     (simt::Launch(grid, block), k(a, b))
    __global__ void k(...) {     void k(...) {SIMT_BODY; ... SIMT_END}
    __shared__ float s[2], t;    a struct with these members, placed by the
                                 runtime, and references to its members
    extern __shared__ T s[];     a reference to where the launch put it
    threadIdx.x                  simt::x(threadIdx)
    __noinline__                 SIMT_NOINLINE

So `threadIdx` stays a name like any other, a launch evaluates its arguments
once, as an ordinary call does, and the compiler's messages name the lines of
the source. Comments, strings and what stands under `#ifdef __CUDACC__` are left
alone. Inline PTX is refused: it has no meaning on a CPU.
"""

from __future__ import annotations

import bisect
import re


class RewriteError(ValueError):
    """The source cannot run on the CPU; says where, why and what to do."""


def rewrite(source: str, path: str) -> str:
    """The C++ for the CUDA C in `source`, whose name in messages is `path`.

    The result is two lines (an #include and a #line) and then the lines of the
    source, as many as it has. Raises RewriteError with `path:line`.
    """
    text = _Text(source, path)
    _refuse_ptx(text)
    for step in (_launches, _kernels, _shared, _names):
        text = _Text(step(text), path)
    name = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'#include "cuda_runtime.h"\n#line 1 "{name}"\n{text.raw}'


# ---- looking at source -------------------------------------------------------

_BLANK = "\x01"  # stands for what is not code; no character of code
_NOT_CODE = re.compile(
    r"""//(?:\\\n|[^\n])*            # a comment, continued lines included
      | /\*.*?\*/
      | \bu?8?[uUL]?R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"   # a raw string
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'          # not the ' of 1'000
    """,
    re.S | re.X,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.M)
_NVCC_ONLY = r"(?:__CUDACC__|__CUDA_ARCH__|__NVCC__)"
_IF_NVCC = re.compile(rf"\s*(?:defined\s*\(?\s*)?{_NVCC_ONLY}\s*\)?\s*")
_IF_NOT_NVCC = re.compile(rf"\s*!\s*defined\s*\(?\s*{_NVCC_ONLY}\s*\)?\s*")


class _Text:
    """A source, and the same with all that is not code blanked out.

    Both have the same length and the same newlines, so an offset into one is
    an offset into the other.
    """

    def __init__(self, raw: str, path: str) -> None:
        self.raw = raw
        self.path = path
        self.code = _blank_nvcc_only(_NOT_CODE.sub(_blank, raw))
        self._lines = [m.start() for m in re.finditer("\n", raw)]

    def error(self, offset: int, message: str) -> RewriteError:
        line = bisect.bisect_left(self._lines, offset) + 1
        return RewriteError(f"{self.path}:{line}: {message}")

    def close(self, start: int, opening: str, closing: str) -> int:
        """The offset of the bracket that closes the one at `start`."""
        depth = 0
        for i in range(start, len(self.code)):
            if self.code[i] == opening:
                depth += 1
            elif self.code[i] == closing:
                depth -= 1
                if depth == 0:
                    return i
        raise self.error(start, f"this '{opening}' is never closed")

    def open(self, end: int, opening: str, closing: str) -> int:
        """The offset of the bracket that the one at `end` closes.

        Between < and >, those within parentheses do not count: k<(a > b)>.
        """
        depth, i = 0, end
        while i >= 0:
            c = self.code[i]
            if c == closing:
                depth += 1
            elif c == opening:
                depth -= 1
                if depth == 0:
                    return i
            elif c == ")" and closing == ">":
                i = self.open(i, "(", ")")
            i -= 1
        raise self.error(end, f"nothing opens this '{closing}'")

    def skip_back(self, i: int) -> int:
        """The offset after the last code before `i`."""
        while i > 0 and (self.code[i - 1].isspace() or self.code[i - 1] in "\\\x01"):
            i -= 1
        return i

    def skip(self, i: int) -> int:
        """The offset of the first code at or after `i`."""
        while i < len(self.code) and (
            self.code[i].isspace() or self.code[i] in "\\\x01"
        ):
            i += 1
        return i


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", _BLANK, match.group())


def _blank_nvcc_only(code: str) -> str:
    """Blank out what only nvcc sees; g++ will skip it."""
    out, end = [], 0
    skipped: list[bool | None] = []  # per open #if: True, False, None: unknown
    for match in _DIRECTIVE.finditer(code):
        word, rest = match.groups()
        part = code[end : match.start()]
        out.append(re.sub(r"[^\n]", _BLANK, part) if True in skipped else part)
        out.append(match.group())
        end = match.end()
        if word in ("ifdef", "ifndef", "if"):
            skipped.append(_skips(word, rest.replace(_BLANK, " ")))
        elif word == "else" and skipped:
            skipped[-1] = None if skipped[-1] is None else not skipped[-1]
        elif word == "elif" and skipped:
            skipped[-1] = None
        elif word == "endif" and skipped:
            skipped.pop()
    return "".join(out) + code[end:]


def _skips(word: str, condition: str) -> bool | None:
    """Whether g++ skips what follows this directive; None: cannot tell."""
    if word == "if" and re.fullmatch(r"\s*0\s*", condition):
        return True
    if _IF_NVCC.fullmatch(condition) and (word != "if" or "defined" in condition):
        return word != "ifndef"
    if word == "if" and _IF_NOT_NVCC.fullmatch(condition):
        return False
    return None


def _edit(text: _Text, edits: list[tuple[int, int, str]]) -> str:
    """Replace [start, end) by the string, for edits that do not overlap."""
    out, done = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        out += [text.raw[done:start], new]
        done = end
    return "".join(out) + text.raw[done:]


# ---- inline PTX --------------------------------------------------------------


def _refuse_ptx(text: _Text) -> None:
    found = re.search(r"\b(?:asm|__asm__|__asm)\b(?=[\s\w]*\()", text.code)
    if found:
        raise text.error(
            found.start(),
            "inline PTX cannot run on the CPU: put it under #ifdef __CUDACC__ and "
            "mark the rung as GPU-only (targets = WEFT_CUDA)",
        )


# ---- launches ----------------------------------------------------------------


def _launches(text: _Text) -> str:
    edits = []
    for match in re.finditer("<<<", text.code):
        start = match.start()
        name = _callee(text, start)
        end = _end_of_config(text, start)
        close = text.close(text.skip(end), "(", ")")
        config, breaks = _on_one_line(text, start + 3, end - 3)
        edits.append((name, name, f"(simt::Launch({config}), "))
        edits.append((start, end, breaks))
        edits.append((close, close + 1, "))"))
    return _edit(text, edits)


def _callee(text: _Text, end: int) -> int:
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


def _end_of_config(text: _Text, start: int) -> int:
    """The offset after the >>>, before a (, that closes the <<< at `start`."""
    depth = 0
    for i in range(start + 3, len(text.code)):
        c = text.code[i]
        depth += (c in "([{") - (c in ")]}")
        if depth < 0 or (c == ";" and depth == 0):
            raise text.error(start, "this <<< has no >>>, or no arguments after it")
        if depth == 0 and text.code.startswith(">>>", i):
            after = text.skip(i + 3)
            # In <<<size<B<C<int>>>(n)>>> the first would do, but for the rest.
            if text.code[after : after + 1] == "(" and not text.code.startswith(
                ">", i + 3
            ):
                return i + 3
    raise text.error(start, "this <<< has no >>>, or no arguments after it")


def _on_one_line(text: _Text, start: int, end: int) -> tuple[str, str]:
    """The code without comments and line breaks, and the line breaks."""
    code = _NOT_CODE.sub(_blank_comment, text.raw)[start:end]
    breaks = "".join(re.findall(r"\\?\n", code))
    return re.sub(r"\\?\n", " ", code), breaks


def _blank_comment(match: re.Match[str]) -> str:
    is_comment = match.group().startswith(("//", "/*"))
    return re.sub(r"[^\n]", " ", match.group()) if is_comment else match.group()


# ---- kernels -----------------------------------------------------------------


def _kernels(text: _Text) -> str:
    edits = []
    for match in re.finditer(r"\b__global__\b", text.code):
        edits.append((match.start(), match.end(), ""))
        brace = _body(text, match.end())
        if brace is None:
            continue  # a declaration
        directive = _directive_end(text, match.start())
        if directive is not None and brace > directive:
            raise text.error(
                match.start(), "write __global__ at the kernel, not in a macro"
            )
        close = text.close(brace, "{", "}")
        edits.append((brace, brace + 1, "{SIMT_BODY; "))
        edits.append((close, close + 1, " SIMT_END}"))
    return _edit(text, edits)


def _body(text: _Text, start: int) -> int | None:
    """The { of the function declared at `start`, None if it has no body."""
    depth = 0
    for i in range(start, len(text.code)):
        c = text.code[i]
        depth += (c == "(") - (c == ")")
        if depth == 0 and c == "{":
            return i
        if depth == 0 and c == ";":
            return None
    return None


def _directive_end(text: _Text, offset: int) -> int | None:
    """Where the # directive around `offset` ends; None outside of one."""
    for match in _DIRECTIVE.finditer(text.code):
        if match.start() <= offset < match.end():
            return match.end()
    return None


# ---- shared memory -----------------------------------------------------------

_SHARED = re.compile(r"(?P<before>\b(?:extern|static)\s+)?\b__shared__\b")
_ATTRIBUTE = re.compile(
    r"\b(?:alignas|__align__|__attribute__)\s*\(+[^()]*(?:\([^()]*\)[^()]*)*\)+"
)


def _shared(text: _Text) -> str:
    edits = []
    depths = _function_depths(text)
    for number, match in enumerate(_SHARED.finditer(text.code)):
        end = text.code.find(";", match.end())
        brace = text.code.find("{", match.end())
        if 0 <= brace < end:  # __shared__ struct { ... } s;
            end = text.code.find(";", text.close(brace, "{", "}"))
        if end < 0:
            raise text.error(match.start(), "this __shared__ has no ;")
        start, after = match.start(), match.end()
        line = text.code[:start].rpartition("\n")[2].replace(_BLANK, " ")
        if re.search(r"[\w>*&]\s*$", line):
            raise text.error(start, "write __shared__ before the type")
        inside = depths(start)
        # `__shared__ extern` is the same as `extern __shared__`.
        rest = re.match(r"\s*extern\b", text.code[after:end])
        after += rest.end() if rest else 0
        if rest or (match["before"] or "").startswith("extern"):
            new = _dynamic(text, start, after, end, inside)
            edits.append((start, end + 1, new))
            continue
        if not inside:
            raise text.error(
                start, "move this __shared__ array into the kernel that uses it"
            )
        names = [_declared(text, *part) for part in _declarators(text, after, end)]
        refs = " ".join(
            f"[[maybe_unused]] auto &{n} = simt_{number}_arrays.{n};" for n in names
        )
        edits.append((start, after, f"struct simt_shared_{number} {{"))
        tail = f"; }}; SIMT_SHARED(simt_{number}, simt_shared_{number}); {refs}"
        edits.append((end, end + 1, tail))
    return _edit(text, edits)


def _function_depths(text: _Text):
    """A function of an offset: whether it lies in a function's body."""
    events, stack = [], []
    for match in re.finditer(r"[{}]", text.code):
        if match.group() == "{":
            head = re.split(r"[;{}]", text.code[: match.start()][-400:])[-1]
            transparent = re.search(r"\bnamespace\b[^()]*$", head) or re.search(
                rf"\bextern\s*{_BLANK}+\s*$", head
            )
            stack.append(not transparent)
        elif stack:
            stack.pop()
        events.append((match.start(), any(stack)))
    offsets = [offset for offset, _ in events]

    def inside(offset: int) -> bool:
        i = bisect.bisect_left(offsets, offset)
        return i > 0 and events[i - 1][1]

    return inside


def _dynamic(text: _Text, start: int, after: int, end: int, inside: bool) -> str:
    """What `extern __shared__ T name[];` becomes."""
    raw, breaks = _on_one_line(text, after, end)
    found = re.fullmatch(
        r"\s*(?P<type>.*?[\s*&>])\s*(?P<name>\w+)\s*(?P<dims>\[\s*\].*?)\s*",
        _ATTRIBUTE.sub(" ", raw),
    )
    if not found:
        raise text.error(start, "write it as: extern __shared__ T name[];")
    kind, name, dims = found["type"].strip(), found["name"], found["dims"]
    if not inside:
        return f"static const simt::DynamicShared<{kind}> {name};{breaks}"
    return (
        f"[[maybe_unused]] {kind} (&{name}){dims} = "
        f"*({kind} (*){dims})simt::dynamic_shared();{breaks}"
    )


def _declarators(text: _Text, start: int, end: int) -> list[tuple[int, int]]:
    """[start, end) cut at its commas, those in brackets apart."""
    parts, depth, angle = [], 0, 0
    first = start
    for i in range(start, end):
        c = text.code[i]
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            angle += (c == "<") - (c == ">")
        if c == "," and depth == 0 and angle == 0:
            parts.append((first, i))
            first = i + 1
    return [*parts, (first, end)]


def _declared(text: _Text, start: int, end: int) -> str:
    """The name that the declarator in [start, end) declares."""
    code = _ATTRIBUTE.sub(" ", text.code[start:end].replace(_BLANK, " "))
    code = re.sub(r"\bstruct\b.*\}", " ", code, flags=re.S)
    if "=" in code or "{" in code:
        raise text.error(start, "a __shared__ variable cannot be initialised")
    found = re.search(r"\b([A-Za-z_]\w*)\s*$", code.split("[")[0])
    if not found:
        raise text.error(start, "cannot find the name of this __shared__ variable")
    return found[1]


# ---- names -------------------------------------------------------------------

_NAMES = re.compile(
    r"(?P<index>\b(?:threadIdx|blockIdx|blockDim|gridDim)\b)\s*\.\s*(?P<axis>[xyz])\b"
    r"|(?P<noinline>\b__noinline__\b)"
)


def _names(text: _Text) -> str:
    edits = []
    for match in _NAMES.finditer(text.code):
        before = text.code[: match.start()].rstrip()[-2:]
        if match["noinline"]:
            if not before.endswith("(") and not before.endswith(","):
                edits.append((match.start(), match.end(), "SIMT_NOINLINE"))
        elif not before.endswith((".", "->", "::")) and "\n" not in match.group():
            new = f"simt::{match['axis']}({match['index']})"
            edits.append((match.start(), match.end(), new))
    return _edit(text, edits)
