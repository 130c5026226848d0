"""Exercises show the right output for a wrong answer, and C cannot kill Python."""

import gc
import re

import numpy as np
import pytest

from weft import check, cuda, load_cuda
from weft.base.errors import KernelFault
from weft.cells import trial_launches
from weft.cells.module import Kernel
from weft.lessons import exercises
from weft.lessons.exercises import exercise, from_c


def one(tmp_path, body, check=lambda f: None):
    path = tmp_path / "one.c"
    path.write_text(f"int one(int *p);\nint one(int *p) {{ {body} }}\n")
    exercise(from_c(path, "int one(int *p)"), check)


def check_null(function):
    from cffi import FFI

    got = function(FFI().NULL)
    assert got == 1, f"{got}, not 1"
    print("it is one")


def test_right_answer_is_solved_and_its_output_is_seen(tmp_path, capsys):
    one(tmp_path, "return p == 0;", check_null)
    assert capsys.readouterr().out == "it is one\none: solved\n"


def test_its_library_stays_open(tmp_path):
    def check(function):
        gc.collect()
        check_null(function)

    one(tmp_path, "return p == 0;", check)


def test_stub_is_not_solved_yet(tmp_path, capsys):
    one(tmp_path, "\n#error not solved yet\n", check_null)
    assert capsys.readouterr().out == "one: not solved yet\n"


@pytest.mark.parametrize(
    ["body", "words"],
    [("(void)p; return 2;", "2, not 1"), ("return *p;", "one was ended by SIGSEGV")],
)
def test_wrong_answer_raises_here(tmp_path, body, words):
    with pytest.raises(AssertionError, match=words):
        one(tmp_path, body, check_null)


def test_a_loop_that_never_ends_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(exercises, "SECONDS", 0.5)
    with pytest.raises(AssertionError, match=r"still running after 0.5 s"):
        one(tmp_path, "for (volatile int i = 0; !p; i = 0) {} return 1;", check_null)


def test_the_compiler_is_quoted(tmp_path):
    with pytest.raises(RuntimeError, match="one.c:2:.*error"):
        one(tmp_path, "return q;", check_null)


def test_warnings_are_shown(tmp_path, capsys):
    one(tmp_path, "return 1;", check_null)
    assert "unused parameter" in capsys.readouterr().out


# ---- what a notebook shows ---------------------------------------------------


def shown(answer, check):
    """Return the lines that a notebook shows below a wrong answer, and the error."""
    with pytest.raises(Exception) as raised:
        exercise(answer, check)
    lines = raised.value._render_traceback_()
    return [re.sub(r"\x1b\[\d*m", "", line) for line in lines], raised.value


def check_three(function):
    got = function([1, 2, 3])
    if got != 3:  # pytest would add text to an assert
        raise AssertionError(f"{got}, not 3")


def check_kernel(kernel):
    vector = dict(outputs={"out": "n"}, inputs={"x": "n"}, block=8)
    check(kernel, lambda x: x[::-1], sizes=[4], **vector)


def test_a_wrong_answer_shows_its_message_without_a_traceback():
    assert shown(lambda x: 4, check_three)[0] == ["AssertionError: 4, not 3"]


def test_the_line_at_which_an_answer_stopped_follows_its_message():
    def last(x):
        return x[3]

    number = last.__code__.co_firstlineno + 1
    lines, error = shown(last, check_three)
    assert lines[0] == "IndexError: list index out of range"
    assert lines[1:] == [f"last, line {number}: `return x[3]`"]
    assert isinstance(error, IndexError)


def test_a_check_without_words_is_told_by_its_line():
    def check_silently(function):
        if function(1) != 3:
            raise AssertionError

    lines, _ = shown(lambda x: 4, check_silently)
    assert lines[0] == "AssertionError"
    assert re.fullmatch(r"check_silently, line \d+: `raise AssertionError`", lines[1])


def test_a_kernel_that_leaves_its_array_is_told_in_a_few_lines():
    def reverse(out, x, n):
        out[cuda.threadIdx.x] = x[n - cuda.threadIdx.x]

    lines, _ = shown(reverse, check_kernel)
    assert lines[0].startswith("Mismatch: reverse is wrong with n=4, grid 1, block 8")
    assert lines[-2].endswith(": `out[cuda.threadIdx.x] = x[n - cuda.threadIdx.x]`")
    assert lines[-1].endswith("errors.html#error-mismatch") and len(lines) <= 7
    # check() in a cell shows the same error.
    with pytest.raises(AssertionError) as raised:
        check_kernel(reverse)
    again = [re.sub(r"\x1b\[\d*m", "", s) for s in raised.value._render_traceback_()]
    assert again == lines


def test_what_python_says_of_a_kernel_is_told_in_a_few_lines():
    def reverse(out, x, n):
        out[0] = x[ten]  # noqa: F821

    lines, error = shown(reverse, check_kernel)
    assert lines[0] == "NameError: name 'ten' is not defined"
    assert re.fullmatch(r"reverse, line \d+: `out\[0\] = x\[ten\].*`", lines[1])
    assert len(lines) <= 5
    assert isinstance(error, NameError)


def test_an_interrupted_check_is_a_line():
    def interrupt(function):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        exercise(lambda x: 4, interrupt)
    assert len(stopped.value._render_traceback_()) <= 2


def test_a_mistake_in_c_is_its_message(tmp_path):
    with pytest.raises(AssertionError) as refused:
        one(tmp_path, "(void)p; return 2;", check_null)
    first, *_ = refused.value._render_traceback_()  # pytest adds lines to an assert
    assert "AssertionError: 2, not 1" in first


def test_an_answer_whose_launches_have_findings_is_refused(capsys):
    source = """
    __global__ void count(int *sum) { %s; }
    """
    correct = load_cuda(source % "atomicAdd(sum, 1)", target="cpu", watched=True).count
    racy = load_cuda(source % "*sum += 1", target="cpu", watched=True).count

    def check(kernel):
        total = np.zeros(1, np.int32)
        kernel[1, 8](total)

    exercise(correct, check)
    assert "count: solved" in capsys.readouterr().out
    for _ in range(2):  # the report appears once, but each answer is refused
        with pytest.raises(AssertionError, match=r"only by luck: line 2: thread"):
            exercise(racy, check)
    assert "solved" not in capsys.readouterr().out
    exercise(correct, check)


# ---- exercises on a GPU ------------------------------------------------------------

GUARDED = """
__global__ void ones(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 1;
}
"""


@pytest.fixture
def pretended_gpu(monkeypatch):
    """Let arrays on the host pass for a GPU's; return the launches on that GPU."""
    launches = []
    real = Kernel.launcher

    def launcher(kernel, target, checked=None):
        if target != "cuda":
            return real(kernel, target, checked)
        return record

    def record(*shape_and_args):
        launches.append(shape_and_args)

    # A machine with a GPU binds the shape first; see Kernel._launch().
    record.at = lambda *shape: lambda *args: record(*shape[:3], *args)
    monkeypatch.setattr(Kernel, "target_of", lambda *_: "cuda")
    monkeypatch.setattr(Kernel, "launcher", launcher)
    return launches


def launch_ones(kernel):
    kernel[2, 8](np.zeros(10, np.float32), 10)


def test_a_kernel_runs_watched_before_a_gpu_runs_it(pretended_gpu):
    right = load_cuda(GUARDED).ones
    launch_ones(right)
    assert len(pretended_gpu) == 1
    exercise(right, launch_ones)
    assert len(pretended_gpu) == 2


def test_an_answer_that_would_end_the_process_does_not_reach_the_gpu(pretended_gpu):
    wrong = load_cuda(GUARDED.replace("if (i < n) ", "")).ones
    with pytest.raises(KernelFault, match=r"thread 2 of block 1 writes x\[10\]"):
        exercise(wrong, launch_ones)
    assert not pretended_gpu
    launch_ones(wrong)  # outside of an exercise, the GPU runs the launch directly
    assert len(pretended_gpu) == 1


def test_a_race_is_wrong_on_a_gpu_too(pretended_gpu):
    racing = load_cuda(GUARDED.replace("x[i] = 1", "x[0] += 1")).ones
    with pytest.raises(AssertionError, match="only by luck"):
        exercise(racing, launch_ones)


def test_launches_too_large_for_the_watch_build_are_not_rehearsed(
    pretended_gpu, monkeypatch
):
    monkeypatch.setattr(trial_launches, "REHEARSED", 15)
    wrong = load_cuda(GUARDED.replace("if (i < n) ", "")).ones
    exercise(wrong, launch_ones)
    assert len(pretended_gpu) == 1
