"""Machine code only: no library embeds PTX, and no cell loads it.

A driver compiles PTX only if it is not older than the compiler. In Colab the driver is
often older, and reports CUDA_ERROR_UNSUPPORTED_PTX_VERSION.
"""

import contextlib
import re
import struct
import subprocess

import pytest
from tiers import only

from weft.base.paths import LIB, ROOT
from weft.cells.gpu import driver, loader, nvrtc
from weft.toolchain import build

PTX, ELF = 1, 2  # the kinds of entries in a fatbin
CODE = "__global__ void set(float *x) { x[threadIdx.x] = 1; }\n"
needs_nvcc = pytest.mark.skipif(not build.nvcc(), reason="needs nvcc")
needs_nvrtc = pytest.mark.skipif(
    bool(nvrtc.explain_missing()), reason=nvrtc.explain_missing()
)


def kinds_of(binary: bytes) -> set[int]:
    """Return the kinds of code that nvcc has embedded in an object or a library."""
    kinds = set()
    for match in re.finditer(re.escape(struct.pack("<I", 0xBA55ED50)), binary):
        _, _, header, size = struct.unpack_from("<IHHQ", binary, match.start())
        at = match.start() + header
        end = at + size
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", binary, at)
            kinds.add(kind)
            at += header + size
    return kinds


def compile_with(command, tmp_path) -> bytes:
    source, target = tmp_path / "set.cu", tmp_path / "set.o"
    source.write_text(CODE)
    subprocess.run([*command, str(source), "-o", str(target)], check=True)
    return target.read_bytes()


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize("sm", only(["90a"], ["75", "90a"]))
def test_libraries_embed_machine_code_only(sm, tmp_path):
    command = build._make_command(
        build.KERNELS / "relu.cu", build.Flavour("cuda", sm=sm)
    )
    assert kinds_of(compile_with([*command, "-Xcompiler=-fPIC"], tmp_path)) == {ELF}
    library = tmp_path / "set.so"
    flavour = build.Flavour("cuda", sm=sm)
    link = build._linker_command(library.name, [str(tmp_path / "set.o")], flavour, [])
    subprocess.run([*link, "-o", str(library)], check=True)
    assert kinds_of(library.read_bytes()) == {ELF}


@pytest.mark.slow
@needs_nvcc
def test_embedded_ptx_would_be_found(tmp_path):
    command = [build.nvcc(), "-c", "-arch=sm_75"]
    assert kinds_of(compile_with(command, tmp_path)) == {PTX, ELF}


@needs_nvrtc
def test_a_cell_loads_machine_code_of_the_gpu(monkeypatch):
    module = loader.compile_only(CODE, "sm_75", ["set"])
    images = []
    monkeypatch.setattr(driver, "use_device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(driver, "load", lambda image, doing: images.append(image) or 1)
    monkeypatch.setattr(loader, "_check_driver", lambda doing: None)
    monkeypatch.setattr(loader, "name_arch", lambda device: "sm_75")
    assert module._module(0) == 1
    assert [image[:4] for image in images] == [b"\x7fELF"]


def test_only_the_loader_of_cells_loads_code():
    """Another caller of the driver would need a test like the one above."""
    loads = re.compile(r"cuModuleLoadData\w*\(|cuLibraryLoad|cuLink(?:Create|Add)")
    files = [path for path in LIB.rglob("*.py") if loads.search(path.read_text())]
    names = {str(path.relative_to(ROOT)) for path in files}
    assert names == {"lib/weft/cells/gpu/driver.py", "lib/weft/base/device.py"}
