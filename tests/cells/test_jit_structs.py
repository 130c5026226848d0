"""Structs and arrays of arrays as arguments: kernels access the arrays in them."""

import numpy as np
import pytest
import torch

from weft import inspect
from weft.base.errors import ArgumentError, KernelFault
from weft.cells import OrderDependence, load_cuda, structs
from weft.cells.gpu import loader as gpu
from weft.cells.gpu import nvrtc

SOURCE = """
#include <cuda_fp16.h>
#define N 3
struct In { short s; double d; };
struct All { char c; In in[2]; float m[2][N]; bool ok; half h; };
struct Pair { const float *x; float *y; int n; };
struct Two { Pair p; int k; };
struct __align__(16) Wide { float a; float *p; };
struct Ends { float *ends[2]; };
struct Node { float v; Node *next; };
struct Bits { int a : 3, b : 5; };
__global__ void all(double *out, All v) {
    double found[] = {(double)v.c, (double)v.in[1].s, v.in[1].d, v.m[1][2],
                      (double)v.ok, (double)__half2float(v.h)};
    for (int i = 0; i < 6; i++) out[i] = found[i];
}
__global__ void add(Pair p) {
    int i = threadIdx.x;
    if (i < p.n && p.x) p.y[i] += p.x[i];
}
__global__ void unguarded(Pair p) { p.y[threadIdx.x] = 1; }
__global__ void two(Two t) { t.p.y[threadIdx.x] = t.k * t.p.x[threadIdx.x]; }
__global__ void wide(Wide w) { w.p[threadIdx.x] = w.a; }
__global__ void ends(Ends e) { e.ends[1][0] = e.ends[0][0]; }
__global__ void rows(float **r, int m) {
    for (int i = 0; i < m; i++) r[i][threadIdx.x] += i + 1;
}
__global__ void pairs(const Pair *p, int m) {
    for (int i = 0; i < m; i++) p[i].y[0] += p[i].n;
}
__global__ void swap(float **r) { float *t = r[0]; r[0] = r[1], r[1] = t; }
__global__ void walk(Node *n, float *sum) { for (; n; n = n->next) *sum += n->v; }
__global__ void last(Pair p) { p.y[0] = threadIdx.x; }
__global__ void bits(int *out, Bits b) { *out = b.a; }
"""
PAIR = np.dtype([("x", "u8"), ("y", "u8"), ("n", "i4")], align=True)
NODE = np.dtype([("v", "f4"), ("next", "u8")], align=True)


@pytest.fixture(scope="module", params=["watched", "plain"])
def k(request):
    return load_cuda(SOURCE, target="cpu", watched=request.param == "watched")


def arrays(*sizes):
    return [torch.arange(float(size)) for size in sizes]


def test_members_of_every_kind_have_the_offsets_of_c(k):
    out = np.zeros(6)
    k.all[1, 1](out, (1, ((2, 3.0), (4, 5.0)), ((1, 2, 3), (4, 5, 6)), True, 0.5))
    assert out.tolist() == [1, 4, 5, 6, 1, 0.5]


def test_a_tuple_with_arrays_is_a_struct(k):
    x, y = arrays(4, 4)
    k.add[1, 8]((x, y, 4))
    k.add[1, 8]((None, y, 4))
    assert y.tolist() == [0, 2, 4, 6] and x.tolist() == [0, 1, 2, 3]
    k.two[1, 4](((x.numpy(), y, 4), 3))
    k.wide[1, 1]((9.0, x))
    k.ends[1, 1](((y[2:], x[1:]),))
    assert y.tolist() == [0, 3, 6, 9] and x.tolist() == [9, 6, 2, 3]


@pytest.mark.parametrize("form", ["scalar", "zero-dimensional", "bytes"])
def test_a_structured_scalar_holds_addresses(k, form):
    x, y = arrays(4, 4)
    pair = np.array((x.data_ptr(), y.data_ptr(), 4), PAIR)
    forms = {"scalar": pair[()], "bytes": pair.tobytes()}
    k.add[1, 8](forms.get(form, pair))
    assert y.tolist() == [0, 2, 4, 6]


def test_lists_and_arrays_of_addresses(k):
    x, y = arrays(2, 2)
    k.rows[1, 2]([x, y], 2)
    addresses = torch.tensor([x.data_ptr(), y.data_ptr()])
    before = addresses.clone()
    k.rows[1, 2](addresses, 2)
    assert x.tolist() == [2, 3] and y.tolist() == [4, 5]
    assert torch.equal(addresses, before)
    k.swap[1, 1](addresses)
    assert torch.equal(addresses, before.flip(0))
    with pytest.raises(
        ArgumentError, match=r"float \*\*r: the kernel wrote into .*list"
    ):
        k.swap[1, 1]([x, y])


def test_arrays_of_structs(k):
    x, y = arrays(1, 1)
    k.pairs[1, 1]([(x, y, 3), (None, x, 4)], 2)
    assert (x.item(), y.item()) == (4, 3)
    table = np.array([(0, y.data_ptr(), 5), (0, x.data_ptr(), 6)], PAIR)
    k.pairs[1, 1](table, 2)
    assert (x.item(), y.item()) == (10, 8)


def test_a_list_of_nodes_is_walked_through_its_own_addresses(k):
    nodes, total = np.zeros(3, NODE), np.zeros(1, np.float32)
    nodes["v"] = 1, 2, 3
    nodes["next"][:2] = nodes.ctypes.data + 16 * np.arange(1, 3)
    k.walk[1, 1](nodes, total)
    k.walk[1, 1]([(4.0, [(5.0, None)])], total)
    assert total[0] == 15


def test_arrays_in_a_struct_are_fenced(k):
    x, y = arrays(4, 4)
    with pytest.raises(KernelFault, match=r"p\.y\[4\]"):
        k.unguarded[1, 5]((x, y, 4))
    assert y.tolist() == [0, 1, 2, 3]
    pair = np.array((0, y.data_ptr(), 4), PAIR)
    with pytest.raises(KernelFault, match=r"p\.y\[4\]"):
        k.unguarded[1, 5](pair)


REFUSED = [
    (
        "add",
        [lambda x, y: (x, y)],
        r"a tuple \(const float \*x, .*\), but got 2 values",
    ),
    ("add", [lambda x, y: x], r"Pair p: pass Pair as a tuple .* got float32\[4\]"),
    ("add", [lambda x, y: (x, y, 4.5)], r"int n of Pair p: .*but got 4\.5"),
    (
        "add",
        [lambda x, y: (x.double(), y, 4)],
        r"\*x of Pair p: expects float32.*float64",
    ),
    ("add", [lambda x, y: (x, y[::2], 4)], r"\*y of Pair p: .*not contiguous"),
    ("add", [lambda x, y: (x, "y", 4)], r"\*y of Pair p: expects an array"),
    ("add", [lambda x, y: bytes(20)], r"has 24 bytes, but 20 are given"),
    (
        "two",
        [lambda x, y: (x, y, 4, 3)],
        r"a tuple \(Pair p, int k\), but got 4 values",
    ),
    ("ends", [lambda x, y: ((x,),)], r"\*ends of Ends e: expects \[2\]"),
    ("rows", [lambda x, y: [x, y.double()], 2], r"float \*\*r: expects float32"),
    ("rows", [lambda x, y: x, 2], r"expects addresses .* or a list of arrays"),
    ("bits", [lambda x, y: y.int(), (1, 2)], r"pass Bits as one element .* or bytes"),
]


@pytest.mark.parametrize(("name", "args", "words"), REFUSED)
def test_an_error_names_the_member_that_does_not_fit(k, name, args, words):
    x, y = arrays(4, 4)
    with pytest.raises(ArgumentError, match=words) as error:
        getattr(k, name)[1, 4](*(a(x, y) if callable(a) else a for a in args))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([("x", "u8"), ("y", "u8"), ("n", "f4")], r"int n: expects int32, not float32"),
        ([("x", "u8"), ("n", "i4"), ("y", "u8")], r"float \*y has 8 bytes, n 4"),
        ([("x", "u8"), ("y", "u8")], r"Pair has 24 bytes, but 16 are given"),
    ],
)
def test_an_error_names_the_member_that_a_dtype_misfits(k, fields, words):
    with pytest.raises(ArgumentError, match=words):
        k.add[1, 1](np.zeros((), np.dtype(fields, align=True)))


def test_check_compares_arrays_in_structs():
    checked = load_cuda(SOURCE, target="cpu", check=True)
    with pytest.raises(OrderDependence, match=r"p\.y\[0\] depends on the order"):
        checked.last[1, 4]((None, torch.zeros(1), 0))


def test_inspect_accepts_the_arguments_of_a_launch():
    x, y = np.zeros(4, np.float32), np.arange(4, dtype=np.float32)
    source = """
    struct Pair { float *x; const float *y; };
    __global__ void copy(Pair p) { p.x[threadIdx.x] = p.y[threadIdx.x]; }
    __global__ void rows(float **a) { a[0][threadIdx.x] += a[1][threadIdx.x]; }
    """
    cell = load_cuda(source, target="cpu")
    assert inspect(cell.copy, quiet=True)[1, 4]((x, y)).ok
    assert inspect(cell.rows, quiet=True)[1, 4]([x, y]).ok
    assert x.tolist() == [0, 2, 4, 6]


def test_in_place_the_addresses_are_the_arrays_own():
    x, y = arrays(4, 4)
    load_cuda(SOURCE, target="cpu", inplace=True).add[1, 4]((x, y, 4))
    assert y.tolist() == [0, 2, 4, 6]


def test_structs_with_unsupported_parts_have_no_layout():
    for text in (
        "struct A { virtual void f(); int a; };",
        "struct A : B { int a; };",
        "template <class T> struct A { T a; };",
        "struct A { union { int a; float b; }; };",
        "#pragma pack(1)\nstruct A { char a; int b; };",
        "struct A { int a[UNKNOWN]; };",
        "struct A { void (*f)(int); };",
    ):
        assert structs.find_layout(text, "A") is None
    layout = structs.find_layout(
        "enum { M = 1 << 2 }; struct alignas(32) A { int a = 3, *b, c[M][2u]; "
        "A() : a(1) {} __device__ int get() const { return a; } static int s; };",
        "A",
    )
    assert [m.offset for m in layout.members] == [0, 8, 16]
    assert (layout.size, layout.align) == (64, 32)
    assert [at for at, _ in layout.pointers] == [8]


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_nvrtc_and_python_agree_on_the_layout_of_structs():
    layouts = structs.list_layouts(SOURCE)
    checks = [f"static_assert(sizeof({n}) == {s.size});" for n, s in layouts.items()]
    source = "\n".join([SOURCE, *checks])
    text = gpu.compile_only(source, "sm_80", ["all"]).program.ptx
    assert len(layouts) == 7 and ".entry" in text
