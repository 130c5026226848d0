"""Looking at CUDA C as text: what is code, and which brackets belong together."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable

from .rewriter import preprocess


class RewriteError(ValueError):
    """The source cannot run on the CPU; says where, why and what to do."""


BLANK = "\x01"  # stands for what is not code; no character of code
NOT_CODE = re.compile(
    r"""//(?:\\\n|[^\n])*            # a comment, continued lines included
      | /\*.*?\*/
      | \bu?8?[uUL]?R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"   # a raw string
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'          # not the ' of 1'000
    """,
    re.S | re.X,
)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.M)
ATTRIBUTE = re.compile(
    r"\b(?:alignas|__align__|__attribute__)\s*\(+[^()]*(?:\([^()]*\)[^()]*)*\)+"
)
LAUNCH = re.compile(r"(?<!operator)(?<!operator )<<[^\S\n]*<")
_NVCC_ONLY = r"(?:__CUDACC__|__CUDA_ARCH__|__NVCC__)"
_IF_NVCC = re.compile(rf"\s*(?:defined\s*\(?\s*)?{_NVCC_ONLY}\s*\)?\s*")
_IF_NOT_NVCC = re.compile(rf"\s*!\s*defined\s*\(?\s*{_NVCC_ONLY}\s*\)?\s*")


class ScannedText:
    """A source, and the same with all that is not code blanked out.

    Both have the same length and the same newlines, so an offset into one is
    an offset into the other.
    """

    def __init__(self, raw: str, path: str) -> None:
        self.raw = raw
        self.path = path
        self.code = _blank_nvcc_only(NOT_CODE.sub(_blank_out, raw))
        self._lines = [m.start() for m in re.finditer("\n", raw)]

    def error(self, offset: int, message: str) -> RewriteError:
        """An error that names the line at `offset`."""
        path, line = self.path, bisect.bisect_left(self._lines, offset) + 1
        path, line = preprocess.find_position(self.raw, offset) or (path, line)
        return RewriteError(f"{path}:{line}: {message}")

    def close(self, start: int, opening: str, closing: str) -> int:
        """The offset of the bracket that closes the one at `start`."""
        depth = 0
        brackets = re.compile(f"[{re.escape(opening + closing)}]")
        for match in brackets.finditer(self.code, start):
            depth += 1 if match.group() == opening else -1
            if depth == 0:
                return match.start()
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

    def body(self, start: int) -> int | None:
        """The { of the function declared at `start`, None if it has no body."""
        depth = 0
        for match in re.compile(r"[(){};=]").finditer(self.code, start):
            c = match.group()
            depth += (c == "(") - (c == ")")
            if depth == 0 and c == "{":
                return match.start()
            if c == "=" and re.search(
                r"operator\W*$", self.code[start : match.start()]
            ):
                continue
            if depth < 0 or (depth == 0 and c in ";=}"):
                return None
        return None

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


def _blank_out(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", BLANK, match.group())


def _blank_nvcc_only(code: str) -> str:
    """Blank out what only nvcc sees; g++ will skip it."""
    out, end = [], 0
    skipped: list[bool | None] = []  # per open #if: True, False, None: unknown
    for match in DIRECTIVE.finditer(code):
        word, rest = match.groups()
        part = code[end : match.start()]
        out.append(re.sub(r"[^\n]", BLANK, part) if True in skipped else part)
        out.append(match.group())
        end = match.end()
        if word in ("ifdef", "ifndef", "if"):
            skipped.append(_is_skipped(word, rest.replace(BLANK, " ")))
        elif word == "else" and skipped:
            skipped[-1] = None if skipped[-1] is None else not skipped[-1]
        elif word == "elif" and skipped:
            skipped[-1] = None
        elif word == "endif" and skipped:
            skipped.pop()
    return "".join(out) + code[end:]


def _is_skipped(word: str, condition: str) -> bool | None:
    """Whether g++ skips what follows this directive; None: cannot tell."""
    if word == "if" and re.fullmatch(r"\s*0\s*", condition):
        return True
    if _IF_NVCC.fullmatch(condition) and (word != "if" or "defined" in condition):
        return word != "ifndef"
    if word == "if" and _IF_NOT_NVCC.fullmatch(condition):
        return False
    return None


def replace_spans(text: ScannedText, edits: list[tuple[int, int, str]]) -> str:
    """Replace [start, end) by the string, for edits that do not overlap."""
    out, done = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        out += [text.raw[done:start], new]
        done = end
    return "".join(out) + text.raw[done:]


def function_depths(text: ScannedText) -> Callable[[int], bool]:
    """A function of an offset: whether it lies in a function's body."""
    events, stack = [], []
    for match in re.finditer(r"[{}]", text.code):
        if match.group() == "{":
            head = re.split(r"[;{}]", text.code[: match.start()][-400:])[-1]
            transparent = re.search(r"\bnamespace\b[^()]*$", head) or re.search(
                rf"\bextern\s*{BLANK}+\s*$", head
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


def on_one_line(text: ScannedText, start: int, end: int) -> tuple[str, str]:
    """The code without comments and line breaks, and the line breaks."""
    code = NOT_CODE.sub(_blank_comment, text.raw)[start:end]
    breaks = "".join(re.findall(r"\\?\n", code))
    return re.sub(r"\\?\n", " ", code), breaks


def _blank_comment(match: re.Match[str]) -> str:
    is_comment = match.group().startswith(("//", "/*"))
    return re.sub(r"[^\n]", " ", match.group()) if is_comment else match.group()


def split_declarators(text: ScannedText, start: int, end: int) -> list[tuple[int, int]]:
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
