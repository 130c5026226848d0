"""Where in its source a kernel touches which array."""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SITES = 1 << 12  # at most so many in a launch: an entry of the log is
# element * SITES + site, an unsigned number of 64 bits
SHIFT = SITES.bit_length() - 1  # an entry >> SHIFT is its element


@dataclass(eq=False)
class Entity:
    """An array that the rewriter knows by a name of the kernel.

    number: its raw array is .r<number>, its View .v<number>, its sides .d<number>_<i>.
    origin: "parameter", "shared", "local" or "constant". shape: of shared and local.
    """

    number: int
    name: str
    origin: str
    ndim: int
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    value: Any = None  # of a constant

    @property
    def inline(self) -> bool:
        """Whether its elements are numbers, found by one index per side."""
        return self.ndim > 0 and self.dtype.fields is None

    @property
    def dynamic(self) -> bool:
        """Whether it is as long as the launch says."""
        return self.origin == "shared" and self.shape == (0,)


@dataclass(eq=False)
class Place:
    """A piece of source that touches an array (entity; None: known when it runs).

    index: for each component the name of the local that holds it, or its value.
    """

    kind: str
    text: str
    file: str
    line: int
    column: int
    entity: Entity | None = None
    index: list[str | int] = field(default_factory=list)
    last: int = 0
    statement: int = 0  # the line in which it begins
    number: int = -1  # of its Site, if its array is known now


Position = tuple[int, int, int, int]  # line, its last, column, its last


def position_of(node: ast.AST) -> Position:
    """Where a node stands, as a code object says it."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@dataclass(eq=False)
class Variant:
    """A function of the kernel, for given kinds and arrays as its parameters."""

    function: types.FunctionType
    number: int
    tree: ast.FunctionDef
    file: str
    bindings: tuple[Any, ...]  # per parameter an Entity or a kind
    static: dict[str, Entity]  # arrays by the names they always have here
    kinds: Any = None
    yields: bool = False
    uses: list[str] = field(default_factory=list)  # engine's names, and free ones
    maker: types.CodeType | None = None  # makes the function of what it uses
    code: types.CodeType | None = None  # its own
    places: dict[Position, Place] = field(default_factory=dict)
