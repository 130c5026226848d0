"""A change of any file that affects a cached result changes the cache's key."""

import functools
import json
from pathlib import Path

import pytest
from import_graph import imports

from weft.base import store
from weft.base.paths import PACKAGE, ROOT
from weft.cells import stored
from weft.cells.cpu import compiler
from weft.cells.gpu import nvrtc
from weft.programs import program
from weft.toolchain import build, keys

KEYS = {
    name: getattr(keys, name)
    for name in ("REWRITER", "RUNTIME", "BUILDER", "CELL", "CHECKER", "PROGRAM")
}
PLACES = sorted({place for places in KEYS.values() for place in places})
SOURCES = {(place,): keys.list_sources(place) for place in PLACES}
SOURCES |= {places: keys.list_sources(*places) for places in KEYS.values()}
BYTES = {path: path.read_bytes() for files in SOURCES.values() for path in files}


@pytest.fixture
def edit(monkeypatch):
    """Return a function that pretends that a file has one more line."""

    def read_edited(edited: Path) -> None:
        monkeypatch.setattr(keys, "list_sources", lambda *places: SOURCES[places])
        monkeypatch.setattr(
            Path, "read_bytes", lambda path: BYTES[path] + b"\n" * (path == edited)
        )
        keys.hash_sources.cache_clear()

    yield read_edited
    monkeypatch.undo()
    keys.hash_sources.cache_clear()


def test_each_file_of_a_place_changes_its_hash(edit):
    original = {place: keys.hash_sources(place) for place in PLACES}
    for place in PLACES:
        for path in SOURCES[place,]:
            edit(path)
            assert keys.hash_sources(place) != original[place], path


def test_a_file_of_another_name_changes_the_hash(monkeypatch, tmp_path):
    monkeypatch.setattr(keys, "ROOT", tmp_path)
    hashes = set()
    for path in tmp_path / "a.h", tmp_path / "b.h":
        path.write_text("the same text")
        monkeypatch.setattr(keys, "list_sources", lambda *_, path=path: [path])
        hashes.add(keys.hash_sources.__wrapped__("place"))
    assert len(hashes) == 2


def test_each_place_of_a_key_changes_it(edit):
    original = {places: keys.hash_sources(*places) for places in KEYS.values()}
    for name, places in KEYS.items():
        for place in places:
            edit(SOURCES[place,][0])
            assert keys.hash_sources(*places) != original[places], f"{name}: {place}"


def test_the_keys_cover_what_decides_a_result():
    """The keys cover each file of the CPU runtime, the builder, cells and programs."""
    for name, folders in {
        "RUNTIME": [ROOT / "kernels/simt"],
        "BUILDER": [PACKAGE / "toolchain"],
        "CELL": [PACKAGE / "csource", PACKAGE / "cells", ROOT / "kernels/simt"],
        "PROGRAM": [PACKAGE / "programs", PACKAGE / "toolchain", ROOT / "kernels/simt"],
    }.items():
        covered = {*SOURCES[KEYS[name]]}
        for folder in folders:
            expected = {
                path
                for path in folder.rglob("*")
                if path.suffix in (".py", ".cpp", ".h", "") and path.is_file()
            }
            expected = {p for p in expected if "__pycache__" not in p.parts}
            assert expected and expected <= covered, f"{name}: {expected - covered}"


def test_the_key_of_the_rewriter_covers_all_that_it_imports():
    edges = [(link.source, link.target) for link in imports()]
    needed = {"csource.rewrite"}
    while more := {b for a, b in edges if a in needed} - needed:
        needed |= more
    expected = {PACKAGE / f"{name.replace('.', '/')}.py" for name in needed}
    assert len(expected) > 1 and expected <= {*SOURCES[keys.REWRITER]}


def test_an_object_of_cuda_c_is_named_after_the_rewriter(edit):
    source = build.KERNELS / "relu.cu"
    command = build._make_command(source, build.Flavour("cpu"))
    original = build._object_path(source, command)
    edit(PACKAGE / "csource/shared.py")
    assert build._object_path(source, command) != original


@pytest.mark.parametrize(
    "file", ["lib/weft/cells/structs.py", "kernels/simt/watch/judge.cpp"]
)
def test_a_cell_is_named_after_its_toolchain(edit, file):
    compiler._hash_toolchain.cache_clear()
    original = compiler._hash_toolchain(False)
    edit(ROOT / file)
    compiler._hash_toolchain.cache_clear()
    assert compiler._hash_toolchain(False) != original
    compiler._hash_toolchain.cache_clear()


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_a_cell_for_a_gpu_is_named_after_its_toolchain(edit):
    path = functools.partial(stored._stored_path, "", "sm_80", (), (), {})
    original = path()
    edit(PACKAGE / "cells/gpu/nvrtc.py")
    assert path() != original


def test_a_program_is_built_again_after_an_edit_of_its_builder(tmp_path, monkeypatch):
    """The program's manifest contains the state of each file that affects its build."""
    monkeypatch.setattr(store, "cache_folder", lambda *parts: tmp_path)
    executable, manifest = tmp_path / "prog.any", tmp_path / "prog.json"
    executable.touch()
    files = {str(f): program._file_state(str(f)) for f in SOURCES[keys.PROGRAM]}
    rewriter = str(PACKAGE / "csource/rewrite.py")
    for state, expected in ((files[rewriter], True), ([0, 0, "another hash"], False)):
        files[rewriter] = state
        manifest.write_text(json.dumps({"executable": executable.name, "files": files}))
        assert (program._from_manifest(manifest) == executable) == expected


def test_a_place_without_sources_is_refused():
    with pytest.raises(FileNotFoundError, match="no source file at"):
        keys.list_sources("no_such_folder")
