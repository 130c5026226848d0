"""Pictures, commands and checks of lesson 13b: how a kernel reaches other people.

wheel = pack("curve.cu")            `python -m weft package`
room = Room(); room.install(wheel); room.run("python -m curve.test")
draw_wheel(wheel); show_needs(wheel); show_file(wheel, ".pyi")
play_cards(["75", "90a"])           the cubins that each card runs
play_counts()                       wheels to build, for each kind of library
show_lanes()                        draws the lanes of an OutOfArray raised in its block
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base import style as kit
from ..base.errors import KernelError
from ..base.paths import KERNELS, LIB, ROOT
from ..base.style import FAULT, OPPONENT, READ, REFERENCE, SHARED, WIDTH
from ..base.text import count_things
from ..benchmarks import bridges
from ..ops.in_triton import OutOfArray, load_file
from ..see.pictures import svg
from ..see.pictures.panels import EDGE
from ..see.pictures.rows import draw_program
from ..see.pictures.svg import Drawing, Slider, box, label, remark

# ---- commands ------------------------------------------------------------------------

_folders: list[tempfile.TemporaryDirectory[str]] = []  # deleted at the end


def make_folder() -> str:
    """Return a new empty folder, which is deleted when Python exits."""
    _folders.append(tempfile.TemporaryDirectory(prefix="weft_"))
    return _folders[-1].name


def pack(source: str) -> Path:
    """Run `python -m weft package` on a file; return the wheel in the same folder.

    Without a GPU, it omits the machine code for GPUs, which would take another minute.
    Raises KernelError with the command's output if the command fails.
    """
    folder = Path(source).resolve().parent
    command = ["python", "-m", "weft", "package", source]
    command += [] if torch.cuda.is_available() else ["--cpu"]
    print(f"$ {shlex.join(command)}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (LIB, ROOT)))}
    words = [sys.executable, *command[1:], "--output", str(folder)]
    _run(words, env=environment)
    return max(folder.glob(f"{Path(source).stem}-*.whl"), key=os.path.getmtime)


def _run(words: Sequence[str], fails: str = "", **options: Any) -> str:
    """Run a command and return its output; raise KernelError if it fails.

    fails: text that the output must contain; the command then must fail.
    """
    done = subprocess.run(
        *(words,),
        **{"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
        **options,
    )
    if bool(done.returncode) != bool(fails) or fails not in done.stdout:
        status = f"exit status {done.returncode}"
        raise KernelError(f"{shlex.join(words)}: {status}\n{done.stdout}")
    return done.stdout.rstrip()


class Room:
    """A Python environment with NumPy and PyTorch, in which Weft is not installed."""

    def __init__(self) -> None:
        self.folder = Path(make_folder())
        venv.create(self.folder, symlinks=True)
        self.python = self.folder / "bin" / "python"
        places = {Path(module.__file__).parents[1] for module in (np, torch)}
        (site,) = self.folder.glob("lib/python*/site-packages")
        (site / "packages.pth").write_text("\n".join(map(str, places)))

    def install(self, wheel: Path) -> None:
        """Install a wheel with pip, without its requirements, which already exist."""
        print(f"$ pip install {wheel.name}")
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install"]
        quiet = "--quiet --no-deps --no-index --disable-pip-version-check"
        _run([*pip, *quiet.split(), "--root-user-action=ignore", str(wheel)])

    def run(self, command: str, fails: str = "") -> None:
        """Run a command that begins with "python", and print what it prints.

        fails: text that the output must contain; the command then must fail. Raises
        KernelError otherwise.
        """
        words = shlex.split(command)
        # With -I, Python searches neither this folder nor PYTHONPATH for modules.
        words = [str(self.python), "-I", *words[1:]]
        text = _run(words, fails, cwd=self.folder)
        print(f"$ {command}\n{text.splitlines()[-1] if fails else text}")


# ---- the contents of a wheel ---------------------------------------------------------

# From `weft package curve.cu` with nvcc 13.0.88 on 2026-11-30: the bytes of cuda.so (in
# the wheel, then unpacked), and those of each cubin.
ELSEWHERE = (228_222, 778_288, {"75": 4968, "80": 5224, "90a": 5992, "100": 8840})
HIGH, TOP = 200.0, 96.0  # pixels: the areas' height, and their upper edge


@dataclass(frozen=True)
class Part:
    """A file of a wheel, or a group of files. size: bytes inside the wheel."""

    name: str
    size: float
    colour: str = "currentColor"
    here: bool = True


def list_parts(wheel: Path) -> tuple[list[Part], dict[str, int]]:
    """Return the parts of a wheel of `weft package`, and the bytes of each cubin.

    If a wheel lacks machine code for GPUs, ELSEWHERE supplies those parts (here=False).
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {Path(one.filename).name: one for one in archive.infolist()}
        facts = json.loads(archive.read(files["launchers.json"]))
    cubins, here = facts["cubins"], "cuda.so" in files
    if here:
        packed, size = files["cuda.so"].compress_size, files["cuda.so"].file_size
    else:
        packed, size, cubins = ELSEWHERE
    share = sum(cubins.values()) / size
    texts = [one.compress_size for one in files.values() if one.filename[-3:] != ".so"]
    parts = [
        Part("cpu.so", files["cpu.so"].compress_size, READ),
        Part("cuda.so: NVIDIA's runtime", packed * (1 - share), OPPONENT, here),
        Part("cubins", packed * share, SHARED, here),
        Part(f"{len(texts)} files of text", sum(texts)),
    ]
    return parts, cubins


def draw_wheel(wheel: Path) -> Drawing:
    """Draw the parts of a wheel as areas, and its cubins enlarged below."""
    parts, cubins = list_parts(wheel)
    total = sum(part.size for part in parts)
    title = f"{wheel.name}: {wheel.stat().st_size / 1000:,.0f} kB"
    out = label(EDGE, 24, svg.clipped(title, WIDTH - 2 * EDGE, 16), 16, bold=True)
    out += remark(EDGE, 48, "An area is a number of bytes in the wheel.")
    marks = [(svg.square(colour=p.colour, fill=svg.FILL), p.name) for p in parts]
    out += svg.legend(EDGE, 78, marks)[0]
    x = left = EDGE
    for part in parts:
        wide = (WIDTH - 2 * EDGE) * part.size / total
        if part.name == "cubins":
            left = x
        out += _draw_area(x, TOP, wide, HIGH, part.colour, part.here)
        text = f"{part.size / 1000:,.1f} kB"
        if svg.width_of(text, 13) < wide - 12:
            out += label(x + 8, TOP + 22, text, 13)
        x += wide
    out += _draw_zoom(left, cubins, parts[2].here)
    account = f"{title}. "
    account += ", ".join(f"{p.name}: {p.size / 1000:,.1f} kB" for p in parts)
    account += "; unpacked cubins: "
    account += ", ".join(f"{sm}: {size:,} bytes" for sm, size in cubins.items())
    return Drawing(title, WIDTH, TOP + HIGH + 132, out, [], {(): []}, (), account)


def _draw_zoom(left: float, cubins: Mapping[str, int], here: bool) -> str:
    """Draw the cubins below the areas, each as wide as its bytes; left: their area."""
    top, room, total = TOP + HIGH + 34, 520.0, sum(cubins.values())
    x = WIDTH - EDGE - room
    path = f"M{left} {TOP + HIGH}L{x} {top}M{left + 8} {TOP + HIGH}L{x + room} {top}"
    out = svg.rule(path, opacity="0.3")
    for sm, size in cubins.items():
        wide = room * size / total
        out += _draw_area(x, top, wide, 56, SHARED, here)
        out += label(x + 8, top + 23, f"sm_{sm}", 13, mono=True)
        out += remark(x + 8, top + 43, f"{size / 1000:.1f} kB")
        x += wide
    text = "The cubins, unpacked" + (
        "" if here else "; dashed: not packed here, sizes from 2026-11-30"
    )
    return out + remark(WIDTH - EDGE, top + 78, text, anchor="end")


def _draw_area(
    x: float, y: float, wide: float, high: float, colour: str, here: bool
) -> str:
    if here:
        return box(x, y, wide, high, colour=colour, fill=svg.FILL, radius=0)
    path = f"M{x:.1f} {y:.1f}h{wide:.1f}v{high:.1f}h{-wide:.1f}z"
    return f'<path d="{path}" fill="none" stroke="{colour}" {REFERENCE}/>'


def show_needs(wheel: Path) -> None:
    """Print the number of external names in each library of a wheel, by owner."""
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        for one in archive.namelist():
            if one.endswith(".so"):
                path = archive.extract(one, name)
                names = _run(["nm", "-D", "--undefined-only", path]).split()
                print(f"{Path(one).name}: {_describe_needs(names)}")


def _describe_needs(words: Sequence[str]) -> str:
    """Describe the undefined names in the output of nm."""
    names = [word for word in words if word not in ("U", "w")]
    libc = [name.partition("@GLIBC_")[2] for name in names if "@GLIBC_" in name]
    newest = max(libc, key=lambda text: [*map(int, text.split("."))], default="none")
    theirs = {
        kind: sum(bool(re.match(start, name)) for name in names)
        for kind, start in (
            ("Python", r"_?Py[A-Z_]"),
            ("PyTorch", r"_ZNK?\d*(c10|at|torch|3c10|2at|5torch)|aoti_torch"),
        )
    }
    return (
        f"{len(libc)} names from the C library, the newest of version {newest}; "
        + ", ".join(f"{count} from {kind}" for kind, count in theirs.items())
    )


def show_file(wheel: Path, end: str) -> None:
    """Print the first file of a wheel whose name ends in `end`."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(end))
        print(archive.read(name).decode().rstrip())


# ---- cards and their cubins ----------------------------------------------------------

# NVIDIA's list of compute capabilities: https://developer.nvidia.com/cuda/gpus
CARDS = {
    **{"V100": (7, 0), "T4": (7, 5), "A100": (8, 0), "RTX 3090": (8, 6)},
    **{"RTX 4090": (8, 9), "H200": (9, 0), "B200": (10, 0), "RTX 5090": (12, 0)},
}


def explain_cubin(card: tuple[int, int], cubin: str) -> tuple[bool, str]:
    """Return whether a card runs a cubin, and why.

    card: its compute capability. cubin: its target, such as "80" or "90a". A cubin runs
    on cards with the same major number and at least its minor number; with the letter
    "a", only on cards with exactly its numbers. Source: CUDA C++ Programming Guide,
    sections "Binary Compatibility" and "Architecture-Specific Features".
    """
    major, minor = divmod(int(cubin.rstrip("a")), 10)
    if cubin.endswith("a") and (major, minor) != card:
        return False, f"only on {major}.{minor}"
    if major != card[0]:
        return False, f"{major} is not {card[0]}"
    if minor > card[1]:
        return False, f".{minor} is above .{card[1]}"
    return True, "runs"


def play_cards(
    cubins: Sequence[str], cards: Mapping[str, tuple[int, int]] = CARDS
) -> Drawing:
    """Draw which cubins a card runs; a slider selects the card.

    cubins: their targets. cards: compute capabilities by name.
    """
    title = "Which cubin runs on this card?"
    frames, lines = {}, []
    for at, (name, card) in enumerate(cards.items()):
        frames[at,] = _draw_choice(name, card, cubins)
        runs = [cubin for cubin in cubins if explain_cubin(card, cubin)[0]]
        lines.append(f"{name} ({card[0]}.{card[1]}): {', '.join(runs) or 'none'}")
    stops = tuple(f"{name}, {a}.{b}" for name, (a, b) in cards.items())
    base = label(EDGE, 24, title, 16, bold=True)
    account = f"{title} {'; '.join(lines)}"
    start = (min(1, len(cards) - 1),)
    sliders = [Slider("card", stops)]
    return Drawing(title, WIDTH, 190, base, sliders, frames, start, account)


def draw_choice(
    card: tuple[int, int], cubins: Sequence[str], chosen: str | None
) -> Drawing:
    """Draw a cubin chosen for a card; the choice may be wrong."""
    title = f"A card of {card[0]}.{card[1]}, and the chosen cubin: {chosen}"
    base = label(EDGE, 24, title, 16, bold=True)
    frame = _draw_choice("the card", card, cubins, chosen)
    return Drawing(title, WIDTH, 190, base, [], {(): frame}, (), title)


def check_choice(card: tuple[int, int], cubins: Sequence[str], chosen: Any) -> None:
    """Check the reader's choice; if it is wrong, draw it and raise AssertionError."""
    fitting = [name for name in cubins if explain_cubin(card, name)[0]]
    best = max((int(name.rstrip("a")) for name in fitting), default=None)
    right = [name for name in fitting if int(name.rstrip("a")) == best] or [None]
    if chosen in right:
        return
    draw_choice(card, cubins, chosen).show()
    raise AssertionError(
        f"card {card[0]}.{card[1]}, cubins {', '.join(cubins) or '(none)'}: the answer "
        f"is {chosen!r}, not {right[0]!r}"
    )


def _draw_choice(
    name: str, card: tuple[int, int], cubins: Sequence[str], chosen: str | None = ""
) -> list[str]:
    """Draw a card and the cubins; chosen: the cubin to mark, None or "" for none."""
    head = f"{name}: compute capability {card[0]}.{card[1]}"
    out = [label(EDGE, 54, head, 14)]
    room = min(150.0, (WIDTH - 2 * EDGE) / max(1, len(cubins)))
    fitting = 0
    for turn, cubin in enumerate(cubins):
        runs, reason = explain_cubin(card, cubin)
        fitting += runs
        x, colour = EDGE + turn * room, SHARED if runs else "currentColor"
        if runs:
            frame = box(x, 72, room - 14, 56, colour=SHARED, fill=svg.FILL, stroke=2)
        else:
            path = f"M{x} 72h{room - 14}v56h{14 - room}z"
            frame = f'<path d="{path}" fill="none" {kit.PALE} {REFERENCE}/>'
        out.append(frame)
        out.append(label(x + 10, 95, f"sm_{cubin}", 14, mono=True))
        out.append(label(x + 10, 116, reason, 12, colour=colour if runs else ""))
        if chosen and chosen == cubin:
            mark = box(x - 4, 68, room - 6, 64, colour=FAULT, stroke=2)
            out.append(mark + label(x, 150, "chosen", 12, colour=FAULT))
    names = ", ".join(f"sm_{cubin}" for cubin in cubins)
    text = f"{count_things(fitting, 'cubin')} of {len(cubins)} can run here"
    if not fitting:
        text = f"error: this card is {card[0]}.{card[1]}; the wheel has {names}"
    out.append(label(EDGE, 176, text, 13, colour="" if fitting else FAULT))
    return out


# ---- how many wheels -----------------------------------------------------------------

PYTHONS, TOOLKITS = 4, 2  # versions that a project is assumed to support at a time
RELEASES = 10  # largest number of PyTorch versions on the slider


def play_counts() -> Drawing:
    """Draw how many wheels each kind of library needs; a slider sets the versions.

    A library in C++ that includes all of PyTorch is built for each version of PyTorch,
    of Python and of CUDA. With the stable ABI, one wheel for each version of
    CUDA is enough. A library in C without PyTorch's symbols needs a single wheel.
    """
    title = "How many wheels?"
    base = label(EDGE, 24, title, 16, bold=True)
    text = f"for {PYTHONS} versions of Python, {TOOLKITS} of CUDA and one kind of "
    base += remark(EDGE, 46, f"{text}processor; left is better")
    frames, lines = {}, []
    most = PYTHONS * TOOLKITS * RELEASES
    for releases in range(1, RELEASES + 1):
        counts = {
            "C++ with PyTorch's headers": PYTHONS * TOOLKITS * releases,
            "C++ with the stable ABI": TOOLKITS,
            "C, loaded by Python": 1,
        }
        frames[releases - 1,] = [
            _draw_count(turn, name, count, most, own=turn == 2)
            for turn, (name, count) in enumerate(counts.items())
        ]
        lines.append(f"{releases}: {', '.join(map(str, counts.values()))}")
    stops = tuple(
        count_things(n, "version") + " of PyTorch" for n in range(1, RELEASES + 1)
    )
    account = f"{title} By versions of PyTorch: {'; '.join(lines)}"
    sliders = [Slider("PyTorch", stops)]
    return Drawing(title, WIDTH, 172, base, sliders, frames, (3,), account)


def _draw_count(turn: int, name: str, count: int, most: int, own: bool) -> str:
    top, left = 64 + 34.0 * turn, 220.0
    wide = (WIDTH - left - EDGE - 60) * count / most
    colour = READ if own else OPPONENT
    bar = box(left, top, wide, 24, colour=colour, fill=svg.FILL, radius=0)
    return label(EDGE, top + 17, name, 13) + bar + label(left + wide + 8, top + 17,
                                                         str(count), 13)  # fmt: skip


# ---- Triton and stubs ----------------------------------------------------------------


@contextlib.contextmanager
def show_lanes(again: bool = False) -> Iterator[None]:
    """Draw the lanes of an OutOfArray that the block raises, and print its message.

    again: whether to raise the error again. If it is false, a block that raises no
    OutOfArray causes an AssertionError.
    """
    try:
        yield
    except OutOfArray as error:
        draw_program(error).show()
        if again:
            raise
        print(error)
    else:
        assert again, "no program has used an element outside its array"


def double_one(way: str) -> float:
    """Return the result of double.py, in the current folder, for 1 in bfloat16."""
    device = "cuda" if way == "gpu" else "cpu"
    x = torch.ones(1, dtype=torch.bfloat16, device=device)
    y = torch.full_like(x, torch.nan)
    load_file(Path("double.py").resolve(), way).double[(1,)](y, x)
    return y.item()


def count_lines(*names: str) -> list[tuple[str, int]]:
    """Return the name of each file of softmax, with its number of lines of code."""
    folder = KERNELS / "softmax"
    return [(name, bridges.count_code(folder / name)) for name in names]


def check_stub(schema: str, text: str) -> None:
    """Raise AssertionError unless a stub declares the same as a schema of PyTorch.

    The stub may have any layout that Python's parser accepts.
    """
    assert isinstance(text, str), f"{schema}: the answer is {text!r}, not a text"
    try:
        (stub,) = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise AssertionError(f"{schema}: {text}: {error}") from None
    parsed = torch._C.parse_schema(schema)
    assert isinstance(stub, ast.FunctionDef), f"{schema}: {text} is no function"
    name = parsed.name.partition("::")[2]
    assert stub.name == name, f"{schema}: the name is {stub.name}, not {name}"
    absent = "no default"  # None is the default of some ops
    ends = [absent] * (len(stub.args.args) - len(stub.args.defaults))
    got = [
        (arg.arg, arg.annotation and ast.unparse(arg.annotation), value)
        for arg, value in zip(
            stub.args.args, [*ends, *map(ast.literal_eval, stub.args.defaults)]
        )
    ]
    want = [
        (a.name, str(a.type), a.default_value if a.has_default_value() else absent)
        for a in parsed.arguments
    ]
    assert got == want, f"{schema}: the parameters are {got}, not {want}"
    result = stub.returns and ast.unparse(stub.returns)
    kind = str(parsed.returns[0].type)
    assert result == kind, f"{schema}: the result is {result}, not {kind}"
