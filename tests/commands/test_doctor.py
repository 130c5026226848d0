"""The doctor examines everything, faints at nothing, and prescribes a cure."""

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
    findings = by_name(doctor.examine())
    assert str(count_cores()) in findings["CPU"].value
    assert findings["torch"].value == torch.__version__.split("+")[0] or (
        torch.__version__.startswith(findings["torch"].value.split("+")[0])
    )
    for op in build.list_ops():
        assert "reference" in findings[f"{op} on cpu"].value
    assert not any(f.needed and f.cure for f in findings.values())


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
        "pdl (needs compute capability 9.0, but this is 8.6), cudnn "
        "(absent: no headers)"
    )


def test_a_missing_compiler_has_its_cure_and_stops_the_lab(monkeypatch, capsys):
    monkeypatch.setattr(tools, "gxx", lambda: None)
    compiler = by_name(doctor._examine_compiler())["C++ compiler"]
    assert compiler.needed and "apt install g++" in compiler.cure


def test_it_says_whether_kernels_can_be_watched(monkeypatch):
    (finding,) = doctor._examine_watch_build()
    assert not finding.cure and "watch kernels" in finding.value
    monkeypatch.setattr(doctor, "_FAULTY_CELL", "__global__ void overrun(int *x) {}")
    (finding,) = doctor._examine_watch_build()
    assert "g++ 11" in finding.cure and "misses a kernel" in finding.value
    monkeypatch.setattr(tools, "gxx", lambda: None)
    monkeypatch.setattr(doctor, "_FAULTY_CELL", "__global__ void overrun(int *y) {}")
    (finding,) = doctor._examine_watch_build()
    assert finding.cure


def test_a_missing_ptxas_has_its_cure(monkeypatch):
    monkeypatch.setattr(compilation, "ptxas", lambda: None)
    finding = by_name(doctor._examine_cells())["ptxas"]
    assert "pip install" in finding.cure and not finding.needed


def test_a_gpu_without_nvcc_has_its_cure(monkeypatch):
    monkeypatch.setattr(build, "nvcc", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "CUDA Toolkit" in doctor._examine_toolkit()[0].cure


def test_without_nvrtc_cells_run_on_the_cpu_and_the_cure_is_told(monkeypatch):
    monkeypatch.setattr(nvrtc, "explain_missing", lambda: "pip install it")
    finding = by_name(doctor._examine_cells())["NVRTC"]
    assert (
        "CPU" in finding.value
        and finding.cure == "pip install it"
        and not finding.needed
    )


def test_it_says_what_numba_runs_on(monkeypatch):
    (finding,) = doctor._examine_numba()
    assert "simulator" in finding.value or "GPU" in finding.value
    monkeypatch.setattr(
        numba_gpu, "explain_unusable", lambda: "No NVVM (x): pip install it"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    (finding,) = doctor._examine_numba()
    assert (finding.value, finding.cure) == ("No NVVM (x)", "pip install it")


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
    document = json.loads(path.read_text())
    output = capsys.readouterr().out
    assert document["machine"]["cores"] == count_cores()
    for finding in document["findings"]:
        assert finding["name"] in output


def test_a_hosted_notebook_is_examined_by_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.delenv("KAGGLE_KERNEL_RUN_TYPE", raising=False)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    monkeypatch.setenv("WEFT_KEEP", "")
    names = [one.name for one in doctor._examine_packages()]
    assert "jupyterlab" in names
    assert not doctor._suggest_gpu() and not doctor._examine_progress().cure
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")
    names = [one.name for one in doctor._examine_packages()]
    assert "jupyterlab" not in names and "anywidget" in names
    assert "Runtime > Change runtime type" in doctor._suggest_gpu()
    assert "weft.keep(" in doctor._examine_progress().cure
    monkeypatch.setenv("WEFT_KEEP", str(tmp_path))
    assert doctor._examine_progress() == doctor.Examination("progress", str(tmp_path))
    monkeypatch.setenv("WEFT_KEEP", str(tmp_path / "unmounted" / "weft"))
    assert "No such file" in doctor._examine_progress().value
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    assert "Settings > Accelerator" in doctor._suggest_gpu()


def test_a_cure_names_the_package_of_torchs_cuda_release(monkeypatch):
    import torch

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(doctor.build, "nvcc", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    (finding,) = doctor._examine_toolkit()
    assert finding.cure.endswith("pip install nvidia-cuda-nvcc-cu12")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    (finding,) = doctor._examine_toolkit()
    assert finding.cure.endswith("pip install nvidia-cuda-nvcc")
