"""Libraries are built from their current sources, for every target."""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from tiers import first_of_each

from weft.base import store
from weft.base.errors import BuildError
from weft.ops import cases
from weft.toolchain import build, native, tools

# cutlass.cu needs CUTLASS's headers, from a wheel that the lab does not require.
CU = sorted({*build.KERNELS.rglob("*.cu")} - {build.KERNELS / "vendor" / "cutlass.cu"})
BRIDGES = {*build.KERNELS.glob("polynomial/bridges/*.cpp")}  # need PyTorch's headers
C_AND_CPP = sorted(
    p
    for p in build.KERNELS.rglob("*.c*")
    if p.suffix in (".c", ".cpp") and p not in BRIDGES
)
WAITING = ["scan", "softmax"]
RELU = 'from weft.toolchain import native\nnative.library("relu", "cpu")'


def run_python(script: str, lib=build.ROOT / "lib", **env: str):
    """Run a script with the package in `lib` in a new process."""
    env["PYTHONPATH"] = f"{lib}:{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        text=True,
        capture_output=True,
        timeout=900,
        env={**os.environ, **env},
    )


# With an empty cache, all sources take 90 seconds of a core. `make` compiles them too.
@pytest.mark.parametrize(
    "path",
    first_of_each([*CU, *C_AND_CPP], key=lambda path: (path.parent, path.suffix)),
    ids=lambda path: path.stem,
)
def test_gxx_accepts_every_source_without_a_warning(path):
    build.compile_check(path, build.Flavour.here("cpu"))


def test_a_warning_is_refused_however_often_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_root", tmp_path)
    source = tmp_path / "warns.cu"
    source.write_text("static int unused(int x) { return 1; }\n")
    for _ in range(2):
        with pytest.raises(BuildError, match=r"warns\.cu:1:.*unused"):
            build.compile_check(source, build.Flavour("cpu"))
    source.write_text("int used(int x) { return x; }\n")
    build.compile_check(source, build.Flavour("cpu"))


@pytest.mark.parametrize("op", build.list_ops())
def test_a_library_exports_what_the_header_declares_and_nothing_else(op):
    path = build.library(op, build.Flavour.here("cpu"))
    process = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True)
    exported = set(re.findall(r" T (\w+)", process.stdout.decode()))
    header = (build.KERNELS / "weft.h").read_text()
    declared = set(re.findall(r"\b(weft_\w+)\s*\(", header))
    assert exported - declared == set()
    assert "weft_last_error" in exported


def test_no_symbol_of_the_simt_runtime_is_one_of_cudas():
    """A PyTorch with CUDA contains a real cudaMalloc, which would be called instead."""
    path = build.simt_runtime(build.Flavour.here("cpu"))
    process = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True)
    names = [line.split()[-1] for line in process.stdout.decode().splitlines()]
    assert "simt_set_threads" in names
    assert not [name for name in names if name.startswith("cuda")]


@pytest.mark.parametrize("op", build.list_ops())
def test_the_rung_table_is_the_one_in_the_source(op):
    """Python receives every line of the table in the source."""
    text = "".join(p.read_text() for p in build.list_sources(op, "cpu"))
    lines = re.findall(rf'\{{"{op}",\s*"(\w+)"', text)
    lines += re.findall(r"^ +RUNG\((\w+)\)", text, re.M) if op == "matmul" else []
    assert [rung.name for rung in native.rungs(op)] == lines
    for rung in native.rungs(op):
        assert rung.idea and rung.targets
        assert rung.precision in ("fp32", "3xtf32", "tf32", "bf16", "fp16")


@pytest.fixture
def checkout(tmp_path):
    """Copy the checkout, so that a test may change it."""
    for name in ("kernels", "lib/weft"):
        ignore = shutil.ignore_patterns("data", "__pycache__")
        shutil.copytree(build.ROOT / name, tmp_path / name, ignore=ignore)
    return tmp_path


@pytest.mark.slow
def test_a_changed_kernel_is_rebuilt_and_reloaded_in_the_same_process(checkout):
    script = f"""
        import pathlib, torch, weft
        source = pathlib.Path({str(checkout)!r}) / "kernels/relu.cu"
        x = torch.tensor([-1.0, 2.0])
        for _ in range(5):
            print(weft.relu(x, rung="naive").tolist())
            text = source.read_text()
            new = text.replace("? 0.0f : ", "? 0.0f : 2.0f * ", 1)
            assert new != text, "relu.cu no longer chooses between 0.0f and x"
            source.write_text(new)
            weft.reload()
        print(weft.relu(x, rung="naive").tolist())
    """
    process = run_python(script, checkout / "lib")
    values = re.findall(r"\[-?0.0, ([\d.]+)\]", process.stdout)
    assert values == ["2.0", "4.0", "8.0", "16.0", "32.0", "64.0"], process.stderr


@pytest.mark.slow  # the test starts four processes
def test_a_stale_library_is_rebuilt_and_said_in_one_line(checkout):
    script = """
        import torch, weft
        print(weft.relu(torch.tensor([-1.0, 2.0]), rung="naive").tolist())
    """
    first = run_python(script, checkout / "lib")
    second_run = run_python(script, checkout / "lib")
    (checkout / "kernels/common/internal.cuh").open("a").write("/* newer */\n")
    newer = run_python(script, checkout / "lib")
    (checkout / "lib/weft/csource/rewrite.py").open("a").write("# newer\n")
    rewritten = run_python(script, checkout / "lib")
    assert first.stdout == second_run.stdout == newer.stdout == "[0.0, 2.0]\n"
    assert "building relu for cpu" in rewritten.stderr
    assert "building relu for cpu" in first.stderr
    assert second_run.stderr == ""
    assert "building relu for cpu" in newer.stderr


@pytest.mark.slow  # the test builds a new runtime
def test_an_installation_nobody_may_write_to_still_works(checkout, tmp_path):
    script = f"""
        import os, torch
        real = os.access
        lib = {str(checkout / "lib")!r}
        os.access = lambda p, mode: str(p) != lib and real(p, mode)
        import weft
        print(weft.relu(torch.tensor([-1.0, 2.0])).tolist())
    """
    cache_dir = str(tmp_path / "cache")
    process = run_python(script, checkout / "lib", WEFT_CACHE=cache_dir)
    assert process.stdout == "[0.0, 2.0]\n", process.stderr
    assert not list((checkout / "lib").glob("*.so"))


def test_a_missing_compiler_is_one_sentence(checkout):
    process = run_python(
        RELU,
        checkout / "lib",
        CXX="no-such-compiler",
        WEFT_CACHE=str(checkout / "cache"),
    )
    last_line = process.stderr.strip().splitlines()[-1]
    assert "no C++ compiler 'no-such-compiler' (from CXX): install one" in last_line


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WEFT_FIBERS", "WEFT_FIBERS is haswel, expected asm or ucontext"),
        ("WEFT_MARCH", "bad value .haswel. for .-march=. switch"),
    ],
)
def test_a_mistyped_flavour_is_refused(name, message, monkeypatch):
    monkeypatch.setenv(name, "haswel")
    with pytest.raises(BuildError, match=message):
        build.library("relu", build.Flavour.here("cpu"))


def test_a_library_that_another_process_pruned_is_no_error(tmp_path):
    for age in range(6):
        path = tmp_path / f"libweft_cpu_relu_{age}.so"
        path.touch()
        os.utime(path, (age, age))
    missing = tmp_path / "libweft_cpu_relu_gone.so"
    missing.symlink_to("nowhere")  # a link whose target is missing
    build._prune(tmp_path, "libweft_cpu_relu_*.so")
    remaining = sorted(path.stem[-1] for path in tmp_path.iterdir())
    assert remaining == ["2", "3", "4", "5"]


@pytest.mark.slow
def test_two_processes_may_build_the_same_library_at_once(checkout):
    script = "import torch, weft\nprint(weft.relu(torch.tensor([-1.0, 2.0])).tolist())"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(run_python, script, checkout / "lib") for _ in range(2)]
    for process in (future.result() for future in futures):
        assert process.stdout == "[0.0, 2.0]\n", process.stderr
    assert not list((checkout / "lib").glob("libweft_part_*"))


def test_a_compilers_error_names_the_file_and_the_line(checkout):
    # The copy uses the built runtime. With an empty cache, a build takes 30 seconds.
    shutil.copy(build.simt_runtime(build.Flavour.here("cpu")), checkout / "lib")
    (checkout / "kernels/relu.cu").open("a").write("int broken(void) { return x; }\n")
    process = run_python(RELU, checkout / "lib")
    line = len((checkout / "kernels/relu.cu").read_text().splitlines())
    assert re.search(rf"relu\.cu:{line}:.*error", process.stderr), process.stderr


def test_an_op_has_the_sources_in_the_folders_below_its_own():
    sources = set(build.list_sources("mnist", "cuda"))
    assert sources >= set((build.KERNELS / "mnist").rglob("*.cu"))
    assert build.KERNELS / "mnist/fused/head.cu" in sources
    assert "fused" not in build.list_ops()


def test_copies_that_jupyter_keeps_are_no_sources(tmp_path, monkeypatch):
    for folder in ("", "op", "op/part"):
        checkpoints = tmp_path / folder / ".ipynb_checkpoints"
        checkpoints.mkdir(parents=True)
        (checkpoints.parent / "k.cu").touch()
        (checkpoints / "k-checkpoint.cu").touch()
    (tmp_path / "common").mkdir()
    (tmp_path / "common/common.cu").touch()
    monkeypatch.setattr(build, "KERNELS", tmp_path)
    assert build.list_ops() == ["k", "op"]
    names = [str(p.relative_to(tmp_path)) for p in build.list_sources("op", "cuda")]
    assert names == ["common/common.cu", "op/k.cu", "op/part/k.cu"]


def test_an_unknown_op_is_refused_with_those_there_are():
    with pytest.raises(BuildError, match="no op 'matmull'.*conv2d"):
        build.library("matmull", build.Flavour.here("cpu"))


def test_the_cache_stays_under_its_limit_oldest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_root", tmp_path)
    for age, name in enumerate("abc"):
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (age, age))
    store.prune(limit=2500)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "c"]
    assert store.clear() == 2000
    assert store.measure_cache() == 0


@pytest.mark.slow
@pytest.mark.parametrize("march", ["x86-64-v3", "x86-64"])
@pytest.mark.long
def test_plain_c_for_other_processors_passes_the_checks(march):
    script = """
        import weft
        from weft.ops import cases
        from weft.toolchain import native
        for op in cases.OPS:
            for rung in native.library(op, "cpu").here():
                if rung.targets == ("cpu",):
                    print(*weft.check_op(op, rung.name, target="cpu"))
    """
    process = run_python(script, WEFT_MARCH=march)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("rung='reference'") == len(cases.OPS)


@pytest.mark.slow
@pytest.mark.long
def test_kernels_on_ucontext_fibers_are_right_in_small_cases():
    """These fibers need a system call per switch, so whole checks take ten minutes.

    The rungs of these ops wait in every way: for barriers, shuffles, clusters, bulk
    copies, and the flags of other blocks. All libraries would take a minute to build.
    """
    script = f"""
        import sys
        sys.path.append({str(build.ROOT / "tests")!r})
        from small_cases import list_small_cases
        from weft.ops import cases
        from weft.ops.check import check_rung
        from weft.toolchain import native
        for op in {WAITING}:
            lib = native.library(op, "cpu")
            for rung in lib.here():
                check_rung(lib, rung, some=list_small_cases(rung)[::2])
                print(op, rung.name)
    """
    process = run_python(script, WEFT_FIBERS="ucontext")
    assert process.returncode == 0, process.stderr
    assert {*process.stdout.split()[::2]} == {*WAITING}


def test_a_source_may_ask_a_compiler_for_flags(tmp_path):
    source = tmp_path / "slow.cu"
    source.write_text("/* Head. */\n/* g++: -O1 -DA=2 */\n/* nvcc: -Xptxas=-O1 */\n")
    command = build._make_command(source, build.Flavour.here("cpu"))
    assert command.index("-O1") > command.index("-O3") and "-DA=2" in command
    assert build.own_flags(source) == ["-Xptxas=-O1"]


def test_plain_c_may_ask_for_flags_too(tmp_path):
    source = tmp_path / "aligned.c"
    source.write_text("/* g++: -falign-loops=64 */\n")
    assert "-falign-loops=64" in build._make_command(source, build.Flavour.here("cpu"))


def test_an_object_depends_on_the_headers_it_includes_and_no_others(tmp_path):
    source, header, distant, unrelated = (
        tmp_path / n for n in ("k.cu", "near", "f.cuh", "o.h")
    )
    source.write_text('#include "common/internal.cuh"\n  # include "near"\n')
    header.write_text("#include <f.cuh>\n#include <vector>\n")
    distant.write_text('#include "near"\n')  # the headers include each other
    names = []
    for path in (distant, header, source, unrelated):
        path.open("a").write("// newer\n")
        command = build._make_command(source, build.Flavour("cpu"))
        names.append(build._object_path(source, command).name)
    assert len(set(names[:3])) == 3
    assert names[3] == names[2]


@pytest.mark.parametrize(
    "header", ["common/internal.cuh", "simt/include/cuda_runtime.h"]
)
def test_what_an_object_is_named_after(checkout, monkeypatch, header):
    """A kernel's object is named after its headers and path. An object of plain C is
    named without the path, so that all checkouts share the runtime's objects."""

    def names() -> tuple[str, str]:
        paths = (build.KERNELS / "relu.cu", build.KERNELS / "reference/relu.c")
        commands = [build._make_command(path, build.Flavour("cpu")) for path in paths]
        return tuple(build._object_path(*of).name for of in zip(paths, commands))

    original = names()
    kernels = checkout / "kernels"
    monkeypatch.setattr(build, "ROOT", checkout)
    monkeypatch.setattr(build, "KERNELS", kernels)
    monkeypatch.setattr(build, "SIMT", (kernels / "simt/include", kernels / "simt"))
    copy_names = names()
    (kernels / header).open("a").write("// newer\n")
    newer = names()
    assert len({original[0], copy_names[0], newer[0]}) == 3
    assert len({original[1], copy_names[1], newer[1]}) == 1


def test_headers_of_cudnn_that_only_pip_has_are_found_after_the_toolkits(
    monkeypatch, tmp_path
):
    for name in ("cudnn/include/cudnn.h", "cublas/include/cublas_v2.h"):
        header = tmp_path / "nvidia" / name
        header.parent.mkdir(parents=True)
        header.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    source = build.KERNELS / "mnist" / "cudnn.cu"
    monkeypatch.setattr(build, "find_tool", lambda name: name)
    command = build._make_command(source, build.Flavour("cuda", sm="90a"))
    for folder in ("cudnn", "cublas"):
        at = command.index(str(tmp_path / "nvidia" / folder / "include"))
        assert command[at - 1] == "-isystem"  # -I would precede nvcc's own folders


def test_the_runtime_of_cells_is_built_without_any_op(monkeypatch, tmp_path):
    parser = argparse.ArgumentParser()
    build.add_arguments(parser)
    linked = []

    def record(name, files, flavour, needs):
        linked.append((name, flavour, len(files)))
        return tmp_path / name

    monkeypatch.setattr(build, "_link", record)
    monkeypatch.setattr(build, "_runtimes", {})
    assert build.main(parser.parse_args(["--runtime"])) == 0
    [(name, flavour, files)] = linked
    assert (name, flavour) == ("simt", build.Flavour.here("cpu")) and files > 1


def test_make_lab_builds_the_runtime_before_it_opens_the_notebooks():
    """Otherwise the first cell of CUDA C would wait for 60 files to compile."""
    text = (build.ROOT / "Makefile").read_text()
    recipe = text.partition("\nlab:\n")[2].partition("\n\n")[0].splitlines()
    runtime, jupyter = recipe
    assert runtime.startswith("\t-") and "-m weft build --runtime" in runtime
    assert "-m jupyterlab" in jupyter


@pytest.mark.parametrize(("march", "differ"), [("native", True), ("x86-64-v3", False)])
def test_only_native_objects_belong_to_one_kind_of_processor(
    monkeypatch, march, differ
):
    source = build.KERNELS / "reference" / "relu.c"
    command = build._make_command(source, build.Flavour("cpu", march))
    here = build._object_path(source, command)
    monkeypatch.setattr(tools, "cpu_flags", lambda: "another processor's")
    assert (build._object_path(source, command) != here) == differ


def test_the_runtime_is_hashed_again_only_after_a_change(monkeypatch, tmp_path):
    source, links = tmp_path / "fiber.cpp", []
    source.write_text("")
    flavour = build.Flavour.here("cpu")
    path = build.simt_runtime(flavour)
    monkeypatch.setattr(build.keys, "list_sources", lambda *places: [source])
    monkeypatch.setattr(build, "_link", lambda *parts: links.append(parts) or path)
    for seconds, count in [(1, 1), (1, 1), (2, 2)]:
        os.utime(source, (seconds, seconds))
        assert build.simt_runtime(flavour) == path and len(links) == count
