"""Packages that import their public names on first use."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class Lazy(ModuleType):
    """A package that imports a public name's module on the name's first use.

    A public name may also be the name of a module (weft.check). The package
    attribute is then always the public name, no matter when the module is imported.
    """

    _home: dict[str, str]  # public name -> its module

    def __getattr__(self, name: str) -> Any:
        if name not in self._home:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = importlib.import_module(f".{self._home[name]}", self.__name__)
        value = vars(home).get(name, home)  # the name weft.cuda is itself a module
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets an imported module as an attribute of its package.
        if name in self._home and isinstance(value, ModuleType):
            if self._home[name] != name:
                return  # the name belongs to another module
            value = vars(value).get(name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self._home})


def make_lazy(package: str, homes: Mapping[str, Sequence[str]]) -> list[str]:
    """Turn `package` into a Lazy package; return its sorted public names for __all__.

    homes: maps each module to the names that the package exports from it.
    """
    module = sys.modules[package]
    names = {name: home for home, names in homes.items() for name in names}
    vars(module)["_home"] = names
    module.__class__ = Lazy
    return sorted(names)


def find_functions(package: Path, ending: str) -> dict[str, str]:
    """Find public functions, NAME + ending, in a folder's modules; import nothing.

    Return the module of each function by NAME, in alphabetical order.
    """
    pattern = re.compile(rf"^def ([a-z]\w*){ending}\(", re.M)
    modules = {
        name: path.stem
        for path in package.glob("[!_]*.py")
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    }
    return dict(sorted(modules.items()))


def callable_as(module: str, name: str, home: str) -> None:
    """Make a module callable: module(...) calls `name` from its submodule `home`.

    For example, weft.bench contains the tools for results, and weft.bench(f, x) times
    f(x). The first call imports `home`.
    """

    class CallableModule(ModuleType):
        def __call__(self, *args: Any, **options: Any) -> Any:
            submodule = importlib.import_module(f".{home}", module)
            return getattr(submodule, name)(*args, **options)

    sys.modules[module].__class__ = CallableModule
