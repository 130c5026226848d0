"""autotune(): its candidates, reasons to omit one, the race, and the cache."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from weft import autotune, bench, cuda, cuda_c, load_cuda
from weft.base.errors import ArgumentError, Mismatch
from weft.cells import CompileError
from weft.cells.gpu import nvrtc
from weft.timing.clocks import WallTimer
from weft.timing.race import Timed
from weft.toolchain import launch_config, native
from weft.tune import right, session
from weft.tune.c_function import load_c
from weft.tune.sources import bound, with_globals, with_values
from weft.tune.tuned import Candidate

TWICE = """
enum { T = 64, OFF = 0 };
static_assert(T != 96, "no whole number of halves");
__global__ void twice(float *y, const float *x, int n) {
    __shared__ float s[T];
    int i = blockIdx.x * T + threadIdx.x;
    if (i < n) s[threadIdx.x] = 2 * x[i] + OFF;
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x];
}
"""
SUM = """
enum { STEP = 4 }; // rows at once
static float once(const float *x, int from, int to) {
    float sum = 0;
    for (int i = from; i < to; i++) sum += x[i];
    return sum;
}
void total(float *out, const float *x, int n) {
    *out = 0;
    for (int i = 0; i < n; i += STEP)
        *out += once(x, i, i + STEP < n ? i + STEP : n);
}
"""
N = 100


def arrays(n=N):
    x = torch.linspace(-1, 1, n)
    return torch.zeros(n), x, n


def tuned(kernel, space, check=lambda x: 2 * x, args=None, **more):
    more.setdefault("launch", lambda T: (-(-N // T), T))
    return autotune(
        kernel, space, args=args or arrays(), check=check, progress=False, **more
    )


# ---- constants -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("enum { A = 1, B = A * 2 };", "enum { A = 7, B = A * 2 };"),
        ("enum t : int { B = A, A = f(1, 2) }; A", "enum t : int { B = A, A = 7 }; A"),
        ("#define A 16 // rows\nA", "#define A 7 // rows\nA"),
        ("  # define  A (1 << 4)\nA", "  # define  A 7\nA"),
        ("constexpr int A = 4; A", "constexpr int A = 7; A"),
        ("static const int B = 1, A = g(B, 2); A", "static const int B = 1, A = 7; A"),
        ("/* A = 1 */ enum { A = 2 }; A", "/* A = 1 */ enum { A = 7 }; A"),
    ],
)  # fmt: skip
def test_a_value_replaces_the_definition_in_the_source(source, made):
    assert with_values(source, {"A": 7}) == (made, [])


def test_text_that_only_looks_like_a_definition_stays():
    text = "if (A == 1) { AA = 3; x.A = 4; int b = A; }"
    assert with_values(text, {"A": True}) == (text, ["-DA=1"])
    assert with_values("f();", {"A": 7}, "f() { A }") == ("f();", ["-DA=7"])


def test_a_constant_that_nothing_depends_on_is_an_error():
    with pytest.raises(ArgumentError, match="use the constant TILES: did you mean TIL"):
        with_values("enum { TILE = 1 }; TILE", {"TILES": 2})
    with pytest.raises(ArgumentError, match="the source defines A, but nothing"):
        with_values("enum { A = 1 }; f();", {"A": 2})
    with pytest.raises(ArgumentError, match="does not use the constant STEPS"):
        autotune(SUM, {"STEPS": 1}, args=arrays(), check=torch.sum)


def helper(i):
    return i * FACTOR


FACTOR = 2


def scaled(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = helper(x[i])


def test_a_python_kernel_gets_values_also_in_functions_that_it_calls():
    best = tuned(scaled, {"FACTOR": (1, 2)}, launch=lambda: (1, 128))
    assert best.constants == {"FACTOR": 2} and FACTOR == 2
    wrong = [row["rung"] for row in best.rows if row["state"] == "wrong"]
    assert wrong == ["FACTOR=1"]
    assert tuned(cuda_c(scaled), {"FACTOR": 2}, launch=lambda: (1, 128))["FACTOR"] == 2
    with pytest.raises(ArgumentError, match="scaled does not use the constant TILE"):
        tuned(scaled, {"TILE": 2}, launch=lambda: (1, 128))


def test_a_closed_over_constant_can_be_set():
    width = 3

    def wide():
        return width

    assert with_globals(wide, {"width": 5})() == 5 and wide() == 3


# ---- the space -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "expected names and values"),
        ({"T": ()}, "T has no values"),
        ({"2T": (1,)}, "'2T' is not a valid name"),
        ({"T": (None,)}, "expected numbers, or strings of C"),
        ({c: range(100) for c in "ABCD"}, "100000000 combinations"),
        ({"T": range(10**12)}, "T has 1000000000000 values, at most 200000"),
        ({"T": (2048, 4096)}, r"none of 2 .*\(not launchable 2\).*T=2048: block"),
    ],
)
def test_an_invalid_space_is_refused_with_its_numbers(space, message):
    with pytest.raises(ArgumentError, match=message):
        tuned(TWICE, space)


def test_a_function_with_an_unknown_constant_is_refused():
    with pytest.raises(ArgumentError, match="where has the parameters S; .* are T"):
        tuned(TWICE, {"T": 32}, where=lambda T, S: True)
    with pytest.raises(ArgumentError, match="launch returned 32 for T=32: expected"):
        tuned(TWICE, {"T": 32}, launch=lambda T: T)
    with pytest.raises(ArgumentError, match="requires launch="):
        tuned(TWICE, {"T": 32}, launch=None)
    with pytest.raises(ArgumentError, match=r"none of 2 candidates .*\(where 2\)"):
        tuned(TWICE, {"T": (32, 64)}, where=lambda: False)


# ---- on a processor --------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "file", "kernel", "function"])
def test_without_a_gpu_candidates_are_pruned_and_checked(form, tmp_path):
    if form == "text":
        kernel = TWICE
    elif form == "file":
        kernel = tmp_path / "twice.cu"
        kernel.write_text(TWICE)
    elif form == "kernel":
        kernel = load_cuda(TWICE, target="cpu").twice
    else:

        def kernel(T, OFF):
            return load_cuda(with_values(TWICE, {"T": T, "OFF": OFF})[0], target="cpu")

    values = (2048, 96, 32, 64)
    best = tuned(
        kernel,
        {"T": values, "OFF": (1, 0)},
        where=lambda T, OFF: OFF == 0 or T == 32,
    )
    assert best.constants == {"T": 32, "OFF": 0} and best.us is None
    states = {row["rung"]: row["state"] for row in best.rows}
    assert states == {
        **{"T=32 OFF=0": "right", "T=64 OFF=0": "right", "T=32 OFF=1": "wrong"},
        **{"T=2048 OFF=0": "pruned", "T=96 OFF=0": "pruned"},
    }
    assert best.counts == {
        **{"where": 3, "not launchable": 1, "does not compile": 1, "wrong": 1}
    }
    text = repr(best)
    assert "not timed" in text and "WRONG, and so not timed: T=32 OFF=1: y[0]" in text
    y, x, n = arrays()
    best(y, x, n)
    assert torch.equal(y, 2 * x)
    with pytest.raises(
        ArgumentError, match=r"argument 2 has shape \(7,\), and the grid"
    ):
        best(y, x[:7], 7)


def test_if_nothing_compiles_the_first_error_is_raised():
    with pytest.raises(CompileError, match="no whole number of halves"):
        tuned(TWICE, {"T": 96})


def test_all_wrong_is_one_error_with_an_element():
    with pytest.raises(
        Mismatch, match=r"all 2 candidates are wrong.*T=32: y\[0\] is -2"
    ):
        tuned(TWICE, {"T": (32, 64)}, check=lambda x: 3 * x)


def test_the_readers_arrays_are_not_changed():
    y, x, _ = args = arrays()
    tuned(TWICE, {"T": 32}, args=args)
    assert not y.any() and torch.equal(x, arrays()[1])


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_a_block_that_does_not_fit_is_pruned():
    best = tuned(
        TWICE,
        {"T": (32, 64)},
        launch=lambda T: (-(-N // T), T, 227 << 10 if T == 32 else 0),
    )
    assert best["T"] == 64 and best.counts == {"shared memory": 1}
    assert best.row["occupancy"] == 1 and best.row["shared"] == 256


def test_too_much_static_shared_memory_is_a_separate_reason():
    large = TWICE.replace("s[T]", "s[T + 20000 * OFF]").replace("+ OFF", "")
    best = tuned(large, {"OFF": (1, 0), "T": 32})
    assert best["OFF"] == 0 and best.counts == {"shared memory": 1}
    one = Candidate({"T": 1}, shape=launch_config.parse("twice", (1, 32)))
    session._check_occupancy(
        one, "twice", nvrtc.Usage(registers=8, shared=50_000), "sm_90"
    )
    assert one.why.startswith("50000 bytes of static shared memory, at most 49152")


def test_a_candidate_with_far_fewer_warps_than_the_best_is_pruned():
    candidates = [Candidate({"T": i}, occupancy=i / 100) for i in (4, 11, 100)]
    session.keep_occupied([*candidates, Candidate({"T": 0})], 0.1)
    assert [one.state for one in candidates] == ["pruned", "ready", "ready"]
    assert candidates[0].why == (
        "occupancy 4.0%, less than 0.1 times the 100.0% of T=100"
    )


# ---- right or wrong --------------------------------------------------------------


def product(c, a, b):
    c.copy_(a @ b)


def answer(args=None, reference=lambda a, b: a @ b, inout=(), terms=None):
    seeded = torch.Generator().manual_seed(0)
    a, b = (torch.rand(*shape, generator=seeded) for shape in ((40, 300), (300, 50)))
    args = args or (torch.zeros(40, 50), a, b)
    arguments = right.Arguments(args, "cab"[: len(args)], () if inout else "c", inout)
    return right.ReferenceAnswer(reference, arguments, terms)


def test_rounding_is_right_and_a_missing_product_is_not():
    assert answer().require(product) < 1
    with pytest.raises(Mismatch, match=r"c\[0, 0\] is .* of 2000"):
        answer().require(lambda c, a, b: c.copy_(a[:, 1:] @ b[1:]))
    with pytest.raises(Mismatch, match=r"c\[0, 0\] is .* of 2000"):
        answer().require(lambda c, a, b: c.copy_(a.bfloat16() @ b.bfloat16()))


def test_a_softmax_may_add_up_its_rows_in_any_order():
    """The shapes do not reveal that rows are summed, but the reference does."""
    x = torch.rand(2000, 4).T
    arguments = right.Arguments((torch.zeros(4, 2000), x), ["y", "x"], "y", ())
    expected = right.ReferenceAnswer(lambda x: x.softmax(1), arguments, None)

    def off(y, x):
        y.copy_(x.double().softmax(1) * (1 + 2.0**-24 * 500))

    assert 0 < expected.require(off) < 1
    plain = right.ReferenceAnswer(lambda x: 2 * x, arguments, None)
    with pytest.raises(Mismatch):
        plain.require(lambda y, x: y.copy_(2 * x.double() * (1 + 2.0**-24 * 12)))


def test_missing_writes_and_writes_outside_are_wrong():
    with pytest.raises(Mismatch, match=r"c\[39, 49\] is nan, expected"):
        answer().require(lambda c, a, b: c.view(-1)[:-1].copy_((a @ b).view(-1)[:-1]))

    def beyond(by):
        def run(c, a, b):
            product(c, a, b)
            torch.as_strided(c, (1,), (1,), c.storage_offset() + by).fill_(0)

        return run

    for by, side in ((2000, "past its end"), (-1, "before its start")):
        with pytest.raises(Mismatch, match=rf"c\[{by}\] was written, which is {side}"):
            answer().require(beyond(by))


def test_an_updated_array_starts_with_its_values():
    args = torch.ones(5), torch.arange(5.0)
    expected = answer(args, lambda c, a: c + 2 * a, inout="c")
    assert expected.require(lambda c, a: c.add_(2 * a)) < 1
    with pytest.raises(Mismatch):
        expected.require(lambda c, a: c.copy_(2 * a))


@pytest.mark.parametrize("how", ["names", "order", "numpy", "whole"])
def test_a_reference_is_called_by_names_or_in_order(how):
    if how == "names":
        answer(reference=lambda b, a: a @ b).require(product)
    elif how == "order":
        answer(reference=torch.mm).require(product)
    elif how == "numpy":
        a, b = np.ones((2, 3), "f"), np.ones((3, 4), "f")
        args = np.zeros((2, 4), "f"), a, b
        answer(args, lambda a, b: np.matmul(a, b)).require(product)
    else:
        args = torch.zeros(3, dtype=torch.int32), torch.arange(3)
        expected = answer(args, lambda a: 2 * a)
        expected.require(lambda c, a: c.copy_(2 * a))
        with pytest.raises(Mismatch, match=r"c\[1\] is 3, expected 2"):
            expected.require(lambda c, a: c.copy_(2 * a + (a == 1)))


def test_an_invalid_reference_is_refused():
    with pytest.raises(ArgumentError, match=r"c with shape \(40, 40\), .* \(40, 50"):
        answer(reference=lambda a, b: a @ a.T)
    with pytest.raises(
        ArgumentError, match="returned 2 arrays, but the kernel writes 1: c"
    ):
        answer(reference=lambda a, b: (a, b))
    with pytest.raises(ArgumentError, match="expected a function of the inputs"):
        answer(reference=7)
    with pytest.raises(
        ArgumentError, match="args: got 2 values, but the kernel takes 3"
    ):
        tuned(TWICE, {"T": 32}, args=arrays()[:2])
    with pytest.raises(ArgumentError, match="z is not a parameter of the kernel"):
        tuned(TWICE, {"T": 32}, inout=("z",))


# ---- the race --------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock: a candidate takes as many µs as its constant, US.

    rounds: the candidates and samples of each race; taken: US of each call.
    """
    rounds = []

    def us_of(name):
        return float(name.partition("=")[2])

    def race(contenders, device, timer, *, samples, **_):
        rounds.append((sorted(map(us_of, contenders)), samples))
        timings = {n: bench.summarize([us_of(n)] * samples, timer) for n in contenders}
        return {
            n: Timed(t, "cpu", "warm", True, 0.0, "spread", 1, 0.0, [t.median])
            for n, t in timings.items()
        }

    def span(self, one, calls):
        one.run_once()
        return float(calls_us[-1])

    calls_us = []
    monkeypatch.setattr(session, "race", race)
    monkeypatch.setattr(WallTimer, "span", span)
    return SimpleNamespace(rounds=rounds, taken=calls_us)


def timed_function(clock):
    def load(US):
        def run(y, x):
            clock.taken.append(US)
            y.copy_(2 * x)

        return run

    return load


def tune_functions(clock, values, **more):
    return autotune(
        timed_function(clock),
        {"US": values},
        args=arrays()[:2],
        check=lambda x: 2 * x,
        progress=False,
        **more,
    )


def test_the_slower_half_leaves_after_each_round(clock):
    values = [170, 100, 180, 110, 160, 120, 150, 130, 140, 900]
    best = tune_functions(clock, values)
    assert best["US"] == 100 and best.us == 100
    # 900 is dropped after two calls. Each round then drops the slower half and takes
    # more samples of the others.
    assert clock.rounds == [
        (list(range(100, 190, 10)), 3),
        ([100, 110, 120, 130, 140], 6),
        ([100, 110, 120], 200),
    ]
    states = [(row["constants"]["US"], row["state"]) for row in best.rows]
    assert states[:3] == [(100, "timed"), (110, "timed"), (120, "timed")]
    assert {state for _, state in states[3:]} == {"dropped"}
    assert "after two calls: 9.0 times the fastest" in best.rows[-1]["why"]
    assert best.rows[-1]["us"] is None and best.rows[-1]["us_at_sight"] == 900


def test_candidates_as_fast_as_the_best_stay_and_the_race_ends(clock):
    best = tune_functions(clock, [100, 100.1, 100.2, 100.3, 100.4, 100.5])
    assert best["US"] == 100
    assert len(clock.rounds[-1][0]) == 6 and len(clock.rounds) < 10


def test_ctrl_c_returns_the_results_so_far(clock, monkeypatch):
    race, rounds = session.race, []

    def interrupted(*args, **more):
        rounds.append(1)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return race(*args, **more)

    monkeypatch.setattr(session, "race", interrupted)
    best = tune_functions(clock, [130, 120, 110, 140, 150, 160, 170])
    assert best["US"] == 110 and best.stopped and "stopped before the end" in repr(best)


def test_an_axis_of_similar_times_starts_at_0(clock):
    best = tune_functions(clock, [100, 170, 110])
    axes = best.plot().axes[0]
    ticks = list(axes.get_yticks())
    assert ticks[0] == 0 and ticks[-1] >= 150 and axes.get_ylim()[0] < 0


def test_slow_candidates_are_in_the_rows_and_pictures(clock, tmp_path):
    best = tune_functions(clock, [100, 700, 110, 120, 180])
    best.save(tmp_path / "tuned.json")
    rows = bench.read_json(tmp_path / "tuned.json")["rows"]
    assert rows[0]["constants"] == {"US": 100} and rows[0]["timer"] == "wall"
    assert {"op", "impl", "rung", "precision", "target", "device", "us_low"} <= set(
        rows[0]
    )
    page = best._repr_mimebundle_()["text/html"]
    assert page.count("<img") == 1 and "100 µs" in page and "dropped early" in page
    with pytest.raises(ArgumentError, match="no constant 'VS'; there are US"):
        best.heat("US", "VS")
    heat = best.heat("US", "US")._repr_mimebundle_()
    assert "<img" in heat["text/html"] and "y axis: US" in heat["text/plain"]


# ---- the cache -------------------------------------------------------------------


@pytest.fixture
def remembered(monkeypatch, tmp_path):
    monkeypatch.setattr(session.store, "cache_folder", lambda *parts: tmp_path)
    return tmp_path


def total(source=SUM, n=1000, check=torch.sum, **more):
    args = torch.zeros(1), torch.ones(n), n
    more |= {"args": args, "check": check, "progress": False}
    return autotune(source, {"STEP": (1, 8)}, **more)


def test_a_choice_is_remembered_by_source_and_size(remembered, monkeypatch):
    monkeypatch.setattr(session, "SECONDS", 0.02)
    first = total()
    assert first.us > 0 and not first.cached and first["STEP"] in (1, 8)
    second = total()
    assert second.cached and second.constants == first.constants
    assert second.us == pytest.approx(first.us) and "from an earlier call" in repr(
        second
    )
    out = torch.zeros(1)
    second(out, torch.ones(1000), 1000)
    assert out == 1000
    assert not total(n=999).cached
    assert not total(SUM.replace("// rows", "// row")).cached
    assert not total(retune=True).cached
    # The cached result does not count for another reference.
    with pytest.raises(Mismatch, match="all 2 candidates are wrong"):
        total(check=lambda x: 2 * torch.sum(x))
    for path in remembered.glob("*.json"):
        path.write_text("{")
    assert not total().cached


def test_each_device_has_its_own_choice(remembered, monkeypatch):
    monkeypatch.setattr(session, "SECONDS", 0.02)
    assert not total().cached and total().cached
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(session, "device_name", lambda device: "Invented GPU")
        assert not total().cached  # another device may have another winner
        assert total().cached
    assert total().cached and len([*remembered.glob("*.json")]) == 2


# ---- plain C ---------------------------------------------------------------------


def test_c_is_compiled_and_called_and_errors_have_the_readers_line():
    function = load_c(SUM, None)
    out = np.zeros(1, np.float32)
    function(out, np.arange(5, dtype=np.float32), 5)
    assert out == 10 and function.__name__ == "total"
    with pytest.raises(ArgumentError, match="float64"):
        function(out, np.arange(5.0), 5)
    with pytest.raises(CompileError, match=r"line 11: error: .*\n.*i \+ STEP <"):
        load_c(SUM.replace(" : n)", " : )"), None)
    with pytest.raises(ArgumentError, match="these functions: total, other; pass one"):
        load_c(SUM + "int other(void) { return 1; }", None)
    with pytest.raises(ArgumentError, match="cffi cannot parse it"):
        load_c("typedef double real;\nvoid f(real x) { }", None)


# ---- on a GPU --------------------------------------------------------------------


def test_a_python_kernel_is_launched_on_torchs_stream(monkeypatch):
    keys = []
    runner = cuda_c(scaled)
    monkeypatch.setattr(type(runner), "__getitem__", lambda self, key: keys.append(key))
    for shared in (0, 64):
        shape = launch_config.parse("scaled", (2, 32, shared))
        bound(runner, Candidate({}, shape=shape))
    stream = [key[2] if len(key) > 2 else None for key in keys]
    assert stream == [None, None] and keys[1][3] == 64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_on_a_gpu_the_fastest_is_found_and_remembered(remembered):
    n = 1 << 20
    x = torch.randn(n, device="cuda")
    args = torch.zeros_like(x), x, n
    for cached in (False, True):
        best = autotune(
            TWICE,
            {"T": (1, 64, 256, 1024, 4096)},
            launch=lambda T: (-(-n // T), T),
            args=args,
            check=lambda x: 2 * x,
            progress=False,
        )
        assert best.cached is cached and best.us > 0
        assert best["T"] != 1  # a warp with one active lane is slow on any GPU
        assert best.counts == {"not launchable": 1}
        assert re.search(r"timer graph", repr(best))
    best(*args)
    assert torch.equal(args[0], 2 * x) and not native.explain_lost()
    best = tuned(
        scaled, {"FACTOR": (1, 2)}, args=args, launch=lambda: (-(-n // 256), 256)
    )
    assert best["FACTOR"] == 2 and best.us > 1
