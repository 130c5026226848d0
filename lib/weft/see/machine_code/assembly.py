"""PTX and SASS, the two kinds of machine code, as instructions.

PTX as instructions. The language: docs.nvidia.com/cuda/parallel-thread-execution.

A GPU's own instructions, SASS, from what nvdisasm prints.

NVIDIA documents the names of the instructions, not what they do in full:
https://docs.nvidia.com/cuda/cuda-binary-utilities/#instruction-set-reference
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .instructions import Instruction, KernelCode, find_loops

_HEAD = re.compile(r"^[^\S\n]*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b", re.M)
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$.]+)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)


def list_ptx_kernels(text: str) -> list[str]:
    """The (mangled) names of the kernels in a PTX text."""
    return [name for kind, name, _ in _split_functions(text) if kind == "entry"]


def read_ptx(text: str, kernel: str) -> KernelCode:
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
    return KernelCode(kernel, "ptx", code, whole, find_loops(code))


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
        yield _parse_ptx_instruction(pending, tuple(labels), place, function, tables)
        labels, pending = [], ""


def _read_tables(body: str) -> dict[str, tuple[str, ...]]:
    """The targets of an indirect branch, by the label of their list."""
    found = re.findall(r"([\w$]+):\s*\.branchtargets([^;]*);", body)
    return {name: tuple(re.findall(r"[\w$]+", text)) for name, text in found}


def _parse_ptx_instruction(text, labels, place, function, tables) -> Instruction:
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
        *(text, opcode, _classify_ptx(opcode), guard or "", labels, jumps, falls),
        *(*place, function),
    )


def _classify_ptx(opcode: str) -> str:
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


_SECTION = re.compile(r"^//-+ \.text\.(\S+) ", re.M)
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*(?:/\*|$)")
_LABEL = re.compile(r"^([.$\w]+):")
_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]*)"')


def list_sass_kernels(text: str) -> list[str]:
    """The (mangled) names of the kernels in a disassembly."""
    return [name.rstrip(",") for name in _SECTION.findall(text)]


def read_sass(text: str, kernel: str) -> KernelCode:
    """One kernel with its subroutines. KeyError if there is none of that name."""
    own = _find_section(text, kernel)
    code: list[Instruction] = []
    labels: list[str] = []
    places, fresh, function = [("", 0)], True, ""
    for line in own.splitlines():
        if found := _PLACE.match(line):
            # One line for each function that was inlined, the innermost first.
            places = [] if fresh else places
            places.append((found.group(1), int(found.group(2))))
            fresh = False
        elif found := _CODE.match(line):
            place = next(one for one in places if one[0] == places[-1][0])
            code.append(
                _parse_sass_instruction(found.group(2), tuple(labels), place, function)
            )
            labels, fresh = [], True
        elif found := _LABEL.match(line):
            name = found.group(1)
            labels.append(name)
            if name.startswith("$"):
                function = re.sub(r"^.*\$(?=\w)", "", name)
    code = _strip_padding(code)
    return KernelCode(kernel, "sass", code, own, find_loops(code))


def _find_section(text: str, kernel: str) -> str:
    for mark in _SECTION.finditer(text):
        if mark.group(1).rstrip(",") == kernel:
            end = text.find("\n//----", mark.end())
            return text[mark.start() : end if end >= 0 else len(text)]
    raise KeyError(kernel)


def _strip_padding(code: list[Instruction]) -> list[Instruction]:
    """Without what fills the last lines of the cache: NOP, and a branch to itself."""
    end = len(code)
    while end and code[end - 1].opcode == "NOP":
        end -= 1
    if end and set(code[end - 1].jumps) & set(code[end - 1].labels):
        end -= 1
    return code[:end]


def _parse_sass_instruction(text, labels, place, function) -> Instruction:
    text = re.sub(r"\s+", " ", text).replace(" ;", ";").strip()
    guard, rest = re.match(r"(@!?U?P\w+)?\s*(.*)", text).groups()
    opcode = re.split(r"[\s;]", rest, maxsplit=1)[0]
    base = opcode.split(".")[0]
    jumps: tuple[str, ...] = ()
    falls = True
    if base in ("BRA", "JMP"):
        jumps = tuple(re.findall(r"`\(([^)]+)\)", rest))
        # BRA.U UP0, `(x) and BRA P0, `(x) have their condition among the operands.
        condition = re.search(r"[!\s]U?P(\d|T)\b", rest) or ".DIV" in opcode
        falls = bool(guard or condition)
    elif base in ("BRX", "BRXU", "JMX"):
        listed = _TARGETS.search(rest)
        jumps = tuple(listed.group(1).split(",")) if listed else ()
        falls = bool(guard)
    elif base in ("EXIT", "RET", "KILL"):
        falls = bool(guard)
    return Instruction(
        *(
            text,
            opcode,
            _classify_sass(opcode, rest),
            guard or "",
            labels,
            jumps,
            falls,
        ),
        *(*place, function),
    )


_MEMORY = {
    **{"LDG": "global load", "LD": "global load", "LDGSTS": "global load"},
    **{"STG": "global store", "ST": "global store"},
    **{"LDS": "shared load", "LDSM": "shared load", "STS": "shared store"},
    **{"LDL": "local load", "STL": "local store", "ATOMS": "shared atomic"},
    **{"ATOM": "global atomic", "ATOMG": "global atomic"},
    **{"RED": "global atomic", "REDG": "global atomic"},
    **{"STSM": "shared store", "UTMALDG": "global load", "UTMASTG": "global store"},
}
_MATRIX = re.compile(r"[HIDBQU]\w*MMA\b")
_MOVES = re.compile(r"-RZ, RZ,")  # HFMA2 -RZ, RZ, x, y is how a constant is loaded


def _classify_sass(opcode: str, rest: str) -> str:
    base = opcode.split(".")[0]
    if base in _MEMORY:
        return _MEMORY[base]
    if base in ("FFMA", "FFMA2", "DFMA", "HFMA2", "FFMA32I"):
        return "other" if _MOVES.search(rest) else "FMA"
    if _MATRIX.fullmatch(base):
        return "matrix"
    if base == "MUFU":
        return "special"
    if base in ("BAR", "BARRIER"):
        return "barrier"
    branches = ("BRA", "BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "EXIT")
    return "branch" if base in branches else "other"
