"""Operations that PTX defines but C++ does not: shifts by the width, conversions.

_shift() and _converted() implement PTX's definitions (ISA 9.0, shl, shr and cvt). An
NVIDIA H200 gave the same results for every row of simt/undefined.json. A watched launch
gives the GPU's number, or a finding that names it.
"""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from weft.base.errors import KernelFault
from weft.cells import load_cuda
from weft.cells.gpu import loader as gpu
from weft.cells.gpu import nvrtc
from weft.programs import program
from weft.pykernel.sim import sim
from weft.pykernel.sim.numbers import cast
from weft.toolchain import build

MEASURED = json.loads(
    (Path(__file__).parents[1] / "kernels/simt/undefined.json").read_text()
)
COLUMNS = {  # for each result type: its name in C, its bits, whether it is signed
    **{"char": ("signed char", 8, True), "uchar": ("unsigned char", 8, False)},
    **{"short": ("short", 16, True), "ushort": ("unsigned short", 16, False)},
    **{"int": ("int", 32, True), "uint": ("unsigned", 32, False)},
    **{"ll": ("long long", 64, True), "ull": ("unsigned long long", 64, False)},
}
WIDTHS = {"int": (32, True), "unsigned": (32, False), "ll": (64, True)}
WIDTHS["ull"] = (64, False)
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
VALUES = [float(name) for name in MEASURED["conversions"]["f32"]]
SAYS = re.compile(r"a GPU gives (-?\d+), a CPU may give (-?\d+|another number)")


# ---- PTX's definitions ---------------------------------------------------------------


def _low(value: int, bits: int, signed: bool) -> int:
    """Return the low bits of a number as a number of a type."""
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> bits - 1 else value


def _shift(value: int, count: int, bits: int, signed: bool) -> tuple[int, int]:
    """Return shl.b and shr.s or shr.u; the 32-bit count is clamped to the width."""
    count = min(count % (1 << 32), bits)
    return _low(value << count, bits, signed), value >> count


def _cvt(value: float, kind: str, bits: int, signed: bool) -> int:
    """Return cvt.rzi.s or .u of an f16, f32 or f64, which clamps."""
    if value != value:
        top = _low(1 << bits - 1, bits, signed)
        return 0 if bits < 64 and kind != "f64" else top
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if abs(value) == float("inf"):
        return high - 1 if value > 0 else low
    return min(max(int(value), low), high - 1)


def _converted(value: float, kind: str, bits: int, signed: bool) -> int:
    """Return the result of nvcc's cast, which converts a float to at least 32 bits."""
    wide = bits if kind == "f16" else max(bits, 32)
    return _low(_cvt(value, kind, wide, signed), bits, signed)


def test_an_h200_gave_what_ptx_defines():
    for kind, rows in MEASURED["conversions"].items():
        for name, measured in rows.items():
            with np.errstate(over="ignore"):
                value = float(FLOATS[kind](float(name)))
            for (_, bits, signed), got in zip(COLUMNS.values(), measured, strict=True):
                want = _converted(value, kind, bits, signed)
                assert _low(got, bits, signed) == want, (kind, name, bits, signed)
    assert len(MEASURED["shifts"]) > 300
    for name, value, count, left, right in MEASURED["shifts"]:
        bits, signed = WIDTHS[name]
        want = _shift(_low(value, bits, signed), count, bits, signed)
        assert (_low(left, bits, signed), _low(right, bits, signed)) == want


def _compile_to_ptx(source):
    return gpu.compile_only(source, "sm_90", ["k"]).program.ptx


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_nvidias_compiler_takes_those_instructions():
    body = "".join(f"o[{i}] = ({c[0]})x[0];" for i, c in enumerate(COLUMNS.values()))
    text = "__global__ void k(long long *o, const {0} *x) {{ {1} }}"
    for type_, suffix in (("float", "f32"), ("double", "f64")):
        ptx = _compile_to_ptx(text.format(type_, body))
        names = set(re.findall(r"cvt\.rzi\.(\w+\.\w+)", ptx))
        assert names == {f"{i}.{suffix}" for i in ("s32", "u32", "s64", "u64")}
    shifts = "*a <<= *k; *a >>= *k; *b <<= *k; *b >>= *k;"
    for type_, bits in (("int", 32), ("long long", 64)):
        head = f"{type_} *a, unsigned {type_} *b, const int *k"
        ptx = _compile_to_ptx(f"__global__ void k({head}) {{ {shifts} }}")
        names = re.findall(r"\bsh[lr]\.\w+", ptx)
        assert names == [f"sh{what}{bits}" for what in ("l.b", "r.s", "l.b", "r.u")]


# ---- cells -----------------------------------------------------------------------


def _kernel(lines: list[str], head: str) -> str:
    """Return a kernel k with one expression per line, the first on line 2."""
    body = "".join(f"o[{i}] = {line};\n" for i, line in enumerate(lines))
    return f"__global__ void k(long long *o, {head}) {{\n{body}}}\n"


def _told(report) -> dict[int, str]:
    """Return the findings by index of their line in _kernel(), at most one per line."""
    assert len({one.line for one in report.findings}) == len(report.findings)
    assert {one.kind for one in report.findings} <= {"undefined"}
    return {one.line - 2: one.text for one in report.findings}


def _right_or_told(out, findings: dict[int, str], expected: list[int]) -> list[bool]:
    """Return which lines have a finding; check that the others match a GPU."""
    for i, want in enumerate(expected):
        if i in findings:
            match = SAYS.search(findings[i])
            assert match and match[1] == str(want) != match[2], (findings[i], want)
        else:
            assert (int(out[i]) - want) % (1 << 64) == 0, (i, int(out[i]), want)
    return [i in findings for i in range(len(expected))]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_conversion_gives_the_gpus_number_or_a_finding(kind):
    lines = [f"({type_})*x" for type_, *_ in COLUMNS.values()]
    head = f"const {'float' if kind == 'f32' else 'double'} *x"
    cell = load_cuda(_kernel(lines, head), watched=True)
    every = []
    for value in [*VALUES, 7.9, 127.5, -128.5, 255.5, -1.5, 1e9, -1e9]:
        out, x = np.full(8, 99, np.int64), np.array([value], FLOATS[kind])
        cell.k[1, 1](out, x)
        expected = [_converted(float(x[0]), kind, *c[1:]) for c in COLUMNS.values()]
        reported = _right_or_told(out, _told(cell.k.report), expected)
        if np.isfinite(value):  # a number that fits has no finding
            fits = [int(x[0]) == want for want in expected]
            assert not any(map(min, reported, fits)), value
        every += reported
    assert 40 < sum(every) < 110  # findings for 160 conversions


@pytest.mark.parametrize("name", WIDTHS)
def test_a_shift_gives_the_gpus_number_or_a_finding(name):
    bits, signed = WIDTHS[name]
    sign = "" if signed else "unsigned "
    type_ = f"{sign}{'int' if bits == 32 else 'long long'}"
    cell = load_cuda(
        _kernel(["*x << *k", "*x >> *k"], f"const {type_} *x, const long long *k"),
        watched=True,
    )
    rows = [row for row in MEASURED["shifts"] if row[0] == name]
    for _, value, count, *_ in rows:
        value = _low(value, bits, signed)
        out = np.full(2, 99, np.int64)
        x = np.array([value], f"{'i' if signed else 'u'}{bits // 8}")
        cell.k[1, 1](out, x, np.array([count]))
        expected = list(_shift(value, count, bits, signed))
        reported = _right_or_told(out, _told(cell.k.report), expected)
        assert reported == [not 0 <= count < bits] * 2, (value, count)


def test_a_finding_has_its_place_its_numbers_and_a_cure():
    cell = load_cuda(
        """__global__ void k(int *y, unsigned char *b, const float *f, int n) {
    y[threadIdx.x] = (y[threadIdx.x] << 2) >> n;
    y[threadIdx.x] <<= n;
    b[threadIdx.x] = f[threadIdx.x];
}""",
        watched=True,
    )
    y, b = np.full(4, -256, np.int32), np.zeros(4, np.uint8)
    cell.k[1, 4](y, b, np.array([3, -5, -6, -0.5], np.float32), 40)
    right, left, cast_ = sorted(cell.k.report.findings, key=lambda one: one.line)
    assert right.text == (
        "thread 0 shifts -1024 (int, 32 bits) by 40: a GPU gives -1, a CPU may give -4"
    )
    assert (right.line, right.count, right.thread) == (2, 4, (0, 0, 0))
    assert left.text.endswith("by 40: a GPU gives 0, a CPU may give -1024")
    assert "k < 32 ? x << k : 0" in left.cure
    assert cast_.text == (
        "thread 1 converts -5 (float) to unsigned char: a GPU gives 0, a CPU may give "
        "251"
    )
    assert (cast_.line, cast_.count) == (4, 2) and "__float2int_rz()" in cast_.cure


def test_two_findings_of_a_line_that_is_rewritten_are_two():
    body = "__shared__ int s[4]; s[0] = (int)x[0]; y[0] = s[0] << n;"
    source = f"__global__ void k(int *y, const float *x, int n) {{ {body} }}"
    cell = load_cuda(source, watched=True)
    cell.k[1, 1](np.zeros(1, np.int32), np.array([1e12], np.float32), 40)
    verbs = sorted(one.text.split()[2] for one in cell.k.report.findings)
    assert verbs == ["converts", "shifts"]


def test_what_the_compiler_knows_is_told_too():
    lines = ["1 << n", "(int)1e12f", "(unsigned char)300.0f", "(int)(n * 0.5f)"]
    source = _kernel(lines, "int unused").replace("{\n", "{ const int n = 40;\n", 1)
    cell = load_cuda(source, watched=True)
    cell.k[1, 1](np.zeros(4, np.int64), 0)
    findings = _told(cell.k.report)
    assert {i: int(SAYS.search(text)[1]) for i, text in findings.items()} == {
        **{0: 0, 1: (1 << 31) - 1, 2: 44}
    }


def test_being_watched_for_it_costs_no_loads():
    source = "__global__ void k(int *y, const float *x, int n) { y[threadIdx.x] = "
    cell = load_cuda(
        source + "(int)x[0] + ((int)x[0] << n) + (int)x[0]; }", watched=True
    )
    y = np.zeros(1, np.int32)
    cell.k[1, 1](y, np.array([3], np.float32), 2)
    places = cell.k.report.counters.places
    assert y[0] == 18 and [p.accesses for p in places if p.array == "x"] == [1]


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "plain"])
def test_intrinsics_and_half_give_the_gpus_numbers_in_all_builds(watched):
    to = {"int": (32, True), "uint": (32, False), "ll": (64, True), "ull": (64, False)}
    lines = [f"__{f}2{t}_rz(*{f[0]})" for f in ("float", "double") for t in to]
    lines += [f"({type_})*h" for type_, *_ in COLUMNS.values()]
    head = "const float *f, const double *d, const __half *h"
    cell = load_cuda("#include <cuda_fp16.h>\n" + _kernel(lines, head), watched=watched)
    for value in VALUES:
        out = np.full(len(lines), 99, np.int64)
        with np.errstate(over="ignore"):
            x = [np.array([value], kind) for kind in (np.float32, float, np.float16)]
        cell.k[1, 1](out, *x)
        expected = [_cvt(float(x[0][0]), "f32", *t) for t in to.values()]
        expected += [_cvt(value, "f64", *t) for t in to.values()]
        half = float(x[2][0])
        expected += [_converted(half, "f16", *c[1:]) for c in COLUMNS.values()]
        assert not _right_or_told(out, {}, expected).count(True), value
        assert not watched or cell.k.report.ok


# ---- an int that overflows -----------------------------------------------------------

WRAPS = "__global__ void k(int *y, int x) { y[0] = x + 1 < x; y[1] = x * 2; }"


@pytest.mark.parametrize("flags", ["", "-O3"])
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "plain"])
def test_an_int_wraps_in_a_cell(watched, flags):
    y = np.zeros(2, np.int32)
    load_cuda(WRAPS, watched=watched, flags=flags).k[1, 1](y, (1 << 31) - 1)
    assert y.tolist() == [1, -2]


@pytest.mark.parametrize("check", [True, False], ids=["inspect", "run"])
def test_an_int_wraps_in_a_program(tmp_path, check):
    source = tmp_path / "wraps.cu"
    main = "int *y; cudaMallocManaged(&y, 8); k<<<1, 1>>>(y, 0x7fffffff);"
    main += 'cudaDeviceSynchronize(); printf("%d %d", y[0], y[1]);'
    source.write_text(f"#include <stdio.h>\n{WRAPS}\nint main() {{ {main} }}\n")
    executable = program.build_executable(program.Program([str(source)], check=check))
    process = subprocess.run([executable], text=True, capture_output=True, check=True)
    assert process.stdout == "1 -2"


def test_an_int_wraps_in_an_ops_library():
    command = build._make_command(
        build.KERNELS / "common/common.cu", build.Flavour.here("cpu")
    )
    assert "-fwrapv" in command


# ---- what docs/cells.md lists -----------------------------------------------------


@pytest.mark.parametrize("a, b", [(7, 0), (-(1 << 31), -1)])
def test_a_quotient_that_no_int_holds_ends_the_launch(a, b):
    source = "__global__ void k(int *y, int a, int b) { y[0] = a / b; }"
    with pytest.raises(KernelFault, match="by zero, or the smallest one by -1"):
        load_cuda(source).k[1, 1](np.zeros(1, np.int32), a, b)


def test_rounding_beyond_a_long_gives_the_least_one():
    source = "__global__ void k(long long *y, double x) { y[0] = lrint(x); }"
    y = np.zeros(1, np.int64)
    load_cuda(source).k[1, 1](y, 1e20)
    assert y[0] == -(1 << 63)


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_nvidias_compiler_leaves_out_a_shift_that_it_knows():
    source = "__global__ void k(int *y) { y[0] = y[1] << 40; }"
    assert "shl" not in (ptx := _compile_to_ptx(source)) and "st." not in ptx


# ---- the simulator -------------------------------------------------------------------


def test_the_simulator_converts_as_a_gpu_does():
    types = [
        f"{'i' if signed else 'u'}{bits // 8}" for _, bits, signed in COLUMNS.values()
    ]
    for kind, rows in MEASURED["conversions"].items():
        for name, values in rows.items():
            with np.errstate(over="ignore"):
                value = FLOATS[kind](float(name))
            got = [cast(np.dtype(type_))(value) for type_ in types]
            want = [_low(v, c[1], c[2]) for v, c in zip(values, COLUMNS.values())]
            assert got == want, (kind, name)


def _shifts(out, x, k):
    out[0] = x[0] << k[0]
    out[1] = x[0] >> k[0]


@pytest.mark.parametrize("name", WIDTHS)
def test_the_simulator_shifts_as_a_gpu_does(name):
    bits, signed = WIDTHS[name]
    type_ = f"{'i' if signed else 'u'}{bits // 8}"
    launch = sim(_shifts)[1, 1]
    for row in MEASURED["shifts"]:
        if row[0] != name or not 0 <= row[2] < 1 << 31:
            continue
        value = _low(row[1], bits, signed)
        out, k = np.zeros(2, type_), np.array([row[2]], type_)
        launch(out, np.array([value], type_), k)
        assert out.tolist() == list(_shift(value, row[2], bits, signed)), row
