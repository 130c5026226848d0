"""PTX as instructions. The language: docs.nvidia.com/cuda/parallel-thread-execution."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .instructions import Code, Instruction, find_loops

_HEAD = re.compile(r"^[^\S\n]*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b", re.M)
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$.]+)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)


def kernels(text: str) -> list[str]:
    """The (mangled) names of the kernels in a PTX text."""
    return [name for kind, name, _ in _split_functions(text) if kind == "entry"]


def read(text: str, kernel: str) -> Code:
    """One kernel, and behind it the functions that it calls. KeyError if it is none."""
    found = {name: (kind, body) for kind, name, body in _split_functions(text)}
    files = {number: name for number, name in _FILE.findall(text)}
    if found.get(kernel, ("", ""))[0] != "entry":
        raise KeyError(kernel)
    wanted, todo = [kernel], [kernel]
    while todo:
        for word in re.findall(r"[\w$]+", found[todo.pop()][1]):
            if word in found and word not in wanted:
                wanted.append(word)
                todo.append(word)
    code: list[Instruction] = []
    for name in wanted:
        own = "" if name == kernel else name
        code += _parse_instructions(found[name][1], files, own)
    whole = "\n".join(found[name][1] for name in wanted)
    return Code(kernel, "ptx", code, whole, find_loops(code))


def _split_functions(text: str) -> Iterator[tuple[str, str, str]]:
    """(entry or func, name, text from its head to its closing brace)."""
    for head in _HEAD.finditer(text):
        name = _NAME.search(text, head.start())
        end = re.compile(r"^\}|;\s*$", re.M)  # a declaration has no body
        brace = text.find("\n{", head.start())
        stop = text.find(";", head.start())
        if name and brace >= 0 and not 0 <= stop < brace:
            closes = end.search(text, brace + 2)
            while closes and not closes.group().startswith("}"):
                closes = end.search(text, closes.end())
            last = closes.end() if closes else len(text)
            yield head.group(1), name.group(1), text[head.start() : last].strip("\n")


def _parse_instructions(
    body: str, files: dict[str, str], function: str
) -> Iterator[Instruction]:
    labels: list[str] = []
    place = "", 0
    pending = ""
    _, _, inner = body.partition("\n{")
    tables = _read_tables(inner)
    for raw in inner.splitlines():
        line = re.sub(r"//.*", "", raw).strip()
        if found := _LOC.match(line):
            file, number, outer, at = found.groups()
            if outer and files.get(file) != files.get(outer):
                file, number = outer, at  # a header's function: where it was called
            place = files.get(file, ""), int(number)
            continue
        line = line.strip("{} \t")
        if not line or (line[0] == "." and not pending):
            continue
        if found := re.fullmatch(r"([\w$]+):(.*)", line):
            labels.append(found.group(1))
            line = found.group(2).strip()
            if not line or line.startswith("."):
                continue
        pending = f"{pending} {line}".strip()
        if not pending.endswith(";"):
            continue
        yield _parse_instruction(pending, tuple(labels), place, function, tables)
        labels, pending = [], ""


def _read_tables(body: str) -> dict[str, tuple[str, ...]]:
    """The targets of an indirect branch, by the label of their list."""
    found = re.findall(r"([\w$]+):\s*\.branchtargets([^;]*);", body)
    return {name: tuple(re.findall(r"[\w$]+", text)) for name, text in found}


def _parse_instruction(text, labels, place, function, tables) -> Instruction:
    text = re.sub(r"\s+", " ", text)
    guard, rest = re.match(r"(@!?%?\w+)?\s*(.*)", text).groups()
    opcode = re.split(r"[\s;]", rest, maxsplit=1)[0]
    base = opcode.split(".")[0]
    jumps: tuple[str, ...] = ()
    falls = True
    if base in ("bra", "brx"):
        words = re.findall(r"[\w$]+", rest.removeprefix(opcode))
        jumps = tables.get(words[-1], (words[-1],)) if words else ()
        falls = bool(guard) and base == "bra"
    elif base in ("ret", "exit", "trap"):
        falls = bool(guard)
    return Instruction(
        *(text, opcode, _classify(opcode), guard or "", labels, jumps, falls),
        *(*place, function),
    )


def _classify(opcode: str) -> str:
    base, *more = opcode.split(".")
    space = next((s for s in ("shared", "local", "param", "const") if s in more), "")
    if any(part.startswith("shared") for part in more):
        space = "shared"
    if base in ("ld", "ldu", "st"):
        if space in ("param", "const"):
            return "other"
        return f"{space or 'global'} {'store' if base == 'st' else 'load'}"
    if base == "cp" and "async" in more:
        return "global load" if "global" in more else "other"
    if base == "ldmatrix":
        return "shared load"
    if base in ("atom", "red"):
        return "shared atomic" if space == "shared" else "global atomic"
    if base == "fma":
        return "FMA"
    if base in ("mma", "wmma", "wgmma", "tcgen05"):
        return "matrix"
    if base in ("sin", "cos", "ex2", "lg2", "tanh", "rsqrt", "rcp", "sqrt"):
        return "special"
    if base in ("bar", "barrier"):
        return "barrier"
    return "branch" if base in ("bra", "brx", "call", "ret", "exit") else "other"
