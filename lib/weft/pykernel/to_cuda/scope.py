"""Where the locals of a function are declared in C, which knows blocks.

A local is declared where it is first assigned, if everything that is said of it lies
in that block and behind it; else before the statement in whose parts it occurs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

Block = list  # of statements


@dataclass
class Use:
    """A place where a name occurs: the blocks around it, outermost first.

    path: (block, index of the statement in it) from the body down.
    """

    node: ast.Name
    path: tuple[tuple[int, int], ...]
    store: bool


@dataclass
class Home:
    """Where a local is declared: with the statement `at` if inline, else before it.

    constant: nothing is assigned to it again. blank: it must be given a value.
    """

    at: ast.stmt
    inline: bool
    constant: bool
    blank: bool


class Scope:
    """The locals of a function: names, how often they are used, their homes."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.blocks: dict[int, Block] = {}
        self.loops: set[int] = set()  # blocks that are loops' bodies
        self.uses: dict[str, list[Use]] = {}
        self.loop_names: dict[str, list[ast.For]] = {}
        self._block(tree.body, ())

    def _block(self, body: Block, path) -> None:
        self.blocks[id(body)] = body
        for number, one in enumerate(body):
            here = (*path, (id(body), number))
            for field, value in ast.iter_fields(one):
                if field in ("body", "orelse") and isinstance(value, list):
                    if isinstance(one, (ast.For, ast.While)):
                        self.loops.add(id(value))
                    self._block(value, here)
                elif field == "target" and isinstance(one, ast.For):
                    if isinstance(value, ast.Name):
                        self.loop_names.setdefault(value.id, []).append(one)
                else:
                    self._names(one, value, here)

    def _names(self, statement: ast.stmt, value, path) -> None:
        nodes = value if isinstance(value, list) else [value]
        for node in nodes:
            if not isinstance(node, ast.AST):
                continue
            for found in ast.walk(node):
                if isinstance(found, ast.Name):
                    store = isinstance(found.ctx, ast.Store)
                    use = Use(found, path, store)
                    self.uses.setdefault(found.id, []).append(use)
                    if store and isinstance(statement, ast.AugAssign):
                        self.uses[found.id].append(Use(found, path, False))

    def assigned(self) -> set[str]:
        """The names that something is assigned to, loops' own apart."""
        return {n for n, uses in self.uses.items() if any(u.store for u in uses)}

    def read(self, name: str) -> bool:
        """Whether anything reads the name (its own += apart)."""
        for use in self.uses.get(name, ()):
            block, number = use.path[-1]
            one = self.blocks[block][number]
            own = isinstance(one, ast.AugAssign) and use.node is one.target
            if not use.store and not own:
                return True
        return False

    def home(self, name: str) -> Home:
        """Where the local `name` is declared."""
        uses = self.uses[name]
        common = uses[0].path
        for use in uses[1:]:
            n = 0
            while n < min(len(common), len(use.path)) and (
                common[n][0] == use.path[n][0]
            ):
                n += 1
                if common[n - 1] != use.path[n - 1]:
                    break
            first = min(common[n - 1], use.path[n - 1], key=lambda at: at[1])
            common = (*common[: n - 1], first)
        stores = sum(u.store for u in uses)
        depth = len(common) - 1
        block, number = common[depth]
        one = self.blocks[block][number]
        if self._assigns(one, name):
            return Home(one, True, stores == 1, False)
        if self._surely(one, name):
            return Home(one, False, False, False)
        # Its value may come from the turn before: it lives outside of the loops.
        for i in range(depth + 1):
            if common[i][0] in self.loops:
                depth = max(i - 1, 0)
                break
        block, number = common[depth]
        return Home(self.blocks[block][number], False, False, True)

    def _assigns(self, one: ast.stmt, name: str) -> bool:
        return (
            isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and one.targets[0].id == name
            and not any(
                isinstance(n, ast.Name) and n.id == name for n in ast.walk(one.value)
            )
        )

    def _surely(self, one: ast.stmt, name: str) -> bool:
        """Whether `one` is an if/else that gives it a value before it is read."""
        if (
            not isinstance(one, ast.If)
            or not one.orelse
            or _is_mentioned(one.test, name)
        ):
            return False
        return all(self._gives(block, name) for block in (one.body, one.orelse))

    def _gives(self, block: Block, name: str) -> bool:
        for one in block:
            if self._assigns(one, name) or self._surely(one, name):
                return True
            if isinstance(one, (ast.Return, ast.Continue, ast.Break)):
                return True
            if _is_mentioned(one, name):
                return False
        return False


def _is_mentioned(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))
