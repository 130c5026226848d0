"""Only references have dashed lines, in every picture; base/style.py explains why."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from tiers import loop_over

from weft.base import style
from weft.base.paths import ROOT

STYLE = ROOT / "lib" / "weft" / "base" / "style.py"
CODE = re.compile(r"[\w^]{0,2}(--|-\.)")  # a marker with its line, or a line alone
DASHES = re.compile(r"[\w^]{0,2}:|dashed|dotted|dashdot")
LOOKS = {"ls", "linestyle", "linestyles", "dashes"}
LESSONS = [*(ROOT / "notebooks").glob("*.ipynb")]
LESSONS += (ROOT / "notebooks" / "solutions").glob("*.ipynb")


def dashes(source: str) -> Iterator[str]:
    """Yield where a program draws a dashed line without the style."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value)):
            yield f"line {node.lineno}: {node.value!r}"
        if isinstance(node, ast.Call):
            looks = [(k.arg, k.value) for k in node.keywords]
            if getattr(node.func, "attr", "") in ("plot", "axhline", "axvline"):
                looks += [("ls", value) for value in node.args]
        elif isinstance(node, ast.Dict):
            keys = (getattr(key, "value", None) for key in node.keys)
            looks = [*zip(keys, node.values)]
        elif isinstance(node, ast.Assign | ast.For):
            value = node.value if isinstance(node, ast.Assign) else node.iter
            looks = [("ls", value)]
        else:
            continue
        for name, value in looks:
            if name not in LOOKS:
                continue
            for part in _literals(value):
                if DASHES.fullmatch(part):
                    yield f"line {node.lineno}: {part!r}"


def _literals(value: ast.AST) -> Iterator[str]:
    """Yield the strings in an expression, except those in its calls."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp | ast.Tuple | ast.List | ast.Dict | ast.BinOp):
        for child in ast.iter_child_nodes(value):
            yield from _literals(child)


def draws(source: str) -> bool:
    """Return whether a module draws with matplotlib."""
    return bool(re.search(r"\b(ax|axes|Axes)\b", source))


@pytest.mark.parametrize(
    "source",
    [
        'ax.axvline(1, ls="--")',
        'ax.plot(x, y, "o--")',
        'runs = [(rows, "o--") for rows in ghosts]',
        'look = {"color": INK, "ls": ":"}',
        'dash = "--" if elsewhere else "-"',
        'for name, line in ("median", "-"), ("mean", "--"): pass',
        'KINDS = {"eager": ":", "graph": "--"}',
    ],
)
def test_the_scan_finds_dashes(source):
    assert [*dashes(source)]


@pytest.mark.parametrize(
    "source",
    ['ax.plot(x, y, "o-")', 'name, _, n = text.partition(":")', "look = reference()"],
)
def test_the_scan_leaves_the_rest(source):
    assert not [*dashes(source)]


def test_only_the_style_draws_dashes():
    places = []
    for path in (ROOT / "lib" / "weft").rglob("*"):
        if path == STYLE or path.suffix not in (".py", ".js"):
            continue
        text = path.read_text()
        if re.search("dasharray|setLineDash", text):
            places.append(f"{path.relative_to(ROOT)}: dasharray")
        if path.suffix == ".py" and draws(text):
            places += [f"{path.relative_to(ROOT)}, {dash}" for dash in dashes(text)]
    assert not places


@loop_over("path", LESSONS)
def test_lessons_draw_dashes_by_the_style(path: Path):
    places = []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith("%%"):
            continue
        plain = re.sub(r"^(\s*)[!%](.*\\\n)*.*$", r"\1pass", source, flags=re.M)
        places += [f"cell {number}, {dash}" for dash in dashes(plain)]
    assert not places


def test_a_reference_is_dashed_and_what_was_measured_elsewhere_is_not():
    ax = Figure().subplots()
    (line,) = ax.plot([0, 1], **style.reference_line(style.OPPONENT))
    (bar,) = ax.bar([0], [1], **style.hollow(style.OURS))
    (full,) = ax.bar([1], [1], **style.outlined(style.OURS))
    assert line.get_linestyle() == "--"
    assert bar.get_linestyle() == full.get_linestyle() == "solid"
    assert bar.get_facecolor()[3] == 0 < full.get_facecolor()[3]
