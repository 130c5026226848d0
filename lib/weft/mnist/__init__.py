"""The main example: a CNN that our own kernels train on MNIST.

data        loads and verifies images and labels; orders the images of an epoch
trainer     defines what all trainers share; Cnn: the trainer of kernels/mnist/
python_cnn  PythonCnn: the same trainer with Python kernels
numpy_cnn   computes the CNN in NumPy, with one function per layer and per gradient
twin        Twin: the model in PyTorch, in each precision
rungs       maps a rung's name to its trainer; Config: the options of a run
weights     defines the parameters by name, their initial values and their file; runs a
            step in float64
train       run(Config(...)) trains, times and compares
"""

from ..base.lazy import make_lazy

# Training with Cnn imports neither PyTorch nor the drawing modules.
__all__ = make_lazy(
    __name__,
    {
        "trainer": ("Cnn",),
        "data": ("DataError", "Split", "epoch_order", "load"),
        "python_cnn": ("PythonCnn",),
        "rungs": ("Config", "rungs", "trainer"),
        "train": ("Result", "run"),
        "twin": ("Twin", "TwinTrainer", "load_tensors", "precision"),
        "weights": ("exact_step", "initial_weights"),
    },
)
