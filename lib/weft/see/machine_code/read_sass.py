"""A GPU's own instructions, SASS, from what nvdisasm prints.

NVIDIA documents the names of the instructions, not what they do in full:
https://docs.nvidia.com/cuda/cuda-binary-utilities/#instruction-set-reference
"""

from __future__ import annotations

import re

from .instructions import Code, Instruction, find_loops

_SECTION = re.compile(r"^//-+ \.text\.(\S+) ", re.M)
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*(?:/\*|$)")
_LABEL = re.compile(r"^([.$\w]+):")
_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]*)"')


def kernels(text: str) -> list[str]:
    """The (mangled) names of the kernels in a disassembly."""
    return [name.rstrip(",") for name in _SECTION.findall(text)]


def read(text: str, kernel: str) -> Code:
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
                _parse_instruction(found.group(2), tuple(labels), place, function)
            )
            labels, fresh = [], True
        elif found := _LABEL.match(line):
            name = found.group(1)
            labels.append(name)
            if name.startswith("$"):
                function = re.sub(r"^.*\$(?=\w)", "", name)
    code = _strip_padding(code)
    return Code(kernel, "sass", code, own, find_loops(code))


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


def _parse_instruction(text, labels, place, function) -> Instruction:
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
        *(text, opcode, _classify(opcode, rest), guard or "", labels, jumps, falls),
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


def _classify(opcode: str, rest: str) -> str:
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
