"""Tools that show the machine code of a kernel, and its work on a GPU.

ptx(kernel), sass(kernel)              instructions, below the lines of your source
occupancy(kernel, threads=256)         the number of blocks that fit, and its limit
profile(kernel)[grid, block](*args)    Nsight Compute's counters next to ours

A view unfolds only the innermost loops, which run most often. Any other part becomes a
line with its number of instructions. Accesses have the colours of the pictures: blue
for reads of global memory, orange for writes to it, green for shared memory.

compilation   find a kernel's source, and compile it with NVRTC, nvcc, ptxas or Numba
instructions parse PTX and SASS into instructions, their kinds and their loops
residency     occupancy(), its picture, and the limits of a multiprocessor
profile       profile(): Nsight Compute's counters next to the CPU's
ncu           run Nsight Compute on recorded launches; its output and its formulas
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from ...base.style import CODE as COLOURS
from ...base.style import FAULT, READ, SHARED, WRITTEN, write_colour
from ...base.text import count_things
from ...cells.gpu.nvrtc import Usage
from ...report.html import BOLD, FAINT, PRE, colour_text, make_page, write_title
from . import compilation, instructions
from .compilation import KernelSource, demangle, select_kernels, source_for
from .instructions import CodeLoop, Instruction, KernelCode, told
from .profile import Profile, profile
from .residency import Occupancy, occupancy

__all__ = ["Occupancy", "Profile", "View", "occupancy", "profile", "ptx", "sass"]


def ptx(kernel: Any, *args: Any, arch: str | None = None) -> View:
    """Return the kernel as PTX, the assembly language that all NVIDIA GPUs share.

    kernel: a kernel or module of load_cuda() or %%cuda; cuda_c(k); a Python kernel or
    numba_jit(k), followed by arguments like those of a launch; or the path of a .cu
    file, followed by its kernels' names ("kernels/matmul/01_naive.cu", "matmul_naive").
    arch: an architecture such as "sm_80"; None: that of this machine's GPU, or sm_90
    without a GPU. No GPU is needed. Raises ArgumentError or CompileError, or, if a tool
    is missing, BuildError with the cure.
    """
    return _build_view("ptx", kernel, args, arch)


def sass(kernel: Any, *args: Any, arch: str | None = None) -> View:
    """Return the kernel as SASS, the instructions that one kind of GPU executes.

    The parameters are the same as for ptx(). sass() requires nvdisasm: pip install
    nvidia-cuda-nvdisasm.
    """
    return _build_view("sass", kernel, args, arch)


_READERS = {
    "ptx": (instructions.list_ptx_kernels, instructions.read_ptx),
    "sass": (instructions.list_sass_kernels, instructions.read_sass),
}


def _build_view(language: str, kernel: Any, args: Any, arch: str | None) -> View:
    arch = compilation.checked_arch(arch)
    source = source_for(kernel, args)
    code = source.compile(arch)
    text = getattr(code, language)
    list_kernels, read = _READERS[language]
    listings = []
    for asked, name in select_kernels(source, code, list_kernels(text)):
        parts = read(text, name), code.usage.get(name), source
        listings.append(KernelListing(demangle(asked, name), *parts))
    return View(language, arch, listings)


SHORT = 48  # a loopless kernel of at most this many instructions is unfolded
NAMES = {"ptx": "PTX", "sass": "SASS"}
_MEMORY = {
    **{"global load": READ, "global store": WRITTEN, "global atomic": WRITTEN},
    **{"shared load": SHARED, "shared store": SHARED, "shared atomic": SHARED},
    **{"local load": FAULT, "local store": FAULT},
}


@dataclass
class ListingPart:
    """Adjacent instructions that a view shows or folds together."""

    indices: list[int]
    loop: CodeLoop | None
    opened: bool


class KernelListing:
    """One kernel of a view: its code, its resources, its loops and their counts.

    name: the reader's name for it. usage: registers, shared and other memory; None if
    unknown.
    """

    def __init__(
        self, name: str, code: KernelCode, usage: Usage | None, source: KernelSource
    ):
        self.name, self.code, self.usage, self.source = name, code, usage, source
        for one in code.instructions:
            one.file, one.line = source.place(one.file, one.line)

    @property
    def loops(self) -> list[dict[str, int]]:
        """The instructions of one pass of each innermost loop, counted by kind."""
        return [self.code.counts(loop) for loop in self.code.hot]

    def needs(self) -> str:
        """Write the usage, such as "32 registers · 2048 bytes shared · no spills"."""
        use = self.usage
        if use is None:
            return "registers unknown"
        sizes = f"{use.shared} bytes shared · {use.stack} bytes local"
        spills = f"spills {use.spill_stores} bytes out, {use.spill_loads} bytes in"
        spills = spills if use.spill_stores or use.spill_loads else "no spills"
        return f"{use.registers} registers · {sizes} · {spills}"

    def parts(self) -> list[ListingPart]:
        """Split the instructions at the start and end of each innermost loop."""
        loop_of = {index: loop for loop in self.code.hot for index in loop.body}
        short = not self.code.hot and len(self.code.instructions) <= SHORT
        parts = []
        for (loop, function), pairs in groupby(
            enumerate(self.code.instructions),
            lambda at: (loop_of.get(at[0]), at[1].function),
        ):
            opened = short or (loop is not None and not function)
            parts.append(ListingPart([at for at, _ in pairs], loop, opened))
        return parts

    def title(self, part: ListingPart) -> str:
        """Write a part's title, such as "loop, lines 8-13: 177 instructions a pass"."""
        count = len(part.indices)
        function = self.code.instructions[part.indices[0]].function
        lines = _write_lines(self.code.lines(part.indices))
        size = count_things(count, "instruction")
        in_a = f"{function}: " * bool(function)
        at = f", {lines}" * bool(lines)
        if part.loop is None:
            return f"{in_a}{size}{at}"
        # If the compiler moved a part of a loop past the kernel's end, no piece is a
        # whole pass.
        a_pass = " a pass" if count == len(part.loop.body) else ""
        counts = told(self.code.counts(part.loop)) if a_pass else ""
        return f"{in_a}loop{at}: {size}{a_pass}{f': {counts}' * bool(counts)}"

    def groups(self, part: ListingPart) -> list[list[Instruction]]:
        """Return the part's instructions, grouped by source line."""
        groups: list[list[Instruction]] = []
        for one in (self.code.instructions[i] for i in part.indices):
            if not groups or one.labels or one.place != groups[-1][0].place:
                groups.append([])
            groups[-1].append(one)
        return groups

    def line(self, place: tuple[str, int]) -> str:
        """Return the text of a source line; "" if it is unknown."""
        return self.source.text(*place) if place[1] else ""


class View:
    """The result of ptx() and sass(): folded in a notebook, plain text in print().

    kernels: a listing for each kernel. arch: an architecture such as "sm_90". text: the
    whole code as NVIDIA's tools write it.
    """

    def __init__(self, language: str, arch: str, kernels: list[KernelListing]) -> None:
        self.language, self.arch, self.kernels = language, arch, kernels

    @property
    def text(self) -> str:
        return "\n\n".join(kernel.code.text for kernel in self.kernels)

    def __repr__(self) -> str:
        return "\n\n".join(map(self._write_text, self.kernels))

    def _write_text(self, kernel: KernelListing) -> str:
        code = f"{NAMES[self.language]} · {self.arch}"
        out = [f"{kernel.name} · {code} · {kernel.needs()}"]
        for part in kernel.parts():
            title = kernel.title(part)
            if not part.opened:
                out.append(f"... {title}")
                continue
            out.append(f"--- {title}")
            for group in kernel.groups(part):
                out += [f"      {name}:" for name in group[0].labels]
                if line := kernel.line(group[0].place).strip():
                    out.append(f"{group[0].line:>5}  {line}")
                out += [f"         {one.text}" for one in group]
        return "\n".join(out)

    def _repr_html_(self) -> str:
        return make_page([self._render_kernel(kernel) for kernel in self.kernels])

    def _render_kernel(self, kernel: KernelListing) -> str:
        parts = "".join(self._render_part(kernel, part) for part in kernel.parts())
        needs = f'<span style="{FAINT}"> · {escape(kernel.needs())}</span>'
        subtitle = f"{NAMES[self.language]} for {self.arch}{needs}"
        return f"{write_title(kernel.name, [], subtitle)}{parts}"

    def _render_part(self, kernel: KernelListing, part: ListingPart) -> str:
        rows = []
        for group in kernel.groups(part):
            labels = [f"       {escape(name)}:" for name in group[0].labels]
            rows += [f'<span style="{FAINT}">{text}</span>' for text in labels]
            if line := kernel.line(group[0].place).strip():
                source, number = (
                    colour_text(line, kernel.source.language),
                    group[0].line,
                )
                rows.append(f'<span style="{FAINT}">{number:>5}  </span>{source}')
            rows += [self._render_instruction(one) for one in group]
        bold = BOLD * part.opened
        return (
            f'<details{" open" * part.opened} style="margin-top:4px">'
            f'<summary style="cursor:pointer;{bold}">{escape(kernel.title(part))}'
            f'</summary><pre style="{PRE}max-height:480px;overflow-y:auto">'
            f"{chr(10).join(rows)}</pre></details>"
        )

    def _render_instruction(self, one: Instruction) -> str:
        guard, _, operands = one.text.rpartition(one.opcode)
        if one.opcode not in one.text:
            guard, operands = "", one.text
        colour = _MEMORY.get(one.kind) or (COLOURS["k"] if one.kind != "other" else "")
        name = escape(one.opcode)
        if colour:
            look = f"{write_colour(colour)};{BOLD * (one.kind in _MEMORY)}"
            name = f'<span title="{one.kind}" style="{look}">{name}</span>'
        return f"{' ' * 9}{escape(guard)}{name}{escape(operands)}"


def _write_lines(numbers: list[int]) -> str:
    """Write line numbers, such as "lines 8-13" or "line 9"."""
    if not numbers:
        return ""
    first, last = numbers[0], numbers[-1]
    return f"line {first}" if first == last else f"lines {first}-{last}"
