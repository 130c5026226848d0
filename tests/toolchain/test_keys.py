"""A change of any file that decides a cached result changes the cache's key."""

from pathlib import Path

import pytest

from weft.base.paths import PACKAGE, ROOT
from weft.cells.cpu import compiler
from weft.programs import program
from weft.toolchain import build, keys

KEYS = {
    name: getattr(keys, name)
    for name in ("REWRITER", "RUNTIME", "BUILDER", "CELL", "CHECKER", "PROGRAM")
}
SOURCES = {places: keys.list_sources(*places) for places in KEYS.values()}
FILES = [(name, path) for name, places in KEYS.items() for path in SOURCES[places]]
BYTES = {path: path.read_bytes() for _, path in FILES}


@pytest.fixture
def edit(monkeypatch):
    """Let one file be read with a line more; keys are computed anew."""

    def read_edited(edited: Path) -> None:
        monkeypatch.setattr(keys, "list_sources", lambda *places: SOURCES[places])
        monkeypatch.setattr(
            Path, "read_bytes", lambda path: BYTES[path] + b"\n" * (path == edited)
        )
        keys.hash_sources.cache_clear()

    yield read_edited
    monkeypatch.undo()
    keys.hash_sources.cache_clear()


def test_each_file_of_a_key_changes_it(edit):
    before = {name: keys.hash_sources(*places) for name, places in KEYS.items()}
    for name, path in FILES:
        edit(path)
        assert keys.hash_sources(*KEYS[name]) != before[name], f"{name}: {path}"


def test_the_keys_cover_what_decides_a_result():
    """The rewriter, the runtime of threads, the builder: each file of their folders."""
    for name, folders in {
        "REWRITER": [PACKAGE / "csource/rewriter"],
        "RUNTIME": [ROOT / "kernels/simt"],
        "BUILDER": [PACKAGE / "toolchain"],
        "CELL": [
            PACKAGE / "csource/rewriter",
            PACKAGE / "cells",
            ROOT / "kernels/simt",
        ],
        "PROGRAM": [PACKAGE / "programs", PACKAGE / "toolchain", ROOT / "kernels/simt"],
    }.items():
        covered = {path for key, path in FILES if key == name}
        for folder in folders:
            there = {
                path
                for path in folder.rglob("*")
                if path.suffix in (".py", ".cpp", ".h", "") and path.is_file()
            }
            there = {p for p in there if "__pycache__" not in p.parts}
            assert there and there <= covered, f"{name}: {there - covered}"


def test_an_object_of_cuda_c_is_named_after_the_rewriter(edit):
    source = build.KERNELS / "relu.cu"
    command = build._make_command(source, build.Flavour("cpu"))
    before = build._object_path(source, command)
    edit(PACKAGE / "csource/rewriter/shared.py")
    assert build._object_path(source, command) != before


@pytest.mark.parametrize(
    "file", ["lib/weft/cells/structs.py", "kernels/simt/watch/judge.cpp"]
)
def test_a_cell_is_named_after_its_toolchain(edit, file):
    compiler._hash_toolchain.cache_clear()
    before = compiler._hash_toolchain(False)
    edit(ROOT / file)
    compiler._hash_toolchain.cache_clear()
    assert compiler._hash_toolchain(False) != before
    compiler._hash_toolchain.cache_clear()


def test_a_program_is_built_again_after_an_edit_of_its_builder():
    """Its manifest has the state of each file that decides how it is built."""
    files = {str(path) for path in keys.list_sources(*keys.PROGRAM)}
    assert str(Path(program.__file__)) in files
    assert str(PACKAGE / "csource/rewriter/rewrite.py") in files


def test_a_place_without_sources_is_refused():
    with pytest.raises(FileNotFoundError, match="no source file at"):
        keys.list_sources("no_such_folder")
