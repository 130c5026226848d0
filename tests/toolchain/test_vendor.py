"""The table of NVIDIA's libraries, and the files of kernels/vendor that call them."""

import importlib.metadata

import pytest
import torch

from weft.base.errors import BuildError, KernelError
from weft.toolchain import vendor

KEYS = list(vendor.LIBRARIES)
ON_CPU = [key for key, library in vendor.LIBRARIES.items() if library.cpu]
MOST = 60  # maximum number of lines of a file
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_each_file_has_a_line_of_the_table_and_is_short():
    files = {path.stem: path for path in vendor.SOURCES.glob("*.c*")}
    assert files.keys() == vendor.LIBRARIES.keys()
    lines = {key: len(path.read_text().splitlines()) for key, path in files.items()}
    assert max(lines.values()) <= MOST, lines


@pytest.mark.parametrize("key", ON_CPU)
def test_a_library_of_the_cpu_has_every_declared_function(key):
    """The declarations of a file are those that Python calls, too."""
    opened = vendor.open_library(key, "cpu")
    names = [name for name in dir(opened.C) if callable(getattr(opened.C, name, None))]
    assert any(name.startswith("cu") for name in names), names
    assert any(name.startswith(f"{key}_") for name in names), names


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ON_CPU])
def test_a_library_without_a_version_for_the_cpu_is_one_error(key):
    with pytest.raises(BuildError, match=f"{key}.cu?: its library needs a GPU"):
        vendor.open_library(key, "cpu")


def test_a_status_is_an_error_with_the_words_of_the_library():
    blas = vendor.open_library("blas", "cpu")
    with pytest.raises(
        KernelError, match=r"^cublasDestroy_v2: status 1: .*initialized"
    ):
        blas.call("cublasDestroy_v2", blas.ffi.NULL)


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_library_names_its_wheel(key, monkeypatch):
    def fail(name):
        raise OSError("lib.so: cannot open shared object file")

    monkeypatch.setattr(vendor, "_load", fail)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0.2")
    lack, wheel = vendor.explain_missing(key), vendor.LIBRARIES[key].wheel
    assert "cannot open shared object file): pip install " in lack
    assert f"pip install {wheel.partition('{')[0]}" in lack


def test_the_names_of_wheels_follow_the_release_of_cuda(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert vendor.suggest_wheel("blas") == "pip install nvidia-cublas-cu12"
    assert vendor.suggest_wheel("dnn_graph") == "pip install nvidia-cudnn-cu12"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert vendor.suggest_wheel("blas") == "pip install nvidia-cublas"
    assert vendor.suggest_wheel("nccl") == "pip install nvidia-nccl-cu13"
    assert vendor.suggest_wheel("cub") == "pip install cuda-cccl==1.0.2"
    assert vendor.suggest_wheel("cutlass") == "pip install nvidia-cutlass"


def test_another_release_of_cub_is_refused_since_its_structs_differ(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.1")
    lack = vendor.explain_missing("cub")
    assert "cuda-cccl 1.2.1 has other structs): pip install cuda-cccl==1.0.2" in lack


@needs_gpu
@pytest.mark.parametrize("key", ON_CPU)
def test_a_library_of_the_gpu_opens(key):
    assert vendor.open_library(key, "cuda").path.exists()
