"""The trainer's plain C rung against PyTorch in float64, at three vector widths.

The test builds the rung alone, once per instruction set. A few lines of C replace the
rest of the library and fill its memory with NaNs.
"""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tiers import only

torch = pytest.importorskip("torch")
F = torch.nn.functional

KERNELS = Path(__file__).parents[2] / "kernels"
FLAGS = "-std=gnu11 -O3 -fopenmp -Wall -Wextra -Werror -Wno-psabi -fPIC -shared"
MARCHES = ["native"]  # AVX-512 on many machines
if platform.machine() == "x86_64":
    MARCHES += ["x86-64"]  # SSE2
    MARCHES += ["x86-64-v3"] * ("avx2" in Path("/proc/cpuinfo").read_text())

GLUE = r"""
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mnist/cnn.h"
struct cnn_marks { int count; const char *name[64]; };
char message[256];
void cnn_mark(struct cnn_marks *m, const char *name, weft_stream stream) {
    (void)stream;
    if (m) m->name[m->count++] = name;
}
int weft_fail(int status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return status;
}
size_t cnn_param_count(const struct weft_cnn_config *c, int index) {
    const size_t c1 = c->channels1, c2 = c->channels2;
    const size_t h = c->hidden, in = c2 * (c->height / 4) * (c->width / 4);
    const size_t count[WEFT_CNN_PARAMS] = {
        9 * c1, c1, c1, c1, 9 * c1 * c2, c2, c2, c2,
        in * h, h, h * c->classes, c->classes};
    return count[index];
}
int cnn_take(struct cnn_memory *memory, void *pointer, size_t count,
             size_t size, const char *what, weft_stream stream) {
    (void)stream;
    const size_t bytes = (count * size + 255) / 256 * 256;
    void *piece = bytes >> 32 ? NULL : aligned_alloc(256, bytes);
    if (!piece) return weft_fail(WEFT_ENOMEM, "%s: %zu bytes", what, bytes);
    memory->pieces[memory->count++] = memset(piece, 0xff, bytes);
    memcpy(pointer, &piece, sizeof piece);
    return WEFT_OK;
}
void cnn_release(struct cnn_memory *memory) {
    for (int i = 0; i < memory->count; i++) free(memory->pieces[i]);
    memory->count = 0;
}
const struct cnn_impl *implementation(void) { return &cnn_reference; }
"""


class Config(ctypes.Structure):
    """struct weft_cnn_config."""

    _fields_ = [
        *((n, ctypes.c_int) for n in ["height", "width", "channels1", "channels2"]),
        *((n, ctypes.c_int) for n in ["hidden", "classes", "max_batch"]),
        *((n, ctypes.c_float) for n in ["eps", "mean", "std"]),
    ]


class Marks(ctypes.Structure):
    """struct cnn_marks of the glue."""

    _fields_ = [("count", ctypes.c_int), ("name", ctypes.c_char_p * 64)]


P, INT, FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_float


class Impl(ctypes.Structure):
    """struct cnn_impl."""

    _fields_ = [
        ("create", ctypes.CFUNCTYPE(INT, P, P, P)),
        ("destroy", ctypes.CFUNCTYPE(None, P)),
        ("step", ctypes.CFUNCTYPE(INT, P, P, P, P, P, INT, FLOAT, P, P)),
        ("forward", ctypes.CFUNCTYPE(INT, P, P, P, P, INT, P)),
        ("get", ctypes.CFUNCTYPE(INT, P, INT, INT, P, P)),
        ("set", ctypes.CFUNCTYPE(INT, P, INT, P, P)),
        ("bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, P)),
    ]


@pytest.fixture(scope="session", params=only(["native"], MARCHES))
def library(request, tmp_path_factory) -> ctypes.CDLL:
    """Build the rung for one instruction set."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing")
    folder = tmp_path_factory.mktemp("cnn")
    (folder / "glue.c").write_text(GLUE)
    sources = sorted((KERNELS / "mnist/reference").glob("cnn*.c"))
    out = folder / "cnn.so"
    command = ["gcc", *FLAGS.split(), f"-march={request.param}"]
    command += [f"-I{KERNELS}", "-o", out, *sources, folder / "glue.c", "-lm"]
    subprocess.run(command, check=True)
    lib = ctypes.CDLL(str(out))
    lib.implementation.restype = ctypes.POINTER(Impl)
    return lib


def pointer(array: np.ndarray) -> int:
    return array.ctypes.data


class Rung:
    """A model of the plain C rung on the images and labels of a data set."""

    def __init__(self, lib, config, images, labels):
        self.c, self.config = lib.implementation().contents, config
        self.images, self.labels = images, labels
        self.state = P()
        status = self.c.create(
            ctypes.addressof(self.state), ctypes.addressof(config), 0
        )
        if status:
            message = (ctypes.c_char * 256).in_dll(lib, "message")
            raise MemoryError(status, message.value.decode())

    def close(self):
        self.c.destroy(self.state)

    def set(self, params):
        for i, p in enumerate(params):
            p = np.ascontiguousarray(p.detach().numpy(), np.float32)
            self.c.set(self.state, i, pointer(p), 0)

    def get(self, kind, like):
        arrays = []
        for i, p in enumerate(like):
            out = np.full(p.shape, np.nan, np.float32)
            self.c.get(self.state, kind, i, pointer(out), 0)
            arrays.append(torch.from_numpy(out))
        return arrays

    def step(self, order, lr, marks=None):
        order, loss = np.asarray(order, np.int32), np.full(1, np.nan, np.float32)
        arrays = map(pointer, (loss, self.images, self.labels, order))
        marks = ctypes.addressof(marks) if marks else 0
        self.c.step(self.state, *arrays, len(order), lr, marks, 0)
        return float(loss[0])

    def forward(self, order):
        order = np.asarray(order, np.int32)
        logits = np.full((len(order), self.config.classes), np.nan, np.float32)
        arrays = map(pointer, (logits, self.images, order))
        self.c.forward(self.state, *arrays, len(order), 0)
        return torch.from_numpy(logits)


def parameters(config, generator, gamma=None):
    """Return the twelve parameters as float64 copies of float32 numbers, with gammas of
    either sign."""
    c1, c2, hidden = config.channels1, config.channels2, config.hidden
    fan = c2 * (config.height // 4) * (config.width // 4)
    shapes = [(c1, 1, 3, 3), (c1,), (c1,), (c1,), (c2, c1, 3, 3), (c2,), (c2,), (c2,)]
    shapes += [(hidden, fan), (hidden,), (config.classes, hidden), (config.classes,)]
    params = []
    for i, shape in enumerate(shapes):
        p = torch.randn(shape, generator=generator)
        if len(shape) > 1:
            p *= (2 / np.prod(shape[1:])) ** 0.5
        if i in (2, 6) and gamma is not None:
            p = torch.full(shape, float(gamma))
        params.append(p.double().requires_grad_())
    return params


def twin(config, params, images):
    """Return the logits that PyTorch computes in the precision of params."""
    x = (images.to(params[0].dtype) / 255 - config.mean) / config.std
    x = x[:, None]
    for i in (0, 4):
        x = F.conv2d(x, params[i], params[i + 1], padding=1)
        args = (None, None, params[i + 2], params[i + 3], True, 0.1, config.eps)
        x = F.max_pool2d(F.relu(F.batch_norm(x, *args)), 2)
    x = F.relu(F.linear(x.flatten(1), params[8], params[9]))
    return F.linear(x, params[10], params[11])


def data_set(config, count, generator, constant=False):
    size = (count, config.height, config.width)
    images = torch.randint(0, 256, size, generator=generator, dtype=torch.uint8)
    # The images become smooth, as digits are.
    images = F.avg_pool2d(images.float(), 3, 1, 1).to(torch.uint8)
    if constant:
        images[:] = images[:, :1, :1]
    labels = torch.randint(0, config.classes, (count,), generator=generator)
    return images, labels.to(torch.uint8)


# (height, width, channels1, channels2, hidden, classes, batch) of each model
SHAPES = [
    (28, 28, 32, 64, 128, 10, 37),
    (4, 4, 1, 1, 1, 1, 1),
    (5, 7, 3, 2, 5, 3, 4),
    (13, 11, 17, 33, 31, 37, 7),
    (9, 29, 31, 5, 64, 300, 3),
    (19, 23, 33, 65, 129, 11, 33),
    (6, 70, 2, 3, 2, 2, 130),
]


def relative_error(got, want):
    got, want = got.detach().double(), want.detach().double()
    return float((got - want).norm() / want.norm()) if want.any() else got.norm()


def compare(library, shape, seed, gamma=None, constant=False):
    """Compare one step with float64; return the relative error of each gradient."""
    *sizes, batch = shape
    g = torch.Generator().manual_seed(seed)
    config = Config(*sizes, batch + 2, 1e-5, 0.1307, 0.3081)
    images, labels = data_set(config, batch + 5, g, constant)
    params = parameters(config, g, gamma)
    order = torch.randperm(batch + 5, generator=g)[:batch]
    logits = twin(config, params, images[order])
    loss = F.cross_entropy(logits, labels[order].long())
    loss.backward()

    rung = Rung(library, config, images.numpy(), labels.numpy())
    rung.set(params)
    assert all(map(torch.equal, rung.get(0, params), [p.float() for p in params]))
    assert relative_error(rung.forward(order), logits) < 1e-5
    assert abs(rung.step(order, 0.125) - loss.item()) < 1e-5 * max(1, loss.item())
    gradients = rung.get(1, params)
    for w, p, d in zip(rung.get(0, params), params, gradients, strict=True):
        torch.testing.assert_close(w, p.float() - 0.125 * d, rtol=1e-6, atol=1e-7)
    rung.close()
    for bias in (1, 5):  # batch norm removes it: PyTorch's gradient is rounding noise
        assert not gradients[bias].any()
        params[bias].grad.zero_()
    pairs = zip(gradients, params, strict=True)
    return np.array([relative_error(d, p.grad) for d, p in pairs])


@pytest.mark.parametrize("shape", only(SHAPES[1:4], SHAPES), ids=str)
def test_loss_and_gradients(library, shape):
    """Check several seeds. Where a ReLU or a pool is within rounding of a kink, fp32
    may decide differently from float64. Then a gradient differs by one of very many
    terms. This happens by chance and only for some seeds, but a mistake affects every
    seed."""
    errors = np.array([compare(library, shape, seed) for seed in range(3)])
    assert (errors.min(0) < 5e-6).all(), errors
    assert (errors < 0.05).all(), errors


@pytest.mark.parametrize("gamma", [0.0, -1.0, 1.0])
def test_gamma_of_one_sign(library, gamma):
    errors = compare(library, (8, 12, 3, 4, 16, 5, 6), 1, gamma)
    assert (errors < 1e-5).all(), errors


def test_constant_images(library):
    """Train on images whose patches differ only at the borders."""
    shape = (12, 12, 4, 5, 16, 5, 6)
    errors = compare(library, shape, 2, constant=True)
    assert (errors < 1e-4).all(), errors


def model(library, batch=9):
    g = torch.Generator().manual_seed(5)
    config = Config(12, 12, 5, 6, 16, 4, batch, 1e-5, 0.1307, 0.3081)
    images, labels = data_set(config, 50, g)
    rung = Rung(library, config, images.numpy(), labels.numpy())
    rung.set(parameters(config, g))
    return rung


def test_same_seed_same_bits(library):
    """Run two models with steps of several sizes: the bits are equal each time."""
    runs = []
    for _ in range(2):
        rung = model(library)
        losses = [rung.step(range(n, 2 * n), 0.1) for n in (9, 1, 4, 9)]
        runs.append((losses, rung.forward(range(9))))
        rung.close()
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])


def test_training_learns(library):
    """Let the model memorise nine images with random labels."""
    rung = model(library)
    losses = [rung.step(range(9), 0.05) for _ in range(100)]
    rung.close()
    assert losses[-1] < 0.1 * losses[0]


def test_a_diverged_model_shows(library):
    """Check that ReLU and pool preserve a NaN among the weights, and that new weights
    remove it completely."""
    rung = model(library)
    params = rung.get(0, parameters(rung.config, torch.Generator()))
    loss = rung.step(range(9), 0.1)
    for index in (0, 3, 4, 7, 8):
        broken = [p.clone() for p in params]
        broken[index].view(-1)[0] = np.nan
        rung.set(broken)
        assert np.isnan(rung.step(range(9), 0.1)), index
        rung.set(params)
        assert rung.step(range(9), 0.1) == loss, index
    rung.close()


def test_sections_have_names(library):
    rung, marks = model(library), Marks()
    rung.step(range(9), 0.1, marks)
    rung.close()
    names = [name.decode() for name in marks.name[: marks.count]]
    layers = {"conv1", "bn1", "relu1", "pool1", "conv2", "bn2", "relu2", "pool2"}
    layers |= {"fc1", "relu3", "fc2"}
    for way in ("forward", "backward"):
        joined = "+".join(n.split(".")[1] for n in names if n.startswith(way))
        assert layers <= set(joined.split("+"))
    assert {"batch", "update"} <= set(names)


def test_out_of_memory(library):
    config = Config(28, 28, 32, 64, 128, 10, 2**30, 1e-5, 0, 1)
    with pytest.raises(MemoryError, match="bytes"):
        Rung(library, config, np.zeros(0), np.zeros(0))
