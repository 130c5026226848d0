"""python -m weft bench libraries: ways to a product, checked before they are timed."""

import pytest
import torch

from weft import __main__ as command
from weft.base.errors import ArgumentError
from weft.benchmarks import libraries
from weft.benchmarks.libraries import Product, find_bound
from weft.timing.results import read_json

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
ON_CPU = ["sgemm", "gemm_ex", "lt", "lt_epilogue", "xt"]
SIZES = [(1, 1, 1), (3, 5, 2), (17, 64, 33), (130, 7, 65)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", ON_CPU)
def test_a_way_multiplies_matrices_by_rows_of_any_shape(way, device):
    for m, k, n in SIZES:
        home = "cpu" if way == "xt" else device
        a, b = torch.randn(m, k, device=home), torch.randn(k, n, device=home)
        bias = torch.randn(n, device=home) if way == "lt_epilogue" else None
        product = Product(way, a, b, bias, device)
        assert product.c.isnan().all()
        for _ in range(2):  # the second call reuses the handle and the plan
            product.c.fill_(torch.nan)
            product.call()
            exact, bound = find_bound(a, b, tf32=way == "gemm_ex")
            if bias is not None:
                exact = (exact + bias).relu()
                bound = bound + 2**-23 * (exact.abs() + bound)
            assert ((product.c.double() - exact).abs() <= bound).all(), (m, k, n)


@pytest.mark.parametrize("change", ["swapped", "late", "nan", "tf32"])
def test_a_wrong_product_is_refused(change):
    a, b = torch.randn(2, 40, 40)
    exact, bound = find_bound(a, b)
    c = {"swapped": b @ a, "late": a @ b, "nan": a @ b, "tf32": a @ b}[change].clone()
    if change == "late":
        c[-1, -1] = 0
    elif change == "nan":
        c[3, 4] = torch.nan
    elif change == "tf32":  # 2^-11 is too large for an error of float32
        c *= 1 + 2**-11
    with pytest.raises(RuntimeError, match="sgemm: .* of 1600 numbers are wrong"):
        libraries._check_result("sgemm", c, exact, bound)
    assert "error" in libraries._check_result("sgemm", a @ b, exact, bound)


def test_absent_libraries_have_rows_with_the_reason(tmp_path, capsys):
    path = tmp_path / "libraries.json"
    words = f"bench libraries --rungs sgemm,cutlass,nccl --sizes 16 --json {path}"
    assert command.main(words.split()) == 0
    rows = {row["rung"]: row for row in read_json(path)["rows"]}
    assert rows["sgemm"]["us"] > 0 and rows["sgemm"]["first_us"] > 0
    assert rows["sgemm"]["lines"] == 13 and rows["sgemm"]["checked"]
    for name in "cutlass", "nccl":
        assert rows[name]["us"] is None and "needs a GPU" in rows[name]["absent"]
    assert "first_us: the first call" in capsys.readouterr().out


def test_an_unknown_way_is_one_error():
    with pytest.raises(ArgumentError, match="no way 'dgemm'; there are sgemm, gemm_ex"):
        libraries.rows(["dgemm"])


def test_random_numbers_and_transforms_are_checked(monkeypatch):
    monkeypatch.setattr(libraries, "NUMBERS", 1 << 17)
    monkeypatch.setattr(libraries, "POINTS", 1 << 10)
    rows = {row["rung"]: row for row in libraries.rows(["philox", "xorwow", "fft"])}
    assert rows["philox"]["same_bits"] and rows["xorwow"]["same_bits"]
    assert rows["philox"]["first_numbers"][:2] == [1851468003, 2243411547]
    assert rows["philox"]["first_numbers"] != rows["xorwow"]["first_numbers"]
    assert 0 < rows["fft"]["error"] < 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["cudnn", "nccl"])
def test_a_library_without_a_version_for_the_cpu_computes_the_right_result(name):
    (row,) = libraries.rows([name], "cuda")
    assert row["us"], row["absent"]
