"""The main job: a CNN that trains on MNIST with our own kernels.

data.py     the images and labels, verified
trainer.py  what all trainers have in common
cnn.py      Cnn: the trainer of kernels/mnist/ as a Python object
weights.py  the parameters by name
twin.py     the same model in PyTorch
train.py    run(Config(...)): train, time, compare
plot.py     the pictures of a run
cli.py      python -m weft mnist
"""

from .cnn import Cnn
from .data import DataError, Split, load
from .train import Config, Result, run
from .twin import Twin, TwinTrainer, epoch_order, initial_weights, precision

__all__ = [
    "Cnn",
    "Config",
    "DataError",
    "Result",
    "Split",
    "Twin",
    "TwinTrainer",
    "epoch_order",
    "initial_weights",
    "load",
    "precision",
    "run",
]
