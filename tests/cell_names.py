"""The names that a cell of a notebook assigns, and those that it uses."""

from __future__ import annotations

import symtable

from IPython.core.inputtransformer2 import TransformerManager

from weft.csource import signature


def names(cell) -> tuple[set[str], set[str]]:
    """The global names that a cell assigns, and those that it uses."""
    if cell.source.startswith("%%cuda"):
        return {kernel.name for kernel in signature.parse(cell.source)}, set()
    assigned: set[str] = set()
    used: set[str] = set()
    todo = [symtable.symtable(plain(cell), "cell", "exec")]
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
    return assigned, used


def plain(cell) -> str:
    """The cell as Python: its % and ! lines become calls of IPython."""
    return TransformerManager().transform_cell(cell.source)
