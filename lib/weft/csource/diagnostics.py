"""Compilers' messages on the reader's own lines, with a caret and one hint.

g++ sees the rewritten cell and NVRTC the cell itself; both are brought to one form.
What g++ says about the code around a cell (simt's headers, the launcher) is told at
the line of the cell that led there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from ..base.errors import BuildError
from . import hints
from .rewriter.columns import original_column

CELL = "weft-cell"  # the cell's name as g++ gets it
LIMIT = 4  # diagnostics shown; what follows the first errors is rarely news


@dataclass(frozen=True)
class Diagnostic:
    """One message. line and column count from 1; column 0: unknown.

    file: "" for the cell itself, else a header's name
    severity: error, warning or note
    """

    file: str
    line: int
    column: int
    severity: str
    message: str


class CompileError(BuildError):
    """A cell does not compile. `diagnostics` holds what is wrong, the message shows
    it; `log` is what the compiler itself said."""

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
        """What IPython shows: the reader's lines in red, none of our own frames."""
        return colour_red(str(self)).splitlines()


def colour_red(text: str) -> str:
    """`text` in a terminal's and a notebook's red."""
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
    """g++'s messages (without its carets); file is as g++ gives it.

    A message that is not on the cell's own lines is moved to the line of the cell
    from which g++ came there, where it says so: before the message (`required
    from`) or in a note after it.
    """
    found: list[Diagnostic] = []
    via: tuple[int, int] | None = None
    for line in text.splitlines():
        match = _GCC.match(line)
        if not match:
            way = _VIA.match(line)
            via = (int(way[1]), int(way[2] or 0)) if way else via
            ld = re.search(r"undefined reference to [`'](.+)'", line)
            if ld:
                found.append(Diagnostic(CELL, 0, 0, "error", f"undefined: {ld[1]}"))
            continue
        severity = match["severity"]
        severity = severity if severity in ("warning", "note") else "error"
        at = int(match["line"]), int(match["column"] or 0)
        one = Diagnostic(match["file"], *at, severity, _clean(match["message"]))
        ours = one.file == CELL or not _is_foreign(one.file)
        if re.match(r"variable or field '\w+' declared void", one.message):
            continue  # what follows says why
        if severity == "note":
            if ours and found and _is_foreign(found[-1].file):
                found[-1] = replace(found[-1], file=one.file, line=at[0], column=at[1])
            elif ours and "to match this" in one.message:
                found.append(one)
            continue
        if not ours and via:
            one = replace(one, file=CELL, line=via[0], column=via[1])
        found.append(one)
        via = None
    return found


def parse_nvrtc(text: str, name: str = "cell") -> list[Diagnostic]:
    """NVRTC's messages: `cell(3): error: ...`, the line, a caret beneath it."""
    lines = text.splitlines()
    found = []
    pattern = re.compile(
        r"^(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic )?"
        r"(?P<severity>error|warning|remark)(?: #[\w-]+)?: (?P<message>.*)$"
    )
    for i, line in enumerate(lines):
        match = pattern.match(line)
        if not match:
            continue
        column = 0
        for j in range(i + 1, min(i + 4, len(lines))):
            if re.fullmatch(r"\s*\^~*\s*", lines[j]):
                # EDG indents what it quotes by two columns.
                column = lines[j].index("^") + 1 - 2
                break
        file = "" if match["file"] == name else match["file"]
        severity = "note" if match["severity"] == "remark" else match["severity"]
        found.append(
            Diagnostic(file, int(match["line"]), column, severity, match["message"])
        )
    return found


def parse_rewriter(text: str) -> list[Diagnostic]:
    """The `name:line: message` of rewrite.RewriteError."""
    match = re.match(r"^(.*?):(\d+): (.*)$", text, re.S)
    if not match:
        return [Diagnostic("", 0, 0, "error", text)]
    file = "" if match[1] == CELL else match[1]
    message = match[3].partition(": put it under")[0]  # what a rung's file may do
    return [Diagnostic(file, int(match[2]), 0, "error", message)]


def diagnose_undefined(name: str, source: str) -> Diagnostic:
    """A function that is declared, called, and nowhere defined."""
    base = re.sub(r"\(.*", "", name).split("::")[-1]
    where = re.search(rf"\b{re.escape(base)}\b", source)
    line = source.count("\n", 0, where.start()) + 1 if where else 0
    column = where.start() - source.rfind("\n", 0, where.start()) if where else 0
    return Diagnostic("", line, column, "error", f"'{name}' has no definition")


def in_source(
    found: Iterable[Diagnostic], source: str, rewritten: str
) -> list[Diagnostic]:
    """g++'s diagnostics of the rewritten cell as those of the cell."""
    lines, theirs = source.split("\n"), rewritten.split("\n")[2:]
    out: list[Diagnostic] = []
    found = list(found)
    found = _template_arguments(found)
    own = any(one.severity == "error" and not _is_foreign(one.file) for one in found)
    for one in found:
        if one.file == CELL and 1 <= one.line <= len(lines):
            column = original_column(
                lines[one.line - 1], theirs[one.line - 1], one.column
            )
            one = replace(one, file="", column=column)
        elif one.file == CELL or _is_foreign(one.file):
            if one.severity != "error" or own:
                continue  # about code that is not the reader's, or a consequence
            told = f"{one.message} (in the code that calls the kernels)"
            one = replace(one, file="", line=_last_line(lines), column=0, message=told)
        if one not in out:
            out.append(one)
    return out


def with_error(found: list[Diagnostic], log: str) -> list[Diagnostic]:
    """`found`, or the compiler's first error too if none of them is one."""
    if any(one.severity == "error" for one in found):
        return found
    first = re.search(r"(?:error|undefined|cannot)\b.*", log)
    text = _clean(first.group().removeprefix("error: ")) if first else log.strip()
    return [Diagnostic("", 0, 0, "error", text or "g++ ended without a word"), *found]


def _template_arguments(found: list[Diagnostic]) -> list[Diagnostic]:
    """`t["flaot"]`: what is wrong with it stands before that t does not fit."""
    out: list[Diagnostic] = []
    reason = ""
    for one in found:
        if _is_foreign(one.file) and "was not declared" in one.message:
            reason = one.message
        match = re.match(r"no matches converting function '(\w+)'", one.message)
        if match:
            why = reason or "they are not what its template<...> names"
            one = replace(one, message=f"{match[1]}'s template arguments: {why}")
        if one not in out:
            out.append(one)
    return out


def dump(found: Iterable[Diagnostic]) -> str:
    """As text, for load()."""
    return json.dumps([asdict(one) for one in found])


def load(text: str) -> list[Diagnostic]:
    """What dump() wrote."""
    return [Diagnostic(**one) for one in json.loads(text)]


# ---- showing ------------------------------------------------------------------


def render(diagnostics: Sequence[Diagnostic], source: str, name: str = "cell") -> str:
    """The messages, each with its line, a caret and one hint where there is one.

    cell [7], line 3: error: 'threadidx' was not declared in this scope
        int i = threadidx.x;
                ^
    hint: CUDA writes it threadIdx
    """
    lines = source.split("\n")
    parts, seen = [], set()
    for one in diagnostics:
        key = one.file, one.line, one.message
        if key in seen:
            continue
        seen.add(key)
        if len(parts) == LIMIT:
            parts.append(f"... and {len(diagnostics) - LIMIT} more")
            break
        parts.append(_show_line(one, lines, source, name))
    return "\n".join(parts)


def _show_line(one: Diagnostic, lines: list[str], source: str, name: str) -> str:
    where = f"{name}, line {one.line}" if one.line else name
    if one.file:
        where = f"{one.file}, line {one.line}"
    text = f"{where}: {one.severity}: {one.message}"
    line = ""
    if not one.file and 1 <= one.line <= len(lines):
        line = lines[one.line - 1]
        text += f"\n    {line.expandtabs(4)}"
        if one.column:
            before = line.encode()[: one.column - 1].decode(errors="replace")
            text += f"\n    {' ' * len(before.expandtabs(4))}^"
    hint = hints.find_hint(one.message, line, source)
    return text + (f"\n  hint: {hint}" if hint else "")


# ---- details ------------------------------------------------------------------


def _is_foreign(file: str) -> bool:
    """Whether the file is one of ours or the system's, not the reader's."""
    return file.startswith("/") or file in ("weft-launcher", "<command-line>")


def _clean(message: str) -> str:
    """g++'s message without what only the rewritten text has."""
    message = message.replace("‘", "'").replace("’", "'")
    message = re.sub(r"simt::[xyz]\((\w+)\)", r"\1", message)
    message = re.sub(r"::<lambda\(\)>", "", message)
    message = re.sub(r"\b(?:const )?simt::(\w+)", r"\1", message)
    message = re.sub(r"'(\w+)'(.*); did you mean '\1'\?", r"'\1'\2", message)
    return re.sub(r"; did you mean 'simt_\w+'\?", "", message).strip()


def _last_line(lines: list[str]) -> int:
    """The last line with anything in it."""
    return max((i + 1 for i, line in enumerate(lines) if line.strip()), default=1)
