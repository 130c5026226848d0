"""The main job: a CNN that trains on MNIST with our own kernels.

data        the images and labels, verified; an epoch's order
trainer     what all trainers have in common
cnn         Cnn: the trainer of kernels/mnist/ as a Python object
python_cnn  PythonCnn: the same trainer with Python kernels
numpy_cnn   the CNN in NumPy: a function for each layer, and its gradient
twin        the same model in PyTorch, in each precision and in float64
rungs       the trainer that a rung's name stands for; the configuration of a run
weights     the parameters by name, their first values, their file
train       run(Config(...)): train, time, compare
"""

from ..base.lazy import make_lazy

# A training with Cnn imports neither PyTorch nor what draws.
__all__ = make_lazy(
    __name__,
    {
        "cnn": ("Cnn",),
        "data": ("DataError", "Split", "epoch_order", "load"),
        "python_cnn": ("PythonCnn",),
        "rungs": ("Config", "rungs", "trainer"),
        "train": ("Result", "run"),
        "twin": ("Twin", "TwinTrainer", "exact_step", "precision"),
        "weights": ("initial_weights",),
    },
)
