"""What CUDA C may say on the device, on the CPU: groups, small floats, random
numbers and mathematics, in three orders of the threads' turns."""

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest

from weft import build

FOLDER = Path(__file__).parent / "simt"
ORDERS = {"forward": 0, "reverse": 1, "shuffled": 7}


class Simt:
    """The kernels of tests/simt/ and the runtime."""

    def __init__(self, fibers: str) -> None:
        self.flavour = build.Flavour("cpu", fibers=fibers)
        self.runtime = ctypes.CDLL(str(build.simt_runtime(self.flavour)))
        self.libraries: dict[str, ctypes.CDLL] = {}

    def load(self, name: str) -> ctypes.CDLL:
        if name not in self.libraries:
            source = FOLDER / f"{name}.cu"
            path = build.library_of(f"test_simt_{name}", [source], self.flavour)
            self.libraries[name] = ctypes.CDLL(str(path))
        return self.libraries[name]


@pytest.fixture(scope="module")
def simt():
    simt = Simt("asm" if os.uname().machine == "x86_64" else "ucontext")
    yield simt
    simt.runtime.simt_set_order(0)


@pytest.fixture(params=ORDERS)
def ordered(simt, request):
    """`simt` with the turns in each order."""
    simt.runtime.simt_set_order(ORDERS[request.param])
    yield simt
    simt.runtime.simt_set_order(0)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def poison(shape, dtype=np.int32) -> np.ndarray:
    """An array that no kernel is expected to write like this."""
    return np.full(shape, -777 if np.dtype(dtype).kind in "if" else 777, dtype)


def ints(seed: int, size: int, low: int = -1000, high: int = 1000) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, size).astype(np.int32)


# ---- cooperative groups ------------------------------------------------------


def test_who_a_thread_is_in_its_groups(ordered):
    out = poison((3, 6, 20, 12))
    assert ordered.load("cooperative").run_ranks(pointer(out), 3, 20, 6) == 0
    block, y, x = np.indices((3, 6, 20))
    rank = x + 20 * y
    want = [rank, 120, block, y, rank % 8, 8, rank // 8, 15]
    want += [rank % 4, rank % 8 // 4, 2, 360]
    for column, values in enumerate(want):
        np.testing.assert_array_equal(
            out[..., column], np.broadcast_to(values, y.shape)
        )


def test_one_function_for_blocks_and_tiles(ordered):
    x, out = ints(0, 256), poison(65)
    assert ordered.load("cooperative").run_group_sums(pointer(out), pointer(x)) == 0
    assert out[0] == x.sum()
    np.testing.assert_array_equal(out[1:], x.reshape(64, 4).sum(1))


@pytest.mark.parametrize("size", [4, 16, 32])
def test_tiles_on_two_sides_of_a_branch(ordered, size):
    out, wide = poison((128, 10)), np.zeros((128, 3))
    lib = ordered.load("cooperative")
    assert lib.run_tiles(pointer(out), pointer(wide), size, 128) == 0
    t = np.arange(128).reshape(-1, size)
    rank, first = t % size, t[:, :1]
    turned = np.where((t // size) % 2, first + (rank + 5) % size, t.sum(1)[:, None])
    votes = 2 * (first == 0) + 0 * t + (first == size)
    columns = [
        turned,
        np.where(rank, t - 1, t),
        np.where(rank < size - 1, t + 1, t),
        t ^ (size // 2),
        0 * t + (0xAAAAAAAA & (2**size - 1)),
        votes,
        3 << (rank // 2 * 2),
        0 * t + 3,
        np.cumsum(t, 1),
        np.cumsum(t, 1) - t,
    ]
    for column, values in enumerate(columns):
        got = out[:, column].astype(np.uint32)
        np.testing.assert_array_equal(
            got, values.astype(np.uint32).ravel(), str(column)
        )
    last = np.repeat(t[:, -1], size)
    want = np.stack([1.5 * last, 0.25 - last, 1e300 * last], 1)
    np.testing.assert_array_equal(wide, want)


def test_reductions_of_a_warp(ordered):
    x = ints(1, 96)
    x[64:] = 300 - 3 * np.arange(32)
    out, f = poison((96, 12), np.int32), poison(96, np.float32)
    lib = ordered.load("cooperative")
    assert lib.run_reductions(pointer(out), pointer(f), pointer(x), 96) == 0
    for warp in range(3):
        mine = x[32 * warp :][:32]
        rest = np.fmod(mine, 3)
        match = [sum(1 << i for i in range(32) if rest[i] == r) for r in rest]
        row = [mine.min(), mine.max(), np.bitwise_and.reduce(mine)]
        row += [np.bitwise_or.reduce(mine), np.bitwise_xor.reduce(mine), mine.sum()]
        row += [mine.min(), mine.astype(np.uint32).max(), np.bitwise_xor.reduce(mine)]
        same = len(set(rest)) == 1
        for lane in range(32):
            want = [*row, match[lane], 0xFFFFFFFF if same else 0, same]
            want = np.array(want, np.int64).astype(np.int32)
            np.testing.assert_array_equal(out[32 * warp + lane], want)
        assert (f[32 * warp :][:32] == f[32 * warp]).all()
        np.testing.assert_allclose(f[32 * warp], 0.1 * mine.sum(), atol=1e-3)
    assert out[64, 11] == 1 and out[0, 11] == 0


@pytest.mark.parametrize("limit", [-2000, 0, 990])
def test_coalesced_threads_share_an_atomic(ordered, limit):
    x, out, count = ints(2, 96 * 20), poison(96 * 20), np.zeros(1, np.int32)
    lib = ordered.load("cooperative")
    status = lib.run_keep(pointer(out), pointer(count), pointer(x), limit, 20)
    kept = np.sort(x[x > limit])
    assert (status, count[0]) == (0, len(kept))
    np.testing.assert_array_equal(np.sort(out[: len(kept)]), kept)
    assert (out[len(kept) :] == -777).all()


def test_parts_of_a_coalesced_group(ordered):
    out = poison((32, 12))
    assert ordered.load("cooperative").run_coalesced(pointer(out)) == 0
    members = list(range(0, 32, 3))
    labels = sorted({t % 4: t for t in reversed(members)}.values())
    for rank, t in enumerate(members):
        odd = [m for m in members if m % 2 == t % 2]
        label = [m for m in members if m % 4 == t % 4]
        want = [
            11,
            rank,
            members[min(rank + 1, 10)],
            sum(1 << r for r, m in enumerate(members) if m % 2),
            sum(members),
            sum(members[:rank]),
            len(odd) + 100 * (t % 2),
            max(odd),
            label.index(t) + 100 * labels.index(label[0]) + 10000 * 4,
            members[rank // 2 * 2],
            rank // 2,
            0,
        ]
        np.testing.assert_array_equal(out[t], want, str(t))
    assert (np.delete(out, members, 0) == -777).all()


@pytest.mark.parametrize("n", [1, 63, 1000])
def test_a_group_copies_together(ordered, n):
    x, out = ints(3, 5 * n), poison(5 * n)
    lib = ordered.load("cooperative")
    assert lib.run_reversed(pointer(out), pointer(x), n, 5) == 0
    np.testing.assert_array_equal(out.reshape(5, n), x.reshape(5, n)[:, ::-1])
