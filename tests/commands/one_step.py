"""Small programs for a sanitizer: every op on the GPU, or steps of the named rungs.

python one_step.py ops
python one_step.py naive fused pdl
"""

import sys

import numpy as np

import weft
from weft.mnist import Cnn, initial_weights, load
from weft.ops import cases

BATCHES = (9, 140)  # for fewer images than blocks, a large GPU runs other kernels


def ops() -> None:
    for op in cases.OPS:
        weft.check_op(op, target="cuda")


def steps(rung: str, batch: int) -> None:
    """Run two equal steps, which may work ahead, a smaller one, and a forward pass."""
    with Cnn(rung, "cuda", max_batch=batch) as cnn:
        cnn.data(load("train").first(500), load("test").first(500))
        cnn.set_weights(initial_weights(0))
        cnn.train(np.arange(2 * batch + batch // 2), batch, 0.1)
        assert np.isfinite(cnn.losses()).all()
        cnn.forward("test", np.arange(batch))


for name in sys.argv[1:]:
    if name == "ops":
        ops()
    else:
        for batch in BATCHES:
            steps(name, batch)
    print("done:", name, flush=True)
