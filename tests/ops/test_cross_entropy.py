"""cross_entropy: lengths, the order of the losses, equal bits, and the gradient."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiers import in_two_lists, naming_case, only

import weft
from weft.base.errors import ArgumentError
from weft.ops.cases.rows import bound_powers, bound_softmax
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("cross_entropy")]
KERNELS = [name for name in RUNGS if name != "reference"]
THREADS, WARP, PIECE = 256, 32, 4096


def draw(n: int, classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits (n,classes) and targets (n)."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, classes, generator=generator)
    return logits, torch.randint(classes, (n,), generator=generator)


def call(
    rung: str, logits: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return loss (1), prob and dlogits (n,classes) of a rung, from poisoned memory."""
    library = native.library("cross_entropy", "cpu")
    index, sizes = library.rung(rung).index, logits.shape
    loss, prob = torch.full((1,), torch.nan), torch.full_like(logits, torch.nan)
    dlogits, to = torch.full_like(logits, torch.nan), native.pointer
    targets = to(target, "int64_t *")
    library.call(
        *("weft_cross_entropy", index, to(loss), to(prob), to(logits), targets),
        *(*sizes, native.NULL),
    )
    library.call(
        *("weft_cross_entropy_backward", index, to(dlogits), native.NULL, to(prob)),
        *(targets, *sizes, native.NULL),
    )
    return loss, prob, dlogits


def want_entropy(rung: str, logits: torch.Tensor, target: torch.Tensor) -> None:
    """Assert that a rung's results are within their bounds of float64's."""
    loss, prob, dlogits = call(rung, logits, target)
    y, _, total = bound_powers(logits)
    rows = F.cross_entropy(logits.double(), target, reduction="none")
    bound = bound_softmax(logits) + 2.0**-126
    assert ((prob.double() - y).abs() <= bound).all()
    n, u = len(target), 2.0**-24
    # The logarithm is at most log(classes); the differences are those of logits.
    size = np.log(logits.shape[1]) + (logits.amax(1) - logits.amin(1)).double()
    row_bound = 1.01 * total[:, 0] + 7 * u * size
    assert abs(loss.double() - rows.mean()) <= (row_bound + (n + 1) * u * rows).mean()
    want = (y - F.one_hot(target, logits.shape[1])) / n
    assert ((dlogits.double() - want).abs() <= (bound + 4 * u) / n).all()


@pytest.mark.parametrize("powers", in_two_lists([3, 5, 10], range(1, 15)))
@pytest.mark.parametrize("rung", RUNGS)
def test_numbers_of_classes_next_to_powers_of_two(rung, powers):
    for classes in (2**power + one for power in powers for one in (-1, 0, 1)):
        with naming_case(classes):
            want_entropy(rung, *draw(2, classes))


@pytest.mark.slow
@pytest.mark.parametrize("rung", [*KERNELS[3:], "reference"])
def test_vocabularies_larger_than_any_shared_memory(rung):
    # 32 blocks of the CPU target keep at most 32 * 24,576 numbers.
    want_entropy(rung, *draw(1, 800_000))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [25_000, 25_001])
def test_groups_of_blocks_take_one_row_after_the_other(classes):
    want_entropy("split_rows", *draw(40, classes))


def add_in_order(losses: np.ndarray) -> np.float32:
    """Add float32 numbers in the documented order: threads, lanes, then warps."""

    def add_tree(values: np.ndarray) -> np.ndarray:
        while values.shape[-1] > 1:
            half = values.shape[-1] // 2
            values = values[..., :half] + values[..., half:]
        return values[..., 0]

    sums = []
    for first in range(0, len(losses), PIECE):
        part = losses[first : first + PIECE]
        part = np.pad(part, (0, -len(part) % THREADS)).reshape(-1, THREADS)
        own = np.zeros(THREADS, np.float32)
        for row in part:
            own += row
        sums.append(add_tree(add_tree(own.reshape(-1, WARP))))
    return sums[0] if len(sums) == 1 else add_in_order(np.array(sums))


@pytest.mark.parametrize("n", only([5, 257], [5, 257, 4097, 9000]))
@pytest.mark.parametrize("rung", ["online", "short_rows"])
def test_losses_are_added_in_an_order_that_depends_only_on_their_number(rung, n):
    logits, target = draw(n, 3)
    losses = np.empty(n, np.float32)
    for i in range(n):
        losses[i] = call(rung, logits[i : i + 1], target[i : i + 1])[0].item()
    if rung == "short_rows":  # a block adds the losses of 256 rows first
        parts = [losses[i : i + THREADS] for i in range(0, n, THREADS)]
        losses = np.array([add_in_order(part) for part in parts])
    assert call(rung, logits, target)[0].item() == add_in_order(losses) / np.float32(n)


@pytest.mark.parametrize("classes", [10, 1100])
@pytest.mark.parametrize("rung", KERNELS)
def test_the_bits_depend_on_no_schedule(rung, classes):
    library = native.library("cross_entropy", "cpu")
    logits, target = draw(3 if classes > 32 else 300, classes)
    expected = call(rung, logits, target)
    try:
        for order in (1, 2, 3, 17, 1234567):
            library.call("weft_set_order", order)
            for got, want in zip(call(rung, logits, target), expected):
                assert torch.equal(got, want), order
    finally:
        library.call("weft_set_order", 0)


@pytest.mark.parametrize(
    "n, classes", [(900, 10), (9, 1000), (1, 70_001), (1, 300_001)]
)
def test_the_bits_of_plain_c_depend_on_no_number_of_threads(n, classes):
    library = native.library("cross_entropy", "cpu")
    logits, target = draw(n, classes)
    found = set()
    try:
        for threads in (1, 2, 5):
            library.call("weft_set_threads", threads)
            results = call("reference", logits, target)
            found.add(b"".join(one.numpy().tobytes() for one in results))
    finally:
        library.call("weft_set_threads", 0)
    assert len(found) == 1


@pytest.mark.parametrize(
    "n, classes", [(1, 5000), (3, 1366), (1400, 3), (5000, 1), (2, 4096), (410, 20)]
)
def test_the_gradient_has_the_bits_of_the_naive_one(n, classes):
    """The tiles of 4096 elements begin and end within rows."""
    logits, target = draw(n, classes)
    library = native.library("cross_entropy", "cpu")
    prob, to = logits.softmax(1), native.pointer
    dloss, found = torch.tensor([0.7]), []
    for rung in ("naive", "tuned"):
        dlogits = torch.full_like(prob, torch.nan)
        library.call(
            *("weft_cross_entropy_backward", library.rung(rung).index, to(dlogits)),
            *(to(dloss), to(prob), to(target, "int64_t *"), n, classes, native.NULL),
        )
        found.append(dlogits)
    assert torch.equal(*found) and found[0].isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("n, classes", [(4200, 1024), (300, 16_400), (34, 130_001)])
def test_plain_c_stores_large_results_past_the_caches(n, classes):
    want_entropy("reference", *draw(n, classes))


def test_a_bad_target_is_refused_on_the_host_and_not_hidden_on_a_gpu(device):
    logits = torch.zeros(2, 40, device=device, requires_grad=True)
    target = torch.tensor([0, 40], device=device)
    rungs = native.library("cross_entropy", device.type).here()
    for rung in (rung.name for rung in rungs):
        if device.type == "cpu":
            with pytest.raises(ArgumentError, match=r"target\[1\] = 40, want 0 to 39"):
                weft.cross_entropy(logits, target, rung=rung)
        else:
            loss = weft.cross_entropy(logits, target, rung=rung)
            (gradient,) = torch.autograd.grad(loss, logits)
            assert loss.isnan()
            assert gradient[0].isfinite().all() and gradient[1].isnan().all()
