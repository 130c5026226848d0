"""Parse PTX and SASS into a kernel's instructions, with their loops and counts.

find_loops() uses dominators and natural loops, as in Aho, Lam, Sethi and Ullman,
Compilers, 2nd edition, 9.6. A branch closes a loop if every path to the branch passes
its target first. A slow path placed after the kernel's end does not close a loop by
jumping back.

read_ptx() parses PTX: docs.nvidia.com/cuda/parallel-thread-execution. read_sass()
parses SASS, a GPU's own instructions, as nvdisasm prints them. NVIDIA documents the
names of these instructions, but not their full effect:
https://docs.nvidia.com/cuda/cuda-binary-utilities/#instruction-set-reference
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

# The kinds of instructions that a view counts, in the order of the output.
KINDS = (
    *("global load", "global store", "shared load", "shared store"),
    *("local load", "local store", "global atomic", "shared atomic"),
    *("FMA", "matrix", "special", "barrier", "branch", "other"),
)


@dataclass
class Instruction:
    """One instruction.

    text: the text as NVIDIA's tools write it. opcode: its name with all suffixes, such
    as LDG.E.128. guard: the predicate that enables it, such as "@!P0", or "". labels:
    the labels before it. jumps: the labels of its possible targets; falls: whether the
    next instruction may follow. file, line: its place in the source, "" and 0 if
    unknown. function: the subroutine that contains it, "" in the kernel itself.
    """

    text: str
    opcode: str
    kind: str
    guard: str = ""
    labels: tuple[str, ...] = ()
    jumps: tuple[str, ...] = ()
    falls: bool = True
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def place(self) -> tuple[str, int]:
        return self.file, self.line

    @property
    def bits(self) -> int:
        """The number of bits that one thread accesses, such as 128 for LDG.E.128."""
        parts = self.opcode.split(".")
        wide = [int(p) for p in parts if p in ("8", "16", "64", "128", "256")]
        wide += [int(p[1:]) for p in parts if p in ("U8", "S8", "U16", "S16")]
        if wide or parts[0].isupper():
            return wide[-1] if wide else 32
        each = [int(p[1:]) for p in parts if p[:1] in "bfus" and p[1:].isdigit()]
        vector = [int(p[1:]) for p in parts if p in ("v2", "v4", "v8")]
        return (each[-1] if each else 32) * (vector[-1] if vector else 1)


@dataclass(frozen=True)
class CodeLoop:
    """A loop: the indices of its instructions, its head and its depth (0, 1, ...).

    hot: whether it contains no other loop.
    """

    head: int
    body: frozenset[int]
    depth: int = 0
    hot: bool = True


@dataclass
class KernelCode:
    """A kernel's instructions in one language, "ptx" or "sass", and its loops."""

    kernel: str
    language: str
    instructions: list[Instruction]
    text: str
    loops: list[CodeLoop] = field(default_factory=list)

    @property
    def hot(self) -> list[CodeLoop]:
        """The innermost loops, in the order of the code."""
        return [loop for loop in self.loops if loop.hot]

    def counts(self, loop: CodeLoop | None = None) -> dict[str, int]:
        """Count instructions by kind, in one pass of a loop or in the whole kernel."""
        instructions = self.instructions
        if loop is not None:
            instructions = [instructions[i] for i in sorted(loop.body)]
        return counted(instructions)

    def lines(self, indices: Iterable[int]) -> list[int]:
        """Return the instructions' source lines in the file with most of them."""
        places = [self.instructions[i].place for i in indices]
        files = Counter(file for file, line in places if line)
        if not files:
            return []
        file = files.most_common(1)[0][0]
        return sorted({line for at, line in places if at == file and line})


def counted(those: Iterable[Instruction]) -> dict[str, int]:
    """Count instructions by kind, in the order of KINDS."""
    totals = Counter(one.kind for one in those)
    return {kind: totals[kind] for kind in KINDS if totals[kind]}


def told(counts: dict[str, int]) -> str:
    """Write counts in words, such as "8 global loads, 64 FMAs, 40 others"."""
    nouns = {"matrix": "matrix product", "special": "special function"}
    words = []
    for kind, count in counts.items():
        ending = "es" if kind == "branch" else "s"
        words.append(f"{count} {nouns.get(kind, kind)}{ending * (count != 1)}")
    return ", ".join(words) or "nothing"


def find_loops(code: Sequence[Instruction]) -> list[CodeLoop]:
    """Return every loop, in the order of the heads; a `hot` loop contains no other."""
    successors = list_successors(code)
    predecessors: list[list[int]] = [[] for _ in code]
    for at, nexts in enumerate(successors):
        for to in nexts:
            predecessors[to].append(at)
    parent, order = _find_dominators(code, successors, predecessors)
    bodies: dict[int, set[int]] = {}
    # A kernel's padding, an unreachable branch to itself, is not a loop.
    for at in order.keys() - {-1}:
        for to in successors[at]:
            above = at
            while order[above] > order[to]:
                above = parent[above]
            if above == to:  # the target dominates the branch
                bodies.setdefault(to, {to}).update(_find_body(to, at, predecessors))
    loops = [CodeLoop(head, frozenset(body)) for head, body in sorted(bodies.items())]
    return [
        replace(
            loop,
            depth=sum(loop.body < other.body for other in loops),
            hot=not any(other.body < loop.body for other in loops),
        )
        for loop in loops
    ]


_Edges = list[list[int]]  # for each instruction, the indices of related ones


def list_successors(code: Sequence[Instruction]) -> _Edges:
    """List, for each instruction, the indices of its possible successors."""
    labels = {name: index for index, one in enumerate(code) for name in one.labels}
    out = []
    for index, one in enumerate(code):
        nexts = [labels[name] for name in one.jumps if name in labels]
        last = index + 1 == len(code) or code[index + 1].function != one.function
        if one.falls and not last:
            nexts.append(index + 1)
        out.append(list(dict.fromkeys(nexts)))
    return out


def _find_dominators(
    code: Sequence[Instruction], successors: _Edges, predecessors: _Edges
) -> tuple[dict[int, int], dict[int, int]]:
    """Return each instruction's nearest dominator and its reverse postorder number.

    The algorithm is from Cooper, Harvey and Kennedy, A Simple, Fast Dominance
    Algorithm, 2001. The root, -1, leads to the first instruction of the kernel and of
    each subroutine.
    """
    names = [one.function for one in code]
    starts = [i for i in range(len(code)) if not i or names[i] != names[i - 1]]
    sequence = _list_reverse_postorder(starts, successors)
    order = {index: number for number, index in enumerate(sequence)} | {-1: -1}
    parent = {-1: -1} | {index: -1 for index in starts}

    def intersect(a: int, b: int) -> int:
        """Return the nearest dominator that two instructions have in common."""
        while a != b:
            if order[a] < order[b]:
                a, b = b, a
            a = parent[a]
        return a

    changed = True
    while changed:
        changed = False
        for index in sequence:
            if index in starts:
                continue
            candidates = [b for b in predecessors[index] if b in parent]
            new = functools.reduce(intersect, candidates)
            if parent.get(index) != new:
                parent[index], changed = new, True
    return parent, order


def _list_reverse_postorder(starts: Sequence[int], edges: _Edges) -> list[int]:
    visited, out = set(starts), []
    stack = [(index, iter(edges[index])) for index in starts]
    while stack:
        index, nexts = stack[-1]
        target = next((n for n in nexts if n not in visited), None)
        if target is None:
            out.append(index)
            stack.pop()
        else:
            visited.add(target)
            stack.append((target, iter(edges[target])))
    return out[::-1]


def _find_body(head: int, tail: int, predecessors: _Edges) -> set[int]:
    """Return all instructions that reach the one at `tail` without passing the head."""
    body, todo = {head, tail}, [tail] * (tail != head)
    while todo:
        for index in predecessors[todo.pop()]:
            if index not in body:
                body.add(index)
                todo.append(index)
    return body


_HEAD = re.compile(r"^[^\S\n]*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b", re.M)
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$.]+)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)


def list_ptx_kernels(text: str) -> list[str]:
    """Return the (mangled) names of the kernels in a PTX text."""
    return [name for kind, name, _ in _split_functions(text) if kind == "entry"]


def read_ptx(text: str, kernel: str) -> KernelCode:
    """Parse a kernel and the functions that it calls; raise KeyError if missing."""
    functions = {name: (kind, body) for kind, name, body in _split_functions(text)}
    files = {number: name for number, name in _FILE.findall(text)}
    if functions.get(kernel, ("", ""))[0] != "entry":
        raise KeyError(kernel)
    names, todo = [kernel], [kernel]
    while todo:
        for word in re.findall(r"[\w$]+", functions[todo.pop()][1]):
            if word in functions and word not in names:
                names.append(word)
                todo.append(word)
    code: list[Instruction] = []
    for name in names:
        function = "" if name == kernel else name
        code += _parse_instructions(functions[name][1], files, function)
    full_text = "\n".join(functions[name][1] for name in names)
    return KernelCode(kernel, "ptx", code, full_text, find_loops(code))


def _split_functions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield ("entry" or "func", name, text from head to closing brace)."""
    for head in _HEAD.finditer(text):
        name = _NAME.search(text, head.start())
        brace = text.find("\n{", head.start())
        stop = text.find(";", head.start())  # a declaration has no body
        if name and brace >= 0 and not 0 <= stop < brace:
            closes = re.compile(r"^\}", re.M).search(text, brace + 2)
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
        if match := _LOC.match(line):
            file, number, outer, at = match.groups()
            if outer and files.get(file) != files.get(outer):
                # For an inlined function of a header, use the place of the call.
                file, number = outer, at
            place = files.get(file, ""), int(number)
            continue
        line = line.strip("{} \t")
        if not line or (line[0] == "." and not pending):
            continue
        if match := re.fullmatch(r"([\w$]+):(.*)", line):
            labels.append(match.group(1))
            line = match.group(2).strip()
            if not line or line.startswith("."):
                continue
        pending = f"{pending} {line}".strip()
        if not pending.endswith(";"):
            continue
        yield _parse_ptx_instruction(pending, tuple(labels), place, function, tables)
        labels, pending = [], ""


def _read_tables(body: str) -> dict[str, tuple[str, ...]]:
    """Return the targets of each indirect branch, by the label of its list."""
    tables = re.findall(r"([\w$]+):\s*\.branchtargets([^;]*);", body)
    return {name: tuple(re.findall(r"[\w$]+", text)) for name, text in tables}


def _split_instruction(text: str) -> tuple[str, str, str, str]:
    """Return the guard, the operation with its operands, the opcode and its base."""
    guard, operation = re.match(r"(@!?%?\w+)?\s*(.*)", text).groups()
    opcode = re.split(r"[\s;]", operation, maxsplit=1)[0]
    return guard or "", operation, opcode, opcode.split(".")[0]


def _parse_ptx_instruction(text, labels, place, function, tables) -> Instruction:
    text = re.sub(r"\s+", " ", text)
    guard, operation, opcode, base = _split_instruction(text)
    jumps: tuple[str, ...] = ()
    falls = True
    if base in ("bra", "brx"):
        words = re.findall(r"[\w$]+", operation.removeprefix(opcode))
        jumps = tables.get(words[-1], (words[-1],)) if words else ()
        falls = bool(guard) and base == "bra"
    elif base in ("ret", "exit", "trap"):
        falls = bool(guard)
    flow = labels, jumps, falls, *place, function
    return Instruction(text, opcode, _classify_ptx(opcode), guard, *flow)


_PTX_KINDS = {
    **{"ldmatrix": "shared load", "fma": "FMA", "bar": "barrier", "barrier": "barrier"},
    **dict.fromkeys(("mma", "wmma", "wgmma", "tcgen05"), "matrix"),
    **dict.fromkeys(("sin", "cos", "ex2", "lg2", "tanh"), "special"),
    **dict.fromkeys(("rsqrt", "rcp", "sqrt"), "special"),
    **dict.fromkeys(("bra", "brx", "call", "ret", "exit"), "branch"),
}


def _classify_ptx(opcode: str) -> str:
    base, *parts = opcode.split(".")
    space = next((s for s in ("local", "param", "const") if s in parts), "global")
    if any(part.startswith("shared") for part in parts):
        space = "shared"
    if base in ("ld", "ldu", "st"):
        if space in ("param", "const"):
            return "other"
        return f"{space} {'store' if base == 'st' else 'load'}"
    if base == "cp" and "async" in parts:
        return "global load" if "global" in parts else "other"
    if base in ("atom", "red"):
        return "shared atomic" if space == "shared" else "global atomic"
    return _PTX_KINDS.get(base, "other")


_SECTION = re.compile(r"^//-+ \.text\.(\S+) ", re.M)
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*(?:/\*|$)")
_LABEL = re.compile(r"^([.$\w]+):")
_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]*)"')


def list_sass_kernels(text: str) -> list[str]:
    """Return the (mangled) names of the kernels in a disassembly."""
    return [name.rstrip(",") for name in _SECTION.findall(text)]


def read_sass(text: str, kernel: str) -> KernelCode:
    """Parse one kernel with its subroutines; raise KeyError if it is missing."""
    section = _find_section(text, kernel)
    code: list[Instruction] = []
    labels: list[str] = []
    places, fresh, function = [("", 0)], True, ""
    for line in section.splitlines():
        if match := _PLACE.match(line):
            # nvdisasm prints one line for each inlined function, the innermost first.
            places = [] if fresh else places
            places.append((match.group(1), int(match.group(2))))
            fresh = False
        elif match := _CODE.match(line):
            place = next(one for one in places if one[0] == places[-1][0])
            parts = match.group(2), tuple(labels), place, function
            code.append(_parse_sass_instruction(*parts))
            labels, fresh = [], True
        elif match := _LABEL.match(line):
            name = match.group(1)
            labels.append(name)
            if name.startswith("$"):
                function = re.sub(r"^.*\$(?=\w)", "", name)
    code = _strip_padding(code)
    return KernelCode(kernel, "sass", code, section, find_loops(code))


def _find_section(text: str, kernel: str) -> str:
    for mark in _SECTION.finditer(text):
        if mark.group(1).rstrip(",") == kernel:
            rest, _, _ = text[mark.end() :].partition("\n//----")
            return mark.group() + rest
    raise KeyError(kernel)


def _strip_padding(code: list[Instruction]) -> list[Instruction]:
    """Remove the padding of the last cache lines: NOPs, and a branch to itself."""
    end = len(code)
    while end and code[end - 1].opcode == "NOP":
        end -= 1
    if end and set(code[end - 1].jumps) & set(code[end - 1].labels):
        end -= 1
    return code[:end]


def _parse_sass_instruction(text, labels, place, function) -> Instruction:
    text = re.sub(r"\s+", " ", text).replace(" ;", ";").strip()
    guard, operation, opcode, base = _split_instruction(text)
    jumps: tuple[str, ...] = ()
    falls = True
    if base in ("BRA", "JMP"):
        jumps = tuple(re.findall(r"`\(([^)]+)\)", operation))
        # In BRA.U UP0, `(x) and BRA P0, `(x), the condition is an operand.
        condition = re.search(r"[!\s]U?P(\d|T)\b", operation) or ".DIV" in opcode
        falls = bool(guard or condition)
    elif base in ("BRX", "BRXU", "JMX"):
        targets = _TARGETS.search(operation)
        jumps = tuple(targets.group(1).split(",")) if targets else ()
        falls = bool(guard)
    elif base in ("EXIT", "RET", "KILL"):
        falls = bool(guard)
    flow = labels, jumps, falls, *place, function
    return Instruction(text, opcode, _classify_sass(opcode, operation), guard, *flow)


_SASS_KINDS = {
    **dict.fromkeys(("BRA", "BRX", "BRXU", "JMP", "JMX"), "branch"),
    **dict.fromkeys(("CALL", "RET", "EXIT"), "branch"),
    **{"MUFU": "special", "BAR": "barrier", "BARRIER": "barrier"},
    **{"LDG": "global load", "LD": "global load", "LDGSTS": "global load"},
    **{"STG": "global store", "ST": "global store"},
    **{"LDS": "shared load", "LDSM": "shared load", "STS": "shared store"},
    **{"LDL": "local load", "STL": "local store", "ATOMS": "shared atomic"},
    **{"ATOM": "global atomic", "ATOMG": "global atomic"},
    **{"RED": "global atomic", "REDG": "global atomic"},
    **{"STSM": "shared store", "UTMALDG": "global load", "UTMASTG": "global store"},
}
_MATRIX = re.compile(r"[HIDBQU]\w*MMA\b")
_MOVES = re.compile(r"-RZ, RZ,")  # HFMA2 -RZ, RZ, x, y only loads a constant


def _classify_sass(opcode: str, operation: str) -> str:
    base = opcode.split(".")[0]
    if base in ("FFMA", "FFMA2", "DFMA", "HFMA2", "FFMA32I"):
        return "other" if _MOVES.search(operation) else "FMA"
    return "matrix" if _MATRIX.fullmatch(base) else _SASS_KINDS.get(base, "other")
