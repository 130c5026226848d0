"""Folders and files of any name, and a system with plain ASCII."""

from __future__ import annotations

import os
import re

import pytest
from faults import copy_lab, python
from tiers import only

NAMES = {
    "spaces": "a b  c",
    "apostrophe": "it's",
    "quote": 'a"b',
    "newline": "a\nb",
    "letters": "größe λ 中文 é",
    "comma": "a,b",
    "colon": "a:b",
    "dollar": "a$x %s #&;(1)*",
    "backslash": "a\\n",
    "dash": "-o",
}
# g++ fails if the lab's own path contains these.
UNKNOWN_TO_GXX = ("quote", "newline", "backslash")
NOT_UTF8 = os.fsdecode(b"a\xffb")
LIBRARY = """
from weft.toolchain import native
print(native.library("relu", "cpu").rung().name)
"""
CELL = """
import numpy as np
from weft.cells import load_cuda
cell = load_cuda("__device__ int g = 3; __global__ void k(int *x) { *x = g; }")
x = np.zeros(1, np.int32)
cell.k[1, 1](x)
print(x[0])
"""
PROGRAM = """#include "head er.cuh"
__global__ void k(int *x) { *x = 41; }
int main() {
    int *x, h;
    cudaMalloc(&x, 4);
    k<<<1, 1>>>(x);
    cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);
    printf("%d\\n", h + ONE);
}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return copy_lab(tmp_path_factory.mktemp("plain") / "lab")


@pytest.mark.slow
@pytest.mark.parametrize("name", only(["letters"], NAMES))
def test_programs_and_caches_may_have_any_name(lab, tmp_path, name):
    """Use such names for the current folder, the cache, the program, and its header's
    folder."""
    folder = tmp_path / NAMES[name]
    folder.mkdir()
    (folder / "head er.cuh").write_text("#include <cstdio>\nenum { ONE = 1 };\n")
    (folder / f"{NAMES[name]}.cu").write_text(PROGRAM)
    path = f"./{NAMES[name]}.cu"
    words = ["-m", "weft", "run", path, "-O0", "-I", str(folder)]
    first = python(lab, folder / "cache", *words, cwd=folder)
    assert (first.stdout, first.returncode) == ("42\n", 0), first.stderr
    again = python(lab, folder / "cache", *words, cwd=folder)
    assert (again.stdout, again.stderr) == ("42\n", "")
    assert list((folder / "cache/programs").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_findings_name_files_of_any_name(lab, tmp_path, name):
    file = f"{NAMES[name]}.cu"
    (tmp_path / "head er.cuh").write_text("#include <cstdio>\nenum { ONE = 1 };\n")
    (tmp_path / file).write_text(PROGRAM.replace("41;", "x[1];"))
    words = ["-m", "weft", "inspect", f"./{file}", "-O0"]
    result = python(lab, tmp_path / "cache", *words, cwd=tmp_path)
    assert result.returncode == 1
    assert "bounds: thread 0 reads x[1]: x has 1 element" in result.stderr
    if name != "newline":  # addr2line prints one answer on each line
        assert f"\n{file}:2: bounds" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["letters", "quote", "newline"])
def test_cells_in_folders_of_any_name(lab, tmp_path, name):
    folder = tmp_path / NAMES[name]
    folder.mkdir()
    result = python(lab, folder / "cache", "-c", CELL, cwd=folder)
    assert result.stdout == "3\n", result.stderr


@pytest.mark.slow
def test_an_error_in_a_header_names_it_with_its_spaces(lab, tmp_path):
    (tmp_path / "head er.cuh").write_text("#include <cstdio>\nint x = undeclared;\n")
    (tmp_path / "a program.cu").write_text(PROGRAM)
    words = ["-m", "weft", "run", "a program.cu"]
    result = python(lab, tmp_path / "cache", *words, cwd=tmp_path)
    assert "weft run: head er.cuh:2:9: error: 'undeclared' was not" in result.stderr
    (tmp_path / "head er.cuh").write_text('\n#include "no such.cuh"\n')
    result = python(lab, tmp_path / "cache", *words, cwd=tmp_path)
    assert re.search(r"head er\.cuh:2: .*no such\.cuh", result.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("name", only(["quote"], NAMES))
def test_the_lab_itself_may_lie_anywhere_but_where_gxx_cannot_read(tmp_path, name):
    lab = copy_lab(tmp_path / NAMES[name])
    result = python(lab, tmp_path / "cache", "-c", LIBRARY)
    if name in UNKNOWN_TO_GXX:
        last = result.stderr.splitlines()[-1]
        assert last.startswith("weft.base.errors.BuildError: the lab is in ")
        assert last.endswith("in its name: rename the folder or move the lab")
        return
    assert result.stdout == "reference\n", result.stderr
    (tmp_path / "a.cu").write_text("int main() { return 3; }\n")
    words = ["-m", "weft", "run", "a.cu", "-O0"]
    result = python(lab, tmp_path / "cache", *words, cwd=tmp_path)
    if name == "colon":  # a linker's list separates folders with colons
        assert (
            result.returncode == 1 and "a folder with ':' in its name" in result.stderr
        )
        return
    assert result.returncode == 3, result.stderr


@pytest.mark.slow
def test_a_name_that_is_not_utf8_is_one_line(lab, tmp_path):
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    result = python(lab, folder / "cache", "-c", LIBRARY, cwd=folder)
    assert result.stdout == "reference\n"
    assert "has a name that is not UTF-8; this session uses a temp" in result.stderr
    (folder / f"{NOT_UTF8}.cu").write_text("int main() { return 3; }\n")
    words = ["-m", "weft", "run", f"{NOT_UTF8}.cu", "-O0"]
    result = python(lab, tmp_path / "cache", *words, cwd=folder)
    assert result.returncode == 3, result.stderr
    result = python(copy_lab(folder / "lab"), tmp_path / "cache", "-c", LIBRARY)
    assert "BuildError: the lab is in '" in result.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("locale", only(["C"], ["C", "POSIX", "de_DE.UTF-8", "xx_YY"]))
def test_any_locale_gives_the_same_words(lab, tmp_path, locale):
    env = {"LANG": locale, "LC_ALL": locale, "LANGUAGE": "de"}
    result = python(lab, tmp_path / "cache", "-c", LIBRARY, env=env)
    assert result.stdout == "reference\n", result.stderr
    text = "// größe\nint main() { return größe; }\n"
    (tmp_path / "größe.cu").write_text(text, encoding="utf-8")
    words = ["-m", "weft", "run", "größe.cu"]
    result = python(lab, tmp_path / "cache", *words, env=env, cwd=tmp_path)
    assert result.returncode == 1
    assert "größe.cu:2:21: error: 'größe' was not declared" in result.stderr


@pytest.mark.slow
def test_cells_in_a_plain_locale(lab, tmp_path):
    env = {"LANG": "C", "LC_ALL": "C"}
    script = CELL.replace("= g;", "= g; /* ö → λ */")
    result = python(lab, tmp_path / "cache", "-c", script, env=env, encoding="utf-8")
    assert result.stdout == "3\n", result.stderr
