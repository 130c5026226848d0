"""The kernels in Triton, and the twin that runs them without Triton."""

import pytest
import torch

from weft.base.errors import ArgumentError, Mismatch
from weft.ops import in_triton
from weft.ops.in_triton import (
    OPS,
    WAYS,
    OutOfArray,
    check_programs,
    find_ways,
    list_cases,
    load_file,
    load_programs,
    twin,
)

tl = twin.language


def list_small(op):
    """Return the cases without those of thousands of elements."""
    sizes = [(c, max(x.numel() for x in c.inputs.values())) for c in list_cases(op)]
    return [case for case, size in sizes if size < 4000]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", OPS)
def test_kernels_in_triton_are_right(op, way):
    if reason := find_ways()[way]:
        pytest.skip(reason)
    verdict = check_programs(op, way, list_small(op))
    assert verdict.runs >= 9 and 0 < verdict.worst <= 1


# Each line of a file in Triton, a wrong line for it, and part of the error.
MISTAKES = [
    ("polynomial", "tl.load(x + i, mask=i < count)", "tl.load(x + i)", "outside x"),
    ("polynomial", "slope, mask=i < count", "slope", "outside dx"),
    ("polynomial", "mask=i < count)\n    tl", "mask=i < count - 1)\n    tl", "nan"),
    ("polynomial", "2 * a2", "a2", "dx"),
    ("softmax", 'mask=i < cols, other=-float("inf")', "mask=i < cols", "nan"),
    ("softmax", 'other=-float("inf")', "other=0.0", "y"),
    ("softmax", "v - tl.max(v, axis=0)", "v", "y"),
    ("matmul", "(row < m) & (i < k)", "row < m", "outside a"),
    ("matmul", "(j < k) & (col < n), other=0.0", "(j < k) & (col < n)", "nan"),
    (
        "matmul",
        "acc = tl.dot(a_tile, b_tile, acc,",
        "acc = tl.dot(a_tile, b_tile, 0.0,",
        "c",
    ),
]


@pytest.mark.parametrize("op, line, wrong, error", MISTAKES)
def test_the_twin_refuses_a_mistake(op, line, wrong, error, tmp_path, monkeypatch):
    text = (in_triton.KERNELS / op / "in_triton.py").read_text()
    assert line in text
    (tmp_path / op).mkdir()
    (tmp_path / op / "in_triton.py").write_text(text.replace(line, wrong))
    monkeypatch.setattr(in_triton, "KERNELS", tmp_path)
    with pytest.raises(Mismatch, match=error):
        check_programs(op, "twin", list_small(op))


@twin.jit
def add_one(y, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) + 1.0, mask=i < n)


def test_a_load_past_the_end_has_its_program_and_its_lanes():
    x = torch.arange(30.0)[:10]
    with pytest.raises(OutOfArray) as caught:
        add_one[(3,)](torch.empty(10), x, 10, BLOCK=4)
    error = caught.value
    assert "load, program 2: 2 of 4 lanes use an element outside x" in str(error)
    assert "which has 10: the first is x[10]" in str(error)
    assert error.at.tolist() == [8, 9, 10, 11] and error.program == (2, 0, 0)


def test_lanes_outside_the_mask_are_nan_and_are_not_stored():
    x, y = torch.arange(4.0), torch.full((4,), -1.0)
    seen = []

    @twin.jit
    def masked(y, x):
        i = tl.arange(0, 4)
        v = tl.load(x + i, mask=i < 3)
        seen.append(v)
        tl.store(y + i, v, mask=i < 2)

    masked[(1,)](y, x)
    assert torch.equal(seen[0].isnan(), torch.tensor([False, False, False, True]))
    assert y.tolist() == [0, 1, -1, -1]


def test_the_twin_reaches_a_view_with_gaps_up_to_its_last_element():
    wide = torch.arange(12.0).view(3, 4)
    column, y = wide[:, 1], torch.empty(3)

    @twin.jit
    def gather(y, x, stride):
        i = tl.arange(0, 4)
        tl.store(y + i, tl.load(x + i * stride, mask=i < 3), mask=i < 3)

    gather[(1,)](y, column, 4)
    assert y.tolist() == [1, 5, 9]


def test_a_block_has_a_power_of_two():
    with pytest.raises(ArgumentError, match="the length 3 is not a power of two"):
        tl.arange(0, 3)


def test_the_twin_rounds_bfloat16_once():
    """Triton's interpreter gives -2.9e-39 for 2.5 + 2.0 (triton 3.9.0)."""
    x, y = (
        torch.tensor([2.5], dtype=torch.bfloat16),
        torch.zeros(1, dtype=torch.bfloat16),
    )

    @twin.jit
    def add_two(y, x):
        i = tl.arange(0, 1)
        tl.store(y + i, tl.load(x + i) + 2.0)

    add_two[(1,)](y, x)
    assert y.item() == 4.5


def test_a_race_without_triton_has_no_contender_for_it(monkeypatch):
    absent = dict.fromkeys(WAYS, "it is not here")
    monkeypatch.setattr(in_triton, "find_ways", lambda: absent)
    assert in_triton.make_call("softmax", [torch.ones(2, 3)]) is None


@pytest.mark.parametrize(
    "op, way, error",
    [
        ("relu", "twin", "relu has no kernel in Triton; matmul, polynomial, softmax"),
        ("softmax", "cuda", "way 'cuda': expected one of gpu, interpreter, twin"),
    ],
)
def test_what_is_absent_is_one_error(op, way, error):
    with pytest.raises(ArgumentError, match=error):
        load_programs(op, way)


def test_a_way_without_triton_names_the_reason(monkeypatch):
    monkeypatch.setattr(in_triton.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match="Triton is not installed"):
        load_programs("softmax", "interpreter")
    assert load_programs("softmax").triton is twin  # only the twin remains


ADD_TWO = """import triton
import triton.language as tl

@triton.jit
def add_two(y, x):
    i = tl.arange(0, 1)
    tl.store(y + i, tl.load(x + i) + 2.0)
"""


def test_the_interpreter_is_wrong_for_bfloat16(tmp_path):
    """Lesson 13b shows this; if Triton corrects it, the lesson must change."""
    if reason := find_ways()["interpreter"]:
        pytest.skip(reason)
    path = tmp_path / "two" / "in_triton.py"
    path.parent.mkdir()
    path.write_text(ADD_TWO)
    x, y = (
        torch.tensor([2.5], dtype=torch.bfloat16),
        torch.zeros(1, dtype=torch.bfloat16),
    )
    load_file(path, "interpreter").add_two[(1,)](y, x)
    assert abs(y.item()) < 1e-30
