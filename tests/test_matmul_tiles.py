"""Rungs 1 to 3 of the matmul ladder do what their files say of them."""

import pytest
import torch

from weft import ops
from weft.build import BuildError, nvcc
from weft.jit import disassembler
from weft.machine import sass


def _disassembler() -> bool:
    try:
        return "cuobjdump" not in disassembler.tool()
    except BuildError:
        return False


def test_the_naive_rung_takes_more_columns_than_a_grid_has_blocks_in_y():
    n = 65535 * 16 + 17
    a, b = torch.full((1, 1), 3.0), torch.arange(n, dtype=torch.float32).reshape(1, n)
    assert torch.equal(ops.matmul(a, b, rung="naive"), 3 * b)


@pytest.mark.skipif(not nvcc() or not _disassembler(), reason="no nvcc, or no nvdisasm")
def test_a_tile_is_slow_for_its_unknown_width_not_for_dynamic_memory():
    def loads_per_multiply_add(rung):
        view = sass(f"kernels/matmul/03_{rung}.cu", f"matmul_{rung}", arch="sm_80")
        most = max(view.kernels[0].loops, key=lambda counts: counts.get("FMA", 0))
        return most["shared load"] / most["FMA"]

    constant = loads_per_multiply_add("tiled")
    assert constant == 1.25
    assert loads_per_multiply_add("tiled_dynamic") == constant
    assert loads_per_multiply_add("tiled_runtime") == 2
