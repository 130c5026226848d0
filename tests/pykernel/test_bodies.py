"""Check every Python body on every runner against float64, within derived bounds.

The cases and bounds come from weft.ops.cases, the guard zones from base.arrays.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bodies_in_c
import numpy as np
import pytest
import torch
from bodies_in_c import in_c
from body_launchers import TREES, Launchers
from tiers import only

from utils import source
from weft import numba_jit
from weft.base.arrays import ORDERS, Guarded, compare
from weft.base.paths import ROOT
from weft.base.style import FAINT
from weft.cells.gpu import nvrtc
from weft.mnist import data
from weft.mnist import numpy_cnn as mnist_numpy
from weft.ops import cases
from weft.ops.cases import Case
from weft.ops.check import _start
from weft.ops.check import compare as compare_answer
from weft.pykernel import bandwidth, bodies
from weft.pykernel.bodies import THREADS, TILE
from weft.pykernel.sim import sim
from weft.pykernel.to_cuda.cuda_c import cuda_c
from weft.see.view import beside
from weft.toolchain.native import NULL


def launch(runner: Callable[..., Any], body: Any, threads: Any, *args: Any) -> Any:
    """Launch `body` with at least `threads` threads; (rows, columns) is a 2D grid."""
    kernel = runner(body)
    if isinstance(threads, tuple):
        grid = tuple(-(-count // TILE) for count in reversed(threads))
        return kernel[grid, (TILE, TILE)](*args)
    block = THREADS if body in TREES else min(THREADS, 32 * -(-threads // 32))
    return kernel[-(-threads // block), block](*args)


def check(case: Case, run: Callable[..., Any]) -> None:
    """Check one case, with all arrays between guard zones and all outputs poisoned."""
    if case.op == "matmul":
        check_with(case, Launchers(run, product=bodies.matmul_tiled))
    if case.op == "transpose":
        check_with(case, Launchers(run, transposed=bandwidth.transpose_tiled))
    if case.op == "scan":
        check_with(case, Launchers(run, scanned=bandwidth.scan_tiles_brent_kung))
    if case.op == "histogram":
        check_with(case, Launchers(run, counted=bandwidth.count_shared))
    if case.op == "reduce":
        check_with(case, Launchers(run, added=bandwidth.add_tree))
    if case.op == "sort":
        check_with(case, Launchers(run, radix=True))
    if case.op == "topk":
        check_with(case, Launchers(run, network=True))
    check_with(case, Launchers(run))


def check_with(case: Case, launchers: Launchers) -> None:
    """Check one case with the bodies as its kernels."""
    inputs = {n: Guarded(t) for n, t in case.inputs.items() if t is not None}
    outputs = {n: Guarded(_start(case, n, a)) for n, a in case.answers.items()}
    tensors = {name: array.tensor for name, array in (inputs | outputs).items()}
    tensors |= {name: NULL for name, t in case.inputs.items() if t is None}
    case.launch(launchers, 0, tensors, None)
    for name, array in inputs.items():
        array.verify_untouched(f"{case.title}: {name}")
    for name, array in outputs.items():
        array.verify_guards(f"{case.title}: {name}")
        answer = case.answers[name]
        values = torch.from_numpy(array.values())
        compare_answer(f"{case.title}: {name}", values, answer)


def plain(case: Case) -> bool:
    """Return whether the bodies support the case: no transposed matmul, and no NaN."""
    return case.op != "matmul" or case.title.endswith("trans=nn")


# ---- Numba: compiled on a GPU; its simulator elsewhere is slow, so cases are few -----

FEW = {
    "batchnorm2d": "n=2 c=1 h=1 w=1 offset=0.0",
    "compact": "count=33",
    "bincount": "count=33 bins=300",
    "conv2d": "n=3 ic=2 h=4 w=4 oc=5 kh=2 kw=3 padding=2",
    "copy": "count=33",
    "cross_entropy": "n=2 classes=3 factor=1.0",
    "histogram": "count=33",
    "layernorm": "rows=3 cols=33 offset=0.0 weight residual",
    "linear": "n=5 in=7 out=11 bias=True",
    "matmul": "m=5 n=2 k=3 trans=nn",
    "maxpool2d": "n=2 c=3 h=5 w=7 kh=2 kw=2",
    "reduce": "count=33",
    "relu": "count=33",
    "rmsnorm": "rows=3 cols=33 offset=0.0 weight residual",
    "scan": "count=33",
    "sgd": "count=32",
    "softmax": "rows=5, cols=2",
    "sort": "count=33, keys and values, descending",
    "topk": "ties, k=20",
    "transpose": "rows=3, cols=5",
}


OPS = tuple(FEW)  # ops that have bodies in Python


# These take a second: a launch of scan has 17 barriers, and sort has 27 launches.
SLOW = ("batchnorm2d", "histogram", "reduce", "scan", "sort", "topk")
LEAST = [op for op in OPS if op not in SLOW]


@pytest.mark.parametrize("op", only(LEAST, OPS))
def test_numba(op):
    chosen = [
        case for case in cases.cases(op, rung="atomic") if case.title.endswith(FEW[op])
    ]
    assert chosen
    for case in chosen:
        check(case, lambda *launched: launch(numba_jit, *launched))


# ---- the simulator, with all checks and in three orders ------------------------------

# The cases for which the simulator takes more than a few tenths of a second. Only C
# runs these.
LONG = ("n=64 in=128", "n=70 in=257", "n=3 ic=32", "c=33")
LONG += ("m=64", "m=133", "m=261", "m=130", "k=700")
LONG += (
    "cols=40000",
    "cols=26003",
    "cols=8191",
    "cols=4100",
    *("classes=1024", "classes=1025", "classes=3001", "classes=16", "classes=26003"),
    "classes=65537",
    "count=4099",
    "count=12289",
    "count=33000",
    "rows=6",
    "rows=1",
    "rows=256",
    "cols=9000",
)
FEWER = {
    **dict.fromkeys(
        ("layernorm", "rmsnorm"),
        ("cols=33 offset=0.0", "cols=33 offset=0.0 weight residual"),
    ),
    "bincount": ("=33 bins=300", "=257 bins=300", "bins=2, the least and the largest"),
    "reduce": ("count=33", "count=257"),
    "sort": ("count=33, keys and values, descending",),
    "topk": ("cols=7, k=3", "cols=2, k=2", "ties, k=20", "special numbers, k=7"),
    "scan": ("count=33", "count=257, exclusive, reverse"),  # one tile, and two
    "histogram": ("count=1", "count=257", "each byte once"),
}


def simulated(order: str) -> Callable[..., None]:
    """Return a run() that refuses launches with findings."""

    def run(*launched: Any) -> None:
        launch(partial(sim, order=order, quiet=True), *launched).verify()

    return run


@pytest.mark.parametrize("order", only(["shuffled"], ORDERS))
@pytest.mark.parametrize("op", OPS)
def test_sim(op, order):
    for case in filter(plain, cases.cases(op, rung="atomic")):
        is_long = any(size in case.title for size in LONG)
        if not is_long and case.title.endswith(FEWER.get(op, "")):
            check(case, simulated(order))


@pytest.mark.slow
@pytest.mark.parametrize("title", ["count=513", "floats, keys and indices, desc"])
def test_sim_sorts_several_tiles(title):
    for case in cases.cases("sort"):
        if case.title.startswith(title):
            check(case, simulated("reverse"))


# ---- bodies without an op: the batch, and the first kernel of the lessons ------------


@pytest.mark.parametrize("runner", [sim, numba_jit])
def test_gather_is_normalise(runner):
    """The batch may repeat an image and omit others."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 6, 7), np.uint8)
    labels = np.array([9, 0, 255, 3, 3], np.uint8)
    order = np.array([2, 4, 2, 0], np.int32)
    x, target = Guarded(np.full(3 * 42, np.nan, np.float32)), Guarded(np.full(3, -1))
    args = images.ravel(), labels, order, 3, 42
    scale = np.float32(data.MEAN), np.float32(data.STD)
    launch(runner, bodies.gather, 3 * 42, x.array, target.array, *args, *scale)
    want = mnist_numpy.normalise(images[order[:3]]).ravel()
    for name, array in {"x": x, "target": target}.items():
        array.verify_guards(name)
    compare("x", x.values(), want, 2**-22 * np.abs(want))
    assert target.values().tolist() == [255, 3, 255]


@pytest.mark.parametrize("runner", [sim, numba_jit, cuda_c])
def test_copy_words_copies_bytes(runner):
    x = np.random.default_rng(0).integers(0, 256, 37, np.uint8)
    y = Guarded(np.full(37, 255, np.uint8))
    launch(runner, bandwidth.copy_words, 37, y.array, x, 37)
    y.verify_guards("y")
    assert np.array_equal(y.values(), x)


@pytest.mark.parametrize("runner", [sim, numba_jit])
def test_grey(runner):
    x = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32)
    y = Guarded(np.full(37, np.nan, np.float32))
    launch(runner, bodies.grey, 37, y.array, x.ravel(), 37)
    y.verify_guards("y")
    weights = np.array([0.2989, 0.587, 0.114])
    bound = cases.sum_bound(4, torch.from_numpy(weights @ np.abs(x)))
    compare("y", y.values(), weights @ x, bound)


def test_a_bad_target_is_not_hidden():
    """The loss and its gradient are NaN, since a kernel cannot refuse a target."""
    logits, target = np.zeros(6, np.float32), np.array([0, 3])
    loss, dlogits = np.zeros(1, np.float32), np.zeros(6, np.float32)
    one, prob = np.ones(1, np.float32), np.full(6, 1 / 3, np.float32)
    run = simulated("forward")
    run(bodies.cross_entropy_loss, THREADS, loss, logits, target, 2, 3)
    run(bodies.cross_entropy_dlogits, 6, dlogits, one, prob, target, 2, 3)
    assert np.isnan(loss[0])
    assert np.isnan(dlogits).tolist() == [False] * 3 + [True] * 3


# ---- beside the .cu ------------------------------------------------------------------


def kernels() -> Iterator[tuple[str, str, str]]:
    """Yield each naive kernel's file, its name there, and the name of its body."""
    inside = ["batchnorm2d/batchnorm2d", "conv2d/conv2d", "mnist/layers"]
    inside += ["matmul/02_coalesced"]  # this rung has the body's rows and columns
    inside += ["copy/02_word", "transpose/01_naive", "compact/01_atomic"]
    inside += ["reduce/01_atomic", "reduce/02_tree", "bincount/01_global"]
    inside += ["histogram/01_global", "histogram/02_shared"]
    paths = [ROOT / f"kernels/{name}.cu" for name in inside]
    for path in [*(ROOT / "kernels").glob("*.cu"), *paths]:
        for name in re.findall(r"__global__ void (\w+)\(", path.read_text()):
            if "_tiled" not in name:
                yield (
                    str(path.relative_to(ROOT)),
                    name,
                    re.sub("_(naive|coalesced)", "", name),
                )


def test_every_naive_kernel_has_a_body_with_its_parameters():
    naive_kernels = list(kernels())
    all_bodies = vars(bodies) | vars(bandwidth)
    assert len(naive_kernels) > 20
    for path, name, body in naive_kernels:
        text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
        listed = re.search(rf"void {name}\((.*?)\)", text, re.S)[1]
        parameters = [re.search(r"\w+$", p)[0] for p in listed.split(",")]
        # The struct of extra arguments does not count.
        parameters = [p for p in parameters if p != "x" or body != "matmul"]
        own_names = inspect.signature(all_bodies[body]).parameters
        assert [p.rstrip("_") for p in own_names] == parameters, name


def test_beside_puts_what_is_alike_at_one_height():
    table = beside(
        source("lib/weft/pykernel/bodies.py", "conv2d"),
        source("kernels/conv2d/conv2d.cu", "conv2d_naive"),
        *("Python", "CUDA C"),
    )
    pairs = [(left, right) for left, right in table.pairs if left and right]
    stripped = {left.split("(")[0].strip(): right for left, right in pairs}
    assert stripped["def conv2d"].startswith("static __global__ void conv2d_naive(")
    assert stripped["y[index] = acc"] == "    y[index] = acc;"
    assert stripped["for s in range"].strip() == "for (int s = 0; s < kw; s++) {"
    assert "weight" in stripped["acc +="]  # a statement of two lines stays in one piece
    # `//` does not begin a comment in Python.
    assert "/ ow" in "".join(left for left, _ in pairs)
    html = table._repr_html_()
    assert html.count("<td") == 2 * len(table.pairs) and "s &lt; kw" in html
    assert f'opacity:{FAINT}"># a zero</span>' in html and "// ow</span>" not in html
    lines = repr(table).splitlines()
    assert lines[0].split("|")[1].strip() == "CUDA C"
    assert all(line.index("|") == lines[0].index("|") for line in lines)


# ---- as CUDA C -----------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS)
def test_cuda_c(op):
    for case in filter(plain, cases.cases(op, rung="atomic")):
        if case.title.startswith(("count=33000, keys", "bins=20971")):
            continue  # longer than a tenth of a second, and no new path
        check(case, lambda *launched: launch(in_c, *launched))


def test_cuda_c_of_one_body_alone():
    """The runner itself translates a helper with barriers."""
    (case,) = [c for c in cases.cases("batchnorm2d") if c.title.startswith("n=5 c=7")]
    check(case, lambda *launched: launch(cuda_c, *launched))


@pytest.mark.skipif(
    bool(nvrtc.explain_missing()), reason=f"NVRTC: {nvrtc.explain_missing()}"
)
def test_nvrtc_compiles_every_body():
    names = [body for _, _, body in kernels()]
    compiled = nvrtc.compile(bodies_in_c.source(), arch="sm_80", expressions=names)
    assert compiled.lowered.keys() == set(names)


def test_comments_stay_where_they_are_in_cuda_c():
    """Each comment is above or after the same words as in Python."""
    text = re.sub(r"\s*//\s*|\s+", " ", bodies_in_c.source())
    assert "not an earlier NaN. const bool nan_wins = value != value" in text
    assert "__syncthreads(); all values are in `partial`" in text
    assert "} if (tid == 0) loss[0] =" in text


def tokens(text: str) -> list[str]:
    """Return a kernel's words without its types, casts, braces and comments."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|[{}]", " ", text, flags=re.S)
    text = re.sub(r"\b(static|const|int|float|size_t|u?int\d+_t|bool)\b", "", text)
    text = re.sub(
        r"\b(long|unsigned|char|return)\b|_naive|_coalesced|\(\s*\)", "", text
    )
    return re.findall(r"\w+|[^\s\w]", text.replace("half_", "half"))


@pytest.mark.parametrize("path, name, body", list(kernels()))
def test_cuda_c_of_a_body_reads_like_the_naive_kernel(path, name, body):
    """Only words that Python lacks differ: pointers, NULL, and two declarations."""
    match = re.search(rf"__global__ void {body}\(.*?\n}}", bodies_in_c.source(), re.S)
    own, c_words = tokens(match[0]), tokens(source(path, name))
    ratio = difflib.SequenceMatcher(None, own, c_words, autojunk=False).ratio()
    # matmul's text is that of the lesson: no batch, and one row per y.
    least = {"matmul": 0.75, "cross_entropy": 0.8, "cross_entropy_loss": 0.85}
    least["linear"] = 0.9  # the bias of linear may be NULL
    least["keep_each"] = 0.85  # an element of an array has a cast
    least |= {"add_each": 0.9, "add_tree": 0.9}  # sum is &sum[0]
    least["count_keys"] = 0.8  # one comparison of unsigned numbers replaces two
    least |= {"count_global": 0.85, "count_shared": 0.85}  # the same cast
    least["transpose"] = 0.75  # tiles have 32 rows; tx, ty have names
    assert ratio > least.get(body, 0.93), " ".join(own)
