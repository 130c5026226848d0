"""The main job: a CNN that trains on MNIST with our own kernels.

data        the images and labels, verified; an epoch's order
trainer     the part that all trainers share
cnn         Cnn: the trainer of kernels/mnist/ as a Python object
python_cnn  PythonCnn: the same trainer with Python kernels
numpy_cnn   the CNN in NumPy: a function for each layer, and its gradient
twin        the same model in PyTorch, in each precision
rungs       map a rung's name to its trainer; the configuration of a run
weights     the parameters by name, their first values, their file; a step in float64
train       run(Config(...)): train, time, compare
"""

from ..base.lazy import make_lazy

# Training with Cnn imports neither PyTorch nor the drawing modules.
__all__ = make_lazy(
    __name__,
    {
        "cnn": ("Cnn",),
        "data": ("DataError", "Split", "epoch_order", "load"),
        "python_cnn": ("PythonCnn",),
        "rungs": ("Config", "rungs", "trainer"),
        "train": ("Result", "run"),
        "twin": ("Twin", "TwinTrainer", "precision"),
        "weights": ("exact_step", "initial_weights"),
    },
)
