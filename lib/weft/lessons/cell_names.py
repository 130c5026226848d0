"""The names that a cell of a notebook assigns, and those that it uses."""

from __future__ import annotations

import functools
import symtable

from IPython.core.inputtransformer2 import TransformerManager

from ..csource import signature


def names(cell) -> tuple[frozenset[str], frozenset[str]]:
    """Return the global names that a cell assigns, and those that it uses."""
    return _names_of(cell.source)


@functools.cache  # the tests often analyse the same cell
def _names_of(source: str) -> tuple[frozenset[str], frozenset[str]]:
    if source.startswith("%%cuda"):
        return frozenset(kernel.name for kernel in signature.parse(source)), frozenset()
    assigned: set[str] = set()
    used: set[str] = set()
    todo = [symtable.symtable(_plain_of(source), "cell", "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if (top or symbol.is_global()) and symbol.is_referenced():
                used.add(symbol.get_name())
            written = symbol.is_assigned() or symbol.is_imported()
            if (top or symbol.is_declared_global()) and written:
                assigned.add(symbol.get_name())
    return frozenset(assigned), frozenset(used)


def plain(cell) -> str:
    """Return the cell as Python: its % and ! lines become calls of IPython."""
    return _plain_of(cell.source)


@functools.cache
def _plain_of(source: str) -> str:
    return TransformerManager().transform_cell(source)
