"""The arguments of a GPU launch, received by a C function that replaces the driver."""

import contextlib
import subprocess
import threading

import numpy as np
import pytest
import torch
from cffi import FFI

from weft.base import device
from weft.base.errors import ArgumentError, DeviceLost
from weft.cells import arguments
from weft.cells.gpu import launch
from weft.csource import signature
from weft.toolchain import launch_config, native

# The stand-in copies the configuration and 16 bytes at each address, like a driver.
STAND_IN = """
#include <stdint.h>
#include <string.h>
struct config {
    unsigned grid[3], block[3], shared;
    uintptr_t stream;
    unsigned *attributes;
    unsigned count;
};
extern "C" {
struct config seen;
uintptr_t function;
unsigned attribute[2];
unsigned char bytes[16][16];
int arguments_wanted, status;
int cuLaunchKernelEx(uintptr_t c, uintptr_t f, uintptr_t a, uintptr_t extra) {
    void **table = (void **)a;
    seen = *(struct config *)c;
    function = f;
    if (seen.count) memcpy(attribute, seen.attributes, 4);
    if (seen.count) memcpy(attribute + 1, seen.attributes + 2, 4);
    for (int i = 0; i < arguments_wanted; i++) memcpy(bytes[i], table[i], 16);
    return extra ? 1 : status;
}
}
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    path = tmp_path_factory.mktemp("launch") / "stand_in.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=STAND_IN, text=True, check=True)
    ffi = FFI()
    ffi.cdef(device.PROTOTYPES)
    ffi.cdef("""
    struct config { unsigned grid[3], block[3], shared; uintptr_t stream;
                    uintptr_t attributes; unsigned count; };
    extern struct config seen; extern uintptr_t function;
    extern unsigned attribute[2]; extern unsigned char bytes[16][16];
    extern int arguments_wanted, status;
    """)
    lib = ffi.dlopen(str(path))
    lib.status = 0
    return lib


class Kernel:
    """A kernel whose launches go to the stand-in; its arrays are on the CPU."""

    def __init__(self, stand_in, source, sizes=None, **target):
        (self.signature,) = signature.parse(source)
        self.C, self.plans, self.after = stand_in, [], []
        parts = self.signature.name, self.signature.params
        self.binder = arguments.Binder(*parts, source)
        self.target = launch.LaunchTarget(
            **{
                "call": stand_in.cuLaunchKernelEx,
                "plan": self.plan,
                "stream": lambda device: 5,
                "enter": self.enter,
                "fail": self.fail,
                "default": lambda: -1,
                "kind": "cpu",
                **target,
            }
        )
        if sizes:
            self.binder.check_sizes(sizes, len(sizes))
        self.launch = launch.GpuLauncher(self.binder, self.target)
        self.at = {}
        stand_in.arguments_wanted = len(self.signature.params)

    def plan(self, device, grid, block, shared):
        self.plans.append((device, grid, block, shared))
        config = launch_config.parse(self.signature.name, (grid, block, shared))
        return launch.LaunchPlan(77, config.grid, config.block, shared)

    @contextlib.contextmanager
    def enter(self, device):
        if native.explain_lost():
            raise DeviceLost(native.explain_lost())
        yield

    def fail(self, status, device):
        raise RuntimeError(f"status {status} on {device}")

    def __call__(self, *args, grid=1, block=1, shared=0, stream=None):
        shape = grid, block, shared
        if stream is None:
            key = repr(shape)
            self.at[key] = self.at.get(key) or self.launch.at(*shape)
            self.at[key](*args)
        else:
            self.launch(*shape, stream, args)
        return [bytes(self.C.bytes[i]) for i in range(len(args))]


EIGHT = """__global__ void eight(float *out, const float *a, const half *b,
    const int *c, const unsigned char *d, float scale, int n, size_t m) {}"""


def tensors():
    return [
        *(torch.zeros(12), torch.ones(3, 4), torch.ones(2, dtype=torch.float16)),
        torch.ones(5, dtype=torch.int32),
        torch.ones(5, dtype=torch.uint8),
    ]


def number(data, dtype):
    return np.frombuffer(data, dtype)[0]


@pytest.mark.parametrize("launches", [1, 2, 3])
def test_every_argument_arrives_as_its_c_type(stand_in, launches):
    """The first launch takes the careful path, and later ones take the quick path."""
    kernel, arrays = Kernel(stand_in, EIGHT), tensors()
    for _ in range(launches):
        data = kernel(*arrays, 0.1, -7, 2**63, grid=(2, 3), block=64, shared=48)
    for address, array in zip(data, arrays):
        assert number(address, np.uint64) == array.data_ptr()
    assert number(data[5], np.float32) == np.float32(0.1)
    assert (number(data[6], np.int32), number(data[7], np.uint64)) == (-7, 2**63)
    launched = stand_in.seen
    shape = *launched.grid, *launched.block, launched.shared
    assert shape == (2, 3, 1, 64, 1, 1, 48)
    assert (launched.stream, launched.count, stand_in.function) == (5, 0, 77)
    assert len(kernel.plans) == 1


def test_many_kinds_of_scalars(stand_in):
    source = """__global__ void all(const float *x, bool b, char c, unsigned char u,
        short s, unsigned short v, unsigned w, long long l, double d, half h,
        float2 f, int3 i, float4 q) {}"""
    kernel, x = Kernel(stand_in, source), torch.zeros(1)
    args = (True, -128, 255, -3, 65535, 2**32 - 1, -(2**63), 0.1, 0.5)
    vectors = (1.0, 2.0), (3, 4, 5), (1.0, 2.0, 3.0, 4.0)
    kernel(x, *args, *vectors)
    kernel(x, *args, *vectors)
    data = kernel(x, *args, *vectors)
    assert len(kernel.plans) == 1  # later launches took the quick path
    codes = ["?", "i1", "u1", "i2", "u2", "u4", "i8", "f8", "f2"]
    assert [number(d[: np.dtype(c).itemsize], c) for d, c in zip(data[1:], codes)] == [
        *args
    ]
    assert np.frombuffer(data[10][:8], "f4").tolist() == [1, 2]
    assert np.frombuffer(data[11][:12], "i4").tolist() == [3, 4, 5]
    assert np.frombuffer(data[12], "f4").tolist() == [1, 2, 3, 4]


def test_structs_and_bfloat16_take_the_careful_way(stand_in):
    source = """struct P { float x; int n; };
    __global__ void k(float *out, P p, __nv_bfloat16 b) {}"""
    kernel = Kernel(stand_in, source, sizes=[8, 8, 2])
    p = np.zeros((), np.dtype([("x", "f4"), ("n", "i4")], align=True))
    p["x"], p["n"] = 2.5, 9
    for _ in range(2):
        _, data, half = kernel(torch.zeros(1), p, 1.0)
        assert (number(data, "f4"), number(data[4:], "i4")) == (2.5, 9)
        assert number(half, "u2") == 0x3F80
    with pytest.raises(ArgumentError, match="has 8 bytes, but 12 are given"):
        kernel(torch.zeros(1), b"x" * 12, 1.0)


def test_arrays_in_a_struct_are_addresses(stand_in):
    source = """struct P { float *x; int n; };
    __global__ void k(P p, float **rows) {}"""
    kernel, x, y = Kernel(stand_in, source, sizes=[16, 8]), torch.ones(3), torch.ones(4)
    addresses = torch.tensor([x.data_ptr(), y.data_ptr()])
    p, rows = kernel((x, 7), addresses)
    assert (number(p, "u8"), number(p[8:], "i4")) == (x.data_ptr(), 7)
    assert number(rows, "u8") == addresses.data_ptr()
    for struct in ((x.double(), 7), (x, 7.5), (x,)):
        with pytest.raises(ArgumentError, match="P p"):
            kernel(struct, None)


WRONG = [
    ({0: torch.zeros(12, dtype=torch.float64)}, "float \\*out: expects float32"),
    ({1: torch.ones(4, 3).t()}, "const float \\*a: the array is not contiguous"),
    ({3: torch.ones(5, dtype=torch.int64)}, "const int \\*c: expects int32"),
    ({0: torch.zeros(12, requires_grad=True)}, "requires a gradient"),
    ({4: 3}, "expects an array, but got 3"),
    ({5: "x"}, "float scale: .*'x'"),
    ({5: 1e39}, "float scale: .*1e\\+39"),
    ({6: 2.0}, "int n: int takes a whole number.*2.0"),
    ({6: 2**31}, "int n: int ranges from -2147483648 to 2147483647.*2147483648"),
    ({7: -1}, "size_t m: .*ranges from 0 to"),
    ({5: torch.zeros(2)}, "float scale"),
]


@pytest.mark.parametrize("change, message", WRONG)
@pytest.mark.parametrize("warm", [False, True])
def test_an_argument_that_does_not_fit_is_named(stand_in, change, message, warm):
    kernel, args = Kernel(stand_in, EIGHT), [*tensors(), 0.1, 7, 8]
    for _ in range(3 * warm):
        kernel(*args)
    for place, value in change.items():
        args[place] = value
    with pytest.raises(ArgumentError, match=f"eight: .*{message}"):
        kernel(*args)


def test_a_wrong_count_is_refused_with_the_parameters(stand_in):
    kernel, args = Kernel(stand_in, EIGHT), [*tensors(), 0.1, 7, 8]
    for count, arguments_ in ((7, args[:-1]), (9, [*args, 9])):
        with pytest.raises(ArgumentError, match=f"takes 8 .* {count} are given"):
            kernel(*arguments_)


@pytest.mark.parametrize("shape", [0, -1, 1.5, (1, 2, 3, 4), (), "4", (4, 0), None])
def test_an_invalid_grid_is_refused(stand_in, shape):
    kernel, args = Kernel(stand_in, EIGHT), [*tensors(), 0.1, 7, 8]
    with pytest.raises(ArgumentError, match="eight: grid .*(whole|empty|1 to 3)"):
        kernel(*args, grid=shape)


def test_grids_of_every_spelling(stand_in):
    kernel, args = Kernel(stand_in, EIGHT), [*tensors(), 0.1, 7, 8]
    for grid in (4, (4,), (4, 1, 1), [4, 1], np.int64(4), torch.Size([4])):
        for _ in range(2):
            kernel(*args, grid=grid)
            assert tuple(stand_in.seen.grid) == (4, 1, 1)


def test_null_and_other_streams(stand_in):
    kernel = Kernel(stand_in, "__global__ void k(float *o, const int *maybe) {}")
    x = torch.zeros(1)
    assert number(kernel(x, None)[1], np.uint64) == 0
    for stream, expected in [(9, 9), (type("S", (), {"cuda_stream": 11})(), 11)]:
        kernel(x, None, stream=stream)
        assert stand_in.seen.stream == expected
    protocol = type("S", (), {"__cuda_stream__": lambda self: (0, 13)})()
    kernel(x, None, stream=protocol)
    assert stand_in.seen.stream == 13
    with pytest.raises(ArgumentError, match="is not a stream"):
        kernel(x, None, stream="fast")


def test_float4_arrays_must_be_aligned(stand_in):
    kernel = Kernel(stand_in, "__global__ void k(float4 *o) {}")
    x = torch.zeros(20)
    start = -x.data_ptr() % 16 // 4
    good, bad = x[start : start + 8], x[start + 1 : start + 9]
    for _ in range(2):
        kernel(good)
        with pytest.raises(ArgumentError, match="not a multiple of 16"):
            kernel(bad)
        with pytest.raises(
            ArgumentError, match="not a multiple of 16, the size of float4"
        ):
            kernel(good[:6])


def test_cooperative_launches_have_the_attribute(stand_in):
    kernel = Kernel(
        stand_in, "__global__ void k(float *o) {}", attributes=launch.COOPERATIVE
    )
    for _ in range(3):
        stand_in.attribute[0:2] = [0, 0]
        kernel(torch.zeros(1))
        assert (stand_in.seen.count, *stand_in.attribute) == (1, 2, 1)
        assert stand_in.seen.stream == 5
    assert len(kernel.plans) == 1


def test_a_failing_launch_and_a_lost_context(stand_in, monkeypatch):
    kernel, x = Kernel(stand_in, "__global__ void k(float *o) {}"), torch.zeros(1)
    for _ in range(2):
        monkeypatch.setattr(stand_in, "status", 719)
        with pytest.raises(RuntimeError, match="status 719 on -1"):
            kernel(x)
        monkeypatch.setattr(stand_in, "status", 0)
        kernel(x)
    monkeypatch.setattr(native, "_lost", "")
    native.mark_lost("restart the kernel")
    native.mark_lost("a later reason")
    with pytest.raises(DeviceLost, match="restart the kernel"):
        kernel(x)


def test_a_thread_without_a_context_gets_one(stand_in):
    devices = []

    def call(*args):
        return 0 if devices else 201

    @contextlib.contextmanager
    def enter(device):
        devices.append(device)
        yield

    kernel = Kernel(stand_in, "__global__ void k(float *o) {}", call=call, enter=enter)
    kernel(torch.zeros(1))
    devices.clear()
    kernel(torch.zeros(1))
    assert devices == [-1]


def test_after_is_called_after_each_launch(stand_in):
    calls = []
    kernel = Kernel(
        *(stand_in, "__global__ void k(float *o) {}"),
        after=lambda device, stream: calls.append((device, stream)),
    )
    for _ in range(3):
        kernel(torch.zeros(1))
    assert calls == 3 * [(-1, 5)]


def test_another_current_device_takes_the_careful_way(stand_in):
    current = [-1]
    source = "__global__ void k(float *o) {}"
    kernel = Kernel(stand_in, source, current=lambda: current[0])
    x = torch.zeros(1)
    for _ in range(3):
        kernel(x)
    assert len(kernel.plans) == 1
    current[0] = 1
    kernel(x)
    assert len(kernel.plans) == 2


def test_threads_do_not_share_the_memory_of_a_launch(stand_in):
    """cffi releases the GIL during the call, so another thread packs meanwhile."""
    failures, x = [], torch.zeros(1)
    local = threading.local()

    def call(configuration, function, table, extra):
        value = np.ctypeslib.as_array(
            (np.ctypeslib.ctypes.c_uint64 * 2).from_address(table)
        )[1]
        first = np.ctypeslib.ctypes.c_int.from_address(int(value)).value
        threading.Event().wait(0.0005)
        second = np.ctypeslib.ctypes.c_int.from_address(int(value)).value
        if not first == second == local.number:
            failures.append((first, second, local.number))
        return 0

    kernel = Kernel(stand_in, "__global__ void k(float *o, int n) {}", call=call)

    launch_it = kernel.launch.at(1, 1)

    def work(number):
        local.number = number
        for _ in range(20):
            launch_it(x, number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_numpy_arrays_and_numbers_are_accepted(stand_in):
    kernel = Kernel(stand_in, "__global__ void k(float *o, float a, int n) {}")
    x = np.zeros(3, np.float32)
    for scalars in [(np.float32(2), np.int64(3)), (torch.tensor(2.0), torch.tensor(3))]:
        data = kernel(x, *scalars)
        assert number(data[0], np.uint64) == x.ctypes.data
        assert (number(data[1], "f4"), number(data[2], "i4")) == (2, 3)
