"""The watch build's counters, compared with known values and with the simulator's.

Each kernel is CUDA C that runs on the CPU; the known values are a GPU profiler's.
"""

import ctypes
from collections import Counter, defaultdict

import numpy as np
import pytest
from atomic_patterns import PATTERNS
from python_kernels import CASES
from tiers import only

from weft import cuda, cuda_c, inspect, load_cuda, sim
from weft.toolchain import build

PLACES = ("accesses", "requests", "sectors", "wavefronts", "conflicts")
ORDERS = ("forward", "reverse", "shuffled")


def counters(text, grid, block, *args, order="forward"):
    module = load_cuda(text, target="cpu")
    report = inspect(module, quiet=True, order=order)[grid, block](*args)
    assert report.ok, report
    return report.counters


def zeros(count, dtype="f4"):
    return np.zeros(count, dtype)


# ---- global memory -------------------------------------------------------------

STRIDED = """
__global__ void strided(TYPE *out, const TYPE *x, int stride, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i * stride + offset];
}
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "stride, sectors", [(1, 4), (2, 8), (4, 16), (8, 32), (16, 32), (32, 32)]
)
def test_strided_loads(stride, sectors, order):
    text = STRIDED.replace("TYPE", "float")
    x = zeros(128 * stride)
    counts = counters(text, 2, 64, zeros(128), x, stride, 0, order=order)
    assert counts.load_sectors_per_request == {"x": sectors}
    assert counts.store_sectors_per_request == {"out": 4}
    assert counts.bytes == {"x": 4 * sectors * 32, "out": 4 * 4 * 32}
    assert counts.requests == {"x": 4, "out": 4}
    assert (counts.blocks, counts.threads, counts.warps) == (2, 128, 4)
    assert counts.barriers == 0


@pytest.mark.parametrize("offset, sectors", [(1, 5), (7, 5), (8, 4), (3, 5)])
def test_misaligned_loads(offset, sectors):
    text = STRIDED.replace("TYPE", "float")
    counts = counters(text, 1, 64, zeros(64), zeros(128), 1, offset)
    assert counts.load_sectors_per_request == {"x": sectors}


@pytest.mark.parametrize(
    "ctype, dtype, width, sectors",
    [
        ("double", "f8", 1, 8),
        ("unsigned char", "u1", 1, 1),
        ("short", "i2", 1, 2),
        ("float2", "f4", 2, 8),
        ("float4", "f4", 4, 16),
    ],
)
def test_wide_and_narrow_elements(ctype, dtype, width, sectors):
    text = STRIDED.replace("TYPE", ctype)
    x, out = zeros(64 * width, dtype), zeros(64 * width, dtype)
    counts = counters(text, 1, 64, out, x, 1, 0)
    assert counts.sectors_per_request == {"x": sectors, "out": sectors}
    assert counts.requests == {"x": 2, "out": 2}
    assert counts.reads == {"x": 64}


def test_a_gather_touches_the_sectors_of_its_indices():
    text = """
    __global__ void gather(float *out, const float *x, const int *index) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        out[i] = x[index[i]];
    }
    """
    index = np.random.default_rng(1).integers(0, 4096, 256).astype(np.int32)
    counts = counters(text, 2, 128, zeros(256), zeros(4096), index)
    sectors = sum(len(set(warp)) for warp in (index // 8).reshape(-1, 32).tolist())
    assert counts.sectors == {"x": sectors, "index": 8 * 4, "out": 8 * 4}


def test_all_lanes_at_one_word_take_one_sector():
    text = """
    __global__ void same(float *out, const float *x) { out[threadIdx.x] = x[3]; }
    """
    counts = counters(text, 1, 64, zeros(64), zeros(8))
    assert counts.load_sectors_per_request == {"x": 1}


def test_struct_of_three_floats_moves_word_by_word():
    text = """
    __global__ void points(float3 *out, const float3 *x) {
        out[threadIdx.x] = x[threadIdx.x];
    }
    """
    counts = counters(text, 1, 32, zeros(96), zeros(96))
    # Three requests of 32 words, 12 bytes apart: 12 sectors each.
    assert counts.sectors_per_request == {"x": 12, "out": 12}
    assert counts.requests == {"x": 3, "out": 3}


# ---- shared memory -------------------------------------------------------------

BANKED = """
__global__ void banked(TYPE *out, int stride) {
    __shared__ TYPE s[COUNT];
    int t = threadIdx.x;
    s[t * stride] = out[t];
    __syncthreads();
    out[t] = s[t * stride];
}
"""


@pytest.mark.parametrize(
    "stride, wavefronts", [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1)]
)
def test_bank_conflicts(stride, wavefronts):
    text = BANKED.replace("TYPE", "float").replace("COUNT", "2048")
    counts = counters(text, 1, 32, zeros(32), stride)
    assert counts.wavefronts == {"s": 2 * wavefronts}
    assert counts.bank_conflicts == {"s": 2 * (wavefronts - 1)}


@pytest.mark.parametrize(
    "ctype, stride, wavefronts, conflicts",
    [
        ("float2", 1, 2, 0),  # half warps take turns
        ("float2", 2, 4, 2),
        ("float4", 1, 4, 0),  # quarter warps take turns
        ("float4", 2, 8, 4),
        ("unsigned char", 1, 1, 0),  # four lanes share each word
        ("unsigned char", 4, 1, 0),
        ("unsigned char", 8, 2, 1),
    ],
)
def test_bank_conflicts_of_other_sizes(ctype, stride, wavefronts, conflicts):
    text = BANKED.replace("TYPE", ctype).replace("COUNT", "512")
    width = {"float2": 2, "float4": 4}.get(ctype, 1)
    out = zeros(32 * width, "u1" if "char" in ctype else "f4")
    counts = counters(text, 1, 32, out, stride)
    assert counts.wavefronts == {"s": 2 * wavefronts}
    assert counts.bank_conflicts == {"s": 2 * conflicts}


TRANSPOSE = """
__global__ void naive(float *out, const float *x, int n) {
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    out[col * n + row] = x[row * n + col];
}
template <int WIDTH> __device__ void tiled(float *out, const float *x, int n) {
    __shared__ float tile[32][WIDTH];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * 32, row = blockIdx.y * 32;
    tile[ty][tx] = x[(row + ty) * n + col + tx];
    __syncthreads();
    out[(col + ty) * n + row + tx] = tile[tx][ty];
}
__global__ void unpadded(float *out, const float *x, int n) { tiled<32>(out, x, n); }
__global__ void padded(float *out, const float *x, int n) { tiled<33>(out, x, n); }
"""


@pytest.mark.parametrize(
    "name, store, conflicts",
    [("naive", 32, {}), ("unpadded", 4, {"tile": 4 * 32 * 31}), ("padded", 4, 0)],
)
def test_transposes(name, store, conflicts):
    kernel = getattr(load_cuda(TRANSPOSE, target="cpu"), name)
    x, out = np.arange(64 * 64, dtype="f4"), zeros(64 * 64)
    counts = inspect(kernel, quiet=True)[(2, 2), (32, 32)](out, x, 64).counters
    assert (out.reshape(64, 64) == x.reshape(64, 64).T).all()
    assert counts.load_sectors_per_request == {"x": 4}
    assert counts.store_sectors_per_request == {"out": store}
    assert counts.bank_conflicts == (
        conflicts or ({} if name == "naive" else {"tile": 0})
    )


# ---- barriers, loops, branches -------------------------------------------------

MATMUL = """
__global__ void matmul(float *c, const float *a, const float *b, int n) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float acc = 0;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        a_s[ty][tx] = a[row * n + k0 + tx];
        b_s[ty][tx] = b[(k0 + ty) * n + col];
        __syncthreads();
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads();
    }
    c[row * n + col] = acc;
}
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tile", [16, 32])
def test_a_tiled_matmul(tile, order):
    n = 64
    a, b = np.random.default_rng(0).integers(0, 4, (2, n, n)).astype("f4")
    c = zeros((n, n))
    text = MATMUL.replace("TILE", str(tile))
    args = c.reshape(-1), a.reshape(-1), b.reshape(-1), n
    counts = counters(text, (n // tile,) * 2, (tile, tile), *args, order=order)
    assert (c == a @ b).all()
    tiles, warps = n // tile, n * n // 32
    assert (counts.warps, counts.barriers) == (warps, 2 * tiles**3)
    each = {"a": tiles, "b": tiles, "a_s": n, "b_s": n}
    assert counts.reads_per_thread == each
    # A warp of a 16 x 16 block loads two rows of 16: two sectors for each half.
    assert counts.load_sectors_per_request == {"a": 4, "b": 4}
    assert counts.bank_conflicts == {"a_s": 0, "b_s": 0}
    assert counts.wavefronts == {"a_s": warps * (n + tiles), "b_s": warps * (n + tiles)}


def test_a_reduction_has_fewer_requests_from_step_to_step():
    text = """
    __global__ void sum(float *out, const float *x) {
        __shared__ float s[256];
        int t = threadIdx.x;
        s[t] = x[t];
        __syncthreads();
        for (int half = 128; half > 0; half /= 2) {
            if (t < half) s[t] += s[t + half];
            __syncthreads();
        }
        if (t == 0) out[0] = s[0];
    }
    """
    x, out = np.arange(256, dtype="f4"), zeros(1)
    counts = counters(text, 1, 256, out, x)
    assert out[0] == x.sum()
    assert counts.barriers == 9
    # Steps of 4, 2 and 1 warps, then five steps of one warp, with two loads and a
    # store each. Filling s adds 8 requests, and reading the sum adds 1.
    assert counts.requests == {"x": 8, "s": 3 * 12 + 8 + 1, "out": 1}
    assert counts.reads == {"x": 256, "s": 2 * 255 + 1}
    assert counts.bank_conflicts == {"s": 0}


DIVERGENT = """
__global__ void branch(float *out, const float *x) {
    int t = threadIdx.x;
    if (t % 2) {
        out[t] = 1;
    } else {
        out[t] = x[t];
    }
}
"""


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_of_a_branch(order):
    counts = counters(DIVERGENT, 1, 64, zeros(64), zeros(64), order=order)
    places = {(p.array, p.kind): p for p in counts.places if p.kind == "read"}
    assert places["x", "read"].lanes == 16
    assert places["x", "read"].sectors_per_request == 4
    assert 16 <= counts.active_lanes < 32


def test_lanes_of_a_loop_that_some_leave_earlier():
    text = """
    __global__ void lengths(float *out, const float *x) {
        int t = threadIdx.x;
        float sum = 0;
        for (int k = 0; k <= t; k++) sum += x[k * 32 + t];
        out[t] = sum;
    }
    """
    counts = counters(text, 1, 32, zeros(32), zeros(1024))
    # The k-th request comes from the 32 - k lanes that are still in the loop.
    assert counts.requests == {"x": 32, "out": 1}
    assert counts.reads == {"x": 528}
    sectors = sum(4 - k // 8 for k in range(32))
    assert counts.sectors == {"x": sectors, "out": 4}


@pytest.mark.parametrize("lane", [1, 7, 31])
def test_a_lane_that_others_overtake_stays_in_step(lane):
    """Any lane may be overtaken, since the watchdog interrupts lanes of long blocks."""
    text = """
    __global__ void pauses(float *out, const float *x, int lane) {
        int t = threadIdx.x;
        if (t == lane)
            for (int calls = 0; calls < 8; calls++) __nanosleep(1);
        float sum = 0;
        for (int k = 0; k < 1000; k++) sum += x[k * 32 + t];
        out[t] = sum;
    }
    """
    counts = counters(text, 1, 32, zeros(32), zeros(32_000), lane)
    assert counts.requests == {"x": 1000, "out": 1}


def test_threads_beyond_the_end_have_no_part():
    text = """
    __global__ void guarded(float *out, const float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = x[i];
    }
    """
    counts = counters(text, 2, 64, zeros(70), zeros(70), 70)
    assert counts.requests == {"x": 3, "out": 3}
    assert counts.sectors == {"x": 4 + 4 + 1, "out": 4 + 4 + 1}


def test_a_warp_that_is_not_full():
    text = STRIDED.replace("TYPE", "float")
    counts = counters(text, 3, 40, zeros(120), zeros(120), 1, 0)
    assert (counts.warps, counts.requests["x"]) == (6, 6)
    assert counts.sectors["x"] == 3 * (4 + 1)


# ---- atomics -------------------------------------------------------------------

ATOMICS = """
__global__ void count(int *bins, int spread) {
    atomicAdd(&bins[threadIdx.x * spread], 1);
}
__global__ void inside(int *out, int spread) {
    __shared__ float bins[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x * spread], 1.0f);
    __syncthreads();
    out[threadIdx.x] = (int)bins[threadIdx.x];
}
"""


@pytest.mark.parametrize("spread, sectors", [(0, 32), (1, 4), (8, 32)])
def test_atomics_in_global_memory(spread, sectors):
    kernel = load_cuda(ATOMICS, target="cpu").count
    bins = zeros(512, "i4")
    counts = inspect(kernel, quiet=True)[1, 64](bins, spread).counters
    assert bins.sum() == 64
    assert counts.atomics == {"bins": 64}
    assert (counts.requests, counts.sectors) == ({"bins": 2}, {"bins": 2 * sectors})


@pytest.mark.parametrize("spread, wavefronts", [(0, 32), (1, 1), (4, 4), (32, 32)])
def test_atomics_in_shared_memory(spread, wavefronts):
    kernel = load_cuda(ATOMICS, target="cpu").inside
    counts = inspect(kernel, quiet=True)[1, 32](zeros(32, "i4"), spread).counters
    assert counts.atomics == {"bins": 32}
    (atomic,) = [p for p in counts.places if p.kind == "atomic"]
    assert (atomic.requests, atomic.wavefronts) == (1, wavefronts)


ADDING = """
__global__ void adding(int *out, const int *at) {
    __shared__ int s[1024];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += blockDim.x) s[i] = 0;
    __syncthreads();
    atomicAdd(&out[at[t % 32]], 1);
    atomicAdd(&s[at[t % 32]], 1);
}
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PATTERNS)
def test_atomics_of_lanes_at_one_element_are_serialised(name, order):
    at, sectors, wavefronts = PATTERNS[name]
    args = zeros(1024, "i4"), np.array(at, "i4")
    counts = counters(ADDING, 1, 64, *args, order=order)
    atomics = {p.array: p for p in counts.places if p.kind == "atomic"}
    assert atomics["out"].sectors == 2 * sectors
    assert atomics["s"].wavefronts == 2 * wavefronts
    assert atomics["s"].conflicts == 2 * (wavefronts - 1)


# ---- against the definition ----------------------------------------------------

ANY = """
__global__ void any(const int *x, int *y, const int *length, const int *op,
                    const int *at, int steps, int rounds) {
    __shared__ int s[1024], r[1024];
    int t = threadIdx.x, n = length[blockIdx.x * blockDim.x + t];
    for (int i = t; i < 1024; i += blockDim.x) s[i] = r[i] = 0;
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < n; k++) {
            int i = (blockIdx.x * steps + k) * blockDim.x + t;
            switch (op[i]) {
            case 0: sum += x[at[i]]; break;
            case 1: sum += s[at[i]]; break;
            case 2: atomicAdd(&y[at[i]], 0); break;
            default: atomicAdd(&r[at[i]], 0); break;
            }
        }
        __syncthreads();
    }
    if (sum == 12345) y[0] = 1;
}
"""
OPS = {("x", "read"): 0, ("s", "read"): 1, ("y", "atomic"): 2, ("r", "atomic"): 3}


def test_atomic_loads_and_stores_are_loads_and_stores():
    text = """
    #include <cuda/atomic>
    __global__ void look(int *flag, int *set, int *out) {
        cuda::atomic_ref<int> one(*flag), other(*set);
        other.store(1);
        out[threadIdx.x] = one.load();
    }
    """
    counts = counters(text, 1, 64, *zeros((3, 64), "i4"))
    assert counts.sectors == {"flag": 2, "set": 2, "out": 8}
    assert (counts.reads, counts.writes["set"]) == ({"flag": 64}, 64)
    assert counts.atomics == {}


def cost(key, words):
    """Return a warp's sectors (x, y) or wavefronts (s, r); atomics access y and r."""
    visits = Counter(words)
    if key[1] == "read":
        visits = dict.fromkeys(visits, 1)
    units = defaultdict(list)  # the accesses of each word, by sector or bank
    for word, count in visits.items():
        units[word // 8 if key[0] in "xy" else word % 32].append(count)
    if key[0] in "xy":
        return sum(map(max, units.values()))
    return max(map(sum, units.values()))


def expected(op, at, length, rounds):
    """Count by the definition: the k-th visits of a warp to a site are one request."""
    sums = {key: [0, 0, 0, 0] for key in OPS}
    blocks, _, threads = op.shape
    for block in range(blocks):
        for warp in range(0, threads, 32):
            rows = defaultdict(list)
            for t in range(warp, min(warp + 32, threads)):
                visits = defaultdict(int)
                for k in range(length[block, t]):
                    site = op[block, k, t]
                    rows[site, visits[site]].append(at[block, k, t])
                    visits[site] += 1
            for (site, _), words in rows.items():
                (key,) = [key for key, value in OPS.items() if value == site]
                sums[key][0] += len(words) * rounds
                sums[key][1] += rounds
                sums[key][3 if key[0] in "sr" else 2] += cost(key, words) * rounds
    return {key: tuple(map(int, value)) for key, value in sums.items()}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "steps, shortest, in_step",
    [
        (12, 0, False),  # each lane takes a separate path
        (300, 300, True),  # full logs, and lanes that stay in step
        (300, 20, True),  # full logs, and lanes that leave the loop early
    ],
)
def test_any_ways_of_any_lanes(steps, shortest, in_step, order):
    rng = np.random.default_rng(steps + shortest)
    blocks, threads, rounds = 2, 80, 2
    op = rng.integers(0, 4, (blocks, steps, 1 if in_step else threads))
    op = np.broadcast_to(op, (blocks, steps, threads)).astype(np.int32)
    at = rng.integers(0, 1024, (blocks, steps, threads)).astype(np.int32)
    length = rng.integers(shortest, steps + 1, (blocks, threads)).astype(np.int32)
    args = [np.ascontiguousarray(a).reshape(-1) for a in (length, op, at)]
    x, y = zeros((2, 1024), "i4")
    counts = counters(ANY, blocks, threads, x, y, *args, steps, rounds, order=order)
    places = {
        (p.array, p.kind): (p.accesses, p.requests, p.sectors, p.wavefronts)
        for p in counts.places
        if (p.array, p.kind) in OPS
    }
    assert places == expected(op, at, length, rounds)


@pytest.mark.parametrize("order", ORDERS)
def test_counters_do_not_depend_on_threads_and_workers(order):
    text = MATMUL.replace("TILE", "16")
    args = [zeros(64 * 64) for _ in range(3)]
    simt = ctypes.CDLL(str(build.simt_runtime(build.Flavour.here("cpu"))))
    first = by_array(counters(text, (4, 4), (16, 16), *args, 64))
    for workers in (1, 3):
        simt.simt_set_threads(workers)
        try:
            counts = counters(text, (4, 4), (16, 16), *args, 64, order=order)
        finally:
            simt.simt_set_threads(0)
        assert by_array(counts) == first


# ---- against the simulator -----------------------------------------------------


def by_array(counts):
    """Return the launch's own counters, and those of its places by array and kind."""
    sums = defaultdict(lambda: np.zeros(len(PLACES), np.int64))
    for place in counts.places:
        if place.kind != "step" and place.space in ("global", "shared"):
            # In C, an underscore is appended to reserved names.
            key = place.array.rstrip("_"), place.kind, place.space
            sums[key] += [getattr(place, name) for name in PLACES]
    launch_counts = (counts.blocks, counts.threads, counts.warps, counts.barriers)
    return launch_counts, {key: tuple(map(int, value)) for key, value in sums.items()}


def columns(out, x, n):
    """Sum one row of x per thread, so that the loads of a warp are n elements apart."""
    i = cuda.grid(1)
    if i < n:
        total = np.float32(0)
        for k in range(n):
            total += x[i * n + k]
        out[i] = total


def odd_and_even(out, x):
    t = cuda.threadIdx.x
    if t % 2:
        out[t] = x[t]
    else:
        out[t] = x[63 - t]


def swizzled(out, x):
    s = cuda.shared.array((32, 32), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    s[ty, tx ^ ty] = x[ty * 32 + tx]
    cuda.syncthreads()
    out[ty * 32 + tx] = s[tx, ty ^ tx]


SAME = {
    "columns": (columns, 2, 32, lambda: [zeros(50), zeros(2500), 50]),
    "odd_and_even": (odd_and_even, 1, 64, lambda: [zeros(64), zeros(64)]),
    "swizzled": (swizzled, 1, (32, 32), lambda: [zeros(1024), zeros(1024)]),
}
for _name in ("matmul", "matmul_tiled", "saxpy", "grid_stride", "block_sum", "atomics"):
    _case = CASES[_name]
    SAME[_name] = (_case.kernel, _case.grid, _case.block, _case.arguments)


@pytest.mark.parametrize("name", only(["matmul_tiled", "block_sum", "atomics"], SAME))
def test_the_simulator_counts_the_same(name):
    kernel, grid, block, arguments = SAME[name]
    in_python = sim(kernel, quiet=True)[grid, block](*arguments())
    in_c = inspect(cuda_c(kernel), quiet=True)[grid, block](*arguments())
    assert by_array(in_c.counters) == by_array(in_python.counters)
