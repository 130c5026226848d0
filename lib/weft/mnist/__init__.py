"""The main example: a CNN that our own kernels train on MNIST.

data        loads and verifies images and labels; orders the images of an epoch
trainer     defines what all trainers share; Cnn: the trainer of kernels/mnist/
python_cnn  PythonCnn: the same trainer with Python kernels
numpy_cnn   computes the CNN in NumPy, with one function per layer and per gradient
twin        Twin: the model in PyTorch, in each precision
rungs       maps a rung's name to its trainer; Config: the options of a run
weights     defines the parameters by name, their initial values, their files and the
            checkpoints; runs a step in float64
train       run(Config(...)) trains, times and compares
workers     connects the processes that train together, and finds one that hangs
workers_race  a step of several workers, timed against PyTorch's DDP
parallel    run(Config(...)) in each worker: agreement, checkpoints, training
launcher    launch() and Job start workers with torchrun
"""

from ..base.lazy import make_lazy

# Training with Cnn imports neither PyTorch nor the drawing modules.
__all__ = make_lazy(
    __name__,
    {
        "trainer": ("Cnn",),
        "launcher": ("Job", "launch"),
        "workers": ("Place", "WorkerError"),
        "data": ("DataError", "Split", "epoch_order", "load"),
        "python_cnn": ("PythonCnn",),
        "rungs": ("Config", "rungs", "trainer"),
        "train": ("Result", "run"),
        "twin": ("Twin", "TwinTrainer", "load_tensors", "precision"),
        "weights": ("exact_step", "initial_weights"),
    },
)
