"""python -m weft run: whole programs behave as if nvcc had built them."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiers import only

from weft.base.errors import BuildError
from weft.csource.rewrite import RewriteError
from weft.programs import program, run

PROGRAMS = Path(__file__).parent
OPTIONS = ["-O1", "-Ifiles/include", "-DOFFSET=9"]
SCALE = ["scale.cu", "-arch=sm_80", "-lineinfo", "-Xptxas", "-v", "-lcudart"]
FILES = [f"files/{name}" for name in ("main.cu", "other.cu", "host.cpp", "plain.c")]
PRINTS = {
    "language.cu": """\
25 169 1525
2 1
512
(2 7 34) (3 6 24) (4 5 14) (5 4 4) 77
2 1 1 2 2 1 2 6 11 <<<1, 1>>> __shared__
""",
    "passes.cu": "1 700 2 42\n",
    "reduce.cu": "right right right right right right \n",
    "cooperative.cu": "1 64 128\n28 92 156 220\n",
    "groups.cu": "2016 106112 10208 14304 144096 144096 51040 no error\n",
    "heap.cu": "8388608: 7 3 32 1\n",
    "runtime_api.cu": "24 8\ncalled no error 5\n30 46 62 78 1\n",
}


@pytest.fixture(scope="module", autouse=True)
def build_programs():
    """Build the programs of several tests, two at a time, and so fill the cache."""
    folder = os.getcwd()
    os.chdir(PROGRAMS)
    try:
        programs = [["faults.cu"], ["overrun.cu"], SCALE, FILES]
        parsed = [run.parse([*words, *OPTIONS]).program for words in programs]
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(program.build_executable, parsed))
    finally:
        os.chdir(folder)


def weft(*words: str, **options) -> subprocess.CompletedProcess:
    """Run the command; its output is text."""
    command = [sys.executable, "-m", "weft", "run", *words]
    options = {"text": True, "capture_output": True, "cwd": PROGRAMS, **options}
    return subprocess.run(command, **options)


def start(*words: str, cwd: Path = PROGRAMS) -> subprocess.CompletedProcess:
    """Start the process by which the command replaces itself, and which it prepares.

    This saves the start of another Python, so it serves tests of programs, not of the
    command.
    """
    prepared = []
    with contextlib.chdir(cwd), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "execve", lambda *call: prepared.append(call))
        run.main(run.parse(words))
    ((path, argv, env),) = prepared
    options = {"text": True, "capture_output": True, "cwd": cwd, "timeout": 60}
    return subprocess.run(argv, executable=path, env=env, **options)


@pytest.mark.parametrize("name", only(["passes.cu"], PRINTS))
@pytest.mark.parametrize("order", only(["forward"], ["forward", "reverse", "7"]))
def test_a_program_prints_the_expected_lines(name, order):
    result = weft(name, *OPTIONS, "--order", order)
    assert (result.stdout, result.returncode) == (PRINTS[name], 0)


def test_stdin_arguments_folder_and_exit_status(tmp_path):
    words = [str(PROGRAMS / SCALE[0]), "-O1", "-o", "there"]
    result = weft(*words, "--", "2", "5", input="1 2\n3.5", cwd=tmp_path)
    assert result.stdout == "./there 3: 2 4 7\n"
    assert result.stderr.endswith("3 numbers\n") and result.returncode == 5
    assert (tmp_path / "scale.out").exists()


def test_a_program_ends_by_its_own_signal(tmp_path):
    for options in ([], ["--timeout", "60"]):
        words = [str(PROGRAMS / "scale.cu"), "-O1", *options, "--", "1", "-1"]
        result = weft(*words, stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert result.returncode == -signal.SIGABRT


def test_several_files_with_headers_and_device_code_of_their_own():
    result = weft(*FILES, *OPTIONS)
    assert (result.stdout, result.returncode) == ("3 3 0 2 0 2 8 15 40\n", 9)


@pytest.mark.parametrize(
    "fault, error, launch, status",
    [
        (0, "cudaErrorAssert", "cudaErrorAssert", 710),
        (1, "cudaErrorIllegalAddress", "cudaErrorIllegalAddress", 700),
        (2, "cudaSuccess", "cudaErrorInvalidConfiguration", 0),
    ],
)
def test_faults_are_cuda_errors_that_stay(fault, error, launch, status):
    result = start("faults.cu", *OPTIONS, "--", str(fault))
    assert result.stdout == f"launch {launch}\nsync {error}\nafter {error}\n"
    assert result.returncode == status % 256
    assert ("faults.cu:7:" in result.stderr) == (fault == 0)
    assert result.stderr.count("\n") == (fault != 2)


@pytest.mark.parametrize(
    "elements, then, message",
    [
        (500, "nothing", "fill: block (0,0,0), thread (128,0,0): illegal address"),
        (500, "sync", "112 bytes past the end of allocation 2 (cudaMalloc, 400 bytes"),
        (500, "reset", "fill: block (0,0,0), thread (128,0,0): illegal address"),
        (999999, "nothing", ",0,0): illegal address: store to"),  # in any block
        (110, "nothing", "found at the program's end, after the kernel fill"),
        (128, "sync", "1 to 112 bytes after the end of allocation 2"),
        (101, "free", "1 to 4 bytes after the end of allocation 2"),
        (100, "down", "1 to 80 bytes before the start of allocation 2"),
        (100, "down sync reset", "1 to 80 bytes before the start of allocation 2"),
        (100, "print", "thread (0,0,0): illegal address: load from 0x40 (a null"),
    ],
)
def test_a_store_out_of_bounds_is_one_line_and_a_status(elements, then, message):
    words = ["--", str(elements), *then.split()]
    result = start("overrun.cu", *OPTIONS, *words)
    line = f"To see the line: weft inspect overrun.cu {' '.join([*OPTIONS, *words])}\n"
    assert message in result.stderr and result.stderr.endswith(line)
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("weft: ")
    assert result.returncode == 1
    assert sorted(result.stdout.splitlines()) == ["printed", "to its end"]


@pytest.mark.slow
def test_a_fault_in_printf_ends_the_launch_although_the_library_is_fortified():
    """Ubuntu's g++ defines the macro by default, and printf() then locks stdout."""
    words = [*OPTIONS, "-D_FORTIFY_SOURCE=2", "--", "100", "print"]
    result = weft("overrun.cu", *words, timeout=60)
    assert "illegal address: load from 0x40" in result.stderr
    assert sorted(result.stdout.splitlines()) == ["printed", "to its end"]


OVER = """__global__ void over(float *x) { x[threadIdx.x] = 1.0f; }
int main() {
    float *x;
    cudaMalloc(&x, 400);
    over<<<1, 500>>>(x);
    return cudaDeviceSynchronize() == cudaSuccess;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True])
def test_the_command_in_an_overruns_message_shows_the_line(terminal, tmp_path):
    """The message names the kernel, the thread, and a complete command."""
    (tmp_path / "over it.cu").write_text(OVER)
    words = [sys.executable, "-m", "weft", "run", "over it.cu", "-O0"]
    terminal_end, program_end = os.openpty() if terminal else os.pipe()
    process = subprocess.Popen(words, cwd=tmp_path, stderr=program_end)
    os.close(program_end)
    assert process.wait(60) == 1
    lines = os.read(terminal_end, 9999).decode().splitlines()[-1]
    os.close(terminal_end)
    assert lines.startswith("weft: over: block (0,0,0), thread (128,0,0): illegal ad")
    command = lines.partition(". To see the line: ")[2]
    assert command == "weft inspect 'over it.cu' -O0"
    options = [sys.executable, "-m", *shlex.split(command)]
    result = subprocess.run(options, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "over it.cu:1: bounds" in result.stderr


def test_a_program_keeps_its_own_status_after_a_fault():
    result = start("overrun.cu", *OPTIONS, "--", "500", "status")
    assert result.returncode == 7 and result.stderr.count("\n") == 1
    result = start("overrun.cu", *OPTIONS, "--", "100", "nothing")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_fault_of_the_host_in_shared_memory_is_reported():
    result = start("overrun.cu", *OPTIONS, "--", "100", "host")
    assert result.returncode == -signal.SIGSEGV and result.stderr.count("\n") == 1
    assert "the host, not a kernel, touches" in result.stderr
    assert "112 bytes past the end of allocation 3 (cudaMallocHost, 4" in result.stderr


@pytest.mark.slow
def test_a_long_program_reports_progress_only_on_a_terminal():
    program = ["overrun.cu", *OPTIONS, "--", "100", "wait"]
    command = [sys.executable, "-m", "weft", "run", *program]
    terminal_end, program_end = os.openpty()
    with subprocess.Popen(command, cwd=PROGRAMS, stderr=program_end) as child:
        os.close(program_end)
        lines = os.read(terminal_end, 999).decode()
        child.kill()
    os.close(terminal_end)
    assert re.fullmatch(r"weft: \d+ s: the kernel wait, launch 2\r\n", lines)
    result = weft("--timeout", "6", *program)
    assert result.stderr == "weft: stopped after 6 seconds (--timeout)\n"


def test_a_program_is_cached_until_a_file_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.cuh").write_text("enum { STATUS = 3 };\n")
    Path("a.cu").write_text('#include "a.cuh"\nint main() { return STATUS; }\n')
    executable = program.build_executable(run.parse(["a.cu", "-O0"]).program)
    assert subprocess.run([executable]).returncode == 3
    monkeypatch.setattr(program, "_build", None)
    assert program.build_executable(run.parse(["a.cu", "-O0"]).program) == executable
    os.utime("a.cuh", (1, 1))  # new time, same text
    assert program.build_executable(run.parse(["a.cu", "-O0"]).program) == executable
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    Path("a.cuh").write_text("enum { STATUS = 4 };\n")
    second = program.build_executable(run.parse(["a.cu", "-O0"]).program)
    assert subprocess.run([second]).returncode == 4
    # The executable needs the runtime's library, which another process may delete.
    _, files = program._build(run.parse(["a.cu", "-O0"]).program)
    assert any("libweft_cpu_simt_" in name for name in files)


def test_a_program_over_its_time_limit_is_stopped(tmp_path):
    (tmp_path / "a.cu").write_text("int main() { for (;;) clock(); }")
    result = weft("a.cu", "-O0", "--timeout", "0.2", cwd=tmp_path)
    assert result.returncode == run.TIMED_OUT and "0.2 seconds" in result.stderr


def test_ctrl_c_ends_a_program(tmp_path):
    source = '#include <unistd.h>\nint main() { puts("on"); fflush(stdout); pause(); }'
    (tmp_path / "a.cu").write_text(source)
    for options in ([], ["--timeout", "60"]):
        command = [sys.executable, "-m", "weft", "run", "a.cu", "-O0", *options]
        child = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
        )
        assert child.stdout.readline() == b"on\n"
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(30) == -signal.SIGINT


# ---- programs that cannot be built ---------------------------------------------


@pytest.mark.parametrize(
    "text, line, words",
    [
        ('__device__ void f() {\nasm("trap;"); }', 2, "inline PTX"),
        (
            "__global__ void k() {}\n__global__ void j() { k<<<1, 1>>>(); }",
            2,
            "dynamic",
        ),
        ("\nstruct S { cudaTextureObject_t t; };", 2, "textures"),
        ("#include <cusparse.h>\n", 1, "cuSPARSE"),
        ("\n#include <cuda_fp8.h>\n", 2, "8 bits"),
        ('\n\n#include "not_there.h"\n', 3, "-I DIR"),
        ("\n#define CALL(x) undeclared(x)\nint i = CALL(3);", 3, "undeclared"),
        ("int f() {\n  return 1 }", 2, "expected"),
        (
            '#include <cuda.h>\nconst char *s = "cuInit(0)";\nint i = cuInit(0);',
            3,
            "driver",
        ),
        ("#include <thrust/sort.h>\n", 1, "Thrust needs a GPU"),
    ],
)
def test_errors_name_the_line_of_the_file(text, line, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("head.cuh").write_text(text + "\n")
    Path("a.cu").write_text('#include <stdio.h>\n#include "head.cuh"\nint main() {}\n')
    with pytest.raises((RewriteError, BuildError)) as caught:
        program.build_executable(run.parse(["a.cu"]).program)
    assert f"head.cuh:{line}" in str(caught.value) and words in str(caught.value)


def test_errors_are_shown_on_the_program_s_own_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """#include <algorithm>
#include <vector>
struct S {};
__global__ void k(int *a, int n) { a[threadIdx.x] = threadidx.x + n; }
int main() {
    std::vector<S> v; std::sort(v.begin(), v.end());
}
"""
    Path("a.cu").write_text(text)
    with pytest.raises(BuildError) as caught:
        program.build_executable(run.parse(["a.cu"]).program)
    lines = str(caught.value).split("\n")
    line = "    " + text.split("\n")[3]
    caret = " " * line.index("threadidx") + "^"
    assert lines[0].startswith(f"a.cu:4:{len(caret) - 4}: error: 'threadidx' was not")
    assert lines[1:3] == [line, caret]
    assert lines[3].startswith("a.cu:6: error: no match for 'operator<'")
    assert len(lines) == 5  # no line is from the standard library


def test_a_file_without_main_is_reported_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.cu").write_text("int f() { return 0; }\n")
    Path("b.cu").write_text("int g() { return 0; } // MATMUL_RUNG(b, ...)\n")
    for files, message in {
        ("a.cu",): "no main() in a.cu: a whole program is needed",
        ("a.cu", "b.cu"): "no main() in a.cu, b.cu: a whole program is needed; for "
        "a rung alone: weft.lessons.ladder.one_rung('b.cu').inspect(m, n, k)",
    }.items():
        with pytest.raises(BuildError) as caught:
            program.build_executable(run.parse(list(files)).program)
        assert str(caught.value) == message


def test_host_code_may_hold_assembly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = '__device__ void f() { asm volatile("" ::: "memory"); }\n'
    text += 'int main() { int i = 0; asm volatile("" : "+r"(i)); return i; }\n'
    Path("a.cu").write_text(text)
    assert program.build_executable(run.parse(["a.cu", "-O0"]).program)


@pytest.mark.parametrize(
    "words, message",
    [
        ([], None),
        (["nothing.cu"], "no file 'nothing.cu'"),
        (["10"], "follow --"),
        (["scale.cu", "--tiemout", "3"], "unknown option '--tiemout'"),
        (["scale.cu", "--timeout", "soon"], "--timeout soon"),
        (["scale.cu", "-I"], "-I needs a value"),
    ],
)
def test_an_invalid_command_line_is_refused(words, message, capsys):
    if message is None:
        with pytest.raises(SystemExit):
            run.parse(words)
        assert "usage" in capsys.readouterr().err
        return
    with pytest.raises(ValueError, match=message):
        run.parse(words)


def test_options_of_nvcc(tmp_path, monkeypatch):
    monkeypatch.chdir(PROGRAMS)
    line = "-O3 -std=c++14 scale.cu -gencode arch=compute_80,code=sm_80 -I inc -Iinc2"
    line += (
        " -DA -D B=1 --use_fast_math -rdc=true -Xcompiler -Wall,-fopenmp -lm -lcudart"
    )
    line += " --expt-extended-lambda -Xptxas=-v -ccbin g++ -o prog -g -G -lineinfo"
    options = run.parse([*line.split(), "--", "-x", "1"])
    parsed = options.program
    assert parsed.sources == ["scale.cu"] and options.arguments == ["-x", "1"]
    assert parsed.preprocess == ["-Iinc", "-Iinc2", "-DA", "-DB=1"]
    assert (parsed.optimise, parsed.std, parsed.arch) == ("3", "c++14", 800)
    assert parsed.compile == ["-fopenmp"] and parsed.link == ["-lm"]
    assert options.name == "prog"
