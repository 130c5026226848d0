"""The folders reflect the architecture: imports lead only to lower floors.

weft/__init__.py and __main__.py are above all floors: they name modules as text.
"""

from __future__ import annotations

import re

import architecture
import pytest
from import_graph import FLOORS, LAZY_IMPORTS, TOP, floor_of, imports, modules


def test_every_folder_is_a_floor():
    assert {floor_of(name) for name in modules()} - {*TOP} == {*FLOORS}


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_run_down(floor):
    """Check that no folder imports a higher one, at the top of a module or in a
    function."""
    below = FLOORS[: FLOORS.index(floor) + 1]
    up = [
        f"{link.where} imports {link.target}"
        for link in imports()
        if floor_of(link.source) == floor and floor_of(link.target) not in below
        # `from .. import show` would import the public names of the whole package.
    ]
    assert not up


def test_imports_in_functions_are_few_and_say_why():
    lazy = [link for link in imports() if link.lazy and link.source != link.target]
    silent = [f"{link.where} imports {link.target}" for link in lazy if not link.reason]
    assert not silent
    assert len(lazy) <= LAZY_IMPORTS


def test_the_diagram_is_made_from_the_imports():
    """Check that the committed diagram has a dot for each import, and no other."""
    arrows = re.findall(r"<title>(\w+) imports (\w+)", architecture.DIAGRAM.read_text())
    assert {*arrows} == {*architecture.count_imports()}, architecture.COMMAND
