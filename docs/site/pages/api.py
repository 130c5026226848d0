"""The reference of the public names: utils, weft, weft.cuda and weft.h.

The texts are the docstrings, and the comments of the header, almost unchanged. Sphinx's
autodoc expects a markup that the lab's docstrings do not use.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import utils
import weft
from weft import cuda
from weft.base.paths import GITHUB, KERNELS

WIDE = 80  # characters of a signature on one line
SPECIAL = re.compile(r"([\\*_\[\]<>#|$~])")
# Matches the start of the text about parameters.
ITEM = re.compile(r"^\*{0,2}\w+(, \w+)*: (?=\S)")
GROUPS = {  # weft's public names in groups
    "Runners": ("sim", "numba_jit", "cuda_c", "to_cuda", "load_cuda"),
    "Checks and reports": ("check", "check_op", "inspect", "last_report", "predict"),
    "Pictures": ("show", "latency", "timeline", "torch_kernels", "nvtx_range"),
    "Layers for PyTorch": ("nn", "register_op"),
    "Gradients without PyTorch": ("Tape",),
    "Machine code": ("ptx", "sass", "occupancy", "profile"),
    "Measurements": ("bench", "autotune"),
    "Libraries": ("rungs", "reload", "set_threads"),
}
HEAD = """\
# API

This reference lists the names that readers call. Lessons begin with
`from utils import *`, which provides most of them. The
[cheat sheet](../cheat_sheet.md) has the usual calls on one page.

- [utils](utils.md): the names of a lesson's first cell
- [weft](weft.md): runners, checks, pictures, measurements, and the ops for PyTorch
- [weft.cuda](cuda.md): the language of kernels in Python
- [weft.h](weft_h.md): every kernel of the lab, as plain C

```{toctree}
:hidden:

utils
weft
cuda
weft_h
```
"""


def write(folder: Path) -> None:
    """Write the pages of api/."""
    api = folder / "api"
    api.mkdir(exist_ok=True)
    pages = {
        "index": HEAD,
        "utils": write_utils(),
        "weft": write_weft(),
        "cuda": write_cuda(),
        "weft_h": write_header((KERNELS / "weft.h").read_text()),
    }
    for name, text in pages.items():
        (api / f"{name}.md").write_text(text.rstrip() + "\n")


def write_utils() -> str:
    """Return the page of utils.py: its own functions, and links to the others."""
    own = [n for n in utils.__all__ if is_from(getattr(utils, n), "utils")]
    shared = [n for n in utils.__all__ if n in weft.__all__ and n != "cuda"]
    others = sorted({*utils.__all__} - {*own, *shared, "cuda"})
    links = ", ".join(f"[`{name}`](weft.md#weft-{place(name)})" for name in shared)
    names = ", ".join(f"`{name}`" for name in others)
    return "\n\n".join(
        [
            "# utils",
            write_text(inspect.getdoc(utils)),
            f"From [weft](weft.md): {links}, and [`cuda`](cuda.md).",
            f"From NumPy, PyTorch and Python, and the paths of the lab: {names}.",
            *(write_name(f"utils.{name}", getattr(utils, name)) for name in own),
        ]
    )


def is_from(value: Any, module: str) -> bool:
    """Return whether a function belongs to a module."""
    return inspect.isfunction(value) and value.__module__ == module


def write_weft() -> str:
    """Return the page of weft's public names, by group."""
    names = {name: getattr(weft, name) for name in weft.__all__}
    ops = list_ops(names)
    errors = [n for n, value in names.items() if is_error(value)]
    groups = {**GROUPS, "Ops": ops, "Errors": errors}
    listed = {name for members in groups.values() for name in members}
    groups["Others"] = sorted(names.keys() - listed - {"cuda"})
    parts = ["# weft", "`import weft` provides these names."]
    for title, members in groups.items():
        if members:
            parts.append(f"## {title}")
            for name in members:
                parts.append(write_name(f"weft.{name}", names[name], 3))
                parts += write_methods(f"weft.{name}", names[name])
    return "\n\n".join(parts)


def is_error(value: Any) -> bool:
    """Return whether a public name is an error."""
    return inspect.isclass(value) and issubclass(value, BaseException)


def write_methods(name: str, value: Any) -> list[str]:
    """Return the methods of a public class that is no error; [] for anything else."""
    if not inspect.isclass(value) or is_error(value):
        return []
    methods = ((n, m) for n, m in vars(value).items() if inspect.isroutine(m))
    return [
        write_name(f"{name}.{method}", member, 4)
        for method, member in methods
        if not method.startswith("_")
    ]


def list_ops(names: dict[str, Any]) -> list[str]:
    """Return the names of the ops: each has a file of cases."""
    cases = Path(weft.__file__).with_name("ops") / "cases"
    return [name for name in names if (cases / f"{name}.py").exists()]


def write_cuda() -> str:
    """Return the page of the names that work inside a kernel."""
    parts = ["# weft.cuda", write_text(inspect.getdoc(cuda))]
    for name, value in list_public(cuda):
        if inspect.isclass(value):  # a namespace, such as cuda.atomic
            parts.append(f"## cuda.{name}")
            parts.append(write_text(inspect.getdoc(value)))
            parts += [
                write_name(f"cuda.{name}.{inner}", member, 3)
                for inner, member in list_public(value)
            ]
        else:
            parts.append(write_name(f"cuda.{name}", value))
    return "\n\n".join(parts)


def list_public(owner: ModuleType | type) -> Iterator[tuple[str, Any]]:
    """Yield the documented names of a module or class, in the order of its source."""
    hidden = {"outside", "Vector", "Number"}
    for name, value in vars(owner).items():
        value = getattr(owner, name)
        foreign = getattr(value, "__module__", cuda.__name__) != cuda.__name__
        private = name.startswith("_") or name in hidden or inspect.ismodule(value)
        if not (private or foreign):
            yield name, value


# ---- a name --------------------------------------------------------------------------


def write_name(name: str, value: Any, level: int = 2) -> str:
    """Return a heading with an anchor, the signature, and the docstring."""
    parts = [f"({place(name)})=", f"{'#' * level} {escape(name)}"]
    signature = write_signature(name, value)
    if signature:
        parts.append(f"```python\n{signature}\n```")
    text = inspect.getdoc(value) or ""
    if isinstance(value, int):
        text = f"The number {value}."
    parts.append(write_text(text))
    return "\n\n".join(parts).replace(")=\n\n", ")=\n", 1)


def place(name: str) -> str:
    """Return the anchor of a name."""
    return re.sub(r"\W|_", "-", name).lower()


def write_signature(name: str, value: Any) -> str:
    """Return a call with all parameters; on separate lines if it is long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    if isinstance(value, ModuleType) or inspect.isclass(value):
        return ""
    parameters, before = [], None
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind == one.KEYWORD_ONLY and before not in (
            one.kind,
            one.VAR_POSITIONAL,
        ):
            parameters.append("*")
        parameters.append(write_parameter(one))
        before = one.kind
    line = f"{name}({', '.join(parameters)})"
    if len(line) <= WIDE:
        return line
    inside = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name}(\n{inside})"


def write_parameter(one: inspect.Parameter) -> str:
    """Return a parameter with its type and its default."""
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    typed = "" if one.annotation is one.empty else f": {one.annotation}"
    equals = " = " if typed else "="
    default = "" if one.default is one.empty else f"{equals}{one.default!r}"
    return f"{stars}{one.name}{typed}{default}"


def write_text(text: str | None) -> str:
    """Return a docstring as Markdown: paragraphs, lists of parameters, code."""
    blocks = re.split(r"\n\s*\n", (text or "").strip("\n"))
    return "\n\n".join(map(write_block, filter(None, blocks)))


def write_block(block: str) -> str:
    """Return a paragraph: as code if it is indented, as a list if it has items."""
    lines = block.splitlines()
    if all(line.startswith("    ") for line in lines):
        return f"```text\n{textwrap.dedent(block)}\n```"
    items: list[list[str]] = [[]]
    before = "."
    for line in lines:
        if ITEM.match(line) and before.endswith((".", ":")):
            items.append([])
        items[-1].append(line.strip())
        before = line
    head, *rest = (" ".join(item) for item in items)
    parts = [escape(head)] * bool(head)
    if rest:
        parts.append("\n".join(map(write_item, rest)))
    return "\n\n".join(parts)


def write_item(text: str) -> str:
    """Return a line of a list, with the parameters' names as code."""
    names, colon, words = text.partition(": ")
    return f"- `{names}`{colon}{escape(words)}"


def escape(text: str) -> str:
    """Return plain text as Markdown; code between backticks stays the same."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p[:1] == "`" else SPECIAL.sub(r"\\\1", p) for p in parts)


# ---- weft.h --------------------------------------------------------------------------


def write_header(text: str) -> str:
    """Return the page of a C header: its comments as text, its declarations as code."""
    begin, end = text.index("/* weft.h"), text.rindex("#ifdef __cplusplus")
    first, _, rest = text[begin:end].partition("*/")
    source = f"[kernels/weft.h]({GITHUB}/blob/main/kernels/weft.h)"
    parts = [
        "# weft.h",
        f"From {source}.",
        write_text(strip_comment(first).partition("\n\n")[2]),
    ]
    body = rest[rest.index("enum weft_status") :]
    for piece in re.split(r"\n\n+", re.sub(r"#pragma.*|/\* cdef:.*?\*/", "", body)):
        parts.append(write_declaration(piece.strip()))
    return "\n\n".join(filter(None, parts))


def write_declaration(piece: str) -> str:
    """Return a declaration with the comment above it, or a heading."""
    if title := re.fullmatch(r"/\* -+ (.+?) -+ \*/", piece):
        return f"## {title[1][0].upper()}{title[1][1:]}"
    comment = re.match(r"/\*(?P<text>.*?)\*/\n?", piece, re.S)
    code = piece[comment.end() :] if comment else piece
    parts = [write_text(strip_comment(comment["text"]))] if comment else []
    return "\n\n".join([*parts, *([f"```c\n{code}\n```"] if code.strip() else [])])


def strip_comment(text: str) -> str:
    """Return the text of a C comment without its marks."""
    text = text.removeprefix("/*")
    return "\n".join(
        re.sub(r"^\s*\* ?", "", line) for line in text.splitlines()
    ).strip()
