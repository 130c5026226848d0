"""Every op and one training step of every rung on the GPU, small: for a sanitizer."""

import numpy as np

import weft
from weft import cases, native
from weft.mnist import Cnn, initial_weights, load

for op in cases.OPS:
    weft.check_op(op, target="cuda")
for rung in native.rungs("mnist", "cuda"):
    if "cuda" in rung.targets:
        with Cnn(rung.name, "cuda", max_batch=64) as cnn:
            cnn.data(load("train"), load("test"))
            cnn.set_weights(initial_weights(0))
            cnn.train(np.arange(64 + 37), 64, 0.1)
            assert np.isfinite(cnn.losses()).all()
            cnn.forward("test", np.arange(50))
        print("one step of", rung.name)
