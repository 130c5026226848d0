"""Every puzzle is well formed, accepts its right answers and refuses its wrong ones.

The answers are in puzzle_answers/, with a file for each puzzle.
"""

import ast
import builtins
import importlib
import inspect
import json
import re
import time
import types

import numpy as np
import pytest
from puzzle_answers import RIGHT, WRONG
from tiers import first_of_each, loop_over, only

import utils
from weft import (
    ArgumentError,
    KernelError,
    Mismatch,
    cuda,
    load_cuda,
    numba_jit,
    puzzles,
    sim,
)
from weft import cuda_c as as_cuda_c
from weft.__main__ import main as weft_main
from weft.base.store import Kept
from weft.check import FunctionTooLong
from weft.puzzles import puzzle as puzzle_module
from weft.puzzles.answers import is_same_code
from weft.puzzles.catalogue import GROUPS, LESSONS
from weft.puzzles.puzzle import Solved, _compile_function

progress_module = importlib.import_module("weft.puzzles.progress")
NAMES = [name for names in GROUPS.values() for name in names]
KERNELS = [name for name in NAMES if name != "image_filter_numpy"]
each_puzzle = loop_over("name", NAMES)
each_kernel = pytest.mark.parametrize("name", KERNELS)
FIRST = [names[0] for names in GROUPS.values()]  # the first puzzle of each group
# Each of these takes a second. The quick tier draws them, and refuses wrong answers.
LONG = {"warp_sum", "coalescing", "aggregated_atomics", "stable_compaction"}
# For each construct, the first puzzle whose kernel may use it. That puzzle, or its
# lesson, teaches it.
FIRST_USE = {
    r"\bif\b|\bmin\(": "guards",
    r"Idx\.y|grid\(2\)": "map2d",
    r"blockIdx|blockDim|cuda\.grid\b": "blocks",
    r"\bfor\b|\bwhile\b|gridDim|gridsize": "grid_stride",
    r"shared\.array|syncthreads": "shared",
    r"\bint8\b|round|rint": "quantise",
    r"shfl|ballot|syncwarp|laneid": "warp_sum",
    r"atomic": "histogram",
}


@pytest.fixture(autouse=True)
def progress_in_memory(monkeypatch):
    """Start each test without solved puzzles, and leave the user's records alone."""
    monkeypatch.setenv("WEFT_SMALL", "1")
    monkeypatch.setattr(progress_module, "_kept", Kept("puzzles"))


# ---- the collection --------------------------------------------------------------


def test_every_puzzle_has_a_name_a_title_and_a_kernel_of_its_own():
    all_puzzles = list(puzzles)
    assert [p.name for p in all_puzzles] == NAMES and len(puzzles) == len(NAMES)
    for puzzle in all_puzzles:
        assert puzzles[puzzle.name] is getattr(puzzles, puzzle.name) is puzzle
        assert puzzle.name in GROUPS[puzzle.group] and puzzle.name in puzzles
    for names in (
        NAMES,
        [p.title for p in all_puzzles],
        [p.kernel_name for p in all_puzzles],
    ):
        assert len(set(names)) == len(names)
    assert list(puzzles.groups) == list(GROUPS) == list(LESSONS)
    assert [p.name for p in puzzles.groups["sums"]] == list(GROUPS["sums"])


def test_no_puzzle_has_the_name_of_a_group():
    """A lesson's line that inserts puzzles may name a puzzle or a group."""
    assert not set(GROUPS) & set(NAMES)


def test_importing_a_module_of_the_package_hides_no_puzzle():
    importlib.import_module("weft.puzzles.tiles")

    assert puzzles.shared.name == "shared" and callable(puzzles.progress)


def test_an_unknown_name_is_answered_with_the_known_ones():
    says = r"no puzzle 'gards' \(is it guards\?\); there are map, zip, guards"
    with pytest.raises(KeyError, match=says):
        puzzles["gards"]
    with pytest.raises(AttributeError, match=says):
        _ = puzzles.gards
    assert not hasattr(puzzles, "_ipython_display_")


# ---- each puzzle -----------------------------------------------------------------


@each_puzzle
def test_a_puzzle_is_short_and_has_hints(name):
    puzzle = puzzles[name]
    assert len(puzzle.stub.splitlines()) <= 8, puzzle.stub
    assert len(puzzle.text.split()) <= 60, puzzle.text
    assert len(re.findall(r"[.?!](?=\s|$)", puzzle.text)) <= 3, puzzle.text
    assert len(puzzle.spec_text.splitlines()) <= 8, puzzle.spec_text
    assert len(puzzle.solved_text.splitlines()) <= 25, puzzle.solved_text
    assert len(puzzle.hints) >= 2 and len(set(puzzle.hints)) == len(puzzle.hints)
    assert puzzle.better and puzzle.title[:1].isupper()


def test_no_two_puzzles_have_the_same_task():
    tasks = {}
    for puzzle in puzzles:
        body = puzzle.spec_text.partition("\n")[2]
        inputs = repr(
            puzzle.checks.get("inputs")
        )  # some tasks differ only in their inputs
        tasks.setdefault((body, inputs), []).append(puzzle.name)
    twice = [names for names in tasks.values() if len(names) > 1]
    assert twice == [["histogram", "histogram_private"]]  # these two differ in cost


@loop_over("name", KERNELS)
def test_the_text_announces_a_launch_with_spare_blocks(name):
    """The text mentions that a block may have no work."""
    puzzle = puzzles[name]
    module = inspect.getsource(inspect.getmodule(puzzle.answer))
    source = module.partition(f"\n{name.upper()} = ")[2].partition("\n)\n")[0]
    assert source
    extra = re.search(r"divide_up\([^()]*\) \+ \d", source)
    announcement = (
        r"more than needed|more block|beyond the|often more|an extra block|has no"
    )
    assert not extra or re.search(announcement, puzzle.text), puzzle.text


@each_puzzle
def test_only_the_last_fold_contains_the_answer(name):
    puzzle = puzzles[name]
    helps = "\n".join((puzzle.text, *puzzle.hints, puzzle.stub, puzzle.better))
    assert not find_answer_lines(puzzle, helps), find_answer_lines(puzzle, helps)


@each_puzzle
def test_a_puzzles_kernel_uses_only_names_of_a_notebook(name):
    puzzle = puzzles[name]
    available = {*dir(builtins), *utils.__all__}
    for text in (puzzle.solved_text, puzzle.stub):
        code = compile(text, "cell", "exec")
        (inner,) = (c for c in code.co_consts if hasattr(c, "co_names"))
        tree = ast.walk(ast.parse(text))
        fields = {n.attr for n in tree if isinstance(n, ast.Attribute)}
        missing = set(inner.co_names) - available - fields
        assert not missing, f"{sorted(missing)} in:\n{text}"


@each_puzzle
def test_a_puzzle_requires_only_earlier_knowledge(name):
    text = re.sub(r'""".*?"""', "", puzzles[name].solved_text, flags=re.S)
    for pattern, first in FIRST_USE.items():
        if re.search(pattern, text) and puzzles[name].is_kernel:
            assert NAMES.index(name) >= NAMES.index(first), f"{pattern} in {name}"


@pytest.mark.parametrize("name", NAMES)
def test_a_puzzles_stub_is_not_solved_yet(name, capsys):
    puzzle = puzzles[name]
    stub = _compile_function(puzzle.stub, puzzle.answer)
    assert puzzle.check(stub) is None
    output = capsys.readouterr().out
    assert output.startswith(f"{name}: not solved yet") and output.count("\n") == 1
    if puzzle.start is not None:  # the stub runs, and the message explains its mistake
        assert len(output) > 60, output


def test_a_filled_stub_that_still_raises_is_reported(capsys):
    @sim
    def add_ten(out, a):
        i = cuda.threadIdx.x
        out[i] = a[i] + 10
        raise NotImplementedError

    assert puzzles.map.check(add_ten) is None
    output = capsys.readouterr().out
    assert output == (
        "map: not solved yet: add_ten still contains `raise NotImplementedError`\n"
    )


def test_a_kernel_that_prints_shows_its_first_lines(capsys):
    def add_ten(out, a):
        i = cuda.threadIdx.x
        print("here is", i)
        out[i] = a[i] + 10

    for answer in (add_ten, as_cuda_c(add_ten)):
        assert puzzles.map.check(answer)
        first, *lines = capsys.readouterr().out.splitlines()
        assert first == "here is 0" and len(lines) == 32
        assert re.fullmatch(r"\.\.\. and \d[\d\s]* lines more, .*", lines[-1]), lines[
            -1
        ]


def test_the_message_for_an_endless_answer_has_no_advice_on_time_limits(monkeypatch):
    monkeypatch.setattr(puzzle_module, "TIMEOUT", 0.3)

    def add_ten(out, a):
        while True:
            pass

    kernel = load_cuda(
        "__global__ void add_ten(float *out, const float *a) { while (a[0] < 9) {} }"
    )
    for answer in (add_ten, kernel):
        with pytest.raises(
            Mismatch, match="look for a loop that does not end"
        ) as raised:
            puzzles.map.check(answer)
        assert "timeout" not in str(raised.value) and "--" not in str(raised.value)


def test_an_interrupt_is_one_line(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(puzzles.map, "_run_check", interrupt)
    with pytest.raises(KeyboardInterrupt, match="interrupted") as stopped:
        puzzles.map.check(puzzles.map.answer)
    assert len(stopped.value._render_traceback_()) == 1


def test_an_array_of_another_type_in_c_is_reported_with_the_stubs():
    kernel = load_cuda(
        "__global__ void add_ten(double *out, const float *a) { out[0] = a[0]; }"
    )
    with pytest.raises(
        ArgumentError, match=r"double \*out, but the stub declares float \*out"
    ):
        puzzles.map.check(kernel)


def test_a_function_that_returns_nothing_is_refused():
    def blur_numpy(x):
        x * 2

    with pytest.raises(ArgumentError, match="returns None: return the result$"):
        puzzles.image_filter_numpy.check(blur_numpy)


def test_parameters_in_another_order_in_c_are_reported_with_reset():
    kernel = load_cuda(
        "__global__ void add_ten(const float *a, float *out) { out[0] = a[0]; }"
    )
    with pytest.raises(ArgumentError, match=r'\(out, a\).*map.reset\("cuda"\)'):
        puzzles.map.check(kernel)


@pytest.mark.parametrize("name", only([n for n in FIRST if n not in LONG], NAMES))
def test_the_published_answer_is_accepted_in_many_sizes_and_launches(name):
    puzzle = puzzles[name]
    solved = puzzle.check(puzzle.answer)
    assert isinstance(solved, Solved) and solved.language == "Python"
    verdict = solved.verdict
    assert verdict.sizes[0] == puzzle.drawn
    assert len(verdict.sizes) >= 3 or not puzzle.drawn
    if puzzle.is_kernel:
        fixed = "one block of 8 threads" in puzzle.plain_text
        assert len(set(verdict.shapes)) >= 2 - fixed and verdict.orders == 3


@each_puzzle
def test_every_puzzle_has_answers_in_several_styles(name):
    styles = [c for c in RIGHT if c.puzzle == name]
    assert [c for c in styles if not c.in_c], "the published one alone"
    assert [c for c in styles if c.in_c] or name not in KERNELS, "none in CUDA C"


@each_puzzle
def test_every_puzzle_has_wrong_answers(name):
    assert len([c for c in WRONG if c.puzzle == name]) >= 3


@pytest.mark.parametrize(
    "case",
    first_of_each(RIGHT, lambda case: case.in_c),
    ids=str,
)
def test_a_right_answer_is_accepted(case):
    solved = puzzles[case.puzzle].check(case.answer)
    assert solved.language == ("CUDA C" if case.in_c else "Python")


@pytest.mark.parametrize(
    "case",
    first_of_each(
        WRONG, lambda case: "in C" if case.in_c else puzzles[case.puzzle].group
    ),
    ids=str,
)
def test_a_wrong_answer_is_refused_with_a_sentence_that_helps(case):
    puzzle = puzzles[case.puzzle]
    with pytest.raises(Mismatch) as refused:
        puzzle.check(case.answer)
    text = str(refused.value)
    assert re.search(case.says, text), text
    if case.where:
        error = refused.value
        located = error.index is not None or error.thread is not None
        assert located or re.search(r"\bthread |\w\[\d", text), text
    assert not find_answer_lines(puzzle, text, case.given), text


def find_answer_lines(puzzle, text, own=""):
    """Return the answer's lines that a text contains.

    own: an answer that the text may quote.
    """
    if not isinstance(own, str):
        own = puzzle_module._read_source(own)
    shown, quoted = remove_spaces(text), remove_spaces(own)
    provided = remove_spaces(puzzle.stub + puzzle.cuda_c_stub + puzzle.spec_text)
    lines = [*puzzle.solved_text.splitlines(), *puzzle.cuda_c_answer.splitlines()]
    lines += [m[0] for line in lines if (m := re.match(r"\s*if \(\w+ < \w+\)", line))]
    lines = {remove_spaces(line).rstrip(":;{") for line in lines}
    solution_lines = {line for line in lines if len(line) > 6 and line not in provided}
    return [line for line in solution_lines if line in shown and line not in quoted]


def remove_spaces(text):
    return "".join(text.split())


def test_the_example_is_solved_without_a_mark(capsys):
    puzzle = puzzles.example
    assert puzzle.name not in puzzles
    assert puzzle.check(_compile_function(puzzle.stub, puzzle.answer)) is None
    assert puzzle.check(puzzle.answer).progress.count == puzzles.progress().count


# ---- languages -------------------------------------------------------------------


@pytest.mark.parametrize("group", only(["tiles"], GROUPS))
def test_the_published_answers_are_accepted_as_cuda_c(group):
    """One source contains all answers of a group, so that the compiler starts once."""
    kernels = [p for p in puzzles.groups[group] if p.is_kernel]
    helpers = {}
    for puzzle in kernels:
        for part in re.split(r"\n\n(?=\S)", puzzle.cuda_c_answer):
            helpers.setdefault(part, None)
    module = load_cuda("\n\n".join(helpers))  # for the CPU and, if there is one, a GPU
    for puzzle in kernels:
        assert puzzle.check(module).language == "CUDA C"


@pytest.mark.parametrize("name", only(["map"], FIRST))
def test_every_way_to_run_a_kernel_is_an_answer(name):
    puzzle = puzzles[name]
    assert puzzle.check(sim(puzzle.answer)).language == "Python"
    assert puzzle.check(as_cuda_c(puzzle.answer)).language == "Python"
    stub = load_cuda(puzzle.cuda_c_stub, target="cpu")
    assert puzzle.check(stub) is None
    assert puzzle.check(getattr(stub, puzzle.kernel_name)) is None
    assert puzzle.check(stub[1, 1]) is None


@pytest.mark.slow
@each_kernel
def test_the_published_answers_are_accepted_by_numba(name, monkeypatch):
    puzzle = puzzles[name]
    if name not in FIRST and puzzle.drawn:  # Numba's simulated threads are slow
        monkeypatch.setitem(puzzle.checks, "sizes", [puzzle.drawn])
    try:
        assert puzzle.check(numba_jit(puzzle.answer)).language == "Numba"
    except ArgumentError as error:  # Numba's simulator has no shuffles
        assert re.search("simulator", str(error)), error


@pytest.mark.parametrize("name", only(FIRST[:3], KERNELS))
def test_numba_compiles_the_published_answers(name):
    """Numba's compiler supports less than its simulator, for example no np.exp."""
    puzzle = puzzles[name]
    specs, values = puzzle.specs(), puzzle.checks.get("values") or {}
    arrays = {p: np.ones(1, specs[p].dtype or "float32") for p in specs}
    arguments = [
        {**arrays, **dict.fromkeys(values, 1.5)}.get(p, 1) for p in puzzle.parameters
    ]
    assert ".entry" in numba_jit(puzzle.answer).ptx(*arguments)


def test_numba_is_checked_too():
    puzzle = puzzles.example
    solved = puzzle.check(numba_jit(puzzle.answer))
    assert solved.language == "Numba" and "on Numba" in solved.verdict.name


def hasty(out, a):
    out[0] = -a[cuda.threadIdx.x]


def endless(out, a):
    i = cuda.threadIdx.x
    while a[i] == a[i]:
        out[i] = -a[i]


@pytest.mark.parametrize(
    ("answer", "says"), [(hasty, "which of them"), (endless, "its loop")]
)
def test_a_kernel_for_numba_is_refused_by_the_simulator(answer, says, monkeypatch):
    """Numba's simulator would not report the reason, and a GPU would never return."""
    # Even a busy machine reaches the loop in this time.
    monkeypatch.setattr(puzzle_module, "TIMEOUT", 1.0)
    with pytest.raises(Mismatch, match=says):
        puzzles.example.check(numba_jit(answer))


# ---- invalid answers ---------------------------------------------------------------


def halve_guarded(out, a, n):
    i = cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


def other_names(y, x, count):
    y[0] = x[0]


def too_few(out, a):
    out[0] = a[0]


def adds_by_the_spec(out, a, b):
    i = cuda.threadIdx.x
    out[i] = puzzles.zip.spec(a[i], b[i])


def adds_by_the_answer(out, a, b):
    puzzles["zip"].answer(out, a, b)


def add_ten(out, a, n):
    out[0] = a[0]


TWO = """__global__ void one(float *out, const float *a, int n) { out[0] = a[n - 1]; }
__global__ void two(float *out, const float *a, int n) { out[0] = a[n - 1]; }
"""


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("guards", 3, "this is 3 of type int, not a kernel; it takes a function, sim"),
        ("guards", "__global__ void k() {}", r"a string, not a kernel: .*load_cuda"),
        ("guards", puzzles, "not a kernel; it takes"),
        ("guards", len, "not a kernel; it takes"),
        ("guards", puzzles.guards, "this is a puzzle, not a kernel"),
        ("guards", other_names, r"parameters \(y, x, count\), .* \(out, a, n\)"),
        ("guards", too_few, r"too_few has the parameters \(out, a\), .* \(out, a, n\)"),
        ("guards", puzzles.map.answer, r"belongs to the puzzle map: puzzles\.map\."),
        ("guards", lambda out, a, n: None, "a function with a name"),
        ("image_filter_numpy", puzzles.image_filter_numpy.spec, "the spec itself"),
        ("zip", adds_by_the_spec, "adds_by_the_spec calls the puzzle's spec"),
        ("zip", adds_by_the_answer, "adds_by_the_answer calls the puzzle's answer"),
        ("image_filter_numpy", sim(halve_guarded), "takes a NumPy function"),
    ],
)  # fmt: skip
def test_an_invalid_answer_is_refused_in_one_sentence(name, answer, says):
    with pytest.raises(ArgumentError, match=says) as refused:
        puzzles[name].check(answer)
    assert "\n" not in str(refused.value)


def in_rows_and_columns(out, a, height, width):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    if row < height and col < width:
        out[row, col] = 255 - a[row, col]


def in_rows_of_rows(out, a, height, width):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = 255 - a[row][col]


@pytest.mark.parametrize(
    "form", only([sim], [lambda kernel: kernel, sim, as_cuda_c, numba_jit])
)
@pytest.mark.parametrize(
    ("answer", "says"),
    first_of_each(
        [
            (in_rows_and_columns, r"`out\[row, col\]`"),
            (in_rows_of_rows, r"a\[row\]\[col\]"),
        ],
        key=lambda _: "any",
        names=2,
    ),
)
def test_a_flat_array_takes_one_index(form, answer, says):
    """The puzzle teaches that index, and CUDA C gets only flat arrays."""
    puzzle = puzzles.map2d
    for call in (puzzle.check, puzzle.show):
        with pytest.raises(ArgumentError, match=says + ".*is flat") as refused:
            call(form(answer))
        assert not find_answer_lines(puzzle, str(refused.value), answer)
    tile = puzzles.transpose.answer  # a kernel's own arrays may have two indices
    assert puzzles.transpose.check(tile)


def test_the_puzzles_kernel_is_chosen_from_a_source_with_several():
    text = puzzles.guards.cuda_c_answer
    assert puzzles.guards.check(load_cuda(TWO + text, target="cpu"))
    with pytest.raises(ArgumentError, match=r"2 kernels \(one, two\) and none is halv"):
        puzzles.guards.check(load_cuda(TWO, target="cpu"))


def unknown_name(out, a, n):
    out[cuda.threadIdx.x] = b[0] + n  # noqa: F821


def bad_index(out, a, n):
    out[cuda.threadIdx.x] = (1, 2)[n]


def loops(out, a, n):
    i = 1
    while i:
        i = -i


def recurses(out, a, n):
    recurses(out, a, n)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            unknown_name,
            r"stopped at `out.* in thread 0 .*n=4.*NameError: name 'b' is no",
        ),
        (bad_index, r"thread 0 ends with IndexError: tuple index out of range \(line"),
        (loops, "ran for longer than 0.3 s"),
        (recurses, "a helper cannot call itself"),
    ],
)
def test_an_exception_inside_a_kernel_is_one_sentence(answer, says, monkeypatch):
    monkeypatch.setattr(puzzle_module, "TIMEOUT", 0.3)
    errors = (Mismatch, ArgumentError, FunctionTooLong)
    with pytest.raises(errors, match=says) as refused:
        puzzles.guards.check(answer)
    assert "\n" not in str(refused.value)


def test_a_refusal_has_no_traceback_in_a_notebook():
    def local(out, a, n):
        out[cuda.threadIdx.x] = a[cuda.threadIdx.x] + 10

    with pytest.raises(Mismatch) as refused:
        puzzles.guards.check(local)
    lines = refused.value._render_traceback_()
    assert "Mismatch: local is wrong with n=4, grid 1, block 8" in lines[0]
    assert len(lines) <= 7
    plain = [re.sub(r"\x1b\[\d*m", "", line) for line in lines]
    assert plain.pop().endswith("errors.html#error-mismatch")
    assert max(map(len, plain)) <= 74  # a page would break longer lines within a word
    line = "`out[cuda.threadIdx.x] = a[cuda.threadIdx.x] + 10`"
    number = local.__code__.co_firstlineno + 1
    expected = f"Mismatch: {refused.value} local, line {number}: {line}"
    assert " ".join(plain).split() == expected.split()


@pytest.fixture
def published(monkeypatch):
    """Return the data that a notebook displays, in a shell with a kernel."""
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setattr("weft.base.errors.running_shell", lambda: shell)
    bundles = []
    monkeypatch.setattr("IPython.display.publish_display_data", bundles.append)
    return bundles


def one_too_few(out, a, n):
    i = cuda.threadIdx.x
    print("here")
    if i < n - 1:
        out[i] = a[i] / 2


def test_a_wrong_answer_is_drawn_above_its_error(published, capsys, monkeypatch):
    with pytest.raises(Mismatch, match="one_too_few is wrong"):
        puzzles.guards.check(one_too_few)
    (bundle,) = published
    assert "1 of 4 elements of out differs from the goal" in bundle["text/html"]
    printed = capsys.readouterr().out
    monkeypatch.setattr(puzzle_module, "display_refused", lambda *_: None)
    with pytest.raises(Mismatch):
        puzzles.guards.check(one_too_few)
    assert capsys.readouterr().out == printed  # the run for the picture prints nothing


@pytest.mark.slow  # it simulates a million writes
def test_an_answer_that_costs_too_much_is_drawn_too(published, monkeypatch):
    # The test is not about the time limit, which a busy machine reaches.
    monkeypatch.setattr("weft.puzzles.puzzle.TIMEOUT", 60.0)

    def by_all(out, a, n):
        for i in range(n):
            out[i] = a[i] / 2

    with pytest.raises(Mismatch, match="writes 64 elements"):
        puzzles.guards.check(by_all)
    assert len(published) == 1


def test_only_wrong_answers_are_drawn(published):
    puzzle = puzzles.guards
    puzzle.check(puzzle.answer)
    puzzle.check(_compile_function(puzzle.stub, puzzle.answer))
    with pytest.raises(ArgumentError):
        puzzle.check(3)
    assert not published


def test_outside_a_notebook_nothing_is_drawn(published, monkeypatch):
    for shell in (None, types.SimpleNamespace()):
        monkeypatch.setattr("weft.base.errors.running_shell", lambda shell=shell: shell)
        with pytest.raises(Mismatch):
            puzzles.guards.check(one_too_few)
    assert not published


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, KernelError])
def test_a_picture_that_fails_does_not_change_the_error(
    published, monkeypatch, failure
):
    with pytest.raises(Mismatch) as plain:
        puzzles.guards.check(one_too_few)

    def fails(answer):
        raise failure("no picture")

    monkeypatch.setattr(puzzles.guards, "show", fails)
    with pytest.raises(Mismatch) as refused:
        puzzles.guards.check(one_too_few)
    assert str(refused.value) == str(plain.value) and len(published) == 1


def test_a_slow_picture_does_not_delay_the_error(published, monkeypatch):
    monkeypatch.setattr("weft.puzzles.answers.DRAWING", 0.2)

    def draws_forever(answer):
        while True:
            pass

    monkeypatch.setattr(puzzles.guards, "show", draws_forever)
    begun = time.perf_counter()
    with pytest.raises(Mismatch):
        puzzles.guards.check(one_too_few)
    assert time.perf_counter() - begun < 5 and not published


def test_an_exception_inside_a_shown_kernel_is_one_sentence():
    def misspelt(out, a, n):
        out[cuda.threadIdx.x] = a[0] + ten  # noqa: F821

    with pytest.raises(Mismatch, match="misspelt stopped at .*ten") as refused:
        puzzles.guards.show(misspelt)
    assert len(refused.value._render_traceback_()) <= 4


# ---- display ---------------------------------------------------------------------


def test_the_verdict_is_text_and_html():
    solved = puzzles.guards.check(puzzles.guards.answer)
    for page in (str(solved), solved._repr_html_()):
        assert "Guards" in page and "solved in Python" in page
    page = solved._repr_html_()
    assert "#000" not in page and "white" not in page  # a page may be light or dark


def test_reset_prints_the_stub_or_puts_it_into_a_new_cell(capsys, monkeypatch):
    puzzles.guards.reset()
    assert capsys.readouterr().out.strip() == puzzles.guards.stub
    cells = []

    class Shell:
        def set_next_input(self, text, replace):
            cells.append((text, replace))

    monkeypatch.setattr("weft.base.errors.running_shell", Shell)
    puzzles.guards.reset()
    puzzles.guards.reset("cuda")
    in_c = f"%%cuda\n{puzzles.guards.cuda_c_stub}"
    assert cells == [(puzzles.guards.stub, False), (in_c, False)]
    with pytest.raises(ArgumentError, match='"python" or "cuda"'):
        puzzles.guards.reset("numba")


def test_a_refusal_of_cuda_c_does_not_contain_the_cure():
    text = puzzles.guards.cuda_c_answer.replace("if (i < n) ", "")
    with pytest.raises(Mismatch, match="missing guard") as refused:
        puzzles.guards.check(load_cuda(text, target="cpu"))
    assert "cured" not in str(refused.value) and "< n" not in str(refused.value)


def test_a_notebooks_own_puzzle_has_the_name_of_its_kernel():
    puzzle = puzzles.Puzzle(
        **dict(title="Mine", text="As it is.", spec=lambda a: a, answer=add_ten),
        **dict(checks=dict(outputs={"out": "n"}, inputs={"a": "n"}), hints=["Look."]),
        **dict(drawn=dict(n=4), launch=(1, 4)),
    )
    assert (puzzle.name, puzzle.group) == ("add_ten", "")
    with pytest.raises(
        ArgumentError, match=r"mine requires launch=\(grid, block\) for"
    ):
        puzzles.Puzzle(
            **dict(title="Mine", text="As it is.", spec=lambda a: a, answer=add_ten),
            **dict(checks=dict(outputs={"out": "n"}), hints=[], drawn={}, name="mine"),
        )


def test_a_puzzle_shows_its_task_and_its_solution():
    puzzle = puzzles.guards
    for page in (repr(puzzle), puzzle._repr_html_()):
        assert "Guards" in page and "NotImplementedError" in page
    assert str(puzzle.solution) == puzzle.solved_text
    assert "if" in puzzle.solution._repr_html_()


# ---- python -m weft puzzles ------------------------------------------------------


def test_code_is_the_same_under_another_name_comment_and_docstring():
    text = 'def one(x):\n    """One."""\n    return x'
    assert is_same_code(text, 'def two(x):\n    """Two."""\n    # two\n    return x')
    assert is_same_code(text, "def one(x):\n    return x")
    assert not is_same_code(text, text.replace("return x", "return -x"))


def test_the_command_lists_all_puzzles_and_shows_the_task_of_one(capsys):
    assert weft_main(["puzzles"]) == 0
    output = capsys.readouterr().out
    assert all(f" {name} " in output for name in NAMES)
    assert f"of {len(NAMES)} puzzles" in output
    at = [output.index(f" {name} ") for name in NAMES]
    assert at == sorted(at)  # the rows have the order of the lessons
    lines = {line.split()[1]: line for line in output.splitlines() if line[0] == " "}
    minutes = {name: re.search(r"\d+ minutes", line) for name, line in lines.items()}
    assert set(minutes) == set(NAMES) and all(minutes.values())
    for notebook in LESSONS.values():
        assert f"(notebooks/{notebook})" in output
    assert weft_main(["puzzles", "guards", "--cuda"]) == 0
    output = capsys.readouterr().out
    assert puzzles.guards.text in output and "__global__" in output


def test_links_to_the_glossary_are_only_in_notebooks(capsys):
    assert "[thread](glossary.ipynb#thread)" in puzzles.map.text
    assert weft_main(["puzzles", "map"]) == 0
    for output in capsys.readouterr().out, repr(puzzles.map), puzzles.map._repr_html_():
        assert "with a thread for each number." in output and "glossary" not in output


def test_the_command_checks_a_file(tmp_path, capsys):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.cu"
    begin = "from weft import cuda\n\n\n"
    right.write_text(begin + puzzles.guards.solved_text)
    wrong.write_text(puzzles.guards.cuda_c_answer.replace("i < n", "i <= n"))
    assert weft_main(["puzzles", "check", str(right), "guards"]) == 0
    assert "solved in Python" in capsys.readouterr().out
    assert weft_main(["puzzles", "check", str(wrong), "guards"]) == 1
    verdict = tmp_path / "verdict.json"
    for file, expected in ((right, "solved"), (wrong, "wrong")):
        weft_main(["puzzles", "check", str(file), "guards", "--json", str(verdict)])
        result = json.loads(verdict.read_text())
        assert (result["puzzle"], result["verdict"]) == ("guards", expected)
        assert bool(result["counts"]) == (expected == "solved")
    assert "is wrong with n=4" in capsys.readouterr().out
    right.write_text(
        puzzles.guards.solved_text
    )  # like a printed stub, the answer has no import
    assert weft_main(["puzzles", "check", str(right), "guards"]) == 0
    assert "solved in Python" in capsys.readouterr().out
    right.write_text(begin + puzzles.guards.stub)
    assert weft_main(["puzzles", "check", str(right), "guards"]) == 1
    assert capsys.readouterr().out.startswith("guards: solved already, in Python on ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gards"], "no puzzle 'gards' (is it guards?); there are map"),
        (["check", "late.py", "guards"], "late.py, line 2: expected ':': if i < n"),
        (["check", "odd.py", "guards"], "odd.py: NameError: name 'tenn' is not"),
        (["check", "a.py"], "check FILE NAME"),
        (["map", "zip"], "expected nothing, a puzzle's name, or check FILE NAME"),
        (["check", "a.txt", "guards"], "a.txt: expected a .py or a .cu"),
        (["check", "no.cu", "guards"], "No such file"),
        (
            ["check", "two.py", "guards"],
            "needs halve_guarded, but this file has one, two",
        ),
    ],
)
def test_an_error_of_the_command_is_one_sentence(
    words, says, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.py").write_text("def one(): pass\ndef two(): pass\n")
    (tmp_path / "late.py").write_text("def late():\n    if i < n\n        pass\n")
    (tmp_path / "odd.py").write_text("tenn\n")
    assert weft_main(["puzzles", *words]) == 1
    sentence, *address = capsys.readouterr().err.splitlines()
    assert says in sentence and len(address) <= 1
    assert all(line.startswith("explain: https://") for line in address)
