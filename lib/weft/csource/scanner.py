"""Scan CUDA C as text: find its code, brackets, scopes, functions and directives.

Most functions take `code`, a source text with comments and strings blanked out, and
return offsets into that text. They parse only declarations; the compiler parses the
rest of C++.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import preprocess


class RewriteError(ValueError):
    """A source cannot run on the CPU; the message has the place, reason and cure."""


BLANK = "\x01"  # replaces characters that are not code; never occurs in code
NOT_CODE = re.compile(
    r"""//(?:\\\n|[^\n])*            # a comment, continued lines included
      | /\*.*?\*/
      | \bu?8?[uUL]?R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"   # a raw string
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'          # not the ' of 1'000
    """,
    re.S | re.X,
)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:\\\n|[^\n])*)", re.M)
INCLUDE = re.compile(
    r"""^[ \t]*\#[ \t]*include[ \t]*(?P<bracket>[<"])(?P<name>[^>"\n]+)""", re.M | re.X
)
DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+(?P<value>\S[^\n]*?)[ \t]*$", re.M
)
ATTRIBUTE = re.compile(
    r"\b(?:alignas|__align__|__attribute__)\s*\(+[^()]*(?:\([^()]*\)[^()]*)*\)+"
)
# A pattern of words that belong to no type: __global__, __launch_bounds__(256), ...
SPECIFIER = re.compile(r"\b__\w+__\b\s*(?:\((?:[^()]|\([^()]*\))*\))?")
LAUNCH = re.compile(r"(?<!operator)(?<!operator )<<[^\S\n]*<")
_NVCC_ONLY = r"(?:__CUDACC__|__CUDA_ARCH__|__NVCC__)"
_IF_NVCC = re.compile(rf"\s*(?:defined\s*\(?\s*)?{_NVCC_ONLY}\s*\)?\s*")
_IF_NOT_NVCC = re.compile(rf"\s*!\s*defined\s*\(?\s*{_NVCC_ONLY}\s*\)?\s*")


class ScannedText:
    """A source text, and a copy with everything except code blanked out.

    Both texts have the same length and the same newlines, so an offset into one text is
    valid in the other.
    """

    def __init__(self, raw: str, path: str) -> None:
        self.raw = raw
        self.path = path
        self.code = _blank_skipped(_blank_out(NOT_CODE, raw, BLANK), BLANK)
        self._lines = [m.start() for m in re.finditer("\n", raw)]

    def error(self, offset: int, message: str) -> RewriteError:
        """Return an error that names the line at `offset`."""
        path, line = self.path, bisect.bisect_left(self._lines, offset) + 1
        path, line = preprocess.find_position(self.raw, offset) or (path, line)
        return RewriteError(f"{path}:{line}: {message}")

    def close(self, start: int) -> int:
        """Return the offset of the bracket that closes the bracket at `start`.

        Raises RewriteError if there is none; open() does the same.
        """
        end = find_close(self.code, start)
        if end < 0:
            raise self.error(start, f"this '{self.code[start]}' is never closed")
        return end

    def open(self, end: int) -> int:
        """Return the offset of the bracket that the bracket at `end` closes."""
        start = find_open(self.code, end)
        if start < 0:
            raise self.error(end, f"nothing opens this '{self.code[end]}'")
        return start

    def skip_back(self, i: int) -> int:
        """Return the offset after the last code before `i`."""
        while i > 0 and (self.code[i - 1].isspace() or self.code[i - 1] in "\\\x01"):
            i -= 1
        return i

    def skip(self, i: int) -> int:
        """Return the offset of the first code at or after `i`."""
        while i < len(self.code) and (
            self.code[i].isspace() or self.code[i] in "\\\x01"
        ):
            i += 1
        return i


# ---- text that is not code -----------------------------------------------------


def blank_comments(source: str) -> str:
    """Replace each character of comments, strings and `#if 0` parts with a space."""
    return _blank_skipped(_blank_out(NOT_CODE, source), " ")


def blank_directives(code: str) -> str:
    """Replace each character of preprocessor directives with a space."""
    return _blank_out(DIRECTIVE, code)


def fill(text: str, blank: str = " ") -> str:
    """Replace each character, except newlines, with `blank`."""
    return "\n".join(blank * len(line) for line in text.split("\n"))


def _blank_out(pattern: re.Pattern[str], text: str, blank: str = " ") -> str:
    return pattern.sub(lambda match: fill(match.group(), blank), text)


def _blank_skipped(code: str, blank: str) -> str:
    """Blank out the code under `#if 0`.

    If `blank` is BLANK, also blank out code that only nvcc compiles: g++ skips it.
    """
    parts, end = [], 0
    skipped: list[bool | None] = []  # one entry per open #if; None: unknown
    for match in DIRECTIVE.finditer(code):
        word, condition = match.groups()
        part = code[end : match.start()]
        parts.append(fill(part, blank) if True in skipped else part)
        is_hidden = True in skipped and not word.startswith(("if", "el", "endif"))
        parts.append(fill(match.group(), blank) if is_hidden else match.group())
        end = match.end()
        if word in ("ifdef", "ifndef", "if"):
            condition = condition.replace(BLANK, " ")
            skipped.append(_is_skipped(word, condition, blank == BLANK))
        elif word == "else" and skipped:
            skipped[-1] = None if skipped[-1] is None else not skipped[-1]
        elif word == "elif" and skipped:
            skipped[-1] = None
        elif word == "endif" and skipped:
            skipped.pop()
    return "".join(parts) + code[end:]


def _is_skipped(word: str, condition: str, without_nvcc: bool) -> bool | None:
    """Return whether the code after this directive is skipped; None if unknown.

    without_nvcc: whether the compiler is g++, which does not define nvcc's macros.
    """
    if word == "if" and condition.strip() == "0":
        return True
    if not without_nvcc:
        return None
    if _IF_NVCC.fullmatch(condition) and (word != "if" or "defined" in condition):
        return word != "ifndef"
    if word == "if" and _IF_NOT_NVCC.fullmatch(condition):
        return False
    return None


def replace_spans(text: ScannedText, edits: list[tuple[int, int, str]]) -> str:
    """Replace the text at each [start, end) with a string; edits must not overlap."""
    parts, end_of_last = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text.raw[end_of_last:start], new]
        end_of_last = end
    return "".join(parts) + text.raw[end_of_last:]


def on_one_line(text: ScannedText, start: int, end: int) -> tuple[str, str]:
    """Return the code joined to one line without comments, and its line breaks."""
    code = NOT_CODE.sub(_blank_comment, text.raw)[start:end]
    breaks = "".join(re.findall(r"\\?\n", code))
    return re.sub(r"\\?\n", " ", code), breaks


def _blank_comment(match: re.Match[str]) -> str:
    is_comment = match.group().startswith(("//", "/*"))
    return fill(match.group()) if is_comment else match.group()


# ---- brackets and scopes -------------------------------------------------------

_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
_MARKS = {
    opening: re.compile(f"[{re.escape(opening + closing)}{'(' * (opening == '<')}]")
    for opening, closing in _CLOSING.items()
}


def find_close(code: str, start: int) -> int:
    """Return the offset of the bracket that closes the bracket at `start`, or -1.

    Between < and >, brackets within parentheses do not count: k<(a > b)>.
    """
    opening, depth, at = code[start], 0, start
    while match := _MARKS[opening].search(code, at):
        at = match.end()
        if match.group() == opening:
            depth += 1
        elif match.group() == "(":
            at = find_close(code, match.start()) + 1
            if not at:
                break
        else:
            depth -= 1
            if not depth:
                return match.start()
    return -1


def find_open(code: str, end: int) -> int:
    """Return the offset of the bracket that the bracket at `end` closes, or -1.

    Parentheses between < and > are skipped, as find_close() does.
    """
    closing, depth, i = code[end], 0, end
    while i >= 0:
        if code[i] == closing:
            depth += 1
        elif code[i] == _OPENING[closing]:
            depth -= 1
            if not depth:
                return i
        elif code[i] == ")" and closing == ">":
            i = find_open(code, i)
        i -= 1
    return -1


def find_outside(code: str, start: int, marks: str) -> int:
    """Return the offset of the next mark outside brackets, or the length of `code`."""
    at = start
    while at < len(code) and code[at] not in marks:
        at = find_close(code, at) + 1 if code[at] in "([{" else at + 1
        if not at:
            return len(code)
    return at


def split_commas(code: str, start: int, end: int) -> list[tuple[int, int]]:
    """Split [start, end) at its commas, except those in brackets."""
    parts, depth, angle_depth = [], 0, 0
    part_start = start
    for i in range(start, end):
        c = code[i]
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            angle_depth += (c == "<") - (c == ">")
        if c == "," and depth == 0 and angle_depth == 0:
            parts.append((part_start, i))
            part_start = i + 1
    return [*parts, (part_start, end)]


_BRACE = re.compile(
    r"(?:\b(?P<space>namespace\b[^(){};]*?(?P<name>\b[\w:]+)?|extern)"
    rf"[\s{BLANK}]*)?(?P<open>\{{)|\}}"
)


def _list_scopes(code: str, end: int | None = None) -> Iterator[tuple[int, list]]:
    """Yield the offset of each brace, and the scopes around the code that follows it.

    A scope is a namespace's name, "" for `extern "C"`, or None for anything else. All
    braces share one list of scopes, which changes from brace to brace.
    """
    scopes: list[str | None] = []
    for match in _BRACE.finditer(code, 0, len(code) if end is None else end):
        if match["open"]:
            scopes.append((match["name"] or "") if match["space"] else None)
        elif scopes:
            scopes.pop()
        yield match.end() - 1, scopes


def scope_at(code: str, end: int) -> str | None:
    """Return the namespaces around an offset, as `outer::`; None in any other scope."""
    *_, (_, scopes) = [(0, []), *_list_scopes(code, end)]
    return None if None in scopes else "".join(f"{name}::" for name in scopes if name)


def function_depths(code: str) -> Callable[[int], bool]:
    """Return a function that reports whether an offset is in a function's body."""
    events = [(at, None in scopes) for at, scopes in _list_scopes(code)]
    offsets = [offset for offset, _ in events]

    def inside(offset: int) -> bool:
        i = bisect.bisect_left(offsets, offset)
        return i > 0 and events[i - 1][1]

    return inside


def list_outermost(code: str) -> Iterator[tuple[str, int, str]]:
    """Yield (head, offset, body) for each declaration at namespace scope.

    The head is the text from the offset up to, but not including, ; or {. The body is
    the text from { to }; "" if there is none.
    """
    code, start = blank_directives(code), 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if at < start:
            continue
        head = code[start:at]
        if match.group() != "{":
            yield head, start, ""
            start = at + 1
            continue
        if re.search(r"\bnamespace\b[^()]*$|\bextern\s*$", head):
            start = at + 1
            continue
        end = find_close(code, at)
        if end < 0:
            return
        yield head, start, code[at : end + 1]
        start = end + 1


# ---- functions -----------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function's declaration, as offsets into the code.

    start:   start of the specifier, such as __global__
    name_at: start of the function's name
    opening, closing: parentheses around the parameters
    brace:   the { of the body, or None
    is_specialised: whether template arguments follow the name
    """

    name: str
    start: int
    name_at: int
    opening: int
    closing: int
    brace: int | None
    is_specialised: bool


_HEAD = re.compile(r"[^;{}()]*?\b(?P<name>\w+)\s*(?P<arguments><[^();]*>)?\s*\(")


# Unlike find_body(), this pattern finds the body even if the head has an extra ).
_BODY = re.compile(r"[^;{}]*\{")
DEVICE = "__(?:global|device)__"  # the specifiers of device code


def list_functions(code: str, specifier: str) -> Iterator[Function]:
    """Yield the functions declared with a specifier, such as `__global__`.

    specifier: regular expression that matches the specifier
    """
    for match in re.finditer(rf"\b{specifier}\b", code):
        at = match.end()
        while head := _HEAD.match(code, at):
            opening = head.end() - 1
            closing = find_close(code, opening)
            if closing < 0:
                break
            if not SPECIFIER.fullmatch(head["name"]):
                body = _BODY.match(code, closing + 1)
                yield Function(
                    *(head["name"], match.start(), head.start("name"), opening),
                    *(closing, body and body.end() - 1, bool(head["arguments"])),
                )
                break
            at = closing + 1  # after __launch_bounds__(256)


def find_body(code: str, start: int) -> int | None:
    """Return the offset of the { of the function declared at `start`, or None."""
    depth = 0
    for match in re.compile(r"[(){};=]").finditer(code, start):
        c = match.group()
        depth += (c == "(") - (c == ")")
        if depth == 0 and c == "{":
            return match.start()
        if c == "=" and re.search(r"operator\W*$", code[start : match.start()]):
            continue
        if depth < 0 or (depth == 0 and c in ";=}"):
            return None
    return None


def find_definition(code: str, name: str) -> tuple[int, int] | None:
    """Return the offsets of the braces of the function `name`, or None if undefined."""
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", code):
        closing = find_close(code, match.end() - 1)
        brace = None if closing < 0 else find_body(code, closing + 1)
        if brace is not None:
            return brace, find_close(code, brace)
    return None


def read_body(source: str, name: str) -> str | None:
    """Return a function's body without its braces, comments and strings.

    The result is None if the source does not define the function, for example because a
    header defines it.
    """
    code = blank_comments(source)
    span = find_definition(code, name)
    return code[span[0] + 1 : span[1]] if span else None
