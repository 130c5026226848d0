"""Small programs for a sanitizer: every op on the GPU, or steps of the rungs named.

python one_step.py ops
python one_step.py naive fused pdl
"""

import sys

import numpy as np

import weft
from weft import cases
from weft.mnist import Cnn, initial_weights, load

BATCH, REST = 9, 4  # every rung's kernels for few images; and two runs of sizes


def ops() -> None:
    for op in cases.OPS:
        weft.check_op(op, target="cuda")


def steps(rung: str) -> None:
    """Two of one size, which may work ahead, a smaller one, a forward pass."""
    with Cnn(rung, "cuda", max_batch=BATCH) as cnn:
        cnn.data(load("train").first(100), load("test").first(100))
        cnn.set_weights(initial_weights(0))
        cnn.train(np.arange(2 * BATCH + REST), BATCH, 0.1)
        assert np.isfinite(cnn.losses()).all()
        cnn.forward("test", np.arange(BATCH))


for name in sys.argv[1:]:
    ops() if name == "ops" else steps(name)
    print("done:", name, flush=True)
