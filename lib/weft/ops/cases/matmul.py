"""The cases that check the rungs of the matmul ladder.

Besides sizes, they cover transposed storage, alpha, beta, bias, ReLU, and arrays at
unaligned addresses. Batches have gaps, or share one matrix. NaN, infinity and
zero times infinity must propagate as IEEE 754 requires.

The bounds come from sum_bound(), except for tensor cores, which add differently. Fasi,
Higham, Mikaitis and Pranesh ("Numerical behavior of NVIDIA tensor cores", PeerJ
Computer Science 7:e330, 2021) found that the products of 16-bit and TF32 numbers are
exact. At least four products at a time, and the running sum, are aligned to the largest
of them and truncated there, not rounded. The result is truncated again. Truncation
costs each term at most 2^-23 of the largest, which is at most the sum of absolute
values. Hence k products, k / 4 running sums and k / 4 results cost at most 1.5 k 2^-23
of that sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch

from ...toolchain import native
from . import Answer, Case, U

# All other precisions have operands in float32.
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
GAP = 7.25  # the value in the gaps between matrices of c; a call must preserve it
# Sizes for GPUs and the slow tests: primes, and neighbors of powers of two.
LARGE = [
    *[(127, 131, 137), (257, 263, 269), (509, 521, 523), (1021, 67, 1031)],
    *[(1, 1009, 2003), (2003, 1, 1009), (13, 17, 4099), (1023, 1025, 1024)],
]


@dataclass(frozen=True)
class Product:
    """One call of weft_matmul(): sizes, storage of the arrays, and options."""

    m: int
    n: int
    k: int
    trans: str = "nn"  # whether a and b are stored plain ("n") or transposed ("t")
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False
    relu: bool = False
    batch: int = 1
    gap: int = 0  # elements between the matrices of a batch
    # "a" or "b": the operand of which the batch has only one matrix
    shared: str = ""
    # the arrays, of "abc", that start one element past an aligned address
    shift: str = ""
    values: str = ""  # "special": with NaN, infinity and zero; "huge"; "tiny"

    @property
    def title(self) -> str:
        """Return the sizes, and every option that differs from its default."""
        text = f"m={self.m} n={self.n} k={self.k} trans={self.trans}"
        for option in fields(self)[4:]:
            value = getattr(self, option.name)
            text += f" {option.name}={value}" if value != option.default else ""
        return text


# Each of these cases runs with every order of threads.
_PLAIN = [
    *[(1, 1, 1), (2, 3, 1), (1, 7, 13), (5, 2, 3), (16, 16, 16), (31, 33, 34)],
    *[(64, 10, 130)],
]
# Each of these cases runs with a single order of threads. A case tests a feature, or a
# size with several tiles.
_FEATURES = [
    *[Product(133, 261, 21), Product(261, 133, 70), Product(5, 3, 700)],
    *[Product(32, 31, 33, trans) for trans in ("nt", "tn", "tt")],
    # All rows start at multiples of 16 bytes, so that no operand is copied first.
    *[Product(64, 72, 40, trans) for trans in ("nn", "nt", "tn", "tt")],
    Product(33, 17, 20, alpha=-0.5, beta=2.0),
    Product(7, 70, 5, "tt", alpha=1.5, beta=1.0),
    Product(40, 36, 24, alpha=0.5, beta=1.5, bias=True, relu=True),
    Product(41, 37, 25, "nt", alpha=0.5, beta=1.5, bias=True, relu=True),
    Product(130, 140, 9, bias=True, relu=True),
    Product(20, 12, 16, batch=3, beta=0.5),
    Product(9, 7, 5, "tn", batch=2, gap=3),
    Product(17, 24, 8, batch=3, gap=8, shared="b", bias=True),
    Product(8, 16, 24, "nt", batch=2, shared="a"),
    *[Product(32, 32, 32, shift=shift) for shift in ("a", "b", "c", "abc")],
    *[Product(1, 130, 70), Product(130, 1, 70), Product(1, 1, 300)],
    *[Product(3, 5, 1, "tt"), Product(129, 65, 1, relu=True)],
    Product(37, 35, 37, values="special"),
    Product(64, 64, 64, values="special", bias=True, relu=True),
    Product(31, 64, 45, "tt", values="special", beta=1.0, relu=True),
    *[Product(20, 24, 20, values="huge"), Product(20, 24, 20, values="tiny")],
]


def matmul_cases(
    generator: torch.Generator, precision: str, wide: int
) -> Iterator[Case]:
    """Yield the cases for a rung of this precision.

    wide: number of additional cases with random options and sizes from 1 to 70. A
    positive number also adds the LARGE cases.
    """
    for sizes in _PLAIN:
        yield matmul_case(generator, Product(*sizes), precision)
    chosen = list(_FEATURES)
    if wide:
        chosen += [Product(*sizes) for sizes in LARGE]
        chosen += [random_product(generator) for _ in range(wide)]
    for product in chosen:
        case = matmul_case(generator, product, precision)
        case.every_order = False
        yield case


def random_product(generator: torch.Generator, largest: int = 70) -> Product:
    """Return a product with random options and random sizes from 1 to `largest`."""

    def below(count: int) -> int:
        return int(torch.randint(count, (), generator=generator))

    def one_of(*choices: Any) -> Any:
        return choices[below(len(choices))]

    batch = one_of(1, 1, 1, 2, 3)
    return Product(
        *(1 + below(largest) for _ in range(3)),
        trans=one_of("nn", "nt", "tn", "tt"),
        alpha=one_of(1.0, 1.0, -0.5, 3.0),
        beta=one_of(0.0, 0.0, 1.0, -1.5),
        bias=one_of(False, True),
        relu=one_of(False, False, True),
        batch=batch,
        gap=one_of(0, 0, 1, 8) if batch > 1 else 0,
        shared=one_of("", "", "a", "b") if batch > 1 else "",
        shift=one_of("", "", "a", "b", "c", "ab", "abc"),
        values=one_of("", "", "", "special"),
    )


def error_bound(precision: str, k: int) -> float:
    """Return the error bound of a sum of k products, relative to the absolute sum."""
    truncation = 1.01 * (1.5 * k + 4) * 2.0**-23  # derived at the top of this file
    if precision == "fp32":
        return 1.01 * (k + 1) * U
    # Each operand is truncated to 10 bits after the point.
    if precision == "tf32":
        return truncation + 1.01 * 2.0**-9
    if precision == "3xtf32":
        # The second TF32 number is truncated, so an operand differs from the sum of
        # the two by up to 2^-21. The product of two second numbers, 2^-22, is omitted.
        return 3 * truncation + 2 * 2.0**-21 + 2.0**-22
    return truncation


def matmul_case(generator: torch.Generator, q: Product, precision: str) -> Case:
    """Return the case of one call of weft_matmul(), with its expected result."""
    a, b = _make_operands(generator, q, precision)
    c = torch.randn(q.batch, q.m, q.n, generator=generator)
    bias = torch.randn(q.n, generator=generator) if q.bias else None
    if q.values == "special":
        _put_specials(a, b, c)
    want, bound = _compute_answers(q, precision, a, b, c, bias)
    old = c if q.beta else torch.full_like(c, math.nan)
    flat, bounds = _with_gaps(want, q.gap, GAP), _with_gaps(bound, q.gap, 0.0)
    stored = (_store_operands(x, way, q) for x, way in zip((a, b), q.trans))
    inputs = dict(zip("ab", stored)) | ({"bias": bias} if q.bias else {})
    initial = {"c": _with_gaps(old, q.gap, GAP)} if q.beta or q.gap else {}
    return Case(
        *["matmul", q.title, inputs, {"c": Answer(flat, bounds)}],
        *[_make_launcher(q), initial],
        shift=dict.fromkeys(q.shift, 1),
    )


def _make_operands(generator, q: Product, precision: str) -> list[torch.Tensor]:
    """Return a (batch or 1, m, k) and b (batch or 1, k, n) in the rung's dtype."""
    dtype = DTYPES.get(precision, torch.float32)
    operands = []
    for name, shape in (("a", (q.m, q.k)), ("b", (q.k, q.n))):
        count = 1 if q.shared == name else q.batch
        x = torch.randn(count, *shape, generator=generator)
        # Results exceed the range of fp16; with other types they approach float32's.
        if q.values == "huge":
            x *= 1e4 if dtype == torch.float16 else 1e18
        if q.values == "tiny":  # in fp16, all elements are subnormal
            x *= 2.0**-18 if dtype == torch.float16 else 2.0**-50
        operands.append(x.to(dtype))
    return operands


def _put_specials(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """Put infinities, NaN and zeros inside and at the edges, where tiles are padded."""
    inf, nan = math.inf, math.nan
    last_m, last_k, last_n = (size - 1 for size in (*a.shape[1:], b.shape[2]))
    a[0, 0, 0] = inf
    a[0, last_m, last_k] = -inf
    a[0, last_m // 2, last_k // 3] = nan
    a[0, last_m // 3, last_k] = 0.0
    b[0, last_k, last_n // 4] = inf  # the product multiplies this by the zero above
    b[0, 0, last_n // 2] = 0.0  # the product multiplies this by the infinity above
    b[0, last_k // 2, last_n] = -inf
    a[0, last_m // 3, last_k // 2] = inf
    a[0, last_m // 4, 0] = -inf  # in memory, this follows the previous row's end
    b[0, last_k // 4, last_n // 3] = nan
    b[0, 0, 2 * last_n // 3] = inf  # the number after a column's end if b is transposed
    c[0, 0, last_n // 5] = nan
    c[0, last_m // 5, 0] = inf


def _compute_answers(q: Product, precision: str, a, b, c, bias) -> list[torch.Tensor]:
    """Return, in float64, the resulting c (batch, m, n) and its bound."""
    a, b, c = a.double(), b.double(), c.double()
    product = a @ b
    # Sum single products, since a library's shortcuts may lose special values.
    if q.values == "special":
        product = (a[:, :, :, None] * b[:, None]).sum(2)
    size = abs(q.alpha) * (a.abs() @ b.abs()).expand(q.batch, -1, -1)
    addends = torch.zeros_like(c)
    want = q.alpha * product.expand(q.batch, -1, -1)
    if q.beta:
        want, addends = want + q.beta * c, addends + abs(q.beta) * c.abs()
    if bias is not None:
        want, addends = want + bias.double(), addends + bias.double().abs()
    bound = size * error_bound(precision, q.k) + 1.01 * 4 * U * (size + addends) + 1e-38
    want = want.relu() if q.relu else want + 0.0
    return [want, torch.where(want.isfinite() & bound.isfinite(), bound, 0.0)]


def _store_operands(x: torch.Tensor, way: str, q: Product) -> torch.Tensor:
    """Return a batch of operands as stored in memory, with NaN in the gaps."""
    x = x.transpose(1, 2) if way == "t" else x
    matrices = _with_gaps(x.contiguous(), q.gap, math.nan)
    return matrices if len(matrices) > 1 or q.gap else matrices[0]


def _with_gaps(x: torch.Tensor, gap: int, filled: float) -> torch.Tensor:
    """Append `gap` elements to each matrix of x: (batch, rows * cols + gap).

    Without a gap, return x (batch, rows, cols), or its only matrix (rows, cols).
    """
    if not gap:
        return x if len(x) > 1 else x[0]
    return torch.nn.functional.pad(x.flatten(1), (0, gap), value=filled)


def _make_launcher(q: Product):
    def stride(name: str, size: int) -> int:
        return 0 if q.shared == name else size + q.gap

    options = {"trans_a": q.trans[0] == "t", "trans_b": q.trans[1] == "t"}
    options |= {"alpha": q.alpha, "beta": q.beta, "relu": q.relu}
    if q.batch > 1:
        options |= {"batch": q.batch, "stride_a": stride("a", q.m * q.k)}
        options |= {"stride_b": stride("b", q.k * q.n)}
        options |= {"stride_c": stride("c", q.m * q.n)}
    sizes = (q.m, q.n, q.k)
    is_plain = q == Product(*sizes, shift=q.shift, values=q.values)

    def launch(lib, rung, p, stream):
        struct = native.ffi.new("struct weft_matmul_options *", options)
        struct.bias = p["bias"] if q.bias else native.NULL
        wants = native.ffi.new("size_t *")
        argument = native.NULL if is_plain else struct
        call = (p["a"], p["b"], *sizes)
        lib.call("weft_matmul_workspace", rung, wants, *call, argument)
        if wants[0]:
            workspace = p["workspace"](wants[0])
            struct.workspace, struct.workspace_bytes = workspace, wants[0]
            argument = struct
        lib.call("weft_matmul", rung, p["c"], *call, argument, stream)

    return launch
