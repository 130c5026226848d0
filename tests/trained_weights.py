"""Train the weights that come with the lab, and with which lesson 15a begins.

python tests/trained_weights.py trains the CNN for two epochs on the CPU by the schedule
of the race. It writes lib/weft/mnist/files/trained.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT)]

import numpy as np  # noqa: E402
import torch  # noqa: E402

from weft.base import store  # noqa: E402
from weft.benchmarks.race.milestones import TARGET, Ours  # noqa: E402
from weft.mnist import epoch_order, initial_weights, load  # noqa: E402
from weft.mnist.weights import TRAINED  # noqa: E402
from weft.toolchain import native  # noqa: E402


def main() -> None:
    """Train, and write the weights in float16."""
    native.set_threads(1)  # on a busy machine, a second thread gains nothing
    train, test = load("train"), load("test")
    ours = Ours("reference", TARGET, torch.device("cpu"), train, test)
    ours.start(initial_weights(0))
    for epoch, first, end, rate in TARGET.pieces(len(train)):
        ours.train(epoch_order(0, epoch, len(train))[first:end], rate)
    print(f"{100 * ours.accuracy():.2f} % correct on the test set")
    half = {n: x.astype(np.float16) for n, x in ours.cnn.weights.items()}
    with store.replace_file(TRAINED) as part, open(part, "wb") as file:
        np.savez_compressed(file, **half)
    TRAINED.chmod(0o644)
    print(f"{TRAINED.relative_to(ROOT)}: {TRAINED.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
