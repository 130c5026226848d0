"""The sentence about a GPU names the rungs that its compute capability can run."""

import pytest

from weft.base import device
from weft.toolchain import native

T4, A100, H100, B200 = (7, 5), (8, 0), (9, 0), (10, 0)


@pytest.mark.parametrize(
    ("capability", "sentence"),
    {
        T4: "GPU, compute capability 7.5: strict fp32 and fp16's tensor cores run; "
        "bf16, tf32 and 3xTF32 need 8.0; TMA, wgmma and clusters need 9.0.",
        A100: "GPU, compute capability 8.0: strict fp32 and fp16's tensor cores run; "
        "TMA, wgmma and clusters need 9.0.",
        (8, 9): "GPU, compute capability 8.9: strict fp32 and fp16's tensor cores run; "
        "TMA, wgmma and clusters need 9.0.",
        H100: "GPU, compute capability 9.0: every kernel of the lab runs.",
        B200: "GPU, compute capability 10.0: all but wgmma runs, which only 9.0 has.",
        (
            6,
            1,
        ): "GPU, compute capability 6.1: the lab needs 7.5 or later. CUDA cells run "
        "on the CPU for arrays in host memory.",
    }.items(),
)
def test_a_card_is_described_by_what_it_cannot_run(capability, sentence):
    assert device.describe_capability("GPU", capability) == sentence


def test_without_a_gpu_cells_run_on_the_cpu(monkeypatch):
    monkeypatch.setattr(device, "count", lambda: 0)
    assert device.describe_card().startswith("No GPU: CUDA cells run on the CPU")


def test_the_current_gpu_is_described(monkeypatch):
    fakes = {"count": lambda: 1, "current_gpu": lambda: 0, "name": lambda index: "T4"}
    fakes["compute_capability"] = lambda index: T4
    for name, fake in fakes.items():
        monkeypatch.setattr(device, name, fake)
    assert device.describe_card().startswith("T4, compute capability 7.5: strict fp32")


def test_the_sentence_agrees_with_the_rungs_of_matmul():
    """NEEDS names the requirement of a rung: its precision, or a feature of Hopper."""
    needs = {"bf16": 80, "tf32": 80, "3xtf32": 80}
    for rung in native.rungs("matmul"):
        if "cuda" not in rung.targets:
            continue
        hopper = rung.name.startswith(("tma", "wgmma")) or rung.name == "k_groups"
        expected = 90 if hopper else needs.get(rung.precision, 0)
        assert max(rung.sm, 75) == max(expected, 75), rung.name
    assert [10 * major + minor for major, minor in device.NEEDS] == [80, 90]
