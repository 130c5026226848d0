"""weft_matmul() itself: the workspace of calls in slabs, and invalid calls."""

import pytest
import torch

from weft.base.errors import ArgumentError
from weft.toolchain import native

# The limits of one launch in matmul.cu: rows, and matrices.
SLAB, GRID = 65535 * 16, 65535
AT = native.ffi.cast("void *", 1 << 20)  # an address that no code accesses


@pytest.fixture(scope="module")
def lib():
    return native.library("matmul", "cpu")


def workspace(lib, rung, m, n, k, **options):
    bytes_ = native.ffi.new("size_t *")
    fields = native.ffi.new("struct weft_matmul_options *", {"alpha": 1.0} | options)
    lib.call("weft_matmul_workspace", lib.rung(rung).index, bytes_, AT, AT, m, n, k,
             fields)  # fmt: skip
    return bytes_[0]


# The last slab has few rows and its k is cut into parts, unlike the first slab's k.
@pytest.mark.parametrize("rows", [1, 9])
def test_the_workspace_is_that_of_the_slab_that_wants_most(lib, rows):
    shape = 7, 5000
    first, last = (workspace(lib, "split_k", m, *shape) for m in (SLAB, rows))
    assert last > first
    assert workspace(lib, "split_k", SLAB + rows, *shape) == last
    assert workspace(lib, "split_k", 3 * SLAB + rows, *shape) == last


def test_copies_are_as_large_as_the_largest_slab_of_them(lib):
    """Rows of 5 floats are copied to rows of 8, aligned to 16 bytes."""
    size = workspace(lib, "vectorised", SLAB, 8, 5)
    assert size >= SLAB * 8 * 4
    assert workspace(lib, "vectorised", SLAB + 9, 8, 5) == size
    assert workspace(lib, "vectorised", 1000, 8, 5) < size


def test_a_batch_of_more_matrices_than_a_grid_has_is_made_in_parts(lib):
    """The rest of the batch is one matrix, whose k is cut into parts."""
    shape = 9, 7, 5000
    steps = {"stride_a": 45000, "stride_b": 35000, "stride_c": 63}
    first, last, total = (
        workspace(lib, "split_k", *shape, batch=batch, **steps)
        for batch in (GRID, 1, GRID + 1)
    )
    assert last > 0 and total == max(first, last)


def test_the_second_launch_of_a_large_batch_goes_on_where_the_first_ended(lib):
    a = torch.arange(GRID + 3, dtype=torch.float32)
    b, c = torch.full((1,), 2.0), torch.full((GRID + 3,), torch.nan)
    options = native.ffi.new(
        "struct weft_matmul_options *",
        {"alpha": 1.0, "batch": GRID + 3, "stride_a": 1, "stride_c": 1},
    )
    pointers = (native.pointer(c), *(native.pointer(x, "void *") for x in (a, b)))
    rung = lib.rung("coalesced").index
    lib.call("weft_matmul", rung, *pointers, 1, 1, 1, options, native.NULL)
    assert torch.equal(c, 2 * a)


KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("rung", native.rungs("matmul"), ids=lambda rung: rung.name)
def test_the_steps_of_a_batch_of_one_are_not_used(lib, rung):
    """TMA must not receive these steps either: it requires multiples of 16 bytes."""
    kind = KINDS.get(rung.precision, torch.float32)
    a, b = torch.ones(8, 24, dtype=kind), torch.ones(24, 16, dtype=kind)
    c = torch.full((8, 16), torch.nan)
    operands = [native.pointer(x, "void *") for x in (a, b)]
    steps = {"stride_a": 3, "stride_b": -5, "stride_c": 7}
    room = torch.empty(8192, dtype=torch.uint8)
    start = room.data_ptr() + -room.data_ptr() % 256
    more = {"workspace": native.ffi.cast("void *", start), "workspace_bytes": 7936}
    options = native.ffi.new(
        "struct weft_matmul_options *", {"alpha": 1.0} | steps | more
    )
    lib.call("weft_matmul", rung.index, native.pointer(c), *operands, 8, 16, 24,
             options, native.NULL)  # fmt: skip
    assert (c == 24).all()


# ---- invalid calls -----------------------------------------------------------

CALL = {"m": 3, "n": 4, "k": 5, "c": True, "a": True, "b": True}
BAD = {
    "m = 0, want at least 1": {"m": 0},
    "n = -4, want at least 1": {"n": -4},
    "k = 0, want at least 1": {"k": 0},
    "a would have 4611686014132420608 elements": {"m": 2**31 - 1, "k": 2**31 - 1},
    "n = 2147479553, k = 5, want at most 2147479552": {"n": 2**31 - 4095},
    "n = 4, k = 2147483647, want at most 2147479552": {"k": 2**31 - 1},
    "c is NULL": {"c": False},
    "a is NULL": {"a": False},
    "b is NULL": {"b": False},
    "batch = -2, want at least 1": {"batch": -2},
    "stride_a = -15, want at least 0": {"batch": 2, "stride_a": -15},
    "stride_b = -1, want at least 0": {"batch": 2, "stride_b": -1},
    "stride_c = -12, want at least 0": {"batch": 2, "stride_c": -12},
    r"rung vectorised wants a workspace of \d+ bytes for m = 3, n = 4, k = 5, got 0": {
        "rung": "vectorised"
    },
    r"m = 3, n = 4, k = 5, got 64: see weft_matmul_workspace": {
        "rung": "vectorised",
        "workspace": True,
    },
}


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_sense_is_refused_with_its_numbers(lib, message):
    """An invalid call writes nothing and may be repeated."""
    call = CALL | BAD[message]
    arrays = {
        "c": torch.full((3, 4), 7.0),
        "a": torch.ones(3, 5),
        "b": torch.ones(5, 4),
    }
    pointers = {n: native.pointer(t, "float *") for n, t in arrays.items()}
    operands = [pointers[name] if call[name] else native.NULL for name in "cab"]
    room = torch.empty(64, dtype=torch.uint8)
    more = {name: call[name] for name in call if "stride" in name or name == "batch"}
    if call.get("workspace"):
        more |= {"workspace": native.pointer(room, "void *"), "workspace_bytes": 64}
    options = native.ffi.new("struct weft_matmul_options *", {"alpha": 1.0} | more)
    rung = lib.rung(call.get("rung", "coalesced")).index
    sizes = (call[name] for name in "mnk")
    with pytest.raises(ArgumentError, match=message):
        lib.call("weft_matmul", rung, *operands, *sizes, options, native.NULL)
    assert (arrays["c"] == 7).all()


def test_no_options_and_no_bias_are_the_plain_product(lib):
    a, b, c = torch.eye(3), torch.ones(3, 4), torch.full((3, 4), torch.nan)
    pointers = (native.pointer(c), *(native.pointer(x, "void *") for x in (a, b)))
    rung = lib.rung("coalesced").index
    lib.call("weft_matmul", rung, *pointers, 3, 4, 3, native.NULL, native.NULL)
    assert torch.equal(c, b)
