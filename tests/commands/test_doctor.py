"""The doctor looks at everything, faints at nothing, and gives a cure."""

import json

import torch

from weft.base.device import count_cores
from weft.cells.gpu import nvrtc
from weft.commands import doctor
from weft.pykernel.numba import gpu as numba_gpu
from weft.see.machine_code import compilation
from weft.toolchain import build, native, tools


def by_name(findings):
    return {f.name: f for f in findings}


def test_it_names_what_is_here_and_every_op():
    found = by_name(doctor.examine())
    assert str(count_cores()) in found["CPU"].value
    assert found["torch"].value == torch.__version__.split("+")[0] or (
        torch.__version__.startswith(found["torch"].value.split("+")[0])
    )
    for op in build.list_ops():
        assert "reference" in found[f"{op} on cpu"].value
    assert not any(f.needed and f.cure for f in found.values())


def test_it_says_which_rungs_do_not_run_and_why(monkeypatch):
    def rung(name: str, *targets: str, sm: int = 0, idea: str = "") -> native.Rung:
        return native.Rung("mnist", name, idea, "fp32", targets, sm, 0)

    rungs = [
        rung("reference", "cpu"),
        rung("naive", "cpu", "cuda"),
        rung("pdl", "cuda", sm=90),
        rung("cudnn", idea="absent: no headers"),
    ]
    on_cpu = "reference, naive; not pdl (GPU only), cudnn (absent: no headers)"
    assert doctor._describe_rungs(rungs, "cpu") == on_cpu
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6))
    assert doctor._describe_rungs(rungs, "cuda") == (
        "naive; not reference (CPU only), "
        "pdl (needs compute capability 9.0, this is 8.6), cudnn (absent: no headers)"
    )


def test_a_missing_compiler_has_its_cure_and_stops_the_lab(monkeypatch, capsys):
    monkeypatch.setattr(tools, "gxx", lambda: None)
    compiler = by_name(doctor._examine_compiler())["C++ compiler"]
    assert compiler.needed and "apt install g++" in compiler.cure


def test_it_says_whether_kernels_can_be_watched(monkeypatch):
    (found,) = doctor._examine_watch_build()
    assert not found.cure and "watch kernels" in found.value
    monkeypatch.setattr(doctor, "_FAULTY_CELL", "__global__ void overrun(int *x) {}")
    (found,) = doctor._examine_watch_build()
    assert "g++ 11" in found.cure and "misses a kernel" in found.value
    monkeypatch.setattr(tools, "gxx", lambda: None)
    monkeypatch.setattr(doctor, "_FAULTY_CELL", "__global__ void overrun(int *y) {}")
    (found,) = doctor._examine_watch_build()
    assert found.cure


def test_a_missing_ptxas_has_its_cure(monkeypatch):
    monkeypatch.setattr(compilation, "ptxas", lambda: None)
    found = by_name(doctor._examine_cells())["ptxas"]
    assert "pip install" in found.cure and not found.needed


def test_a_gpu_without_nvcc_has_its_cure(monkeypatch):
    monkeypatch.setattr(build, "nvcc", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "CUDA Toolkit" in doctor._examine_toolkit()[0].cure


def test_without_nvrtc_cells_run_on_the_cpu_and_the_cure_is_told(monkeypatch):
    monkeypatch.setattr(nvrtc, "explain_missing", lambda: "pip install it")
    found = by_name(doctor._examine_cells())["NVRTC"]
    assert "CPU" in found.value and found.cure == "pip install it" and not found.needed


def test_it_says_what_numba_runs_on(monkeypatch):
    (found,) = doctor._examine_numba()
    assert "simulator" in found.value or "GPU" in found.value
    monkeypatch.setattr(
        numba_gpu, "explain_unusable", lambda: "No NVVM (x): pip install it"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    (found,) = doctor._examine_numba()
    assert (found.value, found.cure) == ("No NVVM (x)", "pip install it")


def test_a_look_that_fails_is_a_finding_not_a_trace(monkeypatch):
    def _gpu():
        raise OSError("the driver is asleep")

    monkeypatch.setattr(doctor, "_examine_gpu", _gpu)
    assert "the driver is asleep" in by_name(doctor.examine())["gpu"].value


def test_json_holds_every_finding(tmp_path, capsys):
    import argparse

    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    path = tmp_path / "doctor.json"
    assert doctor.main(parser.parse_args(["--json", str(path)])) == 0
    written = json.loads(path.read_text())
    printed = capsys.readouterr().out
    assert written["machine"]["cores"] == count_cores()
    for finding in written["findings"]:
        assert finding["name"] in printed
