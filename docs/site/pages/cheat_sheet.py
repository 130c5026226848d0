"""Write the cheat sheet: indices, calls, limits, and first steps for a slow kernel.

The page fits one printed sheet of A4. The limits come from the lab's own tables, and
weft.see.machine_code.residency names their source.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from parts import links

from weft.see.machine_code.residency import (
    KB,
    LIMITS,
    REGISTERS,
    REGISTERS_THREAD,
    THREADS_BLOCK,
    WARP,
)
from weft.toolchain import launch_config

THEME = Path(__file__).resolve().parents[1] / "theme"
GUIDE = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities"
TRAITS = "https://nvidia.github.io/cccl/cudax/api/structcuda_1_1experimental_1_1arch__traits__t.html"
CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0")
NEW = {  # the features that a compute capability adds to lower ones
    "7.5": "fp16",
    "8.0": "bf16, tf32, cp.async",
    "8.6": "",
    "8.9": "fp8",
    "9.0": "TMA, wgmma, clusters",
    "10.0": "fp4, fp6, tcgen05",
}
INDICES = (
    ("i = blockIdx.x * blockDim.x + threadIdx.x;", "the thread's number in the grid"),
    ("i = cuda.grid(1)", "the same in Python; cuda.grid(2): (x, y)"),
    ("if (i < n) ...", "the guard: the last block has threads to spare"),
    ("blocks = cdiv(n, 256)", "n / 256, rounded up"),
    ("col = blockIdx.x * blockDim.x + threadIdx.x;", "x runs along a row ..."),
    ("row = blockIdx.y * blockDim.y + threadIdx.y;", "... and y from row to row"),
    ("a[row * cols + col]", "an element, row by row"),
    ("t = threadIdx.y * blockDim.x + threadIdx.x;", "the number in a 2D block"),
    ("lane = t % 32, warp = t / 32;", "32 threads run together"),
    (
        "for (int j = i; j < n; j += blockDim.x * gridDim.x)",
        "any n with any grid",
    ),
)
LAUNCHES = (
    ("k[grid, block](y, x, n)", "in Python: numbers or tuples (x, y, z)"),
    ("k[grid, block, stream, bytes](...)", "with a stream and dynamic shared memory"),
    ("k<<<grid, block, bytes, stream>>>(y, x, n);", "in a whole program"),
)
MEMORIES = (
    ("float a;", "registers, of one thread"),
    ("float a[8];", "registers, or local memory if an index varies"),
    ("__shared__ float s[256];", "of a block; cuda.shared.array(256, float32)"),
    ("extern __shared__ float s[];", "its bytes come with the launch"),
    ("float *x", "global memory, of all threads"),
    ("__constant__ float c[16];", "the same for all, read only; k.c = array"),
)
WAITS = (
    ("__syncthreads();", "all threads of the block must reach it"),
    ("__syncwarp();", "the lanes of a warp"),
    ("atomicAdd(&x[i], v);", "read, add and write in one step"),
    ("__shfl_down_sync(~0u, v, 16)", "the value of a lane further on"),
    ("end of a kernel", "the only barrier for the whole grid"),
)
CALLS = (
    ("%%cuda", "a cell of CUDA C; its kernels become functions"),
    ("load_cuda(text).k", "the same outside of a notebook"),
    ("sim(k)  numba_jit(k)  cuda_c(k)", "runners of a kernel in Python"),
    ("to_cuda(k, types)", "its CUDA C as text"),
    ('check(k, reference, outputs={"y": "n"}, ...)', "against float64, awkward sizes"),
    ("inspect(k)[grid, block](...)", "faults, and the cost of each line"),
    ("show(k)[grid, block](...)", "who touches what; view= heat, lanes, timeline"),
    ("latency(k)[grid, block](...)", "how warps take turns"),
    ("occupancy(k, threads=256)", "how many warps fit, and what limits them"),
    ("ptx(k)  sass(k)", "instructions, registers, spills"),
    ("profile(k)[grid, block](...)", "Nsight Compute's counters next to ours"),
    ("bench(f, x)", "the time of a call: median and band"),
    ('autotune(k, {"TILE": (16, 32)}, ...)', "the fastest constants"),
    ("timeline(f)  torch_kernels(f)", "what ran on the GPU, and PyTorch's kernels"),
)
COMMANDS = (
    ("python -m weft doctor", "what runs here, and what is missing"),
    ("python -m weft run p.cu", "a program without a GPU; inspect: watched"),
    ("python -m weft check OP", "every rung against float64"),
    ("python -m weft bench WHAT", "measurements; --help lists them"),
)
WRONG = (
    ("An element is NaN", "no thread wrote it: guard, grid, index"),
    ("Wrong at the end", "the guard, or the last tile"),
    ("Right with one block", "threadIdx instead of the number in the grid"),
    ("Differs from run to run", "a race: inspect names both lines"),
    ("Rows and columns swapped", "x goes along a row: [row, col] is (y, x)"),
    ("Last digits differ", "another order of additions; compare with float64"),
)
SLOW = (
    ("1  bytes / bandwidth", "the least time: is the kernel far from it?"),
    ("2  sectors per request", "4 for floats side by side, 32 at worst"),
    ("3  turns of shared memory", "1; more: bank conflicts, pad the rows"),
    ("4  active lanes", "32; fewer: branches inside a warp"),
    ("5  spilled bytes", "0: ptx or sass shows them"),
    ("6  warps, and what they wait for", "occupancy, latency"),
    ("7  gaps between kernels", "timeline: fuse kernels, or use a graph"),
)


def write(folder: Path) -> None:
    """Write cheat_sheet.md."""
    style = (THEME / "cheat_sheet.css").read_text()
    blocks = [
        "---\nhtml_theme.sidebar_secondary.remove: true\n---",
        "# Cheat sheet",
        links.write_raw(f"<style>\n{style}</style>\n{write_sheet()}"),
    ]
    (folder / "cheat_sheet.md").write_text("\n\n".join(blocks) + "\n")


def write_sheet() -> str:
    """Return the sheet as HTML."""
    sections = [
        write_section("Which element is mine?", INDICES),
        write_section("Launch", LAUNCHES),
        write_section("Memory", MEMORIES),
        write_section("Wait and exchange", WAITS),
        write_section("The lab's calls", CALLS),
        write_section("Commands", COMMANDS),
        write_section("Wrong? Look at", WRONG, plain=True),
        write_section("Slow? Look at, in this order", SLOW, plain=True),
    ]
    print_button = (
        '<p class="print"><button type="button" onclick="print()">Print on one sheet'
        "</button></p>"
    )
    body = "".join(sections)
    return (
        f'<div class="weft-sheet">{print_button}<div class="columns">{body}</div>'
        f"{write_limits()}</div>"
    )


def write_section(
    title: str, rows: tuple[tuple[str, str], ...], plain: bool = False
) -> str:
    """Return a section of two columns. plain: whether the first one is text."""
    tag = "b" if plain else "code"
    lines = "".join(
        f"<dt><{tag}>{html.escape(left)}</{tag}></dt><dd>{html.escape(right)}</dd>"
        for left, right in rows
    )
    return f"<section><h2>{html.escape(title)}</h2><dl>{lines}</dl></section>"


def write_limits() -> str:
    """Return the limits: those of every GPU, and those by compute capability."""
    head = "".join(f"<th>{name}</th>" for name in CAPABILITIES)
    rows = "".join(
        f"<tr><th>{title}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for title, cells in list_limits().items()
    )
    table = f"<thead><tr><th>compute capability</th>{head}</tr></thead><tbody>{rows}"
    return (
        f'<section class="limits"><h2>Limits</h2><p>{describe_limits()}</p>'
        f'<div class="scroll"><table>{table}</tbody></table></div>'
        f'<p class="sources">Sources: <a href="{GUIDE}">CUDA C++ Programming Guide, '
        f'Compute Capabilities</a>; <a href="{TRAITS}">arch_traits of CUDA\'s core '
        "libraries</a>. Sectors, lines and banks: lesson 07a.</p></section>"
    )


def list_limits() -> dict[str, list[str]]:
    """Return the rows of the table: a multiprocessor's limits by capability."""
    limits = [LIMITS[name] for name in CAPABILITIES]
    return {
        "generation": [one.name for one in limits],
        "threads of a multiprocessor": [f"{one.threads}" for one in limits],
        "warps of a multiprocessor": [f"{one.warps}" for one in limits],
        "blocks of a multiprocessor": [f"{one.blocks}" for one in limits],
        "shared memory of a multiprocessor, KB": [
            f"{one.shared // KB}" for one in limits
        ],
        "shared memory of a block, KB": [f"{one.shared_block // KB}" for one in limits],
        "new, for tensor cores and copies": [NEW[name] for name in CAPABILITIES],
    }


def describe_limits() -> str:
    """Return the limits that all of these GPUs share."""
    x, y, z = launch_config._BLOCK
    grid_x, grid_y, _ = launch_config._GRID
    assert (grid_x, THREADS_BLOCK) == (2**31 - 1, launch_config.MAX_THREADS)
    return (
        f"On each GPU, a block has at most {THREADS_BLOCK} threads, with sides up to "
        f"{x}, {y} and {z}. A grid has sides up to 2<sup>31</sup> - 1, {grid_y} and "
        f"{grid_y}. A warp has {WARP} lanes. A thread has at most {REGISTERS_THREAD} "
        f"registers, a multiprocessor {REGISTERS}. Static shared memory ends at 48 KB; "
        "more is dynamic, on request. A sector has 32 bytes, a line 128. Shared memory "
        "has 32 banks of 4 bytes."
    )


def list_code() -> list[str]:
    """Return the lab's calls as Python, for a test that finds them in the lab."""
    return [part for text, _ in CALLS for part in re.split(r"\s{2,}", text)]
